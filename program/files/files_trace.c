/* files_trace.c: rows that survive a crash and end as if there had been none.
 *
 *     header | rows below `from`: kept | rows the resumed run writes again, half a line, zeros: cut off on opening
 *
 * Invariant: the file is the header and whole rows with rising iterations, then at most what is not flushed yet. A file
 * that is thinned is replaced, never changed in place. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 65536 };

struct trace {
    FILE *stream;
    int earlier;       /* the columns are those of earlier versions, without mobility */
    int error, commas; /* errno of the first failure; commas in every row */
    int64_t kept;
    double kept_value;
    char path[FILES_PATH];
};

/* One pass over the old rows, a byte at a time, in bounded memory. */
typedef struct {
    int64_t offset, end; /* of the next byte; of the last row that is kept */
    int64_t from, last, value;
    int commas, good; /* in this row so far */
    char second[40];  /* its second field */
    size_t length;
    double kept_value;
} row_scanner;

static void start_row(row_scanner *s)
{
    s->commas = 0;
    s->value = -1;
    s->good = 1;
    s->length = 0;
}

/* 1: go on; 0: this row and all behind it go. Only whole rows with rising iterations below `from` stay. */
static int scan_byte(row_scanner *s, const trace *t, char c)
{
    s->offset++;
    if (c == '\n') {
        if (!s->good || s->commas != t->commas || s->value <= s->last || s->value >= s->from) return 0;
        s->second[s->length] = 0;
        s->kept_value = strtod(s->second, NULL);
        s->last = s->value;
        s->end = s->offset;
        start_row(s);
    } else if (c == ',') {
        if (++s->commas == 1 && s->value < 0) s->good = 0;
    } else if (c == 0) {
        s->good = 0; /* a file system may leave zeros where bytes never reached the disk */
    } else if (s->commas == 0) {
        if (c < '0' || c > '9' || s->value > INT64_MAX / 20)
            s->good = 0;
        else
            s->value = (s->value < 0 ? 0 : s->value) * 10 + (c - '0');
    } else if (s->commas == 1 && s->length + 1 < sizeof s->second) {
        s->second[s->length++] = c;
    }
    return 1;
}

static int scan_rows(trace *t, int fd, row_scanner *s)
{
    char buffer[BUFFER];
    start_row(s);
    for (;;) {
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) return 0;
        for (ssize_t i = 0; i < n; i++)
            if (!scan_byte(s, t, buffer[i])) return 0;
    }
}

static int header_matches(int fd, const char *columns)
{
    char there[TRACE_COLUMNS + 2];
    size_t n = strlen(columns), got = 0;
    while (got < n + 1) {
        ssize_t m = read(fd, there + got, n + 1 - got);
        if (m < 0 && errno == EINTR) continue;
        if (m <= 0) return 0;
        got += (size_t)m;
    }
    return !memcmp(there, columns, n) && there[n] == '\n';
}

/* Keeps what stays of an old file; the file position does not matter, because rows are appended. */
static int keep_rows(trace *t, int fd, const char *columns, int64_t from, char *error, size_t room)
{
    row_scanner s = {.from = from, .last = -1};
    if (!header_matches(fd, columns))
        return files_fail(error, room, "%s cannot be continued: its header line is not that of this run", t->path);
    s.offset = s.end = (int64_t)strlen(columns) + 1;
    if (scan_rows(t, fd, &s)) return files_cannot("read", t->path, errno, error, room);
    if (ftruncate(fd, (off_t)s.end) || fsync(fd)) return files_cannot("write", t->path, errno, error, room);
    t->kept = s.last;
    t->kept_value = s.kept_value;
    return 0;
}

static int prepare_trace(trace *t, int fd, const char *columns, int64_t from, char *error, size_t room)
{
    if (from > 0 && keep_rows(t, fd, columns, from, error, room)) return -1;
    t->stream = fdopen(fd, "ab");
    if (!t->stream) return files_cannot("open", t->path, errno, error, room);
    (void)setvbuf(t->stream, NULL, _IOFBF, BUFFER);
    if (from > 0) return 0;
    if (fprintf(t->stream, "%s\n", columns) < 0) t->error = errno;
    if (trace_flush(t, error, room)) return -1;
    files_sync_directory(t->path);
    return 0;
}

