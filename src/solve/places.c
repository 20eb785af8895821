/* places.c: where the mass of pi_theta is, found from nothing, and the laws from which particles start.
 *
 * Modes: L-BFGS from the origin (or from rows of data, draws of the reference or of the initial law), then from points at 1, 4, 16
 * and 64 standard deviations around the best mode, in the user's own units, and around all modes, again and again while that finds new ones. Before a mode is known the unit of
 * length is found from the curvature along the first gradient, and the end is polished in the curvature where it stopped: nothing
 * here knows the unit of x. Laplace's approximation at a mode has curvature by central differences of the slope, 0.001 standard
 * deviations apart, eigenvalues made positive.
 *
 * Law A: Student laws at the modes. Law B: one wide Student law over all of them, one at the origin in the user's units, and a normal
 * fit of the initial law where there is one. The two know different things; that they lead to the same log Z is a test. Where there are
 * more modes than are listed, components at some of them would only divert particles from the others: A is then a Student law that is little
 * wider than all modes together, B the wide one, and particles jump between modes on their way (cloud.c). */
#include <math.h>
#include <stdlib.h>

#include "base/linear.h"
#include "base/table.h"
#include "judge/descend.h"
#include "solve_inside.h"

enum {
    STEPS = 300,
    POLISH_STEPS = 100,
    POLISHES = 4,
    ITERATED = 4,
    PROBES = 8,
    KNOWN_ROWS = 6,
    DRAWN = 512,
    ROUNDS = 8,
    LEAST_ROUNDS = 3,
    AMONG = 8
};
static const double LOG_2PI = 1.8378770664093454836, DIFFERENCE = 1e-3, NEGLIGIBLE = 100, NEARLY = 1.2;

typedef struct {
    sosmc_solver *s;
    descent d;
    places *out;
    const double *theta;
    size_t dim;
    int full;
    double *start, *x, *sd, *other, *H, *vectors, *values, *many, *many_g, *many_U, *unit;
    uint64_t drawn; /* random points so far */
} finding;

void sosmc_i_places_free(places *p)
{
    for (int k = 0; k < p->count; k++) free(p->x[k]);
    p->count = p->many = 0;
}

static int degrees(const sosmc_solver *s) { return s->dim < 2 * (MOST_DOF - 5) ? 5 + s->dim / 2 : MOST_DOF; }

static void normals(finding *f, size_t n, double *z)
{
    sosmc_batch b = {.simd = f->s->simd, .dim = (int)n, .n = 1, .ld = 1, .first = (int64_t)f->drawn++};
    sosmc_rng rng = {.seed = f->s->o.seed, .step = (uint64_t)f->s->v.start_clock, .stream = STREAM_PLACES};
    sosmc_normals(rng, &b, z);
}

/* ---------------------------------------------------------------------------- curvature */

static sosmc_status slopes_at(finding *f, int n)
{
    f->s->v.evaluations += n;
    return sosmc_host_gradients(f->d.host, n, f->many, f->many_U, f->many_g);
}

/* Central differences of the slope at x, `e` apart: the matrix H in units of sd, or its diagonal by random signs. */
static sosmc_status differences(finding *f, const double *x, const double *e)
{
    size_t dim = f->dim, n = f->full ? dim : PROBES;
    for (size_t k = 0; k < n; k++) {
        if (!f->full) normals(f, dim, f->vectors + k * dim);
        for (size_t j = 0; j < dim; j++) {
            double step = f->full ? (j == k ? e[j] : 0) : (f->vectors[k * dim + j] > 0 ? e[j] : -e[j]);
            f->many[2 * k * dim + j] = x[j] + step;
            f->many[(2 * k + 1) * dim + j] = x[j] - step;
        }
    }
    return slopes_at(f, (int)(2 * n));
}

/* Standard deviations by coordinate in f->sd from `sd` (NULL: none is known), the difference step following what is found; f->H
 * is then the curvature in units of f->sd, or nothing where only the diagonal is wanted. */
