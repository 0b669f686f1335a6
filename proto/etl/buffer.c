/* Buffer headers of an .etl file. Called by: index.c and merge.c, which read buffers; etl_writer.c. Thread: any (pure
 * functions). */
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

void ea_etl_parse_buffer_header(const uint8_t *p, ea_etl_buffer_header *ret) {
    ret->size_bytes = ea_load32(p);
    ret->saved_offset = ea_load32(p + 0x04);
    ret->current_offset = ea_load32(p + 0x08);
    ret->reference_count = ea_load32(p + 0x0c);
    ret->flush_time = (int64_t)ea_load64(p + 0x10);
    ret->sequence = (int64_t)ea_load64(p + 0x18);
    ret->link = ea_load64(p + 0x20);
    ret->flags = ea_load16(p + 0x34);
    /* Before Windows 8 the number is one byte, and the byte after it is the alignment. */
    ret->cpu = ret->flags & EA_ETL_BUFFER_PROC_INDEX ? ea_load16(p + 0x28) : p[0x28];
    ret->alignment = ret->flags & EA_ETL_BUFFER_PROC_INDEX ? 0 : p[0x29];
    ret->logger = ea_load16(p + 0x2a);
    ret->state = ea_load32(p + 0x2c);
    ret->used_bytes = ea_load32(p + 0x30);
    ret->type = ea_load16(p + 0x36);
    memcpy(ret->lists, p + 0x38, sizeof ret->lists);
}

void ea_etl_put_buffer_header(uint8_t *p, const ea_etl_buffer_header *h) {
    ea_store32(p, h->size_bytes);
    ea_store32(p + 0x04, h->saved_offset);
    ea_store32(p + 0x08, h->current_offset);
    ea_store32(p + 0x0c, h->reference_count);
    ea_store64(p + 0x10, (uint64_t)h->flush_time);
    ea_store64(p + 0x18, (uint64_t)h->sequence);
    ea_store64(p + 0x20, h->link);
    ea_store16(p + 0x28,
               h->flags & EA_ETL_BUFFER_PROC_INDEX ? h->cpu : (uint16_t)(h->alignment << 8 | (h->cpu & 0xff)));
    ea_store16(p + 0x2a, h->logger);
    ea_store32(p + 0x2c, h->state);
    ea_store32(p + 0x30, h->used_bytes);
    ea_store16(p + 0x34, h->flags);
    ea_store16(p + 0x36, h->type);
    memcpy(p + 0x38, h->lists, sizeof h->lists);
}

unsigned ea_etl_score_buffer_header(const ea_etl_buffer_header *h) {
    int compressed = h->flags & EA_ETL_BUFFER_COMPRESSED;
    unsigned score = 0;
    score += h->size_bytes >= EA_ETL_HEADER_BYTES && h->size_bytes <= EA_ETL_MAX_BUFFER_BYTES;
    score += h->used_bytes >= EA_ETL_HEADER_BYTES && h->used_bytes <= EA_ETL_MAX_BUFFER_BYTES &&
             (compressed || h->used_bytes <= h->size_bytes);
    score += h->flags < 0x80;
    score += h->type < 8; /* ETW_BUFFER_TYPE_MAXIMUM */
    score += h->state < 0x10;
    score += (uint64_t)h->sequence >> 40 == 0;
    score += h->flush_time >= 0;
    score += h->saved_offset <= EA_ETL_MAX_BUFFER_BYTES && h->current_offset <= EA_ETL_MAX_BUFFER_BYTES;
    return score;
}

/* ---- what the readers of both formats share ---- */

void ea_etl_report(const ea_etl_options *options, const ea_etl_file *file, uint64_t offset, uint32_t inside,
                   uint64_t bytes, const char *reason) {
    if (!options || !options->on_damage)
        return;
    ea_etl_damage damage = {
        .path = file->info.path, .offset = offset, .inside = inside, .bytes = bytes, .reason = reason};
    options->on_damage(&damage, options->on_damage_arg);
}

int ea_etl_index_add(ea_etl_index *index, const ea_etl_entry *e, ea_err *err) {
    if (index->count == index->capacity) {
        /* files of equal buffers are counted beforehand, so that this is about packed ones */
        size_t capacity = index->capacity + index->capacity / 2 + 1024;
        ea_etl_entry *entries = realloc(index->entries, capacity * sizeof *entries);
        if (!entries)
            return ea_fail(err, EA_ENOMEM, "index a trace");
        index->entries = entries;
        index->capacity = capacity;
    }
    index->entries[index->count++] = *e;
    return 0;
}
