/* fuzz_run_file.c: run files, up to the problem that the library would be given. The first line may be a comment with
 * assignments, as --set has them: "#set kernel.step=0.1". What is understood is written out and understood again, the same.
 *
 * Data files are looked for where those of the examples are. What a run file asks for beyond some size is not built: its
 * memory is what its keys say, which is not the reader's fault. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runfile/config.h"
#include "job/network_text.h"
#include "job/problem.h"

enum { MOST = 2000, WIDEST = 40, MOST_PARAMETERS = 20000 };

static int network_is_small(const char *text)
{
    char error[FUZZ_SENTENCE];
    sosmc_network n;
    if (!text || network_parse(text, &n, error, sizeof error)) return 1; /* which is what job_build shall say */
    int64_t parameters = network_parameters(&n);
    network_free(&n);
    return parameters <= MOST_PARAMETERS;
}

static int is_small(const config *c)
{
    int layers = 0;
    const double *width = config_vector(c, "model.hidden", &layers);
    for (int i = 0; i < layers; i++)
        if (width[i] > WIDEST) return 0;
    return config_integer(c, "particles") <= MOST && config_integer(c, "objective.data.points") <= MOST &&
           config_integer(c, "model.inputs") <= WIDEST && network_is_small(config_text(c, "model.layers"));
}

static void build(const config *c)
{
    char error[FUZZ_SENTENCE] = "";
    int io = 0;
    job j;
    if (!is_small(c)) return;
    int status = job_build(&j, c, &io, error, sizeof error);
    fuzz_judge(status, error);
    fuzz_must(status || (j.problem.model.dim_x > 0 && j.problem.model.dim_theta > 0), "a job has a model");
    job_free(&j); /* what a failure leaves, too */
}

/* The resolved file as text; the caller frees. */
static char *resolved(const config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fuzz_must(f && config_write(c, f) == 0 && fclose(f) == 0, "a resolved run file can be written");
    return text;
}

static void write_and_read(const config *c)
{
    char error[FUZZ_SENTENCE] = "", *text = resolved(c);
    config *again = config_parse(text, "again", error, sizeof error);
    fuzz_must(again && config_resolve(again, error, sizeof error) == 0, "a resolved run file can be read");
    char *second = resolved(again);
    fuzz_must(strcmp(text, second) == 0, "and is the same when it is resolved again");
    free(second);
    free(text);
    config_free(again);
}

/* The assignments of a first line "#set A #set B". */
static int assign(config *c, char *line, char *error, size_t room)
{
    int status = 0;
    for (char *at = strstr(line, "#set "); at && !status;) {
        char *next = strstr(at + 5, "#set ");
        if (next) next[-1] = 0;
        status = config_set(c, at + 5, error, room);
        at = next;
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int linked;
    char error[FUZZ_SENTENCE] = "", *line = fuzz_text(data, size);
    line[strcspn(line, "\n")] = 0;
    if (!linked) linked = symlink(FUZZ_SOURCE "/examples/data", fuzz_path("data")) == 0;
    config *c = config_load(fuzz_file("run.yaml", data, size), error, sizeof error);
    int status = !c || assign(c, line, error, sizeof error) || config_resolve(c, error, sizeof error) ? -1 : 0;
    fuzz_judge(status, error);
    if (status == 0) {
        write_and_read(c);
        build(c);
    }
    config_free(c);
    free(line);
    return 0;
}
