/* test_network_text.c: descriptions of networks: what each word means, that printing and reading are inverse, and what
 * the sentences about wrong ones name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/network_text.h"

static char error[512];
#define ERROR error, sizeof error

static void assert_read(const char *text, sosmc_network *out)
{
    if (network_parse(text, out, ERROR)) fail_msg("%s: %s", text, error);
}

static void assert_same(const sosmc_network *a, const sosmc_network *b)
{
    assert_true(a->channels == b->channels && a->rows == b->rows && a->columns == b->columns && a->count == b->count);
    assert_true(a->output == b->output && a->sign == b->sign && a->base_sd == b->base_sd);
    for (int i = 0; i < a->count; i++) {
        const sosmc_layer *p = &a->layer[i], *q = &b->layer[i];
        assert_true(p->kind == q->kind && p->outputs == q->outputs && p->kernel == q->kernel &&
                    p->stride == q->stride && p->padding == q->padding && p->activation == q->activation &&
                    p->skip == q->skip);
    }
}

/* ---------------------------------------------------------------------------- reading */

static void words_have_their_meaning(void **state)
{
    sosmc_network n;
    assert_read("3x9x7; conv 3 3 pad 1\nconv 3 5 add 2 tanh pad 2 ;\n\n; conv 8 4 stride 2 gelu; dense 5 softplus;"
                "dense 5 add 1 leaky_relu; dense 4; output 3; base 0.75; energy -1;",
                &n);
    static const sosmc_layer expected[] = {
        {SOSMC_CONVOLUTION, 3, 3, 1, 1, SOSMC_IDENTITY, 0}, {SOSMC_CONVOLUTION, 3, 5, 1, 2, SOSMC_TANH, 2},
        {SOSMC_CONVOLUTION, 8, 4, 2, 0, SOSMC_GELU, 0},     {SOSMC_DENSE, 5, 0, 0, 0, SOSMC_SOFTPLUS, 0},
        {SOSMC_DENSE, 5, 0, 0, 0, SOSMC_LEAKY_RELU, 1},     {SOSMC_DENSE, 4, 0, 0, 0, SOSMC_IDENTITY, 0}};
    sosmc_network wanted = {.channels = 3,
                            .rows = 9,
                            .columns = 7,
                            .count = 6,
                            .layer = expected,
                            .output = 3,
                            .sign = -1,
                            .base_sd = 0.75};
    assert_same(&n, &wanted);
    network_free(&n);
    network_free(&n);
    assert_read("1x1x2; dense 1", &n);
    assert_true(n.sign == 1 && n.output == 0 && n.base_sd == 0 && n.count == 1);
    network_free(&n);
}

static void mnist_is_the_tutorials(void **state)
{
    static const char text[] = "1x28x28; conv 16 5 stride 2 pad 4 swish; conv 32 3 stride 2 pad 1 swish; conv 64 3 "
                               "stride 2 pad 1 swish; conv 64 3 stride 2 pad 1 swish; dense 64 swish; dense 1; energy "
                               "-1";
    static const int64_t sizes[] = {416, 4640, 18496, 36928, 16448, 65};
    static const int sides[] = {16, 8, 4, 2, 1, 1};
    sosmc_network named, told;
    assert_read(" mnist\n", &named);
    assert_read(text, &told);
    assert_same(&named, &told);
    assert_int_equal(network_parameters(&named), 76993);
    layer_map map = network_picture(&named);
    for (int k = 0; k < named.count; k++) {
        int64_t shape[4], size = 1;
        int dims = network_weights(map, &named.layer[k], shape);
        assert_int_equal(dims, k < 4 ? 4 : 2);
        for (int i = 0; i < dims; i++) size *= shape[i];
        assert_int_equal(size + shape[0], sizes[k]);
        map = network_behind(map, &named.layer[k]);
        assert_true(map.rows == sides[k] && map.columns == sides[k]);
    }
    network_free(&named);
    network_free(&told);
}

/* ---------------------------------------------------------------------------- printing */

static void printed_is_read_again(void **state)
{
    static const char *const texts[] = {
        "mnist",
        "1x1x2; dense 1",
        "2x5x4; conv 2 3 pad 1 silu; conv 2 3 pad 1 add 2 silu; dense 3; output 2; base 1e-3",
        "3x8x8; conv 4 8 stride 7 pad 3 gelu; conv 1 1 leaky_relu; dense 7; dense 7 add 1 tanh; dense 2 softplus; energy -1; "
        "base 0.1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char once[NETWORK_TEXT], twice[NETWORK_TEXT];
        sosmc_network a, b;
        assert_read(texts[i], &a);
        assert_int_equal(network_print(&a, once, sizeof once), 0);
        assert_read(once, &b);
        assert_same(&a, &b);
        assert_int_equal(network_print(&b, twice, sizeof twice), 0);
        assert_string_equal(once, twice);
        assert_null(strchr(once, '\n'));
        size_t n = strlen(once); /* exactly enough room, and one byte too few */
        assert_int_equal(network_print(&a, twice, n + 1), 0);
        assert_string_equal(once, twice);
        assert_int_equal(network_print(&a, twice, n), -1);
        assert_int_equal(network_print(&a, twice, 1), -1);
        network_free(&a);
        network_free(&b);
    }
}

