/* etwagent_announce.h: modules of a format of its own, and functions made at run time, announced by the program that
 * loads them, so that samples inside them have names.
 *
 * Copy this file into your program. It needs Windows Vista or later, C89 or C++, and advapi32 and kernel32 alone. In
 * one file of the program write
 *
 *     #define ETWAGENT_ANNOUNCE_IMPLEMENTATION
 *     #include "etwagent_announce.h"
 *
 * and include it in the others without the definition. Then
 *
 *     etwagent_announce_begin(0);                                   once, when the program starts
 *     etwagent_announce_module(base, size, L"C:\\app\\x.plug", &guid, age, "x.pdb");
 *     etwagent_announce_function(code, bytes, "draw", "x.src", 17); inside of a module, or of none
 *     etwagent_announce_function_unload(code);
 *     etwagent_announce_unload(base);
 *     etwagent_announce_end();                                      at its end, or before its DLL is unloaded
 *
 * Announcements are kept, those before begin, too. When a session asks for its state (etwagent does, with its option
 * announced-modules), all that is loaded then is written again, whenever it was announced.
 *
 * Any thread may call these functions, but begin and end once each, and nothing after end. A call is below 100 ns, and
 * some hundred bytes of memory, as long as no session listens. All texts are copied. A later announcement at an
 * address replaces an earlier one of its kind there. The functions that return int return 1; 0: there was no memory,
 * and nothing is announced there any more.
 *
 * Etwagent-Announce {0c87d9d8-75dd-5ffe-41f3-d32f3c1cd564}, level 4; numbers are little-endian, texts UTF-16 with a
 * NUL:
 *   1 ModuleLoad, 2 ModuleUnload, 3 ModuleDCStart (keyword 1): base u64, size u64, GUID and age u32 of the PDB (zeros:
 *     none), path (an NT path, where the program gave one with a drive letter), name of the PDB
 *   4 FunctionLoad, 5 FunctionUnload, 6 FunctionDCStart (keyword 2): start u64, size u64, line u32, name, source
 *
 * Copyright: as etwagent, Apache License 2.0. */
#ifndef ETWAGENT_ANNOUNCE_H
#define ETWAGENT_ANNOUNCE_H

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif

#include <windows.h>
/* after the types that it needs */
#include <evntprov.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions are also written as engines of JavaScript do (SourceLoad and MethodLoad of Microsoft-JScript, as V8 writes
 * them), so that WPA and PerfView name them without further tools. Modules have no such form. */
#define ETWAGENT_ANNOUNCE_JSCRIPT 1u

/* The longest name, in bytes of UTF-8, and the longest path, in characters: the rest is cut off. */
#define ETWAGENT_ANNOUNCE_NAME_MAX 1023
#define ETWAGENT_ANNOUNCE_PATH_MAX 8191

/* flags: 0, or ETWAGENT_ANNOUNCE_JSCRIPT. Returns 0, or the first error of EventRegister: announcements are kept then,
 * and the sessions of that provider get none. */
ULONG etwagent_announce_begin(unsigned flags);
void etwagent_announce_end(void);

/* path: with a drive letter, or an NT path. guid, age and pdb (UTF-8): of its PDB; guid NULL: it has none. NULL as a
 * text is an empty one. */
int etwagent_announce_module(const void *base, SIZE_T size_bytes, const wchar_t *path, const GUID *guid, ULONG age,
                             const char *pdb);
void etwagent_announce_unload(const void *base);
/* name, source: UTF-8; source is NULL, and line 0, when they are not known. */
int etwagent_announce_function(const void *start, SIZE_T size_bytes, const char *name, const char *source, ULONG line);
void etwagent_announce_function_unload(const void *start);

#ifdef __cplusplus
}
#endif
#endif

#if defined(ETWAGENT_ANNOUNCE_IMPLEMENTATION) && !defined(ETWAGENT_ANNOUNCE_IMPLEMENTED)
#define ETWAGENT_ANNOUNCE_IMPLEMENTED

#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Event ids, for a module; those of a function follow them. */
enum { ETWAGENT_LOADS = 1, ETWAGENT_UNLOADS = 2, ETWAGENT_IS_THERE = 3, ETWAGENT_OF_FUNCTIONS = 3 };

