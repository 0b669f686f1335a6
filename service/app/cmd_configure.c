/* etwagent configure: the first configuration of a machine, made of a collector's address, a CA and a profile. What an
 * installer runs. Called by: main.c. Output: the file that "etwagent run" reads. Thread: the main one. */
#include "proto/base/platform.h"
#include "proto/base/trust.h"
#include "service/app/agent_commands.h"
#include "service/core/agent_config.h"
#include "service/ship/enroll_client.h"

#include <openssl/crypto.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILE_MAX = EA_CONFIG_MAX_BYTES / 2, CA_MAX = 1 << 20, ANSWERS_MAX = 16384 };

static const char CONFIG_NAME[] = "etwagent.yaml", CA_NAME[] = "ca.crt", CERT_NAME[] = "agent.crt",
                  KEY_NAME[] = "agent.key", TOKEN_NAME[] = "token", ENROLL_PORT[] = "8444";

typedef struct options {
    const char *config, *collector, *ca, *profile, *profiles, *enroll, *token, *token_file;
    int replace, answers;
} options;

/* The values of `options`: where each is, and whether an installer may give it on standard input. */
static const struct value {
    const char *name;
    size_t offset;
    int is_answer;
} VALUES[] = {
    {"config", offsetof(options, config), 0},
    {"collector", offsetof(options, collector), 1},
    {"ca", offsetof(options, ca), 1},
    {"profile", offsetof(options, profile), 1},
    {"profiles", offsetof(options, profiles), 1},
    {"enroll", offsetof(options, enroll), 1},
    {"token", offsetof(options, token), 1},
    {"token-file", offsetof(options, token_file), 0},
};

enum { VALUE_COUNT = sizeof VALUES / sizeof *VALUES };

static const char **configure_value_of(options *o, const struct value *v) {
    return (const char **)(void *)((char *)o + v->offset);
}

/* "  NAME: "PATH"", the path as JSON text, which YAML reads. */
static int configure_put_path(ea_text *t, const char *name, const char *file, ea_err *err) {
    char path[EA_AGENT_PATH_BYTES];
    int rc = ea_agent_file_path(NULL, file, path, err);
    if (rc)
        return rc;
    ea_text_printf(t, "  %s: ", name);
    ea_text_json_str(t, path);
    ea_text_char(t, '\n');
    return 0;
}

