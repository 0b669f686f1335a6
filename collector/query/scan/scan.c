/* See scan.h: which batches, which groups, which events. */
#include "collector/query/scan/scan_parts.h"
#include "proto/base/array.h"

#include "proto/base/clock.h"
#include "proto/event/class_names.h"

#include <stdlib.h>
#include <string.h>

#define TOP_BIT 0x8000000000000000u

/* A set of numbers: ranges, both ends included, of values turned so that unsigned order is theirs. */
typedef struct range {
    int64_t first, last;
} range;

typedef struct ec_scan_condition {
    size_t column;
    enum ec_op op;
    int is_number;   /* ranges hold; otherwise texts do */
    int is_unusable; /* every event passes: the caller checks again */
    range *ranges;
    size_t range_count;
    int is_open_above; /* > and >=: texts, too, which COUNT has above 2^63 */
    ec_value *texts;
    size_t text_count;
} condition;

/* ---- conditions ---- */

int ec_scan_keeps(const ec_table_schema *shape, size_t column, enum ec_op op) {
    const ec_column *c = &shape->columns[column];
    if (c->is_name)
        return 0;
    switch (c->common) {
    case EC_FIELDS:
    case EC_STACK:
    case EC_STACK_HASH:
    case EC_COUNTERS:
    case EC_DECODED:
    case EC_PAYLOAD:
    case EC_ACTIVITY_ID:
    case EC_RELATED_ACTIVITY_ID:
        return 0;
    case EC_NAME: /* an alias equals it, too, which SQLite does not know */
    case EC_PROVIDER_NAME:
        return op == EC_OP_EQ ? 2 : 0;
    default:
        break;
    }
    switch (c->kind) {
    case EC_KIND_INT:
    case EC_KIND_HEX:
    case EC_KIND_TIME:
    case EC_KIND_ADDRESS:
        return 2;
    case EC_KIND_COUNT:
        return 1;
    case EC_KIND_TEXT:
        return op == EC_OP_EQ;
    default:
        return 0;
    }
}

int ec_condition_is_exact(const ec_table_schema *shape, const ec_condition *c) {
    enum ec_kind kind = shape->columns[c->column].kind;
    int keeps = ec_scan_keeps(shape, c->column, c->op);
    for (size_t k = 0; keeps == 1 && k < c->value_count; k++)
        if (c->values[k].type != EC_NULL && c->values[k].type != (kind == EC_KIND_TEXT ? EC_TEXT : EC_INT))
            keeps = 0;
    return keeps != 0;
}

/* The whole numbers x with x op r. */
static int range_of_real(enum ec_op op, double r, range *ret) {
    const double limit = 9223372036854775808.0;
    *ret = (range){INT64_MIN, INT64_MAX};
    if (r != r)
        return 0;
    if (r >= limit)
        return op == EC_OP_LT || op == EC_OP_LE;
    if (r < -limit)
        return op == EC_OP_GT || op == EC_OP_GE;
    int64_t below = (int64_t)r; /* floor */
    if ((double)below > r)
        below--;
    int is_whole = (double)below == r;
    switch (op) {
    case EC_OP_EQ:
        *ret = (range){below, below};
        return is_whole;
    case EC_OP_LE:
        ret->last = below;
        return 1;
    case EC_OP_LT:
        if (is_whole && below == INT64_MIN)
            return 0;
        ret->last = is_whole ? below - 1 : below;
        return 1;
    case EC_OP_GT:
        ret->first = below + 1;
        return below < INT64_MAX;
    default:
        ret->first = is_whole ? below : below + 1;
        return 1;
    }
}

/* The numbers x with x op value; 0: none. */
static int range_of(enum ec_op op, const ec_value *value, range *ret) {
    int64_t i = value->i;
    *ret = (range){INT64_MIN, INT64_MAX};
    switch (value->type) {
    case EC_NULL:
        return 0;
    case EC_REAL:
        return range_of_real(op, value->r, ret);
    case EC_TEXT:
    case EC_BLOB: /* sorts after all numbers */
        return op == EC_OP_LT || op == EC_OP_LE;
    default:
        break;
    }
    switch (op) {
    case EC_OP_EQ:
        *ret = (range){i, i};
        return 1;
    case EC_OP_LE:
        ret->last = i;
        return 1;
    case EC_OP_LT:
        ret->last = i > INT64_MIN ? i - 1 : i;
        return i > INT64_MIN;
    case EC_OP_GT:
        ret->first = i < INT64_MAX ? i + 1 : i;
        return i < INT64_MAX;
    default:
        ret->first = i;
        return 1;
    }
}

