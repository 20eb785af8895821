/* theory_scores.c: the score identities, the gradient of an expectation, and the surrogate loss (Lemmas 2 to 5).
 *
 *     grad log pi = -dU + E dU,    E grad log pi = 0,    grad E f = -Cov(f, dU),
 *     grad l = Cov(A, dU) for l = -E R + beta KL(pi || pi_ref), A = R + beta (U - U_ref).
 *
 * All of them are computed by quadrature and compared with central differences, whose error is about 1e-9. The surrogate is
 * differentiated on a weighted cloud of the engine, once with its multipliers held fixed and once with the multipliers
 * differentiated too, which is the negative control. */
#include <math.h>

#include "terminal/say.h"
#include "theory_kernels.h"
#include "theory_runs.h"

static const double tolerance = 1e-6, nudge = 1e-4, beta = 0.3;
static const double reference[THEORY_DIM] = {0.2, 0.4}; /* theta_ref */
enum { PARTICLES = 500 };

static double reward(double x) { return tanh(x); }
static int reward_eval(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = reward(b->x[i]);
    return 0;
}

typedef struct {
    const theory_target *t;
    const double *theta;
    theory_lattice *here, *low, *high; /* at theta, and a small distance to either side */
} place;

static void nudged(const place *p, int j, double sign, double *theta)
{
    for (int i = 0; i < THEORY_DIM; i++) theta[i] = p->theta[i];
    theta[j] += sign * nudge;
}

static void around(const place *p, int j)
{
    double theta[THEORY_DIM];
    nudged(p, j, -1, theta);
    theory_tabulate(p->t, theta, p->low);
    nudged(p, j, 1, theta);
    theory_tabulate(p->t, theta, p->high);
}

/* ------------------------------------------------------------------------------------------------ by quadrature */

/* The largest difference between -dU + E dU and the derivative of log pi, wherever there is mass; *mean is E score. */
static double score_error(const place *p, int j, double *mean)
{
    double most = 0, low[THEORY_DIM], high[THEORY_DIM];
    nudged(p, j, -1, low);
    nudged(p, j, 1, high);
    *mean = 0;
    for (int i = 0; i < THEORY_NODES; i++) {
        double x = p->here->x[i], score = -p->t->at(x, p->theta).du[j] + p->here->du[j];
        double up = -theory_energy(p->t, high, x) - p->high->logz, down = -theory_energy(p->t, low, x) - p->low->logz;
        if (fabs(x) < 6) most = fmax(most, fabs(score - (up - down) / (2 * nudge)));
        *mean += p->here->mass[i] * score;
    }
    return most;
}

typedef double (*function)(double x);
static double identity(double x) { return x; }
static double square(double x) { return x * x; }

static double mean_of(const theory_lattice *l, function f)
{
    double sum = 0;
    for (int i = 0; i < THEORY_NODES; i++) sum += l->mass[i] * f(l->x[i]);
    return sum;
}

/* Cov(f, dU_j) */
static double covariance(const place *p, function f, int j)
{
    double sum = 0, mean = mean_of(p->here, f);
    for (int i = 0; i < THEORY_NODES; i++)
        sum += p->here->mass[i] * (f(p->here->x[i]) - mean) *
               (p->t->at(p->here->x[i], p->theta).du[j] - p->here->du[j]);
    return sum;
}

static double expectation_error(const place *p, function f, int j)
{
    return fabs((mean_of(p->high, f) - mean_of(p->low, f)) / (2 * nudge) + covariance(p, f, j));
}

/* l(theta) up to the constant log Z_ref: -E R + beta (E[U_ref - U] - log Z) */
static double loss(const place *p, const theory_lattice *l, const double *theta)
{
    double sum = 0;
    for (int i = 0; i < THEORY_NODES; i++) {
        double apart = theory_energy(p->t, reference, l->x[i]) - theory_energy(p->t, theta, l->x[i]);
        sum += l->mass[i] * (-reward(l->x[i]) + beta * apart);
    }
    return sum - beta * l->logz;
}

