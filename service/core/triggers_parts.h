/* What triggers have in memory and in their file. See triggers.h.
 *
 *     triggers.c        firing, and the thread
 *     triggers_file.c   the file
 *     triggers_send.c   which batches a window needs, and their way into the spool
 *
 * Called by: these files. Thread: as each field says. */
#ifndef EA_CORE_TRIGGERS_PARTS_H
#define EA_CORE_TRIGGERS_PARTS_H

#include "proto/base/platform.h"
#include "service/core/triggers.h"

#include <stdatomic.h>

enum {
    TRIGGER_WINDOWS_MAX = 256, /* that wait for their ends */
    TRIGGER_FIRED_MAX = 4096,  /* firings that limits may still count: of each trigger EA_LANG_TRIGGER_MOST */
    TRIGGER_NAME_BYTES = 64,
    TRIGGER_FILE_MAX = 16 << 20,
};

typedef struct trigger_fired {
    char program[TRIGGER_NAME_BYTES], trigger[TRIGGER_NAME_BYTES];
    int64_t utc_ns;
} trigger_fired;

typedef struct trigger_window {
    int64_t from_utc_ns, to_utc_ns;
    int64_t due_ns;       /* monotonic */
    uint64_t serial;      /* of a request; 0: a trigger's */
    uint64_t limit_bytes; /* of a request */
} trigger_window;

/* What was given out of one recording: by its name on disk. */
typedef struct trigger_sent {
    uint8_t recording[EA_STREAM_ID_BYTES];
    uint8_t stream[EA_STREAM_ID_BYTES]; /* under which its batches travel: of the same run, else random */
    ea_range_set numbers;               /* those that the recorder has no more, too */
    uint64_t count;                     /* numbers of the sent stream that were given out */
    uint64_t oldest;                    /* while it is looked at: in the recorder; 0: there is none */
} trigger_sent;

/* A part of a recording that is on its way into the spool: its i-th number is base + i there. */
typedef struct trigger_plan {
    uint8_t recording[EA_STREAM_ID_BYTES], stream[EA_STREAM_ID_BYTES];
    uint64_t base;
    ea_range_set numbers;
    ea_range_set done; /* in the spool */
    int is_open;       /* lock: its stream is, in the spool */
} trigger_plan;

struct ea_triggers {
    ea_triggers_options o;
    char *path;
    ea_mutex *lock;
    ea_cond *changed;
    ea_thread *thread;
    atomic_int stop;
    /* lock */
    trigger_fired *fired; /* from old to new */
    size_t fired_count, fired_capacity;
    trigger_window *windows;
    size_t window_count, window_capacity;
    int is_unsaved, is_finishing, is_finished;
    /* the thread's; lock, while others may look at them */
    trigger_plan *plans;
    size_t plan_count, plan_capacity;
    trigger_sent *sent;
    size_t sent_count, sent_capacity;
    uint64_t asked; /* the request whose window is planned, and not in the spool yet; 0: none */
    ea_triggers_outcome outcome;
    char warned[sizeof((ea_err){0}).message]; /* the last reason that was logged */
};

/* ---- triggers_file.c ---- */

/* Reads what an earlier process left; a file that is missing is none, and one that is damaged is logged and replaced.
 * Before the thread starts. EA_ENOMEM, EA_EIO. */
EA_MUST_CHECK int triggers_read(ea_triggers *t, ea_err *err);
/* Replaces the file. The thread's; takes the lock. */
EA_MUST_CHECK int triggers_save(ea_triggers *t, ea_err *err);

/* ---- triggers_send.c; the thread ---- */

/* Chooses what windows [0, count) need that was not sent yet, and makes plans of it; a request's window comes alone,
 * and *ret is its outcome. After an error (EA_ENOMEM, EA_EIO, EA_ECANCELED) there may be plans of a part. windows:
 * borrowed. */
EA_MUST_CHECK int triggers_plan(ea_triggers *t, const trigger_window *windows, size_t count, ea_triggers_outcome *ret,
                                ea_err *err);
/* Brings the plans into the spool. EA_ECANCELED after ea_triggers_stop: the plans stay. */
EA_MUST_CHECK int triggers_send(ea_triggers *t, ea_err *err);
void triggers_drop_plans(ea_triggers *t);
void triggers_drop_sent(ea_triggers *t);

#endif
