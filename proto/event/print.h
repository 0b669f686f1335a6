/* Printing events in one of several forms, with the filters that go with it: what `etwagent dump` and `etwcollector
 * export` have in common, their options included, so that they print the same bytes. Called by: a command with records.
 * Calls: render.h, standard output. Thread: its owner's. */
#ifndef EA_EVENT_PRINT_H
#define EA_EVENT_PRINT_H

#include "proto/base/cli.h"
#include "proto/base/clock.h"
#include "proto/event/class_names.h"
#include "proto/event/event.h"
#include "proto/event/render.h"

enum ea_print_format { EA_PRINT_TEXT, EA_PRINT_JSONL, EA_PRINT_CSV, EA_PRINT_RAW };

extern const char *const EA_PRINT_FORMATS[];

/* A command's options struct has one of these; EA_PRINT_OPTIONS makes its rows. */
typedef struct ea_print_options {
    int format; /* enum ea_print_format */
    ea_strings fields, pids;
    ea_class_choice choice;
    const char *from, *to;
    int raw, no_names;
} ea_print_options;

#define EA_PRINT_OPTIONS(owner, print_member, default_format)                                                          \
    EA_PRINT_OPTIONS_OF(owner, print_member, default_format, EA_PRINT_FORMATS,                                         \
                        "how events are printed; raw is jsonl with --raw")

/* The same for a command that has more formats than the printer. */
#define EA_PRINT_OPTIONS_OF(owner, print_member, default_format, formats, format_help)                                 \
    {.name = "format",                                                                                                 \
     .letter = 'f',                                                                                                    \
     .argument = "FORMAT",                                                                                             \
     .type = EA_OPT_CHOICE,                                                                                            \
     .offset = offsetof(owner, print_member) + offsetof(ea_print_options, format),                                     \
     .fallback = default_format,                                                                                       \
     .choices = formats,                                                                                               \
     .help = format_help},                                                                                             \
        {.name = "fields",                                                                                             \
         .argument = "A,B,...",                                                                                        \
         .type = EA_OPT_STRINGS,                                                                                       \
         .offset = offsetof(owner, print_member) + offsetof(ea_print_options, fields),                                 \
         .help = "print these columns only: keys of the JSON form, or names of events' fields"},                       \
        EA_CLASS_OPTIONS(owner, print_member.choice),                                                                  \
        {.name = "pid",                                                                                                \
         .letter = 'p',                                                                                                \
         .argument = "N",                                                                                              \
         .type = EA_OPT_STRINGS,                                                                                       \
         .offset = offsetof(owner, print_member) + offsetof(ea_print_options, pids),                                   \
         .help = "only events of or about this process; may be repeated"},                                             \
        {.name = "from",                                                                                               \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = offsetof(owner, print_member) + offsetof(ea_print_options, from),                                   \
         .help = "only events at or after this time: RFC 3339, a date, now, -1h, or such as +10s after the start"},    \
        {.name = "to",                                                                                                 \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = offsetof(owner, print_member) + offsetof(ea_print_options, to),                                     \
         .help = "only events before this time"},                                                                      \
        {.name = "raw",                                                                                                \
         .type = EA_OPT_FLAG,                                                                                          \
         .offset = offsetof(owner, print_member) + offsetof(ea_print_options, raw),                                    \
         .help = "with jsonl: add the rest of each record's identity, payload and extended items in hex"},             \
    {                                                                                                                  \
        .name = "no-names", .type = EA_OPT_FLAG,                                                                       \
        .offset = offsetof(owner, print_member) + offsetof(ea_print_options, no_names),                                \
        .help = "print events by themselves, without what others say about them, in one pass"                          \
    }

typedef struct ea_printer ea_printer;

/* options are borrowed. out: NULL before ea_printer_set_output. EA_EUSAGE when they contradict each other. */
EA_MUST_CHECK int ea_printer_create(ea_printer **ret, const ea_print_options *options, FILE *out, ea_err *err);
/* Text goes to write, in place of a file. What write returns is what the printer's calls return. */
void ea_printer_set_output(ea_printer *p, int (*write)(void *arg, const void *data, size_t len_bytes, ea_err *err),
                           void *arg);
void ea_printer_destroy(ea_printer *p); /* NULL is allowed; text that was not flushed is lost */

/* 1 when the options ask for what other events say; then the caller makes a pass over all of them first. */
int ea_printer_wants_names(const ea_printer *p);
/* resolver: borrowed until the printer is destroyed or gets another one; NULL for none. */
void ea_printer_set_resolver(ea_printer *p, const ea_resolver *resolver);

/* Prints the event when the filters want it; with names, a record that holds many events (compact_cswitch.h) as those.
 * c must be the same object for the same class until ea_printer_forget_classes. EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ea_printer_event(ea_printer *p, const ea_record *record, const ea_class *c, const ea_clock *clock,
                                   ea_err *err);
/* An event that is not printed, for a reason that the options do not know: ea_printer_check knows of it. */
void ea_printer_pass(ea_printer *p, const ea_record *record, const ea_class *c, const ea_clock *clock);
/* No more events of this trace or stream come: prints what waited for a later one. EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ea_printer_end(ea_printer *p, ea_err *err);
/* After the last event: EA_ENOTFOUND when the options name a class that no event was of and no row is about, or a
 * column that none of the printed events and no row has (the message names a similar one), or when none of the events
 * is in the time range, or of the processes, that the options name. */
EA_MUST_CHECK int ea_printer_check(ea_printer *p, ea_err *err);
/* Events that were printed. */
uint64_t ea_printer_printed(const ea_printer *p);
/* Says on standard error, in the program's name, what of such records could not be read; nothing when nothing was. */
void ea_printer_report_left_over(const ea_printer *p, const char *program);
/* The classes seen so far are about to be freed. */
void ea_printer_forget_classes(ea_printer *p);
/* Writes what is left. */
EA_MUST_CHECK int ea_printer_flush(ea_printer *p, ea_err *err);
/* Of when the data are: times such as +10s refer to that. Before the first event. EA_EUSAGE. */
EA_MUST_CHECK int ea_printer_set_data(ea_printer *p, int64_t begin_utc_ns, int64_t end_utc_ns, ea_err *err);
/* The time window that the options ask for: [from, to), INT64_MIN and INT64_MAX where they do not. */
void ea_printer_window(const ea_printer *p, int64_t *ret_from_utc_ns, int64_t *ret_to_utc_ns);

#endif
