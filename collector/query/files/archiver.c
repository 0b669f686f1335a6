/* See archiver.h. */
#include "collector/query/files/archiver.h"

#include "collector/query/files/event_files.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_MAX_BYTES = 8192, ARCHIVER_MEMORY_BYTES = 64 << 20 };

static const int64_t RETRY_FIRST_NS = INT64_C(1000000000), RETRY_MOST_NS = 300 * INT64_C(1000000000);

struct ec_archiver {
    ec_archive_hook hook;
    char *store, *folder, *created_by;
    uint64_t segment; /* that is being archived, or was last */
    char part[32];
    ea_thread *thread; /* NULL: none runs */
    atomic_int is_done, is_ending;
    /* the thread's, until is_done */
    int rc;
    ea_err err;
    uint64_t events, damaged;
    /* after it */
    uint64_t archived, failed; /* segments; 0: none */
    int64_t retry_ns, pause_ns;
};

/* FOLDER/segments/PART.json */
static void add_mark_path(const ec_archiver *a, ea_text *t) {
    ea_text_printf(t, "%s/segments/%s.json", a->folder, a->part);
}

/* How many events a segment that was archived had: 1; 0 when it was not, not whole. */
static int read_mark(const ec_archiver *a, uint64_t *ret_events) {
    ea_text path;
    char *data = NULL;
    size_t n = 0;
    const char *at;
    ea_text_init(&path);
    add_mark_path(a, &path);
    int is_there =
        !path.failed && ea_path_exists(path.data) && ea_path_read_all(path.data, MARK_MAX_BYTES, &data, &n, NULL) == 0;
    at = data;
    is_there = is_there && ea_text_parse(&at, "{\"events\":") && ea_digits_parse(&at, 10, ret_events);
    free(data);
    ea_text_deinit(&path);
    return is_there;
}

static int archiver_write_mark(const ec_archiver *a, const ec_event_files *f, ea_err *err) {
    ea_text path, text;
    size_t files = 0;
    (void)ec_event_files_list(f, &files);
    ea_text_init(&path);
    ea_text_init(&text);
    add_mark_path(a, &path);
    ea_text_printf(&text,
                   "{\"events\":%" PRIu64 ",\"files\":%zu,\"damaged_batches\":%" PRIu64 ",\"segment\":%" PRIu64 "}\n",
                   a->events, files, a->damaged, a->segment);
    int rc = path.failed || text.failed ? ea_fail(err, EA_ENOMEM, "archive a segment") : 0;
    if (!rc)
        rc = ea_path_make_parent(path.data, err);
    if (!rc)
        rc = ea_path_write_all(path.data, text.data, text.len_bytes, 0, err);
    ea_text_deinit(&path);
    ea_text_deinit(&text);
    return rc;
}

static int archiver_goes_on(void *arg) {
    ec_archiver *a = arg;
    return !atomic_load(&a->is_ending);
}

static void archiver_main(void *arg) {
    ec_archiver *a = arg;
    ec_event_files *f = NULL;
    const char *first = NULL;
    const ec_event_files_options o = {.store = a->store,
                                      .folder = a->folder,
                                      .format = EC_FILE_PARQUET,
                                      .part = a->part,
                                      .created_by = a->created_by,
                                      .from_utc_ns = INT64_MIN,
                                      .to_utc_ns = INT64_MAX,
                                      .segment = a->segment,
                                      .replaces = 1,
                                      .memory_bytes = ARCHIVER_MEMORY_BYTES,
                                      .keep_going = archiver_goes_on,
                                      .arg = a};
    ea_thread_is_bulk();
    a->rc = ec_event_files_open(&f, &o, &a->err);
    if (!a->rc)
        a->rc = ec_event_files_write(f, &a->err);
    if (!a->rc) {
        a->events = ec_event_files_rows(f);
        a->damaged = ec_event_files_damage(f, &first);
        a->rc = archiver_write_mark(a, f, &a->err);
    }
    ec_event_files_close(f);
    atomic_store_explicit(&a->is_done, 1, memory_order_release);
}

