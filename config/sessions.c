/* Sessions in a configuration: their rows and checks, and those of all sessions together. See sessions.h. */
#include "config/sessions.h"
#include "config/kernel_flags.h"
#include "config/session_parts.h"
#include "config/system_providers.h"
#include "proto/base/provider_guids.h"
#include "proto/base/text.h"
#include "proto/event/event.h"
#include "proto/event/provider_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RECORDER_MIN_BYTES = 1 << 20 };

static const int64_t RECORDER_MIN_NS = 1000000000;

static const char *const KINDS[] = {"user", "system", "kernel-logger", NULL};
static const char *const OUTPUTS[] = {"realtime", "file", "both", NULL};
static const char *const CLOCKS[] = {"qpc", "system", "cycle", NULL};
static const char *const STALE[] = {"stop", "adopt", NULL};
const char *const ea_session_priorities[] = {"security", "bulk", NULL};
static const char *const RUNDOWNS[] = {"process", "thread", "image", "file-name", "driver", "registry", "dotnet", NULL};

static const ea_option PMC_SAMPLE_ROWS[] = {
    {.name = "source",
     .type = EA_OPT_STRING,
     .offset = offsetof(ea_pmc_sample_config, source),
     .required = 1,
     .example = "CacheMisses",
     .help = "a performance counter by its name in Windows"},
    {.name = "interval",
     .type = EA_OPT_U64,
     .offset = offsetof(ea_pmc_sample_config, interval),
     .fallback = "65537",
     .min = 1000,
     .max = UINT32_MAX,
     .help = "number of events between two samples"},
    {.name = NULL},
};
static const ea_table PMC_SAMPLE = {
    .summary = "A performance counter that is sampled.", .rows = PMC_SAMPLE_ROWS, .size = sizeof(ea_pmc_sample_config)};

static const ea_option RECORDER_ROWS[] = {
    {.name = "size",
     .type = EA_OPT_SIZE,
     .offset = offsetof(ea_recorder_config, size_bytes),
     .fallback = "0",
     .max = UINT64_C(1) << 42,
     .help = "most bytes on this machine's disk, at least 1MiB: the oldest file, 8MiB or a quarter of this, is removed "
             "when it is full; 0: no recorder"},
    {.name = "age",
     .type = EA_OPT_DURATION,
     .offset = offsetof(ea_recorder_config, age_ns),
     .fallback = "0",
     .max = INT64_C(3153600000000000000),
     .help = "events are removed after so long, at the earliest after seven eighths of it; 0: when there is no room"},
    {.name = NULL},
};

static int check_recorder(const void *table, const char **ret_key, ea_err *err) {
    const ea_recorder_config *r = table;
    *ret_key = "size";
    if (r->size_bytes && r->size_bytes < RECORDER_MIN_BYTES)
        return ea_fail(err, EA_EINVAL, "expected 0, or at least 1MiB");
    if (!r->size_bytes && r->age_ns)
        return ea_fail(err, EA_EINVAL, "a recorder has a size; expected at least 1MiB");
    *ret_key = "age";
    if (r->age_ns && r->age_ns < RECORDER_MIN_NS)
        return ea_fail(err, EA_EINVAL, "expected 0, or at least 1s");
    *ret_key = NULL;
    return 0;
}

static const ea_table RECORDER = {
    .summary = "A ring of files on this machine's disk that keeps the session's events in place of shipping them.",
    .rows = RECORDER_ROWS,
    .size = sizeof(ea_recorder_config),
    .check = check_recorder};

static int is_kernel_class(const char *name) {
    size_t families;
    const ea_family *const *all = ea_event_families(&families);
    for (size_t i = 0; i < families; i++)
        for (size_t k = 0; all[i]->provider->classic && k < all[i]->row_count; k++)
            if (strcmp(all[i]->rows[k].name, name) == 0)
                return 1;
    return 0;
}

static int are_kernel_classes(const ea_strings *names, ea_err *err) {
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (is_kernel_class(name))
            continue;
        for (const ea_kernel_stack *s = ea_kernel_stacks; s->class_name; s++)
            if (ea_kernel_name_is(s->xperf, name, strlen(name)) || ea_kernel_name_is(s->wpr, name, strlen(name)))
                return ea_fail(err, EA_EINVAL, "'%s' is another tool's name; the class is %s", name, s->class_name);
        return ea_fail(err, EA_EINVAL, "'%.64s' is no class of kernel events; \"etwagent schema\" prints all", name);
    }
    return 0;
}

