/* test_sources.c: the laws that come with the library give particle i what its number says, in any batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <sosmc/sosmc.h>

enum { DIM = 5, N = 13, LD = 16, ROWS = 7 };

static const sosmc_rng rng = {.seed = 9, .step = 4, .stream = SOSMC_STREAM_DATA};

static void normal_density(void **state)
{
    _Alignas(64) double x[DIM * LD], z[DIM * LD], lq[LD];
    sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD, .first = 100};
    sosmc_source law = sosmc_standard_normal();
    assert_int_equal(law.exact, 0);
    memset(x, 0, sizeof x);
    memset(z, 0, sizeof z);
    assert_int_equal(law.draw(law.self, rng, &b, x), 0);
    sosmc_normals(rng, &b, z);
    assert_int_equal(law.logpdf(law.self, &b, lq), 0);
    for (int i = 0; i < N; i++) {
        long double sum = 0.0L;
        for (int j = 0; j < DIM; j++) {
            assert_true(x[j * LD + i] == z[j * LD + i]);
            sum += -0.5L * x[j * LD + i] * x[j * LD + i] - 0.5L * logl(2.0L * 3.14159265358979323846264L);
        }
        assert_true(fabsl(lq[i] - sum) <= 1e-14L * fabsl(sum));
    }
}

static void rows_in_order(void **state)
{
    _Alignas(64) double x[DIM * LD];
    double data[ROWS * DIM];
    for (int q = 0; q < ROWS * DIM; q++) data[q] = q;
    sosmc_rows rows = {.data = data, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_source law = sosmc_rows_source(&rows);
    const int64_t firsts[] = {0, 5, 1000000000000};
    assert_true(!law.logpdf && !law.exact);
    for (int q = 0; q < 3; q++) {
        sosmc_batch b = {.dim = DIM, .n = N, .ld = LD, .first = firsts[q]};
        assert_int_equal(law.draw(law.self, rng, &b, x), 0);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < DIM; j++) assert_true(x[j * LD + i] == data[(firsts[q] + i) % ROWS * DIM + j]);
    }
}

/* Random rows: whole rows of the array, the same in a batch and alone, every row as often as any other. */
static void random_rows(void **state)
{
    enum { BATCHES = 1000 };
    _Alignas(64) double x[DIM * LD], u[LD];
    double data[ROWS * DIM], alone[DIM];
    int hits[ROWS] = {0};
    for (int q = 0; q < ROWS * DIM; q++) data[q] = q;
    sosmc_rows rows = {.data = data, .rows = ROWS, .mode = SOSMC_ROWS_RANDOM};
    sosmc_source law = sosmc_rows_source(&rows);
    for (int64_t t = 0; t < BATCHES; t++) {
        sosmc_batch b = {.dim = DIM, .n = N, .ld = LD, .first = t * N};
        assert_int_equal(law.draw(law.self, rng, &b, x), 0);
        sosmc_uniforms(rng, 0, &b, u);
        for (int i = 0; i < N; i++) {
            int row = (int)(u[i] * ROWS) < ROWS ? (int)(u[i] * ROWS) : ROWS - 1;
            hits[row]++;
            for (int j = 0; j < DIM; j++) assert_true(x[j * LD + i] == data[row * DIM + j]);
            sosmc_batch one = {.dim = DIM, .n = 1, .ld = 1, .first = t * N + i};
            assert_int_equal(law.draw(law.self, rng, &one, alone), 0);
            for (int j = 0; j < DIM; j++) assert_true(alone[j] == x[j * LD + i]);
        }
    }
    double mean = BATCHES * N / (double)ROWS, error = sqrt(mean * (1.0 - 1.0 / ROWS));
    for (int q = 0; q < ROWS; q++) assert_true(fabs(hits[q] - mean) < 4.0 * error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_density),
        cmocka_unit_test(rows_in_order),
        cmocka_unit_test(random_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
