/* etwagent schema: the event classes that this program knows by itself, with their fields. Called by: main.c. Calls:
 * proto/event. Thread: the main one. */
#include "proto/event/class_names.h"
#include "service/app/agent_commands.h"
#include "service/app/schema_print.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    int json;
    uint64_t pointer_size;
} options;

typedef struct output {
    const options *options;
    ea_text text;
    ea_registry *registry;
    char **patterns;
    int pattern_count;
    size_t printed;
} output;

static int wanted(const output *o, const ea_provider_row *p, const ea_class_row *row) {
    for (int i = 0; i < o->pattern_count; i++)
        if (ea_class_name_matches(o->patterns[i], row->name) ||
            ea_event_has_alias(o->patterns[i], strlen(o->patterns[i]), &p->guid, p->name, p->classic, row->code))
            return 1;
    return o->pattern_count == 0;
}

static void print_family(output *o, const ea_family *family) {
    for (size_t i = 0; i < family->row_count; i++) {
        const ea_class_row *row = &family->rows[i];
        for (unsigned version = row->since; wanted(o, family->provider, row) && version <= row->until; version++) {
            ea_record record = {.provider = family->provider->guid,
                                .version = (uint8_t)version,
                                .pointer_size = (uint8_t)o->options->pointer_size};
            if (family->provider->classic) {
                record.flags = EA_FLAG_CLASSIC_HEADER;
                record.opcode = (uint8_t)row->code;
            } else {
                record.id = row->code;
            }
            const ea_class *c = ea_registry_find(o->registry, &record);
            if (o->options->json) {
                ea_text_str(&o->text, o->printed ? ",\n" : "[");
                ea_schema_print_json(&o->text, c, family->source);
            } else {
                ea_schema_print_text(&o->text, c);
            }
            o->printed++;
        }
    }
}

static int schema_run(const void *arg, int operand_count, char **operands) {
    output o = {.options = arg, .patterns = operands, .pattern_count = operand_count};
    ea_err err = {0};
    size_t family_count;
    const ea_family *const *families = ea_event_families(&family_count);
    ea_text_init(&o.text);
    int rc = o.options->pointer_size == 4 || o.options->pointer_size == 8
                 ? ea_registry_create(&o.registry, 0, &err)
                 : ea_fail(&err, EA_EUSAGE, "--pointer-size: expected 4 or 8");
    for (size_t i = 0; !rc && i < family_count; i++)
        print_family(&o, families[i]);
    if (!rc && !o.printed)
        rc = ea_fail(&err, EA_ENOTFOUND, "find a class of that name");
    if (!rc && o.options->json)
        ea_text_str(&o.text, "]\n");
    if (!rc &&
        (o.text.failed || fwrite(o.text.data, 1, o.text.len_bytes, stdout) != o.text.len_bytes || fflush(stdout)))
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    ea_registry_destroy(o.registry);
    ea_text_deinit(&o.text);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print a JSON array"},
    {.name = "pointer-size",
     .argument = "4|8",
     .type = EA_OPT_U64,
     .offset = offsetof(options, pointer_size),
     .fallback = "8",
     .help = "offsets on a machine with pointers of so many bytes"},
    {.name = NULL},
};

const ea_command ea_cmd_schema = {
    .name = "schema",
    .operands = "[CLASS...]",
    .summary = "Print the event classes that are known without a trace, field by field",
    .details =
        "CLASS is a name as in dump --class ('Process/*' for a family, DotNETRuntime/1); without one, all are printed. "
        "Each version of\n"
        "a class is printed by itself: a field's offset in the payload while it is fixed, type, name, array length,\n"
        "and what the value stands for.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = schema_run,
    .min_operands = 0,
    .max_operands = -1,
};
