/* The process that reads traces into a store. See trace_ingest.h. Threads: the main one reads the traces; the
 * pipeline's encoders; one that stores batches, which alone writes to the store meanwhile; one that folds what is
 * stored into the history. */
#include "collector/sandbox/child.h"
#include "collector/sandbox/message.h"
#include "collector/sandbox/sandbox.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "collector/traces/trace_ingest.h"
#include "proto/base/platform.h"
#include "proto/wire/batch_file.h"
#include "service/core/ingest_session.h"
#include "service/core/schema_options.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 1400,
    ITEMS = 256,             /* batches that one commit makes durable, at most */
    GROUP_BYTES = 32 << 20,  /* and so many bytes */
    LOOK_NS = 50000000,      /* how long the storing thread waits for a batch before it looks whether all is done */
    END_LOOK_NS = 1000000,   /* how often it is looked whether all is stored */
    FOLD_LOOK_NS = 5000000,  /* how often it is looked whether there is more to fold */
    PROGRESS_NS = 250000000, /* between two lines of progress */
};

static const uint64_t MEMORY_BYTES = (uint64_t)4 << 30;

typedef struct job {
    ec_message_reader in; /* owns the order, into which the strings point */
    uint64_t parent;
    const char *store_dir, *host;
    const char *paths[EC_TRACE_PATHS_MAX];
    size_t path_count;
    int is_scratch; /* the store is removed after its use */
    ea_schema_options schemas;
    char spool_dir[PATH_BYTES], segments[PATH_BYTES];

    ea_counters counters;
    ea_batching_options batching;
    ea_schemas *known;
    ec_store *store;
    ea_spool *spool;
    ea_ingest_session *session;
    atomic_int draining, stored_all; /* the source is at its end; the storing thread has ended */
    atomic_uint commits;             /* of the store */

    /* the storing thread's, until it has ended */
    ea_spool_item *items;
    uint8_t *outcomes;
    ea_text body;
    int rc;
    ea_err err;
    ec_trace_report report;
} job;

/* ---- the order ---- */

static size_t trace_worker_read_strings(ec_message *m, const char **items) {
    uint64_t count = ec_message_get(m, 4);
    if (count > EC_TRACE_PATHS_MAX)
        m->failed = 1;
    for (uint64_t i = 0; !m->failed && i < count; i++)
        items[i] = ec_message_get_string(m);
    return m->failed ? 0 : (size_t)count;
}

static int read_order(job *j) {
    ec_message m;
    j->in = (ec_message_reader){.fd = STDIN_FILENO, .deadline_ns = INT64_MAX};
    if (ec_message_next(&j->in, &m) <= 0 || m.letter != 'T')
        return -1;
    j->parent = ec_message_get(&m, 8);
    j->store_dir = ec_message_get_string(&m);
    j->host = ec_message_get_string(&m);
    j->is_scratch = ec_message_get(&m, 1) != 0;
    j->path_count = trace_worker_read_strings(&m, j->paths);
    _Static_assert((int)EA_STRINGS_MAX >= (int)EC_TRACE_PATHS_MAX, "manifests have room");
    j->schemas.manifests.count = trace_worker_read_strings(&m, j->schemas.manifests.items);
    j->schemas.language = "en-US";
    return m.failed || !j->path_count ? -1 : 0;
}

/* ---- the sandbox ---- */

