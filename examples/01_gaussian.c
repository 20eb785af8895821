/* x ~ N(theta, I) and y | x ~ N(x, I): the likelihood of y peaks at theta = y. */
#include <sosmc/sosmc.h>
#include <stdio.h>

enum { D = 2 };
static const double y[D] = {1.0, -2.0};

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - theta[j], q = x - y[j];
            U[i] += 0.5 * (p * p + q * q);
            if (gx) gx[j * b->ld + i] = p + q;
        }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) g[j] += c[i] * (theta[j] - b->x[j * b->ld + i]);
    return 0;
}

int main(void)
{
    sosmc_problem p = {.model = {.dim_x = D, .dim_theta = D, .energy = energy, .grad_theta = grad_theta},
                       .objective = sosmc_mmle(),
                       .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *run = NULL;
    sosmc_status status = sosmc_create(&run, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(run, 2000, NULL, NULL);
    if (status == SOSMC_OK)
        printf("theta = (%.3f, %.3f)\n", sosmc_theta(run)[0], sosmc_theta(run)[1]);
    else
        fprintf(stderr, "%s\n", sosmc_message(run));
    sosmc_free(run);
    return status == SOSMC_OK ? 0 : 1;
}
