/* The syntax tree of a program: made by lang_parse.c in an arena, checked and compiled by lang_compile.c.
 * Thread: the compiler's. */
#ifndef EA_LANG_LANG_AST_H
#define EA_LANG_LANG_AST_H

#include "proto/base/arena.h"
#include "proto/lang/lang.h"

#include <setjmp.h>

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_AGGREGATION, /* @ and a name, which may be empty */
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_TEXT,
    TOKEN_PUNCTUATION, /* one to three characters, packed into `op`: OP2('=', '=') */
};

#define OP1(a)       ((uint32_t)(unsigned char)(a))
#define OP2(a, b)    (OP1(a) | OP1(b) << 8)
#define OP3(a, b, c) (OP2(a, b) | OP1(c) << 16)

typedef struct span {
    const char *text;
    size_t len_bytes;
} span;

typedef struct token {
    enum token_kind kind;
    uint32_t op;
    uint32_t at, end; /* offsets in the text */
    span text;        /* a name; a text without its quotes and escapes */
    uint64_t number;
    double real;
} token;

/* A compilation: the text, the arena, and the place to which the first problem leads. */
typedef struct lang_source {
    const char *text;
    size_t len_bytes;
    ea_arena arena;
    ea_lang_problem *problem;
    const char *const *args; /* of $1, $2 ... */
    size_t arg_count;
    jmp_buf out;
    int rc;
} lang_source;

/* Notes a problem at an offset and leaves the compilation. */
_Noreturn void lang_fail(lang_source *s, uint32_t at, const char *format, ...) EA_PRINTF(3, 4);
/* Leaves it with EA_ENOMEM. */
void *lang_alloc(lang_source *s, size_t count, size_t size_bytes);

/* Where the next token begins. */
uint32_t lang_skip_space(lang_source *s, uint32_t at);
/* Reads the token at *in_out_at, and moves there to its end. */
token lang_lex(lang_source *s, uint32_t *in_out_at);

static inline int span_is(span a, const char *s) {
    size_t i = 0;
    while (i < a.len_bytes && s[i] && a.text[i] == s[i])
        i++;
    return i == a.len_bytes && !s[i];
}

static inline int span_equal(span a, span b) {
    if (a.len_bytes != b.len_bytes)
        return 0;
    for (size_t i = 0; i < a.len_bytes; i++)
        if (a.text[i] != b.text[i])
            return 0;
    return 1;
}

enum node_kind {
    NODE_INT,
    NODE_FLOAT,
    NODE_TEXT,
    NODE_NAME,        /* text: a value, a variable or a field */
    NODE_MEMBER,      /* base . text: this.x, self.x, parent.execname, event.Field */
    NODE_INDEX,       /* text [args]: a map's value */
    NODE_AGGREGATION, /* @text [args] */
    NODE_CALL,        /* text (args) */
    NODE_UNARY,
    NODE_BINARY,
    NODE_CONDITIONAL, /* a ? b : c */
    NODE_NAMED,       /* text = a: an argument of emit */
    NODE_TRIGGER,     /* text (args): the name, and then numbers: before, after, most, per, cooldown */
};

typedef struct node {
    enum node_kind kind;
    uint32_t op; /* as of a token */
    uint32_t at, end;
    span text, base;
    uint64_t number;
    double real;
    struct node *a, *b, *c;
    struct node **args; /* keys or arguments */
    span *texts;        /* of each, as it is written */
    uint32_t arg_count;
} node;

enum statement_kind { STATEMENT_ASSIGN, STATEMENT_AGGREGATE, STATEMENT_IF, STATEMENT_CALL };

typedef struct statement {
    enum statement_kind kind;
    uint32_t at;
    uint32_t op;                   /* of an assignment: of +=, +; 0: = alone */
    node *target, *value;          /* of STATEMENT_IF: value is the condition; of the others: value is the call */
    struct statement *body, *rest; /* of STATEMENT_IF */
    struct statement *next;
} statement;

enum probe_kind { PROBE_CLASS, PROBE_BEGIN, PROBE_END, PROBE_TICK, PROBE_UNMATCHED, PROBE_MISSING };

typedef struct probe {
    enum probe_kind kind;
    uint32_t at;
    span provider; /* a pattern, or a GUID; empty: any */
    span name;     /* a pattern */
    span whole;    /* all of it: names of classes may have colons */
    int has_code;
    uint16_t code;
    int64_t interval_ns;
    const char *subject; /* the field that names the thread that the event is about; NULL: the usual rule */
    struct probe *next;
} probe;

typedef struct clause {
    uint32_t at;
    probe *probes;
    node *condition; /* NULL: none */
    statement *body;
    struct clause *next;
    uint32_t number;
} clause;

/* 1 when a text fits a pattern: * is any text, ? any character; ASCII letters of either case are alike. */
int lang_glob(span pattern, const char *text, size_t len_bytes);

/* The clauses in their order. Leaves by lang_fail. */
clause *lang_parse(lang_source *s);

/* One expression; leaves by lang_fail when the text goes on after it. */
void lang_parse_expression(lang_source *s);

/* DTrace's name of a probe (three colons) as classes of ours: adds probes to *list; 0 when there is no such alias. */
int lang_alias(lang_source *s, span name, uint32_t at, probe **list);
/* The alias that is nearest to a name, or NULL. */
const char *lang_alias_nearest(span name);

#endif
