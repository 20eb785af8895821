/* flags.h: the flags of commands that write run files: a table says what there is, a value must fit the key of the run file
 * that it stands for. */
#ifndef CLI_FLAGS_H
#define CLI_FLAGS_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

enum { FLAGS_MOST = 64, FLAGS_SETS = 256 };

/* `like`: a key of the run file whose type and range the value must have; `words`: what it may be; neither: text. The rows
 * "set", which may be given several times, and "help" must be there. */
typedef struct {
    const char *name, *like, *words;
    int commands; /* bits; 0: all */
    int takes_value;
} flag_row;

typedef struct {
    const char *command;           /* for messages: "train" */
    const char *operand;           /* the one word that is no flag */
    const char *value[FLAGS_MOST]; /* by row; NULL: not given; "" for a flag without a value */
    const char *set[FLAGS_SETS];
    int sets;
    double begun; /* seconds on the monotonic clock */
} flag_values;

/* The words of a command of which some bit is in `command`. `help` begins with the line of usage, `operand` is the name of the
 * operand. 0: go on; otherwise *code is what the program exits with. */
int flags_read(flag_values *v, const flag_row *table, int rows, int command, int argc, char **argv, const char *operand,
               const char *help, int *code);

/* getopt_long for long flags and -h. Where that has only '?' to say, this has said on standard error what is wrong, and which
 * flag was probably meant. The command's name is what stands behind the last blank of argv[0]. */
int flags_next(int argc, char **argv, const struct option *known, int *index);

/* "; did you mean 'run'?" for the word of the list "run|check" that is near to what was typed, or "; OTHERWISE" where
 * none is: the end of a sentence. The result is `out`. */
const char *flags_did_you_mean(const char *words, const char *typed, const char *otherwise, char *out, size_t room);

int flag_given(const flag_values *v, int row);
const char *flag_text(const flag_values *v, int row, const char *otherwise);
double flag_number(const flag_values *v, int row, double otherwise);
int64_t flag_whole(const flag_values *v, int row, int64_t otherwise);

#endif
