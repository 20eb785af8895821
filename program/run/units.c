/* units.c: see units.h. */
#include "units.h"

#include <math.h>
#include <stdio.h>

/* "17.83 lower": what the density of a point is in its own units, beside what is told. */
static void shift_words(double shift, char *out, size_t room)
{
    if (shift == 0)
        (void)snprintf(out, room, "the same");
    else
        (void)snprintf(out, room, "%.6g %s", fabs(shift), shift < 0 ? "lower" : "higher");
}

void units_words(const config *c, const job *j, char *out, size_t room)
{
    char shift[64];
    int64_t rows;
    const points_scaling *s = job_scaling(j);
    *out = 0;
    if (!s) return;
    shift_words(scaling_log_density(s), shift, sizeof shift);
    double scale = config_number(c, "objective.data.scale");
    if (!job_points(j, &rows))
        (void)snprintf(
            out, room,
            "the network was trained on points that were scaled, and what is told here is in its units: in its data's own a "
            "point x is centre + x / factor, coordinate by coordinate (see scaling in summary.json), and every log-density "
            "is %s",
            shift);
    else if (config_flag(c, "objective.data.standardise"))
        (void)snprintf(
            out, room,
            "the points were scaled to mean 0 and standard deviation %g; in their own units every log-density is %s",
            scale, shift);
    else
        (void)snprintf(out, room, "the points were multiplied by %g; in their own units every log-density is %s", scale,
                       shift);
}
