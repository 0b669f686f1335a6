/* See redact.h. */
#include "proto/relog/redact.h"

#include "proto/base/array.h"
#include "proto/base/fold_letters.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/provider_guids.h"
#include "proto/event/encode.h"
#include "proto/event/schema/intrace.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGEST_BYTES = 32,
    TOKEN_CHARACTERS = 12, /* of 5 bits */
    TOKEN_ROOM = TOKEN_CHARACTERS + 4,
    WORD_LEAST = 3,
    WORD_MAX = 255,
    WORDS_MAX = 1 << 16,
    ITEMS_MAX = EA_EXT_MAX,
    SCHEME_MAX = 16,
    SID_HEAD = 8,
    FAMILY_IPV4 = 2,
    FAMILY_IPV6 = 23,
    PAYLOAD_MAX = UINT16_MAX,
};

static const ea_guid METADATA = EA_PROVIDER_META_DATA;

typedef struct word {
    char *text; /* lower case */
    uint8_t len_bytes, kind;
    uint8_t is_odd; /* it has blanks, dots or hyphens in it */
} word;

struct ea_redact {
    ea_redact_options options;
    uint8_t *key;
    ea_redact_counts counts;
    word *words; /* known users and machines */
    size_t word_count, word_capacity;
    ea_u64_map by_hash;                /* of a word's lower case: 1 + its place */
    ea_u64_map odd;                    /* the first characters of odd words */
    uint8_t odd_lengths[WORD_MAX + 1]; /* 1: an odd word has so many bytes */
    size_t odd_longest;
    ea_arena arena;
    ea_text scratch, other;
    int rc; /* the first failure inside of a record */
    uint8_t payload[PAYLOAD_MAX];
    ea_ext items[ITEMS_MAX];
};

const char *ea_redact_name(enum ea_redact_kind kind) {
    static const char *const NAMES[] = {

#define X(kind, name) name,
        EA_REDACT_KINDS(X)
#undef X
    };

    return NAMES[kind];
}

int ea_redact_parse(const char *kinds, unsigned *ret, ea_err *err) {
    unsigned all = 0;
    for (const char *at = kinds; *at;) {
        size_t n = strcspn(at, ",");
        unsigned found = n == 3 && memcmp(at, "all", 3) == 0 ? EA_REDACT_ALL : 0;
        for (int kind = 0; kind < EA_REDACT_KIND_COUNT; kind++)
            if (strlen(ea_redact_name(kind)) == n && memcmp(at, ea_redact_name(kind), n) == 0)
                found = 1u << kind;
        if (!found)
            return ea_fail(err, EA_EUSAGE, "--redact %.*s: expected all, or of " EA_REDACT_KIND_LIST,
                           (int)(n < 40 ? n : 40), at);
        all |= found;
        at += n + (at[n] == ',');
    }
    if (!all)
        return ea_fail(err, EA_EUSAGE, "--redact: expected all, or of " EA_REDACT_KIND_LIST);
    *ret = all;
    return 0;
}

int ea_redact_open(ea_redact **ret, const char *kinds, const char *key_path, enum ea_redact_unknown unknown,
                   ea_err *err) {
    uint8_t key[EA_REDACT_KEY_MAX_BYTES + 1];
    ea_redact_options options = {.key = key, .unknown = unknown};
    ea_file *f = NULL;
    int rc = ea_redact_parse(kinds, &options.kinds, err);
    if (!rc)
        rc = ea_file_open(&f, key_path, EA_OPEN_READ, err);
    if (!rc)
        rc = ea_file_read_at(f, 0, key, sizeof key, &options.key_bytes, err);
    ea_file_close(f);
    if (!rc)
        rc = ea_redact_create(ret, &options, err);
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}

int ea_redact_create(ea_redact **ret, const ea_redact_options *options, ea_err *err) {
    if (options->key_bytes < EA_REDACT_KEY_MIN_BYTES || options->key_bytes > EA_REDACT_KEY_MAX_BYTES)
        return ea_fail(err, EA_EINVAL, "redact: a key has %d to %d bytes, this one %zu", EA_REDACT_KEY_MIN_BYTES,
                       EA_REDACT_KEY_MAX_BYTES, options->key_bytes);
    ea_redact *x = calloc(1, sizeof *x);
    if (!x)
        return ea_fail(err, EA_ENOMEM, "redact");
    x->options = *options;
    x->key = malloc(options->key_bytes);
    ea_u64_map_init(&x->by_hash, 0);
    ea_u64_map_init(&x->odd, 0);
    ea_arena_init(&x->arena, 0);
    ea_text_init(&x->scratch);
    ea_text_init(&x->other);
    if (!x->key) {
        ea_redact_destroy(x);
        return ea_fail(err, EA_ENOMEM, "redact");
    }
    memcpy(x->key, options->key, options->key_bytes);
    *ret = x;
    return 0;
}

void ea_redact_destroy(ea_redact *x) {
    if (!x)
        return;
    for (size_t i = 0; i < x->word_count; i++)
        free(x->words[i].text);
    if (x->key)
        OPENSSL_cleanse(x->key, x->options.key_bytes);
    free(x->words);
    free(x->key);
    ea_u64_map_deinit(&x->by_hash);
    ea_u64_map_deinit(&x->odd);
    ea_arena_deinit(&x->arena);
    ea_text_deinit(&x->scratch);
    ea_text_deinit(&x->other);
    free(x);
}

const ea_redact_counts *ea_redact_count(const ea_redact *x) {
    return &x->counts;
}

static int chosen(const ea_redact *x, int kind) {
    return x->options.kinds >> kind & 1;
}

static int same_word(const char *a, size_t n, const char *b) {
    size_t i = 0;
    for (; i < n && b[i]; i++)
        if (ea_ascii_lower(a[i]) != ea_ascii_lower(b[i]))
            return 0;
    return i == n && !b[i];
}

