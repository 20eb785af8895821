/* claims.c: verdicts on claims, and the three places they are shown in. Invariant: a verdict always has a reason. */
#include "claims.h"

#include <stdarg.h>

const char *const claim_verdict_names[CLAIM_VERDICTS] = {"confirmed", "corrected", "not seen at this scale"};
const page_mark claim_verdict_marks[CLAIM_VERDICTS] = {PAGE_STRONG, PAGE_WARN, PAGE_DIM};

void claim_decide(claim *c, int paper, int holds, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->because, sizeof c->because, format, args);
    va_end(args);
    c->verdict = holds ? CLAIM_CONFIRMED : paper ? CLAIM_CORRECTED : CLAIM_NOT_SEEN;
}

void claim_not_run(claim *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->because, sizeof c->because, format, args);
    va_end(args);
    c->verdict = CLAIM_NOT_SEEN;
}

void claim_unknown(claim *c, const char *what) { claim_not_run(c, "%s was not measured", what); }

int claim_measured(claim *c, int measured, const char *what)
{
    if (!measured) claim_unknown(c, what);
    return measured;
}

void claims_print(const claim *c, int n, FILE *out)
{
    for (int i = 0; i < n; i++)
        (void)fprintf(out, "%d. %s: %s\n   %s\n", i + 1, c[i].claim, claim_verdict_names[c[i].verdict], c[i].because);
}

void claims_json(json_writer *w, const claim *c, int n)
{
    json_open_list(w, "claims");
    for (int i = 0; i < n; i++) {
        json_open_object(w, NULL);
        json_put_text(w, "claim", c[i].claim);
        json_put_text(w, "verdict", claim_verdict_names[c[i].verdict]);
        json_put_text(w, "because", c[i].because);
        json_close(w);
    }
    json_close(w);
}

void claims_page(page *p, const claim *c, int n)
{
    const char *head[] = {"claim", "verdict", "because", NULL};
    page_heading(p, "Claims");
    page_table(p, NULL, "lll", head);
    for (int i = 0; i < n; i++) {
        const char *row[] = {c[i].claim, claim_verdict_names[c[i].verdict], c[i].because};
        page_mark mark[3] = {PAGE_PLAIN, claim_verdict_marks[c[i].verdict]};
        page_row(p, row, mark);
    }
    page_table_end(p);
}
