/* The events that a session of the emulator logs, in buffers. See emulator_stream.h. */
#include "tests/windows/emulator_stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECORD_BYTES = 80, /* what a buffer spends on an event beside its payload and items */
    PER_PUMP = 16384,  /* records of the trace that are gone past between two looks at who takes them */
    SLOTS_MAX = 65536, /* buffers */
    STATES_MAX = 4096, /* events that an asking for state brings at the most */
    FILE_RUNDOWN = 36, /* FileIo/FileRundown */
    FILE_NAMES_FLAG = 0x200,
    DISK_FLAG = 0x100,
    RD_COMPLETE = 8, /* EventTrace/RDComplete */
    RT_LOST_EVENT = 32,
};

static const ea_guid FILE_IO = EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3),
                     LOST_EVENT = EA_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e),
                     HEADER = EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);

/* A sequence of events: each has an ea_record, its items, their data and the payload, each aligned to 8 bytes. */
typedef struct buffer {
    uint8_t *data;
    size_t bytes, capacity;
    size_t charged; /* of the session's buffer size */
    double due_ms;  /* by the clock: when it is handed over though it is not full */
} buffer;

struct emul_stream {
    emul_session session; /* as it was asked last */
    ea_etl_set *set;
    const ea_record *ahead; /* read from the trace and not yet logged */
    int over;               /* there is no more */
    int in_midst;           /* of the trace: it does not begin at its beginning */
    int begun;              /* the rundown at the start was logged */
    uint64_t position;
    int64_t first_raw, time_raw;
    double ticks_per_ms;
    emul_rundown *there;
    emul_recent *recent;
    emul_alias *alias;

    buffer open, late; /* being filled; late: of the processor whose buffers come late */
    buffer *queue;     /* slots; handed over, the oldest at front */
    size_t slots, front, queued;
    int64_t youngest_raw; /* of what was delivered */
    int lost_unsaid;      /* an event was lost, and no RTLostEvent has been logged for it yet */
    uint32_t flushes;
    size_t written; /* the place in what programs write */
    uint32_t captured[EMUL_PROVIDERS];
    emul_stream_counts counts;

    LARGE_INTEGER began, frequency; /* the machine's clock */
    int64_t own_ticks;              /* used by the emulator itself; its clock is stopped meanwhile */
};

static ea_etl_set *open_traces(void) {
    const emul_script *w = emul_what();
    const char *paths[8];
    ea_etl_set *set = NULL;
    for (uint32_t k = 0; k < w->trace_count; k++)
        paths[k] = w->traces[k];
    if (w->trace_count && ea_etl_open(&set, paths, w->trace_count, &(ea_etl_options){0}, NULL))
        return NULL;
    return set;
}

/* Reads the next record of the trace. Headers are those of the sessions that wrote it; this one has its own. */
static int look_ahead(emul_stream *st) {
    while (!st->ahead && !st->over) {
        if (!st->set || ea_etl_next(st->set, &st->ahead, NULL) != 1) {
            st->over = 1;
            st->ahead = NULL;
        } else if (ea_guid_equal(&st->ahead->provider, &HEADER) && st->ahead->opcode == 0 &&
                   (st->ahead->flags & EA_FLAG_CLASSIC_HEADER)) {
            st->ahead = NULL;
            st->position++;
        } else {
            st->ahead = emul_alias_apply(st->alias, st->ahead);
        }
    }
    return st->ahead != NULL;
}

static int64_t ticks_now(void) {
    LARGE_INTEGER now;
    QueryPerformanceCounter(&now);
    return now.QuadPart;
}

static double clock_ms(const emul_stream *st) {
    const emul_script *w = emul_what();
    if (!(w->slow > 0)) /* as far as the trace was played */
        return (double)(st->time_raw - st->first_raw) / st->ticks_per_ms;
    return (double)(ticks_now() - st->began.QuadPart - st->own_ticks) * 1000 / (double)st->frequency.QuadPart / w->slow;
}

