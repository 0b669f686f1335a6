/* Rendering. See render.h. One writer for all three forms: a style says how strings are quoted and things are joined.
 * Everything that came from an event passes an escaping function on its way out. */
#include "proto/event/render.h"

#include "proto/base/provider_guids.h"
#include "proto/event/render_values.h"
#include "proto/event/tracelogging.h"
#include "proto/event/value.h"

const char *ea_header_type_name(uint8_t header_type) {
    switch (header_type) {
    case EA_HEADER_NONE:
        return "NONE";
    case EA_HEADER_SYSTEM32:
        return "SYSTEM32";
    case EA_HEADER_SYSTEM64:
        return "SYSTEM64";
    case EA_HEADER_COMPACT32:
        return "COMPACT32";
    case EA_HEADER_COMPACT64:
        return "COMPACT64";
    case EA_HEADER_FULL32:
        return "FULL32";
    case EA_HEADER_INSTANCE32:
        return "INSTANCE32";
    case EA_HEADER_MESSAGE:
        return "MESSAGE";
    case EA_HEADER_PERFINFO32:
        return "PERFINFO32";
    case EA_HEADER_PERFINFO64:
        return "PERFINFO64";
    case EA_HEADER_EVENT32:
        return "EVENT32";
    case EA_HEADER_EVENT64:
        return "EVENT64";
    case EA_HEADER_FULL64:
        return "FULL64";
    case EA_HEADER_INSTANCE64:
        return "INSTANCE64";
    default:
        return "";
    }
}

/* "STACK_TRACE64", ...; "" for a number that is not known. */
static const char *ext_type_name(uint16_t type) {
    static const char *const names[] = {
        [EA_EXT_RELATED_ACTIVITY_ID] = "RELATED_ACTIVITY_ID",
        [EA_EXT_SID] = "SID",
        [EA_EXT_TS_ID] = "TS_ID",
        [EA_EXT_INSTANCE_INFO] = "INSTANCE_INFO",
        [EA_EXT_STACK_TRACE32] = "STACK_TRACE32",
        [EA_EXT_STACK_TRACE64] = "STACK_TRACE64",
        [EA_EXT_PEBS_INDEX] = "PEBS_INDEX",
        [EA_EXT_PMC_COUNTERS] = "PMC_COUNTERS",
        [EA_EXT_PSM_KEY] = "PSM_KEY",
        [EA_EXT_EVENT_KEY] = "EVENT_KEY",
        [EA_EXT_SCHEMA_TL] = "EVENT_SCHEMA_TL",
        [EA_EXT_PROV_TRAITS] = "PROV_TRAITS",
        [EA_EXT_PROCESS_START_KEY] = "PROCESS_START_KEY",
        [EA_EXT_CONTROL_GUID] = "CONTROL_GUID",
        [EA_EXT_QPC_DELTA] = "QPC_DELTA",
        [EA_EXT_CONTAINER_ID] = "CONTAINER_ID",
        [EA_EXT_STACK_KEY32] = "STACK_KEY32",
        [EA_EXT_STACK_KEY64] = "STACK_KEY64",
    };
    if (type == EA_EXT_WPP_SEQUENCE)
        return "WPP_SEQUENCE";
    if (type == EA_EXT_WPP_COMPONENT)
        return "WPP_COMPONENT";
    return type < sizeof names / sizeof names[0] && names[type] ? names[type] : "";
}

/* ---- the parts of a record ---- */

static void render_put_time(ea_text *out, const ea_render_style *how, const ea_record *r, const ea_clock *clock) {
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
    ea_text_utc_ns(out, ea_clock_to_utc_ns(clock, r->time_raw));
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
}

static void render_put_guid(ea_text *out, const ea_render_style *how, const ea_guid *g) {
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
    ea_text_guid(out, g);
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '"');
}

static void put_none(ea_text *out, const ea_render_style *how) {
    if (how->form == EA_FORM_JSON)
        ea_text_str(out, "null");
}

static void put_related(ea_text *out, const ea_render_style *how, const ea_record *r) {
    const ea_ext *item = r->ext_count ? ea_record_ext(r, EA_EXT_RELATED_ACTIVITY_ID) : NULL;
    if (item && item->size_bytes == sizeof(ea_guid)) {
        ea_guid g;
        memcpy(&g, item->data, sizeof g);
        render_put_guid(out, how, &g);
    } else {
        put_none(out, how);
    }
}

