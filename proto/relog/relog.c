/* The run of a relogger: inputs in canonical order, one verdict an event, outputs that appear when they are complete.
 * See relog.h. Calls: proto/etl. Called by: the caller's program. Thread: the caller's. */
#include "proto/relog/relog.h"

#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "proto/etl/etl_writer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An ea_relog_event is an ea_record under names for others. */
#define SAME(a, b) _Static_assert(offsetof(ea_relog_event, a) == offsetof(ea_record, b), "one layout")
SAME(provider, provider);
SAME(keyword, keyword);
SAME(id, id);
SAME(task, task);
SAME(version, version);
SAME(channel, channel);
SAME(level, level);
SAME(opcode, opcode);
SAME(logger, logger);
SAME(flags, flags);
SAME(property, property);
SAME(pointer_size, pointer_size);
SAME(header_type, header_type);
SAME(hook_id, hook_id);
SAME(header_word, header_word);
SAME(time_raw, time_raw);
SAME(pid, pid);
SAME(tid, tid);
SAME(kernel_time, kernel_time);
SAME(user_time, user_time);
SAME(activity_id, activity_id);
SAME(cpu, cpu);
SAME(input, source);
SAME(item_count, ext_count);
SAME(payload_bytes, payload_bytes);
SAME(items, ext);
SAME(payload, payload);
SAME(position, position);
_Static_assert(sizeof(ea_relog_event) == sizeof(ea_record) && sizeof(ea_relog_item) == sizeof(ea_ext) &&
                   offsetof(ea_relog_item, data) == offsetof(ea_ext, data) &&
                   offsetof(ea_relog_item, size_bytes) == offsetof(ea_ext, size_bytes),
               "one layout");

enum {
    INPUTS_MAX = 65535,
    OUTPUTS_MAX = 1024,
    MODE_SEQUENTIAL = 0x00000001,
    MODE_CIRCULAR = 0x00000002,
    MODE_APPEND = 0x00000004,
    MODE_COMPRESSED = 0x04000000,
    MODE_NO_PER_PROCESSOR = 0x10000000,
    WPP_TIME = 0x18, /* options of a message that has a time */
};

static const char PARTIAL[] = ".partial", REPLACED[] = ".replaced";

typedef struct relog_output {
    char *path, *partial;
    char *replaced; /* where the file before is until all outputs have their names; NULL: there is none */
    ea_relog_output options;
    ea_etl_writer *writer;
    ea_file *file;                         /* the partial one, locked: another run would write into it */
    int is_made, is_renamed, has_replaced; /* the partial file exists; it is at path; the one before is at replaced */
    int64_t *last;                         /* time of the last record a processor */
    size_t cpu_count, cpu_capacity;
    uint64_t expected, added;
    uint64_t len_bytes;     /* of another form than a trace */
    int64_t shift_filetime; /* of all times */
} relog_output;

struct ea_relog {
    char **paths;
    ea_relog_input *inputs;
    size_t input_count, path_capacity, input_capacity;
    relog_output *outputs;
    size_t output_count, output_capacity;
    ea_etl_set *set;
    ea_counters counters;
    uint8_t *header_data;
    ea_record header; /* of the first input; header_type NONE: it is damaged */
    int one_logger;   /* all inputs have the same: the events keep it */
    int converts;     /* clocks of inputs may differ */
    ea_record converted;
    int is_running;
    int is_written;        /* the traces are complete, and have no names yet */
    ea_record replacement; /* of the event at hand */
    int is_replaced;
    atomic_int canceled;
    ea_relog_counts counts;
    ea_err err;
};

/* ---- before the run ---- */

int ea_relog_create(ea_relog **ret) {
    ea_relog *g = calloc(1, sizeof *g);
    if (!g)
        return EA_ENOMEM;
    atomic_init(&g->canceled, 0);
    *ret = g;
    return 0;
}

static char *joined(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b) + 1;
    char *s = malloc(n + m);
    if (!s)
        return NULL;
    memcpy(s, a, n);
    memcpy(s + n, b, m);
    return s;
}