static int scan_compile(ec_scan *s, condition *to, const ec_condition *from, ea_err *err) {
    enum ec_kind kind = s->shape->columns[from->column].kind;
    size_t n = from->value_count;
    to->column = from->column;
    to->op = from->op;
    to->is_number = kind != EC_KIND_TEXT;
    to->is_unusable = !ec_scan_keeps(s->shape, from->column, from->op);
    if (to->is_unusable)
        return 0;
    to->ranges = calloc(n ? n : 1, sizeof *to->ranges);
    to->texts = calloc(n ? n : 1, sizeof *to->texts);
    if (!to->ranges || !to->texts)
        return ea_fail(err, EA_ENOMEM, "begin a scan");
    for (size_t i = 0; i < n; i++) {
        const ec_value *v = &from->values[i];
        if (!to->is_number) {
            if (v->type == EC_TEXT)
                to->texts[to->text_count++] = *v;
            else if (v->type != EC_NULL && ec_scan_keeps(s->shape, from->column, from->op) <
                                               2) /* may be turned into text, or the column into a number */
                to->is_unusable = 1;
            continue;
        }
        if (kind == EC_KIND_COUNT && v->type != EC_INT && v->type != EC_NULL)
            to->is_unusable = 1;
        to->range_count += (size_t)range_of(from->op, v, &to->ranges[to->range_count]);
    }
    to->is_open_above = from->op == EC_OP_GT || from->op == EC_OP_GE;
    return 0;
}

static int is_in(const condition *c, int64_t v) {
    for (size_t i = 0; i < c->range_count; i++)
        if (v >= c->ranges[i].first && v <= c->ranges[i].last)
            return 1;
    return 0;
}

static int scan_is_text(const condition *c, const char *data, size_t len_bytes) {
    for (size_t i = 0; i < c->text_count; i++)
        if (c->texts[i].len_bytes == len_bytes && (len_bytes == 0 || memcmp(c->texts[i].data, data, len_bytes) == 0))
            return 1;
    return 0;
}

/* What the condition says about a value of the column. */
static int scan_passes(const condition *c, const ec_value *v) {
    if (c->is_unusable)
        return 1;
    switch (v->type) {
    case EC_INT:
        return !c->is_number || is_in(c, v->i);
    case EC_TEXT:
        return c->is_number ? c->is_open_above : scan_is_text(c, v->data, v->len_bytes);
    case EC_NULL:
        return 0;
    default:
        return 1;
    }
}

static int passes_text(const condition *c, const char *text) {
    return c->is_unusable || scan_is_text(c, text, strlen(text));
}

/* The name of a class, or an alias. */
static int passes_name(const condition *c, const ea_class *class) {
    if (passes_text(c, class->name))
        return 1;
    for (size_t i = 0; i < c->text_count; i++)
        if (ea_event_has_alias(c->texts[i].data, c->texts[i].len_bytes, &class->provider, class->provider_name,
                               class->classic, class->code))
            return 1;
    return 0;
}

static int passes_provider(const condition *c, const ea_class *class) {
    for (size_t i = 0; i < c->text_count; i++)
        if (ea_provider_is_named(c->texts[i].data, c->texts[i].len_bytes, class->provider_name, &class->provider))
            return 1;
    return passes_text(c, class->provider_name);
}

static int passes_number(const condition *c, int64_t v) {
    return c->is_unusable || is_in(c, v);
}

int ec_scan_is_constant(const ec_table_schema *shape, size_t column) {
    switch (shape->columns[column].common) {
    case EC_HOST:
    case EC_STREAM:
    case EC_BATCH:
    case EC_NAME:
    case EC_PROVIDER:
    case EC_PROVIDER_NAME:
    case EC_ID:
    case EC_VERSION:
    case EC_CHANNEL:
    case EC_LEVEL:
    case EC_OPCODE:
    case EC_TASK:
    case EC_KEYWORD:
        return 1;
    default:
        return 0;
    }
}

/* Whether stream, batch, group and the window of time decide about all events. */
static int is_of_constants(const ec_scan *s) {
    for (size_t k = 0; k < s->condition_count; k++) {
        const condition *c = &s->conditions[k];
        int is_window = s->shape->columns[c->column].common == EC_TIME && c->range_count == 1;
        if (c->is_unusable || (!is_window && !ec_scan_is_constant(s->shape, c->column)))
            return 0;
    }
    return 1;
}

