/* theory_equivalences.c: methods that are said to be the same, compared draw by draw, and the parametrisations of Remark 2,
 * compared in expectation.
 *
 * Two engines with the same seed use the same random numbers, because a random number is a function of its name. After each
 * of 30 iterations particles, log-weights and theta are compared; methods that are the same on paper may differ by rounding
 * alone. Three published methods are written out below a second time, in a plain loop that shares nothing with the engine
 * but the names of its random numbers. */
#include <math.h>
#include <string.h>

#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory_kernels.h"
#include "theory_runs.h"

enum { CLOUD = 64, ROUNDS = 30, PARAMETRISATIONS = 4 };
static const double ess_min = 0.97;   /* high enough that every run resamples */
static const double rounding = 1e-10; /* fixed beforehand: 30 iterations of numbers of size 1 */

typedef struct {
    double x[CLOUD], logw[CLOUD], theta[THEORY_DIM];
} moment;

typedef struct {
    double x, logw, theta; /* the largest differences so far */
    int resampled;
} apart;

static void compare(const moment *a, const moment *b, apart *d)
{
    for (int i = 0; i < CLOUD; i++) {
        d->x = fmax(d->x, fabs(a->x[i] - b->x[i]));
        d->logw = fmax(d->logw, fabs(a->logw[i] - b->logw[i]));
    }
    for (int j = 0; j < THEORY_DIM; j++) d->theta = fmax(d->theta, fabs(a->theta[j] - b->theta[j]));
}

static double largest(const apart *d) { return fmax(d->theta, fmax(d->x, d->logw)); }

static sosmc_status look(const sosmc *s, moment *m)
{
    memcpy(m->theta, sosmc_theta(s), sizeof m->theta);
    return sosmc_cloud(s, m->x, m->logw);
}

/* ------------------------------------------------------------------------------------------------ two engines */

/* A ULA kernel that leaves the weights as they are. */
static int frozen_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(m->h);
    int rc = ula.step(&ula, m);
    for (int i = 0; i < m->b.n && m->logG; i++) m->logG[i] = 0;
    return rc;
}

typedef struct {
    const char *claim;
    sosmc_kernel left, right;
    int unweighted; /* the right one is ImpDiff */
} pair;
enum { PAIRS = 10, SAME = 6 }; /* those from SAME on are negative controls */

static void list(const theory_stage *stage, pair p[PAIRS])
{
    const double mass = 1.7;
    double h = 0.5 / stage->largest, eps = sqrt(2 * h * mass);
    sosmc_kernel ula = sosmc_ula(h), frozen = sosmc_ula(h), current = sosmc_ula(h);
    frozen.step = frozen_step;
    current.forward_at = SOSMC_AT_CURRENT;
    p[0] = (pair){.claim = "SOSMC-ULA, weights frozen = ImpDiff, PGD", .left = frozen, .right = ula, .unweighted = 1};
    p[1] = (pair){.claim = "HMC, L = 1 = MALA at ε²/2m", .left = sosmc_hmc(eps, 1, mass), .right = sosmc_mala(h)};
    p[2] = (pair){
        .claim = "MYULA (cached), g = 0 = ULA", .left = sosmc_myula(h, 0.5, SOSMC_MYULA_CACHED), .right = ula};
    p[3] = (pair){.claim = "MYULA (ratio), g = 0 = ULA, forward at θ_k",
                  .left = sosmc_myula(h, 0.5, SOSMC_MYULA_RATIO),
                  .right = current};
    p[4] = (pair){.claim = "underdamped, no momentum kept = ULA at ε²/2m",
                  .left = sosmc_underdamped(eps, INFINITY, mass),
                  .right = ula};
    p[5] = (pair){.claim = "leapfrog, L = 1 = ULA at ε²/2m", .left = sosmc_leapfrog(eps, 1, mass), .right = ula};
    p[6] = (pair){.claim = "weights not frozen = ImpDiff", .left = ula, .right = ula, .unweighted = 1};
    p[7] = (pair){.claim = "HMC, L = 1 = MALA at ε²/m", .left = sosmc_hmc(eps, 1, mass), .right = sosmc_mala(2 * h)};
    p[8] = (pair){.claim = "underdamped, friction 1 = ULA", .left = sosmc_underdamped(eps, 1, mass), .right = ula};
    p[9] = (pair){.claim = "leapfrog, L = 2 = ULA", .left = sosmc_leapfrog(eps, 2, mass), .right = ula};
}

