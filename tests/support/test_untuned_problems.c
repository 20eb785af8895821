/* test_untuned_problems.c: the answers of untuned.h, tested by themselves. The models' gradients against differences of their
 * energies, the losses against their gradients and against computations that share nothing with them but the model, the best
 * theta against its surroundings, and published values where there are any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "assertions.h"
#include "base/linear.h"
#include "coordinates.h"
#include "expect_gradients.h"
#include "minimise.h"
#include "numbers.h"
#include "untuned.h"

static const double log_2pi = 1.8378770664093454836;

/* Opens a problem. Returns 0, after a message that it is skipped, where it needs data and there are none. */
static int expect_untuned(untuned_problem *u, const char *name)
{
    const char *data = getenv("SOSMC_TEST_DATA");
    int needs_data = strcmp(name, "cbpp") == 0 || strcmp(name, "wisconsin") == 0;
    if (untuned_open(u, name, data) == 0) return 1;
    untuned_close(u);
    if (data || !needs_data) fail_msg("%s cannot be opened", name);
    print_message("    skipped: %s, because SOSMC_TEST_DATA names no folder of reference data\n", name);
    return 0;
}

/* Name k of all tables, one after the other. */
static const char *name_of(int k)
{
    typedef const char *table(int k);
    table *const tables[] = {untuned_name, untuned_out_of_sample_name, untuned_unusual_name};
    const char *name = NULL;
    for (size_t t = 0; t < sizeof tables / sizeof *tables && !name; t++) {
        int at = 0;
        for (; (name = tables[t](at)) && k > 0; at++) k--;
    }
    return name;
}

#define FOR_PROBLEMS(u)                 \
    for (int k_ = 0; name_of(k_); k_++) \
        for (untuned_problem u = {0}; !u.name && expect_untuned(&u, name_of(k_)); untuned_close(&u), u.name = "closed")

/* A theta between theta0 and the best, a little beside the way. */
static void between(const untuned_problem *u, double *theta)
{
    for (int j = 0; j < u->problem.model.dim_theta; j++) {
        double start = u->problem.theta0[j], share = numbers_uniform(0.3, 0.9);
        theta[j] = fmax(start, -20) + share * (fmax(u->best[j], -20) - start) + numbers_uniform(-0.05, 0.05);
    }
}

/* ---------------------------------------------------------------------------- models and losses */

/* A point with a finite energy, uniform between centre - spread and centre + spread. Returns 0 where ten draws had none. */
static int finite_point(const sosmc_model *m, const double *theta, double centre, double spread, double *x)
{
    for (int tries = 0; tries < 10; tries++) {
        double U = 0;
        for (int j = 0; j < m->dim_x; j++) x[j] = centre + numbers_uniform(-spread, spread);
        assert_int_equal(sosmc_energies(m, theta, 1, x, 1, &U), SOSMC_OK);
        if (U < INFINITY) return 1;
    }
    return 0;
}

static void energies_have_their_gradients(void **state)
{
    static double x[1000], theta[UNTUNED_PARAMETERS];
    FOR_PROBLEMS(u)
    {
        between(&u, theta);
        if (!finite_point(&u.problem.model, theta, 0, 2, x)) /* then beyond all walls */
            assert_true(finite_point(&u.problem.model, theta, 3.1, 2, x));
        expect_gradients(&u.problem.model, theta, x, 1e-5, 1e-5);
    }
}

static void losses_have_their_gradients(void **state)
{
    double theta[UNTUNED_PARAMETERS], gradient[UNTUNED_PARAMETERS];
    const double step = 1e-4;
    FOR_PROBLEMS(u)
    {
        int p = u.problem.model.dim_theta;
        between(&u, theta);
        (void)u.loss(&u, theta, gradient);
        for (int j = 0; j < p; j += 1 + p / 6) {
            double kept = theta[j], up, down;
            theta[j] = kept + step;
            up = u.loss(&u, theta, NULL);
            theta[j] = kept - step;
            down = u.loss(&u, theta, NULL);
            theta[j] = kept;
            assert_near((up - down) / (2 * step), gradient[j], 1e-6 * (1 + fabs(gradient[j]) + fabs(up) * 1e-5));
        }
    }
}

static double loss_of(const void *self, const double *theta, double *gradient)
{
    const untuned_problem *u = self;
    return u->loss(u, theta, gradient);
}

