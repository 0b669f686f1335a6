/* Recorders. See recorder.h. */
#include "service/spool/recorder.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static const char FOLDER[] = "recorder";

void ea_recorder_stream(const uint8_t *stream, uint8_t *ret) {
    memcpy(ret, stream, EA_STREAM_ID_BYTES);
    ret[EA_STREAM_ID_BYTES - 1] ^= 0x80;
}

static int recorder_path(const char *root, const char *name, char *ret, size_t capacity, ea_err *err) {
    int n = snprintf(ret, capacity, "%s/%s%s%s", root, FOLDER, *name ? "/" : "", name);
    return n > 0 && (size_t)n < capacity ? 0 : ea_fail(err, EA_ELIMIT, "%.128s: the path is too long", root);
}

int ea_recorder_folder(const char *root, const char *name, char *ret, size_t capacity, ea_err *err) {
    return recorder_path(root, name, ret, capacity, err);
}

int ea_recorder_is_kept(const char *name) {
    return strchr(name, '@') != NULL;
}

typedef struct walk {
    const char *root;
    int (*fn)(const char *dir, const char *name, void *arg);
    void *arg;
    ea_err *err;
} walk;

static int visit_recorder(const char *name, int is_dir, void *arg) {
    const walk *w = arg;
    char dir[PATH_BYTES];
    if (!is_dir || strcmp(name, EA_RECORDER_UNFINISHED) == 0)
        return 0;
    int rc = recorder_path(w->root, name, dir, sizeof dir, w->err);
    return rc ? rc : w->fn(dir, name, w->arg);
}

int ea_recorder_each(const char *root, int (*fn)(const char *dir, const char *name, void *arg), void *arg,
                     ea_err *err) {
    walk w = {.root = root, .fn = fn, .arg = arg, .err = err};
    char dir[PATH_BYTES];
    int rc = recorder_path(root, "", dir, sizeof dir, err);
    if (rc || !ea_path_exists(dir))
        return rc;
    return ea_path_list(dir, visit_recorder, &w, err);
}

/* ---- a cut-off stream ---- */

typedef struct finding {
    uint8_t recording[EA_STREAM_ID_BYTES];
    const ea_spool_keys *keys;
    ea_last_numbers *numbers;
    ea_last_numbers *first;  /* of the oldest batch alone */
    uint64_t oldest, newest; /* of the files with summaries; 0: these have none of the stream */
    int is_second;           /* these are known */
    uint64_t first_number, first_events;
    uint64_t events;
    ea_err *err;
} finding;

static int find_in_record(const ea_spool_seen *seen, void *arg) {
    finding *f = arg;
    const ea_spool_record *r = seen->record;
    int is_ended;
    if (!f->is_second || memcmp(seen->stream, f->recording, sizeof f->recording) != 0)
        return 0;
    f->events += r->event_count;
    if (seen->opened != 1)
        return 0;
    int rc = ea_last_numbers_take_batch(f->numbers, r->batch, r->len_bytes, &is_ended, NULL);
    if (!rc && (!f->first_number || seen->number < f->first_number)) {
        memset(f->first, 0, sizeof *f->first);
        f->first->incarnation = f->numbers->incarnation;
        rc = ea_last_numbers_take_batch(f->first, r->batch, r->len_bytes, &is_ended, NULL);
        f->first_number = seen->number;
        f->first_events = r->event_count;
    }
    return rc == EA_ENOMEM ? ea_fail(f->err, rc, "look into a recorder") : 0;
}

/* Of the files with summaries only those with the oldest and the newest batch are read. */
static int find_in_summary(const char *segment, const ea_spool_summary *summary, void *arg) {
    finding *f = arg;
    int is_read = 0;
    uint64_t events = 0;
    (void)segment;
    for (size_t i = 0; i < summary->share_count; i++) {
        const ea_spool_share *share = &summary->shares[i];
        if (memcmp(share->stream, f->recording, sizeof f->recording) != 0)
            continue;
        uint64_t first = share->numbers.ranges[0].first, last = share->numbers.ranges[share->numbers.count - 1].last;
        if (f->is_second) {
            is_read |= first == f->oldest || last == f->newest;
            events += share->events;
            continue;
        }
        f->oldest = !f->oldest || first < f->oldest ? first : f->oldest;
        f->newest = last > f->newest ? last : f->newest;
    }
    f->events += is_read ? 0 : events;
    return is_read;
}

static int find_in_recorder(const char *dir, const char *name, void *arg) {
    finding *f = arg;
    ea_spool_visitor visitor = {.on_record = find_in_record, .on_summary = find_in_summary, .keys = f->keys, .arg = f};
    if (ea_recorder_is_kept(name))
        return 0;
    f->oldest = f->newest = 0;
    f->is_second = 0;
    int rc = ea_spool_visit(dir, &visitor, f->err);
    f->is_second = 1;
    return rc ? rc : ea_spool_visit(dir, &visitor, f->err);
}

/* What was recorded before the oldest batch that is still there has been removed since; a later process does not know
 * whether for its size or its age. */
static void count_removed(const finding *f) {
    const uint64_t *first = f->first->values;
    uint64_t *now = f->numbers->values;
    uint64_t before = first[EA_COUNT_events_batched] + first[EA_COUNT_events_synthesised];
    uint64_t others = f->first_events + first[EA_COUNT_events_unrecorded];
    uint64_t removed = before > others ? before - others : 0;
    uint64_t known = now[EA_COUNT_events_removed_size] + now[EA_COUNT_events_removed_age];
    if (removed > known)
        now[EA_COUNT_events_removed_size] += removed - known;
}

int ea_recorder_find(const char *root, const ea_spool_keys *keys, const uint8_t *stream, ea_last_numbers *numbers,
                     uint64_t *ret_events, ea_err *err) {
    finding f = {.keys = keys, .numbers = numbers, .err = err};
    f.first = calloc(1, sizeof *f.first);
    if (!f.first)
        return ea_fail(err, EA_ENOMEM, "look into a recorder");
    ea_recorder_stream(stream, f.recording);
    int rc = ea_recorder_each(root, find_in_recorder, &f, err);
    if (!rc && f.first_number)
        count_removed(&f);
    else if (!rc && !f.events) /* the ring went on: the stream was of a failed attempt of a process that then ran on */
        numbers->values[EA_COUNT_events_removed_size] += numbers->values[EA_COUNT_events_recorded];
    if (!rc)
        *ret_events = f.events;
    free(f.first);
    return rc;
}
