/* theory_particles.c: the Feynman-Kac identity, exact gradient recovery, and the steps up to which the weights of ULA have a
 * variance.
 *
 * theta follows the idealised scheme of Lemma 1, exact gradient descent, which is computed beforehand. There is no
 * resampling, so the particles are independent, and every one of them is a replicate of the identity
 *
 *     E[ W_k phi(X_k) ] = Z_k/Z_0 pi_k(phi),      X_0 ~ pi_0, W_0 = 1.
 *
 * The engine keeps normalised weights w_i and log Z_k = log mean_i W_i, so W_i = N w_i exp(log Z_k). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory_kernels.h"
#include "theory_runs.h"

/* ------------------------------------------------------------------------------------------------ the identity */

enum { RATIO, FIRST, SECOND, POSITIVE, TESTS }; /* 1, both components of the gradient, 1{x > 0} */
enum { CELLS = 2 * THEORY_SMOOTH_KERNELS + 2, MOMENTS = 4, COMPARISONS = CELLS * THEORY_STEPS * TESTS + MOMENTS };

typedef struct {
    theory_tally weighted[TESTS], plain[TESTS];
} identity; /* at one k: W (phi - pi phi) over Z_k/Z_0, and phi - pi phi without weights */

typedef struct {
    int particles;
    double *x, *logw;
} cloud;

static double positive_mass(const theory_lattice *g)
{
    double mass = 0;
    for (int i = THEORY_NODES / 2; i < THEORY_NODES; i++) mass += (i == THEORY_NODES / 2 ? 0.5 : 1.0) * g->mass[i];
    return mass;
}

static void collect(const theory_stage *stage, int k, const cloud *c, double logz, identity *out)
{
    const theory_lattice *exact = &stage->grid[k];
    double relative = logz - (exact->logz - stage->grid[0].logz) + log(c->particles), positive = positive_mass(exact);
    *out = (identity){0};
    for (int i = 0; i < c->particles; i++) {
        theory_value v = stage->target->at(c->x[i], stage->path.theta[k]);
        double W = exp(c->logw[i] + relative);
        double phi[TESTS] = {1, v.du[0] - exact->du[0], v.du[1] - exact->du[1], (c->x[i] > 0) - positive};
        for (int t = 0; t < TESTS; t++) {
            theory_add(&out->weighted[t], W * phi[t]);
            theory_add(&out->plain[t], phi[t]);
        }
    }
}

static int walk(const theory_stage *stage, const theory_kernel *kernel, uint64_t seed, const cloud *c,
                theory_statement *s, identity out[THEORY_STEPS + 1])
{
    sosmc_problem problem = theory_problem(stage, 1);
    sosmc_settings settings = theory_settings(c->particles, 0, kernel->kernel, theory_follow(&stage->path), seed);
    sosmc *engine = NULL;
    sosmc_status status = sosmc_create(&engine, &problem, &settings);
    for (int k = 0; k <= THEORY_STEPS && status == SOSMC_OK && !interrupt_requested(); k++) {
        status = sosmc_step(engine);
        if (status == SOSMC_OK) status = sosmc_cloud(engine, c->x, c->logw);
        if (status == SOSMC_OK) collect(stage, k, c, sosmc_last(engine)->logz, &out[k]);
    }
    int code = interrupt_requested() ? theory_fail(s, SOSMC_EXIT_INTERRUPTED, "interrupted")
               : status == SOSMC_OK  ? 0
                                    : theory_fail(s, SOSMC_EXIT_NUMERIC, "%s: %s", kernel->name, sosmc_message(engine));
    sosmc_free(engine);
    return code;
}

static double expected(int test) { return test == RATIO ? 1 : 0; }

/* The largest |z| over all steps, of the tests from this one on. */
static double worst(const identity *out, int weighted, int from)
{
    double most = 0;
    for (int k = 1; k <= THEORY_STEPS; k++)
        for (int t = from; t < TESTS; t++)
            most = fmax(most, fabs(theory_z(weighted ? &out[k].weighted[t] : &out[k].plain[t], expected(t))));
    return most;
}

static void show(theory_statement *s, page_mark mark, const theory_stage *stage, const theory_kernel *kernel,
                 const identity *out)
{
    const theory_tally *end = out[THEORY_STEPS].weighted;
    char ratio[32], first[32], second[32];
    theory_marked_row(&s->table, mark, "%s|%s|%.2f|%s|%.4f|%s|%s|%.1f|%.1f", kernel->name, stage->target->name,
                      kernel->h * stage->largest, theory_brief(&end[RATIO], ratio), stage->grid[THEORY_STEPS].du[0],
                      theory_brief(&end[FIRST], first), theory_brief(&end[SECOND], second), worst(out, 1, RATIO),
                      worst(out, 0, FIRST));
}

