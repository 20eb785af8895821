/* test_judge_laws.c: the laws from which fresh particles start, and how particles move, against formulas written out for one
 * particle at a time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "assertions.h"
#include "base/linear.h"
#include "base/table.h"
#include "judge/descend.h"
#include "temper/laws.h"
#include "temper/pass.h"
#include "temper/tile.h"

enum { DIM = 3, MOST = 48, TILE = DIM * MOST };

/* Tiles of one particle, of a few, of less than a block of 32, and of a block with something left. */
static const struct {
    int n, ld;
} shape[] = {{1, 1}, {1, 8}, {10, 16}, {31, 32}, {45, 48}};
enum { SHAPES = sizeof shape / sizeof *shape };

static const char *const level_name[] = {"plain", "avx2", "avx512"};

/* ---------------------------------------------------------------------------- laws to look at */

static const double mean_of[3][DIM] = {{0, 1, -1}, {2, -1, 0.5}, {-4, 0, 3}};
static const double L_of[3][DIM * DIM] = {{1, 0, 0, 0.5, 0.8, 0, -0.3, 0.2, 1.5},
                                          {0.7, 0, 0, -0.2, 1.1, 0, 0.4, 0.6, 0.9},
                                          {2, 0, 0, 1, 0.5, 0, 0.3, -0.4, 0.6}};
static const double weight_of[3] = {1, 2, 0.5};
static const int dof_of[3] = {0, 4, 7};

static laws mixture(int count)
{
    laws q = {.dim = DIM};
    for (int k = 0; k < count; k++)
        assert_int_equal(sosmc_i_laws_add(&q, weight_of[k], dof_of[k], mean_of[k], L_of[k]), 0);
    sosmc_i_laws_close(&q);
    return q;
}

/* -log density at one point, from the covariance and libm. */
static double direct(int count, const double *x)
{
    double density = 0, total = 0;
    for (int k = 0; k < count; k++) total += weight_of[k];
    for (int k = 0; k < count; k++) {
        const double *L = L_of[k];
        double z[DIM], square = 0, det = L[0] * L[4] * L[8], dof = dof_of[k];
        for (int j = 0; j < DIM; j++) z[j] = x[j] - mean_of[k][j];
        z[0] /= L[0];
        z[1] = (z[1] - L[3] * z[0]) / L[4];
        z[2] = (z[2] - L[6] * z[0] - L[7] * z[1]) / L[8];
        for (int j = 0; j < DIM; j++) square += z[j] * z[j];
        double normal = exp(-0.5 * square) / pow(2 * M_PI, 1.5);
        double student = dof > 0 ? tgamma((dof + DIM) / 2) / (tgamma(dof / 2) * pow(dof * M_PI, 1.5)) *
                                       pow(1 + square / dof, -(dof + DIM) / 2)
                                 : 0;
        density += weight_of[k] / total * (dof > 0 ? student : normal) / det;
    }
    return -log(density);
}

/* Points around the laws, the same for the same particle whatever the shape of the tile. */
static void scatter(int n, int ld, double width, double *x)
{
    sosmc_batch b = {.dim = DIM, .n = n, .ld = ld};
    double z[DIM];
    for (int i = 0; i < n; i++) {
        sosmc_batch one = {.dim = DIM, .n = 1, .ld = 1, .first = i};
        sosmc_normals((sosmc_rng){.seed = 5}, &one, z);
        for (int j = 0; j < DIM; j++) x[j * b.ld + i] = width * z[j];
    }
}

/* ---------------------------------------------------------------------------- densities */

static void densities_follow_the_formula(void **state)
{
    double x[TILE], energy[MOST], work[LAW_WORK * DIM], at[DIM];
    for (int count = 1; count <= 3; count++) {
        laws q = mixture(count);
        for (int s = 0; s < SHAPES; s++) {
            int n = shape[s].n, ld = shape[s].ld;
            memset(x, 0, sizeof x);
            scatter(n, ld, 3, x);
            sosmc_i_tile_code(NULL)->energies(&q, n, ld, x, energy, NULL, work);
            for (int i = 0; i < n; i++) {
                for (int j = 0; j < DIM; j++) at[j] = x[j * ld + i];
                assert_close(energy[i], direct(count, at), 1e-12);
            }
        }
        sosmc_i_laws_free(&q);
    }
}

