/* deblur_page.c: the pictures and the page of `sosmc deblur`:
 *
 *     restored.png    the posterior mean, with the bits of the photograph
 *     sd.png          the posterior standard deviation, over the channels, from black (0) to white (SD_TOP of the pixels
 *                     are below it; deblur.json says how much that is)
 *     before.png      what was restored
 *     deblur.json     the figures below
 *     report.html     all of it on one page, with figures/compared.png, small enough to be shown
 *
 * Everything but the photograph comes from what the run left, so a finished run that is resumed gets the same page, and
 * `sosmc report` writes it again with the same bytes. */
#include "deblur_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/imaging.h>

#include "files/child.h"
#include "files/directory.h"
#include "files/files.h"
#include "view/page.h"
#include "view/plot.h"

enum { VALUE = 64, SHOWN = 900 /* pixels across, of pictures on the page */, CURVE = 1000 /* points of a curve */ };
static const double SD_TOP = 0.99, RANGE = 255, NORMAL_95 = 1.959963984540054;

typedef struct {
    const deblur_outcome *o;
    image mean, sd, map; /* sd: per channel; map: one channel */
    double top;          /* sd that is white */
    double theta, seconds, per_megapixel;
    int64_t iterations, clouds, particles;
    int finished, simulated;
    quality_figures before, after;
    double coverage; /* simulated: of intervals of 1.96 standard deviations */
    csv_table trace;
    json_t *summary; /* of the run */
} results;

static size_t pixels_of(const image *im) { return (size_t)im->rows * (size_t)im->columns; }

/* ---------------------------------------------------------------------------- what the run left */

static int read_moment(const results *r, const char *name, image *out, char *error, size_t room)
{
    char path[FILES_PATH];
    const image *seen = r->o->seen;
    npy_array a = {0};
    if (files_join(path, r->o->dir, name, error, room) || npy_read(path, &a, error, room)) return -1;
    size_t all = pixels_of(seen) * (size_t)seen->channels;
    *out = *seen;
    out->pixel = npy_count(&a) == (int64_t)all ? malloc(all * sizeof(double)) : NULL;
    if (out->pixel) npy_doubles(&a, out->pixel);
    npy_free(&a);
    return out->pixel ? 0
                      : files_fail(error, room, "%s cannot be used; expected %d x %d x %d numbers, and memory for them",
                                   path, seen->channels, seen->rows, seen->columns);
}

static int read_summary(results *r, char *error, size_t room)
{
    char path[FILES_PATH];
    if (files_join(path, r->o->dir, "summary.json", error, room) || json_read(path, &r->summary, error, room))
        return -1;
    const json_t *summary = r->summary;
    r->theta = json_value(json_array_get(json_object_get(summary, "theta"), 0));
    r->iterations = (int64_t)json_value_of(summary, "iterations");
    r->seconds = json_value_of(summary, "seconds");
    r->particles = (int64_t)json_value_of(summary, "particles");
    r->clouds = (int64_t)json_value_of(summary, "moments_clouds");
    r->finished = json_is_true(json_object_get(summary, "finished"));
    r->per_megapixel = r->seconds / ((double)r->iterations * 1e-6 * (double)pixels_of(r->o->seen));
    return 0;
}

/* ---------------------------------------------------------------------------- measures */

static int compare(quality_figures *out, const image *truth, const image *x, char *error, size_t room)
{
    size_t all = pixels_of(truth) * (size_t)truth->channels;
    double *scratch = malloc((sosmc_ssim_scratch(truth->columns) + 1) * sizeof *scratch);
    if (!scratch) return files_fail(error, room, "out of memory to compare pictures");
    *out = (quality_figures){
        .mse = sosmc_mse(all, truth->pixel, x->pixel),
        .psnr = sosmc_psnr(all, RANGE, truth->pixel, x->pixel),
        .ssim = sosmc_ssim(truth->rows, truth->columns, truth->channels, RANGE, truth->pixel, x->pixel, scratch)};
    free(scratch);
    return 0;
}

