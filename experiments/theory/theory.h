/* theory.h: the results of the paper as numerical statements (`sosmc reproduce theory`): what a statement is, what a check fills
 * in, and how the page, the tables and the exit code come from it.
 *
 * A check is a function that fills a zeroed statement. It is deterministic: seeds are made of options->seed alone, and
 * nothing depends on the number of threads. Statements are independent of each other and run side by side. Where the
 * paper is wrong the verdict says so and the check returns 0 all the same; what must not fail is what we ourselves
 * claim: theory_fault and a negative control that was not noticed make the command end with exit code 3. */
#ifndef SOSMC_THEORY_THEORY_H
#define SOSMC_THEORY_THEORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/claims.h"
#include "view/plot.h"
#include "view/arena.h"
#include "common/reproduce.h"

enum { THEORY_COLUMNS = 10, THEORY_CELL = 96, THEORY_SENTENCE = 640 };

/* Set caption, align (a letter per column: l, r or c) and head (up to THEORY_COLUMNS, the rest NULL), then add rows. */
typedef struct {
    const char *caption, *align; /* caption NULL: none */
    const char *head[THEORY_COLUMNS + 1];
    int rows, room, columns; /* columns: set by the first row, from `head` */
    int failed;              /* a row found no memory, or had another number of cells than `head` */
    char (*cell)[THEORY_CELL];
    page_mark *mark; /* one per row */
} theory_table;

/* A row, its cells separated by '|': theory_row(&s->table, "%s|%d|%.3f", name, n, value). */
#define theory_row(t, ...) theory_marked_row(t, PAGE_PLAIN, __VA_ARGS__)
/* The same, shown in another way than plain: PAGE_WARN for what is wrong, PAGE_DIM for a control. */
void theory_marked_row(theory_table *t, page_mark mark, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef struct {
    const char *id;      /* set before the check is called; names files and rows */
    const char *title;   /* "Exact gradient recovery (Lemma 1)" */
    const char *says;    /* what the paper says, in plain words with the formula */
    const char *how;     /* how it is checked here */
    claim claim;         /* verdict and reason, by claim_decide; claim.claim NULL: the title stands for it */
    theory_table table;  /* becomes tables/ID.csv too */
    theory_table second; /* optional; tables/ID-2.csv */
    plot_figure figure;  /* panels 0: none. Its arrays come from `memory`; its name is set to the id */
    const char *figure_caption;
    arena memory;                    /* of the figure's arrays and of texts: arena_doubles(&s->memory, n) */
    char control[THEORY_SENTENCE];   /* by theory_control */
    char fault[THEORY_SENTENCE];     /* by theory_fault */
    char error[THEORY_SENTENCE];     /* by theory_fail: why the check could not be made at all */
    int faults, controls, unnoticed; /* of which controls that were not noticed */
} theory_statement;

/* A figure with one panel of n series, which the caller fills. NULL: no memory, and there will be no figure. */
plot_series *theory_figure(theory_statement *s, plot_panel panel, int n, const char *caption);

/* Reports that a statement of our own does not hold. It may be called several times; the first sentence is kept. */
void theory_fault(theory_statement *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports that a variant that is wrong on purpose was tried, and whether the check noticed it. The sentences are joined. */
void theory_control(theory_statement *s, int noticed, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Reports that the check could not be made, and returns `code`; after Ctrl-C it returns SOSMC_EXIT_INTERRUPTED. A check
 * should look at interrupt_requested() between runs. */
int theory_fail(theory_statement *s, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

typedef struct {
    int quick;   /* some seconds for all statements together; else some minutes */
    int threads; /* that this check may use for itself; the results must not depend on it */
    uint64_t seed;
} theory_options;

/* The bound of statistical comparisons, in standard errors, fixed in advance. Of `comparisons` correct ones in a statement,
 * one lies beyond the bound with a probability of at most 1e-5 (Bonferroni); over all statements together that is below
 * 2e-4. */
double theory_bound(int comparisons);
/* (mean - expected) / error as a normal deviate. The error of a few values makes this a t-score, which is converted to the
 * normal scale by Wallace's approximation. */
double theory_score(double mean, double error, int values, double expected);
/* Fits y = a x^b through n points by least squares of the logarithms. Returns the exponent b; `constant` receives a unless
 * it is NULL. */
double theory_slope(const double *x, const double *y, int n, double *constant);

/* An exit code (run.h): 0 even when the paper is wrong. */
typedef int (*theory_check)(const theory_options *o, theory_statement *s);

/* theory_optimisation.c, theory_rule.c, theory_ess.c, theory_divergence.c */
int theory_rate(const theory_options *o, theory_statement *s);         /* Proposition 1 */
int theory_remark4(const theory_options *o, theory_statement *s);      /* the multiplicative rule */
int theory_gaussian_ess(const theory_options *o, theory_statement *s); /* N exp(-gamma^2 |grad l|^2) */
int theory_chi_square(const theory_options *o, theory_statement *s);   /* Proposition 2 */
int theory_chi_bounded(const theory_options *o, theory_statement *s);  /* Proposition 3 */
int theory_chi_root(const theory_options *o, theory_statement *s);     /* Proposition 4 */
/* theory_paper.c, theory_tv.c */
int theory_data_sign(const theory_options *o, theory_statement *s);   /* section 2.2 */
int theory_tilted(const theory_options *o, theory_statement *s);      /* the optimum under reverse KL */
int theory_tv_constant(const theory_options *o, theory_statement *s); /* C(theta) of the prior of pictures */
/* theory_particles.c, theory_bias.c, theory_equivalences.c */
int theory_feynman_kac(const theory_options *o, theory_statement *s);
int theory_normalising_constant(const theory_options *o, theory_statement *s);
int theory_finite_n(const theory_options *o, theory_statement *s);
int theory_ula_bias(const theory_options *o, theory_statement *s);
int theory_equivalences(const theory_options *o, theory_statement *s);
int theory_score_identities(const theory_options *o, theory_statement *s);

/* ------------------------------------------------------------------------------------------------ the command */

typedef struct {
    const char *id;
    const char *covers; /* the places of the paper: "Theorem 1, Lemma 1" */
    theory_check check;
} theory_entry;
extern const theory_entry theory_entries[]; /* in the order of the page; ends with id NULL */

/* Runs the entries (with options->only one of them), writes and prints the results, and returns the exit code.
 * reproduce_theory calls it with theory_entries. */
int theory_run(const reproduce_options *options, const theory_entry *entries);

/* A finished set of statements, and the functions that print and write it. */
typedef struct {
    const theory_options *options;
    const char *out; /* the folder */
    const theory_entry *entry;
    theory_statement *statement; /* one for each entry; those with title NULL were not asked for */
    int n;
} theory_results;
void theory_print(const theory_results *r, FILE *out);
int theory_write(const theory_results *r, char *error, size_t room); /* theory.html, results.json, tables, figures */
void theory_statement_free(theory_statement *s);

#endif
