/* See first_events.h. */
#include "collector/query/analysis/first_events.h"

#include "collector/query/analysis/block_keys.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BATCHES = 4, MORE = 4, MARGIN_NS = 1000000 };

/* A value in the heap, with a copy of its text. */
typedef struct kept {
    ec_value value;
    char *copy;
    size_t capacity;
} kept;

/* Where a scan gives an event: what decides between equal ones. */
typedef struct turn {
    uint64_t batch; /* its number among those that the scan asks for */
    uint64_t row;   /* group, row */
} turn;

typedef struct entry {
    kept keys[EC_FIRST_KEYS_MAX];
    turn turn;
    ec_first_event event;
} entry;

typedef struct span {
    int64_t begin_utc_ns, end_utc_ns;
} span;

typedef struct state {
    const ec_first_options *o;
    const ec_table_schema *shape;
    ec_keys keys; /* for numbers of columns alone */
    ec_archive *archive;
    ec_scan *scan;
    entry **heap; /* the worst is the first */
    size_t count;
    size_t text_bytes;
    int is_mixed; /* reals and whole numbers were compared */
    int64_t *numbers;
    size_t numbers_capacity;
    uint8_t *marks;
    size_t marks_capacity;
    span *batches; /* in the order of the scan */
    size_t batch_count, batch_capacity;
    uint8_t *wanted; /* of the batches, in this pass; NULL: they are listed, and none is read */
    size_t next_batch, at_batch;
    int failed;
} state;

static int first_no_memory(ea_err *err) {
    return ea_fail(err, EA_ENOMEM, "sort events");
}

/* ---- order ---- */

static int rank(const ec_value *v) {
    static const int RANKS[] = {[EC_NULL] = 0, [EC_INT] = 1, [EC_REAL] = 1, [EC_TEXT] = 2, [EC_BLOB] = 3};
    return RANKS[v->type];
}

static int compare_bytes(const ec_value *a, const ec_value *b) {
    size_t n = a->len_bytes < b->len_bytes ? a->len_bytes : b->len_bytes;
    int c = n ? memcmp(a->data, b->data, n) : 0;
    return c ? c : (a->len_bytes > b->len_bytes) - (a->len_bytes < b->len_bytes);
}

/* As SQL sorts two values of a column by this key: below 0 when a comes first. */
static int first_events_compare(state *s, const ec_first_key *k, const ec_value *a, const ec_value *b) {
    int x = rank(a), y = rank(b), c;
    if (x == 0 || y == 0) {
        c = x == y ? 0 : x == 0 ? -1 : 1;
        return k->nulls_are_last ? -c : c;
    }
    if (x != y) {
        c = x - y;
    } else if (x == 1) {
        s->is_mixed |= a->type != b->type;
        c = a->type == EC_INT ? (a->i > b->i) - (a->i < b->i) : (a->r > b->r) - (a->r < b->r);
    } else {
        c = compare_bytes(a, b);
    }
    return k->is_descending ? -c : c;
}

static int compare_turns(const turn *a, const turn *b) {
    int c = (a->batch > b->batch) - (a->batch < b->batch);
    return c ? c : (a->row > b->row) - (a->row < b->row);
}

static int first_events_compare_entries(state *s, const entry *a, const entry *b) {
    for (size_t k = 0; k < s->o->key_count; k++) {
        int c = first_events_compare(s, &s->o->keys[k], &a->keys[k].value, &b->keys[k].value);
        if (c)
            return c;
    }
    return compare_turns(&a->turn, &b->turn);
}

/* ---- heap ---- */

static void sift_up(state *s, size_t at) {
    while (at && first_events_compare_entries(s, s->heap[at], s->heap[(at - 1) / 2]) > 0) {
        entry *e = s->heap[at];
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
        s->heap[at] = e;
    }
}

static void first_events_sift_down(state *s) {
    for (size_t at = 0, worse;; at = worse) {
        worse = at;
        for (size_t child = 2 * at + 1; child < 2 * at + 3 && child < s->count; child++)
            if (first_events_compare_entries(s, s->heap[child], s->heap[worse]) > 0)
                worse = child;
        if (worse == at)
            return;
        entry *e = s->heap[at];
        s->heap[at] = s->heap[worse];
        s->heap[worse] = e;
    }
}