static int begin_segment(ec_archiver *a, uint64_t segment, ea_err *err) {
    a->segment = segment;
    snprintf(a->part, sizeof a->part, "segment-%016" PRIx64, segment);
    if (read_mark(a, &a->events)) {
        a->archived = segment;
        return 1;
    }
    a->rc = 0;
    a->err = (ea_err){0};
    atomic_store(&a->is_done, 0);
    int rc = ea_thread_start(&a->thread, "archive", archiver_main, a, err);
    return rc ? rc : EC_RETAIN_BUSY;
}

/* The thread has ended. */
static int end_segment(ec_archiver *a, ea_err *err) {
    ea_thread_join(a->thread);
    a->thread = NULL;
    if (!a->rc) {
        a->archived = a->segment;
        a->pause_ns = 0;
        return 0;
    }
    a->failed = a->segment;
    a->pause_ns = !a->pause_ns ? RETRY_FIRST_NS : a->pause_ns < RETRY_MOST_NS / 2 ? 2 * a->pause_ns : RETRY_MOST_NS;
    a->retry_ns = ea_monotonic_ns() + a->pause_ns;
    return ea_fail(err, a->rc, "segment %" PRIu64 " could not be archived, and is kept while there is room: %.300s",
                   a->segment, a->err.message);
}

static int archiver_step(void *arg, uint64_t segment, int is_pressing, uint64_t *ret_events, ea_err *err) {
    ec_archiver *a = arg;
    if (a->thread) {
        int rc = atomic_load_explicit(&a->is_done, memory_order_acquire) ? end_segment(a, err) : EC_RETAIN_BUSY;
        if (rc)
            return rc;
    }
    if (a->archived == segment) {
        *ret_events = a->events;
        return EC_ARCHIVE_DONE;
    }
    if (a->failed == segment && ea_monotonic_ns() < a->retry_ns)
        return is_pressing ? EC_ARCHIVE_LOST : EC_ARCHIVE_KEEP;
    int rc = begin_segment(a, segment, err);
    if (rc == EC_ARCHIVE_DONE)
        *ret_events = a->events;
    return rc;
}

/* One folder has the segments of one store: their numbers name the files. */
static int claim_archive(const ec_archiver *a, ea_err *err) {
    ea_text path;
    char *data = NULL;
    size_t n = 0;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/.store", a->folder);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "open %.400s", a->folder) : ea_path_make_dirs(a->folder, err);
    if (!rc && ea_path_exists(path.data)) {
        rc = ea_path_read_all(path.data, MARK_MAX_BYTES, &data, &n, err);
        if (!rc && strcmp(data, a->store) != 0)
            rc = ea_fail(err, EA_ECONFLICT, "%.200s is the archive of the store %.200s, expected %.200s", a->folder,
                         data, a->store);
    } else if (!rc) {
        rc = ea_path_write_all(path.data, a->store, strlen(a->store), 0, err);
    }
    free(data);
    ea_text_deinit(&path);
    return rc;
}

int ec_archiver_create(ec_archiver **ret, const char *store, const char *folder, const char *created_by, ea_err *err) {
    ec_archiver *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "open %.400s", folder);
    a->hook = (ec_archive_hook){.step = archiver_step, .arg = a};
    a->store = realpath(store, NULL);
    a->folder = strdup(folder);
    a->created_by = strdup(created_by);
    int rc = a->folder && a->created_by ? 0 : ea_fail(err, EA_ENOMEM, "open %.400s", folder);
    if (!rc && !a->store)
        rc = ea_fail(err, EA_ENOTFOUND, "open %.400s", store);
    if (!rc)
        rc = claim_archive(a, err);
    if (rc) {
        ec_archiver_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

const ec_archive_hook *ec_archiver_hook(const ec_archiver *a) {
    return &a->hook;
}

void ec_archiver_close(ec_archiver *a) {
    if (!a)
        return;
    atomic_store(&a->is_ending, 1);
    if (a->thread)
        ea_thread_join(a->thread);
    free(a->store);
    free(a->folder);
    free(a->created_by);
    free(a);
}
