/* test_hostile_files.c: files made to do harm. Each promises far more than it holds, nests without end, or bears names that
 * lead elsewhere, and is otherwise sound, sums included. A reader must refuse it in one sentence, before it takes the memory:
 * here a process may take MEGABYTES more than it has, so a reader that believes its file says "no memory" and fails the test.
 * Nothing may be written but what was asked for. docs/fuzzing.md states the bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <jpeglib.h>

#include <sosmc/models.h>

#include "runfile/config.h"
#include "files/files.h"
#include <sosmc/expression.h>
#include "pictures/images.h"
#include "report/report.h"
#include "job/model_file.h"
#include "job/network_text.h"
#include "job/points.h"
#include "scratch.h"
#include "files/tensors.h"

enum { MEGABYTES = 192, SENTENCE = 1024, MOST = 1 << 18 };

/* ------------------------------------------------------------------------------------------------ readers */

typedef int (*reader)(const char *path, char *error, size_t room);

static int read_npy(const char *path, char *error, size_t room)
{
    npy_array a;
    int status = npy_read(path, &a, error, room);
    npy_free(&a);
    return status;
}

static int read_npz(const char *path, char *error, size_t room)
{
    npy_array a;
    int status = npz_read(path, "x", &a, error, room);
    npy_free(&a);
    return status;
}

static int read_tensors(const char *path, char *error, size_t room)
{
    tensor_file f;
    int status = tensors_read(path, &f, error, room);
    tensors_free(&f);
    return status;
}

static int read_picture(const char *path, char *error, size_t room)
{
    image im;
    int status = image_read(path, &im, error, room);
    image_free(&im);
    return status;
}

static int read_header(const char *path, char *error, size_t room)
{
    image im;
    int status = image_read_part(path, 0, &im, error, room);
    return status || im.rows != 16384 || im.columns != 16384 || im.pixel ? -1 : 0;
}

static int read_model(const char *path, char *error, size_t room)
{
    model_file m;
    int status = model_read(path, &m, error, room);
    model_free(&m);
    return status;
}

static int read_cloud(const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    npy_array x = {0};
    int status = report_cloud(dir, 2, path, &x, error, room);
    npy_free(&x);
    return status == 1 ? 0 : -1;
}

static int read_set(const char *path, char *error, size_t room)
{
    image_set set;
    int status = images_read(path, &set, error, room);
    images_free(&set);
    return status;
}

static int read_labels(const char *path, char *error, size_t room)
{
    unsigned char *label;
    int64_t count;
    int status = idx_labels_read(path, &label, &count, error, room);
    free(label);
    return status;
}

static int read_csv(const char *path, char *error, size_t room)
{
    csv_table t;
    int status = csv_read(path, NULL, &t, error, room);
    csv_free(&t);
    return status;
}

static int read_points(const char *path, char *error, size_t room)
{
    double *x = NULL;
    int64_t rows;
    int status = points_load(path, 2, &x, &rows, error, room);
    free(x);
    return status;
}

static int read_json(const char *path, char *error, size_t room)
{
    json_t *json = NULL;
    int status = json_read(path, &json, error, room);
    json_decref(json);
    return status;
}

static int read_run_file(const char *path, char *error, size_t room)
{
    config *c = config_load(path, error, room);
    int status = c ? config_resolve(c, error, room) : -1;
    config_free(c);
    return status;
}

static int read_formula(const char *path, char *error, size_t room)
{
    char *text = NULL;
    size_t size;
    if (files_read(path, MOST, &text, &size, error, room)) return -1;
    sosmc_expression *f = sosmc_expression_compile(text, 2, NULL, error, room);
    int status = f ? 0 : -1;
    sosmc_expression_free(f);
    free(text);
    return status;
}

