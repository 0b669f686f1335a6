/* See rules_coverage.h. */
#include "collector/app/rules_coverage.h"

#include "collector/query/scan/archive.h"
#include "config/config.h"
#include "config/kernel_flags.h"
#include "config/sessions.h"
#include "proto/event/class_names.h"

#include <stdlib.h>
#include <string.h>

const char *const ec_coverage_words[EC_COVERAGE_VERDICTS] = {"never", "partly", "full"};

typedef struct coverage_source {
    ea_strings channels;
    const char *query;
} coverage_source;

typedef struct coverage_config {
    ea_tables sessions, sources;
} coverage_config;

static const ea_option SOURCE_ROWS[] = {
    {.name = "eventlog",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(coverage_source, channels),
     .help = "channels of the event log"},
    {.name = "query", .type = EA_OPT_STRING, .offset = offsetof(coverage_source, query), .help = "which records"},
    {.name = NULL},
};

static const ea_table SOURCE_TABLE = {.summary = "Files, or channels of the event log.",
                                      .rows = SOURCE_ROWS,
                                      .size = sizeof(coverage_source),
                                      .passes_unknown = 1};

static const ea_option COVERAGE_ROWS[] = {
    {.name = "sessions",
     .type = EA_OPT_TABLES,
     .offset = offsetof(coverage_config, sessions),
     .table = &ea_session_table,
     .max = EA_SESSIONS_MAX,
     .help = "ETW sessions"},
    {.name = "sources",
     .type = EA_OPT_TABLES,
     .offset = offsetof(coverage_config, sources),
     .table = &SOURCE_TABLE,
     .help = "files, and channels of the event log"},
    {.name = NULL},
};

static const ea_table COVERAGE_TABLE = {
    .summary = "An agent's configuration.",
    .rows = COVERAGE_ROWS,
    .size = sizeof(coverage_config),
    .passes_unknown = 1,
};

struct ec_coverage {
    ea_sigma_tables *tables;
    uint8_t *states; /* enum ec_coverage_state, by a row's number */
    int has_config, has_host;
    ea_config *file; /* owns what config points to */
    coverage_config config;
    ec_archive *archive;
    const ea_class *const *classes; /* of the host */
    size_t class_count;
};

static int coverage_has_flag(const ec_coverage *c, const char *name, size_t len) {
    const ea_kernel_flag *flag = ea_kernel_flag_find(name, len);
    const ea_session_config *sessions = c->config.sessions.items;
    for (size_t i = 0; flag && i < c->config.sessions.count; i++) {
        uint32_t masks[EA_KERNEL_MASK_WORDS], bits = ea_kernel_flag_bits(flag->mask);
        ea_session_masks(&sessions[i], masks);
        if ((masks[ea_kernel_flag_word(flag->mask)] & bits) == bits)
            return 1;
    }
    return 0;
}

static int coverage_has_images(const ec_coverage *c) {
    const ea_session_config *sessions = c->config.sessions.items;
    for (size_t i = 0; i < c->config.sessions.count; i++)
        if (sessions[i].images)
            return 1;
    return 0;
}

static int coverage_has_values(const ec_coverage *c) {
    const ea_session_config *sessions = c->config.sessions.items;
    for (size_t i = 0; i < c->config.sessions.count; i++) {
        const ea_provider_config *p = sessions[i].providers.items;
        for (size_t k = 0; k < sessions[i].providers.count; k++)
            if (p[k].registry_values)
                return 1;
    }
    return 0;
}

