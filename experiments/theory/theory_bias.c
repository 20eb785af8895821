/* theory_bias.c: the bias of the self-normalised gradient (Remark 3), and that of ULA without and with weights.
 *
 * A bias of order 1/N is hard to measure directly, because the errors of a mean are of order N^-1/2. Along a given path from
 * exact draws there is an identity that removes most of the noise,
 *
 *     E[ (Z_hat/Z) (g_hat - g) ] = 0,     hence     E[ g_hat - g ] = E[ (g_hat - g) (1 - Z_hat/Z) ],
 *
 * and the right side is a mean of products of two small numbers, whose relative error does not depend on N. Along the
 * optimiser's own path there is no such identity. There the difference to the given path under the same noise is averaged,
 * which is small as well, and the bias of the given path is added. The same identity with the weight of a single particle
 * gives the bias of unweighted ULA at any h: E[ phi(X) ] - pi(phi) = E[ (1 - W) (phi(X) - pi(phi)) ]. */
#include <math.h>
#include <string.h>

#include "common/squares.h"
#include "terminal/say.h"
#include "theory_kernels.h"
#include "theory_runs.h"

/* ------------------------------------------------------------------------------------------------ Remark 3 */

enum { SIZES = 6, SMALLEST = 32 };
enum { GIVEN_BIAS, GIVEN_DIRECT, GIVEN_MSE, OWN_BIAS, OWN_MSE, THETA_MSE, MEASURED };
static const char *const measured_name[MEASURED] = {"bias, given path", "the same, direct", "MSE, given path",
                                                    "bias, own path",   "MSE, own path",    "MSE of θ, own path"};
static const double rate = 0.5; /* the rate of the stage's path (theory_kernels.c) */

/* An optimiser that stores the gradient of the last update and the theta at which it was taken. It follows `path`, or
 * descends by the gradient. */
typedef struct {
    const theory_path *path; /* NULL: descend */
    double *theta, *gradient;
} watcher;

static void watch(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const watcher *w = o->self;
    memcpy(w->theta, theta, (size_t)dim * sizeof *theta);
    memcpy(w->gradient, g, (size_t)dim * sizeof *g);
    if (w->path)
        memcpy(theta, w->path->theta[k + 1 < THEORY_STEPS ? k + 1 : THEORY_STEPS], (size_t)dim * sizeof *theta);
    else
        for (int j = 0; j < dim; j++) theta[j] -= o->lr * g[j];
}

typedef struct {
    const theory_stage *stage;
    theory_lattice *lattice;
    sosmc_problem problem;
    sosmc_rows rows;
} remark;

/* Runs once to the last theta of the path. `error` receives the error of the gradient there, `ratio` Z_hat/Z where it is
 * known, else NaN. */
static int run_once(const remark *r, const sosmc_scheme *scheme, int own, uint64_t seed, theory_statement *s,
                    double *theta, double *error, double *ratio)
{
    double gradient[THEORY_DIM], exact[THEORY_DIM];
    watcher w = {.path = own ? NULL : &r->stage->path, .theta = theta, .gradient = gradient};
    sosmc_optimiser watched = {.name = "watched", .lr = rate, .self = &w, .step = watch};
    sosmc_settings settings = theory_settings(scheme->particles, 0, theory_kernel_at(0, r->stage).kernel, watched,
                                              seed);
    sosmc_info last = {0};
    settings.scheme = *scheme;
    int code = theory_engine(s, &r->problem, &settings, THEORY_STEPS + 1, (theory_ending){.last = &last});
    if (code) return code;
    if (own) theory_tabulate(r->stage->target, theta, r->lattice);
    const theory_lattice *at = own ? r->lattice : &r->stage->grid[THEORY_STEPS];
    theory_gradient(r->stage->target, theta, at, exact);
    for (int j = 0; j < THEORY_DIM; j++) error[j] = gradient[j] - exact[j];
    *ratio = own || !scheme->weighted ? NAN : exp(last.logz - (at->logz - r->stage->grid[0].logz));
    return 0;
}

/* Measures both paths with so many particles. The bias is that of the second component of the gradient; the squared errors
 * are those of both components. */
