/* What the parts of proto/rules share: rules as they were read, and as they are compiled. See rules.h. */
#ifndef EA_RULES_RULES_PARTS_H
#define EA_RULES_RULES_PARTS_H

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/rules/rules.h"
#include "proto/rules/rules_automaton.h"
#include "proto/rules/rules_regex.h"

#include <setjmp.h>

/* ---- as read ---- */
typedef struct rules_number {
    int is_integer, is_negative;
    uint64_t magnitude; /* of an integer */
    double real;
} rules_number;

typedef struct rules_address {
    uint8_t bytes[16]; /* IPv4: the first four */
    uint8_t bits;      /* 32, 128; of a network: its length */
    uint8_t is_v6;
} rules_address;

/* A text with wildcards. wild[i]: 0, '*', '?'. */
typedef struct rules_string {
    char *text, *wild;
    uint32_t len_bytes;
} rules_string;

enum rules_leaf_kind {
    RULES_LEAF_STRING,
    RULES_LEAF_REGEX,
    RULES_LEAF_CIDR,
    RULES_LEAF_NUMBER,
    RULES_LEAF_FIELD,
    RULES_LEAF_EXISTS
};

enum rules_compare { RULES_LT, RULES_LTE, RULES_GT, RULES_GTE };

typedef struct rules_leaf {
    enum rules_leaf_kind kind;
    const char *field; /* NULL: keywords, which all fields are searched for */
    rules_string string;
    int is_cased;
    unsigned flags; /* of a regular expression */
    rules_number number;
    enum rules_compare compare;
    rules_address network;
    const char *other;      /* the other field */
    enum rules_place place; /* how it is compared with the other field */
} rules_leaf;

enum rules_expr_kind { RULES_AND, RULES_OR, RULES_NOT, RULES_LEAF };

struct rules_node;

typedef struct rules_expr {
    enum rules_expr_kind kind;
    rules_leaf leaf;
    struct rules_expr **children;
    uint32_t count;
    struct rules_node *node; /* as compiled; NULL: not yet */
} rules_expr;

typedef struct rules_rule {
    ea_rule_info info;
    uint32_t column; /* of the condition */
    uint32_t condition_line;
    rules_expr *condition;
    ea_rule_correlation *correlation; /* the document is one; it has no condition */
    const char *const *names;         /* of its rules */
    uint32_t name_count;
    ea_rule_filter *filter; /* the document is one: the condition is that of its exceptions; NULL: a rule */
    struct rules_rule *next;
    ea_arena memory; /* all of the above is in it */
} rules_rule;

struct ea_rules_builder {
    ea_arena arena; /* of the names of files; each rule has its own, so that of a refused one nothing stays */
    rules_rule *first, **last;
    ea_bytes_map by_id;                            /* those that have an id: the rule */
    size_t count, filter_count, correlation_count; /* documents; those that are no rules */
    size_t used_bytes, text_bytes; /* of all rules: their memory; their values, as rules_reading has them */
};

/* What reads a document; rules_fail ends it. */
typedef struct rules_reading {
    ea_arena *arena;
    ea_arena *scratch; /* of expressions that are compiled to see whether they are right */
    ea_rules_problem *problem;
    uint32_t line; /* where the document begins */
    size_t value_count;
    size_t text_bytes;  /* of its values, after windash and the encodings */
    size_t state_count; /* of its regular expressions */
    int code;
    jmp_buf failed;
} rules_reading;

_Noreturn void rules_fail(rules_reading *r, uint32_t line, uint32_t column, const char *format, ...) EA_PRINTF(4, 5);
/* The same where the rule may be right. */
_Noreturn void rules_refuse(rules_reading *r, uint32_t line, uint32_t column, const char *format, ...) EA_PRINTF(4, 5);
void *rules_take(rules_reading *r, size_t count, size_t size);
rules_expr *rules_expr_new(rules_reading *r, enum rules_expr_kind kind, uint32_t child_count);

/* A scalar of the document. */
typedef struct rules_scalar {
    const char *text;
    size_t len_bytes;
    uint32_t line, column;
    int is_null; /* not quoted, and empty, ~ or null */
} rules_scalar;

