/* Expands records that hold many events: a CPU's compact context switches (Thread/CompCS, hook 0x525) become a record
 * for each switch. Records travel and are stored whole; readers expand them: `etwagent dump`, `etwcollector export`,
 * queries.
 * Input: a record and its class, in the order of a stream. Called by: print.h, queries. Thread: its owner's.
 *
 * Layout: ntwmi.h PERFINFO_CCSWAP_BUFFER: the time of the first switch, 16 thread ids, their 16 base priorities, then
 * packets of 2, 4, 4 or 8 bytes, whose lowest two bits are the type:
 *   0 IdleShort: 14 bits time                                                     the idle thread is switched out
 *   1 Idle:      30 bits time                                                     the same
 *   2 Lite:      4 bits thread, 3 bits above its base priority, 6 bits state, 17 bits time
 *   3 Full:      30 bits time, 4 bits thread, 6 bits state, 5 bits priority, 17 bits wait time of the new thread
 * Times are ticks since the previous packet; the first packet's time is relative to the record's first time. A packet
 * names the thread that is switched out. The thread that is switched in is the thread that the CPU's next packet
 * switches out. That packet may be in a later record of the CPU, so that the expander has a state. How thread state and
 * wait reason share six bits is not public; they stay a number.
 *
 * A switch is a record of the class Thread/CompactCSwitch: provider of Thread, id 0x525, no classic header, version of
 * its record; pid and tid as in its record; its fields in classes/thread.c. */
#ifndef EA_EVENT_COMPACT_CSWITCH_H
#define EA_EVENT_COMPACT_CSWITCH_H

#include "proto/base/clock.h"
#include "proto/event/event.h"

typedef struct ea_cswitch_expander ea_cswitch_expander;
/* One switch; borrowed until it returns. clock: what came with the record that held it. Not 0: ends the call, which
 * returns it. */
typedef int (*ea_cswitch_expand_fn)(void *arg, const ea_record *record, const ea_class *c, const ea_clock *clock);

EA_MUST_CHECK int ea_cswitch_expander_create(ea_cswitch_expander **ret, ea_err *err);
void ea_cswitch_expander_destroy(ea_cswitch_expander *e); /* NULL is allowed */

/* 1 when records of this class hold others. */
int ea_is_compact_cswitch(const ea_class *c);
/* Calls fn for each switch whose new thread is known: first for the CPU's switch that waited for this record, then for
 * the switches of the record. A record of another class calls nothing. EA_ENOMEM, or what fn returned. */
EA_MUST_CHECK int ea_cswitch_expand(ea_cswitch_expander *e, const ea_record *record, const ea_class *c,
                                    const ea_clock *clock, ea_cswitch_expand_fn fn, void *arg, ea_err *err);
/* The stream ends: calls fn for the last switch of each CPU, without a new thread, in the order of the CPUs. */
EA_MUST_CHECK int ea_cswitch_expand_end(ea_cswitch_expander *e, ea_cswitch_expand_fn fn, void *arg);

/* Records that are not whole switches (too short for the tables, or with bytes after the last whole packet), and
 * switches that were passed on without their new thread because the limit of 4,096 CPUs with a waiting switch is
 * reached. */
typedef struct ea_cswitch_expand_counts {
    uint64_t records, switches, short_records, bytes_left_over, new_threads_left_out;
} ea_cswitch_expand_counts;

ea_cswitch_expand_counts ea_cswitch_expander_counts(const ea_cswitch_expander *e);

#endif