static int size_of(const theory_options *o, theory_statement *s, const remark *r, int particles,
                   theory_tally out[MEASURED])
{
    sosmc_scheme scheme = sosmc_scheme_sosmc(particles);
    int replicates = o->quick ? 400 : 6000;
    memset(out, 0, MEASURED * sizeof *out);
    for (int i = 0; i < replicates; i++) {
        uint64_t seed = theory_seed(o, 20, particles) + (uint64_t)i;
        double given[THEORY_DIM], own[THEORY_DIM], theta[THEORY_DIM], ratio = 0, unused = 0;
        const double *ideal = r->stage->path.theta[THEORY_STEPS];
        int code = run_once(r, &scheme, 0, seed, s, theta, given, &ratio);
        if (!code) code = run_once(r, &scheme, 1, seed, s, theta, own, &unused);
        if (code) return code;
        double by_identity = given[1] * (1 - ratio);
        theory_add(&out[GIVEN_BIAS], by_identity);
        theory_add(&out[GIVEN_DIRECT], given[1]);
        theory_add(&out[GIVEN_MSE], given[0] * given[0] + given[1] * given[1]);
        theory_add(&out[OWN_BIAS], own[1] - given[1] + by_identity);
        theory_add(&out[OWN_MSE], own[0] * own[0] + own[1] * own[1]);
        theory_add(&out[THETA_MSE], pow(theta[0] - ideal[0], 2) + pow(theta[1] - ideal[1], 2));
    }
    return 0;
}

/* The negative control: without weights the bias does not fall with N, and the check must notice it at the largest N. */
static int without_weights(const theory_options *o, theory_statement *s, const remark *r, double bound)
{
    sosmc_scheme scheme = sosmc_scheme_unweighted(SMALLEST << (SIZES - 1));
    theory_tally t = {0};
    for (int i = 0; i < (o->quick ? 200 : 1000); i++) {
        double error[THEORY_DIM], theta[THEORY_DIM], unused = 0;
        int code = run_once(r, &scheme, 0, theory_seed(o, 21, 0) + (uint64_t)i, s, theta, error, &unused);
        if (code) return code;
        theory_add(&t, error[1]);
    }
    theory_control(s, fabs(theory_z(&t, 0)) > bound, "weights left out, N = %d: bias %.4f, %.0f standard errors",
                   scheme.particles, t.mean, fabs(theory_z(&t, 0)));
    return 0;
}

typedef struct {
    double *n, *size[MEASURED], *error[MEASURED];
    theory_fit fit[MEASURED];
} curves;

static void draw_remark(theory_statement *s, const curves *c)
{
    static const int shown[] = {GIVEN_BIAS, OWN_BIAS, GIVEN_MSE, OWN_MSE, THETA_MSE};
    static const int colour[] = {PLOT_BLUE, PLOT_SKY, PLOT_VERMILION, PLOT_ORANGE, PLOT_GREEN};
    enum { SHOWN = 5 };
    plot_series *line = theory_figure(
        s, (plot_panel){.x_label = "particles N", .y_label = "bias, MSE", .log_x = 1, .log_y = 1}, SHOWN,
        "Bias (absolute value) and mean squared error of the self-normalised gradient after eight steps, along "
        "the given path and along the optimiser's own: all fall as 1/N.");
    for (int i = 0; line && i < SHOWN; i++)
        line[i] = (plot_series){.kind = PLOT_MARKS,
                                .label = measured_name[shown[i]],
                                .n = SIZES,
                                .x = c->n,
                                .y = c->size[shown[i]],
                                .colour = colour[i]};
}

static void words_of_remark(theory_statement *s)
{
    s->title = "Bias and mean squared error at finite N (Remark 3)";
    s->says =
        "For a fixed sequence of targets the self-normalised estimate has bias O(1/N) and mean squared error O(1/N). For "
        "the sequence that the optimiser chooses itself the paper proves nothing and leaves it to future work.";
    s->how =
        "ULA with resampling by ESS, eight steps of gradient descent on the skew target, from exact draws. Along the given "
        "path the bias comes from E[ĝ - g] = E[(ĝ - g)(1 - Ẑ/Z)], and directly beside it; along the optimiser's own path "
        "the exact gradient is taken by quadrature at the θ of each run. An exponent must be -1 up to 0.15 for the terms "
        "of higher order and the bound for chance.";
    s->table = (theory_table){
        .caption = "Gradient after eight steps: component 2 for the bias, both for the squares; times 1000",
        .align = "lrrrrrrr",
        .head = {"", "N = 32", "64", "128", "256", "512", "1024", "exponent"}};
}

