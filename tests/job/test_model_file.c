/* test_model_file.c: picture networks in files: they survive safetensors and NPZ, other programs' names are put in order,
 * shapes are held against the description, and the published model of MNIST digits is read with its own names.
 * Perceptrons are in test_tensors.c.
 *
 * The Python side is real_packages.py (write_network, check_network). It runs where SOSMC_TEST_PYTHON, or else python3,
 * has numpy and safetensors. */
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

#include "files/files.h"
#include "job/model_file.h"
#include "job/network_text.h"
#include "streams_and_python.h"
#include "reference.h"
#include "scratch.h"
#include "files/tensors.h"

/* real_packages.py knows the same layers and numbers: 2 channels of 5 x 4, then 3 maps of 3 x 2, then 2 units, then 1. */
#define SMALL "2x5x4; conv 3 3 stride 2 pad 1 silu; dense 2 tanh; dense 1; energy -1; base 1.5"
enum { PARAMETERS = 57 + 38 + 3 };

static double number(int i) { return (double)(float)(sin((double)i) / 3.0); }

static void make_model(model_file *m)
{
    *m = (model_file){.inputs = 40, .parameters = PARAMETERS};
    assert_fine(network_parse(SMALL, &m->network, ERROR));
    m->theta = malloc(PARAMETERS * sizeof *m->theta);
    assert_non_null(m->theta);
    for (int i = 0; i < PARAMETERS; i++) m->theta[i] = sin((double)i) / 3.0;
}

static void assert_model(const model_file *m)
{
    char text[NETWORK_TEXT];
    assert_true(model_is_network(m) && m->inputs == 40 && m->parameters == PARAMETERS && m->base_sd == 1.5);
    assert_int_equal(network_print(&m->network, text, sizeof text), 0);
    assert_string_equal(text, SMALL);
    for (int i = 0; i < PARAMETERS; i++) assert_true(m->theta[i] == number(i));
}

static void assert_stored(const char *name, const char *description)
{
    model_file m;
    assert_fine(model_read_as(at(name), description, NULL, &m, ERROR));
    assert_model(&m);
    model_free(&m);
}

/* ---------------------------------------------------------------------------- our own files */

static void networks_survive(void **state)
{
    model_file m;
    make_model(&m);
    assert_fine(model_write(at("m.safetensors"), &m, ERROR));
    assert_fine(model_write(at("m.npz"), &m, ERROR));
    model_free(&m);
    assert_stored("m.safetensors", NULL);
    assert_stored("m.npz", NULL);
    assert_stored("m.npz", SMALL); /* the same once more is no contradiction */
    tensor_file f;
    assert_fine(tensors_read(at("m.safetensors"), &f, ERROR));
    assert_string_equal(tensors_metadata(&f, "sosmc.network"), SMALL);
    assert_string_equal(tensors_metadata(&f, "format"), "pt");
    const tensor *t = tensors_find(&f, "layer1.weight");
    assert_true(t && t->dims == 4 && t->shape[0] == 3 && t->shape[1] == 2 && t->shape[2] == 3 && t->shape[3] == 3);
    t = tensors_find(&f, "layer2.weight");
    assert_true(t && t->dims == 2 && t->shape[0] == 2 && t->shape[1] == 18);
    tensors_free(&f);
}

static void the_library_takes_both_kinds(void **state)
{
    model_file m;
    sosmc_mlp mlp;
    make_model(&m);
    sosmc_model u = model_energy(&m, &mlp);
    assert_true(u.dim_x == 40 && u.dim_theta == PARAMETERS);
    mlp = model_network(&m); /* who can only take a perceptron is told so */
    assert_int_equal(sosmc_mlp_model(&mlp).dim_x, 0);
    model_free(&m);
    int width[] = {4};
    double theta[17] = {0};
    m = (model_file){
        .inputs = 2, .hidden_layers = 1, .width = width, .activation = "tanh", .parameters = 17, .theta = theta};
    u = model_energy(&m, &mlp);
    assert_true(u.dim_x == 2 && u.dim_theta == 17 && !model_is_network(&m));
}

