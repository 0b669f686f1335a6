/* See look_ahead.h. */
#include "service/app/look_ahead.h"

int ea_look_ahead_open(ea_look_ahead *l, char **paths, int path_count, ea_err *err) {
    ea_stack_join_options how = {.on_event = ea_stack_ahead_take, .arg = &l->stacks_ahead};
    int rc = ea_etl_open(&l->set, (const char *const *)paths, (size_t)path_count, &(ea_etl_options){0}, err);
    if (!rc)
        rc = ea_decoder_create(&l->decoder, NULL, NULL, err);
    if (!rc)
        rc = ea_stacks_create(&l->stacks, 0, err);
    if (!rc)
        rc = ea_stack_join_create(&l->join, l->stacks, &how, err);
    if (!rc)
        rc = ea_stack_feed_create(&l->feed, l->join, err);
    return rc;
}

void ea_look_ahead_close(ea_look_ahead *l) {
    ea_stack_feed_destroy(l->feed);
    ea_stack_join_destroy(l->join);
    ea_stacks_destroy(l->stacks);
    ea_decoder_destroy(l->decoder);
    ea_etl_close(l->set);
    ea_stack_ahead_deinit(&l->stacks_ahead);
}

int ea_look_ahead_find(ea_look_ahead *l, uint64_t number, ea_lang_event *event, ea_err *err) {
    const ea_record *r;
    enum ea_counter outcome;
    while (!l->is_at_end && l->stacks_ahead.settled <= number) {
        int rc = ea_etl_next(l->set, &r, err);
        if (rc <= 0) { /* the first reader reports damage */
            l->is_at_end = 1;
            if (ea_stack_join_end(l->join))
                return ea_fail(err, EA_ENOMEM, "join stacks");
            break;
        }
        const ea_class *c = ea_decoder_find(l->decoder, &r, &outcome);
        rc = ea_stack_feed_record(l->feed, r, c, l->read++);
        if (rc)
            return ea_fail(err, rc, "join stacks");
    }
    ea_stack_ahead_find(&l->stacks_ahead, number, event->stack, &event->stack_pid);
    return 0;
}

const uint64_t *ea_look_ahead_frames(const void *stacks, uint32_t number, size_t *ret_count) {
    return ea_stacks_get(stacks, number, ret_count);
}
