/* Files of tokens, from another version or a hand. First byte: even, readers' tokens; odd, enrolment tokens. The rest
 * is the file. What is read can be written, and is the same when it is read again. */
#include "collector/access/api_tokens.h"
#include "collector/ca/enroll_tokens.h"
#include "proto/base/platform.h"
#include "tests/fuzz/folder.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition)
        abort();
}

static void put(const char *name, const uint8_t *data, size_t size) {
    char path[128];
    ea_err err;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(ea_path_write_all(path, data, size, 1, &err) == 0);
}

static void read_tokens(void) {
    static const char TEXT[] = "ect_00000001_0000000000000000000000000000000000000000000000000000000000000000";
    ec_token *tokens = NULL;
    size_t count = 0;
    ea_err err;
    must(ec_api_tokens_read(folder, &tokens, &count, &err) == 0 && count <= EC_TOKENS_MAX);
    for (size_t i = 0; i < count; i++) {
        must(tokens[i].scope >= EC_SCOPE_METRICS && tokens[i].scope <= EC_SCOPE_ADMIN && *tokens[i].name);
        must(!ec_token_sees(&tokens[i], "h") || tokens[i].scope >= EC_SCOPE_READ);
        must(!ec_token_is_expired(&tokens[i], 0));
    }
    must(ec_api_tokens_find(tokens, count, TEXT) == NULL); /* a hash that no secret of zeros has */
    free(tokens);
}

static void read_grants(void) {
    ec_enroll_token *grants = NULL, *again = NULL;
    size_t count = 0, count_again = 0;
    ea_err err;
    if (ec_enroll_tokens_read(folder, &grants, &count, &err))
        return;
    must(count <= EC_ENROLL_TOKENS_MAX && ec_enroll_tokens_write(folder, grants, count, &err) == 0);
    must(ec_enroll_tokens_read(folder, &again, &count_again, &err) == 0 && count_again == count);
    for (size_t i = 0; i < count; i++)
        must(strcmp(grants[i].names, again[i].names) == 0 && grants[i].expires_s == again[i].expires_s &&
             grants[i].uses_left == again[i].uses_left && strcmp(grants[i].secret.id, again[i].secret.id) == 0);
    free(grants);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!folder[0])
        folder_make("tokens");
    if (!size)
        return 0;
    put(data[0] & 1 ? "enroll-tokens" : "tokens", data + 1, size - 1);
    if (data[0] & 1)
        read_grants();
    else
        read_tokens();
    return 0;
}