/* What was announced, followed by a module's GUID, and its texts. */
typedef struct etwagent_item {
    struct etwagent_item *next; /* in its bucket */
    ULONGLONG address, size_bytes;
    ULONG number; /* age of the PDB, or line */
    int is_function;
    ULONG first_bytes; /* of the first text, with its end */
    ULONG room_bytes;  /* of all of it */
} etwagent_item;

/* Items come out of chunks, in steps of some bytes, and go to the list of their size: far faster than malloc. */
enum { ETWAGENT_STEP = 16, ETWAGENT_SIZES = 96, ETWAGENT_CHUNK = 65536 };

typedef struct etwagent_chunk {
    struct etwagent_chunk *next;
} etwagent_chunk;

/* lock guards the items, and the order of events: an item is written when it is loaded, in every rundown until it is
 * unloaded, and then once more. The callback of ETW takes it, too. */
static struct {
    SRWLOCK lock;
    etwagent_item **buckets; /* bucket_count of them, a power of two */
    size_t bucket_count, item_count;
    etwagent_chunk *chunks; /* the last one is used up to chunk_used */
    size_t chunk_used;
    etwagent_item *unused[ETWAGENT_SIZES + 1]; /* by size in steps */
    REGHANDLE handle, jscript;
    volatile LONG listens, jscript_listens;
    ULONGLONG source; /* the last one that was written as JavaScript's */
} etwagent_state;

static const GUID etwagent_provider = {0x0c87d9d8, 0x75dd, 0x5ffe, {0x41, 0xf3, 0xd3, 0x2f, 0x3c, 0x1c, 0xd5, 0x64}};
static const GUID etwagent_jscript = {0x57277741, 0x3638, 0x4a4b, {0xbd, 0xba, 0x0a, 0xc6, 0xe4, 0x5d, 0xa5, 0x6c}};

static void etwagent_put(EVENT_DATA_DESCRIPTOR *d, const void *data, size_t bytes, ULONG type) {
    d->Ptr = (ULONGLONG)(ULONG_PTR)data;
    d->Size = (ULONG)bytes;
    d->Reserved = type;
}

/* UTF-8 as UTF-16 with its end: returns its bytes. capacity: characters, more than the text can have. */
static size_t etwagent_widen(const char *text, wchar_t *out, int capacity) {
    int n = MultiByteToWideChar(CP_UTF8, 0, text, -1, out, capacity);
    if (n < 1) {
        out[0] = 0;
        n = 1;
    }
    return (size_t)n * sizeof(wchar_t);
}

/* The part of an NT path that stands for a drive letter, or for the begin of a share: *ret_skip characters of path.
 * Returns its characters. */
static size_t etwagent_device(const wchar_t *path, wchar_t *out, int capacity, size_t *ret_skip) {
    static const wchar_t share[] = L"\\Device\\Mup";
    wchar_t drive[3];
    size_t n = 0;
    *ret_skip = 0;
    if (path[0] == '\\' && path[1] == '\\' && path[2] && path[2] != '?' && path[2] != '.') {
        memcpy(out, share, sizeof share);
        *ret_skip = 1;
        return sizeof share / sizeof *share - 1;
    }
    if (path[0] == 0 || path[1] != ':')
        return 0;
    drive[0] = path[0];
    drive[1] = ':';
    drive[2] = 0;
    if (!QueryDosDeviceW(drive, out, (DWORD)capacity))
        return 0;
    while (n < (size_t)capacity && out[n])
        n++;
    *ret_skip = 2;
    return n;
}

static void etwagent_write_module(const etwagent_item *m, int what) {
    const char *texts = (const char *)(m + 1) + sizeof(GUID);
    const wchar_t *path = (const wchar_t *)(const void *)texts;
    const char *pdb = texts + m->first_bytes;
    wchar_t device[MAX_PATH], wide[ETWAGENT_ANNOUNCE_NAME_MAX + 1];
    size_t skip, device_count = etwagent_device(path, device, MAX_PATH, &skip);
    EVENT_DESCRIPTOR e;
    EVENT_DATA_DESCRIPTOR d[7];
    memset(&e, 0, sizeof e);
    e.Id = (USHORT)what;
    e.Level = 4;
    e.Keyword = 1;
    etwagent_put(&d[0], &m->address, 8, 0);
    etwagent_put(&d[1], &m->size_bytes, 8, 0);
    etwagent_put(&d[2], m + 1, sizeof(GUID), 0);
    etwagent_put(&d[3], &m->number, 4, 0);
    etwagent_put(&d[4], device, device_count * sizeof(wchar_t), 0);
    etwagent_put(&d[5], path + skip, m->first_bytes - skip * sizeof(wchar_t), 0);
    etwagent_put(&d[6], wide, etwagent_widen(pdb, wide, ETWAGENT_ANNOUNCE_NAME_MAX + 1), 0);
    EventWrite(etwagent_state.handle, &e, 7, d);
}

