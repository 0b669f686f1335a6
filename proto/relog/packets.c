/* See packets.h. */
#include "proto/relog/packets.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/base/provider_guids.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const ea_guid NDIS_CAPTURE = EA_PROVIDER_NDIS_CAPTURE, PKTMON = EA_PROVIDER_PKTMON;

enum {
    /* events */
    NDIS_FRAGMENT = 1001,
    NDIS_SWITCH_FRAGMENT = 1003,
    PKTMON_COMPONENT = 20,
    PKTMON_FRAME = 160,
    PKTMON_DROPPED_FRAME = 170,
    PKTMON_HEADER_BYTES = 34,
    /* pcapng */
    BLOCK_SECTION = 0x0A0D0D0A,
    BLOCK_INTERFACE = 1,
    BLOCK_PACKET = 6,
    ORDER_OF_BYTES = 0x1A2B3C4D,
    OPTION_COMMENT = 1,
    OPTION_NAME = 2,
    OPTION_DESCRIPTION = 3,
    OPTION_PROGRAM = 4,
    OPTION_FLAGS = 2,
    OPTION_RESOLUTION = 9,
    NANOSECONDS = 9, /* ten to the minus this */
    INBOUND = 1,
    OUTBOUND = 2,
    LINK_ETHERNET = 1,
    LINK_IP = 101,
    LINK_WLAN = 105,
    /* bounds */
    PACKET_MAX_BYTES = 256 << 10, /* readers refuse larger ones */
    PENDING_MAX = 64,             /* packets of which the last part is missing */
    INTERFACES_MAX = 1 << 16,
    NAME_MAX_BYTES = 255,
    COMPONENTS = 1 << 16,
    FLUSH_BYTES = 1 << 16,
};

/* Of NDIS' events; bits of their keyword. */
static const uint64_t KEYWORD_WWAN = 0x200, KEYWORD_WLAN = 0x10000, KEYWORD_FIRST = 0x40000000,
                      KEYWORD_LAST = 0x80000000, KEYWORD_SENT = 0x100000000, KEYWORD_RECEIVED = 0x200000000;

/* Where a packet was seen. No padding: it is the key of a map. */
typedef struct packet_place {
    uint32_t event; /* its id */
    uint32_t link;  /* LINK_* */
    uint32_t a, b;  /* NDIS: interface of the miniport, and that of the capture; PktMon: component, edge */
    uint32_t port;  /* of a virtual switch */
} packet_place;

/* A part of a packet, or all of it. */
typedef struct packet_part {
    packet_place place;
    const uint8_t *data; /* borrows from the record */
    uint32_t len_bytes, original_bytes;
    int is_first, is_last, direction;
    const uint8_t *nic; /* name of the source at a virtual switch, UTF-16; NULL: none */
    size_t nic_bytes;
} packet_part;

/* A packet whose last part has not come. */
typedef struct open_packet {
    packet_place place;
    uint32_t pid, tid;
    uint8_t *data;
    size_t len_bytes, capacity;
} open_packet;

struct ea_packets {
    ea_packets_options options;
    ea_bytes_map interfaces; /* packet_place, in places -> its number, and 1 */
    ea_arena places;
    uintptr_t interface_count;
    char **components; /* their names, or NULL */
    open_packet open[PENDING_MAX];
    size_t open_count;
    ea_text out, text;
    ea_packets_counts counts;
};

/* ---- pcapng ---- */

static void put16(ea_text *t, unsigned v) {
    ea_text_char(t, (char)(v & 0xFF));
    ea_text_char(t, (char)(v >> 8 & 0xFF));
}

static void put_padding(ea_text *t, size_t len_bytes) {
    static const char ZEROS[3];
    ea_text_add(t, ZEROS, (4 - len_bytes % 4) % 4);
}

