/* The worker that reads image files: its records for intact, damaged, missing and large files, what it caches, what it
 * skips when a limit is reached, that each module is counted in exactly one counter, and its records among those of a
 * source. */
#include "proto/base/platform.h"
#include "proto/state/account_facts.h"
#include "service/image/image_source.h"
#include "service/image/images.h"
#include "tests/unit/pe_samples.h"

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const int64_t PATIENCE_NS = (int64_t)20 * 1000000000;

enum { PATH_BYTES = 400 };

static ea_counters counters;
static char folder[PATH_BYTES], slash;
static uint8_t sample[PE_SAMPLE_BYTES];

static uint64_t counted(enum ea_counter c) {
    return ea_counter_get(&counters, c);
}

static const char *path_of(const char *name) {
    static char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s%c%s", folder, slash, name);
    return path;
}

static const char *write_file(const char *name, const void *data, size_t len_bytes) {
    const char *path = path_of(name);
    assert_int_equal(ea_path_write_all(path, data, len_bytes, 0, NULL), 0);
    return path;
}

static ea_images *start(size_t files, size_t modules, uint64_t hash_bytes, uint64_t rate_bytes) {
    ea_images *im;
    memset(&counters, 0, sizeof counters);
    assert_int_equal(ea_images_create(&im,
                                      &(ea_images_options){.rate_bytes = rate_bytes,
                                                           .hash_bytes = hash_bytes,
                                                           .limit_files = files,
                                                           .limit_modules = modules,
                                                           .counters = &counters},
                                      NULL),
                     0);
    return im;
}

/* Until a counter has a value; the source keeps up meanwhile. */
static void wait_for(ea_images *im, enum ea_counter c, uint64_t value) {
    int64_t until_ns = ea_monotonic_ns() + PATIENCE_NS;
    while (counted(c) < value && ea_monotonic_ns() < until_ns) {
        ea_images_calm(im);
        ea_sleep_ns(1000000);
    }
    assert_int_equal(counted(c), value);
}

static void take(ea_images *im, ea_text *payload) {
    int64_t until_ns = ea_monotonic_ns() + PATIENCE_NS;
    while (!ea_images_take(im, payload)) {
        assert_true(ea_monotonic_ns() < until_ns);
        ea_images_calm(im);
        ea_sleep_ns(1000000);
    }
}

static void assert_balanced(void) {
    static const enum ea_counter ENDS[] = {
        EA_COUNT_images_told,  EA_COUNT_images_absent,    EA_COUNT_images_refused, EA_COUNT_images_unreadable,
        EA_COUNT_images_other, EA_COUNT_images_left_full, EA_COUNT_images_left_end};

    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        sum += counted(ENDS[i]);
    assert_int_equal(sum, counted(EA_COUNT_images_asked));
}

static void end(ea_images *im) {
    ea_images_stop(im);
    assert_balanced();
    ea_images_destroy(im);
}

