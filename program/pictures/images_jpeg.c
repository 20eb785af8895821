/* images_jpeg.c: JPEG through libjpeg, turned as its EXIF orientation says.
 *
 * libjpeg reports errors by longjmp, and repairs what it can: it fills up a truncated file with grey. Here damage is an error.
 * Invariant: whatever must be freed, and all that is used after a jump, stands in a struct that outlives the setjmp. */
#include "images_inside.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "files/files.h"

enum { SCANS = 200, EXIF_MARKER = JPEG_APP0 + 1 }; /* ordinary progressive files have about ten scans */

typedef struct {
    struct jpeg_error_mgr errors; /* the first member, so that a pointer to it is a pointer to this struct */
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    struct jpeg_decompress_struct jpeg;
    const char *path;
    char *error;
    size_t room;
    uint64_t size;
    image *out;
    unsigned char *line;
} job;

static job *job_of(j_common_ptr jpeg) { return (job *)(void *)jpeg->err; }

static void on_error(j_common_ptr jpeg)
{
    char message[JMSG_LENGTH_MAX];
    job *j = job_of(jpeg);
    jpeg->err->format_message(jpeg, message);
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) /* the file may be sound */
        (void)files_fail(j->error, j->room, "no memory to read %s: libjpeg says: %s", j->path, message);
    else
        (void)files_fail(j->error, j->room, "%s is damaged: as a JPEG file, libjpeg says: %s", j->path, message);
    longjmp(j->jump, 1);
}

/* A message of level -1 means damage and is an error, except superfluous bytes between markers, an unknown colour transform
 * and an unusual order of scans, which lose no pixels. */
static void on_message(j_common_ptr jpeg, int level)
{
    int code = jpeg->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_BOGUS_PROGRESSION)
        on_error(jpeg);
}

/* Limits the number of scans: a small file can otherwise make the library decode a large picture thousands of times. */
static void on_progress(j_common_ptr jpeg)
{
    job *j = job_of(jpeg);
    if (j->jpeg.input_scan_number <= SCANS) return;
    (void)files_fail(j->error, j->room, "%s is damaged: it has more than %d scans", j->path, SCANS);
    longjmp(j->jump, 1);
}

/* ------------------------------------------------------------------------------------------------ orientation */

static uint32_t number_at(const unsigned char *p, int bytes, int big)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | p[big ? i : bytes - 1 - i];
    return value;
}

/* The tag 0x0112 of the first directory of n bytes of TIFF; 1 (upright) when it is absent or nonsense.
 *     "II" or "MM", 42, place of the directory | number of entries, { tag, type, count, value } of 12 bytes each */
