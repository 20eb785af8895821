/* points.c: points to train on.
 *
 *     two moons   (cos t, sin t) and (1 - cos t, 1/2 - sin t), t equispaced on [0, pi] with both ends
 *     circles     (cos t, sin t) and factor (cos t, sin t), t equispaced on [0, 2 pi) without the end
 *     blobs       the centres, each for an equal share of the points
 *
 * plus independent N(0, noise^2) on every coordinate. Of an odd number of points the second curve has one more; of
 * points that do not divide by the clusters the first clusters have one more. These are the definitions of
 * scikit-learn, without its shuffling.
 *
 * Invariant: the noise of point i depends on the seed and i alone, and every number that leaves this file is finite. */
#include "points.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/sosmc.h>

#include "files/files.h"
#include "problem_inside.h"
#include "ties.h"

enum { STREAM_POINTS = SOSMC_STREAM_USER };

static const double pi = 3.14159265358979323846;

/* ---------------------------------------------------------------------------- shapes */

/* Both ends of [0, pi] are points, so there is one gap less than points; a single point stands at t = 0. */
static void moon_point(const points_recipe *r, int64_t i, double *x)
{
    int64_t outer = r->points / 2, second = i >= outer, n = second ? r->points - outer : outer;
    double gaps = n > 1 ? (double)(n - 1) : 1.0, t = pi * (double)(second ? i - outer : i) / gaps;
    x[0] = second ? 1.0 - cos(t) : cos(t);
    x[1] = second ? 0.5 - sin(t) : sin(t);
}

static void circle_point(const points_recipe *r, int64_t i, double *x)
{
    int64_t outer = r->points / 2, second = i >= outer, n = second ? r->points - outer : outer;
    double radius = second ? r->factor : 1.0, t = 2.0 * pi * (double)(second ? i - outer : i) / (double)n;
    x[0] = radius * cos(t);
    x[1] = radius * sin(t);
}

static void blob_point(const points_recipe *r, int64_t i, double *x)
{
    int64_t share = r->points / r->clusters, longer = r->points % r->clusters, edge = longer * (share + 1);
    int64_t cluster = i < edge ? i / (share + 1) : longer + (i - edge) / share;
    memcpy(x, r->centres + (size_t)cluster * (size_t)r->dim, (size_t)r->dim * sizeof *x);
}

static void place(const points_recipe *r, int64_t i, double *x)
{
    switch (r->kind) {
    case POINTS_TWO_MOONS: moon_point(r, i, x); break;
    case POINTS_CIRCLES: circle_point(r, i, x); break;
    case POINTS_BLOBS: blob_point(r, i, x); break;
    }
}

/* ---------------------------------------------------------------------------- making them */

enum { TILE = 512 };

static void make_points(const points_recipe *r, int dim, double *z, double *x)
{
    sosmc_rng rng = {.seed = r->seed, .stream = STREAM_POINTS};
    for (int64_t first = 0; first < r->points; first += TILE) {
        int n = (int)(r->points - first < TILE ? r->points - first : TILE);
        sosmc_batch b = {.dim = dim, .n = n, .ld = TILE, .first = first};
        sosmc_normals(rng, &b, z);
        for (int i = 0; i < n; i++) {
            double *point = x + (size_t)(first + i) * (size_t)dim;
            place(r, first + i, point);
            for (int j = 0; j < dim; j++) point[j] += r->noise * z[(size_t)j * TILE + (size_t)i];
        }
    }
}

static int check_recipe(const points_recipe *r, char *error, size_t room)
{
    if (r->points < 1 || r->points > INT32_MAX)
        return files_fail(error, room, "the number of points is %lld; expected 1 to 2^31 - 1", (long long)r->points);
    if (!(r->noise >= 0))
        return files_fail(error, room, "the noise of the points is %g; expected a number of at least 0", r->noise);
    if (r->kind == POINTS_BLOBS && (r->clusters < 1 || r->dim < 1 || !r->centres))
        return files_fail(error, room, "the points have %d centres of %d numbers; expected at least 1 of each",
                          r->clusters, r->dim);
    return 0;
}

/* Memory for n times m numbers, aligned as batches need it; NULL when there is none. */
static double *room_for(int64_t n, int64_t m)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)n, (size_t)m, &bytes) || bytes > (SIZE_MAX >> 1) / sizeof(double)) return NULL;
    bytes = (bytes * sizeof(double) + 63) & ~(size_t)63;
    return aligned_alloc(64, bytes ? bytes : 64);
}

