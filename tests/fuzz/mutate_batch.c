/* fuzz_batch: see batch_mutator.h. */
#include "tests/fuzz/batch_mutator.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return batch_mutate(data, size, max_size, seed);
}
