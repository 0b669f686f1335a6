/* The definitions that passed through the spool (class descriptions, sources, shapes, dictionaries), by content hash,
 * on disk in the spool's folder.
 *
 * A batch omits the definitions that the collector has acknowledged. When the batch then arrives at a collector that
 * lacks one (another collector of the list, or one that lost its store), the answer names the hash, and the sender
 * reads the definition from here and appends it to the batch.
 *
 * The file "classes" is a sequence of records: u32 length and kind (the upper 8 bits: enum ea_definition_kind, or 0 for
 * a class description; and 128 when it is encrypted), u64 checksum (XXH3-64 of the bytes), the bytes. A torn or damaged
 * record ends the file. The bytes of an encrypted record: key id (8 bytes), salt (16 random bytes), the definition
 * encrypted by AES-256-GCM, followed by a tag of 16 bytes; its sealing key has the label "etwagent spool definition"
 * and the salt as context, its nonce is 0 (spool_key.h), and the 4 bytes before the checksum are authenticated with it.
 * A definition whose key is missing is unknown. Called by: spool.c, the sender. Thread: any. */
#ifndef EA_SPOOL_DESCRIPTIONS_H
#define EA_SPOOL_DESCRIPTIONS_H

#include "proto/base/err.h"
#include "proto/base/text.h"
#include "proto/wire/ack.h"
#include "service/spool/spool_key.h"

typedef struct ea_descriptions ea_descriptions;

enum { EA_DESCRIPTIONS_MAX = 65536, EA_DESCRIPTIONS_MAX_BYTES = 64 << 20 };

/* Opens or makes the file. empty: forget what is in it (no batch leans on it). keys: what is written is sealed with the
 * newest; borrowed until close, NULL: nothing is sealed. */
EA_MUST_CHECK int ea_descriptions_open(ea_descriptions **ret, const char *path, int empty, const ea_spool_keys *keys,
                                       ea_err *err);
void ea_descriptions_close(ea_descriptions *d);
/* Keeps those of a batch that are new; beyond the bounds they are not kept. *ret_added: how many. */
EA_MUST_CHECK int ea_descriptions_add_batch(ea_descriptions *d, const uint8_t *batch, size_t len_bytes,
                                            size_t *ret_added, ea_err *err);
EA_MUST_CHECK int ea_descriptions_sync(ea_descriptions *d, ea_err *err);
/* Appends the definitions whose hashes begin so (nearly always one) to a batch: 1, or 0 when there is none here. */
EA_MUST_CHECK int ea_descriptions_append(ea_descriptions *d, const ea_hash_ref *ref, ea_text *batch, ea_err *err);

#endif
