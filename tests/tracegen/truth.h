/* The truth beside a generated trace, as JSON lines, written while the machine runs: what a reader makes of the trace
 * is judged by it. README.md lists the kinds of lines. Input: the model. Used by: tests. Thread: its owner's.
 *
 * The first failure sticks, and tg_truth_close returns it. Times are the model's ticks here, and raw ticks of the
 * trace's clock and ns since 1970 in the file. All functions take a NULL truth and do nothing. */
#ifndef EA_TESTS_TRACEGEN_TRUTH_H
#define EA_TESTS_TRACEGEN_TRUTH_H

#include "tests/tracegen/model.h"

typedef struct tg_truth_head {
    const char *preset;
    uint64_t seed;
} tg_truth_head;

EA_MUST_CHECK int tg_truth_create(tg_truth **ret, const char *path, const tg_truth_head *head, ea_err *err);
/* Everything that is known at the end: the machine, processes, threads, modules, classes, totals. */
void tg_truth_finish(tg_truth *t, const tg_machine *m, int64_t end_raw);
EA_MUST_CHECK int tg_truth_close(tg_truth *t, ea_err *err); /* frees it, too */

struct tg_stack;
struct tg_thread;
struct tg_life;

enum tg_name_kind { TG_NAME_FILE_OBJECT, TG_NAME_FILE_KEY, TG_NAME_REGISTRY_KEY };

/* What an address was called from begin to end. */
void tg_truth_name(tg_truth *t, const tg_machine *m, enum tg_name_kind kind, uint64_t address, const char *name,
                   const struct tg_life *life);
/* A thread's process had a handle to an object of a type (a number of Windows') from begin to end. */
void tg_truth_handle(tg_truth *t, const tg_machine *m, const struct tg_thread *thread, uint64_t handle, uint64_t object,
                     unsigned type, const struct tg_life *life);

/* A half of a stack, of the event at `of` on `cpu`. */
typedef struct tg_half_facts {
    const char *what;
    int64_t of, at; /* at: when the half itself was logged */
    uint16_t cpu;
    const struct tg_thread *thread;
    uint64_t key;      /* 0: its frames came with it */
    uint64_t match_id; /* of both halves of a stack whose user half came later; 0: it is not such a stack's */
    int is_in_header;  /* it is an item of the event itself */
    int is_again;      /* the user's half came before with this match id */
    int is_lost;
} tg_half_facts;

void tg_truth_stack(tg_truth *t, const tg_machine *m, struct tg_stack *s, const tg_half_facts *half);

typedef struct tg_flow_facts {
    int is_tcp, is_ipv6, is_accepted;
    uint32_t pid, sends, receives, retransmits;
    uint64_t sent_bytes, received_bytes, id;
    const char *local, *remote;
    uint16_t local_port, remote_port;
} tg_flow_facts;

void tg_truth_flow(tg_truth *t, const tg_machine *m, const tg_flow_facts *flow, const struct tg_life *life);
void tg_truth_loss(tg_truth *t, const tg_machine *m, uint16_t cpu, int64_t from, int64_t to, uint64_t events,
                   uint32_t buffers);
void tg_truth_step(tg_truth *t, const tg_machine *m, const char *technique, const char *what, uint32_t pid,
                   uint32_t tid, int64_t at);
void tg_truth_provider_event(tg_truth *t, const tg_event *e);

#endif
