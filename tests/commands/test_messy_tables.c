/* test_messy_tables.c: tables as people have them, as they meet the program: what is read, what is left out and told, and what is
 * refused with the key to write. The names of test_tables.c are those of the reader alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error

enum { ROWS = 24, TEXT = 4096 };

/* How a table is written: the fields of row r are an identifier (where `id` names it), x1, x2 and the label. */
typedef struct {
    const char *separator, *end, *id, *yes, *no;
    int shuffled; /* the identifier does not rise */
} style;

static void write_table(const char *name, const style *s, const char *header)
{
    char text[TEXT];
    size_t used = (size_t)snprintf(text, sizeof text, "%s%s", header, s->end);
    for (int r = 0; r < ROWS; r++) {
        double x1 = 0.25 * ((r * 7) % ROWS) - 3, x2 = 0.125 * ((r * 11) % ROWS);
        if (s->id)
            used += (size_t)snprintf(text + used, sizeof text - used, "%d%s", s->shuffled ? (r * 5) % ROWS : r,
                                     s->separator);
        used += (size_t)snprintf(text + used, sizeof text - used, "%g%s%g%s%s%s", x1, s->separator, x2, s->separator,
                                 (r * 7) % ROWS + r % 3 > 12 ? s->yes : s->no, s->end);
    }
    runtext_save(folder_path(folder, name), text);
}

static const style plain = {",", "\n", NULL, "1", "0", 0};

/* What a run of a few iterations says; `more` are keys of the model. */
static const char *run_says(int code, const char *table, const char *more)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "model: {type: logistic_regression, data: %s, label: y%s}\nobjective: mmle\nparticles: 64\n"
                   "iterations: 3\njudge: none\noutput: {report: false}\n",
                   table, more);
    runtext_save(folder_path(folder, "r.yaml"), text);
    return program_says(folder, code, "run r.yaml --out o --overwrite --quiet");
}

static void theta_of(const char *file, char out[64])
{
    char *text = runtext_read(folder_path(folder, file)), *at = text ? strstr(text, "\"state_hash\"") : NULL;
    if (!at) fail_msg("%s has no hash", file);
    (void)snprintf(out, 64, "%.*s", (int)strcspn(at, "\n"), at);
    free(text);
}

/* The same numbers give the same run, whoever wrote them. */
static void tables_that_mean_the_same(void **state)
{
    static const style styles[] = {{";", "\n", NULL, "1", "0", 0},      {"\t", "\n", NULL, "1", "0", 0},
                                   {",", "\r\n", NULL, "1", "0", 0},    {",", ",\n", NULL, "1", "0", 0},
                                   {",", "\n", "", "ill", "well", 0},   {";", "\r\n", "id", "\"ill\"", "\"well\"", 0},
                                   {",", "\n", "", "TRUE", "FALSE", 1}, {",", "\n", NULL, "2", "1", 0},
                                   {",", "\n\n", NULL, "1.0", "0.0", 0}};
    static const char *const headers[] = {"x1;x2;y",      "x1\tx2\ty",   "\xEF\xBB\xBFx1,x2,y",
                                          "x1,x2,y",      ",x1,x2,y",    "\"id\";\"x1\";\"x2\";\"y\"",
                                          "\"\",x1,x2,y", "x1,x2,\"y\"", "x1 , x2,y"};
    static const char *const more[] = {"",
                                       "",
                                       "",
                                       "",
                                       ", positive: ill, exclude: [1]",
                                       ", positive: ill, exclude: [id]",
                                       ", positive: 'TRUE', features: [x1, x2]",
                                       ", positive: 2",
                                       ""};
    char first[64], other[64];
    write_table("plain.csv", &plain, "x1,x2,y");
    assert_string_equal(run_says(0, "plain.csv", ""), "");
    theta_of("o/summary.json", first);
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        write_table("t.csv", &styles[i], headers[i]);
        assert_string_equal(run_says(0, "t.csv", more[i]), "");
        theta_of("o/summary.json", other);
        if (strcmp(first, other) != 0) fail_msg("table %zu gives another run", i);
    }
}

