/* test_learn.c: the search for networks: the same bits on threads, with any vector code and across a stop; numbers that quadrature
 * confirms; modes between which nothing walks keep their shares; what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/analysis.h>
#include <sosmc/models.h>
#include <sosmc/networks.h>
#include <sosmc/solve.h>

#include "assertions.h"
#include "memory_stream.h"

enum { MOST_DIM = 8, WIDTH = 16, ROWS = 1000 };

/* Instrumented, fewer updates are compared, and numbers, which the ordinary tests see, are not measured. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COMPARED = 12, MEASURED = 0 };
static const int64_t LAST = 60;
#else
enum { COMPARED = 60, MEASURED = 1 };
static const int64_t LAST = INT64_MAX;
#endif

/* ---------------------------------------------------------------------------- a network and its points */

typedef struct {
    int width[2];
    sosmc_mlp mlp;
    sosmc_rows rows;
    sosmc_gaussian base;
    double mean[MOST_DIM], factor[MOST_DIM * MOST_DIM], point[ROWS * MOST_DIM], centre[3 * MOST_DIM];
    double *theta;
    double law; /* mean of minus the log-density of the points' law, at the points */
    sosmc_problem problem;
} network;

static const double SD = 0.5;

/* Points of three normal laws of equal weight, far apart. */
static void draw_points(network *n, int dim, double far)
{
    double z[MOST_DIM];
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < dim; j++) n->centre[k * dim + j] = far * (((k + j) % 3) - 1);
    n->law = 0;
    for (int i = 0; i < ROWS; i++) {
        sosmc_batch b = {.simd = sosmc_simd_best(), .dim = dim, .n = 1, .ld = 1, .first = i};
        double density = 0, *x = n->point + (ptrdiff_t)i * dim;
        sosmc_normals((sosmc_rng){.seed = 8, .stream = SOSMC_STREAM_USER}, &b, z);
        for (int j = 0; j < dim; j++) x[j] = n->centre[i % 3 * dim + j] + SD * z[j];
        for (int k = 0; k < 3; k++) {
            double square = 0;
            for (int j = 0; j < dim; j++) square += pow((x[j] - n->centre[k * dim + j]) / SD, 2);
            density += exp(-0.5 * square) / 3 * pow(2 * 3.14159265358979324 * SD * SD, -0.5 * dim);
        }
        n->law -= log(density) / ROWS;
    }
}

static void open_network(network *n, int dim, double far)
{
    *n = (network){.width = {WIDTH, WIDTH}};
    draw_points(n, dim, far);
    n->mlp = (sosmc_mlp){.inputs = dim, .hidden = 2, .width = n->width, .base_sd = far};
    for (int j = 0; j < dim; j++) n->factor[j * dim + j] = 1 / far; /* of the precision */
    n->base = (sosmc_gaussian){.dim = dim, .mean = n->mean, .factor = n->factor};
    n->rows = (sosmc_rows){.data = n->point, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
    n->problem.model = sosmc_mlp_model(&n->mlp);
    n->theta = calloc((size_t)n->problem.model.dim_theta, sizeof *n->theta);
    assert_non_null(n->theta);
    sosmc_mlp_init(&n->mlp, 0.25, 3, n->theta);
    n->problem.theta0 = n->theta;
    n->problem.init = sosmc_gaussian_source(&n->base);
    n->problem.objective = sosmc_likelihood(sosmc_rows_source(&n->rows), ROWS);
    assert_true(n->problem.model.dim_theta > SOSMC_SOLVE_PARAMETERS);
}

/* ---------------------------------------------------------------------------- bits */

static sosmc_solver *create(const network *n, sosmc_solve_options o)
{
    sosmc_solver *s;
    o.particles = 256;
    assert_int_equal(sosmc_solver_create(&s, &n->problem, &o), SOSMC_OK);
    return s;
}

static uint64_t steps_on(sosmc_solver *s, int64_t updates)
{
    while (sosmc_solver_info(s)->updates < updates && sosmc_solver_info(s)->phase != SOSMC_PHASE_DONE)
        assert_int_equal(sosmc_solver_step(s), SOSMC_OK);
    return sosmc_solver_hash(s);
}

static void nothing_depends_on_threads_or_levels(void **state)
{
    static const char *const level[] = {"plain", "avx2", "avx512"};
    for (int dim = 2; dim <= 4; dim += 2) { /* a walk; moves along the slope */
        network n;
        open_network(&n, dim, 2);
        sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 1});
        uint64_t hash = steps_on(s, COMPARED);
        sosmc_solver_free(s);
        for (int k = 0; k < 5; k++) {
            sosmc_solve_options o = {.seed = 1, .threads = k < 2 ? k + 2 : 1};
            if (k >= 2) o.simd = sosmc_simd_named(level[k - 2]);
            s = create(&n, o);
            assert_true(steps_on(s, COMPARED) == hash);
            sosmc_solver_free(s);
        }
        s = create(&n, (sosmc_solve_options){.seed = 2}); /* and what is compared depends on the seed */
        assert_true(steps_on(s, COMPARED) != hash);
        sosmc_solver_free(s);
        free(n.theta);
    }
}

