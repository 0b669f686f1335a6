/* Runs a program on events. See lang.h, lang_run.h. */
#include "proto/lang/lang_run.h"

#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "proto/base/provider_guids.h"

#include <stdlib.h>
#include <string.h>

enum { FORGET_EVENTS = 4096, FORGET_SHARE = 4 }; /* how often texts are forgotten; from which part of the memory on */

static const size_t LIMIT_BYTES = (size_t)64 << 20;

static const int64_t BACK_NS = (int64_t)60 * 1000000000;

static const ea_guid KERNEL_NETWORK = EA_PROVIDER_KERNEL_NETWORK;

/* ---- making a run ---- */

/* Each time they have the same numbers. */
static void run_keep_constants(ea_lang_run *r) {
    const ea_lang_program *p = r->p;
    for (uint32_t i = 0; i < p->constant_count; i++) {
        const span *text = p->constant_types[i] == TYPE_TEXT ? &p->texts[p->constants[i]] : NULL;
        r->constants[i] =
            text ? lang_keep(r, lang_strings_add(&r->strings, text->text, text->len_bytes)) : p->constants[i];
    }
    r->first_text = r->strings.kept;
}

static int run_make_constants(ea_lang_run *r) {
    r->constants = calloc(r->p->constant_count + 1, sizeof *r->constants);
    if (!r->constants)
        return EA_ENOMEM;
    run_keep_constants(r);
    return 0;
}

static int run_make_tables(ea_lang_run *r) {
    const ea_lang_program *p = r->p;
    size_t limit = r->o.limit_entries;
    int rc = 0;
    r->aggregates = calloc(p->aggregation_count + 1, sizeof *r->aggregates);
    r->tables = calloc(p->variable_count + 1, sizeof *r->tables);
    r->scalars = calloc(2 * (size_t)p->variable_count + 1, sizeof *r->scalars);
    if (!r->aggregates || !r->tables || !r->scalars)
        return EA_ENOMEM;
    for (uint32_t i = 0; i < p->aggregation_count && !rc; i++)
        rc = lang_aggregate_init(&r->aggregates[i], &p->aggregations[i], limit, &r->memory);
    for (uint32_t i = 0; i < p->variable_count; i++) {
        const lang_variable *v = &p->variables[i];
        r->has_self |= v->scope == SCOPE_SELF;
        if (v->scope == SCOPE_SELF || v->scope == SCOPE_MAP)
            lang_table_init(&r->tables[i], v->scope == SCOPE_SELF ? 1 : v->key_count, 1, limit, &r->memory);
    }
    for (unsigned i = 0; i < EA_LANG_KEYS_MAX; i++)
        lang_table_init(&r->deltas[i], i + 2, 1, limit, &r->memory); /* the keys, and what they are */
    return rc;
}

static int run_has_probe(const lang_clause *c, enum probe_kind kind) {
    for (const probe *p = c->probes; p; p = p->next)
        if (p->kind == kind)
            return 1;
    return 0;
}

static int run_make_clauses(ea_lang_run *r) {
    const ea_lang_program *p = r->p;
    uint32_t most = 1;
    r->due = calloc(p->clause_count + 1, sizeof *r->due);
    r->ticks = calloc(p->clause_count + 1, sizeof *r->ticks);
    r->unmatched = calloc(p->clause_count + 1, sizeof *r->unmatched);
    r->missing = calloc(p->clause_count + 1, sizeof *r->missing);
    if (!r->due || !r->ticks || !r->unmatched || !r->missing)
        return EA_ENOMEM;
    for (uint32_t i = 0; i < p->clause_count; i++) {
        most = p->clauses[i].field_count > most ? p->clauses[i].field_count : most;
        if (run_has_probe(&p->clauses[i], PROBE_TICK))
            r->ticks[r->tick_count++] = i;
        if (run_has_probe(&p->clauses[i], PROBE_UNMATCHED))
            r->unmatched[r->unmatched_count++] = i;
        if (run_has_probe(&p->clauses[i], PROBE_MISSING))
            r->missing[r->missing_count++] = i;
    }
    r->absent = calloc(most, sizeof *r->absent); /* BOUND_ABSENT */
    return r->absent ? 0 : EA_ENOMEM;
}

