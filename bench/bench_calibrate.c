/* bench_calibrate.c: are the errors that sosmc_judge states honest? Replicates of runs on problems with exact answers, judged, and
 * compared with those answers.
 *
 *     bench/calibrate [--problem NAME] [--schedule constant|cosine|decaying] [--spoil NAME] [--first R] [--last R]
 *                     [--particles N] [--iterations K] [--pass N] [--seed S] [--jobs J] [--data DIR] [--csv FILE] [--verbose]
 *
 * --problem and --spoil may be `all`; --spoil is `good`, or one of the settings that exact_problems.h lists. Replicate r has seed
 * 1000 S + r, so that any run can be repeated alone with --first r --last r + 1 --verbose. Per problem and quantity it prints
 * the mean error, its standard deviation, the mean stated error, the coverage of the 95 % interval (normal for numbers of the
 * pass, the judgement's Student quantile for theta, whose parameters are pooled), the mean width of that interval and how many
 * runs had no number or no error; then how many runs were called converged, and how many were wrong by more than three stated
 * errors and called converged all the same. --csv writes a line for every quantity of every run; errors of theta are the largest of its
 * parameters, in stated errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sosmc/judge.h>

#include "../tests/support/models/exact_problems.h"
#include "base/linear.h"
#include "base/student.h"
#include "options.h"

/* ---------------------------------------------------------------------------- what is asked for */

typedef struct {
    const char *problem, *schedule, *spoil, *data, *csv_path;
    FILE *csv;
    int first, last, particles, pass, jobs, verbose;
    int64_t iterations;
    uint64_t seed;
} request;

static const char *const schedules[] = {"constant", "cosine", "decaying", NULL};
static const char schedule_letter[] = {'c', 'o', 'd'};

static int chosen(const char *wanted, const char *name)
{
    return strcmp(wanted, "all") == 0 || strcmp(wanted, name) == 0;
}

/* Whether a name is one of the list, or `all`. */
static int known(const char *name, const char *const *list)
{
    for (int k = 0; list[k]; k++)
        if (chosen(name, list[k])) return 1;
    return 0;
}

/* ---------------------------------------------------------------------------- one run */

enum { LOSS, LOG_Z, KL, REWARD, THETA, SE, QUANTITIES };
static const char *const quantity_name[QUANTITIES] = {"loss", "log Z", "KL", "reward", "theta", "st.error"};

/* Sums over what was compared: errors, stated errors, intervals. */
typedef struct {
    double n, missing, error, square, stated, covered, width, largest; /* largest: error in stated errors */
} sums;

/* What a child sends to its parent: small enough for a pipe to keep whole. */
typedef struct {
    int replicate, status, failed;
    double excess; /* loss of the estimate above the best */
    double seconds, judged_seconds, newton, newton_limit, mobility, survivors, khat, fresh;
    int groups, temperatures, pass_particles;
    sums q[QUANTITIES];
    char reason[3][220];
} outcome;

