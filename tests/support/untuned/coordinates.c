/* coordinates.c: see coordinates.h. The model takes x' back to x = Q^T (x' - b) / scale in its scratch, calls the inner model there
 * and brings the gradient forward: dU/dx' = Q dU/dx / scale. */
#include "coordinates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../models/drawn_numbers.h"
#include "untuned_inside.h"

enum { REFLECTIONS = 8, LANES = 8 };

typedef struct {
    const untuned_problem *inner;
    int dim, reflections;
    double scale;
    double *mirror; /* `reflections` unit vectors v: Q is the product of all I - 2 v v^T, the first on the left */
    double *b, *unit;
} moved;

/* ---------------------------------------------------------------------------- x */

/* x <- (I - 2 v v^T) x for n particles. */
static void reflect(const moved *m, int k, int n, int ld, double *x)
{
    const double *v = m->mirror + (size_t)k * (size_t)m->dim;
    for (int from = 0; from < n; from += UNTUNED_TILE) {
        int count = n - from < UNTUNED_TILE ? n - from : UNTUNED_TILE;
        double along[UNTUNED_TILE] = {0};
        for (int j = 0; j < m->dim; j++) {
            const double *restrict row = x + (size_t)j * (size_t)ld + from;
            for (int i = 0; i < count; i++) along[i] += v[j] * row[i];
        }
        for (int j = 0; j < m->dim; j++) {
            double *restrict row = x + (size_t)j * (size_t)ld + from;
            for (int i = 0; i < count; i++) row[i] -= 2 * v[j] * along[i];
        }
    }
}

static void rotate(const moved *m, int n, int ld, double *x)
{
    for (int k = m->reflections - 1; k >= 0; k--) reflect(m, k, n, ld, x);
}

static void turn_back(const moved *m, int n, int ld, double *x)
{
    for (int k = 0; k < m->reflections; k++) reflect(m, k, n, ld, x);
}

/* Every row times `factor`, plus a number of its own. */
static void stretch(const moved *m, double factor, const double *plus, int n, int ld, const double *from, double *to)
{
    for (int j = 0; j < m->dim; j++) {
        const double *source = from + (size_t)j * (size_t)ld;
        double *row = to + (size_t)j * (size_t)ld, add = plus ? plus[j] : 0;
        for (int i = 0; i < n; i++) row[i] = factor * source[i] + add;
    }
}

static void outward(const moved *m, int n, int ld, double *x)
{
    stretch(m, m->scale, NULL, n, ld, x, x);
    rotate(m, n, ld, x);
    stretch(m, 1, m->b, n, ld, x, x);
}

static void inward(const moved *m, const sosmc_batch *b, double *x)
{
    for (int j = 0; j < m->dim; j++) {
        size_t at = (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) x[at + (size_t)i] = (b->x[at + (size_t)i] - m->b[j]) / m->scale;
    }
    turn_back(m, b->n, b->ld, x);
}

/* ---------------------------------------------------------------------------- the model */

static const sosmc_model *inner_model(const moved *m) { return &m->inner->problem.model; }

static void inner_theta(const moved *m, const double *theta, double *to)
{
    for (int j = 0; j < inner_model(m)->dim_theta; j++) to[j] = theta[j] / m->unit[j];
}

static size_t padded(int dim) { return (size_t)(dim + LANES - 1) / LANES * LANES; }

/* The batch as the inner model sees it; its x is in the first part of the scratch. */
static sosmc_batch inner_batch(const moved *m, const sosmc_batch *b)
{
    sosmc_batch in = *b;
    double *x = b->work;
    inward(m, b, x);
    in.x = x;
    in.work = x + padded(m->dim) * (size_t)b->ld;
    in.next_work = NULL;
    in.fresh = 0;
    return in;
}

