/* etwcollector ps: which processes lived on a machine at a moment. Called by: main.c. Calls: collector/query. Thread:
 * the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/query/analysis/account_names.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    ec_question_options q;
    const char *at_file;
    int tree, all;
} options;

enum { LINE_MAX_BYTES = 256, WIDTH_MAX = 60 };

static void ps_add_json(ea_text *t, const ec_moment *moment, uint64_t backlog, const ec_processes *list,
                        const char *const *accounts, int on_one_line) {
    ea_text_char(t, '{');
    ec_json_moment(t, moment, backlog);
    ea_text_str(t, ", \"processes\": [");
    for (size_t i = 0; i < list->count; i++) {
        ea_text_str(t, i ? "," : "");
        ea_text_str(t, on_one_line ? " " : "\n  ");
        ec_json_process(t, &list->items[i], accounts[i]);
    }
    ea_text_str(t, on_one_line ? "]}\n" : "\n]}\n");
}

static void add_safe(ea_text *t, const char *s) {
    ea_text_safe(t, s, strlen(s));
}

/* Pads what was added since from up to width characters (bytes that do not continue a UTF-8 sequence). */
static void pad(ea_text *t, size_t from, size_t width) {
    size_t n = 0;
    for (size_t i = from; i < t->len_bytes; i++)
        n += ((unsigned char)t->data[i] & 0xC0) != 0x80;
    while (n++ < width && !t->failed)
        ea_text_char(t, ' ');
}

