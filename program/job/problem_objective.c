/* problem_objective.c: the objective of a run file: its reward, its reference, the data it fits. The model is built before.
 * Here a base whose width comes from the data gets its width, and `anneal` replaces the model by the path from a normal law
 * to it. */
#include <stdlib.h>

#include "points.h"
#include "problem_inside.h"
#include "runfile/schema.h"
#include "ties.h"

enum { STREAM_HELD_OUT = SOSMC_STREAM_USER + 1 };

/* ---------------------------------------------------------------------------- rewards */

static void release_formula(void *p) { sosmc_expression_free(p); }

static int formula_reward(builder *b, sosmc_score *out)
{
    char words[256];
    picture_shape shape;
    int pictures = job_picture(b->job, &shape);
    sosmc_picture_shape picture = {.clamp = config_number(b->c, "objective.reward.clamp")};
    const double *mask = NULL;
    if (config_has(b->c, "objective.reward.mask") && !(mask = job_mask(b))) return -1;
    if (pictures) {
        picture.channels = shape.channels;
        picture.rows = shape.rows;
        picture.columns = shape.columns;
        picture.mask = mask;
    }
    const points_scaling *units = job_scaling(b->job);
    sosmc_expression *f = sosmc_expression_compile_named(config_text(b->c, "objective.reward.formula"),
                                                         b->job->problem.model.dim_x, pictures ? &picture : NULL,
                                                         units ? units->names : NULL, words, sizeof words);
    if (!f) return job_wrong(b, "objective.reward.formula", "is not a formula: %s", words);
    if (!job_keep(b->job, f, release_formula)) return job_no_memory(b);
    *out = sosmc_expression_score(f);
    return 0;
}

static int half_plane_reward(builder *b, sosmc_score *out)
{
    int dim = b->job->problem.model.dim_x;
    const double *normal = job_vector(b, "objective.reward.normal", dim);
    sosmc_half_plane *h = job_take(b->job, sizeof *h);
    if (!normal) return -1;
    if (!h) return job_no_memory(b);
    *h = (sosmc_half_plane){.dim = dim, .normal = normal, .offset = config_number(b->c, "objective.reward.offset")};
    *out = sosmc_half_plane_reward(h);
    return 0;
}

static int peaks_reward(builder *b, sosmc_score *out)
{
    int dim = b->job->problem.model.dim_x, rows = 0, cols = 0;
    const double *centers = config_matrix(b->c, "objective.reward.centers", &rows, &cols);
    if (cols != dim) return job_wrong(b, "objective.reward.centers", "have %d numbers each; expected %d", cols, dim);
    sosmc_peaks *peaks = job_take(b->job, sizeof *peaks);
    if (!peaks) return job_no_memory(b);
    *peaks = (sosmc_peaks){.dim = dim,
                           .count = rows,
                           .centers = centers,
                           .tau = config_number(b->c, "objective.reward.tau"),
                           .alpha = config_number(b->c, "objective.reward.alpha")};
    *out = sosmc_peaks_reward(peaks);
    return 0;
}

static int gate_reward(builder *b, sosmc_score *out)
{
    int dim = b->job->problem.model.dim_x, smooth = is(b, "objective.reward.type", "smooth_gate");
    const double *center = job_vector(b, "objective.reward.center", dim);
    sosmc_gate *gate = job_take(b->job, sizeof *gate);
    if (!center) return -1;
    if (!gate) return job_no_memory(b);
    *gate = (sosmc_gate){.dim = dim,
                         .center = center,
                         .tau = config_number(b->c, "objective.reward.tau"),
                         .lambda = smooth ? config_number(b->c, "objective.reward.lambda") : 0,
                         .alpha = config_number(b->c, "objective.reward.alpha")};
    *out = sosmc_gate_reward(gate);
    return 0;
}

/* A reward of points in the units of the data. */
typedef struct {
    sosmc_score reward;
    const points_scaling *units;
} reward_of_data;

static int eval_in_units(const void *self, const sosmc_batch *b, double *s)
{
    enum { ROOM = 16384 }; /* the numbers of the largest point */
    _Alignas(64) double x[ROOM];
    const reward_of_data *r = self;
    sosmc_batch some = *b;
    int rc = 0;
    some.x = x;
    some.ld = ROOM / b->dim >= 8 ? ROOM / b->dim / 8 * 8 : 1;
    for (int from = 0; from < b->n && rc == 0; from += some.ld) {
        some.n = b->n - from < some.ld ? b->n - from : some.ld;
        some.first = b->first + from;
        for (int j = 0; j < b->dim; j++)
            for (int i = 0; i < some.n; i++)
                x[j * some.ld + i] = r->units->centre[j] + b->x[j * b->ld + from + i] / r->units->factor[j];
        rc = r->reward.eval(r->reward.self, &some, s + from);
    }
    return rc;
}

