/* See send_worker.h. */
#include "collector/detect/send_worker.h"

#include "collector/curl/webhook.h"
#include "collector/detect/mail.h"
#include "collector/detect/syslog.h"
#include "collector/sandbox/child.h"
#include "collector/sandbox/message.h"
#include "collector/sandbox/sandbox.h"
#include "collector/sandbox/system_paths.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const VARIABLES[] = {EC_CONNECTION_VARIABLES, NULL};
static const uint64_t LIMIT_BYTES = UINT64_C(1) << 30;

/* ---- the process ---- */

/* One of them. */
typedef struct receiver {
    ec_webhook *webhook;
    ec_syslog *syslog;
    ec_mail *mail;
} receiver;

static int confine_sender(const char *ca, ea_err *err) {
    ec_sandbox_path paths[EC_CONNECTION_PATHS];
    size_t count = ec_connection_paths(ca, paths);
    return ec_sandbox_enter(
        &(ec_sandbox){.rights = EC_SANDBOX_NETWORK | EC_SANDBOX_LIBRARIES, .paths = paths, .path_count = count}, err);
}

static int answer(int rc, const ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'E');
    ec_message_u32(&t, (uint32_t)rc);
    ec_message_u32(&t, (uint32_t)(rc ? err->os_error : 0));
    ec_message_string(&t, rc ? err->message : "");
    int sent = ec_message_send(STDOUT_FILENO, &t);
    ea_text_deinit(&t);
    return sent;
}

static int send_worker_send_text(const receiver *r, const char *text, size_t len, ea_err *err) {
    if (r->mail)
        return ec_mail_send(r->mail, text, len, err);
    return r->syslog ? ec_syslog_send(r->syslog, text, len, err) : ec_webhook_post(r->webhook, text, len, err);
}

/* Answers until the parent ends: 0, or an error of the pipe. */
static int serve(ec_message_reader *in, const receiver *r) {
    ec_message m;
    int rc;
    while ((rc = ec_message_next(in, &m)) > 0) {
        ea_err err = {0};
        size_t len = 0;
        const char *text = ec_message_get_bytes(&m, &len);
        if (m.letter != 'P' || m.failed)
            return EA_ECORRUPT;
        if ((rc = answer(send_worker_send_text(r, text, len, &err), &err)))
            break;
    }
    return rc;
}

int ec_send_worker_main(void) {
    ec_message_reader in = {.fd = STDIN_FILENO, .deadline_ns = INT64_MAX};
    ec_message m;
    ea_err err = {0};
    receiver r = {.webhook = NULL};
    if (ec_message_next(&in, &m) <= 0 || m.letter != 'O')
        return 1;
    uint64_t parent = ec_message_get(&m, 8);
    const char *to = ec_message_get_string(&m), *ca = ec_message_get_string(&m), *headers = ec_message_get_string(&m);
    const char *from = ec_message_get_string(&m), *recipients = ec_message_get_string(&m);
    const char *login = ec_message_get_string(&m);
    if (m.failed)
        return 1;
    ca = *ca ? ca : NULL;
    ec_child_follow(parent);
    ec_child_limit_memory(LIMIT_BYTES);
    int rc = confine_sender(ca, &err);
    if (!rc && ec_syslog_is_url(to))
        rc = ec_syslog_create(&r.syslog, to, ca, &err);
    else if (!rc && ec_mail_is_url(to))
        rc = ec_mail_create(
            &r.mail,
            &(ec_mail_options){
                .url = to, .ca = ca, .from = from, .recipients = recipients, .login = *login ? login : NULL},
            &err);
    else if (!rc)
        rc = ec_webhook_create(&r.webhook, &(ec_webhook_options){.url = to, .ca = ca, .headers = headers}, &err);
    int failed = answer(rc, &err) || rc || serve(&in, &r);
    ec_syslog_destroy(r.syslog);
    ec_webhook_destroy(r.webhook);
    ec_mail_destroy(r.mail);
    ec_message_reader_deinit(&in);
    return failed ? 1 : 0;
}

/* ---- the command ---- */

struct ec_send_worker {
    char *to, *ca, *headers, *mail_from, *recipients, *login; /* "": none, but for to */
    atomic_int *stop;
    pid_t pid; /* 0: it is not running */
    int in;
    ec_message_reader from;
};