static int curvature(finding *f, const double *x, const double *sd, sosmc_status *status)
{
    size_t dim = f->dim;
    double *e = f->other;
    int known = sd != NULL;
    if (known) memcpy(f->sd, sd, dim * sizeof(double));
    for (int k = 0; k < ITERATED; k++) {
        double most = 0;
        int near = 1;
        for (size_t j = 0; j < dim; j++)
            e[j] = known ? fmax(DIFFERENCE * f->sd[j], 1e-9 * fabs(x[j])) : 1e-4 * (1 + fabs(x[j]));
        *status = differences(f, x, e);
        if (*status != SOSMC_OK || !sosmc_i_all_finite(2 * (f->full ? dim : PROBES) * dim, f->many_g)) return -1;
        double *h = f->values;
        for (size_t j = 0; j < dim; j++) {
            h[j] = 0;
            if (f->full) h[j] = fabs(f->many_g[2 * j * dim + j] - f->many_g[(2 * j + 1) * dim + j]) / (2 * e[j]);
            for (size_t p = 0; !f->full && p < PROBES; p++)
                h[j] += (f->vectors[p * dim + j] > 0 ? 1 : -1) *
                        (f->many_g[2 * p * dim + j] - f->many_g[(2 * p + 1) * dim + j]) / (2 * e[j] * PROBES);
            h[j] = fabs(h[j]);
            most = fmax(most, h[j]);
        }
        if (!(most > 0)) return -1;
        for (size_t j = 0; j < dim; j++) {
            double found = 1 / sqrt(fmax(h[j], 1e-8 * most));
            if (known && !(found < 3 * f->sd[j] && f->sd[j] < 3 * found)) near = 0;
            if (!known && !(e[j] > 1e-5 * found && e[j] < 1e-2 * found)) near = 0;
            f->sd[j] = found;
        }
        known = 1;
        if (near || k + 1 == ITERATED) break;
    }
    for (size_t j = 0; f->full && j < dim; j++)
        for (size_t k = 0; k <= j; k++) {
            double a = (f->many_g[2 * j * dim + k] - f->many_g[(2 * j + 1) * dim + k]) / (2 * e[j]);
            double b = (f->many_g[2 * k * dim + j] - f->many_g[(2 * k + 1) * dim + j]) / (2 * e[k]);
            f->H[j * dim + k] = f->H[k * dim + j] = 0.5 * (a + b) * f->sd[j] * f->sd[k];
        }
    return 0;
}

/* Factors of the precision (P) and of the covariance (L) from f->H and f->sd, eigenvalues made positive. */
static int factors(finding *f, double *L, double *P)
{
    size_t dim = f->dim;
    if (!f->full) {
        for (size_t j = 0; j < dim; j++) {
            L[j] = f->sd[j];
            P[j] = 1 / f->sd[j];
        }
        return 0;
    }
    memcpy(P, f->H, dim * dim * sizeof(double));
    if (sosmc_i_cholesky(dim, P)) {
        memcpy(P, f->H, dim * dim * sizeof(double));
        if (sosmc_i_eigen(dim, P, f->values, f->vectors)) return -1;
        double most = fmax(fabs(f->values[0]), fabs(f->values[dim - 1]));
        memset(P, 0, dim * dim * sizeof(double));
        for (size_t m = 0; m < dim; m++) {
            double value = fmax(fabs(f->values[m]), 1e-8 * most);
            for (size_t j = 0; j < dim; j++)
                for (size_t k = 0; k <= j; k++)
                    P[j * dim + k] += value * f->vectors[m * dim + j] * f->vectors[m * dim + k];
        }
        if (sosmc_i_cholesky(dim, P)) return -1;
    }
    for (size_t j = 0; j < dim; j++) /* back to units of x: the precision is (P / sd)(P / sd)' */
        for (size_t k = 0; k < dim; k++) P[j * dim + k] = k <= j ? P[j * dim + k] / f->sd[j] : 0;
    sosmc_i_cholesky_inverse(dim, P, L);
    if (sosmc_i_cholesky(dim, L)) return -1;
    for (size_t j = 0; j < dim; j++)
        for (size_t k = j + 1; k < dim; k++) L[j * dim + k] = 0;
    return sosmc_i_all_finite(dim * dim, L) && sosmc_i_all_finite(dim * dim, P) ? 0 : -1;
}

static double log_determinant(const finding *f, const double *L)
{
    double sum = 0;
    for (size_t j = 0; j < f->dim; j++) sum += sosmc_i_log1(NULL, L[f->full ? j * f->dim + j : j]);
    return sum;
}

/* ---------------------------------------------------------------------------- one descent */

