/* The emulator's files: a session with a log file writes what it logs into it, by a thread of the program that started
 * the session (Windows' kernel does it, so that there a file goes on without its program). A circular file holds the
 * newest MaximumFileSize MiB; it is written when the session stops. See emulator.h. Thread: its own, one a session. */
#include "tests/windows/emulator_stream.h"

#include "proto/etl/etl_writer.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { CIRCULAR = EVENT_TRACE_FILE_MODE_CIRCULAR, PATIENCE_MS = 240000 };

/* A record of a circular file, copied. */
typedef struct kept {
    struct kept *next;
    size_t bytes;
    ea_record record;
} kept;

typedef struct file {
    size_t index;
    uint32_t incarnation;
    HANDLE thread;
    emul_session *now; /* as it was seen last; the thread's */
    ea_etl_writer *writer;
    uint64_t limit_bytes; /* of a circular one; 0: it grows */
    kept *oldest, *newest;
    uint64_t kept_bytes;
} file;

static file *files[EMUL_SESSIONS]; /* of this process, by the session's place in the table */

static void write_one(void *arg, const ea_record *r) {
    file *f = arg;
    ea_record own = *r;
    own.source = 0;
    if (ea_etl_writer_add(f->writer, &own, NULL))
        emul_fail("a log file takes no more: the disk is full, or the record is one that no provider can log");
}

static void keep(void *arg, const ea_record *r) {
    file *f = arg;
    size_t items = r->ext_count * sizeof(ea_ext), bytes = sizeof(kept) + items + r->payload_bytes;
    for (size_t i = 0; i < r->ext_count; i++)
        bytes += r->ext[i].size_bytes;
    kept *k = malloc(bytes);
    if (!k)
        emul_fail("no memory for a circular file");
    uint8_t *at = (uint8_t *)(k + 1) + items;
    ea_ext *ext = (ea_ext *)(void *)(k + 1);
    k->next = NULL;
    k->bytes = bytes;
    k->record = *r;
    k->record.ext = ext;
    for (size_t i = 0; i < r->ext_count; i++) {
        ext[i] = r->ext[i];
        ext[i].data = at;
        if (ext[i].size_bytes)
            memcpy(at, r->ext[i].data, ext[i].size_bytes);
        at += ext[i].size_bytes;
    }
    k->record.payload = at;
    if (r->payload_bytes)
        memcpy(at, r->payload, r->payload_bytes);
    if (f->newest)
        f->newest->next = k;
    else
        f->oldest = k;
    f->newest = k;
    for (f->kept_bytes += bytes; f->kept_bytes > f->limit_bytes && f->oldest != k;) {
        kept *gone = f->oldest;
        f->oldest = gone->next;
        f->kept_bytes -= gone->bytes;
        free(gone);
    }
}

static void take(void *arg, const ea_record *r) {
    if (((file *)arg)->limit_bytes)
        keep(arg, r);
    else
        write_one(arg, r);
}

static int create(file *f, const emul_session *s, const emul_stream *st) {
    const ea_etl_info *trace = emul_stream_info(st);
    ea_etl_info info =
        trace ? *trace
              : (ea_etl_info){.os_version = 10, .cpu_count = 1, .clock_type = EA_CLOCK_QPC, .perf_frequency = 10000000};
    char path[3 * EMUL_FILE], name[3 * EMUL_NAME];
    WideCharToMultiByte(CP_UTF8, 0, (const WCHAR *)s->file, -1, path, sizeof path, NULL, NULL);
    WideCharToMultiByte(CP_UTF8, 0, (const WCHAR *)s->name, -1, name, sizeof name, NULL, NULL);
    info.buffer_size_bytes = s->buffer_kib * 1024;
    info.log_file_mode = s->mode;
    info.max_file_size_mib = s->max_file_mib;
    info.start_buffers = s->min_buffers;
    info.compression = 0;
    info.session_name = name;
    info.log_file_name = path;
    ea_etl_writer_options o = {
        .info = &info, .start_raw = emul_stream_time(st), .pid = GetCurrentProcessId(), .tid = GetCurrentThreadId()};
    return ea_etl_writer_create(&f->writer, path, &o, NULL);
}

