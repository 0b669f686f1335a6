/* Labels: what a configuration calls the machine, beside its certificate's name. A value may name environment variables
 * and facts of the machine, each as ${NAME}; "$$" is one dollar. Facts:
 *     machine.name machine.domain machine.os machine.os-version machine.architecture machine.cpus machine.memory
 * (memory in bytes). A name without "machine." before it is an environment variable. Input: the configuration. Output:
 * each batch's source (wire.h). Thread: the main one. */
#ifndef EA_CORE_LABELS_H
#define EA_CORE_LABELS_H

#include "proto/base/arena.h"
#include "proto/base/text.h"

/* EA_EINVAL: too many of them, a name or a value too long, a name with other than letters, digits, ".", "-" and "_", a
 * ${ without its }, a fact that is not known. */
EA_MUST_CHECK int ea_labels_check(const ea_labels *labels, ea_err *err);
/* Checked labels with their values filled in, cut to EA_LABEL_VALUE_MAX_BYTES; in arena. A label whose value names an
 * environment variable that is not set is left out, and on_left_out (may be NULL) hears of it. EA_ENOMEM. */
EA_MUST_CHECK int ea_labels_resolve(ea_labels *ret, const ea_labels *labels, ea_arena *arena,
                                    void (*on_left_out)(const char *label, const char *variable), ea_err *err);

#endif