/* The return addresses of the in-header stacks: a match id (8 bytes), then addresses. Source: evntcons.h
 * EVENT_EXTENDED_ITEM_STACK_TRACE32 and 64. */
static void put_stack(ea_text *out, const ea_render_style *how, const ea_record *r) {
    size_t n = 0;
    ea_text_char(out, '[');
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *item = &r->ext[i];
        unsigned width = item->type == EA_EXT_STACK_TRACE64 ? 8 : item->type == EA_EXT_STACK_TRACE32 ? 4 : 0;
        for (size_t at = 8; width && at + width <= item->size_bytes; at += width) {
            if (n++)
                ea_text_char(out, how->form == EA_FORM_JSON ? ',' : ' ');
            ea_render_put_hex(out, how, ea_load_uint(item->data + at, width));
        }
    }
    ea_text_char(out, ']');
}

/* how: of form EA_FORM_JSON */
static void put_fields_json(ea_text *out, const ea_render_style *how, const ea_record *r, const ea_class *c) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used), field = 0;
    int first = 1;
    ea_text_char(out, '{');
    for (size_t i = 0; i < whole; i++, field += c->fields[field].span) {
        if (c->fields[field].hidden)
            continue;
        if (!first)
            ea_text_char(out, ',');
        first = 0;
        ea_text_json_str(out, c->fields[field].name);
        ea_text_char(out, ':');
        ea_render_put_value(out, how, c, field, &slices[i]);
    }
    if (used < r->payload_bytes) {
        ea_text_str(out, first ? "\"_tail\":" : ",\"_tail\":");
        ea_render_put_bytes(out, how, r->payload + used, r->payload_bytes - used);
    }
    ea_text_char(out, '}');
}

/* ---- what the schema says in words ---- */

/* The n-th shown top-level field of the event, from 1. */
static void put_insert(ea_text *out, const ea_render_style *how, const ea_class *c, const ea_slice *slices,
                       size_t whole, unsigned n) {
    size_t field = 0;
    for (size_t i = 0; i < whole; i++, field += c->fields[field].span) {
        if (c->fields[field].hidden || --n)
            continue;
        ea_render_put_value(out, how, c, field, &slices[i]);
        return;
    }
}

/* Source: FormatMessage's escape sequences, Windows SDK documentation. */
static void render_put_message(ea_text *out, const ea_render_style *outer, const ea_class *c) {
    ea_render_style how = *outer;
    ea_render_bound bound = {.end_bytes = out->len_bytes + EA_RENDER_MAX_BYTES, .work = outer->bound->work};
    how.form = EA_FORM_MESSAGE;
    how.resolver = NULL;
    how.bound = &bound;
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, how.record->payload, how.record->payload_bytes, slices, &used);
    for (const char *p = c->notes->message; *p; p++) {
        if (out->len_bytes >= bound.end_bytes) {
            ea_text_str(out, "...");
            return;
        }
        if (*p != '%') {
            ea_text_char(out, *p);
            continue;
        }
        p++;
        if (*p >= '1' && *p <= '9') {
            unsigned n = (unsigned)(*p - '0');
            if (p[1] >= '0' && p[1] <= '9')
                n = n * 10 + (unsigned)(*++p - '0');
            const char *close = p[1] == '!' ? strchr(p + 2, '!') : NULL;
            if (close) /* printf's format of the value: ours is the same for all */
                p = close;
            put_insert(out, &how, c, slices, whole, n);
        } else if (*p == '0' || !*p) {
            return;
        } else if (*p == 'n') {
            ea_text_char(out, '\n');
        } else if (*p == 'r') {
            ea_text_char(out, '\r');
        } else if (*p == 't') {
            ea_text_char(out, '\t');
        } else {
            ea_text_char(out, *p == 'b' ? ' ' : *p);
        }
    }
}

