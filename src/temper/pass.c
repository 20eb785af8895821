/* pass.c: tempering from a law q with density to pi_theta (maths.md PASS, TEMPER).
 *
 *     V_t = (1 - t) (-log q) + t U,   t from 0 to 1, each next t such that the conditional effective sample size is a
 *     little above the one that is aimed at; weigh, resample below N/2, move by preconditioned MALA.
 *
 * With a tilt a second leg follows, from U to U - R/beta, whose moves have the gradient of U and, where coordinates are fitted, a line
 * for that of R: the Metropolis test makes them right for any R.
 *
 * Particles are kept in tiles as the model sees them. They carry both energies, so trying a t costs no evaluation. log Z is absolute, because q is normalised. Every particle
 * knows its first ancestor; the classes of equal ancestors are independent at the start, and their scatter is the error. Where the
 * coordinates of the moves are not given, the particles live in two halves that never mix, and each half moves in coordinates that are
 * fitted on the other. Invariant: random numbers are named by pass, temperature, move and particle, sums run over particles in
 * order. */
#include "pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scores.h"
#include "base/table.h"
#include "base/tiles.h"
#include "pass_run.h"

enum { STREAM_DRAW = 16, STREAM_MOVE, STREAM_ACCEPT, STREAM_RESAMPLE }; /* between the engine's and a user's */
enum { MOST_TEMPERATURES = 2000, MOST_DOF = 256 };
static const double TARGET = 0.9, ACCEPTANCE = 0.57, ACCEPTANCE_LEAPS = 0.7, ACCEPTANCE_WALK = 0.3, LARGEST_STEP = 4,
                    QUARTER_TURN = 1.5707963267948966;
/* Of the next increment: so much less than allowed is near enough, and that is aimed at. */
static const double NEAR = 0.95, AIM = 0.975;

extern const tile_code sosmc_i_tile_plain;
#if defined(SOSMC_HAVE_X86_LEVELS)
extern const tile_code sosmc_i_tile_avx2, sosmc_i_tile_avx512;
#endif

const tile_code *sosmc_i_tile_code(const sosmc_simd *simd) { return SIMD_CHOOSE(simd, sosmc_i_tile); }

/* The room of a worker: vectors, then rows. */
enum { STEP, SLOPE, PLACE, GRADIENT, LAW_GRADIENT, VECTORS };
enum { ENERGY, LAW_ENERGY, UNIFORM, REWARD, KINETIC, ROWS };

/* ---------------------------------------------------------------------------- names of random numbers */

static sosmc_rng name(const pass_run *s, uint32_t stream, uint64_t step)
{
    return (sosmc_rng){.seed = s->task->seed, .step = s->task->number << 40 | step, .stream = stream};
}

/* ---------------------------------------------------------------------------- tiles */

static int tiles(const pass_run *s) { return sosmc_i_pass_tiles(s); }

/* The half that a particle lives in, and the coordinates of its moves. */
static int half_of(const pass_run *s, int64_t particle) { return particle >= s->cut; }
static const preconditioner *coordinates_of(const pass_run *s, int half)
{
    return s->task->c ? s->task->c : &s->own[half];
}

static tile_points points_of(const pass_run *s, int task)
{
    size_t at = (size_t)task * s->h.vector, first = (size_t)task * (size_t)s->h.tile;
    return (tile_points){
        .x = s->p->x + at, .gU = s->gU + at, .gq = s->gq + at, .U = s->p->U + first, .Lq = s->Lq + first};
}

static double *vector_of(const pass_run *s, int worker, int which)
{
    return host_room(&s->h, worker) + (size_t)which * s->h.vector;
}
static double *row_of(const pass_run *s, int worker, int which)
{
    return vector_of(s, worker, VECTORS) + (size_t)which * s->h.row;
}
/* A worker's room for what a tile may be replaced by. */
static tile_points points_to(const pass_run *s, int worker)
{
    return (tile_points){.x = vector_of(s, worker, PLACE),
                         .gU = vector_of(s, worker, GRADIENT),
                         .gq = vector_of(s, worker, LAW_GRADIENT),
                         .U = row_of(s, worker, ENERGY),
                         .Lq = row_of(s, worker, LAW_ENERGY)};
}
static double *work_of(const pass_run *s, int worker) { return s->room + (size_t)worker * s->room_each; }

