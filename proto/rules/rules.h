/* Sigma rules and filters over events: they are read from YAML (Sigma 2.1), compiled per log source, and run on events
 * that are given as fields and texts. Calls: proto/base, libyaml. Called by: the commands. Thread: a builder and a run
 * belong to their owner; compiled rules are constant and may serve several runs.
 *
 * An event costs one pass over each text for all literals of its field (rules_automaton.h), and the conditions of the
 * rules whose necessary literals were found. Regular expressions and patterns with wildcards inside (rules_regex.h) run
 * on such candidates only. All of it is linear in the event's bytes. docs/internals/rules.md describes it. */
#ifndef EA_RULES_RULES_H
#define EA_RULES_RULES_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EA_RULES_FILE_MAX_BYTES = 1 << 20,
    EA_RULES_VALUES_MAX = 20000,          /* of one rule, after windash and the encodings */
    EA_RULES_TEXT_MAX_BYTES = 2 << 20,    /* of the same values */
    EA_RULES_STATES_MAX = 1 << 19,        /* of one rule's expressions */
    EA_RULES_MEMORY_MAX_BYTES = 64 << 20, /* of one rule while it is read */
    EA_RULES_TESTS_MAX = 1 << 16,         /* of one rule's condition */
    EA_RULES_TAGS_MAX = 64,               /* of one rule */
    EA_RULES_FILTERED_MAX = 1000,         /* rules, and hosts, that one filter names */
    EA_RULES_CORRELATED_MAX = 32,         /* rules, and fields, that one correlation names */
    EA_RULES_SPAN_MAX_S = 30 * 86400,     /* of a correlation */
    EA_RULES_KEPT_MAX_BYTES = 64 << 10    /* of one document's text (ea_rule_info) */
};

/* Why a document is no rule. The place is that of the first byte concerned, both from 1. */
typedef struct ea_rules_problem {
    const char *file; /* borrowed for the call that reports it */
    uint32_t line, column;
    int is_unsupported; /* the rule may be right: this program does not support what it uses */
    char message[400];
} ea_rules_problem;

typedef struct ea_rule_info {
    const char *file;
    uint32_t line;                            /* where the document begins */
    const char *title, *id, *name;            /* "": not given */
    int shares_title;                         /* without an id; an id, or an earlier rule without one, is its title */
    const char *level, *status;               /* the same */
    const char *product, *category, *service; /* "": not given */
    const char *text;                         /* the document, from that line on; the first lines of a long one */
    const char *const *tags;                  /* as they are written: "attack.t1059.001" */
    uint32_t tag_count;
    const char *const *fields; /* that the detection names, each once */
    uint32_t field_count;
    int has_keywords;
    uint32_t group; /* of ea_rules_group */
    int is_part;    /* of a correlation: its matches alone are no detections */
} ea_rule_info;

/* A Sigma filter: a match of the rules that it names is excepted when the filter's condition does not hold. hosts and
 * expires are this program's own. */
typedef struct ea_rule_filter {
    const char *file;
    uint32_t line;
    const char *title, *id;
    int shares_title;         /* likewise, of filters */
    const char *const *rules; /* ids, names or titles of rules of its log source */
    uint32_t rule_count;      /* 0: all rules of its log source */
    const char *const *hosts; /* with * and ? */
    uint32_t host_count;      /* 0: all hosts */
    int64_t end_utc_ns;       /* events from this time on are not excepted; INT64_MAX: it does not expire */
    uint32_t group;           /* of ea_rules_group */
} ea_rule_filter;

enum ea_correlation_type {
    EA_EVENT_COUNT,
    EA_VALUE_COUNT,
    EA_VALUE_SUM,
    EA_VALUE_AVG,
    EA_VALUE_PERCENTILE,
    EA_TEMPORAL,
    EA_TEMPORAL_ORDERED
};

enum {
    EA_RULES_CHAIN_MAX = 8 /* correlations of correlations: so many, one over the other */
};

#define EA_RULES_CORRELATION (UINT32_C(1) << 31)

/* A Sigma correlation: matches of other rules, or of correlations, that are together within a time. */
typedef struct ea_rule_correlation {
    ea_rule_info info; /* its text, title, level, tags and so on; it has no log source, fields and group */
    enum ea_correlation_type type;
    const uint32_t *rules; /* as it names them, each once; EA_RULES_CORRELATION | number: a correlation before it */
    uint32_t rule_count;
    const char *const *fields; /* that must be the same in all of them */
    uint32_t field_count;
    const char *field; /* EA_VALUE_*: whose values are looked at; else "" */
    uint64_t least;    /* matches, values, or what is made of numbers, in one span */
    int is_above;      /* EA_VALUE_AVG: it has to be more than least */
    uint32_t percent;  /* EA_VALUE_PERCENTILE: 1 to 100 */
    int64_t span_ns;
    uint32_t depth; /* 0: it names rules alone, else 1 more than the deepest that it names */
    int generates;  /* what it names makes detections, too */
} ea_rule_correlation;

