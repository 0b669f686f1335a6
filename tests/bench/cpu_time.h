/* The clock of the benchmarks: the processor time that this program has used, so that a busy machine's other work does
 * not count. (Where clock() counts all time, that.) Thread: programs of one thread. */
#ifndef EA_TESTS_BENCH_CPU_TIME_H
#define EA_TESTS_BENCH_CPU_TIME_H

#include <stdint.h>
#include <time.h>

static inline int64_t cpu_ns(void) {
    return (int64_t)clock() * (1000000000 / CLOCKS_PER_SEC);
}

#endif