static int keep_value(state *s, kept *to, const ec_value *v, ea_err *err) {
    to->value = *v;
    if (v->type == EC_REAL && v->r != v->r) /* what SQLite makes of it */
        to->value.type = EC_NULL;
    if (v->type != EC_TEXT && v->type != EC_BLOB)
        return 0;
    size_t before = to->capacity;
    if (EA_GROW(to->copy, to->capacity, v->len_bytes + 1, SIZE_MAX))
        return first_no_memory(err);
    s->text_bytes += to->capacity - before;
    if (s->text_bytes > s->o->limit_bytes)
        return ea_fail(err, EA_ELIMIT, "sort events: the texts are too long");
    if (v->len_bytes)
        memcpy(to->copy, v->data, v->len_bytes);
    to->value.data = to->copy;
    return 0;
}

/* A value for comparing alone. */
static int first_value_of(state *s, size_t k, uint32_t row, ec_value *ret, ea_err *err) {
    int rc = ec_scan_value(s->scan, s->o->keys[k].column, row, ret, err);
    if (!rc && ret->type == EC_REAL && ret->r != ret->r)
        ret->type = EC_NULL;
    return rc;
}

/* Puts an event into the heap, if it is better than the worst there. */
static int offer(state *s, const ec_block *b, uint32_t row, ea_err *err) {
    const turn at = {s->at_batch, (uint64_t)b->group << 32 | row};
    int is_full = s->count == s->o->count, c = 0;
    for (size_t k = 0; is_full && !c && k < s->o->key_count; k++) {
        ec_value v;
        int rc = first_value_of(s, k, row, &v, err);
        if (rc)
            return rc;
        c = first_events_compare(s, &s->o->keys[k], &v, &s->heap[0]->keys[k].value);
    }
    if (is_full && (c > 0 || (c == 0 && compare_turns(&at, &s->heap[0]->turn) > 0)))
        return 0;
    if (!is_full && !s->heap[s->count] && !(s->heap[s->count] = calloc(1, sizeof(entry))))
        return first_no_memory(err);
    entry *e = s->heap[is_full ? 0 : s->count];
    for (size_t k = 0; k < s->o->key_count; k++) {
        ec_value v;
        int rc = ec_scan_value(s->scan, s->o->keys[k].column, row, &v, err);
        rc = rc ? rc : keep_value(s, &e->keys[k], &v, err);
        if (rc)
            return rc;
    }
    e->turn = at;
    e->event = (ec_first_event){
        .ordinal = b->ordinal, .stream_id = b->stream->row.stream_id, .batch = b->batch, .event = b->rows[row]};
    if (is_full) {
        first_events_sift_down(s);
    } else {
        s->count++;
        sift_up(s, s->count - 1);
    }
    return 0;
}

/* ---- blocks ---- */

/* The first key's column as numbers: 1; 0 when it is none of a block's. */
static int first_take_numbers(state *s, const ec_block *b, ea_err *err) {
    size_t column = s->o->keys[0].column;
    const ea_batch_events *e = b->events;
    int all_null = 0;
    if (EA_GROW(s->numbers, s->numbers_capacity, (size_t)b->selected_count, SIZE_MAX))
        return first_no_memory(err);
    switch (s->shape->columns[column].common) {
    case EC_COMMON_COUNT:
        return s->shape->columns[column].is_name ? 0 : ec_keys_numbers(&s->keys, column, b, s->numbers, &all_null, err);
    case EC_TIME:
        for (uint32_t i = 0; i < b->selected_count; i++)
            s->numbers[i] = ec_scan_utc_ns(s->scan, b->rows[b->selected[i]]);
        return 1;
    case EC_PID:
    case EC_TID: {
        const uint32_t *ids = s->shape->columns[column].common == EC_PID ? e->pid : e->tid;
        for (uint32_t i = 0; i < b->selected_count; i++)
            s->numbers[i] = ids[e->thread[b->rows[b->selected[i]]]];
        return 1;
    }
    default:
        return 0;
    }
}

