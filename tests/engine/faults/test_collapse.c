/* test_collapse.c: a weighted cloud whose effective sample size stays below 2 ends the run, with a sentence.
 *
 * The clouds here hardly move, and theta follows a given path. Near its start all particles count; far from it the weights
 * rest on one; back at the start they are equal again. So the iteration in which a run must end is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "fake_comm.h"
#include "memory_stream.h"
#include "expect_engine.h"
#include "toys.h"

enum { DIM = 2, PATIENCE = 100, ROWS = 400, RANKS = 3 };

/* A path of theta, and all that stands on it. Not to be copied once it is set up. */
typedef struct {
    toy_gauss toy;
    toy_normal law;
    double start[DIM], thetas[ROWS * DIM];
    toy_path path;
    sosmc_problem p;
    sosmc_settings cfg;
} setup;

/* Theta is far away in iterations from `first` on, but for iteration `back`; -1: never back. */
static void prepare(setup *u, int particles, int first, int back)
{
    *u = (setup){.toy = {.dim = DIM, .variance = 1}};
    for (int k = first; k < ROWS; k++)
        for (int j = 0; j < DIM && k != back; j++) u->thetas[k * DIM + j] = 40;
    u->law = (toy_normal){.mean = u->start, .sd = 1};
    u->path = (toy_path){.rows = ROWS, .theta = u->thetas};
    u->p = (sosmc_problem){.model = toy_gauss_model(&u->toy),
                           .objective = sosmc_mmle(),
                           .init = toy_normal_exact(&u->law),
                           .theta0 = u->start};
    u->cfg = sosmc_defaults();
    u->cfg.scheme = sosmc_scheme_sosmc(particles);
    u->cfg.scheme.ess_min = 0; /* equal weights come back only where nothing was thrown away */
    u->cfg.kernel = sosmc_rwm(1e-16);
    u->cfg.optimiser = toy_follow(&u->path);
    u->cfg.seed = 3;
}

static void assert_ends_at(sosmc *s, int64_t iteration, int64_t particles)
{
    char words[128];
    while (sosmc_step(s) == SOSMC_OK) assert_true(sosmc_iteration(s) < ROWS);
    assert_int_equal(sosmc_step(s), SOSMC_ENUMERIC); /* and so does every further one */
    const sosmc_info *info = sosmc_last(s);
    assert_int_equal(info->iteration, iteration);
    assert_int_equal(info->collapsed, PATIENCE);
    assert_true(info->ess >= 1 && info->ess < 2 && isfinite(info->mean_energy) && info->seconds >= 0);
    (void)snprintf(words, sizeof words, "iteration %lld: the effective sample size is %.3g of %lld particles",
                   (long long)iteration, info->ess, (long long)particles);
    assert_contains(sosmc_message(s), words);
    assert_contains(sosmc_message(s), "below 2 for 100 iterations in a row");
    assert_contains(sosmc_message(s), "take a smaller kernel step or learning rate, more particles");
    assert_contains(sosmc_message(s), "on_collapse: continue");
}

static void a_collapsed_cloud_ends_the_run(void **state)
{
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++)
        for (int choice = SOSMC_COLLAPSE_DEFAULT; choice <= SOSMC_COLLAPSE_STOP; choice++) {
            setup u;
            prepare(&u, 50, 5, -1);
            u.cfg.scheme.order = order;
            u.cfg.on_collapse = choice;
            sosmc *s = expect_create(&u.p, &u.cfg);
            expect_steps(s, 3);
            assert_int_equal(sosmc_last(s)->collapsed, 0);
            assert_true(sosmc_last(s)->ess > 49.9);
            /* in the authors' order an iteration weighs at the theta that it makes */
            assert_ends_at(s, 5 + PATIENCE - 1 - (order == SOSMC_ORDER_AUTHORS), 50);
            sosmc_free(s);
        }
}

static void a_run_told_to_continue_goes_on(void **state)
{
    setup u, v;
    prepare(&u, 50, 5, -1);
    prepare(&v, 50, 5, -1);
    v.cfg.on_collapse = SOSMC_COLLAPSE_CONTINUE;
    sosmc *stops = expect_create(&u.p, &u.cfg), *goes_on = expect_create(&v.p, &v.cfg);
    for (int k = 0; k < 5 + PATIENCE - 1; k++) {
        expect_steps(stops, 1);
        expect_steps(goes_on, 1);
        assert_true(sosmc_hash(stops) == sosmc_hash(goes_on));
        assert_int_equal(sosmc_last(stops)->collapsed, sosmc_last(goes_on)->collapsed);
    }
    assert_int_equal(sosmc_run(stops, 1, NULL, NULL), SOSMC_ENUMERIC);
    assert_int_equal(sosmc_run(goes_on, 200, NULL, NULL), SOSMC_OK);
    assert_int_equal(sosmc_last(goes_on)->collapsed, PATIENCE - 1 + 200);
    assert_string_equal(sosmc_message(goes_on), "");
    sosmc_free(stops);
    sosmc_free(goes_on);
}

