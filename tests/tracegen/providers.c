/* Providers that are not the kernel: their events come from tables here and in dotnet.c, and from the same row comes
 * everything: the payload's plan, TraceLogging metadata, the manifest that an EventSource logs of itself. See
 * subsystems.h. Sources of the formats: microsoft/go-winio pkg/etw/eventmetadata.go (TraceLogging), microsoft/perfview
 * DynamicTraceEventParser.cs (manifest chunks). */
#include "proto/event/class.h"
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum {
    METADATA_MAX_BYTES = 512,
    FIELDS_MAX = 16,
    MANIFEST_ID = 0xFFFE,
    MANIFEST_OPCODE = 0xFE,
    MANIFEST_CHUNK_BYTES = 8000,
    TRACELOGGING_EVENTS = 3,
    SOURCE_EVENTS = 3,
};

/* Types of fields in rows. tl: TlgIn_t of traceloggingdynamic.h; in_type: of a manifest. */
static const struct {
    const char *name;
    uint8_t type, tl;
    const char *in_type;
} types[] = {{"u8", EA_U8, 4, "win:UInt8"},
             {"u16", EA_U16, 6, "win:UInt16"},
             {"u32", EA_U32, 8, "win:UInt32"},
             {"u64", EA_U64, 10, "win:UInt64"},
             {"hex64", EA_HEX64, 21, "win:UInt64"},
             {"i32", EA_I32, 7, "win:Int32"},
             {"text", EA_UTF16Z, 1, "win:UnicodeString"},
             {"ansi", EA_ANSIZ, 2, "win:AnsiString"},
             {"guid", EA_GUID, 15, "win:GUID"}};

#define TRACELOGGING_PROVIDER                                                                                          \
    "Contoso.Desk.Telemetry", EA_GUID(0x5d8e31a4, 0x70f2, 0x5b06, 0x9c, 0x11, 0x2e, 0x4f, 0x66, 0x0a, 0xd3, 0x95)
#define SOURCE_PROVIDER                                                                                                \
    "Contoso-Desk-Diagnostics", EA_GUID(0x3f0c9d11, 0x8e57, 0x5a3c, 0xb1, 0x42, 0x90, 0x77, 0x1c, 0xe8, 0x24, 0x6b)

/* id 0: TraceLogging, which has no ids */
static const tg_event_row tracelogging_rows[TRACELOGGING_EVENTS] = {
    {TRACELOGGING_PROVIDER, 0, 0, 0, 5, 0, TG_GROUP_TRACELOGGING, 0x1, "DocumentOpened",
     "Path:text Bytes:u64 Millis:u32"},
    {TRACELOGGING_PROVIDER, 0, 0, 0, 4, 1, TG_GROUP_TRACELOGGING, 0x2, "RenderStart", "Frame:u32 Surface:guid"},
    {TRACELOGGING_PROVIDER, 0, 0, 0, 4, 2, TG_GROUP_TRACELOGGING, 0x2, "RenderStop", "Frame:u32 Result:i32 Note:ansi"},
};
static const tg_event_row source_rows[SOURCE_EVENTS] = {
    {SOURCE_PROVIDER, 1, 0xFFFD, 0, 4, 0, TG_GROUP_MANIFEST, 0x1, "RequestStarted", "RequestId:u64 Url:text"},
    {SOURCE_PROVIDER, 2, 0xFFFC, 0, 4, 0, TG_GROUP_MANIFEST, 0x1, "RequestStopped",
     "RequestId:u64 Status:u32 Bytes:u64"},
    {SOURCE_PROVIDER, 3, 0xFFFB, 1, 3, 0, TG_GROUP_MANIFEST, 0x2, "CacheMissed", "Key:text Size:u32"},
};
#define ANNOUNCE_PROVIDER                                                                                              \
    "Etwagent-Announce", EA_GUID(0x0c87d9d8, 0x75dd, 0x5ffe, 0x41, 0xf3, 0xd3, 0x2f, 0x3c, 0x1c, 0xd5, 0x64)
#define ANNOUNCED_MODULE   "ImageBase:hex64 ImageSize:u64 GuidSig:guid Age:u32 FileName:text PdbFileName:text"
#define ANNOUNCED_FUNCTION "MethodStartAddress:hex64 MethodSize:u64 Line:u32 MethodName:text Url:text"

