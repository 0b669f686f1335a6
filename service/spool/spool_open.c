/* The spool: recovery of an earlier process's files, closing, and inspection from outside. See spool.h and
 * spool_core.h. */
#include "proto/base/pattern.h"
#include "service/spool/spool_core.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening: recovery of an earlier process's files ---- */

typedef struct recovery {
    ea_spool *s;
    segment *segment;
    uint64_t locked_batches, locked_events; /* of live streams */
    uint64_t key_id;                        /* the key of one of them */
    ea_err *err;
} recovery;

static int recover_stream(ea_spool_stream_state *state, void *arg) EA_SPOOL_ALONE {
    recovery *r = arg;
    stream *k;
    if (ea_spool_find_stream(r->s, state->stream)) {
        ea_spool_state_deinit(state);
        return 0;
    }
    int rc = ea_spool_add_stream(r->s, state, &k);
    if (rc) {
        ea_spool_state_deinit(state);
        return ea_fail(r->err, rc, "recover the spool %s", r->s->dir);
    }
    k->recorded = 1;
    if (k->state.numbers)
        k->saved_acknowledged = k->state.numbers->values[EA_COUNT_events_acknowledged];
    return 0;
}

/* Later numbers of a stream without a closing batch; a batch that cannot be read has none. */
static int recover_numbers(const recovery *r, stream *k, const ea_spool_record *record) {
    ea_spool_record opened = *record;
    ea_err unread;
    uint8_t *plain = NULL;
    int is_ended = 0, rc = 0;
    if (!k->state.numbers || record->flags & EA_SPOOL_TOMBSTONE)
        return 0;
    if (record->flags & EA_SPOOL_SEALED) {
        if (r->segment->is_locked)
            return 0;
        if (!(plain = malloc(ea_spool_batch_bytes(record) + 1)))
            return EA_ENOMEM;
        rc = ea_spool_unseal(&r->segment->key, &opened, plain, &unread);
    }
    if (!rc)
        rc = ea_last_numbers_take_batch(k->state.numbers, opened.batch, opened.len_bytes, &is_ended, &unread);
    if (is_ended) {
        free(k->state.numbers);
        k->state.numbers = NULL;
    }
    free(plain);
    return rc == EA_ENOMEM ? rc : 0;
}

/* A recorder's segment's times, as its readable batches say. */
static int recover_time(const recovery *r, const ea_spool_record *record) {
    ea_spool_record opened = *record;
    uint8_t *plain = NULL;
    int is_sealed = record->flags & EA_SPOOL_SEALED, rc = 0;
    if (is_sealed && r->segment->is_locked)
        return 0;
    if (is_sealed && !(plain = malloc(ea_spool_batch_bytes(record) + 1)))
        return EA_ENOMEM;
    if (is_sealed)
        rc = ea_spool_unseal(&r->segment->key, &opened, plain, NULL);
    if (!rc)
        ea_spool_note_time(r->s, r->segment, opened.batch, opened.len_bytes);
    free(plain);
    return 0;
}

static int cover(const ea_tombstone *t, void *arg) {
    stream *k = arg;
    return ea_range_set_add(&k->covered, t->first, t->last);
}

/* 1 when the record is a tombstone that replaces the entry. This happens when a crash came after the tombstone was
 * written and before the evicted segment's file was deleted: the state may have settled all numbers but this one, so
 * the tombstone has to be sent. Of two tombstones the newer one names all numbers of the older one. */
static int is_outlived(const recovery *r, const entry *here, const ea_spool_record *record) {
    return record->flags & EA_SPOOL_TOMBSTONE &&
           (!here->tombstone || here->segment->sequence < r->segment->sequence || here->segment == r->segment);
}

static void outlive(const recovery *r, entry *e, const ea_spool_record *tombstone) EA_SPOOL_ALONE {
    segment *before = e->segment;
    ea_spool_dequeue(r->s, e);
    r->segment->live++;
    e->segment = r->segment;
    e->offset = (uint32_t)tombstone->offset;
    e->len_bytes = tombstone->len_bytes;
    e->event_count = tombstone->event_count;
    e->priority = (uint8_t)r->segment->priority;
    e->tombstone = 1;
    e->sealed = e->locked = 0;
    ea_spool_enqueue(r->s, e, 0);
    if (--before->live == 0)
        ea_spool_retire_segment(r->s, before);
}

