/* check.c: tests a problem before anyone waits for its run, and says what it found in numbers and sentences.
 *
 *   gradients   differences of the energy along a direction are the derivative that is claimed there, up to the rounding of the
 *               energy, which shows in them
 *   purity      energies are repeatable, and each depends on its own particle alone (check_model.c)
 *   scores      those of a model are what grad_theta gives for single particles
 *   weights     along a closed path of theta, E[Z_K] = E[Z_0] with fixed steps, whatever Z is: the weights are unbiased
 *   numbers     a short run of the problem itself stays finite
 *   threads     it has the same bits with several threads
 *   step        an unadjusted kernel's step is small enough for the curvature of U: otherwise a warning (check_step.c)
 *
 * The exp, log and cos of libm may be used here, because no state of a run depends on a check. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "check_inside.h"
#include "base/scores.h"
#include "base/tiles.h"

enum { PARTICLES = PROBE_PARTICLES, REPLICATES = 400, PATH = 8, SHORT_RUN = 20 };

/* What the checks share. */
typedef struct {
    const sosmc_problem *problem;
    const sosmc_settings *settings;
    int64_t iterations;
    int threads;
    sosmc_check_report *report;
    sosmc_status status; /* SOSMC_ENOMEM once memory ran out */
} checking;

static void note(checking *c, const char *name, int verdict, double value, double error, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
static void note(checking *c, const char *name, int verdict, double value, double error, const char *format, ...)
{
    sosmc_check_item *item = &c->report->item[c->report->count++];
    va_list arguments;
    *item = (sosmc_check_item){
        .name = name, .verdict = verdict, .value = value, .error = error, .limit = NAN, .coordinate = -1};
    va_start(arguments, format);
    (void)vsnprintf(item->sentence, sizeof item->sentence, format, arguments);
    va_end(arguments);
    c->report->failed += verdict == SOSMC_CHECK_FAIL;
    c->report->warned += verdict == SOSMC_CHECK_WARN;
}

/* Completes the item that was noted last. */
static void note_limit(checking *c, double limit, int64_t coordinate)
{
    sosmc_check_item *item = &c->report->item[c->report->count - 1];
    item->limit = limit;
    item->coordinate = coordinate;
}

/* The engine's own sentence, where a run failed. */
static void note_failure(checking *c, const char *name, const sosmc *s, sosmc_status status)
{
    if (status == SOSMC_ENOMEM) c->status = status;
    note(c, name, SOSMC_CHECK_FAIL, NAN, NAN, "%s", sosmc_message(s));
}

/* ---------------------------------------------------------------------------- differences of U */

/* How the derivative of U along a direction compares with the claimed one. */
typedef struct {
    double ratio; /* of differences of U to the claim; NaN: U is not finite there */
    double error; /* by which the ratio of a right gradient may be away from 1 */
    int failed;
} slope_fit;

static int is_wrong(slope_fit fit) { return fabs(fit.ratio - 1) > fit.error; }

/* The summed energy at `at` + e v; `at`, of length n, comes back as it was. *size: a bound of the energies so far. */
static double energy_at(probe *p, double *at, size_t n, double e, double *size, int *failed)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) at[i] += e * p->v[i];
    double U = sosmc_i_probe_energy(p, NULL, failed);
    for (size_t i = 0; i < n; i++) at[i] -= e * p->v[i];
    for (int i = 0; i < PARTICLES; i++) sum += fabs(p->U[i]);
    if (isfinite(sum)) *size = fmax(*size, sum);
    return U;
}

/* The change of the summed energy from -e v to e v; *still: of how many particles the energy does not change. */
static double difference(probe *p, double *at, size_t n, double e, double *size, int *still, int *failed)
{
    double ahead[PARTICLES], U = energy_at(p, at, n, e, size, failed);
    memcpy(ahead, p->U, sizeof ahead);
    U -= energy_at(p, at, n, -e, size, failed);
    *still = 0;
    for (int i = 0; i < PARTICLES; i++) *still += p->U[i] == ahead[i];
    return U;
}

/* Central differences D_k with steps e_k, each half of the one before. What D_k and D_{k-1} differ by, times e_k, falls as e_k^3 until
 * the rounding of U holds it up, however large that is and wherever it comes from. So the largest of these products at e_k and below,
 * over e_k, bounds the error of D_k, and the step with the least bound is taken; but none so small that a particle's energy, which
 * changes along the largest, is rounded to no change. */
