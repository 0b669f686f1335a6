/* The names of the kernel's addresses, and when they had them: paths of file objects and file keys, paths of registry
 * keys (KCBs), drive letters of volumes; and how file operations ended. The rules are here. A backing keeps the rows:
 * ea_object_names is a backing in memory. One pass over the records fills it, and then it answers (`etwagent dump`:
 * Windows writes most names at the very end of a trace). collector/state has a backing in its database.
 * Calls: proto/event. Called by: `etwagent dump` and `etwcollector export`, which print names through render.h. Thread:
 * its owner's.
 *
 * Rules:
 * - Files. FileIo/FileCreate (32) names a file key, and Create (64) a file object, from its time on; the name that the
 *   address had before ends there. FileIo/Name (0) and FileRundown (36) name a key that may be older: since the end of
 *   the name that the address had before, or since ever. An existing name stays. FileDelete (35) and Close (66) end a
 *   name after themselves, so that these events still have it. File keys and file objects are addresses of the same
 *   kernel at the same time and share one table.
 * - Registry keys. KCBCreate (22) names one from its time on, KCBRundownBegin and -End (24, 25) and RunDown (22 of
 *   version 1) since the end of the last one; KCBDelete (23) ends the name after itself.
 * - Volumes: SysConfigEx/VolumeMapping (35) and SystemPaths (33); they hold for the whole trace.
 * - File operations (FileIo 64 to 75, 77 and 79 to 81) wait under their IRP for OperationEnd (76). When another
 *   operation with the same IRP begins before that end, the end of the first operation is lost.
 * - A keyframe (keyframe.h) names the open objects, each with the time from which it had that name, and volumes.
 * - .NET collections are operations too, of a process and a runtime instance: GC/Start (1) waits for GC/Stop (2) of the
 *   same number, and GC/SuspendEEStart (9), where the runtime begins to stop its threads, for GC/RestartEEStop (3),
 *   where the last of them runs again. */
#ifndef EA_STATE_OBJECT_NAMES_H
#define EA_STATE_OBJECT_NAMES_H

#include "proto/base/counters.h"
#include "proto/event/event.h"
#include "proto/event/render.h"
#include "proto/state/string_pool.h"

enum ea_name_kind { EA_NAME_FILE = 0, EA_NAME_KEY = 1 };

/* A name held for [begin, end): begin INT64_MIN since ever, end INT64_MAX still. */
typedef struct ea_name_row {
    uint64_t number; /* the backing's, from 1; 0: not kept yet */
    uint64_t address;
    int64_t begin_utc_ns, end_utc_ns;
    const char *name; /* as Windows wrote it; borrowed until the backing's next call */
    uint8_t kind;     /* enum ea_name_kind */
} ea_name_row;

typedef struct ea_operation_row {
    uint64_t number, irp, information;
    int64_t begin_utc_ns, end_utc_ns; /* end INT64_MIN while it runs */
    uint32_t status;                  /* NTSTATUS; when it has ended, like information */
    const char *name;                 /* the class that began it; borrowed like a name */
} ea_operation_row;

/* Where rows are kept. A put row without a number is new; when there is no room for it the backing counts it, and that
 * is no error. Each returns 0, or an error that ends the fold; the last_ ones 1 when there is such a row. */
typedef struct ea_object_names_backing {
    int (*last_name)(void *arg, uint8_t kind, uint64_t address, ea_name_row *ret, ea_err *err);
    int (*put_name)(void *arg, const ea_name_row *row, ea_err *err);
    int (*last_operation)(void *arg, uint64_t irp, ea_operation_row *ret, ea_err *err);
    int (*put_operation)(void *arg, const ea_operation_row *row, ea_err *err);
    int (*put_volume)(void *arg, const char *nt, const char *dos, ea_err *err); /* a known nt keeps what it has */
} ea_object_names_backing;

/* 1 when records of this provider and opcode (of a manifest's provider: id) can say something about names; a few
 * comparisons. */
