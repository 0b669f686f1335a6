/* What "etwagent relog" adds to what it reads: modules of a list, ids of image files, events of one's own. See
 * relog_job.h. */
#include "proto/base/platform.h"
#include "proto/base/provider_guids.h"
#include "proto/base/stop_flag.h"
#include "proto/relog/announced_records.h"
#include "proto/relog/module_records.h"
#include "proto/relog/schema_records.h"
#include "service/app/relog_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const ea_guid IMAGE_PROVIDER = EA_PROVIDER_IMAGE, IMAGE_ID_PROVIDER = EA_PROVIDER_IMAGE_ID;

enum { LIST_MAX_BYTES = 1 << 28 };

/* Windows 8.1 and later log Image events of version 3. */
static uint8_t image_version(const relog_job *j) {
    enum { WINDOWS_8_1 = 9600 };

    return j->os_build < WINDOWS_8_1 ? 2 : 3;
}

static ea_module_place module_place(const relog_job *j, enum ea_module_verb verb, int64_t time_raw) {
    return (ea_module_place){.verb = verb,
                             .time_raw = time_raw,
                             .tid = UINT32_MAX,
                             .version = image_version(j),
                             .pointer_size = j->pointer_size};
}

/* A moment of a list: ticks, or as --from takes it. file and line: where it is, for messages; line 0: nowhere. */
static int inject_time(relog_job *j, const ea_relog *relog, const char *file, size_t line, const char *text,
                       int64_t *ret_raw) {
    const char *end = text;
    uint64_t ticks;
    int64_t utc_ns;
    ea_time_reference reference = {
        .now_utc_ns = ea_utc_ns(), .begin_utc_ns = j->begin_utc_ns, .end_utc_ns = j->end_utc_ns, .has_data = 1};
    if (ea_digits_parse(&end, 10, &ticks) && !*end && ticks <= INT64_MAX) {
        *ret_raw = (int64_t)ticks;
        return 0;
    }
    if (ea_time_parse(text, &reference, &utc_ns) && line)
        return ea_fail(&j->err, EA_EUSAGE,
                       "%s, line %zu: %.100s: expected ticks of the trace, or " EA_TIME_FORMS_OF_DATA, file, line,
                       text);
    if (ea_time_parse(text, &reference, &utc_ns))
        return ea_fail(&j->err, EA_EUSAGE, "--mark %.100s: expected ticks of the trace, or " EA_TIME_FORMS_OF_DATA,
                       text);
    *ret_raw = ea_relog_raw(relog, utc_ns);
    return 0;
}

static int by_moment(const void *a, const void *b) {
    const relog_moment *x = a, *y = b;
    if (x->time_raw != y->time_raw)
        return x->time_raw < y->time_raw ? -1 : 1;
    if ((x->verb == RELOG_OWN_EVENT) != (y->verb == RELOG_OWN_EVENT)) /* a module first */
        return x->verb == RELOG_OWN_EVENT ? 1 : -1;
    return (x->item > y->item) - (x->item < y->item);
}

static int add_modules(relog_job *j, const ea_relog *relog, const ea_listed_module *items, size_t count) {
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        relog_moment m = {.time_raw = j->clock.base_raw, .item = (uint32_t)i, .verb = EA_MODULE_DC_START};
        if (items[i].load) {
            m.verb = EA_MODULE_LOAD;
            rc = inject_time(j, relog, j->o->modules, items[i].line, items[i].load, &m.time_raw);
        }
        j->moments[j->moment_count++] = m;
        if (rc || !items[i].unload)
            continue;
        relog_moment gone = {.item = (uint32_t)i, .verb = EA_MODULE_UNLOAD};
        rc = inject_time(j, relog, j->o->modules, items[i].line, items[i].unload, &gone.time_raw);
        if (!rc && gone.time_raw < m.time_raw)
            rc = ea_fail(&j->err, EA_EUSAGE, "%s, line %zu: it is unloaded before it is loaded", j->o->modules,
                         items[i].line);
        j->moments[j->moment_count++] = gone;
    }
    return rc;
}

