/* Changes rules by their words: a modifier, a condition, a value or an expression in place of another, so that most
 * inputs stay YAML. Every fourth change is one of bytes. Called by: libFuzzer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

static const char *const WORDS[] = {
    "|contains",
    "|endswith",
    "|startswith",
    "|all",
    "|windash",
    "|re",
    "|i",
    "|m",
    "|s",
    "|cidr",
    "|base64",
    "|base64offset",
    "|utf16le",
    "|utf16be",
    "|utf16",
    "|wide",
    "|fieldref",
    "|exists",
    "|cased",
    "|neq",
    "|lt",
    "|lte",
    "|gt",
    "|gte",
    "|expand",
    " and ",
    " or ",
    " not ",
    "1 of s*",
    "all of them",
    "any of s*",
    "(",
    ")",
    "s",
    "'*'",
    "'a*b?c'",
    "'\\*'",
    "'\\\\*'",
    "null",
    "''",
    "10.0.0.0/8",
    "::1",
    "-1",
    "0x10",
    "true",
    "false",
    "[a-z]+",
    "(a|b){2,3}",
    "^a$",
    "\\b",
    "\\\\",
    ".*",
    "(?i)",
    "{1000}",
    "[^a]",
    "[:alpha:]",
    "\n    A: b\n",
    "\n      - a\n",
    "\n---\n",
    "\n  s:\n",
    "\nfilter:\n  rules: any\n",
    "  rules: [t]\n",
    "hosts: ['p*']\n",
    "\n---\ncorrelation: {type: temporal, rules: [t, f], timespan: 5m}\n",
    "correlation:\n  type: event_count\n  rules: t\n  timespan: 1h\n  condition:\n    gte: 3\n",
    "expires: 2027-01-01\n",
    "  condition: s\n",
    "- ",
    "&x ",
    "*x",
    "\"",
    "'",
    "CommandLine: ",
    "Image|endswith: ",
    "B: "};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t text = zero ? (size_t)(zero - data) : size;
    if (seed % 4 == 0 || !text)
        return LLVMFuzzerMutate(data, size, max);
    const char *word = WORDS[seed / 4 % (sizeof WORDS / sizeof *WORDS)];
    size_t n = strlen(word), at = seed / 512 % text, cut = 0;
    if (seed & 256) { /* in place of a word */
        while (at + cut < text && data[at + cut] > ' ' && cut < 24)
            cut++;
    }
    if (size - cut + n > max)
        return LLVMFuzzerMutate(data, size, max);
    memmove(data + at + n, data + at + cut, size - at - cut);
    memcpy(data + at, word, n);
    return size - cut + n;
}