int trace_open(trace **out, const char *path, const char *columns, int64_t from, char *error, size_t room)
{
    *out = NULL;
    if (strlen(path) >= FILES_PATH || strlen(columns) >= TRACE_COLUMNS)
        return files_fail(error, room, "the path or the header line of a trace is too long");
    trace *t = calloc(1, sizeof *t);
    if (!t) return files_fail(error, room, "no memory to write %s", path);
    (void)snprintf(t->path, sizeof t->path, "%s", path);
    for (const char *p = columns; *p; p++) t->commas += *p == ',';
    t->kept = -1;
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | (from > 0 ? 0 : O_CREAT | O_TRUNC), 0666);
    int status = fd < 0 ? files_cannot("open", path, errno, error, room)
                        : prepare_trace(t, fd, columns, from, error, room);
    if (!status) {
        *out = t;
        return 0;
    }
    if (t->stream)
        (void)fclose(t->stream);
    else if (fd >= 0)
        (void)close(fd);
    free(t);
    return status;
}

void trace_append(trace *t, int64_t iteration, const double *value, int values)
{
    int failed = fprintf(t->stream, "%" PRId64, iteration) < 0;
    for (int i = 0; i < values; i++)
        failed |= isnan(value[i]) ? putc(',', t->stream) == EOF : fprintf(t->stream, ",%.17g", value[i]) < 0;
    failed |= putc('\n', t->stream) == EOF;
    if (failed && !t->error) t->error = errno ? errno : EIO;
}

int trace_flush(trace *t, char *error, size_t room)
{
    errno = 0;
    if ((fflush(t->stream) || fsync(fileno(t->stream))) && !t->error) t->error = errno ? errno : EIO;
    return t->error ? files_cannot("write", t->path, t->error, error, room) : 0;
}

/* ---------------------------------------------------------------------------- fewer rows */

int64_t trace_stride(int64_t n, int64_t every, int64_t most)
{
    int64_t stride = every;
    while (most > 0 && n > 0 && (n - 1) / stride >= most) stride *= 2;
    return stride;
}

/* Copies the header and the rows of multiples of `stride` to `out` (NULL: nowhere); returns how many rows are left out. */
static int64_t copy_rows(FILE *in, atomic_file *out, int64_t stride)
{
    char number[24];
    size_t digits = 0;
    int64_t others = 0;
    int keep = 1, inside = 1; /* the header is kept; inside: after the first field of a row */
    for (int c = getc(in); c != EOF; c = getc(in)) {
        if (!inside && c >= '0' && c <= '9' && digits + 1 < sizeof number) {
            number[digits++] = (char)c;
            continue;
        }
        if (!inside) {
            number[digits] = 0;
            keep = strtoll(number, NULL, 10) % stride == 0;
            others += !keep;
            if (keep && out) atomic_put(out, number, digits);
        }
        inside = c != '\n';
        if (!inside) digits = 0;
        if (keep && out) (void)putc(c, out->stream); /* the file keeps the first error, and atomic_close returns it */
    }
    return others;
}

/* Opens the file that replaced the one of this stream. */
static int reopen(trace *t, char *error, size_t room)
{
    int fd = open(t->path, O_RDWR | O_APPEND | O_CLOEXEC);
    FILE *stream = fd >= 0 ? fdopen(fd, "ab") : NULL;
    if (!stream) {
        (void)files_cannot("open", t->path, errno, error, room);
        if (fd >= 0) (void)close(fd);
        return -1;
    }
    (void)setvbuf(stream, NULL, _IOFBF, BUFFER);
    (void)fclose(t->stream); /* flushed before */
    t->stream = stream;
    return 0;
}

int trace_thin(trace *t, int64_t stride, char *error, size_t room)
{
    uint64_t size;
    atomic_file out;
    FILE *in = stride > 1 ? files_open(t->path, &size, error, room) : NULL;
    if (!in) return stride > 1 ? -1 : 0;
    int64_t others = copy_rows(in, NULL, stride);
    int status = others > 0 ? atomic_open(&out, t->path, error, room) : 0;
    if (others > 0 && !status) {
        rewind(in);
        (void)copy_rows(in, &out, stride);
        if (ferror(in) && !out.error) out.error = EIO;
        status = atomic_close(&out, error, room);
        if (!status) status = reopen(t, error, room);
    }
    (void)fclose(in);
    return status;
}

