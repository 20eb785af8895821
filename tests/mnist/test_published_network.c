/* test_published_network.c: the published convolutional energy of MNIST images against values computed elsewhere in double
 * precision: energies, dE/dx and the derivative of the mean energy in every tensor, at every vector level. The reference
 * data are no part of the project: without them the test skips and says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sosmc/models.h>

#include "numbers.h"
#include "reference.h"
#include "files/tensors.h"

enum { IMAGES = 8, PIXELS = 784, TENSORS = 12, LEVELS = 3, PARAMETERS = 76993 };
static const char *const level_name[LEVELS] = {"plain", "avx2", "avx512"};
static const char *const tensor_name[TENSORS] = {"conv1_weight", "conv1_bias", "conv2_weight", "conv2_bias",
                                                 "conv3_weight", "conv3_bias", "conv4_weight", "conv4_bias",
                                                 "fc1_weight",   "fc1_bias",   "fc2_weight",   "fc2_bias"};
static const sosmc_layer layers[] = {{.outputs = 16, .kernel = 5, .stride = 2, .padding = 4},
                                     {.outputs = 32, .kernel = 3, .stride = 2, .padding = 1},
                                     {.outputs = 64, .kernel = 3, .stride = 2, .padding = 1},
                                     {.outputs = 64, .kernel = 3, .stride = 2, .padding = 1},
                                     {.kind = SOSMC_DENSE, .outputs = 64},
                                     {.kind = SOSMC_DENSE, .outputs = 1, .activation = SOSMC_IDENTITY}};
static const sosmc_network network = {
    .channels = 1, .rows = 28, .columns = 28, .count = 6, .layer = layers, .sign = -1};
/* As the reference file's description states them, with more digits than a float has. */
static const double energies[IMAGES] = {-0.0304005067, 0.00979776162, -0.0436549826, 0.0302122370,
                                        -0.0310242140, 18.1481563,    17.9290256,    0.0306038639};

static void read_file(const char *name, tensor_file *f)
{
    char error[1024];
    if (tensors_read(reference_file(name), f, error, sizeof error)) fail_msg("%s", error);
}

static const tensor *tensor_of(const tensor_file *f, const char *name)
{
    const tensor *t = tensors_find(f, name);
    if (!t) fail_msg("there is no tensor %s", name);
    return t;
}

static void read_weights(double *theta)
{
    tensor_file f = {0};
    int64_t at = 0;
    read_file("mnist_ebm_checkpoint.npz", &f);
    for (int k = 0; k < TENSORS; k++) {
        const tensor *t = tensor_of(&f, tensor_name[k]);
        for (int64_t i = 0; i < tensor_count(t); i++, at++) theta[at] = (double)t->data[i];
    }
    assert_int_equal(at, PARAMETERS);
    tensors_free(&f);
}

/* |a - b| against |b|; numbers of a are `step` apart. */
static void assert_norm_near(const double *a, int step, const float *b, int64_t count, const char *what)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        off += (a[i * step] - (double)b[i]) * (a[i * step] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (!(off <= 1e-10 * size)) fail_msg("%s: off by %g of the norm", what, sqrt(off / size));
}

static void check_level(const sosmc_model *m, const double *theta, sosmc_batch b, const tensor_file *f)
{
    double U[IMAGES], c[IMAGES], *gx = numbers_room(sizeof(double) * PIXELS * IMAGES);
    double *g = calloc(PARAMETERS, sizeof *g);
    const float *slope = tensor_of(f, "grad_x")->data;
    int64_t at = 0;
    assert_non_null(g);
    assert_int_equal(m->energy(m->self, theta, &b, U, gx), 0);
    for (int i = 0; i < IMAGES; i++) {
        if (!(fabs(U[i] - energies[i]) <= 2e-6 * fmax(1, fabs(energies[i]))))
            fail_msg("image %d: the energy is %.9g, not %.9g", i, U[i], energies[i]);
        assert_norm_near(gx + i, IMAGES, slope + (ptrdiff_t)i * PIXELS, PIXELS, "dE/dx");
        c[i] = 1.0 / IMAGES;
    }
    b.fresh = 1;
    assert_int_equal(m->grad_theta(m->self, theta, &b, c, g), 0);
    for (int k = 0; k < TENSORS; k++) {
        char name[64];
        (void)snprintf(name, sizeof name, "dmeanE_d_%s", tensor_name[k]);
        const tensor *t = tensor_of(f, name);
        assert_norm_near(g + at, 1, t->data, tensor_count(t), name);
        at += tensor_count(t);
    }
    free(gx);
    free(g);
}

static void published_network_matches_reference(void **state)
{
    sosmc_model m = sosmc_network_model(&network);
    tensor_file f = {0};
    assert_int_equal(m.dim_theta, PARAMETERS);
    read_file("mnist_ebm_reference.npz", &f); /* first: a skip leaves nothing behind */
    double *theta = numbers_room(sizeof(double) * PARAMETERS), *x = numbers_room(sizeof(double) * PIXELS * IMAGES);
    void *prep = numbers_room(m.prep), *work = numbers_room(m.work * IMAGES);
    read_weights(theta);
    const float *image = tensor_of(&f, "x")->data;
    for (int i = 0; i < IMAGES; i++)
        for (int j = 0; j < PIXELS; j++) x[j * IMAGES + i] = (double)image[i * PIXELS + j];
    assert_int_equal(m.prepare(m.self, theta, prep), 0);
    for (int v = 0; v < LEVELS; v++) {
        sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = sosmc_simd_named(level_name[v])};
        b.dim = PIXELS;
        b.n = b.ld = IMAGES;
        if (b.simd) check_level(&m, theta, b, &f);
    }
    tensors_free(&f);
    free(theta);
    free(x);
    free(prep);
    free(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_network_matches_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
