/* Command lines of other tools, from outside (an even first byte), PerfView's provider strings (an odd one), and
 * recording profiles (one that begins with <). What an import writes is a configuration that can be read. */
#include "config/import/import.h"
#include "tests/fuzz/sessions_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(ea_import *im, int providers, const char *line, ea_err *err) {
    static const char *words[EA_IMPORT_WORDS_MAX];
    size_t n = 0;
    if (providers)
        return ea_import_perfview_providers(im, line, err);
    int rc = ea_import_split(im, line, words, EA_IMPORT_WORDS_MAX, &n, err);
    return rc ? rc : ea_import_command(im, words, n, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ea_import im;
    ea_err err = {0};
    if (size == 0)
        return 0;
    char *line = malloc(size);
    if (!line)
        abort();
    memcpy(line, data + 1, size - 1);
    line[size - 1] = 0;
    ea_import_init(&im);
    if ((data[0] == '<' ? ea_import_wpr(&im, "fuzz", data, size, NULL, &err) : take(&im, data[0] & 1, line, &err)) ==
        0) {
        ea_text text;
        ea_config *c;
        sessions_file read = {0};
        ea_text_init(&text);
        ea_import_write(&im, &text);
        int rc =
            text.failed || text.len_bytes > EA_CONFIG_MAX_BYTES
                ? 0
                : ea_config_parse(&c, "imported", text.data, text.len_bytes, &SESSIONS_FILE, &read, NULL, NULL, &err);
        if (rc) {
            fwrite(text.data, 1, text.len_bytes, stderr);
            ea_err_print(stderr, "fuzz_import", &err);
            abort();
        }
        if (read.sessions.count != im.count)
            abort();
        ea_config_destroy(read.sessions.items ? c : NULL);
        ea_text_deinit(&text);
    }
    ea_import_deinit(&im);
    free(line);
    return 0;
}
