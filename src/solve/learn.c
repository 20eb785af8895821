/* learn.c: the search for networks (docs/trust.md, maths.md LEARN).
 *
 * With thousands of parameters there is no Hessian, and what a cloud sees of the loss is mostly its own noise. So theta goes in Adam's
 * direction at a rate, by a batch of points and the whole cloud, though not further than the cloud can be weighed; the cloud is weighed,
 * resampled as a whole, moved, and jumps. What counts is an exponential average of theta, and learn_check.c tells when it is good enough.
 *
 * The points are the rows of data, or for a reward draws of the reference and of the best of all densities, which is known: exp(-U_ref + R/beta).
 * There the derivative is that of the variance of s = R + beta (U - U_ref) under the cloud and the points together. Under the cloud
 * alone it is that of the loss; the points keep in sight what the network has lost, where the cloud has no particles that
 * would say so. At the best density s is constant, so that both are zero there, without noise.
 *
 * Invariant: sums over particles run by shares of fixed tiles, so nothing depends on threads. */
#include <math.h>

#include "base/table.h"
#include "solve_inside.h"

enum {
    CHECKED_EVERY = 50,
    MOST_UPDATES = 20000,
    MOST_MOVES = 8,
    MOST_TRIES = 6,
    FITTED_EVERY = 5,
    PLANE = 2,
    BATCH = 1024
};
static const double RATE = 8e-3, MEMORY = 0.99, AVERAGE = 0.95, FIRST_WALK = 0.01;
static const double LEAST_CESS = 0.8, LEAST_FACTOR = 0.05, A_LITTLE_LESS = 0.95;
static const double FROM_CLOUD = 0.5; /* of a reward's derivative; the rest is from points */

const char *sosmc_i_learn_refused(const sosmc_problem *problem)
{
    const sosmc_objective *o = &problem->objective;
    int fits = o->loss == SOSMC_LOSS_LIKELIHOOD && !o->score.eval && o->kl == 0;
    int rewards = o->loss == SOSMC_LOSS_REVERSE_KL && o->score.eval && o->kl > 0 && o->b == 0;
    if (!fits && !rewards)
        return "the solver takes only the likelihood of data and rewards with a reverse divergence of positive weight";
    if (fits && (!o->data.row || o->data.rows < 1)) return "the solver needs data that are rows";
    if (fits && o->data.rows > INT32_MAX) return "the solver takes at most 2^31 - 1 rows";
    if (fits && sosmc_i_first_bound(&problem->model) >= 0)
        return "the solver takes no bounds of x with the likelihood of data";
    if (rewards && !problem->init.draw) return "the solver needs an initial law";
    if (problem->model.dim_x > FULL) return "the solver takes at most 200 coordinates";
    if (problem->model.no_gx) return "the solver needs dU/dx";
    return NULL;
}

/* ---------------------------------------------------------------------------- the gradient */

typedef struct {
    sosmc_solver *s;
    int64_t first; /* tile of the points */
    int batch;     /* points in it */
} contracting;

static sosmc_batch batch_of(const contracting *v, int worker, int k)
{
    return sosmc_i_learn_batch(v->s, worker, (v->first + k) % v->s->fit_tiles);
}

/* With the coefficients of particles in s->value and of points in s->data_U. */
static sosmc_status contract_share(void *ctx, int task, int worker)
{
    const contracting *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = &s->problem.model;
    double *sum = s->shares + (size_t)task * (size_t)s->p, *row = sosmc_i_solver_row(s, worker, ROW_ENERGY);
    memset(sum, 0, (size_t)s->p * sizeof(double));
    if (task >= SHARES) {
        sosmc_batch b = batch_of(v, worker, task - SHARES);
        row = host_room(&s->data, worker);
        memcpy(row, s->data_U + b.first, (size_t)b.n * sizeof(double));
        return m->grad_theta(m->self, s->theta, &b, row, sum) ? SOSMC_EMODEL : SOSMC_OK;
    }
    for (int tile = task * s->tiles / SHARES; tile < (task + 1) * s->tiles / SHARES; tile++) {
        sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
        b.x = tile_of(s, s->c[SEARCHED].x, tile);
        memcpy(row, s->value + b.first, (size_t)b.n * sizeof(double));
        if (m->grad_theta(m->self, s->theta, &b, row, sum)) return SOSMC_EMODEL;
    }
    return SOSMC_OK;
}

