/* What differs between operating systems, in one place: threads, time, files, randomness, the terminal.
 * platform_posix.c and platform_windows.c implement it. Only files that are built on Windows alone include windows.h.
 * Used by: every folder. Thread: any, unless a function says otherwise. */
#ifndef EA_BASE_PLATFORM_H
#define EA_BASE_PLATFORM_H

#include "proto/base/err.h"
#include "proto/base/thread_safety.h"

#include <stddef.h>
#include <stdint.h>

/* ---- threads ---- */
typedef struct ea_thread ea_thread;
struct EA_CAPABILITY("mutex") ea_mutex;
typedef struct ea_mutex ea_mutex;
typedef struct ea_cond ea_cond;
typedef struct ea_wake ea_wake;

/* Starts fn(arg) on a new thread named name (at most 15 characters are kept). ea_thread_join waits and frees it. */
EA_MUST_CHECK int ea_thread_start(ea_thread **ret, const char *name, void (*fn)(void *), void *arg, ea_err *err);
void ea_thread_join(ea_thread *thread); /* takes thread; NULL is allowed */
/* Frees the thread's object in place of a join: no thread waits for its end. Call this only when fn has begun. */
void ea_thread_leave(ea_thread *thread);

/* The priority of threads that do bulk work (encoding, sending), beside the machine's other work. The setting is the
 * process's and counts for threads that call ea_thread_is_bulk, at their start, after it; a platform that refuses
 * leaves them as they are. */
enum ea_bulk_priority {
    EA_BULK_NORMAL,     /* like all others; so it is before the first call */
    EA_BULK_LOW,        /* after others at the processor and, on Linux, at the disk */
    EA_BULK_BACKGROUND, /* last at processor, disk and (on Windows) memory */
};

void ea_set_bulk_priority(enum ea_bulk_priority priority);
void ea_thread_is_bulk(void);

EA_MUST_CHECK int ea_mutex_create(ea_mutex **ret, ea_err *err);
void ea_mutex_destroy(ea_mutex *m);
void ea_mutex_lock(ea_mutex *m) EA_ACQUIRE(m);
void ea_mutex_unlock(ea_mutex *m) EA_RELEASE(m);
/* Checks that the calling thread holds the mutex. Like EA_ASSERT it does nothing in builds without EA_ASSERTIONS. */
#if defined(EA_ASSERTIONS)
void ea_mutex_assert_held(ea_mutex *m) EA_ASSERT_CAPABILITY(m);
#else
#define ea_mutex_assert_held(m) ((void)sizeof(m))
#endif
EA_MUST_CHECK int ea_cond_create(ea_cond **ret, ea_err *err);
void ea_cond_destroy(ea_cond *c);
void ea_cond_wait(ea_cond *c, ea_mutex *m) EA_REQUIRES(m);
/* Waits at most timeout_ns; returns 0 when it was woken, EA_ETIMEOUT otherwise. Spurious wake-ups happen. */
int ea_cond_wait_for(ea_cond *c, ea_mutex *m, int64_t timeout_ns) EA_REQUIRES(m);
void ea_cond_signal(ea_cond *c);
void ea_cond_broadcast(ea_cond *c);

/* Ends the wait of one thread. Unlike a condition it may be set by a signal handler. */
EA_MUST_CHECK int ea_wake_create(ea_wake **ret, ea_err *err);
void ea_wake_destroy(ea_wake *w); /* NULL is allowed */
void ea_wake_set(ea_wake *w);     /* NULL is allowed; a wait that begins later ends at once */
/* Waits at most timeout_ns, or until the wake is set. */
void ea_wake_wait(ea_wake *w, int64_t timeout_ns);

/* ---- time ---- */
int64_t ea_monotonic_ns(void);   /* from an arbitrary start, never backwards */
int64_t ea_utc_ns(void);         /* since 1970-01-01 00:00 UTC */
int64_t ea_process_cpu_ns(void); /* processor time that all threads of this process have used */
int64_t ea_thread_cpu_ns(void);  /* processor time that the calling thread has used */
void ea_sleep_ns(int64_t ns);

/* ---- memory ---- */
/* Megabytes of zeroed memory that is read here and there: in large pages, where the system gives them, so that it is
 * found sooner. NULL without memory. */
void *ea_large_alloc(size_t size_bytes);
void ea_large_free(void *p, size_t size_bytes); /* as it was given; NULL is allowed */

/* ---- randomness ---- */
EA_MUST_CHECK int ea_random_bytes(void *out, size_t len_bytes, ea_err *err); /* from the operating system's generator */

/* ---- files ---- paths are UTF-8 everywhere */
typedef struct ea_file ea_file;

enum ea_open_mode {
    EA_OPEN_READ,   /* must exist; others may write to it meanwhile (Windows: all sharing allowed) */
    EA_OPEN_APPEND, /* read and write, made when missing */
    EA_OPEN_CREATE, /* read and write, emptied when it exists */
};