static int judge(results *r, char *error, size_t room)
{
    const image *truth = r->o->clean;
    if (!truth) return 0;
    size_t all = pixels_of(truth) * (size_t)truth->channels, inside = 0;
    r->simulated = 1;
    for (size_t j = 0; j < all; j++) inside += fabs(r->mean.pixel[j] - truth->pixel[j]) <= NORMAL_95 * r->sd.pixel[j];
    r->coverage = (double)inside / (double)all;
    return compare(&r->before, truth, r->o->seen, error, room) || compare(&r->after, truth, &r->mean, error, room) ? -1
                                                                                                                   : 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One standard deviation per pixel, the root mean square over the channels, and the one that is shown white. */
static int map_sd(results *r, char *error, size_t room)
{
    size_t pixels = pixels_of(&r->sd);
    double *sorted = malloc(pixels * sizeof *sorted);
    r->map = (image){.channels = 1, .rows = r->sd.rows, .columns = r->sd.columns, .bits = r->sd.bits};
    r->map.pixel = calloc(pixels, sizeof(double));
    if (!sorted || !r->map.pixel) {
        free(sorted);
        return files_fail(error, room, "out of memory for the map of standard deviations");
    }
    for (int c = 0; c < r->sd.channels; c++)
        for (size_t j = 0; j < pixels; j++) {
            double sd = r->sd.pixel[(size_t)c * pixels + j];
            r->map.pixel[j] += sd * sd / r->sd.channels;
        }
    for (size_t j = 0; j < pixels; j++) sorted[j] = r->map.pixel[j] = sqrt(r->map.pixel[j]);
    qsort(sorted, pixels, sizeof *sorted, ascending);
    r->top = fmax(sorted[(size_t)(SD_TOP * (double)(pixels - 1))], 1e-9);
    free(sorted);
    return 0;
}

/* ---------------------------------------------------------------------------- pictures */

static int write_picture(const results *r, const char *name, const image *im, int bits, double high, char *error,
                         size_t room)
{
    char path[FILES_PATH];
    return files_join(path, r->o->dir, name, error, room) || image_write(path, im, bits, 0, high, error, room) ? -1 : 0;
}

/* Means over squares of `side` pixels, into `out`; what is left at the right and at the bottom is cut off. */
static void shrink(const image *im, int side, double *out)
{
    int rows = im->rows / side, columns = im->columns / side;
    size_t at = 0;
    for (int c = 0; c < im->channels; c++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++, at++) {
                out[at] = 0;
                for (int a = 0; a < side; a++)
                    for (int b = 0; b < side; b++)
                        out[at] +=
                            im->pixel[((size_t)c * (size_t)im->rows + (size_t)(i * side + a)) * (size_t)im->columns +
                                      (size_t)(j * side + b)] /
                            ((double)side * side);
            }
}

/* Some pictures of one size side by side, small enough for the page. */
static int write_row(const results *r, const char *name, const image *const *im, int count, double high, char *error,
                     size_t room)
{
    char folder[FILES_PATH], path[FILES_PATH];
    int longest = im[0]->columns > im[0]->rows ? im[0]->columns : im[0]->rows;
    int side = (longest + SHOWN - 1) / SHOWN, rows = im[0]->rows / side, columns = im[0]->columns / side;
    if (rows < 1 || columns < 1) return 0; /* fewer than `side` pixels high or wide: nothing is shown */
    size_t each = (size_t)im[0]->channels * (size_t)rows * (size_t)columns;
    double *value = malloc((size_t)count * each * sizeof *value);
    if (!value) return files_fail(error, room, "out of memory for %s", name);
    for (int k = 0; k < count; k++) shrink(im[k], side, value + (size_t)k * each);
    image_grid grid = {.columns = count,
                       .magnify = longest < 240 ? 240 / longest : 1,
                       .line = 3,
                       .shade = 255,
                       .low = 0,
                       .high = high};
    int rc = files_join(folder, r->o->dir, "figures", error, room) || directory_make(folder, error, room) ||
                     files_join(path, folder, name, error, room) ||
                     image_grid_write(path, value, count, im[0]->channels, rows, columns, &grid, error, room)
                 ? -1
                 : 0;
    free(value);
    return rc;
}

static int write_pictures(const results *r, char *error, size_t room)
{
    const image *compared[] = {r->o->seen, &r->mean, r->o->clean}, *map[] = {&r->map};
    if (write_picture(r, "restored.png", &r->mean, r->o->bits, RANGE, error, room) ||
        write_picture(r, "before.png", r->o->seen, r->o->bits, RANGE, error, room) ||
        write_picture(r, "sd.png", &r->map, 8, r->top, error, room))
        return -1;
    return write_row(r, "compared.png", compared, r->simulated ? 3 : 2, RANGE, error, room) ||
                   write_row(r, "sd.png", map, 1, r->top, error, room)
               ? -1
               : 0;
}

static void json_quality(json_writer *w, const char *key, const quality_figures *f)
{
    json_open_object(w, key);
    json_put_number(w, "mse", f->mse);
    json_put_number(w, "psnr", f->psnr);
    json_put_number(w, "ssim", f->ssim);
    json_close(w);
}

/* The name of a file of the directory, relative to it, which stays right when the directory is moved; NULL: it lies elsewhere.
 * The caller frees. */
static char *name_below(const char *dir, const char *path)
{
    char *real = realpath(dir, NULL), *name = NULL;
    size_t n = real ? strlen(real) : 0;
    if (n > 1 && strncmp(path, real, n) == 0 && path[n] == '/') name = strdup(path + n + 1);
    free(real);
    return name;
}

static int write_figures(const results *r, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, r->o->dir, "deblur.json", error, room) || atomic_open(&f, path, error, room)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "photo", r->o->photo);
    char *below = name_below(r->o->dir, r->o->photo_path);
    json_put_text(&w, "photo_path", below ? below : r->o->photo_path);
    free(below);
    json_put_truth(&w, "seen_stored", r->o->seen_stored);
    json_put_truth(&w, "simulated", r->simulated);
    json_put_whole(&w, "bits", r->o->bits);
    json_open_list(&w, "warnings");
    if (r->o->warning) json_put_text(&w, NULL, r->o->warning);
    json_close(&w);
    json_put_text(&w, "blur", r->o->blur);
    json_put_whole(&w, "frame", r->o->frame);
    json_put_number(&w, "noise", r->o->sigma);
    json_put_number(&w, "noise_estimated", r->o->estimated);
    json_put_number(&w, "theta_start", r->o->theta0);
    json_put_number(&w, "theta", r->theta);
    json_put_number(&w, "strength", exp(r->theta));
    json_put_number(&w, "sd_white", r->top);
    json_put_whole(&w, "iterations", r->iterations);
    json_put_whole(&w, "clouds_averaged", r->clouds);
    json_put_number(&w, "seconds", r->seconds);
    json_put_number(&w, "seconds_per_megapixel_and_iteration", r->per_megapixel);
    if (r->simulated) {
        json_quality(&w, "before", &r->before);
        json_quality(&w, "after", &r->after);
        json_put_number(&w, "coverage_95", r->coverage);
    }
    json_close(&w);
    return atomic_close(&f, error, room);
}

