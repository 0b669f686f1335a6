/* etwagent dump --xml: event logs as XML. Called by: cmd_dump.c. Calls: proto/evtx. Thread: the main one. */
#ifndef EA_APP_DUMP_XML_H
#define EA_APP_DUMP_XML_H

#include "proto/base/err.h"

/* Prints the records of each log whole, as Windows renders them: file by file, in the order of the file, one a line,
 * inside of <Events>. What is damaged is named on standard error. strict: the first damage is EA_ECORRUPT. EA_EFORMAT
 * for a file that is no event log. */
EA_MUST_CHECK int ea_dump_xml(char **paths, int path_count, int strict, ea_err *err);

#endif
