/* test_lattice.c: quadrature on a lattice against closed forms, one-dimensional integrals and the formulas of the
 * optimum; energies of many points against the callback called directly; fresh chains against a plain loop bit by bit,
 * and against the stationary law of the discretised Langevin equation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>

#include "assertions.h"
#include "toys.h"

enum { NODES = 200, COUNT = NODES * NODES, MODES = 3 };
static const sosmc_lattice box = {.nodes = NODES, .low = {-9, -9}, .high = {9, 9}};

/* Means on the first axis: the second coordinate is the same normal law for every theta. */
static const double on_axis[2 * MODES] = {-2, 0, 0.5, 0, 2.5, 0};
static const double in_plane[2 * MODES] = {-2, 1, 0.5, -2, 2.5, 0.6};
static const double theta_ref[MODES] = {0.3, -0.4, 0.1}, theta_pi[MODES] = {-0.8, 0.5, 0.9};
static const sosmc_mixture axis_mixture = {.dim = 2, .components = MODES, .means = on_axis, .variance = 0.7};
static const sosmc_mixture mixture = {.dim = 2, .components = MODES, .means = in_plane, .variance = 0.7};
static const double down[2] = {0, -1};
static const sosmc_half_plane lower = {.dim = 2, .normal = down};

static double U_pi[COUNT], U_ref[COUNT], R[COUNT];

static void weights_of(const double *theta, double *v)
{
    double sum = 0;
    for (int m = 0; m < MODES; m++) sum += v[m] = exp(theta[m]);
    for (int m = 0; m < MODES; m++) v[m] /= sum;
}

static double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2)); }

/* Mass of x_2 < 0, and its density on that line with the derivative: what the lattice's errors are made of. */
static double lower_mass(const double *theta, double *density, double *slope)
{
    double v[MODES], sum = 0, sd = sqrt(mixture.variance);
    weights_of(theta, v);
    *density = *slope = 0;
    for (int m = 0; m < MODES; m++) {
        double mean = in_plane[2 * m + 1], p = exp(-0.5 * mean * mean / mixture.variance) / (sd * sqrt(2 * acos(-1)));
        sum += v[m] * normal_cdf(-mean / sd);
        *density += v[m] * p;
        *slope += v[m] * p * mean / mixture.variance;
    }
    return sum;
}

static void fill_lattice(const sosmc_mixture *m, const sosmc_lattice *l)
{
    sosmc_model model = sosmc_mixture_model(m);
    sosmc_score reward = sosmc_half_plane_reward(&lower);
    assert_int_equal(sosmc_lattice_energy(&model, theta_pi, l, 2, U_pi), SOSMC_OK);
    assert_int_equal(sosmc_lattice_energy(&model, theta_ref, l, 1, U_ref), SOSMC_OK);
    assert_int_equal(sosmc_lattice_score(&reward, l, R), SOSMC_OK);
}

/* ---------------------------------------------------------------------------- quadrature */

/* Sums over a lattice converge faster than any power of h for smooth densities: rounding is all that is left. */
static void log_z_and_divergences_of_mixtures(void **unused)
{
    sosmc_exact exact;
    double v[MODES], w[MODES], kl = 0, forward = 0;
    fill_lattice(&axis_mixture, &box);
    sosmc_lattice_exact(&box, U_pi, U_ref, NULL, 0.5, &exact);
    assert_near(exact.logz, sosmc_mixture_logz(&axis_mixture), 1e-13);
    assert_near(exact.ref_logz, sosmc_mixture_logz(&axis_mixture), 1e-13);
    weights_of(theta_pi, v);
    weights_of(theta_ref, w);
    const int half = 3000; /* on the first coordinate alone */
    const double h = 0.003;
    for (int k = -half; k <= half; k++) {
        double x = h * k, p = 0, q = 0;
        for (int m = 0; m < MODES; m++) {
            double r = x - on_axis[2 * m], e = exp(-0.5 * r * r / 0.7) / sqrt(2 * acos(-1) * 0.7);
            p += v[m] * e;
            q += w[m] * e;
        }
        kl += h * p * log(p / q);
        forward += h * q * log(q / p);
    }
    assert_true(kl > 0.1 && fabs(kl - forward) > 0.01);
    assert_near(exact.kl, kl, 1e-12);
    assert_near(exact.forward_kl, forward, 1e-12);
    assert_true(exact.edge >= 0 && exact.edge < 1e-12);
}

