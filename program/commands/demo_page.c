/* demo_page.c: OUT/demo.html and the lines on the terminal. Invariant: nothing is computed here but intervals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo_inside.h"
#include "files/files.h"
#include "files/words.h"
#include "view/page.h"
#include "view/plot.h"

enum { VALUE = 96, FIGURE_BYTES = 1 << 24 };
static const double NORMAL_95 = 1.959963984540054;

/* ---------------------------------------------------------------------------- numbers as words */

/* NaN becomes a dash. */
static const char *number(double v, int digits, char out[VALUE])
{
    if (isfinite(v))
        (void)snprintf(out, VALUE, "%.*f", digits, v);
    else
        (void)snprintf(out, VALUE, "–");
    return out;
}

static const char *interval(double low, double high, int digits, char out[VALUE])
{
    if (isfinite(low) && isfinite(high))
        (void)snprintf(out, VALUE, "%.*f to %.*f", digits, low, digits, high);
    else
        (void)snprintf(out, VALUE, "–");
    return out;
}

static const char *with_error(demo_estimate e, int digits, const char *why_none, char out[VALUE])
{
    if (isfinite(e.value) && isfinite(e.error))
        (void)snprintf(out, VALUE, "%.*f ± %.*f", digits, e.value, digits, e.error);
    else
        (void)snprintf(out, VALUE, "%.*f (%s)", digits, isfinite(e.value) ? e.value : 0.0, why_none);
    if (!isfinite(e.value)) (void)snprintf(out, VALUE, "unknown");
    return out;
}

/* The log-likelihood's error is 0, up to rounding, where the draws come from the exact posterior: then they all have the same
 * weight. */
static int is_without_error(demo_estimate e) { return e.error <= 1e-9 * fabs(e.value); }

static const char *log_likelihood_words(const demo_likelihood *l, char out[VALUE])
{
    if (isfinite(l->log_likelihood.value) && is_without_error(l->log_likelihood))
        (void)snprintf(out, VALUE, "%.3f (no Monte Carlo error: a normal model)", l->log_likelihood.value);
    else
        (void)with_error(l->log_likelihood, 4, "without an error", out);
    return out;
}

/* ---------------------------------------------------------------------------- the terminal */

static const char no_photograph[] =
    "guitar_292x119.pgm, which comes with the program, was not found, so this part is left out; the environment variable "
    "SOSMC_SHARE may name the folder above deblurring";

void demo_print(const demo *d, FILE *out)
{
    char a[VALUE], b[VALUE], c[VALUE], e[VALUE];
    const demo_likelihood *l = &d->likelihood;
    const demo_reward *r = &d->reward;
    const demo_photograph *p = &d->photograph;
    (void)fprintf(out, "likelihood: theta %s, exactly %s; log-likelihood %s, exactly %.3f\n",
                  with_error(l->theta, 3, "no standard error: theta has not settled", a),
                  with_error(l->exact_theta, 3, "", b), log_likelihood_words(l, c), l->exact_log_likelihood);
    (void)fprintf(out,
                  "reward: %s becomes %s, where the best of all densities has %s; all by quadrature, without "
                  "Monte Carlo error\n",
                  number(r->start_reward, 4, a), number(r->reward, 4, b), number(r->best_reward, 4, c));
    if (p->found)
        (void)fprintf(
            out,
            "photograph: PSNR %s becomes %s dB, measured on the original, without error; 95 %% intervals hold "
            "%s %% of its pixels\n",
            number(p->before, 2, a), number(p->after, 2, b), number(100 * p->coverage, 1, e));
    else
        (void)fprintf(out, "photograph: %s\n", no_photograph);
    char shown[FILES_PATH];
    (void)fprintf(out, "Open %s/demo.html in a browser (%.0f s).\n", words_line(d->shown, shown, sizeof shown),
                  d->seconds);
}

/* ---------------------------------------------------------------------------- parts of the page */

static void put_warnings(page *p, const demo_warnings *w)
{
    for (int i = 0; i < w->n; i++) page_note(p, "%s", w->text[i]);
}

/* A figure that a run has drawn; without gnuplot there is none, and the page says so. */
static void put_figure(page *p, const demo *d, const char *stem, const char *alt, const char *caption)
{
    char path[FILES_PATH], why[512], *svg = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "%.3800s/%.200s.svg", d->out, stem);
    if (files_read(path, FIGURE_BYTES, &svg, &size, why, sizeof why) == 0)
        page_figure(p, svg, alt, caption, stem);
    else {
        char no_gnuplot[512];
        page_note(p, "A figure is missing: %s.", plot_check(no_gnuplot, sizeof no_gnuplot) ? no_gnuplot : why);
    }
    free(svg);
}