static void packets_put_option(ea_text *t, unsigned code, const void *data, size_t len_bytes) {
    if (len_bytes > UINT16_MAX)
        len_bytes = UINT16_MAX;
    put16(t, code);
    put16(t, (unsigned)len_bytes);
    ea_text_add(t, data, len_bytes);
    put_padding(t, len_bytes);
}

/* Begins a block; its length is known at its end. */
static size_t begin_block(ea_text *t, uint32_t type) {
    size_t at = t->len_bytes;
    ea_text_le32(t, type);
    ea_text_le32(t, 0);
    return at;
}

static void end_block(ea_text *t, size_t at) {
    enum { LENGTH_AT = 4, LENGTH_BYTES = 4 };

    uint32_t len_bytes = (uint32_t)(t->len_bytes - at + LENGTH_BYTES);
    ea_text_le32(t, len_bytes);
    if (!t->failed)
        ea_store32(t->data + at + LENGTH_AT, len_bytes);
}

static void put_section(ea_text *t, const char *program) {
    size_t at = begin_block(t, BLOCK_SECTION);
    ea_text_le32(t, ORDER_OF_BYTES);
    put16(t, 1); /* version 1.0 */
    put16(t, 0);
    ea_text_le64(t, UINT64_MAX); /* the section's length is not said */
    packets_put_option(t, OPTION_PROGRAM, program, strlen(program));
    ea_text_le32(t, 0);
    end_block(t, at);
}

static int flush(ea_packets *p, ea_err *err) {
    if (p->out.failed)
        return ea_fail(err, EA_ENOMEM, "packets");
    int rc = p->out.len_bytes ? p->options.write(p->options.arg, p->out.data, p->out.len_bytes, err) : 0;
    ea_text_clear(&p->out);
    return rc;
}

static void describe_interface(ea_packets *p, const packet_part *part) {
    const packet_place *at = &part->place;
    ea_text *t = &p->text;
    ea_text_clear(t);
    if (at->event == NDIS_SWITCH_FRAGMENT) {
        ea_text_printf(t, "switch %" PRIu32 " port %" PRIu32, at->b, at->port);
        packets_put_option(&p->out, OPTION_NAME, t->data, t->len_bytes);
        ea_text_clear(t);
        ea_text_utf16(t, part->nic, part->nic_bytes);
    } else if (at->event == NDIS_FRAGMENT) {
        ea_text_printf(t, "interface %" PRIu32, at->b);
        packets_put_option(&p->out, OPTION_NAME, t->data, t->len_bytes);
        ea_text_clear(t);
        if (at->a != at->b)
            ea_text_printf(t, "filter over interface %" PRIu32, at->a);
    } else {
        ea_text_printf(t, "component %" PRIu32 " edge %" PRIu32, at->a, at->b);
        packets_put_option(&p->out, OPTION_NAME, t->data, t->len_bytes);
        ea_text_clear(t);
        if (p->components && p->components[at->a])
            ea_text_str(t, p->components[at->a]);
    }
    if (t->len_bytes && !t->failed) {
        ea_utf8_repair(t->data, t->len_bytes);
        packets_put_option(&p->out, OPTION_DESCRIPTION, t->data, t->len_bytes);
    }
}

/* 1 and *ret: its number in the file; 0: there are too many. EA_ENOMEM. */
static int interface_of(ea_packets *p, const packet_part *part, uint32_t *ret, ea_err *err) {
    static const uint8_t RESOLUTION = NANOSECONDS;
    uintptr_t number = (uintptr_t)ea_bytes_map_get(&p->interfaces, &part->place, sizeof part->place);
    if (number) {
        *ret = (uint32_t)(number - 1);
        return 1;
    }
    number = p->interface_count + 1;
    if (number > INTERFACES_MAX)
        return 0;
    const packet_place *place = ea_arena_copy(&p->places, &part->place, sizeof part->place);
    if (!place || ea_bytes_map_put(&p->interfaces, place, sizeof *place, (void *)number))
        return ea_fail(err, EA_ENOMEM, "packets");
    p->interface_count++;
    size_t at = begin_block(&p->out, BLOCK_INTERFACE);
    put16(&p->out, part->place.link);
    put16(&p->out, 0);
    ea_text_le32(&p->out, 0); /* no limit of a packet's length */
    describe_interface(p, part);
    packets_put_option(&p->out, OPTION_RESOLUTION, &RESOLUTION, sizeof RESOLUTION);
    ea_text_le32(&p->out, 0);
    end_block(&p->out, at);
    *ret = (uint32_t)(number - 1);
    return 1;
}

