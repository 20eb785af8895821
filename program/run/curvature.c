/* curvature.c: the warning about a step that is too large, with the names that keys have in run files; sosmc_check_step
 * measures. */
#include "curvature.h"

#include <stdio.h>

int curvature_sentence(double h, const sosmc_step_check *step, char *out, size_t room)
{
    if (!(step->beyond > 1)) return 0;
    (void)snprintf(out, room,
                   "kernel.step is %.4g, %.3g times the largest that is safe for unadjusted moves: the potential has a "
                   "curvature of %.4g at the first particles; take a kernel.step of at most %.2g, or kernel.type: mala",
                   h, step->beyond, step->curvature, step->largest);
    return 1;
}

int curvature_warning(const job *j, char *out, size_t room)
{
    sosmc_step_check step;
    (void)sosmc_check_step(&j->problem, &j->settings, &step);
    return curvature_sentence(j->settings.kernel.h, &step, out, room);
}
