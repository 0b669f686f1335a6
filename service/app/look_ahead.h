/* The call stacks of a trace's events, for commands that run programs over it: walks come after their events, so a
 * second reader of the trace is ahead of the first one, as far as the window of the join reaches. Called by:
 * cmd_watch.c, cmd_open.c. Calls: proto/etl, proto/stack, service/decode. Thread: the main one. */
#ifndef EA_APP_LOOK_AHEAD_H
#define EA_APP_LOOK_AHEAD_H

#include "proto/etl/etl.h"
#include "proto/lang/lang.h"
#include "proto/stack/stack_ahead.h"
#include "proto/stack/stack_feed.h"
#include "service/decode/decoder.h"

/* All 0 at the begin. */
typedef struct ea_look_ahead {
    ea_etl_set *set;
    ea_decoder *decoder;
    ea_stacks *stacks;
    ea_stack_join *join;
    ea_stack_feed *feed;
    ea_stack_ahead stacks_ahead;
    uint64_t read; /* events */
    int is_at_end;
} ea_look_ahead;

EA_MUST_CHECK int ea_look_ahead_open(ea_look_ahead *l, char **paths, int path_count, ea_err *err);
void ea_look_ahead_close(ea_look_ahead *l); /* of one that was not opened, too */
/* Puts the stack of an event into it. number: of the event, from 0; numbers only rise. Damage is left to the first
 * reader. */
EA_MUST_CHECK int ea_look_ahead_find(ea_look_ahead *l, uint64_t number, ea_lang_event *event, ea_err *err);
/* What a run needs to read the stacks: `frames`; frames_arg is l->stacks. */
const uint64_t *ea_look_ahead_frames(const void *stacks, uint32_t number, size_t *ret_count);

#endif