/* A profile's name is a name, not a way to a file elsewhere. */
static int configure_read_profile(const options *o, char **ret_text, size_t *ret_len, ea_err *err) {
    const char *name = o->profile && *o->profile ? o->profile : "default";
    size_t n = strlen(name);
    if (n > 64 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
        return ea_fail(err, EA_EUSAGE, "--profile '%.64s': expected the name of a file in the folder of profiles",
                       name);
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/%s.yaml", o->profiles ? o->profiles : "profiles", name);
    int rc = path.failed ? ea_fail(err, EA_ENOMEM, "read a profile")
                         : ea_path_read_all(path.data, PROFILE_MAX, ret_text, ret_len, err);
    ea_text_deinit(&path);
    return rc;
}

static int configure_is_given(const char *s) {
    return s && *s;
}

/* The enrolment URL: the given one, else the collector's host with the default enrolment port. */
static void put_enroll(const options *o, ea_text *t) {
    static const char SCHEME[] = "https://";
    ea_text url;
    ea_text_init(&url);
    if (configure_is_given(o->enroll)) {
        ea_text_str(&url, o->enroll);
    } else {
        const char *host = o->collector + (strncmp(o->collector, SCHEME, strlen(SCHEME)) == 0 ? strlen(SCHEME) : 0);
        size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
        ea_text_str(&url, SCHEME);
        ea_text_add(&url, host, n < strlen(host) ? n : strlen(host));
        ea_text_printf(&url, ":%s", ENROLL_PORT);
    }
    ea_text_char(&url, 0);
    ea_text_str(t, "  enroll: ");
    ea_text_json_str(t, url.failed ? "" : url.data);
    ea_text_char(t, '\n');
    ea_text_deinit(&url);
}

static int make_text(const options *o, ea_text *t, ea_err *err) {
    char *profile = NULL;
    size_t len_bytes = 0;
    ea_text_str(t, "# Made by \"etwagent configure\". \"etwagent check --reference\" lists all options.\nshipping:\n  "
                   "collector: ");
    ea_text_json_str(t, o->collector);
    ea_text_char(t, '\n');
    int rc = configure_put_path(t, "cert", CERT_NAME, err);
    if (!rc)
        rc = configure_put_path(t, "key", KEY_NAME, err);
    if (!rc)
        rc = configure_put_path(t, "ca", CA_NAME, err);
    if (!rc && (configure_is_given(o->enroll) || configure_is_given(o->token) || configure_is_given(o->token_file)))
        put_enroll(o, t);
    if (!rc && !(o->profile && strcmp(o->profile, "none") == 0))
        rc = configure_read_profile(o, &profile, &len_bytes, err);
    if (!rc && profile) {
        ea_text_char(t, '\n');
        ea_text_add(t, profile, len_bytes);
    }
    free(profile);
    if (!rc && t->failed)
        rc = ea_fail(err, EA_ENOMEM, "make a configuration");
    return rc;
}

static void configure_print_line(void *arg, const char *line) {
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

static int configure_check(const ea_text *t, const char *path, ea_err *err) {
    ea_agent_config c = {0};
    ea_config *memory;
    int rc =
        ea_config_parse(&memory, path, t->data, t->len_bytes, &ea_agent_table, &c, configure_print_line, NULL, err);
    if (!rc)
        ea_config_destroy(memory);
    return rc;
}

/* Copies the CA's certificate beside the configuration: the installer's folder need not stay. */
static int copy_ca(const char *from, ea_err *err) {
    char to[EA_AGENT_PATH_BYTES], *data = NULL;
    size_t len_bytes;
    int rc = ea_agent_file_path(NULL, CA_NAME, to, err);
    if (!rc)
        rc = ea_path_read_all(from, CA_MAX, &data, &len_bytes, err);
    if (!rc && !strstr(data, "-----BEGIN CERTIFICATE-----"))
        rc = ea_fail(err, EA_EFORMAT, "%s: expected a certificate, PEM", from);
    if (!rc)
        rc = ea_path_write_all(to, data, len_bytes, 0, err);
    free(data);
    return rc;
}

/* Writes the token to the file that the service reads at its start; only the system and administrators can read it. */
static int write_token(const options *o, ea_err *err) {
    char token[EA_ENROLL_TOKEN_MAX] = "", path[EA_AGENT_PATH_BYTES];
    int rc = ea_agent_file_path(NULL, TOKEN_NAME, path, err);
    if (!rc && configure_is_given(o->token_file))
        rc = ea_enroll_token_read(o->token_file, token, err);
    else if (!rc && strlen(o->token) < sizeof token)
        memcpy(token, o->token, strlen(o->token) + 1);
    else if (!rc)
        rc = ea_fail(err, EA_EUSAGE, "--token: this is no token");
    if (!rc)
        rc = ea_path_make_parent(path, err);
    if (!rc)
        rc = ea_path_write_all(path, token, strlen(token), 1, err);
    OPENSSL_cleanse(token, sizeof token);
    return rc;
}

static int write_configuration(const options *o, ea_err *err) {
    char path[EA_AGENT_PATH_BYTES];
    ea_text t;
    int rc = ea_agent_file_path(o->config, CONFIG_NAME, path, err);
    if (!rc && ea_path_exists(path) && !o->replace) {
        printf("%s stays as it is\n", path);
        return 0;
    }
    if (!rc && (!o->collector || !*o->collector))
        return ea_fail(err, EA_EUSAGE, "--collector is missing");
    ea_text_init(&t);
    if (!rc)
        rc = make_text(o, &t, err);
    if (!rc)
        rc = configure_check(&t, path, err);
    if (!rc)
        rc = ea_path_make_parent(path, err);
    if (!rc && o->ca && *o->ca)
        rc = copy_ca(o->ca, err);
    if (!rc)
        rc = ea_path_write_all(path, t.data, t.len_bytes, 1, err);
    ea_text_deinit(&t);
    if (!rc)
        printf("wrote %s\n", path);
    return rc;
}

/* Refuses quotes and control characters: no address, path, profile or token has one, but a command line that an
 * installer composed from foreign text may. */
static int configure_check_values(options *o, ea_err *err) {
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        const char *s = *configure_value_of(o, &VALUES[i]);
        for (size_t at = 0; s && s[at]; at++)
            if (s[at] == '"' || (unsigned char)s[at] < 0x20 || s[at] == 0x7F)
                return ea_fail(err, EA_EUSAGE,
                               "--%s: expected a value without quotes and control characters, found 0x%02x at byte %zu "
                               "of it",
                               VALUES[i].name, (unsigned char)s[at], at + 1);
    }
    return 0;
}

/* One NAME=VALUE, ended by a NUL, into o. */
static int configure_take_answer(options *o, char *answer, ea_err *err) {
    char *equals = strchr(answer, '=');
    size_t len = equals ? (size_t)(equals - answer) : strlen(answer);
    for (size_t i = 0; equals && i < VALUE_COUNT; i++) {
        const char **target = configure_value_of(o, &VALUES[i]);
        if (!VALUES[i].is_answer || strlen(VALUES[i].name) != len || memcmp(VALUES[i].name, answer, len) != 0)
            continue;
        if (*target)
            return ea_fail(err, EA_EUSAGE, "standard input: %s is given twice; expected it once", VALUES[i].name);
        *target = equals + 1;
        return 0;
    }
    return ea_fail(err, EA_EUSAGE,
                   "standard input: expected collector, ca, profile, profiles, enroll or token and its value, found "
                   "'%.*s'",
                   len < 40 ? (int)len : 40, answer);
}

/* The values that an installer gives: they are data of one text, in which no value can become another option. */
static int read_answers(options *o, char *text, ea_err *err) {
    size_t n = fread(text, 1, ANSWERS_MAX, stdin);
    if (n == ANSWERS_MAX)
        return ea_fail(err, EA_EUSAGE, "standard input: expected fewer than %d bytes", ANSWERS_MAX);
    if (memchr(text, 0, n))
        return ea_fail(err, EA_EUSAGE, "standard input: expected text, found a zero byte");
    text[n] = 0;
    if (n && text[n - 1] == '\n')
        text[n - 1] = 0;
    int rc = 0;
    for (char *next, *at = text; !rc && at; at = next) {
        next = strchr(at, '|');
        if (next)
            *next++ = 0;
        rc = configure_take_answer(o, at, err);
    }
    return rc;
}

/* Before a configuration that exists is kept, and a token is put beside it. */
static int configure_claim_state(ea_err *err) {
    char folder[EA_AGENT_PATH_BYTES];
    int rc = ea_state_dir(folder, sizeof folder, err);
    return rc ? rc : ea_trust_claim(folder, configure_print_line, NULL, err);
}

static int configure_machine(options *o, ea_err *err) {
    char *text = malloc(ANSWERS_MAX);
    int rc = text ? 0 : ea_fail(err, EA_ENOMEM, "make a configuration");
    if (!rc && o->answers)
        rc = read_answers(o, text, err);
    if (!rc)
        rc = configure_check_values(o, err);
    if (!rc)
        rc = configure_claim_state(err);
    if (!rc)
        rc = write_configuration(o, err);
    if (!rc && (configure_is_given(o->token) || configure_is_given(o->token_file)))
        rc = write_token(o, err);
    if (text)
        OPENSSL_cleanse(text, ANSWERS_MAX); /* a token may be in it */
    free(text);
    return rc;
}

static int configure_run(const void *arg, int operand_count, char **operands) {
    options o = *(const options *)arg;
    ea_err err = {0};
    (void)operand_count;
    (void)operands;
    int rc = configure_machine(&o, &err);
    if (rc && rc != EA_EFORMAT)
        ea_err_print(stderr, "etwagent", &err);
    else if (rc)
        fprintf(stderr, "etwagent: %s\n", err.message);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_configure = {
    .name = "configure",
    .operands = "",
    .summary = "Write the first configuration of this machine",
    .details = "The agent expects certificate, key and CA beside the configuration in the folder for state, as "
               "agent.crt, agent.key and ca.crt. An\n"
               "existing configuration stays unchanged, unless --replace is given. A token is written to the file\n"
               "token beside it, with which the service gets certificate and key itself.",
    .options =
        (const ea_option[]){
            {.name = "config",
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, config),
             .help = "the file to write; default: etwagent.yaml in the folder for state"},
            {.name = "collector",
             .argument = "URL",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, collector),
             .help = "https://HOST[:PORT] of the collector"},
            {.name = "ca",
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, ca),
             .help = "the CA's certificate, PEM; it is copied to the folder for state"},
            {.name = "profile",
             .argument = "NAME",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, profile),
             .help = "the profile: default, security, performance, ...; none: record nothing yet"},
            {.name = "profiles",
             .argument = "DIR",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, profiles),
             .help = "the folder of profiles; default: profiles in the current folder"},
            {.name = "token",
             .argument = "TOKEN",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, token),
             .help = "an enrolment token (etwcollector ca token); others on this machine may see a "
                     "command line"},
            {.name = "token-file",
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, token_file),
             .help = "a file that holds the token"},
            {.name = "enroll",
             .argument = "URL",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, enroll),
             .help = "https://HOST:PORT where the collector gives certificates; with a token the "
                     "default is port 8444 of the collector"},
            {.name = "replace",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, replace),
             .help = "replace an existing configuration"},
            {.name = "answers",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, answers),
             .help = "read values from standard input, as the MSI gives them: NAME=VALUE|NAME=VALUE..."},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = configure_run,
};
