/* Bodies of requests. See body.h. */
#include "collector/web/body.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static int read_members(ec_body *b, sqlite3_stmt *st, ea_err *err) {
    int code;
    while ((code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0), *type = (const char *)sqlite3_column_text(st, 2);
        const char *value = (const char *)sqlite3_column_text(st, 1);
        size_t i = 0;
        while (b->names[i] && (!name || strcmp(b->names[i], name) != 0))
            i++;
        if (!b->names[i])
            return ea_fail(err, EA_EUSAGE, "the body has a member that is not known: '%.40s'", name ? name : "");
        if (type && strcmp(type, "null") == 0)
            continue;
        if (!type || (strcmp(type, "text") != 0 && strcmp(type, "integer") != 0) || !value ||
            strlen(value) != (size_t)sqlite3_column_bytes(st, 1))
            return ea_fail(err, EA_EUSAGE, "\"%s\": a text or a whole number is expected", b->names[i]);
        free(b->values[i]);
        b->values[i] = strdup(value);
        if (!b->values[i])
            return ea_fail(err, EA_ENOMEM, "read the body");
    }
    return code == SQLITE_DONE ? 0 : ea_fail(err, EA_EUSAGE, "the body is no JSON object");
}

int ec_body_read(ec_body *ret, const char *json, size_t len_bytes, const char *const *names, ea_err *err) {
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    ec_body b = {.names = names};
    int rc = 0;
    if (len_bytes > INT_MAX || sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ||
        sqlite3_prepare_v2(
            db,
            "SELECT key, value, type FROM json_each(CASE WHEN json_valid(?1) AND json_type(?1) = 'object'"
            " THEN ?1 END)",
            -1, &st, NULL) ||
        sqlite3_bind_text(st, 1, json ? json : "", (int)len_bytes, SQLITE_STATIC))
        rc = ea_fail(err, EA_ENOMEM, "read the body");
    if (!rc)
        rc = read_members(&b, st, err);
    sqlite3_finalize(st);
    sqlite3_close(db);
    if (rc) {
        ec_body_deinit(&b);
        return rc;
    }
    *ret = b;
    return 0;
}

const char *ec_body_get(const ec_body *b, const char *name) {
    for (size_t i = 0; b->names[i]; i++)
        if (strcmp(b->names[i], name) == 0)
            return b->values[i];
    return NULL;
}

void ec_body_deinit(ec_body *b) {
    for (size_t i = 0; i < EC_BODY_MAX; i++)
        free(b->values[i]);
}