enum announcement { MODULE_LOAD, MODULE_UNLOAD, MODULE_DC_START, FUNCTION_LOAD, FUNCTION_UNLOAD, ANNOUNCEMENTS };

static const tg_event_row announce_rows[ANNOUNCEMENTS] = {
    [MODULE_LOAD] = {ANNOUNCE_PROVIDER, 1, 0, 0, 4, 0, TG_GROUP_IMAGE, 0x1, "ModuleLoad", ANNOUNCED_MODULE},
    [MODULE_UNLOAD] = {ANNOUNCE_PROVIDER, 2, 0, 0, 4, 0, TG_GROUP_IMAGE, 0x1, "ModuleUnload", ANNOUNCED_MODULE},
    [MODULE_DC_START] = {ANNOUNCE_PROVIDER, 3, 0, 0, 4, 0, TG_GROUP_IMAGE, 0x1, "ModuleDCStart", ANNOUNCED_MODULE},
    [FUNCTION_LOAD] = {ANNOUNCE_PROVIDER, 4, 0, 0, 4, 0, TG_GROUP_IMAGE, 0x2, "FunctionLoad", ANNOUNCED_FUNCTION},
    [FUNCTION_UNLOAD] = {ANNOUNCE_PROVIDER, 5, 0, 0, 4, 0, TG_GROUP_IMAGE, 0x2, "FunctionUnload", ANNOUNCED_FUNCTION},
};
static const tg_event_row dns_row = {
    "Microsoft-Windows-DNS-Client",
    EA_GUID(0x1c95126e, 0x7eea, 0x49a9, 0xa3, 0xfe, 0xa3, 0x78, 0xb0, 0x3d, 0xdb, 0x4d),
    3006,
    0,
    0,
    4,
    0,
    TG_GROUP_MANIFEST,
    0x8000000000000000,
    "QueryStarted",
    "QueryName:text QueryType:u32 QueryOptions:u64 ServerList:text IsNetworkQuery:u32 NetworkQueryIndex:u32 "
    "InterfaceIndex:u32 IsAsyncQuery:u32"};

struct tg_providers {
    ea_registry *registry;
    tg_event tracelogging[TRACELOGGING_EVENTS], source[SOURCE_EVENTS], announcements[ANNOUNCEMENTS], dns;
    uint64_t manifest_chunks, next_request;
    uint32_t frame;
};

void tg_make_providers(tg_machine *m) {
    m->providers = tg_new(m, sizeof *m->providers);
}

/* ---- a row becomes an event ---- */

typedef struct split_fields {
    size_t count;
    char names[FIELDS_MAX][32];
    size_t types[FIELDS_MAX];
} split_fields;

static int split(const tg_event_row *row, split_fields *ret, ea_err *err) {
    ret->count = 0;
    for (const char *p = row->fields; *p;) {
        size_t name = strcspn(p, ":"), type = strcspn(p + name + 1, " "), i = 0;
        const char *of = p + name + 1;
        while (i < sizeof types / sizeof *types && (strncmp(types[i].name, of, type) != 0 || types[i].name[type]))
            i++;
        if (i == sizeof types / sizeof *types || ret->count == FIELDS_MAX || name >= sizeof ret->names[0])
            return ea_fail(err, EA_EINVAL, "event %s: its fields are not understood at %s", row->name, p);
        memcpy(ret->names[ret->count], p, name);
        ret->names[ret->count][name] = '\0';
        ret->types[ret->count++] = i;
        p = of + type;
        while (*p == ' ')
            p++;
    }
    return 0;
}

/* The metadata: size, no tags, the name, then name and type of each field. */
static size_t make_metadata(const tg_event_row *row, const split_fields *f, uint8_t *out) {
    size_t n = 2;
    out[n++] = 0;
    memcpy(out + n, row->name, strlen(row->name) + 1);
    n += strlen(row->name) + 1;
    for (size_t i = 0; i < f->count; i++) {
        memcpy(out + n, f->names[i], strlen(f->names[i]) + 1);
        n += strlen(f->names[i]) + 1;
        out[n++] = types[f->types[i]].tl;
    }
    ea_store16(out, (uint16_t)n);
    return n;
}

