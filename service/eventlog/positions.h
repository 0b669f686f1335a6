/* Where a source of the event log goes on after a restart: the number of the last record of each channel that is in the
 * spool. A text file of lines "NUMBER<tab>CHANNEL" after a first line, replaced as a whole.
 * Called by: channel_source.c. Calls: proto/base. Thread: the source's. */
#ifndef EA_EVENTLOG_POSITIONS_H
#define EA_EVENTLOG_POSITIONS_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { EA_CHANNELS_MAX = 32, EA_CHANNEL_NAME_MAX = 255 };

typedef struct ea_channel_position {
    const char *channel;
    uint64_t id;  /* of its last record; 0: before the first one */
    int is_known; /* id means something */
} ea_channel_position;

/* 1 for a name that channels may have here: 1 to EA_CHANNEL_NAME_MAX bytes, no control character, none of
 * < > & " '. */
int ea_channel_name_is_good(const char *name);

/* Sets id and is_known of those channels that the file has. Without a file nothing is known. EA_EFORMAT: it is damaged;
 * then all of them are known to be before the first record, so that no record is left out. EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ea_channel_positions_read(const char *path, ea_channel_position *all, size_t count, ea_err *err);
/* Writes those that are known. Durable when it returns. */
EA_MUST_CHECK int ea_channel_positions_write(const char *path, const ea_channel_position *all, size_t count,
                                             ea_err *err);

#endif
