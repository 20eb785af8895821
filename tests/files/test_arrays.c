/* test_arrays.c: arrays that the program writes can be read, by itself and by NumPy, and the other way round.
 *
 * Damaged files are made by the hundred: every truncation and every flipped byte of a small archive. None may crash
 * (the sanitizers watch), and none may pass off wrong numbers as right ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "streams_and_python.h"
#include "scratch.h"

/* ---------------------------------------------------------------------------- arrays */

static const double some_doubles[] = {0.0, -1.5, 1e300, 0x1p-1074, 3.25, -0.0};
static const float some_floats[] = {1.5F, -2.25F, 1e-30F, 7.0F};
static const int64_t some_wholes[] = {INT64_MIN, -1, 0, 1, INT64_MAX, 42, 7, 8};
static const uint8_t some_bytes[] = {0, 1, 127, 128, 254, 255};

static npz_member samples[] = {
    {"x", {.type = NPY_F64, .dims = 2, .shape = {3, 2}, .data = some_doubles}},
    {"f", {.type = NPY_F32, .dims = 1, .shape = {4}, .data = some_floats}},
    {"whole", {.type = NPY_I64, .dims = 3, .shape = {2, 2, 2}, .data = some_wholes}},
    {"bytes", {.type = NPY_U8, .dims = 4, .shape = {1, 2, 1, 3}, .data = some_bytes}},
    {"one", {.type = NPY_F64, .dims = 0, .data = some_doubles + 2}},
    {"none", {.type = NPY_F64, .dims = 2, .shape = {0, 5}}},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static int same_array(const npy_array *a, const npy_array *b)
{
    static const size_t bytes[] = {8, 4, 8, 1};
    int same = a->type == b->type && a->dims == b->dims;
    for (int i = 0; same && i < a->dims; i++) same = a->shape[i] == b->shape[i];
    if (!same || npy_count(a) == 0) return same;
    return !memcmp(a->data, b->data, (size_t)npy_count(a) * bytes[a->type]);
}

static void npy_round_trip(void **state)
{
    for (int i = 0; i < SAMPLES; i++) {
        npy_array back;
        assert_int_equal(npy_write(at("a.npy"), &samples[i].array, ERROR), 0);
        assert_int_equal(npy_write(at("b.npy"), &samples[i].array, ERROR), 0);
        assert_same_file("a.npy", "b.npy");
        if (npy_read(at("a.npy"), &back, ERROR)) fail_msg("%s", sentence);
        assert_true(same_array(&back, &samples[i].array));
        npy_free(&back);
    }
}

static void npy_header_is_numpys(void **state)
{
    static const char dictionary[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }";
    size_t n = 0;
    assert_int_equal(npy_write(at("a.npy"), &samples[0].array, ERROR), 0);
    char *b = slurp("a.npy", &n);
    assert_int_equal(n, 128 + sizeof some_doubles);
    assert_memory_equal(b, "\x93NUMPY\1\0\x76\0", 10);
    assert_memory_equal(b + 10, dictionary, sizeof dictionary - 1);
    assert_int_equal(b[127], '\n');
    free(b);
}

static void any_type_becomes_doubles(void **state)
{
    double out[8];
    npy_doubles(&samples[1].array, out);
    assert_true(out[1] == -2.25);
    npy_doubles(&samples[2].array, out);
    assert_true(out[5] == 42.0);
    npy_doubles(&samples[3].array, out);
    assert_true(out[5] == 255.0);
    npy_array v = npy_vector(some_doubles, 6), m = npy_matrix(some_doubles, 3, 2);
    assert_int_equal(npy_count(&v), 6);
    assert_int_equal(npy_count(&m), 6);
    m.shape[0] = INT64_MAX;
    assert_int_equal(npy_count(&m), -1);
    assert_int_equal(npy_write(at("x.npy"), &m, ERROR), -1);
    assert_says("impossible");
    m = npy_matrix(NULL, 3, 2);
    assert_int_equal(npy_write(at("x.npy"), &m, ERROR), -1);
    assert_says("no data");
}

/* A file with this dictionary and eight bytes behind it. */
static void write_header(const char *dictionary)
{
    char b[512] = "\x93NUMPY\1";
    size_t n = strlen(dictionary);
    b[8] = (char)n;
    b[9] = (char)(n >> 8);
    (void)snprintf(b + 10, sizeof b - 10, "%s", dictionary);
    write_raw("h.npy", b, n + 18);
}

static void hostile_headers_are_refused(void **state)
{
    static const char *const tests[][2] = {
        {"{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }\n", "big-endian"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", "pickled"},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }\n", "Fortran"},
        {"{'descr': '<f8', 'fortran_order': Maybe, 'shape': (1,), }\n", "fortran_order"},
        {"{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }\n", "'<c16'"},
        {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }\n", "records"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1), }\n", "4 dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", "promises 16 bytes"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }\n", "promises 0 bytes"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }\n", "impossible"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }\n", "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n", "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1 1), }\n", "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1", "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': 1, }\n", "shape"},
        {"{'descr': '<f8', 'fortran_order': False, }\n", "incomplete"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), } 1\n", "incomplete"},
        {"{'descr': '<f8', 'descr': '<f8', 'shape': (1,), }\n", "makes no sense"},
        {"{'descr': '<f8', 'colour': False, 'shape': (1,), }\n", "makes no sense"},
        {"{'descr'", "makes no sense"},
        {"{", "makes no sense"},
        {"[]", "no dictionary"},
        {"", "no dictionary"},
    };
    npy_array a;
    write_header("{\"shape\": (1, ), 'fortran_order':False, 'descr' : '<f8'}"); /* a proper one, in another style */
    if (npy_read(at("h.npy"), &a, ERROR)) fail_msg("%s", sentence);
    npy_free(&a);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        write_header(tests[i][0]);
        assert_int_equal(npy_read(at("h.npy"), &a, ERROR), -1);
        assert_says("h.npy");
        assert_says(tests[i][1]);
    }
    write_raw("h.npy", "\x93NUMPY\2\0\0\0\0\0", 12);
    assert_int_equal(npy_read(at("h.npy"), &a, ERROR), -1);
    assert_says("version 2.0");
    write_raw("h.npy", "\x93NUMPY\1\0\377\377{", 11);
    assert_int_equal(npy_read(at("h.npy"), &a, ERROR), -1);
    assert_says("inside its header");
    write_raw("h.npy", "\x93NUMPY\1\0\3\0{\0}", 13);
    assert_int_equal(npy_read(at("h.npy"), &a, ERROR), -1);
    assert_says("zero byte");
    write_text("h.npy", "not an array");
    assert_int_equal(npy_read(at("h.npy"), &a, ERROR), -1);
    assert_says("not an NPY file");
}

