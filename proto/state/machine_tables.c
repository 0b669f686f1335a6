/* A machine's tables: making them, rows that open, are completed and close, restart, and looking. See machine_parts.h.
 */
#include "proto/state/machine_columns.h"
#include "proto/state/machine_parts.h"

#include "proto/base/pattern.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

static const size_t ROW_BYTES[TABLE_COUNT] = {sizeof(process_row), sizeof(thread_row), sizeof(module_row)};

#define COLUMN(type, kind, member, role) {EA_COLUMN_##kind, ROLE_##role, offsetof(type, member)},
#define OF_PROCESS(...)                  COLUMN(ea_process, __VA_ARGS__)
#define OF_THREAD(...)                   COLUMN(ea_thread_row, __VA_ARGS__)
#define OF_MODULE(...)                   COLUMN(ea_module, __VA_ARGS__)
static const ea_table_column PROCESS_COLUMNS[] = {EA_PROCESS_COLUMNS(OF_PROCESS)};
static const ea_table_column THREAD_COLUMNS[] = {EA_THREAD_COLUMNS(OF_THREAD)};
static const ea_table_column MODULE_COLUMNS[] = {EA_MODULE_COLUMNS(OF_MODULE)};
const ea_table_columns ea_process_columns = {PROCESS_COLUMNS, sizeof PROCESS_COLUMNS / sizeof *PROCESS_COLUMNS};
const ea_table_columns ea_thread_columns = {THREAD_COLUMNS, sizeof THREAD_COLUMNS / sizeof *THREAD_COLUMNS};
const ea_table_columns ea_module_columns = {MODULE_COLUMNS, sizeof MODULE_COLUMNS / sizeof *MODULE_COLUMNS};
static const ea_table_columns *const COLUMNS[TABLE_COUNT] = {&ea_process_columns, &ea_thread_columns,
                                                             &ea_module_columns};

enum { LEAST_BYTES = 64 << 10 };

/* Limits from a bound in bytes: a table's array is twice as long each time it grows, so a share holds the largest such
 * array that fits; a quarter of it is for ended rows. */
static void machine_share(ea_machine *m, size_t limit_bytes) {
    static const unsigned EIGHTHS[TABLE_COUNT] = {1, 2, 4};
    if (limit_bytes < LEAST_BYTES)
        limit_bytes = LEAST_BYTES;
    for (int w = 0; w < TABLE_COUNT; w++) {
        size_t capacity = ea_table_capacity(limit_bytes / 8 * EIGHTHS[w], ROW_BYTES[w]);
        if (m->limits[w] > capacity - capacity / 4)
            m->limits[w] = capacity - capacity / 4;
        if (m->limit_ended > capacity / 4)
            m->limit_ended = capacity / 4;
    }
}

static void list_column(column_list *list, const ea_table_column *column) {
    EA_ASSERT(list->count < LISTED_MAX);
    list->items[list->count++] =
        (struct listed_column){(uint16_t)(offsetof(any_row, life) + column->offset), column->kind, column->role};
}

/* Rows open, are completed and close all the time: the loops over their columns have no others to pass over. */
static void list_columns(ea_machine *m, enum which w) {
    for (size_t i = 0; i < COLUMNS[w]->count; i++) {
        const ea_table_column *column = &COLUMNS[w]->items[i];
        if (column->kind == EA_COLUMN_TEXT)
            list_column(&m->texts_of[w], column);
        if (column->role != ROLE_NONE)
            list_column(&m->completed_of[w], column);
    }
}

