/* Configuration files: YAML, read by the same rows that describe a command line's options (cli.h), so that an option's
 * type, default, range and help are in one place. All mistakes are reported with file, line and column before anything
 * starts. Called by: the commands of agent and collector. Calls: libyaml. Thread: its caller's.
 *
 * The form: a mapping of option names to values. A list of texts may be written as one text. Switches are true or
 * false. Doubled keys are refused, and unknown ones where the table does not pass over them. Files are at most
 * EA_CONFIG_MAX_BYTES long, one document each. */
#ifndef EA_CONFIG_H
#define EA_CONFIG_H

#include "proto/base/cli.h"

enum {
    EA_CONFIG_MAX_BYTES = 1 << 20,
    EA_CONFIG_DEPTH_MAX = 32,
    EA_CONFIG_PROBLEMS_MAX = 20,
    EA_CONFIG_ITEMS_MAX = 4096
};

typedef struct ea_config ea_config; /* owns the texts and lists that a target points to */

/* One line for each mistake, "FILE:LINE:COLUMN: what is wrong", no newline; at most EA_CONFIG_PROBLEMS_MAX. */
typedef void ea_config_note(void *arg, const char *line);

/* Reads path into target, a zeroed struct of table->size bytes: first all fallbacks, then what the file says. on_note
 * may be NULL. Errors: EA_EIO, EA_ENOTFOUND (no such file), EA_EFORMAT (it has mistakes; the message is the first one
 * and how many more there are), EA_ENOMEM. On failure nothing is to be destroyed and target's content is undefined. */
EA_MUST_CHECK int ea_config_read(ea_config **ret, const char *path, const ea_table *table, void *target,
                                 ea_config_note *on_note, void *arg, ea_err *err);
/* The same for text of len_bytes in memory, called name in messages. */
EA_MUST_CHECK int ea_config_parse(ea_config **ret, const char *name, const char *text, size_t len_bytes,
                                  const ea_table *table, void *target, ea_config_note *on_note, void *arg, ea_err *err);
void ea_config_destroy(ea_config *c); /* NULL is allowed */

/* What --config of a command does: mistakes go to standard error. */
extern const ea_config_reader ea_config_of_command;

/* The same for a file's text of len_bytes in memory: path is for messages. */
EA_MUST_CHECK int ea_config_parse_of_command(void **ret, const char *path, const char *text, size_t len_bytes,
                                             const ea_option *rows, void *options, ea_err *err);

/* The reference page in Markdown, and a commented example that is a valid file; both are made of the rows. */
void ea_config_reference(const ea_table *table, const char *title, ea_text *t);
void ea_config_example(const ea_table *table, ea_text *t);

/* Calls on_change(arg, path) for each option whose value differs between two targets of one table: "limits.memory",
 * "sources[1].files"; a list whose length differs is one change of the list. */
void ea_config_compare(const ea_table *table, const void *before, const void *after,
                       void (*on_change)(void *arg, const char *path), void *arg);

#endif
