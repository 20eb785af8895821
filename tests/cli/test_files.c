/* test_files.c: what the program writes can be read, by itself and by NumPy; what it cannot read it says in a sentence.
 *
 * Damaged files are made by the hundred: every truncation and every flipped byte of a small archive. None may crash
 * (the sanitizers watch), and none may pass off wrong numbers as right ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "folder.h"
#include "outside.h"

static char folder[FOLDER_ROOM];
static char error[1024];
#define ERROR error, sizeof error

static const char *at(const char *name) { return folder_path(folder, name); }

static void write_raw(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *name, const char *text) { write_raw(name, text, strlen(text)); }

static char *slurp(const char *name, size_t *size)
{
    char *bytes = NULL;
    size_t n = 0;
    int status = files_read(at(name), (size_t)1 << 30, &bytes, &n, ERROR);
    if (status) fail_msg("%s", error);
    if (size) *size = n;
    return bytes;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n = 0, m = 0;
    char *x = slurp(a, &n), *y = slurp(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static int exists(const char *name)
{
    struct stat st;
    return stat(at(name), &st) == 0;
}

static void assert_says(const char *part)
{
    if (!strstr(error, part)) fail_msg("\"%s\" does not say \"%s\"", error, part);
}

/* ---------------------------------------------------------------------------- whole files */

static void a_file_is_replaced_whole(void **state)
{
    assert_int_equal(files_write(at("a.txt"), "old", 3, ERROR), 0);
    atomic_file f;
    assert_int_equal(atomic_open(&f, at("a.txt"), ERROR), 0);
    atomic_print(&f, "%s %d", "new", 7);
    assert_int_equal(fflush(f.stream), 0);
    char *before = slurp("a.txt", NULL); /* nobody sees the new bytes yet */
    assert_string_equal(before, "old");
    assert_int_equal(atomic_close(&f, ERROR), 0);
    char *after = slurp("a.txt", NULL);
    assert_string_equal(after, "new 7");
    assert_false(exists("a.txt.tmp"));
    free(before);
    free(after);
}

static void an_abandoned_file_leaves_the_old_one(void **state)
{
    assert_int_equal(files_write(at("b.txt"), "old", 3, ERROR), 0);
    atomic_file f;
    assert_int_equal(atomic_open(&f, at("b.txt"), ERROR), 0);
    atomic_put(&f, "half", 4);
    atomic_abandon(&f);
    atomic_abandon(&f);
    char *after = slurp("b.txt", NULL);
    assert_string_equal(after, "old");
    assert_false(exists("b.txt.tmp"));
    free(after);
}

