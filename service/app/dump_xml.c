/* Event logs as XML. See dump_xml.h. */
#include "service/app/dump_xml.h"

#include "proto/evtx/evtx.h"
#include "service/core/damage_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct dump {
    const char *path;
    int strict;
    ea_damage_log damage;
    ea_evtx_reader reader;
    ea_text text;
    uint8_t data[EA_EVTX_CHUNK_BYTES];
} dump;

static int dump_xml_damaged(dump *d, uint64_t offset, uint32_t inside, uint32_t bytes, const char *reason,
                            ea_err *err) {
    const ea_etl_damage damage = {d->path, offset, inside, bytes, reason};
    ea_damage_log_add(&damage, &d->damage);
    if (!d->strict)
        return 0;
    *err = d->damage.first;
    return err->code;
}

static int put_one(dump *d, ea_evtx_chunk *chunk, const ea_evtx_place *place, uint64_t offset, ea_err *err) {
    const char *wrong;
    int rc = ea_evtx_read(&d->reader, chunk, place, &wrong);
    if (rc)
        return ea_fail(err, rc, "read %s", d->path);
    if (wrong && (rc = dump_xml_damaged(d, offset, place->offset, place->size_bytes, wrong, err)))
        return rc;
    if (!d->reader.node_count)
        return 0;
    ea_text_clear(&d->text);
    ea_evtx_put_xml(&d->text, &d->reader);
    ea_text_char(&d->text, '\n');
    if (d->text.failed)
        return ea_fail(err, EA_ENOMEM, "print %s", d->path);
    if (fwrite(d->text.data, 1, d->text.len_bytes, stdout) != d->text.len_bytes)
        return ea_fail_os(err, EA_EIO, errno, "write standard output");
    return 0;
}

static int put_chunk(dump *d, uint64_t offset, uint32_t bytes, ea_err *err) {
    ea_evtx_chunk chunk;
    ea_evtx_place place;
    int rc = 0, more = 1;
    ea_evtx_chunk_open(&chunk, d->data, bytes);
    if (chunk.wrong)
        rc = dump_xml_damaged(d, offset, 0, 0, chunk.wrong, err);
    while (!rc && more) {
        more = ea_evtx_chunk_next(&chunk, &place);
        if (chunk.gap)
            rc = dump_xml_damaged(d, offset, chunk.gap_at, chunk.gap, "expected an event's record", err);
        if (!rc && more)
            rc = put_one(d, &chunk, &place, offset, err);
    }
    return rc;
}

static int dump_xml_put_file(dump *d, const char *path, ea_err *err) {
    ea_file *file;
    uint64_t file_bytes, at = 0;
    uint32_t bytes;
    size_t got;
    d->path = path;
    int rc = ea_file_open(&file, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_size(file, &file_bytes, err);
    if (!rc)
        rc = ea_file_read_at(file, 0, d->data, sizeof d->data, &got, err);
    if (!rc && !ea_evtx_is_log(d->data, got))
        rc = ea_fail(err, EA_EFORMAT, "read %s: expected an event log (.evtx); only those have XML", path);
    while (!rc && (rc = ea_evtx_find_chunk(file, file_bytes, &at, d->data, &bytes, err)) > 0) {
        rc = put_chunk(d, at, bytes, err);
        at += bytes;
    }
    ea_file_close(file);
    return rc;
}

int ea_dump_xml(char **paths, int path_count, int strict, ea_err *err) {
    dump *d = calloc(1, sizeof *d);
    if (!d)
        return ea_fail(err, EA_ENOMEM, "read %s", paths[0]);
    d->strict = strict;
    d->damage.is_silent = strict;
    ea_text_init(&d->text);
    int rc = 0;
    puts("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Events>");
    for (int i = 0; i < path_count && !rc; i++)
        rc = dump_xml_put_file(d, paths[i], err);
    puts("</Events>");
    if (fflush(stdout) && !rc)
        rc = ea_fail_os(err, EA_EIO, errno, "write standard output");
    if (d->damage.map.places > EA_DAMAGE_LINES && !strict)
        fprintf(stderr, "etwagent: %" PRIu64 " places are damaged; the first %d are named above\n",
                d->damage.map.places, EA_DAMAGE_LINES);
    ea_damage_log_deinit(&d->damage);
    ea_evtx_reader_deinit(&d->reader);
    ea_text_deinit(&d->text);
    free(d);
    return rc;
}
