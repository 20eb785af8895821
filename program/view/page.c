/* page.c: HTML from plain words.
 *
 * The page is built in memory and written in one go. Pictures are data: URIs of their own, so that the names gnuplot
 * gives to the parts of one SVG never meet those of another. */
#include "page.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "files/words.h"

struct page {
    char *bytes;
    size_t size;
    FILE *stream;   /* writes to bytes */
    char align[64]; /* of the table's columns */
    int failed;
};

static const char style[] =
    ":root{color-scheme:light dark}\n"
    "html{-webkit-text-size-adjust:100%}\n"
    "body{margin:0 auto;padding:2.2rem 1.6rem 4rem;max-width:67.5rem;color:#222;background:#fff;"
    "font:1.05rem/1.55 \"Source Sans 3\",\"Helvetica Neue\",Helvetica,Arial,\"Liberation Sans\",sans-serif}\n"
    "h1{margin:0;font-size:2.1rem;line-height:1.2;font-weight:650}\n"
    "h2{margin:2.8rem 0 .9rem;padding-bottom:.3rem;font-size:1.45rem;font-weight:650;border-bottom:2px solid #0072b2}\n"
    "h3{margin:1.9rem 0 .4rem;font-size:1.15rem;font-weight:650}\n"
    "p{margin:.6rem 0;max-width:52rem}\n"
    ".subtitle{margin:.4rem 0 0;color:#555;font-size:1.1rem}\n"
    ".note{max-width:none;margin:1rem 0;padding:.6rem 1rem;border-left:5px solid #e69f00;background:#fdf6e7}\n"
    ".verdict{margin:1.2rem 0;padding:.7rem 1rem;border-left:8px solid #d55e00;background:#fbe9dd}\n"
    ".verdict.good{border-color:#009e73;background:#e5f5f0}\n"
    ".verdict.unknown{border-color:#888;background:#f1f1f1}\n"
    ".verdict b{font-size:1.3rem;font-weight:650}\n"
    ".verdict ul{margin:.4rem 0 0;padding-left:1.2rem}\n"
    ".facts{display:flex;flex-wrap:wrap;gap:.9rem;margin:1.6rem 0}\n"
    ".facts div{flex:1 1 7rem;padding:.8rem 1rem;border:1px solid #d9d9d9;"
    "border-top:4px solid #0072b2;border-radius:3px}\n"
    ".facts b{display:block;font-size:1.55rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}\n"
    ".facts span{color:#555;font-size:.95rem}\n"
    "table{border-collapse:collapse;margin:1rem 0 1.4rem;font-variant-numeric:tabular-nums}\n"
    "caption{padding:.2rem 0 .5rem;text-align:left;color:#444}\n"
    "th,td{padding:.32rem .9rem .32rem .3rem;border-bottom:1px solid #dedede;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}\n"
    "th{font-weight:650;border-bottom:2px solid #888;overflow-wrap:normal}\n"
    ".r{text-align:right}\n.c{text-align:center}\ntd.r,td.warn,td.strong{overflow-wrap:normal}\n"
    ".strong{font-weight:650}\n.dim{color:#6b6b6b}\n.warn{background:#fbe9dd}\n"
    "figure{margin:1.2rem 0 2rem}\n"
    "figure img{display:block;max-width:100%;height:auto}\n"
    "figcaption{margin:.3rem 0 0;color:#444;font-size:.98rem}\n"
    ".files{white-space:nowrap}\n"
    "a{color:#005a8c}\n"
    "pre{margin:1rem 0;padding:.9rem 1.1rem;overflow-x:auto;border:1px solid #d9d9d9;border-radius:3px;"
    "background:#f7f7f7;font:.92rem/1.5 \"DejaVu Sans Mono\",Menlo,Consolas,\"Liberation Mono\",monospace}\n"
    /* narrow screens: tables and figures keep their size and are pushed sideways */
    "@media screen and (max-width:40rem){\n"
    "body{padding:1.4rem 1rem 3rem}\n"
    "table{display:block;overflow-x:auto;font-size:.92rem}\n"
    "th,td{overflow-wrap:normal;min-width:3.2rem}\n"
    "td.r{white-space:nowrap}\n"
    "figure{overflow-x:auto}\n"
    "figure img[src^=\"data:image/svg\"]{max-width:none;width:42rem}\n"
    "}\n"
    /* on a dark screen the figures, which are drawn on white, keep their ground */
    "@media screen and (prefers-color-scheme:dark){\n"
    "body{color:#e4e4e4;background:#161616}\n"
    ".subtitle,.facts span,caption,figcaption{color:#b0b0b0}\n"
    ".dim{color:#969696}\n"
    ".note{background:#33270a}\n"
    ".verdict{background:#3a1f10}\n"
    ".verdict.good{background:#0e2f25}\n"
    ".verdict.unknown{background:#2a2a2a}\n"
    ".warn{background:#4a2a17}\n"
    ".facts div,pre{border-color:#444}\n"
    ".facts div,h2{border-top-color:#3d9bd6;border-bottom-color:#3d9bd6}\n"
    ".facts div{border-bottom-color:#444}\n"
    "th,td{border-bottom-color:#3a3a3a}\n"
    "th{border-bottom-color:#777}\n"
    "pre{background:#202020}\n"
    "a{color:#7cc4f0}\n"
    "figure img{background:#fff}\n"
    "}\n"
    "@media print{\n"
    "@page{size:A4;margin:16mm 15mm}\n"
    "html{font-size:9.5pt}\n"
    "body{max-width:none;padding:0}\n"
    "h2{margin-top:2rem;break-after:avoid}h3{margin-top:1rem;break-after:avoid}\n"
    "figure{margin:.3rem 0 1rem}\n"
    "figure,.facts,.note,.verdict,tr{break-inside:avoid}\n"
    "thead{display:table-header-group}\n"
    "pre{break-before:avoid;overflow:visible;white-space:pre-wrap;overflow-wrap:anywhere}\n"
    ".facts div{flex-basis:5.5rem;padding:.6rem .7rem}\n"
    "a{color:inherit;text-decoration:none}\n"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}\n"
    "}\n";

