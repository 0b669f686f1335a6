/* A batch that is open, read: its events, columns, payloads and records. See wire.h; FORMAT.md is the specification.
 * Input: view.c, unpack.c. Used by: collector/store, state and query; tests. Thread: a view belongs to one. */
#include "proto/wire/view_parts.h"

#include "proto/wire/checksum.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- what every event has ---- */

static int decode_threads(ea_batch_view *v, ea_err *err) {
    int rc = 0;
    if (v->pids.m)
        rc = ea_rows_decode(&v->reader, &v->pids, v->thread_count, NULL, 0, err);
    if (!rc && v->tids.m)
        rc = ea_rows_decode(&v->reader, &v->tids, v->thread_count, NULL, 0, err);
    return rc;
}

/* A decoded column as an array of u32 or u16, where it is not one already. */
static const uint32_t *as_u32(ea_batch_view *v, const ea_column *c) {
    if (c->stride == 4 && (uintptr_t)c->data % 4 == 0)
        return (const void *)c->data;
    uint32_t *out = ea_rows_alloc(&v->reader, c->count, sizeof *out);
    for (uint32_t i = 0; out && i < c->count; i++)
        out[i] = ea_load32(c->data + i * c->stride);
    return out;
}

static const uint16_t *as_u16(ea_batch_view *v, const ea_column *c) {
    if (c->stride == 2 && (uintptr_t)c->data % 2 == 0)
        return (const void *)c->data;
    uint16_t *out = ea_rows_alloc(&v->reader, c->count, sizeof *out);
    for (uint32_t i = 0; out && i < c->count; i++)
        out[i] = ea_load16(c->data + i * c->stride);
    return out;
}

static const int64_t *as_i64(ea_batch_view *v, const ea_column *c) {
    if (c->stride == 8 && (uintptr_t)c->data % 8 == 0)
        return (const void *)c->data;
    int64_t *out = ea_rows_alloc(&v->reader, c->count, sizeof *out);
    for (uint32_t i = 0; out && i < c->count; i++)
        out[i] = (int64_t)ea_load64(c->data + i * c->stride);
    return out;
}

static int u32_column(ea_batch_view *v, ea_rows *c, uint32_t count, const uint32_t **ret, ea_err *err) {
    int rc = ea_rows_decode(&v->reader, c, count, NULL, 0, err);
    if (!rc && !(*ret = as_u32(v, &c->column)))
        rc = ea_view_no_memory(v, err);
    return rc;
}

static int u16_column(ea_batch_view *v, ea_rows *c, uint32_t count, const uint16_t **ret, ea_err *err) {
    if (!c->m) { /* absent: all 0 */
        *ret = ea_arena_zalloc(&v->arena, count ? count : 1, sizeof **ret);
        return *ret ? 0 : ea_view_no_memory(v, err);
    }
    int rc = ea_rows_decode(&v->reader, c, count, NULL, 0, err);
    if (!rc && !(*ret = as_u16(v, &c->column)))
        rc = ea_view_no_memory(v, err);
    return rc;
}

/* Which events each group has, after group_of was checked. */
static int view_records_list_rows(ea_batch_view *v, const uint32_t *group_of, uint32_t n, ea_err *err) {
    uint32_t *rows = ea_rows_alloc(&v->reader, n, sizeof *rows);
    uint32_t **fill = ea_rows_alloc(&v->reader, v->group_count, sizeof *fill);
    if (!rows || !fill)
        return ea_view_no_memory(v, err);
    uint32_t at = 0;
    size_t seen = 0;
    for (size_t k = 0; k < v->group_count; k++) {
        v->groups[k].rows = fill[k] = rows + at;
        at += v->groups[k].count;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = group_of[i];
        if (k >= v->group_count)
            return ea_fail(err, EA_ECORRUPT,
                           "read a batch's directory: an event is of group %" PRIu32 ", there are %zu", k,
                           v->group_count);
        if (fill[k] == v->groups[k].rows && k != seen++)
            return ea_view_corrupt(err, "its groups are not in the order of their first events");
        if (fill[k] == v->groups[k].rows + v->groups[k].count)
            return ea_view_corrupt(err, "a group has more events than it says");
        *fill[k]++ = i;
    }
    return 0;
}

