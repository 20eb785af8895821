/* test_tensors.c: weights survive the way through safetensors and NPZ files, our own and those of the Python packages;
 * every rule of the formats that a file can break is broken once and answered with the sentence that names it.
 *
 * The Python side is real_packages.py. It runs where SOSMC_TEST_PYTHON, or else python3, has numpy and safetensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/files.h"
#include "job/model_file.h"
#include "streams_and_python.h"
#include "reference.h"
#include "scratch.h"
#include "files/tensors.h"

/* A safetensors file from its parts; `length` is what the first 8 bytes say. */
static void write_parts(const char *name, uint64_t length, const char *header, size_t n, const void *data, size_t bytes)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, 1, 8, f), 8);
    assert_int_equal(fwrite(header, 1, n, f), n);
    if (bytes) assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void assert_refused(const char *name, const char *part)
{
    tensor_file f;
    sentence[0] = 0;
    if (!tensors_read(at(name), &f, ERROR)) fail_msg("%s was read; \"%s\" was expected", name, part);
    assert_says(part);
    assert_says(name);
    assert_true(f.tensor == NULL && f.count == 0 && f.metadata == NULL && f.pairs == 0);
}

static void assert_same_tensor(const tensor *a, const tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->dims, b->dims);
    for (int i = 0; i < a->dims; i++) assert_int_equal(a->shape[i], b->shape[i]);
    assert_memory_equal(a->data, b->data, (size_t)tensor_count(a) * sizeof(float));
}

/* ---------------------------------------------------------------------------- tensors */

/* Every number of dimensions, an empty tensor, signed zero, names that need escapes. */
static tensor_file odd_tensors(void)
{
    tensor_file f = {0};
    float *cube = tensors_add(&f, "cube \xC3\xA9 \"x\"", 4, (int64_t[]){2, 3, 1, 4});
    float *scalar = tensors_add(&f, "scalar", 0, NULL);
    assert_true(cube && scalar && tensors_add(&f, "empty", 2, (int64_t[]){0, 7}));
    for (int i = 0; i < 24; i++) cube[i] = (float)i;
    *scalar = -0.0F;
    return f;
}

static void tensors_survive(void **state)
{
    static const char *const names[] = {"odd.safetensors", "odd.npz"};
    tensor_file f = odd_tensors(), g;
    assert_int_equal(tensors_describe(&f, "key \"1\"", "value\n\xC3\xA9"), 0);
    assert_int_equal(tensors_describe(&f, "", ""), 0);
    for (int k = 0; k < 2; k++) {
        assert_fine(tensors_write(at(names[k]), &f, ERROR));
        assert_fine(tensors_read(at(names[k]), &g, ERROR));
        assert_int_equal(g.count, f.count);
        for (int i = 0; i < f.count; i++) {
            assert_string_equal(g.tensor[i].name, f.tensor[i].name);
            assert_same_tensor(&g.tensor[i], &f.tensor[i]);
        }
        assert_int_equal(g.pairs, 2);
        assert_string_equal(tensors_metadata(&g, "key \"1\""), "value\n\xC3\xA9");
        assert_string_equal(tensors_metadata(&g, ""), "");
        assert_null(tensors_metadata(&g, "other"));
        assert_null(tensors_find(&g, "other"));
        tensors_free(&g);
    }
    tensors_free(&f);
    tensors_free(&f);
}

static void nothing_is_a_file_too(void **state)
{
    tensor_file none = {0}, g;
    assert_fine(tensors_write(at("none.safetensors"), &none, ERROR));
    assert_fine(tensors_read(at("none.safetensors"), &g, ERROR));
    assert_int_equal(g.count, 0);
    assert_fine(tensors_write(at("none.npz"), &none, ERROR));
    assert_fine(tensors_read(at("none.npz"), &g, ERROR));
    assert_int_equal(g.count, 0);
    tensors_free(&g);
}

/* The bytes the format's specification asks for, down to the padding. */
static void the_header_is_the_formats(void **state)
{
    tensor_file f = {0};
    float *a = tensors_add(&f, "a", 1, (int64_t[]){2}), *b = tensors_add(&f, "b", 0, NULL);
    assert_true(a && b);
    a[1] = 1.0F;
    *b = 2.0F;
    assert_fine(tensors_write(at("bytes.safetensors"), &f, ERROR));
    tensors_free(&f);
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}";
    static const char numbers[] = "\0\0\0\0\0\0\x80\x3F\0\0\0\x40";
    char *bytes = NULL;
    size_t n = 0, padded = (sizeof header - 1 + 7) / 8 * 8;
    assert_fine(files_read(at("bytes.safetensors"), 4096, &bytes, &n, ERROR));
    assert_int_equal(n, 8 + padded + 12);
    assert_int_equal((unsigned char)bytes[0], padded);
    for (int i = 1; i < 8; i++) assert_int_equal(bytes[i], 0);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + padded, numbers, 12);
    free(bytes);
}