static void one_good_iteration_begins_the_count_anew(void **state)
{
    setup u;
    prepare(&u, 50, 5, 90);
    sosmc *s = expect_create(&u.p, &u.cfg);
    expect_steps(s, 90);
    assert_int_equal(sosmc_last(s)->collapsed, 85);
    expect_steps(s, 1);
    assert_int_equal(sosmc_last(s)->collapsed, 0);
    assert_true(sosmc_last(s)->ess > 49.9);
    assert_ends_at(s, 90 + PATIENCE, 50);
    sosmc_free(s);
}

static void small_clouds_and_unweighted_ones_have_no_collapse(void **state)
{
    for (int k = 0; k < 3; k++) {
        setup u;
        prepare(&u, k == 0 ? 19 : 20, 5, -1);
        if (k == 1) u.cfg.scheme = sosmc_scheme_unweighted(20);
        sosmc *s = expect_create(&u.p, &u.cfg);
        if (k == 2) {
            assert_ends_at(s, 5 + PATIENCE - 1, 20);
        } else {
            expect_steps(s, 250);
            assert_int_equal(sosmc_last(s)->collapsed, 0);
            assert_true(k == 1 || sosmc_last(s)->ess < 2);
        }
        sosmc_free(s);
    }
}

/* ---------------------------------------------------------------------------- checkpoints */

static void a_resumed_run_ends_where_the_whole_one_does(void **state)
{
    memory m = {.used = 0};
    for (int saved_at = 3; saved_at <= 5 + PATIENCE - 1; saved_at += 33) {
        setup u;
        prepare(&u, 50, 5, -1);
        sosmc *s = expect_create(&u.p, &u.cfg);
        expect_steps(s, saved_at);
        memory_must_save(s, &m);
        sosmc_free(s);
        s = expect_create(&u.p, &u.cfg);
        memory_must_load(s, &m);
        assert_int_equal(sosmc_last(s)->collapsed, saved_at < 5 ? 0 : saved_at - 5);
        assert_ends_at(s, 5 + PATIENCE - 1, 50);
        assert_int_equal(memory_save(s, &(memory){.used = 0}), SOSMC_ENUMERIC); /* a failed run has nothing to save */
        memory_must_load(s, &m); /* but what was saved before brings it back */
        assert_ends_at(s, 5 + PATIENCE - 1, 50);
        sosmc_free(s);
        u.cfg.on_collapse = SOSMC_COLLAPSE_CONTINUE;
        s = expect_create(&u.p, &u.cfg);
        memory_must_load(s, &m);
        expect_steps(s, 200);
        assert_int_equal(sosmc_last(s)->collapsed, saved_at + 200 - 5);
        sosmc_free(s);
    }
    free(m.bytes);
}

/* ---------------------------------------------------------------------------- several ranks */

typedef struct {
    const setup *u;
    memory m[RANKS]; /* all the same stream; every rank reads its own */
    int load;
    sosmc_status status[RANKS];
    sosmc_info last[RANKS];
    char message[RANKS][512];
} shared;

static void one_rank(void *ctx, const sosmc_comm *comm)
{
    shared *r = ctx;
    sosmc *s = NULL;
    sosmc_settings cfg = r->u->cfg;
    cfg.comm = *comm;
    sosmc_status status = sosmc_create(&s, &r->u->p, &cfg);
    if (status == SOSMC_OK && r->load) status = memory_load(s, &r->m[comm->rank]);
    if (status == SOSMC_OK) status = sosmc_run(s, ROWS, NULL, NULL);
    r->status[comm->rank] = status;
    r->last[comm->rank] = *sosmc_last(s);
    (void)snprintf(r->message[comm->rank], sizeof r->message[0], "%s", sosmc_message(s));
    sosmc_free(s);
}

static void all_ranks_end_together(void **state)
{
    setup u;
    memory m = {.used = 0};
    prepare(&u, 50, 5, -1);
    sosmc *s = expect_create(&u.p, &u.cfg);
    expect_steps(s, 60);
    memory_must_save(s, &m);
    assert_ends_at(s, 5 + PATIENCE - 1, 50);
    for (int load = 0; load <= 1; load++)
        for (int ranks = 2; ranks <= RANKS; ranks++) {
            shared r = {.u = &u, .load = load};
            for (int i = 0; i < ranks; i++) r.m[i] = m;
            assert_int_equal(fake_run(ranks, one_rank, &r, NULL, NULL), 0);
            for (int i = 0; i < ranks; i++) {
                assert_int_equal(r.status[i], SOSMC_ENUMERIC);
                assert_int_equal(r.last[i].iteration, 5 + PATIENCE - 1);
                assert_int_equal(r.last[i].collapsed, PATIENCE);
                assert_string_equal(r.message[i], sosmc_message(s));
            }
        }
    sosmc_free(s);
    free(m.bytes);
}

