/* See instances.h. */
#include "collector/query/analysis/instances.h"

#include "collector/query/analysis/address_space.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

typedef struct known {
    const ec_archive_stream *stream;
    ec_address_space *places; /* NULL: not read yet */
    size_t next;              /* of the sessions of its run, in a circle: index; its own when it is alone */
} known;

struct ec_instances {
    ec_archive *archive;
    known *streams;
    size_t count;
    ea_bytes_map by_name; /* host, NUL, id -> index + 1 */
    ea_bytes_map by_run;  /* host, NUL, the beginning of the id -> index + 1 of its newest one */
    ea_arena arena;
    size_t last; /* that was asked for */
};

enum { ID_CHARACTERS = 2 * EA_STREAM_ID_BYTES, RUN_CHARACTERS = 2 * EA_STREAM_RUN_BYTES };

/* Keeps a stream under a name: what was under it before is in *ret_before, 0: nothing. */
static int instances_put_name(ec_instances *i, ea_bytes_map *map, const ec_archive_stream *s, size_t characters,
                              size_t index, size_t *ret_before) {
    size_t host_bytes = strlen(s->row.host) + 1;
    char *key = ea_arena_alloc(&i->arena, host_bytes + characters);
    if (!key)
        return EA_ENOMEM;
    memcpy(key, s->row.host, host_bytes);
    memcpy(key + host_bytes, s->id, characters);
    *ret_before = (size_t)(uintptr_t)ea_bytes_map_get(map, key, host_bytes + characters);
    return ea_bytes_map_put(map, key, host_bytes + characters, (void *)(uintptr_t)(index + 1));
}

static int instances_add_stream(ec_instances *i, const ec_archive_stream *s) {
    size_t at = i->count++, before = 0;
    i->streams[at] = (known){.stream = s, .next = at};
    int rc = instances_put_name(i, &i->by_name, s, ID_CHARACTERS, at, &before);
    if (!rc)
        rc = instances_put_name(i, &i->by_run, s, RUN_CHARACTERS, at, &before);
    if (!rc && before) {
        i->streams[at].next = i->streams[before - 1].next;
        i->streams[before - 1].next = at;
    }
    return rc;
}

int ec_instances_create(ec_instances **ret, ec_archive *archive, ea_err *err) {
    size_t count = 0;
    const ec_archive_stream *streams = NULL;
    int rc = ec_archive_streams(archive, &streams, &count, err);
    if (rc)
        return rc;
    ec_instances *i = calloc(1, sizeof *i);
    if (!i)
        return ea_fail(err, EA_ENOMEM, "read the history");
    i->archive = archive;
    ea_arena_init(&i->arena, 0);
    ea_bytes_map_init(&i->by_name, 0);
    ea_bytes_map_init(&i->by_run, 0);
    i->streams = calloc(count + 1, sizeof *i->streams);
    rc = i->streams ? 0 : EA_ENOMEM;
    for (size_t k = 0; !rc && k < count; k++)
        rc = instances_add_stream(i, &streams[k]);
    if (rc) {
        ec_instances_destroy(i);
        return ea_fail(err, rc, "read the history");
    }
    *ret = i;
    return 0;
}

void ec_instances_destroy(ec_instances *i) {
    if (!i)
        return;
    for (size_t k = 0; k < i->count; k++)
        ec_address_space_close(i->streams[k].places);
    ea_bytes_map_deinit(&i->by_name);
    ea_bytes_map_deinit(&i->by_run);
    ea_arena_deinit(&i->arena);
    free(i->streams);
    free(i);
}

/* The index of a stream: 1; 0 when there is none. */
static int instances_find(ec_instances *i, const char *host, const char *stream, size_t *ret) {
    char key[256 + 1 + ID_CHARACTERS];
    size_t n = strlen(host) + 1;
    if (i->last < i->count && strcmp(i->streams[i->last].stream->id, stream) == 0 &&
        strcmp(i->streams[i->last].stream->row.host, host) == 0) {
        *ret = i->last;
        return 1;
    }
    if (n > 256 || strlen(stream) != ID_CHARACTERS)
        return 0;
    memcpy(key, host, n);
    memcpy(key + n, stream, ID_CHARACTERS);
    size_t at = (size_t)(uintptr_t)ea_bytes_map_get(&i->by_name, key, n + ID_CHARACTERS);
    if (!at)
        return 0;
    *ret = i->last = at - 1;
    return 1;
}

