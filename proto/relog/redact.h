/* Values of records replaced by pseudonyms: names of users and machines, SIDs, addresses, paths, command lines, URLs,
 * names and data of the registry. A pseudonym is made of the value by HMAC-SHA256 with the caller's key: the same value
 * has the same pseudonym in all traces that are redacted with one key, in whatever case it is written, and without the
 * key a pseudonym leads to no value. Input: records with their classes. Called by: `etwagent relog --redact`,
 * collector/sink. Calls: proto/event (encoding), OpenSSL. Thread: its owner's.
 *
 * Rules:
 * - A field's kind follows from its semantic and its name. A field of no other kind has free text, but for names of
 *   methods. Of a text whose kind is not chosen, and of what is left of another, the parts that look like a value of a
 *   chosen kind are replaced: SIDs, addresses, URLs, paths.
 * - Names of users and machines that fields, or paths (\Users\NAME) of the first pass contain are replaced in all
 *   texts, where they are whole words of three characters or more.
 * - Paths keep their separators, drives, volumes and a list of names that each Windows has (KEPT in redact.c), and the
 *   extension of a program's file. SIDs of Windows itself are kept; of others the domain and the number of the account
 *   are replaced. Loopback and unspecified addresses are kept, and ports.
 * - Bytes without a known layout (unknown classes, WPP messages, bytes after the last field) are zeroed, or the record
 * is dropped. Arrays of bytes of providers with a manifest are zeroed.
 * - Numbers, times, ids, GUIDs, stacks, schemas and names of methods stay. */
#ifndef EA_RELOG_REDACT_H
#define EA_RELOG_REDACT_H

#include "proto/base/record.h"
#include "proto/event/event.h"

/* X(kind, its name in commands) */
#define EA_REDACT_KINDS(X)                                                                                             \
    X(USER, "user")                                                                                                    \
    X(HOST, "host")                                                                                                    \
    X(SID, "sid")                                                                                                      \
    X(ADDRESS, "address")                                                                                              \
    X(PATH, "path")                                                                                                    \
    X(COMMAND, "command")                                                                                              \
    X(URL, "url")                                                                                                      \
    X(REGISTRY, "registry")                                                                                            \
    X(DATA, "data")                                                                                                    \
    X(TEXT, "text")

enum ea_redact_kind {

#define X(kind, name) EA_REDACT_##kind,
    EA_REDACT_KINDS(X)
#undef X
        EA_REDACT_KIND_COUNT
};

/* What "all" means: free text stays readable, but for the values of these kinds in it, unless it is named, too. */
enum { EA_REDACT_ALL = ((1 << EA_REDACT_KIND_COUNT) - 1) & ~(1 << EA_REDACT_TEXT) };

const char *ea_redact_name(enum ea_redact_kind kind);

enum ea_redact_unknown { EA_REDACT_ZERO = 0, EA_REDACT_DROP = 1 };

enum { EA_REDACT_KEY_MIN_BYTES = 16, EA_REDACT_KEY_MAX_BYTES = 4096 };

typedef struct ea_redact_options {
    unsigned kinds;     /* a bit each: 1 << EA_REDACT_... */
    const uint8_t *key; /* copied; EA_REDACT_KEY_MIN_BYTES at least */
    size_t key_bytes;
    enum ea_redact_unknown unknown;
} ea_redact_options;

typedef struct ea_redact_counts {
    uint64_t values[EA_REDACT_KIND_COUNT]; /* that were replaced */
    uint64_t zeroed, dropped;              /* records with something of no known layout */
    uint64_t too_long;                     /* of dropped: pseudonyms did not fit into a record */
} ea_redact_counts;

typedef struct ea_redact ea_redact;

#define EA_REDACT_KIND_LIST "user, host, sid, address, path, command, url, registry, data, text"

/* Names of kinds with commas between, also "all", as the option --redact has them: their bits. EA_EUSAGE. */
EA_MUST_CHECK int ea_redact_parse(const char *kinds, unsigned *ret, ea_err *err);
/* With such kinds, and the bytes of a file as the key. EA_EUSAGE, EA_EINVAL (the key), errors of the file. */
EA_MUST_CHECK int ea_redact_open(ea_redact **ret, const char *kinds, const char *key_path,
                                 enum ea_redact_unknown unknown, ea_err *err);
/* EA_EINVAL: the key is too short. */
EA_MUST_CHECK int ea_redact_create(ea_redact **ret, const ea_redact_options *options, ea_err *err);
void ea_redact_destroy(ea_redact *x); /* NULL is allowed */

/* First pass: notes names of users and machines, of each record. EA_ELIMIT: more than 65,536 names. */
EA_MUST_CHECK int ea_redact_learn(ea_redact *x, const ea_record *r, const ea_class *c, ea_err *err);
/* Second pass: 1 and *ret (its payload and items borrowed until the next call), or 0: the record is to be dropped. */
EA_MUST_CHECK int ea_redact_apply(ea_redact *x, const ea_record *r, const ea_class *c, ea_record *ret, ea_err *err);
/* A text of no field, of a kind, or of none (-1): appended to out. */
EA_MUST_CHECK int ea_redact_text(ea_redact *x, int kind, const char *text, ea_text *out, ea_err *err);

const ea_redact_counts *ea_redact_count(const ea_redact *x);

#endif
