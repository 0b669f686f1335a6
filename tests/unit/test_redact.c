/* proto/relog/redact.h: what a text of no kind loses, what stays; keys; SIDs in items and texts have one pseudonym;
 * bytes without a known layout are zeroed or dropped. */
#include "proto/base/bytes.h"
#include "proto/base/fold_letters.h"
#include "proto/relog/redact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t KEY[32] = {1, 2, 3}, OTHER_KEY[32] = {3, 2, 1};

enum { ALL = EA_REDACT_ALL };

static ea_redact *make(const uint8_t *key, unsigned kinds, enum ea_redact_unknown unknown) {
    const ea_redact_options options = {.kinds = kinds, .key = key, .key_bytes = sizeof KEY, .unknown = unknown};
    ea_redact *x;
    ea_err err;
    assert_int_equal(ea_redact_create(&x, &options, &err), 0);
    return x;
}

/* The caller's to free. */
static char *redacted(ea_redact *x, const char *text) {
    ea_text t;
    ea_err err;
    ea_text_init(&t);
    assert_int_equal(ea_redact_text(x, -1, text, &t, &err), 0);
    return t.data ? t.data : strdup("");
}

static void check(ea_redact *x, const char *text, const char *begins, const char *gone) {
    char *got = redacted(x, text);
    if (strncmp(got, begins, strlen(begins)) != 0 || (*gone && strstr(got, gone)))
        fail_msg("%s became %s", text, got);
    free(got);
}

static void texts(void **state) {
    (void)state;
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO), *paths = make(KEY, 1 << EA_REDACT_PATH, EA_REDACT_ZERO);
    check(x, "open C:\\Users\\ann\\plan.doc", "open C:\\Users\\x", "plan");
    check(x, "\\Device\\HarddiskVolume3\\Windows\\System32\\ours.dll",
          "\\Device\\HarddiskVolume3\\Windows\\System32\\x", "ours");
    check(x, "from 192.168.7.9 to 127.0.0.1", "from 10.", "192.168");
    check(x, "at 12:34:56", "at 12:34:56", "");
    check(x, "to fe80::1:2ab", "to fd", "2ab");
    check(x, "get https://intern.example/a?b=c now", "get https://x", "intern");
    check(x, "S-1-5-18 and S-1-5-21-11-22-33-1001", "S-1-5-18 and S-1-5-21-", "-11-22-33-");
    check(x, "version 300.1.2.3", "version 300.1.2.3", "");
    check(x, "Ours, Version=4.0.0.1, Culture=neutral", "Ours, Version=4.0.0.1, C", "");
    check(x, "Version 4.0.0.1 of 4.0.0.2", "Version 10.", "4.0.0.2");
    check(x, "answer ::ffff:93.184.216.34;", "answer ::ffff:10.", ".184.216.34");
    check(x, "own ::ffff:127.0.0.1 and ::1", "own ::ffff:127.0.0.1 and ::1", "");
    check(x, "at fe80::5efe:192.168.7.9 now", "at fd", ".168.7.9");
    check(x, "UpdateTaskUserS-1-5-21-11-22-33-1001Core", "UpdateTaskUserS-1-5-21-", "-11-22-33-");
    check(x, "by S-1-11-96-11-22-33-44-55", "by S-1-5-21-", "-11-22-33-");
    check(x, "PathS-1-5-18", "PathS-1-5-18", "");
    check(x, "from s3://bucket/key", "from s3://x", "bucket");
    check(x, "", "", "");
    char *upper = redacted(x, "192.168.1.70"), *lower = redacted(x, "192.168.1.102"); /* F and f, were they letters */
    assert_string_not_equal(upper, lower);
    free(upper);
    free(lower);
    check(paths, "192.168.7.9 C:\\secret", "192.168.7.9 C:\\x", "secret");
    ea_redact_destroy(x);
    ea_redact_destroy(paths);
}