/* A limit on the size of files stands in for a full disk. */
static void a_full_disk_is_told_and_leaves_the_old_file(void **state)
{
    enum { LIMIT = 4096 };
    struct rlimit old, small;
    assert_int_equal(files_write(at("c.txt"), "old", 3, ERROR), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = LIMIT;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    static char big[16 * LIMIT];
    int status = files_write(at("c.txt"), big, sizeof big, ERROR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, -1);
    assert_says("c.txt.tmp");
    assert_says(strerror(EFBIG));
    char *after = slurp("c.txt", NULL);
    assert_string_equal(after, "old");
    assert_false(exists("c.txt.tmp"));
    free(after);
}

static void what_cannot_be_opened_is_named(void **state)
{
    char *bytes = NULL;
    size_t n = 0;
    assert_int_equal(files_write(at("no/such/folder"), "x", 1, ERROR), -1);
    assert_says("no/such/folder.tmp");
    assert_says(strerror(ENOENT));
    assert_int_equal(files_read(at("missing"), 100, &bytes, &n, ERROR), -1);
    assert_says("missing");
    assert_int_equal(files_read(folder, 100, &bytes, &n, ERROR), -1);
    assert_says("not a regular file");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(files_read(at("pipe"), 100, &bytes, &n, ERROR), -1); /* and does not wait for a writer */
    assert_says("not a regular file");
    write_text("long.txt", "0123456789");
    assert_int_equal(files_read(at("long.txt"), 9, &bytes, &n, ERROR), -1);
    assert_says("at most 9");
    assert_int_equal(files_fail(NULL, 0, "nobody listens"), -1);
}

static void directories_are_made_with_their_parents(void **state)
{
    assert_int_equal(files_directory(at("p/q/r"), ERROR), 0);
    assert_int_equal(files_directory(at("p/q/r/"), ERROR), 0);
    write_text("p/file", "x");
    assert_int_equal(files_directory(at("p/file"), ERROR), -1);
    assert_says("not a directory");
    assert_int_equal(files_directory(at("p/file/deeper"), ERROR), -1);
    assert_int_equal(files_directory("", ERROR), -1);
    char deep[FILES_PATH], out[FILES_PATH];
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(files_join(out, deep, "y", ERROR), -1);
    assert_says("longer than");
}

static void utf8_is_recognised(void **state)
{
    static const struct {
        const char *s;
        int n;
    } known[] = {{"", 0},
                 {"a", 1},
                 {"\xC3\xA9", 2},
                 {"\xE2\x82\xAC", 3},
                 {"\xF0\x9F\x98\x80", 4},
                 {"\x80", 0},
                 {"\xC0\xAF", 0},
                 {"\xC3", 0},
                 {"\xE0\x80\xAF", 0},
                 {"\xED\xA0\x80", 0},
                 {"\xFF", 0},
                 {"\xE2\x82", 0},
                 {"\xF4\x90\x80\x80", 0},
                 {"\xF0\x80\x80\x80", 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) assert_int_equal(files_utf8(known[i].s), known[i].n);
}

static void numbers_are_short_and_exact(void **state)
{
    char text[32];
    assert_string_equal(files_number(0.1, text), "0.1");
    assert_string_equal(files_number(1000.0, text), "1000");
    static const double hard[] = {1.0 / 3.0, 0x1p-1074, 1.7976931348623157e308, -0.1 - 0.2, 123456789.123456789};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        assert_true(strtod(files_number(hard[i], text), NULL) == hard[i]);
}

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
        if (npy_read(at("a.npy"), &back, ERROR)) fail_msg("%s", error);
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
    if (npy_read(at("h.npy"), &a, ERROR)) fail_msg("%s", error);
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
            if (npz_read(at("a.npz"), samples[i].name, &back, ERROR)) fail_msg("%s", error);
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
    if (npz_read(at("big.npz"), "x", &back, ERROR)) fail_msg("%s", error);
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
    if (!outside_python(NULL, at("python.log"), "-c", script, folder)) return;
    fail_msg("%s", slurp("python.log", NULL));
}

static void need_numpy(void)
{
    if (!outside_python(NULL, at("python.log"), "-c", "import numpy", "")) return;
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
    if (npy_read(at("n.npy"), &a, ERROR)) fail_msg("%s", error);
    assert_true(same_array(&a, &samples[0].array));
    npy_free(&a);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < 2; i++) {
            if (npz_read(at(l ? "n1.npz" : "n0.npz"), samples[i].name, &a, ERROR)) fail_msg("%s", error);
            assert_true(same_array(&a, &samples[i].array));
            npy_free(&a);
        }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(npy_read(at(refused[i][0]), &a, ERROR), -1);
        assert_says(refused[i][1]);
    }
}

/* ---------------------------------------------------------------------------- tables */

static void read_csv(const char *text, const csv_options *options, csv_table *t)
{
    write_text("t.csv", text);
    if (csv_read(at("t.csv"), options, t, ERROR)) fail_msg("%s", error);
}

