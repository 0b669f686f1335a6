/* The compiler, inside: names become values, variables and fields; types are inferred until they no longer change; then
 * each clause becomes instructions for registers. The order of the files, each calls only those before it: lang_emit.c
 * (instructions, constants, types), lang_names.c (fields, variables, aggregations), lang_expression.c,
 * lang_statement.c, lang_compile.c; lang_needs.c reads the result; lang_complete.c uses the parser and the classes. See
 * lang_program.h. Thread: its caller's. */
#ifndef EA_LANG_LANG_COMPILE_H
#define EA_LANG_LANG_COMPILE_H

#include "proto/lang/lang_program.h"

enum { FIELDS_MAX = 128, VARIABLES_MAX = 256 };

typedef struct compiler {
    lang_source s;
    ea_lang_program *p;
    const ea_lang_sources *from;
    int is_dry;  /* types alone: nothing is emitted */
    int changed; /* a type became another one */
    int guesses; /* a number that is written out gives its type to what has none yet: x = x + 1 */
    int depth;   /* of the expression at hand */
    size_t constant_capacity, text_capacity, format_capacity, row_capacity;
    /* the clause at hand */
    const clause *c;
    const ea_class **classes;
    size_t class_count, class_capacity;
    const ea_class **class_buffer;
    int has_class_probe;

    struct clause_classes {
        const ea_class **classes;
        size_t count;
        lang_field *fields; /* which the pass before read */
        uint32_t field_count;
    } * found; /* of each clause */

    lang_op *ops;
    lang_range *ranges;
    uint32_t range_count;
    uint16_t *skips; /* of each: where its statement ends; 0: not known yet */
    uint32_t op_count;
    lang_field fields[FIELDS_MAX];
    uint32_t field_count, registers;
} compiler;

/* ---- texts of problems ---- */

/* Of each enum lang_type: "a number". */
extern const char *const LANG_TYPE_TEXTS[];

static inline int lang_shown(span s) {
    return (int)(s.len_bytes < 80 ? s.len_bytes : 80);
}

/* A span as the two arguments of %.*s, at most 80 bytes. */
#define SHOWN(s) lang_shown(s), (s).text

/* The name that is nearest to one that does not exist. */
typedef struct nearest {
    char wanted[33];
    const char *found;
    size_t distance;
} nearest;

void lang_nearest_begin(nearest *n, span name);
void lang_nearest_try(nearest *n, const char *name);
/* The same of all words of a kind. */
void lang_nearest_words(nearest *n, enum ea_lang_word_kind kind);

/* The three arguments of "%s%s%s": "; did you mean X?", or nothing. */
#define MEANT(n) (n).found ? "; did you mean " : "", (n).found ? (n).found : "", (n).found ? "?" : ""

/* ---- lang_emit.c ---- */

/* Appends an instruction to the clause, unless the pass is dry. Its number. */
uint32_t lang_emit(compiler *k, enum lang_code code, unsigned dst, unsigned a, unsigned b, uint32_t imm);
/* A statement ends here that began with this instruction; its parts that are statements have ended before. */
void lang_end_statement(compiler *k, uint32_t first);
/* The jump leads to the next instruction. */
void lang_land(compiler *k, uint32_t jump);

/* So do all jumps of a chain: each has the one before it as its target so far; NO_JUMP ends it. */
enum { NO_JUMP = 0xFFFF };

void lang_land_all(compiler *k, uint32_t last);
/* r, which the clause uses from now on. */
unsigned lang_use_register(compiler *k, unsigned r, uint32_t at);
/* The array, with room for one more element: as it is, or a copy that is twice as large. first: the first capacity. */
void *lang_room_for_one(compiler *k, void *array, size_t count, size_t size, size_t *capacity, size_t first);
/* The number of a constant; equal ones are one. */
uint32_t lang_constant(compiler *k, enum lang_type type, uint64_t value);
uint32_t lang_text_constant(compiler *k, span text);
/* 1 for numbers, and for a type that is not known yet. */
int lang_is_number(enum lang_type t);
/* 1 for a whole number that is written out. */
int lang_is_literal(const node *n);
/* The type that holds values of both types; TYPE_NONE when there is none. */
enum lang_type lang_common_type(enum lang_type a, enum lang_type b);
/* Register r holds a value of the one type; afterwards, of the other. */
void lang_convert(compiler *k, unsigned r, enum lang_type from, enum lang_type to);

