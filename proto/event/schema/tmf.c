/* Trace message format files. See tmf.h.
 * A file consists of lines: a message GUID and its component's name, then for each message "#typev FILE_LINE NUMBER
 * "TEXT" // ..." and, between braces, a line for each argument: "expression, ItemKind(names) -- number". The text
 * refers to an argument by this number. Arguments are in the payload in the order of the lines. Source: the Windows
 * Driver Kit's documentation of WPP (extended format specifications, tmf files) and its defaultwpp.ini. */
#include "proto/event/schema/tmf.h"

#include "proto/base/platform.h"
#include "proto/event/class.h"

#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 64, NAMES_MAX = 256, SCRATCH_BYTES = 8 << 20 };

/* What kinds of argument there are, and how their bytes lie. */
typedef struct item {
    const char *name;
    uint8_t type, semantic;
    uint8_t hex;     /* its type when the text asks for hex; 0: the same */
    uint8_t is_list; /* names of values (1) or of bits (2) follow in parentheses */
    uint8_t is_long; /* a length (u16) and as many bytes */
} item;

// clang-format off
static const item ITEMS[] = {
    {"ItemChar", EA_I8, 0, EA_HEX8, 0, 0},
    {"ItemUChar", EA_U8, 0, EA_HEX8, 0, 0},
    {"ItemCharSign", EA_I8, 0, EA_HEX8, 0, 0},
    {"ItemShort", EA_I16, 0, EA_HEX16, 0, 0},
    {"ItemUShort", EA_U16, 0, EA_HEX16, 0, 0},
    {"ItemLong", EA_I32, 0, EA_HEX32, 0, 0},
    {"ItemULong", EA_U32, 0, EA_HEX32, 0, 0},
    {"ItemULongX", EA_HEX32, 0, 0, 0, 0},
    {"ItemLongLong", EA_I64, 0, EA_HEX64, 0, 0},
    {"ItemULongLong", EA_U64, 0, EA_HEX64, 0, 0},
    {"ItemLongLongX", EA_HEX64, 0, 0, 0, 0},
    {"ItemLongLongXX", EA_HEX64, 0, 0, 0, 0},
    {"ItemLongLongO", EA_U64, 0, EA_HEX64, 0, 0},
    {"ItemPtr", EA_POINTER, EA_SEM_ADDRESS, 0, 0, 0},
    {"ItemDouble", EA_F64, 0, 0, 0, 0},
    {"ItemString", EA_ANSIZ, 0, 0, 0, 0},
    {"ItemRString", EA_ANSIZ, 0, 0, 0, 0},
    {"ItemWString", EA_UTF16Z, 0, 0, 0, 0},
    {"ItemRWString", EA_UTF16Z, 0, 0, 0, 0},
    {"ItemPString", EA_ANSI_COUNTED, 0, 0, 0, 0},
    {"ItemPWString", EA_UTF16_COUNTED, 0, 0, 0, 0},
    {"ItemGuid", EA_GUID, 0, 0, 0, 0},
    {"ItemCLSID", EA_GUID, 0, 0, 0, 0},
    {"ItemLIBID", EA_GUID, 0, 0, 0, 0},
    {"ItemIID", EA_GUID, 0, 0, 0, 0},
    {"ItemTimestamp", EA_FILETIME, 0, 0, 0, 0},
    {"ItemTimeDelta", EA_I64, 0, 0, 0, 0},
    {"ItemWaitTime", EA_I64, 0, 0, 0, 0},
    {"ItemNTSTATUS", EA_HEX32, EA_SEM_NTSTATUS, 0, 0, 0},
    {"ItemNTerror", EA_HEX32, EA_SEM_NTSTATUS, 0, 0, 0},
    {"ItemNDIS_STATUS", EA_HEX32, EA_SEM_NTSTATUS, 0, 0, 0},
    {"ItemNDIS_OID", EA_HEX32, 0, 0, 0, 0},
    {"ItemWINERROR", EA_U32, EA_SEM_WIN32_ERROR, EA_HEX32, 0, 0},
    {"ItemHRESULT", EA_HEX32, EA_SEM_HRESULT, 0, 0, 0},
    {"ItemIPAddr", EA_IPV4, EA_SEM_IP, 0, 0, 0},
    {"ItemIPV6Addr", EA_IPV6, EA_SEM_IP, 0, 0, 0},
    {"ItemPort", EA_PORT, EA_SEM_PORT, 0, 0, 0},
    {"ItemSid", EA_SID, EA_SEM_SID, 0, 0, 0},
    {"ItemHEXDump", EA_BYTES, 0, 0, 0, 1},
    {"ItemListByte", EA_U8, 0, EA_HEX8, 1, 0},
    {"ItemListShort", EA_U16, 0, EA_HEX16, 1, 0},
    {"ItemListLong", EA_U32, 0, EA_HEX32, 1, 0},
    {"ItemSetByte", EA_HEX8, 0, 0, 2, 0},
    {"ItemSetShort", EA_HEX16, 0, 0, 2, 0},
    {"ItemSetLong", EA_HEX32, 0, 0, 2, 0},
    {"ItemEnum", EA_U32, 0, EA_HEX32, 0, 0},
    {"ItemFlagsEnum", EA_HEX32, 0, 0, 0, 0},
};

