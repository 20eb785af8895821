/* theory_paper.c: two formulas that the experiments rely on: the gradient of an energy-based model's likelihood (section
 * 2.2) and the optimum of a reward under reverse KL (section 5.2). Both are checked by quadrature, the first also by the
 * engine. */
#include <math.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory.h"
#include "theory_families.h"
#include "theory_runs.h"

/* ---------------------------------------------------------------------------- the sign of section 2.2 */

/* The model is U = x^4/4 + theta_1 x^2/2 + theta_2 x, the data are seven numbers. */
enum { DATA = 7, THETAS = 5, DESCENT = 120 };
static const double data[DATA] = {-1.4, -1.1, -0.9, -0.3, 0.4, 0.9, 1.2};

static const theory_family *model_of(void) { return &theory_general[4]; }

/* l = mean U(data) + log Z. */
static double likelihood_loss(const double *theta, theory_grid *g)
{
    const theory_family *f = model_of();
    double sum = 0;
    theory_integrate(f, theta, g);
    for (int i = 0; i < DATA; i++) sum += f->U(theta, data[i]);
    return sum / DATA + g->logz;
}

/* E_data dU - E_model dU. */
static void data_minus_model(const double *theta, theory_grid *g, double *out)
{
    const theory_family *f = model_of();
    double d[THEORY_PARAMETERS];
    theory_integrate(f, theta, g);
    out[0] = out[1] = 0;
    for (int i = 0; i < DATA; i++) {
        f->dU(theta, data[i], d);
        for (int j = 0; j < THEORY_PARAMETERS; j++) out[j] += d[j] / DATA;
    }
    for (int i = 0; i < THEORY_POINTS; i++) {
        f->dU(theta, g->x[i], d);
        for (int j = 0; j < THEORY_PARAMETERS; j++) out[j] -= g->p[i] * d[j];
    }
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const theory_family *f = self;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i];
        U[i] = f->U(theta, x);
        if (gx) gx[i] = x * x * x + theta[0] * x + theta[1];
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const theory_family *f = self;
    double d[THEORY_PARAMETERS];
    for (int i = 0; i < b->n; i++) {
        f->dU(theta, b->x[i], d);
        for (int j = 0; j < THEORY_PARAMETERS; j++) g[j] += c[i] * d[j];
    }
    return 0;
}

typedef struct {
    theory_grid *grid;
    double k[DESCENT], loss[DESCENT];
    int n;
} descent;

static int note(void *ctx, const sosmc *engine, const sosmc_info *info)
{
    descent *d = ctx;
    d->k[d->n] = (double)info->iteration;
    d->loss[d->n++] = likelihood_loss(sosmc_theta(engine), d->grid);
    return interrupt_requested();
}

