/* flags.h: the flags of all commands. A command declares a table of its flags and calls flags_read; what is wrong is said there,
 * in the same words for every command. */
#ifndef SOSMC_TERMINAL_FLAGS_H
#define SOSMC_TERMINAL_FLAGS_H

#include <stddef.h>
#include <stdint.h>

enum { FLAGS_MOST = 64, FLAGS_SETS = 256, FLAGS_ASSIGNMENT = 64 };

/* One flag, `--name` or `--name VALUE`. A table needs the row "help". The row "set" may be given several times. */
typedef struct {
    const char *name;
    const char *like;  /* a key of the run file whose type and range the value must have; NULL: it is text */
    const char *words; /* the value is one of these, separated by |; NULL: see `like` */
    const char *key;   /* the flag is short for --set KEY=VALUE, and the run file judges the value */
    int commands;      /* the commands that have this flag, as bits; 0: all that share the table */
    int takes_value;
} flag_row;

typedef struct {
    const char *command;           /* argv[0], for messages */
    int operands;                  /* how many words are no flags */
    const char *operand;           /* the first of them; NULL: there is none */
    const char *value[FLAGS_MOST]; /* by row; NULL: not given; "" for a flag without a value */
    const char *set[FLAGS_SETS];   /* the assignments, in the order in which they were given */
    int sets;
    char assignment[FLAGS_MOST][FLAGS_ASSIGNMENT]; /* of rows that have a key */
    double begun;                                  /* seconds on the monotonic clock */
} flag_values;

/* Reads the words of a command: `command` is its bit in flag_row.commands, `help` its text, which begins with the line of
 * usage. `operand` is the name of the one operand that must be there; NULL: the command looks at operands itself. The name of
 * the command is what stands behind the last blank of argv[0]. 0: go on; otherwise *code is what the program exits with. */
int flags_read(flag_values *v, const flag_row *table, int rows, int command, int argc, char **argv, const char *operand,
               const char *help, int *code);

/* "; did you mean 'run'?" for the word of the list "run|check" that is near to what was typed, or "; OTHERWISE" where
 * none is: the end of a sentence. The result is `out`. */
const char *flags_did_you_mean(const char *words, const char *typed, const char *otherwise, char *out, size_t room);

int flag_given(const flag_values *v, int row);
const char *flag_text(const flag_values *v, int row, const char *otherwise);
double flag_number(const flag_values *v, int row, double otherwise);
int64_t flag_whole(const flag_values *v, int row, int64_t otherwise);

#endif
