/* Fuzz target: a whole batch from outside, read in every way that the reader offers. What can be written of it is
 * written and read again: its numbers, its short directory, its tombstones, and the batch without its definitions. Some
 * of the allocations fail, which must not be taken for damage.
 * Input: the bytes of a batch. Seeds: seed_batch.c, seed_forms.py, seed_rules.py, seed_lines.py. */
#include "proto/wire/ack.h"
#include "proto/wire/column.h"
#include "proto/wire/definitions.h"
#include "proto/wire/short_directory.h"
#include "tests/unit/batch_shortage.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    NUMBERS = 64,
    TOMBSTONES = 16,
    NESTED = 16,           /* messages inside messages, of a directory */
    KEPT = 256,            /* definitions of one batch that are kept outside of it */
    SMALL_BYTES = 1 << 15, /* of a batch that is read again and again, also without memory */
    SHORTAGES = 4,         /* for each of these batches */
    COMPLETIONS = 32,      /* likewise, of a batch that is completed */
};

static void check_at(int condition, int line) {
    if (condition)
        return;
    fprintf(stderr, "fuzz_batch.c:%d does not hold\n", line);
    abort();
}

#define check(condition) check_at(condition, __LINE__)

/* Reads n bytes in pieces: a sanitizer looks at a piece at once, and the fuzzer's own counting does not slow it. */
static void touch(const uint8_t *data, size_t n) {
    static uint8_t copy[1 << 16];
    for (size_t at = 0, piece; at < n; at += piece) {
        piece = n - at < sizeof copy ? n - at : sizeof copy;
        memcpy(copy, data + at, piece);
        check(copy[0] == data[at]);
    }
}

/* Many rows can be the same long one: of those beyond the bound only the ends are looked at. */
static void touch_rows(const ea_column *column) {
    size_t total = 0;
    for (uint32_t i = 0; i < column->count; i++) {
        ea_slice s = ea_column_row(column, i);
        total += s.len_bytes;
        if (total <= EA_BATCH_MAX_RAW_BYTES) {
            touch(s.data, s.len_bytes);
        } else if (s.len_bytes) {
            touch(s.data, 1);
            touch(s.data + s.len_bytes - 1, 1);
        }
    }
}

static int on_description(const uint8_t *data, size_t n, void *arg) {
    touch(data, n);
    ++*(unsigned *)arg;
    return 0;
}

typedef struct tombstones {
    ea_tombstone at[TOMBSTONES];
    size_t count;
} tombstones;

static int on_tombstone(const ea_tombstone *t, void *arg) {
    tombstones *all = arg;
    check(t->first && t->first <= t->last);
    if (all->count < TOMBSTONES)
        all->at[all->count] = *t;
    all->count++;
    return 0;
}

static int stop_at_tombstone(const ea_tombstone *t, void *arg) {
    (void)t, (void)arg;
    return 1;
}

static int stop_at_count(const ea_ledger_count *c, void *arg) {
    (void)c, (void)arg;
    return 1;
}

static int stop_at_definition(enum ea_definition_kind kind, const uint8_t *data, size_t n, void *arg) {
    (void)kind, (void)arg;
    touch(data, n);
    return 1;
}

static int on_count(const ea_ledger_count *c, void *arg) {
    (void)arg;
    touch((const uint8_t *)c->family, strlen(c->family));
    return 0;
}

