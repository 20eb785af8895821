/* claims.h: statements of the paper with a verdict from our numbers and the reason for it, shown the same way by every
 * experiment. */
#ifndef SOSMC_COMMON_CLAIMS_H
#define SOSMC_COMMON_CLAIMS_H

#include <stdio.h>

#include "files/files.h"
#include "view/page.h"

typedef enum { CLAIM_CONFIRMED, CLAIM_CORRECTED, CLAIM_NOT_SEEN, CLAIM_VERDICTS } claim_verdict;
extern const char *const claim_verdict_names[CLAIM_VERDICTS];
extern const page_mark claim_verdict_marks[CLAIM_VERDICTS]; /* how a verdict is shown in a table */

typedef struct {
    const char *claim;
    claim_verdict verdict;
    char because[640];
} claim;

/* Sets the verdict from `holds`. A claim that does not hold is CLAIM_CORRECTED where `paper` (the sizes are the paper's),
 * else CLAIM_NOT_SEEN. */
void claim_decide(claim *c, int paper, int holds, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A claim whose quantity was not measured is never confirmed. The reason is "WHAT was not measured", or a sentence on what
 * the claim would need. */
void claim_unknown(claim *c, const char *what);
/* Returns `measured`, and calls claim_unknown where it is 0. */
int claim_measured(claim *c, int measured, const char *what);
void claim_not_run(claim *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

void claims_print(const claim *c, int n, FILE *out);
void claims_json(json_writer *w, const claim *c, int n); /* the list `claims` */
void claims_page(page *p, const claim *c, int n);        /* with its heading */

#endif
