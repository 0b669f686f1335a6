/* What a configuration says about ETW sessions: which kernel flags and providers, and with which buffers. Input: a file
 * (config.h) or an import. Used by: "etwagent check", and what starts sessions. Thread: any.
 *
 * Each field is what the row of its name in session_providers.c or sessions.c says. Sizes are bytes, times ns; 0 is
 * Windows' own choice where the row gives no default. */
#ifndef EA_SESSIONS_H
#define EA_SESSIONS_H

#include "config/event_filters.h"
#include "config/watches.h"

enum ea_session_kind { EA_SESSION_USER = 0, EA_SESSION_SYSTEM, EA_SESSION_KERNEL_LOGGER };

enum ea_session_output { EA_OUTPUT_REALTIME = 0, EA_OUTPUT_FILE, EA_OUTPUT_BOTH };

enum ea_session_clock { EA_SESSION_QPC = 0, EA_SESSION_SYSTEM_TIME, EA_SESSION_CPU_CYCLE };

enum ea_session_stale { EA_STALE_STOP = 0, EA_STALE_ADOPT };

enum { EA_POOL_TAGS_MAX = 4 }; /* ETW_MAX_POOLTAG_FILTER (ntwmi.h) */

enum {
    EA_SESSIONS_MAX = 64,
    EA_SYSTEM_SESSIONS_MAX = 6, /* of 8, two are reserved: NT Kernel Logger, Circular Kernel Context Logger */
    EA_PMC_MAX = 4,
    EA_PROVIDERS_MAX = 512,
    EA_SESSION_NAME_MAX = 64
};

typedef struct ea_pmc_sample_config {
    const char *source;
    uint64_t interval;
} ea_pmc_sample_config;

/* One condition on a field of an event's payload; those of one event hold together. */
typedef struct ea_payload_config {
    uint64_t event;
    const char *field, *value;
    int compare; /* index into ea_payload_compares */
} ea_payload_config;

typedef struct ea_provider_config {
    const char *provider, *level, *any, *all;
    ea_strings event_ids, exclude_event_ids, pids, executables, packages, app_ids, containers, properties, arguments,
        stack_event_ids, event_names, exclude_event_names, stack_event_names;
    const char *stack_level, *stack_any, *names_level, *names_any;
    ea_tables payload; /* ea_payload_config */
    int stacks, groups, capture_state;
    int64_t capture_every_ns;
    const char *filter_data;   /* ea_filter_data_parse */
    uint64_t filter_data_type; /* EVENT_FILTER_DESCRIPTOR.Type */
    int registry_values;
} ea_provider_config;

/* How a payload's field is compared: the name here, and PAYLOAD_OPERATOR's number (tdh.h). */
typedef struct ea_payload_compare {
    const char *name;
    uint16_t number;
} ea_payload_compare;

extern const ea_payload_compare ea_payload_compares[]; /* ends with a NULL name */

/* What Windows takes of a provider's filters (evntprov.h, tdh.h). */
enum {
    EA_FILTER_IDS_MAX = 64,            /* MAX_EVENT_FILTER_EVENT_ID_COUNT */
    EA_FILTER_PIDS_MAX = 8,            /* MAX_EVENT_FILTER_PID_COUNT */
    EA_FILTER_BYTES_MAX = 1024,        /* MAX_EVENT_FILTER_DATA_SIZE */
    EA_FILTER_NAMES_BYTES_MAX = 4096,  /* MAX_EVENT_FILTER_EVENT_NAME_SIZE */
    EA_FILTER_NAMES_HEAD_BYTES = 20,   /* EVENT_FILTER_EVENT_NAME in front of its names */
    EA_FILTER_PREDICATES_MAX = 8,      /* MAX_PAYLOAD_PREDICATES, of one event */
    EA_FILTER_PAYLOAD_EVENTS_MAX = 16, /* ours */
};

/* Numbers of a list such as "7", "10-19", in the list's order; at most max of them are stored. Returns how many there
 * are. The list was checked. */
size_t ea_ids_expand(const ea_strings *given, uint16_t *ids, size_t max);

/* Where a session's events are kept on this machine in place of being shipped. */
typedef struct ea_recorder_config {
    uint64_t size_bytes; /* 0: there is none */
    int64_t age_ns;      /* 0: as long as there is room */
} ea_recorder_config;

typedef struct ea_session_config {
    const char *name;
    int kind, output, clock, stale, priority;
    ea_strings flags, stacks, rundown, pool_tags;
    int64_t profile_interval_ns;
    ea_tables pmc_samples; /* ea_pmc_sample_config */
    ea_strings pmc_counters, pmc_events;
    uint64_t buffer_bytes, min_buffers, max_buffers, file_bytes, keep_files;
    int64_t flush_ns, keyframe_ns;
    int per_processor, independent, circular;
    int images;
    int announced_modules;
    uint64_t image_rate_bytes, image_hash_bytes;
    const char *file, *boot_file;
    ea_recorder_config recorder;
    ea_tables filters;   /* ea_filter_config */
    ea_tables watches;   /* ea_watch_config */
    ea_tables providers; /* ea_provider_config */
} ea_session_config;

extern const ea_table ea_session_table;  /* of one ea_session_config */
extern const ea_table ea_provider_table; /* of one ea_provider_config */

/* What rows of one session cannot say: names given twice, too many sessions. sessions: of ea_session_config. */
EA_MUST_CHECK int ea_sessions_check(const ea_tables *sessions, ea_err *err);

/* The kernel flags that a second session needs for the rundown that this one does not log itself; none: it needs no
 * second session. */
void ea_session_rundown_flags(const ea_session_config *session, ea_strings *ret);
/* Whether the session logs what a kernel flag stands for, by the flag or by a keyword of the kernel's providers. The
 * flags were checked. */
int ea_session_has_flag(const ea_session_config *session, const char *name);
/* The eight group masks of the session's flags. The flags were checked. */
void ea_session_masks(const ea_session_config *session, uint32_t *ret_masks);

/* A level by name or number. EA_EINVAL: neither. */
EA_MUST_CHECK int ea_level_parse(const char *text, uint8_t *ret);
/* Keywords: 0x1f, or names joined by + that the caller resolves (then *ret is what the numbers among them make). 0 when
 * text is NULL. EA_EINVAL: an empty part. */
EA_MUST_CHECK int ea_keywords_parse(const char *text, uint64_t *ret, int *ret_has_names);

/* The data of a filter that the provider itself defines: "u32:0x2" (four bytes, little-endian) or "hex:02000000".
 * EA_EINVAL: neither, or more than the capacity. */
EA_MUST_CHECK int ea_filter_data_parse(const char *text, uint8_t *out, size_t capacity, size_t *ret_bytes);

/* The file that a session writes after start number `start`, 1 being the first. Windows begins a file anew, so after
 * another program ended the session, it continues in FILE-2.etl, and so on. A name that is longer than `capacity` is
 * cut. */
void ea_session_file(const ea_session_config *session, uint64_t start, char *out, size_t capacity);

/* 1 when it selects events by process: ids, programs, packages, apps or containers. */
int ea_provider_has_process_filter(const ea_provider_config *provider);

/* Adds sentences that describe what a session would do; ends with a newline. */
void ea_session_describe(const ea_session_config *session, ea_text *t);

/* Writes a session as an item of the list "sessions" of a configuration file: only what differs from the defaults. */
void ea_session_write(const ea_session_config *session, ea_text *t);

#endif
