/* Flows: TCP connections of programs and to programs that listen, and questions by UDP. What comes in is received in a
 * DPC on whatever processor the adapter interrupts. See subsystems.h. */
#include "tests/tracegen/subsystems.h"

#include <stdlib.h>
#include <string.h>

enum {
    FLOWS_A_PROCESS = 6,
    ADDRESS_TEXT_BYTES = 40,
    MSS = 1460,
    RECEIVE_WINDOW = 65535,
    FIRST_EPHEMERAL_PORT = 49152,
    DNS_PORT = 53,
    FLOW_IDLE_TICKS = 2 * TG_TICKS_PER_SECOND,
};

typedef struct address {
    int is_ipv6;
    uint8_t bytes[16];
    char text[ADDRESS_TEXT_BYTES];
} address;

typedef struct flow {
    tg_flow_facts facts;
    tg_process *process;
    tg_life life;
    const address *remote;
    uint32_t rounds; /* exchanges to go */
    uint32_t reply_bytes;
    int is_open;
    tg_thread *waiter; /* an answer wakes it */
    struct flow *next;
} flow;

struct tg_network {
    address local4, local6;
    address *remotes; /* by scenario->remotes, then of scripts */
    size_t remote_count;
    uint32_t weight_sum;
    flow *open; /* all that are */
    uint64_t last_id;
    uint16_t next_port;
};

/* ---- addresses ---- */

static int parse_ipv4(const char *text, uint8_t *out) {
    for (int i = 0; i < 4; i++) {
        char *end;
        unsigned long v = strtoul(text, &end, 10);
        if (end == text || v > 255 || *end != (i < 3 ? '.' : '\0'))
            return 0;
        out[i] = (uint8_t)v;
        text = end + 1;
    }
    return 1;
}

/* Groups of hex with one "::". */
static int parse_ipv6(const char *text, uint8_t *out) {
    uint8_t head[16], tail[16];
    size_t n = 0, tail_n = 0;
    int gap = 0;
    if (text[0] == ':' && text[1] == ':') {
        gap = 1;
        text += 2;
    }
    while (*text && n + tail_n < 16) {
        char *end;
        unsigned long v = strtoul(text, &end, 16);
        if (end == text || v > 0xFFFF)
            return 0;
        uint8_t *at = gap ? tail + tail_n : head + n;
        at[0] = (uint8_t)(v >> 8);
        at[1] = (uint8_t)v;
        *(gap ? &tail_n : &n) += 2;
        if (end[0] == ':' && end[1] == ':' && !gap) {
            gap = 1;
            end += 2;
        } else if (*end == ':') {
            end++;
        } else if (*end) {
            return 0;
        }
        text = end;
    }
    if (!gap && n != 16)
        return 0;
    memset(out, 0, 16);
    memcpy(out, head, n);
    memcpy(out + 16 - tail_n, tail, tail_n);
    return 1;
}

static int parse_address(const char *text, address *ret) {
    memset(ret, 0, sizeof *ret);
    snprintf(ret->text, sizeof ret->text, "%s", text);
    if (parse_ipv4(text, ret->bytes))
        return 1;
    ret->is_ipv6 = parse_ipv6(text, ret->bytes);
    return ret->is_ipv6;
}

void tg_make_network(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    tg_network *n = m->network = tg_new(m, sizeof *n);
    if (!n)
        return;
    n->next_port = FIRST_EPHEMERAL_PORT;
    n->remotes = ea_arena_zalloc(&m->arena, s->remote_count + s->script_count, sizeof *n->remotes);
    char text[ADDRESS_TEXT_BYTES];
    unsigned parts[5]; /* drawn one by one: C does not define the order in which a call's arguments are evaluated */
    static const unsigned bounds[5] = {200, 250, 250, 0xFFF, 0xFFFF};
    for (int i = 0; i < 5; i++)
        parts[i] = (unsigned)tg_below(&m->dice, bounds[i]);
    snprintf(text, sizeof text, "10.%u.%u.%u", parts[0], parts[1], 2 + parts[2]);
    int good = parse_address(text, &n->local4);
    snprintf(text, sizeof text, "fd00:%x::%x", 1 + parts[3], 1 + parts[4]);
    good &= parse_address(text, &n->local6);
    for (size_t i = 0; n->remotes && i < s->remote_count; i++) {
        good &= parse_address(s->remotes[i].address, &n->remotes[n->remote_count++]);
        n->weight_sum += s->remotes[i].weight;
    }
    m->failed |= !n->remotes;
    (void)good; /* an address that is none is all zeros */
}