/* What the event says beside the packet. */
static void put_comment(ea_packets *p, const ea_record *r, const packet_part *part) {
    ea_text *t = &p->text;
    ea_text_clear(t);
    if (part->place.event == PKTMON_FRAME || part->place.event == PKTMON_DROPPED_FRAME) {
        const uint8_t *at = r->payload;
        ea_text_printf(t, "packet %" PRIu64 ".%u, appearance %u, filter %u", ea_load64(at), ea_load16(at + 8),
                       ea_load16(at + 10), ea_load16(at + 20));
        if (part->place.event == PKTMON_DROPPED_FRAME)
            ea_text_printf(t, ", dropped for reason %" PRIu32 " at 0x%" PRIx32, ea_load32(at + 22), ea_load32(at + 26));
    } else if (r->pid != UINT32_MAX) {
        ea_text_printf(t, "process %" PRIu32 ", thread %" PRIu32, r->pid, r->tid);
    }
    if (t->len_bytes && !t->failed)
        packets_put_option(&p->out, OPTION_COMMENT, t->data, t->len_bytes);
}

/* Of an Ethernet frame with an IP packet: the length that the packet has by its own header; 0: unknown. NDIS does not
 * say what it cut off. */
static uint32_t length_by_header(uint32_t link, const uint8_t *data, size_t len_bytes) {
    enum { ETHERNET = 14, TYPE_AT = 12, IPV4 = 20, IPV4_LENGTH_AT = 2, IPV6 = 40, IPV6_LENGTH_AT = 4 };

    size_t ip = link == LINK_ETHERNET ? ETHERNET : 0;
    if (link == LINK_WLAN || len_bytes < ip + IPV4)
        return 0;
    unsigned version = data[ip] >> 4;
    if (ip && (data[TYPE_AT] << 8 | data[TYPE_AT + 1]) != (version == 4 ? 0x0800 : 0x86DD))
        return 0;
    if (version == 4)
        return (uint32_t)(ip + (size_t)(data[ip + IPV4_LENGTH_AT] << 8 | data[ip + IPV4_LENGTH_AT + 1]));
    if (version == 6 && len_bytes >= ip + IPV6)
        return (uint32_t)(ip + IPV6 + (size_t)(data[ip + IPV6_LENGTH_AT] << 8 | data[ip + IPV6_LENGTH_AT + 1]));
    return 0;
}