static void a_table_has_numbers_and_labels(void **state)
{
    csv_table t;
    const double *x = NULL;
    read_csv("\xEF\xBB\xBF"
             "age, weight ,\"the \"\"label\"\"\"\r\n\r\n1,2.5,yes\r\n -3e2 ,,\"no, never\"\r\n4,0x10,\"two\nlines\"",
             NULL, &t);
    assert_int_equal(t.rows, 3);
    assert_int_equal(t.columns, 3);
    assert_string_equal(t.column[1].name, "weight");
    assert_string_equal(t.column[2].name, "the \"label\"");
    assert_true(t.column[0].number[1] == -300.0);
    assert_true(isnan(t.column[1].number[1]) && t.column[1].number[2] == 16.0);
    assert_null(t.column[2].number);
    assert_string_equal(t.column[2].text[0], "yes");
    assert_string_equal(t.column[2].text[1], "no, never");
    assert_string_equal(t.column[2].text[2], "two\nlines");
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), 0);
    assert_ptr_equal(x, t.column[0].number);
    assert_int_equal(csv_numbers(&t, 1, &x, ERROR), -1);
    assert_says("t.csv:4: column 'weight' is empty");
    assert_int_equal(csv_numbers(&t, 2, &x, ERROR), -1);
    assert_says("t.csv:3: column 'the \"label\"' holds");
    assert_int_equal(csv_numbers(&t, 3, &x, ERROR), -1);
    assert_ptr_equal(csv_find(&t, "age"), &t.column[0]);
    assert_null(csv_find(&t, "height"));
    csv_free(&t);
    csv_free(&t);
}

static void a_header_is_optional(void **state)
{
    csv_table t;
    read_csv("1,2\n3,4\n", NULL, &t);
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.column[1].name, "c2");
    csv_free(&t);
    read_csv("1,2\n3,4\n", &(csv_options){.header = CSV_HEADER_YES}, &t);
    assert_int_equal(t.rows, 1);
    assert_string_equal(t.column[1].name, "2");
    csv_free(&t);
    read_csv("a,b\n3,4\n", &(csv_options){.header = CSV_HEADER_NO}, &t);
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.column[0].text[1], "3");
    csv_free(&t);
    read_csv("x,y", NULL, &t);
    assert_int_equal(t.rows, 0);
    csv_free(&t);
    read_csv("x,\n\n,5\ninf,6\n", NULL, &t); /* an empty field at the end of a line takes nothing from the next */
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.column[1].name, "c2");
    assert_true(t.column[1].number[0] == 5.0 && isinf(t.column[0].number[1]) && isnan(t.column[0].number[0]));
    csv_free(&t);
}

static void bad_tables_are_refused_with_their_line(void **state)
{
    static const char *const tests[][2] = {
        {"a,b\n1,2\n3\n", "t.csv:3: 1 field where"},
        {"a,b\n1,2,3\n", "t.csv:2: 3 fields where"},
        {"a,b\n\n\n\"x\ny\",2\n3\n", "t.csv:6: 1 field where"},
        {"a,b\n\"x,2\n", "t.csv:2: a quote is opened"},
        {"a,b\n\"x\"y,2\n", "t.csv:2: something stands"},
        {"a,b\nx\"y,2\n", "t.csv:2: a quote inside"},
        {"", "is empty"},
        {" \n\t\n", "is empty"},
        {"1\n2\n3\n4\n", "t.csv:4: more than 3 rows"},
        {"1,2,3,4,5\n", "t.csv:1: more than 4 columns"},
        {"0123456789012345678901234567890123456789", "at most 32"},
    };
    csv_options tight = {.max_rows = 3, .max_columns = 4, .max_bytes = 32};
    csv_table t;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        write_text("t.csv", tests[i][0]);
        assert_int_equal(csv_read(at("t.csv"), &tight, &t, ERROR), -1);
        assert_says(tests[i][1]);
    }
    write_raw("t.csv", "1,2\0,3\n", 7);
    assert_int_equal(csv_read(at("t.csv"), NULL, &t, ERROR), -1);
    assert_says("zero bytes");
}

