/* See address_space.h. */
#include "collector/query/analysis/address_space.h"

#include "collector/query/analysis/query.h"
#include "collector/state/state_db.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* KERNEL_BITS_MAX: half of an epoch. STEPS_MAX: modules that are looked at for one address. */
enum { KERNEL_BITS_MAX = 16, STEPS_MAX = 256 };

/* Rows of one id, by begin; a table is sorted by (id, begin). */
typedef struct span {
    uint32_t first, count;
} span;

typedef struct table {
    ea_u64_map by_id; /* pid, tid -> first << 32 | count */
} table;

/* What of modules belongs to one process. */
typedef struct image_space {
    uint32_t *modules; /* indexes, by base, then begin */
    uint64_t *reach;   /* of each: how far it, or one before it, goes */
    uint32_t count;
    int64_t *changes; /* when modules came, and went while their process went on: ascending, each once */
    uint32_t change_count;
} image_space;

typedef struct thread {
    uint32_t tid, pid;
    uint64_t instance;
    int64_t begin, stream; /* stream: the history's number of the session that has it */
} thread;

struct ec_address_space {
    ea_arena arena;
    ea_process *processes;
    int64_t *process_streams; /* of each: the history's number of the session that has it */
    size_t process_count, process_capacity, process_stream_capacity;
    thread *threads;
    size_t thread_count, thread_capacity;
    ea_module *modules;
    int64_t *module_streams;
    size_t module_count, module_capacity, module_stream_capacity;
    table by_pid, by_tid;
    image_space *spaces;   /* of each process, then the kernel's */
    unsigned kernel_bits;  /* of an epoch: the drivers' part */
    uint32_t last_process; /* was asked for last */
};

static int address_space_keep_text(ec_address_space *p, const char **text) {
    *text = ea_arena_strdup(&p->arena, *text);
    return *text ? 0 : EA_ENOMEM;
}

/* The last column of each statement below. */
static int64_t stream_of_row(sqlite3_stmt *s) {
    return sqlite3_column_int64(s, sqlite3_column_count(s) - 1);
}

