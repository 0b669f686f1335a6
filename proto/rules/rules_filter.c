/* For which rules, hosts and times a Sigma filter is. See rules_parts.h. Thread: any. */
#include "proto/rules/rules_parts.h"

#include "proto/base/pattern.h"

#include <string.h>

/* A text with * and ?, without regard to the case of ASCII letters. */
static int filter_fits(const char *text, const char *pattern) {
    const char *star = NULL, *kept = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            kept = text;
        } else if (*pattern && (*pattern == '?' || ea_ascii_lower(*pattern) == ea_ascii_lower(*text))) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++kept;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

int rules_is_named(const ea_rule_info *info, const char *text) {
    return *text && (strcmp(text, info->id) == 0 || strcmp(text, info->name) == 0 || strcmp(text, info->title) == 0);
}

int rules_filter_is_for(const ea_rule_filter *f, const ea_rule_info *info, const char *host, int64_t utc_ns) {
    int is_named = !f->rule_count, is_there = !f->host_count;
    if (f->group != info->group || utc_ns >= f->end_utc_ns)
        return 0;
    for (uint32_t i = 0; i < f->host_count && !is_there; i++)
        is_there = filter_fits(host, f->hosts[i]);
    for (uint32_t i = 0; i < f->rule_count && is_there && !is_named; i++)
        is_named = rules_is_named(info, f->rules[i]);
    return is_named && is_there;
}