/* ---- lang_names.c ---- */

typedef struct function {
    const char *name;
    enum lang_function function;
    unsigned params; /* constants after the value */
    const char *form;
} function;

/* Whether classes of the clause have the field, and its type: TYPE_NONE when none has it. Where versions of one class
 * disagree, the newest decides, and others do not have it. */
enum lang_type lang_find_field_type(compiler *k, span name, uint32_t at);
/* A field, or the name of its number; 0 when there is no such field. */
int lang_find_field(compiler *k, span name, uint32_t at, uint32_t *ret_field, enum lang_type *ret_type);
/* is_field: only a field was possible. */
_Noreturn void lang_unknown_name(compiler *k, span name, uint32_t at, int is_field);
lang_variable *lang_find_variable(const compiler *k, span name, enum lang_scope scope);
uint32_t lang_variable_number(const compiler *k, const lang_variable *v);
/* enum lang_value of a name, or -1. */
int lang_value_of(span name);
/* Where the target of an assignment lives. */
enum lang_scope lang_scope_of(compiler *k, const node *n);
/* Notes the variables that the statements assign. */
void lang_declare_variables(compiler *k, const statement *st);
/* Notes the aggregations of the statements. is_end: those of an `end` clause, which says what it prints. */
void lang_declare_aggregations(compiler *k, const statement *st, int is_end);
/* *slot becomes a type that holds its values and those of the new type. literal: a whole number that is written out. */
void lang_take_type(compiler *k, uint8_t *slot, uint8_t *is_assigned, enum lang_type type, int literal, uint32_t at,
                    const char *what, span name);
/* The aggregation that a node names; leaves by lang_fail when there is none. */
lang_aggregation *lang_find_aggregation(compiler *k, const node *n);
uint32_t lang_aggregation_number(const compiler *k, const lang_aggregation *a);
/* The aggregating function of a name, or NULL. */
const function *lang_function_of(span name);
/* That of a call; leaves by lang_fail when there is none. */
const function *lang_find_function(compiler *k, const node *call);
/* The value of a whole number that is written out; leaves by lang_fail for any other node. */
int64_t lang_constant_argument(compiler *k, const node *n);

/* ---- lang_expression.c ---- */

/* The value of an expression goes to register dst; registers above it are used. */
enum lang_type lang_expression(compiler *k, const node *n, unsigned dst);
/* The same of one that has to be a number; what: who needs it. */
enum lang_type lang_number_expression(compiler *k, const node *n, unsigned dst, const char *what);
/* Jumps when the value is zero, an empty text or an empty stack; for lang_land_all. */
uint32_t lang_jump_unless(compiler *k, const node *n, unsigned dst);
/* Keys go to registers from dst on. */
void lang_keys(compiler *k, const node *n, unsigned dst, uint8_t *types, unsigned count);
enum lang_type lang_call_expression(compiler *k, const node *n, unsigned dst);
/* dst = dst op dst + 1. */
enum lang_type lang_arithmetic(compiler *k, uint32_t op, uint32_t at, unsigned dst, enum lang_type a, enum lang_type b,
                               int literal_a, int literal_b);

/* ---- lang_compile.c ---- */

/* The classes of the clause at hand, k->c: k->class_buffer, k->class_count. The caller frees the buffer. */
void lang_find_classes(compiler *k);

/* ---- lang_statement.c, lang_needs.c ---- */

void lang_statements(compiler *k, const statement *st);
/* Notes the classes of all clauses, each once. Names of counters get an end. */
void lang_note_needs(compiler *k);

#endif
