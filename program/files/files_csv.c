/* files_csv.c: tables of numbers and labels.
 *
 * The first records tell what separates the columns. Then the bytes are read two or three times: once to count fields and to
 * check their form, once for the numbers, and once more, in place, for the columns that turned out to be text. A number takes
 * eight bytes of memory beside its text. Nothing is guessed where two readings are possible: then the table is refused. */
#include "files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *p; /* the next byte; the whole ends with NUL */
    int64_t line;
    const char *path;
    char separator;    /* ',', ';' or a tab */
    int skips_empty;   /* lines of separators alone are blank too: spreadsheets leave them behind the last row */
    char *begin, *end; /* the last field, inside its quotes */
    int quoted, last;  /* last: the record ends behind this field */
} walker;

static int is_blank(const walker *w, char c) { return (c == ' ' || c == '\t' || c == '\r') && c != w->separator; }

static char *skip_blank_lines(walker *w)
{
    for (;;) {
        char *q = w->p;
        while (is_blank(w, *q) || (w->skips_empty && *q == w->separator)) q++;
        if (*q != '\n') return *q ? w->p : q;
        w->p = q + 1;
        w->line++;
    }
}

static const char *separator_name(char separator)
{
    return separator == ',' ? "comma" : separator == ';' ? "semicolon" : "tab";
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
    while (is_blank(w, *q)) q++;
    w->p = q;
    if (*q == w->separator || *q == '\n' || *q == 0) return 0;
    return files_fail(error, room, "%s:%" PRId64 ": something stands between a closing quote and the %s", w->path,
                      w->line, separator_name(w->separator));
}

static int next_field(walker *w, char *error, size_t room)
{
    while (*w->p != '\r' && is_blank(w, *w->p)) w->p++;
    w->quoted = *w->p == '"';
    if (w->quoted) {
        if (quoted_field(w, error, room)) return -1;
    } else {
        char *q = w->begin = w->p;
        while (*q && *q != w->separator && *q != '\n' && *q != '"') q++;
        if (*q == '"')
            return files_fail(error, room, "%s:%" PRId64 ": a quote inside a field that does not begin with one",
                              w->path, w->line);
        w->p = w->end = q;
        while (w->end > w->begin && is_blank(w, w->end[-1])) w->end--;
    }
    w->last = *w->p != w->separator;
    return 0;
}

/* Steps over what ends the field: apart from next_field, because text is cut off with a NUL at its end. */
static void pass_field(walker *w)
{
    if (*w->p == '\n') w->line++;
    if (*w->p) w->p++;
}

int csv_is_missing(const char *text, size_t n)
{
    static const char *const words[] = {"",    "NA",   "na",   "N/A",  "n/a",  "#N/A", "#NA", "NaN",
                                        "nan", "<NA>", "NULL", "null", "None", "?",    "."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], text, n)) return 1;
    return 0;
}

typedef enum { FIELD_TEXT, FIELD_MISSING, FIELD_NUMBER } field_kind;

