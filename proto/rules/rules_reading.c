/* What the parts that read a rule share: memory, expressions, and the end at a mistake. See rules_parts.h. Thread: the
 * builder's. */
#include "proto/rules/rules_parts.h"

#include <stdarg.h>
#include <stdio.h>

static void describe(rules_reading *r, uint32_t line, uint32_t column, const char *format, va_list args)
    EA_PRINTF(4, 0);

static void describe(rules_reading *r, uint32_t line, uint32_t column, const char *format, va_list args) {
    r->problem->line = line;
    r->problem->column = column;
    vsnprintf(r->problem->message, sizeof r->problem->message, format, args);
    r->code = EA_EINVAL;
}

void rules_fail(rules_reading *r, uint32_t line, uint32_t column, const char *format, ...) {
    va_list args;
    va_start(args, format);
    describe(r, line, column, format, args);
    va_end(args);
    longjmp(r->failed, 1);
}

void rules_refuse(rules_reading *r, uint32_t line, uint32_t column, const char *format, ...) {
    va_list args;
    va_start(args, format);
    describe(r, line, column, format, args);
    va_end(args);
    r->problem->is_unsupported = 1;
    longjmp(r->failed, 1);
}

void *rules_take(rules_reading *r, size_t count, size_t size) {
    void *p = ea_arena_zalloc(r->arena, count ? count : 1, size);
    if (!p && ea_arena_error(r->arena) == EA_ELIMIT)
        rules_refuse(r, r->line, 1, "the rule takes more than %d MiB of memory: split it",
                     EA_RULES_MEMORY_MAX_BYTES >> 20);
    if (!p) {
        r->code = EA_ENOMEM;
        longjmp(r->failed, 1);
    }
    return p;
}

rules_expr *rules_expr_new(rules_reading *r, enum rules_expr_kind kind, uint32_t child_count) {
    rules_expr *e = rules_take(r, 1, sizeof *e);
    e->kind = kind;
    e->children = child_count ? rules_take(r, child_count, sizeof(rules_expr *)) : NULL;
    e->count = child_count;
    return e;
}
