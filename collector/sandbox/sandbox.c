/* See sandbox.h. Sources: the kernel's Documentation/userspace-api/landlock.rst, seccomp_filter.rst, no_new_privs.rst;
 * capabilities(7). */
#include "collector/sandbox/sandbox.h"

#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* ---- Landlock ---- */

/* The kernel's numbers; linux/landlock.h may be older than the kernel that this runs on. */
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_VERSION_1 = (1 << 13) - 1, /* also special files and symbolic links, which nothing here makes */
    FS_REFER = 1 << 13,
    FS_TRUNCATE = 1 << 14,
    FS_IOCTL_DEVICE = 1 << 15,
    FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE,
    NET_BIND_TCP = 1,
    NET_CONNECT_TCP = 2,
    SCOPE_ABSTRACT_SOCKETS = 1,
    SCOPE_SIGNALS = 2,
    RULE_PATH_BENEATH = 1,
    CREATE_VERSION = 1, /* flag: return the version */
    VERSION_REFER = 2,
    VERSION_TRUNCATE = 3,
    VERSION_NET = 4,
    VERSION_IOCTL = 5,
    VERSION_SCOPE = 6,
};

typedef struct ruleset {
    uint64_t files, net, scoped;
} ruleset;

typedef struct path_rule {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed)) path_rule;

/* x86-64 and aarch64 have the same numbers for these. */
enum { CALL_CREATE = 444, CALL_ADD = 445, CALL_RESTRICT = 446 };

#if !defined(EC_SANDBOX_OFF)
static int landlock_version(void) {
    long v = syscall(CALL_CREATE, NULL, 0, CREATE_VERSION);
    return v > 0 ? (int)v : 0;
}

static uint64_t files_of(int version) {
    uint64_t all = FS_VERSION_1;
    if (version >= VERSION_REFER)
        all |= FS_REFER;
    if (version >= VERSION_TRUNCATE)
        all |= FS_TRUNCATE;
    if (version >= VERSION_IOCTL)
        all |= FS_IOCTL_DEVICE;
    return all;
}

static uint64_t allowed_by(enum ec_sandbox_access access) {
    switch (access) {
    case EC_SANDBOX_READ:
        return FS_READ_FILE | FS_READ_DIR;
    case EC_SANDBOX_SHARE:
        return FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE;
    case EC_SANDBOX_WRITE:
        return FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG | FS_MAKE_DIR | FS_REMOVE_FILE |
               FS_REMOVE_DIR | FS_REFER;
    case EC_SANDBOX_EXECUTE:
        return FS_READ_FILE | FS_READ_DIR | FS_EXECUTE;
    }
    return 0;
}

