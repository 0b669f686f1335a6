/* ALPC messages. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row ALPC = {
    EA_PROVIDER_ALPC, EA_KERNEL_TRACE, 1};

static const ea_field_row alpc_send_message_fields[] = {
    {"MessageID", EA_U32},
    {0},
};

static const ea_field_row alpc_wait_for_new_message_fields[] = {
    {"IsServerPort", EA_U32},
    {"PortName", EA_UTF16Z},
    {0},
};

static const ea_field_row alpc_unwait_fields[] = {
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_class_row alpc_rows[] = {
    {"ALPC/ALPC-Send-Message", 33, 2, 2, alpc_send_message_fields},
    {"ALPC/ALPC-Receive-Message", 34, 2, 2, alpc_send_message_fields},
    {"ALPC/ALPC-Wait-For-Reply", 35, 2, 2, alpc_send_message_fields},
    {"ALPC/ALPC-Wait-For-New-Message", 36, 2, 2, alpc_wait_for_new_message_fields},
    {"ALPC/ALPC-Unwait", 37, 2, 2, alpc_unwait_fields},
};

const ea_family ea_family_alpc = EA_FAMILY(ALPC, alpc_rows, EA_MOF);
