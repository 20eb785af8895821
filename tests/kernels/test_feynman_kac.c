/* test_feynman_kac.c: the weighted cloud on a given path of theta, against exact values.
 *
 * theta follows theta_0 .. theta_K whatever the particles do, with fixed kernel steps h <= 0.5/L. Then for every N,
 * however small, with any unbiased resampling, at any F_k-measurable time,
 *
 *     E[ Zhat_k/Z_k ] = 1,      E[ Zhat_k/Z_k ( sum_i w_i f(x_i) - pi_k(f) ) ] = 0,
 *
 * without the O(1/N) of self-normalised averages. So clouds of 24 to 40 particles are enough, and the only tolerance
 * is the standard error over replicates. f is a coordinate, |x - E x|^2 (from sosmc_cloud: after resampling and the
 * authors' move) and the logged means of score and energy (before resampling).
 *
 * Every pair of values of kernel, resampling scheme, occasion, order, model and initial law occurs in one of the 90
 * rows: 90 x 5 comparisons, 5 pooled over all rows (a bias common to all of them shows 9 times more sharply), 5 each of
 * two positive controls: 465. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "stats.h"
#include "toys.h"

enum { LAST = 6, PATH = LAST + 2, MOST = 40, MOST_DIM = 3, PLANNED = 465 };
static int comparisons;

/* ---------------------------------------------------------------------------- what varies */

static const toy_gauss three = {.dim = 3, .variance = 0.7};
static const double path_gauss[PATH][3] = {{0.0, 0.0, 0.0},  {0.1, -0.1, 0.2}, {0.3, -0.1, 0.3}, {0.4, -0.3, 0.2},
                                           {0.6, -0.4, 0.2}, {0.8, -0.4, 0.1}, {0.8, -0.6, 0.0}, {0.9, -0.7, 0.0}};
static const double path_scaled[PATH][2] = {{0.0, 0.0}, {0.1, 0.1}, {0.25, 0.15}, {0.3, 0.25},
                                            {0.4, 0.4}, {0.6, 0.5}, {0.7, 0.6},   {0.8, 0.7}};
static const double path_skew[PATH][2] = {{0.0, 0.0}, {0.2, 0.2}, {0.3, 0.4}, {0.5, 0.6},
                                          {0.6, 0.8}, {0.8, 1.0}, {0.9, 1.2}, {1.0, 1.2}};
static const double origin[MOST_DIM], aside[MOST_DIM] = {0.3, -0.2, 0.2};

typedef struct {
    const char *name;
    double largest; /* L on the path */
    int particles;
    const double *path;
    toy_normal exact, other; /* pi_{theta_0}, and a law that is not */
} target;
enum { TARGETS = 3 };
static const target targets[TARGETS] = {
    {"gauss", 1 / 0.7, 40, path_gauss[0], {origin, 0.83666002653407555}, {aside, 1.0}},
    {"scaled", 1.83, 24, path_scaled[0], {origin, 1.0}, {aside, 1.3}},
    {"skew", 2.2, 30, path_skew[0], {origin, 1.0}, {aside, 1.3}},
};

static sosmc_model model_of(int t)
{
    return t == 0 ? toy_gauss_model(&three) : t == 1 ? toy_scaled_model() : toy_skew_model();
}

