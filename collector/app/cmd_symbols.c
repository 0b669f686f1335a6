/* etwcollector symbols: functions and lines of addresses in an image. Called by: main.c. Calls: collector/symbols.
 * Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/symbol_options.h"
#include "collector/symbols/pe_image.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    ec_symbol_options symbols;
    int json;
} options;

typedef struct printer {
    ea_text t;
    int json;
    size_t count;
} printer;

static int print_symbol(void *arg, const ec_symbol *symbol) {
    printer *p = arg;
    char address[16];
    snprintf(address, sizeof address, "0x%" PRIx32, symbol->rva);
    if (p->json) {
        ea_text_printf(&p->t, "%s{\"rva\": \"%s\", \"frames\": ", p->count ? ", " : "", address);
        ec_symbol_json(&p->t, symbol);
        ea_text_str(&p->t, ", \"offset\": ");
        if (symbol->has_offset)
            ea_text_printf(&p->t, "\"0x%" PRIx32 "\"}", symbol->offset_bytes);
        else
            ea_text_str(&p->t, "null}");
    } else {
        ea_text_str(&p->t, address);
        ec_symbol_print(&p->t, symbol, address);
        ea_text_char(&p->t, '\n');
    }
    p->count++;
    return 0;
}

static int read_addresses(uint32_t **ret, int count, char **texts, ea_err *err) {
    uint32_t *rvas = calloc((size_t)count + 1, sizeof *rvas);
    if (!rvas)
        return ea_fail(err, EA_ENOMEM, "read the addresses");
    for (int i = 0; i < count; i++) {
        uint64_t v;
        if (ea_u64_parse(texts[i], &v) || v > UINT32_MAX) {
            free(rvas);
            return ea_fail(err, EA_EUSAGE, "\"%s\" is no address relative to an image: decimal, or hex after 0x",
                           texts[i]);
        }
        rvas[i] = (uint32_t)v;
    }
    *ret = rvas;
    return 0;
}

/* NAME/KEY: 1 when text has that form. */
static int read_name_and_key(const char *text, char *name, size_t name_bytes, ec_pdb_id *ret) {
    const char *slash = strrchr(text, '/');
    if (!slash || ec_symbol_pdb_key_parse(slash + 1, ret) || (size_t)(slash - text) >= name_bytes)
        return 0;
    snprintf(name, name_bytes, "%.*s", (int)(slash - text), text);
    return ec_symbol_name_ok(name);
}

static int begins_as_image(const char *path, int *ret, ea_err *err) {
    uint8_t head[2] = {0};
    size_t got = 0;
    ea_file *f;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_read_at(f, 0, head, sizeof head, &got, err);
    ea_file_close(f);
    if (!rc)
        *ret = ea_pe_begins(head, got);
    return rc;
}

/* Names the addresses of what file is: an image, a PDB, or NAME/KEY. */
static int symbols_resolve(const options *o, const char *file, const uint32_t *rvas, size_t count, printer *p,
                           ea_err *ret_note, ea_err *err) {
    char name[EC_SYMBOL_NAME_MAX + 1];
    ec_pe_identity image = {0};
    ec_symbol_module module = {.pdb_name = name};
    ec_symbol_desk desk;
    ea_text folder;
    int is_image = 0, rc = 0;
    int is_key = !ea_path_exists(file) && read_name_and_key(file, name, sizeof name, &module.pdb);
    if (!is_key)
        rc = begins_as_image(file, &is_image, err);
    if (!rc && is_image)
        rc = ec_pe_read(file, &image, err);
    if (rc)
        return rc;
    if (is_image)
        module = (ec_symbol_module){.pdb_name = image.pdb_path, .pdb = image.pdb};
    const char *slash = strrchr(file, '/');
    ea_text_init(&folder);
    ea_text_add(&folder, slash ? file : ".", slash ? (size_t)(slash - file) + (slash == file) : 1);
    rc = folder.failed ? ea_fail(err, EA_ENOMEM, "open symbols")
                       : ec_symbol_desk_open(&desk, &o->symbols, is_image ? folder.data : NULL, err);
    if (!rc) {
        rc = is_key || is_image
                 ? ec_symbols_resolve(desk.symbols, &module, rvas, count, print_symbol, p, ret_note, err)
                 : ec_symbols_resolve_file(desk.symbols, file, rvas, count, print_symbol, p, ret_note, err);
        ec_symbol_desk_close(&desk);
    }
    ea_text_deinit(&folder);
    return rc;
}

static int symbols_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    printer p = {.json = o->json};
    ea_err err = {0}, note = {0};
    uint32_t *rvas = NULL;
    ea_text_init(&p.t);
    if (p.json)
        ea_text_char(&p.t, '[');
    int rc = read_addresses(&rvas, operand_count - 1, operands + 1, &err);
    if (!rc)
        rc = symbols_resolve(o, operands[0], rvas, (size_t)operand_count - 1, &p, &note, &err);
    if (p.json)
        ea_text_str(&p.t, "]\n");
    if (!rc)
        rc = ec_answer_write(&p.t, &err);
    if (!rc && note.code)
        ea_err_print(stderr, "etwcollector: without lines", &note);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    free(rvas);
    ea_text_deinit(&p.t);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_SYMBOL_OPTIONS(options, symbols, EC_SYMBOL_CACHE),
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
    {.name = NULL},
};

const ea_command ec_cmd_symbols = {
    .name = "symbols",
    .operands = "FILE RVA...",
    .summary = "Name addresses of an image: functions, files and lines",
    .details =
        "FILE is an image, whose PDB is looked for beside it and on the symbol path; a PDB; or NAME/KEY as a symbol\n"
        "server has it. RVA is an address relative to the image's base. Prints a line an address, RVA "
        "FUNCTION+OFFSET,\n"
        "with --lines FILE:LINE after it and a line for each inlined function before it; \"?\" when nothing is "
        "known.\n"
        "A PDB must have the image's GUID and age. Without --symbols the path is the environment's _NT_SYMBOL_PATH.\n"
        "srv* alone is Microsoft's own server.\n"
        "Where no symbolizer answers, functions are named by the PDB's own records, and standard error has the "
        "reason.\n"
        "Compressed files (ntdll.pd_) are read when they are stored or MSZIP. The cache drops files that were not used "
        "for "
        "90\n"
        "days, and the oldest ones above 20 GiB; a server that lacked a file is asked again after a day, one that "
        "failed\n"
        "after five minutes.\n"
        "--json: [{rva, frames: [{function, file, line, inlined}], offset}].\n"
        "Exit codes: 0 answered, 1 no PDB, 2 usage, 3 a file that is not usable.\n\n"
        "  etwcollector symbols --lines driver.sys 0x1234\n"
        "  etwcollector symbols --symbols 'srv**https://symbols.example' ntdll.pdb/3844DBB920174967BE7AA4A2C20430FA2 "
        "4660",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = symbols_run,
    .min_operands = 2,
    .max_operands = -1,
};