static double multiplier(const place *p, double x)
{
    return reward(x) + beta * (theory_energy(p->t, p->theta, x) - theory_energy(p->t, reference, x));
}

/* `right` receives |Cov(A, dU) - grad l|, `naive` the same when A is differentiated too, which adds beta Cov(U, dU). */
static void tuning_error(const place *p, int j, double *right, double *naive)
{
    double low[THEORY_DIM], high[THEORY_DIM], mean_A = 0, mean_U = 0, estimate = 0, extra = 0;
    nudged(p, j, -1, low);
    nudged(p, j, 1, high);
    double exact = (loss(p, p->high, high) - loss(p, p->low, low)) / (2 * nudge);
    for (int i = 0; i < THEORY_NODES; i++) {
        mean_A += p->here->mass[i] * multiplier(p, p->here->x[i]);
        mean_U += p->here->mass[i] * theory_energy(p->t, p->theta, p->here->x[i]);
    }
    for (int i = 0; i < THEORY_NODES; i++) {
        double x = p->here->x[i], off = p->here->mass[i] * (p->t->at(x, p->theta).du[j] - p->here->du[j]);
        estimate += off * (multiplier(p, x) - mean_A);
        extra += off * beta * (theory_energy(p->t, p->theta, x) - mean_U);
    }
    *right = fabs(estimate - exact);
    *naive = fabs(estimate + extra - exact);
}

/* ------------------------------------------------------------------------------------------------ on a cloud */

typedef struct {
    double x[PARTICLES], w[PARTICLES], gradient[THEORY_DIM]; /* the gradient that the engine computed from them */
    const double *theta;
} weighted_cloud;

static int make_cloud(const theory_options *o, theory_statement *s, const theory_stage *stage, weighted_cloud *c)
{
    theory_path path = stage->path;
    sosmc_problem problem = theory_problem(stage, 1);
    sosmc_settings settings = theory_settings(PARTICLES, 0, theory_kernel_at(0, stage).kernel, theory_follow(&path),
                                              theory_seed(o, 50, 0));
    path.seen = c->gradient;
    problem.objective = sosmc_reward_reverse((sosmc_score){.eval = reward_eval}, beta, reference);
    int code = theory_engine(s, &problem, &settings, THEORY_STEPS + 1, (theory_ending){.x = c->x, .logw = c->w});
    for (int i = 0; i < PARTICLES; i++) c->w[i] = exp(c->w[i]);
    c->theta = stage->path.theta[THEORY_STEPS];
    return code;
}

/* sum_i w_i (A_i - mean A) U_theta(x_i), where A is computed at the theta `multipliers`. A is held fixed when this is not
 * `theta`. */
static double surrogate(const theory_target *t, const weighted_cloud *c, const double *theta, const double *multipliers)
{
    double mean = 0, sum = 0, A[PARTICLES];
    for (int i = 0; i < PARTICLES; i++) {
        double apart = theory_energy(t, multipliers, c->x[i]) - theory_energy(t, reference, c->x[i]);
        A[i] = reward(c->x[i]) + beta * apart;
        mean += c->w[i] * A[i];
    }
    for (int i = 0; i < PARTICLES; i++) sum += c->w[i] * (A[i] - mean) * theory_energy(t, theta, c->x[i]);
    return sum;
}

static void surrogate_errors(const theory_target *t, const weighted_cloud *c, int j, double *held, double *through)
{
    double low[THEORY_DIM], high[THEORY_DIM];
    for (int i = 0; i < THEORY_DIM; i++) low[i] = high[i] = c->theta[i];
    low[j] -= nudge;
    high[j] += nudge;
    *held = (surrogate(t, c, high, c->theta) - surrogate(t, c, low, c->theta)) / (2 * nudge) - c->gradient[j];
    *through = (surrogate(t, c, high, high) - surrogate(t, c, low, low)) / (2 * nudge) - c->gradient[j];
}

/* ------------------------------------------------------------------------------------------------ the statement */