/* Of data: the particles by their weights, the points equally. */
static void weigh_fit(const contracting *v)
{
    const sosmc_solver *s = v->s;
    const sosmc_objective *o = &s->problem.objective;
    for (int i = 0; i < s->n; i++) s->value[i] = o->scale * o->a * s->c[SEARCHED].w[i];
    for (int k = 0; k < s->batch_tiles; k++) {
        sosmc_batch b = batch_of(v, 0, k);
        for (int i = 0; i < b.n; i++) s->data_U[b.first + i] = o->scale * o->b / v->batch;
    }
}

/* Of a reward: each by how far its s is from the mean. */
static sosmc_status weigh_tuning(const contracting *v)
{
    sosmc_solver *s = v->s;
    const sosmc_objective *o = &s->problem.objective;
    const cloud *c = &s->c[SEARCHED];
    double mean = 0, reward = 0, of_points = (1 - FROM_CLOUD) / v->batch;
    sosmc_status status = sosmc_i_solver_rewards(s, &s->c[SEARCHED]);
    if (status == SOSMC_OK) status = sosmc_i_learn_energies(s, s->theta, v->first, s->batch_tiles);
    if (status != SOSMC_OK) return status;
    for (int i = 0; i < s->n; i++) {
        int there = c->w[i] > 0;
        if (there && !isfinite(c->R[i])) return sosmc_i_learn_no_reward(s, c->R[i]);
        s->value[i] = there ? c->R[i] + o->kl * (c->U[i] - c->Uref[i]) : 0;
        mean += FROM_CLOUD * c->w[i] * s->value[i];
        reward += there ? c->w[i] * c->R[i] : 0;
    }
    s->v.cloud_reward = reward;
    for (int k = 0; k < s->batch_tiles; k++) {
        sosmc_batch b = batch_of(v, 0, k);
        for (int i = 0; i < b.n; i++) {
            double *U = &s->data_U[b.first + i];
            *U = s->data_s[b.first + i] + o->kl * *U;
            mean += of_points * *U;
        }
    }
    for (int i = 0; i < s->n; i++) s->value[i] = o->scale * FROM_CLOUD * c->w[i] * (s->value[i] - mean);
    for (int k = 0; k < s->batch_tiles; k++) {
        sosmc_batch b = batch_of(v, 0, k);
        for (int i = 0; i < b.n; i++) s->data_U[b.first + i] = o->scale * of_points * (s->data_U[b.first + i] - mean);
    }
    return SOSMC_OK;
}

/* The gradient, in the first row of s->shares. */
static sosmc_status gradient(sosmc_solver *s)
{
    contracting v = {.s = s, .first = s->v.updates * s->batch_tiles % s->fit_tiles};
    size_t p = (size_t)s->p;
    for (int k = 0; k < s->batch_tiles; k++) v.batch += batch_of(&v, 0, k).n;
    sosmc_status status = sosmc_i_host_move(&s->data, s->theta);
    if (status == SOSMC_OK && tunes(s)) status = weigh_tuning(&v);
    if (status == SOSMC_OK && !tunes(s)) weigh_fit(&v);
    if (status == SOSMC_OK) status = sosmc_i_parallel(s->helpers, contract_share, &v, SHARES + s->batch_tiles);
    if (status != SOSMC_OK) return status;
    s->v.contractions += s->n + v.batch;
    for (int k = 1; k < SHARES + s->batch_tiles; k++)
        for (size_t j = 0; j < p; j++) s->shares[j] += s->shares[(size_t)k * p + j];
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the update */

/* The cloud's log-weights at theta, where its energies were s->value, into s->accepted; the conditional effective sample size, a share. */
static double weigh_cloud(const sosmc_solver *s)
{
    const cloud *c = &s->c[SEARCHED];
    double squares = 0, first = 0;
    for (int i = 0; i < s->n; i++) {
        double more = s->value[i] - c->U[i];
        s->accepted[i] = isfinite(more) ? c->logw[i] + more : -INFINITY;
    }
    double total = sosmc_i_log_sum(s->simd, s->n, s->accepted, s->scratch);
    if (!isfinite(total)) return 0;
    for (int i = 0; i < s->n; i++) { /* (sum w v)^2 / sum w v^2, with the weights of before in c->w */
        s->accepted[i] -= total;
        double w = c->w[i], next = s->accepted[i] > -700 ? sosmc_i_exp1(NULL, s->accepted[i]) : 0;
        first += next;
        if (w > 0) squares += next * next / w;
    }
    return squares > 0 ? first * first / squares : 0;
}

static sosmc_status hold(sosmc_solver *s)
{
    for (size_t j = 0; j < (size_t)s->p; j++) {
        if (s->o.low < s->o.high) s->theta[j] = fmin(fmax(s->theta[j], s->o.low), s->o.high);
        if (!isfinite(s->theta[j]))
            return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "update %lld made theta[%zu] %g", (long long)s->v.updates, j,
                                       s->theta[j]);
    }
    return sosmc_i_host_move(&s->at, s->theta);
}

