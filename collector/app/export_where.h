/* A condition of the query language on stored events: "etwcollector export --where". Its classes and fields are those
 * of the tables and of the catalogue. Called by: cmd_export.c. Calls: proto/lang, proto/state. Thread: the main one. */
#ifndef EC_APP_EXPORT_WHERE_H
#define EC_APP_EXPORT_WHERE_H

#include "proto/base/clock.h"
#include "proto/event/event.h"

typedef struct ec_export_where ec_export_where;

/* A mistake is printed with its place, and is EA_EUSAGE. */
EA_MUST_CHECK int ec_export_where_create(ec_export_where **ret, const char *condition, ea_err *err);
void ec_export_where_destroy(ec_export_where *w); /* NULL is allowed */
/* Another stream begins: its classes are others, and nothing is known of its machine's state. */
EA_MUST_CHECK int ec_export_where_begin(ec_export_where *w, ea_err *err);
/* The stream's classes are about to be freed. */
void ec_export_where_end(ec_export_where *w);
/* 1 when the condition holds, 0, or an error. Each event of the stream is given, so that the state is known. */
EA_MUST_CHECK int ec_export_where_holds(ec_export_where *w, const ea_record *record, const ea_class *c,
                                        const ea_clock *clock, ea_err *err);

#endif
