/* judge.c: a judgement of an engine as it is now: the estimate of theta from what was gathered on the way, the numbers from fresh
 * particles at that estimate, and the verdict. The engine is only read. */
#include <math.h>
#include <sosmc/analysis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/probe.h"
#include "base/arithmetic.h"
#include "numbers.h"
#include "result.h"

static const double LIKELIHOOD_PRECISION = 1e-3, LOSS_PRECISION = 2e-3; /* of a nat per parameter; of the loss's unit */
static const double WELL_REJECTED = 0.9;

typedef struct {
    const sosmc *engine;
    const sosmc_problem *problem;
    const sosmc_settings *settings;
    sosmc_judge_options options;
    sosmc_judgement *out;
    theta_estimate theta;
    int has_theta; /* the estimate exists */
} judging;

/* ---------------------------------------------------------------------------- what is known without a pass */

static void describe(judging *j)
{
    sosmc_measured *m = &j->out->measured;
    const sosmc_info *last = sosmc_last(j->engine);
    sosmc_status failed = sosmc_i_failed(j->engine);
    m->dim_theta = j->out->dim_theta;
    m->particles = j->settings->scheme.particles;
    m->weighted = j->settings->scheme.weighted != 0;
    m->optimises = j->problem->objective.scale != 0;
    m->likelihood = j->problem->objective.loss == SOSMC_LOSS_MMLE;
    m->iterations = sosmc_iteration(j->engine);
    m->failed = failed;
    m->failed_why = failed < 0 ? sosmc_message(j->engine) : NULL;
    m->collapsed = last->collapsed;
    if (failed < 0) return;
    m->score_spread = sosmc_i_score_spread(j->engine);
    m->step = sosmc_i_step_now(j->engine);
    for (int i = 0; i < 2; i++) {
        const sosmc_adapt *a = &j->settings->adapt[i];
        if (a->factor == 0 || a->factor == 1 || a->target != SOSMC_ADAPT_STEP) continue;
        if (m->step <= a->min) m->step_bound = a->min;
        /* A longest step whose proposals are still rejected now and then is long enough. */
        if (m->step >= a->max && !(j->settings->kernel.metropolis && last->accept < WELL_REJECTED))
            m->step_bound = a->max;
    }
}

/* What one unit of the loss is: a nat of a log-likelihood, of a mean log-likelihood its share of the rows, of a reward its spread
 * over the cloud. */
static double loss_unit(const judging *j)
{
    const sosmc_objective *o = &j->problem->objective;
    double spread = j->out->measured.score_spread;
    switch (o->loss) {
    case SOSMC_LOSS_MMLE: return 1;
    case SOSMC_LOSS_LIKELIHOOD: return j->out->rows > 0 ? 1 / (double)j->out->rows : 1;
    default: return spread > 0 ? spread : 1;
    }
}

static int64_t rows_of(const judging *j)
{
    const sosmc_objective *o = &j->problem->objective;
    if (o->loss == SOSMC_LOSS_LIKELIHOOD) return o->data.rows;
    return o->loss == SOSMC_LOSS_MMLE ? j->options.rows : 0;
}

/* ---------------------------------------------------------------------------- theta */

static void note_newton(sosmc_measured *m, const theta_estimate *e)
{
    double worst = -1;
    m->hessian_definite = e->definite;
    m->renewals = e->renewals;
    if (!e->definite) return;
    m->newton = e->newton;
    m->newton_expected = e->expected;
    m->unresolved = e->unresolved;
    m->unresolved_hides = e->hides;
    m->unresolved_where = e->hides_where;
    for (int j = 0; j < e->dim; j++) {
        double size = fabs(e->step[j]) / e->mc_error[j];
        if (!(size > worst)) continue;
        worst = size;
        m->newton_worst = j;
        m->newton_worst_step = e->step[j];
        m->newton_worst_error = e->mc_error[j];
    }
}