/* Names of the fields, each with its type of TraceLogging: 1 UTF-16, 6 u16, 8 u32, 10 u64, 21 an address. */
#ifdef _WIN64
#define ETWAGENT_POINTER "\0\025"
#else
#define ETWAGENT_POINTER "\0\024"
#endif

/* Metadata of TraceLogging: size and tags come before. */
static const char etwagent_source_fields[] =
    "SourceLoad\0SourceID\0\012ScriptContextID" ETWAGENT_POINTER "SourceFlags\0\010Url\0\001";
static const char etwagent_method_fields[] =
    "MethodLoad\0ScriptContextID" ETWAGENT_POINTER "MethodStartAddress" ETWAGENT_POINTER
    "MethodSize\0\012MethodID\0\010MethodFlags\0\006MethodAddressRangeID\0\006SourceID\0\012Line\0\010Column\0\010"
    "MethodName\0\001";

/* An event of Microsoft-JScript; the first two descriptors are for its metadata. */
static void etwagent_write_jscript(USHORT id, const char *fields, size_t field_bytes, EVENT_DATA_DESCRIPTOR *d,
                                   ULONG count) {
    static const char traits[] = "\024\0Etwagent-Announce"; /* 20 bytes */
    char metadata[256];
    EVENT_DESCRIPTOR e;
    memset(&e, 0, sizeof e);
    e.Id = id;
    e.Channel = 11; /* TraceLogging's */
    e.Level = 4;
    e.Keyword = 1;
    field_bytes--; /* the string's own end */
    metadata[0] = (char)(3 + field_bytes);
    metadata[1] = 0;
    metadata[2] = 0;
    memcpy(metadata + 3, fields, field_bytes);
    etwagent_put(&d[0], traits, sizeof traits, 2); /* EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA */
    etwagent_put(&d[1], metadata, 3 + field_bytes, 1);
    EventWrite(etwagent_state.jscript, &e, count, d);
}

/* Scripts are known by a number: FNV-1a of the source's name. */
static ULONGLONG etwagent_source_number(const char *source) {
    ULONGLONG hash = ((ULONGLONG)0xcbf29ce4 << 32) | 0x84222325u;
    for (; *source; source++)
        hash = (hash ^ (unsigned char)*source) * (((ULONGLONG)0x100 << 32) | 0x1b3u);
    return hash ? hash : 1;
}

static void etwagent_write_method(const etwagent_item *f, const wchar_t *name, size_t name_bytes, const wchar_t *source,
                                  size_t source_bytes) {
    static const void *const context = &etwagent_state;
    static const ULONG zero = 0;
    ULONGLONG number = etwagent_source_number((const char *)(f + 1) + f->first_bytes);
    void *start = (void *)(ULONG_PTR)f->address;
    EVENT_DATA_DESCRIPTOR d[12];
    if (etwagent_state.source != number) {
        etwagent_state.source = number;
        etwagent_put(&d[2], &number, 8, 0);
        etwagent_put(&d[3], &context, sizeof context, 0);
        etwagent_put(&d[4], &zero, 4, 0);
        etwagent_put(&d[5], source, source_bytes, 0);
        etwagent_write_jscript(41, etwagent_source_fields, sizeof etwagent_source_fields, d, 6);
    }
    etwagent_put(&d[2], &context, sizeof context, 0);
    etwagent_put(&d[3], &start, sizeof start, 0);
    etwagent_put(&d[4], &f->size_bytes, 8, 0);
    etwagent_put(&d[5], &zero, 4, 0);
    etwagent_put(&d[6], &zero, 2, 0);
    etwagent_put(&d[7], &zero, 2, 0);
    etwagent_put(&d[8], &number, 8, 0);
    etwagent_put(&d[9], &f->number, 4, 0);
    etwagent_put(&d[10], &zero, 4, 0);
    etwagent_put(&d[11], name, name_bytes, 0);
    etwagent_write_jscript(9, etwagent_method_fields, sizeof etwagent_method_fields, d, 12);
}