static int read_network(const char *path, char *error, size_t room)
{
    char *text = NULL;
    size_t size;
    sosmc_network n;
    if (files_read(path, MOST, &text, &size, error, room)) return -1;
    int status = network_parse(text, &n, error, room);
    network_free(&n);
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------------ in a narrow place */

/* Their shadows need more address space than any bound allows. */
#ifdef __has_feature
#define CLANG_HAS(feature) __has_feature(feature)
#else
#define CLANG_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || CLANG_HAS(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static void narrow(void)
{
    long pages = 0;
    FILE *f = SANITIZED ? NULL : fopen("/proc/self/statm", "r");
    if (!f) return;
    int there = fscanf(f, "%ld", &pages) == 1;
    (void)fclose(f);
    if (!there) return;
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)MEGABYTES << 20);
    (void)setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
}

/* The reader's verdict from a process of its own, which ends by itself: 0 accepted, 1 refused, with the sentence. */
static int verdict(reader read_it, const char *path, char sentence[SENTENCE])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char error[SENTENCE] = "";
        (void)close(ends[0]);
        narrow();
        int refused = read_it(path, error, sizeof error) != 0;
        ssize_t written = write(ends[1], error, strlen(error));
        _exit(written < 0 ? 3 : refused);
    }
    (void)close(ends[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(ends[0], sentence + used, SENTENCE - 1 - used)) > 0;) used += (size_t)n;
    sentence[used] = 0;
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) fail_msg("%s: the reader died (status %d)", path, status);
    return WEXITSTATUS(status);
}

static void must_refuse(reader read_it, const char *path, const char *part)
{
    char sentence[SENTENCE];
    if (!verdict(read_it, path, sentence)) fail_msg("%s was accepted", path);
    if (!strstr(sentence, part)) fail_msg("%s: \"%s\" does not say \"%s\"", path, sentence, part);
    if (strstr(sentence, "memory")) fail_msg("%s: the memory was asked for: %s", path, sentence);
    for (const char *p = sentence; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) fail_msg("%s: a control character in the sentence", path);
}

static void must_accept(reader read_it, const char *path)
{
    char sentence[SENTENCE];
    if (verdict(read_it, path, sentence)) fail_msg("%s", sentence);
}

/* ------------------------------------------------------------------------------------------------ making files */

typedef struct {
    unsigned char b[MOST];
    size_t n;
} bytes;

static void add(bytes *f, const void *p, size_t n)
{
    assert_true(n <= MOST - f->n);
    memcpy(f->b + f->n, p, n);
    f->n += n;
}

static void add_text(bytes *f, const char *text) { add(f, text, strlen(text)); }

static void add_number(bytes *f, uint64_t value, int size, int big)
{
    for (int i = 0; i < size; i++) {
        int place = big ? size - 1 - i : i;
        unsigned char byte = place < 8 ? (unsigned char)(value >> 8 * place) : 0;
        add(f, &byte, 1);
    }
}

static void add_copies(bytes *f, const char *text, int times)
{
    for (int i = 0; i < times; i++) add_text(f, text);
}

static const char *store(const bytes *f, const char *name)
{
    char error[SENTENCE];
    const char *path = at(name);
    if (files_write(path, f->b, f->n, error, sizeof error)) fail_msg("%s", error);
    return path;
}

static bytes *empty(void)
{
    static bytes f;
    f.n = 0;
    return &f;
}

/* zlib's packing; `window` as deflateInit2 has it: negative raw, + 16 gzip. */
static void add_packed(bytes *f, const void *p, size_t n, int window)
{
    z_stream z = {.next_in = (z_const Bytef *)p, .avail_in = (uInt)n, .next_out = f->b + f->n};
    z.avail_out = (uInt)(MOST - f->n);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    f->n = MOST - z.avail_out;
    (void)deflateEnd(&z);
}

/* ------------------------------------------------------------------------------------------------ arrays */

static const char *store_npy(const char *shape, const char *name)
{
    bytes *f = empty();
    char header[120];
    (void)snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }", shape);
    add(f, "\x93NUMPY\x01\x00", 8);
    add_number(f, strlen(header), 2, 0);
    add_text(f, header);
    add(f, "12345678", 8);
    return store(f, name);
}