int ea_relog_add_input(ea_relog *g, const char *path, void *context, unsigned *ret_input) {
    if (g->input_count >= INPUTS_MAX)
        return ea_fail(&g->err, EA_ELIMIT, "relog: at most %d inputs", INPUTS_MAX);
    if (EA_GROW(g->paths, g->path_capacity, g->input_count + 1, SIZE_MAX) ||
        EA_GROW(g->inputs, g->input_capacity, g->input_count + 1, SIZE_MAX))
        return ea_fail(&g->err, EA_ENOMEM, "relog");
    char *copy = joined(path, "");
    if (!copy)
        return ea_fail(&g->err, EA_ENOMEM, "relog");
    g->paths[g->input_count] = copy;
    g->inputs[g->input_count] = (ea_relog_input){.path = copy, .context = context};
    if (ret_input)
        *ret_input = (unsigned)g->input_count;
    g->input_count++;
    return 0;
}

static void output_deinit(relog_output *o) {
    ea_etl_writer_destroy(o->writer);
    if (o->is_made)
        EA_IGNORE(
            ea_path_remove(o->partial, NULL)); /* before the lock ends: afterwards the name may be another run's */
    ea_file_close(o->file);
    free(o->path);
    free(o->partial);
    free(o->replaced);
    free(o->last);
}

int ea_relog_add_output(ea_relog *g, const char *path, const ea_relog_output *options, unsigned *ret_output) {
    if (g->output_count >= OUTPUTS_MAX)
        return ea_fail(&g->err, EA_ELIMIT, "relog: at most %d outputs", OUTPUTS_MAX);
    if (EA_GROW(g->outputs, g->output_capacity, g->output_count + 1, SIZE_MAX))
        return ea_fail(&g->err, EA_ENOMEM, "relog");
    relog_output o = {.path = joined(path, ""), .partial = joined(path, PARTIAL)};
    if (options)
        o.options = *options;
    if (!o.path || !o.partial) {
        output_deinit(&o);
        return ea_fail(&g->err, EA_ENOMEM, "relog");
    }
    g->outputs[g->output_count] = o;
    if (ret_output)
        *ret_output = (unsigned)g->output_count;
    g->output_count++;
    return 0;
}

void ea_relog_destroy(ea_relog *g) {
    if (!g)
        return;
    for (size_t i = 0; i < g->output_count; i++)
        output_deinit(&g->outputs[i]);
    for (size_t i = 0; i < g->input_count; i++)
        free(g->paths[i]);
    ea_etl_close(g->set);
    free(g->paths);
    free(g->inputs);
    free(g->outputs);
    free(g->header_data);
    free(g);
}

/* ---- inputs ---- */

/* Boot times move with every adjustment of the wall clock, and so does the moment of tick 0; two starts of a machine
 * are further apart. The reader merges by ticks under the same rule. */
static int same_clocks(const ea_etl_info *a, const ea_etl_info *b) {
    const int64_t tolerance_ns = INT64_C(5000000000);
    if (a->clock.type != b->clock.type || a->clock.frequency != b->clock.frequency)
        return 0;
    if (a->clock.type == EA_CLOCK_SYSTEM_TIME || (a->boot_filetime == b->boot_filetime && a->boot_filetime))
        return 1;
    int64_t zero_a = ea_clock_to_utc_ns(&a->clock, 0), zero_b = ea_clock_to_utc_ns(&b->clock, 0);
    uint64_t apart = zero_a > zero_b ? (uint64_t)zero_a - (uint64_t)zero_b : (uint64_t)zero_b - (uint64_t)zero_a;
    return apart <= (uint64_t)tolerance_ns;
}

void ea_relog_convert_clocks(ea_relog *g) {
    g->converts = 1;
}