static void etwagent_write_function(const etwagent_item *f, int what, int to_own, int to_jscript) {
    const char *texts = (const char *)(f + 1);
    wchar_t name[ETWAGENT_ANNOUNCE_NAME_MAX + 1], source[ETWAGENT_ANNOUNCE_NAME_MAX + 1];
    size_t name_bytes = etwagent_widen(texts, name, ETWAGENT_ANNOUNCE_NAME_MAX + 1);
    size_t source_bytes = etwagent_widen(texts + f->first_bytes, source, ETWAGENT_ANNOUNCE_NAME_MAX + 1);
    EVENT_DESCRIPTOR e;
    EVENT_DATA_DESCRIPTOR d[5];
    if (to_jscript && what != ETWAGENT_UNLOADS)
        etwagent_write_method(f, name, name_bytes, source, source_bytes);
    if (!to_own)
        return;
    memset(&e, 0, sizeof e);
    e.Id = (USHORT)(ETWAGENT_OF_FUNCTIONS + what);
    e.Level = 4;
    e.Keyword = 2;
    etwagent_put(&d[0], &f->address, 8, 0);
    etwagent_put(&d[1], &f->size_bytes, 8, 0);
    etwagent_put(&d[2], &f->number, 4, 0);
    etwagent_put(&d[3], name, name_bytes, 0);
    etwagent_put(&d[4], source, source_bytes, 0);
    EventWrite(etwagent_state.handle, &e, 5, d);
}

/* To the sessions that listen. Holds the lock. */
static void etwagent_write(const etwagent_item *item, int what) {
    if (item->is_function) {
        if (etwagent_state.listens || etwagent_state.jscript_listens)
            etwagent_write_function(item, what, etwagent_state.listens != 0, etwagent_state.jscript_listens != 0);
    } else if (etwagent_state.listens) {
        etwagent_write_module(item, what);
    }
}

static void etwagent_rundown(int to_own, int to_jscript) {
    size_t i;
    const etwagent_item *item;
    AcquireSRWLockExclusive(&etwagent_state.lock);
    etwagent_state.source = 0; /* this session may not have it */
    for (i = 0; i < etwagent_state.bucket_count; i++)
        for (item = etwagent_state.buckets[i]; item; item = item->next)
            if (item->is_function)
                etwagent_write_function(item, ETWAGENT_IS_THERE, to_own, to_jscript);
            else if (to_own)
                etwagent_write_module(item, ETWAGENT_IS_THERE);
    ReleaseSRWLockExclusive(&etwagent_state.lock);
}

/* EVENT_CONTROL_CODE_*: 0 no session any more, 1 a session, 2 the state is asked for. Sessions for JavaScript do not
 * ask, so that they get it when they begin. */
static void NTAPI etwagent_on_enable(LPCGUID session, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all,
                                     PEVENT_FILTER_DESCRIPTOR filter, PVOID context) {
    int is_jscript = context != NULL;
    (void)session, (void)level, (void)any, (void)all, (void)filter;
    if (code < 2)
        InterlockedExchange(is_jscript ? &etwagent_state.jscript_listens : &etwagent_state.listens, (LONG)code);
    if (code == 2 || (code == 1 && is_jscript))
        etwagent_rundown(!is_jscript, is_jscript);
}

/* ---- the items ---- */

static size_t etwagent_bucket(ULONGLONG address) {
    ULONGLONG mixed = (address >> 4) * (((ULONGLONG)0x9e3779b9 << 32) | 0x7f4a7c15u);
    return (size_t)(mixed >> 32) & (etwagent_state.bucket_count - 1);
}

/* Four times as many buckets; without memory the lists become longer. */
static void etwagent_grow(void) {
    size_t i, old_count = etwagent_state.bucket_count, count = old_count ? 4 * old_count : 64;
    etwagent_item **old = etwagent_state.buckets, *item, *next, **bucket;
    etwagent_item **buckets = (etwagent_item **)calloc(count, sizeof *buckets);
    if (!buckets)
        return;
    etwagent_state.buckets = buckets;
    etwagent_state.bucket_count = count;
    for (i = 0; i < old_count; i++)
        for (item = old[i]; item; item = next) {
            next = item->next;
            bucket = &buckets[etwagent_bucket(item->address)];
            item->next = *bucket;
            *bucket = item;
        }
    free(old);
}

