/* x ~ N(theta, I) and y | x ~ N(x, I): the likelihood of y peaks at theta = y. A model is two functions; the solver needs nothing
 * else. */
#include <sosmc/solve.h>
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
                       .objective = sosmc_mmle()};
    sosmc_solution r;
    sosmc_status status = sosmc_solve(&r, &p, NULL);
    const sosmc_judgement *j = &r.judgement; /* theta and the other numbers with their errors, and the verdict */
    for (int k = 0; k < j->dim_theta && j->theta_mc_error && j->theta_standard_error; k++)
        printf("theta_%d = %.4f, Monte Carlo error %.4f, standard error %.3f\n", k + 1, j->theta[k],
               j->theta_mc_error[k], j->theta_standard_error[k]);
    printf("log Z = %.4f +- %.4f, %s\n", j->log_z.value, j->log_z.error,
           sosmc_verdict_name((sosmc_verdict_status)j->verdict.status));
    for (int k = 0; k < j->verdict.reasons; k++) printf("%s\n", j->verdict.reason[k]);
    int solved = status == SOSMC_OK && j->verdict.status == SOSMC_CONVERGED;
    sosmc_solution_free(&r);
    return solved ? 0 : 1;
}