static void note_bounds(judging *j)
{
    const sosmc_optimiser *opt = &j->settings->optimiser;
    sosmc_measured *m = &j->out->measured;
    const double *theta = sosmc_theta(j->engine);
    for (int k = 0; opt->map && k < j->out->dim_theta; k++) /* a step to the optimum stays in the domain */
        j->out->theta[k] = fmax(j->out->theta[k], 0.5 * theta[k]);
    for (int k = 0; opt->low < opt->high && k < j->out->dim_theta; k++) {
        double *told = &j->out->theta[k];
        *told = fmin(fmax(*told, opt->low), opt->high);
        if (theta[k] > opt->low && theta[k] < opt->high) continue;
        m->at_bound = k;
        m->bound = theta[k] <= opt->low ? opt->low : opt->high;
    }
}

/* Errors are those of a theta at the optimum: away from it they would be believed and wrong. */
static int has_not_converged(const judging *j)
{
    const sosmc_measured *m = &j->out->measured;
    return m->newton > m->newton_limit + 4 * m->newton_expected;
}

static void give_errors(judging *j)
{
    const theta_estimate *e = j->has_theta ? &j->theta : NULL;
    if (e) memcpy(j->out->theta, e->theta, (size_t)e->dim * sizeof(double));
    sosmc_i_result_errors(j->out, &j->problem->objective, e, !has_not_converged(j), SOSMC_GROUPS - 1);
}

