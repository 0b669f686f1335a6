/* A configuration as it was read, kept until nothing that runs uses it any more, and what differs between two.
 * Called by: agent.c, source_task.c, boot_sources.c. Calls: agent_config.h, labels.h. Thread: the agent's main one. */
#ifndef EA_CORE_CONFIG_SNAPSHOT_H
#define EA_CORE_CONFIG_SNAPSHOT_H

#include "proto/base/arena.h"
#include "service/core/agent_config.h"

typedef struct ea_config_snapshot {
    ea_config *memory;
    ea_agent_config c; /* with the sources that are made of sessions' boot files (boot_sources.h) */
    ea_arena arena;    /* of labels, and of those sources */
    ea_labels labels;  /* with their values */
    unsigned users;
    unsigned *boot_files_lost; /* of each session, until its ledger has them; NULL: there is no session */
} ea_config_snapshot;

/* Reads a file; its mistakes, labels and sessions that are left out are logged. The caller is its first user. Errors:
 * what ea_config_read says; EA_EUSAGE when there are sources and no collector. */
EA_MUST_CHECK int ea_config_snapshot_read(ea_config_snapshot **ret, const char *path, ea_err *err);
/* Takes away one user; the last one frees it. NULL is allowed. */
void ea_config_snapshot_release(ea_config_snapshot *s);

/* 0: it is of an event log, which this system does not have. */
int ea_config_can_run(const ea_file_source_config *source);
/* How many sources this program can run, and how many sources and sessions. */
size_t ea_config_runnable_sources(const ea_agent_config *c);
size_t ea_config_runnable(const ea_agent_config *c);

/* Which parts differ, with what depends on them. */
typedef struct ea_config_changes {
    int shipping; /* the spool and the sender begin anew */
    int sources;  /* every source and session begins anew */
    int labels;   /* they go out with the next batches */
} ea_config_changes;

ea_config_changes ea_config_snapshot_compare(const ea_config_snapshot *before, const ea_config_snapshot *after);
/* 1 when a source or session (the other one is NULL) is in another snapshot as well, with nothing that differs. */
int ea_config_snapshot_has_same_source(const ea_config_snapshot *s, const ea_file_source_config *source,
                                       const ea_session_config *session);

#endif
