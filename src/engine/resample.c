/* resample.c: ancestors of n offspring, so that E[number of offspring of particle a] = n w_a / W, W = sum w.
 *
 * Three schemes put ascending points on [0, W) and take, for each, the first particle whose cumulative weight is
 * strictly greater:
 *
 *     systematic   p_i = (i + u) W/n        one uniform
 *     stratified   p_i = (i + u_i) W/n
 *     multinomial  p_i = W S_i / S_n        S_i = E_0 + ... + E_i, E = -log u: sorted uniforms without sorting
 *
 * Two copy every particle floor(n w_a/W) times and share out the fractions r_a: residual by multinomial points on the
 * r_a, SSP by the sequential pivotal method, which rounds each r_a to 0 or 1 and keeps their sum.
 *
 * Invariants: ancestors ascend. A particle of weight zero has no offspring: cumulative weights stay equal across it,
 * and no point reaches W. Sums have a fixed shape, serial within chunks of SOSMC_I_CHUNK and then serial over chunks,
 * whoever computes them. */
#include "base/arithmetic.h"
#include "resample.h"

#include <float.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ sums in chunks */

static int chunk_end(int n, int first) { return n - first > SOSMC_I_CHUNK ? first + SOSMC_I_CHUNK : n; }

/* The sum of all chunks; s holds sums within chunks. */
static double sum_ends(int n, const double *s)
{
    double sum = 0.0;
    for (int first = 0, end; first < n; first = end) {
        end = chunk_end(n, first);
        sum += s[end - 1];
    }
    return sum;
}

/* Makes the last entry of every chunk final: factor * (sum up to here). The others follow in `shift`, in any order,
 * because each needs only the end of the chunk before, which no longer changes. */
static void shift_ends(int n, double factor, double cap, double *s)
{
    double before = 0.0;
    for (int first = 0, end; first < n; first = end) {
        end = chunk_end(n, first);
        double sum = before + s[end - 1] * factor;
        /* cap for NaN too: spacings that are all zero have an infinite factor */
        s[end - 1] = before = sum < cap ? sum : cap;
    }
}

static void shift(int n, int first, int count, double factor, double cap, double *s)
{
    for (int stop = first + count, end; first < stop; first = end) {
        end = chunk_end(n, first);
        double before = first ? s[first - 1] : 0.0;
        for (int i = first; i < end - 1; i++) {
            double sum = before + s[i] * factor;
            s[i] = sum < cap ? sum : cap;
        }
    }
}

/* ------------------------------------------------------------------------------------------------ stages */

double sosmc_i_scale(double max)
{
    if (!(max > 0.0 && max <= DBL_MAX)) return 0.0;
    if (max > 0x1p+500) return 0x1p-600; /* 2^31 of the largest doubles still have a finite sum */
    if (max < 0x1p-500) return 0x1p+500; /* subnormal weights regain their digits */
    return 1.0;
}

sosmc_status sosmc_i_cumulate(sosmc_i_offspring *o, int first, int count)
{
    const double *w = o->w;
    double *c = o->c, scale = o->scale;
    int good = 1;
    for (int stop = first + count, end; first < stop; first = end) {
        end = chunk_end(o->n, first);
        double sum = 0.0;
        for (int a = first; a < end; a++) {
            good &= w[a] >= 0.0; /* false for NaN; free, since the loop waits for the sum */
            sum += w[a] * scale;
            c[a] = sum;
        }
    }
    return good ? SOSMC_OK : SOSMC_EINVAL;
}

void sosmc_i_spacings(sosmc_i_offspring *o, int first, int count)
{
    if (o->scheme != SOSMC_MULTINOMIAL && o->scheme != SOSMC_RESIDUAL) return;
    enum { BLOCK = 256 }; /* divides SOSMC_I_CHUNK: a block never spans two chunks */
    double u[BLOCK], logu[BLOCK], sum = 0.0;
    int stop = first + count;
    for (int i = first; i < stop; i += BLOCK) {
        int n = stop - i < BLOCK ? stop - i : BLOCK;
        o->simd->uniforms(o->rng, 0, i, n, u);
        o->simd->log(n, u, logu);
        if (i % SOSMC_I_CHUNK == 0) sum = 0.0;
        for (int k = 0; k < n; k++) {
            sum -= logu[k];
            o->p[i + k] = sum;
        }
    }
    if (stop == o->offspring) {
        o->simd->uniforms(o->rng, 0, stop, 1, u);
        o->simd->log(1, u, logu);
        o->p[stop] = -logu[0];
    }
}