enum { WITH_MOMENTUM = 9, FRICTIONLESS = 11, UNDERDAMPED, KERNELS = 18 }; /* momentum: from this one on */
static sosmc_kernel langevin(double h, int forward_at, int backward_at, double noise)
{
    sosmc_kernel k = sosmc_ula(h);
    k.forward_at = forward_at;
    k.backward_at = backward_at;
    k.noise = noise;
    return k;
}
static sosmc_kernel kernel_of(int k)
{
    const double h = 0.2;
    sosmc_kernel mala = sosmc_mala(0.2);
    mala.noise = 0.9;
    switch (k) {
    case 0: return langevin(h, SOSMC_AT_PREVIOUS, SOSMC_AT_CURRENT, 1);
    case 1: return langevin(h, SOSMC_AT_CURRENT, SOSMC_AT_CURRENT, 1);
    case 2: return langevin(h, SOSMC_AT_PREVIOUS, SOSMC_AT_PREVIOUS, 1);
    case 3: return langevin(h, SOSMC_AT_CURRENT, SOSMC_AT_PREVIOUS, 1);
    case 4: return langevin(h, SOSMC_AT_PREVIOUS, SOSMC_AT_CURRENT, 0.9);
    case 5: return langevin(0.06, SOSMC_AT_CURRENT, SOSMC_AT_PREVIOUS, 1.1);
    case 6: return sosmc_mala(0.2);
    case 7: return mala;
    case 8: return sosmc_rwm(0.2);
    case 9: return sosmc_hmc(0.4, 1, 1);
    case 10: return sosmc_hmc(0.3, 4, 2);
    case FRICTIONLESS: return sosmc_underdamped(0.5, 0, 1); /* nothing is forgotten: copies stay together for good */
    case UNDERDAMPED: return sosmc_underdamped(0.5, 0.5, 1);
    case 13: return sosmc_underdamped(0.6, 3, 2);
    case 14: return sosmc_underdamped(0.6, INFINITY, 1.5);
    case 15: return sosmc_leapfrog(0.6, 1, 1.5);
    case 16: return sosmc_leapfrog(0.4, 2, 1);
    default: return sosmc_leapfrog(0.5, 5, 1.2);
    }
}
/* The step as ULA counts it. */
static double langevin_step(int k)
{
    sosmc_kernel a = kernel_of(k);
    return k >= WITH_MOMENTUM ? a.h * a.h / (2 * a.mass) : a.h;
}

enum { SCHEMES = 5, OCCASIONS = 3, ORDERS = 2, LAWS = 2, FACTORS = 6 };
static const double ess_min[OCCASIONS] = {0, 0.7, 2}; /* never, by ESS, always */
static const char *const occasion[OCCASIONS] = {"never", "by ESS", "always"};

typedef struct {
    int at[FACTORS]; /* kernel, scheme, occasion, order, target, law */
} row;
enum { KERNEL, SCHEME, OCCASION, ORDER, TARGET, LAW };
static const int levels[FACTORS] = {KERNELS, SCHEMES, OCCASIONS, ORDERS, TARGETS, LAWS};
enum { ROWS = KERNELS * SCHEMES };

static row row_of(int r)
{
    int k = r / SCHEMES, s = r % SCHEMES, sum = k + s;
    return (row){{k, s, sum % OCCASIONS, sum % ORDERS, (k + 2 * s) % TARGETS, sum / 2 % LAWS}};
}

static void every_pair_occurs(void **state)
{
    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            for (int a = 0; a < levels[f]; a++)
                for (int b = 0; b < levels[g]; b++) {
                    int found = 0;
                    for (int r = 0; r < ROWS && !found; r++) found = row_of(r).at[f] == a && row_of(r).at[g] == b;
                    assert_true(found);
                }
    for (int k = 0; k < KERNELS; k++)
        for (int t = 0; t < TARGETS; t++) assert_true(langevin_step(k) <= 0.5 / targets[t].largest);
}

/* ---------------------------------------------------------------------------- the check */

enum { RATIO, COORDINATE, SPREAD, LOGGED_SCORE, LOGGED_ENERGY, ESTIMATES };
static const char *const estimate_name[ESTIMATES] = {"Zhat/Z", "x", "spread", "mean_score", "mean_energy"};

typedef struct {
    double logz; /* exact, at theta_LAST; relative to theta_0 when the start was exact */
    double mean[MOST_DIM], spread, score, energy; /* E x, E |x - E x|^2 */
    int dim;
    int forget; /* a negative control: the weights do not count */
} truth;

