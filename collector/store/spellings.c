/* How the store spells agents' names. See store.h, ec_store_agent_name. An agent is known by its name in lower case; in
 * a store of a version that kept names as certificates have them, it keeps the spelling under which its streams are.
 * Read when the store is opened to write, and constant from then on. */
#include "collector/store/store_parts.h"
#include "proto/base/pattern.h"

#include <stdlib.h>
#include <string.h>

/* Agents of which there is no stream under the name in lower case; the spelling that was used last comes last. */
static const char SQL[] = "SELECT agent FROM streams WHERE agent <> lower(agent) AND lower(agent) NOT IN"
                          " (SELECT agent FROM streams) GROUP BY agent ORDER BY max(received_last_utc_ns)";

typedef struct spelling {
    size_t len_bytes;
    char texts[]; /* folded, NUL, as the store has it, NUL */
} spelling;

static int spellings_add(ec_store *s, const char *agent, ea_err *err) {
    size_t n = strlen(agent);
    spelling *p = malloc(sizeof *p + 2 * (n + 1));
    if (!p)
        return ea_fail(err, EA_ENOMEM, "read the agents' names");
    p->len_bytes = n;
    memcpy(p->texts, agent, n + 1);
    memcpy(p->texts + n + 1, agent, n + 1);
    ea_name_to_lower(p->texts);
    spelling *older = ea_bytes_map_get(&s->spellings, p->texts, n);
    if (older) { /* the key is the entry's own: its text is what changes */
        memcpy(older->texts + n + 1, agent, n + 1);
        free(p);
        return 0;
    }
    int rc = ea_bytes_map_put(&s->spellings, p->texts, n, p);
    if (rc) {
        free(p);
        return ea_fail(err, rc, "read the agents' names");
    }
    return 0;
}

int ec_store_read_spellings(ec_store *s, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code = SQLITE_DONE, rc = 0;
    if (sqlite3_prepare_v2(s->db, SQL, -1, &st, NULL) != SQLITE_OK)
        return ea_fail(err, EA_EDATABASE, "read the agents' names: %s", sqlite3_errmsg(s->db));
    while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW)
        rc = spellings_add(s, (const char *)sqlite3_column_text(st, 0), err);
    if (!rc && code != SQLITE_DONE)
        rc = ea_fail(err, EA_EDATABASE, "read the agents' names: %s", sqlite3_errmsg(s->db));
    sqlite3_finalize(st);
    return rc;
}

void ec_store_drop_spellings(ec_store *s) {
    size_t cursor = 0, key_bytes;
    const void *key;
    void *value;
    while (ea_bytes_map_next(&s->spellings, &cursor, &key, &key_bytes, &value))
        free(value);
    ea_bytes_map_deinit(&s->spellings);
}

const char *ec_store_agent_name(const ec_store *s, const char *name) {
    const spelling *p = ea_bytes_map_get(&s->spellings, name, strlen(name));
    return p ? p->texts + p->len_bytes + 1 : name;
}
