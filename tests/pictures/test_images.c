/* test_images.c: pictures come back as they were written, in every kind that is read; what is no picture is refused in
 * a sentence that names the file.
 *
 * Files are made here by libpng and libjpeg themselves, or byte by byte. Damaged ones are made by the hundred: every
 * truncation, and bytes at random. None may crash (the sanitizers watch). */
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
#include <zlib.h>

#include <jpeglib.h>
#include <png.h>

#include "files/files.h"
#include "pictures/images.h"
#include "scratch.h"

static void assert_names(const char *name, const char *part)
{
    if (!strstr(sentence, at(name))) fail_msg("\"%s\" does not name %s", sentence, at(name));
    assert_says(part);
}

static void assert_refused(const char *name, const char *part)
{
    image im = {.rows = 7};
    sentence[0] = 0;
    assert_int_equal(image_read(at(name), &im, ERROR), -1);
    assert_null(im.pixel);
    assert_names(name, part);
}

static image read_image(const char *name)
{
    image im = {0};
    if (image_read(at(name), &im, ERROR)) fail_msg("%s", sentence);
    return im;
}

/* Numbers without a pattern, the same in every run. */
static unsigned noise(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

/* ---------------------------------------------------------------------------- PNG by libpng */

enum { WIDE = 13, HIGH = 11, MOST_ROW = WIDE * 8 };
typedef struct {
    int kind, bits, interlace, transparent; /* tRNS of grey and palette files */
    unsigned char row[HIGH][MOST_ROW];
} png_plan;

static const png_color colours[4] = {{10, 20, 30}, {200, 100, 50}, {0, 255, 0}, {255, 255, 255}};
static const png_byte opacities[2] = {0, 51}; /* of the first two colours */

static int samples_of(int kind)
{
    return kind == PNG_COLOR_TYPE_RGB          ? 3
           : kind == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
           : kind == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                               : 1;
}

static void make_png(const char *name, png_plan *p)
{
    uint32_t state = 5;
    FILE *f = fopen(at(name), "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_non_null(f);
    for (int r = 0; r < HIGH; r++)
        for (int i = 0; i < MOST_ROW; i++) p->row[r][i] = (unsigned char)(noise(&state) & 0xFF);
    png_init_io(png, f);
    png_set_IHDR(png, info, WIDE, HIGH, p->bits, p->kind, p->interlace ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color_16 grey = {.gray = 1};
    if (p->kind == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, colours, 4);
    if (p->transparent) png_set_tRNS(png, info, p->kind == PNG_COLOR_TYPE_PALETTE ? opacities : NULL, 2, &grey);
    png_write_info(png, info);
    png_bytep rows[HIGH];
    for (int r = 0; r < HIGH; r++) rows[r] = p->row[r];
    png_write_image(png, rows);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(f), 0);
}

/* Sample i of a line, unpacked by hand. */
static unsigned raw_sample(const png_plan *p, int r, int i)
{
    const unsigned char *row = p->row[r];
    if (p->bits == 16) return row[2 * i] * 256U + row[2 * i + 1];
    int bit = i * p->bits;
    return (unsigned)row[bit / 8] >> (8 - p->bits - bit % 8) & ((1U << p->bits) - 1);
}

static double expected_pixel(const png_plan *p, int k, int r, int c)
{
    int samples = samples_of(p->kind), colour = p->kind & PNG_COLOR_MASK_COLOR;
    double most = (double)((1U << p->bits) - 1), opaque = 1;
    if (p->kind == PNG_COLOR_TYPE_PALETTE) {
        unsigned i = raw_sample(p, r, c);
        if (p->transparent && i < 2) opaque = opacities[i] / 255.0;
        const png_byte value[3] = {colours[i].red, colours[i].green, colours[i].blue};
        return opaque * value[k] + (1 - opaque) * 255;
    }
    unsigned value = raw_sample(p, r, c * samples + (colour ? k : 0));
    if (p->kind & PNG_COLOR_MASK_ALPHA) opaque = raw_sample(p, r, c * samples + samples - 1) / most;
    if (p->transparent && value == 1) opaque = 0;
    return opaque * value * 255 / most + (1 - opaque) * 255;
}

static void every_kind_of_png_is_read(void **state)
{
    static const struct {
        int kind, bits, transparent;
    } kinds[] = {
        {PNG_COLOR_TYPE_GRAY, 1, 0},       {PNG_COLOR_TYPE_GRAY, 2, 0},        {PNG_COLOR_TYPE_GRAY, 4, 0},
        {PNG_COLOR_TYPE_GRAY, 8, 0},       {PNG_COLOR_TYPE_GRAY, 16, 0},       {PNG_COLOR_TYPE_GRAY, 2, 1},
        {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0}, {PNG_COLOR_TYPE_RGB, 8, 0},
        {PNG_COLOR_TYPE_RGB, 16, 0},       {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0},   {PNG_COLOR_TYPE_RGB_ALPHA, 16, 0},
        {PNG_COLOR_TYPE_PALETTE, 2, 0},    {PNG_COLOR_TYPE_PALETTE, 2, 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int interlace = 0; interlace < 2; interlace++) {
            png_plan p = {.kind = kinds[i].kind,
                          .bits = kinds[i].bits,
                          .transparent = kinds[i].transparent,
                          .interlace = interlace};
            make_png("kind.png", &p);
            image im = read_image("kind.png");
            assert_int_equal(im.rows, HIGH);
            assert_int_equal(im.columns, WIDE);
            assert_int_equal(im.channels, (p.kind & PNG_COLOR_MASK_COLOR) ? 3 : 1);
            assert_int_equal(im.bits, p.bits == 16 ? 16 : 8);
            assert_int_equal(im.alpha, p.transparent || p.kind & PNG_COLOR_MASK_ALPHA);
            for (int k = 0; k < im.channels; k++)
                for (int r = 0; r < HIGH; r++)
                    for (int c = 0; c < WIDE; c++) {
                        double v = im.pixel[(k * HIGH + r) * WIDE + c], e = expected_pixel(&p, k, r, c);
                        if (!(fabs(v - e) < 1e-9))
                            fail_msg("kind %d, %d bits, channel %d, line %d, column %d: %g instead of %g", p.kind,
                                     p.bits, k, r, c, v, e);
                    }
            image_free(&im);
        }
}

static void pictures_are_written_and_come_back(void **state)
{
    enum { N = 3 * 17 * 29 };
    static double pixel[N];
    for (int channels = 1; channels <= 3; channels += 2)
        for (int bits = 8; bits <= 16; bits += 8) {
            uint32_t seed = 9;
            for (int i = 0; i < N; i++) pixel[i] = bits == 16 ? noise(&seed) / 257.0 : noise(&seed) & 0xFF;
            image im = {.channels = channels, .rows = 17, .columns = 29, .pixel = pixel};
            assert_int_equal(image_write(at("round.png"), &im, bits, 0, 255, ERROR), 0);
            assert_int_not_equal(access(at("round.png.tmp"), F_OK), 0);
            image back = read_image("round.png");
            assert_int_equal(back.channels, channels);
            assert_int_equal(back.rows, 17);
            assert_int_equal(back.columns, 29);
            assert_int_equal(back.bits, bits);
            assert_int_equal(back.alpha, 0);
            for (int i = 0; i < channels * 17 * 29; i++) assert_true(back.pixel[i] == pixel[i]);
            image_free(&back);
        }
}

static void values_are_scaled_and_clipped(void **state)
{
    double pixel[] = {-1, 1, 0, -7, INFINITY, NAN, 0.5, -INFINITY};
    const double expected[] = {0, 255, 128, 0, 255, 0, 191, 0};
    image im = {.channels = 1, .rows = 2, .columns = 4, .pixel = pixel};
    assert_int_equal(image_write(at("scale.png"), &im, 8, -1, 1, ERROR), 0);
    image back = read_image("scale.png");
    for (int i = 0; i < 8; i++) assert_true(back.pixel[i] == expected[i]);
    image_free(&back);
    assert_int_equal(image_write(at("scale.png"), &im, 8, 1, 1, ERROR), -1);
    assert_names("scale.png", "low < high");
    assert_int_equal(image_write(at("scale.png"), &im, 12, 0, 1, ERROR), -1);
    assert_names("scale.png", "bits is 12");
    im.channels = 2;
    assert_int_equal(image_write(at("scale.png"), &im, 8, 0, 1, ERROR), -1);
    assert_names("scale.png", "no picture");
    im.channels = 1;
    assert_int_equal(image_write(at("absent/scale.png"), &im, 8, 0, 1, ERROR), -1);
    assert_names("absent/scale.png", "cannot create");
}

/* ---------------------------------------------------------------------------- JPEG by libjpeg */

enum { JPEG_WIDE = 24, JPEG_HIGH = 16 };

/* A picture in blocks of 8 x 8, which JPEG keeps almost as they are: block b has the value 40 * b. */
static int block_value(int r, int c) { return 40 * (r / 8 * 3 + c / 8); }

/* channels: 1, 3 or 4; exif: what stands in the marker, or NULL. */
static void make_jpeg(const char *name, int channels, int progressive, const unsigned char *exif, unsigned n)
{
    struct jpeg_compress_struct jpeg = {0};
    struct jpeg_error_mgr errors;
    unsigned char line[JPEG_WIDE * 4], *lines = line;
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, f);
    jpeg.image_width = JPEG_WIDE;
    jpeg.image_height = JPEG_HIGH;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    for (int i = 0; i < jpeg.num_components; i++) /* colours as sharp as grey */
        jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
    if (progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    if (exif) jpeg_write_marker(&jpeg, JPEG_APP0 + 1, exif, n);
    for (int r = 0; r < JPEG_HIGH; r++) {
        for (int c = 0; c < JPEG_WIDE; c++)
            for (int k = 0; k < channels; k++)
                line[c * channels + k] = (unsigned char)(k == 0   ? block_value(r, c)
                                                         : k == 1 ? 255 - block_value(r, c)
                                                                  : 90);
        (void)jpeg_write_scanlines(&jpeg, &lines, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(f), 0);
}

static void jpegs_are_read(void **state)
{
    for (int channels = 1; channels <= 3; channels += 2)
        for (int progressive = 0; progressive < 2; progressive++) {
            make_jpeg("a.jpg", channels, progressive, NULL, 0);
            image im = read_image("a.jpg");
            assert_int_equal(im.channels, channels);
            assert_int_equal(im.rows, JPEG_HIGH);
            assert_int_equal(im.columns, JPEG_WIDE);
            assert_int_equal(im.bits, 8);
            for (int k = 0; k < channels; k++)
                for (int r = 0; r < JPEG_HIGH; r++)
                    for (int c = 0; c < JPEG_WIDE; c++) {
                        double v = im.pixel[(k * JPEG_HIGH + r) * JPEG_WIDE + c], block = block_value(r, c);
                        assert_true(fabs(v - (k == 0 ? block : k == 1 ? 255 - block : 90)) < 3);
                    }
            image_free(&im);
        }
    make_jpeg("print.jpg", 4, 0, NULL, 0);
    assert_refused("print.jpg", "CMYK");
}

/* A marker with two entries, the orientation second. */
static unsigned make_exif(unsigned char out[64], int orientation, int big)
{
    static const unsigned char little_head[] = "Exif\0\0II\x2A\0\x08\0\0\0", big_head[] = "Exif\0\0MM\0\x2A\0\0\0\x08";
    const unsigned entry[2][4] = {{0x010F, 2, 4, 0}, {0x0112, 3, 1, (unsigned)orientation}};
    unsigned n = 14;
    memcpy(out, big ? big_head : little_head, n);
    out[n++] = big ? 0 : 2;
    out[n++] = big ? 2 : 0;
    for (int e = 0; e < 2; e++)
        for (int field = 0; field < 4; field++) {
            int bytes = field < 2 || (field == 3 && e == 1) ? 2 : 4;
            for (int i = 0; i < bytes; i++)
                out[n++] = (unsigned char)(entry[e][field] >> (8 * (big ? bytes - 1 - i : i)));
            if (field == 3 && e == 1) n += 2;
        }
    return n;
}

/* The corners of the file's picture are blocks 0 (top left), 2 (top right), 3 and 5 below them. Where they must appear
 * is what the standard says of line 0 and column 0: 1 top left, 2 top right, 3 bottom right, 4 bottom left, 5 left top,
 * 6 right top, 7 right bottom, 8 left bottom. */
static void jpegs_are_turned(void **state)
{
    static const int corners[9][4] = {{0, 2, 3, 5}, {0, 2, 3, 5}, {2, 0, 5, 3}, {5, 3, 2, 0}, {3, 5, 0, 2},
                                      {0, 3, 2, 5}, {3, 0, 5, 2}, {5, 2, 3, 0}, {2, 5, 0, 3}};
    unsigned char exif[64] = {0};
    for (int orientation = 0; orientation <= 9; orientation++)
        for (int big = 0; big < 2; big++) {
            unsigned n = make_exif(exif, orientation, big);
            make_jpeg("turned.jpg", 3, 0, exif, n);
            image im = read_image("turned.jpg");
            int o = orientation <= 8 ? orientation : 0, swapped = o >= 5; /* 0 and 9 mean nothing: upright */
            assert_int_equal(im.rows, swapped ? JPEG_WIDE : JPEG_HIGH);
            assert_int_equal(im.columns, swapped ? JPEG_HIGH : JPEG_WIDE);
            for (int k = 0; k < 4; k++) {
                int r = k / 2 ? im.rows - 1 : 0, c = k % 2 ? im.columns - 1 : 0;
                double v = im.pixel[r * im.columns + c];
                if (!(fabs(v - 40 * corners[o][k]) < 3)) fail_msg("orientation %d, corner %d: %g", o, k, v);
            }
            image_free(&im);
        }
}

static void damaged_exif_is_passed_over(void **state)
{
    unsigned char exif[64] = {0};
    unsigned n = make_exif(exif, 6, 0);
    for (unsigned cut = 0; cut < n; cut++) {
        make_jpeg("cut.jpg", 1, 0, exif, cut);
        image im = read_image("cut.jpg");
        if (cut + 4 < n) assert_int_equal(im.rows, JPEG_HIGH);
        image_free(&im);
    }
    for (unsigned i = 6; i < n; i++) {
        unsigned char was = exif[i];
        exif[i] = 0xFF;
        make_jpeg("odd.jpg", 1, 0, exif, n);
        exif[i] = was;
        image im = read_image("odd.jpg");
        image_free(&im);
    }
}

/* ---------------------------------------------------------------------------- PGM and PPM */

static void check_pnm(const void *bytes, size_t n, int channels, int bits, const double *expected)
{
    write_raw("a.pnm", bytes, n);
    image im = read_image("a.pnm");
    assert_int_equal(im.channels, channels);
    assert_int_equal(im.bits, bits);
    assert_int_equal(im.rows, 1);
    assert_int_equal(im.columns, 2);
    for (int i = 0; i < 2 * channels; i++) assert_true(fabs(im.pixel[i] - expected[i]) < 1e-12);
    image_free(&im);
}

static void plain_formats_are_read(void **state)
{
    const double grey[] = {0, 255}, wide[] = {1, 255}, planes[] = {1, 4, 2, 5, 3, 6};
#define PNM(text, ...) check_pnm(text, sizeof(text) - 1, __VA_ARGS__)
    PNM("P2\n# made by hand\n2 1\n# most\n7\n0 7\n", 1, 8, grey);
    PNM("P2 2 1 7#7\n0 7", 1, 8, grey);
    PNM("P3 2 1 255 1 2 3\n4 5 6", 3, 8, planes);
    PNM("P5 2 1 255\n\x00\xFF", 1, 8, grey);
    PNM("P5 2 1 255#x\n\x00\xFFtrailing", 1, 8, grey);
    PNM("P5 2 1 65535\n\x01\x01\xFF\xFF", 1, 16, wide);
    PNM("P6\t2\t1\t255\n\1\2\3\4\5\6", 3, 8, planes);
#undef PNM
}

static void plain_formats_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } wrong[] = {{"P5 2 2 255\nabc", "too few"},
                 {"P2 2 1 7 0 8\n", "above the 7"},
                 {"P2 2 1 7 0 x ", "no number"},
                 {"P2 2 1 7 0#....", "missing"},
                 {"P5 2 1 9\na\n", "above"},
                 {"P5 2 1 0\nab", "largest sample"},
                 {"P5 2 1 65536\nabcd", "largest sample"},
                 {"P5 2 1 255xab", "largest sample"},
                 {"P5 -2 1 255\nab", "columns"},
                 {"P5 0 1 255\nab", "at least one"},
                 {"P5 99999999999999999999 1 255\nab", "columns"},
                 {"P5 2147483647 2147483647 255\nab", "at most 268435456"},
                 {"P5 16384 16385 255\nab", "at most 268435456"},
                 {"P4 8 1\na", "P4"},
                 {"P7\nWIDTH 1", "P7"},
                 {"P9 what", "expected PNG, JPEG, PGM or PPM"},
                 {"GIF89a....", "expected PNG, JPEG, PGM or PPM"},
                 {"", "expected PNG, JPEG, PGM or PPM"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_raw("wrong.pgm", wrong[i].text, strlen(wrong[i].text));
        assert_refused("wrong.pgm", wrong[i].part);
    }
    assert_refused("absent.png", "cannot open");
    assert_refused(".", "regular file");
}

/* ---------------------------------------------------------------------------- damage */

/* Every beginning of the file is refused; files with random bytes in them may be read or refused. */
static void damage(const char *name, const char *damaged)
{
    char *bytes = NULL;
    size_t size = 0;
    uint32_t seed = 3;
    assert_int_equal(files_read(at(name), 1 << 20, &bytes, &size, ERROR), 0);
    for (size_t n = 0; n < size; n++) {
        write_raw(damaged, bytes, n);
        assert_refused(damaged, n < 8 ? "" : "damaged");
    }
    for (int i = 0; i < 400; i++) {
        size_t where = (noise(&seed) * 65536UL + noise(&seed)) % (size ? size : 1);
        char was = bytes[where];
        bytes[where] = (char)noise(&seed);
        write_raw(damaged, bytes, size);
        bytes[where] = was;
        image im = {0};
        sentence[0] = 0;
        if (image_read(at(damaged), &im, ERROR))
            assert_names(damaged, "");
        else
            assert_non_null(im.pixel);
        image_free(&im);
    }
    free(bytes);
}

static void damaged_pictures_are_refused(void **state)
{
    png_plan p = {.kind = PNG_COLOR_TYPE_PALETTE, .bits = 2, .transparent = 1, .interlace = 1};
    make_png("whole.png", &p);
    damage("whole.png", "damaged.png");
    make_jpeg("whole.jpg", 3, 0, NULL, 0);
    damage("whole.jpg", "damaged.jpg");
    make_jpeg("whole.jpg", 1, 1, NULL, 0);
    damage("whole.jpg", "damaged.jpg");
}

/* A PNG header that promises more than the file can hold; its checksum is right. */
static void large_promises_are_refused(void **state)
{
    static const struct {
        uint32_t columns, rows;
        const char *part;
    } sizes[] = {
        {16384, 16384, "too few"}, {16384, 16385, "at most 268435456"}, {0x7FFFFFFF, 1, "damaged"}, {0, 5, "damaged"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char png[] = "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR........\x08\0\0\0\0CRC.\0\0\0\1IDATx....";
        for (int b = 0; b < 4; b++) {
            png[16 + b] = (unsigned char)(sizes[i].columns >> (24 - 8 * b));
            png[20 + b] = (unsigned char)(sizes[i].rows >> (24 - 8 * b));
        }
        uint32_t crc = (uint32_t)crc32(0, png + 12, 17);
        for (int b = 0; b < 4; b++) png[29 + b] = (unsigned char)(crc >> (24 - 8 * b));
        write_raw("large.png", png, sizeof png - 1);
        assert_refused("large.png", sizes[i].part);
    }
    make_jpeg("large.jpg", 1, 0, NULL, 0);
    char *bytes = NULL;
    size_t size = 0;
    assert_int_equal(files_read(at("large.jpg"), 1 << 20, &bytes, &size, ERROR), 0);
    for (size_t j = 2; j + 9 < size; j++)
        if ((unsigned char)bytes[j] == 0xFF && (unsigned char)bytes[j + 1] == 0xC0) {
            bytes[j + 5] = bytes[j + 7] = 0x3F; /* 16000 and some squared */
            break;
        }
    write_raw("large.jpg", bytes, size);
    free(bytes);
    assert_refused("large.jpg", "too few");
}

/* ---------------------------------------------------------------------------- grids */

/* Five pictures of 2 x 3 in two columns, doubled, lines of 1, a gap of 4 below the first row of places. */
static void pictures_stand_in_a_grid(void **state)
{
    enum { N = 5, R = 2, C = 3, M = 2, GAP = 4 };
    double value[N * R * C];
    static const int gap_after[] = {0};
    image_grid grid = {.columns = 2,
                       .magnify = M,
                       .line = 1,
                       .gap = GAP,
                       .shade = 77,
                       .gap_after = gap_after,
                       .gaps = 1,
                       .low = -1,
                       .high = 1};
    for (int i = 0; i < N * R * C; i++) value[i] = i / 127.5 - 1; /* the byte i */
    assert_int_equal(image_grid_write(at("grid.png"), value, N, 1, R, C, &grid, ERROR), 0);
    image im = read_image("grid.png");
    assert_int_equal(im.channels, 1);
    assert_int_equal(im.rows, 1 + 3 * (R * M + 1) + GAP);
    assert_int_equal(im.columns, 1 + 2 * (C * M + 1));
    int seen = 0;
    for (int r = 0; r < im.rows; r++)
        for (int c = 0; c < im.columns; c++) {
            int top = r < R * M + 2 ? r : r - GAP, expected = 77;
            int row = top / (R * M + 1), column = c / (C * M + 1), i = row * 2 + column;
            int y = top % (R * M + 1) - 1, x = c % (C * M + 1) - 1;
            int in_gap = r >= R * M + 2 && r < R * M + 2 + GAP;
            if (y >= 0 && x >= 0 && i < N && !in_gap) expected = (i * R + y / M) * C + x / M, seen++;
            assert_true(im.pixel[r * im.columns + c] == expected);
        }
    assert_int_equal(seen, N * R * C * M * M);
    image_free(&im);
    grid.magnify = 1 << 20;
    assert_int_equal(image_grid_write(at("grid.png"), value, N, 1, R, C, &grid, ERROR), -1);
    assert_names("grid.png", "at most 268435456");
    grid.magnify = 0;
    assert_int_equal(image_grid_write(at("grid.png"), value, N, 1, R, C, &grid, ERROR), -1);
    assert_names("grid.png", "magnification");
}

static void a_grid_may_have_colours(void **state)
{
    const double value[] = {0, 1, 2, 3, 4, 5}; /* two pictures of one pixel */
    image_grid grid = {.columns = 2, .magnify = 1, .low = 0, .high = 255};
    assert_int_equal(image_grid_write(at("colour.png"), value, 2, 3, 1, 1, &grid, ERROR), 0);
    image im = read_image("colour.png");
    assert_int_equal(im.channels, 3);
    const double planes[] = {0, 3, 1, 4, 2, 5};
    for (int i = 0; i < 6; i++) assert_true(im.pixel[i] == planes[i]);
    image_free(&im);
}

/* ---------------------------------------------------------------------------- sets: IDX */

static void write_gz(const char *name, const void *bytes, unsigned n)
{
    gzFile f = gzopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, n), n);
    assert_int_equal(gzclose(f), Z_OK);
}

static void assert_set_refused(const char *name, const char *part)
{
    image_set set = {.count = 3};
    sentence[0] = 0;
    assert_int_equal(images_read(at(name), &set, ERROR), -1);
    assert_null(set.bytes);
    assert_null(set.values);
    assert_names(name, part);
}

static const unsigned char idx[] = "\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\3"
                                   "\x00\xFF\x02\x03\x04\x05\x80\x81\x82\x83\x84\x85";
static const unsigned char idx_labels[] = "\0\0\x08\x01\0\0\0\3\7\0\x09";
enum { IDX = sizeof idx - 1, LABELS = sizeof idx_labels - 1 };

static void idx_files_are_read(void **state)
{
    write_raw("a.idx", idx, IDX);
    write_gz("a.idx.gz", idx, IDX);
    for (int packed = 0; packed < 2; packed++) {
        image_set set;
        double x[6];
        if (images_read(at(packed ? "a.idx.gz" : "a.idx"), &set, ERROR)) fail_msg("%s", sentence);
        assert_int_equal(set.count, 2);
        assert_int_equal(set.channels, 1);
        assert_int_equal(set.rows, 2);
        assert_int_equal(set.columns, 3);
        assert_null(set.values);
        assert_memory_equal(set.bytes, idx + 16, 12);
        images_copy(&set, 0, x);
        assert_true(x[0] == -1 && x[1] == 1 && x[2] == 2 / 127.5 - 1);
        images_copy(&set, 1, x);
        assert_true(x[0] == 128 / 127.5 - 1);
        images_free(&set);
        assert_null(set.bytes);
    }
    write_raw("labels", idx_labels, LABELS);
    write_gz("labels.gz", idx_labels, LABELS);
    for (int packed = 0; packed < 2; packed++) {
        unsigned char *label = NULL;
        int64_t count = 0;
        if (idx_labels_read(at(packed ? "labels.gz" : "labels"), &label, &count, ERROR)) fail_msg("%s", sentence);
        assert_int_equal(count, 3);
        assert_memory_equal(label, idx_labels + 8, 3);
        free(label);
    }
}

static void idx_files_are_refused(void **state)
{
    unsigned char *label = NULL, bad[IDX + 1];
    int64_t count = 0;
    write_raw("labels", idx_labels, LABELS);
    assert_set_refused("labels", "begins with 0x00000801");
    write_raw("a.idx", idx, IDX);
    assert_int_equal(idx_labels_read(at("a.idx"), &label, &count, ERROR), -1);
    assert_names("a.idx", "begins with 0x00000803");
    assert_null(label);
    for (size_t n = 2; n < IDX; n++) {
        write_raw("cut.idx", idx, n);
        assert_set_refused("cut.idx", n < 4 ? "begins with" : "damaged");
        write_gz("cut.gz", idx, (unsigned)n);
        assert_set_refused("cut.gz", n < 4 ? "begins with" : "damaged");
    }
    memcpy(bad, idx, IDX);
    bad[IDX] = 0;
    write_raw("long.idx", bad, IDX + 1);
    assert_set_refused("long.idx", "damaged");
    write_gz("long.gz", bad, IDX + 1);
    assert_set_refused("long.gz", "more");
    for (int d = 0; d < 3; d++) /* none of these may lead to an allocation */
        for (int packed = 0; packed < 2; packed++) {
            memcpy(bad, idx, IDX);
            bad[4 + 4 * d] = 0x7F;
            if (packed)
                write_gz("huge", bad, IDX);
            else
                write_raw("huge", bad, IDX);
            assert_set_refused("huge", d == 0 && packed ? "impossible shape" : "");
        }
    memcpy(bad, idx, IDX);
    bad[7] = 0;
    write_raw("none.idx", bad, 16);
    assert_set_refused("none.idx", "at least 1");
}

static void damaged_gzip_is_refused(void **state)
{
    char *bytes = NULL;
    size_t size = 0;
    write_gz("whole.gz", idx, IDX);
    assert_int_equal(files_read(at("whole.gz"), 1 << 20, &bytes, &size, ERROR), 0);
    for (size_t n = 2; n < size; n++) {
        write_raw("part.gz", bytes, n);
        assert_set_refused("part.gz", "");
    }
    bytes[size - 6] ^= 1; /* the checksum */
    write_raw("part.gz", bytes, size);
    assert_set_refused("part.gz", "damaged");
    free(bytes);
}

/* ---------------------------------------------------------------------------- sets: NPY */

static void write_npy(const char *name, npy_type type, const void *data, int dims, int64_t a, int64_t b, int64_t c,
                      int64_t d)
{
    npy_array array = {.type = type, .dims = dims, .shape = {a, b, c, d}, .data = data};
    assert_int_equal(npy_write(at(name), &array, ERROR), 0);
}

static void check_npy(const char *name, int64_t count, int channels, int rows, int columns)
{
    image_set set;
    if (images_read(at(name), &set, ERROR)) fail_msg("%s", sentence);
    assert_int_equal(set.count, count);
    assert_int_equal(set.channels, channels);
    assert_int_equal(set.rows, rows);
    assert_int_equal(set.columns, columns);
    double *x = malloc(sizeof *x * (size_t)(channels * rows * columns));
    assert_non_null(x);
    images_copy(&set, count - 1, x); /* the last number is 1 in all that are written below */
    assert_true(x[channels * rows * columns - 1] == 1);
    free(x);
    images_free(&set);
}

static void arrays_are_read(void **state)
{
    unsigned char bytes[24] = {0};
    float floats[24] = {-1, 0.5F};
    double doubles[24] = {0};
    bytes[23] = 255;
    floats[23] = 1;
    doubles[23] = 1;
    write_npy("a.npy", NPY_U8, bytes, 3, 2, 3, 4, 0);
    check_npy("a.npy", 2, 1, 3, 4);
    write_npy("a.npy", NPY_F32, floats, 4, 2, 3, 2, 2);
    check_npy("a.npy", 2, 3, 2, 2);
    write_npy("a.npy", NPY_F64, doubles, 4, 2, 1, 3, 4);
    check_npy("a.npy", 2, 1, 3, 4);
    write_npy("a.npy", NPY_F64, doubles, 2, 6, 4, 0, 0);
    check_npy("a.npy", 6, 1, 2, 2);
}

static void arrays_are_refused(void **state)
{
    double doubles[24] = {0};
    int64_t whole[24] = {0};
    write_npy("b.npy", NPY_F64, doubles, 2, 4, 6, 0, 0);
    assert_set_refused("b.npy", "shape 4,6; expected N,H,W");
    write_npy("b.npy", NPY_F64, doubles, 1, 24, 0, 0, 0);
    assert_set_refused("b.npy", "shape 24; expected N,H,W");
    write_npy("b.npy", NPY_F64, doubles, 0, 0, 0, 0, 0);
    assert_set_refused("b.npy", "single number");
    write_npy("b.npy", NPY_F64, doubles, 4, 2, 2, 2, 3);
    assert_set_refused("b.npy", "shape 2,2,2,3; expected N,H,W");
    write_npy("b.npy", NPY_F64, doubles, 3, 0, 2, 2, 0);
    assert_set_refused("b.npy", "shape 0,2,2");
    write_npy("b.npy", NPY_F64, doubles, 2, 0, INT64_MAX, 0, 0);
    assert_set_refused("b.npy", "shape 0,");
    write_npy("b.npy", NPY_I64, whole, 3, 2, 3, 4, 0);
    assert_set_refused("b.npy", "int64");
    doubles[5] = 1.5;
    doubles[6] = -3;
    write_npy("b.npy", NPY_F64, doubles, 3, 2, 3, 4, 0);
    assert_set_refused("b.npy", "from -3 to 1.5");
    doubles[7] = NAN;
    write_npy("b.npy", NPY_F64, doubles, 3, 2, 3, 4, 0);
    assert_set_refused("b.npy", "number 8");
    write_raw("b.npy", "nonsense", 8);
    assert_set_refused("b.npy", "expected an IDX file");
    assert_set_refused("absent", "cannot open");
}

/* ---------------------------------------------------------------------------- sets: folders */

static void write_flat(const char *name, int channels, int rows, int columns, int bits, double value)
{
    double pixel[64];
    for (int i = 0; i < 64; i++) pixel[i] = value;
    image im = {.channels = channels, .rows = rows, .columns = columns, .pixel = pixel};
    assert_int_equal(image_write(at(name), &im, bits, 0, 255, ERROR), 0);
}

static void folders_are_read_in_order(void **state)
{
    image_set set;
    double x[12];
    assert_int_equal(mkdir(at("set"), 0777), 0);
    assert_set_refused("set", "no pictures");
    write_flat("set/b.png", 3, 2, 2, 8, 20);
    write_flat("set/a.PNG", 3, 2, 2, 8, 10);
    write_raw("set/c.ppm", "P3 2 2 255 30 30 30 30 30 30 30 30 30 30 30 30", 46);
    write_raw("set/README.txt", "not a picture", 13);
    write_raw("set/.png", "a name without an ending", 24);
    if (images_read(at("set"), &set, ERROR)) fail_msg("%s", sentence);
    assert_int_equal(set.count, 3);
    assert_int_equal(set.channels, 3);
    for (int i = 0; i < 36; i++) assert_int_equal(set.bytes[i], 10 * (i / 12 + 1));
    images_copy(&set, 2, x);
    assert_true(x[11] == 30 / 127.5 - 1);
    images_free(&set);
    static const struct {
        int channels, rows, columns, bits;
    } others[] = {{3, 3, 2, 8}, {3, 2, 3, 8}, {1, 2, 2, 8}, {3, 2, 2, 16}};
    for (int i = 0; i < 4; i++) {
        write_flat("set/z.png", others[i].channels, others[i].rows, others[i].columns, others[i].bits, 0);
        assert_set_refused("set", "expected 2 x 2, 3 and 8 as in a.PNG");
        assert_names("set/z.png", "has ");
    }
    write_raw("set/z.png", "what", 4);
    assert_set_refused("set", "expected PNG");
}

static void deep_pictures_keep_their_bits(void **state)
{
    image_set set;
    assert_int_equal(mkdir(at("deep"), 0777), 0);
    write_flat("deep/a.png", 1, 2, 2, 16, 1 / 257.0);
    write_flat("deep/b.png", 1, 2, 2, 16, 255);
    if (images_read(at("deep"), &set, ERROR)) fail_msg("%s", sentence);
    assert_null(set.bytes);
    assert_true(fabs(set.values[0] - (2 / 65535.0 - 1)) < 1e-15);
    assert_true(set.values[7] == 1);
    images_free(&set);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_png_is_read),
        cmocka_unit_test(pictures_are_written_and_come_back),
        cmocka_unit_test(values_are_scaled_and_clipped),
        cmocka_unit_test(jpegs_are_read),
        cmocka_unit_test(jpegs_are_turned),
        cmocka_unit_test(damaged_exif_is_passed_over),
        cmocka_unit_test(plain_formats_are_read),
        cmocka_unit_test(plain_formats_are_refused),
        cmocka_unit_test(damaged_pictures_are_refused),
        cmocka_unit_test(large_promises_are_refused),
        cmocka_unit_test(pictures_stand_in_a_grid),
        cmocka_unit_test(a_grid_may_have_colours),
        cmocka_unit_test(idx_files_are_read),
        cmocka_unit_test(idx_files_are_refused),
        cmocka_unit_test(damaged_gzip_is_refused),
        cmocka_unit_test(arrays_are_read),
        cmocka_unit_test(arrays_are_refused),
        cmocka_unit_test(folders_are_read_in_order),
        cmocka_unit_test(deep_pictures_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