static int recover_record(const ea_spool_record *record, void *arg) EA_SPOOL_ALONE {
    recovery *r = arg;
    uint64_t number = record->number;
    stream *k = ea_spool_resolve_stream(r->s, record->stream, &number);
    int rc = 0;
    if (!k) { /* the state file is missing or older than the stream */
        ea_spool_stream_state state = {.resumable =
                                           record->flags & EA_SPOOL_RESUMABLE ? EA_SPOOL_REPLAY : EA_SPOOL_LIVE};
        memcpy(state.stream, record->stream, sizeof state.stream);
        rc = ea_spool_add_stream(r->s, &state, &k);
    }
    if (!rc)
        rc = ea_spool_attach(r->segment, k);
    if (!rc && number == record->number)
        rc = recover_numbers(r, k, record);
    if (!rc && r->s->o.is_recorder)
        rc = recover_time(r, record);
    int is_locked = r->segment->is_locked && record->flags & EA_SPOOL_SEALED;
    if (r->s->o.is_recorder) {
        r->locked_batches += (uint64_t)is_locked;
        r->locked_events += is_locked ? record->event_count : 0;
        rc = rc ? rc : ea_spool_hold(r->s, k, r->segment, record, 0, NULL, 0);
        return rc ? ea_fail(r->err, rc, "recover the recorder %s", r->s->dir) : 0;
    }
    if (!rc && record->flags & EA_SPOOL_TOMBSTONE && number == record->number) {
        rc = ea_batch_each_tombstone(record->batch, record->len_bytes, cover, k, NULL);
        rc = rc == EA_ENOMEM ? rc : 0; /* an unreadable tombstone covers no number */
    }
    if (!rc && is_locked && k->state.resumable != EA_SPOOL_LIVE)
        return 0; /* the replay makes it again */
    entry *here = rc ? NULL : ea_spool_find_entry(k, number);
    if (here && is_outlived(r, here, record)) {
        r->locked_batches -= here->locked;
        r->locked_events -= here->locked ? here->event_count : 0;
        outlive(r, here, record);
        return 0;
    }
    if (!rc && !here && !ea_range_set_has(&k->state.acknowledged, number)) {
        ea_spool_record kept = *record;
        kept.number = number;
        kept.priority = (uint16_t)r->segment->priority; /* a segment's batches are of one priority */
        rc = ea_spool_add_entry(r->s, k, r->segment, &kept, 0, NULL, 0);
        if (!rc) {
            entry *e = ea_spool_find_entry(k, number);
            e->disk_number = record->number;
            e->moved = memcmp(k->state.stream, record->stream, EA_STREAM_ID_BYTES) != 0;
            r->locked_batches += (uint64_t)is_locked;
            r->locked_events += is_locked ? record->event_count : 0;
        }
    }
    return rc ? ea_fail(r->err, rc, "recover the spool %s", r->s->dir) : 0;
}

static void spool_open_count(ea_spool *s, enum ea_counter which, uint64_t by) {
    if (s->o.counters && by)
        ea_count(s->o.counters, which, by);
}

/* Renames a file that is not a readable segment to NAME.bad. It is not deleted: a person may want to inspect it,
 * perhaps with a newer version. */
static int spool_open_set_aside(ea_spool *s, const char *path, uint64_t len_bytes, const ea_err *why, ea_err *err) {
    ea_text text;
    size_t n = strlen(path) + 5;
    char *to = malloc(n);
    if (!to)
        return ea_fail(err, EA_ENOMEM, "recover the spool %s", s->dir);
    snprintf(to, n, "%s.bad", path);
    spool_open_count(s, EA_COUNT_spool_bad_bytes, len_bytes);
    int rc = ea_path_rename(path, to, err);
    ea_text_init(&text);
    ea_text_printf(&text, "%s; it is set aside as %s", why->message, to);
    if (!rc && s->o.on_note && !text.failed)
        s->o.on_note(s->o.arg, text.data);
    ea_text_deinit(&text);
    free(to);
    return rc;
}

/* Computes the ages of segments of earlier processes in this process's monotonic clock. The segments' heads have the
 * times of ea_spool_age_clock, which steps of the wall clock do not change. Between the newest of these times and now
 * the wall clock may have been set. This time therefore counts as an eighth of the age limit at the most, and as
 * nothing when the newest time is in the future. */
