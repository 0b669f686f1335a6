/* Enrolment tokens: DIR/enroll-tokens, a line each, with a token's hash and never the token (token_store.h). The holder
 * of a token may get a certificate under a name that the token allows, as often as its uses allow, until it expires.
 *
 *     id \t SHA-256 of the secret, hex \t created, s since 1970 \t expires \t life of a certificate, s \t uses left \t
 *     names \t key of the last use
 *
 * names: one name, or names with * in them, separated by commas. key: SHA-256 of the public key that the last use went
 * to, or -: when that certificate did not reach its files, the same key gets it without another use.
 * A token begins with "ece_". A used-up token stays until it expires, because an answer may get lost on the way.
 * Called by: ca.c, the commands ca token, ca tokens, ca revoke-token. Calls: token_store.h. Thread: any. */
#ifndef EC_CA_ENROLL_TOKENS_H
#define EC_CA_ENROLL_TOKENS_H

#include "collector/access/token_store.h"

#include <stddef.h>

enum {
    EC_ENROLL_TOKENS_MAX = 4096,
    EC_ENROLL_TOKEN_NAMES_BYTES = 256,
    EC_ENROLL_TOKEN_KEY_BYTES = 32,
    EC_ENROLL_TOKEN_USES_MAX = 1000000,
};

typedef struct ec_enroll_token {
    ec_secret secret;
    char names[EC_ENROLL_TOKEN_NAMES_BYTES];
    int64_t created_s, expires_s;
    int64_t life_s; /* of its certificates */
    uint64_t uses_left;
    int has_key;
    uint8_t key[EC_ENROLL_TOKEN_KEY_BYTES];
} ec_enroll_token;

/* All of them, malloc'd into *ret; none when there is no file. EA_EREFUSED when others than the owner may read it,
 * EA_ECORRUPT. */
EA_MUST_CHECK int ec_enroll_tokens_read(const char *dir, ec_enroll_token **ret, size_t *ret_count, ea_err *err);
EA_MUST_CHECK int ec_enroll_tokens_write(const char *dir, const ec_enroll_token *tokens, size_t count, ea_err *err);
/* The lock is held by the caller that reads the tokens to write them again. */
EA_MUST_CHECK int ec_enroll_tokens_lock(const char *dir, ea_file **ret, ea_err *err);

/* Makes one out of names, expires_s, life_s and uses_left; the token itself goes to ret_token and nowhere else. What
 * has expired leaves the file. EA_EUSAGE: names of other characters than letters, digits and . _ - * , */
EA_MUST_CHECK int ec_enroll_tokens_add(const char *dir, ec_enroll_token *token, char ret_token[EC_SECRET_BYTES],
                                       ea_err *err);
/* EA_ENOTFOUND. */
EA_MUST_CHECK int ec_enroll_tokens_revoke(const char *dir, const char *id, ea_err *err);
/* The token of a text, among these: NULL when none is. Takes as long for a wrong secret as for a right one. */
ec_enroll_token *ec_enroll_tokens_find(ec_enroll_token *tokens, size_t count, const char *text);
/* The name that every certificate of it has; NULL: the names have * in them, or are several. */
const char *ec_enroll_token_fixed_name(const ec_enroll_token *g);

#endif
