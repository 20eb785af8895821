/* test_sources.c: the laws that come with the library give particle i what its number says, in any batch; epochs visit
 * every row once, in orders that are uniform as far as can be seen; bytes are the numbers they stand for, and noise is
 * normal and nobody else's. */
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

/* ------------------------------------------------------------------------------------------------ bytes and noise */

enum { PIXELS = 31, IMAGES = 23, DRAWN = 13 };
static unsigned char image_bytes[IMAGES * PIXELS];
static double image_data[IMAGES * PIXELS];

static sosmc_rows images(int as_bytes, int mode)
{
    for (int q = 0; q < IMAGES * PIXELS; q++) {
        image_bytes[q] = (unsigned char)(q * 37 % 256);
        image_data[q] = image_bytes[q] / 127.5 - 1;
    }
    return (sosmc_rows){.data = as_bytes ? NULL : image_data,
                        .bytes = as_bytes ? image_bytes : NULL,
                        .rows = IMAGES,
                        .mode = mode,
                        .batch = DRAWN,
                        .low = -1,
                        .high = 1};
}

/* A batch in tiles of any size is the batch; ld 1 for single particles. Row i of `out` is particle i. */
static void draw_images(const sosmc_rows *rows, sosmc_rng name, int tile, double out[DRAWN][PIXELS])
{
    _Alignas(64) double x[PIXELS * LD];
    sosmc_source law = sosmc_rows_source(rows);
    for (int first = 0; first < DRAWN; first += tile) {
        int n = DRAWN - first < tile ? DRAWN - first : tile, ld = tile == 1 ? 1 : LD;
        sosmc_batch b = {.dim = PIXELS, .n = n, .ld = ld, .first = first};
        assert_int_equal(law.draw(law.self, name, &b, x), 0);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < PIXELS; j++) out[first + i][j] = x[j * ld + i];
    }
}

static void bytes_are_numbers(void **state)
{
    double a[DRAWN][PIXELS], b[DRAWN][PIXELS];
    for (int mode = SOSMC_ROWS_RANDOM; mode <= SOSMC_ROWS_EPOCHS; mode++)
        for (int noisy = 0; noisy <= 1; noisy++) {
            sosmc_rows numbers = images(0, mode), picture = images(1, mode);
            numbers.noise = picture.noise = noisy ? 0.1 : 0;
            numbers.clamp = picture.clamp = noisy ? 0.8 : 0;
            draw_images(&numbers, rng, LD, a);
            for (int tile = 1; tile <= LD; tile += 3) {
                draw_images(&picture, rng, tile, b);
                assert_memory_equal(a, b, sizeof a);
            }
        }
    sosmc_rows range = images(1, SOSMC_ROWS_IN_ORDER);
    range.low = 2;
    range.high = 5;
    draw_images(&range, rng, LD, a);
    for (int j = 0; j < PIXELS; j++) assert_true(fabs(a[0][j] - (2 + 3 * image_bytes[j] / 255.0)) < 1e-15 * 8);
}

/* Noise leaves the choice of rows alone, is N(0, noise^2), independent between pixels, particles and steps, and is not
 * what made the choice. */
static void noise_is_normal(void **state)
{
    enum { DRAWS = 500 };
    double plain[DRAWN][PIXELS], noisy[DRAWN][PIXELS], before = 0, sum[6] = {0};
    for (int mode = SOSMC_ROWS_RANDOM; mode <= SOSMC_ROWS_EPOCHS; mode++)
        for (uint64_t step = 0; step < DRAWS; step++) {
            sosmc_rng name = {.seed = 12 + (uint64_t)mode, .step = step, .stream = SOSMC_STREAM_DATA};
            sosmc_rows rows = images(1, mode);
            draw_images(&rows, name, LD, plain);
            rows.noise = 0.25;
            draw_images(&rows, name, LD, noisy);
            for (int i = 0; i < DRAWN; i++)
                for (int j = 0; j < PIXELS; j++) {
                    double z = (noisy[i][j] - plain[i][j]) / 0.25;
                    sum[0] += z;
                    sum[1] += z * z;
                    sum[2] += z * z * z * z;
                    sum[3] += z * before; /* the pixel before; the first one's is of another particle */
                    sum[4] += z * plain[i][j];
                    sum[5] += plain[i][j] * plain[i][j];
                    before = z;
                }
        }
    double n = 3.0 * DRAWS * DRAWN * PIXELS, root = sqrt(n);
    assert_true(fabs(sum[0]) < 4 * root);
    assert_true(fabs(sum[1] - n) < 4 * sqrt(2) * root);
    assert_true(fabs(sum[2] - 3 * n) < 4 * sqrt(96) * root);
    assert_true(fabs(sum[3]) < 4 * root);
    assert_true(fabs(sum[4]) < 4 * sqrt(sum[5]));
}

static void clamped_after_the_noise(void **state)
{
    double free_of[DRAWN][PIXELS], held[DRAWN][PIXELS];
    sosmc_rows rows = images(1, SOSMC_ROWS_RANDOM);
    int beyond = 0;
    rows.noise = 0.05;
    draw_images(&rows, rng, LD, free_of);
    rows.clamp = 1;
    draw_images(&rows, rng, LD, held);
    for (int i = 0; i < DRAWN; i++)
        for (int j = 0; j < PIXELS; j++) {
            assert_true(held[i][j] == fmax(-1, fmin(1, free_of[i][j])));
            beyond += fabs(free_of[i][j]) > 1;
        }
    assert_true(beyond > 0);
}

static void impossible_rows(void **state)
{
    double x[PIXELS];
    sosmc_batch b = {.dim = PIXELS, .n = 1, .ld = 1};
    for (int which = 0; which < 5; which++) {
        sosmc_rows rows = images(1, SOSMC_ROWS_RANDOM);
        if (which == 0) rows.data = image_data;
        if (which == 1) rows.bytes = NULL;
        if (which == 2) rows.noise = -0.1;
        if (which == 3) rows.clamp = NAN;
        sosmc_source law = sosmc_rows_source(&rows);
        assert_int_equal(law.draw(law.self, rng, &b, x) == 0, which == 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_density),      cmocka_unit_test(rows_in_order),
        cmocka_unit_test(random_rows),         cmocka_unit_test(every_row_once),
        cmocka_unit_test(epochs_in_any_tiles), cmocka_unit_test(epochs_differ),
        cmocka_unit_test(orders_are_uniform),  cmocka_unit_test(places_are_uniform),
        cmocka_unit_test(impossible_epochs),   cmocka_unit_test(bytes_are_numbers),
        cmocka_unit_test(noise_is_normal),     cmocka_unit_test(clamped_after_the_noise),
        cmocka_unit_test(impossible_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
