/* The kernel's events as providers of their own, which Windows has since build 20348 (Server 2022, Windows 11): names,
 * keywords, and the older kernel flags that stand for them.
 * Called by: config/, and the code that enables these providers. Calls: none. Thread: any; all is constant.
 *
 * Sources: "System Providers" (learn.microsoft.com, win32/etw), evntrace.h of the Windows SDK (GUIDs, keywords). */
#ifndef EA_SYSTEM_PROVIDERS_H
#define EA_SYSTEM_PROVIDERS_H

#include "proto/base/err.h"
#include "proto/base/record.h"

typedef struct ea_system_keyword {
    const char *name; /* without the provider's prefix; NULL ends the list */
    uint32_t value;
    const char *flag; /* of kernel_flags.h; NULL: no flag stands for it */
} ea_system_keyword;

typedef struct ea_system_provider {
    const char *name;   /* "SystemProcessProvider"; NULL ends the list */
    const char *prefix; /* of its keywords in the SDK: "SYSTEM_PROCESS_KW_" */
    ea_guid guid;
    ea_system_keyword keywords[18];
} ea_system_provider;

enum { EA_SYSTEM_PROVIDERS_BUILD = 20348 };

/* By name in any case, or by GUID; NULL when there is none. */
const ea_system_provider *ea_system_provider_find(const char *name);
/* The mask of keywords joined by +, with or without the prefix, in any case, or numbers. EA_EINVAL names the keyword
 * that is unknown. */
EA_MUST_CHECK int ea_system_keywords(const ea_system_provider *p, const char *text, uint64_t *ret, ea_err *err);
/* Adds the flags that stand for the keywords to eight group masks. Returns the keywords that no flag stands for. */
uint64_t ea_system_masks(const ea_system_provider *p, uint64_t keywords, uint32_t *masks);

#endif