static const char *hash_of(const EVP_MD *algorithm, const void *data, size_t len_bytes) {
    static char hex[65];
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    assert_int_equal(EVP_Digest(data, len_bytes, digest, &n, algorithm, NULL), 1);
    for (size_t i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return hex;
}

static const char *sha256(const void *data, size_t len_bytes) {
    return hash_of(EVP_sha256(), data, len_bytes);
}

/* A payload by its class's layout. */
typedef struct facts {
    uint32_t pid, checksum, timestamp, age;
    uint64_t base, image_bytes, file_bytes;
    ea_guid guid;
    /* SHA-256, version, company, product, original name, PDB, MD5, SHA-1, import hash, description, path */
    const char *texts[11];
} facts;

static facts read_facts(const ea_text *payload) {
    const uint8_t *p = (const uint8_t *)payload->data;
    facts t = {.pid = ea_load32(p),
               .base = ea_load64(p + 4),
               .image_bytes = ea_load64(p + 12),
               .checksum = ea_load32(p + 20),
               .timestamp = ea_load32(p + 24),
               .file_bytes = ea_load64(p + 28),
               .age = ea_load32(p + 52)};
    memcpy(t.guid.bytes, p + 36, 16);
    const char *s = payload->data + 56;
    for (size_t i = 0; i < 11; i++) {
        t.texts[i] = s;
        s += strlen(s) + 1;
    }
    assert_ptr_equal(s, payload->data + payload->len_bytes);
    return t;
}

static void test_whole(void **state) {
    ea_text payload;
    (void)state;
    ea_text_init(&payload);
    pe_sample_build(sample, 1);
    const char *path = write_file("whole.dll", sample, sizeof sample);
    ea_images *im = start(0, 0, 1 << 20, 1 << 30);
    ea_images_ask(im, 7, 0x7ff600000000, PE_SAMPLE_TIME, path);
    ea_images_ask(im, 8, 0x10000, 0, path);
    for (uint32_t pid = 7; pid < 9; pid++) {
        take(im, &payload);
        facts t = read_facts(&payload);
        assert_int_equal(t.pid, pid);
        assert_int_equal(t.base, pid == 7 ? 0x7ff600000000 : 0x10000);
        assert_int_equal(t.image_bytes, PE_SAMPLE_SIZE);
        assert_int_equal(t.checksum, PE_SAMPLE_CHECKSUM);
        assert_int_equal(t.timestamp, PE_SAMPLE_TIME);
        assert_int_equal(t.file_bytes, sizeof sample);
        assert_true(ea_guid_equal(&t.guid, &PE_SAMPLE_GUID));
        assert_int_equal(t.age, PE_SAMPLE_AGE);
        assert_string_equal(t.texts[0], sha256(sample, sizeof sample));
        assert_string_equal(t.texts[1], "10.1.19041.2965");
        assert_string_equal(t.texts[2], PE_SAMPLE_COMPANY);
        assert_string_equal(t.texts[3], PE_SAMPLE_PRODUCT);
        assert_string_equal(t.texts[4], "");
        assert_string_equal(t.texts[5], PE_SAMPLE_PDB);
        assert_string_equal(t.texts[6], hash_of(EVP_md5(), sample, sizeof sample));
        assert_string_equal(t.texts[7], hash_of(EVP_sha1(), sample, sizeof sample));
        assert_string_equal(t.texts[8], "");
        assert_string_equal(t.texts[9], "");
        assert_string_equal(t.texts[10], path);
    }
    assert_int_equal(counted(EA_COUNT_images_read), 1);
    ea_images_ask(im, 9, 1, PE_SAMPLE_TIME, path); /* as it was */
    take(im, &payload);
    assert_int_equal(counted(EA_COUNT_images_read), 1);
    assert_true(counted(EA_COUNT_images_cached) >= 1);
    ea_images_ask(im, 9, 2, PE_SAMPLE_TIME + 1, path); /* another one was loaded */
    wait_for(im, EA_COUNT_images_other, 1);
    sample[PE_SAMPLE_BYTES - 1] ^= 1; /* another content, of the same size */
    (void)write_file("whole.dll", sample, sizeof sample);
    ea_images_ask(im, 9, 3, PE_SAMPLE_TIME, path);
    take(im, &payload);
    assert_string_equal(read_facts(&payload).texts[0], sha256(sample, sizeof sample));
    assert_int_equal(counted(EA_COUNT_images_read), 2);
    end(im);
    ea_text_deinit(&payload);
}

/* A file that is no intact image still has a size and a hash. */
static void test_damaged(void **state) {
    static uint8_t large[1 << 20];
    ea_text payload;
    (void)state;
    ea_text_init(&payload);
    pe_sample_build(sample, 1);
    ea_images *im = start(0, 0, (1 << 20) - 1, 1 << 30);
    ea_images_ask(im, 1, 1, 0, path_of("absent.dll"));
    wait_for(im, EA_COUNT_images_absent, 1);
    ea_images_ask(im, 1, 2, 0, folder);
    wait_for(im, EA_COUNT_images_refused, 1);
    ea_images_ask(im, 1, 3, PE_SAMPLE_TIME, write_file("cut.dll", sample, 700)); /* its PDB is whole */
    take(im, &payload);
    facts t = read_facts(&payload);
    assert_int_equal(t.file_bytes, 700);
    assert_string_equal(t.texts[0], sha256(sample, 700));
    ea_images_ask(im, 1, 4, 0, write_file("text.dll", "no image", 8));
    take(im, &payload);
    t = read_facts(&payload);
    assert_int_equal(t.timestamp, 0);
    assert_string_equal(t.texts[0], sha256("no image", 8));
    ea_store32(sample + 60, UINT32_MAX);
    ea_images_ask(im, 1, 5, 0, write_file("hostile.dll", sample, sizeof sample));
    take(im, &payload);
    assert_int_equal(counted(EA_COUNT_images_damaged), 2);
    pe_sample_build(large, 1);
    ea_images_ask(im, 1, 6, PE_SAMPLE_TIME, write_file("large.dll", large, sizeof large));
    take(im, &payload);
    t = read_facts(&payload);
    assert_int_equal(t.file_bytes, sizeof large);
    assert_int_equal(t.age, PE_SAMPLE_AGE);
    assert_string_equal(t.texts[0], "");
    assert_int_equal(counted(EA_COUNT_images_unhashed), 1);
    ea_images_ask(im, 1, 7, 0, write_file("empty.dll", "", 0));
    take(im, &payload);
    assert_string_equal(read_facts(&payload).texts[0], sha256("", 0));
    assert_int_equal(counted(EA_COUNT_images_damaged), 3);
    end(im);
    ea_text_deinit(&payload);
}

/* Too many modules, too many files; the one of use longest ago goes. */
static void test_bounds(void **state) {
    ea_text payload;
    char name[32];
    (void)state;
    ea_text_init(&payload);
    pe_sample_build(sample, 1);
    ea_images *im = start(4, 6, 1 << 20, 1 << 30);
    ea_sleep_ns(1200000000); /* the source has not caught up for a second: nothing is read */
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "of-%d.dll", i);
        ea_images_ask(im, 1, (uint64_t)i, 0, write_file(name, sample, sizeof sample));
    }
    assert_int_equal(counted(EA_COUNT_images_left_full), 1); /* the fifth file */
    for (int i = 0; i < 4; i++)
        ea_images_ask(im, 2, (uint64_t)i, 0, path_of("of-0.dll"));
    assert_int_equal(counted(EA_COUNT_images_left_full), 3); /* the seventh and eighth module */
    assert_false(ea_images_take(im, &payload));
    assert_int_equal(counted(EA_COUNT_images_read), 0);
    for (int i = 0; i < 6; i++)
        take(im, &payload);
    assert_int_equal(counted(EA_COUNT_images_forgotten), 0);
    ea_images_ask(im, 1, 9, 0, path_of("of-4.dll")); /* in the place of of-0 */
    take(im, &payload);
    assert_int_equal(counted(EA_COUNT_images_forgotten), 1);
    uint64_t was_read = counted(EA_COUNT_images_read);
    ea_images_ask(im, 1, 9, 0, path_of("of-3.dll"));
    take(im, &payload);
    assert_int_equal(counted(EA_COUNT_images_read), was_read);
    ea_images_ask(im, 1, 9, 0, path_of("of-0.dll"));
    take(im, &payload);
    assert_int_equal(counted(EA_COUNT_images_read), was_read + 1);
    ea_images_ask(im, 1, 10, 0, path_of("of-1.dll"));
    end(im); /* the last one is reported, or skipped */
    ea_text_deinit(&payload);
}

