/* A profile in the forms that pages and other programs read. Input: profile.h. Used by: the command profile;
 * collector/web. Thread: any. */
#ifndef EC_QUERY_EXPORT_PROFILE_WRITE_H
#define EC_QUERY_EXPORT_PROFILE_WRITE_H

#include "collector/query/analysis/profile.h"
#include "proto/base/text.h"

#define EC_PROFILE_FORMATS(X)                                                                                          \
    X(JSON, "json")                                                                                                    \
    X(FOLDED, "folded")                                                                                                \
    X(SPEEDSCOPE, "speedscope") X(PPROF, "pprof") X(CHROME, "chrome") X(FIREFOX, "firefox") X(TOP, "top")

enum ec_profile_format {

#define X(id, name) EC_PROFILE_##id,
    EC_PROFILE_FORMATS(X)
#undef X
};

/* Whether a form has each event at its time, in its thread: the profile needs its samples (wants_samples). */
int ec_profile_form_has_times(enum ec_profile_format format);
/* Appends the profile to out. EA_EUSAGE: this form has no room for a difference (chrome, firefox), or for two weights
 * (pprof). EA_ENOMEM.
 * JSON is for a flame graph in a page:
 *   {"weight","counter","unit","from","to","hosts":[...],"total","events","without_stack","incomplete":{cause: n},
 *    "halves":{outcome: n},"keys_undefined","unfinished","unfinished_ns","unbegun","unbegun_ns",
 *    "interval_assumed","behind","damaged","notes",
 *    "modules":[{"name","path","unloaded","pdb_guid","pdb_age","timestamp","size_bytes","kernel"}],
 *    "frames":[{"label","module": index,"offset":"0x...","function","file","line"}],
 *    "nodes":[[parent, frame, self, total], ...],
 *    "functions":[{"frame","self","total"}, ...],"top_modules":[{"module","self","total"}, ...]}
 * nodes is the tree: each names its parent by index (-1: the root), parents precede their children; frame -1 - n is
 * process n of "processes". A difference also has "other" with the members from "weight" to "unbegun_ns" of the other
 * side, and each node has two more numbers, self and total of the other side; "interval_assumed" and the members after
 * it are of both sides. functions and top_modules hold the 200 greatest by self. */
EA_MUST_CHECK int ec_profile_write(const ec_profile *p, enum ec_profile_format format, ea_text *out, ea_err *err);

#endif
