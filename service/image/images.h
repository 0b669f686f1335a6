/* A worker that reads the files of loaded images: size, PDB, version and SHA-256, each file once until it changes; and
 * asks the machine what the accounts of processes are called, each once, and again after an hour when it had no name.
 * An answer may take minutes, when a domain controller is away: files that wait are read for eight times as long before
 * the next account.
 *
 *     source's thread: ea_images_ask ──paths, modules that wait for each──▶ worker: reads ──facts──▶ ea_images_take
 *
 * The worker has the lowest priority of the system (on Windows background mode, for the disk too), reads no more than a
 * rate allows (opening a file counts as 16 KiB), and pauses while its session's source has not caught up: it is the
 * first part of the agent that yields. Each requested module ends in one of the counters that counters.h lists. Called
 * by: image_source.c. Calls: service/host/image_file.h. Thread: as each function says. */
#ifndef EA_IMAGE_IMAGES_H
#define EA_IMAGE_IMAGES_H

#include "proto/base/counters.h"
#include "proto/base/text.h"

typedef struct ea_images ea_images;

typedef struct ea_images_options {
    uint64_t rate_bytes;  /* that are read in a second */
    uint64_t hash_bytes;  /* a larger file has no hash */
    size_t limit_files;   /* limit of known files; at the limit the least recently used one is dropped. 0: 8,192 */
    size_t limit_modules; /* limit of waiting modules; at the limit further ones are not read. 0: 32,768 */
    int (*lookup)(const char *sid, char *out, size_t out_bytes); /* of accounts; NULL: ea_account_lookup */
    int64_t again_ns;      /* before an account that had no name is asked about again; 0: an hour */
    ea_counters *counters; /* borrowed; images_* and accounts_* are counted */
} ea_images_options;

/* Starts the thread; the source counts as having caught up now. */
EA_MUST_CHECK int ea_images_create(ea_images **ret, const ea_images_options *options, ea_err *err);
/* Nothing more is looked at; what waits is counted as left. The source's thread. */
void ea_images_stop(ea_images *im);
/* Waits for the worker, a second at most: one that hangs in a disk frees what is its own when it comes back. NULL is
 * allowed. */
void ea_images_destroy(ea_images *im);

/* Asks about a module of this path, which is copied. timestamp: of the header, as the image's event has it; 0: it does
 * not say. Never waits for the disk. The source's thread. */
void ea_images_ask(ea_images *im, uint32_t pid, uint64_t base, uint32_t timestamp, const char *path);
/* Asks about an account, each SID once, or again (above); it is copied. Never waits. The source's thread. */
void ea_images_ask_account(ea_images *im, const char *sid);
/* The opcode and the payload of a record about a module or an account (image_facts.h, account_facts.h); 0: there is
 * none yet. The source's thread. */
int ea_images_take(ea_images *im, ea_text *payload);
/* The source has caught up with its session: for a second the worker may go on. The source's thread. */
void ea_images_calm(ea_images *im);

#endif