static void read_columns(ea_batch_view *v) {
    ea_err err;
    const ea_batch_events *events;
    const uint32_t *rows, *pids;
    const uint64_t *numbers;
    uint64_t first;
    size_t pid_count;
    ea_column column;
    if (ea_batch_sequence(v, &numbers, &first, &err) == 1)
        touch((const uint8_t *)numbers, ea_batch_get_head(v)->event_count * sizeof *numbers);
    for (size_t i = 0; i < ea_batch_source_count(v); i++)
        touch((const uint8_t *)ea_batch_source(v, i)->name, strlen(ea_batch_source(v, i)->name));
    if (!ea_batch_pids(v, &pids, &pid_count, &err))
        for (size_t i = 1; i < pid_count; i++)
            check(pids[i - 1] < pids[i]);
    if (ea_batch_get_events(v, &events, &err))
        return;
    for (size_t k = 0; k < ea_batch_group_count(v); k++) {
        uint32_t n = ea_batch_group_events(v, k);
        size_t fields = ea_batch_group_class(v, k)->top_count, items = ea_batch_group_constants(v, k)->ext_count;
        uint16_t type;
        check(ea_batch_column(v, k, fields, &column, &err) == EA_EINVAL);
        check(ea_batch_item(v, k, items, &type, &column, &err) == EA_EINVAL);
        check(!ea_batch_group_rows(v, k, &rows, &err));
        for (uint32_t i = 0; i < n; i++)
            check(events->group[rows[i]] == k && events->source[rows[i]] < ea_batch_source_count(v));
        for (size_t i = 0; i < items; i++)
            if (!ea_batch_item(v, k, i, &type, &column, &err))
                check(column.count == n);
        if (ea_batch_activities(v, k, &column, &err) == 1)
            touch(ea_column_row(&column, n - 1).data, ea_column_row(&column, n - 1).len_bytes);
        for (size_t f = 0; f < fields; f++)
            if (ea_batch_dictionary(v, k, f, &column, &rows, &err) == 1)
                for (uint32_t i = 0; i < n; i++)
                    check(rows[i] < column.count);
        for (size_t f = 0; f < fields; f++)
            if (!ea_batch_column(v, k, f, &column, &err))
                touch_rows(&column);
        if (!ea_batch_payloads(v, k, &column, &err))
            touch_rows(&column);
    }
}

static void read_records(ea_batch_view *v, uint32_t expected) {
    ea_err err;
    const ea_record *r;
    const ea_class *c;
    uint32_t n = 0;
    int rc;
    while ((rc = ea_batch_next(v, &r, &c, &err)) > 0) {
        touch(r->payload, r->payload_bytes);
        check(r->ext_count <= EA_EXT_MAX);
        for (unsigned i = 0; i < r->ext_count; i++)
            touch(r->ext[i].data, r->ext[i].size_bytes);
        n++;
    }
    check(rc < 0 || n == expected);
    rc = ea_batch_verify(v, &err);
    check(rc == 0 || rc == EA_ECORRUPT || rc == EA_ELIMIT || rc == EA_EUNSUPPORTED);
}

static void check_origin(const ea_batch_head *head) {
    ea_text version, labels;
    ea_err err;
    ea_text_init(&version);
    ea_text_init(&labels);
    if (head->source && !ea_source_origin(head->source, head->source_bytes, &version, &labels, &err) &&
        labels.len_bytes)
        check(labels.data[0] == '{' && labels.data[labels.len_bytes - 1] == '}');
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
}

/* Under another name it is the same batch. */
static void check_renamed(const uint8_t *data, size_t size, const ea_batch_head *head) {
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "renamed";
    ea_err err;
    ea_batch_head now;
    ea_text out;
    ea_text_init(&out);
    if (!ea_batch_rename(data, size, STREAM, 7, &out, &err)) {
        check(!ea_batch_read_head((const uint8_t *)out.data, out.len_bytes, &now, &err));
        check(now.number == 7 && memcmp(now.stream, STREAM, sizeof STREAM) == 0 && now.kind == head->kind &&
              now.event_count == head->event_count && now.checksum == head->checksum);
    }
    ea_text_deinit(&out);
}

/* Any bytes as numbers, in each form of a column that numbers have. */
static void check_numbers(const uint8_t *data, size_t size) {
    uint64_t in[NUMBERS] = {0}, out[NUMBERS];
    uint8_t bytes[NUMBERS * 10];
    size_t n = size / sizeof *in < NUMBERS ? size / sizeof *in : NUMBERS, used;
    unsigned planes = 1 + (unsigned)(size % 8), bits = 1 + (unsigned)(size % 64);
    if (!n)
        return;
    memcpy(in, data, n * sizeof *in);
    ea_planes_put(bytes, in, n, planes);
    ea_planes_get(out, bytes, n, planes);
    for (size_t i = 0; i < n; i++)
        check(out[i] == ea_cut(in[i], planes));
    ea_bits_put(bytes, in, n, bits);
    ea_bits_get(out, bytes, n, bits);
    for (size_t i = 0; i < n; i++)
        check(out[i] == (bits == 64 ? in[i] : in[i] & ((UINT64_C(1) << bits) - 1)));
    used = ea_varint_put(bytes, in, n);
    check(!ea_varint_get(out, n, bytes, used) && memcmp(out, in, n * sizeof *in) == 0);
    check(ea_varint_get(out, n, bytes, used - 1) && ea_varint_get(out, n - 1, bytes, used));
}

