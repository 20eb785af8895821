/* bench_untuned.c: is sosmc_solve right, does it know when it is not, and what does it cost? Runs on the problems of
 * tests/support/untuned/untuned.h, compared with their exact answers, in a table.
 *
 *     bench/untuned [--problem NAME,NAME,...] [--first R] [--last R] [--coordinates plain|moved] [--threads T] [--old K]
 *                   [--iterations N] [--evaluations N] [--csv FILE] [--data DIR]
 *
 * NAME may be `all`, every problem of the first table, `out_of_sample`, every problem of the second, or `unusual`, every problem of the third
 * (default: all).
 * Every problem runs with seeds R = first .. last - 1 and no setting; `moved` takes it into other coordinates first, those of its
 * seed (tests/support/untuned/coordinates.h). --evaluations ends a run after so many (0: never). The first K seeds also run with
 * sosmc_defaults, a standard normal initial law and N iterations (1,000). The columns:
 *
 *     right          the loss is within 1 % of the initial gap and 0.1 nats, and every identified parameter within its stated errors
 *                    or a floor (untuned_run.h says how); then the same without the floor
 *     flagged        the verdict is not `converged`; then how many of these are right
 *     wanted         the outcome that the problem asks for: right and not flagged, right or flagged (for problems marked *), or flagged (!)
 *     silent         neither right nor flagged; then how many of these are beyond their stated errors and 0.1 nats
 *     theta, loss    coverage of the 95 % intervals of theta, against the exact minimum, and of the loss at the theta found
 *     gap            median share of the initial gap that is left
 *     s              processor time a run, of all threads
 *     old            how many runs of sosmc_defaults end within 1 % of the initial gap, and the processor time of those that do not
 *                    fail before their last iteration
 *
 * --csv writes a line per run. What was asked of the solver, and whether it holds, stands below the table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/support/untuned/coordinates.h"
#include "../tests/support/untuned/untuned_run.h"
#include "options.h"

typedef struct {
    const char *problem, *coordinates, *csv_path, *data;
    int64_t first, last, threads, old, iterations, evaluations;
    FILE *csv;
} request;

/* Whether the name is in a list with commas. */
static int listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0)) return 1;
    }
    return 0;
}

/* Name k of the problems that the list chooses; NULL when there are no more. */
static const char *chosen(const char *list, int k)
{
    static const struct {
        const char *name;
        const char *(*problem)(int k);
    } tables[] = {
        {"all", untuned_name}, {"out_of_sample", untuned_out_of_sample_name}, {"unusual", untuned_unusual_name}};
    const char *name;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        int whole = listed(list, tables[t].name);
        for (int at = 0; (name = tables[t].problem(at)); at++)
            if ((whole || listed(list, name)) && k-- == 0) return name;
    }
    return NULL;
}

/* ---------------------------------------------------------------------------- runs */

static void write_head(FILE *f)
{
    (void)fprintf(
        f, "problem,coordinates,seed,right,right_without_floor,flagged,finished,gap,nats,largest_error,intervals,"
           "covered,standard_error_off,loss,loss_error,exact_loss,evaluations,contractions,updates,seconds,reason\n");
}

static void write_run(const request *r, const char *name, const untuned_outcome *o)
{
    (void)fprintf(r->csv, "%s,%s,%llu,%d,%d,%d,%d,%.6g,%.6g,%.4g,%d,%d,%.3g,%.10g,%.4g,%.10g,%lld,%lld,%lld,%.4g,\"",
                  name, r->coordinates, (unsigned long long)o->seed, untuned_right(o), o->close && o->within,
                  untuned_flagged(o), o->finished, o->gap, o->nats, o->largest, o->intervals, o->covered,
                  o->standard_error_off, o->loss, o->loss_error, o->exact_loss, (long long)o->evaluations,
                  (long long)o->contractions, (long long)o->updates, o->seconds);
    for (const char *c = o->reason; *c; c++) (void)fputc(*c == '"' ? '\'' : *c, r->csv);
    (void)fprintf(r->csv, "\"\n");
    (void)fflush(r->csv);
}

