/* Techniques of MITRE ATT&CK that rules name in their tags, with the coverage of these rules and what they found: as
 * text, as JSON, as a layer of ATT&CK Navigator (format 4.5). Called by: cmd_rules.c. Calls: rules_coverage.h,
 * collector/state (incidents.h; alarms.db). Thread: the main one. */
#ifndef EC_APP_RULES_ATTACK_H
#define EC_APP_RULES_ATTACK_H

#include "collector/app/rules_coverage.h"
#include "proto/base/text.h"

enum ec_attack_form { EC_ATTACK_TEXT, EC_ATTACK_JSON, EC_ATTACK_LAYER };

/* store: whose detections are counted, of host, or of all when that is NULL; NULL: none are. */
EA_MUST_CHECK int ec_attack_print(ea_text *out, enum ec_attack_form form, const ec_coverage *coverage,
                                  const ea_rules *rules, const char *store, const char *host, ea_err *err);

#endif