static void arrays(void **state)
{
    must_refuse(read_npy, store_npy("4000000000,", "large.npy"), "promises");
    must_refuse(read_npy, store_npy("4294967296, 4294967296", "overflow.npy"), "impossible");
    must_refuse(read_npy, store_npy("9223372036854775807, 2, 0", "zero.npy"), "damaged");
    must_refuse(read_points, store_npy("100000000, 2", "points.npy"), "promises");
    must_refuse(read_set, store_npy("4000000000, 8, 8", "set.npy"), "promises");
    must_accept(read_npy, store_npy("1,", "small.npy"));
}

/* An archive with one deflated member x.npy, which says of itself that it unpacks to `size` bytes. */
static const char *store_npz(uint64_t size, const char *member, const char *name)
{
    static const char zeros[4096];
    bytes *f = empty(), packed = {.n = 0};
    size_t n = strlen(member);
    add_packed(&packed, zeros, sizeof zeros, -MAX_WBITS);
    for (int central = 0; central < 2; central++) {
        size_t start = f->n;
        add(f, central ? "PK\x01\x02\x14\x03" : "PK\x03\x04", central ? 6 : 4);
        add(f, "\x14\0\0\0\x08\0\0\0\x21\0", 10);
        add_number(f, crc32(0, (const Bytef *)zeros, sizeof zeros), 4, 0);
        add_number(f, packed.n, 4, 0);
        add_number(f, size, 4, 0);
        add_number(f, n, 2, 0);
        add_number(f, 0, central ? 16 : 2, 0);
        add_text(f, member);
        if (!central) {
            add(f, packed.b, packed.n);
            continue;
        }
        size_t list = f->n - start;
        add(f, "PK\x05\x06\0\0\0\0\x01\0\x01\0", 12);
        add_number(f, list, 4, 0);
        add_number(f, start, 4, 0);
        add_number(f, 0, 2, 0);
    }
    return store(f, name);
}

static void archives_of_arrays(void **state)
{
    must_refuse(read_npz, store_npz(4000000000U, "x.npy", "bomb.npz"), "make no sense");
    must_refuse(read_tensors, store_npz(4000000000U, "x.npy", "bomb2.npz"), "make no sense");
    must_refuse(read_npz, store_npz(4096, "x.npy", "plain.npz"), "not an NPY file");
    must_refuse(read_tensors, store_npz(4096, "../../x.npy", "elsewhere.npz"), "not an NPY file");
    must_refuse(read_tensors, store_npz(4096, "\x1b]0;x\x07.npy", "terminal.npz"), "control character");
}

/* Zeros that unpack to more than a process may take here, in an archive of a thousandth of that. Their shape alone tells that
 * they are not what is asked for. */
static void zeros(npy_array a, const char *array, const char *name)
{
    char error[SENTENCE];
    void *none = calloc((size_t)npy_count(&a), a.type == NPY_U8 ? 1 : sizeof(double));
    assert_non_null(none);
    a.data = none;
    if (npz_write(at(name), &(npz_member){array, a}, 1, 1, error, sizeof error)) fail_msg("%s", error);
    free(none);
}