static sosmc_settings settings_of(const theory_options *o, sosmc_kernel kernel, int resample)
{
    return theory_settings(CLOUD, resample ? ess_min : 0, kernel, sosmc_sgd(0.05), theory_seed(o, 40, 0));
}

static int run_pair(const theory_options *o, theory_statement *s, const theory_stage *stage, const pair *p, apart *d)
{
    sosmc_problem problem = theory_problem(stage, 1);
    sosmc_settings settings = settings_of(o, p->left, !p->unweighted);
    sosmc *left = NULL, *right = NULL;
    moment a = {0}, b = {0};
    *d = (apart){0};
    sosmc_status status = sosmc_create(&left, &problem, &settings);
    settings.kernel = p->right;
    if (p->unweighted) settings.scheme = sosmc_scheme_unweighted(CLOUD);
    if (status == SOSMC_OK) status = sosmc_create(&right, &problem, &settings);
    for (int k = 0; k < ROUNDS && status == SOSMC_OK; k++) {
        status = sosmc_step(left);
        if (status == SOSMC_OK) status = sosmc_step(right);
        if (status == SOSMC_OK) status = look(left, &a);
        if (status == SOSMC_OK) status = look(right, &b);
        if (status != SOSMC_OK) break;
        d->resampled += sosmc_last(left)->resampled;
        compare(&a, &b, d);
    }
    const char *why = *sosmc_message(left) ? sosmc_message(left)
                                           : sosmc_message(right); /* the engine that failed has a message */
    int code = status == SOSMC_OK ? 0 : theory_fail(s, SOSMC_EXIT_NUMERIC, "%s: a run failed: %s", p->claim, why);
    sosmc_free(left);
    sosmc_free(right);
    return code;
}

/* ------------------------------------------------------------------------------------------------ written out */

typedef enum { JALA_EM, CARBONE, PGD, METHODS } method;
static const char *const method_name[METHODS] = {"JALA-EM, written out = mmle + ula",
                                                 "Carbone et al., written out = likelihood + ula",
                                                 "PGD, written out = unweighted + mmle + ula"};

typedef struct {
    const theory_target *target;
    method kind;
    double h, rate, A[CLOUD], x[CLOUD], theta[THEORY_DIM], before[THEORY_DIM];
    uint64_t seed;
} loop;

/* alpha_theta(x, y) = U(x) + (y - x) U'(x) / 2 + h U'(x)^2 / 4, as these papers have it */
static double alpha(const loop *l, const double *theta, double x, double y)
{
    theory_value v = l->target->at(x, theta);
    return v.U + 0.5 * (y - x) * v.slope + 0.25 * l->h * v.slope * v.slope;
}

static void move(loop *l, uint64_t k)
{
    double z[CLOUD] __attribute__((aligned(64)));
    sosmc_batch b = {.x = l->x, .simd = sosmc_simd_best(), .dim = 1, .n = CLOUD, .ld = CLOUD};
    sosmc_normals((sosmc_rng){.seed = l->seed, .step = k, .stream = SOSMC_STREAM_MOVE}, &b, z);
    for (int i = 0; i < CLOUD; i++) {
        double x = l->x[i], y = x - l->h * l->target->at(x, l->before).slope + sqrt(2 * l->h) * z[i];
        if (l->kind != PGD) l->A[i] += alpha(l, l->before, x, y) - alpha(l, l->theta, y, x);
        l->x[i] = y;
    }
}

static void update(loop *l, const double *w)
{
    double g[THEORY_DIM] = {0};
    for (int i = 0; i < CLOUD; i++)
        for (int j = 0; j < THEORY_DIM; j++)
            g[j] += (l->kind == CARBONE ? -1 : 1) * w[i] * l->target->at(l->x[i], l->theta).du[j];
    for (int m = 0; m < THEORY_DATA && l->kind == CARBONE; m++)
        for (int j = 0; j < THEORY_DIM; j++) g[j] += l->target->at(theory_data[m], l->theta).du[j] / THEORY_DATA;
    memcpy(l->before, l->theta, sizeof l->before);
    for (int j = 0; j < THEORY_DIM; j++) l->theta[j] -= l->rate * g[j];
}

