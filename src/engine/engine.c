/* engine.c: the loop. sosmc_step reads like the algorithm in the paper; each verb has a file of its own.
 *
 * Between the phases these hold: at `estimate`, U and gx of every particle belong to theta; after `optimise`, they belong
 * to theta_prev, until `carry` has brought the cloud to theta (vital.cached says which). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine_inside.h"

/* ---------------------------------------------------------------------------- messages */

sosmc_status sosmc_i_fail(const sosmc *s, sosmc_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(((sosmc *)s)->message, MESSAGE, format, args);
    va_end(args);
    return status;
}

sosmc_status sosmc_i_broken(sosmc *s, int task, const char *what, int returned, int64_t particle)
{
    s->faults[task] = (fault){.status = SOSMC_EMODEL, .what = what, .returned = returned, .particle = particle};
    return SOSMC_EMODEL;
}

const char *sosmc_i_theta_words(const sosmc *s, char *text, size_t room)
{
    enum { SHOWN = 4 };
    size_t used = 0;
    int dim = s->p.model.dim_theta;
    for (int j = 0; j < dim && j < SHOWN && used < room; j++)
        used += (size_t)snprintf(text + used, room - used, "%s%.6g", j ? ", " : "", s->now->theta[j]);
    if (dim > SHOWN && used < room) (void)snprintf(text + used, room - used, ", ... (%d numbers)", dim);
    return text;
}

sosmc_status sosmc_i_report(sosmc *s, sosmc_status status, int tasks)
{
    char theta[160];
    long long iteration = (long long)s->now->v.iteration;
    for (int i = 0; i < tasks; i++) {
        const fault *f = &s->faults[i];
        if (f->status == SOSMC_OK) continue;
        (void)sosmc_i_theta_words(s, theta, sizeof theta);
        if (f->status == SOSMC_EMODEL)
            return sosmc_i_fail(s, f->status,
                                "iteration %lld: %s returned %d for the batch that starts at particle %lld; "
                                "theta = (%s)",
                                iteration, f->what, f->returned, (long long)f->particle, theta);
        if (isnan(f->before))
            return sosmc_i_fail(s, f->status, "iteration %lld: %s is %g (%sparticle %lld); theta = (%s)", iteration,
                                f->what, f->value, f->initial ? "initial " : "", (long long)f->particle, theta);
        return sosmc_i_fail(s, f->status,
                            "iteration %lld: %s is %g for particle %lld (it was %g before the move, kernel step "
                            "%g); theta = (%s)",
                            iteration, f->what, f->value, (long long)f->particle, f->before, s->now->v.h, theta);
    }
    return status;
}

const char *sosmc_message(const sosmc *s)
{
    if (s && atomic_load(&s->refused)) return SOSMC_I_REFUSED;
    return s ? s->message : "there is no engine: out of memory, or no problem or settings were given";
}
const char *sosmc_why_no_loss(const sosmc *s) { return s->why_no_loss; }
const sosmc_info *sosmc_last(const sosmc *s) { return &s->info; }
int64_t sosmc_iteration(const sosmc *s) { return s->now->v.iteration; }
const double *sosmc_theta(const sosmc *s) { return s->now->theta; }
const double *sosmc_theta_average(const sosmc *s)
{
    return s->cfg.average > 0 && s->now->v.averaged > 0 ? s->now->average : s->now->theta;
}
const double *sosmc_gradient(const sosmc *s) { return s->grad; }
int sosmc_particles(const sosmc *s) { return s->cfg.scheme.particles; }

/* ---------------------------------------------------------------------------- optimise, adapt, resample */

static sosmc_status prepare(sosmc *s, const double *theta, void *prep)
{
    if (!s->p.model.prepare) return SOSMC_OK;
    int rc = s->p.model.prepare(s->p.model.self, theta, prep);
    if (rc == 0) return SOSMC_OK;
    return sosmc_i_fail(s, SOSMC_EMODEL, "iteration %lld: prepare returned %d", (long long)s->now->v.iteration, rc);
}