static int relog_open_inputs(ea_relog *g) {
    const ea_etl_options options = {.counters = &g->counters};
    if (!g->input_count)
        return ea_fail(&g->err, EA_EINVAL, "relog: expected an input");
    int rc = ea_etl_open(&g->set, (const char *const *)g->paths, g->input_count, &options, &g->err);
    if (rc)
        return rc;
    const ea_etl_info *first = ea_etl_file_info(g->set, 0);
    g->one_logger = 1;
    for (size_t i = 0; i < g->input_count; i++) {
        const ea_etl_info *info = ea_etl_file_info(g->set, i);
        ea_relog_input *in = &g->inputs[i];
        in->is_converted = !same_clocks(first, info);
        if (in->is_converted && !g->converts)
            return ea_fail(&g->err, EA_EUNSUPPORTED,
                           "relog %s: its clock is not that of %s (another kind, rate or boot): relog them apart, or "
                           "convert its times",
                           info->path, first->path);
        if (in->is_converted && (!first->clock.frequency || !info->clock.frequency))
            return ea_fail(&g->err, EA_EUNSUPPORTED, "relog %s: the rate of a clock is unknown", info->path);
        if (info->pointer_size != first->pointer_size)
            return ea_fail(&g->err, EA_EUNSUPPORTED, "relog %s: pointers of %u bytes, those of %s have %u", info->path,
                           info->pointer_size, first->path, first->pointer_size);
        g->one_logger &= info->logger == first->logger;
        g->counts.events_lost += info->events_lost;
        g->counts.buffers_lost += info->buffers_lost;
        in->session_name = info->session_name;
        in->cpu_count = info->cpu_count;
        in->pointer_size = info->pointer_size;
        in->os_build = info->os_build;
        in->clock_type = info->clock_type;
        in->buffer_size_bytes = info->buffer_size_bytes;
        in->events_lost = info->events_lost;
        in->buffers_lost = info->buffers_lost;
        in->begin_utc_ns = ea_filetime_to_utc_ns(info->start_filetime);
        in->end_utc_ns = info->end_filetime ? ea_filetime_to_utc_ns(info->end_filetime) : 0;
        in->begin_raw = ea_clock_from_utc_ns(&info->clock, in->begin_utc_ns);
        in->ticks_per_second = info->clock.frequency;
        in->compression = info->compression;
    }
    g->header_data = malloc(EA_ETL_HEADER_EVENT_MAX_BYTES);
    if (!g->header_data)
        return ea_fail(&g->err, EA_ENOMEM, "relog");
    return 0;
}

static int relog_read_header(ea_relog *g, size_t input) {
    int rc = ea_etl_header_record(g->set, input, g->header_data, &g->header, &g->err);
    if (rc == EA_EFORMAT) { /* an output's is made from what the reader found */
        g->header = (ea_record){.header_type = EA_HEADER_NONE, .source = (uint16_t)input};
        g->err = (ea_err){0};
        return 0;
    }
    return rc;
}

/* Calls on_begin for each input; afterwards g->header is that of the first one. */
static int relog_begin(ea_relog *g, const ea_relog_callbacks *callbacks, void *arg) {
    int rc = 0;
    for (size_t i = 0; !rc && callbacks && callbacks->on_begin && i < g->input_count; i++) {
        rc = relog_read_header(g, i);
        if (!rc)
            rc = callbacks->on_begin(g, &g->inputs[i], (const ea_relog_event *)&g->header, arg);
    }
    return rc ? rc : relog_read_header(g, 0);
}

/* ---- outputs ---- */

static int64_t last_end(const ea_relog *g) {
    int64_t end = 0;
    for (size_t i = 0; i < g->input_count; i++) {
        const ea_etl_info *info = ea_etl_file_info(g->set, i);
        end = info->end_filetime > end ? info->end_filetime : end;
    }
    return end;
}

/* What the header event of an output says. */
static ea_etl_info info_of_output(const ea_relog *g, const relog_output *o) {
    const ea_etl_info *first = ea_etl_file_info(g->set, 0);
    ea_etl_info info = *first;
    uint32_t buffer_bytes = o->options.buffer_size_bytes, cpus = 0;
    for (size_t i = 0; i < g->input_count; i++) {
        const ea_etl_info *other = ea_etl_file_info(g->set, i);
        if (!o->options.buffer_size_bytes && other->buffer_size_bytes > buffer_bytes)
            buffer_bytes = other->buffer_size_bytes;
        cpus = other->cpu_count > cpus ? other->cpu_count : cpus;
    }
    info.buffer_size_bytes = buffer_bytes;
    info.cpu_count = cpus;
    info.compression =
        (uint16_t)(o->options.compression == EA_RELOG_COMPRESSION_SAME ? first->compression : o->options.compression);
    info.log_file_mode &= ~(uint32_t)(MODE_COMPRESSED | MODE_NO_PER_PROCESSOR);
    if (info.log_file_mode & MODE_CIRCULAR)
        info.log_file_mode = (info.log_file_mode & ~(uint32_t)(MODE_CIRCULAR | MODE_APPEND)) | MODE_SEQUENTIAL;
    if (info.compression)
        info.log_file_mode |= MODE_COMPRESSED;
    if (!g->one_logger)
        info.logger = 0;
    info.start_filetime += o->shift_filetime;
    info.boot_filetime += info.boot_filetime ? o->shift_filetime : 0;
    return info;
}

