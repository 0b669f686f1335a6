/* etwcollector token add, list, revoke: who may read over the network (run --web-tokens). Called by: main.c. Calls:
 * collector/access. Thread: the main one. */
#include "collector/access/api_tokens.h"
#include "collector/access/audit.h"
#include "collector/app/collector_commands.h"
#include "collector/app/confined_task.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *store, *name, *hosts;
    int scope; /* index into SCOPES */
    int json;
    int64_t life_ns;
} options;

static const char *const SCOPES[] = {"metrics", "read", "respond", "operate", "admin", NULL};
static const int64_t S_NS = INT64_C(1000000000);

/* Adds a change of tokens to the audit log, which also has the requests that were made with the tokens. */
static int audit(const char *store, const char *name, const char *note, ea_err *err) {
    ec_audit *a = NULL;
    int rc = ec_audit_open(&a, store, &(ec_audit_options){.max_bytes = UINT64_MAX}, err);
    if (!rc)
        ec_audit_add(a, &(ec_audited){.token = name, .note = note});
    ec_audit_close(a);
    return rc;
}

static int token_finish(int rc, const ea_err *err) {
    if (rc)
        ea_err_print(stderr, "etwcollector", err);
    return ea_exit_code(rc);
}

/* One of the commands, and its operand. */
typedef struct token_task {
    const options *o;
    const char *which;
} token_task;

/* Other users of the store's folder may have written what is read. */
static int token_confine(int (*run)(void *arg), const options *o, const char *which) {
    token_task t = {.o = o, .which = which};
    EA_IGNORE(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL)); /* its files are out of reach then */
    return ec_task_run(&(ec_task){.run = run, .arg = &t, .folders = {o->store}});
}

static int token_add_confined(void *arg) {
    const options *o = ((const token_task *)arg)->o;
    ea_err err = {0};
    char token[EC_SECRET_BYTES];
    int rc = ec_api_tokens_add(o->store, o->name, (enum ec_scope)(EC_SCOPE_METRICS + o->scope),
                               o->hosts ? o->hosts : "", o->life_ns / S_NS, token, &err);
    if (!rc)
        rc = audit(o->store, o->name, "token added", &err);
    if (!rc && (printf("%s\n", token) < 0 || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    return token_finish(rc, &err);
}

static int token_revoke_confined(void *arg) {
    const token_task *t = arg;
    ea_err err = {0};
    int rc = ec_api_tokens_revoke(t->o->store, t->which, &err);
    if (!rc)
        rc = audit(t->o->store, t->which, "token revoked", &err);
    return token_finish(rc, &err);
}

static int token_list_confined(void *arg) {
    const options *o = ((const token_task *)arg)->o;
    ea_err err = {0};
    ec_token *tokens = NULL;
    size_t count = 0;
    ea_text t;
    ea_text_init(&t);
    int rc = ec_api_tokens_read(o->store, &tokens, &count, &err);
    if (!rc && o->json)
        ea_text_str(&t, "{\"tokens\": [");
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_token *k = &tokens[i];
        /* names and hosts are of letters, digits and . _ - * , alone (api_tokens.h) */
        if (o->json)
            ea_text_printf(&t,
                           "%s{\"id\": \"%s\", \"name\": \"%s\", \"scope\": \"%s\", \"hosts\": \"%s\", \"created\": \"",
                           i ? ", " : "", k->secret.id, k->name, ec_scope_name(k->scope), k->hosts);
        else
            ea_text_printf(&t, "%s  %-7s  %s%s%s, since ", k->secret.id, ec_scope_name(k->scope), k->name,
                           *k->hosts ? ", hosts " : "", k->hosts);
        ea_text_utc_ns(&t, k->created_s * S_NS);
        if (o->json)
            ea_text_str(&t, k->expires_s ? "\", \"expires\": \"" : "\", \"expires\": null}");
        else if (k->expires_s)
            ea_text_str(&t, ec_token_is_expired(k, ea_utc_ns() / S_NS) ? ", expired " : ", expires ");
        if (k->expires_s)
            ea_text_utc_ns(&t, k->expires_s * S_NS);
        if (!o->json)
            ea_text_char(&t, '\n');
        else if (k->expires_s)
            ea_text_str(&t, "\"}");
    }
    if (!rc && o->json)
        ea_text_str(&t, "]}\n");
    if (!rc && t.failed)
        rc = ea_fail(&err, EA_ENOMEM, "list the tokens");
    if (!rc && t.len_bytes && (fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    free(tokens);
    ea_text_deinit(&t);
    return token_finish(rc, &err);
}

static int token_add(const void *arg, int operand_count, char **operands) {
    (void)operand_count, (void)operands;
    return token_confine(token_add_confined, arg, NULL);
}

static int token_revoke(const void *arg, int operand_count, char **operands) {
    (void)operand_count;
    return token_confine(token_revoke_confined, arg, operands[0]);
}

static int token_list(const void *arg, int operand_count, char **operands) {
    (void)operand_count, (void)operands;
    return token_confine(token_list_confined, arg, NULL);
}

static const ea_option ADD_OPTIONS[] = {
    EC_STORE_OPTION(options, store),
    {.name = "name",
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, name),
     .required = 1,
     .help = "whose it is: letters, digits and . _ -"},
    {.name = "scope",
     .argument = "SCOPE",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, scope),
     .fallback = "read",
     .choices = SCOPES,
     .help = "what it is good for: /metrics; also the dashboard and the API; also setting the state of detections; "
             "also handing in signed requests; also the list of tokens"},
    {.name = "hosts",
     .argument = "NAMES",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, hosts),
     .help = "read these hosts alone: names with * in them, separated by commas"},
    {.name = "expires",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, life_ns),
     .min = INT64_C(1000000000),
     .max = INT64_C(36500) * 86400 * 1000000000,
     .help = "refuse it after this time from now on, in whole seconds; without it the token lasts until it is revoked"},
    {.name = NULL},
};
static const ea_option LIST_OPTIONS[] = {
    EC_STORE_OPTION(options, store),
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};
static const ea_option REVOKE_OPTIONS[] = {EC_STORE_OPTION(options, store), {.name = NULL}};

const ea_command ec_cmd_token_add = {
    .name = "token add",
    .operands = "",
    .summary = "Make a token for a reader over the network, and print it once",
    .details =
        "The store keeps its hash alone. A running collector accepts it immediately. Programs send it as\n"
        "\"Authorization: Bearer TOKEN\"; a browser asks for a password, which is the token, whatever the name.\n"
        "A token with --hosts reads what names one of them: /api/v1/hosts/HOST/..., or host=HOST.",
    .options = ADD_OPTIONS,
    .options_size = sizeof(options),
    .run = token_add,
};
const ea_command ec_cmd_token_list = {
    .name = "token list",
    .operands = "",
    .summary = "List the tokens: id, scope, name, hosts, times at which they were made and expire",
    .options = LIST_OPTIONS,
    .options_size = sizeof(options),
    .run = token_list,
};
const ea_command ec_cmd_token_revoke = {
    .name = "token revoke",
    .operands = "TOKEN",
    .summary = "Revoke a token, by its id or name; a collector that runs refuses it from the next request on",
    .options = REVOKE_OPTIONS,
    .options_size = sizeof(options),
    .run = token_revoke,
    .min_operands = 1,
    .max_operands = 1,
};
