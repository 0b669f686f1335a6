/* Import of xperf's command lines. See import.h.
 *
 *     xperf -on FLAG+GROUP+... [options] [-start NAME -on PROVIDER+PROVIDER... [options]]...
 *
 * A provider is NAME|GUID[:KEYWORDS[:LEVEL[:'stack|ID,ID...']]]. Options without an effect on what is recorded (-d,
 * -stop, -merge ...) are passed over. Sizes: -BufferSize in KiB, -MaxFile in MB, -FlushTimer in seconds, -SetProfInt in
 * 100 ns. Source: xperf -help start, -help providers, -help stackwalk, as published. */
#include "config/import/importer.h"

#include <inttypes.h>
#include <string.h>

typedef struct reading {
    ea_import *im;
    ea_session_config *s;
    uint64_t buffer_bytes, min, max;
} reading;

static int xperf_provider(reading *r, const char *p, size_t n, ea_err *err) {
    const char *part[4] = {p, "", "", ""};
    size_t len[4] = {0}, k = 0, quoted = 0;
    for (size_t i = 0; i < n; i++) {
        quoted ^= p[i] == '\'';
        if (p[i] == ':' && !quoted && k < 3) {
            part[++k] = p + i + 1;
            continue;
        }
        len[k]++;
    }
    ea_provider_config *config = len[0] ? ea_import_provider(r->im, r->s, part[0], len[0]) : NULL;
    if (!len[0])
        return ea_fail(err, EA_EUSAGE, "-on: a provider's name is missing before '%.*s'", (int)(n < 60 ? n : 60), p);
    if (!config)
        return ea_fail(err, EA_ELIMIT, "more than %d providers in a session", EA_PROVIDERS_MAX);
    if (len[1] && *part[1] == '~') {
        ea_import_note(r->im, "%s: keywords %.*s became the keywords without ~", config->provider, (int)len[1],
                       part[1]);
        part[1]++;
        len[1]--;
    }
    if (len[1] && !(config->any = ea_import_text(r->im, part[1], len[1])))
        return ea_fail(err, EA_ENOMEM, "import");
    if (len[2] && !(config->level = ea_import_text(r->im, part[2], len[2])))
        return ea_fail(err, EA_ENOMEM, "import");
    while (len[3] && (*part[3] == '\'' || *part[3] == '"')) {
        part[3]++;
        len[3]--;
    }
    while (len[3] && (part[3][len[3] - 1] == '\'' || part[3][len[3] - 1] == '"'))
        len[3]--;
    int rc = 0;
    for (size_t i = 0; !rc && i < len[3];) {
        size_t m = 0;
        while (i + m < len[3] && !strchr("|,; ", part[3][i + m]))
            m++;
        if (ea_kernel_name_is("stack", part[3] + i, m))
            config->stacks = 1;
        else if (m && strspn(part[3] + i, "0123456789xXabcdefABCDEF") >= m)
            rc = ea_import_add(r->im, &config->event_ids, part[3] + i, m, err);
        else if (m)
            ea_import_note(r->im, "%s: '%.*s' has no counterpart", config->provider, (int)m, part[3] + i);
        i += m + 1;
    }
    return rc;
}

static int on(reading *r, const char *list, ea_err *err) {
    int rc = 0, quoted = 0;
    for (const char *p = list; !rc && *p;) {
        size_t n = 0;
        for (quoted = 0; p[n] && (quoted || p[n] != '+'); n++)
            quoted ^= p[n] == '\'';
        if (!n)
            return ea_fail(err, EA_EUSAGE, "-on '%.100s': a name is missing at a +", list);
        rc = r->s->kind == EA_SESSION_USER ? xperf_provider(r, p, n, err) : ea_import_flag(r->im, r->s, p, n, err);
        p += n + (p[n] == '+');
    }
    return rc;
}

