/* The event log as a source. See channel_source.h. */
#include "service/eventlog/channel_source.h"

#include "proto/base/platform.h"
#include "proto/etl/evtx_record.h"
#include "service/eventlog/positions.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t RETRY_NS = (int64_t)30 * 1000000000, SAVE_NS = (int64_t)2 * 1000000000, WAIT_NS = 100000000;

enum { TURN_RECORDS = 64 }; /* of one channel, before another one has its turn */

typedef struct one_channel {
    ea_channel_reader *reader;               /* NULL: closed */
    int64_t retry_at_ns;                     /* monotonic: when it is opened again */
    int is_refused;                          /* counted, until it is open */
    char error[sizeof((ea_err){0}).message]; /* why it could not be opened or read last; noted */
} one_channel;

typedef struct channel_source {
    ea_source base; /* first member */
    ea_channel_options o;
    const ea_channel_api *api;
    ea_wire_source row;
    char host[256];
    char *positions_path;
    size_t count, turn, taken; /* taken: records of the channel whose turn it is */
    one_channel channels[EA_CHANNELS_MAX];
    ea_channel_position positions[EA_CHANNELS_MAX];
    ea_evtx_reader xml;
    ea_evtx_event event;
    ea_evtx_record made;
    uint64_t returned;
    int64_t save_at_ns; /* monotonic: not before */
    int is_moved;       /* positions differ from the file */
    atomic_int stop;
} channel_source;

static void channel_note(const channel_source *s, const char *format, ...) EA_PRINTF(2, 3);

static void channel_note(const channel_source *s, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (s->o.on_note)
        s->o.on_note(s->o.on_note_arg, line);
}

/* ---- channels ---- */

/* Closed until RETRY_NS are over. */
static void channel_shut(channel_source *s, size_t i, const ea_err *err) {
    one_channel *c = &s->channels[i];
    if (c->reader)
        s->api->close(c->reader);
    c->reader = NULL;
    c->retry_at_ns = ea_monotonic_ns() + s->o.retry_ns;
    if (!c->is_refused)
        ea_count(s->o.counters, EA_COUNT_source_parts_refused, 1);
    c->is_refused = 1;
    if (strcmp(c->error, err->message) != 0)
        channel_note(s, "channel %s: %s; it is tried again", s->o.channels[i], err->message);
    memcpy(c->error, err->message, sizeof c->error);
}

/* Where a channel begins: after the saved record, if the channel still counts on from there. */
static int channel_begin(channel_source *s, size_t i, ea_err *err) {
    ea_channel_position *p = &s->positions[i];
    uint64_t newest;
    int rc = s->api->newest(s->o.channels[i], &newest, err);
    if (rc)
        return rc;
    if (!p->is_known) {
        p->id = s->o.begins_with_oldest ? 0 : newest;
        p->is_known = s->is_moved = 1; /* also without a record: what is logged before the next start is read then */
    } else if (newest < p->id) {
        channel_note(s,
                     "channel %s has no record after number %" PRIu64 ", and the last one was %" PRIu64
                     ": it was cleared or replaced; all its records are read",
                     s->o.channels[i], newest, p->id);
        p->id = 0;
        s->is_moved = 1;
    }
    return 0;
}

/* Its reader is NULL when this fails. */
static int channel_open(channel_source *s, size_t i, ea_err *err) {
    one_channel *c = &s->channels[i];
    int rc = channel_begin(s, i, err);
    if (!rc)
        rc = s->api->open(&c->reader, s->o.channels[i], s->o.query, s->positions[i].id, err);
    if (rc) {
        c->reader = NULL;
        return rc;
    }
    if (c->is_refused)
        channel_note(s, "channel %s is read now", s->o.channels[i]);
    c->is_refused = 0;
    c->error[0] = 0;
    return 0;
}

/* ---- records ---- */

/* The record's number follows the last one of its channel, or shows what is missing. */
static void channel_follow(channel_source *s, size_t i, uint64_t id) {
    ea_channel_position *p = &s->positions[i];
    if (id > p->id + 1 && p->id && !s->o.query)
        ea_count(s->o.counters, EA_COUNT_source_records_missing, id - p->id - 1);
    if (id <= p->id)
        channel_note(s, "channel %s goes on with number %" PRIu64 " after %" PRIu64 ": it was cleared or replaced",
                     s->o.channels[i], id, p->id);
    p->id = id;
    s->is_moved = 1;
}

/* 1 and a record; 0: the XML has none. */
static int channel_make(channel_source *s, size_t i, const uint8_t *xml, uint32_t len_bytes, const ea_record **ret,
                        ea_err *err) {
    const char *wrong;
    ea_evtx_place place = {0};
    int rc = ea_evtx_parse(&s->xml, xml, len_bytes, &wrong);
    int is_whole = !rc && ea_evtx_place_of(&s->xml, &place);
    if (!rc && is_whole)
        rc = ea_evtx_event_fill(&s->event, &s->xml, &place);
    if (!rc && is_whole)
        rc = ea_evtx_record_fill(&s->made, &s->event, place.filetime);
    if (rc)
        return ea_fail(err, rc, "read the event log");
    if (wrong || !is_whole || s->made.is_cut)
        ea_count(s->o.counters, EA_COUNT_source_bad_records, 1);
    if (!is_whole) {
        channel_note(s, "channel %s: a record is left out: %s", s->o.channels[i],
                     wrong ? wrong : "it has no number or no time");
        return 0;
    }
    channel_follow(s, i, place.id);
    s->made.record.header_type = EA_HEADER_NONE;
    s->made.record.position = s->returned++;
    *ret = &s->made.record;
    return 1;
}

