/* plot.c: figures through gnuplot: a figure is checked, its script written (plot_inside.h says by whom), drawn and kept.
 *
 * gnuplot runs as a child process with the script as its standard input and files for output and errors. There are no pipes,
 * so the two processes cannot block each other. Invariant: every child that was started is waited for. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/files.h"
#include "plot_inside.h"

extern char **environ;

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

static int spawn_gnuplot(child *c, char *const argv[])
{
    posix_spawn_file_actions_t a;
    int failed = posix_spawn_file_actions_init(&a);
    if (failed) return failed;
    failed = posix_spawn_file_actions_adddup2(&a, fileno(c->in), 0);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&a, fileno(c->out), 1);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&a, fileno(c->err), 2);
    if (!failed) failed = posix_spawnp(&c->pid, "gnuplot", &a, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&a);
    return failed;
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

static int child_start(child *c)
{
    static char name[] = "gnuplot", plain[] = "-d"; /* -d: the user's own settings must not change our figures */
    char *argv[] = {name, plain, NULL};
    if (fflush(c->in) || lseek(fileno(c->in), 0, SEEK_SET) != 0) return errno;
    return spawn_gnuplot(c, argv);
}

static int child_wait(child *c)
{
    int status = 0;
    pid_t got;
    do got = waitpid(c->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    c->pid = 0;
    return got > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int plot_available(void)
{
    static char name[] = "gnuplot", version[] = "--version";
    char *argv[] = {name, version, NULL};
    child c;
    if (child_open(&c)) return 0;
    int there = !spawn_gnuplot(&c, argv) && child_wait(&c) == 0;
    child_clean(&c);
    return there;
}

/* ---------------------------------------------------------------------------- one picture */

static int start_picture(child *c, const plot_figure *f, plot_format format, char *error, size_t room)
{
    *c = (child){0};
    if (check_figure(f, error, room)) return -1;
    legend *l = malloc(sizeof *l);
    if (!l) return files_fail(error, room, "no memory to draw figure %s", f->name);
    plot_collect_legend(f, l);
    int failed = child_open(c);
    if (!failed) {
        canvas g = plot_make_canvas(f, l, format, c->in);
        plot_put_figure(&g, f, l);
        failed = ferror(c->in) ? EIO : child_start(c);
    }
    free(l);
    if (!failed) return 0;
    child_clean(c);
    if (failed == ENOENT) return files_fail(error, room, "%s", PLOT_ADVICE);
    return files_fail(error, room, "cannot run gnuplot for figure %s: %s", f->name, strerror(failed));
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
    int code = child_wait(c), status = 0;
    struct stat st;
    *bytes = NULL;
    *size = 0;
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

static int write_picture(const plot_figure *f, const char *dir, const char *ending, const char *bytes, size_t size,
                         char *error, size_t room)
{
    char name[512], path[FILES_PATH];
    (void)snprintf(name, sizeof name, "%.500s.%s", f->name, ending);
    if (files_join(path, dir, name, error, room)) return -1;
    return files_write(path, bytes, size, error, room);
}

/* Both formats of a figure are drawn side by side. */
static int write_figure(const plot_figure *f, const char *dir, char **svg, char *error, size_t room)
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
            (void)child_wait(&c[k]);
            child_clean(&c[k]);
            continue;
        }
        status = finish_picture(&c[k], f, (plot_format)k, &bytes, &size, error, room);
        if (!status) status = write_picture(f, dir, endings[k], bytes, size, error, room);
        if (!status && k == PLOT_SVG && svg)
            *svg = bytes;
        else
            free(bytes);
    }
    return status;
}

int plot_write(const plot_figure *figure, int n, const char *dir, char **svg, char *error, size_t room)
{
    int status = files_directory(dir, error, room);
    for (int i = 0; svg && i < n; i++) svg[i] = NULL;
    for (int i = 0; i < n && !status; i++) status = write_figure(&figure[i], dir, svg ? &svg[i] : NULL, error, room);
    for (int i = 0; svg && status && i < n; i++) {
        free(svg[i]);
        svg[i] = NULL;
    }
    return status;
}
