from sub import sub
sub('service/app/cmd_trace.c',('''/* Windows filters by the command's own id where children are not wanted: theirs are not known before they start. */
static void filter_by_pid(plan *p, uint32_t pid) {
    snprintf(p->pid, sizeof p->pid, "%" PRIu32, pid);
    for (size_t i = 0; i < p->count; i++) {
        ea_provider_config *providers = p->parts[i].session.providers.items;
        for (size_t k = 0; k < p->parts[i].session.providers.count; k++)
            providers[k].pids = (ea_strings){.items = {p->pid}, .count = 1};
    }
}

''',''),('''    if (!rc && o->alone)
        filter_by_pid(&p, pid);
''',''),('''        "the command runs; these go when it has ended. With --alone Windows itself filters the providers' events by "
        "the command's\\n"
        "id; children's ids are not known before they start.\\n"
''','''        "the command runs; these go when it has ended. With --alone the file has the events of the command's own "
        "process, and\\n"
        "Windows is not asked for a filter by its id: drivers would log nothing then.\\n"
'''))
s=open('service/app/cmd_trace.c').read()
import re
print([l for l in s.splitlines() if '->pid' in l or 'char pid' in l])
sub('service/etw/enable.c',('''    unsigned count; /* by programs that run; Windows keeps an entry for the others, too */
''','''    unsigned count; /* by programs that run; Windows keeps an entry for the others, too */
    int in_kernel;  /* one of them is a driver's, or the kernel's own: Windows names process 0 */
'''),('''        ret->count += !(instance.Flags & TRACE_PROVIDER_FLAG_PRE_ENABLE);
''','''        ret->count += !(instance.Flags & TRACE_PROVIDER_FLAG_PRE_ENABLE);
        ret->in_kernel |= !(instance.Flags & TRACE_PROVIDER_FLAG_PRE_ENABLE) && !instance.Pid;
'''),('''static void enable_provider(const ea_session *s, const ea_provider_config *p, ea_session_provider *known) {
    ea_err err = {0};
    uint8_t level = 0;
''','''/* Under a filter by process Windows enables a provider in programs alone: a driver that registered the same provider
 * logs nothing. Such filters are taken out then: more events are better than none. Source: EVENT_FILTER_DESCRIPTOR,
 * learn.microsoft.com. */
static void take_process_filters_out(const ea_session *s, const ea_guid *guid, ea_provider_config *p) {
    registrations r;
    GUID id;
    memcpy(&id, guid->bytes, sizeof id);
    if (p->groups || !ea_provider_has_process_filter(p) || ask_registrations(s->api, &id, (USHORT)s->handle, &r) ||
        !r.in_kernel)
        return;
    p->pids.count = p->executables.count = p->packages.count = p->app_ids.count = p->containers.count = 0;
    ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
    ea_session_say(s,
                   "provider %.128s: a driver has it registered, and Windows gives none of a driver's events to a "
                   "session that filters by process; this filter is left out",
                   p->provider);
}

static void enable_provider(const ea_session *s, const ea_provider_config *given, ea_session_provider *known) {
    ea_err err = {0};
    uint8_t level = 0;
    ea_provider_config own = *given, *p = &own;
'''),('''    ea_filters *f;
    if (ea_filters_create''','''    take_process_filters_out(s, &known->guid, p);
    ea_filters *f;
    if (ea_filters_create'''))
