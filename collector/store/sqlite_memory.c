/* See sqlite_memory.h. SQLite takes all memory by these functions, which call the default ones. */
#include "collector/store/sqlite_memory.h"

#include <sqlite3.h>
#include <stdatomic.h>

static sqlite3_mem_methods plain;
static atomic_int has_started;

/* Of a thread. */
static _Thread_local struct {
    int64_t used_bytes, limit_bytes;
    int refused;
} mine;

static int sqlite_memory_has_room(int more_bytes) {
    if (!mine.limit_bytes || mine.used_bytes + more_bytes <= mine.limit_bytes)
        return 1;
    mine.refused = 1;
    return 0;
}

static void *memory_take(int len_bytes) {
    void *p = sqlite_memory_has_room(len_bytes) ? plain.xMalloc(len_bytes) : NULL;
    if (p && mine.limit_bytes)
        mine.used_bytes += plain.xSize(p);
    return p;
}

static void memory_free(void *p) {
    if (p && mine.limit_bytes)
        mine.used_bytes -= plain.xSize(p);
    plain.xFree(p);
}

static void *memory_resize(void *p, int len_bytes) {
    int before = plain.xSize(p);
    if (len_bytes > before && !sqlite_memory_has_room(len_bytes - before))
        return NULL;
    void *bigger = plain.xRealloc(p, len_bytes);
    if (bigger && mine.limit_bytes)
        mine.used_bytes += plain.xSize(bigger) - before;
    return bigger;
}

int ec_sqlite_memory_start(ea_err *err) {
    if (atomic_exchange(&has_started, 1))
        return 0;
    sqlite3_mem_methods ours;
    int code = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);
    ours = plain;
    ours.xMalloc = memory_take;
    ours.xFree = memory_free;
    ours.xRealloc = memory_resize;
    if (code == SQLITE_OK)
        code = sqlite3_config(SQLITE_CONFIG_MALLOC, &ours);
    if (code == SQLITE_OK)
        return 0;
    atomic_store(&has_started, 0);
    return ea_fail(err, EA_EBUSY, "limit SQLite's memory: %s", sqlite3_errstr(code));
}

void ec_sqlite_memory_limit(uint64_t limit_bytes) {
    mine.used_bytes = 0;
    mine.limit_bytes = limit_bytes > INT64_MAX ? INT64_MAX : (int64_t)limit_bytes;
    mine.refused = 0;
}

int ec_sqlite_memory_refused(void) {
    int refused = mine.refused;
    mine.refused = 0;
    return refused;
}
