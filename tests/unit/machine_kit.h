/* What tests of a machine's state share: an observer that keeps the last state of each instance, records that are
 * applied, and a restart out of what the observer received. Each program includes it once. Thread: one. */
#ifndef EA_TESTS_UNIT_MACHINE_KIT_H
#define EA_TESTS_UNIT_MACHINE_KIT_H

#include "proto/state/keyframe.h"
#include "proto/state/machine.h"
#include "tests/unit/machine_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- what the observer received: the last state of each instance ---- */

typedef struct history {
    ea_process *processes;
    ea_thread_row *threads;
    ea_module *modules;
    size_t process_count, thread_count, module_count;
    size_t calls;
    int fail; /* returned by the observer */
} history;

#define KEEP(list, count, item)                                                                                        \
    size_t at = 0;                                                                                                     \
    while (at < (count) && (list)[at].life.instance != (item)->life.instance)                                          \
        at++;                                                                                                          \
    if (at == (count)) {                                                                                               \
        (list) = realloc((list), ((count) + 1) * sizeof *(list));                                                      \
        assert_non_null(list);                                                                                         \
        (list)[(count)++] = *(item);                                                                                   \
    } else {                                                                                                           \
        assert_true((item)->life.end_utc_ns >= (list)[at].life.begin_utc_ns);                                          \
    }

static inline void keep_text(const char **to, const char *from, int first) {
    if (!first) {
        free((void *)(uintptr_t)*to);
    }
    *to = strdup(from);
}

static inline int on_process(void *arg, const ea_process *p) {
    history *h = arg;
    size_t before = h->process_count;
    KEEP(h->processes, h->process_count, p)
    int first = before != h->process_count;
    ea_process old = h->processes[at], *to = &h->processes[at];
    *to = *p;
    if (!first) {
        to->image_name = old.image_name;
        to->command_line = old.command_line;
        to->sid = old.sid;
        to->package = old.package;
        to->application = old.application;
        to->mandatory_label = old.mandatory_label;
    }
    keep_text(&to->image_name, p->image_name, first);
    keep_text(&to->command_line, p->command_line, first);
    keep_text(&to->sid, p->sid, first);
    keep_text(&to->package, p->package, first);
    keep_text(&to->application, p->application, first);
    keep_text(&to->mandatory_label, p->mandatory_label, first);
    h->calls++;
    return h->fail;
}

static inline int on_thread(void *arg, const ea_thread_row *t) {
    history *h = arg;
    size_t before = h->thread_count;
    KEEP(h->threads, h->thread_count, t)
    int first = before != h->thread_count;
    const char *old = h->threads[at].name;
    h->threads[at] = *t;
    if (!first)
        h->threads[at].name = old;
    keep_text(&h->threads[at].name, t->name, first);
    h->calls++;
    return h->fail;
}

#define MODULE_TEXTS(of)                                                                                               \
    of path, of pdb_path, of original_name, of sha256, of file_version, of company, of product, of md5, of sha1,       \
        of imphash, of description

static inline int on_module(void *arg, const ea_module *m) {
    history *h = arg;
    size_t before = h->module_count;
    KEEP(h->modules, h->module_count, m)
    int first = before != h->module_count;
    ea_module old = h->modules[at], *to = &h->modules[at];
    *to = *m;
    const char **kept[] = {MODULE_TEXTS(&to->)};
    const char *had[] = {MODULE_TEXTS(old.)}, *now[] = {MODULE_TEXTS(m->)};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (!first)
            *kept[i] = had[i];
        keep_text(kept[i], now[i], first);
    }
    h->calls++;
    return h->fail;
}

static inline void history_deinit(history *h) {
    for (size_t i = 0; i < h->process_count; i++) {
        const ea_process *p = &h->processes[i];
        const char *all[] = {p->image_name, p->command_line, p->sid, p->package, p->application, p->mandatory_label};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free((void *)(uintptr_t)all[k]);
    }
    for (size_t i = 0; i < h->thread_count; i++)
        free((void *)(uintptr_t)h->threads[i].name);
    for (size_t i = 0; i < h->module_count; i++) {
        const ea_module *m = &h->modules[i];
        const char *all[] = {MODULE_TEXTS(m->)};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            free((void *)(uintptr_t)all[k]);
    }
    free(h->processes);
    free(h->threads);
    free(h->modules);
    *h = (history){0};
}

static const ea_machine_observer OBSERVER = {.on_process = on_process, .on_thread = on_thread, .on_module = on_module};

typedef struct world {
    ea_registry *registry;
    ea_machine *machine;
    ea_machine_options options;
    ea_counters counters;
    history history;
    made_record r;
} world;