static void finish(file *f, const emul_stream *st) {
    emul_stream_counts counts = emul_stream_get(st);
    ea_etl_writer_end end = {.events_lost = counts.lost};
    const ea_etl_info *trace = emul_stream_info(st);
    if (trace)
        end.end_filetime = ea_utc_ns_to_filetime(ea_clock_to_utc_ns(&trace->clock, emul_stream_time(st)));
    for (kept *k = f->oldest; k; k = f->oldest) {
        write_one(f, &k->record);
        f->oldest = k->next;
        free(k);
    }
    if (ea_etl_writer_finish(f->writer, &end, NULL))
        emul_fail("a log file cannot be ended");
}

static int goes_on(const file *f, emul_session *ret) {
    emul_table *t = emul_lock();
    const emul_session *s = &t->sessions[f->index];
    int yes = s->used && s->incarnation == f->incarnation;
    if (yes)
        *ret = *s;
    emul_unlock();
    return yes;
}

static DWORD WINAPI run(void *arg) {
    file *f = arg;
    emul_session *now = f->now;
    emul_stream_counts counted = {0}; /* the counts that the table already has */
    while (goes_on(f, now) && !emul_logs_something(now))
        Sleep(1); /* the trace begins to play when the session has enabled something that could be logged */
    emul_stream *st = emul_stream_open(now);
    if (!st || create(f, now, st))
        emul_fail("a trace cannot be read, or a log file not be made");
    while (goes_on(f, now)) {
        int handed = emul_stream_pump(st, now, take, f);
        emul_stream_counts counts = emul_stream_get(st);
        emul_table *t = emul_lock();
        emul_session *s = &t->sessions[f->index];
        s->file_events = counts.logged - counts.lost;
        s->over = handed < 0;
        if (!(s->mode & EVENT_TRACE_REAL_TIME_MODE)) {
            s->logged += counts.logged - counted.logged;
            s->lost_events += counts.lost - counted.lost;
            s->played = counts.position;
            s->written += handed == 1;
        }
        emul_unlock();
        counted = counts;
        if (handed != 1)
            Sleep(5);
    }
    emul_stream_end(st, take, f);
    finish(f, st);
    ea_etl_writer_destroy(f->writer);
    emul_stream_close(st);
    free(now);
    emul_table *t = emul_lock();
    t->sessions[f->index].readers--;
    t->sessions[f->index].writer = 0;
    emul_unlock();
    return 0;
}

void emul_file_begin(emul_session *s, size_t index) {
    file *f = calloc(1, sizeof *f);
    emul_session *now = malloc(sizeof *now);
    if (!f || !now)
        emul_fail("no memory for a log file");
    *now = *s; /* also of a session that is stopped before its thread looks */
    f->now = now;
    f->index = index;
    f->incarnation = s->incarnation;
    f->limit_bytes = s->mode & CIRCULAR ? (uint64_t)s->max_file_mib << 20 : 0;
    s->readers++;
    s->writer = GetCurrentProcessId();
    files[index] = f;
    f->thread = CreateThread(NULL, 0, run, f, 0, NULL);
    if (!f->thread)
        emul_fail("no thread for a log file");
}

/* Whether the process ended before what it wrote was complete: the emulator cannot go on with its file. */
static int is_gone(uint32_t pid) {
    HANDLE process = pid ? OpenProcess(SYNCHRONIZE, FALSE, pid) : NULL;
    int gone = pid && (!process || WaitForSingleObject(process, 0) == WAIT_OBJECT_0);
    if (process)
        CloseHandle(process);
    return gone;
}

void emul_file_wait(size_t index, uint32_t incarnation) {
    file *f = files[index];
    if (!f || f->incarnation != incarnation) { /* another program writes it */
        int32_t readers = 1;
        for (int waited = 0; readers && waited < PATIENCE_MS; waited += 5) {
            emul_table *t = emul_lock();
            emul_session *s = &t->sessions[index];
            readers = s->incarnation == incarnation && s->file[0] ? s->readers : 0;
            if (readers && is_gone(s->writer)) {
                s->writer = 0;
                readers = --s->readers;
            }
            emul_unlock();
            if (readers)
                Sleep(5);
        }
        return;
    }
    files[index] = NULL;
    if (WaitForSingleObject(f->thread, PATIENCE_MS) != WAIT_OBJECT_0)
        emul_fail("a log file is not complete four minutes after its session's end");
    CloseHandle(f->thread);
    free(f);
}
