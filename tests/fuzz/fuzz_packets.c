/* Events of captured packets, whatever their payloads are: what comes out is a pcapng file with as many packets as are
 * counted, and blocks that end as they begin. A record of the input: kind, bits of the keyword, thread, length (two
 * bytes), payload. */
#include "proto/base/provider_guids.h"
#include "proto/relog/packets.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    ea_guid provider;
    uint16_t id;
} KINDS[] = {
    {EA_PROVIDER_NDIS_CAPTURE, 1001}, {EA_PROVIDER_NDIS_CAPTURE, 1003}, {EA_PROVIDER_PKTMON, 20},
    {EA_PROVIDER_PKTMON, 160},        {EA_PROVIDER_PKTMON, 170},
};

/* Walks whole blocks; arg: the number of packets. */
static int look(void *arg, const void *data, size_t len_bytes, ea_err *err) {
    enum { LEAST = 12, PACKET = 6 };

    const uint8_t *p = data;
    uint64_t *packets = arg;
    (void)err;
    while (len_bytes) {
        size_t n = len_bytes >= LEAST ? ea_load32(p + 4) : 0;
        if (n < LEAST || n % 4 || n > len_bytes || ea_load32(p + n - 4) != n)
            abort();
        *packets += ea_load32(p) == PACKET;
        p += n;
        len_bytes -= n;
    }
    return 0;
}

/* One record; NULL: there is none. */
static const uint8_t *next(const uint8_t *at, const uint8_t *end, ea_record *ret) {
    enum { HEAD = 5, SHIFT_OF_PARTS = 30 };

    if (end - at < HEAD)
        return NULL;
    size_t kind = at[0] % (sizeof KINDS / sizeof *KINDS), len_bytes = ea_load16(at + 3);
    if (len_bytes > (size_t)(end - at) - HEAD)
        return NULL;
    *ret = (ea_record){.provider = KINDS[kind].provider,
                       .id = KINDS[kind].id,
                       .keyword = (uint64_t)(at[1] & 15) << SHIFT_OF_PARTS | (uint64_t)(at[1] >> 4 & 1) << 16 |
                                  (uint64_t)(at[1] >> 5 & 1) << 9,
                       .pid = 4,
                       .tid = at[2],
                       .payload = at + HEAD,
                       .payload_bytes = (uint16_t)len_bytes};
    return at + HEAD + len_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t packets = 0, records = 0;
    const ea_packets_options options = {.program = "fuzz", .write = look, .arg = &packets};
    ea_packets *p = NULL;
    ea_record r;
    const uint8_t *end = data + size;
    if (ea_packets_create(&p, &options, NULL))
        abort();
    for (const uint8_t *at = data; (at = next(at, end, &r));)
        if (ea_packets_learn(p, &r, NULL))
            abort();
    for (const uint8_t *at = data; (at = next(at, end, &r)); records++)
        if (ea_packets_add(p, &r, (int64_t)records, NULL))
            abort();
    if (ea_packets_finish(p, NULL))
        abort();
    const ea_packets_counts *n = ea_packets_count(p);
    if (n->packets != packets || n->packets + n->incomplete + n->unknown > records)
        abort();
    ea_packets_destroy(p);
    return 0;
}
