/* The fold: records change three tables. The rules are in machine.h; this file has a function for each subject. Calls:
 * machine_tables.c, which opens, completes and closes. */
#include "proto/state/machine_parts.h"

/* ---- rundowns ---- */

static int machine_is_of_rundown(const ea_machine *m, const ea_record *record) {
    return m->in_rundown && record->logger == m->rundown_logger && record->source == m->rundown_source;
}

static void machine_begin_rundown(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    if (++m->rundown == 0)
        m->rundown = 1; /* 0: none named it */
    m->in_rundown = 1;
    m->rundown_logger = record->logger;
    m->rundown_source = record->source;
    m->rundown_utc_ns = utc_ns;
}

/* The record at hand is of a rundown's and names the row, which may be ROW_NONE. */
static void name_row(ea_machine *m, const ea_record *record, enum which w, uint32_t row, uint32_t pid) {
    if (m->now.plan->verb != VERB_RUNDOWN_START || m->now.plan->is_announced || !machine_is_of_rundown(m, record))
        return;
    if (row != ROW_NONE)
        row_at(m, w, row)->head.rundown = m->rundown;
    uint32_t process = ea_table_find(&m->tables[PROCESSES], pid, 0);
    if (w != PROCESSES && process != ROW_NONE)
        process_at(m, process)->rundown_of[w] = m->rundown;
}

/* Whether the rundown would have named the row if it were there. */
static int machine_is_absent(const ea_machine *m, enum which w, uint32_t row) {
    const any_row *r = row_at(m, w, row);
    if (r->head.rundown == m->rundown || r->life.seen_utc_ns >= m->rundown_utc_ns)
        return 0;
    if (w == PROCESSES)
        return 1;
    if (w == MODULES && module_at(m, row)->m.kind == EA_MODULE_ANNOUNCED)
        return 0; /* the kernel does not know it */
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
            if (!machine_is_absent(m, w, row))
                continue;
            ea_machine_count(m, EA_COUNT_state_rundown_closed);
            int rc = ea_machine_close_row(m, w, row, m->rundown_utc_ns, EA_FINISH_RUNDOWN);
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
    return ea_machine_notify(m, w, row);
}

/* A Start record that comes later than younger records of its own instance, which buffers of two processors may cause:
 * the instance exists, its beginning is unknown, and all that is known of it is younger than the Start record. */
static int begins_late(const ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    const ea_interval *life = &row_at(m, w, row)->life;
    return m->now.plan->verb == VERB_START && life->begin_cause != EA_BEGIN_EVENT && utc_ns < life->seen_utc_ns;
}

/* The row is completed by the caller. */
static int amend_begin(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    ea_interval *life = &row_at(m, w, row)->life;
    life->begin_utc_ns = life->seen_utc_ns = utc_ns;
    life->begin_cause = EA_BEGIN_EVENT;
    return ea_machine_notify(m, w, row);
}

/* A rundown's record that comes after the end of the instance that it names. When the end is a minute or more later
 * than the record, the cause is a step of the wall clock: buffers and second sessions are not that late. */
static int is_over(const ea_machine *m, enum which w, uint32_t row, int64_t utc_ns) {
    static const int64_t LATE_NS = (int64_t)60 * 1000000000;
    if (row == ROW_NONE || is_open(m, w, row) ||
        (m->now.plan->verb != VERB_RUNDOWN_START && m->now.plan->verb != VERB_RUNDOWN_END))
        return 0;
    int64_t end_utc_ns = row_at(m, w, row)->life.end_utc_ns;
    return utc_ns < end_utc_ns && end_utc_ns - utc_ns < LATE_NS;
}