static void pseudonyms_follow_the_key(void **state) {
    (void)state;
    ea_redact *a = make(KEY, ALL, EA_REDACT_ZERO), *b = make(KEY, ALL, EA_REDACT_ZERO),
              *c = make(OTHER_KEY, ALL, EA_REDACT_ZERO);
    char *one = redacted(a, "D:\\Plans\\Merger.exe"), *two = redacted(b, "D:\\PLANS\\merger.exe"),
         *three = redacted(c, "D:\\Plans\\Merger.exe");
    assert_string_equal(one, two);
    assert_string_not_equal(one, three);
    assert_string_equal(one + strlen(one) - 4, ".exe");
    free(one);
    free(two);
    free(three);
    ea_redact_destroy(a);
    ea_redact_destroy(b);
    ea_redact_destroy(c);
    ea_err err;
    assert_int_equal(ea_redact_create(&a, &(ea_redact_options){.kinds = ALL, .key = KEY, .key_bytes = 15}, &err),
                     EA_EINVAL);
}

static void items_and_unknown_payloads(void **state) {
    (void)state;
    uint8_t sid[28] = {1, 5, 0, 0, 0, 0, 0, 5}, payload[5] = "name";
    const uint32_t parts[] = {21, 11, 22, 33, 1001};
    for (size_t i = 0; i < 5; i++)
        ea_store32(sid + 8 + 4 * i, parts[i]);
    const ea_ext item = {.type = EA_EXT_SID, .size_bytes = sizeof sid, .data = sid};
    const ea_record r = {.provider = {{9, 9}},
                         .id = 77,
                         .pointer_size = 8,
                         .flags = EA_FLAG_EXTENDED_INFO,
                         .ext = &item,
                         .ext_count = 1,
                         .payload = payload,
                         .payload_bytes = sizeof payload};
    ea_registry *registry;
    ea_record got;
    ea_err err;
    assert_int_equal(ea_registry_create(&registry, 0, &err), 0);
    const ea_class *c = ea_registry_find(registry, &r);
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO), *drops = make(KEY, ALL, EA_REDACT_DROP);
    assert_int_equal(ea_redact_learn(x, &r, c, &err), 0);
    assert_int_equal(ea_redact_apply(x, &r, c, &got, &err), 1);
    assert_int_equal(got.payload_bytes, sizeof payload);
    assert_memory_equal(got.payload, "\0\0\0\0\0", sizeof payload);
    assert_int_equal(ea_redact_count(x)->zeroed, 1);
    assert_memory_equal(got.ext[0].data, sid, 12); /* revision, authority, 21 */
    assert_memory_not_equal(got.ext[0].data + 12, sid + 12, 4);
    char text[96], *same = redacted(x, "S-1-5-21-11-22-33-1001");
    const uint8_t *p = got.ext[0].data;
    snprintf(text, sizeof text, "S-1-5-21-%u-%u-%u-%u", (unsigned)ea_load32(p + 12), (unsigned)ea_load32(p + 16),
             (unsigned)ea_load32(p + 20), (unsigned)ea_load32(p + 24));
    assert_string_equal(same, text);
    free(same);
    assert_int_equal(ea_redact_apply(drops, &r, c, &got, &err), 0);
    assert_int_equal(ea_redact_count(drops)->dropped, 1);
    ea_redact_destroy(x);
    ea_redact_destroy(drops);
    ea_registry_destroy(registry);
}

/* ---- events of classes made up here ---- */

static ea_field field(const char *name, uint8_t type) {
    return (ea_field){.name = name,
                      .type = type,
                      .width = type == EA_U8 || type == EA_BYTES ? 1
                               : type == EA_IPV4                 ? 4
                               : type == EA_CHAR16               ? 2
                                                                 : 0,
                      .count = 1,
                      .count_field = -1,
                      .offset = EA_OFFSET_NONE,
                      .span = 1};
}

static ea_class class_of(const ea_field *fields, size_t count, size_t top_count) {
    return (ea_class){.name = "Made/Up",
                      .provider_name = "",
                      .pointer_size = 8,
                      .field_count = (uint16_t)count,
                      .top_count = (uint16_t)top_count,
                      .required_count = (uint16_t)top_count,
                      .fields = fields};
}