static void put_keyword_names(ea_text *out, const ea_render_style *how, const ea_class *c) {
    int first = 1;
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, '[');
    for (size_t i = 0; i < c->notes->keyword_count; i++) {
        if (!(how->record->keyword & c->notes->keywords[i].value))
            continue;
        if (!first)
            ea_text_char(out, how->form == EA_FORM_JSON ? ',' : '|');
        first = 0;
        ea_render_put_name(out, how, c->notes->keywords[i].name);
    }
    if (how->form == EA_FORM_JSON)
        ea_text_char(out, ']');
}

enum note { NOTE_LEVEL, NOTE_CHANNEL, NOTE_TASK, NOTE_OPCODE, NOTE_KEYWORDS, NOTE_MESSAGE, NOTE_COUNT };

static const char *const NOTE_NAMES[NOTE_COUNT] = {"level_name",  "channel_name",  "task_name",
                                                   "opcode_name", "keyword_names", "message"};

/* 1 when the class says something of that kind; it is written then. */
static int render_put_note(ea_text *out, const ea_render_style *how, const ea_class *c, enum note note,
                           const char *before) {
    const ea_class_notes *n = c->notes;
    const char *text[NOTE_COUNT] = {n->level, n->channel, n->task, n->opcode, "", n->message};
    if (note == NOTE_KEYWORDS ? !n->keyword_count : !*text[note])
        return 0;
    ea_text_str(out, before);
    if (note == NOTE_KEYWORDS) {
        put_keyword_names(out, how, c);
    } else if (note == NOTE_MESSAGE) {
        ea_text message;
        ea_text_init(&message);
        render_put_message(&message, how, c);
        ea_render_put_text(out, how, message.data ? message.data : "", message.len_bytes);
        out->failed |= message.failed;
        ea_text_deinit(&message);
    } else {
        ea_render_put_name(out, how, text[note]);
    }
    return 1;
}

/* What a TraceLogging event carries beside its fields. */
static void put_metadata_json(ea_text *out, const ea_render_style *how) {
    const ea_ext *metadata = ea_record_ext(how->record, EA_EXT_SCHEMA_TL),
                 *traits = ea_record_ext(how->record, EA_EXT_PROV_TRAITS);
    uint32_t tag = metadata ? ea_tracelogging_tag(metadata->data, metadata->size_bytes) : 0;
    ea_guid group;
    if (tag) {
        ea_text_str(out, ",\"tag\":");
        ea_render_put_hex(out, how, tag);
    }
    if (traits && ea_traits_group(traits->data, traits->size_bytes, &group)) {
        ea_text_str(out, ",\"provider_group\":\"");
        ea_text_guid(out, &group);
        ea_text_char(out, '"');
    }
}

static void render_put_notes_json(ea_text *out, const ea_render_style *how, const ea_class *c) {
    char key[32];
    for (int i = 0; i < NOTE_COUNT; i++) {
        snprintf(key, sizeof key, ",\"%s\":", NOTE_NAMES[i]);
        render_put_note(out, how, c, (enum note)i, key);
    }
}

/* The columns that every record has, in the order of the EA_FORM_JSON keys. */
enum column {
    COLUMN_TIME,
    COLUMN_CLOCK,
    COLUMN_PROVIDER,
    COLUMN_PROVIDER_NAME,
    COLUMN_NAME,
    COLUMN_ID,
    COLUMN_VERSION,
    COLUMN_CHANNEL,
    COLUMN_LEVEL,
    COLUMN_OPCODE,
    COLUMN_TASK,
    COLUMN_KEYWORD,
    COLUMN_CPU,
    COLUMN_PID,
    COLUMN_TID,
    COLUMN_ACTIVITY_ID,
    COLUMN_RELATED_ACTIVITY_ID,
    COLUMN_COUNT,
};

static const char *const COLUMN_NAMES[COLUMN_COUNT] = {"time",
                                                       "clock",
                                                       "provider",
                                                       "provider_name",
                                                       "name",
                                                       "id",
                                                       "version",
                                                       "channel",
                                                       "level",
                                                       "opcode",
                                                       "task",
                                                       "keyword",
                                                       "cpu",
                                                       "pid",
                                                       "tid",
                                                       "activity_id",
                                                       "related_activity_id"};

