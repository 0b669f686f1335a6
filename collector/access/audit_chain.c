/* Lines that name the hash of the line before. See audit_chain.h. */
#include "collector/access/audit_chain.h"

#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 20 + 1 + 2 * EC_AUDIT_HASH_BYTES + 1 };

const char *const EC_AUDIT_NAMES[2] = {"audit.jsonl", "audit-refused.jsonl"};

void ec_audit_file(char out[EC_AUDIT_PATH_BYTES], const char *path, int i) {
    if (i)
        snprintf(out, EC_AUDIT_PATH_BYTES, "%s.%d", path, i);
    else
        snprintf(out, EC_AUDIT_PATH_BYTES, "%s", path);
}

void ec_audit_hash(const char *line, size_t len_bytes, uint8_t ret[EC_AUDIT_HASH_BYTES]) {
    unsigned int n = 0;
    if (EVP_Digest(line, len_bytes, ret, &n, EVP_sha256(), NULL) != 1)
        memset(ret, 0, EC_AUDIT_HASH_BYTES);
}

int ec_audit_parse(const char *line, size_t len_bytes, uint64_t *ret_seq, uint8_t ret_prev[EC_AUDIT_HASH_BYTES]) {
    /* {"time":"2026-11-23T10:00:00.000000000Z","seq":7,"prev":"00...", */
    static const char TIME[] = "{\"time\":\"", SEQ[] = "\",\"seq\":", PREV[] = ",\"prev\":\"";
    char number[24], hex[2 * EC_AUDIT_HASH_BYTES + 1];
    size_t n = 0;
    const char *end = line + len_bytes, *at = memchr(line, 0, len_bytes) ? NULL : line;
    if (!at || len_bytes < sizeof TIME - 1 || memcmp(at, TIME, sizeof TIME - 1) != 0)
        return -1;
    at += sizeof TIME - 1;
    const char *quote = memchr(at, '"', (size_t)(end - at));
    if (!quote || (size_t)(end - quote) < sizeof SEQ - 1 || memcmp(quote, SEQ, sizeof SEQ - 1) != 0)
        return -1;
    for (at = quote + sizeof SEQ - 1; at < end && *at >= '0' && *at <= '9' && n + 1 < sizeof number; at++)
        number[n++] = *at;
    number[n] = 0;
    if ((size_t)(end - at) < sizeof PREV - 1 + sizeof hex - 1 || memcmp(at, PREV, sizeof PREV - 1) != 0)
        return -1;
    memcpy(hex, at + sizeof PREV - 1, sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    size_t bytes = 0;
    return ea_u64_parse(number, ret_seq) || ea_hex_parse(hex, ret_prev, EC_AUDIT_HASH_BYTES, &bytes) ||
                   bytes != EC_AUDIT_HASH_BYTES
               ? -1
               : 0;
}

void ec_audit_chain_init(ec_audit_chain *c, const char *dir, const char *name) {
    *c = (ec_audit_chain){.fd = -1, .head_fd = -1};
    snprintf(c->path, sizeof c->path, "%s/%s", dir, name);
}

static void audit_chain_close_file(ec_audit_chain *c) {
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

void ec_audit_chain_close(ec_audit_chain *c) {
    audit_chain_close_file(c);
    if (c->head_fd >= 0)
        close(c->head_fd);
    c->head_fd = -1;
}

/* Private, whatever it was before. */
static int open_private(const char *path, int flags, int *ret, ea_err *err) {
    int fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fchmod(fd, 0600)) {
        int os = errno;
        if (fd >= 0)
            close(fd);
        return ea_fail_os(err, EA_EIO, os, "open %s", path);
    }
    *ret = fd;
    return 0;
}

int ec_audit_head_read(const char *path, ec_audit_last *ret) {
    char head_path[EC_AUDIT_PATH_BYTES + 8], head[HEAD_BYTES + 1];
    size_t bytes = 0;
    snprintf(head_path, sizeof head_path, "%s.head", path);
    int fd = open(head_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? EA_ENOTFOUND : EA_EIO;
    ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    if (n == 0)
        return EA_ENOTFOUND; /* it was made for a first line that was not written */
    if (n != HEAD_BYTES || head[20] != ' ' || head[HEAD_BYTES - 1] != '\n')
        return EA_ECORRUPT;
    head[20] = head[HEAD_BYTES - 1] = 0;
    return ea_u64_parse(head, &ret->seq) || ea_hex_parse(head + 21, ret->hash, sizeof ret->hash, &bytes) ||
                   bytes != sizeof ret->hash
               ? EA_ECORRUPT
               : 0;
}

/* Number and hash of the last line of an open file, when it has one; where its last whole line ends. */
static int read_last(const ec_audit_chain *c, int fd, uint64_t size, ec_audit_last *ret, uint64_t *ret_end,
                     ea_err *err) {
    size_t room = size < EC_AUDIT_LINE_MAX ? (size_t)size : EC_AUDIT_LINE_MAX, end;
    uint8_t prev[EC_AUDIT_HASH_BYTES];
    char *tail = malloc(room + 1);
    if (!tail)
        return ea_fail(err, EA_ENOMEM, "read %s", c->path);
    if (pread(fd, tail, room, (off_t)(size - room)) != (ssize_t)room) {
        free(tail);
        return ea_fail_os(err, EA_EIO, errno, "read %s", c->path);
    }
    for (end = room; end && tail[end - 1] != '\n'; end--)
        ;
    *ret_end = size - room + end;
    if (end) {
        size_t begin = end - 1;
        while (begin && tail[begin - 1] != '\n')
            begin--;
        /* a line that is none of a chain is hashed all the same: a verification reports it */
        if (ec_audit_parse(tail + begin, end - 1 - begin, &ret->seq, prev))
            ret->seq = 0;
        ec_audit_hash(tail + begin, end - 1 - begin, ret->hash);
    }
    free(tail);
    return 0;
}

/* The number of the first line of a file; 0: there is none. */
static uint64_t first_of(const char *path) {
    char line[256];
    uint8_t prev[EC_AUDIT_HASH_BYTES];
    uint64_t seq = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, line, sizeof line, 0);
    close(fd);
    return n > 0 && ec_audit_parse(line, (size_t)n, &seq, prev) == 0 ? seq : 0;
}

static void print_line(const ec_audit_chain *c, const ea_text *members, ea_text *line) {
    ea_text_clear(line);
    ea_text_str(line, "{\"time\":\"");
    ea_text_utc_ns(line, ea_utc_ns());
    ea_text_printf(line, "\",\"seq\":%" PRIu64 ",\"prev\":\"", c->last.seq + 1);
    ea_text_hex(line, c->last.hash, sizeof c->last.hash);
    ea_text_char(line, '"');
    if (members->len_bytes)
        ea_text_add(line, members->data, members->len_bytes);
    if (c->unwritten)
        ea_text_printf(line, ",\"unwritten_before\":%" PRIu64, c->unwritten);
    ea_text_str(line, "}\n");
}

static int audit_chain_write_line(ec_audit_chain *c, const ea_text *line, ea_err *err) {
    if (line->failed || line->len_bytes > EC_AUDIT_LINE_MAX)
        return ea_fail(err, EA_ENOMEM, "write %s", c->path);
    ssize_t n = write(c->fd, line->data, line->len_bytes);
    if (n != (ssize_t)line->len_bytes) {
        int os = n < 0 ? errno : ENOSPC;
        if (n > 0 && ftruncate(c->fd, (off_t)c->end)) /* half a line; the next one that opens the file cuts it off */
            audit_chain_close_file(c);
        return ea_fail_os(err, EA_EIO, os, "write %s", c->path);
    }
    c->end += line->len_bytes;
    c->last.seq++;
    c->unwritten = 0;
    ec_audit_hash(line->data, line->len_bytes - 1, c->last.hash);
    char head[HEAD_BYTES + 1];
    ea_text hex;
    ea_text_init(&hex);
    ea_text_hex(&hex, c->last.hash, sizeof c->last.hash);
    snprintf(head, sizeof head, "%020" PRIu64 " %s\n", c->last.seq, hex.data ? hex.data : "");
    ea_text_deinit(&hex);
    ssize_t written = pwrite(c->head_fd, head, HEAD_BYTES, 0);
    (void)written; /* the line is written; an outdated head is no fault, and the next line updates it */
    return 0;
}

/* Members of the first line of a file. */
static void add_begin(const ec_audit_chain *c, ea_text *members) {
    char path[EC_AUDIT_PATH_BYTES];
    uint64_t first = c->last.seq + 1;
    for (int i = EC_AUDIT_FILES - 1; i > 0; i--) {
        ec_audit_file(path, c->path, i);
        uint64_t seq = first_of(path);
        if (seq) {
            first = seq;
            break;
        }
    }
    ea_text_printf(members, ",\"note\":\"a file of the audit log begins\",\"first_kept\":%" PRIu64, first);
}

/* Members that state that the file did not end with the last line that was written. */
static void add_fault(const ec_audit_last *found, uint64_t written, ea_text *members) {
    if (found->seq < written)
        ea_text_printf(members, ",\"fault\":\"lines %" PRIu64 " to %" PRIu64 " are missing\"", found->seq + 1, written);
    else if (written)
        ea_text_printf(members, ",\"fault\":\"line %" PRIu64 " was changed\"", written);
    else
        ea_text_str(members, ",\"fault\":\".head is missing or damaged\"");
    ea_text_printf(members, EC_AUDIT_FOUND "%" PRIu64 EC_AUDIT_WRITTEN "%" PRIu64, found->seq, written);
}

/* Opens the file and compares its last line with .head and with the last line that this process wrote. */
static int open_and_compare(ec_audit_chain *c, ea_text *line, ea_err *err) {
    char path[EC_AUDIT_PATH_BYTES + 8];
    struct stat st;
    uint64_t end = 0;
    ec_audit_last found = {0}, head = {0}, known = c->last;
    int rc = open_private(c->path, O_RDWR | O_APPEND, &c->fd, err);
    if (!rc) {
        int has_head = ec_audit_head_read(c->path, &head) == 0;
        if (has_head && head.seq > known.seq)
            known = head;
        snprintf(path, sizeof path, "%s.head", c->path);
        rc = open_private(path, O_RDWR, &c->head_fd, err);
    }
    if (!rc && fstat(c->fd, &st))
        rc = ea_fail_os(err, EA_EIO, errno, "look at %s", c->path);
    if (rc)
        return rc;
    c->device = st.st_dev;
    c->inode = st.st_ino;
    if (st.st_size) {
        rc = read_last(c, c->fd, (uint64_t)st.st_size, &found, &end, err);
        if (!rc && end < (uint64_t)st.st_size && ftruncate(c->fd, (off_t)end))
            rc = ea_fail_os(err, EA_EIO, errno, "cut half a line off %s", c->path);
    }
    c->end = end;
    if (!rc && !end) { /* after a rotation the chain goes on from the file before */
        uint64_t before_end = 0;
        ec_audit_file(path, c->path, 1);
        int before = open(path, O_RDONLY | O_CLOEXEC);
        if (before >= 0) {
            if (fstat(before, &st) == 0 && st.st_size)
                rc = read_last(c, before, (uint64_t)st.st_size, &found, &before_end, err);
            close(before);
        }
        if (before_end && !found.seq)
            found.seq = known.seq;
    } else if (!found.seq) {
        found.seq = known.seq; /* the last line was damaged, or is of a version without a chain */
    }
    if (rc)
        return rc;
    int is_fault = known.seq ? found.seq < known.seq ||
                                   (found.seq == known.seq && memcmp(found.hash, known.hash, sizeof known.hash) != 0)
                             : found.seq > 1; /* the first line may have been written without its head, by a crash */
    c->last = is_fault && known.seq ? known : found;
    if (end && !is_fault)
        return 0;
    ea_text members; /* one line for both: it is there, or the next opening tries again */
    ea_text_init(&members);
    if (!end)
        add_begin(c, &members);
    if (is_fault)
        add_fault(&found, known.seq, &members);
    rc = members.failed ? ea_fail(err, EA_ENOMEM, "write %s", c->path) : 0;
    if (!rc) {
        print_line(c, &members, line);
        rc = audit_chain_write_line(c, line, err);
    }
    ea_text_deinit(&members);
    return rc;
}

static int audit_chain_open_file(ec_audit_chain *c, ea_text *line, ea_err *err) {
    ec_audit_last known = c->last;
    ec_audit_chain_close(c);
    int rc = open_and_compare(c, line, err);
    if (rc) { /* the next line compares again */
        ec_audit_chain_close(c);
        if (c->last.seq < known.seq)
            c->last = known;
    }
    return rc;
}

static int rotate(ec_audit_chain *c, ea_text *line, ea_err *err) {
    char from[EC_AUDIT_PATH_BYTES], to[EC_AUDIT_PATH_BYTES];
    int rc = 0;
    audit_chain_close_file(c);
    for (int i = EC_AUDIT_FILES - 1; !rc && i > 0; i--) {
        ec_audit_file(from, c->path, i - 1);
        ec_audit_file(to, c->path, i);
        if (ea_path_exists(from))
            rc = ea_path_rename(from, to, err);
    }
    return rc ? rc : audit_chain_open_file(c, line, err);
}

int ec_audit_chain_add(ec_audit_chain *c, const ea_text *members, uint64_t max_bytes, ea_text *line, ea_err *err) {
    struct stat st;
    int rc = 0;
    /* another process may have written, or rotated */
    int is_same = c->fd >= 0 && stat(c->path, &st) == 0 && st.st_dev == c->device && st.st_ino == c->inode &&
                  (uint64_t)st.st_size == c->end;
    if (!is_same)
        rc = audit_chain_open_file(c, line, err);
    if (!rc)
        print_line(c, members, line);
    if (!rc && c->end && line->len_bytes > max_bytes - (c->end < max_bytes ? c->end : max_bytes)) {
        rc = rotate(c, line, err);
        if (!rc)
            print_line(c, members, line);
    }
    return rc ? rc : audit_chain_write_line(c, line, err);
}