int ea_machine_create(ea_machine **ret, const ea_machine_options *options, ea_err *err) {
    uint64_t seed;
    int rc = ea_random_bytes(&seed, sizeof seed, err);
    if (rc)
        return rc;
    ea_machine *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "make a machine's state");
    for (int w = 0; w < TABLE_COUNT; w++) {
        ea_table_init(&m->tables[w], ROW_BYTES[w], seed);
        list_columns(m, (enum which)w);
        m->forgotten_utc_ns[w] = INT64_MIN;
    }
    m->limits[PROCESSES] = options->limit_processes ? options->limit_processes : 65536;
    m->limits[THREADS] = options->limit_threads ? options->limit_threads : 1048576;
    m->limits[MODULES] = options->limit_modules ? options->limit_modules : 1048576;
    m->limit_ended = options->limit_ended ? options->limit_ended : 65536;
    size_t text_bytes = options->limit_text_bytes ? options->limit_text_bytes : (size_t)256 << 20;
    if (options->limit_bytes) {
        machine_share(m, options->limit_bytes);
        if (text_bytes > options->limit_bytes / 8)
            text_bytes = options->limit_bytes / 8;
    }
    ea_string_pool_init(&m->texts, text_bytes);
    ea_u64_map_init(&m->siblings, 0); /* an entry has at least one open thread or module */
    ea_plans_init(&m->plans);
    ea_text_init(&m->scratch);
    ea_text_init(&m->differences);
    m->begin_utc_ns = m->last_utc_ns = INT64_MIN;
    m->observer = options->observer;
    m->observer_arg = options->observer_arg;
    m->counters = options->counters;
    *ret = m;
    return 0;
}

void ea_machine_destroy(ea_machine *m) {
    if (!m)
        return;
    for (int w = 0; w < TABLE_COUNT; w++)
        ea_table_deinit(&m->tables[w]);
    ea_u64_map_deinit(&m->siblings);
    ea_plans_deinit(&m->plans);
    ea_string_pool_deinit(&m->texts);
    ea_text_deinit(&m->scratch);
    ea_text_deinit(&m->differences);
    free(m);
}

int ea_machine_notify(ea_machine *m, enum which w, uint32_t row) {
    const ea_machine_observer *o = m->observer;
    if (!o)
        return 0;
    switch (w) {
    case PROCESSES:
        return o->on_process ? o->on_process(m->observer_arg, &process_at(m, row)->p) : 0;
    case THREADS:
        return o->on_thread ? o->on_thread(m->observer_arg, &thread_at(m, row)->t) : 0;
    default:
        return o->on_module ? o->on_module(m->observer_arg, &module_at(m, row)->m) : 0;
    }
}

/* ---- texts ---- */

static void *machine_tables_member_of(const ea_machine *m, enum which w, uint32_t row,
                                      const struct listed_column *column) {
    return (unsigned char *)ea_table_row(&m->tables[w], row) + column->offset;
}

static void clear_texts(ea_machine *m, enum which w, uint32_t row) {
    for (size_t i = 0; i < m->texts_of[w].count; i++)
        *(const char **)machine_tables_member_of(m, w, row, &m->texts_of[w].items[i]) = "";
}

static void release_texts(ea_machine *m, enum which w, uint32_t row) {
    for (size_t i = 0; i < m->texts_of[w].count; i++)
        ea_string_pool_release(&m->texts,
                               *(const char **)machine_tables_member_of(m, w, row, &m->texts_of[w].items[i]));
}

const char *ea_machine_take_text(ea_machine *m, const char *s, size_t len_bytes) {
    const char *nul = len_bytes ? memchr(s, 0, len_bytes) : NULL;
    len_bytes = nul ? (size_t)(nul - s) : len_bytes;
    const char *kept = ea_string_pool_take(&m->texts, s, len_bytes);
    if (kept)
        return kept;
    ea_machine_count(m, EA_COUNT_state_texts_left_out);
    return "";
}

/* ---- threads and modules of a pid ---- */

static uint32_t machine_pid_of(const ea_machine *m, enum which w, uint32_t row) {
    return w == THREADS ? thread_at(m, row)->t.pid : module_at(m, row)->m.pid;
}

static uint32_t first_sibling(const ea_machine *m, enum which w, uint32_t pid) {
    const uint64_t *both = ea_u64_map_get(&m->siblings, pid);
    return !both ? ROW_NONE : w == THREADS ? (uint32_t)*both : (uint32_t)(*both >> 32);
}