/* Infinities are numbers here. strtod stops by itself at a separator, a quote or the end of a line. */
static field_kind field_number(const walker *w, double *value)
{
    *value = NAN;
    if (csv_is_missing(w->begin, (size_t)(w->end - w->begin))) return FIELD_MISSING;
    char *end = NULL;
    double v = *w->begin == ' ' || *w->begin == '\t' || *w->begin == '\n' ? 0.0 : strtod(w->begin, &end);
    if (end != w->end) return FIELD_TEXT;
    *value = v;
    return isnan(v) ? FIELD_MISSING : FIELD_NUMBER;
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

/* ---------------------------------------------------------------------------- separators and the first line */

/* Fields of the next record; 0: there is none; -1: it has no legal form. */
static int fields_of(walker *w, int *empty_end)
{
    int fields = 0;
    if (!*skip_blank_lines(w)) return 0;
    do {
        if (next_field(w, NULL, 0)) return -1;
        fields++;
        *empty_end = !w->quoted && w->begin == w->end;
        pass_field(w);
    } while (!w->last);
    return fields;
}

/* Whether the first records have more than one field with this separator, and all the same number; 0: they have one field, or
 * no form; -1: their numbers differ. A separator at the end of a line counts or does not. */
static int fits(walker w, char separator)
{
    enum { LOOKED_AT = 20 };
    int empty_end = 0, at_first = 0, n;
    w.separator = separator;
    int first = fields_of(&w, &at_first);
    if (first < 2) return 0;
    for (int k = 1; k < LOOKED_AT && (n = fields_of(&w, &empty_end)) != 0; k++)
        if (n < 0 || (n != first && !(n == first + 1 && empty_end) && !(n == first - 1 && at_first))) return -1;
    return 1;
}

/* A first line such as sep=; is what spreadsheets leave for one another. */
static char told_separator(walker *w)
{
    char *q = w->p, separator;
    if (strncmp(q, "sep=", 4) != 0 || !strchr(",;\t", q[4]) || !q[4]) return 0;
    separator = q[4];
    q += 5;
    while (*q == '\r') q++;
    if (*q != '\n') return 0;
    w->p = q + 1;
    w->line++;
    return separator;
}

static int choose_separator(csv_job *j, walker *w)
{
    static const char known[] = {',', ';', '\t'};
    char fitting[sizeof known], ragged[sizeof known];
    int fit = 0, uneven = 0;
    w->separator = told_separator(w);
    if (w->separator) return 0;
    for (size_t i = 0; i < sizeof known; i++) {
        int how = fits(*w, known[i]);
        if (how > 0) fitting[fit++] = known[i];
        if (how < 0) ragged[uneven++] = known[i];
    }
    w->separator = ',';
    if (fit > 1)
        return files_fail(j->error, j->room,
                          "%s:%" PRId64 ": a %s or a %s may separate the columns; expected one of them, and '.' in "
                          "numbers",
                          w->path, w->line, separator_name(fitting[0]), separator_name(fitting[1]));
    if (fit == 1) w->separator = fitting[0];
    if (fit == 0 && uneven == 1) w->separator = ragged[0];
    return 0;
}

typedef struct {
    int columns, text, numbers, fractions; /* fractions: numbers that are not made of digits alone, and so no names */
    int counted; /* the fields from `index` on are 0, 1, 2, ..., which pandas gives to columns without names */
    int index;   /* the first field is empty, as above pandas' index of the rows */
} first_record;

static int all_digits(const walker *w)
{
    const char *q = w->begin;
    while (q < w->end && *q >= '0' && *q <= '9') q++;
    return q == w->end;
}

static int look_at_first(const csv_job *j, walker w, first_record *out)
{
    double value;
    *out = (first_record){.counted = 1, .index = 0};
    do {
        if (next_field(&w, j->error, j->room)) return -1;
        if (++out->columns > j->limit.max_columns)
            return files_fail(j->error, j->room, "%s:%" PRId64 ": more than %d columns", w.path, w.line,
                              j->limit.max_columns);
        field_kind kind = field_number(&w, &value);
        if (out->columns == 1) out->index = w.begin == w.end;
        if (out->columns > out->index && !(value == out->columns - 1 - out->index)) out->counted = 0;
        out->text += kind == FIELD_TEXT;
        out->numbers += kind == FIELD_NUMBER;
        out->fractions += kind == FIELD_NUMBER && !w.quoted && !all_digits(&w);
        pass_field(&w);
    } while (!w.last);
    return 0;
}

/* Whether text stands above a number, or a quoted field above one without quotes. */
static int stands_above(walker first, walker second)
{
    double ignored;
    do {
        if (next_field(&first, NULL, 0) || next_field(&second, NULL, 0)) return 0;
        if (first.quoted && !second.quoted && second.begin != second.end) return 1;
        if (field_number(&first, &ignored) == FIELD_TEXT && field_number(&second, &ignored) == FIELD_NUMBER) return 1;
        pass_field(&first);
        pass_field(&second);
    } while (!first.last && !second.last);
    return 0;
}

static int may_be_either(const csv_job *j, const walker *w, const char *what)
{
    return files_fail(j->error, j->room,
                      "%s:%" PRId64
                      ": the first line %s and may be a row or the names of the columns; expected a first line of "
                      "names, those that are numbers in quotes",
                      w->path, w->line, what);
}

/* Whether the record at `w` holds names. Text alone does. Text beside numbers may be names such as 1990, or a row with a
 * label: the record below it decides. */
static int find_header(const csv_job *j, walker w, const first_record *r, int *is_header)
{
    walker second = w;
    int ignored;
    *is_header = j->limit.header == CSV_HEADER_YES || (j->limit.header == CSV_HEADER_GUESS && r->text > 0);
    if (j->limit.header != CSV_HEADER_GUESS || r->numbers == 0) return 0;
    if (r->counted && r->numbers > 1) *is_header = r->index;
    if (r->counted && r->numbers > 2 && !r->index) return may_be_either(j, &w, "counts 0, 1, 2, ...");
    if (r->text == 0) return 0;
    (void)fields_of(&second, &ignored);
    if (!*skip_blank_lines(&second)) return 0;
    int above = stands_above(w, second);
    *is_header = above;
    return above != (r->fractions > 0) ? 0 : may_be_either(j, &w, "has text and numbers");
}

/* ---------------------------------------------------------------------------- rows */

/* Empty fields behind the last column. */
static int pass_end(walker *w, char *error, size_t room)
{
    while (!w->last) {
        if (next_field(w, error, room)) return -1;
        pass_field(w);
    }
    return 0;
}

static int count_rows(csv_job *j)
{
    walker w = j->start;
    csv_table *t = j->table;
    while (*skip_blank_lines(&w)) {
        int64_t line = w.line;
        int columns = 0, empty = 0;
        do {
            if (next_field(&w, j->error, j->room)) return -1;
            columns++;
            empty = !w.quoted && w.begin == w.end;
            pass_field(&w);
        } while (!w.last);
        if (columns != t->columns && !(empty && columns == t->columns + 1))
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

/* The beginning of a field; no character is cut. */
static void copy_start(const walker *w, char *out, size_t room)
{
    size_t n = (size_t)(w->end - w->begin);
    if (n >= room)
        for (n = room - 1; n > 0 && ((unsigned char)w->begin[n] & 0xC0) == 0x80;) n--;
    memcpy(out, w->begin, n);
    out[n] = 0;
}

/* What a field says of its column. */
static void note_field(csv_column *col, const walker *w, field_kind kind, double value, int64_t line)
{
    col->filled |= w->end > w->begin;
    if (kind == FIELD_TEXT && !col->odd) {
        col->odd = line;
        copy_start(w, col->odd_text, sizeof col->odd_text);
    }
    if (kind == FIELD_MISSING && !col->gap) {
        col->gap = line;
        copy_start(w, col->gap_text, sizeof col->gap_text);
    }
    if (kind == FIELD_NUMBER && isinf(value) && !col->infinite) col->infinite = line;
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
            field_kind kind = field_number(&w, &col->number[r]);
            note_field(col, &w, kind, col->number[r], line);
            pass_field(&w);
        }
        if (pass_end(&w, j->error, j->room)) return -1;
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
        if (pass_end(&w, j->error, j->room)) return -1;
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
        t->column[c].unnamed = !*name;
        t->column[c].name = strdup(*name ? name : plain);
        if (!t->column[c].name) return no_memory(j);
    }
    return 0;
}

static void drop_column(csv_table *t)
{
    csv_column *last = &t->column[--t->columns];
    free(last->name);
    free(last->number);
    free(last->text);
}

/* A separator at the end of the header and not of the rows. */
static void drop_unnamed_end(csv_job *j)
{
    walker w = j->start;
    int ignored;
    csv_table *t = j->table;
    if (t->columns > 1 && t->column[t->columns - 1].unnamed && fields_of(&w, &ignored) == t->columns - 1)
        drop_column(t);
}

static int check_bytes(const csv_job *j, size_t size)
{
    const unsigned char *b = (const unsigned char *)j->table->bytes;
    if (size > 1 && ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF)))
        return files_fail(j->error, j->room,
                          "%s is text in UTF-16; expected UTF-8, which spreadsheets offer as CSV UTF-8",
                          j->table->path);
    if (strlen(j->table->bytes) == size) return 0;
    return files_fail(j->error, j->room, "%s is not a CSV file: it holds zero bytes", j->table->path);
}

