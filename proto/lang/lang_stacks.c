/* Stacks of the event at hand as texts: a line a frame, the innermost first, each by its module at the event's time;
 * and the module of an event's code address. See lang_run.h. */
#include "proto/lang/lang_run.h"

#include <string.h>

enum { NO_PROCESS = 0xFFFFFFFF, FRAMES_MAX = 1024 };

/* ---- places in modules ---- */

/* The last part of the module's path, without what would end a line. */
static uint32_t stacks_module_text(ea_lang_run *r, const ea_module *m) {
    const char *name = ea_path_end(m->path);
    ea_text *t = &r->place_text;
    ea_text_clear(t);
    for (; *name; name++)
        ea_text_char(t, (unsigned char)*name < ' ' ? '?' : *name);
    if (t->failed || !t->len_bytes)
        return STRING_EMPTY;
    return lang_strings_add(&r->strings, t->data, t->len_bytes);
}

/* "module!function", when the caller knows the function. A return address may be that of the next function. */
static uint32_t stacks_function_text(ea_lang_run *r, const ea_module *m, uint64_t address, int is_return) {
    ea_text *t = &r->place_text; /* it has the module's name */
    ea_text_char(t, '!');
    size_t begin = t->len_bytes;
    if (!r->o.function ||
        !r->o.function(r->o.function_arg, m, address - m->base - (is_return && address > m->base), t) || t->failed)
        return STRING_EMPTY;
    for (size_t i = begin; i < t->len_bytes; i++)
        if ((unsigned char)t->data[i] < ' ')
            t->data[i] = '?';
    ea_utf8_repair(t->data, t->len_bytes);
    return lang_strings_add(&r->strings, t->data, t->len_bytes);
}

/* Where an address is, by the modules that are open now. */
static lang_place_name stacks_name_place(ea_lang_run *r, uint32_t pid, uint64_t address, int is_return) {
    const ea_machine *machine = r->o.machine;
    lang_place_name n = {
        .address = address, .pid = address >> 63 ? 0 : pid, .machine = r->machine, .form = 1 + (is_return != 0)};
    if (!machine)
        return n;
    n.changes = ea_machine_module_changes(machine, n.pid);
    lang_place_name *cached = &r->place_names[(address ^ address >> 13 ^ n.pid * 0x9E3779B1u) % PLACE_CACHE];
    if (cached->form == n.form && cached->address == address && cached->pid == n.pid && cached->machine == n.machine &&
        cached->changes == n.changes)
        return *cached;
    const ea_module *m = ea_machine_module_at(machine, n.pid, address);
    if (m && (n.module = stacks_module_text(r, m)) != STRING_EMPTY) {
        n.offset = address - m->base;
        n.function = stacks_function_text(r, m, address, is_return);
    }
    uint32_t last = n.function ? n.function : n.module; /* the module's text came before the function's */
    if (last == STRING_EMPTY ||
        (lang_strings_keep(&r->strings, last) == last && lang_strings_keep(&r->strings, n.module) == n.module))
        *cached = n;
    return n;
}

uint64_t lang_read_module(ea_lang_run *r) {
    uint64_t address;
    if (!r->event || !lang_read_field(r, &r->plan->place, &address))
        return STRING_EMPTY;
    lang_find_process(r);
    return stacks_name_place(r, r->pid < 0 ? NO_PROCESS : (uint32_t)r->pid, address, 0).module;
}

/* ---- stacks ---- */

/* The process whose addresses they are: that of the walk, else that of the event's header. */
static uint32_t stacks_process_of(const ea_lang_run *r, uint32_t imm) {
    if (!r->o.machine || r->o.is_plain_stacks || !(imm & 2))
        return 0; /* the kernel's are the same in all */
    return r->event->stack_pid != NO_PROCESS ? r->event->stack_pid : r->event->record->pid;
}

static void stacks_put_frame(ea_lang_run *r, ea_text *t, uint32_t pid, uint64_t address) {
    int is_return = t->len_bytes != 0; /* all but the innermost */
    if (is_return)
        ea_text_char(t, '\n');
    if (r->o.is_plain_stacks) {
        ea_text_hex64(t, address);
        return;
    }
    lang_place_name n = stacks_name_place(r, pid, address, is_return);
    const lang_string *s = lang_string_at(&r->strings, n.function ? n.function : n.module);
    ea_text_add(t, s->text, s->len_bytes);
    if (n.module && !n.function)
        ea_text_char(t, '+');
    if (!n.function)
        ea_text_hex64(t, n.module ? n.offset : address);
}

/* Makes the text; it goes to the cache once all its frames are known. */
static EA_APART uint64_t stacks_make_text(ea_lang_run *r, stack_cache key, stack_cache *cached) {
    size_t count = 0, most = key.imm >> 16 && key.imm >> 16 < FRAMES_MAX ? key.imm >> 16 : FRAMES_MAX;
    const uint32_t *halves = r->event->stack;
    ea_text *t = &r->stack_text;
    ea_text_clear(t);
    for (unsigned half = 0; half < 2; half++) {
        size_t n = 0;
        if (!(key.imm & (1u << half)) || !halves[half])
            continue;
        const uint64_t *frames = r->o.frames(r->o.frames_arg, halves[half], &n);
        if (!n)
            cached = NULL; /* it may be defined later */
        for (size_t i = 0; i < n && count < most; i++, count++)
            stacks_put_frame(r, t, key.pid, frames[i]);
    }
    if (t->failed || r->place_text.failed) {
        r->scratch.failed = 1;
        return STRING_NO_ROOM;
    }
    key.text = lang_strings_add(&r->strings, t->data ? t->data : "", t->len_bytes);
    if (cached && lang_strings_keep(&r->strings, key.text) == key.text)
        *cached = key;
    return key.text;
}

uint64_t lang_read_stack(ea_lang_run *r, uint32_t imm) {
    if (!r->event || !r->o.frames)
        return STRING_EMPTY;
    const uint32_t *halves = r->event->stack;
    uint64_t both = (imm & 1 ? (uint64_t)halves[0] << 32 : 0) | (imm & 2 ? halves[1] : 0);
    if (!both)
        return STRING_EMPTY;
    stack_cache key = {.halves = both, .imm = imm, .pid = stacks_process_of(r, imm), .machine = r->machine};
    if (r->o.machine && !r->o.is_plain_stacks)
        key.changes = ea_machine_module_changes(r->o.machine, key.pid);
    stack_cache *cached = &r->stacks[(both ^ both >> 29 ^ imm ^ key.pid) % STACK_CACHE];
    if (cached->halves == both && cached->imm == imm && cached->pid == key.pid && cached->machine == key.machine &&
        cached->changes == key.changes)
        return cached->text;
    return stacks_make_text(r, key, cached);
}