int ea_relog_shift(ea_relog *g, unsigned output, int64_t shift_ns) {
    if (!g->set || g->is_running)
        return ea_fail(&g->err, EA_EINVAL, "relog: times are shifted before the first event, in on_begin");
    if (output >= g->output_count)
        return ea_fail(&g->err, EA_EINVAL, "relog: output %u of %zu", output, g->output_count);
    int64_t start = ea_etl_file_info(g->set, 0)->start_filetime, moved;
    if (shift_ns % 100 || __builtin_add_overflow(start, shift_ns / 100, &moved) || moved < 0)
        return ea_fail(&g->err, EA_EINVAL, "relog: a shift by %" PRId64 " ns", shift_ns);
    g->outputs[output].shift_filetime = shift_ns / 100;
    return 0;
}

/* The partial file is this run's from here on: it is not an input, not another output, and no other run has it. */
static int claim_output(ea_relog *g, relog_output *o) {
    for (size_t i = 0; i < g->input_count; i++)
        if (ea_path_is_same(g->paths[i], o->path) || ea_path_is_same(g->paths[i], o->partial))
            return ea_fail(&g->err, EA_EINVAL, "relog %s: it is an input", g->paths[i]);
    if (ea_path_exists(o->path) && !ea_path_is_file(o->path))
        return ea_fail(&g->err, EA_EINVAL, "relog %s: expected a file, or a name that does not exist", o->path);
    int rc = ea_file_claim(&o->file, o->partial, &g->err);
    if (rc == EA_EBUSY)
        return ea_fail(&g->err, rc, "relog %s: another run, or another output of this one, writes it", o->path);
    if (rc)
        return rc;
    o->is_made = 1;
    return 0;
}

static int create_output(ea_relog *g, relog_output *o) {
    ea_etl_info info = info_of_output(g, o);
    int rc = claim_output(g, o);
    if (rc || o->options.kind == EA_RELOG_OTHER)
        return rc;
    const ea_etl_info *first = ea_etl_file_info(g->set, 0);
    ea_etl_writer_options options = {.info = &info, .start_raw = first->clock.base_raw, .merged = 1, .file = o->file};
    ea_record header = g->header;
    char nothing[] = "";
    if (o->options.no_names)
        info.session_name = info.log_file_name = nothing;
    if (!o->options.no_names && header.header_type != EA_HEADER_NONE && !o->shift_filetime) {
        header.logger = info.logger;
        options.header = &header;
        options.completes_header = 1;
    } else if (info.clock.type == EA_CLOCK_SYSTEM_TIME) {
        options.start_raw = info.start_filetime;
    }
    return ea_etl_writer_create(&o->writer, o->partial, &options, &g->err);
}

static int write_event(ea_relog *g, relog_output *o, const ea_record *r) {
    int rc = 0;
    int is_timeless = r->header_type == EA_HEADER_MESSAGE && !(r->header_word & WPP_TIME);
    if (r->cpu >= o->cpu_count) {
        if (EA_GROW(o->last, o->cpu_capacity, (size_t)r->cpu + 1, SIZE_MAX))
            return ea_fail(&g->err, EA_ENOMEM, "relog");
        for (; o->cpu_count <= r->cpu; o->cpu_count++)
            o->last[o->cpu_count] = INT64_MIN;
    }
    /* A reader finds a buffer by its first time, and gives a message without a time that of the record before it. */
    int64_t last = o->last[r->cpu];
    if (last != INT64_MIN && (r->time_raw < last || (is_timeless && r->time_raw != last)))
        rc = ea_etl_writer_flush(o->writer, r->cpu, &g->err);
    if (rc)
        return rc;
    o->last[r->cpu] = r->time_raw;
    o->expected++;
    if (g->one_logger)
        return ea_etl_writer_add(o->writer, r, &g->err);
    ea_record merged = *r;
    merged.logger = 0; /* as in merged files: one buffer a processor, whatever session an event is of */
    return ea_etl_writer_add(o->writer, &merged, &g->err);
}

