/* The options of a scenario, one row an option: its place in the YAML file, its type, its bounds, its default, and its
 * meaning. `tracegen options` prints the table. Used by: scenario.c. Thread: any (constants). */
#ifndef EA_TESTS_TRACEGEN_SCENARIO_OPTIONS_H
#define EA_TESTS_TRACEGEN_SCENARIO_OPTIONS_H

#include "tests/tracegen/scenario.h"

enum tg_option_type {
    TG_OPT_TEXT,    /* const char * */
    TG_OPT_NUMBER,  /* uint32_t */
    TG_OPT_SWITCH,  /* uint32_t, yes or no */
    TG_OPT_CHOICE,  /* uint32_t, index into names */
    TG_OPT_FLAGS,   /* uint64_t, a list of names */
    TG_OPT_RANGE,   /* tg_range: one number, or [low, high] */
    TG_OPT_WEIGHTS, /* uint32_t[], a mapping of names to numbers */
    TG_OPT_LIST,    /* a list of items: pointer at offset, size_t at count_offset */
};

typedef struct tg_option {
    const char *section; /* "": the file itself; NULL ends the table */
    const char *key;
    uint8_t type; /* enum tg_option_type */
    uint8_t required;
    size_t offset; /* in tg_scenario, or in the item of a list */
    uint32_t min, max;
    const char *const *names; /* of choices, flags and weights; ends with NULL */
    const char *fallback;     /* the default, as text of the file; NULL: zero or empty */
    const char *help;
    size_t item_bytes, count_offset; /* of lists; the section of an item has the list's key */
} tg_option;

extern const tg_option tg_options[];

#endif