sosmc_status sosmc_i_join(sosmc_i_offspring *o)
{
    o->total = sum_ends(o->n, o->c);
    if (!(o->total > 0.0 && o->total <= DBL_MAX)) return SOSMC_EINVAL;
    /* Rounding may lift the last points to the total, where no particle is; one ulp below, the last weight is. */
    o->cap = o->total * (1.0 - 0x1p-53);
    shift_ends(o->n, 1.0, o->total, o->c);
    if (o->scheme == SOSMC_MULTINOMIAL || o->scheme == SOSMC_RESIDUAL) {
        o->factor = o->total / (sum_ends(o->offspring, o->p) + o->p[o->offspring]);
        shift_ends(o->offspring, o->factor, o->cap, o->p);
    } else {
        o->factor = o->total / o->offspring;
        o->simd->uniforms(o->rng, 0, 0, 1, &o->u);
    }
    return SOSMC_OK;
}

/* p[i] = (i + u) * factor, with one u for all or with the uniforms that p holds. */
static void spread(const sosmc_i_offspring *o, int first, int end, int one)
{
    double *p = o->p, factor = o->factor, cap = o->cap, u = o->u;
    for (int i = first; i < end; i++) {
        double point = ((double)i + (one ? u : p[i])) * factor;
        p[i] = point < cap ? point : cap;
    }
}

/* The part of the range that lies below n. */
static int clip(int n, int first, int count) { return first >= n ? 0 : n - first < count ? n - first : count; }

void sosmc_i_points(sosmc_i_offspring *o, int first, int count)
{
    shift(o->n, first, clip(o->n, first, count), 1.0, o->total, o->c);
    count = clip(o->offspring, first, count);
    if (o->scheme == SOSMC_SYSTEMATIC) {
        spread(o, first, first + count, 1);
    } else if (o->scheme == SOSMC_STRATIFIED) {
        if (count > 0) o->simd->uniforms(o->rng, 0, first, count, o->p + first);
        spread(o, first, first + count, 0);
    } else {
        shift(o->offspring, first, count, o->factor, o->cap, o->p);
    }
}

/* ------------------------------------------------------------------------------------------------ the merge */