/* The thread or module at hand was just opened; its process has ended since, and it with that. */
static int end_with_process(ea_machine *m, enum which w, uint32_t row, uint32_t process) {
    const ea_interval life = process_at(m, process)->p.life;
    if (w == THREADS)
        thread_at(m, row)->t.process_instance = life.instance;
    else
        module_at(m, row)->m.process_instance = life.instance;
    return ea_machine_close_row(m, w, row, life.end_utc_ns, EA_FINISH_PROCESS_END);
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
        machine_begin_rundown(m, record, utc_ns);
    name_row(m, record, PROCESSES, row, pid);
    if (same && begins_late(m, PROCESSES, row, utc_ns)) {
        ea_machine_complete_row(m, PROCESSES, row);
        return amend_begin(m, PROCESSES, row, utc_ns);
    }
    if (is_over(m, PROCESSES, row, utc_ns))
        return same && ea_machine_complete_row(m, PROCESSES, row) ? ea_machine_notify(m, PROCESSES, row) : 0;
    if (open && (plan->verb == VERB_START || !same)) {
        ea_machine_count(m, EA_COUNT_state_missed_ends);
        rc = ea_machine_close_row(m, PROCESSES, row, utc_ns, EA_FINISH_REPLACED);
        open = same = 0;
    } else if (!open && plan->verb == VERB_START) {
        rc = ea_machine_end_siblings(m, pid, utc_ns, utc_ns);
    }
    if (rc)
        return rc;
    int32_t exit_status = (int32_t)(uint32_t)ea_fields_u64_or_0(&m->now, ROLE_EXIT_STATUS);
    if (open) {
        int grew = ea_machine_complete_row(m, PROCESSES, row);
        if (plan->verb != VERB_END)
            return grew ? ea_machine_notify(m, PROCESSES, row) : 0;
        process_at(m, row)->p.exit_status = exit_status;
        return ea_machine_close_row(m, PROCESSES, row, utc_ns, EA_FINISH_EVENT);
    }
    if (plan->verb == VERB_END && same && amendable(m, PROCESSES, row)) {
        ea_machine_complete_row(m, PROCESSES, row);
        process_at(m, row)->p.exit_status = exit_status;
        return amend_end(m, PROCESSES, row, utc_ns);
    }

    static const enum ea_begin CAUSES[] = {EA_BEGIN_EVENT, EA_BEGIN_END_ONLY, EA_BEGIN_RUNDOWN_START,
                                           EA_BEGIN_RUNDOWN_END};

    rc = ea_machine_open_row(m, PROCESSES, pid, 0, utc_ns, CAUSES[plan->verb], &row);
    if (rc)
        return rc;
    ea_process *p = &process_at(m, row)->p;
    p->pid = pid;
    ea_machine_complete_row(m, PROCESSES, row);
    if (p->parent_pid != pid)
        p->parent_instance = ea_machine_open_instance(m, p->parent_pid);
    if (plan->verb == VERB_END) {
        ea_machine_count(m, EA_COUNT_state_missed_starts);
        p->exit_status = exit_status;
        rc = ea_machine_adopt_siblings(m, pid, p->life.instance);
        return rc ? rc : ea_machine_close_row(m, PROCESSES, row, utc_ns, EA_FINISH_EVENT);
    }
    rc = ea_machine_notify(m, PROCESSES, row);
    return rc ? rc : ea_machine_adopt_siblings(m, pid, p->life.instance);
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
        ea_machine_complete_row(m, THREADS, row);
        return amend_begin(m, THREADS, row, utc_ns);
    }
    if (is_over(m, THREADS, row, utc_ns))
        return same && ea_machine_complete_row(m, THREADS, row) ? ea_machine_notify(m, THREADS, row) : 0;
    if (open && (plan->verb == VERB_START || !same)) {
        ea_machine_count(m, EA_COUNT_state_missed_ends);
        rc = ea_machine_close_row(m, THREADS, row, utc_ns, EA_FINISH_REPLACED);
        if (rc)
            return rc;
        open = same = 0;
    }
    if (open) {
        int grew = ea_machine_complete_row(m, THREADS, row);
        if (plan->verb == VERB_END)
            return ea_machine_close_row(m, THREADS, row, utc_ns, EA_FINISH_EVENT);
        return grew ? ea_machine_notify(m, THREADS, row) : 0;
    }
    if (plan->verb == VERB_END && same && amendable(m, THREADS, row)) {
        ea_machine_complete_row(m, THREADS, row);
        return amend_end(m, THREADS, row, utc_ns);
    }

    static const enum ea_begin CAUSES[] = {EA_BEGIN_EVENT, EA_BEGIN_END_ONLY, EA_BEGIN_RUNDOWN_START,
                                           EA_BEGIN_RUNDOWN_END};

    rc = ea_machine_open_row(m, THREADS, key, tid == 0, utc_ns, CAUSES[plan->verb], &row);
    if (rc)
        return rc;
    ea_thread_row *t = &thread_at(m, row)->t;
    t->pid = pid;
    t->tid = tid;
    uint32_t process = ea_table_find(&m->tables[PROCESSES], pid, 0);
    t->process_instance = is_open(m, PROCESSES, process) ? process_at(m, process)->p.life.instance : 0;
    t->cpu = cpu;
    ea_machine_complete_row(m, THREADS, row);
    rc = ea_machine_link_sibling(m, THREADS, row);
    if (rc)
        return rc;
    if (is_over(m, PROCESSES, process, utc_ns))
        return end_with_process(m, THREADS, row, process);
    if (plan->verb != VERB_END)
        return ea_machine_notify(m, THREADS, row);
    ea_machine_count(m, EA_COUNT_state_missed_starts);
    return ea_machine_close_row(m, THREADS, row, utc_ns, EA_FINISH_EVENT);
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
    t->name = ea_machine_take_text(m, m->scratch.data, m->scratch.len_bytes);
    ea_string_pool_release(&m->texts, old);
    return ea_machine_notify(m, THREADS, row);
}

