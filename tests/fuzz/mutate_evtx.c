/* fuzz_evtx: a chunk is changed by its structure: a record is repeated, left out or put in another's place; a token, a
 * length, a value's type or a place of a name or template inside of a record takes a value near or at a limit, and the
 * record keeps its size. Some inputs are changed byte by byte all the same. */
#include "proto/evtx/evtx.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { RECORDS = 256, HEADER = 24 };

static unsigned next(unsigned *random) {
    *random = *random * 1103515245u + 12345u;
    return *random >> 8;
}

/* A word inside of a record: often one that is a place of the chunk, so that names and templates are found. */
static void change_inside(uint8_t *record, uint32_t bytes, unsigned *random) {
    static const uint32_t NUMBERS[] = {0, 1, 2, 8, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0xffffffff};
    uint32_t at = HEADER + next(random) % (bytes - HEADER - 4);
    switch (next(random) % 4) {
    case 0: /* a token */
        record[at] = (uint8_t)(next(random) % 16 | (next(random) % 2 ? 0x40 : 0));
        break;
    case 1: /* a type */
        record[at] = (uint8_t)(next(random) % 34 | (next(random) % 4 ? 0 : 0x80));
        break;
    case 2:
        ea_store32(record + at - 3, NUMBERS[next(random) % (sizeof NUMBERS / sizeof *NUMBERS)]);
        break;
    default: /* a word of the same record, near as it was: the places of names and templates among them */
        ea_store32(record + at - 3,
                   ea_load32(record + HEADER + next(random) % (bytes - HEADER - 7)) + next(random) % 3 - 1);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static ea_evtx_place at[RECORDS];
    static uint8_t copy[EA_EVTX_CHUNK_BYTES];
    ea_evtx_chunk chunk;
    unsigned random = seed;
    size_t n = 0;
    if (size > EA_EVTX_CHUNK_BYTES || size < EA_EVTX_CHUNK_HEADER_BYTES || next(&random) % 8 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    ea_evtx_chunk_open(&chunk, data, (uint32_t)size);
    while (n < RECORDS && ea_evtx_chunk_next(&chunk, &at[n]))
        n++;
    if (!n)
        return LLVMFuzzerMutate(data, size, max_size);
    ea_evtx_place a = at[next(&random) % n], b = at[next(&random) % n];
    switch (next(&random) % 8) {
    case 0: /* left out */
        memmove(data + a.offset, data + a.offset + a.size_bytes, size - a.offset - a.size_bytes);
        return size - a.size_bytes;
    case 1: /* repeated at the end */
        if (a.size_bytes > max_size - size)
            return size;
        memcpy(copy, data + a.offset, a.size_bytes);
        memcpy(data + size, copy, a.size_bytes);
        return size + a.size_bytes;
    case 2: /* the text of one in another's place */
        memcpy(copy, data + a.offset, a.size_bytes);
        if (a.size_bytes == b.size_bytes)
            memcpy(data + b.offset, copy, a.size_bytes);
        return size;
    default:
        for (unsigned turns = 1 + next(&random) % 4; turns; turns--)
            change_inside(data + a.offset, a.size_bytes, &random);
        return size;
    }
}