/* Theta in Adam's direction, and shorter while the conditional effective sample size would fall too low; the cloud is weighed there. */
static sosmc_status update(sosmc_solver *s)
{
    sosmc_optimiser adam = sosmc_adam(s->v.rate);
    cloud *c = &s->c[SEARCHED];
    size_t p = (size_t)s->p;
    double *before = s->shares + p; /* the gradient is in the first row alone */
    adam.beta2 = MEMORY;
    memcpy(before, s->theta, p * sizeof(double));
    memcpy(s->value, c->U, (size_t)s->n * sizeof(double));
    adam.step(&adam, s->v.updates, s->p, s->shares, s->theta, s->slots);
    for (int tries = 0;; tries++) {
        sosmc_status status = hold(s);
        if (status == SOSMC_OK) status = sosmc_i_solver_evaluate(s, c, &s->at, s->theta, !s->m.walk);
        if (status != SOSMC_OK) return status;
        s->v.cess = weigh_cloud(s);
        if (s->v.cess >= LEAST_CESS || tries == MOST_TRIES) break;
        double shorter = fmax(A_LITTLE_LESS * sqrt((1 - LEAST_CESS) / (1 - s->v.cess)), LEAST_FACTOR);
        for (size_t j = 0; j < p; j++) s->theta[j] = before[j] + shorter * (s->theta[j] - before[j]);
    }
    if (!(s->v.cess > 0)) return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "no particle has weight any more");
    memcpy(c->logw, s->accepted, (size_t)s->n * sizeof(double));
    double keep = fmin(AVERAGE, (double)s->v.averaged / (double)(s->v.averaged + 1)); /* a plain mean at first */
    for (size_t j = 0; j < p; j++) s->average[j] = keep * s->average[j] + (1 - keep) * s->theta[j];
    s->v.averaged++;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the cloud */

/* Jumps: proposals from the law of the fresh particles, whatever the particle is, so that parts of the law between which nothing
 * walks keep their shares. The law is fitted to the data, never to the cloud. */
typedef struct {
    sosmc_solver *s;
    sosmc_rng draw, accept;
    int64_t
        shift; /* which component a particle's proposal has: drawn once for all, so that they come in their proportions */
} jumping;

static void propose_jumps(const jumping *v, const sosmc_batch *b, const double *z, double *stretch, double *y)
{
    const sosmc_solver *s = v->s;
    for (int i = 0; i < b->n; i++) stretch[i] = 1;
    for (int i = 0, count; i < b->n; i += count) {
        sosmc_batch some = *b;
        some.first = (b->first + i + v->shift) % s->n;
        count = some.n = (int)fmin(b->n - i, (double)(s->n - some.first));
        sosmc_i_laws_draw(&s->q[0], &some, s->n, z + i, stretch, y + i);
    }
}

static sosmc_status jump_tile(void *ctx, int tile, int worker)
{
    const jumping *v = ctx;
    sosmc_solver *s = v->s;
    cloud *c = &s->c[SEARCHED];
    sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
    double *z = sosmc_i_solver_vector(s, worker, VECTOR_STEP), *y = sosmc_i_solver_vector(s, worker, VECTOR_PLACE);
    double *gy = s->m.walk ? NULL : sosmc_i_solver_vector(s, worker, VECTOR_GRADIENT);
    double *U = sosmc_i_solver_row(s, worker, ROW_ENERGY), *Lx = sosmc_i_solver_row(s, worker, ROW_LAW);
    double *u = sosmc_i_solver_row(s, worker, ROW_UNIFORM), *other = sosmc_i_solver_row(s, worker, ROW_OTHER);
    double *x = tile_of(s, c->x, tile), *g = tile_of(s, c->g, tile), *work = s->room + (size_t)worker * s->room_each;
    size_t ld = (size_t)b.ld;
    sosmc_normals(v->draw, &b, z);
    propose_jumps(v, &b, z, other, y);
    s->code->energies(&s->q[0], b.n, b.ld, x, Lx, NULL, work);
    s->code->energies(&s->q[0], b.n, b.ld, y, U, NULL, work);
    for (int i = 0; i < b.n; i++) Lx[i] = U[i] - Lx[i];
    b.x = y;
    if (sosmc_i_solver_energy(s, s->theta, &b, U, gy, other)) return SOSMC_EMODEL;
    sosmc_uniforms(v->accept, 0, &b, u);
    for (int i = 0; i < b.n; i++) other[i] = fmin(c->U[b.first + i] - U[i] + Lx[i], 0);
    sosmc_exp(s->simd, b.n, other, other);
    for (int i = 0; i < b.n; i++) {
        s->accepted[b.first + i] = isnan(other[i]) ? 0 : other[i];
        if (!(u[i] <= s->accepted[b.first + i])) continue;
        c->U[b.first + i] = U[i];
        for (size_t j = 0; j < (size_t)b.dim; j++) {
            x[j * ld + (size_t)i] = y[j * ld + (size_t)i];
            if (gy) g[j * ld + (size_t)i] = gy[j * ld + (size_t)i];
        }
    }
    return SOSMC_OK;
}