// clang-format on

/* Part of a line; not ended by a NUL. */
typedef struct span {
    const char *at;
    size_t len;
} span;

typedef struct argument {
    span name, list;
    const item *kind; /* NULL: not known */
    unsigned number;
} argument;

typedef struct reader {
    ea_schemas *into;
    const char *file;
    const char *at, *end;
    unsigned long line;
    ea_tmf_result *result;
    ea_guid guid;
    int has_guid;
    char component[128], source[128];
    ea_arena scratch; /* of one message */
    ea_text message, description, name;
    int rc; /* what ends the whole */
    ea_err *err;
} reader;

static void tmf_problem(reader *r, const char *what) {
    if (!r->result->problems++) {
        r->result->first_line = r->line;
        snprintf(r->result->first_problem, sizeof r->result->first_problem, "%s", what);
    }
}

static span trimmed(span s) {
    while (s.len && (*s.at == ' ' || *s.at == '\t')) {
        s.at++;
        s.len--;
    }
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t' || s.at[s.len - 1] == '\r'))
        s.len--;
    return s;
}

static int next_line(reader *r, span *ret) {
    if (r->at == r->end)
        return 0;
    const char *nl = memchr(r->at, '\n', (size_t)(r->end - r->at)), *stop = nl ? nl : r->end;
    *ret = trimmed((span){r->at, (size_t)(stop - r->at)});
    r->at = nl ? nl + 1 : r->end;
    r->line++;
    return 1;
}

static int tmf_begins(span s, const char *with) {
    size_t n = strlen(with);
    return s.len >= n && memcmp(s.at, with, n) == 0;
}

/* The first place of text in s; NULL. */
static const char *tmf_find(span s, const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= s.len; i++)
        if (memcmp(s.at + i, text, n) == 0)
            return s.at + i;
    return NULL;
}

static span tmf_word(span *s) {
    *s = trimmed(*s);
    span w = {s->at, 0};
    while (w.len < s->len && w.at[w.len] != ' ' && w.at[w.len] != '\t')
        w.len++;
    s->at += w.len;
    s->len -= w.len;
    return w;
}

static int tmf_number_of(span s, unsigned limit, unsigned *ret) {
    unsigned v = 0;
    if (!s.len || s.len > 9)
        return 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return 0;
        v = v * 10 + (unsigned)(s.at[i] - '0');
    }
    *ret = v;
    return v <= limit;
}

static void tmf_keep(char *out, size_t size, span s) {
    size_t n = s.len < size - 1 ? s.len : size - 1;
    memcpy(out, s.at, n);
    out[n] = 0;
}

/* What a comment says: LEVEL=..., FUNC=..., SRC=...; empty when it does not. */
static span said(span comment, const char *key) {
    const char *at = tmf_find(comment, key);
    if (!at)
        return (span){comment.at, 0};
    span rest = {at + strlen(key), (size_t)(comment.at + comment.len - at) - strlen(key)};
    return tmf_word(&rest);
}

