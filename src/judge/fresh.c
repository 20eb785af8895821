/* fresh.c: where fresh particles start and how they move.
 *
 * The starting law mixes a normal fit of the run's cloud, Laplace's approximation at the modes that are found (as Student laws), and
 * a normal fit of draws of the initial law. The last two do not know the run: a mode that the cloud has lost is found again through
 * them. The moves are preconditioned with the inverse of E[g g'],
 * g = dU/dx, under the run's cloud, which measures the width of the modes and not the distance between them. Both are fitted on
 * particles that the pass does not contain. */
#include "fresh.h"

#include <math.h>
#include <sosmc/analysis.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"
#include "base/table.h"
#include "base/tiles.h"
#include "modes.h"

enum { LEAST = 64, MOST_LEAST = 512 }; /* particles of a pass; what a small one may have without being paid for */
enum {
    STARTS_CLOUD = 4,
    STARTS_INITIAL = 4,
    STARTS_WIDE = 8,
    DRAWN = 1024,
    FITTED = 20000,
    PRECONDITIONED = 1000,
    LARGEST_DIM = 2000
};
enum { STREAM_INITIAL = 20, STREAM_STARTS = 22 };
static const double FROM_CLOUD = 0.5, FROM_MODES = 0.3, FROM_INITIAL = 0.2, INFLATE = 1.2, WIDER = 1.1, SURVIVORS = 0.1;
static const double PLAIN = 0.5; /* the largest Pareto index of weights that are taken as they are */

/* ---------------------------------------------------------------------------- points */

/* n weighted points, rows of dim. */
typedef struct {
    int64_t n;
    double *x, *w;
} points;

static void normalise(points *p)
{
    double total = 0;
    for (int64_t i = 0; i < p->n; i++) total += p->w[i];
    for (int64_t i = 0; i < p->n; i++) p->w[i] /= total;
}

static double effective(const points *p)
{
    double squares = 0;
    for (int64_t i = 0; i < p->n; i++) squares += p->w[i] * p->w[i];
    return 1 / squares;
}

/* The run's cloud, or evenly spaced particles of it, with weights. */
static sosmc_status take_cloud(const fresh *f, points *out)
{
    int64_t n = sosmc_particles(f->engine), every = (n + FITTED - 1) / FITTED;
    size_t dim = (size_t)f->problem->model.dim_x;
    double *x = malloc((size_t)n * (dim + 1) * sizeof *x), most = -INFINITY;
    if (!x) return SOSMC_ENOMEM;
    double *w = x + (size_t)n * dim;
    sosmc_status status = sosmc_i_cloud(f->engine, x, w);
    for (int64_t i = 0; i < n; i++) most = fmax(most, w[i]);
    *out = (points){.n = 0, .x = x, .w = w};
    for (int64_t i = 0; i < n; i += every, out->n++) {
        memmove(x + (size_t)out->n * dim, x + (size_t)i * dim, dim * sizeof(double));
        w[out->n] = w[i] - most > -700 ? sosmc_i_exp1(NULL, w[i] - most) : 0;
    }
    normalise(out);
    return status;
}

