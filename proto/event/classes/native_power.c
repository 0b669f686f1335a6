/* Power: events that Windows' own schema leaves out and a public header names. As in native_sched.c. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row POWER = {
    EA_PROVIDER_POWER, EA_KERNEL_TRACE, 1};

/* wdm.h POWER_ACTION */
static const ea_map_entry power_action_names[] = {
    {0, "None"},
    {1, "Reserved"},
    {2, "Sleep"},
    {3, "Hibernate"},
    {4, "Shutdown"},
    {5, "ShutdownReset"},
    {6, "ShutdownOff"},
    {7, "WarmEject"},
    {8, "DisplayOff"},
};
static const ea_enum power_action = EA_VALUES("PowerAction", power_action_names);

/* wdm.h SYSTEM_POWER_STATE */
static const ea_map_entry system_power_state_names[] = {
    {0, "Unspecified"},
    {1, "Working"},
    {2, "Sleeping1"},
    {3, "Sleeping2"},
    {4, "Sleeping3"},
    {5, "Hibernate"},
    {6, "Shutdown"},
};
static const ea_enum system_power_state = EA_VALUES("SystemPowerState", system_power_state_names);

/* wdm.h POWER_STATE_TYPE */
static const ea_map_entry power_state_type_names[] = {
    {0, "System"},
    {1, "Device"},
};
static const ea_enum power_state_type = EA_VALUES("PowerStateType", power_state_type_names);

/* ntwmi.h PERFINFO_PPM_IDLE_FLAG_* */
static const ea_map_entry idle_flags_names[] = {
    {0x1, "DueInterrupt"},
    {0x2, "IrRetry"},
    {0x4, "IrEnabled"},
    {0x8, "ClockOwner"},
    {0x10, "PlatformEnter"},
    {0x20, "LockProcessors"},
    {0x40, "ConstraintNonInterruptible"},
    {0x80, "ConstraintPlatform"},
    {0x100, "OverrideEnabled"},
    {0x200, "MeasuringExitLatency"},
    {0x400, "WakeRequested"},
    {0x800, "IpiClockOwner"},
    {0x1000, "PlatformHintOverride"},
    {0x2000, "DurationExpiration"},
};
static const ea_enum idle_flags = EA_FLAGS("PpmIdleFlags", idle_flags_names);

/* ntwmi.h PERFINFO_PPM_IDLE_VETO_* */
static const ea_map_entry veto_reason_names[] = {
    {0x80000000, "PreregisteredVeto"},
    {0x80000001, "WrongInitiator"},
    {0x80000002, "SystemLatency"},
    {0x80000003, "IdleDuration"},
    {0x80000004, "DeviceDependency"},
    {0x80000005, "ProcessorDependency"},
    {0x80000006, "PlatformOnly"},
    {0x80000007, "Interruptible"},
    {0x80000008, "LegacyOverride"},
    {0x80000009, "CStateCheck"},
    {0x8000000a, "NoCState"},
    {0x8000000b, "CoordinatedDependency"},
    {0xfffffffe, "DisabledInMenu"},
    {0xffffffff, "ActiveProcessor"},
};
static const ea_enum veto_reason = EA_VALUES("PpmIdleVetoReason", veto_reason_names);

/* ntwmi.h PERFINFO_PPM_*_STATE */
static const ea_map_entry perf_state_type_names[] = {
    {1, "FrequencyVoltage"},
    {2, "StopClockThrottle"},
};
static const ea_enum perf_state_type = EA_VALUES("PpmPerfStateType", perf_state_type_names);

/* ntwmi.h PERFINFO_BATTERY_LIFE_INFO */
static const ea_field_row battery_fields[] = {
    {"RemainingCapacity", EA_U32},
    {"Rate", EA_U32},
    {0},
};

/* ntwmi.h PERFINFO_IDLE_STATE_CHANGE */
static const ea_field_row idle_change_fields[] = {
    {"State", EA_U32},
    {"Throttle", EA_U32},
    {"Direction", EA_U32},
    {0},
};

/* ntwmi.h PERFINFO_SET_POWER_ACTION */
static const ea_field_row action_fields[] = {
    {"Trigger", EA_POINTER, EA_SEM_ADDRESS},
    {"PowerAction", EA_U32, .map = &power_action},
    {"LightestState", EA_U32, .map = &system_power_state},
    {0},
};