static int redact_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80);
}

/* ---- pseudonyms ---- */

/* The keyed hash of bytes; what stands for one thing has one domain. is_text: of its letters in lower case. */
static void digest_bytes(ea_redact *x, char domain, const void *value, size_t len_bytes, int is_text, uint8_t *out) {
    unsigned n = DIGEST_BYTES;
    size_t bytes = len_bytes + 1;
    char *copy = ea_arena_alloc(&x->arena, bytes);
    memset(out, 0, DIGEST_BYTES);
    if (!copy) {
        x->rc = EA_ENOMEM;
        return;
    }
    copy[0] = domain;
    if (is_text)
        ea_fold_letters(value, len_bytes, copy + 1);
    else
        memcpy(copy + 1, value, len_bytes);
    if (!HMAC(EVP_sha256(), x->key, (int)x->options.key_bytes, (const unsigned char *)copy, bytes, out, &n))
        x->rc = EA_ECRYPTO;
}

static void digest(ea_redact *x, char domain, const void *text, size_t len_bytes, uint8_t *out) {
    digest_bytes(x, domain, text, len_bytes, 1, out);
}

/* Characters that are in no case and in no word of a person: a consonant first, so that it is no number. */
static void put_token(ea_redact *x, char domain, const char *value, size_t len_bytes, ea_text *out) {
    static const char ALPHABET[] = "0123456789bcdfghjkmnpqrstvwxyz";
    uint8_t d[DIGEST_BYTES];
    char token[TOKEN_ROOM] = "x";
    uint64_t bits;
    digest(x, domain, value, len_bytes, d);
    memcpy(&bits, d, sizeof bits);
    for (int i = 0; i < TOKEN_CHARACTERS; i++, bits /= 30)
        token[1 + i] = ALPHABET[bits % 30];
    ea_text_add(out, token, 1 + TOKEN_CHARACTERS);
}

/* What stands for a SID: its domain's digest, whose numbers it takes in turn, and its last number. */
static uint32_t sid_account(ea_redact *x, const char *sid, size_t len_bytes, uint8_t *domain) {
    uint8_t account[DIGEST_BYTES];
    size_t last = len_bytes;
    while (last && sid[last - 1] != '-')
        last--;
    digest(x, 'd', sid, last, domain);
    digest(x, 'a', sid, len_bytes, account);
    return 1000 + ea_load32(account) % 1000000000;
}

static void put_sid_text(ea_redact *x, const char *sid, size_t len_bytes, ea_text *out) {
    /* S-1-5-21, three numbers of the domain, the account's */
    uint8_t domain[DIGEST_BYTES], made[SID_HEAD + 20] = {1, 5, [7] = 5, [SID_HEAD] = 21};
    ea_store32(made + SID_HEAD + 16, sid_account(x, sid, len_bytes, domain));
    memcpy(made + SID_HEAD + 4, domain, 12);
    (void)ea_text_sid(out, made, sizeof made);
    x->counts.values[EA_REDACT_SID]++;
}

/* SIDs that name one account or domain; the others are alike on each Windows. */
static int is_personal_sid(const char *sid, size_t len_bytes) {
    static const char *const BEGINS[] = {"S-1-5-21-",      "S-1-11-",   "S-1-12-",   "S-1-15-2-",
                                         "S-1-15-3-1024-", "S-1-5-5-",  "S-1-5-80-", "S-1-5-82-",
                                         "S-1-5-83-",      "S-1-5-87-", "S-1-5-90-", "S-1-5-96-"};
    for (size_t i = 0; i < sizeof BEGINS / sizeof *BEGINS; i++)
        if (len_bytes > strlen(BEGINS[i]) && same_word(sid, strlen(BEGINS[i]), BEGINS[i]))
            return 1;
    return 0;
}

/* In place: 4 or 16 bytes. */
static void change_address(ea_redact *x, uint8_t *a, size_t len_bytes) {
    static const uint8_t NONE[16], LOOPBACK[16] = {[15] = 1}, MAPPED[12] = {[10] = 0xff, [11] = 0xff};
    uint8_t d[DIGEST_BYTES];
    if (len_bytes == 16 && memcmp(a, MAPPED, sizeof MAPPED) == 0) {
        a += 12;
        len_bytes = 4;
    }
    if (len_bytes == 4 && (a[0] == 127 || ea_load32(a) == 0 || ea_load32(a) == UINT32_MAX))
        return;
    if (len_bytes == 16 && (memcmp(a, NONE, 16) == 0 || memcmp(a, LOOPBACK, 16) == 0))
        return;
    digest_bytes(x, '4', a, len_bytes, 0, d);
    memcpy(a + 1, d, len_bytes - 1);
    a[0] = len_bytes == 4 ? 10 : 0xfd; /* private networks */
    x->counts.values[EA_REDACT_ADDRESS]++;
}

/* ---- paths ---- */

/* Names of each Windows, in paths of files and of the registry. */
static const char *const KEPT[] = {
    "device",         "??",
    "globalroot",     "systemroot",
    "windows",        "system32",
    "syswow64",       "winsxs",
    "drivers",        "users",
    "public",         "default",
    "program files",  "program files (x86)",
    "programdata",    "appdata",
    "local",          "locallow",
    "roaming",        "temp",
    "registry",       "machine",
    "user",           "software",
    "system",         "sam",
    "security",       "currentcontrolset",
    "controlset001",  "control",
    "services",       "microsoft",
    "windows nt",     "currentversion",
    "classes",        "wow6432node",
    "policies",       "mup",
    "namedpipe",      "fonts",
    "assembly",       "microsoft.net",
    "framework",      "framework64",
    "explorer.exe",   "svchost.exe",
    "ntdll.dll",      "kernel32.dll",
    "kernelbase.dll", "ntoskrnl.exe",
    "hal.dll",        "user32.dll",
    "gdi32.dll",      "msvcrt.dll",
    "ntkrnlmp.exe",   "system32\\drivers",
};

