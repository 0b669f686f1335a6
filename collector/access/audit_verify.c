/* Whether the audit log is as it was written. See audit.h. Each line names the hash of the line before it, so a fault
 * is found between two lines. When only the step from a line to the next one is wrong, the first of the two was
 * changed; when the steps to a line and from it are wrong, that line was. */
#include "collector/access/audit.h"

#include "collector/access/audit_chain.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MAX = 100 }; /* that are described; all are counted */

/* A line, and where it is. */
typedef struct place {
    int file; /* of EC_AUDIT_FILES */
    uint64_t row, seq;
    uint8_t hash[EC_AUDIT_HASH_BYTES], prev[EC_AUDIT_HASH_BYTES];
} place;

typedef struct checking {
    const char *path, *name;
    ea_text *report;
    uint64_t *faults;
    uint64_t lines, files, unchained, first, first_kept; /* first_kept: what the newest file says */
    uint64_t run;                                        /* wrong steps up to the last line */
    int is_unknown;                                      /* the last line cannot be read: no step leads from it */
    place last, suspect;                                 /* suspect: the line before the first of these steps */
} checking;

static void fault(checking *c, const place *at, const char *what) {
    if (++*c->faults > FAULTS_MAX)
        return;
    ea_text_str(c->report, c->name);
    if (at->file)
        ea_text_printf(c->report, ".%d", at->file);
    ea_text_printf(c->report, ", line %" PRIu64 ", number %" PRIu64 ": %s\n", at->row, at->seq, what);
}

/* The step from the last line to the next one is wrong. */
static void break_step(checking *c) {
    if (c->run++)
        fault(c, &c->last, "the line was changed"); /* the step to it is wrong, too */
    else
        c->suspect = c->last;
}

/* The steps before are a run of wrong ones that is over. */
static void end_run(checking *c) {
    if (c->run == 1)
        fault(c, &c->suspect, "the line was changed");
    c->run = 0;
}

/* What the line says about the lines before it. They may be gone by now, by rotation. */
static void check_stated(checking *c, const place *at, const char *line) {
    static const char FOUND[] = EC_AUDIT_FOUND, WRITTEN[] = EC_AUDIT_WRITTEN;
    char text[160];
    const char *found_at = strstr(line, FOUND), *written_at = found_at ? strstr(found_at, WRITTEN) : NULL;
    if (!written_at)
        return;
    uint64_t found = strtoull(found_at + sizeof FOUND - 1, NULL, 10);
    uint64_t written = strtoull(written_at + sizeof WRITTEN - 1, NULL, 10);
    if (found < written)
        snprintf(text, sizeof text,
                 "when it was written, lines %" PRIu64 " to %" PRIu64 " were missing: lines were removed from the end",
                 found + 1, written);
    else if (written)
        snprintf(text, sizeof text, "when it was written, line %" PRIu64 " had been changed", written);
    else
        snprintf(text, sizeof text,
                 "when it was written, the file that names the last line's hash (.head) was missing "
                 "or damaged");
    fault(c, at, text);
}

static void audit_verify_take_line(checking *c, const char *line, size_t n, int file, uint64_t row) {
    static const char KEPT[] = ",\"first_kept\":";
    char text[160];
    place at = {.file = file, .row = row};
    c->lines++;
    if (ec_audit_parse(line, n, &at.seq, at.prev) || !at.seq) {
        if (c->first) {
            at.seq = c->last.seq + 1;
            end_run(c);
            fault(c, &at, "the line is damaged: it does not begin with time, seq and prev");
            c->last = at;
            c->is_unknown = 1;
        } else {
            c->unchained++; /* of a version without a chain */
        }
        return;
    }
    ec_audit_hash(line, n, at.hash);
    const char *kept = row == 1 && n > sizeof KEPT ? strstr(line, KEPT) : NULL;
    if (kept && strtoull(kept + sizeof KEPT - 1, NULL, 10))
        c->first_kept = strtoull(kept + sizeof KEPT - 1, NULL, 10);
    if (row == 1 && !kept)
        fault(c, &at, "no file begins with such a line: lines were removed from the beginning");
    if (!c->first) {
        c->first = at.seq;
        if (c->unchained && at.seq != 1) /* the chain begins with number 1 after lines of an older version */
            fault(c, &at, "it follows lines without hashes: lines before it were removed or changed");
    } else if (at.seq != c->last.seq + 1) {
        if (at.seq <= c->last.seq)
            snprintf(text, sizeof text, "it follows number %" PRIu64 ": lines were reordered or added", c->last.seq);
        else
            snprintf(text, sizeof text, "numbers %" PRIu64 " to %" PRIu64 " are missing before it: lines were removed",
                     c->last.seq + 1, at.seq - 1);
        end_run(c);
        fault(c, &at, text);
    } else if (!c->is_unknown && memcmp(at.prev, c->last.hash, sizeof at.prev) != 0) {
        break_step(c);
    } else {
        end_run(c);
    }
    check_stated(c, &at, line);
    c->last = at;
    c->is_unknown = 0;
}

