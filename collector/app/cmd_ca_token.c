/* etwcollector ca token, tokens, revoke-token: who may enroll (run --enroll). Called by: main.c. Calls: collector/ca.
 * Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/ca/enroll_tokens.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *dir, *name;
    int64_t expires_ns, life_ns;
    uint64_t uses;
    int json;
} options;

static const int64_t SECOND_NS = 1000000000;

static int ca_token_finish(int rc, const ea_err *err) {
    if (rc)
        ea_err_print(stderr, "etwcollector", err);
    return ea_exit_code(rc);
}

static int ca_token_add(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    char token[EC_SECRET_BYTES], path[1040];
    ec_enroll_token g = {
        .expires_s = (ea_utc_ns() + o->expires_ns) / SECOND_NS, .life_s = o->life_ns / SECOND_NS, .uses_left = o->uses};
    (void)operand_count, (void)operands;
    snprintf(path, sizeof path, "%.1000s/ca.crt", o->dir);
    int rc = ea_path_exists(path)
                 ? 0
                 : ea_fail(&err, EA_ENOTFOUND, "there is no CA in %s; 'etwcollector ca init --dir %s' makes one",
                           o->dir, o->dir);
    if (!rc && strlen(o->name) >= sizeof g.names)
        rc = ea_fail(&err, EA_EUSAGE, "--name: at most %d characters", EC_ENROLL_TOKEN_NAMES_BYTES - 1);
    if (!rc) {
        snprintf(g.names, sizeof g.names, "%s", o->name);
        rc = ec_enroll_tokens_add(o->dir, &g, token, &err);
    }
    if (!rc && (printf("%s\n", token) < 0 || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    return ca_token_finish(rc, &err);
}

static int ca_token_revoke(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    (void)operand_count;
    return ca_token_finish(ec_enroll_tokens_revoke(o->dir, operands[0], &err), &err);
}

/* Names are of letters, digits and . _ - * , alone (enroll_tokens.h). */
static void put_enroll_token(const ec_enroll_token *g, int json, ea_text *t) {
    int expired = g->expires_s <= ea_utc_ns() / SECOND_NS;
    if (json) {
        ea_text_printf(t,
                       "{\"id\": \"%s\", \"names\": \"%s\", \"uses_left\": %" PRIu64 ", \"life_seconds\": %" PRId64
                       ", \"expired\": %s, \"expires\": \"",
                       g->secret.id, g->names, g->uses_left, g->life_s, expired ? "true" : "false");
        ea_text_utc_ns(t, g->expires_s * SECOND_NS);
        ea_text_str(t, "\", \"created\": \"");
        ea_text_utc_ns(t, g->created_s * SECOND_NS);
        ea_text_str(t, "\"}");
    } else {
        ea_text_printf(t, "%s  %" PRIu64 " uses left, names %s, %s ", g->secret.id, g->uses_left, g->names,
                       expired ? "expired" : "until");
        ea_text_utc_ns(t, g->expires_s * SECOND_NS);
        ea_text_char(t, '\n');
    }
}

static int ca_token_list(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ec_enroll_token *grants = NULL;
    size_t count = 0;
    ea_text t;
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = ec_enroll_tokens_read(o->dir, &grants, &count, &err);
    if (!rc && o->json)
        ea_text_str(&t, "{\"tokens\": [");
    for (size_t i = 0; !rc && i < count; i++) {
        ea_text_str(&t, i && o->json ? ", " : "");
        put_enroll_token(&grants[i], o->json, &t);
    }
    if (!rc && o->json)
        ea_text_str(&t, "]}\n");
    if (!rc && t.failed)
        rc = ea_fail(&err, EA_ENOMEM, "list the tokens");
    if (!rc && t.len_bytes && (fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    free(grants);
    ea_text_deinit(&t);
    return ca_token_finish(rc, &err);
}

#define CA_FOLDER                                                                                                      \
    {                                                                                                                  \
        .name = "dir", .letter = 'd', .argument = "DIR", .type = EA_OPT_STRING, .offset = offsetof(options, dir),      \
        .required = 1, .help = "folder of the CA"                                                                      \
    }

static const ea_option ADD_OPTIONS[] = {
    CA_FOLDER,
    {.name = "name",
     .argument = "NAMES",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, name),
     .required = 1,
     .help = "whom it is for: one agent's name, which its certificate gets; or names with * in them, separated by "
             "commas, of which an agent chooses a free one"},
    {.name = "uses",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, uses),
     .fallback = "1",
     .min = 1,
     .max = EC_ENROLL_TOKEN_USES_MAX,
     .help = "how many certificates it is good for"},
    {.name = "expires",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, expires_ns),
     .fallback = "1d",
     .min = INT64_C(1000000000),
     .max = INT64_C(366) * 86400 * 1000000000,
     .help = "how long the token is valid, from now on"},
    {.name = "life",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, life_ns),
     .fallback = "397d",
     .min = INT64_C(10000000000),
     .max = INT64_C(36500) * 86400 * 1000000000,
     .help = "how long its certificates are valid, at the most as long as the CA; agents renew them"},
    {.name = NULL},
};
static const ea_option LIST_OPTIONS[] = {
    CA_FOLDER,
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};
static const ea_option REVOKE_OPTIONS[] = {CA_FOLDER, {.name = NULL}};

const ea_command ec_cmd_ca_token = {
    .name = "ca token",
    .operands = "",
    .summary = "Make a token with which agents get their certificates, and print it once",
    .details =
        "The CA keeps its hash alone. An agent sends it with a key of its own to a collector that runs with --enroll,\n"
        "and gets a certificate: \"etwagent enroll\", or TOKEN of the Windows installer. A name that a valid "
        "certificate\n"
        "has is given to no other machine before \"ca revoke\".\n\n"
        "  etwcollector ca token --dir certs --name machine-1\n"
        "  etwcollector ca token --dir certs --name 'shop-*' --uses 500 --expires 7d",
    .options = ADD_OPTIONS,
    .options_size = sizeof(options),
    .run = ca_token_add,
};
const ea_command ec_cmd_ca_tokens = {
    .name = "ca tokens",
    .operands = "",
    .summary = "List the enrolment tokens: id, uses left, names, end",
    .options = LIST_OPTIONS,
    .options_size = sizeof(options),
    .run = ca_token_list,
};
const ea_command ec_cmd_ca_revoke_token = {
    .name = "ca revoke-token",
    .operands = "ID",
    .summary = "Revoke an enrolment token; certificates that it was used for stay valid",
    .options = REVOKE_OPTIONS,
    .options_size = sizeof(options),
    .run = ca_token_revoke,
    .min_operands = 1,
    .max_operands = 1,
};