static const char *const EXTENSIONS[] = {".exe", ".dll", ".sys", ".pdb", ".ocx", ".cpl", ".drv", ".mui", ".efi"};

static int redact_is_kept(const char *part, size_t n) {
    static const char VOLUME[] = "harddiskvolume";
    if (n == 0 || (n == 1 && (part[0] == '.' || part[0] == '?')) || (n == 2 && part[1] == ':') ||
        (n == 2 && part[0] == '.' && part[1] == '.'))
        return 1;
    if (n > sizeof VOLUME - 1 && same_word(part, sizeof VOLUME - 1, VOLUME)) {
        for (size_t i = sizeof VOLUME - 1; i < n; i++)
            if (part[i] < '0' || part[i] > '9')
                return 0;
        return 1;
    }
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        if (same_word(part, n, KEPT[i]))
            return 1;
    return 0;
}

static void put_path_part(ea_redact *x, const char *part, size_t n, int kind, ea_text *out) {
    if (redact_is_kept(part, n)) {
        ea_text_add(out, part, n);
        return;
    }
    if (is_personal_sid(part, n) && n > 2 && part[1] == '-') {
        put_sid_text(x, part, n, out);
        return;
    }
    const char *extension = "";
    for (size_t i = 0; i < sizeof EXTENSIONS / sizeof *EXTENSIONS; i++)
        if (n > 4 && same_word(part + n - 4, 4, EXTENSIONS[i]))
            extension = EXTENSIONS[i];
    put_token(x, 'w', part, n, out);
    ea_text_str(out, extension);
    x->counts.values[kind]++;
}

static int is_separator(char c) {
    return c == '\\' || c == '/';
}

static void redact_put_path(ea_redact *x, const char *path, size_t n, int kind, ea_text *out) {
    size_t begin = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && !is_separator(path[i]))
            continue;
        put_path_part(x, path + begin, i - begin, kind, out);
        if (i < n)
            ea_text_char(out, path[i]);
        begin = i + 1;
    }
}

/* Length of a scheme with its "://"; 0: none begins here. */
static size_t scheme_length(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && i < SCHEME_MAX && !(text[i] & 0x80) && text[i] != '_' &&
           (redact_is_letter(text[i]) || (i && (text[i] == '+' || text[i] == '-' || text[i] == '.'))))
        i++;
    int has_letter = i && ea_ascii_lower(text[0]) >= 'a';
    return has_letter && i + 3 <= n && memcmp(text + i, "://", 3) == 0 ? i + 3 : 0;
}

static void put_url(ea_redact *x, const char *url, size_t n, ea_text *out) {
    size_t at = scheme_length(url, n);
    ea_text_add(out, url, at);
    size_t host = at;
    while (host < n && !is_separator(url[host]))
        host++;
    put_token(x, 'w', url + at, host - at, out);
    if (host < n) {
        ea_text_char(out, '/');
        put_token(x, 'l', url + host, n - host, out);
    }
    x->counts.values[EA_REDACT_URL]++;
}

/* ---- texts ---- */

static const struct {
    const char *end; /* of the field's name, in any case */
    uint8_t kind;
} FIELD_NAMES[] = {
    {"username", EA_REDACT_USER},
    {"user", EA_REDACT_USER},
    {"accountname", EA_REDACT_USER},
    {"account", EA_REDACT_USER}, /* of the agent's own events */
    {"membername", EA_REDACT_USER},
    {"computername", EA_REDACT_HOST},
    {"computer", EA_REDACT_HOST}, /* of event logs */
    {"hostname", EA_REDACT_HOST},
    {"machinename", EA_REDACT_HOST},
    {"workstationname", EA_REDACT_HOST},
    {"workstation", EA_REDACT_HOST},
    {"domainname", EA_REDACT_HOST},
    {"domain", EA_REDACT_HOST},
    {"servername", EA_REDACT_HOST},
    {"nodename", EA_REDACT_HOST},
    {"queryname", EA_REDACT_HOST},
    {"url", EA_REDACT_URL},
    {"uri", EA_REDACT_URL},
    {"commandline", EA_REDACT_COMMAND},
    {"filename", EA_REDACT_PATH},
    {"imagename", EA_REDACT_PATH},
    {"path", EA_REDACT_PATH},
    {"filepath", EA_REDACT_PATH},
    {"modulename", EA_REDACT_PATH},
    {"filedescription", EA_REDACT_PATH}, /* of an image: often its name once more */
    {"productname", EA_REDACT_PATH},
    {"companyname", EA_REDACT_PATH},
    {"keyname", EA_REDACT_REGISTRY},
    {"valuename", EA_REDACT_REGISTRY},
    {"regkey", EA_REDACT_REGISTRY},
    {"hive", EA_REDACT_REGISTRY},
    {"details", EA_REDACT_DATA}, /* of Sysmon */
    {"oldvalue", EA_REDACT_DATA},
    {"newvalue", EA_REDACT_DATA},
    {"old value", EA_REDACT_DATA}, /* of Defender */
    {"new value", EA_REDACT_DATA},
    {"valuedata", EA_REDACT_DATA},
    {"servicename", EA_REDACT_PATH},
    {"displayname", EA_REDACT_PATH},
    {"processname", EA_REDACT_PATH},
    {"sid", EA_REDACT_SID},
};