/* One seed: the problem as it is, or in the coordinates of the seed. */
static int run_seed(const request *r, const untuned_problem *plain, uint64_t seed, untuned_tally *t)
{
    untuned_problem moved = {0};
    const untuned_problem *u = plain;
    untuned_outcome o;
    if (strcmp(r->coordinates, "moved") == 0) {
        untuned_coordinates c = untuned_coordinates_of(seed);
        if (untuned_move(&moved, plain, &c)) return 1;
        u = &moved;
    }
    sosmc_solve_options options = {
        .seed = seed, .threads = (int)r->threads, .rows = u->rows, .evaluations = r->evaluations};
    untuned_solve(u, &options, &o);
    untuned_count(t, u, &o);
    if (r->csv) write_run(r, u->name, &o);
    if ((int64_t)seed < r->first + r->old) {
        untuned_run_defaults(u, seed, (int)r->threads, r->iterations, &o);
        untuned_count_defaults(t, &o);
    }
    if (moved.name) untuned_close(&moved);
    return 0;
}

/* ---------------------------------------------------------------------------- the table */

static double percent(int part, int whole) { return whole ? 100.0 * part / whole : NAN; }

static void print_head(void)
{
    printf(
        "| problem | runs | right %% | no floor %% | flagged | right, flagged | wanted %% | silent | far | theta %% | loss %% | gap %% | "
        "evaluations | s | old within 1 %% | old s |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

/* NaN where no run of sosmc_defaults came to its end. */
static double old_seconds(const untuned_tally *t)
{
    int ended = t->old_runs - t->old_failed;
    return ended ? t->old_seconds / ended : NAN;
}

static void print_row(const untuned_problem *u, untuned_tally *t)
{
    static const char *const mark[] = {[UNTUNED_RIGHT] = "", [UNTUNED_RIGHT_OR_NAMED] = " *", [UNTUNED_NAMED] = " !"};
    printf(
        "| %s%s | %d | %.1f | %.1f | %d | %d | %.1f | %d | %d | %.1f | %.1f | %.2g | %.3gM | %.2f | %d of %d | %.2f |\n",
        u->name, mark[u->wanted], t->runs, percent(t->right, t->runs), percent(t->right_without_floor, t->runs),
        t->flagged, t->right_flagged, percent(t->as_wanted, t->runs), t->silent, t->silent_far,
        percent(t->covered, t->intervals), percent(t->losses_covered, t->losses), 100 * untuned_median_gap(t),
        1e-6 * t->evaluations / t->runs, t->seconds / t->runs, t->old_close, t->old_runs, old_seconds(t));
    for (int k = 0; k < t->reasons; k++) printf("|   | %d: %s |\n", t->reason_count[k], t->reason[k]);
    (void)fflush(stdout);
}

/* Sums over problems. */
typedef struct {
    int problems, missing;
    int asked, solved; /* that are to be right, and of these: 93 % right and not flagged */
    int with_theta;    /* problems with intervals of theta */
    double theta;      /* sum of their coverages: each of them counts once, whatever its number of parameters */
    int compared, faster, alone; /* with sosmc_defaults; alone: none of its runs came to its end */
    untuned_tally all;
    char unsolved[1000];
} totals;

static void add_problem(totals *s, const untuned_problem *u, const untuned_tally *t)
{
    s->problems++;
    s->asked += u->wanted == UNTUNED_RIGHT;
    if (u->wanted == UNTUNED_RIGHT && t->solved >= 0.93 * t->runs)
        s->solved++;
    else if (u->wanted == UNTUNED_RIGHT)
        (void)snprintf(s->unsolved + strlen(s->unsolved), sizeof s->unsolved - strlen(s->unsolved), " %s", u->name);
    s->compared += t->old_runs > 0;
    s->alone += t->old_runs > 0 && t->old_runs == t->old_failed;
    s->faster += t->seconds / t->runs < old_seconds(t);
    s->all.runs += t->runs;
    s->all.right_flagged += t->right_flagged;
    s->all.as_wanted += t->as_wanted;
    s->all.silent += t->silent;
    s->all.silent_far += t->silent_far;
    s->with_theta += t->intervals > 0;
    s->theta += t->intervals > 0 ? percent(t->covered, t->intervals) : 0;
    s->all.losses += t->losses;
    s->all.losses_covered += t->losses_covered;
}

static const char *holds(int yes) { return yes ? "holds" : "DOES NOT HOLD"; }

static void print_totals(const totals *s)
{
    const untuned_tally *t = &s->all;
    double theta = s->theta / s->with_theta, loss = percent(t->losses_covered, t->losses);
    double flagged = percent(t->right_flagged, t->runs), silent = percent(t->silent, t->runs);
    printf("\n%d problems, %d runs", s->problems, t->runs);
    if (s->missing) printf(", %d problems could not be opened (their data are missing)", s->missing);
    printf("\n- right and not flagged in 93 %% of the runs on all problems that are to be right: %d of %d, %s%s%s\n",
           s->solved, s->asked, holds(s->solved == s->asked), s->unsolved[0] ? "; not" : "", s->unsolved);
    printf("- the outcome that the problem asks for in 95 %% of the runs: %.1f %%, %s\n",
           percent(t->as_wanted, t->runs), holds(t->as_wanted >= 0.95 * t->runs));
    printf("- right but flagged at most 5 %%: %.2f %%, %s\n", flagged, holds(flagged <= 5));
    printf("- silently wrong at most 0.5 %%: %.2f %% (beyond stated errors and 0.1 nats: %.2f %%), %s\n", silent,
           percent(t->silent_far, t->runs), holds(silent <= 0.5));
    printf("- coverage from 90 to 98 %%: theta %.1f %% (mean over problems), loss %.1f %%, %s\n", theta, loss,
           holds(theta >= 90 && theta <= 98 && loss >= 90 && loss <= 98));
    if (s->compared)
        printf(
            "- less processor time than sosmc_defaults on three quarters of the problems: %d of %d, and %d where none of its "
            "runs came to its end, %s\n",
            s->faster, s->compared, s->alone, holds(4 * (s->faster + s->alone) >= 3 * s->compared));
}

/* ---------------------------------------------------------------------------- the command line */

static int usage(const char *what)
{
    (void)fprintf(stderr, "untuned: %s is not understood; the first lines of bench/bench_untuned.c list the options\n",
                  what);
    return 2;
}

static int parse(int argc, char **argv, request *r)
{
    const bench_option options[] = {{"--problem", .text = &r->problem},
                                    {"--coordinates", .text = &r->coordinates},
                                    {"--csv", .text = &r->csv_path},
                                    {"--data", .text = &r->data},
                                    {"--first", .number = &r->first},
                                    {"--last", .number = &r->last},
                                    {"--threads", .number = &r->threads},
                                    {"--old", .number = &r->old},
                                    {"--iterations", .number = &r->iterations},
                                    {"--evaluations", .number = &r->evaluations}};
    const char *wrong = options_read(argc, argv, options, sizeof options / sizeof *options);
    if (wrong) return usage(wrong);
    if (!chosen(r->problem, 0)) return usage(r->problem);
    if (strcmp(r->coordinates, "plain") != 0 && strcmp(r->coordinates, "moved") != 0) return usage(r->coordinates);
    if (r->threads > 64) return usage("--threads above 64");
    return 0;
}

int main(int argc, char **argv)
{
    static totals sums;
    request r = {.problem = "all",
                 .coordinates = "plain",
                 .data = getenv("SOSMC_TEST_DATA"),
                 .last = 20,
                 .threads = 1,
                 .old = 3,
                 .iterations = 1000};
    int code = parse(argc, argv, &r);
    if (code) return code;
    if (r.csv_path && !(r.csv = fopen(r.csv_path, "w"))) return usage(r.csv_path);
    if (r.csv) write_head(r.csv);
    print_head();
    for (int k = 0; chosen(r.problem, k); k++) {
        static untuned_tally t;
        untuned_problem u;
        memset(&t, 0, sizeof t);
        int failed = untuned_open(&u, chosen(r.problem, k), r.data);
        sums.missing += failed;
        for (int64_t seed = r.first; seed < r.last && !failed; seed++) failed = run_seed(&r, &u, (uint64_t)seed, &t);
        if (t.runs > 0) {
            print_row(&u, &t);
            add_problem(&sums, &u, &t);
        }
        untuned_close(&u);
    }
    print_totals(&sums);
    return r.csv ? fclose(r.csv) != 0 : 0;
}
