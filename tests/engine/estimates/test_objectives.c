/* test_objectives.c: objectives, baselines and optimisers against exact losses, gradients and optima.
 *
 * Exact losses come from closed forms or one-dimensional quadrature (toys.h), exact gradients from finite differences
 * of these losses, so a sign cannot be wrong on both sides. Self-normalised estimates have a bias of order 1/N; N is
 * large and the replicates few enough for the standard error to cover it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <sosmc/models.h>
#include <string.h>

#include "stats.h"
#include "toys.h"

enum { PLANNED = 176 };
static int comparisons;

/* ---------------------------------------------------------------------------- exact losses in one dimension */

enum { MMLE, LIKELIHOOD, FORWARD, REVERSE, OBJECTIVES };
static const char *const objective_name[OBJECTIVES] = {"mmle", "likelihood", "forward KL", "reverse KL"};

enum { ROWS = 40 };
static const double beta = 0.3, reference[2] = {0, 0};
static const toy_reward reward = {.slope = 0.2, .curvature = 1, .centre = 0.8};
static double rows[ROWS]; /* data of the likelihood: mean 0.7, variance 0.5 */
static sosmc_rows all_rows = {.data = rows, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
static sosmc_rows some_rows = {.data = rows, .rows = ROWS, .mode = SOSMC_ROWS_RANDOM};
static const double zero = 0, beside = 0.2;
static const toy_normal unit = {&zero, 1}, wide = {&beside, 1.25}; /* pi_ref; an initial law that is not exact */

static void fill_rows(void)
{
    double mean = 0, square = 0;
    for (int i = 0; i < ROWS; i++) rows[i] = (i * 17 % ROWS) * 0.1 + (i % 7 == 3 ? 2 : 0);
    for (int i = 0; i < ROWS; i++) mean += rows[i] / ROWS;
    for (int i = 0; i < ROWS; i++) square += (rows[i] - mean) * (rows[i] - mean) / ROWS;
    for (int i = 0; i < ROWS; i++) rows[i] = 0.7 + (rows[i] - mean) * sqrt(0.5 / square);
}

typedef struct {
    sosmc_model model; /* pi at theta = 0 must be N(0, 1) for the rewards */
    int kind;
} exact;

static double exact_kl(const exact *e, const double *theta)
{
    static toy_grid here, there;
    toy_integrate(&e->model, theta, &here);
    toy_integrate(&e->model, reference, &there);
    return e->kind == FORWARD ? toy_kl(&there, &here) : toy_kl(&here, &there);
}

static double exact_loss(const exact *e, const double *theta)
{
    static toy_grid here;
    double U[ROWS], mean = 0;
    sosmc_batch data = {.x = rows, .dim = 1, .n = ROWS, .ld = ROWS};
    toy_integrate(&e->model, theta, &here);
    switch (e->kind) {
    case MMLE: return -here.logz;
    case LIKELIHOOD:
        (void)e->model.energy(e->model.self, theta, &data, U, NULL);
        for (int i = 0; i < ROWS; i++) mean += U[i] / ROWS;
        return mean + here.logz;
    default: return beta * exact_kl(e, theta) - toy_mean_reward(&here, &reward);
    }
}

static void exact_gradient(const exact *e, const double *theta, double g[2])
{
    const double eps = 1e-4;
    for (int j = 0; j < 2; j++) {
        double up[2] = {theta[0], theta[1]}, down[2] = {theta[0], theta[1]};
        up[j] += eps;
        down[j] -= eps;
        g[j] = (exact_loss(e, up) - exact_loss(e, down)) / (2 * eps);
    }
}

/* Newton's method with differences of differences. */
static void exact_optimum(const exact *e, double theta[2])
{
    const double eps = 1e-3;
    for (int k = 0; k < 30; k++) {
        double g[2], up[2], right[2], t0[2] = {theta[0] + eps, theta[1]}, t1[2] = {theta[0], theta[1] + eps};
        exact_gradient(e, theta, g);
        exact_gradient(e, t0, right);
        exact_gradient(e, t1, up);
        double a = (right[0] - g[0]) / eps, b = 0.5 * (right[1] - g[1] + up[0] - g[0]) / eps, d = (up[1] - g[1]) / eps;
        theta[0] -= (d * g[0] - b * g[1]) / (a * d - b * b);
        theta[1] -= (a * g[1] - b * g[0]) / (a * d - b * b);
    }
}

/* The closed forms behind the quadrature: pi = N(theta_0, exp(-theta_1)), reference N(0, 1). */
static void quadrature_agrees_with_closed_forms(void **state)
{
    const double theta[2] = {0.6, 0.4}, v = exp(-theta[1]), m2 = theta[0] * theta[0], off = theta[0] - reward.centre;
    const double er = reward.slope * theta[0] - 0.5 * reward.curvature * (off * off + v);
    exact e = {.model = toy_scaled_model(), .kind = FORWARD};
    assert_true(fabs(exact_kl(&e, theta) - 0.5 * (log(v) + (1 + m2) / v - 1)) < 1e-10);
    assert_true(fabs(exact_loss(&e, theta) - (beta * exact_kl(&e, theta) - er)) < 1e-10);
    e.kind = REVERSE;
    assert_true(fabs(exact_kl(&e, theta) - 0.5 * (-log(v) + v + m2 - 1)) < 1e-10);
    e.kind = MMLE;
    assert_true(fabs(exact_loss(&e, theta) + toy_scaled_logz(theta)) < 1e-10);
    const double natural[2] = {0.5, 1.5};
    e = (exact){.model = toy_natural_model(), .kind = LIKELIHOOD};
    double U = 0.5 * natural[1] * (0.5 + 0.7 * 0.7) - natural[0] * 0.7;
    assert_true(fabs(exact_loss(&e, natural) - U - toy_natural_logz(natural)) < 1e-10);
    /* reverse KL: theta_0 and theta_1 separate */
    double best[2] = {0.5, 1};
    e = (exact){.model = toy_scaled_model(), .kind = REVERSE};
    exact_optimum(&e, best);
    assert_true(fabs(best[0] - (reward.slope + reward.curvature * reward.centre) / (reward.curvature + beta)) < 1e-6);
    assert_true(fabs(best[1] - log((reward.curvature + beta) / beta)) < 1e-6);
}

static sosmc_objective objective_of(int kind, int batch)
{
    switch (kind) {
    case MMLE: return sosmc_mmle();
    case LIKELIHOOD: return sosmc_likelihood(sosmc_rows_source(batch == ROWS ? &all_rows : &some_rows), batch);
    case FORWARD:
        return sosmc_reward_forward(toy_reward_score(&reward), beta, toy_normal_source(&unit), batch, reference);
    default: return sosmc_reward_reverse(toy_reward_score(&reward), beta, reference);
    }
}

/* ---------------------------------------------------------------------------- gradient, loss and KL on a given path */

enum { LAST = 4, PARTICLES = 4000 };
static const double path_scaled[(LAST + 2) * 2] = {0, 0, 0.15, 0.1, 0.3, 0.25, 0.45, 0.3, 0.6, 0.4, 0.6, 0.4};
static const double path_skew[(LAST + 2) * 2] = {0, 0, 0.1, 0.15, 0.25, 0.3, 0.35, 0.45, 0.5, 0.6, 0.5, 0.6};

enum { G0, G1, LOSS, KL, READINGS };
static const char *const reading_name[READINGS] = {"dl/dtheta_0", "dl/dtheta_1", "loss", "KL"};

typedef struct {
    exact e;
    const double *seen;
} reading;

static void read_gradient(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    const reading *r = ctx;
    const sosmc_info *info = sosmc_last(s);
    assert_int_equal(info->gradient_updates, LAST);
    estimate[G0] = r->seen[0];
    estimate[G1] = r->seen[1];
    estimate[LOSS] = info->loss;
    estimate[KL] = info->kl;
}

typedef struct {
    double seen[2], truth[READINGS];
    toy_path path;
    reading read;
    sosmc_problem problem;
    sosmc_settings settings;
} trial;

static void set_up(trial *t, int skew, int kind, int exact_start)
{
    const double *thetas = skew ? path_skew : path_scaled, *last = thetas + (ptrdiff_t)2 * LAST;
    static toy_grid grid;
    t->path = (toy_path){.rows = LAST + 2, .theta = thetas, .seen = t->seen};
    t->read = (reading){.e = {.model = skew ? toy_skew_model() : toy_scaled_model(), .kind = kind}, .seen = t->seen};
    exact_gradient(&t->read.e, last, t->truth);
    toy_integrate(&t->read.e.model, thetas, &grid);
    t->truth[LOSS] = exact_loss(&t->read.e, last);
    if (exact_start && kind == MMLE) t->truth[LOSS] += grid.logz;
    if (exact_start && kind == LIKELIHOOD) t->truth[LOSS] -= grid.logz;
    t->truth[KL] = exact_kl(&t->read.e, last);
    t->problem = (sosmc_problem){.model = t->read.e.model,
                                 .objective = objective_of(kind, skew ? 500 : ROWS),
                                 .init = exact_start ? toy_normal_exact(&unit) : toy_normal_source(&wide),
                                 .theta0 = thetas};
    t->settings = sosmc_defaults();
    t->settings.scheme = sosmc_scheme_sosmc(PARTICLES);
    t->settings.kernel = sosmc_ula(0.15);
    t->settings.optimiser = toy_follow(&t->path);
}

static void run_trial(trial *t, stats_tally tally[READINGS])
{
    stats_run(&t->problem, &t->settings, LAST + 1, stats_replicates(60), read_gradient, &t->read, READINGS, tally);
}

static void gradients_losses_and_divergences(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < 16; k++) {
        int skew = k / 8, kind = k / 2 % OBJECTIVES, exact_start = k % 2;
        trial t;
        stats_tally tally[READINGS];
        set_up(&t, skew, kind, exact_start);
        if ((k + k / 2) % 2) t.settings.kernel = sosmc_mala(0.2);
        if ((k / 2) % 2) t.settings.scheme.order = SOSMC_ORDER_AUTHORS;
        t.settings.seed = 10000u * (uint64_t)(k + 1);
        run_trial(&t, tally);
        for (int r = 0; r < READINGS; r++) {
            if (r == KL && kind != FORWARD && kind != REVERSE) continue;
            stats_compare(&ledger, &tally[r], t.truth[r], "%s of %s (%s, %s, order %d, %s start)", reading_name[r],
                          objective_name[kind], skew ? "skew" : "scaled", t.settings.kernel.name,
                          t.settings.scheme.order, exact_start ? "exact" : "weighted");
        }
    }
    comparisons += stats_close(&ledger);
}

