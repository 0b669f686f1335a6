/* Clocks: raw ticks of a trace or session to UTC and back. Records travel and are stored with raw time; the reader of a
 * record converts raw time to UTC.
 * Input: the .etl header or a live session. Called by: rendering, the store's index, the state.
 * Thread: any (pure functions). */
#ifndef EA_BASE_CLOCK_H
#define EA_BASE_CLOCK_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stdint.h>

/* ReservedFlags of TRACE_LOGFILE_HEADER, WNODE_HEADER.ClientContext of a session. */
enum ea_clock_type {
    EA_CLOCK_QPC = 1,         /* performance counter */
    EA_CLOCK_SYSTEM_TIME = 2, /* FILETIME: 100 ns since 1601 */
    EA_CLOCK_CPU_CYCLES = 3,  /* processor cycles, nominal frequency */
};

typedef struct ea_clock {
    uint32_t type;       /* enum ea_clock_type */
    uint64_t frequency;  /* ticks a second; 10,000,000 for system time; never 0 in a usable clock */
    int64_t base_raw;    /* ticks at base_utc_ns */
    int64_t base_utc_ns; /* since 1970 UTC */
} ea_clock;

/* UTC in ns since 1970 of a raw time; saturates instead of wrapping. A clock with frequency 0 gives base_utc_ns. */
int64_t ea_clock_to_utc_ns(const ea_clock *c, int64_t raw);
/* The raw time nearest below a UTC time; saturates. */
int64_t ea_clock_from_utc_ns(const ea_clock *c, int64_t utc_ns);

/* The first raw time whose UTC time is not before this one; saturates. */
int64_t ea_clock_first_tick(const ea_clock *c, int64_t utc_ns);

/* A raw time of one clock in ticks of another, by way of UTC; itself when the clocks are the same. */
int64_t ea_clock_convert(const ea_clock *from, const ea_clock *to, int64_t raw);

int64_t ea_filetime_to_utc_ns(int64_t filetime); /* 100 ns since 1601 to ns since 1970; saturates */
int64_t ea_utc_ns_to_filetime(int64_t utc_ns);

/* "2020-07-29T00:07:00.6200000Z": RFC 3339 with seven digits (100 ns), any int64 value. */
void ea_text_utc_ns(ea_text *t, int64_t utc_ns);
/* RFC 3339: "2020-07-29T00:07:00[.fraction](Z|+hh:mm|-hh:mm)", 'T' may be a space. Fractions beyond ns are cut. */
EA_MUST_CHECK int ea_utc_ns_parse(const char *s, int64_t *ret_utc_ns);

/* What a time that a person writes may refer to. */
typedef struct ea_time_reference {
    int64_t now_utc_ns;
    int64_t begin_utc_ns, end_utc_ns; /* of the data that are asked about, with has_data */
    int has_data;
} ea_time_reference;

/* What ea_time_parse takes, for messages; the second one is for those with data. */
#define EA_TIME_FORMS                                                                                                  \
    "a time such as 2024-05-17T14:03:07.25Z, '2024-05-17 14:03' (UTC), 2024-05-17, now, today, yesterday or -1h"
#define EA_TIME_FORMS_OF_DATA EA_TIME_FORMS ", or of the data: start, end, +10s, end-10s"

/* A time as people write it:
 * - RFC 3339, also without a zone (UTC), without seconds, or a date alone (its first moment);
 * - now, today, yesterday (the first moment of the day, UTC), start, end (of the data), each with a duration after it:
 *   now-1h, start+1500ms, end-10s;
 * - a duration: -1h is now-1h, +10s is start+10s.
 * EA_EINVAL; EA_ENOTFOUND: it refers to data, and there are none. */
EA_MUST_CHECK int ea_time_parse(const char *s, const ea_time_reference *reference, int64_t *ret_utc_ns);
/* "250ms", "10s", "5m", "2h", "7d", "100us", "1ns"; a number alone is refused unless it is 0. */
EA_MUST_CHECK int ea_duration_parse(const char *s, int64_t *ret_ns);
/* "64KiB", "1MiB", "2GiB", "512" (bytes). */
EA_MUST_CHECK int ea_size_parse(const char *s, uint64_t *ret_bytes);

#endif
