/* See image_list.h. */
#include "proto/relog/image_list.h"

#include "proto/base/array.h"
#include "proto/base/pattern.h"
#include "proto/base/text.h"
#include "proto/relog/list_rows.h"

#include <stdlib.h>
#include <string.h>

enum fact_column {
    FACT_PATH,
    FACT_SIZE,
    FACT_TIMESTAMP,
    FACT_GUID,
    FACT_AGE,
    FACT_PDB,
    FACT_NAME,
    FACT_VERSION,
    FACT_COMPANY,
    FACT_PRODUCT,
    FACT_DESCRIPTION,
    FACT_COLUMNS
};

static const char *const FACT_NAMES[FACT_COLUMNS] = {"path",    "size_bytes", "timestamp",     "pdb_guid",
                                                     "pdb_age", "pdb_path",   "original_name", "file_version",
                                                     "company", "product",    "description"};

typedef struct listed_fact {
    const char *name; /* in lower case */
    uint64_t size_bytes;
    ea_image_fact f;
} listed_fact;

struct ea_image_list {
    ea_arena arena;
    listed_fact *facts; /* by name */
    size_t count, capacity;
};

static int fact_pdb(const ea_list_row *row, ea_image_fact *f, ea_err *err) {
    uint64_t age = 0;
    if (ea_guid_parse(row->values[FACT_GUID], &f->pdb_guid))
        return ea_list_wrong(row, "no GUID:", row->values[FACT_GUID], err);
    if (!row->values[FACT_PDB])
        return ea_list_wrong(row, "it lacks the column", FACT_NAMES[FACT_PDB], err);
    int rc = ea_list_number(row, FACT_AGE, UINT32_MAX, 1, &age, err);
    f->has_pdb = 1;
    f->pdb_age = (uint32_t)age;
    f->pdb_path = row->values[FACT_PDB];
    return rc;
}

/* The name of a row in lower case; NULL: there is no memory. */
static const char *lower_name(ea_image_list *l, const char *name, size_t bytes) {
    char *lower = ea_arena_alloc(&l->arena, bytes + 1);
    for (size_t i = 0; lower && i < bytes; i++)
        lower[i] = ea_ascii_lower(name[i]);
    if (lower)
        lower[bytes] = 0;
    return lower;
}

static const char *text_or_none(const ea_list_row *row, enum fact_column column) {
    return row->values[column] ? row->values[column] : "";
}

static int list_add_fact(void *arg, const ea_list_row *row, ea_err *err) {
    ea_image_list *l = arg;
    uint64_t timestamp = 0;
    listed_fact x = {.f = {.original_name = row->values[FACT_NAME],
                           .version = text_or_none(row, FACT_VERSION),
                           .company = text_or_none(row, FACT_COMPANY),
                           .product = text_or_none(row, FACT_PRODUCT),
                           .description = text_or_none(row, FACT_DESCRIPTION)}};
    size_t bytes = 0;
    int rc = ea_list_number(row, FACT_SIZE, UINT64_MAX, 1, &x.size_bytes, err);
    if (!rc)
        rc = ea_list_number(row, FACT_TIMESTAMP, UINT32_MAX, 1, &timestamp, err);
    const char *path = row->values[FACT_PATH];
    const char *name = path ? ea_image_name(path, strlen(path), &bytes) : NULL;
    if (!rc && !bytes)
        rc = ea_list_wrong(row, "expected a path that ends with a file's name, not", path ? path : "", err);
    if (rc || !row->values[FACT_GUID])
        return rc;
    rc = fact_pdb(row, &x.f, err);
    if (rc)
        return rc;
    if (l->count == EA_IMAGE_LIST_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: at most %d images", row->file, EA_IMAGE_LIST_MAX);
    x.name = lower_name(l, name, bytes);
    if (!x.name || EA_GROW(l->facts, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "read %s", row->file);
    x.f.timestamp = (uint32_t)timestamp;
    if (!x.f.original_name)
        x.f.original_name = name;
    l->facts[l->count++] = x;
    return 0;
}

static int by_fact_name(const void *a, const void *b) {
    return strcmp(((const listed_fact *)a)->name, ((const listed_fact *)b)->name);
}

int ea_image_list_read(ea_image_list **ret, const char *file, const char *text, size_t len_bytes, ea_err *err) {
    ea_image_list *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "read %s", file);
    ea_arena_init(&l->arena, 0);
    const ea_list_options list = {.file = file,
                                  .columns = FACT_NAMES,
                                  .column_count = FACT_COLUMNS,
                                  .passes_others = 1,
                                  .arena = &l->arena,
                                  .row = list_add_fact,
                                  .arg = l};
    int rc = ea_list_read(&list, text, len_bytes, err);
    if (rc) {
        ea_image_list_close(l);
        return rc;
    }
    if (l->count)
        qsort(l->facts, l->count, sizeof *l->facts, by_fact_name);
    *ret = l;
    return 0;
}

void ea_image_list_close(ea_image_list *l) {
    if (!l)
        return;
    free(l->facts);
    ea_arena_deinit(&l->arena);
    free(l);
}

int ea_image_list_find(const ea_image_list *l, const ea_image_wanted *wanted, ea_image_fact *ret) {
    size_t low = 0, high = l->count;
    int found = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ea_image_name_compare(l->facts[middle].name, wanted->name, wanted->name_bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < l->count && !ea_image_name_compare(l->facts[low].name, wanted->name, wanted->name_bytes); low++) {
        const listed_fact *x = &l->facts[low];
        if (x->size_bytes != wanted->size_bytes || (wanted->timestamp && x->f.timestamp != wanted->timestamp))
            continue;
        if (found && (!ea_guid_equal(&x->f.pdb_guid, &ret->pdb_guid) || x->f.pdb_age != ret->pdb_age))
            return 0;
        if (!found)
            *ret = x->f;
        found = 1;
    }
    return found;
}
