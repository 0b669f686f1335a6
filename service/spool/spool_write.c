/* Writing to the spool: the open segments and their records. See spool_core.h.
 * Called by: spool.c, spool_evict.c, spool_deferred.c. Calls: spool_core.c, spool_file.h. Thread: one at a time; the
 * caller holds `write_lock`. */
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

enum { AGE_PARTS = 8 }; /* a segment is open for this part of limit_age_ns */

/* The open segment of a class, if it has room for need more bytes; a full or old segment is closed. */
static int find_open_segment(ea_spool *s, unsigned class, uint64_t need, segment **ret, ea_err *err)
    EA_REQUIRES(s->write_lock) {
    ea_spool_assert_held(s, s->write_lock);
    ea_mutex_lock(s->lock);
    segment *g = s->active[class];
    segment *closed = g;
    ea_file *full = NULL;
    int is_full = g && g->size_bytes + need > s->o.segment_bytes && g->size_bytes > EA_SPOOL_SEALED_HEAD_BYTES;
    /* a segment is evicted as a whole: new batches do not share one with batches that are nearly too old */
    int is_old = g && s->o.limit_age_ns && ea_monotonic_ns() - g->begun_ns > s->o.limit_age_ns / AGE_PARTS;
    if (is_full || is_old) {
        full = g->file;
        g->file = NULL;
        s->active[class] = NULL;
        if (!g->live)
            ea_spool_retire_segment(s, g);
        g = NULL;
    }
    ea_mutex_unlock(s->lock);
    if (full)
        ea_spool_sum_up(s, closed, full);
    int rc = full && s->o.sync != EA_SPOOL_SYNC_NEVER ? ea_file_sync(full, err) : 0;
    ea_file_close(full);
    if (!rc)
        *ret = g;
    return rc;
}

/* Creates a segment's file and writes its head. */
static int create_segment_file(ea_spool *s, segment *g, const ea_spool_head *head, ea_err *err) {
    uint8_t bytes[EA_SPOOL_SEALED_HEAD_BYTES];
    size_t head_bytes = ea_spool_put_head(bytes, g->sequence, head);
    char *path = ea_spool_segment_path(s->dir, g->sequence);
    if (!path)
        return ea_fail(err, EA_ENOMEM, "append to the spool %s", s->dir);
    int rc = ea_file_open(&g->file, path, EA_OPEN_CREATE, err);
    if (!rc) {
        rc = ea_file_write_at(g->file, 0, bytes, head_bytes, err);
        if (!rc && s->o.sync != EA_SPOOL_SYNC_NEVER)
            rc = ea_path_sync_dir(s->dir, err);
        if (rc) {
            ea_file_close(g->file);
            EA_IGNORE(ea_path_remove(path, NULL));
        }
    }
    free(path);
    g->size_bytes = head_bytes;
    return rc;
}

/* A new segment; it is not in the list yet. */
static int create_segment(ea_spool *s, unsigned class, segment **ret, ea_err *err) EA_REQUIRES(s->write_lock) {
    ea_spool_assert_held(s, s->write_lock);
    ea_spool_head head = {
        .priority = class % EA_SPOOL_PRIORITIES, .created_utc_ns = ea_spool_age_clock(s), .is_sealed = s->keys != NULL};
    segment *g = calloc(1, sizeof *g);
    int rc = 0;
    if (!g)
        return ea_fail(err, EA_ENOMEM, "append to the spool %s", s->dir);
    ea_mutex_lock(s->lock);
    g->sequence = s->next_sequence++;
    ea_mutex_unlock(s->lock);
    g->priority = head.priority;
    g->is_resumable = class >= EA_SPOOL_PRIORITIES;
    g->is_sealed = head.is_sealed;
    if (s->keys) {
        memcpy(head.key_id, ea_spool_keys_newest(s->keys), sizeof head.key_id);
        rc = ea_random_bytes(head.salt, sizeof head.salt, err);
        if (!rc)
            rc = ea_spool_segment_key(s->keys, g->sequence, &head, &g->key, err);
    }
    if (!rc)
        rc = create_segment_file(s, g, &head, err);
    if (rc) {
        ea_spool_free_segment(g);
        return rc;
    }
    g->begun_ns = ea_monotonic_ns();
    g->first_utc_ns = INT64_MAX;
    g->last_utc_ns = INT64_MIN;
    *ret = g;
    return 0;
}

/* The caller holds `write_lock`. The open segment of a class for a record of need bytes; creates one if needed. */
static int segment_for(ea_spool *s, unsigned class, uint64_t need, segment **ret, ea_err *err)
    EA_REQUIRES(s->write_lock) {
    ea_spool_assert_held(s, s->write_lock);
    segment *g;
    int rc = find_open_segment(s, class, need, &g, err);
    if (!rc && !g) {
        rc = create_segment(s, class, &g, err);
        if (!rc) {
            ea_mutex_lock(s->lock);
            g->next = s->segments;
            s->segments = g;
            s->active[class] = g;
            s->disk_bytes += g->size_bytes;
            ea_mutex_unlock(s->lock);
        }
    }
    if (!rc)
        *ret = g;
    return rc;
}

int ea_spool_sync_open(ea_spool *s, ea_err *err) {
    ea_spool_assert_held(s, s->write_lock);
    int rc = s->descriptions ? ea_descriptions_sync(s->descriptions, err) : 0;
    for (unsigned i = 0; !rc && i < SEGMENT_CLASSES; i++) {
        ea_mutex_lock(s->lock);
        ea_file *f = s->active[i] ? s->active[i]->file : NULL; /* only a holder of `write_lock` closes it */
        ea_mutex_unlock(s->lock);
        if (f && (s->unsynced & 1 << i))
            rc = ea_file_sync(f, err);
    }
    if (!rc && s->deferred_unsynced)
        rc = ea_file_sync(s->deferred_file, err);
    if (!rc)
        s->unsynced = s->deferred_unsynced = 0;
    return rc;
}

