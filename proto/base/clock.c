/* Clocks. See clock.h. */
#include "proto/base/clock.h"

#include <inttypes.h>
#include <string.h>

static int64_t saturate(__int128 v) {
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

/* floor(a * b / c) for c > 0 */
static __int128 mul_div_floor(__int128 a, int64_t b, uint64_t c) {
    __int128 n = a * b, q = n / (__int128)c;
    return n % (__int128)c < 0 ? q - 1 : q;
}

int64_t ea_clock_to_utc_ns(const ea_clock *c, int64_t raw) {
    int64_t ticks, ns, utc_ns;
    if (c->frequency == 0)
        return c->base_utc_ns;
    /* as of nearly all machines: without a division of 128 bits */
    if (c->frequency == 10000000 && !__builtin_sub_overflow(raw, c->base_raw, &ticks) &&
        !__builtin_mul_overflow(ticks, INT64_C(100), &ns) && !__builtin_add_overflow(ns, c->base_utc_ns, &utc_ns))
        return utc_ns;
    return saturate(mul_div_floor((__int128)raw - c->base_raw, 1000000000, c->frequency) + c->base_utc_ns);
}

int64_t ea_clock_from_utc_ns(const ea_clock *c, int64_t utc_ns) {
    /* whole seconds and the rest apart, so that no frequency overflows; the rest is never negative */
    __int128 ns = (__int128)utc_ns - c->base_utc_ns, seconds = ns / 1000000000, rest = ns % 1000000000;
    if (rest < 0) {
        rest += 1000000000;
        seconds--;
    }
    return saturate(seconds * (__int128)c->frequency + rest * (__int128)c->frequency / 1000000000 + c->base_raw);
}

int64_t ea_clock_first_tick(const ea_clock *c, int64_t utc_ns) {
    int64_t raw = ea_clock_from_utc_ns(c, utc_ns);
    return raw < INT64_MAX && ea_clock_to_utc_ns(c, raw) < utc_ns ? raw + 1 : raw;
}

int64_t ea_clock_convert(const ea_clock *from, const ea_clock *to, int64_t raw) {
    if (from->type == to->type && from->frequency == to->frequency && from->base_raw == to->base_raw &&
        from->base_utc_ns == to->base_utc_ns)
        return raw;
    return ea_clock_from_utc_ns(to, ea_clock_to_utc_ns(from, raw));
}

static const int64_t EPOCH_100NS = 116444736000000000;

int64_t ea_filetime_to_utc_ns(int64_t filetime) {
    return saturate(((__int128)filetime - EPOCH_100NS) * 100);
}

int64_t ea_utc_ns_to_filetime(int64_t utc_ns) {
    return utc_ns / 100 - (utc_ns % 100 < 0) + EPOCH_100NS;
}

/* Days since 1970 to a civil date and back, after the proleptic Gregorian calendar (400-year cycles of 146,097 days).
 */
static void civil_from_days(int64_t days, int64_t *year, int *month, int *day) {
    days += 719468; /* 0000-03-01 */
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = yoe + era * 400 + (*month <= 2);
}

static int64_t days_from_civil(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t yoe = year - era * 400;
    int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

void ea_text_utc_ns(ea_text *t, int64_t utc_ns) {
    int64_t seconds = utc_ns / 1000000000, ns = utc_ns % 1000000000;
    if (ns < 0) {
        ns += 1000000000;
        seconds--;
    }
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    int64_t year;
    int month, day;
    civil_from_days(days, &year, &month, &day);
    /* years of an int64 of ns are 1677 to 2262: four digits always */
    int64_t values[7] = {year, month, day, rest / 3600, rest / 60 % 60, rest % 60, ns / 100};
    static const int widths[7] = {4, 2, 2, 2, 2, 2, 7};
    static const char after[8] = "--T::.Z";
    char out[28], *p = out;
    for (int i = 0; i < 7; i++) {
        for (int k = widths[i] - 1; k >= 0; k--) {
            p[k] = (char)('0' + values[i] % 10);
            values[i] /= 10;
        }
        p += widths[i];
        *p++ = after[i];
    }
    ea_text_add(t, out, (size_t)(p - out));
}

static int digits(const char **s, int n, int64_t *ret) {
    int64_t v = 0;
    for (int i = 0; i < n; i++, (*s)++) {
        if (**s < '0' || **s > '9')
            return EA_EINVAL;
        v = v * 10 + (**s - '0');
    }
    *ret = v;
    return 0;
}

/* is_strict: RFC 3339 alone. */
static int parse_date_and_time(const char *s, int is_strict, int64_t *ret_utc_ns) {
    int64_t year, month, day, hour = 0, minute = 0, second = 0, ns = 0, offset = 0;
    if (digits(&s, 4, &year) || *s++ != '-' || digits(&s, 2, &month) || *s++ != '-' || digits(&s, 2, &day))
        return EA_EINVAL;
    int has_time = is_strict || *s, has_seconds = has_time;
    if (has_time && *s != 'T' && *s != 't' && *s != ' ')
        return EA_EINVAL;
    s += has_time;
    if (has_time && (digits(&s, 2, &hour) || *s++ != ':' || digits(&s, 2, &minute)))
        return EA_EINVAL;
    if (has_time && !is_strict && *s != ':')
        has_seconds = 0;
    if (has_seconds && (*s++ != ':' || digits(&s, 2, &second)))
        return EA_EINVAL;
    if (has_seconds && *s == '.') {
        int n = 0;
        for (s++; *s >= '0' && *s <= '9'; s++, n++)
            if (n < 9)
                ns = ns * 10 + (*s - '0');
        if (n == 0)
            return EA_EINVAL;
        for (; n < 9; n++)
            ns *= 10;
    }
    if (*s == 'Z' || *s == 'z') {
        s++;
    } else if (*s == '+' || *s == '-') {
        int sign = *s++ == '-' ? -1 : 1;
        int64_t h, m;
        if (digits(&s, 2, &h) || *s++ != ':' || digits(&s, 2, &m) || h > 23 || m > 59)
            return EA_EINVAL;
        offset = sign * (h * 3600 + m * 60);
    } else if (is_strict) {
        return EA_EINVAL;
    }
    static const int month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (*s || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60)
        return EA_EINVAL;
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > month_days[month - 1] + (month == 2 && leap))
        return EA_EINVAL;
    __int128 seconds =
        (__int128)days_from_civil(year, (int)month, (int)day) * 86400 + hour * 3600 + minute * 60 + second - offset;
    __int128 total = seconds * 1000000000 + ns;
    if (total > INT64_MAX || total < INT64_MIN)
        return EA_EINVAL;
    *ret_utc_ns = (int64_t)total;
    return 0;
}

int ea_utc_ns_parse(const char *s, int64_t *ret_utc_ns) {
    return parse_date_and_time(s, 1, ret_utc_ns);
}

static const int64_t DAY_NS = INT64_C(86400000000000);

int ea_time_parse(const char *s, const ea_time_reference *reference, int64_t *ret_utc_ns) {
    const int64_t now = reference->now_utc_ns, today = now - (now % DAY_NS + DAY_NS) % DAY_NS;

    const struct {
        const char *name;
        int64_t utc_ns;
        int is_of_data;
    } words[] = {
        {"now", now, 0},
        {"today", today, 0},
        {"yesterday", today - DAY_NS, 0},
        {"start", reference->begin_utc_ns, 1},
        {"end", reference->end_utc_ns, 1},
    };

    size_t n = strcspn(s, "+-"), which = *s == '-' ? 0 : *s == '+' ? 3 : SIZE_MAX; /* words[0], words[3] */
    int64_t by_ns = 0, utc_ns;
    for (size_t i = 0; n && i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == n && strncmp(words[i].name, s, n) == 0)
            which = i;
    if (which == SIZE_MAX)
        return parse_date_and_time(s, 0, ret_utc_ns);
    if (s[n] && ea_duration_parse(s + n + 1, &by_ns))
        return EA_EINVAL;
    if (words[which].is_of_data && !reference->has_data)
        return EA_ENOTFOUND;
    if (s[n] == '-' ? __builtin_sub_overflow(words[which].utc_ns, by_ns, &utc_ns)
                    : __builtin_add_overflow(words[which].utc_ns, by_ns, &utc_ns))
        return EA_EINVAL;
    *ret_utc_ns = utc_ns;
    return 0;
}

typedef struct {
    const char *name;
    int64_t factor;
} unit;

/* A decimal number, then a unit out of a list that ends with a NULL name; v * factor fits int64. */
static int number_with_unit(const char *s, const unit *units, int64_t *ret) {
    int64_t v = 0;
    const char *start = s;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (v > (INT64_MAX - 9) / 10)
            return EA_EINVAL;
        v = v * 10 + (*s - '0');
    }
    if (s == start)
        return EA_EINVAL;
    for (; units->name; units++) {
        if (strcmp(s, units->name) == 0) {
            if (v > INT64_MAX / units->factor)
                return EA_EINVAL;
            *ret = v * units->factor;
            return 0;
        }
    }
    return EA_EINVAL;
}

int ea_duration_parse(const char *s, int64_t *ret_ns) {
    static const unit units[] = {{"ns", 1},          {"us", 1000},         {"ms", 1000000},       {"s", 1000000000},
                                 {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}, {NULL, 0}};
    if (strcmp(s, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    return number_with_unit(s, units, ret_ns);
}

int ea_size_parse(const char *s, uint64_t *ret_bytes) {
    static const unit units[] = {
        {"", 1}, {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", (int64_t)1 << 40}, {NULL, 0}};
    int64_t v;
    int rc = number_with_unit(s, units, &v);
    if (!rc)
        *ret_bytes = (uint64_t)v;
    return rc;
}
