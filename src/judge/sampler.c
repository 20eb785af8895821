/* sampler.c: tempering as the public header offers it: a pass (pass.c) that finds its coordinates by itself, in steps, with its
 * numbers and a verdict. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/table.h"
#include "numbers.h"
#include "sampler_inside.h"

enum { PARTICLES = 4096, FEW_COORDINATES = 4, TRIAL_SHARE = 4, FEWEST = 256, STREAM_POINTS = 23 };

static sosmc_status refuse(sosmc_sampler *s, sosmc_status status, const char *words)
{
    (void)snprintf(s->message, sizeof s->message, "%s", words);
    s->failed = status;
    return status;
}

/* ---------------------------------------------------------------------------- creation */

/* NULL, or what is wrong with the task. */
static const char *wrong(const sosmc_temper_task *t)
{
    if (!t->model.energy || t->model.dim_x < 1) return "the model has no energy or no coordinates";
    if (t->model.dim_x > SOSMC_TEMPER_LARGEST)
        return "a particle has more than 2000 coordinates, too many for tempering";
    if (t->model.prox) return "the energy has a non-smooth part, for which tempering has no moves";
    if (!t->start || t->start->q.count == 0) return "there is no law to start from";
    if (t->start->q.dim != t->model.dim_x) return "the starting law has another number of coordinates than the model";
    if (!(t->beta >= 0) || !isfinite(t->beta)) return "beta is negative or not finite";
    if (t->beta > 0 && !t->score.eval) return "there is a beta but no score to tilt by";
    if (!(t->cess >= 0) || !(t->cess < 1)) return "cess is not a share between 0 and 1";
    if (t->particles < 0 || t->moves < 0 || t->threads < 0 || t->threads > HOST_MOST_THREADS)
        return "the particles, moves or threads are not a possible number";
    return NULL;
}

/* Leapfrog steps of a move: one is MALA; more coordinates need shorter steps, and more of them for the same way. */
static int leaps_of(const sosmc_temper_task *t)
{
    if (t->leaps > 0) return t->leaps;
    return t->model.dim_x <= FEW_COORDINATES ? 1 : (int)floor(1.5 * sqrt(sqrt((double)t->model.dim_x)) + 0.5);
}

static int asked(const sosmc_sampler *s) { return s->task.particles > 0 ? s->task.particles : PARTICLES; }

/* As many as are asked for, a share of them in the trial. */
static int particles_of(const sosmc_sampler *s)
{
    int n = s->phase == TRIAL ? asked(s) / TRIAL_SHARE : asked(s);
    return n > FEWEST ? n : FEWEST;
}

/* The pass of the phase that the sampler is in. */
static pass_task pass_of(const sosmc_sampler *s)
{
    const sosmc_temper_task *t = &s->task;
    return (pass_task){.model = &t->model,
                       .theta = t->theta,
                       .score = t->score.eval && s->phase == MEASUREMENT ? &t->score : NULL,
                       .beta = s->phase == MEASUREMENT ? t->beta : 0,
                       .q = s->fitted.count > 0 ? &s->fitted : &s->given,
                       .simd = t->simd,
                       .particles = particles_of(s),
                       .threads = t->threads > 0 ? t->threads : 1,
                       .moves = t->moves > 0                       ? t->moves
                                : t->model.dim_x > FEW_COORDINATES ? 1
                                                                   : 2,
                       .leaps = leaps_of(t),
                       .cess = t->cess,
                       .seed = t->seed,
                       .number = (uint64_t)s->phase};
}

sosmc_status sosmc_i_sampler_open(sosmc_sampler *s)
{
    s->pass = pass_of(s);
    sosmc_status status = sosmc_i_pass_open(&s->run, &s->pass, &s->cloud);
    s->ready = status == SOSMC_OK;
    if (status == SOSMC_EMODEL) return refuse(s, status, "the model could not be prepared at this theta");
    return status == SOSMC_OK ? status : refuse(s, status, "there is not enough memory for so many particles");
}

/* N(0, 4 I) of z: half of it is in the middle fifth to four fifths of two bounds. */
static sosmc_status own_start(sosmc_sampler *s)
{
    int dim = s->task.model.dim_x;
    double *sd = malloc((size_t)dim * sizeof *sd);
    s->task.start = s->start = sosmc_law_create(dim, 0);
    for (int j = 0; sd && j < dim; j++) sd[j] = 2;
    sosmc_status status = sd && s->start ? sosmc_law_add(s->start, 1, NULL, sd) : SOSMC_ENOMEM;
    free(sd);
    return status;
}

/* Takes the task; bounds of x are taken out of it. */
static sosmc_status take_task(sosmc_sampler *s, const sosmc_temper_task *task)
{
    char text[SOSMC_SENTENCE];
    int at = sosmc_i_first_bound(&task->model);
    sosmc_problem p = {.model = task->model, .objective = {.score = task->score}};
    const char *why = sosmc_i_bound(&s->bounds, &p, 0, text, sizeof text);
    s->task = *task;
    s->task.model = p.model;
    s->task.score = p.objective.score;
    if (!why && task->start && at >= 0) {
        (void)snprintf(text, sizeof text,
                       "the start has mass outside of the bounds of coordinate %d (model.x_low, x_high); leave it out",
                       at);
        why = text;
    }
    if (!why && !task->start && at >= 0 && own_start(s) != SOSMC_OK)
        return refuse(s, SOSMC_ENOMEM, "there is not enough memory for the starting law");
    if (!why) why = wrong(&s->task);
    if (why) return refuse(s, SOSMC_EINVAL, why);
    s->given = s->task.start->q;
    return SOSMC_OK;
}