/* What of the conditions the index can be asked for: time, pids. */
static int scan_narrow(ec_scan *s, ea_err *err) {
    for (size_t k = 0; k < s->condition_count; k++) {
        const condition *c = &s->conditions[k];
        int common = s->shape->columns[c->column].common;
        if (c->is_unusable)
            continue;
        if (c->is_number ? c->range_count == 0 && s->shape->columns[c->column].kind != EC_KIND_COUNT : !c->text_count)
            s->is_nothing = 1;
        if (common == EC_TIME && c->range_count == 1) {
            if (c->ranges[0].first > s->from_utc_ns)
                s->from_utc_ns = c->ranges[0].first;
            if (c->ranges[0].last < s->to_utc_ns)
                s->to_utc_ns = c->ranges[0].last;
        }
        if (common != EC_PID || c->op != EC_OP_EQ || s->has_pids)
            continue;
        s->pids = calloc(c->range_count + 1, sizeof *s->pids);
        if (!s->pids)
            return ea_fail(err, EA_ENOMEM, "begin a scan");
        for (size_t i = 0; i < c->range_count; i++)
            if (c->ranges[i].first >= 0 && c->ranges[i].first <= UINT32_MAX)
                s->pids[s->pid_count++] = (uint32_t)c->ranges[i].first;
        for (size_t i = 1; i < s->pid_count; i++) { /* a handful: by insertion */
            uint32_t pid = s->pids[i];
            size_t at = i;
            for (; at > 0 && s->pids[at - 1] > pid; at--)
                s->pids[at] = s->pids[at - 1];
            s->pids[at] = pid;
        }
        s->has_pids = 1;
    }
    if (s->from_utc_ns > s->to_utc_ns)
        s->is_nothing = 1;
    return 0;
}

static int wants_class(const ec_scan *s, const ea_class *c) {
    if (!s->shape->set && c->kind == EA_KIND_KEYFRAME)
        return 0;
    for (size_t k = 0; k < s->condition_count; k++) {
        int common = s->shape->columns[s->conditions[k].column].common;
        if (common == EC_NAME && !passes_name(&s->conditions[k], c))
            return 0;
        if (common == EC_PROVIDER_NAME && !passes_provider(&s->conditions[k], c))
            return 0;
    }
    return 1;
}

/* Which classes the index is asked for. */
static int scan_choose_classes(ec_scan *s, ea_err *err) {
    size_t all;
    const ea_class *const *classes = NULL;
    int rc = ec_archive_classes(s->archive, &classes, &all, err);
    if (rc)
        return rc;
    size_t n = all;
    if (s->shape->set) {
        classes = s->shape->set->classes;
        n = s->shape->set->count;
    }
    s->classes = malloc((n + 1) * sizeof *s->classes);
    if (!s->classes)
        return ea_fail(err, EA_ENOMEM, "begin a scan");
    for (size_t i = 0; i < n; i++)
        if (wants_class(s, classes[i]))
            memcpy(s->classes[s->class_count++].bytes, classes[i]->hash, EA_CLASS_HASH_BYTES);
    if (s->class_count == all) {
        free(s->classes);
        s->classes = NULL;
    }
    return 0;
}

int ec_scan_open(ec_scan **ret, ec_archive *archive, const ec_table_schema *shape, const ec_annotator *annotator,
                 const ec_condition *conditions, size_t condition_count, ea_err *err) {
    ec_scan *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "begin a scan");
    s->archive = archive;
    s->shape = s->own = shape;
    if (annotator)
        s->annotator = *annotator;
    s->from_utc_ns = INT64_MIN;
    s->to_utc_ns = INT64_MAX;
    ea_text_init(&s->text);
    s->conditions = calloc(condition_count + 1, sizeof *s->conditions);
    s->cells = calloc(shape->count + 1, sizeof *s->cells);
    s->cell_capacity = shape->count + 1;
    int rc = s->conditions && s->cells ? 0 : ea_fail(err, EA_ENOMEM, "begin a scan");
    for (size_t i = 0; !rc && i < condition_count; i++) {
        s->condition_count = i + 1;
        rc = scan_compile(s, &s->conditions[i], &conditions[i], err);
    }
    if (!rc)
        rc = scan_narrow(s, err);
    if (!rc)
        rc = scan_choose_classes(s, err);
    if (rc) {
        ec_scan_close(s);
        return rc;
    }
    s->is_of_constants = is_of_constants(s);
    ec_archive_reads(archive)->scans++;
    s->filter = (ec_index_query_filter){.from_utc_ns = s->from_utc_ns,
                                        .to_utc_ns = s->to_utc_ns,
                                        .classes = s->classes,
                                        .class_count = s->class_count,
                                        .pids = s->has_pids ? s->pids : NULL,
                                        .pid_count = s->pid_count};
    *ret = s;
    return 0;
}

void ec_scan_set_filter(ec_scan *s, const ec_row_filter *filter) {
    s->rows = filter ? *filter : (ec_row_filter){0};
}

void ec_scan_set_counting(ec_scan *s) {
    s->is_counting = 1;
}

