/* See dictionary.h. */
#include "service/batch/dictionary.h"

#include <stdlib.h>
#include <string.h>
#include <zdict.h>

enum {
    TABLES_BYTES = 2048, /* of entropy, before the content: at most so many */
    LEVEL = 16,          /* that small batches are compressed with */
};

int ea_dictionary_make(const uint8_t *samples, const size_t *sizes, size_t count, size_t room_bytes, uint8_t **ret,
                       size_t *ret_len_bytes, ea_err *err) {
    size_t total = 0, seen = 0, at = 0;
    if (count < EA_DICTIONARY_SAMPLES_MIN || room_bytes <= TABLES_BYTES)
        return ea_fail(err, EA_EINVAL, "make a dictionary of %zu bytes: there are %zu small batches, %d are needed",
                       room_bytes, count, EA_DICTIONARY_SAMPLES_MIN);
    for (size_t i = 0; i < count; i++)
        total += sizes[i];
    size_t room = room_bytes - TABLES_BYTES;
    uint8_t *content = malloc(room), *out = malloc(room_bytes);
    if (!content || !out) {
        free(content);
        free(out);
        return ea_fail(err, EA_ENOMEM, "make a dictionary");
    }
    for (size_t i = 0, from = 0; i < count; from += sizes[i++]) {
        seen += sizes[i];
        double share = total > room ? (double)room / (double)total : 1;
        if (sizes[i] > room - at || (double)(at + sizes[i]) > (double)seen * share)
            continue;
        memcpy(content + at, samples + from, sizes[i]);
        at += sizes[i];
    }
    ZDICT_params_t parameters = {.compressionLevel = LEVEL};
    size_t n = ZDICT_finalizeDictionary(out, room_bytes, content, at, samples, sizes, (unsigned)count, parameters);
    free(content);
    if (ZDICT_isError(n)) {
        free(out);
        return ea_fail(err, EA_EINVAL, "make a dictionary from %zu small batches with %zu bytes: %s", count, total,
                       ZDICT_getErrorName(n));
    }
    *ret = out;
    *ret_len_bytes = n;
    return 0;
}