static int set_first_sibling(ea_machine *m, enum which w, uint32_t pid, uint32_t row) {
    const uint64_t *have = ea_u64_map_get(&m->siblings, pid);
    uint64_t both = have ? *have : UINT64_MAX;
    both = w == THREADS ? (both & 0xFFFFFFFF00000000u) | row : (both & 0xFFFFFFFFu) | (uint64_t)row << 32;
    if (both != UINT64_MAX)
        return ea_u64_map_put(&m->siblings, pid, both);
    ea_u64_map_remove(&m->siblings, pid);
    return 0;
}

static void note_module_change(ea_machine *m, uint32_t row) {
    m->module_changes[module_at(m, row)->m.pid / 4 % MODULE_CHANGES]++; /* ids of processes are multiples of 4 */
}

int ea_machine_link_sibling(ea_machine *m, enum which w, uint32_t row) {
    uint32_t first = first_sibling(m, w, machine_pid_of(m, w, row));
    int rc = set_first_sibling(m, w, machine_pid_of(m, w, row), row);
    if (rc)
        return rc;
    if (w == MODULES)
        note_module_change(m, row);
    row_at(m, w, row)->head.sibling_prev = ROW_NONE;
    row_at(m, w, row)->head.sibling_next = first;
    if (first != ROW_NONE)
        row_at(m, w, first)->head.sibling_prev = row;
    return 0;
}

static int unlink_sibling(ea_machine *m, enum which w, uint32_t row) {
    row_head *h = &row_at(m, w, row)->head;
    if (w == MODULES)
        note_module_change(m, row);
    if (h->sibling_next != ROW_NONE)
        row_at(m, w, h->sibling_next)->head.sibling_prev = h->sibling_prev;
    if (h->sibling_prev != ROW_NONE)
        row_at(m, w, h->sibling_prev)->head.sibling_next = h->sibling_next;
    else
        return set_first_sibling(m, w, machine_pid_of(m, w, row), h->sibling_next);
    return 0;
}

/* ---- opening and closing ---- */

static void forget_oldest_ended(ea_machine *m, enum which w) {
    table *t = &m->tables[w];
    uint32_t row = t->lists[LIST_ENDED].oldest;
    m->forgotten_utc_ns[w] = later(m->forgotten_utc_ns[w], row_at(m, w, row)->life.end_utc_ns);
    release_texts(m, w, row);
    ea_table_remove(t, row);
}

int ea_machine_close_row(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns, enum ea_finish cause) {
    any_row *r = row_at(m, w, row);
    r->life.end_utc_ns = later(utc_ns, r->life.begin_utc_ns);
    r->life.end_cause = (uint8_t)cause;
    int rc = w == PROCESSES ? 0 : unlink_sibling(m, w, row);
    ea_table_move(&m->tables[w], row, LIST_ENDED, 0);
    if (!rc)
        rc = ea_machine_notify(m, w, row);
    if (!rc && w == PROCESSES && cause != EA_FINISH_EVICTED)
        rc = ea_machine_end_siblings(m, process_at(m, row)->p.pid, cause == EA_FINISH_EVENT ? INT64_MAX : utc_ns,
                                     utc_ns);
    if (m->tables[w].lists[LIST_ENDED].count > m->limit_ended)
        forget_oldest_ended(m, w);
    return rc;
}

/* Its beginning is unknown, and a rundown named it later than this process began: it belongs to this process. */
static int begin_with_process(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    row_at(m, w, row)->life.begin_utc_ns = utc_ns;
    if (w == THREADS)
        thread_at(m, row)->t.process_instance = 0; /* ea_machine_adopt_siblings */
    else
        module_at(m, row)->m.process_instance = 0;
    return ea_machine_notify(m, w, row);
}

