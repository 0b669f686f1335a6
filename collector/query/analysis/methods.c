/* See methods.h. */
#include "collector/query/analysis/methods.h"

#include "collector/query/analysis/script_names.h"
#include "collector/query/scan/event_cursor.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/provider_guids.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Fields of a plan: of methods of .NET, of functions of JavaScript, and of scripts. */
enum { START, SIZE, NAMESPACE, NAME, SIGNATURE };

enum { CONTEXT = NAMESPACE, SOURCE = SIGNATURE, LINE, COLUMN, URL = NAME };

enum { TEXT_BYTES = 512 << 20 };

enum { ID_FUNCTION_LOAD = 4, ID_FUNCTION_UNLOAD = 5, ID_FUNCTION_NAMED = 6 }; /* of Etwagent-Announce */

enum { ID_LOAD = 143, ID_END = 144, ID_OLD_START = 139, ID_OLD_STOP = 140 };

enum {
    ID_JS_START = 5,
    ID_JS_STOP = 6,
    ID_JS_LOAD = 9,
    ID_JS_UNLOAD = 10,
    ID_SOURCE_START = 39,
    ID_SOURCE_STOP = 40,
    ID_SOURCE_LOAD = 41
};

static const ea_guid RUNTIME = EA_PROVIDER_DOTNET_RUNTIME;
static const ea_guid RUNDOWN = EA_PROVIDER_DOTNET_RUNDOWN;
/* Microsoft-JScript, and V8.js */
static const ea_guid JSCRIPT = EA_PROVIDER_JSCRIPT;
static const ea_guid ANNOUNCE = EA_PROVIDER_ANNOUNCE;

/* A function whose script is not known yet: engines may log a script after its functions. */
typedef struct nameless {
    size_t item;
    ec_script_place place;
} nameless;

/* When an address of a process may become another method's. */
typedef struct change {
    uint32_t pid;
    int64_t utc_ns;
} change;

struct ec_methods {
    ec_method *items; /* by pid, start, begin, end */
    size_t count, capacity;
    change *changes; /* by pid, time */
    size_t change_count;
    ea_u64_map last; /* pid and start -> number of the last method there, from 1 */
    uint64_t *reach; /* of each item: how far it and those of its process before it go */
    ec_script_names *scripts;
    nameless *nameless;
    size_t nameless_count, nameless_capacity;
    ea_arena arena;
    ea_text text;
    const uint32_t *pid;
    uint64_t left_out;
};

/* What an event says. */
enum method_event { NOTHING, LOADS, UNLOADS, NAMES /* it may have been there since ever */, NAMES_SCRIPT };

static enum method_event method_event_of(const ea_class *c) {
    int runtime = ea_guid_equal(&c->provider, &RUNTIME);
    if (c->classic || c->status == EA_CLASS_UNKNOWN)
        return NOTHING;
    if (runtime || ea_guid_equal(&c->provider, &RUNDOWN)) {
        if (c->code == ID_LOAD || c->code == ID_END)
            return !runtime ? NAMES : c->code == ID_LOAD ? LOADS : UNLOADS;
        return runtime && (c->code == ID_OLD_START || c->code == ID_OLD_STOP) ? NAMES : NOTHING;
    }
    if (ea_guid_equal(&c->provider, &ANNOUNCE))
        return c->code == ID_FUNCTION_LOAD     ? LOADS
               : c->code == ID_FUNCTION_UNLOAD ? UNLOADS
               : c->code == ID_FUNCTION_NAMED  ? NAMES
                                               : NOTHING;
    if (!ea_guid_equal(&c->provider, &JSCRIPT))
        return NOTHING;
    switch (c->code) {
    case ID_JS_LOAD:
        return LOADS;
    case ID_JS_UNLOAD:
        return UNLOADS;
    case ID_JS_START:
    case ID_JS_STOP:
        return NAMES;
    case ID_SOURCE_LOAD:
    case ID_SOURCE_START:
    case ID_SOURCE_STOP:
        return NAMES_SCRIPT;
    default:
        return NOTHING;
    }
}