static void other_types_become_floats(void **state)
{
    static const char header[] = "{\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[12,28],\"more\":1},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"
                                 "\"h\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}  ";
    unsigned char data[28];
    static const uint16_t half[4] = {0x3C00, 0xC100, 0x0001, 0x7BFF}, brain[2] = {0x3F80, 0xC049};
    static const double wide[2] = {1.0 / 3.0, -1e-30};
    static const float expected_half[4] = {1.0F, -2.5F, 0x1p-24F, 65504.0F};
    memcpy(data, half, 8);
    memcpy(data + 8, brain, 4);
    memcpy(data + 12, wide, 16);
    write_parts("types.safetensors", sizeof header - 1, header, sizeof header - 1, data, sizeof data);
    tensor_file f;
    assert_fine(tensors_read(at("types.safetensors"), &f, ERROR));
    assert_string_equal(f.tensor[0].name, "h"); /* the order of the bytes, not of the header */
    assert_string_equal(f.tensor[2].name, "d");
    assert_memory_equal(tensors_find(&f, "h")->data, expected_half, sizeof expected_half);
    assert_true(tensors_find(&f, "b")->data[0] == 1.0F && tensors_find(&f, "b")->data[1] == -3.140625F);
    assert_true(tensors_find(&f, "d")->data[0] == 1.0F / 3.0F && tensors_find(&f, "d")->data[1] == -1e-30F);
    tensors_free(&f);
}

#define F32(name, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static void broken_headers_are_refused(void **state)
{
    static const struct {
        const char *header, *says;
        size_t bytes; /* behind the header */
    } tests[] = {
        {"[]", "does not begin with {", 0},
        {" {}", "does not begin with {", 0},
        {"{\"a\":", "is not JSON", 0},
        {"{} x", "is not JSON", 0},
        {"{\"a\xFF\":1}", "not UTF-8", 0},
        {"{\"a\\u0000\":1}", "is not JSON", 0},
        {"{" F32("a", "1", "0", "4") "," F32("a", "1", "4", "8") "}", "holds a name twice", 8},
        {"{\"a\":7}", "'a' is not described by an object", 0},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "'a' has no dtype", 4},
        {"{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", "type I64; F32, F64, F16 and BF16", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "'a' has no list as its shape", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "no two whole numbers as its data_offsets", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", "no two whole numbers", 4},
        {"{" F32("a", "1", "0", "4.0") "}", "no two whole numbers", 4},
        {"{" F32("a", "1.0", "0", "4") "}", "not made of whole numbers", 4},
        {"{" F32("a", "-1", "0", "4") "}", "not made of whole numbers", 4},
        {"{" F32("a", "1,1,1,1,1", "0", "4") "}", "has 5 dimensions; at most 4", 4},
        {"{" F32("a", "1", "4", "0") "}", "ends before it begins", 4},
        {"{" F32("a", "1", "-4", "0") "}", "ends before it begins", 4},
        {"{" F32("a", "2", "0", "8") "}", "ends at byte 8 of the numbers, of which 7 bytes", 7},
        {"{" F32("a", "2", "0", "4") "}", "needs 8 bytes for its shape and has 4", 4},
        {"{" F32("a", "1", "0", "8") "}", "needs 4 bytes for its shape and has 8", 8},
        {"{" F32("a", "4294967296,4294967296", "0", "0") "}", "or 268435456 numbers", 0},
        {"{" F32("a", "268435457", "0", "4") "}", "or 268435456 numbers", 4},
        {"{" F32("a", "99999999999999999999", "0", "4") "}", "is not JSON", 4},
        {"{" F32("a", "2", "0", "8") "," F32("b", "2", "4", "12") "}", "'a' and 'b' overlap", 12},
        {"{" F32("a", "1", "0", "4") "," F32("b", "1", "8", "12") "}", "4 bytes before tensor 'b' belong to no", 12},
        {"{" F32("a", "1", "4", "8") "}", "4 bytes before tensor 'a' belong to no", 8},
        {"{" F32("a", "1", "0", "4") "}", "its last 3 bytes belong to no tensor", 7},
        {"{}", "its last 1 bytes belong to no tensor", 1},
        {"{" F32("", "1", "0", "4") "}", "is empty", 4},
        {"{" F32("a\\u001b", "1", "0", "4") "}", "holds a control character or is not UTF-8: '?'", 4},
        {"{\"__metadata__\":[]}", "not an object", 0},
        {"{\"__metadata__\":{\"k\":1}}", "something other than a text as 'k'", 0},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", "holds a name twice", 0},
    };
    static const unsigned char zeros[16];
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        size_t n = strlen(tests[i].header);
        write_parts("bad.safetensors", n, tests[i].header, n, zeros, tests[i].bytes);
        assert_refused("bad.safetensors", tests[i].says);
    }
}