/* The id that the records before this one, at the same time, gave for the image at hand. */
static int use_id(ea_machine *m, uint32_t row, int64_t utc_ns) {
    const ea_module *mod = &module_at(m, row)->m;
    if (m->id_count == 0 || m->ids_utc_ns != utc_ns)
        return 0;
    for (size_t i = 0; i < m->id_count; i++)
        if (m->ids[i].pid == mod->pid && m->ids[i].base == mod->base) {
            int grew = ea_machine_complete_module_by_id(m, row, &m->ids[i]);
            m->ids[i] = m->ids[--m->id_count];
            return grew;
        }
    return 0;
}

/* All that the record at hand says of a module. Only an announcement has the PDB in itself. */
static int complete_module(ea_machine *m, uint32_t row) {
    return m->now.plan->is_announced ? ea_machine_complete(m, MODULES, row) : ea_machine_complete_row(m, MODULES, row);
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
    if (is_over(m, MODULES, row, utc_ns))
        return same && (complete_module(m, row) | use_id(m, row, utc_ns)) ? ea_machine_notify(m, MODULES, row) : 0;
    if (open && (plan->verb == VERB_START || !same)) {
        ea_machine_count(m, EA_COUNT_state_missed_ends);
        rc = ea_machine_close_row(m, MODULES, row, utc_ns, EA_FINISH_REPLACED);
        if (rc)
            return rc;
        open = same = 0;
    }
    if (open) {
        int grew = complete_module(m, row);
        grew |= use_id(m, row, utc_ns);
        if (plan->verb == VERB_END)
            return ea_machine_close_row(m, MODULES, row, utc_ns, EA_FINISH_EVENT);
        return grew ? ea_machine_notify(m, MODULES, row) : 0;
    }
    if (plan->verb == VERB_END && same && amendable(m, MODULES, row)) {
        complete_module(m, row);
        use_id(m, row, utc_ns);
        return amend_end(m, MODULES, row, utc_ns);
    }

    static const enum ea_begin CAUSES[] = {EA_BEGIN_EVENT, EA_BEGIN_END_ONLY, EA_BEGIN_RUNDOWN_START,
                                           EA_BEGIN_RUNDOWN_END};

    rc = ea_machine_open_row(m, MODULES, base, pid, utc_ns, CAUSES[plan->verb], &row);
    if (rc)
        return rc;
    ea_module *mod = &module_at(m, row)->m;
    mod->pid = pid;
    mod->base = base;
    mod->kind = plan->is_announced ? EA_MODULE_ANNOUNCED : EA_MODULE_IMAGE;
    uint32_t process = ea_table_find(&m->tables[PROCESSES], pid, 0);
    mod->process_instance = is_open(m, PROCESSES, process) ? process_at(m, process)->p.life.instance : 0;
    complete_module(m, row);
    use_id(m, row, utc_ns);
    rc = ea_machine_link_sibling(m, MODULES, row);
    if (rc)
        return rc;
    if (is_over(m, PROCESSES, process, utc_ns))
        return end_with_process(m, MODULES, row, process);
    if (plan->verb != VERB_END)
        return ea_machine_notify(m, MODULES, row);
    ea_machine_count(m, EA_COUNT_state_missed_starts);
    return ea_machine_close_row(m, MODULES, row, utc_ns, EA_FINISH_EVENT);
}

