/* plot.c: figures through gnuplot: a figure is checked, its script written (plot_inside.h says by whom), drawn and kept.
 *
 * gnuplot runs as a child process with the script as its standard input and files for output and errors. There are no pipes,
 * so the two processes cannot block each other; and one that takes too long is ended. Invariant: every child that was started is
 * waited for. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/child.h"
#include "files/directory.h"
#include "files/files.h"
#include "plot_inside.h"

int plot_thin(const double *x, const double *y, int n, int limit, double *out_x, double *out_y)
{
    int m = 0, buckets = limit / 2 > 0 ? limit / 2 : 1;
    if (n <= limit) {
        memmove(out_x, x, (size_t)n * sizeof *x);
        memmove(out_y, y, (size_t)n * sizeof *y);
        return n;
    }
    for (int b = 0; b < buckets; b++) {
        int first = (int)((int64_t)n * b / buckets), last = (int)((int64_t)n * (b + 1) / buckets), low = first,
            high = first;
        for (int i = first; i < last; i++) {
            if (y[i] < y[low] || isnan(y[low])) low = i;
            if (y[i] > y[high] || isnan(y[high])) high = i;
        }
        int one = low < high ? low : high, two = low < high ? high : low;
        double x1 = x[one], y1 = y[one], x2 = x[two], y2 = y[two];
        out_x[m] = x1;
        out_y[m++] = y1;
        if (two == one) continue;
        out_x[m] = x2;
        out_y[m++] = y2;
    }
    return m;
}

/* ---------------------------------------------------------------------------- what can be drawn */

static int odd_lattice(const plot_lattice *l)
{
    if (!l) return 0;
    if (l->nx < 2 || l->ny < 2 || l->nx > 2000 || l->ny > 2000 || !l->z) return 1;
    return !(l->x_min < l->x_max) || !(l->y_min < l->y_max);
}

static int check_figure(const plot_figure *f, char *error, size_t room)
{
    if (!f->name || !*f->name || strchr(f->name, '/'))
        return files_fail(error, room, "a figure needs a name without slashes");
    if (f->panels < 1 || f->panels > PANELS)
        return files_fail(error, room, "figure %s has %d panels; 1 to %d can be drawn", f->name, f->panels, PANELS);
    const plot_scale *c = f->scale;
    if (c && (!(c->min < c->max) || (c->log && !(c->min > 0.0)) || !isfinite(c->max - c->min)))
        return files_fail(error, room, "figure %s has a colour scale from %g to %g; it has to grow%s", f->name, c->min,
                          c->max, c->log ? " from above 0" : "");
    for (int i = 0; i < f->panels; i++)
        if (f->panel[i].hexagons && !c) return files_fail(error, room, "figure %s has hexagons but no scale", f->name);
    for (int i = 0; i < f->panels; i++)
        if (odd_lattice(f->panel[i].heat) || odd_lattice(f->panel[i].contour))
            return files_fail(error, room, "figure %s has a lattice without extent or values", f->name);
    return 0;
}

/* ---------------------------------------------------------------------------- the child */

typedef struct {
    pid_t pid; /* 0: not running */
    FILE *in, *out, *err;
} child;

static void child_clean(child *c)
{
    if (c->in) (void)fclose(c->in);
    if (c->out) (void)fclose(c->out);
    if (c->err) (void)fclose(c->err);
    *c = (child){0};
}

static int spawn_gnuplot(child *c, const char *argument)
{
    const char *const argv[] = {"gnuplot", argument, NULL};
    return child_start(&c->pid, argv, fileno(c->in), fileno(c->out), fileno(c->err));
}

/* Opens temporary files without names, which the system removes whatever happens. */
static int child_open(child *c)
{
    *c = (child){.in = tmpfile(), .out = tmpfile(), .err = tmpfile()};
    if (c->in && c->out && c->err) return 0;
    int number = errno;
    child_clean(c);
    return number ? number : EIO;
}

static int start_gnuplot(child *c)
{
    if (fflush(c->in) || lseek(fileno(c->in), 0, SEEK_SET) != 0) return errno;
    return spawn_gnuplot(c, "-d"); /* the user's own settings must not change our figures */
}

/* Seconds that gnuplot may take for a figure. */
static double patience(void)
{
    const char *text = getenv("SOSMC_GNUPLOT_SECONDS");
    double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : 30;
}

static atomic_int hangs; /* gnuplot did not end in time once: it is not tried again */

static int wait_for_gnuplot(child *c)
{
    int code = child_wait(c->pid, patience());
    c->pid = 0;
    if (code == CHILD_LATE) atomic_store(&hangs, 1);
    return code;
}

static int cannot_start(int number, char *error, size_t room)
{
    if (number == ENOENT) return files_fail(error, room, "%s", PLOT_ADVICE);
    return files_fail(error, room, "gnuplot could not be started: %s", strerror(number));
}

/* In words why gnuplot did not end well, where that is known without its own words. 0: it ended by itself. */
static int say_end(int code, char *error, size_t room)
{
    if (code == CHILD_LATE || atomic_load(&hangs))
        return files_fail(error, room, "gnuplot did not end within %g seconds", patience());
    if (code == CHILD_STOPPED) return files_fail(error, room, "gnuplot was stopped, because this program was");
    if (code > 128) return files_fail(error, room, "gnuplot was ended by signal %d", code - 128);
    return code < 0 ? files_fail(error, room, "gnuplot cannot be waited for") : 0;
}

