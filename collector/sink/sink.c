/* See sink.h. */
#include "collector/sink/sink.h"

#include "collector/sink/sink_process.h"
#include "collector/sink/sink_rows.h"
#include "collector/sink/sink_sender.h"
#include "collector/sink/sink_turns.h"
#include "collector/state/state_worker.h"
#include "proto/base/array.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/lang/lang_where.h"
#include "proto/relog/redact.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SINK_BATCHES = 256, /* that are looked at for one request; all may be left out */
    SINK_DOUBTS = 16,   /* rows that are refused one after the other, while nothing was accepted, until it waits */
    SINK_RETRY_AFTER_S = 3600, /* longer ones are cut */
    SINK_SHARES = 4,           /* of a request that is shared: an agent has one of them */
    SINK_QUICK = 64,           /* failures in a row, until waits grow though there are other agents to ask for */
    SINK_PATIENCE = 3,         /* failures in a row, until the row is looked for that is the cause */
};

#define SINK_MS_NS INT64_C(1000000)

static const int64_t SINK_LOOK_NS = 500 * SINK_MS_NS;     /* for arrivals */
static const int64_t SINK_STEP_NS = 100 * SINK_MS_NS;     /* between looks at the stop flag */
static const int64_t SINK_HOLD_NS = 5000 * SINK_MS_NS;    /* of a batch, for its history */
static const int64_t SINK_AUDIT_NS = 60000 * SINK_MS_NS;  /* between looks for what was removed */
static const int64_t SINK_SHARE_NS = 50 * SINK_MS_NS;     /* for making an agent's rows of a shared request */
static const int64_t SINK_TURN_NS = 500 * SINK_MS_NS;     /* and for those of an agent apart */
static const int64_t SINK_ALONE_NS = 600000 * SINK_MS_NS; /* an agent whose rows were refused or failed is apart */
static const int64_t SINK_CATCH_UP_NS = 10000 * SINK_MS_NS;

/* A run of an agent in the rows at hand. */
typedef struct sink_slot {
    uint64_t stream_id;
    char host[256], stream[2 * EA_STREAM_ID_BYTES + 1];
    uint64_t counts[EC_SINK_FATE_COUNT];
    size_t first; /* the host's first one, which has the next ones for all runs of the host */
    uint64_t row_count, row_bytes, refused_count;
    uint64_t batch_count;
    int64_t made_ns; /* how long the rows took */
} sink_slot;

struct ec_sink {
    const ec_sink_options *o;
    struct ea_file *lock;
    ec_outbox *outbox;
    ec_sinks *places;
    ec_sink_sender_options sending;
    void *sender;
    ec_sink_process *process;
    ea_where *where;
    ea_redact *redact;        /* NULL: values stay */
    uint64_t redacted_before; /* values, in earlier runs */
    int has_all_names;        /* of users and machines: no more are learned */
    ea_class_chooser chooser;
    int has_chooser;
    ea_registry *registry;
    ec_sink_row row; /* as it is kept, but for counts of requests */
    uint64_t counts[EC_SINK_FATE_COUNT];
    int64_t audited_ns;
    ec_sink_place end; /* with `ends` */
    ec_sink_turns turns;
    /* reading */
    ec_sink_place at;
    ec_outbox_batch batch;
    ea_batch_view *view; /* NULL: no batch is open */
    int is_held;         /* the next batch waits for its history */
    int has_caught_up;   /* the agent whose turn it is */
    int reads_events;    /* some were, in this run */
    /* the rows at hand */
    ea_text rows, scratch, reason, process_name; /* process_name: redacted */
    ec_sink_item *items, **asked;
    size_t item_count, item_capacity, asked_capacity;
    sink_slot *slots;
    size_t slot_count, slot_capacity;
    /* sending */
    int has_accepted;     /* the receiver: lately, in this run */
    int accepts_these;    /* some of the rows at hand */
    size_t refused_count; /* rows since it accepted one */
    size_t doubt_count;   /* of the rows at hand */
    char said[EC_SINK_TEXT_MAX];
};

static int sink_is_stopped(const ec_sink *s) {
    return s->o->stop && atomic_load(s->o->stop);
}

static void sink_note(const ec_sink *s, const char *text) {
    if (s->o->on_note)
        s->o->on_note(s->o->arg, text);
}

static void sink_wait(const ec_sink *s, int64_t ns) {
    ec_store_rest(ec_outbox_store(s->outbox));
    int64_t end = ea_monotonic_ns() + ns, left = ns;
    for (; !sink_is_stopped(s) && left > 0; left = end - ea_monotonic_ns())
        ea_sleep_ns(left < SINK_STEP_NS ? left : SINK_STEP_NS);
}

/* ---- reading ---- */

