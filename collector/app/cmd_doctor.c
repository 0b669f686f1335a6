/* etwcollector doctor: what is wrong, or will be soon, with a collector: its store, disk, certificates, clock, hosts.
 * Called by: main.c. Calls: collector/store, collector/state. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/sandbox/sandbox.h"
#include "collector/state/incidents.h"
#include "collector/state/ledger_report.h"
#include "collector/state/state_db.h"
#include "collector/store/backup.h"
#include "collector/store/retention.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

typedef struct options {
    const char *store;
    ea_strings certificates;
    int64_t silent_after, expire_within;
    uint64_t least_free;
    int verify, json;
} options;

/* INFO: what an operator should know, though nothing has to be done now. */
enum verdict { FINE, INFO, WARNING, WRONG };

static const char *const VERDICTS[] = {"ok", "info", "warning", "wrong"};

enum { EXIT_WARNING = 3, EXIT_WRONG = 4, HOSTS_LISTED = 20 };

static const int64_t S_NS = INT64_C(1000000000), SKEW_NS = 300 * INT64_C(1000000000);
static const int64_t GONE_NS = 7 * 86400 * INT64_C(1000000000);

typedef struct report {
    const options *o;
    ea_text out;
    size_t count;
    enum verdict worst;
} report;

/* What a check was called before; its findings are in the JSON under that name, too. NULL: it had no other name. */
static const char *old_name_of(const char *check) {
    return strcmp(check, "gaps") == 0 ? "blindness" : NULL; /* the old name, until version 0.2 */
}

static void add_finding(report *r, enum verdict v, const char *check, const char *format, ...) EA_PRINTF(4, 5);

static void add_finding(report *r, enum verdict v, const char *check, const char *format, ...) {
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->o->json) {
        const char *names[] = {check, old_name_of(check)};
        for (int i = 0; i < 2 && names[i]; i++) {
            ea_text_printf(&r->out, "%s{\"check\": \"%s\", \"verdict\": \"%s\", \"text\": ",
                           r->count + (size_t)i ? ",\n  " : "\n  ", names[i], VERDICTS[v]);
            ea_text_json_str(&r->out, text);
            ea_text_char(&r->out, '}');
        }
    } else {
        ea_text_printf(&r->out, "%-8s %-12s ", VERDICTS[v], check);
        ea_text_safe(&r->out, text, strlen(text)); /* hosts' names are in it */
        ea_text_char(&r->out, '\n');
    }
    r->count++;
    r->worst = v > r->worst ? v : r->worst;
}

/* An operation that failed, with the operating system's reason. */
static void add_failure(report *r, const char *check, const ea_err *err) {
    char reason[128] = "";
    if (err->os_error)
        ea_os_error_text(err->os_error, reason, sizeof reason);
    add_finding(r, WRONG, check, "%s%s%s", err->message, *reason ? ": " : "", reason);
}

/* ---- store and disk ---- */

/* A database's files: free pages and the log take space, too. */
static double files_mib(const char *store, const char *name) {
    static const char *const ENDINGS[] = {"", "-wal"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        char path[1200];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s%s", store, name, ENDINGS[i]);
        if (stat(path, &st) == 0 && st.st_size > 0)
            bytes += (uint64_t)st.st_size;
    }
    return (double)bytes / 1048576.0;
}

static void doctor_check_store(report *r, ec_store *s) {
    ea_err err = {0};
    ec_store_size size;
    ec_backup read;
    if (ec_store_measure(s, &size, &err)) {
        add_failure(r, "store", &err);
        return;
    }
    add_finding(
        r, FINE, "store",
        "%" PRIu64 " segments of %.1f MiB, index.db %.1f MiB (its files: %.1f MiB), state.db %.1f MiB (its files: "
        "%.1f MiB)",
        size.segment_count, (double)size.segment_bytes / 1048576.0, (double)size.index_bytes / 1048576.0,
        files_mib(r->o->store, "index.db"), (double)size.state_bytes / 1048576.0, files_mib(r->o->store, "state.db"));
    if (r->o->verify && ec_store_verify(r->o->store, ec_state_db_foreign_sql(), &read, &err))
        add_failure(r, "verify", &err);
    else if (r->o->verify)
        add_finding(r, FINE, "verify", "all %" PRIu64 " batches can be read", read.batch_count);
    uint64_t free_bytes = ea_path_free_bytes(r->o->store);
    add_finding(r,
                free_bytes < r->o->least_free / 4 ? WRONG
                : free_bytes < r->o->least_free   ? WARNING
                                                  : FINE,
                "disk", "%.1f MiB are free", (double)free_bytes / 1048576.0);
}

