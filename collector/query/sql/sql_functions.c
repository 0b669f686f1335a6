/* SQL functions that print and parse what events hold: addresses, times, GUIDs, SIDs, IP addresses. SQL.md lists them.
 * Called by: sql.c. Calls: proto/base, proto/event. Thread: the connection's. */
#include "collector/query/analysis/account_names.h"
#include "collector/query/analysis/instances.h"
#include "collector/query/sql/sql_parts.h"
#include "proto/base/clock.h"
#include "proto/base/pattern.h"
#include "proto/event/ntstatus.h"
#include "proto/event/registry_text.h"
#include "proto/event/render.h"
#include "proto/event/value.h"

#include <arpa/inet.h>
#include <string.h>

static void function_fail(sqlite3_context *c, const char *function, const char *expected) {
    char *message = sqlite3_mprintf("%s: expected %s", function, expected);
    sqlite3_result_error(c, message ? message : "out of memory", -1);
    sqlite3_free(message);
}

static void function_result(sqlite3_context *c, ea_text *t) {
    if (t->failed)
        sqlite3_result_error_nomem(c);
    else
        sqlite3_result_text64(c, t->data ? t->data : "", t->len_bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
    ea_text_deinit(t);
}

static const char *function_text_of(sqlite3_value *v) {
    const unsigned char *s = sqlite3_value_text(v);
    return s ? (const char *)s : "";
}

/* ---- 64-bit unsigned numbers ---- */

static void u64(sqlite3_context *c, int count, sqlite3_value **v) {
    uint64_t n;
    (void)count;
    switch (sqlite3_value_type(v[0])) {
    case SQLITE_NULL:
        return;
    case SQLITE_INTEGER: /* its bits: a literal such as 0xfffff80000000000 is negative for SQLite */
        sqlite3_result_int64(c, ec_u64_to_sql((uint64_t)sqlite3_value_int64(v[0])));
        return;
    case SQLITE_TEXT:
        if (ea_u64_parse(function_text_of(v[0]), &n) == 0) {
            sqlite3_result_int64(c, ec_u64_to_sql(n));
            return;
        }
        break;
    default:
        break;
    }
    function_fail(c, "u64", "a whole number, or one as text: '0x7ff712340000'");
}

static void u64_text(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(v[0]) != SQLITE_INTEGER) {
        function_fail(c, "u64_text", "an address");
        return;
    }
    ea_text t;
    ea_text_init(&t);
    ea_text_hex64(&t, ec_u64_from_sql(sqlite3_value_int64(v[0])));
    function_result(c, &t);
}

static void u64_number(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(v[0]) != SQLITE_INTEGER) {
        function_fail(c, "u64_number", "an address");
        return;
    }
    uint64_t n = ec_u64_from_sql(sqlite3_value_int64(v[0]));
    if (n <= INT64_MAX) {
        sqlite3_result_int64(c, (int64_t)n);
        return;
    }
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "%020llu", (unsigned long long)n);
    function_result(c, &t);
}

static void hex_number(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    ea_text t;
    ea_text_init(&t);
    ea_text_hex64(&t, (uint64_t)sqlite3_value_int64(v[0]));
    function_result(c, &t);
}

/* ---- time ---- */

static void time_ns(sqlite3_context *c, int count, sqlite3_value **v) {
    int64_t ns;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    ea_err err = {0};
    int rc = ec_sql_read_time(sqlite3_user_data(c), function_text_of(v[0]), &ns, &err);
    if (rc == EA_EINVAL)
        function_fail(c, "time_ns", EA_TIME_FORMS_OF_DATA);
    else if (rc)
        sqlite3_result_error(c, err.message, -1);
    else
        sqlite3_result_int64(c, ns);
}

static void now(sqlite3_context *c, int count, sqlite3_value **v) {
    const ec_sql *s = sqlite3_user_data(c);
    (void)count, (void)v;
    sqlite3_result_int64(c, s->now_utc_ns);
}

/* So long before now. */
static void ago(sqlite3_context *c, int count, sqlite3_value **v) {
    const ec_sql *s = sqlite3_user_data(c);
    int64_t by_ns = 0, ns;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(v[0]) == SQLITE_INTEGER)
        by_ns = sqlite3_value_int64(v[0]);
    else if (ea_duration_parse(function_text_of(v[0]), &by_ns))
        by_ns = -1;
    if (by_ns < 0 || __builtin_sub_overflow(s->now_utc_ns, by_ns, &ns))
        function_fail(c, "ago", "a duration such as '24h' or '7d', or ns");
    else
        sqlite3_result_int64(c, ns);
}