/* The caller holds `write_lock`. Encrypts the batch of the record if the segment is encrypted; *ret_sealed is then the
 * encrypted batch, which the caller frees. */
static int spool_write_seal(ea_spool *s, segment *g, ea_spool_record *r, uint8_t **ret_sealed, ea_err *err) {
    if (!g->is_sealed || r->flags & EA_SPOOL_TOMBSTONE)
        return 0;
    uint8_t *out = malloc((size_t)r->len_bytes + EA_SPOOL_SEAL_BYTES);
    if (!out)
        return ea_fail(err, EA_ENOMEM, "append to the spool %s", s->dir);
    int rc = ea_spool_seal(&g->key, g->seal_attempts++, r, out, err);
    if (rc) {
        free(out);
        return rc;
    }
    *ret_sealed = out;
    return 0;
}

int ea_spool_write_record(ea_spool *s, const ea_spool_record *given, const ea_family_count *families,
                          size_t family_count, ea_err *err) {
    ea_spool_assert_held(s, s->write_lock);
    segment *g = NULL;
    ea_spool_record written = *given, *r = &written;
    unsigned class = ea_spool_segment_class(r->priority, r->flags & EA_SPOOL_RESUMABLE);
    uint8_t fields[EA_SPOOL_RECORD_BYTES], *sealed = NULL;
    uint64_t need = 0;
    size_t added = 0;
    /* definitions first: each batch on disk refers only to definitions on disk */
    int rc = s->descriptions ? ea_descriptions_add_batch(s->descriptions, r->batch, r->len_bytes, &added, err) : 0;
    if (!rc)
        rc = segment_for(s, class, EA_SPOOL_RECORD_BYTES + (uint64_t)r->len_bytes, &g, err);
    if (!rc)
        rc = spool_write_seal(s, g, r, &sealed, err);
    if (!rc) {
        need = EA_SPOOL_RECORD_BYTES + (uint64_t)r->len_bytes;
        r->offset = g->size_bytes; /* only a holder of `write_lock` changes an open segment's size */
        ea_spool_put_record(fields, r, g->sequence);
        rc = ea_file_write_at(g->file, r->offset, fields, sizeof fields, err);
        if (!rc)
            rc = ea_file_write_at(g->file, r->offset + sizeof fields, r->batch, r->len_bytes, err);
        s->unsynced |= 1 << class;
        if (!rc && s->o.sync == EA_SPOOL_SYNC_ALWAYS)
            rc = ea_spool_sync_open(s, err);
        if (rc) {
            /* a partial record follows the whole ones: truncate it, or close this segment and use another one */
            ea_err ignored;
            int cut = ea_file_truncate(g->file, r->offset, &ignored);
            ea_mutex_lock(s->lock);
            ea_file *f = NULL;
            if (cut) {
                f = g->file;
                g->file = NULL;
                s->active[class] = NULL;
                if (!g->live)
                    ea_spool_retire_segment(s, g);
            }
            ea_mutex_unlock(s->lock);
            ea_file_close(f);
        }
    }
    if (!rc) {
        ea_mutex_lock(s->lock);
        stream *k = ea_spool_find_stream(s, r->stream);
        if (!k)
            rc = EA_EINVAL;
        else if (s->o.is_recorder)
            rc = ea_spool_hold(s, k, g, r, 1, families, family_count);
        else
            rc = ea_spool_add_entry(s, k, g, r, 1, families, family_count);
        if (rc) {
            ea_fail(err, rc, "append to the spool %s", s->dir);
        } else {
            ea_spool_note_time(s, g, given->batch, given->len_bytes);
            g->size_bytes += need;
            s->disk_bytes += need;
            s->dirty = 1;
            if (k->ledger)
                ea_ledger_post(k->ledger,
                               (ea_posting[]){{EA_COUNT_events_compressing, -(int64_t)r->event_count},
                                              {ea_spool_counter(s, EA_COUNT_events_spooled), r->event_count}},
                               2, families, family_count);
            ea_cond_signal(s->work);
            if (!s->has_unsynced) {
                s->has_unsynced = 1;
                ea_cond_signal(s->tick);
            }
        }
        ea_mutex_unlock(s->lock);
    }
    free(sealed);
    return rc;
}

int ea_spool_write_tombstones(ea_spool *s, const uint8_t *id, uint64_t number, const ea_tombstone *tombstones,
                              size_t count, ea_err *err) {
    ea_spool_assert_held(s, s->write_lock);
    ea_text batch;
    ea_text_init(&batch);
    int rc = ea_batch_make_tombstone(id, number, tombstones, count, &batch, err);
    if (!rc && batch.len_bytes > EA_BATCH_MAX_BYTES)
        rc = ea_fail(err, EA_ELIMIT, "write %zu tombstones at once", count);
    if (!rc) {
        ea_spool_record r = {.number = number,
                             .priority = EA_SPOOL_PRIORITIES - 1, /* it is sent soon and evicted last */
                             .flags = EA_SPOOL_TOMBSTONE,
                             .batch = (const uint8_t *)batch.data,
                             .len_bytes = (uint32_t)batch.len_bytes};
        memcpy(r.stream, id, sizeof r.stream);
        rc = ea_spool_write_record(s, &r, NULL, 0, err);
    }
    ea_text_deinit(&batch);
    return rc;
}