void ec_scan_close(ec_scan *s) {
    if (!s)
        return;
    ec_index_query_close(s->find);
    ea_batch_close(s->view);
    ea_batch_close(s->spare);
    for (size_t i = 0; s->conditions && i < s->condition_count; i++) {
        free(s->conditions[i].ranges);
        free(s->conditions[i].texts);
    }
    free(s->conditions);
    free(s->classes);
    free(s->pids);
    free(s->data);
    free(s->cells);
    free(s->selected);
    free(s->marks);
    free(s->raw);
    ea_text_deinit(&s->text);
    free(s);
}

/* ---- batches ---- */

static int scan_wants_stream(const ec_scan *s, const ec_archive_stream *stream) {
    for (size_t k = 0; k < s->condition_count; k++) {
        int common = s->shape->columns[s->conditions[k].column].common;
        if (common == EC_HOST && !passes_text(&s->conditions[k], stream->row.host))
            return 0;
        if (common == EC_STREAM && !passes_text(&s->conditions[k], stream->id))
            return 0;
    }
    return 1;
}

/* The first raw time at or after a UTC time; INT64_MAX when only the last one may be. */
static int64_t first_raw(const ea_clock *clock, int64_t utc_ns) {
    int64_t low = INT64_MIN, high = INT64_MAX; /* the clock does not run backwards */
    while (low < high) {
        int64_t middle = (int64_t)((uint64_t)low + (((uint64_t)high - (uint64_t)low) >> 1));
        if (ea_clock_to_utc_ns(clock, middle) >= utc_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The raw times of each source that are inside the window. */
static int find_raw_times(ec_scan *s) {
    size_t n = ea_batch_source_count(s->view);
    if (EA_GROW(s->raw, s->raw_capacity, n, SIZE_MAX))
        return EA_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const ea_clock *clock = &ea_batch_source(s->view, i)->clock;
        int64_t first = first_raw(clock, s->from_utc_ns), last = INT64_MAX;
        int is_none = ea_clock_to_utc_ns(clock, first) < s->from_utc_ns;
        if (s->to_utc_ns < INT64_MAX) {
            last = first_raw(clock, s->to_utc_ns + 1);
            is_none |= last == INT64_MIN;
            if (!is_none && ea_clock_to_utc_ns(clock, last) > s->to_utc_ns)
                last--;
        }
        s->raw[i].first = is_none ? INT64_MAX : first;
        s->raw[i].last = is_none ? INT64_MIN : last;
    }
    return 0;
}

static int open_find(ec_scan *s, ea_err *err) {
    return s->find ? 0 : ec_index_query_open(&s->find, ec_archive_store(s->archive), &s->filter, err);
}

/* Counts the batches of a stream that is over, or left out: all of it, of which find came across some. */
static int count_stream(ec_scan *s, int is_other, ea_err *err) {
    ec_reads *reads = ec_archive_reads(s->archive);
    uint64_t all = 0, seen;
    int has_no_class = s->classes && !s->class_count;
    if (is_other && !reads->counts_times)
        return 0;
    int rc = open_find(s, err);
    if (!rc && reads->counts_times)
        rc = ec_index_query_batches(s->find, s->stream->row.stream_id, &all, err);
    if (rc)
        return rc;
    const ec_index_query_counts *now = ec_index_query_counted(s->find);
    reads->other_classes += now->other_classes - s->counts.other_classes;
    reads->other_pids += now->other_pids - s->counts.other_pids;
    seen = now->given - s->counts.given + now->other_classes - s->counts.other_classes + now->other_pids -
           s->counts.other_pids;
    s->counts = *now;
    *(is_other       ? &reads->other_hosts
      : has_no_class ? &reads->other_classes
                     : &reads->other_times) += all > seen ? all - seen : 0;
    return 0;
}

/* Whether the batch that was found is to be read; keyframes are none of all events. */
static int scan_wants_batch(ec_scan *s) {
    ec_reads *reads = ec_archive_reads(s->archive);
    int wanted = 1;
    if (!s->shape->set && s->found.kind == EA_BATCH_KEYFRAME) {
        reads->other_classes++;
        return 0;
    }
    for (size_t k = 0; k < s->condition_count; k++)
        if (s->shape->columns[s->conditions[k].column].common == EC_BATCH)
            wanted &= passes_number(&s->conditions[k], (int64_t)s->found.row.number);
    if (wanted && (!s->rows.wants || s->rows.wants(s->rows.arg, &s->found.row)))
        return 1;
    reads->other_batches++;
    return 0;
}

/* Opens the next batch that may hold something: 1, 0 at the end. */
static int scan_next_batch(ec_scan *s, ea_err *err) {
    size_t streams = 0;
    const ec_archive_stream *all = NULL;
    ec_reads *reads = ec_archive_reads(s->archive);
    if (s->view) { /* its memory is used again */
        s->spare = s->view;
        s->view = NULL;
    }
    int streams_rc = ec_archive_streams(s->archive, &all, &streams, err);
    if (streams_rc)
        return streams_rc;
    for (;;) {
        if (!s->is_in_stream) {
            if (s->is_nothing || s->next_stream == streams)
                return 0;
            s->stream = &all[s->next_stream++];
            int is_other = !scan_wants_stream(s, s->stream),
                rc = is_other ? count_stream(s, 1, err) : open_find(s, err);
            if (rc)
                return rc;
            if (is_other)
                continue;
            ec_index_query_stream(s->find, &s->stream->row);
            s->is_in_stream = 1;
        }
        int rc = ec_index_query_next(s->find, &s->found, err);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            s->is_in_stream = 0;
            if ((rc = count_stream(s, 0, err)))
                return rc;
            continue;
        }
        if (!scan_wants_batch(s))
            continue;
        if (!ec_archive_goes_on(s->archive))
            return ea_fail(err, EA_ECANCELED, "scan a store");
        const uint8_t *data;
        size_t len_bytes;
        ea_err damage = {0};
        rc = ec_store_read(ec_archive_store(s->archive), &s->found.row, &data, &len_bytes, &damage);
        if (!rc) {
            /* the store's buffer is shared with other scans */
            if (EA_GROW(s->data, s->data_capacity, len_bytes ? len_bytes : 1, SIZE_MAX))
                return ea_fail(err, EA_ENOMEM, "read a batch");
            memcpy(s->data, data, len_bytes);
            rc = ea_batch_open_next(&s->spare, s->data, len_bytes, ec_archive_registry(s->archive), &damage);
        }
        if (rc && !ec_is_damage(rc)) {
            if (err)
                *err = damage;
            return rc;
        }
        if (rc) {
            ec_archive_damaged(s->archive, s->stream, s->found.row.number, &damage);
            continue;
        }
        s->ordinal = ec_archive_ordinal(s->archive, &s->found.row);
        if (!s->ordinal)
            return ea_fail(err, EA_ENOMEM, "read a batch");
        s->view = s->spare;
        s->spare = NULL;
        s->has_raw = 0;
        s->next_group = 0;
        reads->batches++;
        reads->batch_events += s->found.row.event_count;
        reads->batch_bytes += s->found.row.len_bytes;
        return 1;
    }
}

/* ---- events ---- */

/* Whether the group's constants pass. */
static int wants_group(const ec_scan *s, const ec_block *b) {
    char guid[37];
    if (s->shape->set) {
        size_t i = 0;
        while (i < s->shape->set->count && s->shape->set->classes[i] != b->c)
            i++;
        if (i == s->shape->set->count)
            return 0;
    }
    if (!wants_class(s, b->c))
        return 0;
    for (size_t k = 0; k < s->condition_count; k++) {
        const condition *c = &s->conditions[k];
        int common = s->shape->columns[c->column].common;
        switch (common) {
        case EC_PROVIDER:
            ea_guid_format(&b->constants->provider, guid);
            if (!passes_text(c, guid))
                return 0;
            break;
        case EC_ID:
        case EC_VERSION:
        case EC_CHANNEL:
        case EC_LEVEL:
        case EC_OPCODE:
        case EC_TASK:
        case EC_KEYWORD:
            if (!passes_number(c, ec_scan_constant(b, common)))
                return 0;
            break;
        default:
            break;
        }
    }
    return 1;
}

static void keep_times(ec_scan *s) {
    const ec_block *b = &s->block;
    const int64_t *time = b->events->time;
    uint32_t *to = s->selected, n = 0;
    if (ea_batch_source_count(s->view) == 1) {
        uint64_t first = (uint64_t)s->raw[0].first, span = (uint64_t)s->raw[0].last - first;
        if (s->raw[0].first > s->raw[0].last) {
            s->block.selected_count = 0;
            return;
        }
        for (uint32_t i = 0; i < b->selected_count; i++) {
            uint32_t row = to[i];
            to[n] = row;
            n += (uint64_t)time[b->rows[row]] - first <= span;
        }
    } else {
        for (uint32_t i = 0; i < b->selected_count; i++) {
            uint32_t row = to[i], event = b->rows[row];
            uint16_t source = b->events->source[event];
            to[n] = row;
            n += time[event] >= s->raw[source].first && time[event] <= s->raw[source].last;
        }
    }
    s->block.selected_count = n;
}

/* A condition on pids or tids: asked once a thread. */
static int keep_threads(ec_scan *s, const condition *c, const uint32_t *ids) {
    const ec_block *b = &s->block;
    uint32_t *to = s->selected, n = 0, threads = b->events->thread_count;
    if (EA_GROW(s->marks, s->marks_capacity, threads, SIZE_MAX))
        return EA_ENOMEM;
    for (uint32_t t = 0; t < threads; t++)
        s->marks[t] = (uint8_t)is_in(c, ids[t]);
    for (uint32_t i = 0; i < b->selected_count; i++) {
        uint32_t row = to[i];
        to[n] = row;
        n += s->marks[b->events->thread[b->rows[row]]];
    }
    s->block.selected_count = n;
    return 0;
}

static void keep_numbers(ec_scan *s, const condition *c, int common) {
    uint32_t *to = s->selected, n = 0;
    for (uint32_t i = 0; i < s->block.selected_count; i++) {
        uint32_t row = to[i];
        to[n] = row;
        n += (uint32_t)is_in(c, ec_scan_number(s, common, s->block.rows[row]));
    }
    s->block.selected_count = n;
}

/* Fixed-width unsigned numbers of one range: key = load ^ flip, kept when key - first <= last - first. */
#define KEEP(type, load)                                                                                               \
    static uint32_t keep_##type(const uint8_t *data, size_t stride, uint32_t *rows, uint32_t count, uint64_t flip,     \
                                uint64_t first, uint64_t span) {                                                       \
        uint32_t n = 0;                                                                                                \
        for (uint32_t i = 0; i < count; i++) {                                                                         \
            uint32_t row = rows[i];                                                                                    \
            rows[n] = row;                                                                                             \
            n += ((uint64_t)load(data + row * stride) ^ flip) - first <= span;                                         \
        }                                                                                                              \
        return n;                                                                                                      \
    }

