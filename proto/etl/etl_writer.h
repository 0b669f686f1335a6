/* Writes the .etl format: records become a file of buffers as Windows writes one.
 * Called by: tests/tracegen, and programs that copy or cut a trace. Output: files, which etl.h reads. Thread: its
 * owner's.
 * Source of all layouts: as etl.h says; checked on real traces and by reading the files back. */
#ifndef EA_ETL_ETL_WRITER_H
#define EA_ETL_ETL_WRITER_H

#include "proto/base/platform.h"
#include "proto/etl/etl.h"

/* ---- one record ---- */

enum { EA_ETL_RECORD_MAX_BYTES = 65535 };

/* The bytes of a record as a buffer holds them, without the padding after it. The header form is the form that
 * r->header_type names. When r->header_type names none, it is the form with which Windows would log the record (EVENT
 * for manifest and TraceLogging events, FULL for classic ones). Extended items are written with the linkage that they
 * have: bit 0 means that another item follows. out: room for out_bytes. Errors: EA_EINVAL (the record contradicts its
 * header form), EA_ELIMIT (the record is larger than EA_ETL_RECORD_MAX_BYTES, or than out_bytes). */
EA_MUST_CHECK int ea_etl_encode_record(const ea_record *r, uint8_t *out, size_t out_bytes, size_t *ret_bytes,
                                       ea_err *err);

/* The compressions of .etl files ([MS-XCA]): plain LZ77 (XPRESS), LZNT1, LZ77 with Huffman codes (XPRESS_HUFF).
 * out: room for what the bound says. Returns the bytes written. */
size_t ea_xpress_bound(size_t in_bytes);
size_t ea_xpress_compress(const uint8_t *in, size_t in_bytes, uint8_t *out);
size_t ea_lznt1_bound(size_t in_bytes);
size_t ea_lznt1_compress(const uint8_t *in, size_t in_bytes, uint8_t *out);
size_t ea_xpress_huff_bound(size_t in_bytes);
size_t ea_xpress_huff_compress(const uint8_t *in, size_t in_bytes, uint8_t *out);

/* ---- one file ---- */

typedef struct ea_etl_writer ea_etl_writer;

typedef struct ea_etl_writer_options {
    /* What the trace header event shall say; borrowed during the call. buffer_size_bytes 0: 64 KiB; pointer_size 0: 8;
     * start_buffers 0: 1. compression: 0 none, 2 LZNT1, 3 XPRESS, 4 XPRESS_HUFF; log_file_mode has to say that there is
     * one (0x04000000). Not used: what ea_etl_writer_finish writes, and what only a reader fills. Before Windows 8
     * (os_version below 6.2) CPU numbers are one byte. */
    const ea_etl_info *info;
    int64_t start_raw;                         /* time of the header event */
    uint32_t pid, tid, kernel_time, user_time; /* of the header event: who started the session */
    /* When not NULL: the header event of another file. It is written unchanged in place of a header event made from
     * info, and ea_etl_writer_finish does not change it, unless completes_header is set. Borrowed during the call. */
    const ea_record *header;
    /* 1: header is written with the buffer size and the log file mode of info, and ea_etl_writer_finish completes it.
     */
    int completes_header;

    /* The records after the header event in the first buffer (not when header is given). Windows 10 1809 and later
     * write the partition; a kernel session writes the group masks, all zero, because it records nothing yet. */
    enum ea_etl_session {
        EA_ETL_HEADER_ALONE = 0,
        EA_ETL_USER_SESSION,
        EA_ETL_KERNEL_SESSION,
    } session;

    /* 1: buffer headers as a file has them that was merged from others (flush times in FILETIME, no session's state).
     * Compressed files are such ones always; 0: as the session itself wrote it. */
    int merged;
    /* Real-time-like disorder: so many full buffers at most are held back, and which of them goes to the file next is
     * chance, by seed. 0: they go in the order in which they became full. */
    unsigned held_buffers;
    uint64_t seed;

    /* When not NULL: an empty file, in place of one that is made at path; borrowed until the writer is destroyed. */
    ea_file *file;
} ea_etl_writer_options;

enum { EA_ETL_HELD_BUFFERS_MAX = 4096 };

typedef struct ea_etl_writer_end {
    int64_t end_filetime;
    uint32_t events_lost, buffers_lost; /* for the header, in addition to those of ea_etl_writer_lose */
} ea_etl_writer_end;

/* Makes the file and its first buffer. EA_EINVAL when the options contradict themselves; EA_EUNSUPPORTED for other
 * compressions. */
EA_MUST_CHECK int ea_etl_writer_create(ea_etl_writer **ret, const char *path, const ea_etl_writer_options *options,
                                       ea_err *err);

/* Appends a record to the buffer of its CPU, which is written out when the next record does not fit. Records of one CPU
 * stay in the order they come in; files as Windows writes them need that order to be by time. r->source and r->position
 * are not kept; r->logger is, at the price of a buffer each time it changes on a CPU.
 * Errors: EA_ELIMIT for a record that no buffer holds (nothing is written), those of ea_etl_encode_record and of files.
 */
EA_MUST_CHECK int ea_etl_writer_add(ea_etl_writer *w, const ea_record *r, ea_err *err);

/* Records that events or buffers of this CPU were lost: the next buffer that the CPU writes has the flags of the
 * losses, and the file's header counts them. */
EA_MUST_CHECK int ea_etl_writer_lose(ea_etl_writer *w, uint16_t cpu, uint32_t events, uint32_t buffers, ea_err *err);

/* Writes out the buffer of one CPU now, as a flush timer or a full buffer would; nothing when it is empty. */
EA_MUST_CHECK int ea_etl_writer_flush(ea_etl_writer *w, uint16_t cpu, ea_err *err);

/* Writes out every buffer, by CPU, and completes the trace header (buffers written, end time, what was lost). */
EA_MUST_CHECK int ea_etl_writer_finish(ea_etl_writer *w, const ea_etl_writer_end *end, ea_err *err);

/* Makes what was written durable. */
EA_MUST_CHECK int ea_etl_writer_sync(ea_etl_writer *w, ea_err *err);

/* Closes and frees; NULL is allowed. Without a finish before it the file is what a crash leaves. */
void ea_etl_writer_destroy(ea_etl_writer *w);

/* Counts so far. */
uint64_t ea_etl_writer_records(const ea_etl_writer *w); /* includes the header event and the records after it */
uint64_t ea_etl_writer_buffers(const ea_etl_writer *w); /* full and flushed ones, held ones included */

#endif
