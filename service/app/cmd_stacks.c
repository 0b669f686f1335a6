/* etwagent stacks: which stack belongs to which event of a trace, and what became of each walk. Called by: main.c.
 * Calls: proto/etl, proto/stack. Thread: the main one. */
#include "proto/base/array.h"
#include "proto/stack/stack_feed.h"
#include "service/app/agent_commands.h"
#include "service/app/input.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct options {
    int json, list, strict;
    uint64_t window;
} options;

typedef struct tally {
    uint64_t events, with_stack, with_both;
    int list;
    uint8_t *is_used; /* by number, when the stacks are listed */
    size_t used_capacity;
    ea_text text;
} tally;

static int stacks_mark(tally *t, uint32_t number) {
    if (number >= t->used_capacity) {
        size_t before = t->used_capacity;
        if (EA_GROW(t->is_used, t->used_capacity, (size_t)number + 1, SIZE_MAX))
            return EA_ENOMEM;
        memset(t->is_used + before, 0, t->used_capacity - before);
    }
    t->is_used[number] = 1;
    return 0;
}

static int stacks_on_event(void *arg, const ea_stack_joined *e) {
    static const char *const HALVES[] = {"kernel", "user"};
    tally *t = arg;
    int rc = 0;
    t->with_stack += e->half[0] || e->half[1];
    t->with_both += e->half[0] && e->half[1];
    if (!t->list || (!e->half[0] && !e->half[1]))
        return 0;
    ea_text_clear(&t->text);
    ea_text_printf(&t->text, "{\"event\":%" PRIu64 ",\"clock\":%" PRId64, e->tag, e->time);
    for (int h = 0; h < EA_STACK_HALVES && !rc; h++) {
        if (!e->half[h])
            continue;
        ea_text_printf(&t->text, ",\"%s\":{\"stack\":%" PRIu32 ",\"how\":\"%s\"}", HALVES[h], e->half[h],
                       ea_stack_outcome_name(e->outcome[h]));
        rc = stacks_mark(t, e->half[h]);
    }
    ea_text_str(&t->text, "}\n");
    fwrite(t->text.data, 1, t->text.len_bytes, stdout);
    return rc;
}

static int stacks_read_all(ea_input *in, ea_registry *registry, ea_stack_feed *feed, tally *t, ea_err *err) {
    const ea_record *r;
    int rc;
    while ((rc = ea_input_next(in, &r, err)) > 0) {
        rc = ea_stack_feed_record(feed, r, ea_registry_find(registry, r), t->events);
        if (rc)
            return ea_fail(err, rc, "join stacks");
        t->events++;
    }
    return rc;
}

static void print_stacks(tally *t, const ea_stacks *stacks) {
    for (size_t i = 1; i < t->used_capacity; i++) {
        size_t n;
        if (!t->is_used[i])
            continue;
        const uint64_t *frames = ea_stacks_get(stacks, (uint32_t)i, &n);
        ea_text_clear(&t->text);
        ea_text_printf(&t->text, "{\"stack\":%zu,\"addresses\":", i);
        if (ea_stacks_is_undefined(stacks, (uint32_t)i))
            ea_text_str(&t->text, "null");
        else
            ea_text_char(&t->text, '[');
        for (size_t k = 0; k < n; k++)
            ea_text_printf(&t->text, "%s\"0x%" PRIx64 "\"", k ? "," : "", frames[k]);
        ea_text_str(&t->text, ea_stacks_is_undefined(stacks, (uint32_t)i) ? "}\n" : "]}\n");
        fwrite(t->text.data, 1, t->text.len_bytes, stdout);
    }
}

