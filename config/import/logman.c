/* Import of logman's command lines. See import.h.
 *
 *     logman create|start|update [trace] NAME -p PROVIDER [FLAGS [LEVEL]] [options]
 *
 * FLAGS: a number, or (name,name). The session "NT Kernel Logger" and the provider "Windows Kernel Trace" mean the
 * kernel; their flags have names of logman's own. Sizes: -bs in KiB, -max in MB, -ft as hh:mm:ss or seconds. Source:
 * logman create trace /?, as published. */
#include "config/import/importer.h"

#include <inttypes.h>
#include <string.h>

static const char KERNEL_GUID[] = "9e814aad-3204-11d2-9a82-006008a86939";

static int is_kernel_provider(const char *w) {
    ea_guid given, kernel;
    return ea_import_is(w, "Windows Kernel Trace") ||
           (ea_guid_parse(w, &given) == 0 && ea_guid_parse(KERNEL_GUID, &kernel) == 0 &&
            memcmp(&given, &kernel, sizeof given) == 0);
}

/* Kernel flags by logman's names or EVENT_TRACE_FLAG_* bits. */
static int kernel_flags(ea_import *im, ea_session_config *s, const char *word, ea_err *err) {
    uint64_t bits;
    int rc = 0;
    if (ea_u64_parse(word, &bits) == 0) {
        /* the bits of the flags word are those of the first group mask, but for the few that moved to the second */
        static const struct {
            uint32_t bit;
            const char *flag;
        } MOVED[] = {{0x10, "CSWITCH"},     {0x20, "DPC"},          {0x40, "INTERRUPT"},   {0x80, "SYSCALL"},
                     {0x800, "DISPATCHER"}, {0x4000, "VIRT_ALLOC"}, {0x800000, "DRIVERS"}, {0x1000000, "PROFILE"}};

        for (size_t i = 0; !rc && i < sizeof MOVED / sizeof *MOVED; i++)
            if (bits & MOVED[i].bit) {
                rc = ea_import_add(im, &s->flags, MOVED[i].flag, strlen(MOVED[i].flag), err);
                bits &= ~(uint64_t)MOVED[i].bit;
            }
        for (const ea_kernel_flag *f = ea_kernel_flags; !rc && f->name; f++)
            if (ea_kernel_flag_word(f->mask) == 0 && (bits & f->mask) == f->mask) {
                rc = ea_import_add(im, &s->flags, f->name, strlen(f->name), err);
                bits &= ~(uint64_t)f->mask;
            }
        if (bits)
            ea_import_note(im, "kernel flags 0x%" PRIx64 " have no name here; they are left out", bits);
        return rc;
    }
    for (const char *p = word; !rc && *p;) {
        size_t n = strcspn(p, "(), ");
        const ea_kernel_flag *f = ea_kernel_flags;
        while (n && f->name && !ea_kernel_name_is(f->logman, p, n))
            f++;
        if (n && !f->name)
            return ea_fail(err, EA_EUSAGE, "logman has no kernel flag '%.*s'", (int)(n < 60 ? n : 60), p);
        if (n)
            rc = ea_import_add(im, &s->flags, f->name, strlen(f->name), err);
        p += n + (p[n] != 0);
    }
    return rc;
}

static int logman_is_option(const char *w) {
    return (w[0] == '-' || (w[0] == '/' && w[1] >= 'A')) && w[1];
}