/* A megabyte at 4 MiB a second takes a quarter of one, and an end does not wait for it. */
static void test_rate(void **state) {
    static uint8_t large[1 << 20];
    ea_text payload;
    (void)state;
    ea_text_init(&payload);
    ea_images *im = start(0, 0, 1 << 30, 4 << 20);
    int64_t begin_ns = ea_monotonic_ns();
    ea_images_ask(im, 1, 1, 0, write_file("slow.dll", large, sizeof large));
    take(im, &payload);
    assert_in_range(ea_monotonic_ns() - begin_ns, 230000000, PATIENCE_NS);
    end(im);
    im = start(0, 0, 1 << 30, 4 << 10);
    ea_images_ask(im, 1, 1, 0, path_of("slow.dll"));
    ea_sleep_ns(50000000);
    begin_ns = ea_monotonic_ns();
    end(im); /* four minutes of reading are left */
    assert_in_range(ea_monotonic_ns() - begin_ns, 0, INT64_C(60000000000));
    assert_int_equal(counted(EA_COUNT_images_left_end), 1);
    ea_text_deinit(&payload);
}

/* ---- accounts ---- */

static atomic_int looked_up;

static int lookup(const char *sid, char *out, size_t out_bytes) {
    atomic_fetch_add(&looked_up, 1);
    snprintf(out, out_bytes, "SHOP\\%s", sid + 4);
    return strncmp(sid, "S-1-9", 5) == 0 ? EA_ENOTFOUND : 0;
}

