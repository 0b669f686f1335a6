/* See watch_results.h. */
#include "service/core/watch_results.h"

#include "proto/base/map.h"
#include "proto/lang/lang_where.h"
#include "service/core/watcher.h"

#include <stdlib.h>
#include <string.h>

/* etwagent-watch; ours */
static const ea_guid PROVIDER = EA_GUID(0x6f2d1a94, 0x3b7c, 0x4e55, 0xa1, 0x08, 0x9c, 0x52, 0xe7, 0x30, 0xbd, 0x46);

static const char PROVIDER_NAME[] = "etwagent-watch";

/* TraceLogging's types of fields (TraceLoggingProvider.h TlgIn_t, TlgOut_t). */
enum { IN_ANSI = 2, IN_I64 = 9, IN_U64 = 10, IN_F64 = 12, IN_FILETIME = 17, IN_HEX64 = 21, IN_U8 = 4 };

enum { CHAIN = 0x80, OUT_UTF8 = 35 };

enum {
    CHANNEL_TRACELOGGING = 11,
    LEVEL_INFORMATION = 4,
    COLUMN_NAME_MAX = EA_LANG_NAME_MAX_BYTES,
    PAYLOAD_MAX = 60000, /* a record has 65,535 bytes at the most */
    RUN_LIMIT_MIN = 4 << 20,
};

typedef struct program {
    ea_watches *owner;
    const ea_watch_config *c;
    ea_lang_program *program;
    ea_lang_run *run; /* the watcher's */
} program;

struct ea_watches {
    program *programs;
    size_t count;
    ea_registry *registry; /* of the compiler's classes */
    ea_watcher *watcher;
    int (*on_row)(void *arg, const ea_record *record);
    void *on_row_arg;
    void (*on_trigger)(void *arg, const char *program, const ea_lang_trigger *trigger, int64_t utc_ns,
                       int64_t row_utc_ns);
    void *on_trigger_arg;
    ea_text metadata, payload;
    uint8_t traits[2 + sizeof PROVIDER_NAME];
    ea_record last; /* the event at hand, without its payload */
    int64_t last_utc_ns;
    int has_ship;     /* a program calls ship() */
    uint64_t shipped; /* events that programs raised, each once */
};

/* ---- compiling ---- */

/* ship() raises the batch that the event at hand goes into. */
static int watch_check_ship(ea_watches *w, int has_recorder, ea_watch_problem *ret_problem, ea_err *err) {
    for (size_t i = 0; i < w->count; i++) {
        uint32_t line, column;
        if (!ea_lang_ships(w->programs[i].program, &line, &column))
            continue;
        w->has_ship = 1;
        *ret_problem = (ea_watch_problem){.program = i, .line = line, .column = column};
        if (has_recorder)
            return ea_fail(err, EA_EINVAL,
                           "line %u, column %u of the program: ship() is for events that travel, and a recorder keeps "
                           "these; trigger() sends some",
                           line, column);
        for (size_t k = 0; k < w->count; k++)
            if (ea_lang_needs_stacks(w->programs[k].program))
                return ea_fail(err, EA_EINVAL,
                               "line %u, column %u of the program: ship() is too late where program %s of the session "
                               "reads stacks: programs wait for those, and the event does not",
                               line, column, w->programs[k].c->name);
    }
    return 0;
}

static int watch_compile(ea_lang_classes *classes, program *p, int has_recorder, ea_watch_problem *ret_problem,
                         ea_err *err) {
    ea_lang_problem problem;
    const char *text = p->c->program;
    int rc = ea_lang_compile_text(&p->program, text, strlen(text), NULL, classes, &problem, err);
    if (rc && problem.line) {
        *ret_problem = (ea_watch_problem){.line = problem.line, .column = problem.column, .is_class = problem.is_class};
        return ea_fail(err, EA_EINVAL, "line %u, column %u of the program: %s", problem.line, problem.column,
                       problem.message);
    }
    if (rc)
        return rc;
    if (ea_lang_needs_names(p->program)) {
        *ret_problem = (ea_watch_problem){.line = 1, .column = 1};
        return ea_fail(err, EA_EINVAL,
                       "it uses names of file objects or registry keys, which the agent has only at a "
                       "trace's end");
    }
    const ea_lang_trigger *t = ea_lang_trigger_at(p->program, 0);
    if (t && !has_recorder) {
        *ret_problem = (ea_watch_problem){.line = t->line, .column = t->column};
        return ea_fail(err, EA_EINVAL,
                       "line %u, column %u of the program: a trigger sends a window of a recorder, and these events "
                       "have none (recorder: {size: 2GiB})",
                       t->line, t->column);
    }
    return 0;
}

