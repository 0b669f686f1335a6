/* Profiles. See flame.h. */
#include "collector/web/flame.h"

#include "collector/query/export/profile_write.h"
#include "collector/web/profile_worker.h"
#include "collector/web/questions.h"

#include <string.h>

enum { TEXTS_MAX = 64, PIDS_MAX = 64, STACKS_MAX = 1 << 20, UNSENT_BYTES = 1 << 20 };

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

static void flame_name_file(ec_call *c, enum ec_profile_format format) {
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

/* Parameters that may be repeated, of both sides. */
typedef struct lists {
    const char *texts[4][TEXTS_MAX];
    uint32_t pids[PIDS_MAX];
} lists;

static int read_lists(const ec_call *c, lists *l, ec_profile_request *q, ea_err *err) {
    static const char *const NAMES[] = {"host", "label", "other_host", "other_label"};
    size_t *const counts[] = {&q->side[0].host_count, &q->side[0].label_count, &q->side[1].host_count,
                              &q->side[1].label_count};
    uint32_t *pids = l->pids;
    for (size_t i = 0; i < c->param_count; i++) {
        const char *name = c->params[i].name, *value = c->params[i].value;
        uint64_t pid = 0;
        size_t which = 0;
        if (!*value)
            continue;
        while (which < 4 && strcmp(name, NAMES[which]) != 0)
            which++;
        if (which < 4) {
            if (*counts[which] == TEXTS_MAX)
                return ea_fail(err, EA_EUSAGE, "%s: at most %d", name, TEXTS_MAX);
            l->texts[which][(*counts[which])++] = value;
        } else if (strcmp(name, "pid") == 0) {
            if (q->pid_count == PIDS_MAX || ea_u64_parse(value, &pid) || pid > UINT32_MAX)
                return ea_fail(err, EA_EUSAGE, "pid: a number is expected, at most %d of them", PIDS_MAX);
            pids[q->pid_count++] = (uint32_t)pid;
        }
    }
    return 0;
}

/* The answer while it comes. */
typedef struct pieces {
    ec_call *call;
    enum ec_profile_format format;
} pieces;

static int on_piece(void *arg, const void *data, size_t len_bytes, ea_err *err) {
    pieces *p = arg;
    flame_name_file(p->call, p->format); /* only now: an error is no file */
    ea_text_add(&p->call->out, data, len_bytes);
    if (p->call->out.failed)
        return ea_fail(err, EA_ENOMEM, "answer");
    return p->call->out.len_bytes < UNSENT_BYTES ? 0 : ec_call_flush(p->call, err);
}

int ec_flame(ec_call *c, ea_err *err) {
    int64_t processor_ns = 0;
    lists l;
    const char *weight = ec_call_param(c, "weight"), *other_weight = ec_call_param(c, "other_weight");
    const char *names_wanted = ec_call_param(c, "names"), *other_from = ec_call_param(c, "other_from"),
               *other_to = ec_call_param(c, "other_to");
    int is_wrong = names_wanted && *names_wanted && strcmp(names_wanted, "0") != 0 && strcmp(names_wanted, "1") != 0;
    pieces answer = {.call = c, .format = EC_PROFILE_JSON};
    ec_profile_request q = {
        .store = c->options->store,
        .side = {{.hosts = l.texts[0], .labels = l.texts[1]}, {.hosts = l.texts[2], .labels = l.texts[3]}},
        .shown = ec_call_shown(c),
        .pids = l.pids,
        .limit_stacks = STACKS_MAX};
    ec_profile_side *side = q.side, *other = &q.side[1];
    int has_range = (other_from && *other_from) || (other_to && *other_to), has_weight = other_weight && *other_weight;
    int has_names = strcmp(names_wanted ? names_wanted : "1", "0") != 0;
    int rc = is_wrong ? ea_fail(err, EA_EUSAGE, "names: 0 or 1 is expected") : read_format(c, &answer.format, err);
    if (!rc)
        rc = ec_weight_parse(weight && *weight ? weight : "samples", &side->weight, &side->counter, err);
    if (!rc && has_weight)
        rc = ec_weight_parse(other_weight, &other->weight, &other->counter, err);
    if (!rc)
        rc = read_lists(c, &l, &q, err);
    if (!rc)
        rc = ec_param_time(c, "from", INT64_MIN, &side->from_utc_ns, err);
    if (!rc)
        rc = ec_param_time(c, "to", INT64_MAX, &side->to_utc_ns, err);
    if (!rc)
        rc = ec_param_time(c, "other_from", INT64_MIN, &other->from_utc_ns, err);
    if (!rc)
        rc = ec_param_time(c, "other_to", INT64_MAX, &other->to_utc_ns, err);
    if (!rc)
        ec_profile_fill_other(&q, other->host_count || other->label_count, has_range, has_weight);
    for (int i = 0; i < (q.has_other ? 2 : 1); i++)
        for (size_t k = 0; !rc && k < q.side[i].host_count; k++)
            rc = ec_call_may_see(c, q.side[i].hosts[k], err);
    if (!rc)
        rc = ec_profile_check(&q, err);
    if (!rc)
        rc = ec_profile_ask(&(ec_profile_question){.request = &q,
                                                   .format = answer.format,
                                                   .symbols = has_names ? c->options->symbols : NULL,
                                                   .broker = c->options->broker,
                                                   .limit_ns = c->options->limit_ns,
                                                   .limit_bytes = c->options->limit_bytes,
                                                   .limit_temp_bytes = c->options->limit_temp_bytes,
                                                   .on_piece = on_piece,
                                                   .arg = &answer},
                            &c->canceled, &processor_ns, err);
    ec_call_charge(c, processor_ns);
    return rc;
}
