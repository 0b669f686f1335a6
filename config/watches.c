/* The rows of watches.h. */
#include "config/watches.h"

#include <string.h>

static const char *const EVENTS[] = {"ship", "aggregate", NULL};

static int check_watch(const void *table, const char **ret_key, ea_err *err) {
    const ea_watch_config *c = table;
    size_t n = strlen(c->name);
    *ret_key = "name";
    if (!n || n > EA_WATCH_NAME_MAX)
        return ea_fail(err, EA_EINVAL, "%zu characters: a program's name has 1 to %d", n, EA_WATCH_NAME_MAX);
    for (size_t i = 0; i < n; i++)
        if (!((c->name[i] >= 'a' && c->name[i] <= 'z') || (c->name[i] >= '0' && c->name[i] <= '9') ||
              c->name[i] == '_'))
            return ea_fail(err, EA_EINVAL, "'%.64s': a program's name is made of a-z, 0-9 and _, as tables are called",
                           c->name);
    return 0;
}

#define AT(field) offsetof(ea_watch_config, field)
static const ea_option ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = AT(name),
     .required = 1,
     .example = "switches",
     .help = "its results are the table watch_NAME at the collector: of the aggregation @; watch_NAME_x of @x; "
             "watch_NAME_emit and watch_NAME_printf of these"},
    {.name = "program",
     .type = EA_OPT_STRING,
     .offset = AT(program),
     .required = 1,
     .example = "sched:::on-cpu { @[execname] = count(); } tick:1m { print(@); clear(@); }",
     .help = "the program's text"},
    {.name = "events",
     .type = EA_OPT_CHOICE,
     .offset = AT(events),
     .fallback = "ship",
     .choices = EVENTS,
     .help = "ship: the events on which it runs travel, too; aggregate: they do not, and are counted "
             "(events_aggregated)"},
    {.name = "keys",
     .type = EA_OPT_U64,
     .offset = AT(keys),
     .fallback = "65536",
     .min = 1,
     .max = 1048576,
     .help = "how many keys an aggregation or a map has at the most; values of further keys are counted together, in "
             "the row with others = 1"},
    {.name = "memory",
     .type = EA_OPT_SIZE,
     .offset = AT(memory_bytes),
     .fallback = "16MiB",
     .min = 1 << 20,
     .max = (uint64_t)1 << 30,
     .help = "memory of all variables, aggregations and texts of the program together"},
    {.name = NULL},
};
#undef AT

const ea_table ea_watch_table = {.summary = "A program that runs all the time.",
                                 .rows = ROWS,
                                 .size = sizeof(ea_watch_config),
                                 .check = check_watch};