static int decode_events(ea_batch_view *v, ea_err *err) {
    if (v->has_events)
        return 0;
    uint32_t n = v->envelope.head.event_count;
    ea_batch_events e = {.count = n, .thread_count = v->thread_count};
    if (n) {
        int rc = u32_column(v, &v->group_of, n, &e.group, err);
        if (!rc)
            rc = ea_rows_decode(&v->reader, &v->time, n, NULL, (uint64_t)v->envelope.head.time_min, err);
        if (!rc && !(e.time = as_i64(v, &v->time.column)))
            rc = ea_view_no_memory(v, err);
        if (!rc)
            rc = u16_column(v, &v->cpu, n, &e.cpu, err);
        if (!rc)
            rc = u32_column(v, &v->thread, n, &e.thread, err);
        if (!rc)
            rc = u16_column(v, &v->source, n, &e.source, err);
        if (!rc)
            rc = u32_column(v, &v->pids, v->thread_count, &e.pid, err);
        if (!rc)
            rc = u32_column(v, &v->tids, v->thread_count, &e.tid, err);
        if (!rc)
            rc = view_records_list_rows(v, e.group, n, err);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < n; i++)
            if (e.thread[i] >= v->thread_count)
                return ea_view_corrupt(err, "an event's thread is not in its table");
            else if (e.source[i] >= v->envelope.head.source_count)
                return ea_view_corrupt(err, "an event's source is not in its table");
    }
    v->events = e;
    v->has_events = 1;
    return 0;
}

int ea_batch_get_events(ea_batch_view *v, const ea_batch_events **ret, ea_err *err) {
    int rc = decode_events(v, err);
    if (!rc)
        *ret = &v->events;
    return rc;
}

int ea_batch_group_rows(ea_batch_view *v, size_t k, const uint32_t **ret_rows, ea_err *err) {
    int rc = decode_events(v, err);
    if (!rc)
        *ret_rows = v->groups[k].rows;
    return rc;
}

int ea_batch_sequence(ea_batch_view *v, const uint64_t **ret_numbers, uint64_t *ret_first, ea_err *err) {
    uint32_t n = v->envelope.head.event_count;
    if (!v->sequence.m) {
        *ret_first = v->directory ? v->directory->first_sequence : 0;
        return 0;
    }
    int rc = ea_rows_decode(&v->reader, &v->sequence, n, NULL, 0, err);
    if (rc)
        return rc;
    const void *numbers = as_i64(v, &v->sequence.column);
    if (!numbers)
        return ea_view_no_memory(v, err);
    *ret_numbers = numbers;
    return 1;
}

