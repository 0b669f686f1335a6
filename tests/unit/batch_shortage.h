/* Allocations that fail, and a reading of a batch that makes all of its allocations: for test_no_memory.c and
 * fuzz_batch.c, which CMake's ea_wrap_allocations links. Thread: one. */
#ifndef EA_TESTS_UNIT_BATCH_SHORTAGE_H
#define EA_TESTS_UNIT_BATCH_SHORTAGE_H

#include "proto/wire/wire.h"

/* From now on, allocation `number` fails, 1 being the next one; 0: none. */
void shortage_begin(size_t number);
/* From now on, none fails. Returns how many allocations were missing until one failed, itself included; 0: it failed.
 */
size_t shortage_end(void);
/* What a collector answers with RETRY, and an agent sends again: never a code that says that the batch is bad. */
int is_shortage(int rc);

/* Reads all that a batch has. columns_first: its columns before its records. */
EA_MUST_CHECK int shortage_read_batch(const uint8_t *data, size_t len_bytes, ea_registry *registry, int columns_first,
                                      ea_err *err);

#endif