static void labels_are_not_guessed(void **state)
{
    static const style words = {",", "\n", NULL, "malignant", "benign", 0}, numbers = {",", "\n", NULL, "2", "1", 0};
    write_table("t.csv", &words, "x1,x2,y");
    const char *said = run_says(2, "t.csv", "");
    assert_contains(said, "r.yaml:1: model.label names column 'y' of ");
    assert_contains(said, "which holds 'benign' and 'malignant'; expected 0 and 1, or model.positive to say which");
    assert_contains(said, "such as model.positive: malignant");
    assert_contains(run_says(2, "t.csv", ", positive: Malignant"), "model.positive is 'Malignant'; column 'y' of ");
    runtext_save(folder_path(folder, "three.csv"), "x,y\n1,a\n2,b\n3,c\n1,a\n2,c\n");
    assert_contains(run_says(2, "three.csv", ""), "which holds 'a', 'b', 'c' and maybe more; expected two values");
    assert_contains(run_says(2, "three.csv", ", positive: a"), "which holds 'a', 'b', 'c' and maybe more");
    runtext_save(folder_path(folder, "one.csv"), "x,y\n1,a\n2,a\n4,a\n");
    assert_contains(run_says(2, "one.csv", ""), "which holds nothing but 'a'; expected 0 and 1");
    write_table("t.csv", &numbers, "x1,x2,y");
    assert_contains(run_says(2, "t.csv", ""), "which holds '1' and '2'; expected 0 and 1, or model.positive");
}

static void identifiers_are_no_features(void **state)
{
    static const style rising = {",", "\n", "", "1", "0", 0}, mixed = {",", "\n", "", "1", "0", 1};
    write_table("t.csv", &rising, ",x1,x2,y");
    const char *said = run_says(2, "t.csv", "");
    assert_contains(said, "column 'c1' counts or names the rows, as an identifier does, and would be a feature");
    assert_contains(said, "leave it out with model.exclude: ['c1'], or name it in model.features if it is one");
    assert_string_equal(run_says(0, "t.csv", ", features: [1, x1]"), "");
    write_table("t.csv", &mixed, "patient_id,x1,x2,y");
    assert_contains(run_says(2, "t.csv", ""), "column 'patient_id' counts or names the rows");
    write_table("t.csv", &mixed, "income,x1,x2,y");
    assert_contains(
        run_says(0, "t.csv", ""),
        "warning: column 'income' of t.csv has a different whole number in every row; if it is an identifier");
    runtext_save(folder_path(folder, "names.csv"), "who,x,y\nAda,1,0\nBen,2,1\nCyd,4,0\nDan,3,1\n");
    assert_contains(
        run_says(2, "names.csv", ""),
        "names.csv:2: column 'who' holds 'Ada', which is not a number; leave the column out with model.exclude");
    assert_contains(run_says(2, "names.csv", ", exclude: [Who]"), "has no such column, but one that is called 'who'");
    assert_contains(run_says(2, "names.csv", ", exclude: [when]"),
                    "has no such column; its columns are 'who', 'x', 'y'");
    assert_contains(run_says(2, "names.csv", ", features: [x, 2]"), "names column 'x', which is a feature already");
    assert_contains(run_says(2, "names.csv", ", features: [x], exclude: [x]"), "which model.exclude leaves out");
    runtext_save(folder_path(folder, "twice.csv"), "a,a,y\n1,3,0\n2,0,1\n4,1,0\n1,2,1\n");
    assert_contains(run_says(0, "twice.csv", ""), "columns 1 and 2 of twice.csv are both called 'a'");
}

/* Without model.column the first column holds the observations, but not where it counts the rows. */
static void observations_are_not_row_numbers(void **state)
{
    char text[512] = ",y\n";
    size_t used = strlen(text);
    for (int r = 0; r < 12; r++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,%g\n", r, 0.5 * ((r * 5) % 12));
    runtext_save(folder_path(folder, "h.csv"), text);
    runtext_save(folder_path(folder, "h.yaml"), "model: {type: hierarchical_gaussian, data: h.csv}\nobjective: mmle\n");
    assert_contains(program_says(folder, 2, "run h.yaml --out o --overwrite --quiet"),
                    "model.column is 1, the column 'c1' of ");
    (void)program_says(folder, 0, "run h.yaml --out o --overwrite --quiet --set model.column=y");
    runtext_save(folder_path(folder, "p.csv"), ",a,b\n0,1,2\n1,3,5\n2,0.5,1\n");
    runtext_save(folder_path(folder, "p.yaml"), "model: {type: gaussian_mixture, means: [[-1, 0], [1, 0]]}\n"
                                                "objective: {type: ebm_likelihood, data: p.csv}\niterations: 2\n");
    assert_contains(program_says(folder, 4, "run p.yaml --out o --overwrite --quiet"),
                    "has 3 columns; expected 2, the dimension of the model (the first counts or names the rows");
}

static const char *const gaps[] = {"", "NA", "NaN", "?", "null", "N/A", "#N/A", "None", "."};

/* A line with a gap behind the others. */
static void write_gap(const char *gap)
{
    char line[64], *text;
    write_table("g.csv", &plain, "x1,x2,y");
    text = runtext_read(folder_path(folder, "g.csv"));
    assert_non_null(text);
    text = realloc(text, strlen(text) + sizeof line);
    assert_non_null(text);
    (void)snprintf(line, sizeof line, "7,%s,1\n", gap);
    strcat(text, line);
    runtext_save(folder_path(folder, "g.csv"), text);
    free(text);
}

static void missing_values_are_told(void **state)
{
    char hash[64], other[64];
    write_table("plain.csv", &plain, "x1,x2,y");
    (void)run_says(0, "plain.csv", "");
    theta_of("o/summary.json", hash);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        write_gap(gaps[i]);
        const char *said = run_says(2, "g.csv", "");
        assert_contains(said, "g.csv:26: column 'x2' ");
        assert_contains(said, "; fill it in, or write model.missing: drop to leave such rows out");
        assert_contains(run_says(0, "g.csv", ", missing: drop"),
                        "warning: of the 25 rows of g.csv 1 has a missing value and is left out (model.missing: drop)");
        theta_of("o/summary.json", other);
        assert_string_equal(hash, other);
    }
    assert_string_equal(run_says(0, "g.csv", ", features: [x1]"), ""); /* a gap in a column that is not used */
    runtext_save(folder_path(folder, "none.csv"), "x,y\nNA,1\n?,0\n");
    assert_contains(run_says(2, "none.csv", ", missing: drop"), "every row misses a value");
    write_gap("inf");
    assert_contains(run_says(2, "g.csv", ", missing: drop"), "holds a number that is not finite");
    assert_contains(program_says(folder, 2, "check r.yaml"), "not finite");
}