/* First index in lo..hi whose c is above the point; c[hi] is known to be. */
static int first_above(const double *c, int lo, int hi, double point)
{
    while (lo < hi) {
        int middle = lo + (hi - lo) / 2;
        if (c[middle] > point)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

/* Where the merge stands: the next offspring and its smallest possible ancestor. */
typedef struct {
    size_t i, a;
} cursor;

/* One comparison: either the offspring has found its ancestor, or the ancestor has no more offspring. It has no branch,
 * because the outcome cannot be predicted; a number that is stored too early is overwritten by the next step. */
static inline cursor advance(cursor k, const double *restrict c, const double *restrict p, int *restrict ancestors)
{
    ancestors[k.i] = (int)k.a;
    size_t found = p[k.i] < c[k.a];
    return (cursor){k.i + found, k.a + 1 - found};
}

/* The merge that starts at offspring `first` and ancestor `begin`, after `steps` steps. There the ancestor before is
 * used up for the present offspring, c[a-1] <= p[i]; the smallest i of that kind is the one. */
static cursor merge_at(const double *c, const double *p, int first, int count, int begin, int end, int64_t steps)
{
    int64_t lo = steps > end - begin ? steps - (end - begin) : 0, hi = steps < count ? steps : count;
    while (lo < hi) {
        int64_t i = lo + (hi - lo) / 2;
        if (c[begin + steps - i - 1] <= p[first + i])
            hi = i;
        else
            lo = i + 1;
    }
    return (cursor){(size_t)(first + lo), (size_t)(begin + steps - lo)};
}

/* The merge of a range is a path of count + (end - begin) steps, each waiting for the one before. Four stretches of
 * equal length walked at once hide that latency: 2.5 ns per offspring instead of 8. */
void sosmc_i_merge(sosmc_i_offspring *o, int first, int count)
{
    if (count <= 0) return;
    const double *restrict c = o->c, *restrict p = o->p;
    int *restrict ancestors = o->ancestors;
    size_t stop = (size_t)first + (size_t)count;
    int begin = first_above(c, 0, o->n - 1, p[first]);
    int end = first_above(c, begin, o->n - 1, p[stop - 1]);
    int64_t stretch = (count + (int64_t)(end - begin)) / 4;
    cursor k0 = {(size_t)first, (size_t)begin};
    cursor k1 = merge_at(c, p, first, count, begin, end, stretch);
    cursor k2 = merge_at(c, p, first, count, begin, end, 2 * stretch);
    cursor k3 = merge_at(c, p, first, count, begin, end, 3 * stretch);
    const size_t seam[3] = {k1.i, k2.i, k3.i};
    for (int64_t step = 0; step < stretch; step++) {
        k0 = advance(k0, c, p, ancestors);
        k1 = advance(k1, c, p, ancestors);
        k2 = advance(k2, c, p, ancestors);
        k3 = advance(k3, c, p, ancestors);
    }
    while (k3.i < stop) k3 = advance(k3, c, p, ancestors);
    /* At a seam the stretch before may have stored its premature number after the right one was there. */
    for (int s = 0; s < 3; s++)
        if (seam[s] < stop) ancestors[seam[s]] = first_above(c, begin, end, p[seam[s]]);
}

/* ------------------------------------------------------------------------------------------------ whole copies */

/* n w_a / W. Scaled before it is divided: the quotient of the scales alone may be subnormal. */
static inline double expected(const sosmc_i_offspring *o, int a) { return o->w[a] * o->scale * o->factor; }

/* floor(x), x = n w / W >= 0. The total is rounded; a fraction that misses the next integer by as little as that can
 * explain is taken for the integer, so that equal weights give one offspring each. */
static inline double whole(double x) { return (double)(int64_t)(x + x * 0x1p-40); }

static inline double fraction(double x)
{
    double f = x - whole(x);
    return f > 0.0 ? f : 0.0;
}

/* What rounding leaves over goes to a particle that has weight. */
static int last_positive(int n, const double *w)
{
    while (n > 1 && !(w[n - 1] > 0.0)) n--;
    return n - 1;
}

/* ancestors from numbers of offspring that sum to n: every particle is stored where its offspring begin (one without
 * offspring is overwritten by the next), then a running maximum fills the gaps. No branch depends on the counts. */
static void expand(int n, const double *counts, int *ancestors)
{
    memset(ancestors, 0, (size_t)n * sizeof *ancestors);
    for (int a = 0, next = 0; a < n && next < n; a++) {
        ancestors[next] = a;
        next += (int)counts[a];
    }
    int last = 0;
    for (int i = 0; i < n; i++) {
        last = ancestors[i] > last ? ancestors[i] : last;
        ancestors[i] = last;
    }
}

/* Ancestors of all offspring by points. */
static sosmc_status by_points(sosmc_i_offspring *o)
{
    sosmc_status status = sosmc_i_cumulate(o, 0, o->n);
    if (status == SOSMC_OK) sosmc_i_spacings(o, 0, o->offspring);
    if (status == SOSMC_OK) status = sosmc_i_join(o);
    if (status != SOSMC_OK) return status;
    sosmc_i_points(o, 0, o->n);
    sosmc_i_merge(o, 0, o->offspring);
    return SOSMC_OK;
}

/* Multinomial points on the fractions. Then p, whose points are done with, counts the offspring. */
static void residual(sosmc_i_offspring *o)
{
    double left = o->n;
    for (int a = 0; a < o->n; a++) {
        double x = expected(o, a);
        left -= whole(x);
        o->c[a] = fraction(x);
    }
    sosmc_i_offspring rest = *o;
    rest.w = o->c;
    rest.scale = 1.0;
    rest.offspring = left > 0.0 ? (int)left : 0;
    int drawn = rest.offspring > 0 && by_points(&rest) == SOSMC_OK;
    for (int a = 0; a < o->n; a++) o->p[a] = whole(expected(o, a));
    if (drawn)
        for (int i = 0; i < rest.offspring; i++) o->p[o->ancestors[i]] += 1.0;
    else
        o->p[last_positive(o->n, o->w)] += rest.offspring;
    expand(o->n, o->p, o->ancestors);
}

/* Without a branch, which would be wrong half of the time. */
static inline double least(double x, double y) { return x < y ? x : y; }
static inline int choose(int yes, int x, int y) { return y ^ ((x ^ y) & -yes); }

/* The pivot k carries the probability q of one more offspring and meets each particle a, of fraction r, in turn. One of
 * the two is decided, the other goes on with what is left, and both keep their expectation:
 *
 *     q + r < 1    one gets nothing, the other goes on with q + r;  k goes on with probability q / (q + r)
 *     otherwise    one gets one, the other goes on with q + r - 1;  a goes on with probability (1 - r) / (2 - q - r)
 *
 * The last pivot's q is 0 or 1 up to rounding, which the integer count of offspring settles. */
static void ssp(sosmc_i_offspring *o)
{
    int n = o->n, k = 0;
    const double *u = o->p;
    double *counts = o->c, q = fraction(expected(o, 0)), left = n - whole(expected(o, 0));
    o->simd->uniforms(o->rng, 0, 0, n, o->p);
    counts[0] = whole(expected(o, 0));
    for (int a = 1; a < n; a++) {
        double x = expected(o, a), copies = whole(x), r = fraction(x), sum = q + r;
        int full = sum >= 1.0;
        /* Either case is the one with the smaller terms. <=: u may be 1, and r = 0 must never become the pivot. */
        int stays = (u[a] * least(sum, 2.0 - sum) <= least(q, 1.0 - r)) ^ full;
        counts[a] = copies;
        counts[choose(stays, a, k)] += full;
        left -= copies + full;
        k = choose(stays, k, a);
        q = sum - full;
    }
    if (left > 0.0) counts[o->w[k] > 0.0 ? k : last_positive(n, o->w)] += left;
    expand(n, counts, o->ancestors);
}

sosmc_status sosmc_i_resample(const sosmc_simd *simd, sosmc_resampling scheme, sosmc_rng rng, int n, const double *w,
                              double *scratch, int *ancestors)
{
    if (n < 1 || !w || !scratch || !ancestors || (int)scheme < SOSMC_MULTINOMIAL || (int)scheme > SOSMC_SSP)
        return SOSMC_EINVAL;
    sosmc_i_offspring o = {.simd = simd,
                           .scheme = scheme,
                           .rng = rng,
                           .n = n,
                           .offspring = n,
                           .w = w,
                           .scale = sosmc_i_scale(simd->max(n, w)),
                           .c = scratch,
                           .p = scratch + n,
                           .ancestors = ancestors};
    if (o.scale == 0.0) return SOSMC_EINVAL;
    if (scheme != SOSMC_RESIDUAL && scheme != SOSMC_SSP) return by_points(&o);
    sosmc_status status = sosmc_i_cumulate(&o, 0, n);
    if (status != SOSMC_OK) return status;
    o.factor = n / sum_ends(n, o.c); /* finite and positive, because the largest scaled weight is */
    if (scheme == SOSMC_RESIDUAL)
        residual(&o);
    else
        ssp(&o);
    return SOSMC_OK;
}

sosmc_status sosmc_resample(sosmc_resampling scheme, sosmc_rng rng, int n, const double *w, double *scratch,
                            int *ancestors)
{
    STANDARD_ARITHMETIC;
    return sosmc_i_resample(sosmc_i_simd(NULL), scheme, rng, n, w, scratch, ancestors);
}