static void set_ages(ea_spool *s) {
    int64_t newest = INT64_MIN, utc_ns = ea_utc_ns(), allowed = s->o.limit_age_ns / 8;
    for (const segment *g = s->segments; g; g = g->next)
        if (g->begun_ns > newest)
            newest = g->begun_ns;
    s->opened_ns = ea_monotonic_ns();
    s->opened_age_ns = newest > utc_ns ? newest : utc_ns;
    if (newest != INT64_MIN && s->o.limit_age_ns && s->opened_age_ns - newest > allowed)
        s->opened_age_ns = newest + allowed;
    for (segment *g = s->segments; g; g = g->next)
        g->begun_ns = s->opened_ns - (s->opened_age_ns - g->begun_ns);
}

/* Derives the key of an encrypted segment. Without its key the segment is locked: its records stay on disk. */
static int spool_open_unlock(recovery *r, segment *g, const ea_spool_head *head) {
    ea_err why;
    if (!head->is_sealed)
        return 0;
    g->is_sealed = 1;
    int rc = ea_spool_segment_key(r->s->keys, g->sequence, head, &g->key, &why);
    if (rc == EA_ENOTFOUND) {
        g->is_locked = 1;
        r->key_id = ea_load64(head->key_id);
        return 0;
    }
    return rc ? ea_fail(r->err, rc, "recover the spool %s", r->s->dir) : 0;
}

/* A recorder's closed segment, without reading it. 1: it is in the list; 0: it has to be read. */
static int recover_summed_up(recovery *r, uint64_t sequence) EA_SPOOL_ALONE {
    ea_spool *s = r->s;
    uint8_t bytes[EA_SPOOL_SEALED_HEAD_BYTES];
    size_t got = 0;
    ea_file *file = NULL;
    ea_spool_head head;
    char *path = ea_spool_segment_path(s->dir, sequence);
    segment *g = calloc(1, sizeof *g);
    int rc = path && g ? 0 : ea_fail(r->err, EA_ENOMEM, "recover the recorder %s", s->dir);
    if (!rc && !ea_file_open(&file, path, EA_OPEN_READ, NULL) &&
        !ea_file_read_at(file, 0, bytes, sizeof bytes, &got, NULL) && ea_spool_is_head(bytes, got, sequence, &head)) {
        g->sequence = sequence;
        g->priority = head.priority;
        g->begun_ns = head.created_utc_ns < 0 ? 0 : head.created_utc_ns; /* UTC until set_ages converts it */
        rc = spool_open_unlock(r, g, &head);
        if (!rc && !ea_file_size(file, &g->size_bytes, NULL))
            rc = ea_spool_recover_summed_up(s, g, file, r->err);
    }
    ea_file_close(file);
    free(path);
    if (rc > 0) {
        g->next = s->segments;
        s->segments = g;
        s->disk_bytes += g->size_bytes;
        for (size_t i = 0; g->is_locked && i < g->holding_count; i++) {
            r->locked_batches += g->holdings[i].share.batches;
            r->locked_events += g->holdings[i].share.events;
        }
    } else if (g) {
        ea_spool_free_segment(g);
    }
    return rc;
}

static int recover_segment(recovery *r, uint64_t sequence) EA_SPOOL_ALONE {
    ea_spool *s = r->s;
    ea_err *err = r->err;
    char *data = NULL, *path = ea_spool_segment_path(s->dir, sequence);
    size_t len_bytes = 0;
    segment *g = calloc(1, sizeof *g);
    ea_spool_scanned scanned = {0};
    ea_spool_head head = {0};
    ea_err why;
    int rc = path && g ? 0 : ea_fail(err, EA_ENOMEM, "recover the spool %s", s->dir);
    if (!rc && ea_path_read_all(path, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, &why)) {
        rc = spool_open_set_aside(s, path, 0, &why, err);
        free(path);
        free(g);
        return rc;
    }
    if (!rc) {
        g->sequence = sequence;
        g->first_utc_ns = INT64_MAX;
        g->last_utc_ns = INT64_MIN;
        g->next = s->segments;
        s->segments = g;
        if (ea_spool_is_torn_head((const uint8_t *)data, len_bytes, sequence)) {
            scanned.torn_bytes = len_bytes; /* the process was killed while it created the segment */
        } else if (!ea_spool_is_head((const uint8_t *)data, len_bytes, sequence, &head)) {
            int unread = ea_spool_scan((const uint8_t *)data, len_bytes, sequence, recover_record, r, &scanned, &why);
            rc = unread ? spool_open_set_aside(s, path, len_bytes, &why, err) : 0;
            s->segments = g->next;
            free(data);
            free(path);
            free(g);
            return rc;
        } else {
            g->priority = head.priority;
            g->begun_ns = head.created_utc_ns < 0 ? 0 : head.created_utc_ns; /* UTC until set_ages converts it */
            r->segment = g;
            rc = spool_open_unlock(r, g, &head);
            if (!rc)
                rc = ea_spool_scan((const uint8_t *)data, len_bytes, sequence, recover_record, r, &scanned, err);
            g->size_bytes = scanned.whole_bytes;
        }
    }
    free(data);
    if (!rc) {
        spool_open_count(s, EA_COUNT_spool_torn_bytes, scanned.torn_bytes);
        spool_open_count(s, EA_COUNT_spool_bad_bytes, scanned.bad_bytes);
        s->disk_bytes += g->size_bytes;
        ea_file *f;
        if (!g->live) {
            ea_spool_retire_segment(s, g);
        } else if ((scanned.torn_bytes || s->o.is_recorder) && !(rc = ea_file_open(&f, path, EA_OPEN_APPEND, err))) {
            rc = scanned.torn_bytes ? ea_file_truncate(f, scanned.whole_bytes, err) : 0;
            if (!rc)
                ea_spool_sum_up(s, g, f);
            ea_file_close(f);
        }
    } else if (g && g->sequence == 0) {
        ea_spool_free_segment(g);
    }
    free(path);
    return rc;
}