static int tiff_orientation(const unsigned char *p, size_t n)
{
    if (n < 8 || p[0] != p[1] || (p[0] != 'I' && p[0] != 'M')) return 1;
    int big = p[0] == 'M';
    size_t at = number_at(p + 4, 4, big);
    if (number_at(p + 2, 2, big) != 42 || at > n - 2) return 1;
    for (uint32_t left = number_at(p + at, 2, big), i = 0; i < left && at + 14 + 12 * (size_t)i <= n; i++) {
        const unsigned char *entry = p + at + 2 + 12 * (size_t)i;
        if (number_at(entry, 2, big) != 0x0112 || number_at(entry + 2, 2, big) != 3) continue;
        uint32_t value = number_at(entry + 8, 2, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

static int orientation(const struct jpeg_decompress_struct *jpeg)
{
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->marker == EXIF_MARKER && m->data_length > 6 && !memcmp(m->data, "Exif\0", 6))
            return tiff_orientation(m->data + 6, m->data_length - 6);
    return 1;
}

/* Where the pixel of line r and column c of the file stands in the picture: origin + r * down + c * right. */
typedef struct {
    int64_t origin, down, right;
} turn;

/* 2 to 4: mirrored left to right, upside down, mirrored top to bottom; 5 to 8 swap lines and columns: transposed,
 * turned clockwise, transposed along the other diagonal, turned anticlockwise. */
static turn turn_of(int orientation, int lines, int columns)
{
    int64_t h = lines, w = columns;
    switch (orientation) {
    case 2: return (turn){w - 1, w, -1};
    case 3: return (turn){h * w - 1, -w, -1};
    case 4: return (turn){(h - 1) * w, -w, 1};
    case 5: return (turn){0, 1, h};
    case 6: return (turn){h - 1, -1, h};
    case 7: return (turn){h * w - 1, -1, -h};
    case 8: return (turn){(w - 1) * h, 1, -h};
    default: return (turn){0, w, 1};
    }
}

/* ------------------------------------------------------------------------------------------------ reading */

static int read_header(job *j, int *oriented)
{
    struct jpeg_decompress_struct *jpeg = &j->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    J_COLOR_SPACE space = jpeg->jpeg_color_space;
    if (space == JCS_CMYK || space == JCS_YCCK)
        return files_fail(j->error, j->room, "%s is a CMYK picture for print; expected grey or RGB", j->path);
    if (space != JCS_GRAYSCALE && space != JCS_RGB && space != JCS_YCbCr)
        return files_fail(j->error, j->room, "%s has %d channels of an unknown kind; expected grey or RGB", j->path,
                          jpeg->num_components);
    jpeg->out_color_space = space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW; /* the exact transform, not the fast one */
    *oriented = orientation(jpeg);
    int lines = (int)jpeg->image_height, columns = (int)jpeg->image_width, swapped = *oriented >= 5;
    *j->out = (image){.channels = space == JCS_GRAYSCALE ? 1 : 3,
                      .shape = j->out->shape,
                      .rows = swapped ? columns : lines,
                      .columns = swapped ? lines : columns,
                      .bits = 8,
                      .jpeg = 1};
    /* A block of 8 x 8 takes a bit or more, and there are at least 8 blocks to 32 x 32 pixels in every sampling. */
    return image_allocate(j->out, j->path, j->size, (double)lines * columns / 1024, j->error, j->room);
}

static int read_lines(job *j, int oriented)
{
    struct jpeg_decompress_struct *jpeg = &j->jpeg;
    (void)jpeg_start_decompress(jpeg);
    int lines = (int)jpeg->output_height, columns = (int)jpeg->output_width, channels = j->out->channels;
    int64_t pixels = (int64_t)lines * columns;
    if (jpeg->output_components != channels || pixels != (int64_t)j->out->rows * j->out->columns)
        return files_fail(j->error, j->room, "%s is damaged: its size changes on the way", j->path);
    turn t = turn_of(oriented, lines, columns);
    j->line = malloc((size_t)columns * (size_t)channels);
    if (!j->line) return files_fail(j->error, j->room, "no memory to read %s", j->path);
    while (jpeg->output_scanline < jpeg->output_height) {
        int64_t r = jpeg->output_scanline;
        if (jpeg_read_scanlines(jpeg, &j->line, 1) != 1)
            return files_fail(j->error, j->room, "%s is damaged: it ends early", j->path);
        for (int64_t c = 0; c < columns; c++)
            for (int k = 0; k < channels; k++)
                j->out->pixel[k * pixels + t.origin + r * t.down + c * t.right] = j->line[c * channels + k];
    }
    (void)jpeg_finish_decompress(jpeg);
    return 0;
}

static int read_guarded(job *j, FILE *file)
{
    int oriented = 1;
    if (setjmp(j->jump)) return -1; /* the error message has been written */
    jpeg_create_decompress(&j->jpeg);
    j->jpeg.progress = &j->progress;
    jpeg_stdio_src(&j->jpeg, file);
    jpeg_save_markers(&j->jpeg, EXIF_MARKER, 0xFFFF);
    return read_header(j, &oriented) ? -1 : read_lines(j, oriented);
}

int image_jpeg_read(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room)
{
    job j = {.path = path, .error = error, .room = room, .size = size, .out = out};
    j.jpeg.err = jpeg_std_error(&j.errors);
    j.errors.error_exit = on_error;
    j.errors.emit_message = on_message;
    j.progress.progress_monitor = on_progress;
    int status = read_guarded(&j, file);
    jpeg_destroy_decompress(&j.jpeg);
    free(j.line);
    return status;
}
