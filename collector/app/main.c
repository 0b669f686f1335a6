/* etwcollector: its command table. See collector_commands.h. Called by: the operating system. Calls: one command.
 * Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/run_sinks.h"
#include "collector/app/trace_operands.h"
#include "collector/detect/send_worker.h"
#include "collector/enroll/signer.h"
#include "collector/query/sql/ask.h"
#include "collector/sandbox/broker.h"
#include "collector/state/fold_worker.h"
#include "collector/store/private.h"
#include "collector/symbols/symbol_worker.h"
#include "collector/traces/trace_ingest.h"
#include "collector/web/profile_worker.h"
#include "proto/base/platform.h"

#include <string.h>
#include <sys/stat.h>

static const ea_command *const COMMANDS[] = {
    &ec_cmd_open,
    &ec_cmd_ingest,
    &ec_cmd_run,
    &ec_cmd_hosts,
    &ec_cmd_ps,
    &ec_cmd_modules,
    &ec_cmd_where,
    &ec_cmd_symbols,
    &ec_cmd_export,
    &ec_cmd_pull,
    &ec_cmd_request_window,
    &ec_cmd_request_add,
    &ec_cmd_request_list,
    &ec_cmd_request_withdraw,
    &ec_cmd_profile,
    &ec_cmd_query,
    &ec_cmd_watch,
    &ec_cmd_report,
    &ec_cmd_rules_check,
    &ec_cmd_rules_test,
    &ec_cmd_detections_list,
    &ec_cmd_detections_send,
    &ec_cmd_detections_set,
    &ec_cmd_sink_run,
    &ec_cmd_sink_status,
    &ec_cmd_sink_replay,
    &ec_cmd_sink_skip,
    &ec_cmd_clickhouse_init,
    &ec_cmd_ledger,
    &ec_cmd_backup,
    &ec_cmd_restore,
    &ec_cmd_doctor,
    &ec_cmd_forget,
    &ec_cmd_quota,
    &ec_cmd_token_add,
    &ec_cmd_token_list,
    &ec_cmd_token_revoke,
    &ec_cmd_ca_init,
    &ec_cmd_ca_sign,
    &ec_cmd_ca_import,
    &ec_cmd_ca_issue,
    &ec_cmd_ca_revoke,
    &ec_cmd_ca_list,
    &ec_cmd_ca_token,
    &ec_cmd_ca_tokens,
    &ec_cmd_ca_revoke_token,
    &ec_cmd_audit_verify,
    NULL,
};

static int dispatch(int argc, char **argv) {
    static const char STORE[] = "--store";
    int code = ea_cli_main("etwcollector", EA_VERSION, "etwcollector receives, keeps and explains what etwagents send.",
                           COMMANDS, argc, argv);
    for (int i = 1; i < argc; i++) /* what root made in the store of a service */
        if (strcmp(argv[i], STORE) == 0 && i + 1 < argc)
            ec_store_give_to_owner(argv[i + 1]);
        else if (strncmp(argv[i], "--store=", sizeof STORE) == 0)
            ec_store_give_to_owner(argv[i] + sizeof STORE);
    return code;
}

int main(int argc, char **argv) {
    /* nothing that any command writes is for others to read, unless it sets a mode itself (certificates) */
    (void)umask(077);
    ea_stdio_init();
    if (argc == 2 && strcmp(argv[1], EC_WORKER_NAME) == 0)
        return ec_worker_main();
    if (argc == 2 && strcmp(argv[1], EC_SYMBOL_WORKER_NAME) == 0)
        return ec_symbol_worker_main();
    if (argc == 2 && strcmp(argv[1], EC_BROKER_NAME) == 0)
        return ec_broker_main();
    if (argc == 2 && strcmp(argv[1], EC_SIGNER_NAME) == 0)
        return ec_signer_main();
    if (argc == 2 && strcmp(argv[1], EC_PROFILE_WORKER_NAME) == 0)
        return ec_profile_worker_main();
    if (argc == 2 && strcmp(argv[1], EC_TRACE_WORKER_NAME) == 0)
        return ec_trace_worker_main();
    if (argc == 2 && strcmp(argv[1], EC_FOLD_WORKER_NAME) == 0)
        return ec_fold_worker_main();
    if (argc == 2 && strcmp(argv[1], EC_SEND_WORKER_NAME) == 0)
        return ec_send_worker_main();
    int code = 0;
    ec_fold_in_worker();
    if (argc == 2 && strcmp(argv[1], EC_SINK_RUNNER_NAME) == 0)
        return ec_sink_runner_main(dispatch);
    if (ec_run_with_traces(argc, argv, dispatch, &code))
        return code;
    return dispatch(argc, argv);
}
