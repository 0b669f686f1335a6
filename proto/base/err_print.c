/* Printing an error. See err.h. */
#include "proto/base/err.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>

void ea_err_print(FILE *out, const char *program, const ea_err *err) {
    /* a message may quote what came from outside: no control character of it reaches the terminal */
    ea_text message;
    if (err->code == EA_EIO && ea_is_closed_pipe(stdout))
        return; /* the reader of standard output has closed the pipe: that is no error */
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