/* From here on: the files of the order, and the store. */
static int trace_worker_confine(job *j, ea_err *err) {
    ec_sandbox_path paths[2 * EC_TRACE_PATHS_MAX + 8];
    size_t count = 0;
    for (size_t i = 0; i < j->path_count; i++)
        paths[count++] = (ec_sandbox_path){.path = j->paths[i], .access = EC_SANDBOX_READ};
    for (size_t i = 0; i < j->schemas.manifests.count; i++)
        paths[count++] = (ec_sandbox_path){.path = j->schemas.manifests.items[i], .access = EC_SANDBOX_READ};
    paths[count++] = (ec_sandbox_path){.path = j->store_dir, .access = EC_SANDBOX_WRITE};
    paths[count++] = (ec_sandbox_path){.path = j->segments, .access = EC_SANDBOX_WRITE}; /* perhaps on another drive */
    paths[count++] = (ec_sandbox_path){.path = "/etc/localtime", .access = EC_SANDBOX_READ};
    paths[count++] = (ec_sandbox_path){.path = "/dev/urandom", .access = EC_SANDBOX_READ};
    sqlite3_temp_directory = sqlite3_mprintf("%s", j->store_dir);
    int rc = sqlite3_temp_directory ? ea_path_make_dirs(j->segments, err) : ea_fail(err, EA_ENOMEM, "read a trace");
    return rc ? rc
              : ec_sandbox_enter(
                    &(ec_sandbox){.rights = EC_SANDBOX_THREADS | EC_SANDBOX_MODES, .paths = paths, .path_count = count},
                    err);
}

/* ---- storing ---- */

static void fail_store(job *j, int rc, const ea_err *err) {
    if (j->rc)
        return;
    j->rc = rc;
    j->err = *err;
    ea_ingest_session_stop(j->session);
    ea_spool_cancel(j->spool, NULL);
}

/* Counts what became of batch number `number` when it was appended. 1: it is stored; 0: it is refused for good; else
 * the error. */
static int count_stored(job *j, int rc, uint64_t number, const ea_err *err) {
    switch (rc) {
    case EC_STORED:
        j->report.stored++;
        return 1;
    case EC_DUPLICATE:
        j->report.repeated++;
        return 1;
    case EA_ECORRUPT:
    case EA_EFORMAT:
    case EA_ELIMIT:
    case EA_ETRUNCATED:
    case EA_EUNSUPPORTED:
        if (!j->report.refused++)
            snprintf(j->report.refusal, sizeof j->report.refusal, "batch %" PRIu64 ": %.400s", number, err->message);
        return 0;
    default:
        return rc;
    }
}

/* Appends a batch, as ingest does of one that came over the network. */
static uint8_t store_batch(job *j, const ea_spool_item *item) {
    ea_err err = {0};
    ea_text_clear(&j->body);
    int rc = ea_spool_read(j->spool, item, &j->body, &err);
    if (!rc && j->body.failed)
        rc = ea_fail(&err, EA_ENOMEM, "read a trace");
    if (!rc)
        rc = ec_store_append(j->store, j->host, (const uint8_t *)j->body.data, j->body.len_bytes, &err);
    switch (rc = count_stored(j, rc, item->number, &err)) {
    case 1:
        return EA_SPOOL_DONE;
    case 0:
        return EA_SPOOL_REFUSED;
    case EA_ECONFLICT:
        rc = ea_fail(
            &err, rc,
            "the store has another trace of the same beginning and end under this run: --host with another name "
            "keeps both");
        break;
    default:
        break;
    }
    fail_store(j, rc, &err);
    return EA_SPOOL_AGAIN;
}

static void store_batches(void *arg) {
    job *j = arg;
    while (!j->rc) {
        ea_err err = {0};
        if (!ea_spool_wait(j->spool, LOOK_NS)) {
            if (atomic_load(&j->draining))
                break;
            continue;
        }
        size_t count = ea_spool_take(j->spool, GROUP_BYTES, j->items, ITEMS);
        for (size_t i = 0; i < count; i++)
            j->outcomes[i] = j->rc ? EA_SPOOL_AGAIN : store_batch(j, &j->items[i]);
        int rc = j->rc ? 0 : ec_store_commit(j->store, &err);
        atomic_fetch_add(&j->commits, 1);
        if (rc) {
            memset(j->outcomes, EA_SPOOL_AGAIN, count);
            fail_store(j, rc, &err);
        }
        rc = count ? ea_spool_settle(j->spool, j->items, j->outcomes, count, &err) : 0;
        if (rc)
            fail_store(j, rc, &err);
    }
    atomic_store(&j->stored_all, 1);
}

/* Keeps what is stored in the history while the rest of the trace is read, until all is stored. What it cannot keep is
 * found by trace_worker_fold, which says why. */