/* A Newton step from the best is nothing in units of the curvature, and no theta around it has a smaller loss. */
static void the_best_is_a_minimum(void **state)
{
    double g[UNTUNED_PARAMETERS], theta[UNTUNED_PARAMETERS],
        *H = malloc(sizeof *H * UNTUNED_PARAMETERS * UNTUNED_PARAMETERS);
    assert_non_null(H);
    FOR_PROBLEMS(u)
    {
        int p = u.problem.model.dim_theta;
        assert_true(u.loss(&u, u.best, g) == u.best_loss);
        difference_hessian(loss_of, &u, p, u.best, H);
        for (int j = 0; j < p; j++) assert_true(fabs(g[j]) <= 1e-6 * sqrt(fabs(H[j * p + j])) + 1e-12);
        for (int turn = 0; turn < 20; turn++) {
            for (int j = 0; j < p; j++)
                theta[j] = u.best[j] + numbers_uniform(-1, 1) / sqrt(fmax(fabs(H[j * p + j]), 1e-2));
            assert_true(u.loss(&u, theta, NULL) >= u.best_loss - 1e-12 * (1 + fabs(u.best_loss)));
        }
        assert_true(u.start_loss > u.best_loss);
        assert_near(untuned_gap(&u, u.problem.theta0), 1, 1e-12);
        assert_near(untuned_gap(&u, u.best), 0, 1e-12);
        assert_true(u.problem.init.draw == NULL);
    }
    free(H);
}

/* ---------------------------------------------------------------------------- other ways to the loss */

/* log of the integral of exp(U(x0) - U) along coordinate j through x0, by midpoints. */
static double line_integral(const sosmc_model *m, const double *theta, const double *x0, int j, double low, double high,
                            int nodes)
{
    size_t d = (size_t)m->dim_x, n = (size_t)nodes;
    double *x = malloc((n + 1) * (d + 1) * sizeof *x), *U = x + (n + 1) * d, sum = 0, least = INFINITY;
    assert_non_null(x);
    for (size_t k = 0; k <= n; k++) {
        memcpy(x + k * d, x0, d * sizeof *x);
        if (k < n) x[k * d + (size_t)j] = low + (high - low) * ((double)k + 0.5) / nodes;
    }
    assert_int_equal(sosmc_energies(m, theta, nodes + 1, x, 1, U), SOSMC_OK);
    double origin = U[n];
    for (size_t k = 0; k < n; k++) least = fmin(least, U[k]);
    for (size_t k = 0; k < n; k++) sum += exp(least - U[k]);
    free(x);
    return origin - least + log(sum * (high - low) / nodes);
}

/* Where the coordinates are independent log Z is a sum of integrals along them. The box is that of the particles. */
static void independent_coordinates_integrate_to_the_loss(void **state)
{
    static const struct {
        const char *name;
        double centre, limit;
        int nodes;
    } rows[] = {{"hier1", 0, 12, 4000},
                {"hier50", 5, 14, 4000},
                {"hier6", 40, 40, 4000},
                {"scales_theta", 0, 20, 4000},
                {"scales_x", 0, 250, 50000},
                {"glmm60", 0, 14, 4000},
                {"poisson20", 0, 6, 4000},
                {"schools", 0, 200, 4000},
                {"far_start", 20, 50, 4000},
                {"dyestuff", 1500, 400, 4000},
                {"t_latent", 10, 60, 4000},
                {"square", 0, 6, 4000},
                {"frailty", -12, 16, 4000},
                {"probit", 0, 14, 4000},
                {"factor", 0, 12, 4000},
                {"penalties", 0, 14, 4000},
                {"mixed", 0, 30, 4000},
                {"faint", 0, 14, 4000},
                {"residual", 0, 12, 4000},
                {"products", 0, 16, 8000},
                {"ridge", 0, 30, 8000},
                /* jumps at borders between cells */
                {"wall_one", 0, 16, 16000},
                {"wall_some", 0, 16, 16000},
                {"wall_all", 0, 16, 16000},
                {"step", 0, 16, 16000},
                {"steps", 0, 16, 16000}};
    double theta[UNTUNED_PARAMETERS], x0[60];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        int jumps = strncmp(rows[k].name, "wall", 4) == 0 || strncmp(rows[k].name, "step", 4) == 0;
        untuned_problem u;
        sosmc_host *h = NULL;
        double log_z = 0, U;
        assert_true(expect_untuned(&u, rows[k].name));
        const sosmc_model *m = &u.problem.model;
        for (int j = 0; j < m->dim_x; j++) x0[j] = rows[k].centre + (jumps ? 2 : 0); /* beyond all walls */
        between(&u, theta);
        assert_int_equal(sosmc_host_create(&h, m, theta, 0), SOSMC_OK);
        assert_int_equal(sosmc_host_energies(h, 1, x0, &U), SOSMC_OK);
        for (int j = 0; j < m->dim_x; j++)
            log_z += line_integral(m, theta, x0, j, rows[k].centre - rows[k].limit, rows[k].centre + rows[k].limit,
                                   rows[k].nodes);
        assert_close(log_z - U, -u.loss(&u, theta, NULL), jumps ? 1e-6 : 1e-9);
        sosmc_host_free(h);
        untuned_close(&u);
    }
}

