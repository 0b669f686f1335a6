/* One generated trace with its truth. See make.h. */
#include "make.h"
#include "truth.h"

int tg_make(const tg_make_options *o, tg_made *ret, ea_err *err) {
    const tg_scenario *preset = tg_find_preset(o->preset);
    if (!preset)
        return ea_fail(err, EA_EUSAGE, "no preset is called '%s'", o->preset);
    tg_scenario scenario = *preset;
    if (o->seconds)
        scenario.seconds = o->seconds;
    tg_machine *machine = NULL;
    tg_trace *trace = NULL;
    ea_etl_info info;
    tg_truth_head head = {.preset = o->preset, .seed = o->seed};
    int rc = tg_machine_create(&machine, &scenario, o->seed, err);
    if (!rc) {
        tg_machine_info(machine, &info, &head.start_raw);
        if (o->start_filetime) {
            info.boot_filetime += o->start_filetime - info.start_filetime;
            info.start_filetime = o->start_filetime;
        }
        info.compression = o->compress ? 3 : 0;
        info.log_file_mode |= o->compress ? 0x04000000 : 0;
        rc = tg_trace_create(&trace, o->out, &info, head.start_raw, err);
    }
    if (!rc)
        rc = tg_machine_run(machine, trace, &head.end_raw, err);
    if (!rc)
        rc = tg_trace_finish(trace, head.end_raw, err);
    if (!rc && o->truth)
        rc = tg_truth_write(o->truth, machine, trace, &head, err);
    if (!rc)
        *ret = (tg_made){.events = tg_trace_events(trace), .processes = tg_machine_processes(machine)->count};
    tg_trace_destroy(trace);
    tg_machine_destroy(machine);
    return rc;
}
