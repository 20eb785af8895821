/* test_check_models.c: `sosmc check` of models that are wrong: a dU/dx, by much or by little, a grad_theta, scores. Each is
 * refused in a line that names it, with the exit code 3; the same model without the fault passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "commands/check.h"
#include "job/problem.h"
#include "runtext.h"

/* U = |x - theta|^2 / 2 + |theta|^2 / 2 in the plane, with a fault on demand. */
typedef enum { NOTHING, WRONG_GX, WRONG_GRAD_THETA, WRONG_SCORES, SLIGHTLY_WRONG_GX } fault;
static fault now;

static int energy(const void *self, const double *t, const sosmc_batch *b, double *U, double *gx)
{
    double factor = now == WRONG_GX ? -1 : now == SLIGHTLY_WRONG_GX ? 1.02 : 1;
    for (int i = 0; i < b->n; i++) {
        U[i] = 0.5 * (t[0] * t[0] + t[1] * t[1]);
        for (int j = 0; j < 2; j++) {
            double off = b->x[j * b->ld + i] - t[j];
            U[i] += 0.5 * off * off;
            if (gx) gx[j * b->ld + i] = factor * off;
        }
    }
    return 0;
}

static int grad_theta(const void *self, const double *t, const sosmc_batch *b, const double *c, double *g)
{
    for (int i = 0; i < b->n; i++)
        for (int j = 0; j < 2; j++) g[j] += c[i] * (t[j] * (now != WRONG_GRAD_THETA) - (b->x[j * b->ld + i] - t[j]));
    return 0;
}

static int scores(const void *self, const double *t, const sosmc_batch *b, double *D)
{
    for (int i = 0; i < b->n; i++)
        for (int j = 0; j < 2; j++)
            D[j * b->ld + i] = (now == WRONG_SCORES ? 2 : 1) * (t[j] - (b->x[j * b->ld + i] - t[j]));
    return 0;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    return 0;
}

static int checked(const char *settings, char *said, size_t room)
{
    static const double theta0[2] = {0.3, -0.2};
    const sosmc_model model = {
        .dim_x = 2, .dim_theta = 2, .energy = energy, .grad_theta = grad_theta, .scores = scores};
    const sosmc_source init = {.draw = draw};
    const job_own own = {.model = &model, .theta0 = theta0, .init = &init};
    char text[512], *words = NULL;
    size_t size = 0;
    (void)snprintf(text, sizeof text,
                   "model: {type: own, dim_x: 2, dim_theta: 2}\nobjective: mmle\ninit: {type: own}\n%s", settings);
    config *c = runtext_resolved(text);
    config_lend(c, &own);
    FILE *out = open_memstream(&words, &size);
    assert_non_null(out);
    int code = check_job(c, out);
    assert_int_equal(fclose(out), 0);
    (void)snprintf(said, room, "%s", words);
    free(words);
    config_free(c);
    return code;
}

static const char chosen[] = "kernel: {type: ula, step: 0.1}\nparticles: 200\niterations: 20\n";

static void wrong_models_are_refused(void **state)
{
    static const struct {
        fault f;
        const char *settings;
        int code;
        const char *line;
    } rows[] = {
        {NOTHING, chosen, 0, "ok    gradient in x"},
        {NOTHING, "", 0, "ok    gradient in x"},
        {WRONG_GX, chosen, 3, "FAIL  gradient in x"},
        {SLIGHTLY_WRONG_GX, chosen, 3, "FAIL  gradient in x"},
        {WRONG_GX, "", 3, "FAIL  gradient in x"},
        {WRONG_GRAD_THETA, chosen, 3, "FAIL  gradient in theta"},
        {WRONG_GRAD_THETA, "", 3, "FAIL  gradient in theta"},
        {WRONG_SCORES, chosen, 3, "FAIL  scores"},
        {WRONG_SCORES, "", 3, "FAIL  scores"},
    };
    char said[8192];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        now = rows[i].f;
        int code = checked(rows[i].settings, said, sizeof said);
        if (code != rows[i].code || !strstr(said, rows[i].line)) fail_msg("row %zu: %d, %s", i, code, said);
        if (code && !strstr(said, "of the checks failed")) fail_msg("row %zu does not conclude: %s", i, said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_models_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
