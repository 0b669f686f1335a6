/* The names of what the Windows kernel can log: kernel flags, groups of flags, and the events whose stacks can be
 * walked.
 * Called by: config/, config/import, and the code that sets a session's group masks. Calls: none. Thread: any; all
 * is constant.
 *
 * Sources: ntwmi.h PERF_* (masks; without the flags that change the kernel's work, such as PERF_CLUSTER_OFF, and the
 * flags without any description, such as PERF_VULCAN), "xperf -providers k" (names and groups; where it has none, the
 * header's and System Providers, learn.microsoft.com), the WPR schema's Keyword and Stack values, "logman query
 * providers" of Windows Kernel Trace, KernelTraceEventParser.Keywords (PerfView). */
#ifndef EA_KERNEL_FLAGS_H
#define EA_KERNEL_FLAGS_H

#include <stddef.h>
#include <stdint.h>

/* A session's group masks are eight words; the top three bits of a flag's mask say which, the others are its bits. */
typedef struct ea_kernel_flag {
    const char *name;                    /* xperf's; what a configuration file says */
    uint32_t mask;                       /* PERF_*: bits 29 to 31 are the word */
    const char *wpr, *logman, *perfview; /* NULL: it has none there */
    const char *help;
} ea_kernel_flag;

typedef struct ea_kernel_group {
    const char *name;
    const char *flags; /* names joined by + */
} ea_kernel_group;

typedef struct ea_kernel_stack {
    const char *xperf, *wpr; /* NULL: it has none there */
    const char *class_name;  /* of the event class (proto/event), which is what a configuration file says */
} ea_kernel_stack;

/* All rows; the last one's name (class_name) is NULL. */
extern const ea_kernel_flag ea_kernel_flags[];
extern const ea_kernel_group ea_kernel_groups[];
extern const ea_kernel_stack ea_kernel_stacks[];

/* By name, in any case; NULL when there is none. */
const ea_kernel_flag *ea_kernel_flag_find(const char *name, size_t len);
const ea_kernel_group *ea_kernel_group_find(const char *name, size_t len);
/* Whether a row's name (NULL: it has none) is name, in any case. */
int ea_kernel_name_is(const char *row, const char *name, size_t len);
/* Whose name is nearest, NULL when none is near. */
const char *ea_kernel_flag_nearest(const char *name);

enum { EA_KERNEL_MASK_WORDS = 8 };

static inline unsigned ea_kernel_flag_word(uint32_t mask) {
    return mask >> 29;
}

static inline uint32_t ea_kernel_flag_bits(uint32_t mask) {
    return mask & 0x1fffffffu;
}

#endif