/* At the first event: the inputs' times are known. */
static int make_moments(relog_job *j, const ea_relog *relog) {
    size_t module_count = 0, own_count = 0;
    const ea_listed_module *modules = j->modules ? ea_module_list_items(j->modules, &module_count) : NULL;
    const ea_own_event *own = j->own ? ea_own_events_items(j->own, &own_count) : NULL;
    j->moments = calloc(2 * module_count + own_count + 1, sizeof *j->moments);
    int rc = j->moments ? add_modules(j, relog, modules, module_count) : ea_fail(&j->err, EA_ENOMEM, "relog");
    for (size_t i = 0; !rc && i < own_count; i++) {
        relog_moment m = {.item = (uint32_t)i, .verb = RELOG_OWN_EVENT};
        rc = inject_time(j, relog, j->o->events, own[i].line, own[i].time, &m.time_raw);
        j->moments[j->moment_count++] = m;
    }
    if (!rc && j->moment_count)
        qsort(j->moments, j->moment_count, sizeof *j->moments, by_moment);
    return rc;
}

static int inject_own(relog_job *j, const relog_moment *m) {
    size_t count;
    ea_record r = ea_own_events_items(j->own, &count)[m->item].record;
    r.time_raw = m->time_raw;
    r.pointer_size = j->pointer_size;
    r.flags |= r.pointer_size == 4 ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
    r.header_type = r.pointer_size == 4 ? EA_HEADER_EVENT32 : EA_HEADER_EVENT64;
    j->injects_own = 1;
    int rc = j->take_injected(j, &r);
    j->injects_own = 0;
    return rc;
}

static int inject_module(relog_job *j, const relog_moment *m) {
    size_t count;
    const ea_module_place place = module_place(j, (enum ea_module_verb)m->verb, m->time_raw);
    int rc =
        ea_module_records(&ea_module_list_items(j->modules, &count)[m->item].m, &place, j->take_injected, j, &j->err);
    j->injected += !rc;
    return rc;
}

/* Writes what happens up to a time. */
static int inject_until(relog_job *j, const ea_relog *relog, int64_t to_raw) {
    int rc = j->moments ? 0 : make_moments(j, relog);
    for (; !rc && j->moment_next < j->moment_count; j->moment_next++) {
        const relog_moment *m = &j->moments[j->moment_next];
        if (m->time_raw > to_raw)
            break;
        rc = m->verb == RELOG_OWN_EVENT ? inject_own(j, m) : inject_module(j, m);
    }
    return rc;
}

/* Requests to a symbol server take their time. */
static void show_requests(relog_job *j) {
    int has_server;
    const ea_image_server_counts c = ea_image_sources_count(j->images, &has_server);
    if (c.asked != j->asked_shown)
        fprintf(stderr, "\rsymbol server: asked for %" PRIu64 " images ", c.asked);
    j->asked_shown = c.asked;
}

/* Writes what a module's file says of itself, once. */
static int inject_version(relog_job *j, const ea_module *m, const ea_image_fact *fact, const ea_module_place *place) {
    const ea_module_version version = {fact->version, fact->company, fact->product, fact->description};
    uint64_t about[2] = {m->size_bytes, m->timestamp};
    uint64_t key = ea_hash64(m->original_name, strlen(m->original_name), ea_hash64(about, sizeof about, 0));
    if (!*fact->version || m->size_bytes > UINT32_MAX || ea_u64_map_get(&j->versions, key))
        return 0;
    if (ea_u64_map_put(&j->versions, key, 1))
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    return ea_module_file_version(m, &version, place, j->take_injected, j, &j->err);
}

