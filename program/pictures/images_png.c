/* images_png.c: PNG through libpng: every kind in, 8- and 16-bit grey and colour out.
 *
 * libpng reports errors by longjmp. Invariant: whatever must be freed, and all that is used after a jump, stands in a struct
 * that outlives the setjmp; no local variable that changes does. */
#include "images_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"

enum { CHUNK_BYTES = 8 << 20 }; /* no piece of text or profile in a file may be larger */

typedef struct {
    const char *path;
    char *error;
    size_t room;
    uint64_t size;
    image *out;
    png_structp png;
    png_infop info;
    unsigned char *raw; /* a line of the file; all of them when it is interlaced */
    atomic_file file;   /* when writing */
} job;

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* ------------------------------------------------------------------------------------------------ reading */

static void on_read_error(png_structp png, png_const_charp message)
{
    job *j = png_get_error_ptr(png);
    if (strstr(message, "memory")) /* the file may be sound */
        (void)files_fail(j->error, j->room, "no memory to read %s: libpng says: %s", j->path, message);
    else
        (void)files_fail(j->error, j->room, "%s is damaged: as a PNG file, libpng says: %s", j->path, message);
    png_longjmp(png, 1);
}

/* Size and kind, and what libpng shall make of it: 8 or 16 bits of grey or colour, with alpha or without. */
static int read_header(job *j)
{
    png_read_info(j->png, j->info);
    png_uint_32 columns = 0, rows = 0;
    int bits = 0, kind = 0;
    (void)png_get_IHDR(j->png, j->info, &columns, &rows, &bits, &kind, NULL, NULL, NULL);
    double least = (double)columns * rows * png_get_channels(j->png, j->info) * bits / 8;
    if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(j->png);
    if (kind == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(j->png);
    if (png_get_valid(j->png, j->info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(j->png);
    *j->out = (image){.channels = (kind & PNG_COLOR_MASK_COLOR) ? 3 : 1,
                      .shape = j->out->shape,
                      .rows = (int)rows,
                      .columns = (int)columns,
                      .bits = bits == 16 ? 16 : 8,
                      .alpha = kind & PNG_COLOR_MASK_ALPHA || png_get_valid(j->png, j->info, PNG_INFO_tRNS)};
    return image_allocate(j->out, j->path, j->size, least / 1032, j->error, j->room); /* what deflation gains at most */
}

static double sample_at(const unsigned char *raw, int64_t i, int bits)
{
    return bits == 16 ? (raw[2 * i] * 256 + raw[2 * i + 1]) / 257.0 : raw[i];
}

/* A line of samples side by side into planes, laid on white where it is transparent. */
static void take_line(const unsigned char *raw, int row, image *im)
{
    int64_t pixels = (int64_t)im->rows * im->columns, samples = im->channels + im->alpha;
    for (int64_t c = 0; c < im->columns; c++) {
        double opaque = im->alpha ? sample_at(raw, c * samples + im->channels, im->bits) / 255 : 1;
        for (int k = 0; k < im->channels; k++) {
            double v = sample_at(raw, c * samples + k, im->bits);
            im->pixel[k * pixels + (int64_t)row * im->columns + c] = opaque == 1 ? v : 255 + opaque * (v - 255);
        }
    }
}

static int read_lines(job *j)
{
    int passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    size_t stride = png_get_rowbytes(j->png, j->info);
    if (stride != (size_t)j->out->columns * (size_t)(j->out->channels + j->out->alpha) * (size_t)(j->out->bits / 8))
        return files_fail(j->error, j->room, "%s is damaged: its lines have a length that its header does not explain",
                          j->path);
    /* The first passes of an interlaced file set some of the pixels only. */
    j->raw = calloc(passes > 1 ? (size_t)j->out->rows : 1, stride);
    if (!j->raw) return files_fail(j->error, j->room, "no memory to read %s", j->path);
    for (int pass = 0; pass < passes; pass++)
        for (int row = 0; row < j->out->rows; row++) {
            unsigned char *line = passes > 1 ? j->raw + stride * (size_t)row : j->raw;
            png_read_row(j->png, line, NULL);
            if (pass == passes - 1) take_line(line, row, j->out);
        }
    png_read_end(j->png, NULL); /* a file that ends after the pixels is damaged too */
    return 0;
}

/* libpng allocates as many bytes as the header of a chunk says, and only warns where that is beyond its own limit. Here a
 * chunk that is longer than the file is refused. A file is a signature of 8 bytes and then { length, type, bytes, sum } per
 * chunk. */
static int check_chunks(const job *j, FILE *file)
{
    enum { SIGNATURE = 8, HEAD = 8, SUM = 4 };
    unsigned char head[HEAD] = {0};
    for (uint64_t at = SIGNATURE; at < j->size;) {
        if (fseeko(file, (off_t)at, SEEK_SET)) return files_cannot("read", j->path, errno, j->error, j->room);
        if (fread(head, 1, HEAD, file) != HEAD) break; /* libpng reports a file that ends early */
        uint64_t length = png_get_uint_32(head);
        if (length > j->size - at - HEAD)
            return files_fail(j->error, j->room,
                              "%s is damaged: a piece of it promises %" PRIu64 " bytes, and %" PRIu64 " are left",
                              j->path, length, j->size - at - HEAD);
        if (!memcmp(head + 4, "IEND", 4)) break;
        at += HEAD + length + SUM;
    }
    return fseeko(file, 0, SEEK_SET) ? files_cannot("read", j->path, errno, j->error, j->room) : 0;
}

static int read_guarded(job *j, FILE *file)
{
    if (setjmp(png_jmpbuf(j->png))) return -1; /* on_read_error has put the sentence */
    png_init_io(j->png, file);
    png_set_user_limits(j->png, (png_uint_32)IMAGE_PIXELS, (png_uint_32)IMAGE_PIXELS);
    png_set_chunk_malloc_max(j->png, CHUNK_BYTES);
    png_set_keep_unknown_chunks(j->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    return read_header(j) ? -1 : read_lines(j);
}

int image_png_read(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room)
{
    job j = {.path = path, .error = error, .room = room, .size = size, .out = out};
    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_read_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    int status = !j.info ? files_fail(error, room, "no memory to read %s", path) : check_chunks(&j, file);
    if (!status) status = read_guarded(&j, file);
    free(j.raw);
    png_destroy_read_struct(&j.png, &j.info, NULL);
    return status;
}

/* ------------------------------------------------------------------------------------------------ writing */

static void on_write_error(png_structp png, png_const_charp message)
{
    job *j = png_get_error_ptr(png);
    (void)files_fail(j->error, j->room, "cannot write %s: libpng says: %s", j->path, message);
    png_longjmp(png, 1);
}

static void put_bytes(png_structp png, png_bytep bytes, size_t n)
{
    job *j = png_get_io_ptr(png);
    atomic_put(&j->file, bytes, n); /* the file keeps the first error, and atomic_close returns it */
}

static void flush_nothing(png_structp png) { (void)png; }

/* A line of planes into samples side by side, 16-bit ones with their high byte first. */
static void make_line(const image *im, int row, int bits, double low, double high, unsigned char *raw)
{
    int64_t pixels = (int64_t)im->rows * im->columns;
    double most = bits == 16 ? 65535 : 255, scale = most / (high - low);
    for (int64_t c = 0; c < im->columns; c++)
        for (int k = 0; k < im->channels; k++) {
            double v = floor((im->pixel[k * pixels + (int64_t)row * im->columns + c] - low) * scale + 0.5);
            unsigned value = v >= most ? (unsigned)most : v > 0 ? (unsigned)v : 0; /* NaN fails both comparisons */
            if (bits == 16) *raw++ = (unsigned char)(value >> 8);
            *raw++ = (unsigned char)(value & 0xFF);
        }
}

static int write_guarded(job *j, const image *im, int bits, double low, double high)
{
    if (setjmp(png_jmpbuf(j->png))) return -1;
    png_set_user_limits(j->png, (png_uint_32)IMAGE_PIXELS, (png_uint_32)IMAGE_PIXELS);
    png_set_write_fn(j->png, j, put_bytes, flush_nothing);
    png_set_IHDR(j->png, j->info, (png_uint_32)im->columns, (png_uint_32)im->rows, bits,
                 im->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(j->png, j->info);
    for (int row = 0; row < im->rows; row++) {
        make_line(im, row, bits, low, high, j->raw);
        png_write_row(j->png, j->raw);
    }
    png_write_end(j->png, NULL);
    return 0;
}

static int check_image(const char *path, const image *im, int bits, double low, double high, char *error, size_t room)
{
    if ((im->channels != 1 && im->channels != 3) || im->rows < 1 || im->columns < 1 ||
        (int64_t)im->rows * im->columns > IMAGE_PIXELS)
        return files_fail(error, room, "cannot write %s: %d channels of %d x %d pixels are no picture", path,
                          im->channels, im->columns, im->rows);
    if (bits != 8 && bits != 16)
        return files_fail(error, room, "cannot write %s: bits is %d; expected 8 or 16", path, bits);
    if (!(low < high && isfinite(high - low)))
        return files_fail(error, room, "cannot write %s: low is %g and high %g; expected low < high", path, low, high);
    return 0;
}

int image_write(const char *path, const image *im, int bits, double low, double high, char *error, size_t room)
{
    job j = {.path = path, .error = error, .room = room};
    if (check_image(path, im, bits, low, high, error, room) || atomic_open(&j.file, path, error, room)) return -1;
    j.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, on_write_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    j.raw = malloc((size_t)im->columns * (size_t)im->channels * (size_t)(bits / 8));
    int status = j.info && j.raw ? write_guarded(&j, im, bits, low, high)
                                 : files_fail(error, room, "no memory to write %s", path);
    free(j.raw);
    png_destroy_write_struct(&j.png, &j.info);
    if (!status) return atomic_close(&j.file, error, room);
    atomic_abandon(&j.file);
    return -1;
}
