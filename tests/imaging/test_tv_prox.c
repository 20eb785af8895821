/* test_tv_prox.c: proximal maps of the total variation of images: against brute force on the dual, as the map they are
 * (firmly non-expansive, indifferent to transposition and to constants), the certificate against the true error, and
 * what is known about the experiment's range of weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sosmc/imaging.h>

enum { SMALL = 48, ROWS = 41, COLUMNS = 29, PIXELS = ROWS * COLUMNS };

/* Exactly what the header asks for, so that a sanitizer sees one double too many. */
static double *scratch_for(int rows, int columns)
{
    double *scratch = malloc(sosmc_tv_prox_scratch(rows, columns) * sizeof *scratch);
    assert_non_null(scratch);
    return scratch;
}

static sosmc_tv_result prox(const sosmc_tv_settings *s, double w, const double *z, double *u)
{
    double *scratch = scratch_for(s->rows, s->columns);
    sosmc_tv_result r;
    assert_int_equal(sosmc_tv_prox(s, w, z, u, scratch, &r), SOSMC_OK);
    free(scratch);
    return r;
}

static void published(int passes, double w, const double *z, double *u)
{
    double *scratch = scratch_for(ROWS, COLUMNS);
    sosmc_tv_prox_published(ROWS, COLUMNS, passes, w, z, u, scratch);
    free(scratch);
}

static void fill_normals(uint64_t seed, int n, double scale, double *x)
{
    sosmc_batch b = {.dim = n, .n = 1, .ld = 1};
    sosmc_normals((sosmc_rng){.seed = seed, .stream = SOSMC_STREAM_USER}, &b, x);
    for (int e = 0; e < n; e++) x[e] *= scale;
}

/* Something like a photograph: steps, a slope and noise on the scale 0 to 255. */
static void fill_image(uint64_t seed, int rows, int columns, double noise, double *x)
{
    fill_normals(seed, rows * columns, noise, x);
    for (int e = 0; e < rows * columns; e++)
        x[e] += 80 + 60 * (e / columns / 9 % 2) + (double)(e % columns) + (e % columns > columns / 2 ? 40 : 0);
}

static double distance(int n, const double *x, const double *y)
{
    double sum = 0;
    for (int e = 0; e < n; e++) sum += (x[e] - y[e]) * (x[e] - y[e]);
    return sqrt(sum);
}

static double length(int n, const double *x)
{
    double sum = 0;
    for (int e = 0; e < n; e++) sum += x[e] * x[e];
    return sqrt(sum);
}

static sosmc_tv_result map(sosmc_tv_kind kind, int rows, int columns, double tolerance, double w, const double *z,
                           double *u)
{
    sosmc_tv_settings s = {.rows = rows, .columns = columns, .kind = kind, .tolerance = tolerance};
    return prox(&s, w, z, u);
}

/* ---------------------------------------------------------------------------- brute force */

/* u = z - D' q of a small image, written down plainly. */
static void primal(int rows, int columns, const double *z, const double *h, const double *v, double *u)
{
    memcpy(u, z, (size_t)(rows * columns) * sizeof *u);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            int p = i * columns + j;
            if (j + 1 < columns) u[p] += h[p], u[p + 1] -= h[p];
            if (i + 1 < rows) u[p] += v[p], u[p + columns] -= v[p];
        }
}

/* Projected gradient on the dual with the step 1/8, accelerated and started afresh every 500 steps: linear convergence
 * on problems this small. */