/* -1: a text of no kind: a name of code. */
static int redact_kind_of(const ea_field *f) {
    static const char CODE[] = "method";
    switch (f->semantic) {
    case EA_SEM_SID:
        return EA_REDACT_SID;
    case EA_SEM_PATH:
        return EA_REDACT_PATH;
    case EA_SEM_COMMAND_LINE:
        return EA_REDACT_COMMAND;
    case EA_SEM_REGISTRY_PATH:
        return EA_REDACT_REGISTRY;
    case EA_SEM_IP:
    case EA_SEM_SOCKET_ADDRESS:
        return EA_REDACT_ADDRESS;
    default:
        break;
    }
    size_t n = strlen(f->name);
    for (size_t i = 0; i < sizeof FIELD_NAMES / sizeof *FIELD_NAMES; i++) {
        size_t end = strlen(FIELD_NAMES[i].end);
        if (n >= end && same_word(f->name + n - end, end, FIELD_NAMES[i].end))
            return FIELD_NAMES[i].kind;
    }
    return n >= sizeof CODE - 1 && same_word(f->name, sizeof CODE - 1, CODE) ? -1 : EA_REDACT_TEXT;
}

static void put_whole(ea_redact *x, int kind, const char *text, size_t n, ea_text *out) {
    switch (kind) {
    case EA_REDACT_SID:
        if (is_personal_sid(text, n))
            put_sid_text(x, text, n, out);
        else
            ea_text_add(out, text, n);
        return;
    case EA_REDACT_PATH:
    case EA_REDACT_REGISTRY:
        redact_put_path(x, text, n, kind, out);
        return;
    case EA_REDACT_URL:
        put_url(x, text, n, out);
        return;
    default:
        put_token(x, kind == EA_REDACT_COMMAND ? 'c' : 'w', text, n, out);
        x->counts.values[kind]++;
        return;
    }
}

static const word *find_folded(const ea_redact *x, const char *folded, size_t n) {
    const uint64_t *place = ea_u64_map_get(&x->by_hash, ea_hash64(folded, n, 0));
    const word *w = place ? &x->words[*place - 1] : NULL;
    return w && w->len_bytes == n && memcmp(w->text, folded, n) == 0 ? w : NULL;
}

static const word *find_word(const ea_redact *x, const char *text, size_t n) {
    char folded[WORD_MAX];
    if (n < WORD_LEAST || n > WORD_MAX)
        return NULL;
    ea_fold_letters(text, n, folded);
    return find_folded(x, folded, n);
}

/* Length of a SID that begins here; 0: none does. */
static size_t sid_length(const char *text, size_t n) {
    if (n < 9 || ea_ascii_lower(text[0]) != 's' || text[1] != '-' || text[2] != '1' || text[3] != '-')
        return 0;
    size_t i = 4;
    while (i < n && ((text[i] >= '0' && text[i] <= '9') || text[i] == '-'))
        i++;
    while (text[i - 1] == '-')
        i--;
    return i;
}

static size_t ipv4_length(const char *text, size_t n, uint8_t *ret) {
    size_t i = 0;
    for (int part = 0; part < 4; part++) {
        unsigned value = 0, digits = 0;
        for (; i < n && digits < 4 && text[i] >= '0' && text[i] <= '9'; i++, digits++)
            value = 10 * value + (unsigned)(text[i] - '0');
        if (!digits || digits > 3 || value > 255 || (part < 3 && (i >= n || text[i++] != '.')))
            return 0;
        ret[part] = (uint8_t)value;
    }
    return i < n && (redact_is_letter(text[i]) || (text[i] == '.' && i + 1 < n && redact_is_letter(text[i + 1]))) ? 0
                                                                                                                  : i;
}

/* Hexadecimal groups and at least two colons. The last groups may be an IPv4 address: *ret_ipv4 is where it begins; 0:
 * there is none. */
static size_t ipv6_length(const char *text, size_t n, size_t *ret_ipv4) {
    size_t i = 0, colons = 0, digits = 0, longest = 0, group = 0, letters = 0;
    uint8_t address[4];
    for (; i < n && (text[i] == ':' || (text[i] >= '0' && text[i] <= '9') ||
                     (ea_ascii_lower(text[i]) >= 'a' && ea_ascii_lower(text[i]) <= 'f'));
         i++) {
        colons += text[i] == ':';
        digits = text[i] == ':' ? 0 : digits + 1;
        longest = digits > longest ? digits : longest;
        group = text[i] == ':' ? i + 1 : group;
        letters += ea_ascii_lower(text[i]) >= 'a';
    }
    size_t ipv4 =
        colons >= 2 && colons <= 7 && i < n && text[i] == '.' ? ipv4_length(text + group, n - group, address) : 0;
    *ret_ipv4 = ipv4 ? group : 0;
    if (ipv4)
        return group + ipv4;
    int is_time = colons == 2 && longest <= 2 && !letters; /* 12:34:56 */
    return colons >= 2 && colons <= 7 && longest && longest <= 4 && !is_time && (i == n || !redact_is_letter(text[i]))
               ? i
               : 0;
}

static size_t url_length(const char *text, size_t n) {
    size_t i = scheme_length(text, n);
    if (!i)
        return 0;
    while (i < n && (unsigned char)text[i] > ' ' && !strchr("\"'<>", text[i]))
        i++;
    return i;
}

/* A path's blanks belong to it: rather too much is replaced than too little. */
static size_t path_length(const char *text, size_t n) {
    int is_drive = n >= 3 && ea_ascii_lower(text[0]) >= 'a' && ea_ascii_lower(text[0]) <= 'z' && text[1] == ':' &&
                   is_separator(text[2]);
    int is_rooted = n >= 3 && text[0] == '\\' && (text[1] == '\\' || text[1] == '?' || redact_is_letter(text[1]));
    size_t i = 0;
    if (!is_drive && !is_rooted)
        return 0;
    while (i < n && (unsigned char)text[i] >= ' ' && !strchr("\"<>|*\r\n\t", text[i]))
        i++;
    return i;
}

/* The end of a word that begins here, dots and hyphens inside it included. */
static size_t word_length(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && redact_is_letter(text[i]))
        i++;
    return i;
}

