/* learn.c: the search for networks (docs/trust.md, maths.md LEARN).
 *
 * With thousands of parameters there is no Hessian, and what a cloud sees of the loss is mostly its own noise. So theta goes in Adam's
 * direction at a rate, by a batch of the data and the whole cloud; the cloud is weighed, resampled as a whole, moved, and jumps. What
 * counts is an exponential average of theta. Every so many updates its loss is measured on rows and with fresh particles that never
 * steered theta, by the same random numbers every time: where it has hardly fallen the rate is cut, and where the rate has been cut often enough the
 * search ends. The answer is the average with the smallest of these losses.
 *
 * Invariant: sums over particles run by shares of fixed tiles, so nothing depends on threads. */
#include <math.h>

#include "base/table.h"
#include "solve_inside.h"

enum { CHECKED_EVERY = 50, MOST_UPDATES = 20000, MOST_CUTS = 4, MOST_MOVES = 8, FITTED_EVERY = 5, PLANE = 2 };
enum { BATCH = 1024, FRESH_DRAWS = 65536, FRESH_TEMPERED = 8192, PATIENCE = 3, PASS_OF_CHECK = 900, PASS_MOVES = 2 };
static const double RATE = 8e-3, CUT = 0.25, AVERAGE = 0.95, LITTLE = 1e-3, FIRST_WALK = 0.01;
static const double PLAIN = 0.5; /* the largest Pareto index of weights that are used as they are */

const char *sosmc_i_learn_refused(const sosmc_problem *problem)
{
    const sosmc_objective *o = &problem->objective;
    if (o->loss != SOSMC_LOSS_LIKELIHOOD || o->score.eval || o->kl != 0)
        return "the solver takes only the likelihood of data";
    if (!o->data.row || o->data.rows < 1) return "the solver needs data that are rows";
    if (o->data.rows > INT32_MAX) return "the solver takes at most 2^31 - 1 rows";
    if (problem->model.dim_x > FULL) return "the solver takes at most 200 coordinates";
    if (problem->model.no_gx) return "the solver needs dU/dx";
    return NULL;
}

/* ---------------------------------------------------------------------------- the gradient */

typedef struct {
    sosmc_solver *s;
    int64_t first; /* tile of the data */
    int batch;     /* points in it */
} contracting;

static int64_t batch_tile(const sosmc_solver *s, int64_t first, int k) { return (first + k) % s->fit_tiles; }

static sosmc_status contract_share(void *ctx, int task, int worker)
{
    const contracting *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = &s->problem.model;
    const sosmc_objective *o = &s->problem.objective;
    double *sum = s->shares + (size_t)task * (size_t)s->p, *row = sosmc_i_solver_row(s, worker, ROW_ENERGY);
    memset(sum, 0, (size_t)s->p * sizeof(double));
    if (task >= SHARES) {
        sosmc_batch b = sosmc_i_learn_batch(s, worker, batch_tile(s, v->first, task - SHARES));
        row = host_room(&s->data, worker);
        for (int i = 0; i < b.n; i++) row[i] = o->scale * o->b / v->batch;
        return m->grad_theta(m->self, s->theta, &b, row, sum) ? SOSMC_EMODEL : SOSMC_OK;
    }
    for (int tile = task * s->tiles / SHARES; tile < (task + 1) * s->tiles / SHARES; tile++) {
        sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
        b.x = tile_of(s, s->c[SEARCHED].x, tile);
        for (int i = 0; i < b.n; i++) row[i] = o->scale * o->a * s->c[SEARCHED].w[b.first + i];
        if (m->grad_theta(m->self, s->theta, &b, row, sum)) return SOSMC_EMODEL;
    }
    return SOSMC_OK;
}

/* The gradient, in the first row of s->shares. */
static sosmc_status gradient(sosmc_solver *s)
{
    contracting v = {.s = s, .first = s->v.updates * s->batch_tiles % s->fit_tiles};
    size_t p = (size_t)s->p;
    for (int k = 0; k < s->batch_tiles; k++) v.batch += sosmc_i_learn_batch(s, 0, batch_tile(s, v.first, k)).n;
    sosmc_status status = sosmc_i_host_move(&s->data, s->theta);
    if (status == SOSMC_OK) status = sosmc_i_parallel(s->helpers, contract_share, &v, SHARES + s->batch_tiles);
    if (status != SOSMC_OK) return status;
    s->v.contractions += s->n + v.batch;
    for (int k = 1; k < SHARES + s->batch_tiles; k++)
        for (size_t j = 0; j < p; j++) s->shares[j] += s->shares[(size_t)k * p + j];
    return SOSMC_OK;
}

static sosmc_status update(sosmc_solver *s)
{
    sosmc_optimiser adam = sosmc_adam(s->v.rate);
    size_t p = (size_t)s->p;
    adam.step(&adam, s->v.updates, s->p, s->shares, s->theta, s->slots);
    for (size_t j = 0; j < p; j++) {
        if (s->o.low < s->o.high) s->theta[j] = fmin(fmax(s->theta[j], s->o.low), s->o.high);
        if (!isfinite(s->theta[j]))
            return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "update %lld made theta[%zu] %g", (long long)s->v.updates, j,
                                       s->theta[j]);
    }
    double keep = fmin(AVERAGE, (double)s->v.averaged / (double)(s->v.averaged + 1)); /* a plain mean at first */
    for (size_t j = 0; j < p; j++) s->average[j] = keep * s->average[j] + (1 - keep) * s->theta[j];
    s->v.averaged++;
    return sosmc_i_host_move(&s->at, s->theta);
}