/* The name of a table of results, after watch_. */
static void watch_put_table(ea_text *t, const program *p, const ea_lang_result *r) {
    ea_text_clear(t);
    ea_text_str(t, p->c->name);
    if (r->name_bytes) {
        ea_text_char(t, '_');
        ea_text_add(t, r->name, r->name_bytes);
    }
}

/* Results of two programs, or two of one, must not be one table. */
static int watch_check_tables(const ea_watches *w, ea_watch_problem *ret_problem, ea_err *err) {
    const program *last = &w->programs[w->count - 1];
    ea_lang_result mine, other;
    ea_text a, b;
    int rc = 0;
    ea_text_init(&a);
    ea_text_init(&b);
    for (size_t i = 0; !rc && ea_lang_result_at(last->program, i, &mine); i++) {
        watch_put_table(&a, last, &mine);
        for (const program *p = w->programs; !rc && p <= last; p++)
            for (size_t k = 0; !rc && ea_lang_result_at(p->program, k, &other) && (p < last || k < i); k++) {
                watch_put_table(&b, p, &other);
                if (a.failed || b.failed)
                    rc = ea_fail(err, EA_ENOMEM, "compile programs");
                else if (a.len_bytes == b.len_bytes && memcmp(a.data, b.data, a.len_bytes) == 0)
                    rc = ea_fail(err, EA_EINVAL, "the table watch_%.160s is that of %s%.*s of program %s, too", a.data,
                                 other.line ? "@" : "", (int)other.name_bytes, other.name, p->c->name);
            }
        if (rc)
            *ret_problem = (ea_watch_problem){.line = mine.line ? mine.line : 1, .column = mine.line ? mine.column : 1};
    }
    ea_text_deinit(&a);
    ea_text_deinit(&b);
    return rc;
}

