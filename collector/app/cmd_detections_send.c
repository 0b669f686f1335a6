/* etwcollector detections send: new detections to a receiver by HTTP POST or syslog, each until it is accepted. The
 * process that talks to the receiver is another one, which is confined (send_worker.h). Called by: main.c. Calls:
 * collector/detect (send_worker.h, syslog.h), collector/state (detections.h; alarms.db). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/detection_rows.h"
#include "collector/detect/send_worker.h"
#include "collector/detect/syslog.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SEND_SECOND_NS INT64_C(1000000000)

enum {
    SEND_HEADERS_MAX_BYTES = 64 << 10,
    SEND_LOOK_MS = 1000,
    SEND_WAIT_MAX_S = 300,
    SEND_ATTEMPTS = 5, /* with --once */
};

static const char *const LEVELS[] = {"informational", "low", "medium", "high", "critical", NULL};

typedef struct send_options {
    const char *store, *to, *headers, *ca, *receiver, *host;
    int level, once, all;
    uint64_t facility;
} send_options;

typedef struct sending {
    const send_options *options;
    ec_detections *places;
    ec_incidents *file;
    sqlite3_stmt *next, *last;
    ec_send_worker *worker;
    uint64_t number; /* up to which all are accepted, refused or not wanted; while one is sent, its own */
    uint64_t sent_count, refused_count;
    ea_text body, message; /* the JSON, and what is sent */
} sending;

/* Rules without a level, and with one that Sigma does not have, are sent at any. */
static const char NEXT_DETECTION_SQL[] = "SELECT " EC_DETECTION_COLUMNS(
    "NULL") " FROM detections d WHERE detection_id > ?1 AND detection_id <= ?4 AND (?2 IS NULL OR host = ?2) AND"
            " coalesce(CASE lower(level) WHEN 'informational' THEN 0 WHEN 'low' THEN 1 WHEN 'medium' THEN 2 WHEN "
            "'high' THEN 3"
            " END, 4) >= ?3 ORDER BY detection_id LIMIT 1";

/* The highest number that there is. */
static int send_last(sending *s, uint64_t *ret, ea_err *err) {
    int rc = ec_sqlite_step(s->last, "read the detections", err);
    if (rc > 0)
        *ret = (uint64_t)sqlite3_column_int64(s->last, 0);
    sqlite3_reset(s->last);
    return rc < 0 ? rc : 0;
}

/* What is sent of a detection. */
static void send_make(sending *s, sqlite3_stmt *st) {
    enum { HOST = 2, LEVEL = 3 }; /* of EC_DETECTION_COLUMNS */

    ea_text_clear(&s->body);
    ec_detection_add_json(&s->body, st, EC_DETECTION_CHAIN);
    if (ec_syslog_is_url(s->options->to)) {
        const char *host = (const char *)sqlite3_column_text(st, HOST);
        const char *level = (const char *)sqlite3_column_text(st, LEVEL);
        ec_syslog_message(&s->message, (int)s->options->facility, level ? level : "", sqlite3_column_int64(st, 1),
                          host ? host : "", s->body.data, s->body.len_bytes);
    } else {
        ea_text_char(&s->body, '\n');
        ea_text_clear(&s->message);
        ea_text_add(&s->message, s->body.data, s->body.len_bytes);
    }
}

/* 1 and the detection in s->message, 0: there is none, or an error. Those that are not wanted are passed over once:
 * their place is kept, too. */
static int send_next(sending *s, ea_err *err) {
    sqlite3_stmt *st = s->next;
    uint64_t last = s->number;
    int rc = send_last(s, &last, err);
    if (rc || last <= s->number)
        return rc;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)s->number);
    sqlite3_bind_text(st, 2, s->options->host, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, s->options->level);
    sqlite3_bind_int64(st, 4, (sqlite3_int64)last);
    rc = ec_sqlite_step(st, "read the detections", err);
    if (rc > 0) {
        s->number = (uint64_t)sqlite3_column_int64(st, 0);
        send_make(s, st);
    }
    sqlite3_reset(st);
    if (rc > 0 && (s->body.failed || s->message.failed))
        return ea_fail(err, EA_ENOMEM, "read the detections");
    if (rc)
        return rc;
    s->number = last;
    return ec_detections_set_sent(s->places, s->options->receiver, last, err);
}