static void every_truncation_of_npy_is_refused(void **state)
{
    size_t n = 0;
    npy_array a;
    assert_int_equal(npy_write(at("a.npy"), &samples[0].array, ERROR), 0);
    char *b = slurp("a.npy", &n);
    for (size_t cut = 0; cut < n; cut++) {
        write_raw("t.npy", b, cut);
        assert_int_equal(npy_read(at("t.npy"), &a, ERROR), -1);
        assert_says("t.npy");
    }
    free(b);
}

static const int levels[] = {0, 6, NPZ_WIDE, NPZ_WIDE + 1};
enum { LEVELS = sizeof levels / sizeof *levels };

static void npz_round_trip(void **state)
{
    for (int l = 0; l < LEVELS; l++) {
        npy_array back;
        assert_int_equal(npz_write(at("a.npz"), samples, SAMPLES, levels[l], ERROR), 0);
        assert_int_equal(npz_write(at("b.npz"), samples, SAMPLES, levels[l], ERROR), 0);
        assert_same_file("a.npz", "b.npz");
        for (int i = 0; i < SAMPLES; i++) {
            if (npz_read(at("a.npz"), samples[i].name, &back, ERROR)) fail_msg("%s", sentence);
            assert_true(same_array(&back, &samples[i].array));
            npy_free(&back);
        }
        assert_int_equal(npz_read(at("a.npz"), "absent", &back, ERROR), -1);
        assert_says("no array called 'absent'");
    }
    assert_int_equal(npz_write(at("a.npz"), NULL, 0, 0, ERROR), 0);
    npz_member nameless = {"", samples[0].array};
    assert_int_equal(npz_write(at("a.npz"), &nameless, 1, 0, ERROR), -1);
    assert_says("name");
}

