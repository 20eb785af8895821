/* A latent energy-based model: z has the density exp(-f_a(z)) N(z; 0, I) / Z(a) in the plane, f_a a perceptron whose output layer a
 * is learned, and y = b z + noise. With n observations the gradient of minus the log-likelihood has two unknown means,
 *
 *     sum_i E_(z | y_i) grad (f_a - log p_b(y_i | z)) - n E_prior grad f_a.
 *
 * On particles x = (z_1, ..., z_n, z') with U the sum of the n energies of the posterior and that of the prior at z', both are means
 * over one density, so H_theta(x), the sum of the first gradients less n times the second, makes it one objective. log Z of U is
 * not the log-likelihood, so no loss is told (SOSMC_LOSS_NONE). The answer is compared with quadrature.
 *
 *     07_latent_energy [FILE]     points of the plane, a comma between their numbers; without a file, points that are made here */
#include <math.h>
#include <sosmc/sosmc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 30, HIDDEN = 3, P = HIDDEN + 1, NODES = 61, UPDATES = 1000 };
static const double direction[HIDDEN][2] = {{2, 0}, {0, 2}, {1.5, -1.5}}, noise = 0.4;
static double y[ROWS][2];

/* The first ROWS points of the file. */
static int read_points(const char *name)
{
    char line[200];
    int count = 0;
    FILE *f = fopen(name, "r");
    while (f && count < ROWS && fgets(line, sizeof line, f)) {
        char *comma = NULL, *end = NULL;
        y[count][0] = strtod(line, &comma);
        if (comma == line || *comma != ',') continue;
        y[count][1] = strtod(comma + 1, &end);
        count += end > comma + 1;
    }
    if (f) (void)fclose(f);
    return count == ROWS ? 0 : -1;
}

/* f_a at z; g: its gradient with respect to z, or NULL; h: the outputs of the hidden layer, which are its gradient with respect to a */
static double prior_energy(const double *a, const double *z, double *g, double *h)
{
    double f = 0;
    for (int k = 0; k < HIDDEN; k++) {
        h[k] = tanh(direction[k][0] * z[0] + direction[k][1] * z[1]);
        f += a[k] * h[k];
        for (int d = 0; g && d < 2; d++) g[d] += a[k] * direction[k][d] * (1 - h[k] * h[k]);
    }
    return f;
}

/* -log p_b(y | z) up to a constant, with the derivative for b */
static double misfit(int row, double b, const double *z, double *g, double *by_b)
{
    double U = 0;
    *by_b = 0;
    for (int d = 0; d < 2; d++) {
        double off = (b * z[d] - y[row][d]) / (noise * noise);
        U += 0.5 * noise * noise * off * off;
        if (g) g[d] += b * off;
        *by_b += z[d] * off;
    }
    return U;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        U[i] = 0;
        for (int r = 0; r <= ROWS; r++) { /* the last is z' */
            double z[2] = {b->x[2 * r * b->ld + i], b->x[(2 * r + 1) * b->ld + i]}, g[2] = {z[0], z[1]}, h[HIDDEN],
                   by_b;
            U[i] += 0.5 * (z[0] * z[0] + z[1] * z[1]) + prior_energy(theta, z, g, h);
            if (r < ROWS) U[i] += misfit(r, theta[HIDDEN], z, g, &by_b);
            for (int d = 0; gx && d < 2; d++) gx[(2 * r + d) * b->ld + i] = g[d];
        }
    }
    return 0;
}

static int both_means(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++)
        for (int r = 0; r <= ROWS; r++) {
            double z[2] = {b->x[2 * r * b->ld + i], b->x[(2 * r + 1) * b->ld + i]}, h[HIDDEN], by_b;
            (void)prior_energy(theta, z, NULL, h);
            for (int k = 0; k < HIDDEN; k++) g[k] += c[i] * h[k] * (r < ROWS ? 1 : -ROWS);
            if (r == ROWS) continue;
            (void)misfit(r, theta[HIDDEN], z, NULL, &by_b);
            g[HIDDEN] += c[i] * by_b;
        }
    return 0;
}

