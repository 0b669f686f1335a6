/* Sources: where records come from. One shape for .etl files, live sessions and paced replays. Input: proto/etl,
 * service/etw. Used by: service/decode. Thread: each source has one. */
#ifndef EA_SOURCE_SOURCE_H
#define EA_SOURCE_SOURCE_H

#include "proto/base/counters.h"
#include "proto/base/record.h"
#include "proto/etl/etl.h"
#include "proto/wire/wire.h"

typedef struct ea_source ea_source;

/* Some records of a kind that were dropped before anybody could take them. */
typedef struct ea_dropped {
    ea_record kind; /* provider, id, opcode ...: what such records have alike; no payload. A provider of zeros: other */
    uint64_t count;
    int is_oversize; /* larger than any record may be; else there was no room */
} ea_dropped;

/* The functions of a kind of source: the first member of its struct points to these. Each does what source.h says of
 * the function with its name; "dropped" and "clock" may be NULL, as may "is_ahead" and "stored" both. */
typedef struct ea_source_ops {
    int (*next)(ea_source *s, const ea_record **ret, ea_err *err);
    void (*stop)(ea_source *s);
    void (*close)(ea_source *s);
    size_t (*count)(const ea_source *s);
    const ea_wire_source *(*row)(const ea_source *s, size_t source);
    double (*progress)(const ea_source *s);
    int (*dropped)(ea_source *s, ea_dropped *ret);
    int (*clock)(ea_source *s, size_t *ret_source, ea_clock *ret);
    int (*is_ahead)(ea_source *s, int at_end);
    int (*stored)(ea_source *s, ea_err *err);
} ea_source_ops;

struct ea_source {
    const ea_source_ops *ops;
};

/* Opens .etl files as one merged source. counters is borrowed. speed 0: as fast as it goes; else times real speed
 * (1, 10): next() sleeps until a record's time has come. With options->follow next() waits for files to grow. */
EA_MUST_CHECK int ea_source_open_files(ea_source **ret, const char *const *paths, size_t count, double speed,
                                       const ea_etl_options *options, ea_err *err);
void ea_source_close(ea_source *s); /* NULL is allowed */
/* Files: makes this and every later ea_source_next return EA_ECANCELED, within some 20 ms even while it waits for a
 * record's time to come or for a file to grow. A live session: ends it; what it logged until then still comes. Any
 * thread or a signal handler may call it. */
void ea_source_stop(ea_source *s);

/* 1 and a record (borrowed until the next call), 0 at the end, negative on an error that ends the source;
 * EA_SOURCE_NOTHING_YET (a live session's only) when nothing came for some milliseconds: call again. */
enum { EA_SOURCE_NOTHING_YET = 2 };

EA_MUST_CHECK int ea_source_next(ea_source *s, const ea_record **ret, ea_err *err);

/* The source table for batches; record.source is the index. Valid until close. A file's row: name is its file name
 * without folders, host "" (no file says it in its header), logger that of its first buffer (each record has its own).
 */
size_t ea_source_count(const ea_source *s);
const ea_wire_source *ea_source_row(const ea_source *s, size_t source);

double ea_source_progress(const ea_source *s); /* 0 to 1 */

/* 1 and what was dropped of a kind since it was asked last, until 0: there is no more. The source's thread. */
int ea_source_dropped(ea_source *s, ea_dropped *ret);

/* 1 when times of one of the sources become UTC in another way from now on, as *ret says: a live session's clock drifts
 * away from UTC, and UTC may be set. Its row has the new clock then. 0: nothing is new. The source's thread. */
int ea_source_clock(ea_source *s, size_t *ret_source, ea_clock *ret);

/* A source that goes on where an earlier run stopped saves its position, once all that it returned is durable.
 * is_ahead: 1 when it returned records that the saved position does not have yet, and the last save was long enough
 * ago, or at_end. stored: all records that it returned are on the disk; it saves its position. The source's thread. */
int ea_source_is_ahead(ea_source *s, int at_end);
EA_MUST_CHECK int ea_source_stored(ea_source *s, ea_err *err);

#endif
