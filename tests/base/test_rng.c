/* test_rng.c: the named random numbers. Philox against published vectors and Random123, uniforms and normals against a
 * scalar evaluation of their definition, the same bits at every level, layout and cut of the cloud, and their laws.
 * Statistical bounds are 4 standard errors of the statistic under the law claimed; the seed is fixed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "base/table.h"

#if defined(__has_include)
#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define HAVE_RANDOM123 1
#endif
#endif

enum { LEVELS = 3 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};
#define FOR_LEVELS(s)                   \
    for (int v_ = 0; v_ < LEVELS; v_++) \
        for (const sosmc_simd *s = sosmc_simd_named(level_name[v_]); s; s = NULL)

/* Names that reach every field of the counter. */
static const sosmc_rng names[] = {
    {.seed = 0},
    {.seed = 1, .step = 900, .stream = SOSMC_STREAM_MOVE},
    {.seed = 0x0123456789ABCDEFu, .step = 0xFEDCBA987654u, .stream = 255, .retry = 255},
    {.seed = 0xFFFFFFFF00000000u, .step = (uint64_t)1 << 32, .stream = SOSMC_STREAM_USER, .retry = 3},
};
enum { NAMES = sizeof names / sizeof *names };
static const int64_t firsts[] = {0, 17, 4294967290, 1099511627776 + 5}; /* the third crosses a 32-bit border */
enum { FIRSTS = sizeof firsts / sizeof *firsts };

static double unit(uint64_t number) { return 1.0 - (double)(number >> 12) * 0x1p-52; }

/* ---------------------------------------------------------------------------------------- Philox */

static void known_answers(void **unused)
{
    static const uint32_t answer[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int k = 0; k < 3; k++) {
        uint32_t c[4];
        memcpy(c, answer[k], sizeof c);
        philox_block(answer[k][4], answer[k][5], c);
        assert_memory_equal(c, answer[k] + 6, sizeof c);
    }
}

static void same_as_random123(void **unused)
{
#if defined(HAVE_RANDOM123)
    uint32_t c[4] = {1, 2, 3, 4}, key[2] = {5, 6};
    for (int k = 0; k < 10000; k++) { /* outputs become the next counter and key */
        philox4x32_ctr_t ctr = {{c[0], c[1], c[2], c[3]}};
        philox4x32_key_t secret = {{key[0], key[1]}};
        ctr = philox4x32_R(10, ctr, secret);
        philox_block(key[0], key[1], c);
        assert_memory_equal(c, ctr.v, sizeof c);
        key[k & 1] ^= c[0] + c[3];
    }
#else
    skip();
#endif
}

static void packing_of_the_name(void **unused)
{
    sosmc_rng rng = {.seed = 0x299f31d0a4093822u, .step = 0x734413198a2eu, .stream = 0x03, .retry = 0x70};
    uint64_t number[2];
    philox_numbers(rng, 0x85a308d3u, 0x243f6a88u, number); /* the third known answer, through the name */
    assert_true(number[0] == 0x94fdccebd16cfe09u && number[1] == 0x24126ea15001e420u);
}

/* ---------------------------------------------------------------------------------------- uniforms and normals */

static void uniforms_by_definition(void **unused)
{
    double u[80];
    uint64_t number[2];
    FOR_LEVELS(v) for (int r = 0; r < NAMES; r++) for (int f = 0; f < FIRSTS; f++) for (int n = 0; n <= 70; n += 7)
    {
        uint32_t draw = (uint32_t)(n * 1000003);
        draw &= 0x7FFFFFFFu;
        for (int i = 0; i < 80; i++) u[i] = -7.0;
        v->uniforms(names[r], draw, firsts[f], n, u);
        for (int i = 0; i < n; i++) {
            philox_numbers(names[r], (uint64_t)(firsts[f] + i), 0x80000000u + draw, number);
            assert_true(u[i] == unit(number[0]) && u[i] > 0.0 && u[i] <= 1.0);
        }
        for (int i = n; i < 80; i++) assert_true(u[i] == -7.0);
    }
}

static void normals_by_definition(void **unused)
{
    enum { DIM = 5, N = 21, LD = 32 };
    const double two_pi = 6.283185307179586;
    double z[DIM * LD];
    uint64_t number[2];
    FOR_LEVELS(v) for (int r = 0; r < NAMES; r++) for (int f = 0; f < FIRSTS; f++)
    {
        for (int i = 0; i < DIM * LD; i++) z[i] = -7.0;
        v->normals(names[r], firsts[f], DIM, N, LD, z);
        for (int j = 0; j < DIM; j++) {
            for (int i = 0; i < N; i++) {
                philox_numbers(names[r], (uint64_t)(firsts[f] + i), (uint32_t)j / 2, number);
                double radius = sqrt(-2.0 * log(unit(number[0]))), angle = two_pi * unit(number[1]);
                assert_true(fabs(z[j * LD + i] - radius * (j % 2 ? sin(angle) : cos(angle))) < 2e-14);
            }
            for (int i = (N + 7) / 8 * 8; i < LD; i++) assert_true(z[j * LD + i] == -7.0);
        }
    }
}