/* Given v the other coordinates of the funnel are independent; what is left is a sum over v. */
static void the_funnel_integrates_to_its_loss(void **state)
{
    untuned_problem u;
    double theta = 0.4, sum = 0;
    assert_true(expect_untuned(&u, "funnel"));
    const sosmc_model *m = &u.problem.model;
    for (int k = -64; k < 64; k++) {
        double v = 0.25 * k, x0[10] = {v}, U, width = fmin(8, 9 * exp(0.5 * v)) + 4, part = 0;
        assert_int_equal(sosmc_energies(m, &theta, 1, x0, 1, &U), SOSMC_OK);
        for (int j = 1; j < 10; j++) part += line_integral(m, &theta, x0, j, -width, width, 2000);
        sum += 0.25 * exp(part - U);
    }
    assert_close(-log(sum), u.loss(&u, &theta, NULL), 1e-6);
    untuned_close(&u);
}

/* y ~ N(0, S) with S_ts = sigma^2 phi^|t-s| / (1 - phi^2), and 1 more on the diagonal. The data are where U has its least value
 * for sigma large: the posterior mean is then y. */
static void the_series_has_a_normal_law(void **state)
{
    enum { T = 60 };
    static double S[T * T], y[T], flat[2] = {0, 12}, zero[T], gx[T];
    untuned_problem u;
    sosmc_host *h = NULL;
    assert_true(expect_untuned(&u, "series"));
    assert_int_equal(sosmc_host_create(&h, &u.problem.model, flat, 0), SOSMC_OK);
    assert_int_equal(sosmc_host_gradients(h, 1, zero, NULL, gx), SOSMC_OK); /* at x = 0 it is -y */
    double theta[2] = {0.8, -0.3}, phi = tanh(theta[0]), loss = 0.5 * T * log_2pi;
    for (int t = 0; t < T; t++) {
        y[t] = -gx[t];
        for (int s = 0; s < T; s++)
            S[t * T + s] = exp(2 * theta[1]) / (1 - phi * phi) * pow(phi, abs(t - s)) + (t == s);
    }
    assert_int_equal(sosmc_i_cholesky(T, S), 0);
    sosmc_i_solve_lower(T, S, y);
    for (int t = 0; t < T; t++) loss += 0.5 * y[t] * y[t];
    loss += 0.5 * sosmc_i_cholesky_log_determinant(T, S);
    assert_close(u.loss(&u, theta, NULL), loss, 1e-9);
    sosmc_host_free(h);
    untuned_close(&u);
}

/* Mean and variance of the mean of the loss over exact draws: forward -R at the mixture's draws and beta log(ref / pi) at the
 * reference's, reverse both at the mixture's. */
static void draw_losses(const untuned_problem *u, const double *theta, const double *law_theta, double reward_weight,
                        double ratio_weight, double *mean, double *variance)
{
    enum { DRAWS = 100000 };
    const sosmc_model *m = &u->problem.model;
    const sosmc_mixture *mixture = m->self;
    sosmc_mixture_law law = {.mixture = mixture, .theta = law_theta};
    sosmc_source from = sosmc_mixture_source(&law);
    size_t d = (size_t)m->dim_x;
    double *x = malloc(DRAWS * (d + 3) * sizeof *x), *R = x + DRAWS * d, *U = R + DRAWS, *U_ref = U + DRAWS, sum = 0,
           square = 0;
    double *tile = numbers_room(64 * d * sizeof *tile);
    assert_non_null(x);
    for (int first = 0; first < DRAWS; first += 32) {
        sosmc_batch b = {.dim = m->dim_x, .n = 32, .ld = 64, .first = first};
        assert_int_equal(from.draw(from.self, (sosmc_rng){.seed = 11}, &b, tile), 0);
        for (size_t i = 0; i < 32; i++)
            for (size_t j = 0; j < d; j++) x[((size_t)first + i) * d + j] = tile[j * 64 + i];
    }
    assert_int_equal(sosmc_scores(&u->problem.objective.score, m->dim_x, DRAWS, x, R), SOSMC_OK);
    assert_int_equal(sosmc_energies(m, theta, DRAWS, x, 1, U), SOSMC_OK);
    assert_int_equal(sosmc_energies(m, u->problem.theta0, DRAWS, x, 1, U_ref), SOSMC_OK);
    for (int i = 0; i < DRAWS; i++) {
        double value = -reward_weight * R[i] + ratio_weight * (U[i] - U_ref[i]);
        sum += value / DRAWS;
        square += value * value / DRAWS;
    }
    *mean += sum;
    *variance += (square - sum * sum) / DRAWS;
    free(x);
    free(tile);
}

