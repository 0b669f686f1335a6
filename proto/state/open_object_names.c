/* The names that hold now. See open_object_names.h. Rows are in an array and are linked in the order in which the names
 * were added; a map leads from an address to its row. */
#include "proto/state/open_object_names.h"

#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = 0, KINDS = 2, LEAST_ROWS = 16, ROW_SHARE_BYTES = 128 /* with what the maps need for it */ };

typedef struct row {
    uint64_t address;
    int64_t begin_utc_ns;
    const char *name;        /* in texts; NULL: free */
    uint32_t earlier, later; /* rows by number; NONE: there is none. A free one: later is the next free one */
    uint8_t kind;            /* enum ea_name_kind */
} row;

struct ea_open_object_names {
    ea_counters *counters;
    ea_string_pool texts;
    row *rows; /* by number: 0 is no row */
    uint32_t row_limit, used, count;
    size_t capacity; /* of rows */
    uint32_t first, last, unused;
    ea_u64_map at[KINDS]; /* address -> number */
    ea_volume volumes[EA_VOLUMES_MAX];
    size_t volume_count;
    ea_text scratch;
};

int ea_open_object_names_create(ea_open_object_names **ret, size_t limit_bytes, ea_counters *counters, ea_err *err) {
    ea_open_object_names *n = calloc(1, sizeof *n);
    if (!n)
        return ea_fail(err, EA_ENOMEM, "make the table of open names");
    size_t rows = limit_bytes / 2 / ROW_SHARE_BYTES;
    n->row_limit = rows < LEAST_ROWS ? LEAST_ROWS : rows > UINT32_MAX / 4 ? UINT32_MAX / 4 : (uint32_t)rows;
    n->counters = counters;
    ea_string_pool_init(&n->texts, limit_bytes / 2);
    for (int i = 0; i < KINDS; i++)
        ea_u64_map_init(&n->at[i], n->row_limit);
    ea_text_init(&n->scratch);
    *ret = n;
    return 0;
}

void ea_open_object_names_destroy(ea_open_object_names *n) {
    if (!n)
        return;
    for (int i = 0; i < KINDS; i++)
        ea_u64_map_deinit(&n->at[i]);
    ea_string_pool_deinit(&n->texts);
    ea_text_deinit(&n->scratch);
    free(n->rows);
    free(n);
}

size_t ea_open_object_names_count(const ea_open_object_names *n) {
    return n->count;
}

static void open_names_unlink_row(ea_open_object_names *n, uint32_t number) {
    row *r = &n->rows[number];
    *(r->earlier ? &n->rows[r->earlier].later : &n->first) = r->later;
    *(r->later ? &n->rows[r->later].earlier : &n->last) = r->earlier;
    (void)ea_u64_map_remove(&n->at[r->kind], r->address);
    ea_string_pool_release(&n->texts, r->name);
    *r = (row){.later = n->unused};
    n->unused = number;
    n->count--;
}

static void evict_first(ea_open_object_names *n) {
    open_names_unlink_row(n, n->first);
    ea_count(n->counters, EA_COUNT_state_evicted, 1);
}

/* A number that no row has: NONE when memory ran out. */
static uint32_t open_object_names_take_number(ea_open_object_names *n) {
    if (n->count == n->row_limit)
        evict_first(n);
    uint32_t number = n->unused;
    if (number) {
        n->unused = n->rows[number].later;
        return number;
    }
    if (EA_GROW(n->rows, n->capacity, (size_t)n->used + 2, SIZE_MAX))
        return NONE;
    return ++n->used;
}

static int open_object_names_last_name(void *arg, uint8_t kind, uint64_t address, ea_name_row *ret, ea_err *err) {
    const ea_open_object_names *n = arg;
    const uint64_t *number = ea_u64_map_get(&n->at[kind], address);
    (void)err;
    if (!number)
        return 0;
    const row *r = &n->rows[*number];
    *ret = (ea_name_row){*number, address, r->begin_utc_ns, INT64_MAX, r->name, kind};
    return 1;
}

static int open_names_put_name(void *arg, const ea_name_row *name, ea_err *err) {
    ea_open_object_names *n = arg;
    if (name->number) { /* it ends */
        open_names_unlink_row(n, (uint32_t)name->number);
        return 0;
    }
    size_t len = strlen(name->name);
    const char *text = NULL;
    if (len <= n->texts.limit_bytes / 16) /* a longer one would drive out too many */
        while (!(text = ea_string_pool_take(&n->texts, name->name, len)) && n->count)
            evict_first(n);
    if (!text) {
        ea_count(n->counters, EA_COUNT_state_texts_left_out, 1);
        return 0;
    }
    uint32_t number = open_object_names_take_number(n);
    if (!number || ea_u64_map_put(&n->at[name->kind], name->address, number))
        return ea_fail(err, EA_ENOMEM, "keep a name"); /* ends the fold, and with it the table */
    n->rows[number] = (row){.address = name->address,
                            .begin_utc_ns = name->begin_utc_ns,
                            .name = text,
                            .earlier = n->last,
                            .kind = name->kind};
    *(n->last ? &n->rows[n->last].later : &n->first) = number;
    n->last = number;
    n->count++;
    return 0;
}

static int open_object_names_last_operation(void *arg, uint64_t irp, ea_operation_row *ret, ea_err *err) {
    (void)arg, (void)irp, (void)ret, (void)err;
    return 0;
}

static int open_object_names_put_operation(void *arg, const ea_operation_row *operation, ea_err *err) {
    (void)arg, (void)operation, (void)err;
    return 0;
}

static int open_names_put_volume(void *arg, const char *nt, const char *dos, ea_err *err) {
    ea_open_object_names *n = arg;
    (void)err;
    if (!ea_volumes_add(n->volumes, &n->volume_count, &n->texts, nt, dos))
        ea_count(n->counters, EA_COUNT_state_texts_left_out, 1);
    return 0;
}

int ea_open_object_names_apply(ea_open_object_names *n, const ea_record *record, const ea_class *c, int64_t utc_ns,
                               ea_err *err) {
    static const ea_object_names_backing OPEN = {open_object_names_last_name, open_names_put_name,
                                                 open_object_names_last_operation, open_object_names_put_operation,
                                                 open_names_put_volume};
    return ea_object_names_fold(&OPEN, n, &n->scratch, record, c, utc_ns, err);
}

void ea_open_object_names_each(const ea_open_object_names *n, void (*name)(void *arg, const ea_name_row *row),
                               void (*volume)(void *arg, const ea_volume *volume), void *arg) {
    for (uint32_t number = n->first; number; number = n->rows[number].later) {
        const row *r = &n->rows[number];
        name(arg, &(ea_name_row){number, r->address, r->begin_utc_ns, INT64_MAX, r->name, r->kind});
    }
    for (size_t i = 0; i < n->volume_count; i++)
        volume(arg, &n->volumes[i]);
}