/* Random strings over the characters that matter: nothing may crash, and rows times columns must be there. */
static void no_table_crashes(void **state)
{
    static const char letters[] = "\",\n\r 1.ex-";
    uint32_t seed = 1;
    for (int k = 0; k < 4000; k++) {
        char text[40] = "";
        size_t n = (size_t)(k % 39);
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525U + 1013904223U;
            text[i] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        write_raw("t.csv", text, n);
        csv_table t;
        if (csv_read(at("t.csv"), NULL, &t, ERROR)) continue;
        for (int c = 0; c < t.columns; c++)
            for (int64_t r = 0; r < t.rows; r++)
                if (t.column[c].text)
                    assert_true(strlen(t.column[c].text[r]) < 40);
                else
                    assert_true(isnan(t.column[c].number[r]) || fabs(t.column[c].number[r]) >= 0.0);
        csv_free(&t);
    }
}

/* ---------------------------------------------------------------------------- JSON */

static void write_json(const char *name)
{
    static const double theta[] = {0.1, NAN, -2.5e-300, INFINITY};
    atomic_file f;
    assert_int_equal(atomic_open(&f, at(name), ERROR), 0);
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "text \"quoted\"", "tab\t line\n back\\slash \x01 \x7F \xC3\xA9 bad\xFF");
    json_put_text(&w, "nothing", NULL);
    json_put_number(&w, "third", 1.0 / 3.0);
    json_put_number(&w, "nan", NAN);
    json_put_whole(&w, "whole", INT64_MIN);
    json_put_truth(&w, "yes", 1);
    json_put_truth(&w, "no", 0);
    json_put_numbers(&w, "theta", theta, 4);
    json_open_list(&w, "list");
    json_put_numbers(&w, NULL, theta, 0);
    json_open_object(&w, NULL);
    json_close(&w);
    json_close(&w);
    json_close(&w);
    assert_int_equal(atomic_close(&f, ERROR), 0);
}

static void json_round_trip(void **state)
{
    json_t *j = NULL;
    write_json("a.json");
    write_json("b.json");
    assert_same_file("a.json", "b.json");
    if (json_read(at("a.json"), &j, ERROR)) fail_msg("%s", error);
    assert_string_equal(json_string_value(json_object_get(j, "text \"quoted\"")),
                        "tab\t line\n back\\slash \x01 \x7F \xC3\xA9 bad\xEF\xBF\xBD");
    assert_true(json_is_null(json_object_get(j, "nothing")));
    assert_true(json_real_value(json_object_get(j, "third")) == 1.0 / 3.0);
    assert_true(json_is_null(json_object_get(j, "nan")));
    assert_true(json_integer_value(json_object_get(j, "whole")) == INT64_MIN);
    assert_true(json_is_true(json_object_get(j, "yes")) && json_is_false(json_object_get(j, "no")));
    const json_t *theta = json_object_get(j, "theta");
    assert_int_equal(json_array_size(theta), 4);
    assert_true(json_real_value(json_array_get(theta, 2)) == -2.5e-300);
    assert_true(json_is_null(json_array_get(theta, 1)) && json_is_null(json_array_get(theta, 3)));
    assert_int_equal(json_array_size(json_object_get(j, "list")), 2);
    json_decref(j);
}

static void bad_json_is_refused_with_its_line(void **state)
{
    json_t *j = NULL;
    write_text("bad.json", "{\n\"a\": 1,\n\"b\" 2}\n");
    assert_int_equal(json_read(at("bad.json"), &j, ERROR), -1);
    assert_says("bad.json:3:");
    write_text("bad.json", "{\"a\": 1, \"a\": 2}");
    assert_int_equal(json_read(at("bad.json"), &j, ERROR), -1);
    char deep[8192]; /* must not exhaust the stack */
    memset(deep, '[', sizeof deep);
    write_raw("bad.json", deep, sizeof deep);
    assert_int_equal(json_read(at("bad.json"), &j, ERROR), -1);
    assert_null(j);
}

/* ---------------------------------------------------------------------------- traces */

enum { ROWS = 12, RESUME = 9 };
static const char columns[] = "iteration,a,b";

static void append_rows(trace *t, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        double value[] = {1.0 / (double)(k + 1), k % 3 == 0 ? NAN : -1e-300 * (double)k};
        trace_append(t, k, value, 2);
    }
}