EA_MUST_CHECK int ea_file_open(ea_file **ret, const char *path, enum ea_open_mode mode, ea_err *err);
void ea_file_close(ea_file *f); /* NULL is allowed */
/* Reads up to len_bytes at offset; *ret_read is short only at the end of the file. */
EA_MUST_CHECK int ea_file_read_at(ea_file *f, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read,
                                  ea_err *err);
/* Writes all of it, or fails. */
EA_MUST_CHECK int ea_file_write_at(ea_file *f, uint64_t offset, const void *data, size_t len_bytes, ea_err *err);
/* Makes bytes inside the file zeros, and gives their place on the disk back where the file system can. */
EA_MUST_CHECK int ea_file_clear(ea_file *f, uint64_t offset, uint64_t len_bytes, ea_err *err);
EA_MUST_CHECK int ea_file_sync(ea_file *f, ea_err *err); /* data and what is needed to read it back (fdatasync) */
EA_MUST_CHECK int ea_file_size(ea_file *f, uint64_t *ret_bytes, ea_err *err);
/* The first place at or after offset that is not known to be inside a hole, which a sparse file reads as zeros. The
 * result is the file's size when a hole reaches to the end, and offset itself when the file system does not report
 * holes. */
uint64_t ea_file_skip_hole(ea_file *f, uint64_t offset);
EA_MUST_CHECK int ea_file_truncate(ea_file *f, uint64_t len_bytes, ea_err *err);
/* An exclusive lock held until the file is closed; EA_EBUSY when another process has it. */
EA_MUST_CHECK int ea_file_try_lock(ea_file *f, ea_err *err);
/* Makes a new file and locks it, for what no other process shall write. A file that an earlier process
 * left there is removed; EA_EBUSY when a process has it locked. EA_EEXIST for a link (never followed), a folder, a pipe
 * or a device. Where the file system has no locks, the file is not locked. */
EA_MUST_CHECK int ea_file_claim(ea_file **ret, const char *path, ea_err *err);

EA_MUST_CHECK int ea_path_make_dirs(const char *path, ea_err *err); /* with parents, owner-only; fine when it exists */
EA_MUST_CHECK int ea_path_make_parent(const char *path, ea_err *err); /* the folder that path lies in, as above */
EA_MUST_CHECK int ea_path_rename(const char *from, const char *to,
                                 ea_err *err);                          /* replaces to; atomic; syncs the folder */
EA_MUST_CHECK int ea_path_remove(const char *path, ea_err *err);        /* one file */
EA_MUST_CHECK int ea_path_remove_folder(const char *path, ea_err *err); /* an empty one; on Windows a link, too */
EA_MUST_CHECK int ea_path_sync_dir(const char *path, ea_err *err);      /* makes names in a folder durable */
int ea_path_exists(const char *path);
int ea_path_is_file(const char *path); /* 1: it exists, and is no folder, device or pipe; links are followed */
/* 1 when both exist and are one file, by whatever names. */
int ea_path_is_same(const char *a, const char *b);
/* When its content was last changed, UTC. EA_ENOTFOUND, EA_EIO. */
EA_MUST_CHECK int ea_path_modified(const char *path, int64_t *ret_utc_ns, ea_err *err);
/* Free bytes for this user on the file system that holds path; 0 when unknown. */
uint64_t ea_path_free_bytes(const char *path);
/* Calls fn(name, is_dir, arg) for each entry but . and .., in byte order of the names; stops at the first non-zero. */
EA_MUST_CHECK int ea_path_list(const char *path, int (*fn)(const char *name, int is_dir, void *arg), void *arg,
                               ea_err *err);
/* Reads the whole file into a malloc'd buffer with a NUL after it (the caller frees it); EA_ELIMIT above max_bytes. */
EA_MUST_CHECK int ea_path_read_all(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len_bytes,
                                   ea_err *err);
/* Writes path + ".tmp", syncs, renames. mode_private: readable by the owner only. */
EA_MUST_CHECK int ea_path_write_all(const char *path, const void *data, size_t len_bytes, int mode_private,
                                    ea_err *err);

/* ---- secrets ---- */
/* Encrypts bytes so that only this machine can decrypt them, where the operating system can do that. Elsewhere the
 * result is a copy, which the mode of its file protects. Windows (trust_windows.c): DPAPI for the machine, so that the
 * service and an administrator read the same file. The entropy is in the file dpapi-entropy in the folder for state;
 * the first use makes that file. With DPAPI for the machine alone, any process here could decrypt these bytes; with the
 * entropy, a reader of these bytes alone (a copy of the file, an open share) cannot. The system, administrators and the
 * owner of a copy of the whole disk can. *ret_data: the caller frees it. EA_ECRYPTO: these bytes were not made here.
 * EA_EREFUSED: others may read the entropy. */
EA_MUST_CHECK int ea_protect(const void *data, size_t len_bytes, uint8_t **ret_data, size_t *ret_len_bytes,
                             ea_err *err);
