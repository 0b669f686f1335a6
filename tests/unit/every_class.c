/* Writes a trace with every class that we have a row for, in each of its versions, with random values, and reads it
 * back: each record and each value is what was written, and the values, written by the class, give the payload again.
 *
 * usage: every_class write --pointer-size 4|8 [--seed N] [--rounds N] TRACE
 * Prints how many records and values agreed as one JSON object, with the number of records a provider, opcode (or id)
 * and version, for tests/e2e/test_every_class.py. Exit code 1 at the first difference, which it names. Thread: one. */
#include "proto/base/cli.h"
#include "proto/base/text.h"
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "proto/event/encode.h"
#include "tests/unit/random_payload.h"

#include <inttypes.h>
#include <stdlib.h>

enum { START = 1000000 };

typedef struct options {
    uint64_t pointer_size, seed, rounds;
} options;

typedef struct job {
    const options *options;
    ea_registry *registry;
    random_payload payload;
    ea_etl_writer *writer;
    ea_etl_set *set;
    uint64_t records, values;
    ea_text counts;
    ea_arena arena;
    ea_err err;
} job;

/* The kernel group of a class GUID, -1 when there is none. */
static int group_of(const ea_guid *provider, uint8_t opcode) {
    for (unsigned group = 0; group < 0x20; group++)
        if (ea_guid_equal(ea_etl_group_of((uint16_t)(group << 8 | opcode)), provider))
            return (int)group;
    return -1;
}

/* What a record of this class looks like in a trace; kernel events take turns between the two kernel headers. */
static ea_record record_of(job *j, const ea_family *family, const ea_class_row *row, uint8_t version, uint64_t round) {
    ea_record r = {.provider = family->provider->guid,
                   .version = version,
                   .pointer_size = (uint8_t)j->options->pointer_size,
                   .time_raw = (int64_t)(START + j->records + 1),
                   .cpu = (uint16_t)(j->records % 3),
                   .pid = UINT32_MAX,
                   .tid = UINT32_MAX};
    int wide = r.pointer_size == 8;
    r.flags = wide ? EA_FLAG_64_BIT_HEADER : EA_FLAG_32_BIT_HEADER;
    if (!family->provider->classic) {
        r.id = row->code;
        r.header_type = wide ? EA_HEADER_EVENT64 : EA_HEADER_EVENT32;
        r.pid = 7;
        r.tid = 8;
        return r;
    }
    r.opcode = (uint8_t)row->code;
    r.flags |= EA_FLAG_CLASSIC_HEADER;
    int group = group_of(&r.provider, r.opcode);
    if (group < 0) {
        r.header_type = wide ? EA_HEADER_FULL64 : EA_HEADER_FULL32;
        r.header_word = version;
        r.pid = 7;
        r.tid = 8;
        return r;
    }
    r.hook_id = (uint16_t)(group << 8 | r.opcode);
    r.header_word = version;
    if (round % 2) {
        r.header_type = wide ? EA_HEADER_PERFINFO64 : EA_HEADER_PERFINFO32;
    } else {
        r.header_type = wide ? EA_HEADER_SYSTEM64 : EA_HEADER_SYSTEM32;
        r.pid = 7;
        r.tid = 8;
    }
    return r;
}

static int differs(job *j, const ea_class *c, const char *what) {
    return ea_fail(&j->err, EA_ECORRUPT, "%s version %u, record %" PRIu64 ": %s differs from what was written", c->name,
                   c->version, j->records, what);
}

/* The number of a plain integer as its bytes say, sign-extended. */
static uint64_t number_of(const ea_field *f, const uint8_t *p) {
    uint64_t v = 0;
    for (unsigned i = 0; i < f->width; i++)
        v |= (uint64_t)p[i] << 8 * i;
    if (f->type == EA_PORT)
        return (uint64_t)p[0] << 8 | p[1];
    int is_signed = f->type == EA_I8 || f->type == EA_I16 || f->type == EA_I32;
    if (is_signed && v >> (8 * f->width - 1))
        v |= ~(uint64_t)0 << 8 * f->width;
    return v;
}

static int is_integer(uint8_t type) {
    return (type >= EA_U8 && type <= EA_I64) || (type >= EA_BOOL8 && type <= EA_SIZE) || type == EA_PORT ||
           type == EA_FILETIME;
}

static int is_text(uint8_t type) {
    return type == EA_UTF16Z || type == EA_ANSIZ || type == EA_UTF8Z || type == EA_UTF16_REST;
}

