/* JavaScript: code that the engine of Internet Explorer and of the old Edge (Microsoft-JScript) made at run time, and
 * the scripts that it is of. V8 (Chromium, Edge, Node.js) registers the same provider under the name V8.js and logs
 * events of the ids 9 and 41 with these fields, which describe themselves (TraceLogging). Other events of the provider
 * have no rows. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row JSCRIPT = {
    EA_PROVIDER_JSCRIPT,
    "Microsoft-JScript", 0};

static const ea_map_entry address_range_names[] = {
    {1, "Interpreted"},
    {2, "Jitted"},
    {3, "JittedLoopBody"},
    {4, "JittedLoopBody"},
    {5, "JittedLoopBody"},
    {6, "JittedLoopBody"},
    {7, "JittedLoopBody"},
    {8, "JittedLoopBody"},
    {9, "JittedLoopBody"},
    {10, "JittedLoopBody"},
};
static const ea_enum address_range = EA_VALUES("MethodAddressRangeMap", address_range_names);

static const ea_field_row method_fields[] = {
    {"ScriptContextID", EA_POINTER},
    {"MethodStartAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"MethodSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"MethodID", EA_U32},
    {"MethodFlags", EA_U16},
    {"MethodAddressRangeID", EA_U16, .map = &address_range},
    {"SourceID", EA_U64},
    {"Line", EA_U32},
    {"Column", EA_U32},
    {"MethodName", EA_UTF16Z},
    {0},
};

static const ea_field_row context_fields[] = {
    {"ScriptContextID", EA_POINTER},
    {0},
};

static const ea_field_row source_fields[] = {
    {"SourceID", EA_U64},
    {"ScriptContextID", EA_POINTER},
    {"SourceFlags", EA_U32},
    {"Url", EA_UTF16Z},
    {0},
};

static const ea_class_row jscript_rows[] = {
    {"MethodRundown/DCStartInit", 1, 0, 0, ea_no_fields},
    {"MethodRundown/DCStartComplete", 2, 0, 0, ea_no_fields},
    {"MethodRundown/DCEndInit", 3, 0, 0, ea_no_fields},
    {"MethodRundown/DCEndComplete", 4, 0, 0, ea_no_fields},
    {"MethodRundown/MethodDCStart", 5, 0, 0, method_fields},
    {"MethodRundown/MethodDCEnd", 6, 0, 0, method_fields},
    {"ScriptContextRundown/ScriptContextDCStart", 7, 0, 0, context_fields},
    {"ScriptContextRundown/ScriptContextDCEnd", 8, 0, 0, context_fields},
    {"MethodRuntime/MethodLoad", 9, 0, 0, method_fields},
    {"MethodRuntime/MethodUnload", 10, 0, 0, method_fields},
    {"ScriptContextRuntime/ScriptContextLoad", 11, 0, 0, context_fields},
    {"ScriptContextRuntime/ScriptContextUnload", 12, 0, 0, context_fields},
    {"ScriptContextRundown/SourceDCStart", 39, 0, 0, source_fields},
    {"ScriptContextRundown/SourceDCEnd", 40, 0, 0, source_fields},
    {"ScriptContextRuntime/SourceLoad", 41, 0, 0, source_fields},
    {"ScriptContextRuntime/SourceUnload", 42, 0, 0, source_fields},
};

const ea_family ea_family_jscript =
    EA_FAMILY(JSCRIPT, jscript_rows, "ChakraCore manifests/Microsoft-Scripting-Chakra-Instrumentation.man; "
                                     "v8 src/diagnostics/etw-jit-win.cc");