/* Lines that end in a carriage return alone. */
static void mend_line_ends(char *bytes)
{
    if (strchr(bytes, '\n')) return;
    for (char *q = bytes; (q = strchr(q, '\r')) != NULL;) *q = '\n';
}

static int fill_table(csv_job *j, size_t size)
{
    csv_table *t = j->table;
    int is_header = 0;
    first_record first;
    if (check_bytes(j, size)) return -1;
    mend_line_ends(t->bytes);
    walker w = {.p = t->bytes, .line = 1, .path = t->path, .separator = ','};
    if (!strncmp(w.p, "\xEF\xBB\xBF", 3)) w.p += 3; /* the mark some spreadsheets put in front */
    if (!*skip_blank_lines(&w)) return files_fail(j->error, j->room, "%s is empty", t->path);
    if (choose_separator(j, &w)) return -1;
    if (!*skip_blank_lines(&w)) return files_fail(j->error, j->room, "%s is empty", t->path);
    if (look_at_first(j, w, &first) || find_header(j, w, &first, &is_header)) return -1;
    t->column = calloc((size_t)first.columns, sizeof *t->column);
    if (!t->column) return no_memory(j);
    t->columns = first.columns;
    if (name_columns(j, &w, is_header)) return -1;
    w.skips_empty = t->columns > 1;
    j->start = w;
    if (is_header) drop_unnamed_end(j);
    if (count_rows(j) || fill_numbers(j)) return -1;
    for (const csv_column *last; t->columns > 1 && t->rows > 0;) {
        last = &t->column[t->columns - 1];
        if (last->filled || (is_header && !last->unnamed)) break;
        drop_column(t);
    }
    return 0;
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
    if (!status) status = fill_text(&j);
    if (status) csv_free(out);
    return status;
}

