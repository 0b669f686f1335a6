/* Cells and parameters in messages between a query and its process: the type, then a number or bytes. Called by: ask.c,
 * worker.c. Calls: collector/sandbox/message.h. Thread: any. */
#ifndef EC_QUERY_SQL_VALUE_MESSAGE_H
#define EC_QUERY_SQL_VALUE_MESSAGE_H

#include "collector/query/scan/scan.h"
#include "collector/sandbox/message.h"

void ec_message_value(ea_text *t, const ec_value *v);
/* Text and bytes point into the message, and no NUL follows them. An unknown type makes the message failed. */
ec_value ec_message_get_value(ec_message *m);

#endif