static void put_top(page *p, const demo *d)
{
    char text[3][VALUE], a[VALUE], b[VALUE];
    (void)with_error(d->likelihood.theta, 2, "no error", text[0]);
    (void)snprintf(text[1], VALUE, "%.40s of %.40s", number(d->reward.reward, 4, a),
                   number(d->reward.best_reward, 4, b));
    (void)snprintf(text[2], VALUE, "%.40s → %.40s dB", number(d->photograph.before, 1, a),
                   number(d->photograph.after, 1, b));
    page_fact fact[] = {{text[0], "estimate of theta, with its standard error"},
                        {text[1], "reward reached, of the best possible"},
                        {text[2], "PSNR of the photograph, blurred and restored"}};
    page_facts(p, fact, d->photograph.found ? 3 : 2);
}

static void put_estimates(page *p, const demo_likelihood *l)
{
    static const char *const head[] = {"", "estimate", "standard error", "95 % interval", "exact"};
    char a[VALUE], b[VALUE], c[VALUE], e[VALUE];
    double t = l->theta.value, half = NORMAL_95 * l->theta.error, top = l->log_likelihood.value;
    page_table(p, "Estimates beside what the closed form gives.", "lrrrr", head);
    const char *theta[] = {"theta, the skill of the population", number(t, 3, a), number(l->theta.error, 3, b),
                           interval(t - half, t + half, 2, c), with_error(l->exact_theta, 3, "", e)};
    page_row(p, theta, NULL);
    const char *average[] = {"the same as a batting average", number(demo_batting_average(t), 3, a), "",
                             interval(demo_batting_average(t - half), demo_batting_average(t + half), 3, c),
                             number(demo_batting_average(l->exact_theta.value), 3, e)};
    page_row(p, average, NULL);
    half = NORMAL_95 * l->log_likelihood.error;
    const char *likelihood[] = {"log-likelihood (its error is Monte Carlo's)", number(top, 4, a),
                                is_without_error(l->log_likelihood) ? "0" : number(l->log_likelihood.error, 4, b),
                                is_without_error(l->log_likelihood) ? "–" : interval(top - half, top + half, 3, c),
                                number(l->exact_log_likelihood, 4, e)};
    page_row(p, likelihood, NULL);
    page_table_end(p);
    if (is_without_error(l->log_likelihood))
        page_paragraph(p, "The log-likelihood has no Monte Carlo error here: everything is normal, so that its draws "
                          "come from the exact posterior and all have the same weight.");
}

/* The hits of the first 45 times at bat, and the average over the rest of the season: table 1 of Efron and Morris. */
static const struct {
    const char *name;
    int hits;
    double rest;
} player[DEMO_PLAYERS] = {{"Clemente", 18, 0.346},  {"F. Robinson", 17, 0.298}, {"F. Howard", 16, 0.276},
                          {"Johnstone", 15, 0.222}, {"Berry", 14, 0.273},       {"Spencer", 14, 0.270},
                          {"Kessinger", 13, 0.263}, {"L. Alvarado", 12, 0.210}, {"Santo", 11, 0.269},
                          {"Swoboda", 11, 0.230},   {"Unser", 10, 0.264},       {"Williams", 10, 0.256},
                          {"Scott", 10, 0.303},     {"Petrocelli", 10, 0.264},  {"E. Rodriguez", 10, 0.226},
                          {"Campaneris", 9, 0.285}, {"Munson", 8, 0.316},       {"Alvis", 7, 0.200}};

static void put_players(page *p, const demo_likelihood *l)
{
    static const char *const head[] = {"player", "first 45", "estimate", "95 % interval", "exact", "rest of season"};
    char a[VALUE], b[VALUE], c[VALUE], e[VALUE], f[VALUE];
    if (l->players != DEMO_PLAYERS) return;
    page_paragraph(
        p, "Each player's batting average: what was seen, the estimate from the weighted particles, the same by "
           "the closed form, and what came of it.");
    page_table(p, NULL, "lrrrrr", head);
    for (int i = 0; i < DEMO_PLAYERS; i++) {
        double x = l->skill[i].value, half = NORMAL_95 * l->skill[i].error;
        const char *row[] = {player[i].name,
                             number((double)player[i].hits / DEMO_AT_BATS, 3, a),
                             number(demo_batting_average(x), 3, b),
                             interval(demo_batting_average(x - half), demo_batting_average(x + half), 3, c),
                             number(demo_batting_average(l->exact_skill[i].value), 3, e),
                             number(player[i].rest, 3, f)};
        page_row(p, row, NULL);
    }
    page_table_end(p);
}

static void put_likelihood(page *p, const demo *d)
{
    const demo_likelihood *l = &d->likelihood;
    page_heading(p, "A marginal likelihood");
    page_paragraph(
        p,
        "Eighteen batters of 1970 after 45 times at bat each (B. Efron and C. Morris, “Data analysis using "
        "Stein's estimator and its generalizations”, JASA 70, 1975). The true skill of a player is hidden and "
        "varies around theta; what is seen is that skill with noise. Which theta makes the data most likely, "
        "once the hidden skills are integrated out? The run file names no setting: %d particles, %d steps of the solver.",
        l->particles, l->iterations);
    put_warnings(p, &l->warnings);
    put_estimates(p, l);
    put_figure(p, d, DEMO_LIKELIHOOD "/figures/theta", "Theta against the step.",
               "Theta on its way from 0 to the estimate.");
    put_players(p, l);
    page_link(p, "The whole run: settings, curves, summary", DEMO_LIKELIHOOD "/report.html");
}