/* Minus the log-likelihood on a grid. */
static double exact(const double *theta)
{
    static double density[ROWS + 1];
    const double width = 10.0 / (NODES - 1);
    double loss = 0, h[HIDDEN], by_b;
    memset(density, 0, sizeof density);
    for (int j = 0; j < NODES * NODES; j++) {
        int row = j / NODES, column = j % NODES;
        double z[2] = {width * row - 5, width * column - 5};
        double prior = exp(-0.5 * (z[0] * z[0] + z[1] * z[1]) - prior_energy(theta, z, NULL, h));
        density[ROWS] += prior;
        for (int r = 0; r < ROWS; r++) density[r] += prior * exp(-misfit(r, theta[HIDDEN], z, NULL, &by_b));
    }
    for (int r = 0; r < ROWS; r++) loss += log(density[ROWS]) - log(density[r]) + log(2 * acos(-1) * noise * noise);
    return loss;
}

/* The maximum of the exact log-likelihood, by steps along coordinates that shrink. */
static double minimum(const double *theta)
{
    double at[P], best = exact(theta);
    memcpy(at, theta, sizeof at);
    double step = 0.2;
    for (int halving = 0; halving < 7; halving++, step *= 0.5)
        for (int moved = 1; moved;) {
            moved = 0;
            for (int k = 0; k < 2 * P; k++) {
                double old = at[k / 2], loss;
                at[k / 2] += k % 2 ? -step : step;
                loss = exact(at);
                if (loss < best - 1e-6) {
                    best = loss;
                    moved = 1;
                } else
                    at[k / 2] = old;
            }
        }
    return best;
}

int main(int count, char **word)
{
    double z[ROWS * 4], start[P] = {0, 0, 0, 1};
    sosmc_batch one = {.dim = ROWS * 4, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 7}, &one, z);
    for (int r = 0; r < ROWS; r++) /* two clusters, and a skew within them: no normal prior has it */
        for (int d = 0; d < 2; d++)
            y[r][d] = (r % 3 ? 1.2 : -1.4) * (d ? 0.6 : 1) + 0.4 * z[4 * r + d] + noise * z[4 * r + 2 + d];

    if (count > 1 && read_points(word[1])) {
        printf("%s has fewer than %d points\n", word[1], ROWS);
        return 2;
    }
    sosmc_problem problem = {.model = {.dim_x = 2 * (ROWS + 1), .dim_theta = P, .energy = energy},
                             .objective = sosmc_mmle(),
                             .theta0 = start};
    problem.objective.H = both_means;
    problem.objective.loss = SOSMC_LOSS_NONE;
    problem.init = sosmc_standard_normal();
    sosmc_settings settings = sosmc_defaults();
    settings.scheme = sosmc_scheme_sosmc(400);
    settings.kernel = sosmc_mala(0.03);
    settings.optimiser = sosmc_adam(0.01);
    settings.average = 1;
    settings.average_from = UPDATES / 2;
    settings.judge = 0;
    sosmc *s;
    sosmc_status status = sosmc_create(&s, &problem, &settings);
    for (int k = 0; status == SOSMC_OK && k < UPDATES; k++) status = sosmc_step(s);
    if (status != SOSMC_OK) puts(sosmc_message(s));
    double at = NAN, best = NAN, first = exact(start);
    if (status == SOSMC_OK) {
        const double *theta = sosmc_theta_average(s);
        at = exact(theta);
        best = minimum(theta);
        printf("a = (%.3f, %.3f, %.3f), b = %.3f; log-likelihood %.3f, %.3f at the start, %.3f at its maximum\n",
               theta[0], theta[1], theta[2], theta[3], -at, -first, -best);
    }
    sosmc_free(s);
    return at - best < 0.1 && first - best > 1 ? 0 : 1;
}
