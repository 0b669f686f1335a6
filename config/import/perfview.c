/* Import of PerfView's command lines and provider strings. See import.h.
 *
 *     PerfView collect|start|run [/KernelEvents=A,B] [/ClrEvents=A,B] [/Providers=...] [/OnlyProviders=...] ...
 *     NAME|*NAME|GUID[:KEYWORDS[:LEVEL[:@KEY=VALUE;KEY=VALUE...]]],...
 *
 * PerfView records the kernel and .NET by default; /OnlyProviders leaves both out. It walks the stacks of all kernel
 * events that it has on. Source: microsoft/perfview CommandLineArgs.cs, ProviderParser in CommandProcessor.cs,
 * KernelTraceEventParser.Keywords, ClrTraceEventParser.Keywords, TraceEventSession.SetStackTraceIds. */
#include "config/import/importer.h"

#include <inttypes.h>
#include <string.h>

typedef struct reading {
    ea_import *im;
    const char *kernel, *clr, *session, *file, *process;
    uint64_t buffer_mb, circular_mb;
    int64_t interval_ns;
    int only, thread_time;
    uint8_t clr_level;
} reading;

static const struct set {
    const char *name, *members;
} KERNEL_SETS[] = {
    {"Default",
     "DiskIO,DiskFileIO,DiskIOInit,ImageLoad,MemoryHardFaults,NetworkTCPIP,Process,ProcessCounters,Profile,Thread"},
    {"ThreadTime", "Default,ContextSwitch,Dispatcher"},
    {"Verbose", "Default,ContextSwitch,Dispatcher,FileIO,FileIOInit,Memory,Registry,VirtualAlloc,VAMap"},
    {"OS", "AdvancedLocalProcedureCalls,DeferedProcedureCalls,Driver,Interrupt,SplitIO"},
    {"All", "Verbose,SystemCall,OS"},
    {"None", ""},
};

/* The events whose stacks PerfView walks when a keyword is on. */
static const struct stacks {
    const char *keyword, *classes;
} STACKS[] = {
    {"Profile", "PerfInfo/SampleProf"},
    {"PMCProfile", "PerfInfo/PmcCounterProf"},
    {"SystemCall", "PerfInfo/SysClExit"},
    {"Thread", "Thread/Start"},
    {"ContextSwitch", "Thread/CSwitch"},
    {"ThreadPriority", "Thread/SetPriority,Thread/SetBasePriority"},
    {"Dispatcher", "Thread/ReadyThread"},
    {"Handle", "Object/CreateHandle,Object/CloseHandle,Object/DuplicateHandle"},
    {"ImageLoad", "Image/Load"},
    {"Process", "Process/Terminate"},
    {"DiskIOInit", "DiskIo/ReadInit,DiskIo/WriteInit,DiskIo/FlushInit"},
    {"VirtualAlloc", "PageFault/VirtualAlloc"},
    {"VAMap", "FileIo/MapFile"},
    {"MemoryHardFaults", "PageFault/HardFault"},
    {"Memory", "PageFault/TransitionFault,PageFault/DemandZeroFault,PageFault/CopyOnWrite,PageFault/"
               "GuardPageFault,PageFault/HardPageFault,PageFault/AccessViolation"},
    {"FileIOInit", "FileIo/Create,FileIo/Cleanup,FileIo/Close,FileIo/Read,FileIo/Write,FileIo/SetInfo,FileIo/"
                   "Delete,FileIo/Rename,FileIo/QueryInfo,FileIo/FSControl,FileIo/DirEnum,FileIo/DirNotify"},
    {"Registry", "Registry/Create,Registry/Open,Registry/Delete,Registry/Query,Registry/SetValue,Registry/"
                 "DeleteValue,Registry/QueryValue,Registry/EnumerateKey,Registry/EnumerateValueKey,Registry/"
                 "QueryMultipleValue,Registry/SetInformation,Registry/Flush"},
};

