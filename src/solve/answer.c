/* answer.c: the numbers at the theta that was found, and the solution.
 *
 * Loss, log Z, KL and reward come from one more pass with fresh particles (temper/pass.c), at the final theta: its starting law mixes a
 * normal fit of both clouds, Student laws at the modes and the wide law of the start. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/probe.h"
#include "base/arithmetic.h"
#include "judge/numbers.h"
#include "judge/result.h"
#include "solve_inside.h"

enum { LARGEST_PASS_DIM = 2000 };
enum { NETWORK_PLAIN = 131072, NETWORK_TEMPERED = 16384 }; /* fresh particles of a network */
static const double FROM_CLOUD = 0.5, FROM_MODES = 0.3, FROM_WIDE = 0.2;

static const char *refused(const sosmc_solver *s)
{
    if (s->o.why_no_log_z) return s->o.why_no_log_z;
    if (s->dim > LARGEST_PASS_DIM) return "a particle has more than 2000 coordinates, too many for fresh particles";
    return NULL;
}

/* Both clouds as rows, each with half of the weight. */
static sosmc_status add_fit(sosmc_solver *s, laws *q)
{
    size_t dim = (size_t)s->dim, n = (size_t)s->n;
    double *x = malloc((2 * n * (dim + 1) + dim + sosmc_i_law_doubles(q)) * sizeof *x);
    if (!x) return SOSMC_ENOMEM;
    double *w = x + 2 * n * dim, *mean = w + 2 * n, *L = mean + dim;
    for (int which = 0; which < CLOUDS; which++) {
        cloud *c = &s->c[which];
        (void)sosmc_i_solver_weights(s, c, ALL);
        for (size_t i = 0; i < n; i++) w[(size_t)which * n + i] = 0.5 * c->w[i];
        for (int tile = 0; tile < s->tiles; tile++)
            sosmc_i_to_rows(s->dim, s->at.ld, tile_count(s, tile), tile_of(s, c->x, tile),
                            x + ((size_t)which * n + (size_t)tile_first(s, tile)) * dim);
    }
    sosmc_status status = SOSMC_OK;
    if (sosmc_i_fit_normal(q, (int64_t)(2 * n), x, w, 1.2, mean, L) == 0 && sosmc_i_laws_add(q, FROM_CLOUD, 0, mean, L))
        status = SOSMC_ENOMEM;
    free(x);
    return status;
}

static sosmc_status make_laws(sosmc_solver *s, laws *q)
{
    sosmc_status status = add_fit(s, q);
    int laws = sosmc_i_solver_jumps(s) ? 1 : 2; /* A and B of the last start; of many modes the narrower alone */
    for (int k = 0; k < laws && status == SOSMC_OK; k++)
        for (int part = 0; part < s->q[k].count; part++) {
            const law *a = &s->q[k].part[part];
            double weight = (k == 0 ? FROM_MODES : FROM_WIDE) * a->weight;
            if (q->count < LAW_MOST && sosmc_i_laws_add(q, weight, a->dof, a->mean, a->L)) status = SOSMC_ENOMEM;
        }
    sosmc_i_laws_close(q);
    return status;
}

static int pass_particles(const sosmc_solver *s)
{
    return s->network ? NETWORK_TEMPERED : s->dim <= 50 ? 2 * s->n : s->n;
}

size_t sosmc_i_answer_bytes(const sosmc_solver *s)
{
    const sosmc_judge_options none = {.rows = 0};
    fresh f = {.problem = &s->problem,
               .options = &none,
               .particles = pass_particles(s),
               .plain = s->network ? NETWORK_PLAIN : 0,
               .threads = s->at.workers};
    laws q = {.dim = s->dim, .diagonal = s->dim > FULL};
    size_t n = (size_t)s->n, dim = (size_t)s->dim;
    size_t fit = (2 * n * (dim + 1) + dim + sosmc_i_law_doubles(&q)) * sizeof(double);
    size_t pass = refused(s) ? 0 : sosmc_i_fresh_pass_bytes(&f);
    return fit > pass ? fit : pass;
}