/* Every level, every shape, alone or beside others: the same bits. */
static void bits_depend_on_the_particle_alone(void **state)
{
    double x[TILE], energy[MOST], g[TILE], first[MOST], first_g[TILE], work[LAW_WORK * DIM];
    laws q = mixture(3);
    for (int i = 0; i < 45; i++) { /* one at a time, in plain C */
        double all[TILE], one[DIM], g1[DIM];
        scatter(45, 48, 6, all);
        for (int j = 0; j < DIM; j++) one[j] = all[j * 48 + i];
        sosmc_i_tile_code(sosmc_simd_named("plain"))->energies(&q, 1, 1, one, &first[i], g1, work);
        for (int j = 0; j < DIM; j++) first_g[j * 48 + i] = g1[j];
    }
    for (int v = 0; v < 3; v++) {
        const sosmc_simd *simd = sosmc_simd_named(level_name[v]);
        for (int s = 0; simd && s < SHAPES; s++) {
            int n = shape[s].n, ld = shape[s].ld;
            memset(x, 0, sizeof x);
            scatter(n, ld, 6, x);
            sosmc_i_tile_code(simd)->energies(&q, n, ld, x, energy, g, work);
            assert_memory_equal(energy, first, (size_t)n * sizeof *energy);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < DIM; j++) assert_true(g[j * ld + i] == first_g[j * 48 + i]);
        }
    }
    sosmc_i_laws_free(&q);
}

static void gradients_follow_differences(void **state)
{
    double x[TILE], g[TILE], energy[MOST], plus[MOST], minus[MOST], work[LAW_WORK * DIM];
    const int n = 45, ld = 48;
    const double h = 1e-5;
    for (int count = 1; count <= 3; count++) {
        laws q = mixture(count);
        const tile_code *code = sosmc_i_tile_code(NULL);
        memset(x, 0, sizeof x);
        scatter(n, ld, 3, x);
        code->energies(&q, n, ld, x, energy, g, work);
        for (int j = 0; j < DIM; j++) {
            for (int i = 0; i < n; i++) x[j * ld + i] += h;
            code->energies(&q, n, ld, x, plus, NULL, work);
            for (int i = 0; i < n; i++) x[j * ld + i] -= 2 * h;
            code->energies(&q, n, ld, x, minus, NULL, work);
            for (int i = 0; i < n; i++) x[j * ld + i] += h;
            for (int i = 0; i < n; i++) assert_close(g[j * ld + i], (plus[i] - minus[i]) / (2 * h), 1e-7);
        }
        sosmc_i_laws_free(&q);
    }
}

/* A diagonal is a factor whose other entries are zero. */
static void diagonals_are_factors(void **state)
{
    const double diagonal[DIM] = {0.5, 2, 1.25}, full[DIM * DIM] = {0.5, 0, 0, 0, 2, 0, 0, 0, 1.25};
    double x[TILE], energy[2][MOST], g[2][TILE], y[2][TILE], stretch[MOST], work[LAW_WORK * DIM];
    const int n = 45, ld = 48;
    memset(x, 0, sizeof x);
    scatter(n, ld, 3, x);
    for (int i = 0; i < n; i++) stretch[i] = 1 + 0.01 * i;
    for (int d = 0; d < 2; d++) {
        laws q = {.dim = DIM, .diagonal = d};
        sosmc_batch b = {.dim = DIM, .n = n, .ld = ld};
        assert_int_equal(sosmc_i_laws_add(&q, 1, 3, mean_of[1], d ? diagonal : full), 0);
        assert_int_equal(sosmc_i_laws_add(&q, 1, 0, mean_of[0], d ? diagonal : full), 0);
        sosmc_i_laws_close(&q);
        sosmc_i_tile_code(NULL)->energies(&q, n, ld, x, energy[d], g[d], work);
        sosmc_i_laws_draw(&q, &b, n, x, stretch, y[d]);
        sosmc_i_laws_free(&q);
    }
    for (int i = 0; i < n; i++) {
        assert_true(energy[0][i] == energy[1][i]);
        for (int j = 0; j < DIM; j++) {
            assert_true(g[0][j * ld + i] == g[1][j * ld + i]);
            assert_true(y[0][j * ld + i] == y[1][j * ld + i]);
        }
    }
}

