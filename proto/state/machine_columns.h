/* The columns of a machine's three tables, each once: machine_tables.c completes, keeps and restores rows by them, and
 * collector/state makes its SQL tables of them, and writes and reads their rows.
 * Called by: machine_tables.c, collector/state/state_db.c. Thread: any. */
#ifndef EA_STATE_MACHINE_COLUMNS_H
#define EA_STATE_MACHINE_COLUMNS_H

#include "proto/state/machine.h"

/* X(kind, member, role): the member of the row, which is also the column's name in SQL; the role of the field that
 * completes it in records (fields.h), or NONE. The order is that of the columns in SQL. */
#define EA_PROCESS_COLUMNS(X) /* of ea_process */                                                                      \
    X(U32, pid, NONE)                                                                                                  \
    X(U32, parent_pid, PARENT_PID)                                                                                     \
    X(NUMBER, parent_instance, NONE)                                                                                   \
    X(U32, session_id, SESSION_ID)                                                                                     \
    X(ADDRESS, unique_key, UNIQUE_KEY)                                                                                 \
    X(ADDRESS, directory_table_base, PAGE_TABLE)                                                                       \
    X(I32, exit_status, NONE)                                                                                          \
    X(U32, flags, FLAGS)                                                                                               \
    X(TEXT, image_name, IMAGE_NAME)                                                                                    \
    X(TEXT, command_line, COMMAND_LINE)                                                                                \
    X(TEXT, sid, SID)                                                                                                  \
    X(TEXT, package, PACKAGE)                                                                                          \
    X(TEXT, application, APPLICATION)                                                                                  \
    X(TEXT, mandatory_label, MANDATORY_LABEL)                                                                          \
    X(U32, elevation_type, ELEVATION_TYPE)                                                                             \
    X(U32, elevated, ELEVATED)                                                                                         \
    X(ADDRESS, logon_id, LOGON_ID)

#define EA_THREAD_COLUMNS(X) /* of ea_thread_row */                                                                    \
    X(U32, tid, NONE)                                                                                                  \
    X(U32, pid, NONE)                                                                                                  \
    X(NUMBER, process_instance, NONE)                                                                                  \
    X(U16, cpu, NONE)                                                                                                  \
    X(ADDRESS, stack_base, STACK_BASE)                                                                                 \
    X(ADDRESS, start_address, START_ADDRESS)                                                                           \
    X(ADDRESS, win32_start_address, WIN32_START_ADDRESS)                                                               \
    X(ADDRESS, teb, TEB)                                                                                               \
    X(TEXT, name, THREAD_NAME)

#define EA_MODULE_COLUMNS(X) /* of ea_module */                                                                        \
    X(U32, pid, NONE)                                                                                                  \
    X(ADDRESS, base, NONE)                                                                                             \
    X(NUMBER, process_instance, NONE)                                                                                  \
    X(NUMBER, size_bytes, SIZE)                                                                                        \
    X(ADDRESS, default_base, DEFAULT_BASE)                                                                             \
    X(U32, checksum, CHECKSUM)                                                                                         \
    X(U32, timestamp, TIMESTAMP)                                                                                       \
    X(TEXT, path, PATH)                                                                                                \
    /* an id describes these (ea_machine_complete_module_by_id) */                                                     \
    X(PDB, pdb_guid, NONE)                                                                                             \
    X(U32, pdb_age, NONE)                                                                                              \
    X(TEXT, pdb_path, NONE)                                                                                            \
    X(TEXT, original_name, NONE)                                                                                       \
    X(NUMBER, file_bytes, FILE_SIZE)                                                                                   \
    X(TEXT, sha256, SHA256)                                                                                            \
    X(TEXT, file_version, FILE_VERSION)                                                                                \
    X(TEXT, company, COMPANY)                                                                                          \
    X(TEXT, product, PRODUCT)                                                                                          \
    X(TEXT, md5, MD5)                                                                                                  \
    X(TEXT, sha1, SHA1)                                                                                                \
    X(TEXT, imphash, IMPHASH)                                                                                          \
    X(TEXT, description, DESCRIPTION)                                                                                  \
    X(U32, kind, MODULE_KIND)

enum ea_column_kind {
    EA_COLUMN_U16,
    EA_COLUMN_U32,
    EA_COLUMN_I32,
    EA_COLUMN_NUMBER,  /* uint64_t */
    EA_COLUMN_ADDRESS, /* uint64_t: an address or a key of the kernel */
    EA_COLUMN_TEXT,    /* const char *, never NULL */
    EA_COLUMN_PDB,     /* pdb_guid of an ea_module, which has_pdb says is there */
};

typedef struct ea_table_column {
    uint8_t kind, role;
    uint16_t offset; /* in the row */
} ea_table_column;

typedef struct ea_table_columns {
    const ea_table_column *items;
    size_t count;
} ea_table_columns;

extern const ea_table_columns ea_process_columns, ea_thread_columns, ea_module_columns;

#endif