/* Applies an id without an image record at its own time to the open module of its key, or else to the last one. */
static int settle_id(ea_machine *m, size_t index) {
    module_id id = m->ids[index];
    m->ids[index] = m->ids[--m->id_count];
    uint32_t row = ea_table_find(&m->tables[MODULES], id.base, id.pid);
    if (row != ROW_NONE)
        return ea_machine_complete_module_by_id(m, row, &id) ? ea_machine_notify(m, MODULES, row) : 0;
    ea_string_pool_release(&m->texts, id.pdb_path);
    ea_string_pool_release(&m->texts, id.original_name);
    return 0;
}

int ea_machine_settle_ids(ea_machine *m, int64_t utc_ns) {
    int rc = 0;
    while (!rc && m->id_count && m->ids_utc_ns != utc_ns)
        rc = settle_id(m, 0);
    return rc;
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
        ea_machine_lacks_text(m, &id->pdb_path, ROLE_PDB_PATH);
    } else {
        ea_machine_lacks_u64(m, &id->size_bytes, ROLE_SIZE);
        ea_machine_lacks_u32(m, &id->timestamp, ROLE_TIMESTAMP);
        ea_machine_lacks_text(m, &id->original_name, ROLE_ORIGINAL_NAME);
    }
    return 0;
}

/* What the image's file says: of the module that has its path now, or had it last. */
static int apply_module_facts(ea_machine *m) {
    uint64_t base, pid;
    if (!ea_fields_u64(&m->now, ROLE_BASE, &base) || !ea_fields_u64(&m->now, ROLE_PID, &pid) || pid > UINT32_MAX)
        return 0;
    uint32_t row = ea_table_find(&m->tables[MODULES], base, (uint32_t)pid);
    if (row == ROW_NONE)
        return 0;
    ea_fields_text(&m->now, ROLE_PATH, &m->scratch);
    int is_it = strcmp(m->scratch.len_bytes ? m->scratch.data : "", module_at(m, row)->m.path) == 0;
    return is_it && ea_machine_complete(m, MODULES, row) ? ea_machine_notify(m, MODULES, row) : 0;
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
    ea_machine_count(m, EA_COUNT_state_records);
    if (utc_ns < m->last_utc_ns)
        ea_machine_count(m, EA_COUNT_state_late);
    else
        m->last_utc_ns = utc_ns;
    int rc = ea_machine_settle_ids(m, utc_ns);
    if (rc)
        return rc;
    size_t used;
    m->now.whole_count = ea_class_split(c, record->payload, record->payload_bytes, m->now.slices, &used);
    if (m->now.plan->verb == VERB_KEYFRAME) {
        rc = ea_machine_apply_keyframe(m, record, utc_ns);
        if (rc == EA_ENOMEM || m->scratch.failed || m->differences.failed)
            return ea_fail(err, EA_ENOMEM, "fold a keyframe into the state");
        return rc;
    }
    switch (m->now.plan->subject) {
    case SUBJECT_PROCESS:
        rc = apply_process(m, record, utc_ns);
        if (!rc && m->facts_count)
            rc = ea_machine_use_facts(m, (uint32_t)ea_fields_u64_or_0(&m->now, ROLE_PID), utc_ns);
        break;
    case SUBJECT_PROCESS_FACTS:
        rc = ea_machine_apply_process_facts(m, utc_ns);
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
    case SUBJECT_MODULE_FACTS:
        rc = apply_module_facts(m);
        break;
    case SUBJECT_RUNDOWN_COMPLETE:
        rc = machine_is_of_rundown(m, record) ? complete_rundown(m) : 0;
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
