/* Deferred tombstones: those that found no room, because the disk was full or the spool was above its limits. They are
 * written when there is room again.
 *
 * Until then a file named "owed" keeps them, so that a kill loses no counts. The file gets its full size while there is
 * room and is only overwritten after that, which needs no space on a full disk. (A file system that allocates each
 * overwritten block anew may refuse the write; then the tombstones are in memory only.) Two slots of
 * DEFERRED_SLOT_BYTES are written in turn, so that a torn write leaves the previous slot intact. Integers are
 * little-endian:
 *      0  "EAOWED" and the version of the format, '1', NUL
 *      8  u64  turn: the slot with the higher one counts
 *     16  u32  rows, DEFERRED_ALL_MAX at the most
 *     20  u32  0
 *     24  rows of 64 bytes: stream (16), first, last, event count (u64), earliest and latest time (i64, ns since 1970
 *         UTC, 0 unknown), cause (u32), 0 (u32)
 *      .  u64  checksum of all preceding bytes (XXH3-64)
 * The order on disk is: write this file, then delete the segment; later write the tombstones, then empty this file. A
 * crash in between leaves both copies, but each loss is reported once: batches that are still in the spool are sent,
 * and numbers that a tombstone in the spool covers are not deferred again.
 *
 * Called by: spool_evict.c, spool_open.c. Calls: ea_spool_write_tombstones. Thread: the caller's; the caller holds
 * `write_lock`. */
#include "proto/base/bytes.h"
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFERRED_MAX = 256,     /* limit of each stream */
    DEFERRED_ALL_MAX = 512, /* limit of all streams together */
    DEFERRED_HEAD_BYTES = 24,
    DEFERRED_ROW_BYTES = 64,
    DEFERRED_SLOT_BYTES = DEFERRED_HEAD_BYTES + DEFERRED_ALL_MAX * DEFERRED_ROW_BYTES + 8,
    DEFERRED_FILE_BYTES = 2 * DEFERRED_SLOT_BYTES,
};

static const char DEFERRED_MAGIC[8] = "EAOWED1";
static const uint64_t DEFERRED_SEED = 0x6561736f77656431u;

/* ---- the file ---- */

/* The newer one of the intact slots: its rows and *ret_turn; NULL when no slot is intact. */
static const uint8_t *newest_slot(const uint8_t *data, size_t len_bytes, uint32_t *ret_count, uint64_t *ret_turn) {
    const uint8_t *best = NULL;
    for (size_t at = 0; at + DEFERRED_SLOT_BYTES <= len_bytes && at < DEFERRED_FILE_BYTES; at += DEFERRED_SLOT_BYTES) {
        const uint8_t *p = data + at;
        uint32_t count = ea_load32(p + 16);
        uint64_t turn = ea_load64(p + 8);
        if (memcmp(p, DEFERRED_MAGIC, 8) != 0 || count > DEFERRED_ALL_MAX || (best && turn < *ret_turn))
            continue;
        size_t n = DEFERRED_HEAD_BYTES + (size_t)count * DEFERRED_ROW_BYTES;
        if (ea_load64(p + n) != ea_hash64(p, n, DEFERRED_SEED))
            continue;
        best = p + DEFERRED_HEAD_BYTES;
        *ret_count = count;
        *ret_turn = turn;
    }
    return best;
}

/* The caller holds `lock`. Writes a slot with the deferred tombstones of all streams to out; returns its bytes. */
static size_t put_slot(const ea_spool *s, uint64_t turn, uint8_t *out) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    uint32_t count = 0;
    uint8_t *p = out + DEFERRED_HEAD_BYTES;
    for (const stream *k = s->streams; k; k = k->next)
        for (size_t i = 0; i < k->deferred_count; i++, count++, p += DEFERRED_ROW_BYTES) {
            const ea_tombstone *t = &k->deferred[i];
            memcpy(p, k->state.stream, EA_STREAM_ID_BYTES);
            ea_store64(p + 16, t->first);
            ea_store64(p + 24, t->last);
            ea_store64(p + 32, t->event_count);
            ea_store64(p + 40, (uint64_t)t->utc_min_ns);
            ea_store64(p + 48, (uint64_t)t->utc_max_ns);
            ea_store32(p + 56, t->cause);
            ea_store32(p + 60, 0);
        }
    memcpy(out, DEFERRED_MAGIC, 8);
    ea_store64(out + 8, turn);
    ea_store32(out + 16, count);
    ea_store32(out + 20, 0);
    size_t n = (size_t)(p - out);
    ea_store64(p, ea_hash64(out, n, DEFERRED_SEED));
    return n + 8;
}