sosmc_status sosmc_i_answer_pass(sosmc_solver *s)
{
    const sosmc_judge_options none = {.rows = 0};
    const char *why = refused(s);
    plain *v = &s->v;
    sosmc_judgement numbers;
    sosmc_status status = sosmc_i_result_open(&numbers, s->p);
    if (status == SOSMC_OK && why) sosmc_i_result_no_numbers(&numbers, &s->problem.objective, why);
    if (status == SOSMC_OK && !why) {
        fresh f = {.problem = &s->problem,
                   .options = &none,
                   .tries = v->found.converged || s->network ? 3 : 1,
                   .tilts = s->network,
                   .seed = s->o.seed,
                   .simd = s->simd,
                   .q = {.dim = s->dim, .diagonal = s->dim > FULL},
                   .c = s->m.c[0],
                   .particles = pass_particles(s),
                   .plain = s->network ? NETWORK_PLAIN : 0,
                   .threads = s->at.workers};
        pass_cloud p = {.n = 0};
        f.c.gradient = !s->m.walk;
        v->start_clock = v->clock++;
        if (s->network) {
            status = sosmc_i_learn_laws(s, &f.q, 1);
            if (status == SOSMC_OK) status = sosmc_i_learn_far(s, &f.q, s->answer);
        } else {
            status = sosmc_i_start_laws(s, FRESH);
            if (status == SOSMC_OK) status = make_laws(s, &f.q);
            f.jumps = sosmc_i_solver_jumps(s);
            f.from = sosmc_i_solver_pool(s, &s->c[SEARCHED], 0, GROUPS);
        }
        if (status == SOSMC_OK) status = sosmc_i_fresh_pass(&f, s->answer, 0, 1, &p);
        v->pass_particles = p.n;
        v->pass_temperatures = p.temperatures;
        v->pass_arrived = p.arrived;
        v->pass_survivors = p.survivors;
        v->pass_khat = p.khat;
        v->evaluations += (int64_t)p.n * (1 + (int64_t)p.temperatures * ((s->dim < 5 ? 1 : 2) + f.jumps));
        if (status == SOSMC_OK && p.arrived >= 1) {
            if (p.R) v->reward_spread = sosmc_i_pass_reward_spread(&p);
            status = sosmc_i_numbers(&f, s->answer, &p, &numbers);
        } else if (status == SOSMC_OK)
            sosmc_i_result_no_numbers(&numbers, &s->problem.objective, "the fresh particles did not reach the target");
        sosmc_i_pass_free(&p);
        sosmc_i_laws_free(&f.q);
        if (status == SOSMC_OK && s->network && !tunes(s)) status = sosmc_i_learn_beside(s, numbers.log_z.value);
    }
    v->pass_done = status == SOSMC_OK;
    v->loss = numbers.loss;
    v->log_z = numbers.log_z;
    v->kl = numbers.kl;
    v->reward = numbers.reward;
    v->best_loss_told = numbers.best_loss;
    v->best_reward = numbers.best_reward;
    v->best_kl = numbers.best_kl;
    v->excess_told = numbers.excess;
    v->to_gain = numbers.measured.to_gain;
    sosmc_judgement_free(&numbers);
    return status;
}

/* ---------------------------------------------------------------------------- the solution */

static void describe_pass(const plain *v, sosmc_measured *m)
{
    m->pass_particles = (int)v->pass_particles;
    m->pass_temperatures = (int)v->pass_temperatures;
    m->pass_arrived = v->pass_arrived;
    m->pass_survivors = v->pass_survivors;
    m->pass_khat = v->pass_khat;
    m->pass_log_z = v->log_z.value;
}
/* Why the last step did not succeed; also where the solver could go on. */
static sosmc_status broke(const sosmc_solver *s) { return s->failed ? s->failed : s->interrupted; }

