/* Uploads and a full disk. See disk_gate.h. */
#include "collector/ingest/disk_gate.h"

#include "collector/net/log.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <inttypes.h>

static const int64_t SECOND_NS = INT64_C(1000000000);

void ec_disk_gate_init(ec_disk_gate *g, const char *folder, struct ec_log *log) {
    *g = (ec_disk_gate){.folder = folder, .log = log, .free_bytes = ea_path_free_bytes};
}

int ec_disk_gate_is_cause(int rc, const ea_err *err) {
    return rc == EA_EFULL || err->os_error == ENOSPC || err->os_error == EDQUOT;
}

static unsigned seconds_left(int64_t until_ns, int64_t now_ns) {
    return until_ns <= now_ns ? 0 : (unsigned)((until_ns - now_ns + SECOND_NS - 1) / SECOND_NS);
}

unsigned ec_disk_gate_close(ec_disk_gate *g, int64_t now_ns) {
    int64_t until_ns = atomic_load(&g->until_ns);
    unsigned left_s = seconds_left(until_ns, now_ns);
    if (left_s) /* of uploads that were under way at the failure */
        return left_s;
    uint64_t free_bytes = g->free_bytes(g->folder);
    g->pause_s = !until_ns                              ? EC_DISK_PAUSE_MIN_S
                 : g->pause_s < EC_DISK_PAUSE_MAX_S / 2 ? 2 * g->pause_s
                                                        : EC_DISK_PAUSE_MAX_S;
    atomic_store(&g->free_at_failure_bytes, free_bytes);
    atomic_store(&g->look_ns, now_ns + SECOND_NS);
    atomic_store(&g->until_ns, now_ns + (int64_t)g->pause_s * SECOND_NS);
    if (!g->is_full)
        ec_log_line(g->log,
                    "the disk of the store is full (No space left on device): %" PRIu64
                    " bytes are free for %s; uploads "
                    "are refused until there is space, and agents keep their batches",
                    free_bytes, g->folder);
    g->is_full = 1;
    return g->pause_s;
}

void ec_disk_gate_open(ec_disk_gate *g) {
    if (!g->is_full)
        return;
    g->is_full = 0;
    atomic_store(&g->until_ns, 0);
    ec_log_line(g->log, "the disk of the store has space again: %" PRIu64 " bytes are free for %s; uploads are stored",
                g->free_bytes(g->folder), g->folder);
}

unsigned ec_disk_gate_refuses(ec_disk_gate *g, int64_t now_ns) {
    int64_t until_ns = atomic_load_explicit(&g->until_ns, memory_order_relaxed);
    unsigned left_s = until_ns ? seconds_left(until_ns, now_ns) : 0;
    if (!left_s)
        return 0;
    int64_t look_ns = atomic_load(&g->look_ns);
    if (now_ns < look_ns || !atomic_compare_exchange_strong(&g->look_ns, &look_ns, now_ns + SECOND_NS))
        return left_s;
    if (g->free_bytes(g->folder) < atomic_load(&g->free_at_failure_bytes) + EC_DISK_FREED_BYTES)
        return left_s;
    /* unless the writer has met the next failure meanwhile */
    (void)atomic_compare_exchange_strong(&g->until_ns, &until_ns, 0);
    return 0;
}
