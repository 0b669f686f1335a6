/* A pipeline's memory, and what its files call of each other. See pipeline.h.
 *
 *     pipeline.c          a record's way, and what follows the last one
 *     pipeline_ledger.c   which numbers of the ledger travel with a batch
 *     pipeline_open.c     making and freeing
 *     pipeline_control.c  what others say while it works; renewal of its stream
 *
 * Called by: these files. Thread: as each field and function says. */
#ifndef EA_CORE_PIPELINE_PARTS_H
#define EA_CORE_PIPELINE_PARTS_H

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/state/keyframe.h"
#include "service/core/pipeline.h"
#include "service/decode/decoder.h"
#include "service/decode/stack_meter.h"

#include <stdatomic.h>

/* A closed batch on its way to an encoder. */
typedef struct ea_pipeline_job {
    ea_open_batch *batch; /* NULL: none, only the ledger */
    uint64_t number;
    int is_recorded; /* it goes to the recorder */
    uint32_t priority;
    enum ea_batch_kind kind;
    ea_counters ledger; /* when the batch was closed */
    ea_ledger_families families;
    uint64_t changed; /* which families differ from what travelled before: a bit each */
    int64_t utc_ns;
    ea_family_count of[EA_LEDGER_FAMILIES]; /* its events */
    size_t of_count;
} ea_pipeline_job;

enum { EA_PIPELINE_DROPS = 5 };

typedef struct ea_pipeline_worker {
    ea_pipeline *pipeline;
    ea_encoder *encoder;   /* encode: the worker's thread */
    ea_encoder *recording; /* likewise, of batches for the recorder; NULL: there is none */
    ea_ledger_count counts[EA_LEDGER_FAMILIES * EA_LEDGER_FAMILY_COUNTERS];
    ea_thread *thread;
} ea_pipeline_worker;

struct ea_pipeline {
    ea_pipeline_options o;
    uint8_t stream[EA_STREAM_ID_BYTES];    /* lock */
    uint8_t recording[EA_STREAM_ID_BYTES]; /* the recorder's */
    uint64_t incarnation;                  /* of the ledger: the stream's beginning in this run, UTC in ns; turn */
    ea_pipeline_worker workers[EA_PIPELINE_ENCODERS_MAX];
    unsigned worker_count;
    _Atomic uint64_t keyframes, events, batches, encoded_events, encoded_batches, encoded_bytes, kept_batches;
    atomic_int failed;
    atomic_int keyframe_wanted;

    ea_mutex *turn;   /* who gives out numbers: the source's thread that closes a batch, or a renewal */
    ea_counters base; /* turn: what the ledger of this stream does not count, since the stream before had it */
    ea_ledger_families family_base;
    uint64_t number;          /* turn */
    uint64_t recorded_number; /* turn; of the recording */
    int64_t news_ns;          /* turn; when the numbers of a recorded stream went out last, monotonic */
    int ended;                /* turn: the batch that is handed on now is the stream's closing one */
    int finished;             /* turn: the source has come to its end; what was its thread's may be used by a renewal */
    ea_ledger_families sent_families; /* turn: the counts of each family that were sent last */
    ea_counters sent_counters;        /* turn: and of the session */
    uint64_t sent_number;             /* turn: the last batch with the counts of all families */

