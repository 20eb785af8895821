/* test_sources.c: the laws that come with the library give particle i what its number says, in any batch; epochs visit
 * every row once, in orders that are uniform as far as can be seen. */
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

/* ---------------------------------------------------------------------------- epochs */

enum { MOST_ROWS = 4097 };

static double numbered[MOST_ROWS]; /* row k of dimension 1 holds k */

static sosmc_rows epochs_of(int64_t rows, int batch)
{
    for (int k = 0; k < MOST_ROWS; k++) numbered[k] = k;
    return (sosmc_rows){.data = numbered, .rows = rows, .mode = SOSMC_ROWS_EPOCHS, .batch = batch};
}

/* The rows of one step, drawn in tiles of `tile`, the last tile first. */
static void draw_step(const sosmc_rows *rows, sosmc_rng name, int tile, int *out)
{
    _Alignas(64) double x[64];
    sosmc_source law = sosmc_rows_source(rows);
    for (int first = (rows->batch - 1) / tile * tile; first >= 0; first -= tile) {
        int n = rows->batch - first < tile ? rows->batch - first : tile;
        sosmc_batch b = {.dim = 1, .n = n, .ld = 64, .first = first};
        assert_int_equal(law.draw(law.self, name, &b, x), 0);
        for (int i = 0; i < n; i++) out[first + i] = (int)x[i];
    }
}

/* All whole batches of an epoch, one after the other; returns how many rows that is. */
static int draw_epoch(const sosmc_rows *rows, sosmc_rng name, uint64_t epoch, int *out)
{
    int batches = (int)(rows->rows / rows->batch);
    for (int k = 0; k < batches; k++) {
        name.step = epoch * (uint64_t)batches + (uint64_t)k;
        draw_step(rows, name, 64, out + k * rows->batch);
    }
    return batches * rows->batch;
}

static void every_row_once(void **state)
{
    static const int cases[][2] = {{1, 1},   {2, 1},      {2, 2},       {3, 2},    {4, 4},    {5, 2},
                                   {7, 3},   {16, 4},     {17, 17},     {100, 7},  {100, 10}, {256, 16},
                                   {257, 1}, {1000, 999}, {1024, 1024}, {4097, 64}};
    static int order[MOST_ROWS];
    for (size_t q = 0; q < sizeof cases / sizeof *cases; q++) {
        sosmc_rows rows = epochs_of(cases[q][0], cases[q][1]);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            char seen[MOST_ROWS] = {0};
            int drawn = draw_epoch(&rows, rng, epoch, order);
            assert_int_equal(drawn, cases[q][0] / cases[q][1] * cases[q][1]);
            for (int i = 0; i < drawn; i++) {
                assert_in_range(order[i], 0, cases[q][0] - 1);
                assert_int_equal(seen[order[i]]++, 0);
            }
        }
    }
}