static void describe(const sosmc_solver *s, sosmc_measured *m)
{
    const plain *v = &s->v;
    const findings *f = &v->found;
    int kind = s->problem.objective.loss;
    m->automatic = 1;
    m->dim_theta = s->p;
    m->particles = s->n;
    m->weighted = m->optimises = 1;
    m->likelihood = kind == SOSMC_LOSS_MMLE || kind == SOSMC_LOSS_LIKELIHOOD;
    m->iterations = v->updates;
    m->updates = v->updates;
    m->failed = broke(s);
    m->failed_why = m->failed ? s->message : NULL;
    if (v->phase != SOSMC_PHASE_DONE) m->ended_in = sosmc_phase_name((sosmc_phase)v->phase);
    if (m->failed || m->ended_in) return;
    m->out_of_updates = v->out_of_updates != 0;
    describe_pass(v, m);
    if (s->network) { /* nothing else is measured */
        if (!v->arrived[SEARCHED]) m->start_arrived = 0;
        m->unseen = v->log_z.value - v->checked_log_z;
        m->unseen_error = sqrt(v->log_z.error * v->log_z.error + v->checked_log_z_error * v->checked_log_z_error);
        if (!tunes(s)) {
            m->learnt = sosmc_i_learnt(s);
            m->behind = v->behind;
            m->behind_error = v->behind_error;
            return;
        }
        if (v->reward_spread != 0) /* else that is the reason */
            m->theta_unknown = "its loss could not be compared with that of the best of all densities";
        m->excess = v->excess_told.value;
        m->excess_error = v->excess_told.error;
        m->to_gain = v->to_gain;
        m->score_spread = v->reward_spread;
        return;
    }
    m->start_arrived = v->arrived[FRESH] != 0;
    m->modes = (int)v->modes[FRESH];
    sosmc_i_start_gap(s, FRESH, &m->start_gap, &m->start_gap_error);
    if (sosmc_i_solver_jumps(s)) m->reach = v->reach;
    m->moves_wanted = v->moves_wanted;
    m->wall_moves = (int)v->wall_moves;
    m->wall_where = (int)v->wall_where;
    m->wall_place = v->wall_place;
    m->wall_jump = v->wall_minus ? -INFINITY : v->wall_jump;
    m->wall_power = v->wall_power;
    m->batch = (int)v->batch;
    m->negative = (int)f->negative;
    m->vertex = (int)f->vertex;
    m->runs_away = (int)f->runs_away;
    m->keeps_falling = (int)f->falls;
    int64_t runs = m->runs_away > 0 ? m->runs_away : -m->runs_away;
    if (runs) m->runs_from = s->theta0[runs - 1];
    if (runs) m->runs_to = s->answer[runs - 1];
    m->downhill = (int)f->downhill;
    m->newton_limit = f->wanted;
    m->imprecise = f->wanted;
    m->newton = f->predicted;
    m->newton_expected = f->excess;
    m->newton_worst = (int)f->newton_worst;
    m->newton_worst_step = f->newton_worst_step;
    m->newton_worst_error = f->newton_worst_error;
    m->hessian_definite = !f->vertex && !f->negative;
    m->bent = f->bent;
    m->bent_where = (int)f->bent_where;
    m->blunt = f->blunt;
    m->blunt_where = (int)f->blunt_where;
    m->off = f->off_worth > f->wanted / s->p ? f->off : 0;
    m->off_where = (int)f->off_where;
    m->unresolved = (int)f->unresolved;
    m->unresolved_hides = f->hides;
    m->unresolved_where = (int)f->hides_where;
    m->at_bound = (int)f->at_bound;
    if (f->at_bound >= 0) m->bound = s->answer[f->at_bound];
    m->loss_unit = kind == SOSMC_LOSS_MMLE         ? 1
                   : kind == SOSMC_LOSS_LIKELIHOOD ? 1 / fmax(1, (double)s->problem.objective.data.rows)
                                                   : f->wanted / 0.002;
    if (f->worst >= 0 && f->worst_worth > sosmc_i_little(s)) {
        m->fresh_worst = (int)f->worst;
        m->fresh_step = f->worst_step;
        m->fresh_error = f->worst_error;
        m->fresh_limit = f->worst_limit;
        m->fresh_worth = f->worst_worth;
    }
    m->score_spread = v->reward_spread;
}