static void brute_force(sosmc_tv_kind kind, int rows, int columns, double w, const double *z, double *u)
{
    double q[2 * SMALL] = {0}, r[2 * SMALL] = {0}, *h = q, *v = q + SMALL, t = 1;
    for (int k = 0; k < 20000; k++) {
        double next_t = k % 500 ? 0.5 * (1 + sqrt(1 + 4 * t * t)) : 1, factor = k % 500 ? (t - 1) / next_t : 0;
        primal(rows, columns, z, r, r + SMALL, u);
        for (int p = 0; p < rows * columns; p++) {
            int j = p % columns, last = p / columns == rows - 1;
            double a = r[p] + (j + 1 < columns ? (u[p + 1] - u[p]) / 8 : 0);
            double b = r[SMALL + p] + (last ? 0 : (u[p + columns] - u[p]) / 8);
            double size_a = kind == SOSMC_TV_ISOTROPIC ? hypot(a, b) : fabs(a);
            double size_b = kind == SOSMC_TV_ISOTROPIC ? size_a : fabs(b);
            if (size_a > w) a *= w / size_a;
            if (size_b > w) b *= w / size_b;
            r[p] = a + factor * (a - h[p]);
            r[SMALL + p] = b + factor * (b - v[p]);
            h[p] = a;
            v[p] = b;
        }
        t = next_t;
    }
    primal(rows, columns, z, h, v, u);
}

static void small_images_against_brute_force(void **state)
{
    static const int shape[6][2] = {{1, 1}, {1, 13}, {11, 1}, {2, 2}, {5, 9}, {6, 8}};
    int alternated = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        int rows = shape[seed % 6][0], columns = shape[seed % 6][1], d = rows * columns;
        double z[SMALL], u[SMALL], exact[SMALL], w = 0.02 * pow(3, (double)(seed % 7));
        fill_normals(seed, d, 2, z);
        for (int e = 0; e < d && seed % 4 == 3; e++) z[e] = rint(z[e]);
        for (int kind = 0; kind < 2; kind++) {
            sosmc_tv_kind which = kind ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
            sosmc_tv_result r = map(which, rows, columns, 1e-8, w, z, u);
            brute_force(which, rows, columns, w, z, exact);
            double off = distance(d, u, exact);
            if (!(off <= 2e-8 * length(d, exact) + 1e-9 && off <= r.bound + 1e-9))
                fail_msg("%d x %d, w %g, kind %d: off by %g, bound %g", rows, columns, w, kind, off, r.bound);
            alternated += kind == 1 && r.passes > 1;
        }
    }
    assert_true(alternated >= 2); /* both anisotropic methods have been seen */
}

/* ---------------------------------------------------------------------------- the map */

static const double weights[] = {1e-7, 1e-3, 0.02, 0.3, 2, 30};
enum { WEIGHTS = 6 };

static double x1[PIXELS], x2[PIXELS], u1[PIXELS], u2[PIXELS], turned[PIXELS], best[PIXELS];

static void turn(int rows, int columns, const double *x, double *y)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) y[j * rows + i] = x[i * columns + j];
}

static void transposition(void **state)
{
    for (int k = 0; k < WEIGHTS; k++) {
        fill_image(1, ROWS, COLUMNS, 10, x1);
        turn(ROWS, COLUMNS, x1, x2);
        sosmc_tv_result a = map(SOSMC_TV_ANISOTROPIC, ROWS, COLUMNS, 1e-7, weights[k], x1, u1);
        sosmc_tv_result b = map(SOSMC_TV_ANISOTROPIC, COLUMNS, ROWS, 1e-7, weights[k], x2, u2);
        turn(COLUMNS, ROWS, u2, turned);
        assert_true(a.certified && b.certified);
        assert_true(distance(PIXELS, u1, turned) <= a.bound + b.bound + 1e-9);
    }
}

/* <Px - Py, x - y> >= |Px - Py|^2, and a constant added comes out again. */
static void firmly_non_expansive(void **state)
{
    for (int k = 0; k < 2 * WEIGHTS; k++) {
        sosmc_tv_kind kind = k % 2 ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
        double w = k % 2 ? weights[k / 2] : fmin(weights[k / 2], 2), tolerance = k % 2 ? 1e-7 : 1e-5;
        fill_image(2, ROWS, COLUMNS, 10, x1);
        fill_image(3, ROWS, COLUMNS, 4, x2);
        sosmc_tv_result a = map(kind, ROWS, COLUMNS, tolerance, w, x1, u1);
        sosmc_tv_result b = map(kind, ROWS, COLUMNS, tolerance, w, x2, u2);
        double inner = 0, apart = distance(PIXELS, u1, u2), given = distance(PIXELS, x1, x2);
        for (int e = 0; e < PIXELS; e++) inner += (u1[e] - u2[e]) * (x1[e] - x2[e]);
        double slack = (a.bound + b.bound) * (2 * apart + given) + 1e-6;
        assert_true(inner - apart * apart >= -slack);
        for (int e = 0; e < PIXELS; e++) x2[e] = x1[e] + 50;
        b = map(kind, ROWS, COLUMNS, tolerance, w, x2, u2);
        for (int e = 0; e < PIXELS; e++) u2[e] -= 50;
        assert_true(distance(PIXELS, u1, u2) <= a.bound + b.bound + 1e-9);
    }
}

