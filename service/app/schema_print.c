/* Printing classes. See schema_print.h. */
#include "service/app/schema_print.h"

#include <string.h>

static void put_safe(ea_text *t, const char *s) {
    ea_text_safe(t, s, strlen(s));
}

static void schema_print_put_named(ea_text *t, const char *key, const char *value) {
    if (!*value)
        return;
    ea_text_printf(t, ",\"%s\":", key);
    ea_text_json_str(t, value);
}

static void put_map_json(ea_text *t, const ea_enum *map) {
    ea_text_str(t, ",\"map\":");
    ea_text_json_str(t, map->name);
    ea_text_printf(t, ",\"%s\":{", map->is_flags ? "flags" : "values");
    for (size_t i = 0; i < map->count; i++) {
        ea_text_printf(t, "%s\"", i ? "," : "");
        ea_text_hex64(t, map->entries[i].value);
        ea_text_str(t, "\":");
        ea_text_json_str(t, map->entries[i].name);
    }
    ea_text_char(t, '}');
}

static void put_field_json(ea_text *t, const ea_class *c, const ea_field *f) {
    ea_text_str(t, "{\"name\":");
    ea_text_json_str(t, f->name);
    ea_text_printf(t, ",\"type\":\"%s\",\"semantic\":\"%s\",\"count\":", ea_type_name(f->type),
                   ea_semantic_name(f->semantic));
    if (f->count_field >= 0)
        ea_text_json_str(t, c->fields[f->count_field].name);
    else if (f->count == EA_COUNT_REST)
        ea_text_str(t, "\"rest\"");
    else
        ea_text_u64(t, f->count);
    if (f->offset != EA_OFFSET_NONE)
        ea_text_printf(t, ",\"offset\":%u", f->offset);
    if (f->child_count)
        ea_text_printf(t, ",\"members\":%u", f->child_count);
    if (f->optional)
        ea_text_str(t, ",\"optional\":true");
    if (f->map)
        put_map_json(t, f->map);
    ea_text_char(t, '}');
}

static void schema_print_put_notes_json(ea_text *t, const ea_class_notes *n) {
    schema_print_put_named(t, "level", n->level);
    schema_print_put_named(t, "channel", n->channel);
    schema_print_put_named(t, "task", n->task);
    schema_print_put_named(t, "opcode_name", n->opcode);
    schema_print_put_named(t, "message", n->message);
    if (!n->keyword_count)
        return;
    ea_text_str(t, ",\"keywords\":[");
    for (size_t i = 0; i < n->keyword_count; i++) {
        if (i)
            ea_text_char(t, ',');
        ea_text_json_str(t, n->keywords[i].name);
    }
    ea_text_char(t, ']');
}

void ea_schema_print_json(ea_text *t, const ea_class *c, const char *source) {
    ea_text_str(t, "{\"provider\":\"");
    ea_text_guid(t, &c->provider);
    ea_text_str(t, "\",\"provider_name\":");
    ea_text_json_str(t, c->provider_name);
    ea_text_str(t, ",\"name\":");
    ea_text_json_str(t, c->name);
    ea_text_printf(t, ",\"classic\":%s,\"%s\":%u,\"version\":%u,\"pointer_size\":%u,\"known\":%s,\"source\":",
                   c->classic ? "true" : "false", c->classic ? "opcode" : "id", c->code, c->version, c->pointer_size,
                   c->status == EA_CLASS_KNOWN ? "true" : "false");
    ea_text_json_str(t, source);
    if (c->notes)
        schema_print_put_notes_json(t, c->notes);
    ea_text_str(t, ",\"fields\":[");
    for (size_t i = 0; i < c->field_count; i++) {
        if (i)
            ea_text_char(t, ',');
        put_field_json(t, c, &c->fields[i]);
    }
    ea_text_str(t, "]}");
}

static void put_field_text(ea_text *t, const ea_class *c, const ea_field *f) {
    if (f->offset != EA_OFFSET_NONE)
        ea_text_printf(t, "  %5u ", f->offset);
    else
        ea_text_str(t, "      - ");
    ea_text_printf(t, "%-13s ", ea_type_name(f->type));
    put_safe(t, f->name);
    if (f->count_field >= 0) {
        ea_text_char(t, '[');
        put_safe(t, c->fields[f->count_field].name);
        ea_text_char(t, ']');
    } else if (f->count == EA_COUNT_REST) {
        ea_text_str(t, "[...]");
    } else if (f->count > 1) {
        ea_text_printf(t, "[%u]", f->count);
    }
    if (f->semantic)
        ea_text_printf(t, "  (%s)", ea_semantic_name(f->semantic));
    ea_text_str(t, f->optional ? "  optional\n" : "\n");
}

void ea_schema_print_text(ea_text *t, const ea_class *c) {
    put_safe(t, c->name);
    ea_text_printf(t, " v%u, %s %u of ", c->version, c->classic ? "opcode" : "id", c->code);
    ea_text_guid(t, &c->provider);
    ea_text_str(t, c->status == EA_CLASS_KNOWN ? "\n" : ": layout not known\n");
    for (size_t i = 0; i < c->field_count; i++)
        put_field_text(t, c, &c->fields[i]);
    if (c->notes && *c->notes->message) {
        ea_text_str(t, "        message: ");
        put_safe(t, c->notes->message);
        ea_text_char(t, '\n');
    }
}