static void average(sosmc *s)
{
    state *st = s->now;
    if (s->cfg.average <= 0 || st->v.updates <= s->cfg.average_from) return;
    double keep = (double)st->v.averaged / (double)(st->v.averaged + 1); /* plain mean, and the start of the other */
    if (s->cfg.average < 1 && s->cfg.average < keep) keep = s->cfg.average;
    for (int j = 0; j < s->p.model.dim_theta; j++) st->average[j] = keep * st->average[j] + (1 - keep) * st->theta[j];
    st->v.averaged++;
}

static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* maths.md THETA-NOISE: the same numbers on every rank, named by the update. */
static void add_theta_noise(sosmc *s, const sosmc_optimiser *opt)
{
    state *st = s->now;
    int dim = s->p.model.dim_theta;
    double scale = opt->noise * sqrt(2 * opt->lr / (double)s->seen.l->particles);
    sosmc_rng rng = {.seed = s->cfg.seed, .step = (uint64_t)st->v.updates, .stream = SOSMC_STREAM_THETA};
    sosmc_batch b = {.simd = s->simd, .dim = dim, .n = 1, .ld = 1};
    sosmc_normals(rng, &b, s->theta_noise);
    for (int j = 0; j < dim; j++) st->theta[j] += scale * s->theta_noise[j];
}

/* The optimiser's own step. Where it may fail, ranks agree on whether it has. */
static sosmc_status step_theta(sosmc *s, const sosmc_optimiser *opt)
{
    state *st = s->now;
    int dim = s->p.model.dim_theta;
    double unused = 0;
    int64_t none = 0;
    if (!opt->try_step) {
        opt->step(opt, st->v.updates, dim, s->grad, st->theta, st->slots);
        return SOSMC_OK;
    }
    sosmc_status status = SOSMC_OK;
    int rc = opt->try_step(opt, st->v.updates, dim, s->grad, st->theta, st->slots);
    if (rc)
        status = sosmc_i_fail(s, SOSMC_EMODEL, "iteration %lld: the step of the optimiser %s returned %d",
                              (long long)st->v.iteration, opt->name, rc);
    return sosmc_i_agree(s, status, &unused, &none);
}

/* theta <- OPT(theta, g), the same on every rank; the old theta stays as theta_prev, with the cloud. */
static sosmc_status optimise(sosmc *s)
{
    state *st = s->now;
    sosmc_optimiser opt = s->cfg.optimiser;
    int dim = s->p.model.dim_theta;
    double norm = s->info.grad_norm;
    opt.lr = sosmc_schedule_rate(s->cfg.schedule, opt.lr, st->v.updates) * st->v.rate;
    s->info.rate = opt.lr;
    if (opt.clip > 0 && norm > opt.clip)
        for (int j = 0; j < dim; j++) s->grad[j] *= opt.clip / norm;

    sosmc_i_begin_theta(s);
    const double *old = st->theta_prev;
    TRY(step_theta(s, &opt));
    if (opt.noise > 0) add_theta_noise(s, &opt);
    for (int j = 0; opt.low < opt.high && j < dim; j++) st->theta[j] = clamp(st->theta[j], opt.low, opt.high);
    for (int j = 0; j < dim; j++)
        if (!isfinite(st->theta[j]))
            return sosmc_i_fail(s, SOSMC_ENUMERIC,
                                "iteration %lld: the update made theta[%d] %g (it was %g, gradient %g, rate %g)",
                                (long long)st->v.iteration, j, st->theta[j], old[j], s->grad[j], opt.lr);
    char text[MESSAGE];
    const char *outside = sosmc_i_outside_mirror(&opt, dim, st->theta, text, sizeof text);
    if (outside)
        return sosmc_i_fail(s, SOSMC_ENUMERIC, "iteration %lld: after the update %s", (long long)st->v.iteration,
                            outside);
    void *prep = s->prep;
    s->prep = s->prep_prev;
    s->prep_prev = prep;
    st->v.updates++;
    st->v.cached = 0;
    average(s);
    if (!s->p.model.prepare) return SOSMC_OK;
    double unused = 0;
    int64_t none = 0;
    return sosmc_i_agree(s, prepare(s, st->theta, s->prep), &unused, &none);
}