/* The address that begins here, of so many characters. */
static void put_ipv6_text(ea_redact *x, const char *text, size_t n, size_t ipv4, ea_text *out) {
    static const char MAPPED[] = "::ffff:";
    uint8_t address[4], d[DIGEST_BYTES];
    if (ipv4 && same_word(text, ipv4, MAPPED) && ipv4_length(text + ipv4, n - ipv4, address)) {
        change_address(x, address, 4);
        ea_text_printf(out, "%s%u.%u.%u.%u", MAPPED, address[0], address[1], address[2], address[3]);
        return;
    }
    digest(x, '6', text, n, d);
    ea_text_printf(out, "fd%02x:%x:%x:%x::%x", d[0], ea_load16(d + 2), ea_load16(d + 4), ea_load16(d + 6),
                   ea_load16(d + 8));
    x->counts.values[EA_REDACT_ADDRESS]++;
}

/* Of a text of WORD_LEAST bytes at least. */
static uint64_t odd_key(const char *text, size_t n) {
    char folded[2 * WORD_LEAST]; /* with the rest of the letter that the last byte begins */
    n = n < sizeof folded ? n : sizeof folded;
    ea_fold_letters(text, n, folded);
    return (uint64_t)(uint8_t)folded[0] << 16 | (uint64_t)(uint8_t)folded[1] << 8 | (uint8_t)folded[2];
}

/* The longest word that has blanks, dots or hyphens in it and begins here; NULL: none. One look-up a length, however
 * many words begin like that: a network's machines do. */
static const word *find_odd_word(const ea_redact *x, const char *text, size_t n) {
    char folded[WORD_MAX];
    if (n < WORD_LEAST || !ea_u64_map_get(&x->odd, odd_key(text, n)))
        return NULL;
    n = n < x->odd_longest ? n : x->odd_longest;
    ea_fold_letters(text, n, folded); /* a word ends with a letter, so what is folded of one that goes on is none */
    for (; n >= WORD_LEAST; n--) {
        const word *w = x->odd_lengths[n] ? find_folded(x, folded, n) : NULL;
        if (w && w->is_odd)
            return w;
    }
    return NULL;
}

/* A word, or what stands for it. Returns its length; a SID may begin with the last character of a word, and is not part
 * of it. */
static size_t put_word(ea_redact *x, const char *text, size_t n, ea_text *out) {
    const word *w = find_odd_word(x, text, n);
    size_t len = w ? w->len_bytes : word_length(text, n);
    if (!w && len)
        w = find_word(x, text, len);
    if (w) {
        put_token(x, 'w', text, len, out);
        x->counts.values[w->kind]++;
        return len;
    }
    if (len > 1 && sid_length(text + len - 1, n - len + 1))
        len--;
    len = len ? len : 1;
    ea_text_add(out, text, len);
    return len;
}

/* "Version=4.0.0.0" of an assembly looks like an address. */
static int follows_version(const char *text, size_t i) {
    static const char VERSION[] = "version=";
    size_t n = sizeof VERSION - 1;
    return i >= n && same_word(text + i - n, n, VERSION);
}

/* What looks like a value of a chosen kind, in a text of no kind. */
static void put_scanned(ea_redact *x, const char *text, size_t n, ea_text *out) {
    for (size_t i = 0; i < n && !x->rc;) {
        const char *at = text + i;
        size_t left = n - i, len = 0, ipv4 = 0;
        uint8_t address[16];
        int begins = i == 0 || !redact_is_letter(text[i - 1]);
        if (chosen(x, EA_REDACT_SID) && (len = sid_length(at, left)) && is_personal_sid(at, len)) {
            put_sid_text(x, at, len, out);
        } else if (begins && chosen(x, EA_REDACT_URL) && (len = url_length(at, left))) {
            put_url(x, at, len, out);
        } else if (begins && (chosen(x, EA_REDACT_PATH) || chosen(x, EA_REDACT_REGISTRY)) &&
                   (len = path_length(at, left))) {
            redact_put_path(x, at, len, chosen(x, EA_REDACT_PATH) ? EA_REDACT_PATH : EA_REDACT_REGISTRY, out);
        } else if (begins && chosen(x, EA_REDACT_ADDRESS) && !follows_version(text, i) &&
                   (len = ipv4_length(at, left, address))) {
            change_address(x, address, 4);
            ea_text_printf(out, "%u.%u.%u.%u", address[0], address[1], address[2], address[3]);
        } else if (begins && chosen(x, EA_REDACT_ADDRESS) && (len = ipv6_length(at, left, &ipv4))) {
            put_ipv6_text(x, at, len, ipv4, out);
        } else if (begins) {
            len = put_word(x, at, left, out);
        } else {
            len = 1;
            ea_text_add(out, at, len);
        }
        i += len;
    }
}

/* Words that have blanks, dots or hyphens in them, wherever they are. */
static void replace_odd_words(ea_redact *x, ea_text *text) {
    size_t done = 0;
    ea_text_clear(&x->other);
    for (size_t i = 0; x->odd.count && i < text->len_bytes && !x->rc;) {
        const word *w = find_odd_word(x, text->data + i, text->len_bytes - i);
        if (!w) {
            i++;
            continue;
        }
        ea_text_add(&x->other, text->data + done, i - done);
        put_token(x, 'w', w->text, w->len_bytes, &x->other);
        x->counts.values[w->kind]++;
        i += w->len_bytes;
        done = i;
    }
    if (!done)
        return;
    ea_text_add(&x->other, text->data + done, text->len_bytes - done);
    ea_text swap = *text;
    *text = x->other;
    x->other = swap;
}

/* A text of this kind (-1: none) as it is to be written: x->scratch. */
static void redact_field_text(ea_redact *x, int kind, const char *text, size_t n) {
    ea_text_clear(&x->scratch);
    if (n && kind >= 0 && chosen(x, kind))
        put_whole(x, kind, text, n, &x->scratch);
    else if (n)
        put_scanned(x, text, n, &x->scratch);
    replace_odd_words(x, &x->scratch);
    if (x->scratch.failed || x->other.failed)
        x->rc = EA_ENOMEM;
}