static void check_daemon(report *r) {
    char path[1200];
    ea_file *file = NULL;
    ea_err ignored;
    snprintf(path, sizeof path, "%s/lock", r->o->store);
    int rc = ea_file_open(&file, path, EA_OPEN_APPEND, &ignored);
    if (!rc)
        rc = ea_file_try_lock(file, &ignored);
    ea_file_close(file);
    if (rc == EA_EBUSY)
        add_finding(r, FINE, "collector", "one runs with this store");
    else
        add_finding(r, WARNING, "collector", "none runs with this store");
}

/* What keeps questions, symbols and the CA's signer apart from the rest of this machine. */
static void check_sandbox(report *r) {
    ec_sandbox_support s;
    ea_text t;
    ec_sandbox_probe(&s);
    ea_text_init(&t);
    ec_sandbox_describe(&s, &t);
    int is_whole = s.has[EC_SANDBOX_HAS_SECCOMP] && s.has[EC_SANDBOX_HAS_FILES];
    add_finding(r, is_whole ? FINE : WARNING, "sandbox", "%s", t.failed ? "?" : t.data);
    ea_text_deinit(&t);
}

/* ---- certificates ---- */

static void check_certificate(report *r, const char *path) {
    FILE *f = fopen(path, "re");
    X509 *x = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
    X509_CRL *crl = NULL;
    if (f && !x) {
        rewind(f);
        crl = PEM_read_X509_CRL(f, NULL, NULL, NULL);
    }
    const ASN1_TIME *end = x ? X509_get0_notAfter(x) : crl ? X509_CRL_get0_nextUpdate(crl) : NULL;
    int days = 0, seconds = 0;
    if (!x && !crl)
        add_finding(r, WRONG, "certificate", "%s: no certificate or revocation list can be read", path);
    else if (!end)
        add_finding(r, FINE, "certificate", "%s: does not expire", path);
    else if (!ASN1_TIME_diff(&days, &seconds, NULL, end))
        add_finding(r, WRONG, "certificate", "%s: its date cannot be read", path);
    else if (days < 0 || seconds < 0)
        add_finding(r, WRONG, "certificate", "%s: expired %d days ago", path, -days);
    else
        add_finding(r, (int64_t)days * 86400 * S_NS < r->o->expire_within ? WARNING : FINE, "certificate",
                    "%s: expires in %d days", path, days);
    X509_free(x);
    X509_CRL_free(crl);
    if (f)
        (void)fclose(f);
}

/* ---- hosts ---- */

/* 1 when the agent's newest run came to its end in order. What cannot be read is reported with the ledgers. */
static int has_ended(ec_ends *ends, const char *host) {
    int64_t ended_ns;
    ea_err err;
    return ends && host && ec_ends_of(ends, host, &ended_ns, &err) > 0;
}

static void check_hosts(report *r, ec_store *s, int64_t now_ns) {
    static const char SQL[] =
        "SELECT agent, max(received_last_utc_ns), max(end_utc_ns - received_last_utc_ns) FROM streams GROUP BY agent"
        " ORDER BY agent";
    sqlite3 *db = ec_store_database(s);
    sqlite3_stmt *st = NULL;
    ea_err err = {0};
    uint64_t hosts = 0, silent = 0, gone = 0, ahead = 0, ended = 0;
    int64_t newest = INT64_MIN;
    ec_state_db *t = NULL;
    ec_ends *ends = NULL;
    if (ec_state_db_open(&t, r->o->store, 0, &err))
        t = NULL; /* no end is known */
    if (t && ec_ends_open(&ends, t, db, &err))
        ends = NULL;
    int code = SQLITE_DONE, rc = ec_sqlite_prepare(db, &st, SQL, "read the streams", &err);
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *host = (const char *)sqlite3_column_text(st, 0);
        int64_t last = sqlite3_column_int64(st, 1), age = now_ns - last;
        newest = last > newest ? last : newest;
        hosts++;
        if (has_ended(ends, host))
            ended++;
        else if (age > GONE_NS)
            gone++;
        else if (age > r->o->silent_after && ++silent <= HOSTS_LISTED)
            add_finding(r, WARNING, "silent", "%s: nothing has come for %" PRId64 " minutes", host ? host : "?",
                        age / (60 * S_NS));
        if (sqlite3_column_int64(st, 2) > SKEW_NS && ++ahead <= HOSTS_LISTED)
            add_finding(r, WARNING, "clock", "%s: its events are %" PRId64 " s ahead of their arrival",
                        host ? host : "?", (int64_t)sqlite3_column_int64(st, 2) / S_NS);
    }
    if (!rc)
        rc = ec_sqlite_end(st, code, 0, "read the streams", &err);
    if (rc) {
        add_failure(r, "hosts", &err);
    } else {
        add_finding(r, FINE, "hosts",
                    "%" PRIu64 " agents, %" PRIu64 " of them ended, %" PRIu64 " silent, %" PRIu64
                    " gone for more than a week",
                    hosts, ended, silent, gone);
    }
    sqlite3_finalize(st);
    ec_ends_close(ends);
    ec_state_db_close(t);
    if (hosts && newest > now_ns + 60 * S_NS)
        add_finding(r, WRONG, "clock", "this machine's clock is %" PRId64 " s slower than the last stored batch",
                    (newest - now_ns) / S_NS);
    else if (!rc)
        add_finding(r, FINE, "clock", "this machine's clock agrees with what was stored");
}