sub('config/sessions.h',('''void ea_session_describe(const''','''/* 1 when it selects events by process: ids, programs, packages, apps or containers. */
int ea_provider_has_process_filter(const ea_provider_config *provider);
void ea_session_describe(const'''))
sub('config/sessions.c',('''static void describe_provider(const''','''int ea_provider_has_process_filter(const ea_provider_config *p) {
    return p->pids.count || p->executables.count || p->packages.count || p->app_ids.count || p->containers.count;
}

static void describe_provider(const'''),('''        ea_text_printf(t, ", its state each %.0f s", (double)p->capture_every_ns / 1e9);
    ea_text_char(t, '\\n');
''','''        ea_text_printf(t, ", its state each %.0f s", (double)p->capture_every_ns / 1e9);
    ea_text_char(t, '\\n');
    if (ea_provider_has_process_filter(p) && strncmp(p->provider, KERNEL_PREFIX, strlen(KERNEL_PREFIX)) == 0)
        ea_text_str(t, "      warning: drivers log no events under a filter by process, and this provider is the "
                       "kernel's; the filter is left out where a driver has it registered\\n");
'''),('''/* ---- in words ---- */
''','''/* ---- in words ---- */

static const char KERNEL_PREFIX[] = "Microsoft-Windows-Kernel-";
'''))
sub('tests/windows/emulator.h',(''' *     keyword=GUID N NAME ''',''' *     driver=GUID         a driver has that provider registered, and no program
 *     keyword=GUID N NAME '''),('''    ea_guid groups[16][2];''','''    ea_guid drivers[8];
    uint32_t driver_count;
    ea_guid groups[16][2];'''),('''const emul_script *emul_what(void);
''','''const emul_script *emul_what(void);
/* 1 when a driver has the provider registered (driver= of the script). */
int emul_is_driver(const uint8_t *guid);
'''))
sub('tests/windows/emulator.c',('''    } else if (strcmp(line, "items") == 0) {''','''    } else if (strcmp(line, "driver") == 0 && script.driver_count < 8) {
        script.driver_count += !ea_guid_parse(value, &script.drivers[script.driver_count]);
    } else if (strcmp(line, "items") == 0) {'''),('''_Noreturn void emul_fail(''','''int emul_is_driver(const uint8_t *guid) {
    (void)emul_what();
    for (uint32_t i = 0; i < script.driver_count; i++)
        if (memcmp(script.drivers[i].bytes, guid, sizeof script.drivers[i]) == 0)
            return 1;
    return 0;
}

_Noreturn void emul_fail('''))
sub('tests/windows/emulator_guids.c',('''enum { OWNER_PID = 4,''','''enum { OWNER_PID = 1234, /* a driver's: 0 */'''),(''' * The providers that the script names are registered by one process, number 4. A provider''',''' * The providers that the script names are registered by one process, or by a driver (process 0). A provider'''),
('''static int is_registered(const uint8_t *guid) {
    const emul_script *w = emul_what();
''','''static int is_registered(const uint8_t *guid) {
    const emul_script *w = emul_what();
    if (emul_is_driver(guid))
        return 1;
'''),('''        .EnableCount = n, .Pid = OWNER_PID,''','''        .EnableCount = n, .Pid = emul_is_driver(guid) ? 0 : OWNER_PID,'''),
('''        n = add(guids, n, &w->providers[i].guid);
''','''        n = add(guids, n, &w->providers[i].guid);
    for (uint32_t i = 0; i < w->driver_count; i++)
        n = add(guids, n, &w->drivers[i]);
'''),('GUIDS_MAX = 64 +','GUIDS_MAX = 64 + 8 +'))
sub('tests/windows/emulator_filter.c',('''static int passes(const emul_provider *p, const ea_record *r) {
''','''/* By process: such a filter enables the provider in programs alone. */
static int is_by_process(const emul_provider *p) {
    const emul_lists *l = p->lists ? &emul_shared()->lists[p->lists - 1] : NULL;
    return p->pid_count || (l && (l->executables[0] || l->packages[0] || l->app_ids[0] || l->containers[0]));
}

static int passes(const emul_provider *p, const ea_record *r) {
    if (is_by_process(p) && emul_is_driver(r->provider.bytes))
        return 0;
'''))
sub('tests/windows/EMULATOR.md',('''| Without any (0) every keyword passes''','''| A provider that a driver has registered (`driver=`) logs nothing to a session that filters it by process; EnumerateTraceGuidsEx says process 0 of it | D EVENT_FILTER_DESCRIPTOR; F (`logman query providers` lists the kernel's with process 0) | `test_knobs.py` driver; `test_trace.py` alone |
| Without any (0) every keyword passes'''))
sub('tests/windows/test_trace.py',('''        machine.plays(paths, f"alias={root} {PROGRAM}")
        machine.config.write_text(f"sessions: [{{name: mine,''','''        machine.plays(paths, f"alias={root} {PROGRAM}", f"driver={FILES}")
        machine.config.write_text(f"sessions: [{{name: mine,'''),('''["pids"], 1, "ids that Windows filters by: the command's")''','''["pids"], 0, "ids that Windows filters by: none, since a driver's events would not come")'''))
sub('tests/windows/test_knobs.py',('''def unprivileged(''','''def driver(env, checks, session, windows, arguments):
    """A driver's provider logs nothing under filters by process: these are left out of such a provider, and of no other one."""
    paths = traces.paths(TRACE, env.build)
    every = [e for e in said(env, paths) if e["provider"] == RUNTIME]
    pid = every[0]["pid"]
    asked = {"pids": {"pids": [str(pid + 1)]}, "program": {"executables": ["nobody.exe"]}, "package": {"packages": ["Nobody"]}}
    for registered, wanted in (("driver", len(every)), ("program", 0)):
        with emulated.Machine(env, session, windows, f"registered-{registered}") as machine:
            machine.plays(paths, f"driver={RUNTIME}" if registered == "driver" else f"provider={RUNTIME} Microsoft-Windows-DotNETRuntime")
            files, words = record(env, session, machine, [{"name": name, **SMALL, "providers": [{"provider": RUNTIME, **filters}]} for name, filters in asked.items()], "out")
            for name in asked:
                found = sum(e["provider"] == RUNTIME for e in said(env, [files[name]]))
                checks.equal(found, wanted, f"{name}, registered by a {registered}: events")
            checks.equal(words.count("a driver has it registered"), 3 if wanted else 0, f"registered by a {registered}: {words}")


def unprivileged('''),("counters, unprivileged\n","counters, unprivileged, driver\n"))
