/* bench_evidence.c: how accurate tempering is, and how honest its errors are, where exact answers are known.
 *
 *     bench/evidence [--runs R] [--first R] [--particles N] [--no-peers]          two modes in 10 and in 50 dimensions
 *     bench/evidence --mixtures [--runs R] [--first R] [--particles N]            several modes, elsewhere with every seed
 *     bench/evidence --tilts [--runs R] [--first R] [--particles N]               N(0, I) tilted by four rewards
 *     bench/evidence --model FILE [--tuned FILE] [--runs R] [--first R] [--particles N] [--beta-thousandths B]
 *
 * Each form takes --csv FILE, which writes a line for every number that was compared.
 *
 * The first form goes from N(0, 16 I) to two normal modes of unit covariance at -4 and 4 on the first axis, with 0.25 and 0.75 of the
 * mass: log Z by sosmc_temper, with its trial and straight, beside the adaptive tempering of BlackJAX where
 * build/peers has it (SOSMC_PEER_PYTHON names another interpreter). It prints the rms error, the mean stated error, the coverage of the
 * 95 % interval, evaluations of U, processor seconds, and the rms error that the same accuracy would have at 100,000 evaluations.
 *
 * The second goes to mixtures whose modes and masses are drawn anew with every seed, and counts the runs whose log Z is within three stated
 * errors and those that are not, though their verdict is `converged`: mostly a mode was lost.
 *
 * The third tilts N(0, I) in 2 to 50 dimensions by rewards whose log ratio is known: a line, squares, products of neighbours, a jump.
 *
 * The fourth takes a stored network of the plane, whose answers a lattice knows: log Z, the mean reward of the lower half-plane, and of the
 * network tilted by that reward log Z, reward, KL and loss; with --tuned also what sosmc_judge tells of a tuned network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sosmc/lattice.h>
#include <sosmc/models.h>
#include <sosmc/temper.h>

#include "job/model_file.h"
#include "options.h"
#include "peer.h"

typedef struct {
    int64_t runs, first, particles, beta; /* beta in thousandths */
    const char *model, *tuned, *csv_path;
    int no_peers, mixtures, tilts;
    FILE *csv;
} request;

static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* ---------------------------------------------------------------------------- errors against exact values */

typedef struct {
    double n, square, sum, stated, held, far, missing;
} tally;

/* A line of the CSV file, where there is one: a number of a run, its error, the exact value, and what the run says of itself. */
static void write_number(const request *r, const char *name, uint64_t seed, const sosmc_number *told, double exact,
                         const sosmc_tempered *run)
{
    if (!r->csv) return;
    (void)fprintf(r->csv, "\"%s\",%llu,%.10g,%.6g,%.10g", name, (unsigned long long)seed, told->value, told->error,
                  exact);
    if (run)
        (void)fprintf(r->csv, ",%d,%lld\n", run->verdict.status != SOSMC_CONVERGED, (long long)run->evaluations);
    else
        (void)fprintf(r->csv, ",,\n");
}

static void count(tally *t, const sosmc_number *told, double exact)
{
    double off = told->value - exact;
    if (!isfinite(off) || !isfinite(told->error)) {
        t->missing++;
        return;
    }
    t->n++;
    t->sum += off;
    t->square += off * off;
    t->stated += told->error * told->error;
    t->held += fabs(off) <= 1.959964 * told->error;
    t->far += fabs(off) > 3 * told->error;
}

static void print_tally(const char *name, const tally *t)
{
    printf("  %-28s mean %+9.2g   rms %8.2g   stated %8.2g   coverage %3.0f %%   beyond three %2.0f of %3.0f", name,
           t->sum / t->n, sqrt(t->square / t->n), sqrt(t->stated / t->n), 100 * t->held / t->n, t->far, t->n);
    if (t->missing > 0) printf("   no number %.0f", t->missing);
    printf("\n");
}

/* ---------------------------------------------------------------------------- two modes */

enum { DIMS = 2, MOST = 50, KINDS = 2 };
static const int dims[DIMS] = {10, 50};
static const char *const advice =
    "python3 -m venv build/peers && build/peers/bin/pip install -r bench/peers/requirements.txt";