static int put_packet(ea_packets *p, const ea_record *r, const packet_part *part, const uint8_t *data, size_t len_bytes,
                      int64_t utc_ns, ea_err *err) {
    enum { PROTECTED_AT = 1, PROTECTED = 0x40 };

    uint32_t number, original_bytes = part->original_bytes;
    uint64_t time_ns = utc_ns > 0 ? (uint64_t)utc_ns : 0;
    uint8_t flags[4];
    int rc = len_bytes ? interface_of(p, part, &number, err) : 0; /* without bytes it was redacted */
    if (rc <= 0) {
        p->counts.unknown += !rc;
        return rc;
    }
    if (!original_bytes)
        original_bytes = length_by_header(part->place.link, data, len_bytes);
    ea_text *t = &p->out;
    size_t at = begin_block(t, BLOCK_PACKET);
    ea_text_le32(t, number);
    ea_text_le32(t, (uint32_t)(time_ns >> 32));
    ea_text_le32(t, (uint32_t)time_ns);
    ea_text_le32(t, (uint32_t)len_bytes);
    ea_text_le32(t, original_bytes > len_bytes ? original_bytes : (uint32_t)len_bytes);
    size_t data_at = t->len_bytes;
    ea_text_add(t, data, len_bytes);
    if (part->place.link == LINK_WLAN && len_bytes > PROTECTED_AT && !t->failed) /* Windows has decrypted it */
        t->data[data_at + PROTECTED_AT] = (char)(t->data[data_at + PROTECTED_AT] & ~PROTECTED);
    put_padding(t, len_bytes);
    if (part->direction) {
        ea_store32(flags, (uint32_t)part->direction);
        packets_put_option(t, OPTION_FLAGS, flags, sizeof flags);
    }
    put_comment(p, r, part);
    ea_text_le32(t, 0);
    end_block(t, at);
    p->counts.packets++;
    return t->failed || t->len_bytes >= FLUSH_BYTES ? flush(p, err) : 0;
}

/* ---- events ---- */

/* Skips a text of UTF-16 and its NUL; 0: it does not end. */
static int skip_text(const ea_record *r, size_t *at, size_t *ret_bytes) {
    for (size_t i = *at; i + 2 <= r->payload_bytes; i += 2) {
        if (ea_load16(r->payload + i))
            continue;
        *ret_bytes = i - *at;
        *at = i + 2;
        return 1;
    }
    return 0;
}

/* Skips what a packet at a virtual switch has before its data: source, and destinations. */
static int skip_switch(const ea_record *r, packet_part *part, size_t *at) {
    enum { WORD = 4 };

    size_t ignored;
    uint32_t count;
    if (r->payload_bytes - *at < WORD)
        return 0;
    part->place.port = ea_load32(r->payload + *at);
    *at += WORD;
    if (!skip_text(r, at, &ignored))
        return 0;
    part->nic = r->payload + *at;
    if (!skip_text(r, at, &part->nic_bytes) || !skip_text(r, at, &ignored) || r->payload_bytes - *at < WORD)
        return 0;
    count = ea_load32(r->payload + *at);
    *at += WORD;
    for (uint32_t i = 0; i < count; i++) { /* each has a number and three names: it ends with the payload */
        if (r->payload_bytes - *at < WORD)
            return 0;
        *at += WORD;
        for (int k = 0; k < 3; k++)
            if (!skip_text(r, at, &ignored))
                return 0;
    }
    return 1;
}

/* 1: a part of a packet; 0: no known layout. */
static int parse_ndis(const ea_record *r, packet_part *part) {
    enum { WORD = 4, INTERFACES = 8 };

    size_t at = INTERFACES, left;
    if (r->payload_bytes < INTERFACES + WORD)
        return 0;
    *part = (packet_part){.is_first = !!(r->keyword & KEYWORD_FIRST),
                          .is_last = !!(r->keyword & KEYWORD_LAST),
                          .direction = r->keyword & KEYWORD_SENT       ? OUTBOUND
                                       : r->keyword & KEYWORD_RECEIVED ? INBOUND
                                                                       : 0};
    part->place.event = r->id;
    part->place.link = r->keyword & KEYWORD_WLAN ? LINK_WLAN : r->keyword & KEYWORD_WWAN ? LINK_IP : LINK_ETHERNET;
    part->place.a = ea_load32(r->payload);
    part->place.b = ea_load32(r->payload + WORD);
    if (r->id == NDIS_SWITCH_FRAGMENT && !skip_switch(r, part, &at))
        return 0;
    left = r->payload_bytes - at;
    if (left < WORD || ea_load32(r->payload + at) > left - WORD)
        return 0;
    part->len_bytes = ea_load32(r->payload + at);
    part->data = r->payload + at + WORD;
    left -= WORD + part->len_bytes;
    /* after a packet at a switch comes what its buffers say of it, and nothing else */
    return r->id != NDIS_SWITCH_FRAGMENT || (left >= WORD && ea_load32(part->data + part->len_bytes) == left - WORD);
}