/* ---------------------------------------------------------------------------- text */

static void raw(page *p, const char *text)
{
    if (p) (void)fputs(text, p->stream);
}

static void put_char(FILE *s, const char *text, int n)
{
    switch (*text) {
    case '<': (void)fputs("&lt;", s); break;
    case '>': (void)fputs("&gt;", s); break;
    case '&': (void)fputs("&amp;", s); break;
    case '"': (void)fputs("&quot;", s); break;
    default: (void)fwrite(text, 1, (size_t)n, s); break;
    }
}

/* Control characters are not allowed in HTML, and those that turn directions round would do so to the words that follow; bytes that
 * are not UTF-8 become the character made for that, and so do all of these. */
static void escaped(page *p, const char *text)
{
    if (!p || !text) return;
    while (*text) {
        unsigned code;
        int n = words_next(text, &code);
        if (words_control(code) && code != '\n' && code != '\t')
            (void)fputs("\xEF\xBF\xBD", p->stream);
        else
            put_char(p->stream, text, n);
        text += n;
    }
}

static void element(page *p, const char *open, const char *text, const char *close)
{
    raw(p, open);
    escaped(p, text);
    raw(p, close);
}

static void formatted(page *p, const char *open, const char *format, va_list list)
{
    if (!p) return;
    va_list again;
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, list);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text) {
        (void)vsnprintf(text, (size_t)n + 1, format, again);
        element(p, open, text, "</p>\n");
    } else {
        p->failed = 1;
    }
    va_end(again);
    free(text);
}

/* ---------------------------------------------------------------------------- the page */

page *page_new(const char *title, const char *subtitle)
{
    page *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->stream = open_memstream(&p->bytes, &p->size);
    if (!p->stream) {
        free(p);
        return NULL;
    }
    raw(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    element(p, "<title>", title, "</title>\n");
    raw(p, "<style>\n");
    raw(p, style);
    raw(p, "</style>\n</head>\n<body>\n<header>\n");
    element(p, "<h1>", title, "</h1>\n");
    if (subtitle) element(p, "<p class=\"subtitle\">", subtitle, "</p>\n");
    raw(p, "</header>\n");
    return p;
}

void page_free(page *p)
{
    if (!p) return;
    (void)fclose(p->stream);
    free(p->bytes);
    free(p);
}

void page_heading(page *p, const char *text) { element(p, "<h2>", text, "</h2>\n"); }

void page_subheading(page *p, const char *text) { element(p, "<h3>", text, "</h3>\n"); }

void page_paragraph(page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    formatted(p, "<p>", format, list);
    va_end(list);
}

void page_note(page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    formatted(p, "<p class=\"note\">", format, list);
    va_end(list);
}

void page_warnings(page *p, const json_t *summary)
{
    const json_t *list = json_object_get(summary, "warnings");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)))
            page_note(p, "Warning: %s.", json_string_value(json_array_get(list, i)));
}

void page_verdict(page *p, const json_t *summary)
{
    const json_t *verdict = json_object_get(summary, "verdict"), *reasons = json_object_get(verdict, "reasons");
    const char *status = json_string_value(json_object_get(verdict, "status"));
    if (!status) return;
    int good = strcmp(status, "converged") == 0, failed = strcmp(status, "failed") == 0,
        unknown = !failed && json_is_false(json_object_get(verdict, "judged"));
    raw(p, good      ? "<div class=\"verdict good\">"
           : unknown ? "<div class=\"verdict unknown\">"
                     : "<div class=\"verdict\">");
    element(p, "<b>", good ? "Converged" : failed ? "Failed" : unknown ? "Not judged" : "Not converged", "</b>\n");
    if (json_array_size(reasons) > 0) raw(p, "<ul>\n");
    for (size_t i = 0; i < json_array_size(reasons); i++)
        element(p, "<li>", json_string_value(json_array_get(reasons, i)), "</li>\n");
    raw(p, json_array_size(reasons) > 0 ? "</ul></div>\n" : "</div>\n");
}