static slope_fit fit_slope(probe *p, double *at, size_t n, double derivative)
{
    enum { STEPS = 40, LARGE = 300 };
    static const double SAFE = 4;
    double D[STEPS], e = 0.25, size = 1, least = INFINITY, measured = NAN;
    slope_fit fit = {.ratio = NAN, .error = NAN};
    int still[STEPS];
    double base = energy_at(p, at, n, 0, &size, &fit.failed), first = size;
    for (int k = 0; k < LARGE && isfinite(base); k++, e *= 0.5) { /* until U changes by no more than its size */
        double there = size;
        if (fabs(energy_at(p, at, n, e, &there, &fit.failed) - base) <= size) break;
    }
    for (int k = 0; k < STEPS; k++, e *= 0.5) D[k] = difference(p, at, n, e, &size, &still[k], &fit.failed) / (2 * e);
    /* the energies of our networks, which compute in float, were seen to be wrong by up to ten times `rounding` */
    double noise = fmax(64 * DBL_EPSILON, 10 * p->model->rounding) * size;
    for (int k = STEPS - 1; k > 0; k--) {
        e *= 2;
        double differ = e * fabs(D[k] - D[k - 1]);
        if (isfinite(differ)) noise = fmax(noise, differ);
        if (!isfinite(differ) || still[k] > still[0] || !(noise / e < least)) continue;
        least = noise / e;
        measured = D[k];
    }
    /* A gradient in single precision is no fault where the energy has double. */
    double allowed = SAFE * least + FLT_EPSILON * (first + 100 * fabs(derivative));
    fit.ratio = derivative == 0 && fabs(measured) <= allowed ? 1 : measured / derivative;
    fit.error = derivative == 0 ? 0 : allowed / fabs(derivative);
    return fit;
}

/* `at` has `rows` coordinates of `each` numbers; p->g is what is claimed there, p->v the direction in which it was found wrong. */
static void judge_gradient(checking *c, const char *name, const char *callback, probe *p, double *at, int rows,
                           int each, slope_fit fit)
{
    if (fit.failed) {
        note(c, name, SOSMC_CHECK_FAIL, NAN, NAN, "the callback returned an error");
        return;
    }
    if (isnan(fit.ratio)) {
        note(c, name, SOSMC_CHECK_UNKNOWN, NAN, NAN,
             "the energies or the gradients of the first particles are not finite");
        return;
    }
    if (!is_wrong(fit)) {
        note(c, name, SOSMC_CHECK_OK, fit.ratio, fit.error,
             "differences of the energy over the claimed derivative: %.9g +- %.1g (expected 1)", fit.ratio, fit.error);
        note_limit(c, 1, -1);
        return;
    }
    wrong_place w = sosmc_i_check_place(p, at, rows, each);
    note(
        c, name, SOSMC_CHECK_FAIL, fit.ratio, fit.error,
        "%s does not match the energy: differences of the energy over the claimed derivative: %.6g +- %.1g (expected 1); in "
        "coordinate %lld, counted from 0, it says %.6g, and differences of the energy %.6g",
        callback, fit.ratio, fit.error, (long long)w.coordinate, w.claimed, w.measured);
    note_limit(c, 1, w.coordinate);
}

/* Turns v to the side of g, coordinate by coordinate, and returns the derivative g.v that is claimed along it. In a direction
 * that is independent of g the contributions of the particles may cancel, and with them their errors. */
static double claimed_along(size_t n, const double *g, double *v)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        v[i] = copysign(v[i], g[i]);
        sum += g[i] * v[i];
    }
    return sum;
}

static slope_fit fit_gradient_x(probe *p)
{
    size_t nx = (size_t)p->model->dim_x * PARTICLES;
    int failed = 0;
    (void)sosmc_i_probe_energy(p, p->g, &failed);
    sosmc_normals((sosmc_rng){.seed = 1, .stream = SOSMC_STREAM_USER}, &p->b, p->v);
    slope_fit fit = fit_slope(p, p->x, nx, claimed_along(nx, p->g, p->v));
    fit.failed |= failed;
    return fit;
}