static int are_flags(const ea_strings *names, ea_err *err) {
    for (size_t i = 0; i < names->count; i++) {
        const char *s = names->items[i], *nearest;
        if (ea_kernel_flag_find(s, strlen(s)) || ea_kernel_group_find(s, strlen(s)))
            continue;
        nearest = ea_kernel_flag_nearest(s);
        return nearest ? ea_fail(err, EA_EINVAL, "there is no kernel flag '%.40s'; did you mean %s?", s, nearest)
                       : ea_fail(err, EA_EINVAL, "there is no kernel flag '%.40s'", s);
    }
    return 0;
}

static int sessions_check_name(const char *name, ea_err *err) {
    size_t n = strlen(name);
    if (!n || name[n - 1] == '.') /* on Windows a folder has no such name */
        return ea_fail(err, EA_EINVAL, "'%.64s': a session's name has at least one character, and ends with no '.'",
                       name);
    if (n > EA_SESSION_NAME_MAX)
        return ea_fail(err, EA_EINVAL, "%zu characters: a session's name has at most %d", n, EA_SESSION_NAME_MAX);
    for (size_t i = 0; i < n; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || strchr("-_.", name[i])))
            return ea_fail(err, EA_EINVAL, "'%s': a session's name is made of letters, digits, -, _ and .", name);
    return 0;
}

/* The group masks of the session's flags, and of the flags that its providers of the kernel's stand for. */
static void all_masks(const ea_session_config *s, uint32_t *ret_masks) {
    const ea_provider_config *providers = s->providers.items;
    ea_session_masks(s, ret_masks);
    for (size_t i = 0; i < s->providers.count; i++) {
        const ea_system_provider *system = ea_system_provider_find(providers[i].provider);
        uint64_t keywords;
        if (system && providers[i].any && !ea_system_keywords(system, providers[i].any, &keywords, NULL))
            (void)ea_system_masks(system, keywords, ret_masks);
    }
}

int ea_session_has_flag(const ea_session_config *s, const char *name) {
    const ea_kernel_flag *f = ea_kernel_flag_find(name, strlen(name));
    uint32_t masks[EA_KERNEL_MASK_WORDS];
    all_masks(s, masks);
    return f && (masks[ea_kernel_flag_word(f->mask)] & ea_kernel_flag_bits(f->mask)) != 0;
}