static void impossible_networks_are_not_written(void **state)
{
    model_file m;
    make_model(&m);
    m.parameters--;
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("has 97 parameters, its layers need 98");
    m.parameters++;
    m.network.output = 1;
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("cannot write");
    m.network.output = 0;
    m.theta[57] = 1e39;
    assert_int_equal(model_write(at("bad.safetensors"), &m, ERROR), -1);
    assert_says("number 1 of layer2.weight is 1e+39");
    model_free(&m);
    assert_int_equal(access(at("bad.npz"), F_OK), -1);
    assert_int_equal(access(at("bad.safetensors"), F_OK), -1);
}

/* ---------------------------------------------------------------------------- names and shapes of others */

typedef struct {
    const char *stem;
    int dims;
    int64_t shape[4];
} part;

/* A file whose weights are constant: the number of their place in `parts`. */
static void write_parts(const char *name, const part *parts, int n, const char *description)
{
    tensor_file f = {0};
    char full[64];
    for (int k = 0; k < n; k++) {
        (void)snprintf(full, sizeof full, "%s.weight", parts[k].stem);
        float *w = tensors_add(&f, full, parts[k].dims, parts[k].shape);
        assert_non_null(w);
        for (int64_t i = 0; i < tensor_count(&f.tensor[f.count - 1]); i++) w[i] = (float)k;
        (void)snprintf(full, sizeof full, "%s.bias", parts[k].stem);
        assert_non_null(tensors_add(&f, full, 1, parts[k].shape));
    }
    if (description) assert_int_equal(tensors_describe(&f, "sosmc.network", description), 0);
    assert_fine(tensors_write(at(name), &f, ERROR));
    tensors_free(&f);
}

/* Layers are told apart by nothing but their names: the constants in theta tell the order they were put in. */
static void names_are_put_in_order(void **state)
{
#define ONE \
    4, { 1, 1, 1, 1 }
#define LINE \
    2, { 1, 1 }
    static const struct {
        part part[5];
        int order[5];
    } tests[] = {
        {{{"fc2", LINE}, {"conv2", ONE}, {"fc1", LINE}, {"conv1", ONE}, {"conv10", ONE}}, {3, 1, 4, 2, 0}},
        {{{"net.11", LINE}, {"net.9", LINE}, {"net.0", ONE}, {"net.2", ONE}, {"net.4", ONE}}, {2, 3, 4, 1, 0}},
        {{{"b2.conv1", ONE}, {"b1.conv2", ONE}, {"b1.conv1", ONE}, {"b2.conv2", ONE}, {"fc", LINE}}, {2, 1, 0, 3, 4}},
        {{{"out3", LINE}, {"in1", LINE}, {"hidden2", LINE}, {"conv", ONE}, {"x4", LINE}}, {3, 1, 2, 0, 4}},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        char text[256] = "1x1x1";
        int convolutions = 0;
        for (int k = 0; k < 5; k++) convolutions += tests[i].part[k].dims == 4;
        for (int k = 0; k < 5; k++) {
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, k < convolutions ? "; conv 1 1" : "; dense 1");
        }
        write_parts("order.safetensors", tests[i].part, 5, text);
        model_file m;
        assert_fine(model_read(at("order.safetensors"), &m, ERROR));
        for (int k = 0; k < 5; k++) assert_true(m.theta[2 * k] == tests[i].order[k]);
        model_free(&m);
    }
}

static void assert_refused(const char *description, const char *says)
{
    model_file m;
    sentence[0] = 0;
    if (!model_read_as(at("net.safetensors"), description, NULL, &m, ERROR)) fail_msg("read; expected: %s", says);
    assert_says(says);
    assert_says("net.safetensors");
    assert_true(m.theta == NULL && m.network.layer == NULL && m.parameters == 0);
}