void csv_free(csv_table *t)
{
    while (t->columns > 0) drop_column(t);
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

/* 1,5 or -1,5e3. */
int csv_has_comma(const csv_column *c)
{
    const char *text = c->odd_text;
    size_t sign = *text == '-' || *text == '+', whole = strspn(text + sign, "0123456789"), comma = sign + whole,
           part = text[comma] == ',' ? strspn(text + comma + 1, "0123456789") : 0;
    const char *rest = text + comma + 1 + part;
    return part > 0 && (*rest == 0 || *rest == 'e' || *rest == 'E');
}

int csv_numbers(const csv_table *t, int column, const double **out, char *error, size_t room)
{
    if (column < 0 || column >= t->columns)
        return files_fail(error, room, "%s has no column %d; it has %d", t->path, column + 1, t->columns);
    const csv_column *c = &t->column[column];
    if (c->odd && csv_has_comma(c))
        return files_fail(error, room,
                          "%s:%" PRId64 ": column '%s' holds '%s', a number with a comma; expected a point, as in 1.5",
                          t->path, c->odd, c->name, c->odd_text);
    if (c->odd)
        return files_fail(error, room, "%s:%" PRId64 ": column '%s' holds '%s', which is not a number", t->path, c->odd,
                          c->name, c->odd_text);
    if (c->infinite)
        return files_fail(error, room, "%s:%" PRId64 ": column '%s' holds a number that is not finite", t->path,
                          c->infinite, c->name);
    if (c->gap) return csv_gap(t, column, error, room);
    *out = c->number;
    return 0;
}

int csv_gap(const csv_table *t, int column, char *error, size_t room)
{
    const csv_column *c = &t->column[column];
    return *c->gap_text ? files_fail(error, room, "%s:%" PRId64 ": column '%s' has '%s' for a missing value", t->path,
                                     c->gap, c->name, c->gap_text)
                        : files_fail(error, room, "%s:%" PRId64 ": column '%s' is empty: a value is missing", t->path,
                                     c->gap, c->name);
}

int csv_misses(const csv_table *t, int column, int64_t row)
{
    const csv_column *c = &t->column[column];
    return c->text ? csv_is_missing(c->text[row], strlen(c->text[row])) : isnan(c->number[row]);
}

int64_t csv_drop_rows(csv_table *t, const int *column, int columns)
{
    int64_t kept = 0, before = t->rows;
    for (int64_t r = 0; r < before; r++) {
        int gap = 0;
        for (int i = 0; i < columns && !gap; i++) gap = csv_misses(t, column[i], r);
        if (gap) continue;
        for (int c = 0; c < t->columns && kept < r; c++) {
            if (t->column[c].text) t->column[c].text[kept] = t->column[c].text[r];
            if (t->column[c].number) t->column[c].number[kept] = t->column[c].number[r];
        }
        kept++;
    }
    t->rows = kept;
    for (int i = 0; i < columns; i++) t->column[column[i]].gap = 0;
    return before - kept;
}
