/* etwagent stats: what is in a trace, counted. Called by: main.c. Calls: proto/etl, proto/event. Thread: the main one.
 */
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/event/render.h"
#include "service/app/agent_commands.h"
#include "service/app/input.h"
#include "service/app/programs.h"
#include "service/decode/decoder.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct options {
    ea_schema_options schemas;
    ea_class_choice choice;
    const char *where;
    int json, strict, follow;
} options;

typedef struct class_count {
    const ea_class *c;
    uint64_t count, decoded, partial, unknown;
} class_count;

/* When an event was, by the clock of its file. */
typedef struct event_place {
    size_t source;
    int64_t time_raw;
} event_place;

typedef struct tally {
    ea_u64_map index; /* address of the class -> place in classes */
    class_count *classes;
    size_t class_count, class_capacity;
    uint64_t headers[256];
    uint64_t events, decoded, partial, unknown;
    ea_class_chooser chooser;
    event_place first, last; /* a header may name another end, or belong to a cut file */
} tally;

static class_count *stats_count_of(tally *t, const ea_class *c) {
    uint64_t *known = ea_u64_map_get(&t->index, (uintptr_t)c);
    if (known)
        return &t->classes[*known];
    if (EA_GROW(t->classes, t->class_capacity, t->class_count + 1, SIZE_MAX) ||
        ea_u64_map_put(&t->index, (uintptr_t)c, t->class_count))
        return NULL;
    class_count *k = &t->classes[t->class_count++];
    *k = (class_count){.c = c};
    return k;
}

/* Records come in the order of time. */
static int stats_count(tally *t, ea_decoder *decoder, ea_where *where, const ea_record *r, const ea_clock *clock,
                       ea_err *err) {
    enum ea_counter outcome;
    const event_place place = {r->source, r->time_raw};
    const ea_class *c = ea_decoder_find(decoder, &r, &outcome);
    int holds = where ? ea_where_holds(where, r, c, clock, err) : 1;
    if (holds <= 0 || !ea_class_chooser_wants(&t->chooser, c))
        return holds < 0 ? holds : 0;
    class_count *k = stats_count_of(t, c);
    if (!k)
        return ea_fail(err, EA_ENOMEM, "count events");
    if (!t->events++)
        t->first = place;
    t->last = place;
    t->headers[r->header_type]++;
    k->count++;
    if (outcome == EA_COUNT_decode_whole) {
        k->decoded++;
        t->decoded++;
    } else if (outcome == EA_COUNT_decode_partial) {
        k->partial++;
        t->partial++;
    } else {
        k->unknown++;
        t->unknown++;
    }
    return 0;
}

/* By what a person sees as one class: pointer sizes and differing metadata of the same name are one. */
static int by_identity(const void *a, const void *b) {
    const ea_class *x = ((const class_count *)a)->c, *y = ((const class_count *)b)->c;
    int d = memcmp(&x->provider, &y->provider, sizeof x->provider);
    if (!d)
        d = (int)x->classic - y->classic;
    if (!d)
        d = (int)x->code - y->code;
    if (!d)
        d = (int)x->version - y->version;
    return d ? d : strcmp(x->name, y->name);
}

static int by_count(const void *a, const void *b) {
    const class_count *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : by_identity(a, b);
}

static void sort_and_merge(tally *t) {
    size_t n = 0;
    if (!t->class_count)
        return;
    qsort(t->classes, t->class_count, sizeof *t->classes, by_identity);
    for (size_t i = 1; i < t->class_count; i++) {
        class_count *into = &t->classes[n], *from = &t->classes[i];
        if (by_identity(into, from) == 0) {
            into->count += from->count;
            into->decoded += from->decoded;
            into->partial += from->partial;
            into->unknown += from->unknown;
        } else {
            t->classes[++n] = *from;
        }
    }
    t->class_count = n + 1;
    qsort(t->classes, t->class_count, sizeof *t->classes, by_count);
}

static void put_count(ea_text *out, const char *key, uint64_t v) {
    ea_text_printf(out, "\"%s\":%" PRIu64 ",", key, v);
}

static void put_lost(const ea_etl_set *set, uint64_t *ret_events, uint64_t *ret_buffers) {
    *ret_events = *ret_buffers = 0;
    for (size_t i = 0; i < ea_etl_file_count(set); i++) {
        *ret_events += ea_etl_file_info(set, i)->events_lost;
        *ret_buffers += ea_etl_file_info(set, i)->buffers_lost;
    }
}

