/* solver.c: the phases, their limits and the public functions. Everything is allocated when a solver is created, but for modes and
 * laws. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arithmetic.h"
#include "base/scores.h"
#include "base/table.h"
#include "base/tiles.h"
#include "solve_inside.h"

enum { DRAWN_PER_PARTICLE = 4 }; /* draws of a reference law: they cost little, and are noise in every gradient */
enum {
    PARTICLES = 1024,
    NETWORK_PARTICLES = 2048,
    LEAST_PARTICLES = 128,
    MOST_PARTICLES = 1 << 22,
    LARGEST_DIM = 100000,
    LARGEST_DIFFERENCED = 20
};

const char *sosmc_phase_name(sosmc_phase phase)
{
    static const char *const names[] = {"start", "search", "measure", "judge", "done"};
    return names[phase];
}

sosmc_status sosmc_i_solver_fail(sosmc_solver *s, sosmc_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->message, sizeof s->message, format, arguments);
    va_end(arguments);
    return s->failed = status;
}

sosmc_rng sosmc_i_solver_name(sosmc_solver *s, uint32_t stream)
{
    return (sosmc_rng){.seed = s->o.seed, .step = (uint64_t)s->v.clock++, .stream = stream};
}

/* ---------------------------------------------------------------------------- creation */

static sosmc_status check(sosmc_solver *s)
{
    const sosmc_model *m = &s->problem.model;
    const sosmc_objective *o = &s->problem.objective;
    if (m->dim_x < 1 || m->dim_theta < 1 || !m->energy || !m->grad_theta)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL,
                                   "the model needs dim_x and dim_theta of at least 1, energy and grad_theta");
    const char *refused = m->dim_theta > SOSMC_SOLVE_PARAMETERS ? sosmc_i_learn_refused(&s->problem) : NULL;
    if (refused)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL,
                                   "the model has %d parameters, and with more than %d %s: choose settings "
                                   "(sosmc_defaults)",
                                   m->dim_theta, SOSMC_SOLVE_PARAMETERS, refused);
    if (m->dim_x > LARGEST_DIM)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "a particle has %d coordinates; the solver takes at most %d",
                                   m->dim_x, LARGEST_DIM);
    if (m->no_gx && m->dim_x > LARGEST_DIFFERENCED)
        return sosmc_i_solver_fail(
            s, SOSMC_EINVAL,
            "the model has no dU/dx (no_gx) and %d coordinates; without it the solver takes at most %d", m->dim_x,
            LARGEST_DIFFERENCED);
    if (m->prox)
        return sosmc_i_solver_fail(
            s, SOSMC_EINVAL,
            "the energy has a non-smooth part with a proximal map, for which the solver has no moves: choose "
            "settings (sosmc_defaults) with the kernel myula or mymala");
    if (o->H)
        return sosmc_i_solver_fail(
            s, SOSMC_EINVAL,
            "the objective has an H of its own, so the solver does not know its loss: choose settings "
            "(sosmc_defaults)");
    if (o->energy2 != 0 || o->penalty)
        return sosmc_i_solver_fail(
            s, SOSMC_EINVAL,
            "the objective has a regulariser on energies, which the solver does not know: choose settings "
            "(sosmc_defaults)");
    if (o->loss == SOSMC_LOSS_NONE || o->scale == 0)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "the objective has no loss, so there is nothing to minimise");
    if (o->b != 0 && !o->data.draw && !(o->data.row && o->data.rows > 0))
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "the objective needs data, and has none");
    if (o->kl != 0 && !o->theta_ref)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "the objective needs theta_ref, and has none");
    if (s->o.particles < 0 || s->o.particles > MOST_PARTICLES ||
        (s->o.particles > 0 && (s->o.particles < LEAST_PARTICLES || s->o.particles % (2 * GROUPS) != 0)))
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "particles is %d; it has to be a multiple of %d from %d to %d",
                                   s->o.particles, 2 * GROUPS, LEAST_PARTICLES, MOST_PARTICLES);
    if (!(s->o.precision >= 0) || !(s->o.precision < 1e300))
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "precision is %g; it has to be positive, or 0 for the default",
                                   s->o.precision);
    if (!(s->o.seconds >= 0) || s->o.evaluations < 0)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "a limit is negative: seconds %g, evaluations %lld", s->o.seconds,
                                   (long long)s->o.evaluations);
    if (s->o.threads < 0 || s->o.threads > HOST_MOST_THREADS)
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "threads is %d; it has to be from 0 to %d", s->o.threads,
                                   HOST_MOST_THREADS);
    if (s->o.low > s->o.high || isnan(s->o.low) || isnan(s->o.high))
        return sosmc_i_solver_fail(s, SOSMC_EINVAL, "theta's bounds are %g and %g; the first has to be the smaller",
                                   s->o.low, s->o.high);
    for (int j = 0; s->problem.theta0 && j < m->dim_theta; j++)
        if (!isfinite(s->problem.theta0[j]))
            return sosmc_i_solver_fail(s, SOSMC_EINVAL, "theta0[%d] is %g; it has to be finite", j,
                                       s->problem.theta0[j]);
    return SOSMC_OK;
}

