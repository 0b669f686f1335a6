/* A message of the collector to its signer: the first byte is the kind, the rest the body. What is read is printed
 * again to the same bytes. */
#include "collector/enroll/signer_message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ec_signer_message m;
    ea_text t;
    if (!size || size > EC_SIGNER_BODY_MAX || ec_signer_parse((char)data[0], data + 1, size - 1, &m, NULL))
        return 0;
    ea_text_init(&t);
    if (ec_signer_print(&m, &t, NULL) || t.len_bytes != EC_SIGNER_HEAD_BYTES + size - 1 ||
        memcmp(t.data + EC_SIGNER_HEAD_BYTES, data + 1, size - 1) != 0)
        abort();
    ea_text_deinit(&t);
    return 0;
}