static slope_fit fit_gradient_theta(probe *p)
{
    const sosmc_model *m = p->model;
    size_t nt = (size_t)m->dim_theta;
    int failed = 0;
    double ones[PARTICLES];
    for (int i = 0; i < PARTICLES; i++) ones[i] = 1;
    memset(p->g, 0, nt * sizeof(double));
    (void)sosmc_i_probe_energy(p, NULL, &failed);
    if (!m->grad_theta || m->grad_theta(m->self, p->theta, &p->b, ones, p->g)) failed = 1;
    for (size_t i = 0; i < nt; i++) p->v[i] = cos(1.0 + 2.0 * (double)i); /* any lengths without zeros */
    slope_fit fit = fit_slope(p, p->theta, nt, claimed_along(nt, p->g, p->v));
    fit.failed |= failed;
    return fit;
}

sosmc_status sosmc_i_check_gradients(const sosmc_problem *problem, const sosmc_settings *settings, double *ratio,
                                     double *error, const char **which)
{
    probe p;
    sosmc_status status = sosmc_i_probe_open(&p, problem, settings->seed);
    if (status != SOSMC_OK) return status;
    slope_fit x = {.ratio = NAN}, theta = {.ratio = NAN};
    if (settings->kernel.uses_gradient && !settings->kernel.uses_prox) x = fit_gradient_x(&p);
    if (problem->objective.scale != 0 && !problem->objective.H) theta = fit_gradient_theta(&p);
    const int failed = x.failed || theta.failed;
    *which = is_wrong(x) ? "dU/dx" : "grad_theta";
    *ratio = failed ? NAN : is_wrong(x) ? x.ratio : theta.ratio;
    *error = is_wrong(x) ? x.error : theta.error;
    sosmc_i_probe_close(&p);
    return failed ? SOSMC_EMODEL : SOSMC_OK;
}

static void check_gradient_x(checking *c, probe *p)
{
    if (!c->settings->kernel.uses_gradient) return;
    if (c->settings->kernel.uses_prox)
        note(c, "gradient in x", SOSMC_CHECK_SKIP, NAN, NAN,
             "gx is the gradient of the smooth part of U alone, for which there is no energy to compare it with");
    else
        judge_gradient(c, "gradient in x", "gx", p, p->x, p->model->dim_x, PARTICLES, fit_gradient_x(p));
}

static void check_gradient_theta(checking *c, probe *p)
{
    if (c->problem->objective.scale == 0) /* theta stays, or follows a path of its own: its gradient is not used */
        note(c, "gradient in theta", SOSMC_CHECK_SKIP, NAN, NAN, "nothing is optimised");
    else
        judge_gradient(c, "gradient in theta", "grad_theta", p, p->theta, p->model->dim_theta, 1,
                       fit_gradient_theta(p));
}

/* The largest error among the particles' scores for one parameter, relative to the largest of them, or to `floor` where all of
 * them are smaller; infinite where only one of two is a number. */
static double score_error(const double *own, const double *derived, double floor)
{
    double size = floor, most = 0;
    for (int i = 0; i < PARTICLES; i++)
        if (isfinite(derived[i])) size = fmax(size, fabs(derived[i]));
    for (int i = 0; i < PARTICLES; i++) {
        if (own[i] == derived[i] || (isnan(own[i]) && isnan(derived[i]))) continue;
        double error = fabs(own[i] - derived[i]) / size;
        most = isfinite(error) ? fmax(most, error) : INFINITY;
    }
    return most;
}

static void judge_scores(checking *c, const probe *p, const double *own, const double *derived, int fresh)
{
    const size_t nt = (size_t)p->model->dim_theta;
    const double allowed = fmax(1e-8, 16 * p->model->rounding);
    double floor = DBL_MIN, most = 0;
    size_t where = 0;
    for (size_t e = 0; e < nt * PARTICLES; e++)
        if (isfinite(derived[e])) floor = fmax(floor, 1e-4 * fabs(derived[e])); /* below lies what cancels */
    for (size_t j = 0; j < nt; j++) {
        double error = score_error(own + j * PARTICLES, derived + j * PARTICLES, floor);
        if (error > most) most = error, where = j;
    }
    if (!(most <= allowed))
        note(c, "scores", SOSMC_CHECK_FAIL, most, NAN,
             "scores and grad_theta differ for parameter %zu by %.3g of its largest score%s", where, most,
             fresh ? ", in a batch that is fresh" : "");
    else if (fresh)
        note(c, "scores", SOSMC_CHECK_OK, most, NAN, "each is what grad_theta gives for its particle alone");
    else
        return;
    note_limit(c, allowed, most <= allowed ? -1 : (int64_t)where);
}