/* The event in an output whose clock is the system time, and shifted. */
static int write_shifted(ea_relog *g, relog_output *o, const ea_record *r) {
    ea_record moved = *r;
    if (!o->shift_filetime || ea_etl_file_info(g->set, 0)->clock.type != EA_CLOCK_SYSTEM_TIME)
        return write_event(g, o, r);
    moved.time_raw += o->shift_filetime;
    return write_event(g, o, &moved);
}

int ea_relog_emit(ea_relog *g, unsigned output, const ea_relog_event *event) {
    if (!g->is_running)
        return ea_fail(&g->err, EA_EINVAL, "relog: events can be emitted while it runs");
    if (output >= g->output_count)
        return ea_fail(&g->err, EA_EINVAL, "relog: output %u of %zu", output, g->output_count);
    relog_output *o = &g->outputs[output];
    if (o->options.kind == EA_RELOG_OTHER)
        return ea_fail(&g->err, EA_EINVAL, "relog %s: it takes no events", o->path);
    int rc = write_shifted(g, o, (const ea_record *)event);
    if (rc)
        return rc;
    o->added++;
    g->counts.added++;
    return 0;
}

int ea_relog_replace(ea_relog *g, const ea_relog_event *event) {
    if (!g->is_running)
        return ea_fail(&g->err, EA_EINVAL, "relog: events can be replaced while it runs");
    g->replacement = *(const ea_record *)event;
    g->is_replaced = 1;
    return 0;
}

/* EA_EBUSY while another run renames its outputs: the file that it has put there stays locked until all of them have
 * their names. */
static int check_settled(ea_relog *g, const relog_output *o) {
    ea_file *f = NULL;
    ea_err ignored;
    int rc = ea_file_open(&f, o->path, EA_OPEN_READ, &ignored) ? 0 : ea_file_try_lock(f, &ignored);
    ea_file_close(f);
    return rc == EA_EBUSY ? ea_fail(&g->err, rc, "relog %s: another run is about to complete it", o->path) : 0;
}

static int is_output(const ea_relog *g, const char *path) {
    for (size_t i = 0; i < g->output_count; i++)
        if (ea_path_is_same(g->outputs[i].path, path))
            return 1;
    return 0;
}

/* An empty file of a name that nothing has and no output will have: PATH.replaced, PATH.replaced.2, ... */
static int reserve_replaced(ea_relog *g, relog_output *o) {
    enum { TRIES = 1000, DIGITS = 8 };

    size_t capacity = strlen(o->path) + sizeof REPLACED + DIGITS;
    ea_file *reserved;
    int rc = 0;
    if (!(o->replaced = malloc(capacity)))
        return ea_fail(&g->err, EA_ENOMEM, "relog");
    size_t n = (size_t)snprintf(o->replaced, capacity, "%s%s", o->path, REPLACED);
    for (unsigned number = 2; !rc && number < TRIES; number++) {
        if (!ea_path_exists(o->replaced)) {
            rc = ea_file_claim(&reserved, o->replaced, &g->err);
            if (rc)
                return rc;
            ea_file_close(reserved);
            if (!is_output(g, o->replaced)) /* it exists now: by whatever name an output is called */
                return 0;
            rc = ea_path_remove(o->replaced, &g->err);
        }
        snprintf(o->replaced + n, capacity - n, ".%u", number);
    }
    return rc ? rc : ea_fail(&g->err, EA_EEXIST, "relog %s: what it replaces has no free name beside it", o->path);
}

/* Gives the output its name. Its file stays locked until all outputs have theirs: no other run takes the partial one,
 * or replaces it meanwhile. keeps: what has that name is kept, for the case that another output fails. */
static int publish(ea_relog *g, relog_output *o, int keeps) {
    int rc = 0;
    ea_etl_writer_destroy(o->writer);
    o->writer = NULL;
    if (o->options.kind == EA_RELOG_TEMPORARY)
        return 0;
    if (ea_path_exists(o->path) && !ea_path_is_file(o->path)) /* since the run began; Windows might rename it */
        return ea_fail(&g->err, EA_EINVAL, "relog %s: expected a file, or a name that does not exist", o->path);
    rc = check_settled(g, o);
    if (!rc && keeps && ea_path_exists(o->path)) {
        rc = reserve_replaced(g, o);
        if (rc)
            return rc;
        rc = ea_path_rename(o->path, o->replaced, &g->err);
        o->has_replaced = !rc || !ea_path_exists(o->path);
        if (!o->has_replaced)
            EA_IGNORE(ea_path_remove(o->replaced, NULL)); /* it is empty */
    }
    if (!rc)
        rc = ea_path_rename(o->partial, o->path, &g->err);
    o->is_renamed = !ea_path_exists(o->partial); /* also when only the folder could not be synced */
    o->is_made = !o->is_renamed;
    return rc;
}