static void send_wait(int64_t ns) {
    for (int64_t end = ea_monotonic_ns() + ns; !atomic_load(ea_stop_flag()) && ea_monotonic_ns() < end;)
        ea_sleep_ns(SEND_SECOND_NS / 10);
}

/* Sends the detection at hand until the receiver has it, or will not take it. EA_ECANCELED: asked to stop. */
static int send_one(sending *s, ea_err *err) {
    char said[400] = "";
    int64_t wait_s = 1;
    for (int attempt = 1; !atomic_load(ea_stop_flag()); attempt++) {
        ea_err own = {0};
        int rc = ec_send_worker_post(s->worker, s->message.data, s->message.len_bytes, &own);
        if (rc == EA_ECANCELED)
            break;
        s->sent_count += !rc;
        if (rc == EA_EREFUSED) {
            s->refused_count++;
            fprintf(stderr, "etwcollector: detection %" PRIu64 " is skipped: %s\n", s->number, own.message);
            rc = 0;
        }
        if (!rc)
            return ec_detections_set_sent(s->places, s->options->receiver, s->number, err);
        if (s->options->once && attempt == SEND_ATTEMPTS) {
            *err = own;
            return rc;
        }
        if (strcmp(said, own.message) != 0)
            fprintf(stderr, "etwcollector: detection %" PRIu64 " is sent again: %s\n", s->number, own.message);
        snprintf(said, sizeof said, "%s", own.message);
        send_wait(wait_s * SEND_SECOND_NS);
        wait_s = wait_s * 2 < SEND_WAIT_MAX_S ? wait_s * 2 : SEND_WAIT_MAX_S;
    }
    return EA_ECANCELED;
}

static int send_all(sending *s, ea_err *err) {
    int rc = 0;
    while (!rc && !atomic_load(ea_stop_flag())) {
        rc = send_next(s, err);
        if (rc > 0)
            rc = send_one(s, err);
        else if (!rc && s->options->once)
            break;
        else if (!rc)
            send_wait(SEND_LOOK_MS * (SEND_SECOND_NS / 1000));
    }
    return rc == EA_ECANCELED ? 0 : rc;
}

static int send_open(sending *s, const send_options *o, ea_err *err) {
    char *headers = NULL;
    size_t len = 0;
    (void)ea_stop_flag();
    int rc = ec_store_check_readable(o->store, err);
    if (!rc && o->headers) {
        rc = ea_path_read_all(o->headers, SEND_HEADERS_MAX_BYTES, &headers, &len, err);
        if (!rc && strlen(headers) != len)
            rc = ea_fail(err, EA_EUSAGE, "%.300s contains a NUL: expected lines NAME: VALUE", o->headers);
    }
    if (!rc)
        rc = ec_send_worker_start(
            &s->worker, &(ec_send_options){.to = o->to, .ca = o->ca, .headers = headers, .stop = ea_stop_flag()}, err);
    free(headers);
    if (!rc)
        rc = ec_detections_open(&s->places, o->store, err);
    if (!rc)
        rc = ec_incidents_open(&s->file, o->store, 0, err);
    if (!rc)
        rc =
            ec_sqlite_prepare(ec_incidents_database(s->file), &s->next, NEXT_DETECTION_SQL, "read the detections", err);
    if (!rc)
        rc = ec_sqlite_prepare(ec_incidents_database(s->file), &s->last,
                               "SELECT coalesce(max(detection_id), 0) FROM detections", "read the detections", err);
    if (!rc)
        rc = ec_detections_sent(s->places, o->receiver, &s->number, err);
    if (rc) /* known already, or failed */
        return rc < 0 ? rc : 0;
    if (o->all)
        s->number = 0;
    return ec_detections_set_sent(s->places, o->receiver, s->number, err); /* what comes from now on is sent */
}

