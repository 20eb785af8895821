/* outcome.c: what a run tells when it ends. The choice between an exact and a judged value is made here, once, for the terminal,
 * the summary and the page. */
#include "outcome.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const told_words[] = {
    [TOLD_JUDGED] = "judged", [TOLD_FORMULA] = "exact", [TOLD_LATTICE] = "quadrature", [TOLD_CHAINS] = "chains"};

enum { ATTEMPTS = 5 };
static const double EDGE = 1e-4;     /* largest fraction of the mass on the edge of a lattice that was asked for */
static const double OWN_EDGE = 1e-6; /* ... of one of our own; beyond it there may be many times as much */
static const double ACCURATE = 1e-3; /* relative error of quadrature below which no finer lattice is tried */
static const double USABLE = 0.05;   /* ... and the largest that is told */

/* How much less likely held-out points are where a model knows the others by heart: at least so many nats, and standard errors. */
static const struct {
    double nats, errors;
} BY_HEART = {.nats = 0.05, .errors = 3};

static void warn(outcome *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void warn(outcome *o, const char *format, ...)
{
    va_list args;
    if (o->warnings == OUTCOME_WARNINGS) return;
    va_start(args, format);
    (void)vsnprintf(o->warning[o->warnings++], OUTCOME_SENTENCE, format, args);
    va_end(args);
}

/* An outcome in the making. */
typedef struct {
    outcome *o;
    const outcome_source *from;
    const job *job;
    const stepper *at;
    char *error;
    size_t room;
} subject;

/* ---------------------------------------------------------------------------- exact values of models of the plane */

/* Why there is no judgement; NULL: there is one. */
static const char *why_not_judged(const subject *s)
{
    const outcome *o = s->o;
    if (o->failed) return "the run failed";
    if (o->stopped) return "the run was stopped before it was judged";
    return o->not_judged ? "the run was not judged (judge: none)" : NULL;
}

static void cover(sosmc_lattice *l, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int a = 0; a < 2; a++) {
            l->low[a] = fmin(l->low[a], x[2 * i + a]);
            l->high[a] = fmax(l->high[a], x[2 * i + a]);
        }
}

/* A box around the particles and draws of the initial law. -1: neither is to be had. */
static int find_box(const subject *s, sosmc_lattice *l)
{
    enum { DRAWS = 64 };
    _Alignas(64) double drawn[2 * DRAWS];
    double rows[2 * DRAWS];
    int64_t n = stepper_particles(s->at);
    const sosmc_source *init = &s->job->problem.init;
    sosmc_batch b = {.x = drawn, .simd = sosmc_simd_best(), .dim = 2, .n = DRAWS, .ld = DRAWS};
    double *x = malloc(2 * (size_t)n * sizeof *x);
    *l = (sosmc_lattice){.nodes = OUTCOME_NODES, .low = {INFINITY, INFINITY}, .high = {-INFINITY, -INFINITY}};
    int rc = x && stepper_cloud(s->at, x, NULL) == SOSMC_OK ? 0 : -1;
    if (rc == 0) cover(l, x, n);
    free(x);
    if (init->draw(init->self, (sosmc_rng){.seed = s->job->settings.seed}, &b, drawn) == 0) {
        for (int i = 0; i < 2 * DRAWS; i++) rows[i] = drawn[i % 2 * DRAWS + i / 2];
        cover(l, rows, DRAWS);
    }
    return rc == 0 && isfinite(l->high[0] - l->low[0]) && isfinite(l->high[1] - l->low[1]) ? 0 : -1;
}

/* Each side by half of the width. A box that holds the origin is made symmetric about it: rewards that jump there are then
 * integrated with an error of second order. */
static void widen(sosmc_lattice *l)
{
    for (int a = 0; a < 2; a++) {
        double more = 0.5 * (l->high[a] - l->low[a]) + 1e-3, reach = fmax(fabs(l->low[a]), fabs(l->high[a])) + more;
        int symmetric = l->low[a] < 0 && l->high[a] > 0;
        l->low[a] = symmetric ? -reach : l->low[a] - more;
        l->high[a] = symmetric ? reach : l->high[a] + more;
    }
}

/* How far a value may be off, relative to 1 and to itself. */
static double relative(double value, double error) { return isnan(value) ? 0 : error / (1 + fabs(value)); }

static double roughness(const evaluation_values *v, const evaluation_values *e)
{
    return fmax(fmax(relative(v->logz, e->logz), relative(v->reward, e->reward)),
                fmax(relative(v->kl, e->kl), relative(v->loss, e->loss)));
}

static told exact(told_from from, double value, double error)
{
    return (told){.exists = !isnan(value), .from = from, .value = value, .error = error};
}

static void keep_exact(outcome *o, const evaluation_values *v, const evaluation_values *e)
{
    o->log_z = exact(TOLD_LATTICE, v->logz, e->logz);
    o->reward = exact(TOLD_LATTICE, v->reward, e->reward);
    o->kl = exact(TOLD_LATTICE, v->kl, e->kl);
    o->loss = exact(TOLD_LATTICE, o->mmle ? -v->logz : v->loss, o->mmle ? e->logz : e->loss);
    o->best_loss = exact(TOLD_LATTICE, v->best_loss, e->best_loss);
    o->best_reward = exact(TOLD_LATTICE, v->best_reward, e->best_reward);
    o->best_kl = exact(TOLD_LATTICE, v->best_kl, e->best_kl);
    o->excess = exact(TOLD_LATTICE, v->excess, e->excess);
    if (o->optimises) return;
    o->loss = o->kl = o->best_loss = o->best_reward = o->best_kl = o->excess = (told){.exists = 0};
}