static int recover_name(const char *name, int is_dir, void *arg) {
    recovery *r = arg;
    uint64_t sequence;
    size_t n = strlen(name);
    if (is_dir)
        return 0;
    if (n > 4 && strcmp(name + n - 4, ".tmp") == 0) {
        char *path = ea_spool_join(r->s->dir, name);
        int rc = path ? ea_path_remove(path, r->err) : ea_fail(r->err, EA_ENOMEM, "recover the spool %s", r->s->dir);
        free(path);
        return rc;
    }
    if (!ea_spool_segment_sequence(name, &sequence))
        return 0;
    if (sequence >= r->s->next_sequence)
        r->s->next_sequence = sequence + 1;
    int is_known = r->s->o.is_recorder ? recover_summed_up(r, sequence) : 0;
    return is_known < 0 ? is_known : is_known ? 0 : recover_segment(r, sequence);
}

/* Reads the state file; a missing file is no error. The caller handles EA_ECORRUPT. */
static int spool_open_read_state(const char *dir, int (*fn)(ea_spool_stream_state *, void *), void *arg, ea_err *err) {
    char *data = NULL, *path = ea_spool_join(dir, "state");
    size_t len_bytes = 0;
    if (!path)
        return ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    int rc = ea_path_read_all(path, EA_SPOOL_STATE_MAX, &data, &len_bytes, err);
    free(path);
    if (rc == EA_ENOTFOUND)
        return 0;
    if (!rc)
        rc = ea_spool_state_parse(data, len_bytes, fn, arg, err);
    free(data);
    return rc;
}

static void report_locked(const recovery *r) {
    const ea_spool *s = r->s;
    ea_text text;
    spool_open_count(r->s, EA_COUNT_spool_locked_events, r->locked_events);
    if (!s->o.on_note)
        return;
    ea_text_init(&text);
    ea_text_printf(&text, "%llu batches with %llu events in the spool %s are encrypted with key %016llx, ",
                   (unsigned long long)r->locked_batches, (unsigned long long)r->locked_events, s->dir,
                   (unsigned long long)r->key_id);
    if (s->o.key_path)
        ea_text_printf(&text, "which is not in %s", s->o.key_path);
    else
        ea_text_str(&text, "and no key file was given");
    ea_text_str(&text, ": they wait until it is, or until they are dropped");
    if (!text.failed)
        s->o.on_note(s->o.arg, text.data);
    ea_text_deinit(&text);
}

/* Settles the numbers that the stream's tombstones cover, even if the saved state does not have them yet; except
 * numbers of batches that are in the spool. */
static int settle_covered(stream *k) {
    ea_range_set here = {0};
    size_t cursor = 0;
    uint64_t number, value;
    int rc = 0;
    while (!rc && ea_u64_map_next(&k->entries, &cursor, &number, &value))
        rc = ea_range_set_add(&here, number, number);
    for (size_t i = 0; !rc && i < k->covered.count; i++)
        rc = ea_spool_add_rest(&k->state.acknowledged, k->covered.ranges[i].first, k->covered.ranges[i].last, &here);
    free(here.ranges);
    free(k->covered.ranges);
    k->covered = (ea_range_set){0};
    return rc;
}