/* The second leg: from U to U - R/beta. Both ends have the gradient of U. */
static sosmc_status tilt(const pass_run *s, const sosmc_batch *b, int worker, const tile_points *p)
{
    double *R = row_of(s, worker, REWARD), per = 1 / s->task->beta;
    if (s->task->score->eval(s->task->score->self, b, R)) return SOSMC_EMODEL;
    for (int i = 0; i < b->n; i++) {
        p->Lq[i] = p->U[i];
        p->U[i] = p->Lq[i] < INFINITY && isfinite(R[i]) ? p->Lq[i] - per * R[i] : INFINITY;
    }
    if (s->gradient) memcpy(p->gq, p->gU, s->h.vector * sizeof(double));
    return SOSMC_OK;
}

/* Energies and, where somebody uses them, gradients of the points, at both ends of the path. */
static sosmc_status evaluate(pass_run *s, sosmc_batch *b, int worker, const tile_points *p)
{
    const sosmc_model *m = s->task->model;
    double *U = row_of(s, worker, ENERGY);
    b->x = p->x;
    if (m->energy(m->self, s->task->theta, b, U, s->gradient ? p->gU : NULL)) return SOSMC_EMODEL;
    for (int i = 0; i < b->n; i++) p->U[i] = U[i] < INFINITY ? U[i] : INFINITY; /* no number is a density of zero */
    if (s->leg > 0) return tilt(s, b, worker, p);
    s->code->energies(s->task->q, b->n, b->ld, p->x, p->Lq, s->gradient ? p->gq : NULL, work_of(s, worker));
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the start */

static double chi_square(const pass_run *s, int dof, int64_t particle)
{
    double z[MOST_DOF], sum = 0;
    sosmc_batch b = {.simd = s->h.simd, .dim = dof, .n = 1, .ld = 1, .first = particle};
    sosmc_normals(name(s, STREAM_DRAW, 1), &b, z);
    for (int k = 0; k < dof; k++) sum += z[k] * z[k];
    return sum;
}

static sosmc_status start_tile(void *ctx, int task, int worker)
{
    pass_run *s = ctx;
    const laws *q = s->task->q;
    tile_points at = points_of(s, task);
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->p->n);
    double *z = vector_of(s, worker, STEP), *stretch = row_of(s, worker, UNIFORM);
    int second = half_of(s, b.first);
    int64_t begin = second ? s->cut : 0, members = second ? s->p->n - s->cut : s->cut;
    sosmc_batch in_half = b; /* each half has all components of the law */
    in_half.first -= begin;
    sosmc_normals(name(s, STREAM_DRAW, 0), &b, z);
    for (int i = 0; i < b.n; i++) {
        int dof = q->part[sosmc_i_law_of(q, in_half.first + i, members)].dof;
        stretch[i] = dof > 0 ? sqrt(dof / chi_square(s, dof, b.first + i)) : 1;
    }
    sosmc_i_laws_draw(q, &in_half, members, z, stretch, at.x);
    return evaluate(s, &b, worker, &at);
}

/* ---------------------------------------------------------------------------- moves */

/* Half of the squared length of every particle's normals. */
static void kinetic_at_start(const sosmc_batch *b, const double *z, double *energy)
{
    memset(energy, 0, (size_t)b->n * sizeof(double));
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double v = z[(size_t)j * (size_t)b->ld + (size_t)i];
            energy[i] = fma(0.5 * v, v, energy[i]);
        }
}

/* A tile's move, as the steps of its trajectory see it. */
typedef struct {
    tile_move m;
    tile_points at, to;
    sosmc_batch b;
    double *step, *slope;
    int worker;
} tile_task;

/* The leapfrog steps behind the first; m.gain is then what the trajectory has lost of its kinetic energy. */
static sosmc_status go_on(pass_run *s, tile_task *t)
{
    double *gain = row_of(s, t->worker, KINETIC), *last = row_of(s, t->worker, UNIFORM), *work = work_of(s, t->worker);
    t->m.goes_on = 1;
    for (int k = 1; k < s->leaps; k++) {
        s->code->propose(&t->m, t->b.n, t->b.ld, &t->to, t->step, t->slope, t->to.x, work);
        if (evaluate(s, &t->b, t->worker, &t->to)) return SOSMC_EMODEL;
    }
    s->code->kinetic(&t->m, t->b.n, t->b.ld, &t->to, t->step, last, work);
    for (int i = 0; i < t->b.n; i++) gain[i] -= last[i];
    t->m.gain = gain;
    return SOSMC_OK;
}

