/* bench_formula.c: nanoseconds per particle of rewards typed as formulas beside the same rewards compiled, on one core,
 * best of many short repeats, for each vector level this machine runs. Tiles of 256 particles in two dimensions, as the
 * engine hands them out. Typed gates must reach a quarter of the compiled ones' speed, ratio at most 4, or the program
 * returns 1. */
#include <math.h>
#include <sosmc/models.h>
#include <stdio.h>
#include <time.h>

#include <sosmc/expression.h>

enum { DIM = 2, TILE = 256, TILES = 40, REPEATS = 500 };

static _Alignas(64) double x[TILES][DIM * TILE], s[TILES][TILE], t[TILES][TILE];

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return 1e9 * (double)at.tv_sec + (double)at.tv_nsec;
}

static void once(const sosmc_simd *simd, sosmc_score score, double (*out)[TILE])
{
    sosmc_batch b = {.simd = simd, .dim = DIM, .n = TILE, .ld = TILE};
    for (int k = 0; k < TILES; k++) {
        b.x = x[k];
        (void)score.eval(score.self, &b, out[k]);
    }
}

static double measure(const sosmc_simd *simd, sosmc_score score, double (*out)[TILE])
{
    double best = INFINITY;
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        once(simd, score, out);
        double ns = (now() - start) / (TILES * TILE);
        best = ns < best ? ns : best;
    }
    return best;
}

static double largest_difference(void)
{
    double most = 0;
    for (int k = 0; k < TILES; k++)
        for (int i = 0; i < TILE; i++) most = fmax(most, fabs(s[k][i] - t[k][i]));
    return most;
}

static int compare(const sosmc_simd *simd, const char *name, sosmc_score compiled, const char *text)
{
    char error[200];
    sosmc_expression *f = sosmc_expression_compile(text, DIM, NULL, error, sizeof error);
    if (!f) {
        printf("%s: %s\n", text, error);
        return 1;
    }
    double fast = measure(simd, compiled, s), slow = measure(simd, sosmc_expression_score(f), t);
    printf("%-7s %-12s compiled %6.3f ns   formula %6.3f ns   ratio %5.2f   difference %.1g\n", sosmc_simd_name(simd),
           name, fast, slow, slow / fast, largest_difference());
    sosmc_expression_free(f);
    return slow > 4 * fast;
}

int main(void)
{
    static const char *const levels[] = {"avx512", "avx2", "plain"};
    static const double center[DIM] = {4, 0}, center2[DIM] = {4, 3.8}, normal[DIM] = {1, 2};
    static const double peaks[3 * DIM] = {4, 0, -2, 3.5, -2, -3.5};
    const sosmc_gate hard = {.dim = DIM, .center = center, .tau = 20, .alpha = 1};
    const sosmc_gate smooth = {.dim = DIM, .center = center2, .tau = 20, .lambda = 0.5, .alpha = 0.7};
    const sosmc_peaks multi = {.dim = DIM, .count = 3, .centers = peaks, .tau = 2, .alpha = 1};
    const sosmc_half_plane half = {.dim = DIM, .normal = normal, .offset = 0.5};
    int slow = 0;
    for (int k = 0; k < TILES; k++) {
        sosmc_batch b = {.dim = DIM, .n = TILE, .ld = TILE, .first = (int64_t)k * TILE};
        sosmc_normals((sosmc_rng){.seed = 1, .stream = SOSMC_STREAM_USER}, &b, x[k]);
        for (int i = 0; i < DIM * TILE; i++) x[k][i] *= 3;
    }
    for (int v = 0; v < 3; v++) {
        const sosmc_simd *simd = sosmc_simd_named(levels[v]);
        if (!simd) continue;
        slow += compare(simd, "hard gate", sosmc_gate_reward(&hard), "(x1 >= 0) * exp(-((x1-4)^2 + x2^2)/20)");
        slow += compare(simd, "smooth gate", sosmc_gate_reward(&smooth),
                        "sigmoid(x1/0.5) * exp(-((x1-4)^2 + (x2-3.8)^2)/20) / 0.7");
        (void)compare(simd, "three peaks", sosmc_peaks_reward(&multi),
                      "exp(-min((x1-4)^2 + x2^2, (x1+2)^2 + (x2-3.5)^2, (x1+2)^2 + (x2+3.5)^2)/2)");
        (void)compare(simd, "half plane", sosmc_half_plane_reward(&half), "x1 + 2*x2 > 0.5");
    }
    return slow > 0;
}