/* The values of a record that was read, written by the class again, are the payload that was made. */
static int write_again(job *j, const ea_class *c, const ea_record *got) {
    static uint8_t out[EA_ETL_RECORD_MAX_BYTES];
    const ea_event_value *values;
    size_t n, used, made;
    ea_arena_reset(&j->arena);
    int rc = ea_event_read_values(c, got->payload, got->payload_bytes, &j->arena, &values, &n, &used, &j->err);
    if (!rc)
        rc = ea_event_write_values(c, values, n, out, sizeof out, &made, &j->err);
    if (!rc && c->status != EA_CLASS_UNKNOWN &&
        (made != j->payload.len_bytes || memcmp(out, j->payload.bytes, made) != 0))
        rc = differs(j, c, "the payload written from its values");
    return rc;
}

/* Every top-level value of one record that was read, against the payload that was made. */
static int compare_values(job *j, const ea_class *c, const ea_record *got) {
    ea_slice slices[EA_FIELDS_MAX];
    const random_payload *p = &j->payload;
    size_t used, whole = ea_class_split(c, got->payload, got->payload_bytes, slices, &used), field = 0;
    if (c->status != EA_CLASS_UNKNOWN && !ea_class_is_whole(c, whole, used, got->payload_bytes))
        return differs(j, c, "the number of whole fields");
    ea_text text;
    ea_text_init(&text);
    int rc = 0;
    for (size_t i = 0; i < whole && !rc; i++, field += c->fields[field].span, j->values++) {
        const ea_field *f = &c->fields[field];
        const uint8_t *bytes = p->bytes + p->tops[i].at;
        uint64_t v;
        if (slices[i].len_bytes != p->tops[i].len_bytes || memcmp(slices[i].data, bytes, slices[i].len_bytes) != 0)
            rc = differs(j, c, f->name);
        else if (f->type != EA_BYTES && f->width != 0 && slices[i].element_count != p->tops[i].element_count)
            rc = differs(j, c, f->name);
        else if (p->tops[i].element_count == 1 && f->count == 1 && f->count_field < 0 && is_integer(f->type) &&
                 (!ea_event_u64(c, got, f->name, &v) || v != number_of(f, bytes)))
            rc = differs(j, c, f->name);
        else if (f->count == 1 && f->count_field < 0 && is_text(f->type)) {
            size_t width = f->type == EA_UTF16Z || f->type == EA_UTF16_REST ? 2 : 1;
            size_t n = p->tops[i].len_bytes / width - (f->type != EA_UTF16_REST);
            ea_text_clear(&text);
            int same = ea_event_text(c, got, f->name, &text) && text.len_bytes == n;
            for (size_t k = 0; same && k < n; k++)
                same = (uint8_t)text.data[k] == bytes[k * width];
            if (!same)
                rc = differs(j, c, f->name);
        }
    }
    ea_text_deinit(&text);
    return rc;
}