/* The coefficients of the shift with theta are as many as coordinates, so these ask for particles. */
static int particles_for(const sosmc_model *m)
{
    int wanted = (int)sosmc_i_round_up(8 * (size_t)m->dim_x, 2 * GROUPS);
    return m->dim_x <= SHIFTED && wanted > PARTICLES ? wanted : PARTICLES;
}

#define STATE(where, doubles) visit(ctx, &(where), doubles, 1)
#define WORK(where, doubles) visit(ctx, &(where), doubles, 0)

/* The search for networks has one set of particles, and nothing that grows like the square of the parameters or like their number times that
 * of the particles. */
static void visit_shared(sosmc_solver *s, array_visitor *visit, void *ctx)
{
    size_t n = (size_t)s->n, dim = (size_t)s->dim, p = (size_t)s->p, all = (size_t)s->tiles * s->vector;
    size_t square = dim <= FULL ? dim * dim : dim;
    for (int k = 0; k < (s->network ? 1 : CLOUDS); k++) {
        cloud *c = &s->c[k];
        STATE(c->x, all);
        STATE(c->g, all);
        STATE(c->U, n);
        STATE(c->logw, n);
        WORK(c->w, n);
        if (s->problem.objective.score.eval) visit(ctx, &c->R, n, !s->network);
        if (s->problem.objective.kl != 0) visit(ctx, &c->Uref, n, !s->network);
    }
    for (int k = 0; k < 2; k++) {
        STATE(s->m.c[k].C, square);
        STATE(s->m.inverse[k], dim);
        STATE(s->start_metric.c[k].C, square);
        STATE(s->start_metric.inverse[k], dim);
    }
    STATE(s->theta, p);
    STATE(s->answer, p);
    STATE(s->Lq, n);
    STATE(s->gq, all);
    WORK(s->theta0, p);
    WORK(s->value, n);
    WORK(s->data_U, (size_t)s->data_points);
    WORK(s->scratch, 2 * n + 1);
    WORK(s->accepted, n);
    WORK(s->room, (size_t)s->at.workers * s->room_each);
}