static int sandbox_add_path(int rules, const ec_sandbox_path *p, uint64_t handled, ea_err *err) {
    struct stat st;
    int own = p->path ? open(p->path, O_PATH | O_CLOEXEC) : -1, fd = p->path ? own : p->fd;
    if (p->path && own < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES
                   ? 0 /* what cannot be opened now, is not reached later either */
                   : ea_fail_os(err, errno == EMFILE ? EA_ELIMIT : EA_EIO, errno, "enter the sandbox: %s", p->path);
    path_rule rule = {.allowed = allowed_by(p->access) & handled, .fd = fd};
    int rc = fstat(fd, &st) ? -1 : 0;
    if (!rc && !S_ISDIR(st.st_mode))
        rule.allowed &= FS_OF_FILES;
    if (!rc)
        rc = (int)syscall(CALL_ADD, rules, RULE_PATH_BENEATH, &rule, 0);
    int os_error = errno;
    if (own >= 0)
        close(own);
    return rc ? ea_fail_os(err, EA_EIO, os_error, "enter the sandbox: allow %s", p->path ? p->path : "a file") : 0;
}

static int restrict_files(const ec_sandbox *s, ea_err *err) {
    int version = landlock_version();
    if (!version)
        return 0;
    ruleset all = {.files = files_of(version)};
    size_t bytes = sizeof all.files;
    if (version >= VERSION_NET) {
        all.net = (s->rights & EC_SANDBOX_SERVICE ? 0 : NET_BIND_TCP) |
                  (s->rights & (EC_SANDBOX_NETWORK | EC_SANDBOX_PROVIDER) ? 0 : NET_CONNECT_TCP);
        bytes = offsetof(ruleset, scoped);
    }
    if (version >= VERSION_SCOPE) {
        all.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
        bytes = sizeof all;
    }
    int rules = (int)syscall(CALL_CREATE, &all, bytes, 0);
    if (rules < 0)
        return ea_fail_os(err, errno == EMFILE ? EA_ELIMIT : EA_EIO, errno, "enter the sandbox: make Landlock's rules");
    int rc = 0;
    for (size_t i = 0; !rc && i < s->path_count; i++)
        rc = sandbox_add_path(rules, &s->paths[i], all.files, err);
    if (!rc && syscall(CALL_RESTRICT, rules, 0))
        rc = ea_fail_os(err, EA_EIO, errno, "enter the sandbox: apply Landlock's rules");
    close(rules);
    return rc;
}

/* ---- capabilities ---- */

/* The capabilities that override file modes stay: a caller that runs as root may read a store of another user, within
 * the listed files. */
static int drop_capabilities(unsigned rights, ea_err *err) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    const uint32_t of_service =
        UINT32_C(1) << CAP_CHOWN | UINT32_C(1) << CAP_FOWNER | UINT32_C(1) << CAP_NET_BIND_SERVICE;
    const uint32_t kept = UINT32_C(1) << CAP_DAC_OVERRIDE | UINT32_C(1) << CAP_DAC_READ_SEARCH |
                          (rights & EC_SANDBOX_SERVICE ? of_service : 0);
    if (syscall(SYS_capget, &head, data))
        return ea_fail_os(err, EA_EIO, errno, "enter the sandbox: read the capabilities");
    if (!data[0].permitted && !data[1].permitted)
        return 0;
    data[0].effective &= kept;
    data[0].permitted &= kept;
    data[0].inheritable = data[1].effective = data[1].permitted = data[1].inheritable = 0;
    return syscall(SYS_capset, &head, data) ? ea_fail_os(err, EA_EIO, errno, "enter the sandbox: drop the capabilities")
                                            : 0;
}
#endif

/* ---- seccomp ---- */

#if defined(OWN_ARCH)
static int has_seccomp(void) {
    uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}
#else
static int has_seccomp(void) {
    return 0;
}
#endif

#if defined(OWN_ARCH) && !defined(EC_SANDBOX_OFF)

enum { PROGRAM_MAX = 1024, X32_BIT = 0x40000000 };

/* Memory, time, threads' own affairs, descriptors that are open, and files, which Landlock narrows. */
static const int ALLOWED[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_lseek,
    SYS_close,
    SYS_close_range,
    SYS_openat,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_statfs,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getcwd,
    SYS_fcntl,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_syncfs,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_utimensat,
    SYS_umask,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_msync,
    SYS_mincore,
    SYS_membarrier,
    SYS_futex,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_gettid,
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrusage,
    SYS_getpriority,
    SYS_times,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
#if defined(__x86_64__)
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_getdents,
    SYS_mkdir,
    SYS_rmdir,
    SYS_unlink,
    SYS_rename,
    SYS_dup2,
    SYS_pipe,
    SYS_poll,
    SYS_select,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_time,
    SYS_arch_prctl,
#endif
};

/* Connections outward. socket and clone are in condition(). */
static const int NETWORK[] = {
    SYS_connect,  SYS_sendto,     SYS_sendmsg,    SYS_sendmmsg,    SYS_recvfrom,    SYS_recvmsg,
    SYS_recvmmsg, SYS_setsockopt, SYS_getsockopt, SYS_getsockname, SYS_getpeername, SYS_shutdown,
};

/* A child is started, has a smaller sandbox of its own, and is waited for. */
static const int PROGRAMS[] = {
    SYS_execve,  SYS_wait4,  SYS_waitid, SYS_sendto,  SYS_recvfrom, SYS_memfd_create,
    SYS_seccomp, SYS_capget, SYS_capset, CALL_CREATE, CALL_ADD,     CALL_RESTRICT,
#if defined(__x86_64__)
    SYS_vfork,   SYS_fork,
#endif
};

static const int MODES[] = {SYS_fchmod};

static const int LINKS[] = {
    SYS_linkat,
#if defined(__x86_64__)
    SYS_link,
#endif
};

