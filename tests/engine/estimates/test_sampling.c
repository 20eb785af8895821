/* test_sampling.c: runs that optimise nothing. Tempering from a normal law to a mixture whose log Z and masses are known;
 * plain sampling at a fixed theta; boxes; clamped moves.
 *
 * What is random is compared by tests/support/stats.h, with negative controls (docs/statistics.md). Z_hat / Z has mean 1 and
 * Z_hat / Z times (weighted mass of a mode - its mass) has mean 0 exactly, at any number of particles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "stats.h"

enum { CLOUD = 100, N = 500, KERNELS = 2, PLANNED = 9 };
static int comparisons;

/* Two modes that no chain leaves: masses 0.8 and 0.2, nine standard deviations apart. */
static const double means[4] = {-4.5, 0, 4.5, 1}, theta[2] = {1.3862943611198906, 0};
static const sosmc_mixture mixture = {.dim = 2, .components = 2, .means = means, .variance = 1};

/* ---------------------------------------------------------------------------- tempering */

enum { OF_Z, OF_MASS, ESTIMATES };
static const char *const estimate_name[ESTIMATES] = {"Z", "mass of the left mode"};
static const double expected[ESTIMATES] = {1, 0};

/* One way from N(0, 16 I) to the mixture. */
typedef struct {
    sosmc_kernel kernel;
    double start_sd; /* of the draws it begins with; their density is taken for that of 4 */
    int weighted;
} way;

static way way_of(int kernel)
{
    return (way){.kernel = kernel ? sosmc_ula(0.02) : sosmc_mala(0.5), .start_sd = 4, .weighted = 1};
}

static void read_cloud(const void *ctx, const sosmc *s, const double *before, double *estimate)
{
    const way *w = ctx;
    double x[2 * CLOUD], logw[CLOUD], left = 0;
    assert_true(sosmc_theta(s)[0] == 1);
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    for (int i = 0; i < CLOUD; i++) left += x[2 * i] < 0 ? exp(logw[i]) : 0;
    estimate[OF_Z] = w->weighted ? exp(sosmc_last(s)->logz - sosmc_mixture_logz(&mixture)) : 1;
    estimate[OF_MASS] = estimate[OF_Z] * (left - 0.8);
}

/* Draws of one law with the density of another. */
typedef struct {
    sosmc_source drawn, believed;
} two_laws;

static int draw_one(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const two_laws *l = self;
    return l->drawn.draw(l->drawn.self, rng, b, x);
}

static int density_of_the_other(const void *self, const sosmc_batch *b, double *lq)
{
    const two_laws *l = self;
    return l->believed.logpdf(l->believed.self, b, lq);
}

static void temper(const way *w, uint64_t seed, stats_tally tally[ESTIMATES])
{
    const double zero[2] = {0, 0}, believed[4] = {0.25, 0, 0, 0.25},
                 drawn[4] = {1 / w->start_sd, 0, 0, 1 / w->start_sd};
    const sosmc_gaussian base = {.dim = 2, .mean = zero, .factor = believed, .variance = 1},
                         start = {.dim = 2, .mean = zero, .factor = drawn, .variance = 1};
    const two_laws laws = {.drawn = sosmc_gaussian_source(&start), .believed = sosmc_gaussian_source(&base)};
    const sosmc_tempering t = {
        .model = sosmc_mixture_model(&mixture), .theta = theta, .base_sd = 4, .steps = 60, .power = 2};
    sosmc_problem p = {.model = sosmc_tempered_model(&t),
                       .objective = sosmc_sampling((sosmc_score){0}),
                       .init = {.self = &laws, .draw = draw_one, .logpdf = density_of_the_other}};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = w->weighted ? sosmc_scheme_sosmc(CLOUD) : sosmc_scheme_unweighted(CLOUD);
    cfg.scheme.ess_min = 0.5;
    cfg.kernel = w->kernel;
    cfg.optimiser = sosmc_tempering_path(&t);
    cfg.seed = seed;
    stats_run(&p, &cfg, 70, stats_by_tier(400, 20000, 400), read_cloud, w, ESTIMATES, tally);
}

static void tempering_finds_z_and_masses(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < KERNELS; k++) {
        stats_tally tally[ESTIMATES];
        way w = way_of(k);
        temper(&w, 1000000 * (uint64_t)(k + 1), tally);
        for (int e = 0; e < ESTIMATES; e++)
            (void)stats_compare(&ledger, &tally[e], expected[e], "%s, %s", estimate_name[e], w.kernel.name);
    }
    comparisons += stats_close(&ledger);
}

/* The weight of a move without the densities of the move itself. */
static int potentials_alone(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    for (int i = 0; i < m->b.n && !rc; i++) m->logG[i] = m->U[i] - m->U_new[i];
    return rc;
}

static void must_notice(way w, int estimate, const char *what)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[ESTIMATES];
    temper(&w, 9000000, tally);
    stats_must_notice(&ledger, &tally[estimate], expected[estimate], what);
}

static void wrong_tempering_is_noticed(void **state)
{
    way wide[KERNELS], unweighted[KERNELS], w;
    for (int k = 0; k < KERNELS; k++) {
        wide[k] = unweighted[k] = way_of(k);
        wide[k].start_sd = 5;
        unweighted[k].weighted = 0;
    }
    must_notice(wide[0], OF_Z, "MALA, a start wider than its density says, Z");
    must_notice(wide[1], OF_Z, "ULA, a start wider than its density says, Z");
    must_notice(unweighted[0], OF_MASS, "MALA without weights, mass of the left mode");
    must_notice(unweighted[1], OF_MASS, "ULA without weights, mass of the left mode");
    w = way_of(0);
    w.kernel = sosmc_ula(0.5);
    w.kernel.invariant = 1;
    must_notice(w, OF_Z, "MALA that never rejects, Z");
    w = way_of(1);
    w.kernel.step = potentials_alone;
    must_notice(w, OF_Z, "ULA weight of potentials alone, Z");
}