static int view_records_compare_u32(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int ea_batch_pids(ea_batch_view *v, const uint32_t **ret_pids, size_t *ret_count, ea_err *err) {
    if (!v->distinct_pids) {
        uint32_t *pids = ea_rows_alloc(&v->reader, v->thread_count, sizeof *pids);
        int rc = pids ? decode_threads(v, err) : ea_view_no_memory(v, err);
        if (rc)
            return rc;
        size_t count = 0;
        for (uint32_t i = 0; i < v->thread_count; i++)
            pids[i] = ea_load32(v->pids.column.data + i * v->pids.column.stride);
        if (v->thread_count)
            qsort(pids, v->thread_count, sizeof *pids, view_records_compare_u32);
        for (uint32_t i = 0; i < v->thread_count; i++)
            if (i == 0 || pids[i] != pids[count - 1])
                pids[count++] = pids[i];
        v->distinct_pids = pids;
        v->distinct_pid_count = count;
    }
    *ret_pids = v->distinct_pids;
    *ret_count = v->distinct_pid_count;
    return 0;
}

/* ---- payloads and fields ---- */

/* Appends the rows of one column to the payloads. The next byte of payload i is out[*fixed + at[i]]. *fixed: the bytes
 * of the earlier columns of fixed width. at[i]: the start of payload i plus the bytes of its earlier columns of
 * variable width. */
static void view_records_place(const ea_column *c, uint8_t *out, uint32_t *at, uint32_t *fixed, uint32_t n) {
    uint8_t *to = out + *fixed;
    if (c->width) {
        const uint8_t *from = c->data;
        size_t stride = c->stride;
        switch (c->width) {
        case 1:
            for (uint32_t i = 0; i < n; i++, from += stride)
                to[at[i]] = *from;
            break;
        case 2:
            for (uint32_t i = 0; i < n; i++, from += stride)
                memcpy(to + at[i], from, 2);
            break;
        case 4:
            for (uint32_t i = 0; i < n; i++, from += stride)
                memcpy(to + at[i], from, 4);
            break;
        case 8:
            for (uint32_t i = 0; i < n; i++, from += stride)
                memcpy(to + at[i], from, 8);
            break;
        default:
            for (uint32_t i = 0; i < n; i++, from += stride)
                memcpy(to + at[i], from, c->width);
        }
        *fixed += c->width;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        memcpy(to + at[i], c->data + c->start[i], c->len_bytes[i]);
        at[i] += c->len_bytes[i];
    }
}

static int assemble(ea_batch_view *v, ea_view_group *g, const ea_column **columns, size_t column_count, ea_err *err) {
    uint32_t n = g->count;
    uint32_t *start = ea_rows_alloc(&v->reader, n, sizeof *start);
    uint32_t *at = ea_rows_alloc(&v->reader, n, sizeof *at);
    uint32_t *len_bytes = ea_rows_alloc(&v->reader, n, sizeof *len_bytes);
    if (!start || !at || !len_bytes)
        return ea_view_no_memory(v, err);
    uint64_t fixed = 0;
    for (size_t k = 0; k < column_count; k++)
        fixed += columns[k]->width;
    if (fixed > UINT16_MAX)
        return ea_view_corrupt(err, "a payload is longer than 65,535 bytes");
    for (uint32_t i = 0; i < n; i++)
        len_bytes[i] = (uint32_t)fixed;
    for (size_t k = 0; k < column_count; k++)
        for (uint32_t i = 0; !columns[k]->width && i < n; i++) {
            if (columns[k]->len_bytes[i] > UINT16_MAX - len_bytes[i])
                return ea_view_corrupt(err, "a payload is longer than 65,535 bytes");
            len_bytes[i] += columns[k]->len_bytes[i];
        }
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        start[i] = at[i] = (uint32_t)total;
        total += len_bytes[i];
        if (total > EA_BATCH_MAX_RAW_BYTES)
            return ea_view_no_memory(v, err);
    }
    uint8_t *out = ea_arena_alloc(&v->arena, (size_t)total);
    if (!out)
        return ea_view_no_memory(v, err);
    uint32_t done = 0;
    for (size_t k = 0; k < column_count; k++)
        view_records_place(columns[k], out, at, &done, n);
    g->payloads = (ea_column){.count = n, .data = out, .start = start, .len_bytes = len_bytes};
    return 0;
}

/* The payloads of all groups that have neither fields nor a payload of their own, out of the batch's column. */
static int take_payloads(ea_batch_view *v, ea_err *err) {
    uint32_t n = ea_view_whole_payloads(v), row = 0;
    int rc = ea_rows_decode(&v->reader, &v->payload, n, NULL, 0, err);
    if (rc)
        return rc;
    const ea_column *all = &v->payload.column;
    uint32_t *start = ea_rows_alloc(&v->reader, n, sizeof *start),
             *len_bytes = ea_rows_alloc(&v->reader, n, sizeof *start);
    uint32_t *fill = ea_arena_zalloc(&v->arena, v->group_count, sizeof *fill);
    if (!start || !len_bytes || !fill)
        return ea_view_no_memory(v, err);
    for (size_t k = 0, at = 0; k < v->group_count; k++) {
        ea_view_group *g = &v->groups[k];
        if (!ea_view_is_whole(g))
            continue;
        g->payloads =
            (ea_column){.count = g->count, .data = all->data, .start = start + at, .len_bytes = len_bytes + at};
        fill[k] = (uint32_t)at;
        at += g->count;
    }
    for (uint32_t i = 0; i < v->events.count; i++) {
        uint32_t k = v->events.group[i];
        if (!ea_view_is_whole(&v->groups[k]))
            continue;
        ea_slice s = ea_column_row(all, row++);
        if (s.len_bytes > UINT16_MAX)
            return ea_view_corrupt(err, "a payload is longer than 65,535 bytes");
        start[fill[k]] = s.len_bytes ? (uint32_t)(s.data - all->data) : 0;
        len_bytes[fill[k]++] = s.len_bytes;
    }
    for (size_t k = 0; k < v->group_count; k++) /* only now: after a failure nothing reads rows that were not filled */
        v->groups[k].has_payloads |= ea_view_is_whole(&v->groups[k]);
    return 0;
}

