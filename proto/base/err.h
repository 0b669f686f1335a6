/* Errors: one list makes the enum, the names and the sentences. Used by: every folder. Thread: any; an ea_err belongs
 * to its caller.
 *
 * A function that can fail returns int: 0, or one of the negative codes below, and takes an optional last
 * `ea_err *` that says which operation failed, on which object, and what the operating system said.
 * On failure its ret_ outputs are untouched. */
#ifndef EA_BASE_ERR_H
#define EA_BASE_ERR_H

#include <stdio.h>

/* name, code, a sentence for a person */
#define EA_ERRORS(X)                                                                                                   \
    X(EA_ENOMEM, -1, "out of memory")                                                                                  \
    X(EA_EIO, -2, "the operating system refused an input or output operation")                                         \
    X(EA_ENOTFOUND, -3, "not found")                                                                                   \
    X(EA_EEXIST, -4, "exists already")                                                                                 \
    X(EA_EINVAL, -5, "an argument is not usable")                                                                      \
    X(EA_EUSAGE, -6, "the command line is not usable")                                                                 \
    X(EA_EFORMAT, -7, "the input is not of the expected format")                                                       \
    X(EA_ETRUNCATED, -8, "the input ends too early")                                                                   \
    X(EA_ECORRUPT, -9, "the input contradicts itself")                                                                 \
    X(EA_ELIMIT, -10, "a configured limit was reached")                                                                \
    X(EA_EFULL, -11, "no room is left")                                                                                \
    X(EA_ETIMEOUT, -12, "the time ran out")                                                                            \
    X(EA_ENET, -13, "the network peer could not be reached or did not answer")                                         \
    X(EA_ETLS, -14, "the TLS session could not be made or was refused")                                                \
    X(EA_EREFUSED, -15, "the peer refused the request")                                                                \
    X(EA_ECONFLICT, -16, "the same number exists with another content")                                                \
    X(EA_EUNSUPPORTED, -17, "not supported by this version")                                                           \
    X(EA_EBUSY, -18, "in use by another process")                                                                      \
    X(EA_ECANCELED, -19, "stopped on request")                                                                         \
    X(EA_EDATABASE, -20, "the database refused the operation")                                                         \
    X(EA_ECRYPTO, -21, "the cryptographic library refused the operation")

enum ea_code {
    EA_OK = 0,

#define X(name, code, text) name = code,
    EA_ERRORS(X)
#undef X
};

#if defined(__GNUC__) || defined(__clang__)
#define EA_MUST_CHECK  __attribute__((warn_unused_result))
#define EA_RARE        __attribute__((noinline, cold)) /* keeps what hardly ever happens out of what is fast */
#define EA_APART       __attribute__((noinline))       /* keeps what needs many registers out of what is fast */
#define EA_PREFETCH(p) __builtin_prefetch(p)           /* it will be read soon */
#if defined(_WIN32) && !defined(__clang__)
#define EA_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#else
#define EA_PRINTF(f, a) __attribute__((format(printf, f, a)))
#endif
#else
#define EA_MUST_CHECK
#define EA_RARE
#define EA_APART
#define EA_PREFETCH(p) ((void)(p))
#define EA_PRINTF(f, a)
#endif

typedef struct ea_err {
    int code;          /* one of enum ea_code; 0 when nothing failed */
    int os_error;      /* errno or GetLastError(), 0 when the operating system was not the cause */
    char message[512]; /* "read trace.etl at offset 65536: expected a buffer header": operation, object, what was
                          expected */
} ea_err;

/* Fills err (which may be NULL) and returns code, so that a caller can write `return ea_fail(err, ...)`. code is one of
 * enum ea_code and not EA_OK. */
int ea_fail(ea_err *err, int code, const char *format, ...) EA_PRINTF(3, 4);

/* The same for a failure that the operating system reported; os_error is errno or GetLastError(). */
int ea_fail_os(ea_err *err, int code, int os_error, const char *format, ...) EA_PRINTF(4, 5);

/* A compiler and an analyzer can see that the result of this function is never 0, so that they can follow `if (rc)`. */
static inline int ea_negative(int code) {
    return code < 0 ? code : EA_EINVAL;
}

#define ea_fail(...)    ea_negative((ea_fail)(__VA_ARGS__))
#define ea_fail_os(...) ea_negative((ea_fail_os)(__VA_ARGS__))

/* "EA_EIO" and its sentence; never NULL, "unknown error" for a code that is not in the list. */
const char *ea_code_name(int code);
const char *ea_code_text(int code);

/* Prints "PROGRAM: MESSAGE (SENTENCE; OS TEXT)" and a newline. */
void ea_err_print(FILE *out, const char *program, const ea_err *err);

/* A call whose failure changes nothing here: a comment beside it says why, where the reader cannot see it. */
#define EA_IGNORE(call) ((void)!(call))

/* The process's exit code for a failure: 0 success, 1 failed, 2 usage, 3 input not usable. */
int ea_exit_code(int code);

/* States an invariant of the program, never a property of input. With EA_ASSERTIONS (the presets for development and
 * the sanitizers) a condition that does not hold ends the process with its place in the source; elsewhere it is not
 * evaluated. */
#if defined(EA_ASSERTIONS)
_Noreturn void ea_assert_failed(const char *condition, const char *file, int line);
#define EA_ASSERT(condition) ((condition) ? (void)0 : ea_assert_failed(#condition, __FILE__, __LINE__))
#else
#define EA_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif
