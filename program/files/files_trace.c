/* files_trace.c: rows that survive a crash and end as if there had been none.
 *
 *     header | rows below `from`: kept | rows the resumed run writes again, half a line, zeros: cut off on opening
 *
 * Invariant: the file is the header and whole rows with rising iterations, then at most what is not flushed yet. A file
 * that is thinned or was damaged is replaced, never changed in place. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

enum { BUFFER = 65536, ROW = 8192 /* longer lines are none of ours */, NOTE = FILES_PATH + 256 };

struct trace {
    FILE *stream;
    int earlier;        /* the columns are those of earlier versions, without mobility */
    int error, commas;  /* errno of the first failure; commas in every row */
    int64_t kept, size; /* size: of the file, with what is not flushed yet */
    double kept_value;
    char path[FILES_PATH], note[NOTE];
};

/* ---------------------------------------------------------------------------- old rows */

/* One pass over an old file, a byte at a time, in bounded memory. */
typedef struct {
    int64_t offset, end; /* of the next byte; of the last row that is kept */
    int64_t from, last;
    int64_t line, rows;     /* the number of this line, from 1 on; rows that are kept */
    int64_t first_bad, bad; /* the first damaged line; how many */
    int64_t waiting, maybe; /* the first line, and how many, that are damage if a row that is kept follows them */
    int header;             /* the header line is that of this file */
    size_t length;          /* bytes of this line */
    int zeros;              /* it has bytes that are 0 */
    double kept_value;
    char row[ROW + 1];
} row_scanner;

/* Whether the line is a row of this file: a whole number and as many further numbers, or empty fields, as there are columns. */
static int is_row(const row_scanner *s, int commas, int64_t *iteration)
{
    size_t digits = strspn(s->row, "0123456789");
    int n = 0;
    if (s->zeros || s->length > ROW || digits < 1 || digits > 18 || s->row[digits] != ',') return 0;
    for (const char *p = s->row; *p; p++) n += *p == ',';
    *iteration = strtoll(s->row, NULL, 10);
    return n == commas && strspn(s->row, "0123456789+-.einfa,") == s->length;
}

static void note_bad(row_scanner *s, int64_t line, int64_t lines)
{
    if (!s->first_bad) s->first_bad = line;
    s->bad += lines;
}

/* A line that is no row. A crash may leave one with zeros in it, which is damage only where rows that are kept follow; it never
 * leaves one that is whole and wrong. */
static void meet_no_row(row_scanner *s)
{
    if (!s->zeros) {
        note_bad(s, s->line, 1);
        return;
    }
    if (!s->maybe++) s->waiting = s->line;
}

static void keep_row(row_scanner *s, int64_t iteration)
{
    if (s->maybe) note_bad(s, s->waiting, s->maybe);
    s->maybe = 0;
    s->kept_value = strtod(strchr(s->row, ',') + 1, NULL);
    s->last = iteration;
    s->end = s->offset;
    s->rows++;
}

/* At the end of a line. 1: it is a row that is kept; 0: it is not; -1: rows that are written again begin. */
static int end_line(row_scanner *s, const char *columns, int commas)
{
    int64_t iteration = -1;
    int kept = 0;
    s->row[s->length < ROW ? s->length : ROW] = 0;
    if (s->line == 1 && !s->zeros && strcmp(s->row, columns) == 0) {
        s->header = 1;
        s->end = s->offset;
    } else if (!is_row(s, commas, &iteration) || iteration <= s->last) {
        if (s->line > 1) meet_no_row(s);
    } else if (iteration >= s->from) {
        return -1;
    } else {
        keep_row(s, iteration);
        kept = 1;
    }
    return kept;
}

/* Copies the rows that are kept to `out`, unless that is NULL. */
static int scan_rows(FILE *in, const trace *t, const char *columns, int64_t from, row_scanner *s, atomic_file *out)
{
    *s = (row_scanner){.from = from, .last = -1, .line = 1};
    rewind(in);
    for (int c = getc(in); c != EOF; c = getc(in)) {
        s->offset++;
        if (c != '\n') {
            if (s->length < ROW) s->row[s->length] = (char)c;
            s->length += s->length <= ROW;
            s->zeros |= c == 0;
            continue;
        }
        int kept = end_line(s, columns, t->commas);
        if (kept < 0) break;
        if (kept && out) atomic_print(out, "%s\n", s->row);
        s->line++;
        s->length = 0;
        s->zeros = 0;
    }
    return ferror(in) ? -1 : 0;
}

/* ---------------------------------------------------------------------------- damaged files */