/* What no process of this program needs: it reaches into other processes or changes the system. */
static const int NEVER[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_pidfd_getfd,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_fsopen,
    SYS_fsmount,
    SYS_move_mount,
    SYS_open_tree,
    SYS_unshare,
    SYS_setns,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setgroups,
    SYS_personality,
    SYS_mknodat,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_pkey_mprotect,
    SYS_kcmp,
    SYS_lookup_dcookie,
    SYS_fanotify_init,
};

/* What a provider does not need: it starts no program and no process, and accepts no connection. */
static const int NOT_OF_PROVIDER[] = {
    SYS_execve, SYS_execveat, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_tkill, SYS_setpriority,
#if defined(__x86_64__)
    SYS_fork,   SYS_vfork,
#endif
};

/* Refused in so many words: a caller finds that it may not, rather than that the kernel is old. */
static const int DENIED[] = {
    SYS_execve, SYS_execveat, SYS_socket,    SYS_socketpair,  SYS_connect, SYS_bind,
    SYS_listen, SYS_accept,   SYS_accept4,   SYS_sendto,      SYS_sendmsg, SYS_kill,
    SYS_tkill,  SYS_tgkill,   SYS_prlimit64, SYS_setpriority, SYS_clone,   SYS_memfd_create,
    SYS_capset, SYS_seccomp,  SYS_linkat,    SYS_symlinkat,   SYS_fchmod,  SYS_fchmodat,
    SYS_fchown, SYS_fchownat, SYS_prctl,     SYS_ioctl,       SYS_mmap,    SYS_mprotect,
#if defined(__x86_64__)
    SYS_link,
#endif
};

typedef struct program {
    struct sock_filter at[PROGRAM_MAX];
    unsigned short count;
    int failed; /* it has no room */
} program;

static void sandbox_add(program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
    if (p->count < PROGRAM_MAX)
        p->at[p->count++] = (struct sock_filter){.code = code, .jt = if_true, .jf = if_false, .k = k};
    else
        p->failed = 1;
}

static void sandbox_load(program *p, size_t offset) {
    sandbox_add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void sandbox_answer(program *p, uint32_t action) {
    sandbox_add(p, BPF_RET | BPF_K, action, 0, 0);
}

static void answer_call(program *p, int call, uint32_t action) {
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1);
    sandbox_answer(p, action);
}

static void answer_calls(program *p, const int *calls, size_t count, uint32_t action) {
    for (size_t i = 0; i < count; i++)
        answer_call(p, calls[i], action);
}

/* The lower half of an argument (both architectures are little-endian): the kernel looks at no more of an int. */
static size_t argument(unsigned i) {
    return offsetof(struct seccomp_data, args) + 8 * (size_t)i;
}

enum { ALLOW = SECCOMP_RET_ALLOW, REFUSE = SECCOMP_RET_ERRNO | EPERM };

/* The call is allowed when an argument is one of the values; refused otherwise. */
static void allow_values(program *p, int call, unsigned which, const uint32_t *values, size_t count) {
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, (uint8_t)(2 * count + 2));
    sandbox_load(p, argument(which));
    for (size_t i = 0; i < count; i++) {
        sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, values[i], 0, 1);
        sandbox_answer(p, ALLOW);
    }
    sandbox_answer(p, REFUSE);
}

/* The call is allowed when an argument has none of the bits; refused otherwise. */
static void allow_without(program *p, int call, unsigned which, uint32_t bits) {
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
    sandbox_load(p, argument(which));
    sandbox_add(p, BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0);
    sandbox_answer(p, ALLOW);
    sandbox_answer(p, REFUSE);
}

/* The call is allowed when an argument has the bit and none of the others; refused otherwise. */
static void allow_with(program *p, int call, unsigned which, uint32_t bit, uint32_t others) {
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 5);
    sandbox_load(p, argument(which));
    sandbox_add(p, BPF_JMP | BPF_JSET | BPF_K, others, 2, 0);
    sandbox_add(p, BPF_JMP | BPF_JSET | BPF_K, bit, 0, 1);
    sandbox_answer(p, ALLOW);
    sandbox_answer(p, REFUSE);
}

