/* need.c: see need.h. Everything is counted in doubles (the type), which cannot overflow. */
#include "need.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sosmc/judge.h>
#include <string.h>
#include <sys/stat.h>

#include "files/memory.h"
#include "inputs.h"
#include "outcome.h"

static const double THREAD = 1e5, NUMBER = sizeof(double); /* the stack of a helper, measured; a number of an array */
/* Blocks that were given back and are too small for the system to take. */
static const double HOLES = 1.06;

int need_inputs(const config *c, char *error, size_t room)
{
    inputs in;
    struct stat st;
    double bytes = 0;
    inputs_find(&in, c, NULL, NULL);
    for (int i = 0; i < in.n; i++)
        if (stat(in.file[i].path, &st) == 0 && S_ISREG(st.st_mode)) bytes += (double)st.st_size;
    return memory_check("reading the files of this run", bytes, "", error, room);
}

/* ---------------------------------------------------------------------------- the parts of a run */

static double dimension(const job *j) { return j->problem.model.dim_x; }

/* The run is one of the engine, whose settings somebody chose. */
static int iterates(const job *j) { return !j->automatic && !j->tempers; }

static double particles_of(const job *j)
{
    int chosen = j->tempers ? j->temper.particles : j->automatic ? j->solve.particles : j->settings.scheme.particles;
    return chosen > 0 ? chosen : fmax(1024, 8 * dimension(j)); /* of solve.h */
}

/* The cloud as rows of numbers, with `more` numbers for each particle. */
static double rows_of_cloud(const job *j, double more) { return NUMBER * particles_of(j) * (dimension(j) + more); }

static double judgement(const job *j)
{
    const sosmc_judge_options options = {.cost = 0.5 * j->settings.judge, .why_no_log_z = job_why_no_log_z(j)};
    if (!iterates(j) || !(j->settings.judge > 0)) return 0;
    return (double)sosmc_judge_memory(&j->problem, &j->settings, &options, j->iterations);
}

/* Whether the reward may change its value from one point to the next. */
static int jumps(const config *c)
{
    const char *type = config_has(c, "objective.reward.type") ? config_text(c, "objective.reward.type") : NULL;
    if (!type || strcmp(type, "smooth_gate") == 0 || strcmp(type, "multi_modal") == 0) return 0;
    return strcmp(type, "formula") != 0 || strpbrk(config_text(c, "objective.reward.formula"), "<>=?&|!") != NULL;
}

/* Values of a model of the plane on the lattice of `evaluate`. */
static double lattice(const config *c, const job *j)
{
    const sosmc_objective *o = &j->problem.objective;
    double nodes = (double)config_integer(c, "evaluate.nodes");
    if (dimension(j) != 2) return 0;
    return NUMBER * nodes * nodes * (1 + (o->theta_ref != NULL) + (o->score.eval != NULL));
}

/* Exact values of a model of the plane at the end: on that lattice, or on one of our own, which is taken twice as fine where values
 * change too much between nodes, which is what rewards that jump do. */
static double exact_values(const config *c, const job *j)
{
    const sosmc_objective *o = &j->problem.objective;
    sosmc_lattice l = {.nodes = jumps(c) ? OUTCOME_MANY_NODES : OUTCOME_NODES};
    if (dimension(j) != 2) return 0;
    if (iterates(j) && config_integer(c, "evaluate.every") > 0) l.nodes = (int)config_integer(c, "evaluate.nodes");
    return (double)sosmc_plane_memory(&l, o->theta_ref != NULL, o->score.eval != NULL);
}

/* What stays beside the engine: values on a lattice and at the data, moments. */
static double beside(const config *c, const job *j)
{
    double bytes = 0;
    int64_t points = 0;
    if (config_has(c, "output.moments_from")) bytes += rows_of_cloud(j, 1) + 5 * NUMBER * dimension(j);
    if (!iterates(j) || config_integer(c, "evaluate.every") < 1) return bytes;
    if (dimension(j) == 2 && job_points(j, &points)) bytes += NUMBER * (double)points;
    return bytes + lattice(c, j);
}

/* What comes and goes: the judgement, exact values, the cloud that is written, the cloud that is scored. Tempered particles are drawn
 * anew from their weighted cloud when they are written, which takes it twice. */
static double passing(const config *c, const job *j)
{
    double bytes = fmax(judgement(j), exact_values(c, j)), drawn = j->tempers ? dimension(j) : 0;
    if (config_flag(c, "output.particles")) bytes = fmax(bytes, rows_of_cloud(j, 1 + drawn));
    if (j->problem.objective.score.eval) bytes = fmax(bytes, rows_of_cloud(j, 2));
    return bytes;
}

/* The report, for which the engine is gone: it reads the cloud twice. */
static double report(const config *c, const job *j)
{
    return config_flag(c, "output.report") && config_flag(c, "output.particles") ? 2 * rows_of_cloud(j, 1) : 0;
}

static double engine(const job *j)
{
    if (j->tempers) return (double)sosmc_temper_memory(&j->temper);
    return (double)(j->automatic ? sosmc_solver_memory(&j->problem, &j->solve)
                                 : sosmc_memory(&j->problem, &j->settings));
}

double need_of_run(const config *c, const job *j)
{
    int threads = j->automatic ? j->solve.threads : j->settings.threads;
    double run = engine(j) + beside(c, j) + passing(c, j) + THREAD * fmax(threads, 1);
    return NEED_PROGRAM + HOLES * fmax(run, report(c, j));
}

/* ---------------------------------------------------------------------------- with fewer particles */

static job with_particles(const job *j, int n)
{
    job other = *j;
    sosmc_scheme *s = &other.settings.scheme;
    if (s->pool == s->particles) s->pool = n;
    s->particles = n;
    other.temper.particles = n;
    other.solve.particles = n / 16 * 16; /* of solve.h */
    return other;
}

/* The most particles with which the run takes at most `bytes`; 0: there are none, or the solver chooses. */
static int most_particles(const config *c, const job *j, double bytes)
{
    int low = 0, high = j->automatic ? j->solve.particles : (int)particles_of(j);
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        job other = with_particles(j, middle);
        if (need_of_run(c, &other) <= bytes)
            low = middle;
        else
            high = middle;
    }
    return !j->automatic ? low : low < 128 ? 0 : low / 16 * 16;
}

int need_check(const config *c, const job *j, char *error, size_t room)
{
    char what[160], advice[80] = "";
    double bytes = need_of_run(c, j);
    memory_left left;
    if (memory_find("", &left, error, room)) return -1;
    if (bytes <= left.bytes) return 0;
    int most = most_particles(c, j, left.bytes);
    (void)snprintf(what, sizeof what, "a run of %.0f particles of %d numbers", particles_of(j), j->problem.model.dim_x);
    if (most > 0) (void)snprintf(advice, sizeof advice, "expected particles of at most %d", most);
    return memory_check(what, bytes, advice, error, room);
}

const char *need_words(double bytes, char out[NEED_WORDS])
{
    char number[MEMORY_NUMBER];
    (void)snprintf(out, NEED_WORDS, "some %s", memory_number(memory_resident("") + bytes, number));
    return out;
}