static void time_text(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    ea_text t;
    ea_text_init(&t);
    ea_text_utc_ns(&t, sqlite3_value_int64(v[0]));
    function_result(c, &t);
}

static void duration_ns(sqlite3_context *c, int count, sqlite3_value **v) {
    int64_t ns;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (ea_duration_parse(function_text_of(v[0]), &ns))
        function_fail(c, "duration_ns", "a duration such as '250ms'");
    else
        sqlite3_result_int64(c, ns);
}

static void time_bucket(sqlite3_context *c, int count, sqlite3_value **v) {
    int64_t width = 0;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL || sqlite3_value_type(v[1]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(v[1]) == SQLITE_TEXT ? ea_duration_parse(function_text_of(v[1]), &width) != 0
                                                : (width = sqlite3_value_int64(v[1]), 0))
        width = 0;
    if (width <= 0) {
        function_fail(c, "time_bucket", "a time and a duration such as '1s'");
        return;
    }
    int64_t t = sqlite3_value_int64(v[0]), rest = t % width;
    if (rest < 0)
        rest += width;
    sqlite3_result_int64(c, t < INT64_MIN + rest ? INT64_MIN : t - rest);
}

/* ---- GUIDs ---- */

static int sql_functions_guid_of(sqlite3_value *v, ea_guid *ret) {
    if (sqlite3_value_type(v) == SQLITE_BLOB && sqlite3_value_bytes(v) == (int)sizeof *ret) {
        memcpy(ret, sqlite3_value_blob(v), sizeof *ret);
        return 1;
    }
    return sqlite3_value_type(v) == SQLITE_TEXT && ea_guid_parse(function_text_of(v), ret) == 0;
}

