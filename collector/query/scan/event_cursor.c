/* See event_cursor.h. */
#include "collector/query/scan/event_cursor.h"

#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>

/* A group of the batch at hand. */
typedef struct group {
    const ec_event_cursor_plan *plan;
    const ea_class *c;
    uint32_t next; /* row of its next event */
    ea_column fields[EC_EVENT_CURSOR_FIELDS];
    ea_column repeated;
    const uint32_t *index; /* into repeated; NULL: row by row */
    uint64_t *memory;      /* of each distinct row */
    ea_column payloads;
    ea_column items[EA_EXT_MAX];
    uint16_t item_types[EA_EXT_MAX];
    unsigned item_count;
} group;

struct ec_event_cursor {
    ec_archive *archive;
    ec_event_cursor_options options;
    ea_class_hash *classes;
    size_t class_count;
    ea_u64_map plans; /* address of a class -> index + 1 in chosen */
    const ec_event_cursor_plan **chosen;
    size_t chosen_count;
    ec_index_query_filter filter;
    ec_index_query *find;
    ec_found found;
    uint8_t *data;
    size_t data_capacity;
    ea_batch_view *view;
    const ea_batch_events *events; /* NULL: there is no batch at hand */
    group *groups;
    size_t group_count, group_capacity;
    uint32_t at;
    uint64_t number;       /* of the last batch; 0: there was none */
    int is_after_gap;      /* the next event is */
    uint16_t source;       /* of the last event */
    const ea_clock *clock; /* the source's; NULL: the batch is new */
};

const ec_event_cursor_plan EC_EVENT_CURSOR_NO_MEMORY = {.addresses = -1};

