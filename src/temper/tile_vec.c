/* tile_vec.c: densities, proposals and acceptance of the particles of a tile, compiled once per vector level.
 *
 *     whitened slope s = C^-1 (t gU + (1 - t) gq),   step = sqrt(2h) z - h s,   y = x + C^-T step
 *     log ratio = V(x) - V(y) + sum_j (s_j + s'_j) (step_j / 2 + h (s_j - s'_j) / 4)
 *
 * which is one leapfrog step of length sqrt(2h) with momentum z. A trajectory goes on with step <- step - 2 h s, and ends with the
 * kinetic energy |step - h s|^2 / (4h). Both are right for any slope that depends on the place alone, so that `pull`, which is taken
 * away from it before C^-1, makes moves better or worse but never wrong.
 *
 * Blocks of up to four octets of particles are solved together, so that every entry of a triangle is read once for all of them;
 * the rows of a block stand in `work`, without gaps.
 *
 * Invariant: a particle's numbers come from one sequence of operations, whatever its neighbours, the level and the block. */
#include "tile.h"

#include "base/simd.h"
#include "base/vmath.h"

#if defined(SOSMC_LEVEL_PLAIN)
enum { OCTETS = 1 }; /* where vectors do not live in registers, blocks gain nothing */
#else
enum { OCTETS = 4 };
#endif

/* Octets of the block that begins at particle i. */
VEC int octets_at(int i, int n, int ld) { return ld > 1 && n - i > (OCTETS - 1) * LANES ? OCTETS : 1; }

/* Lanes of octet r of the particles from i on. */
VEC int lanes_of(int i, int r, int n)
{
    int left = n - i - r * LANES;
    return left < LANES ? left : LANES;
}

/* In what follows `octets` and `width`, the lanes of a row of a tile that may be touched, are constants where it is expanded. */

VEC double *block_row(double *work, size_t j, int octets, int r)
{
    return work + (j * (size_t)octets + (size_t)r) * LANES;
}

/* s <- C^-1 s for the rows of a block. */
VEC void solve_lower(const triangle *C, int octets, double *s)
{
    size_t dim = (size_t)C->dim;
    for (size_t k = 0; k < dim; k++) {
        vd a[OCTETS], inverse = vd_set(C->inverse[k]);
        for (int r = 0; r < octets; r++) a[r] = vd_load(block_row(s, k, octets, r));
        for (size_t q = 0; !C->diagonal && q < k; q++) {
            vd c = vd_set(C->factor[k * dim + q]);
            for (int r = 0; r < octets; r++) a[r] = vd_fnma(c, vd_load(block_row(s, q, octets, r)), a[r]);
        }
        for (int r = 0; r < octets; r++) vd_store(block_row(s, k, octets, r), vd_mul(a[r], inverse));
    }
}

/* s <- C^-T s */
VEC void solve_lower_transposed(const triangle *C, int octets, double *s)
{
    size_t dim = (size_t)C->dim;
    for (size_t k = dim; k-- > 0;) {
        vd a[OCTETS], inverse = vd_set(C->inverse[k]);
        for (int r = 0; r < octets; r++) a[r] = vd_load(block_row(s, k, octets, r));
        for (size_t q = k + 1; !C->diagonal && q < dim; q++) {
            vd c = vd_set(C->factor[q * dim + k]);
            for (int r = 0; r < octets; r++) a[r] = vd_fnma(c, vd_load(block_row(s, q, octets, r)), a[r]);
        }
        for (int r = 0; r < octets; r++) vd_store(block_row(s, k, octets, r), vd_mul(a[r], inverse));
    }
}

/* ------------------------------------------------------------------------------------------------ densities */

/* The sum over components so far, as total * exp(top). */
typedef struct {
    vd top, total;
} mixed;

/* Adds a component whose logarithm is `part`: what stood there is to be multiplied by *scale, and the new one has the weight
 * *share in the new unit. One exponential serves both. A share below 1e-17 is none. */
VEC void mix(mixed *m, vd part, vd *scale, vd *share)
{
    const vd zero = vd_set(0.0), one = vd_set(1.0);
    vd above = vd_sub(part, m->top), e = vd_exp(vd_min(above, vd_sub(zero, above)));
    e = vd_sel(vd_lt(e, vd_set(1e-17)), zero, e);
    vm grows = vd_lt(zero, above);
    *scale = vd_sel(grows, e, one);
    *share = vd_sel(grows, one, e);
    m->total = vd_fma(m->total, *scale, *share);
    m->top = vd_sel(grows, part, m->top);
}

