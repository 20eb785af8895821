/* plot_colours.c: the palette of the series, and the shades that values have on a figure's scale. */
#include <math.h>

#include "plot_inside.h"

unsigned plot_rgb(int colour)
{
    static const unsigned palette[] = {0x0072B2, 0xD55E00, 0x009E73, 0xE69F00, 0xCC79A7,
                                       0x56B4E9, 0x000000, 0xF0E442, 0x8A8A8A};
    if (colour & 0x1000000) return (unsigned)colour & 0xFFFFFFU;
    return palette[(unsigned)colour % PLOT_COLOURS];
}

int plot_step(const plot_scale *scale, double value)
{
    double t = scale->log ? log(fmax(value, scale->min) / scale->min) / log(scale->max / scale->min)
                          : (value - scale->min) / (scale->max - scale->min);
    return !(t > 0.0) ? 0 : t >= 1.0 ? PLOT_STEPS - 1 : (int)(t * PLOT_STEPS);
}

/* The lightest shade is darker than white, so that a single count can be seen. */
int plot_shade(const plot_scale *scale, int step)
{
    enum { STOPS = 4 };
    static const unsigned ramp[][STOPS] = {[PLOT_BLUES] = {0xC3DCF1, 0x6BAED6, 0x2171B5, 0x08264F},
                                           [PLOT_ORANGES] = {0xFBDDB0, 0xF3B85F, 0xD9740A, 0x5C2C00},
                                           [PLOT_GREENS] = {0xC2E5D5, 0x74C3A2, 0x178A63, 0x053B2A},
                                           [PLOT_PLASMA] = {0x0D0887, 0x8F0DA4, 0xD5546E, 0xF7A83B}};
    double t = (STOPS - 1) * (double)step / (PLOT_STEPS - 1);
    int stop = t < STOPS - 2 ? (int)t : STOPS - 2, colour = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = (ramp[scale->shades][stop] >> shift) & 0xFFU, b = (ramp[scale->shades][stop + 1] >> shift) & 0xFFU;
        colour |= (int)lround(a + (t - stop) * (b - a)) << shift;
    }
    return PLOT_RGB(colour);
}