/* ---- events ---- */

static uint16_t network_order(uint16_t v) {
    return (uint16_t)(v << 8 | v >> 8);
}

static tg_v address_value(const address *a) {
    return a->is_ipv6 ? tg_bytes(a->bytes, 16) : tg_n(ea_load32(a->bytes));
}

/* form: the IPv4 form; form6: the IPv6 form. All events are logged in a DPC, without a process and a thread. */
static int emit(tg_machine *m, tg_cpu *cpu, const flow *f, enum tg_form_id form, enum tg_form_id form6, int64_t at,
                uint32_t size, uint64_t first, uint64_t second) {
    const tg_network *n = m->network;
    const address *local = f->facts.is_ipv6 ? &n->local6 : &n->local4;
    tg_context who = tg_who(m, cpu, NULL, at);
    return TG_EMIT(m->trace, f->facts.is_ipv6 ? form6 : form, &who, tg_n(f->facts.pid), tg_n(size),
                   address_value(f->remote), address_value(local), tg_n(network_order(f->facts.remote_port)),
                   tg_n(network_order(f->facts.local_port)), tg_n(f->facts.is_tcp ? f->facts.id : 0), tg_n(first),
                   tg_n(second));
}

static void send(tg_machine *m, tg_cpu *cpu, tg_thread *t, flow *f, uint32_t bytes) {
    for (uint32_t left = bytes; left;) {
        uint32_t size = left < 16 * MSS ? left : 16 * MSS;
        int64_t at = tg_stamp(m, cpu, t);
        uint64_t ms = (uint64_t)(at / TG_TICKS_PER_MS);
        emit(m, cpu, f, f->facts.is_tcp ? TG_TCP_SEND4 : TG_UDP_SEND4, f->facts.is_tcp ? TG_TCP_SEND6 : TG_UDP_SEND6,
             at, size, ms, ms);
        f->facts.sends++;
        f->facts.sent_bytes += size;
        left -= size;
        if (f->facts.is_tcp && tg_chance(&m->dice, 1)) {
            emit(m, cpu, f, TG_TCP_RETRANSMIT4, TG_TCP_RETRANSMIT6, tg_stamp(m, cpu, t), size, 0, 0);
            f->facts.retransmits++;
        }
        tg_spend(m, cpu, 20, 120);
    }
}

static void receive(tg_machine *m, tg_cpu *cpu, flow *f, uint32_t bytes) {
    for (uint32_t left = bytes; left;) {
        uint32_t size = left < 4 * MSS ? left : 4 * MSS;
        emit(m, cpu, f, f->facts.is_tcp ? TG_TCP_RECV4 : TG_UDP_RECV4, f->facts.is_tcp ? TG_TCP_RECV6 : TG_UDP_RECV6,
             tg_stamp(m, cpu, NULL), size, 0, 0);
        f->facts.receives++;
        f->facts.received_bytes += size;
        left -= size;
        tg_spend(m, cpu, 10, 60);
    }
}

/* ---- flows ---- */

static flow *make_flow(tg_machine *m, tg_process *p, const address *remote, uint32_t port, int is_tcp) {
    tg_network *n = m->network;
    flow *f = tg_new(m, sizeof *f);
    if (!f)
        return NULL;
    *f = (flow){.process = p, .remote = remote, .is_open = 1, .next = n->open, .life = {.end = INT64_MAX}};
    f->facts = (tg_flow_facts){.is_tcp = is_tcp,
                               .is_ipv6 = remote->is_ipv6,
                               .pid = p->pid,
                               .id = 0x1000 + 4 * ++n->last_id,
                               .local = remote->is_ipv6 ? n->local6.text : n->local4.text,
                               .remote = remote->text,
                               .remote_port = (uint16_t)port,
                               .local_port = n->next_port};
    n->next_port = n->next_port == UINT16_MAX ? FIRST_EPHEMERAL_PORT : (uint16_t)(n->next_port + 1);
    n->open = f;
    return f;
}

/* t: who closes it; NULL: the other side. */
static void close_flow(tg_machine *m, tg_cpu *cpu, tg_thread *t, flow *f) {
    if (!f->is_open)
        return;
    f->is_open = 0;
    f->life.end = tg_stamp(m, cpu, t);
    if (f->facts.is_tcp)
        f->life.end_lost = !emit(m, cpu, f, TG_TCP_DISCONNECT4, TG_TCP_DISCONNECT6, f->life.end, 0, 0, 0);
    tg_truth_flow(m->truth, m, &f->facts, &f->life);
    for (flow **at = &m->network->open; *at; at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            return;
        }
    }
}

static void connect_flow(tg_machine *m, tg_cpu *cpu, tg_thread *t, flow *f) {
    f->life.begin = tg_stamp(m, cpu, t);
    if (f->facts.is_tcp)
        f->life.begin_lost = !emit(m, cpu, f, TG_TCP_CONNECT4, TG_TCP_CONNECT6, f->life.begin, 0, MSS, RECEIVE_WINDOW);
}

static void answer(tg_machine *m, void *subject) {
    flow *f = subject;
    if (!f->is_open)
        return;
    tg_cpu *cpu = &m->cpus[tg_below(&m->dice, m->scenario->cpus < 8 ? m->scenario->cpus : 8)];
    tg_interrupt(m, cpu, TG_DEVICE_NETWORK);
    receive(m, cpu, f, f->reply_bytes);
    tg_thread *t = f->waiter;
    f->waiter = NULL;
    if (t && tg_is_alive(&t->life) && t->state == TG_STATE_WAITING && !t->pinned_by)
        tg_wake(m, cpu, t, 2);
    if (!f->facts.is_tcp || (!f->rounds && tg_chance(&m->dice, 50)))
        close_flow(m, cpu, NULL, f);
}

static void forgotten(tg_machine *m, void *subject) {
    flow *f = subject;
    if (f->is_open)
        close_flow(m, &m->cpus[0], NULL, f);
}

static void exchange(tg_machine *m, tg_cpu *cpu, tg_thread *t, flow *f) {
    send(m, cpu, t, f,
         f->facts.is_tcp ? (uint32_t)tg_between(&m->dice, 60, 2400) : (uint32_t)tg_between(&m->dice, 28, 90));
    f->reply_bytes =
        f->facts.is_tcp ? (uint32_t)tg_between(&m->dice, 200, 40000) : (uint32_t)tg_between(&m->dice, 60, 500);
    f->rounds -= f->rounds != 0;
    tg_schedule_in(m, tg_between(&m->dice, 3000, 400000), answer, f);
}

static const tg_remote *any_remote(tg_machine *m, size_t *ret_index) {
    const tg_scenario *s = m->scenario;
    uint64_t n = tg_below(&m->dice, m->network->weight_sum);
    size_t i = 0;
    while (n >= s->remotes[i].weight)
        n -= s->remotes[i++].weight;
    *ret_index = i;
    return &s->remotes[i];
}

void tg_network_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    tg_network *n = m->network;
    size_t mine = 0;
    flow *known = NULL;
    for (flow *f = n->open; f; f = f->next) {
        if (f->process != t->process || !f->facts.is_tcp || f->facts.is_accepted)
            continue;
        if (f->rounds && tg_below(&m->dice, ++mine) == 0)
            known = f;
    }
    tg_system_call_enter(m, cpu, t);
    if (known && (mine >= FLOWS_A_PROCESS || tg_chance(&m->dice, 75))) {
        exchange(m, cpu, t, known);
        known->waiter = t;
    } else {
        size_t index;
        const tg_remote *remote = any_remote(m, &index);
        int is_tcp = remote->port != DNS_PORT;
        if (!is_tcp)
            tg_dns_query(m, cpu, t, m->scenario->remotes[tg_below(&m->dice, m->scenario->remote_count)].name);
        flow *f = make_flow(m, t->process, &n->remotes[index], remote->port, is_tcp);
        if (!f)
            return;
        f->rounds = 1 + (uint32_t)tg_below(&m->dice, 8);
        connect_flow(m, cpu, t, f);
        exchange(m, cpu, t, f);
        tg_schedule_in(m, FLOW_IDLE_TICKS + (int64_t)tg_below(&m->dice, 4 * FLOW_IDLE_TICKS), forgotten, f);
    }
    tg_system_call_exit(m, cpu, t, 0);
}