/* The same whatever the tiles, and a whole batch of several coordinates is made of whole rows. */
static void epochs_in_any_tiles(void **state)
{
    int whole[50], parts[50];
    _Alignas(64) double x[DIM * LD];
    double data[ROWS * DIM];
    sosmc_rows rows = epochs_of(1000, 50);
    for (uint64_t step = 0; step < 60; step++) {
        sosmc_rng name = {.seed = 3, .step = step, .stream = SOSMC_STREAM_DATA};
        draw_step(&rows, name, 50, whole);
        for (int tile = 1; tile < 50; tile += 6) {
            draw_step(&rows, name, tile, parts);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    }
    for (int q = 0; q < ROWS * DIM; q++) data[q] = q;
    rows = (sosmc_rows){.data = data, .rows = ROWS, .mode = SOSMC_ROWS_EPOCHS, .batch = ROWS};
    sosmc_source law = sosmc_rows_source(&rows);
    sosmc_batch b = {.dim = DIM, .n = ROWS, .ld = LD};
    assert_int_equal(law.draw(law.self, rng, &b, x), 0);
    for (int i = 0; i < ROWS; i++)
        for (int j = 1; j < DIM; j++) assert_true(x[j * LD + i] == x[i] + j);
}

static int places_shared(const sosmc_rows *rows, sosmc_rng a, uint64_t epoch_a, sosmc_rng b, uint64_t epoch_b)
{
    static int one[MOST_ROWS], two[MOST_ROWS];
    int drawn = draw_epoch(rows, a, epoch_a, one), same = 0;
    draw_epoch(rows, b, epoch_b, two);
    for (int i = 0; i < drawn; i++) same += one[i] == two[i];
    return same;
}

/* Two independent orders share a Poisson(1) number of places. */
static void epochs_differ(void **state)
{
    enum { MANY = 12 };
    sosmc_rows rows = epochs_of(1000, 100);
    sosmc_rng other = rng, again = rng;
    again.retry = 5; /* a repeated step stays in its epoch */
    assert_int_equal(places_shared(&rows, rng, 4, again, 4), 1000);
    assert_true(places_shared(&rows, rng, 0, rng, 1) < MANY);
    assert_true(places_shared(&rows, rng, 1, rng, 2) < MANY);
    assert_true(places_shared(&rows, rng, 1, rng, (uint64_t)1 << 33) < MANY);
    other.seed++;
    assert_true(places_shared(&rows, rng, 1, other, 1) < MANY);
    other.seed = rng.seed + ((uint64_t)1 << 40);
    assert_true(places_shared(&rows, rng, 1, other, 1) < MANY);
    other = rng;
    other.stream = SOSMC_STREAM_REFRESH;
    assert_true(places_shared(&rows, rng, 1, other, 1) < MANY);
}

static double chi_square(const int *count, int cells, double expected)
{
    double sum = 0;
    for (int q = 0; q < cells; q++) sum += (count[q] - expected) * (count[q] - expected) / expected;
    return sum;
}

/* Beyond this with a probability of about 1e-5 (Wilson and Hilferty). */
static double chi_square_bound(int freedom)
{
    double v = 2.0 / (9.0 * freedom), root = 1.0 - v + 4.265 * sqrt(v);
    return freedom * root * root * root;
}

/* Orders of few rows: all rows! of them come equally often. */
static void orders_are_uniform(void **state)
{
    enum { EPOCHS = 20000 };
    for (int n = 2; n <= 4; n++) {
        sosmc_rows rows = epochs_of(n, n);
        int count[256] = {0}, cells[24], used = 0, order[4];
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            int code = 0;
            draw_epoch(&rows, rng, epoch, order);
            for (int i = 0; i < n; i++) code = 4 * code + order[i];
            count[code]++;
        }
        for (int q = 0; q < 256; q++)
            if (count[q] && used < 24) cells[used++] = count[q];
        assert_int_equal(used, n == 2 ? 2 : n == 3 ? 6 : 24);
        assert_true(chi_square(cells, used, EPOCHS / (double)used) < chi_square_bound(used - 1));
    }
}

/* More rows: where a given row stands, the step from a row to its neighbour, and their correlation, -1/(n - 1). */
static void places_are_uniform(void **state)
{
    static const int sizes[] = {10, 16, 60};
    for (int q = 0; q < 3; q++) {
        int n = sizes[q], epochs = 60000 / n, place[2][64] = {{0}}, step[64] = {0}, order[64], pairs = epochs * (n - 1);
        sosmc_rows rows = epochs_of(n, n);
        double product = 0, mean = 0.5 * (n - 1), variance = ((double)n * n - 1) / 12;
        for (int epoch = 0; epoch < epochs; epoch++) {
            draw_epoch(&rows, rng, (uint64_t)epoch, order);
            for (int i = 0; i < n; i++) {
                if (order[i] == 0) place[0][i]++;
                if (order[i] == n - 1) place[1][i]++;
                if (i == 0) continue;
                step[(order[i] - order[i - 1] + n) % n]++;
                product += (order[i] - mean) * (order[i - 1] - mean) / variance;
            }
        }
        for (int k = 0; k < 2; k++) assert_true(chi_square(place[k], n, epochs / (double)n) < chi_square_bound(n - 1));
        assert_int_equal(step[0], 0);
        assert_true(chi_square(step + 1, n - 1, pairs / (double)(n - 1)) < chi_square_bound(n - 2));
        assert_true(fabs(product / pairs + 1.0 / (n - 1)) < 4.5 / sqrt(pairs));
    }
}

static int refused(int64_t count, int batch, int64_t first, int n)
{
    _Alignas(64) double x[LD];
    sosmc_rows rows = epochs_of(count, batch);
    sosmc_source law = sosmc_rows_source(&rows);
    sosmc_batch b = {.dim = 1, .n = n, .ld = LD, .first = first};
    return law.draw(law.self, rng, &b, x) != 0;
}

static void impossible_epochs(void **state)
{
    assert_true(refused(10, 0, 0, 1) && refused(10, -1, 0, 1) && refused(10, 11, 0, 1) && refused(0, 1, 0, 1));
    assert_true(refused(10, 4, 4, 1) && refused(10, 4, 0, 5) && refused(10, 4, 2, 3) && refused(10, 4, -1, 1));
    assert_false(refused(10, 4, 0, 4) || refused(10, 4, 3, 1) || refused(10, 10, 0, 10) || refused(1, 1, 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_density),      cmocka_unit_test(rows_in_order),
        cmocka_unit_test(random_rows),         cmocka_unit_test(every_row_once),
        cmocka_unit_test(epochs_in_any_tiles), cmocka_unit_test(epochs_differ),
        cmocka_unit_test(orders_are_uniform),  cmocka_unit_test(places_are_uniform),
        cmocka_unit_test(impossible_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
