/* A batch's stamp as the Ledger message that travels with it. Input: service/spool/ledger.h. Used by: encoder.c.
 * Thread: the encoder's. */
#ifndef EA_BATCH_LEDGER_MESSAGE_H
#define EA_BATCH_LEDGER_MESSAGE_H

#include "proto/base/arena.h"
#include "proto/wire/batch.pb-c.h"
#include "service/batch/builder.h"

/* The message, in the arena; NULL when memory is out. stamp->ledger must be there. */
Etwagent__V1__Ledger *ea_ledger_message(ea_arena *arena, const ea_batch_stamp *stamp);

#endif
