/* The issuance log. See issuance.h. */
#include "collector/ca/issuance.h"

#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FIELDS = 6, FIELDS_BEFORE = 5, LINE_MAX_BYTES = 512, READ_BYTES = 64 << 10, WRITE_BYTES = 1 << 20 };

enum key { BY_SERIAL, BY_NAME, BY_RENEWED, KEYS };

static const uint32_t NONE = UINT32_MAX;
static const int64_t SECOND_NS = 1000000000;

typedef struct entry {
    ec_ca_row row; /* first: a row's entry is found by its address */
    uint32_t next[KEYS];
} entry;

struct ec_issuance {
    char *path;
    int writable;
    ea_file *file;
    ino_t inode;
    uint64_t offset, lines; /* read so far */
    uint64_t compact_at;    /* lines at which it is looked whether a rewrite is worth it */
    uint64_t seed;
    entry *entries;
    size_t count, capacity;
    uint32_t *heads[KEYS];
    size_t buckets; /* a power of two; 0 while empty */
};

/* ---- lines ---- */

int ec_issuance_parse(char *line, ec_ca_row *ret) {
    ec_ca_row row = {0};
    char *at = line, *fields[FIELDS];
    size_t count = 0;
    for (; at && count < FIELDS; count++) {
        fields[count] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = 0;
    }
    if (at || count < FIELDS_BEFORE)
        return 0;
    const char *renews = count == FIELDS && strcmp(fields[5], "-") != 0 ? fields[5] : "";
    if (!ec_ca_serial_is_good(fields[0]) || (*renews && !ec_ca_serial_is_good(renews)) ||
        (count == FIELDS && !*fields[5]) || !ec_ca_name_is_good(fields[4]))
        return 0;
    snprintf(row.serial, sizeof row.serial, "%s", fields[0]);
    snprintf(row.renews, sizeof row.renews, "%s", renews);
    snprintf(row.name, sizeof row.name, "%s", fields[4]);
    while (row.role <= EC_CA_AUTHORITY && strcmp(fields[1], ec_ca_role_names[row.role]) != 0)
        row.role++;
    if (row.role > EC_CA_AUTHORITY || ea_utc_ns_parse(fields[2], &row.not_after_utc_ns) ||
        (strcmp(fields[3], "-") != 0 && ea_utc_ns_parse(fields[3], &row.revoked_utc_ns)))
        return 0;
    *ret = row;
    return 1;
}

static void print_row(const ec_ca_row *row, ea_text *t) {
    ea_text_printf(t, "%s\t%s\t", row->serial, ec_ca_role_names[row->role]);
    ea_text_utc_ns(t, row->not_after_utc_ns);
    ea_text_char(t, '\t');
    if (row->revoked_utc_ns)
        ea_text_utc_ns(t, row->revoked_utc_ns);
    else
        ea_text_char(t, '-');
    ea_text_printf(t, "\t%s\t%s\n", row->name, row->renews[0] ? row->renews : "-");
}

/* ---- memory ---- */

static size_t issuance_bucket_of(const ec_issuance *l, const char *key) {
    char folded[EC_CA_NAME_MAX + 1];
    snprintf(folded, sizeof folded, "%s", key);
    ea_name_to_lower(folded);
    return (size_t)ea_hash64(folded, strlen(folded), l->seed) & (l->buckets - 1);
}

static const char *issuance_key_of(const ec_ca_row *row, enum key key) {
    return key == BY_SERIAL ? row->serial : key == BY_NAME ? row->name : row->renews;
}

static void link_entry(ec_issuance *l, size_t at) {
    entry *e = &l->entries[at];
    for (enum key key = BY_SERIAL; key < KEYS; key++) {
        const char *text = issuance_key_of(&e->row, key);
        if (!*text)
            continue;
        uint32_t *head = &l->heads[key][issuance_bucket_of(l, text)];
        e->next[key] = *head;
        *head = (uint32_t)at;
    }
}

/* Tables for count entries, with all that there are in them. */
static int index_entries(ec_issuance *l, size_t count, ea_err *err) {
    size_t buckets = 1024;
    while (buckets < count)
        buckets *= 2;
    uint32_t *heads = malloc(buckets * KEYS * sizeof *heads);
    if (!heads)
        return ea_fail(err, EA_ENOMEM, "read %s", l->path);
    free(l->heads[0]);
    for (size_t i = 0; i < buckets * KEYS; i++)
        heads[i] = NONE;
    for (int key = 0; key < KEYS; key++)
        l->heads[key] = heads + (size_t)key * buckets;
    l->buckets = buckets;
    for (size_t i = 0; i < l->count; i++)
        link_entry(l, i);
    return 0;
}

