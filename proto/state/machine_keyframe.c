/* The fold of keyframes: what the machine that wrote one knows is compared with what is known here. See
 * machine_parts.h. */
#include "proto/state/machine_parts.h"

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
static ea_interval stated_life(const ea_machine *m, int64_t utc_ns) {
    int64_t seen = (int64_t)ea_fields_u64_or_0(&m->now, ROLE_SEEN_TIME),
            began = (int64_t)ea_fields_u64_or_0(&m->now, ROLE_BEGIN_TIME);
    uint64_t cause = ea_fields_u64_or_0(&m->now, ROLE_BEGIN_CAUSE);
    seen = seen > utc_ns ? utc_ns : seen;
    return (ea_interval){.begin_utc_ns = began > seen ? seen : began,
                         .seen_utc_ns = seen,
                         .begin_cause = cause <= EA_BEGIN_END_ONLY ? (uint8_t)cause : EA_BEGIN_RUNDOWN_START};
}

/* The row is open here and named there: whether that is another instance. */
static int is_other(const ea_machine *m, enum which w, uint32_t row, uint32_t pid, const ea_interval *stated) {
    const ea_interval *have = &row_at(m, w, row)->life;
    if (stated->begin_cause == EA_BEGIN_EVENT &&
        (have->begin_cause == EA_BEGIN_EVENT ? stated->begin_utc_ns != have->begin_utc_ns
                                             : stated->begin_utc_ns > have->seen_utc_ns))
        return 1;
    if (w == THREADS)
        return thread_at(m, row)->t.pid != pid;
    uint64_t there = ea_fields_u64_or_0(&m->now, w == PROCESSES ? ROLE_UNIQUE_KEY : ROLE_SIZE);
    uint64_t here = w == PROCESSES ? process_at(m, row)->p.unique_key : module_at(m, row)->m.size_bytes;
    return there && here && there != here;
}

/* Opens what only the keyframe knows. */
static int add_stated(ea_machine *m, enum which w, uint64_t key, uint32_t key2, uint32_t pid, uint16_t cpu,
                      int64_t utc_ns, const ea_interval *stated, uint32_t *ret_row) {
    uint32_t row;
    int rc = ea_machine_open_row(m, w, key, key2, utc_ns, (enum ea_begin)stated->begin_cause, &row);
    if (rc)
        return rc;
    ea_interval *life = &row_at(m, w, row)->life;
    life->begin_utc_ns = stated->begin_utc_ns;
    life->seen_utc_ns = stated->seen_utc_ns;
    if (w == PROCESSES) {
        process_at(m, row)->p.pid = pid;
    } else if (w == THREADS) {
        ea_thread_row *t = &thread_at(m, row)->t;
        t->pid = pid;
        t->tid = key2 ? 0 : (uint32_t)key;
        t->cpu = key2 ? cpu : 0;
        t->process_instance = ea_machine_open_instance(m, pid);
    } else {
        ea_module *mod = &module_at(m, row)->m;
        mod->pid = pid;
        mod->base = key;
        mod->process_instance = ea_machine_open_instance(m, pid);
    }
    ea_machine_complete(m, w, row);
    *ret_row = row;
    if (w != PROCESSES) {
        rc = ea_machine_link_sibling(m, w, row);
        return rc ? rc : ea_machine_notify(m, w, row);
    }
    ea_process *p = &process_at(m, row)->p;
    if (p->parent_pid != pid)
        p->parent_instance = ea_machine_open_instance(m, p->parent_pid);
    rc = ea_machine_notify(m, w, row);
    return rc ? rc : ea_machine_adopt_siblings(m, pid, p->life.instance);
}

