/* test_divide.c: a cliff in an energy that is narrower than the cells of a lattice, as networks have that were tuned towards a reward:
 * sums over lattices of several widths agree and are wrong, and divided cells see it. The second coordinate is independent of the first,
 * so that a fine sum along one axis is the exact answer. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>

static const double BETA = 0.25, REACH = 8;
static const double down[2] = {0, -1};
static const sosmc_half_plane lower = {.dim = 2, .normal = down};

/* theta: how high the cliff is, where it stands, how wide it is. */
static double along(const double *theta, double y)
{
    double z = (y - theta[1]) / theta[2];
    return 0.5 * y * y + theta[0] / (1 + exp(-z));
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *g)
{
    if (g) return 1; /* nobody needs it */
    for (int i = 0; i < b->n; i++) U[i] = 0.5 * b->x[i] * b->x[i] + along(theta, b->x[b->ld + i]);
    return 0;
}

static const sosmc_model cliff = {.dim_theta = 3, .dim_x = 2, .energy = energy};
static const double tuned[3] = {4, 0.02, 0.004}, reference[3] = {0, 0, 1};

/* The same by many points along the second axis alone. */
static void fine(double *reward, double *kl, double *excess)
{
    enum { POINTS = 2000000 };
    double z[3] = {0, 0, 0}, mean[3] = {0, 0, 0}; /* of the tuned, the reference, the best */
    for (int i = 0; i < POINTS; i++) {
        double y = REACH * (2 * (i + 0.5) / POINTS - 1), U = along(tuned, y), ref = along(reference, y), R = y < 0;
        double p = exp(-U);
        z[0] += p;
        z[1] += exp(-ref);
        z[2] += exp(-ref + R / BETA);
        mean[0] += p * R;
        mean[1] += p * (ref - U);
        mean[2] += p * (ref - R / BETA - U);
    }
    *reward = mean[0] / z[0];
    *kl = mean[1] / z[0] + log(z[1] / z[0]);
    *excess = BETA * (mean[2] / z[0] + log(z[2] / z[0]));
}

static sosmc_exact plain(int nodes)
{
    size_t n = (size_t)nodes * (size_t)nodes;
    double *U = malloc(3 * n * sizeof *U);
    sosmc_lattice l = {.nodes = nodes, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    sosmc_score score = sosmc_half_plane_reward(&lower);
    sosmc_exact x;
    assert_non_null(U);
    assert_int_equal(sosmc_lattice_energy(&cliff, tuned, &l, 1, U), SOSMC_OK);
    assert_int_equal(sosmc_lattice_energy(&cliff, reference, &l, 1, U + n), SOSMC_OK);
    assert_int_equal(sosmc_lattice_score(&score, &l, U + 2 * n), SOSMC_OK);
    sosmc_lattice_exact(&l, U, U + n, U + 2 * n, BETA, &x);
    free(U);
    return x;
}

static sosmc_exact divided(int nodes, int threads)
{
    sosmc_lattice l = {.nodes = nodes, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    sosmc_score score = sosmc_half_plane_reward(&lower);
    sosmc_exact x;
    assert_int_equal(sosmc_plane_exact(&cliff, tuned, reference, &score, BETA, &l, threads, &x), SOSMC_OK);
    return x;
}

static void cliffs_are_seen(void **state)
{
    double reward, kl, excess;
    fine(&reward, &kl, &excess);
    sosmc_exact coarse = plain(200), coarser = plain(100), seen = divided(200, 1), less = divided(100, 1);
    /* Two lattices agree, and are wrong ten times as much. */
    assert_true(fabs(coarse.reward - coarser.reward) < 0.1 * fabs(coarse.reward - reward));
    assert_true(fabs(coarse.reward - reward) > 0.009);
    /* What two lattices with divided cells say of their error is true. */
    assert_true(fabs(seen.reward - reward) < 0.1 * fabs(coarse.reward - reward));
    assert_true(fabs(seen.reward - reward) < fabs(seen.reward - less.reward));
    assert_true(fabs(seen.kl - kl) < fmax(fabs(seen.kl - less.kl), 1e-4));
    assert_true(fabs(seen.excess - excess) < fmax(fabs(seen.excess - less.excess), 1e-4));
    assert_true(fabs(seen.excess - (seen.loss - seen.best_loss)) < 1e-9);
}

/* A reward that jumps along a line between two lines of nodes, some way behind a line of nodes; the density does not bend there. With points in the
 * middles of the parts every divided cell would be wrong by half a part, and all of them in the same direction. */
static void jumps_of_a_reward_are_seen(void **state)
{
    enum { NODES = 200 };
    static const double means[2] = {0, 0}, theta[1] = {0}, up[2] = {0, 1};
    const double h = 2 * REACH / (NODES - 1), where = h * 1.49 / 8;
    const sosmc_mixture m = {.dim = 2, .components = 1, .means = means, .variance = 1};
    const sosmc_half_plane above = {.dim = 2, .normal = up, .offset = where};
    sosmc_model model = sosmc_mixture_model(&m);
    sosmc_score score = sosmc_half_plane_reward(&above);
    sosmc_lattice l = {.nodes = NODES, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    sosmc_exact x;
    assert_int_equal(sosmc_plane_exact(&model, theta, NULL, &score, 0, &l, 1, &x), SOSMC_OK);
    double exact = 0.5 * erfc(where / sqrt(2)), part = h / 8 / sqrt(2 * M_PI);
    assert_true(fabs(exact - 0.5) > 0.9 * part); /* a plain sum has 0.5 */
    print_message("reward %.6f, exactly %.6f; half a part is worth %.6f\n", x.reward, exact, 0.5 * part);
    assert_true(fabs(x.reward - exact) < 0.2 * part);
}

/* A ridge with straight flanks: exp(-x^2 / 2) sech(z)^a, z = (y - y0 - slope x) / w; theta is a, y0, slope, w. */
static int ridge_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *g)
{
    if (g) return 1;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i], z = fabs((b->x[b->ld + i] - theta[1] - theta[2] * x) / theta[3]);
        U[i] = 0.5 * x * x + theta[0] * (z + log1p(exp(-2 * z)) - log(2));
    }
    return 0;
}