static sosmc_status move_tile(void *ctx, int task, int worker)
{
    pass_run *s = ctx;
    int half = half_of(s, (int64_t)task * s->h.tile);
    const preconditioner *c = coordinates_of(s, half);
    const triangle C = {.dim = c->dim, .diagonal = c->diagonal, .factor = c->C, .inverse = s->inverse[half]};
    tile_task t = {
        .m = {.C = C, .gradient = s->gradient, .t = s->t, .h = s->step, .pull = s->leg > 0 ? s->pull[half] : NULL},
        .at = points_of(s, task),
        .to = points_to(s, worker),
        .b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->p->n),
        .step = vector_of(s, worker, STEP),
        .slope = vector_of(s, worker, SLOPE),
        .worker = worker};
    double *u = row_of(s, worker, UNIFORM);
    sosmc_normals(name(s, STREAM_MOVE, s->number), &t.b, t.step);
    if (s->leaps > 1) kinetic_at_start(&t.b, t.step, row_of(s, worker, KINETIC));
    s->code->propose(&t.m, t.b.n, t.b.ld, &t.at, t.step, t.slope, t.to.x, work_of(s, worker));
    if (evaluate(s, &t.b, worker, &t.to) || (s->leaps > 1 && go_on(s, &t))) return SOSMC_EMODEL;
    sosmc_uniforms(name(s, STREAM_ACCEPT, s->number), 0, &t.b, u);
    s->code->decide(&t.m, t.b.n, t.b.ld, &t.at, &t.to, t.step, t.slope, u, s->accepted + t.b.first, work_of(s, worker));
    return SOSMC_OK;
}

/* A jump of every particle of a tile. */
static sosmc_status jump_tile(void *ctx, int task, int worker)
{
    pass_run *s = ctx;
    tile_points at = points_of(s, task), to = points_to(s, worker);
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->p->n);
    double *u = row_of(s, worker, UNIFORM), *none = row_of(s, worker, KINETIC);
    const tile_move m = {.C = {.dim = b.dim}, .gradient = s->gradient, .t = s->t, .gain = none};
    memcpy(to.x, at.x, s->h.vector * sizeof(double));
    sosmc_i_jump(s->task->pool, name(s, STREAM_MOVE, s->number), &b, to.x);
    if (evaluate(s, &b, worker, &to)) return SOSMC_EMODEL;
    sosmc_uniforms(name(s, STREAM_ACCEPT, s->number), 0, &b, u);
    memset(none, 0, (size_t)b.n * sizeof(double));
    s->code->decide(&m, b.n, b.ld, &at, &to, NULL, NULL, u, s->accepted + b.first, work_of(s, worker));
    return SOSMC_OK;
}

static sosmc_status jump(pass_run *s)
{
    sosmc_status status = SOSMC_OK;
    for (int k = 0; k < s->task->jumps && status == SOSMC_OK; k++) {
        s->number++;
        status = sosmc_i_host_parallel(&s->h, jump_tile, s, tiles(s));
        s->p->evaluations += s->p->n;
    }
    return status;
}

/* In the coordinates of the moves a normal law has frequency 1: a trajectory of a quarter of a turn forgets where it began, one of
 * half a turn ends at the mirror image. */
static double largest_step(const pass_run *s)
{
    double length = QUARTER_TURN / s->leaps;
    return s->leaps > 1 ? 0.5 * length * length : LARGEST_STEP;
}