static int identities(const theory_options *o, theory_statement *s, const theory_stage *stage, const cloud *c,
                      double *most)
{
    identity out[THEORY_STEPS + 1];
    double bound = theory_bound(COMPARISONS), unweighted = 0;
    int code = 0;
    memset(out, 0, sizeof out);
    *most = 0;
    for (int cell = 0; cell < CELLS && !code; cell++) {
        int smooth = cell < 2 * THEORY_SMOOTH_KERNELS;
        int k = smooth ? cell / 2 : THEORY_SMOOTH_KERNELS + cell - 2 * THEORY_SMOOTH_KERNELS;
        const theory_stage *on = &stage[smooth ? cell % 2 : THEORY_STAGES - 1];
        theory_kernel kernel = theory_kernel_at(k, on);
        code = walk(on, &kernel, theory_seed(o, 1, cell), c, s, out);
        if (code) return code;
        double z = worst(out, 1, RATIO);
        *most = fmax(*most, z);
        if (!(z <= bound))
            theory_fault(s, "%s on %s: a weighted average is %.1f standard errors from its exact value (bound %.2f)",
                         kernel.name, on->target->name, z, bound);
        if (cell == 0) unweighted = worst(out, 0, FIRST);
        show(s, z <= bound ? PAGE_PLAIN : PAGE_WARN, on, &kernel, out);
    }
    theory_control(s, unweighted > bound,
                   "ULA with its weights left out is up to %.0f standard errors from the exact values", unweighted);
    for (int i = 0; i < THEORY_STAGES && !code; i += THEORY_STAGES - 1) {
        theory_kernel wrong = theory_pretender(&stage[i]);
        code = walk(&stage[i], &wrong, theory_seed(o, 1, CELLS + i), c, s, out);
        if (code) return code;
        double z = worst(out, 1, FIRST);
        theory_control(s, z > bound, "%s: %.0f standard errors", wrong.name, z);
        show(s, PAGE_DIM, &stage[i], &wrong, out);
    }
    return code;
}

/* ------------------------------------------------------------------------------------------------ the variance of W */

/* pi = N(0, 1/L), theta at rest, u = hL, k steps of ULA. There log W = (u/4) L (x_0^2 - x_k^2), and with a = 1 - u,
 * s^2 = 2 (1 - a^{2k}) / (2 - u) the variance that k steps add,
 *     E W^2 = 1 / sqrt( (1 + u s^2) (1 - u) + u a^{2k} ),     which for k = 1 is 1 / sqrt(1 - u^3):
 * finite for u < 1, infinite from u = 1 on, for every k. */
static double second_moment(double u, int k)
{
    double a2k = pow((1 - u) * (1 - u), k), s2 = 2 * (1 - a2k) / (2 - u);
    double inside = (1 + u * s2) * (1 - u) + u * a2k;
    return inside > 0 ? 1 / sqrt(inside) : INFINITY;
}

/* P(W > t) falls as t^-index, up to a power of log t. For one step the moment of order p exists up to this p. */
static double tail_index(double u) { return 0.5 * (1 + sqrt(1 + 8 / (u * u * u))); }

static const theory_path at_rest; /* N(0, 1): theta = 0 */

/* Computes the log-weights of c->particles particles after so many steps. */
static int gaussian_weights(double u, int steps, uint64_t seed, const theory_lattice *grid, const cloud *c,
                            theory_statement *s)
{
    sosmc_problem problem = {.model = theory_model(&theory_normal),
                             .objective = sosmc_mmle(),
                             .init = theory_exact_source(grid),
                             .theta0 = at_rest.theta[0]};
    sosmc_settings settings = theory_settings(c->particles, 0, sosmc_ula(u), theory_follow(&at_rest), seed);
    sosmc_info last = {0};
    int code = theory_engine(s, &problem, &settings, steps + 1, (theory_ending){.logw = c->logw, .last = &last});
    if (code) return code;
    for (int i = 0; i < c->particles; i++) c->logw[i] += last.logz + log(c->particles);
    return 0;
}

static double sample_variance(const cloud *c)
{
    theory_tally t = {0};
    for (int i = 0; i < c->particles; i++) theory_add(&t, exp(c->logw[i]));
    return t.m2 / (double)(t.n - 1);
}

enum { SIZES = 6, BLOCKS = 41, CURVES = 4 };
static const double curve_u[CURVES] = {0.25, 0.5, 1.5, 2};

/* Compares E W^2 with its closed form at steps where W has more than four moments; otherwise its standard error would be
 * meaningless. */
