/* outcome.c: what a run tells when it ends. The choice between an exact value, fresh draws and a running estimate is made
 * here, once, for the terminal, the summary and the page. */
#include "outcome.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 300, MANY_NODES = 1200, ATTEMPTS = 5, FRESH_ESS = 200 };
/* The observed information contains a variance over the particles. With fewer particles than this, a standard error is
 * wrong by a fifth or more. */
enum { ENOUGH_PARTICLES = 100 };
static const double EDGE = 1e-4;      /* largest fraction of the mass on the edge of a lattice */
static const double ACCURATE = 1e-3;  /* relative error of quadrature below which no finer lattice is tried */
static const double USABLE = 0.05;    /* ... and the largest that is told */
static const double FIRST_ESS = 0.01; /* smallest ESS after the first weights, as a fraction of the particles */

static void warn(outcome *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void warn(outcome *o, const char *format, ...)
{
    va_list args;
    if (o->warnings == OUTCOME_WARNINGS) return;
    va_start(args, format);
    (void)vsnprintf(o->warning[o->warnings++], OUTCOME_SENTENCE, format, args);
    va_end(args);
}

/* What an outcome is taken from. */
typedef struct {
    outcome *o;
    const job *job;
    const sosmc *engine;
    const double *theta;
} subject;

/* ---------------------------------------------------------------------------- exact values of models of the plane */

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
    int64_t n = sosmc_particles(s->engine);
    const sosmc_source *init = &s->job->problem.init;
    sosmc_batch b = {.x = drawn, .simd = sosmc_simd_best(), .dim = 2, .n = DRAWS, .ld = DRAWS};
    double *x = malloc(2 * (size_t)n * sizeof *x);
    *l = (sosmc_lattice){.nodes = NODES, .low = {INFINITY, INFINITY}, .high = {-INFINITY, -INFINITY}};
    int rc = x && sosmc_cloud(s->engine, x, NULL) == SOSMC_OK ? 0 : -1;
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

static told exact(double value, double error)
{
    told t = {.from = isnan(value) ? TOLD_NOT : TOLD_EXACT, .value = value, .error = error, .spread = NAN};
    return t;
}

static void keep_exact(outcome *o, const evaluation_values *v, const evaluation_values *e)
{
    o->log_z = exact(v->logz, e->logz);
    o->reward = exact(v->reward, e->reward);
    o->kl = exact(v->kl, e->kl);
    o->loss = o->mmle ? exact(-v->logz, e->logz) : exact(v->loss, e->loss);
    o->best_loss = exact(v->best_loss, e->best_loss);
    if (!o->optimises) o->loss = o->kl = o->best_loss = (told){.from = TOLD_NOT};
}

/* Takes the values on the lattice of the run file, if it has one, even where another lattice would be better. */
static int take_asked(const subject *s, const sosmc_lattice *l)
{
    outcome *o = s->o;
    evaluation_values v, e;
    if (evaluation_exact(s->job, s->theta, l, &v, &e)) return -1;
    if (v.edge > EDGE) {
        warn(o,
             "the exact values are cut off: %.2g of the mass lies on the edge of the lattice; take a larger box "
             "(evaluate.low, evaluate.high)",
             v.edge);
        return -1;
    }
    keep_exact(o, &v, &e);
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
        if (evaluation_exact(s->job, s->theta, &l, &v, &e)) return -1;
        if (v.edge < EDGE) break;
    }
    if (!(v.edge < EDGE)) return -1;
    if (roughness(&v, &e) > ACCURATE) {
        l.nodes = MANY_NODES;
        if (evaluation_exact(s->job, s->theta, &l, &v, &e)) return -1;
    }
    if (!(roughness(&v, &e) <= USABLE)) return -1;
    keep_exact(s->o, &v, &e);
    return 0;
}

static int take_exact(const subject *s, const evaluation *e)
{
    sosmc_lattice asked = evaluation_lattice(e);
    if (s->job->problem.model.dim_x != 2 || s->o->iterations == 0) return -1;
    return asked.nodes ? take_asked(s, &asked) : take_own(s);
}

/* ---------------------------------------------------------------------------- fresh draws, running estimates */