static int offer_numbers(state *s, const ec_block *b, ea_err *err) {
    const ec_first_key *k = &s->o->keys[0];
    int rc = 0;
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        const ec_value *worst = s->count == s->o->count ? &s->heap[0]->keys[0].value : NULL;
        int64_t v = s->numbers[i];
        if (!worst || worst->type != EC_INT || (k->is_descending ? v >= worst->i : v <= worst->i))
            rc = offer(s, b, b->selected[i], err);
    }
    return rc;
}

/* Texts of a dictionary that may be better than the worst at hand: 1, marked; 0: there is no dictionary. */
static int mark_texts(state *s, ec_scan *scan, const uint32_t **ret_index, ea_err *err) {
    const ec_first_key *k = &s->o->keys[0];
    ea_column values = {0};
    if (s->shape->columns[k->column].kind != EC_KIND_TEXT || s->shape->columns[k->column].common != EC_COMMON_COUNT ||
        s->shape->columns[k->column].is_name)
        return 0;
    int rc = ec_scan_dictionary(scan, k->column, &values, ret_index, err);
    if (rc != 1)
        return rc < 0 && ec_is_damage(rc) ? 0 : rc;
    if (EA_GROW(s->marks, s->marks_capacity, (size_t)values.count + 1, SIZE_MAX))
        return first_no_memory(err);
    for (uint32_t i = 0; i < values.count; i++) {
        ec_value v;
        rc = ec_scan_row_value(scan, k->column, &values, i, &v, err);
        if (rc)
            return rc;
        s->marks[i] = first_events_compare(s, k, &v, &s->heap[0]->keys[0].value) <= 0;
    }
    return 1;
}

static int first_add_block(state *s, const ec_block *b, ea_err *err) {
    const uint32_t *index = NULL;
    int rc = first_take_numbers(s, b, err);
    if (rc)
        return rc < 0 ? rc : offer_numbers(s, b, err);
    int is_marked = s->count == s->o->count ? mark_texts(s, s->scan, &index, err) : 0;
    rc = is_marked < 0 ? is_marked : 0;
    for (uint32_t i = 0; !rc && i < b->selected_count; i++)
        if (!is_marked || s->marks[index[b->selected[i]]]) /* NOLINT(clang-analyzer-*): a dictionary has indexes */
            rc = offer(s, b, b->selected[i], err);
    return rc;
}

/* ---- batches ---- */

/* Lists the batches, and reads none; then: reads those of the pass. */
static int wants(void *arg, const ec_batch_row *batch) {
    state *s = arg;
    if (s->wanted) {
        s->at_batch = s->next_batch++;
        return s->at_batch < s->batch_count && s->wanted[s->at_batch];
    }
    if (EA_GROW(s->batches, s->batch_capacity, s->batch_count + 1, SIZE_MAX)) {
        s->failed = 1;
        return 0;
    }
    s->batches[s->batch_count++] = (span){batch->begin_utc_ns, batch->end_utc_ns};
    s->failed |=
        !ec_archive_ordinal(s->archive, batch); /* numbered as a scan of all would, in whatever order we read */
    return 0;
}

static int first_events_keep(void *arg, ec_scan *scan, const ec_block *b, uint32_t *selected, uint32_t *count,
                             ea_err *err) {
    const ec_row_filter *f = ((const state *)arg)->o->filter;
    return f && f->keep ? f->keep(f->arg, scan, b, selected, count, err) : 0;
}

static int pass(state *s, ea_err *err) {
    const ec_first_options *o = s->o;
    const ec_block *block = NULL;
    int rc = ec_scan_open(&s->scan, s->archive, s->shape, o->annotator, o->conditions, o->condition_count, err);
    if (rc)
        return rc;
    ec_scan_set_filter(s->scan, &(ec_row_filter){.wants = wants, .keep = first_events_keep, .arg = s});
    s->keys.scan = s->scan;
    s->next_batch = 0;
    while ((rc = ec_scan_next(s->scan, &block, err)) == 1 && !(rc = first_add_block(s, block, err)))
        ;
    ec_scan_close(s->scan);
    s->scan = NULL;
    return rc ? rc : s->failed ? first_no_memory(err) : 0;
}

/* The end of a batch that comes first in the order, so that a smaller number comes first. */
static int64_t best_of(const state *s, const span *b) {
    return s->o->keys[0].is_descending ? -(b->end_utc_ns / 2) : b->begin_utc_ns / 2;
}

