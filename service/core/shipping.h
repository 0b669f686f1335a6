/* Options for collectors, certificates and the spool, as rows for a command line and for a configuration file, and what
 * they name: the spool, the certificate's name, a sender.
 * Called by: the agent, commands that send. Calls: service/ship. Thread: the main one. */
#ifndef EA_CORE_SHIPPING_H
#define EA_CORE_SHIPPING_H

#include "proto/base/cli.h"
#include "service/core/sender_events.h"
#include "service/ship/enroll_client.h"
#include "service/spool/recorder.h"

typedef struct ea_shipping_options {
    ea_strings collectors;
    const char *cert, *key, *ca, *spool, *spool_key, *proxy;
    const char *enroll, *token_file, *enroll_name; /* of a configuration file */
    uint64_t bandwidth_bytes;                      /* a second; 0: no limit */
    int on_battery, on_metered;                    /* enum ea_sender_pace; of a configuration file */
    uint64_t spool_bytes;
    int spool_sync; /* index into always, interval, never */
    int64_t spool_sync_interval_ns, spool_age_ns;
    int64_t give_up_ns;
    uint64_t request_bytes;
    int64_t connect_timeout_ns, request_timeout_ns, idle_timeout_ns, retry_max_ns;
} ea_shipping_options;

#define EA_PROXY_SYSTEM "system" /* in place of a proxy's address */

/* Rows for an option table whose struct has an ea_shipping_options at offset base. */
#define EA_SHIPPING_OPTIONS(base)                                                                                      \
    {.name = "collector",                                                                                              \
     .letter = 'c',                                                                                                    \
     .argument = "URL",                                                                                                \
     .type = EA_OPT_STRINGS,                                                                                           \
     .offset = (base) + offsetof(ea_shipping_options, collectors),                                                     \
     .required = 1,                                                                                                    \
     .example = "https://collector.example:8443",                                                                      \
                                                                                                                       \
     .help = "https://HOST[:PORT] of a collector; given several times, the next one is used when one fails"},          \
        {.name = "cert",                                                                                               \
         .argument = "FILE",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_shipping_options, cert),                                                       \
         .required = 1,                                                                                                \
         .example = "machine.crt",                                                                                     \
                                                                                                                       \
         .help = "this agent's certificate, PEM, or on Windows store:machine/My/WHICH, a thumbprint or a common "      \
                 "name; the data is stored under its common name"},                                                    \
        {.name = "key",                                                                                                \
         .argument = "FILE",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_shipping_options, key),                                                        \
         .required = 1,                                                                                                \
         .example = "machine.key",                                                                                     \
                                                                                                                       \
         .help = "the certificate's key, PEM; store: the key that Windows keeps with a certificate of a store, and "   \
                 "which stays in the store"},                                                                          \
        {.name = "ca",                                                                                                 \
         .argument = "FILE",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_shipping_options, ca),                                                         \
         .required = 1,                                                                                                \
         .example = "ca.crt",                                                                                          \
                                                                                                                       \
         .help = "certificate of the CA that collectors are checked against, PEM, or on Windows store:machine/Root "   \
                 "for all that it trusts"},                                                                            \
        {.name = "request-bytes",                                                                                      \
         .argument = "SIZE",                                                                                           \
         .type = EA_OPT_SIZE,                                                                                          \
         .offset = (base) + offsetof(ea_shipping_options, request_bytes),                                              \
         .fallback = "4MiB",                                                                                           \
         .help = "most bytes of batches in one request; a slow line lowers it"},                                       \
        {.name = "connect-timeout",                                                                                    \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_DURATION,                                                                                      \
         .offset = (base) + offsetof(ea_shipping_options, connect_timeout_ns),                                         \
         .fallback = "10s",                                                                                            \
         .help = "a collector must be reached within this time"},                                                      \
        {.name = "request-timeout",                                                                                    \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_DURATION,                                                                                      \
         .offset = (base) + offsetof(ea_shipping_options, request_timeout_ns),                                         \
         .fallback = "2m",                                                                                             \
         .help = "a request must be answered within this time"},                                                       \
        {.name = "idle-timeout",                                                                                       \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_DURATION,                                                                                      \
         .offset = (base) + offsetof(ea_shipping_options, idle_timeout_ns),                                            \
         .fallback = "30s",                                                                                            \
         .help = "a request ends with an error when no byte moves for this time"},                                     \
        {.name = "proxy",                                                                                              \
         .argument = "URL",                                                                                            \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = (base) + offsetof(ea_shipping_options, proxy),                                                      \
         .help = "http://HOST:PORT of an HTTP proxy through which collectors are reached, or system: the proxy of "    \
                 "Windows' settings, "                                                                                 \
                 "a script (PAC) or the network, elsewhere of https_proxy and no_proxy; default: none"},               \
        {.name = "bandwidth",                                                                                          \
         .argument = "SIZE",                                                                                           \
         .type = EA_OPT_SIZE,                                                                                          \
         .offset = (base) + offsetof(ea_shipping_options, bandwidth_bytes),                                            \
         .fallback = "0",                                                                                              \
         .help = "most bytes that are sent in a second; 0: no limit"},                                                 \
    {                                                                                                                  \
        .name = "retry-max", .argument = "TIME", .type = EA_OPT_DURATION,                                              \
        .offset = (base) + offsetof(ea_shipping_options, retry_max_ns), .fallback = "5s",                              \
        .help = "longest pause before the next attempt, unless the collector asks for more"                            \
    }

