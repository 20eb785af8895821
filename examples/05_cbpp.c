/* A mixed model with no setting at all: new cases of a lung disease of cattle in 15 herds and four periods. The cases of a row are
 * binomial, logit = beta_1 + beta_period + u of its herd, u ~ N(0, sigma^2), and theta = (beta_1, ..., beta_4, log sigma).
 * Exact, by quadrature: beta = -1.3992, -0.9914, -1.1278, -1.5795, sigma = 0.6475, log-likelihood -91.9834.
 * Data: M. Lesnoff and others, Preventive Veterinary Medicine 64 (2004), 27-40. */
#include <math.h>
#include <sosmc/solve.h>
#include <stdio.h>

enum { HERDS = 15, ROWS = 56, P = 5 };
static const struct {
    int herd, cases, size, period;
} row[ROWS] = {
    {1, 2, 14, 1},  {1, 3, 12, 2},  {1, 4, 9, 3},   {1, 0, 5, 4},   {2, 3, 22, 1},  {2, 1, 18, 2},  {2, 1, 21, 3},
    {3, 8, 22, 1},  {3, 2, 16, 2},  {3, 0, 16, 3},  {3, 2, 20, 4},  {4, 2, 10, 1},  {4, 0, 10, 2},  {4, 2, 9, 3},
    {4, 0, 6, 4},   {5, 5, 18, 1},  {5, 0, 25, 2},  {5, 0, 24, 3},  {5, 1, 4, 4},   {6, 3, 17, 1},  {6, 0, 17, 2},
    {6, 0, 18, 3},  {6, 1, 20, 4},  {7, 8, 16, 1},  {7, 1, 10, 2},  {7, 3, 9, 3},   {7, 0, 5, 4},   {8, 12, 34, 1},
    {9, 2, 9, 1},   {9, 0, 6, 2},   {9, 0, 8, 3},   {9, 0, 6, 4},   {10, 1, 22, 1}, {10, 1, 22, 2}, {10, 0, 18, 3},
    {10, 2, 22, 4}, {11, 0, 25, 1}, {11, 5, 27, 2}, {11, 3, 22, 3}, {11, 1, 22, 4}, {12, 2, 10, 1}, {12, 1, 8, 2},
    {12, 0, 6, 3},  {12, 0, 5, 4},  {13, 1, 21, 1}, {13, 2, 24, 2}, {13, 0, 19, 3}, {13, 0, 23, 4}, {14, 11, 19, 1},
    {14, 0, 2, 2},  {14, 0, 3, 3},  {14, 0, 2, 4},  {15, 1, 19, 1}, {15, 1, 15, 2}, {15, 1, 15, 3}, {15, 0, 15, 4}};

/* The linear predictor of a row for particle i; the first period has no coefficient of its own. */
static double predictor(int r, const double *theta, const sosmc_batch *b, int i)
{
    return theta[0] + (row[r].period > 1 ? theta[row[r].period - 1] : 0) + b->x[(row[r].herd - 1) * b->ld + i];
}

/* d/d eta of the row's minus log-likelihood */
static double slope(int r, double eta) { return row[r].size / (1 + exp(-eta)) - row[r].cases; }

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    double precision = exp(-2 * theta[4]);
    for (int i = 0; i < b->n; i++) {
        U[i] = HERDS * (theta[4] + 0.91893853320467274); /* log sqrt(2 pi) */
        for (int h = 0; h < HERDS; h++) {
            double u = b->x[h * b->ld + i];
            U[i] += 0.5 * precision * u * u;
            if (gx) gx[h * b->ld + i] = precision * u;
        }
        for (int r = 0; r < ROWS; r++) {
            double eta = predictor(r, theta, b, i), size = row[r].size, cases = row[r].cases;
            U[i] += size * (fmax(eta, 0) + log1p(exp(-fabs(eta)))) - cases * eta;
            U[i] -= lgamma(size + 1) - lgamma(cases + 1) - lgamma(size - cases + 1);
            if (gx) gx[(row[r].herd - 1) * b->ld + i] += slope(r, eta);
        }
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double precision = exp(-2 * theta[4]);
    for (int i = 0; i < b->n; i++) {
        for (int r = 0; r < ROWS; r++) {
            double s = c[i] * slope(r, predictor(r, theta, b, i));
            g[0] += s;
            if (row[r].period > 1) g[row[r].period - 1] += s;
        }
        for (int h = 0; h < HERDS; h++) g[4] += c[i] * (1 - precision * b->x[h * b->ld + i] * b->x[h * b->ld + i]);
    }
    return 0;
}

int main(void)
{
    sosmc_problem problem = {.model = {.dim_x = HERDS, .dim_theta = P, .energy = energy, .grad_theta = grad_theta},
                             .objective = sosmc_mmle()};
    sosmc_solution r;
    sosmc_status status = sosmc_solve(&r, &problem, NULL);
    const sosmc_judgement *j = &r.judgement;
    for (int k = 0; k < P && j->theta_standard_error; k++)
        printf("theta_%d %8.4f, Monte Carlo error %.4f, standard error %.3f\n", k + 1, j->theta[k],
               j->theta_mc_error[k], j->theta_standard_error[k]);
    printf("log-likelihood %.4f +- %.4f, %s\n", -j->loss.value, j->loss.error,
           sosmc_verdict_name((sosmc_verdict_status)j->verdict.status));
    for (int k = 0; k < j->verdict.reasons; k++) puts(j->verdict.reason[k]);
    int solved = status == SOSMC_OK && j->verdict.status == SOSMC_CONVERGED && fabs(j->loss.value - 91.983369) < 0.05;
    sosmc_solution_free(&r);
    return solved ? 0 : 1;
}
