/* See account_names.h. */
#include "collector/query/analysis/account_names.h"

#include "collector/query/scan/event_cursor.h"
#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/base/provider_guids.h"
#include "proto/event/accounts.h"
#include "proto/state/account_facts.h"

#include <stdlib.h>
#include <string.h>

enum { SID, NAME, FIELDS };

enum {
    TEXT_BYTES = 128 << 20, /* of answers, and of what machines said */
    PLANS_MAX = 64,
    KEY_MAX = 1024,
    NAME_MAX_BYTES = 1024,
    NAMES_MAX = 1 << 17, /* likewise */
    HOST_NAMES_MAX = NAMES_MAX / 2,
    HOST_TEXT_BYTES = TEXT_BYTES / 8,
    OP_SERVICES = 15,
};

static const ea_guid CONFIG = EA_PROVIDER_SYSTEM_CONFIG;

/* Host, NUL and SID -> the name. */
typedef struct account_names {
    ea_bytes_map map;
    ea_arena arena;
} account_names;

struct ec_accounts {
    ec_archive *archive;
    account_names answers;         /* "": there is no name */
    account_names given;           /* what machines said: asked only where no name is known everywhere */
    ea_bytes_map hosts;            /* those whose events were read */
    size_t host_names, host_bytes; /* noted of the host that is read */
    ea_text sid, name;
    ec_event_cursor_plan plans[PLANS_MAX];
    size_t plan_count;
};

int ec_accounts_create(ec_accounts **ret, ec_archive *archive, ea_err *err) {
    ec_accounts *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "read accounts");
    a->archive = archive;
    ea_arena_init(&a->answers.arena, 0);
    ea_arena_init(&a->given.arena, 0);
    ea_bytes_map_init(&a->answers.map, 0);
    ea_bytes_map_init(&a->given.map, 0);
    ea_bytes_map_init(&a->hosts, 0);
    ea_text_init(&a->sid);
    ea_text_init(&a->name);
    *ret = a;
    return 0;
}

void ec_accounts_destroy(ec_accounts *a) {
    if (!a)
        return;
    ea_bytes_map_deinit(&a->answers.map);
    ea_bytes_map_deinit(&a->given.map);
    ea_bytes_map_deinit(&a->hosts);
    ea_arena_deinit(&a->answers.arena);
    ea_arena_deinit(&a->given.arena);
    ea_text_deinit(&a->sid);
    ea_text_deinit(&a->name);
    free(a);
}

/* The key of a host's SID: its bytes; 0: it is too long. */
static size_t accounts_key_of(const char *host, const char *sid, char key[KEY_MAX]) {
    size_t m = strlen(host) + 1, n = strlen(sid) + 1;
    if (m + n > KEY_MAX)
        return 0;
    memcpy(key, host, m);
    memcpy(key + m, sid, n);
    return m + n;
}

/* Notes a name. The last one counts. Those that are too many are left out: what agents say must not end a question. */
static int accounts_put(account_names *of, const char *host, const char *sid, const char *name) {
    char key[KEY_MAX];
    size_t n = accounts_key_of(host, sid, key);
    const char *known = n ? ea_bytes_map_get(&of->map, key, n) : NULL;
    if (!n || (known && strcmp(known, name) == 0) || (!known && of->map.count == NAMES_MAX) ||
        of->arena.used_bytes > TEXT_BYTES)
        return 0;
    const char *copy = ea_arena_strdup(&of->arena, name), *own = ea_arena_copy(&of->arena, key, n);
    return !copy || !own || ea_bytes_map_put(&of->map, own, n, (void *)(uintptr_t)copy) ? EA_ENOMEM : 0;
}

/* Notes what a machine says. Of a service the SID is a hash of the name: another name is not the service's. */
static int accounts_give(ec_accounts *a, const char *host, const char *sid, const char *name) {
    static const char SERVICE[] = "S-1-5-80-";
    const char *after = strchr(name, '\\');
    char of_name[EA_SERVICE_SID_BYTES];
    if (strlen(name) > NAME_MAX_BYTES)
        return 0;
    if (strncmp(sid, SERVICE, sizeof SERVICE - 1) == 0 &&
        (!ea_service_sid(after ? after + 1 : name, of_name) || strcmp(of_name, sid) != 0))
        return 0;
    if (a->host_names >= HOST_NAMES_MAX || a->host_bytes >= HOST_TEXT_BYTES)
        return 0;
    size_t before = a->given.map.count, bytes_before = a->given.arena.used_bytes;
    int rc = accounts_put(&a->given, host, sid, name);
    a->host_names += a->given.map.count - before;
    a->host_bytes += a->given.arena.used_bytes - bytes_before;
    return rc;
}

/* Which class says what: 1 and the names of its fields. */
static int accounts_concerns(const ea_class *c, const char *ret_fields[FIELDS]) {
    if (!c->classic || c->status == EA_CLASS_UNKNOWN)
        return 0;
    int is_account = ea_guid_equal(&c->provider, &ea_image_facts_provider) && c->code == EA_ACCOUNT_FACTS_OPCODE;
    ret_fields[SID] = is_account ? "Sid" : NULL;
    ret_fields[NAME] = is_account ? "Account" : "ServiceName";
    return is_account || (ea_guid_equal(&c->provider, &CONFIG) && c->code == OP_SERVICES);
}

