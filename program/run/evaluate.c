/* evaluate.c: expectations under the current theta, exact or by fresh chains, a row every so many iterations.
 *
 * Everything in a row is a function of the run file and the engine's state: chains are named by seed and iteration,
 * sums have one order. Invariant: `iteration` is that of the last row of the file, kept or written, and `row` holds its
 * values, so that a resumed run ends with the bytes and the summary of an uninterrupted one. */
#include "evaluate.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Columns behind the iteration. */
enum {
    UPDATES,
    LOGZ,
    REWARD,
    KL,
    LOSS,
    REF_REWARD,
    BEST_REWARD,
    BEST_KL,
    BEST_LOSS,
    EXCESS,
    EDGE,
    PARTICLE_REWARD,
    WEIGHTED_REWARD,
    PARTICLE_KL,
    PARTICLE_LOSS,
    FRESH,
    FRESH_ERROR,
    LOGLIK,
    COLUMNS
};
static const char *const names[COLUMNS] = {
    "updates",         "logz",        "reward",        "kl",     "loss",        "ref_reward",
    "best_reward",     "best_kl",     "best_loss",     "excess", "edge",        "particle_reward",
    "weighted_reward", "particle_kl", "particle_loss", "fresh",  "fresh_error", "loglik"};

struct evaluation {
    const job *job;
    run_hooks hooks; /* `stop` and `say` are called */
    trace *rows;
    int64_t every, iteration; /* iteration -1: no row yet */
    double row[COLUMNS];
    sosmc_lattice lattice; /* nodes 0: not a model of the plane */
    double *U, *U_ref, *R; /* at the nodes; U_ref and R may be NULL */
    sosmc_fresh fresh;     /* chains 0: none; its seed is the run's */
    sosmc_kernel sampler;
    const double *points; /* data; NULL: none */
    int64_t count;
    double *U_points;
    double stop, loss_before; /* evaluate.stop; the loss of the row before the last, NaN: there is none */
    int64_t settles_from;     /* the first iteration at which that may end the run */
};

/* ---------------------------------------------------------------------------- opening */

int evaluation_check(const config *c, const job *j, char *error, size_t room)
{
    char where[512];
    double low = config_number(c, "evaluate.low"), high = config_number(c, "evaluate.high");
    if (config_integer(c, "evaluate.every") < 1) return 0;
    if (job_has_bounds(j))
        return files_fail(error, room, "%s: evaluate.every is %" PRId64 ", but the model has bounds of x; expected 0",
                          config_where(c, "evaluate.every", where, sizeof where), config_integer(c, "evaluate.every"));
    if (j->problem.model.dim_x != 2 && !(config_number(c, "evaluate.stop") > 0) &&
        (config_integer(c, "evaluate.chains") < 1 || !j->problem.objective.score.eval))
        return files_fail(error, room,
                          "%s: evaluate.every is %" PRId64
                          ", but the lattice is for models of two coordinates and model %s has %d; expected 0, or "
                          "evaluate.chains and a reward",
                          config_where(c, "evaluate.every", where, sizeof where), config_integer(c, "evaluate.every"),
                          config_text(c, "model.type"), j->problem.model.dim_x);
    if (!(low < high))
        return files_fail(error, room, "%s: evaluate.high is %g; expected more than evaluate.low, which is %g",
                          config_where(c, "evaluate.high", where, sizeof where), high, low);
    return 0;
}

static void read_settings(evaluation *e, const config *c)
{
    double low = config_number(c, "evaluate.low"), high = config_number(c, "evaluate.high");
    e->every = config_integer(c, "evaluate.every");
    e->stop = config_number(c, "evaluate.stop");
    e->settles_from = e->job->problem.objective.ramp + e->every;
    if (e->job->problem.model.dim_x == 2)
        e->lattice = (sosmc_lattice){
            .nodes = (int)config_integer(c, "evaluate.nodes"), .low = {low, low}, .high = {high, high}};
    e->fresh = (sosmc_fresh){.chains = (int)config_integer(c, "evaluate.chains"),
                             .step = config_number(c, "evaluate.step"),
                             .low = low,
                             .high = high,
                             .seed = e->job->settings.seed,
                             .threads = e->job->settings.threads};
    if (strcmp(config_text(c, "evaluate.sampler"), "jitter") == 0) {
        e->sampler = sosmc_jitter(e->fresh.step, config_number(c, "evaluate.noise"), config_number(c, "evaluate.clamp"),
                                  config_number(c, "evaluate.gradient_clip"));
        e->fresh.kernel = &e->sampler;
        e->fresh.burn_in = config_integer(c, "evaluate.steps") - 1; /* only where chains end counts */
        e->fresh.averaged = 1;
    } else {
        e->fresh.burn_in = config_integer(c, "evaluate.burn_in");
        e->fresh.averaged = config_integer(c, "evaluate.averaged");
    }
    if (e->lattice.nodes) e->points = job_points(e->job, &e->count);
}