/* ---------------------------------------------------------------------------- the page */

static void put_facts(page *p, const results *r)
{
    char text[6][VALUE];
    (void)snprintf(text[0], VALUE, "%.4g", exp(r->theta));
    (void)snprintf(text[1], VALUE, "%.3g", r->o->sigma);
    (void)snprintf(text[2], VALUE, "%.3g s", r->seconds);
    (void)snprintf(text[3], VALUE, "%.3g s", r->per_megapixel);
    (void)snprintf(text[4], VALUE, "%.2f dB", r->after.psnr);
    page_fact fact[] = {{text[0], "learnt strength of the prior"},
                        {text[1], isnan(r->o->estimated) ? "noise, as given" : "noise, estimated"},
                        {text[2], "time"},
                        {text[3], "per megapixel and iteration"},
                        {text[4], "PSNR, restored"}};
    page_facts(p, fact, r->simulated ? 5 : 4);
}

static void put_quality(page *p, const results *r)
{
    static const char *const head[] = {"", "MSE", "PSNR (dB)", "SSIM"};
    const struct {
        const char *name;
        const quality_figures *f;
    } row[] = {{"before", &r->before}, {"restored", &r->after}};
    if (!r->simulated) return;
    page_heading(p, "How close it comes");
    page_table(p, "Against the clean picture, with the range 255.", "lrrr", head);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char cell[3][VALUE];
        (void)snprintf(cell[0], VALUE, "%.4g", row[i].f->mse);
        (void)snprintf(cell[1], VALUE, "%.3f", row[i].f->psnr);
        (void)snprintf(cell[2], VALUE, "%.4f", row[i].f->ssim);
        const char *cells[] = {row[i].name, cell[0], cell[1], cell[2]};
        page_row(p, cells, NULL);
    }
    page_table_end(p);
    page_paragraph(
        p,
        "Intervals of 1.96 standard deviations around the mean hold %.1f%% of the clean pixels; a posterior that is "
        "right about this picture would hold 95%%.",
        100 * r->coverage);
}