int ea_machine_end_siblings(ea_machine *m, uint32_t pid, int64_t began_before, int64_t utc_ns) {
    static const enum which KINDS[] = {THREADS, MODULES};

    for (int k = 0; k < 2; k++)
        for (uint32_t row = first_sibling(m, KINDS[k], pid), next; row != ROW_NONE; row = next) {
            const any_row *r = row_at(m, KINDS[k], row);
            next = r->head.sibling_next;
            if (r->life.begin_utc_ns >= began_before)
                continue;
            int is_next = r->life.begin_cause != EA_BEGIN_EVENT && r->life.seen_utc_ns > began_before;
            int rc = is_next ? begin_with_process(m, KINDS[k], row, utc_ns)
                             : ea_machine_close_row(m, KINDS[k], row, utc_ns, EA_FINISH_PROCESS_END);
            if (rc)
                return rc;
        }
    return 0;
}

int ea_machine_adopt_siblings(ea_machine *m, uint32_t pid, uint64_t instance) {
    for (uint32_t row = first_sibling(m, THREADS, pid); row != ROW_NONE; row = thread_at(m, row)->head.sibling_next) {
        ea_thread_row *t = &thread_at(m, row)->t;
        if (t->process_instance)
            continue;
        t->process_instance = instance;
        int rc = ea_machine_notify(m, THREADS, row);
        if (rc)
            return rc;
    }
    for (uint32_t row = first_sibling(m, MODULES, pid); row != ROW_NONE; row = module_at(m, row)->head.sibling_next) {
        ea_module *mod = &module_at(m, row)->m;
        if (mod->process_instance)
            continue;
        mod->process_instance = instance;
        int rc = ea_machine_notify(m, MODULES, row);
        if (rc)
            return rc;
    }
    return 0;
}

uint64_t ea_machine_open_instance(const ea_machine *m, uint32_t pid) {
    uint32_t row = ea_table_find(&m->tables[PROCESSES], pid, 0);
    return is_open(m, PROCESSES, row) ? process_at(m, row)->p.life.instance : 0;
}

int ea_machine_open_row(ea_machine *m, enum which w, uint64_t key, uint32_t key2, int64_t utc_ns, enum ea_begin cause,
                        uint32_t *ret_row) {
    table *t = &m->tables[w];
    if (t->lists[LIST_OPEN].count >= m->limits[w]) {
        ea_machine_count(m, EA_COUNT_state_evicted);
        m->evicted++;
        int rc = ea_machine_close_row(m, w, t->lists[LIST_OPEN].oldest, utc_ns, EA_FINISH_EVICTED);
        if (rc)
            return rc;
    }
    int64_t earliest = later(m->begin_utc_ns, m->forgotten_utc_ns[w]);
    uint32_t row = ea_table_find(t, key, key2);
    if (row != ROW_NONE) {
        earliest = row_at(m, w, row)->life.end_utc_ns;
        release_texts(m, w, row);
        memset((unsigned char *)row_at(m, w, row) + sizeof(row_head), 0, t->row_bytes - sizeof(row_head));
        ea_table_move(t, row, LIST_OPEN, 0);
    } else {
        row = ea_table_add(t, key, key2, LIST_OPEN);
        if (row == ROW_NONE)
            return EA_ENOMEM;
    }
    clear_texts(m, w, row);
    row_at(m, w, row)->life = (ea_interval){
        .instance = ++m->last_instance,
        .begin_utc_ns = cause == EA_BEGIN_EVENT || earliest > utc_ns ? utc_ns : earliest,
        .end_utc_ns = INT64_MAX,
        .seen_utc_ns = utc_ns,
        .begin_cause = (uint8_t)cause,
        .end_cause = EA_FINISH_OPEN,
    };
    *ret_row = row;
    return 0;
}

/* ---- completing: a value that is there stays; 1 when something was added ---- */

int ea_machine_lacks_u64(ea_machine *m, uint64_t *slot, enum role role) {
    return *slot == 0 && ea_fields_u64(&m->now, role, slot) && *slot != 0;
}

int ea_machine_lacks_u32(ea_machine *m, uint32_t *slot, enum role role) {
    uint64_t v = 0;
    if (*slot || !ea_fields_u64(&m->now, role, &v) || (uint32_t)v == 0)
        return 0;
    *slot = (uint32_t)v;
    return 1;
}

