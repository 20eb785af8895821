/* guitar.h: the picture of the deblurring benches: that of the experiment, from $SOSMC_TEST_DATA/deblurring or
 * data/deblurring, or else a synthetic one of the same size. */
#ifndef SOSMC_BENCH_GUITAR_H
#define SOSMC_BENCH_GUITAR_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 292, COLUMNS = 119, PIXELS = ROWS * COLUMNS };

/* PIXELS numbers into `truth`; what it is. */
static const char *read_guitar(double *truth)
{
    const char *folder = getenv("SOSMC_TEST_DATA");
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/deblurring/guitar_292x119.f64", folder ? folder : "data");
    FILE *f = fopen(path, "rb");
    size_t got = f ? fread(truth, sizeof *truth, PIXELS, f) : 0;
    if (f) (void)fclose(f);
    if (got == PIXELS) return "guitar";
    for (int e = 0; e < PIXELS; e++)
        truth[e] = 90 + 60 * (e / COLUMNS / 37 % 2) + 40 * sin(0.3 * (e % COLUMNS)) * cos(0.05 * (double)(e % 1013));
    return "synthetic";
}

#endif
