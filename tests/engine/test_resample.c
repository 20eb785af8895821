/* test_resample.c: resampling against its definition and its promises.
 *
 * The expected number of offspring is n w / W, and of multinomial resampling the variances and covariances are known too:
 * means over replicates, compared by tests/support/stats.h, with negative controls (docs/statistics.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/resample.h"
#include "stats.h"

enum { SCHEMES = 5 };

static sosmc_rng named(uint64_t step)
{
    return (sosmc_rng){.seed = 2024, .step = step, .stream = SOSMC_STREAM_RESAMPLE};
}

/* The uniforms the library promises to use: draw 0 of particles 0..n-1. */
static void uniforms(sosmc_rng rng, int n, double *u)
{
    sosmc_batch b = {.dim = 1, .n = n, .ld = n};
    sosmc_uniforms(rng, 0, &b, u);
}

typedef struct {
    int n;
    double *w, *scratch;
    int *ancestors, *counts;
} bench;

static bench bench_new(int n)
{
    bench t = {.n = n};
    t.w = calloc((size_t)n, sizeof(double));
    t.scratch = calloc(2 * (size_t)n + 1, sizeof(double));
    t.ancestors = calloc((size_t)n, sizeof(int));
    t.counts = calloc((size_t)n, sizeof(int));
    assert_true(t.w && t.scratch && t.ancestors && t.counts);
    return t;
}

static void bench_free(bench *t)
{
    free(t->w);
    free(t->scratch);
    free(t->ancestors);
    free(t->counts);
}

static double total(const bench *t)
{
    double sum = 0.0;
    for (int a = 0; a < t->n; a++) sum += t->w[a];
    return sum;
}

/* Weights of several kinds, from named uniforms so that every run is the same. */
enum { EQUAL, MILD, WILD, GAPS, DOMINANT, KINDS };
static void fill(bench *t, int kind)
{
    uniforms((sosmc_rng){.seed = 7, .step = (uint64_t)kind, .stream = SOSMC_STREAM_USER}, t->n, t->scratch);
    for (int a = 0; a < t->n; a++) {
        double u = t->scratch[a];
        switch (kind) {
        case EQUAL: t->w[a] = 0.1; break;
        case MILD: t->w[a] = 0.5 + u; break;
        case WILD: t->w[a] = exp(12.0 * u); break;
        case GAPS: t->w[a] = a % 7 == 3 && a % 50 > 20 ? u : 0.0; break; /* zero at both ends and in long runs */
        default: t->w[a] = a == t->n / 2 ? 1.0 : 1e-9 * u; break;
        }
    }
    if (kind == GAPS) t->w[t->n / 2] = 1.0; /* small n too must have some weight */
}

/* What holds for every scheme; counts the offspring. */
static void expect_valid(bench *t)
{
    memset(t->counts, 0, (size_t)t->n * sizeof(int));
    for (int i = 0; i < t->n; i++) {
        int a = t->ancestors[i];
        assert_in_range(a, 0, t->n - 1);
        if (i) assert_true(t->ancestors[i - 1] <= a);
        assert_true(t->w[a] > 0.0);
        t->counts[a]++;
    }
}

static void resample(bench *t, sosmc_resampling scheme, uint64_t step)
{
    assert_int_equal(sosmc_resample(scheme, named(step), t->n, t->w, t->scratch, t->ancestors), SOSMC_OK);
    expect_valid(t);
}

/* -------------------------------------------------------------------------------------------- definitions */

static void systematic_by_hand(void **state)
{
    double w[4] = {1.0, 4.0, 0.0, 3.0}, scratch[9], u; /* points (i + u) * 2 against 1, 5, 5, 8 */
    int ancestors[4];
    for (uint64_t step = 0; step < 20; step++) {
        uniforms(named(step), 1, &u);
        assert_int_equal(sosmc_resample(SOSMC_SYSTEMATIC, named(step), 4, w, scratch, ancestors), SOSMC_OK);
        assert_int_equal(ancestors[0], u < 0.5 ? 0 : 1);
        assert_int_equal(ancestors[1], 1);
        assert_int_equal(ancestors[2], u < 0.5 ? 1 : 3);
        assert_int_equal(ancestors[3], 3);
    }
}