/* The machine's place becomes the one at hand. */
static int run_find_place(ea_lang_run *r, uint32_t number) {
    if (EA_GROW(r->places, r->place_capacity, (size_t)number + 1, SIZE_MAX))
        return EA_ENOMEM;
    for (; r->place_count <= number; r->place_count++)
        r->places[r->place_count] = NULL;
    if (!r->places[number]) {
        size_t bytes = sizeof(lang_place) + CPUS_MAX * sizeof(uint32_t);
        r->places[number] = malloc(bytes);
        if (!r->places[number])
            return EA_ENOMEM;
        memset(r->places[number], 0xFF, bytes);
        r->places[number]->host_text = 0;
    }
    r->place = r->places[number];
    r->machine = number;
    return 0;
}

int ea_lang_run_create(ea_lang_run **ret, const ea_lang_program *p, const ea_lang_run_options *options, ea_err *err) {
    ea_lang_run *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "run a program");
    r->p = p;
    r->o = *options;
    r->is_selective = r->o.pid || r->o.exe || r->o.wants;
    if (!r->o.limit_entries)
        r->o.limit_entries = EA_LANG_ENTRIES;
    r->memory.limit_bytes = r->o.limit_bytes ? r->o.limit_bytes : LIMIT_BYTES;
    ea_arena_init(&r->arena, 0);
    ea_u64_map_init(&r->plans, 0);
    ea_text_init(&r->scratch);
    ea_text_init(&r->stack_text);
    ea_text_init(&r->place_text);
    ea_text_init(&r->out);
    r->plan = &r->nothing;
    r->processes = calloc(PROCESS_CACHE, sizeof *r->processes);
    r->names = calloc(NAME_CACHE, sizeof *r->names);
    r->has_places = ea_lang_needs_modules(p);
    r->needs_threads = r->is_selective || lang_needs_threads(p);
    r->stacks = calloc(r->has_places ? STACK_CACHE : 1, sizeof *r->stacks);
    r->place_names = calloc(r->has_places ? PLACE_CACHE : 1, sizeof *r->place_names);
    int rc = ea_random_bytes(&r->memory.seed, sizeof r->memory.seed, err);
    r->firings = calloc(p->trigger_count + 1, sizeof *r->firings);
    if (!rc && (run_find_place(r, 0) || !r->firings || !r->processes || !r->names || !r->stacks || !r->place_names ||
                lang_strings_init(&r->strings, &r->memory) || run_make_constants(r) || run_make_tables(r) ||
                run_make_clauses(r)))
        rc = ea_fail(err, EA_ENOMEM, "run a program");
    if (rc) {
        ea_lang_run_destroy(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void ea_lang_run_destroy(ea_lang_run *r) {
    if (!r)
        return;
    for (uint32_t i = 0; r->aggregates && i < r->p->aggregation_count; i++)
        lang_aggregate_deinit(&r->aggregates[i]);
    for (uint32_t i = 0; r->tables && i < r->p->variable_count; i++)
        lang_table_deinit(&r->tables[i]);
    for (unsigned i = 0; i < EA_LANG_KEYS_MAX; i++)
        lang_table_deinit(&r->deltas[i]);
    for (size_t i = 0; i < r->place_count; i++)
        free(r->places[i]);
    free(r->places);
    lang_strings_deinit(&r->strings);
    ea_arena_deinit(&r->arena);
    ea_u64_map_deinit(&r->plans);
    ea_text_deinit(&r->scratch);
    ea_text_deinit(&r->stack_text);
    ea_text_deinit(&r->place_text);
    ea_text_deinit(&r->out);
    free(r->firings);
    free(r->constants);
    free(r->aggregates);
    free(r->tables);
    free(r->scalars);
    free(r->absent);
    free(r->due);
    free(r->ticks);
    free(r->unmatched);
    free(r->missing);
    free(r->processes);
    free(r->names);
    free(r->stacks);
    free(r->place_names);
    free(r);
}

ea_text *ea_lang_run_output(ea_lang_run *r) {
    return &r->out;
}

ea_lang_counts ea_lang_run_counts(const ea_lang_run *r) {
    ea_lang_counts c = r->counts;
    c.texts = r->strings.refused;
    return c;
}

/* ---- what a class means to the program ---- */

/* A number at a fixed place is read with the bytes that follow it, where there are eight. */
static bound_field run_make_quick(bound_field b) {
    if (b.how == BOUND_FIXED && !b.to_float) {
        b.quick_bytes = (uint32_t)b.offset + sizeof(uint64_t);
        b.shift = (uint8_t)(64 - 8 * b.width);
        b.sign = b.is_signed ? (uint64_t)1 << (8 * b.width - 1) : 0;
    }
    return b;
}

static bound_field run_bind(const ea_class *c, const lang_field *field) {
    bound_field b = {.how = BOUND_ABSENT};
    size_t i = lang_field_of(c, field->name, strlen(field->name));
    if (i == c->field_count)
        return b;
    const ea_field *f = &c->fields[i];
    enum lang_type type = lang_field_type(f);
    b.field = (uint16_t)i;
    while (ea_class_top_field(c, b.top) < i)
        b.top++;
    if (field->is_name) {
        b.how = BOUND_NAME;
        return b;
    }
    if ((type == TYPE_TEXT) != (field->type == TYPE_TEXT))
        return b; /* a class that came later, of which the compiler did not know */
    b.to_float = field->type == TYPE_FLOAT && type != TYPE_FLOAT;
    b.is_signed = type == TYPE_INT;
    b.width = f->width;
    b.offset = f->offset;
    if (type == TYPE_TEXT)
        b.how = BOUND_TEXT;
    else if (type == TYPE_FLOAT)
        b.how = f->type == EA_F32 ? BOUND_F32 : BOUND_F64;
    else if (f->semantic == EA_SEM_QPC && f->width == 8)
        b.how = BOUND_CLOCK;
    else if (f->semantic == EA_SEM_DURATION_QPC && f->width == 8)
        b.how = BOUND_SPAN;
    else if (f->offset != EA_OFFSET_NONE && f->type != EA_PORT &&
             (f->width == 1 || f->width == 2 || f->width == 4 || f->width == 8))
        b.how = BOUND_FIXED;
    else
        b.how = BOUND_NUMBER;
    return run_make_quick(b);
}

/* The first field that is one number of 32 bits with this meaning, or the field of this name. */
static bound_field run_first_of(const ea_class *c, uint8_t semantic, const char *name) {
    bound_field b = {.how = BOUND_ABSENT};
    for (size_t i = 0; i < c->field_count; i += c->fields[i].span) {
        const ea_field *f = &c->fields[i];
        if (name ? strcmp(f->name, name) != 0 : f->semantic != semantic)
            continue;
        if (f->count_field >= 0 || f->count != 1 || f->width != 4)
            continue;
        b = (bound_field){.how = f->offset != EA_OFFSET_NONE ? BOUND_FIXED : BOUND_NUMBER,
                          .width = 4,
                          .offset = f->offset,
                          .field = (uint16_t)i};
        while (ea_class_top_field(c, b.top) < i)
            b.top++;
        break;
    }
    return run_make_quick(b);
}

/* The first field with the address of code that runs, ran or is to run. */
static bound_field run_place_of(const ea_class *c) {
    static const char *const NAMES[] = {"InstructionPointer", "ProgramCounter", "Routine",         "DpcRoutine",
                                        "DeferredRoutine",    "TimerRoutine",   "CallbackRoutine", "ThreadRoutine",
                                        "RoutineAddr",        "SysCallAddress"};
    bound_field b = {.how = BOUND_ABSENT};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && b.how == BOUND_ABSENT; i++) {
        b = run_bind(c, &(lang_field){.name = NAMES[i], .type = TYPE_HEX});
        if (b.how != BOUND_FIXED && b.how != BOUND_NUMBER)
            b.how = BOUND_ABSENT;
    }
    return b;
}

static void run_name_plan(ea_lang_run *r, plan *n) {
    const ea_class *c = n->c;
    n->provider = (uint32_t)lang_keep(r, lang_strings_add(&r->strings, c->provider_name, strlen(c->provider_name)));
    n->probe = (uint32_t)lang_keep(r, lang_strings_add(&r->strings, c->name, strlen(c->name)));
}

static plan *run_make_plan(ea_lang_run *r, const ea_class *c) {
    const ea_lang_program *p = r->p;
    plan *n = ea_arena_zalloc(&r->arena, 1, sizeof *n);
    bound_clause *clauses = ea_arena_zalloc(&r->arena, p->clause_count + 1, sizeof *clauses);
    if (!n || !clauses)
        return NULL;
    n->c = c;
    n->clauses = clauses;
    n->thread = run_first_of(c, EA_SEM_TID, NULL);
    if (lang_has_own_process(c))
        n->process = run_first_of(c, EA_SEM_PID, NULL);
    n->place = run_place_of(c);
    if (!c->classic && ea_guid_equal(&c->provider, &KERNEL_NETWORK)) /* a DPC logs it, on any thread */
        n->owner = run_first_of(c, 0, "PID");
    n->is_switch = r->needs_threads && strcmp(c->name, "Thread/CSwitch") == 0;
    n->names_counters = p->counter_count && strcmp(c->name, "PerfInfo/PmcCtrConfig") == 0;
    n->begins_thread = r->has_self && strcmp(c->name, "Thread/Start") == 0;
    n->ends_thread = r->has_self && strcmp(c->name, "Thread/End") == 0;
    run_name_plan(r, n);
    for (uint32_t i = 0; i < p->clause_count; i++) {
        const lang_clause *l = &p->clauses[i];
        const probe *fits = l->probes;
        while (fits && !lang_probe_fits(fits, c))
            fits = fits->next;
        if (!fits)
            continue;
        bound_field *fields = ea_arena_zalloc(&r->arena, l->field_count + 1, sizeof *fields);
        if (!fields)
            return NULL;
        for (uint32_t f = 0; f < l->field_count; f++)
            fields[f] = run_bind(c, &l->fields[f]);
        bound_clause *b = &clauses[n->clause_count++];
        *b = (bound_clause){.clause = l, .fields = fields};
        if (fits->subject)
            b->subject = run_first_of(c, 0, fits->subject);
    }
    if (ea_u64_map_put(&r->plans, (uintptr_t)c, (uintptr_t)n))
        return NULL;
    n->before = r->newest;
    return r->newest = n;
}

static EA_RARE plan *run_find_plan(ea_lang_run *r, const ea_class *c) {
    const uint64_t *known = ea_u64_map_get(&r->plans, (uintptr_t)c);
    return known ? (plan *)(uintptr_t)*known : run_make_plan(r, c);
}

/* ---- memory of texts ---- */

static int run_have_text(const uint8_t *types, unsigned count) {
    int any = 0;
    for (unsigned i = 0; i < count; i++)
        any |= lang_has_text(types[i]);
    return any;
}

/* 1 when a key or a value that stays may be a text. */
static int run_needs_texts(const ea_lang_run *r) {
    enum { TEXTS = 0xAAAA }; /* what CODE_DELTA says of texts and stacks among keys */

    for (uint32_t i = 0; i < r->p->aggregation_count; i++) {
        const lang_aggregate *a = &r->aggregates[i];
        if ((a->table.count || a->others[0]) &&
            (lang_has_text(a->what->type) || run_have_text(a->what->keys, a->what->key_count)))
            return 1;
    }
    for (uint32_t i = 0; i < r->p->variable_count; i++) {
        const lang_variable *v = &r->p->variables[i];
        int is_table = v->scope == SCOPE_SELF || v->scope == SCOPE_MAP;
        if (is_table && r->tables[i].count && (lang_has_text(v->type) || run_have_text(v->keys, v->key_count)))
            return 1;
        if (v->scope == SCOPE_GLOBAL && lang_has_text(v->type) && r->scalars[2 * i] >= r->first_text)
            return 1;
    }
    for (unsigned i = 0; i < EA_LANG_KEYS_MAX; i++)
        for (size_t k = 0; k < r->deltas[i].count; k++)
            if (lang_table_entry(&r->deltas[i], k)[i + 1] & TEXTS)
                return 1;
    return 0;
}

/* Between two clauses: when texts take much of the memory and nothing needs them any more, they make room. So a program
 * that clears what it has printed runs for ever. */
static EA_RARE void run_forget_texts(ea_lang_run *r) {
    if (r->strings.kept_bytes <= r->memory.limit_bytes / FORGET_SHARE || run_needs_texts(r))
        return;
    size_t first_text = r->first_text, limit_bytes = r->memory.limit_bytes;
    lang_strings_forget_all(&r->strings);
    r->memory.limit_bytes = SIZE_MAX; /* these had room before */
    run_keep_constants(r);
    for (plan *n = r->newest; n; n = n->before)
        run_name_plan(r, n);
    r->memory.limit_bytes = limit_bytes;
    if (r->first_text < first_text) /* no memory */
        r->scratch.failed = 1;
    memset(r->processes, 0, PROCESS_CACHE * sizeof *r->processes);
    memset(r->names, 0, NAME_CACHE * sizeof *r->names);
    if (r->has_places) {
        memset(r->stacks, 0, STACK_CACHE * sizeof *r->stacks);
        memset(r->place_names, 0, PLACE_CACHE * sizeof *r->place_names);
    }
    for (size_t i = 0; i < r->place_count; i++)
        if (r->places[i])
            r->places[i]->host_text = 0;
}

/* ---- events ---- */

/* Clauses that no event's class leads to; r->event may be NULL. */
static void run_apart(ea_lang_run *r, uint32_t number) {
    r->bound = NULL;
    r->is_thread_known = r->is_process_known = 0;
    lang_execute(r, &r->p->clauses[number], r->absent);
}

static int64_t run_interval_of(const lang_clause *c) {
    const probe *p = c->probes;
    while (p->kind != PROBE_TICK)
        p = p->next;
    return p->interval_ns;
}

static EA_RARE void run_ticks(ea_lang_run *r) {
    const ea_lang_event *event = r->event;
    int64_t now = r->now_utc_ns;
    r->redraws = r->o.is_redrawn; /* ticks that are due together draw one screen */
    for (uint32_t i = 0; i < r->tick_count && !r->is_over; i++) {
        uint32_t number = r->ticks[i];
        int64_t interval = run_interval_of(&r->p->clauses[number]);
        if (now < r->due[number]) {
            /* farther away than an interval and the disorder of events: the clock was set back, or one time was wrong
             */
            if ((uint64_t)r->due[number] - (uint64_t)now > (uint64_t)interval + (uint64_t)BACK_NS)
                r->due[number] = now > INT64_MAX - interval ? INT64_MAX : now + interval;
            continue;
        }
        /* whole intervals without any event are one tick; the difference may have all 64 bits */
        uint64_t late = ((uint64_t)now - (uint64_t)r->due[number]) / (uint64_t)interval;
        r->now_utc_ns = (int64_t)((uint64_t)r->due[number] + late * (uint64_t)interval);
        r->due[number] = r->now_utc_ns > INT64_MAX - interval ? INT64_MAX : r->now_utc_ns + interval;
        r->event = NULL;
        r->plan = &r->nothing;
        r->this_number++;
        run_apart(r, number);
        r->event = event;
        r->now_utc_ns = now;
        run_forget_texts(r);
    }
    r->redraws = 0;
}

static int run_result(const ea_lang_run *r) {
    return r->out.failed || r->scratch.failed ? EA_ENOMEM : r->is_over;
}

static void run_kind(ea_lang_run *r, enum probe_kind kind) {
    r->event = NULL;
    r->plan = &r->nothing;
    r->this_number++;
    for (uint32_t i = 0; i < r->p->clause_count; i++)
        if (run_has_probe(&r->p->clauses[i], kind))
            run_apart(r, i);
    lang_strings_forget(&r->strings);
}

int ea_lang_run_begin(ea_lang_run *r) {
    run_kind(r, PROBE_BEGIN);
    return run_result(r);
}

static void run_begin_time(ea_lang_run *r, int64_t utc_ns) {
    r->has_first = 1;
    r->first_utc_ns = utc_ns;
    for (uint32_t i = 0; i < r->tick_count; i++) {
        int64_t interval = run_interval_of(&r->p->clauses[r->ticks[i]]);
        r->due[r->ticks[i]] = utc_ns > INT64_MAX - interval ? INT64_MAX : utc_ns + interval;
    }
}

static EA_APART void run_free_thread(ea_lang_run *r) {
    uint64_t tid;
    if (!lang_read_field(r, &r->plan->thread, &tid))
        return;
    tid = lang_thread_key(r, (int64_t)tid);
    for (uint32_t i = 0; i < r->p->variable_count; i++)
        if (r->p->variables[i].scope == SCOPE_SELF)
            lang_table_remove(&r->tables[i], &tid);
}

/* 1 when the event, as the clause at hand sees it, is of a process that the options name. */
static int run_is_wanted(ea_lang_run *r) {
    lang_find_process(r);
    if ((r->o.pid && r->pid != (int64_t)r->o.pid) || (r->o.wants && !r->o.wants(r->o.wants_arg, r->pid)))
        return 0;
    if (!r->o.exe)
        return 1;
    const lang_string *name = lang_string_at(&r->strings, lang_read_value(r, VALUE_execname));
    return lang_glob((span){r->o.exe, strlen(r->o.exe)}, name->text, name->len_bytes);
}

/* What an event says beyond its clauses; the class does so seldom, or the program reads nothing of it. */
static EA_APART void run_note_class(ea_lang_run *r, const plan *p) {
    if (p->names_counters)
        lang_note_counters(r);
    if (p->begins_thread) /* the end of an earlier thread of this id may be lost */
        run_free_thread(r);
}

static EA_APART void run_unmatched(ea_lang_run *r) {
    r->this_number++;
    r->bound = NULL;
    r->is_thread_known = r->is_process_known = 0;
    int is_of_others = r->is_selective && !run_is_wanted(r);
    for (uint32_t i = 0; i < r->unmatched_count && !r->is_over && !is_of_others; i++)
        run_apart(r, r->unmatched[i]);
}

static EA_APART void run_missing(ea_lang_run *r) {
    for (uint32_t i = 0; i < r->missing_count && !r->is_over; i++)
        run_apart(r, r->missing[i]);
}

static inline void run_take(ea_lang_run *r, const ea_lang_event *event, plan *p) {
    r->event = event;
    r->payload = event->record->payload;
    r->payload_bytes = event->record->payload_bytes;
    r->plan = p;
    r->is_split = 0;
    if (p->is_switch)
        lang_note_switch(r);
    if (p->names_counters || p->begins_thread)
        run_note_class(r, p);
}

int ea_lang_run_event(ea_lang_run *r, const ea_lang_event *event) {
    plan *p = r->last && r->last->c == event->c ? r->last : run_find_plan(r, event->c);
    if (!p)
        return EA_ENOMEM;
    r->last = p;
    if (!r->has_first)
        run_begin_time(r, event->utc_ns);
    r->now_utc_ns = event->utc_ns;
    r->counts.events++;
    if (r->tick_count && !r->o.is_clocked) {
        r->event = event;
        run_ticks(r);
        if (r->is_over)
            return run_result(r);
    }
    r->has_missed = r->is_shipped = 0;
    run_take(r, event, p);
    if (p->clause_count) {
        r->counts.matched++;
        r->this_number++;
        const bound_clause *end = p->clauses + p->clause_count;
        for (const bound_clause *b = p->clauses; b < end && !r->is_over; b++) {
            r->bound = b;
            r->is_thread_known = r->is_process_known = 0;
            if (r->is_selective && !run_is_wanted(r))
                continue;
            lang_execute(r, b->clause, b->fields);
        }
        if (r->has_missed && r->missing_count)
            run_missing(r);
    } else if (r->unmatched_count) {
        run_unmatched(r);
    }
    if (p->ends_thread)
        run_free_thread(r);
    if (r->strings.count > r->strings.kept)
        lang_strings_forget(&r->strings);
    if (r->counts.events % FORGET_EVENTS == 0)
        run_forget_texts(r);
    return run_result(r);
}

int ea_lang_run_holds(ea_lang_run *r, const ea_lang_event *event) {
    int rc = ea_lang_run_event(r, event);
    r->is_over = 0;
    return rc;
}

int ea_lang_run_time(ea_lang_run *r, int64_t utc_ns) {
    if (!r->has_first) {
        run_begin_time(r, utc_ns);
        r->now_utc_ns = utc_ns;
    }
    if (r->tick_count && (r->o.is_clocked || utc_ns > r->now_utc_ns)) {
        r->event = NULL;
        r->now_utc_ns = utc_ns;
        run_ticks(r);
        if (r->strings.count > r->strings.kept)
            lang_strings_forget(&r->strings);
    }
    return run_result(r);
}

int ea_lang_run_machine(ea_lang_run *r, const ea_lang_machine *machine) {
    if (machine->number >> (64 - MACHINE_SHIFT - 7))
        return EA_ELIMIT;
    r->o.machine = machine->state;
    r->o.resolver = machine->resolver;
    r->o.host = machine->host;
    return machine->number == r->machine ? 0 : run_find_place(r, machine->number);
}

/* Entries whose word at `key` has the number of the machine at hand. */
static void run_remove_of_machine(const ea_lang_run *r, lang_table *t, unsigned key, int is_thread) {
    for (size_t i = t->count; i-- > 0;) {
        uint64_t word = lang_table_entry(t, i)[key];
        uint64_t number = is_thread && word >> 32 & 1 ? ~word >> MACHINE_SHIFT : word >> MACHINE_SHIFT;
        if (number == r->machine)
            lang_table_remove(t, lang_table_entry(t, i));
    }
}

void ea_lang_run_leave(ea_lang_run *r) {
    for (uint32_t i = 0; i < r->p->variable_count; i++)
        if (r->p->variables[i].scope == SCOPE_SELF)
            run_remove_of_machine(r, &r->tables[i], 0, 1);
    for (unsigned i = 0; i < EA_LANG_KEYS_MAX; i++)
        run_remove_of_machine(r, &r->deltas[i], i + 1, 0);
    r->o.machine = NULL;
    r->o.resolver = NULL;
    r->o.host = NULL;
    if (r->machine) {
        free(r->place);
        r->places[r->machine] = NULL;
        r->machine = 0;
        r->place = r->places[0];
    }
}

int ea_lang_run_note(ea_lang_run *r, const ea_lang_event *event) {
    plan *p = r->last && r->last->c == event->c ? r->last : run_find_plan(r, event->c);
    if (!p)
        return EA_ENOMEM;
    r->last = p;
    run_take(r, event, p);
    return 0;
}

int ea_lang_run_concerns(ea_lang_run *r, const ea_class *c) {
    if (r->is_over)
        return 0;
    const plan *p = run_find_plan(r, c);
    return p ? p->clause_count != 0 : EA_ENOMEM;
}

int ea_lang_run_end(ea_lang_run *r) {
    r->is_over = 0;
    r->is_ending = 1;
    run_kind(r, PROBE_END);
    for (uint32_t i = 0; i < r->p->aggregation_count; i++) {
        const lang_aggregate *a = &r->aggregates[i];
        if (!r->p->aggregations[i].is_ended && (a->table.count || a->others[0]))
            lang_print_aggregate(r, i, UINT64_MAX);
    }
    return r->out.failed || r->scratch.failed ? EA_ENOMEM : 0;
}
