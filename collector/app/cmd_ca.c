/* etwcollector ca init, sign, import, issue, revoke, list: the certificates of an installation. Called by: main.c.
 * Calls: collector/ca. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/ca/ca.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int ca_failed(int rc, const ea_err *err) {
    ea_err_print(stderr, "etwcollector", err);
    return ea_exit_code(rc);
}

/* ---- ca init ---- */

typedef struct init_options {
    const char *dir;
    ec_ca_init_options ca;
} init_options;

static int run_init(const void *options, int operand_count, char **operands) {
    const init_options *o = options;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    int rc = o->ca.is_root && o->ca.wants_request ? ea_fail(&err, EA_EUSAGE, "--root and --csr: one of them")
             : o->ca.provider && !o->ca.key_uri   ? ea_fail(&err, EA_EUSAGE, "--provider: needs --key-uri")
             : o->ca.key_paths && !o->ca.key_uri  ? ea_fail(&err, EA_EUSAGE, "--key-paths: needs --key-uri")
                                                  : ec_ca_init(o->dir, &o->ca, &err);
    if (rc)
        return ca_failed(rc, &err);
    if (o->ca.wants_request)
        printf(
            "made a key and %s/ca.csr: 'etwcollector ca sign' at the root, or another CA, makes a certificate of it, "
            "which\n'etwcollector ca import --dir %s' takes\n",
            o->dir, o->dir);
    else
        printf(
            "made a CA in %s: ca.crt goes to every machine, ca.crl to the collector, %s stays here and stays secret\n",
            o->dir, o->ca.key_uri ? "ca.uri" : "ca.key");
    return 0;
}

const ea_command ec_cmd_ca_init = {
    .name = "ca init",
    .operands = "",
    .summary = "Make a certificate authority",
    .details = "Writes ca.key (readable by its owner only), ca.crt and an empty revocation list ca.crl into a folder, "
               "which is\n"
               "made when it is missing. An existing CA is not changed.\n\n"
               "  etwcollector ca init --dir certs\n"
               "  etwcollector ca issue --dir certs --server --name collector --san DNS:collector.example\n"
               "  etwcollector ca issue --dir certs --name machine-1\n\n"
               "A CA below a root that stays offline:\n\n"
               "  etwcollector ca init --dir root --root              (on the machine of the root)\n"
               "  etwcollector ca init --dir certs --csr              (on the collector)\n"
               "  etwcollector ca sign --dir root --csr ca.csr --out issuing.crt\n"
               "  etwcollector ca import --dir certs issuing.crt\n\n"
               "--key-uri: the key is in a token, a TPM or a file, and stays there; OpenSSL finds it by the URI.",
    .options =
        (const ea_option[]){{.name = "dir",
                             .letter = 'd',
                             .argument = "DIR",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(init_options, dir),
                             .required = 1,
                             .help = "folder of the CA"},
                            {.name = "name",
                             .argument = "NAME",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(init_options, ca.name),
                             .fallback = "etwagent CA",
                             .help = "the CA's common name"},
                            {.name = "days",
                             .argument = "N",
                             .type = EA_OPT_U64,
                             .offset = offsetof(init_options, ca.days),
                             .fallback = "3650",
                             .help = "how long it is valid"},
                            {.name = "root",
                             .type = EA_OPT_FLAG,
                             .offset = offsetof(init_options, ca.is_root),
                             .help = "it signs other CAs (ca sign), one step deep"},
                            {.name = "csr",
                             .type = EA_OPT_FLAG,
                             .offset = offsetof(init_options, ca.wants_request),
                             .help = "write a request, ca.csr, in place of a certificate: another CA signs it"},
                            {.name = "key-uri",
                             .argument = "URI",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(init_options, ca.key_uri),
                             .help = "existing key (pkcs11:..., handle:..., file:...); kept in ca.uri"},
                            {.name = "provider",
                             .argument = "NAME",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(init_options, ca.provider),
                             .help = "OpenSSL provider that opens the URI (pkcs11, tpm2); default: OpenSSL's own"},
                            {.name = "key-paths",
                             .argument = "PATHS",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(init_options, ca.key_paths),
                             .help = "files and folders that the provider needs to sign, separated by colons: the "
                                     "process that signs then opens no others; kept in ca.uri"},
                            {0}},
    .options_size = sizeof(init_options),
    .run = run_init,
};

/* ---- ca sign, ca import ---- */

typedef struct sign_options {
    const char *dir, *csr, *out;
    ea_strings permitted;
    uint64_t days;
} sign_options;

static int run_sign(const void *options, int operand_count, char **operands) {
    const sign_options *o = options;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    int rc = ec_ca_sign(o->dir, o->csr, o->days, &o->permitted, o->out, &err);
    if (rc)
        return ca_failed(rc, &err);
    printf("signed %s: 'etwcollector ca import' takes it in the folder that made the request\n", o->out);
    return 0;
}