/* The count stands in the summary, on the page and in `check`. */
static void what_is_left_out_is_counted(void **state)
{
    json_t *summary = NULL;
    runtext_save(folder_path(folder, "m.csv"), "y,x\nNA,0\n1.5,0\n2,1\n,0\n0.5,3\n");
    runtext_save(folder_path(folder, "m.yaml"),
                 "model: {type: hierarchical_gaussian, data: m.csv, column: y, missing: drop}\nobjective: mmle\n");
    const char *said = program_says(folder, 0, "run m.yaml");
    assert_contains(said, "warning: of the 5 rows of m.csv 2 have a missing value and are left out");
    assert_null(strstr(strstr(said, "left out") + 1, "left out")); /* once is enough */
    if (json_read(folder_path(folder, "m/summary.json"), &summary, ERROR)) fail_msg("%s", error);
    assert_int_equal(json_integer_value(json_object_get(summary, "rows_left_out")), 2);
    json_decref(summary);
    char *page = runtext_read(folder_path(folder, "m/report.html"));
    assert_contains(page, "of the 5 rows of m.csv 2 have a missing value and are left out");
    free(page);
    assert_contains(program_says(folder, 0, "check m.yaml"), "note  data: of the 5 rows of m.csv 2 have");
    assert_contains(program_says(folder, 2, "run m.yaml --out n --set model.missing=refuse"),
                    "m.csv:2: column 'y' has 'NA' for a missing value; fill it in, or write model.missing: drop");
    assert_contains(program_says(folder, 2,
                                 "run m.yaml --out n --set model.data=null --set model.column=null "
                                 "--set model.y=[1,2]"),
                    "model.missing applies only when model.data is given");
}

static void points_with_gaps(void **state)
{
    char text[2048] = "x,y\n";
    size_t used = strlen(text);
    for (int r = 0; r < 60; r++)
        used += (size_t)snprintf(text + used, sizeof text - used, r % 20 == 7 ? "NA,%g\n" : "%g,0.5\n",
                                 0.1 * ((r * 7) % 60));
    runtext_save(folder_path(folder, "points.csv"), text);
    const char *few = "--cd --iterations 2 --sweeps 1 --hidden 4 --quiet --set output.report=false";
    assert_contains(program_says(folder, 4, "train points.csv --out p %s", few),
                    "points.csv:9: column 'x' has 'NA' for a missing value; fill it in, or write --drop-missing");
    assert_contains(program_says(folder, 0, "train points.csv --drop-missing --out p %s", few),
                    "of the 60 rows of points.csv 3 have a missing value and are left out");
    assert_contains(program_says(folder, 4, "run p/run.yaml --out q --set objective.data.missing=refuse"),
                    "fill it in, or write objective.data.missing: drop to leave such rows out");
    assert_contains(program_says(folder, 2, "train circles --drop-missing --out c %s", few),
                    "--drop-missing is for files; circles is made to measure");
}

static int make_folder(void **state) { return folder_make(folder, "messy") || program_furnish(folder) ? -1 : 0; }

static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_that_mean_the_same),
        cmocka_unit_test(labels_are_not_guessed),
        cmocka_unit_test(identifiers_are_no_features),
        cmocka_unit_test(observations_are_not_row_numbers),
        cmocka_unit_test(missing_values_are_told),
        cmocka_unit_test(what_is_left_out_is_counted),
        cmocka_unit_test(points_with_gaps),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