static void render_put_column(ea_text *out, const ea_render_style *how, const ea_record *r, const ea_class *c,
                              const ea_clock *clock, enum column column) {
    switch (column) {
    case COLUMN_TIME:
        render_put_time(out, how, r, clock);
        break;
    case COLUMN_CLOCK:
        ea_text_i64(out, r->time_raw);
        break;
    case COLUMN_PROVIDER:
        render_put_guid(out, how, &r->provider);
        break;
    case COLUMN_PROVIDER_NAME:
        ea_render_put_name(out, how, c->provider_name);
        break;
    case COLUMN_NAME:
        ea_render_put_name(out, how, c->name);
        break;
    case COLUMN_ID:
        ea_text_u64(out, r->id);
        break;
    case COLUMN_VERSION:
        ea_text_u64(out, r->version);
        break;
    case COLUMN_CHANNEL:
        ea_text_u64(out, r->channel);
        break;
    case COLUMN_LEVEL:
        ea_text_u64(out, r->level);
        break;
    case COLUMN_OPCODE:
        ea_text_u64(out, r->opcode);
        break;
    case COLUMN_TASK:
        ea_text_u64(out, r->task);
        break;
    case COLUMN_KEYWORD:
        ea_render_put_hex(out, how, r->keyword);
        break;
    case COLUMN_CPU:
        ea_text_u64(out, r->cpu);
        break;
    case COLUMN_PID:
        ea_text_u64(out, r->pid);
        break;
    case COLUMN_TID:
        ea_text_u64(out, r->tid);
        break;
    case COLUMN_ACTIVITY_ID:
        if (ea_guid_is_zero(&r->activity_id))
            put_none(out, how);
        else
            render_put_guid(out, how, &r->activity_id);
        break;
    case COLUMN_RELATED_ACTIVITY_ID:
        put_related(out, how, r);
        break;
    case COLUMN_COUNT:
        break;
    }
}

static void put_raw(ea_text *out, const ea_record *r, const ea_class *c) {
    ea_slice payload = ea_class_logged(c, r->payload, r->payload_bytes);
    ea_text_str(out, ",\"flags\":");
    ea_text_u64(out, r->flags);
    ea_text_str(out, ",\"property\":");
    ea_text_u64(out, r->property);
    ea_text_str(out, ",\"kernel_time\":");
    ea_text_u64(out, r->kernel_time);
    ea_text_str(out, ",\"user_time\":");
    ea_text_u64(out, r->user_time);
    ea_text_str(out, ",\"logger\":");
    ea_text_u64(out, r->logger);
    ea_text_str(out, ",\"pointer_size\":");
    ea_text_u64(out, r->pointer_size);
    ea_text_str(out, ",\"header\":{\"type\":");
    ea_text_json_str(out, ea_header_type_name(r->header_type));
    ea_text_str(out, ",\"hook_id\":");
    ea_text_u64(out, r->hook_id);
    ea_text_str(out, ",\"word\":");
    ea_text_u64(out, r->header_word);
    ea_text_str(out, ",\"source\":");
    ea_text_u64(out, r->source);
    ea_text_str(out, "},\"payload\":\"");
    ea_text_hex(out, payload.data, payload.len_bytes);
    ea_text_str(out, "\",\"extended\":[");
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *item = &r->ext[i];
        ea_text_str(out, i ? ",{\"type\":" : "{\"type\":");
        ea_text_u64(out, item->type);
        ea_text_str(out, ",\"name\":");
        ea_text_json_str(out, ext_type_name(item->type));
        ea_text_str(out, ",\"linkage\":");
        ea_text_u64(out, item->linkage);
        ea_text_str(out, ",\"data\":\"");
        ea_text_hex(out, item->data, item->size_bytes);
        ea_text_str(out, "\"}");
    }
    ea_text_char(out, ']');
}

static const ea_field COMPLETION_STATUS = {.name = "status", .type = EA_HEX32, .semantic = EA_SEM_NTSTATUS, .width = 4};