/* The integral over the line is 1: the trapezium rule in s, x = sinh s, which reaches the tails of three degrees of freedom. */
static void densities_are_normalised(void **state)
{
    enum { POINTS = 4001, AT_ONCE = 8 };
    const double mean[3] = {0, -3, 5}, L[3] = {1, 0.4, 2}, from = -14, step = 28.0 / (POINTS - 1);
    const int dof[3] = {0, 3, 5};
    laws q = {.dim = 1};
    for (int k = 0; k < 3; k++) assert_int_equal(sosmc_i_laws_add(&q, k + 1, dof[k], &mean[k], &L[k]), 0);
    sosmc_i_laws_close(&q);
    double sum = 0, x[AT_ONCE], energy[AT_ONCE], work[LAW_WORK];
    for (int i = 0; i < POINTS; i += AT_ONCE) {
        int n = POINTS - i < AT_ONCE ? POINTS - i : AT_ONCE;
        for (int k = 0; k < AT_ONCE; k++) x[k] = sinh(from + step * (i + k));
        sosmc_i_tile_code(NULL)->energies(&q, n, AT_ONCE, x, energy, NULL, work);
        for (int k = 0; k < n; k++) sum += step * exp(-energy[k]) * cosh(from + step * (i + k));
    }
    assert_near(sum, 1, 1e-10);
    sosmc_i_laws_free(&q);
}

/* Far away a Student law falls like distance^-(dof + dim) and hides every normal one; where nothing is left of any, the energy
 * is infinite, and so it is at no number. */
static void tails(void **state)
{
    double x[8 * DIM] = {0}, energy[8], work[LAW_WORK * DIM];
    laws q = mixture(2);
    const tile_code *code = sosmc_i_tile_code(NULL);
    for (int i = 0; i < 5; i++) x[8 + i] = 1e6 * pow(2, i);
    x[5] = INFINITY;
    x[6] = NAN;
    x[7] = 1e200;
    code->energies(&q, 8, 8, x, energy, NULL, work);
    for (int i = 1; i < 5; i++) assert_near(energy[i] - energy[i - 1], (4 + DIM) * log(2), 1e-5);
    for (int i = 5; i < 8; i++) assert_true(isinf(energy[i]) && energy[i] > 0);
    sosmc_i_laws_free(&q);
    q = mixture(1);
    code->energies(&q, 8, 8, x, energy, NULL, work);
    for (int i = 1; i < 5; i++) assert_close(energy[i] / energy[i - 1], 4, 1e-4);
    sosmc_i_laws_free(&q);
}

/* ---------------------------------------------------------------------------- draws */

