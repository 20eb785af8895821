/* parameters.c: the checks that several kernels share. A kernel checks the parameters that it reads and no others. */
#include <math.h>
#include <stdio.h>

#include "kernel.h"

const char *sosmc_i_wrong(const char *name, double value, const char *expected, char *text, size_t room)
{
    (void)snprintf(text, room, "%s is %g; %s", name, value, expected);
    return text;
}

const char *sosmc_i_check_positive(const char *name, double value, char *text, size_t room)
{
    return value > 0 && isfinite(value) ? NULL : sosmc_i_wrong(name, value, "it must be positive", text, room);
}

const char *sosmc_i_check_not_negative(const char *name, double value, char *text, size_t room)
{
    return value >= 0 ? NULL : sosmc_i_wrong(name, value, "it must not be negative", text, room);
}

const char *sosmc_i_check_noise(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    if (!(k->noise >= 0 && isfinite(k->noise)))
        return sosmc_i_wrong("kernel.noise", k->noise, "it must not be negative", text, room);
    if (weighted && !(k->noise > 0))
        return sosmc_i_wrong("kernel.noise", k->noise, "weights need it to be positive", text, room);
    return NULL;
}

const char *sosmc_i_check_leapfrog(const sosmc_kernel *k, int weighted, char *text, size_t room)
{
    const char *wrong = sosmc_i_check_positive("kernel.mass", k->mass, text, room);
    if (wrong || k->leapfrog >= 1) return wrong;
    return sosmc_i_wrong("kernel.leapfrog", k->leapfrog, "it must be at least 1", text, room);
}