static sosmc_status judge_theta(judging *j)
{
    sosmc_measured *m = &j->out->measured;
    watch_sums tail;
    const char *why;
    m->loss_unit = loss_unit(j);
    int rows = j->problem->objective.loss == SOSMC_LOSS_LIKELIHOOD;
    if (m->likelihood || rows)
        m->newton_limit = LIKELIHOOD_PRECISION * m->dim_theta * m->loss_unit;
    else
        m->newton_limit = LOSS_PRECISION * m->loss_unit;
    /* Of a mean over rows the cloud is rarely as large as the data, and its error may well exceed their own. */
    m->imprecise = rows ? 0.02 : 10 * m->newton_limit;
    if (sosmc_i_watch_tail(j->engine, &tail, &why)) {
        (void)snprintf(j->out->why_no_mc_error, SOSMC_WHY, "%s", why);
        m->theta_unknown = why;
        note_bounds(j);
        give_errors(j);
        return SOSMC_OK;
    }
    sosmc_status status = sosmc_i_theta_estimate(&j->theta, m->dim_theta, &tail, 2 * m->loss_unit);
    if (status != SOSMC_OK) return status;
    j->has_theta = 1;
    m->tail_from = (int64_t)tail.head[HEAD_START];
    m->observed = (int64_t)tail.head[HEAD_COUNT];
    if (tail.head[HEAD_MOVES] > 0) m->mobility = tail.head[HEAD_MOBILITY] / tail.head[HEAD_MOVES];
    note_newton(m, &j->theta);
    give_errors(j);
    note_bounds(j);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the pass */

static sosmc_status judge_numbers(judging *j)
{
    sosmc_measured *m = &j->out->measured;
    fresh f = {.engine = j->engine,
               .problem = j->problem,
               .settings = j->settings,
               .options = &j->options,
               .iterations = sosmc_iteration(j->engine),
               .tilts = 1,
               .tries = 4,
               .seed = j->settings->seed,
               .simd = sosmc_i_simd_of(j->engine)};
    pass_cloud p = {.n = 0};
    const char *why = sosmc_i_fresh_refused(&f);
    if (why) {
        sosmc_i_result_no_numbers(j->out, &j->problem->objective, why);
        return SOSMC_OK;
    }
    sosmc_status status = sosmc_i_fresh_open(&f, j->out->theta);
    m->first_ess = f.first_ess;
    m->first_khat = f.first_khat;
    if (status == SOSMC_OK) status = sosmc_i_fresh_pass(&f, j->out->theta, 0, 1, &p);
    if (status == SOSMC_OK) {
        m->pass_particles = p.n;
        m->pass_temperatures = p.temperatures;
        m->pass_arrived = p.arrived;
        m->pass_survivors = p.survivors;
        m->pass_log_z = p.log_z;
        m->pass_khat = p.khat;
        if (p.arrived >= 1) {
            status = sosmc_i_numbers(&f, j->out->theta, &p, j->out);
            if (status == SOSMC_OK && j->has_theta) status = sosmc_i_contradiction(&f, j->out->theta, &p, &j->theta, m);
            sosmc_i_result_criteria(j->out, j->problem->objective.loss);
        } else {
            sosmc_i_result_no_numbers(j->out, &j->problem->objective, "the fresh particles did not reach the target");
        }
    }
    if (status == SOSMC_ENUMERIC) {
        sosmc_i_result_no_numbers(j->out, &j->problem->objective,
                                  "the particles have no finite spread to start fresh ones from");
        status = SOSMC_OK;
    }
    sosmc_i_pass_free(&p);
    sosmc_i_fresh_close(&f);
    return status;
}

sosmc_status sosmc_judge(const sosmc *s, const sosmc_judge_options *options, sosmc_judgement *out, char *message,
                         size_t room)
{
    STANDARD_ARITHMETIC;
    *out = (sosmc_judgement){.dim_theta = 0};
    if (message && room) message[0] = 0;
    if (!s) return SOSMC_EINVAL;
    if (sosmc_i_enter_reading(s) != SOSMC_OK) {
        if (message && room) (void)snprintf(message, room, "%s", sosmc_message(s));
        return SOSMC_EINVAL;
    }
    judging j = {.engine = s, .problem = sosmc_i_problem_of(s), .settings = sosmc_i_settings_of(s), .out = out};
    if (options) j.options = *options;
    sosmc_status status = sosmc_i_result_open(out, j.problem->model.dim_theta);
    if (status != SOSMC_OK) return sosmc_i_leave_reading(s, status);
    const double *theta = sosmc_theta_average(s);
    if (theta) memcpy(out->theta, theta, (size_t)out->dim_theta * sizeof(double));
    out->rows = rows_of(&j);
    describe(&j);
    if (out->measured.failed < 0) {
        sosmc_i_result_no_numbers(out, &j.problem->objective, "the run failed");
        (void)snprintf(out->why_no_mc_error, SOSMC_WHY, "the run failed");
        (void)snprintf(out->why_no_standard_error, SOSMC_WHY, "the run failed");
    } else {
        status = judge_theta(&j);
        if (status == SOSMC_OK) status = judge_numbers(&j);
        if (status == SOSMC_OK)
            status = sosmc_i_check_gradients(j.problem, j.settings, &out->measured.gradient_ratio,
                                             &out->measured.gradient_error, &out->measured.gradient_which);
    }
    if (message && room && status == SOSMC_EMODEL)
        (void)snprintf(message, room, "a callback of the model failed while the run was judged");
    sosmc_i_theta_free(&j.theta);
    sosmc_verdict(&out->measured, &out->verdict);
    return sosmc_i_leave_reading(s, status);
}

size_t sosmc_judge_memory(const sosmc_problem *problem, const sosmc_settings *settings,
                          const sosmc_judge_options *options, int64_t iterations)
{
    const sosmc_judge_options none = {.rows = 0};
    fresh f = {
        .problem = problem, .settings = settings, .options = options ? options : &none, .iterations = iterations};
    size_t p = (size_t)problem->model.dim_theta, doubles = 5 * p;
    if (p <= WATCH_PARAMETERS) doubles += 11 * p + 4 * p * p;
    size_t passes = sosmc_i_fresh_bytes(&f);
    return passes > SIZE_MAX - doubles * sizeof(double) ? SIZE_MAX : passes + doubles * sizeof(double);
}