/* ---------------------------------------------------------------------------- a problem of a user's own */

/* y_ij ~ Poisson(exp(b0 + sigma u_i)), u_i ~ N(0, 1), with theta = (b0, log sigma) and x = u. The counts are large, so that
 * the posterior of every u_i is much narrower than its prior, from which the particles begin. */
enum { GROUPS = 50, EACH = 20 };
typedef struct {
    double total[GROUPS]; /* sum_j y_ij */
} glmm;

static void make_counts(glmm *g)
{
    const double b0 = 2, sigma = 0.5;
    double u[GROUPS], chance[EACH];
    sosmc_batch groups = {.dim = GROUPS, .n = 1, .ld = 1}, draws = {.dim = 1, .n = EACH, .ld = EACH};
    sosmc_normals((sosmc_rng){.seed = 18, .stream = SOSMC_STREAM_USER}, &groups, u);
    for (int i = 0; i < GROUPS; i++) {
        double rate = exp(b0 + sigma * u[i]);
        sosmc_rng rng = {.seed = 18, .step = (uint64_t)i, .stream = SOSMC_STREAM_USER + 1};
        sosmc_uniforms(rng, 0, &draws, chance);
        g->total[i] = 0;
        for (int j = 0; j < EACH; j++) { /* the first count whose distribution function reaches the uniform number */
            double term = exp(-rate), sum = term;
            for (int y = 1; sum < chance[j] && y < 200; y++, g->total[i]++) sum += term *= rate / y;
        }
    }
}

/* U = sum_i u_i^2 / 2 + EACH exp(b0 + sigma u_i) - total_i (b0 + sigma u_i), up to a constant. */
static int glmm_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const glmm *g = self;
    const double sigma = exp(theta[1]);
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < GROUPS; j++)
        for (int i = 0; i < b->n; i++) {
            double u = b->x[j * b->ld + i], linear = theta[0] + sigma * u, mean = EACH * exp(linear);
            U[i] += u * u / 2 + mean - g->total[j] * linear;
            if (gx) gx[j * b->ld + i] = u + sigma * (mean - g->total[j]);
        }
    return 0;
}

static int glmm_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *grad)
{
    const glmm *g = self;
    const double sigma = exp(theta[1]);
    for (int j = 0; j < GROUPS; j++)
        for (int i = 0; i < b->n; i++) {
            double u = b->x[j * b->ld + i], off = EACH * exp(theta[0] + sigma * u) - g->total[j];
            grad[0] += c[i] * off;
            grad[1] += c[i] * off * sigma * u;
        }
    return 0;
}

static void a_poisson_mixed_model_with_the_default_settings(void **state)
{
    enum { ITERATIONS = 2000 };
    glmm g;
    make_counts(&g);
    sosmc_problem p = {
        .model = {.dim_x = GROUPS, .dim_theta = 2, .self = &g, .energy = glmm_energy, .grad_theta = glmm_grad_theta},
        .objective = sosmc_mmle(),
        .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = expect_create(&p, &cfg);
    assert_int_equal(sosmc_run(s, ITERATIONS, NULL, NULL), SOSMC_ENUMERIC);
    assert_int_equal(sosmc_last(s)->collapsed, PATIENCE);
    assert_true(sosmc_last(s)->ess < 2);
    assert_contains(sosmc_message(s), "the effective sample size is 1");
    assert_contains(sosmc_message(s), "of 1000 particles");
    assert_contains(sosmc_message(s), "100 iterations in a row");
    assert_contains(sosmc_message(s), "take a smaller kernel step or learning rate");
    print_message("    %s\n", sosmc_message(s));
    sosmc_free(s);

    cfg.on_collapse = SOSMC_COLLAPSE_CONTINUE;
    s = expect_create(&p, &cfg);
    assert_int_equal(sosmc_run(s, ITERATIONS, NULL, NULL), SOSMC_OK);
    assert_true(sosmc_last(s)->ess < 2);
    assert_string_equal(sosmc_message(s), "");
    print_message("    told to continue: sigma %.3g, collapsed in the last %lld iterations\n", exp(sosmc_theta(s)[1]),
                  (long long)sosmc_last(s)->collapsed);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collapsed_cloud_ends_the_run),
        cmocka_unit_test(a_run_told_to_continue_goes_on),
        cmocka_unit_test(one_good_iteration_begins_the_count_anew),
        cmocka_unit_test(small_clouds_and_unweighted_ones_have_no_collapse),
        cmocka_unit_test(a_resumed_run_ends_where_the_whole_one_does),
        cmocka_unit_test(all_ranks_end_together),
        cmocka_unit_test(a_poisson_mixed_model_with_the_default_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