static int check_kernel_part(const ea_session_config *s, const char **ret_key, ea_err *err) {
    int rc;

    const struct {
        const char *key;
        size_t count;
    } KERNEL_ONLY[] = {{"flags", s->flags.count},
                       {"stacks", s->stacks.count},
                       {"pool-tags", s->pool_tags.count},
                       {"pmc-samples", s->pmc_samples.count},
                       {"pmc-counters", s->pmc_counters.count},
                       {"profile-interval", s->profile_interval_ns != 0},
                       {"images", s->images != 0},
                       {"announced-modules", s->announced_modules != 0}};

    for (size_t i = 0; s->kind == EA_SESSION_USER && i < sizeof KERNEL_ONLY / sizeof *KERNEL_ONLY; i++)
        if (KERNEL_ONLY[i].count) {
            *ret_key = KERNEL_ONLY[i].key;
            return ea_fail(err, EA_EINVAL, "this is a user session; a session of kind: system has it");
        }
    size_t system_providers = 0;
    const ea_provider_config *providers = s->providers.items;
    for (size_t i = 0; i < s->providers.count; i++)
        system_providers += ea_system_provider_find(providers[i].provider) != NULL;
    *ret_key = "providers";
    if (system_providers && s->kind != EA_SESSION_SYSTEM)
        return ea_fail(err, EA_EINVAL, "the kernel's providers (System...Provider) need a session of kind: system");
    *ret_key = "kind";
    if (s->kind != EA_SESSION_USER && !s->flags.count && !system_providers)
        return ea_fail(err, EA_EINVAL,
                       "a system session has flags, or providers of the kernel's such as SystemProcessProvider");
    *ret_key = "flags";
    if ((rc = are_flags(&s->flags, err)))
        return rc;
    *ret_key = "stacks";
    if ((rc = are_kernel_classes(&s->stacks, err)))
        return rc;
    *ret_key = "pmc-samples";
    if (s->pmc_samples.count && !ea_session_has_flag(s, "PMC_PROFILE"))
        return ea_fail(err, EA_EINVAL, "the samples come with the kernel flag PMC_PROFILE; it is missing");
    *ret_key = "pmc-events";
    if (s->pmc_events.count && !s->pmc_counters.count)
        return ea_fail(err, EA_EINVAL, "pmc-counters is missing: expected the counters that these events carry");
    if ((rc = are_kernel_classes(&s->pmc_events, err)))
        return rc;
    if (s->pmc_events.count > EA_PMC_MAX)
        return ea_fail(err, EA_EINVAL, "%zu events: Windows puts counters on at most %d", s->pmc_events.count,
                       EA_PMC_MAX);
    *ret_key = "pmc-counters";
    if (s->pmc_counters.count && !s->pmc_events.count)
        return ea_fail(err, EA_EINVAL, "pmc-events is missing: expected the events that carry the counters");
    if (s->pmc_counters.count > EA_PMC_MAX)
        return ea_fail(err, EA_EINVAL, "%zu counters: Windows takes at most %d, and never more than the hardware has",
                       s->pmc_counters.count, EA_PMC_MAX);
    *ret_key = "rundown";
    if ((rc = ea_words_are_of(&s->rundown, RUNDOWNS, err)))
        return rc;
    for (size_t i = 0; s->kind == EA_SESSION_KERNEL_LOGGER && i < s->rundown.count; i++)
        if (strcmp(s->rundown.items[i], "dotnet") == 0)
            return ea_fail(err, EA_EINVAL, "the NT Kernel Logger takes no providers; .NET's rundown comes from one");
    if (s->rundown.count && s->output == EA_OUTPUT_FILE && s->kind == EA_SESSION_USER)
        return ea_fail(err, EA_EINVAL,
                       "a rundown is shipped, not written to the file: expected output realtime or both");
    *ret_key = "pool-tags";
    if (s->pool_tags.count && s->kind == EA_SESSION_KERNEL_LOGGER)
        return ea_fail(err, EA_EINVAL, "only a session of kind: system filters by pool tags");
    if (s->pool_tags.count > EA_POOL_TAGS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu tags: Windows filters by at most %d", s->pool_tags.count, EA_POOL_TAGS_MAX);
    for (size_t i = 0; i < s->pool_tags.count; i++)
        if (!s->pool_tags.items[i][0] || strlen(s->pool_tags.items[i]) > 4)
            return ea_fail(err, EA_EINVAL, "'%.40s': a pool tag has one to four characters", s->pool_tags.items[i]);
    return 0;
}

static int check_images(const ea_session_config *s, const char **ret_key, ea_err *err) {
    *ret_key = "announced-modules";
    if (s->announced_modules && s->kind == EA_SESSION_KERNEL_LOGGER)
        return ea_fail(err, EA_EINVAL, "the NT Kernel Logger takes no providers; expected kind: system");
    *ret_key = "images";
    if (s->images && s->output == EA_OUTPUT_FILE)
        return ea_fail(err, EA_EINVAL,
                       "facts of images are shipped, not written to the file: expected output realtime or both");
    if (s->images && !ea_session_has_flag(s, "LOADER"))
        return ea_fail(err, EA_EINVAL, "the session does not say which images are loaded; expected the flag LOADER");
    *ret_key = NULL;
    return 0;
}

static int check_session(const void *table, const char **ret_key, ea_err *err) {
    const ea_session_config *s = table;
    int rc;
    *ret_key = "name";
    if ((rc = sessions_check_name(s->name, err)) || (rc = check_kernel_part(s, ret_key, err)) ||
        (rc = check_images(s, ret_key, err)))
        return rc;
    *ret_key = "providers";
    if (s->kind == EA_SESSION_USER && !s->providers.count)
        return ea_fail(err, EA_EINVAL, "a user session has providers");
    if (s->kind == EA_SESSION_KERNEL_LOGGER && s->providers.count)
        return ea_fail(err, EA_EINVAL, "the NT Kernel Logger takes no providers; give them a session of their own");
    *ret_key = "buffer-size";
    if (s->buffer_bytes % 1024)
        return ea_fail(err, EA_EINVAL, "expected whole KiB");
    *ret_key = "max-buffers";
    if (s->max_buffers && s->max_buffers < s->min_buffers)
        return ea_fail(err, EA_EINVAL, "fewer than min-buffers (%" PRIu64 ")", s->min_buffers);
    *ret_key = "file";
    if (s->output != EA_OUTPUT_REALTIME && !s->file)
        return ea_fail(err, EA_EINVAL, "output %s needs a file", OUTPUTS[s->output]);
    if (s->output == EA_OUTPUT_REALTIME && s->file)
        return ea_fail(err, EA_EINVAL, "nothing is written to it: output is realtime");
    *ret_key = "recorder";
    if (s->recorder.size_bytes && s->output != EA_OUTPUT_REALTIME)
        return ea_fail(err, EA_EINVAL, "it keeps events that the agent reads; expected output realtime");
    *ret_key = "watch";
    if (s->watches.count && s->output == EA_OUTPUT_FILE)
        return ea_fail(err, EA_EINVAL, "programs run on events that the agent reads; expected output realtime or both");
    *ret_key = "boot-file";
    size_t boot_bytes = s->boot_file ? strlen(s->boot_file) : 0;
    if (s->boot_file && s->kind != EA_SESSION_USER)
        return ea_fail(err, EA_EINVAL, "Windows starts no session with kernel events at boot; expected kind: user");
    if (s->boot_file && (boot_bytes < 5 || boot_bytes > 1000 || strcmp(s->boot_file + boot_bytes - 4, ".etl") != 0))
        return ea_fail(err, EA_EINVAL, "'%.64s': expected the path of an .etl file", s->boot_file);
    if (s->boot_file && s->file && strcmp(s->boot_file, s->file) == 0)
        return ea_fail(err, EA_EINVAL, "it is the session's own file, too");
    *ret_key = "circular";
    if (s->circular && !s->file_bytes)
        return ea_fail(err, EA_EINVAL, "file-size is missing: expected the size at which the file begins anew");
    *ret_key = NULL;
    for (size_t i = 0; i < s->providers.count; i++)
        for (size_t k = 0; k < i; k++) {
            const ea_provider_config *a = s->providers.items;
            if (strcmp(a[i].provider, a[k].provider) == 0) {
                *ret_key = "providers";
                return ea_fail(err, EA_EINVAL, "%s is given twice; a session enables a provider once", a[i].provider);
            }
        }
    return 0;
}

#define AT(field) offsetof(ea_session_config, field)
static const ea_option SESSION_ROWS[] = {
    {.name = "name",
     .type = EA_OPT_STRING,
     .offset = AT(name),
     .required = 1,
     .example = "security",
     .help = "its name here; in Windows the session is called etwagent-NAME"},
    {.name = "kind",
     .type = EA_OPT_CHOICE,
     .offset = AT(kind),
     .fallback = "user",
     .choices = KINDS,
     .help = "user: providers only; system: kernel flags, and providers too, one of eight such sessions; "
             "kernel-logger: the NT Kernel Logger, of which there is one"},
    {.name = "priority",
     .type = EA_OPT_CHOICE,
     .offset = AT(priority),
     .fallback = "bulk",
     .choices = ea_session_priorities,
     .help = "bulk is dropped first when the spool is full"},
    {.name = "flags",
     .type = EA_OPT_STRINGS,
     .offset = AT(flags),
     .help = "what the kernel logs: flags and groups by xperf's names, such as PROC_THREAD, LOADER, DiagEasy"},
    {.name = "stacks",
     .type = EA_OPT_STRINGS,
     .offset = AT(stacks),
     .help = "kernel events whose stacks are walked, such as PerfInfo/SampleProf, Thread/CSwitch"},
    {.name = "profile-interval",
     .type = EA_OPT_DURATION,
     .offset = AT(profile_interval_ns),
     .min = 122100,
     .max = 1000000000,
     .help = "time between two samples of each processor; for the whole machine"},
    {.name = "pmc-samples",
     .type = EA_OPT_TABLES,
     .offset = AT(pmc_samples),
     .table = &PMC_SAMPLE,
     .min = 1,
     .max = EA_PMC_MAX,
     .help =
         "performance counters that are sampled at their overflow, with the flag PMC_PROFILE; for the whole machine: "
         "one session says which"},
    {.name = "pmc-counters",
     .type = EA_OPT_STRINGS,
     .offset = AT(pmc_counters),
     .help = "performance counters that the events of pmc-events carry, such as InstructionRetired, TotalCycles"},
    {.name = "pmc-events",
     .type = EA_OPT_STRINGS,
     .offset = AT(pmc_events),
     .help = "kernel events that carry pmc-counters, such as Thread/CSwitch"},
    {.name = "pool-tags",
     .type = EA_OPT_STRINGS,
     .offset = AT(pool_tags),
     .help =
         "with the flag POOL: pool events of these tags only, at most 4; Windows filters by them since build 20348"},
    {.name = "rundown",
     .type = EA_OPT_STRINGS,
     .offset = AT(rundown),
     .help = "existing objects to record at the start: process, thread, image, driver, file-name, registry (names of "
             "keys), "
             "dotnet (modules and compiled methods); what the session's own flags do not bring comes from a "
             "second session, which runs for less than a second"},
    {.name = "images",
     .type = EA_OPT_FLAG,
     .offset = AT(images),
     .help =
         "look at the file of each image that is loaded: its size, PDB, version and SHA-256, by a thread of the lowest "
         "priority; on this machine's disks only; needs LOADER. And ask Windows what the accounts of processes are "
         "called"},
    {.name = "announced-modules",
     .type = EA_OPT_FLAG,
     .offset = AT(announced_modules),
     .help = "modules and functions of formats of their own, as programs announce them with etwagent_announce.h, those "
             "that exist already included; samples of this session are named by them"},
    {.name = "image-rate",
     .type = EA_OPT_SIZE,
     .offset = AT(image_rate_bytes),
     .fallback = "8MiB",
     .min = 64 << 10,
     .max = (uint64_t)1 << 32,
     .help = "most bytes of images' files that are read in a second; a file counts as 16 KiB at the least"},
    {.name = "image-hash-size",
     .type = EA_OPT_SIZE,
     .offset = AT(image_hash_bytes),
     .fallback = "128MiB",
     .min = 0,
     .max = (uint64_t)1 << 40,
     .help = "a larger image has no hash"},
    {.name = "buffer-size",
     .type = EA_OPT_SIZE,
     .offset = AT(buffer_bytes),
     .fallback = "256KiB",
     .min = 4096,
     .max = 16 << 20,
     .help = "a buffer's size; small ones arrive sooner, large ones lose less"},
    {.name = "min-buffers",
     .type = EA_OPT_U64,
     .offset = AT(min_buffers),
     .fallback = "64",
     .min = 2,
     .max = 65536,
     .help = "buffers at the start, two for each processor at the least"},
    {.name = "max-buffers",
     .type = EA_OPT_U64,
     .offset = AT(max_buffers),
     .fallback = "256",
     .min = 2,
     .max = 65536,
     .help = "most buffers; the agent adds buffers after a loss"},
    {.name = "flush",
     .type = EA_OPT_DURATION,
     .offset = AT(flush_ns),
     .fallback = "1s",
     .min = 1000000,
     .max = 3600000000000,
     .help = "buffers that are not full are delivered after this; fractions of a second by the agent's own flush, "
             "which a session of output: both does not have"},
    {.name = "keyframe-every",
     .type = EA_OPT_DURATION,
     .offset = AT(keyframe_ns),
     .fallback = "4h",
     .help =
         "interval between keyframes (all open processes, threads, modules and names, from the session's events), in "
         "event time; the first is written 15s after the first event; 0: only when a collector asks, or at the "
         "interval of the batching part's option of that name, which takes precedence"},
    {.name = "clock",
     .type = EA_OPT_CHOICE,
     .offset = AT(clock),
     .fallback = "qpc",
     .choices = CLOCKS,
     .help = "the clock that stamps events"},
    {.name = "output",
     .type = EA_OPT_CHOICE,
     .offset = AT(output),
     .fallback = "realtime",
     .choices = OUTPUTS,
     .help = "realtime: shipped; file: kept on this machine; both"},
    {.name = "file", .type = EA_OPT_STRING, .offset = AT(file), .help = "an .etl file on this machine"},
    {.name = "file-size",
     .type = EA_OPT_SIZE,
     .offset = AT(file_bytes),
     .min = 1 << 20,
     .max = UINT64_C(1) << 42,
     .help = "most bytes of the file"},
    {.name = "keep-files",
     .type = EA_OPT_U64,
     .offset = AT(keep_files),
     .fallback = "3",
     .max = 64,
     .help = "files of earlier starts that are kept, as FILE.1.etl (the newest), FILE.2.etl; 0: none"},
    {.name = "circular",
     .type = EA_OPT_FLAG,
     .offset = AT(circular),
     .help = "a full file is overwritten from its beginning"},
    {.name = "boot-file",
     .type = EA_OPT_STRING,
     .offset = AT(boot_file),
     .help =
         "Windows starts the session at boot, without filters, and writes to this .etl file until the service runs; "
         "then the file is shipped as source NAME-boot, out of FILE-booted.etl, which becomes FILE-taken.etl when the "
         "spool has it; of boots whose files are not taken yet there are as many as keep-files says beside the newest; "
         "with Fast Startup, the default of Windows clients, it starts at a restart and not after a shutdown"},
    {.name = "per-processor",
     .type = EA_OPT_FLAG,
     .offset = AT(per_processor),
     .fallback = "true",
     .help = "each processor has buffers of its own; false: all share them, which keeps events in order and is slow; "
             "events have no processor number then"},
    {.name = "independent",
     .type = EA_OPT_FLAG,
     .offset = AT(independent),
     .fallback = "true",
     .help = "a provider that fails in another session cannot stop this one"},
    {.name = "stale",
     .type = EA_OPT_CHOICE,
     .offset = AT(stale),
     .fallback = "stop",
     .choices = STALE,
     .help = "what to do with an existing session of this name at the start"},
    {.name = "recorder",
     .type = EA_OPT_TABLE,
     .offset = AT(recorder),
     .table = &RECORDER,
     .help =
         "keeps the session's events on this machine, in the folder recorder/NAME of the spool's; only their numbers "
         "are shipped. \"etwagent recorder export\" writes a time of it to a file"},
    EA_FILTERS_OPTION(AT(filters)),
    EA_WATCHES_OPTION(AT(watches)),
    {.name = "providers",
     .type = EA_OPT_TABLES,
     .offset = AT(providers),
     .table = &ea_provider_table,
     .min = 1,
     .max = EA_PROVIDERS_MAX,
     .example = "",
     .help = "providers that it enables"},
    {.name = NULL},
};
#undef AT

/* The values of "rundown". Names of files need the flag of disk input and output, too: EVENT_TRACE_FLAG_DISK_FILE_IO,
 * EVENT_TRACE_PROPERTIES, learn.microsoft.com. */
static const struct {
    const char *word, *flag; /* in the configuration; of the kernel */
    uint32_t bit;            /* of the first mask: the session then logs this itself. 0: only at its end */
} RUNDOWN_FLAGS[] = {{"process", "PROCESS", 0x1}, {"thread", "THREAD", 0x2},    {"image", "LOADER", 0x4},
                     {"driver", "LOADER", 0x4},   {"file-name", "FILENAME", 0}, {"file-name", "DISK_IO", 0},
                     {"registry", "REGISTRY", 0}};

static int has_rundown(const ea_session_config *s, const char *word) {
    for (size_t i = 0; i < s->rundown.count; i++)
        if (strcmp(s->rundown.items[i], word) == 0)
            return 1;
    return 0;
}

void ea_session_rundown_flags(const ea_session_config *session, ea_strings *ret) {
    uint32_t masks[EA_KERNEL_MASK_WORDS] = {0};
    ea_session_masks(session, masks);
    ret->count = 0;
    for (size_t i = 0; i < sizeof RUNDOWN_FLAGS / sizeof *RUNDOWN_FLAGS; i++)
        if (has_rundown(session, RUNDOWN_FLAGS[i].word) && !(masks[0] & RUNDOWN_FLAGS[i].bit))
            ret->items[ret->count++] = RUNDOWN_FLAGS[i].flag;
}

/* A row of the provider that announced-modules enables would replace what the option asks for. */
static int check_announced(const void *table, ea_option_place *ret_place, ea_err *err) {
    static const ea_guid ANNOUNCE = EA_PROVIDER_ANNOUNCE;
    const ea_session_config *s = table;
    const ea_provider_config *providers = s->providers.items;
    for (size_t i = 0; s->announced_modules && i < s->providers.count; i++) {
        const char *name = providers[i].provider;
        ea_guid guid = {0};
        int rc = name[0] == '*' ? ea_provider_guid_of_name(name + 1, &guid, NULL) : ea_guid_parse(name, &guid);
        if (rc || !ea_guid_equal(&guid, &ANNOUNCE))
            continue;
        snprintf(ret_place->path, sizeof ret_place->path, "providers/%zu/provider", i);
        return ea_fail(err, EA_EINVAL, "%s is enabled by announced-modules: true; expected one of the two", name);
    }
    return 0;
}

const ea_table ea_session_table = {.summary = "An ETW session.",
                                   .rows = SESSION_ROWS,
                                   .size = sizeof(ea_session_config),
                                   .check = check_session,
                                   .check_values = check_announced};

int ea_sessions_check(const ea_tables *sessions, ea_err *err) {
    const ea_session_config *all = sessions->items;
    size_t kernel = 0, loggers = 0;
    const ea_session_config *sampler = NULL, *rundown = NULL;
    for (size_t i = 0; i < sessions->count; i++) {
        if (all[i].pmc_samples.count && sampler)
            return ea_fail(err, EA_EINVAL,
                           "sessions %s and %s have pmc-samples, of which Windows has one list for the whole machine; "
                           "each session with the flag PMC_PROFILE gets the samples",
                           sampler->name, all[i].name);
        if (all[i].pmc_samples.count)
            sampler = &all[i];
        ea_strings second;
        kernel += all[i].kind == EA_SESSION_SYSTEM;
        ea_session_rundown_flags(&all[i], &second);
        if (second.count && !rundown)
            rundown = &all[i];
        loggers += all[i].kind == EA_SESSION_KERNEL_LOGGER;
        for (size_t k = 0; k < i; k++)
            if (strcmp(all[i].name, all[k].name) == 0)
                return ea_fail(err, EA_EINVAL, "two sessions are called %s", all[i].name);
            else if (all[i].boot_file && all[k].boot_file && strcmp(all[i].boot_file, all[k].boot_file) == 0)
                return ea_fail(err, EA_EINVAL, "sessions %s and %s have one boot-file", all[k].name, all[i].name);
    }
    if (loggers > 1)
        return ea_fail(err, EA_EINVAL, "%zu sessions are of kind: kernel-logger; Windows has one", loggers);
    if (kernel > EA_SYSTEM_SESSIONS_MAX)
        return ea_fail(err, EA_EINVAL, "%zu sessions are of kind: system; Windows has %d for all programs", kernel,
                       EA_SYSTEM_SESSIONS_MAX);
    if (rundown && kernel == EA_SYSTEM_SESSIONS_MAX)
        return ea_fail(err, EA_EINVAL,
                       "%zu sessions are of kind: system, and the rundown of session %s needs a second session of that "
                       "kind at its start; Windows has %d for all programs",
                       kernel, rundown->name, EA_SYSTEM_SESSIONS_MAX);
    return 0;
}

static void add_mask(uint32_t *masks, const ea_kernel_flag *f) {
    masks[ea_kernel_flag_word(f->mask)] |= ea_kernel_flag_bits(f->mask);
}

void ea_session_masks(const ea_session_config *session, uint32_t *ret_masks) {
    memset(ret_masks, 0, EA_KERNEL_MASK_WORDS * sizeof *ret_masks);
    for (size_t i = 0; i < session->flags.count; i++) {
        const char *s = session->flags.items[i];
        const ea_kernel_flag *f = ea_kernel_flag_find(s, strlen(s));
        const ea_kernel_group *g = f ? NULL : ea_kernel_group_find(s, strlen(s));
        if (f)
            add_mask(ret_masks, f);
        for (const char *p = g ? g->flags : NULL; p; p = *p ? p + 1 : NULL) {
            size_t n = strcspn(p, "+");
            if ((f = ea_kernel_flag_find(p, n)))
                add_mask(ret_masks, f);
            p += n;
        }
    }
}