/* Runs the engine with either sign of the gradient and stores the exact loss after every iteration. */
static int follow(const theory_options *o, theory_statement *s, double sign, descent *d)
{
    static const double start[THEORY_PARAMETERS] = {0, 1};
    sosmc_rows rows = {.data = data, .rows = DATA, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem p = {.model = {.dim_x = 1,
                                 .dim_theta = THEORY_PARAMETERS,
                                 .self = model_of(),
                                 .energy = energy,
                                 .grad_theta = grad_theta},
                       .objective = sosmc_likelihood(sosmc_rows_source(&rows), DATA),
                       .init = sosmc_standard_normal(),
                       .theta0 = start};
    sosmc_settings c = theory_settings(2000, 0.5, sosmc_ula(0.02), sosmc_sgd(0.05), o->seed);
    sosmc *engine = NULL;
    p.objective.scale = sign;
    sosmc_status status = sosmc_create(&engine, &p, &c);
    if (status == SOSMC_OK) status = sosmc_run(engine, DESCENT, note, d);
    int code = status == SOSMC_OK ? SOSMC_EXIT_OK
                                  : theory_fail(s, SOSMC_EXIT_NUMERIC, "a run failed: %s", sosmc_message(engine));
    sosmc_free(engine);
    return code;
}

static void sign_figure(theory_statement *s, const descent *d)
{
    static const char *const labels[2] = {"data − model", "model − data, as printed"};
    static const int colours[2] = {PLOT_BLUE, PLOT_VERMILION};
    plot_series *series = theory_figure(
        s, (plot_panel){.x_label = "iteration", .y_label = "exact negative log-likelihood", .y_min = 1, .y_max = 4}, 2,
        "The engine (SOSMC-ULA, 2000 particles, SGD) with either sign; the loss is computed by quadrature and "
        "leaves the picture with the printed one.");
    for (int i = 0; series && i < 2; i++)
        series[i] = (plot_series){.label = labels[i], .colour = colours[i], .n = DESCENT, .x = d[i].k, .y = d[i].loss};
}

static double sign_table(theory_statement *s, theory_grid *g)
{
    static const double theta[THETAS][THEORY_PARAMETERS] = {{0, 0}, {0, 1}, {-1, 0.5}, {1, -1}, {2, 0.3}};
    const double step = 1e-4;
    double worst = 0;
    s->table = (theory_table){.align = "rrrrl",
                              .head = {"θ₁, θ₂", "derivative of ℓ", "data − model", "as printed", "component"}};
    for (int i = 0; i < THETAS; i++) {
        double exact[THEORY_PARAMETERS];
        data_minus_model(theta[i], g, exact);
        for (int j = 0; j < THEORY_PARAMETERS; j++) {
            double up[2] = {theta[i][0], theta[i][1]}, down[2] = {theta[i][0], theta[i][1]};
            up[j] += step;
            down[j] -= step;
            double slope = (likelihood_loss(up, g) - likelihood_loss(down, g)) / (2 * step);
            worst = fmax(worst, fabs(slope - exact[j]));
            theory_row(&s->table, "%g, %g|%+.6f|%+.6f|%+.6f|∂/∂θ%s", theta[i][0], theta[i][1], slope, exact[j],
                       -exact[j], j ? "₂" : "₁");
        }
    }
    return worst;
}

int theory_data_sign(const theory_options *o, theory_statement *s)
{
    theory_grid *g = arena_take(&s->memory, 1, sizeof *g);
    descent *d = arena_take(&s->memory, 2, sizeof *d);
    s->title = "The gradient of an energy-based model's likelihood (section 2.2)";
    s->says = "For ℓ(θ) = −E_data log π_θ the gradient is E_model[∇E] − E_data[∇E], and H = ∇E − E_data[∇E].";
    s->how =
        "The loss of seven numbers under U = x⁴/4 + θ₁x²/2 + θ₂x by quadrature, its derivative by central differences, and the "
        "engine run with either sign.";
    if (!g || !d) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    d[0].grid = d[1].grid = g;
    double worst = sign_table(s, g);
    int code = follow(o, s, 1, &d[0]);
    if (code == SOSMC_EXIT_OK) code = follow(o, s, -1, &d[1]);
    if (code != SOSMC_EXIT_OK) return code;
    sign_figure(s, d);
    double first = d[0].loss[0], with = d[0].loss[DESCENT - 1], printed = d[1].loss[DESCENT - 1];
    if (!(worst < 1e-6)) theory_fault(s, "data - model differs from the derivative by %.1e", worst);
    if (!(with < first - 0.1)) theory_fault(s, "descent by data - model leads from %.4f to %.4f", first, with);
    theory_control(s, printed > first + 0.1, "descent by model − data leads from %.3f to %.3f", first, printed);
    claim_decide(
        &s->claim, 1, 0,
        "the sign must be the other one, E_data[∇E] − E_model[∇E] (equal to the derivative of ℓ within %.0e): with "
        "the printed one the loss rises from %.3f to %.3f, with the right one it falls to %.3f. The paper's training "
        "loss in section 5.2 has the right sign; so have the gradients for marginal likelihood and rewards",
        fmax(worst, 1e-9), first, printed, with);
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- the tilted optimum */

enum { BETAS = 5, TILTS = 40 };

/* The objective of a density q on the grid of pi_0: E_q R - beta KL(q || pi_0), where R is the indicator of x < 0. */
static double worth(const theory_grid *g, const double *q, double beta)
{
    double sum = 0;
    for (int i = 0; i < THEORY_POINTS; i++)
        if (q[i] > 0) sum += q[i] * ((g->x[i] < 0) - beta * log(q[i] / g->p[i]));
    return sum;
}

static void normalise(double *q)
{
    double sum = 0;
    for (int i = 0; i < THEORY_POINTS; i++) sum += q[i];
    for (int i = 0; i < THEORY_POINTS; i++) q[i] /= sum;
}

typedef struct {
    double mass, formula, best, bound; /* pi*(H), its formula, the objective at pi*, beta log E_0 exp(R/beta) */
    double nearest,
        identity; /* the smallest difference of another density from pi*, and the largest |difference - beta KL(q||pi*)| */
} tilt;

/* Computes pi* and by how much the objective of other densities is smaller: q ∝ pi* exp(a sin(b x + c)) for many a, b, c. */
static tilt tilt_of(const theory_grid *g, double beta, double *best, double *q)
{
    double below = 0, sum = 0;
    tilt t = {.nearest = INFINITY};
    for (int i = 0; i < THEORY_POINTS; i++) {
        best[i] = g->p[i] *
                  exp(((g->x[i] < 0) - 1) / beta); /* multiplied by exp(-1/beta), so that it does not overflow */
        below += g->x[i] < 0 ? g->p[i] : 0;
        sum += best[i];
    }
    normalise(best);
    for (int i = 0; i < THEORY_POINTS; i++) t.mass += g->x[i] < 0 ? best[i] : 0;
    t.formula = below / (below + (1 - below) * exp(-1 / beta));
    t.best = worth(g, best, beta);
    t.bound = 1 + beta * log(sum);
    for (int k = 1; k <= TILTS; k++) {
        double kl = 0;
        for (int i = 0; i < THEORY_POINTS; i++) q[i] = best[i] * exp(0.05 * k * sin(0.3 * k * g->x[i] + k));
        normalise(q);
        for (int i = 0; i < THEORY_POINTS; i++)
            if (q[i] > 0) kl += q[i] * log(q[i] / best[i]);
        double lost = t.best - worth(g, q, beta);
        t.nearest = fmin(t.nearest, lost);
        t.identity = fmax(t.identity, fabs(lost - beta * kl));
    }
    return t;
}

static void tilt_rows(theory_statement *s, const theory_grid *g, double *best, double *q)
{
    static const double beta[BETAS] = {0.05, 0.1, 0.25, 1, 10};
    double identity = 0, before = 2;
    for (int b = 0; b < BETAS; b++) {
        tilt t = tilt_of(g, beta[b], best, q);
        theory_row(&s->table, "%g|%.8f|%.8f|%.8f|%.8f|%.2e|%.0e", beta[b], t.mass, t.formula, t.best, t.bound,
                   t.nearest, t.identity);
        identity = fmax(identity, fmax(t.identity, fmax(fabs(t.mass - t.formula), fabs(t.best - t.bound))));
        if (!(t.nearest > 0)) theory_fault(s, "beta = %g: another density is worth more", beta[b]);
        if (!(t.mass < before)) theory_fault(s, "beta = %g: the mass of H does not fall with beta", beta[b]);
        before = t.mass;
    }
    if (!(identity < 1e-10)) theory_fault(s, "the identities of the tilted optimum are off by %.1e", identity);
    /* The negative control is a frequent mistake: exp(beta R) in place of exp(R / beta). */
    for (int i = 0; i < THEORY_POINTS; i++) q[i] = g->p[i] * exp(0.25 * (g->x[i] < 0));
    normalise(q);
    tilt right = tilt_of(g, 0.25, best, best + THEORY_POINTS);
    double lost = right.best - worth(g, q, 0.25);
    theory_control(s, lost > 1e-3, "π₀ exp(βR) at β = 0.25 is worth %.3f less", lost);
    claim_decide(
        &s->claim, 1, s->faults == 0,
        "π* is worth β log E₀ exp(R/β), every other density q loses exactly β KL(q‖π*), and π*(H) is as printed, all "
        "within %.0e",
        fmax(identity, 1e-15));
}

int theory_tilted(const theory_options *o, theory_statement *s)
{
    static const double theta[THEORY_PARAMETERS] = {-3, -0.4}; /* two wells of unequal mass */
    theory_grid *g = arena_take(&s->memory, 1, sizeof *g);
    double *work = arena_doubles(&s->memory, 3 * THEORY_POINTS);
    s->title = "The optimum under reverse KL (section 5.2, appendix)";
    s->says =
        "−E_q R + β KL(q‖π₀) is uniquely minimised by π* ∝ π₀ exp(R/β); for the indicator of H, π*(H) = e^{1/β}π₀(H)/"
        "(e^{1/β}π₀(H) + 1 − π₀(H)), which rises as β falls.";
    s->how =
        "By quadrature for a density with two unequal wells and H = {x < 0}, against 40 other densities for each β.";
    s->table = (theory_table){
        .align = "rrrrrrr",
        .head = {"β", "π*(H)", "formula", "E R − β KL", "β log E₀e^{R/β}", "others lose at least", "|loss − β KL|"}};
    if (!g || !work) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    theory_integrate(model_of(), theta, g);
    tilt_rows(s, g, work, work + 2 * THEORY_POINTS);
    return SOSMC_EXIT_OK;
}