static void archives_of_zeros(void **state)
{
    enum { MANY = 28000000 }; /* 224 MB */
    char error[SENTENCE];
    zeros(npy_vector(NULL, MANY), "x", "zeros.npz");
    must_refuse(read_model, at("zeros.npz"), "neither weight nor bias");
    must_refuse(read_points, at("zeros.npz"), "two dimensions with 2 columns");
    zeros((npy_array){.type = NPY_U8, .dims = 1, .shape = {8 * MANY}}, "__metadata__", "metadata.npz");
    must_refuse(read_model, at("metadata.npz"), "at most 100000000 bytes");
    assert_int_equal(files_directory(at("cloud"), error, sizeof error), 0);
    zeros(npy_matrix(NULL, 7, MANY / 7), "x", "cloud/particles.npz");
    must_refuse(read_cloud, at("cloud"), "holds 7 particles of 4000000 numbers; expected those of summary.json");
    zeros(npy_matrix(NULL, MANY / 2, 2), "x", "cloud/particles.npz");
    assert_int_equal(files_write(at("cloud/summary.json"), "{\"particles\": 7}", 16, error, sizeof error), 0);
    must_refuse(read_cloud, at("cloud"), "holds 14000000 particles of 2 numbers; expected those of summary.json");
    zeros(npy_matrix(NULL, 7, 2), "x", "cloud/particles.npz");
    must_accept(read_cloud, at("cloud"));
}

/* ------------------------------------------------------------------------------------------------ weights */

static const char *store_tensors(uint64_t length, const char *header, const char *name)
{
    bytes *f = empty();
    add_number(f, length ? length : strlen(header), 8, 0);
    add_text(f, header);
    add(f, "\0\0\0\0", 4);
    return store(f, name);
}