static int recover(ea_spool *s, ea_err *err) {
    recovery r = {.s = s, .err = err};
    ea_err why = {0};
    int rc = spool_open_read_state(s->dir, recover_stream, &r, &why);
    if (rc && err)
        *err = why;
    if (rc == EA_ECORRUPT || rc == EA_EUNSUPPORTED || rc == EA_ELIMIT) {
        /* Without the state every batch in the spool is sent (again): the collector detects duplicates. */
        char *path = ea_spool_join(s->dir, "state");
        rc = path ? spool_open_set_aside(s, path, 0, &why, err) : ea_fail(err, EA_ENOMEM, "open the spool %s", s->dir);
        free(path);
    }
    if (!rc)
        rc = ea_path_list(s->dir, recover_name, &r, err);
    set_ages(s);
    if (!rc && r.locked_batches)
        report_locked(&r);
    for (stream *k = s->streams; !rc && k; k = k->next)
        if (k->covered.count && (rc = settle_covered(k)) != 0)
            ea_fail(err, rc, "recover the spool %s", s->dir);
    if (!rc)
        rc = ea_spool_recover_deferred(s, err);
    return rc;
}

/* A live stream of an earlier process must not have a hole either: the numbers of batches that were lost by damage or a
 * crash get a tombstone. The number of their events is unknown. Streams of replays are not handled here: a replay makes
 * its batches again. */
static int mend_holes(ea_spool *s, stream *k, int *ret_mended, ea_err *err) EA_SPOOL_ALONE {
    ea_range_set there = {0};
    ea_tombstone *holes = NULL;
    size_t count = 0, cursor = 0;
    uint64_t number, e, last = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < k->state.acknowledged.count; i++)
        rc = ea_range_set_add(&there, k->state.acknowledged.ranges[i].first, k->state.acknowledged.ranges[i].last);
    while (!rc && ea_u64_map_next(&k->entries, &cursor, &number, &e))
        rc = ea_range_set_add(&there, number, number);
    for (size_t i = 0; !rc && i < k->deferred_count; i++)
        rc = ea_range_set_add(&there, k->deferred[i].first, k->deferred[i].last);
    if (!rc && !(holes = calloc(there.count + 1, sizeof *holes)))
        rc = EA_ENOMEM;
    if (rc)
        ea_fail(err, rc, "recover the spool %s", s->dir);
    for (size_t i = 0; !rc && i <= there.count; i++) {
        uint64_t end = i < there.count ? there.ranges[i].first - 1 : k->state.highest;
        if (end > last)
            holes[count++] = (ea_tombstone){
                .first = last + 1, .last = end, .cause = ea_counter_row(EA_COUNT_events_evicted_damage)->number};
        if (i < there.count)
            last = there.ranges[i].last;
    }
    if (!rc && count)
        *ret_mended = 1;
    for (size_t at = 0, n; !rc && at < count; at += n) { /* those of one batch */
        const ea_tombstone *rows = holes + at;
        n = count - at < EA_WRITER_TOMBSTONES ? count - at : EA_WRITER_TOMBSTONES;
        /* the tombstone's own number is not settled yet; all others are */
        rc = ea_spool_write_tombstones(s, k->state.stream, rows[0].first, rows, n, err);
        int is_owed = rc == EA_EFULL;
        if (is_owed) {
            ea_spool_defer_tombstones(s, k, rows[0].first, rows, n);
            rc = 0;
        }
        for (size_t i = 0; !is_owed && !rc && i < n; i++) {
            uint64_t first = rows[i].first + (i == 0);
            if (first <= rows[i].last && ea_range_set_add(&k->state.acknowledged, first, rows[i].last))
                rc = ea_fail(err, EA_ENOMEM, "recover the spool %s", s->dir);
        }
    }
    free(holes);
    free(there.ranges);
    return rc;
}

/* ---- the owner ---- */

static int read_owner(ea_spool *s, ea_err *err) {
    int rc = ea_spool_owner_read(s->dir, s->owner, err);
    if (rc == EA_ENOTFOUND)
        return 0;
    if (!rc && s->o.owner && !ea_name_equal(s->owner, s->o.owner))
        rc = ea_fail(err, EA_ECONFLICT,
                     "open the spool %s: its batches are those of '%s', and this certificate is of '%s'; name another "
                     "folder with --spool, or send them with 'etwagent spool drain' and a certificate of that name",
                     s->dir, s->owner, s->o.owner);
    return rc;
}