static char *copied(reader *r, span s) {
    char *out = ea_arena_alloc(&r->scratch, s.len + 1);
    if (out)
        tmf_keep(out, s.len + 1, s);
    else
        r->rc = ea_fail(r->err, EA_ENOMEM, "read %s", r->file);
    return out;
}

/* ---- a message ---- */

/* "expression, ItemKind(a,b) -- 10": the last comma before the kind divides, since an expression may hold commas. */
static int read_argument(span line, argument *ret) {
    const char *kind = NULL;
    span rest = line;
    for (const char *at; (at = tmf_find(rest, ", Item")) != NULL;
         rest = (span){at + 1, (size_t)(line.at + line.len - at) - 1})
        kind = at;
    if (!kind)
        return 0;
    ret->name = trimmed((span){line.at, (size_t)(kind - line.at)});
    span type = {kind + 2, (size_t)(line.at + line.len - kind) - 2};
    const char *dashes = NULL;
    rest = type;
    for (const char *at; (at = tmf_find(rest, "--")) != NULL;
         rest = (span){at + 2, (size_t)(type.at + type.len - at) - 2})
        dashes = at;
    if (!dashes ||
        !tmf_number_of(trimmed((span){dashes + 2, (size_t)(type.at + type.len - dashes) - 2}), 999, &ret->number))
        return 0;
    type = trimmed((span){type.at, (size_t)(dashes - type.at)});
    const char *open = tmf_find(type, "(");
    ret->list = (span){type.at, 0};
    if (open) {
        ret->list = (span){open + 1, (size_t)(type.at + type.len - open) - 1};
        if (ret->list.len && ret->list.at[ret->list.len - 1] == ')')
            ret->list.len--;
        type = trimmed((span){type.at, (size_t)(open - type.at)});
    }
    ret->kind = NULL;
    for (size_t i = 0; i < sizeof ITEMS / sizeof *ITEMS; i++)
        if (strlen(ITEMS[i].name) == type.len && memcmp(ITEMS[i].name, type.at, type.len) == 0)
            ret->kind = &ITEMS[i];
    return 1;
}

/* "a,b=0x5,c": names of numbers from 0 on, or from one that is given; for bits, of the bit with that number. */
static const ea_enum *read_list(reader *r, const argument *a) {
    int is_flags = a->kind->is_list == 2;
    ea_map_entry *entries = ea_arena_zalloc(&r->scratch, NAMES_MAX, sizeof *entries);
    ea_enum *map = ea_arena_zalloc(&r->scratch, 1, sizeof *map);
    if (!entries || !map) {
        r->rc = ea_fail(r->err, EA_ENOMEM, "read %s", r->file);
        return NULL;
    }
    span rest = a->list;
    uint64_t next = 0;
    size_t n = 0;
    while (rest.len && n < NAMES_MAX) {
        const char *comma = memchr(rest.at, ',', rest.len);
        span one = {rest.at, comma ? (size_t)(comma - rest.at) : rest.len};
        rest.at += one.len + (comma != NULL);
        rest.len -= one.len + (comma != NULL);
        const char *equals = one.len ? memchr(one.at, '=', one.len) : NULL;
        if (equals) {
            char digits[32];
            tmf_keep(digits, sizeof digits, trimmed((span){equals + 1, (size_t)(one.at + one.len - equals) - 1}));
            next = strtoull(digits, NULL, 0);
            one.len = (size_t)(equals - one.at);
        }
        one = trimmed(one);
        uint64_t value = next++;
        if (!one.len || (is_flags && value > 63))
            continue;
        entries[n].name = copied(r, one);
        entries[n++].value = is_flags ? UINT64_C(1) << value : value & UINT32_MAX;
    }
    *map = (ea_enum){is_flags ? "bits" : "values", is_flags, n, entries};
    return n && !r->rc ? map : NULL;
}

/* Whether the text requests hex for an argument: %10!x!, %10!08X!, %10!#I64x!. format: the characters between the two
 * '!'. */
static int wants_hex(span format) {
    return format.len && (format.at[format.len - 1] == 'x' || format.at[format.len - 1] == 'X');
}