static int typed_reward(builder *b, sosmc_score *out)
{
    if (is(b, "objective.reward.type", "formula")) return formula_reward(b, out);
    if (is(b, "objective.reward.type", "own")) return job_own_reward(b, out);
    if (schema_has_word("bright|dark|half|mask|network", config_text(b->c, "objective.reward.type")))
        return job_picture_reward(b, out);
    if (is(b, "objective.reward.type", "half_plane")) return half_plane_reward(b, out);
    if (is(b, "objective.reward.type", "multi_modal")) return peaks_reward(b, out);
    return gate_reward(b, out);
}

static int build_reward(builder *b, sosmc_score *out)
{
    reward_of_data *r = job_take(b->job, sizeof *r);
    if (!r) return job_no_memory(b);
    if (typed_reward(b, &r->reward)) return -1;
    r->units = job_units(b->job);
    *out = r->units ? (sosmc_score){.self = r, .eval = eval_in_units} : r->reward;
    return 0;
}

/* Reference samples that are rows of a file. */
static int stored_reference(builder *b, sosmc_source *out)
{
    int64_t rows = 0;
    double *points = NULL;
    *b->io = 1;
    if (points_load(config_text(b->c, "objective.reference.file"), b->job->problem.model.dim_x, &points, &rows,
                    b->error, b->room))
        return -1;
    *b->io = 0;
    scaling_map(job_units(b->job), 0, rows, points);
    sosmc_rows *reference = job_take(b->job, sizeof *reference);
    if (!job_keep(b->job, points, free) || !reference) return job_no_memory(b);
    *reference = (sosmc_rows){.data = points, .rows = rows, .mode = SOSMC_ROWS_RANDOM};
    *out = sosmc_rows_source(reference);
    return 0;
}

static int forward_objective(builder *b, sosmc_score reward, const double *theta)
{
    sosmc_source law;
    if (config_has(b->c, "objective.reference.file")) {
        if (stored_reference(b, &law)) return -1;
    } else if (!b->p->kind->exact_law || (job_has_bounds(b->job) && b->p->kind != &kind_own)) {
        return job_wrong(
            b, "objective.type",
            "is reward_forward, which needs draws of the reference, and model %s has none of its own; expected "
            "objective.reference.file",
            config_text(b->c, "model.type"));
    } else if (b->p->kind->exact_law(b, theta, &law)) {
        return -1;
    }
    /* The solver draws as many as it has particles. */
    int batch = (int)config_integer(b->c, is(b, "settings", "automatic") ? "particles" : "objective.reference.batch");
    b->job->problem.objective = sosmc_reward_forward(reward, config_number(b->c, "objective.beta"), law, batch, theta);
    return 0;
}

/* The reference is where theta starts unless the file names another. Networks and models of other programs have no theta in the
 * file. */
static int rewarded_objective(builder *b)
{
    sosmc_score reward = {0};
    const double *theta = b->p->theta;
    if (build_reward(b, &reward)) return -1;
    if (config_has(b->c, "objective.reference.theta"))
        theta = job_vector(b, "objective.reference.theta", b->job->problem.model.dim_theta);
    if (!theta) return -1;
    if (is(b, "objective.type", "reward_reverse"))
        b->job->problem.objective = sosmc_reward_reverse(reward, config_number(b->c, "objective.beta"), theta);
    else if (forward_objective(b, reward, theta))
        return -1;
    b->job->problem.objective.ramp = config_integer(b->c, "objective.ramp");
    return 0;
}

/* ---------------------------------------------------------------------------- points to fit */

int job_recipe(const config *c, points_recipe *out)
{
    static const char *const names[] = {
        [POINTS_TWO_MOONS] = "two_moons", [POINTS_CIRCLES] = "circles", [POINTS_BLOBS] = "blobs"};
    const char *type = config_text(c, "objective.data.type");
    int kind = POINTS_BLOBS;
    while (type && kind >= 0 && strcmp(type, names[kind]) != 0) kind--;
    if (!type || kind < 0) return -1;
    *out = (points_recipe){
        .kind = (points_kind)kind,
        .points = config_integer(c, "objective.data.points"),
        .noise = config_number(c, kind == POINTS_BLOBS ? "objective.data.sd" : "objective.data.noise"),
        .factor = config_number(c, "objective.data.factor"),
        .standardise = config_flag(c, "objective.data.standardise"),
        .scale = config_number(c, "objective.data.scale"),
        .seed = config_unsigned(c, "objective.data.seed")};
    out->centres = config_matrix(c, "objective.data.centres", &out->clusters, &out->dim);
    if (kind != POINTS_BLOBS) out->dim = 2;
    return 0;
}

