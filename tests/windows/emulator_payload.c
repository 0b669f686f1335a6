/* The emulator's payload filters: TDH makes them from conditions, EnableTraceEx2 takes them, and events are compared
 * with them. The format of Windows' TDH is opaque; the emulator's format is, little-endian,
 *     u32 MAGIC, u32 events; each event: u16 id, u8 version, u8 any, u32 conditions; each condition: u16 operator,
 *     u16 characters of the field's name and u16 of the value, both UTF-16 with their ends
 * See emulator.h. Thread: any. */
#include "tests/windows/emulator.h"

#include "proto/event/event.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { MAGIC = 0x46504d45, HEAD = 8, EVENT = 8, CONDITION = 6, PREDICATES_MAX = 8 };

enum { EQ, NE, LE, GT, LT, GE, BETWEEN, NOT_BETWEEN, MODULO, CONTAINS = 20, LACKS, IS = 30, IS_NOT }; /* tdh.h */

/* ---- making ---- */

ULONG WINAPI TdhCreatePayloadFilter(const GUID *provider, const EVENT_DESCRIPTOR *d, BOOLEAN any, ULONG count,
                                    ea_payload_predicate *p, void **ret);

ULONG WINAPI TdhCreatePayloadFilter(const GUID *provider, const EVENT_DESCRIPTOR *d, BOOLEAN any, ULONG count,
                                    ea_payload_predicate *p, void **ret) {
    ULONG error = emul_fault("TdhCreatePayloadFilter");
    if (!error && (!provider || !d || !p || !ret || !count || count > PREDICATES_MAX))
        error = ERROR_INVALID_PARAMETER;
    if (!error && !emul_knows_event(provider, d))
        error = ERROR_NOT_FOUND;
    size_t need = EVENT;
    for (ULONG i = 0; !error && i < count; i++) {
        int is_text = p[i].compare >= CONTAINS;
        if (!p[i].field || !p[i].value || !p[i].value[0] || p[i].compare > IS_NOT ||
            (p[i].compare > MODULO && p[i].compare < CONTAINS) || (p[i].compare > LACKS && p[i].compare < IS) ||
            (!is_text && !wcschr(L"-0123456789", p[i].value[0])) || !emul_knows_field(provider, d, p[i].field))
            error = ERROR_INVALID_PARAMETER;
        else
            need += CONDITION + (wcslen(p[i].field) + wcslen(p[i].value) + 2) * 2;
    }
    uint8_t *data = error ? NULL : calloc(1, need + 4), *at = data ? data + 4 : NULL;
    if (!data)
        return error ? error : ERROR_OUTOFMEMORY;
    ea_store32(data, (uint32_t)need); /* what follows */
    ea_store16(at, d->Id);
    at[2] = d->Version;
    at[3] = any != 0;
    ea_store32(at + 4, count);
    at += EVENT;
    for (ULONG i = 0; i < count; i++) {
        size_t field = wcslen(p[i].field) + 1, value = wcslen(p[i].value) + 1;
        ea_store16(at, p[i].compare);
        ea_store16(at + 2, (uint16_t)field);
        ea_store16(at + 4, (uint16_t)value);
        memcpy(at + CONDITION, p[i].field, 2 * field);
        memcpy(at + CONDITION + 2 * field, p[i].value, 2 * value);
        at += CONDITION + 2 * (field + value);
    }
    *ret = data;
    return 0;
}

ULONG WINAPI TdhDeletePayloadFilter(void **filter);

ULONG WINAPI TdhDeletePayloadFilter(void **filter) {
    if (!filter || !*filter)
        return ERROR_INVALID_PARAMETER;
    free(*filter);
    *filter = NULL;
    return 0;
}

ULONG WINAPI TdhAggregatePayloadFilters(ULONG count, void **filters, BOOLEAN *all, EVENT_FILTER_DESCRIPTOR *ret);

ULONG WINAPI TdhAggregatePayloadFilters(ULONG count, void **filters, BOOLEAN *all, EVENT_FILTER_DESCRIPTOR *ret) {
    ULONG error = emul_fault("TdhAggregatePayloadFilters");
    size_t need = HEAD;
    (void)all; /* concerns several filters of one event: ours has one of each */
    if (!error && (!count || !filters || !ret))
        error = ERROR_INVALID_PARAMETER;
    for (ULONG i = 0; !error && i < count; i++)
        need += ea_load32(filters[i]);
    uint8_t *data = error ? NULL : malloc(need);
    if (!data)
        return error ? error : ERROR_NOT_ENOUGH_MEMORY;
    ea_store32(data, MAGIC);
    ea_store32(data + 4, count);
    size_t at = HEAD;
    for (ULONG i = 0; i < count; i++) {
        uint32_t bytes = ea_load32(filters[i]);
        memcpy(data + at, (uint8_t *)filters[i] + 4, bytes);
        at += bytes;
    }
    *ret = (EVENT_FILTER_DESCRIPTOR){.Ptr = (uintptr_t)data, .Size = (ULONG)need, .Type = (ULONG)EA_FILTER_PAYLOAD};
    return 0;
}

