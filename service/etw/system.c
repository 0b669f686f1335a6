/* The kernel's events as providers of their own, and pool tags, which only these filter. See session.h. */
#include "service/etw/session.h"

#include "config/kernel_flags.h"
#include "config/system_providers.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The third number of "10.0.22000"; 0 when it is not known. */
static unsigned long windows_build(void) {
    char version[64];
    ea_machine_fact(EA_MACHINE_OS_VERSION, version, sizeof version);
    const char *dot = strrchr(version, '.');
    return dot ? strtoul(dot + 1, NULL, 10) : 0;
}

static int has_system_providers(void) {
    return windows_build() >= EA_SYSTEM_PROVIDERS_BUILD;
}

static const ea_kernel_flag *pool_flag(void) {
    return ea_kernel_flag_find("POOL", 4);
}

void ea_session_system_flags(const ea_session *s, uint32_t *masks) {
    const ea_provider_config *providers = s->c->providers.items;
    uint32_t *pool = &masks[ea_kernel_flag_word(pool_flag()->mask)], pool_bits = ea_kernel_flag_bits(pool_flag()->mask);
    if (s->c->pool_tags.count && has_system_providers())
        *pool &= ~pool_bits; /* the flag has no filter: the provider takes its place */
    else if (s->c->pool_tags.count)
        ea_session_log(s, "pool-tags: this Windows (build %lu) has no filter for them; events of all tags come",
                       windows_build());
    for (size_t i = 0; i < s->c->providers.count && !has_system_providers(); i++) {
        const ea_system_provider *p = ea_system_provider_find(providers[i].provider);
        uint64_t any = 0;
        if (!p || ea_system_keywords(p, providers[i].any, &any, NULL))
            continue;
        uint64_t left_out = ea_system_masks(p, any, masks);
        ea_session_log(s, "this Windows (build %lu) has no %s: kernel flags stand for it", windows_build(), p->name);
        if (left_out)
            ea_session_log(s, "%s: no kernel flag stands for keywords 0x%" PRIx64 "; they are left out", p->name,
                           left_out);
    }
}

/* Pool tags as SystemMemoryProvider takes them: a schematized filter (System Providers, learn.microsoft.com). */
typedef struct tag_filter {
    ea_filter_header header;
    ULONG tags[EA_POOL_TAGS_MAX];
} tag_filter;

static ULONG make_tags(const ea_strings *given, tag_filter *to) {
    ULONG bytes = (ULONG)(sizeof to->header + given->count * sizeof *to->tags);
    to->header = (ea_filter_header){.id = EA_POOL_FILTER_ID, .size = bytes};
    for (size_t i = 0; i < given->count && i < EA_POOL_TAGS_MAX; i++) {
        char tag[4] = {' ', ' ', ' ', ' '};
        memcpy(tag, given->items[i], strnlen(given->items[i], sizeof tag));
        memcpy(&to->tags[i], tag, sizeof tag);
    }
    return bytes;
}

static void enable(const ea_session *s, const ea_system_provider *p, uint64_t any, EVENT_FILTER_DESCRIPTOR *filter) {
    ENABLE_TRACE_PARAMETERS parameters = {
        .Version = ENABLE_TRACE_PARAMETERS_VERSION_2, .EnableFilterDesc = filter, .FilterDescCount = filter != NULL};
    GUID id;
    memcpy(&id, p->guid.bytes, sizeof id);
    ULONG error = s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, TRACE_LEVEL_VERBOSE, any,
                                         0, 0, &parameters);
    if (error) {
        char what[96];
        snprintf(what, sizeof what, "%s%s", p->name, filter ? " with pool-tags" : "");
        ea_session_refused(s, what, error);
    }
}

void ea_session_system_providers(const ea_session *s) {
    const ea_provider_config *providers = s->c->providers.items;
    const ea_system_provider *memory = ea_system_provider_find("SystemMemoryProvider");
    tag_filter tags;
    uint32_t masks[EA_KERNEL_MASK_WORDS];
    uint64_t memory_any = 0;
    if (!has_system_providers())
        return;
    for (size_t i = 0; i < s->c->providers.count; i++) {
        const ea_system_provider *p = ea_system_provider_find(providers[i].provider);
        uint64_t any = 0;
        if (!p || ea_system_keywords(p, providers[i].any, &any, NULL))
            continue;
        if (p == memory && s->c->pool_tags.count)
            memory_any = any; /* below, with the filter */
        else
            enable(s, p, any, NULL);
    }
    if (!s->c->pool_tags.count)
        return;
    ea_session_masks(s->c, masks);
    uint64_t pool = 0;
    EA_IGNORE(ea_system_keywords(memory, "POOL", &pool, NULL));
    if (masks[ea_kernel_flag_word(pool_flag()->mask)] & ea_kernel_flag_bits(pool_flag()->mask))
        memory_any |= pool;
    if (!(memory_any & pool)) {
        ea_session_log(s, "pool-tags: pool events are not asked for");
        return;
    }
    EVENT_FILTER_DESCRIPTOR filter = {.Ptr = (uintptr_t)&tags, .Type = (ULONG)EA_FILTER_SCHEMATIZED};
    filter.Size = make_tags(&s->c->pool_tags, &tags);
    enable(s, memory, memory_any, &filter);
}