static uint8_t load8(const uint8_t *p) {
    return *p;
}
KEEP(u8, load8)
KEEP(u16, ea_load16)
KEEP(u32, ea_load32)
KEEP(u64, ea_load64)
KEEP(i8, (int64_t)(int8_t)load8)
KEEP(i16, (int64_t)(int16_t)ea_load16)
KEEP(i32, (int64_t)(int32_t)ea_load32)
#undef KEEP

static int keep_fixed(ec_scan *s, const condition *c, const ea_field *f, const ea_column *data) {
    enum ec_kind kind = s->shape->columns[c->column].kind;
    if (c->range_count != 1 || data->width != f->width || f->type == EA_PORT || f->type == EA_FILETIME)
        return 0;
    uint64_t flip = TOP_BIT, first = (uint64_t)c->ranges[0].first ^ TOP_BIT,
             last = (uint64_t)c->ranges[0].last ^ TOP_BIT;
    if (kind == EC_KIND_ADDRESS) {
        flip = 0;
    } else if (kind == EC_KIND_COUNT) {
        if (c->ranges[0].last < 0 || ec_is_signed(f))
            return 0;
        flip = 0;
        first = c->ranges[0].first < 0 ? 0 : (uint64_t)c->ranges[0].first;
        last = c->is_open_above ? UINT64_MAX : (uint64_t)c->ranges[0].last;
    }
    uint32_t *rows = s->selected, n = s->block.selected_count;
    uint64_t span = last - first;
    int sign = ec_is_signed(f);
    switch (data->width) {
    case 1:
        n = sign ? keep_i8(data->data, data->stride, rows, n, flip, first, span)
                 : keep_u8(data->data, data->stride, rows, n, flip, first, span);
        break;
    case 2:
        n = sign ? keep_i16(data->data, data->stride, rows, n, flip, first, span)
                 : keep_u16(data->data, data->stride, rows, n, flip, first, span);
        break;
    case 4:
        n = sign ? keep_i32(data->data, data->stride, rows, n, flip, first, span)
                 : keep_u32(data->data, data->stride, rows, n, flip, first, span);
        break;
    case 8:
        n = keep_u64(data->data, data->stride, rows, n, flip, first, span);
        break;
    default:
        return 0;
    }
    s->block.selected_count = n;
    return 1;
}