static sosmc_exact over_ridge(const double *theta, int nodes, double reach)
{
    const sosmc_model ridge = {.dim_theta = 4, .dim_x = 2, .energy = ridge_energy};
    sosmc_lattice l = {.nodes = nodes, .low = {-reach, -reach}, .high = {reach, reach}};
    sosmc_exact x;
    assert_int_equal(sosmc_plane_exact(&ridge, theta, NULL, NULL, 0, &l, 1, &x), SOSMC_OK);
    return x;
}

/* The top bends, the flanks do not: divided cells end where a flank still has mass, unless its cells are divided too. What other lattices say of the
 * error is true then. */
static void flanks_of_a_ridge_are_seen(void **state)
{
    static const double powers[] = {0.3, 1, 2}, widths[] = {0.1, 0.3, 0.5, 1}, slopes[] = {0, 0.02, 0.7};
    enum { NODES = 600 };
    for (int k = 0; k < 36; k++) {
        const double theta[4] = {powers[k % 3], 0.013, slopes[k / 12], widths[k / 3 % 4] * 2 * REACH / 299};
        double exact = log(sqrt(2 * M_PI) * theta[3] * sqrt(M_PI)) + lgamma(theta[0] / 2) - lgamma(theta[0] / 2 + 0.5);
        double told = over_ridge(theta, NODES, REACH).logz, other = over_ridge(theta, NODES - 2, REACH - 0.25).logz;
        double error = fmax(fabs(told - other), fabs(told - over_ridge(theta, NODES / 2, REACH).logz));
        if (!(fabs(told - exact) <= 3 * error + 1e-6) || error > 0.02)
            fail_msg("power %g, slope %g, width %g: log Z %.5f +- %.5f, exactly %.5f", theta[0], theta[2], theta[3],
                     told, error, exact);
    }
}

/* A box that holds the model may be too small for the reference, without which there is no divergence. */
static void the_edge_is_that_of_the_widest_density(void **state)
{
    static const double narrow[4] = {6, 0, 0, 0.5}, wide[4] = {0.3, 0, 0, 0.5};
    const sosmc_model ridge = {.dim_theta = 4, .dim_x = 2, .energy = ridge_energy};
    sosmc_lattice l = {.nodes = 200, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    sosmc_exact alone, beside;
    assert_int_equal(sosmc_plane_exact(&ridge, narrow, NULL, NULL, 0, &l, 1, &alone), SOSMC_OK);
    assert_int_equal(sosmc_plane_exact(&ridge, narrow, wide, NULL, 0, &l, 1, &beside), SOSMC_OK);
    assert_true(alone.edge < 1e-12 && beside.edge > 1e-4);
}

static void smooth_densities_stay_as_they_are(void **state)
{
    static const double means[2] = {0.5, -0.3}, theta[1] = {0};
    const sosmc_mixture m = {.dim = 2, .components = 1, .means = means, .variance = 1};
    sosmc_model model = sosmc_mixture_model(&m);
    sosmc_lattice l = {.nodes = 100, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    sosmc_exact x;
    assert_int_equal(sosmc_plane_exact(&model, theta, NULL, NULL, 0, &l, 1, &x), SOSMC_OK);
    assert_true(fabs(x.logz - sosmc_mixture_logz(&m)) < 1e-6);
    assert_true(isnan(x.reward) && isnan(x.kl) && x.edge < 1e-9);
}

static void threads_change_nothing(void **state)
{
    sosmc_exact one = divided(90, 1), three = divided(90, 3);
    assert_memory_equal(&one, &three, sizeof one);
}

static int wrong_reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = fabs(b->x[b->ld + i]) < 0.02 ? NAN : 0;
    return 0;
}

/* A reward that is a number at the nodes and none between them. */
static void what_is_refused(void **state)
{
    const sosmc_score score = {.eval = wrong_reward};
    sosmc_lattice l = {.nodes = 100, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    sosmc_exact x;
    assert_int_equal(sosmc_plane_exact(&cliff, tuned, NULL, &score, 0, &l, 1, &x), SOSMC_ENUMERIC);
    l.nodes = 1;
    assert_int_equal(sosmc_plane_exact(&cliff, tuned, NULL, NULL, 0, &l, 1, &x), SOSMC_EINVAL);
    l.nodes = 100;
    sosmc_model line = cliff;
    line.dim_x = 1;
    assert_int_equal(sosmc_plane_exact(&line, tuned, NULL, NULL, 0, &l, 1, &x), SOSMC_EINVAL);
    assert_true(sosmc_plane_memory(&l, 1, 1) > sosmc_plane_memory(&l, 0, 0) && sosmc_plane_memory(&l, 0, 0) > 80000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cliffs_are_seen),
                                       cmocka_unit_test(jumps_of_a_reward_are_seen),
                                       cmocka_unit_test(flanks_of_a_ridge_are_seen),
                                       cmocka_unit_test(the_edge_is_that_of_the_widest_density),
                                       cmocka_unit_test(smooth_densities_stay_as_they_are),
                                       cmocka_unit_test(threads_change_nothing),
                                       cmocka_unit_test(what_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
