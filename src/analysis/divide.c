/* divide.c: exact expectations of two-dimensional models on a lattice whose cells are divided where a density bends too much from node
 * to node (maths.md LATTICE).
 *
 * A network that was tuned towards a reward has a cliff in its energy, narrower than the cells of an affordable lattice. Nodes on
 * both sides of it do not see where between them it stands, on lattices of several widths alike, which then agree and are wrong. The cell of
 * such a node is replaced by points, one in each of its parts, each with its energies raised by the log of the number of parts: plain
 * sums over all points are then what they would be with areas as weights. A node that is replaced has an infinite energy.
 *
 * Invariant: which cells are divided depends on values at the nodes alone, so threads change nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/table.h"
#include "lattice_inside.h"

enum { SIDE = 8, PARTS = SIDE * SIDE };        /* parts along an axis, and in all */
enum { MOST_SHARE = 16, MOST_DIVIDED = 4096 }; /* of so many cells one is divided at most, and never more than that */
/* Too large a bend: of a log-density; of a reward, as a share of its range. It matters where a cell has the least mass, or one that is larger by
 * steps if these are too many. */
static const double STEEP = 1, JUMP = 0.02, LEAST = 1e-8, LARGER = 4;
static const double OPEN = 10,
                    COARSE =
                        0.01; /* so much may a cell beside a divided one be wrong by: times the least mass; of itself */

/* Everything that is known at the nodes, and behind them at the points of divided cells. */
typedef struct {
    const sosmc_lattice *l;
    int64_t nodes, divided, points; /* cells that are divided; points = nodes + PARTS divided */
    double *U, *U_ref, *R, *x;      /* x: rows of two, of the points behind the nodes */
    unsigned char *steep;           /* of every node */
    double edge;                    /* the largest share of mass, of all densities, on the outermost ring */
} plane;

static int64_t most_divided(int64_t nodes)
{
    return nodes / MOST_SHARE < MOST_DIVIDED ? nodes / MOST_SHARE : MOST_DIVIDED;
}

/* ---------------------------------------------------------------------------- which cells */

/* How much the log-density bends from node to node, a second difference: a normal density whose standard deviation is one cell bends by
 * 1, and plain sums are still right to nine digits there. */
static double bend(double before, double here, double after)
{
    double d = fabs(before - 2 * here + after);
    return before == -INFINITY && here == -INFINITY && after == -INFINITY ? 0 : isnan(d) ? INFINITY : d;
}

/* Marks the nodes at which the log-density bends too much, or the reward by more than `jump`, and whose cell, or one beside it, has mass. Returns
 * how many there are now. */
static int64_t mark(const plane *v, const measure *p, double least, double jump)
{
    double log_least = sosmc_i_log1(NULL, least) + p->logsum;
    int64_t n = v->l->nodes, count = 0;
    for (int64_t r = 1; r + 1 < n; r++)
        for (int64_t c = 1; c + 1 < n; c++) {
            int64_t g = r * n + c;
            double w[5] = {log_weight(p, g), log_weight(p, g - 1), log_weight(p, g + 1), log_weight(p, g - n),
                           log_weight(p, g + n)};
            double most = fmax(w[0], fmax(fmax(w[1], w[2]), fmax(w[3], w[4])));
            if (most > log_least && (fmax(bend(w[1], w[0], w[2]), bend(w[3], w[0], w[4])) > STEEP ||
                                     (v->R && fmax(bend(v->R[g - 1], v->R[g], v->R[g + 1]),
                                                   bend(v->R[g - n], v->R[g], v->R[g + n])) > jump)))
                v->steep[g] = 1;
            count += v->steep[g];
        }
    return count;
}

/* Whether the area of a cell times the density at its node is wrong by more than a hundredth of itself, and by more than `most` of all mass. Over a
 * smooth density such errors cancel from cell to cell; beside a divided cell, which has none, nothing cancels. */
