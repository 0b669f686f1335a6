/* Changes a batch as a protobuf message. The directory and the frames are decompressed, one field somewhere inside is
 * changed, and every length around the field is corrected. In most cases the checksum and the time range are corrected,
 * too, so that the code after their checks is reached. For libFuzzer alone. */
#ifndef EA_TESTS_FUZZ_BATCH_MUTATOR_H
#define EA_TESTS_FUZZ_BATCH_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

/* data: room for max_size. The new size. */
size_t batch_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#endif
