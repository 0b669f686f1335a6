/* The agent as a Windows service: what the service control manager (SCM) asks of it, and putting it into the SCM's
 * database. Called by: the SCM, or a person at "etwagent install". Calls: service/app. Thread: as each function says.
 */
#ifndef EA_SCM_SCM_H
#define EA_SCM_SCM_H

#include "proto/base/err.h"

#define EA_SERVICE_NAME         "etwagent"
#define EA_SERVICE_DISPLAY_NAME "etwagent event tracing"

/* What the SCM asks of a running service. */
enum ea_service_request {
    EA_SERVICE_STOP,     /* end; what waits may be sent for a moment */
    EA_SERVICE_SHUTDOWN, /* the machine goes down: force everything to the disk and end */
    EA_SERVICE_RELOAD,   /* SERVICE_CONTROL_PARAMCHANGE */
    EA_SERVICE_FLUSH,    /* EA_SERVICE_CONTROL_FLUSH; also before the machine sleeps and after it wakes */
    EA_SERVICE_STATUS,   /* EA_SERVICE_CONTROL_STATUS */
};

/* User-defined controls, for "sc control etwagent N". */
enum { EA_SERVICE_CONTROL_FLUSH = 200, EA_SERVICE_CONTROL_STATUS = 201 };

typedef struct ea_service {
    void *arg;
    int (*run)(void *arg, ea_err *err);                             /* until asked to end; the service's thread */
    void (*on_request)(void *arg, enum ea_service_request request); /* must not block; the SCM's thread */
} ea_service;

/* Hands the process to the SCM and returns when the service has ended. Only for a process that the SCM started:
 * elsewhere Windows lets it wait for seconds and fails it. The main thread; one at a time. */
EA_MUST_CHECK int ea_service_main(const ea_service *service, ea_err *err);

/* Calls on_note(arg, line) for each step that this Windows refused and that installing goes past. */
typedef struct ea_service_report {
    void (*on_note)(void *arg, const char *line);
    void *arg;
} ea_service_report;

/* Puts the service into the SCM's database, started with the machine (delayed) as
 *     "PROGRAM" service --config "CONFIG"
 * or brings one that is there to this state. Restarts after a crash, a service SID, only the privileges that sessions
 * need, time to flush at shutdown; the source of its messages in the event log. program, config: full paths. */
EA_MUST_CHECK int ea_service_install(const char *program, const char *config, const ea_service_report *report,
                                     ea_err *err);
/* The part of it that an MSI leaves to us, on the service that is there: recovery, SID, privileges, preshutdown. */
EA_MUST_CHECK int ea_service_harden(const ea_service_report *report, ea_err *err);
/* Stops it and takes it out. EA_ENOTFOUND when it is not there. */
EA_MUST_CHECK int ea_service_uninstall(const ea_service_report *report, ea_err *err);
/* Start or stop it and wait until it is so, as long as it says that it makes progress. */
EA_MUST_CHECK int ea_service_start(ea_err *err);
EA_MUST_CHECK int ea_service_stop(ea_err *err);
/* A control to the running service: SERVICE_CONTROL_PARAMCHANGE, or one of the above. */
EA_MUST_CHECK int ea_service_request_send(enum ea_service_request request, ea_err *err);

#endif