static void a_stop_changes_nothing(void **state)
{
    static const int64_t stops[] = {0, 1, 50, 149};
    network n;
    open_network(&n, 2, 2);
    sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 1});
    uint64_t end = steps_on(s, LAST);
    sosmc_solver_free(s);
    for (size_t k = 0; k < sizeof stops / sizeof *stops && stops[k] < LAST; k++) {
        memory bytes = {.used = 0};
        s = create(&n, (sosmc_solve_options){.seed = 1});
        if (k == 0) assert_int_equal(sosmc_solver_step(s), SOSMC_OK); /* amid the temperatures */
        (void)steps_on(s, stops[k]);
        assert_int_equal(sosmc_solver_save(s, memory_put, &bytes), SOSMC_OK);
        sosmc_solver *again = create(&n, (sosmc_solve_options){.seed = 1, .threads = 2});
        assert_int_equal(sosmc_solver_load(again, memory_get, &bytes), SOSMC_OK);
        assert_true(sosmc_solver_hash(again) == sosmc_solver_hash(s));
        assert_true(steps_on(again, LAST) == end);
        sosmc_solver_free(again);
        sosmc_solver_free(s);
        free(bytes.bytes);
    }
    free(n.theta);
}

/* ---------------------------------------------------------------------------- numbers */

static void quadrature_confirms_the_numbers(void **state)
{
    if (!MEASURED) skip();
    network n;
    sosmc_solution r;
    open_network(&n, 2, 2);
    assert_int_equal(sosmc_solve(&r, &n.problem, &(sosmc_solve_options){.particles = 1024, .seed = 4}), SOSMC_OK);
    const sosmc_judgement *j = &r.judgement;
    assert_true(r.finished && j->verdict.status == SOSMC_CONVERGED && j->verdict.reasons == 0);
    assert_null(j->theta_mc_error);
    assert_contains(j->why_no_mc_error, "too many for the second derivatives");
    sosmc_lattice l = {.nodes = 300, .low = {-14, -14}, .high = {14, 14}};
    double *U = malloc(sizeof *U * 300 * 300);
    sosmc_exact exact;
    assert_non_null(U);
    assert_int_equal(sosmc_lattice_energy(&n.problem.model, j->theta, &l, 1, U), SOSMC_OK);
    sosmc_lattice_exact(&l, U, NULL, NULL, 0, &exact);
    print_message("log Z %.4f +- %.4f, by quadrature %.4f; loss %.4f, of the law %.4f\n", j->log_z.value,
                  j->log_z.error, exact.logz, j->loss.value, n.law);
    assert_true(fabs(j->log_z.value - exact.logz) < 4 * j->log_z.error && j->log_z.error < 0.02);
    assert_true(j->loss.value < n.law + 0.02);
    free(U);
    sosmc_solution_free(&r);
    free(n.theta);
}

