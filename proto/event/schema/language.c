/* Languages. See language.h. */
#include "proto/event/schema/language.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static int same_letters(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]))
            return 0;
    return 1;
}

int ea_language_serves(const char *language, const char *wanted) {
    size_t n = strlen(wanted), primary = strcspn(wanted, "-");
    if (strlen(language) == n && same_letters(language, wanted, n))
        return 2;
    return strcspn(language, "-") == primary && same_letters(language, wanted, primary);
}

const char *ea_language_name(uint16_t langid) {
    static const struct {
        uint16_t langid;
        char name[8];
    } NAMES[] = {
        {0x0401, "ar-SA"}, {0x0402, "bg-BG"}, {0x0404, "zh-TW"}, {0x0405, "cs-CZ"}, {0x0406, "da-DK"},
        {0x0407, "de-DE"}, {0x0408, "el-GR"}, {0x0409, "en-US"}, {0x040A, "es-ES"}, {0x040B, "fi-FI"},
        {0x040C, "fr-FR"}, {0x040D, "he-IL"}, {0x040E, "hu-HU"}, {0x0410, "it-IT"}, {0x0411, "ja-JP"},
        {0x0412, "ko-KR"}, {0x0413, "nl-NL"}, {0x0414, "nb-NO"}, {0x0415, "pl-PL"}, {0x0416, "pt-BR"},
        {0x0418, "ro-RO"}, {0x0419, "ru-RU"}, {0x041A, "hr-HR"}, {0x041B, "sk-SK"}, {0x041D, "sv-SE"},
        {0x041E, "th-TH"}, {0x041F, "tr-TR"}, {0x0421, "id-ID"}, {0x0422, "uk-UA"}, {0x0424, "sl-SI"},
        {0x0425, "et-EE"}, {0x0426, "lv-LV"}, {0x0427, "lt-LT"}, {0x042A, "vi-VN"}, {0x0804, "zh-CN"},
        {0x0807, "de-CH"}, {0x0809, "en-GB"}, {0x080A, "es-MX"}, {0x080C, "fr-BE"}, {0x0816, "pt-PT"},
        {0x0C04, "zh-HK"}, {0x0C07, "de-AT"}, {0x0C0A, "es-ES"}, {0x0C0C, "fr-CA"}, {0x1009, "en-CA"},
    };

    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (NAMES[i].langid == langid)
            return NAMES[i].name;
    return "";
}