int plot_check(char *error, size_t room)
{
    child c;
    if (atomic_load(&hangs)) return say_end(CHILD_LATE, error, room);
    int failed = child_open(&c);
    if (!failed) failed = spawn_gnuplot(&c, "--version");
    int status = failed ? cannot_start(failed, error, room) : 0, code = failed ? 0 : wait_for_gnuplot(&c);
    if (!failed) status = say_end(code, error, room);
    if (!failed && !status && code)
        status = files_fail(error, room, "'gnuplot --version' failed with exit code %d", code);
    child_clean(&c);
    return status;
}

int plot_available(void) { return plot_check(NULL, 0) == 0; }

/* ---------------------------------------------------------------------------- one picture */

static int start_picture(child *c, const plot_figure *f, plot_format format, char *error, size_t room)
{
    *c = (child){0};
    if (check_figure(f, error, room)) return -1;
    if (atomic_load(&hangs)) return say_end(CHILD_LATE, error, room);
    legend *l = malloc(sizeof *l);
    if (!l) return files_fail(error, room, "no memory to draw figure %s", f->name);
    plot_collect_legend(f, l);
    int failed = child_open(c);
    if (!failed) {
        canvas g = plot_make_canvas(f, l, format, c->in);
        plot_put_figure(&g, f, l);
        failed = ferror(c->in) ? EIO : start_gnuplot(c);
    }
    free(l);
    if (!failed) return 0;
    child_clean(c);
    return cannot_start(failed, error, room);
}

static char *whole_stream(FILE *f, size_t *size)
{
    struct stat st;
    if (fstat(fileno(f), &st) || fseek(f, 0, SEEK_SET)) return NULL;
    *size = (size_t)st.st_size;
    char *bytes = malloc(*size + 1);
    if (bytes && fread(bytes, 1, *size, f) != *size) {
        free(bytes);
        return NULL;
    }
    if (bytes) bytes[*size] = 0;
    return bytes;
}

/* The error message of gnuplot without empty lines and without the quoted line of the script. */
static int gnuplot_said(const plot_figure *f, child *c, char *error, size_t room)
{
    size_t n = 0;
    char *text = whole_stream(c->err, &n), *last = text;
    for (char *p = text; p && *p; p++) {
        if (*p != '\n') continue;
        *p = 0;
        if (p[1] && p[1] != '\n') last = p + 1;
    }
    (void)files_fail(error, room, "gnuplot failed on figure %s: %.300s", f->name,
                     last && *last ? last : "it gives no reason");
    free(text);
    return -1;
}

static int finish_picture(child *c, const plot_figure *f, plot_format format, char **bytes, size_t *size, char *error,
                          size_t room)
{
    int code = wait_for_gnuplot(c), status = say_end(code, error, room);
    struct stat st;
    *bytes = NULL;
    *size = 0;
    if (status) {
        child_clean(c);
        return status;
    }
    if (code || fstat(fileno(c->out), &st) || st.st_size == 0) {
        status = gnuplot_said(f, c, error, room);
    } else {
        *bytes = whole_stream(c->out, size);
        if (*bytes && format == PLOT_SVG) plot_merge_polygons(*bytes, size);
        if (!*bytes)
            status = files_fail(error, room, "cannot read what gnuplot drew for figure %s: %s", f->name,
                                strerror(errno));
    }
    child_clean(c);
    return status;
}

int plot_render(const plot_figure *figure, plot_format format, char **bytes, size_t *size, char *error, size_t room)
{
    child c;
    *bytes = NULL;
    *size = 0;
    if (start_picture(&c, figure, format, error, room)) return -1;
    return finish_picture(&c, figure, format, bytes, size, error, room);
}

/* ---------------------------------------------------------------------------- many figures */

/* A figure can be drawn again at any time, so nobody waits for the disk. */
static int write_picture(const plot_figure *f, int folder, const char *dir, const char *ending, const char *bytes,
                         size_t size, char *error, size_t room)
{
    char name[512], path[FILES_PATH];
    atomic_file file;
    (void)snprintf(name, sizeof name, "%.500s.%s", f->name, ending);
    if (files_join(path, dir, name, error, room) || atomic_open_in(&file, folder, path, error, room)) return -1;
    atomic_put(&file, bytes, size);
    return atomic_close_loosely(&file, error, room);
}

/* Both formats of a figure are drawn side by side. */
static int write_figure(const plot_figure *f, int folder, const char *dir, char **svg, char *error, size_t room)
{
    static const char *const endings[PLOT_FORMATS] = {"svg", "pdf"};
    child c[PLOT_FORMATS] = {{0}};
    int status = 0;
    for (int k = 0; k < PLOT_FORMATS && !status; k++) status = start_picture(&c[k], f, (plot_format)k, error, room);
    for (int k = 0; k < PLOT_FORMATS; k++) {
        char *bytes = NULL;
        size_t size = 0;
        if (c[k].pid == 0) continue;
        if (status) { /* the other format failed, and its error message is kept */
            (void)wait_for_gnuplot(&c[k]);
            child_clean(&c[k]);
            continue;
        }
        status = finish_picture(&c[k], f, (plot_format)k, &bytes, &size, error, room);
        if (!status) status = write_picture(f, folder, dir, endings[k], bytes, size, error, room);
        if (!status && k == PLOT_SVG && svg)
            *svg = bytes;
        else
            free(bytes);
    }
    return status;
}

int plot_write(const plot_figure *figure, int n, const char *dir, char **svg, char *error, size_t room)
{
    int folder = directory_folder(dir, error, room), status = folder < 0 ? -1 : 0;
    for (int i = 0; svg && i < n; i++) svg[i] = NULL;
    for (int i = 0; i < n && !status; i++)
        status = write_figure(&figure[i], folder, dir, svg ? &svg[i] : NULL, error, room);
    if (folder >= 0) (void)close(folder);
    for (int i = 0; svg && status && i < n; i++) {
        free(svg[i]);
        svg[i] = NULL;
    }
    return status;
}
