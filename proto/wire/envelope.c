/* The envelope of a batch. See envelope.h and the first part of wire.h. */
#include "proto/wire/envelope.h"
#include "proto/wire/column.h"
#include "proto/wire/short_directory.h"

#include <inttypes.h>
#include <stdlib.h>

static int walk_varint(const uint8_t *p, size_t len_bytes, size_t *offset, uint64_t *ret) {
    const uint8_t *at = p + *offset;
    int rc = ea_varint_next(&at, p + len_bytes, ret);
    *offset = (size_t)(at - p);
    return rc;
}

int ea_pb_next(const uint8_t *message, size_t len_bytes, size_t *offset, ea_pb_field *ret) {
    if (*offset >= len_bytes)
        return 0;
    uint64_t key, n;
    if (walk_varint(message, len_bytes, offset, &key) || key >> 3 == 0 || key >> 3 > 536870911)
        return EA_ECORRUPT;
    ea_pb_field f = {.number = (uint32_t)(key >> 3), .type = (unsigned)(key & 7)};
    size_t left;
    switch (f.type) {
    case 0:
        if (walk_varint(message, len_bytes, offset, &f.value))
            return EA_ECORRUPT;
        break;
    case 1:
    case 5:
        left = f.type == 1 ? 8 : 4;
        if (len_bytes - *offset < left)
            return EA_ECORRUPT;
        f.value = ea_load_uint(message + *offset, (unsigned)left);
        *offset += left;
        break;
    case 2:
        if (walk_varint(message, len_bytes, offset, &n) || n > len_bytes - *offset)
            return EA_ECORRUPT;
        f.data = message + *offset;
        f.len_bytes = (size_t)n;
        *offset += (size_t)n;
        break;
    default:
        return EA_ECORRUPT;
    }
    *ret = f;
    return 1;
}

size_t ea_pb_unknown_bytes(const ProtobufCMessageDescriptor *descriptor, const uint8_t *message, size_t len_bytes,
                           unsigned max_depth) {
    size_t offset = 0, begin = 0, unknown = 0;
    ea_pb_field f;
    for (; ea_pb_next(message, len_bytes, &offset, &f) > 0; begin = offset) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(descriptor, f.number);
        if (!field)
            unknown += offset - begin;
        else if (f.type == 2 && field->type == PROTOBUF_C_TYPE_MESSAGE && max_depth)
            unknown += ea_pb_unknown_bytes(field->descriptor, f.data, f.len_bytes, max_depth - 1);
    }
    return unknown;
}

const char *ea_pb_check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *message, size_t len_bytes,
                        unsigned max_depth) {
    uint64_t seen = 0; /* of its fields that hold one message; their numbers are below 64 */
    size_t offset = 0;
    ea_pb_field f;
    int rc;
    if (max_depth == 0)
        return "messages are nested too deep";
    while ((rc = ea_pb_next(message, len_bytes, &offset, &f)) > 0) {
        if (f.type != 2)
            continue;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(descriptor, f.number);
        if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (field->label != PROTOBUF_C_LABEL_REPEATED && seen >> f.number & 1)
            return "a field that holds one message is there twice";
        seen |= UINT64_C(1) << f.number;
        const char *wrong = ea_pb_check(field->descriptor, f.data, f.len_bytes, max_depth - 1);
        if (wrong)
            return wrong;
    }
    return rc ? "it is no protobuf message" : NULL;
}

static int envelope_corrupt(ea_err *err, const char *what) {
    return ea_fail(err, EA_ECORRUPT, "read a batch's envelope: %s", what);
}

/* Memory for one message. */
typedef struct message_memory {
    ea_arena *arena; /* NULL: malloc's */
    int is_short;
} message_memory;

static void *message_alloc(void *arg, size_t size_bytes) {
    message_memory *m = arg;
    void *p = m->arena ? ea_arena_alloc(m->arena, size_bytes) : malloc(size_bytes);
    m->is_short |= !p;
    return p;
}

static void message_free(void *arg, void *p) {
    const message_memory *m = arg;
    if (!m->arena)
        free(p);
}

