/* Whether uploads are refused since the disk of the store is full, or the quota of the collector's user there is
 * reached. After a write that failed for lack of space, uploads are refused for EC_DISK_PAUSE_MIN_S; then one is tried,
 * and each further failure doubles the pause, up to EC_DISK_PAUSE_MAX_S. When EC_DISK_FREED_BYTES more are free than at
 * the failure, uploads are taken at once. Called by: writer.c, which meets the failures; ingest_server.c, which asks
 * before it reads a body. Calls: none. Thread: ec_disk_gate_refuses and ec_disk_gate_text any; the others the writer's.
 */
#ifndef EC_INGEST_DISK_GATE_H
#define EC_INGEST_DISK_GATE_H

#include "proto/base/err.h"

#include <stdatomic.h>
#include <stdint.h>

enum { EC_DISK_PAUSE_MIN_S = 2, EC_DISK_PAUSE_MAX_S = 60, EC_DISK_FREED_BYTES = 1 << 20 };

typedef struct ec_disk_gate {
    const char *folder; /* of the store; borrowed */
    struct ec_log *log; /* borrowed; may be NULL */
    uint64_t (*free_bytes)(const char *path);
    _Atomic int64_t until_ns; /* monotonic; 0: uploads are taken */
    _Atomic int64_t look_ns;  /* monotonic: when the free space is read next */
    _Atomic uint64_t free_at_failure_bytes;
    atomic_int is_quota; /* the last failure was that of a quota: the disk may have free space */
    unsigned pause_s;    /* the writer's own, as is_full */
    int is_full;         /* since a failure, until something is stored */
} ec_disk_gate;

void ec_disk_gate_init(ec_disk_gate *g, const char *folder, struct ec_log *log);
/* Whether a failure of the store means that its disk is full. */
int ec_disk_gate_is_cause(int rc, const ea_err *err);
/* Such a failure. The first one is logged. Returns the seconds after which an agent may send again. */
unsigned ec_disk_gate_close(ec_disk_gate *g, const ea_err *err, int64_t now_ns);
/* Something was stored: logged when the disk was full. Returns 1 then, otherwise 0. */
int ec_disk_gate_open(ec_disk_gate *g);
/* What an agent is sent as the reason of a refusal. Never NULL. Thread: any. */
const char *ec_disk_gate_text(const ec_disk_gate *g);
/* 0, or the seconds after which an agent may send again. Reads the free space at most once a second. */
unsigned ec_disk_gate_refuses(ec_disk_gate *g, int64_t now_ns);

#endif