int ea_object_names_concerns(const ea_guid *provider, uint16_t opcode);
/* Folds one record into a backing, in canonical order. A record that says nothing about names costs a few comparisons.
 * scratch: borrowed, for texts. */
EA_MUST_CHECK int ea_object_names_fold(const ea_object_names_backing *backing, void *arg, ea_text *scratch,
                                       const ea_record *record, const ea_class *c, int64_t utc_ns, ea_err *err);
/* 1 when the event is an operation or the end of one. *ret_irp: the IRP that distinguishes operations, or its
 * substitute; *ret_is_end. */
int ea_object_names_operation(const ea_record *record, const ea_class *c, uint64_t *ret_irp, int *ret_is_end);
/* 1 when the row is the operation that this event began (or ended, is_end); fills *ret. Asked of an IRP's rows in the
 * order of their begin, the last before utc_ns first, until *ret_go_on is 0. */
int ea_object_names_matches(const ea_operation_row *row, const ea_class *c, int is_end, int64_t utc_ns,
                            ea_completion *ret, int *ret_go_on);

/* Drive letters: device paths and what stands for them. */
enum { EA_VOLUMES_MAX = 256 };

typedef struct ea_volume {
    const char *nt, *dos; /* borrowed */
    size_t nt_bytes;
} ea_volume;

/* Adds one whose texts live in kept: 1; 0 when there is no room. A known nt keeps what it has. volumes: room for
 * EA_VOLUMES_MAX. */
int ea_volumes_add(ea_volume *volumes, size_t *count, ea_string_pool *kept, const char *nt, const char *dos);
/* Sorts the volumes with the longest prefix first, because the longest prefix decides. */
void ea_volumes_sort(ea_volume *volumes, size_t count);
/* Appends the path with the drive letter of its volume: 1; 0 when no rule changes it. volumes: sorted. */
int ea_volumes_path(const ea_volume *volumes, size_t count, const char *path, size_t len_bytes, ea_text *out);
/* ---- the backing in memory ---- */

typedef struct ea_object_names ea_object_names;

typedef struct ea_object_names_options {
    size_t limit_names;      /* names with their times; 0: 4,194,304 */
    size_t limit_operations; /* 0: 8,388,608, of 40 bytes each */
    size_t limit_text_bytes; /* 0: 512 MiB */
    ea_counters *counters;   /* borrowed; what a full table left out is counted as state_texts_left_out; may be NULL */
} ea_object_names_options;

EA_MUST_CHECK int ea_object_names_create(ea_object_names **ret, const ea_object_names_options *options, ea_err *err);
void ea_object_names_destroy(ea_object_names *n); /* NULL is allowed */

/* Folds one record in, in canonical order. A record that says nothing about names costs a few comparisons. */
EA_MUST_CHECK int ea_object_names_apply(ea_object_names *n, const ea_record *record, const ea_class *c, int64_t utc_ns,
                                        ea_err *err);
/* Ends the first pass: from now on there are answers, and no more records. */
void ea_object_names_seal(ea_object_names *n);

/* The name of the address at that time, as Windows wrote it; NULL when it is unknown. Valid as long as n. */
const char *ea_object_names_find(const ea_object_names *n, enum ea_name_kind kind, uint64_t address, int64_t utc_ns);
/* Appends the path with the drive letter of its volume: 1; 0 when no rule of this trace changes it. */
int ea_object_names_dos_path(const ea_object_names *n, const char *path, size_t len_bytes, ea_text *out);

/* The same for rendering. n: sealed, borrowed. */
ea_resolver ea_object_names_resolver(const ea_object_names *n);

/* Says on standard error, in the program's name, what full tables left out; nothing when nothing was. */
void ea_object_names_report_left_out(const ea_object_names *n, const char *program);
/* Names, operations that ended, and what full tables left out. */
void ea_object_names_counts(const ea_object_names *n, size_t *ret_names, size_t *ret_operations,
                            uint64_t *ret_left_out);

#endif