static int keep_dictionary(ec_scan *s, const condition *c, const ea_column *values, const uint32_t *index,
                           ea_err *err) {
    uint32_t *to = s->selected, n = 0;
    if (EA_GROW(s->marks, s->marks_capacity, values->count, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "scan a column");
    for (uint32_t i = 0; i < values->count; i++) {
        ec_value v;
        int rc = ec_scan_row_value(s, c->column, values, i, &v, err);
        if (rc)
            return rc;
        s->marks[i] = (uint8_t)scan_passes(c, &v);
    }
    for (uint32_t i = 0; i < s->block.selected_count; i++) {
        uint32_t row = to[i];
        to[n] = row;
        n += s->marks[index[row]]; /* NOLINT(clang-analyzer-*): a dictionary comes with its indexes */
    }
    s->block.selected_count = n;
    return 0;
}

/* A condition on a field. */
static int keep_field(ec_scan *s, const condition *c, ea_err *err) {
    const ec_scan_cell *at = ec_scan_find_cell(s, c->column);
    int rc = 0;
    if (at->top < 0) {
        s->block.selected_count = 0;
        return 0;
    }
    ea_column data = {0};
    const uint32_t *index = NULL;
    if (!at->is_slow && (!c->is_number || c->range_count > 1)) {
        rc = ec_scan_dictionary(s, c->column, &data, &index, err);
        if (rc)
            return rc < 0 ? rc : keep_dictionary(s, c, &data, index, err);
    }
    rc = ec_scan_column(s, c->column, &data, NULL, err);
    if (rc < 0)
        return rc;
    if (rc && c->is_number && keep_fixed(s, c, at->field, &data))
        return 0;
    uint32_t *to = s->selected, n = 0, count = s->block.selected_count;
    for (uint32_t i = 0; i < count; i++) {
        ec_value v;
        rc = ec_scan_value(s, c->column, to[i], &v, err);
        if (rc)
            return rc;
        to[n] = to[i];
        n += (uint32_t)scan_passes(c, &v);
    }
    s->block.selected_count = n;
    return 0;
}

enum { TICK_NS = 1000000 }; /* so far beside its batch's times in the index an event may be */

static int scan_is_inside(const ec_scan *s) {
    const ec_batch_row *r = &s->found.row;
    return (s->from_utc_ns == INT64_MIN ||
            (r->begin_utc_ns > INT64_MIN + TICK_NS && r->begin_utc_ns - TICK_NS > s->from_utc_ns)) &&
           (s->to_utc_ns == INT64_MAX ||
            (r->end_utc_ns < INT64_MAX - TICK_NS && r->end_utc_ns + TICK_NS < s->to_utc_ns));
}

int ec_scan_bounds(const ec_scan *s, int64_t *ret_begin_utc_ns, int64_t *ret_end_utc_ns) {
    const ec_batch_row *r = &s->found.row;
    if (r->begin_utc_ns <= INT64_MIN + TICK_NS || r->end_utc_ns >= INT64_MAX - TICK_NS)
        return 0;
    *ret_begin_utc_ns = r->begin_utc_ns - TICK_NS;
    *ret_end_utc_ns = r->end_utc_ns + TICK_NS;
    return 1;
}

/* Selects what the conditions let through of the group at hand. */
static int select_rows(ec_scan *s, ea_err *err) {
    ec_block *b = &s->block;
    if (EA_GROW(s->selected, s->selected_capacity, b->count, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "scan a batch");
    for (uint32_t i = 0; i < b->count; i++)
        s->selected[i] = i;
    b->selected_count = b->count;
    b->selected = s->selected;
    if (!scan_is_inside(s)) {
        if (!s->has_raw && find_raw_times(s))
            return ea_fail(err, EA_ENOMEM, "scan a batch");
        s->has_raw = 1;
        keep_times(s);
    }
    for (size_t k = 0; b->selected_count && k < s->condition_count; k++) {
        const condition *c = &s->conditions[k];
        int rc = 0, common = s->shape->columns[c->column].common;
        if (c->is_unusable)
            continue;
        switch (common) {
        case EC_PID:
            rc = keep_threads(s, c, b->events->pid);
            break;
        case EC_TID:
            rc = keep_threads(s, c, b->events->tid);
            break;
        case EC_TIME:
            if (c->range_count == 1)
                break; /* keep_times did it */
            /* fall through */
        case EC_CPU:
        case EC_POSITION:
        case EC_SOURCE:
        case EC_CLOCK:
            keep_numbers(s, c, common);
            break;
        case EC_COMMON_COUNT:
            rc = keep_field(s, c, err);
            break;
        default: /* constants of the group, the batch, the stream */
            break;
        }
        if (rc)
            return rc == EA_ENOMEM ? ea_fail(err, EA_ENOMEM, "scan a batch") : rc;
    }
    return 0;
}

static void set_group(ec_scan *s, ec_block *b, size_t group) {
    *b = (ec_block){
        .stream = s->stream, .batch = s->found.row.number, .ordinal = s->ordinal, .view = s->view, .group = group};
    b->c = ea_batch_group_class(s->view, group);
    b->constants = ea_batch_group_constants(s->view, group);
    b->count = ea_batch_group_events(s->view, group);
}

/* Whether the filter, which reads constants, keeps the group at hand: 1 or 0. */
static int keeps_constants(ec_scan *s, ea_err *err) {
    uint32_t count = 1;
    if (!s->rows.keep)
        return 1;
    if (EA_GROW(s->selected, s->selected_capacity, 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "scan a batch");
    s->selected[0] = 0;
    int rc = s->rows.keep(s->rows.arg, s, &s->block, s->selected, &count, err);
    return rc ? rc : count != 0;
}

/* Decodes the group at hand and selects its events. */
static int take_events(ec_scan *s, ea_err *err) {
    ec_block *b = &s->block;
    ec_reads *reads = ec_archive_reads(s->archive);
    int rc = ea_batch_get_events(s->view, &b->events, err);
    if (!rc)
        rc = ea_batch_group_rows(s->view, b->group, &b->rows, err);
    if (!rc)
        rc = select_rows(s, err);
    if (!rc && b->selected_count && s->rows.keep)
        rc = s->rows.keep(s->rows.arg, s, b, s->selected, &b->selected_count, err);
    reads->decoded_events += b->count;
    reads->kept_events += rc ? 0 : b->selected_count;
    return rc;
}

/* The next group of the batch at hand that has something: 1, 0 at its end. */
static int next_group(ec_scan *s, ea_err *err) {
    size_t groups = ea_batch_group_count(s->view);
    while (s->next_group < groups) {
        ec_block *b = &s->block;
        int rc;
        set_group(s, b, s->next_group++);
        if (!wants_group(s, b))
            continue;
        s->block_number++;
        if (s->is_counting && s->is_of_constants && (!s->rows.keep || s->rows.is_of_constants) && scan_is_inside(s)) {
            rc = keeps_constants(s, err);
            b->selected_count = rc == 1 ? b->count : 0;
            ec_archive_reads(s->archive)->counted_events += b->selected_count;
            ec_archive_reads(s->archive)->kept_events += b->selected_count;
        } else {
            rc = take_events(s, err);
        }
        if (rc < 0)
            return rc;
        if (b->selected_count)
            return 1;
    }
    return 0;
}

int ec_scan_decode(ec_scan *s, ea_err *err) {
    ea_err why = {0};
    ec_archive_reads(s->archive)->counted_events -= s->block.count;
    ec_archive_reads(s->archive)->kept_events -= s->block.count;
    int rc = take_events(s, &why);
    if (!rc)
        return 1;
    if (!ec_is_damage(rc)) {
        if (err)
            *err = why;
        return rc;
    }
    ec_archive_damaged(s->archive, s->stream, s->found.row.number, &why);
    return 0;
}

/* Whether the conditions let all events of the batch at hand pass. */
static int wants_all_groups(ec_scan *s) {
    if (s->whole_batch == s->ordinal)
        return s->is_whole_batch;
    s->whole_batch = s->ordinal;
    s->is_whole_batch = !s->rows.keep;
    for (size_t i = 0; s->is_whole_batch && i < ea_batch_group_count(s->view); i++) {
        ec_block b;
        set_group(s, &b, i);
        s->is_whole_batch = wants_group(s, &b);
    }
    return s->is_whole_batch;
}

int ec_scan_times(ec_scan *s, int is_of_batch, int64_t *ret_least_utc_ns, int64_t *ret_greatest_utc_ns) {
    const ea_batch_head *h = ea_batch_get_head(s->view);
    if (ea_batch_source_count(s->view) != 1 || /* what another clock says is in the head to its tick alone */
        (uint64_t)h->time_max - (uint64_t)h->time_min >= INT64_MAX ||
        (s->block.count != h->event_count && !(is_of_batch && wants_all_groups(s))))
        return 0;
    *ret_least_utc_ns = h->utc_min_ns;
    *ret_greatest_utc_ns = h->utc_max_ns;
    return 1;
}

int ec_scan_show(ec_scan *s, const ec_table_schema *shape, ea_err *err) {
    size_t before = s->cell_capacity;
    if (EA_GROW(s->cells, s->cell_capacity, shape->count, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "scan a batch");
    memset(s->cells + before, 0, (s->cell_capacity - before) * sizeof *s->cells);
    s->shape = shape;
    s->block_number++; /* cells are of the shape before */
    return 0;
}

int ec_scan_next(ec_scan *s, const ec_block **ret, ea_err *err) {
    s->shape = s->own;
    for (;;) {
        if (s->view) {
            ea_err why = {0};
            int rc = next_group(s, &why);
            if (rc == 1) {
                *ret = &s->block;
                return 1;
            }
            if (rc < 0 && !ec_is_damage(rc)) {
                if (err)
                    *err = why;
                return rc;
            }
            if (rc < 0)
                ec_archive_damaged(s->archive, s->stream, s->found.row.number, &why);
        }
        int rc = scan_next_batch(s, err);
        if (rc != 1)
            return rc;
    }
}