/* 0: there is memory for everything at the nodes of the lattice. */
static int take_memory(evaluation *e)
{
    const sosmc_objective *o = &e->job->problem.objective;
    size_t nodes = (size_t)e->lattice.nodes, bytes = nodes * nodes * sizeof(double);
    if (!nodes) return 0;
    e->U = malloc(bytes);
    if (o->theta_ref) e->U_ref = malloc(bytes);
    if (o->score.eval) e->R = malloc(bytes);
    if (e->points) e->U_points = malloc((size_t)e->count * sizeof(double));
    return e->U && (e->U_ref || !o->theta_ref) && (e->R || !o->score.eval) && (e->U_points || !e->points) ? 0 : -1;
}

static int allocate(evaluation *e, char *error, size_t room)
{
    return take_memory(e) ? files_fail(error, room, "out of memory for evaluate.nodes of %d", e->lattice.nodes) : 0;
}

/* The reference's energies and the reward at the nodes; *scored: it was the reward that failed. */
static sosmc_status take_reference(evaluation *e, int *scored)
{
    const sosmc_objective *o = &e->job->problem.objective;
    sosmc_status status = o->theta_ref ? sosmc_lattice_energy(&e->job->problem.model, o->theta_ref, &e->lattice,
                                                              e->job->settings.threads, e->U_ref)
                                       : SOSMC_OK;
    *scored = status == SOSMC_OK && o->score.eval;
    return *scored ? sosmc_lattice_score(&o->score, &e->lattice, e->R) : status;
}

static int fix_reference(evaluation *e, const config *c, char *error, size_t room)
{
    int scored = 0;
    char where[512];
    if (!e->lattice.nodes) return 0;
    sosmc_status status = take_reference(e, &scored);
    if (status == SOSMC_OK) return 0;
    if (status == SOSMC_ENOMEM)
        return files_fail(error, room, "out of memory for evaluate.nodes of %d", e->lattice.nodes);
    if (!scored)
        return files_fail(error, room,
                          "%s: objective.reference gives energies on the lattice of evaluate that are NaN; "
                          "expected numbers",
                          config_where(c, "objective.reference", where, sizeof where));
    return files_fail(error, room,
                      "%s: objective.reward is not finite everywhere on the lattice of evaluate; "
                      "expected a finite number at every node of [%g, %g]^2",
                      config_where(c, "objective.reward", where, sizeof where), e->lattice.low[0], e->lattice.high[0]);
}

/* Reads the last row of the file, so that a run without iterations left can report it. */
static int recall_row(evaluation *e, const char *path, char *error, size_t room)
{
    csv_table t;
    csv_options options = {.header = CSV_HEADER_YES};
    e->iteration = trace_kept(e->rows, NULL);
    if (e->iteration < 0) return 0;
    if (csv_read(path, &options, &t, error, room)) return -1;
    for (int i = 0; i < COLUMNS; i++) {
        const csv_column *c = csv_find(&t, names[i]);
        e->row[i] = c && c->number && t.rows > 0 ? c->number[t.rows - 1] : NAN;
        if (i == LOSS && c && c->number && t.rows > 1) e->loss_before = c->number[t.rows - 2];
    }
    csv_free(&t);
    return 0;
}

static int open_rows(evaluation *e, const char *dir, int64_t from, char *error, size_t room)
{
    char path[FILES_PATH], header[TRACE_COLUMNS] = "iteration";
    size_t used = strlen(header);
    for (int i = 0; i < COLUMNS; i++) used += (size_t)snprintf(header + used, sizeof header - used, ",%s", names[i]);
    if (files_join(path, dir, "evaluation.csv", error, room)) return -1;
    if (trace_open(&e->rows, path, header, from, error, room)) return -1;
    if (*trace_note(e->rows) && e->hooks.say) e->hooks.say(e->hooks.ctx, trace_note(e->rows));
    return recall_row(e, path, error, room);
}

