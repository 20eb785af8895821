/* progress.c: progress on standard error. A terminal's line is rewritten at most ten times a second, a log gets a line
 * every five seconds. */
#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "files/words.h"
#include "streams.h"

static const double EVERY_ON_TERMINAL = 0.1, EVERY_IN_LOG = 5.0;

void progress_begin(progress *p, int quiet, int64_t first)
{
    *p = (progress){.out = stderr, .quiet = quiet, .terminal = isatty(STDERR_FILENO), .first = first};
    if (p->terminal) p->out = streams_terminal(); /* where the cursor goes back is no control character to be shown */
    p->begun = p->last = monotonic_seconds();
}

static void duration(double seconds, char *text, size_t room)
{
    if (!(seconds >= 0) || seconds > 1e8)
        (void)snprintf(text, room, "?");
    else if (seconds < 100)
        (void)snprintf(text, room, "%.0f s", seconds);
    else if (seconds < 6000)
        (void)snprintf(text, room, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        (void)snprintf(text, room, "%d h %02d min", (int)(seconds / 3600), (int)fmod(seconds / 60, 60));
}

int progress_due(const progress *p)
{
    return !p->quiet && monotonic_seconds() - p->last >= (p->terminal ? EVERY_ON_TERMINAL : EVERY_IN_LOG);
}

void progress_show(progress *p, int64_t done, int64_t total, const char *what)
{
    if (!progress_due(p)) return;
    double each = done > p->first ? (monotonic_seconds() - p->begun) / (double)(done - p->first) : NAN;
    progress_line(p, done, total, what, each * (double)(total - done));
}

static void put_line(progress *p, const char *words)
{
    char line[512];
    size_t length = strlen(words_line(words, line, sizeof line));
    p->last = monotonic_seconds();
    if (p->terminal) {
        int pad = p->shown > length ? (int)(p->shown - length) : 0;
        fprintf(p->out, "\r%s%*s", line, pad, "");
        p->shown = length;
    } else {
        fprintf(p->out, "%s\n", line);
    }
    (void)fflush(p->out);
}

void progress_line(progress *p, int64_t done, int64_t total, const char *what, double left)
{
    char time[32], line[256];
    duration(left, time, sizeof time);
    (void)snprintf(line, sizeof line, "%lld/%lld  %s  %s left", (long long)done, (long long)total, what, time);
    put_line(p, line);
}

void progress_info(progress *p, int64_t done, int64_t total, const sosmc_info *info, double strength, int weighted)
{
    char what[160];
    size_t used = 0;
    const struct {
        const char *name;
        double value;
    } fields[] = {{"strength", strength},
                  {"reward", info->mean_score},
                  {"loss", info->loss},
                  {"ESS", weighted ? info->ess : NAN},
                  {"step", isnan(strength) ? info->h : NAN}};
    what[0] = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (isnan(fields[i].value)) continue;
        int n = snprintf(what + used, sizeof what - used, "%s%s %.5g", used ? "  " : "", fields[i].name,
                         fields[i].value);
        if (n > 0 && (size_t)n < sizeof what - used) used += (size_t)n;
    }
    progress_show(p, done, total, what);
}

/* Appends to the line as long as there is room for all of it. */
static void add(char line[256], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char line[256], const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + used, 256 - used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= 256 - used) line[used] = 0;
}

void progress_solve(progress *p, const sosmc_solve_info *info, const double *theta, int dim_theta)
{
    enum { SHOWN = 4 };
    char line[256] = "";
    if (!progress_due(p)) return;
    add(line, "%s  step %lld", sosmc_phase_name((sosmc_phase)info->phase), (long long)info->step);
    if (!isnan(info->temperature)) add(line, "  temperature %.2f", info->temperature);
    if (!isnan(info->loss)) add(line, "  loss %.5g +- %.1g", info->loss, info->loss_error);
    if (!isnan(info->reward)) add(line, "  reward %.4g", info->reward);
    if (dim_theta > SOSMC_SOLVE_PARAMETERS) /* a network's weights say nothing */
        add(line, "  %lld updates", (long long)info->updates), dim_theta = 0;
    else
        add(line, "  theta");
    for (int k = 0; k < dim_theta && k < SHOWN; k++) add(line, " %.4g", theta[k]);
    if (dim_theta > SHOWN) add(line, " ...");
    if (!isnan(info->left)) add(line, "  left %.2g +- %.1g, wanted %.2g", info->left, info->left_error, info->wanted);
    add(line, "  %.2g evaluations", (double)info->evaluations);
    put_line(p, line);
}

void progress_temper(progress *p, const sosmc_sampler_info *info)
{
    char line[256] = "";
    if (!progress_due(p)) return;
    add(line, "%s  step %lld  temperature %.3g", info->phase == 0 ? "trial" : "measurement", (long long)info->step,
        info->temperature);
    add(line, "  log Z so far %.5g  ESS %.0f", info->log_z, info->ess);
    if (!isnan(info->accept)) add(line, "  acceptance %.2f", info->accept);
    add(line, "  %.2g evaluations", (double)info->evaluations);
    put_line(p, line);
}

void progress_end(progress *p)
{
    if (p->quiet || !p->terminal || p->shown == 0) return;
    fprintf(p->out, "\r%*s\r", (int)p->shown, "");
    (void)fflush(p->out);
    p->shown = 0;
}