static void files_that_do_not_fit_are_refused(void **state)
{
    static const part good[] = {{"l1", 4, {3, 2, 3, 3}}, {"l2", 2, {1, 60}}};
    static const char fits[] = "2x5x4; conv 3 3 pad 1; dense 1";
    model_file m;
    write_parts("net.safetensors", good, 2, NULL);
    assert_fine(model_read_as(at("net.safetensors"), fits, NULL, &m, ERROR));
    model_free(&m);
    assert_refused(NULL, "has convolutions but no description of strides and padding: give it with model.network or "
                         "--network");
    assert_refused("2x5x4; conv 3 5 pad 2; dense 1", "tensor 'l1.weight' of");
    assert_refused("2x5x4; conv 3 5 pad 2; dense 1", "has shape 3x2x3x3, but layer 1 of the network asks for 3x2x5x5");
    assert_refused("2x5x4; conv 3 3; dense 1", "'l2.weight' of");
    assert_refused("2x5x4; conv 3 3; dense 1", "has shape 1x60, but layer 2 of the network asks for 1x18");
    assert_refused("2x5x4; conv 3 3 pad 1; dense 1; dense 1", "holds 2 layers, but its description has 3");
    assert_refused("2x5x4; dense 3; dense 1", "has shape 3x2x3x3, but layer 1 of the network asks for 3x40");
    assert_refused("2x5x4; conv 3 3 padd 1; dense 1", "clause 2 of the network: 'padd' is not known");
    write_parts("net.safetensors", good, 2, fits);
    assert_fine(model_read(at("net.safetensors"), &m, ERROR));
    model_free(&m);
    assert_refused("2x5x4; conv 3 3 pad 1 silu; dense 1", "by its own description, but");
    write_parts("net.safetensors", good, 2, "2x5x4; conv 3 3 padd 1; dense 1");
    assert_refused(NULL, "has a sosmc.network that cannot be read: clause 2");
    const part same[] = {{"a1", 4, {1, 1, 1, 1}}, {"b1", 4, {1, 1, 1, 1}}};
    write_parts("net.safetensors", same, 2, "1x1x1; conv 1 1; conv 1 1");
    assert_refused(NULL, "have the same number");
    const part unnumbered[] = {{"a", 4, {1, 1, 1, 1}}, {"b", 4, {1, 1, 1, 1}}};
    write_parts("net.safetensors", unnumbered, 2, "1x1x1; conv 1 1; conv 1 1");
    assert_refused(NULL, "has no number in its name");
    const part circle[] = {{"b1.c3", 2, {1, 1}}, {"b2.c1", 2, {1, 1}}, {"c2", 2, {1, 1}}};
    write_parts("net.safetensors", circle, 3, NULL);
    assert_refused(NULL, "layers need an order");
}

static void the_base_stands_in_one_place(void **state)
{
    static const struct {
        const char *network, *base, *says;
        double base_sd;
    } tests[] = {
        {"1x1x2; dense 1", "0.5", NULL, 0.5},
        {"1x1x2; dense 1; base 0.5", NULL, NULL, 0.5},
        {"1x1x2; dense 1; base 0.5", "0.5", NULL, 0.5},
        {"1x1x2; dense 1; base 0.5", "0.25", "has 0.25 as sosmc.base_sd, but its description says base 0.5", 0}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tensor_file f = {0};
        static const int64_t shape[2] = {1, 2};
        model_file m;
        assert_non_null(tensors_add(&f, "l1.weight", 2, shape));
        assert_non_null(tensors_add(&f, "l1.bias", 1, shape));
        assert_int_equal(tensors_describe(&f, "sosmc.network", tests[i].network), 0);
        if (tests[i].base) assert_int_equal(tensors_describe(&f, "sosmc.base_sd", tests[i].base), 0);
        assert_fine(tensors_write(at("base.safetensors"), &f, ERROR));
        tensors_free(&f);
        int rc = model_read(at("base.safetensors"), &m, ERROR);
        if (tests[i].says) {
            assert_int_equal(rc, -1);
            assert_says(tests[i].says);
            continue;
        }
        assert_fine(rc);
        assert_true(m.base_sd == tests[i].base_sd && m.network.base_sd == tests[i].base_sd);
        model_free(&m);
    }
}

static void write_scaled(const char *centre, const char *factor)
{
    static const int64_t shape[2] = {1, 2};
    tensor_file f = {0};
    assert_non_null(tensors_add(&f, "l1.weight", 2, shape));
    assert_non_null(tensors_add(&f, "l1.bias", 1, shape));
    if (centre) assert_int_equal(tensors_describe(&f, "sosmc.centre", centre), 0);
    if (factor) assert_int_equal(tensors_describe(&f, "sosmc.factor", factor), 0);
    assert_fine(tensors_write(at("scaled.safetensors"), &f, ERROR));
    tensors_free(&f);
}