/* First particle whose cumulative weight is strictly greater than the point. */
static int by_definition(const bench *t, long double point)
{
    long double sum = 0.0L;
    for (int a = 0; a < t->n; a++) {
        sum += t->w[a];
        if (sum > point) return a;
    }
    return -1;
}

static void points_by_definition(void **state)
{
    enum { N = 1500 }; /* more than a chunk */
    bench t = bench_new(N);
    double u[N + 1];
    const int kinds[] = {MILD, WILD, GAPS};
    for (int q = 0; q < 3; q++) {
        fill(&t, kinds[q]);
        double W = total(&t);
        uniforms(named(3), N + 1, u);
        long double spacing = 0.0L, all = 0.0L;
        for (int i = 0; i <= N; i++) all -= logl(u[i]);

        resample(&t, SOSMC_STRATIFIED, 3);
        for (int i = 0; i < N; i++)
            assert_int_equal(t.ancestors[i], by_definition(&t, (i + (long double)u[i]) * W / N));
        resample(&t, SOSMC_SYSTEMATIC, 3);
        for (int i = 0; i < N; i++)
            assert_int_equal(t.ancestors[i], by_definition(&t, (i + (long double)u[0]) * W / N));
        resample(&t, SOSMC_MULTINOMIAL, 3);
        for (int i = 0; i < N; i++) {
            spacing -= logl(u[i]);
            assert_int_equal(t.ancestors[i], by_definition(&t, spacing / all * W));
        }
    }
    bench_free(&t);
}

/* -------------------------------------------------------------------------------------------- promises */

static void counts_are_floor_or_ceil(void **state)
{
    const int sizes[] = {1, 2, 3, 17, 100, 1023, 1024, 1025, 5000};
    for (size_t q = 0; q < sizeof sizes / sizeof *sizes; q++) {
        bench t = bench_new(sizes[q]);
        for (int kind = 0; kind < KINDS; kind++) {
            fill(&t, kind);
            double W = total(&t), slack = 1e-9;
            for (int scheme = 0; scheme < SCHEMES; scheme++)
                for (uint64_t step = 0; step < 5; step++) {
                    resample(&t, (sosmc_resampling)scheme, step);
                    for (int a = 0; a < t.n; a++) {
                        double x = t.n * t.w[a] / W;
                        if (scheme == SOSMC_SYSTEMATIC || scheme == SOSMC_SSP || scheme == SOSMC_RESIDUAL)
                            assert_true(t.counts[a] >= floor(x - slack));
                        if (scheme == SOSMC_SYSTEMATIC || scheme == SOSMC_SSP)
                            assert_true(t.counts[a] <= ceil(x + slack));
                        if (scheme == SOSMC_STRATIFIED) assert_true(fabs(t.counts[a] - x) < 2.0);
                    }
                }
        }
        bench_free(&t);
    }
}

/* The sum of n times w is not n w in floating point; nobody may lose or win by that. */
static void equal_weights_keep_everyone(void **state)
{
    const sosmc_resampling schemes[] = {SOSMC_STRATIFIED, SOSMC_SYSTEMATIC, SOSMC_RESIDUAL, SOSMC_SSP};
    const double weights[] = {1.0, 0.1, 1.0 / 3.0, 0.7, 1e300, 5e-324};
    for (int n = 1; n <= 10000; n = n < 300 ? n + 1 : 10 * n) {
        bench t = bench_new(n);
        for (int q = 0; q < 6; q++) {
            for (int a = 0; a < t.n; a++) t.w[a] = weights[q];
            for (int s = 0; s < 4; s++) {
                resample(&t, schemes[s], 11);
                for (int i = 0; i < t.n; i++) assert_int_equal(t.ancestors[i], i);
            }
        }
        bench_free(&t);
    }
}