static void lying_lengths_are_refused(void **state)
{
    static const uint64_t lengths[] = {0, 1, 3, 100000001, UINT64_C(1) << 62, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_parts("long.safetensors", lengths[i], "{}", 2, NULL, 0);
        assert_refused("long.safetensors", "from 2 to 2 are expected");
    }
    FILE *f = fopen(at("long.safetensors"), "wb");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    assert_refused("long.safetensors", "it has only 0 bytes");
    write_parts("long.safetensors", 100000001, "{}", 2, NULL, 0); /* a file with holes really is that long */
    assert_int_equal(truncate(at("long.safetensors"), 100000100), 0);
    assert_refused("long.safetensors", "from 2 to 100000000 are expected");
    write_parts("zero.safetensors", 8, "{}\0\0\0\0\0\0", 8, NULL, 0);
    assert_refused("zero.safetensors", "not UTF-8 text");
    assert_refused("absent.safetensors", "cannot open");
}

/* A header of 19280 bytes begins with the letters PK. */
static void letters_do_not_make_an_archive(void **state)
{
    enum { LENGTH = 0x4B50 };
    char *header = malloc(LENGTH);
    assert_non_null(header);
    memset(header, ' ', LENGTH);
    memcpy(header, "{}", 2);
    write_parts("pk.safetensors", LENGTH, header, LENGTH, NULL, 0);
    free(header);
    tensor_file f;
    assert_fine(tensors_read(at("pk.safetensors"), &f, ERROR));
    tensors_free(&f);
}

static void numbers_must_be_finite(void **state)
{
    static const char single[] = "{" F32("w", "2", "0", "8") "}";
    static const char wide[] = "{\"w\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
    static const float bad[2] = {1.0F, NAN};
    static const double big[1] = {-1e300};
    write_parts("nan.safetensors", sizeof single - 1, single, sizeof single - 1, bad, sizeof bad);
    assert_refused("nan.safetensors", "'w'");
    assert_says("as number 2 of 2");
    write_parts("inf.safetensors", sizeof wide - 1, wide, sizeof wide - 1, big, sizeof big);
    assert_refused("inf.safetensors", "holds -inf as number 1 of 1");
    npz_member m = {"w", {.type = NPY_F32, .dims = 1, .shape = {2}, .data = bad}};
    assert_fine(npz_write(at("nan.npz"), &m, 1, 0, ERROR));
    assert_refused("nan.npz", "as number 2 of 2");
}

static void too_much_is_refused(void **state)
{
    tensor_file f = {0};
    char name[32];
    for (int i = 0; i <= TENSORS_MOST; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_non_null(tensors_add(&f, name, 1, (int64_t[]){0}));
    }
    assert_int_equal(tensors_write(at("many.safetensors"), &f, ERROR), -1);
    assert_says("more than 4096 tensors");
    tensors_free(&f);
    assert_null(tensors_add(&f, "x", 2, (int64_t[]){1 << 14, (1 << 14) + 1}));
    assert_null(tensors_add(&f, "x", 1, (int64_t[]){-1}));
    assert_null(tensors_add(&f, "x", 5, (int64_t[]){1, 1, 1, 1, 1}));
    /* Two halves that are too much together, in a file with holes: refused before anything is allocated. */
    static const char header[] = "{" F32("a", "268435456", "0", "1073741824") "," F32("b", "1", "1073741824",
                                                                                      "1073741828") "}";
    write_parts("holes.safetensors", sizeof header - 1, header, sizeof header - 1, NULL, 0);
    assert_int_equal(truncate(at("holes.safetensors"), 8 + (off_t)sizeof header - 1 + 1073741828), 0);
    assert_refused("holes.safetensors", "or 268435456 numbers");
    assert_int_equal(unlink(at("holes.safetensors")), 0);
    tensors_free(&f);
}

