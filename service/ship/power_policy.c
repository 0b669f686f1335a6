/* Power policy. See power_policy.h. */
#include "service/ship/power_policy.h"

#include "proto/base/platform.h"

#include <stdio.h>

const ea_power_policy_facts ea_power_policy_of_machine = {ea_power_is_battery, ea_network_is_metered};

void ea_power_policy_init(ea_power_policy *t, enum ea_sender_pace on_battery, enum ea_sender_pace on_metered,
                          const ea_power_policy_facts *facts, void (*on_note)(void *arg, const char *text), void *arg) {
    *t = (ea_power_policy){.on_battery = on_battery,
                           .on_metered = on_metered,
                           .facts = facts,
                           .on_note = on_note,
                           .on_note_arg = arg,
                           .pace = 0};
}

static void log_pace(const ea_power_policy *t, int first) {
    static const char *const HOW[] = {
        [EA_PACE_NORMAL] = "as always", [EA_PACE_SLOW] = "slowly", [EA_PACE_HOLD] = "nothing for now"};
    char line[200];
    if (!t->on_note)
        return;
    if (first && t->battery < 0)
        t->on_note(t->on_note_arg,
                   "on-battery has no effect: the operating system does not say what powers this machine");
    if (first && t->metered < 0)
        t->on_note(t->on_note_arg,
                   "on-metered has no effect: the operating system does not say what its network costs");
    if (first && t->pace == EA_PACE_NORMAL)
        return;
    snprintf(line, sizeof line, "shipping sends %s%s%s", HOW[t->pace],
             t->battery > 0 && t->on_battery ? "; the machine runs on its battery" : "",
             t->metered > 0 && t->on_metered ? "; its network is metered" : "");
    t->on_note(t->on_note_arg, line);
}

enum ea_sender_pace ea_power_policy_pace(ea_power_policy *t, int64_t now_ns) {
    int first = t->look_at_ns == 0;
    if (!first && now_ns < t->look_at_ns)
        return t->pace;
    t->look_at_ns = now_ns + EA_POWER_POLICY_LOOK_SECONDS * INT64_C(1000000000);
    enum ea_sender_pace before = t->pace, pace = EA_PACE_NORMAL;
    /* what no rule asks for is not looked at */
    t->battery = t->on_battery ? t->facts->on_battery() : 0;
    t->metered = t->on_metered ? t->facts->is_metered() : 0;
    if (t->battery > 0)
        pace = t->on_battery;
    if (t->metered > 0 && t->on_metered > pace)
        pace = t->on_metered;
    t->pace = pace;
    if (first || pace != before)
        log_pace(t, first);
    return pace;
}
