/* launcher.c: see launcher.h. A launcher is known by the variables that it sets for the processes it starts.
 *
 * Slurm needs care: SLURM_NTASKS is also set in a batch script, which runs once. Only srun sets SLURM_STEP_NUM_TASKS, and only a
 * process of srun has a rank above 0. */
#include "launcher.h"

#include <stdlib.h>

#include "say.h"

static long number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : -1;
}

/* How many processes srun started, or -1. */
static long slurm_size(void)
{
    long step = number_of("SLURM_STEP_NUM_TASKS");
    if (step > 0) return step;
    return getenv("SLURM_STEP_ID") || number_of("SLURM_PROCID") > 0 ? number_of("SLURM_NTASKS") : -1;
}

int launcher_refuse(void)
{
    static const struct {
        const char *program, *variable;
    } rows[] = {{"mpirun", "OMPI_COMM_WORLD_SIZE"}, {"mpirun", "PMI_SIZE"}, {"mpirun", "MV2_COMM_WORLD_SIZE"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (number_of(rows[i].variable) > 1)
            return complain(-1,
                            "%s started this command %ld times (%s), and one run cannot be shared out to several "
                            "processes; start it once, with --threads, or without that variable in its environment",
                            rows[i].program, number_of(rows[i].variable), rows[i].variable);
    if (slurm_size() > 1)
        return complain(
            -1,
            "srun started this command %ld times (SLURM_STEP_NUM_TASKS, SLURM_NTASKS), and one run cannot be "
            "shared out to several processes; start it once, with --threads, or without these variables in "
            "its environment",
            slurm_size());
    return 0;
}