static void compare(sums *s, double value, double error, double exact, double quantile)
{
    if (isnan(exact)) return;
    s->n++;
    if (!isfinite(value) || !isfinite(error)) {
        s->missing++;
        return;
    }
    double off = value - exact, z = error > 0 ? fabs(off) / error : off == 0 ? 0 : INFINITY;
    s->error += off;
    s->square += off * off;
    s->stated += error;
    s->covered += z <= quantile;
    s->width += 2 * quantile * error;
    s->largest = fmax(s->largest, z);
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The exact statistical errors: square roots of the diagonal of the inverse Hessian at the best theta. */
static int exact_standard_errors(const exact_problem *e, double *se)
{
    size_t p = (size_t)e->problem.model.dim_theta;
    double *H = malloc(2 * p * p * sizeof *H);
    int code = 1;
    if (H) {
        exact_hessian(e, e->best, H);
        code = sosmc_i_cholesky(p, H);
        if (!code) sosmc_i_cholesky_inverse(p, H, H + p * p);
        for (size_t j = 0; !code && j < p; j++) se[j] = sqrt(H[p * p + j * (p + 1)]);
    }
    free(H);
    return code;
}

static void compare_all(const exact_problem *e, const sosmc_judgement *j, outcome *o)
{
    static double se[EXACT_PARAMETERS];
    const double normal = 1.959963984540054;
    exact_values v = e->values(e, j->theta, NULL);
    o->excess = v.loss - e->values(e, e->best, NULL).loss;
    compare(&o->q[LOSS], j->loss.value, j->loss.error, v.loss, normal);
    compare(&o->q[LOG_Z], j->log_z.value, j->log_z.error, v.log_z, normal);
    compare(&o->q[KL], j->kl.value, j->kl.error, v.kl, normal);
    compare(&o->q[REWARD], j->reward.value, j->reward.error, v.reward, normal);
    for (int k = 0; e->identified && k < j->dim_theta; k++)
        compare(&o->q[THETA], j->theta[k], j->theta_mc_error ? j->theta_mc_error[k] : NAN, e->best[k],
                j->theta_mc_error ? j->t_quantile : NAN);
    if (e->rows == 0 || exact_standard_errors(e, se)) return;
    for (int k = 0; k < j->dim_theta; k++) /* relative; it has no interval of its own */
        compare(&o->q[SE], j->theta_standard_error ? j->theta_standard_error[k] / se[k] : NAN, 0.05, 1, normal);
}

static void note_measured(const sosmc_judgement *j, outcome *o)
{
    const sosmc_measured *m = &j->measured;
    o->newton = m->newton;
    o->newton_limit = m->newton_limit + 4 * m->newton_expected;
    o->mobility = m->mobility;
    o->survivors = m->pass_survivors;
    o->khat = m->pass_khat;
    o->fresh = m->fresh_worst < 0 ? NAN : fabs(m->fresh_step) / m->fresh_error;
    o->groups = (int)m->renewals;
    o->temperatures = m->pass_temperatures;
    o->pass_particles = m->pass_particles;
    for (int k = 0; k < 3 && k < j->verdict.reasons; k++)
        (void)snprintf(o->reason[k], sizeof o->reason[k], "%s", j->verdict.reason[k]);
}

/* Runs and judges one replicate of the problem, which is a copy. Returns non-zero when the setting does not apply. */
static int run_once(const request *r, exact_problem e, int schedule, int how, int replicate, outcome *o)
{
    sosmc *s = NULL;
    sosmc_judgement j = {0};
    int64_t iterations = r->iterations;
    char message[400] = "";
    sosmc_settings cfg = exact_settings(&e, r->particles, iterations, schedule_letter[schedule]);
    cfg.seed = 1000 * r->seed + (uint64_t)replicate;
    if (!exact_spoil(&e, how, &cfg, &iterations)) return 1;
    memset(o, 0, sizeof *o);
    o->replicate = replicate;
    double from = now();
    sosmc_status status = sosmc_create(&s, &e.problem, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, iterations, NULL, NULL);
    double middle = now();
    o->failed = status != SOSMC_OK;
    sosmc_judge_options options = {.rows = e.rows, .pass_particles = r->pass};
    status = sosmc_judge(s, &options, &j, message, sizeof message);
    o->seconds = middle - from;
    o->judged_seconds = now() - middle;
    o->status = status == SOSMC_OK ? j.verdict.status : -1;
    if (status == SOSMC_OK && j.theta) compare_all(&e, &j, o);
    note_measured(&j, o);
    if (status != SOSMC_OK) (void)snprintf(o->reason[0], sizeof o->reason[0], "sosmc_judge failed: %s", message);
    sosmc_judgement_free(&j);
    sosmc_free(s);
    return 0;
}

/* ---------------------------------------------------------------------------- many runs */

typedef struct {
    int runs, converged, failed, wrong_pass, wrong_theta, silent_pass, silent_theta, right_flagged;
    double seconds, judged_seconds, excess, pass_particles;
    sums q[QUANTITIES];
} summary;

/* Beyond this many stated errors a theta of p parameters is wrong: three, or what the largest of p Student numbers with 15
 * degrees of freedom exceeds in 0.27 % of the cases. */
static double theta_limit(double p) { return fmax(3, sosmc_i_student_quantile(1 - fmax(1.1e-6, 0.00135 / p), 15)); }

static void print_run(const outcome *o, const char *label)
{
    printf(
        "%s run %d: status %d, excess %.4g, newton %.3g of %.3g, mobility %.3g, groups cut anew %d times, temperatures %d, "
        "survivors %.3g, k-hat %.3g, contradicted %.3g;",
        label, o->replicate, o->status, o->excess, o->newton, o->newton_limit, o->mobility, o->groups, o->temperatures,
        o->survivors, o->khat, o->fresh);
    for (int q = 0; q < QUANTITIES; q++)
        if (o->q[q].n > 0)
            printf(" %s %.4g/%.3g (%.2f)", quantity_name[q], o->q[q].error / o->q[q].n, o->q[q].stated / o->q[q].n,
                   o->q[q].largest);
    printf("\n");
    for (int k = 0; k < 3 && o->reason[k][0]; k++) printf("        %s\n", o->reason[k]);
}

static void add(summary *s, const outcome *o)
{
    double pass = 0, theta = o->q[THETA].largest;
    for (int q = 0; q <= REWARD; q++) pass = fmax(pass, o->q[q].largest);
    int named = o->status != SOSMC_CONVERGED, wrong_pass = pass > 3;
    int wrong_theta = o->q[THETA].n > 0 && theta > theta_limit(o->q[THETA].n);
    s->runs++;
    s->converged += !named;
    s->failed += o->failed;
    s->wrong_pass += wrong_pass;
    s->wrong_theta += wrong_theta;
    s->silent_pass += wrong_pass && !named;
    s->silent_theta += wrong_theta && !named;
    s->right_flagged += named && !wrong_pass && !wrong_theta;
    s->seconds += o->seconds;
    s->judged_seconds += o->judged_seconds;
    s->excess += o->excess;
    s->pass_particles += o->pass_particles;
    for (int q = 0; q < QUANTITIES; q++) {
        const double *from = (const double *)&o->q[q];
        double *to = (double *)&s->q[q];
        for (size_t k = 0; k + 1 < sizeof(sums) / sizeof(double); k++) to[k] += from[k];
        s->q[q].largest = fmax(s->q[q].largest, o->q[q].largest);
    }
}

/* A child works on every J-th replicate and sends an outcome for each. */
static void work(const request *r, const char *name, int schedule, int how, int child, int fd)
{
    exact_problem e;
    int code = exact_open(&e, name, r->data);
    for (int k = r->first + child; k < r->last && !code; k += r->jobs) {
        outcome o;
        if (run_once(r, e, schedule, how, k, &o)) break;
        if (write(fd, &o, sizeof o) != (ssize_t)sizeof o) break;
    }
    exact_close(&e);
}

static void write_run(const request *r, const char *label, const char *how, const outcome *o)
{
    for (int q = 0; q < QUANTITIES; q++) {
        double n = o->q[q].n - o->q[q].missing;
        if (n > 0)
            (void)fprintf(r->csv, "%s,%s,%d,%s,%.6g,%.6g,%.4g,%d,%.4g\n", label, how, o->replicate, quantity_name[q],
                          o->q[q].error / n, o->q[q].stated / n, o->q[q].largest, o->status != SOSMC_CONVERGED,
                          o->seconds + o->judged_seconds);
    }
    (void)fflush(r->csv);
}

static void gather(const request *r, const char *name, int schedule, int how, summary *s)
{
    int ends[2];
    outcome o;
    memset(s, 0, sizeof *s);
    if (pipe(ends)) return;
    (void)fflush(stdout);
    for (int child = 0; child < r->jobs; child++) {
        if (fork() != 0) continue;
        (void)close(ends[0]);
        work(r, name, schedule, how, child, ends[1]);
        _exit(0);
    }
    (void)close(ends[1]);
    while (read(ends[0], &o, sizeof o) == (ssize_t)sizeof o) {
        double theta = o.q[THETA].n > 0 ? o.q[THETA].largest : 0, pass = 0;
        for (int q = 0; q <= REWARD; q++) pass = fmax(pass, o.q[q].largest);
        int silent = o.status == SOSMC_CONVERGED && (pass > 3 || theta > theta_limit(fmax(1, o.q[THETA].n)));
        if (r->verbose || silent) print_run(&o, silent ? "SILENT" : name);
        if (r->csv) write_run(r, name, exact_spoils[how], &o);
        add(s, &o);
    }
    (void)close(ends[0]);
    for (pid_t ended = wait(NULL); ended > 0;) ended = wait(NULL);
}

static void print_summary(const request *r, const char *name, int schedule, int how, const summary *s)
{
    if (s->runs == 0) {
        printf("| %s | %s | %s | does not apply, or its data are missing |\n", name, schedules[schedule],
               exact_spoils[how]);
        return;
    }
    for (int q = 0; q < QUANTITIES; q++) {
        const sums *a = &s->q[q];
        double n = a->n - a->missing, mean = a->error / n;
        if (a->n == 0) continue;
        printf("| %s | %s | %s | %s | %.0f | %+.4g | %.4g | %.4g | %.1f | %.4g | %.2f | %.0f |\n", name,
               schedules[schedule], exact_spoils[how], quantity_name[q], n, mean,
               sqrt(fmax(0, a->square / n - mean * mean)), q == SE ? NAN : a->stated / n,
               q == SE ? NAN : 100 * a->covered / n, q == SE ? NAN : a->width / n, a->largest, a->missing);
    }
    printf(
        "| %s | %s | %s | **verdict** | %d runs, N %d, K %lld: converged %.1f %%, failed %d; wrong: pass %d (silent %d), "
        "theta %d (silent %d); right and flagged %d; excess %.4g; %.3f s a run, judged in %.3f s with %.0f particles |\n",
        name, schedules[schedule], exact_spoils[how], s->runs, r->particles, (long long)r->iterations,
        100.0 * s->converged / s->runs, s->failed, s->wrong_pass, s->silent_pass, s->wrong_theta, s->silent_theta,
        s->right_flagged, s->excess / s->runs, s->seconds / s->runs, s->judged_seconds / s->runs,
        s->pass_particles / s->runs);
    (void)fflush(stdout);
}

static void print_head(void)
{
    printf(
        "| problem | schedule | setting | quantity | n | mean error | sd | stated | coverage %% | width | largest / stated "
        "| missing |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

/* ---------------------------------------------------------------------------- the command line */

static int usage(const char *what)
{
    (void)fprintf(
        stderr, "calibrate: %s is not understood; the first lines of bench/bench_calibrate.c list the options\n", what);
    return 2;
}

static int parse(int argc, char **argv, request *r)
{
    int64_t first = r->first, last = r->last, particles = r->particles, pass = 0, jobs = r->jobs,
            seed = (int64_t)r->seed;
    const bench_option options[] = {{"--problem", .text = &r->problem},    {"--schedule", .text = &r->schedule},
                                    {"--spoil", .text = &r->spoil},        {"--data", .text = &r->data},
                                    {"--first", .number = &first},         {"--last", .number = &last},
                                    {"--particles", .number = &particles}, {"--iterations", .number = &r->iterations},
                                    {"--pass", .number = &pass},           {"--jobs", .number = &jobs},
                                    {"--seed", .number = &seed},           {"--verbose", .flag = &r->verbose},
                                    {"--csv", .text = &r->csv_path}};
    const char *wrong = options_read(argc, argv, options, sizeof options / sizeof *options);
    if (wrong) return usage(wrong);
    r->first = (int)first;
    r->last = (int)last;
    r->particles = (int)particles;
    r->pass = (int)pass;
    r->jobs = jobs > 0 ? (int)jobs : 1;
    r->seed = (uint64_t)seed;
    if (!known(r->problem, exact_names)) return usage(r->problem);
    if (!known(r->schedule, schedules)) return usage(r->schedule);
    if (!known(r->spoil, exact_spoils)) return usage(r->spoil);
    return 0;
}

int main(int argc, char **argv)
{
    request r = {.problem = "all",
                 .schedule = "constant",
                 .spoil = "good",
                 .data = getenv("SOSMC_TEST_DATA"),
                 .last = 20,
                 .particles = 400,
                 .iterations = 500,
                 .seed = 1,
                 .jobs = 1};
    int code = parse(argc, argv, &r);
    if (code) return code;
    if (r.csv_path) {
        r.csv = fopen(r.csv_path, "w");
        if (!r.csv) return usage(r.csv_path);
        (void)fprintf(r.csv, "problem,setting,replicate,quantity,mean error,stated error,largest,flagged,seconds\n");
    }
    print_head();
    for (int p = 0; exact_names[p]; p++)
        for (int schedule = 0; schedules[schedule]; schedule++)
            for (int how = 0; exact_spoils[how]; how++) {
                summary s;
                if (!chosen(r.problem, exact_names[p]) || !chosen(r.schedule, schedules[schedule]) ||
                    !chosen(r.spoil, exact_spoils[how]))
                    continue;
                gather(&r, exact_names[p], schedule, how, &s);
                print_summary(&r, exact_names[p], schedule, how, &s);
            }
    return r.csv && fclose(r.csv) ? 1 : 0;
}