static sosmc_status move(pass_run *s, double *acceptance)
{
    const pass_cloud *p = s->p;
    double mean = 0, target = !s->gradient ? ACCEPTANCE_WALK : s->leaps > 1 ? ACCEPTANCE_LEAPS : ACCEPTANCE;
    s->number++;
    sosmc_status status = sosmc_i_host_parallel(&s->h, move_tile, s, tiles(s));
    if (status != SOSMC_OK) return status;
    for (int i = 0; i < p->n; i++) mean += p->w[i] * s->accepted[i]; /* dead particles say nothing about the step */
    *acceptance = mean;
    s->step = fmin(s->step * sosmc_i_exp1(NULL, mean - target), largest_step(s));
    s->p->evaluations += (int64_t)s->leaps * p->n;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- weights */

/* d = Lq - U; returns the largest. */
static double incremental(pass_run *s)
{
    const pass_cloud *p = s->p;
    double most = -INFINITY;
    for (int i = 0; i < p->n; i++) {
        s->d[i] = p->w[i] > 0 ? s->Lq[i] - p->U[i] : -INFINITY;
        if (s->d[i] > most) most = s->d[i];
    }
    return most;
}

/* sqrt(-log CESS) of an increment, which is nearly proportional to small ones; infinite or not a number where it is unknown. */
static double distance(const pass_run *s, double increment, double most)
{
    double sums[2];
    s->code->spread(s->p->n, s->p->w, s->d, increment, most, sums);
    return sqrt(fmax(0, -sosmc_i_log1(NULL, sums[0] * sums[0] / sums[1])));
}

/* The next t, in proportion from try to try, between the largest increment known to be allowed and the smallest known not to be;
 * halfway between the two where the proportion leads outside. */
static double next_temperature(pass_run *s)
{
    const double most = incremental(s), whole = 1 - s->t,
                 allowed = sqrt(-sosmc_i_log1(NULL, s->task->cess > 0 ? s->task->cess : TARGET));
    double low = 0, high = INFINITY, tried = s->increment > 0 ? fmin(whole, s->increment) : whole;
    for (int k = 0; k < 200 && high - low > (1 - NEAR) * low; k++) {
        double far = isfinite(most) ? distance(s, tried, most) : INFINITY;
        if (far <= allowed)
            low = tried;
        else
            high = tried;
        if (low == whole || (far <= allowed && far >= NEAR * allowed)) break;
        tried = fmin(whole, tried * (AIM * allowed / far));
        if (!(tried > low && tried < high)) tried = 0.5 * (low + high);
    }
    s->increment = low > 0 ? low : high;
    return low == whole ? 1 : s->t + s->increment;
}

/* Adds `increment` times d to the log-weights; normalises; log Z grows by the log of the weighted mean. */
static int weigh(pass_run *s, double increment)
{
    pass_cloud *p = s->p;
    double most = -INFINITY, total = 0;
    for (int i = 0; i < p->n; i++) {
        s->logw[i] = p->w[i] > 0 ? s->logw[i] + increment * s->d[i] : -INFINITY;
        if (s->logw[i] > most) most = s->logw[i];
    }
    if (!isfinite(most)) return -1;
    for (int i = 0; i < p->n; i++) p->w[i] = s->logw[i] - most;
    sosmc_exp(s->h.simd, p->n, p->w, p->w);
    for (int i = 0; i < p->n; i++) total += p->w[i];
    double log_total = most + sosmc_i_log1(NULL, total);
    for (int i = 0; i < p->n; i++) {
        p->w[i] /= total;
        s->logw[i] -= log_total;
    }
    p->log_z += log_total;
    return 0;
}

static double ess(const pass_cloud *p)
{
    double squares = 0;
    for (int i = 0; i < p->n; i++) squares += p->w[i] * p->w[i];
    return 1 / squares;
}

/* Where the first coordinate of a particle stands. */
static size_t place_of(const pass_run *s, int i)
{
    return (size_t)(i / s->h.tile) * s->h.vector + (size_t)(i % s->h.tile);
}

static void gather_tiles(const pass_run *s, double *x)
{
    size_t dim = (size_t)s->p->dim, ld = (size_t)s->h.ld;
    memcpy(s->keep, x, (size_t)tiles(s) * s->h.vector * sizeof(double));
    for (int i = 0; i < s->p->n; i++) {
        const double *from = s->keep + place_of(s, s->ancestor[i]);
        double *to = x + place_of(s, i);
        for (size_t j = 0; j < dim; j++) to[j * ld] = from[j * ld];
    }
}

static void gather(const pass_run *s, double *values)
{
    memcpy(s->spare, values, (size_t)s->p->n * sizeof(double));
    for (int i = 0; i < s->p->n; i++) values[i] = s->spare[s->ancestor[i]];
}

/* Ancestors of the particles from `first` to `end`, among themselves; their share of the weight stays theirs. */
static sosmc_status resample_half(pass_run *s, int half, int first, int end)
{
    pass_cloud *p = s->p;
    int n = end - first;
    double share = 0;
    for (int i = first; i < end; i++) share += p->w[i];
    if (n == p->n) share = 1;
    if (!(share > 0)) { /* a half that has died stays dead */
        for (int i = first; i < end; i++) s->ancestor[i] = i;
        return SOSMC_OK;
    }
    sosmc_rng rng = name(s, STREAM_RESAMPLE, (uint64_t)p->temperatures | (uint64_t)half << 32);
    sosmc_status status = sosmc_resample(SOSMC_SYSTEMATIC, rng, n, p->w + first, s->scratch, s->ancestor + first);
    if (status != SOSMC_OK) return status;
    double log_each = sosmc_i_log1(NULL, share) - sosmc_i_log1(NULL, (double)n);
    for (int i = first; i < end; i++) {
        s->ancestor[i] += first;
        p->w[i] = share / n;
        s->logw[i] = log_each;
    }
    return SOSMC_OK;
}

static sosmc_status resample(pass_run *s)
{
    pass_cloud *p = s->p;
    sosmc_status status = resample_half(s, 0, 0, s->cut);
    if (status == SOSMC_OK && s->cut < p->n) status = resample_half(s, 1, s->cut, p->n);
    if (status != SOSMC_OK) return status;
    gather_tiles(s, p->x);
    if (s->gradient) {
        gather_tiles(s, s->gU);
        gather_tiles(s, s->gq);
    }
    gather(s, p->U);
    gather(s, s->Lq);
    memcpy(s->eve, p->eve, (size_t)p->n * sizeof *s->eve);
    for (int i = 0; i < p->n; i++) p->eve[i] = s->eve[s->ancestor[i]];
    p->resamplings++;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the whole path */

/* No weight at any t outside the support. -1: nothing is left. */
static int drop_dead(pass_run *s)
{
    for (int i = 0; i < s->p->n; i++) s->d[i] = isfinite(s->p->U[i]) ? 0 : -INFINITY;
    return weigh(s, 1);
}

/* The reward where the first leg ends, and the tilted energies. */
static sosmc_status tilt_tile(void *ctx, int task, int worker)
{
    pass_run *s = ctx;
    tile_points at = points_of(s, task);
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)task * s->h.tile, s->p->n);
    b.x = at.x;
    sosmc_status status = tilt(s, &b, worker, &at);
    memcpy(s->p->R + b.first, row_of(s, worker, REWARD), (size_t)b.n * sizeof(double));
    return status;
}