/* log of a_k q_k from the square |L^-1 (x - m)|^2, and the factor of L^-T L^-1 (x - m) in the gradient of -log q_k. */
VEC vd log_part(const laws *q, int k, vd square, vd *slope)
{
    const law *a = &q->part[k];
    vd at_mean = vd_set(q->log_weight[k] + a->log_norm);
    double dof = a->dof, both = dof + q->dim;
    *slope = vd_set(1.0);
    if (a->dof == 0) return vd_fnma(vd_set(0.5), square, at_mean);
    *slope = vd_div(vd_set(both), vd_add(vd_set(dof), square));
    return vd_fnma(vd_set(0.5 * both), vd_log(vd_add(vd_set(1.0), vd_div(square, vd_set(dof)))), at_mean);
}

VEC void block_energies(const laws *q, int octets, int width, int i, int n, size_t ld, const double *x, double *energy,
                        double *gradient, double *work)
{
    const size_t dim = (size_t)q->dim;
    mixed m[OCTETS];
    for (int r = 0; r < octets; r++) m[r] = (mixed){.top = vd_set(0.0), .total = vd_set(1.0)};
    for (int k = 0; k < q->count; k++) {
        const law *a = &q->part[k];
        const triangle L = {.dim = q->dim, .diagonal = q->diagonal, .factor = a->L, .inverse = a->inverse};
        vd square[OCTETS], scale[OCTETS], share[OCTETS], slope, any = vd_set(0.0);
        for (size_t j = 0; j < dim; j++)
            for (int r = 0; r < octets; r++)
                vd_store(block_row(work, j, octets, r),
                         vd_sub(vd_load_n(x + j * ld + (size_t)(i + r * LANES), width), vd_set(a->mean[j])));
        solve_lower(&L, octets, work);
        for (int r = 0; r < octets; r++) square[r] = vd_set(0.0);
        for (size_t j = 0; j < dim; j++)
            for (int r = 0; r < octets; r++) {
                vd z = vd_load(block_row(work, j, octets, r));
                square[r] = vd_fma(z, z, square[r]);
            }
        for (int r = 0; r < octets; r++) {
            vd part = log_part(q, k, square[r], &slope);
            scale[r] = share[r] = vd_set(1.0);
            if (k > 0)
                mix(&m[r], part, &scale[r], &share[r]);
            else
                m[r].top = part;
            any = vd_add(any, share[r]);
            share[r] = vd_mul(share[r], slope);
        }
        if (!gradient || vd_fold(any) == 0) continue;
        solve_lower_transposed(&L, octets, work);
        for (size_t j = 0; j < dim; j++)
            for (int r = 0; r < octets; r++) {
                double *g = gradient + j * ld + (size_t)(i + r * LANES);
                vd part = vd_mul(share[r], vd_load(block_row(work, j, octets, r)));
                vd_store_n(g, width, k > 0 ? vd_fma(scale[r], vd_load_n(g, width), part) : part);
            }
    }
    for (int r = 0; r < octets; r++) {
        vd minus = vd_add(m[r].top, vd_log(m[r].total)), none = vd_set((double)INFINITY);
        vd value = vd_sub(vd_set(0.0), minus), inverse = vd_div(vd_set(1.0), m[r].total);
        vd_store_n(energy + i + r * LANES, lanes_of(i, r, n), vd_sel(vd_lt(value, none), value, none));
        for (size_t j = 0; gradient && q->count > 1 && j < dim; j++) {
            double *g = gradient + j * ld + (size_t)(i + r * LANES);
            vd_store_n(g, width, vd_mul(vd_load_n(g, width), inverse));
        }
    }
}

static void energies(const laws *q, int n, int ld, const double *x, double *energy, double *gradient, double *work)
{
    for (int i = 0, octets; i < n; i += octets * LANES) {
        octets = octets_at(i, n, ld);
        if (OCTETS > 1 && octets == OCTETS)
            block_energies(q, OCTETS, LANES, i, n, (size_t)ld, x, energy, gradient, work);
        else
            block_energies(q, 1, ld > 1 ? LANES : 1, i, n, (size_t)ld, x, energy, gradient, work);
    }
}

/* ------------------------------------------------------------------------------------------------ moves */