static ea_images *start_accounts(int (*fn)(const char *sid, char *out, size_t out_bytes)) {
    ea_images *im;
    memset(&counters, 0, sizeof counters);
    atomic_store(&looked_up, 0);
    assert_int_equal(
        ea_images_create(
            &im, &(ea_images_options){.rate_bytes = 1 << 30, .hash_bytes = 1, .lookup = fn, .counters = &counters},
            NULL),
        0);
    return im;
}

/* The first time the domain controller is away. */
static int lookup_later(const char *sid, char *out, size_t out_bytes) {
    int is_first = atomic_load(&looked_up) == 0;
    return lookup(sid, out, out_bytes) || is_first ? EA_ENOTFOUND : 0;
}

/* An account that had no name is asked about again after a while, and not before. */
static void test_accounts_again(void **state) {
    static const int64_t AGAIN_NS = 1000000000;
    ea_images *im;
    ea_text payload;
    (void)state;
    ea_text_init(&payload);
    memset(&counters, 0, sizeof counters);
    atomic_store(&looked_up, 0);
    const ea_images_options options = {
        .rate_bytes = 1 << 30, .hash_bytes = 1, .lookup = lookup_later, .again_ns = AGAIN_NS, .counters = &counters};
    assert_int_equal(ea_images_create(&im, &options, NULL), 0);
    int64_t begin_ns = ea_monotonic_ns();
    ea_images_ask_account(im, "S-1-5-21-5");
    wait_for(im, EA_COUNT_accounts_unnamed, 1);
    ea_images_ask_account(im, "S-1-5-21-5");
    if (ea_monotonic_ns() - begin_ns < AGAIN_NS) /* else the machine had no time for this test */
        assert_int_equal(counted(EA_COUNT_accounts_asked), 1);
    ea_sleep_ns(AGAIN_NS + AGAIN_NS / 10);
    ea_images_ask_account(im, "S-1-5-21-5");
    take(im, &payload);
    assert_memory_equal(payload.data, "S-1-5-21-5\0SHOP\\5-21-5", payload.len_bytes);
    ea_images_ask_account(im, "S-1-5-21-5");
    assert_int_equal(counted(EA_COUNT_accounts_asked), 2);
    assert_int_equal(counted(EA_COUNT_accounts_unnamed), 1);
    assert_int_equal(counted(EA_COUNT_accounts_named), 1);
    ea_images_destroy(im);
    ea_text_deinit(&payload);
}

/* As with a domain controller that is away. */
static int lookup_slowly(const char *sid, char *out, size_t out_bytes) {
    int rc = lookup(sid, out, out_bytes);
    ea_sleep_ns(100000000);
    return rc;
}

/* Answers about accounts that take long do not keep files waiting, and all accounts are looked up in the end. */
static void test_slow_accounts(void **state) {
    enum { ACCOUNTS = 8 };

    char sid[40];
    (void)state;
    write_file("waits.dll", sample, sizeof sample);
    ea_images *im = start_accounts(lookup_slowly);
    for (int i = 0; i < ACCOUNTS; i++) {
        snprintf(sid, sizeof sid, "S-1-5-21-4-%d", i);
        ea_images_ask_account(im, sid);
    }
    ea_images_ask(im, 1, 0x1000, 0, path_of("waits.dll"));
    wait_for(im, EA_COUNT_images_read, 1);
    assert_in_range(atomic_load(&looked_up), 0, 2); /* one at hand, and one that began after the file */
    int64_t until_ns = ea_monotonic_ns() + PATIENCE_NS;
    while (atomic_load(&looked_up) < ACCOUNTS && ea_monotonic_ns() < until_ns) {
        ea_images_calm(im);
        ea_sleep_ns(1000000);
    }
    assert_int_equal(atomic_load(&looked_up), ACCOUNTS);
    ea_images_destroy(im);
}