/* A new limit is not set: the pointer to it is NULL. */
static void allow_reading_limits(program *p) {
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 6);
    sandbox_load(p, argument(2));
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    sandbox_load(p, argument(2) + 4);
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    sandbox_answer(p, ALLOW);
    sandbox_answer(p, REFUSE);
}

/* A signal to one process that is not the parent and not all of them. */
static void allow_ending_children(program *p) {
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 6);
    sandbox_load(p, argument(0));
    sandbox_add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getppid(), 3, 0);
    sandbox_add(p, BPF_JMP | BPF_JGE | BPF_K, UINT32_C(0x80000000), 2, 0);
    sandbox_add(p, BPF_JMP | BPF_JGT | BPF_K, 1, 0, 1);
    sandbox_answer(p, ALLOW);
    sandbox_answer(p, REFUSE);
}

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const uint32_t SPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                               CLONE_NEWPID | CLONE_NEWNET | CLONE_PIDFD;

/* What depends on an argument. */
static void conditions(program *p, unsigned rights) {
    const uint32_t own[] = {(uint32_t)getpid()}, inet[] = {AF_INET, AF_INET6}, local[] = {AF_UNIX},
                   own_pid[] = {0}; /* as prlimit names the caller */
    static const uint32_t REQUESTS[] = {TCGETS, TIOCGWINSZ, FIOCLEX, FIONCLEX, FIONBIO, FIONREAD};
    static const uint32_t NAMING[] = {PR_SET_NAME}, STARTING[] = {PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS};
    int has_programs = (rights & EC_SANDBOX_PROGRAMS) != 0, has_network = (rights & EC_SANDBOX_NETWORK) != 0;
    allow_values(p, SYS_ioctl, 1, REQUESTS, COUNT(REQUESTS));
    allow_values(p, SYS_prctl, 0, has_programs ? STARTING : NAMING, has_programs ? COUNT(STARTING) : COUNT(NAMING));
    allow_values(p, SYS_tgkill, 0, own, 1);
    if (has_programs) {
        allow_ending_children(p);
        allow_values(p, SYS_prlimit64, 0, own_pid, 1);
    } else {
        allow_values(p, SYS_kill, 0, own, 1);
        allow_reading_limits(p);
    }
    if (has_programs || has_network) {
        allow_without(p, SYS_clone, 0, SPACES);
        allow_values(p, SYS_socketpair, 0, local, 1);
    } else if (rights & EC_SANDBOX_THREADS) {
        allow_with(p, SYS_clone, 0, CLONE_THREAD, SPACES);
    }
    if (has_network)
        allow_values(p, SYS_socket, 0, inet, COUNT(inet));
    if (rights & (EC_SANDBOX_LIBRARIES | EC_SANDBOX_PROGRAMS)) {
        answer_call(p, SYS_mmap, ALLOW);
        answer_call(p, SYS_mprotect, ALLOW);
    } else {
        allow_without(p, SYS_mmap, 2, PROT_EXEC);
        allow_without(p, SYS_mprotect, 2, PROT_EXEC);
    }
}