static ea_record record_of(const void *payload, size_t payload_bytes) {
    return (ea_record){.id = 77, .pointer_size = 8, .payload = payload, .payload_bytes = (uint16_t)payload_bytes};
}

/* The payload without what is private in it, of the same length. */
static const uint8_t *apply(ea_redact *x, const ea_class *c, const void *payload, size_t payload_bytes) {
    ea_record r = record_of(payload, payload_bytes), got;
    ea_err err;
    assert_int_equal(ea_redact_apply(x, &r, c, &got, &err), 1);
    assert_int_equal(got.payload_bytes, payload_bytes);
    return got.payload;
}

/* What an image's file says of itself names it once more beside its hidden name. */
static void names_of_images(void **state) {
    (void)state;
    static const char *const FIELDS[] = {"OrigFileName", "FileDescription", "ProductName", "CompanyName"};
    static const char OURS[] = "Contoso.Plan.dll\0Contoso Plan\0Contoso Planner\0Contoso";
    ea_field fields[sizeof FIELDS / sizeof *FIELDS];
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
        fields[i] = field(FIELDS[i], EA_UTF8Z);
    const ea_class c = class_of(fields, sizeof FIELDS / sizeof *FIELDS, sizeof FIELDS / sizeof *FIELDS);
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO);
    ea_record r = record_of(OURS, sizeof OURS), got;
    ea_err err;
    assert_int_equal(ea_redact_apply(x, &r, &c, &got, &err), 1);
    for (size_t i = 0; i + 4 <= got.payload_bytes; i++)
        assert_true(memcmp(got.payload + i, "onto", 4) != 0 && memcmp(got.payload + i, "Plan", 4) != 0);
    assert_true(got.payload_bytes > sizeof FIELDS / sizeof *FIELDS);
    ea_redact_destroy(x);
}

/* Of a name that contains another one, nothing is left, whatever came first. */
static void names_in_names(void **state) {
    (void)state;
    const ea_field fields[] = {field("HostName", EA_UTF8Z)}, paths[] = {field("Text", EA_UTF8Z)};
    const ea_class hosts = class_of(fields, 1, 1), texts_class = class_of(paths, 1, 1);
    static const char *const NAMES[] = {"corp.example", "PC.corp.example", "pc"};
    ea_redact *x = make(KEY, 1 << EA_REDACT_HOST | 1 << EA_REDACT_USER, EA_REDACT_ZERO);
    ea_err err;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const ea_record r = record_of(NAMES[i], strlen(NAMES[i]) + 1);
        assert_int_equal(ea_redact_learn(x, &r, &hosts, &err), 0);
    }
    static const char PROFILE[] = "c:/users/ann.lee/plan";
    const ea_record r = record_of(PROFILE, sizeof PROFILE);
    assert_int_equal(ea_redact_learn(x, &r, &texts_class, &err), 0);
    check(x, "to pc.corp.example now", "to x", "pc.");
    check(x, "of (Ann.Lee)", "of (x", "Lee");
    char *a = redacted(x, "to pc.CORP.example now"), *b = redacted(x, "to pc.corp.example now");
    assert_string_equal(a, b);
    assert_string_equal(a + strlen(a) - 4, " now");
    free(a);
    free(b);
    ea_redact_destroy(x);
}

/* Of tens of thousands of names that begin alike the right one is found, in a time that their number does not multiply:
 * without that this test takes minutes. */
static void many_names_that_begin_alike(void **state) {
    (void)state;

    enum { NAMES = 60000, TEXT = 60000 };

    const ea_field fields[] = {field("HostName", EA_UTF8Z)};
    const ea_class hosts = class_of(fields, 1, 1);
    ea_redact *x = make(KEY, 1 << EA_REDACT_HOST, EA_REDACT_ZERO);
    char name[32];
    ea_err err;
    for (int i = 0; i < NAMES; i++) {
        const ea_record r = record_of(name, (size_t)snprintf(name, sizeof name, "DESKTOP-%05d", i) + 1);
        assert_int_equal(ea_redact_learn(x, &r, &hosts, &err), 0);
    }
    check(x, "to desktop-00007 now", "to x", "00007");
    check(x, "to Desktop-59999", "to x", "59999");
    check(x, "on the desktop-0000 and desktop", "on the desktop-0000 and desktop", "");
    char *text = malloc(TEXT + 1);
    assert_non_null(text);
    for (size_t i = 0; i < TEXT; i++)
        text[i] = "des "[i % 4];
    text[TEXT] = 0;
    check(x, text, text, "");
    free(text);
    ea_redact_destroy(x);
}

