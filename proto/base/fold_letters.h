/* Letters of either case as one, in UTF-8: under this form names are compared that Windows does not distinguish. Used
 * by: proto/relog (redaction). Thread: any. */
#ifndef EA_BASE_FOLD_LETTERS_H
#define EA_BASE_FOLD_LETTERS_H

#include <stddef.h>

/* Copies text with each letter in lower case whose lower case takes as many bytes; so the length stays. Other letters
 * (U+0130, U+023A, U+2126, ...; all beyond U+FFFF) and invalid UTF-8 stay as they are. Variants of a letter
 * in lower case (final sigma) become one. out: len_bytes of room; it may be text itself. */
void ea_fold_letters(const char *text, size_t len_bytes, char *out);

#endif