/* As one message, for a comparison. */
static void put_directory(const Etwagent__V1__Directory *d, ea_text *out) {
    size_t n = etwagent__v1__directory__get_packed_size(d);
    uint8_t *bytes = malloc(n + 1);
    check(bytes != NULL);
    etwagent__v1__directory__pack(d, bytes);
    ea_text_add(out, bytes, n);
    free(bytes);
}

/* A short directory that could be read is written again, and takes no more bytes then. */
static void check_short(const uint8_t *raw, size_t len_bytes) {
    ea_arena arena;
    ea_text first, second;
    Etwagent__V1__Directory *d, *again;
    ea_err err;
    size_t n = 0, block, frame_bytes = ZSTD_compressBound(len_bytes) + EA_ZSTD_HEAD_BYTES;
    uint8_t *out = malloc(frame_bytes), *frame = malloc(frame_bytes);
    check(out && frame);
    ea_arena_init(&arena, EA_BATCH_MAX_RAW_BYTES);
    ea_text_init(&first);
    ea_text_init(&second);
    if (!ea_short_directory_unpack(raw, len_bytes, &arena, &d, &err)) {
        check(ea_short_directory_pack(d, out, len_bytes, &n) && n <= len_bytes);
        check(!ea_short_directory_pack(d, out, n - 1, &block));
        check(!ea_short_directory_unpack(out, n, &arena, &again, &err));
        put_directory(d, &first);
        put_directory(again, &second);
        check(first.len_bytes == second.len_bytes && memcmp(first.data, second.data, first.len_bytes) == 0);
    }
    n = ZSTD_compress(frame, frame_bytes, raw, len_bytes, 1);
    check(!ZSTD_isError(n));
    block = ea_short_directory_block(frame, n);
    if (block) {
        ea_short_directory_frame(len_bytes, frame + block, n - block, out);
        check(ZSTD_decompress(frame, len_bytes, out, EA_ZSTD_HEAD_BYTES + n - block) == len_bytes);
        check(memcmp(frame, raw, len_bytes) == 0);
    }
    ea_text_deinit(&first);
    ea_text_deinit(&second);
    ea_arena_deinit(&arena);
    free(out);
    free(frame);
}

/* A long directory has a short form, which can be read, or none. */
static void shorten(const uint8_t *data, size_t len_bytes) {
    ea_arena arena;
    ProtobufCMessage *d;
    ea_err err;
    size_t n;
    uint8_t *out = malloc(EA_SHORT_DIRECTORY_MAX_BYTES);
    check(out != NULL);
    ea_arena_init(&arena, EA_BATCH_MAX_RAW_BYTES);
    if (!ea_pb_check(&etwagent__v1__directory__descriptor, data, len_bytes, NESTED) &&
        !ea_pb_unpack(&etwagent__v1__directory__descriptor, &arena, data, len_bytes, "a directory", &d, &err) &&
        ea_short_directory_pack((const Etwagent__V1__Directory *)d, out, EA_SHORT_DIRECTORY_MAX_BYTES, &n))
        check_short(out, n);
    ea_arena_deinit(&arena);
    free(out);
}

static void check_directory(const uint8_t *data, size_t size) {
    ea_envelope e;
    ea_err err;
    if (ea_envelope_read(&e, data, size, &err) || e.needs_dictionary || !e.directory_bytes ||
        e.directory_bytes > EA_SHORT_DIRECTORY_MAX_BYTES || e.directory_raw_bytes > EA_SHORT_DIRECTORY_MAX_BYTES)
        return;
    (void)ea_short_directory_block(e.directory, e.directory_bytes); /* any bytes */
    (void)ea_short_directory_block(e.directory, e.directory_bytes < 8 ? e.directory_bytes : 8);
    if (!e.is_short) {
        if (!e.directory_raw_bytes)
            shorten(e.directory, e.directory_bytes);
        return;
    }
    if (!e.directory_raw_bytes) {
        check_short(e.directory, e.directory_bytes);
        return;
    }
    size_t n = EA_ZSTD_HEAD_BYTES + e.directory_bytes, raw_bytes = (size_t)e.directory_raw_bytes;
    uint8_t *frame = malloc(n), *raw = malloc(raw_bytes);
    check(frame && raw);
    ea_short_directory_frame(raw_bytes, e.directory, e.directory_bytes, frame);
    if (ZSTD_decompress(raw, raw_bytes, frame, n) == raw_bytes)
        check_short(raw, raw_bytes);
    free(frame);
    free(raw);
}