/* Uniforms that a generator on (0, 1] may give, but hardly ever will. */
static void ones(sosmc_rng rng, uint32_t draw, int64_t first, int n, double *u)
{
    for (int i = 0; i < n; i++) u[i] = 1.0;
}
static void tiny(sosmc_rng rng, uint32_t draw, int64_t first, int n, double *u)
{
    for (int i = 0; i < n; i++) u[i] = 0x1p-52;
}
static void both(sosmc_rng rng, uint32_t draw, int64_t first, int n, double *u)
{
    for (int i = 0; i < n; i++) u[i] = (first + i) % 3 ? 1.0 : 0x1p-52;
}
static void halves(sosmc_rng rng, uint32_t draw, int64_t first, int n, double *u)
{
    for (int i = 0; i < n; i++) u[i] = 0.5;
}

static void uniforms_at_the_ends(void **state)
{
    void (*const extremes[])(sosmc_rng, uint32_t, int64_t, int, double *) = {ones, tiny, both};
    const int sizes[] = {1, 2, 49, 1024, 3000};
    for (int q = 0; q < 5; q++) {
        bench t = bench_new(sizes[q]);
        for (int e = 0; e < 3; e++) {
            struct sosmc_simd simd = *sosmc_simd_best();
            simd.uniforms = extremes[e];
            for (int kind = 0; kind < KINDS; kind++) {
                fill(&t, kind);
                if (t.n > 2) t.w[t.n - 1] = 0.0;
                for (int scheme = 0; scheme < SCHEMES; scheme++) {
                    memset(t.ancestors, -1, (size_t)t.n * sizeof(int));
                    assert_int_equal(
                        sosmc_i_resample(&simd, (sosmc_resampling)scheme, named(0), t.n, t.w, t.scratch, t.ancestors),
                        SOSMC_OK);
                    expect_valid(&t);
                }
            }
        }
        bench_free(&t);
    }
}

/* A point that equals a cumulative weight belongs to the next particle. */
static void strictly_greater(void **state)
{
    struct sosmc_simd simd = *sosmc_simd_best();
    simd.uniforms = halves;
    double w[4] = {0.5, 1.0, 2.0, 0.5}, scratch[9]; /* points 0.5, 1.5, 2.5, 3.5 against 0.5, 1.5, 3.5, 4 */
    const int expected[4] = {1, 2, 2, 3};
    int ancestors[4];
    assert_int_equal(sosmc_i_resample(&simd, SOSMC_SYSTEMATIC, named(0), 4, w, scratch, ancestors), SOSMC_OK);
    assert_memory_equal(ancestors, expected, sizeof expected);
    assert_int_equal(sosmc_i_resample(&simd, SOSMC_STRATIFIED, named(0), 4, w, scratch, ancestors), SOSMC_OK);
    assert_memory_equal(ancestors, expected, sizeof expected);
}

static void extreme_weights(void **state)
{
    enum { N = 6 };
    const struct {
        double w[N];
        int only; /* the one particle that can have offspring, or -1 */
    } cases[] = {
        {{1e-300, 1e300, 1e-300, 1e-300, 1e-300, 1e-300}, 1},
        {{0, 0, 0, 5e-324, 0, 0}, 3},
        {{0, 0, 0, 0, 0, DBL_MAX}, 5},
        {{DBL_MIN, 0, 0, 0, 0, 0}, 0},
        {{0, DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX, 0}, -1},
        {{5e-324, 0, 5e-324, 5e-324, -0.0, 5e-324}, -1},
        {{1e-300, 1e-300, 1e300, 1e300, 1e-300, 0}, -1},
    };
    bench t = bench_new(N);
    for (size_t q = 0; q < sizeof cases / sizeof *cases; q++) {
        memcpy(t.w, cases[q].w, sizeof cases[q].w);
        for (int scheme = 0; scheme < SCHEMES; scheme++)
            for (uint64_t step = 0; step < 50; step++) {
                resample(&t, (sosmc_resampling)scheme, step);
                if (cases[q].only >= 0) assert_int_equal(t.counts[cases[q].only], N);
                for (int a = 0; a < N; a++)
                    if (t.w[a] <= 1e-300 && q == 6) assert_int_equal(t.counts[a], 0);
            }
    }
    bench_free(&t);

    bench one = bench_new(1);
    one.w[0] = 0.3;
    for (int scheme = 0; scheme < SCHEMES; scheme++) resample(&one, (sosmc_resampling)scheme, 0);
    bench_free(&one);
}