int ea_pb_unpack(const ProtobufCMessageDescriptor *descriptor, ea_arena *arena, const uint8_t *data, size_t len_bytes,
                 const char *what, ProtobufCMessage **ret, ea_err *err) {
    const char *wrong = ea_pb_check(descriptor, data, len_bytes, EA_PB_DEPTH_MAX);
    if (wrong)
        return ea_fail(err, EA_ECORRUPT, "read a batch: %s: %s", what, wrong);
    message_memory memory = {.arena = arena};
    ProtobufCAllocator allocator = {.alloc = message_alloc, .free = message_free, .allocator_data = &memory};
    *ret = protobuf_c_message_unpack(descriptor, &allocator, len_bytes, data);
    if (*ret)
        return 0;
    return memory.is_short ? ea_fail(err, arena ? ea_arena_error(arena) : EA_ENOMEM,
                                     "read a batch: there is no memory for %s", what)
                           : ea_fail(err, EA_ECORRUPT, "read a batch: %s is no message", what);
}

int ea_envelope_check_labels(const Etwagent__V1__Source *s, ea_err *err) {
    if (s->n_labels > EA_LABELS_MAX || strlen(s->agent_version) > EA_AGENT_VERSION_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read a batch's source: %zu labels, a version of %zu bytes", s->n_labels,
                       strlen(s->agent_version));
    for (size_t i = 0; i < s->n_labels; i++) {
        const Etwagent__V1__Label *l = s->labels[i];
        if (!*l->name || strlen(l->name) > EA_LABEL_NAME_MAX_BYTES || strlen(l->value) > EA_LABEL_VALUE_MAX_BYTES)
            return ea_fail(err, EA_ELIMIT, "read a batch's source: a label with a name of %zu and a value of %zu bytes",
                           strlen(l->name), strlen(l->value));
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->labels[k]->name, l->name) == 0)
                return envelope_corrupt(err, "a label is there twice");
    }
    return 0;
}

/* A Source message as protobuf-c unpacks it; the caller frees it with etwagent__v1__source__free_unpacked. */
static int unpack_source(const uint8_t *data, size_t len_bytes, Etwagent__V1__Source **ret, ea_err *err) {
    if (len_bytes > EA_MESSAGE_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read a batch's envelope: a source of %zu bytes, at most %d are allowed",
                       len_bytes, EA_MESSAGE_MAX_BYTES);
    ProtobufCMessage *m;
    int rc = ea_pb_unpack(&etwagent__v1__source__descriptor, NULL, data, len_bytes, "a source", &m, err);
    if (rc)
        return rc;
    Etwagent__V1__Source *s = (Etwagent__V1__Source *)m;
    rc = ea_envelope_check_labels(s, err);
    if (rc) {
        etwagent__v1__source__free_unpacked(s, NULL);
        return rc;
    }
    *ret = s;
    return 0;
}

int ea_source_origin(const uint8_t *source, size_t len_bytes, ea_text *version, ea_text *labels, ea_err *err) {
    Etwagent__V1__Source *s = NULL;
    int rc = unpack_source(source, len_bytes, &s, err);
    if (rc)
        return rc;
    ea_text_str(version, s->agent_version);
    for (size_t i = 0; i < s->n_labels; i++) {
        ea_text_str(labels, i ? ", " : "{");
        ea_text_json_str(labels, s->labels[i]->name);
        ea_text_str(labels, ": ");
        ea_text_json_str(labels, s->labels[i]->value);
    }
    if (s->n_labels)
        ea_text_char(labels, '}');
    etwagent__v1__source__free_unpacked(s, NULL);
    return version->failed || labels->failed ? ea_fail(err, EA_ENOMEM, "read a batch's source") : 0;
}

void ea_envelope_clock(const Etwagent__V1__Source *s, ea_clock *ret) {
    *ret = (ea_clock){.type = s->clock_type, .frequency = s->frequency};
    if (s->n_clock_pairs) {
        const Etwagent__V1__ClockPair *pair = s->clock_pairs[s->n_clock_pairs - 1];
        ret->base_raw = pair->raw;
        ret->base_utc_ns = pair->utc_ns;
    }
}

/* Copies a string cut to room, never in the middle of a UTF-8 character. */
static void envelope_copy_text(char *out, size_t room, const char *s) {
    size_t n = ea_utf8_fit(s, strlen(s), room - 1);
    memcpy(out, s, n);
    out[n] = 0;
}

enum { UNKNOWN_FIELD = 9 /* no wire type: passed over */ };

/* The wire type that each known field of Batch must have, or UNKNOWN_FIELD. */
static unsigned expected_type(uint32_t number) {
    static const uint8_t types[] = {9, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 2, 2, 2, 2, 2, 0, 2, 9, 9, 9, 9, 2, 9, 2, 2};
    return number < sizeof types ? types[number] : UNKNOWN_FIELD;
}