int ea_machine_lacks_text(ea_machine *m, const char **slot, enum role role) {
    if (**slot)
        return 0;
    ea_fields_text(&m->now, role, &m->scratch);
    *slot = ea_machine_take_text(m, m->scratch.data, m->scratch.len_bytes);
    return **slot != 0;
}

int ea_machine_complete_row(ea_machine *m, enum which w, uint32_t row) {
    const column_list *list = &m->completed_of[w];
    int grew = 0;
    for (size_t i = 0; i < list->count; i++) {
        enum role role = (enum role)list->items[i].role;
        void *slot = machine_tables_member_of(m, w, row, &list->items[i]);
        grew |= list->items[i].kind == EA_COLUMN_TEXT  ? ea_machine_lacks_text(m, slot, role)
                : list->items[i].kind == EA_COLUMN_U32 ? ea_machine_lacks_u32(m, slot, role)
                                                       : ea_machine_lacks_u64(m, slot, role);
    }
    if (grew && w == MODULES)
        note_module_change(m, row);
    return grew;
}

int ea_machine_complete_module_by_id(ea_machine *m, uint32_t row, const module_id *id) {
    ea_module *mod = &module_at(m, row)->m;
    int grew = 0;
    if (!mod->size_bytes && id->size_bytes) {
        mod->size_bytes = id->size_bytes;
        grew = 1;
    }
    if (!mod->timestamp && id->timestamp) {
        mod->timestamp = id->timestamp;
        grew = 1;
    }
    if (!*mod->original_name && *id->original_name) {
        mod->original_name = id->original_name;
        grew = 1;
    } else {
        ea_string_pool_release(&m->texts, id->original_name);
    }
    if (!mod->has_pdb && id->has_pdb) {
        mod->has_pdb = 1;
        mod->pdb_guid = id->pdb_guid;
        mod->pdb_age = id->pdb_age;
        mod->pdb_path = id->pdb_path;
        grew = 1;
    } else {
        ea_string_pool_release(&m->texts, id->pdb_path);
    }
    if (grew)
        note_module_change(m, row);
    return grew;
}

int ea_machine_complete(ea_machine *m, enum which w, uint32_t row) {
    int grew = ea_machine_complete_row(m, w, row);
    if (w != MODULES)
        return grew;
    module_id id = {.pdb_path = "", .original_name = ""};
    static const ea_guid NONE;
    if (ea_fields_guid(&m->now, ROLE_PDB_GUID, &id.pdb_guid) && !ea_guid_equal(&id.pdb_guid, &NONE)) {
        id.has_pdb = 1;
        id.pdb_age = (uint32_t)ea_fields_u64_or_0(&m->now, ROLE_PDB_AGE);
        ea_machine_lacks_text(m, &id.pdb_path, ROLE_PDB_PATH);
    }
    ea_machine_lacks_text(m, &id.original_name, ROLE_ORIGINAL_NAME);
    return grew | ea_machine_complete_module_by_id(m, row, &id);
}

/* ---- restart ---- */

/* A row for a stored instance, or why there is none: 0, EA_ELIMIT, EA_ENOMEM; *ret_row ROW_NONE: skip it. */
static int restore_row(ea_machine *m, enum which w, uint64_t key, uint32_t key2, const ea_interval *life,
                       uint32_t *ret_row) {
    table *t = &m->tables[w];
    enum row_list list = life->end_utc_ns == INT64_MAX ? LIST_OPEN : LIST_ENDED;
    *ret_row = ROW_NONE;
    if (ea_table_find(t, key, key2) != ROW_NONE)
        return 0;
    if (list == LIST_ENDED && t->lists[LIST_ENDED].count >= m->limit_ended) {
        m->forgotten_utc_ns[w] = later(m->forgotten_utc_ns[w], life->end_utc_ns);
        return EA_ELIMIT;
    }
    uint32_t row = ea_table_add(t, key, key2, list);
    if (row == ROW_NONE)
        return EA_ENOMEM;
    if (list == LIST_ENDED)
        ea_table_move(t, row, list, 1); /* the last ended comes first */
    clear_texts(m, w, row);
    if (life->instance > m->last_instance)
        m->last_instance = life->instance;
    *ret_row = row;
    return 0;
}

