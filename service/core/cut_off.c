/* Closing batches of streams that were cut off. See cut_off.h. */
#include "service/core/cut_off.h"
#include "proto/base/platform.h"
#include "proto/event/event.h"
#include "service/batch/builder.h"
#include "service/spool/recorder.h"

#include <stdlib.h>
#include <string.h>

typedef struct closing {
    ea_spool *spool;
    const char *root;
    const ea_spool_keys *keys;
    ea_counters ledger;
    ea_ledger_count families[EA_LEDGER_FAMILIES * EA_LEDGER_FAMILY_COUNTERS];
    ea_err *err;
} closing;

static size_t list_families(closing *c, const ea_spool_cut_off *of) {
    size_t n = 0;
    for (unsigned f = 0; of->are_families_settled && f < EA_LEDGER_FAMILIES; f++)
        for (size_t k = 0; k < EA_LEDGER_FAMILY_COUNTERS; k++)
            if (of->numbers.families.values[f][k])
                c->families[n++] = (ea_ledger_count){.counter = ea_counter_row(ea_ledger_family_counter(k))->number,
                                                     .value = of->numbers.families.values[f][k],
                                                     .family = ea_event_family_name((uint8_t)f)};
    return n;
}

static int close_one(const ea_spool_cut_off *of, void *arg) {
    closing *c = arg;
    ea_encoder *encoder = NULL;
    const uint8_t *data = NULL;
    size_t len_bytes = 0;
    ea_encoder_options o = {.zstd_level = 1};
    for (int i = 0; i < EA_COUNTER_COUNT; i++)
        atomic_init(&c->ledger.values[i], of->numbers.values[i]);
    ea_count(&c->ledger, EA_COUNT_batches_closed, 1);
    atomic_init(&c->ledger.values[EA_COUNT_stream_ended], 1);
    atomic_init(&c->ledger.values[EA_COUNT_stream_cut_off], 1);
    memcpy(o.stream, of->stream, sizeof o.stream);
    int rc = ea_encoder_create(&encoder, &o, c->err);
    if (!rc)
        rc = ea_encoder_encode(encoder, NULL,
                               &(ea_batch_stamp){.number = of->number,
                                                 .priority = of->numbers.priority,
                                                 .kind = EA_BATCH_EVENTS,
                                                 .ledger = &c->ledger,
                                                 .ledger_utc_ns = ea_utc_ns(),
                                                 .family_counts = c->families,
                                                 .family_count_count = list_families(c, of),
                                                 .incarnation = of->numbers.incarnation},
                               &data, &len_bytes, c->err);
    if (!rc)
        rc = ea_spool_claim(c->spool, of->stream, of->number, 0, NULL, 0, c->err);
    if (!rc)
        rc = ea_spool_append(c->spool,
                             &(ea_spool_batch){.stream = of->stream,
                                               .number = of->number,
                                               .priority = of->numbers.priority,
                                               .data = data,
                                               .len_bytes = len_bytes},
                             c->err);
    if (!rc)
        ea_spool_ledger_end(c->spool, of->stream);
    ea_encoder_destroy(encoder);
    return rc;
}

static int find_recorded(void *arg, const uint8_t *stream, ea_last_numbers *numbers, uint64_t *ret_events,
                         ea_err *err) {
    const closing *c = arg;
    return ea_recorder_find(c->root, c->keys, stream, numbers, ret_events, err);
}

int ea_close_cut_off(ea_spool *spool, const char *root, const ea_spool_keys *keys, ea_err *err) {
    closing *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "close the streams of an earlier run");
    c->spool = spool;
    c->root = root;
    c->keys = keys;
    c->err = err;
    int rc = ea_spool_each_cut_off(spool, find_recorded, close_one, c, err);
    free(c);
    return rc;
}
