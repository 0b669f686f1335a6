/* Inside proto/state: what the parts of a machine's fold share. machine.c has the rules, machine_tables.c opens,
 * completes and closes rows, machine_keyframe.c compares with keyframes. See machine.h. Thread: the machine's. */
#ifndef EA_STATE_MACHINE_PARTS_H
#define EA_STATE_MACHINE_PARTS_H

#include "proto/state/fields.h"
#include "proto/state/keyframe.h"
#include "proto/state/machine.h"
#include "proto/state/string_pool.h"
#include "proto/state/table.h"

#include <stddef.h>

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

_Static_assert(!offsetof(ea_process, life) && !offsetof(ea_thread_row, life) && !offsetof(ea_module, life),
               "offsets of machine_columns.h count from the interval");
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

enum { MODULE_IDS_MAX = 64, PROCESS_FACTS_MAX = 64 };

enum { LISTED_MAX = 16 };

/* Some columns of a table: where each is in the row with its head, and what completes it. */
typedef struct column_list {
    size_t count;

    struct listed_column {
        uint16_t offset;
        uint8_t kind, role;
    } items[LISTED_MAX];
} column_list;

enum { MODULE_CHANGES = 1024 };

struct ea_machine {
    table tables[TABLE_COUNT];
    column_list texts_of[TABLE_COUNT], completed_of[TABLE_COUNT]; /* columns with a text, with a role */
    size_t limits[TABLE_COUNT], limit_ended;
    int64_t forgotten_utc_ns[TABLE_COUNT];   /* latest end among the ended rows that were forgotten */
    ea_u64_map siblings;                     /* pid -> first open thread (low half) and module (high half) */
    uint64_t module_changes[MODULE_CHANGES]; /* by pid: modules that were opened, completed or closed */
    ea_string_pool texts;
    plans plans;
    fields now; /* the record at hand */
    ea_text scratch;
    module_id ids[MODULE_IDS_MAX];
    size_t id_count;
    int64_t ids_utc_ns;
    ea_process_facts facts[PROCESS_FACTS_MAX]; /* that wait, the oldest first */
    size_t facts_count;
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

static inline any_row *row_at(const ea_machine *m, enum which w, uint32_t row) {
    return ea_table_row(&m->tables[w], row);
}

static inline process_row *process_at(const ea_machine *m, uint32_t row) {
    return ea_table_row(&m->tables[PROCESSES], row);
}

static inline thread_row *thread_at(const ea_machine *m, uint32_t row) {
    return ea_table_row(&m->tables[THREADS], row);
}

static inline module_row *module_at(const ea_machine *m, uint32_t row) {
    return ea_table_row(&m->tables[MODULES], row);
}

static inline int is_open(const ea_machine *m, enum which w, uint32_t row) {
    return row != ROW_NONE && row_at(m, w, row)->head.list == LIST_OPEN;
}

static inline void ea_machine_count(ea_machine *m, enum ea_counter which) {
    if (m->counters)
        ea_count(m->counters, which, 1);
}

static inline int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- machine_tables.c ---- */

/* Calls the observer for a row, and returns what the observer returned. */
EA_MUST_CHECK int ea_machine_notify(ea_machine *m, enum which w, uint32_t row);
/* A string of the machine's; "" when it found no room, which is counted. */
const char *ea_machine_take_text(ea_machine *m, const char *s, size_t len_bytes);
/* An open thread or module among those of its pid: 0 or EA_ENOMEM. */
EA_MUST_CHECK int ea_machine_link_sibling(ea_machine *m, enum which w, uint32_t row);

/* Ends an open row and notifies the observer. The end of a process also ends its threads and modules, unless the
 * process was merely evicted. */
EA_MUST_CHECK int ea_machine_close_row(ea_machine *m, enum which w, uint32_t row, int64_t utc_ns, enum ea_finish cause);
/* Ends the threads and modules of a pid that began before a time. */
EA_MUST_CHECK int ea_machine_end_siblings(ea_machine *m, uint32_t pid, int64_t began_before, int64_t utc_ns);
/* Gives a process the threads and modules that were seen before it. */
EA_MUST_CHECK int ea_machine_adopt_siblings(ea_machine *m, uint32_t pid, uint64_t instance);
/* The instance of the process that is open under a pid; 0: none. */
uint64_t ea_machine_open_instance(const ea_machine *m, uint32_t pid);
/* A new instance of a key that is not open; the caller fills it in, links it and notifies the observer. */
EA_MUST_CHECK int ea_machine_open_row(ea_machine *m, enum which w, uint64_t key, uint32_t key2, int64_t utc_ns,
                                      enum ea_begin cause, uint32_t *ret_row);

/* Completing from the record at hand: a value that is there stays; 1 when something was added. */
int ea_machine_lacks_u64(ea_machine *m, uint64_t *slot, enum role role);
int ea_machine_lacks_u32(ea_machine *m, uint32_t *slot, enum role role);
int ea_machine_lacks_text(ea_machine *m, const char **slot, enum role role);
/* The columns of a row (machine_columns.h) that have a role. */
int ea_machine_complete_row(ea_machine *m, enum which w, uint32_t row);
/* Takes the id's texts. */
int ea_machine_complete_module_by_id(ea_machine *m, uint32_t row, const module_id *id);

/* All that the record at hand says of a row of that table, a module's PDB included. */
int ea_machine_complete(ea_machine *m, enum which w, uint32_t row);

/* ---- process_facts.c ---- */

/* The record at hand, which has facts of a process. */
EA_MUST_CHECK int ea_machine_apply_process_facts(ea_machine *m, int64_t utc_ns);
/* Facts that waited, if there are any for the process that is open, or was last, under the pid. */
EA_MUST_CHECK int ea_machine_use_facts(ea_machine *m, uint32_t pid, int64_t utc_ns);

/* ---- machine_keyframe.c ---- */

/* A record of a keyframe, the one at hand. */
EA_MUST_CHECK int ea_machine_apply_keyframe(ea_machine *m, const ea_record *record, int64_t utc_ns);

#endif
