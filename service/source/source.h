/* Sources: where records come from. One shape for .etl files, live sessions and paced replays.
 * Before it: proto/etl, service/windows. After it: service/decode. Thread: each source has one. */
#ifndef EA_SOURCE_SOURCE_H
#define EA_SOURCE_SOURCE_H

#include "counters.h"
#include "etl.h"
#include "record.h"
#include "wire.h"

typedef struct ea_source ea_source;

/* Opens .etl files as one merged source. counters is borrowed. speed 0: as fast as it goes; else times real speed
 * (1, 10): next() sleeps until a record's time has come. With options->follow next() waits for files to grow. */
EA_MUST_CHECK int ea_source_open_files(ea_source **ret, const char *const *paths, size_t count, double speed,
                                       const ea_etl_options *options, ea_err *err);
void ea_source_close(ea_source *s); /* NULL is allowed */
/* Makes this and every later ea_source_next return EA_ECANCELED, within some 20 ms even while it waits for a record's
 * time to come or for a file to grow. Any thread or a signal handler may call it. */
void ea_source_stop(ea_source *s);

/* 1 and a record (borrowed until the next call), 0 at the end, negative on an error that ends the source. */
EA_MUST_CHECK int ea_source_next(ea_source *s, const ea_record **ret, ea_err *err);

/* The source table for batches; record.source is the index. Valid until close. A file's row: name is its file name
 * without folders, host "" (no file says it in its header), logger that of its first buffer (each record has its own).
 */
size_t ea_source_count(const ea_source *s);
const ea_wire_source *ea_source_row(const ea_source *s, size_t source);

double ea_source_progress(const ea_source *s); /* 0 to 1 */

#endif
