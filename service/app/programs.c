/* Programs of the query language for commands. See programs.h. */
#include "service/app/programs.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/etl/etl.h"
#include "service/decode/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What programs may name, as of a command's traces and options. */
typedef struct program_classes {
    const ea_program_classes *from;
    ea_schemas *schemas;
    ea_decoder *decoder; /* its classes are listed */
    ea_lang_classes classes;
} program_classes;

/* Adds the classes of all events of the traces; damage is reported by the command's own reading. */
static int programs_collect(void *arg, ea_class_list *list, ea_err *err) {
    program_classes *k = arg;
    ea_etl_set *set = NULL;
    const ea_record *r;
    enum ea_counter outcome;
    ea_u64_map seen;
    if (k->from->path_count < 1) /* a live session's are not known before */
        return 0;
    ea_u64_map_init(&seen, 0);
    int rc = ea_decoder_create(&k->decoder, k->schemas, NULL, err);
    if (!rc)
        rc = ea_etl_open(&set, (const char *const *)k->from->paths, (size_t)k->from->path_count, &(ea_etl_options){0},
                         err);
    while (!rc && (rc = ea_etl_next(set, &r, err)) > 0) {
        const ea_class *c = ea_decoder_find(k->decoder, &r, &outcome);
        rc = 0;
        if (ea_u64_map_get(&seen, (uintptr_t)c))
            continue;
        if (ea_u64_map_put(&seen, (uintptr_t)c, 1))
            rc = ea_fail(err, EA_ENOMEM, "collect event classes");
        else
            rc = ea_class_list_add(list, c, err);
    }
    ea_etl_close(set);
    ea_u64_map_deinit(&seen);
    return rc;
}

static void programs_close(program_classes *k) {
    ea_lang_classes_deinit(&k->classes);
    ea_decoder_destroy(k->decoder);
    ea_registry_destroy(k->classes.registry);
    ea_schemas_destroy(k->schemas);
}

static int programs_open(program_classes *k, const ea_program_classes *from, ea_err *err) {
    *k = (program_classes){.from = from};
    int rc = ea_schema_options_read(&k->schemas, from->schemas, err);
    if (!rc)
        rc = ea_registry_create(&k->classes.registry, 0, err);
    k->classes.schemas = k->schemas;
    k->classes.collect = programs_collect;
    k->classes.arg = k;
    if (rc)
        programs_close(k);
    return rc;
}

int ea_program_compile(ea_lang_program **ret, const char *name, const char *text, size_t len_bytes,
                       const ea_strings *args, const ea_program_classes *from, ea_err *err) {
    ea_lang_problem problem;
    program_classes k;
    int rc = programs_open(&k, from, err);
    if (rc)
        return rc;
    rc = ea_lang_compile_text(ret, text, len_bytes, args, &k.classes, &problem, err);
    if (rc && problem.line)
        rc = ea_lang_report_problem(&problem, name, text, len_bytes, err);
    programs_close(&k);
    return rc;
}

/* ---- completion ---- */

typedef struct words {
    ea_arena arena;
    const char **items;
    size_t count, capacity;
} words;

static int programs_take_word(void *arg, const char *word) {
    words *w = arg;
    const char *copy = ea_arena_strdup(&w->arena, word);
    if (!copy || EA_GROW(w->items, w->capacity, w->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    w->items[w->count++] = copy;
    return 0;
}

static int programs_by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int ea_program_complete(const char *text, const ea_program_classes *from, ea_err *err) {
    program_classes k;
    words w = {.count = 0};
    int rc = programs_open(&k, from, err);
    if (rc)
        return rc;
    ea_arena_init(&w.arena, 0);
    rc = ea_described_classes(&k.classes.further, k.classes.registry, k.schemas, err);
    if (!rc)
        rc = programs_collect(&k, &k.classes.further, err);
    ea_lang_sources sources = {
        .registry = k.classes.registry, .classes = k.classes.further.items, .class_count = k.classes.further.count};
    if (!rc && ea_lang_complete(text, strlen(text), &sources, programs_take_word, &w))
        rc = ea_fail(err, EA_ENOMEM, "complete a program");
    if (w.count)
        qsort(w.items, w.count, sizeof *w.items, programs_by_text);
    for (size_t i = 0; i < w.count && !rc; i++)
        if ((!i || strcmp(w.items[i], w.items[i - 1]) != 0) && printf("%s\n", w.items[i]) < 0)
            rc = ea_fail(err, EA_EIO, "write to standard output");
    if (!rc && fflush(stdout))
        rc = ea_fail(err, EA_EIO, "write to standard output");
    free(w.items);
    ea_arena_deinit(&w.arena);
    programs_close(&k);
    return rc;
}

/* Probes of the events of providers and ids, as texts one after the other; none when there are too many for a list. */
static int programs_put_probes(const ea_class_choice *choice, ea_text *t, ea_strings *ret, ea_err *err) {
    const size_t providers = choice->providers.count ? choice->providers.count : choice->ids.count > 0,
                 ids = choice->ids.count ? choice->ids.count : 1;
    if (providers * ids > EA_STRINGS_MAX)
        return 0;
    for (size_t i = 0; i < providers * ids; i++) {
        ea_text_printf(t, "%s:%s", choice->providers.count ? choice->providers.items[i / ids] : "*",
                       choice->ids.count ? choice->ids.items[i % ids] : "*");
        ea_text_add(t, "", 1);
    }
    if (t->failed)
        return ea_fail(err, EA_ENOMEM, "compile --where");
    for (const char *at = t->data; ret->count < providers * ids; at += strlen(at) + 1)
        ret->items[ret->count++] = at;
    return 0;
}

int ea_program_where(ea_where **ret, const char *condition, const ea_class_choice *choice,
                     const ea_program_classes *from, ea_err *err) {
    program_classes k;
    ea_where *w = NULL;
    int rc = programs_open(&k, from, err);
    if (rc)
        return rc;
    ea_text t;
    ea_strings probes = {.count = 0};
    ea_text_init(&t);
    if (!choice->classes.count)
        rc = programs_put_probes(choice, &t, &probes, err);
    if (!rc)
        rc = ea_where_create(&w, condition, choice->classes.count ? &choice->classes : &probes, &k.classes, err);
    ea_text_deinit(&t);
    if (!rc)
        rc = ea_where_begin(w, err);
    programs_close(&k);
    if (rc) {
        ea_where_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int ea_program_rewrite(ea_rewrite **ret, const ea_strings *rules, const ea_program_classes *from, ea_err *err) {
    program_classes k;
    int rc = programs_open(&k, from, err);
    if (rc)
        return rc;
    rc = ea_rewrite_create(ret, rules, &k.classes, err);
    programs_close(&k);
    return rc;
}