static void spoilt_objectives_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[READINGS];
    trial t;
    set_up(&t, 0, LIKELIHOOD, 1);
    t.problem.objective.scale = -1;
    run_trial(&t, tally);
    stats_must_notice(&ledger, &tally[G1], t.truth[G1], "likelihood with the sign of the paper's section 2.2");
    set_up(&t, 0, LIKELIHOOD, 1);
    t.problem.objective.a = 0;
    run_trial(&t, tally);
    stats_must_notice(&ledger, &tally[G1], t.truth[G1], "likelihood without its model term");
    set_up(&t, 0, FORWARD, 1);
    t.problem.objective.b = 0;
    run_trial(&t, tally);
    stats_must_notice(&ledger, &tally[G0], t.truth[G0], "forward KL without its reference term");
    set_up(&t, 1, REVERSE, 1);
    t.problem.objective.kl = 0;
    run_trial(&t, tally);
    stats_must_notice(&ledger, &tally[G1], t.truth[G1], "reverse KL without its energies");
    set_up(&t, 1, REVERSE, 1);
    t.settings.scheme = sosmc_scheme_unweighted(PARTICLES);
    run_trial(&t, tally);
    stats_must_notice(&ledger, &tally[G0], t.truth[G0], "reverse KL without weights");
}

/* ---------------------------------------------------------------------------- optima */

