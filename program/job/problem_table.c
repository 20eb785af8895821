/* problem_table.c: CSV files as the models that read observations see them: columns by the names of a run file, labels in words,
 * values that are missing, and columns that are no observations but count or name the rows.
 *
 * Invariant: what could mean two things is refused with the key that decides it; rows that are left out are counted and told. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "files/files.h"
#include "problem_inside.h"

/* Whether two names differ in blanks and in small and capital letters alone. */
static int alike(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == ' ') a++;
        while (*b == ' ') b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return 0;
        if (!*a) return 1;
    }
}

static const char *nearly(const csv_table *t, const char *name)
{
    for (int c = 0; c < t->columns; c++)
        if (alike(t->column[c].name, name)) return t->column[c].name;
    return NULL;
}

/* 'a', 'b', 'c', ... */
enum { NAMES = 200 };
static const char *list_columns(const csv_table *t, char out[NAMES])
{
    enum { LISTED = 6 };
    size_t used = 0;
    for (int c = 0; c < t->columns && c < LISTED; c++)
        used += (size_t)snprintf(out + used, NAMES - used, "%s'%.24s'", c ? ", " : "", t->column[c].name);
    if (t->columns > LISTED) (void)snprintf(out + used, NAMES - used, ", ...");
    return out;
}

int job_column(const builder *b, const csv_table *t, const char *path)
{
    int number = config_column(b->c, path);
    if (number > 0) {
        if (number <= t->columns) return number - 1;
        (void)job_wrong(b, path, "is %d; %s has %d columns", number, t->path, t->columns);
        return -1;
    }
    char names[NAMES];
    const csv_column *found = csv_find(t, config_text(b->c, path));
    int first = found ? (int)(found - t->column) : -1, again = first + 1;
    while (found && again < t->columns && strcmp(t->column[again].name, found->name) != 0) again++;
    if (found && again < t->columns) { /* which of the two is meant nobody can tell */
        (void)job_wrong(b, path,
                        "is '%s', which names columns %d and %d of %s; give the number of the one that is meant",
                        found->name, first + 1, again + 1, t->path);
        return -1;
    }
    if (found) return first;
    const char *near = nearly(t, config_text(b->c, path));
    if (near)
        (void)job_wrong(b, path, "is '%s'; %s has no such column, but one that is called '%s'", config_text(b->c, path),
                        t->path, near);
    else
        (void)job_wrong(b, path, "is '%s'; %s has no such column; its columns are %s", config_text(b->c, path), t->path,
                        list_columns(t, names));
    return -1;
}

int job_read_table(builder *b, const char *path, csv_table *out)
{
    *b->io = 1;
    if (csv_read(config_text(b->c, path), NULL, out, b->error, b->room)) return -1;
    if (csv_needs_rows(out, b->error, b->room)) {
        csv_free(out);
        return -1;
    }
    *b->io = 0;
    return 0;
}

/* ---------------------------------------------------------------------------- missing values */

/* The first line that misses a value; the column, or -1. */
static int first_gap(const csv_table *t, const int *column, int columns)
{
    int found = -1;
    for (int i = 0; i < columns; i++) {
        int64_t line = t->column[column[i]].gap;
        if (line && (found < 0 || line < t->column[found].gap)) found = column[i];
    }
    return found;
}

int job_settle_missing(builder *b, csv_table *t, const int *column, int columns, const char *key)
{
    char where[512], remedy[64];
    int gap = first_gap(t, column, columns);
    int64_t rows = t->rows;
    int drops = is(b, key, "drop"); /* asked for in any case: the key is never ignored */
    if (gap < 0) return 0;
    (void)csv_gap(t, gap, where, sizeof where);
    if (!drops)
        return files_fail(b->error, b->room, "%s; fill it in, or write %s: drop to leave such rows out", where, key);
    int64_t dropped = csv_drop_rows(t, column, columns);
    if (t->rows == 0)
        return files_fail(b->error, b->room, "%s; every row misses a value, and %s: drop leaves none", where, key);
    (void)snprintf(remedy, sizeof remedy, "%s: drop", key);
    job_left_rows(b, t->path, rows, dropped, remedy);
    return 0;
}

void job_left_rows(builder *b, const char *path, int64_t rows, int64_t dropped, const char *remedy)
{
    if (dropped == 0) return;
    b->p->left_out += dropped;
    job_note(b, "of the %" PRId64 " rows of %.200s %" PRId64 " %s a missing value and %s left out (%s)", rows,
             files_last_part(path), dropped, dropped == 1 ? "has" : "have", dropped == 1 ? "is" : "are", remedy);
}

/* ---------------------------------------------------------------------------- words */

int job_holds(const csv_column *c, int64_t row, const char *wanted)
{
    if (c->text) return strcmp(c->text[row], wanted) == 0;
    char *end;
    double value = strtod(wanted, &end);
    return *wanted && !*end && c->number[row] == value;
}

enum { LABELS = 3 };