/* ClrTraceEventParser.Keywords */
static const struct keyword {
    const char *name;
    uint64_t mask;
} CLR[] = {
    {"None", 0},
    {"GC", 0x1},
    {"GCHandle", 0x2},
    {"Binder", 0x4},
    {"Loader", 0x8},
    {"Jit", 0x10},
    {"NGen", 0x20},
    {"StartEnumeration", 0x40},
    {"StopEnumeration", 0x80},
    {"Security", 0x400},
    {"AppDomainResourceManagement", 0x800},
    {"JitTracing", 0x1000},
    {"Interop", 0x2000},
    {"Contention", 0x4000},
    {"Exception", 0x8000},
    {"Threading", 0x10000},
    {"JittedMethodILToNativeMap", 0x20000},
    {"OverrideAndSuppressNGenEvents", 0x40000},
    {"SupressNGen", 0x40000},
    {"Type", 0x80000},
    {"GCHeapDump", 0x100000},
    {"GCSampledObjectAllocationHigh", 0x200000},
    {"GCHeapSurvivalAndMovement", 0x400000},
    {"GCHeapCollect", 0x800000},
    {"GCHeapAndTypeNames", 0x1000000},
    {"GCSampledObjectAllocationLow", 0x2000000},
    {"GCAllObjectAllocation", 0x2200000},
    {"PerfTrack", 0x20000000},
    {"Stack", 0x40000000},
    {"ThreadTransfer", 0x80000000},
    {"Debugger", 0x100000000},
    {"Monitoring", 0x200000000},
    {"Codesymbols", 0x400000000},
    {"Compilation", 0x1000000000},
    {"CompilationDiagnostic", 0x2000000000},
    {"MethodDiagnostic", 0x4000000000},
    {"TypeDiagnostic", 0x8000000000},
    {"WaitHandle", 0x40000000000},
    {"AllocationSampling", 0x80000000000},
    {"JITSymbols", 0x60098},
    {"GCHeapSnapshot", 0x1980001},
    {"Default", 0x14c14fccbd},
    {"All", UINT64_C(0xffffffffffffffbf)},
};

static int kernel_keywords(reading *r, ea_session_config *s, const char *list, unsigned depth, ea_err *err);

static int kernel_keyword(reading *r, ea_session_config *s, const char *word, size_t n, unsigned depth, ea_err *err) {
    int rc = 0, found = 0;
    for (size_t i = 0; i < sizeof KERNEL_SETS / sizeof *KERNEL_SETS; i++)
        if (ea_kernel_name_is(KERNEL_SETS[i].name, word, n))
            return kernel_keywords(r, s, KERNEL_SETS[i].members, depth + 1, err);
    if (ea_kernel_name_is("DiskIO", word, n)) { /* its flag is listed with the names of files */
        rc = ea_import_flag(r->im, s, "DISK_IO", 7, err);
        found = 1;
    }
    for (const ea_kernel_flag *f = ea_kernel_flags; !rc && f->name; f++)
        if (ea_kernel_name_is(f->perfview, word, n)) {
            rc = ea_import_flag(r->im, s, f->name, strlen(f->name), err);
            found = 1;
        }
    for (size_t i = 0; !rc && i < sizeof STACKS / sizeof *STACKS; i++)
        for (const char *p = ea_kernel_name_is(STACKS[i].keyword, word, n) ? STACKS[i].classes : ""; !rc && *p;) {
            size_t m = strcspn(p, ",");
            rc = ea_import_add(r->im, &s->stacks, p, m, err);
            p += m + (p[m] == ',');
        }
    if (!rc && !found)
        ea_import_note(r->im, "the kernel keyword '%.*s' has no counterpart", (int)(n < 60 ? n : 60), word);
    return rc;
}

static int kernel_keywords(reading *r, ea_session_config *s, const char *list, unsigned depth, ea_err *err) {
    int rc = 0;
    for (const char *p = list; !rc && depth < 8 && *p;) {
        size_t n = strcspn(p, ",+| ");
        if (n)
            rc = kernel_keyword(r, s, p, n, depth, err);
        p += n + (p[n] != 0);
    }
    return rc;
}

/* "GC,Jit", "GC|Jit", "0x8098": the .NET runtime's keywords as a mask. */
static int clr_mask(const char *list, uint64_t *ret, ea_err *err) {
    uint64_t mask = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",+| "), i = 0;
        const size_t rows = sizeof CLR / sizeof *CLR;
        char word[64];
        uint64_t number;
        snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), p);
        while (n && i < rows && !ea_kernel_name_is(CLR[i].name, p, n))
            i++;
        if (n && i < rows)
            mask |= CLR[i].mask;
        else if (n && ea_u64_parse(word, &number) == 0)
            mask |= number;
        else if (n)
            return ea_fail(err, EA_EUSAGE, "the .NET runtime has no keyword '%s'", word);
        p += n + (p[n] != 0);
    }
    *ret = mask;
    return 0;
}