static void fold_stored(void *arg) {
    job *j = arg;
    ec_state_worker *h = NULL;
    ea_err ignored = {0};
    unsigned seen = 0;
    int rc = ec_state_worker_open(&h, j->store_dir, &(ec_state_worker_options){.is_scratch = j->is_scratch}, &ignored);
    while (!rc) {
        int is_last = atomic_load(&j->stored_all);
        unsigned commits = atomic_load(&j->commits);
        if (commits != seen)
            rc = ec_state_worker_fold(h, NULL, &ignored);
        else if (is_last)
            break;
        else
            ea_sleep_ns(FOLD_LOOK_NS);
        seen = commits;
    }
    ec_state_worker_close(h);
}

/* ---- reading ---- */

static void on_damage(const ea_etl_damage *damage, void *arg) {
    job *j = arg;
    if (!j->report.damaged_places++)
        snprintf(j->report.damage, sizeof j->report.damage, "%.300s, offset %" PRIu64 ": %.150s", damage->path,
                 damage->offset, damage->reason);
}

static void report_progress(void *arg) {
    job *j = arg;
    ea_text t;
    ea_text_init(&t);
    for (int64_t said_ns = ea_monotonic_ns(); !atomic_load(&j->stored_all); ea_sleep_ns(END_LOOK_NS * 20)) {
        if (ea_monotonic_ns() - said_ns < PROGRESS_NS)
            continue;
        ea_pipeline_status p;
        said_ns = ea_monotonic_ns();
        ea_pipeline_get_status(j->session->pipeline, &p);
        ec_message_begin(&t, 'P');
        ec_message_u32(&t, atomic_load(&j->session->progress_permille));
        ec_message_u64(&t, p.events);
        if (ec_message_send(STDOUT_FILENO, &t))
            break; /* the reader has ended, and this process ends with it */
    }
    ea_text_deinit(&t);
}

/* From the files to the store. */
static int trace_worker_transfer(job *j, ea_err *err) {
    ea_thread *storing, *watching, *folding;
    int rc = ea_thread_start(&storing, "store", store_batches, j, err);
    if (rc)
        return rc;
    rc = ea_thread_start(&watching, "progress", report_progress, j, err);
    int is_watched = !rc;
    if (!rc)
        rc = ea_thread_start(&folding, "fold", fold_stored, j, err);
    int is_folded = is_watched && !rc;
    if (!rc)
        rc = ea_ingest_session_run(j->session, err);
    int ended = 0;
    while (!rc && !ended && !atomic_load(&j->stored_all)) {
        rc = ea_ingest_session_end(j->session, 0, err);
        ended = rc > 0;
        if (!rc)
            ea_sleep_ns(END_LOOK_NS);
    }
    atomic_store(&j->draining, 1);
    ea_spool_wake(j->spool);
    ea_thread_join(storing);
    if (is_watched)
        ea_thread_join(watching);
    if (is_folded)
        ea_thread_join(folding);
    if (j->rc) { /* the reason why reading ended, too */
        *err = j->err;
        return j->rc;
    }
    return rc > 0 ? 0 : rc;
}

static int trace_worker_open_store(job *j, ea_err *err) {
    return ec_store_open(&j->store, j->store_dir,
                         &(ec_store_options){.writable = 1, .is_scratch = j->is_scratch, .counters = &j->counters},
                         err);
}

static int trace_worker_open_all(job *j, ea_err *err) {
    j->batching = (ea_batching_options){.batch_events = 16384, .level = 1, .threads = 2, .keyframe_bytes = 32 << 20};
    j->items = calloc(ITEMS, sizeof *j->items);
    j->outcomes = calloc(ITEMS, 1);
    int rc = j->items && j->outcomes ? 0 : ea_fail(err, EA_ENOMEM, "read a trace");
    if (!rc)
        rc = trace_worker_open_store(j, err);
    if (!rc)
        rc = ea_schema_options_read(&j->known, &j->schemas, err);
    if (!rc)
        rc = ea_ingest_session_open(&j->session,
                                    &(ea_ingest_session_options){.paths = j->paths,
                                                                 .path_count = j->path_count,
                                                                 .priority = 1,
                                                                 .batching = &j->batching,
                                                                 .schemas = j->known,
                                                                 .counters = &j->counters,
                                                                 .on_damage = on_damage,
                                                                 .on_damage_arg = j},
                                    err);
    return rc;
}