/* The verdict knows the distance to the best of all densities by what is told. */
static void judge_by_exact(const subject *s, const evaluation_values *v)
{
    outcome *o = s->o;
    sosmc_measured *m = &o->judged.measured;
    if (why_not_judged(s) || (o->automatic && !o->network) || o->tempers || !o->optimises || isnan(v->best_loss))
        return;
    if (o->judged.excess.error < o->excess.error) return; /* fresh particles know it better */
    m->excess = v->excess;
    m->excess_error = o->excess.error;
    m->to_gain = -v->ref_reward - v->best_loss;
    sosmc_verdict(m, &o->judged.verdict);
}

/* Takes the values on the lattice of the run file, if it has one, even where another lattice would be better. */
static int take_asked(const subject *s, const sosmc_lattice *l)
{
    outcome *o = s->o;
    evaluation_values v, e;
    if (evaluation_exact(s->job, o->theta, l, &v, &e)) return -1;
    if (v.edge > EDGE) {
        warn(
            o,
            "the exact values are cut off and not told: %.2g of the mass lies on the edge of the lattice; take a larger box "
            "(evaluate.low, evaluate.high)",
            v.edge);
        return -1;
    }
    keep_exact(o, &v, &e);
    judge_by_exact(s, &v);
    return 0;
}

/* Takes the values on a lattice of our own, which is widened until it holds the mass and refined once where it is too
 * coarse. */
static int take_own(const subject *s)
{
    sosmc_lattice l;
    evaluation_values v, e;
    if (find_box(s, &l)) return -1;
    for (int i = 0; i < ATTEMPTS; i++) {
        widen(&l);
        if (evaluation_exact(s->job, s->o->theta, &l, &v, &e)) return -1;
        if (v.edge < OWN_EDGE) break;
    }
    if (!(v.edge < OWN_EDGE)) return -1;
    if (roughness(&v, &e) > ACCURATE) {
        l.nodes = OUTCOME_MANY_NODES;
        if (evaluation_exact(s->job, s->o->theta, &l, &v, &e)) return -1;
    }
    if (!(roughness(&v, &e) <= USABLE)) return -1;
    keep_exact(s->o, &v, &e);
    judge_by_exact(s, &v);
    return 0;
}

/* By a formula: log Z, and with it the loss of a marginal likelihood. No error of fresh particles is as small as none. */
static void take_formula(const subject *s)
{
    outcome *o = s->o;
    double value = job_log_z(s->job, o->theta);
    if (isnan(value)) return;
    o->log_z = exact(TOLD_FORMULA, value, 0);
    if (o->mmle) o->loss = exact(TOLD_FORMULA, -value, 0);
}

/* Of a tilted model of the plane, which is the best of all densities for its reward: the values of that, and what the model had. */
static void take_exact_tilted(const subject *s)
{
    outcome *o = s->o;
    job rewarded = *s->job;
    const sosmc_temper_task *t = &s->job->temper;
    subject other = *s;
    rewarded.problem.objective = sosmc_reward_reverse(t->score, t->beta, t->theta);
    other.job = &rewarded;
    o->optimises = 1;
    int rc = o->iterations > 0 && t->model.dim_x == 2 ? take_own(&other) : -1;
    o->optimises = 0;
    if (rc) return;
    o->model_reward = o->reward;
    o->model_log_z = o->log_z;
    o->reward = o->best_reward;
    o->kl = o->best_kl;
    o->loss = o->best_loss;
    o->log_z = exact(TOLD_LATTICE, o->model_log_z.value - o->loss.value / t->beta,
                     o->model_log_z.error + o->loss.error / t->beta);
    o->best_loss = o->best_reward = o->best_kl = o->excess = (told){.exists = 0};
}

static void take_exact(const subject *s)
{
    sosmc_lattice asked = evaluation_lattice(s->from->evaluation);
    if (s->o->iterations == 0) return;
    take_formula(s);
    if (s->job->problem.model.dim_x != 2 || job_has_bounds(s->job)) return; /* a lattice has no walls */
    (void)(asked.nodes ? take_asked(s, &asked) : take_own(s));
}

/* ---------------------------------------------------------------------------- judged values */

/* A lattice is coarse where a network is steep: what fresh particles know better is theirs. */
static void fill(told *t, const sosmc_number *n, int exists, const char *why_not)
{
    if (t->exists && (why_not || !(n->error < t->error))) return;
    *t = (told){.exists = exists, .value = NAN, .error = NAN};
    if (!exists) return;
    if (!why_not) {
        t->value = n->value;
        t->error = n->error;
        why_not = n->why;
    }
    if (isnan(t->value) || isnan(t->error))
        (void)snprintf(t->why, sizeof t->why, "%s", *why_not ? why_not : "the judgement has none");
}

