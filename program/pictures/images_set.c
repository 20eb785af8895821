/* images_set.c: sets of pictures for training, from IDX and NPY files and from folders.
 *
 * Invariant: a set that is returned has a picture at least, all of one size, and no number outside [-1, 1]. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "files/files.h"
#include "images_inside.h"

void images_free(image_set *set)
{
    free(set->bytes);
    free(set->values);
    *set = (image_set){0};
}

static int64_t pixels_of(const image_set *set) { return (int64_t)set->channels * set->rows * set->columns; }

void images_copy(const image_set *set, int64_t i, double *out)
{
    int64_t n = pixels_of(set);
    if (set->values)
        memcpy(out, set->values + i * n, (size_t)n * sizeof *out);
    else
        for (int64_t p = 0; p < n; p++) out[p] = set->bytes[i * n + p] / 127.5 - 1;
}

/* ------------------------------------------------------------------------------------------------ IDX */

static int read_idx(const char *path, image_set *out, char *error, size_t room)
{
    int64_t shape[3] = {0};
    if (idx_read(path, 3, shape, &out->bytes, error, room)) return -1;
    if (shape[1] > INT32_MAX || shape[2] > INT32_MAX || shape[1] * shape[2] > IMAGE_PIXELS)
        return files_fail(error, room,
                          "%s has pictures of %" PRId64 " x %" PRId64 " pixels; at most %" PRId64 " are read", path,
                          shape[2], shape[1], IMAGE_PIXELS);
    out->count = shape[0];
    out->channels = 1;
    out->rows = (int)shape[1];
    out->columns = (int)shape[2];
    return 0;
}

/* ------------------------------------------------------------------------------------------------ NPY */

/* N,H,W or N,C,H,W or N,D; two numbers in a row that are not square could be cut into lines in several ways. */
static int take_shape(const char *path, const npy_array *a, image_set *out, char *error, size_t room)
{
    char shape[128] = "";
    size_t used = 0;
    for (int i = 0; i < a->dims; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64, i ? "," : "", a->shape[i]);
    int64_t count = npy_count(a);
    if (count < 1 || count > IMAGE_SET) /* from here no product overflows */
        return files_fail(error, room, "%s has the shape %s; expected a number at least and %" PRId64 " at most", path,
                          shape, IMAGE_SET);
    int64_t side = a->dims == 2 ? (int64_t)(sqrt((double)a->shape[1]) + 0.5) : 0;
    int64_t channels = a->dims == 4 ? a->shape[1] : 1;
    int64_t rows = a->dims > 2 ? a->shape[a->dims - 2] : side, columns = a->dims > 2 ? a->shape[a->dims - 1] : side;
    if (a->dims < 2 || (a->dims == 2 && side * side != a->shape[1]) || (channels != 1 && channels != 3))
        return files_fail(error, room,
                          "%s has the shape %s; expected N,H,W or N,C,H,W with C 1 or 3, or N,D with D a square number",
                          path, *shape ? shape : "of a single number");
    if (rows > INT32_MAX || columns > INT32_MAX || rows * columns > IMAGE_PIXELS)
        return files_fail(error, room, "%s has the shape %s; at most %" PRId64 " pixels are read of a picture", path,
                          shape, IMAGE_PIXELS);
    out->count = a->shape[0];
    out->channels = (int)channels;
    out->rows = (int)rows;
    out->columns = (int)columns;
    return 0;
}

static int check_range(const char *path, const double *value, int64_t n, char *error, size_t room)
{
    double low = value[0], high = value[0];
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(value[i]))
            return files_fail(error, room, "%s holds %g as its number %" PRId64 "; expected numbers from -1 to 1", path,
                              value[i], i + 1);
        if (value[i] < low) low = value[i];
        if (value[i] > high) high = value[i];
    }
    if (low >= -1 && high <= 1) return 0;
    return files_fail(error, room, "%s holds numbers from %g to %g; expected -1 (dark) to 1, or uint8 from 0 to 255",
                      path, low, high);
}

static int read_npy(const char *path, image_set *out, char *error, size_t room)
{
    npy_array a;
    if (npy_read(path, &a, error, room)) return -1;
    int status = take_shape(path, &a, out, error, room);
    if (!status && a.type == NPY_I64)
        status = files_fail(error, room, "%s holds int64 numbers; expected uint8, float32 or float64", path);
    if (!status && a.type == NPY_U8) {
        out->bytes = a.owned; /* from here on `out` owns it */
        a.owned = NULL;
    } else if (!status) {
        int64_t n = npy_count(&a);
        out->values = malloc((size_t)n * sizeof *out->values);
        if (out->values) npy_doubles(&a, out->values);
        status = out->values ? check_range(path, out->values, n, error, room)
                             : files_fail(error, room, "no memory for the pictures of %s", path);
    }
    npy_free(&a);
    return status;
}

