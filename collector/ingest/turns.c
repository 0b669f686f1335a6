/* The order in which uploads are served. See turns.h. */
#include "collector/ingest/turns.h"

#include <string.h>

void ec_turns_add(ec_turns *t, ec_upload *u) {
    u->turn = t->turn + 1;
    for (const ec_upload *v = t->first; v; v = v->next)
        if (v->turn >= u->turn && strcmp(v->agent, u->agent) == 0)
            u->turn = v->turn + 1;
    ec_upload **at = &t->first;
    while (*at && (*at)->turn <= u->turn)
        at = &(*at)->next;
    u->next = *at;
    *at = u;
    t->count++;
    t->len_bytes += u->len_bytes;
}

ec_upload *ec_turns_take(ec_turns *t, ec_upload **at) {
    ec_upload *u = *at;
    *at = u->next;
    u->next = NULL;
    if (u->turn > t->turn)
        t->turn = u->turn;
    t->count--;
    t->len_bytes -= u->len_bytes;
    return u;
}

int ec_turns_have_other(const ec_upload *list, const char *agent) {
    for (; list; list = list->next)
        if (strcmp(list->agent, agent) != 0)
            return 1;
    return 0;
}
