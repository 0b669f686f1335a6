/* The C reader's half of test_wire_differential.py: a process that reads batches and prints the records in them.
 *
 * stdin has requests: u32 what, u32 argument, u32 length in bytes, and the bytes. stdout has answers: u32 code, u32
 * length in bytes, and the bytes. All numbers are little-endian.
 *   READ:    reads the whole batch, with only the definitions that the batch holds. The answer is code 0 and the
 *            records, or the reader's error (as a positive number) and its sentence.
 *   MUTATE:  tests/fuzz/batch_mutator.c changes the batch, with the argument as its seed. The result has at most
 *            MUTANT_MAX_BYTES, or the length of the request when that is more. The answer is code 0 and the batch.
 *
 * A record is 72 bytes (its numbers), its payload, and for each extended item 8 bytes and its data: see put_record.
 * The events' numbers of arrival and the groups' weights follow the records. The process ends at the end of stdin. */
#include "proto/wire/checksum.h"
#include "proto/wire/wire.h"
#include "tests/fuzz/batch_mutator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { READ, MUTATE };

enum { REQUEST_MAX_BYTES = 17 << 20, MUTANT_MAX_BYTES = 1 << 17 };

static unsigned state;

/* Some bytes are others, or there are fewer or more of them: what libFuzzer would do. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    state = state * 1103515245u + 12345u;
    unsigned by = state >> 8;
    size_t at = size ? by % size : 0;
    if (by % 5 == 0 && size < max_size) {
        memmove(data + at + 1, data + at, size - at);
        data[at] = (uint8_t)(by >> 4);
        return size + 1;
    }
    if (by % 5 == 1 && size > 1) {
        memmove(data + at, data + at + 1, size - at - 1);
        return size - 1;
    }
    if (size)
        data[at] = by % 5 == 2 ? (uint8_t)(by >> 5) : (uint8_t)(data[at] ^ 1u << by / 5 % 8);
    return size;
}

static int has_nothing(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                       size_t *ret_len_bytes, ea_err *err) {
    (void)arg;
    (void)kind;
    (void)ref;
    (void)ret_data;
    (void)ret_len_bytes;
    (void)err;
    return 0;
}

/* What a store looks at in each definition, whether the batch uses it or not. */
static int check_definition(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg) {
    size_t most = kind == EA_DEFINES_CLASS        ? EA_DESCRIPTION_MAX_BYTES
                  : kind == EA_DEFINES_DICTIONARY ? EA_DICTIONARY_MAX_BYTES
                                                  : EA_SHAPE_MAX_BYTES;
    (void)data;
    return data_bytes <= most ? 0 : ea_fail(arg, EA_ELIMIT, "a definition of %zu bytes", data_bytes);
}

static int check_tombstone(const ea_tombstone *t, void *arg) {
    (void)t;
    (void)arg;
    return 0;
}

static void put_u16(ea_text *out, uint16_t v) {
    uint8_t bytes[2];
    ea_store16(bytes, v);
    ea_text_add(out, bytes, sizeof bytes);
}

static void put_u32(ea_text *out, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    ea_text_add(out, bytes, sizeof bytes);
}

static void put_u64(ea_text *out, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(out, bytes, sizeof bytes);
}

static void put_record(ea_text *out, const ea_record *r) {
    put_u64(out, (uint64_t)r->time_raw);
    put_u64(out, r->keyword);
    put_u32(out, r->pid);
    put_u32(out, r->tid);
    put_u32(out, r->kernel_time);
    put_u32(out, r->user_time);
    ea_text_add(out, &r->activity_id, sizeof r->activity_id);
    ea_text_add(out, &r->provider, sizeof r->provider);
    const uint16_t words[] = {r->cpu,      r->source,       r->id,          r->task,      r->logger,       r->flags,
                              r->property, r->hook_id,      r->header_word, r->version,   r->channel,      r->level,
                              r->opcode,   r->pointer_size, r->header_type, r->ext_count, r->payload_bytes};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        put_u16(out, words[i]);
    if (r->payload_bytes)
        ea_text_add(out, r->payload, r->payload_bytes);
    for (unsigned i = 0; i < r->ext_count; i++) {
        put_u16(out, r->ext[i].type);
        put_u16(out, r->ext[i].linkage);
        put_u32(out, r->ext[i].size_bytes);
        if (r->ext[i].size_bytes)
            ea_text_add(out, r->ext[i].data, r->ext[i].size_bytes);
    }
}