static int hex_keywords(ea_import *im, ea_provider_config *p, uint64_t mask, ea_err *err) {
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, mask);
    p->any = ea_import_text(im, text, strlen(text));
    return p->any ? 0 : ea_fail(err, EA_ENOMEM, "import");
}

/* "StacksEnabled=true", "EventIDsToEnable=1 2 3" ... of a provider. */
static int provider_option(ea_import *im, ea_provider_config *p, const char *w, size_t n, ea_err *err) {
    const char *equals = memchr(w, '=', n);
    size_t key = equals ? (size_t)(equals - w) : n, len = equals ? n - key - 1 : 0;
    const char *value = equals ? equals + 1 : w + n;
    ea_strings *list = NULL;
    int rc = 0;
    if (key && *w == '@') {
        w++;
        key--;
    }
    if (!key)
        return 0;
    if (ea_kernel_name_is("StacksEnabled", w, key) || ea_kernel_name_is("Stack", w, key)) {
        p->stacks = !ea_kernel_name_is("false", value, len);
        return 0;
    }
    if (ea_kernel_name_is("EventIDsToEnable", w, key))
        list = &p->event_ids;
    else if (ea_kernel_name_is("EventIDsToDisable", w, key))
        list = &p->exclude_event_ids;
    else if (ea_kernel_name_is("EventIDStacksToEnable", w, key))
        list = &p->stack_event_ids;
    else if (ea_kernel_name_is("ProcessIDFilter", w, key))
        list = &p->pids;
    else if (ea_kernel_name_is("ProcessNameFilter", w, key))
        list = &p->executables;
    else
        ea_import_note(im, "%s: the option %.*s has no counterpart", p->provider, (int)(key < 60 ? key : 60), w);
    for (size_t i = 0; list && !rc && i < len;) {
        size_t m = 0;
        while (i + m < len && !strchr(" ,", value[i + m]))
            m++;
        if (m)
            rc = ea_import_add(im, list, value + i, m, err);
        i += m + 1;
    }
    return rc;
}

static int perfview_provider(ea_import *im, ea_session_config *s, const char *w, size_t n, ea_err *err) {
    const char *part[4] = {w, "", "", ""};
    size_t len[4] = {0}, k = 0;
    for (size_t i = 0; i < n; i++) {
        if (w[i] == ':' && k < 3) {
            part[++k] = w + i + 1;
            continue;
        }
        len[k]++;
    }
    if (!len[0])
        return ea_fail(err, EA_EUSAGE, "a provider's name is missing in '%.*s'", (int)(n < 60 ? n : 60), w);
    int clr = ea_kernel_name_is(".NET", part[0], len[0]) || ea_kernel_name_is("Clr", part[0], len[0]) ||
              ea_kernel_name_is("Microsoft-Windows-DotNETRuntime", part[0], len[0]);
    ea_provider_config *p = clr ? ea_import_provider(im, s, "Microsoft-Windows-DotNETRuntime", 31)
                                : ea_import_provider(im, s, part[0], len[0]);
    if (!p)
        return ea_fail(err, EA_ELIMIT, "more than %d providers", EA_PROVIDERS_MAX);
    uint64_t mask = 0;
    int names = 0, rc = 0;
    const char *keywords = len[1] ? ea_import_text(im, part[1], len[1]) : NULL;
    if (keywords && clr) {
        if (!(rc = clr_mask(keywords, &mask, err)))
            rc = hex_keywords(im, p, mask, err);
    } else if (keywords && !(len[1] == 1 && *keywords == '*')) {
        char *joined = ea_arena_strdup(&im->arena, keywords);
        for (char *c = joined; c && *c; c++)
            if (*c == '|')
                *c = '+';
        if (ea_keywords_parse(joined, &mask, &names) || (!names && !mask))
            joined = NULL; /* 0: all events */
        p->any = joined;
    }
    if (!rc && len[2]) {
        static const char *const LEVELS[][2] = {
            {"Always", "log-always"}, {"Critical", "critical"},         {"Error", "error"},
            {"Warning", "warning"},   {"Informational", "information"}, {"Verbose", "verbose"}};
        p->level = ea_import_text(im, part[2], len[2]);
        for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++)
            if (ea_kernel_name_is(LEVELS[i][0], part[2], len[2]))
                p->level = LEVELS[i][1];
        if (!p->level)
            rc = ea_fail(err, EA_ENOMEM, "import");
    }
    for (size_t i = 0; !rc && i < len[3];) {
        size_t m = 0;
        while (i + m < len[3] && part[3][i + m] != ';')
            m++;
        rc = provider_option(im, p, part[3] + i, m, err);
        i += m + 1;
    }
    return rc;
}

