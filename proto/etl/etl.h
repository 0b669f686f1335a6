/* The .etl format, reading: files of buffers become records in canonical order. Input: files. Used by: service/source,
 * tests. Thread: the source's; nothing here is shared.
 *
 * Canonical order is (time, file, cpu, position). One ea_etl_set reads one or several files of one run of a machine,
 * merged. Memory: 24 bytes a buffer of index, plus the decoded buffers whose time ranges overlap at the moment (one a
 * CPU and file in a file as Windows writes it).
 * Source of all layouts: winsiderss/systeminformer phnt/include/ntwmi.h (WMI_BUFFER_HEADER, *_TRACE_HEADER),
 * microsoft/perfview KernelTraceEventParser.cs (trace header event), evntcons.h; measured on real traces. */
#ifndef EA_ETL_ETL_H
#define EA_ETL_ETL_H

#include "proto/base/clock.h"
#include "proto/base/counters.h"
#include "proto/base/err.h"
#include "proto/base/record.h"

/* What the trace header event (group 0, opcode 0, TRACE_LOGFILE_HEADER) of one file says. */
typedef struct ea_etl_info {
    char *path; /* as given */
    uint64_t file_bytes;
    uint32_t buffer_size_bytes;
    uint32_t os_version; /* Version word: major, minor, sub, sub minor bytes */
    uint32_t os_build;   /* ProviderVersion */
    uint32_t cpu_count;
    int64_t end_filetime; /* 0: unset */
    uint32_t timer_resolution;
    uint32_t max_file_size_mib;
    uint32_t log_file_mode;
    uint32_t buffers_written;
    uint32_t start_buffers;
    uint32_t pointer_size; /* bytes */
    uint32_t events_lost;
    uint32_t cpu_mhz;
    int32_t bias_minutes;      /* of the time zone: UTC = local + bias */
    uint8_t time_zone[176];    /* TIME_ZONE_INFORMATION as in the file: the bias first, padding at the end */
    uint64_t name_pointers[2]; /* LoggerName, LogFileName: they mean nothing outside */
    int64_t boot_filetime;
    int64_t perf_frequency;
    int64_t start_filetime;
    uint32_t clock_type; /* enum ea_clock_type */
    uint32_t buffers_lost;
    char *session_name;    /* UTF-8; "" when absent */
    char *log_file_name;   /* UTF-8; "" when absent */
    ea_clock clock;        /* made from the above and the header event's own timestamp */
    uint64_t buffer_count; /* found in the file */
    uint16_t compression;  /* 0 none, 2 LZNT1, 3 XPRESS, 4 XPRESS_HUFF */
    uint16_t logger;       /* session id in the first buffer's header */
} ea_etl_info;

typedef struct ea_etl_set ea_etl_set;

/* One place where a file was damaged: reported as it is found. */
typedef struct ea_etl_damage {
    const char *path;
    uint64_t offset;    /* in the file, of the buffer */
    uint32_t inside;    /* offset in the decoded buffer, 0 when the buffer itself is meant */
    uint64_t bytes;     /* skipped */
    const char *reason; /* "expected a record marker, found 0x00000000" */
} ea_etl_damage;

typedef struct ea_etl_options {
    ea_counters *counters; /* borrowed; source_* are counted here; NULL: not counted */
    void (*on_damage)(const ea_etl_damage *damage, void *arg); /* may be NULL */
    void *on_damage_arg;
    uint64_t memory_limit_bytes; /* of decoded buffers; 0: eight buffers a CPU and file, 256 MiB at least, 4
                                  * GiB at most. Above it buffers are given up and decoded again: slow, never wrong */
    uint64_t again_limit_bytes;  /* of that: above these bytes (0: 4 GiB) and 8 times the cost of decoding once,
                                  * ea_etl_next fails with EA_ELIMIT */
    int no_mending;              /* 1: damaged XPRESS data are not mended. Mending chooses the bytes that make the rest
                                  * readable. It is a guess, and it is counted and reported as damage; it saves most
                                  * records after a wrong byte */
    int follow;                  /* 1: the files are still being written; see ea_etl_next */
    int64_t hold_back_ns;        /* follow: how long records are held back when nothing new comes; 0: for ever */
} ea_etl_options;

/* What ea_etl_next returns in place of a record when it follows files. */
enum { EA_ETL_NOTHING_YET = 2 };

/* Opens files and builds the index. A file that is empty or no trace fails with EA_EFORMAT, and the message says which;
 * a truncated file opens. Files whose boot times or clocks differ are merged by UTC, others by raw time. Following a
 * circular log, which overwrites itself, fails with EA_EUNSUPPORTED. */
EA_MUST_CHECK int ea_etl_open(ea_etl_set **ret, const char *const *paths, size_t path_count,
                              const ea_etl_options *options, ea_err *err);
void ea_etl_close(ea_etl_set *set); /* NULL is allowed */

size_t ea_etl_file_count(const ea_etl_set *set);
const ea_etl_info *ea_etl_file_info(const ea_etl_set *set, size_t file);

/* The header event of a file as the file has it; it is also one of the records of ea_etl_next. data: room for its
 * bytes, which *ret borrows. EA_EFORMAT: it is damaged, although the reader found its facts. */
enum { EA_ETL_HEADER_EVENT_MAX_BYTES = 32768 };

EA_MUST_CHECK int ea_etl_header_record(const ea_etl_set *set, size_t file, uint8_t *data, ea_record *ret, ea_err *err);
/* Whether a record of ea_etl_next is the header event of its file. */
int ea_etl_is_header_record(const ea_record *r);

/* The next record in canonical order: 1 and *ret_record (borrowed until the next call), 0 at the end, negative on an
 * error that ends the reading (damage does not: it is skipped, counted and reported).
 *
 * Following, buffers are taken as they come into the files, and the records of a window of them (two a CPU, eight at
 * the least, of each file) are put in order; what comes later than that comes out late and is counted. A record comes
 * out when every window is full or its file's header says that the session has ended, so that the order is a function
 * of what is in the files and not of when they were looked at; with hold_back_ns, also when nothing new came for that
 * long. The first buffer, whose header event changes while its session runs, comes when that is over.
 * EA_ETL_NOTHING_YET: call again some time later. 0: all sessions have ended. */
EA_MUST_CHECK int ea_etl_next(ea_etl_set *set, const ea_record **ret_record, ea_err *err);

/* Progress in [0, 1] by buffers begun. */
double ea_etl_progress(const ea_etl_set *set);

/* Decompresses into out (room for out_bytes). *ret_bytes is what came out; EA_ECORRUPT when the input is damaged (what
 * came out up to there is good). Sources: [MS-XCA]. */
EA_MUST_CHECK int ea_xpress_decompress(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes,
                                       size_t *ret_bytes);

#endif