static void draws_of_mixtures_have_the_loss(void **state)
{
    static const char *const names[] = {"dual2", "far3",  "ring8",      "mix10",     "mix20",
                                        "tiny1", "rare1", "far100_fwd", "far100_rev"};
    double theta[UNTUNED_PARAMETERS];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        untuned_problem u;
        double mean = 0, variance = 0;
        assert_true(expect_untuned(&u, names[k]));
        const sosmc_objective *o = &u.problem.objective;
        between(&u, theta);
        if (o->loss == SOSMC_LOSS_FORWARD_KL) {
            draw_losses(&u, theta, theta, 1, 0, &mean, &variance);
            draw_losses(&u, theta, u.problem.theta0, 0, o->b, &mean, &variance);
        } else
            draw_losses(&u, theta, theta, 1, -o->kl, &mean, &variance);
        assert_near(mean, u.loss(&u, theta, NULL), 4.5 * sqrt(variance));
        assert_true(variance < 1e-4);
        theta[1] = -2000;                                 /* a weight that underflows is no weight */
        assert_true(u.loss(&u, theta, NULL) > -INFINITY); /* which no NaN is */
        untuned_close(&u);
    }
}

/* log Z of the banana and of the wells, which is the loss without the data's part, by sums over a plane and a line. */
static void data_energies_have_their_log_z(void **state)
{
    static const char *const names[] = {"banana", "well", "well_far"};
    for (int k = 0; k < 3; k++) {
        untuned_problem u;
        double theta[3], log_z, data = 0;
        assert_true(expect_untuned(&u, names[k]));
        const sosmc_model *m = &u.problem.model;
        between(&u, theta);
        int64_t n = u.problem.objective.data.rows;
        const sosmc_rows *rows = u.problem.objective.data.self;
        double *U = malloc((size_t)n * sizeof *U);
        assert_non_null(U);
        assert_int_equal(sosmc_energies(m, theta, n, rows->data, 1, U), SOSMC_OK);
        for (int64_t i = 0; i < n; i++) data += U[i] / (double)n;
        free(U);
        if (m->dim_x == 1) {
            double zero = 0, origin;
            assert_int_equal(sosmc_energies(m, theta, 1, &zero, 1, &origin), SOSMC_OK);
            log_z = line_integral(m, theta, &zero, 0, -7, 7, 4000) - origin;
        } else { /* in x_2 along the ridge, then in x_1 */
            double sum = 0;
            for (int step = -320; step < 160; step++) {
                double x1 = 0.05 * step, x0[2] = {x1, theta[1] * x1 * x1}, U0;
                assert_int_equal(sosmc_energies(m, theta, 1, x0, 1, &U0), SOSMC_OK);
                sum += 0.05 * exp(line_integral(m, theta, x0, 1, x0[1] - 15, x0[1] + 15, 1000) - U0);
            }
            log_z = log(sum);
        }
        assert_close(u.loss(&u, theta, NULL), data + log_z, 1e-6);
        assert_true(u.nats == (double)n);
        untuned_close(&u);
    }
}

/* d log Z / dtheta = (E sum x - dim theta) / variance, by fresh chains, and log Z itself by draws of Laplace's approximation, to which
 * only the posterior of nine coefficients is close enough. */
enum { CHAINS = 128 };
static double chain_slope(const sosmc_model *m, const double *theta, double *error)
{
    static double mode[50], factor[50 * 50], start[CHAINS * 50], ones[50];
    const sosmc_logistic *data = m->self;
    double mean;
    assert_int_equal(sosmc_logistic_laplace(data, *theta, mode, factor), SOSMC_OK);
    for (int i = 0; i < CHAINS; i++) { /* near the mode */
        double *x = start + (size_t)i * (size_t)m->dim_x;
        for (int j = 0; j < m->dim_x; j++) x[j] = numbers_uniform(-1.7, 1.7);
        sosmc_i_solve_lower_transposed((size_t)m->dim_x, factor, x);
        for (int j = 0; j < m->dim_x; j++) x[j] += mode[j];
    }
    for (int j = 0; j < m->dim_x; j++) ones[j] = 1;
    sosmc_linear sum = {.dim = m->dim_x, .weight = ones};
    sosmc_score score = sosmc_linear_reward(&sum);
    sosmc_kernel kernel = sosmc_hmc(0.2, 10, 1);
    sosmc_fresh chains = {
        .chains = CHAINS, .burn_in = 50, .averaged = 250, .seed = 3, .kernel = &kernel, .start = start};
    assert_int_equal(sosmc_fresh_reward(m, theta, &score, &chains, NULL, NULL, &mean, error), SOSMC_OK);
    *error /= data->variance;
    return (mean - m->dim_x * *theta) / data->variance;
}