static sosmc_status jump(sosmc_solver *s, double *accepted)
{
    jumping v = {.s = s, .draw = sosmc_i_solver_name(s, STREAM_LAW), .accept = sosmc_i_solver_name(s, STREAM_ACCEPT)};
    double u, mean = 0;
    sosmc_batch one = {.simd = s->simd, .dim = 1, .n = 1, .ld = 1};
    sosmc_uniforms(sosmc_i_solver_name(s, STREAM_STRETCH), 0, &one, &u);
    v.shift = (int64_t)fmin(floor(u * s->n), s->n - 1);
    sosmc_status status = sosmc_i_parallel(s->helpers, jump_tile, &v, s->tiles);
    s->v.evaluations += s->n;
    for (int i = 0; i < s->n; i++) mean += s->c[SEARCHED].w[i] * s->accepted[i];
    *accepted = mean;
    return status;
}

static sosmc_status move(sosmc_solver *s)
{
    cloud *c = &s->c[SEARCHED];
    sosmc_status status = sosmc_i_solver_resample_all(s, c);
    if (status == SOSMC_OK && !s->m.walk && s->v.updates % FITTED_EVERY == 0)
        status = sosmc_i_metric_fit(s, &s->m, c, ALL, 1);
    if (status == SOSMC_OK) status = sosmc_i_solver_move(s, c, ALL, &s->m, 1, (int)s->v.moves, 1);
    if (status == SOSMC_OK) status = jump(s, &s->v.jumped);
    if (status != SOSMC_OK) return status;
    double wanted = sosmc_i_moves_wanted(s->v.mobility);
    s->v.moves_wanted = wanted;
    s->v.moves = s->m.walk ? 1 : (int64_t)fmin(fmax(ceil(wanted), 1), MOST_MOVES);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- a step */

void sosmc_i_learn_begin(sosmc_solver *s)
{
    s->v.rate = RATE;
    s->v.first_excess = s->v.excess = s->v.excess_error = s->v.marked = s->v.cloud_reward = NAN;
    memcpy(s->average, s->theta, (size_t)s->p * sizeof(double));
    int64_t tiles = BATCH / s->data.tile;
    s->batch_tiles = (int)fmin(fmax((double)tiles, 1), fmin(BATCH_TILES, s->fit_tiles));
}

/* In the plane particles walk, in units of the width of the data; beyond, they move along the slope. */
static void begin_walk(sosmc_solver *s)
{
    s->m.walk = 1;
    s->m.h = FIRST_WALK;
    for (int half = 0; half < 2; half++) {
        s->m.c[half].diagonal = 1;
        for (int j = 0; j < s->dim; j++) {
            s->m.inverse[half][j] = sosmc_i_learn_width(s, j);
            s->m.c[half].C[j] = 1 / s->m.inverse[half][j];
        }
    }
}

sosmc_status sosmc_i_learn_step(sosmc_solver *s, int *done)
{
    cloud *c = &s->c[SEARCHED];
    *done = 0;
    if (s->v.updates == 0 && s->dim <= PLANE) begin_walk(s);
    if (sosmc_i_solver_weights(s, c, ALL) == 0)
        return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "no particle has weight any more");
    sosmc_status status = s->v.updates == 0 ? sosmc_i_learn_look(s, done) : SOSMC_OK;
    if (status != SOSMC_OK || *done) return status;
    status = gradient(s);
    if (status == SOSMC_OK) status = update(s);
    s->v.updates++;
    if (status == SOSMC_OK) status = move(s);
    if (status == SOSMC_OK && s->v.updates % CHECKED_EVERY == 0) status = sosmc_i_learn_look(s, done);
    if (status == SOSMC_OK && !*done && s->v.updates >= MOST_UPDATES) s->v.out_of_updates = *done = 1;
    return status;
}
