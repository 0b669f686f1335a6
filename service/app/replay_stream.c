/* The id of a replay's stream. See replay_stream.h. */
#include "replay_stream.h"
#include "platform.h"

#include <openssl/evp.h>
#include <stdlib.h>

enum { END_BYTES = 1 << 20, PIECES = 256, PIECE_BYTES = 4096 };

static int add(EVP_MD_CTX *md, const void *data, size_t len_bytes, ea_err *err) {
    return EVP_DigestUpdate(md, data, len_bytes) == 1 ? 0 : ea_fail(err, EA_ECRYPTO, "hash a trace");
}

static int add_u32(EVP_MD_CTX *md, uint32_t v, ea_err *err) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    return add(md, bytes, sizeof bytes, err);
}

static int add_part(EVP_MD_CTX *md, ea_file *f, uint64_t offset, uint8_t *room, size_t len_bytes, ea_err *err) {
    size_t got = 0;
    int rc = ea_file_read_at(f, offset, room, len_bytes, &got, err);
    return rc ? rc : add(md, room, got, err);
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
        rc = add(md, bytes, sizeof bytes, err);
    if (!rc)
        rc = add_part(md, f, 0, room, END_BYTES, err);
    if (!rc && size > END_BYTES)
        rc = add_part(md, f, size - END_BYTES, room, END_BYTES, err);
    uint64_t between = size > 2 * END_BYTES ? size - 2 * END_BYTES : 0;
    for (uint64_t i = 0; !rc && between && i < PIECES; i++) {
        uint64_t step = between / PIECES;
        rc = add_part(md, f, END_BYTES + i * step, room, step < PIECE_BYTES ? (size_t)step : PIECE_BYTES, err);
    }
    ea_file_close(f);
    *total += size;
    return rc;
}

int ea_replay_stream_id(const char *const *paths, size_t count, uint32_t batch_events, uint32_t batch_bytes,
                        uint64_t keyframe_events, int64_t keyframe_ns, uint8_t *ret, uint64_t *ret_total_bytes,
                        ea_err *err) {
    static const char WHAT[] = "etwagent replay 1\n";
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint64_t total = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    uint8_t *room = malloc(END_BYTES);
    int rc = md && room && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 ? add(md, WHAT, sizeof WHAT - 1, err)
                                                                          : ea_fail(err, EA_ENOMEM, "hash a trace");
    if (!rc)
        rc = add_u32(md, batch_events, err);
    if (!rc)
        rc = add_u32(md, batch_bytes, err);
    if (!rc && keyframe_events) {
        uint8_t bytes[16] = "keyframe";
        ea_store64(bytes + 8, keyframe_events);
        rc = add(md, bytes, sizeof bytes, err);
    }
    if (!rc && keyframe_ns) {
        uint8_t bytes[16] = "key time";
        ea_store64(bytes + 8, (uint64_t)keyframe_ns);
        rc = add(md, bytes, sizeof bytes, err);
    }
    if (!rc)
        rc = add_u32(md, (uint32_t)count, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = add_file(md, paths[i], room, &total, err);
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
