/* Objects and handles. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row OBJECT = {
    EA_PROVIDER_OBJECT, EA_KERNEL_TRACE, 1};

static const ea_field_row create_handle_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"Handle", EA_HEX32},
    {"ObjectType", EA_U16},
    {"ObjectName", EA_UTF16Z},
    {0},
};

static const ea_field_row duplicate_handle_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"SourceHandle", EA_HEX32},
    {"TargetHandle", EA_HEX32},
    {"TargetProcessId", EA_U32, EA_SEM_PID},
    {"ObjectType", EA_U16},
    {0},
};

static const ea_field_row type_dc_start_fields[] = {
    {"ObjectType", EA_U16},
    {"Reserved", EA_U16},
    {"TypeName", EA_UTF16Z},
    {0},
};

static const ea_field_row handle_dc_start_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"Handle", EA_HEX32},
    {"ObjectType", EA_U16},
    {"ObjectName", EA_UTF16Z},
    {0},
};

static const ea_field_row create_object_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"ObjectType", EA_U16},
    {0},
};

static const ea_field_row reference_object_fields[] = {
    {"Object", EA_POINTER, EA_SEM_ADDRESS},
    {"Tag", EA_HEX32},
    {"Count", EA_U32},
    {0},
};

static const ea_class_row object_rows[] = {
    {"Object/CreateHandle", 32, 2, 2, create_handle_fields},
    {"Object/CloseHandle", 33, 2, 2, create_handle_fields},
    {"Object/DuplicateHandle", 34, 2, 2, duplicate_handle_fields},
    {"Object/TypeDCStart", 36, 2, 2, type_dc_start_fields},
    {"Object/TypeDCEnd", 37, 2, 2, type_dc_start_fields},
    {"Object/HandleDCStart", 38, 2, 2, handle_dc_start_fields},
    {"Object/HandleDCEnd", 39, 2, 2, handle_dc_start_fields},
    {"Object/CreateObject", 48, 2, 2, create_object_fields},
    {"Object/DeleteObject", 49, 2, 2, create_object_fields},
    {"Object/ReferenceObject", 50, 2, 2, reference_object_fields},
    {"Object/DereferenceObject", 51, 2, 2, reference_object_fields},
};

const ea_family ea_family_object = EA_FAMILY(OBJECT, object_rows, EA_MOF);