/* Larger than every buffer, compressible and not. */
static void large_arrays_survive_deflation(void **state)
{
    enum { N = 100000 };
    double *x = malloc(N * sizeof *x);
    assert_non_null(x);
    uint64_t bits = 1;
    for (int i = 0; i < N; i++) {
        bits = bits * 6364136223846793005U + 1442695040888963407U;
        x[i] = i < N / 2 ? 1.0 : (double)(bits >> 11) * 0x1p-53;
    }
    npz_member m = {"x", npy_matrix(x, N / 2, 2)};
    npy_array back;
    assert_int_equal(npz_write(at("big.npz"), &m, 1, 6, ERROR), 0);
    if (npz_read(at("big.npz"), "x", &back, ERROR)) fail_msg("%s", sentence);
    assert_true(same_array(&back, &m.array));
    npy_free(&back);
    free(x);
}

static void damaged_archives_are_refused(void **state)
{
    for (int l = 0; l < LEVELS; l++) {
        size_t n = 0;
        npy_array a;
        assert_int_equal(npz_write(at("a.npz"), samples, 2, levels[l], ERROR), 0);
        char *b = slurp("a.npz", &n);
        for (size_t cut = 0; cut < n; cut++) {
            write_raw("t.npz", b, cut);
            assert_int_equal(npz_read(at("t.npz"), "x", &a, ERROR), -1);
        }
        int refused = 0;
        for (size_t i = 0; i < n; i++)
            for (int bit = 0; bit < 8; bit += 3) { /* what is not refused (a date, the other member) must be right */
                b[i] = (char)(b[i] ^ (1 << bit));
                write_raw("t.npz", b, n);
                b[i] = (char)(b[i] ^ (1 << bit));
                if (npz_read(at("t.npz"), "x", &a, ERROR)) {
                    refused++;
                    continue;
                }
                assert_true(same_array(&a, &samples[0].array));
                npy_free(&a);
            }
        assert_true(refused > 128);
        free(b);
    }
    npy_array a;
    write_text("t.npz", "PK not quite");
    assert_int_equal(npz_read(at("t.npz"), "x", &a, ERROR), -1);
    assert_says("not an NPZ file");
}

/* A member that promises more than deflation can pack is refused before memory is asked for. */
static void a_bomb_is_refused(void **state)
{
    size_t n = 0;
    npy_array a;
    assert_int_equal(npz_write(at("a.npz"), samples, 1, 6, ERROR), 0);
    char *b = slurp("a.npz", &n);
    size_t i = n - 22 - 46 - 5; /* the central header of "x.npy" */
    assert_memory_equal(b + i, "PK\1\2", 4);
    memset(b + i + 24, 0x7F, 4);
    write_raw("t.npz", b, n);
    assert_int_equal(npz_read(at("t.npz"), "x", &a, ERROR), -1);
    assert_says("make no sense");
    free(b);
}

/* ---------------------------------------------------------------------------- NumPy */

static void assert_python(const char *script)
{
    if (!python_run(NULL, at("python.log"), "-c", script, scratch)) return;
    fail_msg("%s", slurp("python.log", NULL));
}