/* Streams whose last numbers are there, and those of them that cannot be judged. */
typedef struct judged {
    ec_state_db *tables;
    uint64_t streams, unknown, values[EA_COUNTER_COUNT];
    ea_err *err;
} judged;

static int doctor_take_value(const char *family, uint32_t counter, uint64_t value, void *arg) {
    judged *j = arg;
    enum ea_counter c = ea_counter_of_number(counter);
    if (!*family && c != EA_COUNTER_COUNT)
        j->values[c] = value;
    return 0;
}

static int doctor_judge(const ec_state_fold *fold, void *arg) {
    judged *j = arg;
    uint64_t elsewhere = 0;
    memset(j->values, 0, sizeof j->values);
    int rc = ec_ledger_each_last(j->tables, fold->stream_number, INT64_MAX, doctor_take_value, j, j->err);
    if (!rc)
        rc = ec_ledger_elsewhere(j->tables, fold->stream_number, INT64_MAX, j->values, &elsewhere, j->err);
    j->streams++;
    j->unknown += !rc && ec_ledger_is_stored(fold->event_count, elsewhere, j->values) == EC_UNKNOWN;
    return rc;
}

/* The times of a host's gaps; NULL: unknown. with_stream_column: when the last stream ended with whose end a gap ended.
 */
static void put_gap_times(ea_text *t, sqlite3_stmt *st, int first_column, int last_column, int open_column,
                          int with_stream_column) {
    if (sqlite3_column_type(st, first_column) != SQLITE_NULL) {
        ea_text_str(t, "; the first began at ");
        ea_text_utc_ns(t, sqlite3_column_int64(st, first_column));
    }
    if (sqlite3_column_int64(st, open_column)) {
        ea_text_str(t, ", the last lasts");
    } else if (sqlite3_column_type(st, last_column) != SQLITE_NULL) {
        int with_stream = sqlite3_column_type(st, with_stream_column) != SQLITE_NULL &&
                          sqlite3_column_int64(st, with_stream_column) == sqlite3_column_int64(st, last_column);
        ea_text_str(t, with_stream ? ", the last ended with its stream at " : ", the last ended at ");
        ea_text_utc_ns(t, sqlite3_column_int64(st, last_column));
    }
}

/* What is missing of each host: batches, and what Windows and the agents admit to have lost. A gap that ended more than
 * a day ago is no warning, since nothing can be done about it any more, but it is named as long as it is in the
 * history. A gap after a stream's last event ended when the stream did. */
