/* The .etl format, writing: records become a file of buffers as Windows writes one.
 * Before it: tests/tracegen; whoever copies or cuts a trace. After it: files, which etl.h reads. Thread: its owner's.
 * Source of all layouts: as etl.h says; checked on real traces and by reading back. */
#ifndef EA_ETL_ETL_WRITER_H
#define EA_ETL_ETL_WRITER_H

#include "etl.h"

/* ---- one record ---- */

enum { EA_ETL_RECORD_MAX_BYTES = 65535 };

/* The bytes of a record as a buffer holds them, without padding behind it: the header form that r->header_type names,
 * or, when it names none, the one that Windows would log it with (EVENT for manifest and TraceLogging events, FULL for
 * classic ones). Extended items are written with the linkage that they have: bit 0 says that one more follows.
 * out: out_bytes of room. Errors: EA_EINVAL (the record contradicts its header form), EA_ELIMIT (above
 * EA_ETL_RECORD_MAX_BYTES, or no room). */
EA_MUST_CHECK int ea_etl_encode_record(const ea_record *r, uint8_t *out, size_t out_bytes, size_t *ret_bytes,
                                       ea_err *err);

/* Plain LZ77 ([MS-XCA] 2.3; XPRESS in .etl files). out: room for ea_xpress_bound(in_bytes). Returns the bytes written.
 */
size_t ea_xpress_bound(size_t in_bytes);
size_t ea_xpress_compress(const uint8_t *in, size_t in_bytes, uint8_t *out);

/* ---- one file ---- */

typedef struct ea_etl_writer ea_etl_writer;

typedef struct ea_etl_writer_options {
    /* What the trace header event shall say; borrowed during the call. Used are buffer_size_bytes (0: 64 KiB),
     * os_version, os_build, cpu_count, timer_resolution, max_file_size_mib, log_file_mode, start_buffers, pointer_size,
     * cpu_mhz, bias_minutes, boot_filetime, perf_frequency, start_filetime, clock_type, session_name, log_file_name,
     * compression (0 or 3, XPRESS) and logger. Before Windows 8 (os_version below 6.2) CPU numbers are one byte. */
    const ea_etl_info *info;
    int64_t start_raw; /* time of the header event */
    uint32_t pid, tid; /* of the header event: who started the session */
    /* When not NULL: the header event as it stands in another file, written unchanged instead of one made from info,
     * and left alone by ea_etl_writer_finish. Borrowed during the call. */
    const ea_record *header;
} ea_etl_writer_options;

typedef struct ea_etl_writer_end {
    int64_t end_filetime;
    uint32_t events_lost, buffers_lost;
} ea_etl_writer_end;

/* Makes the file and its first buffer. EA_EINVAL when info contradicts itself; EA_EUNSUPPORTED for other compressions.
 */
EA_MUST_CHECK int ea_etl_writer_create(ea_etl_writer **ret, const char *path, const ea_etl_writer_options *options,
                                       ea_err *err);

/* Appends a record to the buffer of its CPU, which is written out when the next record does not fit. Records of one CPU
 * stay in the order they come in; files as Windows writes them need that order to be by time. r->source and r->position
 * are not kept; r->logger is, at the price of a buffer each time it changes on a CPU.
 * Errors: EA_ELIMIT for a record that no buffer holds (nothing is written), those of ea_etl_encode_record and of files.
 */
EA_MUST_CHECK int ea_etl_writer_add(ea_etl_writer *w, const ea_record *r, ea_err *err);

/* Writes out the buffer of one CPU now, as a flush timer or a full buffer would; nothing when it is empty. */
EA_MUST_CHECK int ea_etl_writer_flush(ea_etl_writer *w, uint16_t cpu, ea_err *err);

/* Writes out every buffer, by CPU, and completes the trace header (buffers written, end time, what was lost). */
EA_MUST_CHECK int ea_etl_writer_finish(ea_etl_writer *w, const ea_etl_writer_end *end, ea_err *err);

/* Closes and frees; NULL is allowed. Without a finish before it the file is what a crash leaves. */
void ea_etl_writer_destroy(ea_etl_writer *w);

/* Counts so far. */
uint64_t ea_etl_writer_records(const ea_etl_writer *w); /* the header event included */
uint64_t ea_etl_writer_buffers(const ea_etl_writer *w); /* written out */

#endif