static void two_modes(const request *r, int dim, int direct)
{
    double means[2 * MOST] = {0}, sd[MOST], theta[2] = {log(0.25), log(0.75)}, evaluations = 0, begun, seconds;
    sosmc_mixture mixture = {.dim = dim, .components = 2, .means = means, .variance = 1};
    sosmc_law *wide = sosmc_law_create(dim, 0);
    tally t = {0};
    char name[60];
    (void)snprintf(name, sizeof name, "two modes in %d dimensions%s", dim, direct ? ", straight" : "");
    means[0] = -4;
    means[dim] = 4; // cppcheck-suppress unreadVariable ; the mixture reads it
    for (int j = 0; j < dim; j++) sd[j] = 4;
    if (!wide || sosmc_law_add(wide, 1, NULL, sd) != SOSMC_OK) exit(1);
    begun = processor_seconds();
    for (int64_t k = 0; k < r->runs; k++) {
        sosmc_temper_task task = {.model = sosmc_mixture_model(&mixture),
                                  .theta = theta,
                                  .start = wide,
                                  .particles = (int)r->particles,
                                  .direct = direct,
                                  .seed = (uint64_t)(r->first + k)};
        sosmc_tempered told;
        if (sosmc_temper(&task, &told, NULL) != SOSMC_OK) exit(1);
        count(&t, &told.log_z, sosmc_mixture_logz(&mixture));
        write_number(r, name, task.seed, &told.log_z, sosmc_mixture_logz(&mixture), &told);
        evaluations += (double)told.evaluations;
    }
    seconds = (processor_seconds() - begun) / (double)r->runs;
    evaluations /= (double)r->runs;
    double rms = sqrt(t.square / t.n);
    printf("  %-34s rms %.3f   stated %.3f   coverage %3.0f %%   %8.0f evaluations   %.3f s   at 100,000: %.3f\n",
           direct ? "sosmc, straight" : "sosmc", rms, sqrt(t.stated / t.n), 100 * t.held / t.n, evaluations, seconds,
           rms * sqrt(evaluations / 1e5));
    sosmc_law_free(wide);
}

static int peer(const request *r, int dim)
{
    char text[8192], number[3][24];
    (void)snprintf(number[0], sizeof number[0], "%d", dim);
    (void)snprintf(number[1], sizeof number[1], "%lld", (long long)r->runs);
    (void)snprintf(number[2], sizeof number[2], "%lld", (long long)r->particles);
    const char *const argv[] = {
        peer_interpreter(), "bench/peers/evidence_blackjax.py", number[0], number[1], number[2], NULL};
    if (access(argv[0], X_OK) || peer_output(argv, text, sizeof text)) {
        printf("  BlackJAX is not installed, or did not run (%s)\n", advice);
        return -1;
    }
    fputs(text, stdout);
    return 0;
}