/* ------------------------------------------------------------------------------------------------ folders */

static int is_picture(const struct dirent *entry)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm"};
    const char *dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; dot && dot != entry->d_name && i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(dot, endings[i])) return 1;
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* The size of the first picture is the size of the set, and its bits decide whether bytes are enough. */
static int start_set(image_set *out, const image *im, int64_t count, const char *path, char *error, size_t room)
{
    out->count = count;
    out->channels = im->channels;
    out->rows = im->rows;
    out->columns = im->columns;
    if (pixels_of(out) > IMAGE_SET / count)
        return files_fail(error, room,
                          "%s holds %" PRId64 " pictures of %d x %d pixels; at most %" PRId64 " numbers are read", path,
                          count, im->columns, im->rows, IMAGE_SET);
    size_t n = (size_t)(pixels_of(out) * count);
    if (im->bits == 8)
        out->bytes = malloc(n);
    else
        out->values = malloc(n * sizeof *out->values);
    return out->bytes || out->values ? 0 : files_fail(error, room, "no memory for the pictures of %s", path);
}

static int add_picture(image_set *out, const image *im, int64_t i, const char *path, const char *first, char *error,
                       size_t room)
{
    int64_t n = pixels_of(out);
    if (im->channels != out->channels || im->rows != out->rows || im->columns != out->columns ||
        (im->bits == 8) != (out->bytes != NULL))
        return files_fail(error, room,
                          "%s has %d x %d pixels of %d channels and %d bits; expected %d x %d, %d and %d as in %s",
                          path, im->columns, im->rows, im->channels, im->bits, out->columns, out->rows, out->channels,
                          out->bytes ? 8 : 16, first);
    for (int64_t p = 0; p < n; p++) {
        if (out->bytes)
            out->bytes[i * n + p] = (unsigned char)floor(im->pixel[p] + 0.5); /* transparency leaves fractions */
        else
            out->values[i * n + p] = fmax(-1, fmin(1, im->pixel[p] / 127.5 - 1));
    }
    return 0;
}

static int read_names(const char *path, struct dirent **entry, int count, image_set *out, char *error, size_t room)
{
    char file[FILES_PATH];
    int status = 0;
    for (int i = 0; i < count && !status; i++) {
        image im = {0};
        status = files_join(file, path, entry[i]->d_name, error, room) || image_read(file, &im, error, room) ? -1 : 0;
        if (!status && i == 0) status = start_set(out, &im, count, path, error, room);
        if (!status) status = add_picture(out, &im, i, file, entry[0]->d_name, error, room);
        image_free(&im);
    }
    return status;
}

int images_in_folder(const char *path, struct dirent ***entry) { return scandir(path, entry, is_picture, by_name); }

static int read_folder(const char *path, image_set *out, char *error, size_t room)
{
    struct dirent **entry = NULL;
    int count = images_in_folder(path, &entry);
    if (count < 0) return files_cannot("read", path, errno, error, room);
    int status = count > 0
                     ? read_names(path, entry, count, out, error, room)
                     : files_fail(error, room, "%s holds no pictures; expected .png, .jpg, .pgm or .ppm files", path);
    for (int i = 0; i < count; i++) free(entry[i]);
    free((void *)entry);
    return status;
}

/* ------------------------------------------------------------------------------------------------ any of them */

static int read_file(const char *path, image_set *out, char *error, size_t room)
{
    unsigned char head[4] = {0};
    uint64_t size = 0;
    FILE *f = files_open(path, &size, error, room);
    if (!f) return -1;
    size_t n = fread(head, 1, sizeof head, f);
    (void)fclose(f);
    if (n == sizeof head && !memcmp(head, "\x93NUM", 4)) return read_npy(path, out, error, room);
    if (n >= 2 && ((head[0] == 0 && head[1] == 0) || (head[0] == 0x1F && head[1] == 0x8B)))
        return read_idx(path, out, error, room);
    return files_fail(error, room,
                      "%s is no set of pictures; expected an IDX file (also gzipped), an NPY file or a folder", path);
}

int images_read(const char *path, image_set *out, char *error, size_t room)
{
    struct stat st;
    *out = (image_set){0};
    if (stat(path, &st)) return files_cannot("open", path, errno, error, room);
    int status = S_ISDIR(st.st_mode) ? read_folder(path, out, error, room) : read_file(path, out, error, room);
    if (status) images_free(out);
    return status;
}