emul_stream *emul_stream_open(const emul_session *s) {
    emul_stream *st = calloc(1, sizeof *st);
    if (!st)
        return NULL;
    st->session = *s;
    st->flushes = s->flushes;
    st->written = s->written_before;
    st->in_midst = s->played != 0;
    st->queue = calloc(SLOTS_MAX, sizeof *st->queue);
    st->there = emul_rundown_create();
    st->recent = emul_recent_create();
    st->alias = emul_alias_create();
    st->set = open_traces();
    st->ticks_per_ms = 10000;
    if (st->set)
        st->ticks_per_ms = (double)ea_etl_file_info(st->set, 0)->clock.frequency / 1000;
    if (!st->queue || !st->there || !st->recent || (!st->set && emul_what()->trace_count)) {
        emul_stream_close(st);
        return NULL;
    }
    while (look_ahead(st) && st->position < s->played) {
        emul_rundown_see(st->there, st->ahead);
        st->ahead = NULL;
        st->position++;
    }
    st->first_raw = st->time_raw = st->ahead ? st->ahead->time_raw : 0;
    QueryPerformanceFrequency(&st->frequency);
    st->began.QuadPart = ticks_now();
    return st;
}

void emul_stream_close(emul_stream *st) {
    if (!st)
        return;
    for (size_t i = 0; st->queue && i < SLOTS_MAX; i++)
        free(st->queue[i].data);
    free(st->queue);
    free(st->open.data);
    free(st->late.data);
    emul_rundown_destroy(st->there);
    emul_recent_destroy(st->recent);
    emul_alias_destroy(st->alias);
    ea_etl_close(st->set);
    free(st);
}

emul_stream_counts emul_stream_get(const emul_stream *st) {
    emul_stream_counts c = st->counts;
    c.position = st->position;
    return c;
}

const ea_etl_info *emul_stream_info(const emul_stream *st) {
    return st->set ? ea_etl_file_info(st->set, 0) : NULL;
}

int64_t emul_stream_time(const emul_stream *st) {
    return st->time_raw;
}

/* ---- buffers ---- */

static size_t up8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

static void hand_over(emul_stream *st, buffer *b) {
    if (!b->bytes)
        return;
    buffer *slot = &st->queue[(st->front + st->queued++) % SLOTS_MAX];
    buffer empty = *slot; /* its memory is used again */
    *slot = *b;
    *b = (buffer){.data = empty.data, .capacity = empty.capacity};
}

static void append(buffer *b, const ea_record *r) {
    size_t need = up8(sizeof *r) + r->ext_count * sizeof(ea_ext) + up8(r->payload_bytes);
    for (size_t i = 0; i < r->ext_count; i++)
        need += up8(r->ext[i].size_bytes);
    if (b->bytes + need > b->capacity) {
        b->capacity = 2 * (b->bytes + need) + 65536;
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            emul_fail("no memory for a buffer");
    }
    uint8_t *p = b->data + b->bytes;
    b->bytes += need;
    memcpy(p, r, sizeof *r);
    p += up8(sizeof *r);
    if (r->ext_count)
        memcpy(p, r->ext, r->ext_count * sizeof(ea_ext));
    p += r->ext_count * sizeof(ea_ext);
    for (size_t i = 0; i < r->ext_count; i++) {
        if (r->ext[i].size_bytes)
            memcpy(p, r->ext[i].data, r->ext[i].size_bytes);
        p += up8(r->ext[i].size_bytes);
    }
    if (r->payload_bytes)
        memcpy(p, r->payload, r->payload_bytes);
}

/* Puts it into the open buffer of its kind. 0: there is no free buffer. */
static int put(emul_stream *st, const ea_record *r) {
    const emul_script *w = emul_what();
    int is_late = w->late_ms && r->cpu == w->late_cpu;
    buffer *b = is_late ? &st->late : &st->open;
    size_t charge = RECORD_BYTES + r->payload_bytes;
    for (size_t i = 0; i < r->ext_count; i++)
        charge += 8 + r->ext[i].size_bytes;
    if (b->bytes && !is_late && b->charged + charge > (size_t)st->session.buffer_kib * 1024)
        hand_over(st, b);
    size_t used = st->queued + (st->open.bytes != 0) + (st->late.bytes != 0);
    if (!b->bytes && (used >= st->slots || st->queued + 2 >= SLOTS_MAX))
        return 0;
    if (!b->bytes)
        b->due_ms = clock_ms(st) + (is_late ? w->late_ms : 1000.0 * st->session.flush_timer);
    b->charged += charge;
    append(b, r);
    return 1;
}

