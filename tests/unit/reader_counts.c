/* Counts what the reader finds in each file it is given, as JSON lines: for test_reader_counts.py, which compares them
 * with what an independent parser counted. Checks on the way that the order is canonical. */
#include "proto/etl/etl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A table of counts by a text key. */
typedef struct tally {
    struct {
        char key[64];
        uint64_t count;
    } * rows;

    size_t count, capacity;
} tally;

static void count(tally *t, const char *key) {
    /* kinds come in runs, and there are few: from the latest hit on, a linear search is quick enough */
    static const size_t start = 64;
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].key, key) == 0) {
            t->rows[i].count++;
            if (i > 0) { /* what is frequent comes to the front */
                if (t->rows[i].count > t->rows[i - 1].count) {
                    char text[64];
                    uint64_t n = t->rows[i].count;
                    memcpy(text, t->rows[i].key, sizeof text);
                    t->rows[i] = t->rows[i - 1];
                    memcpy(t->rows[i - 1].key, text, sizeof text);
                    t->rows[i - 1].count = n;
                }
            }
            return;
        }
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : start;
        t->rows = realloc(t->rows, t->capacity * sizeof *t->rows);
        if (!t->rows)
            exit(1);
    }
    snprintf(t->rows[t->count].key, sizeof t->rows[t->count].key, "%s", key);
    t->rows[t->count++].count = 1;
}

static void print_tally(const char *name, tally *t) {
    printf(", \"%s\": {", name);
    for (size_t i = 0; i < t->count; i++)
        printf("%s\"%s\": %" PRIu64, i ? ", " : "", t->rows[i].key, t->rows[i].count);
    printf("}");
    free(t->rows);
}

static void print_text(const char *name, const char *value) {
    ea_text t;
    ea_text_init(&t);
    ea_text_json_str(&t, value);
    printf(", \"%s\": %s", name, t.data ? t.data : "null");
    ea_text_deinit(&t);
}

static int after(const ea_record *a, const ea_record *b) {
    if (a->time_raw != b->time_raw)
        return a->time_raw > b->time_raw;
    if (a->cpu != b->cpu)
        return a->cpu > b->cpu;
    return a->position > b->position;
}

static int count_file(const char *path) {
    static ea_counters counters;
    memset(&counters, 0, sizeof counters);
    ea_etl_options options = {.counters = &counters};
    ea_err err;
    ea_etl_set *set;
    const ea_record *r;
    if (ea_etl_open(&set, &path, 1, &options, &err)) {
        ea_err_print(stderr, "reader_counts", &err);
        return 1;
    }
    tally headers = {0}, kernel = {0}, classic = {0}, providers = {0}, items = {0}, flags = {0}, cpus = {0},
          channels = {0};
    uint64_t events = 0, disorder = 0, pmc = 0, pebs = 0, messages = 0;
    ea_record last = {0};
    int rc;
    while ((rc = ea_etl_next(set, &r, &err)) > 0) {
        char key[64], guid[40];
        if (events && after(&last, r))
            disorder++;
        last = *r;
        events++;
        snprintf(key, sizeof key, "%u", r->header_type);
        count(&headers, key);
        snprintf(key, sizeof key, "%u", r->cpu);
        count(&cpus, key);
        ea_guid_format(&r->provider, guid);
        switch (r->header_type) {
        case EA_HEADER_FULL32:
        case EA_HEADER_FULL64:
        case EA_HEADER_INSTANCE32:
        case EA_HEADER_INSTANCE64:
            snprintf(key, sizeof key, "%s/%u v%u", guid, r->opcode, r->header_word);
            count(&classic, key);
            break;
        case EA_HEADER_EVENT32:
        case EA_HEADER_EVENT64:
            count(&providers, guid);
            snprintf(key, sizeof key, "0x%04X", r->flags);
            count(&flags, key);
            snprintf(key, sizeof key, "%u", r->channel);
            count(&channels, key);
            for (unsigned i = 0; i < r->ext_count; i++) {
                snprintf(key, sizeof key, "%u", r->ext[i].type);
                count(&items, key);
            }
            break;
        case EA_HEADER_MESSAGE:
            messages++;
            break;
        default:
            snprintf(key, sizeof key, "%u/%u v%u", r->hook_id >> 8, r->hook_id & 0xff,
                     r->header_type == EA_HEADER_PERFINFO32 || r->header_type == EA_HEADER_PERFINFO64 ? r->version
                                                                                                      : r->header_word);
            count(&kernel, key);
            pmc += ea_record_ext(r, EA_EXT_PMC_COUNTERS) != NULL;
            pebs += ea_record_ext(r, EA_EXT_PEBS_INDEX) != NULL;
            break;
        }
    }
    if (rc < 0) {
        ea_err_print(stderr, "reader_counts", &err);
        return 1;
    }
    const ea_etl_info *i = ea_etl_file_info(set, 0);
    printf("{\"events\": %" PRIu64 ", \"disorder\": %" PRIu64 ", \"pmc\": %" PRIu64 ", \"pebs\": %" PRIu64
           ", \"messages\": %" PRIu64,
           events, disorder, pmc, pebs, messages);
    printf(", \"size\": %" PRIu64 ", \"buffer_size\": %u, \"os\": \"%u.%u sub %u.%u\", \"build\": %u, \"cpus\": %u",
           i->file_bytes, i->buffer_size_bytes, i->os_version & 255, i->os_version >> 8 & 255,
           i->os_version >> 16 & 255, i->os_version >> 24, i->os_build, i->cpu_count);
    printf(", \"ptr\": %u, \"mode\": \"0x%08X\", \"buffers_written\": %u, \"buffers\": %" PRIu64
           ", \"events_lost\": %u, \"buffers_lost\": %u, \"mhz\": %u",
           i->pointer_size, i->log_file_mode, i->buffers_written, i->buffer_count, i->events_lost, i->buffers_lost,
           i->cpu_mhz);
    printf(", \"perf_freq\": %" PRId64 ", \"start\": %" PRId64 ", \"end\": %" PRId64
           ", \"clock\": %u, \"tz_bias\": %d, \"compression\": %u",
           i->perf_frequency, i->start_filetime, i->end_filetime, i->clock_type, i->bias_minutes, i->compression);
    print_text("session_name", i->session_name);
    print_text("log_file_name", i->log_file_name);
    printf(", \"bad_records\": %" PRIu64 ", \"bad_buffers\": %" PRIu64 ", \"late\": %" PRIu64,
           ea_counter_get(&counters, EA_COUNT_source_bad_records),
           ea_counter_get(&counters, EA_COUNT_source_bad_buffers),
           ea_counter_get(&counters, EA_COUNT_source_late_records));
    print_tally("headers", &headers);
    print_tally("kernel", &kernel);
    print_tally("classic", &classic);
    print_tally("providers", &providers);
    print_tally("ext", &items);
    print_tally("evflags", &flags);
    print_tally("cpus_seen", &cpus);
    print_tally("channels", &channels);
    printf("}\n");
    ea_etl_close(set);
    return 0;
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int i = 1; i < argc; i++)
        failed |= count_file(argv[i]);
    return failed;
}
