/* What files of the system a process needs that loads libraries, or connects to other machines. Called by: what makes a
 * sandbox's list of paths. Thread: any. */
#ifndef EC_SANDBOX_SYSTEM_PATHS_H
#define EC_SANDBOX_SYSTEM_PATHS_H

#include "collector/sandbox/sandbox.h"

enum { EC_SYSTEM_PATHS = 8, EC_NETWORK_PATHS = 15 };

/* Programs and libraries of the system, and devices without a state. */
extern const ec_sandbox_path EC_SANDBOX_SYSTEM[EC_SYSTEM_PATHS];
/* How host names become addresses, and which certificates are trusted. */
extern const ec_sandbox_path EC_SANDBOX_NAMES[EC_NETWORK_PATHS];

#endif