/* Both of a batch that is fresh and of one that is not, because a model may keep what its energy computed. */
static void check_scores(checking *c, probe *p)
{
    const sosmc_model *m = p->model;
    const size_t table = (size_t)m->dim_theta * PARTICLES;
    int failed = 0, before = c->report->failed;
    sosmc_model without = *m;
    without.scores = NULL;
    if (!m->scores || !m->grad_theta) return;
    double *scratch = sosmc_i_host_scores_room(&without, PARTICLES, 2);
    if (!scratch) {
        c->status = SOSMC_ENOMEM;
        return;
    }
    double *derived = scratch + sosmc_i_scores_scratch(&without), *own = derived + table;
    for (int fresh = 0; fresh < 2 && c->report->failed == before; fresh++) {
        sosmc_batch b = p->b;
        b.fresh = fresh;
        (void)sosmc_i_probe_energy(p, fresh ? p->g : NULL, &failed);
        for (size_t e = 0; e < table; e++) own[e] = derived[e] = 0;
        failed |= sosmc_i_scores(&without, p->theta, &b, scratch, derived) != 0;
        failed |= m->scores(m->self, p->theta, &b, own) != 0;
        if (failed)
            note(c, "scores", SOSMC_CHECK_FAIL, NAN, NAN, "the callback returned an error");
        else
            judge_scores(c, p, own, derived, fresh);
    }
    free(scratch);
}

static void check_purity(checking *c, probe *p)
{
    int coupled;
    if (sosmc_i_check_differs(p))
        note(c, "repeated", SOSMC_CHECK_FAIL, NAN, NAN,
             "the energies of the same particles at the same theta are others when they are asked for again");
    else if ((coupled = sosmc_i_check_coupled(p)) >= 0)
        note(
            c, "particles", SOSMC_CHECK_FAIL, NAN, NAN,
            "the energy of particle %d is another when the rest of its batch is; it must depend on that particle alone",
            coupled);
}

static void check_gradients(checking *c)
{
    probe p;
    sosmc_status status = sosmc_i_probe_open(&p, c->problem, c->settings->seed);
    if (status != SOSMC_OK) {
        if (status == SOSMC_ENOMEM) c->status = status;
        note(c, "initial law", SOSMC_CHECK_FAIL, NAN, NAN, "particles could not be drawn");
        return;
    }
    check_purity(c, &p);
    check_gradient_x(c, &p);
    check_gradient_theta(c, &p);
    check_scores(c, &p);
    sosmc_i_probe_close(&p);
}

/* ---------------------------------------------------------------------------- unbiased weights */

typedef struct {
    const double *start; /* NULL: zeros */
    double size;
} closed_path;

static void follow_path(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const closed_path *p = o->self;
    double there = 2.0 * (double)(k + 1 <= PATH / 2 ? k + 1 : PATH - (k + 1)) / PATH; /* 0 -> 1 -> 0 */
    for (int j = 0; j < dim; j++) theta[j] = (p->start ? p->start[j] : 0) + p->size * there * cos(1.0 + j);
}

/* Why the weights cannot be judged, before anything has run; NULL: perhaps they can. */
static const char *no_weights(const checking *c)
{
    if (!c->settings->scheme.weighted) return "the scheme has none";
    return c->problem->objective.scale == 0 ? "nothing is optimised" : NULL;
}

/* The same, once log Z at the end of the path is known. */
static const char *no_log_z(const checking *c, double end)
{
    const sosmc_source *init = &c->problem->init;
    if (isnan(end)) return "the initial law has no density and is not exact, so log Z is unknown";
    if (init->logpdf && !init->exact && c->settings->scheme.order != SOSMC_ORDER_PAPER)
        return "with the authors' order, checked for exact initial laws only";
    return NULL;
}

static void skip_weights(checking *c, const char *why) { note(c, "weights", SOSMC_CHECK_SKIP, NAN, NAN, "%s", why); }

