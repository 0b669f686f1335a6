/* Which events a session of the emulator logs: kernel flags, levels, keywords, ids and pids. See emulator_stream.h. */
#include "emulator_stream.h"

#include "event.h"

/* Which kernel classes a flag turns on: masks in the first word (EnableFlags) and in the next two (PERF_*).
 * Source: config/kernel_flags.c, and the documentation of EnableFlags. */
static const struct {
    uint32_t guid; /* its first word */
    uint8_t low, high;
    uint32_t bits[3];
} FLAGS[] = {
    {0x3d6fa8d0, 0, 255, {0x1, 0}},           /* Process */
    {0x3d6fa8d1, 36, 36, {0x10, 0x4}},        /* Thread/CSwitch */
    {0x3d6fa8d1, 50, 50, {0x800, 0x200}},     /* Thread/ReadyThread */
    {0x3d6fa8d1, 0, 255, {0x2, 0}},           /* Thread */
    {0x2cb15d1d, 0, 255, {0x4, 0}},           /* Image */
    {0x3d6fa8d4, 0, 255, {0x500, 0}},         /* DiskIo */
    {0x90cbdc39, 0, 255, {0x6000200, 0}},     /* FileIo */
    {0x3d6fa8d3, 0, 255, {0xf000, 0x8001}},   /* PageFault */
    {0x9a280ac0, 0, 255, {0x10000, 0}},       /* TcpIp */
    {0xbf3a50c5, 0, 255, {0x10000, 0}},       /* UdpIp */
    {0xae53722e, 0, 255, {0x20000, 0}},       /* Registry */
    {0xce1dbfb4, 46, 47, {0x1000000, 0x402}}, /* PerfInfo/SampleProf, PmcCounterProf */
    {0xce1dbfb4, 51, 52, {0x80, 0, 0x40}},    /* PerfInfo/SysCl */
    {0xce1dbfb4, 66, 69, {0x60, 0x4080}},     /* PerfInfo/DPC, ISR */
    {0x45d8cccd, 0, 255, {0x100000, 0}},      /* ALPC */
};

/* A file's kernel event: by the form of its header, or, of what a merge added, by its class. */
int emul_is_kernel(const ea_record *r) {
    switch (r->header_type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        return 1;
    default:
        break;
    }
    return (r->flags & EA_FLAG_CLASSIC_HEADER) && ea_event_family_of(&r->provider, 1) != 0;
}

static int wants_kernel(const emul_session *s, const ea_record *r) {
    uint32_t first = ea_load32(r->provider.bytes), any = 0;
    for (size_t i = 0; i < 8; i++)
        any |= s->masks[i];
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        if (FLAGS[i].guid == first && r->opcode >= FLAGS[i].low && r->opcode <= FLAGS[i].high)
            return (s->masks[0] & FLAGS[i].bits[0]) || (s->masks[1] & FLAGS[i].bits[1]) ||
                   (s->masks[2] & FLAGS[i].bits[2]);
    return any != 0; /* configuration, stacks, names: they come with any flag */
}

static int wants_user(const emul_session *s, const ea_record *r) {
    for (size_t i = 0; i < s->provider_count; i++) {
        const emul_provider *p = &s->providers[i];
        if (!ea_guid_equal(&p->guid, &r->provider))
            continue;
        if (p->level && r->level > p->level)
            return 0;
        if (r->keyword && ((p->any && !(r->keyword & p->any)) || (r->keyword & p->all) != p->all))
            return 0;
        for (size_t k = 0; p->has_ids && k <= p->id_count; k++) {
            if (k == p->id_count) {
                if (p->ids_in)
                    return 0;
                break;
            }
            if (p->ids[k] == r->id) {
                if (!p->ids_in)
                    return 0;
                break;
            }
        }
        for (size_t k = 0; p->pid_count && k <= p->pid_count; k++) {
            if (k == p->pid_count)
                return 0;
            if (p->pids[k] == r->pid)
                break;
        }
        return 1;
    }
    return 0;
}

int emul_wants(const emul_session *s, const ea_record *r) {
    return emul_is_kernel(r) ? wants_kernel(s, r) : wants_user(s, r);
}
