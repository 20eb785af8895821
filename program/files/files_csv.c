/* files_csv.c: tables of numbers and labels.
 *
 * The bytes are read two or three times: once to count fields and to check their form, once for the numbers, and once more,
 * in place, for the columns that turned out to be text. A number takes eight bytes of memory beside its text. */
#include "files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *p; /* the next byte; the whole ends with NUL */
    int64_t line;
    const char *path;
    char *begin, *end; /* the last field, inside its quotes */
    int quoted, last;  /* last: the record ends behind this field */
} walker;

static char *skip_blank_lines(walker *w)
{
    for (;;) {
        char *q = w->p;
        while (*q == ' ' || *q == '\t' || *q == '\r') q++;
        if (*q != '\n') return *q ? w->p : q;
        w->p = q + 1;
        w->line++;
    }
}

static int quoted_field(walker *w, char *error, size_t room)
{
    int64_t first = w->line;
    char *q = w->p + 1;
    for (w->begin = q;; q++) {
        if (*q == 0)
            return files_fail(error, room, "%s:%" PRId64 ": a quote is opened and never closed", w->path, first);
        if (*q == '\n') w->line++;
        if (*q != '"') continue;
        if (q[1] != '"') break;
        q++;
    }
    w->end = q++;
    while (*q == ' ' || *q == '\t' || *q == '\r') q++;
    w->p = q;
    if (*q == ',' || *q == '\n' || *q == 0) return 0;
    return files_fail(error, room, "%s:%" PRId64 ": something stands between a closing quote and the comma", w->path,
                      w->line);
}

static int next_field(walker *w, char *error, size_t room)
{
    while (*w->p == ' ' || *w->p == '\t') w->p++;
    w->quoted = *w->p == '"';
    if (w->quoted) {
        if (quoted_field(w, error, room)) return -1;
    } else {
        char *q = w->begin = w->p;
        while (*q && *q != ',' && *q != '\n' && *q != '"') q++;
        if (*q == '"')
            return files_fail(error, room, "%s:%" PRId64 ": a quote inside a field that does not begin with one",
                              w->path, w->line);
        w->p = w->end = q;
        while (w->end > w->begin && (w->end[-1] == ' ' || w->end[-1] == '\t' || w->end[-1] == '\r')) w->end--;
    }
    w->last = *w->p != ',';
    return 0;
}

/* Steps over what ends the field: apart from next_field, because text is cut off with a NUL at its end. */
static void pass_field(walker *w)
{
    if (*w->p == '\n') w->line++;
    if (*w->p) w->p++;
}

/* 1: a finite number; 0: nothing, or a number that is not finite; -1: something else. strtod
 * stops by itself at a comma, a quote or the end of a line. */
static int field_number(const walker *w, double *value)
{
    *value = NAN;
    if (w->begin == w->end) return 0;
    char *end = NULL;
    double v = *w->begin == ' ' || *w->begin == '\t' || *w->begin == '\n' ? 0.0 : strtod(w->begin, &end);
    if (end != w->end) return -1;
    *value = v;
    return isfinite(v) != 0;
}

/* The text of a field, ended by a NUL, with doubled quotes made single. */
static char *field_text(walker *w)
{
    char *out = w->begin;
    for (char *q = w->begin; q < w->end; q++) {
        *out++ = *q;
        if (w->quoted && *q == '"') q++;
    }
    *out = 0;
    return w->begin;
}

typedef struct {
    csv_options limit;
    csv_table *table;
    walker start; /* at the first record behind the header */
    char *error;
    size_t room;
} csv_job;

/* "5;2", as in 1,5;2,5: a separator between two numbers. */
static int is_pair(const walker *w)
{
    char *end = NULL;
    const char *semicolon = memchr(w->begin, ';', (size_t)(w->end - w->begin));
    if (!semicolon || semicolon == w->begin || semicolon + 1 == w->end) return 0;
    (void)strtod(w->begin, &end);
    if (end != semicolon) return 0;
    (void)strtod(semicolon + 1, &end);
    return end > semicolon + 1;
}