int tg_event_make(tg_machine *m, const tg_event_row *row, tg_event *ret, ea_err *err) {
    split_fields f;
    int rc = split(row, &f, err);
    if (rc)
        return rc;
    ea_field_row fields[FIELDS_MAX + 1] = {{0}};
    const char *names[FIELDS_MAX + 1] = {0};
    for (size_t i = 0; i < f.count; i++) {
        fields[i] = (ea_field_row){.name = f.names[i], .type = types[f.types[i]].type};
        names[i] = f.names[i];
    }
    const ea_class_row class_row = {
        .name = row->name, .code = row->id, .since = row->version, .until = row->version, .fields = fields};
    const ea_class_head head = {.provider = row->provider,
                                .provider_name = row->provider_name,
                                .name = row->name,
                                .code = row->id,
                                .version = row->version,
                                .pointer_size = (uint8_t)m->scenario->pointer_bytes};
    ea_text description;
    ea_class *class;
    ea_text_init(&description);
    ea_class_describe(&description, &head, &class_row);
    rc = description.failed
             ? ea_fail(err, EA_ENOMEM, "make event %s", row->name)
             : ea_class_parse(&m->arena, (const uint8_t *)description.data, description.len_bytes, &class, err);
    ea_text_deinit(&description);
    if (rc)
        return rc;
    *ret = (tg_event){.provider = row->provider,
                      .id = row->id,
                      .task = row->task,
                      .version = row->version,
                      .level = row->level,
                      .opcode = row->opcode,
                      .keyword = row->keyword,
                      .group = row->group,
                      .name = row->name};
    if (row->group == TG_GROUP_TRACELOGGING) {
        uint8_t bytes[METADATA_MAX_BYTES];
        ret->metadata_bytes = make_metadata(row, &f, bytes);
        ret->metadata = ea_arena_copy(&m->arena, bytes, ret->metadata_bytes);
        size_t name = strlen(row->provider_name) + 1;
        ea_store16(bytes, (uint16_t)(2 + name));
        memcpy(bytes + 2, row->provider_name, name);
        ret->traits_bytes = 2 + name;
        ret->traits = ea_arena_copy(&m->arena, bytes, ret->traits_bytes);
        if (!ret->metadata || !ret->traits)
            return ea_fail(err, EA_ENOMEM, "make event %s", row->name);
    }
    return tg_plan_make(&ret->plan, class, names, err);
}

int tg_providers_ready(tg_machine *m, ea_err *err) {
    tg_providers *p = m->providers;
    int rc = tg_event_make(m, &dns_row, &p->dns, err);
    for (int i = 0; !rc && i < TRACELOGGING_EVENTS; i++)
        rc = tg_event_make(m, &tracelogging_rows[i], &p->tracelogging[i], err);
    for (int i = 0; !rc && i < SOURCE_EVENTS; i++)
        rc = tg_event_make(m, &source_rows[i], &p->source[i], err);
    for (int i = 0; !rc && i < ANNOUNCEMENTS; i++)
        rc = tg_event_make(m, &announce_rows[i], &p->announcements[i], err);
    return rc;
}

/* ---- the manifest ---- */

static void write_manifest(ea_text *t) {
    char guid[37];
    ea_guid_format(&source_rows[0].provider, guid);
    ea_text_printf(
        t,
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\n <instrumentation "
        "xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\">\n  <events "
        "xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\n<provider name=\"%s\" guid=\"{%s}\" "
        "resourceFileName=\"%s\" messageFileName=\"%s\" symbol=\"ContosoDeskDiagnostics\">\n <keywords>\n  <keyword "
        "name=\"Requests\" message=\"$(string.keyword_Requests)\" mask=\"0x1\"/>\n  <keyword name=\"Cache\" "
        "message=\"$(string.keyword_Cache)\" mask=\"0x2\"/>\n </keywords>\n <tasks>\n",
        source_rows[0].provider_name, guid, source_rows[0].provider_name, source_rows[0].provider_name);
    for (int i = 0; i < SOURCE_EVENTS; i++)
        ea_text_printf(t, "  <task name=\"%s\" message=\"$(string.task_%s)\" value=\"%u\"/>\n", source_rows[i].name,
                       source_rows[i].name, source_rows[i].task);
    ea_text_str(t, " </tasks>\n <events>\n");
    for (int i = 0; i < SOURCE_EVENTS; i++)
        ea_text_printf(t,
                       "  <event value=\"%u\" version=\"%u\" level=\"%s\" keywords=\"%s\" task=\"%s\" "
                       "template=\"%sArgs\"/>\n",
                       source_rows[i].id, source_rows[i].version,
                       source_rows[i].level == 3 ? "win:Warning" : "win:Informational",
                       source_rows[i].keyword == 1 ? "Requests" : "Cache", source_rows[i].name, source_rows[i].name);
    ea_text_str(t, " </events>\n <templates>\n");
    for (int i = 0; i < SOURCE_EVENTS; i++) {
        split_fields f;
        if (split(&source_rows[i], &f, NULL))
            continue;
        ea_text_printf(t, "  <template tid=\"%sArgs\">\n", source_rows[i].name);
        for (size_t k = 0; k < f.count; k++)
            ea_text_printf(t, "   <data name=\"%s\" inType=\"%s\"/>\n", f.names[k], types[f.types[k]].in_type);
        ea_text_str(t, "  </template>\n");
    }
    ea_text_str(t, " </templates>\n</provider>\n</events>\n</instrumentation>\n<localization>\n <resources "
                   "culture=\"en-US\">\n  <stringTable>\n   <string id=\"keyword_Requests\" value=\"Requests\"/>\n   "
                   "<string id=\"keyword_Cache\" value=\"Cache\"/>\n");
    for (int i = 0; i < SOURCE_EVENTS; i++)
        ea_text_printf(t, "   <string id=\"task_%s\" value=\"%s\"/>\n", source_rows[i].name, source_rows[i].name);
    ea_text_str(t, "  </stringTable>\n </resources>\n</localization>\n</instrumentationManifest>");
}