static void put_file_json(ea_text *out, const ea_etl_info *f) {
    ea_text_str(out, "{\"path\":");
    ea_text_json_str(out, f->path);
    ea_text_str(out, ",\"session\":");
    ea_text_json_str(out, f->session_name);
    ea_text_char(out, ',');
    put_count(out, "bytes", f->file_bytes);
    put_count(out, "buffers", f->buffer_count);
    put_count(out, "buffer_size", f->buffer_size_bytes);
    put_count(out, "os_build", f->os_build);
    put_count(out, "cpus", f->cpu_count);
    put_count(out, "pointer_size", f->pointer_size);
    put_count(out, "events_lost", f->events_lost);
    put_count(out, "buffers_lost", f->buffers_lost);
    put_count(out, "clock_type", f->clock_type);
    put_count(out, "clock_frequency", f->clock.frequency);
    put_count(out, "compression", f->compression);
    ea_text_str(out, "\"start\":\"");
    ea_text_utc_ns(out, ea_filetime_to_utc_ns(f->start_filetime));
    ea_text_str(out, "\",\"end\":");
    if (f->end_filetime) {
        ea_text_char(out, '"');
        ea_text_utc_ns(out, ea_filetime_to_utc_ns(f->end_filetime));
        ea_text_str(out, "\"}");
    } else {
        ea_text_str(out, "null}");
    }
}

static void stats_put_time(ea_text *out, const ea_input *in, const event_place *at) {
    ea_text_utc_ns(out, ea_clock_to_utc_ns(&ea_etl_file_info(in->set, at->source)->clock, at->time_raw));
}

static void put_time_json(ea_text *out, const ea_input *in, const tally *t, const event_place *at) {
    ea_text_str(out, t->events ? "\"" : "null");
    if (t->events)
        stats_put_time(out, in, at);
    ea_text_str(out, t->events ? "\"" : "");
}

static void stats_print_json(ea_text *out, const tally *t, const ea_input *in) {
    uint64_t events_lost, buffers_lost;
    put_lost(in->set, &events_lost, &buffers_lost);
    ea_text_char(out, '{');
    put_count(out, "events", t->events);
    ea_text_str(out, "\"first_event\":");
    put_time_json(out, in, t, &t->first);
    ea_text_str(out, ",\"last_event\":");
    put_time_json(out, in, t, &t->last);
    ea_text_char(out, ',');
    put_count(out, "events_lost", events_lost);
    put_count(out, "buffers_lost", buffers_lost);
    put_count(out, "bad_records", ea_counter_get(&in->counters, EA_COUNT_source_bad_records));
    put_count(out, "bad_buffers", ea_counter_get(&in->counters, EA_COUNT_source_bad_buffers));
    put_count(out, "bad_bytes", ea_counter_get(&in->counters, EA_COUNT_source_bad_bytes));
    put_count(out, "decoded", t->decoded);
    put_count(out, "partial", t->partial);
    put_count(out, "unknown", t->unknown);
    ea_text_str(out, "\"headers\":{");
    int first = 1;
    for (unsigned i = 0; i < 256; i++) {
        if (!t->headers[i])
            continue;
        ea_text_printf(out, "%s\"%s\":%" PRIu64, first ? "" : ",", ea_header_type_name((uint8_t)i), t->headers[i]);
        first = 0;
    }
    ea_text_str(out, "},\"classes\":[");
    for (size_t i = 0; i < t->class_count; i++) {
        const class_count *k = &t->classes[i];
        ea_text_str(out, i ? ",\n{\"provider\":\"" : "\n{\"provider\":\"");
        ea_text_guid(out, &k->c->provider);
        ea_text_str(out, "\",\"provider_name\":");
        ea_text_json_str(out, k->c->provider_name);
        ea_text_str(out, ",\"name\":");
        ea_text_json_str(out, k->c->name);
        ea_text_printf(out, ",\"classic\":%s,", k->c->classic ? "true" : "false");
        put_count(out, k->c->classic ? "opcode" : "id", k->c->code);
        put_count(out, "version", k->c->version);
        put_count(out, "count", k->count);
        put_count(out, "decoded", k->decoded);
        put_count(out, "partial", k->partial);
        ea_text_printf(out, "\"unknown\":%" PRIu64 "}", k->unknown);
    }
    ea_text_str(out, "],\n\"files\":[");
    for (size_t i = 0; i < ea_etl_file_count(in->set); i++) {
        if (i)
            ea_text_char(out, ',');
        put_file_json(out, ea_etl_file_info(in->set, i));
    }
    ea_text_str(out, "],\n\"damage\":");
    ea_damage_map_json(&in->damage.map, out);
    ea_text_str(out, "}\n");
}