/* ---------------------------------------------------------------------------- the cloud */

/* Weighs the cloud at the new theta. */
static sosmc_status reweigh(sosmc_solver *s)
{
    cloud *c = &s->c[SEARCHED];
    memcpy(s->value, c->U, (size_t)s->n * sizeof(double));
    sosmc_status status = sosmc_i_solver_evaluate(s, c, &s->at, s->theta, !s->m.walk);
    if (status != SOSMC_OK) return status;
    double squares = 0, first = 0;
    for (int i = 0; i < s->n; i++) {
        double more = s->value[i] - c->U[i];
        c->logw[i] = isfinite(more) ? c->logw[i] + more : -INFINITY;
    }
    double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
    if (!isfinite(total)) return sosmc_i_solver_fail(s, SOSMC_ENUMERIC, "no particle has weight any more");
    for (int i = 0; i < s->n; i++) { /* (sum w v)^2 / sum w v^2, with the weights of before in c->w */
        c->logw[i] -= total;
        double w = c->w[i], next = c->logw[i] > -700 ? sosmc_i_exp1(NULL, c->logw[i]) : 0;
        first += next;
        if (w > 0) squares += next * next / w;
    }
    s->v.cess = squares > 0 ? first * first / squares : 0;
    return SOSMC_OK;
}

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

/* ---------------------------------------------------------------------------- the end of the search */

/* A pass at the average: importance draws where these are good enough, else fewer particles that are tempered. */
static sosmc_status fresh_pass(sosmc_solver *s, pass_cloud *p)
{
    preconditioner c = s->m.c[0];
    c.gradient = !s->m.walk;
    pass_task task = {.model = &s->problem.model,
                      .theta = s->average,
                      .q = &s->q[0],
                      .c = &c,
                      .simd = s->simd,
                      .particles = FRESH_DRAWS,
                      .threads = s->at.workers,
                      .moves = PASS_MOVES,
                      .plain = PLAIN,
                      .only_plain = 1,
                      .seed = s->o.seed,
                      .number = PASS_OF_CHECK};
    sosmc_status status = sosmc_i_pass(&task, p);
    s->v.evaluations += p->n;
    if (status != SOSMC_OK || p->arrived >= 1) return status;
    sosmc_i_pass_free(p);
    task.plain = task.only_plain = 0;
    task.particles = FRESH_TEMPERED;
    status = sosmc_i_pass(&task, p);
    s->v.evaluations += (int64_t)p->n * (1 + (int64_t)p->temperatures * task.moves);
    return status;
}

/* The loss of the average over the rows that only tell when to end, with fresh particles; *tempered: by the second kind of pass, which is less exact. */
static sosmc_status fresh_loss(sosmc_solver *s, double *loss, double *error, int64_t *tempered)
{
    const sosmc_objective *o = &s->problem.objective;
    double data = 0;
    pass_cloud p = {.n = 0};
    sosmc_status status = fresh_pass(s, &p);
    if (status == SOSMC_OK) status = sosmc_i_learn_check(s, s->average, &data);
    *tempered = p.temperatures > 0;
    *loss = *error = INFINITY;
    if (status == SOSMC_OK && p.arrived >= 1) {
        *loss = o->scale * (o->b * data - o->a * p.log_z);
        *error = fabs(o->a) * o->scale * sosmc_i_pass_error(&p, NULL, 1);
    }
    sosmc_i_pass_free(&p);
    return status;
}

/* Measures the average, keeps the best, and cuts the rate where it has gained little. Tempered losses scatter more than they fall
 * towards the end: there one that is not better says nothing, and PATIENCE of them in a row do. */
static sosmc_status look_afresh(sosmc_solver *s, int *done)
{
    plain *v = &s->v;
    double loss, error, before = v->best_loss;
    int64_t tempered;
    sosmc_status status = fresh_loss(s, &loss, &error, &tempered);
    if (status != SOSMC_OK) return status;
    if (tempered != v->tempered) before = NAN; /* two kinds of pass cannot be compared so closely */
    v->tempered = tempered;
    v->fresh_loss = loss;
    v->fresh_error = error;
    if (!(loss >= before)) {
        v->best_loss = loss;
        memcpy(s->answer, s->average, (size_t)s->p * sizeof(double));
    }
    if (isnan(before)) return SOSMC_OK;
    v->gain = before - loss;
    v->decrease += fmax(v->gain, 0);
    v->poor = v->gain < (s->o.precision > 0 ? s->o.precision : LITTLE) ? v->poor + 1 : 0;
    if (v->poor < (tempered ? PATIENCE : 1)) return SOSMC_OK;
    *done = v->cuts == MOST_CUTS;
    v->poor = 0;
    v->cuts++;
    v->rate *= CUT;
    return SOSMC_OK;
}

void sosmc_i_learn_begin(sosmc_solver *s)
{
    s->v.rate = RATE;
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
    sosmc_status status = gradient(s);
    if (status == SOSMC_OK) status = update(s);
    if (status == SOSMC_OK) status = reweigh(s);
    s->v.updates++;
    if (status == SOSMC_OK) status = move(s);
    if (status == SOSMC_OK && s->v.updates % CHECKED_EVERY == 0) status = look_afresh(s, done);
    if (status == SOSMC_OK && !*done && s->v.updates >= MOST_UPDATES) s->v.out_of_updates = *done = 1;
    return status;
}