static void rows_of_remark(theory_statement *s, curves *c, const theory_tally t[SIZES][MEASURED], double bound)
{
    for (int m = 0; m < MEASURED; m++) {
        char cell[SIZES][48], exponent[48] = "-";
        for (int i = 0; i < SIZES; i++) {
            c->n[i] = SMALLEST << i;
            c->size[m][i] = fabs(t[i][m].mean);
            c->error[m][i] = theory_se(&t[i][m]);
            (void)snprintf(cell[i], sizeof cell[i], "%.2f ± %.2f", 1e3 * t[i][m].mean, 1e3 * c->error[m][i]);
        }
        c->fit[m] = theory_power(SIZES, c->n, c->size[m], c->error[m]);
        int right = m == GIVEN_DIRECT || fabs(c->fit[m].slope + 1) <= 0.15 + bound * c->fit[m].error;
        if (m != GIVEN_DIRECT)
            (void)snprintf(exponent, sizeof exponent, "%.2f ± %.2f", c->fit[m].slope, c->fit[m].error);
        if (!right && m <= GIVEN_MSE) theory_fault(s, "%s goes as N^%.2f", measured_name[m], c->fit[m].slope);
        theory_marked_row(&s->table, right ? PAGE_PLAIN : PAGE_WARN, "%s|%s|%s|%s|%s|%s|%s|%s", measured_name[m],
                          cell[0], cell[1], cell[2], cell[3], cell[4], cell[5], exponent);
    }
}