void sosmc_i_solver_arrays(sosmc_solver *s, array_visitor *visit, void *ctx)
{
    size_t n = (size_t)s->n, dim = (size_t)s->dim, p = (size_t)s->p, all = (size_t)s->tiles * s->vector;
    size_t K = dim <= SHIFTED ? dim * p : 0, data_tiles = (size_t)s->data_shares * (size_t)s->tiles_per_share;
    size_t rows = (size_t)s->tiles > data_tiles ? (size_t)s->tiles : data_tiles;
    size_t small = 2 * dim + 8 * p * p + 24 * p + 64;
    if (dim <= SHIFTED && dim * dim + 8 * p + 2 * dim > small) small = dim * dim + 8 * p + 2 * dim;
    visit_shared(s, visit, ctx);
    if (s->network) {
        STATE(s->average, p);
        STATE(s->slots, 2 * p);
        WORK(s->shares, (SHARES + BATCH_TILES) * p);
        WORK(s->data_x, ((size_t)s->tiles_per_share + 1) * s->data.vector);
        if (tunes(s)) WORK(s->data_s, (size_t)s->data_points);
        WORK(s->partial, (size_t)s->tiles * s->row);
        WORK(s->spare, all);
        return;
    }
    for (int k = 0; k < CLOUDS; k++) {
        STATE(s->k[k].K[0], K);
        STATE(s->k[k].K[1], K);
        STATE(s->sums[k], GROUPS * p);
        STATE(s->group_w[k], GROUPS);
    }
    STATE(s->unit, p);
    STATE(s->first_unit, p);
    STATE(s->mark, p);
    STATE(s->bfgs, p * p);
    STATE(s->complete, p * p);
    STATE(s->bend, p * p);
    STATE(s->entry_theta, ENTRIES * p);
    STATE(s->entry_g, ENTRIES * p);
    STATE(s->entry_d, ENTRIES * GROUPS * p);
    STATE(s->hessian, HESSIANS * p * p);
    STATE(s->fisher, p * p);
    STATE(s->seen, p);
    STATE(s->cov, p * p);
    STATE(s->inverse, p * p);
    STATE(s->error, p);
    STATE(s->H, p * p);
    STATE(s->walled, 3 * dim);
    STATE(s->paths, sosmc_i_paths_doubles(s));
    WORK(s->try_theta, p);
    WORK(s->best_x, all);
    WORK(s->best_g, all);
    WORK(s->best_U, n);
    WORK(s->look_x, all);
    WORK(s->look_g, all);
    WORK(s->look_U, n);
    WORK(s->coefficient, n);
    WORK(s->lw, n);
    WORK(s->data_x, data_tiles * s->data.vector);
    WORK(s->partial, rows * s->row);
    WORK(s->D, n * p);
    WORK(s->spare, all > SEEDS * dim ? all : SEEDS * dim);
    WORK(s->small, small);
}
#undef STATE
#undef WORK

typedef struct {
    double *at; /* NULL: arrays are only counted */
    size_t count;
} layout;

static void hand_out(void *ctx, double **where, size_t doubles, int state)
{
    layout *l = ctx;
    size_t room = sosmc_i_round_up(doubles, TILE_LANES);
    *where = l->at;
    l->count += room;
    if (l->at) l->at += room;
}

/* Hands out the memory; with at == NULL it only counts. Returns the number of doubles. */
static size_t lay_out(sosmc_solver *s, double *at)
{
    layout l = {.at = at};
    sosmc_i_solver_arrays(s, hand_out, &l);
    return l.count;
}

static void cut_data(sosmc_solver *s)
{
    const sosmc_source *data = &s->problem.objective.data;
    s->data_shares = 1;
    if (tunes(s)) s->data_points = s->data_share = LEARN_DRAWN;
    if (s->problem.objective.b == 0) return;
    s->data_points = data->row && data->rows > 0 ? data->rows : (int64_t)DRAWN_PER_PARTICLE * s->n;
    s->data_shares = data->row && data->rows > 0 ? 1 : GROUPS;
    s->data_share = s->data_points / s->data_shares;
}

