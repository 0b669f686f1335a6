/* Which kernel flags turn on a class: the table against the names of flags and the rows of classes. */
#include "config/class_flags.h"
#include "config/kernel_flags.h"
#include "proto/event/event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Each name of a flag in the table is one, whatever the class. */
static void names_are_flags(void **state) {
    size_t families, known = 0, all = 0;
    const ea_family *const *f = ea_event_families(&families);
    (void)state;
    for (size_t i = 0; i < families; i++)
        for (size_t k = 0; f[i]->provider->classic && k < f[i]->row_count; k++) {
            const char *flags = ea_class_flags(f[i]->rows[k].name);
            all++;
            known += flags != NULL;
            for (const char *at = flags; at && *at;) {
                size_t n = strcspn(at, "+");
                if (!ea_kernel_flag_find(at, n))
                    fail_msg("%s: no flag %s", f[i]->rows[k].name, at);
                at += n + (at[n] == '+');
            }
        }
    assert_true(known > 300 && known < all); /* classes of programs' own providers have none */
}

/* Events whose stacks a session walks come by flags: each such class has one, but for some whose flag is in no source.
 */
static void classes_with_stacks_have_flags(void **state) {
    static const char *const UNKNOWN[] = {"PerfInfo/TimerSetOneShot",   "PerfInfo/TimerSetPeriodic",
                                          "PageFault/PageAccess",       "PageFault/PageAccessEx",
                                          "PageFault/PageRelease",      "PageFault/PageRangeAccess",
                                          "PageFault/PageRangeRelease", "PageFault/RemoveFromWs"};
    (void)state;
    for (const ea_kernel_stack *s = ea_kernel_stacks; s->class_name; s++) {
        size_t i = 0;
        while (i < sizeof UNKNOWN / sizeof *UNKNOWN && strcmp(UNKNOWN[i], s->class_name) != 0)
            i++;
        int is_unknown = i < sizeof UNKNOWN / sizeof *UNKNOWN;
        if (is_unknown != !ea_class_flags(s->class_name))
            fail_msg("%s: a flag is %sexpected", s->class_name, is_unknown ? "not " : "");
    }
}

static void examples(void **state) {
    static const char *const ROWS[][2] = {{"Thread/CSwitch", "CSWITCH"},
                                          {"Thread/ReadyThread", "DISPATCHER"},
                                          {"Process/Start", "PROC_THREAD"},
                                          {"Image/Load", "LOADER"},
                                          {"DiskIo/Read", "DISK_IO"},
                                          {"DiskIo/ReadInit", "DISK_IO_INIT"},
                                          {"FileIo/Create", "FILE_IO_INIT"},
                                          {"FileIo/OperationEnd", "FILE_IO"},
                                          {"PageFault/HardFault", "HARD_FAULTS"},
                                          {"PageFault/TransitionFault", "ALL_FAULTS"},
                                          {"PageFault/VirtualAlloc", "VIRT_ALLOC"},
                                          {"PerfInfo/SampleProf", "PROFILE"},
                                          {"PerfInfo/SysClEnter", "SYSCALL"},
                                          {"PerfInfo/ISR-MSI", "INTERRUPT"},
                                          {"PerfInfo/WdfPassiveISR", "WDF_INTERRUPT"},
                                          {"TcpIp/SendIPV4", "NETWORKTRACE"},
                                          {"Registry/SetValue", "REGISTRY"},
                                          {"SystemConfig/CPU", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        assert_string_equal(ea_class_flags(ROWS[i][0]), ROWS[i][1]);
    assert_null(ea_class_flags("GC/Start"));
    assert_null(ea_class_flags("Image/LoaderError"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_flags),
                                       cmocka_unit_test(classes_with_stacks_have_flags), cmocka_unit_test(examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
