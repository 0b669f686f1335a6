/* A zstd dictionary for small batches out of the directories of others (ea_encoder_last_directory).
 * Before it: "etwagent dictionary train". After it: a file that an encoder takes. Thread: any. */
#ifndef EA_BATCH_DICTIONARY_H
#define EA_BATCH_DICTIONARY_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { EA_DICTIONARY_SAMPLES_MIN = 16 };

/* Whole samples, spread evenly over all of them: a small batch is mostly like another one as a whole, which pieces that
 * are often there (what zstd's own trainer picks) do not show. samples: count of them behind each other; room_bytes:
 * most bytes of the dictionary. *ret belongs to the caller (free). EA_EINVAL, EA_ENOMEM. */
EA_MUST_CHECK int ea_dictionary_make(const uint8_t *samples, const size_t *sizes, size_t count, size_t room_bytes,
                                     uint8_t **ret, size_t *ret_len_bytes, ea_err *err);

#endif
