/* guitar.h: the picture of the deblurring benches: that of the experiment, from experiments/deblurring beside the sources, or else
 * (where the sources are gone) a synthetic one of the same size. */
#ifndef SOSMC_BENCH_GUITAR_H
#define SOSMC_BENCH_GUITAR_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 292, COLUMNS = 119, PIXELS = ROWS * COLUMNS };

/* PIXELS numbers into `truth`; what it is. */
static const char *read_guitar(double *truth)
{
    FILE *f = fopen(SOSMC_SOURCE_DIR "/experiments/deblurring/guitar_292x119.f64", "rb");
    size_t got = f ? fread(truth, sizeof *truth, PIXELS, f) : 0;
    if (f) (void)fclose(f);
    if (got == PIXELS) return "guitar";
    for (int e = 0; e < PIXELS; e++)
        truth[e] = 90 + 60 * (e / COLUMNS / 37 % 2) + 40 * sin(0.3 * (e % COLUMNS)) * cos(0.05 * (double)(e % 1013));
    return "synthetic";
}

#endif
