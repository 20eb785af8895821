/* report.c: the page of a run: results first, then figures, then the settings that made them. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/page.h"
#include "report_inside.h"
#include "files/child.h"
#include "runfile/schema.h"

enum {
    VALUE = 256,
    SHOWN = 16 /* numbers of a list */,
    ESTIMATES = 10 /* parameters on the first screen */,
    DEPTH = 8
};

/* ---------------------------------------------------------------------------- words for numbers */

static const char *number(double v, char out[VALUE])
{
    if (isfinite(v))
        (void)snprintf(out, VALUE, "%.6g", v);
    else
        (void)snprintf(out, VALUE, "–");
    return out;
}

static void duration(double seconds, char out[VALUE])
{
    if (seconds < 1.0)
        (void)snprintf(out, VALUE, "%.0f ms", 1000.0 * seconds);
    else if (seconds < 100.0)
        (void)snprintf(out, VALUE, "%.3g s", seconds);
    else if (seconds < 7200.0)
        (void)snprintf(out, VALUE, "%.0f min %.0f s", floor(seconds / 60.0), fmod(seconds, 60.0));
    else
        (void)snprintf(out, VALUE, "%.0f h %.0f min", floor(seconds / 3600.0), fmod(seconds / 60.0, 60.0));
}

/* 10000 becomes 10 000, with narrow spaces. */
static void grouped(int64_t n, char out[VALUE])
{
    char digits[32];
    size_t m = (size_t)snprintf(digits, sizeof digits, "%" PRId64, n), k = 0;
    for (size_t i = 0; i < m; i++) {
        if (i > 0 && m > 4 && (m - i) % 3 == 0 && digits[i - 1] != '-')
            k += (size_t)snprintf(out + k, VALUE - k, "\u202F");
        out[k++] = digits[i];
    }
    out[k] = 0;
}

static void list_numbers(const double *v, int64_t n, char out[VALUE])
{
    size_t used = 0;
    out[0] = 0;
    for (int64_t i = 0; i < n && i < SHOWN && used < VALUE - 24; i++)
        used += (size_t)(isfinite(v[i]) ? snprintf(out + used, VALUE - used, "%s%.5g", i ? ", " : "", v[i])
                                        : snprintf(out + used, VALUE - used, "%s–", i ? ", " : ""));
    if (n > SHOWN) (void)snprintf(out + used, VALUE - used, ", … (%" PRId64 " in all)", n);
}

/* ---------------------------------------------------------------------------- values of summary.json */

