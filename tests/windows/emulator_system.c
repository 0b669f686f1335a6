/* The emulator's system providers, which Windows has since build 20348. Only a system logger may enable them. A keyword
 * enables the events of its kernel flag. The table has only keywords with events in the traces. See emulator.h. */
#include "tests/windows/emulator.h"

#include <string.h>

enum { PROVIDERS = 17, FIRST_BUILD = 20348, POOL_KEYWORD = 8, TAGS_MAX = 4, HEADER = 24 };

/* First words of the GUIDs. Source: System Providers, learn.microsoft.com */
static const uint32_t GUIDS[PROVIDERS] = {0xfcb9baaf, 0xfef3a8b6, 0xc6c5265f, 0xbafa072a, 0xd4bbee17, 0x3d5c43e3,
                                          0xfbd09363, 0x721ddfd3, 0x82958ca9, 0xfebd7460, 0xc134884a, 0x151f55dc,
                                          0xbfeb0324, 0x16156bd9, 0x599a2a76, 0x434286f7, 0x4f061568};

static const struct {
    uint32_t guid, keyword, word, bits;
} MASKS[] = {{0x151f55dc, 1, 0, 0x1},         {0x151f55dc, 0x800, 0, 0x2}, {0x151f55dc, 0x1000, 0, 0x4},
             {0xbfeb0324, 1, 1, 0x2},         {0x599a2a76, 0x200, 1, 0x4}, {0x599a2a76, 2, 1, 0x200},
             {0x3d5c43e3, 1, 0, 0x100},       {0x3d5c43e3, 4, 0, 0x200},   {0x3d5c43e3, 0x10, 0, 0x2000000},
             {0x3d5c43e3, 0x200, 0, 0x10000}, {0x16156bd9, 1, 0, 0x20000}, {0xd4bbee17, 4, 1, 0x80},
             {0x82958ca9, 8, 1, 0x40}};

static ULONG build(void) {
    typedef LONG WINAPI get_version(OSVERSIONINFOW *);
    OSVERSIONINFOW v = {.dwOSVersionInfoSize = sizeof v};
    get_version *get = (get_version *)(void (*)(void))GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");
    return get && get(&v) == 0 ? v.dwBuildNumber : 0;
}

/* EVENT_FILTER_HEADER, and the used part of the array of tags. */
static ULONG take_tags(emul_session *s, uint32_t guid, ULONGLONG any, const EVENT_FILTER_DESCRIPTOR *f) {
    const uint8_t *data = (const uint8_t *)(uintptr_t)f->Ptr;
    if (guid != 0x82958ca9 || !(any & POOL_KEYWORD) || (int)f->Type != EA_FILTER_SCHEMATIZED || !data ||
        f->Size <= HEADER || (f->Size - HEADER) % 4 || (f->Size - HEADER) / 4 > TAGS_MAX || ea_load16(data) != 1 ||
        ea_load32(data + 16) != f->Size || ea_load32(data + 20))
        return ERROR_INVALID_PARAMETER;
    s->pool_tags = ea_load32(data + HEADER);
    return 0;
}

int emul_enable_system(emul_session *s, const GUID *provider, ULONGLONG any, const ENABLE_TRACE_PARAMETERS *e,
                       ULONG *ret_error) {
    uint32_t guid;
    size_t i = 0;
    memcpy(&guid, provider, sizeof guid);
    while (i < PROVIDERS && GUIDS[i] != guid)
        i++;
    if (i == PROVIDERS || build() < FIRST_BUILD)
        return 0;
    *ret_error = s->mode & EVENT_TRACE_SYSTEM_LOGGER_MODE ? 0 : ERROR_INVALID_PARAMETER;
    if (!*ret_error && e && e->FilterDescCount)
        *ret_error = e->FilterDescCount == 1 ? take_tags(s, guid, any, e->EnableFilterDesc) : ERROR_INVALID_PARAMETER;
    if (*ret_error)
        return 1;
    s->system_providers++;
    for (i = 0; i < sizeof MASKS / sizeof *MASKS; i++)
        if (MASKS[i].guid == guid && (any & MASKS[i].keyword))
            s->masks[MASKS[i].word] |= MASKS[i].bits;
    return 1;
}
