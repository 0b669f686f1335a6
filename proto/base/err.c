/* Errors: names and sentences, and assertions that failed; err_print.c prints errors. See err.h. */
#include "proto/base/err.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#undef ea_fail /* the functions themselves */
#undef ea_fail_os

static int EA_PRINTF(4, 0) fill(ea_err *err, int code, int os_error, const char *format, va_list args) {
    if (err) {
        err->code = code;
        err->os_error = os_error;
        vsnprintf(err->message, sizeof err->message, format, args);
    }
    return code;
}

int ea_fail(ea_err *err, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fill(err, code, 0, format, args);
    va_end(args);
    return code;
}

int ea_fail_os(ea_err *err, int code, int os_error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fill(err, code, os_error, format, args);
    va_end(args);
    return code;
}

const char *ea_code_name(int code) {
    switch (code) {
#define X(name, number, text)                                                                                          \
    case name:                                                                                                         \
        return #name;
        EA_ERRORS(X)
#undef X
    default:
        return code == 0 ? "EA_OK" : "unknown error";
    }
}

const char *ea_code_text(int code) {
    switch (code) {
#define X(name, number, text)                                                                                          \
    case name:                                                                                                         \
        return text;
        EA_ERRORS(X)
#undef X
    default:
        return code == 0 ? "success" : "unknown error";
    }
}

int ea_exit_code(int code) {
    switch (code) {
    case EA_OK:
        return 0;
    case EA_EUSAGE:
        return 2;
    case EA_EFORMAT:
    case EA_ETRUNCATED:
    case EA_ECORRUPT:
        return 3;
    default:
        return 1;
    }
}

#if defined(EA_ASSERTIONS)
void ea_assert_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: the invariant does not hold: %s\n", file, line, condition);
    fflush(stderr);
    abort();
}
#endif