VEC vd blend(double t, vd U, vd Lq) { return t < 1 ? vd_fma(vd_set(t), U, vd_mul(vd_set(1 - t), Lq)) : U; }

/* The slopes of a block in whitened coordinates, into work. */
VEC void slopes(const tile_move *m, int octets, int width, int i, size_t ld, const tile_points *p, double *work)
{
    for (size_t j = 0; j < (size_t)m->C.dim; j++)
        for (int r = 0; r < octets; r++) {
            size_t at = j * ld + (size_t)(i + r * LANES);
            vd g = blend(m->t, vd_load_n(p->gU + at, width), vd_load_n(p->gq + at, width));
            if (m->pull)
                g = vd_sub(g, vd_fma(vd_set(m->pull[2 * j + 1]), vd_load_n(p->x + at, width), vd_set(m->pull[2 * j])));
            vd_store(block_row(work, j, octets, r), g);
        }
    solve_lower(&m->C, octets, work);
}

VEC void block_propose(const tile_move *m, int octets, int width, int i, size_t ld, const tile_points *p, double *z,
                       double *g, double *y, double *work)
{
    const vd noise = vd_sqrt(vd_set(2 * m->h)), h = vd_set(m->goes_on ? 2 * m->h : m->h);
    if (m->gradient) slopes(m, octets, width, i, ld, p, work);
    for (size_t j = 0; j < (size_t)m->C.dim; j++)
        for (int r = 0; r < octets; r++) {
            size_t at = j * ld + (size_t)(i + r * LANES);
            vd step = vd_mul(m->goes_on ? vd_set(1.0) : noise, vd_load_n(z + at, width));
            if (m->gradient) {
                vd slope = vd_load(block_row(work, j, octets, r));
                vd_store_n(g + at, width, slope);
                step = vd_fnma(h, slope, step);
            }
            vd_store_n(z + at, width, step);
            vd_store(block_row(work, j, octets, r), step);
        }
    solve_lower_transposed(&m->C, octets, work);
    for (size_t j = 0; j < (size_t)m->C.dim; j++)
        for (int r = 0; r < octets; r++) {
            size_t at = j * ld + (size_t)(i + r * LANES);
            vd step = vd_load(block_row(work, j, octets, r));
            vd_store_n(y + at, width, vd_add(vd_load_n(p->x + at, width), step));
        }
}

static void propose(const tile_move *m, int n, int ld, const tile_points *at, double *z, double *g, double *y,
                    double *work)
{
    for (int i = 0, octets; i < n; i += octets * LANES) {
        octets = octets_at(i, n, ld);
        if (OCTETS > 1 && octets == OCTETS)
            block_propose(m, OCTETS, LANES, i, (size_t)ld, at, z, g, y, work);
        else
            block_propose(m, 1, ld > 1 ? LANES : 1, i, (size_t)ld, at, z, g, y, work);
    }
}

VEC void block_kinetic(const tile_move *m, int octets, int width, int i, int n, size_t ld, const tile_points *p,
                       const double *step, double *energy, double *work)
{
    const vd h = vd_set(m->h);
    vd sum[OCTETS];
    for (int r = 0; r < octets; r++) sum[r] = vd_set(0.0);
    slopes(m, octets, width, i, ld, p, work);
    for (size_t j = 0; j < (size_t)m->C.dim; j++)
        for (int r = 0; r < octets; r++) {
            vd last = vd_load_n(step + j * ld + (size_t)(i + r * LANES), width);
            vd momentum = vd_fnma(h, vd_load(block_row(work, j, octets, r)), last);
            sum[r] = vd_fma(momentum, momentum, sum[r]);
        }
    for (int r = 0; r < octets; r++)
        vd_store_n(energy + i + r * LANES, lanes_of(i, r, n), vd_mul(vd_set(0.25 / m->h), sum[r]));
}

static void kinetic(const tile_move *m, int n, int ld, const tile_points *at, const double *step, double *energy,
                    double *work)
{
    for (int i = 0, octets; i < n; i += octets * LANES) {
        octets = octets_at(i, n, ld);
        if (OCTETS > 1 && octets == OCTETS)
            block_kinetic(m, OCTETS, LANES, i, n, (size_t)ld, at, step, energy, work);
        else
            block_kinetic(m, 1, ld > 1 ? LANES : 1, i, n, (size_t)ld, at, step, energy, work);
    }
}

