/* images_pnm.c: the plain formats of Netpbm: PGM (grey) and PPM (colour), as text (P2, P3) or as bytes (P5, P6).
 *
 *     P5 COLUMNS ROWS MOST one-blank samples       # comments may stand before the samples
 *
 * A sample from 0 to MOST becomes 0 to 255. Invariant: no sample above MOST is let through. */
#include "images_inside.h"

#include <errno.h>
#include <stdlib.h>

#include "files/files.h"

static int damaged(const char *path, const char *why, char *error, size_t room)
{
    return files_fail(error, room, "%s is damaged: %s", path, why);
}

static int is_blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next byte; the end of line, when it begins a comment. */
static int next_byte(FILE *f)
{
    int c = getc(f);
    if (c == '#')
        while (c != '\n' && c != '\r' && c != EOF) c = getc(f);
    return c;
}

/* A whole number of at most `most`, with the one blank behind it taken too, as the header's end demands; -1: none. */
static int64_t next_number(FILE *f, int64_t most)
{
    int64_t value = 0;
    int c = next_byte(f);
    while (is_blank(c)) c = next_byte(f);
    if (c < '0' || c > '9') return -1;
    for (; c >= '0' && c <= '9'; c = next_byte(f)) {
        value = value * 10 + (c - '0');
        if (value > most) return -1;
    }
    return is_blank(c) || c == EOF ? value : -1;
}

/* Samples stand side by side in the file, and in planes here. */
static int read_text(FILE *f, const char *path, int most, image *im, char *error, size_t room)
{
    int64_t pixels = (int64_t)im->rows * im->columns;
    for (int64_t i = 0; i < pixels; i++)
        for (int k = 0; k < im->channels; k++) {
            int64_t value = next_number(f, most);
            if (value < 0)
                return files_fail(error, room,
                                  "%s is damaged: a sample is missing, no number, or above the %d of its header", path,
                                  most);
            im->pixel[k * pixels + i] = (double)value * 255 / most;
        }
    return 0;
}

static int read_bytes(FILE *f, const char *path, int most, image *im, char *error, size_t room)
{
    int64_t pixels = (int64_t)im->rows * im->columns;
    for (int64_t i = 0; i < pixels; i++)
        for (int k = 0; k < im->channels; k++) {
            int value = getc(f), low = most > 255 && value != EOF ? getc(f) : 0;
            if (value == EOF || low == EOF) return damaged(path, "it ends early", error, room);
            if (most > 255) value = value * 256 + low;
            if (value > most) return damaged(path, "a sample is above the largest its header names", error, room);
            im->pixel[k * pixels + i] = (double)value * 255 / most;
        }
    return 0;
}

int image_pnm_read(FILE *file, const char *path, uint64_t size, image *out, char *error, size_t room)
{
    (void)getc(file); /* the P */
    int kind = getc(file) - '0';
    if (kind != 2 && kind != 3 && kind != 5 && kind != 6)
        return files_fail(error, room, "%s is a Netpbm file of kind P%d; expected P2, P3, P5 or P6", path, kind);
    int64_t columns = next_number(file, INT32_MAX), rows = next_number(file, INT32_MAX);
    int64_t most = next_number(file, UINT16_MAX);
    if (columns < 0 || rows < 0 || most < 1)
        return damaged(path, "its header must name columns, rows and a largest sample from 1 to 65535", error, room);
    *out = (image){.channels = kind == 3 || kind == 6 ? 3 : 1,
                   .shape = out->shape,
                   .rows = (int)rows,
                   .columns = (int)columns,
                   .bits = most > 255 ? 16 : 8};
    /* Text takes a digit and a blank for all samples but the last, which needs no blank. */
    double samples = (double)rows * (double)columns * out->channels;
    double least = kind < 5 ? 2 * samples - 1 : most > 255 ? 2 * samples : samples;
    long used = ftell(file);
    if (used < 0) return files_cannot("read", path, errno, error, room);
    if (image_allocate(out, path, size, least + (double)used, error, room)) return -1;
    return kind < 5 ? read_text(file, path, (int)most, out, error, room)
                    : read_bytes(file, path, (int)most, out, error, room);
}