int theory_finite_n(const theory_options *o, theory_statement *s)
{
    theory_stage stage[THEORY_STAGES];
    theory_tally t[SIZES][MEASURED];
    double bound = theory_bound(MEASURED + SIZES + 1);
    curves c = {.n = arena_doubles(&s->memory, SIZES)};
    words_of_remark(s);
    for (int m = 0; m < MEASURED; m++) {
        c.size[m] = arena_doubles(&s->memory, SIZES);
        c.error[m] = arena_doubles(&s->memory, SIZES);
    }
    remark r = {.stage = &stage[0], .lattice = arena_take(&s->memory, 1, sizeof *r.lattice)};
    if (theory_stages(&s->memory, stage) || s->memory.failed)
        return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    r.rows = (sosmc_rows){.data = theory_data, .rows = THEORY_DATA, .mode = SOSMC_ROWS_IN_ORDER};
    r.problem = theory_problem(r.stage, 1);
    r.problem.objective = sosmc_likelihood(sosmc_rows_source(&r.rows), THEORY_DATA);
    int code = 0;
    for (int i = 0; i < SIZES && !code; i++) code = size_of(o, s, &r, SMALLEST << i, t[i]);
    if (!code) code = without_weights(o, s, &r, bound);
    if (code) return code;
    for (int i = 0; i < SIZES; i++) {
        double apart = (t[i][GIVEN_DIRECT].mean - t[i][GIVEN_BIAS].mean) /
                       root_of_squares(theory_se(&t[i][GIVEN_DIRECT]), theory_se(&t[i][GIVEN_BIAS]));
        if (!(fabs(apart) <= bound)) theory_fault(s, "both ways to the bias are %.1f standard errors apart", apart);
    }
    rows_of_remark(s, &c, (const theory_tally(*)[MEASURED])t, bound);
    draw_remark(s, &c);
    int own = fabs(c.fit[OWN_BIAS].slope + 1) <= 0.15 + bound * c.fit[OWN_BIAS].error &&
              fabs(c.fit[OWN_MSE].slope + 1) <= 0.15 + bound * c.fit[OWN_MSE].error;
    claim_decide(
        &s->claim, 1, s->faults == 0 && own,
        "Given path: bias as N^%.2f, mean squared error as N^%.2f. The optimiser's own path, which the paper leaves open: "
        "N^%.2f and N^%.2f, and θ itself is off by N^%.2f in mean square.",
        c.fit[GIVEN_BIAS].slope, c.fit[GIVEN_MSE].slope, c.fit[OWN_BIAS].slope, c.fit[OWN_MSE].slope,
        c.fit[THETA_MSE].slope);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ ULA */

enum { STEPS_H = 4, WEIGHTED_H = 3, WEIGHTED_N = 3 };
static const double share[STEPS_H] = {0.025, 0.05, 0.1, 0.2}; /* h L */

/* A target with a theta that does not move, and its exact values. */
typedef struct {
    const theory_target *target;
    theory_path path;
    theory_lattice *lattice;
    double largest, square; /* E x^2 */
} rest;

static void settle(rest *r, const theory_target *target, const double *theta)
{
    r->target = target;
    for (int k = 0; k <= THEORY_STEPS; k++) memcpy(r->path.theta[k], theta, sizeof r->path.theta[k]);
    theory_tabulate(target, theta, r->lattice);
    r->largest = target->curvature(theta);
    r->square = 0;
    for (int i = 0; i < THEORY_NODES; i++) r->square += r->lattice->mass[i] * r->lattice->x[i] * r->lattice->x[i];
}

static sosmc_problem rest_problem(const rest *r)
{
    return (sosmc_problem){.model = theory_model(r->target),
                           .objective = sosmc_mmle(),
                           .init = theory_exact_source(r->lattice),
                           .theta0 = r->path.theta[0]};
}

/* Measures the bias of E x^2 after `steps` steps of independent particles in two ways: directly, and by the identity above. */
static int unweighted_bias(const rest *r, double h, int steps, int particles, uint64_t seed, theory_statement *s,
                           theory_tally *direct, theory_tally *by_identity)
{
    double *x = arena_doubles(&s->memory, particles), *logw = arena_doubles(&s->memory, particles);
    if (!x || !logw) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    sosmc_problem problem = rest_problem(r);
    sosmc_settings settings = theory_settings(particles, 0, sosmc_ula(h), theory_follow(&r->path), seed);
    sosmc_info last = {0};
    *direct = *by_identity = (theory_tally){0};
    int code = theory_engine(s, &problem, &settings, steps + 1, (theory_ending){x, logw, &last});
    for (int i = 0; i < particles && !code; i++) {
        double off = x[i] * x[i] - r->square;
        theory_add(direct, off);
        theory_add(by_identity, off * (1 - exp(logw[i] + (last.logz + log(particles)))));
    }
    return code;
}

static int unweighted_rows(const theory_options *o, theory_statement *s, const rest r[2], double bound,
                           double *const size[2], theory_fit fit[2])
{
    for (int t = 0; t < 2; t++) {
        double error[STEPS_H];
        for (int i = 0; i < STEPS_H; i++) {
            double h = share[i] / r[t].largest, a = 1 - share[i];
            int steps = (int)(4 / h);
            theory_tally direct = {0}, by = {0};
            int code = unweighted_bias(&r[t], h, steps, o->quick ? 8000 : 100000, theory_seed(o, 30, t * STEPS_H + i),
                                       s, &direct, &by);
            if (code) return code;
            /* N(0, 1): x_k has variance a^2k + 2u (1 - a^2k) / (1 - a^2) */
            double exact = t ? NAN : share[i] / 2 / (1 - share[i] / 2) * (1 - pow(a, 2 * steps));
            char known[32] = "";
            if (t == 0) (void)snprintf(known, sizeof known, "%.4f", exact);
            if (t == 0 && !(fabs(theory_z(&by, exact)) <= bound))
                theory_fault(s, "ULA on N(0, 1) at h = %g: bias %.5f instead of %.5f", h, by.mean, exact);
            double apart = (direct.mean - by.mean) / root_of_squares(theory_se(&direct), theory_se(&by));
            if (!(fabs(apart) <= bound)) theory_fault(s, "both ways to the bias are %.1f standard errors apart", apart);
            size[t][i] = fabs(by.mean);
            error[i] = theory_se(&by);
            if (t == 1 && i == STEPS_H - 1)
                theory_control(s, fabs(theory_z(&by, 0)) > bound, "weights left out at h L = %g: %.0f standard errors",
                               share[i], fabs(theory_z(&by, 0)));
            theory_row(&s->table, "%s|%.3f|%d|%.4f ± %.4f|%.4f ± %.4f|%s", r[t].target->name, share[i], steps, by.mean,
                       theory_se(&by), direct.mean, theory_se(&direct), known);
        }
        fit[t] = theory_power(STEPS_H, share, size[t], error);
        if (!(fabs(fit[t].slope - 1) <= 0.15 + bound * fit[t].error))
            theory_fault(s, "%s: the bias of unweighted ULA goes as h^%.2f", r[t].target->name, fit[t].slope);
        theory_marked_row(&s->table, PAGE_STRONG, "%s|exponent of h||%.2f ± %.2f||", r[t].target->name, fit[t].slope,
                          fit[t].error);
    }
    return 0;
}

static void read_weighted(const void *ctx, const sosmc *s, double *value)
{
    enum { MOST = 512 };
    const rest *r = ctx;
    double x[MOST], logw[MOST], error = -r->square;
    value[0] = value[1] = NAN;
    if (sosmc_particles(s) > MOST || sosmc_cloud(s, x, logw) != SOSMC_OK) return;
    for (int i = 0; i < sosmc_particles(s); i++) error += exp(logw[i]) * x[i] * x[i];
    value[0] = error * (1 - exp(sosmc_last(s)->logz));
}

static int weighted_rows(const theory_options *o, theory_statement *s, const rest *r, double bound, double worst[2])
{
    static const double at[WEIGHTED_H] = {0.05, 0.2, 0.5}, n[WEIGHTED_N] = {20, 80, 320};
    sosmc_problem problem = rest_problem(r);
    worst[0] = INFINITY;
    worst[1] = -INFINITY;
    for (int i = 0; i < WEIGHTED_H; i++) {
        double size[WEIGHTED_N], error[WEIGHTED_N];
        char cell[WEIGHTED_N][48];
        for (int j = 0; j < WEIGHTED_N; j++) {
            theory_tally t[1];
            theory_batch b = {.problem = &problem,
                              .settings = theory_settings((int)n[j], 0, sosmc_ula(at[i] / r->largest),
                                                          theory_follow(&r->path),
                                                          theory_seed(o, 31, i * WEIGHTED_N + j)),
                              .iterations = THEORY_STEPS + 1,
                              .replicates = o->quick ? 1500 : 20000,
                              .count = 1,
                              .read = read_weighted,
                              .ctx = r};
            int code = theory_replicate(&b, s, t);
            if (code) return code;
            size[j] = fabs(t->mean);
            error[j] = theory_se(t);
            (void)snprintf(cell[j], sizeof cell[j], "%.3f ± %.3f", 1e3 * t->mean, 1e3 * theory_se(t));
        }
        theory_fit fit = theory_power(WEIGHTED_N, n, size, error);
        if (!(fabs(fit.slope + 1) <= 0.15 + bound * fit.error))
            theory_fault(s, "h L = %g: the bias of weighted ULA goes as N^%.2f", at[i], fit.slope);
        worst[0] = fmin(worst[0], fit.slope);
        worst[1] = fmax(worst[1], fit.slope);
        theory_row(&s->second, "%.2f|%s|%s|%s|%.2f ± %.2f", at[i], cell[0], cell[1], cell[2], fit.slope, fit.error);
    }
    return 0;
}

static void draw_ula(theory_statement *s, double *const size[2])
{
    plot_series *line = theory_figure(s,
                                      (plot_panel){.x_label = "h L", .y_label = "bias of E x²", .log_x = 1, .log_y = 1},
                                      2, "The bias of unweighted ULA grows in proportion to the step.");
    if (!line) return;
    line[0] = (plot_series){.kind = PLOT_MARKS, .label = "N(0, 1)", .n = STEPS_H, .x = share, .y = size[0]};
    line[1] = (plot_series){
        .kind = PLOT_MARKS, .label = "skew", .n = STEPS_H, .x = share, .y = size[1], .colour = PLOT_VERMILION};
}

int theory_ula_bias(const theory_options *o, theory_statement *s)
{
    static const double at_rest[2][THEORY_DIM] = {{0, 0}, {0.8, 1.0}};
    double bound = theory_bound(3 * STEPS_H + 2 + WEIGHTED_H), slopes[2];
    rest r[2] = {{0}};
    theory_fit fit[2];
    double *size[2] = {arena_doubles(&s->memory, STEPS_H), arena_doubles(&s->memory, STEPS_H)};
    s->title = "ULA is biased by its step; its weights take the bias away (section 3)";
    s->says =
        "Unadjusted Langevin moves without weights are biased, by an amount that goes with h; the weights of SOSMC correct "
        "them at any h, up to the O(1/N) of self-normalisation.";
    s->how =
        "θ at rest. Without weights: E x² after 4/h steps from exact draws, on N(0, 1), where the answer is known, and on the "
        "skew target; the bias as E[(1 - W)(x² - E x²)], which has little variance, and directly. With weights: the "
        "self-normalised estimate after eight steps.";
    s->table = (theory_table){.caption = "Without weights: the bias of E x²",
                              .align = "lrrrrr",
                              .head = {"target", "h L", "steps", "bias", "directly", "exact"}};
    s->second = (theory_table){.caption = "With weights, skew target: the bias of E x² times 1000",
                               .align = "rrrrr",
                               .head = {"h L", "N = 20", "80", "320", "exponent of N"}};
    for (int t = 0; t < 2; t++) {
        r[t].lattice = arena_take(&s->memory, 1, sizeof *r[t].lattice);
        if (s->memory.failed) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
        settle(&r[t], t ? &theory_skew : &theory_normal, at_rest[t]);
    }
    int code = unweighted_rows(o, s, r, bound, size, fit);
    if (!code) code = weighted_rows(o, s, &r[1], bound, slopes);
    if (code) return code;
    draw_ula(s, size);
    claim_decide(
        &s->claim, 1, s->faults == 0,
        "Without weights the bias goes as h^%.2f (N(0, 1)) and h^%.2f (skew); with weights there is none but that of "
        "self-normalisation, which goes as N^%.2f to N^%.2f for h L from 0.05 to 0.5.",
        fit[0].slope, fit[1].slope, slopes[0], slopes[1]);
    return 0;
}
