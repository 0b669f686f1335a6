/* One generated trace with its truth. See make.h. */
#include "tests/tracegen/make.h"
#include "tests/tracegen/truth.h"

int tg_make(const tg_make_options *o, tg_made *ret, ea_err *err) {
    tg_machine *machine = NULL;
    tg_trace *trace = NULL;
    tg_truth *truth = NULL;
    ea_etl_info info;
    tg_trace_options options;
    const tg_truth_head head = {.preset = o->preset, .seed = o->seed};
    int64_t end_raw = 0;
    int rc = tg_machine_create(&machine, o->scenario, o->seed, err);
    if (!rc) {
        tg_machine_trace_options(machine, o->start_filetime, &info, &options);
        options.path = o->out;
        options.seed = o->seed;
        info.compression = o->compress ? 3 : 0;
        info.log_file_mode |= o->compress ? 0x04000000 : 0;
        rc = tg_trace_create(&trace, &options, err);
    }
    if (!rc && o->truth)
        rc = tg_truth_create(&truth, o->truth, &head, err);
    if (!rc)
        rc = tg_machine_run(machine, trace, truth, &end_raw, err);
    if (!rc)
        rc = tg_trace_finish(trace, end_raw, err);
    if (!rc)
        tg_truth_finish(truth, machine, end_raw);
    int truth_rc = tg_truth_close(truth, rc ? NULL : err);
    rc = rc ? rc : truth_rc;
    if (!rc)
        *ret = (tg_made){.events = tg_trace_events(trace), .processes = tg_machine_process_count(machine)};
    tg_trace_destroy(trace);
    tg_machine_destroy(machine);
    return rc;
}