/* *ret_is_old: they were made without entropy, by an earlier version: protect them again. */
EA_MUST_CHECK int ea_unprotect(const void *data, size_t len_bytes, uint8_t **ret_data, size_t *ret_len_bytes,
                               int *ret_is_old, ea_err *err);
/* EA_EREFUSED when others than its owner may read or write the file. Windows (trust_windows.c): when its owner is not
 * trusted (trust.h), or its access list lets others read or write. */
EA_MUST_CHECK int ea_path_check_private(const char *path, ea_err *err);

/* ---- the rest ---- */
/* What ea_thread_is_bulk does, for one of its platforms. */
void ea_thread_lower(enum ea_bulk_priority priority);
/* A thread that works in the background (EA_BULK_BACKGROUND), and comes out of it for as long as it holds a lock that
 * others want, so that they do not wait for the processor with it. Windows only: elsewhere it stays there. */
void ea_thread_background(int on);
void ea_os_error_text(int os_error, char *out, size_t out_bytes);
int ea_is_terminal(FILE *f);
/* 1 when f is a terminal that takes the control sequences of ECMA-48; one of Windows is made to take them. */
int ea_terminal_takes_sequences(FILE *f);
/* 1 when a write to f failed and f is a pipe whose reader has closed it ("| head"). */
int ea_is_closed_pipe(FILE *f);
/* Ends the process as such a pipe ends others: by SIGPIPE. Returns where there is no such signal. */
void ea_end_of_closed_pipe(void);
uint32_t ea_process_id(void);
/* This machine's name in UTF-8; "unknown" when the operating system does not say. */
void ea_host_name(char *out, size_t out_bytes);

/* What is known of this machine; "" when the operating system does not say. */
enum ea_machine_fact {
    EA_MACHINE_NAME,
    EA_MACHINE_DOMAIN,       /* of the name system or the directory */
    EA_MACHINE_OS,           /* "Windows", "Linux" */
    EA_MACHINE_OS_VERSION,   /* "10.0.19045", "6.1.0-18-amd64" */
    EA_MACHINE_ARCHITECTURE, /* "x86_64" */
    EA_MACHINE_CPUS,         /* processors in use */
    EA_MACHINE_MEMORY,       /* bytes */
};

void ea_machine_fact(enum ea_machine_fact fact, char *out, size_t out_bytes);
/* 1: nothing but its battery powers this machine; 0: not so; -1: the operating system does not say. */
int ea_power_is_battery(void);
/* 1: the network is metered, or roams; 0: not so; -1: the operating system does not say (all but Windows). */
int ea_network_is_metered(void);
/* An environment variable's value, cut to out; EA_ENOTFOUND when it is not set. */
EA_MUST_CHECK int ea_environment(const char *name, char *out, size_t out_bytes);
/* The folder for what this program keeps between runs, without making it: $XDG_STATE_HOME/etwagent or
 * ~/.local/state/etwagent; %ProgramData%\etwagent on Windows. EA_ENOTFOUND when the environment names none. */
EA_MUST_CHECK int ea_state_dir(char *out, size_t out_bytes, ea_err *err);
/* What a program calls first. Windows: DLLs are searched in System32 alone from now on, not beside the program;
 * standard output is binary and UTF-8. POSIX: a closed pipe is an error of the write, not the program's end. */
void ea_stdio_init(void);
/* The running program's own file. EA_ENOTFOUND, EA_ELIMIT. */
EA_MUST_CHECK int ea_program_path(char *out, size_t out_bytes, ea_err *err);

/* How a program ended that ea_run ran. */
typedef struct ea_run_result {
    char *output; /* what it wrote to its standard output, and a NUL; the caller frees it */
    size_t output_bytes;
    int exit_code; /* with crashed: the signal, or Windows' exception */
    int crashed, timed_out;
} ea_run_result;

/* Runs a program with nothing on its standard input and waits for its end. argv ends with NULL; argv[0] is its path.
 * One that takes longer than timeout_ns or writes more than max_bytes is ended, with all that it started where the
 * operating system can; then timed_out is set. Its standard error goes nowhere. */
EA_MUST_CHECK int ea_run(const char *const *argv, int64_t timeout_ns, size_t max_bytes, ea_run_result *ret,
                         ea_err *err);

/* A shared library. */
typedef struct ea_library ea_library;
EA_MUST_CHECK int ea_library_open(ea_library **ret, const char *path, ea_err *err);
const void *ea_library_symbol(ea_library *l, const char *name); /* of an object; NULL: there is none */
void ea_library_close(ea_library *l);                           /* NULL is allowed */

/* Calls handler once, on another thread or in a signal context, when the process is asked to stop (SIGINT, SIGTERM,
 * Ctrl-C). It may only set an atomic. */
void ea_on_stop(void (*handler)(void));
/* The same for the wish that the configuration is read again (SIGHUP); never on Windows, where the service manager asks
 * a service. */
void ea_on_reload(void (*handler)(void));

#endif