static int apply_stated(ea_machine *m, enum which w, const ea_record *record, int64_t utc_ns) {
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
    ea_interval stated = stated_life(m, utc_ns);
    uint32_t pid = (uint32_t)pid64, row = ea_table_find(&m->tables[w], key, key2);
    int rc = 0, open = is_open(m, w, row);
    if (open && is_other(m, w, row, pid, &stated)) {
        ea_machine_count(m, EA_COUNT_state_keyframe_closed);
        m->compared.closed++;
        note_difference(m, w, row, "closed");
        rc = ea_machine_close_row(m, w, row, stated.begin_cause == EA_BEGIN_EVENT ? stated.begin_utc_ns : utc_ns,
                                  EA_FINISH_REPLACED);
        open = 0;
    }
    if (!rc && open) {
        ea_interval *life = &row_at(m, w, row)->life;
        int grew = ea_machine_complete(m, w, row);
        if (life->begin_cause != EA_BEGIN_EVENT && stated.begin_cause == EA_BEGIN_EVENT) {
            life->begin_utc_ns = stated.begin_utc_ns;
            life->seen_utc_ns = stated.begin_utc_ns;
            life->begin_cause = EA_BEGIN_EVENT;
            grew = 1;
        }
        if (grew) {
            ea_machine_count(m, EA_COUNT_state_keyframe_completed);
            m->compared.completed++;
            note_difference(m, w, row, "completed");
            rc = ea_machine_notify(m, w, row);
        }
    } else if (!rc) {
        rc = add_stated(m, w, key, key2, pid, record->cpu, utc_ns, &stated, &row);
        if (!rc) {
            ea_machine_count(m, EA_COUNT_state_keyframe_added);
            m->compared.added++;
            note_difference(m, w, row, "added");
        }
    }
    if (rc)
        return rc;
    row_at(m, w, row)->head.keyframe = m->keyframe;
    m->compared.named++;
    return w == PROCESSES && m->facts_count ? ea_machine_use_facts(m, pid, utc_ns) : 0;
}

static int close_unnamed(ea_machine *m, int64_t utc_ns) {
    static const enum which ORDER[] = {MODULES, THREADS, PROCESSES};

    for (int i = 0; i < TABLE_COUNT; i++) {
        enum which w = ORDER[i];
        for (uint32_t row = m->tables[w].lists[LIST_OPEN].oldest, next; row != ROW_NONE; row = next) {
            next = row_at(m, w, row)->head.newer;
            if (row_at(m, w, row)->head.keyframe == m->keyframe)
                continue;
            ea_machine_count(m, EA_COUNT_state_keyframe_closed);
            m->compared.closed++;
            note_difference(m, w, row, "closed");
            int rc = ea_machine_close_row(m, w, row, utc_ns, EA_FINISH_KEYFRAME);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* Its beginning, or its end. */
static int apply_bounds(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    if (record->opcode == EA_KEYFRAME_BEGIN) {
        m->in_keyframe = 1;
        if (++m->keyframe == 0)
            m->keyframe = 1; /* 0: no keyframe named it */
        m->compared = (ea_keyframe_result){.utc_ns = utc_ns};
        ea_text_clear(&m->differences);
        return 0;
    }
    if (!m->in_keyframe) { /* the Begin record was not applied to this machine: it was lost, or the machine was restored
                            * after it */
        ea_machine_count(m, EA_COUNT_state_keyframes_partial);
        return 0;
    }
    m->in_keyframe = 0;
    uint64_t stated = ea_fields_u64_or_0(&m->now, ROLE_PROCESS_COUNT) + ea_fields_u64_or_0(&m->now, ROLE_THREAD_COUNT) +
                      ea_fields_u64_or_0(&m->now, ROLE_MODULE_COUNT);
    m->compared.whole = stated == m->compared.named;
    ea_machine_count(m, m->compared.whole ? EA_COUNT_state_keyframes : EA_COUNT_state_keyframes_partial);
    int rc = m->compared.whole ? close_unnamed(m, utc_ns) : 0;
    m->compared.text = m->differences.len_bytes && !m->differences.failed ? m->differences.data : "";
    if (!rc && m->observer && m->observer->on_keyframe)
        rc = m->observer->on_keyframe(m->observer_arg, &m->compared);
    return rc;
}

int ea_machine_apply_keyframe(ea_machine *m, const ea_record *record, int64_t utc_ns) {
    static const enum which TABLES[] = {
        [SUBJECT_PROCESS] = PROCESSES, [SUBJECT_THREAD] = THREADS, [SUBJECT_MODULE] = MODULES};

    return m->now.plan->subject == SUBJECT_KEYFRAME ? apply_bounds(m, record, utc_ns)
                                                    : apply_stated(m, TABLES[m->now.plan->subject], record, utc_ns);
}