static int stackwalk(reading *r, const char *list, ea_err *err) {
    int rc = 0;
    if (*list == '@') {
        ea_import_note(r->im, "the events of -stackwalk %s are in a file; add them under stacks", list);
        return 0;
    }
    for (const char *p = list; !rc && *p;) {
        size_t n = strcspn(p, "+");
        if (n)
            rc = ea_import_stack(r->im, r->s, p, n, 0, err);
        p += n + (p[n] == '+');
    }
    return rc;
}

static int words_of(ea_import *im, ea_strings *list, const char *word, const char *separators, ea_err *err) {
    int rc = 0;
    for (const char *p = word; !rc && *p;) {
        size_t n = strcspn(p, separators);
        if (n)
            rc = ea_import_add(im, list, p, n, err);
        p += n + (p[n] != 0);
    }
    return rc;
}

static int xperf_number(const char *option, const char *word, uint64_t low, uint64_t high, uint64_t *ret, ea_err *err) {
    uint64_t v;
    if (ea_u64_parse(word, &v) || v < low || v > high)
        return ea_fail(err, EA_EUSAGE, "%s '%.40s': expected %" PRIu64 " to %" PRIu64, option, word, low, high);
    *ret = v;
    return 0;
}

/* The session is complete: its buffers. */
static void xperf_finish(reading *r) {
    if (!r->s)
        return;
    ea_import_buffers(r->im, r->s, r->buffer_bytes, r->min, r->max);
    if (!r->s->file) {
        r->s->output = EA_OUTPUT_REALTIME;
        r->s->file_bytes = 0;
    }
    if (r->s->circular && !r->s->file_bytes)
        r->s->circular = 0;
    r->buffer_bytes = r->min = r->max = 0;
}

static int xperf_begin(reading *r, const char *name, int kind, ea_err *err) {
    xperf_finish(r);
    r->s = ea_import_session(r->im, name, strlen(name), kind);
    return r->s ? 0 : ea_fail(err, EA_ELIMIT, "more than %d sessions", EA_SESSIONS_MAX);
}

enum { NO_VALUE = 0, VALUE = 1, MAYBE = 2 };

static const struct known {
    const char *name;
    int takes; /* a value */
    const char *note;
} PASSED_OVER[] = {
    {"-d", MAYBE, NULL},
    {"-stop", MAYBE, NULL},
    {"-merge", MAYBE, NULL},
    {"-compress", NO_VALUE, NULL},
    {"-flush", MAYBE, NULL},
    {"-update", MAYBE, NULL},
    {"-setfs", NO_VALUE, NULL},
    {"-capturestate", MAYBE, "-capturestate is left out; a provider's option capture-state asks for its state"},
    {"-ff", VALUE, NULL},
    {"-InMemory", NO_VALUE, NULL},
    {"-Buffering", NO_VALUE, "-Buffering: events are shipped as they come, not kept in memory"},
    {"-LastBranch", VALUE, "-LastBranch has no counterpart"},
    {"-HeapSession", VALUE, NULL},
    {"-Pids", VALUE, "heap tracing by process (-heap -Pids) has no counterpart"},
    {"-PidNewProcess", VALUE, "heap tracing of a new process has no counterpart"},
    {"-heap", NO_VALUE, NULL},
    {"-StackCaching", MAYBE, "stack caching is not used: each stack is logged by itself"},
    {"-suppresslogoflost", NO_VALUE, NULL},
};

