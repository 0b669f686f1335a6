/* What a source of the event log asks of the operating system. Windows' answers are in channel_api.c; tests have their
 * own. Called by: channel_source.c. Thread: the source's. */
#ifndef EA_EVENTLOG_CHANNEL_API_H
#define EA_EVENTLOG_CHANNEL_API_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ea_channel_reader ea_channel_reader; /* of one channel */

typedef struct ea_channel_api {
    /* *ret: the number of the channel's newest record, 0 when it has none. EA_ENOTFOUND: there is no such channel;
     * EA_EREFUSED. */
    int (*newest)(const char *channel, uint64_t *ret, ea_err *err);
    /* Records of the channel for which the query (XPath; NULL: all) holds, from the one after this number on, or from
     * the next one that still exists; 0: from the oldest one. EA_EINVAL: a query that the event log refuses;
     * EA_ENOTFOUND, EA_EREFUSED as above. */
    int (*open)(ea_channel_reader **ret, const char *channel, const char *query, uint64_t after, ea_err *err);
    /* 1 and a record's XML in UTF-16, borrowed until the next call of a reader; 0: nothing now; negative: this reader
     * cannot go on, and is to be closed. */
    int (*next)(ea_channel_reader *r, const uint8_t **ret, uint32_t *ret_len_bytes, ea_err *err);
    void (*close)(ea_channel_reader *r);
    /* Waits until a reader may have something, at most ns. readers: NULL ones are none. */
    void (*wait)(ea_channel_reader *const *readers, size_t count, int64_t ns);
} ea_channel_api;

/* Windows' event log; NULL on other systems. */
const ea_channel_api *ea_channel_api_of_machine(void);

#endif
