/* Metrics as text. See exposition.h. */
#include "proto/base/exposition.h"

#include <string.h>

void ea_exposition_head(ea_text *t, int open_metrics, const char *name, enum ea_metric_type type, const char *help) {
    static const char TOTAL[] = "_total";
    size_t n = strlen(name), tail = sizeof TOTAL - 1;
    if (open_metrics && type == EA_COUNTER && n > tail && strcmp(name + n - tail, TOTAL) == 0)
        n -= tail;
    ea_text_printf(t, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)n, name, help, (int)n, name,
                   type == EA_COUNTER ? "counter" : "gauge");
}

/* Bytes of the UTF-8 character at s (RFC 3629); 0 when there is none. */
static size_t character(const unsigned char *s) {
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : 0;
    if (s[0] >= 0xF0 && s[0] < 0xF5)
        n = 4;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

void ea_exposition_label(ea_text *t, const char *value) {
    for (const unsigned char *p = (const unsigned char *)value; *p;) {
        size_t n = character(p);
        if (n == 0)
            ea_text_str(t, "\xEF\xBF\xBD");
        else if (*p < 0x20 || *p == 0x7F)
            ea_text_char(t, '_');
        else if (*p == '\\' || *p == '"')
            ea_text_printf(t, "\\%c", *p);
        else
            ea_text_add(t, p, n);
        p += n ? n : 1;
    }
}

void ea_exposition_end(ea_text *t, int open_metrics) {
    if (open_metrics)
        ea_text_str(t, "# EOF\n");
}