static int add_process(ec_address_space *p, sqlite3_stmt *s) {
    if (EA_GROW(p->processes, p->process_capacity, p->process_count + 1, SIZE_MAX) ||
        EA_GROW(p->process_streams, p->process_stream_capacity, p->process_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    p->process_streams[p->process_count] = stream_of_row(s);
    ea_process *to = &p->processes[p->process_count++];
    ec_read_process(s, to);
    to->sid = to->package = to->application = to->mandatory_label = "";
    int rc = address_space_keep_text(p, &to->image_name);
    return rc ? rc : address_space_keep_text(p, &to->command_line);
}

static int add_thread(ec_address_space *p, sqlite3_stmt *s) {
    ea_thread_row row;
    if (EA_GROW(p->threads, p->thread_capacity, p->thread_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    ec_read_thread(s, &row);
    p->threads[p->thread_count++] = (thread){.tid = row.tid,
                                             .pid = row.pid,
                                             .instance = row.life.instance,
                                             .begin = row.life.begin_utc_ns,
                                             .stream = stream_of_row(s)};
    return 0;
}

static int space_add_module(ec_address_space *p, sqlite3_stmt *s) {
    if (EA_GROW(p->modules, p->module_capacity, p->module_count + 1, SIZE_MAX) ||
        EA_GROW(p->module_streams, p->module_stream_capacity, p->module_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    p->module_streams[p->module_count] = stream_of_row(s);
    ea_module *to = &p->modules[p->module_count++];
    ec_read_module(s, to);
    to->sha256 = to->file_version = to->company = to->product = ""; /* of no use here, and borrowed */
    to->md5 = to->sha1 = to->imphash = to->description = "";
    int rc = address_space_keep_text(p, &to->path);
    if (!rc)
        rc = address_space_keep_text(p, &to->pdb_path);
    return rc ? rc : address_space_keep_text(p, &to->original_name);
}

static int read_rows(ec_address_space *p, sqlite3 *db, int64_t stream_number, const char *sql,
                     int (*add)(ec_address_space *p, sqlite3_stmt *s), ea_err *err) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, db, "read the history");
    sqlite3_bind_int64(s, 1, stream_number);
    int code, rc = 0;
    while (!rc && (code = sqlite3_step(s)) == SQLITE_ROW)
        rc = add(p, s);
    if (rc)
        rc = ea_fail(err, rc, "read the history");
    else if (code != SQLITE_DONE)
        rc = ec_fail_sqlite(err, db, "read the history");
    sqlite3_finalize(s);
    return rc;
}

static int space_note(table *t, uint32_t id, size_t row) {
    uint64_t *known = ea_u64_map_get(&t->by_id, id);
    if (known) {
        EA_ASSERT((*known >> 32) + (uint32_t)*known == row); /* the rows of an id are adjacent */
        ++*known;
        return 0;
    }
    return ea_u64_map_put(&t->by_id, id, (uint64_t)row << 32 | 1);
}

static span rows_of(const table *t, uint32_t id) {
    const uint64_t *known = ea_u64_map_get(&t->by_id, id);
    return known ? (span){(uint32_t)(*known >> 32), (uint32_t)*known} : (span){0, 0};
}

static int address_space_compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the changes and removes duplicates. Computes the reach of each module. */
static void finish_space(const ec_address_space *p, image_space *s) {
    uint32_t n = 0;
    uint64_t reach = 0;
    qsort(s->changes, s->change_count, sizeof *s->changes, address_space_compare_times);
    for (uint32_t i = 0; i < s->change_count; i++)
        if (n == 0 || s->changes[n - 1] != s->changes[i])
            s->changes[n++] = s->changes[i];
    s->change_count = n;
    for (uint32_t i = 0; i < s->count; i++) {
        const ea_module *m = &p->modules[s->modules[i]];
        uint64_t end = m->base + m->size_bytes;
        EA_ASSERT(!i || p->modules[s->modules[i - 1]].base <= m->base);
        reach = end < m->base ? UINT64_MAX : end > reach ? end : reach;
        s->reach[i] = reach;
    }
}

/* The space that a module belongs to: the space of its process's instance, else of the process that has its pid; the
 * drivers' space is the last. */
static size_t space_of(ec_address_space *p, const ea_u64_map *by_instance, size_t module) {
    const ea_module *m = &p->modules[module];
    if (m->pid == 0)
        return p->process_count;
    uint64_t key = (uint64_t)ec_instance_key(p->module_streams[module], m->process_instance);
    const uint64_t *at = m->process_instance ? ea_u64_map_get(by_instance, key) : NULL;
    if (at)
        return (size_t)*at;
    uint32_t process = ec_address_space_process(p, m->pid, m->life.seen_utc_ns);
    return process == (uint32_t)EC_NO_PROCESS ? SIZE_MAX : process;
}

/* Sorts the modules by (base, begin); each is appended to those of its space. */
static int make_spaces(ec_address_space *p) {
    ea_u64_map by_instance;
    size_t *of = calloc(p->module_count + 1, sizeof *of);
    int rc = of ? 0 : EA_ENOMEM;
    ea_u64_map_init(&by_instance, 0);
    p->spaces = calloc(p->process_count + 1, sizeof *p->spaces);
    if (!p->spaces)
        rc = EA_ENOMEM;
    for (size_t i = 0; !rc && i < p->process_count; i++)
        rc = ea_u64_map_put(&by_instance, (uint64_t)ec_address_space_process_key(p, (uint32_t)i), i);
    for (size_t i = 0; !rc && i < p->module_count; i++) {
        of[i] = space_of(p, &by_instance, i);
        if (of[i] != SIZE_MAX)
            p->spaces[of[i]].count++;
    }
    for (size_t i = 0; !rc && i <= p->process_count; i++) {
        image_space *s = &p->spaces[i];
        s->modules = ea_arena_alloc(&p->arena, (s->count + 1) * sizeof *s->modules);
        s->reach = ea_arena_alloc(&p->arena, (s->count + 1) * sizeof *s->reach);
        s->changes = ea_arena_alloc(&p->arena, (2 * (size_t)s->count + 1) * sizeof *s->changes);
        rc = s->modules && s->reach && s->changes ? 0 : EA_ENOMEM;
        s->count = 0;
    }
    for (size_t i = 0; !rc && i < p->module_count; i++) {
        const ea_module *m = &p->modules[i];
        if (of[i] == SIZE_MAX)
            continue;
        image_space *s = &p->spaces[of[i]];
        s->modules[s->count++] = (uint32_t)i;
        s->changes[s->change_count++] = m->life.begin_utc_ns;
        if (m->life.end_utc_ns != INT64_MAX && m->life.end_cause != EA_FINISH_PROCESS_END)
            s->changes[s->change_count++] = m->life.end_utc_ns;
    }
    for (size_t i = 0; !rc && i <= p->process_count; i++)
        finish_space(p, &p->spaces[i]);
    while (!rc && p->spaces[p->process_count].change_count >> p->kernel_bits && p->kernel_bits < KERNEL_BITS_MAX)
        p->kernel_bits++;
    ea_u64_map_deinit(&by_instance);
    free(of);
    return rc;
}

/* A stream's rows (?1), or those of all sessions of its run. */
#define OF_STREAM " WHERE stream = ?1"
#define OF_RUN                                                                                                         \
    " WHERE stream IN (SELECT r.stream FROM streams s JOIN streams r ON r.host = s.host AND substr(r.id, 1, 12) ="     \
    " substr(s.id, 1, 12) WHERE s.stream = ?1)"
#define SELECT_PROCESSES(of) "SELECT " EC_PROCESS_COLUMNS ", stream FROM processes" of " ORDER BY pid, begin_utc_ns"
#define SELECT_THREADS(of)                                                                                             \
    "SELECT " EC_THREAD_COLUMNS ", stream FROM threads" of " AND tid <> 0 ORDER BY tid, begin_utc_ns"
#define SELECT_MODULES(of) "SELECT " EC_MODULE_COLUMNS ", stream FROM modules" of " ORDER BY base, begin_utc_ns"

_Static_assert(EA_STREAM_RUN_BYTES == 12, "OF_RUN has the number");

static int address_space_read_all(ec_address_space *p, ec_state_db *tables, int64_t stream_number, int has_modules,
                                  int is_of_run, ea_err *err) {
    sqlite3 *db = ec_state_db_database(tables);
    int rc = read_rows(p, db, stream_number, SELECT_PROCESSES(OF_STREAM), add_process, err);
    int has_others = is_of_run && !p->process_count;
    if (!rc && has_others)
        rc = read_rows(p, db, stream_number, SELECT_PROCESSES(OF_RUN), add_process, err);
    if (!rc)
        rc = read_rows(p, db, stream_number, SELECT_THREADS(OF_STREAM), add_thread, err);
    if (!rc && is_of_run && !p->thread_count)
        rc = read_rows(p, db, stream_number, SELECT_THREADS(OF_RUN), add_thread, err);
    if (!rc && has_modules)
        rc = read_rows(p, db, stream_number, has_others ? SELECT_MODULES(OF_RUN) : SELECT_MODULES(OF_STREAM),
                       space_add_module, err);
    return rc;
}

static int open_space(ec_address_space **ret, ec_archive *archive, const ec_archive_stream *stream, int has_modules,
                      int is_of_run, ea_err *err) {
    ec_state_db *tables = NULL;
    ec_state_fold fold;
    int found = 0;
    ec_address_space *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "read the history");
    ea_arena_init(&p->arena, 0);
    ea_u64_map_init(&p->by_pid.by_id, 0);
    ea_u64_map_init(&p->by_tid.by_id, 0);
    p->last_process = (uint32_t)EC_NO_PROCESS;
    int rc = ec_state_db_open(&tables, ec_store_folder(ec_archive_store(archive)), 0, err);
    if (!rc)
        found = ec_state_db_find_fold(tables, stream->row.host, stream->row.stream, &fold, err);
    if (found)
        rc = found < 0 ? found : address_space_read_all(p, tables, fold.stream_number, has_modules, is_of_run, err);
    if (rc == EA_ENOTFOUND)
        rc = 0;
    ec_state_db_close(tables);
    for (size_t i = 0; !rc && i < p->process_count; i++)
        if (space_note(&p->by_pid, p->processes[i].pid, i))
            rc = ea_fail(err, EA_ENOMEM, "read the history");
    for (size_t i = 0; !rc && i < p->thread_count; i++)
        if (space_note(&p->by_tid, p->threads[i].tid, i))
            rc = ea_fail(err, EA_ENOMEM, "read the history");
    if (!rc && make_spaces(p))
        rc = ea_fail(err, EA_ENOMEM, "read the history");
    if (rc) {
        ec_address_space_close(p);
        return rc;
    }
    *ret = p;
    return 0;
}

int ec_address_space_open(ec_address_space **ret, ec_archive *archive, const ec_archive_stream *stream, int has_modules,
                          ea_err *err) {
    return open_space(ret, archive, stream, has_modules, 0, err);
}

int ec_address_space_open_run(ec_address_space **ret, ec_archive *archive, const ec_archive_stream *stream,
                              ea_err *err) {
    return open_space(ret, archive, stream, 1, 1, err);
}

void ec_address_space_close(ec_address_space *p) {
    if (!p)
        return;
    ea_u64_map_deinit(&p->by_pid.by_id);
    ea_u64_map_deinit(&p->by_tid.by_id);
    ea_arena_deinit(&p->arena);
    free(p->processes);
    free(p->process_streams);
    free(p->threads);
    free(p->modules);
    free(p->module_streams);
    free(p->spaces);
    free(p);
}

/* Of rows [s.first, s.first + s.count), which are by begin, the last one that began by a time; else the first. s.count
 * > 0. begin: of the first row, of rows stride bytes apart. */
static uint32_t last_begun(span s, const int64_t *begin, size_t stride, int64_t utc_ns) {
    uint32_t low = 1, high = s.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (*(const int64_t *)((const char *)begin + (s.first + middle) * stride) <= utc_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return s.first + low - 1;
}

uint32_t ec_address_space_process(ec_address_space *p, uint32_t pid, int64_t utc_ns) {
    if (p->last_process < p->process_count) {
        const ea_process *last = &p->processes[p->last_process];
        if (last->pid == pid && last->life.begin_utc_ns <= utc_ns && utc_ns < last->life.end_utc_ns)
            return p->last_process;
    }
    span s = rows_of(&p->by_pid, pid);
    p->last_process = s.count ? last_begun(s, &p->processes->life.begin_utc_ns, sizeof *p->processes, utc_ns)
                              : (uint32_t)EC_NO_PROCESS;
    return p->last_process;
}

uint32_t ec_address_space_thread(const ec_address_space *p, uint32_t tid, int64_t utc_ns) {
    span s = rows_of(&p->by_tid, tid);
    return s.count ? last_begun(s, &p->threads->begin, sizeof *p->threads, utc_ns) : (uint32_t)EC_NO_THREAD;
}

uint32_t ec_address_space_pid_of_thread(ec_address_space *p, uint32_t tid, int64_t utc_ns) {
    uint32_t at = tid ? ec_address_space_thread(p, tid, utc_ns) : 0;
    return !tid ? 0 : at == (uint32_t)EC_NO_THREAD ? UINT32_MAX : p->threads[at].pid;
}

const ea_process *ec_address_space_get_process(const ec_address_space *p, uint32_t index) {
    return index < p->process_count ? &p->processes[index] : NULL;
}

const char *ec_address_space_process_name(const ec_address_space *p, uint32_t index) {
    const ea_process *process = ec_address_space_get_process(p, index);
    if (process && process->pid == 0)
        return "Idle";
    return process && *process->image_name ? ec_base_name(process->image_name) : "?";
}

size_t ec_address_space_process_count(const ec_address_space *p) {
    return p->process_count;
}

size_t ec_address_space_thread_count(const ec_address_space *p) {
    return p->thread_count;
}

int64_t ec_address_space_process_key(const ec_address_space *p, uint32_t index) {
    return index < p->process_count ? ec_instance_key(p->process_streams[index], p->processes[index].life.instance) : 0;
}

int64_t ec_address_space_thread_key(const ec_address_space *p, uint32_t index) {
    return index < p->thread_count ? ec_instance_key(p->threads[index].stream, p->threads[index].instance) : 0;
}

int64_t ec_address_space_process_begin(const ec_address_space *p, uint32_t index) {
    return index < p->process_count ? p->processes[index].life.begin_utc_ns : INT64_MAX;
}

int64_t ec_address_space_thread_begin(const ec_address_space *p, uint32_t index) {
    return index < p->thread_count ? p->threads[index].begin : INT64_MAX;
}

static const image_space *space_space(const ec_address_space *p, uint32_t process, int is_kernel) {
    if (is_kernel)
        return &p->spaces[p->process_count];
    return process < p->process_count ? &p->spaces[process] : NULL;
}

/* How many changes of the space's modules there were by a time. The result has `bits` bits: when there are more changes
 * (more than 2^16 of the drivers, or 2^16 of one process with so many changes of the drivers), the greatest value is
 * returned. */
static uint32_t space_changed(const image_space *s, int64_t utc_ns, unsigned bits) {
    uint32_t low = 0, high = s->change_count, most = (uint32_t)((UINT64_C(1) << bits) - 1);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->changes[middle] <= utc_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < most ? low : most;
}

/* The process's changes in the upper bits, the kernel's in the lower ones. */
uint32_t ec_address_space_epoch(ec_address_space *p, uint32_t process, int64_t utc_ns) {
    const image_space *user = space_space(p, process, 0);
    uint32_t kernel = space_changed(space_space(p, 0, 1), utc_ns, p->kernel_bits);
    uint64_t of_user = user ? space_changed(user, utc_ns, 32 - p->kernel_bits) : 0;
    return (uint32_t)(of_user << p->kernel_bits) | kernel;
}

/* The first of the space's modules whose base is above the address, or at it. */
static uint32_t first_at(const ec_address_space *p, const image_space *s, uint64_t address, int is_above) {
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t base = p->modules[s->modules[middle]].base;
        if (base < address || (is_above && base == address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of modules first to end - 1, which have one base, how many had begun by a time. */
static uint32_t space_begun(const ec_address_space *p, const image_space *s, uint32_t first, uint32_t end,
                            int64_t utc_ns) {
    uint32_t low = first, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->modules[s->modules[middle]].life.begin_utc_ns <= utc_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low - first;
}

const char *ec_unloaded_name(const char *name, char *buffer, size_t capacity) {
    snprintf(buffer, capacity, "[unloaded %s]", *name ? name : "?");
    return buffer;
}

const ea_module *ec_address_space_module(ec_address_space *p, uint32_t process, uint32_t epoch, uint64_t address,
                                         int is_kernel, int *ret_unloaded) {
    const image_space *s = space_space(p, process, is_kernel);
    const ea_module *gone = NULL, *there = NULL; /* of several the last that came: the others' unloads were lost */
    *ret_unloaded = 0;
    if (!s)
        return NULL;
    uint32_t passed = is_kernel ? epoch & (uint32_t)((UINT64_C(1) << p->kernel_bits) - 1)
                                : (uint32_t)((uint64_t)epoch >> p->kernel_bits);
    int64_t since = passed ? s->changes[passed - 1] : INT64_MIN; /* the epoch begins then, and nothing changes in it */
    uint32_t end = first_at(p, s, address, 1), steps = 0;
    while (end > 0 && s->reach[end - 1] > address && steps < STEPS_MAX) { /* base by base, downwards */
        uint32_t first = first_at(p, s, p->modules[s->modules[end - 1]].base, 0);
        for (uint32_t i = first + space_begun(p, s, first, end, since); i-- > first && steps < STEPS_MAX; steps++) {
            const ea_module *m = &p->modules[s->modules[i]];
            if (address - m->base >= m->size_bytes)
                continue;
            if (m->life.end_utc_ns <= since)
                gone = !gone || m->life.end_utc_ns > gone->life.end_utc_ns ? m : gone;
            else if (!there || m->life.begin_utc_ns > there->life.begin_utc_ns)
                there = m;
            break; /* those before it ended before it began */
        }
        end = first;
        steps++;
    }
    *ret_unloaded = !there && gone;
    return there ? there : gone;
}