static const ec_event_cursor_plan *plan_of(void *arg, const ea_class *c) {
    static const char *const MANAGED[EC_EVENT_CURSOR_FIELDS] = {"MethodStartAddress", "MethodSize", "MethodNamespace",
                                                                "MethodName", "MethodSignature"};
    static const char *const SCRIPTED[EC_EVENT_CURSOR_FIELDS] = {
        "MethodStartAddress", "MethodSize", "ScriptContextID", "MethodName", "SourceID", "Line", "Column"};
    static const char *const ANNOUNCED[EC_EVENT_CURSOR_FIELDS] = {[START] = "MethodStartAddress",
                                                                  [SIZE] = "MethodSize",
                                                                  [NAME] = "MethodName",
                                                                  [LINE] = "Line",
                                                                  [SIGNATURE] = "Url"};
    static const char *const SCRIPT[EC_EVENT_CURSOR_FIELDS] = {
        [CONTEXT] = "ScriptContextID", [SOURCE] = "SourceID", [URL] = "Url"};
    ec_methods *m = arg;
    enum method_event says = method_event_of(c);
    if (says == NOTHING)
        return NULL;
    const char *const *names = says == NAMES_SCRIPT                     ? SCRIPT
                               : ea_guid_equal(&c->provider, &JSCRIPT)  ? SCRIPTED
                               : ea_guid_equal(&c->provider, &ANNOUNCE) ? ANNOUNCED
                                                                        : MANAGED;
    ec_event_cursor_plan *p = ea_arena_alloc(&m->arena, sizeof *p);
    if (!p)
        return &EC_EVENT_CURSOR_NO_MEMORY;
    *p = (ec_event_cursor_plan){.addresses = -1};
    for (size_t k = 0; k < EC_EVENT_CURSOR_FIELDS; k++) {
        p->fields[k] = -1;
        for (size_t i = 0; names[k] && i < ea_class_top_count(c); i++) {
            const ea_field *f = &c->fields[ea_class_top_field(c, i)];
            if (strcmp(f->name, names[k]) == 0 && f->count_field < 0 && f->count == 1 &&
                (f->type == EA_UTF16Z || (f->width && f->width <= 8)))
                p->fields[k] = (int16_t)i;
        }
    }
    return p;
}

/* Appends UTF-16 without its NUL to the text. */
static void methods_add_text(ec_methods *m, ea_slice s) {
    while (s.len_bytes >= 2 && !ea_load16(s.data + s.len_bytes - 2))
        s.len_bytes -= 2;
    ea_text_utf16(&m->text, s.data, s.len_bytes);
}

static const char *methods_keep(ec_methods *m) {
    return m->text.failed ? NULL : ea_arena_strdup(&m->arena, m->text.data ? m->text.data : "");
}

/* Room for one more; NULL: no memory. */
static ec_method *methods_next(ec_methods *m) {
    return EA_GROW(m->items, m->capacity, m->count + 1, SIZE_MAX) ? NULL : &m->items[m->count];
}

static uint64_t methods_key_of(uint32_t pid, uint64_t start) {
    uint64_t both[2] = {pid, start};
    return ea_hash64(both, sizeof both, 0);
}

static const char *methods_text(ec_methods *m, ea_slice s) {
    ea_text_clear(&m->text);
    methods_add_text(m, s);
    return m->text.failed || !m->text.data ? "" : m->text.data;
}

/* Notes the address of a script. */
static int methods_add_script(ec_methods *m, const ec_event_cursor *t, const ec_event_cursor_event *e) {
    uint64_t source;
    if ((m->pid && *m->pid != e->pid) || !ec_event_cursor_u64(t, e, SOURCE, &source) || !source)
        return 0;
    const char *url = methods_text(m, ec_event_cursor_bytes(t, e, URL));
    int rc = ec_script_names_add(m->scripts, e->pid, ec_event_cursor_u64_or_0(t, e, CONTEXT), source, url);
    m->left_out += rc == EA_ELIMIT;
    return rc == EA_ELIMIT ? 0 : rc;
}

/* Name and signature of a method of .NET. */
static void name_managed(ec_methods *m, const ec_event_cursor *t, const ec_event_cursor_event *e, ec_method *own) {
    ea_text_clear(&m->text);
    methods_add_text(m, ec_event_cursor_bytes(t, e, NAMESPACE));
    if (m->text.len_bytes)
        ea_text_char(&m->text, '.');
    methods_add_text(m, ec_event_cursor_bytes(t, e, NAME));
    own->name = methods_keep(m);
    ea_text_clear(&m->text);
    methods_add_text(m, ec_event_cursor_bytes(t, e, SIGNATURE));
    own->signature = methods_keep(m);
}

