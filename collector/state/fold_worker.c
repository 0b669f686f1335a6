/* The process that folds for a command, and the side of the command. See fold_worker.h. */
#include "collector/state/fold_worker.h"

#include "collector/sandbox/child.h"
#include "collector/sandbox/message.h"
#include "collector/sandbox/sandbox.h"
#include "collector/state/state_worker_parts.h"
#include "proto/base/platform.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLD_MEMORY_BYTES (UINT64_C(4) << 30)

/* ---- messages ---- */

static void add_err(ea_text *t, int code, const ea_err *err) {
    ec_message_u32(t, (uint32_t)code);
    ec_message_u32(t, (uint32_t)(code ? err->os_error : 0));
    ec_message_string(t, code ? err->message : "");
}

static int get_err(ec_message *m, ea_err *err) {
    int code = (int32_t)(uint32_t)ec_message_get(m, 4), os_error = (int32_t)(uint32_t)ec_message_get(m, 4);
    const char *text = ec_message_get_string(m);
    return !code || m->failed || code > 0 ? 0 : ea_fail_os(err, code, os_error, "%.480s", text);
}

/* ---- the process ---- */

/* The store, as the daemon's own sandbox has it. */
static int confine_fold(const char *dir, ea_err *err) {
    ea_text segments;
    ea_text_init(&segments);
    ea_text_printf(&segments, "%s/segments", dir); /* perhaps on another drive */
    tzset();
    sqlite3_temp_directory = sqlite3_mprintf("%s", dir);
    const ec_sandbox_path paths[] = {{.path = dir, .access = EC_SANDBOX_WRITE},
                                     {.path = segments.data, .access = EC_SANDBOX_READ},
                                     {.path = "/dev/urandom", .access = EC_SANDBOX_READ}};
    int rc = segments.failed || !sqlite3_temp_directory ? ea_fail(err, EA_ENOMEM, "enter the sandbox") : 0;
    if (!rc)
        rc = ec_sandbox_enter(
            &(ec_sandbox){.rights = EC_SANDBOX_MODES, .paths = paths, .path_count = sizeof paths / sizeof *paths}, err);
    ea_text_deinit(&segments);
    return rc;
}

int ec_fold_worker_main(void) {
    ec_message_reader in = {.fd = STDIN_FILENO, .deadline_ns = INT64_MAX};
    ec_message m;
    ea_err err = {0}, why = {0};
    ea_text out;
    int rc = 0;
    if (ec_message_next(&in, &m) <= 0 || m.letter != 'F')
        return 1;
    uint64_t parent = ec_message_get(&m, 8);
    int has_host = ec_message_get(&m, 1) != 0;
    const char *dir = ec_message_get_string(&m), *host = ec_message_get_string(&m);
    if (m.failed)
        return 1;
    ec_child_limit(parent, 0, FOLD_MEMORY_BYTES);
    int can = confine_fold(dir, &why);
    if (!can)
        can = ec_state_fold_here(dir, has_host ? host : NULL, &rc, &why, &err);
    ea_text_init(&out);
    ec_message_begin(&out, 'E');
    add_err(&out, can, &why);
    add_err(&out, rc, &err);
    int sent = ec_message_send(STDOUT_FILENO, &out);
    ea_text_deinit(&out);
    ec_message_reader_deinit(&in);
    return sent ? 1 : 0;
}

/* ---- the command ---- */

static int send_fold(int in, const char *dir, const char *host) {
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'F');
    ec_message_u64(&t, (uint64_t)getpid());
    ec_message_u8(&t, host != NULL);
    ec_message_string(&t, dir);
    ec_message_string(&t, host);
    int rc = ec_message_send(in, &t);
    ea_text_deinit(&t);
    return rc;
}

/* As ec_state_fold_here. */
static int fold_in_worker(const char *dir, const char *host, int *ret_rc, ea_err *why, ea_err *err) {
    pid_t pid = 0;
    int in = -1, out = -1, status = 0;
    int can = ec_child_start(&(ec_child_options){.name = EC_FOLD_WORKER_NAME}, &pid, &in, &out, why);
    if (can)
        return can;
    ec_message_reader from = {.fd = out, .deadline_ns = INT64_MAX};
    ec_message m = {.failed = 1};
    int rc = send_fold(in, dir, host);
    close(in);
    if (!rc && ec_message_next(&from, &m) > 0 && m.letter == 'E') {
        can = get_err(&m, why);
        *ret_rc = get_err(&m, err);
    }
    int has_ended = !m.failed;
    ec_message_reader_deinit(&from);
    close(out);
    if (!has_ended)
        (void)kill(pid, SIGKILL); /* ours, and not waited for yet */
    (void)ec_child_wait(pid, &status);
    if (!has_ended)
        *ret_rc = ea_fail(err, EA_EIO, "the process that brings %s up to date ended early (%s %d)", dir,
                          WIFSIGNALED(status) ? "signal" : "code",
                          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return can;
}

void ec_fold_in_worker(void) {
    ec_state_fold_with(fold_in_worker);
}