/* Even: the jump is half-way between nodes, error -(h^2 / 24) p'(0). Odd: a line of nodes goes to one side. */
static void half_planes_want_an_even_number_of_nodes(void **unused)
{
    static const int counts[] = {120, 121, NODES};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int nodes = counts[k];
        sosmc_lattice l = {.nodes = nodes, .low = {-9, -9}, .high = {9, 9}};
        double h = 18.0 / (nodes - 1), density, slope, mass = lower_mass(theta_pi, &density, &slope);
        sosmc_exact exact;
        fill_lattice(&mixture, &l);
        sosmc_lattice_exact(&l, U_pi, U_ref, R, 0.5, &exact);
        double error = exact.reward - mass;
        double expected = nodes % 2 ? -0.5 * h * density : -h * h / 24 * slope;
        assert_near(error, expected, 0.1 * fabs(expected));
        assert_near(exact.ref_reward, lower_mass(theta_ref, &density, &slope), h * (nodes % 2 ? 0.5 : 0.02 * h));
    }
}

static void the_optimum_for_an_indicator(void **unused)
{
    static const double betas[] = {0.002, 0.1, 0.25, 0.5, 1, 5, 100};
    fill_lattice(&mixture, &box);
    for (size_t k = 0; k < sizeof betas / sizeof *betas; k++) {
        double beta = betas[k];
        sosmc_exact e;
        sosmc_lattice_exact(&box, U_pi, U_ref, R, beta, &e);
        double p = e.ref_reward, inside = p + (1 - p) * exp(-1 / beta);
        assert_near(e.best_reward, p / inside, 1e-12);
        assert_near(e.best_loss, -1 - beta * log(inside), 1e-12 * (1 + beta));
        assert_near(e.best_kl, p / inside / beta - (1 / beta + log(inside)), 1e-12 * (1 + 1 / beta));
        assert_near(-e.best_reward + beta * e.best_kl, e.best_loss, 1e-12 * (1 + beta));
        assert_near(e.loss, -e.reward + beta * e.kl, 0);
        assert_near(e.excess, e.loss - e.best_loss, 1e-12 * (1 + beta));
        assert_true(e.excess > 0 && e.best_reward > e.ref_reward);
    }
}

/* The published pre-trained circles model: p and what the formulas make of it. */
static void the_optimum_from_the_mass_alone(void **unused)
{
    static const double table[][4] = {{0.1, 0.999964, 0.586457, -0.941318},
                                      {0.25, 0.985589, 0.514695, -0.856915},
                                      {0.5, 0.902493, 0.289248, -0.757869},
                                      {1, 0.772984, 0.102343, -0.670641},
                                      {5, 0.604737, 0.004840, -0.580536}};
    const double p = 0.556073, U[4] = {-log(p), INFINITY, -log(1 - p), INFINITY}, reward[4] = {1, 0, 0, 1};
    const sosmc_lattice two = {.nodes = 2, .low = {0, 0}, .high = {1, 1}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        sosmc_exact e;
        sosmc_lattice_exact(&two, U, U, reward, table[k][0], &e);
        assert_near(e.best_reward, table[k][1], 1e-6);
        assert_near(e.best_kl, table[k][2], 2e-6);
        assert_near(e.best_loss, table[k][3], 1e-6);
        assert_near(e.kl, 0, 0);
        assert_near(e.edge, 1, 1e-15);
    }
}

/* At the optimum itself nothing is left to gain, whatever the reward; next to it the excess is still exact. */
static void the_excess_vanishes_at_the_optimum(void **unused)
{
    const double peaks[4] = {1, 1, -2, -1};
    const sosmc_peaks hills = {.dim = 2, .count = 2, .centers = peaks, .tau = 2, .alpha = 0.5};
    const sosmc_score score = sosmc_peaks_reward(&hills);
    const double beta = 0.3;
    double variance = 0, mean = 0;
    sosmc_exact e;
    fill_lattice(&mixture, &box);
    assert_int_equal(sosmc_lattice_score(&score, &box, R), SOSMC_OK);
    for (int g = 0; g < COUNT; g++) U_pi[g] = U_ref[g] - R[g] / beta;
    sosmc_lattice_exact(&box, U_pi, U_ref, R, beta, &e);
    assert_near(e.excess, 0, 1e-15);
    assert_near(e.loss, e.best_loss, 1e-13);
    assert_near(e.reward, e.best_reward, 1e-13);
    assert_near(e.kl, e.best_kl, 1e-13);

    /* U + t x_1: the excess is beta t^2 Var(x_1) / 2 to leading order, 1e-9 of the loss, beyond any difference */
    const double t = 2e-5;
    double top = e.logz;
    for (int g = 0; g < COUNT; g++) {
        double x = sosmc_lattice_node(&box, 0, g % NODES), m = exp(-U_pi[g] - top) * (18.0 / 199) * (18.0 / 199);
        mean += m * x;
        variance += m * x * x;
        U_pi[g] += t * x;
    }
    variance -= mean * mean;
    sosmc_lattice_exact(&box, U_pi, U_ref, R, beta, &e);
    assert_near(e.excess, beta * t * t * variance / 2, 1e-4 * beta * t * t * variance);
}