/* The longest there is: every layer with every word and the largest numbers. */
static void the_room_is_enough(void **state)
{
    sosmc_layer layer[NETWORK_LAYERS];
    char text[NETWORK_TEXT];
    for (int i = 0; i < NETWORK_LAYERS; i++)
        layer[i] = (sosmc_layer){SOSMC_CONVOLUTION, 16777216, 16777216, 16777216, 16777216, SOSMC_LEAKY_RELU, 64};
    sosmc_network n = {16777216,
                       16777216,
                       16777216,
                       NETWORK_LAYERS,
                       layer,
                       16777216,
                       -1,
                       0x1.fffffffffffffp-1000,
                       0x1.fffffffffffffp-1000};
    assert_int_equal(network_print(&n, text, sizeof text), 0);
}

/* ---------------------------------------------------------------------------- what is refused */

static void wrong_descriptions_are_told(void **state)
{
    static const struct {
        const char *text, *says;
    } tests[] = {
        {"", "the network is empty"},
        {" ;\n ", "the network is empty"},
        {"mnst", "clause 1 of the network: 'mnst' is no picture; expected channels x rows x columns"},
        {"1x28", "'1x28' is no picture"},
        {"1x28x28x1; dense 1", "'1x28x28x1' is no picture"},
        {"1x28x0; dense 1", "'1x28x0' is no picture"},
        {"1x28x-3; dense 1", "'1x28x-3' is no picture"},
        {"1x28x99999999999999999999; dense 1", "is no picture"},
        {"1x28x28 dense 1", "clause 1 of the network: 'dense' is one word too many"},
        {"1x9x9; conv", "clause 2 of the network ends early; expected the channels"},
        {"1x9x9; conv 4", "clause 2 of the network ends early; expected the side of the kernel"},
        {"1x9x9; conv 4 3.5", "'3.5' is out of place; expected the side of the kernel, a whole number from 1"},
        {"1x9x9; conv 0 3", "'0' is out of place; expected the channels"},
        {"1x9x9; conv 4 3; conv 4 3 strid 2",
         "clause 3 of the network: 'strid' is not known; expected stride, pad, add or an activation"},
        {"1x9x9; conv 4 3 stride; dense 1", "clause 2 of the network ends early; expected the stride"},
        {"1x9x9; conv 4 3 stride 0", "expected the stride, a whole number from 1"},
        {"1x9x9; conv 4 3 pad -1", "'-1' is out of place; expected the width of the padding, a whole number from 0"},
        {"1x9x9; conv 4 3 pad 1 pad 1", "'pad' stands twice"},
        {"1x9x9; conv 4 3 silu tanh", "'tanh' is a second activation"},
        {"1x9x9; dense 4 stride 2", "'stride' is not known; expected add or an activation"},
        {"1x9x9; dense 4 relu", "'relu' is not known"},
        {"1x9x9; dens 4",
         "clause 2 of the network: 'dens' is not known; expected conv, dense, energy, output, base or temperature"},
        {"1x9x9; dense 4; energy 2", "clause 3 of the network: '2' is no sign of an energy; expected 1 or -1"},
        {"1x9x9; dense 4; energy", "clause 3 of the network ends early; expected 1 or -1"},
        {"1x9x9; dense 4; energy 1; energy 1", "'energy' stands twice"},
        {"1x9x9; dense 4; energy 1 1", "'1' is one word too many"},
        {"1x9x9; dense 4; output x", "'x' is out of place; expected an output of the last layer"},
        {"1x9x9; dense 4; base 0", "'0' is no standard deviation; expected a number above 0"},
        {"1x9x9; dense 4; base inf", "'inf' is no standard deviation"},
        {"1x9x9; dense 4; output 1; dense 2", "clause 4 of the network: 'dense' stands behind"},
        {"1x9x9; averyveryveryveryveryveryveryveryverylongwordindeed_and_more", "clause 2 of the network: 'averyvery"},
        /* what the library finds */
        {"1x9x9", "the network cannot be:"},
        {"1x9x9; conv 4 11; dense 1", "layer 1"},
        {"1x9x9; dense 4; conv 4 1", "layer 2"},
        {"1x9x9; dense 4; output 4", "output"},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        sosmc_network n = {.count = 7};
        error[0] = 0;
        if (!network_parse(tests[i].text, &n, ERROR)) fail_msg("'%s' was read", tests[i].text);
        if (!strstr(error, tests[i].says)) fail_msg("'%s': %s; expected: %s", tests[i].text, error, tests[i].says);
        assert_true(n.count == 0 && n.layer == NULL);
    }
}

static void append(char *text, size_t room, const char *words)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, room - used, "%s", words);
}

static void too_many_layers_are_refused(void **state)
{
    char text[2048] = "1x2x2";
    sosmc_network n;
    for (int i = 0; i < NETWORK_LAYERS; i++) append(text, sizeof text, "; dense 2");
    assert_read(text, &n);
    assert_int_equal(n.count, NETWORK_LAYERS);
    network_free(&n);
    append(text, sizeof text, "; dense 2");
    assert_int_equal(network_parse(text, &n, ERROR), -1);
    assert_non_null(strstr(error, "clause 66 of the network is one layer too many; expected at most 64"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_their_meaning),    cmocka_unit_test(mnist_is_the_tutorials),
        cmocka_unit_test(printed_is_read_again),       cmocka_unit_test(the_room_is_enough),
        cmocka_unit_test(wrong_descriptions_are_told), cmocka_unit_test(too_many_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