/* The name of a function of JavaScript, whose name in the engine is its signature. */
static void name_scripted(ec_methods *m, const ec_script_place *place, ec_method *own) {
    ea_text_clear(&m->text);
    ec_script_name(&m->text, own->signature, ec_script_names_url(m->scripts, place), place);
    own->name = methods_keep(m);
}

static int methods_add_function(ec_methods *m, const ec_event_cursor *t, const ec_event_cursor_event *e,
                                ec_method *own) {
    const ec_script_place place = {.pid = e->pid,
                                   .context = ec_event_cursor_u64_or_0(t, e, CONTEXT),
                                   .source = ec_event_cursor_u64_or_0(t, e, SOURCE),
                                   .line = (uint32_t)ec_event_cursor_u64_or_0(t, e, LINE),
                                   .column = (uint32_t)ec_event_cursor_u64_or_0(t, e, COLUMN)};
    ea_slice logged = ec_event_cursor_bytes(t, e, NAME);
    own->signature = logged.len_bytes ? ea_arena_strdup(&m->arena, methods_text(m, logged)) : NULL;
    if (!own->signature)
        return 0;
    name_scripted(m, &place, own);
    if (!own->name || !place.source || ec_script_names_url(m->scripts, &place))
        return 0;
    if (EA_GROW(m->nameless, m->nameless_capacity, m->nameless_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    m->nameless[m->nameless_count++] = (nameless){m->count, place};
    return 0;
}

/* The name of a function that its program announced, and where its source is: "file:line". */
static void name_announced(ec_methods *m, const ec_event_cursor *t, const ec_event_cursor_event *e, ec_method *own) {
    uint64_t line = ec_event_cursor_u64_or_0(t, e, LINE);
    ea_text_clear(&m->text);
    methods_add_text(m, ec_event_cursor_bytes(t, e, NAME));
    own->name = methods_keep(m);
    ea_text_clear(&m->text);
    methods_add_text(m, ec_event_cursor_bytes(t, e, SIGNATURE));
    if (m->text.len_bytes && line)
        ea_text_printf(&m->text, ":%" PRIu64, line);
    own->signature = methods_keep(m);
}

static int methods_add(ec_methods *m, const ec_event_cursor *t, const ec_event_cursor_event *e) {
    enum method_event says = method_event_of(e->c);
    int unload = says == UNLOADS, load = says == LOADS, rc = 0;
    int64_t utc_ns = ec_event_cursor_utc_ns(e);
    uint64_t start, size_bytes;
    if (says == NAMES_SCRIPT)
        return methods_add_script(m, t, e);
    if ((m->pid && *m->pid != e->pid) || !ec_event_cursor_u64(t, e, START, &start) ||
        !ec_event_cursor_u64(t, e, SIZE, &size_bytes) || !size_bytes || start + size_bytes < start)
        return 0;
    uint64_t key = methods_key_of(e->pid, start), *last = ea_u64_map_get(&m->last, key);
    ec_method *before = last ? &m->items[*last - 1] : NULL;
    if (before && before->end_utc_ns == INT64_MAX) {
        if (!unload && !load)
            return 0; /* a rundown names what is known */
        before->end_utc_ns = utc_ns;
    }
    if (unload && before)
        return 0;
    if (m->count == EC_METHODS_MAX) {
        m->left_out++;
        return 0;
    }
    int64_t since = load ? utc_ns : before ? before->end_utc_ns : INT64_MIN;
    ec_method *own = methods_next(m);
    if (!own)
        return EA_ENOMEM;
    *own = (ec_method){.pid = e->pid,
                       .start = start,
                       .size_bytes = size_bytes,
                       .begin_utc_ns = since,
                       .end_utc_ns = unload ? utc_ns : INT64_MAX};
    if (ea_guid_equal(&e->c->provider, &JSCRIPT))
        rc = methods_add_function(m, t, e, own);
    else if (ea_guid_equal(&e->c->provider, &ANNOUNCE))
        name_announced(m, t, e, own);
    else
        name_managed(m, t, e, own);
    if (rc)
        return rc;
    if (!own->name || !own->signature) {
        m->left_out++; /* no room for their names, or the event is cut */
        return 0;
    }
    return ea_u64_map_put(&m->last, key, ++m->count);
}

/* Functions whose scripts were logged later. */
static void name_late(ec_methods *m) {
    for (size_t i = 0; i < m->nameless_count; i++) {
        const nameless *n = &m->nameless[i];
        ec_method *own = n->item < m->count ? &m->items[n->item] : NULL;
        const char *before = own ? own->name : NULL;
        if (!own || !ec_script_names_url(m->scripts, &n->place))
            continue;
        name_scripted(m, &n->place, own);
        if (!own->name) {
            own->name = before;
            m->left_out++;
        }
    }
}

static int methods_by_place(const void *a, const void *b) {
    const ec_method *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->begin_utc_ns != y->begin_utc_ns)
        return x->begin_utc_ns < y->begin_utc_ns ? -1 : 1;
    return (x->end_utc_ns > y->end_utc_ns) - (x->end_utc_ns < y->end_utc_ns);
}

static int by_time(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->utc_ns > y->utc_ns) - (x->utc_ns < y->utc_ns);
}