static void take_evidence(const subject *s)
{
    outcome *o = s->o;
    if (!o->mmle || job_evidence(s->job, s->theta, &o->evidence)) return;
    o->has_evidence = isfinite(o->evidence.logz) && o->evidence.ess >= FRESH_ESS;
    if (!o->has_evidence) {
        warn(o,
             "the log-likelihood from fresh draws is not told: their weights leave %.3g of them, and at least %d are "
             "needed",
             o->evidence.ess, FRESH_ESS);
        return;
    }
    o->log_z = (told){.from = TOLD_FRESH, .value = o->evidence.logz, .error = o->evidence.error, .spread = NAN};
    o->loss = o->log_z;
    o->loss.value = -o->evidence.logz;
}

static void fill(told *t, tail_value v)
{
    if (t->from != TOLD_NOT || v.n == 0) return;
    *t = (told){.from = TOLD_RUNNING, .value = v.mean, .error = NAN, .spread = v.sd};
}

static void take_running(outcome *o)
{
    fill(&o->loss, o->tail.loss);
    fill(&o->reward, o->tail.reward);
    fill(&o->kl, o->tail.kl);
    fill(&o->log_z, o->tail.logz);
}

/* ---------------------------------------------------------------------------- theta */

static void judge_theta(outcome *o)
{
    const tail *t = &o->tail;
    int many = o->dim_theta > 1;
    char which[32] = "theta";
    if (!o->optimises || o->network || o->iterations == 0) return;
    if (many) (void)snprintf(which, sizeof which, "theta_%d", t->moving);
    if (t->motion == TAIL_MOVES && t->rate < 0.1 * t->top_rate)
        warn(o,
             "%s has not settled: its updates still go one way although the schedule has brought the rate from %.3g "
             "down to %.2g; more iterations or a larger rate",
             which, t->top_rate, t->rate);
    else if (t->motion == TAIL_MOVES)
        warn(o, "%s has not settled: it still moves by %.2g an iteration; more iterations or a larger rate", which,
             fabs(t->move));
    else if (t->motion == TAIL_UNKNOWN && t->rate > 0 && o->dim_theta <= TRACE_THETAS)
        warn(o, "the trace has too few rows (%d in its last tenth) to tell whether theta has settled; more iterations",
             t->rows);
}

static int weights_failed_at_the_end(const outcome *o)
{
    const tail *t = &o->tail;
    return t->starved >= TAIL_STARVED && t->starved_from + t->starved > o->iterations - t->iterations;
}

static void take_standard_error(const subject *s)
{
    outcome *o = s->o;
    if (!o->mmle || o->dim_theta != 1) return;
    o->information = job_information(s->job, s->engine, s->theta);
    if (o->tail.motion == TAIL_MOVES)
        o->why_no_standard_error = "theta has not settled";
    else if (o->tail.motion == TAIL_UNKNOWN)
        o->why_no_standard_error = "it is not known whether theta has settled";
    else if (weights_failed_at_the_end(o))
        o->why_no_standard_error = "the weights were carried by a few particles";
    else if (!(o->last.ess >= ENOUGH_PARTICLES))
        o->why_no_standard_error = "it takes an effective sample size of at least 100";
    else if (!(o->information > 0))
        o->why_no_standard_error = "the observed information is not positive";
    else
        o->standard_error = 1 / sqrt(o->information);
}

static void judge_weights(outcome *o)
{
    const tail *t = &o->tail;
    double n = (double)o->particles;
    if (!o->weighted) return;
    if (t->first_ess < FIRST_ESS * n)
        warn(o,
             "the first weights leave %.3g of %.0f particles: the initial law does not cover the target; take another "
             "init, or more particles",
             t->first_ess, n);
    if (t->starved >= TAIL_STARVED)
        warn(
            o,
            "the effective sample size was below 5 %% of the %.0f particles for %lld iterations in a row from iteration "
            "%lld on (the least was %.3g): theta then follows a few of them; take a smaller kernel.step or "
            "optimiser.rate, or more particles",
            n, (long long)t->starved, (long long)t->starved_from, t->least_ess);
}