/* Reads the bytes before a short directory. A missing size becomes UINT64_MAX, which no reader accepts. */
static void read_directory_form(ea_envelope *e) {
    if (e->directory_raw_bytes || !e->directory_bytes || e->directory[0] > EA_SHORT_DIRECTORY_WITH_DICTIONARY)
        return;
    int is_compressed = e->directory[0] != EA_SHORT_DIRECTORY_PLAIN;
    e->needs_dictionary = e->directory[0] == EA_SHORT_DIRECTORY_WITH_DICTIONARY;
    e->is_short = 1;
    e->directory++;
    e->directory_bytes--;
    if (!is_compressed)
        return;
    const uint8_t *at = e->directory;
    if (ea_varint_next(&at, e->directory + e->directory_bytes, &e->directory_raw_bytes) || !e->directory_raw_bytes)
        e->directory_raw_bytes = UINT64_MAX;
    e->directory_bytes -= (size_t)(at - e->directory);
    e->directory = at;
}

/* What a walk over the fields found, as it was sent. */
typedef struct batch_fields {
    ea_pb_field source, stream, context; /* the first source */
    uint64_t time_min, time_span;
    uint32_t format, event_count, kind, priority; /* cut to their type, as protobuf has it */
    size_t unknown_bytes;
} batch_fields;

static void take_field(ea_envelope *e, batch_fields *b, const ea_pb_field *f) {
    switch (f->number) {
    case EA_BATCH_FORMAT:
        b->format = (uint32_t)f->value;
        break;
    case EA_BATCH_STREAM:
        b->stream = *f;
        break;
    case EA_BATCH_NUMBER:
        e->head.number = f->value;
        break;
    case EA_BATCH_KIND:
        b->kind = (uint32_t)f->value;
        break;
    case EA_BATCH_EVENT_COUNT:
        b->event_count = (uint32_t)f->value;
        break;
    case EA_BATCH_CHECKSUM:
        e->head.checksum = f->value;
        break;
    case EA_BATCH_TIME_MIN:
        b->time_min = f->value;
        break;
    case EA_BATCH_TIME_SPAN:
        b->time_span = f->value;
        break;
    case EA_BATCH_DIRECTORY_BYTES:
        e->directory_raw_bytes = f->value;
        break;
    case EA_BATCH_DIRECTORY:
        e->directory = f->data;
        e->directory_bytes = f->len_bytes;
        break;
    case EA_BATCH_FRAMES:
        e->frame_count++;
        break;
    case EA_BATCH_DESCRIPTIONS:
        e->head.description_count++;
        break;
    case EA_BATCH_TOMBSTONES:
        e->head.tombstone_count++;
        break;
    case EA_BATCH_PRIORITY:
        b->priority = (uint32_t)f->value;
        break;
    case EA_BATCH_SOURCES:
        if (e->source_count++ == 0)
            b->source = *f;
        break;
    case EA_BATCH_CONTEXT:
        b->context = *f;
        break;
    case EA_BATCH_CONTEXTS:
        e->context_count++;
        break;
    case EA_BATCH_SHAPES:
        e->shape_count++;
        break;
    case EA_BATCH_DICTIONARIES:
        e->dictionary_count++;
        break;
    case EA_BATCH_PADDING:
        e->padding_bytes += f->len_bytes;
        break;
    default:
        break; /* a newer writer's, or of no use here */
    }
}