/* Each account is looked up once and is in exactly one counter; those beyond the limit, and at the end, are left. */
static void test_accounts(void **state) {
    enum { MANY = 400 };

    ea_text payload;
    char sid[40];
    (void)state;
    ea_text_init(&payload);
    ea_images *im = start_accounts(lookup);
    for (int twice = 0; twice < 2; twice++) {
        ea_images_ask_account(im, "S-1-5-21-1");
        ea_images_ask_account(im, "S-1-9-7");
    }
    wait_for(im, EA_COUNT_accounts_unnamed, 1);
    int64_t until_ns = ea_monotonic_ns() + PATIENCE_NS;
    int opcode;
    while (!(opcode = ea_images_take(im, &payload)) && ea_monotonic_ns() < until_ns)
        ea_images_calm(im);
    assert_int_equal(opcode, EA_ACCOUNT_FACTS_OPCODE);
    assert_int_equal(payload.len_bytes, sizeof "S-1-5-21-1" + sizeof "SHOP\\5-21-1");
    assert_memory_equal(payload.data, "S-1-5-21-1\0SHOP\\5-21-1", payload.len_bytes);
    assert_int_equal(atomic_load(&looked_up), 2);
    assert_int_equal(counted(EA_COUNT_accounts_asked), 2);
    assert_int_equal(ea_images_take(im, &payload), 0);
    for (int i = 0; i < MANY; i++) { /* none is taken: 256 have room */
        snprintf(sid, sizeof sid, "S-1-5-21-2-%d", i);
        ea_images_ask_account(im, sid);
    }
    assert_int_equal(counted(EA_COUNT_accounts_left), MANY - 256);
    ea_images_stop(im);
    assert_int_equal(counted(EA_COUNT_accounts_left), MANY);
    ea_images_ask_account(im, "S-1-5-21-3");
    assert_int_equal(counted(EA_COUNT_accounts_asked), counted(EA_COUNT_accounts_named) +
                                                           counted(EA_COUNT_accounts_unnamed) +
                                                           counted(EA_COUNT_accounts_left));
    ea_images_destroy(im);
    ea_text_deinit(&payload);
}

/* ---- among a source's records ---- */

typedef struct fake {
    ea_source base;
    ea_record records[4];
    uint8_t payloads[4][56 + 2 * (PATH_BYTES + 64)];
    size_t count, next;
    int stopped, *closed;
} fake;

static int fake_next(ea_source *s, const ea_record **ret, ea_err *err) {
    fake *f = (fake *)s;
    (void)err;
    if (f->next < f->count) {
        *ret = &f->records[f->next++];
        return 1;
    }
    ea_sleep_ns(1000000);
    return f->stopped ? 0 : EA_SOURCE_NOTHING_YET;
}

static void fake_stop(ea_source *s) {
    ((fake *)s)->stopped = 1;
}

static void fake_close(ea_source *s) {
    ++*((fake *)s)->closed;
}

/* Image/Load of version 2, of 64 bits; or another opcode of it. */
static void add_image(fake *f, uint8_t opcode, uint32_t pid, uint64_t base, uint32_t timestamp, const char *path) {
    uint8_t *p = f->payloads[f->count];
    size_t n = strlen(path);
    ea_store64(p, base);
    ea_store32(p + 16, pid);
    ea_store32(p + 24, timestamp);
    assert_true(56 + 2 * n + 2 <= sizeof f->payloads[0]);
    for (size_t i = 0; i < n; i++)
        ea_store16(p + 56 + 2 * i, (uint8_t)path[i]); /* the folder's name is of ASCII */
    f->records[f->count] =
        (ea_record){.provider = EA_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18),
                    .opcode = opcode,
                    .version = 2,
                    .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                    .pointer_size = 8,
                    .time_raw = 1000 + (int64_t)f->count,
                    .cpu = 3,
                    .position = f->count,
                    .payload = p,
                    .payload_bytes = (uint16_t)(56 + 2 * n + 2)};
    f->count++;
}