/* The share of the cloud that is nearest to each centre, and how far the worst of them is from a third. */
static double unfair(const sosmc_solver *s, const network *n, int dim)
{
    int particles = sosmc_solver_particles(s);
    double *x = malloc((size_t)particles * (size_t)(dim + 1) * sizeof *x), *logw = x + (ptrdiff_t)particles * dim;
    double share[3] = {0}, worst = 0;
    assert_non_null(x);
    assert_int_equal(sosmc_solver_cloud(s, x, logw), SOSMC_OK);
    for (int i = 0; i < particles; i++) {
        int nearest = 0;
        double least = INFINITY;
        for (int k = 0; k < 3; k++) {
            double square = 0;
            for (int j = 0; j < dim; j++) square += pow(x[i * dim + j] - n->centre[k * dim + j], 2);
            if (square < least) least = square, nearest = k;
        }
        share[nearest] += exp(logw[i]);
    }
    for (int k = 0; k < 3; k++) worst = fmax(worst, fabs(share[k] - 1.0 / 3));
    free(x);
    return worst;
}

/* Nothing walks from one of these modes to another: their shares are kept by jumps alone. */
static void far_modes_keep_their_shares(void **state)
{
    if (!MEASURED) skip();
    network n;
    sosmc_solution r;
    open_network(&n, MOST_DIM, 3);
    sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 4});
    (void)steps_on(s, INT64_MAX);
    double worst = unfair(s, &n, MOST_DIM);
    assert_int_equal(sosmc_solver_solution(s, &r), SOSMC_OK);
    const sosmc_judgement *j = &r.judgement;
    print_message("8 dimensions: loss %.4f +- %.4f, of the law %.4f; shares off by %.3f\n", j->loss.value,
                  j->loss.error, n.law, worst);
    assert_true(r.finished && j->verdict.status == SOSMC_CONVERGED);
    assert_true(j->loss.value < n.law + 0.1 && j->loss.error < 0.02);
    assert_true(worst < 0.15); /* 256 particles: a third is 0.33 +- 0.04 */
    sosmc_solution_free(&r);
    sosmc_solver_free(s);
    free(n.theta);
}

/* ---------------------------------------------------------------------------- refusals */

/* Thirty points are soon known by heart, and then three others tell that it gets worse and worse. */
static void a_search_that_loses_its_way_ends(void **state)
{
    if (!MEASURED) skip();
    network n;
    open_network(&n, 2, 2);
    n.rows.rows = 30;
    sosmc_batch all = {.simd = sosmc_simd_best(), .dim = 60, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 2, .stream = SOSMC_STREAM_USER}, &all, n.point);
    for (int k = 0; k < 60; k++) n.point[k] *= 2; /* the base law itself: there is nothing to learn */
    n.problem.objective = sosmc_likelihood(sosmc_rows_source(&n.rows), 30);
    sosmc_solver *s = create(&n, (sosmc_solve_options){.seed = 1});
    (void)steps_on(s, 3000);
    print_message("%lld updates\n", (long long)sosmc_solver_info(s)->updates);
    assert_true(sosmc_solver_info(s)->phase == SOSMC_PHASE_DONE && sosmc_solver_info(s)->updates <= 600);
    sosmc_solver_free(s);
    free(n.theta);
}

static void expect_refused(const sosmc_problem *p, const char *words)
{
    sosmc_solver *s;
    assert_int_equal(sosmc_solver_create(&s, p, NULL), SOSMC_EINVAL);
    assert_contains(sosmc_solver_message(s), words);
    sosmc_solver_free(s);
}

static void what_it_refuses(void **state)
{
    network n;
    open_network(&n, 2, 2);
    sosmc_problem p = n.problem;
    p.objective.data.row = NULL;
    expect_refused(&p, "with more than 200 the solver needs data that are rows");
    p = n.problem;
    p.objective = sosmc_mmle();
    expect_refused(&p, "with more than 200 the solver takes only the likelihood of data");
    p = n.problem;
    p.model.no_gx = 1;
    expect_refused(&p, "with more than 200 the solver needs dU/dx");
    free(n.theta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_depends_on_threads_or_levels), cmocka_unit_test(a_stop_changes_nothing),
        cmocka_unit_test(quadrature_confirms_the_numbers),      cmocka_unit_test(far_modes_keep_their_shares),
        cmocka_unit_test(a_search_that_loses_its_way_ends),     cmocka_unit_test(what_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