static const char *restore_text(ea_machine *m, const char *s) {
    return ea_machine_take_text(m, s, strlen(s));
}

/* Keeps the texts of the restored row, and adds it to those of its pid. */
static int restore_rest(ea_machine *m, enum which w, uint32_t row) {
    for (size_t i = 0; i < m->texts_of[w].count; i++) {
        const char **text = machine_tables_member_of(m, w, row, &m->texts_of[w].items[i]);
        *text = restore_text(m, *text);
    }
    return w != PROCESSES && is_open(m, w, row) ? ea_machine_link_sibling(m, w, row) : 0;
}

int ea_machine_restore_process(ea_machine *m, const ea_process *p) {
    uint32_t row;
    int rc = restore_row(m, PROCESSES, p->pid, 0, &p->life, &row);
    if (rc || row == ROW_NONE)
        return rc;
    process_at(m, row)->p = *p;
    return restore_rest(m, PROCESSES, row);
}

int ea_machine_restore_thread(ea_machine *m, const ea_thread_row *t) {
    uint64_t key = t->tid ? t->tid : t->stack_base ? t->stack_base : t->cpu;
    uint32_t row;
    int rc = restore_row(m, THREADS, key, t->tid == 0, &t->life, &row);
    if (rc || row == ROW_NONE)
        return rc;
    thread_at(m, row)->t = *t;
    return restore_rest(m, THREADS, row);
}

int ea_machine_restore_module(ea_machine *m, const ea_module *mod) {
    uint32_t row;
    int rc = restore_row(m, MODULES, mod->base, mod->pid, &mod->life, &row);
    if (rc || row == ROW_NONE)
        return rc;
    module_at(m, row)->m = *mod;
    return restore_rest(m, MODULES, row);
}

int ea_machine_restore_pending_id(ea_machine *m, const ea_module *id, int64_t utc_ns) {
    if (m->id_count == MODULE_IDS_MAX)
        return EA_ELIMIT;
    m->ids_utc_ns = utc_ns;
    m->ids[m->id_count++] = (module_id){
        .base = id->base,
        .size_bytes = id->size_bytes,
        .pid = id->pid,
        .timestamp = id->timestamp,
        .has_pdb = id->has_pdb,
        .pdb_guid = id->pdb_guid,
        .pdb_age = id->pdb_age,
        .pdb_path = restore_text(m, id->pdb_path),
        .original_name = restore_text(m, id->original_name),
    };
    return 0;
}

int ea_machine_restore_pending_facts(ea_machine *m, const ea_process_facts *facts) {
    if (m->facts_count == PROCESS_FACTS_MAX)
        return EA_ELIMIT;
    ea_process_facts *to = &m->facts[m->facts_count++];
    *to = *facts;
    to->mandatory_label = restore_text(m, facts->mandatory_label);
    return 0;
}

void ea_machine_restore_position(ea_machine *m, uint64_t last_instance, int64_t begin_utc_ns) {
    m->last_instance = last_instance;
    m->begin_utc_ns = begin_utc_ns;
}

uint64_t ea_machine_last_instance(const ea_machine *m) {
    return m->last_instance;
}

int64_t ea_machine_begin_utc_ns(const ea_machine *m) {
    return m->begin_utc_ns;
}

/* ---- looking ---- */

size_t ea_machine_bytes(const ea_machine *m) {
    size_t n = m->texts.used_bytes;
    for (int w = 0; w < TABLE_COUNT; w++)
        n += m->tables[w].capacity * (m->tables[w].row_bytes + sizeof(uint32_t));
    return n;
}

uint64_t ea_machine_evicted(const ea_machine *m) {
    return m->evicted;
}

size_t ea_machine_open_count(const ea_machine *m) {
    size_t n = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++)
        n += m->tables[i].lists[LIST_OPEN].count;
    return n;
}