/* The untilted law is reached: what it has is kept, and the path begins anew. */
static sosmc_status begin_tilt(pass_run *s)
{
    pass_cloud *p = s->p;
    s->leg = 1;
    s->t = s->increment = 0;
    sosmc_status status = sosmc_i_host_parallel(&s->h, tilt_tile, s, tiles(s));
    if (status != SOSMC_OK) return status;
    p->halfway_log_z = p->log_z;
    p->halfway_log_z_error = sosmc_i_pass_error(p, NULL, 1);
    p->halfway_reward = sosmc_i_pass_mean(p, p->R);
    p->halfway_reward_error = sosmc_i_pass_error(p, p->R, 0);
    p->halfway_spread = sosmc_i_pass_reward_spread(p);
    memset(p->halfway, 0, (size_t)p->n * sizeof(double));
    for (int i = 0; i < p->n; i++) p->halfway[p->eve[i]] += p->w[i];
    if (sosmc_i_pass_odd_reward(p)) return SOSMC_ENUMERIC;
    s->lost = drop_dead(s) != 0;
    return SOSMC_OK;
}

static void fit_coordinates(pass_run *s)
{
    if (s->task->c) return;
    for (int half = 0; half < 2; half++) sosmc_i_pass_fit(s, half);
}

sosmc_status sosmc_i_pass_step(pass_run *s)
{
    pass_cloud *p = s->p;
    double accepted = 0;
    if (s->t >= 1 && s->task->beta > 0 && s->leg == 0) {
        sosmc_status status = begin_tilt(s);
        if (status != SOSMC_OK || s->lost) return status;
    }
    double next = next_temperature(s);
    s->lost = weigh(s, next - s->t) || p->temperatures + 1 >= MOST_TEMPERATURES;
    if (s->lost) return SOSMC_OK;
    s->t = next;
    p->arrived = s->task->beta > 0 ? 0.5 * (next + s->leg) : next;
    p->temperatures++;
    p->ess = ess(p);
    sosmc_status status = p->ess < 0.5 * p->n ? resample(s) : SOSMC_OK;
    if (status != SOSMC_OK) return status;
    fit_coordinates(s);
    status = jump(s);
    if (status != SOSMC_OK) return status;
    for (int k = 0; k < s->task->moves; k++) {
        status = move(s, &accepted);
        if (status != SOSMC_OK) return status;
        s->accepted_sum += accepted;
        s->moves++;
    }
    p->acceptance = s->moves ? s->accepted_sum / (double)s->moves : NAN;
    return SOSMC_OK;
}