static int check_gaps(report *r, ec_state_db *t, int64_t now_ns, ea_err *err) {
    static const char SQL[] =
        "SELECT s.host, CAST(total(b.batch_count) AS INTEGER), CAST(total(b.event_count) AS INTEGER),"
        " count(iif(b.batch_count > 0 AND b.event_count IS NULL, 1, NULL)),"
        " CAST(total(iif(b.batch_count = 0, b.least_count, 0)) AS INTEGER),"
        " count(iif(b.counted > 0 AND b.least_count = 0, 1, NULL)), max(coalesce(b.end_utc_ns,"
        " b.ended_utc_ns, ?1)), min(b.begin_utc_ns), max(ifnull(b.end_utc_ns, b.ended_utc_ns)),"
        " count(iif(ifnull(b.end_utc_ns, b.ended_utc_ns) IS NULL, 1, NULL)), max(iif(b.end_utc_ns IS NULL, "
        "b.ended_utc_ns, NULL))"
        " FROM (SELECT g.*, iif(g.end_utc_ns IS NULL, (SELECT max(l.utc_ns) FROM ledger_counts c JOIN ledger_batches l "
        "ON"
        " l.stream = c.stream AND l.number = c.number WHERE c.stream = g.stream AND c.family = '' AND c.counter = ?2 "
        "AND"
        " c.value <> 0), NULL) AS ended_utc_ns FROM gap_periods g) b JOIN streams s ON s.stream = b.stream"
        " GROUP BY s.host ORDER BY s.host";
    sqlite3_stmt *st = NULL;
    uint64_t hosts = 0;
    int code, rc = ec_sqlite_prepare(ec_state_db_database(t), &st, SQL, "read the gaps", err);
    if (rc)
        return rc;
    sqlite3_bind_int64(st, 1, now_ns);
    sqlite3_bind_int64(st, 2, ea_counter_row(EA_COUNT_stream_ended)->number);
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        ea_text times;
        ea_text_init(&times);
        put_gap_times(&times, st, 7, 8, 9, 10);
        if (++hosts <= HOSTS_LISTED)
            add_finding(
                r, now_ns - sqlite3_column_int64(st, 6) < 86400 * S_NS ? WARNING : INFO, "gaps",
                "%s: %lld batches are missing, with %lld events and %lld times an unknown number; at least %lld further"
                " events were lost, and %lld times an unknown number%s: see etwcollector ledger",
                (const char *)sqlite3_column_text(st, 0), (long long)sqlite3_column_int64(st, 1),
                (long long)sqlite3_column_int64(st, 2), (long long)sqlite3_column_int64(st, 3),
                (long long)sqlite3_column_int64(st, 4), (long long)sqlite3_column_int64(st, 5),
                times.failed || !times.data ? "" : times.data);
        ea_text_deinit(&times);
    }
    rc = ec_sqlite_end(st, code, 0, "read the gaps", err);
    sqlite3_finalize(st);
    if (rc)
        return rc;
    if (!hosts)
        add_finding(r, FINE, "gaps", "no batch is missing, and no agent admits a loss");
    return 0;
}

static void check_ledgers(report *r, int64_t now_ns) {
    static const char SQL[] = "SELECT host, count(*), max(text) FROM alerts a JOIN streams s ON s.stream = a.stream"
                              " WHERE kind <= 5 GROUP BY host ORDER BY host";
    ec_state_db *t = NULL;
    ea_err err = {0};
    sqlite3_stmt *st = NULL;
    uint64_t hosts = 0;
    int code = SQLITE_DONE, rc = ec_state_db_open(&t, r->o->store, 0, &err);
    judged j = {.tables = t, .err = &err};
    if (rc == EA_ENOTFOUND) {
        add_finding(r, FINE, "ledger", "no history yet");
        return;
    }
    if (!rc)
        rc = ec_sqlite_prepare(ec_state_db_database(t), &st, SQL, "read the alerts", &err);
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW)
        if (++hosts <= HOSTS_LISTED)
            add_finding(r, WRONG, "ledger", "%s: %lld times the ledger did not balance: %.300s",
                        (const char *)sqlite3_column_text(st, 0), (long long)sqlite3_column_int64(st, 1),
                        (const char *)sqlite3_column_text(st, 2));
    if (!rc)
        rc = ec_sqlite_end(st, code, 0, "read the alerts", &err);
    sqlite3_finalize(st);
    if (!rc)
        rc = ec_state_db_each_fold(t, NULL, doctor_judge, &j, &err);
    if (!rc && !hosts)
        add_finding(r, FINE, "ledger", "the ledgers of %" PRIu64 " streams balance", j.streams - j.unknown);
    if (!rc && j.unknown)
        add_finding(r, WARNING, "ledger",
                    "of %" PRIu64
                    " streams it cannot be judged whether all that was acknowledged is stored here: how many events"
                    " are in batches that have not come is unknown",
                    j.unknown);
    if (!rc)
        rc = check_gaps(r, t, now_ns, &err);
    ec_state_db_close(t);
    if (rc)
        add_failure(r, "ledger", &err);
}