static void worker_end(ec_send_worker *w) {
    int status;
    if (!w->pid)
        return;
    close(w->in);
    close(w->from.fd);
    ec_message_reader_deinit(&w->from);
    (void)kill(w->pid, SIGKILL); /* ours, and not waited for yet */
    (void)ec_child_wait(w->pid, &status);
    w->pid = 0;
}

/* The answer to what was asked. */
static int worker_answer(ec_send_worker *w, ea_err *err) {
    ec_message m;
    int rc = ec_message_next(&w->from, &m);
    if (rc == EA_ECANCELED)
        return ea_fail(err, rc, "send a detection");
    if (rc <= 0 || m.letter != 'E')
        return ea_fail(err, EA_EIO, "the process that sends detections ended early");
    int code = (int32_t)(uint32_t)ec_message_get(&m, 4), os_error = (int32_t)(uint32_t)ec_message_get(&m, 4);
    const char *text = ec_message_get_string(&m);
    if (m.failed || code > 0)
        return ea_fail(err, EA_EIO, "the process that sends detections ended early");
    return code ? ea_fail_os(err, code, os_error, "%.480s", text) : 0;
}

static int send_worker_worker_run(ec_send_worker *w, ea_err *err) {
    ea_text t;
    int out = -1;
    int rc = ec_child_start(&(ec_child_options){.name = EC_SEND_WORKER_NAME, .variables = VARIABLES}, &w->pid, &w->in,
                            &out, err);
    if (rc)
        return rc;
    w->from = (ec_message_reader){.fd = out, .deadline_ns = INT64_MAX, .stop = w->stop};
    ea_text_init(&t);
    ec_message_begin(&t, 'O');
    ec_message_u64(&t, (uint64_t)getpid());
    ec_message_string(&t, w->to);
    ec_message_string(&t, w->ca);
    ec_message_string(&t, w->headers);
    ec_message_string(&t, w->mail_from);
    ec_message_string(&t, w->recipients);
    ec_message_string(&t, w->login);
    rc = ec_message_send(w->in, &t) ? ea_fail(err, EA_EIO, "ask the process that sends detections") : 0;
    ea_text_deinit(&t);
    if (!rc)
        rc = worker_answer(w, err);
    if (rc)
        worker_end(w);
    return rc;
}

int ec_send_worker_start(ec_send_worker **ret, const ec_send_options *o, ea_err *err) {
    ec_send_worker *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "send detections");
    w->stop = o->stop;
    w->to = strdup(o->to);
    w->ca = strdup(o->ca ? o->ca : "");
    w->headers = strdup(o->headers ? o->headers : "");
    w->mail_from = strdup(o->mail_from ? o->mail_from : "");
    w->recipients = strdup(o->recipients ? o->recipients : "");
    w->login = strdup(o->login ? o->login : "");
    int rc = !w->to || !w->ca || !w->headers || !w->mail_from || !w->recipients || !w->login
                 ? ea_fail(err, EA_ENOMEM, "send detections")
                 : send_worker_worker_run(w, err);
    if (rc)
        ec_send_worker_end(w);
    else
        *ret = w;
    return rc;
}

void ec_send_worker_end(ec_send_worker *w) {
    if (!w)
        return;
    worker_end(w);
    free(w->to);
    free(w->ca);
    free(w->headers);
    free(w->mail_from);
    free(w->recipients);
    free(w->login);
    free(w);
}

int ec_send_worker_post(ec_send_worker *w, const char *text, size_t len_bytes, ea_err *err) {
    ea_text t;
    int rc = w->pid ? 0 : send_worker_worker_run(w, err);
    if (rc)
        return rc;
    ea_text_init(&t);
    ec_message_begin(&t, 'P');
    ec_message_bytes(&t, text, len_bytes);
    rc = ec_message_send(w->in, &t) ? ea_fail(err, EA_EIO, "ask the process that sends detections") : 0;
    ea_text_deinit(&t);
    if (!rc)
        rc = worker_answer(w, err);
    if (rc == EA_EIO || rc == EA_ECANCELED)
        worker_end(w);
    return rc;
}