static void regressions_have_the_slopes_of_chains(void **state)
{
    static const char *const names[] = {"logit50", "wisconsin"};
    for (int k = 0; k < 2; k++) {
        untuned_problem u;
        double theta, g, error, mode[9], factor[81];
        if (!expect_untuned(&u, names[k])) continue;
        const sosmc_model *m = &u.problem.model;
        theta = u.best[0] + 0.3;
        double slope = chain_slope(m, &theta, &error);
        (void)u.loss(&u, &theta, &g);
        assert_near(slope, -g, 4.5 * error);
        assert_true(error < 0.03);
        for (theta = 0; k == 1 && theta < 1; theta += u.best[0]) {
            sosmc_evidence z;
            assert_int_equal(sosmc_logistic_laplace(m->self, theta, mode, factor), SOSMC_OK);
            sosmc_gaussian law = {.dim = 9, .mean = mode, .factor = factor, .widen = 1.2};
            assert_int_equal(sosmc_importance(m, &theta, sosmc_gaussian_source(&law), 100000, 7, &z), SOSMC_OK);
            assert_near(z.logz, -u.loss(&u, &theta, NULL), 4.5 * z.error + 0.003);
            assert_true(z.error < 0.02);
        }
        untuned_close(&u);
    }
}

/* The points of a lattice from -limit to limit, `side` in every direction, rows of dim. */
static double *lattice(int dim, int side, double limit, int *count)
{
    *count = (int)(pow(side, dim) + 0.5);
    double *x = malloc((size_t)*count * (size_t)dim * sizeof *x);
    assert_non_null(x);
    for (int k = 0; k < *count; k++)
        for (int j = 0, left = k; j < dim; j++, left /= side)
            x[k * dim + j] = limit * (2.0 * (left % side) / (side - 1) - 1);
    return x;
}

/* Returns the log of the sum of exp(-U) and adds it to U, which is then minus the log of a probability. */
static double normalise(int count, double *U)
{
    double least = INFINITY, sum = 0;
    for (int k = 0; k < count; k++) least = fmin(least, U[k]);
    for (int k = 0; k < count; k++) sum += exp(least - U[k]);
    for (int k = 0; k < count; k++) U[k] += log(sum) - least;
    return log(sum) - least;
}

/* The losses of energies in up to three dimensions, from nothing but energies and rewards on a lattice. */
static void lattices_have_the_loss(void **state)
{
    static const struct {
        const char *name;
        int side;
        double limit;
    } rows[] = {{"spins", 161, 5}, {"skewed", 8001, 40}, {"gauss_rev", 101, 16}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        untuned_problem u;
        double theta[UNTUNED_PARAMETERS], loss = 0;
        int count;
        assert_true(expect_untuned(&u, rows[k].name));
        const sosmc_model *m = &u.problem.model;
        const sosmc_objective *o = &u.problem.objective;
        between(&u, theta);
        double *x = lattice(m->dim_x, rows[k].side, rows[k].limit, &count);
        double *U = malloc(3 * (size_t)count * sizeof *U), *U0 = U + count, *R = U0 + count;
        assert_non_null(U);
        assert_int_equal(sosmc_energies(m, theta, count, x, 1, U), SOSMC_OK);
        double log_z = normalise(count, U) + m->dim_x * log(2 * rows[k].limit / (rows[k].side - 1));
        if (o->loss == SOSMC_LOSS_LIKELIHOOD) {
            const sosmc_rows *data = o->data.self;
            assert_int_equal(sosmc_energies(m, theta, data->rows, data->data, 1, R), SOSMC_OK);
            for (int i = 0; i < data->rows; i++) loss += (R[i] + log_z) / (double)data->rows;
            assert_true(u.nats == (double)data->rows);
        } else {
            double beta = o->loss == SOSMC_LOSS_FORWARD_KL ? o->b : o->kl;
            assert_int_equal(sosmc_energies(m, u.problem.theta0, count, x, 1, U0), SOSMC_OK);
            assert_int_equal(sosmc_scores(&o->score, m->dim_x, count, x, R), SOSMC_OK);
            (void)normalise(count, U0);
            for (int i = 0; i < count; i++) {
                double p = exp(-U[i]), q = exp(-U0[i]);
                loss -= p * R[i];
                loss += beta * (o->loss == SOSMC_LOSS_FORWARD_KL ? q * (U[i] - U0[i]) : p * (U0[i] - U[i]));
            }
        }
        assert_near(loss, u.loss(&u, theta, NULL), 1e-7);
        free(x);
        free(U);
        untuned_close(&u);
    }
}

