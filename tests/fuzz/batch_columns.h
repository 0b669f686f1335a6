/* Changes a batch by what its columns mean: a column is stored in another encoding with the same numbers, lengths come
 * out of a shared dictionary, values get another width, constants grow, columns move to other frames, all columns
 * become constants of any number of events, groups get shapes and the batch a context, the directory becomes a short
 * one. All data is placed anew, so that frames hold what columns take. For libFuzzer and for the differential tests. */
#ifndef EA_TESTS_FUZZ_BATCH_COLUMNS_H
#define EA_TESTS_FUZZ_BATCH_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

/* data: room for max_size. The new size; 0 when it is no batch whose columns can be read, or the change has no room. */
size_t batch_change_columns(uint8_t *data, size_t size, size_t max_size, unsigned *random);

/* The next number of a sequence. */
static inline unsigned batch_random(unsigned *random) {
    *random = *random * 1103515245u + 12345u;
    return *random >> 8;
}

#endif