static void write_trace(const char *name, int64_t from, int64_t to)
{
    trace *t = NULL;
    if (trace_open(&t, at(name), columns, from, ERROR)) fail_msg("%s", error);
    append_rows(t, from, to);
    assert_int_equal(trace_close(t, ERROR), 0);
}

static void a_trace_has_exact_numbers_and_gaps(void **state)
{
    write_trace("t.csv", 0, 2);
    char *text = slurp("t.csv", NULL);
    assert_string_equal(text, "iteration,a,b\n0,1,\n1,0.5,-1e-300\n");
    free(text);
}

/* Killed at any byte behind the last flush, whatever the file system makes of the tail: the end is the same. */
static void a_resumed_trace_has_the_same_bytes(void **state)
{
    size_t n = 0, flushed = 0;
    write_trace("whole.csv", 0, ROWS);
    write_trace("part.csv", 0, RESUME);
    free(slurp("part.csv", &flushed));
    char *all = slurp("whole.csv", &n);
    for (size_t cut = flushed; cut <= n; cut++)
        for (int zeros = 0; zeros < 2; zeros++) {
            char *damaged = calloc(n + 8, 1);
            assert_non_null(damaged);
            memcpy(damaged, all, cut);
            write_raw("cut.csv", damaged, zeros ? n + 8 : cut);
            free(damaged);
            trace *t = NULL;
            double value = 0.0;
            if (trace_open(&t, at("cut.csv"), columns, RESUME, ERROR)) fail_msg("%s", error);
            assert_int_equal(trace_kept(t, &value), RESUME - 1);
            assert_true(value == 1.0 / RESUME);
            append_rows(t, RESUME, ROWS);
            assert_int_equal(trace_close(t, ERROR), 0);
            assert_same_file("cut.csv", "whole.csv");
        }
    free(all);
}

static void a_killed_writer_can_be_resumed(void **state)
{
    enum { MANY = 20000, SAVED = 5000 };
    write_trace("whole.csv", 0, MANY);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        trace *t = NULL;
        if (trace_open(&t, at("killed.csv"), columns, 0, ERROR)) _exit(1);
        append_rows(t, 0, SAVED);
        if (trace_flush(t, ERROR)) _exit(1); /* a checkpoint would be written now */
        if (write(ready[1], "x", 1) != 1) _exit(1);
        append_rows(t, SAVED, MANY / 2);
        for (;;) (void)pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ready[0]);
    (void)close(ready[1]);
    write_trace("killed.csv", SAVED, MANY);
    assert_same_file("killed.csv", "whole.csv");
}

static void a_finished_trace_is_extended_or_started_anew(void **state)
{
    write_trace("whole.csv", 0, ROWS);
    write_trace("t.csv", 0, 7);
    write_trace("t.csv", 7, ROWS);
    assert_same_file("t.csv", "whole.csv");
    write_trace("t.csv", 0, ROWS);
    assert_same_file("t.csv", "whole.csv");
}

static void a_foreign_trace_is_refused(void **state)
{
    trace *t = NULL;
    write_text("t.csv", "iteration,a\n0,1\n");
    assert_int_equal(trace_open(&t, at("t.csv"), columns, 5, ERROR), -1);
    assert_says("header line");
    write_text("t.csv", "iter");
    assert_int_equal(trace_open(&t, at("t.csv"), columns, 5, ERROR), -1);
    assert_says("header line");
    assert_int_equal(trace_open(&t, at("absent.csv"), columns, 5, ERROR), -1);
    assert_says("absent.csv");
    assert_null(t);
    write_text("t.csv", "iteration,a,b\nx,1,2\n"); /* nothing usable: nothing kept */
    assert_int_equal(trace_open(&t, at("t.csv"), columns, 5, ERROR), 0);
    assert_int_equal(trace_kept(t, NULL), -1);
    assert_int_equal(trace_close(t, ERROR), 0);
    char *text = slurp("t.csv", NULL);
    assert_string_equal(text, "iteration,a,b\n");
    free(text);
    assert_int_equal(trace_close(NULL, ERROR), 0);
}