/* The draws of the skewed family's reference have its density: the mean of e^x is 1 and its variance a third. */
static void the_skewed_reference_has_its_law(void **state)
{
    enum { DRAWS = 64 * 1000 };
    untuned_problem u;
    assert_true(expect_untuned(&u, "skewed"));
    const sosmc_source *from = &u.problem.objective.data;
    double mean = 0, square = 0, sum = 0;
    for (int first = 0; first < DRAWS; first += 64) {
        _Alignas(64) double x[64], lq[64];
        sosmc_batch b = {.dim = 1, .n = 64, .ld = 64, .first = first};
        assert_int_equal(from->draw(from->self, (sosmc_rng){.seed = 5}, &b, x), 0);
        for (int i = 0; i < 64; i++) mean += exp(x[i]) / DRAWS;
        for (int i = 0; i < 64; i++) square += expm1(x[i]) * expm1(x[i]) / DRAWS;
        b.x = x;
        for (int i = 0; i < 64; i++) x[i] = -20 + 24.0 * (first + i) / DRAWS;
        assert_int_equal(from->logpdf(from->self, &b, lq), 0);
        for (int i = 0; i < 64; i++) sum += 24.0 / DRAWS * exp(lq[i]);
    }
    assert_near(mean, 1, 4.5 * sqrt(1.0 / 3 / DRAWS));
    assert_near(square, 1.0 / 3, 4.5 * sqrt((1.0 / 3 + 2.0 / 9 + 2.0 / 9) / DRAWS)); /* the fourth moment is 7/9 */
    assert_near(sum, 1, 1e-9);
    untuned_close(&u);
}

static double energy_of(const void *self, const double *x, double *gradient)
{
    double U;
    assert_int_equal(sosmc_host_gradients((sosmc_host *)self, 1, x, &U, gradient), SOSMC_OK);
    return U;
}

/* log Z of models with one mode by draws of Laplace's approximation, which is exact where the model is Gaussian. */
static void laplace_draws_have_the_loss(void **state)
{
    static const struct {
        const char *name;
        double widen, largest_error;
        int64_t draws;
    } rows[] = {{"crossed", 1, 1e-6, 1000},
                {"factor", 1, 1e-6, 1000},
                {"volatility", 1.1, 0.006, 500000},
                {"frailty", 1.1, 0.02, 50000}};
    static double mode[60], H[60 * 60];
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        untuned_problem u;
        sosmc_host *h = NULL;
        sosmc_evidence z;
        double theta[UNTUNED_PARAMETERS];
        assert_true(expect_untuned(&u, rows[k].name));
        const sosmc_model *m = &u.problem.model;
        between(&u, theta);
        assert_int_equal(sosmc_host_create(&h, m, theta, 0), SOSMC_OK);
        memset(mode, 0, sizeof mode);
        assert_int_equal(minimise(energy_of, h, m->dim_x, mode), 0);
        difference_hessian(energy_of, h, m->dim_x, mode, H);
        assert_int_equal(sosmc_i_cholesky((size_t)m->dim_x, H), 0);
        sosmc_gaussian law = {.dim = m->dim_x, .mean = mode, .factor = H, .widen = rows[k].widen};
        assert_int_equal(sosmc_importance(m, theta, sosmc_gaussian_source(&law), rows[k].draws, 7, &z), SOSMC_OK);
        assert_near(z.logz, -u.loss(&u, theta, NULL), 4.5 * z.error + 1e-6);
        assert_true(z.error < rows[k].largest_error);
        sosmc_host_free(h);
        untuned_close(&u);
    }
}

/* ---------------------------------------------------------------------------- published values */

static void published_values_are_met(void **state)
{
    untuned_problem u;
    assert_true(expect_untuned(&u, "schools"));
    assert_near(u.best[0], 8.0224, 1e-4);
    assert_near(exp(u.best[1]), 19.7639, 1e-4);
    assert_near(u.best_loss, 36.7505, 1e-4);
    untuned_close(&u);
    assert_true(expect_untuned(&u, "dyestuff"));
    assert_near(u.best[0], 1527.5, 1e-4);
    assert_near(exp(2 * u.best[1]), 1388.3333, 1e-3);
    assert_near(exp(2 * u.best[2]), 2451.25, 1e-3);
    assert_near(u.best_loss, 163.66352994, 1e-7);
    untuned_close(&u);
    if (!expect_untuned(&u, "wisconsin")) skip();
    assert_near(u.best[0], 0.96772, 4 * 0.00013);
    assert_near(u.best_loss, 61.3242, 4 * 0.0008);
    untuned_close(&u);
}

/* ---------------------------------------------------------------------------- identified coordinates */

