/* The body of an upload, from framing to the store and back in the answer, without sockets: what ingest_server.c does
 * with it once it is whole. Each batch is acknowledged or refused; what was acknowledged is so again when the same body
 * comes again; and the store can be opened afterwards. The store is made anew after some inputs. */
#include "collector/ingest/writer.h"
#include "proto/base/platform.h"
#include "proto/wire/ack.h"
#include "tests/fuzz/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUTS_A_STORE = 64 };

typedef struct bench {
    ea_mutex *mutex;
    ea_cond *cond;
    ec_store *store;
    ec_writer *writer;
    ec_upload *answered;
    unsigned inputs;
} bench;

static void must_at(int condition, int line) {
    if (condition)
        return;
    fprintf(stderr, "fuzz_ingest.c:%d does not hold\n", line);
    abort();
}

#define must(condition) must_at(condition, __LINE__)

static void on_done(void *arg, ec_upload *upload) {
    bench *b = arg;
    ea_mutex_lock(b->mutex);
    b->answered = upload;
    ea_cond_signal(b->cond);
    ea_mutex_unlock(b->mutex);
}

static void open_store(bench *b) {
    ea_err err;
    static ea_counters counters;
    ec_writer_options options = {.counters = &counters, .done = on_done, .done_arg = b};
    folder_make("ingest");
    must(ec_store_open(&b->store, folder, &(ec_store_options){.writable = 1}, &err) == 0);
    options.store = b->store;
    must(ec_writer_start(&b->writer, &options, &err) == 0);
}

static void close_store(bench *b) {
    ea_err err;
    ec_writer_stop(b->writer);
    ec_writer_destroy(b->writer);
    ec_store_close(b->store);
    must(ec_store_open(&b->store, folder, &(ec_store_options){.writable = 1}, &err) == 0);
    ec_store_close(b->store);
    folder_remove();
}

/* The answer to a body whose framing is sound. */
static ea_ack answer(bench *b, ec_upload *u, ea_arena *arena) {
    ea_err err;
    ea_ack ack;
    ea_text_init(&u->answer);
    ea_mutex_lock(b->mutex);
    b->answered = NULL;
    must(ec_writer_push(b->writer, u) == 0);
    while (!b->answered)
        ea_cond_wait(b->cond, b->mutex);
    ea_mutex_unlock(b->mutex);
    if (u->status != 200)
        fprintf(stderr, "%d: %.*s\n", u->status, (int)u->answer.len_bytes, u->answer.data);
    must(b->answered == u && u->status == 200);
    if (ea_ack_decode(&ack, arena, (const uint8_t *)u->answer.data, u->answer.len_bytes, &err)) {
        ea_err_print(stderr, "fuzz_ingest", &err);
        abort();
    }
    must(memcmp(ack.stream, u->stream, sizeof ack.stream) == 0);
    ea_text_deinit(&u->answer);
    return ack;
}

/* Whether two batches of the body have the same number: the second time one of them contradicts what the other left. */
static int contradicts_itself(const uint8_t *data, size_t size) {
    uint64_t numbers[EA_UPLOAD_MAX_BATCHES];
    size_t offset = 0, n, count = 0;
    const uint8_t *batch;
    ea_err err;
    ea_batch_head head;
    while (ea_upload_next(data, size, &offset, &batch, &n, &err) > 0) {
        must(ea_batch_read_head(batch, n, &head, &err) == 0 && count < EA_UPLOAD_MAX_BATCHES);
        for (size_t i = 0; i < count; i++)
            if (numbers[i] == head.number)
                return 1;
        numbers[count++] = head.number;
    }
    return 0;
}

static int is_refused(const ea_ack *ack, uint64_t number) {
    for (size_t i = 0; i < ack->refused_count; i++)
        if (ack->refused[i].number == number)
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bench b;
    ea_err err;
    ec_upload u = {.agent = "fuzz", .data = data, .len_bytes = size};
    if (!b.mutex) {
        must(ea_mutex_create(&b.mutex, &err) == 0 && ea_cond_create(&b.cond, &err) == 0);
        open_store(&b);
    }
    int rc;
    while ((rc = ec_upload_check_next(&u, &err)) == 1) {
    }
    if (rc)
        return 0;
    ea_arena arena;
    ea_arena_init(&arena, 16 << 20);
    ea_ack first = answer(&b, &u, &arena), second = answer(&b, &u, &arena);
    size_t offset = 0, n;
    const uint8_t *batch;
    int repeats = contradicts_itself(data, size);
    while (ea_upload_next(data, size, &offset, &batch, &n, &err) > 0) {
        ea_batch_head head;
        must(ea_batch_read_head(batch, n, &head, &err) == 0);
        int stored = ea_ranges_have(first.acknowledged, first.acknowledged_count, head.number);
        must(stored || is_refused(&first, head.number));
        must(!stored || repeats || ea_ranges_have(second.acknowledged, second.acknowledged_count, head.number));
    }
    ea_arena_deinit(&arena);
    if (++b.inputs % INPUTS_A_STORE == 0) {
        close_store(&b);
        open_store(&b);
    }
    return 0;
}
