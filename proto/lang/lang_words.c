/* The table of the language's words: for suggestions, completion, and the grammar of editors (config/editors). See
 * lang.h. Thread: any; it is constant. */
#include "proto/lang/lang_program.h"

/* clang-format off */
static const ea_lang_word WORDS[] = {
    {"if", EA_LANG_WORD_KEYWORD}, {"else", EA_LANG_WORD_KEYWORD},
    {"begin", EA_LANG_WORD_PROBE}, {"end", EA_LANG_WORD_PROBE}, {"tick:", EA_LANG_WORD_PROBE}, {"lost", EA_LANG_WORD_PROBE},
    {"unmatched", EA_LANG_WORD_PROBE}, {"stack-missing", EA_LANG_WORD_PROBE},
    {"this", EA_LANG_WORD_BASE}, {"self", EA_LANG_WORD_BASE}, {"event", EA_LANG_WORD_BASE},
    {"parent", EA_LANG_WORD_BASE}, {"pmc", EA_LANG_WORD_BASE},
#define X(name, type) {#name, EA_LANG_WORD_VALUE},
    LANG_VALUES(X)
#undef X
    {"stack", EA_LANG_WORD_CALL}, {"ustack", EA_LANG_WORD_CALL}, {"kstack", EA_LANG_WORD_CALL},
    {"delta", EA_LANG_WORD_CALL}, {"strlen", EA_LANG_WORD_CALL}, {"has", EA_LANG_WORD_CALL},
    {"bytes", EA_LANG_WORD_CALL},
    {"print", EA_LANG_WORD_STATEMENT}, {"printa", EA_LANG_WORD_STATEMENT}, {"printf", EA_LANG_WORD_STATEMENT},
    {"trunc", EA_LANG_WORD_STATEMENT}, {"clear", EA_LANG_WORD_STATEMENT}, {"emit", EA_LANG_WORD_STATEMENT},
    {"exit", EA_LANG_WORD_STATEMENT}, {"delta", EA_LANG_WORD_STATEMENT}, {"trigger", EA_LANG_WORD_STATEMENT},
    {"ship", EA_LANG_WORD_STATEMENT},
    {"count", EA_LANG_WORD_FUNCTION}, {"sum", EA_LANG_WORD_FUNCTION}, {"min", EA_LANG_WORD_FUNCTION},
    {"max", EA_LANG_WORD_FUNCTION}, {"avg", EA_LANG_WORD_FUNCTION}, {"stddev", EA_LANG_WORD_FUNCTION},
    {"quantize", EA_LANG_WORD_FUNCTION}, {"lquantize", EA_LANG_WORD_FUNCTION}, {"llquantize", EA_LANG_WORD_FUNCTION},
    {"top", EA_LANG_WORD_FUNCTION}, {"distinct", EA_LANG_WORD_FUNCTION},
};

/* clang-format on */

int ea_lang_word_at(size_t i, ea_lang_word *ret) {
    if (i >= sizeof WORDS / sizeof *WORDS)
        return 0;
    *ret = WORDS[i];
    return 1;
}