/* Whether the columns are separated by semicolons: one column of the first line has one, or a pair of numbers. */
static int by_semicolons(walker w, char *error, size_t room)
{
    for (int only = 1;; only = 0) {
        if (next_field(&w, error, room)) return 0;
        if (!w.quoted && ((only && w.last && memchr(w.begin, ';', (size_t)(w.end - w.begin))) || is_pair(&w))) return 1;
        if (w.last) return 0;
        pass_field(&w);
    }
}

static int first_line(csv_job *j, walker w, int *columns, int *is_header)
{
    int text = 0;
    double ignored;
    *columns = 0;
    do {
        if (next_field(&w, j->error, j->room)) return -1;
        if (++*columns > j->limit.max_columns)
            return files_fail(j->error, j->room, "%s:%" PRId64 ": more than %d columns", w.path, w.line,
                              j->limit.max_columns);
        text |= field_number(&w, &ignored) < 0;
        pass_field(&w);
    } while (!w.last);
    *is_header = j->limit.header == CSV_HEADER_GUESS ? text : j->limit.header == CSV_HEADER_YES;
    return 0;
}

static int count_rows(csv_job *j)
{
    walker w = j->start;
    csv_table *t = j->table;
    while (*skip_blank_lines(&w)) {
        int64_t line = w.line;
        int columns = 0;
        do {
            if (next_field(&w, j->error, j->room)) return -1;
            columns++;
            pass_field(&w);
        } while (!w.last);
        if (columns != t->columns)
            return files_fail(j->error, j->room, "%s:%" PRId64 ": %d field%s where the first line has %d", w.path, line,
                              columns, columns == 1 ? "" : "s", t->columns);
        if (++t->rows > j->limit.max_rows)
            return files_fail(j->error, j->room, "%s:%" PRId64 ": more than %" PRId64 " rows", w.path, line,
                              j->limit.max_rows);
    }
    return 0;
}

static int no_memory(const csv_job *j)
{
    return files_fail(j->error, j->room, "no memory for the table %s", j->table->path);
}

static int fill_numbers(csv_job *j)
{
    walker w = j->start;
    csv_table *t = j->table;
    for (int c = 0; c < t->columns; c++) {
        t->column[c].number = malloc(((size_t)t->rows + 1) * sizeof(double));
        if (!t->column[c].number) return no_memory(j);
    }
    for (int64_t r = 0; r < t->rows; r++) {
        (void)skip_blank_lines(&w);
        for (int c = 0; c < t->columns; c++) {
            csv_column *col = &t->column[c];
            int64_t line = w.line;
            if (next_field(&w, j->error, j->room)) return -1;
            int kind = field_number(&w, &col->number[r]);
            if (kind < 0 && !col->odd) col->odd = line;
            if (kind == 0 && !col->gap) col->gap = line;
            pass_field(&w);
        }
    }
    return 0;
}

static int fill_text(csv_job *j)
{
    walker w = j->start;
    csv_table *t = j->table;
    int any = 0;
    for (int c = 0; c < t->columns; c++) {
        csv_column *col = &t->column[c];
        if (!col->odd) continue;
        any = 1;
        free(col->number);
        col->number = NULL;
        col->text = calloc((size_t)t->rows + 1, sizeof(char *));
        if (!col->text) return no_memory(j);
    }
    for (int64_t r = 0; any && r < t->rows; r++) {
        (void)skip_blank_lines(&w);
        for (int c = 0; c < t->columns; c++) {
            if (next_field(&w, j->error, j->room)) return -1;
            pass_field(&w);
            if (t->column[c].text) t->column[c].text[r] = field_text(&w);
        }
    }
    return 0;
}