/* theta is judged where the optimiser leads it. The running log Z of such a run is biased: an update follows the
 * errors of the very cloud that log Z is measured with, which adds lr tr Var(dU)/N to every step's expected error
 * (downwards for the likelihood, upwards for mmle). So loss and KL are judged along the path of one run, replayed with
 * other seeds. */
enum { LENGTH = 200 };
enum { THETA0, THETA1, LOSS_END, KL_END, ENDS };

static void read_end(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    estimate[THETA0] = sosmc_theta(s)[0];
    estimate[THETA1] = sosmc_theta(s)[1];
    estimate[LOSS_END] = sosmc_last(s)->loss;
    estimate[KL_END] = sosmc_last(s)->kl;
}

static int note_theta(void *ctx, const sosmc *s, const sosmc_info *info)
{
    memcpy((double *)ctx + 2 * sosmc_iteration(s), sosmc_theta(s), 2 * sizeof(double));
    return 0;
}

static void record(const sosmc_problem *problem, const sosmc_settings *settings, double *thetas)
{
    sosmc *s = NULL;
    assert_int_equal(sosmc_create(&s, problem, settings), SOSMC_OK);
    memcpy(thetas, sosmc_theta(s), 2 * sizeof(double));
    assert_int_equal(sosmc_run(s, LENGTH, note_theta, thetas), SOSMC_OK);
    sosmc_free(s);
}