/* R may have any scale and U any offset; an infinite energy is a place without mass. */
static void extreme_energies_stay_in_range(void **unused)
{
    sosmc_exact plain, shifted;
    fill_lattice(&mixture, &box);
    sosmc_lattice_exact(&box, U_pi, U_ref, R, 0.25, &plain);
    for (int g = 0; g < COUNT; g++) U_pi[g] += 3000, U_ref[g] -= 5000;
    sosmc_lattice_exact(&box, U_pi, U_ref, R, 0.25, &shifted);
    assert_near(shifted.logz, plain.logz - 3000, 1e-11);
    assert_near(shifted.ref_logz, plain.ref_logz + 5000, 1e-11);
    assert_near(shifted.kl, plain.kl, 1e-11);
    assert_near(shifted.excess, plain.excess, 1e-11);
    U_pi[COUNT / 2] = INFINITY; /* without mass here: KL(pi || ref) finite, KL(ref || pi) not */
    sosmc_lattice_exact(&box, U_pi, U_ref, R, 0.25, &shifted);
    assert_true(isfinite(shifted.kl) && shifted.forward_kl == INFINITY && isfinite(shifted.excess));
    for (int g = 0; g < COUNT; g++) U_pi[g] = INFINITY;
    sosmc_lattice_exact(&box, U_pi, U_ref, R, 0.25, &shifted);
    assert_true(shifted.logz == -INFINITY && isnan(shifted.reward) && isnan(shifted.kl) && isnan(shifted.excess));
}

static void what_is_not_given_is_not_a_number(void **unused)
{
    sosmc_exact e;
    fill_lattice(&mixture, &box);
    sosmc_lattice_exact(&box, U_pi, NULL, R, 0.25, &e);
    assert_true(isfinite(e.logz) && isfinite(e.reward) && isfinite(e.edge));
    assert_true(isnan(e.kl) && isnan(e.forward_kl) && isnan(e.loss) && isnan(e.ref_logz) && isnan(e.ref_reward));
    assert_true(isnan(e.best_loss) && isnan(e.excess));
    sosmc_lattice_exact(&box, U_pi, U_ref, NULL, 0.25, &e);
    assert_true(isfinite(e.kl) && isfinite(e.ref_logz) && isnan(e.reward) && isnan(e.loss) && isnan(e.best_kl));
    sosmc_lattice_exact(&box, U_pi, U_ref, R, 0, &e);
    assert_true(e.loss == -e.reward && isfinite(e.kl));
    assert_true(isnan(e.best_reward) && isnan(e.best_kl) && isnan(e.best_loss) && isnan(e.excess));
}

/* A box that cuts through the mass says so. */
static void the_edge_tells_of_a_small_box(void **unused)
{
    const sosmc_lattice small = {.nodes = 20, .low = {-2, -1}, .high = {2, 3}};
    sosmc_exact e;
    double ring = 0, sum = 0;
    fill_lattice(&mixture, &small);
    sosmc_lattice_exact(&small, U_pi, NULL, NULL, 0, &e);
    for (int g = 0; g < 400; g++) {
        int r = g / 20, c = g % 20;
        sum += exp(-U_pi[g]);
        if (r == 0 || c == 0 || r == 19 || c == 19) ring += exp(-U_pi[g]);
    }
    assert_near(e.edge, ring / sum, 1e-14);
    assert_near(e.logz, log(sum * (4.0 / 19) * (4.0 / 19)), 1e-13);
    assert_true(e.edge > 0.01);
}

