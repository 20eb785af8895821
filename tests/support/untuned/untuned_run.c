/* untuned_run.c: see untuned_run.h. */
#include "untuned_run.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/student.h"

static const double largest_gap = 0.01, largest_nats = 0.1, largest_off = 0.1, normal_quantile = 1.959963984540054;
/* Rewards may have events that are rarer than this, which no run of some thousand particles can know of. */
static const double negligible_weight = 1e-5;

static double processor_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---------------------------------------------------------------------------- one run */

/* P(T > 3) is 0.00448 for Student's T with 15 degrees of freedom, those of 16 groups. */
double untuned_error_limit(int parameters) { return sosmc_i_student_quantile(1 - 0.0044857 / parameters, 15); }

static void compare_loss(const untuned_problem *u, const double *theta, untuned_outcome *o)
{
    o->exact_loss = u->loss(u, theta, NULL);
    o->gap = untuned_gap(u, theta);
    o->nats = u->nats > 0 ? u->nats * (o->exact_loss - u->best_loss) : NAN;
    o->close = u->wanted != UNTUNED_NAMED && o->gap <= largest_gap && (u->nats == 0 || o->nats <= largest_nats);
}

static void compare_theta(const untuned_problem *u, const sosmc_judgement *j, untuned_outcome *o)
{
    int p = j->dim_theta, weights = u->identified == UNTUNED_WEIGHTS;
    double q[UNTUNED_PARAMETERS], best[UNTUNED_PARAMETERS], error[UNTUNED_PARAMETERS] = {0},
                                                            limit = untuned_error_limit(p);
    untuned_identify(u, j->theta, q);
    untuned_identify(u, u->best, best);
    if (j->theta_mc_error) untuned_identified_errors(u, j->theta, j->theta_mc_error, j->theta_mc_covariance, error);
    o->within = o->within_floor = 1;
    for (int k = 0; k < p; k++) {
        double off = fabs(q[k] - best[k]), floor = weights ? 0.01 : 0.02 * fabs(best[k]);
        double stated = isfinite(error[k]) ? error[k] : 0;
        double z = stated > 0 ? off / stated : off > 0 ? INFINITY : 0;
        o->largest = fmax(o->largest, z);
        o->within &= z <= limit;
        o->within_floor &= z <= limit || off <= floor;
        if (stated == 0 || (weights && !j->theta_mc_covariance)) continue;
        o->intervals++;
        o->covered += z <= j->t_quantile || (weights && off <= negligible_weight);
    }
    for (int k = 0; k < p && u->standard_error; k++) {
        double stated = j->theta_standard_error ? j->theta_standard_error[k] : NAN;
        double off = isnan(stated) ? INFINITY : fabs(stated / u->standard_error[k] - 1);
        o->standard_error_off = fmax(o->standard_error_off, off);
    }
}

void untuned_solve(const untuned_problem *u, const sosmc_solve_options *options, untuned_outcome *o)
{
    sosmc_solution r = {0};
    double from = processor_seconds();
    memset(o, 0, sizeof *o);
    o->seed = options->seed;
    o->status = sosmc_solve(&r, &u->problem, options);
    o->seconds = processor_seconds() - from;
    const sosmc_judgement *j = &r.judgement;
    o->verdict = o->status == SOSMC_OK ? j->verdict.status : SOSMC_RUN_FAILED;
    o->finished = r.finished;
    if (j->verdict.reasons > 0) (void)snprintf(o->reason, sizeof o->reason, "%s", j->verdict.reason[0]);
    o->gap = o->nats = o->exact_loss = o->standard_error_off = NAN;
    o->loss = j->loss.value;
    o->loss_error = j->loss.error;
    o->evaluations = r.info.evaluations;
    o->contractions = r.info.contractions;
    o->updates = r.info.updates;
    if (j->theta) {
        compare_loss(u, j->theta, o);
        compare_theta(u, j, o);
    }
    sosmc_solution_free(&r);
}

