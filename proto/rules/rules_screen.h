/* Whether a rule of a group can hold for events whose values come again and again, as columns have them: each distinct
 * value is looked at once and gets a kind, equal for values that set the same atoms; each combination of kinds is
 * judged once (ea_rules_run_may). Called by: collector/detect. Calls: rules_run.c. Thread: the run's owner's.
 *
 * The kinds of an event's values, in an order that is always the same, are one number: begin with 0, and put one kind
 * after the other (ea_rules_screen_put). */
#ifndef EA_RULES_RULES_SCREEN_H
#define EA_RULES_RULES_SCREEN_H

#include "proto/rules/rules.h"

typedef struct ea_rules_screen ea_rules_screen;

enum {
    EA_RULES_SCREEN_MISSING = 0,               /* the kind of a value that is not there */
    EA_RULES_SCREEN_MEMORY_MAX = 8 << 20,      /* bytes of texts and atoms; then further values have no kind */
    EA_RULES_SCREEN_COMBINATIONS_MAX = 1 << 18 /* likewise; about 8 MiB */
};

#define EA_RULES_SCREEN_NONE UINT32_MAX /* no kind: there is no room, or another one of the event has none */

/* rules, run: borrowed. unknown: as ea_rules_prospect_create. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_screen_create(ea_rules_screen **ret, const ea_rules *rules, ea_rules_run *run,
                                         uint32_t group, const uint32_t *unknown, size_t count);
void ea_rules_screen_destroy(ea_rules_screen *s); /* NULL is allowed */
/* Makes room, when there is little of it: all kinds begin anew. 1: what the caller remembers of kinds is void. */
int ea_rules_screen_tidy(ea_rules_screen *s);
/* The kind of a value of a known field. */
uint32_t ea_rules_screen_kind(ea_rules_screen *s, const ea_rules_value *value);
uint32_t ea_rules_screen_put(ea_rules_screen *s, uint32_t before, uint32_t kind);
/* The judgement of a combination: 1 a rule can hold, 0 none can, -1 it was not judged yet. */
int ea_rules_screen_known(const ea_rules_screen *s, uint32_t combination);
/* Judges an event of that combination by its values. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_rules_screen_judge(ea_rules_screen *s, uint32_t combination, const ea_rules_value *values,
                                        size_t count, int *ret);

#endif