static int providers(ea_import *im, ea_session_config *s, const char *text, ea_err *err) {
    int rc = 0;
    for (const char *p = text; !rc && *p;) {
        size_t n = strcspn(p, ",");
        if (n)
            rc = perfview_provider(im, s, p, n, err);
        p += n + (p[n] == ',');
    }
    return rc;
}

int ea_import_perfview_providers(ea_import *im, const char *text, ea_err *err) {
    int rc = ea_import_check_text(text, err);
    if (rc)
        return rc;
    ea_session_config *s = ea_import_session(im, "perfview", 8, EA_SESSION_USER);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "import");
    rc = providers(im, s, text, err);
    if (!rc && !s->providers.count)
        return ea_fail(err, EA_EUSAGE, "expected Name:Keywords:Level, joined by commas");
    return rc ? rc : ea_import_check(im, err);
}

/* A qualifier "/Name=Value" or "/Name:Value"; *ret_value is "" without one. */
static int is_qualifier(const char *word, const char *name, const char **ret_value) {
    if (word[0] != '/' && word[0] != '-')
        return 0;
    size_t n = strcspn(word + 1, "=:");
    if (!ea_kernel_name_is(name, word + 1, n))
        return 0;
    *ret_value = word[1 + n] ? word + 2 + n : "";
    return 1;
}

static int qualifier(reading *r, const char *w, ea_strings *provider_texts, ea_err *err) {
    static const char *const PASSED_OVER[] = {"LogFile",
                                              "Merge",
                                              "Zip",
                                              "NoGui",
                                              "AcceptEULA",
                                              "NoView",
                                              "MaxCollectSec",
                                              "DataFile",
                                              "LowPriority",
                                              "NoNGenRundown",
                                              "NoClrRundown",
                                              "NoRundown",
                                              "RundownTimeout",
                                              "NoNGenPdbs",
                                              "Wpr",
                                              "CollectMultiple",
                                              "KeepAllEvents",
                                              "TrustPdbs",
                                              "StackCompression",
                                              "NoV2Rundown",
                                              "ForceNgenRundown",
                                              "DisableDotNetVersionLogging"};
    const char *value;
    uint64_t number;
    if (is_qualifier(w, "KernelEvents", &value))
        r->kernel = value;
    else if (is_qualifier(w, "ClrEvents", &value))
        r->clr = value;
    else if (is_qualifier(w, "ThreadTime", &value))
        r->thread_time = 1;
    else if (is_qualifier(w, "SessionName", &value))
        r->session = value;
    else if (is_qualifier(w, "Providers", &value))
        return ea_import_add(r->im, provider_texts, value, strlen(value), err);
    else if (is_qualifier(w, "OnlyProviders", &value)) {
        r->only = 1;
        return ea_import_add(r->im, provider_texts, value, strlen(value), err);
    } else if (is_qualifier(w, "BufferSizeMB", &value) || is_qualifier(w, "BufferSize", &value)) {
        if (ea_u64_parse(value, &r->buffer_mb) || r->buffer_mb < 1 || r->buffer_mb > 65536)
            return ea_fail(err, EA_EUSAGE, "%.60s: expected a size in MB", w);
    } else if (is_qualifier(w, "CircularMB", &value) || is_qualifier(w, "Circular", &value)) {
        if (ea_u64_parse(value, &r->circular_mb) || r->circular_mb > 1 << 20)
            return ea_fail(err, EA_EUSAGE, "%.60s: expected a size in MB", w);
    } else if (is_qualifier(w, "CpuSampleMSec", &value)) {
        /* a decimal fraction of a millisecond */
        const char *dot = strchr(value, '.');
        char whole[16];
        snprintf(whole, sizeof whole, "%.*s", (int)(dot ? (dot - value < 15 ? dot - value : 15) : 15), value);
        if (ea_u64_parse(*whole ? whole : "0", &number) || number > 1000)
            return ea_fail(err, EA_EUSAGE, "%.60s: expected milliseconds", w);
        r->interval_ns = (int64_t)number * 1000000;
        int64_t digit = 100000;
        for (const char *p = dot ? dot + 1 : ""; *p >= '0' && *p <= '9' && digit; p++, digit /= 10)
            r->interval_ns += (*p - '0') * digit;
        if (r->interval_ns < 122100 || r->interval_ns > 1000000000)
            return ea_fail(err, EA_EUSAGE, "%.60s: Windows samples each 0.1221 to 1000 ms", w);
    } else if (is_qualifier(w, "ClrEventLevel", &value)) {
        static const char *const NAMES[] = {"Always", "Critical", "Error", "Warning", "Informational", "Verbose"};
        size_t i = 0;
        while (i < 6 && !ea_import_is(value, NAMES[i]))
            i++;
        if (i == 6 && (ea_u64_parse(value, &number) || number > 255))
            return ea_fail(err, EA_EUSAGE, "%.60s: expected a level", w);
        r->clr_level = (uint8_t)(i < 6 ? i : number);
    } else {
        for (size_t i = 0; i < sizeof PASSED_OVER / sizeof *PASSED_OVER; i++)
            if (is_qualifier(w, PASSED_OVER[i], &value))
                return 0;
        ea_import_note(r->im, "%.60s has no counterpart", w);
    }
    return 0;
}