/* A lattice that holds the mass shows that the model is a law, which nobody knew before; what is left to judge are the particles. */
static void judge_tempered_by_exact(const subject *s, const sosmc_tempered *r)
{
    sosmc_measured m = sosmc_nothing_measured();
    if (s->o->log_z.from == TOLD_JUDGED || why_not_judged(s)) return;
    m.particles = m.pass_particles = s->o->particles;
    m.pass_arrived = s->o->temper.temperature;
    m.pass_survivors = r->survivors;
    sosmc_verdict(&m, &s->o->judged.verdict);
}

/* What tempered particles tell. */
static void take_tempered(const subject *s)
{
    outcome *o = s->o;
    sosmc_tempered r;
    const char *why_not = why_not_judged(s);
    int tilted = s->job->temper.beta > 0;
    sosmc_sampler_result(s->at->sampler, &r);
    judge_tempered_by_exact(s, &r);
    fill(&o->log_z, &r.log_z, 1, why_not);
    fill(&o->reward, &r.reward, s->job->temper.score.eval != NULL, why_not);
    fill(&o->kl, &r.kl, tilted, why_not);
    fill(&o->loss, &r.loss, tilted, why_not);
    fill(&o->model_reward, &r.model_reward, tilted, why_not);
    fill(&o->model_log_z, &r.model_log_z, tilted, why_not);
}

/* A solver's fresh particles say nothing of a model that is no law, as far as is known: neither by itself nor on a lattice. */
static const char *why_no_law(const subject *s)
{
    outcome *o = s->o;
    const char *why = job_why_no_log_z(s->job);
    if (!o->automatic || !why || o->log_z.from != TOLD_JUDGED) return NULL;
    o->judged.measured.excess = NAN;
    sosmc_verdict(&o->judged.measured, &o->judged.verdict);
    return why;
}

/* Every quantity that the objective has and that is not exact. */
static void take_judged(const subject *s)
{
    outcome *o = s->o;
    const sosmc_judgement *j = &o->judged;
    const sosmc_objective *objective = &s->job->problem.objective;
    const char *why_not = why_not_judged(s);
    if (!why_not) why_not = why_no_law(s);
    int divergence = (objective->loss == SOSMC_LOSS_FORWARD_KL && objective->b != 0) ||
                     (objective->loss == SOSMC_LOSS_REVERSE_KL && objective->kl != 0);
    fill(&o->loss, &j->loss, o->optimises, why_not);
    fill(&o->reward, &j->reward, objective->score.eval != NULL, why_not);
    fill(&o->kl, &j->kl, divergence, why_not);
    fill(&o->log_z, &j->log_z, 1, why_not);
    int best = objective->loss == SOSMC_LOSS_REVERSE_KL && !isnan(j->best_loss.value);
    fill(&o->best_loss, &j->best_loss, best, why_not);
    fill(&o->best_reward, &j->best_reward, best, why_not);
    fill(&o->best_kl, &j->best_kl, best, why_not);
    fill(&o->excess, &j->excess, best, why_not);
}

/* Values on a lattice have the units already. */
static void shift(told *t, double volume) { t->value -= t->from == TOLD_JUDGED ? volume : 0; }

/* The mean reward of the particles of a run that only samples, which are chains that know nothing of each other. */
static int reward_of_chains(const subject *s, double *mean, double *error)
{
    const sosmc_score *score = &s->job->problem.objective.score;
    int dim = s->job->problem.model.dim_x, n = stepper_particles(s->at);
    double *x = n > 1 ? malloc((size_t)n * ((size_t)dim + 1) * sizeof *x) : NULL, square = 0;
    if (!x) return -1;
    double *R = x + (size_t)n * (size_t)dim;
    int rc = stepper_cloud(s->at, x, NULL) != SOSMC_OK || sosmc_scores(score, dim, n, x, R) != SOSMC_OK;
    *mean = 0;
    for (int i = 0; i < n && !rc; i++) *mean += R[i] / n;
    for (int i = 0; i < n && !rc; i++) square += (R[i] - *mean) * (R[i] - *mean);
    *error = sqrt(square / (n - 1.0) / n);
    free(x);
    return rc ? -1 : 0;
}

/* Where there is no law, and so no log Z and no divergence, chains still have a mean reward: fresh ones, or those that were sampled. */
static void take_chains(const subject *s)
{
    outcome *o = s->o;
    double mean = NAN, error = NAN;
    if (o->failed || !o->reward.exists || !isnan(o->reward.value) || !job_why_no_log_z(s->job)) return;
    evaluation_fresh(s->from->evaluation, &mean, &error);
    if (isnan(mean) && (o->optimises || o->weighted || o->iterations == 0 || reward_of_chains(s, &mean, &error)))
        return;
    if (isfinite(mean) && isfinite(error))
        o->reward = (told){.exists = 1, .from = TOLD_CHAINS, .value = mean, .error = error};
}

/* From the loss that is told, which may be better than the judged one. */
static void take_criteria(outcome *o)
{
    double p = o->dim_theta, rows = (double)o->judged.rows, times = o->mmle ? 1 : rows;
    o->aic = o->bic = NAN;
    if (!o->likelihood || o->network || !isfinite(o->loss.value) || !(times > 0)) return;
    o->aic = 2 * p + 2 * times * o->loss.value;
    if (rows > 0) o->bic = p * log(rows) + 2 * times * o->loss.value;
}

