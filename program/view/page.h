/* page.h: one self-contained HTML page: headings, paragraphs, tables, figures, code.
 *
 * No script, no font and no picture comes from elsewhere: the page can be mailed, printed and read offline. All text is
 * UTF-8 and escaped here; callers never write HTML. The first error is kept, and page_write returns it. */
#ifndef SOSMC_VIEW_PAGE_H
#define SOSMC_VIEW_PAGE_H

#include <stddef.h>

#include <jansson.h>

typedef struct page page;

/* `subtitle` may be NULL. Returns NULL when there is no memory; the other functions accept NULL and do nothing. */
page *page_new(const char *title, const char *subtitle);
void page_free(page *p);

void page_heading(page *p, const char *text);
void page_subheading(page *p, const char *text);
void page_paragraph(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A paragraph that is set off from the others, for what a reader must not miss. */
void page_note(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The verdict of a run's summary with its reasons, nothing where it has none; it belongs before everything else. */
void page_verdict(page *p, const json_t *summary);

/* A note for every sentence in the `warnings` of a run's summary (NULL: none); they come next. */
void page_warnings(page *p, const json_t *summary);

/* Large numbers with small words below them; for the few results that matter most. */
typedef struct {
    const char *value, *name;
} page_fact;
void page_facts(page *p, const page_fact *fact, int n);

/* `align` has a letter per column: l, r or c. `caption` may be NULL. Cells that are NULL are empty. */
typedef enum { PAGE_PLAIN = 0, PAGE_STRONG, PAGE_DIM, PAGE_WARN } page_mark;
void page_table(page *p, const char *caption, const char *align, const char *const *head);
void page_row(page *p, const char *const *cells, const page_mark *mark /* one per cell; NULL: all plain */);
void page_table_end(page *p);

/* Puts the picture into the page itself. `stem` (NULL: none) is the path of its files without ending, relative to the page;
 * links to STEM.svg and STEM.pdf follow the caption. `alt` describes the picture for readers who cannot see it. */
void page_figure(page *p, const char *svg, const char *alt, const char *caption, const char *stem);

/* Likewise DIR/NAME, a PNG file of less than 32 MB; one that cannot be read leaves no figure. The page is to be in DIR. */
void page_picture(page *p, const char *dir, const char *name, const char *alt, const char *caption);

void page_code(page *p, const char *text);

/* A paragraph of its own that leads to a file; `target` is its path, relative to the page. */
void page_link(page *p, const char *words, const char *target);

/* Writes the page, atomically; the page stays. */
int page_write(page *p, const char *path, char *error, size_t room);

#endif