static int walk_fields(ea_envelope *e, batch_fields *b, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    ea_pb_field f;
    size_t offset = 0, begin = 0;
    int rc;
    for (; (rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0; begin = offset) {
        unsigned type = expected_type(f.number);
        if (type != UNKNOWN_FIELD && type != f.type)
            return ea_fail(err, EA_ECORRUPT,
                           "read a batch's envelope: field %" PRIu32 " has the wire type %u, expected %u", f.number,
                           f.type, type);
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(&etwagent__v1__batch__descriptor, f.number);
        if (type == UNKNOWN_FIELD)
            b->unknown_bytes += offset - begin;
        else if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
            b->unknown_bytes += ea_pb_unknown_bytes(field->descriptor, f.data, f.len_bytes, EA_PB_DEPTH_MAX);
        take_field(e, b, &f);
    }
    if (rc)
        return ea_fail(err, EA_EFORMAT, "read a batch of %zu bytes: it is no protobuf message", len_bytes);
    if (b->unknown_bytes > EA_BATCH_MAX_UNKNOWN_BYTES)
        return ea_fail(err, EA_ELIMIT,
                       "read a batch: fields that are not known here have %zu bytes, at most %d are allowed",
                       b->unknown_bytes, EA_BATCH_MAX_UNKNOWN_BYTES);
    return 0;
}

/* The names of the format, the stream and the context, and numbers of one field each. */
static int envelope_check_names(ea_envelope *e, const batch_fields *b, size_t len_bytes, ea_err *err) {
    ea_batch_head *h = &e->head;
    if (b->format == 0 || !b->stream.number)
        return ea_fail(err, EA_EFORMAT, "read a batch of %zu bytes: it names no format and stream", len_bytes);
    if (b->format != 1)
        return ea_fail(err, EA_EUNSUPPORTED, "read a batch: it is of format %" PRIu32 ", only 1 is known", b->format);
    if (b->stream.len_bytes != EA_STREAM_ID_BYTES)
        return ea_fail(err, EA_ECORRUPT, "read a batch's envelope: a stream's id has 16 bytes, this one %zu",
                       b->stream.len_bytes);
    memcpy(h->stream, b->stream.data, EA_STREAM_ID_BYTES);
    if (b->context.len_bytes) {
        if (b->context.len_bytes < EA_NAME_BYTES)
            return ea_fail(err, EA_ECORRUPT, "read a batch's envelope: a context's name has 8 bytes, this one %zu",
                           b->context.len_bytes);
        e->context_name = b->context.data;
        e->shape_indexes = b->context.data + EA_NAME_BYTES;
        e->shape_indexes_bytes = b->context.len_bytes - EA_NAME_BYTES;
    }
    if (h->number == 0 || h->number > EA_BATCH_MAX_NUMBER)
        return ea_fail(err, EA_ECORRUPT, "read a batch's envelope: its number is %" PRIu64 ", expected 1 to %" PRIu64,
                       h->number, EA_BATCH_MAX_NUMBER);
    if (b->kind > EA_BATCH_KEYFRAME)
        return ea_fail(err, EA_EUNSUPPORTED, "read a batch: kind %" PRIu32 " is not known", b->kind);
    if (b->priority > UINT8_MAX)
        return ea_fail(err, EA_EUNSUPPORTED, "read a batch: a priority is at most 255, this one %" PRIu32, b->priority);
    return 0;
}

/* Bounds, and what a batch of its kind has. */
static int check_contents(const ea_envelope *e, const batch_fields *b, ea_err *err) {
    const struct {
        const char *what;
        uint32_t count, most;
    } bounds[] = {{"events", b->event_count, EA_BATCH_MAX_EVENTS},
                  {"sources", e->source_count, EA_BATCH_MAX_SOURCES},
                  {"shapes", e->shape_count, EA_SHAPES_MAX},
                  {"contexts", e->context_count, EA_CONTEXTS_MAX},
                  {"class descriptions", e->head.description_count, EA_BATCH_MAX_DESCRIPTIONS},
                  {"dictionaries", e->dictionary_count, EA_BATCH_MAX_DICTIONARIES},
                  {"tombstones", e->head.tombstone_count, EA_BATCH_MAX_TOMBSTONES}};

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].count > bounds[i].most)
            return ea_fail(err, EA_ELIMIT, "read a batch: %" PRIu32 " %s, at most %" PRIu32 " are allowed",
                           bounds[i].count, bounds[i].what, bounds[i].most);
    if (b->time_span > INT64_MAX)
        return envelope_corrupt(err, "its time span is beyond all clocks");
    if (b->event_count && e->source_count == 0 && !e->context_name)
        return envelope_corrupt(err, "it has events, and no source");
    if (b->event_count && !e->directory)
        return envelope_corrupt(err, "it has events, and no directory");
    if (!b->event_count && e->head.checksum)
        return envelope_corrupt(err, "a checksum of no events");
    if (b->kind != EA_BATCH_TOMBSTONE)
        return !b->event_count && (e->directory || e->frame_count)
                   ? envelope_corrupt(err, "a directory or a frame without events")
                   : 0;
    if (b->event_count)
        return envelope_corrupt(err, "a batch of kind 1 has events");
    if (e->directory || e->frame_count || e->source_count || e->context_name)
        return envelope_corrupt(err, "a batch of kind 1 has a directory, a frame, a source or a context");
    return e->head.tombstone_count ? 0 : envelope_corrupt(err, "a batch of kind 1 holds no tombstone");
}