int ea_watches_create(ea_watches **ret, const ea_tables *configs, int has_recorder, const ea_schemas *schemas,
                      ea_watch_problem *ret_problem, ea_err *err) {
    ea_watches *w = calloc(1, sizeof *w);
    const ea_watch_config *all = configs->items;
    if (w)
        w->programs = calloc(configs->count + 1, sizeof *w->programs);
    if (!w || !w->programs) {
        free(w);
        return ea_fail(err, EA_ENOMEM, "compile programs");
    }
    ea_text_init(&w->metadata);
    ea_text_init(&w->payload);
    ea_store16(w->traits, sizeof w->traits);
    memcpy(w->traits + 2, PROVIDER_NAME, sizeof PROVIDER_NAME);
    int rc = ea_registry_create(&w->registry, 0, err);
    ea_lang_classes classes = {.registry = w->registry, .schemas = schemas};
    for (size_t i = 0; i < configs->count && !rc; i++) {
        program *p = &w->programs[w->count++];
        p->owner = w;
        p->c = &all[i];
        rc = watch_compile(&classes, p, has_recorder, ret_problem, err);
        if (!rc)
            rc = watch_check_tables(w, ret_problem, err);
        if (rc)
            ret_problem->program = i;
    }
    ea_lang_classes_deinit(&classes);
    if (!rc)
        rc = watch_check_ship(w, has_recorder, ret_problem, err);
    if (rc) {
        ea_watches_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ea_watches_destroy(ea_watches *w) {
    if (!w)
        return;
    ea_watcher_destroy(w->watcher);
    for (size_t i = 0; i < w->count; i++)
        ea_lang_program_destroy(w->programs[i].program);
    ea_registry_destroy(w->registry);
    ea_text_deinit(&w->metadata);
    ea_text_deinit(&w->payload);
    free(w->programs);
    free(w);
}

uint64_t ea_watches_hash(const ea_watches *w) {
    uint64_t hash = 0;
    for (size_t i = 0; w && i < w->count; i++) {
        const ea_watch_config *c = w->programs[i].c;
        uint64_t numbers[] = {(uint64_t)c->events, c->keys, c->memory_bytes};
        hash = ea_hash64(c->name, strlen(c->name) + 1, hash + 1);
        hash = ea_hash64(c->program, strlen(c->program) + 1, hash);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            uint8_t bytes[8];
            ea_store64(bytes, numbers[k]);
            hash = ea_hash64(bytes, sizeof bytes, hash);
        }
    }
    return w && !hash ? 1 : hash;
}

/* ---- results ---- */

/* A key's text as a column's name: "ustack(3)" is ustack_3. */
static void watch_results_put_name(ea_text *t, const char *name) {
    size_t n = 0;
    int is_gap = 0;
    for (const char *s = name; *s && n < COLUMN_NAME_MAX; s++) {
        int is_plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_';
        if (is_plain && is_gap && n) {
            ea_text_char(t, '_');
            n++;
        }
        if (is_plain) {
            ea_text_char(t, *s);
            n++;
        }
        is_gap = !is_plain;
    }
    if (!n)
        ea_text_str(t, "key");
    ea_text_char(t, 0);
}

static void watch_results_put_field(ea_text *t, const char *name, unsigned in, unsigned out) {
    watch_results_put_name(t, name);
    ea_text_char(t, (char)(out ? in | CHAIN : in));
    if (out)
        ea_text_char(t, (char)out);
}

static void watch_results_describe(const program *p, const ea_lang_output *o, ea_text *t) {
    static const uint8_t INS[] = {
        [EA_LANG_COLUMN_I64] = IN_I64, [EA_LANG_COLUMN_U64] = IN_U64,   [EA_LANG_COLUMN_HEX] = IN_HEX64,
        [EA_LANG_COLUMN_F64] = IN_F64, [EA_LANG_COLUMN_TEXT] = IN_ANSI, [EA_LANG_COLUMN_STACK] = IN_ANSI};
    ea_text_clear(t);
    ea_text_add(t, "\0\0\0", 3); /* the size, which is known at the end; no tags */
    ea_text_printf(t, "watch_%s", p->c->name);
    if (o->name_bytes) {
        ea_text_char(t, '_');
        ea_text_add(t, o->name, o->name_bytes);
    }
    ea_text_char(t, 0);
    watch_results_put_field(t, "tick", IN_FILETIME, 0);
    if (o->is_aggregation)
        watch_results_put_field(t, "others", IN_U8, 0);
    for (size_t i = 0; i < o->column_count; i++) {
        const ea_lang_column *c = &o->columns[i];
        int is_text = c->kind == EA_LANG_COLUMN_TEXT || c->kind == EA_LANG_COLUMN_STACK;
        watch_results_put_field(t, c->name, INS[c->kind], is_text ? OUT_UTF8 : 0);
    }
    if (!t->failed)
        ea_store16((uint8_t *)t->data, (uint16_t)t->len_bytes);
}

/* The list of a stack's frames; the first ones, where it is too long. */
static void watch_results_put_frames(ea_text *t, const char *list, size_t len_bytes, size_t most_bytes) {
    static const char BETWEEN[] = "\",\""; /* a quote inside a frame has a backslash before it */
    size_t n = len_bytes;
    if (len_bytes > most_bytes)
        for (n = most_bytes - 1; n && memcmp(list + n - 1, BETWEEN, sizeof BETWEEN - 1) != 0; n--)
            ;
    ea_text_add(t, list, n);
    if (n < len_bytes)
        ea_text_str(t, n ? "]" : "[]");
}

static void watch_results_put_values(const ea_lang_output *o, ea_text *t) {
    size_t most = PAYLOAD_MAX / (o->column_count + 1);
    ea_text_clear(t);
    ea_text_le64(t, o->utc_ns ? (uint64_t)ea_utc_ns_to_filetime(o->utc_ns) : 0);
    if (o->is_aggregation)
        ea_text_char(t, (char)(o->is_others != 0));
    for (size_t i = 0; i < o->column_count; i++) {
        const ea_lang_column *c = &o->columns[i];
        size_t n = c->len_bytes < most ? c->len_bytes : most;
        if (c->kind == EA_LANG_COLUMN_TEXT) {
            const char *nul = n ? memchr(c->data, 0, n) : NULL;
            ea_text_add(t, c->data, nul ? (size_t)(nul - c->data) : n);
            ea_text_char(t, 0);
        } else if (c->kind == EA_LANG_COLUMN_STACK) {
            watch_results_put_frames(t, c->data, c->len_bytes, most);
            ea_text_char(t, 0);
        } else {
            ea_text_le64(t, c->bits);
        }
    }
}

static int watch_results_on_row(void *arg, const ea_lang_output *o) {
    const program *p = arg;
    ea_watches *w = p->owner;
    watch_results_describe(p, o, &w->metadata);
    watch_results_put_values(o, &w->payload);
    if (w->metadata.failed || w->payload.failed)
        return EA_ENOMEM;
    ea_ext ext[] = {{.type = EA_EXT_SCHEMA_TL,
                     .linkage = 1,
                     .size_bytes = (uint32_t)w->metadata.len_bytes,
                     .data = (const uint8_t *)w->metadata.data},
                    {.type = EA_EXT_PROV_TRAITS, .size_bytes = sizeof w->traits, .data = w->traits}};
    ea_record r = {.provider = PROVIDER,
                   .channel = CHANNEL_TRACELOGGING,
                   .level = LEVEL_INFORMATION,
                   .logger = w->last.logger,
                   .flags = EA_FLAG_EXTENDED_INFO | EA_FLAG_64_BIT_HEADER,
                   .pointer_size = 8,
                   .time_raw = w->last.time_raw,
                   .pid = UINT32_MAX,
                   .tid = UINT32_MAX,
                   .cpu = w->last.cpu,
                   .source = w->last.source,
                   .ext_count = 2,
                   .payload_bytes = (uint16_t)w->payload.len_bytes,
                   .ext = ext,
                   .payload = (const uint8_t *)w->payload.data,
                   .position = w->last.position};
    int rc = w->on_row(w->on_row_arg, &r);
    if (!rc && o->trigger && w->on_trigger)
        w->on_trigger(w->on_trigger_arg, p->c->name, o->trigger, o->utc_ns, w->last_utc_ns);
    return rc;
}

/* ---- triggers ---- */

int ea_watches_have_triggers(const ea_watches *w) {
    for (size_t i = 0; i < w->count; i++)
        if (ea_lang_trigger_at(w->programs[i].program, 0))
            return 1;
    return 0;
}

void ea_watches_on_trigger(ea_watches *w,
                           void (*fn)(void *arg, const char *program, const ea_lang_trigger *trigger, int64_t utc_ns,
                                      int64_t row_utc_ns),
                           void *arg) {
    w->on_trigger = fn;
    w->on_trigger_arg = arg;
}

void ea_watches_fired(ea_watches *w, const char *name, const char *trigger, int64_t utc_ns) {
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->programs[i].c->name, name) == 0 && w->programs[i].run)
            ea_lang_run_fired(w->programs[i].run, trigger, utc_ns);
}

