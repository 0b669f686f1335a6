/* Call stacks as events of their own. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row STACK_WALK = {
    EA_PROVIDER_STACK_WALK, EA_KERNEL_TRACE, 1};

/* The schema names 32 addresses (Stack1 ... Stack32); as many travel as the stack is deep, up to 192. */
static const ea_field_row stack_fields[] = {
    {"EventTimeStamp", EA_U64, EA_SEM_QPC},
    {"StackProcess", EA_U32, EA_SEM_PID},
    {"StackThread", EA_U32, EA_SEM_TID},
    {"Stack", EA_POINTER, EA_SEM_STACK, .count = EA_COUNT_REST},
    {0},
};

/* The schema says 192 frames; as many travel as there are. */
static const ea_field_row key_fields[] = {
    {"key", EA_POINTER, EA_SEM_STACK_KEY},
    {"StackFrame", EA_POINTER, EA_SEM_STACK, .count = EA_COUNT_REST},
    {0},
};

static const ea_field_row stack_key_fields[] = {
    {"EventTimeStamp", EA_U64, EA_SEM_QPC},
    {"StackProcess", EA_U32, EA_SEM_PID},
    {"StackThread", EA_U32, EA_SEM_TID},
    {"StackKey", EA_POINTER, EA_SEM_STACK_KEY},
    {0},
};

static const ea_class_row stack_walk_rows[] = {
    {"StackWalk/Stack", 32, 2, 2, stack_fields},
    {"StackWalk/KeyCreate", 34, 2, 2, key_fields},
    {"StackWalk/KeyDelete", 35, 2, 2, key_fields},
    {"StackWalk/KeyRundown", 36, 2, 2, key_fields},
    {"StackWalk/StackKeyKernel", 37, 2, 2, stack_key_fields},
    {"StackWalk/StackKeyUser", 38, 2, 2, stack_key_fields},
};

const ea_family ea_family_stack_walk = EA_FAMILY(STACK_WALK, stack_walk_rows, EA_MOF);