int trace_close(trace *t, char *error, size_t room)
{
    if (!t) return 0;
    int status = trace_flush(t, error, room);
    if (fclose(t->stream) && !status) status = files_cannot("write", t->path, errno, error, room);
    free(t);
    return status;
}

int64_t trace_kept(const trace *t, double *value)
{
    if (value) *value = t->kept_value;
    return t->kept;
}

/* The names of the fields of sosmc_info, in the order of trace_info; mobility, the last of them, is the youngest. */
#define INFO_COLUMNS                                                                     \
    "iteration,updates,gradient_updates,ess,mean_score,mean_energy,data_energy,penalty," \
    "loss,kl,logz,grad_norm,accept,h,rate,resampled,nonfinite,retries"

void trace_name_theta(int dim_theta, char columns[TRACE_COLUMNS])
{
    size_t n = strlen(columns);
    if (dim_theta > TRACE_THETAS) (void)snprintf(columns + n, TRACE_COLUMNS - n, ",theta_norm");
    for (int j = 0; dim_theta <= TRACE_THETAS && j < dim_theta; j++)
        n += (size_t)snprintf(columns + n, TRACE_COLUMNS - n, ",theta_%d", j + 1);
}

static void name_columns(int dim_theta, int earlier, char out[TRACE_COLUMNS])
{
    (void)snprintf(out, TRACE_COLUMNS, "%s", earlier ? INFO_COLUMNS : INFO_COLUMNS ",mobility");
    trace_name_theta(dim_theta, out);
}

void trace_columns(int dim_theta, char out[TRACE_COLUMNS]) { name_columns(dim_theta, 0, out); }

static int has_header(const char *path, const char *columns)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), same = fd >= 0 && header_matches(fd, columns);
    if (fd >= 0) (void)close(fd);
    return same;
}

int trace_open_info(trace **out, const char *path, int dim_theta, int64_t from, char *error, size_t room)
{
    char columns[TRACE_COLUMNS];
    name_columns(dim_theta, 1, columns);
    int earlier = from > 0 && has_header(path, columns);
    name_columns(dim_theta, earlier, columns);
    if (trace_open(out, path, columns, from, error, room)) return -1;
    (*out)->earlier = earlier;
    return 0;
}

/* The sum has a fixed order, so that its bits do not depend on whether the compiler vectorises it. */
static double norm(const double *x, int n)
{
    double sum = 0.0;
    for (int j = 0; j < n; j++) sum += x[j] * x[j];
    return sqrt(sum);
}

int trace_put_theta(const double *theta, int dim_theta, double value[TRACE_THETAS])
{
    if (dim_theta <= TRACE_THETAS) {
        if (dim_theta > 0) memcpy(value, theta, (size_t)dim_theta * sizeof(double));
        return dim_theta;
    }
    value[0] = norm(theta, dim_theta);
    return 1;
}

enum { TRACE_INFO = 18 }; /* columns between the iteration and theta */

void trace_info(trace *t, const sosmc_info *info, const double *theta, int dim_theta)
{
    double value[TRACE_INFO + TRACE_THETAS] = {(double)info->updates,
                                               (double)info->gradient_updates,
                                               info->ess,
                                               info->mean_score,
                                               info->mean_energy,
                                               info->data_energy,
                                               info->penalty,
                                               info->loss,
                                               info->kl,
                                               info->logz,
                                               info->grad_norm,
                                               info->accept,
                                               info->h,
                                               info->rate,
                                               info->resampled,
                                               info->nonfinite,
                                               info->retries,
                                               info->mobility};
    int n = t->earlier ? TRACE_INFO - 1 : TRACE_INFO;
    trace_append(t, info->iteration, value, n + trace_put_theta(theta, dim_theta, value + n));
}

void trace_time(trace *t, int64_t iteration, double seconds) { trace_append(t, iteration, &seconds, 1); }
