/* Errors: names, sentences, printing. See err.h. */
#include "err.h"
#include "platform.h"
#include "text.h"

#include <stdarg.h>
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

void ea_err_print(FILE *out, const char *program, const ea_err *err) {
    /* a message may quote what came from outside: no control character of it reaches the terminal */
    ea_text message;
    if (err->code == EA_EIO && ea_is_closed_pipe(stdout))
        return; /* whoever read standard output has enough: that is no trouble of anybody */
    ea_text_init(&message);
    ea_text_safe(&message, err->message, strlen(err->message));
    const char *text = message.data && !message.failed ? message.data : "";
    if (err->os_error) {
        char os_text[256];
        ea_os_error_text(err->os_error, os_text, sizeof os_text);
        fprintf(out, "%s: %s (%s: %s)\n", program, text, ea_code_text(err->code), os_text);
    } else {
        fprintf(out, "%s: %s (%s)\n", program, text, ea_code_text(err->code));
    }
    ea_text_deinit(&message);
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
