/* etwcollector clickhouse init: the statement that makes the table of a sink. Called by: main.c. Calls: collector/sink.
 * Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/sink/clickhouse.h"

typedef struct clickhouse_options {
    const char *table;
    uint64_t keep_days;
} clickhouse_options;

static int clickhouse_init_run(const void *arg, int operand_count, char **operands) {
    const clickhouse_options *o = arg;
    ea_err err = {0};
    ea_text t;
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = ec_clickhouse_check_table(o->table, &err);
    ec_clickhouse_definition(&t, o->table, o->keep_days);
    if (!rc)
        rc = ec_answer_write(&t, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ea_text_deinit(&t);
    return ea_exit_code(rc);
}

static const ea_option CLICKHOUSE_OPTIONS[] = {
    {.name = "table",
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = offsetof(clickhouse_options, table),
     .fallback = EC_CLICKHOUSE_TABLE,
     .help = "the table, or DATABASE.TABLE"},
    {.name = "keep-days",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(clickhouse_options, keep_days),
     .fallback = "0",
     .max = 36500,
     .help = "how many days after its arrival the server removes a row; 0: never; needs ClickHouse 19.6 or later"},
    {.name = NULL},
};

const ea_command ec_cmd_clickhouse_init = {
    .name = "clickhouse init",
    .operands = "",
    .summary = "Print the statement that makes the table which sink run --kind clickhouse fills",
    .details = "A row is an event: columns of its identity and its header, and event, what export --no-names prints of "
               "it. The server\nmerges rows that were sent twice (ReplacingMergeTree); SELECT ... FINAL has each once "
               "before that, too.\n\n"
               "  etwcollector clickhouse init | clickhouse-client\n\n"
               "Exit codes: 0 printed, 1 failed, 2 usage.",
    .options = CLICKHOUSE_OPTIONS,
    .options_size = sizeof(clickhouse_options),
    .run = clickhouse_init_run,
};