typedef struct ea_rules_builder ea_rules_builder;
typedef struct ea_rules ea_rules;
typedef struct ea_rules_run ea_rules_run;

EA_MUST_CHECK int ea_rules_builder_create(ea_rules_builder **ret);
void ea_rules_builder_destroy(ea_rules_builder *b); /* NULL is allowed */
/* Reads the documents of a file. For each that is no rule on_problem is called, the others are added. Errors:
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_add(ea_rules_builder *b, const char *file, const char *text, size_t len_bytes,
                               void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg);
/* Compiles what was added. The builder may be destroyed then. Rules that are too large are reported as above, and rules
 * that a filter names and its log source does not have; the filter serves the others. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_build(ea_rules_builder *b, ea_rules **ret,
                                 void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg);
void ea_rules_destroy(ea_rules *r); /* NULL is allowed */

size_t ea_rules_count(const ea_rules *r);
const ea_rule_info *ea_rules_info(const ea_rules *r, uint32_t rule);
size_t ea_rules_bytes(const ea_rules *r); /* what the compiled rules take */
size_t ea_rules_filter_count(const ea_rules *r);
const ea_rule_filter *ea_rules_filter(const ea_rules *r, uint32_t filter);

/* Log sources: rules with the same product, category and service are a group. */
size_t ea_rules_group_count(const ea_rules *r);
/* UINT32_MAX: no rule has it. */
uint32_t ea_rules_group(const ea_rules *r, const char *product, const char *category, const char *service);
/* The number of a field in the group; UINT32_MAX: no rule of the group names it, keywords alone look at it. */
uint32_t ea_rules_field(const ea_rules *r, uint32_t group, const char *name);

/* 1 when the rule's condition can hold although the fields for which has() is 0 are missing in all events. */
EA_MUST_CHECK int ea_rules_can_hold(const ea_rules *r, uint32_t rule, int (*has)(void *arg, const char *field),
                                    void *arg, int *ret);

typedef struct ea_rules_value {
    uint32_t field;   /* of ea_rules_field */
    const char *text; /* UTF-8; a byte that is not is no character: ? and . do not match it */
    size_t len_bytes;
} ea_rules_value;

typedef struct ea_rules_stats {
    uint64_t events, candidates, matches; /* candidates: conditions that were evaluated */
    uint64_t patterns;                    /* runs of regular expressions and of patterns with wildcards inside */
} ea_rules_stats;

/* The rules are borrowed. */
EA_MUST_CHECK int ea_rules_run_create(ea_rules_run **ret, const ea_rules *r);
void ea_rules_run_destroy(ea_rules_run *r); /* NULL is allowed */
/* The rules of the group whose condition holds, in ascending order; valid until the next call. A field may have several
 * values: a condition holds when it holds for one of them. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_run_event(ea_rules_run *r, uint32_t group, const ea_rules_value *values, size_t count,
                                     const uint32_t **ret_rules, size_t *ret_count);
/* A look at events of which some fields are not known yet, so that what brings these is left where no rule can hold. */
typedef struct ea_rules_prospect ea_rules_prospect;

/* unknown: fields of the group; all others are known, or missing in each event. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_prospect_create(ea_rules_prospect **ret, const ea_rules *r, uint32_t group,
                                           const uint32_t *unknown, size_t count);
void ea_rules_prospect_destroy(ea_rules_prospect *p); /* NULL is allowed */
/* values: of the known fields. *ret: 0 when no rule of the group holds, whatever the others have. The condition of a
 * rule costs its number of tests at most. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_run_may(ea_rules_run *r, const ea_rules_prospect *p, const ea_rules_value *values,
                                   size_t count, int *ret);
size_t ea_rules_correlation_count(const ea_rules *r);
const ea_rule_correlation *ea_rules_correlation(const ea_rules *r, uint32_t correlation);
/* The first filter that excepts a rule's match on the event of the last ea_rules_run_event, when it happened on this
 * host at this time; UINT32_MAX: none does. */
uint32_t ea_rules_run_excepted(const ea_rules_run *r, uint32_t rule, const char *host, int64_t utc_ns);
ea_rules_stats ea_rules_run_stats(const ea_rules_run *r);

#endif