static void optima(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const double start[2] = {0, 1};
    for (int k = 0; k < 6; k++) {
        int kind = LIKELIHOOD + k / 2;
        exact e = {.model = kind == LIKELIHOOD ? toy_natural_model() : toy_scaled_model(), .kind = kind};
        double best[2] = {0.7, 0.6}, thetas[2 * (LENGTH + 1)];
        stats_tally tally[ENDS], replayed[ENDS];
        sosmc_settings cfg = sosmc_defaults();
        sosmc_problem problem = {.model = e.model,
                                 .objective = objective_of(kind, k % 2 ? ROWS : 400),
                                 .init = toy_normal_exact(&unit),
                                 .theta0 = kind == LIKELIHOOD ? start : reference};
        exact_optimum(&e, best);
        cfg.scheme = sosmc_scheme_sosmc(2000);
        cfg.scheme.order = k % 2 ? SOSMC_ORDER_PAPER : SOSMC_ORDER_AUTHORS;
        cfg.kernel = k % 2 ? sosmc_mala(0.2) : sosmc_ula(0.1);
        cfg.optimiser = sosmc_sgd(kind == LIKELIHOOD ? 0.7 : kind == FORWARD ? 0.3 : 0.6);
        cfg.seed = 300000u + 10000u * (uint64_t)k;
        record(&problem, &cfg, thetas);
        cfg.seed++;
        stats_run(&problem, &cfg, LENGTH, stats_replicates(20), read_end, NULL, ENDS, tally);
        for (int j = 0; j < 2; j++) {
            if (kind == REVERSE) /* the optimum is pi_ref exp(R/beta), where the score is constant: no noise is left */
                assert_true(fabs(tally[j].mean - best[j]) < 1e-6);
            else
                stats_compare(&ledger, &tally[j], best[j], "theta_%d of %s (%s)", j, objective_name[kind],
                              cfg.kernel.name);
        }

        const toy_path path = {.rows = LENGTH + 1, .theta = thetas};
        const double *last = thetas + (ptrdiff_t)2 * (LENGTH - 1); /* of the last gradient */
        double offset = kind == LIKELIHOOD ? -toy_natural_logz(start) : 0;
        cfg.optimiser = toy_follow(&path);
        stats_run(&problem, &cfg, LENGTH, stats_replicates(20), read_end, NULL, ENDS, replayed);
        stats_compare(&ledger, &replayed[LOSS_END], exact_loss(&e, last) + offset, "loss of %s (%s)",
                      objective_name[kind], cfg.kernel.name);
        if (kind != LIKELIHOOD)
            stats_compare(&ledger, &replayed[KL_END], exact_kl(&e, last), "KL of %s (%s)", objective_name[kind],
                          cfg.kernel.name);
        print_message(
            "    %s, %s: theta (%.4f, %.4f), optimum (%.4f, %.4f); loss %.4f, replayed %.4f +- %.4f, exact %.4f\n",
            objective_name[kind], cfg.kernel.name, tally[0].mean, tally[1].mean, best[0], best[1], tally[LOSS_END].mean,
            replayed[LOSS_END].mean, stats_se(&replayed[LOSS_END]), exact_loss(&e, last) + offset);
    }
    /* the optimum of the likelihood matches moments */
    exact e = {.model = toy_natural_model(), .kind = LIKELIHOOD};
    double best[2] = {1.2, 1.8};
    exact_optimum(&e, best);
    assert_true(fabs(best[0] - 0.7 / 0.5) < 1e-5 && fabs(best[1] - 1 / 0.5) < 1e-5);
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- baselines */

static void read_average(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    memcpy(estimate, sosmc_theta_average(s), *(const size_t *)ctx * sizeof(double));
}

static const size_t one = 1, two = 2;

static sosmc_settings baseline(sosmc_scheme scheme, double h, double lr, int64_t average_from)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = scheme;
    cfg.kernel = sosmc_ula(h);
    cfg.optimiser = sosmc_sgd(lr);
    cfg.average = 1;
    cfg.average_from = average_from;
    cfg.seed = 60000;
    return cfg;
}