/* Creates the file with its full size. Without room, the next deferred tombstone tries again. */
static int spool_deferred_reserve(ea_spool *s) EA_REQUIRES(s->write_lock) {
    ea_spool_assert_held(s, s->write_lock);
    if (s->deferred_file)
        return 0;
    ea_err err;
    uint64_t size = 0;
    char *path = ea_spool_join(s->dir, "owed");
    uint8_t *zeros = calloc(1, DEFERRED_FILE_BYTES);
    int rc = path && zeros ? ea_file_open(&s->deferred_file, path, EA_OPEN_APPEND, &err) : EA_ENOMEM;
    if (!rc)
        rc = ea_file_size(s->deferred_file, &size, &err);
    if (!rc && size < DEFERRED_FILE_BYTES) {
        rc = ea_file_write_at(s->deferred_file, 0, zeros, DEFERRED_FILE_BYTES, &err);
        if (!rc && s->o.sync != EA_SPOOL_SYNC_NEVER)
            rc = ea_file_sync(s->deferred_file, &err);
        if (!rc && s->o.sync != EA_SPOOL_SYNC_NEVER)
            rc = ea_path_sync_dir(s->dir, &err);
        if (rc) { /* frees the space that it has taken */
            ea_file_close(s->deferred_file);
            s->deferred_file = NULL;
            EA_IGNORE(ea_path_remove(path, NULL));
        }
    } else if (rc) {
        ea_file_close(s->deferred_file);
        s->deferred_file = NULL;
    }
    free(zeros);
    free(path);
    return rc;
}

void ea_spool_reserve_deferred(ea_spool *s) {
    ea_mutex_lock(s->write_lock);
    EA_IGNORE(spool_deferred_reserve(s));
    ea_mutex_unlock(s->write_lock);
}

void ea_spool_note_deferred(ea_spool *s) {
    ea_spool_assert_held(s, s->write_lock);
    ea_err err;
    uint8_t *slot = malloc(DEFERRED_SLOT_BYTES);
    if (slot && spool_deferred_reserve(s) == 0) {
        ea_mutex_lock(s->lock);
        size_t n = put_slot(s, s->deferred_turn + 1, slot);
        ea_mutex_unlock(s->lock);
        /* a failed write may have torn this slot: the next write uses it again, the other slot stays */
        if (ea_file_write_at(s->deferred_file, ((s->deferred_turn + 1) & 1) * DEFERRED_SLOT_BYTES, slot, n, &err) ==
            0) {
            s->deferred_turn++;
            s->deferred_unsynced = 1;
        }
        if (s->deferred_unsynced && s->o.sync == EA_SPOOL_SYNC_ALWAYS)
            s->deferred_unsynced = ea_file_sync(s->deferred_file, &err) != 0;
    }
    free(slot);
}

/* ---- deferring ---- */

/* The caller holds `lock`. Returns 0 without memory or above DEFERRED_MAX or DEFERRED_ALL_MAX: the next opening then
 * finds a hole of unknown content. */