/* Logs an event of the session's own or of the trace. */
static void log_event(void *arg, const ea_record *r) {
    emul_stream *st = arg;
    st->counts.logged++;
    if (st->lost_unsaid) {
        ea_record lost = {.provider = LOST_EVENT,
                          .opcode = RT_LOST_EVENT,
                          .flags = EA_FLAG_CLASSIC_HEADER |
                                   (r->pointer_size == 4 ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER),
                          .pointer_size = r->pointer_size,
                          .time_raw = r->time_raw,
                          .pid = UINT32_MAX,
                          .tid = UINT32_MAX,
                          .cpu = r->cpu};
        st->lost_unsaid = !put(st, &lost);
        st->counts.logged += !st->lost_unsaid;
    }
    if (!put(st, r)) {
        st->counts.lost++;
        st->lost_unsaid = 1;
    }
}

/* Hands the oldest buffer's events to the sink. */
static void deliver(emul_stream *st, emul_sink sink, void *arg) {
    buffer *b = &st->queue[st->front];
    for (size_t at = 0; at < b->bytes;) {
        ea_record r;
        ea_ext ext[EA_EXT_MAX];
        memcpy(&r, b->data + at, sizeof r);
        at += up8(sizeof r);
        size_t n = r.ext_count;
        if (n)
            memcpy(ext, b->data + at, n * sizeof *ext);
        at += n * sizeof *ext;
        for (size_t i = 0; i < n; i++) {
            ext[i].data = b->data + at;
            at += up8(ext[i].size_bytes);
        }
        r.ext = ext;
        r.payload = b->data + at;
        at += up8(r.payload_bytes);
        double late_ms = (double)(st->youngest_raw - r.time_raw) / st->ticks_per_ms;
        if (late_ms <= 0)
            st->youngest_raw = r.time_raw;
        else if (late_ms > st->counts.late_ms)
            st->counts.late_ms = (uint32_t)late_ms;
        sink(arg, &r);
    }
    b->bytes = b->charged = 0;
    st->front = (st->front + 1) % SLOTS_MAX;
    st->queued--;
}

/* ---- what is logged beside the trace's events ---- */

/* The provider chooses by the request's level and keywords, in which 0 is no keyword, what it logs of its state. */
static int is_asked_for(const emul_provider *p, const ea_record *r) {
    return r->level <= p->state_level &&
           (!r->keyword || ((r->keyword & p->state_any) && (r->keyword & p->state_all) == p->state_all));
}

/* A provider was asked for its state: its events that the script names as such, as the trace has them, are logged now.
 */
static void log_state(emul_stream *st, const emul_provider *p) {
    const ea_guid *provider = &p->guid;
    const emul_script *w = emul_what();
    ea_etl_set *set = open_traces();
    const ea_record *r;
    size_t n = 0;
    while (set && n < STATES_MAX && ea_etl_next(set, &r, NULL) == 1) {
        int is_state = 0;
        for (uint32_t i = 0; i < w->state_count && ea_guid_equal(provider, &r->provider); i++)
            is_state |= ea_guid_equal(provider, &w->states[i].guid) && w->states[i].value == r->id;
        if (is_state && is_asked_for(p, r) && emul_wants(&st->session, NULL, r)) {
            ea_record now = *r;
            now.time_raw = st->time_raw;
            log_event(st, &now);
            n++;
        }
    }
    ea_etl_close(set);
}

static void look_for_captures(emul_stream *st, const emul_session *now) {
    for (size_t i = 0; i < now->provider_count; i++)
        if (now->providers[i].captures != st->captured[i]) {
            st->captured[i] = now->providers[i].captures;
            log_state(st, &now->providers[i]);
        }
}