/* What is known of a run before anything is measured. */
static void describe(const subject *s)
{
    outcome *o = s->o;
    const sosmc_settings *cfg = &s->job->settings;
    *o = (outcome){.optimises = s->job->problem.objective.scale != 0,
                   .network = job_has_network(s->job),
                   .mmle = s->job->problem.objective.loss == SOSMC_LOSS_MMLE,
                   .weighted = cfg->scheme.weighted,
                   .accepts = cfg->kernel.metropolis,
                   .averaged = cfg->average > 0,
                   .particles = sosmc_particles(s->engine),
                   .dim_theta = s->job->problem.model.dim_theta,
                   .iterations = sosmc_iteration(s->engine),
                   .last = *sosmc_last(s->engine),
                   .why_no_loss = sosmc_why_no_loss(s->engine),
                   .information = NAN,
                   .standard_error = NAN};
    size_t kept = (size_t)(o->dim_theta < TRACE_THETAS ? o->dim_theta : TRACE_THETAS);
    memcpy(o->theta, s->theta, kept * sizeof *o->theta);
    memcpy(o->last_theta, sosmc_theta(s->engine), kept * sizeof *o->theta);
}

int outcome_take(outcome *o, const job *j, const sosmc *s, const evaluation *e, const char *dir, const char *first,
                 char *error, size_t room)
{
    subject from = {.o = o, .job = j, .engine = s, .theta = sosmc_theta_average(s)};
    describe(&from);
    if (tail_read(&o->tail, dir, o->particles, error, room)) return -1;
    if (first && *first) warn(o, "%s", first);
    if (take_exact(&from, e)) take_evidence(&from);
    take_running(o);
    judge_theta(o);
    judge_weights(o);
    take_standard_error(&from);
    return 0;
}

/* ---------------------------------------------------------------------------- summary.json */

static const char *words_for(told_from from)
{
    static const char *const words[] = {NULL, "exact", "fresh draws", "running estimate"};
    return words[from];
}

/* NAME, NAME_error, NAME_spread of a running estimate, NAME_from. */
static void put(json_writer *w, const char *name, const told *t)
{
    char key[64];
    json_put_number(w, name, t->from == TOLD_NOT ? NAN : t->value);
    if (t->from == TOLD_NOT) return;
    (void)snprintf(key, sizeof key, "%s_error", name);
    json_put_number(w, key, t->error);
    if (t->from == TOLD_RUNNING) {
        (void)snprintf(key, sizeof key, "%s_spread", name);
        json_put_number(w, key, t->spread);
    }
    (void)snprintf(key, sizeof key, "%s_from", name);
    json_put_text(w, key, words_for(t->from));
}

static void put_theta(const outcome *o, json_writer *w)
{
    int dim = o->dim_theta;
    if (dim > TRACE_THETAS) return;
    json_put_numbers(w, "theta", o->theta, dim);
    if (o->averaged) json_put_numbers(w, "theta_average", o->theta, dim);
    if (!o->mmle) return;
    json_put_number(w, "information", o->information);
    json_put_number(w, "theta_standard_error", o->standard_error);
    if (o->why_no_standard_error) json_put_text(w, "theta_standard_error_why", o->why_no_standard_error);
}

static void put_last_iteration(const outcome *o, json_writer *w)
{
    const sosmc_info *info = &o->last;
    int dim = o->dim_theta;
    json_open_object(w, "last_iteration");
    if (dim <= TRACE_THETAS) json_put_numbers(w, "theta", o->last_theta, dim);
    json_put_number(w, "reward", info->mean_score);
    json_put_number(w, "loss", info->loss);
    json_put_number(w, "kl", info->kl);
    json_put_number(w, "log_z", info->logz);
    json_put_number(w, "mean_energy", info->mean_energy);
    json_put_number(w, "data_energy", info->data_energy);
    json_close(w);
}

void outcome_write(const outcome *o, json_writer *w)
{
    const sosmc_info *info = &o->last;
    json_open_list(w, "warnings");
    for (int i = 0; i < o->warnings; i++) json_put_text(w, NULL, o->warning[i]);
    json_close(w);
    put_theta(o, w);
    put(w, "reward", &o->reward);
    put(w, "loss", &o->loss);
    if (o->best_loss.from != TOLD_NOT) put(w, "best_loss", &o->best_loss);
    put(w, "kl", &o->kl);
    put(w, "log_z", &o->log_z);
    json_put_text(w, "why_no_loss", o->loss.from == TOLD_NOT ? o->why_no_loss : NULL);
    if (o->has_evidence) {
        json_put_number(w, "log_likelihood", o->evidence.logz);
        json_put_number(w, "log_likelihood_error", o->evidence.error);
    }
    json_put_number(w, "ess", o->weighted ? info->ess : NAN);
    json_put_whole(w, "particles", o->particles);
    json_put_number(w, "acceptance", o->accepts ? info->accept : NAN);
    json_put_number(w, "step", info->h);
    put_last_iteration(o, w);
}
