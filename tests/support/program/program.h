/* program.h: the real program, run in a folder of the test's own, with the faults of tests/process/faults.c on demand. */
#ifndef SOSMC_TESTS_PROGRAM_H
#define SOSMC_TESTS_PROGRAM_H

#include <sys/types.h>

enum { PROGRAM_WORDS = 4096 };

typedef struct {
    const char *folder;     /* it starts here */
    const char *fault;      /* memory, disk or kill; NULL: none */
    long at;                /* the number of the call that fails, from 1 on; 0: none fails, calls are only counted */
    int stays;              /* all later calls fail too */
    const char *log;        /* a file for the count, NULL: none */
    void (*in_child)(void); /* called in the child before the program starts: sets limits, closes streams */
} program_setting;

/* The library of faults; NULL where it cannot be loaded, which is so under the sanitizers. */
const char *program_faults(void);
/* Whether the nightly tier is asked for: SOSMC_TEST_TIER=nightly. */
int program_nightly(void);

/* Arguments are separated by single blanks. `said` gets the end of what the program says on both streams.
 * The result is its exit code, 128 + the signal that ended it, or -1 when it took more than two minutes. */
pid_t program_start(const program_setting *s, const char *arguments);
int program_wait(pid_t pid);
int program_run(const program_setting *s, const char *arguments, char said[PROGRAM_WORDS]);

/* What the program says when it is run in the folder with these words; fails the test where it exits with another code. */
const char *program_says(const char *folder, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What is run: a small job of each command, its continuation, and the folder it leaves. */
typedef struct {
    const char *name, *fresh, *again, *out;
} program_scene;
enum { SCENE_RUN, SCENE_TRAIN, SCENE_TUNE, SCENE_DEBLUR, SCENE_REPRODUCE, SCENES };
extern const program_scene program_scenes[SCENES];
/* Writes the files that these jobs read, and a gnuplot that draws nothing and returns at once, which comes first in PATH.
 * 0, or -1. */
int program_furnish(const char *folder);

/* 0 when two folders hold the same names and bytes, but for wall-clock times: columns of CSV files and keys of JSON files
 * whose names begin with "seconds", and digits in HTML pages. Otherwise the first difference in words. */
int program_differ(const char *one, const char *other, char difference[PROGRAM_WORDS]);
/* The first name below the folder that ends in .tmp; NULL: there is none. */
const char *program_leftover(const char *folder);

#endif
