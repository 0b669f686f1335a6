/* Keys and values of the registry as Sysmon writes them, which is how detection rules ask for them. Used by: the
 * collector's SQL. Thread: any. */
#ifndef EA_EVENT_REGISTRY_TEXT_H
#define EA_EVENT_REGISTRY_TEXT_H

#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

/* Adds a value's data: "DWORD (0x00000001)", "QWORD (0x00000000-0x00000001)", the text of REG_SZ, REG_EXPAND_SZ and
 * REG_LINK up to its first NUL, "(Empty)" for one without a character and for a value of no bytes, "Binary Data" for
 * any other. type: REG_*; value_bytes: of the value; data: what an event has of them, at most value_bytes. Returns 0
 * and adds nothing where the event lacks the data. */
int ea_registry_data_text(ea_text *t, uint32_t type, uint64_t value_bytes, const void *data, size_t data_bytes);

/* Adds a key's path under the short names of its root: \REGISTRY\MACHINE as HKLM, \REGISTRY\USER as HKU,
 * \REGISTRY\MACHINE\SOFTWARE\Classes as HKCR, and each \REGISTRY\MACHINE\SYSTEM\ControlSetNNN as
 * HKLM\System\CurrentControlSet. Any other path stays as it is. */
void ea_registry_path_text(ea_text *t, const char *path);

#endif
