/* A configuration file that holds sessions alone, for the targets that read one. */
#ifndef EA_TESTS_FUZZ_SESSIONS_FILE_H
#define EA_TESTS_FUZZ_SESSIONS_FILE_H

#include "config/config.h"
#include "config/sessions.h"

typedef struct sessions_file {
    ea_tables sessions; /* ea_session_config */
} sessions_file;

static const ea_option SESSIONS_ROWS[] = {{.name = "sessions",
                                           .type = EA_OPT_TABLES,
                                           .offset = offsetof(sessions_file, sessions),
                                           .table = &ea_session_table,
                                           .max = EA_SESSIONS_MAX,
                                           .help = "ETW sessions"},
                                          {.name = NULL}};
static const ea_table SESSIONS_FILE = {.rows = SESSIONS_ROWS, .size = sizeof(sessions_file)};

#endif
