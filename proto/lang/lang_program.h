/* A compiled program: typed instructions for registers, and what they refer to. lang_compile.c makes it, lang_verify.c
 * checks it, lang_execute.c executes it. Thread: constant once it was made. */
#ifndef EA_LANG_LANG_PROGRAM_H
#define EA_LANG_LANG_PROGRAM_H

#include "proto/lang/lang_ast.h"

#include <string.h>

enum { ARGS_OF_ROW_MAX = 16 };

/* How the 64 bits of a value are read. */
enum lang_type {
    TYPE_NONE,
    TYPE_INT,   /* signed */
    TYPE_UINT,  /* unsigned */
    TYPE_HEX,   /* unsigned, shown in hex */
    TYPE_FLOAT, /* a double */
    TYPE_TEXT,  /* number of a string (lang_strings.h) */
    TYPE_STACK, /* number of a string of lines, a frame each, the innermost first */
};

/* A number's bits in a 64-bit word, and back. */
static inline uint64_t lang_bits(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static inline double lang_double(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

enum { LANG_REGISTERS = 240, COUNTERS_MAX = 16 };

/* What values of the event and of the machine's state there are: name, type. The rest is in lang_values.c. */
#define LANG_VALUES(X)                                                                                                 \
    X(timestamp, TYPE_INT)                                                                                             \
    X(elapsed, TYPE_INT)                                                                                               \
    X(pid, TYPE_INT)                                                                                                   \
    X(tid, TYPE_INT)                                                                                                   \
    X(cpu, TYPE_UINT)                                                                                                  \
    X(level, TYPE_UINT)                                                                                                \
    X(opcode, TYPE_UINT)                                                                                               \
    X(version, TYPE_UINT)                                                                                              \
    X(id, TYPE_UINT)                                                                                                   \
    X(task, TYPE_UINT)                                                                                                 \
    X(keyword, TYPE_HEX)                                                                                               \
    X(provider, TYPE_TEXT)                                                                                             \
    X(probe, TYPE_TEXT)                                                                                                \
    X(activity, TYPE_TEXT)                                                                                             \
    X(payload_bytes, TYPE_UINT)                                                                                        \
    X(execname, TYPE_TEXT)                                                                                             \
    X(exepath, TYPE_TEXT)                                                                                              \
    X(cmdline, TYPE_TEXT)                                                                                              \
    X(ppid, TYPE_INT) X(user, TYPE_TEXT) X(threadname, TYPE_TEXT) X(host, TYPE_TEXT) X(module, TYPE_TEXT)

enum lang_value {

#define X(name, type) VALUE_##name,
    LANG_VALUES(X)
#undef X
        VALUE_COUNT
};

/* name, what a and b are: r registers; what imm is. dst is always a register where there is one. "may skip": an
 * instruction that cannot give its value continues where its statement ends (lang_clause.skips). */
enum lang_code {
    CODE_END,
    CODE_CONST,      /* dst = constants[imm] */
    CODE_MOVE,       /* dst = a */
    CODE_FIELD,      /* dst = fields[imm] of the event; may skip */
    CODE_HAS,        /* dst = 1 when the event has fields[imm] */
    CODE_VALUE,      /* dst = value imm (enum lang_value) */
    CODE_PARENT,     /* the same of the parent process */
    CODE_PMC,        /* dst = the event's value of counters[imm]; may skip */
    CODE_STACK,      /* dst; imm: 1 kernel's, 2 user's, 3 both; high half: frames at the most, 0 all */
    CODE_LOAD,       /* dst = variables[imm]; b: register of the first key of a map */
    CODE_LOAD_SELF,  /* the same of self.x */
    CODE_STORE,      /* variables[imm] = a; b: register of the first key of a map */
    CODE_STORE_SELF, /* the same of self.x */
    CODE_AGGREGATE,  /* aggregations[imm]; a: first key; b: value */
    CODE_COUNT_KEYS, /* the same of count() */
    CODE_READ,       /* dst = result of aggregations[imm]; a: first key */
    CODE_MARK,       /* notes the time of a key; a: first of the keys; imm: their number, and from bit 8 on two bits of
                      * each: 0 a number, 1 a fraction, 2 a text, 3 a stack */
    CODE_DELTA,      /* dst = time since it was noted; the same; may skip */
    CODE_JUMP,       /* imm */
    CODE_JUMP_FALSE, /* a; imm */
    CODE_JUMP_TRUE,  /* a; imm */
    CODE_JUMP_RANGE, /* dst = a field of the event; jumps unless ranges[imm >> 16] has it: imm & 0xFFFF; may skip */
    CODE_ADD,
    CODE_SUB,
    CODE_MUL,
    CODE_DIV_INT,
    CODE_DIV_UINT,
    CODE_MOD_INT,
    CODE_MOD_UINT, /* may skip */
    CODE_AND,
    CODE_OR,
    CODE_XOR,
    CODE_SHL,
    CODE_SHR_INT,
    CODE_SHR_UINT,
    CODE_ADD_FLOAT,
    CODE_SUB_FLOAT,
    CODE_MUL_FLOAT,
    CODE_DIV_FLOAT,
    CODE_NEG,
    CODE_NEG_FLOAT,
    CODE_INVERT,
    CODE_NOT,
    CODE_NOT_FLOAT,
    CODE_FLOAT_OF_INT,
    CODE_FLOAT_OF_UINT,

    CODE_EQ,
    CODE_NE,
    CODE_LT_INT,
    CODE_LE_INT,
    CODE_LT_UINT,
    CODE_LE_UINT,
    CODE_LT_INT_UINT,
    CODE_LE_INT_UINT,
    CODE_LT_UINT_INT,
    CODE_LE_UINT_INT,
    CODE_EQ_MIXED, /* a or b is signed */
    CODE_LT_FLOAT,
    CODE_LE_FLOAT,
    CODE_EQ_FLOAT,
    CODE_LIKE,    /* dst = text a fits the pattern constants[imm] */
    CODE_LENGTH,  /* dst = bytes of text a */
    CODE_PRINT,   /* aggregations[imm]; a: register with the number of rows, or NO_REGISTER */
    CODE_CLEAR,   /* aggregations[imm] */
    CODE_TRUNC,   /* aggregations[imm]; a */
    CODE_ERASE,   /* variables[imm], a map: all keys */
    CODE_PRINTF,  /* formats[imm]; a: first argument */
    CODE_EMIT,    /* rows[imm]; a: first value */
    CODE_TRIGGER, /* triggers[imm] */
    CODE_SHIP,
    CODE_BYTES, /* dst = the bytes from place a on of fields[imm & 0xFFFF], a text; imm >> 16 of them, 1 to 8 */
    CODE_EXIT,
    CODE_COUNT
};

enum { NO_REGISTER = 255 };

const char *lang_value_name(uint32_t value);
enum lang_type lang_value_type(uint32_t value);

typedef struct lang_op {
    uint8_t code, dst, a, b;
    uint32_t imm;
} lang_op;

/* A field that a clause reads, by name; a run finds it in each class that comes. */
typedef struct lang_field {
    const char *name;
    uint8_t type;    /* enum lang_type */
    uint8_t is_name; /* the symbolic name of its number */
} lang_field;

/* A field compared with a number that is written out: low <= field <= low + span, or not so. */
typedef struct lang_range {
    uint64_t low, span;
    uint32_t field;
    uint32_t is_negated;
} lang_range;

/* Of the compiler: which clause runs on events of a class, and with which subject. */
typedef struct lang_clause {
    const probe *probes;
    const lang_op *ops;
    const uint16_t *skips; /* of each instruction: where its statement ends */
    uint32_t op_count;
    const lang_range *ranges;
    uint32_t range_count;
    const lang_field *fields;
    uint32_t field_count;
    uint8_t registers; /* it uses [0, registers) */
} lang_clause;

enum lang_scope { SCOPE_GLOBAL, SCOPE_THIS, SCOPE_SELF, SCOPE_MAP };

typedef struct lang_variable {
    span name;
    enum lang_scope scope;
    uint8_t type, is_assigned;
    uint8_t key_count, keys[EA_LANG_KEYS_MAX]; /* of a map: types */
    uint32_t at;
} lang_variable;

enum lang_function {
    FUNCTION_NONE,
    FUNCTION_COUNT,
    FUNCTION_SUM,
    FUNCTION_MIN,
    FUNCTION_MAX,
    FUNCTION_AVG,
    FUNCTION_STDDEV,
    FUNCTION_QUANTIZE,
    FUNCTION_LQUANTIZE,
    FUNCTION_LLQUANTIZE,
    FUNCTION_TOP,
    FUNCTION_DISTINCT,
};

enum { HISTOGRAM_BUCKETS_MAX = 1024, TOP_MAX = 100 };

typedef struct lang_aggregation {
    span name;
    enum lang_function function;
    uint8_t type; /* of the value: TYPE_INT, TYPE_UINT, TYPE_FLOAT; of top and distinct: any */
    uint8_t key_count, keys[EA_LANG_KEYS_MAX];
    const char *labels[EA_LANG_KEYS_MAX];
    int64_t params[4];
    uint8_t is_ended; /* an `end` clause prints it */
    uint32_t at;
} lang_aggregation;

typedef struct lang_piece {
    span text;     /* printed as it is, before the value */
    char letter;   /* d u x s f, or 0: only text */
    uint8_t type;  /* of the argument */
    int width;     /* negative: to the left */
    int precision; /* of f; -1: 6 */
    uint8_t has_zero;
} lang_piece;

typedef struct lang_format {
    const lang_piece *pieces;
    uint32_t piece_count, arg_count;
} lang_format;

typedef struct lang_row {
    uint32_t count;
    const char *names[ARGS_OF_ROW_MAX];
    uint8_t types[ARGS_OF_ROW_MAX];
} lang_row;

struct ea_lang_program {
    ea_arena arena; /* of all below */
    char *text;
    lang_clause *clauses;
    uint32_t clause_count;
    uint64_t *constants; /* numbers, and of texts the place in texts */
    uint8_t *constant_types;
    uint32_t constant_count;
    span *texts;
    uint32_t text_count;
    lang_variable *variables;
    uint32_t variable_count;
    lang_aggregation *aggregations;
    uint32_t aggregation_count;
    lang_format *formats;
    uint32_t format_count;
    lang_row *rows;
    uint32_t row_count;
    ea_lang_trigger *triggers;
    uint32_t trigger_count;
    span *counters; /* names after pmc. */
    uint32_t counter_count;
    uint8_t needs_stacks, needs_names, needs_delta;
    uint32_t ship_line, ship_column; /* of the first ship(); 0: there is none */
    ea_lang_need *needs;
    size_t need_count;
};

/* Checks that a program cannot do what it must not: jumps go forward and stay inside, registers are written before they
 * are read and have the type that is read, every index exists. 1; 0 with the clause and the instruction. */
int lang_verify(const ea_lang_program *p, uint32_t *ret_clause, uint32_t *ret_op);

/* 1 when a class is one that a probe names. */
int lang_probe_fits(const probe *p, const ea_class *c);
/* 1 when a process that its fields name is the event's own; 0: another one. */
int lang_has_own_process(const ea_class *c);
/* 1 when the program reads which thread or which process an event is about. */
int lang_needs_threads(const ea_lang_program *p);
/* The top-level field of this name, or field_count. */
size_t lang_field_of(const ea_class *c, const char *name, size_t len_bytes);
/* 1 when a number's name depends on nothing but the number. */
int lang_names_are_fixed(const ea_field *f);
/* The type under which values of a field are read. */
enum lang_type lang_field_type(const ea_field *f);

#endif