/* Draws of the initial law; of one with a density also the weights of exp(-U) at theta0 against it. */
static sosmc_status draw_initial(fresh *f, points *out)
{
    const sosmc_source *init = &f->problem->init;
    const int dim = f->problem->model.dim_x, tile = 64;
    size_t doubles = (size_t)DRAWN * (size_t)(dim + 3) + 2 * (size_t)tile * (size_t)dim + (size_t)tile;
    size_t own = doubles = sosmc_i_round_up(doubles, TILE_LANES);
    doubles += sosmc_i_round_up((size_t)tile * f->problem->model.work, 64) / sizeof(double);
    double *x = aligned_alloc(64, (doubles * sizeof(double) + 63) / 64 * 64);
    if (!x) return SOSMC_ENOMEM;
    double *batch = x, *lq = batch + (size_t)tile * (size_t)dim, *logw = lq + tile, *work = logw + DRAWN,
           *rows = work + 2 * (size_t)DRAWN;
    *out = (points){.n = DRAWN, .x = x};
    int weighs = init->logpdf && !init->exact, rc = 0;
    for (int first = 0; first < DRAWN && rc == 0; first += tile) {
        sosmc_batch b = {.x = batch, .simd = sosmc_simd_best(), .dim = dim, .n = tile, .ld = tile, .first = first};
        b.work = x + own;
        sosmc_rng rng = {.seed = f->seed, .stream = STREAM_INITIAL};
        rc = init->draw(init->self, rng, &b, batch);
        if (rc == 0 && weighs) rc = init->logpdf(init->self, &b, lq);
        for (int i = 0; i < tile; i++) {
            logw[first + i] = weighs ? -lq[i] : 0;
            for (int j = 0; j < dim; j++)
                rows[(size_t)(first + i) * (size_t)dim + (size_t)j] = batch[(size_t)j * (size_t)tile + (size_t)i];
        }
    }
    sosmc_host *host = NULL;
    double *zero = calloc((size_t)f->problem->model.dim_theta, sizeof *zero);
    sosmc_status status = rc ? SOSMC_EMODEL : zero ? SOSMC_OK : SOSMC_ENOMEM;
    if (status == SOSMC_OK && weighs) {
        const double *theta0 = f->problem->theta0 ? f->problem->theta0 : zero;
        status = sosmc_host_create(&host, &f->problem->model, theta0, 0);
        if (status == SOSMC_OK) status = sosmc_host_energies(host, DRAWN, rows, work);
        double most = -INFINITY, sum = 0, squares = 0;
        for (int i = 0; i < DRAWN; i++) logw[i] = work[i] < INFINITY ? logw[i] - work[i] : -INFINITY;
        for (int i = 0; i < DRAWN; i++) most = fmax(most, logw[i]);
        for (int i = 0; i < DRAWN && isfinite(most); i++) {
            double w = logw[i] - most > -700 ? sosmc_i_exp1(NULL, logw[i] - most) : 0;
            sum += w;
            squares += w * w;
        }
        f->first_ess = squares > 0 ? sum * sum / squares / DRAWN : 0;
        f->first_khat = sosmc_i_khat(DRAWN, logw, work);
    }
    sosmc_host_free(host);
    free(zero);
    memmove(x, rows, (size_t)DRAWN * (size_t)dim * sizeof(double)); /* work and log-weights are not needed any more */
    out->w = x + (size_t)DRAWN * (size_t)dim;
    for (int i = 0; i < DRAWN; i++) out->w[i] = 1.0 / DRAWN;
    return status;
}

/* ---------------------------------------------------------------------------- the coordinates of the moves */

/* C C' = the inverse of a covariance with factor L. */
static int from_covariance(preconditioner *c, const double *L)
{
    size_t dim = (size_t)c->dim;
    if (c->diagonal) {
        for (size_t j = 0; j < dim; j++) c->C[j] = 1 / L[j];
        return 0;
    }
    sosmc_i_cholesky_inverse(dim, L, c->C);
    return sosmc_i_cholesky(dim, c->C);
}

/* C C' = E[g g'] under some particles of the cloud, loaded on its diagonal where they are few. Returns -1 where that gives no
 * factor. */
static int from_gradients(const fresh *f, preconditioner *c, const points *cloud, const double *theta)
{
    size_t dim = (size_t)c->dim;
    int64_t every = (cloud->n + PRECONDITIONED - 1) / PRECONDITIONED, n = 0;
    double *x = malloc((size_t)(PRECONDITIONED + 1) * (2 * dim + 2) * sizeof *x);
    sosmc_host *host = NULL;
    if (!x) return -1;
    points some = {.x = x, .w = x + (size_t)PRECONDITIONED * 2 * dim};
    double *g = x + (size_t)PRECONDITIONED * dim, *U = some.w + PRECONDITIONED;
    for (int64_t i = 0; i < cloud->n; i += every) {
        if (!(cloud->w[i] > 0)) continue;
        memcpy(x + (size_t)n * dim, cloud->x + (size_t)i * dim, dim * sizeof(double));
        some.w[n++] = cloud->w[i];
    }
    some.n = n;
    normalise(&some);
    int rc = sosmc_host_create(&host, &f->problem->model, theta, 0) != SOSMC_OK ||
             sosmc_host_gradients(host, n, x, U, g) != SOSMC_OK;
    memset(c->C, 0, (c->diagonal ? dim : dim * dim) * sizeof(double));
    for (int64_t i = 0; i < n && rc == 0; i++)
        for (size_t j = 0; j < dim; j++) {
            const double *at = g + (size_t)i * dim;
            if (c->diagonal) {
                c->C[j] += some.w[i] * at[j] * at[j];
                continue;
            }
            for (size_t k = 0; k <= j; k++) c->C[j * dim + k] += some.w[i] * at[j] * at[k];
        }
    double load = fmin(1, (double)c->dim / (2 * effective(&some))) + 1e-3;
    for (size_t j = 0; j < dim && rc == 0; j++) {
        double *diagonal = &c->C[c->diagonal ? j : j * dim + j];
        *diagonal *= c->diagonal ? 1 : 1 + load;
        rc = !(*diagonal > 0) || !isfinite(*diagonal);
        if (c->diagonal) *diagonal = sqrt(*diagonal);
    }
    if (rc == 0 && !c->diagonal) rc = sosmc_i_cholesky(dim, c->C);
    sosmc_host_free(host);
    free(x);
    return rc ? -1 : 0;
}