/* What the running collector saw: incidents that last, and how many were over within a day. */
static void check_incidents(report *r, int64_t now_ns) {
    static const char SQL[] = "SELECT host, kind, begin_utc_ns, text, end_utc_ns IS NULL FROM alarms WHERE"
                              " ifnull(end_utc_ns, ?1) >= ?1 ORDER BY begin_utc_ns DESC";
    ec_incidents *a = NULL;
    sqlite3_stmt *st = NULL;
    ea_err err = {0};
    uint64_t open = 0, over = 0;
    int code = SQLITE_DONE, rc = ec_incidents_open(&a, r->o->store, 0, &err);
    if (!rc)
        rc = ec_sqlite_prepare(ec_incidents_database(a), &st, SQL, "read the incidents", &err);
    if (!rc)
        sqlite3_bind_int64(st, 1, now_ns - 86400 * S_NS);
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
        int is_silence = strcmp((const char *)sqlite3_column_text(st, 1), "silent") == 0;
        if (!sqlite3_column_int(st, 4)) {
            over++;
        } else if (++open <= HOSTS_LISTED) {
            ea_text begin;
            ea_text_init(&begin);
            ea_text_utc_ns(&begin, sqlite3_column_int64(st, 2));
            add_finding(r, is_silence ? WARNING : WRONG, "incident", "%s: since %s: %.300s",
                        (const char *)sqlite3_column_text(st, 0), begin.failed ? "?" : begin.data,
                        (const char *)sqlite3_column_text(st, 3));
            ea_text_deinit(&begin);
        }
    }
    if (!rc)
        rc = ec_sqlite_end(st, code, 0, "read the incidents", &err);
    sqlite3_finalize(st);
    ec_incidents_close(a);
    if (rc)
        add_failure(r, "incident", &err);
    else
        add_finding(r, FINE, "incident", "%" PRIu64 " last, %" PRIu64 " were over within a day", open, over);
}

static int doctor_run(const void *arg, int operand_count, char **operands) {
    static const int CODES[] = {0, 0, EXIT_WARNING, EXIT_WRONG};
    const options *o = arg;
    report r = {.o = o};
    ec_store *store = NULL;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&r.out);
    if (o->json)
        ea_text_str(&r.out, "{\"checks\": [");
    int rc = ec_store_open(&store, o->store, &(ec_store_options){0}, &err);
    if (rc) {
        add_failure(&r, "store", &err);
    } else {
        doctor_check_store(&r, store);
        check_daemon(&r);
        check_hosts(&r, store, ea_utc_ns());
        check_ledgers(&r, ea_utc_ns());
        check_incidents(&r, ea_utc_ns());
    }
    ec_store_close(store);
    check_sandbox(&r);
    for (size_t i = 0; i < o->certificates.count; i++)
        check_certificate(&r, o->certificates.items[i]);
    if (o->json)
        ea_text_printf(&r.out, "\n], \"verdict\": \"%s\"}\n", VERDICTS[r.worst]);
    rc = r.out.failed ? ea_fail(&err, EA_ENOMEM, "print") : 0;
    if (!rc && (fwrite(r.out.data, 1, r.out.len_bytes, stdout) != r.out.len_bytes || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    ea_text_deinit(&r.out);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return rc ? ea_exit_code(rc) : CODES[r.worst];
}

const ea_command ec_cmd_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "Look for what is wrong, or will be soon: store, disk, certificates, clock, silent hosts, ledgers",
    .details =
        "A line a finding: ok, info, warning or wrong. The collector may be running. --json: {\"checks\": [{check, "
        "verdict, text}],\nverdict}; a finding of gaps is there a second time as blindness, its old name, until "
        "version "
        "0.2.\nExit codes: 0 all is well, 1 failed, 2 usage, 3 warnings, 4 something is "
        "wrong.",
    .options =
        (const ea_option[]){
            EC_STORE_OPTION(options, store),
            {.name = "certificate",
             .argument = "FILE",
             .type = EA_OPT_STRINGS,
             .offset = offsetof(options, certificates),
             .help = "a certificate or revocation list (PEM) whose date is checked; may be repeated"},
            {.name = "expire-within",
             .argument = "TIME",
             .type = EA_OPT_DURATION,
             .offset = offsetof(options, expire_within),
             .fallback = "30d",
             .help = "warn when a certificate or list expires within this time"},
            {.name = "silent-after",
             .argument = "TIME",
             .type = EA_OPT_DURATION,
             .offset = offsetof(options, silent_after),
             .fallback = "15m",
             .help = "warn of agents that sent nothing for this time, but for less than a week"},
            {.name = "least-free",
             .argument = "SIZE",
             .type = EA_OPT_SIZE,
             .offset = offsetof(options, least_free),
             .fallback = "2GiB",
             .help = "warn when less is free on the disk; below a quarter of this the verdict is wrong"},
            {.name = "verify",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, verify),
             .help = "read every batch and check the databases, which takes as long as reading "
                     "the store"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = doctor_run,
};