/* Finds "%NUMBER!format!" of an argument in the text; its format, or nothing. */
static span format_of(span text, unsigned number) {
    for (size_t i = 0; i < text.len; i++) {
        unsigned n = 0;
        size_t k = i + 1;
        if (text.at[i] != '%')
            continue;
        while (k < text.len && k < i + 4 && text.at[k] >= '0' && text.at[k] <= '9')
            n = n * 10 + (unsigned)(text.at[k++] - '0');
        if (n != number || k == i + 1 || k >= text.len || text.at[k] != '!')
            continue;
        const char *close = memchr(text.at + k + 1, '!', text.len - k - 1);
        if (close)
            return (span){text.at + k + 1, (size_t)(close - text.at) - k - 1};
    }
    return (span){text.at, 0};
}

/* The text as messages are kept: arguments by their place (%1, %2, ...), what the comment says in place of %!FUNC!. */
static void tmf_put_text(reader *r, span text, const argument *arguments, size_t count, size_t shown, span comment) {
    ea_text *out = &r->message;
    ea_text_clear(out);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '\\' && i + 1 < text.len) {
            c = text.at[++i];
            ea_text_str(out, c == 'n' ? "%n" : c == 't' ? "%t" : c == 'r' ? "%r" : "");
            if (c != 'n' && c != 't' && c != 'r')
                ea_text_char(out, c);
            continue;
        }
        if (c != '%') {
            if (c >= ' ' || c < 0)
                ea_text_char(out, c);
            continue;
        }
        span rest = {text.at + i + 1, text.len - i - 1};
        unsigned n = 0;
        size_t digits = 0;
        while (digits < rest.len && digits < 3 && rest.at[digits] >= '0' && rest.at[digits] <= '9')
            n = n * 10 + (unsigned)(rest.at[digits++] - '0');
        const char *close;
        if (digits) {
            i += digits;
            size_t k = 0;
            while (k < count && arguments[k].number != n)
                k++;
            if (k < shown && k < 99)
                ea_text_printf(out, "%%%zu", k + 1);
            if (k < count && i + 1 < text.len && text.at[i + 1] == '!' &&
                (close = memchr(text.at + i + 2, '!', text.len - i - 2)) != NULL)
                i = (size_t)(close - text.at);
            if (k < shown && i + 1 < text.len && text.at[i + 1] >= '0' && text.at[i + 1] <= '9' && k < 9)
                ea_text_str(out, "!s!"); /* a digit of the text is none of the number */
        } else if (rest.len && *rest.at == '!' && (close = memchr(rest.at + 1, '!', rest.len - 1)) != NULL) {
            span key = {rest.at + 1, (size_t)(close - rest.at) - 1};
            span value = {key.at, 0};
            if (key.len == 4 && memcmp(key.at, "FUNC", 4) == 0)
                value = said(comment, "FUNC=");
            else if (key.len == 5 && memcmp(key.at, "LEVEL", 5) == 0)
                value = said(comment, "LEVEL=");
            else if (key.len == 5 && memcmp(key.at, "FLAGS", 5) == 0)
                value = said(comment, "FLAGS=");
            ea_text_add(out, value.at, value.len);
            i += key.len + 2;
        } else {
            ea_text_str(out, "%%");
            i += rest.len && *rest.at == '%';
        }
    }
}

/* A name for JSON and columns: the expression; "arg" and a repeated name get their number. */
static const char *field_name(reader *r, const argument *arguments, size_t k) {
    span name = arguments[k].name;
    int again = name.len == 0 || (name.len == 3 && memcmp(name.at, "arg", 3) == 0);
    for (size_t i = 0; i < k && !again; i++)
        again = arguments[i].name.len == name.len && memcmp(arguments[i].name.at, name.at, name.len) == 0;
    if (!again)
        return copied(r, name);
    ea_text_clear(&r->name);
    ea_text_add(&r->name, name.at, name.len);
    ea_text_u64(&r->name, k + 1);
    return r->name.failed ? copied(r, name) : copied(r, (span){r->name.data, r->name.len_bytes});
}