int evaluation_open(evaluation **out, const config *c, const job *j, const char *dir, int64_t from,
                    const run_hooks *hooks, char *error, size_t room)
{
    *out = NULL;
    if (config_integer(c, "evaluate.every") < 1) return 0;
    if (evaluation_check(c, j, error, room)) return -1;
    evaluation *e = calloc(1, sizeof *e);
    if (!e) return files_fail(error, room, "out of memory");
    e->job = j;
    if (hooks) e->hooks = *hooks;
    e->iteration = -1;
    e->loss_before = NAN;
    read_settings(e, c);
    if (allocate(e, error, room) || fix_reference(e, c, error, room) || open_rows(e, dir, from, error, room)) {
        (void)evaluation_close(e, NULL, 0);
        return -1;
    }
    *out = e;
    return 0;
}

/* ---------------------------------------------------------------------------- a row */

static int cannot(const sosmc_info *info, const char *what, sosmc_status status, char *error, size_t room)
{
    const char *why = status == SOSMC_EMODEL     ? "the model failed"
                      : status == SOSMC_ENUMERIC ? "the model gave values that are not finite"
                      : status == SOSMC_ENOMEM   ? "there is not enough memory"
                                                 : sosmc_status_name(status);
    return files_fail(error, room, "iteration %" PRId64 " could not be evaluated %s: %s", info->iteration, what, why);
}

static double beta_of(const sosmc_objective *o) { return o->loss == SOSMC_LOSS_FORWARD_KL ? 0 : o->kl; }

static void keep_row(evaluation *e, sosmc_exact x)
{
    x.logz -= job_log_volume(e->job);
    const sosmc_objective *o = &e->job->problem.objective;
    if (o->loss == SOSMC_LOSS_FORWARD_KL) {
        x.kl = x.forward_kl;
        /* With b = 0 the divergence has no weight in the loss, also where it is infinite. */
        if (o->b > 0) x.loss = o->b * x.kl - x.reward;
    }
    const double value[] = {x.logz,        x.reward,  x.kl,        x.loss,   x.ref_reward,
                            x.best_reward, x.best_kl, x.best_loss, x.excess, x.edge};
    memcpy(e->row + LOGZ, value, sizeof value);
}

static int on_lattice(evaluation *e, const double *theta, const sosmc_info *info, char *error, size_t room)
{
    sosmc_exact x;
    for (int i = LOGZ; i <= EDGE; i++) e->row[i] = NAN;
    if (!e->lattice.nodes) return 0;
    sosmc_status status = sosmc_lattice_energy(&e->job->problem.model, theta, &e->lattice, e->job->settings.threads,
                                               e->U);
    if (status != SOSMC_OK) return cannot(info, "on the lattice", status, error, room);
    sosmc_lattice_exact(&e->lattice, e->U, e->U_ref, e->R, beta_of(&e->job->problem.objective), &x);
    keep_row(e, x);
    return 0;
}

static int on_data(evaluation *e, const double *theta, const sosmc_info *info, char *error, size_t room)
{
    e->row[LOGLIK] = NAN;
    if (!e->points) return 0;
    sosmc_status status = sosmc_energies(&e->job->problem.model, theta, e->count, e->points, e->job->settings.threads,
                                         e->U_points);
    if (status != SOSMC_OK) return cannot(info, "at the data", status, error, room);
    e->row[LOGLIK] = sosmc_lattice_loglik(e->count, e->U_points, e->row[LOGZ]);
    if (e->job->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD) e->row[LOSS] = -e->row[LOGLIK];
    return 0;
}

/* The sums of the rewards, plain and weighted by w. Dropped particles have no weight, and may have no reward either. */
static void add_rewards(int64_t n, const double *value, const double *w, double sum[2])
{
    for (int64_t i = 0; i < n; i++) {
        sum[0] += value[i];
        if (w[i] > 0) sum[1] += w[i] * value[i];
    }
}

static int on_cloud(evaluation *e, const sosmc *s, const sosmc_info *info, char *error, size_t room)
{
    const sosmc_score *score = &e->job->problem.objective.score;
    int64_t particles = sosmc_particles(s);
    int dim = e->job->problem.model.dim_x;
    double sum[2] = {0, 0};
    e->row[PARTICLE_REWARD] = e->row[WEIGHTED_REWARD] = NAN;
    e->row[PARTICLE_KL] = info->kl;
    e->row[PARTICLE_LOSS] = info->loss;
    if (!score->eval) return 0;
    double *x = malloc((size_t)particles * ((size_t)dim + 2) * sizeof *x);
    double *w = x ? x + (size_t)particles * (size_t)dim : NULL, *value = x ? w + particles : NULL;
    sosmc_status status = x ? sosmc_cloud(s, x, w) : SOSMC_ENOMEM;
    if (status == SOSMC_OK) status = sosmc_scores(score, dim, particles, x, value);
    if (status == SOSMC_OK) {
        sosmc_exp(NULL, (int)particles, w, w);
        add_rewards(particles, value, w, sum);
    }
    free(x);
    if (status != SOSMC_OK) return cannot(info, "over the particles", status, error, room);
    e->row[PARTICLE_REWARD] = sum[0] / (double)particles;
    e->row[WEIGHTED_REWARD] = sum[1];
    return 0;
}

