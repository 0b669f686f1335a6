/* See event_files.h. */
#include "collector/query/files/event_files.h"

#include "collector/columnar/column_file.h"
#include "collector/query/files/event_partition.h"
#include "proto/base/array.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_ROWS = 1 << 17, /* of a row group */
    SLICE_ROWS = 1 << 10, /* added between two looks at the memory */
    DATED_MAX = 1 << 12,  /* files of a day of their own; what events of further days there are has files of no day */
    MEMORY_MAX_BYTES = 128 << 20,
};

static const int64_t DAY_NS = INT64_C(86400) * 1000000000;
static const char UNNAMED[] = "(unnamed)";

typedef struct files_table {
    ec_class_set set;
    size_t capacity;
    int is_wanted, is_open;
    ec_event_columns columns;
    ec_event_partition *last; /* where its last event went */
    int64_t last_day;
    const char *last_host;
} files_table;

struct ec_event_files {
    ec_event_files_options o;
    ec_archive *archive;
    ec_table_schema shape; /* of all events */
    ea_file *lock;
    ea_text lock_path;
    ea_arena arena;
    files_table **tables;
    size_t table_count, table_capacity;
    ea_bytes_map by_name; /* in lower case -> table */
    ea_u64_map by_class;  /* address of a class -> address of its table */
    ea_class_chooser chooser;
    int has_chooser;
    ec_event_partition **partitions;
    size_t partition_count, partition_capacity, dated_count;
    ea_bytes_map by_path; /* -> partition */
    size_t memory_bytes;
    uint64_t rows;
    ec_event_file *list;
    uint8_t *is_known; /* by columns of the options */
};

/* ---- classes ---- */

static int add_to_table(ec_event_files *f, const ea_class *c) {
    const char *name = *c->name ? c->name : UNNAMED;
    char *key = ea_arena_strdup(&f->arena, name);
    if (!key)
        return EA_ENOMEM;
    ea_name_to_lower(key);
    files_table *t = ea_bytes_map_get(&f->by_name, key, strlen(key));
    if (!t) {
        if (EA_GROW(f->tables, f->table_capacity, f->table_count + 1, SIZE_MAX))
            return EA_ENOMEM;
        t = calloc(1, sizeof *t);
        if (!t)
            return EA_ENOMEM;
        f->tables[f->table_count++] = t;
        t->set.name = name;
        if (ea_bytes_map_put(&f->by_name, key, strlen(key), t))
            return EA_ENOMEM;
    }
    if (EA_GROW(t->set.classes, t->capacity, t->set.count + 1, SIZE_MAX))
        return EA_ENOMEM;
    t->set.classes[t->set.count++] = c;
    return ea_u64_map_put(&f->by_class, (uint64_t)(uintptr_t)c, (uint64_t)(uintptr_t)t);
}

/* The classes that the store has, by name. */
static int load_tables(ec_event_files *f, ea_err *err) {
    const ea_class *const *classes = NULL;
    size_t count = 0;
    int rc = ec_archive_classes(f->archive, &classes, &count, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < count && !rc; i++)
        rc = classes[i]->kind == EA_KIND_KEYFRAME ? 0 : add_to_table(f, classes[i]);
    return rc ? ea_fail(err, rc, "list the classes") : 0;
}

static int open_table(ec_event_files *f, files_table *t, ea_err *err) {
    if (t->is_open)
        return 0;
    int rc = ec_event_columns_init(&t->columns, &t->set, f->o.columns, f->o.column_count, f->is_known, err);
    t->is_open = !rc;
    return rc;
}

/* ---- files ---- */