/* Points of one of the generators, in the dimension of the model. */
static int generated_points(builder *b, const points_recipe *recipe, double **out, int64_t *rows)
{
    int dim = b->job->problem.model.dim_x;
    if (recipe->kind == POINTS_BLOBS && recipe->dim != dim)
        return job_wrong(b, "objective.data.centres", "have %d numbers each; expected %d", recipe->dim, dim);
    if (recipe->kind != POINTS_BLOBS && dim != 2)
        return job_wrong(b, "objective.data.type",
                         "is %s, which gives points of dimension 2; the model has dimension %d",
                         config_text(b->c, "objective.data.type"), dim);
    points_recipe told = *recipe;
    told.scaling = &b->p->scaling;
    return points_generate(&told, out, rows, b->error, b->room);
}

static int stored_points(builder *b, double **out, int64_t *rows)
{
    int dim = b->job->problem.model.dim_x, centred = config_flag(b->c, "objective.data.standardise");
    const char *path = config_text(b->c, "objective.data.file");
    points_gaps gaps = {.remedy = "objective.data.missing: drop", .drop = is(b, "objective.data.missing", "drop")};
    *b->io = 1;
    if (points_load_data(path, dim, &gaps, out, rows, b->error, b->room) ||
        (gaps.columns && !job_keep(b->job, gaps.columns, free)) ||
        points_differ(path, *out, *rows, dim, b->error, b->room) ||
        (centred && points_can_standardise(path, *rows, "objective.data.standardise: false", b->error, b->room)))
        return -1;
    *b->io = 0;
    job_left_rows(b, path, *rows + gaps.dropped, gaps.dropped, gaps.remedy);
    if (gaps.identifier)
        job_note(b,
                 "column %d of %.200s has a different whole number in every row; if it is an identifier, leave it out",
                 gaps.identifier, files_last_part(path));
    if (points_rescale(*out, *rows, dim, centred, config_number(b->c, "objective.data.scale"), &b->p->scaling))
        return job_wrong(b, "objective.data", "has points that are too large to be scaled in double precision");
    return gaps.columns && scaling_name(&b->p->scaling, dim, gaps.columns) ? job_no_memory(b) : 0;
}

/* Puts the points of which `out` is set behind the others; each of the two keeps its order. */
static int part_points(builder *b, int64_t rows, const char *out, double *points)
{
    size_t dim = (size_t)b->job->problem.model.dim_x, at = 0;
    double *copy = malloc((size_t)rows * dim * sizeof *copy);
    if (!copy) return job_no_memory(b);
    for (char wanted = 0; wanted < 2; wanted++)
        for (int64_t i = 0; i < rows; i++)
            if (out[i] == wanted) memcpy(copy + at++ * dim, points + (size_t)i * dim, dim * sizeof *copy);
    memcpy(points, copy, (size_t)rows * dim * sizeof *copy);
    free(copy);
    return 0;
}

/* Takes the share of objective.held_out from the points: each is drawn on its own, under a name that the seed gives it. */
static int hold_out(builder *b, double *points, int64_t *rows)
{
    double share = config_number(b->c, "objective.held_out");
    sosmc_rng name = {.seed = config_unsigned(b->c, "seed"), .stream = STREAM_HELD_OUT};
    int64_t n = *rows, held = 0;
    if (share == 0) return 0;
    if (!points)
        return job_wrong(b, "objective.held_out", "is %g, and objective.data are pictures; expected 0 for them", share);
    char *out = calloc((size_t)n, 1);
    if (!out) return job_no_memory(b);
    for (int64_t i = 0; i < n; i++) {
        double u;
        sosmc_batch one = {.simd = sosmc_simd_best(), .dim = 1, .n = 1, .ld = 1, .first = i};
        sosmc_uniforms(name, 0, &one, &u);
        held += out[i] = u <= share;
    }
    int rc = held > 0 && held < n
                 ? part_points(b, n, out, points)
                 : job_wrong(
                       b, "objective.held_out",
                       "is %g, which takes %lld of %lld points; expected a share that leaves some and takes some, or 0",
                       share, (long long)held, (long long)n);
    free(out);
    b->p->held_out = held;
    *rows = n - held;
    return rc;
}

/* A note on points, those that are held out among them, on which a density has no bound. */
static int look_for_ties(const builder *b, int64_t rows)
{
    char words[JOB_SENTENCE];
    int rc = b->p->points
                 ? ties_words(b->p->points, rows + b->p->held_out, b->job->problem.model.dim_x, words, sizeof words)
                 : 0;
    if (rc > 0) job_note(b, "%s", words);
    return rc < 0 ? job_no_memory(b) : 0;
}