/* What is left of the picture, beside what the noise would leave. */
static void put_residuals(page *p, const results *r)
{
    json_t *all = json_object_get(r->summary, "residuals"), *one;
    const char *name;
    if (all) page_heading(p, "What is left");
    json_object_foreach(all, name, one)
    {
        page_paragraph(p, "The %s of the residuals is %.2g, where %.2g +- %.2g is expected.", name,
                       json_value(json_array_get(one, 0)), json_value(json_array_get(one, 1)),
                       json_value(json_array_get(one, 2)));
    }
}

/* theta against the iteration, as far as gnuplot is there. */
static void put_curve(page *p, results *r)
{
    char path[FILES_PATH], folder[FILES_PATH], ignored[512], *svg = NULL;
    if (files_join(path, r->o->dir, "trace.csv", ignored, sizeof ignored) ||
        files_join(folder, r->o->dir, "figures", ignored, sizeof ignored) ||
        csv_read(path, NULL, &r->trace, ignored, sizeof ignored))
        return;
    const csv_column *theta = csv_find(&r->trace, "theta_1");
    int n = (int)r->trace.rows;
    double *x = theta && theta->number && n > 1 ? malloc(2 * (size_t)n * sizeof *x) : NULL;
    int drawable = x && plot_check(ignored, sizeof ignored) == 0;
    if (drawable) {
        double *y = x + n;
        n = plot_thin(r->trace.column[0].number, theta->number, n, CURVE, x, y);
        double low = INFINITY, high = 0;
        for (int i = 0; i < n; i++) {
            y[i] = exp(y[i]);
            low = fmin(low, y[i]);
            high = fmax(high, y[i]);
        }
        int wide = high > 20 * low; /* a logarithmic axis of less than a decade has no numbers */
        plot_series s[] = {{.label = "e^theta", .n = n, .x = x, .y = y}};
        plot_panel panel[] = {
            {.x_label = "iteration", .y_label = "strength of the prior", .log_y = wide, .series = s, .n = 1}};
        plot_figure f = {.name = "strength", .title = "Learnt strength", .panel = panel, .panels = 1};
        if (plot_write(&f, 1, folder, &svg, ignored, sizeof ignored) == 0)
            page_figure(p, svg, "The strength of the prior against the iteration.",
                        "The strength of the total-variation prior, found by maximum marginal likelihood while the "
                        "particles sample the posterior.",
                        "figures/strength");
        else
            page_note(p, "The curve of the strength could not be drawn: %s.", ignored);
    } else if (x) {
        page_note(p, "The curve of the strength is missing: %s.", ignored);
    }
    free(svg);
    free(x);
    csv_free(&r->trace);
}

