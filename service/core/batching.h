/* Options of the commands that make batches, as rows for a command line and for a configuration file. Input: a command
 * line, a file. Used by: pipeline.h. Thread: the main one. */
#ifndef EA_CORE_BATCHING_H
#define EA_CORE_BATCHING_H

#include "proto/base/cli.h"
#include "proto/wire/wire.h"
#include "service/core/pipeline.h"

typedef struct ea_batching_options {
    uint64_t batch_events, keyframe_events, level, threads;
    int64_t keyframe_ns;
    const char *dictionary; /* a file, see ea_batching_dictionary */
    uint64_t keyframe_bytes;
    uint64_t cpu_percent; /* 0: no bound */
} ea_batching_options;

/* Rows for an option table whose struct has an ea_batching_options at offset base. */
#define EA_BATCHING_OPTIONS(base)                                                                                      \
    {.name = "batch-events",                                                                                           \
     .argument = "N",                                                                                                  \
     .type = EA_OPT_U64,                                                                                               \
     .offset = (base) + offsetof(ea_batching_options, batch_events),                                                   \
     .fallback = "16384",                                                                                              \
     .min = 1,                                                                                                         \
     .max = EA_BATCH_MAX_EVENTS,                                                                                       \
     .help = "events in a batch"},                                                                                     \
        {.name = "keyframe-events",                                                                                    \
         .argument = "N",                                                                                              \
         .type = EA_OPT_U64,                                                                                           \
         .offset = (base) + offsetof(ea_batching_options, keyframe_events),                                            \
         .fallback = "0",                                                                                              \
         .help =                                                                                                       \
             "a keyframe (all processes, threads, modules, and names of open files) after every N events; 0: none"},   \
        {.name = "keyframe-every",                                                                                     \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_DURATION,                                                                                      \
         .offset = (base) + offsetof(ea_batching_options, keyframe_ns),                                                \
         .fallback = "0",                                                                                              \
         .help = "interval between keyframes, in event time; the first is written 1s after the first event; 0: none"}, \
        {.name = "keyframe-bytes",                                                                                     \
         .argument = "SIZE",                                                                                           \
         .type = EA_OPT_SIZE,                                                                                          \
         .offset = (base) + offsetof(ea_batching_options, keyframe_bytes),                                             \
         .fallback = "32MiB",                                                                                          \
         .min = 65536,                                                                                                 \
         .max = (uint64_t)1 << 34,                                                                                     \
         .help =                                                                                                       \
             "most memory for the tables that keyframes are made from; at the limit rows are left out, and counted"},  \
        {.name = "level",                                                                                              \
         .argument = "N",                                                                                              \
         .type = EA_OPT_U64,                                                                                           \
         .offset = (base) + offsetof(ea_batching_options, level),                                                      \
         .fallback = "1",                                                                                              \
         .min = 1,                                                                                                     \
         .max = 19,                                                                                                    \
         .help = "zstd level"},                                                                                        \
        {.name = "dictionary",                                                                                         \
         .argument = "FILE",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_batching_options, dictionary),                                                 \
         .help = "a zstd dictionary for small batches ('etwagent dictionary train' makes one); default: none"},        \
        {.name = "cpu-percent",                                                                                        \
         .argument = "N",                                                                                              \
         .type = EA_OPT_U64,                                                                                           \
         .offset = (base) + offsetof(ea_batching_options, cpu_percent),                                                \
         .fallback = "0",                                                                                              \
         .max = 100 * 1024,                                                                                            \
         .help = "most processor time, in hundredths of one processor; beyond it files are read later; 0: no bound"},  \
    {                                                                                                                  \
        .name = "threads", .argument = "N", .type = EA_OPT_U64,                                                        \
        .offset = (base) + offsetof(ea_batching_options, threads), .fallback = "1", .min = 1,                          \
        .max = EA_PIPELINE_ENCODERS_MAX, .help = "encoder threads"                                                     \
    }

/* Reads the dictionary that the options name: *ret_data (the caller frees it) is NULL when they name none. */
EA_MUST_CHECK int ea_batching_dictionary(const ea_batching_options *o, uint8_t **ret_data, size_t *ret_len_bytes,
                                         ea_err *err);

#endif
