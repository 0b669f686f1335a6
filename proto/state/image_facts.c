/* Writing what is known of an image's file. See image_facts.h; the layout is in proto/event/classes/image_file.c. */
#include "proto/state/image_facts.h"
#include "proto/base/provider_guids.h"

#include <string.h>

const ea_guid ea_image_facts_provider = EA_PROVIDER_IMAGE_FILE;

/* A payload has at most 65,535 bytes: the path comes last and gets what the others leave. */
enum { TEXT_MAX = 2000, PATH_MAX_BYTES = 30000 };

void ea_image_facts_write(ea_text *payload, uint32_t pid, uint64_t base, const char *path,
                          const ea_image_facts *facts) {
    ea_text_clear(payload);
    ea_text_le32(payload, pid);
    ea_text_le64(payload, base);
    ea_text_le64(payload, facts->image_bytes);
    ea_text_le32(payload, facts->checksum);
    ea_text_le32(payload, facts->timestamp);
    ea_text_le64(payload, facts->file_bytes);
    ea_text_add(payload, facts->pdb_guid.bytes, sizeof facts->pdb_guid.bytes);
    ea_text_le32(payload, facts->pdb_age);
    ea_text_str_nul(payload, facts->sha256, TEXT_MAX);
    ea_text_str_nul(payload, facts->version, TEXT_MAX);
    ea_text_str_nul(payload, facts->company, TEXT_MAX);
    ea_text_str_nul(payload, facts->product, TEXT_MAX);
    ea_text_str_nul(payload, facts->original_name, TEXT_MAX);
    ea_text_str_nul(payload, facts->pdb_path, TEXT_MAX);
    ea_text_str_nul(payload, path, PATH_MAX_BYTES);
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
