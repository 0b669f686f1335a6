/* Facts of a process that another provider's record has: label, elevation, logon session. They are joined to the
 * process at hand, or wait for it. The rules are in machine.h. See machine_parts.h. */
#include "proto/state/machine_parts.h"

#include <string.h>

/* Whether they are of this process. See machine.h. */
static int facts_are_of(const ea_process_facts *f, const ea_process *p) {
    static const int64_t SLACK_NS = 1000000000;
    if ((f->parent_pid && p->parent_pid && f->parent_pid != p->parent_pid) || p->life.end_utc_ns < f->created_utc_ns)
        return 0;
    if (p->life.begin_cause != EA_BEGIN_EVENT)
        return p->life.seen_utc_ns >= f->created_utc_ns || f->created_utc_ns - p->life.seen_utc_ns <= SLACK_NS;
    return p->life.begin_utc_ns >= f->created_utc_ns ? p->life.begin_utc_ns - f->created_utc_ns <= SLACK_NS
                                                     : f->created_utc_ns - p->life.begin_utc_ns <= SLACK_NS;
}

/* Takes the facts' text. */
static int give_facts(ea_machine *m, ea_process *p, const ea_process_facts *f) {
    int grew = 0;
    if (!p->elevation_type && f->elevation_type) {
        p->elevation_type = f->elevation_type;
        grew = 1;
    }
    if (!p->elevated && f->elevated) {
        p->elevated = f->elevated;
        grew = 1;
    }
    if (!p->logon_id && f->logon_id) {
        p->logon_id = f->logon_id;
        grew = 1;
    }
    if (!*p->mandatory_label && *f->mandatory_label) {
        p->mandatory_label = f->mandatory_label;
        grew = 1;
    } else {
        ea_string_pool_release(&m->texts, f->mandatory_label);
    }
    return grew;
}

static void drop_facts(ea_machine *m, size_t index) {
    memmove(&m->facts[index], &m->facts[index + 1], (--m->facts_count - index) * sizeof *m->facts);
}

int ea_machine_use_facts(ea_machine *m, uint32_t pid, int64_t utc_ns) {
    static const int64_t LATE_NS = (int64_t)60 * 1000000000;
    uint32_t row = ea_table_find(&m->tables[PROCESSES], pid, 0);
    int grew = 0;
    for (size_t i = 0; i < m->facts_count && row != ROW_NONE;) {
        const ea_process_facts *f = &m->facts[i];
        if (f->pid != pid) {
            i++;
            continue;
        }
        int64_t apart_ns = utc_ns > f->utc_ns ? utc_ns - f->utc_ns : f->utc_ns - utc_ns;
        if (apart_ns > LATE_NS) {
            ea_string_pool_release(&m->texts, f->mandatory_label);
            drop_facts(m, i);
        } else if (facts_are_of(f, &process_at(m, row)->p)) {
            grew |= give_facts(m, &process_at(m, row)->p, f);
            drop_facts(m, i);
        } else {
            i++;
        }
    }
    return grew ? ea_machine_notify(m, PROCESSES, row) : 0;
}

static int64_t from_filetime(uint64_t t) {
    static const uint64_t SECOND_1970 = 11644473600; /* since 1601 */
    uint64_t seconds = t / 10000000;
    if (seconds < SECOND_1970 || seconds - SECOND_1970 > INT64_MAX / 1000000000 - 1)
        return INT64_MIN;
    return (int64_t)((seconds - SECOND_1970) * 1000000000 + t % 10000000 * 100);
}

/* As a number, or "%%1936" for 1, as Security-Auditing has it. */
static uint32_t elevation_of(ea_machine *m) {
    static const char TYPES[] = "%%193";
    uint64_t v = ea_fields_u64_or_0(&m->now, ROLE_ELEVATION_TYPE);
    ea_fields_text(&m->now, ROLE_ELEVATION_TYPE, &m->scratch);
    if (m->scratch.len_bytes == sizeof TYPES && memcmp(m->scratch.data, TYPES, sizeof TYPES - 1) == 0)
        v = (uint64_t)(m->scratch.data[sizeof TYPES - 1] - '5');
    return v <= 3 ? (uint32_t)v : 0;
}

int ea_machine_apply_process_facts(ea_machine *m, int64_t utc_ns) {
    uint64_t pid, created;
    ea_process_facts f = {.utc_ns = utc_ns, .created_utc_ns = utc_ns, .mandatory_label = ""};
    if (!ea_fields_u64(&m->now, ROLE_PID, &pid) || pid > UINT32_MAX)
        return 0;
    f.pid = (uint32_t)pid;
    f.parent_pid = (uint32_t)ea_fields_u64_or_0(&m->now, ROLE_PARENT_PID);
    if (ea_fields_u64(&m->now, ROLE_CREATE_TIME, &created) && from_filetime(created) != INT64_MIN)
        f.created_utc_ns = from_filetime(created);
    f.elevation_type = elevation_of(m);
    uint64_t elevated;
    if (ea_fields_u64(&m->now, ROLE_ELEVATED, &elevated))
        f.elevated = elevated ? 2 : 1;
    else if (f.elevation_type > 1) /* of a type 1, a user without another token, nothing is known */
        f.elevated = f.elevation_type == 2 ? 2 : 1;
    if (m->now.plan->slice[ROLE_LOGON_ID] >= 0 && !ea_machine_lacks_u64(m, &f.logon_id, ROLE_LOGON_ID))
        ea_machine_lacks_u64(m, &f.logon_id, ROLE_CREATOR_LOGON_ID);
    ea_machine_lacks_text(m, &f.mandatory_label, ROLE_MANDATORY_LABEL);
    if (!f.elevation_type && !f.logon_id && !*f.mandatory_label)
        return 0; /* an older version of the class */
    if (m->facts_count == PROCESS_FACTS_MAX) {
        ea_string_pool_release(&m->texts, m->facts[0].mandatory_label);
        drop_facts(m, 0);
    }
    m->facts[m->facts_count++] = f;
    return ea_machine_use_facts(m, f.pid, utc_ns);
}
