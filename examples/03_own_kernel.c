/* A kernel of your own is one function. This one keeps every coordinate in [-1, 1] by clamping, as samplers of images do. A
 * clamped move has no density, so the kernel says so: weighted schemes refuse it in a sentence, unweighted ones run. */
#include <math.h>
#include <sosmc/sosmc.h>
#include <stdio.h>

/* U = sum_j (x_j - theta)^2: the particles want to be near theta, the box keeps them below 1. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double d = b->x[j * b->ld + i] - theta[0];
            U[i] += d * d;
            if (gx) gx[j * b->ld + i] = 2 * d;
        }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) g[0] -= c[i] * 2 * (b->x[j * b->ld + i] - theta[0]);
    return 0;
}

static int clamped_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = m->tmp; /* scratch = 1 vector */
    sosmc_normals(m->rng, &m->b, z);
    for (int j = 0; j < m->b.dim; j++)
        for (int i = 0; i < m->b.n; i++) {
            int e = j * m->b.ld + i;
            double y = m->x[e] - m->h * m->gx[e] + sqrt(2 * m->h) * z[e];
            m->x_new[e] = fmin(fmax(y, -1), 1);
        }
    return sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
}

int main(void)
{
    sosmc_problem p = {.model = {.dim_x = 4, .dim_theta = 1, .energy = energy, .grad_theta = grad_theta},
                       .objective = sosmc_mmle(),
                       .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    cfg.kernel = (sosmc_kernel){
        .name = "clamped", .step = clamped_step, .h = 0.05, .uses_gradient = 1, .scratch = 1, .no_weight = 1};

    sosmc *run = NULL;
    if (sosmc_create(&run, &p, &cfg) != SOSMC_OK) printf("weighted: %s\n", sosmc_message(run));
    sosmc_free(run);

    cfg.scheme = sosmc_scheme_unweighted(1000);
    sosmc_status status = sosmc_create(&run, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(run, 500, NULL, NULL);
    if (status == SOSMC_OK)
        printf("unweighted: mean energy %.3f after %lld iterations\n", sosmc_last(run)->mean_energy,
               (long long)sosmc_iteration(run));
    else
        fprintf(stderr, "%s\n", sosmc_message(run));
    sosmc_free(run);
    return status == SOSMC_OK ? 0 : 1;
}