static void invalid_weights_are_refused(void **state)
{
    double scratch[2 * 3000 + 1], w[3000];
    int ancestors[3000];
    const double bad[] = {NAN, -1.0, -1e-300, INFINITY, -INFINITY};
    const int where[] = {0, 1023, 1024, 2999};
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        sosmc_resampling s = (sosmc_resampling)scheme;
        for (int q = 0; q < 5; q++)
            for (int k = 0; k < 4; k++) {
                for (int a = 0; a < 3000; a++) w[a] = 1.0;
                w[where[k]] = bad[q];
                assert_int_equal(sosmc_resample(s, named(0), 3000, w, scratch, ancestors), SOSMC_EINVAL);
            }
        memset(w, 0, sizeof w);
        assert_int_equal(sosmc_resample(s, named(0), 3000, w, scratch, ancestors), SOSMC_EINVAL);
        w[0] = 1.0;
        assert_int_equal(sosmc_resample(s, named(0), 0, w, scratch, ancestors), SOSMC_EINVAL);
        assert_int_equal(sosmc_resample(s, named(0), -1, w, scratch, ancestors), SOSMC_EINVAL);
        w[0] = NAN;
        assert_int_equal(sosmc_resample(s, named(0), 1, w, scratch, ancestors), SOSMC_EINVAL);
    }
    w[0] = 1.0;
    assert_int_equal(sosmc_resample((sosmc_resampling)SCHEMES, named(0), 1, w, scratch, ancestors), SOSMC_EINVAL);
    assert_int_equal(sosmc_resample((sosmc_resampling)-1, named(0), 1, w, scratch, ancestors), SOSMC_EINVAL);
}

/* -------------------------------------------------------------------------------------------- ranges, vector codes */

/* Stages over single chunks from last to first, merges over ranges of uneven size. */
static void in_pieces(bench *t, sosmc_resampling scheme, uint64_t step, int piece)
{
    const sosmc_simd *simd = sosmc_simd_best();
    int n = t->n, last = (n - 1) / SOSMC_I_CHUNK;
    sosmc_i_offspring o = {.simd = simd,
                           .scheme = scheme,
                           .rng = named(step),
                           .n = n,
                           .offspring = n,
                           .w = t->w,
                           .scale = sosmc_i_scale(simd->max(n, t->w)),
                           .c = t->scratch,
                           .p = t->scratch + n,
                           .ancestors = t->ancestors};
    for (int k = last; k >= 0; k--) {
        int first = k * SOSMC_I_CHUNK, count = n - first < SOSMC_I_CHUNK ? n - first : SOSMC_I_CHUNK;
        assert_int_equal(sosmc_i_cumulate(&o, first, count), SOSMC_OK);
        sosmc_i_spacings(&o, first, count);
    }
    assert_int_equal(sosmc_i_join(&o), SOSMC_OK);
    for (int k = last; k >= 0; k--) {
        int first = k * SOSMC_I_CHUNK, count = n - first < SOSMC_I_CHUNK ? n - first : SOSMC_I_CHUNK;
        sosmc_i_points(&o, first, count);
    }
    for (int first = (n - 1) / piece * piece; first >= 0; first -= piece)
        sosmc_i_merge(&o, first, n - first < piece ? n - first : piece);
}