const ec_archive_stream *ec_instances_stream(ec_instances *i, const char *host, const char *stream) {
    size_t at;
    return instances_find(i, host, stream, &at) ? i->streams[at].stream : NULL;
}

static int read_places(ec_instances *i, size_t at, ec_address_space **ret, ea_err *err) {
    known *k = &i->streams[at];
    int rc = k->places ? 0 : ec_address_space_open(&k->places, i->archive, k->stream, 0, err);
    if (!rc)
        *ret = k->places;
    return rc;
}

static size_t instances_count_of(ec_address_space *p, enum ec_instance_kind kind) {
    return kind == EC_INSTANCE_PROCESS ? ec_address_space_process_count(p) : ec_address_space_thread_count(p);
}

/* Finds the stream that has a stream's processes, or threads, at a time: of the sessions of its run that have any, the
 * session that began last by then, else the first one. It is the stream itself when no session has any. */
static int instances_teller(ec_instances *i, size_t of, enum ec_instance_kind kind, int64_t utc_ns,
                            ec_instances_answer *ret, ea_err *err) {
    ec_address_space *own = NULL, *p = NULL;
    int64_t best = 0;
    int rc = read_places(i, of, &own, err);
    *ret = (ec_instances_answer){own, INT64_MIN, INT64_MAX};
    if (rc || instances_count_of(own, kind))
        return rc;
    for (size_t at = i->streams[of].next; !rc && at != of; at = i->streams[at].next) {
        int64_t begin = i->streams[at].stream->row.begin_utc_ns;
        rc = read_places(i, at, &p, err);
        if (rc || !instances_count_of(p, kind))
            continue;
        if (begin > utc_ns && begin < ret->to_utc_ns)
            ret->to_utc_ns = begin;
        if (ret->space == own || (begin <= utc_ns ? best > utc_ns || begin > best : begin < best)) {
            ret->space = p;
            best = begin;
        }
    }
    if (ret->space != own && best <= utc_ns)
        ret->from_utc_ns = best;
    return rc;
}

int ec_instances_space(ec_instances *i, enum ec_instance_kind kind, const char *host, const char *stream,
                       int64_t utc_ns, ec_instances_answer *ret, ea_err *err) {
    size_t of = 0;
    *ret = (ec_instances_answer){NULL, INT64_MIN, INT64_MAX};
    return instances_find(i, host, stream, &of) ? instances_teller(i, of, kind, utc_ns, ret, err) : 0;
}

void ec_instances_forget(ec_instances *i, const char *host, const char *stream) {
    size_t of = 0, at;
    if (!instances_find(i, host, stream, &of))
        return;
    at = of;
    do {
        ec_address_space_close(i->streams[at].places);
        i->streams[at].places = NULL;
        at = i->streams[at].next;
    } while (at != of);
}

int ec_instances_at(ec_instances *i, enum ec_instance_kind kind, const char *host, const char *stream, uint32_t number,
                    int64_t utc_ns, int64_t *ret, ea_err *err) {
    ec_instances_answer answer;
    *ret = 0;
    int rc = ec_instances_space(i, kind, host, stream, utc_ns, &answer, err);
    ec_address_space *p = answer.space;
    if (rc || !p)
        return rc;
    if (kind == EC_INSTANCE_PROCESS) {
        uint32_t at = ec_address_space_process(p, number, utc_ns);
        *ret = ec_address_space_process_begin(p, at) <= utc_ns ? ec_address_space_process_key(p, at) : 0;
    } else {
        uint32_t at = ec_address_space_thread(p, number, utc_ns);
        *ret = ec_address_space_thread_begin(p, at) <= utc_ns ? ec_address_space_thread_key(p, at) : 0;
    }
    return 0;
}