static int build_points(builder *b, int64_t *rows)
{
    double *points = NULL;
    points_recipe recipe;
    if (is(b, "objective.data.type", "images")) return job_picture_data(b, rows) || hold_out(b, NULL, rows) ? -1 : 0;
    if (is(b, "objective.data.type", "own")) return job_own_points(b, rows);
    int rc = job_recipe(b->c, &recipe) == 0 ? generated_points(b, &recipe, &points, rows)
                                            : stored_points(b, &points, rows);
    if (points && !job_keep(b->job, points, free)) return job_no_memory(b);
    b->p->points = b->p->rows.data = points;
    return rc ? rc : hold_out(b, points, rows);
}

/* A network that is fitted to points has their units, whatever those were in which it was stored. */
static int take_units(builder *b)
{
    model_file *f = b->p->network;
    if (!f || !b->p->points) return 0;
    scaling_free(&f->scaling);
    return scaling_copy(&f->scaling, &b->p->scaling) ? job_no_memory(b) : 0;
}

/* What the model takes from the data. */
static int fit_model(builder *b)
{
    double penalty = config_number(b->c, "objective.gradient_penalty");
    if (penalty > 0 && (!b->p->network || model_is_network(b->p->network)))
        return job_wrong(b, "objective.gradient_penalty",
                         "is %g; only multi-layer perceptrons (model.type: mlp or stored) have one", penalty);
    if (take_units(b)) return -1;
    return b->p->kind->fit ? b->p->kind->fit(b) : 0;
}

static int likelihood_objective(builder *b)
{
    int chosen = !is(b, "settings", "automatic"); /* otherwise the solver has batches of its own */
    int64_t rows = 0, batch = chosen ? config_integer(b->c, "objective.batch") : 0;
    int epochs = chosen && is(b, "objective.batches", "epochs");
    if (build_points(b, &rows) || look_for_ties(b, rows)) return -1;
    if (rows < 1 || rows > INT32_MAX)
        return job_wrong(b, "objective.data", "holds %lld points; expected 1 to 2^31 - 1", (long long)rows);
    if (epochs && batch > rows)
        return job_wrong(b, "objective.batch",
                         "is %lld; expected at most the %lld points, because objective.batches is epochs",
                         (long long)batch, (long long)rows);
    b->p->rows.rows = rows;
    b->p->rows.mode = !batch ? SOSMC_ROWS_IN_ORDER : epochs ? SOSMC_ROWS_EPOCHS : SOSMC_ROWS_RANDOM;
    b->p->rows.batch = (int)batch;
    b->job->problem.objective = sosmc_likelihood(sosmc_rows_source(&b->p->rows), (int)(batch ? batch : rows));
    b->job->problem.objective.energy2 = config_number(b->c, "objective.energy2");
    return fit_model(b);
}

/* ---------------------------------------------------------------------------- sampling, and the choice */

/* Sampling and tempering leave theta constant; annealing makes theta the temperature between a normal law and the model. */
static int sampling_objective(builder *b)
{
    sosmc_score score = {0};
    if (config_has(b->c, "objective.reward") && build_reward(b, &score)) return -1;
    b->job->problem.objective = sosmc_sampling(score);
    if (is(b, "objective.type", "none")) return 0;
    if (is(b, "objective.type", "temper")) {
        b->job->tempers = 1;
        b->job->temper.beta = config_has(b->c, "objective.beta") ? config_number(b->c, "objective.beta") : 0;
        return 0;
    }
    b->p->tempering = (sosmc_tempering){.model = b->job->problem.model,
                                        .theta = b->p->theta,
                                        .base_sd = config_number(b->c, "objective.base_sd"),
                                        .steps = config_integer(b->c, "objective.steps"),
                                        .power = config_number(b->c, "objective.power")};
    b->job->problem.model = sosmc_tempered_model(&b->p->tempering);
    b->job->problem.theta0 = NULL; /* t = 0 */
    return 0;
}

int job_build_objective(builder *b)
{
    if (is(b, "objective.type", "mmle")) {
        b->job->problem.objective = sosmc_mmle();
        if (b->p->kind->per_number) b->job->problem.objective.scale /= b->job->problem.model.dim_x;
        return 0;
    }
    if (is(b, "objective.type", "ebm_likelihood")) return likelihood_objective(b);
    if (schema_has_word("none|anneal|temper", config_text(b->c, "objective.type"))) return sampling_objective(b);
    return rewarded_objective(b);
}
