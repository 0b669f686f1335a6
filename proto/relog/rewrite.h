/* Members of records set to expressions of the query language: fields of the payload, and members of the header.
 * Input: records with their classes, in the order of the trace. Called by: `etwagent relog --set`. Calls: proto/lang,
 * proto/event (encoding). Thread: its owner's.
 *
 * A rule is "CLASS: TARGET = EXPRESSION". CLASS is a probe of the language, TARGET a field of the payload or one of the
 * header's members below; where a field has such a name, event.NAME is the field. The expression sees the record as it
 * was read, whatever other rules set.
 * - A number, a fraction or a text goes to a field that holds such a value; a GUID is set from its text. Values that
 *   have no room in their field are an error, not cut. The length of a text that another field counts is set with it.
 * - Times are ns since 1970 (UTC) and spans ns, in fields too that hold ticks, as the language shows them.
 * - A kernel header that has no place for a member becomes that of a classic event (FULL). */
#ifndef EA_RELOG_REWRITE_H
#define EA_RELOG_REWRITE_H

#include "proto/lang/lang_where.h"

/* X(its name, the least value, the greatest one) of numbers; provider and activity are texts. */
#define EA_REWRITE_HEADER(X)                                                                                           \
    X(pid, -1, UINT32_MAX)                                                                                             \
    X(tid, -1, UINT32_MAX)                                                                                             \
    X(cpu, 0, UINT16_MAX)                                                                                              \
    X(time, INT64_MIN, INT64_MAX)                                                                                      \
    X(id, 0, UINT16_MAX)                                                                                               \
    X(version, 0, UINT8_MAX)                                                                                           \
    X(channel, 0, UINT8_MAX)                                                                                           \
    X(level, 0, UINT8_MAX)                                                                                             \
    X(opcode, 0, UINT8_MAX)                                                                                            \
    X(task, 0, UINT16_MAX)                                                                                             \
    X(keyword, 0, INT64_MAX)                                                                                           \
    X(provider, 0, 0)                                                                                                  \
    X(activity, 0, 0)

typedef struct ea_rewrite ea_rewrite;

typedef struct ea_rewrite_counts {
    uint64_t values; /* that were set */
    uint64_t absent; /* the record lacked the field, or a value of the expression */
} ea_rewrite_counts;

/* Compiles the rules. A mistake is printed, and is EA_EUSAGE. classes are borrowed during the call. */
EA_MUST_CHECK int ea_rewrite_create(ea_rewrite **ret, const ea_strings *rules, ea_lang_classes *classes, ea_err *err);
void ea_rewrite_destroy(ea_rewrite *x); /* NULL is allowed */

/* Before the first record. clock: of all records; copied. */
EA_MUST_CHECK int ea_rewrite_begin(ea_rewrite *x, const ea_clock *clock, ea_err *err);
/* Each record of the trace, so that the state of the machine is known: before it is applied. */
EA_MUST_CHECK int ea_rewrite_note(ea_rewrite *x, const ea_record *r, const ea_class *c, ea_err *err);
/* The record as the rules want it; *ret borrows from r and from x until the next call. 1: something was set; 0:
 * nothing, and *ret is r. EA_EUSAGE: a value is not one of its target. */
EA_MUST_CHECK int ea_rewrite_apply(ea_rewrite *x, const ea_record *r, const ea_class *c, ea_record *ret, ea_err *err);
/* After the last record. EA_ENOTFOUND: no event of a rule's class that came has the rule's field. */
EA_MUST_CHECK int ea_rewrite_check(const ea_rewrite *x, ea_err *err);

const ea_rewrite_counts *ea_rewrite_count(const ea_rewrite *x);

#endif
