/* Writes copies of a collector's store in which one field of one record is altered. test_altered_store.py uses the
 * copies to show that each change of a record's identity is detected. The program decodes one batch of the store, flips
 * one bit of one of its records, encodes the batch again and appends it. So every hash of the segment and of the index
 * is correct. Only the batch's own checksum, or a comparison with the source, can reveal the change.
 *
 *   alter_store copy --seed N STORE FOLDER
 *
 * For each field it writes FOLDER/<field>-made, with a checksum computed for the altered records, and
 * FOLDER/<field>-kept, with the original checksum, which a store that verifies checksums must refuse. It also writes
 * FOLDER/none-made, where the batch is encoded again without a change. It prints a line of JSON for each copy: field,
 * checksum, store, stream, batch, event (its number in the stream, from 0).
 *
 * Called by: tests/e2e/test_altered_store.py, which reads the copies with `etwcollector export`. Calls: ec_store,
 * ea_encoder. Thread: one. */
#include "collector/store/store.h"
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "proto/wire/envelope.h"
#include "service/batch/builder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum what { NOTHING, PLAIN, ITEM_TYPE, ITEM_LINKAGE, ITEM_DATA, ITEM_LOST, PAYLOAD, PAYLOAD_CUT };

typedef struct field {
    const char *name;
    enum what what;
    size_t offset, size; /* PLAIN: in ea_record */
} field;

#define AT(f) .what = PLAIN, .offset = offsetof(ea_record, f), .size = sizeof((ea_record *)0)->f
static const field FIELDS[] = {
    {.name = "none"},
    {.name = "provider", AT(provider)},
    {.name = "id", AT(id)},
    {.name = "version", AT(version)},
    {.name = "channel", AT(channel)},
    {.name = "level", AT(level)},
    {.name = "opcode", AT(opcode)},
    {.name = "task", AT(task)},
    {.name = "keyword", AT(keyword)},
    {.name = "time", AT(time_raw)},
    {.name = "pid", AT(pid)},
    {.name = "tid", AT(tid)},
    {.name = "cpu", AT(cpu)},
    {.name = "logger", AT(logger)},
    {.name = "flags", AT(flags)},
    {.name = "property", AT(property)},
    {.name = "kernel-time", AT(kernel_time)},
    {.name = "user-time", AT(user_time)},
    {.name = "activity-id", AT(activity_id)},
    {.name = "pointer-size", AT(pointer_size)},
    {.name = "item-type", .what = ITEM_TYPE},
    {.name = "item-linkage", .what = ITEM_LINKAGE},
    {.name = "item-data", .what = ITEM_DATA},
    {.name = "item-lost", .what = ITEM_LOST},
    {.name = "payload", .what = PAYLOAD},
    {.name = "payload-cut", .what = PAYLOAD_CUT},
    {.name = "header-type", AT(header_type)},
    {.name = "hook-id", AT(hook_id)},
    {.name = "header-word", AT(header_word)},
    /* the lowest bit alone: the other source has to exist */
    {.name = "source", AT(source)},
};

typedef struct options {
    uint64_t seed;
} options;

typedef struct job {
    ec_store *from;
    ec_stream_row stream;
    ea_registry *registry;
    ec_batch_row batch;   /* the batch to alter */
    uint64_t first_event; /* the number of its first event in the stream */
    uint32_t *with_items; /* its records with a payload and an extended item that has data */
    uint32_t count;
    uint8_t *data; /* the batch as it was */
    size_t len_bytes;
    uint64_t random;
    ea_err *err;
} job;

static uint64_t next_random(job *j) { /* xorshift64* */
    j->random ^= j->random >> 12;
    j->random ^= j->random << 25;
    j->random ^= j->random >> 27;
    return j->random * 0x2545f4914f6cdd1du;
}

static int on_stream(const ec_stream_row *row, void *arg) {
    job *j = arg;
    j->stream = *row;
    return 0;
}

/* Takes the batch in the middle of the stream that has records with extended items. */
static int choose(job *j) {
    ec_batch_row row = {0};
    uint64_t events = 0;
    int rc = ec_store_each_stream(j->from, NULL, on_stream, j, j->err);
    if (rc)
        return rc;
    while ((rc = ec_store_next_batch(j->from, j->stream.stream_id, row.number, &row, j->err)) == 1) {
        const uint8_t *data;
        size_t len_bytes;
        ea_batch_view *v = NULL;
        const ea_record *r;
        const ea_class *c;
        uint32_t n = 0;
        if (row.number > j->stream.batch_count / 2 && row.event_count) {
            j->with_items = calloc(row.event_count, sizeof *j->with_items);
            if (!j->with_items)
                return ea_fail(j->err, EA_ENOMEM, "read a batch");
            rc = ec_store_read(j->from, &row, &data, &len_bytes, j->err);
            if (!rc)
                rc = ec_store_load_classes(j->from, j->stream.stream_id, data, len_bytes, j->registry, j->err);
            if (!rc)
                rc = ea_batch_open(&v, data, len_bytes, j->registry, j->err);
            while (!rc && (rc = ea_batch_next(v, &r, &c, j->err)) == 1) {
                rc = 0;
                if (r->ext_count && r->ext[0].size_bytes && r->payload_bytes)
                    j->with_items[j->count++] = n;
                n++;
            }
            ea_batch_close(v);
            if (rc)
                return rc;
            if (j->count) {
                j->batch = row;
                j->first_event = events;
                j->len_bytes = len_bytes;
                j->data = malloc(len_bytes);
                if (!j->data)
                    return ea_fail(j->err, EA_ENOMEM, "read a batch");
                memcpy(j->data, data, len_bytes);
                return 0;
            }
            free(j->with_items);
            j->with_items = NULL;
        }
        events += row.event_count;
    }
    return rc ? rc : ea_fail(j->err, EA_ENOTFOUND, "the store has no batch with extended items");
}

