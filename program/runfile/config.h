/* config.h: the run file. YAML in, checked values out.
 *
 *     config *c = config_load("run.yaml", error, sizeof error);
 *     if (!c || config_set(c, "kernel.type=mala", error, sizeof error) || config_resolve(c, error, sizeof error)) ...
 *     double h = config_number(c, "kernel.step");
 *     config_write(c, out);
 *
 * Every key, its type, default and meaning stand once, in schema.c; docs/run-file.md is generated from there.
 *
 * Rules that hold everywhere:
 *   - nothing here prints or exits; functions that can fail return 0 or -1 (NULL), and leave one sentence in `error`,
 *     which begins with FILE:LINE, or with the --set assignment that is to blame;
 *   - paths are dotted names; items of a list are numbered from 0 (adapt.1.factor), and a list of one mapping may be
 *     addressed without the number (adapt.factor);
 *   - pointers returned by a config belong to it and live until config_free. */
#ifndef SOSMC_RUNFILE_CONFIG_H
#define SOSMC_RUNFILE_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct config config;

/* Parsed, not yet checked. The path "-" is standard input. On failure errno tells the two kinds apart: 0 when the
 * contents are wrong, else why the file could not be read. */
config *config_load(const char *path, char *error, size_t room);
/* The same from memory; `name` stands for the file in messages; relative data files belong to the current folder. */
config *config_parse(const char *text, const char *name, char *error, size_t room);
void config_free(config *c); /* c may be NULL */

/* One assignment PATH=VALUE. VALUE is YAML when it begins with [ { ' or ", else plain text as it stands (a formula
 * needs no quoting). Mappings on the way are made when missing; null takes a key out, so that its default returns. */
int config_set(config *c, const char *assignment, char *error, size_t room);

/* Checks everything and fills in the defaults; afterwards every key that applies has a value. May be called again after
 * further config_set: defaults filled in by an earlier call are forgotten first. */
int config_resolve(config *c, char *error, size_t room);

/* ---------------------------------------------------------------------------- values */

/* After config_resolve. A key that does not apply or has no value: 0, NaN or NULL. */
int config_has(const config *c, const char *path);
int config_count(const config *c, const char *path);        /* items of a list, keys of a mapping */
const char *config_text(const config *c, const char *path); /* words, text, file names (absolute) */
/* Also of whole numbers. resampling.threshold: `never` is 0, `always` is 2, as in sosmc_scheme.ess_min. */
double config_number(const config *c, const char *path);
int64_t config_integer(const config *c, const char *path);
uint64_t config_unsigned(const config *c, const char *path);
int config_flag(const config *c, const char *path);
const double *config_vector(const config *c, const char *path, int *n);
const double *config_matrix(const config *c, const char *path, int *rows, int *cols); /* row-major */
/* A column of a table, counted from 1; 0 when it is given by name, which is then config_text. */
int config_column(const config *c, const char *path);

/* What the program that holds the run file lends to it, for the values `own`: the rooms that build a job know its type. It must
 * outlive the config. NULL, as at first: nothing. */
void config_lend(config *c, const void *values);
const void *config_lent(const config *c);

/* From here on the config remembers which keys were asked for, by any function above but config_has. */
void config_watch(config *c);
/* The next key of the file or of its defaults that was not read since config_watch, in the order of the manual; NULL: there
 * is no more. *at must be 0 at first. */
const char *config_unread(const config *c, int *at);

/* ---------------------------------------------------------------------------- where and how */

int config_line(const config *c, const char *path); /* 0: not in the file (a default, or from --set) */
/* "FILE:LINE" or "--set ..." of a key, or of the nearest mapping around it: for later messages. Returns out. */
const char *config_where(const config *c, const char *path, char *out, size_t room);
const char *config_directory(const config *c); /* absolute: of the run file */
const char *config_file(const config *c);      /* the path that config_load was given; NULL: no file */
int config_is_resolved_file(const config *c);  /* it was read from a file that config_write wrote */

/* The resolved run file: every key that applies, in the order of the manual. Numbers are the shortest that read back as
 * the same double and data files have absolute names, so that it replays the same run from any folder. */
int config_write(const config *c, FILE *out);
/* The same for DIR/run.yaml: data files below the directory `root`, which is DIR or above it, have names relative to DIR, so
 * that the file means the same after `root` was moved. */
int config_write_in(const config *c, FILE *out, const char *dir, const char *root);
/* The same values as nested JSON objects; data files have absolute names. */
int config_write_json(const config *c, FILE *out);
void config_document(FILE *out); /* docs/run-file.md */
/* The table of keys for programs: {"keys": [...], "choices": [...], "methods": [...]}; see `sosmc help list`. */
int config_document_json(FILE *out);

#endif