static void pieces_equal_the_whole(void **state)
{
    const int sizes[] = {1, 2, 5, 1023, 1024, 1025, 2048, 4097, 10000}, pieces[] = {1, 3, 100, 1024, 20000};
    for (size_t q = 0; q < sizeof sizes / sizeof *sizes; q++) {
        bench whole = bench_new(sizes[q]), cut = bench_new(sizes[q]);
        for (int kind = 0; kind < KINDS; kind++)
            for (int scheme = SOSMC_MULTINOMIAL; scheme <= SOSMC_SYSTEMATIC; scheme++) {
                fill(&whole, kind);
                fill(&cut, kind);
                resample(&whole, (sosmc_resampling)scheme, 5);
                for (int k = 0; k < 5; k++) {
                    memset(cut.ancestors, -1, (size_t)cut.n * sizeof(int));
                    in_pieces(&cut, (sosmc_resampling)scheme, 5, pieces[k]);
                    assert_memory_equal(cut.ancestors, whole.ancestors, (size_t)cut.n * sizeof(int));
                    assert_memory_equal(cut.scratch, whole.scratch, 2 * (size_t)cut.n * sizeof(double));
                }
            }
        bench_free(&whole);
        bench_free(&cut);
    }
}

static void vector_codes_agree(void **state)
{
    const char *names[] = {"avx512", "avx2", "plain"};
    bench t = bench_new(3001);
    int *first = calloc((size_t)t.n, sizeof(int));
    assert_non_null(first);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        fill(&t, WILD);
        resample(&t, (sosmc_resampling)scheme, 1);
        memcpy(first, t.ancestors, (size_t)t.n * sizeof(int));
        for (int q = 0; q < 3; q++) {
            const sosmc_simd *simd = sosmc_simd_named(names[q]);
            if (!simd) continue;
            assert_int_equal(
                sosmc_i_resample(simd, (sosmc_resampling)scheme, named(1), t.n, t.w, t.scratch, t.ancestors), SOSMC_OK);
            assert_memory_equal(t.ancestors, first, (size_t)t.n * sizeof(int));
        }
    }
    free(first);
    bench_free(&t);
}

/* -------------------------------------------------------------------------------------------- the law */

enum { LAW_N = 40, PLANNED = (SCHEMES + 2) * LAW_N };
static const char *const scheme_name[SCHEMES] = {"multinomial", "stratified", "systematic", "residual", "SSP"};
static int comparisons;

/* Expected numbers of offspring from about 0.07 to 4, some of them integers, some zero. */
static void law_weights(bench *t)
{
    uniforms((sosmc_rng){.seed = 5, .stream = SOSMC_STREAM_USER}, LAW_N, t->scratch);
    for (int a = 0; a < LAW_N; a++) t->w[a] = a % 10 == 4 ? 0.0 : exp(4.0 * t->scratch[a]);
    t->w[7] = t->w[20] = 0.0;
    double W = total(t);
    t->w[7] = W / (LAW_N - 3.0);        /* n w / W is 1 here ... */
    t->w[20] = 2.0 * W / (LAW_N - 3.0); /* ... and 2 here */
}

/* n w / W; what is an integer but for rounding is one, because such counts need not vary. */
static double expected_count(const bench *t, int a)
{
    double x = LAW_N * t->w[a] / total(t);
    return fabs(x - round(x)) < 1e-9 ? round(x) : x;
}

/* Per particle: its count, the square of the count's distance from its mean, and the product of that with its neighbour's. */
typedef struct {
    stats_tally count[LAW_N], square[LAW_N], product[LAW_N];
} record;

/* Counts over all replicates; the weights that the scheme sees are those of t moved by `shift` particles, to this power. */
static void replicate(const bench *t, sosmc_resampling scheme, int shift, double power, record *r)
{
    bench seen = bench_new(LAW_N);
    double mean[LAW_N];
    memset(r, 0, sizeof *r);
    for (int a = 0; a < LAW_N; a++) {
        seen.w[a] = pow(t->w[(a + shift) % LAW_N], power);
        mean[a] = expected_count(t, a);
    }
    for (int k = 0; k < stats_by_tier(4000, 200000, 2000); k++) {
        sosmc_rng rng = named((uint64_t)k);
        rng.seed = stats_seed(rng.seed);
        assert_int_equal(sosmc_resample(scheme, rng, seen.n, seen.w, seen.scratch, seen.ancestors), SOSMC_OK);
        expect_valid(&seen);
        for (int a = 0; a < LAW_N; a++) {
            int b = (a + 1) % LAW_N;
            double off = seen.counts[a] - mean[a];
            stats_add(&r->count[a], seen.counts[a]);
            stats_add(&r->square[a], off * off);
            stats_add(&r->product[a], off * (seen.counts[b] - mean[b]));
        }
    }
    bench_free(&seen);
}