static void row(theory_statement *s, const char *what, const char *target, const double error[THEORY_DIM], double *most)
{
    int right = 1;
    for (int j = 0; j < THEORY_DIM; j++) {
        right = right && fabs(error[j]) <= tolerance;
        *most = fmax(*most, fabs(error[j]));
    }
    if (!right) theory_fault(s, "%s on %s: off by %.2g and %.2g", what, target, error[0], error[1]);
    theory_marked_row(&s->table, right ? PAGE_PLAIN : PAGE_WARN, "%s|%s|%.1e|%.1e", what, target, error[0], error[1]);
}

static void wrong_row(theory_statement *s, const char *what, const char *target, const double error[THEORY_DIM])
{
    double most = fmax(fabs(error[0]), fabs(error[1]));
    theory_control(s, most > tolerance, "%s on %s: off by %.3f and %.3f", what, target, error[0], error[1]);
    theory_marked_row(&s->table, PAGE_DIM, "%s|%s|%.3f|%.3f", what, target, error[0], error[1]);
}

static void identities(theory_statement *s, const place *p, double *most)
{
    double score[THEORY_DIM], mean[THEORY_DIM], first[THEORY_DIM], second[THEORY_DIM], bounded[THEORY_DIM];
    double right[THEORY_DIM], naive[THEORY_DIM];
    theory_tabulate(p->t, p->theta, p->here);
    for (int j = 0; j < THEORY_DIM; j++) {
        around(p, j);
        score[j] = score_error(p, j, &mean[j]);
        first[j] = expectation_error(p, identity, j);
        second[j] = expectation_error(p, square, j);
        bounded[j] = expectation_error(p, reward, j);
        tuning_error(p, j, &right[j], &naive[j]);
    }
    row(s, "∇ log π = -∇U + E ∇U", p->t->name, score, most);
    row(s, "E ∇ log π = 0", p->t->name, mean, most);
    row(s, "∇ E f = -Cov(f, ∇U), f = x", p->t->name, first, most);
    row(s, "the same, f = x²", p->t->name, second, most);
    row(s, "the same, f = tanh x", p->t->name, bounded, most);
    row(s, "∇ l = Cov(A, ∇U), reverse KL", p->t->name, right, most);
    wrong_row(s, "A differentiated too", p->t->name, naive);
}

int theory_score_identities(const theory_options *o, theory_statement *s)
{
    theory_stage stage[THEORY_STAGES];
    theory_lattice *l = arena_take(&s->memory, 3, sizeof *l);
    weighted_cloud *c = arena_take(&s->memory, 1, sizeof *c);
    double most = 0;
    s->title = "Score identities and the surrogate loss (Lemmas 2 to 5)";
    s->says =
        "∇ log π_θ = -∇U + E ∇U with mean zero; ∇ E f = -Cov(f, ∇U); the gradient of the surrogate Σ w_i stopgrad(A_i - Ā) "
        "U_θ(x_i) is the estimate of ∇l, and differentiating through A_θ as well optimises something else.";
    s->how =
        "Quadrature against central differences on three targets, and the surrogate of a weighted cloud of 500 particles "
        "against the gradient that the engine returned for it. The absolute difference must be below 1e-6.";
    s->table = (theory_table){.caption = "Absolute differences, by component of θ",
                              .align = "llrr",
                              .head = {"identity", "target", "θ1", "θ2"}};
    if (!l || !c || theory_stages(&s->memory, stage)) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    for (int i = 0; i < THEORY_STAGES; i++)
        identities(s, &(place){stage[i].target, stage[i].path.theta[2], l, l + 1, l + 2}, &most);
    int code = make_cloud(o, s, &stage[0], c);
    if (code) return code;
    double held[THEORY_DIM], through[THEORY_DIM];
    for (int j = 0; j < THEORY_DIM; j++) surrogate_errors(stage[0].target, c, j, &held[j], &through[j]);
    row(s, "surrogate's gradient = the engine's", stage[0].target->name, held, &most);
    wrong_row(s, "surrogate, A differentiated too", stage[0].target->name, through);
    claim_decide(
        &s->claim, 1, s->faults == 0,
        "All identities hold to %.1e. Differentiating through A adds β Cov(U, ∇U), which is no small matter: the rows "
        "in grey.",
        most);
    return 0;
}