/* The rows of the first different values of a column: at most three of them. */
static int different_values(const csv_table *t, int column, int64_t row[LABELS])
{
    const csv_column *c = &t->column[column];
    int n = 0;
    for (int64_t r = 0; r < t->rows && n < LABELS; r++) {
        int i = 0;
        while (i < n && (c->text ? strcmp(c->text[r], c->text[row[i]]) != 0 : c->number[r] != c->number[row[i]])) i++;
        if (i == n) row[n++] = r;
    }
    return n;
}

static const char *value_text(const csv_column *c, int64_t row, char out[32])
{
    return c->text ? c->text[row] : files_number(c->number[row], out);
}

/* Whether the column holds nothing but 0 and 1. */
static int is_binary(const csv_column *c, const int64_t row[LABELS], int n)
{
    for (int i = 0; i < n; i++)
        if (c->text || (c->number[row[i]] != 0 && c->number[row[i]] != 1)) return 0;
    return n < LABELS;
}

static int refuse_labels(const builder *b, const csv_table *t, int column, const int64_t row[LABELS], int n)
{
    const csv_column *c = &t->column[column];
    char one[32], two[32], three[32];
    const char *a = value_text(c, row[0], one), *d = n > 1 ? value_text(c, row[1], two) : "";
    if (n == 1)
        return job_wrong(b, "model.label",
                         "names column '%.60s' of %s, which holds nothing but '%.60s'; expected 0 and 1", c->name,
                         t->path, a);
    if (n > 2)
        return job_wrong(
            b, "model.label",
            "names column '%.60s' of %s, which holds '%.60s', '%.60s', '%.60s' and maybe more; expected two "
            "values, 0 and 1",
            c->name, t->path, a, d, value_text(c, row[2], three));
    return job_wrong(b, "model.label",
                     "names column '%.60s' of %s, which holds '%.60s' and '%.60s'; expected 0 and 1, or model.positive "
                     "to say which of the two is 1, such as model.positive: %.60s",
                     c->name, t->path, a, d, d);
}

int job_labels(const builder *b, const csv_table *t, int column, double *out)
{
    const csv_column *c = &t->column[column];
    const char *positive = config_has(b->c, "model.positive") ? config_text(b->c, "model.positive") : NULL;
    char one[32], two[32];
    int64_t row[LABELS] = {0};
    int n = different_values(t, column, row), found = !positive;
    if (n > 2 || (!positive && !is_binary(c, row, n))) return refuse_labels(b, t, column, row, n);
    for (int i = 0; i < n && positive; i++) found |= job_holds(c, row[i], positive);
    if (!found)
        return job_wrong(b, "model.positive", "is '%.60s'; column '%.60s' of %s holds '%.60s'%s%.60s%s", positive,
                         c->name, t->path, value_text(c, row[0], one), n > 1 ? " and '" : "",
                         n > 1 ? value_text(c, row[1], two) : "", n > 1 ? "'" : "");
    for (int64_t r = 0; r < t->rows; r++) out[r] = positive ? job_holds(c, r, positive) : c->number[r];
    return 0;
}

/* ---------------------------------------------------------------------------- identifiers */

/* id, ID, patient_id, patientId, index, rownames; a column without a name is what pandas and R write in front of a table. */
static int named_as_identifier(const csv_column *c)
{
    static const char *const words[] = {"id",     "idx",    "index",   "row",     "rowname",   "rownames",
                                        "row.id", "rowid",  "subject", "patient", "record",    "case",
                                        "uuid",   "serial", "key",     "obs",     "unnamed: 0"};
    size_t n = strlen(c->name);
    if (c->unnamed) return 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(c->name, words[i]) == 0) return 1;
    if (n < 3) return 0;
    const char *end = c->name + n - 2;
    return strcmp(end, "Id") == 0 || strcmp(end, "ID") == 0 || (strcasecmp(end, "id") == 0 && strchr("_-. ", end[-1]));
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 1: all are different; 0: not, or there is no memory to tell. */
static int all_different(const double *v, int64_t n)
{
    double *sorted = malloc((size_t)n * sizeof *sorted + 1);
    int different = sorted != NULL;
    if (!sorted) return 0;
    memcpy(sorted, v, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_numbers);
    for (int64_t r = 1; r < n && different; r++) different = sorted[r] != sorted[r - 1];
    free(sorted);
    return different;
}

job_identifier job_looks_like_identifier(const csv_table *t, int column)
{
    enum { FEW = 10, MANY = 20 }; /* of fewer rows, values that rise, or are all different, say little */
    const csv_column *c = &t->column[column];
    int rises = 1;
    if (!c->number || t->rows < 2) return JOB_NO_IDENTIFIER;
    for (int64_t r = 0; r < t->rows; r++) {
        if (!(c->number[r] == floor(c->number[r]))) return JOB_NO_IDENTIFIER; /* a gap is no whole number either */
        rises = rises && (r == 0 || c->number[r] > c->number[r - 1]);
    }
    if (rises && t->rows >= FEW) return JOB_IDENTIFIER;
    if (!rises && !all_different(c->number, t->rows)) return JOB_NO_IDENTIFIER;
    if (named_as_identifier(c)) return JOB_IDENTIFIER;
    return t->rows >= MANY ? JOB_PERHAPS_IDENTIFIER : JOB_NO_IDENTIFIER;
}
