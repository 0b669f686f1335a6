/* TraceLogging metadata. See tracelogging.h. */
#include "proto/event/tracelogging.h"

#include "proto/event/class.h"
#include "proto/event/tdh_types.h"

enum {
    IN_TYPE = 0x1F,
    IN_FIXED_COUNT = 0x20,
    IN_COUNTED = 0x40,
    IN_CUSTOM = 0x60,
    CHAIN = 0x80, /* another byte follows */
    IN_STRUCT = 24,
    TRAIT_GROUP = 1,
};

/* Out types, TlgOut: the numbers are not tdh.h's. */
enum {
    TLG_NOPRINT = 1,
    TLG_STRING = 2,
    TLG_BOOLEAN = 3,
    TLG_HEX = 4,
    TLG_PID = 5,
    TLG_TID = 6,
    TLG_PORT = 7,
    TLG_IPV4 = 8,
    TLG_IPV6 = 9,
    TLG_SOCKET_ADDRESS = 10,
    TLG_XML = 11,
    TLG_JSON = 12,
    TLG_WIN32_ERROR = 13,
    TLG_NTSTATUS = 14,
    TLG_HRESULT = 15,
    TLG_FILETIME = 16,
    TLG_SIGNED = 17,
    TLG_UNSIGNED = 18,
    TLG_UTF8 = 35,
    TLG_CODE_POINTER = 37,
    TLG_DATETIME_UTC = 38
};

typedef struct reader {
    const uint8_t *at, *end;
    ea_arena *arena;
    ea_field *fields;
    size_t count;
    const char *wrong;
    int no_memory;
} reader;

static unsigned byte(reader *r) {
    if (r->at < r->end)
        return *r->at++;
    r->wrong = "its metadata ends early";
    return 0;
}

static unsigned tracelogging_word(reader *r) {
    unsigned low = byte(r);
    return low | byte(r) << 8;
}

/* Seven bits a byte, highest first; the top bit is set on all but the last. 28 bits. */
static uint32_t tag(reader *r) {
    uint32_t v = 0;
    unsigned b;
    do {
        b = byte(r);
        v = v << 7 | (b & 0x7F);
    } while (b & CHAIN && !r->wrong);
    return v & 0x0FFFFFFF;
}

static const char *name(reader *r) {
    const uint8_t *nul = r->at < r->end ? memchr(r->at, 0, (size_t)(r->end - r->at)) : NULL;
    if (!nul) {
        r->wrong = "its metadata ends inside a name";
        return "";
    }
    const char *s = ea_arena_copy(r->arena, r->at, (size_t)(nul - r->at) + 1);
    r->at = nul + 1;
    r->no_memory |= !s;
    return s ? s : "";
}

static size_t tracelogging_add(reader *r, const ea_field *f) {
    if (r->count == EA_FIELDS_MAX)
        r->wrong = "it has more than 512 fields";
    if (r->wrong)
        return 0;
    r->fields[r->count] = *f;
    return r->count++;
}

/* What an out type is in tdh.h's numbers. */
static int tdh_out_type(unsigned out) {
    switch (out) {
    case TLG_STRING:
        return EA_OUT_STRING;
    case TLG_BOOLEAN:
        return EA_OUT_BOOLEAN;
    case TLG_HEX:
        return EA_OUT_HEXINT32;
    case TLG_PID:
        return EA_OUT_PID;
    case TLG_TID:
        return EA_OUT_TID;
    case TLG_PORT:
        return EA_OUT_PORT;
    case TLG_IPV4:
        return EA_OUT_IPV4;
    case TLG_IPV6:
        return EA_OUT_IPV6;
    case TLG_SOCKET_ADDRESS:
        return EA_OUT_SOCKET_ADDRESS;
    case TLG_XML:
        return EA_OUT_XML;
    case TLG_JSON:
        return EA_OUT_JSON;
    case TLG_WIN32_ERROR:
        return EA_OUT_WIN32_ERROR;
    case TLG_NTSTATUS:
        return EA_OUT_NTSTATUS;
    case TLG_HRESULT:
        return EA_OUT_HRESULT;
    case TLG_UTF8:
        return EA_OUT_UTF8;
    case TLG_CODE_POINTER:
        return EA_OUT_CODE_POINTER;
    default:
        return EA_OUT_NULL;
    }
}

/* Out types that make another number of the bytes. */
static int tdh_in_type(unsigned in, unsigned out) {
    int is_64 = in == EA_IN_INT64 || in == EA_IN_UINT64 || in == EA_IN_HEXINT64;
    if (out == TLG_FILETIME && is_64)
        return EA_IN_FILETIME;
    if (in == EA_IN_HEXINT32 && out)
        return out == TLG_SIGNED ? EA_IN_INT32 : EA_IN_UINT32;
    if (in == EA_IN_HEXINT64 && out)
        return out == TLG_SIGNED ? EA_IN_INT64 : EA_IN_UINT64;
    return (int)in;
}

/* A length or count that has no name: a u16 before what it counts. */
static int16_t add_hidden(reader *r) {
    return (int16_t)tracelogging_add(
        r, &(ea_field){.name = "", .type = EA_U16, .count = 1, .count_field = -1, .hidden = 1});
}

static void add_bytes(reader *r, ea_field *f, unsigned out) {
    int array = f->count_field >= 0 || f->count > 1;
    if (array) {
        ea_field element = *f;
        element.type = EA_STRUCT;
        element.child_count = 2;
        tracelogging_add(r, &element);
    }
    f->type = EA_BYTES;
    f->semantic = out == TLG_SOCKET_ADDRESS            ? EA_SEM_SOCKET_ADDRESS
                  : out == TLG_IPV4 || out == TLG_IPV6 ? EA_SEM_IP
                                                       : EA_SEM_NONE;
    f->count = 1;
    f->count_field = add_hidden(r);
    tracelogging_add(r, f);
}

