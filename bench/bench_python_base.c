/* bench_python_base.c: what an iteration costs when the callables of the model do nothing: the engine alone, which bench/python
 * compares empty Python callables with. ULA, weighted, marginal likelihood, two coordinates; all particles one batch, as a Python
 * model has them, and the usual batches of 64 beside it. Processor time, the best of many blocks.
 *
 *     build/bench/python_base            a table
 *     build/bench/python_base --json     [{"particles": 64, "tile": 64, "microseconds": ...}, ...] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sosmc/sosmc.h>

enum { DIM = 2, BLOCKS = 40, ONE_BATCH = 1 << 30 };

/* Memory that the engine gave starts as zeros, and nobody writes to it: U, gx and the gradient stay zero. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx) { return 0; }
static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return 0;
}

static double processor_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sosmc *open_engine(int particles, int tile)
{
    sosmc_problem p = {
        .model = {.dim_x = DIM, .dim_theta = DIM, .tile = tile, .energy = energy, .grad_theta = grad_theta},
        .objective = sosmc_mmle(),
        .init = sosmc_standard_normal()};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(particles);
    cfg.kernel = sosmc_ula(0.1);
    cfg.judge = 0;
    sosmc *s = NULL;
    if (sosmc_create(&s, &p, &cfg) == SOSMC_OK) return s;
    fprintf(stderr, "%s\n", sosmc_message(s));
    exit(1);
}

/* Microseconds per iteration. */
static double measure(int particles, int tile)
{
    sosmc *s = open_engine(particles, tile);
    int64_t iterations = 4000000 / particles / DIM;
    double best = INFINITY;
    for (int i = 0; i < BLOCKS; i++) {
        double begun = processor_seconds();
        if (sosmc_run(s, iterations, NULL, NULL) != SOSMC_OK) {
            fprintf(stderr, "%s\n", sosmc_message(s));
            exit(1);
        }
        best = fmin(best, (processor_seconds() - begun) / (double)iterations);
    }
    sosmc_free(s);
    return 1e6 * best;
}

int main(int argc, char **argv)
{
    static const struct {
        int particles, tile;
    } rows[] = {{64, ONE_BATCH}, {1000, ONE_BATCH}, {1000, 64}, {10000, ONE_BATCH}, {10000, 64}};
    int json = argc > 1 && strcmp(argv[1], "--json") == 0, n = sizeof rows / sizeof *rows;
    puts(json ? "[" : "particles      batch   us per iteration");
    for (int i = 0; i < n; i++) {
        int tile = rows[i].tile < rows[i].particles ? rows[i].tile : rows[i].particles;
        double us = measure(rows[i].particles, rows[i].tile);
        if (json)
            printf("{\"particles\": %d, \"tile\": %d, \"microseconds\": %.4f}%s\n", rows[i].particles, tile, us,
                   i + 1 < n ? "," : "");
        else
            printf("%9d  %9d  %17.2f\n", rows[i].particles, tile, us);
    }
    if (json) puts("]");
    return 0;
}