static inline int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    ea_err err;
    assert_non_null(w);
    assert_int_equal(ea_registry_create(&w->registry, 0, &err), 0);
    w->options = (ea_machine_options){.observer = &OBSERVER, .observer_arg = &w->history, .counters = &w->counters};
    assert_int_equal(ea_machine_create(&w->machine, &w->options, &err), 0);
    *state = w;
    return 0;
}

static inline int teardown(void **state) {
    world *w = *state;
    ea_machine_destroy(w->machine);
    ea_registry_destroy(w->registry);
    history_deinit(&w->history);
    free(w);
    return 0;
}

static inline void apply(world *w, const ea_record *record) {
    ea_err err = {0};
    int rc = ea_machine_apply(w->machine, record, ea_registry_find(w->registry, record), record->time_raw, &err);
    if (rc)
        fail_msg("%s", err.message);
}

static inline int apply_made(void *arg, const ea_record *record) {
    apply(arg, record);
    return 0;
}

static inline void process(world *w, int op, int64_t t, uint32_t pid, uint32_t parent, uint64_t key) {
    char name[32];
    snprintf(name, sizeof name, "p%u.exe", pid);
    apply(w, process_record(&w->r, (uint8_t)op, t, pid, parent, key, name, "cmd /c x"));
}

static inline void thread(world *w, int op, int64_t t, uint32_t pid, uint32_t tid) {
    apply(w, thread_record(&w->r, (uint8_t)op, t, pid, tid, 0xffff800000000000u + tid * 0x10000u, 3));
}

static inline void image(world *w, int op, int64_t t, uint32_t pid, uint64_t base) {
    apply(w, image_record(&w->r, (uint8_t)op, t, pid, base, 0x77000, "\\Windows\\a.dll"));
}

static inline void check_life(const ea_interval *life, int64_t begin, int64_t end, int begin_cause, int end_cause) {
    assert_int_equal(life->begin_utc_ns, begin);
    assert_int_equal(life->end_utc_ns, end);
    assert_int_equal(life->begin_cause, begin_cause);
    assert_int_equal(life->end_cause, end_cause);
}

static inline uint64_t counted(const world *w, enum ea_counter which) {
    return ea_counter_get(&w->counters, which);
}

static inline int by_end_descending(const void *a, const void *b) {
    const ea_interval *x = a, *y = b; /* every row begins with its interval */
    if (x->end_utc_ns != y->end_utc_ns)
        return x->end_utc_ns < y->end_utc_ns ? 1 : -1;
    return x->instance < y->instance ? 1 : -1;
}

static inline int by_instance(const void *a, const void *b) {
    const ea_interval *x = a, *y = b;
    return x->instance < y->instance ? -1 : 1;
}

#define RESTORE(list, count, restore)                                                                                  \
    do {                                                                                                               \
        if (count) {                                                                                                   \
            qsort((list), (count), sizeof *(list), by_end_descending);                                                 \
            for (size_t i = (count); i-- > 0;) /* open ones, oldest first */                                           \
                if ((list)[i].life.end_utc_ns == INT64_MAX)                                                            \
                    assert_int_equal(restore(w->machine, &(list)[i]), 0);                                              \
            for (size_t i = 0; i < (count); i++)                                                                       \
                if ((list)[i].life.end_utc_ns != INT64_MAX)                                                            \
                    assert_int_equal(restore(w->machine, &(list)[i]), 0);                                              \
            qsort((list), (count), sizeof *(list), by_instance);                                                       \
        }                                                                                                              \
    } while (0)

static inline void keep_facts(void *arg, const ea_process_facts *facts) {
    assert_int_equal(ea_machine_restore_pending_facts(arg, facts), 0);
}

static inline void keep_id(void *arg, const ea_module *id, int64_t utc_ns) {
    assert_int_equal(ea_machine_restore_pending_id(arg, id, utc_ns), 0);
}

/* Builds a new machine from what the observer received, as a collector does after a crash. */
static inline void restart(world *w) {
    history *h = &w->history;
    uint64_t last = ea_machine_last_instance(w->machine);
    int64_t begin = ea_machine_begin_utc_ns(w->machine);
    ea_machine *old = w->machine;
    assert_int_equal(ea_machine_create(&w->machine, &w->options, NULL), 0);
    RESTORE(h->processes, h->process_count, ea_machine_restore_process);
    RESTORE(h->threads, h->thread_count, ea_machine_restore_thread);
    RESTORE(h->modules, h->module_count, ea_machine_restore_module);
    assert_int_equal(ea_machine_last_instance(w->machine), last);
    ea_machine_restore_position(w->machine, last, begin);
    ea_machine_each_pending_id(old, keep_id, w->machine);
    ea_machine_each_pending_facts(old, keep_facts, w->machine);
    ea_machine_destroy(old);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
