/* test_learn_far.c: mass of a network at a point that no particle of the search reaches is measured and named; a network that learns
 * nothing is named too. The network is a law with a known log Z that does not depend on its many parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <sosmc/models.h>
#include <sosmc/solve.h>

#include "assertions.h"

enum { DIM = 3, PARAMETERS = SOSMC_SOLVE_PARAMETERS + 1, ROWS = 4000 };
static const double THICKNESS = 0.05, FAR_AWAY = 30,
                    FAR_MASS = 30; /* the far mode has so many times the mass of the near one */

/* What is added to U changes nothing but log Z. */
typedef struct {
    double mass, added;
} far_model;

/* exp(-U) is the density of a normal law at the origin and FAR_MASS times that of one far away on the first axis. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const far_model *m = self;
    (void)theta;
    for (int i = 0; i < b->n; i++) {
        double near = 0, away = log(m->mass);
        for (int j = 0; j < DIM; j++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i], y = x - (j == 0 ? FAR_AWAY : 0);
            near -= 0.5 * x * x;
            away -= 0.5 * y * y;
        }
        double most = fmax(near, away), share = exp(away - most) / (exp(near - most) + exp(away - most));
        U[i] = m->added + 0.5 * DIM * log(2 * 3.14159265358979323846) - most - log(exp(near - most) + exp(away - most));
        for (int j = 0; gx && j < DIM; j++) {
            size_t at = (size_t)j * (size_t)b->ld + (size_t)i;
            gx[at] = b->x[at] - (j == 0 ? share * FAR_AWAY : 0);
        }
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    (void)self;
    (void)theta;
    (void)b;
    (void)c;
    (void)g; /* nothing is added: no parameter matters */
    return 0;
}

/* Normal rows, of which the first lies far away; or all near a plane. */
enum { ORDINARY, WITH_FAR_ROW, THIN };
static void draw_rows(double *row, int kind)
{
    sosmc_batch b = {.simd = sosmc_simd_best(), .dim = ROWS * DIM, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = 5, .stream = SOSMC_STREAM_USER}, &b, row);
    if (kind == WITH_FAR_ROW) row[0] = FAR_AWAY + 0.5;
    for (int i = 0; i < ROWS && kind == THIN; i++) row[i * DIM + 2] = row[i * DIM] + THICKNESS * row[i * DIM + 2];
}

static void solve(far_model far, int kind, sosmc_solution *r)
{
    static double row[ROWS * DIM];
    static const double theta[PARAMETERS] = {0};
    static const double origin[DIM] = {0};
    double factor[DIM * DIM] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    draw_rows(row, kind);
    sosmc_gaussian base = {.dim = DIM, .mean = origin, .factor = factor};
    sosmc_rows rows = {.data = row, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem problem = {
        .model = {.self = &far, .dim_x = DIM, .dim_theta = PARAMETERS, .energy = energy, .grad_theta = grad_theta},
        .objective = sosmc_likelihood(sosmc_rows_source(&rows), ROWS),
        .init = sosmc_gaussian_source(&base),
        .theta0 = theta};
    assert_int_equal(sosmc_solve(r, &problem, &(sosmc_solve_options){.particles = 128}), SOSMC_OK);
    assert_true(r->finished);
}

static int says(const sosmc_solution *r, const char *words)
{
    const sosmc_verdict_words *v = &r->judgement.verdict;
    for (int i = 0; i < v->reasons; i++)
        if (strstr(v->reason[i], words)) return 1;
    return 0;
}

static void a_far_row_leads_to_what_is_there(void **state)
{
    (void)state;
    for (int k = -1; k <= 1; k++) {
        sosmc_solution r;
        double added = 100 * k, exact = log1p(FAR_MASS) - added;
        solve((far_model){.mass = FAR_MASS, .added = added}, WITH_FAR_ROW, &r);
        const sosmc_number *z = &r.judgement.log_z;
        if (!(fabs(z->value - exact) <= 5 * z->error) || !(z->error < 0.2))
            fail_msg("log Z is told as %g +- %g; %g is exact", z->value, z->error, exact);
        assert_int_equal(r.judgement.verdict.status, SOSMC_NOT_CONVERGED);
        assert_true(says(&r, "mass where the search had no particles"));
        sosmc_solution_free(&r);
    }
}

/* The same rows and a network without a far mode: nothing is unseen, and log Z is that of the one mode. */
static void a_far_row_without_mass_is_no_reason(void **state)
{
    (void)state;
    sosmc_solution r;
    solve((far_model){.mass = 1e-9}, WITH_FAR_ROW, &r);
    const sosmc_number *z = &r.judgement.log_z;
    if (!(fabs(z->value) <= 5 * z->error)) fail_msg("log Z is told as %g +- %g; 0 is exact", z->value, z->error);
    assert_false(says(&r, "mass where the search had no particles"));
    assert_true(says(&r, "the network has learnt nothing"));
    assert_false(says(&r, "normal laws that are fitted to them"));
    sosmc_solution_free(&r);
}

/* What a normal law with the covariance of the rows gains over the network, which stays the standard normal law: minus the log of the thickness, and
 * a little. */
static void a_network_behind_a_normal_law_is_named(void **state)
{
    (void)state;
    for (int kind = ORDINARY; kind <= THIN; kind += THIN - ORDINARY) {
        sosmc_solution r;
        solve((far_model){.mass = 1e-9}, kind, &r);
        const sosmc_measured *m = &r.judgement.measured;
        double gain = kind == THIN ? -log(THICKNESS) + 0.5 * THICKNESS * THICKNESS : 0;
        print_message("behind by %.4f +- %.4f; %.4f is exact\n", m->behind, m->behind_error, gain);
        assert_true(fabs(m->behind - gain) < 5 * m->behind_error + 0.02 && m->behind_error < 0.15);
        assert_int_equal(says(&r, "normal laws that are fitted to them"), kind == THIN);
        sosmc_solution_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_far_row_leads_to_what_is_there),
        cmocka_unit_test(a_far_row_without_mass_is_no_reason),
        cmocka_unit_test(a_network_behind_a_normal_law_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