static void every_truncation_is_refused(void **state)
{
    static const char *const names[] = {"odd.safetensors", "odd.npz"};
    tensor_file f = odd_tensors();
    for (int k = 0; k < 2; k++) {
        char *bytes = NULL;
        size_t n = 0;
        assert_fine(tensors_write(at(names[k]), &f, ERROR));
        assert_fine(files_read(at(names[k]), 1 << 20, &bytes, &n, ERROR));
        for (size_t cut = n; cut-- > 0;) {
            assert_int_equal(truncate(at(names[k]), (off_t)cut), 0);
            assert_refused(names[k], names[k]);
        }
        free(bytes);
    }
    tensors_free(&f);
}

/* Any flipped byte: a refusal or a file that obeys all rules, never a crash. */
static void no_flipped_byte_crashes(void **state)
{
    static const char *const names[] = {"odd.safetensors", "odd.npz"};
    tensor_file f = odd_tensors(), g;
    assert_int_equal(tensors_describe(&f, "k", "v"), 0);
    for (int k = 0; k < 2; k++) {
        char *bytes = NULL;
        size_t n = 0;
        assert_fine(tensors_write(at(names[k]), &f, ERROR));
        assert_fine(files_read(at(names[k]), 1 << 20, &bytes, &n, ERROR));
        FILE *out = fopen(at(names[k]), "r+b");
        assert_non_null(out);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(fseek(out, (long)i, SEEK_SET), 0);
            assert_int_equal(fputc((bytes[i] ^ (1 << (i % 8))) & 0xFF, out) == EOF, 0);
            assert_int_equal(fflush(out), 0);
            if (!tensors_read(at(names[k]), &g, ERROR)) {
                for (int t = 0; t < g.count; t++) assert_true(tensor_count(&g.tensor[t]) <= 24);
                tensors_free(&g);
            }
            assert_int_equal(fseek(out, (long)i, SEEK_SET), 0);
            assert_int_equal(fputc(bytes[i] & 0xFF, out) == EOF, 0);
        }
        assert_int_equal(fclose(out), 0);
        free(bytes);
    }
    tensors_free(&f);
}

static void foreign_archives_are_refused(void **state)
{
    static const float one = 1.0F;
    static const int64_t whole = 1;
    static const uint8_t text[] = "{\"k\":1}";
    const npy_array number = {.type = NPY_F32, .dims = 0, .data = &one};
    const struct {
        npz_member member[2];
        const char *says;
    } tests[] = {
        {{{"w", {.type = NPY_I64, .dims = 0, .data = &whole}}, {"x", number}}, "array 'w' of"},
        {{{"w", number}, {"w", number}}, "two arrays called 'w'"},
        {{{"w.npy", number}, {"x", number}}, "ends in .npy twice: 'w.npy'"},
        {{{"w\n", number}, {"x", number}}, "control character"},
        {{{"__metadata__", number}, {"x", number}}, "not a row of uint8"},
        {{{"__metadata__", {.type = NPY_U8, .dims = 1, .shape = {7}, .data = text}}, {"x", number}}, "as 'k'"},
        {{{"__metadata__", {.type = NPY_U8, .dims = 1, .shape = {6}, .data = text}}, {"x", number}}, "is not JSON"},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        assert_fine(npz_write(at("foreign.npz"), tests[i].member, 2, 0, ERROR));
        assert_refused("foreign.npz", tests[i].says);
    }
}

static void archives_in_the_form_for_gigabytes_are_read(void **state)
{
    const float one = 1.5F;
    const double two = 2.5;
    const npz_member member[] = {{"w", {.type = NPY_F32, .dims = 0, .data = &one}},
                                 {"x", {.type = NPY_F64, .dims = 1, .shape = {1}, .data = &two}}};
    tensor_file f = {0};
    assert_fine(npz_write(at("wide.npz"), member, 2, NPZ_WIDE, ERROR));
    assert_fine(tensors_read(at("wide.npz"), &f, ERROR));
    assert_int_equal(f.count, 2);
    assert_true(tensors_find(&f, "w")->data[0] == 1.5F && tensors_find(&f, "x")->data[0] == 2.5F);
    tensors_free(&f);
}