/* Remark 4: the signal is this iteration's, before resampling. */
static void adapt(sosmc *s, int before_move)
{
    for (int i = 0; i < 2; i++) {
        const sosmc_adapt *a = &s->cfg.adapt[i];
        int early = a->before_move && a->signal == SOSMC_SIGNAL_ESS; /* the acceptance is known after the move only */
        if (a->factor == 0 || a->factor == 1 || early != before_move) continue;
        double signal = a->signal == SOSMC_SIGNAL_ESS ? s->info.ess / (double)s->cut.particles : s->info.accept;
        if (isnan(signal)) continue; /* no move yet */
        double change = signal < a->threshold ? 1 / a->factor : a->factor;
        double lr = s->cfg.optimiser.lr;
        if (a->target == SOSMC_ADAPT_STEP)
            s->now->v.h = clamp(s->now->v.h * change, a->min, a->max);
        else if (lr > 0)
            s->now->v.rate = clamp(s->now->v.rate * change, a->min / lr, a->max / lr);
    }
}

static sosmc_status resample(sosmc *s)
{
    double particles = (double)s->cut.particles, ess_min = s->cfg.scheme.ess_min;
    s->info.resampled = s->weighted && (ess_min > 1 || s->info.ess < ess_min * particles);
    return s->info.resampled ? sosmc_i_resample_cloud(s) : SOSMC_OK;
}

/* ---------------------------------------------------------------------------- move and weigh */

/* Whether U and gx must be taken at theta before the kernel steps: an invariant kernel is weighed by them, an unweighted
 * scheme may drift with them, and particles that were put somewhere else have none. */
static int must_evaluate(const sosmc *s)
{
    const sosmc_scheme *c = &s->cfg.scheme;
    if (s->cfg.kernel.blind) return 0; /* its step does not read them */
    if (has_pool(c) || c->refresh > 0) return 1;
    if (s->now->v.cached) return 0;
    return s->cfg.kernel.invariant || (!s->weighted && c->drift_at == SOSMC_AT_CURRENT);
}

static sosmc_status weigh(sosmc *s)
{
    TRY(sosmc_i_measure(s));
    double W = s->sums[SUM_W];
    s->info.updates = s->now->v.updates;
    s->info.ess = sosmc_i_ess(s);
    s->info.mean_score = s->p.objective.score.eval ? s->sums[SUM_WR] / W : NAN;
    s->info.mean_energy = s->sums[SUM_WU] / W;
    s->info.logz = s->absolute_logz || s->relative_logz ? s->now->v.logz : NAN;
    return SOSMC_OK;
}

static void note_acceptance(sosmc *s)
{
    s->info.accept = s->sums[SUM_ACCEPT] / ((double)s->cut.particles * (double)s->cfg.scheme.sweeps);
}

/* SOSMC_ORDER_PAPER: Algorithm 1. Iteration 0 does not move the particles, unless the scheme moves with the gradient at the
 * current theta. */
static sosmc_status step_paper(sosmc *s)
{
    int moves_first = !s->weighted && s->cfg.scheme.drift_at == SOSMC_AT_CURRENT;
    if (s->now->v.iteration > 0 || moves_first) {
        TRY(sosmc_i_carry(s, must_evaluate(s), 1)); /* x ~ K(x, .), log W += log G */
        TRY(weigh(s));                              /* w = W / sum W, ESS */
        note_acceptance(s);
    } else {
        TRY(weigh(s));
    }
    TRY(sosmc_i_estimate(s)); /* g = sum_i c_i dU(x_i) + ... */
    TRY(optimise(s));         /* theta <- OPT(theta, g) */
    adapt(s, 0);
    adapt(s, 1);
    return resample(s); /* if ESS < ess_min N */
}

/* SOSMC_ORDER_AUTHORS: the order of the published programs. An invariant kernel weighs and resamples before it moves. */
static sosmc_status step_authors(sosmc *s)
{
    TRY(sosmc_i_estimate(s));
    TRY(optimise(s));
    if (!s->weighted || !s->cfg.kernel.invariant) {
        TRY(sosmc_i_carry(s, must_evaluate(s), 1));
        TRY(weigh(s));
        note_acceptance(s);
        adapt(s, 1);
        adapt(s, 0);
        return resample(s);
    }
    TRY(sosmc_i_carry(s, 1, 0));
    TRY(weigh(s));
    adapt(s, 1);
    TRY(resample(s));
    s->info.h = s->now->v.h;
    TRY(sosmc_i_carry(s, 0, 1));
    TRY(sosmc_i_measure(s));
    note_acceptance(s);
    adapt(s, 0);
    return SOSMC_OK;
}