/* log Z where the path begins and where it ends, of one replicate; 0: the run failed, which is noted. */
static int walk_path(checking *c, const sosmc_settings *cfg, double *start, double *end)
{
    int paper = cfg->scheme.order == SOSMC_ORDER_PAPER;
    sosmc *s = NULL;
    sosmc_status status = sosmc_create(&s, c->problem, cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, 1, NULL, NULL);
    *start = status == SOSMC_OK && paper ? sosmc_last(s)->logz : 0;
    if (status == SOSMC_OK) status = sosmc_run(s, paper ? PATH : PATH - 1, NULL, NULL);
    if (status == SOSMC_OK)
        *end = sosmc_last(s)->logz;
    else
        note_failure(c, "weights", s, status);
    sosmc_free(s);
    return status == SOSMC_OK;
}

/* ess: the effective number of paths. Few of them carry a mean whose error they do not show; and where the error is large, the test
 * is passed whatever the weights are. */
static void judge_weights(checking *c, double begun, double sum, double square, double ess)
{
    static const double ENOUGH = 0.25 * REPLICATES, PRECISE = 0.02;
    char why[96] = "";
    double mean = sum / REPLICATES, se = sqrt(fmax(square / REPLICATES - mean * mean, 0) / (REPLICATES - 1)) / begun;
    mean = 1 + mean / begun;
    int wrong = !(fabs(mean - 1) < 4.5 * fmax(se, 1e-12)), known = ess >= ENOUGH && (wrong || se <= PRECISE);
    if (!known)
        (void)snprintf(why, sizeof why, ": too coarse to tell, from an effective %.2g of %d paths", ess,
                       (int)REPLICATES);
    note(c, "weights",
         !known  ? SOSMC_CHECK_UNKNOWN
         : wrong ? SOSMC_CHECK_FAIL
                 : SOSMC_CHECK_OK,
         mean, se, "Z along a closed path of theta returns to %.4f +- %.4f (expected 1)%s", mean, se,
         known && wrong ? "; U, its gradient and the kernel do not agree" : why);
    note_limit(c, 1, -1);
}

static void check_weights(checking *c)
{
    /* far enough to see a wrong weight, near enough for the right ones to have a variance */
    closed_path path = {.start = c->problem->theta0, .size = 1.5 / sqrt(c->problem->model.dim_theta)};
    double shift = 0, begun = 0, sum = 0, square = 0, ended = 0, spread = 0, start = NAN, end = NAN;
    const char *why = no_weights(c);
    sosmc_settings cfg = *c->settings;
    if (why) {
        skip_weights(c, why);
        return;
    }
    cfg.scheme.particles = cfg.scheme.pool = 50;
    cfg.threads = 1;
    cfg.adapt[0].factor = cfg.adapt[1].factor = 1; /* adapted steps would bias Z at order 1/N */
    cfg.optimiser = (sosmc_optimiser){.name = "path", .self = &path, .step = follow_path};
    for (int r = 0; r < REPLICATES; r++) {
        cfg.seed = (uint64_t)r + 1;
        if (!walk_path(c, &cfg, &start, &end)) return;
        if ((why = no_log_z(c, end))) {
            skip_weights(c, why);
            return;
        }
        if (r == 0) shift = start;
        double gain = exp(end - shift) -
                      exp(start - shift); /* mean zero, though the quotient of the two would not be 1 */
        begun += exp(start - shift) / REPLICATES;
        ended += exp(end - shift);
        spread += exp(2 * (end - shift));
        sum += gain;
        square += gain * gain;
    }
    judge_weights(c, begun, sum, square, ended * ended / spread);
}

/* ---------------------------------------------------------------------------- short runs */

