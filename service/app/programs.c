/* Programs of the query language for commands. See programs.h. */
#include "service/app/programs.h"

#include "proto/base/map.h"
#include "proto/etl/etl.h"
#include "service/decode/decoder.h"

#include <stdlib.h>

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

int ea_program_where(ea_where **ret, const char *condition, const ea_strings *patterns, const ea_program_classes *from,
                     ea_err *err) {
    program_classes k;
    ea_where *w = NULL;
    int rc = programs_open(&k, from, err);
    if (rc)
        return rc;
    rc = ea_where_create(&w, condition, patterns, &k.classes, err);
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