static int decode_payloads(ea_batch_view *v, ea_view_group *g, ea_err *err) {
    if (g->has_payloads)
        return 0;
    int rc = decode_events(v, err);
    if (rc)
        return rc;
    if (v->payload.m && ea_view_is_whole(g))
        return take_payloads(v, err);
    ea_rows_context context = {&v->events, g->rows};
    const ea_column **columns = ea_rows_alloc(&v->reader, g->field_count + 1, sizeof *columns);
    size_t count = 0;
    if (!columns)
        return ea_view_no_memory(v, err);
    for (size_t i = 0; i < g->field_count; i++) {
        if ((rc = ea_rows_decode(&v->reader, &g->fields[i], g->count, &context, 0, err)))
            return rc;
        columns[count++] = &g->fields[i].column;
    }
    if (g->payload.m) {
        if ((rc = ea_rows_decode(&v->reader, &g->payload, g->count, &context, 0, err)))
            return rc;
        columns[count++] = &g->payload.column;
    }
    if (count == 1) {
        g->payloads = *columns[0];
        for (uint32_t i = 0; i < g->count; i++)
            if (ea_column_row(&g->payloads, i).len_bytes > UINT16_MAX)
                return ea_view_corrupt(err, "a payload is longer than 65,535 bytes");
    } else if ((rc = assemble(v, g, columns, count, err))) {
        return rc;
    }
    g->has_payloads = 1;
    return 0;
}

int ea_batch_payloads(ea_batch_view *v, size_t k, ea_column *ret, ea_err *err) {
    int rc = decode_payloads(v, &v->groups[k], err);
    if (!rc)
        *ret = v->groups[k].payloads;
    return rc;
}

/* Counts the bytes of a group's column against a bound of the whole batch. Rows that a constant or a dictionary repeats
 * count each time: it is what a reader of the records has to go through. */
static int count_bytes(const ea_column *c, uint64_t *bytes, const char *what, ea_err *err) {
    uint64_t sum = (uint64_t)c->count * c->width; /* below 2^18 times 2^26 */
    for (uint32_t i = 0; !c->width && i < c->count; i++)
        sum += c->len_bytes[i];
    *bytes += sum;
    return *bytes <= EA_BATCH_MAX_RAW_BYTES
               ? 0
               : ea_fail(err, EA_ELIMIT, "read a batch's records: %s of more than %d bytes", what,
                         EA_BATCH_MAX_RAW_BYTES);
}

/* What reading a group's payloads one by one costs, once for all readers of the view: a constant or a dictionary makes
 * a few bytes many long payloads. */
static int count_payloads(ea_batch_view *v, ea_view_group *g, ea_err *err) {
    uint64_t before = v->payload_bytes;
    if (g->has_counted_payloads)
        return 0;
    int rc = count_bytes(&g->payloads, &v->payload_bytes, "payloads", err);
    if (!rc)
        rc = ea_rows_spend(&v->reader, v->payload_bytes - before, err);
    g->has_counted_payloads = !rc;
    return rc;
}

