/* Encryption at rest: the file with the spool's keys, and the encryption of single records ("sealing") with them.
 *
 * The key file has keys of 32 random bytes, the newest last: the newest one seals, all of them open. The file is
 * created with mode 0600 and refused when other users may read it; on Windows DPAPI protects its content (ea_protect),
 * and a file of an earlier version, which had no entropy, is written anew when it is read. Its content is text:
 * etwagent spool keys 1
 *   <64 hex digits>                     one line for each key, at most 16
 *   end <16 hex digits: XXH3-64 of all lines above>
 *
 * A key's id is the first 8 bytes of HMAC-SHA256(key, "etwagent spool key id"). A key never encrypts a record itself:
 * each unit (a segment file, a single definition) has its own sealing key, HMAC-SHA256(key, label and context), where
 * the context has 16 random bytes. The sealing key encrypts records by AES-256-GCM; the nonce is a number that the
 * writer never uses twice for one sealing key (u64 little-endian, four zero bytes).
 *
 * Called by: spool.c, spool_open.c, spool_write.c, spool_file.c, descriptions.c. Calls: OpenSSL. Thread: any; keys do
 * not change after they are read. */
#ifndef EA_SPOOL_SPOOL_KEY_H
#define EA_SPOOL_SPOOL_KEY_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EA_SPOOL_KEY_BYTES = 32,
    EA_SPOOL_KEY_ID_BYTES = 8,
    EA_SPOOL_KEYS_MAX = 16,
    EA_SPOOL_SALT_BYTES = 16,
    EA_SPOOL_TAG_BYTES = 16,
    EA_SPOOL_KEY_FILE_MAX = 16 << 10,
};

typedef struct ea_spool_keys {
    size_t count;
    uint8_t keys[EA_SPOOL_KEYS_MAX][EA_SPOOL_KEY_BYTES];
    uint8_t ids[EA_SPOOL_KEYS_MAX][EA_SPOOL_KEY_ID_BYTES];
} ea_spool_keys;

typedef struct ea_sealing_key {
    uint8_t bytes[EA_SPOOL_KEY_BYTES];
} ea_sealing_key;

/* Reads a key file. make: one with a new key is made when it is missing. EA_ENOTFOUND, EA_EREFUSED (others may read
 * it), EA_ECORRUPT, EA_EUNSUPPORTED (another version), EA_ECRYPTO (Windows: made on another machine). */
EA_MUST_CHECK int ea_spool_keys_read(ea_spool_keys *ret, const char *path, int make, ea_err *err);
/* Parses the NUL-terminated text of a key file; path is only for messages. *ret must be empty. EA_ECORRUPT. */
EA_MUST_CHECK int ea_spool_keys_parse(ea_spool_keys *ret, const char *text, const char *path, ea_err *err);
/* Adds a new key, which seals from the next opening on; the oldest goes when there are too many. */
EA_MUST_CHECK int ea_spool_keys_rotate(const char *path, ea_err *err);
/* Forgets them: the memory is overwritten. */
void ea_spool_keys_clear(ea_spool_keys *k);
/* The id of the key that seals. */
const uint8_t *ea_spool_keys_newest(const ea_spool_keys *k);

/* The sealing key of a context, from the key with that id. EA_ENOTFOUND when it is none of these (k may be NULL). */
EA_MUST_CHECK int ea_sealing_key_derive(ea_sealing_key *ret, const ea_spool_keys *k, const uint8_t *id,
                                        const char *label, const void *context, size_t context_bytes, ea_err *err);
/* Encrypts: out gets len_bytes, followed by EA_SPOOL_TAG_BYTES. nonce: must be unique for each key. with: additional
 * data, which is authenticated but not encrypted. */
EA_MUST_CHECK int ea_seal(const ea_sealing_key *key, uint64_t nonce, const void *with, size_t with_bytes,
                          const uint8_t *data, size_t len_bytes, uint8_t *out, ea_err *err);
/* Decrypts: the tag follows data, out gets len_bytes - EA_SPOOL_TAG_BYTES. EA_ECORRUPT when any byte was changed. */
EA_MUST_CHECK int ea_unseal(const ea_sealing_key *key, uint64_t nonce, const void *with, size_t with_bytes,
                            const uint8_t *data, size_t len_bytes, uint8_t *out, ea_err *err);

#endif