int ec_event_cursor_open(ec_event_cursor **ret, ec_archive *archive, const ec_event_cursor_options *options,
                         ea_err *err) {
    size_t all;
    const ea_class *const *classes = NULL;
    int rc = ec_archive_classes(archive, &classes, &all, err);
    if (rc)
        return rc;
    ec_event_cursor *t = calloc(1, sizeof *t);
    if (t) {
        t->archive = archive;
        t->options = *options;
        ea_u64_map_init(&t->plans, 0);
        t->classes = malloc((all + 1) * sizeof *t->classes);
        t->chosen = malloc((all + 1) * sizeof *t->chosen);
    }
    rc = t && t->classes && t->chosen ? 0 : EA_ENOMEM;
    for (size_t i = 0; !rc && i < all; i++) {
        const ec_event_cursor_plan *plan =
            classes[i]->kind == EA_KIND_KEYFRAME ? NULL : options->plan(options->arg, classes[i]);
        if (!plan)
            continue;
        if (plan == &EC_EVENT_CURSOR_NO_MEMORY) {
            rc = EA_ENOMEM;
            break;
        }
        memcpy(t->classes[t->class_count++].bytes, classes[i]->hash, EA_CLASS_HASH_BYTES);
        t->chosen[t->chosen_count++] = plan;
        rc = ea_u64_map_put(&t->plans, (uintptr_t)classes[i], t->chosen_count);
    }
    if (rc) {
        ec_event_cursor_close(t);
        return ea_fail(err, EA_ENOMEM, "read events");
    }
    t->filter = (ec_index_query_filter){.from_utc_ns = options->from_utc_ns,
                                        .to_utc_ns = options->to_utc_ns,
                                        .classes = t->class_count == all ? NULL : t->classes,
                                        .class_count = t->class_count};
    if (t->class_count)
        rc = ec_index_query_open(&t->find, ec_archive_store(archive), &t->filter, err);
    if (!rc && t->find)
        ec_index_query_stream(t->find, &options->stream->row);
    if (rc) {
        ec_event_cursor_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

/* The batch is over; its view's memory is the next one's. */
static void end_batch(ec_event_cursor *t) {
    for (size_t i = 0; i < t->group_count; i++)
        free(t->groups[i].memory);
    t->group_count = 0;
    t->events = NULL;
    t->clock = NULL;
}

void ec_event_cursor_close(ec_event_cursor *t) {
    if (!t)
        return;
    end_batch(t);
    ea_batch_close(t->view);
    ec_index_query_close(t->find);
    ea_u64_map_deinit(&t->plans);
    free(t->classes);
    free(t->chosen);
    free(t->data);
    free(t->groups);
    free(t);
}

static int load_repeated(ec_event_cursor *t, size_t i, group *g, ea_err *err) {
    size_t top = (size_t)g->plan->addresses;
    int rc = ea_batch_dictionary(t->view, i, top, &g->repeated, &g->index, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return ea_batch_column(t->view, i, top, &g->repeated, err);
    g->memory = calloc(g->repeated.count ? g->repeated.count : 1, sizeof *g->memory);
    return g->memory ? 0 : EA_ENOMEM;
}

static int load_group(ec_event_cursor *t, size_t i, group *g, ea_err *err) {
    const ea_class *c = ea_batch_group_class(t->view, i);
    const uint64_t *plan = ea_u64_map_get(&t->plans, (uintptr_t)c);
    *g = (group){.c = c, .plan = plan ? t->chosen[*plan - 1] : NULL};
    if (!g->plan)
        return 0;
    int rc = 0;
    for (unsigned k = 0; !rc && k < EC_EVENT_CURSOR_FIELDS; k++)
        if (g->plan->fields[k] >= 0)
            rc = ea_batch_column(t->view, i, (size_t)g->plan->fields[k], &g->fields[k], err);
    if (!rc && g->plan->addresses >= 0)
        rc = load_repeated(t, i, g, err);
    if (!rc && g->plan->wants_record)
        rc = ea_batch_payloads(t->view, i, &g->payloads, err);
    if (!rc && g->plan->wants_items) {
        unsigned n = ea_batch_group_constants(t->view, i)->ext_count;
        for (; !rc && g->item_count < n && g->item_count < EA_EXT_MAX; g->item_count++)
            rc = ea_batch_item(t->view, i, g->item_count, &g->item_types[g->item_count], &g->items[g->item_count], err);
    }
    return rc;
}

static int event_cursor_open_batch(ec_event_cursor *t, ea_err *err) {
    const uint8_t *data;
    size_t len_bytes;
    int rc = ec_store_read(ec_archive_store(t->archive), &t->found.row, &data, &len_bytes, err);
    if (rc)
        return rc;
    if (EA_GROW(t->data, t->data_capacity, len_bytes, SIZE_MAX)) /* the store's buffer is shared with other readers */
        return EA_ENOMEM;
    memcpy(t->data, data, len_bytes);
    rc = ea_batch_open_next(&t->view, t->data, len_bytes, ec_archive_registry(t->archive), err);
    const ea_batch_events *events = NULL;
    if (!rc)
        rc = ea_batch_get_events(t->view, &events, err);
    size_t n = rc ? 0 : ea_batch_group_count(t->view);
    if (EA_GROW(t->groups, t->group_capacity, n, SIZE_MAX))
        return EA_ENOMEM;
    for (size_t i = 0; !rc && i < n; i++) {
        rc = load_group(t, i, &t->groups[i], err);
        t->group_count = i + 1;
    }
    t->at = 0;
    t->events = rc ? NULL : events;
    return rc;
}

/* Checks for missing batches between the batch that was found and the one before. */
static int look_for_gap(ec_event_cursor *t, ea_err *err) {
    uint64_t first = t->number + 1, last = t->found.row.number - 1;
    int rc = 1;
    if (!t->options.wants_gaps)
        return 0;
    if (t->number && first <= last)
        rc = ec_index_query_has_all(t->find, first, last, err);
    t->number = last + 1;
    t->is_after_gap |= rc == 0;
    return rc < 0 ? rc : 0;
}

/* 1, 0 at the end. */
static int cursor_next_batch(ec_event_cursor *t, ea_err *err) {
    for (;;) {
        ea_err damage = {0};
        end_batch(t);
        int rc = t->find ? ec_index_query_next(t->find, &t->found, err) : 0;
        if (rc != 1)
            return rc;
        if ((rc = look_for_gap(t, err)))
            return rc;
        if (t->found.kind == EA_BATCH_KEYFRAME)
            continue;
        if (!ec_archive_goes_on(t->archive))
            return ea_fail(err, EA_ECANCELED, "read events");
        rc = event_cursor_open_batch(t, &damage);
        if (!rc)
            return 1;
        if (!ec_is_damage(rc)) {
            if (rc == EA_ENOMEM)
                return ea_fail(err, rc, "read a batch");
            if (err)
                *err = damage;
            return rc;
        }
        ec_archive_damaged(t->archive, t->options.stream, t->found.row.number, &damage);
        t->is_after_gap = t->options.wants_gaps;
    }
}

int ec_event_cursor_next(ec_event_cursor *t, ec_event_cursor_event *ret, ea_err *err) {
    for (;;) {
        if (!t->events || t->at == t->events->count) {
            int rc = cursor_next_batch(t, err);
            if (rc != 1)
                return rc;
            continue;
        }
        const ea_batch_events *e = t->events;
        uint32_t i = t->at++, k = e->group[i];
        EA_ASSERT(i < e->count && k < t->group_count);
        group *g = &t->groups[k];
        uint32_t row = g->next++;
        if (!g->plan)
            continue;
        if (!t->clock || t->source != e->source[i]) {
            t->source = e->source[i];
            t->clock = &ea_batch_source(t->view, t->source)->clock;
        }
        *ret = (ec_event_cursor_event){.c = g->c,
                                       .plan = g->plan,
                                       .time = e->time[i],
                                       .clock = t->clock,
                                       .pid = e->pid[e->thread[i]],
                                       .tid = e->tid[e->thread[i]],
                                       .cpu = e->cpu[i],
                                       .group = k,
                                       .row = row,
                                       .is_after_gap = t->is_after_gap,
                                       .fields = g->fields};
        t->is_after_gap = 0;
        return 1;
    }
}

const ea_clock *ec_event_cursor_clock(const ec_event_cursor *t) {
    return t->clock;
}

uint64_t ec_event_position(const ec_event_cursor *t) {
    EA_ASSERT(t->events && t->at); /* an event is at hand */
    return ec_event_position_of(t->found.row.number, t->at - 1);
}

unsigned ec_event_cursor_pointer_size(const ec_event_cursor *t) {
    EA_ASSERT(t->events && t->at);
    return ea_batch_source(t->view, t->source)->pointer_size == 4 ? 4 : 8;
}

ea_slice ec_event_cursor_bytes(const ec_event_cursor *t, const ec_event_cursor_event *e, unsigned i) {
    (void)t;
    return e->fields[i].count ? ea_column_row(&e->fields[i], e->row) : (ea_slice){0};
}

ea_slice ec_event_cursor_repeated(const ec_event_cursor *t, const ec_event_cursor_event *e, uint64_t **ret_memory) {
    const group *g = &t->groups[e->group];
    uint32_t row = g->index ? g->index[e->row] : e->row;
    *ret_memory = g->index ? &g->memory[row] : NULL;
    return ea_column_row(&g->repeated, row);
}

int ec_event_cursor_repeated_next(const ec_event_cursor *t, const ec_event_cursor_event *e, uint32_t number,
                                  ea_slice *ret, uint64_t **ret_memory) {
    const group *g = &t->groups[e->group];
    uint64_t row = g->index ? (uint64_t)g->index[e->row] + number : UINT64_MAX;
    if (row >= g->repeated.count)
        return 0;
    *ret = ea_column_row(&g->repeated, (uint32_t)row);
    *ret_memory = &g->memory[row];
    return 1;
}

void ec_event_cursor_record(const ec_event_cursor *t, const ec_event_cursor_event *e, ea_record *ret) {
    EA_ASSERT(t->events && t->groups[e->group].plan->wants_record);
    ea_slice payload = ea_column_row(&t->groups[e->group].payloads, e->row);
    *ret = *ea_batch_group_constants(t->view, e->group);
    ret->payload = payload.data;
    ret->payload_bytes = (uint16_t)payload.len_bytes;
    ret->time_raw = e->time;
    ret->pid = e->pid;
    ret->tid = e->tid;
    ret->cpu = e->cpu;
    ret->ext = NULL;
    ret->ext_count = 0;
}

int ec_event_cursor_item(const ec_event_cursor *t, const ec_event_cursor_event *e, unsigned i, ea_ext *ret) {
    const group *g = &t->groups[e->group];
    if (i >= g->item_count)
        return 0;
    ea_slice s = ea_column_row(&g->items[i], e->row);
    *ret = (ea_ext){.type = g->item_types[i], .data = s.data, .size_bytes = s.len_bytes};
    return 1;
}