/* A length along the first gradient, from the curvature there. */
static sosmc_status first_unit(finding *f, double *unit)
{
    size_t dim = f->dim;
    double U, length = 1;
    *unit = 1;
    f->s->v.evaluations++;
    sosmc_status status = sosmc_host_gradients(f->d.host, 1, f->start, &U, f->many_g);
    if (status != SOSMC_OK || !isfinite(U) || !sosmc_i_all_finite(dim, f->many_g)) return status;
    double *g0 = f->other, size;
    memcpy(g0, f->many_g, dim * sizeof(double));
    size = sqrt(sosmc_i_dot(dim, g0, g0));
    if (!(size > 0)) return status;
    for (int k = 0; k < 2; k++) {
        double e = k == 0 ? 1e-4 * (1 + sqrt(sosmc_i_dot(dim, f->start, f->start))) : 1e-2 * length;
        for (size_t j = 0; j < dim; j++) f->many[j] = f->start[j] + e * g0[j] / size;
        status = slopes_at(f, 1);
        if (status != SOSMC_OK) return status;
        double along = 0;
        for (size_t j = 0; j < dim; j++) along += (f->many_g[j] - g0[j]) * g0[j];
        along = fabs(along) / (size * e);
        if (isfinite(along) && along > 0) length = 1 / sqrt(along);
    }
    *unit = length;
    return status;
}

static sosmc_status descend_in(finding *f, const preconditioner *c, int steps, double *U, int *ended)
{
    sosmc_status status = SOSMC_OK;
    int64_t before = f->d.evaluations;
    f->d.c = c;
    memcpy(f->d.x, f->x, f->dim * sizeof(double));
    (void)sosmc_i_descend(&f->d, steps, U, &status);
    f->s->v.evaluations += f->d.evaluations - before;
    *ended = !isfinite(*U);
    if (!*ended) memcpy(f->x, f->d.x, f->dim * sizeof(double));
    return status;
}

static double distance2(finding *f, const places *out, int k, const double *x)
{
    preconditioner c = {.dim = (int)f->dim, .diagonal = !f->full, .C = out->L[k]};
    for (size_t j = 0; j < f->dim; j++) f->other[j] = x[j] - out->x[k][j];
    sosmc_i_whiten(&c, f->other);
    return sosmc_i_dot(f->dim, f->other, f->other);
}

static int best_of(const places *p)
{
    int best = 0;
    for (int k = 1; k < p->count; k++)
        if (p->mass[k] > p->mass[best]) best = k;
    return best;
}