/* Restores what an output replaced. The output stays locked until then. */
static void unpublish(relog_output *o) {
    int rc = 0;
    if (o->has_replaced)
        rc = ea_path_rename(o->replaced, o->path, NULL);
    else if (o->is_renamed)
        EA_IGNORE(ea_path_remove(o->path, NULL)); /* the first error is reported */
    if (o->is_renamed) {
        ea_file_close(o->file);
        o->file = NULL;
    }
    if (rc && ea_path_exists(o->replaced)) /* Windows replaces no open file */
        EA_IGNORE(ea_path_rename(o->replaced, o->path, NULL));
}

/* All outputs get their names; or none does, and the files that were replaced are restored. */
static int publish_all(ea_relog *g) {
    size_t named = 0;
    int rc = 0;
    for (size_t i = 0; i < g->output_count; i++)
        named += g->outputs[i].options.kind != EA_RELOG_TEMPORARY;
    for (size_t i = 0; !rc && i < g->output_count; i++)
        rc = publish(g, &g->outputs[i], named > 1);
    for (size_t i = 0; i < g->output_count; i++) {
        relog_output *o = &g->outputs[i];
        if (rc)
            unpublish(o);
        else if (o->has_replaced)
            EA_IGNORE(ea_path_remove(o->replaced, NULL)); /* the outputs are complete */
    }
    return rc;
}

/* The events are complete. */
static int complete_trace(ea_relog *g, relog_output *o, const ea_etl_writer_end *end) {
    const ea_relog_counts *c = &g->counts;
    uint64_t wanted = (o->options.only_emitted ? 0 : c->read - c->dropped) + o->added;
    ea_etl_writer_end shifted = *end;
    shifted.end_filetime += end->end_filetime ? o->shift_filetime : 0;
    int rc = ea_etl_writer_finish(o->writer, &shifted, &g->err);
    if (!rc && (o->expected != wanted || ea_etl_writer_records(o->writer) - 1 != wanted))
        rc = ea_fail(&g->err, EA_ECORRUPT, "relog %s: expected %" PRIu64 " events, wrote %" PRIu64, o->path, wanted,
                     ea_etl_writer_records(o->writer) - 1);
    return rc || o->options.kind == EA_RELOG_TEMPORARY ? rc : ea_etl_writer_sync(o->writer, &g->err);
}

static int complete_outputs(ea_relog *g, const ea_relog_callbacks *callbacks, void *arg) {
    const ea_relog_counts *c = &g->counts;
    ea_etl_writer_end end = {.end_filetime = last_end(g),
                             .events_lost = (uint32_t)(c->events_lost < UINT32_MAX ? c->events_lost : UINT32_MAX),
                             .buffers_lost = (uint32_t)(c->buffers_lost < UINT32_MAX ? c->buffers_lost : UINT32_MAX)};
    int rc = 0;
    for (size_t i = 0; !rc && i < g->output_count; i++)
        if (g->outputs[i].options.kind != EA_RELOG_OTHER)
            rc = complete_trace(g, &g->outputs[i], &end);
    g->is_written = !rc;
    if (!rc && callbacks && callbacks->on_written)
        rc = callbacks->on_written(g, arg);
    g->is_written = 0;
    for (size_t i = 0; !rc && i < g->output_count; i++)
        if (g->outputs[i].options.kind == EA_RELOG_OTHER)
            rc = ea_file_sync(g->outputs[i].file, &g->err);
    return rc ? rc : publish_all(g);
}

const char *ea_relog_partial(const ea_relog *g, unsigned output) {
    return output < g->output_count ? g->outputs[output].partial : NULL;
}