/* to <- from where a particle is replaced; the padding stays as it is. */
VEC void replace(vm stays, double *to, const double *from, int lanes)
{
    vd_store_n(to, lanes, vd_sel(stays, vd_load_n(to, lanes), vd_load_n(from, lanes)));
}

VEC void block_decide(const tile_move *m, int octets, int width, int i, int n, size_t ld, const tile_points *p,
                      const tile_points *to, const double *step, const double *g, const double *u, double *accepted,
                      double *work)
{
    const vd zero = vd_set(0.0), half = vd_set(0.5), quarter = vd_set(0.25 * m->h), infinite = vd_set((double)INFINITY);
    const size_t dim = (size_t)m->C.dim;
    vd sum[OCTETS];
    for (int r = 0; r < octets; r++) sum[r] = m->gain ? vd_load_n(m->gain + i + r * LANES, lanes_of(i, r, n)) : zero;
    int one_step = m->gradient && !m->gain;
    if (one_step) slopes(m, octets, width, i, ld, to, work);
    for (size_t j = 0; one_step && j < dim; j++)
        for (int r = 0; r < octets; r++) {
            size_t at = j * ld + (size_t)(i + r * LANES);
            vd g0 = vd_load_n(g + at, width), g1 = vd_load(block_row(work, j, octets, r));
            vd mean = vd_fma(half, vd_load_n(step + at, width), vd_mul(quarter, vd_sub(g0, g1)));
            sum[r] = vd_fma(vd_add(g0, g1), mean, sum[r]);
        }
    for (int r = 0; r < octets; r++) {
        int at = i + r * LANES, lanes = lanes_of(i, r, n);
        vd U0 = vd_load_n(p->U + at, lanes), U1 = vd_load_n(to->U + at, lanes);
        vd V0 = blend(m->t, U0, vd_load_n(p->Lq + at, lanes)), V1 = blend(m->t, U1, vd_load_n(to->Lq + at, lanes));
        vd ratio = vd_add(vd_sub(V0, V1), sum[r]);
        vd share = vd_sel(vd_lt(vd_set(-700.0), ratio), vd_exp(vd_min(ratio, zero)), zero); /* no number: no share */
        share = vd_sel(vd_lt(vd_mul(U1, zero), infinite), share, zero);                     /* U1 is not finite: none */
        vm stays = vd_lt(share, vd_load_n(u + at, lanes));
        vd_store_n(accepted + at, lanes, share);
        replace(stays, p->U + at, to->U + at, lanes);
        replace(stays, p->Lq + at, to->Lq + at, lanes);
        for (size_t j = 0; j < dim; j++) {
            size_t place = j * ld + (size_t)at;
            replace(stays, p->x + place, to->x + place, lanes);
            if (!m->gradient) continue;
            replace(stays, p->gU + place, to->gU + place, lanes);
            replace(stays, p->gq + place, to->gq + place, lanes);
        }
    }
}

static void decide(const tile_move *m, int n, int ld, const tile_points *at, const tile_points *to, const double *step,
                   const double *g, const double *u, double *accepted, double *work)
{
    for (int i = 0, octets; i < n; i += octets * LANES) {
        octets = octets_at(i, n, ld);
        if (OCTETS > 1 && octets == OCTETS)
            block_decide(m, OCTETS, LANES, i, n, (size_t)ld, at, to, step, g, u, accepted, work);
        else
            block_decide(m, 1, ld > 1 ? LANES : 1, i, n, (size_t)ld, at, to, step, g, u, accepted, work);
    }
}

/* ------------------------------------------------------------------------------------------------ weights */

static void spread(int n, const double *w, const double *d, double step, double most, double sums[2])
{
    vd first = vd_set(0.0), second = first;
    for (int i = 0; i < n; i += LANES) {
        int lanes = n - i < LANES ? n - i : LANES;
        vd above = vd_min(vd_sub(vd_load_n(d + i, lanes), vd_set(most)), vd_set(0.0)); /* of lanes in use it is <= 0 */
        vd v = vd_exp(vd_mul(vd_set(step), above));
        vd wv = vd_mul(vd_load_n(w + i, lanes), v);
        first = vd_add(first, wv);
        second = vd_fma(wv, v, second);
    }
    sums[0] = vd_fold(first);
    sums[1] = vd_fold(second);
}

extern const tile_code AT_LEVEL(sosmc_i_tile);
const tile_code AT_LEVEL(sosmc_i_tile) = {
    .energies = energies, .propose = propose, .kinetic = kinetic, .decide = decide, .spread = spread};