/* ---------------------------------------------------------------------------- the likelihood of points */

/* The mean energy of the points at theta, and the standard error of that mean. -1: it is not to be had. */
static int mean_energy(const subject *s, const double *points, int64_t rows, double *mean, double *spread)
{
    double *U = malloc((size_t)rows * sizeof *U), sum = 0, squares = 0, n = (double)rows;
    int threads = s->job->settings.threads;
    int rc = U && sosmc_energies(&s->job->problem.model, s->o->theta, rows, points, threads, U) == SOSMC_OK ? 0 : -1;
    for (int64_t i = 0; i < rows && rc == 0; i++) sum += U[i];
    *mean = sum / n;
    for (int64_t i = 0; i < rows && rc == 0; i++) squares += (U[i] - *mean) * (U[i] - *mean);
    *spread = rows > 1 ? sqrt(squares / (n - 1) / n) : NAN;
    free(U);
    return rc;
}

/* From the energies of the points and the log Z that is told. */
static told likelihood_of(const subject *s, const double *points, int64_t rows, double *spread)
{
    told t = s->o->log_z;
    double mean = NAN;
    t.exists = points != NULL && !s->o->failed;
    *spread = NAN;
    if (!t.exists || isnan(t.value)) return t;
    t.value = mean_energy(s, points, rows, &mean, spread) ? NAN : -mean - t.value;
    if (isnan(t.value)) (void)snprintf(t.why, sizeof t.why, "the energies of the points could not be taken");
    return t;
}

/* Points that were all fitted: their likelihood is no measure of others, which must be said where few were, as they can be learnt by
 * heart. */
static void miss_held_out(outcome *o)
{
    long long rows = o->fitted_rows;
    o->held_out = (told){.exists = 1, .value = NAN, .error = NAN};
    (void)snprintf(o->held_out.why, sizeof o->held_out.why,
                   "none of the %lld points was held out (objective.held_out%s)", rows,
                   rows < POINTS_FEW ? "; train holds out a tenth of 50 points or more" : "");
    if (rows < POINTS_FEW && o->network)
        warn(
            o,
            "the log-likelihood is that of the %lld fitted points alone, and says nothing about new points: a network knows so few "
            "by heart; take more points, or hold some out (objective.held_out: 0.2)",
            rows);
}

/* The standard error of the held-out mean is that of the gap: both means are taken with the same log Z, and the fitted points are given. */
static void compare_likelihoods(outcome *o)
{
    double gap = o->log_likelihood.value - o->held_out.value;
    if (gap > BY_HEART.nats && gap > BY_HEART.errors * o->held_out_spread)
        warn(
            o,
            "the points that were held out are less likely than those that were fitted, by %.2g nats each: the model knows its "
            "points by heart; take more points or fewer parameters",
            gap);
}

static void take_likelihoods(const subject *s)
{
    outcome *o = s->o;
    double spread = NAN;
    const double *fitted = job_points(s->job, &o->fitted_rows), *held = job_held_out(s->job, &o->held_out_rows);
    o->log_likelihood = likelihood_of(s, o->iterations > 0 ? fitted : NULL, o->fitted_rows, &spread);
    o->held_out = likelihood_of(s, o->iterations > 0 ? held : NULL, o->held_out_rows, &o->held_out_spread);
    if (o->log_likelihood.exists && isfinite(o->log_likelihood.value) && !held)
        miss_held_out(o);
    else
        compare_likelihoods(o);
}

/* In words: the units of points and densities, and which coordinates the columns are. */
static int take_units(const subject *s)
{
    outcome *o = s->o;
    const points_scaling *units = job_scaling(s->job);
    const size_t room = sizeof o->units - 100;
    int k = 0;
    if (!units) return 0;
    o->log_density = job_units(s->job) ? 0 : scaling_log_density(units);
    size_t used = (size_t)snprintf(o->units, room, "points and densities are in the units of the %s",
                                   job_units(s->job) ? "data" : "fit (scaling in summary.json has those of the data)");
    for (; units->names && k < units->dim && used < room; k++)
        used += (size_t)snprintf(o->units + used, 100, "%sx%d is %.60s", k ? ", " : "; ", k + 1, units->names[k]);
    if (units->names && k < units->dim) (void)snprintf(o->units + used, 100, ", ...");
    return scaling_copy(&o->scaling, units);
}

/* ---------------------------------------------------------------------------- theta and the verdict */