static void log_if_wanted(void *arg, const ea_record *r) {
    emul_stream *st = arg;
    emul_dressed dressed;
    if (emul_wants(&st->session, st->recent, r))
        log_event(st, emul_dress(&st->session, r, &dressed));
}

/* Logs what programs have written: now, by the emulator's clock. */
static void log_written(emul_stream *st) {
    ea_record r;
    ea_ext ext[2];
    while (emul_written_next(&st->written, &r, ext)) {
        r.time_raw = st->time_raw;
        log_if_wanted(st, &r);
    }
}

/* Logs the rundown of what existed before the session, and the record RDComplete. Logs nothing when the session begins
 * at the trace's beginning: the trace has its own rundown. */
static void log_beginning(emul_stream *st) {
    ea_record complete = {.provider = HEADER,
                          .opcode = RD_COMPLETE,
                          .version = 2,
                          .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                          .pointer_size = 8,
                          .header_type = EA_HEADER_SYSTEM64,
                          .hook_id = RD_COMPLETE,
                          .time_raw = st->time_raw};
    if (!st->begun && st->in_midst) {
        emul_rundown_each(st->there, 0, st->time_raw, log_if_wanted, st);
        log_if_wanted(st, &complete);
    }
    st->begun = 1;
}

/* ---- the flow ---- */

/* The stream has reached a hold of the script, and "emulctl go" has not continued this session yet. */
static int is_held(const emul_stream *st) {
    const emul_script *w = emul_what();
    return st->session.gone < w->hold_count && st->position >= w->holds[st->session.gone];
}

/* Logs what the clock has come to. */
static void log_due(emul_stream *st) {
    const emul_script *w = emul_what();
    int64_t began = ticks_now();
    double now_ms = clock_ms(st);
    for (size_t i = 0; i < PER_PUMP && look_ahead(st) && !is_held(st); i++) {
        const ea_record *r = st->ahead;
        if (w->slow > 0 ? (double)(r->time_raw - st->first_raw) / st->ticks_per_ms > now_ms : st->queued != 0)
            break;
        st->time_raw = r->time_raw;
        emul_rundown_see(st->there, r);
        emul_recent_add(st->recent, r);
        log_if_wanted(st, r);
        st->ahead = NULL;
        st->position++;
    }
    if (w->slow > 0)
        st->own_ticks += ticks_now() - began;
}

int emul_stream_pump(emul_stream *st, const emul_session *now, emul_sink sink, void *arg) {
    int flush = now->flushes != st->flushes;
    st->session = *now;
    st->slots = emul_what()->slow > 0 ? now->max_buffers : SLOTS_MAX;
    st->flushes = now->flushes;
    log_beginning(st);
    look_for_captures(st, now);
    log_written(st);
    log_due(st);
    double ms = clock_ms(st);
    int at_end = !look_ahead(st);
    if (st->open.bytes && (flush || at_end || (now->flush_timer && ms >= st->open.due_ms)))
        hand_over(st, &st->open);
    if (st->late.bytes && (at_end || ms >= st->late.due_ms))
        hand_over(st, &st->late);
    if (st->queued) {
        deliver(st, sink, arg);
        return 1;
    }
    return at_end ? -1 : 0;
}

void emul_stream_end(emul_stream *st, emul_sink sink, void *arg) {
    st->slots = SLOTS_MAX; /* nothing of the rundown is lost */
    log_beginning(st);     /* stopped before anybody took of it */
    log_written(st);
    emul_rundown_each(st->there, 1, st->time_raw, log_if_wanted, st);
    int names_files = (st->session.masks[0] & FILE_NAMES_FLAG) &&
                      ((st->session.masks[0] & DISK_FLAG) || !emul_what()->names_need_disk);
    while (names_files && look_ahead(st)) { /* files that are open: the trace says it at its end */
        if (st->ahead->opcode == FILE_RUNDOWN && ea_guid_equal(&st->ahead->provider, &FILE_IO)) {
            ea_record r = *st->ahead;
            r.time_raw = st->time_raw;
            log_event(st, &r);
        }
        st->ahead = NULL;
    }
    hand_over(st, &st->open);
    hand_over(st, &st->late);
    while (st->queued)
        deliver(st, sink, arg);
}
