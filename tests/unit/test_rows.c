/* All class rows: they compile in each version and pointer size, contradict neither themselves nor each other, and
 * split any payload without loss. (Against Windows' own schema: tests/e2e/test_schema.py.) */
#include "proto/event/event.h"
#include "proto/event/render.h"
#include "tests/unit/random_payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};

typedef void (*each_fn)(const ea_family *family, const ea_class_row *row, uint8_t version, void *arg);

static size_t each(each_fn fn, void *arg) {
    size_t family_count, n = 0;
    const ea_family *const *families = ea_event_families(&family_count);
    for (size_t i = 0; i < family_count; i++)
        for (size_t k = 0; k < families[i]->row_count; k++)
            for (unsigned v = families[i]->rows[k].since; v <= families[i]->rows[k].until; v++, n++)
                fn(families[i], &families[i]->rows[k], (uint8_t)v, arg);
    return n;
}

static ea_record record_of(const ea_family *family, const ea_class_row *row, uint8_t version, uint8_t pointer_size) {
    ea_record r = {.provider = family->provider->guid, .version = version, .pointer_size = pointer_size};
    if (family->provider->classic) {
        assert_true(row->code < 256);
        r.opcode = (uint8_t)row->code;
        r.flags = EA_FLAG_CLASSIC_HEADER;
    } else {
        r.id = row->code;
    }
    return r;
}

static void check_row(const ea_family *family, const ea_class_row *row, uint8_t version, void *arg) {
    ea_registry *registry = arg;
    const char *slash = strchr(row->name, '/');
    assert_true(slash && slash != row->name && slash[1]);
    assert_non_null(family->source);
    assert_true(row->since <= row->until);
    for (uint8_t pointer_size = 4; pointer_size <= 8; pointer_size += 4) {
        ea_record r = record_of(family, row, version, pointer_size);
        const ea_class *c = ea_registry_find(registry, &r);
        assert_string_equal(c->name, row->name);
        assert_string_equal(c->provider_name, family->provider->name);
        assert_int_equal(c->status, row->fields ? EA_CLASS_KNOWN : EA_CLASS_UNKNOWN);
        assert_int_equal(c->pointer_size, pointer_size);
        size_t expected = 0;
        for (const ea_field_row *f = row->fields; f && f->name; f++) {
            assert_true(f->since <= row->until || f->since <= 5);
            assert_true(f->until == 0 || f->since <= f->until);
            assert_true(f->only == 0 || f->only == 4 || f->only == 8);
            expected +=
                f->since <= version && (!f->until || version <= f->until) && (!f->only || f->only == pointer_size);
        }
        assert_int_equal(c->field_count, expected);
        for (size_t i = 0; i < c->field_count; i++)
            for (size_t k = i + 1; k < c->field_count; k += c->fields[k].span)
                if (strcmp(c->fields[i].name, c->fields[k].name) == 0 && c->fields[i].offset != EA_OFFSET_NONE)
                    fail_msg("%s v%u has two fields %s", row->name, version, c->fields[i].name);
    }
    /* no other row for the same event */
    size_t family_count;
    const ea_family *const *families = ea_event_families(&family_count);
    for (size_t i = 0; i < family_count; i++) {
        if (!ea_guid_equal(&families[i]->provider->guid, &family->provider->guid))
            continue;
        for (size_t k = 0; k < families[i]->row_count; k++) {
            const ea_class_row *other = &families[i]->rows[k];
            if (other == row)
                continue;
            if (other->code == row->code && other->since <= version && version <= other->until)
                fail_msg("%s v%u: opcode %u is also %s", row->name, version, row->code, other->name);
            if (other->code != row->code && strcmp(other->name, row->name) == 0)
                fail_msg("%s is the name of two events", row->name);
        }
    }
}

static void test_rows_compile(void **state) {
    (void)state;
    ea_registry *registry;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    assert_true(each(check_row, registry) > 512);
    ea_registry_destroy(registry);
}

/* A small generator of its own, so that a failure can be repeated. */
static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Random payloads, sometimes of small values so that counts and SIDs are plausible. The split loses no byte, and the
 * class that was sent in a description prints the same text as the original class. */