static void need_numpy(void)
{
    if (!python_run(NULL, at("python.log"), "-c", "import numpy", "")) return;
    print_message("skipped: python3 with numpy is not there\n");
    skip();
}

static void numpy_loads_what_we_write(void **state)
{
    need_numpy();
    for (int i = 0; i < SAMPLES; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.npy", samples[i].name);
        assert_int_equal(npy_write(at(name), &samples[i].array, ERROR), 0);
    }
    for (int l = 0; l < LEVELS; l++) {
        char name[64];
        (void)snprintf(name, sizeof name, "numpy%d.npz", l);
        assert_int_equal(npz_write(at(name), samples, SAMPLES, levels[l], ERROR), 0);
    }
    assert_python("import numpy as np, sys, zipfile\n"
                  "d = sys.argv[1] + '/'\n"
                  "for l in range(4):\n"
                  "    assert zipfile.ZipFile(d + f'numpy{l}.npz').testzip() is None\n"
                  "    z = np.load(d + f'numpy{l}.npz')\n"
                  "    assert sorted(z.files) == ['bytes', 'f', 'none', 'one', 'whole', 'x'], z.files\n"
                  "    for name in z.files:\n"
                  "        a, b = z[name], np.load(d + name + '.npy')\n"
                  "        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), name\n"
                  "    assert z['x'].shape == (3, 2) and z['x'][1, 0] == 1e300 and z['x'][0, 1] == -1.5\n"
                  "    assert z['f'].dtype == np.float32 and z['f'][1] == -2.25\n"
                  "    assert z['whole'].dtype == np.int64 and z['whole'][1, 0, 1] == 42\n"
                  "    assert z['bytes'].dtype == np.uint8 and z['bytes'].shape == (1, 2, 1, 3)\n"
                  "    assert z['one'].shape == () and z['one'] == 1e300 and z['none'].shape == (0, 5)\n");
}

static void we_load_what_numpy_writes(void **state)
{
    need_numpy();
    assert_python(
        "import numpy as np, sys\n"
        "d = sys.argv[1] + '/'\n"
        "x, f = np.array([[0.0, -1.5], [1e300, 5e-324], [3.25, -0.0]]), np.array([1.5, -2.25, 1e-30, 7], 'f4')\n"
        "np.save(d + 'n.npy', x)\n"
        "np.savez(d + 'n0.npz', x=x, f=f)\n"
        "np.savez_compressed(d + 'n1.npz', x=x, f=f)\n"
        "np.save(d + 'fortran.npy', np.asfortranarray(x))\n"
        "np.save(d + 'big.npy', x.astype('>f8'))\n"
        "np.save(d + 'object.npy', np.array([{}, 'a'], dtype=object), allow_pickle=True)\n");
    static const char *const refused[][2] = {
        {"fortran.npy", "Fortran"}, {"big.npy", "big-endian"}, {"object.npy", "pickled"}};
    npy_array a;
    if (npy_read(at("n.npy"), &a, ERROR)) fail_msg("%s", sentence);
    assert_true(same_array(&a, &samples[0].array));
    npy_free(&a);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < 2; i++) {
            if (npz_read(at(l ? "n1.npz" : "n0.npz"), samples[i].name, &a, ERROR)) fail_msg("%s", sentence);
            assert_true(same_array(&a, &samples[i].array));
            npy_free(&a);
        }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(npy_read(at(refused[i][0]), &a, ERROR), -1);
        assert_says(refused[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_round_trip),
        cmocka_unit_test(npy_header_is_numpys),
        cmocka_unit_test(any_type_becomes_doubles),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(every_truncation_of_npy_is_refused),
        cmocka_unit_test(npz_round_trip),
        cmocka_unit_test(large_arrays_survive_deflation),
        cmocka_unit_test(damaged_archives_are_refused),
        cmocka_unit_test(a_bomb_is_refused),
        cmocka_unit_test(numpy_loads_what_we_write),
        cmocka_unit_test(we_load_what_numpy_writes),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
