/* See account_facts.h; the layout is in proto/event/classes/image_file.c. */
#include "proto/state/account_facts.h"

#include <string.h>

void ea_account_facts_write(ea_text *payload, const char *sid, const char *account) {
    ea_text_clear(payload);
    ea_text_add(payload, sid, strlen(sid) + 1);
    ea_text_add(payload, account, strlen(account) + 1);
}