/* From f->start to a mode, which is kept unless it is known. Inside the units of the best mode, or (first) in none. */
static sosmc_status try_start(finding *f, int first)
{
    size_t dim = f->dim, doubles = f->full ? dim * dim : dim;
    places *out = f->out;
    double U = INFINITY;
    int ended;
    out->many |= out->count == PLACES_MOST;
    if (!sosmc_i_all_finite(dim, f->start) || out->count == PLACES_MOST) return SOSMC_OK;
    first = first || out->count == 0;
    memcpy(f->x, f->start, dim * sizeof(double));
    preconditioner c = {.dim = (int)dim, .diagonal = 1, .gradient = 1, .C = f->unit};
    if (first) {
        double unit;
        sosmc_status status = first_unit(f, &unit);
        if (status != SOSMC_OK) return status;
        for (size_t j = 0; j < dim; j++) f->unit[j] = 1 / unit;
    } else {
        c = (preconditioner){.dim = (int)dim, .diagonal = !f->full, .gradient = 1, .C = out->P[best_of(out)]};
    }
    sosmc_status status = descend_in(f, &c, STEPS, &U, &ended);
    if (status != SOSMC_OK || ended) return status;
    double *memory = malloc((1 + dim + 2 * doubles) * sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    double *L = memory + dim, *P = L + doubles;
    for (int k = 0; first && k < POLISHES; k++) { /* far or badly scaled: it stops early */
        double before = U;
        preconditioner here = {.dim = (int)dim, .diagonal = !f->full, .gradient = 1, .C = P};
        if (curvature(f, f->x, NULL, &status) || factors(f, L, P)) break;
        status = descend_in(f, &here, POLISH_STEPS, &U, &ended);
        if (status != SOSMC_OK || ended || !(U < before - 1e-3)) break;
    }
    int known = 0, odd = 0;
    for (int k = 0; k < out->count && !known; k++) known = distance2(f, out, k, f->x) < 1 + 0.1 * (double)dim;
    if (status == SOSMC_OK && !known) {
        double *sd = NULL;
        if (out->count > 0) { /* widths of the best mode are a first guess */
            sd = f->many_U;
            for (size_t j = 0; j < dim; j++) {
                const double *row = out->L[0] + (f->full ? j * dim : j);
                sd[j] = sqrt(f->full ? sosmc_i_dot(dim, row, row) : row[0] * row[0]);
            }
        }
        odd = curvature(f, f->x, sd, &status) || factors(f, L, P);
    }
    if (status == SOSMC_OK && !known && !odd) {
        f->s->v.evaluations++;
        status = sosmc_host_gradients(f->d.host, 1, f->x, &U, f->many_g);
        preconditioner here = {.dim = (int)dim, .diagonal = !f->full, .C = P};
        memcpy(f->other, f->many_g, dim * sizeof(double));
        sosmc_i_whiten(&here, f->other);
        odd = !(sosmc_i_dot(dim, f->other, f->other) < 0.1 * (double)dim) ||
              !isfinite(U); /* still on a slope: no mode */
    }
    if (status != SOSMC_OK || known || odd) {
        free(memory);
        return status;
    }
    memcpy(memory, f->x, dim * sizeof(double));
    out->x[out->count] = memory;
    out->L[out->count] = L;
    out->P[out->count] = P;
    out->mass[out->count++] = -U + log_determinant(f, L) + 0.5 * (double)dim * LOG_2PI;
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- all of them */

/* Rows of the data or draws of a source: `n` points into f->many. */
static sosmc_status points_of(finding *f, const sosmc_source *source, int n, double *points)
{
    size_t dim = f->dim;
    sosmc_rng rng = {.seed = f->s->o.seed, .step = (uint64_t)f->s->v.start_clock, .stream = STREAM_DATA};
    for (int k = 0; k < n; k++) {
        sosmc_batch b = {.x = f->x, .simd = f->s->simd, .dim = (int)dim, .n = 1, .ld = 1, .first = k};
        if (source->row && source->rows > 0) {
            b.first = (int64_t)((double)source->rows * (k + 0.5) / n);
            if (source->row(source->self, &b, f->x)) return SOSMC_EMODEL;
        } else if (source->draw(source->self, rng, &b, f->x)) {
            return SOSMC_EMODEL;
        }
        if (source == &f->s->problem.objective.data) sosmc_i_to_z(&f->s->problem.model, &b, f->x);
        memcpy(points + (size_t)k * dim, f->x, dim * sizeof(double));
    }
    return SOSMC_OK;
}

static void keep_heavy(places *p)
{
    double best = p->count ? p->mass[best_of(p)] : 0;
    int kept = 0;
    for (int k = 0; k < p->count; k++) {
        if (!(p->mass[k] > best - NEGLIGIBLE)) {
            free(p->x[k]);
            continue;
        }
        p->x[kept] = p->x[k];
        p->L[kept] = p->L[k];
        p->P[kept] = p->P[k];
        p->mass[kept++] = p->mass[k];
    }
    p->count = kept;
}

/* A random point `far` standard deviations around the best mode; or in the user's units. */
static void point_around(finding *f, double far, int own_units)
{
    size_t dim = f->dim;
    const places *p = f->out;
    normals(f, dim, f->other);
    for (size_t j = 0; j < dim; j++) f->start[j] = far * f->other[j];
    if (own_units || p->count == 0) return;
    int best = best_of(p);
    for (size_t j = 0; j < dim; j++) {
        const double *row = p->L[best] + (f->full ? j * dim : j);
        f->start[j] = p->x[best][j] + far * (f->full ? sosmc_i_dot(dim, row, f->other) : row[0] * f->other[j]);
    }
}

static void point_among(finding *f)
{
    size_t dim = f->dim;
    const places *p = f->out;
    double z[PLACES_MOST];
    normals(f, (size_t)p->count, z);
    for (size_t j = 0; j < dim; j++) {
        double mean = 0, away = 0;
        for (int k = 0; k < p->count; k++) mean += p->x[k][j] / p->count;
        for (int k = 0; k < p->count; k++) away += z[k] * (p->x[k][j] - mean);
        f->start[j] = mean + 1.5 * away / sqrt(p->count);
    }
}

static sosmc_status search_all(finding *f, int seeds, const double *seed)
{
    static const double around[] = {1, 1, 4, 4, 4, 4, 16, 16, 16, 16, 64, 64, 64}, few[] = {1, 4, 16},
                        own[] = {1, 4, 4, 16, 16};
    const sosmc_problem *problem = &f->s->problem;
    const sosmc_source *data = problem->objective.b != 0 ? &problem->objective.data : NULL, *init = &problem->init;
    size_t dim = f->dim;
    int known = data && data->draw;
    double *points = f->many + 2 * (f->full ? dim : PROBES) * dim; /* behind what differences need */
    sosmc_status status = SOSMC_OK;
    memset(f->start, 0, dim * sizeof(double));
    if (!known) status = try_start(f, 1);
    for (int k = 0; k < seeds && status == SOSMC_OK; k++) {
        memcpy(f->start, seed + (size_t)k * dim, dim * sizeof(double));
        status = try_start(f, 1);
    }
    for (int which = 0; which < 2 && status == SOSMC_OK; which++) {
        const sosmc_source *source = which == 0 ? data : init;
        if (!source || !source->draw) continue;
        status = points_of(f, source, KNOWN_ROWS, points);
        for (int k = 0; k < KNOWN_ROWS && status == SOSMC_OK; k++) {
            memcpy(f->start, points + (size_t)k * dim, dim * sizeof(double));
            status = try_start(f, 1);
        }
    }
    for (size_t k = 0; k < sizeof own / sizeof *own && f->full && !known && status == SOSMC_OK; k++) {
        point_around(f, own[k], 1);
        status = try_start(f, 1);
    }
    int found = 1; /* the last round found a mode */
    for (int round = 0; round < ROUNDS && (found || round < LEAST_ROUNDS) && status == SOSMC_OK; round++) {
        int before = f->out->count;
        for (size_t k = 0; k < (f->full ? sizeof around : sizeof few) / sizeof *few && status == SOSMC_OK; k++) {
            point_around(f, f->full ? around[k] : few[k], 0);
            status = try_start(f, 0);
        }
        keep_heavy(f->out);
        for (int k = 0; k < AMONG && f->out->count > 1 && status == SOSMC_OK; k++) {
            point_among(f);
            status = try_start(f, 0);
        }
        keep_heavy(f->out);
        found = f->out->count > before;
        if (!f->full) break;
    }
    return status;
}

sosmc_status sosmc_i_places_find(sosmc_solver *s, places *p, const double *theta, int seeds, const double *seed)
{
    size_t dim = (size_t)s->dim;
    int full = s->dim <= FULL;
    size_t probes = full ? dim : PROBES, square = full ? dim * dim : PROBES * dim;
    finding f = {.s = s, .out = p, .theta = theta, .dim = dim, .full = full};
    sosmc_i_places_free(p);
    double *memory = calloc(8 * dim + 2 * square + 4 * probes * dim + KNOWN_ROWS * dim + 2 * probes + dim,
                            sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    f.start = memory;
    f.x = f.start + dim;
    f.sd = f.x + dim;
    f.other = f.sd + dim;
    f.values = f.other + dim;
    f.unit = f.values + dim;
    f.H = f.unit + dim;
    f.vectors = f.H + square;
    f.many = f.vectors + square;
    f.many_g = f.many + 2 * probes * dim + KNOWN_ROWS * dim;
    f.many_U = f.many_g + 2 * probes * dim; /* 2 probes, at least dim */
    sosmc_status status = sosmc_i_descent_open(&f.d, &s->problem.model, theta);
    if (status == SOSMC_OK) status = search_all(&f, seeds, seed);
    sosmc_i_descent_close(&f.d);
    free(memory);
    return status;
}

/* ---------------------------------------------------------------------------- laws */

/* The heaviest modes, at most PLACES_KEPT; returns their number. */
static int heaviest(const places *p, int order[PLACES_MOST])
{
    for (int k = 0; k < p->count; k++) {
        int at = k;
        for (; at > 0 && p->mass[order[at - 1]] < p->mass[k]; at--) order[at] = order[at - 1];
        order[at] = k;
    }
    return p->count < PLACES_KEPT ? p->count : PLACES_KEPT;
}

/* How much wider law B's wide component is than all modes together. */
static double widening(const sosmc_solver *s) { return 1 + 2 * fmin(1, sqrt(10.0 / s->dim)); }

/* Mean and widths of that component. */
static void wide_over(const sosmc_solver *s, const places *p, const int *order, int count, double *mean, double *wide)
{
    size_t dim = (size_t)s->dim;
    int full = s->dim <= FULL;
    double factor = widening(s);
    for (size_t j = 0; j < dim; j++) {
        double own = 0, between = 0;
        mean[j] = 0;
        for (int k = 0; k < count; k++) {
            const double *row = p->L[order[k]] + (full ? j * dim : j);
            mean[j] += p->x[order[k]][j] / count;
            own = fmax(own, full ? sosmc_i_dot(dim, row, row) : row[0] * row[0]);
        }
        for (int k = 0; k < count; k++)
            between += (p->x[order[k]][j] - mean[j]) * (p->x[order[k]][j] - mean[j]) / count;
        wide[j] = factor * sqrt((count ? own : 1) + between);
    }
}

static void diagonal_factor(const laws *q, double times, const double *widths, double *L)
{
    size_t dim = (size_t)q->dim;
    memset(L, 0, sosmc_i_law_doubles(q) * sizeof(double));
    for (size_t j = 0; j < dim; j++) L[q->diagonal ? j : j * dim + j] = times * widths[j];
}

/* A normal fit of draws of the initial law, as a Student law of weight `weight`. */
static sosmc_status add_initial(sosmc_solver *s, laws *q, double weight, double *mean, double *L)
{
    const sosmc_source *init = &s->problem.init;
    size_t dim = (size_t)s->dim;
    sosmc_status status = SOSMC_OK;
    double *x = malloc(DRAWN * (dim + 1) * sizeof *x), *w;
    if (!x) return SOSMC_ENOMEM;
    w = x + DRAWN * dim;
    sosmc_rng rng = {.seed = s->o.seed, .step = (uint64_t)s->v.start_clock, .stream = STREAM_PLACES};
    for (int i = 0; i < DRAWN && status == SOSMC_OK; i++) {
        sosmc_batch b = {.x = x + (size_t)i * dim, .simd = s->simd, .dim = s->dim, .n = 1, .ld = 1, .first = i};
        w[i] = 1.0 / DRAWN;
        if (init->draw(init->self, rng, &b, x + (size_t)i * dim)) status = SOSMC_EMODEL;
    }
    if (status == SOSMC_OK && sosmc_i_fit_normal(q, DRAWN, x, w, 1.2, mean, L) == 0 &&
        sosmc_i_laws_add(q, weight, degrees(s), mean, L))
        status = SOSMC_ENOMEM;
    free(x);
    return status;
}

sosmc_status sosmc_i_places_laws(sosmc_solver *s, const places *p, laws q[2])
{
    int order[PLACES_MOST], count = heaviest(p, order), dof = degrees(s), failed = 0;
    int many = p->many, with_init = s->problem.init.draw != NULL;
    size_t dim = (size_t)s->dim;
    double total = 0, *mean = malloc((2 * dim + sosmc_i_law_doubles(&q[0])) * sizeof *mean);
    if (!mean) return SOSMC_ENOMEM;
    double *wide = mean + dim, *L = wide + dim;
    for (int k = 0; k < count; k++) total += sosmc_i_exp1(NULL, p->mass[order[k]] - p->mass[order[0]]);
    for (int k = 0; k < count && !many; k++) {
        double share = 0.5 / count + 0.5 * sosmc_i_exp1(NULL, p->mass[order[k]] - p->mass[order[0]]) / total;
        for (size_t j = 0; j < sosmc_i_law_doubles(&q[0]); j++) L[j] = 1.1 * p->L[order[k]][j];
        failed |= sosmc_i_laws_add(&q[0], 0.95 * share, dof, p->x[order[k]], L);
    }
    wide_over(s, p, order, many ? p->count : count, mean, wide);
    diagonal_factor(&q[0], many ? NEARLY / widening(s) : 1, wide, L);
    failed |= sosmc_i_laws_add(&q[0], count && !many ? 0.05 : 1, dof, mean, L);
    diagonal_factor(&q[0], 1, wide, L);
    failed |= sosmc_i_laws_add(&q[1], many ? 1 : with_init ? 1.0 / 3 : 0.5, dof, mean, L);
    for (size_t j = 0; j < dim; j++) {
        mean[j] = 0;
        wide[j] = 1;
    }
    diagonal_factor(&q[0], 1, wide, L);
    if (!many) failed |= sosmc_i_laws_add(&q[1], with_init ? 1.0 / 3 : 0.5, dof, mean, L);
    sosmc_status status = failed ? SOSMC_ENOMEM : SOSMC_OK;
    if (status == SOSMC_OK && with_init) status = add_initial(s, &q[1], 1.0 / 3, mean, L);
    sosmc_i_laws_close(&q[0]);
    sosmc_i_laws_close(&q[1]);
    free(mean);
    return status;
}
