/* The batches of a time. See recorder_window.h. */
#include "service/spool/recorder_window.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

int ea_recorded_add(ea_recorded_list *l, const ea_spool_seen *seen, ea_err *err) {
    const ea_spool_record *r = seen->record;
    ea_recorded found = {.number = r->number,
                         .events = r->event_count,
                         .len_bytes = r->len_bytes,
                         .is_locked = seen->opened != 1,
                         .from_utc_ns = INT64_MAX,
                         .to_utc_ns = INT64_MIN};
    ea_batch_head head;
    memcpy(found.stream, r->stream, sizeof found.stream);
    if (seen->opened < 0)
        return ea_fail(err, EA_ECORRUPT, "it was changed after it was encrypted");
    if (seen->opened && ea_batch_read_head(r->batch, r->len_bytes, &head, err))
        return EA_ECORRUPT;
    if (seen->opened) {
        found.is_keyframe = head.kind == EA_BATCH_KEYFRAME;
        if (head.event_count) {
            found.from_utc_ns = head.utc_min_ns;
            found.to_utc_ns = head.utc_max_ns;
        }
    }
    if (EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "look into a recorder");
    l->items[l->count++] = found;
    return 0;
}

static int recorded_order(const void *a, const void *b) {
    const ea_recorded *x = a, *y = b;
    int order = memcmp(x->stream, y->stream, sizeof x->stream);
    return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

void ea_recorded_sort(ea_recorded_list *l) {
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, recorded_order);
}

size_t ea_recorded_end(const ea_recorded_list *l, size_t first) {
    size_t end = first;
    while (end < l->count && memcmp(l->items[end].stream, l->items[first].stream, EA_STREAM_ID_BYTES) == 0)
        end++;
    return end;
}

ea_recorded *ea_recorded_find(const ea_recorded_list *l, const uint8_t *stream, uint64_t number) {
    ea_recorded wanted = {.number = number};
    memcpy(wanted.stream, stream, sizeof wanted.stream);
    return l->count ? bsearch(&wanted, l->items, l->count, sizeof wanted, recorded_order) : NULL;
}

/* Of one stream: items[0..count). */
static void choose(ea_recorded *items, size_t count, int64_t from_utc_ns, int64_t to_utc_ns) {
    size_t first = count, end = 0;
    for (size_t i = 0; i < count; i++) {
        const ea_recorded *r = &items[i];
        if (r->is_locked || !r->events || r->is_keyframe || r->to_utc_ns < from_utc_ns || r->from_utc_ns >= to_utc_ns)
            continue;
        first = i < first ? i : first;
        end = i + 1;
    }
    size_t keyframe = first;
    while (keyframe && keyframe < count && !items[keyframe - 1].is_keyframe)
        keyframe--;
    while (keyframe && keyframe < count && items[keyframe - 1].is_keyframe)
        keyframe--; /* a keyframe may have several batches */
    if (keyframe < count && items[keyframe].is_keyframe)
        first = keyframe;
    for (size_t i = first; i < end; i++)
        items[i].is_chosen = !items[i].is_locked;
}

void ea_recorded_choose(ea_recorded_list *l, int64_t from_utc_ns, int64_t to_utc_ns) {
    for (size_t first = 0, end; first < l->count; first = end) {
        end = ea_recorded_end(l, first);
        choose(l->items + first, end - first, from_utc_ns, to_utc_ns);
    }
}