static int restrict_calls(const ec_sandbox *s, ea_err *err) {
    program p = {.count = 0};
    sandbox_load(&p, offsetof(struct seccomp_data, arch));
    sandbox_add(&p, BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0);
    sandbox_answer(&p, SECCOMP_RET_KILL_PROCESS);
    sandbox_load(&p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    sandbox_add(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    sandbox_answer(&p, SECCOMP_RET_KILL_PROCESS);
#endif
    if (s->rights & EC_SANDBOX_SERVICE) {
        answer_calls(&p, NEVER, COUNT(NEVER), REFUSE);
        sandbox_answer(&p, ALLOW);
    }
    if (s->rights & EC_SANDBOX_PROVIDER) {
        const uint32_t own = (uint32_t)getpid();
        answer_calls(&p, NEVER, COUNT(NEVER), REFUSE);
        answer_calls(&p, NOT_OF_PROVIDER, COUNT(NOT_OF_PROVIDER), REFUSE);
        allow_values(&p, SYS_kill, 0, &own, 1);
        allow_values(&p, SYS_tgkill, 0, &own, 1);
        allow_with(&p, SYS_clone, 0, CLONE_THREAD, SPACES);
        allow_reading_limits(&p);
        answer_call(&p, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS); /* its flags are not in an argument */
        sandbox_answer(&p, ALLOW);
    }
    answer_calls(&p, ALLOWED, COUNT(ALLOWED), ALLOW);
    conditions(&p, s->rights);
    if (s->rights & EC_SANDBOX_NETWORK)
        answer_calls(&p, NETWORK, COUNT(NETWORK), ALLOW);
    if (s->rights & EC_SANDBOX_MODES)
        answer_calls(&p, MODES, COUNT(MODES), ALLOW);
    if (s->rights & EC_SANDBOX_LINKS)
        answer_calls(&p, LINKS, COUNT(LINKS), ALLOW);
    if (s->rights & EC_SANDBOX_PROGRAMS)
        answer_calls(&p, PROGRAMS, COUNT(PROGRAMS), ALLOW);
    answer_calls(&p, DENIED, COUNT(DENIED), REFUSE);
    answer_calls(&p, NEVER, COUNT(NEVER), REFUSE);
    sandbox_answer(&p, SECCOMP_RET_ERRNO | ENOSYS);
    if (p.failed)
        return ea_fail(err, EA_ELIMIT, "enter the sandbox: the filter has more than %d instructions", PROGRAM_MAX);
    const struct sock_fprog filter = {.len = p.count, .filter = p.at};
    if (!has_seccomp())
        return 0;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
               ? ea_fail_os(err, EA_EIO, errno, "enter the sandbox: apply the filter of system calls")
               : 0;
}
#elif !defined(EC_SANDBOX_OFF)
static int restrict_calls(const ec_sandbox *s, ea_err *err) {
    (void)s, (void)err;
    return 0;
}
#endif

/* ---- all of it ---- */

int ec_sandbox_enter(const ec_sandbox *s, ea_err *err) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return ea_fail_os(err, EA_EIO, errno, "enter the sandbox: give up new privileges");
#if defined(EC_SANDBOX_OFF)
    (void)s;
    return 0;
#else
    int rc = s->rights & EC_SANDBOX_ALL_FILES ? 0 : restrict_files(s, err);
    if (!rc)
        rc = drop_capabilities(s->rights, err);
    return rc ? rc : restrict_calls(s, err);
#endif
}

void ec_sandbox_probe(ec_sandbox_support *ret) {
    ec_sandbox_support s = {.has[EC_SANDBOX_HAS_NO_NEW_PRIVS] = 1, .why = ""};
#if defined(EC_SANDBOX_OFF)
    s.why = "this build has a sanitizer or counts coverage";
    (void)has_seccomp;
#else
    s.landlock_version = landlock_version();
    s.has[EC_SANDBOX_HAS_SECCOMP] = has_seccomp();
    s.has[EC_SANDBOX_HAS_FILES] = s.landlock_version >= 1;
    s.has[EC_SANDBOX_HAS_TCP] = s.landlock_version >= VERSION_NET;
    s.has[EC_SANDBOX_HAS_SCOPE] = s.landlock_version >= VERSION_SCOPE;
#if !defined(OWN_ARCH)
    s.why = "this program knows no system calls of this processor";
#else
    if (!s.has[EC_SANDBOX_HAS_SECCOMP] || !s.has[EC_SANDBOX_HAS_FILES])
        s.why = "this kernel has it not, or does not allow it here";
#endif
#endif
    *ret = s;
}

static const struct {
    const char *name, *text;
} PARTS[] = {

#define X(id, name, text) {name, text},
    EC_SANDBOX_PARTS(X)
#undef X
};

const char *ec_sandbox_part_name(enum ec_sandbox_part part) {
    return PARTS[part].name;
}

void ec_sandbox_describe(const ec_sandbox_support *s, ea_text *t) {
    size_t missing = 0;
    for (int has = 1; has >= 0; has--) {
        const char *before = has ? "" : "; missing: ";
        for (int i = 0; i < EC_SANDBOX_PART_COUNT; i++) {
            if (s->has[i] != has)
                continue;
            ea_text_printf(t, "%s%s (%s)", before, PARTS[i].name, PARTS[i].text);
            before = ", ";
            missing += !has;
        }
    }
    if (missing && *s->why)
        ea_text_printf(t, ": %s", s->why);
}
