/* The id of a replay's stream. See replay_stream.h. */
#include "service/core/replay_stream.h"
#include "proto/base/platform.h"
#include "proto/etl/etl.h"

#include <openssl/evp.h>
#include <stdlib.h>

enum { END_BYTES = 1 << 20, PIECES = 256, PIECE_BYTES = 4096 };

static int replay_stream_add(EVP_MD_CTX *md, const void *data, size_t len_bytes, ea_err *err) {
    return EVP_DigestUpdate(md, data, len_bytes) == 1 ? 0 : ea_fail(err, EA_ECRYPTO, "hash a trace");
}

static int add_u32(EVP_MD_CTX *md, uint32_t v, ea_err *err) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    return replay_stream_add(md, bytes, sizeof bytes, err);
}

static int replay_stream_add_part(EVP_MD_CTX *md, ea_file *f, uint64_t offset, uint8_t *room, size_t len_bytes,
                                  ea_err *err) {
    size_t got = 0;
    int rc = ea_file_read_at(f, offset, room, len_bytes, &got, err);
    return rc ? rc : replay_stream_add(md, room, got, err);
}

static int add_file(EVP_MD_CTX *md, const char *path, uint8_t *room, uint64_t *total, ea_err *err) {
    ea_file *f;
    uint64_t size = 0;
    uint8_t bytes[8];
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_size(f, &size, err);
    ea_store64(bytes, size);
    if (!rc)
        rc = replay_stream_add(md, bytes, sizeof bytes, err);
    if (!rc)
        rc = replay_stream_add_part(md, f, 0, room, END_BYTES, err);
    if (!rc && size > END_BYTES)
        rc = replay_stream_add_part(md, f, size - END_BYTES, room, END_BYTES, err);
    uint64_t between = size > 2 * END_BYTES ? size - 2 * END_BYTES : 0;
    for (uint64_t i = 0; !rc && between && i < PIECES; i++) {
        uint64_t step = between / PIECES;
        rc = replay_stream_add_part(md, f, END_BYTES + i * step, room, step < PIECE_BYTES ? (size_t)step : PIECE_BYTES,
                                    err);
    }
    ea_file_close(f);
    *total += size;
    return rc;
}

/* What a header says that stays while its session runs. */
static int replay_stream_add_session(EVP_MD_CTX *md, const ea_etl_info *info, ea_err *err) {
    uint8_t b[56];
    ea_store64(b, (uint64_t)info->start_filetime);
    ea_store64(b + 8, (uint64_t)info->boot_filetime);
    ea_store64(b + 16, (uint64_t)info->perf_frequency);
    ea_store64(b + 24, (uint64_t)info->clock.base_raw);
    ea_store32(b + 32, info->os_build);
    ea_store32(b + 36, info->cpu_count);
    ea_store32(b + 40, info->pointer_size);
    ea_store32(b + 44, info->clock_type);
    ea_store32(b + 48, info->buffer_size_bytes);
    ea_store32(b + 52, info->logger);
    int rc = replay_stream_add(md, b, sizeof b, err);
    return rc ? rc : replay_stream_add(md, info->session_name, strlen(info->session_name) + 1, err);
}

static int add_sessions(EVP_MD_CTX *md, const char *const *paths, size_t count, uint64_t *total, ea_err *err) {
    ea_etl_set *set;
    int rc = ea_etl_open(&set, paths, count, &(ea_etl_options){.follow = 1}, err);
    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < count; i++) {
        const ea_etl_info *info = ea_etl_file_info(set, i);
        rc = replay_stream_add_session(md, info, err);
        *total += info->file_bytes;
    }
    ea_etl_close(set);
    return rc;
}

int ea_replay_stream_id(const char *const *paths, size_t count, uint32_t batch_events, uint32_t batch_bytes,
                        uint64_t keyframe_events, int64_t keyframe_ns, uint64_t keyframe_bytes, int follow,
                        uint64_t schemas, uint64_t filters, uint8_t *ret, uint64_t *ret_total_bytes, ea_err *err) {
    static const char REPLAY[] = "etwagent replay 1\n", FOLLOW[] = "etwagent follow 1\n";
    _Static_assert(sizeof REPLAY == sizeof FOLLOW, "hashed alike");
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint64_t total = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    uint8_t *room = malloc(END_BYTES);
    int rc = md && room && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1
                 ? replay_stream_add(md, follow ? FOLLOW : REPLAY, sizeof REPLAY - 1, err)
                 : ea_fail(err, EA_ENOMEM, "hash a trace");
    if (!rc)
        rc = add_u32(md, batch_events, err);
    if (!rc)
        rc = add_u32(md, batch_bytes, err);
    if (!rc && keyframe_events) {
        uint8_t bytes[16] = "keyframe";
        ea_store64(bytes + 8, keyframe_events);
        rc = replay_stream_add(md, bytes, sizeof bytes, err);
    }
    if (!rc && keyframe_ns) {
        uint8_t bytes[16] = "key time";
        ea_store64(bytes + 8, (uint64_t)keyframe_ns);
        rc = replay_stream_add(md, bytes, sizeof bytes, err);
    }
    if (!rc && (keyframe_events || keyframe_ns)) { /* a keyframe lacks the rows that its full table could not take */
        uint8_t bytes[16] = "keyspace";
        ea_store64(bytes + 8, keyframe_bytes);
        rc = replay_stream_add(md, bytes, sizeof bytes, err);
    }
    if (!rc && schemas) {
        uint8_t bytes[16] = "schemas";
        ea_store64(bytes + 8, schemas);
        rc = replay_stream_add(md, bytes, sizeof bytes, err);
    }
    if (!rc && filters) {
        uint8_t bytes[16] = "filters";
        ea_store64(bytes + 8, filters);
        rc = replay_stream_add(md, bytes, sizeof bytes, err);
    }
    if (!rc)
        rc = add_u32(md, (uint32_t)count, err);
    for (size_t i = 0; !rc && i < count && !follow; i++)
        rc = add_file(md, paths[i], room, &total, err);
    if (!rc && follow)
        rc = add_sessions(md, paths, count, &total, err);
    if (!rc && EVP_DigestFinal_ex(md, digest, NULL) != 1)
        rc = ea_fail(err, EA_ECRYPTO, "hash a trace");
    if (!rc) {
        memcpy(ret, digest, EA_STREAM_ID_BYTES);
        *ret_total_bytes = total;
    }
    EVP_MD_CTX_free(md);
    free(room);
    return rc;
}
