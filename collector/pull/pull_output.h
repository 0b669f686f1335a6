/* One .etl trace that appears under its name when it is complete. Input: records, by any thread's order in time. Called
 * by: pull.c. Calls: proto/etl. Thread: its owner's.
 *
 * Until it is published the file is PATH.partial, which no other run can have; a run that fails leaves none. */
#ifndef EC_PULL_PULL_OUTPUT_H
#define EC_PULL_PULL_OUTPUT_H

#include "proto/base/err.h"
#include "proto/base/record.h"

#include <stdint.h>

typedef struct ec_pull_output ec_pull_output;

/* What the header event says. */
typedef struct ec_pull_header {
    char *session_name; /* borrowed, unchanged */
    int64_t start_raw, start_filetime, boot_filetime;
    uint64_t frequency; /* ticks a second */
    uint32_t clock_type, pointer_size, cpu_count, os_version, os_build, buffer_bytes;
    uint16_t compression; /* as ea_etl_writer_options.info has it */
    int32_t bias_minutes;
} ec_pull_header;

/* Claims PATH.partial. EA_EINVAL: path is a folder or a device; EA_EBUSY: another run writes it. */
EA_MUST_CHECK int ec_pull_output_claim(ec_pull_output **ret, const char *path, ea_err *err);
EA_MUST_CHECK int ec_pull_output_begin(ec_pull_output *o, const ec_pull_header *header, ea_err *err);
/* A record that is earlier than the one before it of its processor costs a buffer. */
EA_MUST_CHECK int ec_pull_output_add(ec_pull_output *o, const ea_record *r, ea_err *err);
/* Completes, syncs and publishes it. *ret_bytes: its size. */
EA_MUST_CHECK int ec_pull_output_publish(ec_pull_output *o, int64_t end_filetime, uint64_t *ret_bytes, ea_err *err);
uint64_t ec_pull_output_events(const ec_pull_output *o); /* without the header event */
void ec_pull_output_destroy(ec_pull_output *o);          /* NULL is allowed; an unpublished file is removed */

#endif