static void weights(void **state)
{
    static char deep[60000];
    must_refuse(read_tensors, store_tensors(UINT64_MAX, "{}", "length"), "header of");
    must_refuse(read_tensors, store_tensors(99999999, "{}", "long"), "header of");
    must_refuse(read_tensors,
                store_tensors(0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[65536,65536],\"data_offsets\":[0,4]}}", "shape"),
                "more than");
    must_refuse(
        read_tensors,
        store_tensors(0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[268435456],\"data_offsets\":[0,1073741824]}}", "end"),
        "bytes are there");
    must_refuse(read_tensors,
                store_tensors(0,
                              "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,0,9],\"data_offsets\":[0,4]}}",
                              "zero"),
                "more than");
    must_refuse(
        read_tensors,
        store_tensors(0, "{\"a\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "terminal"),
        "control character");
    must_refuse(read_tensors, store_tensors(0, "{\"a\":{\"dtype\":\"\\u001b[2J\"}}", "type"), "type");
    memset(deep, '[', sizeof deep - 1);
    memcpy(deep, "{\"a\":", 5);
    must_refuse(read_tensors, store_tensors(0, deep, "deep"), "not JSON");
    must_refuse(read_json, store_tensors(0, deep, "deep.json"), "deep.json");
}

/* ------------------------------------------------------------------------------------------------ pictures */

static void add_chunk(bytes *f, const char *type, const void *data, uint32_t n, uint32_t promised)
{
    size_t start = f->n + 4;
    add_number(f, promised, 4, 1);
    add_text(f, type);
    add(f, data, n);
    add_number(f, crc32(0, f->b + start, (uInt)(f->n - start)), 4, 1);
}

static bytes *png(uint32_t columns, uint32_t rows, const char *kind)
{
    bytes *f = empty(), head = {.n = 0};
    add(f, "\x89PNG\r\n\x1a\n", 8);
    add_number(&head, columns, 4, 1);
    add_number(&head, rows, 4, 1);
    add(&head, kind, 2); /* bits, colour */
    add_number(&head, 0, 3, 1);
    add_chunk(f, "IHDR", head.b, (uint32_t)head.n, 13);
    return f;
}

static void pictures_as_png(void **state)
{
    bytes *f = png(16000, 16000, "\x08\x02");
    add_chunk(f, "IDAT", "abcd", 4, 4);
    must_refuse(read_picture, store(f, "large.png"), "too few");
    f = png(1U << 31 | 5, 7, "\x08\x02");
    must_refuse(read_picture, store(f, "huge.png"), "damaged");

    /* 2 GB of pixels, of which the header is believed without them. */
    f = png(16384, 16384, "\x01\x00");
    unsigned char *dark = calloc(16384, 2049);
    bytes all = {.n = 0};
    assert_non_null(dark);
    add_packed(&all, dark, (size_t)16384 * 2049, MAX_WBITS);
    free(dark);
    add_chunk(f, "IDAT", all.b, (uint32_t)all.n, (uint32_t)all.n);
    add_chunk(f, "IEND", "", 0, 0);
    must_accept(read_header, store(f, "dark.png"));

    f = png(4, 4, "\x08\x00");
    add_chunk(f, "iTXt", "abcd", 4, 1096026265);
    must_refuse(read_picture, store(f, "text.png"), "promises 1096026265 bytes");
    f = png(4, 4, "\x08\x00");
    add_chunk(f, "IDAT", "abcd", 4, 0x7FFFFFFF);
    must_refuse(read_picture, store(f, "data.png"), "promises 2147483647 bytes");

    /* A text that unpacks to 64 MB is passed over, as every text is. */
    static unsigned char zeros[1 << 20], packed[1 << 17];
    z_stream z = {.next_out = packed + 6, .avail_out = sizeof packed - 6};
    memcpy(packed, "title\0", 6);
    packed[6] = 0; /* its method */
    z.next_out++;
    z.avail_out--;
    assert_int_equal(deflateInit(&z, 9), Z_OK);
    for (int i = 0; i < 64; i++) {
        z.next_in = zeros;
        z.avail_in = sizeof zeros;
        (void)deflate(&z, i == 63 ? Z_FINISH : Z_NO_FLUSH);
    }
    (void)deflateEnd(&z);
    f = png(4, 4, "\x08\x00");
    uint32_t n = (uint32_t)(sizeof packed - z.avail_out);
    add_chunk(f, "zTXt", packed, n, n);
    unsigned char lines[20] = {0};
    bytes data = {.n = 0};
    add_packed(&data, lines, sizeof lines, MAX_WBITS);
    add_chunk(f, "IDAT", data.b, (uint32_t)data.n, (uint32_t)data.n);
    add_chunk(f, "IEND", "", 0, 0);
    must_accept(read_picture, store(f, "bomb.png"));
}

/* A sound picture of 8 x 8 whose header is then told another size. */
static const char *store_jpeg(int side, int progressive, const char *name)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char line[8] = {1, 2, 3}, *lines[] = {line}, *out = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &size);
    c.image_width = c.image_height = 8;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    if (progressive) jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    for (int i = 0; i < 8; i++) (void)jpeg_write_scanlines(&c, lines, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    for (unsigned long i = 0; i + 9 < size; i++)
        if (out[i] == 0xFF && (out[i + 1] == 0xC0 || out[i + 1] == 0xC2)) {
            out[i + 5] = out[i + 7] = (unsigned char)(side >> 8);
            out[i + 6] = out[i + 8] = (unsigned char)(side & 0xFF);
            break;
        }
    bytes *f = empty();
    add(f, out, size);
    free(out);
    return store(f, name);
}

static void other_pictures(void **state)
{
    must_accept(read_picture, store_jpeg(8, 0, "small.jpg"));
    must_refuse(read_picture, store_jpeg(65500, 0, "large.jpg"), "pixels; expected");
    must_refuse(read_picture, store_jpeg(16000, 1, "progressive.jpg"), "too few");
    bytes *f = empty();
    add_text(f, "P5 16000 16000 255\n");
    must_refuse(read_picture, store(f, "large.pgm"), "too few");
    f = empty();
    add_text(f, "P3 2147483647 2147483647 1\n0");
    must_refuse(read_picture, store(f, "huge.ppm"), "pixels");
    f = empty();
    add_text(f, "P2 99999999999999999999 1 1\n0");
    must_refuse(read_picture, store(f, "digits.pgm"), "header");
}