int ea_redact_text(ea_redact *x, int kind, const char *text, ea_text *out, ea_err *err) {
    ea_arena_reset(&x->arena);
    x->rc = 0;
    redact_field_text(x, kind, text, strlen(text));
    ea_text_add(out, x->scratch.data, x->scratch.len_bytes);
    return x->rc || out->failed ? ea_fail(err, x->rc ? x->rc : EA_ENOMEM, "redact") : 0;
}

/* ---- the first pass ---- */

static const char *const NO_NAMES[] = {"system",    "local service", "network service", "anonymous logon",
                                       "workgroup", "nt authority",  "localhost",       "administrator",
                                       "guest",     "builtin",       "public",          "default",
                                       "all users", "default user",  "microsoft",       "windows"};

static int redact_add_word(ea_redact *x, int kind, const char *text, size_t n, ea_err *err) {
    size_t digits = 0;
    while (n && (text[n - 1] == '$' || text[n - 1] == ' ')) /* a machine's account */
        n--;
    while (digits < n && ((text[digits] >= '0' && text[digits] <= '9') || text[digits] == '.' || text[digits] == ':'))
        digits++;
    if (n < WORD_LEAST || n > WORD_MAX || digits == n || find_word(x, text, n))
        return 0;
    for (size_t i = 0; i < sizeof NO_NAMES / sizeof *NO_NAMES; i++)
        if (same_word(text, n, NO_NAMES[i]))
            return 0;
    if (x->word_count >= WORDS_MAX)
        return ea_fail(err, EA_ELIMIT, "redact: more than %d names of users and machines", WORDS_MAX);
    char *folded = malloc(n + 1);
    if (!folded || EA_GROW(x->words, x->word_capacity, x->word_count + 1, SIZE_MAX)) {
        free(folded);
        return ea_fail(err, EA_ENOMEM, "redact");
    }
    ea_fold_letters(text, n, folded);
    folded[n] = 0;
    word *w = &x->words[x->word_count++];
    *w = (word){.text = folded, .len_bytes = (uint8_t)n, .kind = (uint8_t)kind};
    w->is_odd = word_length(folded, n) < n;
    if (w->is_odd) {
        x->odd_lengths[n] = 1;
        x->odd_longest = n > x->odd_longest ? n : x->odd_longest;
    }
    if ((w->is_odd && ea_u64_map_put(&x->odd, odd_key(folded, n), 1)) ||
        ea_u64_map_put(&x->by_hash, ea_hash64(folded, n, 0), x->word_count))
        return ea_fail(err, EA_ENOMEM, "redact");
    return 0;
}

/* A name, or DOMAIN\NAME, or NAME@DOMAIN. */
static int redact_add_names(ea_redact *x, int kind, const char *text, size_t n, ea_err *err) {
    size_t begin = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i <= n; i++)
        if (i == n || text[i] == '\\' || text[i] == '@') {
            rc = redact_add_word(x, kind, text + begin, i - begin, err);
            begin = i + 1;
        }
    return rc;
}

/* The folders of users in a path. */
static int add_profile_names(ea_redact *x, const char *text, size_t n, ea_err *err) {
    static const char USERS[] = "users";
    const size_t len = sizeof USERS + 1; /* with the separators around it */
    int rc = 0;
    for (size_t i = 0; !rc && i + len < n; i++) {
        if (!is_separator(text[i]) || !is_separator(text[i + len - 1]) || !same_word(text + i + 1, len - 2, USERS))
            continue;
        size_t end = i + len;
        while (end < n && !is_separator(text[end]) && text[end] != '"')
            end++;
        rc = redact_add_word(x, EA_REDACT_USER, text + i + len, end - i - len, err);
    }
    return rc;
}

/* A list is an array of its field's elements, unless it is one of them: a structure's members, or the parts of a SID.
 */
static int is_array(const ea_field *f, int is_element) {
    return !is_element && (f->count != 1 || f->count_field >= 0);
}

static int learn_value(ea_redact *x, const ea_class *c, size_t field, const ea_event_value *v, int is_element,
                       ea_err *err) {
    const ea_field *f = &c->fields[field];
    int rc = 0;
    if (v->kind == EA_VALUE_LIST) {
        size_t at = field + 1;
        int members = f->type == EA_STRUCT && !is_array(f, is_element);
        for (size_t i = 0; !rc && i < v->count && f->type != EA_WBEM_SID; i++) {
            rc = learn_value(x, c, members ? at : field, &v->items[i], !members, err);
            at += members ? c->fields[at].span : 0;
        }
        return rc;
    }
    if (v->kind != EA_VALUE_TEXT || !v->count)
        return 0;
    int kind = redact_kind_of(f);
    if ((kind == EA_REDACT_USER || kind == EA_REDACT_HOST) && chosen(x, kind))
        rc = redact_add_names(x, kind, v->data, v->count, err);
    return !rc && chosen(x, EA_REDACT_USER) ? add_profile_names(x, v->data, v->count, err) : rc;
}

static int read_values(ea_redact *x, const ea_record *r, const ea_class *c, const ea_event_value **ret, size_t *count,
                       size_t *used, ea_err *err) {
    ea_arena_reset(&x->arena);
    x->rc = 0;
    return ea_event_read_values(c, r->payload, r->payload_bytes, &x->arena, ret, count, used, err);
}