/* Letters of either case are one, beyond ASCII too, where they take as many bytes; invalid UTF-8 stays. */
static void letters_of_either_case(void **state) {
    (void)state;

    static const struct {
        const char *text, *folded;
    } LETTERS[] = {
        {"J\u00d6RG \u00c5 \u0178", "j\u00f6rg \u00e5 \u00ff"},
        {"\u03a3\u03c2 \u039f\u038f", "\u03c3\u03c3 \u03bf\u03ce"},
        {"\u0416\u042f\u0401 \u0490", "\u0436\u044f\u0451 \u0491"},
        {"\uff21\u1e9e\u0130", "\uff41\u1e9e\u0130"},
        {"\u0131\u0139\u0148\u00d7", "\u0131\u013a\u0148\u00d7"},
        {"\xc3(\xc3", "\xc3(\xc3"},
        {"\xe1\xb8", "\xe1\xb8"},
        {"\U0001f600Z", "\U0001f600z"},
    };

    char out[64];
    for (size_t i = 0; i < sizeof LETTERS / sizeof *LETTERS; i++) {
        size_t n = strlen(LETTERS[i].text);
        ea_fold_letters(LETTERS[i].text, n, out);
        assert_int_equal(n, strlen(LETTERS[i].folded));
        assert_memory_equal(out, LETTERS[i].folded, n);
    }
    const ea_field fields[] = {field("UserName", EA_UTF8Z)};
    const ea_class users = class_of(fields, 1, 1);
    static const char *const NAMES[] = {"J\u00f6rg", "\u00c9ve M\u00fcller", "\u0418\u0432\u0430\u043d"};
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO);
    ea_err err;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const ea_record r = record_of(NAMES[i], strlen(NAMES[i]) + 1);
        assert_int_equal(ea_redact_learn(x, &r, &users, &err), 0);
    }
    check(x, "of J\u00d6RG now", "of x", "RG");
    check(x, "of \u00e9ve M\u00dcLLER now", "of x", "LLER");
    check(x, "of \u0418\u0412\u0410\u041d", "of x", "\u0412");
    char *a = redacted(x, "j\u00f6rg"), *b = redacted(x, "J\u00d6RG");
    assert_string_equal(a, b);
    free(a);
    free(b);
    ea_redact_destroy(x);
}

