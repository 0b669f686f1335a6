/* What the batching options name. See batching.h. */
#include "service/core/batching.h"
#include "proto/base/platform.h"

#include <string.h>

int ea_batching_dictionary(const ea_batching_options *o, uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err) {
    char *data = NULL;
    size_t n = 0;
    if (o->dictionary) {
        int rc = ea_path_read_all(o->dictionary, EA_DICTIONARY_MAX_BYTES, &data, &n, err);
        if (rc)
            return rc;
        if (n == 0)
            return ea_fail(err, EA_EINVAL, "use %s as a dictionary: it is empty", o->dictionary);
    }
    *ret_data = (uint8_t *)data;
    *ret_len_bytes = n;
    return 0;
}