static void what_cannot_be_written_is_told(void **state)
{
    tensor_file f = {0};
    float *w = tensors_add(&f, "w", 1, (int64_t[]){2});
    assert_non_null(w);
    assert_int_equal(tensors_write(at("w.pt"), &f, ERROR), -1);
    assert_says("must end in .safetensors or .npz");
    assert_int_equal(tensors_write(at("no/w.npz"), &f, ERROR), -1);
    assert_says("no/w.npz");
    w[1] = INFINITY;
    assert_int_equal(tensors_write(at("w.npz"), &f, ERROR), -1);
    assert_says("'w'");
    f.tensor[0].data[1] = 0.0F;
    assert_non_null(tensors_add(&f, "w", 0, NULL));
    assert_int_equal(tensors_write(at("w.safetensors"), &f, ERROR), -1);
    assert_says("two tensors called 'w'");
    static const char *const names[] = {"", "__metadata__", "a\nb", "\xFF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(f.tensor[1].name, TENSOR_NAME, "%s", names[i]);
        assert_int_equal(tensors_write(at("w.safetensors"), &f, ERROR), -1);
        assert_says("the name of a tensor");
    }
    (void)snprintf(f.tensor[1].name, TENSOR_NAME, "x.npy");
    assert_int_equal(tensors_write(at("w.npz"), &f, ERROR), -1);
    assert_says("ends in .npy");
    assert_fine(tensors_write(at("w.safetensors"), &f, ERROR));
    assert_int_equal(tensors_describe(&f, "k", "1"), 0);
    assert_int_equal(tensors_describe(&f, "k", "1"), 0);
    assert_int_equal(tensors_write(at("w.safetensors"), &f, ERROR), -1);
    assert_says("the key 'k' twice");
    tensors_free(&f);
}

/* ---------------------------------------------------------------------------- models */

enum { PARAMETERS = 37 };

/* 2 -> 5 -> 3 -> 1; real_packages.py knows the same numbers. */
static void make_model(model_file *m)
{
    *m = (model_file){
        .inputs = 2, .hidden_layers = 2, .activation = "softplus", .base_sd = 0.1, .parameters = PARAMETERS};
    m->width = malloc(2 * sizeof *m->width);
    m->theta = malloc(PARAMETERS * sizeof *m->theta);
    assert_true(m->width && m->theta);
    m->width[0] = 5;
    m->width[1] = 3;
    assert_int_equal(model_parameters(2, m->width, 2), PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) m->theta[i] = sin((double)i) / 3.0;
}

/* Read, with these settings and the numbers of make_model. `given` is what the caller says of the activation; NULL: nothing. */
static void assert_read(const char *name, const char *given, const char *activation, double base_sd)
{
    model_file m;
    assert_fine(model_read_as(at(name), NULL, given, &m, ERROR));
    assert_int_equal(m.inputs, 2);
    assert_int_equal(m.hidden_layers, 2);
    assert_true(m.width[0] == 5 && m.width[1] == 3);
    assert_int_equal(m.parameters, PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) assert_true(m.theta[i] == (double)(float)(sin((double)i) / 3.0));
    assert_string_equal(m.activation, activation);
    assert_true(m.base_sd == base_sd);
    model_free(&m);
}

static void assert_model(const char *name, const char *activation, double base_sd)
{
    assert_read(name, NULL, activation, base_sd);
}

/* A file that does not say what follows its hidden layers: nothing is guessed, and what the caller says is taken. */
static void assert_silent_model(const char *name)
{
    model_file m;
    assert_int_equal(model_read(at(name), &m, ERROR), -1);
    assert_says(name);
    assert_says("does not say what its hidden layers are followed by; say it with model.activation in a run file or "
                "--activation: silu, softplus or tanh");
    assert_read(name, "tanh", "tanh", 0.0);
    assert_read(name, "silu", "silu", 0.0);
    assert_int_equal(model_read_as(at(name), NULL, "relu", &m, ERROR), -1);
    assert_says("with the activation 'relu'; silu, softplus and tanh are known");
}