static int open_partition(ec_event_files *f, files_table *t, int64_t day, const char *host, ea_err *err) {
    ec_event_partition *p = NULL;
    int64_t own = f->dated_count < DATED_MAX ? day : EC_NO_DAY;
    int rc = ec_event_partition_create(&p, &f->o, day, host, &t->columns, err);
    ec_event_partition *known = rc ? NULL : ea_bytes_map_get(&f->by_path, p->path.data, p->path.len_bytes);
    if (!rc && !known && own != day) {
        ec_event_partition_destroy(p);
        p = NULL;
        rc = ec_event_partition_create(&p, &f->o, own, host, &t->columns, err);
        known = rc ? NULL : ea_bytes_map_get(&f->by_path, p->path.data, p->path.len_bytes);
    }
    if (rc)
        return rc;
    if (known) {
        ec_event_partition_destroy(p);
        p = known;
    } else if (EA_GROW(f->partitions, f->partition_capacity, f->partition_count + 1, SIZE_MAX) ||
               ea_bytes_map_put(&f->by_path, p->path.data, p->path.len_bytes, p)) {
        ec_event_partition_destroy(p);
        return ea_fail(err, EA_ENOMEM, "write a file");
    } else {
        f->partitions[f->partition_count++] = p;
        f->dated_count += own != EC_NO_DAY;
    }
    t->last = p;
    t->last_day = day;
    t->last_host = host;
    return 0;
}

static int event_files_flush(ec_event_files *f, ec_event_partition *p, ea_err *err) {
    f->memory_bytes -= p->memory_bytes;
    return ec_event_partition_flush(p, &f->o, err);
}

/* Writes the rows of the files that have most, until what is left takes half of the memory. */
static int flush_largest(ec_event_files *f, ea_err *err) {
    uint64_t most_bytes = f->o.memory_bytes;
    int rc = 0;
    while (!rc && f->memory_bytes > most_bytes / 2) {
        ec_event_partition *largest = NULL;
        for (size_t i = 0; i < f->partition_count; i++)
            if (!largest || f->partitions[i]->memory_bytes > largest->memory_bytes)
                largest = f->partitions[i];
        if (!largest || !largest->memory_bytes)
            break;
        rc = event_files_flush(f, largest, err);
    }
    return rc;
}

static int add_rows_of_day(ec_event_files *f, files_table *t, ec_scan *s, const ec_block *b, const uint32_t *selected,
                           uint32_t count, int64_t day, ea_err *err) {
    const char *host = b->stream->row.host;
    int rc = t->last && t->last_day == day && t->last_host == host ? 0 : open_partition(f, t, day, host, err);
    for (uint32_t i = 0; i < count && !rc; i += SLICE_ROWS) {
        uint32_t n = count - i < SLICE_ROWS ? count - i : SLICE_ROWS;
        ec_event_partition *p = t->last;
        if (!t->columns.count)
            return ea_fail(err, EA_EUSAGE, "the class %.200s has none of the columns", t->set.name);
        size_t before = p->memory_bytes;
        rc = ec_event_partition_add(p, s, b, selected + i, n, err);
        f->memory_bytes += p->memory_bytes - before;
        f->rows += rc ? 0 : n;
        if (!rc && ec_event_partition_pending(p) >= GROUP_ROWS)
            rc = event_files_flush(f, p, err);
        if (!rc && f->memory_bytes > f->o.memory_bytes)
            rc = flush_largest(f, err);
    }
    return rc;
}

static int64_t day_of(int64_t utc_ns) {
    return utc_ns / DAY_NS - (utc_ns % DAY_NS < 0);
}

/* Adds a block's events, those of a day after those of the day before. */
static int event_files_add_block(ec_event_files *f, ec_scan *s, const ec_block *b, ea_err *err) {
    const uint64_t *at = ea_u64_map_get(&f->by_class, (uint64_t)(uintptr_t)b->c);
    files_table *t = at ? (files_table *)(uintptr_t)*at : NULL; // NOLINT(performance-no-int-to-ptr)
    if (!t)
        return ea_fail(err, EA_ECORRUPT, "an event has a class that is not in the store");
    if (f->has_chooser && !ea_class_chooser_wants(&f->chooser, b->c))
        return 0;
    int rc = open_table(f, t, err);
    if (rc || (!t->columns.count && f->o.column_count)) /* it has none of the columns that are wanted */
        return rc;
    rc = ec_scan_show(s, &t->columns.shape, err);
    uint32_t i = 0;
    while (i < b->selected_count && !rc) {
        int64_t day = day_of(ec_scan_utc_ns(s, b->rows[b->selected[i]]));
        uint32_t end = i + 1;
        while (end < b->selected_count && day_of(ec_scan_utc_ns(s, b->rows[b->selected[end]])) == day)
            end++;
        rc = add_rows_of_day(f, t, s, b, b->selected + i, end - i, day, err);
        i = end;
    }
    return rc;
}

/* ---- reading ---- */