void untuned_run_defaults(const untuned_problem *u, uint64_t seed, int threads, int64_t iterations, untuned_outcome *o)
{
    sosmc *s = NULL;
    sosmc_problem problem = u->problem;
    sosmc_settings cfg = sosmc_defaults();
    double from = processor_seconds();
    memset(o, 0, sizeof *o);
    problem.init = sosmc_standard_normal();
    cfg.threads = threads;
    o->seed = cfg.seed = seed;
    o->status = sosmc_create(&s, &problem, &cfg);
    if (o->status == SOSMC_OK) o->status = sosmc_run(s, iterations, NULL, NULL);
    o->seconds = processor_seconds() - from;
    o->gap = o->nats = o->exact_loss = NAN;
    if (o->status == SOSMC_OK) compare_loss(u, sosmc_theta(s), o);
    sosmc_free(s);
}

/* Standard errors and the stated loss are compared in the third table. */
int untuned_right(const untuned_outcome *o)
{
    int loss = isnan(o->standard_error_off) || fabs(o->loss - o->exact_loss) <= fmax(largest_nats, 4 * o->loss_error);
    return o->close && o->within_floor && loss && !(o->standard_error_off > largest_off);
}

int untuned_flagged(const untuned_outcome *o) { return o->verdict != SOSMC_CONVERGED; }

int untuned_as_wanted(const untuned_problem *u, const untuned_outcome *o)
{
    int right = untuned_right(o), named = untuned_flagged(o);
    return u->wanted == UNTUNED_RIGHT ? right && !named : u->wanted == UNTUNED_NAMED ? named : right || named;
}

int untuned_silent_and_far(const untuned_outcome *o, int parameters)
{
    int far = isnan(o->nats) ? !(o->gap <= largest_gap) : o->nats > largest_nats;
    return !untuned_flagged(o) && far && !(o->largest <= untuned_error_limit(parameters));
}

/* ---------------------------------------------------------------------------- many runs */

/* The sentence with # in place of every number. */
static void without_numbers(const char *sentence, char *out)
{
    int n = 0;
    for (const char *s = sentence; *s && n < UNTUNED_REASON - 1; n++) {
        char *end = NULL;
        if (isdigit((unsigned char)*s) || (*s == '-' && isdigit((unsigned char)s[1]))) {
            (void)strtod(s, &end);
            out[n] = '#';
            s = end;
        } else
            out[n] = *s++;
    }
    out[n] = 0;
}

static void count_reason(untuned_tally *t, const char *sentence)
{
    char reason[UNTUNED_REASON];
    int k = 0;
    without_numbers(sentence[0] ? sentence : "no reason is told", reason);
    while (k < t->reasons && strcmp(t->reason[k], reason) != 0) k++;
    if (k == UNTUNED_REASONS) return;
    if (k == t->reasons) memcpy(t->reason[t->reasons++], reason, sizeof reason);
    t->reason_count[k]++;
}

void untuned_count(untuned_tally *t, const untuned_problem *u, const untuned_outcome *o)
{
    int right = untuned_right(o), flagged = untuned_flagged(o);
    if (t->runs < UNTUNED_RUNS) t->gap[t->runs] = isnan(o->gap) ? INFINITY : o->gap;
    t->runs++;
    t->right += right;
    t->right_without_floor += o->close && o->within;
    t->solved += right && !flagged;
    t->flagged += flagged;
    t->right_flagged += right && flagged;
    t->silent += !right && !flagged;
    t->silent_far += untuned_silent_and_far(o, u->problem.model.dim_theta);
    t->as_wanted += untuned_as_wanted(u, o);
    t->intervals += o->intervals;
    t->covered += o->covered;
    if (isfinite(o->loss_error) && isfinite(o->exact_loss)) {
        t->losses++;
        t->losses_covered += fabs(o->loss - o->exact_loss) <= normal_quantile * o->loss_error;
    }
    t->seconds += o->seconds;
    t->evaluations += (double)o->evaluations;
    if (flagged) count_reason(t, o->reason);
}

void untuned_count_defaults(untuned_tally *t, const untuned_outcome *o)
{
    t->old_runs++;
    t->old_close += o->gap <= largest_gap;
    t->old_failed += o->status != SOSMC_OK;
    if (o->status == SOSMC_OK) t->old_seconds += o->seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double untuned_median_gap(untuned_tally *t)
{
    int n = t->runs < UNTUNED_RUNS ? t->runs : UNTUNED_RUNS;
    if (n == 0) return NAN;
    qsort(t->gap, (size_t)n, sizeof *t->gap, ascending);
    return 0.5 * (t->gap[n / 2] + t->gap[(n - 1) / 2]);
}