static int add_owed(ea_spool *s, stream *k, uint64_t under, const ea_tombstone *t) EA_REQUIRES(s->lock) {
    ea_spool_assert_held(s, s->lock);
    ea_tombstone *last = k->deferred_count ? &k->deferred[k->deferred_count - 1] : NULL;
    if (last && last->last + 1 == t->first && last->cause == t->cause) {
        last->last = t->last;
        last->event_count += t->event_count;
        if (t->utc_max_ns > last->utc_max_ns)
            last->utc_max_ns = t->utc_max_ns;
        if (t->utc_min_ns && (!last->utc_min_ns || t->utc_min_ns < last->utc_min_ns))
            last->utc_min_ns = t->utc_min_ns;
        return 1;
    }
    size_t all = 0;
    for (const stream *other = s->streams; other; other = other->next)
        all += other->deferred_count;
    if (k->deferred_count == DEFERRED_MAX || all == DEFERRED_ALL_MAX)
        return 0;
    ea_tombstone *grown = realloc(k->deferred, (k->deferred_count + 1) * sizeof *grown);
    if (!grown)
        return 0;
    if (!last) {
        k->deferred_under = under;
        s->deferring_streams++;
        ea_cond_signal(s->tick);
    }
    k->deferred = grown;
    k->deferred[k->deferred_count++] = *t;
    return 1;
}

void ea_spool_defer_tombstones(ea_spool *s, stream *k, uint64_t under, const ea_tombstone *rows, size_t count) {
    ea_spool_assert_held(s, s->write_lock);
    ea_mutex_lock(s->lock);
    for (size_t i = 0; i < count; i++)
        if (add_owed(s, k, under, &rows[i]) && rows[i].last > k->state.highest)
            k->state.highest = rows[i].last;
    ea_mutex_unlock(s->lock);
}

int ea_spool_has_place(ea_spool *s) {
    ea_spool_assert_held(s, s->write_lock);
    ea_mutex_lock(s->lock);
    size_t batches = s->waiting_count + s->locked_count + s->taken_count;
    int has = s->disk_bytes <= s->o.limit_bytes + s->o.segment_bytes / 2 &&
              batches <= s->o.limit_batches + s->o.limit_batches / 8;
    ea_mutex_unlock(s->lock);
    return has;
}

/* Writes the deferred tombstones of one stream. 0: they could not be written and stay deferred. */
static int write_owed(ea_spool *s, stream *k) EA_REQUIRES(s->write_lock) {
    ea_spool_assert_held(s, s->write_lock);
    ea_err err;
    uint64_t under = k->deferred_under;
    if (ea_spool_write_tombstones(s, k->state.stream, under, k->deferred, k->deferred_count, &err))
        return 0;
    ea_mutex_lock(s->lock);
    for (size_t i = 0; i < k->deferred_count; i++) { /* all numbers are settled now except the tombstones' own number */
        const ea_tombstone *t = &k->deferred[i];
        int holds = t->first <= under && under <= t->last, rc = 0;
        if (!holds)
            rc = ea_range_set_add(&k->state.acknowledged, t->first, t->last);
        if (holds && t->first < under)
            rc = ea_range_set_add(&k->state.acknowledged, t->first, under - 1);
        if (!rc && holds && under < t->last)
            rc = ea_range_set_add(&k->state.acknowledged, under + 1, t->last);
        if (rc)
            break; /* without memory: the next opening reads from the tombstones which numbers they cover */
    }
    EA_ASSERT(s->deferring_streams);
    free(k->deferred);
    k->deferred = NULL;
    k->deferred_count = 0;
    s->deferring_streams--;
    ea_mutex_unlock(s->lock);
    return 1;
}

void ea_spool_write_deferred(ea_spool *s, int at_the_end) {
    ea_spool_assert_held(s, s->write_lock);
    int more = 1, written = 0;
    while (more && (at_the_end || ea_spool_has_place(s))) {
        ea_mutex_lock(s->lock);
        stream *k = s->deferring_streams ? s->streams : NULL;
        while (k && !k->deferred_count)
            k = k->next;
        ea_mutex_unlock(s->lock);
        more = k && write_owed(s, k); /* a stream with deferred tombstones is never removed */
        written |= more;
    }
    if (written)
        ea_spool_note_deferred(s);
}

/* ---- after a crash ---- */

