/* Asking for schemas. See schema_resolver.h. */
#include "service/decode/schema_resolver.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { QUESTIONS_MAX = 1024, KINDS_MAX = 65536, ANSWER_MAX_BYTES = 4 << 20, ANSWERS_MAX = 1024 };

static const int64_t AGAIN_NS = (int64_t)600 * 1000000000;

typedef struct answer {
    struct answer *next;
    ea_schemas *schemas;
} answer;

struct ea_schema_resolver {
    ea_schema_lookup o;
    ea_u64_map kinds; /* hash of a kind -> when it was asked for, monotonic ns; the source's thread */
    ea_thread *thread;
    ea_mutex *lock;
    ea_cond *wake;
    atomic_int has_answers;

    /* lock */
    ea_record questions[QUESTIONS_MAX]; /* a ring */
    size_t first, count, answer_count;
    answer *answers;
    int stop;
};

/* Takes the oldest question; 0 when it is to end. */
static int take_question(ea_schema_resolver *a, ea_record *ret) {
    ea_mutex_lock(a->lock);
    while (!a->stop && !a->count)
        ea_cond_wait(a->wake, a->lock);
    int goes_on = !a->stop;
    if (goes_on) {
        *ret = a->questions[a->first];
        a->first = (a->first + 1) % QUESTIONS_MAX;
        a->count--;
    }
    ea_mutex_unlock(a->lock);
    return goes_on;
}

/* Queues schemas for the source's thread; when ANSWERS_MAX are queued, the answer is dropped. */
static int schema_resolver_give(ea_schema_resolver *a, ea_schemas *schemas) {
    answer *own = malloc(sizeof *own);
    if (!own)
        return EA_ENOMEM;
    ea_mutex_lock(a->lock);
    int is_full = a->answer_count == ANSWERS_MAX;
    if (!is_full) {
        *own = (answer){a->answers, schemas};
        a->answers = own;
        a->answer_count++;
        atomic_store(&a->has_answers, 1);
    }
    ea_mutex_unlock(a->lock);
    if (is_full)
        free(own);
    return is_full ? EA_ELIMIT : 0;
}

static void resolver_main(void *arg) {
    ea_schema_resolver *a = arg;
    ea_record question;
    while (take_question(a, &question)) {
        ea_schemas *schemas = NULL;
        int rc = ea_schemas_create(&schemas, ANSWER_MAX_BYTES, NULL);
        ea_count(a->o.counters, EA_COUNT_decode_asked, 1);
        if (!rc)
            rc = a->o.answer(a->o.arg, &question, schemas, NULL);
        if (!rc)
            rc = schema_resolver_give(a, schemas);
        if (rc) {
            ea_count(a->o.counters, EA_COUNT_decode_unanswered, 1);
            ea_schemas_destroy(schemas);
        }
    }
}

int ea_schema_resolver_create(ea_schema_resolver **ret, const ea_schema_lookup *ask, ea_err *err) {
    ea_schema_resolver *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "ask for schemas");
    a->o = *ask;
    if (!a->o.again_ns)
        a->o.again_ns = AGAIN_NS;
    ea_u64_map_init(&a->kinds, 0);
    int rc = ea_mutex_create(&a->lock, err);
    if (!rc)
        rc = ea_cond_create(&a->wake, err);
    if (!rc)
        rc = ea_thread_start(&a->thread, "schemas", resolver_main, a, err);
    if (rc) {
        ea_schema_resolver_destroy(a);
        return rc;
    }
    *ret = a;
    return 0;
}

static void destroy_answers(answer *first) {
    for (answer *next; first; first = next) {
        next = first->next;
        ea_schemas_destroy(first->schemas);
        free(first);
    }
}

void ea_schema_resolver_destroy(ea_schema_resolver *a) {
    if (!a)
        return;
    if (a->thread) {
        ea_mutex_lock(a->lock);
        a->stop = 1;
        ea_cond_signal(a->wake);
        ea_mutex_unlock(a->lock);
        ea_thread_join(a->thread);
    }
    destroy_answers(a->answers);
    ea_cond_destroy(a->wake);
    ea_mutex_destroy(a->lock);
    ea_u64_map_deinit(&a->kinds);
    free(a);
}

/* 1 when something changed. An answer for which there is no room in `into` changes nothing. */
static int take_answers(ea_schema_resolver *a, ea_schemas *into) {
    int changed = 0;
    ea_mutex_lock(a->lock);
    answer *all = a->answers;
    a->answers = NULL;
    a->answer_count = 0;
    atomic_store(&a->has_answers, 0);
    ea_mutex_unlock(a->lock);
    for (const answer *i = all; i; i = i->next)
        changed |= ea_schemas_merge(into, i->schemas);
    destroy_answers(all);
    return changed;
}

/* 0 when there is no room: it is asked with the next event of its kind. */
static int put_question(ea_schema_resolver *a, const ea_record *event) {
    ea_mutex_lock(a->lock);
    int has_room = a->count < QUESTIONS_MAX;
    if (has_room) {
        ea_record *q = &a->questions[(a->first + a->count++) % QUESTIONS_MAX];
        *q = *event;
        q->ext = NULL;
        q->ext_count = 0;
        q->payload = NULL;
        q->payload_bytes = 0;
        ea_cond_signal(a->wake);
    }
    ea_mutex_unlock(a->lock);
    return has_room;
}

int ea_schema_resolver_request(ea_schema_resolver *a, const ea_record *event, ea_schemas *into) {
    int classic = (event->flags & EA_FLAG_CLASSIC_HEADER) != 0;
    uint64_t rest =
        (uint64_t)(classic ? event->opcode : event->id) | (uint64_t)event->version << 16 | (uint64_t)classic << 24;
    uint64_t kind = ea_hash64(&event->provider, sizeof event->provider, rest), now = (uint64_t)ea_monotonic_ns();
    const uint64_t *asked = ea_u64_map_get(&a->kinds, kind);
    int is_new = !asked && a->kinds.count < KINDS_MAX;
    if ((is_new || (asked && now - *asked >= (uint64_t)a->o.again_ns)) && put_question(a, event))
        EA_IGNORE(ea_u64_map_put(&a->kinds, kind, now)); /* without memory it is asked again */
    return atomic_load(&a->has_answers) && take_answers(a, into);
}
