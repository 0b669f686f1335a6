/* The emulator's TDH: information about events and about maps of values. The answers are Windows' own: merged traces
 * hold them as records (MetaData/EventInfo, MetaData/EventMapInfo). The emulator returns those of the traces that the
 * script names with trace= or schemas=, byte for byte. For anything that no trace has it returns ERROR_NOT_FOUND.
 * See emulator.h. Thread: any. */
#include "tests/windows/emulator.h"

#include "proto/etl/etl.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { EVENT_INFO = 32, MAP_INFO = 33, INFO_BYTES = 112, MAP_BYTES = 16, FROM_MOF = 1, PROPERTY_COUNT = 100 };

static const ea_guid METADATA = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);

/* One answer: a TRACE_EVENT_INFO, or an EVENT_MAP_INFO and its provider. */
typedef struct answer {
    ea_guid provider;
    int is_map;
    ULONG bytes;
    uint8_t *data;
} answer;

static answer *answers;
static size_t answer_count;
static INIT_ONCE once = INIT_ONCE_STATIC_INIT;

static void keep(const ea_record *r) {
    size_t skip = r->opcode == MAP_INFO ? sizeof(ea_guid) : 0, least = skip ? skip + MAP_BYTES : INFO_BYTES;
    if (r->payload_bytes < least)
        return;
    answer a = {
        .is_map = skip != 0, .bytes = (ULONG)(r->payload_bytes - skip), .data = malloc(r->payload_bytes - skip)};
    answer *more = realloc(answers, (answer_count + 1) * sizeof *answers);
    if (!more || !a.data)
        emul_fail("no memory for the answers of TDH");
    memcpy(a.provider.bytes, r->payload, sizeof a.provider.bytes);
    memcpy(a.data, r->payload + skip, a.bytes);
    answers = more;
    answers[answer_count++] = a;
}

static void read_file(const char *path) {
    ea_etl_set *set = NULL;
    const ea_record *r;
    if (ea_etl_open(&set, &path, 1, &(ea_etl_options){0}, NULL))
        return;
    while (ea_etl_next(set, &r, NULL) == 1)
        if ((r->flags & EA_FLAG_CLASSIC_HEADER) && (r->opcode == EVENT_INFO || r->opcode == MAP_INFO) &&
            ea_guid_equal(&r->provider, &METADATA))
            keep(r);
    ea_etl_close(set);
}

static BOOL CALLBACK read_all(INIT_ONCE *unused, void *parameter, void **context) {
    const emul_script *w = emul_what();
    (void)unused, (void)parameter, (void)context;
    for (uint32_t i = 0; i < w->trace_count; i++)
        read_file(w->traces[i]);
    for (uint32_t i = 0; i < w->schema_count; i++)
        read_file(w->schemas[i]);
    return TRUE;
}

void emul_read_schemas(void) {
    InitOnceExecuteOnce(&once, read_all, NULL, NULL);
}

/* Begins an answer: what the script wants of this function, and the time that it takes. */
static ULONG begin(const char *function, int is_right) {
    ULONG error = emul_fault(function);
    Sleep(emul_what()->tdh_delay_ms);
    if (!error && !is_right)
        error = ERROR_INVALID_PARAMETER;
    emul_read_schemas();
    return error;
}

/* TDH's way to say how much room it wants. */
static ULONG give(const void *data, ULONG need, void *out, ULONG *bytes) {
    ULONG room = *bytes;
    *bytes = need;
    if (!out || room < need)
        return ERROR_INSUFFICIENT_BUFFER;
    memcpy(out, data, need);
    return 0;
}

/* Compares the event's descriptor of EVENT_HEADER with that of TRACE_EVENT_INFO, at byte 32. */
static int is_of(const answer *a, const GUID *provider, const EVENT_DESCRIPTOR *d, int is_classic) {
    if (a->is_map || (ea_load32(a->data + 48) == FROM_MOF) != is_classic || a->data[34] != d->Version)
        return 0;
    if (is_classic) /* MOF: the class's GUID and the opcode */
        return memcmp(a->data + 16, provider, sizeof *provider) == 0 && a->data[37] == d->Opcode;
    return memcmp(a->data, provider, sizeof *provider) == 0 && ea_load16(a->data + 32) == d->Id;
}

static ULONG answer_event(const GUID *provider, const EVENT_DESCRIPTOR *d, int is_classic, void *out, ULONG *bytes) {
    for (size_t i = 0; i < answer_count; i++)
        if (is_of(&answers[i], provider, d, is_classic))
            return give(answers[i].data, answers[i].bytes, out, bytes);
    return ERROR_NOT_FOUND;
}