static void check_tombstones(const ea_batch_head *head, const tombstones *all) {
    ea_err err;
    ea_text out, none;
    ea_batch_head made;
    tombstones again = {.count = 0};
    if (!all->count || all->count > TOMBSTONES)
        return;
    ea_text_init(&out);
    check(!ea_batch_make_tombstone(head->stream, head->number, all->at, all->count, &out, &err));
    const uint8_t *data = (const uint8_t *)out.data;
    check(!ea_batch_read_head(data, out.len_bytes, &made, &err) && made.kind == EA_BATCH_TOMBSTONE);
    check(made.number == head->number && made.tombstone_count == all->count);
    check(!ea_batch_each_tombstone(data, out.len_bytes, on_tombstone, &again, &err));
    for (size_t i = 0; i < all->count; i++) {
        const ea_tombstone *a = &all->at[i], *b = &again.at[i];
        check(a->first == b->first && a->last == b->last && a->cause == b->cause && a->event_count == b->event_count &&
              a->utc_min_ns == b->utc_min_ns && a->utc_max_ns == b->utc_max_ns);
    }
    check_renamed(data, out.len_bytes, &made);
    for (size_t number = 1, left = 0; !left; number++) {
        ea_text_init(&none);
        shortage_begin(number);
        int rc = ea_batch_make_tombstone(head->stream, head->number, all->at, all->count, &none, &err);
        left = shortage_end();
        check(left ? rc == 0 : rc == EA_ENOMEM);
        ea_text_deinit(&none);
    }
    ea_text_deinit(&out);
}

/* ---- a batch, and its definitions outside of it ---- */

typedef struct kept {
    struct {
        enum ea_definition_kind kind;
        const uint8_t *data;
        size_t len_bytes;
        uint8_t hash[EA_CLASS_HASH_BYTES];
    } at[KEPT];

    size_t count;
    unsigned missing;
    int is_empty, is_huge; /* it finds nothing; sources that are too large */
} kept;

static int find_kept(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                     size_t *ret_len_bytes, ea_err *err) {
    static const uint8_t huge[EA_BATCH_MAX_BYTES + 1];
    const kept *k = arg;
    (void)err;
    for (size_t i = 0; !k->is_empty && i < k->count; i++)
        if (k->at[i].kind == kind && memcmp(k->at[i].hash, ref->bytes, ref->len_bytes) == 0) {
            int too_large = k->is_huge && kind == EA_DEFINES_SOURCE;
            *ret_data = too_large ? huge : k->at[i].data;
            *ret_len_bytes = too_large ? sizeof huge : k->at[i].len_bytes;
            return 1;
        }
    return 0;
}

static void on_missing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref) {
    (void)kind;
    check(ref->len_bytes == EA_NAME_BYTES);
    ((kept *)arg)->missing++;
}

/* Without its definitions, which go into k. 0: they are too many. */
static int split(const uint8_t *data, size_t size, kept *k, ea_text *rest) {
    size_t offset = 0, begin = 0;
    ea_err err;
    ea_pb_field f;
    for (; ea_pb_next(data, size, &offset, &f) > 0; begin = offset) {
        if (f.number != EA_BATCH_SOURCES && f.number != EA_BATCH_SHAPES && f.number != EA_BATCH_DICTIONARIES &&
            f.number != EA_BATCH_CONTEXTS) {
            ea_text_add(rest, data + begin, offset - begin);
            continue;
        }
        if (k->count == KEPT)
            return 0;
        k->at[k->count].kind = (enum ea_definition_kind)f.number;
        k->at[k->count].data = f.data;
        k->at[k->count].len_bytes = f.len_bytes;
        check(!ea_definition_hash(f.data, f.len_bytes, k->at[k->count++].hash, &err));
    }
    return 1;
}