static void nodes_lie_where_they_should(void **unused)
{
    const sosmc_lattice l = {.nodes = 5, .low = {-1, 2}, .high = {1, 10}};
    const sosmc_half_plane right = {.dim = 2, .normal = (const double[]){1, 0}, .offset = 0.25};
    const sosmc_score score = sosmc_half_plane_reward(&right);
    double s[25];
    assert_true(sosmc_lattice_node(&l, 0, 0) == -1 && sosmc_lattice_node(&l, 0, 4) == 1);
    assert_true(sosmc_lattice_node(&l, 1, 0) == 2 && sosmc_lattice_node(&l, 1, 1) == 4);
    for (int i = 0; i < NODES; i++)
        assert_true(sosmc_lattice_node(&box, 0, i) == -sosmc_lattice_node(&box, 0, NODES - 1 - i));
    assert_int_equal(sosmc_lattice_score(&score, &l, s), SOSMC_OK);
    for (int g = 0; g < 25; g++) assert_true(s[g] == (g % 5 > 2)); /* columns are the first coordinate */
}

/* ---------------------------------------------------------------------------- many points */

/* A model that demands what the header promises, and writes everything it may. */
typedef struct {
    int tile, code;
    double bad; /* the energy where x_1 > 5 */
} strict;

static int strict_prepare(const void *self, const double *theta, void *prep)
{
    if ((uintptr_t)prep % 64) return 1;
    memcpy(prep, theta, sizeof *theta);
    return 0;
}

static int strict_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const strict *s = self;
    double *work = b->work;
    const double *centre = b->prep;
    if ((uintptr_t)b->x % 64 || (uintptr_t)work % 64 || (uintptr_t)U % 64 || (uintptr_t)gx % 64) return 2;
    if (b->ld % 8 || b->n > b->ld || b->n > s->tile || !b->simd || b->fresh || b->first % s->tile) return 3;
    if (*centre != *theta) return 4;
    for (int i = 0; i < b->ld; i++) {
        U[i] = work[i] = work[b->ld + i] = 0;
        for (int j = 0; j < b->dim; j++) {
            double r = b->x[j * b->ld + i] - *centre;
            U[i] += 0.5 * r * r;
            if (gx) gx[j * b->ld + i] = r;
        }
        if (i < b->n && b->x[i] > 5) U[i] = s->bad;
    }
    return s->code;
}

static sosmc_model strict_model(const strict *s, int dim)
{
    return (sosmc_model){.dim_x = dim,
                         .dim_theta = 1,
                         .work = 2 * sizeof(double),
                         .prep = sizeof(double),
                         .tile = s->tile,
                         .self = s,
                         .prepare = strict_prepare,
                         .energy = strict_energy};
}

static void energies_are_what_the_callback_says(void **unused)
{
    enum { N = 301, DIM = 3 };
    const double means[2 * DIM] = {0, 1, 2, -1, 0.5, 0.25}, theta[2] = {0.2, -0.7};
    const sosmc_mixture m = {.dim = DIM, .components = 2, .means = means, .variance = 0.4};
    sosmc_model model = sosmc_mixture_model(&m);
    _Alignas(64) double x[8 * DIM] = {0}, work[16], direct[8], prep[8];
    double rows[N * DIM], U[N + 1], again[N], sum = 0;
    model.tile = 40;
    for (int i = 0; i < N * DIM; i++) rows[i] = 3 * sin(0.7 * i * i + 0.1);
    U[N] = 42;
    assert_int_equal(sosmc_energies(&model, theta, N, rows, 1, U), SOSMC_OK);
    assert_int_equal(model.prepare(model.self, theta, prep), 0);
    for (int i = 0; i < N; i++) {
        sosmc_batch b = {.x = x, .prep = prep, .work = work, .dim = DIM, .n = 1, .ld = 8, .first = i};
        for (int j = 0; j < DIM; j++) x[8 * j] = rows[i * DIM + j];
        assert_int_equal(model.energy(model.self, theta, &b, direct, NULL), 0);
        assert_true(U[i] == direct[0]);
        sum += U[i];
    }
    assert_true(U[N] == 42);
    for (int threads = 2; threads <= 9; threads += 7) {
        assert_int_equal(sosmc_energies(&model, theta, N, rows, threads, again), SOSMC_OK);
        assert_memory_equal(U, again, sizeof again);
    }
    assert_near(sosmc_lattice_loglik(N, U, 1.5), -sum / N - 1.5, 1e-14);
}