/* The errors against differences of the coordinates. */
static void identified_errors_are_slopes(void **state)
{
    static const char *const names[] = {"far3", "square", "schools"};
    for (int k = 0; k < 3; k++) {
        untuned_problem u;
        double theta[8], at[8], error[8], covariance[64], stated[8], up[8], down[8], sum[8] = {0};
        assert_true(expect_untuned(&u, names[k]));
        int p = u.problem.model.dim_theta;
        for (int j = 0; j < p; j++) {
            at[j] = theta[j] = numbers_uniform(-1, 1) - (k == 1);
            error[j] = numbers_uniform(0.1, 0.2);
        }
        untuned_identified_errors(&u, theta, error, NULL, stated);
        for (int j = 0; j < p; j++) {
            at[j] = theta[j] + 1e-5;
            untuned_identify(&u, at, up);
            at[j] = theta[j] - 1e-5;
            untuned_identify(&u, at, down);
            at[j] = theta[j];
            for (int i = 0; i < p; i++) sum[i] += pow((up[i] - down[i]) / 2e-5 * error[j], 2);
        }
        for (int i = 0; i < p; i++) assert_near(stated[i], sqrt(sum[i]), 1e-8);
        for (int i = 0; i < p; i++) /* errors that are all the same move no weight */
            for (int j = 0; j < p; j++) covariance[i * p + j] = 0.01;
        untuned_identified_errors(&u, theta, error, covariance, stated);
        for (int i = 0; i < p; i++) assert_near(stated[i], k == 0 ? 0 : 0.1, 1e-8);
        untuned_identify(&u, theta, up);
        if (k == 0) assert_near(up[0] + up[1] + up[2], 1, 1e-14);
        if (k == 1) assert_true(up[0] == -theta[0]);
        untuned_close(&u);
    }
}

/* ---------------------------------------------------------------------------- other coordinates */

/* Gradients and losses of a problem in other coordinates, and what its data, reference draws and rewards are there. */
static void moved_problems_have_their_gradients(void **state)
{
    static double x[1000], theta[UNTUNED_PARAMETERS], gradient[UNTUNED_PARAMETERS];
    FOR_PROBLEMS(u)
    {
        untuned_problem v;
        untuned_coordinates c = {.scale = 3, .shift = 2, .units = 2, .seed = 5};
        assert_int_equal(untuned_move(&v, &u, &c), 0);
        between(&v, theta);
        if (finite_point(&v.problem.model, theta, 0, 3, x))
            expect_gradients(&v.problem.model, theta, x, 1e-5, 1e-5);
        else
            assert_int_equal(u.wanted, UNTUNED_RIGHT_OR_NAMED); /* walls, turned: the plain problem is tested above */
        double loss = v.loss(&v, theta, gradient), kept = theta[0];
        theta[0] = kept + 1e-4;
        assert_near((v.loss(&v, theta, NULL) - loss) / 1e-4, gradient[0], 1e-2 * (1 + fabs(gradient[0])));
        assert_near(untuned_gap(&v, v.best), 0, 1e-9);
        untuned_close(&v);
    }
}

/* n points of a source, rows of dim. */
static void points_of(const sosmc_source *from, int rows, int n, int dim, double *x)
{
    double *tile = numbers_room(64 * (size_t)dim * sizeof *tile);
    sosmc_batch b = {.dim = dim, .n = n, .ld = 64};
    if (rows)
        assert_int_equal(from->row(from->self, &b, tile), 0);
    else
        assert_int_equal(from->draw(from->self, (sosmc_rng){.seed = 3}, &b, tile), 0);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < dim; j++) x[i * dim + j] = tile[j * 64 + i];
    free(tile);
}

/* Data and reference draws are the same points, with the same energies, gradients of the same length, and rewards. */
static void moved_points_are_the_same_points(void **state)
{
    enum { N = 40, DIM = 2 };
    FOR_PROBLEMS(u)
    {
        untuned_problem v;
        untuned_coordinates c = untuned_coordinates_of((uint64_t)k_);
        double x[N * DIM], y[N * DIM], U[N], V[N], gx[N * DIM], gy[N * DIM];
        const sosmc_objective *o = &u.problem.objective;
        int dim = u.problem.model.dim_x;
        if (!o->data.draw) continue;
        sosmc_host *h = NULL, *g = NULL;
        assert_int_equal(untuned_move(&v, &u, &c), 0);
        assert_int_equal(sosmc_host_create(&h, &u.problem.model, u.problem.theta0, 0), SOSMC_OK);
        assert_int_equal(sosmc_host_create(&g, &v.problem.model, v.problem.theta0, 0), SOSMC_OK);
        for (int rows = 0; rows < (o->data.rows > 0 ? 2 : 1); rows++) {
            points_of(&o->data, rows, N, dim, x);
            points_of(&v.problem.objective.data, rows, N, dim, y);
            assert_int_equal(sosmc_host_gradients(h, N, x, U, gx), SOSMC_OK);
            assert_int_equal(sosmc_host_gradients(g, N, y, V, gy), SOSMC_OK);
            for (int i = 0; i < N; i++) {
                double a = 0, b = 0, tolerance = 1e-9 * (1 + c.shift / c.scale);
                for (int j = 0; j < dim; j++) {
                    a += gx[i * dim + j] * gx[i * dim + j];
                    b += gy[i * dim + j] * gy[i * dim + j];
                }
                assert_close(V[i], U[i], tolerance);
                assert_close(c.scale * sqrt(b), sqrt(a), tolerance);
            }
            if (!o->score.eval) continue;
            assert_int_equal(sosmc_scores(&o->score, dim, N, x, U), SOSMC_OK);
            assert_int_equal(sosmc_scores(&v.problem.objective.score, dim, N, y, V), SOSMC_OK);
            for (int i = 0; i < N; i++) assert_close(V[i], U[i], 1e-6);
        }
        sosmc_host_free(h);
        sosmc_host_free(g);
        untuned_close(&v);
    }
}

