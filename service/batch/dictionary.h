/* A zstd dictionary for small batches out of the directories of others (ea_encoder_last_directory). Called by:
 * "etwagent dictionary train". Output: a file that an encoder takes. Thread: any. */
#ifndef EA_BATCH_DICTIONARY_H
#define EA_BATCH_DICTIONARY_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { EA_DICTIONARY_SAMPLES_MIN = 16 };

/* Makes a dictionary of whole samples, spread evenly over all of them. A small batch mostly resembles another whole
 * batch, which frequent pieces (the choice of zstd's own trainer) do not show. samples: count samples, one after the
 * other; room_bytes: limit of the dictionary's bytes. The caller frees *ret. EA_EINVAL, EA_ENOMEM. */
EA_MUST_CHECK int ea_dictionary_make(const uint8_t *samples, const size_t *sizes, size_t count, size_t room_bytes,
                                     uint8_t **ret, size_t *ret_len_bytes, ea_err *err);

#endif