static int is_wrong(const plane *v, const measure *p, int64_t g, double most)
{
    int64_t n = v->l->nodes, at[5] = {g, g - 1, g + 1, g - n, g + n};
    double mass[5];
    for (int k = 0; k < 5; k++) mass[k] = sosmc_i_exp1(NULL, fmax(log_weight(p, at[k]) - p->logsum, -700));
    double error = (fabs(mass[1] - 2 * mass[0] + mass[2]) + fabs(mass[3] - 2 * mass[0] + mass[4])) / 24;
    return error > most && error > COARSE * mass[0];
}

/* Marks the nodes beside marked ones whose cells are wrong, until there are none. Returns how many are marked. */
static int64_t grow(const plane *v, const measure *p, double most, int64_t count)
{
    int64_t n = v->l->nodes, before = -1, enough = most_divided(v->nodes);
    while (count > before && count <= enough) {
        before = count;
        for (int64_t r = 1; r + 1 < n; r++)
            for (int64_t c = 1; c + 1 < n; c++) {
                int64_t g = r * n + c;
                int beside = v->steep[g - 1] || v->steep[g + 1] || v->steep[g - n] || v->steep[g + n];
                if (v->steep[g] || !beside || !is_wrong(v, p, g, most)) continue;
                v->steep[g] = 1;
                count++;
            }
    }
    return count;
}

/* How far rewards lie apart where a density has mass. */
static double range_of(const plane *v, const measure *p)
{
    double low = INFINITY, high = -INFINITY, log_least = sosmc_i_log1(NULL, LEAST) + p->logsum;
    for (int64_t g = 0; v->R && g < v->nodes; g++) {
        if (!(log_weight(p, g) > log_least)) continue;
        low = fmin(low, v->R[g]);
        high = fmax(high, v->R[g]);
    }
    return high > low ? high - low : INFINITY;
}

/* Of the model, the reference and the best of all densities, those that there are; and what they have on the edge. */
static void find_steep(plane *v, double beta)
{
    const measure all[] = {sosmc_i_masses(v->nodes, v->U, NULL, 0),
                           v->U_ref ? sosmc_i_masses(v->nodes, v->U_ref, NULL, 0) : (measure){.logsum = -INFINITY},
                           v->U_ref && v->R && beta > 0 ? sosmc_i_masses(v->nodes, v->U_ref, v->R, beta)
                                                        : (measure){.logsum = -INFINITY}};
    for (int k = 0; k < 3; k++)
        if (all[k].U && isfinite(all[k].logsum)) v->edge = fmax(v->edge, sosmc_i_edge(&all[k], v->l->nodes));
    v->divided = v->nodes;
    for (double least = LEAST; v->divided > most_divided(v->nodes); least *= LARGER) {
        memset(v->steep, 0, (size_t)v->nodes);
        v->divided = 0;
        for (int k = 0; k < 3; k++)
            if (all[k].U && isfinite(all[k].logsum)) v->divided = mark(v, &all[k], least, JUMP * range_of(v, &all[k]));
        for (int k = 0; k < 3; k++)
            if (all[k].U && isfinite(all[k].logsum)) v->divided = grow(v, &all[k], OPEN * least, v->divided);
    }
    v->points = v->nodes + PARTS * v->divided;
}

/* ---------------------------------------------------------------------------- their points */

/* A point in each part, anywhere: lines along which a reward jumps lie parallel to the cells more often than not, and points in the middles would all
 * be wrong in the same direction. */
static void place_points(const plane *v)
{
    const sosmc_lattice *l = v->l;
    double h[2], *x = v->x, u[2][PARTS];
    sosmc_batch b = {.simd = sosmc_simd_best(), .dim = 1, .n = PARTS, .ld = PARTS};
    for (int a = 0; a < 2; a++) h[a] = (l->high[a] - l->low[a]) / (l->nodes - 1);
    for (int64_t g = 0; g < v->nodes; g++) {
        if (!v->steep[g]) continue;
        const double middle[2] = {sosmc_lattice_node(l, 0, (int)(g % l->nodes)),
                                  sosmc_lattice_node(l, 1, (int)(g / l->nodes))};
        for (int a = 0; a < 2; a++)
            sosmc_uniforms((sosmc_rng){.seed = (uint64_t)l->nodes, .step = (uint64_t)g, .stream = SOSMC_STREAM_USER},
                           (uint32_t)a, &b, u[a]);
        for (int k = 0; k < PARTS; k++, x += 2) {
            int row = k / SIDE;
            x[0] = middle[0] + h[0] * ((k % SIDE + u[0][k]) / SIDE - 0.5);
            x[1] = middle[1] + h[1] * ((row + u[1][k]) / SIDE - 0.5);
        }
    }
}

