/* What files of tokens have in common: a token's text, of which a file keeps the hash alone, and the lock of those who
 * change the file.
 *
 * A token is a prefix of four characters, an id, "_" and a secret: 8 and 64 hex digits. The secret is 256 random bits,
 * so that a plain hash of it is as good as a slow one.
 * Before it: nothing. After it: tokens.h, collector/ca. Thread: any. */
#ifndef EC_ACCESS_SECRETS_H
#define EC_ACCESS_SECRETS_H

#include "err.h"
#include "platform.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EC_SECRET_PREFIX_BYTES = 4,
    EC_SECRET_ID_BYTES = 9, /* with its NUL */
    EC_SECRET_HASH_BYTES = 32,
    EC_SECRET_BYTES = 78, /* of a token's text, with its NUL */
};

/* What a file keeps of a token. */
typedef struct ec_secret {
    char id[EC_SECRET_ID_BYTES];
    uint8_t hash[EC_SECRET_HASH_BYTES];
} ec_secret;

/* Makes one; its text goes to ret_text and nowhere else. */
EA_MUST_CHECK int ec_secret_make(const char *prefix, ec_secret *ret, char ret_text[EC_SECRET_BYTES], ea_err *err);
/* The id and the hash of a text: 0 when it is no token of this prefix. */
int ec_secret_of(const char *prefix, const char *text, ec_secret *ret);
/* The two fields of a line: 0 when they are none. */
int ec_secret_parse(const char *id, const char *hash, ec_secret *ret);
/* Takes as long for other hashes as for the same one. */
int ec_secret_equal(const ec_secret *a, const ec_secret *b);

/* Splits a line of such a file, which ends with its NUL, at its tabs, in place: 1 when it has exactly count fields. */
int ec_fields_split(char *line, char **ret_fields, size_t count);

/* 1 when s has letters, digits and characters of more alone, and with its NUL fits into room. */
int ec_is_word(const char *s, const char *more, size_t room, int may_be_empty);

/* Waits up to two seconds for an exclusive lock on a file, which is made; close it to give the lock back. EA_EBUSY. */
EA_MUST_CHECK int ec_lock_wait(ea_file **ret, const char *path, ea_err *err);

#endif