static int prepare(const void *self, const double *theta, void *prep)
{
    double at[UNTUNED_PARAMETERS];
    const sosmc_model *model = inner_model(self);
    inner_theta(self, theta, at);
    return model->prepare(model->self, at, prep);
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    double at[UNTUNED_PARAMETERS];
    const moved *m = self;
    const sosmc_model *model = inner_model(m);
    sosmc_batch in = inner_batch(m, b);
    inner_theta(m, theta, at);
    int code = model->energy(model->self, at, &in, U, gx);
    if (gx) {
        rotate(m, b->n, b->ld, gx);
        stretch(m, 1 / m->scale, NULL, b->n, b->ld, gx, gx);
    }
    return code;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    double at[UNTUNED_PARAMETERS], sum[UNTUNED_PARAMETERS] = {0};
    const moved *m = self;
    const sosmc_model *model = inner_model(m);
    sosmc_batch in = inner_batch(m, b);
    inner_theta(m, theta, at);
    int code = model->grad_theta(model->self, at, &in, c, sum);
    for (int j = 0; j < model->dim_theta; j++) g[j] += sum[j] / m->unit[j];
    return code;
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    double at[UNTUNED_PARAMETERS];
    const moved *m = self;
    const sosmc_model *model = inner_model(m);
    sosmc_batch in = inner_batch(m, b);
    inner_theta(m, theta, at);
    int code = model->scores(model->self, at, &in, D);
    for (int j = 0; j < model->dim_theta; j++)
        for (int i = 0; i < b->n; i++) D[(size_t)j * (size_t)b->ld + (size_t)i] /= m->unit[j];
    return code;
}

static sosmc_model moved_model(const moved *m)
{
    const sosmc_model *inner = inner_model(m);
    sosmc_model model = *inner;
    model.self = m;
    model.work = inner->work + padded(inner->dim_x) * sizeof(double);
    model.prepare = inner->prepare ? prepare : NULL;
    model.energy = energy;
    model.grad_theta = grad_theta;
    model.scores = inner->scores ? scores : NULL;
    return model;
}

/* ---------------------------------------------------------------------------- rewards and sources */

/* A batch of x for callbacks that have no scratch; its x is to be freed. */
static int brought_back(const moved *m, const sosmc_batch *b, sosmc_batch *in, void **memory)
{
    if (posix_memalign(memory, 64, (size_t)m->dim * (size_t)b->ld * sizeof(double))) return 1;
    memset(*memory, 0, (size_t)m->dim * (size_t)b->ld * sizeof(double));
    inward(m, b, *memory);
    *in = *b;
    in->x = *memory;
    return 0;
}

static int score(const void *self, const sosmc_batch *b, double *s)
{
    const moved *m = self;
    const sosmc_score *inner = &m->inner->problem.objective.score;
    sosmc_batch in;
    void *memory = NULL;
    int code = brought_back(m, b, &in, &memory) || inner->eval(inner->self, &in, s);
    free(memory);
    return code;
}

static int logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const moved *m = self;
    const sosmc_source *inner = &m->inner->problem.objective.data;
    sosmc_batch in;
    void *memory = NULL;
    int code = brought_back(m, b, &in, &memory) || inner->logpdf(inner->self, &in, lq);
    for (int i = 0; i < b->n; i++) lq[i] -= m->dim * log(m->scale);
    free(memory);
    return code;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const moved *m = self;
    const sosmc_source *inner = &m->inner->problem.objective.data;
    int code = inner->draw(inner->self, rng, b, x);
    outward(m, b->n, b->ld, x);
    return code;
}

static int row(const void *self, const sosmc_batch *b, double *x)
{
    const moved *m = self;
    const sosmc_source *inner = &m->inner->problem.objective.data;
    int code = inner->row(inner->self, b, x);
    outward(m, b->n, b->ld, x);
    return code;
}

static sosmc_objective moved_objective(const moved *m, const double *theta_ref)
{
    sosmc_objective o = m->inner->problem.objective;
    if (o.theta_ref) o.theta_ref = theta_ref;
    if (o.score.eval) o.score = (sosmc_score){.self = m, .eval = score};
    if (!o.data.draw) return o;
    o.data.self = m;
    o.data.draw = draw;
    if (o.data.logpdf) o.data.logpdf = logpdf;
    if (o.data.row) o.data.row = row;
    return o;
}

