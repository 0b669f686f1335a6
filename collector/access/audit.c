/* The audit log. See audit.h. */
#include "audit.h"

#include "clock.h"
#include "platform.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 5, DEFAULT_MIB = 16, PATH_SHOWN = 1024 };

struct ec_audit {
    ea_mutex *mutex;
    FILE *file; /* for appending: commands that change tokens write to it, too */
    uint64_t end, max_bytes, unwritten;
    char path[1024];
};

static int open_file(ec_audit *a, ea_err *err) {
    a->file = fopen(a->path, "abe");
    if (!a->file || fseek(a->file, 0, SEEK_END))
        return ea_fail(err, EA_EIO, "open %s", a->path);
    long end = ftell(a->file);
    a->end = end > 0 ? (uint64_t)end : 0;
    return 0;
}

static void close_file(ec_audit *a) {
    if (a->file)
        (void)fclose(a->file);
    a->file = NULL;
}

int ec_audit_open(ec_audit **ret, const char *dir, uint64_t max_bytes, ea_err *err) {
    ec_audit *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "open the audit log");
    a->max_bytes = max_bytes ? max_bytes : (uint64_t)DEFAULT_MIB << 20;
    snprintf(a->path, sizeof a->path, "%s/audit.jsonl", dir);
    int rc = ea_mutex_create(&a->mutex, err);
    if (!rc)
        rc = open_file(a, err);
    if (rc) {
        ec_audit_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ec_audit_close(ec_audit *a) {
    if (!a)
        return;
    close_file(a);
    ea_mutex_destroy(a->mutex);
    free(a);
}

static void rotate(ec_audit *a) {
    char from[1040], to[1040];
    ea_err ignored;
    close_file(a);
    for (int i = FILES - 1; i > 0; i--) {
        if (i == 1)
            snprintf(from, sizeof from, "%s", a->path);
        else
            snprintf(from, sizeof from, "%s.%d", a->path, i - 1);
        snprintf(to, sizeof to, "%s.%d", a->path, i);
        if (ea_path_exists(from) && ea_path_rename(from, to, &ignored))
            a->unwritten++;
    }
    if (open_file(a, &ignored))
        a->unwritten++;
}

static void add(ea_text *t, const char *key, const char *value) {
    if (!value)
        return;
    size_t n = strlen(value);
    ea_text_printf(t, ",\"%s\":\"", key);
    ea_text_json(t, value, n < PATH_SHOWN ? n : PATH_SHOWN);
    ea_text_char(t, '"');
}

void ec_audit_add(ec_audit *a, const ec_audited *what) {
    ea_text t;
    ea_text_init(&t);
    ea_text_str(&t, "{\"time\":\"");
    ea_text_utc_ns(&t, ea_utc_ns());
    ea_text_char(&t, '"');
    add(&t, "address", what->address);
    add(&t, "token", what->token);
    add(&t, "method", what->method);
    add(&t, "path", what->path);
    if (what->status)
        ea_text_printf(&t, ",\"status\":%d", what->status);
    add(&t, "note", what->note);
    ea_mutex_lock(a->mutex);
    if (a->unwritten)
        ea_text_printf(&t, ",\"unwritten_before\":%" PRIu64, a->unwritten);
    ea_text_str(&t, "}\n");
    if (a->end + t.len_bytes > a->max_bytes && a->end)
        rotate(a);
    if (t.failed || !a->file || fwrite(t.data, 1, t.len_bytes, a->file) != t.len_bytes || fflush(a->file)) {
        a->unwritten++;
    } else {
        a->end += t.len_bytes;
        a->unwritten = 0;
    }
    ea_mutex_unlock(a->mutex);
    ea_text_deinit(&t);
}
