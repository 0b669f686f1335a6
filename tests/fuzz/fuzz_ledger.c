/* Fuzz target: agents' ledgers and tombstones, folded into the history batch by batch. Any content of an agent's ledger
 * must be stored, and every stored value must be readable: an error would block the history of all machines that
 * follow. Input, repeated: u8 control (bit 7: a u64 with the distance to the next number follows, else bits 0 to 3 are
 * the distance; bit 6: the ledger is closed and read again first), u8 events, u8 length of the batch, the batch. */
#include "collector/state/ledger_report.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"
#include "tests/fuzz/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_at(int rc, const ea_err *err, int line) {
    if (!rc)
        return;
    fprintf(stderr, "fuzz_ledger.c:%d: ", line);
    ea_err_print(stderr, "fuzz_ledger", err);
    abort();
}

#define must(rc) must_at(rc, &err, __LINE__)

static ec_state_db *open_tables(void) {
    ea_err err;
    ec_state_db *tables = NULL;
    folder_make("ledger");
    must(ec_state_db_open(&tables, folder, 1, &err));
    return tables;
}

static int take_value(const char *family, uint32_t counter, uint64_t value, void *arg) {
    enum ea_counter c = ea_counter_of_number(counter);
    if (!*family && c != EA_COUNTER_COUNT)
        ((uint64_t *)arg)[c] = value;
    return 0;
}

/* The next batch of the input; 0 at its end. */
static int next(const uint8_t **at, const uint8_t *end, ec_batch_row *row, int *ret_reopens, size_t *ret_len_bytes) {
    enum { HEAD_BYTES = 3 };

    if (end - *at < HEAD_BYTES)
        return 0;
    const uint8_t *p = *at;
    uint64_t step = p[0] & 15;
    *at += HEAD_BYTES;
    if (p[0] & 0x80) {
        if (end - *at < 8)
            return 0;
        step = ea_load64(*at);
        *at += 8;
    }
    if (step == 0)
        step = 1;
    if (step > EA_BATCH_MAX_NUMBER - row->number)
        return 0;
    row->number += step;
    row->event_count = p[1];
    *ret_reopens = p[0] & 0x40;
    *ret_len_bytes = p[2] < (size_t)(end - *at) ? p[2] : (size_t)(end - *at);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ec_state_db *tables;
    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "fuzz";
    const uint8_t *at = data, *end = data + size;
    uint64_t values[EA_COUNTER_COUNT] = {0}, elsewhere;
    ec_ledger *ledger = NULL;
    ec_batch_row row = {0};
    ec_state_fold fold;
    ea_err err;
    size_t len_bytes;
    int reopens;
    if (!tables)
        tables = open_tables();
    must(ec_state_db_begin(tables, &err));
    must(ec_state_db_get_fold(tables, "fuzz", STREAM, &fold, &err));
    must(ec_ledger_open(&ledger, tables, &fold, &err));
    while (next(&at, end, &row, &reopens, &len_bytes)) {
        if (reopens) {
            ec_ledger_close(ledger);
            must(ec_ledger_open(&ledger, tables, &fold, &err));
        }
        row.begin_utc_ns = row.end_utc_ns;
        row.end_utc_ns++;
        must(
            ec_ledger_take(ledger, &fold, &row, at, len_bytes, row.number - fold.position - 1, NULL, NULL, NULL, &err));
        fold.position = row.number;
        fold.batch_count++;
        fold.event_count += row.event_count;
        at += len_bytes;
    }
    must(ec_ledger_each_last(tables, fold.stream_number, INT64_MAX, take_value, values, &err));
    must(ec_ledger_elsewhere(tables, fold.stream_number, INT64_MAX, values, &elsewhere, &err));
    ec_ledger_close(ledger);
    ec_state_db_rollback(tables);
    return 0;
}