static double seconds_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every rank has the same ESS and the same count, so all of them end together. `before`: the count of the last iteration. */
static sosmc_status judge_collapse(sosmc *s, int64_t before)
{
    enum { PATIENCE = 100, SMALLEST_CLOUD = 20 };
    const double least = 2;
    if (!s->weighted || s->cut.particles < SMALLEST_CLOUD || !(s->info.ess < least)) return SOSMC_OK;
    s->info.collapsed = before + 1;
    if (s->cfg.on_collapse == SOSMC_COLLAPSE_CONTINUE || s->info.collapsed < PATIENCE) return SOSMC_OK;
    return sosmc_i_fail(
        s, SOSMC_ENUMERIC,
        "iteration %lld: the effective sample size is %.3g of %lld particles and has been below %g for "
        "%lld iterations in a row, so theta and all estimates rest on a single particle; take a smaller kernel step or "
        "learning rate, more particles or a wider initial law (on_collapse: continue goes on regardless)",
        (long long)s->info.iteration, s->info.ess, (long long)s->cut.particles, least, (long long)s->info.collapsed);
}

/* One iteration, which a callback may stop: then nothing has happened but the message. */
static sosmc_status iterate(sosmc *s)
{
    double begin = seconds_now(), unused = 0;
    int64_t none = 0;
    if (s->stale) TRY(sosmc_i_agree(s, sosmc_i_refresh(s, "this iteration's"), &unused, &none));
    sosmc_i_begin(s);
    s->info = (sosmc_info){
        .iteration = s->now->v.iteration, .h = s->now->v.h, .accept = NAN, .mobility = s->info.mobility};
    sosmc_i_watch_begin(s);
    sosmc_status status = s->cfg.scheme.order == SOSMC_ORDER_PAPER ? step_paper(s) : step_authors(s);
    if (status == SOSMC_EMODEL) sosmc_i_take_back(s);
    TRY(status);
    if (s->info.resampled) sosmc_i_watch_resampled(s);
    s->info.seconds = seconds_now() - begin;
    TRY(judge_collapse(s, s->begin.info.collapsed));
    s->now->v.iteration++;
    return SOSMC_OK;
}

sosmc_status sosmc_step(sosmc *s)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    if (s->failed) return sosmc_i_leave(s, s->failed); /* the message still says why; a checkpoint can be loaded */
    sosmc_status status = sosmc_i_here(s);
    if (status != SOSMC_OK) return sosmc_i_leave(s, status);
    status = iterate(s);
    if (atomic_exchange(&s->refused, 0)) status = sosmc_i_fail(s, SOSMC_EINVAL, "%s", SOSMC_I_REFUSED);
    s->interrupted = status == SOSMC_EMODEL ? status : SOSMC_OK;
    s->failed = s->interrupted ? SOSMC_OK : status;
    return sosmc_i_leave(s, status);
}

