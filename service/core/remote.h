/* What a collector may ask of this agent: requests within the local policy, signed by a key whose public half is
 * configured here.
 *
 *     polled --form, key, signature, host, serial, expiry, policy--> accepted, saved --> windows --> reported
 *
 * An answer counts as that of a hostile collector until its request has passed all of these checks. A refused request
 * is counted by its reason, written to the audit log and reported. A serial must be larger than all serials before it:
 * so no request is accepted twice, and none that is older than an accepted one.
 *
 * FOLDER/requests has the serials, the requests that are open, and reports that no collector has; it is replaced as a
 * whole before a request has an effect. FOLDER/requests.log is the audit log: a line for each decision and result, two
 * files of AUDIT_BYTES.
 * Called by: the agent, "replay", ingest_session.c. Calls: triggers.h, OpenSSL. Thread: as each function says. */
#ifndef EA_CORE_REMOTE_H
#define EA_CORE_REMOTE_H

#include "proto/base/cli.h"
#include "proto/base/counters.h"
#include "service/core/triggers.h"

typedef struct ea_remote ea_remote;

/* The part "remote" of a configuration, and options of a command. */
typedef struct ea_remote_config {
    const char *key;  /* NULL: nothing is accepted, nor asked for */
    ea_strings allow; /* of ea_remote_allowed's words */
    int64_t poll_ns;
} ea_remote_config;

#define EA_REMOTE_KEY_TEXT                                                                                             \
    "file with the public Ed25519 key (PEM) that signs what a collector may ask of this agent; without it nothing is " \
    "accepted"
#define EA_REMOTE_POLL_TEXT "interval at which the collector is asked; refused requests lengthen it, to an hour at most"

/* 1 when a word names something that can be allowed; *ret_kind: enum ea_request_kind. */
int ea_remote_kind(const char *word, uint32_t *ret_kind);

typedef struct ea_remote_options {
    const ea_remote_config *config; /* read at once */
    const char *folder;             /* the spool's; copied */
    ea_counters *counters;          /* borrowed */
} ea_remote_options;

/* EA_EINVAL, EA_ENOTFOUND: the key; EA_ENOMEM, EA_EIO. The main thread. */
EA_MUST_CHECK int ea_remote_create(ea_remote **ret, const ea_remote_options *options, ea_err *err);
/* After all recorders are detached, and the sender ended. NULL is allowed. */
void ea_remote_destroy(ea_remote *r);
/* The name of the agent's certificate, before the sender starts. */
void ea_remote_set_name(ea_remote *r, const char *name);

/* A session's recorder, from which windows are sent. The session's thread; t: until it is detached. */
void ea_remote_attach(ea_remote *r, const char *session, ea_triggers *t);
/* Before t is destroyed. */
void ea_remote_detach(ea_remote *r, const char *session);
/* For ea_triggers_options.on_requested. */
void ea_remote_on_requested(void *remote, const char *session, uint64_t serial, const ea_triggers_outcome *outcome);

/* The body of a poll. The sender's thread, as the next one. */
void ea_remote_ask(void *remote, ea_text *out);
/* The answer to it: its status (0: none came) and body. Returns the time until the next poll. */
int64_t ea_remote_answer(void *remote, long status, const uint8_t *data, size_t len_bytes);

#endif
