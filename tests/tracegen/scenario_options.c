/* The options of a scenario. See scenario_options.h. */
#include "tests/tracegen/scenario_options.h"
#include "tests/tracegen/forms.h"

#include <stdio.h>
#include <string.h>

static const char *const os_names[] = {"windows-7",   "windows-8",   "windows-10", "windows-11",
                                       "server-2019", "server-2022", NULL};
static const char *const clock_names[] = {"-", "qpc", "system-time", "cpu-cycles", NULL};
static const char *const user_names[] = {"system", "local-service", "network-service", "person", NULL};
static const char *const dll_sets[] = {"driver", "base",   "gui",    "net",   "com", "c",
                                       "crypto", "dotnet", "server", "wow64", NULL};
static const char *const step_names[] = {"start",        "load",          "connect",   "set-value",
                                         "delete-value", "write-file",    "read-file", "delete-file",
                                         "open-process", "inject-thread", "exit",      NULL};
static const char *const work_names[] = {
#define X(name, text) #text,
    TG_WORKS(X)
#undef X
        NULL};
static const char *const stack_names[] = {
#define X(name, text) #text,
    TG_STACKS(X)
#undef X
        NULL};

#define AT(field)       offsetof(tg_scenario, field)
#define OF(type, field) offsetof(type, field)
#define LIST(list, type, count, text)                                                                                  \
    { "", #list, TG_OPT_LIST, 0, AT(list), 0, 0, NULL, NULL, text, sizeof(type), AT(count) }
#define NAMES(list, count, text)                                                                                       \
    LIST(list, tg_name_row, count, text), {                                                                            \
#list, "", TG_OPT_TEXT, 1, OF(tg_name_row, name), 0, 0, NULL, NULL, "one name", 0, 0                           \
    }

// clang-format off
const tg_option tg_options[] = {
    {"", "summary", TG_OPT_TEXT, 0, AT(summary), 0, 0, NULL, NULL, "one line for the list of presets", 0, 0},
    {"", "base", TG_OPT_TEXT, 0, AT(base), 0, 0, NULL, NULL, "a preset that is read first; lists are added to its lists", 0, 0},
    {"", "duration_ms", TG_OPT_NUMBER, 0, AT(duration_ms), 1, 86400000, NULL, "20000", "length of the trace between its rundowns", 0, 0},

    {"machine", "cpus", TG_OPT_NUMBER, 0, AT(cpus), 1, 1024, NULL, "4", "processors; above 64 in groups of 64", 0, 0},
    {"machine", "pointer_bytes", TG_OPT_NUMBER, 0, AT(pointer_bytes), 4, 8, NULL, "8", "4: a 32-bit kernel", 0, 0},
    {"machine", "os", TG_OPT_CHOICE, 0, AT(os), 0, 0, os_names, "windows-11", "decides builds and the versions of events", 0, 0},
    {"machine", "mhz", TG_OPT_NUMBER, 0, AT(mhz), 100, 10000, NULL, "3000", "of every processor", 0, 0},
    {"machine", "clock", TG_OPT_CHOICE, 0, AT(clock), 0, 0, clock_names, "qpc", "what timestamps count", 0, 0},
    {"machine", "clock_back_ms", TG_OPT_NUMBER, 0, AT(clock_back_ms), 0, 3600000, NULL, "0", "in the middle of the trace a clock of system-time is set back by so much", 0, 0},
    {"machine", "uptime_s", TG_OPT_NUMBER, 0, AT(uptime_s), 0, 4000000000, NULL, "0", "how long it has run when the trace begins; 0: about ten hours, half a minute when it boots", 0, 0},
    {"machine", "id_rest_ms", TG_OPT_NUMBER, 0, AT(id_rest_ms), 0, 86400000, NULL, "1000", "how long the number of a process or thread that ended is not used again", 0, 0},
    {"machine", "boots", TG_OPT_SWITCH, 0, AT(boots), 0, 0, NULL, "no", "yes: the trace begins before all but Idle and System have started", 0, 0},
    {"machine", "boot_gap_us", TG_OPT_RANGE, 0, AT(boot_gap_us), 1, 60000000, NULL, "[2000, 60000]", "between the starts of two processes of a boot", 0, 0},
    {"machine", "clock_interrupts_per_second", TG_OPT_NUMBER, 0, AT(clock_interrupts_per_second), 0, 100000, NULL, "64", "on each processor", 0, 0},
    {"machine", "jit_methods", TG_OPT_NUMBER, 0, AT(jit_methods), 1, 100000, NULL, "400", "methods that a .NET process compiles at the most", 0, 0},
    {"machine", "gc_every_ms", TG_OPT_NUMBER, 0, AT(gc_every_ms), 1, 3600000, NULL, "400", "a .NET process's work between two collections", 0, 0},
    {"machine", "incoming_per_second", TG_OPT_NUMBER, 0, AT(incoming_per_second), 0, 100000, NULL, "0", "connections from outside to programs that listen", 0, 0},

    {"session", "events", TG_OPT_FLAGS, 1, AT(events), 0, 0, tg_group_names, NULL, "what is recorded", 0, 0},
    {"session", "buffer_kib", TG_OPT_NUMBER, 0, AT(buffer_kib), 4, 16384, NULL, "64", "size of a buffer", 0, 0},
    {"session", "held_buffers", TG_OPT_NUMBER, 0, AT(held_buffers), 0, 4096, NULL, "0", "so many buffers at most are out of order in the file, as a consumer in real time gets them", 0, 0},
    {"session", "samples_per_second", TG_OPT_NUMBER, 0, AT(samples_per_second), 0, 10000, NULL, "1000", "CPU samples on each processor", 0, 0},
    {"session", "events_per_second", TG_OPT_NUMBER, 0, AT(events_per_second), 0, 100000000, NULL, "0", "more system calls and DPCs until there are so many; 0: what the mix gives", 0, 0},
    {"session", "image_ids", TG_OPT_SWITCH, 0, AT(image_ids), 0, 0, NULL, "yes", "the records that merging adds: file and PDB of each image", 0, 0},
    {"session", "announced", TG_OPT_SWITCH, 0, AT(announced), 0, 0, NULL, "no", "plugins are no images: their programs announce them, and a function in each", 0, 0},
    {"session", "event_infos", TG_OPT_SWITCH, 0, AT(event_infos), 0, 0, NULL, "no", "people print, and the records that merging adds say what those events are, and the names of their values", 0, 0},

    {"pmc", "on_switches", TG_OPT_SWITCH, 0, AT(pmc_on_switches), 0, 0, NULL, "no", "cycles, instructions and cache misses on every context switch", 0, 0},
    {"pmc", "samples_per_second", TG_OPT_NUMBER, 0, AT(pmc_samples_per_second), 0, 10000, NULL, "0", "counter interrupts on each busy processor", 0, 0},

    {"stacks", "of", TG_OPT_WEIGHTS, 0, AT(stacks), 0, 100, stack_names, NULL, "percent of such events that have one", 0, 0},
    {"stacks", "keys", TG_OPT_SWITCH, 0, AT(stack_keys), 0, 0, NULL, "no", "yes: stacks by key, defined when the key is given up or at the end", 0, 0},
    {"stacks", "key_cache", TG_OPT_NUMBER, 0, AT(stack_key_cache), 1, 65536, NULL, "64", "keys that the cache holds, of each kind", 0, 0},
    {"stacks", "far_percent", TG_OPT_NUMBER, 0, AT(far_percent), 0, 100, NULL, "5", "of user halves come when the thread runs the next time", 0, 0},
    {"stacks", "late_percent", TG_OPT_NUMBER, 0, AT(late_percent), 0, 100, NULL, "0", "of stacks inside events are the kernel's half alone, whose user half comes later by match id", 0, 0},
    {"stacks", "odd_percent", TG_OPT_NUMBER, 0, AT(odd_percent), 0, 50, NULL, "0", "of those user halves never come, and as many come twice", 0, 0},
    {"stacks", "header_keys", TG_OPT_SWITCH, 0, AT(header_keys), 0, 0, NULL, "no", "yes, with keys: stacks inside events, and user halves by match id, are by key, too", 0, 0},
    {"stacks", "recursion_percent", TG_OPT_NUMBER, 0, AT(recursion_percent), 0, 100, NULL, "3", "of user stacks are as deep as Windows walks: 192 frames", 0, 0},
    {"stacks", "plugin_percent", TG_OPT_NUMBER, 0, AT(plugin_percent), 0, 100, NULL, "0", "of user stacks of a process with a plugin begin in it", 0, 0},
    {"stacks", "user_paths", TG_OPT_NUMBER, 0, AT(user_paths), 4, 100000, NULL, "24", "paths through each program that its threads walk", 0, 0},
    {"stacks", "kernel_paths", TG_OPT_NUMBER, 0, AT(kernel_paths), 1, 100000, NULL, "16", "paths through the kernel for each kind of event", 0, 0},

    {"loss", "events_windows", TG_OPT_NUMBER, 0, AT(lost_events_windows), 0, 10000, NULL, "0", "times that a processor loses its events, counted", 0, 0},
    {"loss", "buffers_windows", TG_OPT_NUMBER, 0, AT(lost_buffers_windows), 0, 10000, NULL, "0", "times that a processor loses whole buffers, with unknown events in them", 0, 0},
    {"loss", "lasts_us", TG_OPT_NUMBER, 0, AT(loss_us), 1, 100000000, NULL, "20000", "each", 0, 0},

    {"logons", "count", TG_OPT_NUMBER, 0, AT(logons), 0, 1000, NULL, "0", "people who log on to sessions of their own, from session 2 on", 0, 0},
    {"logons", "every_ms", TG_OPT_RANGE, 0, AT(logon_every_ms), 1, 86400000, NULL, "[500, 3000]", "between two logons", 0, 0},
    {"logons", "lasts_ms", TG_OPT_RANGE, 0, AT(logon_lasts_ms), 1, 86400000, NULL, "[3000, 10000]", "until the logoff ends all processes of the session", 0, 0},

    LIST(dlls, tg_dll, dll_count, "images that are there to be loaded"),
    {"dlls", "file", TG_OPT_TEXT, 1, OF(tg_dll, file), 0, 0, NULL, NULL, "path below the system root, or a whole path", 0, 0},
    {"dlls", "size", TG_OPT_NUMBER, 0, OF(tg_dll, size_bytes), 8192, 0x7FFFFFFF, NULL, "0x20000", "bytes", 0, 0},
    {"dlls", "sets", TG_OPT_FLAGS, 1, OF(tg_dll, sets), 0, 0, dll_sets, NULL, "a program loads the sets that it names", 0, 0},
    {"dlls", "wow64", TG_OPT_SWITCH, 0, OF(tg_dll, wow64), 0, 0, NULL, "no", "lies below 4 GB, for 32-bit programs on a 64-bit machine", 0, 0},

    LIST(programs, tg_program, program_count, "programs; several of one name are variants that take turns"),
    {"programs", "name", TG_OPT_TEXT, 1, OF(tg_program, name), 0, 0, NULL, NULL, "image name", 0, 0},
    {"programs", "path", TG_OPT_TEXT, 0, OF(tg_program, path), 0, 0, NULL, NULL, "of the image, as for dlls; none: a process without one", 0, 0},
    {"programs", "command", TG_OPT_TEXT, 0, OF(tg_program, command), 0, 0, NULL, "", "command line; # becomes a number, | parts alternatives", 0, 0},
    {"programs", "service", TG_OPT_TEXT, 0, OF(tg_program, service), 0, 0, NULL, NULL, "name of the service that it hosts", 0, 0},
    {"programs", "size", TG_OPT_NUMBER, 0, OF(tg_program, size_bytes), 8192, 0x7FFFFFFF, NULL, "0x40000", "bytes of the image", 0, 0},
    {"programs", "dlls", TG_OPT_FLAGS, 0, OF(tg_program, dlls), 0, 0, dll_sets, NULL, "sets of DLLs", 0, 0},
    {"programs", "user", TG_OPT_CHOICE, 0, OF(tg_program, user), 0, 0, user_names, "system", "whose SID", 0, 0},
    {"programs", "session", TG_OPT_NUMBER, 0, OF(tg_program, session), 0, 65535, NULL, "0", "Windows session", 0, 0},
    {"programs", "threads", TG_OPT_RANGE, 0, OF(tg_program, threads), 1, 10000, NULL, "1", "at a time", 0, 0},
    {"programs", "life_ms", TG_OPT_RANGE, 0, OF(tg_program, life_ms), 0, 86400000, NULL, "0", "until it exits; 0: as long as the machine runs", 0, 0},
    {"programs", "priority", TG_OPT_NUMBER, 0, OF(tg_program, priority), 1, 31, NULL, "8", "base priority of its threads", 0, 0},
    {"programs", "wow64", TG_OPT_SWITCH, 0, OF(tg_program, wow64), 0, 0, NULL, "no", "a 32-bit program on a 64-bit machine: it loads the DLLs of its sets that are so, too, and the set wow64", 0, 0},
    {"programs", "plugins", TG_OPT_SWITCH, 0, OF(tg_program, plugins), 0, 0, NULL, "no", "loads and unloads DLLs at one and the same address", 0, 0},
    {"programs", "plugin_ms", TG_OPT_RANGE, 0, OF(tg_program, plugin_ms), 1, 86400000, NULL, "[200, 900]", "until it loads the next one, or unloads what it has", 0, 0},
    {"programs", "listens", TG_OPT_NUMBER, 0, OF(tg_program, listens), 0, 65535, NULL, "0", "TCP port for connections from outside", 0, 0},
    {"programs", "burst_us", TG_OPT_RANGE, 0, OF(tg_program, burst_us), 1, 10000000, NULL, "[20, 400]", "computing between two things that it does", 0, 0},
    {"programs", "wait_us", TG_OPT_RANGE, 0, OF(tg_program, wait_us), 1, 3600000000U, NULL, "[1000, 60000]", "a wait's length", 0, 0},
    {"programs", "does", TG_OPT_WEIGHTS, 0, OF(tg_program, weights), 0, 1000000, work_names, NULL, "weights of what its threads do", 0, 0},

    LIST(starts, tg_start, start_count, "processes that run at the beginning, parents first"),
    {"starts", "program", TG_OPT_TEXT, 1, OF(tg_start, program), 0, 0, NULL, NULL, "which", 0, 0},
    {"starts", "parent", TG_OPT_TEXT, 0, OF(tg_start, parent), 0, 0, NULL, NULL, "who started it: the first process of that name", 0, 0},
    {"starts", "count", TG_OPT_NUMBER, 0, OF(tg_start, count), 1, 10000, NULL, "1", "so many of it", 0, 0},

    LIST(activities, tg_activity, activity_count, "who starts what, for as long as it runs"),
    {"activities", "parent", TG_OPT_TEXT, 1, OF(tg_activity, parent), 0, 0, NULL, NULL, "every process of that name", 0, 0},
    {"activities", "child", TG_OPT_TEXT, 1, OF(tg_activity, child), 0, 0, NULL, NULL, "the program that it starts", 0, 0},
    {"activities", "every_ms", TG_OPT_RANGE, 0, OF(tg_activity, every_ms), 1, 86400000, NULL, "[1000, 5000]", "between two starts", 0, 0},

    LIST(script, tg_script_step, script_count, "what happens at set times"),
    {"script", "at_ms", TG_OPT_NUMBER, 1, OF(tg_script_step, at_ms), 0, 86400000, NULL, NULL, "after the beginning", 0, 0},
    {"script", "does", TG_OPT_CHOICE, 1, OF(tg_script_step, kind), 0, 0, step_names, NULL, "the step's kind", 0, 0},
    {"script", "by", TG_OPT_TEXT, 1, OF(tg_script_step, by), 0, 0, NULL, NULL, "the newest process of that name does it", 0, 0},
    {"script", "technique", TG_OPT_TEXT, 0, OF(tg_script_step, technique), 0, 0, NULL, NULL, "what it is an example of", 0, 0},
    {"script", "program", TG_OPT_TEXT, 0, OF(tg_script_step, program), 0, 0, NULL, NULL, "start: which; open-process, inject-thread: in whose process", 0, 0},
    {"script", "command", TG_OPT_TEXT, 0, OF(tg_script_step, command), 0, 0, NULL, NULL, "start: the command line", 0, 0},
    {"script", "path", TG_OPT_TEXT, 0, OF(tg_script_step, path), 0, 0, NULL, NULL, "load: of a DLL; files: of a file; values: of a registry key", 0, 0},
    {"script", "value", TG_OPT_TEXT, 0, OF(tg_script_step, value), 0, 0, NULL, NULL, "the registry value's name", 0, 0},
    {"script", "address", TG_OPT_TEXT, 0, OF(tg_script_step, address), 0, 0, NULL, NULL, "connect: IPv4 or IPv6 address", 0, 0},
    {"script", "port", TG_OPT_NUMBER, 0, OF(tg_script_step, port), 0, 65535, NULL, "443", "connect", 0, 0},
    {"script", "sends", TG_OPT_NUMBER, 0, OF(tg_script_step, sent_bytes), 0, 0x7FFFFFFF, NULL, "400", "connect: bytes", 0, 0},
    {"script", "receives", TG_OPT_NUMBER, 0, OF(tg_script_step, received_bytes), 0, 0x7FFFFFFF, NULL, "3000", "connect: bytes", 0, 0},

    LIST(remotes, tg_remote, remote_count, "computers that programs talk to, or that connect"),
    {"remotes", "name", TG_OPT_TEXT, 1, OF(tg_remote, name), 0, 0, NULL, NULL, "for DNS events", 0, 0},
    {"remotes", "address", TG_OPT_TEXT, 1, OF(tg_remote, address), 0, 0, NULL, NULL, "IPv4 or IPv6", 0, 0},
    {"remotes", "port", TG_OPT_NUMBER, 0, OF(tg_remote, port), 1, 65535, NULL, "443", "TCP; 53 is asked by UDP", 0, 0},
    {"remotes", "weight", TG_OPT_NUMBER, 0, OF(tg_remote, weight), 1, 1000, NULL, "1", "how often", 0, 0},

    NAMES(folders, folder_count, "where files lie, as device paths below the volume"),
    NAMES(files, file_count, "patterns of file names; # becomes a number"),
    NAMES(keys, key_count, "registry keys, as \\REGISTRY\\..."),
    NAMES(values, value_count, "names of registry values"),
    NAMES(methods, method_count, ".NET methods: Namespace.Class::Method"),
    NAMES(logon_programs, logon_program_count, "what runs in each person's session, explorer.exe first"),
    {NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0},
};

// clang-format on

static void print_values(const tg_option *o) {
    switch (o->type) {
    case TG_OPT_NUMBER:
    case TG_OPT_RANGE:
        printf("%u to %u%s", o->min, o->max, o->type == TG_OPT_RANGE ? ", or [low, high]" : "");
        break;
    case TG_OPT_SWITCH:
        printf("yes, no");
        break;
    case TG_OPT_CHOICE:
    case TG_OPT_FLAGS:
    case TG_OPT_WEIGHTS:
        printf("%s", o->type == TG_OPT_FLAGS ? "list of " : o->type == TG_OPT_WEIGHTS ? "numbers for " : "");
        for (int i = 0; o->names[i]; i++)
            if (strcmp(o->names[i], "-") != 0)
                printf("%s%s", i && strcmp(o->names[0], "-") != 0 ? " " : i > 1 ? " " : "", o->names[i]);
        break;
    case TG_OPT_LIST:
        printf("list");
        break;
    default:
        printf("text");
    }
}

void tg_options_print(void) {
    printf("| section | option | values | default | meaning |\n|---|---|---|---|---|\n");
    for (const tg_option *o = tg_options; o->section; o++) {
        if (o->type == TG_OPT_TEXT && !*o->key)
            continue;
        printf("| %s | %s | ", o->section, o->key);
        print_values(o);
        printf(" | %s | %s |\n", o->required ? "must be given" : o->fallback ? o->fallback : "", o->help);
    }
}
