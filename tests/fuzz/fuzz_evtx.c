/* The reader of event logs on any chunk: what its records unfold to stays within the bound, elements are ended where
 * they begin, XML and fields can be made of every record, and the records of a trace made of the chunk can be read to
 * their last byte. Input: the bytes of a chunk, or its beginning. */
#include "proto/etl/etl.h"
#include "proto/evtx/evtx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum_of(const uint8_t *p, size_t len_bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < len_bytes; i++)
        sum += p[i];
    return sum;
}

static void check_nodes(const ea_evtx_reader *r) {
    size_t depth = 0, bytes = 0;
    for (size_t i = 0; i < r->node_count; i++) {
        const ea_evtx_node *n = &r->nodes[i];
        if (n->kind == EA_EVTX_ELEMENT)
            depth++;
        if (n->kind == EA_EVTX_END && (depth-- == 0 || r->nodes[n->len_bytes].kind != EA_EVTX_ELEMENT))
            abort();
        if (n->data)
            bytes += n->len_bytes;
    }
    if (depth || bytes > EA_EVTX_RECORD_WORK || r->value_count)
        abort();
}

/* XML that was made is read as what it is: made again, it is the same. Bytes of any kind are read to some end. */
static void check_parse(const ea_text *xml) {
    static uint8_t utf16[1 << 20];
    ea_evtx_reader reader = {0};
    const char *wrong;
    size_t len = ea_utf8_to_utf16(xml->data, xml->len_bytes, utf16, sizeof utf16);
    if (len > sizeof utf16)
        return;
    if (ea_evtx_parse(&reader, utf16, (uint32_t)len, &wrong))
        abort();
    ea_text again;
    ea_text_init(&again);
    ea_evtx_put_xml(&again, &reader);
    if (!wrong && (again.len_bytes != xml->len_bytes || memcmp(again.data, xml->data, again.len_bytes) != 0))
        abort();
    ea_text_deinit(&again);
    ea_evtx_reader_deinit(&reader);
}

static void parse_any(const uint8_t *data, uint32_t size) {
    ea_evtx_reader reader = {0};
    ea_evtx_place place;
    const char *wrong;
    if (ea_evtx_parse(&reader, data, size, &wrong))
        abort();
    size_t depth = 0;
    for (size_t i = 0; i < reader.node_count; i++) {
        depth += reader.nodes[i].kind == EA_EVTX_ELEMENT;
        if (reader.nodes[i].kind == EA_EVTX_END && depth-- == 0)
            abort();
    }
    if (depth)
        abort();
    (void)ea_evtx_place_of(&reader, &place);
    ea_evtx_reader_deinit(&reader);
}

/* Records that the chunk has, each made XML and an event. */
static size_t read_chunk(const uint8_t *data, uint32_t size, uint64_t *sum) {
    static ea_evtx_event event;
    ea_evtx_reader reader = {0};
    ea_evtx_chunk chunk;
    ea_evtx_place place;
    ea_text text;
    size_t records = 0;
    ea_text_init(&text);
    ea_evtx_event_init(&event);
    ea_evtx_chunk_open(&chunk, data, size);
    for (uint32_t last = 0; ea_evtx_chunk_next(&chunk, &place); records++) {
        const char *wrong;
        if (place.offset < last || place.size_bytes > size - place.offset)
            abort();
        last = place.offset + place.size_bytes;
        if (ea_evtx_read(&reader, &chunk, &place, &wrong))
            abort();
        check_nodes(&reader);
        ea_text_clear(&text);
        ea_evtx_put_xml(&text, &reader);
        if (text.failed || ea_evtx_event_fill(&event, &reader, &place))
            abort();
        if (text.data)
            check_parse(&text);
        for (size_t i = 0; i < event.field_count; i++)
            *sum += strlen(event.fields[i].name) + sum_of(event.fields[i].data, event.fields[i].len_bytes);
    }
    ea_evtx_reader_deinit(&reader);
    ea_evtx_event_deinit(&event);
    ea_text_deinit(&text);
    return records;
}

static size_t read_trace(int fd, uint64_t *sum) {
    char path[64];
    ea_etl_set *set;
    const ea_record *r;
    size_t records = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const char *paths[1] = {path};
    if (ea_etl_open(&set, paths, 1, &(ea_etl_options){0}, NULL))
        abort();
    while (ea_etl_next(set, &r, NULL) > 0) {
        *sum += sum_of(r->payload, r->payload_bytes);
        for (unsigned i = 0; i < r->ext_count; i++)
            *sum += sum_of(r->ext[i].data, r->ext[i].size_bytes);
        records++;
    }
    ea_etl_close(set);
    return records;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static const char HEADER[8] = "ElfFile";
    static volatile uint64_t kept;
    uint64_t sum = 0;
    if (size == 0 || size > EA_EVTX_CHUNK_BYTES)
        return 0;
    size_t records = read_chunk(data, (uint32_t)size, &sum);
    parse_any(data, (uint32_t)size);
    if (fd < 0 && (fd = memfd_create("log", 0)) < 0)
        abort();
    if (ftruncate(fd, 0) || pwrite(fd, HEADER, sizeof HEADER, 0) != sizeof HEADER ||
        pwrite(fd, data, size, EA_EVTX_FILE_HEADER_BYTES) != (ssize_t)size)
        abort();
    /* a second chunk's magic inside makes two chunks of it, which may have more records than one */
    if (read_trace(fd, &sum) > records + size / 32)
        abort();
    kept = kept + sum;
    return 0;
}