static int coverage_lists_id(const ea_strings *given, uint16_t id) {
    uint16_t ids[EA_FILTER_IDS_MAX];
    size_t count = ea_ids_expand(given, ids, EA_FILTER_IDS_MAX);
    for (size_t i = 0; i < count && i < EA_FILTER_IDS_MAX; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* 1 when a session enables the provider, and none of its filters by ids drops the row's first event. */
static int coverage_has_provider(const ec_coverage *c, const ea_sigma_row *row, const char *name, size_t len) {
    static const ea_guid NO_GUID;
    const ea_session_config *sessions = c->config.sessions.items;
    const char *slash = strchr(row->events, '/');
    uint64_t id = 0;
    int has_id = 0;
    if (slash) {
        const char *at = slash + 1;
        has_id = ea_digits_parse(&at, 10, &id) && (!*at || *at == '+' || *at == ',');
    }
    char full[256];
    if (len >= sizeof full)
        return 0;
    memcpy(full, name, len);
    full[len] = 0;
    for (size_t i = 0; i < c->config.sessions.count; i++) {
        const ea_provider_config *p = sessions[i].providers.items;
        for (size_t k = 0; k < sessions[i].providers.count; k++)
            if (ea_provider_is_named(p[k].provider, strlen(p[k].provider), full, &NO_GUID) &&
                (!has_id || ((!p[k].event_ids.count || coverage_lists_id(&p[k].event_ids, (uint16_t)id)) &&
                             !coverage_lists_id(&p[k].exclude_event_ids, (uint16_t)id))))
                return 1;
    }
    return 0;
}

/* 1 when a source reads all records of the channel. */
static int coverage_has_channel(const ec_coverage *c, const char *name, size_t len) {
    const coverage_source *sources = c->config.sources.items;
    for (size_t i = 0; i < c->config.sources.count; i++)
        for (size_t k = 0; !sources[i].query && k < sources[i].channels.count; k++)
            if (strlen(sources[i].channels.items[k]) == len && memcmp(sources[i].channels.items[k], name, len) == 0)
                return 1;
    return 0;
}

/* 1 when the row is of a service whose channel a source reads. */
static int coverage_has_service(const ec_coverage *c, const ea_sigma_row *row) {
    size_t count;
    const ea_sigma_source *all = ea_sigma_sources(c->tables, &count);
    for (size_t i = 0; i < count; i++)
        if (all[i].is_service && row >= all[i].rows && row < all[i].rows + all[i].row_count)
            return coverage_has_channel(c, all[i].channel, strlen(all[i].channel));
    return 0;
}

int ec_coverage_lacks(const ec_coverage *c, const ea_sigma_row *row, enum ea_sigma_option kind, const char *value,
                      size_t value_len) {
    if (kind == EA_SIGMA_NONE)
        return 1;
    if (!c->has_config)
        return 0;
    switch (kind) {
    case EA_SIGMA_FLAGS:
        return !coverage_has_flag(c, value, value_len);
    case EA_SIGMA_IMAGES:
        return !coverage_has_images(c);
    case EA_SIGMA_PROVIDER:
        return !coverage_has_provider(c, row, value, value_len) && !coverage_has_service(c, row);
    case EA_SIGMA_VALUES:
        return !coverage_has_values(c);
    case EA_SIGMA_LOG:
        return !coverage_has_channel(c, value, value_len);
    case EA_SIGMA_POLICY:
    case EA_SIGMA_PART:
    case EA_SIGMA_NONE:
        break;
    }
    return 0;
}

/* An event of a log: the agent gives those of .evtx files the field Channel. */
static int coverage_is_logged(const ea_class *c) {
    for (uint16_t i = 0; i < c->field_count; i++)
        if (strcmp(c->fields[i].name, "Channel") == 0)
            return 1;
    return 0;
}

static int coverage_host_has_class(const ec_coverage *c, const char *name, size_t len) {
    char pattern[256];
    if (len >= sizeof pattern)
        return 0;
    memcpy(pattern, name, len);
    pattern[len] = 0;
    int is_any = strcmp(pattern, "*/*") == 0;
    for (size_t i = 0; i < c->class_count; i++)
        if (is_any ? coverage_is_logged(c->classes[i]) : ea_class_is_named(pattern, c->classes[i]))
            return 1;
    return 0;
}

/* 1 when the host has sent all classes of one of the row's alternatives: "A+B,C+B". */
static int coverage_host_has(const ec_coverage *c, const char *events) {
    int is_whole = 1;
    for (const char *at = events;;) {
        size_t len = strcspn(at, "+,");
        is_whole &= coverage_host_has_class(c, at, len);
        at += len;
        if (*at != '+') {
            if (is_whole)
                return 1;
            if (!*at)
                return 0;
            is_whole = 1;
        }
        at++;
    }
}

static enum ec_coverage_state coverage_state_of(const ec_coverage *c, const ea_sigma_row *row) {
    const char *at = row->option, *text, *value;
    size_t len, value_len;
    enum ea_sigma_option kind;
    enum ec_coverage_state state = EC_COVERAGE_THERE;
    while (ea_sigma_option_next(&at, &kind, &text, &len, &value, &value_len)) {
        if (ec_coverage_lacks(c, row, kind, value, value_len))
            return EC_COVERAGE_MISSING;
        if (kind == EA_SIGMA_PART)
            state = EC_COVERAGE_PART;
    }
    return c->has_host && !coverage_host_has(c, row->events) ? EC_COVERAGE_MISSING : state;
}

static int coverage_open_host(ec_coverage *c, const char *store, const char *host, ea_err *err) {
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    int rc = ec_archive_open(&c->archive, store, NULL, host, err);
    if (!rc)
        rc = ec_archive_streams(c->archive, &streams, &count, err);
    if (!rc && !count)
        rc = ec_unknown_host(host, err);
    if (!rc)
        rc = ec_archive_classes(c->archive, &c->classes, &c->class_count, err);
    c->has_host = 1;
    return rc;
}

static void coverage_note(void *arg, const char *line) {
    fprintf(arg, "%s\n", line);
}

int ec_coverage_open(ec_coverage **ret, const char *config, const char *store, const char *host, ea_err *err) {
    ec_coverage *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "read the tables of Sigma fields");
    int rc = ea_sigma_tables_create(&c->tables, ea_sigma_files, err);
    if (!rc && config) {
        rc = ea_config_read(&c->file, config, &COVERAGE_TABLE, &c->config, coverage_note, stderr, err);
        c->has_config = 1;
    }
    if (!rc && host)
        rc = coverage_open_host(c, store, host, err);
    size_t source_count = 0;
    if (!rc && !(c->states = calloc(ea_sigma_row_count(c->tables) + 1, 1)))
        rc = ea_fail(err, EA_ENOMEM, "read the tables of Sigma fields");
    const ea_sigma_source *sources = rc ? NULL : ea_sigma_sources(c->tables, &source_count);
    for (size_t i = 0; i < source_count; i++)
        for (size_t k = 0; k < sources[i].row_count; k++)
            c->states[sources[i].rows[k].number] = (uint8_t)coverage_state_of(c, &sources[i].rows[k]);
    if (rc) {
        ec_coverage_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void ec_coverage_close(ec_coverage *c) {
    if (!c)
        return;
    ec_archive_close(c->archive);
    ea_config_destroy(c->file);
    ea_sigma_tables_destroy(c->tables);
    free(c->states);
    free(c);
}

const ea_sigma_source *ec_coverage_source(const ec_coverage *c, const ea_rule_info *rule) {
    return ea_sigma_source_find(c->tables, rule->product, rule->category, rule->service);
}

enum ec_coverage_state ec_coverage_field(const ec_coverage *c, const ea_sigma_source *s, const char *field,
                                         const ea_sigma_row **ret_row) {
    enum ec_coverage_state best = EC_COVERAGE_MISSING;
    const ea_sigma_row *found = NULL;
    for (const ea_sigma_row *r = NULL; (r = ea_sigma_row_next(s, field, r));) {
        enum ec_coverage_state state = (enum ec_coverage_state)c->states[r->number];
        if (!found || state > best) {
            found = r;
            best = state;
        }
    }
    *ret_row = found;
    return best;
}

enum ec_coverage_state ec_coverage_events(const ec_coverage *c, const ea_sigma_source *s,
                                          const ea_sigma_row **ret_row) {
    for (size_t i = 0; i < s->row_count; i++)
        if (c->states[s->rows[i].number] != EC_COVERAGE_MISSING) {
            *ret_row = &s->rows[i];
            return EC_COVERAGE_THERE;
        }
    *ret_row = s->row_count ? &s->rows[0] : NULL;
    return EC_COVERAGE_MISSING;
}

typedef struct coverage_question {
    const ec_coverage *c;
    const ea_sigma_source *source;
} coverage_question;

static int coverage_has(void *arg, const char *field) {
    const coverage_question *q = arg;
    const ea_sigma_row *row;
    return ec_coverage_field(q->c, q->source, field, &row) != EC_COVERAGE_MISSING;
}

int ec_coverage_of_rule(const ec_coverage *c, const ea_rules *rules, uint32_t rule, enum ec_coverage_verdict *ret,
                        ea_err *err) {
    const ea_rule_info *info = ea_rules_info(rules, rule);
    const ea_sigma_row *row;
    coverage_question q = {c, ec_coverage_source(c, info)};
    int is_full = 1, can_hold = 0;
    if (!q.source || ec_coverage_events(c, q.source, &row) == EC_COVERAGE_MISSING) {
        *ret = EC_COVERAGE_NEVER;
        return 0;
    }
    for (uint32_t i = 0; i < info->field_count; i++)
        is_full &= ec_coverage_field(c, q.source, info->fields[i], &row) == EC_COVERAGE_THERE;
    int rc = is_full ? 0 : ea_rules_can_hold(rules, rule, coverage_has, &q, &can_hold);
    if (rc)
        return ea_fail(err, rc, "judge the rule of %.200s, line %u", info->file, (unsigned)info->line);
    *ret = is_full ? EC_COVERAGE_FULL : can_hold ? EC_COVERAGE_PARTLY : EC_COVERAGE_NEVER;
    return 0;
}