static const answer *of_manifest(const GUID *provider, const EVENT_DESCRIPTOR *d) {
    emul_read_schemas();
    for (size_t i = 0; i < answer_count; i++)
        if (is_of(&answers[i], provider, d, 0))
            return &answers[i];
    return NULL;
}

int emul_knows_event(const GUID *provider, const EVENT_DESCRIPTOR *d) {
    return of_manifest(provider, d) != NULL;
}

/* Looks for a field in the property names of TRACE_EVENT_INFO. Structures of 24 bytes after the head have the names'
 * offsets. */
int emul_knows_field(const GUID *provider, const EVENT_DESCRIPTOR *d, const WCHAR *field) {
    const answer *a = of_manifest(provider, d);
    size_t name_bytes = (wcslen(field) + 1) * sizeof *field;
    for (ULONG i = 0; a && i < ea_load32(a->data + PROPERTY_COUNT) && INFO_BYTES + 24 * (i + 1) <= a->bytes; i++) {
        ULONG at = ea_load32(a->data + INFO_BYTES + 24 * i + 4);
        if (at < a->bytes && name_bytes <= a->bytes - at && memcmp(a->data + at, field, name_bytes) == 0)
            return 1;
    }
    return 0;
}

ULONG WINAPI TdhGetEventInformation(EVENT_RECORD *e, ULONG contexts, void *context, void *out, ULONG *bytes);

ULONG WINAPI TdhGetEventInformation(EVENT_RECORD *e, ULONG contexts, void *context, void *out, ULONG *bytes) {
    ULONG error = begin("TdhGetEventInformation", e && bytes && (contexts == 0 || context));
    return error ? error
                 : answer_event(&e->EventHeader.ProviderId, &e->EventHeader.EventDescriptor,
                                (e->EventHeader.Flags & EVENT_HEADER_FLAG_CLASSIC_HEADER) != 0, out, bytes);
}

ULONG WINAPI TdhGetEventMapInformation(EVENT_RECORD *e, WCHAR *name, void *out, ULONG *bytes);

ULONG WINAPI TdhGetEventMapInformation(EVENT_RECORD *e, WCHAR *name, void *out, ULONG *bytes) {
    ULONG error = begin("TdhGetEventMapInformation", e && name && bytes);
    if (error)
        return error;
    size_t name_bytes = (wcslen(name) + 1) * sizeof *name;
    for (size_t i = 0; i < answer_count; i++) {
        const answer *a = &answers[i];
        ULONG at = a->is_map ? ea_load32(a->data) : a->bytes;
        if (at < a->bytes && name_bytes <= a->bytes - at && memcmp(a->data + at, name, name_bytes) == 0 &&
            memcmp(a->provider.bytes, &e->EventHeader.ProviderId, sizeof a->provider.bytes) == 0)
            return give(a->data, a->bytes, out, bytes);
    }
    return ERROR_NOT_FOUND;
}

/* PROVIDER_EVENT_INFO (tdh.h): count, reserved, descriptors. */
ULONG WINAPI TdhEnumerateManifestProviderEvents(const GUID *provider, void *out, ULONG *bytes);

ULONG WINAPI TdhEnumerateManifestProviderEvents(const GUID *provider, void *out, ULONG *bytes) {
    ULONG error = begin("TdhEnumerateManifestProviderEvents", provider && bytes), n = 0;
    uint8_t *list = error ? NULL : calloc(answer_count + 1, sizeof(EVENT_DESCRIPTOR));
    if (!list)
        return error ? error : ERROR_OUTOFMEMORY;
    for (size_t i = 0; i < answer_count; i++) {
        const answer *a = &answers[i];
        int is_new =
            !a->is_map && ea_load32(a->data + 48) != FROM_MOF && memcmp(a->data, provider, sizeof *provider) == 0;
        for (ULONG k = 0; is_new && k < n; k++)
            is_new = memcmp(list + 8 + k * sizeof(EVENT_DESCRIPTOR), a->data + 32, sizeof(EVENT_DESCRIPTOR)) != 0;
        if (is_new)
            memcpy(list + 8 + n++ * sizeof(EVENT_DESCRIPTOR), a->data + 32, sizeof(EVENT_DESCRIPTOR));
    }
    ea_store32(list, n);
    error = n ? give(list, 8 + n * (ULONG)sizeof(EVENT_DESCRIPTOR), out, bytes) : ERROR_NOT_FOUND;
    free(list);
    return error;
}

ULONG WINAPI TdhGetManifestEventInformation(const GUID *provider, EVENT_DESCRIPTOR *d, void *out, ULONG *bytes);

ULONG WINAPI TdhGetManifestEventInformation(const GUID *provider, EVENT_DESCRIPTOR *d, void *out, ULONG *bytes) {
    ULONG error = begin("TdhGetManifestEventInformation", provider && d && bytes);
    return error ? error : answer_event(provider, d, 0, out, bytes);
}