static int detections_send_run(const void *arg, int operand_count, char **operands) {
    const send_options *o = arg;
    sending s = {.options = o};
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&s.body);
    ea_text_init(&s.message);
    int rc = send_open(&s, o, &err);
    if (!rc)
        rc = send_all(&s, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    else
        printf("%" PRIu64 " detections were sent, %" PRIu64 " were refused\n", s.sent_count, s.refused_count);
    sqlite3_finalize(s.next);
    sqlite3_finalize(s.last);
    ec_incidents_close(s.file);
    ec_detections_close(s.places);
    ec_send_worker_end(s.worker);
    ea_text_deinit(&s.body);
    ea_text_deinit(&s.message);
    return ea_exit_code(rc);
}

static const ea_option SEND_OPTIONS[] = {
    EC_STORE_OPTION(send_options, store),
    {.name = "to",
     .argument = "URL",
     .type = EA_OPT_STRING,
     .offset = offsetof(send_options, to),
     .required = 1,
     .help = "where each detection is sent to: https://HOST/... or http; syslog+tls://HOST:PORT, syslog+tcp or "
             "syslog+udp"},
    {.name = "headers",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(send_options, headers),
     .help = "lines NAME: VALUE that each request has, such as Authorization: Bearer TOKEN"},
    {.name = "ca",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(send_options, ca),
     .help = "certificates (PEM) that prove the receiver; default: the system's"},
    {.name = "facility",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(send_options, facility),
     .fallback = "10",
     .max = EC_SYSLOG_FACILITY_COUNT - 1,
     .help = "of syslog: 10 is authpriv, 16 to 23 are local0 to local7"},
    {.name = "receiver",
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = offsetof(send_options, receiver),
     .fallback = "webhook",
     .help = "under which name the store keeps how far this receiver has got"},
    {EC_HOST_OF(send_options, host), .help = "only this agent's"},
    {.name = "level",
     .argument = "LEVEL",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(send_options, level),
     .fallback = "informational",
     .choices = LEVELS,
     .help = "only of this level or above, and of rules without a level"},
    {.name = "once",
     .type = EA_OPT_FLAG,
     .offset = offsetof(send_options, once),
     .help = "end when all are sent; fail when one is not accepted after 5 attempts"},
    {.name = "all",
     .type = EA_OPT_FLAG,
     .offset = offsetof(send_options, all),
     .help = "at the first run of a receiver, send those that are kept already, too"},
    {.name = NULL},
};

const ea_command ec_cmd_detections_send = {
    .name = "detections send",
    .operands = "",
    .summary = "Send new detections to a receiver by HTTP POST (a webhook) or syslog, each until it is accepted",
    .details =
        "Runs beside the collector until it is stopped, by a user who may write to the store's folder. A detection is\n"
        "sent as JSON, in the order of their numbers: the members of detections list --json, and chain. One that is\n"
        "not accepted is sent again, after 1 s, 2 s, ... 5 min. The store keeps how far each receiver has got, so that "
        "a\n"
        "receiver gets each detection at least once: number says which it has already.\n\n"
        "By HTTP an answer of 2xx accepts it; 400, 413, 415 and 422 refuse it for good: it is reported and skipped. "
        "By\n"
        "syslog (RFC 5424) it is accepted when the receiver's system has acknowledged it; by UDP, when it was sent.\n\n"
        "  etwcollector detections send --store /var/lib/etwcollector --to https://soar.example/hook --level high\n"
        "  etwcollector detections send --store /var/lib/etwcollector --to syslog+tls://siem.example:6514",
    .options = SEND_OPTIONS,
    .options_size = sizeof(send_options),
    .run = detections_send_run,
};
