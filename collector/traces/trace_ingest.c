/* The caller's side. See trace_ingest.h. */
#include "collector/traces/trace_ingest.h"

#include "collector/sandbox/child.h"
#include "collector/sandbox/message.h"
#include "proto/base/platform.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void ec_trace_host(const char *path, char ret[EC_TRACE_HOST_BYTES]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    size_t n = dot && dot > name ? (size_t)(dot - name) : strlen(name), length = 0;
    for (size_t i = 0; i < n && length + 1 < EC_TRACE_HOST_BYTES; i++) {
        unsigned char c = (unsigned char)name[i];
        int is_word = c < 0x80 && (isalnum(c) || c == '_' || c == '-' || (c == '.' && length));
        ret[length++] = (char)(is_word ? tolower(c) : '-');
    }
    ret[length] = 0;
    if (!length)
        memcpy(ret, "trace", sizeof "trace");
}

static void trace_ingest_add_strings(ea_text *t, const char *const *items, size_t count) {
    ec_message_u32(t, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        ec_message_string(t, items[i]);
}

/* u64 the process that asks; store, host; u8 whether the store is removed after its use; paths; manifests: each a u32
 * and so many strings. */
static int send_order(int in, const ec_trace_order *o, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'T');
    ec_message_u64(&t, (uint64_t)getpid());
    ec_message_string(&t, o->store);
    ec_message_string(&t, o->host);
    ec_message_u8(&t, (uint8_t)(o->is_scratch != 0));
    trace_ingest_add_strings(&t, o->paths, o->path_count);
    trace_ingest_add_strings(&t, o->manifests, o->manifest_count);
    int rc = ec_message_send(in, &t);
    ea_text_deinit(&t);
    return rc ? ea_fail(err, rc, "ask the process that reads traces") : 0;
}

static void trace_ingest_copy_text(char *to, size_t room, const char *from) {
    snprintf(to, room, "%s", from);
}

/* The end that it reports: the error, and what was done until then. */
static int read_end(ec_message *m, ec_trace_report *r, ea_err *err) {
    int code = (int32_t)(uint32_t)ec_message_get(m, 4), os_error = (int32_t)(uint32_t)ec_message_get(m, 4);
    const char *text = ec_message_get_string(m);
    size_t bytes = 0;
    const void *stream = ec_message_get_bytes(m, &bytes);
    if (bytes == sizeof r->stream)
        memcpy(r->stream, stream, bytes);
    uint64_t *const numbers[] = {&r->events,  &r->trace_bytes, &r->stored,        &r->repeated,
                                 &r->refused, &r->lost_events, &r->damaged_places};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = ec_message_get(m, 8);
    trace_ingest_copy_text(r->damage, sizeof r->damage, ec_message_get_string(m));
    trace_ingest_copy_text(r->refusal, sizeof r->refusal, ec_message_get_string(m));
    if (m->failed || code > 0)
        return ea_fail(err, EA_ECORRUPT, "read what the process that reads traces says");
    if (!code)
        return 0;
    int rc = ea_fail(err, code, "%.480s", text);
    err->os_error = os_error;
    return rc;
}

static int trace_ingest_listen_to(int out, const ec_trace_order *o, atomic_int *stop, ec_trace_report *ret,
                                  ea_err *err) {
    ec_message_reader reader = {.fd = out, .stop = stop, .deadline_ns = INT64_MAX};
    int rc, has_ended = 0;
    do {
        ec_message m;
        rc = ec_message_next(&reader, &m);
        if (rc == 1 && m.letter == 'P') {
            unsigned permille = (unsigned)ec_message_get(&m, 4);
            uint64_t events = ec_message_get(&m, 8);
            if (o->shows_progress)
                fprintf(stderr, "\r\x1b[K%5.1f %%  %" PRIu64 " events", permille / 10.0, events);
        } else if (rc == 1) {
            has_ended = 1;
            rc = m.letter == 'E' ? read_end(&m, ret, err) : ea_fail(err, EA_ECORRUPT, "read a trace");
        } else {
            has_ended = 1;
            rc = rc == EA_ECANCELED ? ea_fail(err, rc, "stopped on request")
                                    : ea_fail(err, rc ? rc : EA_EIO, "the process that reads traces has ended early");
        }
    } while (!has_ended);
    if (o->shows_progress)
        fputs("\r\x1b[K", stderr);
    ec_message_reader_deinit(&reader);
    return rc;
}

int ec_trace_ingest(const ec_trace_order *order, atomic_int *stop, ec_trace_report *ret, ea_err *err) {
    pid_t pid = 0;
    int in = -1, out = -1, status;
    *ret = (ec_trace_report){.events = 0};
    if (!order->path_count || order->path_count > EC_TRACE_PATHS_MAX || order->manifest_count > EC_TRACE_PATHS_MAX)
        return ea_fail(err, EA_ELIMIT, "%zu files: at most %d are read as one", order->path_count, EC_TRACE_PATHS_MAX);
    int rc = ec_child_start(&(ec_child_options){.name = EC_TRACE_WORKER_NAME}, &pid, &in, &out, err);
    if (rc)
        return rc;
    rc = send_order(in, order, err);
    close(in);
    if (!rc)
        rc = trace_ingest_listen_to(out, order, stop, ret, err);
    close(out);
    (void)kill(pid, SIGKILL); /* ours, and not waited for yet */
    (void)ec_child_wait(pid, &status);
    return rc;
}
