/* etwcollector detections send: new detections to a receiver by HTTP POST, syslog or mail, each until it is accepted.
 * The process that talks to the receiver is another one, which is confined (send_worker.h). Called by: main.c. Calls:
 * collector/detect (send_worker.h, syslog.h), collector/state (detections.h; alarms.db). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/detection_rows.h"
#include "collector/app/text_file.h"
#include "collector/detect/mail.h"
#include "collector/detect/send_worker.h"
#include "collector/detect/syslog.h"
#include "collector/sqlite/sqlite.h"
#include "collector/state/detections.h"
#include "collector/state/incidents.h"
#include "proto/base/stop_flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SEND_SECOND_NS INT64_C(1000000000)

enum {
    SEND_HEADERS_MAX_BYTES = 64 << 10,
    SEND_LOOK_MS = 1000,
    SEND_WAIT_MAX_S = 300,
    SEND_ATTEMPTS = 5,                 /* with --once */
    DIGEST_LISTED_MAX = 100,           /* detections that a mail lists; it counts the others */
    DIGEST_FIELDS_MAX_BYTES = 2 << 10, /* of one of them */
    LOGIN_MAX_BYTES = 4 << 10,         /* a file */
};

static const char *const LEVELS[] = {"informational", "low", "medium", "high", "critical", NULL};

typedef struct send_options {
    const char *store, *to, *headers, *ca, *receiver, *host, *mail_from, *login;
    ea_strings mail_to;
    int64_t digest_ns;
    int level, once, all;
    uint64_t facility;
} send_options;