static truth truth_of(int t, int exact_start)
{
    sosmc_model m = model_of(t);
    const double *first = targets[t].path, *last = first + (size_t)LAST * (size_t)m.dim_theta;
    truth e = {.dim = m.dim_x};
    if (t == 0) {
        e = (truth){.dim = 3, .logz = exact_start ? 0 : toy_gauss_logz(&three), .energy = 1.5, .spread = 3 * 0.7};
        for (int j = 0; j < 3; j++) e.score += e.mean[j] = last[j];
        return e;
    }
    static toy_grid grid;
    toy_integrate(&m, first, &grid);
    if (exact_start) e.logz = -grid.logz;
    toy_integrate(&m, last, &grid);
    e.logz += grid.logz;
    e.mean[0] = e.score = toy_mean(&grid, 1);
    e.spread = toy_mean(&grid, 2) - e.score * e.score;
    e.energy = toy_mean_energy(&grid);
    return e;
}

static void read_off(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    const truth *e = ctx;
    const sosmc_info *info = sosmc_last(s);
    double x[MOST * MOST_DIM], logw[MOST], coordinate = 0, spread = 0, ratio = exp(info->logz - e->logz);
    int n = sosmc_particles(s), dim = e->dim;
    assert_int_equal(info->updates, LAST);
    assert_int_equal(info->nonfinite, 0);
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    for (int i = 0; i < n; i++) {
        double w = e->forget ? 1.0 / n : exp(logw[i]);
        coordinate += w * x[i * dim + dim - 1];
        for (int j = 0; j < dim; j++) spread += w * (x[i * dim + j] - e->mean[j]) * (x[i * dim + j] - e->mean[j]);
    }
    estimate[RATIO] = ratio;
    estimate[COORDINATE] = ratio * (coordinate - e->mean[dim - 1]);
    estimate[SPREAD] = ratio * (spread - e->spread);
    estimate[LOGGED_SCORE] = ratio * (info->mean_score - e->score);
    estimate[LOGGED_ENERGY] = ratio * (info->mean_energy - e->energy);
}

static const toy_reward coordinates = {.slope = 1};

typedef struct {
    toy_path path;
    sosmc_problem problem;
    sosmc_settings settings;
    int64_t iterations;
    truth exact;
} experiment;

static void prepare(experiment *e, row r)
{
    const target *t = &targets[r.at[TARGET]];
    int exact_start = r.at[LAW] == 0;
    e->path = (toy_path){.rows = PATH, .theta = t->path};
    e->problem = (sosmc_problem){
        .model = model_of(r.at[TARGET]),
        .objective = sosmc_reward_forward(toy_reward_score(&coordinates), 0, (sosmc_source){0}, 0, NULL),
        .init = exact_start ? toy_normal_exact(&t->exact) : toy_normal_source(&t->other),
        .theta0 = t->path};
    e->settings = sosmc_defaults();
    e->settings.scheme = sosmc_scheme_sosmc(t->particles);
    e->settings.scheme.resampling = r.at[SCHEME];
    e->settings.scheme.ess_min = ess_min[r.at[OCCASION]];
    e->settings.scheme.order = r.at[ORDER];
    e->settings.kernel = kernel_of(r.at[KERNEL]);
    e->settings.optimiser = toy_follow(&e->path);
    e->iterations = r.at[ORDER] == SOSMC_ORDER_PAPER ? LAST + 1 : LAST; /* the paper's iteration 0 does not move */
    e->exact = truth_of(r.at[TARGET], exact_start);
}

static double expected(int estimate) { return estimate == RATIO ? 1 : 0; }

static void run(const experiment *e, int replicates, stats_tally tally[ESTIMATES])
{
    stats_run(&e->problem, &e->settings, e->iterations, stats_replicates(replicates), read_off, &e->exact, ESTIMATES,
              tally);
}

static void weighted_moments_and_normalising_constants(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    double sum[ESTIMATES] = {0};
    for (int i = 0; i < ROWS; i++) {
        experiment e;
        stats_tally tally[ESTIMATES];
        row r = row_of(i);
        prepare(&e, r);
        e.settings.seed = 1000000u * (uint64_t)(i + 1);
        run(&e, 4000, tally);
        for (int k = 0; k < ESTIMATES; k++)
            sum[k] += stats_compare(&ledger, &tally[k], expected(k),
                                    "%s: kernel %d (%s), resampling %d %s, order %d, %s, %s start", estimate_name[k],
                                    r.at[KERNEL], e.settings.kernel.name, r.at[SCHEME], occasion[r.at[OCCASION]],
                                    r.at[ORDER], targets[r.at[TARGET]].name, r.at[LAW] ? "weighted" : "exact");
    }
    for (int k = 0; k < ESTIMATES; k++) {
        double pooled = sum[k] / sqrt(ROWS);
        print_message("    %s: %.2f standard errors over all rows\n", estimate_name[k], pooled);
        ledger.made++;
        assert_true(fabs(pooled) < ledger.bound);
    }
    comparisons += stats_close(&ledger);
}

