/* The fold: records change three tables. The rules are in machine.h; this file has them in the same order of thought:
 * opening, completing, closing, then one function for each subject. */
#include "machine.h"

#include "fields.h"
#include "keyframe.h"
#include "platform.h"
#include "table.h"
#include "texts.h"

#include <stdlib.h>
#include <string.h>

enum which { PROCESSES, THREADS, MODULES, TABLE_COUNT };

/* Rows: each begins with its row_head and its interval. */
typedef struct any_row {
    row_head head;
    ea_interval life;
} any_row;
typedef struct process_row {
    row_head head;
    ea_process p;
    uint32_t rundown_of[TABLE_COUNT]; /* the last rundown that named a thread, a module of it */
} process_row;
typedef struct thread_row {
    row_head head;
    ea_thread_row t;
} thread_row;
typedef struct module_row {
    row_head head;
    ea_module m;
} module_row;
_Static_assert(offsetof(process_row, p.life) == offsetof(any_row, life), "rows begin alike");
_Static_assert(offsetof(thread_row, t.life) == offsetof(any_row, life), "rows begin alike");
_Static_assert(offsetof(module_row, m.life) == offsetof(any_row, life), "rows begin alike");

/* What an ImageID or DbgID_RSDS record said, until the image record that it belongs to comes or time moves on. */
typedef struct module_id {
    uint64_t base, size_bytes;
    uint32_t pid, timestamp;
    int has_pdb;
    ea_guid pdb_guid;
    uint32_t pdb_age;
    const char *pdb_path, *original_name;
} module_id;
enum { MODULE_IDS_MAX = 64 };

struct ea_machine {
    table tables[TABLE_COUNT];
    size_t limits[TABLE_COUNT], limit_ended;
    int64_t forgotten_utc_ns[TABLE_COUNT]; /* latest end among the ended rows that were forgotten */
    ea_u64_map siblings;                   /* pid -> first open thread (low half) and module (high half) */
    texts texts;
    plans plans;
    fields now; /* the record at hand */
    ea_text scratch;
    module_id ids[MODULE_IDS_MAX];
    size_t id_count;
    int64_t ids_utc_ns;
    uint64_t last_instance, evicted;
    uint32_t keyframe; /* number of the one at hand or the last one, for row_head.keyframe */
    int in_keyframe;
    ea_keyframe_result compared;
    ea_text differences;
    uint32_t rundown; /* as keyframe */
    int in_rundown;
    uint16_t rundown_logger, rundown_source;
    int64_t rundown_utc_ns; /* its beginning */
    int64_t begin_utc_ns, last_utc_ns;
    const ea_machine_observer *observer;
    void *observer_arg;
    ea_counters *counters;
};

static const size_t ROW_BYTES[TABLE_COUNT] = {sizeof(process_row), sizeof(thread_row), sizeof(module_row)};
enum { LEAST_BYTES = 64 << 10 };

/* Limits from a bound in bytes: a table's array is twice as long each time it grows, so a share holds the largest such
 * array that fits; a quarter of it is for ended rows. */
static void share(ea_machine *m, size_t limit_bytes) {
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
        m->forgotten_utc_ns[w] = INT64_MIN;
    }
    m->limits[PROCESSES] = options->limit_processes ? options->limit_processes : 65536;
    m->limits[THREADS] = options->limit_threads ? options->limit_threads : 1048576;
    m->limits[MODULES] = options->limit_modules ? options->limit_modules : 1048576;
    m->limit_ended = options->limit_ended ? options->limit_ended : 65536;
    size_t text_bytes = options->limit_text_bytes ? options->limit_text_bytes : (size_t)256 << 20;
    if (options->limit_bytes) {
        share(m, options->limit_bytes);
        if (text_bytes > options->limit_bytes / 8)
            text_bytes = options->limit_bytes / 8;
    }
    ea_texts_init(&m->texts, text_bytes);
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
    ea_texts_deinit(&m->texts);
    ea_text_deinit(&m->scratch);
    ea_text_deinit(&m->differences);
    free(m);
}

static any_row *row_at(const ea_machine *m, enum which w, uint32_t row) {
    return ea_table_row(&m->tables[w], row);
}
static process_row *process_at(const ea_machine *m, uint32_t row) {
    return ea_table_row(&m->tables[PROCESSES], row);
}
static thread_row *thread_at(const ea_machine *m, uint32_t row) {
    return ea_table_row(&m->tables[THREADS], row);
}
static module_row *module_at(const ea_machine *m, uint32_t row) {
    return ea_table_row(&m->tables[MODULES], row);
}

static int is_open(const ea_machine *m, enum which w, uint32_t row) {
    return row != ROW_NONE && row_at(m, w, row)->head.list == LIST_OPEN;
}