/* The next entry with a key; after is the one before, NULL for the first. */
static const ec_ca_row *next_with(const ec_issuance *l, enum key key, const char *text, const ec_ca_row *after) {
    if (!l->buckets || !*text || strlen(text) > EC_CA_NAME_MAX)
        return NULL;
    uint32_t at = after ? ((const entry *)(const void *)after)->next[key] : l->heads[key][issuance_bucket_of(l, text)];
    while (at != NONE && !ea_name_equal(issuance_key_of(&l->entries[at].row, key), text))
        at = l->entries[at].next[key];
    return at == NONE ? NULL : &l->entries[at].row;
}

static int issuance_take_row(ec_issuance *l, const ec_ca_row *row, ea_err *err) {
    const ec_ca_row *known = ec_issuance_find(l, row->serial);
    if (known) { /* what it is found by stays; what changes is its revocation */
        l->entries[(const entry *)(const void *)known - l->entries].row.revoked_utc_ns = row->revoked_utc_ns;
        return 0;
    }
    int rc = EA_GROW(l->entries, l->capacity, l->count + 1, NONE);
    if (rc)
        return ea_fail(err, rc, "read %s: no room for %zu certificates", l->path, l->count + 1);
    l->entries[l->count] = (entry){.row = *row};
    l->count++;
    if (l->count > l->buckets)
        return index_entries(l, l->count, err);
    link_entry(l, l->count - 1);
    return 0;
}

static void forget_all(ec_issuance *l) {
    free(l->entries);
    free(l->heads[0]);
    l->entries = NULL;
    for (int key = 0; key < KEYS; key++)
        l->heads[key] = NULL;
    l->count = l->capacity = l->buckets = 0;
    l->offset = l->lines = 0;
    l->compact_at = EC_ISSUANCE_SLACK;
}

/* ---- the file ---- */

static int issuance_take_line(ec_issuance *l, const char *begin, size_t len_bytes, ea_err *err) {
    char line[LINE_MAX_BYTES];
    ec_ca_row row;
    l->lines++;
    if (len_bytes < sizeof line) {
        memcpy(line, begin, len_bytes);
        line[len_bytes] = 0;
    }
    if (len_bytes >= sizeof line || strlen(line) != len_bytes || !ec_issuance_parse(line, &row))
        return ea_fail(err, EA_ECORRUPT, "read %s: line %llu is damaged", l->path, (unsigned long long)l->lines);
    return issuance_take_row(l, &row, err);
}

/* All whole lines from l->offset on. */
static int issuance_read_lines(ec_issuance *l, ea_err *err) {
    char *data = malloc(READ_BYTES);
    int rc = data ? 0 : ea_fail(err, EA_ENOMEM, "read %s", l->path);
    size_t n = 0, used = 1;
    while (!rc && used) {
        rc = ea_file_read_at(l->file, l->offset, data, READ_BYTES, &n, err);
        used = 0;
        while (!rc) {
            const char *end = memchr(data + used, '\n', n - used);
            if (!end)
                break;
            rc = issuance_take_line(l, data + used, (size_t)(end - data) - used, err);
            used = (size_t)(end - data) + 1;
        }
        if (!rc && !used && n == READ_BYTES)
            rc = ea_fail(err, EA_ECORRUPT, "read %s: line %llu is damaged", l->path, (unsigned long long)l->lines + 1);
        l->offset += used;
    }
    free(data);
    return rc;
}

static int issuance_open_file(ec_issuance *l, ea_err *err) {
    struct stat st;
    ea_file *file = NULL;
    if (stat(l->path, &st))
        return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "read %s", l->path);
    int rc = ea_file_open(&file, l->path, l->writable ? EA_OPEN_APPEND : EA_OPEN_READ, err);
    if (rc)
        return rc;
    ea_file_close(l->file);
    l->file = file;
    l->inode = st.st_ino;
    forget_all(l);
    return issuance_read_lines(l, err);
}