int ea_redact_learn(ea_redact *x, const ea_record *r, const ea_class *c, ea_err *err) {
    const ea_event_value *values;
    size_t count, used;
    if (!(x->options.kinds & (1u << EA_REDACT_USER | 1u << EA_REDACT_HOST)) || !c->field_count)
        return 0;
    int rc = read_values(x, r, c, &values, &count, &used, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = learn_value(x, c, ea_class_top_field(c, i), &values[i], 0, err);
    return rc;
}

/* ---- the second pass ---- */

/* In place: the numbers after the first one. The text has the same pseudonym: see put_sid_text. */
static void change_sid(ea_redact *x, uint8_t *sid, size_t len_bytes) {
    uint8_t domain[DIGEST_BYTES];
    ea_text_clear(&x->scratch);
    int is_sid = ea_text_sid(&x->scratch, sid, len_bytes);
    size_t known = is_sid ? SID_HEAD + (size_t)4 * sid[1] : 2; /* the count, by which a reader finds the end, stays */
    if (len_bytes > known)
        memset(sid + known, 0, len_bytes - known);
    if (!is_sid || !is_personal_sid(x->scratch.data, x->scratch.len_bytes))
        return;
    uint32_t account = sid_account(x, x->scratch.data, x->scratch.len_bytes, domain);
    for (unsigned i = 1; i < sid[1]; i++)
        ea_store32(sid + SID_HEAD + (size_t)4 * i,
                   i + 1 == sid[1] ? account : ea_load32(domain + (size_t)4 * ((i - 1) % 8)));
    x->counts.values[EA_REDACT_SID]++;
}

static void change_socket_address(ea_redact *x, uint8_t *a, size_t len_bytes) {
    enum { FAMILY = 2, IPV4_END = 8, IPV6_END = 28 }; /* the scope's number comes after the address */

    unsigned family = len_bytes >= FAMILY ? ea_load16(a) : 0;
    size_t known = FAMILY;
    if (family == FAMILY_IPV4 && len_bytes >= IPV4_END) {
        change_address(x, a + 4, 4);
        known = IPV4_END;
    } else if (family == FAMILY_IPV6 && len_bytes >= 24) {
        change_address(x, a + 8, 16);
        known = IPV6_END;
    }
    if (len_bytes > known) /* another family, or bytes beside the address */
        memset(a + known, 0, len_bytes - known);
}

/* How many characters a text of fixed length holds; SIZE_MAX: any number. */
static size_t room_of(const ea_field *f) {
    int is_fixed = f->type == EA_UTF16_FIXED || f->type == EA_ANSI_FIXED || f->type == EA_UTF8_FIXED ||
                   f->type == EA_CHAR8 || f->type == EA_CHAR16;
    if (!is_fixed)
        return SIZE_MAX;
    if (f->count_field >= 0)
        return 0; /* its length is another field: it keeps it */
    return f->count == EA_COUNT_REST ? SIZE_MAX : f->count;
}

static void change_text(ea_redact *x, const ea_field *f, const ea_event_value *v, ea_event_value *out) {
    redact_field_text(x, redact_kind_of(f), v->data, v->count);
    size_t n = x->scratch.len_bytes, room = room_of(f);
    if (n == v->count && (!n || memcmp(x->scratch.data, v->data, n) == 0))
        return;
    if (room == 0) {
        size_t characters = 0; /* of text beyond ASCII fewer than bytes */
        for (size_t i = 0; i < v->count; i++)
            characters += (((const char *)v->data)[i] & 0xC0) != 0x80;
        char *hidden = ea_arena_alloc(&x->arena, characters + 1);
        if (hidden)
            memset(hidden, '*', characters);
        *out = (ea_event_value){.kind = EA_VALUE_TEXT, .data = hidden, .count = hidden ? characters : 0};
        x->rc = hidden ? x->rc : EA_ENOMEM;
        return;
    }
    if (n > room - (room != SIZE_MAX && room))
        n = room - 1;
    *out = (ea_event_value){
        .kind = EA_VALUE_TEXT, .data = ea_arena_copy(&x->arena, x->scratch.data ? x->scratch.data : "", n), .count = n};
    x->rc = out->data ? x->rc : EA_ENOMEM;
}

static int is_any_text(uint8_t type) {
    return (type >= EA_UTF16Z && type <= EA_UTF16_REST) || (type >= EA_UTF16_FIXED && type <= EA_UTF8_FIXED) ||
           type == EA_CHAR8 || type == EA_CHAR16;
}

static void change_bytes(ea_redact *x, const ea_class *c, const ea_field *f, const ea_event_value *v,
                         ea_event_value *out) {
    int kind = redact_kind_of(f);
    int is_address = f->type == EA_IPV4 || f->type == EA_IPV6 || kind == EA_REDACT_ADDRESS;
    int is_blob = f->type == EA_BYTES && !c->classic && f->semantic == EA_SEM_NONE;
    int is_odd_text = is_any_text(f->type); /* text that text cannot represent */
    int is_sid = f->type == EA_SID || (f->type == EA_BYTES && kind == EA_REDACT_SID);
    if (!v->count || !((is_address && chosen(x, EA_REDACT_ADDRESS)) || (is_sid && chosen(x, EA_REDACT_SID)) ||
                       is_blob || is_odd_text))
        return;
    uint8_t *copy = ea_arena_copy(&x->arena, v->data, v->count);
    if (!copy) {
        x->rc = EA_ENOMEM;
        return;
    }
    out->data = copy;
    if (is_sid)
        change_sid(x, copy, v->count);
    else if (f->semantic == EA_SEM_SOCKET_ADDRESS)
        change_socket_address(x, copy, v->count);
    else if (is_address && (v->count == 4 || v->count == 16))
        change_address(x, copy, v->count);
    else if (is_odd_text && (f->type == EA_UTF16_COUNTED || f->type == EA_ANSI_COUNTED || f->type == EA_UTF8_COUNTED))
        memset(copy + 2, 0, v->count > 2 ? v->count - 2 : 0);
    else if (!is_odd_text || f->type == EA_UTF16_FIXED || f->type == EA_ANSI_FIXED || f->type == EA_UTF8_FIXED)
        memset(copy, 0, v->count);
    else
        for (size_t i = 0; i < v->count; i++) /* what ends it stays */
            copy[i] = copy[i] ? '*' : 0;
}

static ea_event_value change_value(ea_redact *x, const ea_class *c, size_t field, const ea_event_value *v,
                                   int is_element) {
    const ea_field *f = &c->fields[field];
    ea_event_value out = *v;
    if (v->kind == EA_VALUE_TEXT)
        change_text(x, f, v, &out);
    else if (v->kind == EA_VALUE_BYTES)
        change_bytes(x, c, f, v, &out);
    if (v->kind != EA_VALUE_LIST || !v->count)
        return out;
    ea_event_value *items = ea_arena_copy(&x->arena, v->items, v->count * sizeof *items);
    if (!items) {
        x->rc = EA_ENOMEM;
        return out;
    }
    out.items = items;
    int has_elements = is_array(f, is_element), members = f->type == EA_STRUCT && !has_elements;
    if (f->type == EA_WBEM_SID && !has_elements) {
        uint8_t *copy = chosen(x, EA_REDACT_SID) ? ea_arena_copy(&x->arena, items[2].data, items[2].count) : NULL;
        if (copy) {
            items[2].data = copy;
            change_sid(x, copy, items[2].count);
        } else if (chosen(x, EA_REDACT_SID)) {
            x->rc = EA_ENOMEM;
        }
        return out;
    }
    size_t at = field + 1;
    int is_blob = (f->type == EA_U8 || f->type == EA_I8 || f->type == EA_HEX8) && !c->classic;
    for (size_t i = 0; i < v->count; i++) {
        if (is_blob)
            items[i].number = 0;
        else
            items[i] = change_value(x, c, members ? at : field, &v->items[i], !members);
        at += members ? c->fields[at].span : 0;
    }
    return out;
}

/* The item may hold a text of no known layout; that of other types are numbers, GUIDs, stacks and schemas. */
static int is_unknown_item(unsigned type) {
    return type == EA_EXT_PSM_KEY || (type > EA_EXT_STACK_KEY64 && type < EA_EXT_WPP_SEQUENCE);
}

static void change_items(ea_redact *x, const ea_record *r, ea_record *ret) {
    ret->ext = x->items;
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *item = &r->ext[i];
        int is_sid = item->type == EA_EXT_SID && chosen(x, EA_REDACT_SID);
        x->items[i] = *item;
        if ((!is_sid && !is_unknown_item(item->type)) || !item->size_bytes)
            continue;
        uint8_t *copy = ea_arena_copy(&x->arena, item->data, item->size_bytes);
        x->items[i].data = copy;
        if (!copy)
            x->rc = EA_ENOMEM;
        else if (is_sid)
            change_sid(x, copy, item->size_bytes);
        else
            memset(copy, 0, item->size_bytes);
    }
}