static int find_reach(ec_methods *m) {
    m->reach = malloc((m->count + 1) * sizeof *m->reach);
    if (!m->reach)
        return EA_ENOMEM;
    for (size_t i = 0; i < m->count; i++) {
        const ec_method *at = &m->items[i];
        uint64_t end = at->start + at->size_bytes, before = i && at[-1].pid == at->pid ? m->reach[i - 1] : 0;
        m->reach[i] = end > before ? end : before;
    }
    return 0;
}

/* Ends of methods, and beginnings of those that share addresses with another one. */
static int find_changes(ec_methods *m) {
    uint64_t reach = 0; /* how far the methods of the process went until now */
    m->changes = malloc((2 * m->count + 1) * sizeof *m->changes);
    if (!m->changes || find_reach(m))
        return EA_ENOMEM;
    for (size_t i = 0; i < m->count; i++) {
        const ec_method *at = &m->items[i], *following = i + 1 < m->count ? at + 1 : NULL;
        if (i == 0 || at[-1].pid != at->pid)
            reach = 0;
        int is_shared = at->start < reach ||
                        (following && following->pid == at->pid && following->start < at->start + at->size_bytes);
        if (at->start + at->size_bytes > reach)
            reach = at->start + at->size_bytes;
        if (is_shared && at->begin_utc_ns != INT64_MIN)
            m->changes[m->change_count++] = (change){at->pid, at->begin_utc_ns};
        if (at->end_utc_ns != INT64_MAX)
            m->changes[m->change_count++] = (change){at->pid, at->end_utc_ns};
    }
    if (m->change_count)
        qsort(m->changes, m->change_count, sizeof *m->changes, by_time);
    return 0;
}

/* Reads the methods that a stream's events name. */
static int read_methods(ec_methods *m, ec_archive *archive, const ec_archive_stream *stream, ea_err *err) {
    ec_event_cursor *cursor = NULL;
    ec_event_cursor_event e;
    const ec_event_cursor_options options = {
        .stream = stream, .from_utc_ns = INT64_MIN, .to_utc_ns = INT64_MAX, .plan = plan_of, .arg = m};
    int rc = ec_event_cursor_open(&cursor, archive, &options, err);
    while (!rc && (rc = ec_event_cursor_next(cursor, &e, err)) == 1) {
        rc = methods_add(m, cursor, &e);
        if (rc)
            ea_fail(err, rc, "read methods");
    }
    ec_event_cursor_close(cursor);
    return rc;
}

static int methods_is_of_run(const ec_archive_stream *a, const ec_archive_stream *b) {
    return strcmp(a->row.host, b->row.host) == 0 && memcmp(a->row.stream, b->row.stream, EA_STREAM_RUN_BYTES) == 0;
}

