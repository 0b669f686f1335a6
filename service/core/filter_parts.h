/* The memory of filters, and what their files call of each other. See filter.h. */
#ifndef EA_CORE_FILTER_PARTS_H
#define EA_CORE_FILTER_PARTS_H

#include "proto/base/counters.h"
#include "proto/base/map.h"
#include "proto/lang/lang.h"
#include "service/core/filter.h"

enum { FILTER_KEY_MIN_BYTES = 16, FILTER_KEY_MAX_BYTES = 4096, LIMIT_KEYS = 65536, REPEAT_KEYS = 65536 };

/* A program and its run. */
typedef struct filter_program {
    ea_lang_program *program; /* NULL: none */
    ea_lang_run *run;
} filter_program;

typedef struct filter {
    filter_program classes;                            /* a program of its classes, for ea_lang_concerns alone */
    filter_program explicit;                           /* the same of the classes that are no pattern */
    filter_program where, drop, repeat, sample, limit; /* the last three print their value */
    uint64_t sample_n, limit_n;                        /* 0: none */
    ea_u64_map counts;  /* limit: hash of a value, with the seed -> events of the second */
    uint64_t seed;      /* random */
    int64_t second;     /* whose counts these are */
    int64_t repeat_ns;  /* 0: none */
    ea_u64_map kept[2]; /* repeat: hash of a value -> when it was kept; of the period at hand, and of the one before */
    int64_t period;     /* whose first map is */
    char **fields;      /* to be redacted */
    size_t field_count;
    uint8_t *key; /* NULL: fixed replacements */
    size_t key_bytes;
    char *patterns; /* for notes */
} filter;

/* What the filters do with a class. */
typedef struct filter_class {
    const ea_class *c;
    uint32_t rules, redacts; /* a bit each filter */
    int informs;             /* expressions on later events need these events, too */
} filter_class;

struct ea_event_filters {
    filter *items;
    size_t count;
    uint64_t hash;
    ea_registry *registry; /* of the classes that programs were compiled with */
    ea_u64_map classes;    /* ea_class -> index + 1 in known */
    filter_class **known;
    size_t known_count, known_capacity;
    const filter_class *last;
    const ea_machine *machine; /* the caller's, or own */
    ea_machine *own;
    ea_record record; /* redacted */
    uint8_t *payload; /* of it */
};

/* What the filters do with events of a class; NULL: no memory. */
const filter_class *filters_find(ea_event_filters *f, const ea_class *c);

/* ---- filter_redact.c ---- */

/* Replaces fields of the filters in redacts, into f->record. 1: something was replaced; 0. */
int filters_redact_fields(ea_event_filters *f, const ea_record *record, const ea_class *c, uint32_t redacts);

#endif
