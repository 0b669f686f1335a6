/* What the tests of the agent share: a certificate, small traces, a configuration of both, and an agent on a thread. */
#ifndef EA_TESTS_UNIT_AGENT_KIT_H
#define EA_TESTS_UNIT_AGENT_KIT_H

#include "proto/base/text.h"
#include "service/core/agent.h"
#include "service/core/agent_log.h"
#include "tests/unit/etl_files.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

static const int64_t MS = 1000000;

/* A self-signed certificate of "agent", agent.crt and agent.key in the scratch folder. */
static inline void make_certificate(void) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    BIO *crt = BIO_new(BIO_s_mem()), *pem = BIO_new(BIO_s_mem());
    char *data;
    ea_err err;
    assert_true(key && cert && crt && pem);
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"agent", -1, -1, 0);
    X509_set_issuer_name(cert, name);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_true(PEM_write_bio_X509(crt, cert) && PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL));
    long n = BIO_get_mem_data(crt, &data);
    must(ea_path_write_all(scratch_path("agent.crt"), data, (size_t)n, 0, &err), &err);
    n = BIO_get_mem_data(pem, &data);
    must(ea_path_write_all(scratch_path("agent.key"), data, (size_t)n, 0, &err), &err);
    BIO_free(crt);
    BIO_free(pem);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* A trace of records that are seconds apart: at its own speed it takes longer than any test. */
static inline void make_slow_trace(const char *name) {
    ea_etl_info info = plain_info();
    ea_etl_writer *w = begin(name, &info);
    for (unsigned i = 0; i < 100; i++)
        add(w, 0, HEADER_TIME + 1 + (int64_t)i * 600 * (int64_t)info.perf_frequency, i, 8);
    end(w);
}

static inline void make_trace(const char *name, unsigned count) {
    ea_etl_info info = plain_info();
    make_file(name, &info, count, 1, HEADER_TIME + 1);
}

/* Writes agent.yaml: sources is the text of that list. Nothing answers at the collector's address. */
static inline const char *make_config(const char *labels, const char *sources) {
    ea_text t;
    ea_err err;
    ea_text_init(&t);
    ea_text_printf(&t,
                   "labels: {%s}\nservice: {status: '%s', status-every: 100ms}\n"
                   "shipping:\n  collector: [https://127.0.0.1:1]\n  cert: %s\n  key: %s\n  ca: %s\n  spool: %s\n"
                   "batching: {batch-events: 50}\nsources:%s\n",
                   labels, scratch_path("status.json"), scratch_path("agent.crt"), scratch_path("agent.key"),
                   scratch_path("agent.crt"), scratch_path("spool"), sources);
    assert_false(t.failed);
    must(ea_path_write_all(scratch_path("agent.yaml"), t.data, t.len_bytes, 0, &err), &err);
    ea_text_deinit(&t);
    return scratch_path("agent.yaml");
}

/* ---- an agent ---- */

typedef struct test_agent {
    ea_agent_control control;
    char path[256];
    ea_thread *thread;
    ea_mutex *lock;
    ea_text status; /* the last one; lock */
    unsigned count; /* of statuses; lock */
    ea_text log;    /* its lines; lock */
    int rc;
    ea_err err;
} test_agent;

static inline void on_status(void *arg, const char *json, size_t len_bytes) {
    test_agent *a = arg;
    ea_mutex_lock(a->lock);
    ea_text_clear(&a->status);
    ea_text_add(&a->status, json, len_bytes);
    a->count++;
    ea_mutex_unlock(a->lock);
}

static inline void on_log_line(void *arg, enum ea_log_kind kind, const char *line) {
    test_agent *a = arg;
    (void)kind;
    ea_mutex_lock(a->lock);
    ea_text_str(&a->log, line);
    ea_text_char(&a->log, '\n');
    ea_mutex_unlock(a->lock);
}

static inline void agent_main(void *arg) {
    test_agent *a = arg;
    a->rc = ea_agent_run(
        &(ea_agent_options){.config_path = a->path, .control = &a->control, .arg = a, .on_status = on_status}, &a->err);
}

static inline void agent_start(test_agent *a, const char *config) {
    ea_err err;
    memset(a, 0, sizeof *a);
    snprintf(a->path, sizeof a->path, "%s", config);
    ea_text_init(&a->status);
    ea_text_init(&a->log);
    must(ea_mutex_create(&a->lock, &err), &err);
    must(ea_log_open(&(ea_log_options){.quiet = 1, .on_line = on_log_line, .arg = a}, &err), &err);
    must(ea_thread_start(&a->thread, "agent", agent_main, a, &err), &err);
}

/* Waits until the status, or with in_log the log, holds the text. */
static inline void agent_wait_for(test_agent *a, const char *text, int in_log) {
    for (int i = 0; i < 2000; i++) {
        ea_mutex_lock(a->lock);
        const ea_text *t = in_log ? &a->log : &a->status;
        int found = t->len_bytes && strstr(t->data, text) != NULL;
        ea_mutex_unlock(a->lock);
        if (found)
            return;
        ea_sleep_ns(10 * MS);
    }
    fail_msg("no \"%s\" in 20 s; status:\n%s\nlog:\n%s", text, a->status.data, a->log.data);
}

/* Stops it. Its last status and its log stay until agent_free. */
static inline void agent_stop(test_agent *a) {
    atomic_store(&a->control.no_drain, 1);
    atomic_store(&a->control.stop, 1);
    ea_thread_join(a->thread);
    must(a->rc, &a->err);
    ea_log_close();
}

static inline void agent_free(test_agent *a) {
    ea_text_deinit(&a->status);
    ea_text_deinit(&a->log);
    ea_mutex_destroy(a->lock);
}

#endif