static void batches_keep_the_rules(void **unused)
{
    enum { N = 6001 }; /* enough for helpers to wake up and take their share */
    static double rows[2 * N], U[N];
    double theta = 0.5, lattice[49], mean, error;
    const sosmc_lattice l = {.nodes = 7, .low = {-2, -2}, .high = {2, 2}};
    for (int i = 0; i < 2 * N; i++) rows[i] = 4 * sin(i);
    for (int tile = 1; tile <= 20; tile++) {
        strict s = {.tile = tile};
        sosmc_model model = strict_model(&s, 2);
        sosmc_score reward = sosmc_half_plane_reward(&lower);
        sosmc_fresh f = {.chains = 37, .burn_in = 2, .averaged = 3, .step = 0.1, .low = -1, .high = 1, .threads = 2};
        assert_int_equal(sosmc_energies(&model, &theta, N, rows, 3, U), SOSMC_OK);
        for (int i = 0; i < N; i++) {
            double a = rows[2 * i] - theta, b = rows[2 * i + 1] - theta;
            assert_near(U[i], 0.5 * a * a + 0.5 * b * b, 1e-13);
        }
        assert_int_equal(sosmc_lattice_energy(&model, &theta, &l, 2, lattice), SOSMC_OK);
        assert_int_equal(sosmc_fresh_reward(&model, &theta, &reward, &f, NULL, NULL, &mean, &error), SOSMC_OK);
    }
}

static void failures_have_their_status(void **unused)
{
    double theta = 0, U[64], mean, error;
    const double far_away[4] = {0, 0, 6, 0};
    const sosmc_lattice good = {.nodes = 8, .low = {-1, -1}, .high = {1, 1}}, single = {.nodes = 1, .high = {1, 1}},
                        flat = {.nodes = 8, .low = {0, 1}, .high = {1, 1}};
    strict s = {.tile = 4};
    sosmc_model model = strict_model(&s, 2), spatial = strict_model(&s, 3), greedy = model;
    sosmc_fresh f = {.chains = 10, .averaged = 300, .step = 0.1, .low = -1, .high = 1};
    assert_int_equal(sosmc_lattice_energy(&spatial, &theta, &good, 1, U), SOSMC_EINVAL);
    assert_int_equal(sosmc_lattice_energy(&model, &theta, &single, 1, U), SOSMC_EINVAL);
    assert_int_equal(sosmc_lattice_energy(&model, &theta, &flat, 1, U), SOSMC_EINVAL);
    assert_int_equal(sosmc_lattice_energy(&model, &theta, &good, -1, U), SOSMC_EINVAL);
    s.bad = INFINITY;
    assert_int_equal(sosmc_energies(&model, &theta, 2, far_away, 1, U), SOSMC_OK);
    assert_true(U[1] == INFINITY);
    s.bad = NAN;
    assert_int_equal(sosmc_energies(&model, &theta, 2, far_away, 1, U), SOSMC_ENUMERIC);
    s.bad = -INFINITY;
    assert_int_equal(sosmc_energies(&model, &theta, 2, far_away, 1, U), SOSMC_ENUMERIC);
    assert_int_equal(sosmc_energies(&model, &theta, 0, NULL, 1, U), SOSMC_OK);
    greedy.work = SIZE_MAX / 2;
    assert_int_equal(sosmc_energies(&greedy, &theta, 2, far_away, 1, U), SOSMC_ENOMEM);
    assert_int_equal(sosmc_fresh_reward(&greedy, &theta, NULL, &f, NULL, NULL, &mean, &error), SOSMC_ENOMEM);
    s.code = 7;
    assert_int_equal(sosmc_lattice_energy(&model, &theta, &good, 2, U), SOSMC_EMODEL);
    assert_int_equal(sosmc_fresh_reward(&model, &theta, NULL, &f, NULL, NULL, &mean, &error), SOSMC_EMODEL);
    s.code = 0;
    f.step = 2.5; /* |1 - h| > 1: the chains run away, and past the largest double within 2000 steps */
    f.averaged = 2000;
    assert_int_equal(sosmc_fresh_reward(&model, &theta, NULL, &f, NULL, NULL, &mean, &error), SOSMC_ENUMERIC);
}

/* ---------------------------------------------------------------------------- fresh chains */

enum { CHAINS = 150, BURN_IN = 40, AVERAGED = 260, STEPS = BURN_IN + AVERAGED, SNAPSHOTS = 5, PATHS = 70 };
static const int64_t kept_steps[SNAPSHOTS] = {0, 1, 10, 130, STEPS};

typedef struct {
    double snapshot[SNAPSHOTS][CHAINS][2], path[PATHS][STEPS + 1][2], last[CHAINS][2];
    int64_t hit[CHAINS];
    double mean, error;
} journal;

static sosmc_fresh fresh_settings(int threads)
{
    return (sosmc_fresh){.chains = CHAINS,
                         .burn_in = BURN_IN,
                         .averaged = AVERAGED,
                         .step = 0.05,
                         .low = -3,
                         .high = 4,
                         .seed = 11,
                         .threads = threads};
}