static void check_split(const ea_family *family, const ea_class_row *row, uint8_t version, void *arg) {
    ea_registry **registries = arg;
    static uint32_t seed = 1;
    ea_slice slices[EA_FIELDS_MAX];
    ea_text here, there;
    ea_text_init(&here);
    ea_text_init(&there);
    for (int round = 0; round < 16; round++) {
        ea_record r = record_of(family, row, version, round % 2 ? 8 : 4);
        const ea_class *c = ea_registry_find(registries[0], &r), *travelled;
        size_t n = next(&seed) % (c->fixed_bytes + 64u), used, sum = 0;
        uint8_t *payload = malloc(n ? n : 1);
        assert_non_null(payload);
        for (size_t i = 0; i < n; i++)
            payload[i] = (uint8_t)(round < 8 ? next(&seed) : next(&seed) % 3);
        r.payload = payload;
        r.payload_bytes = (uint16_t)n;
        size_t whole = ea_class_split(c, payload, n, slices, &used);
        assert_true(whole <= c->top_count && used <= n);
        for (size_t i = 0; i < whole; i++) {
            assert_ptr_equal(slices[i].data, payload + sum);
            sum += slices[i].len_bytes;
        }
        assert_int_equal(sum, used);
        assert_int_equal(
            ea_registry_add_description(registries[1], c->description, c->description_bytes, &travelled, NULL), 0);
        ea_text_clear(&here);
        ea_text_clear(&there);
        ea_render_json(&here, &r, c, &CLOCK, 1);
        ea_render_json(&there, &r, travelled, &CLOCK, 1);
        assert_string_equal(here.data, there.data);
        ea_render_text(&here, &r, c, &CLOCK);
        assert_false(here.failed);
        free(payload);
    }
    ea_text_deinit(&here);
    ea_text_deinit(&there);
}

static void test_rows_split(void **state) {
    (void)state;
    ea_registry *registries[2];
    assert_int_equal(ea_registry_create(&registries[0], 0, NULL), 0);
    assert_int_equal(ea_registry_create(&registries[1], 0, NULL), 0);
    each(check_split, registries);
    ea_registry_destroy(registries[0]);
    ea_registry_destroy(registries[1]);
}

/* Splits and renders a payload that lies in memory of exactly its size, so that a sanitizer sees a byte too far.
 * Returns the number of whole fields. */
static size_t use_payload(const ea_class *c, ea_record *r, const uint8_t *bytes, size_t n, ea_text *out) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, sum = 0;
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    r->payload = exact;
    r->payload_bytes = (uint16_t)n;
    size_t whole = ea_class_split(c, exact, n, slices, &used);
    assert_true(whole <= c->top_count && used <= n);
    for (size_t i = 0; i < whole; i++) {
        assert_true(slices[i].len_bytes == 0 || slices[i].data == exact + sum);
        sum += slices[i].len_bytes;
    }
    assert_int_equal(sum, used);
    ea_text_clear(out);
    ea_render_json(out, r, c, &CLOCK, 0);
    ea_render_text(out, r, c, &CLOCK);
    assert_false(out->failed);
    assert_null(memchr(out->data, '\n', out->len_bytes));
    free(exact);
    return whole;
}

/* A payload with random values, then the same cut at every length: what is whole before the cut stays whole and the
 * same, and nothing outside is read. Then with bytes changed, so that counts, lengths and SIDs lie. */
static void check_cut(const ea_family *family, const ea_class_row *row, uint8_t version, void *arg) {
    ea_registry *registry = arg;
    static random_payload p = {.state = 1};
    ea_text out;
    ea_text_init(&out);
    for (uint8_t pointer_size = 4; pointer_size <= 8; pointer_size += 4) {
        ea_record r = record_of(family, row, version, pointer_size);
        const ea_class *c = ea_registry_find(registry, &r);
        random_payload_make(&p, c);
        assert_true(p.len_bytes < RANDOM_PAYLOAD_MAX);
        size_t all = use_payload(c, &r, p.bytes, p.len_bytes, &out);
        assert_int_equal(all, c->top_count);
        for (size_t n = 0; n < p.len_bytes; n += n < 400 ? 1 : 61) {
            size_t whole = use_payload(c, &r, p.bytes, n, &out);
            assert_true(whole <= all);
            /* every field that ends before the cut is there */
            size_t least = 0;
            while (least < all && p.tops[least].at + p.tops[least].len_bytes <= n && p.tops[least].len_bytes)
                least++;
            assert_true(whole >= least);
        }
        for (int round = 0; round < 24 && p.len_bytes; round++) {
            uint8_t changed[RANDOM_PAYLOAD_MAX];
            memcpy(changed, p.bytes, p.len_bytes);
            for (int k = 0; k <= round % 4; k++) {
                static const uint8_t LIES[] = {0xFF, 0x00, 0x80, 0x7F};
                changed[random_next(&p) % p.len_bytes] = LIES[random_next(&p) % 4];
            }
            use_payload(c, &r, changed, p.len_bytes, &out);
        }
        /* every count as large as it can be */
        for (size_t i = 0, top = 0; i < c->field_count; i += c->fields[i].span, top++)
            if (c->fields[i].is_count) {
                uint8_t changed[RANDOM_PAYLOAD_MAX];
                memcpy(changed, p.bytes, p.len_bytes);
                memset(changed + p.tops[top].at, 0xFF, p.tops[top].len_bytes);
                size_t whole = use_payload(c, &r, changed, p.len_bytes, &out);
                assert_true(whole < all); /* what it counts cannot be there */
            }
    }
    ea_text_deinit(&out);
}

static void test_rows_cut(void **state) {
    (void)state;
    ea_registry *registry;
    assert_int_equal(ea_registry_create(&registry, 0, NULL), 0);
    each(check_cut, registry);
    ea_registry_destroy(registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_compile),
        cmocka_unit_test(test_rows_split),
        cmocka_unit_test(test_rows_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
