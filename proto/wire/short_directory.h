/* The short form of a directory, which small batches have. FORMAT.md, "Short directories". In memory a directory is a
 * Directory message in either form. Input: the encoder (service/batch); a batch's bytes. Used by: view.c,
 * definitions.c. Thread: any. */
#ifndef EA_WIRE_SHORT_DIRECTORY_H
#define EA_WIRE_SHORT_DIRECTORY_H

#include "proto/base/arena.h"
#include "proto/base/err.h"
#include "proto/wire/batch.pb-c.h"

/* What the first byte of Batch.directory says; a message begins with none of these bytes. */
enum ea_short_directory {
    EA_SHORT_DIRECTORY_PLAIN = 0, /* the short form follows */
    EA_SHORT_DIRECTORY_ZSTD = 1,  /* its size as a varint follows, and the one compressed block of a zstd frame of it */
    EA_SHORT_DIRECTORY_WITH_DICTIONARY = 2, /* the same, compressed with the context's dictionary */
};

enum { EA_ZSTD_HEAD_BYTES = 12 }; /* of a frame, before its one block */

/* Writes d to out: 1 and the bytes that d took; 0 when the short form cannot hold d, or the room is too small. */
int ea_short_directory_pack(const Etwagent__V1__Directory *d, uint8_t *out, size_t room_bytes, size_t *ret_bytes);
/* Reads a short directory. *ret is in the arena, and borrows data. Errors: EA_ECORRUPT, EA_ELIMIT (the arena's
 * bound). */
EA_MUST_CHECK int ea_short_directory_unpack(const uint8_t *data, size_t len_bytes, ea_arena *arena,
                                            Etwagent__V1__Directory **ret, ea_err *err);
/* Puts a whole zstd frame of one compressed block into out, which has room for EA_ZSTD_HEAD_BYTES and len_bytes. Both
 * sizes are at most EA_SHORT_DIRECTORY_MAX_BYTES. */
void ea_short_directory_frame(size_t raw_bytes, const uint8_t *block, size_t len_bytes, uint8_t *out);
/* The offset of the block of such a frame; the block ends with the frame. 0: the frame has another form. */
size_t ea_short_directory_block(const uint8_t *frame, size_t len_bytes);

#endif