static journal *run_chains(const sosmc_model *model, const double *theta, int threads)
{
    journal *j = calloc(1, sizeof *j);
    assert_non_null(j);
    sosmc_score reward = sosmc_half_plane_reward(&lower);
    sosmc_fresh f = fresh_settings(threads);
    sosmc_fresh_record record = {.snapshots = SNAPSHOTS,
                                 .at = kept_steps,
                                 .snapshot = &j->snapshot[0][0][0],
                                 .paths = PATHS,
                                 .path = &j->path[0][0][0],
                                 .hit = j->hit};
    assert_int_equal(sosmc_fresh_reward(model, theta, &reward, &f, &record, &j->last[0][0], &j->mean, &j->error),
                     SOSMC_OK);
    return j;
}

static void threads_change_no_bit(void **unused)
{
    sosmc_model model = sosmc_mixture_model(&mixture);
    model.tile = 24; /* 7 tiles */
    journal *one = run_chains(&model, theta_pi, 1);
    for (int threads = 2; threads <= 3; threads++) {
        journal *more = run_chains(&model, theta_pi, threads);
        assert_memory_equal(one, more, sizeof *one);
        free(more);
    }
    model.tile = 64;
    journal *wide = run_chains(&model, theta_pi, 2);
    assert_memory_equal(one, wide, sizeof *one);
    free(wide);
    free(one);
}

static int flat(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; gx && j < b->dim; j++)
        for (int i = 0; i < b->n; i++) gx[j * b->ld + i] = 0;
    return 0;
}

/* Without friction, and where nothing pushes, a chain goes straight on with the momentum it began with: N(0, mass). */
static void chains_with_momentum_begin_in_motion(void **unused)
{
    enum { MANY = 2000, MOVES = 3 };
    static double from[MANY], to[MANY];
    sosmc_model model = {.dim_x = 1, .dim_theta = 1, .energy = flat};
    sosmc_kernel kernel = sosmc_underdamped(0.5, 0, 4);
    sosmc_fresh f = {.chains = MANY, .averaged = MOVES, .step = 0.5, .low = -1, .high = 1, .seed = 3};
    double theta = 0, mean, error, square = 0;
    f.kernel = &kernel;
    f.start = from;
    assert_int_equal(sosmc_fresh_reward(&model, &theta, NULL, &f, NULL, to, &mean, &error), SOSMC_OK);
    for (int i = 0; i < MANY; i++) square += to[i] * to[i] / MANY;
    double expected = pow(MOVES * 0.5 / 4, 2) * 4; /* (moves step / mass)^2 mass */
    assert_true(fabs(square / expected - 1) < 5 * sqrt(2.0 / MANY));
    kernel.friction = -1;
    assert_int_equal(sosmc_fresh_reward(&model, &theta, NULL, &f, NULL, to, &mean, &error), SOSMC_EINVAL);
}

/* One chain after the other, with the callback and the named numbers: positions, hits and means. */
static void chains_follow_a_plain_loop(void **unused)
{
    sosmc_model model = sosmc_mixture_model(&mixture);
    journal *j = run_chains(&model, theta_pi, 2);
    _Alignas(64) double x[16] = {0}, gx[16], z[16], U[8], u[8], prep[8], work[8 * MODES];
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .dim = 2, .n = 1, .ld = 8};
    double total = 0, h = 0.05;
    assert_int_equal(model.prepare(model.self, theta_pi, prep), 0);
    for (int i = 0; i < CHAINS; i++) {
        int64_t hit = -1;
        int in_half = 0;
        b.first = i;
        for (int d = 0; d < 2; d++) {
            sosmc_uniforms((sosmc_rng){.seed = 11, .stream = SOSMC_STREAM_INIT}, (uint32_t)d, &b, u);
            x[8 * d] = -3 + 7 * u[0];
        }
        for (int t = 0; t <= STEPS; t++) {
            for (int d = 0; t && d < 2; d++) {
                if (d == 0) {
                    assert_int_equal(model.energy(model.self, theta_pi, &b, U, gx), 0);
                    sosmc_normals((sosmc_rng){.seed = 11, .step = (uint64_t)t, .stream = SOSMC_STREAM_MOVE}, &b, z);
                }
                x[8 * d] = fma(sqrt(2 * h), z[8 * d], fma(-h, gx[8 * d], x[8 * d]));
            }
            if (hit < 0 && x[8] < 0) hit = t;
            if (t > BURN_IN && x[8] < 0) in_half++;
            if (i < PATHS) assert_true(j->path[i][t][0] == x[0] && j->path[i][t][1] == x[8]);
            for (int k = 0; k < SNAPSHOTS; k++)
                if (kept_steps[k] == t) assert_true(j->snapshot[k][i][0] == x[0] && j->snapshot[k][i][1] == x[8]);
        }
        assert_true(j->last[i][0] == x[0] && j->last[i][1] == x[8]);
        assert_int_equal(j->hit[i], hit);
        total += (double)in_half / AVERAGED;
    }
    assert_near(j->mean, total / CHAINS, 1e-14);
    free(j);
}