/* The next record of a channel: 1; 0: there is none now. */
static int channel_take(channel_source *s, size_t i, const ea_record **ret, ea_err *err) {
    one_channel *c = &s->channels[i];
    const uint8_t *xml;
    uint32_t len_bytes;
    ea_err why = {0};
    if (!c->reader && ea_monotonic_ns() < c->retry_at_ns)
        return 0;
    int rc = c->reader ? 0 : channel_open(s, i, &why);
    if (!rc)
        rc = s->api->next(c->reader, &xml, &len_bytes, &why);
    if (rc < 0) {
        channel_shut(s, i, &why);
        return 0;
    }
    return rc ? channel_make(s, i, xml, len_bytes, ret, err) : 0;
}

static int channel_next(ea_source *source, const ea_record **ret, ea_err *err) {
    channel_source *s = (channel_source *)source;
    ea_channel_reader *readers[EA_CHANNELS_MAX];
    for (size_t n = 0; n <= s->count && !atomic_load(&s->stop); n++) {
        int rc = s->taken < TURN_RECORDS ? channel_take(s, s->turn, ret, err) : 0;
        s->taken++;
        if (rc)
            return rc;
        s->turn = (s->turn + 1) % s->count;
        s->taken = 0;
    }
    if (atomic_load(&s->stop))
        return 0;
    for (size_t i = 0; i < s->count; i++)
        readers[i] = s->channels[i].reader;
    s->api->wait(readers, s->count, WAIT_NS);
    return EA_SOURCE_NOTHING_YET;
}

static void channel_stop(ea_source *source) {
    atomic_store(&((channel_source *)source)->stop, 1); /* read after WAIT_NS at the latest */
}

static void channel_close(ea_source *source) {
    channel_source *s = (channel_source *)source;
    for (size_t i = 0; i < s->count; i++)
        if (s->channels[i].reader)
            s->api->close(s->channels[i].reader);
    ea_evtx_reader_deinit(&s->xml);
    ea_evtx_event_deinit(&s->event);
    free(s->positions_path);
    free(s);
}

static size_t channel_count(const ea_source *source) {
    (void)source;
    return 1;
}

static const ea_wire_source *channel_row(const ea_source *source, size_t which) {
    return which == 0 ? &((const channel_source *)source)->row : NULL;
}

static double channel_progress(const ea_source *source) {
    (void)source;
    return 0;
}

/* ---- positions ---- */

static int channel_is_ahead(ea_source *source, int at_end) {
    channel_source *s = (channel_source *)source;
    if (!s->is_moved || (!at_end && ea_monotonic_ns() < s->save_at_ns))
        return 0;
    s->save_at_ns = ea_monotonic_ns() + s->o.save_ns;
    return 1;
}

static int channel_stored(ea_source *source, ea_err *err) {
    channel_source *s = (channel_source *)source;
    int rc = ea_channel_positions_write(s->positions_path, s->positions, s->count, err);
    s->is_moved = rc != 0;
    return rc;
}

/* A query that is refused is a mistake of the configuration; all channels have the same. Other channels may come later.
 */
static int channel_open_each(channel_source *s, ea_err *err) {
    ea_err unread = {0};
    for (size_t i = 0; i < s->count; i++)
        s->positions[i].channel = s->o.channels[i];
    int rc = ea_channel_positions_read(s->positions_path, s->positions, s->count, &unread);
    if (rc == EA_EFORMAT)
        channel_note(s, "%s; all records are read", unread.message);
    else if (rc) {
        *err = unread;
        return rc;
    }
    rc = 0;
    for (size_t i = 0; i < s->count && rc != EA_EINVAL; i++)
        if ((rc = channel_open(s, i, err)) && rc != EA_EINVAL)
            channel_shut(s, i, err);
    return rc == EA_EINVAL ? rc : 0;
}

int ea_channel_source_open(ea_source **ret, const ea_channel_options *options, ea_err *err) {
    static const ea_source_ops OPS = {.next = channel_next,
                                      .stop = channel_stop,
                                      .close = channel_close,
                                      .count = channel_count,
                                      .row = channel_row,
                                      .progress = channel_progress,
                                      .is_ahead = channel_is_ahead,
                                      .stored = channel_stored};
    const ea_channel_api *api = options->api ? options->api : ea_channel_api_of_machine();
    if (!api)
        return ea_fail(err, EA_EUNSUPPORTED, "source %s: only Windows has an event log", options->name);
    channel_source *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open source %s", options->name);
    s->base.ops = &OPS;
    s->o = *options;
    s->api = api;
    s->count = options->channel_count;
    s->o.retry_ns = options->retry_ns ? options->retry_ns : RETRY_NS;
    s->o.save_ns = options->save_ns ? options->save_ns : SAVE_NS;
    ea_evtx_event_init(&s->event);
    ea_host_name(s->host, sizeof s->host);
    s->row = (ea_wire_source){.name = options->name,
                              .host = s->host,
                              .clock = {.type = EA_CLOCK_SYSTEM_TIME,
                                        .frequency = 10000000,
                                        .base_raw = INT64_C(116444736000000000)}, /* 1970 as a FILETIME */
                              .pointer_size = 8,
                              .cpu_count = 1};
    size_t n = strlen(options->positions_path) + 1;
    s->positions_path = malloc(n);
    int rc = s->positions_path ? 0 : ea_fail(err, EA_ENOMEM, "open source %s", options->name);
    if (!rc) {
        memcpy(s->positions_path, options->positions_path, n);
        rc = channel_open_each(s, err);
    }
    if (rc) {
        channel_close(&s->base);
        return rc;
    }
    *ret = &s->base;
    return 0;
}