/* In one dimension log Z of the moved model is a sum, at theta in the other units; and the density of a reference law is the
 * moved one. */
static void moved_densities_are_normalised(void **state)
{
    static const char *const names[] = {"hier1", "well"};
    const untuned_coordinates c = {.scale = 40, .shift = 300, .units = 100, .seed = 7};
    for (int k = 0; k < 2; k++) {
        untuned_problem u, v;
        double theta[3], at[3] = {0}, centre = 0, origin, plain, inner[3];
        assert_true(expect_untuned(&u, names[k]));
        assert_int_equal(untuned_move(&v, &u, &c), 0);
        between(&u, inner);
        for (int j = 0; j < u.problem.model.dim_theta; j++) theta[j] = inner[j] * v.unit[j];
        double log_z = line_integral(&v.problem.model, theta, &centre, 0, -900, 900, 40000);
        assert_int_equal(sosmc_energies(&v.problem.model, theta, 1, &centre, 1, &origin), SOSMC_OK);
        plain = line_integral(&u.problem.model, inner, at, 0, -12, 12, 4000);
        assert_int_equal(sosmc_energies(&u.problem.model, inner, 1, at, 1, at + 1), SOSMC_OK);
        double difference = (log_z - origin) - (plain - at[1]), sign = k == 0 ? -1 : 1;
        assert_near(difference, log(c.scale), 1e-8);
        assert_near(v.loss(&v, theta, NULL) - u.loss(&u, inner, NULL), sign * difference, 1e-8);
        untuned_close(&v);
        untuned_close(&u);
    }
    untuned_problem u, v;
    _Alignas(64) double x[64], lq[64];
    assert_true(expect_untuned(&u, "tiny1"));
    assert_int_equal(untuned_move(&v, &u, &c), 0);
    double sum = 0;
    for (int low = -900; low < 900; low += 32) {
        sosmc_batch b = {.x = x, .dim = 1, .n = 64, .ld = 64};
        const sosmc_source *law = &v.problem.objective.data;
        for (int i = 0; i < 64; i++) x[i] = low + 0.5 * i;
        assert_int_equal(law->logpdf(law->self, &b, lq), 0);
        for (int i = 0; i < 64; i++) sum += 0.5 * exp(lq[i]);
    }
    assert_near(sum, 1, 1e-9);
    untuned_close(&v);
    untuned_close(&u);
}

static void unknown_names_are_refused(void **state)
{
    untuned_problem u;
    assert_int_not_equal(untuned_open(&u, "nothing", NULL), 0);
    untuned_close(&u);
    assert_int_not_equal(untuned_open(&u, "cbpp", "/nowhere"), 0);
    untuned_close(&u);
    assert_int_not_equal(untuned_open(&u, "wisconsin", NULL), 0);
    untuned_close(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(energies_have_their_gradients, numbers_start),
        cmocka_unit_test_setup(losses_have_their_gradients, numbers_start),
        cmocka_unit_test_setup(the_best_is_a_minimum, numbers_start),
        cmocka_unit_test_setup(independent_coordinates_integrate_to_the_loss, numbers_start),
        cmocka_unit_test_setup(the_funnel_integrates_to_its_loss, numbers_start),
        cmocka_unit_test_setup(the_series_has_a_normal_law, numbers_start),
        cmocka_unit_test_setup(draws_of_mixtures_have_the_loss, numbers_start),
        cmocka_unit_test_setup(data_energies_have_their_log_z, numbers_start),
        cmocka_unit_test_setup(regressions_have_the_slopes_of_chains, numbers_start),
        cmocka_unit_test_setup(lattices_have_the_loss, numbers_start),
        cmocka_unit_test_setup(the_skewed_reference_has_its_law, numbers_start),
        cmocka_unit_test_setup(laplace_draws_have_the_loss, numbers_start),
        cmocka_unit_test_setup(published_values_are_met, numbers_start),
        cmocka_unit_test_setup(identified_errors_are_slopes, numbers_start),
        cmocka_unit_test_setup(moved_problems_have_their_gradients, numbers_start),
        cmocka_unit_test_setup(moved_points_are_the_same_points, numbers_start),
        cmocka_unit_test_setup(moved_densities_are_normalised, numbers_start),
        cmocka_unit_test_setup(unknown_names_are_refused, numbers_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