static void put_file_text(ea_text *out, const ea_etl_info *f) {
    static const char *const clocks[] = {"clock 0", "performance counter", "system time", "CPU cycles"};
    static const char *const compressions[] = {"uncompressed", "compression 1", "LZNT1", "XPRESS", "XPRESS_HUFF"};
    ea_text_safe(out, f->path, strlen(f->path));
    ea_text_str(out, "\n  session ");
    ea_text_safe(out, f->session_name, strlen(f->session_name));
    ea_text_str(out, "\n  from ");
    ea_text_utc_ns(out, ea_filetime_to_utc_ns(f->start_filetime));
    if (f->end_filetime) {
        ea_text_str(out, " to ");
        ea_text_utc_ns(out, ea_filetime_to_utc_ns(f->end_filetime));
    }
    ea_text_printf(out, "\n  Windows build %" PRIu32 ", %" PRIu32 " CPUs, %" PRIu32 "-bit; ", f->os_build, f->cpu_count,
                   f->pointer_size * 8);
    ea_text_printf(out, "%" PRIu64 " buffers of %" PRIu32 " bytes, %s; clock: %s, %" PRIu64 " Hz\n", f->buffer_count,
                   f->buffer_size_bytes, f->compression < 5 ? compressions[f->compression] : "unknown compression",
                   f->clock_type < 4 ? clocks[f->clock_type] : "unknown", f->clock.frequency);
}

static void stats_print_text(ea_text *out, const tally *t, const ea_input *in) {
    uint64_t events_lost, buffers_lost;
    put_lost(in->set, &events_lost, &buffers_lost);
    for (size_t i = 0; i < ea_etl_file_count(in->set); i++)
        put_file_text(out, ea_etl_file_info(in->set, i));
    ea_text_printf(out,
                   "\n%" PRIu64 " events: %" PRIu64 " decoded, %" PRIu64 " partly, %" PRIu64 " of unknown classes\n",
                   t->events, t->decoded, t->partial, t->unknown);
    if (t->events) {
        ea_text_str(out, "the first event is of ");
        stats_put_time(out, in, &t->first);
        ea_text_str(out, ", the last one of ");
        stats_put_time(out, in, &t->last);
        ea_text_char(out, '\n');
    }
    ea_text_printf(out, "lost by Windows: %" PRIu64 " events, %" PRIu64 " buffers\n", events_lost, buffers_lost);
    ea_text_printf(out, "not readable: %" PRIu64 " records, %" PRIu64 " buffers, %" PRIu64 " bytes\n",
                   ea_counter_get(&in->counters, EA_COUNT_source_bad_records),
                   ea_counter_get(&in->counters, EA_COUNT_source_bad_buffers),
                   ea_counter_get(&in->counters, EA_COUNT_source_bad_bytes));
    ea_damage_map_text(&in->damage.map, out);
    ea_text_str(out, "record headers:");
    for (unsigned i = 0; i < 256; i++)
        if (t->headers[i])
            ea_text_printf(out, " %s %" PRIu64, ea_header_type_name((uint8_t)i), t->headers[i]);
    ea_text_printf(out, "\n\n%12s %12s %10s %10s  %-4s %6s  %s\n", "events", "decoded", "partial", "unknown", "ver",
                   "id", "class");
    for (size_t i = 0; i < t->class_count; i++) {
        const class_count *k = &t->classes[i];
        ea_text_printf(out, "%12" PRIu64 " %12" PRIu64 " %10" PRIu64 " %10" PRIu64 "  v%-3u %c%5u  ", k->count,
                       k->decoded, k->partial, k->unknown, k->c->version, k->c->classic ? '/' : ' ', k->c->code);
        if (*k->c->provider_name)
            ea_text_safe(out, k->c->provider_name, strlen(k->c->provider_name));
        else
            ea_text_guid(out, &k->c->provider);
        if (*k->c->name) {
            ea_text_str(out, ": ");
            ea_text_safe(out, k->c->name, strlen(k->c->name));
        }
        ea_text_char(out, '\n');
    }
}