static size_t ps_width_of(const char *s) {
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* The names of the processes' accounts, NULL where none is known: *ret, the caller's. */
static int find_accounts(ec_accounts *accounts, const char *host, const ec_processes *list, const char ***ret,
                         ea_err *err) {
    int rc = 0;
    *ret = calloc(list->count + 1, sizeof **ret);
    if (!*ret)
        return ea_fail(err, EA_ENOMEM, "print the processes");
    for (size_t i = 0; !rc && i < list->count; i++)
        rc = ec_accounts_find(accounts, host, list->items[i].sid, &(*ret)[i], err);
    return rc;
}

/* The account's name; without one its SID. */
static const char *user_of(const ea_process *p, const char *account) {
    return account ? account : *p->sid ? p->sid : "-";
}

static int ps_add_table(ea_text *t, const ec_processes *list, const char *const *accounts, int tree, int with_ends,
                        ea_err *err) {
    size_t *order = calloc(list->count + 1, sizeof *order);
    uint32_t *depth = calloc(list->count + 1, sizeof *depth);
    int rc = order && depth ? 0 : ea_fail(err, EA_ENOMEM, "print the processes");
    for (size_t i = 0; i < list->count && !rc; i++)
        order[i] = i;
    if (!rc && tree)
        rc = ec_processes_tree(list, order, depth, err);
    size_t user_width = 8, name_width = 12;
    for (size_t i = 0; i < list->count && !rc; i++) {
        const ea_process *p = &list->items[order[i]];
        size_t user = ps_width_of(user_of(p, accounts[order[i]])),
               name = 2 * (size_t)depth[i] + ps_width_of(p->image_name);
        user_width = user > user_width && user <= WIDTH_MAX ? user : user_width;
        name_width = name > name_width && name <= WIDTH_MAX ? name : name_width;
    }
    ea_text_printf(t, "%7s %7s %5s  %-35s  ", "PID", "PPID", "SESS", "BEGAN");
    if (with_ends)
        ea_text_printf(t, "%-28s  ", "ENDED");
    ea_text_printf(t, "%-*s  %-*s  %s\n", (int)user_width, "USER", (int)name_width, "NAME", "COMMAND LINE");
    for (size_t i = 0; i < list->count && !rc; i++) {
        const ea_process *p = &list->items[order[i]];
        ea_text_printf(t, "%7" PRIu32 " %7" PRIu32 " ", p->pid, p->parent_pid);
        if (p->session_id == UINT32_MAX)
            ea_text_printf(t, "%5s  ", "-");
        else
            ea_text_printf(t, "%5" PRIu32 "  ", p->session_id);
        size_t from = t->len_bytes;
        ec_answer_begin(t, &p->life);
        pad(t, from, 35);
        ea_text_str(t, "  ");
        if (with_ends) {
            from = t->len_bytes;
            if (p->life.end_utc_ns != INT64_MAX)
                ea_text_utc_ns(t, p->life.end_utc_ns);
            else
                ea_text_char(t, '-');
            pad(t, from, 28);
            ea_text_str(t, "  ");
        }
        from = t->len_bytes;
        add_safe(t, user_of(p, accounts[order[i]]));
        pad(t, from, user_width);
        ea_text_str(t, "  ");
        from = t->len_bytes;
        for (uint32_t d = 0; d < depth[i] && d < 64; d++)
            ea_text_str(t, "  ");
        add_safe(t, *p->image_name ? p->image_name : "?");
        if (*p->command_line) {
            pad(t, from, name_width);
            ea_text_str(t, "  ");
            add_safe(t, p->command_line);
        }
        ea_text_char(t, '\n');
    }
    free(order);
    free(depth);
    return rc;
}

static int ps_answer(const options *o, ec_query *q, ec_accounts *names, const char *at, uint64_t backlog, ea_text *t,
                     ea_err *err) {
    ec_moment moment;
    const char **accounts = NULL;
    ec_processes list;
    int rc = ec_question_moment(&o->q, q, at, &moment, err);
    if (!rc)
        rc = ec_query_processes(q, moment.fold.stream_number, o->all ? NULL : &moment.utc_ns, &list, err);
    if (rc)
        return rc;
    rc = find_accounts(names, moment.fold.host, &list, &accounts, err);
    if (!rc && o->q.json)
        ps_add_json(t, &moment, backlog, &list, accounts, o->at_file != NULL);
    else if (!rc)
        rc = ps_add_table(t, &list, accounts, o->tree, o->all, err);
    free(accounts);
    ec_processes_deinit(&list);
    return rc ? rc : ec_answer_write(t, err);
}

/* One answer a line of the file. */
static int answer_each(const options *o, FILE *f, ec_query *q, ec_accounts *names, uint64_t backlog, ea_text *t,
                       ea_err *err) {
    int rc = 0;
    char line[LINE_MAX_BYTES];
    while (!rc && fgets(line, sizeof line, f)) {
        size_t n = strcspn(line, "\r\n");
        if (line[n] == 0 && n == sizeof line - 1)
            rc = ea_fail(err, EA_EUSAGE, "%s: a line is too long to be a time", o->at_file);
        line[n] = 0;
        if (!rc && n)
            rc = ps_answer(o, q, names, line, backlog, t, err);
    }
    if (!rc && ferror(f))
        rc = ea_fail(err, EA_EIO, "read %s", o->at_file);
    return rc;
}

static int ps_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_query *q = NULL;
    ec_archive *archive = NULL;
    ec_accounts *names = NULL;
    FILE *times = NULL;
    uint64_t backlog = 0;
    ea_err err = {0};
    ea_text t;
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = ec_question_open(&o->q, &q, &backlog, &err);
    if (!rc && o->at_file) {
        times = strcmp(o->at_file, "-") == 0 ? stdin : fopen(o->at_file, "r");
        rc = times ? 0 : ea_fail(&err, EA_EIO, "open %s", o->at_file);
    }
    if (!rc)
        rc = ec_question_confine(o->q.store, &err);
    if (!rc)
        rc = ec_archive_open(&archive, o->q.store, o->q.host, NULL, &err);
    if (!rc)
        rc = ec_accounts_create(&names, archive, &err);
    if (!rc)
        rc = times ? answer_each(o, times, q, names, backlog, &t, &err)
                   : ps_answer(o, q, names, o->q.at, backlog, &t, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    if (times && times != stdin)
        fclose(times);
    ec_accounts_destroy(names);
    ec_archive_close(archive);
    ec_query_close(q);
    ea_text_deinit(&t);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_QUESTION_OPTIONS(options, q),
    {.name = "at-file",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, at_file),
     .help = "answer for each line of FILE, a time as of --at; - is standard input"},
    {.name = "tree",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, tree),
     .help = "print children below their parents, indented"},
    {.name = "all",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, all),
     .help = "every process of the stream, with its end, instead of those alive at one time"},
    {.name = NULL},
};

const ea_command ec_cmd_ps = {
    .name = "ps",
    .operands = EC_TRACES_OPERANDS,
    .summary = "List the processes of a host that were alive at a time",
    .details = "A process lives from its start up to, not including, its end. \"before TIME\" says that its start was "
               "not seen, and\n"
               "when it was seen first.\n"
               "--json: {host, stream, time, data_begin, data_end, behind, processes: [{pid, ppid, instance, begin "
               "(null when not\n"
               "seen), not_before, not_after (when it can have begun), known_by, end, ended_by, parent_instance, "
               "session, name,\n"
               "command_line, sid, account, package, application, mandatory_label, integrity_level, elevation_type, "
               "elevated, logon_id,\n"
               "unique_key, directory_table_base, flags, exit_status}]}; with "
               "--at-file one\n"
               "such object a line.\n" EC_QUESTION_DETAILS "\n\n"
               "  etwcollector ps --store /var/lib/etwcollector --host pc-17 --at 2024-05-17T14:03:07Z --tree",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = ps_run,
};