/* Particles of component k in the order of the components, as many as its weight says; their means and covariances. */
static void draws_have_the_moments_of_their_component(void **state)
{
    enum { N = 70000, LD = 40 };
    laws q = mixture(3);
    double mean[3][DIM] = {{0}}, second[3][DIM][DIM] = {{{0}}}, z[DIM * LD], chi[8 * LD], x[DIM * LD], stretch[LD];
    int count[3] = {0};
    for (int first = 0; first < N; first += LD) {
        sosmc_batch b = {.dim = DIM, .n = LD, .ld = LD, .first = first}, of_chi = b;
        sosmc_normals((sosmc_rng){.seed = 7}, &b, z);
        of_chi.dim = 8;
        sosmc_normals((sosmc_rng){.seed = 7, .stream = 1}, &of_chi, chi);
        for (int i = 0; i < LD; i++) {
            double square = 0, dof = q.part[sosmc_i_law_of(&q, first + i, N)].dof;
            for (int l = 0; l < dof; l++) square += chi[l * LD + i] * chi[l * LD + i];
            stretch[i] = dof > 0 ? sqrt(dof / square) : 1;
        }
        sosmc_i_laws_draw(&q, &b, N, z, stretch, x);
        for (int i = 0; i < LD; i++) {
            int k = sosmc_i_law_of(&q, first + i, N);
            count[k]++;
            for (int j = 0; j < DIM; j++) {
                mean[k][j] += x[j * LD + i];
                for (int l = 0; l < DIM; l++)
                    second[k][j][l] += (x[j * LD + i] - mean_of[k][j]) * (x[l * LD + i] - mean_of[k][l]);
            }
        }
    }
    for (int k = 0; k < 3; k++) {
        double n = count[k], dof = dof_of[k], wider = dof > 0 ? dof / (dof - 2) : 1;
        assert_int_equal(count[k], (int)(N * weight_of[k] / 3.5 + 0.5));
        for (int j = 0; j < DIM; j++) {
            double variance[DIM] = {0};
            for (int l = 0; l < DIM; l++)
                for (int r = 0; r < DIM; r++) variance[l] += wider * L_of[k][l * DIM + r] * L_of[k][l * DIM + r];
            assert_near(mean[k][j] / n, mean_of[k][j], 5 * sqrt(variance[j] / n));
            for (int l = 0; l < DIM; l++) {
                double expect = 0;
                for (int r = 0; r < DIM; r++) expect += wider * L_of[k][j * DIM + r] * L_of[k][l * DIM + r];
                /* four degrees of freedom have no fourth moment: a tenth is what 40000 draws tell */
                double scale = sqrt(variance[j] * variance[l]);
                assert_near(second[k][j][l] / n, expect, scale * (dof == 4 ? 0.1 : 5 * sqrt(8 / n)));
            }
        }
    }
    sosmc_i_laws_free(&q);
}

/* ---------------------------------------------------------------------------- moves */

/* Two tiles with what their particles carry. */
typedef struct {
    double x[TILE], gU[TILE], gq[TILE], U[MOST], Lq[MOST];
} carried;

static tile_points points_of(carried *c)
{
    return (tile_points){.x = c->x, .gU = c->gU, .gq = c->gq, .U = c->U, .Lq = c->Lq};
}

static void fill(carried *c, int n, int ld, uint32_t stream)
{
    sosmc_batch b = {.dim = DIM, .n = n, .ld = ld};
    memset(c, 0, sizeof *c);
    sosmc_normals((sosmc_rng){.seed = 3, .stream = stream}, &b, c->x);
    sosmc_normals((sosmc_rng){.seed = 4, .stream = stream}, &b, c->gU);
    sosmc_normals((sosmc_rng){.seed = 5, .stream = stream}, &b, c->gq);
    sosmc_uniforms((sosmc_rng){.seed = 6, .stream = stream}, 0, &b, c->U);
    sosmc_uniforms((sosmc_rng){.seed = 7, .stream = stream}, 0, &b, c->Lq);
}

static double blend(double t, double U, double Lq) { return t < 1 ? t * U + (1 - t) * Lq : U; }

/* -log of the density of the proposal `to` from `from`, whose gradient is g: a normal law with precision C C' / (2h). */
static double proposal(const double *C, double h, const double *from, const double *g, const double *to)
{
    double drift[DIM], u[DIM] = {0}, sum = 0;
    memcpy(drift, g, sizeof drift);
    sosmc_i_cholesky_solve(DIM, C, drift);
    for (int l = 0; l < DIM; l++)
        for (int j = l; j < DIM; j++) u[l] += C[j * DIM + l] * (to[j] - from[j] + h * drift[j]);
    for (int j = 0; j < DIM; j++) sum += u[j] * u[j] / (4 * h);
    return sum;
}

