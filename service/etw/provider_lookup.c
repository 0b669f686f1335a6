/* Providers by name: their GUIDs and keywords. See session.h. */
#include "service/etw/session.h"

#include "proto/base/text.h"
#include "proto/event/provider_name.h"

#include <stdlib.h>
#include <string.h>

typedef struct question {
    const ea_etw_api *api;
    const ea_guid *provider;
} question;

static ULONG call_providers(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhEnumerateProviders(data, bytes);
}

static ULONG call_keywords(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhEnumerateProviderFieldInformation((const GUID *)(const void *)q->provider, EA_TDH_KEYWORDS, data,
                                                        bytes);
}

/* The UTF-16 text at an offset of an answer, compared without regard to case. */
static int provider_lookup_is_name(const void *data, ULONG bytes, ULONG offset, const char *name, size_t name_bytes) {
    const uint8_t *p = data;
    size_t i = 0;
    for (; offset + 2 * i + 1 < bytes && i <= name_bytes; i++) {
        uint16_t c = ea_load16(p + offset + 2 * i);
        uint16_t d = i < name_bytes ? (uint8_t)name[i] : 0;
        if (c == ' ' && d == 0) /* names of MOF providers have trailing blanks */
            c = 0;
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != (d >= 'A' && d <= 'Z' ? d + 32 : d))
            return 0;
        if (!c)
            return 1;
    }
    return 0;
}

int ea_provider_find(const ea_etw_api *api, const char *name, ea_guid *ret, ea_err *err) {
    if (name[0] == '*')
        return ea_provider_guid_of_name(name + 1, ret, err);
    if (ea_guid_parse(name, ret) == 0)
        return 0;
    if (!api->TdhEnumerateProviders)
        return ea_fail(err, EA_EUNSUPPORTED, "%.128s: this Windows cannot list providers", name);
    void *data;
    ULONG bytes;
    int rc = ea_tdh_get(call_providers, &(question){.api = api}, &data, &bytes, err);
    if (rc)
        return rc;
    const ea_tdh_providers *all = data;
    size_t room = bytes >= offsetof(ea_tdh_providers, items)
                      ? (bytes - offsetof(ea_tdh_providers, items)) / sizeof(ea_tdh_provider)
                      : 0;
    rc = EA_ENOTFOUND;
    for (size_t i = 0; room && i < all->count && i < room && rc; i++)
        if (provider_lookup_is_name(data, bytes, all->items[i].name_offset, name, strlen(name))) {
            memcpy(ret->bytes, &all->items[i].guid, sizeof ret->bytes);
            rc = 0;
        }
    free(data);
    return rc ? ea_fail(err, EA_ENOTFOUND, "this machine has no provider %.128s", name) : 0;
}

int ea_provider_keywords(const ea_etw_api *api, const ea_guid *provider, const char *text, uint64_t *ret, ea_err *err) {
    uint64_t mask = 0;
    int has_names = 0;
    if (ea_keywords_parse(text, &mask, &has_names))
        return ea_fail(err, EA_EINVAL, "keywords %.128s", text);
    if (!has_names) {
        *ret = mask;
        return 0;
    }
    if (!api->TdhEnumerateProviderFieldInformation)
        return ea_fail(err, EA_EUNSUPPORTED, "%.128s: this Windows does not know names of keywords", text);
    void *data;
    ULONG bytes;
    int rc = ea_tdh_get(call_keywords, &(question){api, provider}, &data, &bytes, err);
    if (rc)
        return rc;
    const ea_tdh_fields *all = data;
    size_t room =
        bytes >= offsetof(ea_tdh_fields, items) ? (bytes - offsetof(ea_tdh_fields, items)) / sizeof(ea_tdh_field) : 0;
    for (const char *p = text; p && !rc; p = *p ? p + 1 : NULL) {
        size_t n = strcspn(p, "+"), i = 0;
        if (*p >= '0' && *p <= '9') { /* a number, which the mask has */
            p += n;
            continue;
        }
        while (room && i < all->count && i < room &&
               !provider_lookup_is_name(data, bytes, all->items[i].name_offset, p, n))
            i++;
        if (room && i < all->count && i < room)
            mask |= all->items[i].value;
        else
            rc = ea_fail(err, EA_ENOTFOUND, "the provider has no keyword %.*s", (int)(n < 64 ? n : 64), p);
        p += n;
    }
    free(data);
    if (!rc)
        *ret = mask;
    return rc;
}

int ea_provider_masks(const ea_etw_api *api, const ea_guid *provider, const ea_provider_config *p, uint64_t *ret_any,
                      uint64_t *ret_all, ea_err *err) {
    uint64_t any = UINT64_MAX, all = 0;
    int rc = p->any ? ea_provider_keywords(api, provider, p->any, &any, err) : 0;
    if (!rc)
        rc = ea_provider_keywords(api, provider, p->all, &all, err);
    if (rc)
        return rc;
    *ret_any = any;
    *ret_all = all;
    return 0;
}
