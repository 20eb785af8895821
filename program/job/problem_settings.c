/* problem_settings.c: how the problem of a run file is solved: scheme, kernel, optimiser, schedule and adaptation. Nothing
 * here can fail: the run file was checked against its schema, and the engine checks the values. */
#include <float.h>
#include <stdio.h>

#include "problem_inside.h"

static int choice(const builder *b, const char *path, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (is(b, path, words[i])) return i;
    return 0;
}
#define CHOICE(b, path, ...)                            \
    choice(b, path, (const char *const[]){__VA_ARGS__}, \
           (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static sosmc_scheme build_scheme(const builder *b)
{
    int n = (int)config_integer(b->c, "particles"), sweeps = (int)config_integer(b->c, "scheme.sweeps");
    sosmc_scheme s;
    if (is(b, "scheme.type", "sosmc"))
        s = sosmc_scheme_sosmc(n);
    else if (is(b, "scheme.type", "impdiff"))
        s = sosmc_scheme_moved_first(n);
    else if (is(b, "scheme.type", "soul"))
        s = sosmc_scheme_soul(sweeps);
    else if (is(b, "scheme.type", "pcd"))
        s = sosmc_scheme_pcd(n, n, sweeps);
    else
        s = sosmc_scheme_unweighted(n);
    if (config_has(b->c, "scheme.order")) s.order = CHOICE(b, "scheme.order", "paper", "authors");
    if (config_has(b->c, "scheme.drift_at")) s.drift_at = CHOICE(b, "scheme.drift_at", "previous", "current");
    if (config_has(b->c, "scheme.sweeps")) s.sweeps = sweeps;
    if (config_has(b->c, "scheme.keep")) s.keep = (int)config_integer(b->c, "scheme.keep");
    if (config_has(b->c, "scheme.pool")) s.pool = (int)config_integer(b->c, "scheme.pool");
    if (config_has(b->c, "scheme.pool_rule")) s.pool_rule = CHOICE(b, "scheme.pool_rule", "in_place", "newest");
    if (config_has(b->c, "scheme.refresh")) s.refresh = config_number(b->c, "scheme.refresh");
    s.ess_min = config_number(b->c, "resampling.threshold");
    s.resampling = CHOICE(b, "resampling.scheme", "multinomial", "stratified", "systematic", "residual", "ssp");
    return s;
}

static sosmc_kernel build_kernel(const builder *b)
{
    double h = config_number(b->c, "kernel.step");
    if (is(b, "kernel.type", "hmc"))
        return sosmc_hmc(h, (int)config_integer(b->c, "kernel.leapfrog"), config_number(b->c, "kernel.mass"));
    if (is(b, "kernel.type", "leapfrog"))
        return sosmc_leapfrog(h, (int)config_integer(b->c, "kernel.leapfrog"), config_number(b->c, "kernel.mass"));
    if (is(b, "kernel.type", "underdamped"))
        return sosmc_underdamped(h, config_number(b->c, "kernel.friction"), config_number(b->c, "kernel.mass"));
    if (is(b, "kernel.type", "myula")) {
        sosmc_kernel k = sosmc_myula(h, config_number(b->c, "kernel.lambda"),
                                     (sosmc_myula_weight)CHOICE(b, "kernel.weight", "invariant", "ratio", "cached"));
        k.noise = config_number(b->c, "kernel.noise");
        return k;
    }
    if (is(b, "kernel.type", "mymala")) {
        sosmc_kernel k = sosmc_mymala(h, config_number(b->c, "kernel.lambda"));
        k.noise = config_number(b->c, "kernel.noise");
        return k;
    }
    if (is(b, "kernel.type", "gibbs")) return b->p->kind->gibbs(b, h);
    if (is(b, "kernel.type", "jitter"))
        return sosmc_jitter(h, config_number(b->c, "kernel.noise"), config_number(b->c, "kernel.clamp"),
                            config_number(b->c, "kernel.gradient_clip"));
    sosmc_kernel k = is(b, "kernel.type", "mala")  ? sosmc_mala(h)
                     : is(b, "kernel.type", "rwm") ? sosmc_rwm(h)
                                                   : sosmc_ula(h);
    if (is(b, "kernel.type", "ula") && config_number(b->c, "kernel.clamp") > 0)
        k = sosmc_ula_clamped(h, config_number(b->c, "kernel.clamp"));
    if (is(b, "kernel.type", "ula")) {
        k.forward_at = CHOICE(b, "kernel.forward", "previous", "current");
        k.backward_at = CHOICE(b, "kernel.backward", "previous", "current");
    }
    if (is(b, "kernel.type", "rwm")) k.spread = config_number(b->c, "kernel.spread");
    k.noise = config_number(b->c, "kernel.noise");
    return k;
}

static sosmc_optimiser build_optimiser(const builder *b)
{
    double lr = config_number(b->c, "optimiser.rate"), momentum = config_number(b->c, "optimiser.momentum");
    sosmc_optimiser o;
    switch (
        CHOICE(b, "optimiser.type", "sgd", "momentum", "nesterov", "rmsprop", "adagrad", "adam", "mirror", "adamw")) {
    case 0: o = sosmc_sgd(lr); break;
    case 1: o = sosmc_momentum(lr, momentum); break;
    case 2: o = sosmc_nesterov(lr, momentum); break;
    case 3: o = sosmc_rmsprop(lr, config_number(b->c, "optimiser.decay")); break;
    case 4: o = sosmc_adagrad(lr); break;
    case 5: o = sosmc_adam(lr); break;
    case 6: o = sosmc_mirror(lr, is(b, "optimiser.map", "log") ? SOSMC_MIRROR_LOG : SOSMC_MIRROR_ENTROPY); break;
    default: o = sosmc_adamw(lr, config_number(b->c, "optimiser.weight_decay")); break;
    }
    if (config_has(b->c, "optimiser.beta1")) o.beta1 = config_number(b->c, "optimiser.beta1");
    if (config_has(b->c, "optimiser.beta2")) o.beta2 = config_number(b->c, "optimiser.beta2");
    if (config_has(b->c, "optimiser.eps")) o.eps = config_number(b->c, "optimiser.eps");
    o.clip = config_number(b->c, "optimiser.clip");
    o.noise = config_number(b->c, "optimiser.noise");
    if (config_has(b->c, "optimiser.low") || config_has(b->c, "optimiser.high")) {
        o.low = config_has(b->c, "optimiser.low") ? config_number(b->c, "optimiser.low") : -DBL_MAX;
        o.high = config_has(b->c, "optimiser.high") ? config_number(b->c, "optimiser.high") : DBL_MAX;
    }
    return o;
}

static sosmc_adapt build_rule(const builder *b, int i)
{
    char path[64];
    sosmc_adapt a = {0};
#define RULE(name) (snprintf(path, sizeof path, "adapt.%d." name, i), path)
    a.signal = CHOICE(b, RULE("signal"), "ess", "accept");
    a.target = CHOICE(b, RULE("target"), "step", "rate");
    a.threshold = config_number(b->c, RULE("threshold"));
    a.factor = config_number(b->c, RULE("factor"));
    a.min = config_number(b->c, RULE("min"));
    a.max = config_number(b->c, RULE("max"));
    a.before_move = config_flag(b->c, RULE("before_move"));
#undef RULE
    return a;
}

static sosmc_schedule build_schedule(const builder *b)
{
    sosmc_schedule s = {
        .kind = CHOICE(b, "optimiser.schedule.type", "constant", "robbins_monro", "exponential", "cosine", "steps")};
    if (config_has(b->c, "optimiser.schedule.a")) s.a = config_number(b->c, "optimiser.schedule.a");
    if (config_has(b->c, "optimiser.schedule.b")) s.b = config_number(b->c, "optimiser.schedule.b");
    s.warmup = config_integer(b->c, "optimiser.schedule.warmup");
    return s;
}

/* How theta moves: by the file's optimiser, along the temperatures of `anneal`, or not at all. */
static void build_path_of_theta(const builder *b, sosmc_settings *s)
{
    s->optimiser = is(b, "objective.type", "anneal") ? sosmc_tempering_path(&b->p->tempering)
                   : is(b, "objective.type", "none") ? sosmc_sgd(0)
                                                     : build_optimiser(b);
    if (!config_has(b->c, "optimiser")) return;
    s->schedule = build_schedule(b);
    s->average = config_number(b->c, "optimiser.average");
    s->average_from = config_integer(b->c, "optimiser.average_from");
}

/* What the solver takes. Seed and threads are those of the settings too, for whatever looks at the problem besides it. */
static void build_solve_options(builder *b)
{
    job *j = b->job;
    sosmc_solve_options *o = &j->solve;
    j->automatic = 1;
    o->particles = (int)config_integer(b->c, "particles");
    o->seed = j->settings.seed;
    o->threads = j->settings.threads;
    o->rows = job_rows(j);
    /* In the plane a lattice shows whether the model is a law, and without one nothing of this is told. */
    o->why_no_log_z = j->problem.model.dim_x == 2 ? NULL : job_why_no_log_z(j);
    if (config_has(b->c, "precision")) o->precision = config_number(b->c, "precision");
}

/* What tempering takes besides its law and beta. */
static void build_temper_task(job *j, const builder *b)
{
    sosmc_temper_task *t = &j->temper;
    t->model = j->problem.model;
    t->theta = b->p->theta;
    t->score = j->problem.objective.score;
    t->particles = (int)config_integer(b->c, "particles");
    t->seed = j->settings.seed;
    t->threads = j->settings.threads;
    t->why_no_log_z = job_why_no_log_z(j);
}

void job_build_settings(builder *b)
{
    sosmc_settings *s = &b->job->settings;
    *s = sosmc_defaults();
    s->seed = config_unsigned(b->c, "seed");
    s->threads = (int)config_integer(b->c, "threads");
    if (is(b, "settings", "automatic")) {
        b->job->solve = (sosmc_solve_options){.seconds = config_number(b->c, "limits.seconds"),
                                              .evaluations = config_integer(b->c, "limits.evaluations")};
        if (b->job->tempers)
            build_temper_task(b->job, b);
        else
            build_solve_options(b);
        return;
    }
    s->scheme = build_scheme(b);
    s->kernel = build_kernel(b);
    build_path_of_theta(b, s);
    for (int i = 0; i < 2 && i < config_count(b->c, "adapt"); i++) s->adapt[i] = build_rule(b, i);
    s->on_nonfinite = CHOICE(b, "on_nonfinite", "default", "fail", "drop", "retry", "restart");
    s->on_collapse = is(b, "on_collapse", "continue") ? SOSMC_COLLAPSE_CONTINUE : SOSMC_COLLAPSE_STOP;
    s->judge = config_number(b->c, "judge.cost"); /* 0 for none */
    b->job->iterations = config_integer(b->c, "iterations");
}
