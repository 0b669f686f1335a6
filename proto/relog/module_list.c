/* See module_list.h. */
#include "proto/relog/module_list.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/relog/list_rows.h"

#include <stdlib.h>
#include <string.h>

/* X(column) */
#define MODULE_COLUMNS(X)                                                                                              \
    X(load)                                                                                                            \
    X(unload)                                                                                                          \
    X(pid)                                                                                                             \
    X(base)                                                                                                            \
    X(size)                                                                                                            \
    X(path)                                                                                                            \
    X(guid)                                                                                                            \
    X(age)                                                                                                             \
    X(pdb)                                                                                                             \
    X(timestamp)                                                                                                       \
    X(checksum)                                                                                                        \
    X(default_base)                                                                                                    \
    X(name)

enum module_column {

#define X(name) COLUMN_##name,
    MODULE_COLUMNS(X)
#undef X
        COLUMN_COUNT
};

static const char *const COLUMN_NAMES[COLUMN_COUNT] = {

#define X(name) #name,
    MODULE_COLUMNS(X)
#undef X
};

struct ea_module_list {
    ea_arena arena;
    ea_listed_module *items;
    size_t count, capacity;
};

static int list_pdb(const ea_list_row *row, ea_module *m, ea_err *err) {
    uint64_t age = 0;
    int has = row->values[COLUMN_guid] != NULL;
    if (has != (row->values[COLUMN_age] != NULL) || has != (row->values[COLUMN_pdb] != NULL))
        return ea_list_wrong(row, "guid, age and pdb go together", NULL, err);
    if (!has)
        return 0;
    if (ea_guid_parse(row->values[COLUMN_guid], &m->pdb_guid))
        return ea_list_wrong(row, "no GUID:", row->values[COLUMN_guid], err);
    int rc = ea_list_number(row, COLUMN_age, UINT32_MAX, 1, &age, err);
    m->has_pdb = 1;
    m->pdb_age = (uint32_t)age;
    m->pdb_path = row->values[COLUMN_pdb];
    return rc;
}

static int list_add_module(void *arg, const ea_list_row *row, ea_err *err) {
    ea_module_list *l = arg;
    uint64_t pid = 0, timestamp = 0, checksum = 0;
    ea_listed_module x = {
        .m = {.path = row->values[COLUMN_path], .pdb_path = "", .original_name = row->values[COLUMN_name]},
        .load = row->values[COLUMN_load],
        .unload = row->values[COLUMN_unload],
        .line = row->line};
    int rc = ea_list_number(row, COLUMN_pid, UINT32_MAX, 1, &pid, err);
    if (!rc)
        rc = ea_list_number(row, COLUMN_base, UINT64_MAX, 1, &x.m.base, err);
    if (!rc)
        rc = ea_list_number(row, COLUMN_size, UINT64_MAX, 1, &x.m.size_bytes, err);
    x.m.default_base = x.m.base;
    if (!rc)
        rc = ea_list_number(row, COLUMN_timestamp, UINT32_MAX, 0, &timestamp, err);
    if (!rc)
        rc = ea_list_number(row, COLUMN_checksum, UINT32_MAX, 0, &checksum, err);
    if (!rc)
        rc = ea_list_number(row, COLUMN_default_base, UINT64_MAX, 0, &x.m.default_base, err);
    const char *name = x.m.path ? strrchr(x.m.path, '\\') : NULL;
    if (!rc && (!name || x.m.path[0] != '\\'))
        rc = ea_list_wrong(row, "expected an NT path as in \\Device\\HarddiskVolume3\\plug.in, not",
                           x.m.path ? x.m.path : "", err);
    if (!rc)
        rc = list_pdb(row, &x.m, err);
    if (rc || !name)
        return rc;
    if (l->count == EA_MODULE_LIST_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: at most %d modules", row->file, EA_MODULE_LIST_MAX);
    if (EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "read %s", row->file);
    x.m.pid = (uint32_t)pid;
    x.m.timestamp = (uint32_t)timestamp;
    x.m.checksum = (uint32_t)checksum;
    if (!x.m.original_name)
        x.m.original_name = name + 1;
    l->items[l->count++] = x;
    return 0;
}

int ea_module_list_read(ea_module_list **ret, const char *name, const char *text, size_t len_bytes, ea_err *err) {
    ea_module_list *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "read %s", name);
    ea_arena_init(&l->arena, 0);
    const ea_list_options list = {.file = name,
                                  .columns = COLUMN_NAMES,
                                  .column_count = COLUMN_COUNT,
                                  .arena = &l->arena,
                                  .row = list_add_module,
                                  .arg = l};
    int rc = ea_list_read(&list, text, len_bytes, err);
    if (rc) {
        ea_module_list_destroy(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void ea_module_list_destroy(ea_module_list *l) {
    if (!l)
        return;
    free(l->items);
    ea_arena_deinit(&l->arena);
    free(l);
}

const ea_listed_module *ea_module_list_items(const ea_module_list *l, size_t *ret_count) {
    *ret_count = l->count;
    return l->items;
}