/* New chains for every iteration, the same for all methods that run with one seed: the finaliser of SplitMix64. */
static uint64_t chain_seed(uint64_t seed, int64_t iteration)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15U * ((uint64_t)iteration + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

/* Returns 1 when an interrupt ended the chains early. Where chains diverge the fields stay empty: a step that is too long
 * for an evaluation should not end the run. */
static int on_fresh_chains(evaluation *e, const double *theta, const sosmc_info *info, char *error, size_t room)
{
    const sosmc_problem *p = &e->job->problem;
    sosmc_fresh_record record = {.stop = e->hooks.stop, .stop_ctx = e->hooks.ctx};
    sosmc_fresh f = e->fresh;
    double mean = NAN, spread = NAN;
    e->row[FRESH] = e->row[FRESH_ERROR] = NAN;
    if (f.chains < 1 || !p->objective.score.eval) return 0;
    f.seed = chain_seed(f.seed, info->iteration);
    sosmc_status status = sosmc_fresh_reward(&p->model, theta, &p->objective.score, &f, &record, NULL, &mean, &spread);
    if (status == SOSMC_STOPPED) return 1;
    if (status == SOSMC_ENUMERIC) return 0;
    if (status != SOSMC_OK) return cannot(info, "by fresh chains", status, error, room);
    e->row[FRESH] = mean;
    e->row[FRESH_ERROR] = spread;
    return 0;
}

/* The loss by fresh particles that have the same random numbers every time, where the lattice has none and a stop depends on it. */
static int on_fresh_particles(evaluation *e, const sosmc *s, const sosmc_info *info, char *error, size_t room)
{
    const sosmc_judge_options options = {.cost = 0.5 * e->job->settings.judge,
                                         .why_no_log_z = job_why_no_log_z(e->job),
                                         .stop = e->hooks.stop,
                                         .stop_ctx = e->hooks.ctx};
    sosmc_judgement j;
    if (!(e->stop > 0) || !isnan(e->row[LOSS])) return 0;
    sosmc_status status = sosmc_judge(s, &options, &j, NULL, 0);
    int densities = e->job->problem.objective.loss == SOSMC_LOSS_LIKELIHOOD;
    if (status == SOSMC_OK) e->row[LOSS] = j.loss.value - (densities ? job_log_volume(e->job) : 0);
    sosmc_judgement_free(&j);
    if (status == SOSMC_STOPPED) return 1;
    return status == SOSMC_OK ? 0 : cannot(info, "by fresh particles", status, error, room);
}

void evaluation_fresh(const evaluation *e, double *mean, double *error)
{
    int there = e && e->iteration >= 0;
    *mean = there ? e->row[FRESH] : NAN;
    *error = there ? e->row[FRESH_ERROR] : NAN;
}

int evaluation_settled(const evaluation *e)
{
    return e && e->stop > 0 && e->iteration >= e->settles_from && e->iteration % e->every == 0 &&
           e->loss_before - e->row[LOSS] < e->stop;
}

int evaluation_step(evaluation *e, const sosmc *s, const sosmc_info *info, char *error, size_t room)
{
    if (!e || sosmc_iteration(s) == 0 || info->iteration <= e->iteration) return 0;
    if (info->iteration % e->every != 0 && info->iteration + 1 != e->job->iterations) return 0;
    const double *theta = sosmc_theta_average(s);
    double before[COLUMNS];
    memcpy(before, e->row, sizeof before);
    /* Updates made before the theta that is evaluated, in either order. */
    e->row[UPDATES] = (double)info->gradient_updates + 1;
    int rc = on_lattice(e, theta, info, error, room);
    if (rc == 0) rc = on_data(e, theta, info, error, room);
    if (rc == 0) rc = on_cloud(e, s, info, error, room);
    if (rc == 0) rc = on_fresh_chains(e, theta, info, error, room);
    if (rc == 0) rc = on_fresh_particles(e, s, info, error, room);
    if (rc) { /* no row is written, so the last row is that of before */
        memcpy(e->row, before, sizeof before);
        return rc < 0 ? -1 : 0;
    }
    e->loss_before = e->iteration < 0 ? NAN : before[LOSS];
    e->iteration = info->iteration;
    trace_append(e->rows, e->iteration, e->row, COLUMNS);
    return 0;
}

/* ---------------------------------------------------------------------------- the end */

int evaluation_flush(evaluation *e, char *error, size_t room) { return e ? trace_flush(e->rows, error, room) : 0; }

int evaluation_close(evaluation *e, char *error, size_t room)
{
    if (!e) return 0;
    int rc = trace_close(e->rows, error, room);
    free(e->U);
    free(e->U_ref);
    free(e->R);
    free(e->U_points);
    free(e);
    return rc;
}

int evaluation_summary(const evaluation *e, json_writer *w)
{
    if (!e || e->iteration < 0) return 0;
    json_open_object(w, "evaluated");
    json_put_whole(w, "iteration", e->iteration);
    json_put_whole(w, names[UPDATES], (int64_t)e->row[UPDATES]);
    for (int i = REF_REWARD; i < LOGLIK; i++) /* of the rest the summary has the run's results */
        if (i == REF_REWARD || i >= EDGE) json_put_number(w, names[i], e->row[i]);
    json_close(w);
    return 0;
}

/* ---------------------------------------------------------------------------- values at the end */

sosmc_lattice evaluation_lattice(const evaluation *e) { return e ? e->lattice : (sosmc_lattice){.nodes = 0}; }

static const double RIM = 1.0 / 64; /* of the box, on either side */

/* The row of one lattice, whose cells are divided where that is needed, without the run's particles. */
static int exact_row(const job *j, const double *theta, const sosmc_lattice *l, double row[COLUMNS])
{
    char ignored[256];
    const sosmc_objective *o = &j->problem.objective;
    const sosmc_info nothing = {.iteration = 0};
    sosmc_exact x;
    evaluation *e = calloc(1, sizeof *e);
    if (!e) return -1;
    e->job = j;
    e->points = job_points(j, &e->count);
    if (e->points) e->U_points = malloc((size_t)e->count * sizeof(double));
    int rc = (e->points && !e->U_points) ||
             sosmc_plane_exact(&j->problem.model, theta, o->theta_ref, o->score.eval ? &o->score : NULL, beta_of(o), l,
                               j->settings.threads, &x) != SOSMC_OK;
    if (!rc) {
        keep_row(e, x);
        rc = on_data(e, theta, &nothing, ignored, sizeof ignored);
    }
    memcpy(row, e->row, sizeof e->row);
    (void)evaluation_close(e, NULL, 0);
    return rc ? -1 : 0;
}

static evaluation_values values_of(const double row[COLUMNS])
{
    return (evaluation_values){.logz = row[LOGZ],
                               .reward = row[REWARD],
                               .kl = row[KL],
                               .loss = row[LOSS],
                               .loglik = row[LOGLIK],
                               .best_loss = row[BEST_LOSS],
                               .best_reward = row[BEST_REWARD],
                               .best_kl = row[BEST_KL],
                               .excess = row[EXCESS],
                               .ref_reward = row[REF_REWARD],
                               .edge = row[EDGE]};
}

int evaluation_exact(const job *j, const double *theta, const sosmc_lattice *l, evaluation_values *value,
                     evaluation_values *error)
{
    const int nodes[] = {l->nodes, l->nodes - 2, l->nodes / 2};
    double row[3][COLUMNS], off[COLUMNS];
    if (j->problem.model.dim_x != 2 || l->nodes < 4) return -1;
    for (int i = 0; i < 3; i++) {
        sosmc_lattice other = *l;
        other.nodes = nodes[i];
        for (int a = 0; a < 2 && i == 1; a++) { /* a little smaller, which shows how much lies outside of the box */
            double rim = RIM * (l->high[a] - l->low[a]);
            other.low[a] += rim;
            other.high[a] -= rim;
        }
        if (exact_row(j, theta, &other, row[i])) return -1;
    }
    for (int i = 0; i < COLUMNS; i++) off[i] = fmax(fabs(row[1][i] - row[0][i]), fabs(row[2][i] - row[0][i]));
    *value = values_of(row[0]);
    *error = values_of(off);
    return 0;
}