static void json_words(const json_t *v, char out[VALUE])
{
    double list[SHOWN];
    int64_t n = 0;
    if (json_is_string(v)) {
        (void)snprintf(out, VALUE, "%.240s", json_string_value(v));
    } else if (json_is_integer(v)) {
        (void)snprintf(out, VALUE, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else if (json_is_real(v)) {
        (void)snprintf(out, VALUE, "%.8g", json_real_value(v));
    } else if (json_is_boolean(v)) {
        (void)snprintf(out, VALUE, "%s", json_is_true(v) ? "yes" : "no");
    } else if (json_is_string(json_array_get(v, 0))) {
        size_t used = 0;
        for (size_t i = 0; i < json_array_size(v) && i < SHOWN && used < VALUE - 40; i++)
            used += (size_t)snprintf(out + used, VALUE - used, "%s%.30s", i ? ", " : "",
                                     json_string_value(json_array_get(v, i)));
    } else if (json_is_array(v)) {
        for (; n < SHOWN && n < (int64_t)json_array_size(v); n++) {
            const json_t *e = json_array_get(v, (size_t)n);
            list[n] = json_is_number(e) ? json_number_value(e) : NAN;
        }
        list_numbers(list, n, out);
        size_t used = strlen(out);
        if (json_array_size(v) > SHOWN)
            (void)snprintf(out + used, VALUE - used, ", … (%zu in all)", json_array_size(v));
    } else {
        (void)snprintf(out, VALUE, "–");
    }
}

/* ---------------------------------------------------------------------------- results at a glance */

static double last_seconds(const report_data *r)
{
    double last = NAN;
    for (int i = 0; r->seconds && i < r->rows; i++)
        if (isfinite(r->seconds[i])) last = r->seconds[i];
    return last;
}

static double summary_number(const report_data *r, const char *name, const char *suffix)
{
    char key[VALUE];
    (void)snprintf(key, sizeof key, "%s%s", name, suffix);
    return json_value_of(r->summary, key);
}

/* "exact", "quadrature", "judged" or "chains"; NULL: the summary has no such value. */
static const char *told_from(const report_data *r, const char *name)
{
    char key[VALUE];
    (void)snprintf(key, sizeof key, "%s_from", name);
    return json_string_value(json_object_get(r->summary, key));
}

/* A quantity: its key in summary.json, its name on the page. */
typedef struct {
    const char *key, *shown;
} told_name;
static const told_name told_names[] = {{"loss", "loss"},
                                       {"best_loss", "loss of the best of all densities"},
                                       {"excess", "loss above that"},
                                       {"log_likelihood", "mean log-likelihood of the points"},
                                       {"held_out", "mean log-likelihood of held-out points"},
                                       {"reward", "mean reward"},
                                       {"best_reward", "mean reward of the best"},
                                       {"kl", "divergence"},
                                       {"best_kl", "divergence of the best"},
                                       {"log_z", "log Z"},
                                       {"model_reward", "mean reward before it was tilted"},
                                       {"model_log_z", "log Z before it was tilted"}};
enum { TOLD_NAMES = sizeof told_names / sizeof *told_names };

static int make_fact(const report_data *r, const told_name *q, char value[VALUE], char words[VALUE])
{
    const char *from = told_from(r, q->key);
    double v = summary_number(r, q->key, ""), error = summary_number(r, q->key, "_error");
    if (!from || strcmp(from, "running estimate") == 0 || !isfinite(v)) return 0; /* what earlier versions told */
    int n = snprintf(value, VALUE, "%.5g", v);
    if (error > 1e-5 * fabs(v)) (void)snprintf(value + n, VALUE - (size_t)n, " ± %.1g", error);
    (void)snprintf(words, VALUE, "%s (%s)", q->shown, from);
    return 1;
}

static void put_facts(page *p, const report_data *r)
{
    page_fact fact[TOLD_NAMES + 3];
    char text[TOLD_NAMES + 3][VALUE], words[TOLD_NAMES][VALUE];
    int n = 0;
    for (int k = 0; k < TOLD_NAMES; k++) {
        if (!make_fact(r, &told_names[k], text[n], words[n])) continue;
        fact[n].value = text[n];
        fact[n].name = words[n];
        n++;
    }
    if (r->rows > 0) {
        grouped((int64_t)r->trace.column[0].number[r->rows - 1] + 1, text[n]); /* iterations count from 0 */
        fact[n].value = text[n];
        fact[n++].name = strcmp(r->unit, "step") == 0 ? "steps" : "iterations";
    }
    if (isfinite(summary_number(r, "evaluations", ""))) {
        grouped((int64_t)summary_number(r, "evaluations", ""), text[n]);
        fact[n].value = text[n];
        fact[n++].name = "evaluations";
    }
    if (isfinite(last_seconds(r))) {
        duration(last_seconds(r), text[n]);
        fact[n].value = text[n];
        fact[n++].name = "wall-clock time";
    }
    page_facts(p, fact, n);
}

static const char *why(const report_data *r, const char *name)
{
    char key[VALUE];
    (void)snprintf(key, sizeof key, "%s_why", name);
    return json_string_value(json_object_get(r->summary, key));
}

/* What is missing of the facts, and why: many quantities are missing for one reason. */
static void put_missing(page *p, const report_data *r)
{
    char list[VALUE];
    for (int k = 0; k < TOLD_NAMES; k++) {
        const char *reason = why(r, told_names[k].key);
        size_t used = 0;
        int first = 1;
        for (int i = 0; i < TOLD_NAMES && reason; i++) {
            const char *other = why(r, told_names[i].key);
            if (!other || strcmp(other, reason) != 0) continue;
            if (i < k) first = 0; /* it was told with that one */
            used += (size_t)snprintf(list + used, VALUE - used, "%s%s", used ? ", " : "", told_names[i].shown);
        }
        if (reason && first)
            page_paragraph(p, "Without %s: %s: %s.",
                           isnan(summary_number(r, told_names[k].key, "")) ? "a value" : "an error", list, reason);
    }
}

static double item(const report_data *r, const char *key, size_t i)
{
    return json_value(json_array_get(json_object_get(r->summary, key), i));
}

static const char *short_number(const char *format, double v, char out[VALUE])
{
    (void)snprintf(out, VALUE, "–");
    if (isfinite(v)) (void)snprintf(out, VALUE, format, v);
    return out;
}

/* theta by name, with its errors: those of the summary alone, which an earlier version may not have written. Standard errors have
 * a column where the objective is a likelihood. */
static void put_estimate(page *p, const report_data *r)
{
    static const char *const head[] = {"parameter", "estimate", "95 % interval", "Monte Carlo error", "standard error"};
    const json_t *names = json_object_get(r->summary, "theta_names");
    const char *objective = json_string_value(json_object_get(r->summary, "objective")),
               *no_mc = why(r, "theta_mc_error"), *no_se = why(r, "theta_standard_error");
    int likelihood = objective && (strcmp(objective, "mmle") == 0 || strcmp(objective, "ebm_likelihood") == 0);
    size_t n = json_array_size(names), shown = ESTIMATES;
    if (!json_is_array(json_object_get(r->summary, "theta")) || n < 1) return;
    if (n < shown) shown = n;
    page_table(p, NULL, likelihood ? "lrrrr" : "lrrr", head);
    for (size_t i = 0; i < shown; i++) {
        char value[VALUE], mc[VALUE], se[VALUE], interval[VALUE] = "–";
        double low = item(r, "theta_low", i), high = item(r, "theta_high", i);
        if (isfinite(low) && isfinite(high)) (void)snprintf(interval, sizeof interval, "%.5g to %.5g", low, high);
        const char *row[] = {json_string_value(json_array_get(names, i)), number(item(r, "theta", i), value), interval,
                             short_number("%.2g", item(r, "theta_mc_error", i), mc),
                             short_number("%.3g", item(r, "theta_standard_error", i), se)};
        static const page_mark marks[] = {PAGE_PLAIN, PAGE_STRONG, PAGE_PLAIN, PAGE_PLAIN, PAGE_PLAIN};
        page_row(p, row, marks);
    }
    page_table_end(p);
    if (n > shown) page_paragraph(p, "%zu more parameters are in summary.json.", n - shown);
    if (no_mc) page_paragraph(p, "Without a Monte Carlo error: %s.", no_mc);
    if (no_se && likelihood) page_paragraph(p, "Without a standard error: %s.", no_se);
}

/* Model, objective and method, in a line. */
static void put_what(page *p, const report_data *r)
{
    const char *model = json_string_value(json_object_get(r->summary, "model")),
               *objective = json_string_value(json_object_get(r->summary, "objective")),
               *method = json_string_value(json_object_get(r->summary, "method"));
    if (model && objective && method) page_paragraph(p, "%s, %s, by %s.", model, objective, method);
}

/* That coordinates and densities are not in the units of the data, where it is so. */
static void put_units(page *p, const report_data *r)
{
    const char *words = json_string_value(json_object_get(json_object_get(r->summary, "scaling"), "words"));
    if (words) page_paragraph(p, "Units: %s.", words);
}

static void put_digests(page *p, const report_data *r, const report_extra *extra)
{
    static const char *const head[] = {"quantity", "start", "end", "last tenth: mean", "standard deviation"};
    page_table(
        p, "Logged quantities: first and last value, and mean and standard deviation over the last tenth of the trace.",
        "lrrrr", head);
    for (int i = 0; i < report_curve_count; i++) {
        const curve *c = &report_curves[i];
        digest d = report_digest(r, c);
        char a[VALUE], b[VALUE], m[VALUE], s[VALUE];
        int share = !strcmp(c->column, "ess") && r->particles > 0;
        if (d.n == 0 || !report_shows(extra, c) || report_has_result(r, c)) continue;
        const char *row[] = {share ? "ESS / N" : c->label, number(d.first, a), number(d.last, b), number(d.mean, m),
                             number(d.sd, s)};
        static const page_mark marks[] = {PAGE_PLAIN, PAGE_PLAIN, PAGE_PLAIN, PAGE_STRONG, PAGE_PLAIN};
        page_row(p, row, marks);
    }
    page_table_end(p);
}

/* ---------------------------------------------------------------------------- summary.json */

/* Objects inside objects get dotted names. */
static void put_object(page *p, json_t *object, const char *before, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char name[VALUE], text[VALUE];
        if (depth == 0 && schema_has_word("warnings|verdict|last_iteration|evaluated|exact", key))
            continue; /* at the top of the page, or other estimates of what stands there */
        (void)snprintf(name, sizeof name, "%.120s%s%.120s", before, *before ? "." : "", key);
        if (json_is_object(value) && depth < DEPTH) {
            put_object(p, value, name, depth + 1);
            continue;
        }
        json_words(value, text);
        const char *row[] = {name, text};
        page_row(p, row, NULL);
    }
}

static void put_summary(page *p, const report_data *r)
{
    static const char *const head[] = {"key", "value"};
    if (!json_is_object(r->summary)) return;
    page_table(p, "summary.json", "ll", head);
    put_object(p, r->summary, "", 0);
    page_table_end(p);
}

static void put_theta(page *p, const report_data *r, double *values)
{
    char text[VALUE];
    int64_t n = npy_count(&r->theta);
    if (json_object_get(r->summary, "theta") || !values) return;
    npy_doubles(&r->theta, values);
    list_numbers(values, n, text);
    page_paragraph(p, "θ = (%s)", text);
}

/* ---------------------------------------------------------------------------- notes */

static int64_t total(const report_data *r, const char *column)
{
    const double *y = report_values(r, column);
    double sum = 0.0;
    for (int i = 0; y && i < r->rows; i++) sum += isfinite(y[i]) ? y[i] : 0.0;
    return (int64_t)sum;
}

static void put_notes(page *p, const report_data *r, const report_extra *extra)
{
    int64_t odd = total(r, "nonfinite"), retries = total(r, "retries");
    if (odd > 0)
        page_note(p,
                  "In %" PRId64 " moves a particle's values were not finite; column nonfinite of trace.csv tells when.",
                  odd);
    if (retries > 0)
        page_note(
            p,
            "%" PRId64
            " moves were repeated with half the step, which is not exact; column retries of trace.csv tells when.",
            retries);
    if (extra->no_loss) page_note(p, "Loss and log Z are not shown: %s", extra->no_loss);
    if (r->too_large) page_note(p, "The cloud is not drawn: particles.npz is larger than 2 GiB.");
}

/* ---------------------------------------------------------------------------- figures */

static void put_section(page *p, const gallery *g, char *const *svg, section where)
{
    static const char *const titles[] = {"Objective", "Particles and moves", "Optimisation"};
    int any = 0;
    for (int i = 0; i < g->n; i++) {
        const exhibit *e = &g->item[i];
        char stem[FILES_PATH];
        if (e->section != where || !svg[i]) continue;
        if (!any++) page_heading(p, titles[where]);
        page_subheading(p, e->title);
        (void)snprintf(stem, sizeof stem, "figures/%s", e->figure.name);
        page_figure(p, svg[i], e->alt, e->caption, stem);
    }
}

/* Draws the figures. Where they cannot be drawn, the page is written without them and says why. */
static void draw(const gallery *g, const char *dir, char **svg, char *why, size_t room)
{
    plot_figure figure[EXHIBITS];
    char path[FILES_PATH], reason[512];
    for (int i = 0; i < g->n; i++) figure[i] = g->item[i].figure;
    if (g->memory.failed)
        (void)files_fail(why, room, "there is not enough memory for them");
    else if (plot_check(reason, sizeof reason))
        (void)files_fail(why, room, "%s, then run “sosmc report” on this directory", reason);
    else if (!files_join(path, dir, "figures", why, room) && !plot_write(figure, g->n, path, svg, why, room))
        why[0] = 0;
}

/* ---------------------------------------------------------------------------- the page */

static void make_title(const char *dir, const report_extra *extra, char out[VALUE])
{
    char *full = realpath(dir, NULL);
    const char *slash = full ? strrchr(full, '/') : NULL;
    (void)snprintf(out, VALUE, "%.240s", extra->title ? extra->title : slash && slash[1] ? slash + 1 : dir);
    free(full);
}

static void make_subtitle(const report_data *r, char out[2 * VALUE])
{
    const char *version = json_string_value(json_object_get(r->summary, "version"));
    const json_t *seed = json_object_get(r->summary, "seed");
    char many[VALUE], words[VALUE];
    size_t n = (size_t)snprintf(out, VALUE, "sosmc %.40s", version ? version : SOSMC_VERSION);
    if (seed) {
        json_words(seed, words);
        n += (size_t)snprintf(out + n, 2 * VALUE - n, " · seed %.40s", words);
    }
    if (r->particles > 0) {
        grouped(r->particles, many);
        n += (size_t)snprintf(out + n, 2 * VALUE - n, " · %s particles in %d dimension%s", many, r->dim,
                              r->dim == 1 ? "" : "s");
    }
    if (r->theta.owned) {
        grouped(npy_count(&r->theta), many);
        (void)snprintf(out + n, 2 * VALUE - n, " · %s parameter%s", many, npy_count(&r->theta) == 1 ? "" : "s");
    }
}

static int write_page(const char *dir, const report_data *r, const report_extra *extra, const gallery *g,
                      char *const *svg, const char *why, char *error, size_t room)
{
    char title[VALUE], subtitle[2 * VALUE], path[FILES_PATH];
    double *theta = r->theta.owned ? malloc(((size_t)npy_count(&r->theta) + 1) * sizeof *theta) : NULL;
    make_title(dir, extra, title);
    make_subtitle(r, subtitle);
    page *p = page_new(title, subtitle);
    put_what(p, r);
    page_verdict(p, r->summary);
    page_warnings(p, r->summary);
    if (extra->about) page_paragraph(p, "%s", extra->about);
    put_facts(p, r);
    put_units(p, r);
    put_estimate(p, r);
    put_missing(p, r);
    put_notes(p, r, extra);
    if (*why) page_note(p, "This report has no figures: %s.", why);
    if (extra->picture) {
        page_heading(p, "Pictures");
        page_picture(p, dir, extra->picture, "A grid of particles of the final cloud, shown as pictures.",
                     "Particles of the final cloud, evenly spaced.");
    }
    for (int k = 0; k < SECTIONS; k++) put_section(p, g, svg, (section)k);
    page_heading(p, "Results");
    put_digests(p, r, extra);
    put_theta(p, r, theta);
    put_summary(p, r);
    if (r->settings) page_heading(p, "Settings");
    if (r->settings) page_paragraph(p, "The resolved run file, run.yaml: “sosmc run run.yaml” repeats this run.");
    if (r->settings) page_code(p, r->settings);
    int status = files_join(path, dir, "report.html", error, room);
    if (!status) status = page_write(p, path, error, room);
    page_free(p);
    free(theta);
    return status;
}

int report_write(const char *dir, const report_extra *extra, char *error, size_t room)
{
    static const report_extra nothing;
    char *svg[EXHIBITS] = {NULL}, why[FILES_PATH + 256] = "";
    report_data r;
    gallery *g = malloc(sizeof *g);
    if (!g) return files_fail(error, room, "no memory for the report of %s", dir);
    if (report_load(&r, dir, error, room)) {
        free(g);
        return -1;
    }
    if (!extra) extra = &nothing;
    report_gallery(g, &r, extra);
    draw(g, dir, svg, why, sizeof why);
    int status = child_must_stop()
                     ? files_fail(error, room, "stopped while the report of %s was drawn; 'sosmc report %s' writes it",
                                  dir, dir)
                     : write_page(dir, &r, extra, g, svg, why, error, room);
    for (int i = 0; i < EXHIBITS; i++) free(svg[i]);
    report_gallery_free(g);
    free(g);
    report_unload(&r);
    return status;
}