static void guid(sqlite3_context *c, int count, sqlite3_value **v) {
    ea_guid g;
    char text[37];
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (!sql_functions_guid_of(v[0], &g)) {
        function_fail(c, "guid", "a GUID as text, or its 16 bytes");
        return;
    }
    ea_guid_format(&g, text);
    sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

static void guid_bytes(sqlite3_context *c, int count, sqlite3_value **v) {
    ea_guid g;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (sql_functions_guid_of(v[0], &g))
        sqlite3_result_blob(c, g.bytes, sizeof g.bytes, SQLITE_TRANSIENT);
    else
        function_fail(c, "guid_bytes", "a GUID as text, or its 16 bytes");
}

/* ---- SIDs: revision, count, 6 bytes of authority, 4 a sub-authority ---- */

enum { SID_SUBS_MAX = 15, SID_BYTES_MAX = 8 + 4 * SID_SUBS_MAX };

/* Decimal or 0x hex up to a '-' or the end: 1. */
static int sid_part(const char **at, uint64_t *ret) {
    char part[24];
    size_t n = strcspn(*at, "-");
    if (n == 0 || n >= sizeof part)
        return 0;
    memcpy(part, *at, n);
    part[n] = 0;
    *at += n;
    return ea_u64_parse(part, ret) == 0;
}

/* The bytes of a SID: their number, 0 when it is none. */
static size_t sid_parse(const char *s, uint8_t *out) {
    uint64_t part;
    size_t n = 0;
    if ((s[0] != 'S' && s[0] != 's') || s[1] != '-')
        return 0;
    s += 2;
    if (!sid_part(&s, &part) || part != 1 || *s++ != '-')
        return 0;
    out[0] = 1;
    if (!sid_part(&s, &part) || part >> 48)
        return 0;
    for (unsigned i = 0; i < 6; i++)
        out[2 + i] = (uint8_t)(part >> (40 - 8 * i));
    while (*s++ == '-') {
        if (n == SID_SUBS_MAX || !sid_part(&s, &part) || part > UINT32_MAX)
            return 0;
        ea_store32(out + 8 + 4 * n++, (uint32_t)part);
    }
    out[1] = (uint8_t)n;
    return s[-1] == 0 ? 8 + 4 * n : 0;
}

static int sid_of(sqlite3_value *v, uint8_t *out, size_t *ret) {
    size_t n = (size_t)sqlite3_value_bytes(v);
    if (sqlite3_value_type(v) == SQLITE_BLOB) {
        const uint8_t *p = sqlite3_value_blob(v);
        if (n < 8 || p[1] > SID_SUBS_MAX || n != 8 + (size_t)4 * p[1])
            return 0;
        memcpy(out, p, n);
    } else {
        n = sid_parse(function_text_of(v), out);
    }
    *ret = n;
    return n != 0;
}

static const ea_field SID_FIELD = {.name = "", .type = EA_SID, .count = 1, .count_field = -1, .span = 1};

static void sid(sqlite3_context *c, int count, sqlite3_value **v) {
    uint8_t bytes[SID_BYTES_MAX];
    size_t n;
    ea_text t;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (!sid_of(v[0], bytes, &n)) {
        function_fail(c, "sid", "a SID such as 'S-1-5-18', or its bytes");
        return;
    }
    ea_text_init(&t);
    EA_IGNORE(ea_value_sid(&SID_FIELD, 8, &(ea_slice){bytes, (uint32_t)n, 1}, &t));
    function_result(c, &t);
}

/* Takes any value: a value that is not a SID has no name. It is no error, because a column that agents fill must not
 * end a query. */
void ec_sql_account_name(sqlite3_context *c, int count, sqlite3_value **v) {
    ec_sql *s = sqlite3_user_data(c);
    uint8_t bytes[SID_BYTES_MAX];
    const char *name = NULL, *host = count > 1 ? function_text_of(v[1]) : NULL;
    ea_err err = {0};
    size_t n;
    ea_text t;
    if (!sid_of(v[0], bytes, &n))
        return;
    ea_text_init(&t);
    EA_IGNORE(ea_value_sid(&SID_FIELD, 8, &(ea_slice){bytes, (uint32_t)n, 1}, &t));
    int rc = t.failed ? EA_ENOMEM : s->accounts ? 0 : ec_accounts_create(&s->accounts, s->archive, &err);
    if (!rc && t.data)
        rc = ec_accounts_find(s->accounts, host, t.data, &name, &err);
    if (rc == EA_ENOMEM)
        sqlite3_result_error_nomem(c);
    else if (rc)
        sqlite3_result_error(c, err.message, -1);
    else if (name)
        sqlite3_result_text(c, name, -1, SQLITE_TRANSIENT);
    ea_text_deinit(&t);
}

static void sql_functions_sid_bytes(sqlite3_context *c, int count, sqlite3_value **v) {
    uint8_t bytes[SID_BYTES_MAX];
    size_t n;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (sid_of(v[0], bytes, &n))
        sqlite3_result_blob(c, bytes, (int)n, SQLITE_TRANSIENT);
    else
        function_fail(c, "sid_bytes", "a SID such as 'S-1-5-18', or its bytes");
}

/* ---- IP addresses ---- */

/* 4 or 16 bytes in network order: their number, 0 when it is no address. */
static size_t ip_of(sqlite3_value *v, uint8_t *out) {
    if (sqlite3_value_type(v) == SQLITE_BLOB) {
        size_t n = (size_t)sqlite3_value_bytes(v);
        if (n != 4 && n != 16)
            return 0;
        memcpy(out, sqlite3_value_blob(v), n);
        return n;
    }
    const char *s = function_text_of(v);
    return inet_pton(AF_INET, s, out) == 1 ? 4 : inet_pton(AF_INET6, s, out) == 1 ? 16 : 0;
}

static void ip(sqlite3_context *c, int count, sqlite3_value **v) {
    static const ea_field V4 = {.name = "", .type = EA_IPV4, .width = 4, .count = 1, .count_field = -1, .span = 1};
    static const ea_field V6 = {.name = "", .type = EA_IPV6, .width = 16, .count = 1, .count_field = -1, .span = 1};
    uint8_t bytes[16];
    ea_text t;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    size_t n = ip_of(v[0], bytes);
    if (!n) {
        function_fail(c, "ip", "an IP address, or its 4 or 16 bytes");
        return;
    }
    ea_class class = {.field_count = 1, .top_count = 1, .fields = n == 4 ? &V4 : &V6};
    ea_text_init(&t);
    ea_render_field_json(&t, &class, 0, &(ea_slice){bytes, (uint32_t)n, 1});
    if (!t.failed) /* without its quotes */
        sqlite3_result_text64(c, t.data + 1, t.len_bytes - 2, SQLITE_TRANSIENT, SQLITE_UTF8);
    else
        sqlite3_result_error_nomem(c);
    ea_text_deinit(&t);
}

static void ip_bytes(sqlite3_context *c, int count, sqlite3_value **v) {
    uint8_t bytes[16];
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    size_t n = ip_of(v[0], bytes);
    if (n)
        sqlite3_result_blob(c, bytes, (int)n, SQLITE_TRANSIENT);
    else
        function_fail(c, "ip_bytes", "an IP address, or its 4 or 16 bytes");
}

static void ip_in(sqlite3_context *c, int count, sqlite3_value **v) {
    uint8_t bytes[16], net[16];
    char text[64];
    uint64_t bits;
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL || sqlite3_value_type(v[1]) == SQLITE_NULL)
        return;
    const char *s = function_text_of(v[1]), *slash = strchr(s, '/');
    size_t n = ip_of(v[0], bytes), length = slash ? (size_t)(slash - s) : sizeof text, width = 0;
    if (length < sizeof text) {
        memcpy(text, s, length);
        text[length] = 0;
        width = inet_pton(AF_INET, text, net) == 1 ? 4 : inet_pton(AF_INET6, text, net) == 1 ? 16 : 0;
    }
    if (!n || !width || ea_u64_parse(slash + 1, &bits) || bits > 8 * width) {
        function_fail(c, "ip_in", "an IP address and a network such as '10.0.0.0/8'");
        return;
    }
    int inside = n == width && memcmp(bytes, net, (size_t)bits / 8) == 0;
    if (inside && bits % 8)
        inside = ((bytes[bits / 8] ^ net[bits / 8]) >> (8 - bits % 8)) == 0;
    sqlite3_result_int(c, inside);
}