/* Gives the old file a second name, which stays. */
static int keep_aside(const char *path, char aside[FILES_PATH + 16], char *error, size_t room)
{
    for (int i = 1; i < 1000; i++) {
        char number[8] = "";
        if (i > 1) (void)snprintf(number, sizeof number, "-%d", i);
        (void)snprintf(aside, FILES_PATH + 16, "%s.damaged%s", path, number);
        if (link(path, aside) == 0) return 0;
        if (errno == EEXIST) continue;
        /* A file system without hard links: the file moves. */
        if (access(aside, F_OK) != 0 && rename(path, aside) == 0) return 0;
        break;
    }
    return files_cannot("keep", path, errno, error, room);
}

/* A new file of the rows that are whole takes the place of a damaged one. */
static int replace_damaged(trace *t, FILE *in, const char *columns, int64_t from, row_scanner *s, char *error,
                           size_t room)
{
    char aside[FILES_PATH + 16];
    atomic_file out;
    int64_t lines = s->bad;
    if (atomic_open(&out, t->path, error, room)) return -1;
    atomic_print(&out, "%s\n", columns);
    if (scan_rows(in, t, columns, from, s, &out) && !out.error) out.error = EIO;
    if (keep_aside(t->path, aside, error, room)) {
        atomic_abandon(&out);
        return -1;
    }
    if (atomic_close(&out, error, room)) return -1;
    char what[96] = "its header line is not that of this run";
    if (lines > 0)
        (void)snprintf(what, sizeof what, "%" PRId64 " of its lines, the first of them line %" PRId64 ", %s no rows",
                       lines, s->first_bad, lines == 1 ? "is" : "are");
    (void)snprintf(t->note, sizeof t->note,
                   "%.3800s was damaged: %s; it is kept as %.255s, and the run goes on with the %" PRId64
                   " rows that are whole",
                   t->path, what, files_last_part(aside), s->rows);
    return 0;
}

/* ---------------------------------------------------------------------------- opening */

enum { NO_LINK = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK }; /* NONBLOCK: a FIFO must not make us wait */

static void note_size(trace *t)
{
    struct stat st = {0};
    (void)fstat(fileno(t->stream), &st);
    t->size = st.st_size;
}

static int append_to(trace *t, int created, char *error, size_t room)
{
    int fd = open(t->path, O_RDWR | O_APPEND | NO_LINK | (created ? O_CREAT | O_EXCL : 0), 0666);
    FILE *stream = fd >= 0 ? fdopen(fd, "ab") : NULL;
    if (!stream) {
        (void)files_cannot("open", t->path, errno, error, room);
        if (fd >= 0) (void)close(fd);
        return -1;
    }
    (void)setvbuf(stream, NULL, _IOFBF, BUFFER);
    if (t->stream) (void)fclose(t->stream); /* flushed before */
    t->stream = stream;
    note_size(t);
    return 0;
}

/* Begins a new file. An old one is removed instead of emptied, because it might have another name elsewhere. */
static int begin_trace(trace *t, const char *columns, char *error, size_t room)
{
    if (unlink(t->path) && errno != ENOENT) return files_cannot("remove", t->path, errno, error, room);
    if (append_to(t, 1, error, room)) return -1;
    int n = fprintf(t->stream, "%s\n", columns);
    if (n < 0) t->error = errno;
    t->size += n;
    if (trace_flush(t, error, room)) return -1;
    files_sync_directory(t->path);
    return 0;
}

/* Keeps what stays of an old file. */
static int continue_trace(trace *t, FILE *in, const char *columns, int64_t from, char *error, size_t room)
{
    row_scanner *s = malloc(sizeof *s);
    if (!s) return files_fail(error, room, "no memory to read %s", t->path);
    int status = scan_rows(in, t, columns, from, s, NULL) ? files_cannot("read", t->path, errno, error, room) : 0;
    int damaged = !s->header || s->bad > 0;
    if (!status && damaged) status = replace_damaged(t, in, columns, from, s, error, room);
    if (!status) status = append_to(t, 0, error, room);
    if (!status && !damaged && (ftruncate(fileno(t->stream), (off_t)s->end) || fsync(fileno(t->stream))))
        status = files_cannot("write", t->path, errno, error, room);
    if (!status) note_size(t);
    t->kept = s->last;
    t->kept_value = s->kept_value;
    free(s);
    return status;
}