static int name_columns(csv_job *j, walker *w, int is_header)
{
    csv_table *t = j->table;
    for (int c = 0; c < t->columns; c++) {
        char plain[32], *name = plain;
        (void)snprintf(plain, sizeof plain, "c%d", c + 1);
        if (is_header) {
            if (next_field(w, j->error, j->room)) return -1;
            pass_field(w);
            name = field_text(w);
        }
        t->column[c].name = strdup(*name ? name : plain);
        if (!t->column[c].name) return no_memory(j);
    }
    return 0;
}

static int fill_table(csv_job *j, size_t size)
{
    csv_table *t = j->table;
    int is_header = 0, columns = 0;
    if (strlen(t->bytes) != size)
        return files_fail(j->error, j->room, "%s is not a CSV file: it holds zero bytes", t->path);
    walker w = {.p = t->bytes, .line = 1, .path = t->path};
    if (!strncmp(w.p, "\xEF\xBB\xBF", 3)) w.p += 3; /* the mark some spreadsheets put in front */
    if (!*skip_blank_lines(&w)) return files_fail(j->error, j->room, "%s is empty", t->path);
    if (first_line(j, w, &columns, &is_header)) return -1;
    if (by_semicolons(w, j->error, j->room))
        return files_fail(j->error, j->room,
                          "%s:%" PRId64 ": the columns are separated by ';'; expected ',' between columns and '.' in "
                          "numbers",
                          t->path, w.line);
    t->column = calloc((size_t)columns, sizeof *t->column);
    if (!t->column) return no_memory(j);
    t->columns = columns;
    if (name_columns(j, &w, is_header)) return -1;
    j->start = w;
    if (count_rows(j) || fill_numbers(j)) return -1;
    return fill_text(j);
}

int csv_read(const char *path, const csv_options *options, csv_table *out, char *error, size_t room)
{
    csv_job j = {.limit = options ? *options : (csv_options){0}, .table = out, .error = error, .room = room};
    size_t size = 0;
    *out = (csv_table){0};
    if (j.limit.max_bytes == 0) j.limit.max_bytes = (size_t)1 << 30;
    if (j.limit.max_rows == 0) j.limit.max_rows = INT64_MAX;
    if (j.limit.max_columns == 0) j.limit.max_columns = 65536;
    if (files_read(path, j.limit.max_bytes, &out->bytes, &size, error, room)) return -1;
    out->path = strdup(path);
    int status = out->path ? fill_table(&j, size) : files_fail(error, room, "no memory for the table %s", path);
    if (status) csv_free(out);
    return status;
}

void csv_free(csv_table *t)
{
    for (int c = 0; c < t->columns; c++) {
        free(t->column[c].name);
        free(t->column[c].number);
        free(t->column[c].text);
    }
    free(t->column);
    free(t->bytes);
    free(t->path);
    *t = (csv_table){0};
}

const csv_column *csv_find(const csv_table *t, const char *name)
{
    for (int c = 0; c < t->columns; c++)
        if (!strcmp(t->column[c].name, name)) return &t->column[c];
    return NULL;
}

int csv_needs_rows(const csv_table *t, char *error, size_t room)
{
    if (t->rows > 0) return 0;
    return files_fail(error, room,
                      "%s has a header of %d column%s ('%s'%s) and no rows below it; expected at least one", t->path,
                      t->columns, t->columns == 1 ? "" : "s", t->column[0].name, t->columns == 1 ? "" : ", ...");
}

int csv_numbers(const csv_table *t, int column, const double **out, char *error, size_t room)
{
    if (column < 0 || column >= t->columns)
        return files_fail(error, room, "%s has no column %d; it has %d", t->path, column + 1, t->columns);
    const csv_column *c = &t->column[column];
    if (c->odd)
        return files_fail(error, room, "%s:%" PRId64 ": column '%s' holds something that is not a number", t->path,
                          c->odd, c->name);
    if (c->gap)
        return files_fail(error, room, "%s:%" PRId64 ": column '%s' is empty or not finite", t->path, c->gap, c->name);
    *out = c->number;
    return 0;
}
