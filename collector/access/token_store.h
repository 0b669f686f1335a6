/* Files of tokens, a line each: a token's text, of which a file keeps the hash alone, the file's rows, and the lock of
 * those who change it.
 *
 * A token is a prefix of four characters, an id, "_" and a secret: 8 and 64 hex digits. The secret is 256 random bits,
 * so that a plain hash of it is as good as a slow one. Used by: api_tokens.h, collector/ca. Thread: any. */
#ifndef EC_ACCESS_TOKEN_STORE_H
#define EC_ACCESS_TOKEN_STORE_H

#include "proto/base/err.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

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

/* A kind of such files. A row begins with its ec_secret, a line with its id and hash; what follows is the kind's own.
 */
typedef struct ec_secret_file {
    const char *name;   /* in its folder; beside it NAME.lock */
    const char *prefix; /* of its tokens */
    const char *what;   /* a token of it, in a sentence */
    size_t row_bytes, rows_max, fields;
    size_t later_fields; /* of these, the last ones, which lines of earlier versions lack: they are "" */
    size_t name_at;      /* of a row: a name by which it goes as well; 0: there is none */
    int skips_damage;    /* lines that cannot be read are no tokens; else they are EA_ECORRUPT, as one too many is */
    int (*parse)(char *const *fields, void *ret); /* the fields after id and hash: 0 when they are invalid */
    void (*print)(const void *row, ea_text *t);   /* the same, with a tab between two */
} ec_secret_file;

/* All rows of DIR's file, malloc'd into *ret, where rows_max have room; none when there is no file. EA_EREFUSED when
 * others than the owner may read it. */
EA_MUST_CHECK int ec_token_store_read(const ec_secret_file *f, const char *dir, void **ret, size_t *ret_count,
                                      ea_err *err);
EA_MUST_CHECK int ec_token_store_write(const ec_secret_file *f, const char *dir, const void *rows, size_t count,
                                       ea_err *err);
/* The lock is held by the caller that reads the rows to write them again; ea_file_close releases it. EA_EBUSY after two
 * seconds. */
EA_MUST_CHECK int ec_token_store_lock(const ec_secret_file *f, const char *dir, ea_file **ret, ea_err *err);
/* Reads, changes and writes them under that lock. change: among rows_max rows; what it fails with stays unwritten. */
EA_MUST_CHECK int ec_token_store_change(const ec_secret_file *f, const char *dir,
                                        int (*change)(void *arg, void *rows, size_t *count, ea_err *err), void *arg,
                                        ea_err *err);
/* Takes out the row of an id or a name. EA_ENOTFOUND. */
EA_MUST_CHECK int ec_token_store_revoke(const ec_secret_file *f, const char *dir, const char *which, ea_err *err);
/* Makes a row's token and appends the row, within ec_token_store_change. EA_ELIMIT. */
EA_MUST_CHECK int ec_token_store_append(const ec_secret_file *f, void *rows, size_t *count, void *row,
                                        char ret_text[EC_SECRET_BYTES], ea_err *err);
/* Finds the row of a token's text: NULL when no row has it. Takes as long for a wrong secret as for a right one, and
 * for an id that is missing. */
const void *ec_token_store_find(const ec_secret_file *f, const void *rows, size_t count, const char *text);

/* 1 when s has letters, digits and characters of more alone, and with its NUL fits into room. */
int ec_is_word(const char *s, const char *more, size_t room, int may_be_empty);

/* Waits up to two seconds for an exclusive lock on a file, which is made; close it to give the lock back. EA_EBUSY. */
EA_MUST_CHECK int ec_lock_wait(ea_file **ret, const char *path, ea_err *err);

#endif