static int open_old_or_new(trace *t, const char *columns, int64_t from, char *error, size_t room)
{
    uint64_t size;
    if (directory_no_link(t->path, error, room)) return -1;
    if (from == 0) return begin_trace(t, columns, error, room);
    if (access(t->path, F_OK) != 0 && errno == ENOENT) {
        (void)snprintf(t->note, sizeof t->note, "%.3900s was missing; it begins again with iteration %" PRId64, t->path,
                       from);
        return begin_trace(t, columns, error, room);
    }
    FILE *in = files_open(t->path, &size, error, room);
    if (!in) return -1;
    int status = continue_trace(t, in, columns, from, error, room);
    (void)fclose(in);
    return status;
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
    if (open_old_or_new(t, columns, from, error, room) == 0) {
        *out = t;
        return 0;
    }
    if (t->stream) (void)fclose(t->stream);
    free(t);
    return -1;
}

const char *trace_note(const trace *t) { return t->note; }

void trace_append(trace *t, int64_t iteration, const double *value, int values)
{
    int n = fprintf(t->stream, "%" PRId64, iteration), failed = n < 0;
    t->size += n;
    for (int i = 0; i < values; i++) {
        n = isnan(value[i]) ? fprintf(t->stream, ",") : fprintf(t->stream, ",%.17g", value[i]);
        failed |= n < 0;
        t->size += n;
    }
    failed |= putc('\n', t->stream) == EOF;
    t->size++;
    if (failed && !t->error) t->error = errno ? errno : EIO;
}

/* Whether the file of this name is the one that is written, with every byte. */
static int is_whole(const trace *t)
{
    struct stat here, there;
    return fstat(fileno(t->stream), &here) == 0 && lstat(t->path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino && here.st_size == t->size;
}

int trace_flush(trace *t, char *error, size_t room)
{
    errno = 0;
    if ((fflush(t->stream) || fsync(fileno(t->stream))) && !t->error) t->error = errno ? errno : EIO;
    if (t->error) return files_cannot("write", t->path, t->error, error, room);
    if (is_whole(t)) return 0;
    return files_fail(
        error, room,
        "%s was removed, replaced or changed while the run wrote to it; --resume goes on from the last checkpoint",
        t->path);
}

/* ---------------------------------------------------------------------------- fewer rows */

int64_t trace_stride(int64_t n, int64_t every, int64_t most)
{
    int64_t stride = every;
    while (most > 0 && n > 0 && (n - 1) / stride >= most) stride *= 2;
    return stride;
}

/* Copies the header and the rows of multiples of `stride` to `out` (NULL: nowhere); returns how many rows are left out. *kept counts
 * the others. */
static int64_t copy_rows(FILE *in, atomic_file *out, int64_t stride, int64_t *kept)
{
    char number[24];
    size_t digits = 0;
    int64_t others = 0;
    *kept = -1;               /* the header */
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
        *kept += !inside && keep;
        if (keep && out) (void)putc(c, out->stream); /* the file keeps the first error, and atomic_close returns it */
    }
    return others;
}

int trace_thin(trace *t, int64_t stride, char *error, size_t room)
{
    uint64_t size;
    atomic_file out;
    FILE *in = stride > 1 ? files_open(t->path, &size, error, room) : NULL;
    if (!in) return stride > 1 ? -1 : 0;
    int64_t kept, others = copy_rows(in, NULL, stride, &kept);
    int status = others > 0 ? atomic_open(&out, t->path, error, room) : 0;
    if (others > 0 && !status) {
        rewind(in);
        (void)copy_rows(in, &out, stride, &kept);
        if (ferror(in) && !out.error) out.error = EIO;
        status = atomic_close(&out, error, room);
        if (!status) status = append_to(t, 0, error, room); /* to the file that took its place */
    }
    (void)fclose(in);
    return status;
}

void trace_note_missing(trace *t, int64_t from, int64_t stride)
{
    uint64_t size;
    FILE *in = *t->note || from == 0 ? NULL : files_open(t->path, &size, NULL, 0);
    if (!in) return;
    int64_t kept, expected = (from + stride - 1) / stride;
    (void)copy_rows(in, NULL, stride, &kept);
    (void)fclose(in);
    if (kept < expected)
        (void)snprintf(t->note, sizeof t->note,
                       "%.3800s has %" PRId64 " of the %" PRId64 " rows before %" PRId64
                       ": the others were removed, or output.thin was larger; the run goes on without them",
                       t->path, kept, expected, from);
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
    char there[TRACE_COLUMNS + 2];
    uint64_t size;
    FILE *f = files_open(path, &size, NULL, 0);
    const char *line = f ? fgets(there, sizeof there, f) : NULL;
    size_t n = strlen(columns);
    int same = line && strncmp(there, columns, n) == 0 && there[n] == '\n';
    if (f) (void)fclose(f);
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