static int files_wants(void *arg, const ec_batch_row *batch) {
    const ec_event_files *f = arg;
    return !f->o.segment || batch->segment == f->o.segment;
}

/* Conditions that the scan can skip batches by: times, the stream, names of the wanted classes. */
static int files_scan(ec_event_files *f, ec_scan **ret, ec_value **ret_names, ea_err *err) {
    ec_condition conditions[4];
    const ec_value from = {.type = EC_INT, .i = f->o.from_utc_ns}, to = {.type = EC_INT, .i = f->o.to_utc_ns};
    const ec_value stream = {.type = EC_TEXT, .data = f->o.stream, .len_bytes = f->o.stream ? strlen(f->o.stream) : 0};
    size_t n = 0, name_count = 0;
    conditions[n++] = (ec_condition){.column = EC_TIME, .op = EC_OP_GE, .values = &from, .value_count = 1};
    if (f->o.to_utc_ns != INT64_MAX)
        conditions[n++] = (ec_condition){.column = EC_TIME, .op = EC_OP_LT, .values = &to, .value_count = 1};
    if (f->o.stream)
        conditions[n++] = (ec_condition){.column = EC_STREAM, .op = EC_OP_EQ, .values = &stream, .value_count = 1};
    ec_value *names = calloc(f->table_count + 1, sizeof *names);
    if (!names)
        return ea_fail(err, EA_ENOMEM, "begin a scan");
    int is_named = f->has_chooser;
    for (size_t i = 0; i < f->table_count && is_named; i++) {
        const ec_class_set *set = &f->tables[i]->set;
        int is_wanted = 0;
        for (size_t k = 0; k < set->count; k++)
            is_wanted |= ea_class_chooser_wants(&f->chooser, set->classes[k]);
        is_named = !is_wanted || set->name != UNNAMED;
        if (is_wanted)
            names[name_count++] = (ec_value){.type = EC_TEXT, .data = set->name, .len_bytes = strlen(set->name)};
    }
    if (is_named)
        conditions[n++] = (ec_condition){.column = EC_NAME, .op = EC_OP_EQ, .values = names, .value_count = name_count};
    *ret_names = names;
    return ec_scan_open(ret, f->archive, &f->shape, NULL, conditions, n, err);
}

static int read_all(ec_event_files *f, ea_err *err) {
    ec_scan *s = NULL;
    ec_value *names = NULL;
    const ec_block *b;
    int rc = files_scan(f, &s, &names, err);
    if (!rc) {
        const ec_row_filter filter = {.wants = files_wants, .arg = f};
        ec_scan_set_filter(s, &filter);
        while ((rc = ec_scan_next(s, &b, err)) == 1 && !(rc = event_files_add_block(f, s, b, err))) {
        }
    }
    ec_scan_close(s);
    free(names);
    return rc;
}

/* ---- the whole ---- */

static int claim_folder(ec_event_files *f, ea_err *err) {
    int rc = ea_path_make_dirs(f->o.folder, err);
    ea_text_printf(&f->lock_path, "%s/.%s.lock", f->o.folder, f->o.part);
    if (!rc && f->lock_path.failed)
        rc = ea_fail(err, EA_ENOMEM, "write %.400s", f->o.folder);
    if (!rc)
        rc = ea_file_claim(&f->lock, f->lock_path.data, err);
    return rc == EA_EBUSY ? ea_fail(err, rc, "write %.400s: another run writes files there", f->o.folder) : rc;
}