const ea_command ec_cmd_ca_sign = {
    .name = "ca sign",
    .operands = "",
    .summary = "Sign the request of a CA below this one",
    .details = "Writes the certificate and the root's. The CA below signs agents and collectors and no other CA. With "
               "--permit it\nsigns only names within those domains and addresses: agents' names are DNS names there.",
    .options = (const ea_option[]){{.name = "dir",
                                    .letter = 'd',
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(sign_options, dir),
                                    .required = 1,
                                    .help = "folder of the root"},
                                   {.name = "csr",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(sign_options, csr),
                                    .required = 1,
                                    .help = "the request (see ca init --csr)"},
                                   {.name = "out",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(sign_options, out),
                                    .required = 1,
                                    .help = "where the certificates go"},
                                   {.name = "permit",
                                    .argument = "NAMES",
                                    .type = EA_OPT_STRINGS,
                                    .offset = offsetof(sign_options, permitted),
                                    .help = "DNS:domain or IP:address/mask that it may sign; several times"},
                                   {.name = "days",
                                    .argument = "N",
                                    .type = EA_OPT_U64,
                                    .offset = offsetof(sign_options, days),
                                    .fallback = "1825",
                                    .help = "how long it is valid, at the most as long as the root"},
                                   {0}},
    .options_size = sizeof(sign_options),
    .run = run_sign,
};

typedef struct import_options {
    const char *dir, *under;
} import_options;

static int run_import(const void *options, int operand_count, char **operands) {
    const import_options *o = options;
    ea_err err = {0};
    (void)operand_count;
    int rc = ec_ca_import(o->dir, operands[0], o->under, &err);
    if (rc)
        return ca_failed(rc, &err);
    printf("made a CA in %s: the root's certificate goes to every machine, ca.crt and ca.crl to the collector\n",
           o->dir);
    return 0;
}

