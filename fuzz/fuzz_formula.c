/* fuzz_formula.c: rewards typed by a user, over points and over pictures. What compiles is evaluated at every vector level,
 * which must give the same bits. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/expression.h>

enum { DIM = 12, N = 9, LD = 16 };

static void evaluate(const sosmc_expression *f, const char *level, double s[N])
{
    _Alignas(64) double x[DIM * LD];
    const sosmc_simd *simd = sosmc_simd_named(level);
    if (!simd) simd = sosmc_simd_best();
    for (int i = 0; i < DIM * LD; i++) x[i] = ldexp((double)(i * 37 % 101) - 50, i % 7 - 4);
    sosmc_batch b = {.x = x, .dim = DIM, .n = N, .ld = LD, .simd = simd};
    sosmc_score score = sosmc_expression_score(f);
    fuzz_must(score.eval(score.self, &b, s) == 0, "a formula that compiles can be evaluated");
}

static int same(double a, double b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const double mask[DIM] = {1, -1, 0.5, 0, 0, 0, 0, 0, -0.25, 0, 0, 1};
    static const sosmc_picture_shape picture = {.channels = 1, .rows = 3, .columns = 4, .clamp = 1, .mask = mask};
    static const char *const levels[] = {"plain", "avx2", "avx512"};
    char error[FUZZ_SENTENCE] = "";
    char *text = fuzz_text(data, size);
    for (int pictures = 0; pictures < 2; pictures++) {
        sosmc_expression *f = pictures ? sosmc_expression_compile(text, DIM, &picture, error, sizeof error)
                                       : sosmc_expression_compile(text, DIM, NULL, error, sizeof error);
        double s[3][N];
        fuzz_judge(f ? 0 : -1, error);
        for (int i = 0; f && i < 3; i++) {
            evaluate(f, levels[i], s[i]);
            for (int k = 0; k < N; k++)
                fuzz_must(same(s[i][k], s[0][k]), "a formula has the same bits at every vector level");
        }
        sosmc_expression_free(f);
    }
    free(text);
    return 0;
}