static void ntstatus(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    const char *name = ea_ntstatus_name((uint32_t)sqlite3_value_int64(v[0]));
    if (name)
        sqlite3_result_text(c, name, -1, SQLITE_STATIC);
}

/* ---- printf ---- */

/* The statement that calls SQLite's own printf with so many arguments, in a connection where it was not replaced. */
static int prepare_format(ec_sql *s, int count) {
    enum { ARGUMENTS_MAX = 127 }; /* SQLite's SQLITE_MAX_FUNCTION_ARG */

    char sql[64 + 2 * ARGUMENTS_MAX];
    size_t n = (size_t)snprintf(sql, sizeof sql, "SELECT printf('x' || ?");
    if (s->format && s->format_count == count)
        return SQLITE_OK;
    sqlite3_finalize(s->format);
    s->format = NULL;
    for (int i = 1; i < count; i++)
        n += (size_t)snprintf(sql + n, sizeof sql - n, ",?");
    snprintf(sql + n, sizeof sql - n, ")");
    s->format_count = count;
    int code = s->plain ? SQLITE_OK
                        : sqlite3_open_v2(":memory:", &s->plain, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK)
        sqlite3_limit(s->plain, SQLITE_LIMIT_LENGTH, sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, -1));
    return code == SQLITE_OK ? sqlite3_prepare_v2(s->plain, sql, -1, &s->format, NULL) : code;
}

/* SQLite's printf gives NULL in place of a text that is too long. It is asked for with one more character before the
 * text, which is never NULL for another reason; so NULL is an error here. */