const char *ea_spool_owner(const ea_spool *s) {
    return s->owner;
}

int ea_spool_own(ea_spool *s, const char *name, ea_err *err) {
    ea_spool_status now;
    if (s->owner[0] && ea_name_equal(s->owner, name))
        return 0;
    if (s->owner[0])
        return ea_fail(err, EA_ECONFLICT,
                       "send the spool %s: its batches are those of '%s', and this certificate is of '%s'; start "
                       "the agent again, so that it keeps those of '%s' apart, and send these with 'etwagent spool "
                       "drain --from %s' when that is the former name of this machine",
                       s->dir, s->owner, name, name, s->owner);
    int rc = ea_spool_owner_write(s->dir, name, err);
    if (rc)
        return rc;
    snprintf(s->owner, sizeof s->owner, "%s", name);
    ea_spool_get_status(s, &now);
    size_t here = now.waiting + now.taken + now.locked;
    ea_text text;
    ea_text_init(&text);
    ea_text_printf(&text,
                   "the spool %s had no owner's name (an older version wrote it, or the agent had no certificate "
                   "yet): its %zu batches are sent as those of '%s'",
                   s->dir, here, name);
    if (here && s->o.on_note && !text.failed)
        s->o.on_note(s->o.arg, text.data);
    ea_text_deinit(&text);
    return 0;
}

int ea_spool_open(ea_spool **ret, const char *dir, const ea_spool_options *options, ea_err *err) EA_SPOOL_ALONE {
    ea_spool *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    s->o = *options;
    if (!s->o.limit_bytes)
        s->o.limit_bytes = (uint64_t)1 << 30;
    if (!s->o.segment_bytes)
        s->o.segment_bytes = 8 << 20;
    if (s->o.segment_bytes > 64 << 20)
        s->o.segment_bytes = 64 << 20;
    if (s->o.segment_bytes > s->o.limit_bytes / 4)
        s->o.segment_bytes = s->o.limit_bytes / 4;
    if (!s->o.limit_batches)
        s->o.limit_batches = 131072;
    if (!s->o.sync_interval_ns)
        s->o.sync_interval_ns = 1000000000;
    s->next_sequence = 1;
    s->saved_ns = ea_monotonic_ns();
    s->dir = ea_spool_join(dir, "");
    char *lock_path = ea_spool_join(dir, "lock"), *classes_path = ea_spool_join(dir, "classes");
    int rc = s->dir && lock_path && classes_path ? 0 : ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    if (!rc)
        s->dir[strlen(s->dir) - 1] = 0; /* without the slash */
    ea_mutex **locks[] = {&s->save_lock, &s->write_lock, &s->read_lock, &s->lock};
    for (size_t i = 0; !rc && i < 4; i++)
        rc = ea_mutex_create(locks[i], err);
    if (!rc)
        rc = ea_cond_create(&s->room, err);
    if (!rc)
        rc = ea_cond_create(&s->work, err);
    if (!rc)
        rc = ea_cond_create(&s->tick, err);
    if (!rc)
        rc = ea_path_make_dirs(dir, err);
    if (!rc)
        rc = ea_file_open(&s->lock_file, lock_path, EA_OPEN_APPEND, err);
    if (!rc && (rc = ea_file_try_lock(s->lock_file, err)) == EA_EBUSY)
        rc = ea_fail(err, EA_EBUSY, "open the spool %s: another process has it; name another folder with --spool", dir);
    if (!rc)
        rc = read_owner(s, err);
    if (!rc && s->o.key_path) {
        s->keys = calloc(1, sizeof *s->keys);
        rc = s->keys ? ea_spool_keys_read(s->keys, s->o.key_path, 1, err)
                     : ea_fail(err, EA_ENOMEM, "open the spool %s", dir);
    }
    if (!rc)
        rc = recover(s, err);
    if (!rc && s->o.owner)
        rc = ea_spool_own(s, s->o.owner, err);
    if (!rc && !s->o.is_recorder)
        rc =
            ea_descriptions_open(&s->descriptions, classes_path, s->waiting_count + s->locked_count == 0, s->keys, err);
    int mended = 0;
    for (stream *k = s->streams; !rc && !s->o.is_recorder && k; k = k->next)
        if (k->recorded && k->state.resumable == EA_SPOOL_LIVE)
            rc = mend_holes(s, k, &mended, err);
    if (!rc && (s->deferring_streams || s->deferred_rows)) {
        ea_mutex_lock(s->write_lock);
        ea_spool_note_deferred(s);
        ea_spool_write_deferred(s, 0);
        ea_mutex_unlock(s->write_lock);
        mended = 1;
    }
    for (stream *k = s->streams, *next; !rc && k; k = next) { /* removes finished streams of earlier processes */
        next = k->next;
        ea_spool_unref_stream(s, k);
    }
    if (!rc)
        rc = ea_spool_reap(s, mended, err);
    if (!rc) {
        s->is_shared = 1;
        rc = ea_spool_start_maintenance(s, err);
    }
    free(lock_path);
    free(classes_path);
    if (rc) {
        EA_IGNORE(ea_spool_close(s, NULL));
        return rc;
    }
    s->opened = 1;
    *ret = s;
    return 0;
}

