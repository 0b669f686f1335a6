/* Patterns of names. See pattern.h. */
#include "proto/base/pattern.h"

#include <string.h>

void ea_name_to_lower(char *name) {
    for (; *name; name++)
        *name = ea_ascii_lower(*name);
}

int ea_name_is_agent(const char *name, size_t len_bytes) {
    if (len_bytes < 1 || len_bytes > EA_AGENT_NAME_MAX || name[0] == '.')
        return 0;
    for (size_t i = 0; i < len_bytes; i++) {
        char c = ea_ascii_lower(name[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
            return 0;
    }
    return 1;
}

int ea_name_equal(const char *a, const char *b) {
    while (*a && ea_ascii_lower(*a) == ea_ascii_lower(*b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

/* One pattern of n bytes, in which * is any text, even none; letters of either case are alike, as in Windows' names. */
static int pattern_fits(const char *pattern, size_t n, const char *name, size_t name_bytes) {
    const char *end = pattern + n, *name_end = name + name_bytes, *star = NULL, *from = NULL;
    while (name < name_end) {
        char a = pattern < end ? ea_ascii_lower(*pattern) : '\0', b = ea_ascii_lower(*name);
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (pattern < end && a == b) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return 0;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

/* Whether one of the patterns fits so many bytes. */
static int patterns_fit(const char *patterns, const char *name, size_t name_bytes) {
    for (const char *at = patterns; name_bytes && *at;) {
        size_t n = strcspn(at, ",");
        if (n && pattern_fits(at, n, name, name_bytes))
            return 1;
        at += n + (at[n] == ',');
    }
    return 0;
}

int ea_name_in(const char *patterns, const char *name) {
    return patterns_fit(patterns, name, strlen(name));
}

/* A * of the narrower pattern is a byte that only a * of the wider one fits; whatever text it stands for, that * fits,
 * too. */
int ea_patterns_within(const char *patterns, const char *wider) {
    for (const char *at = patterns; *at;) {
        size_t n = strcspn(at, ",");
        if (n && !patterns_fit(wider, at, n))
            return 0;
        at += n + (at[n] == ',');
    }
    return 1;
}