/* Everything that says how large the arrays are. SOSMC_EINVAL: so many data points have too many tiles. */
static sosmc_status shape(sosmc_solver *s)
{
    const sosmc_model *m = &s->problem.model;
    s->network = m->dim_theta > SOSMC_SOLVE_PARAMETERS;
    s->n = s->o.particles > 0 ? s->o.particles : s->network && !tunes(s) ? NETWORK_PARTICLES : particles_for(m);
    s->group = s->n / GROUPS;
    s->dim = m->dim_x;
    s->p = m->dim_theta;
    s->simd = sosmc_i_simd(s->o.simd);
    s->code = sosmc_i_tile_code(s->simd);
    s->tile = sosmc_i_tile(m->tile, s->dim, s->group);
    s->tiles_per_group = (s->group + s->tile - 1) / s->tile;
    s->tiles = GROUPS * s->tiles_per_group;
    s->vector = sosmc_i_round_up((size_t)s->dim * (size_t)sosmc_i_tile_row(s->tile, s->dim), TILE_LANES);
    cut_data(s);
    sosmc_i_host_shape(&s->at, m, s->tile, sosmc_i_tile_row(s->tile, s->dim));
    s->at.workers = s->o.threads > 1 ? s->o.threads : 1;
    if (s->at.workers > s->tiles) s->at.workers = s->tiles;
    s->at.simd = s->simd;
    s->trial = s->ref = s->at;
    size_t scoring = sosmc_i_scores_scratch(m) + (size_t)s->p * (size_t)s->at.ld, moving = LAW_WORK * (size_t)s->dim;
    s->room_each = sosmc_i_round_up(scoring > moving && !s->network ? scoring : moving, TILE_LANES);
    size_t wide = (size_t)(s->network ? s->dim : s->p > 2 * s->dim ? s->p : 2 * s->dim);
    s->row = sosmc_i_round_up(wide + 2 * (size_t)s->dim, TILE_LANES);
    if (s->data_points == 0) return SOSMC_OK;
    sosmc_status status = sosmc_i_host_cut(&s->data, m, s->data_share, s->at.workers);
    s->data.workers = s->at.workers;
    s->data.simd = s->simd;
    s->tiles_per_share = (int)((s->data_share + s->data.tile - 1) / s->data.tile);
    return status;
}

/* The hosts of a solver: which, with how many vectors and rows, at which theta, and whether this problem has it. */
enum { HOSTS = 4 };
typedef struct {
    host *h;
    size_t vectors, rows;
    const double *theta;
    int wanted;
} host_row;

static void hosts_of(sosmc_solver *s, host_row out[HOSTS])
{
    const sosmc_objective *o = &s->problem.objective;
    out[0] = (host_row){.h = &s->at, .vectors = VECTORS, .rows = ROWS, .wanted = 1};
    out[1] = (host_row){.h = &s->trial, .wanted = 1};
    out[2] = (host_row){.h = &s->ref, .theta = o->theta_ref, .wanted = o->kl != 0};
    out[3] = (host_row){.h = &s->data, .rows = 2, .wanted = s->data_points > 0};
}

static sosmc_status open_hosts(sosmc_solver *s)
{
    host_row all[HOSTS];
    sosmc_status status = SOSMC_OK;
    hosts_of(s, all);
    for (int k = 0; k < HOSTS && status == SOSMC_OK; k++)
        if (all[k].wanted) status = sosmc_i_host_open(all[k].h, all[k].theta, all[k].vectors, all[k].rows);
    return status;
}

static sosmc_status open_memory(sosmc_solver *s)
{
    size_t doubles = lay_out(s, NULL), threads = sosmc_i_crew_bytes(s->at.workers);
    s->memory = aligned_alloc(64, doubles * sizeof(double));
    s->ancestor = calloc((size_t)s->n, sizeof *s->ancestor);
    s->helpers_memory = aligned_alloc(64, sosmc_i_round_up(threads ? threads : 1, 64));
    if (!s->memory || !s->ancestor || !s->helpers_memory) return SOSMC_ENOMEM;
    memset(s->memory, 0, doubles * sizeof(double)); /* a model may read padding */
    (void)lay_out(s, s->memory);
    s->before = malloc(sosmc_i_solver_state_bytes(s));
    if (!s->before) return SOSMC_ENOMEM;
    for (int k = 0; k < 2; k++) s->m.c[k].dim = s->start_metric.c[k].dim = s->dim;
    if (s->at.workers > 1) s->helpers = sosmc_i_crew_start(s->helpers_memory, s->at.workers);
    return SOSMC_OK;
}

/* A solver without memory of its own but this; *status says whether it was accepted. NULL: there is not even that. */
static sosmc_solver *begin(const sosmc_problem *problem, const sosmc_solve_options *options, sosmc_status *status)
{
    sosmc_solver *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->problem = *problem;
    if (options) s->o = *options;
    *status = check(s);
    if (*status != SOSMC_OK) return s;
    sosmc_i_ending_open(s);
    char text[MESSAGE_ROOM];
    const char *wrong = sosmc_i_bound(&s->bounds, &s->problem, 1, text, sizeof text);
    if (wrong) *status = sosmc_i_solver_fail(s, SOSMC_EINVAL, "%s", wrong);
    if (!problem->init.draw) s->problem.init.draw = NULL; /* modes are looked for without one */
    return s;
}