/* At every tolerance the true error stays below the bound, and the bound below the tolerance. */
static void certificate_is_honest(void **state)
{
    static const double noise[] = {20, 1, 0};
    for (int m = 0; m < 3; m++)
        for (int k = 0; k < 2 * 5; k++) {
            sosmc_tv_kind kind = k % 2 ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
            double w = weights[k / 2], finest = kind == SOSMC_TV_ANISOTROPIC ? 1e-9 : w > 1 ? 1e-6 : 1e-8;
            fill_image(4, ROWS, COLUMNS, noise[m], x1);
            sosmc_tv_result fine = map(kind, ROWS, COLUMNS, finest, w, x1, best);
            for (int digits = 2; digits <= 5; digits++) {
                double tolerance = pow(10, -digits);
                sosmc_tv_result r = map(kind, ROWS, COLUMNS, tolerance, w, x1, u1);
                assert_true(r.certified && r.gap >= 0 && fabs(r.bound * r.bound - r.gap) <= 1e-12 * r.gap);
                assert_true(r.bound <= tolerance * length(PIXELS, best) + fine.bound);
                if (!(distance(PIXELS, u1, best) <= r.bound + fine.bound + 1e-9))
                    fail_msg("noise %g, w %g, kind %d: off by %g, bound %g", noise[m], w, (int)kind,
                             distance(PIXELS, u1, best), r.bound);
            }
        }
}

static void passes_end_the_iteration(void **state)
{
    sosmc_tv_settings s = {
        .rows = ROWS, .columns = COLUMNS, .kind = SOSMC_TV_ISOTROPIC, .tolerance = 1e-9, .passes = 3};
    fill_image(5, ROWS, COLUMNS, 10, x1);
    for (int kind = 0; kind < 2; kind++) {
        s.kind = kind ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
        sosmc_tv_result r = prox(&s, 30, x1, u1);
        assert_true(!r.certified && r.passes == 3 && r.bound > 0);
    }
}

static void constant_and_level_images(void **state)
{
    for (int kind = 0; kind < 2; kind++) {
        sosmc_tv_kind which = kind ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
        for (int e = 0; e < PIXELS; e++) x1[e] = 7;
        (void)map(which, ROWS, COLUMNS, 1e-6, 3, x1, u1);
        assert_memory_equal(u1, x1, sizeof x1);
        memset(x1, 0, sizeof x1);
        sosmc_tv_result r = map(which, ROWS, COLUMNS, 1e-6, 3, x1, u1);
        assert_memory_equal(u1, x1, sizeof x1);
        assert_true(r.certified);
    }
    for (int kind = 0; kind < 2; kind++) { /* no weight, no change; level neighbours do no harm */
        fill_image(6, ROWS, COLUMNS, 0, x1);
        (void)map(kind ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC, ROWS, COLUMNS, 1e-6, 0, x1, u1);
        assert_memory_equal(u1, x1, sizeof x1);
    }
    fill_image(6, ROWS, COLUMNS, 10, x1); /* a weight beyond all bounds leaves the mean */
    double mean = 0;
    for (int e = 0; e < PIXELS; e++) mean += x1[e] / PIXELS;
    for (int e = 0; e < PIXELS; e++) x2[e] = mean;
    for (int k = 0; k < 3; k++) {
        sosmc_tv_kind which = k ? SOSMC_TV_ANISOTROPIC : SOSMC_TV_ISOTROPIC;
        sosmc_tv_result r = map(which, ROWS, COLUMNS, 1e-6, k == 2 ? 2e4 : 1e300, x1, u1);
        assert_true(r.certified && distance(PIXELS, u1, x2) <= 1e-6 * length(PIXELS, x2));
    }
}