/* ---- running ---- */

int ea_watches_start(ea_watches *w, int (*fn)(void *arg, const ea_record *record), void *arg, ea_err *err) {
    size_t limit_bytes = RUN_LIMIT_MIN;
    w->on_row = fn;
    w->on_row_arg = arg;
    for (size_t i = 0; i < w->count; i++)
        if (w->programs[i].c->memory_bytes > limit_bytes)
            limit_bytes = (size_t)w->programs[i].c->memory_bytes;
    int rc = ea_watcher_create(&w->watcher, limit_bytes, err);
    for (size_t i = 0; i < w->count && !rc; i++) {
        program *p = &w->programs[i];
        ea_lang_run_options how = {.form = EA_LANG_ROWS,
                                   .on_row = watch_results_on_row,
                                   .on_row_arg = p,
                                   .limit_entries = (size_t)p->c->keys,
                                   .limit_bytes = (size_t)p->c->memory_bytes};
        rc = ea_watcher_program(w->watcher, p->program, &how, &p->run, err);
    }
    return rc;
}

/* How often programs raised an event; several may raise the same one. */
static uint64_t watch_results_ships(const ea_watches *w) {
    uint64_t n = 0;
    for (size_t i = 0; i < w->count && w->has_ship; i++)
        n += ea_lang_run_counts(w->programs[i].run).shipped;
    return n;
}

int ea_watches_add(ea_watches *w, const ea_record *record, const ea_class *c, const ea_clock *clock, ea_err *err) {
    int is_aggregated = 0;
    for (size_t i = 0; i < w->count; i++) /* before the event, with which a program may end */
        if (w->programs[i].c->events == EA_WATCH_AGGREGATE) {
            int concerns = ea_lang_run_concerns(w->programs[i].run, c);
            if (concerns < 0)
                return ea_fail(err, concerns, "run program %s", w->programs[i].c->name);
            is_aggregated |= concerns;
        }
    w->last = *record;
    w->last_utc_ns = ea_clock_to_utc_ns(clock, record->time_raw);
    uint64_t ships = watch_results_ships(w);
    int rc = ea_watcher_add(w->watcher, record, c, clock, w->last_utc_ns, err);
    if (rc < 0)
        return rc;
    if (watch_results_ships(w) != ships) {
        w->shipped++;
        return EA_WATCHES_SHIPPED;
    }
    return is_aggregated ? EA_WATCHES_AGGREGATED : 0;
}

int ea_watches_idle(ea_watches *w, ea_err *err) {
    int rc = ea_watcher_idle(w->watcher, err);
    return rc < 0 ? rc : 0;
}

ea_lang_counts ea_watches_counts(const ea_watches *w) {
    ea_lang_counts all = {0};
    for (size_t i = 0; i < w->count; i++) {
        if (!w->programs[i].run)
            continue;
        ea_lang_counts c = ea_lang_run_counts(w->programs[i].run);
        all.absent += c.absent;
        all.divided_by_zero += c.divided_by_zero;
        all.others += c.others;
        all.dropped += c.dropped;
        all.texts += c.texts;
        all.costly += c.costly;
        all.unfired += c.unfired;
    }
    all.shipped = w->shipped;
    return all;
}

int ea_watches_end(ea_watches *w, ea_err *err) {
    return ea_watcher_end(w->watcher, err);
}