int points_generate(const points_recipe *r, double **x, int64_t *rows, char *error, size_t room)
{
    int dim = r->kind == POINTS_BLOBS ? r->dim : 2;
    *x = NULL;
    *rows = 0;
    if (check_recipe(r, error, room)) return -1;
    double *z = room_for(TILE, dim), *made = z ? room_for(r->points, dim) : NULL;
    if (made) make_points(r, dim, z, made);
    free(z);
    if (!made) return files_fail(error, room, "out of memory for %lld points", (long long)r->points);
    if (points_rescale(made, r->points, dim, r->standardise, r->scale, r->scaling)) {
        free(made);
        return files_fail(error, room, "the generated points are not finite; expected smaller noise, centres or scale");
    }
    *x = made;
    *rows = r->points;
    return 0;
}

/* ---------------------------------------------------------------------------- scaling */

/* Mean and population's standard deviation of every stride-th number. */
static void moments(const double *x, int64_t rows, size_t stride, double *mean, double *sd)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < rows; i++) sum += x[(size_t)i * stride];
    *mean = sum / (double)rows;
    for (int64_t i = 0; i < rows; i++) {
        double off = x[(size_t)i * stride] - *mean;
        square += off * off;
    }
    *sd = sqrt(square / (double)rows);
}

int points_rescale(double *x, int64_t rows, int dim, int standardise, double scale, points_scaling *told)
{
    int finite = 1, tells = told && (standardise || scale != 1);
    if (told) *told = (points_scaling){.dim = 0};
    if (tells && scaling_make(told, dim)) return -1;
    for (int j = 0; j < dim; j++) {
        double mean = 0, sd = 0, divisor = 1;
        if (standardise) {
            moments(x + j, rows, (size_t)dim, &mean, &sd);
            divisor = sd + 1e-8;                  /* a constant coordinate becomes 0 */
            finite = finite && isfinite(divisor); /* Dividing by infinity would give 0, a finite number. */
        }
        for (int64_t i = 0; i < rows; i++) {
            double *v = x + (size_t)i * (size_t)dim + j;
            *v = scale * (*v - mean) / divisor;
            finite = finite && isfinite(*v);
        }
        if (tells) {
            told->centre[j] = mean;
            told->factor[j] = scale / divisor;
        }
    }
    return finite ? 0 : -1;
}

int points_differ(const char *path, const double *x, int64_t rows, int dim, char *error, size_t room)
{
    if (!ties_all_same(x, rows, dim)) return 0;
    return files_fail(error, room,
                      "%s: all of its %" PRId64 " points are the same, so there is nothing to be learnt from them",
                      path, rows);
}

int points_can_standardise(const char *path, int64_t rows, const char *otherwise, char *error, size_t room)
{
    if (rows > 1) return 0;
    return files_fail(
        error, room,
        "%s has one row, and one point has no spread to be standardised by; expected two rows or more, or "
        "%s",
        path, otherwise);
}

/* ---------------------------------------------------------------------------- files */

static int has_gap(const double *point, int dim)
{
    int gap = 0;
    for (int j = 0; j < dim; j++) gap |= isnan(point[j]) != 0;
    return gap;
}

/* The second half of a sentence about a missing number. */
static const char *advice(const points_gaps *gaps, char out[96])
{
    out[0] = 0;
    if (gaps) (void)snprintf(out, 96, "; fill it in, or write %.40s to leave such rows out", gaps->remedy);
    return out;
}

static int from_array(const char *path, const npy_array *a, int dim, points_gaps *gaps, double **x, int64_t *rows,
                      char *error, size_t room)
{
    char more[96];
    if (a->dims != 2 || a->shape[1] != dim)
        return files_fail(error, room, "%s: expected an array of two dimensions with %d columns", path, dim);
    *x = room_for(a->shape[0], dim);
    if (!*x) return files_fail(error, room, "%s: out of memory for %lld points", path, (long long)a->shape[0]);
    npy_doubles(a, *x);
    for (int64_t i = 0; i < a->shape[0]; i++) {
        const double *point = *x + (size_t)i * (size_t)dim;
        int drop = gaps && gaps->drop && has_gap(point, dim);
        for (int j = 0; j < dim && !drop; j++)
            if (!isfinite(point[j]))
                return files_fail(error, room, "%s: row %lld, column %d is %g; expected a finite number%s", path,
                                  (long long)i + 1, j + 1, point[j], isnan(point[j]) ? advice(gaps, more) : "");
        if (!drop) memmove(*x + (size_t)(*rows)++ * (size_t)dim, point, (size_t)dim * sizeof *point);
        if (drop) gaps->dropped++;
    }
    return 0;
}