static int parse_pktmon(const ea_record *r, packet_part *part) {
    enum { DIRECTION_AT = 12, TYPE_AT = 14, COMPONENT_AT = 16, EDGE_AT = 18, ORIGINAL_AT = 30, LOGGED_AT = 32 };

    static const uint8_t LINKS[] = {0, LINK_ETHERNET, LINK_WLAN, LINK_IP};
    /* none, in, out, received, sent, into a switch, out of it */
    static const uint8_t DIRECTIONS[] = {0, INBOUND, OUTBOUND, INBOUND, OUTBOUND, INBOUND, OUTBOUND};
    const uint8_t *at = r->payload;
    if (r->payload_bytes < PKTMON_HEADER_BYTES)
        return 0;
    unsigned type = ea_load16(at + TYPE_AT), direction = ea_load16(at + DIRECTION_AT);
    *part = (packet_part){.place.event = r->id,
                          .place.a = ea_load16(at + COMPONENT_AT),
                          .place.b = ea_load16(at + EDGE_AT),
                          .data = at + PKTMON_HEADER_BYTES,
                          .len_bytes = ea_load16(at + LOGGED_AT),
                          .original_bytes = ea_load16(at + ORIGINAL_AT),
                          .is_first = 1,
                          .is_last = 1,
                          .direction = direction < sizeof DIRECTIONS ? DIRECTIONS[direction] : 0};
    part->place.link = type < sizeof LINKS ? LINKS[type] : 0;
    return part->place.link && part->len_bytes <= (size_t)r->payload_bytes - PKTMON_HEADER_BYTES;
}

/* ---- packets in parts (NDIS before Windows 8.1) ---- */

static void close_packet(ea_packets *p, size_t i) {
    free(p->open[i].data);
    p->open_count--;
    memmove(p->open + i, p->open + i + 1, (p->open_count - i) * sizeof *p->open);
}

/* One thread logs the parts of a packet one after another. PENDING_MAX: there is none. */
static size_t find_open(const ea_packets *p, const ea_record *r, const packet_part *part) {
    for (size_t i = 0; i < p->open_count; i++)
        if (p->open[i].pid == r->pid && p->open[i].tid == r->tid &&
            memcmp(&p->open[i].place, &part->place, sizeof part->place) == 0)
            return i;
    return PENDING_MAX;
}

static int packets_add_part(ea_packets *p, const ea_record *r, const packet_part *part, int64_t utc_ns, ea_err *err) {
    size_t i = find_open(p, r, part);
    if (part->is_first && i != PENDING_MAX) { /* the last part of the one before it is missing */
        close_packet(p, i);
        p->counts.incomplete++;
        i = PENDING_MAX;
    }
    if (part->is_first && part->is_last)
        return put_packet(p, r, part, part->data, part->len_bytes, utc_ns, err);
    if (!part->is_first && i == PENDING_MAX) {
        p->counts.incomplete += part->is_last; /* once a packet */
        return 0;
    }
    if (i == PENDING_MAX && p->open_count == PENDING_MAX) {
        close_packet(p, 0);
        p->counts.incomplete++;
    }
    if (i == PENDING_MAX) {
        i = p->open_count++;
        p->open[i] = (open_packet){.place = part->place, .pid = r->pid, .tid = r->tid};
    }
    open_packet *o = &p->open[i];
    if (part->len_bytes > (size_t)PACKET_MAX_BYTES - o->len_bytes) {
        close_packet(p, i);
        p->counts.incomplete += part->is_last; /* otherwise its last part counts it */
        return 0;
    }
    if (EA_GROW(o->data, o->capacity, o->len_bytes + part->len_bytes, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "packets");
    if (part->len_bytes)
        memcpy(o->data + o->len_bytes, part->data, part->len_bytes);
    o->len_bytes += part->len_bytes;
    if (!part->is_last)
        return 0;
    int rc = put_packet(p, r, part, o->data, o->len_bytes, utc_ns, err);
    close_packet(p, i);
    return rc;
}

/* ---- the caller's ---- */

int ea_packets_create(ea_packets **ret, const ea_packets_options *options, ea_err *err) {
    ea_packets *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "packets");
    p->options = *options;
    ea_text_init(&p->out);
    ea_text_init(&p->text);
    ea_bytes_map_init(&p->interfaces, INTERFACES_MAX);
    ea_arena_init(&p->places, SIZE_MAX);
    put_section(&p->out, options->program);
    p->options.program = NULL;
    int rc = flush(p, err);
    if (rc)
        ea_packets_destroy(p);
    else
        *ret = p;
    return rc;
}