/* Unbiasedness forgives a poor integrator, which rejects more. Over the same time the leapfrog's energy error, hence
 * the rejections, fall with the square of the step. */
static void read_rejections(const void *ctx, const sosmc *s, const double *theta, double *estimate)
{
    estimate[0] = 1 - sosmc_last(s)->accept;
}

static void leapfrog_is_of_second_order(void **state)
{
    experiment e;
    stats_tally coarse, fine;
    prepare(&e, (row){{10, SOSMC_SYSTEMATIC, 1, SOSMC_ORDER_PAPER, 1, 0}});
    e.settings.scheme = sosmc_scheme_sosmc(2000);
    e.settings.kernel = sosmc_hmc(0.5, 3, 2);
    stats_run(&e.problem, &e.settings, 4, 20, read_rejections, NULL, 1, &coarse);
    e.settings.kernel = sosmc_hmc(0.25, 6, 2);
    stats_run(&e.problem, &e.settings, 4, 20, read_rejections, NULL, 1, &fine);
    print_message("    rejections %.5f (+- %.5f), with half the step %.5f (+- %.5f)\n", coarse.mean, stats_se(&coarse),
                  fine.mean, stats_se(&fine));
    assert_true(coarse.mean < 0.05);
    assert_true(coarse.mean > 3 * fine.mean && coarse.mean < 6 * fine.mean);
}

/* ---------------------------------------------------------------------------- negative controls */

/* A kernel around another one, with one mistake. */
typedef enum {
    NO_MISTAKE,
    NO_SQUARES,  /* the weight without h/4 (|g0|^2 - |g1|^2) */
    HALF_DRIFT,  /* the weight with (y-x).g0/2 instead of (y-x).(g0+g1)/2 */
    NO_SIGMA,    /* the weight of noise scale 1 */
    WRONG_THETA, /* the move drifts at the current theta, the weight believes at the previous one */
    AFTER_MOVE,  /* an invariant kernel weighed where it has moved to */
    LATE,        /* log G of the step before */
    NO_WEIGHT,   /* log G = 0 */
    NO_KINETIC,  /* the weight of a kernel with momentum without the momentum */
    LEFT_BEHIND  /* momentum belongs to the particle's number, not to the particle */
} mistake;

typedef struct {
    sosmc_kernel inner;
    mistake kind;
    double *late;    /* log G of the last step, per particle */
    double *logmean; /* sum over steps of log mean_i G: log Z as if the incoming weights were equal */
    double *batch;   /* running sum of G and count within a step */
    double *left;    /* momentum by particle number */
} faulty;

/* log G at the previous theta's g0 and the new one's g1; backward and squares are 1, or 0 to leave a term out */
static double langevin_weight(const sosmc_move *m, int i, double sigma, double backward, double squares)
{
    double dot = 0, norms = 0;
    for (int j = 0; j < m->b.dim; j++) {
        size_t e = (size_t)j * (size_t)m->b.ld + (size_t)i;
        dot += 0.5 * (m->x_new[e] - m->x[e]) * (m->gx[e] + backward * m->gx_new[e]);
        norms += 0.25 * m->h * (m->gx[e] * m->gx[e] - m->gx_new[e] * m->gx_new[e]);
    }
    return m->U[i] - m->U_new[i] + (dot + squares * norms) / (sigma * sigma);
}

