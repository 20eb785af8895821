/* bench_tune.c: is the tuning of networks good, are its numbers right, and what does it cost? Stored networks of points in the plane are
 * tuned towards half-planes by sosmc_solve, and a lattice tells what they are worth exactly.
 *
 *     bench/tune --model FILE[,FILE...] [--rewards lower,upper,left,right] [--beta-thousandths B] [--first R] [--last R]
 *                [--particles N] [--trace]
 *
 * A row has the updates of theta, the processor time, the exact excess of the loss over that of the best of all densities, loss and
 * reward as they are exactly and as they were told, the differences in errors, and the verdict. --trace: what the search sees on its
 * way. */
#include <math.h>
#include <sosmc/analysis.h>
#include <sosmc/models.h>
#include <sosmc/solve.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job/model_file.h"
#include "options.h"

enum { NODES = 800 };
static const double REACH = 6, START_SD = 4;

typedef struct {
    const char *model, *rewards;
    int64_t beta, first, last, particles;
    int trace;
    int numbers, three, two, flagged;
} request;

typedef struct {
    const char *name;
    model_file file;
    sosmc_mlp mlp;
    sosmc_model model;
    sosmc_score score;
} task;

static double processor_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int open_task(task *t, const char *path)
{
    char error[512];
    const char *slash = strrchr(path, '/');
    *t = (task){.name = slash ? slash + 1 : path};
    if (model_read(path, &t->file, error, sizeof error)) {
        (void)fprintf(stderr, "bench/tune: %s\n", error);
        return -1;
    }
    t->model = model_energy(&t->file, &t->mlp);
    if (t->model.dim_x == 2) return 0;
    (void)fprintf(stderr, "bench/tune: %s is no network of points in the plane\n", path);
    return -1;
}

static void close_task(task *t) { model_free(&t->file); }

typedef struct {
    request *q;
    task *t;
    double beta, begun, beside; /* beside: processor time of the lattice, which is not the search's */
    int64_t shown;
} watching;

static double exact_excess(const task *t, double beta, const double *theta, sosmc_exact *e)
{
    const sosmc_lattice l = {.nodes = NODES, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    *e = (sosmc_exact){.excess = NAN};
    (void)sosmc_plane_exact(&t->model, theta, t->file.theta, &t->score, beta, &l, 1, e);
    return e->excess;
}

static int watch(void *ctx, const sosmc_solver *s, const sosmc_solve_info *info)
{
    watching *w = ctx;
    sosmc_exact e;
    if (!w->q->trace || info->updates == w->shown || info->updates % 250 != 0) return 0;
    w->shown = info->updates;
    double now = processor_seconds();
    double exact = exact_excess(w->t, w->beta, sosmc_solver_theta(s), &e);
    w->beside += processor_seconds() - now;
    printf("  %6lld %8.1f s  excess seen %.6f +- %.6f  exact %.6f  wanted %.6f  ESS %.0f  accepted %.2f\n",
           (long long)info->updates, now - w->begun - w->beside, info->left, info->left_error, exact, info->wanted,
           info->ess, info->accept);
    (void)fflush(stdout);
    return 0;
}

static void count(request *q, double off)
{
    q->numbers++;
    q->three += fabs(off) <= 3;
    q->two += fabs(off) <= 1.959963984540054;
}

static void tune(request *q, task *t, const char *name, int64_t seed)
{
    double beta = 1e-3 * (double)q->beta, sd = t->file.base_sd > 0 ? t->file.base_sd : START_SD;
    double factor[4] = {1 / sd, 0, 0, 1 / sd};
    static const double origin[2] = {0, 0};
    sosmc_gaussian base = {.dim = 2, .mean = origin, .factor = factor};
    sosmc_problem problem = {.model = t->model,
                             .objective = sosmc_reward_reverse(t->score, beta, t->file.theta),
                             .init = sosmc_gaussian_source(&base),
                             .theta0 = t->file.theta};
    watching w = {.q = q, .t = t, .beta = beta, .begun = processor_seconds()};
    sosmc_solve_options options = {.seed = (uint64_t)seed, .particles = (int)q->particles, .see = watch, .see_ctx = &w};
    sosmc_solution r;
    sosmc_exact e = {.excess = NAN};
    sosmc_status status = sosmc_solve(&r, &problem, &options);
    double used = processor_seconds() - w.begun - w.beside;
    const sosmc_judgement *j = &r.judgement;
    if (status == SOSMC_OK) (void)exact_excess(t, beta, j->theta, &e);
    double off[4] = {(j->loss.value - e.loss) / j->loss.error, (j->reward.value - e.reward) / j->reward.error,
                     (j->kl.value - e.kl) / j->kl.error, (j->excess.value - e.excess) / j->excess.error};
    for (int k = 0; k < 4; k++) count(q, off[k]);
    q->flagged += j->verdict.status != SOSMC_CONVERGED;
    printf("%-20s %-5s %4lld %6lld %7.1f  excess %.6f, told %.6f +- %.6f  loss %.4f, told %.4f +- %.4f  reward %.4f, "
           "told %.4f  off %.2f %.2f %.2f %.2f  %s\n",
           t->name, name, (long long)seed, (long long)r.info.updates, used, e.excess, j->excess.value, j->excess.error,
           e.loss, j->loss.value, j->loss.error, e.reward, j->reward.value, off[0], off[1], off[2], off[3],
           sosmc_verdict_name((sosmc_verdict_status)j->verdict.status));
    (void)fflush(stdout);
    sosmc_solution_free(&r);
}

/* Whether `name` is among the words of a list that commas separate. */
static int named(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return 1;
    return 0;
}

static int tune_all(request *q, const char *path)
{
    static const char *const names[] = {"lower", "upper", "left", "right"};
    static const double normals[4][2] = {{0, -1}, {0, 1}, {-1, 0}, {1, 0}};
    task t;
    int rc = open_task(&t, path);
    for (int k = 0; k < 4 && !rc; k++) {
        sosmc_half_plane side = {.dim = 2, .normal = normals[k]};
        t.score = sosmc_half_plane_reward(&side);
        if (!named(q->rewards, names[k])) continue;
        for (int64_t seed = q->first; seed < q->last; seed++) tune(q, &t, names[k], seed);
    }
    close_task(&t);
    return rc;
}

int main(int argc, char **argv)
{
    request q = {.rewards = "lower", .beta = 250, .last = 1};
    const bench_option options[] = {
        {"--model", .text = &q.model},   {"--rewards", .text = &q.rewards}, {"--beta-thousandths", .number = &q.beta},
        {"--first", .number = &q.first}, {"--last", .number = &q.last},     {"--particles", .number = &q.particles},
        {"--trace", .flag = &q.trace}};
    const char *wrong = options_read(argc, argv, options, sizeof options / sizeof *options);
    if (wrong || !q.model || q.beta < 1) {
        (void)fprintf(stderr, "bench/tune: %s%s\n", wrong ? "not understood: " : "it needs --model and a beta above 0",
                      wrong ? wrong : "");
        return 2;
    }
    char path[4096];
    for (const char *at = q.model; *at;) {
        size_t length = strcspn(at, ",");
        if (length < sizeof path) {
            memcpy(path, at, length);
            path[length] = 0;
            if (tune_all(&q, path)) return 1;
        }
        at += length + (at[length] == ',');
    }
    printf("%d numbers, %d within three errors, %d within 1.96; %d runs flagged\n", q.numbers, q.three, q.two,
           q.flagged);
    return 0;
}
