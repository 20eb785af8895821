/* clock.h: seconds on a clock that never jumps, unlike the time of day. */
#ifndef SOSMC_RUN_CLOCK_H
#define SOSMC_RUN_CLOCK_H

#include <time.h>

static inline double monotonic_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
