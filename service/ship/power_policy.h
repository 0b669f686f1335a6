/* Power policy: how fast batches are sent while the machine runs on its battery, or while its network is metered. What
 * waits meanwhile stays in the spool, within the spool's bounds. Input: the configuration, the operating system. Used
 * by: the sender, before each request. Thread: the sender's, after ea_power_policy_init. */
#ifndef EA_SHIP_POWER_POLICY_H
#define EA_SHIP_POWER_POLICY_H

#include "service/ship/sender.h"

/* The functions that answer: 1, 0, or -1 for unknown. */
typedef struct ea_power_policy_facts {
    int (*on_battery)(void);
    int (*is_metered)(void);
} ea_power_policy_facts;

extern const ea_power_policy_facts ea_power_policy_of_machine;

enum { EA_POWER_POLICY_LOOK_SECONDS = 15 }; /* between two looks */

typedef struct ea_power_policy {
    enum ea_sender_pace on_battery, on_metered;
    const ea_power_policy_facts *facts;
    void (*on_note)(void *arg, const char *text); /* called at each change; may be NULL */
    void *on_note_arg;
    int64_t look_at_ns;       /* monotonic; 0: not yet */
    int battery, metered;     /* the last answers; -1: unknown */
    enum ea_sender_pace pace; /* the result */
} ea_power_policy;

/* Rules of the configuration. facts is borrowed. */
void ea_power_policy_init(ea_power_policy *t, enum ea_sender_pace on_battery, enum ea_sender_pace on_metered,
                          const ea_power_policy_facts *facts, void (*on_note)(void *arg, const char *text), void *arg);
/* The slower one of the rules that hold at now_ns (monotonic). */
enum ea_sender_pace ea_power_policy_pace(ea_power_policy *t, int64_t now_ns);

#endif