static void print_summary(const tally *t, const ea_stack_join *join, const ea_stacks *stacks, int json) {
    const uint64_t *counts = ea_stack_join_counts(join);
    ea_stacks_counts s = ea_stacks_count(stacks);
    uint64_t all = 0;
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        all += counts[i];
    if (json) {
        printf("{\"events\":%" PRIu64 ",\"with_stack\":%" PRIu64 ",\"with_both_halves\":%" PRIu64 ",\"halves\":%" PRIu64
               ",\"stacks\":%" PRIu64 ",\"keys_undefined\":%" PRIu64 ",\"keys_defined\":%" PRIu64
               ",\"unanswered\":%" PRIu64,
               t->events, t->with_stack, t->with_both, all, s.stacks, s.undefined, s.defined,
               ea_stack_join_unanswered(join));
        for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
            printf(",\"%s\":%" PRIu64, ea_stack_outcome_name(i), counts[i]);
        puts("}");
        return;
    }
    printf("events            %12" PRIu64 "\n"
           "with a stack      %12" PRIu64 "\n"
           "with both halves  %12" PRIu64 "\n"
           "distinct stacks   %12" PRIu64 "\n"
           "keys defined      %12" PRIu64 "\n"
           "keys undefined    %12" PRIu64 "\n"
           "unanswered        %12" PRIu64 "  events whose user half was to come by a match id, and did not\n"
           "\nhalves            %12" PRIu64 "\n",
           t->events, t->with_stack, t->with_both, s.stacks, s.defined, s.undefined, ea_stack_join_unanswered(join),
           all);
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
        if (counts[i])
            printf("  %-16s%12" PRIu64 " %6.2f %%  %s\n", ea_stack_outcome_name(i), counts[i],
                   100.0 * (double)counts[i] / (double)all, ea_stack_outcome_text(i));
}

static int stacks_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_registry *registry = NULL;
    ea_stacks *stacks = NULL;
    ea_stack_join *join = NULL;
    ea_stack_feed *feed = NULL;
    ea_input in;
    ea_err err = {0};
    tally t = {.list = o->list};
    ea_text_init(&t.text);
    int rc = ea_registry_create(&registry, 0, &err);
    if (!rc)
        rc = ea_stacks_create(&stacks, 0, &err);
    if (!rc)
        rc = ea_stack_join_create(
            &join, stacks,
            &(ea_stack_join_options){.limit_bytes = (size_t)o->window, .on_event = stacks_on_event, .arg = &t}, &err);
    if (!rc)
        rc = ea_stack_feed_create(&feed, join, &err);
    int exit_code = ea_exit_code(rc);
    if (rc) {
        ea_err_print(stderr, "etwagent", &err);
    } else if ((exit_code = ea_input_open(&in, operands, operand_count, 0, o->strict)) == 0) {
        rc = stacks_read_all(&in, registry, feed, &t, &err);
        if (!rc && (rc = ea_stack_join_end(join)))
            rc = ea_fail(&err, rc, "join stacks");
        if (!rc && o->list)
            print_stacks(&t, stacks);
        else if (!rc)
            print_summary(&t, join, stacks, o->json);
        if (!rc && (t.text.failed || fflush(stdout) || ferror(stdout)))
            rc = ea_fail(&err, EA_EIO, "write to standard output");
        exit_code = ea_input_close(&in, rc, &err);
    }
    ea_stack_feed_destroy(feed);
    ea_stack_join_destroy(join);
    ea_stacks_destroy(stacks);
    ea_registry_destroy(registry);
    ea_text_deinit(&t.text);
    free(t.is_used);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print one JSON object"},
    {.name = "list",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, list),
     .help = "print each event that has a stack, then the stacks, as JSON lines"},
    {.name = "window",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, window),
     .fallback = "128MiB",
     .min = 1 << 16,
     .max = (uint64_t)16 << 30,
     .help = "memory for the events whose stacks may still come"},
    {.name = "strict",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, strict),
     .help = "end with 3 at the first place that is damaged"},
    {.name = NULL},
};

const ea_command ea_cmd_stacks = {
    .name = "stacks",
    .operands = "TRACE...",
    .summary = "Join the call stacks of traces to their events, and count how each was joined",
    .details =
        "A stack has two halves, the kernel's and the user's, which may come in records of their own, by key, inside\n"
        "their event, or much later. With --list: a line for each event that has a stack, {event: its number among "
        "all\n"
        "events as dump prints them, from 0; clock; kernel, user {stack: number, how}}, in that order; then a line "
        "for\n"
        "each stack, {stack, addresses}, whose addresses are null when its key was never defined.\n"
        "Exit codes: 0 read, 1 failed, 2 usage, 3 not a trace, or damaged with --strict.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = stacks_run,
    .min_operands = 1,
    .max_operands = -1,
};