/* ---------------------------------------------------------------------------- together */

static sosmc_status add_fit(fresh *f, const points *p, double weight, double *mean, double *L)
{
    if (sosmc_i_fit_normal(&f->q, p->n, p->x, p->w, INFLATE, mean, L)) return SOSMC_OK; /* not finite: left out */
    return sosmc_i_laws_add(&f->q, weight, 0, mean, L) ? SOSMC_ENOMEM : SOSMC_OK;
}

/* Points around the fits that the law holds by now, 3 and 10 times as far as they reach. */
static int add_wide_starts(const fresh *f, double *starts, int n)
{
    size_t dim = (size_t)f->q.dim;
    for (int k = 0; k < STARTS_WIDE; k++, n++) {
        const law *a = &f->q.part[k % f->q.count];
        double *z = starts + (size_t)n * dim;
        sosmc_batch b = {.simd = sosmc_simd_best(), .dim = f->q.dim, .n = 1, .ld = 1, .first = k};
        sosmc_normals((sosmc_rng){.seed = f->seed, .stream = STREAM_STARTS}, &b, z);
        for (size_t j = 0; j < dim; j++) {
            double scale = 0; /* of coordinate j */
            for (size_t i = 0; i <= j && !f->q.diagonal; i++) scale += a->L[j * dim + i] * a->L[j * dim + i];
            z[j] = a->mean[j] + (k < STARTS_WIDE / 2 ? 3 : 10) * sqrt(f->q.diagonal ? a->L[j] * a->L[j] : scale) * z[j];
        }
    }
    return n;
}

/* Student laws at the modes, half of their weight by mass and half equal. */
static sosmc_status add_modes(fresh *f, const double *theta, const points *cloud, const points *drawn)
{
    size_t dim = (size_t)f->q.dim;
    modes m;
    double total = 0, best = -INFINITY;
    double *starts = malloc((STARTS_CLOUD + STARTS_INITIAL + STARTS_WIDE) * dim * sizeof *starts);
    if (!starts) return SOSMC_ENOMEM;
    int n = 0;
    for (int64_t k = 0; k < STARTS_CLOUD; k++, n++)
        memcpy(starts + (size_t)n * dim, cloud->x + (size_t)(cloud->n * k / STARTS_CLOUD) * dim, dim * sizeof(double));
    for (int64_t k = 0; k < STARTS_INITIAL; k++, n++)
        memcpy(starts + (size_t)n * dim, drawn->x + (size_t)(drawn->n * k / STARTS_INITIAL) * dim,
               dim * sizeof(double));
    n = add_wide_starts(f, starts, n);
    sosmc_status status = sosmc_i_modes_find(&m, &f->problem->model, theta, &f->c, n, starts);
    for (int k = 0; k < m.count; k++) best = fmax(best, m.mass[k]);
    for (int k = 0; k < m.count; k++) total += sosmc_i_exp1(NULL, m.mass[k] - best);
    for (int k = 0; k < m.count && status == SOSMC_OK; k++) {
        double weight = 0.5 / m.count + 0.5 * sosmc_i_exp1(NULL, m.mass[k] - best) / total;
        for (size_t j = 0; j < dim * dim; j++) m.L[k][j] *= WIDER;
        if (sosmc_i_laws_add(&f->q, FROM_MODES * weight, 5 + f->q.dim / 2, m.x[k], m.L[k])) status = SOSMC_ENOMEM;
    }
    sosmc_i_modes_free(&m);
    free(starts);
    return status;
}

