/* What a recorder has: by segment and stream, not by batch, so that a ring of any size costs little memory and is open
 * at once. See spool_core.h. Called by: spool.c, spool_write.c, spool_open.c, spool_evict.c. Calls: spool_core.c,
 * spool_file.h. Thread: any. */
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

void ea_spool_note_time(const ea_spool *s, segment *g, const uint8_t *batch, size_t len_bytes) {
    ea_batch_head head;
    if (!s->o.is_recorder || ea_batch_read_head(batch, len_bytes, &head, NULL) || !head.event_count)
        return;
    g->has_keyframe |= head.kind == EA_BATCH_KEYFRAME;
    if (head.utc_min_ns < g->first_utc_ns)
        g->first_utc_ns = head.utc_min_ns;
    if (head.utc_max_ns > g->last_utc_ns)
        g->last_utc_ns = head.utc_max_ns;
}

/* ---- holdings ---- */

/* A new one, which is the last; NULL without memory. */
static holding *add_holding(segment *g, stream *k, const uint8_t *disk_stream, int counted) {
    holding *grown = realloc(g->holdings, (g->holding_count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    g->holdings = grown;
    holding *h = &g->holdings[g->holding_count];
    *h = (holding){.stream = k, .counted = counted};
    memcpy(h->share.stream, disk_stream, sizeof h->share.stream);
    if (ea_spool_attach(g, k))
        return NULL;
    g->holding_count++;
    k->live++;
    return h;
}

int ea_spool_hold(ea_spool *s, stream *k, segment *g, const ea_spool_record *r, int counted,
                  const ea_family_count *families, size_t family_count) {
    ea_spool_assert_held(s, s->lock);
    holding *h = g->holding_count ? &g->holdings[g->holding_count - 1] : NULL;
    for (size_t i = g->holding_count; i--;) { /* the last one, mostly */
        h = &g->holdings[i];
        if (h->stream == k && h->counted == counted && h->share.events + r->event_count <= UINT32_MAX &&
            memcmp(h->share.stream, r->stream, sizeof r->stream) == 0)
            break;
        h = NULL;
    }
    if (!h && !(h = add_holding(g, k, r->stream, counted)))
        return EA_ENOMEM;
    if (ea_range_set_has(&h->share.numbers, r->number))
        return 0; /* a copy of a record that is there: none of ours */
    if (ea_range_set_add(&h->share.numbers, r->number, r->number))
        return EA_ENOMEM;
    h->share.batches++;
    h->share.events += r->event_count;
    for (size_t i = 0; i < family_count; i++)
        h->families[families[i].family] += families[i].events;
    g->live++;
    if (r->number > k->state.highest)
        k->state.highest = r->number;
    return 0;
}

/* Moves a holding's events in its stream's ledger. */
static void post_held(const ea_spool *s, const holding *h, enum ea_counter to) {
    enum ea_counter from = ea_spool_counter(s, EA_COUNT_events_spooled);
    ea_family_count families[EA_LEDGER_FAMILIES];
    size_t count = 0;
    if (!h->counted || !h->stream->ledger)
        return;
    for (unsigned f = 0; f < EA_LEDGER_FAMILIES; f++)
        if (h->families[f])
            families[count++] = (ea_family_count){h->families[f], (uint8_t)f};
    ea_ledger_post(h->stream->ledger, (ea_posting[]){{from, -(int64_t)h->share.events}, {to, (int64_t)h->share.events}},
                   2, families, count);
}

uint64_t ea_spool_let_go(ea_spool *s, segment *g, enum ea_counter to) {
    ea_spool_assert_held(s, s->lock);
    uint64_t earlier = 0;
    for (size_t i = 0; i < g->holding_count; i++) {
        holding *h = &g->holdings[i];
        post_held(s, h, to);
        earlier += h->counted ? 0 : h->share.events;
        h->stream->live--;
        free(h->share.numbers.ranges);
    }
    free(g->holdings);
    g->holdings = NULL;
    g->holding_count = g->live = 0;
    s->dirty = 1;
    return earlier;
}

/* ---- renewal ---- */

/* Adds a row for each range: a number stays what it is. */
static int add_moved(ea_spool_stream_state *to, const uint8_t *disk_stream, const ea_range_set *numbers) {
    for (size_t i = 0; i < numbers->count; i++) {
        if (to->moved_count == EA_SPOOL_MOVED_MAX)
            return EA_ELIMIT;
        ea_spool_moved *grown = realloc(to->moved, (to->moved_count + 1) * sizeof *grown);
        if (!grown)
            return EA_ENOMEM;
        to->moved = grown;
        ea_spool_moved *m = &grown[to->moved_count];
        *m = (ea_spool_moved){.base = numbers->ranges[i].first};
        memcpy(m->stream, disk_stream, sizeof m->stream);
        if (ea_range_set_add(&m->numbers, numbers->ranges[i].first, numbers->ranges[i].last))
            return EA_ENOMEM;
        to->moved_count++;
    }
    return 0;
}

/* The numbers of all holdings of the stream under one name on disk, in *ret. */
static int numbers_under(const ea_spool *s, const stream *k, const uint8_t *disk_stream, ea_range_set *ret)
    EA_REQUIRES(s->lock) {
    for (const segment *g = s->segments; g; g = g->next)
        for (size_t i = 0; i < g->holding_count; i++) {
            const ea_spool_share *share = &g->holdings[i].share;
            if (g->holdings[i].stream != k || memcmp(share->stream, disk_stream, sizeof share->stream) != 0)
                continue;
            for (size_t n = 0; n < share->numbers.count; n++)
                if (ea_range_set_add(ret, share->numbers.ranges[n].first, share->numbers.ranges[n].last))
                    return EA_ENOMEM;
        }
    return 0;
}

static int spool_recorded_has_name(const ea_spool_stream_state *of, const uint8_t *disk_stream) {
    for (size_t i = 0; i < of->moved_count; i++)
        if (memcmp(of->moved[i].stream, disk_stream, EA_STREAM_ID_BYTES) == 0)
            return 1;
    return 0;
}

int ea_spool_renew_held(ea_spool *s, stream *k, stream *fresh) {
    ea_spool_assert_held(s, s->lock);
    int rc = 0;
    for (const segment *g = s->segments; !rc && g; g = g->next)
        for (size_t i = 0; !rc && i < g->holding_count; i++) {
            const holding *h = &g->holdings[i];
            ea_range_set numbers = {0};
            if (h->stream != k || spool_recorded_has_name(&fresh->state, h->share.stream))
                continue;
            rc = numbers_under(s, k, h->share.stream, &numbers);
            if (!rc)
                rc = add_moved(&fresh->state, h->share.stream, &numbers);
            free(numbers.ranges);
        }
    for (segment *g = s->segments; !rc && g; g = g->next)
        for (size_t i = 0; !rc && i < g->holding_count; i++)
            if (g->holdings[i].stream == k)
                rc = ea_spool_attach(g, fresh);
    for (segment *g = s->segments; !rc && g; g = g->next)
        for (size_t i = 0; i < g->holding_count; i++)
            if (g->holdings[i].stream == k) {
                g->holdings[i].stream = fresh;
                k->live--;
                fresh->live++;
            }
    return rc;
}

/* ---- summaries ---- */

void ea_spool_sum_up(ea_spool *s, segment *g, ea_file *file) {
    ea_spool_assert_held(s, s->write_lock);
    ea_text record;
    ea_err why;
    if (!s->o.is_recorder || g->is_summed_up)
        return;
    ea_text_init(&record);
    ea_mutex_lock(s->lock);
    ea_spool_summary summary = {.first_utc_ns = g->first_utc_ns,
                                .last_utc_ns = g->last_utc_ns,
                                .has_keyframe = g->has_keyframe,
                                .shares = calloc(g->holding_count + 1, sizeof *summary.shares),
                                .share_count = g->holding_count};
    for (size_t i = 0; summary.shares && i < g->holding_count; i++)
        summary.shares[i] = g->holdings[i].share; /* borrowed */
    int rc = !summary.shares || !g->holding_count
                 ? EA_ENOTFOUND
                 : ea_spool_put_summary(&record, g->sequence, (uint16_t)g->priority, &summary);
    ea_mutex_unlock(s->lock);
    free(summary.shares);
    if (!rc && !(rc = ea_file_write_at(file, g->size_bytes, record.data, record.len_bytes, &why))) {
        ea_mutex_lock(s->lock);
        g->size_bytes += record.len_bytes;
        s->disk_bytes += record.len_bytes;
        g->is_summed_up = 1;
        ea_mutex_unlock(s->lock);
    } else if (rc) {
        EA_IGNORE(ea_file_truncate(file, g->size_bytes, &why)); /* else a torn end: the next opening cuts it off */
    }
    ea_text_deinit(&record);
}

static int recover_share(ea_spool *s, segment *g, ea_spool_share *share) EA_SPOOL_ALONE {
    uint64_t number = share->numbers.ranges[0].first, last;
    stream *k = ea_spool_resolve_stream(s, share->stream, &number);
    if (!k) {
        ea_spool_stream_state state = {.resumable = EA_SPOOL_LIVE};
        memcpy(state.stream, share->stream, sizeof state.stream);
        int rc = ea_spool_add_stream(s, &state, &k);
        if (rc)
            return rc;
    }
    holding *h = add_holding(g, k, share->stream, 0);
    if (!h)
        return EA_ENOMEM;
    h->share = *share;
    share->numbers = (ea_range_set){0}; /* it is the holding's now */
    last = h->share.numbers.ranges[h->share.numbers.count - 1].last;
    if (last > k->state.highest)
        k->state.highest = last;
    g->live += h->share.batches;
    return 0;
}

int ea_spool_recover_summed_up(ea_spool *s, segment *g, ea_file *file, ea_err *err) {
    ea_spool_summary summary;
    int found = ea_spool_read_summary(file, g->sequence, &summary, err), rc = 0;
    if (found <= 0)
        return found;
    g->first_utc_ns = summary.first_utc_ns;
    g->last_utc_ns = summary.last_utc_ns;
    g->has_keyframe = summary.has_keyframe;
    g->is_summed_up = 1;
    for (size_t i = 0; !rc && i < summary.share_count; i++)
        rc = recover_share(s, g, &summary.shares[i]);
    ea_spool_summary_deinit(&summary);
    return rc ? ea_fail(err, rc, "recover the recorder %s", s->dir) : 1;
}