static void golden_numbers(void **unused)
{
    static const double uniform[8] = {
        0x1.80ad20d00b108p-3, 0x1.079406bf63cp-10, 0x1.e11e32586aa3p-3, 0x1.cac17a375ac58p-2,
        0x1.c27219a55cf98p-1, 0x1.df7a0726f27dp-3, 0x1.a764a1cdc363p-3, 0x1.dda2846850002p-1,
    };
    static const double normal[16] = {
        0x1.19b0a802c107ap-1,  0x1.951222baefc5bp-4,  0x1.1853c3d726a8dp+0,  0x1.6e4721c098d45p+0,
        0x1.b0e4bd2f73f57p-1,  -0x1.da7f3944fd022p-1, -0x1.7f7339044b08dp-2, -0x1.4c92f6100c772p-1,
        -0x1.0edd5c2f72071p+0, -0x1.f724150406dd9p-2, 0x1.10657217a9194p-2,  0x1.c8a79d8e9e126p+0,
        -0x1.f34175522bffap-1, -0x1.9c3788f1ffb52p-4, -0x1.b4d2e6f8c5b4ap-1, 0x1.f0f46da0b1a51p-2,
    };
    sosmc_rng rng = {.seed = 20240229, .step = 900, .stream = SOSMC_STREAM_MOVE, .retry = 1};
    double u[8], z[16];
    FOR_LEVELS(v)
    {
        sosmc_batch b = {.simd = v, .dim = 2, .n = 8, .ld = 8, .first = 17};
        sosmc_uniforms(rng, 0, &b, u);
        sosmc_normals(rng, &b, z);
        for (int i = 0; i < 8; i++) assert_true(u[i] == uniform[i]);
        for (int i = 0; i < 16; i++) assert_true(z[i] == normal[i]);
    }
}

/* The numbers depend on their name alone: not on level, layout or how the cloud is cut. */
static void same_numbers_everywhere(void **unused)
{
    enum { N = 300, LD = 304, MOST = 37 };
    static double whole[MOST * LD], part[MOST * LD], row[MOST], u[N], w[N];
    static const int dims[] = {1, 2, 3, 15, 16, 17, 32, MOST};
    for (int r = 0; r < NAMES; r++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
            const int dim = dims[d];
            const int64_t first = firsts[r % FIRSTS];
            sosmc_simd_best()->normals(names[r], first, dim, N, LD, whole);
            sosmc_simd_best()->uniforms(names[r], 5, first, N, u);
            FOR_LEVELS(v)
            {
                for (int n = 1, at = 0; at < N; at += n, n = n * 2 + 1) {
                    if (n > N - at) n = N - at;
                    int ld = (n + 7) / 8 * 8;
                    v->normals(names[r], first + at, dim, n, ld, part);
                    for (int j = 0; j < dim; j++)
                        assert_memory_equal(part + j * ld, whole + j * LD + at, (size_t)n * sizeof *part);
                    v->uniforms(names[r], 5, first + at, n, w);
                    assert_memory_equal(w, u + at, (size_t)n * sizeof *w);
                }
                for (int i = 0; i < N; i += 29) {
                    double guard = row[dim - 1 + (dim < MOST)] = -7.0;
                    v->normals(names[r], first + i, dim, 1, 1, row);
                    for (int j = 0; j < dim; j++) assert_memory_equal(row + j, whole + j * LD + i, sizeof *row);
                    if (dim < MOST) assert_true(row[dim] == guard);
                }
            }
        }
}

static void every_field_matters(void **unused)
{
    const sosmc_rng base = {.seed = 7, .step = 11, .stream = 2, .retry = 0};
    sosmc_rng other[7] = {base, base, base, base, base, base, base};
    double a[8], b[8];
    other[0].seed ^= 1;
    other[1].seed ^= (uint64_t)1 << 63;
    other[2].step ^= 1;
    other[3].step ^= (uint64_t)1 << 32;
    other[4].step ^= (uint64_t)1 << 47;
    other[5].stream ^= 1;
    other[6].retry ^= 1;
    FOR_LEVELS(v)
    {
        v->uniforms(base, 0, 0, 8, a);
        for (int k = 0; k < 7; k++) {
            v->uniforms(other[k], 0, 0, 8, b);
            for (int i = 0; i < 8; i++) assert_true(a[i] != b[i]);
        }
        v->uniforms(base, 1, 0, 8, b);
        for (int i = 0; i < 8; i++) assert_true(a[i] != b[i]);
    }
}

/* ---------------------------------------------------------------------------------------- their laws */