sosmc_status sosmc_sampler_create(sosmc_sampler **out, const sosmc_temper_task *task)
{
    STANDARD_ARITHMETIC;
    sosmc_sampler *s = *out = calloc(1, sizeof *s);
    if (!s) return SOSMC_ENOMEM;
    s->info = (sosmc_sampler_info){.ess = NAN, .accept = NAN, .kernel_step = NAN};
    sosmc_status status = take_task(s, task);
    if (status != SOSMC_OK) return status;
    sosmc_i_laws_close(&s->given);
    s->phase = task->direct ? MEASUREMENT : TRIAL;
    return sosmc_i_sampler_open(s);
}

/* The measurement, which is the larger pass, with the two laws; before it, the trial's points while they are fitted. */
size_t sosmc_temper_memory(const sosmc_temper_task *task)
{
    sosmc_sampler s = {.phase = MEASUREMENT};
    if (take_task(&s, task) != SOSMC_OK) {
        sosmc_law_free(s.start);
        return 0;
    }
    size_t dim = (size_t)task->model.dim_x, law = 2 * dim + (dim > LAW_FULL ? dim : dim * dim);
    pass_task pass = pass_of(&s);
    size_t bytes = sosmc_i_pass_bytes(&pass), laws_too = ((size_t)s.given.count + 2) * law * sizeof(double);
    sosmc_law_free(s.start);
    return bytes > SIZE_MAX - laws_too - sizeof s ? SIZE_MAX : bytes + laws_too + sizeof s;
}

void sosmc_i_sampler_close(sosmc_sampler *s)
{
    sosmc_i_pass_close(&s->run);
    sosmc_i_pass_free(&s->cloud);
}

void sosmc_sampler_free(sosmc_sampler *s)
{
    if (!s) return;
    sosmc_i_sampler_close(s);
    sosmc_i_laws_free(&s->fitted);
    sosmc_law_free(s->start);
    free(s);
}

/* ---------------------------------------------------------------------------- steps */

void sosmc_i_sampler_note(sosmc_sampler *s)
{
    const pass_cloud *p = &s->cloud;
    s->info.temperature = p->arrived;
    s->info.log_z = p->log_z;
    s->info.ess = p->ess;
    s->info.accept = p->acceptance;
    s->info.kernel_step = s->run.step;
    s->info.evaluations = s->spent + p->evaluations;
    s->info.phase = s->phase;
    s->info.resamplings = p->resamplings;
}

/* From the trial to the measurement. Where the trial did not arrive, the measurement starts from the caller's law alone. */
static sosmc_status begin_measurement(sosmc_sampler *s)
{
    sosmc_status status = s->cloud.arrived >= 1 ? sosmc_i_sampler_fit(s) : SOSMC_OK;
    s->spent += s->cloud.evaluations;
    if (status != SOSMC_OK) return status;
    sosmc_i_sampler_close(s);
    s->phase = MEASUREMENT;
    s->begun = 0;
    return sosmc_i_sampler_open(s);
}

sosmc_status sosmc_sampler_step(sosmc_sampler *s)
{
    STANDARD_ARITHMETIC;
    if (!s->ready || s->failed) return s->failed;
    if (s->info.done) return SOSMC_OK;
    sosmc_status status = s->begun ? sosmc_i_pass_step(&s->run) : sosmc_i_pass_begin(&s->run);
    s->begun = 1;
    s->info.step++;
    if (status == SOSMC_OK && sosmc_i_pass_over(&s->run)) {
        if (s->phase == MEASUREMENT) {
            status = sosmc_i_pass_finish(&s->run);
            if (status == SOSMC_OK && sosmc_i_pass_odd_reward(&s->cloud)) status = SOSMC_ENUMERIC;
            s->info.done = status == SOSMC_OK;
        } else {
            status = begin_measurement(s);
        }
    }
    if (s->ready) sosmc_i_sampler_note(s);
    if (status == SOSMC_OK || *s->message) return status;
    if (status == SOSMC_ENUMERIC)
        return refuse(s, status, "the reward is no finite number at a point where the model has mass");
    return refuse(s, status, "a callback of the model or of the score failed");
}

const sosmc_sampler_info *sosmc_sampler_state(const sosmc_sampler *s) { return &s->info; }
const char *sosmc_sampler_message(const sosmc_sampler *s) { return s ? s->message : "out of memory"; }
int sosmc_sampler_particles(const sosmc_sampler *s) { return s->pass.particles; }