static void one_round(loop *l, uint64_t k)
{
    double w[CLOUD], sum = 0, squares = 0, scratch[2 * CLOUD + 1], old[CLOUD];
    int ancestor[CLOUD];
    if (k > 0) move(l, k);
    for (int i = 0; i < CLOUD; i++) sum += w[i] = exp(l->A[i]);
    for (int i = 0; i < CLOUD; i++) {
        w[i] /= sum;
        squares += w[i] * w[i];
    }
    update(l, w);
    if (l->kind == PGD || 1 / squares >= ess_min * CLOUD) return;
    (void)sosmc_resample(SOSMC_SYSTEMATIC, (sosmc_rng){.seed = l->seed, .step = k, .stream = SOSMC_STREAM_RESAMPLE},
                         CLOUD, w, scratch, ancestor);
    memcpy(old, l->x, sizeof old);
    for (int i = 0; i < CLOUD; i++) l->x[i] = old[ancestor[i]];
    memset(l->A, 0, sizeof l->A);
}

static void normalised(const loop *l, moment *m)
{
    double sum = 0;
    for (int i = 0; i < CLOUD; i++) sum += exp(l->A[i]);
    for (int i = 0; i < CLOUD; i++) m->logw[i] = l->A[i] - log(sum);
    memcpy(m->x, l->x, sizeof m->x);
    memcpy(m->theta, l->theta, sizeof m->theta);
}