    /* the source's thread */
    ea_decoder *decoder;
    ea_stack_meter *stacks;
    uint64_t unread;                       /* of ea_decoder_unread, what the ledger has */
    uint64_t outcomes[3];                  /* of the open batch's events: whole, partial, unknown */
    uint32_t families[EA_LEDGER_FAMILIES]; /* of the open batch's events */
    uint64_t lost_records;                 /* in the open batch */
    int is_raised;                         /* the open batch: a program raised one of its events (ship()) */
    /* what filters and programs dropped since it was posted: filtered, sampled_out, limited, aggregated; and the events
     * with replaced fields */
    uint32_t dropped[EA_PIPELINE_DROPS][EA_LEDGER_FAMILIES];
    uint64_t dropped_count, redacted;
    ea_lang_counts watched; /* of the programs, what the ledger has */
    uint8_t lost_family;    /* whose records say that events were lost */
    ea_builder *builder;
    uint64_t delivered;
    /* results of programs */
    uint32_t rows;          /* in the open batch */
    uint8_t row_family;     /* of them */
    uint64_t rows_made;     /* ever: positions of numbered records count them, too */
    uint64_t next_position; /* of the next result, without them */
    ea_err row_error;       /* why the last one could not be added */
    ea_u64_map states;      /* classes that programs aggregate -> 1: of the machine's state */
    ea_clock *clocks;       /* of the sources, when there is a machine, a filter or a program */
    ea_machine *machine;    /* NULL: no keyframes */
    ea_open_object_names *names;
    ea_counters state; /* the machine's */
    uint64_t given_up; /* of them, in the ledger */
    ea_record last;    /* without its payload */
    uint64_t events_since_keyframe;
    int64_t held_ns;          /* waited for encoders, and not counted yet: less than a second */
    int64_t keyframe_due_ns;  /* by the events' time; INT64_MAX: before the first event */
    int64_t keyframe_wait_ns; /* what that was away when it was set */
    int64_t last_utc_ns;      /* of the last event */
    int64_t wanted_ns;        /* when a keyframe was written on request last, monotonic */
    ea_err *err;              /* of the keyframe at hand */

    ea_mutex *lock;
    ea_cond *changed;
    ea_pipeline_job *ring; /* lock; ring_size is the number of spare batches, so that there is always room */
    size_t ring_size, first, count, busy;
    int closing;
    ea_err error; /* the first one */
};

/* ---- pipeline.c ---- */

void ea_pipeline_worker_main(void *worker); /* an encoder's thread */
/* The state as it is now, in batches of its own. The open batch must be closed. The source's thread. */
EA_MUST_CHECK int ea_pipeline_write_keyframe(ea_pipeline *p, ea_err *err);

/* Before the first event, when there are programs. The source's thread, or before it begins. */
EA_MUST_CHECK int ea_pipeline_start_watches(ea_pipeline *p, ea_err *err);

/* ---- pipeline_ledger.c ---- */

/* What the ledger says of this stream: all of this run without what went under the stream's earlier names. */
void ea_pipeline_take_base(const ea_pipeline *p, ea_pipeline_job *j);
/* The caller holds `turn`. The families whose counts this batch carries, a bit each: cumulative counts are sent when
 * they changed, and all of them periodically, since a batch may be lost. */
uint64_t ea_pipeline_note_changes(ea_pipeline *p, uint64_t number, const ea_ledger_families *now) EA_REQUIRES(p->turn);
/* The families that travel with a batch, into w->counts: those whose numbers changed. Zeros are left out. */
size_t ea_pipeline_list_families(ea_pipeline_worker *w, const ea_pipeline_job *j);
/* The caller holds `turn`. 1 when the source has new counts since the last batch: delivered, dropped, lost or decoded.
 * The states of batches on their way do not count, since sending these counts changes them. */
int ea_pipeline_has_news(ea_pipeline *p) EA_REQUIRES(p->turn);
/* The ledger begins anew, under the stream's new name. With turn, and no batch in an encoder's hands. */
void ea_pipeline_rebase(ea_pipeline *p) EA_REQUIRES(p->turn);
/* Has the spool save the numbers of the stream, under its new name. With turn. */
EA_MUST_CHECK int ea_pipeline_save_ledger(const ea_pipeline *p, ea_err *err) EA_REQUIRES(p->turn);

/* ---- pipeline_open.c ---- */

/* Makes an encoder for the stream's current name; it replaces an existing one, which may have no batch. */
EA_MUST_CHECK int ea_pipeline_make_encoder(ea_pipeline *p, ea_pipeline_worker *w, ea_err *err);
/* The same for the recording; without a recorder there is none. */
EA_MUST_CHECK int ea_pipeline_make_recording(ea_pipeline *p, ea_pipeline_worker *w, ea_err *err);

#endif