/* As many particles as the allowance pays for, at a guess of how many temperatures it takes; a small pass, which nobody waits for, is
 * always allowed. */
static int affordable(const fresh *f)
{
    const double small_pass = 2e6; /* coordinates times moves: some hundredths of a second of a cheap model */
    double dim = f->problem->model.dim_x, cost = f->options->cost > 0 ? f->options->cost : 0.025;
    double iterations = (double)f->iterations * f->settings->scheme.sweeps;
    double evaluations = 2 * iterations * f->settings->scheme.particles, temperatures = 6 + 2 * sqrt(dim);
    /* A move costs what the laws take beside the model: some three evaluations of a cheap one. A reference has a pass of its own. */
    double particles = cost * evaluations / (3 * temperatures);
    double least = fmin(MOST_LEAST, small_pass / (temperatures * dim));
    if (f->options->pass_particles > 0) return f->options->pass_particles;
    if (f->problem->objective.theta_ref) particles /= 2;
    return (int)fmin(fmax(particles, least), 16384);
}

const char *sosmc_i_fresh_refused(const fresh *f)
{
    const sosmc_model *m = &f->problem->model;
    if (f->options->why_no_log_z) return f->options->why_no_log_z;
    if (m->dim_x > LARGEST_DIM) return "a particle has more than 2000 coordinates, too many for fresh particles";
    if (m->prox) return "the energy has a non-smooth part, for which fresh particles have no moves";
    if (f->settings->kernel.clamp > 0) return "the kernel holds coordinates to a box, so the particles have no density";
    if (affordable(f) < LEAST)
        return "fresh particles would cost more than judging may (judge: cost); take more iterations or a larger cost";
    if (f->settings->kernel.no_weight) return "the kernel has no density, so what its particles follow is not pi_theta";
    return NULL;
}

sosmc_status sosmc_i_fresh_open(fresh *f, const double *theta)
{
    int dim = f->problem->model.dim_x, diagonal = dim > LAW_FULL;
    size_t doubles = diagonal ? (size_t)dim : (size_t)dim * (size_t)dim;
    points cloud = {.n = 0}, drawn = {.n = 0};
    f->q = (laws){.dim = dim, .diagonal = diagonal};
    f->c = (preconditioner){.dim = dim, .diagonal = diagonal, .gradient = f->settings->kernel.uses_gradient};
    f->particles = affordable(f);
    f->threads = f->options->threads > 0 ? f->options->threads : f->settings->threads;
    f->first_ess = f->first_khat = NAN;
    double *mean = malloc(((size_t)dim + doubles) * sizeof *mean);
    f->c.C = malloc(doubles * sizeof *f->c.C);
    sosmc_status status = mean && f->c.C ? take_cloud(f, &cloud) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) status = draw_initial(f, &drawn);
    if (status == SOSMC_OK) status = add_fit(f, &drawn, FROM_INITIAL, mean, mean + dim);
    if (status == SOSMC_OK) status = add_fit(f, &cloud, FROM_CLOUD, mean, mean + dim);
    if (status == SOSMC_OK && f->q.count == 0) status = SOSMC_ENUMERIC;
    if (status == SOSMC_OK && (!f->c.gradient || from_gradients(f, &f->c, &cloud, theta)))
        if (from_covariance(&f->c, f->q.part[f->q.count - 1].L)) status = SOSMC_ENUMERIC;
    if (status == SOSMC_OK) status = add_modes(f, theta, &cloud, &drawn);
    if (status == SOSMC_OK) sosmc_i_laws_close(&f->q);
    free(mean);
    free(cloud.x);
    free(drawn.x);
    return status;
}

void sosmc_i_fresh_close(fresh *f)
{
    sosmc_i_laws_free(&f->q);
    free(f->c.C);
    f->c.C = NULL;
}

