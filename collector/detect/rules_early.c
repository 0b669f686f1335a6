/* See rules_early.h. */
#include "collector/detect/rules_early.h"

#include "collector/query/scan/cell.h"
#include "collector/query/sql/sql.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"

#include <stdlib.h>

enum { SAMPLE = 256, MEMORY_MAX_BYTES = 64 << 20 };

/* A statement up to one of its stages. */
typedef struct early_stage {
    ea_rules_prospect *prospect;
    uint32_t fields[EC_RULES_COLUMNS_MAX]; /* of the arguments */
    const char *types[EC_RULES_COLUMNS_MAX];
    uint8_t is_path[EC_RULES_COLUMNS_MAX];
    size_t count;
    uint64_t seen, passed;
    int is_off;
} early_stage;

struct ec_rules_early {
    ec_rules_early_options options;
    ea_arena arena; /* types */
    early_stage *stages;
    size_t count, capacity;
    ea_text cells[EC_RULES_COLUMNS_MAX];
    uint64_t left;
};

/* 1 when a rule can hold. EA_ENOMEM. */
static int early_judge(ec_rules_early *e, early_stage *s, sqlite3_value **v) {
    ea_rules_value values[EC_RULES_COLUMNS_MAX];
    size_t value_count = 0;
    int may = 1;
    for (size_t i = 0; i < s->count; i++) {
        const ec_value cell = ec_sql_argument(v[i]);
        ea_text_clear(&e->cells[i]);
        if (ec_cell_text(&e->cells[i], &cell, s->types[i]) == EC_LOOK_EMPTY)
            continue;
        if (s->is_path[i])
            e->options.name_drive(e->options.arg, &e->cells[i]);
        if (e->cells[i].failed)
            return EA_ENOMEM;
        values[value_count++] = (ea_rules_value){.field = s->fields[i],
                                                 .text = e->cells[i].len_bytes ? e->cells[i].data : "",
                                                 .len_bytes = e->cells[i].len_bytes};
    }
    int rc = ea_rules_run_may(e->options.run, s->prospect, values, value_count, &may);
    s->seen++;
    s->passed += (uint64_t)may;
    s->is_off = s->seen >= SAMPLE && s->passed > s->seen / 2;
    return rc ? rc : may;
}

static void early_call(sqlite3_context *context, int count, sqlite3_value **v) {
    ec_rules_early *e = sqlite3_user_data(context);
    uint64_t number = count ? (uint64_t)sqlite3_value_int64(v[0]) : UINT64_MAX;
    int may = 1;
    if (number < e->count && e->stages[number].count + 1 == (size_t)count && !e->stages[number].is_off)
        may = early_judge(e, &e->stages[number], v + 1);
    if (may < 0)
        sqlite3_result_error_nomem(context);
    else
        sqlite3_result_int(context, may);
    e->left += may == 0;
}

int ec_rules_early_create(ec_rules_early **ret, sqlite3 *db, const ec_rules_early_options *options, ea_err *err) {
    ec_rules_early *e = calloc(1, sizeof *e);
    if (!e)
        return ea_fail(err, EA_ENOMEM, "run the rules");
    e->options = *options;
    ea_arena_init(&e->arena, MEMORY_MAX_BYTES);
    for (size_t i = 0; i < EC_RULES_COLUMNS_MAX; i++)
        ea_text_init(&e->cells[i]);
    if (sqlite3_create_function_v2(db, "rules_early", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, e, early_call, NULL, NULL,
                                   NULL) != SQLITE_OK) {
        ec_rules_early_destroy(e);
        return ea_fail(err, EA_ENOMEM, "run the rules");
    }
    *ret = e;
    return 0;
}

void ec_rules_early_destroy(ec_rules_early *e) {
    if (!e)
        return;
    for (size_t i = 0; i < e->count; i++)
        ea_rules_prospect_destroy(e->stages[i].prospect);
    for (size_t i = 0; i < EC_RULES_COLUMNS_MAX; i++)
        ea_text_deinit(&e->cells[i]);
    ea_arena_deinit(&e->arena);
    free(e->stages);
    free(e);
}

uint32_t ec_rules_early_next(const ec_rules_early *e) {
    return (uint32_t)e->count;
}

static int early_add_stage(ec_rules_early *e, uint32_t group, const ec_rules_statement *statement,
                           const char *const *types, uint8_t stage) {
    uint32_t unknown[EC_RULES_COLUMNS_MAX];
    size_t unknown_count = 0;
    if (EA_GROW(e->stages, e->capacity, e->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    early_stage *s = &e->stages[e->count];
    *s = (early_stage){.count = 0};
    for (size_t i = 0; i < statement->field_count; i++) {
        if (statement->stages[i] > stage) {
            unknown[unknown_count++] = statement->fields[i];
            continue;
        }
        s->fields[s->count] = statement->fields[i];
        s->is_path[s->count] = statement->is_path[i];
        if (!(s->types[s->count++] = ea_arena_strdup(&e->arena, types[EC_RULES_HEAD_COLUMNS + i])))
            return EA_ENOMEM;
    }
    int rc = ea_rules_prospect_create(&s->prospect, e->options.rules, group, unknown, unknown_count);
    e->count += rc == 0;
    return rc;
}

int ec_rules_early_add(ec_rules_early *e, uint32_t group, const ec_rules_statement *statement,
                       const char *const *types) {
    int rc = 0;
    for (uint8_t stage = EC_RULES_STAGE_OWN; stage < EC_RULES_STAGE_OTHERS && !rc; stage++)
        rc = early_add_stage(e, group, statement, types, stage);
    return rc;
}

uint64_t ec_rules_early_take(ec_rules_early *e) {
    uint64_t left = e->left;
    e->left = 0;
    return left;
}