static void spoil(const faulty *f, sosmc_move *m)
{
    double sigma = f->inner.noise, U_prev[MOST];
    if (f->kind == AFTER_MOVE) (void)sosmc_evaluate(m, SOSMC_AT_PREVIOUS, m->x_new, U_prev, NULL);
    for (int i = 0; i < m->b.n; i++) {
        double right = m->logG[i], *late = f->late + m->b.first + i;
        switch (f->kind) {
        case NO_MISTAKE: break;
        case NO_SQUARES: m->logG[i] = langevin_weight(m, i, sigma, 1, 0); break;
        case HALF_DRIFT: m->logG[i] = langevin_weight(m, i, sigma, 0, 1); break;
        case NO_SIGMA: m->logG[i] = langevin_weight(m, i, 1, 1, 1); break;
        case WRONG_THETA: m->logG[i] = langevin_weight(m, i, sigma, 1, 1); break;
        case AFTER_MOVE: m->logG[i] = U_prev[i] - m->U_new[i]; break;
        case LATE: m->logG[i] = *late; break;
        case NO_WEIGHT: m->logG[i] = 0; break;
        case NO_KINETIC: m->logG[i] = m->U[i] - m->U_new[i]; break;
        case LEFT_BEHIND: f->left[m->b.first + i] = m->aux_new[i]; break;
        }
        *late = right;
        f->batch[0] += exp(right);
        f->batch[1] += 1;
    }
}

/* What the engine does for an invariant kernel: U and gx belong to theta before it steps. */
static int invariant_step(const sosmc_kernel *inner, const sosmc_move *m)
{
    double U[MOST], gx[MOST * MOST_DIM];
    sosmc_move now = *m;
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x, U, gx);
    now.theta_prev = m->theta;
    now.U = U;
    now.gx = gx;
    return rc ? rc : inner->step(inner, &now);
}

static int faulty_step(const sosmc_kernel *k, sosmc_move *m)
{
    const faulty *f = k->self;
    int particles = (int)f->batch[2];
    if (m->b.first == 0) f->batch[0] = f->batch[1] = 0;
    sosmc_move left = *m;
    left.aux = f->left + m->b.first; /* padding is read: there is room */
    int first = m->rng.step <= 1;    /* the momenta that the engine drew */
    int rc = f->kind == AFTER_MOVE              ? invariant_step(&f->inner, m)
             : f->kind == LEFT_BEHIND && !first ? f->inner.step(&f->inner, &left)
                                                : f->inner.step(&f->inner, m);
    if (rc) return rc;
    spoil(f, m);
    if ((int)f->batch[1] == particles) *f->logmean += log(f->batch[0] / f->batch[1]);
    return 0;
}

/* A Metropolis kernel that accepts everything: its proposal, with the weight of an invariant kernel. */
static int accept_all(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(m->h);
    return ula.step(&ula, m);
}

typedef struct {
    faulty f;
    double late[MOST], logmean, batch[3], left[2 * MOST];
    experiment e;
    stats_tally tally[ESTIMATES];
} control;

static void begin(control *c, sosmc_kernel inner, mistake kind, int t)
{
    row r = {{0, SOSMC_SYSTEMATIC, 0, SOSMC_ORDER_PAPER, t, 1}}; /* never resample */
    memset(c, 0, sizeof *c);
    prepare(&c->e, r);
    c->f = (faulty){
        .inner = inner, .kind = kind, .late = c->late, .logmean = &c->logmean, .batch = c->batch, .left = c->left};
    c->batch[2] = targets[t].particles;
    c->e.settings.kernel = inner;
    c->e.settings.kernel.invariant = 0;
    c->e.settings.kernel.step = faulty_step;
    c->e.settings.kernel.self = &c->f;
    c->e.settings.seed = 77000000;
}

enum { CONTROL_REPLICATES = 4000 };

