/* Languages of texts, as manifests ("en-US") and resources (numbers, LANGID) name them. Used by: manifest.c, wevt.c.
 * Thread: any (constants). */
#ifndef EA_EVENT_SCHEMA_LANGUAGE_H
#define EA_EVENT_SCHEMA_LANGUAGE_H

#include <stdint.h>

/* How well texts of a language suit a request for another language: 2 it is that language, 1 the same language of
 * another country, 0 another language. */
int ea_language_serves(const char *language, const char *wanted);
/* "de-DE"; "" for a number that is not in the table. Source: [MS-LCID], section 2.2. */
const char *ea_language_name(uint16_t langid);

#endif