/* A session without methods has those of the first other session of its run that has any. */
static int read_methods_of_run(ec_methods *m, ec_archive *archive, const ec_archive_stream *stream, ea_err *err) {
    const ec_archive_stream *all = NULL;
    size_t count = 0;
    int rc = read_methods(m, archive, stream, err);
    if (!rc && !m->count)
        rc = ec_archive_streams(archive, &all, &count, err);
    for (size_t i = 0; !rc && !m->count && i < count; i++)
        if (all[i].row.stream_id != stream->row.stream_id && methods_is_of_run(&all[i], stream))
            rc = read_methods(m, archive, &all[i], err);
    return rc;
}

int ec_methods_open(ec_methods **ret, ec_archive *archive, const ec_archive_stream *stream, const uint32_t *pid,
                    uint64_t *ret_left_out, ea_err *err) {
    ec_methods *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "read methods");
    ea_u64_map_init(&m->last, 0);
    ea_arena_init(&m->arena, TEXT_BYTES);
    ea_text_init(&m->text);
    m->pid = pid;
    int rc = ec_script_names_create(&m->scripts, err);
    if (!rc)
        rc = read_methods_of_run(m, archive, stream, err);
    ea_u64_map_clear(&m->last);
    m->pid = NULL;
    name_late(m);
    ec_script_names_destroy(m->scripts);
    m->scripts = NULL;
    free(m->nameless);
    m->nameless = NULL;
    if (rc) {
        ec_methods_close(m);
        return rc;
    }
    if (m->count)
        qsort(m->items, m->count, sizeof *m->items, methods_by_place);
    if (find_changes(m)) {
        ec_methods_close(m);
        return ea_fail(err, EA_ENOMEM, "read methods");
    }
    if (ret_left_out)
        *ret_left_out = m->left_out;
    *ret = m;
    return 0;
}

void ec_methods_close(ec_methods *m) {
    if (!m)
        return;
    free(m->items);
    free(m->changes);
    free(m->reach);
    free(m->nameless);
    ec_script_names_destroy(m->scripts);
    ea_u64_map_deinit(&m->last);
    ea_arena_deinit(&m->arena);
    ea_text_deinit(&m->text);
    free(m);
}

/* How many methods are before a place: of an earlier process, address or beginning. */
static size_t methods_before(const ec_methods *m, uint32_t pid, uint64_t start, int64_t begin_utc_ns) {
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const ec_method *at = &m->items[middle];
        if (at->pid != pid ? at->pid < pid : at->start != start ? at->start < start : at->begin_utc_ns < begin_utc_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first one at the address of the method before number; those of one address are beside each other. */
static size_t methods_first_at(const ec_methods *m, size_t number) {
    const ec_method *last = &m->items[number - 1];
    int is_alone = number < 2 || last[-1].pid != last->pid || last[-1].start != last->start;
    return is_alone ? number - 1 : methods_before(m, last->pid, last->start, INT64_MIN);
}

const ec_method *ec_methods_find(const ec_methods *m, uint32_t pid, uint64_t address, int64_t utc_ns) {
    enum { BACK_MAX = 256 }; /* addresses of methods before it that may still cover it */

    /* V8 does not log the end of code: of the methods that cover the address, the last loaded one counts. */
    const ec_method *found = NULL;
    for (size_t back = 0, number = methods_before(m, pid, address, INT64_MAX); back < BACK_MAX && number > 0; back++) {
        const ec_method *last = &m->items[number - 1];
        if (last->pid != pid || m->reach[number - 1] <= address)
            break;
        size_t first = methods_first_at(m, number);
        if (last->begin_utc_ns > utc_ns)
            number = methods_before(m, pid, last->start, utc_ns + 1);
        /* each ended when the next one at its address began: only the last that began may be there */
        const ec_method *at = number > first ? &m->items[number - 1] : NULL;
        if (at && address - at->start < at->size_bytes && utc_ns < at->end_utc_ns &&
            (!found || at->begin_utc_ns > found->begin_utc_ns))
            found = at;
        number = first;
    }
    return found;
}

uint32_t ec_methods_epoch(const ec_methods *m, uint32_t pid, int64_t utc_ns) {
    size_t low = 0, high = m->change_count; /* the first change after it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const change *at = &m->changes[middle];
        if (at->pid < pid || (at->pid == pid && at->utc_ns <= utc_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}