/* "-p NAME (a,b) 5": how many of words belong to it. */
static int logman_provider(ea_import *im, ea_session_config *s, const char *const *words, size_t count,
                           size_t *ret_used, ea_err *err) {
    const char *flags = count > 1 && !logman_is_option(words[1]) ? words[1] : NULL;
    const char *level = flags && count > 2 && !logman_is_option(words[2]) ? words[2] : NULL;
    char joined[1024];
    size_t used = 1 + (flags != NULL) + (level != NULL);
    if (flags && flags[0] == '(' && !strchr(flags, ')')) { /* (process, thread): several words */
        size_t n = 0, i = 1;
        joined[0] = 0;
        do {
            n += (size_t)snprintf(joined + n, sizeof joined - n, "%s", words[i]);
        } while (n < sizeof joined && !strchr(words[i], ')') && ++i < count);
        flags = joined;
        level = i + 1 < count && !logman_is_option(words[i + 1]) ? words[i + 1] : NULL;
        used = (i < count ? i : count - 1) + 1 + (level != NULL);
    }
    *ret_used = used;
    if (is_kernel_provider(words[0])) {
        if (s->kind == EA_SESSION_USER)
            s->kind = EA_SESSION_SYSTEM;
        return flags ? kernel_flags(im, s, flags, err) : ea_import_flag(im, s, "PROC_THREAD", 11, err);
    }
    const char *name = words[0];
    size_t n = strlen(name);
    ea_provider_config *p = ea_import_provider(im, s, name, n);
    if (!p)
        return ea_fail(err, EA_ELIMIT, "more than %d providers in a session", EA_PROVIDERS_MAX);
    uint64_t number;
    if (flags && ea_u64_parse(flags, &number) == 0) {
        if (number)
            p->any = ea_import_text(im, flags, strlen(flags));
    } else if (flags) { /* (A,B): keywords by name */
        char *any = ea_arena_alloc(&im->arena, strlen(flags) + 1), *out = any;
        if (!any)
            return ea_fail(err, EA_ENOMEM, "import");
        for (const char *c = flags; *c; c++)
            if (*c == ',')
                *out++ = '+';
            else if (!strchr("() ", *c))
                *out++ = *c;
        *out = 0;
        p->any = *any ? any : NULL;
    }
    if (level && strncmp(level, "win:", 4) == 0) {
        static const char *const NAMES[][2] = {
            {"win:LogAlways", "log-always"}, {"win:Critical", "critical"},         {"win:Error", "error"},
            {"win:Warning", "warning"},      {"win:Informational", "information"}, {"win:Verbose", "verbose"}};
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
            if (ea_import_is(level, NAMES[i][0]))
                p->level = NAMES[i][1];
    } else if (level) {
        p->level = ea_import_text(im, level, strlen(level));
    }
    return (flags && !p->any && ea_u64_parse(flags, &number) == 0 && number) || !p->level
               ? ea_fail(err, EA_ENOMEM, "import")
               : 0;
}

/* "90" or "00:01:30". */
static int seconds(const char *w, uint64_t *ret) {
    uint64_t total = 0, part = 0;
    for (; *w; w++) {
        if (*w == ':') {
            total = (total + part) * 60;
            part = 0;
        } else if (*w >= '0' && *w <= '9' && part < 1000000) {
            part = part * 10 + (uint64_t)(*w - '0');
        } else {
            return EA_EINVAL;
        }
    }
    *ret = total + part;
    return 0;
}

