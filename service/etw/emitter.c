/* Writing events to ETW. See emitter.h. Source: EventRegister, EventWrite, TraceLoggingProvider.h. */
#include "service/etw/emitter.h"

#include "service/etw/etw_api.h"

#include <stdlib.h>
#include <string.h>

/* EVENT_DATA_DESCRIPTOR_TYPE_* (evntprov.h) */
enum { DATA_PAYLOAD = 0, DATA_EVENT_METADATA = 1, DATA_PROVIDER_METADATA = 2, DATA_PARTS_MAX = 3 };

typedef struct emitter_provider {
    ea_guid guid;
    REGHANDLE handle;
} emitter_provider;

struct ea_emitter {
    const ea_etw_api *api;
    emitter_provider providers[EA_EMITTER_PROVIDERS_MAX];
    size_t count;
};

int ea_emitter_create(ea_emitter **ret, ea_err *err) {
    const ea_etw_api *api = NULL;
    int rc = ea_etw_load(&api, err);
    if (rc)
        return rc;
    if (!api->EventRegister || !api->EventUnregister || !api->EventWrite || !api->EventEnabled)
        return ea_fail(err, EA_EUNSUPPORTED, "this Windows has no functions for providers");
    ea_emitter *e = calloc(1, sizeof *e);
    if (!e)
        return ea_fail(err, EA_ENOMEM, "register a provider");
    e->api = api;
    *ret = e;
    return 0;
}

void ea_emitter_destroy(ea_emitter *e) {
    for (size_t i = 0; e && i < e->count; i++)
        (void)e->api->EventUnregister(e->providers[i].handle);
    free(e);
}

static int emitter_register(ea_emitter *e, const ea_guid *guid, REGHANDLE *ret, ea_err *err) {
    for (size_t i = 0; i < e->count; i++)
        if (ea_guid_equal(&e->providers[i].guid, guid)) {
            *ret = e->providers[i].handle;
            return 0;
        }
    if (e->count == EA_EMITTER_PROVIDERS_MAX)
        return ea_fail(err, EA_ELIMIT, "at most %d providers", EA_EMITTER_PROVIDERS_MAX);
    emitter_provider *p = &e->providers[e->count];
    GUID id;
    memcpy(&id, guid->bytes, sizeof id);
    ULONG error = e->api->EventRegister(&id, NULL, NULL, &p->handle);
    if (error)
        return ea_fail_os(err, ea_etw_code(error), (int)error, "register a provider");
    p->guid = *guid;
    *ret = p->handle;
    e->count++;
    return 0;
}

static void emitter_put_part(EVENT_DATA_DESCRIPTOR *parts, ULONG *count, const void *data, size_t bytes, ULONG type) {
    parts[(*count)++] =
        (EVENT_DATA_DESCRIPTOR){.Ptr = (ULONGLONG)(ULONG_PTR)data, .Size = (ULONG)bytes, .Reserved = type};
}

int ea_emitter_write(ea_emitter *e, const ea_record *r, int *ret_heard, ea_err *err) {
    const EVENT_DESCRIPTOR d = {.Id = r->id,
                                .Version = r->version,
                                .Channel = r->channel,
                                .Level = r->level,
                                .Opcode = r->opcode,
                                .Task = r->task,
                                .Keyword = r->keyword};
    const ea_ext *traits = ea_record_ext(r, EA_EXT_PROV_TRAITS), *schema = ea_record_ext(r, EA_EXT_SCHEMA_TL);
    EVENT_DATA_DESCRIPTOR parts[DATA_PARTS_MAX];
    ULONG count = 0, error;
    REGHANDLE handle = 0;
    int rc = emitter_register(e, &r->provider, &handle, err);
    if (rc)
        return rc;
    if (traits)
        emitter_put_part(parts, &count, traits->data, traits->size_bytes, DATA_PROVIDER_METADATA);
    if (schema)
        emitter_put_part(parts, &count, schema->data, schema->size_bytes, DATA_EVENT_METADATA);
    if (r->payload_bytes)
        emitter_put_part(parts, &count, r->payload, r->payload_bytes, DATA_PAYLOAD);
    *ret_heard = e->api->EventEnabled(handle, &d) != 0;
    error = e->api->EventWrite(handle, &d, count, parts);
    return error ? ea_fail_os(err, ea_etw_code(error), (int)error, "write an event") : 0;
}
