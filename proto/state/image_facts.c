/* Writing what is known of an image's file. See image_facts.h; the layout is in proto/event/classes/image_file.c. */
#include "proto/state/image_facts.h"

#include <string.h>

const ea_guid ea_image_facts_provider =
    EA_GUID(0x7be2d0c4, 0x91a3, 0x4c5f, 0x8e, 0x27, 0x3d, 0x60, 0xb9, 0x14, 0xfa, 0x58);

/* A payload has at most 65,535 bytes: the path comes last and gets what the others leave. */
enum { TEXT_MAX = 2000, PATH_MAX_BYTES = 30000 };

static void facts_put32(ea_text *t, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}

static void facts_put64(ea_text *t, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}

static void facts_put_text(ea_text *t, const char *s, size_t max_bytes) {
    size_t n = strlen(s);
    if (n > max_bytes)
        for (n = max_bytes; n && ((unsigned char)s[n] & 0xC0) == 0x80;)
            n--;
    ea_text_add(t, s, n);
    ea_text_char(t, 0);
}

void ea_image_facts_write(ea_text *payload, uint32_t pid, uint64_t base, const char *path,
                          const ea_image_facts *facts) {
    ea_text_clear(payload);
    facts_put32(payload, pid);
    facts_put64(payload, base);
    facts_put64(payload, facts->image_bytes);
    facts_put32(payload, facts->checksum);
    facts_put32(payload, facts->timestamp);
    facts_put64(payload, facts->file_bytes);
    ea_text_add(payload, facts->pdb_guid.bytes, sizeof facts->pdb_guid.bytes);
    facts_put32(payload, facts->pdb_age);
    facts_put_text(payload, facts->sha256, TEXT_MAX);
    facts_put_text(payload, facts->version, TEXT_MAX);
    facts_put_text(payload, facts->company, TEXT_MAX);
    facts_put_text(payload, facts->product, TEXT_MAX);
    facts_put_text(payload, facts->original_name, TEXT_MAX);
    facts_put_text(payload, facts->pdb_path, TEXT_MAX);
    facts_put_text(payload, path, PATH_MAX_BYTES);
}

ea_record ea_image_facts_record(const ea_record *at, const ea_text *payload) {
    return (ea_record){.provider = ea_image_facts_provider,
                       .opcode = EA_IMAGE_FACTS_OPCODE,
                       .time_raw = at->time_raw,
                       .pid = UINT32_MAX,
                       .tid = UINT32_MAX,
                       .cpu = at->cpu,
                       .logger = at->logger,
                       .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                       .pointer_size = 8,
                       .source = at->source,
                       .payload = (const uint8_t *)payload->data,
                       .payload_bytes = (uint16_t)payload->len_bytes};
}
