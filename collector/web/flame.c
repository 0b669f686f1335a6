/* Profiles. See flame.h. */
#include "flame.h"

#include "clerk.h"
#include "platform.h"
#include "profile.h"
#include "profile_names.h"
#include "questions.h"

#include <string.h>

enum { HOSTS_MAX = 64, PIDS_MAX = 64, STACKS_MAX = 1 << 20 };

typedef struct patience {
    ec_call *call;
    int64_t deadline_ns;
    int is_late;
} patience;

static int goes_on(void *arg) {
    patience *p = arg;
    p->is_late |= ea_monotonic_ns() > p->deadline_ns;
    return !p->call->canceled && !p->is_late;
}

/* Who names places: started when there are some. */
typedef struct desk {
    ec_call *call;
    int64_t deadline_ns;
    ec_clerk *clerk;
} desk;

static int resolve(void *source, const ec_symbol_module *module, const uint32_t *rvas, size_t count, ec_symbol_fn fn,
                   void *arg, ea_err *err) {
    desk *d = source;
    int rc =
        d->clerk ? 0 : ec_clerk_start(&d->clerk, d->call->options->symbols, d->deadline_ns, &d->call->canceled, err);
    return rc ? rc : ec_clerk_resolve(d->clerk, module, rvas, count, fn, arg, err);
}

static int read_format(const ec_call *c, enum ec_profile_format *ret, ea_err *err) {
    static const char *const NAMES[] = {
#define X(id, name) name,
        EC_PROFILE_FORMATS(X)
#undef X
    };
    const char *text = ec_call_param(c, "format");
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strcmp(text ? text : "json", NAMES[i]) == 0) {
            *ret = (enum ec_profile_format)i;
            return 0;
        }
    return ea_fail(err, EA_EUSAGE, "format: json, folded, speedscope, pprof, chrome, firefox or top");
}

static void name_file(ec_call *c, enum ec_profile_format format) {
    static const struct {
        const char *type, *file;
    } KINDS[] = {[EC_PROFILE_JSON] = {NULL, NULL},
                 [EC_PROFILE_FOLDED] = {"text/plain; charset=utf-8", "profile.folded"},
                 [EC_PROFILE_SPEEDSCOPE] = {NULL, "profile.speedscope.json"},
                 [EC_PROFILE_PPROF] = {"application/octet-stream", "profile.pb.gz"},
                 [EC_PROFILE_CHROME] = {NULL, "profile.trace.json"},
                 [EC_PROFILE_FIREFOX] = {NULL, "profile.firefox.json"},
                 [EC_PROFILE_TOP] = {"text/plain; charset=utf-8", "profile.txt"}};
    c->type = KINDS[format].type;
    if (KINDS[format].file)
        snprintf(c->disposition, sizeof c->disposition, "attachment; filename=\"%s\"", KINDS[format].file);
}

static int read_lists(const ec_call *c, const char **hosts, uint32_t *pids, ec_profile_request *q, ea_err *err) {
    for (size_t i = 0; i < c->param_count; i++) {
        const char *name = c->params[i].name, *value = c->params[i].value;
        uint64_t pid = 0;
        if (!*value)
            continue;
        if (strcmp(name, "host") == 0) {
            if (q->host_count == HOSTS_MAX)
                return ea_fail(err, EA_EUSAGE, "host: at most %d", HOSTS_MAX);
            hosts[q->host_count++] = value;
        } else if (strcmp(name, "pid") == 0) {
            if (q->pid_count == PIDS_MAX || ea_u64_parse(value, &pid) || pid > UINT32_MAX)
                return ea_fail(err, EA_EUSAGE, "pid: a number is expected, at most %d of them", PIDS_MAX);
            pids[q->pid_count++] = (uint32_t)pid;
        }
    }
    return 0;
}

int ec_flame(ec_call *c, ea_err *err) {
    const char *hosts[HOSTS_MAX], *weight = ec_call_param(c, "weight");
    const char *names_wanted = ec_call_param(c, "names"), *other_from = ec_call_param(c, "other_from"),
               *other_to = ec_call_param(c, "other_to");
    uint32_t pids[PIDS_MAX];
    patience patient = {.call = c, .deadline_ns = ea_monotonic_ns() + c->options->limit_ns};
    enum ec_profile_format format = EC_PROFILE_JSON;
    ec_profile *p = NULL;
    ec_profile_request q = {.store = c->options->store,
                            .hosts = hosts,
                            .shown = ec_call_shown(c),
                            .pids = pids,
                            .has_other = (other_from && *other_from) || (other_to && *other_to),
                            .limit_stacks = STACKS_MAX,
                            .keep_going = goes_on,
                            .arg = &patient};
    desk symbols = {.call = c, .deadline_ns = patient.deadline_ns};
    ec_profile_names names = {.resolve = resolve, .source = &symbols};
    const ec_profile_namer namer = {.name = ec_profile_name_places, .arg = &names};
    if (c->options->symbols && strcmp(names_wanted ? names_wanted : "1", "0") != 0)
        q.namer = &namer;
    int rc = read_format(c, &format, err);
    if (!rc)
        rc = ec_weight_parse(weight && *weight ? weight : "samples", &q.weight, &q.counter, err);
    if (!rc)
        rc = read_lists(c, hosts, pids, &q, err);
    if (!rc)
        rc = ec_param_time(c, "from", INT64_MIN, &q.from_utc_ns, err);
    if (!rc)
        rc = ec_param_time(c, "to", INT64_MAX, &q.to_utc_ns, err);
    if (!rc)
        rc = ec_param_time(c, "other_from", INT64_MIN, &q.other_from_utc_ns, err);
    if (!rc)
        rc = ec_param_time(c, "other_to", INT64_MAX, &q.other_to_utc_ns, err);
    for (size_t i = 0; !rc && i < q.host_count; i++)
        rc = ec_call_may_see(c, hosts[i], err);
    if (!rc)
        rc = ec_profile_run(&p, &q, err);
    ec_clerk_end(symbols.clerk);
    if (rc == EA_ECANCELED && patient.is_late)
        rc = ea_fail(err, EA_ETIMEOUT, "the profile was not made within the time limit: ask about a shorter range");
    if (!rc)
        rc = ec_profile_write(p, format, &c->out, err);
    if (!rc)
        name_file(c, format);
    ec_profile_destroy(p);
    return rc;
}
