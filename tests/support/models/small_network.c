/* small_network.c: see small_network.h. */
#include "small_network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "job/model_file.h"

enum { HIDDEN = 8, PARAMETERS = 4 * HIDDEN + 1 };

static double parameter(int i, double slope) { return slope * sin(1 + 3 * i); }

void small_network_write(const char *path, double slope, double base_sd)
{
    int width[] = {HIDDEN};
    double theta[PARAMETERS];
    char error[1024];
    model_file f = {
        .inputs = 2, .hidden_layers = 1, .width = width, .base_sd = base_sd, .parameters = PARAMETERS, .theta = theta};
    (void)snprintf(f.activation, sizeof f.activation, "silu");
    for (int i = 0; i < f.parameters; i++) theta[i] = parameter(i, slope);
    if (model_write(path, &f, error, sizeof error)) fail_msg("%s", error);
}

double small_network_energy(double slope, double base_sd, double x, double y)
{
    double U = parameter(4 * HIDDEN, slope) + (base_sd > 0 ? (x * x + y * y) / (2 * base_sd * base_sd) : 0);
    for (int i = 0; i < HIDDEN; i++) {
        double z = parameter(2 * i, slope) * x + parameter(2 * i + 1, slope) * y + parameter(2 * HIDDEN + i, slope);
        U += parameter(3 * HIDDEN + i, slope) * z / (1 + exp(-z));
    }
    return U;
}