/* How the points were scaled is read as it was written, also when it is written once more. */
static void the_scaling_of_the_points(void **state)
{
    static const char *const wrong[][2] = {{"1 2", NULL},    {NULL, "1 2"},   {"1", "1 2"},    {"1 2 3", "1 2"},
                                           {"1 2", "1 two"}, {"1 2", "1 -2"}, {"1 nan", "1 2"}};
    model_file m, again;
    write_scaled("0.1 -7e3", "2 0.30000000000000004");
    assert_fine(model_read(at("scaled.safetensors"), &m, ERROR));
    assert_fine(model_write(at("again.npz"), &m, ERROR));
    assert_fine(model_read(at("again.npz"), &again, ERROR));
    assert_true(again.scaling.dim == 2 && again.scaling.centre[0] == 0.1 && again.scaling.centre[1] == -7e3);
    assert_true(again.scaling.factor[0] == 2 && again.scaling.factor[1] == 0.30000000000000004);
    model_free(&m);
    model_free(&again);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_scaled(wrong[i][0], wrong[i][1]);
        assert_int_equal(model_read(at("scaled.safetensors"), &m, ERROR), -1);
        assert_says("needs 2 numbers as sosmc.centre and as many positive ones as sosmc.factor");
        assert_null(m.scaling.centre);
    }
}

/* ---------------------------------------------------------------------------- the published model */

static void the_published_digits_are_read(void **state)
{
    /* where each tensor begins in theta, its first number and the sum of absolute values: data/README.md */
    static const struct {
        int from, count;
        double first, sum;
    } tests[] = {{0, 400, 0.0202282332, 44.99514},         {416, 4608, 0.0051709739, 217.64775},
                 {5056, 18432, -0.0441452749, 651.04041},  {23552, 36864, 0.0106474906, 994.71234},
                 {60480, 16384, -0.0451088585, 600.18201}, {76928, 64, 0.1506606489, 6.4401321},
                 {76992, 1, -0.1487099230, 0.1487099230}};
    model_file m;
    const char *path = reference_file("mnist_ebm_checkpoint.npz");
    assert_int_equal(model_read(path, &m, ERROR), -1);
    assert_says("has convolutions but no description");
    assert_fine(model_read_as(path, "mnist", NULL, &m, ERROR));
    assert_true(m.inputs == 784 && m.parameters == 76993 && m.network.sign == -1 && m.network.count == 6);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        double sum = 0;
        for (int k = 0; k < tests[i].count; k++) sum += fabs(m.theta[tests[i].from + k]);
        assert_true(fabs(m.theta[tests[i].from] - tests[i].first) < 1e-9);
        assert_true(fabs(sum - tests[i].sum) < 1e-5 * tests[i].sum);
    }
    model_file again;
    assert_fine(model_write(at("digits.safetensors"), &m, ERROR));
    assert_fine(model_read(at("digits.safetensors"), &again, ERROR));
    assert_memory_equal(again.theta, m.theta, sizeof(double) * 76993);
    model_free(&m);
    model_free(&again);
}

/* ---------------------------------------------------------------------------- the Python packages */

static void we_read_what_the_packages_write(void **state)
{
    python_packages(scratch, "write_network");
    assert_stored("described.safetensors", NULL);
    assert_stored("tutorial.safetensors", SMALL);
    assert_stored("published.npz", SMALL);
}

static void the_packages_read_what_we_write(void **state)
{
    model_file m;
    make_model(&m);
    assert_fine(model_write(at("network.safetensors"), &m, ERROR));
    assert_fine(model_write(at("network.npz"), &m, ERROR));
    model_free(&m);
    python_packages(scratch, "check_network");
}

/* ---------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_survive),
        cmocka_unit_test(the_library_takes_both_kinds),
        cmocka_unit_test(impossible_networks_are_not_written),
        cmocka_unit_test(names_are_put_in_order),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(the_base_stands_in_one_place),
        cmocka_unit_test(the_scaling_of_the_points),
        cmocka_unit_test(the_published_digits_are_read),
        cmocka_unit_test(we_read_what_the_packages_write),
        cmocka_unit_test(the_packages_read_what_we_write),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
