/* Fuzz target: configuration files. Reads untrusted YAML against the option rows of sessions. The sessions that
 * were read are described and written as YAML. Reading that YAML must give the same sessions. */
#include "tests/fuzz/sessions_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition)
        abort();
}

static void on_line(void *arg, const char *line) {
    size_t *lines = arg;
    must(strncmp(line, "fuzz:", 5) == 0);
    ++*lines;
}

static void on_change(void *arg, const char *path) {
    (void)arg;
    (void)path;
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ea_config *c, *again;
    sessions_file read = {0}, second = {0};
    ea_err err;
    size_t lines = 0;
    if (ea_config_parse(&c, "fuzz", (const char *)data, size, &SESSIONS_FILE, &read, on_line, &lines, &err)) {
        must(lines > 0 && lines <= EA_CONFIG_PROBLEMS_MAX);
        return 0;
    }
    must(lines == 0);
    ea_text text;
    ea_text_init(&text);
    (void)!ea_sessions_check(&read.sessions, &err);
    ea_session_config *sessions = read.sessions.items;
    for (size_t i = 0; i < read.sessions.count; i++) {
        uint32_t masks[8];
        ea_session_masks(&sessions[i], masks);
        ea_session_describe(&sessions[i], &text);
    }
    ea_text_clear(&text);
    ea_text_str(&text, "sessions:\n");
    for (size_t i = 0; i < read.sessions.count; i++)
        ea_session_write(&sessions[i], &text);
    if (read.sessions.count && text.len_bytes <= EA_CONFIG_MAX_BYTES) {
        must(!text.failed);
        if (ea_config_parse(&again, "again", text.data, text.len_bytes, &SESSIONS_FILE, &second, NULL, NULL, &err)) {
            ea_err_print(stderr, text.data, &err);
            abort();
        }
        ea_config_compare(&SESSIONS_FILE, &read, &second, on_change, NULL);
        ea_config_destroy(again);
    }
    ea_text_deinit(&text);
    ea_config_destroy(c);
    return 0;
}