/* Whether no event of a batch can be better than the worst that is kept. */
static int is_beaten(const state *s, const span *b) {
    const ec_value *worst = s->count == s->o->count ? &s->heap[0]->keys[0].value : NULL;
    if (!worst || worst->type != EC_INT)
        return 0;
    return s->o->keys[0].is_descending ? worst->i > INT64_MIN + MARGIN_NS && b->end_utc_ns < worst->i - MARGIN_NS
                                       : worst->i < INT64_MAX - MARGIN_NS && b->begin_utc_ns > worst->i + MARGIN_NS;
}

typedef struct placed {
    int64_t best;
    size_t at;
} placed;

static int compare_placed(const void *a, const void *b) {
    const placed *x = a, *y = b;
    int c = (x->best > y->best) - (x->best < y->best);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* Reads the batches from one end of time on, more of them each time. */
static int read_by_time(state *s, ea_err *err) {
    placed *order = malloc((s->batch_count + 1) * sizeof *order);
    size_t done = 0, chunk = FIRST_BATCHES;
    int rc = order ? 0 : first_no_memory(err);
    for (size_t i = 0; !rc && i < s->batch_count; i++)
        order[i] = (placed){best_of(s, &s->batches[i]), i};
    if (!rc)
        qsort(order, s->batch_count, sizeof *order, compare_placed);
    while (!rc && done < s->batch_count) {
        size_t now = 0;
        memset(s->wanted, 0, s->batch_count);
        for (; done < s->batch_count && now < chunk; done++)
            if (!is_beaten(s, &s->batches[order[done].at])) {
                s->wanted[order[done].at] = 1;
                now++;
            }
        if (now)
            rc = pass(s, err);
        chunk *= MORE;
    }
    free(order);
    return rc;
}

static int first_read_all(state *s, ea_err *err) {
    int rc = pass(s, err); /* which lists the batches */
    if (!rc && !(s->wanted = malloc(s->batch_count + 1)))
        rc = first_no_memory(err);
    if (rc)
        return rc;
    if (s->shape->columns[s->o->keys[0].column].common == EC_TIME)
        return read_by_time(s, err);
    memset(s->wanted, 1, s->batch_count + 1);
    return pass(s, err);
}

static int compare_events(const void *a, const void *b) {
    const ec_first_event *x = a, *y = b;
    int c = (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
    return c ? c : (x->event > y->event) - (x->event < y->event);
}

int ec_first_events(ec_archive *archive, const ec_table_schema *shape, const ec_first_options *options,
                    ec_first_event **ret, size_t *ret_count, ea_err *err) {
    state s = {.o = options, .shape = shape, .archive = archive};
    for (size_t i = 0; i < options->condition_count; i++)
        if (!ec_condition_is_exact(shape, &options->conditions[i]))
            return ea_fail(err, EA_EUSAGE, "sort events: %s is compared with something that its column never is",
                           shape->columns[options->conditions[i].column].name);
    ec_keys_init(&s.keys, shape);
    s.heap = calloc(options->count, sizeof *s.heap);
    int rc = s.heap ? first_read_all(&s, err) : first_no_memory(err);
    if (!rc && s.is_mixed)
        rc = ea_fail(err, EA_EUSAGE, "sort events: reals and whole numbers");
    ec_first_event *events = rc ? NULL : malloc((s.count + 1) * sizeof *events);
    if (!rc && !events)
        rc = first_no_memory(err);
    for (size_t i = 0; !rc && i < s.count; i++)
        events[i] = s.heap[i]->event;
    if (!rc) {
        qsort(events, s.count, sizeof *events, compare_events);
        *ret = events;
        *ret_count = s.count;
    }
    for (size_t i = 0; s.heap && i < options->count && s.heap[i]; i++) {
        for (size_t k = 0; k < EC_FIRST_KEYS_MAX; k++)
            free(s.heap[i]->keys[k].copy);
        free(s.heap[i]);
    }
    free(s.heap);
    free(s.numbers);
    free(s.marks);
    free(s.batches);
    free(s.wanted);
    ec_keys_deinit(&s.keys);
    return rc;
}
