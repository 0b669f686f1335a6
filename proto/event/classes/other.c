/* Power, MMCSS and the debugger: a few events each. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row POWER = {
    EA_PROVIDER_POWER, EA_KERNEL_TRACE, 1};

static const ea_field_row idle_exit_latency_fields[] = {
    {"PlatformState", EA_U32},
    {"ProcessorState", EA_U32},
    {"ReturnLatency", EA_U32},
    {"TotalLatency", EA_U32},
    {0},
};

static const ea_class_row power_rows[] = {
    {"Power/IdleExitLatency", 60, 2, 2, idle_exit_latency_fields},
};

const ea_family ea_family_power = EA_FAMILY(POWER, power_rows, EA_MOF);

static const ea_provider_row MMCSS = {
    EA_GUID(0xf8f10121, 0xb617, 0x4a56, 0x86, 0x8b, 0x9d, 0xf1, 0xb2, 0x7f, 0xe3, 0x2c), EA_KERNEL_TRACE, 1};

static const ea_field_row scheduler_fields[] = {
    {"ScheduledPID", EA_U32, EA_SEM_PID},
    {"ScheduledTID", EA_U32, EA_SEM_TID},
    {"SchedulingPriority", EA_U32},
    {"TaskIndex", EA_U32},
    {0},
};

static const ea_field_row wakeup_fields[] = {
    {"Reason", EA_HEX32},
    {0},
};

static const ea_class_row mmcss_rows[] = {
    {"MMCSS/Start", 32, 0, 0, ea_no_fields},
    {"MMCSS/Stop", 33, 0, 0, ea_no_fields},
    {"MMCSS/Scheduler", 34, 0, 0, scheduler_fields},
    {"MMCSS/Wakeup", 35, 0, 0, wakeup_fields},
    {"MMCSS/Sleep", 36, 0, 0, ea_no_fields},
    {"MMCSS/SleepResp", 37, 0, 0, ea_no_fields},
};

const ea_family ea_family_mmcss = EA_FAMILY(MMCSS, mmcss_rows, EA_MOF);

static const ea_provider_row DEBUGGER = {
    EA_PROVIDER_DBG_PRINT, EA_KERNEL_TRACE, 1};

static const ea_field_row debug_print_fields[] = {
    {"Component", EA_U32},
    {"Level", EA_U32},
    {"Message", EA_ANSIZ},
    {0},
};

static const ea_class_row debugger_rows[] = {
    {"Debugger/DebugPrint", 32, 2, 2, debug_print_fields},
};

const ea_family ea_family_debugger = EA_FAMILY(DEBUGGER, debugger_rows, EA_MOF);
