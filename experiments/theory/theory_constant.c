/* theory_constant.c: the estimate of Z is unbiased at any N, and what adapting the step does to that.
 *
 *     E[ Z_hat_k ] = Z_k      along a given path of theta with given steps, for N = 20 particles as for any number,
 *
 * for every kernel, every unbiased resampling scheme and every rule for when to resample that depends on the past alone. A
 * step h that is chosen by the weights of the same cloud depends on the past alone too. But E[G | x] = (pi_k L_h)(x) /
 * pi_{k-1}(x) depends on h, and h is then correlated with the errors of the cloud, which are of size N^-1/2. Where h follows
 * them smoothly, its changes are of size N^-1/2 as well, and the bias is of order 1/N. A rule with a threshold, as in Remark
 * 4, changes h by a full factor when the ESS crosses the threshold; where the limit of the ESS is the threshold, the bias is
 * of order N^-1/2. Away from the threshold such changes become rarer as N grows. */
#include <math.h>

#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory_kernels.h"
#include "theory_runs.h"

enum { SCHEMES = 5, OCCASIONS = 3, KERNELS = 7, LAST = 5, PARTICLES = 20, SIZES = 5, RULES = 4, JUDGED = 2 };
enum { COMPARISONS = KERNELS * OCCASIONS * (SCHEMES + 1) + 1 + 2 * JUDGED };

static const char *const occasion[OCCASIONS] = {"never", "ESS < 0.7 N", "always"};
static const double ess_min[OCCASIONS] = {0, 0.7, 2};
/* numbers of theory_kernel_at: one of the two underdamped kernels, and MYULA with a kink */
static const int which[KERNELS] = {0, 1, 2, 3, 4, 6, 8};

static void read_ratio(const void *ctx, const sosmc *s, double *value)
{
    const double *logz = ctx;
    value[0] = exp(sosmc_last(s)->logz - *logz);
}

static theory_batch batch_of(const theory_options *o, const theory_stage *stage, const sosmc_problem *problem,
                             sosmc_kernel kernel, int particles)
{
    theory_batch b = {.problem = problem,
                      .settings = theory_settings(particles, 0.5, kernel, theory_follow(&stage->path), 0),
                      .iterations = LAST + 1, /* the first one does not move */
                      .replicates = o->quick ? 300 : 12000,
                      .count = 1,
                      .read = read_ratio,
                      .ctx = &stage->grid[LAST].logz};
    return b;
}

/* ------------------------------------------------------------------------------------------------ all combinations */

typedef struct {
    double bound, most, sum; /* the largest |z|, and the sum of z over `cells` */
    int cells;
} account;

static int row(const theory_options *o, theory_statement *s, const theory_stage stage[THEORY_STAGES], int k, int when,
               account *a)
{
    int smooth = which[k] < THEORY_SMOOTH_KERNELS;
    char cell[SCHEMES][32];
    double sum = 0;
    theory_kernel kernel = {0};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        const theory_stage *on = &stage[smooth ? (k + when + scheme) % 2 : THEORY_STAGES - 1];
        sosmc_problem problem = theory_problem(on, 0);
        theory_tally ratio;
        kernel = theory_kernel_at(which[k], on);
        theory_batch b = batch_of(o, on, &problem, kernel.kernel, PARTICLES);
        b.settings.scheme.resampling = scheme;
        b.settings.scheme.ess_min = ess_min[when];
        b.settings.seed = theory_seed(o, 10, (k * OCCASIONS + when) * SCHEMES + scheme);
        int code = theory_replicate(&b, s, &ratio);
        if (code) return code;
        double z = theory_z(&ratio, 1);
        sum += z;
        a->most = fmax(a->most, fabs(z));
        if (!(fabs(z) <= a->bound))
            theory_fault(s, "%s, resampling %s by scheme %d: the mean of Z_hat/Z is %.4f, %.1f standard errors from 1",
                         kernel.name, occasion[when], scheme, ratio.mean, z);
        (void)theory_brief(&ratio, cell[scheme]);
    }
    double pooled = sum / sqrt(SCHEMES);
    if (!(fabs(pooled) <= a->bound)) theory_fault(s, "%s, all schemes: %.1f standard errors", kernel.name, pooled);
    a->sum += sum;
    a->cells += SCHEMES;
    theory_row(&s->table, "%s|%s|%s|%s|%s|%s|%s|%+.1f", kernel.name, occasion[when], cell[0], cell[1], cell[2], cell[3],
               cell[4], pooled);
    return 0;
}

/* The negative control. It starts from exact draws and runs over the whole path, because there is less noise then and more
 * steps in which the error grows. */