static void models_survive(void **state)
{
    model_file m;
    make_model(&m);
    assert_fine(model_write(at("m.safetensors"), &m, ERROR));
    assert_fine(model_write(at("m.npz"), &m, ERROR));
    assert_model("m.safetensors", "softplus", 0.1);
    assert_model("m.npz", "softplus", 0.1);
    m.base_sd = 0.0;
    (void)snprintf(m.activation, sizeof m.activation, "tanh");
    assert_fine(model_write(at("m.safetensors"), &m, ERROR));
    assert_model("m.safetensors", "tanh", 0.0);
    assert_read("m.safetensors", "tanh", "tanh", 0.0); /* said twice, and the same */
    model_file other;
    assert_int_equal(model_read_as(at("m.safetensors"), NULL, "silu", &other, ERROR), -1);
    assert_says("has tanh as its activation, but silu was given; expected none");
    model_free(&m);
    model_free(&m);
    double theta[3] = {1.0, 2.0, 3.0}; /* no hidden layer at all */
    model_file line = {.inputs = 2, .activation = "silu", .parameters = 3, .theta = theta};
    assert_fine(model_write(at("line.npz"), &line, ERROR));
    assert_fine(model_read(at("line.npz"), &m, ERROR));
    assert_true(m.hidden_layers == 0 && m.inputs == 2 && m.parameters == 3 && m.theta[2] == 3.0);
    model_free(&m);
}

/* Numbers order the layers, not letters: net.10 comes behind net.2, and 10 modules earlier make no difference. */
static void layers_are_ordered_by_their_numbers(void **state)
{
    static const char *const stems[] = {"block9.net.10", "block9.net.0", "block9.net.2"};
    static const int64_t sizes[][2] = {{1, 3}, {5, 2}, {3, 5}}, begin[] = {33, 0, 15};
    tensor_file f = {0};
    char name[64];
    for (int k = 0; k < 3; k++) {
        int64_t n = sizes[k][0] * sizes[k][1];
        (void)snprintf(name, sizeof name, "%s.bias", stems[k]);
        float *bias = tensors_add(&f, name, 1, sizes[k]);
        (void)snprintf(name, sizeof name, "%s.weight", stems[k]);
        float *weight = tensors_add(&f, name, 2, sizes[k]);
        assert_true(weight && bias);
        for (int64_t i = 0; i < n; i++) weight[i] = (float)(sin((double)(begin[k] + i)) / 3.0);
        for (int64_t i = 0; i < sizes[k][0]; i++) bias[i] = (float)(sin((double)(begin[k] + n + i)) / 3.0);
    }
    assert_fine(tensors_write(at("order.safetensors"), &f, ERROR));
    tensors_free(&f);
    assert_silent_model("order.safetensors");
}

typedef struct {
    const char *name;
    int dims;
    int64_t shape[3];
} part;

static void networks_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        part part[5];
        const char *key, *value, *says;
    } tests[] = {
        {.says = "holds no tensors"},
        {{{"l1.weight", 2, {4, 2}}, {"l1.bias", 1, {4}}, {"l2.weight", 2, {1, 3}}, {"l2.bias", 1, {1}}},
         .says = "'l2.weight' of"},
        {{{"l1.weight", 2, {4, 2}}, {"l1.bias", 1, {4}}, {"l2.weight", 2, {1, 3}}, {"l2.bias", 1, {1}}},
         .says = "has 3 inputs, but 'l1.weight' before it has 4 outputs"},
        {{{"l1.weight", 2, {4, 2}}, {"l1.bias", 1, {4}}}, .says = "the last layer, has 4 outputs; an energy has 1"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {2}}}, .says = "holds 2 numbers, but 'l1.weight' has 1 outputs"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 2, {1, 1}}}, .says = "has 2 dimensions; a bias has 1"},
        {{{"l1.weight", 2, {1, 2}}}, .says = "'l1.weight' of"},
        {{{"l1.weight", 2, {1, 2}}}, .says = "has no bias beside it"},
        {{{"l1.weight", 2, {1, 2}}, {"l1_bias", 1, {1}}}, .says = "has no bias beside it"},
        {{{"l1.weight", 2, {1, 2}}, {"l11.bias", 1, {1}}}, .says = "has no bias beside it"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}, {"l2.bias", 1, {1}}}, .says = "'l2.bias' of"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}, {"scale", 0, {0}}}, .says = "'scale' of"},
        {{{"l1.weight", 1, {2}}, {"l1.bias", 1, {2}}}, .says = "has 1 dimensions; the weight of a linear layer has 2"},
        {{{"l1.weight", 3, {1, 2, 2}}, {"l1.bias", 1, {1}}}, .says = "has 3 dimensions; the weight"},
        {{{"out.weight", 2, {1, 2}}, {"out.bias", 1, {1}}}, .says = "has no number in its name"},
        {{{"a1.weight", 2, {1, 2}}, {"a1.bias", 1, {1}}, {"b1.weight", 2, {1, 1}}, {"b1.bias", 1, {1}}},
         .says = "have the same number"},
        {{{"l1.weight", 2, {1, 0}}, {"l1.bias", 1, {1}}}, .says = "is empty: 1 outputs of 0 inputs"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}}, "sosmc.activation", "relu", "has 'relu' as sosmc.activation"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}}, "sosmc.base_sd", "-1", "has '-1' as sosmc.base_sd"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}}, "sosmc.base_sd", "1x", "has '1x' as sosmc.base_sd"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}}, "sosmc.base_sd", "", "has '' as sosmc.base_sd"},
        {{{"l1.weight", 2, {1, 2}}, {"l1.bias", 1, {1}}}, "sosmc.base_sd", "nan", "has 'nan' as sosmc.base_sd"},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tensor_file f = {0};
        for (const part *p = tests[i].part; p->name; p++) assert_non_null(tensors_add(&f, p->name, p->dims, p->shape));
        if (tests[i].key) assert_int_equal(tensors_describe(&f, tests[i].key, tests[i].value), 0);
        assert_fine(tensors_write(at("net.safetensors"), &f, ERROR));
        tensors_free(&f);
        model_file m;
        sentence[0] = 0;
        if (!model_read(at("net.safetensors"), &m, ERROR)) fail_msg("test %zu was read", i);
        assert_says(tests[i].says);
        assert_says("net.safetensors");
        assert_true(m.theta == NULL && m.width == NULL && m.parameters == 0);
    }
}

