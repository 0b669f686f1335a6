/* Fuzz target: a spool's folder as a process finds it. The folder has one valid segment. Untrusted are the state file,
 * the class descriptions and the file of owed tombstones. Checksums are corrected first, so that the code after their
 * check is reached. For any content, the spool must open, its waiting batches must be readable, and it must close.
 * Input: u16 length of the state, u16 length of the descriptions, these two (empty: as the spool wrote them), and a
 * slot of "owed". */
#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "service/spool/spool.h"
#include "service/spool/spool_file.h"
#include "tests/fuzz/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "fuzz";
static const ea_spool_options OPTIONS = {.limit_bytes = 4 << 20, .live = 1, .sync = EA_SPOOL_SYNC_NEVER};

static void must_at(int rc, const ea_err *err, int line) {
    if (rc >= 0)
        return;
    fprintf(stderr, "fuzz_spool_folder.c:%d: ", line);
    ea_err_print(stderr, "fuzz_spool_folder", err);
    abort();
}

#define must(rc) must_at(rc, &err, __LINE__)

static void write_file(const char *name, const void *data, size_t size) {
    ea_err err;
    char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(ea_path_write_all(path, data, size, 0, &err));
}

/* One batch that waits, with a class description. */
static void fill_folder(void) {
    static const uint8_t DESCRIPTION[] = {1, 0, 2, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                                          0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const ea_tombstone t = {.first = 1, .last = 1, .cause = 15, .event_count = 3};
    ea_spool *s = NULL;
    ea_text batch;
    ea_err err;
    ea_text_init(&batch);
    must(ea_batch_make_tombstone(STREAM, 1, &t, 1, &batch, &err));
    ea_text_varint(&batch, EA_DEFINES_CLASS << 3 | 2);
    ea_text_varint(&batch, sizeof DESCRIPTION);
    ea_text_add(&batch, DESCRIPTION, sizeof DESCRIPTION);
    must(ea_spool_open(&s, folder, &OPTIONS, &err));
    must(ea_spool_stream(s, STREAM, 0, 1, NULL, &err));
    must(ea_spool_claim(s, STREAM, 1, 3, NULL, 0, &err));
    must(ea_spool_append(s, &(ea_spool_batch){STREAM, 1, 2, 3, (const uint8_t *)batch.data, batch.len_bytes, NULL, 0},
                         &err));
    must(ea_spool_close(s, &err));
    ea_text_deinit(&batch);
}

static void put_state(const uint8_t *data, size_t size) {
    ea_text text;
    ea_text_init(&text);
    ea_text_add(&text, data, size);
    ea_spool_state_end(&text);
    if (size && !text.failed)
        write_file("state", text.data, text.len_bytes);
    ea_text_deinit(&text);
}

/* descriptions.c: a word with kind and length, a checksum, the bytes */
static void put_descriptions(const uint8_t *data, size_t size) {
    enum { HEAD_BYTES = 12, LENGTH_MASK = 0xFFFFFF, SEED = 0x736c63 };

    uint8_t *copy = malloc(size + 1);
    if (!copy || !size) {
        free(copy);
        return;
    }
    memcpy(copy, data, size);
    for (size_t at = 0; size - at >= HEAD_BYTES;) {
        uint32_t n = ea_load32(copy + at) & LENGTH_MASK;
        if (n == 0 || n > size - at - HEAD_BYTES)
            break;
        ea_store64(copy + at + 4, ea_hash64(copy + at + HEAD_BYTES, n, SEED));
        at += HEAD_BYTES + (size_t)n;
    }
    write_file("classes", copy, size);
    free(copy);
}

/* spool_deferred.c: a head with the number of rows, the rows, their checksum; in two slots, of which this is the first
 */
static void put_owed(const uint8_t *data, size_t size) {
    enum { HEAD_BYTES = 24, ROW_BYTES = 64, ROWS_MAX = 512, SLOT_BYTES = HEAD_BYTES + ROWS_MAX * ROW_BYTES + 8 };

    static uint8_t slots[2 * SLOT_BYTES];
    memset(slots, 0, sizeof slots);
    if (!size)
        return;
    memcpy(slots, data, size < SLOT_BYTES ? size : SLOT_BYTES);
    memcpy(slots, "EAOWED1", 8);
    uint32_t count = ea_load32(slots + 16) % (ROWS_MAX + 2);
    ea_store32(slots + 16, count);
    size_t n = HEAD_BYTES + (size_t)count * ROW_BYTES;
    if (count <= ROWS_MAX)
        ea_store64(slots + n, ea_hash64(slots, n, 0x6561736f77656431u));
    write_file("owed", slots, sizeof slots);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { ITEMS = 64 };

    ea_spool_item items[ITEMS];
    ea_spool *s = NULL;
    ea_text batch;
    ea_err err;
    if (size < 4)
        return 0;
    size_t state_bytes = ea_load16(data), class_bytes = ea_load16(data + 2);
    data += 4;
    size -= 4;
    if (state_bytes > size)
        state_bytes = size;
    if (class_bytes > size - state_bytes)
        class_bytes = size - state_bytes;
    folder_make("spool");
    fill_folder();
    put_state(data, state_bytes);
    put_descriptions(data + state_bytes, class_bytes);
    put_owed(data + state_bytes + class_bytes, size - state_bytes - class_bytes);
    must(ea_spool_open(&s, folder, &OPTIONS, &err));
    ea_text_init(&batch);
    for (size_t i = 0, n = ea_spool_take(s, SIZE_MAX, items, ITEMS); i < n; i++) {
        ea_text_clear(&batch);
        must(ea_spool_read(s, &items[i], &batch, &err));
    }
    ea_text_deinit(&batch);
    must(ea_spool_close(s, &err));
    folder_remove();
    return 0;
}