static int control(const theory_options *o, theory_statement *s, const theory_stage *on, double bound)
{
    sosmc_problem problem = theory_problem(on, 1);
    double logz = on->grid[THEORY_STEPS].logz - on->grid[0].logz;
    theory_tally ratio;
    theory_kernel wrong = theory_pretender(on);
    theory_batch b = batch_of(o, on, &problem, wrong.kernel, PARTICLES);
    b.replicates = o->quick ? 4000 : 20000;
    b.iterations = THEORY_STEPS + 1;
    b.ctx = &logz;
    b.settings.seed = theory_seed(o, 11, on->target->kink > 0);
    int code = theory_replicate(&b, s, &ratio);
    if (code) return code;
    double z = theory_z(&ratio, 1);
    theory_control(s, fabs(z) > bound, "%s: the mean of Z_hat/Z is %.4f, %.0f standard errors from 1", wrong.name,
                   ratio.mean, fabs(z));
    return 0;
}

/* ------------------------------------------------------------------------------------------------ adaptive steps */

/* ULA moves twice on the skew target, and the step of the second move follows the cloud after the first by one of these
 * rules. We judge whether the first two rules bias Z_hat, and the exponent of the smooth one. The ESS is a ratio of moments
 * of heavy-tailed weights, and its own errors do not yet follow their asymptotic law at these N; so the exponents of the
 * rules that use it are shown and not judged. */
typedef enum { AT_THE_LIMIT, SMOOTH, SMOOTH_ESS, AWAY } rule;
static const char *const rule_name[RULES] = {"Remark 4, threshold at the limit of ESS/N",
                                             "smooth: h times the share of x > 0", "smooth: h (ESS/N)^4",
                                             "Remark 4, threshold 0.25 below the limit"};
static const double expected_slope[RULES] = {NAN, -1, NAN, NAN};

/* A ULA kernel that takes its step from here and not from the engine. */
typedef struct {
    sosmc_kernel ula;
    double h;
} led_kernel;

static int led_step(const sosmc_kernel *k, sosmc_move *m)
{
    const led_kernel *led = k->self;
    sosmc_move with = *m;
    with.h = led->h;
    return led->ula.step(&led->ula, &with);
}

/* The statistics that the rules use: ESS/N, and the share of particles with x > 0. */
typedef struct {
    double ess, right;
} signals;

typedef struct {
    theory_path path;
    theory_lattice *first, *last;
    sosmc_problem problem;
    double h;      /* the first step */
    signals limit; /* after it, as N grows */
    double *x;     /* room for a cloud */
} short_walk;

static sosmc_status look(const sosmc *engine, double *x, signals *seen)
{
    int n = sosmc_particles(engine), right = 0;
    sosmc_status status = sosmc_cloud(engine, x, NULL);
    for (int i = 0; i < n; i++) right += x[i] > 0;
    *seen = (signals){sosmc_last(engine)->ess / n, (double)right / n};
    return status;
}

static double smooth_step(const short_walk *w, rule r, signals seen)
{
    return w->h * (r == SMOOTH ? seen.right : pow(seen.ess, 4));
}

/* Returns Z_hat/Z after two moves in `ratio`. `second` (0: the first step again) is the second step; with `follow` the rule
 * chooses it. */
static int walk(const short_walk *w, rule r, int follow, double second, int particles, uint64_t seed,
                theory_statement *s, double *ratio, signals *seen)
{
    *seen = (signals){0};
    const double factor = 9;
    led_kernel led = {.ula = sosmc_ula(w->h), .h = w->h};
    sosmc_settings settings = theory_settings(particles, 0, led.ula, theory_follow(&w->path), seed);
    sosmc *engine = NULL;
    settings.kernel.self = &led;
    if (r == SMOOTH || r == SMOOTH_ESS || !follow)
        settings.kernel.step = led_step;
    else
        settings.adapt[0] = (sosmc_adapt){
            .threshold = w->limit.ess - (r == AWAY ? 0.25 : 0), .factor = factor, .min = w->h / factor, .max = w->h};
    sosmc_status status = sosmc_create(&engine, &w->problem, &settings);
    if (status == SOSMC_OK) status = sosmc_run(engine, 2, NULL, NULL); /* the first iteration does not move */
    if (status == SOSMC_OK) status = look(engine, w->x, seen);
    led.h = follow ? smooth_step(w, r, *seen) : second;
    if (status == SOSMC_OK) status = sosmc_step(engine);
    if (status == SOSMC_OK) *ratio = exp(sosmc_last(engine)->logz - (w->last->logz - w->first->logz));
    int code = status == SOSMC_OK ? 0 : theory_fail(s, SOSMC_EXIT_NUMERIC, "adaptive steps: %s", sosmc_message(engine));
    sosmc_free(engine);
    return code;
}