/* A spool's file. What else is there is not of this program: --store may have named any folder. */
static int is_of_spool(const char *name) {
    static const char *const BEGINS[] = {"lock", "state", "classes", "owed"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof BEGINS / sizeof *BEGINS; i++)
        if (strncmp(name, BEGINS[i], strlen(BEGINS[i])) == 0)
            return 1;
    return n == 20 && strcmp(name + 16, ".seg") == 0 && strspn(name, "0123456789abcdef") == 16;
}

static int trace_worker_remove_entry(const char *name, int is_dir, void *arg) {
    char path[PATH_BYTES + 300];
    ea_err ignored;
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    if (!is_dir && is_of_spool(name))
        EA_IGNORE(ea_path_remove(path, &ignored));
    return 0;
}

/* The spool has files alone. Under the store's lock: no other process uses it. */
static void remove_spool(job *j) {
    ea_err ignored;
    if (!ea_path_exists(j->spool_dir))
        return;
    EA_IGNORE(ea_path_list(j->spool_dir, trace_worker_remove_entry, j->spool_dir, &ignored));
    (void)rmdir(j->spool_dir);
}

/* ---- files of batches ---- */

typedef struct batch_files {
    job *job;
    size_t uncommitted_bytes;
    ea_err *err;
} batch_files;

static int store_from_file(const uint8_t *batch, size_t len_bytes, void *arg) {
    batch_files *b = arg;
    job *j = b->job;
    ea_batch_head head;
    ea_err err = {0};
    int rc = ea_batch_read_head(batch, len_bytes, &head, &err);
    if (!rc && !j->report.events)
        memcpy(j->report.stream, head.stream, sizeof j->report.stream);
    if (!rc)
        rc = ec_store_append(j->store, j->host, batch, len_bytes, &err);
    int outcome = count_stored(j, rc, j->report.stored + j->report.repeated + j->report.refused + 1, &err);
    if (outcome == 1)
        j->report.events += head.kind == EA_BATCH_EVENTS ? head.event_count : 0;
    j->report.trace_bytes += len_bytes;
    b->uncommitted_bytes += len_bytes;
    if (outcome >= 0 && b->uncommitted_bytes >= GROUP_BYTES) {
        b->uncommitted_bytes = 0;
        rc = ec_store_commit(j->store, &err);
        outcome = rc < 0 ? rc : outcome;
    }
    if (outcome < 0 && b->err)
        *b->err = err;
    return outcome < 0 ? outcome : 0;
}

/* What a recorder exported: its batches as they are. What came before a file's damage stays. */
static int store_files(job *j, ea_err *err) {
    batch_files b = {.job = j, .err = err};
    ea_err why = {0};
    int rc = trace_worker_open_store(j, err);
    for (size_t i = 0; !rc && i < j->path_count; i++) {
        rc = ea_batch_file_each(j->paths[i], store_from_file, &b, err);
        if (rc != EA_ETRUNCATED && rc != EA_ECORRUPT)
            continue;
        why = *err;
        rc = 0;
        if (!j->report.damaged_places++)
            snprintf(j->report.damage, sizeof j->report.damage, "%.500s", why.message);
    }
    if (!rc)
        rc = ec_store_commit(j->store, err);
    atomic_fetch_add(&j->commits, 1);
    atomic_store(&j->stored_all, 1);
    if (!rc)
        fold_stored(j);
    if (!rc && j->report.refused)
        rc = ea_fail(err, EA_EREFUSED, "%" PRIu64 " batches are not stored: %s", j->report.refused, j->report.refusal);
    return rc;
}