static void sets_of_pictures(void **state)
{
    bytes *f = empty(), plain = {.n = 0};
    add_number(f, 0x803, 4, 1);
    for (int i = 0; i < 3; i++) add_number(f, 1600, 4, 1);
    must_refuse(read_set, store(f, "large.idx"), "promises");
    add(&plain, f->b, f->n);
    f = empty();
    add_packed(f, plain.b, plain.n, MAX_WBITS + 16);
    must_refuse(read_set, store(f, "large.gz"), "promises");
    f = empty();
    add_number(f, 0x801, 4, 1);
    add_number(f, UINT32_MAX, 4, 1);
    must_refuse(read_labels, store(f, "labels.idx"), "promises");
    f = empty();
    add_number(f, 0x803, 4, 1);
    for (int i = 0; i < 3; i++) add_number(f, UINT32_MAX, 4, 1);
    must_refuse(read_set, store(f, "overflow.idx"), "impossible");
}

/* ------------------------------------------------------------------------------------------------ text */

static void tables(void **state)
{
    bytes *f = empty();
    add_copies(f, "1,", 65537);
    f->n = MOST > f->n ? f->n : MOST;
    must_refuse(read_csv, store(f, "wide.csv"), "columns");
    f = empty();
    add_text(f, "a\x1b[2J,b\n1,2\nx,3\n");
    must_refuse(read_points, store(f, "terminal.csv"), "not a number");
    f = empty();
    add_text(f, "\"");
    add_copies(f, "\"\"", 60000);
    must_refuse(read_csv, store(f, "quote.csv"), "never closed");
}

static void run_files(void **state)
{
    bytes *f = empty();
    add_text(f, "a: &a [1,1,1,1,1,1,1,1]\n");
    for (int c = 'b'; c <= 'z'; c++) {
        char line[64];
        int p = c - 1;
        (void)snprintf(line, sizeof line, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, p, p, p, p, p, p, p, p);
        add_text(f, line);
    }
    must_refuse(read_run_file, store(f, "laughs.yaml"), "laughs.yaml");
    f = empty();
    add_text(f, "model: ");
    add_copies(f, "[", 50000);
    must_refuse(read_run_file, store(f, "deep.yaml"), "deep.yaml");
    f = empty();
    add_text(f, "a: &a [*a]\n");
    must_refuse(read_run_file, store(f, "cycle.yaml"), "cycle.yaml");
    f = empty();
    for (int i = 0; i < 5000; i++) {
        char line[24];
        (void)snprintf(line, sizeof line, "key%d: 1\n", i);
        add_text(f, line);
    }
    must_refuse(read_run_file, store(f, "keys.yaml"), "keys");
    f = empty();
    add_text(f, "\"k\\e[2Jey\": 1\n");
    must_refuse(read_run_file, store(f, "terminal.yaml"), "terminal.yaml");
}

/* Whatever recurses must stop before the stack does. */
static void formulas_and_networks(void **state)
{
    static const char *const repeated[] = {"(", "-", "!", "2^", "1+(", "abs(", "min(x1,", "if(x1,"};
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
        bytes *f = empty();
        add_copies(f, repeated[i], (int)(60000 / strlen(repeated[i])));
        add_text(f, "x1");
        must_refuse(read_formula, store(f, "formula"), "column");
    }
    bytes *f = empty();
    add_text(f, "1x8x8");
    add_copies(f, "; dense 16384", 5000);
    must_refuse(read_network, store(f, "layers"), "layer");
    f = empty();
    add_text(f, "16777216x16777216x16777216; dense 1");
    must_refuse(read_network, store(f, "picture"), "channels");
    f = empty();
    add_text(f, "1x8x8; conv \x1b[2J");
    must_refuse(read_network, store(f, "terminal"), "clause 2");
}

/* ------------------------------------------------------------------------------------------------ checkpoints */

typedef struct {
    bytes *f;
    size_t taken;
} tape;

static int put_bytes(void *ctx, const void *p, size_t n)
{
    add(((tape *)ctx)->f, p, n);
    return 0;
}