/* Writes the ids of an Image event that has none, immediately before it. */
static int relog_inject_add_ids(relog_job *j, const ea_record *r, const ea_class *c) {
    uint64_t base = 0, size = 0, pid = 0, timestamp = 0;
    int is_id = ea_guid_equal(&r->provider, &IMAGE_ID_PROVIDER);
    if (is_id && ea_event_u64(c, r, "ImageBase", &base)) {
        j->id_raw = r->time_raw;
        j->id_base = base;
    }
    if (is_id || !ea_guid_equal(&r->provider, &IMAGE_PROVIDER) ||
        !((r->opcode >= EA_MODULE_UNLOAD && r->opcode <= EA_MODULE_DC_END) || r->opcode == EA_MODULE_LOAD))
        return 0;
    ea_text_clear(&j->path);
    if (!ea_event_u64(c, r, "ImageBase", &base) || !ea_event_u64(c, r, "ImageSize", &size) ||
        !ea_event_u64(c, r, "ProcessId", &pid) || !ea_event_text(c, r, "FileName", &j->path) ||
        (j->id_raw == r->time_raw && j->id_base == base))
        return 0;
    (void)ea_event_u64(c, r, "TimeDateStamp", &timestamp);
    ea_image_fact fact;
    int is_found, rc = ea_image_sources_find(j->images, j->path.data ? j->path.data : "", j->path.len_bytes, size,
                                             (uint32_t)timestamp, &fact, &is_found, &j->err);
    if (rc)
        return rc;
    if (j->shows_progress)
        show_requests(j);
    if (!is_found) {
        j->ids_missing++;
        return 0;
    }
    const ea_module m = {.pid = (uint32_t)pid,
                         .base = base,
                         .size_bytes = size,
                         .timestamp = fact.timestamp,
                         .path = "",
                         .has_pdb = fact.has_pdb,
                         .pdb_guid = fact.pdb_guid,
                         .pdb_age = fact.pdb_age,
                         .pdb_path = fact.pdb_path,
                         .original_name = fact.original_name};
    ea_module_place place = module_place(j, (enum ea_module_verb)r->opcode, r->time_raw);
    place.cpu = r->cpu;
    place.logger = r->logger;
    place.tid = r->tid;
    place.pointer_size = r->pointer_size;
    j->ids_added++;
    rc = inject_version(j, &m, &fact, &place);
    return rc ? rc : ea_module_ids(&m, &place, j->take_injected, j, &j->err);
}

int ea_relog_inject(relog_job *j, const ea_relog *relog, const ea_record *r) {
    int rc = j->adds_moments ? inject_until(j, relog, r->time_raw) : 0;
    return !rc && j->images ? relog_inject_add_ids(j, r, ea_registry_find(j->registry, r)) : rc;
}

int ea_relog_inject_announced(relog_job *j, const ea_record *r) {
    if (!ea_is_announced_module(r))
        return 0;
    int rc = ea_announced_records(r, image_version(j), j->pointer_size, j->take_injected, j, &j->err);
    if (rc == EA_ENOTFOUND) {
        j->announced_left++;
        return 0;
    }
    j->announced += !rc;
    return rc ? rc : 1;
}

/* What a class is known by in j->described, of one part. */
static uint64_t described_key(const relog_part *part, const uint8_t *provider, uint16_t code, uint8_t version) {
    uint64_t about[4] = {0, 0, (uint64_t)code << 8 | version, part ? part->output : 0};
    memcpy(about, provider, sizeof(ea_guid));
    return ea_hash64(about, sizeof about, 0);
}

/* The key of the class that a record of the trace itself describes; 0: it describes none. */
static uint64_t key_of_description(const relog_part *part, const ea_record *r) {
    enum { INFO_OPCODE = 32, ID_AT = 32, VERSION_AT = 34 }; /* of TRACE_EVENT_INFO; the provider is at 0 */

    static const ea_guid META_DATA = EA_PROVIDER_META_DATA;
    if (r->opcode != INFO_OPCODE || !ea_guid_equal(&r->provider, &META_DATA) || r->payload_bytes <= VERSION_AT)
        return 0;
    return described_key(part, r->payload, ea_load16(r->payload + ID_AT), r->payload[VERSION_AT]);
}

