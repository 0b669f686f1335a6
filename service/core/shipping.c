/* What the commands that ship share. See shipping.h. */
#include "service/core/shipping.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "service/core/agent_log.h"
#include "service/core/cut_off.h"
#include "service/host/host.h"
#include "service/ship/tls_store.h"

#include <stdlib.h>
#include <string.h>

const char *const ea_spool_sync_choices[] = {"always", "interval", "never", NULL};

int ea_shipping_spool_path(const char *given, char *out, ea_err *err) {
    size_t n = given ? strlen(given) : 0;
    if (given) {
        if (!n || n >= EA_SPOOL_PATH_BYTES)
            return ea_fail(err, EA_EUSAGE, "--spool: expected a folder's path");
        memcpy(out, given, n + 1);
        return 0;
    }
    int rc = ea_state_dir(out, EA_SPOOL_PATH_BYTES - sizeof "/spool", err);
    if (rc)
        return rc;
    memcpy(out + strlen(out), "/spool", sizeof "/spool");
    return 0;
}

static void on_note(void *arg, const char *text) {
    (void)arg;
    ea_log_warning("%s", text);
}

/* The folder is another name's: where this name's batches are, when that is new. */
static void report_other_folder(const char *root, const char *path, const char *name) {
    char owner[EA_SPOOL_OWNER_BYTES] = "";
    ea_err why;
    if (strcmp(root, path) == 0 || ea_path_exists(path))
        return;
    if (ea_spool_owner_read(root, owner, &why))
        ea_log_warning("%s; batches of '%s' are kept in %s", why.message, name, path);
    else
        ea_log_warning("the spool %s is that of '%s'; batches of '%s' are kept in %s", root, owner, name, path);
}

/* What the spool and recorders have in common. */
static ea_spool_options spool_options(const ea_shipping_options *o, ea_counters *counters) {
    static const enum ea_spool_sync SYNC[] = {EA_SPOOL_SYNC_ALWAYS, EA_SPOOL_SYNC_INTERVAL, EA_SPOOL_SYNC_NEVER};

    return (ea_spool_options){.sync = SYNC[o->spool_sync],
                              .sync_interval_ns = o->spool_sync_interval_ns,
                              .key_path = o->spool_key,
                              .on_note = on_note,
                              .counters = counters};
}

/* What fails here is tried again by the next start. */
static void close_cut_off(ea_spool *spool, const ea_shipping_options *o, const char *root) {
    ea_spool_keys keys = {0};
    ea_err unclosed;
    int rc = o->spool_key ? ea_spool_keys_read(&keys, o->spool_key, 0, &unclosed) : 0;
    if (!rc)
        rc = ea_close_cut_off(spool, root, &keys, &unclosed);
    if (rc)
        ea_log_warning("%s", unclosed.message);
    ea_spool_keys_clear(&keys);
}

int ea_shipping_open_spool(ea_spool **ret, const ea_shipping_options *o, const char *name, int live,
                           ea_counters *counters, ea_err *err) {
    char root[EA_SPOOL_PATH_BYTES], folder[EA_SPOOL_PATH_BYTES], *path = root;
    int rc = ea_shipping_spool_path(o->spool, root, err);
    if (!rc && name) {
        rc = ea_spool_folder_of(root, name, folder, sizeof folder, err);
        path = folder;
    }
    if (rc)
        return rc;
    if (name)
        report_other_folder(root, folder, name);
    ea_spool_options so = spool_options(o, counters);
    so.limit_bytes = o->spool_bytes;
    so.limit_age_ns = o->spool_age_ns;
    so.live = live;
    so.owner = name;
    rc = ea_spool_open(ret, path, &so, err);
    if (!rc)
        close_cut_off(*ret, o, root);
    return rc;
}

int ea_shipping_open_recorder(ea_spool **ret, const ea_shipping_options *o, const char *name, uint64_t size_bytes,
                              int64_t age_ns, ea_counters *counters, ea_err *err) {
    char root[EA_SPOOL_PATH_BYTES], path[EA_SPOOL_PATH_BYTES];
    int rc = ea_shipping_spool_path(o->spool, root, err);
    if (!rc)
        rc = ea_recorder_folder(root, name, path, sizeof path, err);
    ea_spool_options so = spool_options(o, counters);
    so.limit_bytes = size_bytes;
    so.limit_age_ns = age_ns;
    so.live = so.is_recorder = 1;
    return rc ? rc : ea_spool_open(ret, path, &so, err);
}

static int shipping_read_certificate(const ea_shipping_options *o, ea_certificate *ret, ea_err *err) {
    uint8_t *der = NULL;
    size_t len_bytes = 0;
    if (!ea_store_is_place(o->cert))
        return ea_certificate_read(o->cert, ret, err);
    int rc = ea_tls_store_certificate(o->cert, &der, &len_bytes, err);
    if (!rc)
        rc = ea_certificate_of_der(der, len_bytes, ret, err);
    free(der);
    return rc;
}

int ea_shipping_name(const ea_shipping_options *o, char ret[EA_CERTIFICATE_NAME_BYTES], ea_err *err) {
    ea_certificate c;
    int rc = shipping_read_certificate(o, &c, err);
    if (rc)
        return rc;
    if (!ea_name_is_agent(c.name, strlen(c.name)))
        return ea_fail(err, EA_EINVAL,
                       "%s: expected a common name of letters, digits, '.', '_' and '-' that begins with no '.', and "
                       "found one that no collector accepts",
                       o->cert);
    ea_name_to_lower(c.name);
    memcpy(ret, c.name, sizeof c.name);
    return 0;
}

int ea_shipping_target(const ea_shipping_options *o, uint64_t *ret, ea_err *err) {
    ea_certificate c;
    int rc = shipping_read_certificate(o, &c, err);
    if (rc)
        return rc;
    uint64_t h = ea_hash64(c.name, strlen(c.name), 0); /* the next certificate of this name changes nothing */
    for (size_t i = 0; i < o->collectors.count; i++)
        h = ea_hash64(o->collectors.items[i], strlen(o->collectors.items[i]), h);
    *ret = h;
    return 0;
}

ea_sender_options ea_shipping_sender(const ea_shipping_options *o, ea_counters *counters, ea_sender_events *events) {
    int is_system = o->proxy && strcmp(o->proxy, EA_PROXY_SYSTEM) == 0;
    ea_sender_options so = {.collectors = o->collectors.items,
                            .collector_count = o->collectors.count,
                            .cert = o->cert,
                            .key = o->key,
                            .ca = o->ca,
                            .proxy = is_system ? NULL : o->proxy,
                            .system_proxy = is_system ? ea_host_proxy : NULL,
                            .bytes_a_second = o->bandwidth_bytes,
                            .request_bytes = (size_t)o->request_bytes,
                            .connect_timeout_ns = o->connect_timeout_ns,
                            .request_timeout_ns = o->request_timeout_ns,
                            .idle_timeout_ns = o->idle_timeout_ns,
                            .pause_max_ns = o->retry_max_ns,
                            .fail_fast = 1,
                            .give_up_ns = o->give_up_ns,
                            .counters = counters};
    ea_sender_events_set(&so, events);
    return so;
}