/* Whether the model's gradients match its energy, at particles of the end. */
static void check_gradients(const sosmc_solver *s, const double *theta, sosmc_measured *m)
{
    size_t dim = (size_t)s->dim;
    double *x = malloc(PROBE_PARTICLES * dim * sizeof *x);
    if (!x) return;
    for (int k = 0; k < PROBE_PARTICLES; k++) { /* one of each group */
        int tile = k * s->tiles_per_group;
        for (size_t j = 0; j < dim; j++)
            x[(size_t)k * dim + j] = s->c[SEARCHED].x[(size_t)tile * s->vector + j * (size_t)s->at.ld];
    }
    sosmc_rows rows = {.data = x, .rows = PROBE_PARTICLES, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem there = s->problem;
    sosmc_settings settings = sosmc_defaults();
    there.init = sosmc_rows_source(&rows);
    there.theta0 = theta;
    settings.seed = s->o.seed;
    settings.kernel.uses_gradient = 1;
    settings.kernel.uses_prox = 0;
    (void)sosmc_i_check_gradients(&there, &settings, &m->gradient_ratio, &m->gradient_error, &m->gradient_which);
    free(x);
}

static void estimate_of(const sosmc_solver *s, theta_estimate *e)
{
    const findings *f = &s->v.found;
    *e = (theta_estimate){.dim = s->p,
                          .definite = !f->vertex && !f->negative,
                          .unresolved = (int)f->unresolved,
                          .mc_error = s->error,
                          .inverse = s->inverse};
    /* Along a direction that the directions leave out the loss does not change. */
    for (size_t j = 0; j < (size_t)s->p; j++)
        if (!(s->inverse[j * (size_t)s->p + j] > 0)) e->flat++;
}

/* Behind the result's own numbers, in the same memory. */
static sosmc_status give_covariance(const sosmc_solver *s, sosmc_judgement *j)
{
    size_t p = (size_t)s->p, before = 5 * p;
    double *memory = realloc(j->memory, (before + p * p) * sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    j->memory = memory;
    j->theta = memory;
    j->theta_mc_error = memory + p;
    if (j->theta_standard_error) {
        j->theta_standard_error = memory + 2 * p;
        j->theta_low = memory + 3 * p;
        j->theta_high = memory + 4 * p;
    }
    j->theta_mc_covariance = memory + before;
    memcpy(j->theta_mc_covariance, s->cov, p * p * sizeof(double));
    return SOSMC_OK;
}

sosmc_status sosmc_i_answer(const sosmc_solver *s, sosmc_solution *out)
{
    STANDARD_ARITHMETIC;
    const plain *v = &s->v;
    sosmc_judgement *j = &out->judgement;
    *out = (sosmc_solution){.finished = v->phase == SOSMC_PHASE_DONE, .info = s->info};
    sosmc_status status = sosmc_i_result_open(j, s->problem.model.dim_theta > 0 ? s->problem.model.dim_theta : 0);
    if (status != SOSMC_OK) return status;
    const sosmc_objective *o = &s->problem.objective;
    if (s->ready) memcpy(j->theta, sosmc_solver_theta(s), (size_t)s->p * sizeof(double));
    j->rows = o->loss == SOSMC_LOSS_LIKELIHOOD ? o->data.rows : o->loss == SOSMC_LOSS_MMLE ? s->o.rows : 0;
    describe(s, &j->measured);
    theta_estimate e;
    int measured = s->ready && v->found.measured && v->phase >= SOSMC_PHASE_JUDGE && !broke(s);
    const findings *f = &v->found;
    if (measured) {
        estimate_of(s, &e);
        check_gradients(s, j->theta, &j->measured);
    }
    if (!measured)
        (void)snprintf(j->why_no_mc_error, SOSMC_WHY, "theta was not measured: %s",
                       broke(s)     ? "the solver failed"
                       : s->network ? "its numbers are too many for the second derivatives that this takes"
                                    : "the solver was ended before");
    sosmc_i_result_errors(j, o, measured ? &e : NULL, measured && f->predicted <= 0.25 * f->wanted + 4 * f->excess,
                          (int)v->freedom > 0 ? (int)v->freedom : GROUPS - 1);
    if (j->theta_mc_error) status = give_covariance(s, j);
    if (j->theta_mc_error && f->runs_away)
        j->theta_mc_error[(f->runs_away > 0 ? f->runs_away : -f->runs_away) - 1] = NAN;
    if (v->pass_done) {
        j->loss = v->loss;
        j->log_z = v->log_z;
        j->kl = v->kl;
        j->reward = v->reward;
        j->best_loss = v->best_loss_told;
        j->best_reward = v->best_reward;
        j->best_kl = v->best_kl;
        j->excess = v->excess_told;
        sosmc_i_result_criteria(j, o->loss);
    } else {
        sosmc_i_result_no_numbers(j, o, broke(s) ? "the solver failed" : "the solver was ended before it measured");
    }
    sosmc_verdict(&j->measured, &j->verdict);
    return status;
}
