/* Asking one plug-in, in a process of its own. See plugin.h. */
#include "proto/base/platform.h"
#include "proto/event/class.h"
#include "proto/event/properties.h"
#include "proto/event/schema/cache.h"
#include "service/decode/plugin.h"
#include "service/decode/plugin_ask.h"

enum { PROPERTIES_MAX = EA_FIELDS_MAX, MEMORY_BYTES = 64 << 20 };

typedef struct probe {
    ea_schemas *schemas;
    ea_arena arena;
    ea_err *err;
    int rc;
} probe;

static int plugin_probe_refuse(probe *p, const etwagent_class *c, const char *why) {
    if (!p->rc)
        p->rc = ea_fail(p->err, EA_EFORMAT, "class '%.80s': %s", c->name ? c->name : "", why);
    return -1;
}

static size_t count_fields(const etwagent_field *fields) {
    size_t n = 0;
    while (fields && fields[n].name && n <= PROPERTIES_MAX)
        n++;
    return n;
}

/* The number of the earlier field of that name, from the first of its scope on; -1 for none wanted, -2 for none found.
 */
static int plugin_probe_number_of(const ea_property *properties, size_t from, size_t end, const char *name) {
    for (size_t i = from; name && i < end; i++)
        if (strcmp(properties[i].name, name) == 0)
            return (int)i;
    return name ? -2 : -1;
}

static const ea_enum *names_of(probe *p, const etwagent_names *names) {
    size_t n = 0;
    while (names->entries && names->entries[n].name)
        n++;
    ea_map_entry *entries = ea_arena_zalloc(&p->arena, n + 1, sizeof *entries);
    ea_enum *map = ea_arena_zalloc(&p->arena, 1, sizeof *map);
    if (!entries || !map)
        return NULL;
    for (size_t i = 0; i < n; i++)
        entries[i] = (ea_map_entry){names->entries[i].value, names->entries[i].name};
    *map = (ea_enum){
        .name = names->name ? names->name : "", .is_flags = names->is_flags != 0, .count = n, .entries = entries};
    return map;
}

/* Puts a list of fields at properties[at ...]; the fields of structs are put at *end and after it. Returns NULL, or the
 * error. */
static const char *plugin_probe_put_fields(probe *p, const etwagent_field *fields, size_t count,
                                           ea_property *properties, size_t at, size_t *end, int depth) {
    if (depth > EA_DEPTH_MAX)
        return "structs are nested too deep";
    for (size_t i = 0; i < count; i++) {
        const etwagent_field *f = &fields[i];
        ea_property *to = &properties[at + i];
        *to = (ea_property){.name = f->name,
                            .in_type = f->in_type,
                            .out_type = f->out_type,
                            .count = f->count,
                            .length = f->length,
                            .count_from = plugin_probe_number_of(properties, at, at + i, f->count_from),
                            .length_from = plugin_probe_number_of(properties, at, at + i, f->length_from),
                            .map = f->names ? names_of(p, f->names) : NULL};
        if (to->count_from == -2 || to->length_from == -2)
            return "a field takes its count or length from one that is not before it";
        if (!f->members)
            continue;
        size_t members = count_fields(f->members), first = *end;
        if (!members || members > PROPERTIES_MAX - *end)
            return "a struct has no members, or there are too many fields";
        *end += members;
        to->is_struct = 1;
        to->first_member = (unsigned)first;
        to->member_count = (unsigned)members;
        const char *wrong = plugin_probe_put_fields(p, f->members, members, properties, first, end, depth + 1);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static int plugin_probe_add_class(void *context, const etwagent_class *c) {
    probe *p = context;
    ea_guid guid;
    size_t top = count_fields(c->fields), end = top, which;
    const char *wrong = NULL;
    if (!c->provider || ea_guid_parse(c->provider, &guid))
        return plugin_probe_refuse(p, c, "provider is no GUID such as 22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716");
    if (top > PROPERTIES_MAX || c->first_version > c->last_version || (c->is_classic && c->code > UINT8_MAX))
        return plugin_probe_refuse(
            p, c, "it has too many fields, its first version is above its last one, or its opcode above 255");
    ea_property *properties = ea_arena_zalloc(&p->arena, PROPERTIES_MAX + 1, sizeof *properties);
    ea_field *fields = ea_arena_zalloc(&p->arena, EA_FIELDS_MAX, sizeof *fields);
    if (!properties || !fields)
        return plugin_probe_refuse(p, c, "out of memory");
    wrong = plugin_probe_put_fields(p, c->fields, top, properties, 0, &end, 0);
    int n = wrong ? -1 : ea_properties_to_fields(properties, end, top, fields, &wrong, &which);
    if (n == EA_FIELDS_MAX && c->decode)
        wrong = "it has too many fields";
    if (n < 0 || wrong)
        return plugin_probe_refuse(p, c, wrong);
    if (c->decode)
        fields[n++] = (ea_field){.name = "RawPayload", .type = EA_BYTES, .count = EA_COUNT_REST, .count_field = -1};
    ea_class_head head = {.provider = guid,
                          .provider_name = c->provider_name ? c->provider_name : "",
                          .name = c->name ? c->name : "",
                          .code = c->code,
                          .classic = c->is_classic != 0,
                          .pointer_size = 8,
                          .unfolded = c->decode != NULL};
    ea_class_notes notes = {
        .message = c->message ? c->message : "", .level = "", .channel = "", .task = "", .opcode = ""};
    const ea_schema_provider provider = {
        .guid = guid, .name = head.provider_name, .origin = "", .message = "", .layer = EA_SCHEMA_PLUGIN};
    if (ea_schemas_add_provider(p->schemas, &provider, NULL))
        return plugin_probe_refuse(p, c, "out of memory");
    for (unsigned v = c->first_version; v <= c->last_version; v++) {
        ea_text description;
        ea_err why;
        ea_text_init(&description);
        head.version = (uint8_t)v;
        ea_class_describe_fields(&description, &head, fields, (size_t)n, &notes);
        int rc = description.failed ? EA_ENOMEM
                                    : ea_schemas_add(p->schemas, EA_SCHEMA_PLUGIN, (const uint8_t *)description.data,
                                                     description.len_bytes, NULL, &why);
        if (!rc && c->decode)
            wrong = ea_plugin_try((const uint8_t *)description.data, description.len_bytes, c->decode);
        ea_text_deinit(&description);
        if (rc)
            return plugin_probe_refuse(p, c, rc == EA_ENOMEM ? "out of memory" : why.message);
        if (wrong)
            return plugin_probe_refuse(p, c, wrong);
    }
    return 0;
}

int ea_plugin_probe(const char *path, ea_text *ret, ea_err *err) {
    probe p = {.err = err};
    ea_library *library = NULL;
    ea_err why; /* what add_class said comes before what the plug-in made of it */
    ea_arena_init(&p.arena, MEMORY_BYTES);
    int rc = ea_schemas_create(&p.schemas, 0, err);
    if (!rc && (rc = ea_plugin_ask(path, plugin_probe_add_class, &p, &library, &why)) != 0 && !p.rc)
        ea_fail(err, rc, "%s", why.message);
    if (p.rc)
        rc = p.rc;
    if (!rc)
        rc = ea_schema_cache_write(p.schemas, EA_SCHEMA_PLUGIN, ret, err);
    ea_arena_deinit(&p.arena);
    ea_schemas_destroy(p.schemas);
    ea_library_close(library);
    return rc;
}