sosmc_status sosmc_run(sosmc *s, int64_t iterations, sosmc_observer see, void *ctx)
{
    for (int64_t k = 0; k < iterations; k++) {
        TRY(sosmc_step(s));
        if (see && see(ctx, s, &s->info))
            return sosmc_i_fail(s, SOSMC_STOPPED, "stopped by the observer after iteration %lld",
                                (long long)s->info.iteration);
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- create and free */

static void *libc_alloc(void *ctx, void *ptr, size_t bytes)
{
    if (bytes) return realloc(ptr, bytes);
    free(ptr);
    return NULL;
}

static int can_talk(const sosmc_comm *c)
{
    return c->size > 1 && c->size <= MAX_RANKS && c->rank >= 0 && c->rank < c->size && c->allgather && c->exchange;
}

static sosmc_status begin(sosmc *s)
{
    state *st = s->now;
    double unused = 0;
    int64_t none = 0;
    sosmc_status status = sosmc_i_setup(s);
    if (can_talk(&s->cfg.comm))
        status = sosmc_i_agree(s, status, &unused, &none); /* no rank waits for one that failed */
    TRY(status);
    for (int j = 0; j < s->p.model.dim_theta; j++) st->theta[j] = s->p.theta0 ? s->p.theta0[j] : 0;
    TRY(sosmc_i_same_run(s));
    for (int j = 0; j < s->p.model.dim_theta; j++)
        if (!isfinite(st->theta[j]))
            return sosmc_i_fail(s, SOSMC_EINVAL, "theta0[%d] is %g; it must be finite", j, st->theta[j]);
    st->v = (vital){.h = s->cfg.kernel.h, .rate = 1};
    char text[MESSAGE];
    const char *outside = sosmc_i_outside_mirror(&s->cfg.optimiser, s->p.model.dim_theta, st->theta, text, sizeof text);
    if (outside) return sosmc_i_fail(s, SOSMC_EINVAL, "at the start %s", outside);
    outside = sosmc_i_points_outside(&s->p, s->cfg.seed, s->cut.particles, text, sizeof text);
    if (outside) return sosmc_i_fail(s, SOSMC_EINVAL, "%s", outside);
    TRY(prepare(s, st->theta, s->prep));
    if (s->p.objective.theta_ref) TRY(prepare(s, s->p.objective.theta_ref, s->prep_ref));
    return sosmc_i_start(s);
}

/* An engine that has taken no memory yet but its own; NULL: there is not even that. */
static sosmc *open_engine(const sosmc_problem *problem, const sosmc_settings *settings)
{
    sosmc_settings cfg = *settings;
    if (!cfg.alloc) cfg.alloc = libc_alloc;
    int threads = cfg.threads < 1 ? 1 : cfg.threads > 1024 ? 1024 : cfg.threads;
    size_t room = 128 + 12 * (size_t)threads;
    sosmc *s = cfg.alloc(cfg.alloc_ctx, NULL, sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->p = *problem;
    s->cfg = cfg;
    s->now = &s->state_a;
    s->spare = &s->state_b;
    atomic_init(&s->busy, -1);
    atomic_init(&s->refused, 0);
    s->info.accept = s->info.mobility = NAN;
    s->owned_room = (int)room;
    s->owned = cfg.alloc(cfg.alloc_ctx, NULL, room * sizeof *s->owned);
    s->bytes = sizeof *s + room * sizeof *s->owned;
    return s;
}

sosmc_status sosmc_create(sosmc **out, const sosmc_problem *problem, const sosmc_settings *settings)
{
    STANDARD_ARITHMETIC;
    if (!out) return SOSMC_EINVAL;
    *out = NULL;
    if (!problem || !settings) return SOSMC_EINVAL;
    sosmc *s = *out = open_engine(problem, settings);
    if (!s) return SOSMC_ENOMEM;
    s->failed = s->owned ? begin(s) : sosmc_i_fail(s, SOSMC_ENOMEM, "out of memory");
    if (atomic_exchange(&s->refused, 0)) s->failed = sosmc_i_fail(s, SOSMC_EINVAL, "%s", SOSMC_I_REFUSED);
    s->ready = s->failed == SOSMC_OK;
    return sosmc_i_leave(s, s->failed);
}

size_t sosmc_memory(const sosmc_problem *problem, const sosmc_settings *settings)
{
    STANDARD_ARITHMETIC;
    sosmc *s = problem && settings ? open_engine(problem, settings) : NULL;
    size_t bytes = 0;
    if (s && s->owned) {
        s->measures = 1;
        if (sosmc_i_setup(s) == SOSMC_OK) bytes = s->bytes;
    }
    sosmc_free(s);
    return bytes;
}

void sosmc_free(sosmc *s)
{
    if (!s) return;
    sosmc_i_crew_stop(s->threads);
    for (int i = 0; s->owned && i < s->owned_count; i++) (void)s->cfg.alloc(s->cfg.alloc_ctx, s->owned[i], 0);
    if (s->owned) (void)s->cfg.alloc(s->cfg.alloc_ctx, s->owned, 0);
    (void)s->cfg.alloc(s->cfg.alloc_ctx, s, 0);
}
