/* Notices: findings that an administrator should see. See store.h. */
#include "collector/store/store_parts.h"

enum { NOTICES_MAX = 10000 }; /* rows; the oldest go */

const char *ec_notice_name(uint32_t kind) {
    switch (kind) {
    case EC_NOTICE_TWICE:
        return "identity-twice";
    case EC_NOTICE_CONFLICT:
        return "conflict";
    case EC_NOTICE_SHARE:
        return "share";
    case EC_NOTICE_KEPT:
        return "kept";
    case EC_NOTICE_RETENTION:
        return "retention";
    default:
        return "other";
    }
}

int ec_store_add_notice(ec_store *s, const char *agent, enum ec_notice_kind kind, const char *text, ea_err *err) {
    int rc = ec_store_begin_group(s, err);
    if (!rc)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_ADD_NOTICE, "itit", ea_utc_ns(), agent, (int64_t)kind, text),
                       "keep a notice", err);
    if (!rc)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_DROP_NOTICES, "i", (int64_t)NOTICES_MAX), "keep a notice", err);
    return rc;
}

int ec_store_each_notice(ec_store *s, const char *host, int (*fn)(const ec_notice *notice, void *arg), void *arg,
                         ea_err *err) {
    int64_t after = 0;
    if (!ec_db_statement(s, EC_ST_EACH_NOTICE) && sqlite3_errcode(s->db) == SQLITE_ERROR)
        return 0; /* written before there were any */
    for (;;) {
        sqlite3_stmt *st = ec_db_bind(s, EC_ST_EACH_NOTICE, "it", after, host);
        int rc = ec_db_row(s, st, "read the notices", err);
        if (rc != 1)
            return rc;
        ec_notice i = {.utc_ns = sqlite3_column_int64(st, 1), .kind = (uint32_t)sqlite3_column_int64(st, 3)};
        after = sqlite3_column_int64(st, 0);
        ec_db_copy_text(i.host, sizeof i.host, st, 2);
        ec_db_copy_text(i.text, sizeof i.text, st, 4);
        ec_db_done(st);
        if (fn(&i, arg))
            return 0;
    }
}