int ec_issuance_open(ec_issuance **ret, const char *dir, int writable, ea_err *err) {
    ec_issuance *l = calloc(1, sizeof *l);
    size_t n = strlen(dir) + sizeof "/issued.tsv";
    if (l)
        l->path = malloc(n);
    if (!l || !l->path) {
        free(l);
        return ea_fail(err, EA_ENOMEM, "read %s/issued.tsv", dir);
    }
    snprintf(l->path, n, "%s/issued.tsv", dir);
    l->writable = writable;
    int rc = ea_random_bytes(&l->seed, sizeof l->seed, err);
    if (!rc)
        rc = issuance_open_file(l, err);
    if (rc) {
        ec_issuance_close(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void ec_issuance_close(ec_issuance *l) {
    if (!l)
        return;
    forget_all(l);
    ea_file_close(l->file);
    free(l->path);
    free(l);
}

int ec_issuance_catch_up(ec_issuance *l, ea_err *err) {
    struct stat st;
    if (stat(l->path, &st))
        return ea_fail_os(err, EA_EIO, errno, "read %s", l->path);
    /* another file has this name since the log was rewritten; the old one is open, so its number is not used again */
    if (st.st_ino != l->inode || (uint64_t)st.st_size < l->offset)
        return issuance_open_file(l, err);
    return issuance_read_lines(l, err);
}

/* Writes the text and begins a new one, when it is long or at the end. */
static int issuance_flush(ea_file *file, uint64_t *offset, ea_text *t, size_t more_than, ea_err *err) {
    if (t->failed)
        return ea_fail(err, EA_ENOMEM, "write issued.tsv");
    if (t->len_bytes <= more_than)
        return 0;
    int rc = ea_file_write_at(file, *offset, t->data, t->len_bytes, err);
    *offset += t->len_bytes;
    ea_text_clear(t);
    return rc;
}

int ec_issuance_add(ec_issuance *l, const ec_ca_row *rows, size_t count, ea_err *err) {
    uint64_t size = 0, end = l->offset;
    ea_text t;
    ea_text_init(&t);
    int rc = ea_file_size(l->file, &size, err);
    if (!rc && size > l->offset) /* a torn line */
        rc = ea_file_truncate(l->file, l->offset, err);
    for (size_t i = 0; !rc && i < count; i++) {
        print_row(&rows[i], &t);
        rc = issuance_flush(l->file, &end, &t, WRITE_BYTES, err);
    }
    if (!rc)
        rc = issuance_flush(l->file, &end, &t, 0, err);
    if (!rc)
        rc = ea_file_sync(l->file, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = issuance_take_row(l, &rows[i], err);
    ea_text_deinit(&t);
    if (!rc) {
        l->offset = end;
        l->lines += count;
    }
    return rc;
}

/* ---- the rewrite ---- */

static int issuance_is_kept(const ec_ca_row *row, int64_t now_utc_ns) {
    return row->not_after_utc_ns > now_utc_ns - EC_ISSUANCE_KEPT_S * SECOND_NS;
}

static int issuance_write_kept(const ec_issuance *l, ea_file *file, int64_t now_utc_ns, ea_err *err) {
    uint64_t offset = 0;
    int rc = 0;
    ea_text t;
    ea_text_init(&t);
    for (size_t i = 0; !rc && i < l->count; i++) {
        if (!issuance_is_kept(&l->entries[i].row, now_utc_ns))
            continue;
        print_row(&l->entries[i].row, &t);
        rc = issuance_flush(file, &offset, &t, WRITE_BYTES, err);
    }
    if (!rc)
        rc = issuance_flush(file, &offset, &t, 0, err);
    if (!rc)
        rc = ea_file_sync(file, err);
    ea_text_deinit(&t);
    return rc;
}

int ec_issuance_compact(ec_issuance *l, int64_t now_utc_ns, ea_err *err) {
    uint64_t kept = 0;
    if (l->lines < l->compact_at)
        return 0;
    for (size_t i = 0; i < l->count; i++)
        kept += (uint64_t)issuance_is_kept(&l->entries[i].row, now_utc_ns);
    l->compact_at = 2 * kept + EC_ISSUANCE_SLACK;
    if (l->lines < l->compact_at)
        return 0;
    size_t n = strlen(l->path) + sizeof ".tmp";
    char *path = malloc(n);
    ea_file *file = NULL;
    if (!path)
        return ea_fail(err, EA_ENOMEM, "write %s", l->path);
    snprintf(path, n, "%s.tmp", l->path);
    int rc = ea_file_open(&file, path, EA_OPEN_CREATE, err);
    if (!rc)
        rc = issuance_write_kept(l, file, now_utc_ns, err);
    ea_file_close(file);
    if (!rc)
        rc = ea_path_rename(path, l->path, err);
    if (!rc)
        rc = issuance_open_file(l, err);
    l->compact_at = 2 * kept + EC_ISSUANCE_SLACK;
    free(path);
    return rc;
}

/* ---- questions ---- */

size_t ec_issuance_count(const ec_issuance *l) {
    return l->count;
}

const ec_ca_row *ec_issuance_row(const ec_issuance *l, size_t at) {
    return &l->entries[at].row;
}

const ec_ca_row *ec_issuance_find(const ec_issuance *l, const char *serial) {
    return next_with(l, BY_SERIAL, serial, NULL);
}

const ec_ca_row *ec_issuance_next_of_name(const ec_issuance *l, const char *name, const ec_ca_row *after) {
    return next_with(l, BY_NAME, name, after);
}

const ec_ca_row *ec_issuance_next_successor(const ec_issuance *l, const char *serial, const ec_ca_row *after) {
    return next_with(l, BY_RENEWED, serial, after);
}