static void test_source(void **state) {
    static const ea_source_ops OPS = {.next = fake_next, .stop = fake_stop, .close = fake_close};
    static fake f;
    const ea_record *r;
    ea_source *source;
    int closed = 0, rc, delivered_count = 0;
    (void)state;
    f.base.ops = &OPS;
    f.closed = &closed;
    pe_sample_build(sample, 1);
    const char *path = write_file("loaded.dll", sample, sizeof sample);
    add_image(&f, 10, 77, 0x7ff612340000, PE_SAMPLE_TIME, path);
    add_image(&f, 3, 78, 0x7ff612340000, PE_SAMPLE_TIME, path);
    add_image(&f, 2, 77, 0x7ff612340000, PE_SAMPLE_TIME, path); /* its unload: is ignored */
    memset(&counters, 0, sizeof counters);
    assert_int_equal(
        ea_image_source_open(&source, &f.base,
                             &(ea_images_options){.rate_bytes = 1 << 30, .hash_bytes = 1 << 20, .counters = &counters},
                             NULL),
        0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ea_source_next(source, &r, NULL), 1);
        assert_int_equal(r->time_raw, 1000 + (int64_t)i);
        assert_int_equal(r->position, i);
    }
    int64_t until_ns = ea_monotonic_ns() + PATIENCE_NS;
    while (delivered_count < 2 && ea_monotonic_ns() < until_ns) {
        rc = ea_source_next(source, &r, NULL);
        assert_true(rc == 1 || rc == EA_SOURCE_NOTHING_YET);
        if (rc != 1)
            continue;
        assert_true(ea_guid_equal(&r->provider, &ea_image_facts_provider));
        assert_int_equal(ea_load32(r->payload), 77 + delivered_count);
        assert_int_equal(r->time_raw, 1002); /* of the record before it */
        assert_int_equal(r->cpu, 3);
        assert_int_equal(r->position, 3 + delivered_count);
        delivered_count++;
    }
    assert_int_equal(delivered_count, 2);
    add_image(&f, 10, 79, 0x1000, 0, path_of("absent.dll"));
    assert_int_equal(ea_source_next(source, &r, NULL), 1);
    assert_int_equal(r->position, 5); /* records of the worker are counted in the position */
    ea_source_stop(source);
    while ((rc = ea_source_next(source, &r, NULL)) == EA_SOURCE_NOTHING_YET)
        ;
    assert_int_equal(rc, 0);
    assert_int_equal(counted(EA_COUNT_images_asked), 3);
    assert_balanced();
    ea_source_close(source);
    assert_int_equal(closed, 1);
}

/* Beside this program: Windows takes no path without a drive. */
static int make_folder(void **state) {
    (void)state;
    if (ea_program_path(folder, sizeof folder - 32, NULL))
        return -1;
    size_t n = strlen(folder);
    while (n && folder[n - 1] != '/' && folder[n - 1] != '\\')
        n--;
    slash = folder[n - 1];
    snprintf(folder + n, sizeof folder - n, "images-%u", ea_process_id());
    for (char *c = folder; *c; c++)
        if (*c == '/')
            *c = slash;
    return ea_path_make_dirs(folder, NULL);
}

static int remove_one(const char *name, int is_dir, void *arg) {
    (void)is_dir, (void)arg;
    return ea_path_remove(path_of(name), NULL) != 0;
}

static int remove_folder(void **state) {
    (void)state;
    return ea_path_list(folder, remove_one, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole),          cmocka_unit_test(test_damaged),
                                       cmocka_unit_test(test_bounds),         cmocka_unit_test(test_rate),
                                       cmocka_unit_test(test_accounts),       cmocka_unit_test(test_slow_accounts),
                                       cmocka_unit_test(test_accounts_again), cmocka_unit_test(test_source)};
    return cmocka_run_group_tests_name("images", tests, make_folder, remove_folder);
}
