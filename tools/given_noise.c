/* given_noise.c: the program `sosmc` with noise from elsewhere (tools/mnist-rerun.sh), to compare a run with one of another
 * program draw by draw. Linked with --wrap=sosmc_normals.
 *
 * The file that SOSMC_NOISE names holds floats: for each iteration, for each of SOSMC_NOISE_PARTICLES particles, one per
 * coordinate. Kernels take their normals there; everything else draws as always. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sosmc/sosmc.h>

enum { MOST = 4096 }; /* coordinates */

void __real_sosmc_normals(sosmc_rng rng, const sosmc_batch *b, double *z); /* NOLINT: names are the linker's */
void __wrap_sosmc_normals(sosmc_rng rng, const sosmc_batch *b, double *z); /* NOLINT */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int file = -1;
static int64_t particles;

static void open_file(void)
{
    const char *path = getenv("SOSMC_NOISE"), *count = getenv("SOSMC_NOISE_PARTICLES");
    particles = count ? strtoll(count, NULL, 10) : 0;
    file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0 && particles > 0) return;
    (void)fprintf(stderr, "SOSMC_NOISE is '%s' and SOSMC_NOISE_PARTICLES '%s'; expected a file and a number\n",
                  path ? path : "", count ? count : "");
    exit(2);
}

void __wrap_sosmc_normals(sosmc_rng rng, const sosmc_batch *b, double *z) /* NOLINT */
{
    float row[MOST];
    size_t dim = (size_t)b->dim, bytes = dim * sizeof *row;
    if (rng.stream != SOSMC_STREAM_MOVE || dim > MOST) {
        __real_sosmc_normals(rng, b, z);
        return;
    }
    (void)pthread_once(&once, open_file);
    for (int i = 0; i < b->n; i++) {
        int64_t at = (int64_t)rng.step * particles + b->first + i;
        if (pread(file, row, bytes, (off_t)at * (off_t)bytes) != (ssize_t)bytes) {
            (void)fprintf(stderr, "the file of noise ends before iteration %llu\n", (unsigned long long)rng.step);
            exit(4);
        }
        for (size_t j = 0; j < dim; j++) z[j * (size_t)b->ld + (size_t)i] = (double)row[j];
    }
}