/* Fields of a group whose payloads travelled whole. */
static int split_payloads(ea_batch_view *v, ea_view_group *g, ea_err *err) {
    int rc = decode_payloads(v, g, err);
    if (!rc)
        rc = count_payloads(v, g, err);
    if (rc)
        return rc;
    size_t fields = g->c->top_count, used;
    uint32_t n = g->count;
    ea_slice *slices = ea_rows_alloc(&v->reader, fields, sizeof *slices);
    ea_column *split = ea_arena_zalloc(&v->arena, fields, sizeof *split);
    uint32_t *start = ea_arena_zalloc(&v->arena, fields * n, sizeof *start);
    uint32_t *len_bytes = ea_rows_alloc(&v->reader, fields * n, sizeof *len_bytes);
    if (!slices || !split || !start || !len_bytes)
        return ea_view_no_memory(v, err);
    for (size_t f = 0; f < fields; f++)
        split[f] =
            (ea_column){.count = n, .data = g->payloads.data, .start = start + f * n, .len_bytes = len_bytes + f * n};
    for (uint32_t i = 0; i < n; i++) {
        ea_slice row = ea_column_row(&g->payloads, i);
        size_t whole = ea_class_split(g->c, row.data, row.len_bytes, slices, &used);
        for (size_t f = 0; f < fields; f++) {
            len_bytes[f * n + i] = f < whole ? slices[f].len_bytes : (uint32_t)EA_ROW_MISSING;
            if (f < whole && slices[f].len_bytes)
                start[f * n + i] = (uint32_t)(slices[f].data - g->payloads.data);
        }
    }
    g->split = split;
    return 0;
}

int ea_batch_column(ea_batch_view *v, size_t k, size_t top_field, ea_column *ret, ea_err *err) {
    ea_view_group *g = &v->groups[k];
    if (!g->c || top_field >= g->c->top_count)
        return ea_fail(err, EA_EINVAL, "read a column: group %zu has no field %zu", k, top_field);
    int rc = decode_events(v, err);
    if (rc)
        return rc;
    if (top_field < g->field_count) {
        ea_rows_context context = {&v->events, g->rows};
        rc = ea_rows_decode(&v->reader, &g->fields[top_field], g->count, &context, 0, err);
        if (!rc)
            *ret = g->fields[top_field].column;
        return rc;
    }
    if (!g->split && (rc = split_payloads(v, g, err)))
        return rc;
    *ret = g->split[top_field];
    return 0;
}

int ea_batch_dictionary(ea_batch_view *v, size_t k, size_t top_field, ea_column *ret_values, const uint32_t **ret_index,
                        ea_err *err) {
    ea_view_group *g = &v->groups[k];
    if (top_field >= g->field_count)
        return 0;
    return ea_rows_dictionary(&v->reader, &g->fields[top_field], g->count, ret_values, ret_index, err);
}

int ea_batch_activities(ea_batch_view *v, size_t k, ea_column *ret, ea_err *err) {
    enum { WIDTH = 16 };

    ea_view_group *g = &v->groups[k];
    int rc = decode_events(v, err);
    if (rc || (!g->activity.m && !v->activity.m))
        return rc;
    if (g->activity.m) {
        ea_rows_context context = {&v->events, g->rows};
        rc = ea_rows_decode(&v->reader, &g->activity, g->count, &context, 0, err);
        if (!rc)
            *ret = g->activity.column;
        return rc ? rc : 1;
    }
    rc = ea_rows_decode(&v->reader, &v->activity, v->events.count, NULL, 0, err);
    if (rc)
        return rc;
    uint8_t *out = ea_rows_alloc(&v->reader, g->count, WIDTH);
    if (!out)
        return ea_view_no_memory(v, err);
    for (uint32_t i = 0; v->activity.column.data && i < g->count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-*): a row of fixed width has data */
        memcpy(out + (size_t)WIDTH * i, ea_column_row(&v->activity.column, g->rows[i]).data, WIDTH);
    *ret = (ea_column){.count = g->count, .width = WIDTH, .stride = WIDTH, .data = out};
    return 1;
}