static void format_text(sqlite3_context *c, int count, sqlite3_value **v) {
    ec_sql *s = sqlite3_user_data(c);
    if (count == 0 || sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    int code = prepare_format(s, count);
    for (int i = 0; code == SQLITE_OK && i < count; i++)
        code = sqlite3_bind_value(s->format, i + 1, v[i]);
    if (code == SQLITE_OK)
        code = sqlite3_step(s->format);
    if (code != SQLITE_ROW)
        sqlite3_result_error_code(c, code);
    else if (sqlite3_column_type(s->format, 0) == SQLITE_NULL)
        sqlite3_result_error_toobig(c);
    else if (sqlite3_column_bytes(s->format, 0) > 1) /* an empty one is NULL, as SQLite has it */
        sqlite3_result_text(c, (const char *)sqlite3_column_text(s->format, 0) + 1,
                            sqlite3_column_bytes(s->format, 0) - 1, SQLITE_TRANSIENT);
    if (s->format) {
        sqlite3_reset(s->format);
        sqlite3_clear_bindings(s->format);
    }
}

/* ---- instances ---- */

static int find_instance(ec_sql *s, enum ec_instance_kind kind, const char *host, const char *stream, int64_t number,
                         int64_t utc_ns, int64_t *ret, ea_err *err) {
    int rc = s->instances ? 0 : ec_instances_create(&s->instances, s->archive, err);
    if (!rc && number >= 0 && number <= UINT32_MAX)
        rc = ec_instances_at(s->instances, kind, host, stream, (uint32_t)number, utc_ns, ret, err);
    return rc;
}

int ec_sql_process_at(ec_sql *s, const char *host, const char *stream, int64_t number, int64_t utc_ns, int64_t *ret,
                      ea_err *err) {
    *ret = 0;
    return find_instance(s, EC_INSTANCE_PROCESS, host, stream, number, utc_ns, ret, err);
}

/* A value that is not a number is no instance's, and no error: see registry_key_at. */
static void instance_at(sqlite3_context *c, sqlite3_value **v, enum ec_instance_kind kind, const char *name) {
    ec_sql *s = sqlite3_user_data(c);
    ea_err err = {0};
    int64_t key = 0;
    for (int i = 0; i < 4; i++)
        if (sqlite3_value_type(v[i]) == SQLITE_NULL)
            return;
    if (sqlite3_value_type(v[3]) != SQLITE_INTEGER) {
        function_fail(c, name, "host, stream, a number, and a time in ns since 1970 (time_ns)");
        return;
    }
    if (sqlite3_value_type(v[2]) != SQLITE_INTEGER)
        return;
    int rc = find_instance(s, kind, function_text_of(v[0]), function_text_of(v[1]), sqlite3_value_int64(v[2]),
                           sqlite3_value_int64(v[3]), &key, &err);
    if (rc == EA_ENOMEM)
        sqlite3_result_error_nomem(c);
    else if (rc)
        sqlite3_result_error(c, err.message, -1);
    else if (key)
        sqlite3_result_int64(c, key);
}

static void process_at(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    instance_at(c, v, EC_INSTANCE_PROCESS, "process_at");
}

static void thread_at(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    instance_at(c, v, EC_INSTANCE_THREAD, "thread_at");
}

/* ---- names ---- */

/* KeyHandle is an address in a class's table, and a text in `fields`: 0 for any other value. */
static int sql_functions_address_of(sqlite3_value *v, uint64_t *ret) {
    if (sqlite3_value_type(v) == SQLITE_INTEGER) {
        *ret = ec_u64_from_sql(sqlite3_value_int64(v));
        return 1;
    }
    return sqlite3_value_type(v) == SQLITE_TEXT && ea_u64_parse(function_text_of(v), ret) == 0;
}

/* A value that is not an address has no name, and is no error: an agent can send any, and must not end a query (as
 * account_name). */
static void registry_key_at(sqlite3_context *c, int count, sqlite3_value **v) {
    ec_sql *s = sqlite3_user_data(c);
    const ec_archive_stream *stream = NULL;
    ea_resolver resolver = {0};
    ea_err err = {0};
    uint64_t address;
    for (int i = 0; i < count; i++)
        if (sqlite3_value_type(v[i]) == SQLITE_NULL)
            return;
    if (sqlite3_value_type(v[3]) != SQLITE_INTEGER) {
        function_fail(c, "registry_key_at", "host, stream, an address, and a time in ns since 1970 (time_ns)");
        return;
    }
    if (!sql_functions_address_of(v[2], &address))
        return;
    int rc = s->instances ? 0 : ec_instances_create(&s->instances, s->archive, &err);
    if (!rc)
        stream = ec_instances_stream(s->instances, function_text_of(v[0]), function_text_of(v[1]));
    if (!rc && stream)
        rc = ec_archive_names(s->archive, stream, &resolver, &err);
    if (rc == 1) {
        ea_text t;
        ea_text_init(&t);
        if (resolver.number(resolver.arg, EA_SEM_KCB, address, sqlite3_value_int64(v[3]), &t))
            function_result(c, &t);
        else
            ea_text_deinit(&t);
    } else if (rc == EA_ENOMEM) {
        sqlite3_result_error_nomem(c);
    } else if (rc) {
        sqlite3_result_error(c, err.message, -1);
    }
}

/* ---- the registry ---- */

/* Type, size and data of a value, as events have them. An agent can send any others: they are NULL. */
static void registry_data(sqlite3_context *c, int count, sqlite3_value **v) {
    ea_text t;
    (void)count;
    if (sqlite3_value_type(v[0]) != SQLITE_INTEGER || sqlite3_value_type(v[1]) != SQLITE_INTEGER)
        return;
    int64_t type = sqlite3_value_int64(v[0]), size = sqlite3_value_int64(v[1]);
    const void *data = sqlite3_value_type(v[2]) == SQLITE_BLOB ? sqlite3_value_blob(v[2]) : NULL;
    size_t bytes = data ? (size_t)sqlite3_value_bytes(v[2]) : 0;
    if (type < 0 || type > UINT32_MAX || size < 0)
        return;
    ea_text_init(&t);
    if (ea_registry_data_text(&t, (uint32_t)type, (uint64_t)size, data, bytes))
        function_result(c, &t);
    else
        ea_text_deinit(&t);
}

static void registry_path(sqlite3_context *c, int count, sqlite3_value **v) {
    ea_text t;
    (void)count;
    if (sqlite3_value_type(v[0]) != SQLITE_TEXT)
        return;
    ea_text_init(&t);
    ea_registry_path_text(&t, function_text_of(v[0]));
    function_result(c, &t);
}

/* ---- paths ---- */

static int begins_without_case(const char *text, const char *prefix) {
    return sqlite3_strnicmp(text, prefix, (int)strlen(prefix)) == 0;
}

/* The same file of two machines, or of two starts of one machine, may have two paths, as the volume has another number
 * or a drive letter. */
static void path_on_volume(sqlite3_context *c, int count, sqlite3_value **v) {
    (void)count;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    if (sqlite3_value_type(v[0]) != SQLITE_TEXT) {
        function_fail(c, "path_on_volume", "a path as text");
        return;
    }
    static const char VOLUME[] = "\\Device\\HarddiskVolume", ROOT[] = "\\SystemRoot\\";
    const char *path = (const char *)sqlite3_value_text(v[0]), *root = "";
    if (!path) {
        sqlite3_result_error_nomem(c);
        return;
    }
    if (begins_without_case(path, "\\??\\") || begins_without_case(path, "\\\\?\\"))
        path += 4;
    if (begins_without_case(path, VOLUME)) {
        const char *digits = path + sizeof VOLUME - 1, *end = digits + strspn(digits, "0123456789");
        path = end > digits && *end == '\\' ? end : path;
    } else if (begins_without_case(path, ROOT)) {
        root = "\\Windows";
        path += sizeof ROOT - 2;
    } else if (((*path >= 'A' && *path <= 'Z') || (*path >= 'a' && *path <= 'z')) && path[1] == ':' &&
               path[2] == '\\') {
        path += 2;
    }
    char *lower = sqlite3_mprintf("%s%s", root, path);
    if (!lower) {
        sqlite3_result_error_nomem(c);
        return;
    }
    ea_name_to_lower(lower);
    sqlite3_result_text(c, lower, -1, sqlite3_free);
}

int ec_sql_add_functions(ec_sql *s, ea_err *err) {
    static const struct {
        const char *name;
        int count;
        void (*call)(sqlite3_context *c, int count, sqlite3_value **v);
    } FUNCTIONS[] = {
        {"u64", 1, u64},
        {"u64_text", 1, u64_text},
        {"u64_number", 1, u64_number},
        {"hex_text", 1, hex_number},
        {"time_ns", 1, time_ns},
        {"now", 0, now},
        {"ago", 1, ago},
        {"time_text", 1, time_text},
        {"time_bucket", 2, time_bucket},
        {"duration_ns", 1, duration_ns},
        {"guid", 1, guid},
        {"guid_bytes", 1, guid_bytes},
        {"sid", 1, sid},
        {"sid_bytes", 1, sql_functions_sid_bytes},
        {"account_name", 1, ec_sql_account_name},
        {"account_name", 2, ec_sql_account_name},
        {"ip", 1, ip},
        {"ip_bytes", 1, ip_bytes},
        {"ip_in", 2, ip_in},
        {"ntstatus", 1, ntstatus},
        {"printf", -1, format_text},
        {"format", -1, format_text},
        {"path_on_volume", 1, path_on_volume},
        {"process_at", 4, process_at},
        {"thread_at", 4, thread_at},
        {"registry_key_at", 4, registry_key_at},
        {"registry_data", 3, registry_data},
        {"registry_path", 1, registry_path},
    };

    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof FUNCTIONS[0]; i++)
        if (sqlite3_create_function_v2(s->db, FUNCTIONS[i].name, FUNCTIONS[i].count,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, s, FUNCTIONS[i].call,
                                       NULL, NULL, NULL) != SQLITE_OK)
            return ea_fail(err, EA_EDATABASE, "add functions: %s", sqlite3_errmsg(s->db));
    return 0;
}