/* One particle's coordinates and the blended gradient there. */
static void take(const carried *c, double t, int ld, int i, double *x, double *g)
{
    for (int j = 0; j < DIM; j++) {
        x[j] = c->x[j * ld + i];
        g[j] = blend(t, c->gU[j * ld + i], c->gq[j * ld + i]);
    }
}

static void moves_follow_metropolis_and_hastings(void **state)
{
    static carried at, was, to;
    const double *C = L_of[0], inverse[DIM] = {1 / C[0], 1 / C[4], 1 / C[8]}, t_of[2] = {0.3, 1};
    double z[TILE], step[TILE], g[TILE], u[MOST] = {0}, accepted[MOST], work[LAW_WORK * DIM];
    for (int s = 0; s < 2 * SHAPES; s++) {
        int n = shape[s / 2].n, ld = shape[s / 2].ld, moved = 0;
        tile_move m = {.C = {.dim = DIM, .factor = C, .inverse = inverse}, .gradient = 1, .t = t_of[s % 2], .h = 0.2};
        sosmc_batch b = {.dim = DIM, .n = n, .ld = ld};
        const tile_code *code = sosmc_i_tile_code(NULL);
        fill(&at, n, ld, 0);
        fill(&to, n, ld, 1);
        was = at;
        tile_points from = points_of(&at), there = points_of(&to);
        sosmc_normals((sosmc_rng){.seed = 8}, &b, z);
        sosmc_uniforms((sosmc_rng){.seed = 9}, 0, &b, u);
        memcpy(step, z, sizeof step);
        code->propose(&m, n, ld, &from, step, g, to.x, work);
        for (int i = 0; i < n; i++) { /* y = x - h (C C')^-1 gradient + sqrt(2h) C^-T z */
            double x[DIM], slope[DIM], noise[DIM];
            take(&was, m.t, ld, i, x, slope);
            for (int j = 0; j < DIM; j++) noise[j] = sqrt(2 * m.h) * z[j * ld + i];
            sosmc_i_cholesky_solve(DIM, C, slope);
            sosmc_i_solve_lower_transposed(DIM, C, noise);
            for (int j = 0; j < DIM; j++) assert_close(to.x[j * ld + i], x[j] - m.h * slope[j] + noise[j], 1e-13);
        }
        if (n > 9) {
            to.U[2] = INFINITY;
            to.U[5] = NAN;
            to.U[9] = -INFINITY;
            to.gU[3] = NAN;
            at.U[4] = was.U[4] = INFINITY; /* a particle outside the support takes every place inside */
        }
        code->decide(&m, n, ld, &from, &there, step, g, u, accepted, work);
        for (int i = 0; i < n; i++) {
            double x[DIM], y[DIM], gx[DIM], gy[DIM];
            take(&was, m.t, ld, i, x, gx);
            take(&to, m.t, ld, i, y, gy);
            double ratio = blend(m.t, was.U[i], was.Lq[i]) - blend(m.t, to.U[i], to.Lq[i]) -
                           proposal(C, m.h, y, gy, x) + proposal(C, m.h, x, gx, y);
            int never = n > 9 && (i == 2 || i == 3 || i == 5 || i == 9);
            assert_near(accepted[i], never ? 0 : ratio > 0 ? 1 : exp(ratio), 1e-12);
            const carried *now = u[i] <= accepted[i] ? &to : &was;
            moved += now == &to;
            assert_true(at.U[i] == now->U[i] && at.Lq[i] == now->Lq[i]);
            for (int j = 0; j < DIM; j++) {
                int here = j * ld + i;
                assert_true(at.x[here] == now->x[here] && at.gU[here] == now->gU[here] && at.gq[here] == now->gq[here]);
            }
        }
        if (n > 9) assert_true(moved > 0 && moved < n);
        for (int i = n; i < ld; i++)
            for (int j = 0; j < DIM; j++) assert_true(at.x[j * ld + i] == was.x[j * ld + i]);
    }
}

