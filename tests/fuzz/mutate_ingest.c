/* fuzz_ingest: one batch of the body is changed (batch_mutator.h), and its length made right. */
#include "proto/wire/ack.h"
#include "tests/fuzz/batch_mutator.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size_t offset = 0, n, count = 0, begin = 0, bytes = 0;
    const uint8_t *batch;
    ea_err err;
    while (ea_upload_next(data, size, &offset, &batch, &n, &err) > 0)
        if (seed / 16 % ++count == 0) { /* each with the same chance */
            begin = (size_t)(batch - data);
            bytes = n;
        }
    if (!bytes || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t room = max_size - size + bytes, end = begin + bytes;
    uint8_t *copy = malloc(room);
    memcpy(copy, data + begin, bytes);
    n = batch_mutate(copy, bytes, room, seed);
    memmove(data + begin + n, data + end, size - end);
    memcpy(data + begin, copy, n);
    free(copy);
    ea_store32(data + begin - EA_UPLOAD_FRAME_BYTES, (uint32_t)n);
    return size - bytes + n;
}