void sosmc_i_sampler_cloud(const sosmc_sampler *s, double *x, double *logw)
{
    const pass_cloud *p = &s->cloud;
    for (int i = 0; i < p->n; i++) {
        const double *at = p->x + (size_t)(i / p->tile) * p->vector + (size_t)(i % p->tile);
        for (int j = 0; x && j < p->dim; j++) x[(size_t)i * (size_t)p->dim + (size_t)j] = at[(size_t)j * (size_t)p->ld];
        if (logw) logw[i] = s->run.logw[i];
    }
}

sosmc_status sosmc_sampler_cloud(const sosmc_sampler *s, double *x, double *logw)
{
    STANDARD_ARITHMETIC;
    if (!s->ready) return s->failed;
    sosmc_i_sampler_cloud(s, x, logw);
    if (x) sosmc_i_to_x(&s->task.model, s->cloud.n, x);
    return SOSMC_OK;
}

sosmc_status sosmc_sampler_points(const sosmc_sampler *s, int n, double *x)
{
    const pass_cloud *p = &s->cloud;
    if (!s->ready) return s->failed;
    size_t dim = (size_t)p->dim, all = (size_t)p->n;
    double *rows = malloc(all * dim * sizeof *rows), below = p->w[0];
    if (!rows) return SOSMC_ENOMEM;
    sosmc_status status = sosmc_sampler_cloud(s, rows, NULL);
    sosmc_rng rng = {.seed = s->task.seed, .stream = STREAM_POINTS};
    sosmc_batch one = {.simd = sosmc_simd_best(), .dim = 1, .n = 1, .ld = 1};
    double u;
    sosmc_uniforms(rng, 0, &one, &u);
    for (int i = 0, from = 0; i < n && status == SOSMC_OK; i++) { /* systematic resampling */
        while ((i + 1 - u) / n > below && from + 1 < p->n) below += p->w[++from];
        memcpy(x + (size_t)i * dim, rows + (size_t)from * dim, dim * sizeof(double));
    }
    free(rows);
    return status;
}

/* ---------------------------------------------------------------------------- what it tells */

static sosmc_number number(double value, double error) { return (sosmc_number){.value = value, .error = error}; }

static void tilted_numbers(const sosmc_sampler *s, sosmc_tempered *out)
{
    const pass_cloud *p = &s->cloud;
    sosmc_i_tilted_numbers(p, s->task.beta, s->run.spare, &out->reward, &out->kl, &out->loss);
    out->model_log_z = number(p->halfway_log_z, p->halfway_log_z_error);
    out->model_reward = number(p->halfway_reward, p->halfway_reward_error);
}

static sosmc_measured measured(const sosmc_sampler *s)
{
    sosmc_measured m = sosmc_nothing_measured();
    m.dim_theta = s->task.model.dim_theta;
    m.particles = s->cloud.n;
    if (!s->task.why_no_log_z || s->cloud.arrived < 1) m.pass_particles = s->cloud.n;
    m.weighted = 1;
    m.tilts = s->task.beta > 0;
    m.score_spread = s->cloud.halfway_spread;
    m.pass_temperatures = s->cloud.temperatures;
    m.pass_arrived = s->cloud.arrived;
    m.pass_survivors = s->cloud.survivors;
    m.pass_log_z = s->cloud.log_z;
    return m;
}

void sosmc_sampler_result(const sosmc_sampler *s, sosmc_tempered *out)
{
    const pass_cloud *p = &s->cloud;
    const char *why = s->failed              ? "the sampler failed"
                      : !s->info.done        ? "the particles are still on their way"
                      : s->task.why_no_log_z ? s->task.why_no_log_z
                      : p->arrived < 1       ? "the particles did not reach the target"
                                             : NULL;
    sosmc_measured m = measured(s);
    *out = (sosmc_tempered){.temperatures = p->temperatures,
                            .evaluations = s->info.evaluations,
                            .survivors = p->survivors,
                            .acceptance = p->acceptance,
                            .ess = p->ess};
    m.failed = s->failed;
    m.failed_why = s->message;
    sosmc_verdict(&m, &out->verdict);
    sosmc_number *all[] = {&out->log_z, &out->reward, &out->kl, &out->loss, &out->model_log_z, &out->model_reward};
    int tilted = s->task.beta > 0, has[] = {1, s->task.score.eval != NULL, tilted, tilted, tilted, tilted};
    for (int k = 0; k < 6; k++) sosmc_i_no_number(all[k], has[k] ? why : NULL);
    if (why) return;
    out->log_z = number(p->log_z, sosmc_i_pass_error(p, NULL, 1));
    if (p->R) out->reward = sosmc_i_reward_of(p);
    if (tilted) tilted_numbers(s, out);
}

sosmc_status sosmc_temper(const sosmc_temper_task *task, sosmc_tempered *out, double *x)
{
    sosmc_sampler *s;
    sosmc_status status = sosmc_sampler_create(&s, task);
    while (status == SOSMC_OK && !s->info.done) status = sosmc_sampler_step(s);
    if (s) sosmc_sampler_result(s, out);
    if (status == SOSMC_OK && x) status = sosmc_sampler_points(s, asked(s), x);
    sosmc_sampler_free(s);
    return status;
}