/* One bit of one field is another afterwards. items and bytes are the record's own copies. */
static void alter(job *j, const field *f, ea_record *r, ea_ext *items, uint8_t *bytes, uint8_t *item_bytes) {
    uint64_t bit = next_random(j);
    unsigned i = r->ext_count ? (unsigned)(next_random(j) % r->ext_count) : 0;
    memcpy(items, r->ext, r->ext_count * sizeof *items);
    memcpy(bytes, r->payload, r->payload_bytes);
    r->ext = items;
    r->payload = bytes;
    switch (f->what) {
    case NOTHING:
        break;
    case PLAIN:
        bit %= f->offset == offsetof(ea_record, source) ? 1 : 8 * f->size;
        ((uint8_t *)r)[f->offset + bit / 8] ^= (uint8_t)(1u << bit % 8);
        break;
    case ITEM_TYPE:
        items[i].type ^= (uint16_t)(1u << bit % 16);
        break;
    case ITEM_LINKAGE:
        items[i].linkage ^= (uint16_t)(1u << bit % 16);
        break;
    case ITEM_DATA:
        i = 0; /* it has some */
        memcpy(item_bytes, items[i].data, items[i].size_bytes);
        bit %= 8 * (uint64_t)items[i].size_bytes;
        item_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        items[i].data = item_bytes;
        break;
    case ITEM_LOST:
        r->ext_count--;
        break;
    case PAYLOAD:
        bit %= 8 * (uint64_t)r->payload_bytes;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        break;
    case PAYLOAD_CUT:
        r->payload_bytes--;
        break;
    }
}

/* The batch again, with record `which` altered; *ret_data is the encoder's. */
static int encode(job *j, ea_builder *builder, ea_encoder *encoder, ea_batch_view *view, const field *f, uint32_t which,
                  const uint8_t **ret_data, size_t *ret_len_bytes) {
    static uint8_t bytes[UINT16_MAX], item_bytes[UINT16_MAX];
    const ea_record *stored;
    const ea_class *c;
    int rc = 0;
    for (uint32_t n = 0; (rc = ea_batch_next(view, &stored, &c, j->err)) == 1; n++) {
        ea_record r = *stored;
        ea_ext items[EA_EXT_MAX];
        if (n == which)
            alter(j, f, &r, items, bytes, item_bytes);
        /* The store has the classes of the other records, also those from a manifest in the trace. The altered record
         * may be of another class, so its class is looked up again. */
        rc = ea_builder_add(builder, &r, n == which && f->what != NOTHING ? ea_registry_find(j->registry, &r) : c);
        if (rc < 0)
            return ea_fail(j->err, rc, "add a record with another %s", f->name);
    }
    ea_open_batch *open = rc ? NULL : ea_builder_take(builder);
    if (!open)
        return rc ? rc : ea_fail(j->err, EA_EINVAL, "close the batch");
    rc =
        ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = j->batch.number}, ret_data, ret_len_bytes, j->err);
    ea_open_batch_release(open);
    return rc;
}

/* Puts another checksum into a batch's envelope. */
static int put_checksum(uint8_t *batch, size_t len_bytes, uint64_t checksum, ea_err *err) {
    enum { BATCH_CHECKSUM = 6 };

    ea_pb_field f;
    for (size_t offset = 0; ea_pb_next(batch, len_bytes, &offset, &f) == 1;)
        if (f.number == BATCH_CHECKSUM && f.type == 1) {
            ea_store64(batch + offset - 8, checksum);
            return 0;
        }
    return ea_fail(err, EA_ECORRUPT, "the batch has no checksum");
}

/* Writes a new store with all batches of the old store; the altered batch replaces j->batch. trusts: no checksum is
 * verified, as if a program wrote to the store's files directly. */
