/* demo.c: `sosmc demo`: three runs, one page, three lines.
 *
 *     OUT/demo.html      the page; OUT/likelihood, OUT/reward and OUT/photograph are the run directories behind it
 *
 * Every call begins the runs anew: together they take seconds. */
#include "demo.h"

#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

#include "demo_inside.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "files/share.h"

enum { SENTENCE = 1024 };

const char demo_text[] =
    "sosmc demo [--out DIR] [--threads T] [--quick] [--quiet]\n"
    "\n"
    "Shows what the program does, in half a minute and on one page, DIR/demo.html: a marginal likelihood with its table of\n"
    "estimates beside the exact ones, a reward tuning with its exact optimum, and a photograph sharpened, with the map of\n"
    "what every pixel's error was said to be and of what it was. The runs behind it are in DIR/likelihood, DIR/reward and\n"
    "DIR/photograph; those of an earlier demo there are replaced.\n"
    "\n"
    "  --out DIR             where everything goes (default: demo)\n"
    "  --threads T           threads of each run (default: as many as there are cores); the results do not depend on it\n"
    "  --quick               smaller sizes: a few seconds\n"
    "  --quiet               says nothing unless something fails\n";

enum { FLAG_OUT = 256, FLAG_THREADS };

static int take_threads(demo *d, const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (!*text || *end || n < 1 || n > 1024)
        return complain(-1, "--threads is '%s'; expected a whole number from 1 to 1024", text);
    d->threads = (int)n;
    return 0;
}

/* 0: go on; otherwise *code is what the program exits with. */
static int read_flags(demo *d, int argc, char **argv, int *code)
{
    const struct option known[] = {{"out", 1, NULL, FLAG_OUT}, {"threads", 1, NULL, FLAG_THREADS},
                                   {"quick", 0, &d->quick, 1}, {"quiet", 0, &d->quiet, 1},
                                   {"help", 0, NULL, 'h'},     {0}};
    int option;
    *code = SOSMC_EXIT_USAGE;
    optind = 0; /* begin anew, whoever parsed before */
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == '?' || (option == FLAG_THREADS && take_threads(d, optarg))) return -1;
        if (option == FLAG_OUT) d->shown = optarg;
        if (option != 'h') continue;
        *code = fputs(demo_text, stdout) < 0 ? SOSMC_EXIT_IO : SOSMC_EXIT_OK;
        return -1;
    }
    if (argc != optind) return complain(-1, "demo takes flags alone, found '%s'; see 'sosmc help demo'", argv[optind]);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (d->threads == 0) d->threads = cores > 0 ? (int)cores : 1;
    return 0;
}

static int run_parts(demo *d)
{
    static const struct {
        const char *what;
        int (*run)(demo *);
    } part[] = {{"a marginal likelihood", demo_run_likelihood},
                {"a reward tuning", demo_run_reward},
                {"a photograph", demo_run_photograph}};
    const int parts = sizeof part / sizeof *part;
    for (int i = 0; i < parts; i++) {
        if (!d->quiet) (void)fprintf(stderr, "%d of %d: %s\n", i + 1, parts, part[i].what);
        int code = part[i].run(d);
        if (interrupt_requested())
            return complain(SOSMC_EXIT_INTERRUPTED, "the demo was stopped; the same command begins it anew");
        if (code != SOSMC_EXIT_OK) return code;
    }
    return SOSMC_EXIT_OK;
}

int command_demo(int argc, char **argv)
{
    char error[SENTENCE];
    int code;
    demo *d = calloc(1, sizeof *d);
    if (!d) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    d->shown = "demo";
    if (read_flags(d, argc, argv, &code) == 0) {
        double begun = monotonic_seconds();
        code = share_make_folder(d->shown, d->out, error, sizeof error) ? complain(SOSMC_EXIT_IO, "%s", error)
                                                                        : SOSMC_EXIT_OK;
        if (code == SOSMC_EXIT_OK) code = run_parts(d);
        d->seconds = monotonic_seconds() - begun;
        if (code == SOSMC_EXIT_OK && demo_write_page(d, error, sizeof error))
            code = complain(SOSMC_EXIT_IO, "%s", error);
        if (code == SOSMC_EXIT_OK && !d->quiet) demo_print(d, stdout);
    }
    free(d);
    return code;
}
