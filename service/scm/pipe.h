/* A named pipe that answers each client with one text, and its client: how "etwagent status" asks a running service.
 * Local clients only, and of those administrators and the system (the pipe's access list). Server: the service. Client:
 * another process of this machine. Thread: the server has its own. */
#ifndef EA_SCM_PIPE_H
#define EA_SCM_PIPE_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#define EA_STATUS_PIPE "\\\\.\\pipe\\etwagent"

enum { EA_PIPE_MAX_BYTES = 1 << 20 };

typedef struct ea_pipe ea_pipe;
typedef void ea_pipe_answer(void *arg, ea_text *out); /* the server's thread */

/* EA_EEXIST: a pipe of this name exists. */
EA_MUST_CHECK int ea_pipe_serve(ea_pipe **ret, const char *name, ea_pipe_answer *answer, void *arg, ea_err *err);
void ea_pipe_close(ea_pipe *p); /* NULL is allowed; waits for its thread */

/* Appends the service's answer to out. EA_ENOTFOUND: there is no such pipe. EA_EREFUSED: this user has no access, or
 * the pipe's server is another process than the one in which the service control manager runs the service. EA_ETIMEOUT:
 * no complete answer within 5 s. */
EA_MUST_CHECK int ea_pipe_ask(const char *name, ea_text *out, ea_err *err);

#endif