/* Takes the item of an address out; NULL: there is none. Holds the lock. */
static etwagent_item *etwagent_take(ULONGLONG address, int is_function) {
    etwagent_item **at, *found;
    if (!etwagent_state.bucket_count)
        return NULL;
    at = &etwagent_state.buckets[etwagent_bucket(address)];
    while (*at && ((*at)->address != address || (*at)->is_function != is_function))
        at = &(*at)->next;
    found = *at;
    if (found) {
        *at = found->next;
        etwagent_state.item_count--;
    }
    return found;
}

/* Room for an item; NULL: no memory. Holds the lock. */
static etwagent_item *etwagent_room(size_t bytes) {
    size_t steps = (bytes + ETWAGENT_STEP - 1) / ETWAGENT_STEP;
    etwagent_item *item = steps <= ETWAGENT_SIZES ? etwagent_state.unused[steps] : (etwagent_item *)malloc(bytes);
    if (item && steps <= ETWAGENT_SIZES)
        etwagent_state.unused[steps] = item->next;
    if (!item && steps <= ETWAGENT_SIZES) {
        if (!etwagent_state.chunks || ETWAGENT_CHUNK - etwagent_state.chunk_used < steps * ETWAGENT_STEP) {
            etwagent_chunk *chunk = (etwagent_chunk *)malloc(ETWAGENT_CHUNK);
            if (!chunk)
                return NULL;
            chunk->next = etwagent_state.chunks;
            etwagent_state.chunks = chunk;
            etwagent_state.chunk_used = ETWAGENT_STEP;
        }
        item = (etwagent_item *)(void *)((char *)etwagent_state.chunks + etwagent_state.chunk_used);
        etwagent_state.chunk_used += steps * ETWAGENT_STEP;
    }
    if (item)
        item->room_bytes = (ULONG)(steps <= ETWAGENT_SIZES ? steps * ETWAGENT_STEP : bytes);
    return item;
}

/* NULL is allowed. Holds the lock. */
static void etwagent_give_back(etwagent_item *item) {
    size_t steps = item ? item->room_bytes / ETWAGENT_STEP : 0;
    if (item && item->room_bytes <= ETWAGENT_SIZES * ETWAGENT_STEP) {
        item->next = etwagent_state.unused[steps];
        etwagent_state.unused[steps] = item;
    } else {
        free(item);
    }
}

static void etwagent_remove(const void *address, int is_function) {
    etwagent_item *item;
    AcquireSRWLockExclusive(&etwagent_state.lock);
    item = etwagent_take((ULONGLONG)(ULONG_PTR)address, is_function);
    if (item)
        etwagent_write(item, ETWAGENT_UNLOADS);
    etwagent_give_back(item);
    ReleaseSRWLockExclusive(&etwagent_state.lock);
}

/* Bytes of UTF-8 that are kept, cut before a character. */
static size_t etwagent_length(const char *text) {
    size_t n = 0;
    while (n <= ETWAGENT_ANNOUNCE_NAME_MAX && text[n])
        n++;
    if (n <= ETWAGENT_ANNOUNCE_NAME_MAX)
        return n;
    for (n = ETWAGENT_ANNOUNCE_NAME_MAX; n && ((unsigned char)text[n] & 0xC0) == 0x80;)
        n--;
    return n;
}

/* What is announced, but for its texts: a first one of first_bytes and end_bytes zeros, and the second one. */
typedef struct etwagent_news {
    ULONGLONG address, size_bytes;
    const GUID *guid; /* NULL: none */
    ULONG number;
    int is_function;
    const void *first;
    size_t first_bytes, end_bytes;
    const char *second;
} etwagent_news;