static int prepare(const theory_options *o, theory_statement *s, short_walk *w)
{
    static const double theta[3][THEORY_DIM] = {{0.8, 1.0}, {0.1, 0.6}, {-0.5, 0.2}};
    int particles = o->quick ? 100000 : 1000000;
    double unused = 0;
    w->x = arena_doubles(&s->memory, particles);
    w->first = arena_take(&s->memory, 1, sizeof *w->first);
    w->last = arena_take(&s->memory, 1, sizeof *w->last);
    if (!w->first || !w->last || !w->x) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    for (int k = 0; k <= THEORY_STEPS; k++)
        for (int j = 0; j < THEORY_DIM; j++) w->path.theta[k][j] = theta[k < 2 ? k : 2][j];
    theory_tabulate(&theory_skew, theta[0], w->first);
    theory_tabulate(&theory_skew, theta[2], w->last);
    w->h = 0.5 / theory_curvature(&theory_skew, &w->path);
    w->problem = (sosmc_problem){.model = theory_model(&theory_skew),
                                 .objective = sosmc_mmle(),
                                 .init = theory_exact_source(w->first),
                                 .theta0 = w->path.theta[0]};
    return walk(w, SMOOTH, 0, w->h, particles, theory_seed(o, 12, 0), s, &unused, &w->limit);
}

/* Measures E Z_hat/Z - 1 under the rule as the mean difference to runs with the same noise and the step that the rule
 * chooses in the limit of many particles. The mean of those runs is 1, and the difference has little variance. */
static int bias_of(const theory_options *o, theory_statement *s, const short_walk *w, rule r, int particles,
                   theory_tally *bias)
{
    double second = r == SMOOTH || r == SMOOTH_ESS ? smooth_step(w, r, w->limit) : w->h;
    signals unused = {0};
    int replicates = o->quick ? 3000 : 40000;
    *bias = (theory_tally){0};
    for (int i = 0; i < replicates; i++) {
        uint64_t seed = theory_seed(o, 13, particles) + (uint64_t)i;
        double given = 0, adapted = 0;
        int code = interrupt_requested() ? theory_fail(s, SOSMC_EXIT_INTERRUPTED, "interrupted") : 0;
        if (!code) code = walk(w, r, 0, second, particles, seed, s, &given, &unused);
        if (!code) code = walk(w, r, 1, second, particles, seed, s, &adapted, &unused);
        if (code) return code;
        theory_add(bias, adapted - given);
    }
    return 0;
}

typedef struct {
    double *n, *size[RULES], *error[RULES]; /* |bias| with its standard error */
    double sum_of_z[RULES];
    theory_fit fit[RULES];
} biases;

/* Judges a rule over all sizes together: the bias must be there, and its exponent, where one is expected, may differ by 0.15
 * for the terms of higher order and by the bound for chance. */
static int judge_rule(theory_statement *s, rule r, const biases *b, double bound)
{
    const double slack = 0.15;
    double pooled = b->sum_of_z[r] / sqrt(SIZES);
    if (r > SMOOTH) return 1;
    int seen = fabs(pooled) > bound;
    int right = isnan(expected_slope[r]) ||
                fabs(b->fit[r].slope - expected_slope[r]) <= slack + bound * b->fit[r].error;
    if (!seen || !right)
        theory_fault(s, "%s: the bias of Z_hat is %.1f standard errors from 0, all N together, and goes as N^%.2f",
                     rule_name[r], pooled, b->fit[r].slope);
    return seen && right;
}

static int adaptive(const theory_options *o, theory_statement *s, double bound, biases *b)
{
    short_walk w = {0};
    int code = prepare(o, s, &w);
    s->second = (theory_table){.caption = "E Z_hat/Z - 1, times 1000, when the second step follows the cloud",
                               .align = "lrrrrrrr",
                               .head = {"rule", "N = 20", "40", "80", "160", "320", "exponent", "expected"}};
    for (int r = 0; r < RULES && !code; r++) {
        char cell[SIZES][64], exponent[64], expected[64] = "";
        for (int i = 0; i < SIZES && !code; i++) {
            theory_tally t;
            b->n[i] = 20 << i;
            code = bias_of(o, s, &w, (rule)r, 20 << i, &t);
            if (code) return code;
            b->size[r][i] = fabs(t.mean);
            b->error[r][i] = theory_se(&t);
            b->sum_of_z[r] += theory_z(&t, 0);
            (void)snprintf(cell[i], sizeof cell[i], "%.2f ± %.2f", 1e3 * t.mean, 1e3 * theory_se(&t));
        }
        b->fit[r] = theory_power(SIZES, b->n, b->size[r], b->error[r]);
        (void)snprintf(exponent, sizeof exponent, "%.2f ± %.2f", b->fit[r].slope, b->fit[r].error);
        if (!isnan(expected_slope[r])) (void)snprintf(expected, sizeof expected, "%.1f", expected_slope[r]);
        theory_marked_row(&s->second, judge_rule(s, (rule)r, b, bound) ? PAGE_PLAIN : PAGE_WARN,
                          "%s|%s|%s|%s|%s|%s|%s|%s", rule_name[r], cell[0], cell[1], cell[2], cell[3], cell[4],
                          exponent, expected);
    }
    return code;
}