static int take_file(checking *c, int file, ea_err *err) {
    char path[EC_AUDIT_PATH_BYTES], *line = NULL;
    size_t room = 0;
    uint64_t row = 0;
    ssize_t n;
    ec_audit_file(path, c->path, file);
    FILE *f = fopen(path, "rbe");
    if (!f)
        return errno == ENOENT ? 0 : ea_fail_os(err, EA_EIO, errno, "open %s", path);
    c->files++;
    while ((n = getline(&line, &room, f)) > 0) {
        row++;
        int is_whole = line[n - 1] == '\n';
        if (is_whole)
            line[--n] = 0;
        if (is_whole || file) {
            audit_verify_take_line(c, line, (size_t)n, file, row);
        } else { /* a crash while it was written; the next line that is written cuts it off */
            ea_text_printf(c->report, "%s ends with %zd bytes of half a line\n", c->name, n);
        }
    }
    int is_bad = ferror(f);
    free(line);
    (void)fclose(f);
    return is_bad ? ea_fail(err, EA_EIO, "read %s", path) : 0;
}

/* Compares FILE.head with the last line. After a crash, FILE.head may have the line before the last one. */
static int check_head(checking *c, ea_err *err) {
    char what[160];
    ec_audit_last head = {0};
    int rc = ec_audit_head_read(c->path, &head);
    if (rc == EA_EIO)
        return ea_fail_os(err, rc, errno, "read %s.head", c->path);
    if (rc == EA_ENOTFOUND) {
        if (c->first)
            fault(c, &c->last, "the file that names the last line's hash (.head) is missing");
    } else if (rc) {
        fault(c, &c->last, "the file that names the last line's hash (.head) is damaged");
    } else if (head.seq > c->last.seq) {
        if (c->files)
            snprintf(what, sizeof what,
                     "it is the last one, but number %" PRIu64 " was written: lines were removed from the end",
                     head.seq);
        else
            snprintf(what, sizeof what, "there is no file, but number %" PRIu64 " was written: the file was removed",
                     head.seq);
        fault(c, &c->last, what);
    } else if (head.seq == c->last.seq && !c->is_unknown && memcmp(head.hash, c->last.hash, sizeof head.hash) != 0) {
        break_step(c);
    }
    return 0;
}

static int check_chain(const char *dir, const char *name, ea_text *report, uint64_t *faults, uint64_t *files,
                       ea_err *err) {
    char path[EC_AUDIT_PATH_BYTES], what[200];
    int rc = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    checking c = {.path = path, .name = name, .report = report, .faults = faults};
    for (int i = EC_AUDIT_FILES - 1; !rc && i >= 0; i--)
        rc = take_file(&c, i, err);
    *files += c.files;
    if (!rc)
        rc = check_head(&c, err);
    if (rc)
        return rc;
    if (!c.files)
        return 0;
    end_run(&c);
    if (c.first_kept && c.first > c.first_kept) {
        place at = {.file = (int)c.files - 1, .row = 1, .seq = c.first};
        snprintf(what, sizeof what,
                 "it is the first one, but rotation has kept lines from number %" PRIu64
                 " on: lines were removed from the beginning",
                 c.first_kept);
        fault(&c, &at, what);
    }
    ea_text_printf(report, "%s: %" PRIu64 " lines in %" PRIu64 " files, numbers %" PRIu64 " to %" PRIu64, name, c.lines,
                   c.files, c.first, c.last.seq);
    if (c.first > 1)
        ea_text_printf(report, "; those before were deleted by rotation");
    if (c.unchained)
        ea_text_printf(report, "; the first %" PRIu64 " are of a version without hashes and are not checked",
                       c.unchained);
    ea_text_char(report, '\n');
    return 0;
}

int ec_audit_verify(const char *dir, ea_text *report, uint64_t *ret_faults, ea_err *err) {
    uint64_t faults = 0, files = 0;
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = check_chain(dir, EC_AUDIT_NAMES[i], report, &faults, &files, err);
    if (!rc && !files && !faults)
        rc = ea_fail(err, EA_ENOTFOUND, "read %s/%s: there is no audit log", dir, EC_AUDIT_NAMES[0]);
    if (!rc && report->failed)
        rc = ea_fail(err, EA_ENOMEM, "report on the audit log");
    if (!rc)
        *ret_faults = faults;
    return rc;
}
