/* demo.c: `sosmc demo`: three runs, one page, three lines.
 *
 *     OUT/demo.html      the page; OUT/likelihood, OUT/reward and OUT/photograph are the run directories behind it
 *
 * Every call begins the runs anew: together they take seconds. */
#include "demo.h"

#include <stdlib.h>
#include <unistd.h>

#include "demo_inside.h"
#include "files/share.h"
#include "run/place.h"
#include "terminal/flags.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "terminal/say_lock.h"

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

/* 0: go on; otherwise *code is what the program exits with. */
static int read_flags(demo *d, int argc, char **argv, int *code)
{
    enum { OUT, THREADS, QUICK, QUIET, HELP, FLAGS };
    static const flag_row table[FLAGS] = {[OUT] = {.name = "out", .takes_value = 1},
                                          [THREADS] = {.name = "threads", .like = "threads", .takes_value = 1},
                                          [QUICK] = {.name = "quick"},
                                          [QUIET] = {.name = "quiet"},
                                          [HELP] = {.name = "help"}};
    flag_values v;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, demo_text, code)) return -1;
    if (v.operand) return complain(-1, "demo takes flags alone, found '%s'; see 'sosmc help demo'", v.operand);
    d->shown = flag_text(&v, OUT, d->shown);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    d->threads = (int)flag_whole(&v, THREADS, cores > 0 ? cores : 1);
    d->quick = flag_given(&v, QUICK);
    d->quiet = flag_given(&v, QUIET);
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

/* The runs of an earlier demo are replaced, but nothing that no run of ours made. */
static int refuse_foreign(const demo *d)
{
    static const char *const parts[] = {DEMO_LIKELIHOOD, DEMO_REWARD, DEMO_PHOTOGRAPH};
    char dir[FILES_PATH], error[SENTENCE];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const place there = {.dir = dir};
        if (files_join(dir, d->out, parts[i], error, sizeof error) || place_refuse_foreign(&there, error, sizeof error))
            return complain(SOSMC_EXIT_USAGE, "%s", error);
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
        run_lock lock = {.held = 0};
        if (code == SOSMC_EXIT_OK) code = say_lock(&lock, d->out);
        if (code == SOSMC_EXIT_OK) code = refuse_foreign(d);
        if (code == SOSMC_EXIT_OK) code = run_parts(d);
        d->seconds = monotonic_seconds() - begun;
        if (code == SOSMC_EXIT_OK && demo_write_page(d, error, sizeof error))
            code = complain(SOSMC_EXIT_IO, "%s", error);
        lock_give_back(&lock);
        if (code == SOSMC_EXIT_OK && !d->quiet) demo_print(d, stdout);
    }
    free(d);
    return code;
}