/* ------------------------------------------------------------------------------------------------ the statement */

static void draw(theory_statement *s, const biases *b)
{
    static const int colour[RULES] = {PLOT_VERMILION, PLOT_BLUE, PLOT_SKY, PLOT_GREY};
    plot_series *line = theory_figure(
        s,
        (plot_panel){.x_label = "particles N",
                     .y_label = "| E Z_hat/Z - 1 |",
                     .log_x = 1,
                     .log_y = 1,
                     .y_min = 1e-5,
                     .y_max = 1e-2},
        RULES,
        "The bias of Z_hat when the kernel's step follows the cloud. A step that follows a bounded "
        "statistic smoothly costs 1/N; a threshold costs more when it lies where the ESS settles.");
    double *low = arena_doubles(&s->memory, RULES * SIZES), *high = arena_doubles(&s->memory, RULES * SIZES);
    if (!line || !low || !high) return;
    for (int r = 0; r < RULES; r++) {
        for (int i = 0; i < SIZES; i++) {
            low[r * SIZES + i] = fmax(b->size[r][i] - b->error[r][i], 1e-6);
            high[r * SIZES + i] = b->size[r][i] + b->error[r][i];
        }
        line[r] = (plot_series){.kind = PLOT_MARKS,
                                .label = rule_name[r],
                                .n = SIZES,
                                .x = b->n,
                                .y = b->size[r],
                                .low = low + r * SIZES,
                                .high = high + r * SIZES,
                                .colour = colour[r]};
    }
}

static void words(theory_statement *s)
{
    s->title = "The normalising constant is estimated without bias (Theorem 1 with φ = 1)";
    s->says = "E[∏ G] = Z_k: the estimate of Z is unbiased at any number of particles, with resampling as without.";
    s->how =
        "Thousands of runs of 20 particles along given paths of θ on asymmetric targets, from a normal law with weights: "
        "every kernel, five resampling schemes, never, by ESS and always; Z by quadrature. Then two moves of ULA of which "
        "the second step follows the cloud after the first by one of four rules; the bias is the mean difference to runs "
        "with the same noise and the limiting step.";
    s->table = (theory_table){
        .caption =
            "Mean of Z_hat/Z over independent runs of 20 particles, five moves; in brackets the standard error of the last digits",
        .align = "llrrrrrr",
        .head = {"kernel", "resampled", "multinomial", "stratified", "systematic", "residual", "SSP", "z, pooled"}};
}

static biases room_for_biases(arena *memory)
{
    biases b = {.n = arena_doubles(memory, SIZES)};
    for (int r = 0; r < RULES; r++) {
        b.size[r] = arena_doubles(memory, SIZES);
        b.error[r] = arena_doubles(memory, SIZES);
    }
    return b;
}

int theory_normalising_constant(const theory_options *o, theory_statement *s)
{
    theory_stage stage[THEORY_STAGES];
    account a = {.bound = theory_bound(COMPARISONS)};
    words(s);
    biases b = room_for_biases(&s->memory);
    int code = 0;
    if (theory_stages(&s->memory, stage) || s->memory.failed)
        code = theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    for (int k = 0; k < KERNELS && !code; k++)
        for (int when = 0; when < OCCASIONS && !code; when++) code = row(o, s, stage, k, when, &a);
    for (int i = 0; i < THEORY_STAGES && !code; i += THEORY_STAGES - 1) code = control(o, s, &stage[i], a.bound);
    if (!code) code = adaptive(o, s, a.bound, &b);
    if (code) return code;
    double pooled = a.sum / sqrt(a.cells);
    if (!(fabs(pooled) <= a.bound)) theory_fault(s, "all cells together: %.1f standard errors", pooled);
    draw(s, &b);
    claim_decide(
        &s->claim, 1, s->faults == 0,
        "Z_hat/Z is 1 on average in all %d combinations at N = 20: the largest is %.1f standard errors away (bound %.2f), "
        "all together %.1f. The condition is that steps do not depend on the cloud: one that follows a bounded statistic "
        "of it smoothly biases Z_hat as N^%.2f, one that follows the ESS smoothly as N^%.2f at these N, and Remark 4's "
        "threshold at the limit of the ESS as N^%.2f, which is more than the 1/N one would expect.",
        a.cells, a.most, a.bound, fabs(pooled), b.fit[SMOOTH].slope, b.fit[SMOOTH_ESS].slope,
        b.fit[AT_THE_LIMIT].slope);
    return 0;
}