/* Values at the points behind the nodes; energies stand for a part of a cell there, and no longer for the cells that were divided. */
static sosmc_status fill(const plane *v, const sosmc_model *model, const double *theta, int threads, double *U)
{
    int64_t more = v->points - v->nodes;
    double raised = sosmc_i_log1(NULL, PARTS);
    sosmc_status status = sosmc_energies(model, theta, more, v->x, threads, U + v->nodes);
    for (int64_t i = v->nodes; i < v->points; i++) U[i] += raised;
    for (int64_t g = 0; g < v->nodes; g++)
        if (v->steep[g]) U[g] = INFINITY;
    return status;
}

static sosmc_status score_points(const plane *v, const sosmc_score *score)
{
    sosmc_status status = sosmc_scores(score, 2, v->points - v->nodes, v->x, v->R + v->nodes);
    for (int64_t i = v->nodes; i < v->points && status == SOSMC_OK; i++)
        if (!isfinite(v->R[i])) status = SOSMC_ENUMERIC;
    return status;
}

/* ---------------------------------------------------------------------------- all of it */

static int64_t most_points(int64_t nodes) { return nodes + most_divided(nodes) * PARTS; }

size_t sosmc_plane_memory(const sosmc_lattice *l, int reference, int score)
{
    size_t nodes = (size_t)l->nodes * (size_t)l->nodes, most = (size_t)most_points((int64_t)nodes);
    return (most * (size_t)(1 + !!reference + !!score) + 2 * (most - nodes)) * sizeof(double) + nodes;
}

static int take_memory(plane *v, const double *theta_ref, const sosmc_score *score)
{
    size_t most = (size_t)most_points(v->nodes);
    v->U = malloc(most * sizeof(double));
    v->U_ref = theta_ref ? malloc(most * sizeof(double)) : NULL;
    v->R = score ? malloc(most * sizeof(double)) : NULL;
    v->x = malloc((2 * (most - (size_t)v->nodes) + 1) * sizeof(double));
    v->steep = calloc((size_t)v->nodes, 1);
    return v->U && v->x && v->steep && (v->U_ref || !theta_ref) && (v->R || !score) ? 0 : -1;
}

sosmc_status sosmc_plane_exact(const sosmc_model *model, const double *theta, const double *theta_ref,
                               const sosmc_score *score, double beta, const sosmc_lattice *l, int threads,
                               sosmc_exact *out)
{
    STANDARD_ARITHMETIC;
    plane v = {.l = l, .nodes = (int64_t)l->nodes * l->nodes, .edge = NAN};
    sosmc_status status = l->nodes < 2 ? SOSMC_EINVAL : take_memory(&v, theta_ref, score) ? SOSMC_ENOMEM : SOSMC_OK;
    if (status == SOSMC_OK) status = sosmc_lattice_energy(model, theta, l, threads, v.U);
    if (status == SOSMC_OK && theta_ref) status = sosmc_lattice_energy(model, theta_ref, l, threads, v.U_ref);
    if (status == SOSMC_OK && score) status = sosmc_lattice_score(score, l, v.R);
    if (status == SOSMC_OK) {
        find_steep(&v, beta);
        place_points(&v);
        status = fill(&v, model, theta, threads, v.U);
    }
    if (status == SOSMC_OK && theta_ref) status = fill(&v, model, theta_ref, threads, v.U_ref);
    if (status == SOSMC_OK && score) status = score_points(&v, score);
    if (status == SOSMC_OK) {
        sosmc_i_exact_sums(v.points, sosmc_i_log_cell(l), v.U, v.U_ref, v.R, beta, out);
        out->edge = v.edge;
    }
    free(v.U);
    free(v.U_ref);
    free(v.R);
    free(v.x);
    free(v.steep);
    return status;
}