int sosmc_i_pass_over(const pass_run *s) { return s->lost || s->p->arrived >= 1; }

/* What the numbers need at the final particles: score, reference energy, D. */
static sosmc_status finish_tile(void *ctx, int task, int worker)
{
    pass_run *s = ctx;
    pass_cloud *p = s->p;
    const sosmc_model *m = s->task->model;
    size_t first = (size_t)task * (size_t)s->h.tile;
    sosmc_batch b = sosmc_i_host_batch(&s->h, worker, (int64_t)first, p->n);
    double *row = row_of(s, worker, ENERGY);
    b.x = points_of(s, task).x;
    if (p->R) {
        if (s->task->score->eval(s->task->score->self, &b, row)) return SOSMC_EMODEL;
        memcpy(p->R + first, row, (size_t)b.n * sizeof(double));
    }
    if (p->D) {
        double *scratch = work_of(s, worker), *D = scratch + sosmc_i_scores_scratch(m);
        if (sosmc_i_scores(m, s->task->theta, &b, scratch, D)) return SOSMC_EMODEL;
        sosmc_i_to_rows(p->dim_theta, b.ld, b.n, D, p->D + first * (size_t)p->dim_theta);
    }
    if (p->Uref) {
        sosmc_batch ref = sosmc_i_host_batch(&s->ref, worker, (int64_t)first, p->n);
        ref.x = b.x;
        if (m->energy(m->self, s->task->theta_ref, &ref, row, NULL)) return SOSMC_EMODEL;
        memcpy(p->Uref + first, row, (size_t)b.n * sizeof(double));
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- memory */

static double *part_of(double **memory, size_t doubles)
{
    double *p = *memory;
    *memory += (doubles + 7) / 8 * 8;
    return p;
}

/* Where the second half begins: behind half of the tiles; nowhere, where the coordinates are given. */
static int cut_of(const pass_run *s) { return s->task->c ? s->p->n : tiles(s) / 2 * s->h.tile; }

static size_t gradients_of(const pass_task *task) { return task->wants_gradients ? (size_t)task->model->dim_theta : 0; }

/* Doubles of the matrices that are fitted on the way; 0 where the coordinates are given. */
static size_t square_of(const pass_task *task)
{
    size_t dim = (size_t)task->model->dim_x;
    return task->c ? 0 : dim > LAW_FULL ? dim : dim * dim;
}

/* The doubles of the cloud and its workers, for a task that has been cut into tiles. */
static size_t count_doubles(pass_run *s)
{
    const pass_task *task = s->task;
    size_t n = (size_t)task->particles, dim = (size_t)task->model->dim_x, p = gradients_of(task);
    size_t workers = (size_t)s->h.workers, all = (size_t)tiles(s) * s->h.vector, parts = 32;
    size_t moving = LAW_WORK * dim, scoring = p ? sosmc_i_scores_scratch(task->model) + p * (size_t)s->h.ld : 0;
    s->room_each = ((moving > scoring ? moving : scoring) + 7) / 8 * 8;
    return workers * s->room_each + 4 * all + (task->beta > 0 ? 8 : 4) * dim + 4 * square_of(task) + n * (13 + p) + 1 +
           8 * parts;
}

/* Halves that never mix have at least a tile each, whatever the model asks for. */
static sosmc_status cut_tiles(const pass_task *task, host *h)
{
    sosmc_status status = sosmc_i_host_cut(h, task->model, task->particles, task->threads);
    int half = (int)sosmc_i_round_up(((size_t)task->particles + 1) / 2, TILE_LANES);
    if (status != SOSMC_OK || task->c || h->tile < task->particles || half >= task->particles) return status;
    sosmc_i_host_shape(h, task->model, half, sosmc_i_tile_row(half, task->model->dim_x));
    h->workers = task->threads < 2 ? 1 : 2;
    return SOSMC_OK;
}

size_t sosmc_i_pass_bytes(const pass_task *task)
{
    pass_cloud cloud = {.n = task->particles};
    pass_run s = {.task = task, .p = &cloud};
    if (cut_tiles(task, &s.h) != SOSMC_OK) return SIZE_MAX;
    s.ref = s.h;
    size_t host = sosmc_i_host_bytes(&s.h, VECTORS, ROWS), ref = task->theta_ref ? sosmc_i_host_bytes(&s.ref, 0, 0) : 0;
    if (host > SIZE_MAX / 4 || ref > SIZE_MAX / 4) return SIZE_MAX;
    return host + ref + count_doubles(&s) * sizeof(double) + 3 * (size_t)task->particles * sizeof(int);
}

static sosmc_status take_memory(pass_run *s)
{
    const pass_task *task = s->task;
    const sosmc_model *m = task->model;
    pass_cloud *out = s->p;
    size_t n = (size_t)task->particles, dim = (size_t)m->dim_x, p = gradients_of(task), square = square_of(task);
    size_t doubles = count_doubles(s), workers = (size_t)s->h.workers, all = (size_t)tiles(s) * s->h.vector;
    double *d = out->memory = aligned_alloc(64, (doubles * sizeof *d + 63) / 64 * 64);
    out->eve = calloc(3 * n, sizeof(int));
    if (!d || !out->eve) return SOSMC_ENOMEM;
    if (!task->c) memset(d, 0, doubles * sizeof *d); /* it may be saved before everything is set */
    s->eve = out->eve + n;
    s->ancestor = s->eve + n;
    out->x = part_of(&d, all);
    s->gU = part_of(&d, all);
    s->gq = part_of(&d, all);
    s->keep = part_of(&d, all);
    memset(out->x, 0, 3 * all * sizeof(double)); /* a model may read padding */
    s->room = part_of(&d, workers * s->room_each);
    for (int half = 0; half < 2; half++) s->inverse[half] = part_of(&d, dim);
    out->w = part_of(&d, n);
    out->U = part_of(&d, n);
    out->class_sum = part_of(&d, n);
    if (task->score) out->R = part_of(&d, n);
    if (task->theta_ref) out->Uref = part_of(&d, n);
    if (task->beta > 0) out->halfway = part_of(&d, n);
    if (p) out->D = part_of(&d, n * p);
    s->Lq = part_of(&d, n);
    s->logw = part_of(&d, n);
    s->d = part_of(&d, n);
    s->accepted = part_of(&d, n);
    s->spare = part_of(&d, n);
    s->scratch = part_of(&d, 2 * n + 1);
    for (int half = 0; half < 2 && square; half++) {
        s->own[half] = (preconditioner){.dim = m->dim_x, .gradient = s->gradient, .C = part_of(&d, square)};
        memset(s->own[half].C, 0, square * sizeof(double));
    }
    if (square) {
        s->fit = part_of(&d, square);
        s->spare_matrix = part_of(&d, square);
        s->fit_rows = part_of(&d, 2 * dim);
        for (int half = 0; half < 2 && task->beta > 0 && s->gradient; half++) s->pull[half] = part_of(&d, 2 * dim);
    }
    for (size_t j = 0; j < dim && task->c; j++) s->inverse[0][j] = 1 / task->c->C[task->c->diagonal ? j : j * dim + j];
    return SOSMC_OK;
}

/* Which first ancestors belong to which component: those of the first half, then those of the second. */
static void mark_parts(pass_run *s)
{
    pass_cloud *p = s->p;
    int count = s->task->q->count, halves = s->cut < p->n ? 2 : 1;
    p->parts = halves * count;
    for (int half = 0, k = 0; half < halves; half++) {
        int first = half ? s->cut : 0, end = half || halves == 1 ? p->n : s->cut;
        for (int c = 0, i = first; c < count; c++, k++) {
            while (i < end && sosmc_i_law_of(s->task->q, i - first, end - first) == c) i++;
            p->part_end[k] = i;
        }
    }
}

sosmc_status sosmc_i_pass_open(pass_run *s, const pass_task *task, pass_cloud *out)
{
    const sosmc_model *m = task->model;
    *s = (pass_run){.task = task, .code = sosmc_i_tile_code(task->simd), .p = out};
    s->gradient = task->c ? task->c->gradient : !m->no_gx;
    s->leaps = s->gradient && task->leaps > 1 ? task->leaps : 1;
    *out = (pass_cloud){.n = 0};
    sosmc_status status = cut_tiles(task, &s->h);
    if (status == SOSMC_OK) status = cut_tiles(task, &s->ref);
    s->h.simd = s->ref.simd = sosmc_i_simd(task->simd);
    if (status == SOSMC_OK) status = sosmc_i_host_open(&s->h, task->theta, VECTORS, ROWS);
    if (status == SOSMC_OK && task->theta_ref) status = sosmc_i_host_open(&s->ref, task->theta_ref, 0, 0);
    if (status != SOSMC_OK) return status;
    *out = (pass_cloud){.n = task->particles,
                        .dim = m->dim_x,
                        .dim_theta = m->dim_theta,
                        .tile = s->h.tile,
                        .ld = s->h.ld,
                        .vector = s->h.vector,
                        .acceptance = NAN,
                        .halfway_spread = NAN};
    status = task->c || tiles(s) > 1 ? take_memory(s) : SOSMC_EINVAL;
    if (status != SOSMC_OK) return status;
    s->cut = cut_of(s);
    s->step = 1 / (1 + 0.2 * sqrt(out->dim < 1 ? 1 : (double)out->dim));
    mark_parts(s);
    double log_n = sosmc_i_log1(NULL, (double)out->n);
    for (int i = 0; i < out->n; i++) {
        out->eve[i] = i;
        out->w[i] = 1.0 / out->n;
        s->logw[i] = -log_n;
    }
    return SOSMC_OK;
}

/* The weights from the law straight to the target, where the task takes them and they are good enough: a single weight that stands out
 * may leave the Pareto index small, so enough of them must count. */
static void take_as_they_are(pass_run *s)
{
    pass_cloud *p = s->p;
    int good = s->task->plain > 0 && p->khat <= s->task->plain;
    if (good) {
        double most = incremental(s), sums[2];
        s->code->spread(p->n, p->w, s->d, 1, most, sums);
        good = isfinite(most) && sosmc_i_enough(p->n, p->n * (sums[0] * sums[0] / sums[1]));
    }
    s->lost = s->task->only_plain && !good;
    if (!good) return;
    s->lost = weigh(s, 1) != 0;
    if (s->lost) return;
    s->t = p->arrived = 1;
    p->ess = ess(p);
}

sosmc_status sosmc_i_pass_begin(pass_run *s)
{
    sosmc_status status = sosmc_i_host_parallel(&s->h, start_tile, s, tiles(s));
    if (status != SOSMC_OK) return status;
    s->p->evaluations += s->p->n;
    (void)incremental(s);
    s->p->khat = sosmc_i_khat(s->p->n, s->d, s->scratch);
    s->p->ess = s->p->n;
    s->lost = drop_dead(s) != 0;
    if (!s->lost) take_as_they_are(s);
    return SOSMC_OK;
}

sosmc_status sosmc_i_pass_finish(pass_run *s)
{
    if (s->p->arrived >= 1) {
        sosmc_status status = sosmc_i_host_parallel(&s->h, finish_tile, s, tiles(s));
        if (status != SOSMC_OK) return status;
    }
    sosmc_i_pass_survivors(s->p);
    return SOSMC_OK;
}

void sosmc_i_pass_close(pass_run *s)
{
    sosmc_i_host_close(&s->h);
    sosmc_i_host_close(&s->ref);
}

sosmc_status sosmc_i_pass(const pass_task *task, pass_cloud *out)
{
    pass_run s;
    sosmc_status status = sosmc_i_pass_open(&s, task, out);
    if (status == SOSMC_OK) status = sosmc_i_pass_begin(&s);
    while (status == SOSMC_OK && !sosmc_i_pass_over(&s))
        status = task->stop && task->stop(task->stop_ctx) ? SOSMC_STOPPED : sosmc_i_pass_step(&s);
    if (status == SOSMC_OK) status = sosmc_i_pass_finish(&s);
    sosmc_i_pass_close(&s);
    return status;
}

void sosmc_i_pass_free(pass_cloud *p)
{
    free(p->memory);
    free(p->eve);
    *p = (pass_cloud){.n = 0};
}