static size_t fields(reader *r, size_t members, int depth);

static void field(reader *r, int depth) {
    ea_field f = {.name = name(r), .count = 1, .count_field = -1};
    unsigned in = byte(r), out = in & CHAIN ? byte(r) : 0;
    if (out & CHAIN)
        tag(r);
    out &= 0x7F;
    int custom = (in & IN_CUSTOM) == IN_CUSTOM;
    unsigned count = custom ? 0 : in & IN_FIXED_COUNT ? tracelogging_word(r) : 1;
    if (custom) { /* type information of the program's own */
        unsigned len = tracelogging_word(r);
        if (len > (size_t)(r->end - r->at))
            r->wrong = "its metadata ends inside a type of its own";
        else
            r->at += len;
    }
    if (r->wrong)
        return;
    size_t before = r->count;
    /* 65,535 of anything do not fit into an event, nor do 65,534: its payload then ends inside this field */
    f.count = (uint16_t)(count >= EA_COUNT_REST ? EA_COUNT_REST - 1 : count);
    if (!custom && in & IN_COUNTED)
        f.count_field = add_hidden(r);
    if (custom) {
        add_bytes(r, &f, out);
    } else if ((in & IN_TYPE) == IN_STRUCT) {
        if (depth == EA_DEPTH_MAX) {
            r->wrong = "its structs are nested more than 16 deep";
            return;
        }
        if (!out) {
            r->wrong = "a struct has no members";
            return;
        }
        f.type = EA_STRUCT;
        f.child_count = 1;
        size_t at = tracelogging_add(r, &f), direct = fields(r, out, depth + 1);
        if (direct > UINT8_MAX)
            r->wrong = "a struct has more than 255 members";
        if (!r->wrong)
            r->fields[at].child_count = (uint8_t)direct;
    } else if ((in & IN_TYPE) == EA_IN_BINARY || (in & IN_TYPE) == EA_IN_COUNTED_BINARY) {
        add_bytes(r, &f, out);
    } else if ((in & IN_TYPE) == EA_IN_NULL) {
        r->count = before; /* no bytes in the payload; its count, were there one, would mean nothing */
        if (in & IN_COUNTED)
            r->wrong = "an array of nothing";
    } else if (!ea_field_of_types(tdh_in_type(in & IN_TYPE, out), tdh_out_type(out), 0, 0, &f)) {
        r->wrong = "a field's type does not exist";
    } else {
        tracelogging_add(r, &f);
    }
    if (in & IN_FIXED_COUNT && !custom && count == 0)
        r->count = before; /* an array without elements has no bytes */
}

/* So many fields, or all that there are (members 0, the top level). Returns the number of direct ones that they became.
 * Recursion is bounded by EA_DEPTH_MAX. */
static size_t fields(reader *r, size_t members, int depth) {
    size_t direct = 0;
    for (size_t m = 0; !r->wrong && (members ? m < members : r->at < r->end); m++) {
        size_t before = r->count;
        field(r, depth);
        /* a hidden count and what it counts, or one alone */
        if (!r->wrong && r->count > before)
            direct += r->fields[before].hidden ? 2 : 1;
    }
    if (members && !direct && !r->wrong)
        r->wrong = "a struct has no members with a value";
    return direct;
}

int ea_tracelogging_read(ea_arena *arena, const uint8_t *data, size_t len_bytes, ea_tracelogging *ret) {
    reader r = {.arena = arena};
    *ret = (ea_tracelogging){.name = ""};
    size_t size = len_bytes >= 2 ? ea_load16(data) : 0;
    if (size < 4 || size > len_bytes) {
        ret->wrong = "its metadata has an impossible size";
        return 0;
    }
    r.at = data + 2;
    r.end = data + size;
    r.fields = ea_arena_zalloc(arena, EA_FIELDS_MAX, sizeof *r.fields);
    if (!r.fields)
        return EA_ENOMEM;
    ret->tag = tag(&r);
    if (!r.wrong)
        ret->name = name(&r);
    fields(&r, 0, 0);
    if (r.no_memory)
        return EA_ENOMEM;
    ret->wrong = r.wrong;
    ret->fields = r.fields;
    ret->field_count = r.wrong ? 0 : r.count;
    return 0;
}

uint32_t ea_tracelogging_tag(const uint8_t *data, size_t len_bytes) {
    if (len_bytes < 4)
        return 0;
    reader r = {.at = data + 2, .end = data + len_bytes};
    uint32_t v = tag(&r);
    return r.wrong ? 0 : v;
}

const char *ea_traits_name(const uint8_t *data, size_t len_bytes, size_t *ret_len) {
    const uint8_t *nul = len_bytes > 2 ? memchr(data + 2, 0, len_bytes - 2) : NULL;
    *ret_len = nul ? (size_t)(nul - data - 2) : 0;
    return nul ? (const char *)data + 2 : "";
}

int ea_traits_group(const uint8_t *data, size_t len_bytes, ea_guid *ret) {
    size_t n, at;
    if (len_bytes < 3 || ea_load16(data) > len_bytes)
        return 0;
    len_bytes = ea_load16(data);
    ea_traits_name(data, len_bytes, &n);
    for (at = 2 + n + 1; at + 3 <= len_bytes;) { /* u16 size, u8 type, data */
        size_t size = ea_load16(data + at);
        if (size < 3 || size > len_bytes - at)
            return 0;
        if (data[at + 2] == TRAIT_GROUP && size == 3 + sizeof *ret) {
            memcpy(ret, data + at + 3, sizeof *ret);
            return 1;
        }
        at += size;
    }
    return 0;
}