static void check_short_run(checking *c)
{
    sosmc *s = NULL;
    sosmc_settings cfg = *c->settings;
    if (cfg.scheme.particles > 1000) {
        cfg.scheme.particles = 1000;
        if (cfg.scheme.pool > cfg.scheme.particles && cfg.scheme.pool == c->settings->scheme.particles)
            cfg.scheme.pool = 1000;
    }
    sosmc_status status = sosmc_create(&s, c->problem, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, c->iterations, NULL, NULL);
    if (status == SOSMC_OK) {
        int bad = sosmc_last(s)->nonfinite;
        note(c, "short run", bad ? SOSMC_CHECK_FAIL : SOSMC_CHECK_OK, bad, NAN, "%lld iterations, all values finite%s",
             (long long)c->iterations, bad ? " but for some particles of the last" : "");
        note_limit(c, 0, -1);
        const char *why = sosmc_why_no_loss(s);
        if (why) note(c, "no loss", SOSMC_CHECK_NOTE, NAN, NAN, "%s", why);
    } else {
        note_failure(c, "short run", s, status);
    }
    sosmc_free(s);
}

/* The state after a few iterations of a cloud of several tiles; 0: the run failed, which is noted. */
static int hash_with(checking *c, int threads, uint64_t *hash)
{
    enum { ITERATIONS = 10 };
    sosmc *s = NULL;
    sosmc_settings cfg = *c->settings;
    const sosmc_model *m = &c->problem->model;
    int tiles = cfg.scheme.keep > 1 ? 2 : 8; /* what is kept of several sweeps takes memory */
    int particles = tiles * sosmc_i_tile(m->tile, m->dim_x, INT32_MAX);
    if (cfg.scheme.pool == cfg.scheme.particles || cfg.scheme.pool < particles) cfg.scheme.pool = particles;
    cfg.scheme.particles = particles;
    cfg.threads = threads;
    sosmc_status status = sosmc_create(&s, c->problem, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, ITERATIONS, NULL, NULL);
    if (status == SOSMC_OK)
        *hash = sosmc_hash(s);
    else
        note_failure(c, "threads", s, status);
    sosmc_free(s);
    return status == SOSMC_OK;
}

static void check_threads(checking *c)
{
    enum { TRIES = 5 };
    uint64_t alone, together;
    int differ = 0;
    if (c->threads < 2) return;
    if (c->problem->model.tile >= c->settings->scheme.particles) {
        note(c, "threads", SOSMC_CHECK_SKIP, NAN, NAN,
             "all particles are one batch, so only one thread calls the model");
        return;
    }
    if (!hash_with(c, 1, &alone)) return;
    for (int i = 0; i < TRIES; i++) {
        if (!hash_with(c, c->threads, &together)) return;
        differ += together != alone;
    }
    note(c, "threads", differ ? SOSMC_CHECK_FAIL : SOSMC_CHECK_OK, differ, NAN,
         differ ? "%d threads at once give other numbers than one: a callback writes to memory that the threads share"
                : "%d threads at once give the bits of one",
         c->threads);
    note_limit(c, 0, -1);
}

/* ---------------------------------------------------------------------------- all of them */

static void check_step(checking *c)
{
    sosmc_step_check *step = &c->report->step;
    if (sosmc_check_step(c->problem, c->settings, step) == SOSMC_ENOMEM) c->status = SOSMC_ENOMEM;
    if (!(step->beyond > 1)) return;
    note(
        c, "step", SOSMC_CHECK_WARN, step->beyond, NAN,
        "kernel.h is %.4g, %.3g times the largest that is safe for unadjusted moves: the potential has a curvature of %.4g at "
        "the first particles; take a kernel.h of at most %.2g, or sosmc_mala",
        c->settings->kernel.h, step->beyond, step->curvature, step->largest);
    note_limit(c, 1, -1);
}

sosmc_status sosmc_check(const sosmc_problem *problem, const sosmc_settings *settings,
                         const sosmc_check_options *options, sosmc_check_report *report)
{
    STANDARD_ARITHMETIC;
    sosmc_settings any = sosmc_defaults(); /* a kernel that needs what the model has */
    any.kernel.uses_gradient = !problem->model.no_gx;
    any.kernel.uses_prox = problem->model.prox != NULL;
    checking c = {.problem = problem,
                  .settings = settings ? settings : &any,
                  .iterations = SHORT_RUN,
                  .threads = 2,
                  .report = report};
    if (options && options->iterations) c.iterations = options->iterations > 0 ? options->iterations : 0;
    if (options && options->threads > 0) c.threads = options->threads;
    *report = (sosmc_check_report){.count = 0};
    check_gradients(&c);
    if (!settings) return c.status;
    check_weights(&c);
    check_short_run(&c);
    check_threads(&c);
    check_step(&c);
    return c.status;
}
