/* The short form of a directory, which small batches have. FORMAT.md, "Short directories". In memory a directory is a
 * Directory message in either form. Before it: the encoder (service/batch); a batch's bytes. After it: view.c,
 * definitions.c. Thread: any. */
#ifndef EA_WIRE_SHORT_DIRECTORY_H
#define EA_WIRE_SHORT_DIRECTORY_H

#include "arena.h"
#include "batch.pb-c.h"
#include "err.h"

/* What the first byte of Batch.directory says; a message begins with neither. */
enum ea_short_directory {
    EA_SHORT_DIRECTORY_PLAIN = 0, /* the short form follows */
    EA_SHORT_DIRECTORY_ZSTD = 1,  /* a zstd frame of it follows, without its first EA_ZSTD_MAGIC_BYTES bytes */
    EA_SHORT_DIRECTORY_WITH_DICTIONARY = 2, /* the same, compressed with the context's dictionary */
};
enum { EA_ZSTD_MAGIC_BYTES = 4 };

/* Writes d to out: 1 and the bytes that it took; 0 when d has what no short form can say, or room does not do. */
int ea_short_directory_pack(const Etwagent__V1__Directory *d, uint8_t *out, size_t room_bytes, size_t *ret_bytes);
/* Reads one. *ret stands in the arena, and borrows data. Errors: EA_ECORRUPT, EA_ELIMIT (the arena's bound). */
EA_MUST_CHECK int ea_short_directory_unpack(const uint8_t *data, size_t len_bytes, ea_arena *arena,
                                            Etwagent__V1__Directory **ret, ea_err *err);
/* Puts a whole zstd frame (data without its magic number) into out, which has room for len_bytes and the magic. */
void ea_short_directory_frame(const uint8_t *data, size_t len_bytes, uint8_t *out);
/* How many bytes the frame says that it has decompressed; UINT64_MAX when it does not, or says 0. */
uint64_t ea_short_directory_raw_bytes(const uint8_t *data, size_t len_bytes);

#endif