const ea_command ec_cmd_ca_import = {
    .name = "ca import",
    .operands = "FILE",
    .summary = "Take the certificate that another CA made of ca.csr",
    .details = "FILE: PEM, the CA's own certificate first, then those above it. Checks that they lead to the root.",
    .options = (const ea_option[]){{.name = "dir",
                                    .letter = 'd',
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(import_options, dir),
                                    .required = 1,
                                    .help = "folder of the CA (see ca init --csr)"},
                                   {.name = "under",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(import_options, under),
                                    .help = "the root's certificate, when FILE does not hold it"},
                                   {0}},
    .options_size = sizeof(import_options),
    .run = run_import,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- ca issue ---- */

typedef struct issue_options {
    const char *dir, *name, *out;
    int server;
    ea_strings sans;
    uint64_t days;
} issue_options;

/* Each --san may hold several, separated by commas. text gets a copy that the items point into. */
static int split_sans(const ea_strings *given, char **ret_text, const char **items, size_t *ret_count, ea_err *err) {
    size_t bytes = 1, count = 0;
    for (size_t i = 0; i < given->count; i++)
        bytes += strlen(given->items[i]) + 1;
    char *text = malloc(bytes), *at = text;
    if (!text)
        return ea_fail(err, EA_ENOMEM, "read --san");
    for (size_t i = 0; i < given->count; i++) {
        size_t n = strlen(given->items[i]) + 1;
        memcpy(at, given->items[i], n);
        for (char *item = at, *next; item; item = next) {
            next = strchr(item, ',');
            if (next)
                *next++ = 0;
            if (count == EC_CA_SAN_MAX) {
                free(text);
                return ea_fail(err, EA_EUSAGE, "--san: at most %d names", EC_CA_SAN_MAX);
            }
            items[count++] = item;
        }
        at += n;
    }
    *ret_text = text;
    *ret_count = count;
    return 0;
}

static int run_issue(const void *options, int operand_count, char **operands) {
    const issue_options *o = options;
    const char *sans[EC_CA_SAN_MAX];
    char *text = NULL, serial[EC_CA_SERIAL_HEX + 1];
    size_t count = 0;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    int rc = o->sans.count && !o->server
                 ? ea_fail(&err, EA_EUSAGE, "--san is for a collector's certificate: give --server with it")
                 : split_sans(&o->sans, &text, sans, &count, &err);
    if (!rc)
        rc = ec_ca_issue(o->dir,
                         &(ec_ca_request){.name = o->name,
                                          .server = o->server,
                                          .sans = sans,
                                          .san_count = count,
                                          .days = o->days,
                                          .out_dir = o->out},
                         1, serial, &err);
    free(text);
    if (rc)
        return ca_failed(rc, &err);
    const char *dir = o->out ? o->out : o->dir;
    printf("issued %s/%s.crt and %s/%s.key, serial %s\n", dir, o->name, dir, o->name, serial);
    return 0;
}

const ea_command ec_cmd_ca_issue = {
    .name = "ca issue",
    .operands = "",
    .summary = "Issue a key and a certificate for an agent or a collector",
    .details =
        "An agent's certificate names it: what it sends is kept under that name. A collector's (--server) carries the\n"
        "names and addresses under which agents reach it; without --san that is DNS:NAME.\n"
        "Writes NAME.crt and NAME.key (readable by its owner only); existing files are not changed.",
    .options =
        (const ea_option[]){{.name = "dir",
                             .letter = 'd',
                             .argument = "DIR",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(issue_options, dir),
                             .required = 1,
                             .help = "folder of the CA"},
                            {.name = "name",
                             .argument = "NAME",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(issue_options, name),
                             .required = 1,
                             .help = "common name: letters, digits, . _ -"},
                            {.name = "server",
                             .type = EA_OPT_FLAG,
                             .offset = offsetof(issue_options, server),
                             .help = "for a collector, not for an agent"},
                            {.name = "san",
                             .argument = "NAMES",
                             .type = EA_OPT_STRINGS,
                             .offset = offsetof(issue_options, sans),
                             .help = "with --server: DNS:name or IP:address, several with commas or several times"},
                            {.name = "out",
                             .argument = "DIR",
                             .type = EA_OPT_STRING,
                             .offset = offsetof(issue_options, out),
                             .help = "where the files go, when not into the CA's folder"},
                            {.name = "days",
                             .argument = "N",
                             .type = EA_OPT_U64,
                             .offset = offsetof(issue_options, days),
                             .fallback = "397",
                             .help = "how long it is valid, at the most as long as the CA"},
                            {0}},
    .options_size = sizeof(issue_options),
    .run = run_issue,
};

/* ---- ca revoke ---- */

typedef struct revoke_options {
    const char *dir;
} revoke_options;

static int run_revoke(const void *options, int operand_count, char **operands) {
    const revoke_options *o = options;
    size_t count = 0;
    ea_err err = {0};
    (void)operand_count;
    int rc = ec_ca_revoke(o->dir, operands[0], &count, &err);
    if (rc)
        return ca_failed(rc, &err);
    printf("revoked %zu certificate%s; collectors that read %s/ca.crl refuse %s from now on\n", count,
           count == 1 ? "" : "s", o->dir, count == 1 ? "it" : "them");
    return 0;
}

const ea_command ec_cmd_ca_revoke = {
    .name = "ca revoke",
    .operands = "NAME|SERIAL",
    .summary = "Revoke a certificate, or all certificates of a name",
    .details = "Writes ca.crl anew. A collector reads the list again when its file changes, also for connections that "
               "are open.",
    .options = (const ea_option[]){{.name = "dir",
                                    .letter = 'd',
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(revoke_options, dir),
                                    .required = 1,
                                    .help = "folder of the CA"},
                                   {0}},
    .options_size = sizeof(revoke_options),
    .run = run_revoke,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- ca list ---- */

typedef struct list_options {
    const char *dir;
    int json;
} list_options;

typedef struct listing {
    int json;
    ea_text out;
    size_t count;
} listing;

static int ca_add_row(const ec_ca_row *row, void *arg) {
    listing *l = arg;
    ea_text *t = &l->out;
    if (l->json) {
        ea_text_printf(t, "%s\n  {\"name\": ", l->count ? "," : "");
        ea_text_json_str(t, row->name);
        ea_text_printf(t, ", \"role\": \"%s\", \"serial\": \"%s\", \"not_after\": \"", ec_ca_role_names[row->role],
                       row->serial);
        ea_text_utc_ns(t, row->not_after_utc_ns);
        ea_text_str(t, "\", \"revoked\": ");
        if (row->revoked_utc_ns) {
            ea_text_char(t, '"');
            ea_text_utc_ns(t, row->revoked_utc_ns);
            ea_text_str(t, "\"}");
        } else {
            ea_text_str(t, "null}");
        }
    } else {
        ea_text_printf(t, "%-6s  %-32s  %s  until ", ec_ca_role_names[row->role], row->name, row->serial);
        ea_text_utc_ns(t, row->not_after_utc_ns);
        if (row->revoked_utc_ns) {
            ea_text_str(t, "  revoked ");
            ea_text_utc_ns(t, row->revoked_utc_ns);
        }
        ea_text_char(t, '\n');
    }
    l->count++;
    return t->failed;
}

static int run_list(const void *options, int operand_count, char **operands) {
    const list_options *o = options;
    listing l = {.json = o->json};
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&l.out);
    if (l.json)
        ea_text_char(&l.out, '[');
    int rc = ec_ca_each(o->dir, ca_add_row, &l, &err);
    if (l.json)
        ea_text_str(&l.out, l.count ? "\n]\n" : "]\n");
    if (rc >= 0 && l.out.failed)
        rc = ea_fail(&err, EA_ENOMEM, "list the certificates");
    if (!rc && l.out.len_bytes)
        fwrite(l.out.data, 1, l.out.len_bytes, stdout);
    ea_text_deinit(&l.out);
    return rc ? ca_failed(rc, &err) : 0;
}

const ea_command ec_cmd_ca_list = {
    .name = "ca list",
    .operands = "",
    .summary = "List the certificates that a CA has issued",
    .options =
        (const ea_option[]){
            {.name = "dir",
             .letter = 'd',
             .argument = "DIR",
             .type = EA_OPT_STRING,
             .offset = offsetof(list_options, dir),
             .required = 1,
             .help = "folder of the CA"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(list_options, json), .help = "print a JSON array"},
            {0}},
    .options_size = sizeof(list_options),
    .run = run_list,
};