sosmc_status sosmc_solver_create(sosmc_solver **out, const sosmc_problem *problem, const sosmc_solve_options *options)
{
    STANDARD_ARITHMETIC;
    sosmc_status status;
    sosmc_solver *s = *out = begin(problem, options, &status);
    if (!s) return SOSMC_ENOMEM;
    if (status != SOSMC_OK) return status;
    char text[MESSAGE_ROOM];
    const char *outside = sosmc_i_points_outside(&s->problem, s->o.seed, 0, text, sizeof text);
    if (outside) return sosmc_i_solver_fail(s, SOSMC_EINVAL, "%s", outside);
    status = shape(s);
    if (status == SOSMC_OK) status = open_hosts(s);
    if (status == SOSMC_OK) status = open_memory(s);
    if (status == SOSMC_EMODEL) return sosmc_i_solver_fail(s, status, "the model's prepare failed at theta_ref");
    if (status != SOSMC_OK) return sosmc_i_solver_fail(s, status, "there is not enough memory for the solver");
    for (int j = 0; j < s->p; j++) {
        double theta = problem->theta0 ? problem->theta0[j] : 0;
        if (s->o.low < s->o.high) theta = fmin(fmax(theta, s->o.low), s->o.high);
        s->theta[j] = s->theta0[j] = s->answer[j] = theta;
        if (s->mark) s->mark[j] = theta;
    }
    if (s->network) {
        sosmc_i_ending_begin(s);
        status = sosmc_i_learn_data(s);
        if (sosmc_i_ending_close(s))
            return sosmc_i_solver_fail(s, SOSMC_STOPPED,
                                       "the solver was ended while it drew points, before its first step");
        if (status != SOSMC_OK)
            return s->failed ? s->failed : sosmc_i_solver_fail(s, status, "there is not enough memory for the solver");
        sosmc_i_learn_begin(s);
    }
    s->v.moves = s->v.each = 1;
    s->v.closer = 1;
    s->v.fresh_loss = s->v.fresh_error = s->v.best_loss = s->v.first_loss = NAN;
    s->v.gain = s->v.accept = s->v.mobility = s->v.cess = s->v.moves_wanted = s->v.reward_spread = s->v.reach = NAN;
    s->v.behind = s->v.behind_error = NAN;
    s->v.found.worst = s->v.found.at_bound = s->v.starting = -1;
    status = sosmc_i_host_move(&s->at, s->theta);
    if (status != SOSMC_OK) return sosmc_i_solver_fail(s, status, "the model's prepare failed at theta0");
    s->ready = 1;
    sosmc_i_solver_note(s);
    return SOSMC_OK;
}