static int put_all(ea_batch_view *v, ea_text *out, ea_err *err) {
    const ea_record *r;
    const ea_class *c;
    const uint64_t *sequence = NULL;
    uint64_t first = 0;
    int rc = ea_batch_verify(v, err);
    while (!rc && (rc = ea_batch_next(v, &r, &c, err)) > 0) {
        put_record(out, r);
        rc = 0;
    }
    int has_own = rc ? 0 : ea_batch_sequence(v, &sequence, &first, err);
    if (rc || has_own < 0)
        return rc ? rc : has_own;
    for (uint32_t i = 0; i < ea_batch_get_head(v)->event_count; i++)
        put_u64(out, has_own ? sequence[i] : first + i);
    return out->failed ? ea_fail(err, EA_ENOMEM, "print records") : 0;
}

static int read_batch(const uint8_t *data, size_t size, ea_text *out, ea_err *err) {
    static const ea_definitions none = {.find = has_nothing};
    ea_registry *registry = NULL;
    ea_batch_view *v = NULL;
    ea_text whole;
    ea_text_init(&whole);
    ea_batch_head head;
    int rc = ea_batch_read_head(data, size, &head, err);
    if (!rc)
        rc = ea_batch_each_definition(data, size, check_definition, err, err);
    if (!rc)
        rc = ea_batch_each_tombstone(data, size, check_tombstone, NULL, err);
    if (!rc)
        rc = ea_registry_create(&registry, 0, err);
    if (!rc && (rc = ea_batch_complete(data, size, &none, &whole, err)) > 0) {
        data = (const uint8_t *)whole.data;
        size = whole.len_bytes;
        rc = 0;
    }
    if (!rc)
        rc = ea_batch_open(&v, data, size, registry, err);
    if (!rc)
        rc = put_all(v, out, err);
    ea_batch_close(v);
    ea_registry_destroy(registry);
    ea_text_deinit(&whole);
    return rc;
}

static void answer(uint32_t code, const void *data, size_t bytes) {
    uint8_t head[8];
    ea_store32(head, code);
    ea_store32(head + 4, (uint32_t)bytes);
    fwrite(head, 1, sizeof head, stdout);
    fwrite(data, 1, bytes, stdout);
    fflush(stdout);
}

static int serve(void) {
    uint8_t head[12];
    ea_text out;
    ea_text_init(&out);
    while (fread(head, 1, sizeof head, stdin) == sizeof head) {
        uint32_t what = ea_load32(head), argument = ea_load32(head + 4), bytes = ea_load32(head + 8);
        if (bytes > REQUEST_MAX_BYTES || what > MUTATE)
            break;
        /* an exact allocation, so that a sanitizer sees a read past the end */
        size_t room = what == MUTATE && bytes < MUTANT_MAX_BYTES ? MUTANT_MAX_BYTES : bytes;
        uint8_t *data = malloc(room ? room : 1);
        if (!data || fread(data, 1, bytes, stdin) != bytes) {
            free(data);
            break;
        }
        ea_text_clear(&out);
        if (what == MUTATE) {
            state = argument;
            answer(0, data, batch_mutate(data, bytes, room, argument));
        } else {
            ea_err err = {0};
            int rc = read_batch(data, bytes, &out, &err);
            answer(rc ? (uint32_t)-rc : 0, rc ? err.message : out.data, rc ? strlen(err.message) : out.len_bytes);
        }
        free(data);
    }
    ea_text_deinit(&out);
    return feof(stdin) ? 0 : 1;
}

int main(void) {
    return serve();
}
