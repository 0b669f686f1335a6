/* Sigma rules of files and folders, compiled; and what was wrong with them. Called by: cmd_rules.c, cmd_rules_test.c,
 * detector.c.
 * Calls: proto/rules. Thread: the main one. */
#ifndef EC_DETECT_RULES_FILES_H
#define EC_DETECT_RULES_FILES_H

#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/rules_tests.h"

typedef struct ec_rules_files {
    int is_json;          /* set before the call: problems as members of a JSON list, else as lines */
    ea_rule_tests *tests; /* set before the call: where the rules' own tests are put; NULL: they are not read */
    ea_text problems;     /* "FILE:LINE:COLUMN: mistake: ..." */
    uint64_t file_count, mistake_count, unsupported_count;
    ea_rules *rules;
} ec_rules_files;

/* Reads the files, and those with the ending .yml or .yaml in the folders and in the folders inside of them, in byte
 * order of their names; entries whose names begin with a dot are skipped, pipes and devices are problems. *f: zeroed
 * but for is_json and tests; it is to be given to ec_rules_files_deinit, also on failure. A document that is no rule is
 * a problem, not a failure. Errors: EA_ENOTFOUND (no such file, no rule file), EA_ELIMIT, EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ec_rules_files_read(ec_rules_files *f, int operand_count, char **operands, ea_err *err);
void ec_rules_files_deinit(ec_rules_files *f);
/* By what a rule's detections name it, each another: its id, else its title when no rule before has it, else source
 * (FILE:LINE). */
const char *ec_rules_key(const ea_rule_info *info, const char *source);
/* The same of a filter; buffer: for FILE:LINE. */
const char *ec_rules_filter_key(const ea_rule_filter *filter, char *buffer, size_t size);

#endif