const ea_process *ea_machine_process(const ea_machine *m, uint32_t pid) {
    uint32_t row = ea_table_find(&m->tables[PROCESSES], pid, 0);
    return row == ROW_NONE ? NULL : &process_at(m, row)->p;
}

const ea_thread_row *ea_machine_thread(const ea_machine *m, uint32_t tid) {
    uint32_t row = ea_table_find(&m->tables[THREADS], tid, 0);
    return row == ROW_NONE ? NULL : &thread_at(m, row)->t;
}

const char *ea_path_end(const char *path) {
    const char *end = path;
    for (const char *s = path; *s; s++)
        if (*s == '\\' || *s == '/')
            end = s + 1;
    return end;
}

const ea_module *ea_machine_main_module(const ea_machine *m, const ea_process *p) {
    for (uint32_t row = first_sibling(m, MODULES, p->pid); row != ROW_NONE;
         row = module_at(m, row)->head.sibling_next) {
        const ea_module *module = &module_at(m, row)->m;
        if (*p->image_name && ea_name_equal(ea_path_end(module->path), p->image_name))
            return module;
    }
    return NULL;
}

static const ea_module *module_at_address(const ea_machine *m, uint32_t pid, uint64_t address) {
    const ea_module *found = NULL;
    for (uint32_t row = first_sibling(m, MODULES, pid); row != ROW_NONE; row = module_at(m, row)->head.sibling_next) {
        const ea_module *module = &module_at(m, row)->m;
        if (address >= module->base && address - module->base < module->size_bytes &&
            (!found || module->life.instance > found->life.instance))
            found = module;
    }
    return found;
}

const ea_module *ea_machine_module_at(const ea_machine *m, uint32_t pid, uint64_t address) {
    const ea_module *found = module_at_address(m, pid, address);
    return found || !pid ? found : module_at_address(m, 0, address);
}

uint64_t ea_machine_module_changes(const ea_machine *m, uint32_t pid) {
    return m->module_changes[pid / 4 % MODULE_CHANGES] + m->module_changes[0];
}

void ea_machine_each_process(const ea_machine *m, void (*fn)(void *arg, const ea_process *p), void *arg) {
    for (uint32_t i = m->tables[PROCESSES].lists[LIST_OPEN].oldest; i != ROW_NONE; i = process_at(m, i)->head.newer)
        fn(arg, &process_at(m, i)->p);
}

void ea_machine_each_thread(const ea_machine *m, void (*fn)(void *arg, const ea_thread_row *t), void *arg) {
    for (uint32_t i = m->tables[THREADS].lists[LIST_OPEN].oldest; i != ROW_NONE; i = thread_at(m, i)->head.newer)
        fn(arg, &thread_at(m, i)->t);
}

void ea_machine_each_module(const ea_machine *m, void (*fn)(void *arg, const ea_module *mod), void *arg) {
    for (uint32_t i = m->tables[MODULES].lists[LIST_OPEN].oldest; i != ROW_NONE; i = module_at(m, i)->head.newer)
        fn(arg, &module_at(m, i)->m);
}

void ea_machine_each_pending_facts(const ea_machine *m, void (*fn)(void *arg, const ea_process_facts *facts),
                                   void *arg) {
    for (size_t i = 0; i < m->facts_count; i++)
        fn(arg, &m->facts[i]);
}

void ea_machine_each_pending_id(const ea_machine *m, void (*fn)(void *arg, const ea_module *id, int64_t utc_ns),
                                void *arg) {
    for (size_t i = 0; i < m->id_count; i++) {
        const module_id *id = &m->ids[i];
        ea_module mod = {.base = id->base,
                         .size_bytes = id->size_bytes,
                         .pid = id->pid,
                         .timestamp = id->timestamp,
                         .has_pdb = id->has_pdb,
                         .pdb_guid = id->pdb_guid,
                         .pdb_age = id->pdb_age,
                         .path = "",
                         .pdb_path = id->pdb_path,
                         .original_name = id->original_name};
        fn(arg, &mod, m->ids_utc_ns);
    }
}
