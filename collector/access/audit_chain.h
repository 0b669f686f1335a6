/* Inside collector/access: one file of the audit log as a chain of lines. See audit.h. Called by: audit.c,
 * audit_verify.c. Writes: the files. Thread: its owner's. */
#ifndef EC_ACCESS_AUDIT_CHAIN_H
#define EC_ACCESS_AUDIT_CHAIN_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    EC_AUDIT_FILES = 5, /* the file that lines are appended to, and .1 to .4 */
    EC_AUDIT_HASH_BYTES = 32,
    EC_AUDIT_LINE_MAX = 64 << 10,
    EC_AUDIT_PATH_BYTES = 1200,
};

extern const char *const EC_AUDIT_NAMES[2]; /* what was granted; what was refused */

/* Members of a line that states a fault: the file ended with number FOUND when number WRITTEN was the last one. The
 * same number: that line was changed. WRITTEN 0: .head was missing or damaged. */
#define EC_AUDIT_FOUND   ",\"last_found\":"
#define EC_AUDIT_WRITTEN ",\"last_written\":"

typedef struct ec_audit_last {
    uint64_t seq; /* of the last line; 0: there is none */
    uint8_t hash[EC_AUDIT_HASH_BYTES];
} ec_audit_last;

typedef struct ec_audit_chain {
    char path[EC_AUDIT_PATH_BYTES];
    int fd, head_fd; /* -1: not open */
    dev_t device;
    ino_t inode;
    uint64_t end;       /* bytes of the file, as it was left */
    ec_audit_last last; /* that was written */
    uint64_t unwritten; /* lines since the last one that was written */
} ec_audit_chain;

/* The file number i of a chain: PATH, PATH.1 ... */
void ec_audit_file(char out[EC_AUDIT_PATH_BYTES], const char *path, int i);
/* Number and hash of a line (without its newline), and the hash that it names: 0, or -1 when it is no line of a chain.
 */
int ec_audit_parse(const char *line, size_t len_bytes, uint64_t *ret_seq, uint8_t ret_prev[EC_AUDIT_HASH_BYTES]);
void ec_audit_hash(const char *line, size_t len_bytes, uint8_t ret[EC_AUDIT_HASH_BYTES]);

/* Reads PATH.head: 0, EA_ENOTFOUND when it is missing or empty, EA_ECORRUPT, EA_EIO. */
EA_MUST_CHECK int ec_audit_head_read(const char *path, ec_audit_last *ret);

void ec_audit_chain_init(ec_audit_chain *c, const char *dir, const char *name);
void ec_audit_chain_close(ec_audit_chain *c);
/* Appends a line of these members (",\"key\":value..."), under the folder's lock, which the caller has. line: what was
 * written, with its newline. When the file was changed since this chain's last line, its last line is compared with
 * .head and with that line; when it is an older or another one, a line states the fault and the numbers go on. */
EA_MUST_CHECK int ec_audit_chain_add(ec_audit_chain *c, const ea_text *members, uint64_t max_bytes, ea_text *line,
                                     ea_err *err);

#endif