static void say_against(sosmc_verdict_words *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_against(sosmc_verdict_words *v, const char *format, ...)
{
    va_list args;
    if (v->status < SOSMC_NOT_CONVERGED) v->status = SOSMC_NOT_CONVERGED;
    if (v->reasons == SOSMC_REASONS) return;
    va_start(args, format);
    (void)vsnprintf(v->reason[v->reasons++], SOSMC_SENTENCE, format, args);
    va_end(args);
}

/* What is said of a run that the library did not judge, or whose judgement ended early. */
static void judge_without(const subject *s, const char *why)
{
    sosmc_verdict_words *v = &s->o->judged.verdict;
    if (s->from->failed) {
        say_against(v, "%s", s->from->failed);
        v->status = SOSMC_RUN_FAILED;
        return;
    }
    say_against(v, "%s: whether it has converged is not known", why);
}

/* The reasons that the judgement itself does not give: there was none. */
static void explain_missing_errors(const subject *s)
{
    sosmc_judgement *j = &s->o->judged;
    const char *why = why_not_judged(s);
    if (!why) return;
    if (!j->theta_mc_error && !*j->why_no_mc_error) (void)snprintf(j->why_no_mc_error, SOSMC_WHY, "%s", why);
    if (!j->theta_standard_error && !*j->why_no_standard_error)
        (void)snprintf(j->why_no_standard_error, SOSMC_WHY, "%s", why);
}

/* The user's names of the parameters. */
static int take_names(const subject *s)
{
    outcome *o = s->o;
    if (o->network) return 0;
    o->name = calloc((size_t)o->dim_theta + 1, sizeof *o->name);
    for (int k = 0; o->name && k < o->dim_theta; k++) job_theta_name(s->job, k, o->name[k]);
    return o->name ? 0 : -1;
}

/* The verdict once more, with these names. */
static void name_parameters(outcome *o)
{
    if (!o->name) return;
    o->judged.measured.names = o->name[0];
    o->judged.measured.name_room = JOB_NAME;
    sosmc_verdict(&o->judged.measured, &o->judged.verdict);
}

/* The solver's own judgement. */
static int take_solution(const subject *s)
{
    sosmc_solution solution;
    sosmc_status status = sosmc_solver_solution(s->at->solver, &solution);
    s->o->judged = solution.judgement;
    name_parameters(s->o);
    return status == SOSMC_OK ? 0 : files_fail(s->error, s->room, "out of memory for what the solver has found");
}

/* Of a log-strength at a constant rate the way that it went tells whether it has settled; a rate that falls would hold it still. */
static int judge_way(const subject *s)
{
    const moments_theta *t = &s->from->theta;
    const sosmc_optimiser *opt = &s->job->settings.optimiser;
    sosmc_judgement *j = &s->o->judged;
    double last = stepper_theta(s->at)[0];
    j->memory = j->theta = malloc(sizeof *j->theta);
    if (!j->theta) return files_fail(s->error, s->room, "out of memory while the run was judged");
    j->theta[0] = t->mean;
    j->measured = sosmc_nothing_measured();
    j->loss = j->log_z = (sosmc_number){NAN, NAN, "it is not measured for pictures"};
    (void)snprintf(j->why_no_mc_error, SOSMC_WHY,
                   "it is not measured for pictures; theta moved by %.2g while it was averaged", t->moved);
    (void)snprintf(j->why_no_standard_error, SOSMC_WHY, "it is not measured for pictures; it is at least %.2g",
                   t->limit / 2);
    if ((double)t->iterations < t->least)
        say_against(
            &j->verdict,
            "whether the strength has settled is not known: it was averaged over %lld iterations, and it takes %.0f; take "
            "more iterations (--resume goes on)",
            (long long)t->iterations, t->least);
    else if (!t->settled)
        say_against(
            &j->verdict,
            "the strength still moves: its logarithm went by %.2g from the earlier to the later half of the last %lld "
            "iterations (at most %.2g is wanted); take more iterations (--resume goes on)",
            t->moved, (long long)t->iterations, t->limit);
    if (opt->low < opt->high && (last <= opt->low || last >= opt->high))
        say_against(&j->verdict, "the logarithm of the strength ended at its bound %g; widen the bound", last);
    return 0;
}

static const struct {
    const char *what, *remedy;
} residual_words[SOSMC_RESIDUALS] = {
    [SOSMC_RESIDUAL_SD] = {"standard deviation", "give another noise or blur"},
    [SOSMC_RESIDUAL_ACROSS] = {"autocorrelation along rows",
                               "give another blur or noise, or a picture that was not compressed"},
    [SOSMC_RESIDUAL_DOWN] = {"autocorrelation along columns",
                             "give another blur or noise, or a picture that was not compressed"},
    [SOSMC_RESIDUAL_FAR] = {"share beyond 4 standard deviations",
                            "give another noise, or mask the pixels that are wrong"}};

/* Whether what is left of the picture by the first particle looks like the noise that is assumed: a posterior predictive check. */
static int judge_residuals(const subject *s)
{
    outcome *o = s->o;
    size_t n = (size_t)o->particles, dim = (size_t)s->job->problem.model.dim_x;
    const sosmc_deblur *seen = job_restores(s->job);
    if (!seen) return 0;
    double *x = malloc(n * dim * sizeof *x);
    if (!x) return files_fail(s->error, s->room, "out of memory for %d particles", o->particles);
    o->has_residuals = stepper_cloud(s->at, x, NULL) == SOSMC_OK &&
                       sosmc_deblur_residuals(seen, x, o->residual) == SOSMC_OK;
    free(x);
    for (int k = 0; o->has_residuals && k < SOSMC_RESIDUALS; k++) {
        const sosmc_residual *r = &o->residual[k];
        if (fabs(r->value - r->expected) > r->limit)
            say_against(
                &o->judged.verdict,
                "the residuals do not look like the noise: their %s is %.2g, where %.2g +- %.2g is expected; %s",
                residual_words[k].what, r->value, r->expected, r->limit, residual_words[k].remedy);
    }
    return 0;
}

static int judge(const subject *s)
{
    outcome *o = s->o;
    const sosmc_judge_options options = {.rows = job_rows(s->job),
                                         .cost = 0.5 * s->job->settings.judge,
                                         .why_no_log_z = job_why_no_log_z(s->job),
                                         .stop = s->from->stop,
                                         .stop_ctx = s->from->stop_ctx};
    char message[OUTCOME_SENTENCE] = "";
    if (why_not_judged(s)) {
        judge_without(s, why_not_judged(s));
        return 0;
    }
    if (o->automatic) return take_solution(s);
    if (o->tempers) {
        sosmc_tempered r;
        sosmc_sampler_result(s->at->sampler, &r);
        o->judged.verdict = r.verdict;
        (void)snprintf(o->judged.why_no_mc_error, SOSMC_WHY, "nothing is optimised");
        (void)snprintf(o->judged.why_no_standard_error, SOSMC_WHY, "nothing is optimised");
        return 0;
    }
    if (s->from->theta.iterations > 0 && s->job->settings.schedule.kind == SOSMC_SCHEDULE_CONSTANT &&
        strcmp(config_text(s->from->c, "optimiser.type"), "sgd") == 0)
        return judge_way(s) || judge_residuals(s) ? -1 : 0;
    sosmc_status status = sosmc_judge(s->at->engine, &options, &o->judged, message, sizeof message);
    if (status == SOSMC_OK) name_parameters(o);
    if (status == SOSMC_OK && !o->optimises && !o->weighted)
        say_against(
            &o->judged.verdict,
            "the masses of the modes were not checked: chains may miss a mode or leave one too rarely; sample by "
            "tempering (objective.type: temper)");
    if (status == SOSMC_OK) return judge_residuals(s);
    if (status == SOSMC_STOPPED) {
        o->stopped = 1;
        judge_without(s, why_not_judged(s));
        return 0;
    }
    if (status == SOSMC_ENOMEM) return files_fail(s->error, s->room, "out of memory while the run was judged");
    return files_fail(s->error, s->room, "the run could not be judged: %s",
                      *message ? message : sosmc_status_name(status));
}

/* The estimate of the judgement, or else what the iterations ended with. */
static int take_theta(const subject *s)
{
    outcome *o = s->o;
    size_t p = (size_t)o->dim_theta, bytes = p * sizeof(double);
    const double *average = s->at->engine ? sosmc_theta_average(s->at->engine) : stepper_theta(s->at);
    o->theta = malloc(bytes + 1);
    if (!o->theta) return -1;
    memcpy(o->theta, o->judged.theta && o->optimises ? o->judged.theta : average, bytes);
    if (o->network) return 0;
    o->last_theta = malloc(2 * bytes + 1);
    if (!o->last_theta) return -1;
    memcpy(o->last_theta, stepper_theta(s->at), bytes);
    memcpy(o->last_theta + p, average, bytes);
    return 0;
}

static int take_interval(outcome *o)
{
    const sosmc_judgement *j = &o->judged;
    int p = o->dim_theta;
    if (o->network || !(j->theta_low || (!o->likelihood && j->theta_mc_error))) return 0;
    o->low = malloc((size_t)p * sizeof(double) + 1);
    o->high = malloc((size_t)p * sizeof(double) + 1);
    if (!o->low || !o->high) return -1;
    for (int k = 0; k < p; k++) {
        o->low[k] = j->theta_low ? j->theta_low[k] : o->theta[k] - j->t_quantile * j->theta_mc_error[k];
        o->high[k] = j->theta_low ? j->theta_high[k] : o->theta[k] + j->t_quantile * j->theta_mc_error[k];
    }
    return 0;
}

/* ---------------------------------------------------------------------------- all of it */

/* What is known of a run before anything is measured. */
static void describe(const subject *s)
{
    outcome *o = s->o;
    const config *c = s->from->c;
    const sosmc_settings *cfg = &s->job->settings;
    *o = (outcome){.optimises = s->job->problem.objective.scale != 0,
                   .network = job_has_network(s->job),
                   .mmle = s->job->problem.objective.loss == SOSMC_LOSS_MMLE,
                   .likelihood = s->job->problem.objective.loss == SOSMC_LOSS_MMLE ||
                                 s->job->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD,
                   .weighted = 1,
                   .accepts = 1,
                   .failed = s->from->failed != NULL,
                   .particles = stepper_particles(s->at),
                   .dim_theta = s->job->problem.model.dim_theta,
                   .iterations = stepper_done(s->at),
                   .automatic = s->job->automatic,
                   .tempers = s->job->tempers};
    (void)snprintf(o->model, sizeof o->model, "%s",
                   config_text(c, config_has(c, "model.name") ? "model.name" : "model.type"));
    (void)snprintf(o->objective, sizeof o->objective, "%s", config_text(c, "objective.type"));
    if (o->automatic) {
        o->solve = s->at->solved;
        (void)snprintf(o->method, sizeof o->method, "the solver");
        return;
    }
    if (o->tempers) {
        o->temper = s->at->tempered;
        (void)snprintf(o->method, sizeof o->method, "tempering");
        return;
    }
    o->weighted = cfg->scheme.weighted;
    o->accepts = cfg->kernel.metropolis;
    o->averaged = cfg->average > 0;
    o->not_judged = !(cfg->judge > 0) && !s->from->anyway;
    o->last = s->at->last;
    const char *optimiser = o->optimises ? config_text(c, "optimiser.type") : NULL;
    (void)snprintf(o->method, sizeof o->method, "%s, %s%s%s", config_text(c, "scheme.type"),
                   config_text(c, "kernel.type"), optimiser ? ", " : "", optimiser ? optimiser : "");
}

int outcome_take(outcome *o, const outcome_source *from, char *error, size_t room)
{
    subject s = {.o = o, .from = from, .job = from->job, .at = from->at, .error = error, .room = room};
    describe(&s);
    for (int i = 0; job_note_at(from->job, i); i++) warn(o, "%s", job_note_at(from->job, i));
    if (from->warning && *from->warning) warn(o, "%s", from->warning);
    o->told_before = o->warnings;
    o->left_out = job_left_out(from->job);
    if (take_names(&s)) return files_fail(error, room, "out of memory for the %d parameters", o->dim_theta);
    if (judge(&s)) return -1;
    explain_missing_errors(&s);
    if (take_theta(&s) || take_interval(o) || take_units(&s))
        return files_fail(error, room, "out of memory for the %d parameters", o->dim_theta);
    /* Tempered particles have honest errors; a lattice is for what they cannot tell. */
    if (!o->failed && o->tempers && s.job->temper.why_no_log_z && s.job->temper.beta > 0)
        take_exact_tilted(&s);
    else if (!o->failed && (!o->tempers || s.job->temper.why_no_log_z))
        take_exact(&s);
    if (o->tempers)
        take_tempered(&s);
    else
        take_judged(&s);
    shift(&o->log_z, job_log_volume(s.job));
    shift(&o->model_log_z, job_log_volume(s.job));
    if (s.job->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD) shift(&o->loss, job_log_volume(s.job));
    take_chains(&s);
    take_likelihoods(&s);
    take_criteria(o);
    return 0;
}

void outcome_free(outcome *o)
{
    free(o->theta);
    free(o->last_theta);
    free(o->name);
    free(o->low);
    free(o->high);
    scaling_free(&o->scaling);
    sosmc_judgement_free(&o->judged);
    *o = (outcome){.theta = NULL};
}

/* ---------------------------------------------------------------------------- summary.json */

static void put_why(json_writer *w, const char *name, const char *why)
{
    char key[64];
    (void)snprintf(key, sizeof key, "%s_why", name);
    if (*why) json_put_text(w, key, why);
}

/* NAME, NAME_error, NAME_from, NAME_why. */
static void put(json_writer *w, const char *name, const told *t)
{
    char key[64];
    if (!t->exists) return;
    json_put_number(w, name, t->value);
    (void)snprintf(key, sizeof key, "%s_error", name);
    json_put_number(w, key, t->error);
    (void)snprintf(key, sizeof key, "%s_from", name);
    if (!isnan(t->value)) json_put_text(w, key, told_words[t->from]);
    put_why(w, name, t->why);
}

static void put_list(json_writer *w, const char *key, const double *value, int n)
{
    if (value)
        json_put_numbers(w, key, value, n);
    else
        json_put_number(w, key, NAN);
}

static void put_scaling(const outcome *o, json_writer *w)
{
    const points_scaling *s = &o->scaling;
    if (s->dim == 0) return;
    json_open_object(w, "scaling");
    json_put_text(w, "words", o->units);
    json_put_numbers(w, "centre", s->centre, s->dim);
    json_put_numbers(w, "factor", s->factor, s->dim);
    json_put_number(w, "log_density", o->log_density);
    if (s->names) json_open_list(w, "columns");
    for (int j = 0; s->names && j < s->dim; j++) json_put_text(w, NULL, s->names[j]);
    if (s->names) json_close(w);
    json_close(w);
}

static void put_theta(const outcome *o, json_writer *w)
{
    const sosmc_judgement *j = &o->judged;
    int p = o->dim_theta;
    int listed = !o->network && !o->failed;
    put_list(w, "theta", listed ? o->theta : NULL, p);
    if (o->failed)
        put_why(w, "theta", "the run failed");
    else if (o->network)
        put_why(w, "theta", "it is the weights of a network, which are in model.safetensors");
    if (o->name) {
        json_open_list(w, "theta_names");
        for (int k = 0; k < p; k++) json_put_text(w, NULL, o->name[k]);
        json_close(w);
    } else {
        json_put_text(w, "theta_names", NULL);
    }
    put_list(w, "theta_mc_error", listed ? j->theta_mc_error : NULL, p);
    put_why(w, "theta_mc_error", j->why_no_mc_error);
    put_list(w, "theta_standard_error", listed ? j->theta_standard_error : NULL, p);
    put_why(w, "theta_standard_error", j->why_no_standard_error);
    put_list(w, "theta_low", o->low, p);
    put_list(w, "theta_high", o->high, p);
}

static void put_verdict(const outcome *o, json_writer *w)
{
    const sosmc_verdict_words *v = &o->judged.verdict;
    json_open_object(w, "verdict");
    json_put_text(w, "status", sosmc_verdict_name((sosmc_verdict_status)v->status));
    json_put_truth(w, "judged", !o->not_judged && !o->stopped);
    json_open_list(w, "reasons");
    for (int i = 0; i < v->reasons; i++) json_put_text(w, NULL, v->reason[i]);
    json_close(w);
    json_close(w);
}

static void put_last_iteration(const outcome *o, json_writer *w)
{
    const sosmc_info *info = &o->last;
    int p = o->dim_theta;
    json_open_object(w, "last_iteration");
    if (o->last_theta) json_put_numbers(w, "theta", o->last_theta, p);
    if (o->last_theta && o->averaged) json_put_numbers(w, "theta_average", o->last_theta + p, p);
    json_put_number(w, "reward", info->mean_score);
    json_put_number(w, "loss", info->loss);
    json_put_number(w, "kl", info->kl);
    json_put_number(w, "log_z", info->logz);
    json_put_number(w, "mean_energy", info->mean_energy);
    json_put_number(w, "data_energy", info->data_energy);
    json_put_number(w, "mobility", info->mobility);
    json_close(w);
}

/* What the solver's last step said. Values that do not exist in its phase are null. */
static void put_last_step(const outcome *o, json_writer *w)
{
    const sosmc_solve_info *info = &o->solve;
    json_open_object(w, "last_step");
    json_put_whole(w, "updates", info->updates);
    json_put_number(w, "decrease", info->decrease);
    json_put_number(w, "left", info->left);
    json_put_number(w, "left_error", info->left_error);
    json_put_number(w, "wanted", info->wanted);
    json_put_number(w, "reward", info->reward);
    json_put_number(w, "mobility", info->mobility);
    json_put_whole(w, "moves", info->moves);
    json_close(w);
}

static void put_tempering(const outcome *o, json_writer *w)
{
    const sosmc_sampler_info *info = &o->temper;
    json_put_number(w, "ess", info->ess);
    json_put_whole(w, "particles", o->particles);
    json_put_number(w, "acceptance", info->accept);
    json_put_whole(w, "evaluations", info->evaluations);
    json_put_number(w, "temperature", info->temperature);
    json_put_whole(w, "resamplings", info->resamplings);
}

static void put_work(const outcome *o, json_writer *w)
{
    if (o->tempers) {
        put_tempering(o, w);
        return;
    }
    json_put_number(w, "ess", !o->weighted ? NAN : o->automatic ? o->solve.ess : o->last.ess);
    json_put_whole(w, "particles", o->particles);
    json_put_number(w, "acceptance", !o->accepts ? NAN : o->automatic ? o->solve.accept : o->last.accept);
    if (o->automatic) {
        json_put_text(w, "phase", sosmc_phase_name((sosmc_phase)o->solve.phase));
        json_put_whole(w, "evaluations", o->solve.evaluations);
        json_put_whole(w, "contractions", o->solve.contractions);
        put_last_step(o, w);
    } else {
        json_put_number(w, "step", o->last.h);
        put_last_iteration(o, w);
    }
}

static void put_residuals(const outcome *o, json_writer *w)
{
    json_open_object(w, "residuals");
    for (int k = 0; k < SOSMC_RESIDUALS; k++) {
        const double of[] = {o->residual[k].value, o->residual[k].expected, o->residual[k].limit};
        json_put_numbers(w, residual_words[k].what, of, 3);
    }
    json_close(w);
}

void outcome_write(const outcome *o, json_writer *w)
{
    put_verdict(o, w);
    json_open_list(w, "warnings");
    for (int i = 0; i < o->warnings; i++) json_put_text(w, NULL, o->warning[i]);
    json_close(w);
    if (o->has_residuals) put_residuals(o, w);
    if (o->left_out > 0) json_put_whole(w, "rows_left_out", o->left_out);
    json_put_text(w, "model", o->model);
    json_put_text(w, "objective", o->objective);
    json_put_text(w, "method", o->method);
    put_theta(o, w);
    put(w, "loss", &o->loss);
    put(w, "best_loss", &o->best_loss);
    put(w, "log_likelihood", &o->log_likelihood);
    if (o->log_likelihood.exists) json_put_whole(w, "fitted_rows", o->fitted_rows);
    put(w, "held_out", &o->held_out);
    if (o->held_out.exists) {
        json_put_number(w, "held_out_spread", o->held_out_spread);
        json_put_whole(w, "held_out_rows", o->held_out_rows);
    }
    put_scaling(o, w);
    put(w, "best_reward", &o->best_reward);
    put(w, "best_kl", &o->best_kl);
    put(w, "excess", &o->excess);
    put(w, "log_z", &o->log_z);
    put(w, "kl", &o->kl);
    put(w, "reward", &o->reward);
    put(w, "model_reward", &o->model_reward);
    put(w, "model_log_z", &o->model_log_z);
    if (!isnan(o->aic)) json_put_number(w, "aic", o->aic);
    if (!isnan(o->bic)) json_put_number(w, "bic", o->bic);
    put_work(o, w);
}