void tg_connect_to(tg_machine *m, tg_thread *t, const char *text, uint32_t port, uint32_t sent, uint32_t received) {
    tg_network *n = m->network;
    tg_cpu *cpu = tg_cpu_of(m, t);
    address *remote = &n->remotes[n->remote_count++];
    if (!text || !parse_address(text, remote))
        return;
    flow *f = make_flow(m, t->process, remote, port, 1);
    if (!f)
        return;
    connect_flow(m, cpu, t, f);
    send(m, cpu, t, f, sent);
    f->reply_bytes = received;
    tg_schedule_in(m, tg_between(&m->dice, 3000, 100000), answer, f);
}

/* ---- from outside ---- */

static void respond(tg_machine *m, tg_thread *t, void *subject) {
    flow *f = subject;
    if (!f->is_open)
        return;
    tg_cpu *cpu = tg_cpu_of(m, t);
    tg_system_call_enter(m, cpu, t);
    send(m, cpu, t, f, (uint32_t)tg_between(&m->dice, 300, 60000));
    if (!--f->rounds)
        close_flow(m, cpu, t, f);
    tg_system_call_exit(m, cpu, t, 0);
}

static void request(tg_machine *m, void *subject) {
    static const tg_range next_ms = {2, 80};
    flow *f = subject;
    tg_thread *t = f->is_open ? tg_any_thread(m, f->process) : NULL;
    if (!t)
        return;
    tg_cpu *cpu = &m->cpus[tg_below(&m->dice, m->scenario->cpus < 8 ? m->scenario->cpus : 8)];
    tg_interrupt(m, cpu, TG_DEVICE_NETWORK);
    receive(m, cpu, f, (uint32_t)tg_between(&m->dice, 120, 3000));
    tg_send(m, t, respond, f);
    if (f->rounds > 1)
        tg_schedule_in(m, tg_pick_ms(m, &next_ms), request, f);
}

static void incoming(tg_machine *m, void *subject) {
    const tg_scenario *s = m->scenario;
    tg_process *server = NULL;
    size_t seen = 0;
    for (size_t i = 0; i < m->processes.count; i++) {
        tg_process *p = m->processes.items[i];
        if (p->program->listens && tg_is_alive(&p->life) && !p->is_ending && tg_below(&m->dice, ++seen) == 0)
            server = p;
    }
    size_t index;
    (void)any_remote(m, &index);
    flow *f = server ? make_flow(m, server, &m->network->remotes[index],
                                 FIRST_EPHEMERAL_PORT + (uint32_t)tg_below(&m->dice, 16000), 1)
                     : NULL;
    if (f) {
        tg_cpu *cpu = &m->cpus[tg_below(&m->dice, s->cpus < 8 ? s->cpus : 8)];
        f->facts.is_accepted = 1;
        f->facts.local_port = (uint16_t)server->program->listens;
        f->rounds = 1 + (uint32_t)tg_below(&m->dice, 4);
        tg_interrupt(m, cpu, TG_DEVICE_NETWORK);
        f->life.begin = tg_stamp(m, cpu, NULL);
        f->life.begin_lost = !emit(m, cpu, f, TG_TCP_ACCEPT4, TG_TCP_ACCEPT6, f->life.begin, 0, MSS, RECEIVE_WINDOW);
        request(m, f);
    }
    int64_t mean = TG_TICKS_PER_SECOND / s->incoming_per_second;
    tg_schedule_in(m, 1 + (int64_t)tg_below(&m->dice, 2 * (uint64_t)mean), incoming, subject);
}

void tg_begin_incoming(tg_machine *m) {
    if (m->scenario->incoming_per_second)
        tg_schedule_in(m, TG_TICKS_PER_MS, incoming, m);
}

void tg_end_flows(tg_machine *m, const tg_process *p) {
    flow *next;
    for (flow *f = m->network->open; f; f = next) {
        next = f->next;
        if (!p)
            tg_truth_flow(m->truth, m, &f->facts, &f->life); /* the flow continues after the trace */
        else if (f->process == p)
            close_flow(m, &m->cpus[0], NULL, f);
    }
}