int ea_relog_inject_schema(relog_job *j, relog_part *part, const ea_record *r, const ea_class *c,
                           int (*write)(void *arg, const ea_record *record), void *arg) {
    int written = 0;
    uint64_t key = part ? key_of_description(part, r) : 0;
    if (key)
        return ea_u64_map_put(&j->described, key, 1) ? ea_fail(&j->err, EA_ENOMEM, "relog") : 0;
    if (c->classic || c->status != EA_CLASS_KNOWN || r->flags & EA_FLAG_TRACE_MESSAGE ||
        ea_record_ext(r, EA_EXT_SCHEMA_TL))
        return 0;
    key = described_key(part, c->provider.bytes, c->code, c->version);
    if (ea_u64_map_get(&j->described, key))
        return 0;
    if (!part && ea_schemas_has(j->schemas, EA_SCHEMA_TRACE, &c->provider, c->code, c->version, 0))
        return 0; /* the trace describes it, and all cuts but bare ones keep that */
    if (ea_u64_map_put(&j->described, key, 1))
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    int rc = ea_schema_records(c, r, write, arg, &written, &j->err);
    j->schemas_added += !rc && written;
    j->schemas_missing += !rc && !written;
    return rc;
}

void ea_relog_rewind_injected(relog_job *j) {
    j->moment_next = 0;
    j->injected = j->ids_added = j->ids_missing = j->announced = j->announced_left = 0;
    ea_u64_map_clear(&j->versions);
    j->id_raw = 0;
    j->id_base = 0;
}

int ea_relog_inject_rest(relog_job *j, const ea_relog *relog) {
    return inject_until(j, relog, INT64_MAX);
}

/* ---- lists ---- */

static int inject_open_modules(relog_job *j) {
    char *text = NULL;
    size_t len_bytes;
    int rc = ea_path_read_all(j->o->modules, LIST_MAX_BYTES, &text, &len_bytes, &j->err);
    if (!rc)
        rc = ea_module_list_read(&j->modules, j->o->modules, text, len_bytes, &j->err);
    free(text);
    return rc;
}

static int inject_open_events(relog_job *j) {
    char *text = NULL;
    size_t len_bytes;
    int rc = ea_path_read_all(j->o->events, LIST_MAX_BYTES, &text, &len_bytes, &j->err);
    if (!rc)
        rc = ea_own_events_read(j->own, j->o->events, text, len_bytes, &j->err);
    free(text);
    return rc;
}

/* TIME=TEXT */
static int inject_add_mark(relog_job *j, const char *word) {
    char time[128];
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : 0;
    if (!n || n >= sizeof time)
        return ea_fail(&j->err, EA_EUSAGE, "--mark %.100s: expected TIME=TEXT", word);
    memcpy(time, word, n);
    time[n] = 0;
    return ea_own_events_mark(j->own, time, equals + 1, &j->err);
}

int ea_relog_open_injected(relog_job *j) {
    const relog_options *o = j->o;
    int has_own = o->events || o->marks.count, rc = 0;
    j->adds_moments = o->modules || has_own;
    if (o->modules)
        rc = inject_open_modules(j);
    if (!rc && o->image_ids.count)
        rc = ea_image_sources_open(&j->images,
                                   &(ea_image_sources_options){.words = o->image_ids.items,
                                                               .count = o->image_ids.count,
                                                               .cache = o->image_cache,
                                                               .stop = ea_stop_flag()},
                                   &j->err);
    if (!rc && has_own)
        rc = ea_own_events_create(&j->own, 0, &j->err);
    if (!rc && o->events)
        rc = inject_open_events(j);
    for (size_t i = 0; !rc && i < o->marks.count; i++)
        rc = inject_add_mark(j, o->marks.items[i]);
    return rc;
}

void ea_relog_close_injected(relog_job *j) {
    free(j->moments);
    ea_module_list_destroy(j->modules);
    ea_own_events_destroy(j->own);
    ea_image_sources_close(j->images);
    ea_u64_map_deinit(&j->described);
    ea_u64_map_deinit(&j->versions);
    ea_text_deinit(&j->path);
}