static void the_info_becomes_a_row(void **state)
{
    char head[TRACE_COLUMNS];
    sosmc_info info = {.iteration = 3,
                       .updates = 4,
                       .gradient_updates = 2,
                       .ess = 9.5,
                       .mean_score = 1,
                       .mean_energy = 2,
                       .data_energy = NAN,
                       .penalty = 7,
                       .loss = NAN,
                       .kl = NAN,
                       .logz = -1,
                       .grad_norm = 5,
                       .accept = 0.5,
                       .h = 0.25,
                       .rate = 0.125,
                       .resampled = 1,
                       .nonfinite = 0,
                       .retries = 6};
    double theta[65] = {3.0, 4.0};
    trace *t = NULL;
    trace_columns(2, head);
    assert_int_equal(trace_open(&t, at("t.csv"), head, 0, ERROR), 0);
    trace_info(t, &info, theta, 2);
    assert_int_equal(trace_close(t, ERROR), 0);
    char *text = slurp("t.csv", NULL);
    assert_string_equal(
        text,
        "iteration,updates,gradient_updates,ess,mean_score,mean_energy,data_energy,penalty,loss,kl,logz,"
        "grad_norm,accept,h,rate,resampled,nonfinite,retries,theta_1,theta_2\n3,4,2,9.5,1,2,,7,,,-1,5,0.5,0.25,0.125,1,0,6,3,4\n");
    free(text);
    trace_columns(65, head);
    assert_non_null(strstr(head, "retries,theta_norm"));
    assert_int_equal(trace_open(&t, at("t.csv"), head, 0, ERROR), 0);
    trace_info(t, &info, theta, 65);
    assert_int_equal(trace_close(t, ERROR), 0);
    text = slurp("t.csv", NULL);
    assert_non_null(strstr(text, ",0,6,5\n"));
    free(text);
    trace_columns(64, head);
    assert_non_null(strstr(head, ",theta_64"));
    assert_int_equal(trace_open(&t, at("t.csv"), TRACE_TIMING, 0, ERROR), 0);
    trace_time(t, 1, 0.5);
    assert_int_equal(trace_close(t, ERROR), 0);
}

static void a_full_disk_stops_a_trace(void **state)
{
    struct rlimit old, small;
    trace *t = NULL;
    assert_int_equal(trace_open(&t, at("full.csv"), columns, 0, ERROR), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 512;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    append_rows(t, 0, 10000);
    int status = trace_flush(t, ERROR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, -1);
    assert_says("full.csv");
    assert_int_equal(trace_close(t, ERROR), -1);
}

/* ---------------------------------------------------------------------------- */

static int make_folder(void **state) { return folder_make(folder, "test_files"); }

static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_whole),
        cmocka_unit_test(an_abandoned_file_leaves_the_old_one),
        cmocka_unit_test(a_full_disk_is_told_and_leaves_the_old_file),
        cmocka_unit_test(what_cannot_be_opened_is_named),
        cmocka_unit_test(directories_are_made_with_their_parents),
        cmocka_unit_test(utf8_is_recognised),
        cmocka_unit_test(numbers_are_short_and_exact),
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
        cmocka_unit_test(a_table_has_numbers_and_labels),
        cmocka_unit_test(a_header_is_optional),
        cmocka_unit_test(bad_tables_are_refused_with_their_line),
        cmocka_unit_test(no_table_crashes),
        cmocka_unit_test(json_round_trip),
        cmocka_unit_test(bad_json_is_refused_with_its_line),
        cmocka_unit_test(a_trace_has_exact_numbers_and_gaps),
        cmocka_unit_test(a_resumed_trace_has_the_same_bytes),
        cmocka_unit_test(a_killed_writer_can_be_resumed),
        cmocka_unit_test(a_finished_trace_is_extended_or_started_anew),
        cmocka_unit_test(a_foreign_trace_is_refused),
        cmocka_unit_test(the_info_becomes_a_row),
        cmocka_unit_test(a_full_disk_stops_a_trace),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