typedef struct sending {
    const send_options *options;
    ec_detections *places;
    ec_incidents *file;
    sqlite3_stmt *next, *last;
    ec_send_worker *worker;
    ea_file *lock;
    uint64_t number; /* up to which all are accepted, refused or not wanted; while one is sent, its own */
    uint64_t sent_count, refused_count;
    ea_text body, message; /* the JSON, or the mail's text, and what is sent */
    ea_text recipients;    /* a line each */
    /* of the mail at hand */
    uint64_t digest_count;
    int digest_level; /* the highest, of LEVELS; -1: none is of one */
    int64_t digest_begun_ns;
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

/* A column of EC_DETECTION_COLUMNS. */
enum send_column {
    SEND_NUMBER,
    SEND_TIME,
    SEND_HOST,
    SEND_LEVEL,
    SEND_TITLE,
    SEND_SOURCE = 6,
    SEND_PID = 11,
    SEND_PROCESS,
    SEND_FIELDS = 16
};

static const char *detections_send_send_text(sqlite3_stmt *st, enum send_column column) {
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

static void digest_add_cell(ea_text *t, sqlite3_stmt *st, enum send_column column, size_t limit_bytes) {
    const char *text = detections_send_send_text(st, column);
    size_t len = strlen(text), used = ea_utf8_fit(text, len, limit_bytes);
    ea_text_safe(t, text, used);
    ea_text_str(t, used < len ? " ..." : "");
}

/* Adds a detection to the mail at hand. */
static void digest_add(sending *s, sqlite3_stmt *st) {
    enum { SHORT_MAX_BYTES = 300 };

    ea_text *t = &s->body;
    const char *level = detections_send_send_text(st, SEND_LEVEL);
    if (!s->digest_count++) {
        ea_text_clear(t);
        s->digest_level = -1;
        s->digest_begun_ns = ea_monotonic_ns();
    }
    for (int i = 0; LEVELS[i]; i++)
        if (strcasecmp(LEVELS[i], level) == 0 && i > s->digest_level)
            s->digest_level = i;
    if (s->digest_count > DIGEST_LISTED_MAX)
        return;
    ea_text_printf(t, "%" PRIu64 "  ", s->number);
    ea_text_utc_ns(t, sqlite3_column_int64(st, SEND_TIME));
    ea_text_str(t, "  ");
    digest_add_cell(t, st, SEND_HOST, SHORT_MAX_BYTES);
    ea_text_str(t, "  ");
    digest_add_cell(t, st, SEND_LEVEL, SHORT_MAX_BYTES);
    ea_text_str(t, *level ? ": " : "");
    digest_add_cell(t, st, SEND_TITLE, SHORT_MAX_BYTES);
    ea_text_str(t, "\n    rule: ");
    digest_add_cell(t, st, SEND_SOURCE, SHORT_MAX_BYTES);
    if (sqlite3_column_type(st, SEND_PID) != SQLITE_NULL) {
        ea_text_printf(t, "\n    process: %lld ", (long long)sqlite3_column_int64(st, SEND_PID));
        digest_add_cell(t, st, SEND_PROCESS, SHORT_MAX_BYTES);
    }
    ea_text_str(t, "\n    ");
    digest_add_cell(t, st, SEND_FIELDS, DIGEST_FIELDS_MAX_BYTES);
    ea_text_str(t, "\n\n");
}

/* The mail at hand, in s->message. */
static int digest_make(sending *s, ea_err *err) {
    char subject[200];
    ea_text *t = &s->body;
    if (s->digest_count > DIGEST_LISTED_MAX)
        ea_text_printf(t, "%" PRIu64 " more are not listed.\n\n", s->digest_count - DIGEST_LISTED_MAX);
    ea_text_str(
        t, "etwcollector detections list --number N shows one with its process, its rule and all of its fields.\n");
    snprintf(subject, sizeof subject, "etwcollector: %" PRIu64 " detection%s, highest level %s", s->digest_count,
             s->digest_count == 1 ? "" : "s", s->digest_level < 0 ? "unknown" : LEVELS[s->digest_level]);
    if (!t->failed)
        ec_mail_message(&s->message, s->options->mail_from, s->recipients.data, subject, s->number, ea_utc_ns(),
                        t->data, t->len_bytes);
    return t->failed || s->message.failed ? ea_fail(err, EA_ENOMEM, "read the detections") : 0;
}

/* What is sent of a detection. */
static void send_make(sending *s, sqlite3_stmt *st) {
    if (ec_mail_is_url(s->options->to)) {
        digest_add(s, st);
        return;
    }
    ea_text_clear(&s->body);
    ec_detection_add_json(&s->body, st, EC_DETECTION_CHAIN);
    if (ec_syslog_is_url(s->options->to)) {
        ec_syslog_message(&s->message, (int)s->options->facility, detections_send_send_text(st, SEND_LEVEL),
                          sqlite3_column_int64(st, SEND_TIME), detections_send_send_text(st, SEND_HOST), s->body.data,
                          s->body.len_bytes);
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
    if (s->digest_count) /* these are kept first */
        return 0;
    return ec_detections_set_sent(s->places, s->options->receiver, last, err);
}

static void send_wait(int64_t ns) {
    for (int64_t end = ea_monotonic_ns() + ns; !atomic_load(ea_stop_flag()) && ea_monotonic_ns() < end;)
        ea_sleep_ns(SEND_SECOND_NS / 10);
}

/* What the receiver did not take. */
static void send_report(const sending *s, const char *what, const ea_err *why) {
    if (s->digest_count > 1)
        fprintf(stderr, "etwcollector: a mail with %" PRIu64 " detections up to %" PRIu64 " is %s: %s\n",
                s->digest_count, s->number, what, why->message);
    else
        fprintf(stderr, "etwcollector: detection %" PRIu64 " is %s: %s\n", s->number, what, why->message);
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
        uint64_t count = s->digest_count ? s->digest_count : 1;
        s->sent_count += rc ? 0 : count;
        if (rc == EA_EREFUSED) {
            s->refused_count += count;
            send_report(s, "skipped", &own);
            rc = 0;
        }
        if (!rc)
            return ec_detections_set_sent(s->places, s->options->receiver, s->number, err);
        if (s->options->once && attempt == SEND_ATTEMPTS) {
            *err = own;
            return rc;
        }
        if (strcmp(said, own.message) != 0)
            send_report(s, "sent again", &own);
        snprintf(said, sizeof said, "%s", own.message);
        send_wait(wait_s * SEND_SECOND_NS);
        wait_s = wait_s * 2 < SEND_WAIT_MAX_S ? wait_s * 2 : SEND_WAIT_MAX_S;
    }
    return EA_ECANCELED;
}

/* Sends what is new in one mail, and then nothing for a while. */
static int send_mails(sending *s, ea_err *err) {
    int rc = 0;
    while (!rc && !atomic_load(ea_stop_flag())) {
        while ((rc = send_next(s, err)) > 0 && !atomic_load(ea_stop_flag()))
            ;
        if (rc < 0 || atomic_load(ea_stop_flag()))
            break;
        int is_due = s->options->once || ea_monotonic_ns() - s->digest_begun_ns >= s->options->digest_ns;
        if (s->digest_count && is_due) {
            rc = digest_make(s, err);
            if (!rc)
                rc = send_one(s, err);
            s->digest_count = 0;
        } else if (s->options->once) {
            break;
        } else {
            send_wait(SEND_LOOK_MS * (SEND_SECOND_NS / 1000));
        }
    }
    return rc == EA_ECANCELED || rc > 0 ? 0 : rc;
}

static int detections_send_send_all(sending *s, ea_err *err) {
    int rc = 0;
    if (ec_mail_is_url(s->options->to))
        return send_mails(s, err);
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

/* One command at a time has a receiver's place: of two, each would pass over what the other has sent. */
static int send_lock(sending *s, const send_options *o, ea_err *err) {
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/receiver-", o->store);
    ea_text_percent(&path, o->receiver, strlen(o->receiver), "-_");
    ea_text_str(&path, ".lock");
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "send detections")
                         : ea_file_open(&s->lock, path.data, EA_OPEN_APPEND, err);
    if (!rc)
        rc = ea_file_try_lock(s->lock, err);
    if (rc == EA_EBUSY)
        rc = ea_fail(err, EA_EBUSY, "another command sends to the receiver %.64s: name this one (--receiver)",
                     o->receiver);
    ea_text_deinit(&path);
    return rc;
}

static int send_open(sending *s, const send_options *o, ea_err *err) {
    char *headers = NULL, *login = NULL;
    (void)ea_stop_flag();
    int rc = ec_store_check_readable(o->store, err);
    if (!rc)
        rc = send_lock(s, o, err);
    for (size_t i = 0; i < o->mail_to.count; i++)
        ea_text_printf(&s->recipients, "%s\n", o->mail_to.items[i]);
    if (!rc && s->recipients.failed)
        rc = ea_fail(err, EA_ENOMEM, "send detections");
    if (!rc && o->headers)
        rc = ec_text_file_read(o->headers, SEND_HEADERS_MAX_BYTES, "lines NAME: VALUE", &headers, err);
    if (!rc && o->login)
        rc =
            ec_text_file_read(o->login, LOGIN_MAX_BYTES, "a line with the name and one with the password", &login, err);
    const ec_send_options options = {.to = o->to,
                                     .ca = o->ca,
                                     .headers = headers,
                                     .mail_from = o->mail_from,
                                     .recipients = s->recipients.len_bytes ? s->recipients.data : NULL,
                                     .login = login,
                                     .stop = ea_stop_flag()};
    if (!rc)
        rc = ec_send_worker_start(&s->worker, &options, err);
    free(headers);
    free(login);
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
    ea_text_init(&s.recipients);
    int rc = send_open(&s, o, &err);
    if (!rc)
        rc = detections_send_send_all(&s, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    else
        printf("%" PRIu64 " detections were sent, %" PRIu64 " were refused\n", s.sent_count, s.refused_count);
    sqlite3_finalize(s.next);
    sqlite3_finalize(s.last);
    ec_incidents_close(s.file);
    ec_detections_close(s.places);
    ec_send_worker_end(s.worker);
    ea_file_close(s.lock);
    ea_text_deinit(&s.body);
    ea_text_deinit(&s.message);
    ea_text_deinit(&s.recipients);
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
             "syslog+udp; smtp://HOST:PORT or smtps (mails)"},
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
    {.name = "mail-from",
     .argument = "ADDRESS",
     .type = EA_OPT_STRING,
     .offset = offsetof(send_options, mail_from),
     .help = "of mails: who sends them"},
    {.name = "mail-to",
     .argument = "ADDRESS",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(send_options, mail_to),
     .help = "of mails: who gets them; may be repeated, at most 32 times"},
    {.name = "login",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(send_options, login),
     .help = "of mails: a line with the name and one with the password for the server"},
    {.name = "digest",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(send_options, digest_ns),
     .fallback = "5m",
     .help = "of mails: how long detections are collected for one mail",
     .max = INT64_C(86400) * 1000000000},
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
    .summary = "Send new detections to a receiver by HTTP POST (a webhook), syslog or mail, each until it is accepted",
    .details =
        "Runs beside the collector until it is stopped, by a user who may write to the store's folder. A detection is\n"
        "sent as JSON, in the order of their numbers: the members of detections list --json, and chain. One that is\n"
        "not accepted is sent again, after 1 s, 2 s, ... 5 min. The store keeps how far each receiver has got, so that "
        "a\n"
        "receiver gets each detection at least once: number says which it has already.\n\n"
        "By HTTP an answer of 2xx accepts it; 400, 413, 415 and 422 refuse it for good: it is reported and skipped. "
        "By\n"
        "syslog (RFC 5424) it is accepted when the receiver's system has acknowledged it; by UDP, when it was sent.\n"
        "By mail what is new within --digest is one mail, which lists the first 100 and counts the others. TLS is\n"
        "required (STARTTLS or smtps) unless the server is localhost.\n\n"
        "  etwcollector detections send --store /var/lib/etwcollector --to https://soar.example/hook --level high\n"
        "  etwcollector detections send --store /var/lib/etwcollector --to syslog+tls://siem.example:6514\n"
        "  etwcollector detections send --store /var/lib/etwcollector --to smtps://mail.example --level high \\\n"
        "      --mail-from etw@example.org --mail-to soc@example.org --login /etc/etwcollector/mail.login",
    .options = SEND_OPTIONS,
    .options_size = sizeof(send_options),
    .run = detections_send_run,
};