static void too_many_layers_are_refused(void **state)
{
    tensor_file f = {0};
    char name[32];
    static const int64_t one[2] = {1, 1};
    for (int k = 0; k < MODEL_LAYERS + 2; k++) {
        (void)snprintf(name, sizeof name, "l%d.weight", k);
        assert_non_null(tensors_add(&f, name, 2, one));
        (void)snprintf(name, sizeof name, "l%d.bias", k);
        assert_non_null(tensors_add(&f, name, 1, one));
    }
    model_file m;
    assert_fine(tensors_write(at("deep.safetensors"), &f, ERROR));
    assert_int_equal(model_read(at("deep.safetensors"), &m, ERROR), -1);
    assert_says("more than 65 layers");
    free(f.tensor[f.count - 1].data); /* without the last layer it is a network */
    free(f.tensor[f.count - 2].data);
    f.count -= 2;
    assert_fine(tensors_write(at("deep.safetensors"), &f, ERROR));
    assert_fine(model_read_as(at("deep.safetensors"), NULL, "tanh", &m, ERROR));
    assert_int_equal(m.parameters, 2 * (MODEL_LAYERS + 1));
    model_free(&m);
    tensors_free(&f);
}

static void impossible_models_are_not_written(void **state)
{
    model_file m;
    make_model(&m);
    m.theta[11] = 1e39;
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("number 2 of layer1_bias is 1e+39");
    m.theta[11] = NAN;
    assert_int_equal(model_write(at("bad.safetensors"), &m, ERROR), -1);
    assert_says("number 2 of layer1.bias is");
    m.theta[11] = 0.0;
    m.base_sd = NAN;
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("base_sd");
    m.base_sd = 0.0;
    m.parameters--;
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("has 36 parameters, its layers need 37");
    m.parameters++;
    (void)snprintf(m.activation, sizeof m.activation, "relu");
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("'relu'");
    (void)snprintf(m.activation, sizeof m.activation, "silu");
    m.width[1] = 0;
    assert_int_equal(model_write(at("bad.npz"), &m, ERROR), -1);
    assert_says("2 inputs and 2 hidden layers");
    m.width[1] = 3;
    assert_int_equal(model_write(at("bad.bin"), &m, ERROR), -1);
    assert_says("must end in .safetensors or .npz");
    static const int huge[2] = {INT32_MAX, INT32_MAX};
    assert_int_equal(model_parameters(INT32_MAX, huge, 2), -1);
    assert_int_equal(model_parameters(2, huge, MODEL_LAYERS + 1), -1);
    struct stat st;
    assert_int_equal(stat(at("bad.npz"), &st), -1);
    model_free(&m);
}

/* ---------------------------------------------------------------------------- published models */

