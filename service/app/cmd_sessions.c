/* etwagent sessions: the agent's ETW sessions as Windows has them now, whoever started them.
 * Before it: main.c. After it: service/windows/live.h. Thread: the main one. */
#include "commands.h"
#include "kernel_flags.h"
#include "live.h"

#include <inttypes.h>
#include <stddef.h>

typedef struct options {
    int json;
} options;

typedef struct listing {
    int json;
    size_t count;
    ea_text text;
} listing;

/* The kernel's flags by name; PROC_THREAD in place of its halves. */
static void add_flags(ea_text *t, const uint32_t *masks) {
    uint32_t told[EA_KERNEL_MASK_WORDS] = {0};
    size_t count = 0;
    ea_text_char(t, '[');
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++) {
        unsigned word = ea_kernel_flag_word(f->mask);
        uint32_t bits = ea_kernel_flag_bits(f->mask);
        if ((masks[word] & bits) != bits || (told[word] & bits) == bits)
            continue;
        told[word] |= bits;
        ea_text_printf(t, "%s\"%s\"", count++ ? ", " : "", f->name);
    }
    ea_text_char(t, ']');
}

static int add(const ea_live_status *s, void *arg) {
    listing *l = arg;
    ea_text *t = &l->text;
    if (l->json) {
        ea_text_str(t, l->count ? ",\n {\"name\": " : "{\"name\": ");
        ea_text_json_str(t, s->name);
        ea_text_printf(t,
                       ", \"logger\": %" PRIu32 ", \"mode\": \"0x%08" PRIx32 "\", \"buffer_bytes\": %" PRIu64
                       ", \"min_buffers\": %" PRIu32 ", \"max_buffers\": %" PRIu32 ", \"buffers\": %" PRIu32
                       ", \"free_buffers\": %" PRIu32 ", \"flush_seconds\": %" PRIu32 ", \"clock\": %" PRIu32
                       ", \"file_mib\": %" PRIu32 ", \"written_buffers\": %" PRIu64 ", \"lost_events\": %" PRIu64
                       ", \"lost_buffers\": %" PRIu64 ", \"flags\": ",
                       s->logger, s->mode, s->buffer_bytes, s->min_buffers, s->max_buffers, s->buffers, s->free_buffers,
                       s->flush_seconds, s->clock, s->file_mib, s->written_buffers, s->lost_events, s->lost_buffers);
        add_flags(t, s->masks);
        ea_text_char(t, '}');
    } else {
        ea_text_safe(t, s->name, strlen(s->name));
        ea_text_printf(t,
                       ": %" PRIu32 " buffers (%" PRIu32 " free, at most %" PRIu32 ") of %" PRIu64 " KiB, %" PRIu64
                       " written; lost: %" PRIu64 " events, %" PRIu64 " buffers; mode 0x%08" PRIx32 "\n",
                       s->buffers, s->free_buffers, s->max_buffers, s->buffer_bytes / 1024, s->written_buffers,
                       s->lost_events, s->lost_buffers, s->mode);
    }
    l->count++;
    return 0;
}

static int run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    listing l = {.json = o->json};
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&l.text);
    if (o->json)
        ea_text_char(&l.text, '[');
    int rc = ea_live_list(add, &l, &err);
    if (o->json)
        ea_text_str(&l.text, "]\n");
    else if (!l.count)
        ea_text_str(&l.text, "no session of etwagent runs\n");
    if (!rc && l.text.failed)
        rc = ea_fail(&err, EA_ENOMEM, "list the sessions");
    if (!rc && fwrite(l.text.data, 1, l.text.len_bytes, stdout) != l.text.len_bytes)
        rc = ea_fail(&err, EA_EIO, "write the list");
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    ea_text_deinit(&l.text);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_sessions = {
    .name = "sessions",
    .operands = "",
    .summary = "List the agent's ETW sessions as Windows has them now",
    .details = "Those whose names begin with etwagent-, started by an agent that runs or left behind by one that does "
               "not, and the\n"
               "NT Kernel Logger, which may be another program's; what Windows says of their buffers, and what it lost "
               "since they\n"
               "were started. \"etwagent status\" has the numbers over all restarts.\n"
               "JSON keys: name, logger, mode, buffer_bytes, min_buffers, max_buffers, buffers, free_buffers, "
               "flush_seconds,\n"
               "clock (1: performance counter, 2: system time, 3: processor cycles), file_mib (how large its file may\n"
               "become), written_buffers, lost_events, lost_buffers, flags (of the kernel, as Windows has them).\n"
               "Exit codes: 0 listed, 1 failed, or no Windows.",
    .options =
        (const ea_option[]){
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print a JSON array"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = run,
};