static void add_message(reader *r, const char *name, unsigned number, span text, span comment,
                        const argument *arguments, size_t count) {
    ea_field fields[2 * ARGUMENTS_MAX];
    size_t n = 0, shown = 0;
    memset(fields, 0, sizeof fields);
    for (size_t k = 0; k < count && !r->rc; k++, shown++) {
        const item *kind = arguments[k].kind;
        const char *field = field_name(r, arguments, k);
        if (!kind) { /* the end of the argument is unknown */
            fields[n++] = (ea_field){.name = field, .type = EA_BYTES, .count = EA_COUNT_REST, .count_field = -1};
            shown++;
            break;
        }
        if (kind->is_long)
            fields[n++] = (ea_field){.name = "", .type = EA_U16, .count = 1, .count_field = -1, .hidden = 1};
        uint8_t type = kind->hex && wants_hex(format_of(text, arguments[k].number)) ? kind->hex : kind->type;
        fields[n] = (ea_field){.name = field,
                               .type = type,
                               .semantic = kind->semantic,
                               .count = 1,
                               .count_field = (int16_t)(kind->is_long ? (int)n - 1 : -1)};
        fields[n++].map = kind->is_list ? read_list(r, &arguments[k]) : NULL;
    }
    if (r->rc)
        return;
    tmf_put_text(r, text, arguments, count, shown, comment);
    char *level = copied(r, said(comment, "LEVEL=")), *function = copied(r, said(comment, "FUNC="));
    char *whole_text = copied(r, (span){r->message.len_bytes ? r->message.data : "", r->message.len_bytes});
    if (!level || !function || !whole_text)
        return;
    ea_class_head head = {
        .provider = r->guid, .provider_name = r->component, .name = name, .code = (uint16_t)number, .pointer_size = 8};
    ea_class_notes notes = {.message = whole_text, .level = level, .channel = "", .task = "", .opcode = function};
    ea_text_clear(&r->description);
    ea_class_describe_fields(&r->description, &head, fields, n, &notes);
    if (r->message.failed || r->description.failed) {
        r->rc = ea_fail(r->err, EA_ENOMEM, "read %s", r->file);
        return;
    }
    ea_err why;
    int rc = ea_schemas_add(r->into, EA_SCHEMA_GIVEN, (const uint8_t *)r->description.data, r->description.len_bytes,
                            NULL, &why);
    if (rc == EA_ENOMEM || rc == EA_ELIMIT)
        r->rc = ea_fail(r->err, rc, "keep the messages of %s", r->file);
    else if (rc)
        tmf_problem(r, "the message cannot be described");
    else
        r->result->messages++;
}

/* The closing quote of the text: the last one before the comment. */
static int split_text(span line, span *ret_text, span *ret_comment) {
    const char *open = memchr(line.at, '"', line.len);
    if (!open)
        return 0;
    const char *close = NULL;
    for (const char *p = open + 1; p < line.at + line.len; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '"') {
            close = p;
            span rest = trimmed((span){p + 1, (size_t)(line.at + line.len - p) - 1});
            if (!rest.len || tmf_begins(rest, "//"))
                break;
        }
    }
    if (!close)
        return 0;
    *ret_text = (span){open + 1, (size_t)(close - open) - 1};
    *ret_comment = (span){close + 1, (size_t)(line.at + line.len - close) - 1};
    return 1;
}