int ea_import_logman(ea_import *im, const char *const *words, size_t count, ea_err *err) {
    uint64_t buffer_kib = 0, min = 0, max = 0, v = 0;
    size_t i = 0;
    int rc = 0;
    if (i < count &&
        (ea_import_is(words[i], "create") || ea_import_is(words[i], "start") || ea_import_is(words[i], "update")))
        i++;
    else
        return ea_fail(err, EA_EUSAGE, "expected logman create, start or update");
    if (i < count && ea_import_is(words[i], "trace"))
        i++;
    if (i < count && (ea_import_is(words[i], "-n") || ea_import_is(words[i], "/n")))
        i++;
    if (i == count || logman_is_option(words[i]))
        return ea_fail(err, EA_EUSAGE, "expected the session's name after %s", words[i - 1]);
    int logger = ea_import_is(words[i], "NT Kernel Logger");
    ea_session_config *s = ea_import_session(im, logger ? "kernel" : words[i], logger ? 6 : strlen(words[i]),
                                             logger ? EA_SESSION_KERNEL_LOGGER : EA_SESSION_USER);
    if (!s)
        return ea_fail(err, EA_ELIMIT, "more than %d sessions", EA_SESSIONS_MAX);
    for (i++; !rc && i < count; i++) {
        const char *w = words[i] + 1, *next = i + 1 < count && !logman_is_option(words[i + 1]) ? words[i + 1] : NULL;
        if (!logman_is_option(words[i]))
            return ea_fail(err, EA_EUSAGE, "'%.60s': expected an option", words[i]);
        if (ea_import_is(w, "p") && next) {
            size_t used;
            rc = logman_provider(im, s, words + i + 1, count - i - 1, &used, err);
            i += used;
            continue;
        }
        if (ea_import_is(w, "ets") || ea_import_is(w, "rt") || ea_import_is(w, "y") || ea_import_is(w, "ow") ||
            ea_import_is(w, "lowpriority"))
            continue;
        if (ea_import_is(w, "bs") && next) {
            if (ea_u64_parse(next, &buffer_kib) || buffer_kib > 1 << 20)
                return ea_fail(err, EA_EUSAGE, "-bs '%.40s': expected a size in KiB", next);
        } else if (ea_import_is(w, "nb") && next) {
            const char *second = i + 2 < count && !logman_is_option(words[i + 2]) ? words[i + 2] : NULL;
            if (ea_u64_parse(next, &min) || (second && ea_u64_parse(second, &max)))
                return ea_fail(err, EA_EUSAGE, "-nb '%.40s': expected the least and the highest number of buffers",
                               next);
            i += second != NULL;
        } else if (ea_import_is(w, "ft") && next) {
            if (seconds(next, &v) || v > 3600)
                return ea_fail(err, EA_EUSAGE, "-ft '%.40s': expected seconds or hh:mm:ss, at most an hour", next);
            if (v)
                s->flush_ns = (int64_t)v * 1000000000;
        } else if (ea_import_is(w, "ct") && next) {
            s->clock = ea_import_is(next, "system")  ? EA_SESSION_SYSTEM_TIME
                       : ea_import_is(next, "cycle") ? EA_SESSION_CPU_CYCLE
                                                     : EA_SESSION_QPC;
        } else if (ea_import_is(w, "o") && next) {
            s->file = ea_import_text(im, next, strlen(next));
            s->output = EA_OUTPUT_BOTH;
        } else if (ea_import_is(w, "max") && next) {
            if (ea_u64_parse(next, &v) || !v || v > 1 << 20)
                return ea_fail(err, EA_EUSAGE, "-max '%.40s': expected a size in MB", next);
            s->file_bytes = v << 20;
        } else if ((ea_import_is(w, "f") || ea_import_is(w, "mode")) && next) {
            if (ea_import_is(next, "bincirc") || strstr(next, "circular"))
                s->circular = 1;
        } else if (ea_import_is(w, "pf") && next) {
            ea_import_note(im, "the providers of -pf %.200s are in a file; add them under providers", next);
        } else {
            ea_import_note(im, "-%.60s has no counterpart", w);
        }
        i += next != NULL;
    }
    if (rc)
        return rc;
    if (s->output != EA_OUTPUT_REALTIME && !s->file)
        return ea_fail(err, EA_ENOMEM, "import");
    if (!s->file)
        s->file_bytes = 0;
    if (s->circular && (!s->file_bytes || !s->file)) {
        ea_import_note(im, "circular without -o and -max: one growing file");
        s->circular = 0;
    }
    ea_import_buffers(im, s, buffer_kib * 1024, min, max);
    if (s->kind == EA_SESSION_KERNEL_LOGGER && !s->flags.count)
        rc = ea_import_flag(im, s, "PROC_THREAD", 11, err);
    if (!rc && !s->flags.count && !s->providers.count)
        return ea_fail(err, EA_EUSAGE, "expected -p with a provider");
    return rc;
}