void page_facts(page *p, const page_fact *fact, int n)
{
    if (n > 0) raw(p, "<div class=\"facts\">\n");
    for (int i = 0; i < n; i++) {
        element(p, "<div><b>", fact[i].value, "</b>");
        element(p, "<span>", fact[i].name, "</span></div>\n");
    }
    if (n > 0) raw(p, "</div>\n");
}

void page_code(page *p, const char *text) { element(p, "<pre>", text, "</pre>\n"); }

/* ---------------------------------------------------------------------------- tables */

static void cell(page *p, const char *tag, int column, const char *text, page_mark mark)
{
    static const char *const marks[] = {"", " strong", " dim", " warn"};
    if (!p) return;
    (void)fprintf(p->stream, "<%s class=\"%c%s\">", tag, p->align[column], marks[mark]);
    escaped(p, text);
    (void)fprintf(p->stream, "</%s>", tag);
}

void page_table(page *p, const char *caption, const char *align, const char *const *head)
{
    if (!p) return;
    (void)snprintf(p->align, sizeof p->align, "%s", align);
    raw(p, "<table>\n");
    if (caption) element(p, "<caption>", caption, "</caption>\n");
    if (head) raw(p, "<thead><tr>");
    for (int c = 0; head && p->align[c]; c++) cell(p, "th", c, head[c], PAGE_PLAIN);
    if (head) raw(p, "</tr></thead>\n");
    raw(p, "<tbody>\n");
}

void page_row(page *p, const char *const *cells, const page_mark *mark)
{
    if (!p) return;
    raw(p, "<tr>");
    for (int c = 0; p->align[c]; c++) cell(p, "td", c, cells[c], mark ? mark[c] : PAGE_PLAIN);
    raw(p, "</tr>\n");
}

void page_table_end(page *p) { raw(p, "</tbody>\n</table>\n"); }

/* ---------------------------------------------------------------------------- figures */

static void base64(FILE *s, const void *bytes, size_t left)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = bytes;
    for (; left > 0; b += 3, left -= left < 3 ? left : 3) {
        uint32_t v = (uint32_t)b[0] << 16 | (left > 1 ? (uint32_t)b[1] << 8 : 0) | (left > 2 ? b[2] : 0U);
        (void)putc(letters[v >> 18], s);
        (void)putc(letters[v >> 12 & 63], s);
        (void)putc(left > 1 ? letters[v >> 6 & 63] : '=', s);
        (void)putc(left > 2 ? letters[v & 63] : '=', s);
    }
}

static void link_to(page *p, const char *stem, const char *ending, const char *name)
{
    raw(p, "<a href=\"");
    escaped(p, stem);
    raw(p, ending);
    element(p, "\">", name, "</a>");
}

void page_figure(page *p, const char *svg, const char *alt, const char *caption, const char *stem)
{
    if (!p || !svg) return;
    element(p, "<figure>\n<img alt=\"", alt, "\" src=\"data:image/svg+xml;base64,");
    base64(p->stream, svg, strlen(svg));
    element(p, "\">\n<figcaption>", caption, "");
    if (stem) {
        raw(p, " <span class=\"files\">");
        link_to(p, stem, ".svg", "SVG");
        raw(p, " · ");
        link_to(p, stem, ".pdf", "PDF");
        raw(p, "</span>");
    }
    raw(p, "</figcaption>\n</figure>\n");
}

enum { PICTURE_BYTES = 1 << 25 };

void page_picture(page *p, const char *dir, const char *name, const char *alt, const char *caption)
{
    char path[FILES_PATH], ignored[64], *bytes = NULL;
    size_t size = 0;
    if (!p || files_join(path, dir, name, ignored, sizeof ignored)) return;
    if (files_read(path, PICTURE_BYTES, &bytes, &size, ignored, sizeof ignored)) return;
    element(p, "<figure>\n<img alt=\"", alt, "\" src=\"data:image/png;base64,");
    base64(p->stream, bytes, size);
    element(p, "\">\n<figcaption>", caption, " <span class=\"files\">");
    link_to(p, name, "", "PNG");
    raw(p, "</span></figcaption>\n</figure>\n");
    free(bytes);
}

void page_link(page *p, const char *words, const char *target)
{
    raw(p, "<p>");
    if (p) link_to(p, target, "", words);
    raw(p, "</p>\n");
}

/* ---------------------------------------------------------------------------- the end */

int page_write(page *p, const char *path, char *error, size_t room)
{
    static const char end[] = "</body>\n</html>\n";
    atomic_file f;
    if (!p || p->failed || fflush(p->stream) || ferror(p->stream))
        return files_fail(error, room, "no memory to write %s", path);
    if (atomic_open(&f, path, error, room)) return -1;
    atomic_put(&f, p->bytes, p->size);
    atomic_put(&f, end, sizeof end - 1);
    return atomic_close(&f, error, room);
}