/* Without gradients it is a random walk, and the ratio is that of the densities. */
static void walks_need_no_gradient(void **state)
{
    static carried at, was, to;
    const double C[DIM] = {0.5, 2, 1.25}, inverse[DIM] = {2, 0.5, 0.8};
    const int n = 45, ld = 48;
    double z[TILE], step[TILE], u[MOST] = {0}, accepted[MOST], work[LAW_WORK * DIM];
    tile_move m = {.C = {.dim = DIM, .diagonal = 1, .factor = C, .inverse = inverse}, .t = 0.6, .h = 0.1};
    sosmc_batch b = {.dim = DIM, .n = n, .ld = ld};
    fill(&at, n, ld, 0);
    fill(&to, n, ld, 1);
    was = at;
    tile_points from = points_of(&at), there = points_of(&to);
    from.gU = from.gq = there.gU = there.gq = NULL;
    sosmc_normals((sosmc_rng){.seed = 8}, &b, z);
    sosmc_uniforms((sosmc_rng){.seed = 9}, 0, &b, u);
    memcpy(step, z, sizeof step);
    sosmc_i_tile_code(NULL)->propose(&m, n, ld, &from, step, NULL, to.x, work);
    sosmc_i_tile_code(NULL)->decide(&m, n, ld, &from, &there, step, NULL, u, accepted, work);
    for (int i = 0; i < n; i++) {
        double ratio = blend(m.t, was.U[i], was.Lq[i]) - blend(m.t, to.U[i], to.Lq[i]);
        assert_near(accepted[i], ratio > 0 ? 1 : exp(ratio), 1e-13);
        for (int j = 0; j < DIM; j++) {
            double x = was.x[j * ld + i], y = x + sqrt(2 * m.h) * z[j * ld + i] / C[j];
            assert_close(at.x[j * ld + i], u[i] <= accepted[i] ? y : x, 1e-14);
        }
    }
}

/* ---------------------------------------------------------------------------- weights */

/* The sums do not depend on the level, and neither padding nor a weight of zero spoils them. */
static void sums_of_weights(void **state)
{
    enum { N = 45 };
    double w[N], d[N], most = -INFINITY, first = 0, second = 0, sums[2], other[2];
    for (int i = 0; i < N; i++) {
        w[i] = i == 7 ? 0 : 0.01 * (i + 1);
        d[i] = i == 7 ? -INFINITY : -5000 - 0.3 * i;
        most = fmax(most, d[i]);
    }
    for (int i = 0; i < N; i++) {
        double v = exp(0.4 * (d[i] - most));
        first += w[i] * v;
        second += w[i] * v * v;
    }
    sosmc_i_tile_code(sosmc_simd_named("plain"))->spread(N, w, d, 0.4, most, sums);
    assert_close(sums[0], first, 1e-13);
    assert_close(sums[1], second, 1e-13);
    for (int v = 0; v < 3; v++) {
        const sosmc_simd *simd = sosmc_simd_named(level_name[v]);
        if (!simd) continue;
        sosmc_i_tile_code(simd)->spread(N, w, d, 0.4, most, other);
        assert_memory_equal(other, sums, sizeof sums);
    }
}

/* Quantiles of a Pareto law have its index, in whatever order they come; the estimate leans towards 1/2 by 10 / (m + 10). */
static void pareto_index(void **state)
{
    enum { N = 4000 };
    static double logw[N], mixed[N], work[2 * N];
    static const double index[3] = {0.2, 0.5, 0.9};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N; i++) logw[i] = -index[k] * log((N - i - 0.5) / N);
        for (int i = 0; i < N; i++) mixed[i] = logw[(i * 1777LL) % N];
        double m = floor(3 * sqrt(N)), khat = sosmc_i_khat(N, logw, work);
        assert_near(khat, (m * index[k] + 5) / (m + 10), 0.05);
        assert_true(sosmc_i_khat(N, mixed, work) == khat);
    }
    for (int i = 0; i < N; i++) logw[i] = 3; /* equal ones have no tail */
    assert_true(isnan(sosmc_i_khat(N, logw, work)));
}