/* ---------------------------------------------------------------------------- the problem */

static double moved_loss(const untuned_problem *u, const double *theta, double *gradient)
{
    const moved *m = u->self;
    double at[UNTUNED_PARAMETERS], shift = m->dim * log(m->scale);
    int kind = u->problem.objective.loss;
    inner_theta(m, theta, at);
    double loss = m->inner->loss(m->inner, at, gradient);
    for (int j = 0; gradient && j < u->problem.model.dim_theta; j++) gradient[j] /= m->unit[j];
    return loss + (kind == SOSMC_LOSS_MMLE ? -shift : kind == SOSMC_LOSS_LIKELIHOOD ? shift : 0);
}

/* The drawn numbers of a seed. */
enum { MIRRORS, SHIFTS, UNITS, SCALES, NAMES };
static uint32_t name_of(uint64_t seed, int what) { return 100000u + (uint32_t)(NAMES * seed) + (uint32_t)what; }

static void draw_mirrors(moved *m, uint64_t seed)
{
    drawn_normals(name_of(seed, MIRRORS), m->reflections * m->dim, m->mirror);
    for (int k = 0; k < m->reflections; k++) {
        double *v = m->mirror + (size_t)k * (size_t)m->dim, square = 0;
        for (int j = 0; j < m->dim; j++) square += v[j] * v[j];
        for (int j = 0; j < m->dim; j++) v[j] /= sqrt(square);
    }
}

untuned_coordinates untuned_coordinates_of(uint64_t seed)
{
    double u[2];
    drawn_uniforms(name_of(seed, SCALES), 2, u);
    return (untuned_coordinates){
        .scale = pow(10, 6 * u[0] - 3), .shift = pow(10, 3 * u[1]), .units = 100, .seed = seed};
}

int untuned_move(untuned_problem *u, const untuned_problem *inner, const untuned_coordinates *c)
{
    int dim = inner->problem.model.dim_x, p = inner->problem.model.dim_theta;
    double theta[UNTUNED_PARAMETERS];
    *u = (untuned_problem){.name = inner->name, .wanted = inner->wanted, .identified = inner->identified};
    moved *m = untuned_room(u, 1, sizeof *m);
    if (!m) return 1;
    *m = (moved){.inner = inner, .dim = dim, .scale = c->scale, .reflections = dim < REFLECTIONS ? dim : REFLECTIONS};
    m->mirror = untuned_room(u, (size_t)m->reflections * (size_t)dim, sizeof *m->mirror);
    m->b = untuned_room(u, (size_t)dim, sizeof *m->b);
    m->unit = untuned_room(u, (size_t)p, sizeof *m->unit);
    if (!m->mirror || !m->b || !m->unit) return 1;
    draw_mirrors(m, c->seed);
    drawn_uniforms(name_of(c->seed, SHIFTS), dim, m->b);
    drawn_uniforms(name_of(c->seed, UNITS), p, m->unit);
    for (int j = 0; j < dim; j++) m->b[j] = c->shift * (2 * m->b[j] - 1);
    for (int j = 0; j < p; j++) {
        m->unit[j] = pow(c->units, 2 * m->unit[j] - 1);
        theta[j] = m->unit[j] * inner->problem.theta0[j];
    }
    if (untuned_start(u, p, theta)) return 1;
    for (int j = 0; j < p; j++) u->best[j] = m->unit[j] * inner->best[j];
    u->problem.model = moved_model(m);
    u->problem.objective = moved_objective(m, u->problem.theta0); /* which is the reference wherever there is one */
    u->rows = inner->rows;
    u->nats = inner->nats;
    u->unit = m->unit;
    u->self = m;
    u->loss = moved_loss;
    u->best_loss = u->loss(u, u->best, NULL);
    u->start_loss = u->loss(u, u->problem.theta0, NULL);
    return 0;
}
