/* theory_page.c: statements as lines, as tables and results.json, and as one page: what the paper says, how it was checked, figure,
 * numbers, verdict. Invariant: nothing is computed here. */
#include <string.h>

#include "common/experiment.h"
#include "files/directory.h"
#include "files/files.h"
#include "view/page.h"
#include "theory.h"

static int given(const theory_statement *s) { return s->title != NULL; }

/* ---------------------------------------------------------------------------- lines */

void theory_print(const theory_results *r, FILE *out)
{
    for (int i = 0; i < r->n; i++) {
        const theory_statement *s = &r->statement[i];
        if (!given(s)) continue;
        (void)fprintf(out, "%s: %s\n   %s\n", s->title, claim_verdict_names[s->claim.verdict], s->claim.because);
        if (s->controls) (void)fprintf(out, "   control: %s\n", s->control);
        if (s->faults) (void)fprintf(out, "   FAULT: %s\n", s->fault);
    }
}

/* ---------------------------------------------------------------------------- tables and results.json */

static void put_field(atomic_file *f, const char *text, int first)
{
    if (!first) atomic_print(f, ",");
    if (!strpbrk(text, ",\"\n")) {
        atomic_print(f, "%s", text);
        return;
    }
    atomic_print(f, "\"");
    for (const char *c = text; *c; c++) atomic_print(f, *c == '"' ? "\"\"" : "%c", *c);
    atomic_print(f, "\"");
}

static int write_table(const theory_results *r, const theory_statement *s, const theory_table *t, const char *ending,
                       char *error, size_t room)
{
    char path[FILES_PATH], dir[FILES_PATH], name[128];
    atomic_file f;
    if (t->rows == 0) return 0;
    (void)snprintf(name, sizeof name, "%s%s.csv", s->id, ending);
    if (files_join(dir, r->out, "tables", error, room) || directory_make(dir, error, room) ||
        files_join(path, dir, name, error, room) || atomic_open(&f, path, error, room))
        return -1;
    for (int c = 0; c < t->columns; c++) put_field(&f, t->head[c], c == 0);
    atomic_print(&f, "\n");
    for (int k = 0; k < t->rows; k++) {
        for (int c = 0; c < t->columns; c++) put_field(&f, t->cell[k * t->columns + c], c == 0);
        atomic_print(&f, "\n");
    }
    return atomic_close(&f, error, room);
}

static void put_statement(json_writer *w, const theory_statement *s, const char *covers)
{
    json_open_object(w, NULL);
    json_put_text(w, "id", s->id);
    json_put_text(w, "title", s->title);
    json_put_text(w, "covers", covers);
    json_put_text(w, "verdict", claim_verdict_names[s->claim.verdict]);
    json_put_text(w, "because", s->claim.because);
    json_put_text(w, "control", s->controls ? s->control : NULL);
    json_put_whole(w, "controls", s->controls);
    json_put_whole(w, "unnoticed_controls", s->unnoticed);
    json_put_text(w, "fault", s->faults ? s->fault : NULL);
    json_close(w);
}

static int write_results(const theory_results *r, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    if (files_join(path, r->out, "results.json", error, room) || atomic_open(&f, path, error, room)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "experiment", "theory");
    json_put_unsigned(&w, "seed", r->options->seed);
    json_put_truth(&w, "quick", r->options->quick);
    json_open_list(&w, "statements");
    for (int i = 0; i < r->n; i++)
        if (given(&r->statement[i])) put_statement(&w, &r->statement[i], r->entry[i].covers);
    json_close(&w);
    json_close(&w);
    return atomic_close(&f, error, room);
}

/* ---------------------------------------------------------------------------- the page */