void tg_provider_rundown(tg_machine *m, tg_cpu *cpu) {
    if (!tg_records(m->trace, TG_GROUP_MANIFEST))
        return;
    ea_text text;
    ea_text_init(&text);
    write_manifest(&text);
    size_t chunks = (text.len_bytes + MANIFEST_CHUNK_BYTES - 1) / MANIFEST_CHUNK_BYTES;
    uint8_t payload[8 + MANIFEST_CHUNK_BYTES];
    for (size_t i = 0; i < chunks && !text.failed; i++) {
        size_t at = i * MANIFEST_CHUNK_BYTES, n = text.len_bytes - at;
        n = n > MANIFEST_CHUNK_BYTES ? MANIFEST_CHUNK_BYTES : n;
        const uint8_t head[8] = {1, 1, 0, 0x5B, (uint8_t)chunks, (uint8_t)(chunks >> 8), (uint8_t)i, (uint8_t)(i >> 8)};
        memcpy(payload, head, sizeof head);
        memcpy(payload + sizeof head, text.data + at, n);
        ea_record r = {.provider = source_rows[0].provider,
                       .id = MANIFEST_ID,
                       .opcode = MANIFEST_OPCODE,
                       .task = 0xFFFE,
                       .keyword = 0xFFFFFFFFFFFF,
                       .payload = payload,
                       .payload_bytes = (uint16_t)(sizeof head + n)};
        tg_context who = tg_who(m, cpu, cpu->idle, tg_stamp(m, cpu, NULL));
        tg_emit_raw(m->trace, &r, &who, &m->providers->manifest_chunks);
    }
    m->failed |= text.failed;
    ea_text_deinit(&text);
}

/* ---- events ---- */

static void log_event(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_event *e, const ea_guid *activity,
                      const tg_v *values) {
    tg_event_extra extra = {.activity = activity};
    tg_inner_stack s = tg_stack_inside(m, cpu, t);
    if (s.inside) {
        extra.frames = s.inside->frames;
        extra.frame_count = s.inside->count;
        extra.key = s.key;
        extra.match_id = s.match_id;
    }
    int64_t at = tg_stamp(m, cpu, t);
    tg_context who = tg_who(m, cpu, t, at);
    int logged = tg_emit_event(m->trace, e, &who, values, &extra);
    if (s.inside && tg_records(m->trace, e->group))
        tg_log_stack_inside(m, cpu, t, &s, at, logged);
}