static void bytes_of_fields(void **state) {
    (void)state;
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO);
    /* an array of bytes, by whatever type; a socket's address that is a path */
    ea_field fields[] = {field("Count", EA_U8), field("Data", EA_U8), field("Peer", EA_BYTES),
                         field("Peer4", EA_BYTES)};
    fields[0].is_count = 1;
    fields[1].count_field = 0;
    fields[2].count = fields[3].count = 16;
    fields[2].semantic = fields[3].semantic = EA_SEM_SOCKET_ADDRESS;
    const ea_class c = class_of(fields, 4, 4);
    static const uint8_t PAYLOAD[] = "\x03"
                                     "bob"
                                     "\x01\0/srv/bob/asock"
                                     "\x02\0\x01\xbb\xc0\xa8\x07\x09leftover";
    const uint8_t *got = apply(x, &c, PAYLOAD, sizeof PAYLOAD - 1);
    assert_memory_equal(got, "\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\x01\xbb\x0a", 25);
    assert_memory_not_equal(got + 25, PAYLOAD + 25, 3);
    assert_memory_equal(got + 28, "\0\0\0\0\0\0\0\0", 8);
    /* a structure that begins with an array */
    ea_field members[] = {field("Ends", EA_STRUCT), field("Ports", EA_U8), field("Address", EA_IPV4)};
    members[0].child_count = 2;
    members[0].span = 3;
    members[1].count = 2;
    const ea_class ends = class_of(members, 3, 1);
    got = apply(x, &ends, "\x01\x02\xc0\xa8\x07\x09", 6);
    assert_int_equal(got[2], 10);
    assert_memory_not_equal(got + 3, "\xa8\x07\x09", 3);
    /* an address that begins with no scheme */
    const ea_field url[] = {field("Url", EA_UTF8Z)};
    const ea_class request = class_of(url, 1, 1);
    static const char URL[] = "/login?user=ann&next=https://intern.example/";
    const ea_record r = record_of(URL, sizeof URL);
    ea_record asked;
    ea_err err;
    assert_int_equal(ea_redact_apply(x, &r, &request, &asked, &err), 1);
    assert_null(strstr((const char *)asked.payload, "ann"));
    /* names, as event logs, the agent and programs call their fields */
    static const char *const NAMES[] = {"Computer", "Account", "User", "TargetDomain", "SubjectUserName"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const ea_field one[] = {field(NAMES[i], EA_UTF8Z)};
        const ea_class named = class_of(one, 1, 1);
        const ea_record s = record_of("ann-17", sizeof "ann-17");
        assert_int_equal(ea_redact_apply(x, &s, &named, &asked, &err), 1);
        assert_null(strstr((const char *)asked.payload, "ann"));
    }
    /* a text whose length another field holds keeps it, beyond ASCII too */
    ea_field text[] = {field("Count", EA_U8), field("UserName", EA_CHAR16)};
    text[0].is_count = 1;
    text[1].count_field = 0;
    const ea_class name = class_of(text, 2, 2);
    got = apply(x, &name, "\x03J\0\xf6\0t\0", 7);
    assert_memory_equal(got, "\x03*\0*\0*\0", 7);
    ea_redact_destroy(x);
}

/* Data of the registry, and free text: as a whole, where they are chosen; names of code stay. */
static void data_and_free_text(void **state) {
    (void)state;
    const ea_field fields[] = {field("NewValue", EA_UTF8Z), field("Note", EA_UTF8Z), field("MethodName", EA_UTF8Z)};
    const ea_class c = class_of(fields, 3, 3);
    static const char PAYLOAD[] = "ours\0the plan is 10.1.2.3\0Plan.Draw";
    const ea_record r = record_of(PAYLOAD, sizeof PAYLOAD);
    ea_record got;
    ea_err err;
    unsigned kinds = 0;

    static const struct {
        const char *kinds;
        int data, text, address; /* 1: it is left */
    } CASES[] = {{"data", 0, 1, 1}, {"text", 1, 0, 0}, {"all", 0, 1, 0}, {"all,text", 0, 0, 0}, {"user", 1, 1, 1}};

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_int_equal(ea_redact_parse(CASES[i].kinds, &kinds, &err), 0);
        ea_redact *x = make(KEY, kinds, EA_REDACT_ZERO);
        assert_int_equal(ea_redact_apply(x, &r, &c, &got, &err), 1);
        const char *data = (const char *)got.payload, *text = data + strlen(data) + 1;
        assert_int_equal(strcmp(data, "ours") == 0, CASES[i].data);
        assert_int_equal(strstr(text, "plan") != NULL, CASES[i].text);
        assert_int_equal(strstr(text, "10.1.2.3") != NULL, CASES[i].address);
        assert_string_equal(text + strlen(text) + 1, "Plan.Draw");
        assert_int_equal(ea_redact_count(x)->values[EA_REDACT_DATA], !CASES[i].data);
        assert_int_equal(ea_redact_count(x)->values[EA_REDACT_TEXT], !CASES[i].text);
        ea_redact_destroy(x);
    }
}