static int copy_store(job *j, const char *path, int trusts, const uint8_t *altered, size_t altered_bytes) {
    ec_store *to = NULL;
    ec_batch_row row = {0};
    int rc = ec_store_open(&to, path, &(ec_store_options){.writable = 1, .trusts_checksums = trusts}, j->err);
    while (!rc && (rc = ec_store_next_batch(j->from, j->stream.stream_id, row.number, &row, j->err)) == 1) {
        const uint8_t *data = altered;
        size_t len_bytes = altered_bytes;
        rc = row.number == j->batch.number ? 0 : ec_store_read(j->from, &row, &data, &len_bytes, j->err);
        if (!rc)
            rc = ec_store_append(to, j->stream.host, data, len_bytes, j->err);
        if (rc != EC_STORED)
            break;
        rc = 0;
    }
    if (!rc)
        rc = ec_store_commit(to, j->err);
    ec_store_close(to);
    return rc;
}

static int write_copies(job *j, const field *f, const char *folder) {
    ea_batch_view *view = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_wire_source *sources = NULL;
    const uint8_t *data;
    uint8_t *copy = NULL;
    size_t len_bytes;
    int rc = ea_batch_open(&view, j->data, j->len_bytes, j->registry, j->err);
    if (rc)
        return rc;
    const ea_batch_head *head = ea_batch_get_head(view);
    size_t count = ea_batch_source_count(view);
    sources = calloc(count, sizeof *sources);
    for (size_t i = 0; sources && i < count; i++)
        sources[i] = *ea_batch_source(view, i);
    ea_encoder_options e = {.all_descriptions = 1};
    memcpy(e.stream, head->stream, sizeof e.stream);
    rc = sources ? ea_builder_create(&builder,
                                     &(ea_builder_options){.max_events = head->event_count + 1,
                                                           .max_bytes = 8 << 20,
                                                           .sources = sources,
                                                           .source_count = count},
                                     j->err)
                 : ea_fail(j->err, EA_ENOMEM, "read a batch");
    if (!rc)
        rc = ea_encoder_create(&encoder, &e, j->err);
    uint32_t which = j->with_items[next_random(j) % j->count];
    if (!rc)
        rc = encode(j, builder, encoder, view, f, which, &data, &len_bytes);
    if (!rc && !(copy = malloc(len_bytes)))
        rc = ea_fail(j->err, EA_ENOMEM, "copy a batch");
    if (!rc)
        memcpy(copy, data, len_bytes);
    for (int kept = 0; !rc && kept <= (f->what != NOTHING); kept++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s-%s", folder, f->name, kept ? "kept" : "made");
        if (kept)
            rc = put_checksum(copy, len_bytes, head->checksum, j->err);
        if (!rc && kept) { /* a collector does not take it */
            char refusing[4096];
            ea_err refusal = {0}, *err = j->err;
            snprintf(refusing, sizeof refusing, "%s/%s-refused", folder, f->name);
            j->err = &refusal;
            int refused = copy_store(j, refusing, 0, copy, len_bytes);
            j->err = err;
            if (refused != EA_ECORRUPT)
                rc = ea_fail(j->err, EA_EINVAL, "a store took a batch whose %s is not what its checksum says (%s)",
                             f->name, ea_code_name(refused));
        }
        if (!rc)
            rc = copy_store(j, path, 1, copy, len_bytes);
        if (!rc)
            printf("{\"field\":\"%s\",\"checksum\":\"%s\",\"store\":\"%s\",\"batch\":%" PRIu64 ",\"event\":%" PRIu64
                   "}\n",
                   f->name, kept ? "kept" : "made", path, j->batch.number, j->first_event + which);
    }
    free(copy);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    free(sources);
    ea_batch_close(view);
    return rc;
}

static int run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    job j = {.random = o->seed * 2 + 1, .err = &err};
    (void)operand_count;
    int rc = ec_store_open(&j.from, operands[0], &(ec_store_options){0}, &err);
    if (!rc)
        rc = ea_registry_create(&j.registry, 0, &err);
    if (!rc)
        rc = choose(&j);
    for (size_t i = 0; !rc && i < sizeof FIELDS / sizeof *FIELDS; i++)
        rc = write_copies(&j, &FIELDS[i], operands[1]);
    if (rc)
        ea_err_print(stderr, "alter_store", &err);
    free(j.with_items);
    free(j.data);
    ea_registry_destroy(j.registry);
    ec_store_close(j.from);
    return rc ? 1 : 0;
}

static const ea_option OPTIONS[] = {
    {.name = "seed",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, seed),
     .fallback = "1",
     .help = "which record and which bit"},
    {.name = NULL},
};
static const ea_command COMMAND = {.name = "copy",
                                   .operands = "STORE FOLDER",
                                   .summary = "Copy a store once a field, with that field of one record altered",
                                   .details = "",
                                   .options = OPTIONS,
                                   .options_size = sizeof(options),
                                   .run = run,
                                   .min_operands = 2,
                                   .max_operands = 2};
static const ea_command *const COMMANDS[] = {&COMMAND, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("alter_store", "0.1.0", "Stores in which one field is another.", COMMANDS, argc, argv);
}
