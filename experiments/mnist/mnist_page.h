/* mnist_page.h: the page, the tables and the summary of the experiment with pictures. */
#ifndef SOSMC_MNIST_MNIST_PAGE_H
#define SOSMC_MNIST_MNIST_PAGE_H

#include <stdio.h>

#include "mnist_claims.h"
#include "mnist_findings.h"
#include "view/page.h"

typedef struct {
    const mnist_findings *found;
    claim claim[MNIST_CLAIMS];
} mnist_results;

/* "bright, beta 1", with the label, step and noise of settings that have them to themselves. */
const char *mnist_setting_words(const mnist_cell *cell, char *out, size_t room);
int mnist_has_group(const mnist_plan *plan, mnist_group group);
/* The cells of a group with the first seed, in the order of the tables; returns how many. */
int mnist_group_cells(const mnist_plan *plan, mnist_group group, const mnist_cell *out[MNIST_CELLS]);

/* mnist_page_tables.c */
void mnist_page_rewards(page *p, const mnist_findings *f, mnist_group group);
void mnist_page_agreement(page *p, const mnist_findings *f); /* of the published sweeps */
void mnist_page_samples(page *p, const mnist_findings *f, mnist_group group);
void mnist_page_particles(page *p, const mnist_findings *f, mnist_group group);
void mnist_page_bases(page *p, const mnist_findings *f);

/* OUT/report.html and OUT/figures. */
int mnist_write_page(const mnist_results *r, char *error, size_t room);
/* OUT/table.csv and OUT/summary.json. */
int mnist_write_tables(const mnist_results *r, char *error, size_t room);
void mnist_print(const mnist_results *r, FILE *out);

#endif
