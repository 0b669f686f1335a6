/* Names of event classes as people type them, and the options that choose classes by them. A class has the name that
 * its manifest or table gives ("Process/Start"). An event with an id also has its provider's name and that id as a
 * name: "PowerShell/4104", "Microsoft-Windows-PowerShell/4104" and the provider's GUID with "/4104" are one. All places
 * where a class can be named ask here. Used by: the printer, commands, proto/lang, SQL. Thread: any; a chooser has one
 * owner. */
#ifndef EA_EVENT_CLASS_NAMES_H
#define EA_EVENT_CLASS_NAMES_H

#include "proto/base/cli.h"
#include "proto/base/map.h"
#include "proto/event/event.h"

/* A provider's name without "Microsoft-Windows-" or "Microsoft-": part of the same text. */
const char *ea_provider_short_name(const char *provider_name);
/* 1 when the text is the provider's name, its short name or its GUID, in any case. */
int ea_provider_is_named(const char *text, size_t len_bytes, const char *provider_name, const ea_guid *provider);
/* 1 when the text is PROVIDER/ID of the event, or PROVIDER/ and a star. Classic events have no id. */
int ea_event_has_alias(const char *text, size_t len_bytes, const ea_guid *provider, const char *provider_name,
                       int classic, uint16_t code);
/* name, in any case; a * at the pattern's end stands for anything. */
int ea_class_name_matches(const char *pattern, const char *name);
/* 1 when the pattern matches the class's name, or is its PROVIDER/ID. What --class means. */
int ea_class_is_named(const char *pattern, const ea_class *c);

/* The name that is nearest to what was asked for, of those that were shown to ea_near_note; name is empty when none is
 * similar. */
enum { EA_NEAR_BYTES = 64 };

typedef struct ea_near {
    size_t distance;
    char name[EA_NEAR_BYTES];
} ea_near;

void ea_near_note(ea_near *n, const char *asked, const char *name);

/* A command's options struct has one of these; EA_CLASS_OPTIONS makes its rows. */
typedef struct ea_class_choice {
    ea_strings classes, ids, providers;
} ea_class_choice;

#define EA_CLASS_OPTIONS(owner, choice_member)                                                                         \
    {.name = "class",                                                                                                  \
     .letter = 'c',                                                                                                    \
     .argument = "NAME",                                                                                               \
     .type = EA_OPT_STRINGS,                                                                                           \
     .offset = offsetof(owner, choice_member) + offsetof(ea_class_choice, classes),                                    \
     .help = "only events of this class, in any case: its name, 'Process/*' for a family, or provider and id as in "   \
             "PowerShell/4104; may be repeated"},                                                                      \
        {.name = "id",                                                                                                 \
         .argument = "N",                                                                                              \
         .type = EA_OPT_STRINGS,                                                                                       \
         .offset = offsetof(owner, choice_member) + offsetof(ea_class_choice, ids),                                    \
         .help = "only events with this id, which classic events do not have; may be repeated"},                       \
    {                                                                                                                  \
        .name = "provider", .argument = "NAME", .type = EA_OPT_STRINGS,                                                \
        .offset = offsetof(owner, choice_member) + offsetof(ea_class_choice, providers),                               \
        .help = "only events of this provider: its name, with or without Microsoft-Windows-, or its GUID; may be "     \
                "repeated"                                                                                             \
    }

/* Which classes a choice wants, and what of the choice no class had. */
typedef struct ea_class_chooser {
    const ea_class_choice *choice; /* borrowed */
    uint16_t ids[EA_STRINGS_MAX];
    ea_u64_map known; /* address of a class -> 1: wanted, 2: not */
    uint8_t has_class[EA_STRINGS_MAX], has_id[EA_STRINGS_MAX], has_provider[EA_STRINGS_MAX];
    ea_near near_class[EA_STRINGS_MAX], near_provider[EA_STRINGS_MAX];
} ea_class_chooser;

/* EA_EUSAGE for an id that is none. */
EA_MUST_CHECK int ea_class_chooser_init(ea_class_chooser *ch, const ea_class_choice *choice, ea_err *err);
void ea_class_chooser_deinit(ea_class_chooser *ch);
/* c must be the same object for the same class until ea_class_chooser_forget. */
int ea_class_chooser_wants(ea_class_chooser *ch, const ea_class *c);
void ea_class_chooser_forget(ea_class_chooser *ch);
/* After the last event: EA_ENOTFOUND for a class, an id or a provider that no event had and that is not known; the
 * message names a similar one. */
EA_MUST_CHECK int ea_class_chooser_check(ea_class_chooser *ch, ea_err *err);

#endif