static int compare(const request *r)
{
    printf("log Z of two modes from N(0, 16 I), %lld particles, %lld seeds\n", (long long)r->particles,
           (long long)r->runs);
    int there = !r->no_peers;
    for (int d = 0; d < DIMS; d++) {
        printf("%d dimensions\n", dims[d]);
        for (int direct = 0; direct < 2; direct++) two_modes(r, dims[d], direct);
        (void)fflush(stdout);
        if (there) there = peer(r, dims[d]) == 0;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- several modes */

enum { MOST_MODES = 4, FAMILIES = 7 };
typedef struct {
    int dim, modes;
    double variance, spread; /* of the modes' centres in every direction: a standard deviation */
    double smallest;         /* masses are in proportion to this, and up to 1 more */
} family;
static const family families[FAMILIES] = {{2, 3, 1e-4, 2.5, 0.1},  {2, 3, 0.01, 2.5, 0.05}, {5, 4, 0.01, 2.5, 0.05},
                                          {10, 4, 0.05, 2.5, 0.1}, {20, 4, 0.3, 2.5, 0.1},  {20, 4, 1, 2.5, 0.1},
                                          {50, 2, 1, 2.5, 0.3}};

/* Centres and log-masses of one of them. */
static void draw_modes(const family *f, uint64_t seed, double *means, double *theta)
{
    double u[MOST_MODES], sum = 0;
    sosmc_rng rng = {.seed = seed, .step = (uint64_t)f->dim};
    sosmc_batch all = {.simd = sosmc_simd_best(), .dim = f->dim * f->modes, .n = 1, .ld = 1};
    sosmc_batch masses = {.simd = all.simd, .dim = 1, .n = f->modes, .ld = f->modes};
    sosmc_normals(rng, &all, means);
    sosmc_uniforms(rng, 1, &masses, u);
    for (int i = 0; i < all.dim; i++) means[i] *= f->spread;
    for (int k = 0; k < f->modes; k++) sum += u[k] += f->smallest;
    for (int k = 0; k < f->modes; k++) theta[k] = log(u[k] / sum);
}

static void several_modes(const request *r, const family *f)
{
    double means[MOST_MODES * MOST], theta[MOST_MODES], sd[MOST], evaluations = 0, begun = processor_seconds();
    sosmc_mixture mixture = {.dim = f->dim, .components = f->modes, .means = means, .variance = f->variance};
    sosmc_law *wide = sosmc_law_create(f->dim, 0);
    tally t = {0};
    int silent = 0, flagged = 0;
    char name[60];
    (void)snprintf(name, sizeof name, "%d modes of variance %g in %d dimensions", f->modes, f->variance, f->dim);
    for (int j = 0; j < f->dim; j++) sd[j] = 4;
    if (!wide || sosmc_law_add(wide, 1, NULL, sd) != SOSMC_OK) exit(1);
    for (int64_t k = 0; k < r->runs; k++) {
        uint64_t seed = (uint64_t)(r->first + k);
        draw_modes(f, seed, means, theta);
        sosmc_temper_task task = {.model = sosmc_mixture_model(&mixture),
                                  .theta = theta,
                                  .start = wide,
                                  .particles = (int)r->particles,
                                  .seed = seed};
        sosmc_tempered told;
        if (sosmc_temper(&task, &told, NULL) != SOSMC_OK) exit(1);
        double far = t.far;
        count(&t, &told.log_z, sosmc_mixture_logz(&mixture));
        write_number(r, name, seed, &told.log_z, sosmc_mixture_logz(&mixture), &told);
        flagged += told.verdict.status != SOSMC_CONVERGED;
        silent += t.far > far && told.verdict.status == SOSMC_CONVERGED;
        evaluations += (double)told.evaluations / (double)r->runs;
    }
    printf(
        "%3d dimensions, %d modes of variance %-6g rms %.3f   stated %.3f   within three %3.0f of %3.0f   silent %2d   flagged %2d   "
        "%8.0f evaluations   %.3f s\n",
        f->dim, f->modes, f->variance, sqrt(t.square / t.n), sqrt(t.stated / t.n), t.n - t.far, t.n, silent, flagged,
        evaluations, (processor_seconds() - begun) / (double)r->runs);
    (void)fflush(stdout);
    sosmc_law_free(wide);
}

/* ---------------------------------------------------------------------------- normal laws, tilted */

/* N(0, I), tilted with beta 1 by rewards whose log ratio is known. */
enum { SHIFT, SQUEEZE, PAIRS, HALF, TILTS, TILT_DIMS = 5 };
static const char *const tilt_names[TILTS] = {"sum of x_i", "-2 |x|^2", "0.4 sum of x_i x_i+1", "3 where x_1 > 1"};
static const int tilt_dims[TILT_DIMS] = {2, 5, 10, 20, 50};
static const double SQUEEZED = 2, PAIRED = 0.4, STEP_HEIGHT = 3, STEP_AT = 1;

static double reward_at(int kind, int dim, size_t ld, const double *x)
{
    double sum = 0;
    for (int j = 0; j < dim; j++) {
        double a = x[(size_t)j * ld];
        if (kind == SHIFT) sum += a;
        if (kind == SQUEEZE) sum -= SQUEEZED * a * a;
        if (kind == PAIRS && j + 1 < dim) sum += PAIRED * a * x[(size_t)(j + 1) * ld];
    }
    return kind == HALF ? (x[0] > STEP_AT ? STEP_HEIGHT : 0) : sum;
}

static int tilt_reward(const void *kind, const sosmc_batch *b, double *R)
{
    for (int i = 0; i < b->n; i++) R[i] = reward_at(*(const int *)kind, b->dim, (size_t)b->ld, b->x + i);
    return 0;
}

/* log of the mean of exp(c R). */
static double exact_gain(int kind, int dim, double c)
{
    double before = 1, det = 1, share = 0.5 * erfc(STEP_AT / sqrt(2.0));
    if (kind == SHIFT) return 0.5 * dim * c * c;
    if (kind == SQUEEZE) return -0.5 * dim * log1p(2 * SQUEEZED * c);
    if (kind == HALF) return log(1 - share + share * exp(STEP_HEIGHT * c));
    for (int j = 1; j < dim; j++) { /* the precision has ones, and -PAIRED c beside them */
        double next = det - PAIRED * PAIRED * c * c * before;
        before = det;
        det = next;
    }
    return -0.5 * log(det);
}

static void one_tilt(const request *r, int kind, int dim)
{
    double mean[MOST] = {0}, theta = 0, sd[MOST], evaluations = 0, begun = processor_seconds();
    double gain = exact_gain(kind, dim, 1),
           rise = 5e4 * (exact_gain(kind, dim, 1 + 1e-5) - exact_gain(kind, dim, 1 - 1e-5));
    sosmc_mixture normal = {.dim = dim, .components = 1, .means = mean, .variance = 1};
    sosmc_law *wide = sosmc_law_create(dim, 0);
    tally loss = {0}, reward = {0};
    int silent = 0, flagged = 0;
    char name[2][60];
    for (int k = 0; k < 2; k++)
        (void)snprintf(name[k], sizeof name[k], "%s in %d dimensions: %s", tilt_names[kind], dim,
                       k ? "reward" : "loss");
    for (int j = 0; j < dim; j++) sd[j] = 4;
    if (!wide || sosmc_law_add(wide, 1, NULL, sd) != SOSMC_OK) exit(1);
    for (int64_t k = 0; k < r->runs; k++) {
        sosmc_temper_task task = {.model = sosmc_mixture_model(&normal),
                                  .theta = &theta,
                                  .start = wide,
                                  .score = {.self = &kind, .eval = tilt_reward},
                                  .beta = 1,
                                  .particles = (int)r->particles,
                                  .seed = (uint64_t)(r->first + k)};
        sosmc_tempered told;
        if (sosmc_temper(&task, &told, NULL) != SOSMC_OK) exit(1);
        double far = loss.far;
        count(&loss, &told.loss, -gain);
        count(&reward, &told.reward, rise);
        write_number(r, name[0], task.seed, &told.loss, -gain, &told);
        write_number(r, name[1], task.seed, &told.reward, rise, &told);
        flagged += told.verdict.status != SOSMC_CONVERGED;
        silent += loss.far > far && told.verdict.status == SOSMC_CONVERGED;
        evaluations += (double)told.evaluations / (double)r->runs;
    }
    printf(
        "%-21s %2d dimensions   loss: rms %7.3f   stated %6.3f   coverage %3.0f %%   reward: rms %7.3f   stated %6.3f   coverage "
        "%3.0f %%   silent %2d   flagged %2d   %8.0f evaluations   %.3f s\n",
        tilt_names[kind], dim, sqrt(loss.square / loss.n), sqrt(loss.stated / loss.n), 100 * loss.held / loss.n,
        sqrt(reward.square / reward.n), sqrt(reward.stated / reward.n), 100 * reward.held / reward.n, silent, flagged,
        evaluations, (processor_seconds() - begun) / (double)r->runs);
    (void)fflush(stdout);
    sosmc_law_free(wide);
}

static int tilts(const request *r)
{
    printf("loss and reward of N(0, I) tilted with beta 1, %lld particles, %lld seeds\n", (long long)r->particles,
           (long long)r->runs);
    for (int kind = 0; kind < TILTS; kind++)
        for (int d = 0; d < TILT_DIMS; d++) one_tilt(r, kind, tilt_dims[d]);
    return 0;
}

/* ---------------------------------------------------------------------------- networks of the plane */

enum { NODES = 600 };
static const double REACH = 9;

typedef struct {
    model_file file, tuned;
    sosmc_mlp mlp;
    sosmc_model model;
    double normal[2], beta;
    sosmc_half_plane lower;
    sosmc_score score;
    sosmc_exact exact, exact_tuned;
} subject;

static int read_models(const request *r, subject *s)
{
    char error[512];
    if (model_read(r->model, &s->file, error, sizeof error) ||
        (r->tuned && model_read(r->tuned, &s->tuned, error, sizeof error))) {
        fprintf(stderr, "%s\n", error);
        return -1;
    }
    s->model = model_energy(&s->file, &s->mlp);
    if (s->model.dim_x == 2) return 0;
    fprintf(stderr, "%s is no network of points in the plane\n", r->model);
    return -1;
}

/* Both thetas on the lattice. */
static int take_exact(subject *s)
{
    const sosmc_lattice l = {.nodes = NODES, .low = {-REACH, -REACH}, .high = {REACH, REACH}};
    size_t n = (size_t)NODES * NODES;
    double *U = malloc(3 * n * sizeof *U), *R = U ? U + n : NULL, *V = U ? U + 2 * n : NULL;
    int rc = !U || sosmc_lattice_energy(&s->model, s->file.theta, &l, 1, U) != SOSMC_OK ||
             sosmc_lattice_score(&s->score, &l, R) != SOSMC_OK;
    if (!rc) sosmc_lattice_exact(&l, U, U, R, s->beta, &s->exact);
    if (!rc && s->tuned.theta) {
        rc = sosmc_lattice_energy(&s->model, s->tuned.theta, &l, 1, V) != SOSMC_OK;
        if (!rc) sosmc_lattice_exact(&l, V, U, R, s->beta, &s->exact_tuned);
    }
    free(U);
    return rc;
}

static sosmc_law *wide_law(void)
{
    double sd[2] = {4, 4};
    sosmc_law *wide = sosmc_law_create(2, 0);
    if (!wide || sosmc_law_add(wide, 1, NULL, sd) != SOSMC_OK) exit(1);
    return wide;
}

enum {
    LOG_Z,
    REWARD,
    TILTED_LOG_Z,
    TILTED_REWARD,
    TILTED_KL,
    TILTED_LOSS,
    JUDGED,
    JUDGED_LOG_Z = JUDGED,
    JUDGED_REWARD,
    JUDGED_KL,
    JUDGED_LOSS,
    JUDGED_BEST,
    JUDGED_EXCESS,
    QUANTITIES
};
static const char *const names[QUANTITIES] = {"log Z",      "reward",       "tilted: log Z",    "tilted: reward",
                                              "tilted: KL", "tilted: loss", "tuned: log Z",     "tuned: reward",
                                              "tuned: KL",  "tuned: loss",  "tuned: best loss", "tuned: excess"};

static void count_quantity(const request *r, tally *t, int q, uint64_t seed, const sosmc_number *told, double exact,
                           const sosmc_tempered *run)
{
    count(&t[q], told, exact);
    write_number(r, names[q], seed, told, exact, run);
}

static void by_tempering(const request *r, const subject *s, uint64_t seed, tally t[QUANTITIES])
{
    sosmc_law *wide = wide_law();
    sosmc_temper_task task = {.model = s->model,
                              .theta = s->file.theta,
                              .start = wide,
                              .score = s->score,
                              .beta = s->beta,
                              .particles = (int)r->particles,
                              .seed = seed};
    sosmc_tempered told;
    if (sosmc_temper(&task, &told, NULL) != SOSMC_OK) exit(1);
    count_quantity(r, t, LOG_Z, seed, &told.model_log_z, s->exact.logz, &told);
    count_quantity(r, t, REWARD, seed, &told.model_reward, s->exact.reward, &told);
    count_quantity(r, t, TILTED_LOG_Z, seed, &told.log_z, s->exact.logz - s->exact.best_loss / s->beta, &told);
    count_quantity(r, t, TILTED_REWARD, seed, &told.reward, s->exact.best_reward, &told);
    count_quantity(r, t, TILTED_KL, seed, &told.kl, s->exact.best_kl, &told);
    count_quantity(r, t, TILTED_LOSS, seed, &told.loss, s->exact.best_loss, &told);
    sosmc_law_free(wide);
}

/* What a judgement tells of a run that ends at the tuned theta: an engine whose cloud is drawn there. */
static void by_judgement(const request *r, const subject *s, uint64_t seed, tally t[QUANTITIES])
{
    int n = (int)r->particles;
    sosmc_law *wide = wide_law();
    double *x = malloc(2 * (size_t)n * sizeof *x);
    sosmc_temper_task task = {.model = s->model, .theta = s->tuned.theta, .start = wide, .particles = n, .seed = seed};
    sosmc_tempered told;
    if (!x || sosmc_temper(&task, &told, x) != SOSMC_OK) exit(1);
    sosmc_rows rows = {.data = x, .rows = n, .mode = SOSMC_ROWS_IN_ORDER};
    sosmc_problem problem = {.model = s->model,
                             .theta0 = s->tuned.theta,
                             .objective = sosmc_reward_reverse(s->score, s->beta, s->file.theta),
                             .init = sosmc_rows_source(&rows)};
    problem.init.exact = 1;
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(n);
    cfg.kernel = sosmc_mala(0.02);
    cfg.optimiser = sosmc_sgd(0);
    cfg.seed = seed;
    sosmc *engine = NULL;
    sosmc_judgement j;
    sosmc_judge_options options = {.pass_particles = n};
    if (sosmc_create(&engine, &problem, &cfg) != SOSMC_OK || sosmc_step(engine) != SOSMC_OK ||
        sosmc_judge(engine, &options, &j, NULL, 0) != SOSMC_OK)
        exit(1);
    count_quantity(r, t, JUDGED_LOG_Z, seed, &j.log_z, s->exact_tuned.logz, NULL);
    count_quantity(r, t, JUDGED_REWARD, seed, &j.reward, s->exact_tuned.reward, NULL);
    count_quantity(r, t, JUDGED_KL, seed, &j.kl, s->exact_tuned.kl, NULL);
    count_quantity(r, t, JUDGED_LOSS, seed, &j.loss, s->exact_tuned.loss, NULL);
    count_quantity(r, t, JUDGED_BEST, seed, &j.best_loss, s->exact_tuned.best_loss, NULL);
    count_quantity(r, t, JUDGED_EXCESS, seed, &j.excess, s->exact_tuned.excess, NULL);
    sosmc_judgement_free(&j);
    sosmc_free(engine);
    sosmc_law_free(wide);
    free(x);
}

static int on_networks(const request *r)
{
    static subject s;
    tally t[QUANTITIES] = {{0}};
    s = (subject){.normal = {0, -1}, .beta = 1e-3 * (double)r->beta};
    s.lower = (sosmc_half_plane){.dim = 2, .normal = s.normal};
    s.score = sosmc_half_plane_reward(&s.lower);
    int rc = read_models(r, &s) || take_exact(&s);
    double begun = processor_seconds();
    for (int64_t k = 0; k < r->runs && !rc; k++) {
        by_tempering(r, &s, (uint64_t)(r->first + k), t);
        if (r->tuned) by_judgement(r, &s, (uint64_t)(r->first + k), t);
    }
    printf(
        "%s%s%s, beta %g, %lld particles, %lld seeds, %.2f s each; on the lattice log Z %.4f, reward %.4f, edge %.1g\n",
        r->model, r->tuned ? ", tuned " : "", r->tuned ? r->tuned : "", s.beta, (long long)r->particles,
        (long long)r->runs, (processor_seconds() - begun) / (double)r->runs, s.exact.logz, s.exact.reward,
        s.exact.edge);
    for (int q = 0; q < (r->tuned ? QUANTITIES : JUDGED) && !rc; q++) print_tally(names[q], &t[q]);
    model_free(&s.file);
    model_free(&s.tuned);
    return rc != 0;
}

int main(int argc, char **argv)
{
    request r = {.runs = 50, .particles = 1000, .beta = 250};
    const bench_option options[] = {{"--runs", .number = &r.runs},           {"--first", .number = &r.first},
                                    {"--particles", .number = &r.particles}, {"--beta-thousandths", .number = &r.beta},
                                    {"--model", .text = &r.model},           {"--tuned", .text = &r.tuned},
                                    {"--csv", .text = &r.csv_path},          {"--no-peers", .flag = &r.no_peers},
                                    {"--mixtures", .flag = &r.mixtures},     {"--tilts", .flag = &r.tilts}};
    const char *wrong = options_read(argc, argv, options, sizeof options / sizeof *options);
    if (wrong || r.runs < 2 || r.particles < 2 || r.beta < 1) {
        fprintf(stderr, "bench/evidence: %s%s\n", wrong ? "not understood: " : "a number is too small",
                wrong ? wrong : "");
        return 2;
    }
    if (r.csv_path) {
        r.csv = fopen(r.csv_path, "w");
        if (!r.csv) {
            fprintf(stderr, "bench/evidence: %s cannot be written\n", r.csv_path);
            return 2;
        }
        (void)fprintf(r.csv, "quantity,seed,value,error,exact,flagged,evaluations\n");
    }
    int rc = 0;
    if (r.tilts)
        rc = tilts(&r);
    else if (r.mixtures)
        for (int k = 0; k < FAMILIES; k++) several_modes(&r, &families[k]);
    else
        rc = r.model ? on_networks(&r) : compare(&r);
    if (r.csv && fclose(r.csv)) rc = 1;
    return rc;
}