static int write_page(results *r, char *error, size_t room)
{
    char path[FILES_PATH], title[FILES_PATH + 32];
    const image *seen = r->o->seen;
    const char *slash = strrchr(r->o->photo, '/');
    if (files_join(path, r->o->dir, "report.html", error, room)) return -1;
    (void)snprintf(title, sizeof title, "%s, restored", slash ? slash + 1 : r->o->photo);
    page *p = page_new(title, NULL);
    page_verdict(p, r->summary);
    if (r->o->warning) page_note(p, "%s.", r->o->warning);
    page_warnings(p, r->summary);
    char border[VALUE] = "";
    if (r->o->frame > 0)
        (void)snprintf(border, sizeof border, "Outside the border %d pixels were estimated too.", r->o->frame);
    page_paragraph(p, "%d x %d pixels, %s. Blur: %s. %s %s", seen->columns, seen->rows,
                   seen->channels == 1 ? "grey" : "colour", r->o->blur, border,
                   r->simulated ? "The picture was clean; blur and noise were simulated." : "");
    put_facts(p, r);
    if (!r->finished)
        page_note(p, "The run is not finished: it stopped after %lld iterations, and --resume goes on.",
                  (long long)r->iterations);
    if (r->clouds == 0)
        page_note(p,
                  "The time was over before the first cloud was averaged: mean and standard deviation are those of the "
                  "last cloud of %lld particles alone.",
                  (long long)r->particles);
    page_heading(p, "Before and after");
    page_picture(p, r->o->dir, "figures/compared.png", "The picture before and after, side by side.",
                 r->simulated
                     ? "Left: blurred and noisy. Middle: restored, the posterior mean. Right: the clean picture."
                     : "Left: as it was. Right: restored, the posterior mean.");
    put_quality(p, r);
    put_residuals(p, r);
    page_heading(p, "How sure each pixel is");
    char caption[160];
    (void)snprintf(caption, sizeof caption,
                   "The posterior standard deviation of every pixel: black is 0, white is %.3g and more.", r->top);
    page_picture(p, r->o->dir, "figures/sd.png", "A map of the standard deviations.", caption);
    page_heading(p, "Strength of the prior");
    page_paragraph(p, "theta went from %.3f, a first guess from the picture, to %.3f: a strength of %.4g.",
                   r->o->theta0, r->theta, exp(r->theta));
    put_curve(p, r);
    page_heading(p, "How it was done");
    page_paragraph(
        p,
        "%lld iterations with %lld particles in %.3g s; %.3g s per megapixel and iteration. %lld clouds of the "
        "second part were averaged. run.yaml repeats the run; mean.npy and sd.npy hold the numbers.",
        (long long)r->iterations, (long long)r->particles, r->seconds, r->per_megapixel, (long long)r->clouds);
    int rc = child_must_stop()
                 ? files_fail(error, room, "stopped while the report of %s was drawn; 'sosmc report %s' writes it",
                              r->o->dir, r->o->dir)
                 : page_write(p, path, error, room);
    page_free(p);
    return rc;
}

static void tell(const results *r)
{
    if (r->o->quiet) return;
    printf("strength e^theta = %.4g, %.3g s per megapixel and iteration\n", exp(r->theta), r->per_megapixel);
    if (r->simulated)
        printf("MSE %.4g -> %.4g, PSNR %.2f -> %.2f dB, SSIM %.4f -> %.4f, coverage of 95%% intervals %.1f%%\n",
               r->before.mse, r->after.mse, r->before.psnr, r->after.psnr, r->before.ssim, r->after.ssim,
               100 * r->coverage);
    if (!r->finished) puts("the time was over; --resume goes on");
    printf("%s/restored.png, %s/report.html\n", r->o->dir, r->o->dir);
}

int deblur_results(const deblur_outcome *o, char *error, size_t room)
{
    results r = {.o = o};
    int rc = read_summary(&r, error, room) || read_moment(&r, "mean.npy", &r.mean, error, room) ||
                     read_moment(&r, "sd.npy", &r.sd, error, room) || judge(&r, error, room) ||
                     map_sd(&r, error, room) || write_pictures(&r, error, room) || write_figures(&r, error, room) ||
                     write_page(&r, error, room)
                 ? -1
                 : 0;
    if (rc == 0) tell(&r);
    image_free(&r.mean);
    image_free(&r.sd);
    image_free(&r.map);
    json_decref(r.summary);
    return rc;
}