/* ntwmi.h PERFINFO_SET_POWER_ACTION_RET */
static const ea_field_row action_ret_fields[] = {
    {"Trigger", EA_POINTER, EA_SEM_ADDRESS},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_SET_DEVICES_STATE */
static const ea_field_row devices_fields[] = {
    {"SystemState", EA_U32, .map = &system_power_state},
    {"Waking", EA_BOOL8},
    {"Shutdown", EA_BOOL8},
    {"IrpMinor", EA_U8},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_SET_DEVICES_STATE_RET, PERFINFO_PO_SESSION_CALLOUT_RET */
static const ea_field_row status_fields[] = {
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

/* ntwmi.h PERFINFO_PO_NOTIFY_DEVICE */
static const ea_field_row notify_fields[] = {
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"DriverStart", EA_POINTER, EA_SEM_ADDRESS},
    {"OrderLevel", EA_U8},
    {"MajorFunction", EA_U8, .map = &ea_irp_major},
    {"MinorFunction", EA_U8},
    {"Alignment", EA_BYTES, .count = 1},
    {"Type", EA_U32, .map = &power_state_type},
    {"State", EA_U32},
    {"DeviceNameLength", EA_U32},
    {"DeviceName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

/* ntwmi.h PERFINFO_PO_NOTIFY_DEVICE_COMPLETE */
static const ea_field_row notify_complete_fields[] = {
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {"Padding", EA_BYTES, .count = EA_COUNT_REST, .optional = 1},
    {0},
};

/* ntwmi.h PERFINFO_PO_SESSION_CALLOUT */
static const ea_field_row callout_fields[] = {
    {"SystemAction", EA_U32, .map = &power_action},
    {"MinSystemState", EA_U32, .map = &system_power_state},
    {"Flags", EA_HEX32},
    {"PowerStateTask", EA_U32},
    {0},
};

/* ntwmi.h PERFINFO_PO_PRESLEEP */
static const ea_field_row pre_sleep_fields[] = {
    {"PerformanceCounter", EA_I64, EA_SEM_QPC},
    {"PerformanceFrequency", EA_I64},
    {0},
};

/* ntwmi.h PERFINFO_PO_POSTSLEEP, PERFINFO_PO_CALIBRATED_PERFCOUNTER */
static const ea_field_row counter_fields[] = {
    {"PerformanceCounter", EA_I64, EA_SEM_QPC},
    {0},
};

/* ntwmi.h PERFINFO_PPM_PERF_STATE_CHANGE */
static const ea_field_row perf_state_fields[] = {
    {"Type", EA_U32, .map = &perf_state_type},
    {"NewState", EA_U32},
    {"OldState", EA_U32},
    {"Result", EA_HEX32, EA_SEM_NTSTATUS},
    {"Processors", EA_HEX64},
    {0},
};

/* ntwmi.h PERFINFO_PPM_IDLE_STATE_CHANGE */
static const ea_field_row idle_state_fields[] = {
    {"NewState", EA_U32},
    {"OldState", EA_U32},
    {"Processors", EA_HEX64},
    {0},
};

/* ntwmi.h PERFINFO_PPM_THERMAL_CONSTRAINT */
static const ea_field_row thermal_fields[] = {
    {"Constraint", EA_U32},
    {"Alignment", EA_BYTES, .count = 4},
    {"Processors", EA_HEX64},
    {0},
};

/* ntwmi.h PERFINFO_PPM_IDLE_STATE_ENTER */
static const ea_field_row idle_enter_fields[] = {
    {"State", EA_U32},
    {"Properties", EA_HEX16, .map = &idle_flags},
    {"ExpectedWakeReason", EA_U8},
    {"Reserved", EA_U8},
    {"ExpectedDuration", EA_U64},
    {0},
};

/* ntwmi.h PERFINFO_PPM_IDLE_STATE_EXIT */
static const ea_field_row idle_exit_fields[] = {
    {"State", EA_U32},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

/* ntwmi.h PERFINFO_PPM_STATE_SELECTION */
static const ea_field_row selection_fields[] = {
    {"SelectedState", EA_U32},
    {"VetoedStates", EA_U32},
    {"VetoReason", EA_HEX32, .count_field = "VetoedStates", .map = &veto_reason},
    {0},
};

static const ea_class_row power_native_rows[] = {
    {"Power/BatteryLifeInfo", 32, 0, 2, battery_fields},
    {"Power/IdleStateChange", 33, 0, 2, idle_change_fields},
    {"Power/SetPowerAction", 34, 0, 2, action_fields},
    {"Power/SetPowerActionRet", 35, 0, 2, action_ret_fields},
    {"Power/SetDevicesState", 36, 0, 2, devices_fields},
    {"Power/SetDevicesStateRet", 37, 0, 2, status_fields},
    {"Power/NotifyDevice", 38, 0, 2, notify_fields},
    {"Power/NotifyDeviceComplete", 39, 0, 2, notify_complete_fields},
    {"Power/SessionCallout", 40, 0, 2, callout_fields},
    {"Power/SessionCalloutRet", 41, 0, 2, status_fields},
    {"Power/PreSleep", 48, 0, 2, pre_sleep_fields},
    {"Power/PostSleep", 49, 0, 2, counter_fields},
    {"Power/CalibratedPerfCounter", 50, 0, 2, counter_fields},
    {"Power/PpmPerfStateChange", 51, 0, 2, perf_state_fields},
    {"Power/PpmThrottleStateChange", 52, 0, 2, NULL},
    {"Power/PpmIdleStateChange", 53, 0, 2, idle_state_fields},
    {"Power/PpmThermalConstraint", 54, 0, 2, thermal_fields},
    {"Power/SignalResumeUi", 55, 0, 2, NULL},
    {"Power/SignalVideoOn", 56, 0, 2, NULL},
    {"Power/PpmIdleStateEnter", 57, 0, 2, idle_enter_fields},
    {"Power/PpmIdleStateExit", 58, 0, 2, idle_exit_fields},
    {"Power/PpmPlatformIdleStateEnter", 59, 0, 2, NULL},
    {"Power/PpmIdleProcessorSelection", 61, 0, 2, selection_fields},
    {"Power/PpmIdlePlatformSelection", 62, 0, 2, selection_fields},
    {"Power/PpmCoordinatedIdleEnter", 63, 0, 2, NULL},
    {"Power/PpmCoordinatedIdleExit", 64, 0, 2, NULL},
};

const ea_family ea_family_power_native =
    EA_FAMILY(POWER, power_native_rows, "ntwmi.h PERFINFO_PO_*, PERFINFO_PPM_*");
