/* etwagent dictionary train: makes a zstd dictionary for small batches from traces of machines like those that will use
 * it. Called by: main.c. Calls: service/batch (what the batches look like), dictionary.h. Thread: the main one.
 */
#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "service/app/agent_commands.h"
#include "service/batch/builder.h"
#include "service/batch/dictionary.h"
#include "service/decode/decoder.h"
#include "service/source/source.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_MAX_BYTES = 64 << 20, /* beyond, what comes is not looked at */
};

typedef struct options {
    const char *out;
    uint64_t bytes, batch_events;
    int json;
} options;

/* The uncompressed contents of small batches, one after the other. */
typedef struct samples {
    uint8_t *data;
    size_t *sizes;
    size_t len_bytes, capacity, count, size_capacity;
} samples;

typedef struct measured {
    uint64_t batches, with_bytes, without_bytes;
} measured;

/* One pass over the traces. dictionary NULL: every second batch becomes a sample. Else: the others are measured. */
typedef struct pass {
    const options *o;
    samples *samples;
    measured *measured;
    ea_builder *builder;
    ea_encoder *with, *without;
    uint64_t number;
    ea_err *err;
} pass;

static int keep_sample(samples *s, const uint8_t *data, size_t n) {
    if (n > SAMPLES_MAX_BYTES - s->len_bytes)
        return 0;
    if (EA_GROW(s->data, s->capacity, s->len_bytes + n, SAMPLES_MAX_BYTES) ||
        EA_GROW(s->sizes, s->size_capacity, s->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    memcpy(s->data + s->len_bytes, data, n);
    s->len_bytes += n;
    s->sizes[s->count++] = n;
    return 0;
}

static int dictionary_know(enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes, void *arg) {
    uint8_t hash[EA_CLASS_HASH_BYTES];
    (void)kind;
    int rc = ea_definition_hash(data, len_bytes, hash, NULL);
    if (!rc)
        ea_encoder_known(arg, hash);
    return rc;
}

/* The batch as it is once the collector has all that it names; its bytes. */
static int dictionary_encode(pass *p, ea_encoder *e, const ea_open_batch *batch, size_t *ret_bytes) {
    const uint8_t *data;
    ea_batch_stamp stamp = {.number = p->number};
    int rc = ea_encoder_encode(e, batch, &stamp, &data, ret_bytes, p->err);
    if (!rc)
        rc = ea_batch_each_definition(data, *ret_bytes, dictionary_know, e, p->err);
    if (!rc)
        rc = ea_encoder_encode(e, batch, &stamp, &data, ret_bytes, p->err);
    return rc;
}

static int dictionary_take(pass *p) {
    size_t with = 0, without = 0, directory_bytes;
    const uint8_t *directory;
    ea_open_batch *batch = ea_builder_take(p->builder);
    if (!batch)
        return 0;
    int is_sample = p->number++ % 2 == 0, rc = 0;
    if (is_sample == !p->with) {
        rc = dictionary_encode(p, p->without, batch, &without);
        if (!rc && p->with)
            rc = dictionary_encode(p, p->with, batch, &with);
        p->measured->batches++;
        p->measured->without_bytes += without;
        p->measured->with_bytes += with;
        ea_encoder_last_directory(p->without, &directory, &directory_bytes);
        if (!rc && !p->with && directory_bytes && (rc = keep_sample(p->samples, directory, directory_bytes)))
            rc = ea_fail(p->err, rc, "train a dictionary");
    }
    ea_open_batch_release(batch);
    return rc;
}

static int dictionary_read_all(pass *p, ea_source *source, ea_decoder *decoder) {
    const ea_record *r;
    int rc;
    while ((rc = ea_source_next(source, &r, p->err)) > 0) {
        enum ea_counter outcome;
        const ea_class *c = ea_decoder_find(decoder, &r, &outcome);
        int full = ea_builder_add(p->builder, r, c);
        if (full == EA_EFULL) {
            if ((rc = dictionary_take(p)))
                return rc;
            full = ea_builder_add(p->builder, r, c);
        }
        if (full < 0 && full != EA_ELIMIT) /* a record that no batch can hold is none of ours */
            return ea_fail(p->err, full, "train a dictionary");
        if (full > 0 && (rc = dictionary_take(p)))
            return rc;
    }
    return rc;
}

/* Each operand is a trace of its own: machines are not mixed in a batch. */
static int read_trace(const options *o, const char *path, const uint8_t *dictionary, size_t dictionary_bytes,
                      samples *kept, measured *m, ea_err *err) {
    pass p = {.o = o, .samples = kept, .measured = m, .err = err};
    ea_source *source = NULL;
    ea_decoder *decoder = NULL;
    uint8_t hash[EA_CLASS_HASH_BYTES];
    ea_etl_options etl = {0};
    int rc = ea_source_open_files(&source, &path, 1, 0, &etl, err);
    if (!rc)
        rc = ea_decoder_create(&decoder, NULL, NULL, err);
    if (!rc)
        rc = ea_builder_create(&p.builder,
                               &(ea_builder_options){.max_events = (uint32_t)o->batch_events,
                                                     .sources = ea_source_row(source, 0),
                                                     .source_count = 1},
                               err);
    if (!rc)
        rc = ea_encoder_create(&p.without, &(ea_encoder_options){0}, err);
    if (!rc && dictionary)
        rc = ea_encoder_create(
            &p.with, &(ea_encoder_options){.dictionary = dictionary, .dictionary_bytes = dictionary_bytes}, err);
    if (!rc && dictionary)
        rc = ea_definition_hash(dictionary, dictionary_bytes, hash, err);
    if (!rc && dictionary)
        ea_encoder_known(p.with, hash);
    if (!rc)
        rc = dictionary_read_all(&p, source, decoder);
    ea_encoder_destroy(p.with);
    ea_encoder_destroy(p.without);
    ea_builder_destroy(p.builder);
    ea_decoder_destroy(decoder);
    ea_source_close(source);
    return rc;
}

static void dictionary_print(const options *o, size_t dictionary_bytes, const samples *s, const measured *m) {
    double with = m->batches ? (double)m->with_bytes / (double)m->batches : 0,
           without = m->batches ? (double)m->without_bytes / (double)m->batches : 0;
    printf(o->json
               ? "{\"dictionary_bytes\": %zu, \"samples\": %zu, \"sample_bytes\": %zu, \"measured_batches\": %" PRIu64
                 ", \"bytes_with\": %.1f, \"bytes_without\": %.1f}\n"
               : "%zu bytes, from %zu small batches of %zu bytes; %" PRIu64
                 " others take %.1f bytes each with it and %.1f without\n",
           dictionary_bytes, s->count, s->len_bytes, m->batches, with, without);
}

static int dictionary_run(const void *opts, int operand_count, char **operands) {
    const options *o = opts;
    samples kept = {0};
    measured first = {0}, second = {0};
    uint8_t *dictionary = NULL;
    size_t dictionary_bytes = 0;
    ea_err err = {0};
    int rc = 0;
    for (int i = 0; !rc && i < operand_count; i++)
        rc = read_trace(o, operands[i], NULL, 0, &kept, &first, &err);
    if (!rc)
        rc = ea_dictionary_make(kept.data, kept.sizes, kept.count, (size_t)o->bytes, &dictionary, &dictionary_bytes,
                                &err);
    for (int i = 0; !rc && i < operand_count; i++)
        rc = read_trace(o, operands[i], dictionary, dictionary_bytes, &kept, &second, &err);
    if (!rc)
        rc = ea_path_write_all(o->out, dictionary, dictionary_bytes, 1, &err);
    if (!rc)
        dictionary_print(o, dictionary_bytes, &kept, &second);
    free(dictionary);
    free(kept.data);
    free(kept.sizes);
    if (!rc)
        return 0;
    ea_err_print(stderr, "etwagent", &err);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_dictionary_train = {
    .name = "dictionary train",
    .operands = "TRACE...",
    .summary = "Make a zstd dictionary for small batches from traces",
    .details =
        "Cuts the traces, each for itself, into small batches, makes a dictionary of every second one, and says "
        "what\n"
        "the others take with it and without. The traces should be of machines like those that will use it (option\n"
        "--dictionary of replay, dictionary in a configuration file). It holds pieces of the traces' events: the file "
        "is\n"
        "made for its owner only.\n"
        "Exit codes: 0 made, 1 failed, 2 usage, 3 not a trace.\n\n"
        "JSON keys: dictionary_bytes, samples, sample_bytes, measured_batches, bytes_with, bytes_without.",
    .options =
        (const ea_option[]){
            {.name = "out",
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, out),
             .required = 1,
             .help = "the dictionary"},
            {.name = "bytes",
             .argument = "SIZE",
             .type = EA_OPT_SIZE,
             .offset = offsetof(options, bytes),
             .fallback = "256KiB",
             .min = 1024,
             .max = EA_DICTIONARY_MAX_BYTES,
             .help = "how large it may be; each stream sends it once"},
            {.name = "batch-events",
             .argument = "N",
             .type = EA_OPT_U64,
             .offset = offsetof(options, batch_events),
             .fallback = "20",
             .min = 1,
             .max = EA_SMALL_BATCH_EVENTS,
             .help = "events in a small batch"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = dictionary_run,
    .min_operands = 1,
    .max_operands = -1,
};