/* `key` is a field with modifiers; key.text has a NUL after it. Each value is a scalar. */
rules_expr *rules_item(rules_reading *r, rules_scalar key, const rules_scalar *values, size_t count);

typedef struct rules_named {
    const char *name;
    rules_expr *expr;
} rules_named;

/* from_column: the column of the text's first byte. */
rules_expr *rules_condition(rules_reading *r, rules_scalar text, uint32_t from_column, const rules_named *names,
                            size_t count);

/* 1 when the text is one. */
int rules_number_parse(const char *text, size_t len_bytes, rules_number *ret);
int rules_address_parse(const char *text, size_t len_bytes, rules_address *ret);
int rules_number_compare(const rules_number *a, enum rules_compare compare, const rules_number *b);

/* ---- as compiled ---- */
enum rules_atom_kind {
    RULES_ATOM_EXISTS,
    RULES_ATOM_EMPTY,
    RULES_ATOM_LIST, /* one of several literals: set by the automaton */
    RULES_ATOM_CIDR,
    RULES_ATOM_PATTERN, /* from here on: evaluated when a condition asks for it */
    RULES_ATOM_NUMBER,
    RULES_ATOM_FIELD
};

typedef struct rules_atom {
    uint8_t kind;
    uint8_t how;      /* enum rules_compare, enum rules_place */
    uint32_t field;   /* of the group; UINT32_MAX: keywords */
    uint32_t gate;    /* of a pattern: 1 + the atom that has to hold first; 0: none */
    uint32_t pattern; /* its number in all rules */
    uint32_t other;   /* the other field */
    rules_number number;
} rules_atom;

/* Networks of one length of a field, sorted. */
typedef struct rules_network {
    rules_address address;
    uint32_t atom;
} rules_network;

typedef struct rules_field {
    const char *name;
    rules_automaton automaton;
    uint32_t exists, empty; /* 1 + the atom; 0: none */
    const rules_network *networks;
    uint32_t network_count;
} rules_field;

enum { RULES_HOLDS = UINT32_MAX, RULES_FAILS = UINT32_MAX - 1 };

/* An atom is tested: where to go on. Targets are lower than the test's own number. */
typedef struct rules_test {
    uint32_t atom, yes, no;
} rules_test;

typedef struct rules_program {
    const rules_test *tests;
    uint32_t start;
    uint32_t rule; /* or RULES_FILTER and the filter */
} rules_program;

enum { RULES_FILTER = 1 << 30 };

typedef struct rules_group {
    const char *product, *category, *service;
    rules_field *fields;
    uint32_t field_count;
    ea_bytes_map numbers; /* of fields: name to 1 + number */
    rules_automaton keywords;
    uint32_t any; /* 1 + the atom that is true of an event with a value; 0: none */
    rules_atom *atoms;
    uint32_t atom_count;
    uint32_t *triggers;   /* programs of the group, by the atoms that make them candidates */
    uint32_t *trigger_at; /* where an atom's begin; the next atom's are their end */
    rules_program *programs;
    uint32_t program_count;
    uint32_t *always; /* programs that no atom makes candidates */
    uint32_t always_count;
    uint32_t output_max; /* marks of the largest automaton */
} rules_group;

struct ea_rules {
    ea_arena arena;
    ea_rule_info *infos;
    size_t count;
    ea_rule_filter *filters;
    size_t filter_count;
    ea_rule_correlation *correlations;
    size_t correlation_count;
    uint32_t *program_of; /* of each rule in its group */
    rules_group *groups;
    size_t group_count;
    rules_nfa *patterns;
    size_t pattern_count;
};

/* 1 when the text is the rule's id, name or title. */
int rules_is_named(const ea_rule_info *info, const char *text);
/* 1 when the filter's exceptions are for this rule, host and time. */
int rules_filter_is_for(const ea_rule_filter *f, const ea_rule_info *info, const char *host, int64_t utc_ns);
/* The atoms that a value of the group sets by itself, ascending, each once; borrowed until the run's next call. Errors:
 * EA_ENOMEM. */
EA_MUST_CHECK int rules_run_atoms(ea_rules_run *r, uint32_t group, const ea_rules_value *v, const uint32_t **ret,
                                  size_t *ret_count);

#endif