static int verified(const ea_text *batch, ea_registry *registry) {
    ea_batch_view *v = NULL;
    ea_err err;
    int rc = ea_batch_open(&v, (const uint8_t *)batch->data, batch->len_bytes, registry, &err);
    if (!rc)
        rc = ea_batch_verify(v, &err);
    ea_batch_close(v);
    return rc;
}

static int find_nothing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                        size_t *ret_len_bytes, ea_err *err) {
    (void)arg, (void)kind, (void)ref, (void)ret_data, (void)ret_len_bytes, (void)err;
    return 0;
}

/* Each allocation of a completion fails once: an answer other than that there is no memory is the whole batch's. */
static void complete_in_a_shortage(const ea_text *rest, const ea_definitions *known) {
    ea_text out;
    ea_err err;
    ea_batch *parsed = NULL;
    shortage_begin(1);
    check(ea_batch_parse(&parsed, (const uint8_t *)rest->data, rest->len_bytes, &err) == EA_ENOMEM);
    (void)shortage_end();
    ea_text_init(&out);
    int whole = ea_batch_complete((const uint8_t *)rest->data, rest->len_bytes, known, &out, &err);
    ea_text_deinit(&out);
    for (size_t number = 1, left = 0; !left && number <= COMPLETIONS; number++) {
        ea_text_init(&out);
        shortage_begin(number);
        int rc = ea_batch_complete((const uint8_t *)rest->data, rest->len_bytes, known, &out, &err);
        left = shortage_end();
        check(rc == whole || (!left && is_shortage(rc)));
        ea_text_deinit(&out);
    }
}

/* A batch that holds all that it names is the same after it was completed out of what it had held. */
static void check_completed(const uint8_t *data, size_t size, const ea_batch_head *head, ea_registry *registry) {
    kept *k = calloc(1, sizeof *k);
    const ea_definitions known = {.arg = k, .find = find_kept, .on_missing = on_missing};
    ea_text rest, whole;
    ea_err err;
    ea_batch *parsed = NULL;
    ea_text_init(&rest);
    ea_text_init(&whole);
    check(k != NULL);
    ea_text_add(&whole, data, size);
    int before = verified(&whole, registry);
    if (!head->is_incomplete && split(data, size, k, &rest) && k->count &&
        !ea_batch_parse(&parsed, (const uint8_t *)rest.data, rest.len_bytes, &err) &&
        ea_batch_parsed_head(parsed)->is_incomplete) {
        const uint8_t *bytes = (const uint8_t *)rest.data;
        k->is_empty = 1;
        check(ea_batch_complete(bytes, rest.len_bytes, &known, &whole, &err) == EA_ENOTFOUND && k->missing);
        check(ea_batch_complete(bytes, rest.len_bytes, &(ea_definitions){.arg = k, .find = find_kept}, &whole, &err) ==
              EA_ENOTFOUND);
        k->is_empty = 0;
        k->is_huge = 1;
        check(ea_batch_complete(bytes, rest.len_bytes, &known, &whole, &err) < 0);
        k->is_huge = 0;
        complete_in_a_shortage(&rest, &known);
        int rc = ea_batch_complete_parsed(parsed, &(ea_definitions){.find = find_nothing}, &whole, &err);
        check(rc == EA_ENOTFOUND || before);
        check(!ea_batch_parse(&parsed, bytes, rest.len_bytes, &err));
        rc = ea_batch_complete_parsed(parsed, &known, &whole, &err);
        check(rc == 0 || before);
        if (!rc) {
            const ea_batch_head *made = ea_batch_parsed_head(parsed);
            check(!made->is_incomplete && made->checksum == head->checksum && made->source_count == head->source_count);
            check(made->time_min == head->time_min && strcmp(made->host, head->host) == 0);
            check(verified(&whole, registry) == before);
            check_directory((const uint8_t *)whole.data, whole.len_bytes);
        }
        for (size_t i = 0; i < k->count; i++) /* in another order */
            ea_batch_add_definition(&rest, k->at[i].kind, k->at[i].data, k->at[i].len_bytes);
        check(verified(&rest, registry) == before);
    }
    ea_batch_free(parsed);
    ea_text_deinit(&rest);
    ea_text_deinit(&whole);
    free(k);
}

/* ---- without memory ---- */