/* dU_t/dt against differences of U_t. */
static void tempered_gradient(void **state)
{
    _Alignas(64) double x[16], U[3][8], gx[16], c[8], g = 0;
    _Alignas(64) char work[4096], prep[4096];
    sosmc_tempering tempering = {
        .model = sosmc_mixture_model(&mixture), .theta = theta, .base_sd = 3, .steps = 5, .power = 1};
    sosmc_model m = sosmc_tempered_model(&tempering);
    assert_true(m.work * 8 <= sizeof work && m.prep <= sizeof prep);
    for (int i = 0; i < 16; i++) x[i] = sin(3.0 * i) * 4;
    for (int i = 0; i < 8; i++) c[i] = cos(i);
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .dim = 2, .n = 8, .ld = 8};
    const double t[3] = {0.3, 0.31, 0.29};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(m.prepare(m.self, &t[k], prep), 0);
        assert_int_equal(m.energy(m.self, &t[k], &b, U[k], gx), 0);
    }
    assert_int_equal(m.grad_theta(m.self, t, &b, c, &g), 0);
    double slope = 0;
    for (int i = 0; i < 8; i++) slope += c[i] * (U[1][i] - U[2][i]) / 0.02;
    assert_true(fabs(g - slope) < 1e-9 * (1 + fabs(g)));
}

static int half(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] > 0;
    return 0;
}

/* ---------------------------------------------------------------------------- boxes */

static const double low[2] = {-1, 2}, high[2] = {1, 3};
static const sosmc_box box = {.dim = 2, .low = low, .high = high};

/* A cloud that the source filled, as places in the box from 0 to 1. */
static void add_start(sosmc_source source, uint64_t seed, stats_cube *cube)
{
    double x[2 * N];
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_sampling((sosmc_score){0}),
                       .init = source,
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_unweighted(N);
    cfg.seed = seed;
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    for (int i = 0; i < N; i++) {
        double u[2];
        for (int j = 0; j < 2; j++) {
            assert_true(x[2 * i + j] > low[j] && x[2 * i + j] <= high[j]);
            u[j] = (x[2 * i + j] - low[j]) / (high[j] - low[j]);
        }
        stats_cube_add(cube, u);
    }
    sosmc_free(s);
}

static void boxes_are_filled_evenly(void **state)
{
    const double shorter[2] = {1, 2.8}; /* where the second side of a wrong box ends */
    const sosmc_box wrong = {.dim = 2, .low = low, .high = shorter};
    stats_ledger ledger = stats_open(PLANNED);
    stats_cube right_cube = {.dim = 2}, wrong_cube = {.dim = 2};
    for (int r = 0; r < stats_by_tier(1, 400, 1); r++) {
        add_start(sosmc_box_source(&box), stats_seed(100 + (uint64_t)r), &right_cube);
        add_start(sosmc_box_source(&wrong), stats_seed(100 + (uint64_t)r), &wrong_cube);
    }
    stats_note_cube(&ledger, &right_cube, "box");
    comparisons += stats_close(&ledger);
    stats_must_notice_cube(&ledger, &wrong_cube, "a box of which one side is short by a fifth");
}

/* theta stays to the last bit, whatever the optimiser; the cloud moves, and the score is logged. */
static void sampling_leaves_theta(void **state)
{
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_sampling((sosmc_score){.eval = half}),
                       .init = sosmc_box_source(&box),
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    double before[2 * N], after[2 * N];
    cfg.scheme = sosmc_scheme_unweighted(N);
    cfg.kernel = sosmc_ula(0.05);
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, before, NULL), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 50, NULL, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, after, NULL), SOSMC_OK);
    assert_memory_equal(sosmc_theta(s), theta, sizeof theta);
    assert_memory_not_equal(before, after, sizeof after);
    assert_true(sosmc_last(s)->mean_score > 0 && sosmc_last(s)->mean_score < 1);
    assert_true(sosmc_last(s)->grad_norm == 0);
    sosmc_free(s);
}

/* Without the clamp a normal law of variance 1 leaves [-0.5, 0.5]; with it, never, and some particles stand at the edge. */
static void clamped_moves_stay_inside(void **state)
{
    const double from[2] = {-0.5, -0.5}, to[2] = {0.5, 0.5};
    const sosmc_box inside = {.dim = 2, .low = from, .high = to};
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_sampling((sosmc_score){0}),
                       .init = sosmc_box_source(&inside),
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    double x[2 * N];
    int edge = 0;
    cfg.scheme = sosmc_scheme_pcd(N, 2 * N, 20);
    cfg.kernel = sosmc_ula_clamped(0.05, 0.5);
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
    assert_int_equal(sosmc_run(s, 5, NULL, NULL), SOSMC_OK);
    assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
    for (int i = 0; i < 2 * N; i++) {
        assert_true(fabs(x[i]) <= 0.5);
        edge += fabs(x[i]) == 0.5;
    }
    assert_true(edge > 0);
    sosmc_free(s);
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tempering_finds_z_and_masses),
        cmocka_unit_test(wrong_tempering_is_noticed),
        cmocka_unit_test(tempered_gradient),
        cmocka_unit_test(boxes_are_filled_evenly),
        cmocka_unit_test(sampling_leaves_theta),
        cmocka_unit_test(clamped_moves_stay_inside),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