/* ---------------------------------------------------------------------------- a mixture that is fitted */

/* Points of three far normal laws with equal weights: so many components find them, their weights and their widths. */
static void a_mixture_finds_its_parts(void **state)
{
    enum { POINTS = 3000, PARTS = 3 };
    static const double centre[PARTS][DIM] = {{-9, 0, 3}, {0, 8, 0}, {9, -4, -6}};
    double *x = malloc((size_t)POINTS * DIM * sizeof *x);
    laws q = {.dim = DIM};
    assert_non_null(x);
    for (int i = 0; i < POINTS; i++) {
        sosmc_batch b = {.simd = sosmc_simd_best(), .dim = DIM, .n = 1, .ld = 1, .first = i};
        sosmc_normals((sosmc_rng){.seed = 3, .stream = SOSMC_STREAM_USER}, &b, x + (ptrdiff_t)i * DIM);
        for (int j = 0; j < DIM; j++) x[i * DIM + j] = centre[i % PARTS][j] + 0.5 * x[i * DIM + j];
    }
    assert_int_equal(sosmc_i_fit_mixture(&q, PARTS, 1, 1, POINTS, x, NULL), 0);
    sosmc_i_laws_close(&q);
    assert_int_equal(q.count, PARTS);
    for (int k = 0; k < PARTS; k++) {
        const law *a = &q.part[k];
        int nearest = 0;
        for (int c = 1; c < PARTS; c++)
            if (fabs(a->mean[0] - centre[c][0]) < fabs(a->mean[0] - centre[nearest][0])) nearest = c;
        assert_true(fabs(a->weight - 1.0 / PARTS) < 0.01);
        for (int j = 0; j < DIM; j++) {
            assert_true(fabs(a->mean[j] - centre[nearest][j]) < 0.08);
            assert_true(fabs(a->L[j * DIM + j] - 0.5) < 0.05);
        }
    }
    sosmc_i_laws_free(&q);
    /* Weights are heeded, and few points make few components. */
    q = (laws){.dim = DIM};
    double *w = calloc(POINTS, sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < POINTS; i++) w[i] = i % PARTS == 1;
    assert_int_equal(sosmc_i_fit_mixture(&q, PARTS, 1, 1, POINTS, x, w), 0);
    for (int k = 0; k < q.count; k++) assert_true(fabs(q.part[k].mean[1] - 8) < 2);
    sosmc_i_laws_free(&q);
    q = (laws){.dim = DIM};
    assert_int_equal(sosmc_i_fit_mixture(&q, PARTS, 1, 1.2, 30, x, NULL), 0);
    assert_int_equal(q.count, 1);
    sosmc_i_laws_free(&q);
    free(w);
    free(x);
}

/* ---------------------------------------------------------------------------- weights that are taken as they are */

static int bowl_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i] - theta[0];
            U[i] += 0.5 * x * x;
            if (gx) gx[(size_t)j * (size_t)b->ld + (size_t)i] = x;
        }
    return 0;
}