/* A chain seen in the half-plane at a snapshot has hit it by then; one with a hit at 0 started there. */
static void hits_agree_with_snapshots(void **unused)
{
    sosmc_model model = sosmc_mixture_model(&mixture);
    journal *j = run_chains(&model, theta_pi, 2);
    int never = 0, later = 0;
    for (int i = 0; i < CHAINS; i++) {
        int64_t hit = j->hit[i];
        assert_int_equal(hit == 0, j->snapshot[0][i][1] < 0);
        for (int k = 0; k < SNAPSHOTS; k++)
            if (j->snapshot[k][i][1] < 0) assert_true(hit >= 0 && hit <= kept_steps[k]);
        for (int64_t t = 0; i < PATHS && t <= (hit < 0 ? STEPS : hit); t++)
            assert_int_equal(j->path[i][t][1] < 0, t == hit);
        never += hit < 0;
        later += hit > 0;
    }
    assert_true(later > 10 && never < CHAINS / 2);
    free(j);
}

/* Two models with one seed share starts and noise; another seed shares nothing. */
static void common_random_numbers(void **unused)
{
    const toy_gauss unit = {.dim = 2, .variance = 1};
    const double here[2] = {0, 0}, there[2] = {1, -2};
    sosmc_model model = toy_gauss_model(&unit), other = sosmc_mixture_model(&mixture);
    journal *a = run_chains(&model, here, 1), *b = run_chains(&model, there, 1), *c = run_chains(&other, theta_pi, 1);
    assert_memory_equal(a->snapshot[0], b->snapshot[0], sizeof a->snapshot[0]);
    assert_memory_equal(a->snapshot[0], c->snapshot[0], sizeof a->snapshot[0]);
    double gap = 1 - pow(1 - 0.05, STEPS); /* linear dynamics with the same noise: the difference has none */
    for (int i = 0; i < CHAINS; i++) {
        assert_near(b->last[i][0] - a->last[i][0], gap, 1e-12);
        assert_near(b->last[i][1] - a->last[i][1], -2 * gap, 1e-12);
        for (int d = 0; d < 2; d++) assert_true(a->snapshot[0][i][d] > -3 && a->snapshot[0][i][d] <= 4);
    }
    sosmc_fresh f = fresh_settings(1);
    double few[10][2], reseeded[10][2];
    f.chains = 10;
    assert_int_equal(sosmc_fresh_reward(&model, here, NULL, &f, NULL, &few[0][0], NULL, NULL), SOSMC_OK);
    assert_memory_equal(few, a->last, sizeof few);
    f.seed = 12;
    assert_int_equal(sosmc_fresh_reward(&model, here, NULL, &f, NULL, &reseeded[0][0], NULL, NULL), SOSMC_OK);
    for (int i = 0; i < 10; i++) assert_true(few[i][0] != reseeded[i][0] && few[i][1] != reseeded[i][1]);
    free(a);
    free(b);
    free(c);
}

/* On N(mu, v) the chain is autoregressive with factor r = 1 - h/v and variance v / (1 - h/(2v)). */
static void chains_of_a_gaussian(void **unused)
{
    const toy_gauss target = {.dim = 2, .variance = 0.8};
    const double mu[2] = {0.4, 0.7}, h = 0.4, v = 0.8, r = 1 - h / v, stationary = v / (1 - h / (2 * v));
    const toy_reward sum_of_x = {.slope = 1};
    const sosmc_model model = toy_gauss_model(&target);
    const sosmc_score linear = toy_reward_score(&sum_of_x), indicator = sosmc_half_plane_reward(&lower);
    enum { T = 64, M = 2000 };
    const sosmc_fresh f = {
        .chains = M, .burn_in = 40, .averaged = T, .step = h, .low = -6, .high = 6, .seed = 5, .threads = 2};
    double mean, error;
    assert_int_equal(sosmc_fresh_reward(&model, mu, &linear, &f, NULL, NULL, &mean, &error), SOSMC_OK);
    double spread = (1 + r) / (1 - r) - 2 * r * (1 - pow(r, T)) / (T * (1 - r) * (1 - r));
    double exact_error = sqrt(2 * stationary * spread / T / M);
    assert_near(mean, mu[0] + mu[1], 4 * exact_error);
    assert_near(error, exact_error, 4 * exact_error / sqrt(2.0 * M));

    assert_int_equal(sosmc_fresh_reward(&model, mu, &indicator, &f, NULL, NULL, &mean, &error), SOSMC_OK);
    double expected = normal_cdf(-mu[1] / sqrt(stationary)), without_bias = normal_cdf(-mu[1] / sqrt(v));
    assert_near(mean, expected, 4 * error);
    assert_true(fabs(mean - without_bias) > 4 * error); /* sharp enough to see the bias of the step */
}