int ea_batch_item(ea_batch_view *v, size_t k, size_t i, uint16_t *ret_type, ea_column *ret, ea_err *err) {
    ea_view_group *g = &v->groups[k];
    if (i >= g->m->n_items)
        return ea_fail(err, EA_EINVAL, "read an extended item: group %zu has no item %zu", k, i);
    int rc = decode_events(v, err);
    ea_rows_context context = {&v->events, g->rows};
    if (!rc)
        rc = ea_rows_decode(&v->reader, &g->items[i].data, g->count, &context, 0, err);
    if (rc)
        return rc;
    *ret_type = (uint16_t)g->m->items[i]->type;
    *ret = g->items[i].data.column;
    return 0;
}

/* ---- records ---- */

/* An extended item's data. */
static int view_records_check_item(ea_batch_view *v, const ea_column *c, ea_err *err) {
    uint32_t largest = c->width;
    for (uint32_t i = 0; !c->width && i < c->count; i++)
        largest = c->len_bytes[i] > largest ? c->len_bytes[i] : largest;
    if (c->count && largest > UINT16_MAX)
        return ea_view_corrupt(err, "an extended item is longer than 65,535 bytes");
    return count_bytes(c, &v->item_bytes, "extended items", err);
}

static int prepare_group(ea_batch_view *v, ea_view_group *g, ea_err *err) {
    int rc = decode_payloads(v, g, err);
    if (!rc)
        rc = count_payloads(v, g, err);
    ea_rows_context context = {&v->events, g->rows};
    ea_rows *headers[] = {&g->kernel_time, &g->user_time, &g->activity};
    for (size_t i = 0; !rc && i < sizeof headers / sizeof *headers; i++)
        if (headers[i]->m)
            rc = ea_rows_decode(&v->reader, headers[i], g->count, &context, 0, err);
    size_t items = g->m->n_items;
    g->ext = ea_arena_zalloc(&v->arena, items ? items : 1, sizeof *g->ext);
    if (!rc && !g->ext)
        rc = ea_view_no_memory(v, err);
    for (size_t i = 0; !rc && i < items; i++) {
        rc = ea_rows_decode(&v->reader, &g->items[i].data, g->count, &context, 0, err);
        if (!rc)
            rc = view_records_check_item(v, &g->items[i].data.column, err);
        g->ext[i].type = (uint16_t)g->m->items[i]->type;
        g->ext[i].linkage = (uint16_t)g->m->items[i]->linkage;
    }
    g->record.ext = g->ext;
    return rc;
}

static int view_records_prepare(ea_batch_view *v, ea_err *err) {
    int rc = decode_events(v, err);
    ea_rows *all[] = {&v->kernel_time, &v->user_time, &v->activity};
    for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++)
        if (all[i]->m)
            rc = ea_rows_decode(&v->reader, all[i], v->events.count, NULL, 0, err);
    for (size_t k = 0; !rc && k < v->group_count; k++)
        rc = prepare_group(v, &v->groups[k], err);
    v->is_prepared = !rc;
    return rc;
}

static const uint8_t *view_records_row_of(const ea_rows *c, uint32_t row) {
    return c->column.data + row * c->column.stride;
}

/* The next row of a group as a record. */
static const ea_record *next_of(ea_batch_view *v, ea_view_group *g, uint32_t event) {
    const ea_batch_events *e = &v->events;
    ea_record *r = &g->record;
    uint32_t i = g->next++, thread = e->thread[event];
    r->time_raw = e->time[event];
    r->pid = e->pid[thread];
    r->tid = e->tid[thread];
    r->cpu = e->cpu[event];
    r->source = e->source[event];
    r->position = event;
    if (g->kernel_time.m)
        r->kernel_time = ea_load32(view_records_row_of(&g->kernel_time, i));
    else if (v->kernel_time.m)
        r->kernel_time = ea_load32(view_records_row_of(&v->kernel_time, event));
    if (g->user_time.m)
        r->user_time = ea_load32(view_records_row_of(&g->user_time, i));
    else if (v->user_time.m)
        r->user_time = ea_load32(view_records_row_of(&v->user_time, event));
    if (g->activity.m)
        memcpy(&r->activity_id, view_records_row_of(&g->activity, i), sizeof r->activity_id);
    else if (v->activity.m)
        memcpy(&r->activity_id, view_records_row_of(&v->activity, event), sizeof r->activity_id);
    ea_slice payload = ea_column_row(&g->payloads, i);
    r->payload = payload.data;
    r->payload_bytes = (uint16_t)payload.len_bytes;
    for (unsigned k = 0; k < r->ext_count; k++) {
        ea_slice s = ea_column_row(&g->items[k].data.column, i);
        g->ext[k].data = s.data;
        g->ext[k].size_bytes = s.len_bytes;
    }
    return r;
}

