/* etwagent enroll: this machine's certificate, from a collector and a token. Called by: main.c. Calls:
 * service/ship/enroll_client.h. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "service/app/agent_commands.h"
#include "service/core/agent_config.h"
#include "service/ship/enroll_client.h"

#include <stddef.h>
#include <string.h>

typedef struct options {
    const char *collector, *ca, *token, *token_file, *cert, *key, *name, *proxy;
    int renew;
} options;

static int enroll_machine(const options *o, ea_err *err) {
    char token[EA_ENROLL_TOKEN_MAX] = "", name[EA_CERTIFICATE_NAME_BYTES];
    ea_certificate c;
    int installed = 0, rc = 0;
    if ((o->token != NULL) + (o->token_file != NULL) + o->renew != 1)
        return ea_fail(err, EA_EUSAGE, "one of --token, --token-file and --renew is needed");
    if (o->name && !ea_enroll_name_is_good(o->name))
        return ea_fail(err, EA_EUSAGE,
                       "--name '%.128s': expected 1 to 64 of letters, digits, . _ -, not beginning with . or -",
                       o->name);
    if (o->token && strlen(o->token) >= sizeof token)
        return ea_fail(err, EA_EUSAGE, "--token: this is no token");
    if (o->token_file)
        rc = ea_enroll_token_read(o->token_file, token, err);
    else if (o->token)
        memcpy(token, o->token, strlen(o->token) + 1);
    ea_enroll_name(o->name, name);
    if (!rc)
        rc = ea_enroll_install(o->cert, o->key, &installed, err); /* files of an earlier attempt */
    if (!rc)
        rc = ea_enroll_ask(&(ea_enroll_options){.url = o->collector,
                                                .ca = o->ca,
                                                .proxy = o->proxy,
                                                .cert = o->cert,
                                                .key = o->key,
                                                .token = o->renew ? NULL : token,
                                                .name = name,
                                                .stop = ea_stop_flag()},
                           err);
    if (!rc)
        rc = ea_enroll_install(o->cert, o->key, &installed, err);
    if (!rc)
        rc = ea_certificate_read(o->cert, &c, err);
    if (!rc)
        printf("%s and %s: this machine is %s\n", o->cert, o->key, c.name);
    return rc;
}

static int enroll_run(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    (void)operand_count;
    (void)operands;
    (void)ea_stop_flag();
    int rc = enroll_machine(arg, &err);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_enroll = {
    .name = "enroll",
    .operands = "",
    .summary = "Get this machine's certificate from a collector, with a token",
    .details = "Makes a key, which never leaves this machine, and has the collector's CA sign it (\"etwcollector ca "
               "token\" makes\n"
               "tokens, \"etwcollector run --enroll\" takes them). A request whose answer was lost is repeated with "
               "the same key and\n"
               "uses up no further use of the token. An agent that runs with \"enroll\" in its configuration does all "
               "of this itself.",
    .options =
        (const ea_option[]){{.name = "collector",
                             .letter = 'c',
                             .argument = "URL",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, collector),
                             .required = 1,
                             .help = "https://HOST:PORT where the collector gives certificates"},
                            {.name = "ca",
                             .argument = "FILE",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, ca),
                             .required = 1,
                             .help = "certificate of the CA that the collector is checked against, PEM"},
                            {.name = "token",
                             .argument = "TOKEN",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, token),
                             .help = "the token; others on this machine may see a command line"},
                            {.name = "token-file",
                             .argument = "FILE",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, token_file),
                             .help = "a file that holds the token; the file stays"},
                            {.name = "renew",
                             .type = EA_OPT_FLAG,
                             .offset = offsetof(options, renew),
                             .help = "no token: the current certificate authorizes the next one"},
                            {.name = "cert",
                             .argument = "FILE",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, cert),
                             .required = 1,
                             .help = "where the certificate goes, followed by the CA's, PEM"},
                            {.name = "key",
                             .argument = "FILE",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, key),
                             .required = 1,
                             .help = "where its key goes, readable by its owner only, PEM"},
                            {.name = "name",
                             .argument = "NAME",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, name),
                             .help = "the name to ask for, if the token allows several; default: this machine's"},
                            {.name = "proxy",
                             .argument = "URL",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(options, proxy),
                             .help = "http://HOST:PORT of an HTTP proxy; default: none"},
                            {.name = NULL}},
    .options_size = sizeof(options),
    .run = enroll_run,
};