int ea_spool_close(ea_spool *s, ea_err *err) EA_SPOOL_ALONE {
    int rc = 0;
    if (!s)
        return 0;
    ea_spool_end_maintenance(s);
    s->is_shared = 0;
    if (s->opened)
        ea_spool_write_deferred(s, 1);
    for (unsigned i = 0; i < SEGMENT_CLASSES; i++) {
        segment *g = s->active[i];
        if (!g)
            continue;
        if (s->opened && g->live)
            ea_spool_sum_up(s, g, g->file);
        if (!rc && s->o.sync != EA_SPOOL_SYNC_NEVER && g->live)
            rc = ea_file_sync(g->file, err);
        ea_file_close(g->file);
        s->active[i] = NULL;
        if (!g->live)
            ea_spool_retire_segment(s, g);
    }
    for (stream *k = s->streams, *next; k; k = next) {
        next = k->next;
        k->open = 0;
        ea_spool_unref_stream(s, k);
    }
    if (s->opened && (s->dirty || s->dead)) {
        ea_err later;
        int reaped = ea_spool_reap(s, 1, rc ? &later : err);
        rc = rc ? rc : reaped;
    }
    for (segment *g = s->segments, *next; g; g = next) {
        next = g->next;
        ea_spool_free_segment(g);
    }
    for (segment *g = s->dead, *next; g; g = next) {
        next = g->next;
        ea_spool_free_segment(g);
    }
    for (stream *k = s->streams, *next; k; k = next) {
        next = k->next;
        ea_spool_free_stream(k);
    }
    ea_file_close(s->reader);
    ea_file_close(s->deferred_file);
    ea_descriptions_close(s->descriptions);
    ea_file_close(s->lock_file);
    ea_cond_destroy(s->room);
    ea_cond_destroy(s->work);
    ea_cond_destroy(s->tick);
    ea_mutex_destroy(s->save_lock);
    ea_mutex_destroy(s->write_lock);
    ea_mutex_destroy(s->read_lock);
    ea_mutex_destroy(s->lock);
    if (s->keys)
        ea_spool_keys_clear(s->keys);
    free(s->keys);
    free(s->dir);
    free(s);
    return rc;
}

/* ---- looking ---- */

typedef struct visit {
    const char *dir;
    const ea_spool_visitor *v;
    ea_err *err;
    ea_spool_stream_state *states;
    size_t state_count;
    const char *segment; /* the one at hand */
    ea_sealing_key key;  /* its */
    int has_key;
} visit;

static int visit_state(ea_spool_stream_state *state, void *arg) {
    visit *w = arg;
    ea_spool_stream_state *grown = realloc(w->states, (w->state_count + 1) * sizeof *grown);
    if (!grown) {
        ea_spool_state_deinit(state);
        return ea_fail(w->err, EA_ENOMEM, "read the spool %s", w->dir);
    }
    w->states = grown;
    w->states[w->state_count++] = *state;
    return w->v->on_stream ? w->v->on_stream(state, w->v->arg) : 0;
}

static int visit_record(const ea_spool_record *record, void *arg) {
    const visit *w = arg;
    ea_spool_record plain_record = *record;
    ea_spool_seen seen = {.segment = w->segment,
                          .record = &plain_record,
                          .stream = record->stream,
                          .number = record->number,
                          .opened = !(record->flags & EA_SPOOL_SEALED)};
    uint8_t *plain = NULL;
    if (!seen.opened && w->has_key) {
        if (!(plain = malloc(record->len_bytes)))
            return ea_fail(w->err, EA_ENOMEM, "read the spool %s", w->dir);
        int rc = ea_spool_unseal(&w->key, &plain_record, plain, NULL);
        seen.opened = rc ? rc : 1;
    }
    for (size_t i = 0; i < w->state_count; i++)
        if (ea_spool_state_has_moved(&w->states[i], record->stream, record->number, &seen.number))
            seen.stream = w->states[i].stream;
    for (size_t i = 0; i < w->state_count; i++)
        if (memcmp(w->states[i].stream, seen.stream, EA_STREAM_ID_BYTES) == 0)
            seen.acknowledged = ea_range_set_has(&w->states[i].acknowledged, seen.number);
    int rc = w->v->on_record ? w->v->on_record(&seen, w->v->arg) : 0;
    free(plain);
    return rc;
}

