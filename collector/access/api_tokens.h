/* The tokens by which people and programs read: DIR/tokens, a line each, with a token's hash and never the token.
 *
 *     id \t SHA-256 of the secret, hex \t scope \t created, s since 1970 \t name \t hosts \t expires
 *
 * A token begins with "ect_" (token_store.h). hosts: names with * in them, separated by commas; empty: all. expires: s
 * since 1970; 0, or not there: never. An expired token stays until it is revoked or its name is given again. Lines that
 * cannot be read are no tokens. Called by: the commands token add, list, revoke; access.h. Thread: any.
 */
#ifndef EC_ACCESS_API_TOKENS_H
#define EC_ACCESS_API_TOKENS_H

#include "collector/access/token_store.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EC_TOKENS_MAX = 1024,
    EC_TOKEN_NAME_BYTES = 64,
    EC_TOKEN_HOSTS_BYTES = 512,
};

/* Each may do what those before it may. */
enum ec_scope {
    EC_SCOPE_METRICS = 1, /* /metrics */
    EC_SCOPE_READ,        /* the dashboard and the API; a token may limit it to some hosts */
    EC_SCOPE_RESPOND,     /* also the states of detections; the same limit */
    EC_SCOPE_OPERATE,     /* also handing in signed requests; the same limit */
    EC_SCOPE_ADMIN,       /* the list of tokens */
};

/* "metrics", "read", "respond", "operate", "admin". */
const char *ec_scope_name(enum ec_scope scope);

typedef struct ec_token {
    ec_secret secret;
    char name[EC_TOKEN_NAME_BYTES], hosts[EC_TOKEN_HOSTS_BYTES];
    enum ec_scope scope;
    int64_t created_s, expires_s; /* since 1970; expires_s 0: never */
} ec_token;

/* All of them, malloc'd into *ret; none when there is no file. EA_EREFUSED when others than the owner may read it. */
EA_MUST_CHECK int ec_api_tokens_read(const char *dir, ec_token **ret, size_t *ret_count, ea_err *err);
/* Makes one and keeps its hash; life_s 0: it does not expire; the token itself goes to ret_token and nowhere else.
 * EA_EUSAGE: a name or hosts of other characters than letters, digits and . _ - (hosts: and * ,), or a name that is
 * taken. */
EA_MUST_CHECK int ec_api_tokens_add(const char *dir, const char *name, enum ec_scope scope, const char *hosts,
                                    int64_t life_s, char ret_token[EC_SECRET_BYTES], ea_err *err);
/* By id or name. EA_ENOTFOUND. */
EA_MUST_CHECK int ec_api_tokens_revoke(const char *dir, const char *which, ea_err *err);

/* The token of a text, among these: NULL when none is. Takes as long for a wrong secret as for a right one, and for an
 * id that is not there. */
const ec_token *ec_api_tokens_find(const ec_token *tokens, size_t count, const char *text);
/* 1 when the token has expired at utc_s. */
int ec_token_is_expired(const ec_token *token, int64_t utc_s);
/* 1 when the token may see the host; NULL: all hosts at once. */
int ec_token_sees(const ec_token *token, const char *host);

#endif