static int stats_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_input in;
    ea_err err = {0};
    ea_decoder *decoder = NULL;
    const ea_record *record;
    tally *t = calloc(1, sizeof *t);
    ea_text out;
    ea_text_init(&out);
    ea_schemas *schemas = NULL;
    ea_where *where = NULL;
    int rc = t ? ea_schema_options_read(&schemas, &o->schemas, &err) : ea_fail(&err, EA_ENOMEM, "count events");
    if (!rc)
        rc = ea_decoder_create(&decoder, schemas, NULL, &err);
    if (!rc)
        rc = ea_class_chooser_init(&t->chooser, &o->choice, &err);
    if (!rc && o->where)
        rc = ea_program_where(&where, o->where, &o->choice, &(ea_program_classes){operands, operand_count, &o->schemas},
                              &err);
    if (rc) {
        ea_err_print(stderr, "etwagent", &err);
        ea_decoder_destroy(decoder);
        ea_schemas_destroy(schemas);
        if (t)
            ea_class_chooser_deinit(&t->chooser);
        free(t);
        return ea_exit_code(rc);
    }
    ea_u64_map_init(&t->index, 0);
    int exit_code = ea_input_open(&in, operands, operand_count, o->follow, 0);
    if (!exit_code) {
        while ((rc = ea_input_next(&in, &record, &err)) > 0)
            if (rc != EA_ETL_NOTHING_YET &&
                (rc = stats_count(t, decoder, where, record, &ea_etl_file_info(in.set, record->source)->clock, &err)) !=
                    0)
                break;
        if (!rc) {
            sort_and_merge(t);
            if (o->json)
                stats_print_json(&out, t, &in);
            else
                stats_print_text(&out, t, &in);
            if (out.failed || fwrite(out.data, 1, out.len_bytes, stdout) != out.len_bytes || fflush(stdout))
                rc = ea_fail(&err, EA_EIO, "write to standard output");
        }
        if (!rc)
            rc = ea_class_chooser_check(&t->chooser, &err);
        int damaged = in.damage.map.places != 0;
        exit_code = ea_input_close(&in, rc, &err);
        if (!exit_code && o->strict && damaged)
            exit_code = 3;
    }
    ea_text_deinit(&out);
    ea_where_destroy(where);
    ea_decoder_destroy(decoder);
    ea_schemas_destroy(schemas);
    ea_u64_map_deinit(&t->index);
    ea_class_chooser_deinit(&t->chooser);
    free(t->classes);
    free(t);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    EA_SCHEMA_OPTIONS(offsetof(options, schemas)),
    EA_CLASS_OPTIONS(options, choice),
    {.name = "where",
     .argument = "CONDITION",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, where),
     .help = "count only events for which this condition of the query language holds"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print one JSON object"},
    {.name = "strict",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, strict),
     .help = "exit with 3 when a file is damaged"},
    {.name = "follow",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, follow),
     .help = "continue to read while the files grow, until their sessions end or Ctrl-C, then print"},
    {.name = NULL},
};

const ea_command ea_cmd_stats = {
    .name = "stats",
    .operands = "TRACE...",
    .summary = "Count the events of traces by class, and what was lost",
    .details =
        "Several files are read as one trace. For each class: how many events there are, how many of them were "
        "decoded\n"
        "whole, how many in part (the payload ends inside a field, has bytes after its last one, or is of a newer\n"
        "version than any known), how many are of a class without a known layout.\n"
        "The id of a classic event is its opcode, with a slash before it in the table and under \"opcode\" in JSON.\n"
        "JSON keys: events, first_event, last_event, events_lost, buffers_lost, bad_records, bad_buffers, bad_bytes, "
        "decoded, partial, "
        "unknown,\n"
        "headers {record header type: count}, classes [provider, provider_name, name, classic, id or opcode, version,\n"
        "count, decoded, partial, unknown], files [...], damage {places, bytes, reasons [reason, places, bytes],\n"
        "files [path, places, bytes, mark_bytes, marks [places in each stretch of mark_bytes]], first [path, offset of "
        "the\n"
        "buffer, inside, bytes, reason]: the first 1,000 places}.\n"
        "Exit codes: 0 read, 1 failed, or a class, a provider or an id that no event has, 2 usage, 3 not a trace, or "
        "damaged with --strict.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = stats_run,
    .min_operands = 1,
    .max_operands = -1,
};