void tg_event_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    static const char uebersicht[] = "C:\\Users\\person\\Documents\\\xC3\x9C"
                                     "bersicht.docx";
    const char *const documents[] = {"C:\\Users\\person\\notes.txt", uebersicht, "\\\\files\\team\\plan.xlsx"};
    tg_providers *p = m->providers;
    ea_guid guid;
    ea_store64(guid.bytes, tg_roll(&m->dice));
    ea_store64(guid.bytes + 8, tg_roll(&m->dice));
    /* drawn one by one: C does not define the order of the calls in an initializer */
    uint64_t kind = tg_below(&m->dice, 4), document = tg_below(&m->dice, 3), bytes = tg_below(&m->dice, 1 << 22);
    uint64_t ms = tg_below(&m->dice, 900);
    if (kind == 0) {
        log_event(m, cpu, t, &p->tracelogging[0], NULL,
                  (const tg_v[]){tg_text(documents[document]), tg_n(bytes), tg_n(ms)});
        tg_print(m, cpu, t, documents[document]);
    } else if (kind == 1) {
        log_event(m, cpu, t, &p->tracelogging[1], &guid, (const tg_v[]){tg_n(++p->frame), tg_bytes(guid.bytes, 16)});
        tg_spend(m, cpu, 50, 2000);
        log_event(m, cpu, t, &p->tracelogging[2], &guid, (const tg_v[]){tg_n(p->frame), tg_n(0), tg_text("presented")});
    } else {
        uint64_t id = ++p->next_request;
        log_event(m, cpu, t, &p->source[0], &guid, (const tg_v[]){tg_n(id), tg_text("https://desk.example/api/items")});
        if (ms < 180)
            log_event(m, cpu, t, &p->source[2], &guid, (const tg_v[]){tg_text("items"), tg_n(bytes % 5000)});
        tg_spend(m, cpu, 50, 3000);
        log_event(m, cpu, t, &p->source[1], &guid,
                  (const tg_v[]){tg_n(id), tg_n(ms % 20 ? 200 : 503), tg_n(bytes % 60000)});
    }
}

void tg_dns_query(tg_machine *m, tg_cpu *cpu, tg_thread *t, const char *name) {
    log_event(m, cpu, t, &m->providers->dns, NULL,
              (const tg_v[]){tg_text(name), tg_n(tg_chance(&m->dice, 60) ? 1 : 28), tg_n(0x40026000), tg_text(""),
                             tg_n(1), tg_n(0), tg_n(0), tg_n(1)});
}

/* The function is named like the plugin: those of several plugins lie at one address. */
int tg_announce(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_image *i) {
    tg_event *events = m->providers->announcements;
    int is_load = form == TG_IMAGE_LOAD, is_unload = form == TG_IMAGE_UNLOAD;
    char name[64];
    snprintf(name, sizeof name, "%.*s_render", (int)strcspn(i->file, "."), i->file);
    const tg_v of_function[] = {tg_n(i->base + 0x1000), tg_n(TG_PLUGIN_BYTES / 4), tg_n(17), tg_text(name),
                                tg_text("render.plug")};
    const tg_v of_module[] = {tg_n(i->base),    tg_n(i->size_bytes), tg_bytes(i->pdb_guid.bytes, 16),
                              tg_n(i->pdb_age), tg_text(i->path),    tg_text(i->pdb_name)};
    if (form == TG_IMAGE_DCEND) /* programs are asked for their modules at a session's beginning alone */
        return 0;
    if (is_unload)
        tg_emit_event(m->trace, &events[FUNCTION_UNLOAD], who, of_function, NULL);
    int logged = tg_emit_event(m->trace,
                               &events[is_load     ? MODULE_LOAD
                                       : is_unload ? MODULE_UNLOAD
                                                   : MODULE_DC_START],
                               who, of_module, NULL);
    if (is_load)
        tg_emit_event(m->trace, &events[FUNCTION_LOAD], who, of_function, NULL);
    return logged;
}

void tg_providers_tell(tg_machine *m) {
    tg_providers *p = m->providers;
    for (int i = 0; m->scenario->announced && i < ANNOUNCEMENTS; i++)
        tg_truth_provider_event(m->truth, &p->announcements[i]);
    tg_truth_provider_event(m->truth, &p->dns);
    for (int i = 0; i < TRACELOGGING_EVENTS; i++)
        tg_truth_provider_event(m->truth, &p->tracelogging[i]);
    for (int i = 0; i < SOURCE_EVENTS; i++)
        tg_truth_provider_event(m->truth, &p->source[i]);
    tg_event chunks = {
        .provider = source_rows[0].provider, .id = MANIFEST_ID, .name = "ManifestData", .count = p->manifest_chunks};
    tg_truth_provider_event(m->truth, &chunks);
    tg_printing_tell(m);
    tg_stacks_tell(m);
    tg_dotnet_tell(m);
}
