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

const char *ec_disk_gate_text(const ec_disk_gate *g) {
    return atomic_load(&g->is_quota)
               ? "the disk quota of the collector's user is reached: the agent keeps its batches and "
                 "sends them later"
               : "the disk of the store is full: the agent keeps its batches and sends them later";
}

/* The free space of the disk says nothing about a quota, which may be that of a user or of a folder. */
static void log_close(const ec_disk_gate *g, uint64_t free_bytes) {
    if (atomic_load(&g->is_quota))
        ec_log_line(
            g->log,
            "the disk quota of the collector's user is reached (Disk quota exceeded): no more is written to %s; "
            "uploads are refused until there is room, and agents keep their batches; the disk itself has "
            "%" PRIu64 " bytes free",
            g->folder, free_bytes);
    else
        ec_log_line(g->log,
                    "the disk of the store is full (No space left on device): %" PRIu64
                    " bytes are free for %s; uploads "
                    "are refused until there is space, and agents keep their batches",
                    free_bytes, g->folder);
}

unsigned ec_disk_gate_close(ec_disk_gate *g, const ea_err *err, int64_t now_ns) {
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
    int was_quota = atomic_exchange(&g->is_quota, err->os_error == EDQUOT);
    if (!g->is_full || was_quota != (err->os_error == EDQUOT))
        log_close(g, free_bytes);
    g->is_full = 1;
    return g->pause_s;
}

int ec_disk_gate_open(ec_disk_gate *g) {
    if (!g->is_full)
        return 0;
    g->is_full = 0;
    atomic_store(&g->until_ns, 0);
    if (atomic_load(&g->is_quota))
        ec_log_line(g->log, "the collector's user is below its disk quota again: uploads to %s are stored", g->folder);
    else
        ec_log_line(g->log,
                    "the disk of the store has space again: %" PRIu64 " bytes are free for %s; uploads are stored",
                    g->free_bytes(g->folder), g->folder);
    return 1;
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