static void tmf_read_message(reader *r, span line) {
    argument arguments[ARGUMENTS_MAX];
    size_t count = 0;
    unsigned number = 0;
    int good = 1;
    span text = {line.at, 0}, comment = {line.at, 0}, args = line;
    (void)tmf_word(&args); /* #typev */
    span name = tmf_word(&args), id = tmf_word(&args);
    if (!tmf_number_of(id, UINT16_MAX, &number) || !name.len || !split_text(args, &text, &comment)) {
        tmf_problem(r, "#typev is not followed by a name, a number up to 65535 and a text in quotes");
        good = 0;
    } else if (!r->has_guid) {
        tmf_problem(r, "#typev is before any message GUID");
        good = 0;
    }
    const char *at = r->at;
    unsigned long line_number = r->line;
    span next;
    int open = 0;
    while (next_line(r, &next) && !next.len)
        continue;
    if (r->at != at && tmf_begins(next, "{")) {
        open = 1;
        while (next_line(r, &next) && !tmf_begins(next, "}")) {
            if (!next.len || tmf_begins(next, "//"))
                continue;
            if (count == ARGUMENTS_MAX || !read_argument(next, &arguments[count])) {
                if (good)
                    tmf_problem(r, count == ARGUMENTS_MAX ? "a message has more than 64 arguments"
                                                          : "an argument is not \"expression, ItemKind -- number\"");
                good = 0;
                continue;
            }
            count++;
        }
    }
    if (!open) { /* none: the line belongs to what follows */
        r->at = at;
        r->line = line_number;
    }
    if (tmf_begins(text, "%0"))
        text = (span){text.at + 2, text.len - 2}; /* where the prefix goes */
    ea_arena_reset(&r->scratch);
    char *own = good ? copied(r, name) : NULL;
    if (own)
        add_message(r, own, number, text, comment, arguments, count);
}

/* "e7602a7b-5034-321b-d450-a986113fc2e1 component // SRC=file.c MJ= MN=": 1 when the line is one. */
static int read_guid(reader *r, span line) {
    char text[37];
    span rest = line, first = tmf_word(&rest);
    if (first.len == 38 && *first.at == '{')
        first = (span){first.at + 1, 36};
    if (first.len != 36)
        return 0;
    tmf_keep(text, sizeof text, first);
    ea_guid guid;
    if (ea_guid_parse(text, &guid))
        return 0;
    r->guid = guid;
    r->has_guid = 1;
    span name = tmf_word(&rest);
    tmf_keep(r->component, sizeof r->component, tmf_begins(name, "//") ? (span){name.at, 0} : name);
    tmf_keep(r->source, sizeof r->source, said(line, "SRC="));
    ea_schema_provider p = {
        .guid = guid, .name = r->component, .origin = r->file, .message = r->source, .layer = EA_SCHEMA_GIVEN};
    int rc = ea_schemas_add_provider(r->into, &p, r->err);
    if (rc)
        r->rc = rc;
    return 1;
}

int ea_tmf_read(ea_schemas *into, const char *file, const void *data, size_t len_bytes, ea_tmf_result *ret,
                ea_err *err) {
    ea_tmf_result result = {0};
    reader r = {
        .into = into, .file = file, .at = data, .end = (const char *)data + len_bytes, .result = &result, .err = err};
    if (len_bytes > EA_TMF_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "read %s: it has more than %d MiB", file, EA_TMF_MAX_BYTES >> 20);
    if (len_bytes >= 3 && memcmp(r.at, "\xEF\xBB\xBF", 3) == 0)
        r.at += 3;
    ea_arena_init(&r.scratch, SCRATCH_BYTES);
    ea_text_init(&r.message);
    ea_text_init(&r.description);
    ea_text_init(&r.name);
    span line;
    while (!r.rc && next_line(&r, &line)) {
        if (tmf_begins(line, "#typev"))
            tmf_read_message(&r, line);
        else if (line.len && !tmf_begins(line, "//"))
            (void)read_guid(&r, line);
    }
    ea_arena_deinit(&r.scratch);
    ea_text_deinit(&r.message);
    ea_text_deinit(&r.description);
    ea_text_deinit(&r.name);
    if (r.rc)
        return r.rc;
    if (!result.messages && !result.problems)
        return ea_fail(err, EA_EFORMAT, "%s describes no message: it has no line that begins with #typev", file);
    *ret = result;
    return 0;
}

int ea_tmf_load(ea_schemas *into, const char *path, ea_err *err) {
    char *data;
    size_t len_bytes;
    ea_tmf_result result;
    int rc = ea_path_read_all(path, EA_TMF_MAX_BYTES, &data, &len_bytes, err);
    if (rc)
        return rc;
    rc = ea_tmf_read(into, path, data, len_bytes, &result, err);
    free(data);
    if (!rc && result.problems)
        rc = ea_fail(err, EA_EFORMAT, "%s:%lu: %s", path, result.first_line, result.first_problem);
    return rc;
}