static void perfview_buffers(reading *r, ea_session_config *s) {
    if (r->buffer_mb) /* PerfView makes them 64 KiB each, half of them at the start */
        ea_import_buffers(r->im, s, 65536, r->buffer_mb * 8, r->buffer_mb * 16);
}

int ea_import_perfview(ea_import *im, const char *const *words, size_t count, ea_err *err) {
    reading r = {.im = im, .kernel = "Default", .clr = "Default", .clr_level = 5};
    ea_strings texts = {0};
    uint64_t mask = 0;
    int rc = 0, command = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        if (words[i][0] == '/' || words[i][0] == '-')
            rc = qualifier(&r, words[i], &texts, err);
        else if (!command && (ea_import_is(words[i], "collect") || ea_import_is(words[i], "start") ||
                              ea_import_is(words[i], "run")))
            command = 1;
        else if (!command)
            rc = ea_fail(err, EA_EUSAGE, "'%.60s': expected collect, start or run", words[i]);
        else /* a file's name, or a command to run */
            ea_import_note(im, "'%.60s' is left out: events are shipped", words[i]);
    }
    if (rc)
        return rc;
    if (r.circular_mb)
        ea_import_note(im, "/CircularMB is left out: events are shipped, not kept in a file");
    if (!r.only && !ea_import_is(r.kernel, "None")) {
        ea_session_config *s = ea_import_session(im, "kernel", 6, EA_SESSION_SYSTEM);
        if (!s)
            return ea_fail(err, EA_ENOMEM, "import");
        rc = kernel_keywords(&r, s, r.kernel, 0, err);
        if (!rc && r.thread_time)
            rc = kernel_keywords(&r, s, "ThreadTime", 0, err);
        s->profile_interval_ns = r.interval_ns;
        perfview_buffers(&r, s);
    }
    if (rc || (!texts.count && (r.only || ea_import_is(r.clr, "None"))))
        return rc || im->count ? rc : ea_fail(err, EA_EUSAGE, "nothing would be recorded");
    const char *name = r.session && *r.session ? r.session : "perfview";
    ea_session_config *s = ea_import_session(im, name, strlen(name), EA_SESSION_USER);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "import");
    perfview_buffers(&r, s);
    if (!r.only && !ea_import_is(r.clr, "None")) {
        ea_provider_config *p = ea_import_provider(im, s, "Microsoft-Windows-DotNETRuntime", 31);
        char level[8];
        snprintf(level, sizeof level, "%u", r.clr_level);
        rc = clr_mask(r.clr, &mask, err);
        if (!rc && p)
            rc = hex_keywords(im, p, mask, err);
        if (!rc && p && r.clr_level != 5)
            p->level = ea_import_text(im, level, strlen(level));
    }
    for (size_t i = 0; !rc && i < texts.count; i++)
        rc = providers(im, s, texts.items[i], err);
    return rc;
}