static int closed_form(const theory_options *o, theory_statement *s, const theory_lattice *grid, const cloud *c)
{
    static const struct {
        double u;
        int k;
    } at[MOMENTS] = {{0.25, 1}, {0.25, 8}, {0.4, 1}, {0.4, 8}};
    double bound = theory_bound(COMPARISONS);
    for (int m = 0; m < MOMENTS; m++) {
        theory_tally square = {0};
        char text[32];
        int code = gaussian_weights(at[m].u, at[m].k, theory_seed(o, 2, m), grid, c, s);
        if (code) return code;
        for (int i = 0; i < c->particles; i++) theory_add(&square, exp(2 * c->logw[i]));
        double exact = second_moment(at[m].u, at[m].k), z = theory_z(&square, exact);
        if (!(fabs(z) <= bound))
            theory_fault(s, "E W^2 at hL = %g after %d steps is %.1f standard errors from its closed form", at[m].u,
                         at[m].k, z);
        const char *index = experiment_decimals(at[m].k == 1 ? tail_index(at[m].u) : NAN, 2, text);
        theory_row(&s->second, "%.2f|%d|%.4f|%.4f ± %.4f|%s|", at[m].u, at[m].k, exact, square.mean, theory_se(&square),
                   index);
    }
    return 0;
}

/* Takes medians of the sample variance over blocks, because a mean of sample variances means nothing where there is no
 * variance. */
static int growth(const theory_options *o, theory_statement *s, const theory_lattice *grid, const cloud *room,
                  int first, double *n, double *const median[CURVES])
{
    for (int u = 0; u < CURVES; u++)
        for (int size = 0; size < SIZES; size++) {
            double variance[BLOCKS];
            cloud c = *room;
            n[size] = c.particles = first << (2 * size);
            for (int b = 0; b < BLOCKS; b++) {
                uint64_t seed = theory_seed(o, 3, (u * SIZES + size) * BLOCKS + b);
                int code = gaussian_weights(curve_u[u], 1, seed, grid, &c, s);
                if (code) return code;
                variance[b] = sample_variance(&c);
            }
            qsort(variance, BLOCKS, sizeof *variance, experiment_ascending);
            median[u][size] = variance[BLOCKS / 2];
        }
    return 0;
}

/* Where W has a variance, the median at the largest n must be within a quarter of it; where it has none, the median must
 * grow by more than `grown` over the range of n. */
static void judge_growth(theory_statement *s, const double *n, double *const median[CURVES])
{
    const double near = 0.25, grown = 3;
    for (int u = 0; u < CURVES; u++) {
        double last = median[u][SIZES - 1], factor = last / median[u][0], index = tail_index(curve_u[u]);
        double exact = second_moment(curve_u[u], 1) - 1;
        if (isfinite(exact)) {
            if (!(fabs(last / exact - 1) <= near))
                theory_fault(s, "the variance of W at hL = %g is %.4f instead of %.4f", curve_u[u], last, exact);
            continue;
        }
        if (!(factor > grown))
            theory_fault(s, "the variance of W at hL = %g grows by a factor of %.2f only, from n = %.0f to %.0f",
                         curve_u[u], factor, n[0], n[SIZES - 1]);
        theory_row(&s->second, "%.2f|1|%s|variance × %.1f for n × %.0f|%.2f|%.1f", curve_u[u], "∞", factor,
                   n[SIZES - 1] / n[0], index, pow(n[SIZES - 1] / n[0], 2 / index - 1));
    }
}

/* ------------------------------------------------------------------------------------------------ the figure */

enum { FINE = 200 };

static void moment_panel(theory_statement *s, plot_panel *p)
{
    double *u = arena_doubles(&s->memory, FINE), *one = arena_doubles(&s->memory, FINE);
    double *eight = arena_doubles(&s->memory, FINE), *wall = arena_doubles(&s->memory, 4);
    plot_series *line = arena_take(&s->memory, 3, sizeof *line);
    if (!u || !one || !eight || !wall || !line) return;
    for (int i = 0; i < FINE; i++) {
        u[i] = 0.9999 * i / (FINE - 1);
        one[i] = second_moment(u[i], 1);
        eight[i] = second_moment(u[i], 8);
    }
    wall[0] = wall[1] = 1;
    wall[2] = 1;
    wall[3] = 10;
    line[0] = (plot_series){.label = "one step: 1/√(1-u³)", .n = FINE, .x = u, .y = one, .colour = PLOT_BLUE};
    line[1] = (plot_series){.label = "eight steps", .n = FINE, .x = u, .y = eight, .colour = PLOT_GREEN};
    line[2] = (plot_series){
        .label = "h = 1/L", .n = 2, .x = wall, .y = wall + 2, .colour = PLOT_GREY, .dash = PLOT_DASHED};
    *p = (plot_panel){.title = "the second moment in closed form",
                      .x_label = "u = h L",
                      .y_label = "E W²",
                      .log_y = 1,
                      .x_max = 1.2,
                      .y_min = 0.9,
                      .y_max = 10,
                      .series = line,
                      .n = 3};
}

