/* A fleet: N generated machines against one collector, from one process.
 *
 *     make.h ──▶ .etl ──▶ service/source ──▶ pipeline ──▶ spool ──▶ sender ──TLS──▶ collector       (a machine's chain)
 *
 * Each machine has its own seed, certificate, stream, ledger, spool, connection and truth, and is the agent's own code
 * from the trace to the collector: nothing of sending is written a second time here. A few player threads keep all
 * machines at their rate; an encoder and a sender thread a machine mostly sleep.
 * Called by: the command line. Output: batches to a collector; tests compare its answers with the truth. Thread: the
 * main one. */
#ifndef EA_TESTS_TRACEGEN_FLEET_H
#define EA_TESTS_TRACEGEN_FLEET_H

#include "proto/base/cli.h"

extern const ea_command tg_fleet_command;

#endif