/* What a reader needs to read other events: a piece of a manifest, or the information of an event or a map. */
static int is_schema(const ea_record *r) {
    enum { ENVELOPE_BYTES = 8, FORMAT = 1, MAGIC_AT = 3, MAGIC = 0x5B };

    if (!ea_trace_schemas_concerns(r))
        return 0;
    if (r->flags & EA_FLAG_CLASSIC_HEADER)
        return ea_guid_equal(&r->provider, &METADATA);
    return !(r->flags & EA_FLAG_TRACE_MESSAGE) && r->payload_bytes >= ENVELOPE_BYTES && r->payload[0] == FORMAT &&
           r->payload[MAGIC_AT] == MAGIC;
}

/* The bytes after the last known field: 1, or 0 to drop the record. */
static int hide_rest(ea_redact *x, const ea_record *r, size_t used, size_t written, ea_record *ret) {
    size_t rest = r->payload_bytes - used;
    ret->payload = x->payload;
    ret->payload_bytes = (uint16_t)written;
    if (!rest)
        return 1;
    if (x->options.unknown == EA_REDACT_DROP) {
        x->counts.dropped++;
        return 0;
    }
    if (rest > PAYLOAD_MAX - written) {
        x->counts.dropped++;
        x->counts.too_long++;
        return 0;
    }
    memset(x->payload + written, 0, rest);
    ret->payload_bytes = (uint16_t)(written + rest);
    x->counts.zeroed++;
    return 1;
}

int ea_redact_apply(ea_redact *x, const ea_record *r, const ea_class *c, ea_record *ret, ea_err *err) {
    const ea_event_value *values;
    size_t count, used, written = 0;
    *ret = *r;
    if (is_schema(r)) {
        ea_arena_reset(&x->arena);
        x->rc = 0;
        change_items(x, r, ret);
        return x->rc ? ea_fail(err, x->rc, "redact") : 1;
    }
    int rc = read_values(x, r, c, &values, &count, &used, err);
    if (rc)
        return rc;
    change_items(x, r, ret);
    if (c->status == EA_CLASS_UNKNOWN || (!count && used == 0))
        return x->rc ? ea_fail(err, x->rc, "redact") : hide_rest(x, r, 0, 0, ret);
    ea_event_value *changed = ea_arena_zalloc(&x->arena, count + 1, sizeof *changed);
    if (!changed)
        return ea_fail(err, EA_ENOMEM, "redact");
    for (size_t i = 0; i < count; i++)
        changed[i] = change_value(x, c, ea_class_top_field(c, i), &values[i], 0);
    if (x->rc)
        return ea_fail(err, x->rc, "redact");
    rc = ea_event_write_values(c, changed, count, x->payload, sizeof x->payload, &written, err);
    if (rc == EA_ELIMIT || rc == EA_EINVAL) { /* it has no room, or its schema contradicts itself */
        x->counts.dropped++;
        x->counts.too_long++;
        return 0;
    }
    return rc ? rc : hide_rest(x, r, used, written, ret);
}