int ea_envelope_walk(ea_envelope *ret, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    if (len_bytes > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read a batch of %zu bytes: at most %d are allowed", len_bytes,
                       EA_BATCH_MAX_BYTES);
    ea_envelope e = {0};
    batch_fields b = {0};
    int rc = walk_fields(&e, &b, batch, len_bytes, err);
    if (rc)
        return rc;
    read_directory_form(&e);
    rc = envelope_check_names(&e, &b, len_bytes, err);
    if (!rc)
        rc = check_contents(&e, &b, err);
    if (rc)
        return rc;
    e.head.kind = b.kind;
    e.head.priority = b.priority;
    e.head.event_count = b.event_count;
    e.head.source_count = e.source_count;
    e.first_source = b.source;
    e.time_min = ea_unzigzag(b.time_min);
    e.time_span = b.time_span;
    *ret = e;
    return 0;
}

int ea_envelope_take_source(ea_envelope *e, const ea_pb_field *source, ea_err *err) {
    ea_batch_head *h = &e->head;
    Etwagent__V1__Source *s = NULL;
    if (!source->data)
        return 0;
    int rc = unpack_source(source->data, source->len_bytes, &s, err);
    if (rc)
        return rc;
    ea_envelope_clock(s, &h->clock);
    h->source = source->data;
    h->source_bytes = source->len_bytes;
    envelope_copy_text(h->host, sizeof h->host, s->host);
    etwagent__v1__source__free_unpacked(s, NULL);
    if (!h->event_count)
        return 0;
    h->time_min = (int64_t)((uint64_t)e->time_min + (uint64_t)h->clock.base_raw);
    if (h->time_min > INT64_MAX - (int64_t)e->time_span)
        return envelope_corrupt(err, "its time span is beyond all clocks");
    h->time_max = h->time_min + (int64_t)e->time_span;
    h->utc_min_ns = ea_clock_to_utc_ns(&h->clock, h->time_min);
    h->utc_max_ns = ea_clock_to_utc_ns(&h->clock, h->time_max);
    return 0;
}