static int sink_slot_of(ec_sink *s, size_t *ret, ea_err *err) {
    for (size_t i = s->slot_count; i-- > 0;)
        if (s->slots[i].stream_id == s->batch.row.stream_id) {
            *ret = i;
            return 0;
        }
    if (EA_GROW(s->slots, s->slot_capacity, s->slot_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "read what is to be sent");
    sink_slot *slot = &s->slots[s->slot_count];
    *slot = (sink_slot){.stream_id = s->batch.row.stream_id};
    memcpy(slot->host, s->batch.host, sizeof slot->host);
    memcpy(slot->stream, s->batch.stream, sizeof slot->stream);
    while (strcmp(s->slots[slot->first].host, slot->host) != 0)
        slot->first++;
    *ret = s->slot_count++;
    return 0;
}

static void sink_leave_batch(ec_sink *s) {
    ea_batch_close(s->view);
    s->view = NULL;
    s->at = (ec_sink_place){.segment = s->batch.row.segment, .offset = s->batch.row.offset + 1};
}

static int sink_wants_host(const ec_sink *s, const char *host) {
    int is_wanted = !s->o->hosts->count;
    for (size_t i = 0; !is_wanted && i < s->o->hosts->count; i++)
        is_wanted = ea_name_in(s->o->hosts->items[i], host);
    return is_wanted;
}

/* Classes of all streams are kept, until there are too many. */
static int sink_new_registry(ec_sink *s, ea_err *err) {
    ea_batch_close(s->view);
    s->view = NULL;
    if (s->where)
        ea_where_end(s->where);
    ea_class_chooser_forget(&s->chooser);
    ea_registry_destroy(s->registry);
    s->registry = NULL;
    return ea_registry_create(&s->registry, 0, err);
}

static int sink_open_view(ec_sink *s, ea_err *err) {
    const uint8_t *data = NULL;
    size_t len = 0;
    int rc = ec_store_read(ec_outbox_store(s->outbox), &s->batch.row, &data, &len, err);
    if (rc)
        return rc;
    for (int is_again = 0;; is_again = 1) {
        rc = ea_batch_open(&s->view, data, len, s->registry, err);
        if (rc == EA_ENOTFOUND) {
            rc = ec_store_load_classes(ec_outbox_store(s->outbox), s->batch.row.stream_id, data, len, s->registry, err);
            if (!rc)
                rc = ea_batch_open(&s->view, data, len, s->registry, err);
        }
        if (rc != EA_ELIMIT || is_again)
            return rc;
        rc = sink_new_registry(s, err);
        if (rc)
            return rc;
    }
}

static int sink_is_damage(int rc) {
    return rc == EA_ECORRUPT || rc == EA_ETRUNCATED || rc == EA_EFORMAT || rc == EA_ELIMIT || rc == EA_ENOTFOUND ||
           rc == EA_EUNSUPPORTED;
}

/* The rest of the batch cannot be read, or is gone from the store, which the next audit counts. Other errors than those
 * of damage are returned. */
static int sink_damaged(ec_sink *s, size_t slot, int why, const ea_err *damage, ea_err *err) {
    char text[EC_SINK_TEXT_MAX + 400];
    /* an index may name fewer events than the batch has */
    uint64_t rest = s->batch.row.event_count > s->at.position ? s->batch.row.event_count - s->at.position : 0;
    int rc = why == EA_ENOMEM ? 1 : ec_outbox_has(s->outbox, &s->batch, err);
    if (rc < 0)
        return rc;
    if (rc && !sink_is_damage(why)) {
        *err = *damage;
        return why;
    }
    if (rc) {
        s->slots[slot].counts[EC_SINK_damaged] += rest;
        snprintf(text, sizeof text, "host %s, stream %s, batch %" PRIu64 ": %" PRIu64 " events cannot be read: %.300s",
                 s->batch.host, s->batch.stream, s->batch.row.number, rest, damage->message);
        sink_note(s, text);
    }
    sink_leave_batch(s);
    return 0;
}

static int sink_is_before(const ec_batch_row *row, const ec_sink_place *place) {
    return row->segment < place->segment || (row->segment == place->segment && row->offset < place->offset);
}

/* The next batch of which rows are to be made is open: 1; 0: it was passed over; 2: there is none now. */
static int sink_next_batch(ec_sink *s, ea_err *err) {
    size_t slot = 0;
    int is_shared = s->turns.now == &s->turns.all;
    int rc = ec_outbox_next(s->outbox, &s->at, is_shared ? NULL : s->turns.now->own.host, &s->batch, err);
    if (rc < 0)
        return rc;
    const ec_batch_row *row = &s->batch.row;
    if (!is_shared && (!rc || !sink_is_before(row, &s->row.place))) {
        s->has_caught_up = 1;
        return 2;
    }
    if (!rc)
        return 2;
    if (s->o->ends &&
        (row->segment > s->end.segment || (row->segment == s->end.segment && row->offset >= s->end.offset)))
        return 2;
    if (is_shared && ec_sink_turns_find(&s->turns, s->batch.host)) {
        sink_leave_batch(s);
        return 0;
    }
    uint64_t position = row->segment == s->at.segment && row->offset == s->at.offset ? s->at.position : 0;
    int is_wanted =
        s->batch.kind == EA_BATCH_EVENTS && row->event_count > position && sink_wants_host(s, s->batch.host);
    for (size_t i = 0; is_wanted && i < s->o->labels->count; i++) {
        is_wanted = ec_store_has_label(ec_outbox_store(s->outbox), row->stream_id, s->o->labels->items[i], err);
        if (is_wanted < 0)
            return is_wanted;
    }
    if (is_wanted) {
        rc = ec_sink_process_begin(s->process, &s->batch, err);
        if (rc < 0)
            return rc;
        int64_t age_ns = ea_utc_ns() - s->batch.received_utc_ns; /* below 0 when the clock was set back */
        s->is_held = !rc && !s->o->ends && age_ns >= 0 && age_ns < SINK_HOLD_NS;
        if (s->is_held)
            return 2;
    }
    s->at = (ec_sink_place){.segment = row->segment, .offset = row->offset, .position = position};
    rc = sink_slot_of(s, &slot, err);
    if (rc)
        return rc;
    if (!is_wanted) {
        s->slots[slot].counts[EC_SINK_left_out] += row->event_count > position ? row->event_count - position : 0;
        sink_leave_batch(s);
        return 0;
    }
    ea_err damage = {0};
    rc = sink_open_view(s, &damage);
    if (!rc && s->where)
        rc = ea_where_begin(s->where, &damage);
    for (uint64_t i = 0; !rc && i < position; i++) {
        const ea_record *record;
        const ea_class *c;
        rc = ea_batch_next(s->view, &record, &c, &damage);
        rc = rc > 0 ? 0 : rc < 0 ? rc : ea_fail(&damage, EA_ECORRUPT, "the batch has fewer events than its head says");
    }
    return rc ? sink_damaged(s, slot, rc, &damage, err) : 1;
}

/* Puts pseudonyms into an event and the name of its process: 1 and the record; 0: it cannot be sent so, which is
 * counted. */
static int sink_redact(ec_sink *s, size_t slot, const ea_record *record, const ea_class *c, ea_record *ret,
                       const char **in_out_process, ea_err *err) {
    int rc = s->has_all_names ? 0 : ea_redact_learn(s->redact, record, c, err);
    if (rc == EA_ELIMIT) {
        s->has_all_names = 1;
        sink_note(s, "redact: there are too many names of users and machines: further ones are replaced in their own "
                     "fields alone");
    }
    ea_text_clear(&s->process_name);
    if (*in_out_process) {
        rc = ea_redact_text(s->redact, EA_REDACT_PATH, *in_out_process, &s->process_name, err);
        if (rc)
            return rc;
        *in_out_process = s->process_name.len_bytes ? s->process_name.data : "";
    }
    rc = ea_redact_apply(s->redact, record, c, ret, err);
    if (rc == EA_ENOMEM)
        return rc;
    s->slots[slot].counts[EC_SINK_damaged] += rc < 0;
    s->slots[slot].counts[EC_SINK_left_out] += rc == 0;
    return rc > 0;
}

static int sink_add_row(ec_sink *s, size_t slot, const ea_record *record, const ea_class *c, const ea_clock *clock,
                        ea_err *err) {
    const char *process = NULL;
    char id[EC_SINK_ID_BYTES];
    ea_record redacted;
    int rc = ec_sink_process_name(s->process, record->pid, ea_clock_to_utc_ns(clock, record->time_raw), &process, err);
    if (!rc && s->redact) {
        rc = sink_redact(s, slot, record, c, &redacted, &process, err);
        if (!rc)
            return 0;
        rc = rc < 0 ? rc : 0;
        record = &redacted;
    }
    if (rc)
        return rc;
    if (EA_GROW(s->items, s->item_capacity, s->item_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "make rows");
    size_t id_offset = s->rows.len_bytes;
    ec_sink_row_id(id, sizeof id, &s->batch, s->at.position);
    ea_text_json_str(&s->rows, id);
    size_t begin = s->rows.len_bytes;
    size_t time = s->o->kind->row(&s->rows, &s->scratch, &s->batch, s->at.position, process, record, c, clock);
    if (s->rows.failed || s->scratch.failed)
        return ea_fail(err, EA_ENOMEM, "make rows");
    s->slots[s->slots[slot].first].row_count++;
    s->slots[s->slots[slot].first].row_bytes += s->rows.len_bytes - begin;
    s->items[s->item_count++] = (ec_sink_item){.offset = begin,
                                               .len_bytes = s->rows.len_bytes - begin,
                                               .id_offset = id_offset,
                                               .id_bytes = begin - id_offset,
                                               .time_offset = time,
                                               .stream = (uint32_t)slot};
    return 0;
}

static int sink_is_full(const ec_sink *s) {
    return s->item_count >= s->turns.now->rows_max || s->rows.len_bytes >= s->o->bytes_max;
}

/* Of the agent of the open batch. */
static int sink_has_share(const ec_sink *s, const sink_slot *host) {
    if (s->turns.now != &s->turns.all)
        return host->made_ns >= SINK_TURN_NS;
    return host->row_count * SINK_SHARES >= s->o->rows_max || host->row_bytes * SINK_SHARES >= s->o->bytes_max ||
           host->batch_count * SINK_SHARES > SINK_BATCHES || host->made_ns >= SINK_SHARE_NS;
}

/* The agent of the open batch has its share of the request: it goes on in turns of its own. 0: it cannot. */
static int sink_put_apart(ec_sink *s) {
    if (s->turns.now != &s->turns.all || !ec_sink_turns_add(&s->turns, s->batch.host, &s->at))
        return 0;
    sink_leave_batch(s);
    return 1;
}

/* Events of the open batch, until the request is full: 0. */
static int sink_read_events(ec_sink *s, size_t slot, int64_t begin_ns, ea_err *err) {
    sink_slot *host = &s->slots[s->slots[slot].first];
    int64_t made_ns = host->made_ns;
    int rc = 0;
    host->batch_count++;
    while (!rc && !sink_is_full(s)) {
        host->made_ns = made_ns + ea_monotonic_ns() - begin_ns;
        if (sink_has_share(s, host))
            return sink_put_apart(s) ? 0 : 3;
        const ea_record *record;
        const ea_class *c;
        ea_err damage = {0};
        rc = ea_batch_next(s->view, &record, &c, &damage);
        if (rc == 0 && s->at.position < s->batch.row.event_count)
            rc = ea_fail(&damage, EA_ECORRUPT, "the batch has fewer events than its head says");
        if (rc < 0)
            return sink_damaged(s, slot, rc, &damage, err);
        if (rc == 0) {
            sink_leave_batch(s);
            return 0;
        }
        const ea_clock *clock = &ea_batch_source(s->view, record->source)->clock;
        s->reads_events = 1;
        rc = ea_class_chooser_wants(&s->chooser, c) ? 1 : 0;
        if (rc && s->where)
            rc = ea_where_holds(s->where, record, c, clock, err);
        if (rc > 0)
            rc = sink_add_row(s, slot, record, c, clock, err);
        else if (!rc)
            s->slots[slot].counts[EC_SINK_left_out]++;
        if (!rc)
            s->at.position++;
    }
    return rc;
}

/* The same; 3: the request is complete before it is full. begin_ns: when the batch was looked for. */
static int sink_read_batch(ec_sink *s, int64_t begin_ns, ea_err *err) {
    size_t slot = 0;
    int rc = sink_slot_of(s, &slot, err);
    /* an agent apart reads an event at least, however long a batch takes up to its place */
    return rc ? rc : sink_read_events(s, slot, s->turns.now == &s->turns.all ? begin_ns : ea_monotonic_ns(), err);
}

/* Rows of a request. What was passed over meanwhile is in the slots. */
static int sink_fill(ec_sink *s, ea_err *err) {
    ea_text_clear(&s->rows);
    s->item_count = s->slot_count = s->doubt_count = 0;
    s->is_held = s->has_caught_up = s->accepts_these = 0;
    if (s->view) { /* the rest of a batch that is gone is counted as removed: it is not sent */
        int is_there = ec_outbox_has(s->outbox, &s->batch, err);
        if (is_there < 0)
            return is_there;
        if (!is_there)
            sink_leave_batch(s);
    }
    for (int batches = 0; batches < SINK_BATCHES && !sink_is_full(s) && !sink_is_stopped(s); batches++) {
        int64_t begin_ns = ea_monotonic_ns();
        int rc = s->view ? 1 : sink_next_batch(s, err);
        if (rc == 2)
            break;
        if (rc > 0)
            rc = sink_read_batch(s, begin_ns, err);
        if (rc == 3)
            break;
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- what is kept ---- */

/* Ends a transaction, which has come to rc so far: with the sink's row, or all of it is undone. */
static int sink_keep(ec_sink *s, int rc, ea_err *err) {
    s->row.redacted_count = s->redacted_before + ec_sink_redacted_count(s);
    if (!rc)
        rc = ec_sinks_put(s->places, &s->row, err);
    if (!rc)
        rc = ec_sinks_commit(s->places, err);
    if (rc)
        ec_sinks_undo(s->places);
    return rc;
}

/* An agent is apart from now on: what is read of its batch for all agents ends. */
static ec_sink_turn *sink_add_turn(ec_sink *s, const char *host, const ec_sink_place *place) {
    ec_sink_turn *turn = ec_sink_turns_add(&s->turns, host, place);
    if (turn && s->view && strcmp(s->batch.host, host) == 0) {
        ea_batch_close(s->view);
        s->view = NULL;
    }
    return turn;
}

/* Agents whose rows were refused do not come back into shared requests for a while. */
static void sink_set_apart(ec_sink *s) {
    int64_t until_ns = ea_monotonic_ns() + SINK_ALONE_NS;
    for (size_t i = 0; i < s->slot_count; i++) {
        if (!s->slots[i].refused_count)
            continue;
        ec_sink_turn *turn = ec_sink_turns_find(&s->turns, s->slots[i].host);
        if (!turn)
            turn = sink_add_turn(s, s->slots[i].host, &s->at);
        if (turn)
            turn->alone_until_ns = until_ns;
    }
}

/* The place of the turn, and those of agents that are apart since. *ret_gone: one that is not any more, when all of it
 * is written. */
static int sink_keep_places(ec_sink *s, ec_sink_turn **ret_gone, ea_err *err) {
    ec_sink_turn *turn = s->turns.now;
    int rc = 0;
    if (turn == &s->turns.all) {
        s->row.place = s->at;
    } else {
        turn->own.place = s->has_caught_up ? s->row.place : s->at;
        turn->is_changed = 1;
        if (s->has_caught_up && (s->o->ends || ea_monotonic_ns() >= turn->alone_until_ns)) {
            *ret_gone = turn;
            rc = ec_sinks_drop_apart(s->places, s->o->name, turn->own.host, err);
        }
    }
    for (size_t i = 0; !rc && i < s->turns.count; i++)
        if (s->turns.apart[i].is_changed && &s->turns.apart[i] != *ret_gone)
            rc = ec_sinks_put_apart(s->places, s->o->name, &s->turns.apart[i].own, err);
    return rc;
}

/* Keeps the place and the counts of the rows at hand, of which all are settled. */
static int sink_settle(ec_sink *s, ea_err *err) {
    for (size_t i = 0; i < s->item_count; i++) {
        static const enum ec_sink_fate FATES[] = {[EC_VERDICT_ACCEPTED] = EC_SINK_sent,
                                                  [EC_VERDICT_KNOWN] = EC_SINK_known,
                                                  [EC_VERDICT_REFUSED] = EC_SINK_refused};

        EA_ASSERT(s->items[i].verdict != EC_VERDICT_WAITS);
        s->slots[s->items[i].stream].counts[FATES[s->items[i].verdict]]++;
        s->slots[s->slots[s->items[i].stream].first].refused_count += s->items[i].verdict == EC_VERDICT_REFUSED;
    }
    ec_sink_turn *gone = NULL;
    sink_set_apart(s);
    int rc = ec_sinks_begin(s->places, err);
    for (size_t i = 0; !rc && i < s->slot_count; i++)
        rc = ec_sinks_count(s->places, s->o->name, s->slots[i].host, s->slots[i].stream, s->slots[i].counts, err);
    if (!rc)
        rc = sink_keep_places(s, &gone, err);
    rc = sink_keep(s, rc, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < s->turns.count; i++)
        s->turns.apart[i].is_changed = 0;
    if (gone)
        ec_sink_turns_remove(&s->turns, gone);
    for (size_t i = 0; i < s->slot_count; i++)
        for (int k = 0; k < EC_SINK_FATE_COUNT; k++)
            s->counts[k] += s->slots[i].counts[k];
    s->item_count = s->slot_count = 0;
    return 0;
}

static void sink_on_removed(void *arg, const char *host, const char *stream, uint64_t events) {
    ec_sink *s = arg;
    char text[EC_SINK_TEXT_MAX];
    snprintf(text, sizeof text,
             "%" PRIu64 " events of host %.255s, stream %s, were removed from the store before they were sent", events,
             host, stream);
    sink_note(s, text);
    s->counts[EC_SINK_removed] += events;
}

/* Nothing is at hand. */
static int sink_audit(ec_sink *s, int is_new, enum ec_sink_fate fate, ea_err *err) {
    ec_sink_apart *apart = calloc(s->turns.count + 1, sizeof *apart);
    if (!apart)
        return ea_fail(err, EA_ENOMEM, "look for what was removed");
    for (size_t i = 0; i < s->turns.count; i++)
        apart[i] = s->turns.apart[i].own;
    const ec_outbox_audit audit = {.outbox = s->outbox,
                                   .sinks = s->places,
                                   .sink = s->o->name,
                                   .places = {s->row.place, apart, s->turns.count},
                                   .fate = fate,
                                   .is_new = is_new,
                                   .on_removed = sink_on_removed,
                                   .arg = s};
    int rc = ec_sinks_begin(s->places, err);
    if (!rc)
        rc = ec_outbox_run_audit(&audit, err);
    rc = sink_keep(s, rc, err);
    s->audited_ns = ea_monotonic_ns();
    free(apart);
    return rc;
}

/* ---- sending ---- */

/* A failure that may end: it is kept, and the next request waits; 1: that is the next turn of an agent apart, and the
 * rows at hand are given up. EA_ECANCELED: asked to stop. With `ends` the error, when there were enough in a row. */
static int sink_fail(ec_sink *s, const ea_err *why, int64_t after_s, ea_err *err) {
    char text[EC_SINK_TEXT_MAX + 50];
    ec_sink_turn *turn = s->turns.now;
    int64_t wait_ns = turn->wait_ns;
    if (after_s > 0) {
        int64_t after_ns = (after_s < SINK_RETRY_AFTER_S ? after_s : SINK_RETRY_AFTER_S) * 1000 * SINK_MS_NS;
        wait_ns = after_ns > wait_ns ? after_ns : wait_ns;
    }
    turn->failures++;
    snprintf(s->row.error, sizeof s->row.error, "%.390s", why->message);
    ea_utf8_repair(s->row.error, strlen(s->row.error)); /* it may have been cut */
    s->row.error_utc_ns = ea_utc_ns();
    int rc = sink_keep(s, ec_sinks_begin(s->places, err), err);
    if (rc)
        return rc;
    if (s->o->ends && turn->failures >= EC_SINK_ATTEMPTS) {
        if (err)
            *err = *why;
        return why->code;
    }
    if (strcmp(s->said, s->row.error) != 0) {
        snprintf(text, sizeof text, "rows are sent again: %s", s->row.error);
        sink_note(s, text);
        snprintf(s->said, sizeof s->said, "%s", s->row.error);
    }
    turn->wait_ns = turn->wait_ns < s->o->retry_max_ns / 2 ? turn->wait_ns * 2 : s->o->retry_max_ns;
    if (turn != &s->turns.all && !s->o->ends) {
        turn->not_before_ns = ea_monotonic_ns() + wait_ns;
        return 1;
    }
    sink_wait(s, wait_ns);
    return sink_is_stopped(s) ? EA_ECANCELED : 0;
}

/* The JSON text of a row's name, without its quotes, and why it was refused. */
static void sink_note_refusal(ec_sink *s, const ec_sink_item *item, const char *why) {
    const char *id = s->rows.data + item->id_offset;
    size_t len = item->id_bytes > 2 ? item->id_bytes - 2 : 0;
    snprintf(s->row.refusal, sizeof s->row.refusal, "%.*s: %s", (int)len, id + 1, why);
    ea_utf8_repair(s->row.refusal, strlen(s->row.refusal));
}

/* What a request of count rows has come to, beside what waits. Rows that are refused while the receiver has accepted
 * nothing are in doubt: it may be the request that is wrong, not the row. */
static void sink_take_verdicts(ec_sink *s, size_t count, const char *why) {
    int accepts = 0;
    for (size_t i = 0; i < count; i++)
        if (s->asked[i]->verdict == EC_VERDICT_ACCEPTED || s->asked[i]->verdict == EC_VERDICT_KNOWN) {
            accepts = s->has_accepted = s->accepts_these = 1;
            s->refused_count = 0;
            s->row.sent_utc_ns = ea_utc_ns();
        }
    for (size_t i = 0; i < count; i++)
        if (s->asked[i]->verdict == EC_VERDICT_REFUSED) {
            s->asked[i]->verdict = EC_VERDICT_WAITS;
            s->asked[i]->is_doubtful = 1;
            s->doubt_count++;
            sink_note_refusal(s, s->asked[i], why);
        }
    if (!accepts && s->refused_count + s->doubt_count > SINK_DOUBTS) /* what it accepted before says nothing of these */
        s->has_accepted = 0;
}

/* The first rows that wait and are not in doubt, at most s->limit. */
static size_t sink_choose(ec_sink *s, size_t first) {
    size_t count = 0;
    for (size_t i = first; i < s->item_count && count < s->turns.now->limit; i++)
        if (s->items[i].verdict == EC_VERDICT_WAITS && !s->items[i].is_doubtful && !s->items[i].is_failing)
            s->asked[count++] = &s->items[i];
    return count;
}

/* Rows in doubt are refused, or wait again, in a shared request of which others were accepted until their agents are
 * taken out of it. Where the receiver has refused many and accepted none, later ones are in doubt again. */
static void sink_settle_doubts(ec_sink *s, enum ec_sink_verdict verdict) {
    int leaves = verdict == EC_VERDICT_WAITS && s->accepts_these && s->turns.now == &s->turns.all && !s->o->ends;
    for (size_t i = 0; i < s->item_count; i++)
        if (s->items[i].is_doubtful) {
            s->items[i].is_doubtful = 0;
            s->items[i].is_failing = leaves;
            s->items[i].verdict = verdict;
            s->refused_count += verdict == EC_VERDICT_REFUSED;
        }
    s->doubt_count = 0;
    if (s->refused_count >= SINK_DOUBTS)
        s->has_accepted = 0;
}

static int sink_may_end(int rc) {
    return rc == EA_ENET || rc == EA_ETLS || rc == EA_ETIMEOUT || rc == EA_ELIMIT || rc == EA_EREFUSED;
}

/* Takes the verdicts of a request; *ret_waits: how many rows are to be sent again. */
static void sink_take_answer(ec_sink *s, size_t count, const char *why, size_t *ret_waits) {
    size_t settled = 0;
    *ret_waits = 0;
    sink_take_verdicts(s, count, why);
    for (size_t i = 0; i < count; i++) {
        settled += s->asked[i]->verdict != EC_VERDICT_WAITS;
        *ret_waits += s->asked[i]->verdict == EC_VERDICT_WAITS && !s->asked[i]->is_doubtful;
    }
    if (!settled)
        return;
    s->turns.now->failures = 0;
    s->turns.now->wait_ns = s->o->retry_min_ns;
    *s->said = 0;
}

/* A request fails again and again. Where it is shared, it may be for one agent's rows: fewer are asked for, and those
 * of the first agent that alone fail are left out until the others have been tried. */
static void sink_look_for_cause(ec_sink *s, size_t count) {
    ec_sink_turn *turn = s->turns.now;
    size_t first = s->slots[s->asked[0]->stream].first;
    int is_one = 1;
    if (turn != &s->turns.all || s->o->ends)
        return;
    for (size_t i = 1; is_one && i < count; i++)
        is_one = s->slots[s->asked[i]->stream].first == first;
    if (turn->failures < SINK_QUICK) /* the others are asked soon */
        turn->wait_ns = s->o->retry_min_ns;
    if (!is_one) {
        turn->limit = count / 2;
        return;
    }
    for (size_t i = 0; i < s->item_count; i++)
        if (s->slots[s->items[i].stream].first == first)
            s->items[i].is_failing = 1;
}

/* Takes the rows of a host out of a shared request: it is apart from where the request began. 0: it cannot be. */
static int sink_take_out(ec_sink *s, size_t first) {
    ec_sink_turn *turn = ec_sink_turns_find(&s->turns, s->slots[first].host);
    size_t kept = 0;
    if (!turn)
        turn = sink_add_turn(s, s->slots[first].host, &s->row.place);
    if (!turn)
        return 0;
    if (s->at.position && strcmp(s->batch.host, s->slots[first].host) == 0)
        sink_leave_batch(s); /* its turns go up to the shared place, which would be in the midst of this batch */
    turn->own.place = s->row.place;
    turn->rows_max = EC_TURN_ROWS_LEAST;
    turn->alone_until_ns = ea_monotonic_ns() + SINK_ALONE_NS;
    turn->wait_ns = s->turns.all.wait_ns;
    turn->not_before_ns = s->turns.all.failures ? ea_monotonic_ns() + turn->wait_ns : 0;
    s->turns.all.wait_ns = s->o->retry_min_ns;
    s->turns.all.failures = 0;
    for (size_t i = 0; i < s->slot_count; i++)
        if (s->slots[i].first == first)
            memset(s->slots[i].counts, 0, sizeof s->slots[i].counts);
    s->doubt_count = 0;
    for (size_t i = 0; i < s->item_count; i++) {
        if (s->slots[s->items[i].stream].first == first)
            continue;
        s->doubt_count += s->items[i].is_doubtful != 0;
        s->items[kept++] = s->items[i];
    }
    s->item_count = kept;
    return 1;
}

static int sink_is_of_one_host(const ec_sink *s) {
    for (size_t i = 1; i < s->item_count; i++)
        if (s->slots[s->items[i].stream].first != s->slots[s->items[0].stream].first)
            return 0;
    return 1;
}

/* Hosts whose rows fail, or of which more are refused than may be, where others' are accepted or there are no others,
 * who should not wait for what comes. 1: one was taken out. */
static int sink_take_out_some(ec_sink *s) {
    int is_one = sink_is_of_one_host(s), has_failed = s->turns.all.failures >= SINK_PATIENCE;
    if (s->turns.now != &s->turns.all || s->o->ends || !(s->accepts_these || is_one))
        return 0;
    for (size_t i = 0; i < s->slot_count; i++)
        s->slots[i].refused_count = 0;
    for (size_t i = 0; i < s->item_count; i++) {
        const ec_sink_item *item = &s->items[i];
        size_t first = s->slots[item->stream].first;
        s->slots[first].refused_count += item->verdict == EC_VERDICT_REFUSED;
        if ((item->is_failing || (is_one && has_failed) || s->slots[first].refused_count > SINK_DOUBTS) &&
            sink_take_out(s, first))
            return 1;
    }
    return 0;
}

/* All rows fail, not one agent's: they are tried again. 0: none does. */
static int sink_forget_failing(ec_sink *s) {
    int has_some = 0;
    for (size_t i = 0; i < s->item_count; i++) {
        has_some |= s->items[i].is_failing && s->items[i].verdict == EC_VERDICT_WAITS;
        s->items[i].is_failing = 0;
    }
    return has_some;
}

/* Sends rows once, and takes the answer. */
static int sink_ask(ec_sink *s, size_t count, ea_err *err) {
    ec_sink_turn *turn = s->turns.now;
    ec_sink_answer answer = {.reason = &s->reason};
    ea_err why = {0};
    size_t waits = count;
    ea_text_clear(&s->reason);
    for (size_t i = 0; i < count; i++)
        s->asked[i]->host = s->slots[s->asked[i]->stream].host;
    s->row.request_count++;
    int rc = s->o->kind->sender->send(s->sender, s->rows.data, s->asked, count, &answer, &why);
    if (rc == EA_ECANCELED)
        return rc;
    if (!rc && s->reason.failed)
        rc = ea_fail(&why, EA_ENOMEM, "read an answer");
    if (rc && !sink_may_end(rc)) {
        *err = why;
        return rc;
    }
    if (rc == EA_EREFUSED && count == 1)
        s->asked[0]->verdict = EC_VERDICT_REFUSED;
    if (!rc || rc == EA_EREFUSED)
        sink_take_answer(s, count, rc ? why.message : s->reason.len_bytes ? s->reason.data : "", &waits);
    if (rc == EA_EREFUSED) { /* some of these rows, or so many of them */
        turn->limit = count > 1 ? count / 2 : turn->limit;
        s->row.retried_count += waits;
        return 0;
    }
    if (!rc && waits)
        rc = ea_fail(&why, EA_ENET, "%zu of %zu rows are to be sent again: %.300s", waits, count,
                     s->reason.len_bytes ? s->reason.data : "");
    if (!rc) {
        turn->limit = turn->limit < s->o->rows_max / 2 ? turn->limit * 2 : (size_t)s->o->rows_max;
        return 0;
    }
    s->row.retried_count += waits;
    if (rc == EA_ELIMIT && count > 1) /* an answer to fewer rows may be short enough */
        turn->limit = count / 2;
    if (turn->failures >= SINK_PATIENCE)
        sink_look_for_cause(s, count);
    return sink_fail(s, &why, answer.retry_after_s, err);
}

/* Sends the rows at hand until each is settled. EA_ECANCELED: asked to stop. 1: as sink_fail. */
static int sink_send(ec_sink *s, ea_err *err) {
    size_t capacity = s->asked_capacity;
    if (EA_GROW(s->asked, capacity, s->item_count, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "make a request");
    s->asked_capacity = capacity;
    for (size_t first = 0, waited_for = 0; !sink_is_stopped(s);) {
        while (sink_take_out_some(s))
            first = 0;
        while (first < s->item_count && s->items[first].verdict != EC_VERDICT_WAITS)
            first++;
        size_t doubts = s->doubt_count, count = sink_choose(s, first);
        int rc = 0;
        if (doubts && s->has_accepted) {
            sink_settle_doubts(s, EC_VERDICT_REFUSED);
            waited_for = 0;
        } else if (doubts && (!count || doubts >= waited_for + SINK_DOUBTS)) {
            ea_err why = {0};
            waited_for = count ? doubts : 0;
            if (!count) {
                s->row.retried_count += doubts;
                sink_settle_doubts(s, EC_VERDICT_WAITS);
            }
            (void)ea_fail(&why, EA_EREFUSED, "the receiver accepts nothing and refuses rows, such as %.300s",
                          s->row.refusal);
            rc = sink_fail(s, &why, 0, err);
        } else if (!count && sink_forget_failing(s)) {
            if (!s->accepts_these) /* what has arrived since may be accepted */
                return 1;
            first = 0;
        } else if (!count) {
            return 0;
        } else {
            rc = sink_ask(s, count, err);
        }
        if (rc)
            return rc;
    }
    return EA_ECANCELED;
}

/* ---- a run ---- */

static int sink_compile_where(ec_sink *s, ea_err *err) {
    ea_lang_classes classes = {.registry = NULL};
    int rc = ea_registry_create(&classes.registry, 0, err);
    if (!rc)
        rc = ea_where_create(&s->where, s->o->where, NULL, &classes, err);
    ea_lang_classes_deinit(&classes);
    ea_registry_destroy(classes.registry);
    if (!rc && ea_where_needs_state(s->where))
        rc = ea_fail(
            err, EA_EUSAGE,
            "--where: a sink knows an event's own fields alone, not what events before it say, such as execname");
    return rc;
}

static int sink_is_after(const ec_sink_place *a, const ec_sink_place *b) {
    return a->segment > b->segment || (a->segment == b->segment && a->offset > b->offset);
}

static int sink_load_apart(ec_sink *s, ea_err *err) {
    ec_sink_apart *items = NULL;
    size_t count = 0;
    int rc = ec_sinks_read_apart(s->places, s->o->name, &items, &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        ec_sink_turn *turn = ec_sink_turns_add(&s->turns, items[i].host, &items[i].place);
        if (turn)
            turn->is_changed = 0;
        else
            rc = ea_fail(err, EA_ECORRUPT, "sinks.db has more than %d agents apart", EC_TURNS_MAX);
    }
    free(items);
    return rc;
}

/* Finds the sink's row, or makes it. */
static int sink_open_place(ec_sink *s, ea_err *err) {
    const ec_sink_options *o = s->o;
    size_t len = 0;
    const char *receiver = o->kind->sender->receiver(s->sender, &len);
    int rc = ec_sinks_find(s->places, o->name, &s->row, err);
    if (rc < 0)
        return rc;
    int is_new = !rc;
    enum ec_sink_fate fate = EC_SINK_removed;
    rc = ec_outbox_end(s->outbox, &s->end, err);
    if (!rc)
        rc = sink_load_apart(s, err);
    if (rc)
        return rc;
    if (is_new) {
        s->row = (ec_sink_row){.created_utc_ns = ea_utc_ns()};
        snprintf(s->row.name, sizeof s->row.name, "%s", o->name);
        snprintf(s->row.kind, sizeof s->row.kind, "%s", o->kind->name);
        if (!o->is_all)
            s->row.place = s->end;
    } else if (strcmp(s->row.kind, o->kind->name) != 0) {
        return ea_fail(err, EA_EUSAGE, "sink %s is of kind %s; a receiver of another kind needs a name of its own",
                       o->name, s->row.kind);
    } else if (sink_is_after(&s->row.place, &s->end)) {
        sink_note(s, "the place is after the end of the store, which was made anew: all that is stored is sent");
        s->row.place = (ec_sink_place){0};
        fate = EC_SINK_FATE_COUNT;
        for (; !rc && s->turns.count; s->turns.count--)
            rc = ec_sinks_drop_apart(s->places, o->name, s->turns.apart[s->turns.count - 1].own.host, err);
        if (rc)
            return rc;
    }
    snprintf(s->row.receiver, sizeof s->row.receiver, "%.*s", (int)len, receiver ? receiver : "");
    s->redacted_before = s->row.redacted_count;
    s->at = s->row.place;
    return sink_audit(s, is_new, fate, err);
}

static int sink_open(ec_sink *s, ea_err *err) {
    const ec_sink_options *o = s->o;
    uint64_t backlog = 0;
    int rc = ec_sinks_lock(&s->lock, o->store, o->name, err);
    if (!rc && o->where)
        rc = sink_compile_where(s, err);
    if (!rc)
        rc = ea_class_chooser_init(&s->chooser, o->choice, err);
    s->has_chooser = !rc;
    if (!rc && o->redact)
        rc = ea_redact_open(&s->redact, o->redact, o->redact_key, EA_REDACT_ZERO, err);
    s->sending = (ec_sink_sender_options){.kind = o->kind,
                                          .to = o->to,
                                          .headers = o->headers,
                                          .ca = o->ca,
                                          .index = o->index,
                                          .table = o->table,
                                          .properties = o->properties,
                                          .answer_ns = o->answer_ns,
                                          .ack_ns = o->ack_ns,
                                          .stop = o->stop};
    if (!rc)
        rc = o->kind->sender->create(&s->sender, &s->sending, err);
    if (!rc)
        rc = ea_registry_create(&s->registry, 0, err);
    if (!rc)
        rc = ec_state_worker_catch_up(o->store, NULL, EC_WAIT_ROUND, SINK_CATCH_UP_NS, &backlog, err);
    if (!rc)
        rc = ec_sink_process_open(&s->process, o->store, err);
    if (!rc)
        rc = ec_outbox_open(&s->outbox, o->store, err);
    if (!rc)
        rc = ec_sinks_open(&s->places, o->store, 1, err);
    return rc ? rc : sink_open_place(s, err);
}

int ec_sink_open(ec_sink **ret, const ec_sink_options *options, ea_err *err) {
    int rc = ec_store_check_readable(options->store, err);
    if (rc)
        return rc;
    ec_sink *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open a sink");
    s->o = options;
    ea_text_init(&s->rows);
    ea_text_init(&s->scratch);
    ea_text_init(&s->reason);
    ea_text_init(&s->process_name);
    rc = ec_sink_turns_init(&s->turns, options->rows_max, options->retry_min_ns, err);
    if (!rc)
        rc = sink_open(s, err);
    if (rc) {
        ec_sink_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ec_sink_close(ec_sink *s) {
    if (!s)
        return;
    ea_batch_close(s->view);
    ec_sinks_close(s->places);
    ec_outbox_close(s->outbox);
    ec_sink_process_close(s->process);
    s->o->kind->sender->destroy(s->sender);
    ea_where_destroy(s->where);
    ea_redact_destroy(s->redact);
    if (s->has_chooser)
        ea_class_chooser_deinit(&s->chooser);
    ea_registry_destroy(s->registry);
    ea_file_close(s->lock);
    ea_text_deinit(&s->rows);
    ea_text_deinit(&s->scratch);
    ea_text_deinit(&s->reason);
    ea_text_deinit(&s->process_name);
    free(s->items);
    free(s->asked);
    free(s->slots);
    ec_sink_turns_deinit(&s->turns);
    free(s);
}

/* The turn of whom it is: reading goes on where it ended, or begins at the place. */
static void sink_begin_turn(ec_sink *s, ec_sink_turn *turn) {
    if (turn == s->turns.now && s->view)
        return;
    ea_batch_close(s->view);
    s->view = NULL;
    s->turns.now = turn;
    s->at = turn == &s->turns.all ? s->row.place : turn->own.place;
}

/* Rows of the turn that were given up come again. */
static void sink_give_up_rows(ec_sink *s) {
    ea_batch_close(s->view);
    s->view = NULL;
    s->item_count = s->slot_count = s->doubt_count = 0;
    s->at = s->turns.now->own.place;
    if (s->turns.now == &s->turns.all) {
        s->at = s->row.place;
        for (size_t i = 0; i < s->turns.count; i++) /* agents that are apart since: their rows are given up, too */
            if (s->turns.apart[i].is_changed)
                s->turns.apart[i].own.place = s->row.place;
        return;
    }
    s->turns.now->rows_max /= 4; /* and has a least value (ec_sink_turns_charge) */
}

static size_t sink_host_count(const ec_sink *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->slot_count; i++)
        count += s->slots[i].first == i;
    return count;
}

/* One turn. *ret_moved: something was done. */
static int sink_take_turn(ec_sink *s, int *ret_moved, ea_err *err) {
    ec_sink_turn *turn = s->turns.now;
    int is_shared = turn == &s->turns.all;
    int64_t begin_ns = ea_monotonic_ns();
    int rc = sink_fill(s, err);
    const ec_sink_place *place = is_shared ? &s->row.place : &turn->own.place;
    int has_moved = memcmp(&s->at, place, sizeof s->at) != 0;
    if (s->has_caught_up)
        has_moved |= memcmp(place, &s->row.place, sizeof *place) != 0 || s->o->ends || begin_ns >= turn->alone_until_ns;
    size_t host_count = sink_host_count(s);
    if (!rc && s->item_count)
        rc = sink_send(s, err);
    if (!rc && has_moved)
        rc = sink_settle(s, err);
    if (rc == 1)
        sink_give_up_rows(s);
    if (s->turns.now == turn) /* it has not ended */
        ec_sink_turns_charge(&s->turns, ea_monotonic_ns() - begin_ns, is_shared ? host_count : 1);
    if (is_shared && !has_moved)
        ec_sink_turns_quiet(&s->turns);
    else if (!is_shared && !has_moved && s->turns.now == turn)
        turn->not_before_ns = ea_monotonic_ns() + (s->is_held ? SINK_STEP_NS : SINK_LOOK_NS);
    *ret_moved = has_moved;
    return rc > 0 ? 0 : rc;
}

int ec_sink_run(ec_sink *s, ea_err *err) {
    int rc = 0;
    while (!rc && !sink_is_stopped(s)) {
        ec_sink_turn *turn = ec_sink_turns_choose(&s->turns, ea_monotonic_ns());
        int has_moved = 0;
        if (turn) {
            sink_begin_turn(s, turn);
            rc = sink_take_turn(s, &has_moved, err);
        }
        if (!rc && ea_monotonic_ns() - s->audited_ns > SINK_AUDIT_NS)
            rc = sink_audit(s, 0, EC_SINK_removed, err);
        if (!rc && s->o->ends && !has_moved && !s->turns.count)
            break;
        if (!rc && !turn) {
            sink_wait(s, s->is_held ? SINK_STEP_NS : SINK_LOOK_NS);
            s->turns.is_quiet = 0;
        }
    }
    ea_err unknown = {0};
    if (s->reads_events && ea_class_chooser_check(&s->chooser, &unknown))
        sink_note(s, unknown.message);
    return rc == EA_ECANCELED ? 0 : rc;
}

const uint64_t *ec_sink_counts(const ec_sink *s) {
    return s->counts;
}

uint64_t ec_sink_redacted_count(const ec_sink *s) {
    uint64_t sum = 0;
    for (int kind = 0; s->redact && kind < EA_REDACT_KIND_COUNT; kind++)
        sum += ea_redact_count(s->redact)->values[kind];
    return sum;
}