/* How an operation ended, or what its end ended. */
static void put_completion(ea_text *out, const ea_render_style *how, const ea_class *c) {
    ea_completion end;
    if (!how->resolver || !how->resolver->completion(how->resolver->arg, how->record, c, how->utc_ns, &end))
        return;
    int json = how->form == EA_FORM_JSON;
    if (end.operation) {
        ea_text_str(out, json ? ",\"completes\":{\"operation\":" : " completes={operation=");
        ea_render_put_name(out, how, end.operation);
    } else if (end.has_status) {
        ea_text_str(out, json ? ",\"completed\":{\"status\":" : " completed={status=");
        ea_render_put_integer(out, how, c, &COMPLETION_STATUS, end.status);
        ea_text_str(out, json ? ",\"size\":" : " size=");
        ea_text_u64(out, end.information);
    } else {
        ea_text_str(out, json ? ",\"completed\":{" : " completed={");
    }
    int first = !end.operation && !end.has_status;
    if (!first)
        ea_text_char(out, json ? ',' : ' ');
    ea_text_str(out, json ? "\"latency_ns\":" : "latency_ns=");
    ea_text_i64(out, end.latency_ns);
    ea_text_char(out, '}');
}

enum completion_column {
    COMPLETED_STATUS,
    COMPLETED_SIZE,
    COMPLETED_LATENCY,
    COMPLETES_OPERATION,
    COMPLETES_LATENCY,
    COMPLETION_COUNT,
};

/* The parts of the JSON keys "completed" and "completes", as columns. */
static const char *const COMPLETION_NAMES[COMPLETION_COUNT] = {
    "completed_status", "completed_size", "completed_latency_ns", "completes_operation", "completes_latency_ns"};

/* 1 when the event has this part; it is written then. */
static int put_completion_column(ea_text *out, const ea_render_style *how, const ea_class *c,
                                 enum completion_column column) {
    ea_completion end;
    if (!how->resolver || !how->resolver->completion(how->resolver->arg, how->record, c, how->utc_ns, &end))
        return 0;
    int is_end = end.operation != NULL;
    switch (column) {
    case COMPLETED_STATUS:
        if (is_end || !end.has_status)
            return 0;
        ea_render_put_integer(out, how, c, &COMPLETION_STATUS, end.status);
        return 1;
    case COMPLETED_SIZE:
        if (is_end || !end.has_status)
            return 0;
        ea_text_u64(out, end.information);
        return 1;
    case COMPLETES_OPERATION:
        if (!is_end)
            return 0;
        ea_render_put_name(out, how, end.operation);
        return 1;
    case COMPLETED_LATENCY:
    case COMPLETES_LATENCY:
        if (is_end != (column == COMPLETES_LATENCY))
            return 0;
        ea_text_i64(out, end.latency_ns);
        return 1;
    case COMPLETION_COUNT:
        break;
    }
    return 0;
}

/* What a collection left: sums over the generations of GC/HeapStats, as many of them as its version has. */
static void put_derived(ea_text *out, const ea_render_style *how, const ea_class *c) {
    static const ea_guid DOTNET = EA_PROVIDER_DOTNET_RUNTIME;
    static const char *const SIZES[] = {"GenerationSize0", "GenerationSize1", "GenerationSize2", "GenerationSize3",
                                        "GenerationSize4"};
    static const char *const PROMOTED[] = {"TotalPromotedSize0", "TotalPromotedSize1", "TotalPromotedSize2",
                                           "TotalPromotedSize3", "TotalPromotedSize4"};

    enum { ID_HEAP_STATS = 4, GENERATIONS = sizeof SIZES / sizeof *SIZES };

    if (!how->resolver || c->classic || c->code != ID_HEAP_STATS || !ea_guid_equal(&c->provider, &DOTNET))
        return;
    uint64_t heap = 0, promoted = 0;
    for (unsigned i = 0; i < GENERATIONS; i++) {
        uint64_t size, moved;
        if (!ea_event_u64(c, how->record, SIZES[i], &size) || !ea_event_u64(c, how->record, PROMOTED[i], &moved)) {
            if (i == 0)
                return;
            break;
        }
        heap += size;
        promoted += moved;
    }
    int json = how->form == EA_FORM_JSON;
    ea_text_str(out, json ? ",\"derived\":{\"heap_bytes\":" : " derived={heap_bytes=");
    ea_text_u64(out, heap);
    ea_text_str(out, json ? ",\"promoted_bytes\":" : " promoted_bytes=");
    ea_text_u64(out, promoted);
    ea_text_char(out, '}');
}