int ea_relog_write(ea_relog *g, unsigned output, const void *data, size_t len_bytes) {
    if (!g->is_written || output >= g->output_count || g->outputs[output].options.kind != EA_RELOG_OTHER)
        return ea_fail(&g->err, EA_EINVAL, "relog: bytes are written in on_written, to an output that is no trace");
    relog_output *o = &g->outputs[output];
    int rc = ea_file_write_at(o->file, o->len_bytes, data, len_bytes, &g->err);
    o->len_bytes += rc ? 0 : len_bytes;
    return rc;
}

/* ---- the run ---- */

static int relog_step(ea_relog *g, const ea_relog_callbacks *callbacks, void *arg, const ea_record *r) {
    if (ea_etl_is_header_record(r)) {
        g->counts.headers++;
        return 0;
    }
    g->counts.read++;
    const ea_relog_input *in = &g->inputs[r->source];
    g->is_replaced = 0;
    if (in->is_converted) {
        g->converted = *r;
        g->converted.time_raw = ea_clock_convert(&ea_etl_file_info(g->set, r->source)->clock,
                                                 &ea_etl_file_info(g->set, 0)->clock, r->time_raw);
        r = &g->converted;
    }
    int verdict =
        callbacks && callbacks->on_event ? callbacks->on_event(g, in, (const ea_relog_event *)r, arg) : EA_RELOG_KEEP;
    if (verdict < 0) {
        if (!g->err.code)
            return ea_fail(&g->err, verdict, "relog: the program ended the run");
        return verdict;
    }
    if (verdict == EA_RELOG_DROP) {
        g->counts.dropped++;
        return 0;
    }
    g->counts.kept++;
    int rc = 0;
    for (size_t i = 0; !rc && i < g->output_count; i++)
        if (!g->outputs[i].options.only_emitted && g->outputs[i].options.kind != EA_RELOG_OTHER)
            rc = write_shifted(g, &g->outputs[i], g->is_replaced ? &g->replacement : r);
    return rc;
}

static int relog_read_all(ea_relog *g, const ea_relog_callbacks *callbacks, void *arg) {
    const ea_record *r;
    int rc;
    while ((rc = ea_etl_next(g->set, &r, &g->err)) > 0) {
        if (atomic_load_explicit(&g->canceled, memory_order_relaxed))
            return ea_fail(&g->err, EA_ECANCELED, "relog");
        if ((rc = relog_step(g, callbacks, arg, r)) != 0)
            return rc;
    }
    return rc;
}

int ea_relog_run(ea_relog *g, const ea_relog_callbacks *callbacks, void *arg) {
    if (g->set)
        return ea_fail(&g->err, EA_EINVAL, "relog: it has run already");
    int rc = relog_open_inputs(g);
    if (!rc)
        rc = relog_begin(g, callbacks, arg);
    for (size_t i = 0; !rc && i < g->output_count; i++)
        rc = create_output(g, &g->outputs[i]);
    g->is_running = !rc;
    if (!rc)
        rc = relog_read_all(g, callbacks, arg);
    if (!rc && callbacks && callbacks->on_end)
        rc = callbacks->on_end(g, arg);
    g->is_running = 0;
    g->counts.damaged = ea_counter_get(&g->counters, EA_COUNT_source_bad_records) +
                        ea_counter_get(&g->counters, EA_COUNT_source_bad_buffers);
    if (!rc)
        rc = complete_outputs(g, callbacks, arg);
    if (rc && !g->err.code)
        return ea_fail(&g->err, rc, "relog: the program ended the run");
    return rc;
}

void ea_relog_cancel(ea_relog *g) {
    atomic_store(&g->canceled, 1);
}

/* ---- what callers look at ---- */

int64_t ea_relog_utc_ns(const ea_relog *g, int64_t time_raw) {
    return g->set ? ea_clock_to_utc_ns(&ea_etl_file_info(g->set, 0)->clock, time_raw) : 0;
}

int64_t ea_relog_raw(const ea_relog *g, int64_t utc_ns) {
    return g->set ? ea_clock_first_tick(&ea_etl_file_info(g->set, 0)->clock, utc_ns) : 0;
}

double ea_relog_progress(const ea_relog *g) {
    return g->set ? ea_etl_progress(g->set) : 0;
}

const ea_relog_counts *ea_relog_count(const ea_relog *g) {
    return &g->counts;
}

uint64_t ea_relog_written(const ea_relog *g, unsigned output) {
    return output < g->output_count ? g->outputs[output].expected : 0;
}

const char *ea_relog_error(const ea_relog *g) {
    return g->err.message;
}