enum { DRAWS = 1 << 18, COORDINATES = 4, TOTAL = DRAWS * COORDINATES };
static double z[TOTAL], later[TOTAL];

static void assert_within(const char *what, double value, double truth, double error)
{
    print_message("%s: %.6f, truth %.6f, %.2f standard errors\n", what, value, truth, (value - truth) / error);
    assert_true(fabs(value - truth) < 4.0 * error);
}

static void moments_of_normals(void **unused)
{
    sosmc_rng rng = {.seed = 3, .step = 1, .stream = SOSMC_STREAM_USER};
    double sum[9] = {0}, pair = 0.0, neighbour = 0.0, serial = 0.0, squares = 0.0;
    sosmc_simd_best()->normals(rng, 0, COORDINATES, DRAWS, DRAWS, z);
    rng.step++;
    sosmc_simd_best()->normals(rng, 0, COORDINATES, DRAWS, DRAWS, later);
    for (int i = 0; i < TOTAL; i++) {
        double power = 1.0;
        for (int k = 1; k <= 6; k++) sum[k] += power *= z[i];
        serial += z[i] * later[i];
    }
    for (int i = 0; i < DRAWS; i++)
        pair += z[i] * z[DRAWS + i], squares += (z[i] * z[i] - 1.0) * (z[DRAWS + i] * z[DRAWS + i] - 1.0);
    for (int i = 0; i + 1 < DRAWS; i++) neighbour += z[i] * z[i + 1];
    /* E z^k = 0, 1, 0, 3, 0, 15; E z^2k = 1, 3, 15, 105, 945, 10395 */
    assert_within("mean", sum[1] / TOTAL, 0.0, sqrt(1.0 / TOTAL));
    assert_within("second moment", sum[2] / TOTAL, 1.0, sqrt((3.0 - 1.0) / TOTAL));
    assert_within("third moment", sum[3] / TOTAL, 0.0, sqrt(15.0 / TOTAL));
    assert_within("fourth moment", sum[4] / TOTAL, 3.0, sqrt((105.0 - 9.0) / TOTAL));
    assert_within("sixth moment", sum[6] / TOTAL, 15.0, sqrt((10395.0 - 225.0) / TOTAL));
    assert_within("cosine with sine", pair / DRAWS, 0.0, sqrt(1.0 / DRAWS));
    assert_within("their squares", squares / DRAWS, 0.0, sqrt(4.0 / DRAWS));
    assert_within("neighbouring particles", neighbour / (DRAWS - 1), 0.0, sqrt(1.0 / (DRAWS - 1)));
    assert_within("successive steps", serial / TOTAL, 0.0, sqrt(1.0 / TOTAL));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void distribution_of_normals(void **unused)
{
    sosmc_rng rng = {.seed = 4, .step = 1, .stream = SOSMC_STREAM_USER};
    double most = 0.0;
    sosmc_simd_best()->normals(rng, 0, COORDINATES, DRAWS, DRAWS, z);
    qsort(z, TOTAL, sizeof *z, ascending);
    for (int i = 0; i < TOTAL; i++) {
        double F = 0.5 * erfc(-z[i] / sqrt(2.0)), above = (i + 1.0) / TOTAL - F, below = F - (double)i / TOTAL;
        most = fmax(most, fmax(above, below));
    }
    /* P(sqrt(N) D > t) = 2 exp(-2 t^2) to first order: 6e-5, the two-sided level of 4 standard errors, at t = 2.28 */
    print_message("Kolmogorov-Smirnov: %.3f of 2.28\n", most * sqrt(TOTAL));
    assert_true(most * sqrt(TOTAL) < 2.28);
}

static void distribution_of_uniforms(void **unused)
{
    enum { BINS = 1024 };
    static double count[BINS];
    sosmc_rng rng = {.seed = 5, .step = 1, .stream = SOSMC_STREAM_USER};
    double chi2 = 0.0, mean = (double)DRAWS / BINS;
    sosmc_simd_best()->uniforms(rng, 0, 0, DRAWS, z);
    for (int i = 0; i < DRAWS; i++) count[(int)(z[i] * BINS) % BINS] += 1.0;
    for (int k = 0; k < BINS; k++) chi2 += (count[k] - mean) * (count[k] - mean) / mean;
    assert_within("chi-square of uniforms", chi2, BINS - 1, sqrt(2.0 * (BINS - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(same_as_random123),
        cmocka_unit_test(packing_of_the_name),
        cmocka_unit_test(uniforms_by_definition),
        cmocka_unit_test(normals_by_definition),
        cmocka_unit_test(golden_numbers),
        cmocka_unit_test(same_numbers_everywhere),
        cmocka_unit_test(every_field_matters),
        cmocka_unit_test(moments_of_normals),
        cmocka_unit_test(distribution_of_normals),
        cmocka_unit_test(distribution_of_uniforms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