/* Var N_a = n w (1 - w) and Cov(N_a, N_b) = -n w_a w_b of independent draws, b being the neighbour. */
static double multinomial_square(const bench *t, int a)
{
    double w = t->w[a] / total(t);
    return LAW_N * w * (1.0 - w);
}
static double multinomial_product(const bench *t, int a)
{
    double W = total(t);
    return -LAW_N * (t->w[a] / W) * (t->w[(a + 1) % LAW_N] / W);
}

/* A negative control: some particle tells; one that varies, so that there is a standard error. */
static void must_notice(const stats_ledger *ledger, const bench *t, const stats_tally *tally,
                        double (*expected)(const bench *, int), const char *scheme, const char *what)
{
    char words[200];
    int worst = 0;
    double most = -1;
    for (int a = 0; a < LAW_N; a++) {
        double z = tally[a].m2 > 0 ? fabs(stats_z(&tally[a], expected(t, a))) : -1;
        if (!(z > most)) continue;
        most = z;
        worst = a;
    }
    (void)snprintf(words, sizeof words, "%s, %s, particle %d", scheme, what, worst);
    stats_must_notice(ledger, &tally[worst], expected(t, worst), words);
}

static void expected_counts(void **state)
{
    static record r;
    stats_ledger ledger = stats_open(PLANNED);
    bench t = bench_new(LAW_N);
    law_weights(&t);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        replicate(&t, (sosmc_resampling)scheme, 0, 1, &r);
        for (int a = 0; a < LAW_N; a++)
            (void)stats_compare(&ledger, &r.count[a], expected_count(&t, a), "%s, offspring of %d", scheme_name[scheme],
                                a);
        replicate(&t, (sosmc_resampling)scheme, 1, 1, &r);
        must_notice(&ledger, &t, r.count, expected_count, scheme_name[scheme], "weights of the neighbour");
        replicate(&t, (sosmc_resampling)scheme, 0, 0.9, &r);
        must_notice(&ledger, &t, r.count, expected_count, scheme_name[scheme], "weights to the power 0.9");
    }
    comparisons += stats_close(&ledger);
    bench_free(&t);
}

/* Independent draws, not merely unbiased ones. */
static void multinomial_variance(void **state)
{
    static record r;
    stats_ledger ledger = stats_open(PLANNED);
    bench t = bench_new(LAW_N);
    law_weights(&t);
    replicate(&t, SOSMC_MULTINOMIAL, 0, 1, &r);
    for (int a = 0; a < LAW_N; a++) {
        (void)stats_compare(&ledger, &r.square[a], multinomial_square(&t, a), "variance of %d", a);
        (void)stats_compare(&ledger, &r.product[a], multinomial_product(&t, a), "covariance of %d and the next", a);
    }
    comparisons += stats_close(&ledger);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        if (scheme == SOSMC_MULTINOMIAL) continue;
        replicate(&t, (sosmc_resampling)scheme, 0, 1, &r);
        must_notice(&ledger, &t, r.square, multinomial_square, scheme_name[scheme], "taken for multinomial, variance");
        must_notice(&ledger, &t, r.product, multinomial_product, scheme_name[scheme],
                    "taken for multinomial, covariance");
    }
    bench_free(&t);
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(systematic_by_hand),
        cmocka_unit_test(points_by_definition),
        cmocka_unit_test(counts_are_floor_or_ceil),
        cmocka_unit_test(equal_weights_keep_everyone),
        cmocka_unit_test(uniforms_at_the_ends),
        cmocka_unit_test(strictly_greater),
        cmocka_unit_test(extreme_weights),
        cmocka_unit_test(invalid_weights_are_refused),
        cmocka_unit_test(pieces_equal_the_whole),
        cmocka_unit_test(vector_codes_agree),
        cmocka_unit_test(expected_counts),
        cmocka_unit_test(multinomial_variance),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