static int run_method(const theory_options *o, theory_statement *s, const theory_stage *stage, method kind, apart *d)
{
    double h = 0.5 / stage->largest;
    sosmc_rows rows = {.data = theory_data, .rows = THEORY_DATA, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem problem = theory_problem(stage, 1);
    sosmc_settings settings = settings_of(o, sosmc_ula(h), 1);
    loop l = {.target = stage->target, .kind = kind, .h = h, .rate = settings.optimiser.lr, .seed = settings.seed};
    sosmc *engine = NULL;
    moment a = {0}, b = {0};
    *d = (apart){0};
    if (kind == PGD) settings.scheme = sosmc_scheme_unweighted(CLOUD);
    if (kind == CARBONE) problem.objective = sosmc_likelihood(sosmc_rows_source(&rows), THEORY_DATA);
    memcpy(l.theta, stage->path.theta[0], sizeof l.theta);
    sosmc_status status = sosmc_create(&engine, &problem, &settings);
    if (status == SOSMC_OK) status = sosmc_cloud(engine, l.x, NULL); /* both begin with the same draws */
    for (int k = 0; k < ROUNDS && status == SOSMC_OK; k++) {
        status = sosmc_step(engine);
        if (status == SOSMC_OK) status = look(engine, &a);
        if (status != SOSMC_OK) break;
        one_round(&l, (uint64_t)k);
        normalised(&l, &b);
        d->resampled += sosmc_last(engine)->resampled;
        compare(&a, &b, d);
    }
    int code = status == SOSMC_OK
                   ? 0
                   : theory_fail(s, SOSMC_EXIT_NUMERIC, "%s: %s", method_name[kind], sosmc_message(engine));
    sosmc_free(engine);
    return code;
}

/* ------------------------------------------------------------------------------------------------ Remark 2 */

/* Takes the forward and the backward kernel at either theta, which changes the weights and not the expectations. The
 * particles are independent; the second component of the gradient at the last theta of the path is compared with quadrature. */
static int parametrisation(const theory_options *o, theory_statement *s, const theory_stage *stage, int which,
                           double bound, double *furthest)
{
    static const char *const name[PARAMETRISATIONS] = {"K_{k-1}, L_k (the paper's)", "K_k, L_k", "K_{k-1}, L_{k-1}",
                                                       "K_k, L_{k-1}"};
    int particles = o->quick ? 30000 : 300000;
    double *x = arena_doubles(&s->memory, particles), *logw = arena_doubles(&s->memory, particles);
    sosmc_problem problem = theory_problem(stage, 1);
    sosmc_settings settings = theory_settings(particles, 0, sosmc_ula(0.5 / stage->largest),
                                              theory_follow(&stage->path), theory_seed(o, 41, which));
    sosmc_info last = {0};
    if (!x || !logw) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    settings.kernel.forward_at = which & 1 ? SOSMC_AT_CURRENT : SOSMC_AT_PREVIOUS;
    settings.kernel.backward_at = which & 2 ? SOSMC_AT_PREVIOUS : SOSMC_AT_CURRENT;
    int code = theory_engine(s, &problem, &settings, THEORY_STEPS + 1, (theory_ending){x, logw, &last});
    if (code) return code;
    const theory_lattice *exact = &stage->grid[THEORY_STEPS];
    double shift = last.logz + log(particles) - (exact->logz - stage->grid[0].logz);
    theory_tally ratio = {0}, gradient = {0};
    for (int i = 0; i < particles; i++) {
        double W = exp(logw[i] + shift);
        theory_add(&ratio, W);
        theory_add(&gradient, W * (stage->target->at(x[i], stage->path.theta[THEORY_STEPS]).du[1] - exact->du[1]));
    }
    double z = fmax(fabs(theory_z(&ratio, 1)), fabs(theory_z(&gradient, 0)));
    *furthest = fmax(*furthest, z);
    if (!(z <= bound)) theory_fault(s, "%s: %.1f standard errors from the exact value", name[which], z);
    theory_row(&s->second, "%s|%.4f ± %.4f|%+.4f ± %.4f|%.3f|%.1f", name[which], ratio.mean, theory_se(&ratio),
               gradient.mean, theory_se(&gradient), last.ess / particles, z);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ the statement */

static void note(theory_statement *s, const char *claim, const apart *d, int differ, double *most)
{
    double far = largest(d);
    int same = far <= rounding;
    if (differ)
        theory_control(s, !same, "\"%s\" is wrong, by %.2g", claim, far);
    else if (!same)
        theory_fault(s, "%s: they differ by %.3g", claim, far);
    if (!differ) *most = fmax(*most, far);
    theory_marked_row(&s->table,
                      differ ? PAGE_DIM
                      : same ? PAGE_PLAIN
                             : PAGE_WARN,
                      "%s|%.1e|%.1e|%.1e|%d|%s", claim, d->x, d->logw, d->theta, d->resampled,
                      far == 0 ? "to the bit"
                      : same   ? "rounding"
                               : "different");
}

static void words(theory_statement *s)
{
    s->title = "Special cases and equivalent kernels (Remarks 1 and 2, appendix A)";
    s->says =
        "With ULA kernels SOSMC is JALA-EM for marginal likelihoods and the sampler of Carbone et al. for energy models; "
        "the forward and backward kernels may be taken at either θ.";
    s->how =
        "Two engines with the same seed, 64 particles, 30 iterations with resampling below 0.97 N: the largest difference of "
        "any particle, log-weight or component of θ in any iteration; 1e-10 is allowed for rounding. The published methods "
        "are written out in a plain loop. Remark 2 is about expectations: independent particles, eight steps, against "
        "quadrature. In grey: what must differ.";
    s->table = (theory_table){.caption = "Draw by draw: largest differences over 30 iterations",
                              .align = "lrrrrl",
                              .head = {"", "particles", "log-weights", "θ", "resampled", ""}};
    s->second = (theory_table){.caption = "Remark 2 in expectation, skew target, h = 0.5/L, after eight steps",
                               .align = "lrrrr",
                               .head = {"kernels", "E W / (Z_k/Z_0)", "error of ∂U/∂θ2", "ESS/N", "|z|"}};
}

int theory_equivalences(const theory_options *o, theory_statement *s)
{
    theory_stage stage[THEORY_STAGES];
    pair p[PAIRS];
    apart d;
    double bound = theory_bound(2 * PARAMETRISATIONS), most = 0, furthest = 0;
    int code = 0;
    words(s);
    if (theory_stages(&s->memory, stage)) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    list(&stage[0], p);
    for (int i = 0; i < SAME && !code; i++) {
        code = run_pair(o, s, &stage[0], &p[i], &d);
        if (!code) note(s, p[i].claim, &d, 0, &most);
    }
    for (int m = 0; m < METHODS && !code; m++) {
        code = run_method(o, s, &stage[0], (method)m, &d);
        if (!code) note(s, method_name[m], &d, 0, &most);
    }
    for (int i = SAME; i < PAIRS && !code; i++) {
        code = run_pair(o, s, &stage[0], &p[i], &d);
        if (!code) note(s, p[i].claim, &d, 1, &most);
    }
    for (int i = 0; i < PARAMETRISATIONS && !code; i++) code = parametrisation(o, s, &stage[0], i, bound, &furthest);
    if (interrupt_requested()) return theory_fail(s, SOSMC_EXIT_INTERRUPTED, "interrupted");
    if (code) return code;
    claim_decide(
        &s->claim, 1, s->faults == 0,
        "%d pairs of methods agree draw by draw, to %.1e at worst; the four parametrisations of Remark 2 are within %.1f "
        "standard errors of the exact values (bound %.2f).",
        SAME + METHODS, most, furthest, bound);
    return 0;
}