static void count(ea_machine *m, enum ea_counter which) {
    if (m->counters)
        ea_count(m->counters, which, 1);
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int notify(ea_machine *m, enum which w, uint32_t row) {
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

enum { TEXTS_MAX = 5 };
/* The text members of a row; returns their number. */
static size_t texts_of(const ea_machine *m, enum which w, uint32_t row, const char **ret_slots[TEXTS_MAX]) {
    size_t n = 0;
    if (w == PROCESSES) {
        ea_process *p = &process_at(m, row)->p;
        ret_slots[n++] = &p->image_name;
        ret_slots[n++] = &p->command_line;
        ret_slots[n++] = &p->sid;
        ret_slots[n++] = &p->package;
        ret_slots[n++] = &p->application;
    } else if (w == THREADS) {
        ret_slots[n++] = &thread_at(m, row)->t.name;
    } else {
        ea_module *mod = &module_at(m, row)->m;
        ret_slots[n++] = &mod->path;
        ret_slots[n++] = &mod->pdb_path;
        ret_slots[n++] = &mod->original_name;
    }
    return n;
}

static void clear_texts(ea_machine *m, enum which w, uint32_t row) {
    const char **slots[TEXTS_MAX];
    for (size_t n = texts_of(m, w, row, slots), i = 0; i < n; i++)
        *slots[i] = "";
}

static void release_texts(ea_machine *m, enum which w, uint32_t row) {
    const char **slots[TEXTS_MAX];
    for (size_t n = texts_of(m, w, row, slots), i = 0; i < n; i++)
        ea_texts_release(&m->texts, *slots[i]);
}

static const char *take_text(ea_machine *m, const char *s, size_t len_bytes) {
    const char *nul = len_bytes ? memchr(s, 0, len_bytes) : NULL;
    len_bytes = nul ? (size_t)(nul - s) : len_bytes;
    const char *kept = ea_texts_take(&m->texts, s, len_bytes);
    if (kept)
        return kept;
    count(m, EA_COUNT_state_texts_left_out);
    return "";
}

/* ---- threads and modules of a pid ---- */

static uint32_t pid_of(const ea_machine *m, enum which w, uint32_t row) {
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

static int link_sibling(ea_machine *m, enum which w, uint32_t row) {
    uint32_t first = first_sibling(m, w, pid_of(m, w, row));
    int rc = set_first_sibling(m, w, pid_of(m, w, row), row);
    if (rc)
        return rc;
    row_at(m, w, row)->head.sibling_prev = ROW_NONE;
    row_at(m, w, row)->head.sibling_next = first;
    if (first != ROW_NONE)
        row_at(m, w, first)->head.sibling_prev = row;
    return 0;
}

static int unlink_sibling(ea_machine *m, enum which w, uint32_t row) {
    row_head *h = &row_at(m, w, row)->head;
    if (h->sibling_next != ROW_NONE)
        row_at(m, w, h->sibling_next)->head.sibling_prev = h->sibling_prev;
    if (h->sibling_prev != ROW_NONE)
        row_at(m, w, h->sibling_prev)->head.sibling_next = h->sibling_next;
    else
        return set_first_sibling(m, w, pid_of(m, w, row), h->sibling_next);
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

static int end_siblings(ea_machine *m, uint32_t pid, int64_t began_before, int64_t utc_ns);

/* Ends an open row and says so. A process takes its threads and modules with it, unless it was merely given up. */
static int close_row(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns, enum ea_finish cause) {
    any_row *r = row_at(m, w, row);
    r->life.end_utc_ns = later(utc_ns, r->life.begin_utc_ns);
    r->life.end_cause = (uint8_t)cause;
    int rc = w == PROCESSES ? 0 : unlink_sibling(m, w, row);
    ea_table_move(&m->tables[w], row, LIST_ENDED, 0);
    if (!rc)
        rc = notify(m, w, row);
    if (!rc && w == PROCESSES && cause != EA_FINISH_EVICTED)
        rc = end_siblings(m, process_at(m, row)->p.pid, cause == EA_FINISH_EVENT ? INT64_MAX : utc_ns, utc_ns);
    if (m->tables[w].lists[LIST_ENDED].count > m->limit_ended)
        forget_oldest_ended(m, w);
    return rc;
}

static int end_siblings(ea_machine *m, uint32_t pid, int64_t began_before, int64_t utc_ns) {
    static const enum which KINDS[] = {THREADS, MODULES};
    for (int k = 0; k < 2; k++)
        for (uint32_t row = first_sibling(m, KINDS[k], pid), next; row != ROW_NONE; row = next) {
            const any_row *r = row_at(m, KINDS[k], row);
            next = r->head.sibling_next;
            if (r->life.begin_utc_ns >= began_before)
                continue;
            int rc = close_row(m, KINDS[k], row, utc_ns, EA_FINISH_PROCESS_END);
            if (rc)
                return rc;
        }
    return 0;
}

/* Threads and modules that were seen before their process. */
static int adopt_siblings(ea_machine *m, uint32_t pid, uint64_t instance) {
    for (uint32_t row = first_sibling(m, THREADS, pid); row != ROW_NONE; row = thread_at(m, row)->head.sibling_next) {
        ea_thread_row *t = &thread_at(m, row)->t;
        if (t->process_instance)
            continue;
        t->process_instance = instance;
        int rc = notify(m, THREADS, row);
        if (rc)
            return rc;
    }
    for (uint32_t row = first_sibling(m, MODULES, pid); row != ROW_NONE; row = module_at(m, row)->head.sibling_next) {
        ea_module *mod = &module_at(m, row)->m;
        if (mod->process_instance)
            continue;
        mod->process_instance = instance;
        int rc = notify(m, MODULES, row);
        if (rc)
            return rc;
    }
    return 0;
}

static uint64_t open_process_instance(const ea_machine *m, uint32_t pid) {
    uint32_t row = ea_table_find(&m->tables[PROCESSES], pid, 0);
    return is_open(m, PROCESSES, row) ? process_at(m, row)->p.life.instance : 0;
}

/* A new instance of a key that is not open; the caller fills it in, links it and says so. */
static int open_row(ea_machine *m, enum which w, uint64_t key, uint32_t key2, int64_t utc_ns, enum ea_begin cause,
                    uint32_t *ret_row) {
    table *t = &m->tables[w];
    if (t->lists[LIST_OPEN].count >= m->limits[w]) {
        count(m, EA_COUNT_state_evicted);
        m->evicted++;
        int rc = close_row(m, w, t->lists[LIST_OPEN].oldest, utc_ns, EA_FINISH_EVICTED);
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

static int lacks_u64(ea_machine *m, uint64_t *slot, enum role role) {
    return *slot == 0 && ea_fields_u64(&m->now, role, slot) && *slot != 0;
}

static int lacks_u32(ea_machine *m, uint32_t *slot, enum role role) {
    uint64_t v = 0;
    if (*slot || !ea_fields_u64(&m->now, role, &v) || (uint32_t)v == 0)
        return 0;
    *slot = (uint32_t)v;
    return 1;
}

static int lacks_text(ea_machine *m, const char **slot, enum role role) {
    if (**slot)
        return 0;
    ea_fields_text(&m->now, role, &m->scratch);
    *slot = take_text(m, m->scratch.data, m->scratch.len_bytes);
    return **slot != 0;
}

static int complete_process(ea_machine *m, uint32_t row) {
    ea_process *p = &process_at(m, row)->p;
    int grew = lacks_u32(m, &p->parent_pid, ROLE_PARENT_PID);
    grew |= lacks_u32(m, &p->session_id, ROLE_SESSION_ID);
    grew |= lacks_u64(m, &p->unique_key, ROLE_UNIQUE_KEY);
    grew |= lacks_u64(m, &p->directory_table_base, ROLE_PAGE_TABLE);
    grew |= lacks_u32(m, &p->flags, ROLE_FLAGS);
    grew |= lacks_text(m, &p->image_name, ROLE_IMAGE_NAME);
    grew |= lacks_text(m, &p->command_line, ROLE_COMMAND_LINE);
    grew |= lacks_text(m, &p->package, ROLE_PACKAGE);
    grew |= lacks_text(m, &p->application, ROLE_APPLICATION);
    grew |= lacks_text(m, &p->sid, ROLE_SID);
    return grew;
}

static int complete_thread(ea_machine *m, uint32_t row) {
    ea_thread_row *t = &thread_at(m, row)->t;
    int grew = lacks_u64(m, &t->stack_base, ROLE_STACK_BASE);
    grew |= lacks_u64(m, &t->start_address, ROLE_START_ADDRESS);
    grew |= lacks_u64(m, &t->win32_start_address, ROLE_WIN32_START_ADDRESS);
    grew |= lacks_u64(m, &t->teb, ROLE_TEB);
    grew |= lacks_text(m, &t->name, ROLE_THREAD_NAME);
    return grew;
}

static int complete_module(ea_machine *m, uint32_t row) {
    ea_module *mod = &module_at(m, row)->m;
    int grew = lacks_u64(m, &mod->size_bytes, ROLE_SIZE);
    grew |= lacks_u64(m, &mod->default_base, ROLE_DEFAULT_BASE);
    grew |= lacks_u32(m, &mod->checksum, ROLE_CHECKSUM);
    grew |= lacks_u32(m, &mod->timestamp, ROLE_TIMESTAMP);
    grew |= lacks_text(m, &mod->path, ROLE_PATH);
    return grew;
}

/* Takes the id's texts. */
static int complete_module_by_id(ea_machine *m, uint32_t row, const module_id *id) {
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
        ea_texts_release(&m->texts, id->original_name);
    }
    if (!mod->has_pdb && id->has_pdb) {
        mod->has_pdb = 1;
        mod->pdb_guid = id->pdb_guid;
        mod->pdb_age = id->pdb_age;
        mod->pdb_path = id->pdb_path;
        grew = 1;
    } else {
        ea_texts_release(&m->texts, id->pdb_path);
    }
    return grew;
}

/* ---- rundowns ---- */

static int is_of_rundown(const ea_machine *m, const ea_record *record) {
    return m->in_rundown && record->logger == m->rundown_logger && record->source == m->rundown_source;
}

static void begin_rundown(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    if (++m->rundown == 0)
        m->rundown = 1; /* 0: none named it */
    m->in_rundown = 1;
    m->rundown_logger = record->logger;
    m->rundown_source = record->source;
    m->rundown_utc_ns = utc_ns;
}

/* The record at hand is of a rundown's and names the row, which may be ROW_NONE. */
static void name_row(ea_machine *m, const ea_record *record, enum which w, uint32_t row, uint32_t pid) {
    if (m->now.plan->verb != VERB_RUNDOWN_START || !is_of_rundown(m, record))
        return;
    if (row != ROW_NONE)
        row_at(m, w, row)->head.rundown = m->rundown;
    uint32_t process = ea_table_find(&m->tables[PROCESSES], pid, 0);
    if (w != PROCESSES && process != ROW_NONE)
        process_at(m, process)->rundown_of[w] = m->rundown;
}

/* Whether the rundown would have named the row if it were there. */
static int is_absent(const ea_machine *m, enum which w, uint32_t row) {
    const any_row *r = row_at(m, w, row);
    if (r->head.rundown == m->rundown || r->life.seen_utc_ns >= m->rundown_utc_ns)
        return 0;
    if (w == PROCESSES)
        return 1;
    uint32_t pid = w == THREADS ? thread_at(m, row)->t.pid : module_at(m, row)->m.pid;
    uint32_t process = ea_table_find(&m->tables[PROCESSES], pid, 0);
    return process != ROW_NONE && process_at(m, process)->rundown_of[w] == m->rundown;
}

static int complete_rundown(ea_machine *m) {
    static const enum which ORDER[] = {MODULES, THREADS, PROCESSES};
    m->in_rundown = 0;
    for (int i = 0; i < TABLE_COUNT; i++) {
        enum which w = ORDER[i];
        for (uint32_t row = m->tables[w].lists[LIST_OPEN].oldest, next; row != ROW_NONE; row = next) {
            next = row_at(m, w, row)->head.newer;
            if (!is_absent(m, w, row))
                continue;
            count(m, EA_COUNT_state_rundown_closed);
            int rc = close_row(m, w, row, m->rundown_utc_ns, EA_FINISH_RUNDOWN);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* ---- the subjects ---- */

/* Whether an End record may still move the end of this row, which is of the same instance. */
static int amendable(const ea_machine *m, enum which w, uint32_t row) {
    uint8_t cause = row_at(m, w, row)->life.end_cause;
    return cause == EA_FINISH_PROCESS_END || cause == EA_FINISH_EVICTED || cause == EA_FINISH_RUNDOWN;
}

static int amend_end(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    ea_interval *life = &row_at(m, w, row)->life;
    life->end_utc_ns = later(utc_ns, life->begin_utc_ns);
    life->end_cause = EA_FINISH_EVENT;
    return notify(m, w, row);
}

/* A Start record that comes behind what its own instance did later, as buffers of two processors may: that instance is
 * there, nobody saw it begin, and all that is known of it is younger. */
static int begins_late(const ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    const ea_interval *life = &row_at(m, w, row)->life;
    return m->now.plan->verb == VERB_START && life->begin_cause != EA_BEGIN_EVENT && utc_ns < life->seen_utc_ns;
}

/* The row is completed by the caller. */
static int amend_begin(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    ea_interval *life = &row_at(m, w, row)->life;
    life->begin_utc_ns = life->seen_utc_ns = utc_ns;
    life->begin_cause = EA_BEGIN_EVENT;
    return notify(m, w, row);
}

static int apply_process(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    const class_plan *plan = m->now.plan;
    uint64_t pid64, key = ea_fields_u64_or_0(&m->now, ROLE_UNIQUE_KEY);
    if (!ea_fields_u64(&m->now, ROLE_PID, &pid64) || pid64 > UINT32_MAX)
        return 0;
    uint32_t pid = (uint32_t)pid64, row = ea_table_find(&m->tables[PROCESSES], pid, 0);
    uint64_t have = row == ROW_NONE ? 0 : process_at(m, row)->p.unique_key;
    int rc = 0, open = is_open(m, PROCESSES, row), same = row != ROW_NONE && (!key || !have || key == have);
    if (pid == 0 && plan->verb == VERB_RUNDOWN_START)
        begin_rundown(m, record, utc_ns);
    name_row(m, record, PROCESSES, row, pid);
    if (same && begins_late(m, PROCESSES, row, utc_ns)) {
        complete_process(m, row);
        return amend_begin(m, PROCESSES, row, utc_ns);
    }
    if (open && (plan->verb == VERB_START || !same)) {
        count(m, EA_COUNT_state_missed_ends);
        rc = close_row(m, PROCESSES, row, utc_ns, EA_FINISH_REPLACED);
        open = same = 0;
    } else if (!open && plan->verb == VERB_START) {
        rc = end_siblings(m, pid, utc_ns, utc_ns);
    }
    if (rc)
        return rc;
    int32_t exit_status = (int32_t)(uint32_t)ea_fields_u64_or_0(&m->now, ROLE_EXIT_STATUS);
    if (open) {
        int grew = complete_process(m, row);
        if (plan->verb != VERB_END)
            return grew ? notify(m, PROCESSES, row) : 0;
        process_at(m, row)->p.exit_status = exit_status;
        return close_row(m, PROCESSES, row, utc_ns, EA_FINISH_EVENT);
    }
    if (plan->verb == VERB_END && same && amendable(m, PROCESSES, row)) {
        complete_process(m, row);
        process_at(m, row)->p.exit_status = exit_status;
        return amend_end(m, PROCESSES, row, utc_ns);
    }
    static const enum ea_begin CAUSES[] = {EA_BEGIN_EVENT, EA_BEGIN_END_ONLY, EA_BEGIN_RUNDOWN_START,
                                           EA_BEGIN_RUNDOWN_END};
    rc = open_row(m, PROCESSES, pid, 0, utc_ns, CAUSES[plan->verb], &row);
    if (rc)
        return rc;
    ea_process *p = &process_at(m, row)->p;
    p->pid = pid;
    complete_process(m, row);
    if (p->parent_pid != pid)
        p->parent_instance = open_process_instance(m, p->parent_pid);
    if (plan->verb == VERB_END) {
        count(m, EA_COUNT_state_missed_starts);
        p->exit_status = exit_status;
        rc = adopt_siblings(m, pid, p->life.instance);
        return rc ? rc : close_row(m, PROCESSES, row, utc_ns, EA_FINISH_EVENT);
    }
    rc = notify(m, PROCESSES, row);
    return rc ? rc : adopt_siblings(m, pid, p->life.instance);
}

static uint16_t only_cpu(uint64_t affinity, uint16_t otherwise) {
    if (!affinity || affinity & (affinity - 1))
        return otherwise;
    uint16_t cpu = 0;
    while (affinity >>= 1)
        cpu++;
    return cpu;
}

static int apply_thread(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    const class_plan *plan = m->now.plan;
    uint64_t pid64, tid64;
    if (!ea_fields_u64(&m->now, ROLE_PID, &pid64) || !ea_fields_u64(&m->now, ROLE_TID, &tid64) || pid64 > UINT32_MAX ||
        tid64 > UINT32_MAX)
        return 0;
    uint32_t pid = (uint32_t)pid64, tid = (uint32_t)tid64;
    uint64_t key = tid, stack = ea_fields_u64_or_0(&m->now, ROLE_STACK_BASE);
    /* an idle thread; a restart makes the same key out of the row */
    uint16_t cpu = tid ? 0 : only_cpu(ea_fields_u64_or_0(&m->now, ROLE_AFFINITY), record->cpu);
    if (tid == 0)
        key = stack ? stack : cpu;
    uint32_t row = ea_table_find(&m->tables[THREADS], key, tid == 0);
    int rc, open = is_open(m, THREADS, row), same = row != ROW_NONE && thread_at(m, row)->t.pid == pid;
    name_row(m, record, THREADS, row, pid);
    if (same && begins_late(m, THREADS, row, utc_ns)) {
        complete_thread(m, row);
        return amend_begin(m, THREADS, row, utc_ns);
    }
    if (open && (plan->verb == VERB_START || !same)) {
        count(m, EA_COUNT_state_missed_ends);
        rc = close_row(m, THREADS, row, utc_ns, EA_FINISH_REPLACED);
        if (rc)
            return rc;
        open = same = 0;
    }
    if (open) {
        int grew = complete_thread(m, row);
        if (plan->verb == VERB_END)
            return close_row(m, THREADS, row, utc_ns, EA_FINISH_EVENT);
        return grew ? notify(m, THREADS, row) : 0;
    }
    if (plan->verb == VERB_END && same && amendable(m, THREADS, row)) {
        complete_thread(m, row);
        return amend_end(m, THREADS, row, utc_ns);
    }
    static const enum ea_begin CAUSES[] = {EA_BEGIN_EVENT, EA_BEGIN_END_ONLY, EA_BEGIN_RUNDOWN_START,
                                           EA_BEGIN_RUNDOWN_END};
    rc = open_row(m, THREADS, key, tid == 0, utc_ns, CAUSES[plan->verb], &row);
    if (rc)
        return rc;
    ea_thread_row *t = &thread_at(m, row)->t;
    t->pid = pid;
    t->tid = tid;
    t->process_instance = open_process_instance(m, pid);
    t->cpu = cpu;
    complete_thread(m, row);
    rc = link_sibling(m, THREADS, row);
    if (rc)
        return rc;
    if (plan->verb != VERB_END)
        return notify(m, THREADS, row);
    count(m, EA_COUNT_state_missed_starts);
    return close_row(m, THREADS, row, utc_ns, EA_FINISH_EVENT);
}

static int apply_thread_name(ea_machine *m) {
    uint64_t tid;
    if (!ea_fields_u64(&m->now, ROLE_TID, &tid) || tid == 0 || tid > UINT32_MAX)
        return 0;
    uint32_t row = ea_table_find(&m->tables[THREADS], tid, 0);
    if (!is_open(m, THREADS, row))
        return 0;
    ea_thread_row *t = &thread_at(m, row)->t;
    ea_fields_text(&m->now, ROLE_THREAD_NAME, &m->scratch);
    const char *old = t->name;
    t->name = take_text(m, m->scratch.data, m->scratch.len_bytes);
    ea_texts_release(&m->texts, old);
    return notify(m, THREADS, row);
}

/* The id that the records before this one, at the same time, gave for the image at hand. */
static int use_id(ea_machine *m, uint32_t row, int64_t utc_ns) {
    const ea_module *mod = &module_at(m, row)->m;
    if (m->id_count == 0 || m->ids_utc_ns != utc_ns)
        return 0;
    for (size_t i = 0; i < m->id_count; i++)
        if (m->ids[i].pid == mod->pid && m->ids[i].base == mod->base) {
            int grew = complete_module_by_id(m, row, &m->ids[i]);
            m->ids[i] = m->ids[--m->id_count];
            return grew;
        }
    return 0;
}

static int apply_module(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    const class_plan *plan = m->now.plan;
    uint64_t base, pid64 = record->pid, size = ea_fields_u64_or_0(&m->now, ROLE_SIZE); /* Image v0 has no pid */
    if (!ea_fields_u64(&m->now, ROLE_BASE, &base) ||
        (plan->slice[ROLE_PID] >= 0 && !ea_fields_u64(&m->now, ROLE_PID, &pid64)) || pid64 >= UINT32_MAX)
        return 0;
    uint32_t pid = (uint32_t)pid64, row = ea_table_find(&m->tables[MODULES], base, pid);
    int rc, open = is_open(m, MODULES, row);
    uint64_t have = row == ROW_NONE ? 0 : module_at(m, row)->m.size_bytes;
    int same = row != ROW_NONE && (!size || !have || size == have);
    name_row(m, record, MODULES, row, pid);
    if (same && begins_late(m, MODULES, row, utc_ns)) {
        complete_module(m, row);
        use_id(m, row, utc_ns);
        return amend_begin(m, MODULES, row, utc_ns);
    }
    if (open && (plan->verb == VERB_START || !same)) {
        count(m, EA_COUNT_state_missed_ends);
        rc = close_row(m, MODULES, row, utc_ns, EA_FINISH_REPLACED);
        if (rc)
            return rc;
        open = same = 0;
    }
    if (open) {
        int grew = complete_module(m, row);
        grew |= use_id(m, row, utc_ns);
        if (plan->verb == VERB_END)
            return close_row(m, MODULES, row, utc_ns, EA_FINISH_EVENT);
        return grew ? notify(m, MODULES, row) : 0;
    }
    if (plan->verb == VERB_END && same && amendable(m, MODULES, row)) {
        complete_module(m, row);
        use_id(m, row, utc_ns);
        return amend_end(m, MODULES, row, utc_ns);
    }
    static const enum ea_begin CAUSES[] = {EA_BEGIN_EVENT, EA_BEGIN_END_ONLY, EA_BEGIN_RUNDOWN_START,
                                           EA_BEGIN_RUNDOWN_END};
    rc = open_row(m, MODULES, base, pid, utc_ns, CAUSES[plan->verb], &row);
    if (rc)
        return rc;
    ea_module *mod = &module_at(m, row)->m;
    mod->pid = pid;
    mod->base = base;
    mod->process_instance = open_process_instance(m, pid);
    complete_module(m, row);
    use_id(m, row, utc_ns);
    rc = link_sibling(m, MODULES, row);
    if (rc)
        return rc;
    if (plan->verb != VERB_END)
        return notify(m, MODULES, row);
    count(m, EA_COUNT_state_missed_starts);
    return close_row(m, MODULES, row, utc_ns, EA_FINISH_EVENT);
}

/* An id without an image record at its own time: it tells about the module that is there, or was. */
static int settle_id(ea_machine *m, size_t index) {
    module_id id = m->ids[index];
    m->ids[index] = m->ids[--m->id_count];
    uint32_t row = ea_table_find(&m->tables[MODULES], id.base, id.pid);
    if (row != ROW_NONE)
        return complete_module_by_id(m, row, &id) ? notify(m, MODULES, row) : 0;
    ea_texts_release(&m->texts, id.pdb_path);
    ea_texts_release(&m->texts, id.original_name);
    return 0;
}

static int apply_module_id(ea_machine *m, int64_t utc_ns) {
    uint64_t base, pid;
    if (!ea_fields_u64(&m->now, ROLE_BASE, &base) || !ea_fields_u64(&m->now, ROLE_PID, &pid) || pid > UINT32_MAX)
        return 0;
    module_id *id = m->ids;
    while (id < m->ids + m->id_count && (id->base != base || id->pid != pid))
        id++;
    if (id == m->ids + m->id_count) {
        if (m->id_count == MODULE_IDS_MAX) {
            int rc = settle_id(m, 0);
            if (rc)
                return rc;
            id = m->ids + m->id_count;
        }
        *id = (module_id){.base = base, .pid = (uint32_t)pid, .pdb_path = "", .original_name = ""};
        m->id_count++;
        m->ids_utc_ns = utc_ns;
    }
    ea_guid guid;
    if (ea_fields_guid(&m->now, ROLE_PDB_GUID, &guid)) {
        if (id->has_pdb)
            return 0;
        id->has_pdb = 1;
        id->pdb_guid = guid;
        id->pdb_age = (uint32_t)ea_fields_u64_or_0(&m->now, ROLE_PDB_AGE);
        lacks_text(m, &id->pdb_path, ROLE_PDB_PATH);
    } else {
        lacks_u64(m, &id->size_bytes, ROLE_SIZE);
        lacks_u32(m, &id->timestamp, ROLE_TIMESTAMP);
        lacks_text(m, &id->original_name, ROLE_ORIGINAL_NAME);
    }
    return 0;
}

/* ---- keyframes ---- */

enum { DIFFERENCES_MAX_BYTES = 600 };

static void note_difference(ea_machine *m, enum which w, uint32_t row, const char *what) {
    ea_text *t = &m->differences;
    if (t->len_bytes > DIFFERENCES_MAX_BYTES)
        return;
    ea_text_printf(t, "%s%s ", t->len_bytes ? ", " : "", what);
    if (w == PROCESSES)
        ea_text_printf(t, "process %u", process_at(m, row)->p.pid);
    else if (w == THREADS)
        ea_text_printf(t, "thread %u of %u", thread_at(m, row)->t.tid, thread_at(m, row)->t.pid);
    else
        ea_text_printf(t, "module 0x%llx of %u", (unsigned long long)module_at(m, row)->m.base,
                       module_at(m, row)->m.pid);
}

/* The beginning that the keyframe has for the row at hand. It comes from outside: bounded by the keyframe's time. */
static ea_interval told_life(const ea_machine *m, int64_t utc_ns) {
    int64_t seen = (int64_t)ea_fields_u64_or_0(&m->now, ROLE_SEEN_TIME),
            began = (int64_t)ea_fields_u64_or_0(&m->now, ROLE_BEGIN_TIME);
    uint64_t cause = ea_fields_u64_or_0(&m->now, ROLE_BEGIN_CAUSE);
    seen = seen > utc_ns ? utc_ns : seen;
    return (ea_interval){.begin_utc_ns = began > seen ? seen : began,
                         .seen_utc_ns = seen,
                         .begin_cause = cause <= EA_BEGIN_END_ONLY ? (uint8_t)cause : EA_BEGIN_RUNDOWN_START};
}

static int complete(ea_machine *m, enum which w, uint32_t row) {
    if (w == PROCESSES)
        return complete_process(m, row);
    if (w == THREADS)
        return complete_thread(m, row);
    module_id id = {.pdb_path = "", .original_name = ""};
    int grew = complete_module(m, row);
    static const ea_guid NONE;
    if (ea_fields_guid(&m->now, ROLE_PDB_GUID, &id.pdb_guid) && !ea_guid_equal(&id.pdb_guid, &NONE)) {
        id.has_pdb = 1;
        id.pdb_age = (uint32_t)ea_fields_u64_or_0(&m->now, ROLE_PDB_AGE);
        lacks_text(m, &id.pdb_path, ROLE_PDB_PATH);
    }
    lacks_text(m, &id.original_name, ROLE_ORIGINAL_NAME);
    return grew | complete_module_by_id(m, row, &id);
}

/* The row is open here and named there: whether that is another instance. */
static int is_other(const ea_machine *m, enum which w, uint32_t row, uint32_t pid, const ea_interval *told) {
    const ea_interval *have = &row_at(m, w, row)->life;
    if (told->begin_cause == EA_BEGIN_EVENT &&
        (have->begin_cause == EA_BEGIN_EVENT ? told->begin_utc_ns != have->begin_utc_ns
                                             : told->begin_utc_ns > have->seen_utc_ns))
        return 1;
    if (w == THREADS)
        return thread_at(m, row)->t.pid != pid;
    uint64_t there = ea_fields_u64_or_0(&m->now, w == PROCESSES ? ROLE_UNIQUE_KEY : ROLE_SIZE);
    uint64_t here = w == PROCESSES ? process_at(m, row)->p.unique_key : module_at(m, row)->m.size_bytes;
    return there && here && there != here;
}

/* Opens what only the keyframe knows. */
static int add_told(ea_machine *m, enum which w, uint64_t key, uint32_t key2, uint32_t pid, uint16_t cpu,
                    int64_t utc_ns, const ea_interval *told, uint32_t *ret_row) {
    uint32_t row;
    int rc = open_row(m, w, key, key2, utc_ns, (enum ea_begin)told->begin_cause, &row);
    if (rc)
        return rc;
    ea_interval *life = &row_at(m, w, row)->life;
    life->begin_utc_ns = told->begin_utc_ns;
    life->seen_utc_ns = told->seen_utc_ns;
    if (w == PROCESSES) {
        process_at(m, row)->p.pid = pid;
    } else if (w == THREADS) {
        ea_thread_row *t = &thread_at(m, row)->t;
        t->pid = pid;
        t->tid = key2 ? 0 : (uint32_t)key;
        t->cpu = key2 ? cpu : 0;
        t->process_instance = open_process_instance(m, pid);
    } else {
        ea_module *mod = &module_at(m, row)->m;
        mod->pid = pid;
        mod->base = key;
        mod->process_instance = open_process_instance(m, pid);
    }
    complete(m, w, row);
    *ret_row = row;
    if (w != PROCESSES) {
        rc = link_sibling(m, w, row);
        return rc ? rc : notify(m, w, row);
    }
    ea_process *p = &process_at(m, row)->p;
    if (p->parent_pid != pid)
        p->parent_instance = open_process_instance(m, p->parent_pid);
    rc = notify(m, w, row);
    return rc ? rc : adopt_siblings(m, pid, p->life.instance);
}

static int apply_told(ea_machine *m, enum which w, const ea_record *record, int64_t utc_ns) {
    uint64_t pid64, key, stack = ea_fields_u64_or_0(&m->now, ROLE_STACK_BASE);
    uint32_t key2 = 0;
    if (!m->in_keyframe || !ea_fields_u64(&m->now, ROLE_PID, &pid64) || pid64 > UINT32_MAX)
        return 0;
    key = pid64;
    if (w == MODULES) {
        if (!ea_fields_u64(&m->now, ROLE_BASE, &key))
            return 0;
        key2 = (uint32_t)pid64;
    } else if (w == THREADS) {
        if (!ea_fields_u64(&m->now, ROLE_TID, &key) || key > UINT32_MAX)
            return 0;
        if (key == 0) {
            key = stack ? stack : record->cpu;
            key2 = 1;
        }
    }
    ea_interval told = told_life(m, utc_ns);
    uint32_t pid = (uint32_t)pid64, row = ea_table_find(&m->tables[w], key, key2);
    int rc = 0, open = is_open(m, w, row);
    if (open && is_other(m, w, row, pid, &told)) {
        count(m, EA_COUNT_state_keyframe_closed);
        m->compared.closed++;
        note_difference(m, w, row, "closed");
        rc = close_row(m, w, row, told.begin_cause == EA_BEGIN_EVENT ? told.begin_utc_ns : utc_ns, EA_FINISH_REPLACED);
        open = 0;
    }
    if (!rc && open) {
        ea_interval *life = &row_at(m, w, row)->life;
        int grew = complete(m, w, row);
        if (life->begin_cause != EA_BEGIN_EVENT && told.begin_cause == EA_BEGIN_EVENT) {
            life->begin_utc_ns = told.begin_utc_ns;
            life->seen_utc_ns = told.begin_utc_ns;
            life->begin_cause = EA_BEGIN_EVENT;
            grew = 1;
        }
        if (grew) {
            count(m, EA_COUNT_state_keyframe_completed);
            m->compared.completed++;
            note_difference(m, w, row, "completed");
            rc = notify(m, w, row);
        }
    } else if (!rc) {
        rc = add_told(m, w, key, key2, pid, record->cpu, utc_ns, &told, &row);
        if (!rc) {
            count(m, EA_COUNT_state_keyframe_added);
            m->compared.added++;
            note_difference(m, w, row, "added");
        }
    }
    if (rc)
        return rc;
    row_at(m, w, row)->head.keyframe = m->keyframe;
    m->compared.named++;
    return 0;
}

static int close_unnamed(ea_machine *m, int64_t utc_ns) {
    static const enum which ORDER[] = {MODULES, THREADS, PROCESSES};
    for (int i = 0; i < TABLE_COUNT; i++) {
        enum which w = ORDER[i];
        for (uint32_t row = m->tables[w].lists[LIST_OPEN].oldest, next; row != ROW_NONE; row = next) {
            next = row_at(m, w, row)->head.newer;
            if (row_at(m, w, row)->head.keyframe == m->keyframe)
                continue;
            count(m, EA_COUNT_state_keyframe_closed);
            m->compared.closed++;
            note_difference(m, w, row, "closed");
            int rc = close_row(m, w, row, utc_ns, EA_FINISH_KEYFRAME);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* Its beginning, or its end. */
static int apply_keyframe(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    if (record->opcode == EA_KEYFRAME_BEGIN) {
        m->in_keyframe = 1;
        if (++m->keyframe == 0)
            m->keyframe = 1; /* 0: no keyframe named it */
        m->compared = (ea_keyframe_result){.utc_ns = utc_ns};
        ea_text_clear(&m->differences);
        return 0;
    }
    if (!m->in_keyframe) { /* its beginning was lost, and we were somebody else then */
        count(m, EA_COUNT_state_keyframes_partial);
        return 0;
    }
    m->in_keyframe = 0;
    uint64_t told = ea_fields_u64_or_0(&m->now, ROLE_PROCESS_COUNT) + ea_fields_u64_or_0(&m->now, ROLE_THREAD_COUNT) +
                    ea_fields_u64_or_0(&m->now, ROLE_MODULE_COUNT);
    m->compared.whole = told == m->compared.named;
    count(m, m->compared.whole ? EA_COUNT_state_keyframes : EA_COUNT_state_keyframes_partial);
    int rc = m->compared.whole ? close_unnamed(m, utc_ns) : 0;
    m->compared.text = m->differences.len_bytes && !m->differences.failed ? m->differences.data : "";
    if (!rc && m->observer && m->observer->on_keyframe)
        rc = m->observer->on_keyframe(m->observer_arg, &m->compared);
    return rc;
}

int ea_machine_apply(ea_machine *m, const ea_record *record, const ea_class *c, int64_t utc_ns, ea_err *err) {
    if (m->begin_utc_ns == INT64_MIN)
        m->begin_utc_ns = utc_ns;
    if (!ea_machine_concerns(&c->provider, c->code))
        return 0;
    m->now.c = c;
    m->now.plan = ea_plans_get(&m->plans, c);
    if (!m->now.plan)
        return ea_fail(err, EA_ENOMEM, "fold a record into the state");
    if (m->now.plan->subject == SUBJECT_NONE)
        return 0;
    count(m, EA_COUNT_state_records);
    if (utc_ns < m->last_utc_ns)
        count(m, EA_COUNT_state_late);
    else
        m->last_utc_ns = utc_ns;
    int rc = 0;
    while (!rc && m->id_count && m->ids_utc_ns != utc_ns)
        rc = settle_id(m, 0);
    if (rc)
        return rc;
    size_t used;
    m->now.whole_count = ea_class_split(c, record->payload, record->payload_bytes, m->now.slices, &used);
    if (m->now.plan->verb == VERB_KEYFRAME) {
        static const enum which TABLES[] = {
            [SUBJECT_PROCESS] = PROCESSES, [SUBJECT_THREAD] = THREADS, [SUBJECT_MODULE] = MODULES};
        rc = m->now.plan->subject == SUBJECT_KEYFRAME ? apply_keyframe(m, record, utc_ns)
                                                      : apply_told(m, TABLES[m->now.plan->subject], record, utc_ns);
        if (rc == EA_ENOMEM || m->scratch.failed || m->differences.failed)
            return ea_fail(err, EA_ENOMEM, "fold a keyframe into the state");
        return rc;
    }
    switch (m->now.plan->subject) {
    case SUBJECT_PROCESS:
        rc = apply_process(m, record, utc_ns);
        break;
    case SUBJECT_THREAD:
        rc = apply_thread(m, record, utc_ns);
        break;
    case SUBJECT_THREAD_NAME:
        rc = apply_thread_name(m);
        break;
    case SUBJECT_MODULE:
        rc = apply_module(m, record, utc_ns);
        break;
    case SUBJECT_RUNDOWN_COMPLETE:
        rc = is_of_rundown(m, record) ? complete_rundown(m) : 0;
        break;
    case SUBJECT_LOSS:
        m->in_rundown = 0;
        break;
    default:
        rc = apply_module_id(m, utc_ns);
        break;
    }
    if (rc == EA_ENOMEM || m->scratch.failed)
        return ea_fail(err, EA_ENOMEM, "fold a record into the state");
    return rc;
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
    return take_text(m, s, strlen(s));
}

int ea_machine_restore_process(ea_machine *m, const ea_process *p) {
    uint32_t row;
    int rc = restore_row(m, PROCESSES, p->pid, 0, &p->life, &row);
    if (rc || row == ROW_NONE)
        return rc;
    ea_process *to = &process_at(m, row)->p;
    *to = *p;
    to->image_name = restore_text(m, p->image_name);
    to->command_line = restore_text(m, p->command_line);
    to->sid = restore_text(m, p->sid);
    to->package = restore_text(m, p->package);
    to->application = restore_text(m, p->application);
    return 0;
}

int ea_machine_restore_thread(ea_machine *m, const ea_thread_row *t) {
    uint64_t key = t->tid ? t->tid : t->stack_base ? t->stack_base : t->cpu;
    uint32_t row;
    int rc = restore_row(m, THREADS, key, t->tid == 0, &t->life, &row);
    if (rc || row == ROW_NONE)
        return rc;
    ea_thread_row *to = &thread_at(m, row)->t;
    *to = *t;
    to->name = restore_text(m, t->name);
    return is_open(m, THREADS, row) ? link_sibling(m, THREADS, row) : 0;
}

int ea_machine_restore_module(ea_machine *m, const ea_module *mod) {
    uint32_t row;
    int rc = restore_row(m, MODULES, mod->base, mod->pid, &mod->life, &row);
    if (rc || row == ROW_NONE)
        return rc;
    ea_module *to = &module_at(m, row)->m;
    *to = *mod;
    to->path = restore_text(m, mod->path);
    to->pdb_path = restore_text(m, mod->pdb_path);
    to->original_name = restore_text(m, mod->original_name);
    return is_open(m, MODULES, row) ? link_sibling(m, MODULES, row) : 0;
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