static int get_bytes(void *ctx, void *p, size_t n)
{
    tape *t = ctx;
    if (n > t->f->n - t->taken) return -1;
    memcpy(p, t->f->b + t->taken, n);
    t->taken += n;
    return 0;
}

static sosmc *engine(void)
{
    static const double means[] = {-1, 0, 1, 0.5};
    static const sosmc_mixture mixture = {.dim = 2, .components = 2, .means = means, .variance = 0.6};
    sosmc_problem p = {
        .model = sosmc_mixture_model(&mixture), .objective = sosmc_mmle(), .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    cfg.scheme = sosmc_scheme_pcd(5, 9, 2);
    cfg.scheme.pool_rule = SOSMC_POOL_NEWEST;
    if (sosmc_create(&s, &p, &cfg)) fail_msg("%s", sosmc_message(s));
    return s;
}

/* The sums of the format: of the header, 280 bytes, and of all but the last word. */
static void sign(bytes *f)
{
    size_t ends[] = {280, f->n - 8};
    for (int k = 0; k < 2; k++) {
        uint64_t hash = 0x736f736d63000001u, word;
        for (size_t i = 0; i < ends[k]; i += 8) {
            memcpy(&word, f->b + i, 8);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        }
        memcpy(f->b + ends[k], &hash, 8);
    }
}

/* Whole checkpoints of this very run, signed, with one word changed: counts that lead outside of the pool, values that no
 * run saves. Words: 36 of the header, 19 of the info, then iteration, updates, averaged, h, ... */
static void checkpoints(void **state)
{
    enum { INFO = 36, COLLAPSED = INFO + 18, MOBILITY, ITERATION, UPDATES, AVERAGED, STEP, RATE };
    const double nan = NAN, negative = -1, many = 4, huge = 1e300;
    const int64_t below = -1000, most = INT64_MAX;
    const struct {
        int word;
        const void *value;
    } lies[] = {{ITERATION, &below}, {ITERATION, &most},     {UPDATES, &below}, {UPDATES, &most},
                {AVERAGED, &below},  {STEP, &nan},           {STEP, &negative}, {RATE, &nan},
                {RATE + 10, &nan},   {COLLAPSED, &negative}, {COLLAPSED, &many}};
    bytes *f = empty();
    sosmc *s = engine();
    tape saved = {.f = f};
    assert_int_equal(sosmc_run(s, 3, NULL, NULL), SOSMC_OK);
    assert_int_equal(sosmc_save(s, put_bytes, &saved), SOSMC_OK);
    uint64_t before = sosmc_hash(s);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        static bytes lie;
        lie = *f;
        memcpy(lie.b + 8 * lies[i].word, lies[i].value, 8);
        sign(&lie);
        tape told = {.f = &lie};
        sosmc_status status = sosmc_load(s, get_bytes, &told);
        if (status != SOSMC_EIO || !strstr(sosmc_message(s), "damaged"))
            fail_msg("lie %d: %s (%s)", (int)i, sosmc_status_name(status), sosmc_message(s));
        assert_true(sosmc_hash(s) == before);
    }
    memcpy(f->b + 8 * (INFO + 14), &huge,
           8); /* a count of the last iteration's info: harmless, and no number of that size */
    sign(f);
    tape told = {.f = f};
    assert_int_equal(sosmc_load(s, get_bytes, &told), SOSMC_OK);
    assert_int_equal(sosmc_last(s)->nonfinite, 0);
    assert_int_equal(sosmc_run(s, 3, NULL, NULL), SOSMC_OK);
    sosmc_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays),
        cmocka_unit_test(archives_of_arrays),
        cmocka_unit_test(archives_of_zeros),
        cmocka_unit_test(weights),
        cmocka_unit_test(pictures_as_png),
        cmocka_unit_test(other_pictures),
        cmocka_unit_test(sets_of_pictures),
        cmocka_unit_test(tables),
        cmocka_unit_test(run_files),
        cmocka_unit_test(formulas_and_networks),
        cmocka_unit_test(checkpoints),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