/* For a command that a person waits for. */
#define EA_GIVE_UP_OPTION(base)                                                                                        \
    {                                                                                                                  \
        .name = "give-up", .argument = "TIME", .type = EA_OPT_DURATION,                                                \
        .offset = (base) + offsetof(ea_shipping_options, give_up_ns), .fallback = "2m",                                \
        .help = "end when no collector has answered for this time; 0: never"                                           \
    }

/* The row of the spool's key file. */
#define EA_SPOOL_KEY_OPTION(at)                                                                                        \
    {                                                                                                                  \
        .name = "spool-key", .argument = "FILE", .type = EA_OPT_STRING, .offset = (at),                                \
        .help =                                                                                                        \
            "file with the key that encrypts waiting batches; a missing file is made (for its owner only; on Windows " \
            "for this machine only); default: no encryption"                                                           \
    }

/* The same for the spool. */
#define EA_SPOOL_OPTIONS(base)                                                                                         \
    {.name = "spool",                                                                                                  \
     .argument = "DIR",                                                                                                \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = (base) + offsetof(ea_shipping_options, spool),                                                          \
     .help = "folder of the spool; default: spool in the folder for state (see above); batches of another "            \
             "certificate's name are kept apart, in a folder of it"},                                                  \
        {.name = "spool-bytes",                                                                                        \
         .argument = "SIZE",                                                                                           \
         .type = EA_OPT_SIZE,                                                                                          \
         .offset = (base) + offsetof(ea_shipping_options, spool_bytes),                                                \
         .fallback = "1GiB",                                                                                           \
         .help = "most bytes of the spool on disk"},                                                                   \
        {.name = "spool-age",                                                                                          \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_DURATION,                                                                                      \
         .offset = (base) + offsetof(ea_shipping_options, spool_age_ns),                                               \
         .fallback = "0",                                                                                              \
         .help =                                                                                                       \
             "batches of sessions that waited longer are dropped, and tombstones record that; batches of files are "   \
             "never dropped, since a file is read again; 0: batches wait as long as there is room"},                   \
        {.name = "spool-sync",                                                                                         \
         .argument = "WHEN",                                                                                           \
         .type = EA_OPT_CHOICE,                                                                                        \
         .offset = (base) + offsetof(ea_shipping_options, spool_sync),                                                 \
         .fallback = "interval",                                                                                       \
         .choices = ea_spool_sync_choices,                                                                             \
         .help = "when batches are forced to the disk: each one before it counts as kept, at an interval, or never"},  \
        {.name = "spool-sync-interval",                                                                                \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_DURATION,                                                                                      \
         .offset = (base) + offsetof(ea_shipping_options, spool_sync_interval_ns),                                     \
         .fallback = "1s",                                                                                             \
         .min = 1000000,                                                                                               \
         .max = 3600000000000,                                                                                         \
         .help = "with spool-sync interval: a power cut costs at the most what came in so long"},                      \
        EA_SPOOL_KEY_OPTION((base) + offsetof(ea_shipping_options, spool_key))
extern const char *const ea_spool_sync_choices[];

#define EA_SPOOL_FOLDER_TEXT                                                                                           \
    "The spool is in $XDG_STATE_HOME/etwagent/spool or ~/.local/state/etwagent/spool (Windows: "                       \
    "%ProgramData%\\etwagent\\spool)\nunless --spool names another folder.\n"                                          \
    "It belongs to the name of the certificate that it is first used with; batches of other names lie in folders "     \
    "of\nit, of-NAME.spool."

/* The spools' folder: what the option says, or the default. out has room for EA_SPOOL_PATH_BYTES. */
enum { EA_SPOOL_PATH_BYTES = 4096 };

EA_MUST_CHECK int ea_shipping_spool_path(const char *given, char *out, ea_err *err);

/* The name of the certificate, as collectors fold it. EA_EINVAL when no collector accepts it. */
EA_MUST_CHECK int ea_shipping_name(const ea_shipping_options *o, char ret[EA_CERTIFICATE_NAME_BYTES], ea_err *err);

/* Opens the spool of the certificate's name (spool_owner.h) as the options say. name: that name; NULL: it is not known
 * yet, and the spool may have no owner until ea_spool_own. live: live streams may be opened, see ea_spool_options. */
EA_MUST_CHECK int ea_shipping_open_spool(ea_spool **ret, const ea_shipping_options *o, const char *name, int live,
                                         ea_counters *counters, ea_err *err);

/* Opens the recorder of that name in the spool's folder, with the spool's key and syncs. The events of a recorder that
 * finds an older one of its name there go on after those. */
EA_MUST_CHECK int ea_shipping_open_recorder(ea_spool **ret, const ea_shipping_options *o, const char *name,
                                            uint64_t size_bytes, int64_t age_ns, ea_counters *counters, ea_err *err);

/* A hash of the data's destination and of the certificate's name: acknowledgements under another name do not count.
 * Reads the certificate. */
EA_MUST_CHECK int ea_shipping_target(const ea_shipping_options *o, uint64_t *ret, ea_err *err);

/* A sender's options as ours say, with the callbacks of events. The caller changes what it wants otherwise. */
ea_sender_options ea_shipping_sender(const ea_shipping_options *o, ea_counters *counters, ea_sender_events *events);

#endif