int ea_import_xperf(ea_import *im, const char *const *words, size_t count, ea_err *err) {
    reading r = {.im = im};
    uint64_t v = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        const char *w = words[i], *next = i + 1 < count && words[i + 1][0] != '-' ? words[i + 1] : NULL;
        int used = next != NULL;
        if (ea_import_is(w, "-on") || ea_import_is(w, "-start")) {
            if (!next)
                return ea_fail(err, EA_EUSAGE, "%s needs a name after it", w);
            if (ea_import_is(w, "-start"))
                rc = xperf_begin(&r, next, EA_SESSION_USER, err);
            else if (!r.s && !(rc = xperf_begin(&r, "kernel", EA_SESSION_SYSTEM, err)))
                rc = on(&r, next, err);
            else if (!rc)
                rc = on(&r, next, err);
        } else if (!r.s && (ea_import_is(w, "-stop") || ea_import_is(w, "-d"))) {
            ; /* ends a session that is not recorded here */
        } else if (!r.s) {
            return ea_fail(err, EA_EUSAGE, "%s: expected -on or -start first", w);
        } else if (ea_import_is(w, "-stackwalk") && next) {
            rc = stackwalk(&r, next, err);
        } else if (ea_import_is(w, "-BufferSize") && next) {
            rc = xperf_number(w, next, 1, 1 << 20, &v, err);
            r.buffer_bytes = v * 1024;
        } else if (ea_import_is(w, "-MinBuffers") && next) {
            rc = xperf_number(w, next, 1, 1 << 20, &r.min, err);
        } else if (ea_import_is(w, "-MaxBuffers") && next) {
            rc = xperf_number(w, next, 1, 1 << 20, &r.max, err);
        } else if (ea_import_is(w, "-MaxFile") && next) {
            rc = xperf_number(w, next, 1, 1 << 20, &v, err);
            r.s->file_bytes = v << 20;
        } else if (ea_import_is(w, "-FlushTimer") && next) {
            rc = xperf_number(w, next, 1, 3600, &v, err);
            r.s->flush_ns = (int64_t)v * 1000000000;
        } else if (ea_import_is(w, "-SetProfInt") && next) {
            rc = xperf_number(w, next, 1221, 10000000, &v, err);
            r.s->profile_interval_ns = (int64_t)v * 100;
        } else if (ea_import_is(w, "-f") && next) {
            r.s->file = ea_import_text(im, next, strlen(next));
            r.s->output = EA_OUTPUT_BOTH;
        } else if (ea_import_is(w, "-FileMode") && next) {
            r.s->circular = ea_import_is(next, "Circular");
            if (ea_import_is(next, "Newfile"))
                ea_import_note(im, "-FileMode Newfile has no counterpart: one file is written");
        } else if (ea_import_is(w, "-ClockType") && next) {
            r.s->clock = ea_import_is(next, "SystemTime") ? EA_SESSION_SYSTEM_TIME
                         : ea_import_is(next, "Cycle")    ? EA_SESSION_CPU_CYCLE
                                                          : EA_SESSION_QPC;
        } else if (ea_import_is(w, "-PoolTag") && next) {
            rc = words_of(im, &r.s->pool_tags, next, "+", err);
        } else if (ea_import_is(w, "-Pmc") && next) {
            rc = words_of(im, &r.s->pmc_counters, next, ",+", err);
            if (!rc && i + 2 < count && words[i + 2][0] != '-') {
                const char *events = words[i + 2];
                ea_session_config only = {0};
                for (const char *p = events; !rc && *p;) {
                    size_t n = strcspn(p, "+,");
                    if (n)
                        rc = ea_import_stack(im, &only, p, n, 0, err);
                    p += n + (p[n] != 0);
                }
                r.s->pmc_events = only.stacks;
                i++;
                if (i + 2 < count && ea_import_is(words[i + 2], "strict"))
                    i++;
            }
        } else if (ea_import_is(w, "-RealTime") || ea_import_is(w, "-rt")) {
            used = 0; /* what we do */
        } else {
            const struct known *k = PASSED_OVER, *end = k + sizeof PASSED_OVER / sizeof *PASSED_OVER;
            while (k < end && !ea_import_is(w, k->name))
                k++;
            if (k < end && k->note)
                ea_import_note(im, "%s", k->note);
            else if (k == end)
                ea_import_note(im, "%.60s has no counterpart", w);
            used = k < end ? k->takes != NO_VALUE && next : next != NULL;
        }
        i += (size_t)used;
    }
    if (rc)
        return rc;
    xperf_finish(&r);
    return im->count ? 0 : ea_fail(err, EA_EUSAGE, "expected -on with kernel flags, or -start NAME -on with providers");
}