void ea_packets_destroy(ea_packets *p) {
    if (!p)
        return;
    while (p->open_count)
        close_packet(p, p->open_count - 1);
    for (size_t i = 0; p->components && i < COMPONENTS; i++)
        free(p->components[i]);
    free(p->components);
    ea_bytes_map_deinit(&p->interfaces);
    ea_arena_deinit(&p->places);
    ea_text_deinit(&p->out);
    ea_text_deinit(&p->text);
    free(p);
}

static int packets_is_of(const ea_record *r, const ea_guid *provider) {
    return !(r->flags & EA_FLAG_CLASSIC_HEADER) && ea_guid_equal(&r->provider, provider);
}

int ea_packets_learn(ea_packets *p, const ea_record *r, ea_err *err) {
    enum { NAME_AT = 4 };

    size_t at = NAME_AT, name_bytes;
    if (r->id != PKTMON_COMPONENT || !packets_is_of(r, &PKTMON) || r->payload_bytes < NAME_AT ||
        !skip_text(r, &at, &name_bytes))
        return 0;
    if (!p->components && !(p->components = calloc(COMPONENTS, sizeof *p->components)))
        return ea_fail(err, EA_ENOMEM, "packets");
    unsigned id = ea_load16(r->payload);
    ea_text_clear(&p->text);
    ea_text_utf16(&p->text, r->payload + NAME_AT, name_bytes < NAME_MAX_BYTES ? name_bytes : NAME_MAX_BYTES);
    char *name = p->text.failed ? NULL : malloc(p->text.len_bytes + 1);
    if (!name)
        return ea_fail(err, EA_ENOMEM, "packets");
    if (p->text.len_bytes)
        memcpy(name, p->text.data, p->text.len_bytes);
    name[p->text.len_bytes] = 0;
    free(p->components[id]);
    p->components[id] = name;
    return 0;
}

int ea_packets_add(ea_packets *p, const ea_record *r, int64_t utc_ns, ea_err *err) {
    packet_part part;
    int is_known;
    if ((r->id == NDIS_FRAGMENT || r->id == NDIS_SWITCH_FRAGMENT) && packets_is_of(r, &NDIS_CAPTURE))
        is_known = parse_ndis(r, &part);
    else if ((r->id == PKTMON_FRAME || r->id == PKTMON_DROPPED_FRAME) && packets_is_of(r, &PKTMON))
        is_known = parse_pktmon(r, &part);
    else
        return 0;
    if (is_known)
        return packets_add_part(p, r, &part, utc_ns, err);
    p->counts.unknown++;
    return 0;
}

int ea_packets_finish(ea_packets *p, ea_err *err) {
    p->counts.incomplete += p->open_count;
    while (p->open_count)
        close_packet(p, p->open_count - 1);
    return flush(p, err);
}

const ea_packets_counts *ea_packets_count(const ea_packets *p) {
    return &p->counts;
}