static int stop_now(void *calls) { return ++*(int *)calls > 1; }

static void settings_of_chains_are_checked(void **unused)
{
    const toy_gauss unit = {.dim = 2, .variance = 1};
    const double theta[2] = {0, 0};
    const sosmc_model model = toy_gauss_model(&unit);
    const sosmc_score reward = sosmc_half_plane_reward(&lower);
    const int64_t twice[2] = {3, 3}, beyond[2] = {3, STEPS + 1};
    double mean = 0, error = 0, room[4 * CHAINS] = {0};
    int64_t hit[CHAINS];
    int calls = 0;
    sosmc_fresh good = fresh_settings(1), f;
#define RUN(score, record) sosmc_fresh_reward(&model, theta, score, &f, record, NULL, &mean, &error)
#define REFUSED(setting) (f = good, f.setting, assert_int_equal(RUN(&reward, NULL), SOSMC_EINVAL))
    REFUSED(chains = 0);
    REFUSED(burn_in = -1);
    REFUSED(averaged = -1);
    REFUSED(averaged = INT64_MAX);
    REFUSED(step = 0);
    REFUSED(step = NAN);
    REFUSED(low = 5);
    REFUSED(high = INFINITY);
    REFUSED(threads = 1025);
    f = good;
    assert_int_equal(RUN(&reward, (&(sosmc_fresh_record){.snapshots = 2, .at = twice, .snapshot = room})),
                     SOSMC_EINVAL);
    assert_int_equal(RUN(&reward, (&(sosmc_fresh_record){.snapshots = 2, .at = beyond, .snapshot = room})),
                     SOSMC_EINVAL);
    assert_int_equal(RUN(&reward, (&(sosmc_fresh_record){.paths = CHAINS + 1, .path = room})), SOSMC_EINVAL);
    assert_int_equal(RUN(NULL, (&(sosmc_fresh_record){.hit = hit})), SOSMC_EINVAL);
    assert_int_equal(RUN(&reward, (&(sosmc_fresh_record){.stop = stop_now, .stop_ctx = &calls})), SOSMC_STOPPED);
    assert_true(calls > 1);
    assert_int_equal(RUN(NULL, NULL), SOSMC_OK);
    assert_true(isnan(mean) && isnan(error));
    f.averaged = 0;
    mean = error = 0;
    assert_int_equal(RUN(&reward, NULL), SOSMC_OK);
    assert_true(isnan(mean) && isnan(error));
    f = good;
    f.chains = 1;
    assert_int_equal(RUN(&reward, NULL), SOSMC_OK);
    assert_true(isfinite(mean) && isnan(error));
#undef REFUSED
#undef RUN
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_z_and_divergences_of_mixtures),
        cmocka_unit_test(half_planes_want_an_even_number_of_nodes),
        cmocka_unit_test(the_optimum_for_an_indicator),
        cmocka_unit_test(the_optimum_from_the_mass_alone),
        cmocka_unit_test(the_excess_vanishes_at_the_optimum),
        cmocka_unit_test(extreme_energies_stay_in_range),
        cmocka_unit_test(what_is_not_given_is_not_a_number),
        cmocka_unit_test(the_edge_tells_of_a_small_box),
        cmocka_unit_test(nodes_lie_where_they_should),
        cmocka_unit_test(energies_are_what_the_callback_says),
        cmocka_unit_test(batches_keep_the_rules),
        cmocka_unit_test(failures_have_their_status),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(chains_with_momentum_begin_in_motion),
        cmocka_unit_test(chains_follow_a_plain_loop),
        cmocka_unit_test(hits_agree_with_snapshots),
        cmocka_unit_test(common_random_numbers),
        cmocka_unit_test(chains_of_a_gaussian),
        cmocka_unit_test(settings_of_chains_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
