/* list.c: every choice of the run file with its one line, from the same table that checks run files. */
#include "list.h"

#include <string.h>

#include "runfile/schema.h"

static void list_of(FILE *out, const char *title, const char *path)
{
    fprintf(out, "%s (%s)\n", title, path);
    for (const schema_choice *c = schema_choices; c->path; c++)
        if (strcmp(c->path, path) == 0) fprintf(out, "  %-22s %s\n", c->name, c->meaning);
    fputc('\n', out);
}

void list_choices(FILE *out)
{
    list_of(out, "models", "model.type");
    list_of(out, "objectives", "objective.type");
    list_of(out, "rewards", "objective.reward.type");
    list_of(out, "initial laws", "init.type");
    list_of(out, "schemes", "scheme.type");
    list_of(out, "kernels", "kernel.type");
    list_of(out, "resampling", "resampling.scheme");
    list_of(out, "optimisers", "optimiser.type");
    list_of(out, "schedules", "optimiser.schedule.type");
    fputs(
        "experiments (sosmc reproduce)\n"
        "  langevin               reward tuning of Langevin processes: four settings, six methods\n"
        "  ebm2d                  energy networks of the plane: reward tuning and two ways of training, scored exactly\n"
        "  mnist                  an energy network of digits: brighter, darker, heavier below\n"
        "  deblurring             photographs under a total-variation prior that tunes itself\n"
        "  theory                 every result of the paper as a numerical statement\n",
        out);
}
