/* Channels of the event log as a live source: their records, from the one after the last record that an earlier run of
 * the agent had put into the spool.
 *
 *     EvtSubscribe ──▶ channel_api.h ──XML──▶ proto/evtx ──event──▶ evtx_record.h ──record──▶ ea_source_next
 *
 *     each channel: CLOSED ──────────▶ OPEN ──────────▶ CLOSED, opened again after RETRY_NS
 *                            opened           failed
 *
 * A channel that cannot be opened does not stop the others. At least once: the position of each channel is saved when
 * its records are durable in the spool (ea_source_stored), so that a restart reads later records again. Record numbers
 * of a channel are consecutive: without a query, numbers that are left out are records that the event log no longer
 * has, which are counted in `source_records_missing`. A number that is lower than the last one shows that the channel's
 * log was cleared or replaced. Called by: service/core/source_task.h. Calls: channel_api.h, positions.h, proto/evtx.
 * Thread: as source.h says. */
#ifndef EA_EVENTLOG_CHANNEL_SOURCE_H
#define EA_EVENTLOG_CHANNEL_SOURCE_H

#include "service/eventlog/channel_api.h"
#include "service/source/source.h"

typedef struct ea_channel_options {
    const char *name;            /* of the source; borrowed, as are all texts but the next path */
    const char *const *channels; /* 1 to EA_CHANNELS_MAX, good names (positions.h) */
    size_t channel_count;
    const char *query;      /* XPath; NULL: all records */
    int begins_with_oldest; /* a channel without a position: all its records; 0: those from now on */
    const char *positions_path;
    ea_counters *counters;     /* source_* are counted here */
    const ea_channel_api *api; /* NULL: the machine's */
    /* Called with a line for a person. The source's thread. */
    void (*on_note)(void *arg, const char *text);
    void *on_note_arg;
    int64_t retry_ns, save_ns; /* 0: RETRY_NS, SAVE_NS */
} ea_channel_options;

/* Reads the positions. EA_EUNSUPPORTED where there is no event log; EA_EINVAL: the event log refuses the query. */
EA_MUST_CHECK int ea_channel_source_open(ea_source **ret, const ea_channel_options *options, ea_err *err);

#endif