/* An array of SIDs, each after two pointers. */
static void arrays_of_sids(void **state) {
    (void)state;
    ea_field fields[] = {field("Count", EA_U8), field("Users", EA_WBEM_SID)};
    fields[0].is_count = 1;
    fields[1].count_field = 0;
    const ea_class c = class_of(fields, 2, 2);

    enum { HEAD = 16, SID = 28, NONE = 4, SECOND = 1 + HEAD + SID + NONE, BYTES = SECOND + HEAD + SID };

    uint8_t payload[BYTES] = {3, [1] = 8, [SECOND] = 8};
    const uint32_t parts[] = {21, 11, 22, 33, 1001};
    for (unsigned k = 0; k < 2; k++) { /* between them is one that is not set */
        uint8_t *sid = payload + (k ? SECOND : 1) + HEAD;
        memcpy(sid, "\x01\x05\0\0\0\0\0\x05", 8);
        for (size_t i = 0; i < 5; i++)
            ea_store32(sid + 8 + 4 * i, parts[i] + (i == 4 ? k : 0));
    }
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO);
    const uint8_t *got = apply(x, &c, payload, sizeof payload);
    for (unsigned k = 0; k < 2; k++) {
        size_t at = (k ? SECOND : 1) + HEAD + 12;
        assert_memory_equal(got + (k ? SECOND : 0), payload + (k ? SECOND : 0), at - (k ? SECOND : 0));
        assert_memory_not_equal(got + at, payload + at, 12);
    }
    assert_memory_equal(got + SECOND - NONE, payload + SECOND - NONE, NONE);
    assert_memory_equal(got + 1 + HEAD + 12, got + SECOND + HEAD + 12, 12); /* of one domain */
    ea_redact_destroy(x);
}

/* A piece of a manifest stays, not who logged it; what merely has its number is as other events. */
static void manifests_and_items(void **state) {
    (void)state;
    uint8_t sid[32] = {1, 5, 0, 0, 0, 0, 0, 5, [28] = 'm', 'o', 'r', 'e'}, package[] = "Corp.Mail";
    const uint32_t parts[] = {21, 11, 22, 33, 1001};
    for (size_t i = 0; i < 5; i++)
        ea_store32(sid + 8 + 4 * i, parts[i]);
    const ea_ext items[] = {{.type = EA_EXT_SID, .linkage = 1, .size_bytes = sizeof sid, .data = sid},
                            {.type = EA_EXT_PSM_KEY, .size_bytes = sizeof package, .data = package}};
    static const uint8_t PIECE[] = {1, 1, 0, 0x5B, 1, 0, 0, 0, '<', '/', '>'}, OTHER[] = "nothing of a manifest";
    const ea_class c = {.name = "", .provider_name = "", .pointer_size = 8, .status = EA_CLASS_UNKNOWN};
    ea_record r = record_of(PIECE, sizeof PIECE), got;
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO);
    ea_err err;
    r.id = 0xFFFE;
    r.ext = items;
    r.ext_count = 2;
    assert_int_equal(ea_redact_apply(x, &r, &c, &got, &err), 1);
    assert_memory_equal(got.payload, PIECE, sizeof PIECE);
    assert_memory_not_equal(got.ext[0].data + 12, sid + 12, 4);
    assert_memory_equal(got.ext[0].data + 28, "\0\0\0\0", 4);
    assert_memory_equal(got.ext[1].data, "\0\0\0\0\0\0\0\0\0", sizeof package);
    r.payload = OTHER;
    r.payload_bytes = sizeof OTHER;
    assert_int_equal(ea_redact_apply(x, &r, &c, &got, &err), 1);
    assert_int_equal(got.payload[0], 0);
    r.payload = PIECE;
    r.payload_bytes = sizeof PIECE;
    r.flags = EA_FLAG_TRACE_MESSAGE;
    assert_int_equal(ea_redact_apply(x, &r, &c, &got, &err), 1);
    assert_int_equal(got.payload[0], 0);
    ea_redact_destroy(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(pseudonyms_follow_the_key),
        cmocka_unit_test(items_and_unknown_payloads),
        cmocka_unit_test(names_of_images),
        cmocka_unit_test(names_in_names),
        cmocka_unit_test(many_names_that_begin_alike),
        cmocka_unit_test(letters_of_either_case),
        cmocka_unit_test(bytes_of_fields),
        cmocka_unit_test(data_and_free_text),
        cmocka_unit_test(arrays_of_sids),
        cmocka_unit_test(manifests_and_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