/* Where the last call stopped is nearly where the next one stops. */
static void warm_start(void **state)
{
    double *dual = calloc(2 * PIXELS, sizeof *dual);
    assert_non_null(dual);
    sosmc_tv_settings s = {
        .rows = ROWS, .columns = COLUMNS, .kind = SOSMC_TV_ISOTROPIC, .tolerance = 1e-6, .dual = dual};
    fill_image(7, ROWS, COLUMNS, 10, x1);
    sosmc_tv_result cold = prox(&s, 2, x1, u1), warm = prox(&s, 2, x1, u2);
    assert_true(warm.certified && warm.passes <= cold.passes / 4);
    assert_true(distance(PIXELS, u1, u2) <= cold.bound + warm.bound);
    for (int e = 0; e < 2 * PIXELS; e++) dual[e] = 1e3; /* nonsense is admitted, and mended */
    warm = prox(&s, 2, x1, u2);
    assert_true(warm.certified && distance(PIXELS, u1, u2) <= cold.bound + warm.bound);
    free(dual);
}

/* ---------------------------------------------------------------------------- the experiment's range */

static void published_recipe_and_certified_map_agree(void **state)
{
    for (int k = 0; k < 3; k++) {
        fill_image(8, ROWS, COLUMNS, 10, x1);
        published(35, weights[k], x1, u1);
        published(2, weights[k], x1, u2);
        sosmc_tv_result r = map(SOSMC_TV_ANISOTROPIC, ROWS, COLUMNS, 1e-9, weights[k], x1, best);
        assert_true(r.passes == 1);
        assert_true(distance(PIXELS, u1, best) <= r.bound + 1e-10 * length(PIXELS, best));
        assert_true(distance(PIXELS, u2, u1) <= 1e-6 * length(PIXELS, best)); /* isolated pixels may take longer */
        for (int e = 0; e < PIXELS; e++) assert_true(fabs(best[e] - x1[e]) <= 4 * weights[k] + 1e-12);
    }
    /* At large weight 35 passes are not enough, but they are on the way. */
    published(35, 2, x1, u1);
    published(400, 2, x1, u2);
    (void)map(SOSMC_TV_ANISOTROPIC, ROWS, COLUMNS, 1e-9, 2, x1, best);
    assert_true(distance(PIXELS, u2, best) < 0.2 * distance(PIXELS, u1, best));
    assert_true(distance(PIXELS, u1, best) < 1e-3 * length(PIXELS, best));
}

static double sign(double a) { return (double)((a > 0) - (a < 0)); }

/* With levels far apart nothing merges, and u = z - w D' sign(D z). */
static void closed_form(void **state)
{
    const double w = 0.3;
    for (int e = 0; e < PIXELS; e++) x1[e] = (double)((e * 7919) % PIXELS) * 3;
    sosmc_tv_result r = map(SOSMC_TV_ANISOTROPIC, ROWS, COLUMNS, 1e-9, w, x1, u1);
    assert_true(r.gap == 0 && r.certified);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            int p = i * COLUMNS + j;
            double sum = 0;
            if (j > 0) sum += sign(x1[p] - x1[p - 1]);
            if (j + 1 < COLUMNS) sum -= sign(x1[p + 1] - x1[p]);
            if (i > 0) sum += sign(x1[p] - x1[p - COLUMNS]);
            if (i + 1 < ROWS) sum -= sign(x1[p + COLUMNS] - x1[p]);
            assert_true(u1[p] == x1[p] - w * sum);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_images_against_brute_force),
        cmocka_unit_test(transposition),
        cmocka_unit_test(firmly_non_expansive),
        cmocka_unit_test(certificate_is_honest),
        cmocka_unit_test(passes_end_the_iteration),
        cmocka_unit_test(constant_and_level_images),
        cmocka_unit_test(warm_start),
        cmocka_unit_test(published_recipe_and_certified_map_agree),
        cmocka_unit_test(closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