static int trace_worker_run(job *j, ea_err *err) {
    ea_err later;
    size_t batch_file_count = 0;
    for (size_t i = 0; i < j->path_count; i++)
        batch_file_count += (size_t)ea_path_is_batch_file(j->paths[i]);
    if (batch_file_count && batch_file_count < j->path_count)
        return ea_fail(err, EA_EUSAGE, "expected traces, or files of batches, and found both");
    if (batch_file_count)
        return store_files(j, err);
    int rc = trace_worker_open_all(j, err);
    if (rc)
        return rc;
    remove_spool(j); /* of a process that was killed */
    rc = ea_spool_open(&j->spool, j->spool_dir,
                       &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .counters = &j->counters}, err);
    if (!rc)
        rc = ea_ingest_session_attach(j->session, j->spool, 0, err);
    if (!rc)
        rc = trace_worker_transfer(j, err);
    if (j->session->pipeline) {
        ea_pipeline_status p;
        ea_pipeline_get_status(j->session->pipeline, &p);
        j->report.events = p.events;
        memcpy(j->report.stream, j->session->stream, sizeof j->report.stream);
    }
    j->report.trace_bytes = j->session->trace_bytes;
    j->report.lost_events = ea_counter_get(&j->counters, EA_COUNT_source_events_lost);
    if (!rc && j->report.refused)
        rc = ea_fail(err, EA_EREFUSED, "%" PRIu64 " batches are not stored: %s", j->report.refused, j->report.refusal);
    ea_ingest_session_close(j->session);
    j->session = NULL;
    if (j->spool)
        EA_IGNORE(ea_spool_close(j->spool, &later));
    remove_spool(j);
    return rc;
}

/* What the history still lacks, so that the first question does not wait for it, and no process outside of this sandbox
 * has to read the batches for it. */
static int trace_worker_fold(job *j, ea_err *err) {
    uint64_t backlog;
    return ec_state_worker_catch_up(j->store_dir, j->host, EC_WAIT_FOLDED, INT64_C(10000000000), &backlog, err);
}

static int trace_worker_send_end(job *j, int code, const ea_err *err) {
    const ec_trace_report *r = &j->report;
    const uint64_t numbers[] = {r->events,  r->trace_bytes, r->stored,        r->repeated,
                                r->refused, r->lost_events, r->damaged_places};
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'E');
    ec_message_u32(&t, (uint32_t)code);
    ec_message_u32(&t, (uint32_t)(code ? err->os_error : 0));
    ec_message_string(&t, code ? err->message : "");
    ec_message_bytes(&t, r->stream, sizeof r->stream);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ec_message_u64(&t, numbers[i]);
    ec_message_string(&t, r->damage);
    ec_message_string(&t, r->refusal);
    int rc = ec_message_send(STDOUT_FILENO, &t);
    ea_text_deinit(&t);
    return rc;
}

int ec_trace_worker_main(void) {
    ea_err err = {0};
    job *j = calloc(1, sizeof *j);
    if (!j || read_order(j)) {
        fprintf(stderr, "etwcollector: %s is started by the command open\n", EC_TRACE_WORKER_NAME);
        if (j)
            ec_message_reader_deinit(&j->in);
        free(j);
        return 2;
    }
    ea_text_init(&j->body);
    ec_child_limit(j->parent, 0, MEMORY_BYTES);
    int n = snprintf(j->segments, sizeof j->segments, "%s/segments", j->store_dir);
    snprintf(j->spool_dir, sizeof j->spool_dir, "%s/replay", j->store_dir);
    int rc = n > 0 && (size_t)n < sizeof j->segments ? 0 : ea_fail(&err, EA_ELIMIT, "the store's path is too long");
    if (!rc)
        rc = trace_worker_confine(j, &err);
    if (!rc)
        rc = trace_worker_run(j, &err);
    ec_store_close(j->store);
    if (!rc)
        rc = trace_worker_fold(j, &err);
    int sent = trace_worker_send_end(j, rc, &err);
    ea_schemas_destroy(j->known);
    ea_text_deinit(&j->body);
    free(j->items);
    free(j->outcomes);
    ec_message_reader_deinit(&j->in);
    free(j);
    return sent ? 1 : 0;
}
