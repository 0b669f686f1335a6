/* What comes from the other end: an answer (an even first byte) and an upload's body (an odd one). */
#include "proto/wire/ack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An answer that could be read is written and read again, and is the same. */
static void answer(const uint8_t *data, size_t size) {
    ea_arena arena, second;
    ea_ack ack, again;
    ea_err err;
    ea_text text;
    ea_arena_init(&arena, 16 << 20);
    ea_arena_init(&second, 16 << 20);
    ea_text_init(&text);
    int rc = ea_ack_decode(&ack, &arena, data, size, &err);
    if (rc == 0) {
        for (size_t i = 0; i < ack.acknowledged_count; i++)
            if (!ea_ranges_have(ack.acknowledged, ack.acknowledged_count, ack.acknowledged[i].last))
                abort();
        for (size_t i = 0; i < ack.refused_count; i++)
            if (strlen(ack.refused[i].text) > 255)
                abort();
        ea_ack_encode(&ack, &text);
        if (text.len_bytes <= EA_ACK_MAX_BYTES &&
            (ea_ack_decode(&again, &second, (const uint8_t *)text.data, text.len_bytes, &err) ||
             again.acknowledged_count != ack.acknowledged_count || again.refused_count != ack.refused_count ||
             again.unknown_count != ack.unknown_count || again.known_count != ack.known_count ||
             again.credit_bytes != ack.credit_bytes || again.retry_after_ms != ack.retry_after_ms ||
             again.keyframe_wanted != ack.keyframe_wanted || memcmp(again.stream, ack.stream, sizeof ack.stream) != 0))
            abort();
    }
    ea_text_deinit(&text);
    ea_arena_deinit(&arena);
    ea_arena_deinit(&second);
    /* with little memory: the same, or that there is none */
    for (size_t most = 1; most < 256; most *= 2) {
        ea_arena_init(&arena, most);
        int little = ea_ack_decode(&again, &arena, data, size, &err);
        if (little != rc && little != EA_ENOMEM)
            abort();
        ea_arena_deinit(&arena);
    }
}

static int on_description(const uint8_t *data, size_t len_bytes, void *arg) {
    uint64_t *sum = arg;
    for (size_t i = 0; i < len_bytes; i++)
        *sum += data[i];
    return 0;
}

static void body(const uint8_t *data, size_t size) {
    size_t offset = 0, n, total = 0;
    const uint8_t *batch;
    ea_err err;
    uint64_t sum = 0;
    int rc;
    while ((rc = ea_upload_next(data, size, &offset, &batch, &n, &err)) > 0) {
        ea_batch_head head;
        total += EA_UPLOAD_FRAME_BYTES + n;
        if (batch < data || n > (size_t)(data + size - batch))
            abort();
        rc = ea_batch_read_head(batch, n, &head, &err);
        if (!rc)
            rc = ea_batch_each_description(batch, n, on_description, &sum, &err);
        (void)rc;
    }
    if (rc == 0 && total != size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    (data[0] & 1 ? body : answer)(data + 1, size - 1);
    return 0;
}