static void put_reward(page *p, const demo *d)
{
    const demo_reward *r = &d->reward;
    char caption[512], a[VALUE], b[VALUE], c[VALUE], e[VALUE];
    page_heading(p, "A reward tuning and its optimum");
    page_paragraph(
        p,
        "A density of three modes is tuned towards a reward that has no gradient (0 for the upper mode, 1/2 on "
        "the left, 1 on the right) and held near where it began by a Kullback-Leibler divergence. In the plane "
        "everything can also be computed by quadrature, the best that any density could reach included. %d "
        "particles, %d iterations.",
        r->particles, r->iterations);
    put_warnings(p, &r->warnings);
    static const char *const head[] = {"", "at the start", "reached", "best of all densities"};
    page_table(p, "Exact values, by quadrature: they have no Monte Carlo error.", "lrrr", head);
    const char *reward[] = {"mean reward", number(r->start_reward, 4, a), number(r->reward, 4, b),
                            number(r->best_reward, 4, c)};
    page_row(p, reward, NULL);
    (void)number(-r->start_reward, 4, a); /* no divergence yet */
    const char *loss[] = {"loss", a, number(r->loss, 4, b), number(r->best_loss, 4, e)};
    page_row(p, loss, NULL);
    page_table_end(p);
    (void)snprintf(
        caption, sizeof caption,
        "The exact mean reward along the run and the optimum (dashed): %.40s of %.40s. The particles estimate it, and "
        "their weights matter: without them the estimate misses. What is left to the optimum takes a density of "
        "another shape; this model can only weigh three given modes.",
        number(r->reward, 4, a), number(r->best_reward, 4, c));
    put_figure(p, d, DEMO_REWARD "/figures/exact-reward", "Mean reward against the iteration, rising to the optimum.",
               caption);
    put_figure(p, d, DEMO_REWARD "/figures/cloud", "The weighted particles over density and reward.",
               "The particles at the end, with the tuned density: most of it is on the right now.");
    page_link(p, "The whole run: settings, curves, summary", DEMO_REWARD "/report.html");
}

static void put_photograph(page *p, const demo *d)
{
    const demo_photograph *f = &d->photograph;
    static const char *const head[] = {"", "PSNR (dB)"};
    char caption[512], a[VALUE], b[VALUE];
    page_heading(p, "A photograph sharpened");
    if (!f->found) {
        page_note(p, "The file %s.", no_photograph);
        return;
    }
    page_paragraph(
        p,
        "%d x %d pixels, blurred by a window of 5 x 5 pixels, with noise of standard deviation %g on a scale "
        "of 0 to 255. The restoration sees the blurred picture alone: it learns the strength of its prior "
        "(%.3g) and gives every pixel a mean and a standard deviation.",
        f->columns, f->rows, f->noise, f->strength);
    page_picture(p, d->out, DEMO_PHOTOGRAPH "/pictures.png", "Three pictures: original, blurred, restored.",
                 "Left: the original. Middle: blurred, with noise. Right: restored.");
    page_paragraph(p, "Closeness to the original, which is known here: measured, so without error.");
    page_table(p, NULL, "lr", head);
    const char *before[] = {"blurred", number(f->before, 2, a)}, *after[] = {"restored", number(f->after, 2, b)};
    page_row(p, before, NULL);
    page_row(p, after, NULL);
    page_table_end(p);
    (void)snprintf(
        caption, sizeof caption,
        "Left: the standard deviation that the restoration claims. Right: its actual error. On both, black is 0 "
        "and white %.3g and more. Intervals of 1.96 standard deviations hold %s %% of the pixels; 95 %% would "
        "be perfect.",
        f->white, number(100 * f->coverage, 1, a));
    page_picture(p, d->out, DEMO_PHOTOGRAPH "/maps.png", "Two maps: standard deviation and error.", caption);
    page_link(p, "The whole run: settings, curve of the strength", DEMO_PHOTOGRAPH "/report.html");
}

/* ---------------------------------------------------------------------------- the page */

int demo_write_page(const demo *d, char *error, size_t room)
{
    char path[FILES_PATH];
    if (files_join(path, d->out, "demo.html", error, room)) return -1;
    page *p = page_new("sosmc in three runs",
                       "A marginal likelihood, a reward tuning, a photograph; each with its errors");
    put_top(p, d);
    put_likelihood(p, d);
    put_reward(p, d);
    put_photograph(p, d);
    page_heading(p, "Do it yourself");
    page_code(p, "sosmc run examples/batting.yaml\n"
                 "sosmc run examples/three_modes.yaml\n"
                 "sosmc deblur photo.png --blur box:5");
    int rc = page_write(p, path, error, room);
    page_free(p);
    return rc;
}