/* Restarts pull the pool towards the mean mu0 of the initial law: of a batch's mean, a move keeps the fraction rho and
 * a restart replaces f, so the pool rests at p = (m (1 - rho) + rho f mu0) / (1 - rho (1 - f)), m the centre of the
 * target. Everything is linear, so the mean of theta has no other bias. */
static double pool_mean(double m, double rho, double f, double mu0)
{
    return (m * (1 - rho) + rho * f * mu0) / (1 - rho * (1 - f));
}

/* The centre m at which the pool's mean is p. */
static double centre_of_pool(double p, double rho, double f, double mu0)
{
    return (p * (1 - rho * (1 - f)) - rho * f * mu0) / (1 - rho);
}

static void baselines_find_the_mean(void **state)
{
    enum { SWEEPS = 5 };
    stats_ledger ledger = stats_open(PLANNED);
    const toy_gauss gauss = {.dim = 1, .variance = 1};
    const double h = 0.1, rho = pow(1 - h, SWEEPS);
    const sosmc_scheme schemes[4] = {sosmc_scheme_unweighted(100), sosmc_scheme_moved_first(100),
                                     sosmc_scheme_soul(100), sosmc_scheme_pcd(100, 300, SWEEPS)};
    const char *const names[4] = {"unweighted", "moved first", "SOUL", "PCD"};
    sosmc_problem problem = {.model = toy_gauss_model(&gauss),
                             .objective = sosmc_likelihood(sosmc_rows_source(&some_rows), 20),
                             .init = toy_normal_source(&wide)};
    stats_tally tally;
    for (int k = 0; k < 4; k++) {
        sosmc_settings cfg = baseline(schemes[k], h, 0.1, 200);
        cfg.seed += 1000u * (uint64_t)k;
        double truth = k == 3 ? centre_of_pool(0.7, rho, schemes[k].refresh, wide.mean[0]) : 0.7;
        stats_run(&problem, &cfg, 400, stats_replicates(60), read_average, &one, 1, &tally);
        stats_compare(&ledger, &tally, truth, "likelihood, %s", names[k]);
        print_message("    likelihood, %s: theta %.4f (+- %.4f), expected %.4f\n", names[k], tally.mean,
                      stats_se(&tally), truth);
    }

    /* x_d | y ~ N((y_d + theta)/2, 1/2): a move keeps 1 - 2h, and theta is the mean of the pool over d. */
    const double y[4] = {1.2, -0.3, 0.8, 2.0};
    const toy_data four = {4, y};
    double rho2 = pow(1 - 2 * h, SWEEPS), mean = toy_data_mean(&four), lo = -5, hi = 5;
    while (hi - lo > 1e-12) {
        double mid = 0.5 * (lo + hi);
        if (mid < pool_mean(0.5 * (mean + mid), rho2, 0.05, 0))
            lo = mid;
        else
            hi = mid;
    }
    problem = (sosmc_problem){
        .model = toy_hierarchy_model(&four), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    for (int k = 0; k < 4; k++) {
        sosmc_settings cfg = baseline(schemes[k], h, 0.05, 200);
        cfg.seed += 1000u * (uint64_t)(k + 4);
        double truth = k == 3 ? lo : mean;
        stats_run(&problem, &cfg, 400, stats_replicates(60), read_average, &one, 1, &tally);
        stats_compare(&ledger, &tally, truth, "mmle, %s", names[k]);
        print_message("    mmle, %s: theta %.4f (+- %.4f), expected %.4f\n", names[k], tally.mean, stats_se(&tally),
                      truth);
    }
    comparisons += stats_close(&ledger);
}

/* A restart must follow the initial law, whatever decided that there is a restart. Here the law is a list of rows whose
 * first ones lie far from the others. */
static void restarts_follow_the_initial_law(void **state)
{
    enum { SWEEPS = 5, PLACES = 40 };
    stats_ledger ledger = stats_open(PLANNED);
    const toy_gauss gauss = {.dim = 1, .variance = 1};
    const double h = 0.1, rho = pow(1 - h, SWEEPS);
    double places[PLACES], mu0 = 0;
    for (int i = 0; i < PLACES; i++) mu0 += (places[i] = i < PLACES / 4 ? 6 : -1) / PLACES;
    const sosmc_rows restarts = {.data = places, .rows = PLACES, .mode = SOSMC_ROWS_RANDOM};
    sosmc_problem problem = {.model = toy_gauss_model(&gauss),
                             .objective = sosmc_likelihood(sosmc_rows_source(&some_rows), 20),
                             .init = sosmc_rows_source(&restarts)};
    sosmc_settings cfg = baseline(sosmc_scheme_pcd(100, 300, SWEEPS), h, 0.1, 200);
    stats_tally tally;
    stats_run(&problem, &cfg, 400, stats_replicates(60), read_average, &one, 1, &tally);
    double truth = centre_of_pool(0.7, rho, cfg.scheme.refresh, mu0);
    stats_compare(&ledger, &tally, truth, "theta with restarts from rows");
    print_message("    theta %.4f (+- %.4f), expected %.4f\n", tally.mean, stats_se(&tally), truth);
    comparisons += stats_close(&ledger);
}

/* theta_1 is a precision: unadjusted moves see the variance 1/(theta_1 (1 - h theta_1/2)) and match that to the
 * data's. The noise of theta adds a bias of order lr/N, kept below the standard error. */
static void baselines_have_their_known_bias(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const double start[2] = {1.2, 1.8}, mean = 0.7, h = 0.1, precision = (1 - sqrt(1 - 2 * h / 0.5)) / h;
    const toy_normal near = {&mean, 0.7};
    const sosmc_scheme schemes[3] = {sosmc_scheme_unweighted(1000), sosmc_scheme_moved_first(1000),
                                     sosmc_scheme_soul(4000)};
    const char *const names[3] = {"unweighted", "moved first", "SOUL"};
    sosmc_problem problem = {.model = toy_natural_model(),
                             .objective = sosmc_likelihood(sosmc_rows_source(&all_rows), ROWS),
                             .init = toy_normal_source(&near),
                             .theta0 = start};
    for (int k = 0; k < 3; k++) {
        sosmc_settings cfg = baseline(schemes[k], h, 0.5, 150);
        stats_tally tally[2];
        cfg.seed += 1000u * (uint64_t)k;
        stats_run(&problem, &cfg, 300, stats_replicates(30), read_average, &two, 2, tally);
        stats_compare(&ledger, &tally[0], 0.7 * precision, "theta_0, %s", names[k]);
        stats_compare(&ledger, &tally[1], precision, "theta_1, %s", names[k]);
        stats_must_notice(&ledger, &tally[1], 2, "an unadjusted chain's theta_1 as if unbiased");
        print_message("    %s: theta (%.4f, %.4f) +- (%.4f, %.4f), expected (%.4f, %.4f)\n", names[k], tally[0].mean,
                      tally[1].mean, stats_se(&tally[0]), stats_se(&tally[1]), 0.7 * precision, precision);
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- optimisers */

/* Energy, clouds and all updates are odd in theta - theta* (AdamW: when theta* = 0), so no optimiser has a bias. */
static void every_optimiser_finds_the_optimum(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    const double y[4] = {1.2, -0.3, 0.8, 2.0}, centred[4] = {0.275, -1.225, -0.125, 1.075}, far = -0.6;
    const toy_data four = {4, y}, around_zero = {4, centred};
    const sosmc_optimiser optimisers[7] = {
        sosmc_sgd(0.1),     sosmc_momentum(0.03, 0.8), sosmc_nesterov(0.03, 0.8), sosmc_rmsprop(0.02, 0.9),
        sosmc_adagrad(0.3), sosmc_adam(0.05),          sosmc_adamw(0.05, 0.1)};
    for (int k = 0; k < 7; k++) {
        const toy_data *toy = k == 6 ? &around_zero : &four;
        sosmc_problem problem = {.model = toy_hierarchy_model(toy),
                                 .objective = sosmc_mmle(),
                                 .init = sosmc_standard_normal(),
                                 .theta0 = &far};
        sosmc_settings cfg = sosmc_defaults();
        stats_tally tally;
        cfg.scheme = sosmc_scheme_sosmc(100);
        cfg.kernel = sosmc_ula(0.1);
        cfg.optimiser = optimisers[k];
        cfg.average = 1;
        cfg.average_from = 300;
        cfg.seed = 70000u + 1000u * (uint64_t)k;
        stats_run(&problem, &cfg, 400, stats_replicates(100), read_average, &one, 1, &tally);
        stats_compare(&ledger, &tally, toy_data_mean(toy), "%s", cfg.optimiser.name);
        print_message("    %s: theta %.4f (+- %.4f), optimum %.4f\n", cfg.optimiser.name, tally.mean, stats_se(&tally),
                      toy_data_mean(toy));
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- the mixture, setting A */

static const double means[4] = {-3, 0, 3, 0}, even[2] = {0, 0};
static const sosmc_mixture dual = {.dim = 2, .components = 2, .means = means, .variance = 0.5};
static const double component_reward[2] = {0.00077724, 0.64855043}; /* E R under either component */

/* R = logistic(x_1/lambda) exp(-|x - c|^2 / tau) / alpha */
static int smooth_reward(const void *self, const sosmc_batch *b, double *s)
{
    const double c[2] = {4, 3.8}, tau = 20, lambda = 0.5, alpha = 0.7;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i], z = b->x[b->ld + i], r2 = (x - c[0]) * (x - c[0]) + (z - c[1]) * (z - c[1]);
        s[i] = exp(-r2 / tau) / (alpha * (1 + exp(-x / lambda)));
    }
    return 0;
}

static void softmax(const double theta[2], double p[2])
{
    p[1] = 1 / (1 + exp(theta[0] - theta[1]));
    p[0] = 1 - p[1];
}

static double mixture_reward(const double theta[2])
{
    double p[2];
    softmax(theta, p);
    return p[0] * component_reward[0] + p[1] * component_reward[1];
}

/* KL(reference || theta) for modes that do not overlap */
static double mixture_kl(const double theta[2])
{
    double p[2];
    softmax(theta, p);
    return 0.5 * log(0.5 / p[0]) + 0.5 * log(0.5 / p[1]);
}

/* E R after `updates` exact gradient steps. */
static double exact_recursion(sosmc_optimiser optimiser, double weight, int updates)
{
    double theta[2] = {0, 0}, slots[4] = {0};
    for (int k = 0; k < updates; k++) {
        double p[2], g[2], mean = mixture_reward(theta);
        softmax(theta, p);
        for (int j = 0; j < 2; j++) g[j] = weight * (p[j] - 0.5) - p[j] * (component_reward[j] - mean);
        optimiser.step(&optimiser, k, 2, g, theta, slots);
    }
    return mixture_reward(theta);
}

enum { LOGGED, AGAINST_THETA, KL_OFF, TRACKED };
static void read_reward(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    estimate[LOGGED] = sosmc_last(s)->mean_score;
    estimate[AGAINST_THETA] = sosmc_last(s)->mean_score - mixture_reward(sosmc_theta(s));
    estimate[KL_OFF] = sosmc_last(s)->kl - mixture_kl(theta);
}

static sosmc_problem setting_a(double weight, const sosmc_mixture_law *law)
{
    sosmc_source source = sosmc_mixture_source(law);
    sosmc_score score = {.eval = smooth_reward};
    sosmc_problem p = {.model = sosmc_mixture_model(&dual),
                       .objective = sosmc_reward_forward(score, weight, source, 1000, even),
                       .init = source,
                       .theta0 = even};
    p.init.exact = 1;
    return p;
}

static void mixture_tracks_the_exact_recursion(void **state)
{
    enum { LENGTHS = 3 };
    const int length[LENGTHS] = {1, 50, 100};
    const double published[3][LENGTHS] = {
        {0.32991, 0.51873, 0.58237}, {0.35694, 0.64473, 0.64663}, {0.35694, 0.59875, 0.60180}};
    const sosmc_kernel kernels[4] = {sosmc_ula(0.1), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.1, 1, 1)};
    const sosmc_mixture_law law = {&dual, even};
    stats_ledger ledger = stats_open(PLANNED);
    for (int k = 0; k < 12; k++) {
        int row = k / 4;
        double weight = row == 2 ? 0.1 : 0;
        sosmc_problem problem = setting_a(weight, &law);
        sosmc_settings cfg = sosmc_defaults();
        cfg.scheme = sosmc_scheme_sosmc(2000);
        cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        cfg.scheme.ess_min = 0.9;
        cfg.scheme.resampling = SOSMC_MULTINOMIAL;
        cfg.kernel = kernels[k % 4];
        cfg.optimiser = row == 0 ? sosmc_sgd(0.1) : sosmc_adam(0.1);
        cfg.seed = 80000u + 1000u * (uint64_t)k;
        for (int l = 0; l < LENGTHS; l++) {
            stats_tally tally[TRACKED];
            double truth = exact_recursion(cfg.optimiser, weight, length[l]);
            assert_true(fabs(truth - published[row][l]) < 6e-6);
            stats_run(&problem, &cfg, length[l], stats_replicates(24), read_reward, NULL, TRACKED, tally);
            stats_compare(&ledger, &tally[LOGGED], truth, "reward of row %d, %s, after %d updates", row,
                          cfg.kernel.name, length[l]);
            stats_compare(&ledger, &tally[AGAINST_THETA], 0, "reward against theta of row %d, %s, after %d updates",
                          row, cfg.kernel.name, length[l]);
            if (row == 2 && l > 0)
                stats_compare(&ledger, &tally[KL_OFF], 0, "KL of row %d, %s, after %d updates", row, cfg.kernel.name,
                              length[l]);
        }
    }
    comparisons += stats_close(&ledger);

    /* unweighted particles of the wrong mode do not cross: the published comparison's baseline must be told apart */
    sosmc_problem problem = setting_a(0, &law);
    sosmc_settings cfg = sosmc_defaults();
    stats_tally tally[TRACKED];
    cfg.scheme = sosmc_scheme_moved_first(2000);
    cfg.kernel = kernels[0];
    cfg.optimiser = sosmc_adam(0.1);
    stats_run(&problem, &cfg, 100, stats_replicates(24), read_reward, NULL, TRACKED, tally);
    stats_must_notice(&ledger, &tally[LOGGED], exact_recursion(cfg.optimiser, 0, 100), "mixture without weights");
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quadrature_agrees_with_closed_forms),
        cmocka_unit_test(gradients_losses_and_divergences),
        cmocka_unit_test(spoilt_objectives_are_noticed),
        cmocka_unit_test(optima),
        cmocka_unit_test(baselines_find_the_mean),
        cmocka_unit_test(restarts_follow_the_initial_law),
        cmocka_unit_test(baselines_have_their_known_bias),
        cmocka_unit_test(every_optimiser_finds_the_optimum),
        cmocka_unit_test(mixture_tracks_the_exact_recursion),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    fill_rows();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
