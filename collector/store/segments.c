/* Which segment a store writes to. See store_parts.h; segment.c is one of them. */
#include "collector/store/store_parts.h"

static int last_segment(uint64_t number, void *arg) {
    uint64_t *last = arg;
    if (number > *last)
        *last = number;
    return 0;
}

int ec_store_last_segment(ec_store *s, uint64_t *ret, ea_err *err) {
    return ec_segment_each(s->segments, last_segment, ret, err);
}

int ec_store_roll(ec_store *s, ea_err *err) {
    ec_segment next;
    uint64_t last = s->segment.number;
    int rc = ec_store_last_segment(s, &last, err);
    if (!rc)
        rc = ec_segment_create(&next, s->segments, last + 1, err);
    if (rc)
        return rc;
    ec_segment_close(&s->segment);
    s->segment = next;
    s->durable_end = next.end;
    return 0;
}

int ec_store_open_segment(ec_store *s, int begin_new, uint64_t *ret_number, ea_err *err) {
    int rc = 0;
    if (s->in_group || !s->writable)
        return ea_fail(err, EA_EINVAL, "begin a segment of %s: a group is open", s->dir);
    if (!s->segment.file ||
        (s->segment.end > EC_SEGMENT_HEADER_BYTES && (begin_new || s->segment.end >= s->segment_bytes)))
        rc = ec_store_roll(s, err);
    if (!rc && ret_number)
        *ret_number = s->segment.number;
    return rc;
}