static void good_weights_need_no_tempering(void **state)
{
    static const double one[DIM * DIM] = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                  wide[DIM * DIM] = {1.2, 0, 0, 0, 1.2, 0, 0, 0, 1.2};
    static const double origin[DIM], near[1] = {0.3}, far[1] = {6};
    double identity[DIM * DIM];
    sosmc_model m = {.dim_x = DIM, .dim_theta = 1, .energy = bowl_energy};
    preconditioner c = {.dim = DIM, .gradient = 1, .C = identity};
    laws q = {.dim = DIM};
    pass_cloud p;
    memcpy(identity, one, sizeof one);
    assert_int_equal(sosmc_i_laws_add(&q, 1, 0, origin, wide), 0);
    sosmc_i_laws_close(&q);
    pass_task task = {.model = &m, .theta = near, .q = &q, .c = &c, .particles = 4000, .moves = 1, .plain = 0.5};
    assert_int_equal(sosmc_i_pass(&task, &p), SOSMC_OK);
    double exact = 1.5 * 1.8378770664093454836;
    assert_true(p.arrived == 1 && p.temperatures == 0 && p.khat <= 0.5);
    assert_true(fabs(p.log_z - exact) < 4 * sosmc_i_pass_error(&p, NULL, 1) && sosmc_i_pass_error(&p, NULL, 1) < 0.05);
    sosmc_i_pass_free(&p);
    task.theta = far; /* these would not do: tempered, or given up */
    assert_int_equal(sosmc_i_pass(&task, &p), SOSMC_OK);
    assert_true(p.arrived == 1 && p.temperatures > 1 && p.khat > 0.5);
    assert_true(fabs(p.log_z - exact) < 4 * sosmc_i_pass_error(&p, NULL, 1));
    sosmc_i_pass_free(&p);
    task.only_plain = 1;
    assert_int_equal(sosmc_i_pass(&task, &p), SOSMC_OK);
    assert_true(p.arrived < 1);
    sosmc_i_pass_free(&p);
    task.theta = near;
    task.plain = task.only_plain = 0;
    assert_int_equal(sosmc_i_pass(&task, &p), SOSMC_OK);
    assert_true(p.temperatures > 0);
    sosmc_i_pass_free(&p);
    sosmc_i_laws_free(&q);
}

/* ---------------------------------------------------------------------------- descents */

/* A bowl far above zero, in single precision: near its bottom U no longer shows what a step gains. */
static int bowl(const void *self, const double *at, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) {
        float sum = 100;
        for (int j = 0; j < b->dim; j++) {
            float x = (float)b->x[(size_t)j * (size_t)b->ld + (size_t)i], width = (float)(1 + j);
            sum += 0.05f * x * x * width + 0.01f * x * x * x * x;
            if (gx) gx[(size_t)j * (size_t)b->ld + (size_t)i] = 0.1f * x * width + 0.04f * x * x * x;
        }
        U[i] = sum;
    }
    return 0;
}

static int no_contraction(const void *self, const double *at, const sosmc_batch *b, const double *c, double *g)
{
    return 0;
}

static void a_descent_ends_where_rounding_hides_the_rest(void **state)
{
    const sosmc_model m = {
        .dim_x = DIM, .dim_theta = 1, .rounding = 1e-7, .energy = bowl, .grad_theta = no_contraction};
    double unit[DIM] = {1, 1, 1}, theta[1] = {0};
    preconditioner c = {.dim = DIM, .diagonal = 1, .C = unit};
    sosmc_status status;
    double U;
    descent d;
    assert_int_equal(sosmc_i_descent_open(&d, &m, theta), SOSMC_OK);
    d.c = &c;
    for (int j = 0; j < DIM; j++) d.x[j] = 3 - 2 * j;
    assert_int_equal(sosmc_i_descend(&d, 100, &U, &status), 0);
    assert_int_equal(status, SOSMC_OK);
    for (int j = 0; j < DIM; j++) assert_true(fabs(d.x[j]) < 0.05);
    assert_true(d.evaluations < 30); /* halvings that could not succeed would add 30 more */
    sosmc_i_descent_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(densities_follow_the_formula),
                                       cmocka_unit_test(bits_depend_on_the_particle_alone),
                                       cmocka_unit_test(gradients_follow_differences),
                                       cmocka_unit_test(diagonals_are_factors),
                                       cmocka_unit_test(densities_are_normalised),
                                       cmocka_unit_test(tails),
                                       cmocka_unit_test(draws_have_the_moments_of_their_component),
                                       cmocka_unit_test(moves_follow_metropolis_and_hastings),
                                       cmocka_unit_test(walks_need_no_gradient),
                                       cmocka_unit_test(sums_of_weights),
                                       cmocka_unit_test(pareto_index),
                                       cmocka_unit_test(a_mixture_finds_its_parts),
                                       cmocka_unit_test(good_weights_need_no_tempering),
                                       cmocka_unit_test(a_descent_ends_where_rounding_hides_the_rest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