static size_t sum_of(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

/* The arrays, the state that a stopped step is taken back to, and what comes and goes beside them: the pass of the answer, or a
 * state that is read back. */
size_t sosmc_solver_memory(const sosmc_problem *problem, const sosmc_solve_options *options)
{
    host_row host[HOSTS];
    sosmc_status status;
    size_t bytes = 0;
    sosmc_solver *s = begin(problem, options, &status);
    if (s && status == SOSMC_OK && shape(s) == SOSMC_OK) {
        hosts_of(s, host);
        bytes = sizeof *s + lay_out(s, NULL) * sizeof(double) + (size_t)s->n * sizeof *s->ancestor;
        for (int k = 0; k < HOSTS; k++)
            if (host[k].wanted) bytes = sum_of(bytes, sosmc_i_host_bytes(host[k].h, host[k].vectors, host[k].rows));
        size_t answer = sosmc_i_answer_bytes(s), state = sosmc_i_solver_state_bytes(s);
        size_t passing = s->network ? sosmc_i_learn_bytes(s) : 0;
        if (passing < answer) passing = answer;
        bytes = sum_of(sum_of(bytes, state), passing > state ? passing : state);
    }
    sosmc_solver_free(s);
    return bytes;
}

void sosmc_solver_free(sosmc_solver *s)
{
    if (!s) return;
    sosmc_i_crew_stop(s->helpers);
    sosmc_i_host_close(&s->at);
    sosmc_i_host_close(&s->trial);
    sosmc_i_host_close(&s->ref);
    sosmc_i_host_close(&s->data);
    for (int k = 0; k < 2; k++) {
        sosmc_i_laws_free(&s->q[k]);
        sosmc_i_places_free(&s->found[k]);
    }
    free(s->helpers_memory);
    free(s->memory);
    free(s->before);
    free(s->ancestor);
    free(s);
}

/* ---------------------------------------------------------------------------- steps */

void sosmc_i_solver_note(sosmc_solver *s)
{
    const plain *v = &s->v;
    const findings *f = &v->found;
    cloud *c = &s->c[SEARCHED];
    int starting = v->phase == SOSMC_PHASE_START || (v->phase == SOSMC_PHASE_MEASURE && v->starting >= 0);
    s->info = (sosmc_solve_info){.phase = (int)v->phase,
                                 .step = v->step,
                                 .updates = v->updates,
                                 .temperature = starting ? 0.5 * ((double)v->part + v->t) : NAN,
                                 .stage = (int)v->stage,
                                 .round = (int)v->round,
                                 .gain = v->gain,
                                 .decrease = v->decrease,
                                 .left = f->measured ? f->predicted : NAN,
                                 .left_error = f->measured ? f->excess : NAN,
                                 .wanted = v->phase >= SOSMC_PHASE_SEARCH ? sosmc_i_wanted(s) : NAN,
                                 .loss = v->pass_done ? v->loss.value : NAN,
                                 .loss_error = v->pass_done ? v->loss.error : NAN,
                                 .ess = NAN,
                                 .accept = v->accept,
                                 .mobility = v->mobility,
                                 .reward = NAN,
                                 .moves = (int)v->moves,
                                 .evaluations = v->evaluations,
                                 .contractions = v->contractions,
                                 .seconds = v->seconds};
    if (s->network) {
        s->info.wanted = sosmc_i_learn_wanted(s);
        s->info.left = v->excess;
        s->info.left_error = v->excess_error;
        s->info.loss = v->pass_done ? v->loss.value : v->fresh_loss;
        s->info.loss_error = v->pass_done ? v->loss.error : v->fresh_error;
    }
    if (v->phase == SOSMC_PHASE_START || s->failed) return;
    s->info.ess = sosmc_i_solver_weights(s, c, ALL);
    if (s->network) s->info.reward = v->cloud_reward;
    if (s->network || !c->R || v->updates == 0) return; /* rewards are looked at in the first update */
    double mean = 0;
    for (int i = 0; i < s->n; i++) mean += c->w[i] > 0 ? c->w[i] * c->R[i] : 0;
    s->info.reward = mean;
}

static sosmc_status advance(sosmc_solver *s)
{
    plain *v = &s->v;
    int done = 0;
    sosmc_status status = SOSMC_OK;
    switch ((sosmc_phase)v->phase) {
    case SOSMC_PHASE_START:
        status = v->begun ? sosmc_i_start_step(s, SEARCHED, &done) : sosmc_i_start_begin(s, SEARCHED);
        v->begun = 1;
        if (status == SOSMC_OK && done) v->phase = SOSMC_PHASE_SEARCH;
        break;
    case SOSMC_PHASE_SEARCH:
        status = s->network ? sosmc_i_learn_step(s, &done) : sosmc_i_search_step(s, &done);
        if (status != SOSMC_OK || !done) break;
        if (s->network) { /* theta has no error that could be measured */
            v->phase = SOSMC_PHASE_JUDGE;
            break;
        }
        v->phase = SOSMC_PHASE_MEASURE;
        sosmc_i_measure_begin(s);
        break;
    case SOSMC_PHASE_MEASURE:
        status = sosmc_i_measure_step(s, &done);
        if (status == SOSMC_OK && done) v->phase = SOSMC_PHASE_JUDGE;
        break;
    case SOSMC_PHASE_JUDGE:
        status = sosmc_i_answer_pass(s);
        if (status == SOSMC_OK) v->phase = SOSMC_PHASE_DONE;
        break;
    case SOSMC_PHASE_DONE: break;
    }
    return status;
}

/* A step that a callback stopped, or that was ended, is taken back: nothing has happened but the message, and the time that it took. */
static sosmc_status try_step(sosmc_solver *s)
{
    double seconds = s->v.seconds, begun = sosmc_i_seconds_now();
    int again = s->stale;
    if (!again) sosmc_i_solver_keep(s);
    sosmc_i_ending_begin(s);
    sosmc_status status = again ? sosmc_i_solver_wake(s) : SOSMC_OK;
    if (status == SOSMC_OK) status = advance(s);
    int64_t phase = s->v.phase;
    int ended = sosmc_i_ending_close(s);
    s->interrupted = status == SOSMC_EMODEL && !ended ? status : SOSMC_OK;
    if (s->interrupted || ended)
        sosmc_i_solver_take_back(s);
    else
        s->v.step++;
    s->v.seconds = seconds + sosmc_i_seconds_now() - begun;
    if (ended) {
        (void)sosmc_i_solver_fail(s, SOSMC_STOPPED, "the step was ended before it was done, and taken back");
        s->failed = SOSMC_OK;
        return SOSMC_STOPPED;
    }
    if (status != SOSMC_OK && !s->failed)
        (void)sosmc_i_solver_fail(s, status,
                                  status == SOSMC_EMODEL   ? "a callback of the model failed in the phase `%s`"
                                  : status == SOSMC_ENOMEM ? "memory ran out in the phase `%s`"
                                                           : "the solver failed in the phase `%s`",
                                  sosmc_phase_name((sosmc_phase)phase));
    if (s->interrupted) s->failed = SOSMC_OK; /* the message stays */
    return status;
}

sosmc_status sosmc_solver_step(sosmc_solver *s)
{
    STANDARD_ARITHMETIC;
    if (!s->ready || s->failed) return s->failed;
    if (s->inside) /* a callback that did not come back, or calls the solver that called it */
        return sosmc_i_solver_fail(s, SOSMC_EINVAL,
                                   "a step was called inside a step, or a step before it was left by a jump");
    if (sosmc_i_crew_lost(s->helpers))
        return sosmc_i_solver_fail(s, SOSMC_EINVAL,
                                   "this process was forked from the one that has the solver's threads");
    if (s->v.phase == SOSMC_PHASE_DONE) return SOSMC_OK;
    s->inside = 1;
    sosmc_status status = try_step(s);
    s->inside = 0;
    sosmc_i_solver_note(s);
    return status;
}

sosmc_status sosmc_solver_run(sosmc_solver *s)
{
    if (!s->ready) return s->failed;
    while (s->v.phase != SOSMC_PHASE_DONE) {
        if (s->o.seconds > 0 && s->v.seconds >= s->o.seconds) return SOSMC_OK;
        if (s->o.evaluations > 0 && s->v.evaluations >= s->o.evaluations) return SOSMC_OK;
        sosmc_status status = sosmc_solver_step(s);
        if (status == SOSMC_STOPPED && s->o.seconds > 0 && s->v.seconds >= s->o.seconds) return SOSMC_OK;
        if (status != SOSMC_OK) return status;
        if (s->o.see && s->o.see(s->o.see_ctx, s, &s->info)) return SOSMC_STOPPED;
    }
    return SOSMC_OK;
}

void sosmc_solver_limits(sosmc_solver *s, double seconds, int64_t evaluations)
{
    s->o.seconds = seconds;
    s->o.evaluations = evaluations;
}

sosmc_status sosmc_solve(sosmc_solution *out, const sosmc_problem *problem, const sosmc_solve_options *options)
{
    sosmc_solver *s = NULL;
    *out = (sosmc_solution){.finished = 0};
    sosmc_status status = sosmc_solver_create(&s, problem, options);
    if (status == SOSMC_OK) status = sosmc_solver_run(s);
    sosmc_status told = s ? sosmc_i_answer(s, out) : SOSMC_ENOMEM;
    sosmc_solver_free(s);
    return status != SOSMC_OK ? status : told;
}

sosmc_status sosmc_solve_check(const sosmc_problem *problem, const sosmc_solve_options *options,
                               sosmc_check_report *report)
{
    enum { FEW = 256, QUICK = 200000, LONG = 1000000 };
    sosmc_solution r;
    sosmc_status status = sosmc_check(problem, NULL, NULL, report);
    if (status != SOSMC_OK || report->failed) return status;
    for (int few = 1;; few = 0) { /* few particles never speak against a problem that more of them solve */
        sosmc_solve_options o = options ? *options : (sosmc_solve_options){.seed = 0};
        const int64_t most = few ? QUICK : LONG;
        if (few && (o.particles == 0 || o.particles > FEW)) o.particles = FEW;
        if (o.evaluations == 0 || o.evaluations > most) o.evaluations = most;
        status = sosmc_solve(&r, problem, &o);
        if (!few || (status != SOSMC_OK && status != SOSMC_ENUMERIC) || r.judgement.verdict.status == SOSMC_CONVERGED)
            break;
        sosmc_solution_free(&r);
    }
    const sosmc_verdict_words *v = &r.judgement.verdict;
    const int verdict = status == SOSMC_EINVAL          ? SOSMC_CHECK_SKIP
                        : v->status == SOSMC_RUN_FAILED ? SOSMC_CHECK_FAIL
                        : !r.finished                   ? SOSMC_CHECK_UNKNOWN
                        : v->status == SOSMC_CONVERGED  ? SOSMC_CHECK_OK
                                                        : SOSMC_CHECK_NOTE;
    char solved[80] = "";
    if (status != SOSMC_EINVAL)
        (void)snprintf(solved, sizeof solved, "%swith %d particles and %.2g evaluations%s", v->reasons ? "" : "solved ",
                       r.judgement.measured.particles, (double)r.info.evaluations, v->reasons ? ": " : "");
    for (int i = 0; i < v->reasons || i == 0; i++) {
        sosmc_check_item item = {"verdict", verdict, .value = NAN, .error = NAN, .limit = NAN, .coordinate = -1};
        (void)snprintf(item.sentence, sizeof item.sentence, "%s%s", solved, v->reasons ? v->reason[i] : "");
        report->item[report->count++] = item;
    }
    report->failed += verdict == SOSMC_CHECK_FAIL;
    sosmc_solution_free(&r);
    return status == SOSMC_EINVAL || status == SOSMC_ENOMEM ? status : SOSMC_OK;
}

void sosmc_solution_free(sosmc_solution *r) { sosmc_judgement_free(&r->judgement); }

sosmc_status sosmc_solver_solution(const sosmc_solver *s, sosmc_solution *out) { return sosmc_i_answer(s, out); }

/* ---------------------------------------------------------------------------- views */

const sosmc_solve_info *sosmc_solver_info(const sosmc_solver *s) { return &s->info; }
const char *sosmc_solver_message(const sosmc_solver *s) { return s ? s->message : "there is not enough memory"; }
const double *sosmc_solver_theta(const sosmc_solver *s)
{
    if (s->network && s->v.phase < SOSMC_PHASE_JUDGE && s->v.averaged > 0) return s->average;
    return s->v.phase >= SOSMC_PHASE_JUDGE ? s->answer : s->theta;
}
int sosmc_solver_particles(const sosmc_solver *s) { return s->n; }

sosmc_status sosmc_solver_cloud(const sosmc_solver *s, double *x, double *logw)
{
    if (!s->ready) return s->failed;
    const cloud *c = &s->c[SEARCHED];
    for (int tile = 0; x && tile < s->tiles; tile++)
        sosmc_i_to_rows(s->dim, s->at.ld, tile_count(s, tile), c->x + (size_t)tile * s->vector,
                        x + (size_t)tile_first(s, tile) * (size_t)s->dim);
    if (x) sosmc_i_to_x(&s->problem.model, s->n, x);
    if (!logw) return SOSMC_OK;
    double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
    for (int i = 0; i < s->n; i++) logw[i] = c->logw[i] - total;
    return SOSMC_OK;
}