int ea_batch_next(ea_batch_view *v, const ea_record **ret_record, const ea_class **ret_class, ea_err *err) {
    if (!v->is_prepared) {
        if (!v->registry)
            return ea_fail(err, EA_EINVAL, "read a batch's records: it was opened without a registry");
        int rc = view_records_prepare(v, err);
        if (rc)
            return rc;
    }
    if (!v->events.group || v->cursor == v->events.count)
        return 0;
    uint32_t event = v->cursor++;
    ea_view_group *g = &v->groups[v->events.group[event]];
    *ret_record = next_of(v, g, event);
    *ret_class = g->c;
    return 1;
}

void ea_batch_rewind(ea_batch_view *v) {
    v->cursor = 0;
    for (size_t k = 0; k < v->group_count; k++)
        v->groups[k].next = 0;
}

/* The time range that the envelope says is what an index goes by. */
static int verify_times(const ea_batch_view *v, int64_t min, int64_t max, ea_err *err) {
    const ea_batch_head *h = &v->envelope.head;
    if (h->event_count == 0)
        return 0;
    if ((uint64_t)max - (uint64_t)min > INT64_MAX)
        min = max - INT64_MAX;
    if (min == h->time_min && max == h->time_max)
        return 0;
    return ea_fail(err, EA_ECORRUPT,
                   "verify batch %" PRIu64 ": its times are %" PRId64 " to %" PRId64 ", its records' %" PRId64
                   " to %" PRId64,
                   h->number, h->time_min, h->time_max, min, max);
}

/* What no record shows: a later reader comes to it, or it makes no difference to anyone, but a batch that is kept is
 * sound throughout. */
static int decode_unseen(ea_batch_view *v, ea_err *err) {
    ea_rows_reader *r = &v->reader;
    int rc = 0;
    if (v->sequence.m)
        rc = ea_rows_decode(r, &v->sequence, v->envelope.head.event_count, NULL, 0, err);
    if (!rc && v->payload.m)
        rc = ea_rows_decode(r, &v->payload, ea_view_whole_payloads(v), NULL, 0, err);
    for (size_t i = 0; !rc && i < r->dictionary_count; i++)
        rc = ea_rows_decode(r, &r->dictionaries[i], r->dictionary_counts[i], NULL, 0, err);
    return rc;
}

int ea_batch_verify(ea_batch_view *v, ea_err *err) {
    const ea_record *r = NULL;
    const ea_class *c = NULL;
    uint64_t checksum = 0;
    int64_t min = INT64_MAX, max = INT64_MIN;
    int rc;
    ea_batch_rewind(v);
    while ((rc = ea_batch_next(v, &r, &c, err)) > 0) {
        size_t i = v->cursor - 1;
        int64_t t = ea_clock_convert(&v->sources[v->events.source[i]].clock, &v->sources[0].clock, v->events.time[i]);
        min = t < min ? t : min;
        max = t > max ? t : max;
        checksum += ea_checksum_record(i, v->groups[v->events.group[i]].constants, r);
    }
    ea_batch_rewind(v);
    if (!rc)
        rc = decode_unseen(v, err);
    if (!rc && checksum != v->envelope.head.checksum)
        return ea_fail(err, EA_ECORRUPT,
                       "verify batch %" PRIu64 ": its checksum is %016" PRIx64 ", its records' %016" PRIx64,
                       v->envelope.head.number, v->envelope.head.checksum, checksum);
    return rc ? rc : verify_times(v, min, max, err);
}