/* Keeps an item and writes it. Holds the lock. 0: no memory. */
static int etwagent_add(const etwagent_news *news, size_t second_bytes) {
    size_t first_bytes = news->first_bytes + news->end_bytes, guid_bytes = news->is_function ? 0 : sizeof(GUID);
    etwagent_item **bucket, *item, *old = etwagent_take(news->address, news->is_function);
    char *texts;
    if (etwagent_state.item_count >= etwagent_state.bucket_count)
        etwagent_grow();
    item =
        etwagent_state.bucket_count ? etwagent_room(sizeof *item + guid_bytes + first_bytes + second_bytes + 1) : NULL;
    if (old && !item)
        etwagent_write(old, ETWAGENT_UNLOADS);
    etwagent_give_back(old);
    if (!item)
        return 0;
    item->address = news->address;
    item->size_bytes = news->size_bytes;
    item->number = news->number;
    item->is_function = news->is_function;
    item->first_bytes = (ULONG)first_bytes;
    memset(item + 1, 0, guid_bytes);
    if (news->guid)
        memcpy(item + 1, news->guid, guid_bytes);
    texts = (char *)(item + 1) + guid_bytes;
    memcpy(texts, news->first, news->first_bytes);
    memset(texts + news->first_bytes, 0, news->end_bytes);
    memcpy(texts + first_bytes, news->second, second_bytes);
    texts[first_bytes + second_bytes] = 0;
    bucket = &etwagent_state.buckets[etwagent_bucket(item->address)];
    item->next = *bucket;
    *bucket = item;
    etwagent_state.item_count++;
    etwagent_write(item, ETWAGENT_LOADS);
    return 1;
}

static int etwagent_announce(const etwagent_news *news) {
    size_t second_bytes = etwagent_length(news->second);
    int is_kept;
    AcquireSRWLockExclusive(&etwagent_state.lock);
    is_kept = etwagent_add(news, second_bytes);
    ReleaseSRWLockExclusive(&etwagent_state.lock);
    return is_kept;
}

/* ---- the functions of this file ---- */

ULONG etwagent_announce_begin(unsigned flags) {
    ULONG error = EventRegister(&etwagent_provider, etwagent_on_enable, NULL, &etwagent_state.handle);
    if (!error && flags & ETWAGENT_ANNOUNCE_JSCRIPT)
        error = EventRegister(&etwagent_jscript, etwagent_on_enable, &etwagent_state, &etwagent_state.jscript);
    /* Sessions that listen already: they asked before there was this program, and ETW calls back for them before the
     * handles are known. */
    if (etwagent_state.listens || etwagent_state.jscript_listens)
        etwagent_rundown(etwagent_state.listens != 0, etwagent_state.jscript_listens != 0);
    return error;
}

void etwagent_announce_end(void) {
    size_t i;
    etwagent_item *item, *next;
    etwagent_chunk *chunk, *following;
    if (etwagent_state.handle)
        EventUnregister(etwagent_state.handle); /* waits for the callback: without the lock */
    if (etwagent_state.jscript)
        EventUnregister(etwagent_state.jscript);
    for (i = 0; i < etwagent_state.bucket_count; i++)
        for (item = etwagent_state.buckets[i]; item; item = next) {
            next = item->next;
            if (item->room_bytes > ETWAGENT_SIZES * ETWAGENT_STEP)
                free(item);
        }
    for (chunk = etwagent_state.chunks; chunk; chunk = following) {
        following = chunk->next;
        free(chunk);
    }
    free(etwagent_state.buckets);
    memset(&etwagent_state, 0, sizeof etwagent_state);
}

int etwagent_announce_module(const void *base, SIZE_T size_bytes, const wchar_t *path, const GUID *guid, ULONG age,
                             const char *pdb) {
    etwagent_news news;
    size_t n = 0;
    path = path ? path : L"";
    while (n < ETWAGENT_ANNOUNCE_PATH_MAX && path[n])
        n++;
    news.address = (ULONGLONG)(ULONG_PTR)base;
    news.size_bytes = size_bytes;
    news.guid = guid;
    news.number = guid ? age : 0;
    news.is_function = 0;
    news.first = path;
    news.first_bytes = n * sizeof(wchar_t);
    news.end_bytes = sizeof(wchar_t);
    news.second = guid && pdb ? pdb : "";
    return etwagent_announce(&news);
}

void etwagent_announce_unload(const void *base) {
    etwagent_remove(base, 0);
}

int etwagent_announce_function(const void *start, SIZE_T size_bytes, const char *name, const char *source, ULONG line) {
    etwagent_news news;
    name = name ? name : "";
    news.address = (ULONGLONG)(ULONG_PTR)start;
    news.size_bytes = size_bytes;
    news.guid = NULL;
    news.number = line;
    news.is_function = 1;
    news.first = name;
    news.first_bytes = etwagent_length(name);
    news.end_bytes = 1;
    news.second = source ? source : "";
    return etwagent_announce(&news);
}

void etwagent_announce_function_unload(const void *start) {
    etwagent_remove(start, 1);
}

#ifdef __cplusplus
}
#endif
#endif