static pass_task task_of(const fresh *f, const double *theta, fresh_kind kind)
{
    int whole = kind == FRESH_WHOLE, tilted = kind == FRESH_TILTED;
    const sosmc_objective *o = &f->problem->objective;
    return (pass_task){.model = &f->problem->model,
                       .theta = theta,
                       .score = (whole || tilted) && o->score.eval ? &o->score : NULL,
                       .beta = tilted ? o->kl : 0,
                       .theta_ref = whole && o->kl != 0 ? o->theta_ref : NULL,
                       .q = &f->q,
                       .c = &f->c,
                       .simd = f->simd,
                       .particles = f->particles,
                       .threads = f->threads,
                       .moves = f->problem->model.dim_x < 5 ? 1 : 2,
                       .jumps = f->jumps,
                       .pool = &f->from,
                       .seed = f->seed,
                       .wants_gradients = whole && f->problem->model.dim_theta <= WATCH_PARAMETERS && o->scale != 0 &&
                                          !o->H,
                       .stop = f->options->stop,
                       .stop_ctx = f->options->stop_ctx};
}

sosmc_status sosmc_i_fresh_pass(const fresh *f, const double *theta, int number, fresh_kind kind, pass_cloud *out)
{
    enum { TRIES = 4 }; /* names of random numbers are set aside for so many */
    pass_task task = task_of(f, theta, kind);
    if (f->plain > 0 && kind != FRESH_TILTED) {
        task.plain = PLAIN;
        task.particles = f->plain;
        task.number = (uint64_t)number * TRIES + TRIES - 1;
        task.only_plain = 1;
        sosmc_status status = sosmc_i_pass(&task, out);
        if (status != SOSMC_OK || out->arrived >= 1) return status;
        sosmc_i_pass_free(out);
        task.plain = task.only_plain = 0;
        task.particles = f->particles;
    }
    for (int k = 0;; k++) {
        task.number = (uint64_t)number * TRIES + (uint64_t)k;
        sosmc_status status = sosmc_i_pass(&task, out);
        int good = out->arrived >= 1 && out->survivors >= SURVIVORS;
        if (status != SOSMC_OK || good || k + 1 >= f->tries) return status;
        sosmc_i_pass_free(out);
        task.particles *= 2;
        task.moves *= 2;
    }
}

/* ---------------------------------------------------------------------------- what it takes */

static size_t sum_of(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

size_t sosmc_i_fresh_pass_bytes(const fresh *f)
{
    const sosmc_objective *o = &f->problem->objective;
    pass_task whole = task_of(f, NULL, 1), part = task_of(f, NULL, 0);
    size_t n = (size_t)f->particles, dim_theta = whole.wants_gradients ? (size_t)whole.model->dim_theta : 0;
    size_t rows = ((n + 5) * dim_theta + n) * sizeof(double); /* of the contradiction */
    size_t other = o->theta_ref && o->kl != 0 ? sosmc_i_pass_bytes(&part) : 0;
    size_t bytes = sum_of(sosmc_i_pass_bytes(&whole), sum_of(n * sizeof(double), other > rows ? other : rows));
    if (f->plain == 0) return bytes;
    whole.particles = f->plain;
    size_t beside = whole.theta_ref ? 8 : 1; /* numbers per particle: a reward's all come from one pass */
    size_t plain = sum_of(sosmc_i_pass_bytes(&whole), beside * (size_t)f->plain * sizeof(double));
    if (whole.theta_ref)
        plain = sum_of(plain,
                       sosmc_i_pass_bytes(&part)); /* ... unless that cannot be: then another one stands beside it */
    return plain > bytes ? plain : bytes;
}

size_t sosmc_i_fresh_bytes(const fresh *f)
{
    enum { LAWS = 4 }; /* there are as many as modes and two; full ones are small beside a pass of their dimension */
    fresh g = *f;
    int64_t n = f->settings->scheme.particles, dim = f->problem->model.dim_x;
    if (sosmc_i_fresh_refused(f)) return 0;
    g.particles = affordable(f);
    g.threads = f->options->threads > 0 ? f->options->threads : f->settings->threads;
    int64_t law = dim > LAW_FULL ? dim : dim * dim;
    int64_t opening = n * (dim + 1) + DRAWN * (dim + 3) + (PRECONDITIONED + 66) * (2 * dim + 2);
    size_t laws = (size_t)(LAWS * law) * sizeof(double), open = (size_t)opening * sizeof(double);
    size_t pass = sosmc_i_fresh_pass_bytes(&g);
    return sum_of(laws, open > pass ? open : pass);
}
