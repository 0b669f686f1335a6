/* Names of NTSTATUS values, for rendering: they are the same in every trace, so no description carries them. Used by:
 * render_values.c. Thread: any (constants). */
#ifndef EA_EVENT_NTSTATUS_H
#define EA_EVENT_NTSTATUS_H

#include <stdint.h>

/* "OBJECT_NAME_NOT_FOUND"; NULL for a value without a name here. */
const char *ea_ntstatus_name(uint32_t status);

#endif