int ea_batch_each_description(const uint8_t *batch, size_t len_bytes,
                              int (*fn)(const uint8_t *data, size_t data_bytes, void *arg), void *arg, ea_err *err) {
    size_t offset = 0;
    ea_pb_field f;
    int rc;
    while ((rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0)
        if (f.number == EA_BATCH_DESCRIPTIONS && f.type == 2 && (rc = fn(f.data, f.len_bytes, arg)) != 0)
            return rc;
    return rc ? envelope_corrupt(err, "it is no protobuf message") : 0;
}

int ea_batch_each_tombstone(const uint8_t *batch, size_t len_bytes, int (*fn)(const ea_tombstone *tombstone, void *arg),
                            void *arg, ea_err *err) {
    size_t offset = 0;
    ea_pb_field f;
    int rc;
    while ((rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0) {
        if (f.number != EA_BATCH_TOMBSTONES || f.type != 2)
            continue;
        if (f.len_bytes > EA_MESSAGE_MAX_BYTES)
            return ea_fail(err, EA_ELIMIT, "read a batch's envelope: a tombstone of %zu bytes, at most %d are allowed",
                           f.len_bytes, EA_MESSAGE_MAX_BYTES);
        ProtobufCMessage *unpacked;
        rc = ea_pb_unpack(&etwagent__v1__tombstone__descriptor, NULL, f.data, f.len_bytes, "a tombstone", &unpacked,
                          err);
        if (rc)
            return rc;
        Etwagent__V1__Tombstone *m = (Etwagent__V1__Tombstone *)unpacked;
        ea_tombstone t = {.first = m->first,
                          .last = m->last,
                          .cause = m->cause,
                          .event_count = m->event_count,
                          .utc_min_ns = m->utc_min_ns,
                          .utc_max_ns = m->utc_max_ns};
        etwagent__v1__tombstone__free_unpacked(m, NULL);
        if (t.first == 0 || t.first > t.last || t.last > EA_BATCH_MAX_NUMBER)
            return ea_fail(err, EA_ECORRUPT,
                           "read a batch's envelope: a tombstone for %" PRIu64 " to %" PRIu64
                           ", which is no range of numbers",
                           t.first, t.last);
        rc = fn(&t, arg);
        if (rc)
            return rc;
    }
    return rc ? envelope_corrupt(err, "it is no protobuf message") : 0;
}

int ea_batch_make_tombstone(const uint8_t *stream, uint64_t number, const ea_tombstone *tombstones, size_t count,
                            ea_text *out, ea_err *err) {
    if (count > EA_BATCH_MAX_TOMBSTONES)
        return ea_fail(err, EA_ELIMIT, "make a batch of %zu tombstones: at most %d are allowed", count,
                       EA_BATCH_MAX_TOMBSTONES);
    Etwagent__V1__Batch batch;
    etwagent__v1__batch__init(&batch);
    uint8_t id[EA_STREAM_ID_BYTES];
    Etwagent__V1__Tombstone *rows = calloc(count ? count : 1, sizeof *rows);
    Etwagent__V1__Tombstone **list = calloc(count ? count : 1, sizeof *list);
    uint8_t *bytes = NULL;
    int rc = 0;
    if (!rows || !list) {
        rc = ea_fail(err, EA_ENOMEM, "make a tombstone");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        etwagent__v1__tombstone__init(&rows[i]);
        rows[i].first = tombstones[i].first;
        rows[i].last = tombstones[i].last;
        rows[i].cause = tombstones[i].cause;
        rows[i].event_count = tombstones[i].event_count;
        rows[i].utc_min_ns = tombstones[i].utc_min_ns;
        rows[i].utc_max_ns = tombstones[i].utc_max_ns;
        list[i] = &rows[i];
    }
    memcpy(id, stream, sizeof id);
    batch.format = 1;
    batch.stream = (ProtobufCBinaryData){.len = sizeof id, .data = id};
    batch.number = number;
    batch.kind = ETWAGENT__V1__KIND__KIND_TOMBSTONE;
    batch.n_tombstones = count;
    batch.tombstones = list;
    size_t n = etwagent__v1__batch__get_packed_size(&batch);
    bytes = malloc(n);
    if (!bytes) {
        rc = ea_fail(err, EA_ENOMEM, "make a tombstone");
        goto out;
    }
    etwagent__v1__batch__pack(&batch, bytes);
    ea_text_add(out, bytes, n);
    if (out->failed)
        rc = ea_fail(err, EA_ENOMEM, "make a tombstone");
out:
    free(bytes);
    free(list);
    free(rows);
    return rc;
}

static int each_pair(const uint32_t *counters, const uint64_t *values, size_t count, ea_ledger_count *c,
                     int (*fn)(const ea_ledger_count *count, void *arg), void *arg) {
    for (size_t i = 0; i < count; i++) {
        c->counter = counters[i];
        c->value = values[i];
        int rc = fn(c, arg);
        if (rc)
            return rc;
    }
    return 0;
}

int ea_batch_each_count(const uint8_t *batch, size_t len_bytes, int (*fn)(const ea_ledger_count *count, void *arg),
                        void *arg, ea_err *err) {
    size_t offset = 0;
    ea_pb_field f, ledger = {0};
    int rc;
    while ((rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0)
        if (f.number == EA_BATCH_LEDGER && f.type == 2)
            ledger = f;
    if (rc)
        return envelope_corrupt(err, "it is no protobuf message");
    if (!ledger.data)
        return 0;
    if (ledger.len_bytes > EA_MESSAGE_MAX_BYTES)
        return envelope_corrupt(err, "the ledger is too large");
    ProtobufCMessage *unpacked;
    rc = ea_pb_unpack(&etwagent__v1__ledger__descriptor, NULL, ledger.data, ledger.len_bytes, "the ledger", &unpacked,
                      err);
    if (rc)
        return rc;
    Etwagent__V1__Ledger *m = (Etwagent__V1__Ledger *)unpacked;
    int sound = m->n_counters == m->n_values; /* all of the ledger is checked before fn is called */
    for (size_t i = 0; sound && i < m->n_families; i++)
        sound = m->families[i]->n_counters == m->families[i]->n_values;
    ea_ledger_count c = {.family = "", .incarnation = m->incarnation, .utc_ns = m->utc_ns};
    rc = sound ? each_pair(m->counters, m->values, m->n_counters, &c, fn, arg)
               : envelope_corrupt(err, "a ledger whose counters and values differ in number");
    for (size_t i = 0; !rc && i < m->n_families; i++) {
        const Etwagent__V1__LedgerFamily *family = m->families[i];
        c.family = family->family;
        rc = each_pair(family->counters, family->values, family->n_counters, &c, fn, arg);
    }
    etwagent__v1__ledger__free_unpacked(m, NULL);
    return rc;
}
