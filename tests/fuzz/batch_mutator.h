/* Changes a batch as a protobuf message: the directory and the frames are taken out of their compression, one field
 * somewhere inside is changed, every length around it is made right, and mostly the checksum and the time range too, so
 * that what is behind them is reached. For libFuzzer alone. */
#ifndef EA_FUZZ_BATCH_MUTATOR_H
#define EA_FUZZ_BATCH_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

/* data: room for max_size. The new size. */
size_t batch_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#endif