static const ec_event_cursor_plan *accounts_plan(void *arg, const ea_class *c) {
    ec_accounts *a = arg;
    const char *fields[FIELDS];
    if (!accounts_concerns(c, fields) || a->plan_count == PLANS_MAX)
        return NULL;
    ec_event_cursor_plan *p = &a->plans[a->plan_count++];
    *p = (ec_event_cursor_plan){.addresses = -1};
    for (size_t k = 0; k < EC_EVENT_CURSOR_FIELDS; k++)
        p->fields[k] = -1;
    for (size_t k = 0; k < FIELDS; k++)
        for (size_t i = 0; fields[k] && i < ea_class_top_count(c); i++)
            if (strcmp(c->fields[ea_class_top_field(c, i)].name, fields[k]) == 0)
                p->fields[k] = (int16_t)i;
    return p;
}

static void put_utf16(ea_text *t, ea_slice s) {
    size_t n = 0;
    while (n + 2 <= s.len_bytes && ea_load16(s.data + n))
        n += 2;
    ea_text_clear(t);
    ea_text_utf16(t, s.data, n);
}

static void put_utf8(ea_text *t, ea_slice s) {
    ea_text_clear(t);
    ea_text_add(t, s.data, strnlen((const char *)s.data, s.len_bytes));
}

static int accounts_add(ec_accounts *a, const char *host, const ec_event_cursor *t, const ec_event_cursor_event *e) {
    ea_slice sid = ec_event_cursor_bytes(t, e, SID), name = ec_event_cursor_bytes(t, e, NAME);
    char of_service[EA_SERVICE_SID_BYTES];
    if (!name.data || !name.len_bytes)
        return 0;
    if (sid.data && sid.len_bytes) {
        put_utf8(&a->sid, sid);
        put_utf8(&a->name, name);
    } else {
        put_utf16(&a->sid, name); /* the service */
        if (a->sid.failed || !a->sid.data || !ea_service_sid(a->sid.data, of_service))
            return a->sid.failed ? EA_ENOMEM : 0;
        ea_text_clear(&a->name);
        ea_text_printf(&a->name, "NT SERVICE\\%s", a->sid.data);
        ea_text_clear(&a->sid);
        ea_text_str(&a->sid, of_service);
    }
    if (a->sid.failed || a->name.failed)
        return EA_ENOMEM;
    return a->sid.len_bytes && a->name.len_bytes ? accounts_give(a, host, a->sid.data, a->name.data) : 0;
}

static int accounts_read_stream(ec_accounts *a, const ec_archive_stream *stream, ea_err *err) {
    ec_event_cursor *cursor = NULL;
    ec_event_cursor_event e;
    a->plan_count = 0;
    int rc = ec_event_cursor_open(
        &cursor, a->archive,
        &(ec_event_cursor_options){
            .stream = stream, .from_utc_ns = INT64_MIN, .to_utc_ns = INT64_MAX, .plan = accounts_plan, .arg = a},
        err);
    while (!rc && (rc = ec_event_cursor_next(cursor, &e, err)) == 1)
        if ((rc = accounts_add(a, stream->row.host, cursor, &e)))
            rc = ea_fail(err, rc, "read accounts");
    ec_event_cursor_close(cursor);
    return rc;
}

/* Reads what a host's streams name, once. */
static int accounts_read_host(ec_accounts *a, const char *host, ea_err *err) {
    size_t count = 0, n = strlen(host) + 1;
    const ec_archive_stream *streams = NULL;
    if (ea_bytes_map_get(&a->hosts, host, n))
        return 0;
    const char *own = ea_arena_strdup(&a->answers.arena, host);
    int rc = !own || ea_bytes_map_put(&a->hosts, own, n, (void *)(uintptr_t)own)
                 ? ea_fail(err, EA_ENOMEM, "read accounts")
                 : ec_archive_streams(a->archive, &streams, &count, err);
    a->host_names = a->host_bytes = 0;
    for (size_t i = 0; !rc && i < count; i++)
        if (strcmp(streams[i].row.host, host) == 0)
            rc = accounts_read_stream(a, &streams[i], err);
    return rc;
}

int ec_accounts_find(ec_accounts *a, const char *host, const char *sid, const char **ret, ea_err *err) {
    char key[KEY_MAX], buffer[EA_ACCOUNT_BYTES];
    size_t n = accounts_key_of(host ? host : "", sid, key);
    *ret = NULL;
    if (!n || !*sid)
        return 0;
    const char *name = ea_bytes_map_get(&a->answers.map, key, n);
    int rc = 0;
    if (!name) {
        /* a name that is the same on every machine is not the machine's to give */
        const char *found = ea_account_name(sid, buffer);
        if (!found && host && !(rc = accounts_read_host(a, host, err)))
            found = ea_bytes_map_get(&a->given.map, key, n);
        /* noted, so that it is not looked for again */
        if (!rc && (rc = accounts_put(&a->answers, host ? host : "", sid, found ? found : "")))
            rc = ea_fail(err, rc, "read accounts");
        name = rc ? NULL : ea_bytes_map_get(&a->answers.map, key, n);
    }
    *ret = name && *name ? name : NULL;
    return rc;
}