/* Records first, then columns first: a batch with two faults is refused for the fault that is met first. */
static void read_in_a_shortage(const uint8_t *data, size_t size) {
    ea_registry *registry;
    ea_err err;
    size_t number = SIZE_MAX, allocations[2] = {0};
    int whole[2] = {0};
    if (size > SMALL_BYTES)
        return;
    uint64_t hash = size;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * UINT64_C(1099511628211);
    for (int i = 0; i < 2 + SHORTAGES; i++) {
        int order = i & 1;
        check(!ea_registry_create(&registry, 1000, &err));
        shortage_begin(number);
        int rc = shortage_read_batch(data, size, registry, order, &err);
        size_t left = shortage_end();
        ea_registry_destroy(registry);
        if (i < 2) {
            whole[order] = rc;
            allocations[order] = SIZE_MAX - left;
        }
        check(i < 2 || rc == whole[order] || is_shortage(rc));
        check(i != 1 || (whole[0] < 0) == (whole[1] < 0));
        if (!allocations[0])
            return;
        if (i)
            number = 1 + (hash + (size_t)i * allocations[!order] / SHORTAGES) % allocations[!order];
    }
}

/* replay_main.c measures how much a reader's work grows with its input: what this target does beside it does not count.
 */
static int is_measured(void) {
    return getenv("EA_FUZZ_MEASURED") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const int reads_only = is_measured();
    ea_err err;
    ea_batch_head head;
    unsigned descriptions = 0;
    tombstones gone = {.count = 0};
    int rc = ea_batch_read_head(data, size, &head, &err);
    check_numbers(data, size);
    if (rc == 0) {
        check(!ea_batch_each_description(data, size, on_description, &descriptions, &err));
        check(descriptions == head.description_count && head.time_min <= head.time_max);
        if (!ea_batch_each_tombstone(data, size, on_tombstone, &gone, &err)) {
            check(gone.count == head.tombstone_count);
            check_tombstones(&head, &gone);
        }
        check_origin(&head);
        if (!reads_only) {
            check_renamed(data, size, &head);
            check_directory(data, size);
        }
    } else if (!reads_only) {
        static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "renamed";
        ea_text out;
        ea_text_init(&out);
        (void)!ea_batch_rename(data, size, STREAM, 7, &out, &err);
        ea_text_deinit(&out);
    }
    (void)!ea_batch_each_count(data, size, on_count, NULL, &err);
    (void)!ea_batch_each_count(data, size, stop_at_count, NULL, &err);
    (void)!ea_batch_each_tombstone(data, size, stop_at_tombstone, NULL, &err);
    ea_text text;
    ea_text_init(&text);
    if (!reads_only)
        (void)!ea_source_origin(data, size, &text, &text, &err);
    ea_text_deinit(&text);
    (void)!ea_batch_each_definition(data, size, stop_at_definition, NULL, &err);
    ea_batch_view *v = NULL;
    if (!ea_batch_open(&v, data, size, NULL, &err)) {
        const ea_record *r;
        const ea_class *c;
        check(rc == 0);
        for (size_t k = 0; k < ea_batch_group_count(v); k++)
            touch(ea_batch_group_hash(v, k), EA_CLASS_HASH_BYTES);
        check(!head.event_count || ea_batch_next(v, &r, &c, &err) == EA_EINVAL);
        ea_batch_close(v);
    }
    v = NULL;
    ea_registry *registry = NULL;
    check(!ea_registry_create(&registry, 1000, &err));
    for (int order = 0; order < 2; order++) {
        if (ea_batch_open_next(&v, data, size, registry, &err)) { /* the second time with the memory of the first */
            check(!v);
            break;
        }
        /* columns before records, and the other way round: what is decoded first must not matter */
        if (order)
            read_columns(v);
        read_records(v, head.event_count);
        if (!order)
            read_columns(v);
        check(ea_batch_cost(v) > 0 || !head.event_count);
        if (!order && !reads_only && size <= SMALL_BYTES)
            check_completed(data, size, &head, registry);
    }
    if (v && !ea_batch_open_next(&v, data, size / 2, registry, &err))
        read_records(v, ea_batch_get_head(v)->event_count);
    ea_batch_close(v);
    ea_registry_destroy(registry);
    if (!reads_only)
        read_in_a_shortage(data, size);
    return 0;
}