/* 1: the segment's records are wanted. */
static int visit_summary(const visit *w, const char *name, const char *path, uint64_t sequence) {
    ea_file *file;
    ea_spool_summary summary;
    ea_err why;
    uint64_t there;
    if (!w->v->on_summary || ea_file_open(&file, path, EA_OPEN_READ, &why))
        return 1; /* the reader of the records says why it cannot be opened */
    int found = ea_spool_read_summary(file, sequence, &summary, &why);
    ea_file_close(file);
    if (found <= 0)
        return found == EA_ENOMEM ? ea_fail(w->err, found, "read the spool %s", w->dir) : 1;
    for (size_t i = 0; i < summary.share_count; i++) {
        ea_spool_share *share = &summary.shares[i];
        uint8_t on_disk[EA_STREAM_ID_BYTES];
        memcpy(on_disk, share->stream, sizeof on_disk);
        for (size_t k = 0; k < w->state_count; k++)
            if (ea_spool_state_has_moved(&w->states[k], on_disk, share->numbers.ranges[0].first, &there))
                memcpy(share->stream, w->states[k].stream, sizeof share->stream);
    }
    int rc = w->v->on_summary(name, &summary, w->v->arg);
    ea_spool_summary_deinit(&summary);
    return rc;
}

static int visit_name(const char *name, int is_dir, void *arg) {
    visit *w = arg;
    uint64_t sequence;
    char *data = NULL, *path;
    size_t len_bytes = 0;
    ea_spool_scanned scanned = {0};
    ea_spool_head head;
    ea_err why = {0};
    if (is_dir || !ea_spool_segment_sequence(name, &sequence))
        return 0;
    if (!(path = ea_spool_join(w->dir, name)))
        return ea_fail(w->err, EA_ENOMEM, "read the spool %s", w->dir);
    int rc = visit_summary(w, name, path, sequence);
    if (rc <= 0) {
        free(path);
        return rc;
    }
    rc = ea_path_read_all(path, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, &why);
    free(path);
    if (rc == EA_ENOTFOUND)
        return 0; /* the process that has the spool is done with it */
    int unreadable = rc != 0;
    w->segment = name;
    w->has_key = !rc && ea_spool_is_head((const uint8_t *)data, len_bytes, sequence, &head) && head.is_sealed &&
                 ea_spool_segment_key(w->v->keys, sequence, &head, &w->key, NULL) == 0;
    if (!rc && ea_spool_is_torn_head((const uint8_t *)data, len_bytes, sequence))
        scanned.torn_bytes = len_bytes;
    else if (!rc)
        rc = ea_spool_scan((const uint8_t *)data, len_bytes, sequence, visit_record, w, &scanned, &why);
    unreadable |= rc == EA_EFORMAT || rc == EA_EUNSUPPORTED;
    if (unreadable)
        rc = 0;
    else if (rc && w->err && !w->err->code)
        *w->err = why;
    if (!rc && w->v->on_segment)
        rc = w->v->on_segment(name, len_bytes, &scanned, unreadable ? why.message : NULL, w->v->arg);
    free(data);
    return rc;
}

int ea_spool_visit(const char *dir, const ea_spool_visitor *visitor, ea_err *err) {
    visit w = {.dir = dir, .v = visitor, .err = err};
    ea_err why = {0};
    int rc = spool_open_read_state(dir, visit_state, &w, &why);
    if ((rc == EA_ECORRUPT || rc == EA_EUNSUPPORTED || rc == EA_ELIMIT) && visitor->on_bad_state)
        rc = visitor->on_bad_state(why.message, visitor->arg);
    else if (rc && err && why.code)
        *err = why;
    if (!rc)
        rc = ea_path_list(dir, visit_name, &w, err);
    for (size_t i = 0; i < w.state_count; i++)
        ea_spool_state_deinit(&w.states[i]);
    free(w.states);
    return rc;
}