static void spoilt_weights_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static control c;
    begin(&c, kernel_of(0), NO_MISTAKE, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    for (int k = 0; k < ESTIMATES; k++)
        stats_compare(&ledger, &c.tally[k], expected(k), "positive control, %s", estimate_name[k]);
    comparisons += stats_close(&ledger);

    begin(&c, kernel_of(0), NO_SQUARES, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[SPREAD], 0, "ULA weight without its squares, spread");
    begin(&c, kernel_of(0), HALF_DRIFT, 1);
    c.e.settings.scheme.ess_min = 2; /* such weights leave few particles otherwise */
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[SPREAD], 0, "ULA weight without the backward drift, spread");
    begin(&c, kernel_of(4), NO_SIGMA, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[SPREAD], 0, "ULA weight without sigma, spread");
    begin(&c, kernel_of(1), WRONG_THETA, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[COORDINATE], 0, "ULA weight with a gradient at the wrong theta, x");
    begin(&c, kernel_of(6), AFTER_MOVE, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[SPREAD], 0, "MALA weighed where it has moved to, spread");
    begin(&c, kernel_of(0), LATE, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[RATIO], 1, "weights one step late, Zhat/Z");
    begin(&c, kernel_of(0), NO_WEIGHT, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[RATIO], 1, "no incremental weights, Zhat/Z");
    stats_must_notice(&ledger, &c.tally[LOGGED_SCORE], 0, "no incremental weights, mean_score");
}

/* With little friction or none, so that momentum matters. */
static void spoilt_momentum_is_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static control c;
    begin(&c, kernel_of(UNDERDAMPED), NO_MISTAKE, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    for (int k = 0; k < ESTIMATES; k++)
        stats_compare(&ledger, &c.tally[k], expected(k), "positive control with momentum, %s", estimate_name[k]);
    comparisons += stats_close(&ledger);

    begin(&c, kernel_of(FRICTIONLESS), NO_MISTAKE, 1);
    c.e.settings.kernel.begin = NULL;
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[COORDINATE], 0, "momentum that begins at zero, x");
    begin(&c, kernel_of(UNDERDAMPED), NO_KINETIC, 1);
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[RATIO], 1, "weights without the kinetic energy, Zhat/Z");
    begin(&c, kernel_of(FRICTIONLESS), LEFT_BEHIND, 1);
    c.e.settings.scheme.ess_min = 2;
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[COORDINATE], 0, "momentum left behind by resampling, x");
}

static void forgotten_rejections_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static control c;
    begin(&c, kernel_of(6), NO_MISTAKE, 1);
    c.e.settings.kernel = kernel_of(6);
    c.e.settings.kernel.step = accept_all;
    c.e.settings.kernel.metropolis = 0;
    c.e.settings.kernel.scratch = sosmc_ula(1).scratch;
    run(&c.e, CONTROL_REPLICATES, c.tally);
    stats_must_notice(&ledger, &c.tally[SPREAD], 0, "MALA that never rejects, spread");
}

static void forgotten_weights_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static control c;
    for (int t = 0; t < TARGETS; t++) {
        begin(&c, kernel_of(0), NO_MISTAKE, t);
        c.e.exact.forget = 1;
        run(&c.e, CONTROL_REPLICATES, c.tally);
        stats_must_notice(&ledger, &c.tally[COORDINATE], 0, "the cloud without its weights, x");
    }
}

/* With weights kept between steps, log Z must use them: the product of plain means of G is something else. */
static void normalising_constants_without_incoming_weights_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally plain = {0};
    static control c;
    for (int r = 0; r < stats_replicates(CONTROL_REPLICATES); r++) {
        stats_tally one[ESTIMATES];
        begin(&c, kernel_of(0), NO_MISTAKE, 1);
        c.e.problem.init = toy_normal_exact(&targets[1].exact);
        c.e.settings.seed += (uint64_t)r;
        stats_run(&c.e.problem, &c.e.settings, c.e.iterations, 1, read_off, &c.e.exact, ESTIMATES, one);
        stats_add(&plain, exp(c.logmean - truth_of(1, 1).logz));
    }
    stats_must_notice(&ledger, &plain, 1, "log Z without the incoming weights");
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_occurs),
        cmocka_unit_test(weighted_moments_and_normalising_constants),
        cmocka_unit_test(leapfrog_is_of_second_order),
        cmocka_unit_test(spoilt_weights_are_noticed),
        cmocka_unit_test(spoilt_momentum_is_noticed),
        cmocka_unit_test(forgotten_rejections_are_noticed),
        cmocka_unit_test(forgotten_weights_are_noticed),
        cmocka_unit_test(normalising_constants_without_incoming_weights_are_noticed),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
