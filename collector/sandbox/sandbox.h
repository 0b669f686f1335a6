/* What a process gives up before it reads what others wrote: the kernel refuses everything that the process does not
 * need. Called by: the main function of a child (child.h), or a fork before its exec. Calls: the kernel. Thread: the
 * process has one when it enters.
 *
 * The parts, each where the kernel has it: no_new_privs, capabilities (all but those that pass over file modes),
 * Landlock (files that are not listed, TCP, abstract sockets and signals to processes outside), seccomp (a list of
 * allowed system calls; others fail with EPERM, those that this program does not know with ENOSYS). A build with a
 * sanitizer or for coverage has no_new_privs alone, since their runtimes need more. */
#ifndef EC_SANDBOX_SANDBOX_H
#define EC_SANDBOX_SANDBOX_H

#include "proto/base/text.h"

#include <stddef.h>

enum ec_sandbox_access {
    EC_SANDBOX_READ = 1,    /* files are read, folders are listed */
    EC_SANDBOX_SHARE = 2,   /* existing files are read, written, mapped and cut; nothing is made or removed */
    EC_SANDBOX_WRITE = 3,   /* everything, but for programs and devices */
    EC_SANDBOX_EXECUTE = 4, /* programs are started and files are read */
};

/* A file, or a folder with all that is in it. */
typedef struct ec_sandbox_path {
    const char *path; /* NULL: fd says which. One that does not exist is skipped. */
    int fd;           /* an open descriptor, when path is NULL */
    enum ec_sandbox_access access;
} ec_sandbox_path;

enum {
    EC_SANDBOX_LIBRARIES = 1, /* loads shared libraries: memory may become executable */
    EC_SANDBOX_NETWORK = 2,   /* connects to other machines by TCP and UDP; accepts no connection */
    EC_SANDBOX_PROGRAMS = 4,  /* starts programs, which inherit the sandbox, and ends them */
    EC_SANDBOX_MODES = 8,     /* sets the modes of open files (Landlock does not restrict that) */
    EC_SANDBOX_SERVICE = 16,  /* a daemon: listens, starts programs, keeps the capabilities to bind a low port and to
                                 change files of others in its store, and all system calls but those that reach into
                                 other processes or change the system */
    EC_SANDBOX_THREADS = 32,  /* starts threads of its own; no process */
    EC_SANDBOX_PROVIDER = 64, /* has loaded code of others that talks to a device or a daemon: threads, connections and
                                 all system calls but those that start programs, listen, signal others, reach into
                                 other processes or change the system */
    EC_SANDBOX_LINKS = 256,   /* gives files of listed folders further names in listed folders */
    EC_SANDBOX_ALL_FILES = 128, /* Landlock restricts nothing: it is not known which files are needed */
};

typedef struct ec_sandbox {
    unsigned rights;              /* EC_SANDBOX_... or 0 */
    const ec_sandbox_path *paths; /* borrowed during the call */
    size_t path_count;
} ec_sandbox;

/* Gives up everything else, for good, for this process and all that it starts. Allocates nothing, so that it may be
 * called between fork and exec. A part that the kernel lacks is skipped (ec_sandbox_probe says which); any other
 * failure is an error, and the caller must end: EA_EIO, EA_ELIMIT (more paths than descriptors). */
EA_MUST_CHECK int ec_sandbox_enter(const ec_sandbox *s, ea_err *err);

/* Parts, as metrics and doctor name them. */
#define EC_SANDBOX_PARTS(X)                                                                                            \
    X(NO_NEW_PRIVS, "no_new_privs", "no program gives the process more rights")                                        \
    X(SECCOMP, "seccomp", "only listed system calls")                                                                  \
    X(FILES, "landlock_files", "only listed files")                                                                    \
    X(TCP, "landlock_tcp", "no TCP without need")                                                                      \
    X(SCOPE, "landlock_scope", "no signal and no abstract socket to a process outside")

enum ec_sandbox_part {

#define X(id, name, text) EC_SANDBOX_HAS_##id,
    EC_SANDBOX_PARTS(X)
#undef X
        EC_SANDBOX_PART_COUNT
};

typedef struct ec_sandbox_support {
    int has[EC_SANDBOX_PART_COUNT];
    int landlock_version; /* 0: none */
    const char *why;      /* why seccomp or Landlock's files are missing; "" when both are there */
} ec_sandbox_support;

/* What ec_sandbox_enter would apply in this process's children. Changes nothing. Thread: any. */
void ec_sandbox_probe(ec_sandbox_support *ret);
/* "no_new_privs, seccomp, ..." appended to t, with what is missing and why. */
void ec_sandbox_describe(const ec_sandbox_support *s, ea_text *t);
const char *ec_sandbox_part_name(enum ec_sandbox_part part);

#endif