static void render_json(ea_text *out, const ea_render_style *how, const ea_class *c, int raw) {
    const ea_record *r = how->record;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        ea_text_str(out, i ? ",\"" : "{\"");
        ea_text_str(out, COLUMN_NAMES[i]);
        ea_text_str(out, "\":");
        render_put_column(out, how, r, c, how->clock, (enum column)i);
    }
    ea_text_str(out, ",\"fields\":");
    put_fields_json(out, how, r, c);
    ea_text_str(out, ",\"stack\":");
    put_stack(out, how, r);
    if (c->notes)
        render_put_notes_json(out, how, c);
    if (r->ext_count)
        put_metadata_json(out, how);
    put_completion(out, how, c);
    put_derived(out, how, c);
    if (raw)
        put_raw(out, r, c);
    ea_text_char(out, '}');
}

static void render_text(ea_text *out, const ea_render_style *how, const ea_class *c) {
    const ea_record *record = how->record;
    const ea_clock *clock = how->clock;
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, record->payload, record->payload_bytes, slices, &used), field = 0;
    render_put_time(out, how, record, clock);
    ea_text_str(out, " cpu=");
    ea_text_u64(out, record->cpu);
    ea_text_str(out, " pid=");
    ea_text_i64(out, (int32_t)record->pid);
    ea_text_str(out, " tid=");
    ea_text_i64(out, (int32_t)record->tid);
    ea_text_char(out, ' ');
    if (*c->provider_name)
        ea_render_put_name(out, how, c->provider_name);
    else
        ea_text_guid(out, &record->provider);
    ea_text_char(out, '/');
    if (*c->name)
        ea_render_put_name(out, how, c->name);
    else
        ea_text_printf(out, "%s(%u)", c->classic ? "opcode" : "id", c->classic ? record->opcode : record->id);
    ea_text_char(out, ':');
    for (size_t i = 0; i < whole; i++, field += c->fields[field].span) {
        if (c->fields[field].hidden)
            continue;
        ea_text_char(out, ' ');
        ea_render_put_name(out, how, c->fields[field].name);
        ea_text_char(out, '=');
        ea_render_put_value(out, how, c, field, &slices[i]);
    }
    if (used < record->payload_bytes) {
        ea_text_str(out, " _tail=");
        ea_text_hex(out, record->payload + used, record->payload_bytes - used);
    }
    if (record->ext_count) {
        if (ea_record_ext(record, EA_EXT_STACK_TRACE64) || ea_record_ext(record, EA_EXT_STACK_TRACE32)) {
            ea_text_str(out, " stack=");
            put_stack(out, how, record);
        }
    }
    if (c->notes)
        render_put_note(out, how, c, NOTE_MESSAGE, " message=");
    put_completion(out, how, c);
    put_derived(out, how, c);
}

/* ---- chosen columns ---- */

/* Writes the named column or field; 0 when this event has none of that name. */
static int render_put_named(ea_text *out, const ea_render_style *how, const ea_class *c, const char *name) {
    const ea_record *r = how->record;
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (strcmp(COLUMN_NAMES[i], name) == 0) {
            render_put_column(out, how, r, c, how->clock, (enum column)i);
            return 1;
        }
    if (strcmp(name, "stack") == 0) {
        put_stack(out, how, r);
        return 1;
    }
    if (strcmp(name, "fields") == 0) {
        ea_text fields;
        ea_text_init(&fields);
        ea_render_style json = *how;
        ea_render_bound bound = ea_render_bound_of(&fields);
        json.form = EA_FORM_JSON;
        if (how->form != EA_FORM_JSON)
            json.bound = &bound;
        put_fields_json(how->form == EA_FORM_JSON ? out : &fields, &json, r, c);
        if (how->form == EA_FORM_PLAIN)
            ea_text_safe(out, fields.data, fields.len_bytes);
        else if (how->form == EA_FORM_BARE)
            ea_text_add(out, fields.data, fields.len_bytes);
        out->failed |= fields.failed;
        ea_text_deinit(&fields);
        return 1;
    }
    for (int i = 0; c->notes && i < NOTE_COUNT; i++)
        if (strcmp(NOTE_NAMES[i], name) == 0)
            return render_put_note(out, how, c, (enum note)i, "");
    for (int i = 0; i < COMPLETION_COUNT; i++)
        if (strcmp(COMPLETION_NAMES[i], name) == 0)
            return put_completion_column(out, how, c, (enum completion_column)i);
    size_t field = *name ? ea_field_index(c, name) : c->field_count;
    ea_slice slice;
    if (field == c->field_count || !ea_field_slice(c, field, r->payload, r->payload_bytes, &slice))
        return 0;
    ea_render_put_value(out, how, c, field, &slice);
    return 1;
}