static void overview(const theory_results *r, page *p)
{
    const char *head[] = {"in the paper", "statement", "verdict", NULL};
    page_table(p, NULL, "lll", head);
    for (int i = 0; i < r->n; i++) {
        const theory_statement *s = &r->statement[i];
        if (!given(s)) continue;
        const char *row[] = {r->entry[i].covers, s->title, claim_verdict_names[s->claim.verdict]};
        page_mark mark[3] = {PAGE_PLAIN, PAGE_PLAIN, claim_verdict_marks[s->claim.verdict]};
        page_row(p, row, mark);
    }
    page_table_end(p);
}

static void show_table(page *p, const theory_table *t)
{
    if (t->rows == 0) return;
    page_table(p, t->caption, t->align, t->head);
    for (int k = 0; k < t->rows; k++) {
        const char *cells[THEORY_COLUMNS];
        page_mark marks[THEORY_COLUMNS];
        for (int c = 0; c < t->columns; c++) {
            cells[c] = t->cell[k * t->columns + c];
            marks[c] = t->mark[k];
        }
        page_row(p, cells, marks);
    }
    page_table_end(p);
}

/* Some reasons end with a full stop and some do not. */
static const char *full_stop(const char *sentence)
{
    size_t n = strlen(sentence);
    return n > 0 && sentence[n - 1] == '.' ? "" : ".";
}

static int show_statement(const theory_statement *s, const experiment_page *x)
{
    page *p = x->page;
    page_heading(p, s->title);
    if (s->says) page_paragraph(p, "The paper: %s", s->says);
    if (s->how) page_paragraph(p, "Checked here: %s", s->how);
    if (s->figure.panels > 0 && experiment_figure(x, NULL, s->figure, NULL, s->figure_caption)) return -1;
    show_table(p, &s->table);
    show_table(p, &s->second);
    if (s->controls) page_paragraph(p, "Wrong on purpose: %s.", s->control);
    page_note(p, "%c%s: %s%s", claim_verdict_names[s->claim.verdict][0] - 'a' + 'A',
              claim_verdict_names[s->claim.verdict] + 1, s->claim.because, full_stop(s->claim.because));
    if (s->faults) page_note(p, "FAULT: our own statement does not hold: %s.", s->fault);
    return 0;
}

static int write_page(const theory_results *r, char *error, size_t room)
{
    char count[CLAIM_VERDICTS][16];
    int seen[CLAIM_VERDICTS] = {0}, rc = 0;
    experiment_page x;
    if (experiment_page_begin(&x, r->out, "The theory, verified", "Every result of the paper as a numerical statement",
                              error, room))
        return -1;
    page *p = x.page;
    for (int i = 0; i < r->n; i++)
        if (given(&r->statement[i])) seen[r->statement[i].claim.verdict]++;
    page_fact facts[CLAIM_VERDICTS];
    for (int v = 0; v < CLAIM_VERDICTS; v++) {
        (void)snprintf(count[v], sizeof count[v], "%d", seen[v]);
        facts[v] = (page_fact){count[v], claim_verdict_names[v]};
    }
    page_facts(p, facts, CLAIM_VERDICTS);
    page_paragraph(
        p,
        "Confirmed: the numbers agree with what is printed. Corrected: they do not, or only under a condition that "
        "is not printed; the statement below then shows what holds instead. Seed %llu%s. Bounds of statistical "
        "comparisons were fixed in advance; a variant that is wrong on purpose stands beside a statement where "
        "that makes sense, and must be noticed.",
        (unsigned long long)r->options->seed, r->options->quick ? ", small version (--quick)" : "");
    overview(r, p);
    for (int i = 0; rc == 0 && i < r->n; i++)
        if (given(&r->statement[i])) rc = show_statement(&r->statement[i], &x);
    return experiment_page_end(&x, rc, "theory.html");
}

int theory_write(const theory_results *r, char *error, size_t room)
{
    for (int i = 0; i < r->n; i++) {
        const theory_statement *s = &r->statement[i];
        if (given(s) &&
            (write_table(r, s, &s->table, "", error, room) || write_table(r, s, &s->second, "-2", error, room)))
            return -1;
    }
    return write_results(r, error, room) || write_page(r, error, room) ? -1 : 0;
}
