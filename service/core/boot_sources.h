/* What Windows logged at boot for a session with a boot-file, as sources: NAME-boot of the last boot, NAME-boot.1 and
 * so on of earlier ones, as far as they are not in the spool yet. Called by: agent.c. Calls:
 * service/etw/boot_files.h, autologger.h. Thread: the agent's main one. */
#ifndef EA_CORE_BOOT_SOURCES_H
#define EA_CORE_BOOT_SOURCES_H

#include "service/core/config_snapshot.h"
#include "service/core/source_task.h"

/* Ends boot sessions and adds their files to the snapshot's sources; errors are logged. */
void ea_boot_sources_add(ea_config_snapshot *s);
/* Renames or removes each boot file whose events the spool has on disk: it makes room for those of later boots. The
 * file is still open, and no file is open that has the name which it gets. */
void ea_boot_sources_retire(ea_source_tasks *tasks);

#endif
