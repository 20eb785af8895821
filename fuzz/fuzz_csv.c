/* fuzz_csv.c: tables, read with each kind of header, and as points. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "job/points.h"

enum { LOOKED_FOR = 8 }; /* columns: csv_find goes through all of them, and a line of 2048 commas has as many */

/* Rows that miss a value in one of the first columns are gone afterwards. */
static void drop_gaps(csv_table *t)
{
    const int column[] = {0, 1};
    int columns = t->columns < 2 ? t->columns : 2;
    int64_t rows = t->rows, dropped = csv_drop_rows(t, column, columns);
    fuzz_must(t->rows + dropped == rows, "no row is lost");
    for (int64_t r = 0; r < t->rows; r++)
        for (int i = 0; i < columns; i++) fuzz_must(!csv_misses(t, column[i], r), "no gap stays");
}

static void look_at(const csv_table *t)
{
    char error[FUZZ_SENTENCE] = "";
    const double *number = NULL;
    size_t letters = 0;
    for (int c = 0; c < t->columns; c++) {
        const csv_column *column = &t->column[c];
        fuzz_must((column->number != NULL) != (column->text != NULL), "a column holds numbers or text");
        for (int64_t r = 0; column->text && r < t->rows; r++) letters += strlen(column->text[r]);
        fuzz_must(c >= LOOKED_FOR || csv_find(t, column->name) != NULL, "a column is found by its name");
        int status = csv_numbers(t, c, &number, error, sizeof error);
        fuzz_judge(status, error);
        for (int64_t r = 0; status == 0 && r < t->rows; r++) fuzz_must(isfinite(number[r]) != 0, "numbers are finite");
    }
    fuzz_must(letters < (size_t)1 << 40, "text ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    const char *path = fuzz_file("table.csv", data, size);
    double *x = NULL;
    int64_t rows = 0;
    for (int header = CSV_HEADER_GUESS; header <= CSV_HEADER_NO; header++) {
        csv_options options = {.header = (csv_header)header, .max_columns = header == CSV_HEADER_NO ? 20 : 0};
        csv_table t;
        int status = csv_read(path, &options, &t, error, sizeof error);
        fuzz_judge(status, error);
        if (status == 0) look_at(&t);
        if (status == 0) drop_gaps(&t);
        csv_free(&t);
    }
    fuzz_judge(points_load(path, 2, &x, &rows, error, sizeof error), error);
    free(x);
    points_gaps gaps = {.remedy = "drop", .drop = 1};
    fuzz_judge(points_load_data(path, 2, &gaps, &x, &rows, error, sizeof error), error);
    free(gaps.columns);
    free(x);
    return 0;
}
