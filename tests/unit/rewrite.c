/* Reads traces and writes all their content again, in memory: each buffer header, the trace header, each record, and
 * each payload from its field values. The result must be identical to the bytes of the file.
 *
 * usage: rewrite TRACE...
 * Prints a JSON object: how much was compared, and how many strings stayed bytes because their text does not convert
 * back to the same bytes. Exit code 1 at the first difference, which is printed. Called by tests/e2e. Thread: one. */
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "proto/event/encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const char *path;
    ea_registry *registry;
    ea_arena arena;
    uint64_t buffers, records, payloads, whole, values, raw_texts;
    ea_err err;
} job;

static int differs(job *j, uint64_t offset, const char *what) {
    return ea_fail(&j->err, EA_ECORRUPT, "%s: buffer at %" PRIu64 ": %s comes back as other bytes", j->path, offset,
                   what);
}

/* Values, and strings among them that are bytes. */
static void count(job *j, const ea_class *c, size_t field, const ea_event_value *v) {
    uint8_t type = c->fields[field].type;
    j->values++;
    j->raw_texts += v->kind == EA_VALUE_BYTES && type >= EA_UTF16Z && type <= EA_UTF16_REST;
}

static int payload_again(job *j, const ea_record *r, uint64_t offset) {
    static uint8_t out[EA_ETL_RECORD_MAX_BYTES];
    const ea_class *c = ea_registry_find(j->registry, r);
    const ea_event_value *values;
    size_t n, used, made = 0;
    ea_arena_reset(&j->arena);
    int rc = ea_event_read_values(c, r->payload, r->payload_bytes, &j->arena, &values, &n, &used, &j->err);
    if (!rc)
        rc = ea_event_write_values(c, values, n, out, sizeof out, &made, &j->err);
    if (rc)
        return rc;
    if (made != used || (used && memcmp(out, r->payload, used) != 0))
        return differs(j, offset, c->name);
    j->payloads++;
    j->whole += (uint64_t)ea_class_is_whole(c, n, used, r->payload_bytes);
    for (size_t i = 0; i < n; i++)
        count(j, c, ea_class_top_field(c, i), &values[i]);
    return 0;
}

static int record_again(job *j, const ea_etl_file *file, const uint8_t *p, uint32_t n, uint64_t offset, int is_first) {
    static uint8_t out[EA_ETL_RECORD_MAX_BYTES];
    ea_record r;
    ea_ext ext[EA_EXT_MAX];
    size_t made;
    if (ea_etl_fill_record(&r, ext, p, n, (uint8_t)file->info.pointer_size))
        return ea_fail(&j->err, EA_ECORRUPT, "%s: a damaged record", j->path);
    r.time_raw = ea_etl_record_time(p, 0);
    int rc = ea_etl_encode_record(&r, out, sizeof out, &made, &j->err);
    if (rc)
        return rc;
    if (made != n || memcmp(out, p, n) != 0)
        return differs(j, offset, "a record");
    j->records++;
    if (is_first) {
        size_t len = ea_etl_put_info(&file->info, out, sizeof out);
        if (len > r.payload_bytes || memcmp(out, r.payload, len) != 0)
            return differs(j, offset, "the trace header");
    }
    return payload_again(j, &r, offset);
}

static int buffer_again(job *j, ea_etl_file *file, const ea_etl_entry *entry, ea_etl_buffer *b, ea_etl_scratch *scratch,
                        int is_first) {
    uint8_t there[EA_ETL_HEADER_BYTES], again[EA_ETL_HEADER_BYTES];
    ea_etl_buffer_header h;
    size_t got;
    int rc = ea_file_read_at(file->handle, entry->offset, there, sizeof there, &got, &j->err);
    if (rc)
        return rc;
    ea_etl_parse_buffer_header(there, &h);
    ea_etl_put_buffer_header(again, &h);
    if (got != sizeof there || memcmp(there, again, sizeof there) != 0)
        return differs(j, entry->offset, "its header");
    rc = ea_etl_decode(file, entry, 0, b, scratch, NULL, &j->err);
    for (uint32_t i = 0; !rc && i < b->walk.count; i++) {
        const uint8_t *p = b->data + b->walk.offsets[i];
        uint32_t n = ea_etl_record_bytes(p, b->used_bytes - b->walk.offsets[i]);
        rc = record_again(j, file, p, n, entry->offset, is_first && i == 0);
    }
    j->buffers++;
    return rc;
}

static int file_again(job *j) {
    ea_etl_file file = {0};
    ea_etl_index index = {0};
    ea_etl_buffer buffer = {0};
    ea_etl_scratch scratch = {0};
    size_t n = strlen(j->path) + 1;
    file.info.path = malloc(n);
    if (!file.info.path)
        return ea_fail(&j->err, EA_ENOMEM, "read %s", j->path);
    memcpy(file.info.path, j->path, n);
    int rc = ea_file_open(&file.handle, j->path, EA_OPEN_READ, &j->err);
    if (!rc)
        rc = ea_etl_read_header(&file, &j->err);
    if (!rc)
        rc = ea_file_size(file.handle, &file.info.file_bytes, &j->err);
    if (!rc)
        rc = ea_etl_index_file(&index, &file, 0, NULL, &j->err);
    for (size_t b = 0; !rc && b < index.count; b++)
        rc = buffer_again(j, &file, &index.entries[b], &buffer, &scratch, b == 0);
    ea_etl_buffer_deinit(&buffer);
    ea_etl_scratch_deinit(&scratch);
    free(index.entries);
    ea_file_close(file.handle);
    ea_etl_info_deinit(&file.info);
    return rc;
}

int main(int argc, char **argv) {
    static job j;
    ea_arena_init(&j.arena, 0);
    int rc = ea_registry_create(&j.registry, 0, &j.err);
    for (int i = 1; !rc && i < argc; i++) {
        j.path = argv[i];
        rc = file_again(&j);
    }
    if (rc)
        ea_err_print(stderr, "rewrite", &j.err);
    else
        printf("{\"buffers\":%" PRIu64 ",\"records\":%" PRIu64 ",\"payloads\":%" PRIu64 ",\"whole\":%" PRIu64
               ",\"values\":%" PRIu64 ",\"raw_texts\":%" PRIu64 "}\n",
               j.buffers, j.records, j.payloads, j.whole, j.values, j.raw_texts);
    ea_registry_destroy(j.registry);
    ea_arena_deinit(&j.arena);
    return rc ? 1 : 0;
}