int ea_render_has(const ea_class *c, const char *column) {
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (strcmp(COLUMN_NAMES[i], column) == 0)
            return 1;
    for (int i = 0; i < NOTE_COUNT; i++)
        if (strcmp(NOTE_NAMES[i], column) == 0)
            return 1;
    for (int i = 0; i < COMPLETION_COUNT; i++)
        if (strcmp(COMPLETION_NAMES[i], column) == 0)
            return 1;
    return strcmp(column, "stack") == 0 || strcmp(column, "fields") == 0 ||
           (*column && ea_field_index(c, column) < c->field_count);
}

static void render_csv(ea_text *out, const ea_render_style *how, const ea_class *c, const char *const *columns,
                       size_t column_count) {
    ea_text value;
    ea_text_init(&value);
    for (size_t i = 0; i < column_count; i++) {
        if (i)
            ea_text_char(out, ',');
        ea_text_clear(&value);
        how->bound->end_bytes = EA_RENDER_MAX_BYTES;
        if (render_put_named(&value, how, c, columns[i]) && value.len_bytes)
            ea_text_csv(out, value.data, value.len_bytes);
    }
    out->failed |= value.failed;
    ea_text_deinit(&value);
}

static void render_columns(ea_text *out, const ea_render_style *how, const ea_class *c, const char *const *columns,
                           size_t column_count) {
    int json = how->form == EA_FORM_JSON;
    if (json)
        ea_text_char(out, '{');
    for (size_t i = 0; i < column_count; i++) {
        if (i)
            ea_text_char(out, json ? ',' : '\t');
        if (json) {
            ea_text_json_str(out, columns[i]);
            ea_text_char(out, ':');
        }
        if (!render_put_named(out, how, c, columns[i]) && json)
            ea_text_str(out, "null");
    }
    if (json)
        ea_text_char(out, '}');
}

/* ---- the whole ---- */

void ea_render(ea_text *out, const ea_record *record, const ea_class *c, const ea_rendering *r) {
    ea_render_style how = {.form = r->form == EA_RENDER_JSON  ? EA_FORM_JSON
                                   : r->form == EA_RENDER_CSV ? EA_FORM_BARE
                                                              : EA_FORM_PLAIN,
                           .resolver = r->resolver,
                           .clock = r->clock,
                           .record = record};
    ea_render_bound bound = ea_render_bound_of(out);
    how.bound = &bound;
    if (r->resolver)
        how.utc_ns = ea_clock_to_utc_ns(r->clock, record->time_raw);
    if (r->form == EA_RENDER_CSV)
        render_csv(out, &how, c, r->columns, r->column_count);
    else if (r->column_count)
        render_columns(out, &how, c, r->columns, r->column_count);
    else if (r->form == EA_RENDER_JSON)
        render_json(out, &how, c, r->raw);
    else
        render_text(out, &how, c);
}

void ea_render_message(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    ea_render_bound bound = ea_render_bound_of(out);
    ea_render_style how = {.form = EA_FORM_MESSAGE, .clock = clock, .record = record, .bound = &bound};
    if (c->notes)
        render_put_message(out, &how, c);
}

void ea_render_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock, int raw) {
    ea_render(out, record, c, &(ea_rendering){.form = EA_RENDER_JSON, .clock = clock, .raw = raw});
}

void ea_render_text(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    ea_render(out, record, c, &(ea_rendering){.form = EA_RENDER_TEXT, .clock = clock});
}

void ea_render_columns_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock,
                            const char *const *columns, size_t column_count) {
    ea_render(
        out, record, c,
        &(ea_rendering){.form = EA_RENDER_JSON, .clock = clock, .columns = columns, .column_count = column_count});
}
