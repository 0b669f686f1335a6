/* A ring of records between two threads: Windows' callback thread puts copies in and never waits, the other one takes
 * them out. A record without room is dropped and counted by its kind, so that the ledger can report the loss.
 * Called by: service/etw (put), the source (take). Thread: put() one thread, everything else but create() and destroy()
 * another.
 *
 * All memory is allocated, and touched, by create(): put() copies a record into it (two cache lines and its payload),
 * allocates nothing and takes no lock. */
#ifndef EA_SOURCE_RING_H
#define EA_SOURCE_RING_H

#include "service/source/source.h"

typedef struct ea_ring ea_ring;

/* bytes: a power of two, 1 MiB at the least. */
EA_MUST_CHECK int ea_ring_create(ea_ring **ret, size_t bytes, ea_err *err);
void ea_ring_destroy(ea_ring *r); /* NULL is allowed */

/* 0; or the record was dropped and counted: EA_EFULL, EA_ELIMIT (its items are larger than a quarter of the ring).
 * Its position becomes its number in the ring, dropped ones included. */
int ea_ring_put(ea_ring *r, const ea_record *record);
/* The place of a record without items, for a caller that writes it there and thus copies it once. Its position and its
 * payload are set; the caller writes all other members and the payload's bytes, then calls ea_ring_commit. NULL: there
 * is no room, and ea_ring_put drops and counts the record. The putting thread's. */
ea_record *ea_ring_begin(ea_ring *r, uint16_t payload_bytes);
void ea_ring_commit(ea_ring *r);
/* 1 and the oldest record, borrowed until the next call; 0: there is none. */
int ea_ring_take(ea_ring *r, const ea_record **ret);
/* Gives the record that was taken last another position: where the records of two rings become one stream. The taking
 * thread's. */
void ea_ring_renumber(ea_ring *r, uint64_t position);
/* As ea_source_dropped. */
int ea_ring_dropped(ea_ring *r, ea_dropped *ret);
/* Bytes in use now, of all; any thread. */
size_t ea_ring_used(const ea_ring *r);

#endif
