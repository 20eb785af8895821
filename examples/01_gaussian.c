/* x ~ N(theta, I) and y | x ~ N(x, I): the likelihood of y peaks at theta = y. */
#include <sosmc/judge.h>
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
    if (status != SOSMC_OK) fprintf(stderr, "%s\n", sosmc_message(run));

    sosmc_judgement j = {.dim_theta = 0}; /* what the run is worth */
    if (status == SOSMC_OK) status = sosmc_judge(run, NULL, &j, NULL, 0);
    for (int k = 0; k < j.dim_theta && j.theta_mc_error && j.theta_standard_error; k++)
        printf("theta_%d = %.3f, Monte Carlo error %.3f, standard error %.3f\n", k + 1, j.theta[k], j.theta_mc_error[k],
               j.theta_standard_error[k]);
    if (status == SOSMC_OK)
        printf("log Z = %.3f +- %.3f, %s\n", j.log_z.value, j.log_z.error,
               sosmc_verdict_name((sosmc_verdict_status)j.verdict.status));
    for (int k = 0; k < j.verdict.reasons; k++) printf("%s\n", j.verdict.reason[k]);
    sosmc_judgement_free(&j);
    sosmc_free(run);
    return status == SOSMC_OK ? 0 : 1;
}