ULONG WINAPI TdhCleanupPayloadEventFilterDescriptor(EVENT_FILTER_DESCRIPTOR *d);

ULONG WINAPI TdhCleanupPayloadEventFilterDescriptor(EVENT_FILTER_DESCRIPTOR *d) {
    if (!d)
        return ERROR_INVALID_PARAMETER;
    free((void *)(uintptr_t)d->Ptr);
    *d = (EVENT_FILTER_DESCRIPTOR){0};
    return 0;
}

int emul_payload_is_whole(const uint8_t *data, size_t bytes) {
    size_t at = HEAD;
    if (bytes < HEAD || ea_load32(data) != MAGIC)
        return 0;
    for (uint32_t i = 0; i < ea_load32(data + 4); i++) {
        if (bytes - at < EVENT)
            return 0;
        uint32_t conditions = ea_load32(data + at + 4);
        at += EVENT;
        for (uint32_t k = 0; k < conditions; k++) {
            if (bytes - at < CONDITION)
                return 0;
            size_t all = CONDITION + 2 * ((size_t)ea_load16(data + at + 2) + ea_load16(data + at + 4));
            if (bytes - at < all)
                return 0;
            at += all;
        }
    }
    return at == bytes;
}

/* ---- holding events against it ---- */

static ea_registry *registry; /* under the lock */
static SRWLOCK lock = SRWLOCK_INIT;

static int number_passes(uint16_t op, uint64_t v, const WCHAR *text) {
    WCHAR *rest;
    uint64_t a = _wcstoui64(text, &rest, 0), b = *rest == L',' ? _wcstoui64(rest + 1, NULL, 0) : a;
    switch (op) {
    case EQ:
    case IS:
        return v == a;
    case NE:
    case IS_NOT:
        return v != a;
    case LE:
        return v <= a;
    case GT:
        return v > a;
    case LT:
        return v < a;
    case GE:
        return v >= a;
    case BETWEEN:
        return v >= a && v <= b;
    case NOT_BETWEEN:
        return v < a || v > b;
    case MODULO:
        return a && v % a == 0;
    default:
        return 0;
    }
}

static int text_passes(uint16_t op, const char *v, const char *wanted) {
    switch (op) {
    case CONTAINS:
        return strstr(v, wanted) != NULL;
    case LACKS:
        return strstr(v, wanted) == NULL;
    case IS:
        return strcmp(v, wanted) == 0;
    case IS_NOT:
        return strcmp(v, wanted) != 0;
    default:
        return 0;
    }
}

static int condition_holds(const ea_class *c, const ea_record *r, const uint8_t *condition) {
    uint16_t op = ea_load16(condition), n = ea_load16(condition + 2);
    WCHAR field[256], value[256];
    char field8[512], value8[512];
    uint64_t number;
    memcpy(field, condition + CONDITION, 2u * n);
    memcpy(value, condition + CONDITION + 2u * n, 2u * ea_load16(condition + 4));
    WideCharToMultiByte(CP_UTF8, 0, field, -1, field8, sizeof field8, NULL, NULL);
    WideCharToMultiByte(CP_UTF8, 0, value, -1, value8, sizeof value8, NULL, NULL);
    if (ea_event_u64(c, r, field8, &number))
        return number_passes(op, number, value);
    ea_text t;
    ea_text_init(&t);
    int holds = ea_event_text(c, r, field8, &t) && !t.failed && text_passes(op, t.data ? t.data : "", value8);
    ea_text_deinit(&t);
    return holds;
}

int emul_payload_passes(const uint8_t *data, size_t bytes, const ea_record *r) {
    size_t at = HEAD;
    int passes = 1;
    AcquireSRWLockExclusive(&lock);
    if (!registry && ea_registry_create(&registry, 0, NULL))
        emul_fail("no memory for what is known of events");
    for (uint32_t i = 0; i < ea_load32(data + 4) && at < bytes; i++) {
        int is_meant = ea_load16(data + at) == r->id && data[at + 2] == r->version, any = data[at + 3];
        uint32_t conditions = ea_load32(data + at + 4), hold = 0;
        const ea_class *c = is_meant ? ea_registry_find(registry, r) : NULL;
        at += EVENT;
        for (uint32_t k = 0; k < conditions; k++) {
            hold += is_meant && condition_holds(c, r, data + at);
            at += CONDITION + 2 * ((size_t)ea_load16(data + at + 2) + ea_load16(data + at + 4));
        }
        if (is_meant)
            passes = any ? hold > 0 : hold == conditions;
    }
    ReleaseSRWLockExclusive(&lock);
    return passes;
}