static int wrong_columns(const csv_table *t, int dim, char *error, size_t room)
{
    int counts = t->columns == dim + 1 && (t->column[0].unnamed || job_looks_like_identifier(t, 0) == JOB_IDENTIFIER);
    return files_fail(error, room, "%s: has %d columns; expected %d, the dimension of the model%s", t->path, t->columns,
                      dim, counts ? " (the first counts or names the rows: write the table without it)" : "");
}

/* Settles the missing numbers of the columns, which are all used. Text is refused later. */
static int settle_gaps(csv_table *t, points_gaps *gaps, char *error, size_t room)
{
    char where[512], more[96];
    int *column = calloc((size_t)t->columns, sizeof *column), n = 0, gap = -1;
    if (!column) return files_fail(error, room, "%s: out of memory for %d columns", t->path, t->columns);
    for (int j = 0; j < t->columns; j++) {
        if (!t->column[j].odd) column[n++] = j;
        if (t->column[j].gap && !t->column[j].odd && (gap < 0 || t->column[j].gap < t->column[gap].gap)) gap = j;
    }
    if (gaps->drop) gaps->dropped = csv_drop_rows(t, column, n);
    free(column);
    if (gap < 0 || gaps->drop) return 0;
    (void)csv_gap(t, gap, where, sizeof where);
    return files_fail(error, room, "%s%s", where, advice(gaps, more));
}

/* The header as points_scaling has it; NULL: there is none (columns are then called c1, c2, ...), or no memory. */
static char *header_of(const csv_table *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = strcmp(t->column[0].name, "c1") != 0 ? open_memstream(&text, &size) : NULL;
    for (int j = 0; f && j < t->columns; j++) {
        if (j) (void)fputc('\t', f);
        for (const char *c = t->column[j].name; *c; c++) (void)fputc((unsigned char)*c < ' ' ? ' ' : *c, f);
    }
    if (f) (void)fclose(f);
    return text;
}

static int from_table(csv_table *t, int dim, points_gaps *gaps, double **x, int64_t *rows, char *error, size_t room)
{
    if (t->columns != dim) return wrong_columns(t, dim, error, room);
    if (gaps && settle_gaps(t, gaps, error, room)) return -1;
    for (int j = t->columns; gaps && j > 0; j--)
        if (job_looks_like_identifier(t, j - 1) != JOB_NO_IDENTIFIER) gaps->identifier = j;
    *rows = t->rows;
    *x = room_for(t->rows, dim);
    if (!*x) return files_fail(error, room, "%s: out of memory for %lld points", t->path, (long long)t->rows);
    for (int j = 0; j < dim; j++) {
        const double *v = NULL;
        if (csv_numbers(t, j, &v, error, room)) return -1;
        for (int64_t i = 0; i < t->rows; i++) (*x)[(size_t)i * (size_t)dim + (size_t)j] = v[i];
    }
    if (gaps && t->rows > 0) gaps->columns = header_of(t);
    return 0;
}

int points_load_data(const char *path, int dim, points_gaps *gaps, double **x, int64_t *rows, char *error, size_t room)
{
    const char *dot = strrchr(path, '.');
    npy_array array = {0};
    csv_table table = {0};
    int rc = 0;
    *x = NULL;
    *rows = 0;
    if (gaps) gaps->dropped = 0;
    int archive = dot && strcmp(dot, ".npz") == 0;
    if (archive || (dot && strcmp(dot, ".npy") == 0)) {
        rc = archive ? npz_read_part(path, "x", 0, &array, error, room) : npy_read(path, &array, error, room);
        if (rc == 0 && archive && array.dims == 2 && array.shape[1] == dim) /* from_array refuses all others */
            rc = npz_read(path, "x", &array, error, room);
        rc = rc || from_array(path, &array, dim, gaps, x, rows, error, room);
        npy_free(&array);
    } else {
        rc = csv_read(path, NULL, &table, error, room) || csv_needs_rows(&table, error, room) ||
             from_table(&table, dim, gaps, x, rows, error, room);
        csv_free(&table);
    }
    if (rc == 0 && *rows < 1)
        rc = files_fail(error, room, "%s holds no points%s; expected at least one row", path,
                        gaps && gaps->dropped > 0 ? " without a missing number" : "");
    if (rc == 0) return 0;
    free(*x);
    *x = NULL;
    *rows = 0;
    return -1;
}

int points_load(const char *path, int dim, double **x, int64_t *rows, char *error, size_t room)
{
    return points_load_data(path, dim, NULL, x, rows, error, room);
}