int ea_spool_add_rest(ea_range_set *to, uint64_t first, uint64_t last, const ea_range_set *known) {
    int rc = 0;
    for (size_t i = 0; !rc && i < known->count && first <= last; i++) {
        const ea_range *r = &known->ranges[i];
        if (r->last < first)
            continue;
        if (r->first > last)
            break;
        if (r->first > first)
            rc = ea_range_set_add(to, first, r->first - 1);
        if (r->last == UINT64_MAX)
            return rc;
        first = r->last + 1;
    }
    return rc || first > last ? rc : ea_range_set_add(to, first, last);
}

/* Reads a row of the file: the numbers that are neither in the spool nor settled are deferred again. known: the numbers
 * that are in the spool or settled. The events of batches that are still in the spool (a kill before their segment was
 * deleted) are subtracted. */
static int spool_deferred_take_row(ea_spool *s, stream *k, const ea_tombstone *row) EA_SPOOL_ALONE {
    ea_range_set known = {0}, gone = {0};
    size_t cursor = 0;
    uint64_t number, value, here = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < k->state.acknowledged.count; i++)
        rc = ea_range_set_add(&known, k->state.acknowledged.ranges[i].first, k->state.acknowledged.ranges[i].last);
    while (!rc && ea_u64_map_next(&k->entries, &cursor, &number, &value)) {
        const entry *e = (const entry *)(uintptr_t)value;
        if (number >= row->first && number <= row->last)
            here += e->event_count;
        rc = ea_range_set_add(&known, number, number);
    }
    if (!rc)
        rc = ea_spool_add_rest(&gone, row->first, row->last, &known);
    ea_tombstone t = *row;
    t.event_count = here < row->event_count ? row->event_count - here : 0;
    for (size_t i = 0; !rc && i < gone.count; i++) {
        t.first = gone.ranges[i].first;
        t.last = gone.ranges[i].last;
        ea_spool_defer_tombstones(s, k, t.first, &t, 1);
        t.event_count = 0; /* the first piece has them all */
    }
    free(known.ranges);
    free(gone.ranges);
    return rc;
}

int ea_spool_recover_deferred(ea_spool *s, ea_err *err) EA_SPOOL_ALONE {
    char *data = NULL, *path = ea_spool_join(s->dir, "owed");
    size_t len_bytes = 0;
    uint32_t count = 0;
    if (!path)
        return ea_fail(err, EA_ENOMEM, "recover the spool %s", s->dir);
    int rc = ea_path_read_all(path, 2 * DEFERRED_FILE_BYTES, &data, &len_bytes, NULL);
    free(path);
    const uint8_t *p = rc ? NULL : newest_slot((const uint8_t *)data, len_bytes, &count, &s->deferred_turn);
    rc = rc == EA_ENOMEM ? rc : 0; /* an unreadable file defers nothing */
    for (uint32_t i = 0; !rc && p && i < count; i++, p += DEFERRED_ROW_BYTES) {
        const ea_tombstone row = {.first = ea_load64(p + 16),
                                  .last = ea_load64(p + 24),
                                  .event_count = ea_load64(p + 32),
                                  .utc_min_ns = (int64_t)ea_load64(p + 40),
                                  .utc_max_ns = (int64_t)ea_load64(p + 48),
                                  .cause = ea_load32(p + 56)};
        if (!row.first || row.first > row.last || row.last > EA_BATCH_MAX_NUMBER)
            continue;
        stream *k = ea_spool_find_stream(s, p);
        if (!k) { /* the state file is older than the stream */
            ea_spool_stream_state state = {.resumable = EA_SPOOL_LIVE};
            memcpy(state.stream, p, sizeof state.stream);
            rc = ea_spool_add_stream(s, &state, &k);
        }
        if (!rc && k->state.resumable == EA_SPOOL_LIVE)
            rc = spool_deferred_take_row(s, k, &row);
    }
    s->deferred_rows = count;
    free(data);
    return rc ? ea_fail(err, rc, "recover the spool %s", s->dir) : 0;
}