static void published_models_are_read(void **state)
{
    static const char *const names[] = {"ebm2d/two_moons.npz", "ebm2d/circles.npz", "ebm2d/blobs.npz"};
    for (int k = 0; k < 3; k++) {
        const char *path = reference_file(names[k]);
        model_file m, again;
        npy_array w = {0}, b = {0};
        assert_int_equal(model_read(path, &m, ERROR), -1); /* nobody knows what it was trained with */
        assert_says("does not say what its hidden layers are followed by; say it with model.activation");
        assert_fine(model_read_as(path, NULL, "silu", &m, ERROR));
        assert_true(m.inputs == 2 && m.hidden_layers == 4 && m.parameters == 50049 && m.base_sd == 0.0);
        for (int i = 0; i < 4; i++) assert_int_equal(m.width[i], 128);
        assert_string_equal(m.activation, "silu");
        assert_fine(npz_read(path, "layer1_weight", &w, ERROR)); /* both ends of theta, straight from the archive */
        assert_fine(npz_read(path, "layer5_bias", &b, ERROR));
        for (int i = 0; i < 256; i++) assert_true(m.theta[i] == (double)((const float *)w.data)[i]);
        assert_true(m.theta[50048] == (double)*(const float *)b.data);
        assert_fine(model_write(at("published.safetensors"), &m, ERROR));
        assert_fine(model_read(at("published.safetensors"), &again, ERROR));
        assert_memory_equal(again.theta, m.theta, sizeof(double) * 50049);
        npy_free(&w);
        npy_free(&b);
        model_free(&m);
        model_free(&again);
    }
}

/* ---------------------------------------------------------------------------- the Python packages */

static void we_read_what_the_packages_write(void **state)
{
    python_packages(scratch, "write");
    assert_model("sequential.safetensors", "tanh", 2.5);
    assert_silent_model("double.safetensors");
    assert_silent_model("layers.safetensors");
    assert_silent_model("plain.npz");
    assert_silent_model("packed.npz");
    tensor_file f;
    assert_fine(tensors_read(at("sequential.safetensors"), &f, ERROR));
    assert_string_equal(tensors_metadata(&f, "note"), "quotes \" and \xC3\xA9");
    tensors_free(&f);
    assert_fine(tensors_read(at("kinds.safetensors"), &f, ERROR));
    assert_int_equal(f.count, 7);
    assert_int_equal(tensor_count(tensors_find(&f, "half")), 2 * 31 * 1024);
    assert_int_equal(tensor_count(tensors_find(&f, "brain")), 2 * 255 * 128);
    assert_same_tensor(tensors_find(&f, "half"), tensors_find(&f, "half_values"));
    assert_same_tensor(tensors_find(&f, "brain"), tensors_find(&f, "brain_values"));
    const tensor *scalar = tensors_find(&f, "scalar"), *empty = tensors_find(&f, "empty");
    assert_true(scalar->dims == 0 && scalar->data[0] == 0.5F);
    assert_true(empty->dims == 2 && empty->shape[0] == 3 && empty->shape[1] == 0);
    const tensor *cube = tensors_find(&f, "cube");
    assert_true(cube->dims == 3 && cube->shape[0] == 2 && cube->shape[1] == 3 && cube->shape[2] == 4);
    for (int i = 0; i < 24; i++) assert_true(cube->data[i] == (float)i);
    tensors_free(&f);
}

static void the_packages_read_what_we_write(void **state)
{
    model_file m;
    tensor_file f = odd_tensors();
    make_model(&m);
    assert_fine(model_write(at("ours.safetensors"), &m, ERROR));
    assert_fine(model_write(at("ours.npz"), &m, ERROR));
    assert_fine(tensors_write(at("odd.safetensors"), &f, ERROR));
    tensors_free(&f);
    model_free(&m);
    python_packages(scratch, "check");
}

/* ---------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_survive),
        cmocka_unit_test(nothing_is_a_file_too),
        cmocka_unit_test(the_header_is_the_formats),
        cmocka_unit_test(other_types_become_floats),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(lying_lengths_are_refused),
        cmocka_unit_test(letters_do_not_make_an_archive),
        cmocka_unit_test(numbers_must_be_finite),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(no_flipped_byte_crashes),
        cmocka_unit_test(foreign_archives_are_refused),
        cmocka_unit_test(archives_in_the_form_for_gigabytes_are_read),
        cmocka_unit_test(what_cannot_be_written_is_told),
        cmocka_unit_test(models_survive),
        cmocka_unit_test(layers_are_ordered_by_their_numbers),
        cmocka_unit_test(networks_that_do_not_fit_are_refused),
        cmocka_unit_test(too_many_layers_are_refused),
        cmocka_unit_test(impossible_models_are_not_written),
        cmocka_unit_test(published_models_are_read),
        cmocka_unit_test(we_read_what_the_packages_write),
        cmocka_unit_test(the_packages_read_what_we_write),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