int ec_event_files_open(ec_event_files **ret, const ec_event_files_options *options, ea_err *err) {
    static const ea_class_choice NO_CHOICE;
    ec_event_files *f = calloc(1, sizeof *f);
    if (!f)
        return ea_fail(err, EA_ENOMEM, "write %.400s", options->folder);
    f->o = *options;
    if (!f->o.memory_bytes)
        f->o.memory_bytes = MEMORY_MAX_BYTES;
    ea_text_init(&f->lock_path);
    ea_arena_init(&f->arena, 0);
    ea_bytes_map_init(&f->by_name, 0);
    ea_bytes_map_init(&f->by_path, 0);
    ea_u64_map_init(&f->by_class, 0);
    f->is_known = calloc(options->column_count + 1, 1);
    int rc = f->is_known ? 0 : ea_fail(err, EA_ENOMEM, "write %.400s", options->folder);
    const ea_class_choice *choice = options->choice ? options->choice : &NO_CHOICE;
    if (!rc && (choice->classes.count || choice->ids.count || choice->providers.count)) {
        rc = ea_class_chooser_init(&f->chooser, choice, err);
        f->has_chooser = !rc;
    }
    if (!rc)
        rc = ec_archive_open(&f->archive, options->store, options->host, NULL, err);
    if (!rc && options->host)
        rc = ec_archive_has_hosts(f->archive, &options->host, 1, err);
    if (!rc)
        rc = ec_table_schema_init(&f->shape, NULL, err);
    if (!rc)
        rc = load_tables(f, err);
    if (!rc)
        rc = claim_folder(f, err);
    if (rc) {
        ec_event_files_close(f);
        return rc;
    }
    ec_archive_on_batch(f->archive, options->keep_going, options->arg);
    *ret = f;
    return 0;
}

static int by_path(const void *x, const void *y) {
    const ec_event_partition *const *p = x, *const *q = y;
    return strcmp((*p)->path.data, (*q)->path.data);
}

/* What was asked for and is nowhere. */
static int check_asked(ec_event_files *f, ea_err *err) {
    int rc = f->has_chooser ? ea_class_chooser_check(&f->chooser, err) : 0;
    for (size_t i = 0; i < f->o.column_count && !rc; i++)
        if (!f->is_known[i])
            rc = ea_fail(err, EA_ENOTFOUND, "no class of the events has a column %.200s", f->o.columns[i]);
    return rc;
}

int ec_event_files_write(ec_event_files *f, ea_err *err) {
    int rc = read_all(f, err);
    if (!rc)
        rc = check_asked(f, err);
    if (f->partition_count)
        qsort(f->partitions, f->partition_count, sizeof(ec_event_partition *), by_path);
    for (size_t i = 0; i < f->partition_count && !rc; i++)
        rc = ec_event_partition_finish(f->partitions[i], &f->o, err);
    if (!rc)
        rc = ec_column_file_sync_all(f->o.folder, err);
    f->list = rc ? NULL : calloc(f->partition_count + 1, sizeof *f->list);
    if (!rc && !f->list)
        rc = ea_fail(err, EA_ENOMEM, "write %.400s", f->o.folder);
    for (size_t i = 0; i < f->partition_count && !rc; i++) {
        const ec_event_partition *p = f->partitions[i];
        f->list[i] = (ec_event_file){.path = p->path.data,
                                     .day = p->day,
                                     .host = p->host,
                                     .name = p->columns->shape.set->name,
                                     .rows = p->rows,
                                     .bytes = ec_column_writer_bytes(p->writer)};
        rc = ec_event_partition_publish(f->partitions[i], err);
    }
    return rc ? rc : ec_column_file_sync_all(f->o.folder, err);
}

const ec_event_file *ec_event_files_list(const ec_event_files *f, size_t *ret_count) {
    *ret_count = f->list ? f->partition_count : 0;
    return f->list;
}

uint64_t ec_event_files_rows(const ec_event_files *f) {
    return f->rows;
}

uint64_t ec_event_files_damage(const ec_event_files *f, const char **ret_first) {
    return ec_archive_damage(f->archive, ret_first);
}

void ec_event_files_close(ec_event_files *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->partition_count; i++)
        ec_event_partition_destroy(f->partitions[i]);
    for (size_t i = 0; i < f->table_count; i++) {
        ec_event_columns_deinit(&f->tables[i]->columns);
        free(f->tables[i]->set.classes);
        free(f->tables[i]);
    }
    if (f->lock) {
        ea_file_close(f->lock);
        EA_IGNORE(ea_path_remove(f->lock_path.data, NULL));
    }
    free(f->partitions);
    free(f->tables);
    free(f->list);
    free(f->is_known);
    if (f->has_chooser)
        ea_class_chooser_deinit(&f->chooser);
    ea_bytes_map_deinit(&f->by_name);
    ea_bytes_map_deinit(&f->by_path);
    ea_u64_map_deinit(&f->by_class);
    ec_table_schema_deinit(&f->shape);
    ec_archive_close(f->archive);
    ea_arena_deinit(&f->arena);
    ea_text_deinit(&f->lock_path);
    free(f);
}
