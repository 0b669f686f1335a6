/* Files that a confined process reads when it connects by names and TLS: libraries, how host names become addresses,
 * which certificates are trusted. Called by: the processes that connect (symbol_confine.c, send_worker.c). Thread:
 * any. */
#ifndef EC_SANDBOX_NETWORK_FILES_H
#define EC_SANDBOX_NETWORK_FILES_H

#include "collector/sandbox/sandbox.h"

enum { EC_NETWORK_FILES = 23 };

/* Fills ret, which has room for EC_NETWORK_FILES; returns their number. The paths are constant. */
size_t ec_network_files(ec_sandbox_path *ret);

#endif