static void growth_panel(theory_statement *s, plot_panel *p, const double *n, double *const median[CURVES])
{
    static const int colour[CURVES] = {PLOT_SKY, PLOT_BLUE, PLOT_ORANGE, PLOT_VERMILION};
    plot_series *line = arena_take(&s->memory, CURVES, sizeof *line);
    if (!line) return;
    for (int u = 0; u < CURVES; u++)
        line[u] = (plot_series){.kind = PLOT_MARKS,
                                .label = arena_words(&s->memory, "u = %g", curve_u[u]),
                                .n = SIZES,
                                .x = n,
                                .y = median[u],
                                .colour = colour[u]};
    *p = (plot_panel){.title = "sample variance of n weights",
                      .x_label = "n",
                      .y_label = "median over blocks",
                      .log_x = 1,
                      .log_y = 1,
                      .series = line,
                      .n = CURVES};
}

static int variance_of_weights(const theory_options *o, theory_statement *s, const cloud *c)
{
    double *median[CURVES], *n = arena_doubles(&s->memory, SIZES);
    theory_lattice *grid = arena_take(&s->memory, 1, sizeof *grid);
    plot_panel *panel = arena_take(&s->memory, 2, sizeof *panel);
    for (int u = 0; u < CURVES; u++) median[u] = arena_doubles(&s->memory, SIZES);
    if (s->memory.failed) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    theory_tabulate(&theory_normal, at_rest.theta[0], grid);
    s->second = (theory_table){
        .caption = "ULA on N(0, 1/L): the second moment of the weight, and what the sample variance does without one",
        .align = "rrrlrr",
        .head = {"h L", "steps", "E W², exact", "measured", "tail index", "growth expected"}};
    int code = closed_form(o, s, grid, c);
    if (!code) code = growth(o, s, grid, c, o->quick ? 16 : 64, n, median);
    if (code) return code;
    judge_growth(s, n, median);
    moment_panel(s, &panel[0]);
    growth_panel(s, &panel[1], n, median);
    s->figure = (plot_figure){.panel = panel, .panels = 2};
    s->figure_caption =
        "Left: the second moment of ULA's weight on a Gaussian ends at h = 1/L. Right: below it the sample "
        "variance settles, beyond it it grows with the sample for ever.";
    return 0;
}

static void words(theory_statement *s)
{
    s->title = "Feynman-Kac identity and exact gradient recovery (Theorem 1, Lemma 1)";
    s->says = "With incremental weights G = Π_k(x') L(x', x) / (Π_{k-1}(x) K(x, x')), E[φ(X_k) ∏ G] = Π_k(φ) for any "
              "forward and backward kernels; hence E[H W]/E[W] = ∇l(θ) along the idealised scheme.";
    s->how =
        "θ follows the idealised scheme, computed by quadrature, for eight steps on two asymmetric targets and one with "
        "a kink. Every kernel moves independent particles that start from π_0, at h = 0.5/L; in every step the mean "
        "of W and the weighted means of both components of ∂U/∂θ and of 1{x > 0} are compared with quadrature. The "
        "identity holds for any h, but its use ends where W has no variance: for ULA on N(0, 1/L), E W² = "
        "1/√(1-u³) after one step, u = hL, which is infinite from h = 1/L on.";
    s->table = (theory_table){
        .caption =
            "After eight steps: E W over Z_k/Z_0 and the errors E[W (φ - πφ)] of both gradient components, standard errors of the last "
            "digits in brackets; then the largest |z| over all steps and averages, with weights and without",
        .align = "llrrrrrrr",
        .head = {"kernel", "target", "h L", "E W Z_0/Z_k", "E ∂U/∂θ1", "error", "error, θ2", "worst |z|",
                 "without weights"}};
}

int theory_feynman_kac(const theory_options *o, theory_statement *s)
{
    theory_stage stage[THEORY_STAGES];
    cloud c = {.particles = o->quick ? 30000 : 400000};
    double most = 0;
    words(s);
    c.x = arena_doubles(&s->memory, c.particles);
    c.logw = arena_doubles(&s->memory, c.particles);
    if (!c.x || !c.logw || theory_stages(&s->memory, stage)) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    int code = identities(o, s, stage, &c, &most);
    if (!code) code = variance_of_weights(o, s, &c);
    if (code) return code;
    claim_decide(
        &s->claim, 1, s->faults == 0,
        "%d comparisons, %d particles for %d pairs of kernel and target: the largest is %.1f standard errors from its "
        "exact value (bound %.2f). What has to be added: the weight of ULA has a variance only for h < 1/L, and in "
        "d dimensions E W² = (1 - u³)^(-d/2), so h must fall as d^(-1/3).",
        COMPARISONS, c.particles, CELLS, most, theory_bound(COMPARISONS));
    return 0;
}