/* One record, while writing or while reading. */
static int one(job *j, const ea_family *family, const ea_class_row *row, uint8_t version, uint64_t round) {
    ea_record made = record_of(j, family, row, version, round);
    const ea_class *c = ea_registry_find(j->registry, &made);
    random_payload_make(&j->payload, c);
    made.payload = j->payload.bytes;
    made.payload_bytes = (uint16_t)j->payload.len_bytes;
    j->records++;
    if (j->writer)
        return ea_etl_writer_add(j->writer, &made, &j->err);
    const ea_record *got;
    int rc = ea_etl_next(j->set, &got, &j->err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return differs(j, c, "the number of records");
    if (!ea_guid_equal(&got->provider, &made.provider) || got->opcode != made.opcode || got->id != made.id ||
        got->version != made.version || got->time_raw != made.time_raw || got->cpu != made.cpu ||
        got->pointer_size != made.pointer_size || got->header_type != made.header_type ||
        got->hook_id != made.hook_id || got->pid != made.pid || got->tid != made.tid)
        return differs(j, c, "the header");
    if (got->payload_bytes != made.payload_bytes || memcmp(got->payload, made.payload, made.payload_bytes) != 0)
        return differs(j, c, "the payload");
    if (ea_registry_find(j->registry, got) != c)
        return differs(j, c, "the class");
    rc = compare_values(j, c, got);
    return rc ? rc : write_again(j, c, got);
}

static int all(job *j) {
    size_t family_count;
    const ea_family *const *families = ea_event_families(&family_count);
    int rc = 0;
    j->records = 0;
    j->payload.state = j->options->seed;
    for (uint64_t round = 0; round < j->options->rounds; round++)
        for (size_t i = 0; i < family_count; i++)
            for (size_t k = 0; k < families[i]->row_count; k++) {
                const ea_class_row *row = &families[i]->rows[k];
                for (unsigned v = row->since; v <= row->until && !rc; v++) {
                    if (row->code == 0 && group_of(&families[i]->provider->guid, 0) == 0)
                        continue; /* the header event: the file has its own */
                    rc = one(j, families[i], row, (uint8_t)v, round);
                    if (!rc && !j->writer && round == 0) {
                        ea_text_str(&j->counts, j->counts.len_bytes ? ",[\"" : "[\"");
                        ea_text_guid(&j->counts, &families[i]->provider->guid);
                        ea_text_printf(&j->counts, "\",%u,%u,%d]", row->code, v, families[i]->provider->classic);
                    }
                }
            }
    return rc;
}

static int write_and_read(job *j, const char *path) {
    ea_etl_info info = {.buffer_size_bytes = 128 << 10,
                        .os_version = 0x0000000A,
                        .os_build = 26100,
                        .cpu_count = 3,
                        .timer_resolution = 156250,
                        .start_buffers = 1,
                        .pointer_size = (uint32_t)j->options->pointer_size,
                        .cpu_mhz = 3000,
                        .boot_filetime = 133000000000000000,
                        .perf_frequency = 10000000,
                        .start_filetime = 133000010000000000,
                        .clock_type = EA_CLOCK_QPC,
                        .session_name = (char[]){"every class"},
                        .log_file_name = (char[]){"every-class.etl"},
                        .logger = 1};
    int rc =
        ea_etl_writer_create(&j->writer, path, &(ea_etl_writer_options){.info = &info, .start_raw = START}, &j->err);
    if (!rc)
        rc = all(j);
    if (!rc)
        rc = ea_etl_writer_finish(j->writer, &(ea_etl_writer_end){.end_filetime = 133000020000000000}, &j->err);
    ea_etl_writer_destroy(j->writer);
    j->writer = NULL;
    const ea_record *header;
    if (!rc)
        rc = ea_etl_open(&j->set, &path, 1, &(ea_etl_options){0}, &j->err);
    if (!rc && ea_etl_next(j->set, &header, &j->err) != 1)
        rc = EA_ECORRUPT;
    if (!rc)
        rc = all(j);
    if (!rc && ea_etl_next(j->set, &header, &j->err) != 0)
        rc = ea_fail(&j->err, EA_ECORRUPT, "more records came back than were written");
    ea_etl_close(j->set);
    return rc;
}

static int run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    job *j = calloc(1, sizeof *j);
    (void)operand_count;
    if (!j || (o->pointer_size != 4 && o->pointer_size != 8) || !o->seed)
        return 2;
    j->options = o;
    ea_text_init(&j->counts);
    ea_arena_init(&j->arena, 0);
    int rc = ea_registry_create(&j->registry, 0, &j->err);
    if (!rc)
        rc = write_and_read(j, operands[0]);
    if (rc)
        ea_err_print(stderr, "every_class", &j->err);
    else
        printf("{\"records\":%" PRIu64 ",\"values\":%" PRIu64 ",\"classes\":[%s]}\n", j->records, j->values,
               j->counts.data);
    ea_registry_destroy(j->registry);
    ea_text_deinit(&j->counts);
    ea_arena_deinit(&j->arena);
    free(j);
    return rc ? 1 : 0;
}

static const ea_option OPTIONS[] = {
    {.name = "pointer-size",
     .argument = "4|8",
     .type = EA_OPT_U64,
     .offset = offsetof(options, pointer_size),
     .fallback = "8"},
    {.name = "seed", .argument = "N", .type = EA_OPT_U64, .offset = offsetof(options, seed), .fallback = "1"},
    {.name = "rounds", .argument = "N", .type = EA_OPT_U64, .offset = offsetof(options, rounds), .fallback = "8"},
    {.name = NULL},
};
static const ea_command COMMAND = {.name = "write",
                                   .operands = "TRACE",
                                   .summary = "Write every class with random values into a trace, and read it back",
                                   .details = "",
                                   .options = OPTIONS,
                                   .options_size = sizeof(options),
                                   .run = run,
                                   .min_operands = 1,
                                   .max_operands = 1};
static const ea_command *const COMMANDS[] = {&COMMAND, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("every_class", "0.1.0", "Every class there and back.", COMMANDS, argc, argv);
}
