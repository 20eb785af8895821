/* test_tables.c: CSV tables: numbers, labels, headers, and the lines of those that are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "scratch.h"

static void read_csv(const char *text, const csv_options *options, csv_table *t)
{
    write_text("t.csv", text);
    if (csv_read(at("t.csv"), options, t, ERROR)) fail_msg("%s", sentence);
}

static void a_table_has_numbers_and_labels(void **state)
{
    csv_table t;
    const double *x = NULL;
    read_csv("\xEF\xBB\xBF"
             "age, weight ,\"the \"\"label\"\"\"\r\n\r\n1,2.5,yes\r\n -3e2 ,,\"no, never\"\r\n4,0x10,\"two\nlines\"",
             NULL, &t);
    assert_int_equal(t.rows, 3);
    assert_int_equal(t.columns, 3);
    assert_string_equal(t.column[1].name, "weight");
    assert_string_equal(t.column[2].name, "the \"label\"");
    assert_true(t.column[0].number[1] == -300.0);
    assert_true(isnan(t.column[1].number[1]) && t.column[1].number[2] == 16.0);
    assert_null(t.column[2].number);
    assert_string_equal(t.column[2].text[0], "yes");
    assert_string_equal(t.column[2].text[1], "no, never");
    assert_string_equal(t.column[2].text[2], "two\nlines");
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), 0);
    assert_ptr_equal(x, t.column[0].number);
    assert_int_equal(csv_numbers(&t, 1, &x, ERROR), -1);
    assert_says("t.csv:4: column 'weight' is empty: a value is missing");
    assert_int_equal(csv_numbers(&t, 2, &x, ERROR), -1);
    assert_says("t.csv:3: column 'the \"label\"' holds");
    assert_int_equal(csv_numbers(&t, 3, &x, ERROR), -1);
    assert_ptr_equal(csv_find(&t, "age"), &t.column[0]);
    assert_null(csv_find(&t, "height"));
    csv_free(&t);
    csv_free(&t);
}

static void a_header_is_optional(void **state)
{
    csv_table t;
    read_csv("1,2\n3,4\n", NULL, &t);
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.column[1].name, "c2");
    csv_free(&t);
    read_csv("1,2\n3,4\n", &(csv_options){.header = CSV_HEADER_YES}, &t);
    assert_int_equal(t.rows, 1);
    assert_string_equal(t.column[1].name, "2");
    csv_free(&t);
    read_csv("a,b\n3,4\n", &(csv_options){.header = CSV_HEADER_NO}, &t);
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.column[0].text[1], "3");
    csv_free(&t);
    read_csv("x,y", NULL, &t);
    assert_int_equal(t.rows, 0);
    assert_int_equal(csv_needs_rows(&t, ERROR), -1);
    assert_says("t.csv has a header of 2 columns ('x', ...) and no rows below it; expected at least one");
    csv_free(&t);
    read_csv("\"a;b\",1;c\n3,4\n", NULL, &t); /* a name may hold a semicolon */
    assert_int_equal(t.columns, 2);
    assert_int_equal(csv_needs_rows(&t, ERROR), 0);
    csv_free(&t);
    read_csv("x,\n\n,5\ninf,6\n", NULL, &t); /* an empty field at the end of a line takes nothing from the next */
    assert_int_equal(t.rows, 2);
    assert_string_equal(t.column[1].name, "c2");
    assert_true(t.column[1].number[0] == 5.0 && isinf(t.column[0].number[1]) && isnan(t.column[0].number[0]));
    csv_free(&t);
}

static void bad_tables_are_refused_with_their_line(void **state)
{
    static const char *const tests[][2] = {
        {"a,b\n1,2\n3\n", "t.csv:3: 1 field where"},
        {"a,b\n1,2,3\n", "t.csv:2: 3 fields where"},
        {"a,b\n\n\n\"x\ny\",2\n3\n", "t.csv:6: 1 field where"},
        {"a,b\n\"x,2\n", "t.csv:2: a quote is opened"},
        {"a,b\n\"x\"y,2\n", "t.csv:2: something stands"},
        {"a,b\nx\"y,2\n", "t.csv:2: a quote inside"},
        {"\n1,5;2,5\n", "t.csv:2: a comma or a semicolon may separate the columns; expected one of them"},
        {"a,b;c\n1,2;3\n", "t.csv:1: a comma or a semicolon may separate"},
        {"a\tb,c\n1\t2,3\n", "t.csv:1: a comma or a tab may separate"},
        {"a;b\n1;2\n3\n", "t.csv:3: 1 field where the first line has 2"},
        {"a;b\n\"1\",2\n", "something stands between a closing quote and the semicolon"},
        {"x,1,2\ny,3,4\n", "t.csv:1: the first line has text and numbers and may be a row"},
        {"1.5,x\n2,3\n", "t.csv:1: the first line has text and numbers and may be a row"},
        {"0,1,2\n1,5,6\n", "t.csv:1: the first line counts 0, 1, 2, ... and may be a row"},
        {"\xFF\xFE"
         "a",
         "is text in UTF-16; expected UTF-8"},
        {"", "is empty"},
        {" \n\t\n", "is empty"},
        {"1\n2\n3\n4\n", "t.csv:4: more than 3 rows"},
        {"1,2,3,4,5\n", "t.csv:1: more than 4 columns"},
        {"0123456789012345678901234567890123456789", "at most 32"},
    };
    csv_options tight = {.max_rows = 3, .max_columns = 4, .max_bytes = 32};
    csv_table t;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        write_text("t.csv", tests[i][0]);
        assert_int_equal(csv_read(at("t.csv"), &tight, &t, ERROR), -1);
        assert_says(tests[i][1]);
    }
    write_raw("t.csv", "1,2\0,3\n", 7);
    assert_int_equal(csv_read(at("t.csv"), NULL, &t, ERROR), -1);
    assert_says("zero bytes");
}

typedef struct {
    const char *text;
    int columns, rows;
    const char *last; /* the name of the last column */
} reading;

/* The same two columns as different programs write them. */
static void tables_of_other_programs(void **state)
{
    static const reading tests[] = {
        {"a,b\n1,2\n3,4\n", 2, 2, "b"},
        {"a;b\n1;2\n3;4\n", 2, 2, "b"},
        {"a\tb\n1\t2\n3\t4\n", 2, 2, "b"},
        {"\"a\";\"b\"\n1;2\n3;4\n", 2, 2, "b"},
        {"\"\",\"a\",\"b\"\n\"1\",1,2\n\"2\",3,4\n", 3, 2, "b"},        /* R: row names */
        {",a,b\n0,1,2\n1,3,4\n", 3, 2, "b"},                            /* pandas: an index */
        {",0,1\n0,1.5,2\n1,3,4\n", 3, 2, "1"},                          /* pandas: an index, no names */
        {"\"a\",\"1990\"\n\"x\",2\n\"y\",4\n", 2, 2, "1990"},           /* R: a name that is a number */
        {"\xEF\xBB\xBFsep=;\r\na;b\r\n1;2\r\n3;4\r\n;\r\n", 2, 2, "b"}, /* a spreadsheet, with an empty line of cells */
        {"a,b\r1,2\r3,4\r", 2, 2, "b"},                                 /* lines that end in a carriage return alone */
        {"a,b,\n1,2,\n3,4,\n", 2, 2, "b"},                              /* a separator at the end of every line, */
        {"a,b\n1,2,\n3,4,\n", 2, 2, "b"},                               /* of the rows, */
        {"a,b,\n1,2\n3,4\n", 2, 2, "b"},                                /* of the header */
        {"5.1,3.5,setosa\n4.9,3.0,setosa\n", 3, 2, "c3"},               /* no header, but a label */
        {"\"a;x\",\"b;y\"\n1,2\n3,4\n", 2, 2, "b;y"},
        {"NA,1\n3,4\n", 2, 2, "c2"},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        csv_table t;
        read_csv(tests[i].text, NULL, &t);
        if (t.columns != tests[i].columns || t.rows != tests[i].rows ||
            strcmp(t.column[t.columns - 1].name, tests[i].last) != 0)
            fail_msg("table %zu has %d columns, the last '%s', and %lld rows", i, t.columns,
                     t.column[t.columns - 1].name, (long long)t.rows);
        csv_free(&t);
    }
}

static void numbers_with_commas_are_told(void **state)
{
    csv_table t;
    const double *x = NULL;
    read_csv("a;b\n1,5;-2,5e3\n", NULL, &t);
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), -1);
    assert_says("t.csv:2: column 'a' holds '1,5', a number with a comma; expected a point");
    assert_int_equal(csv_numbers(&t, 1, &x, ERROR), -1);
    assert_says("holds '-2,5e3', a number with a comma");
    csv_free(&t);
    read_csv("a,b\n\"1,x\",2\n", NULL, &t);
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), -1);
    assert_says("t.csv:2: column 'a' holds '1,x', which is not a number");
    csv_free(&t);
}

static void missing_values_are_known_and_dropped(void **state)
{
    csv_table t;
    const double *x = NULL;
    const int used[] = {0, 2};
    read_csv("x,free,label\n1,a,yes\nNA,b,no\n?,c,no\n4,,NA\n5,NA,no\nnull,d,yes\nNaN,e,yes\n.,f,None\n", NULL, &t);
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), -1);
    assert_says("t.csv:3: column 'x' has 'NA' for a missing value");
    assert_int_equal(t.column[2].gap, 5);
    assert_false(csv_misses(&t, 0, 0));
    assert_true(csv_misses(&t, 0, 1) && csv_misses(&t, 2, 3));
    assert_int_equal(csv_drop_rows(&t, used, 2), 6);
    assert_int_equal(t.rows, 2);
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), 0);
    assert_true(x[0] == 1 && x[1] == 5);
    assert_string_equal(t.column[1].text[1], "NA");
    assert_string_equal(t.column[2].text[1], "no");
    csv_free(&t);
    read_csv("x\n1\ninf\n", NULL, &t);
    assert_int_equal(csv_numbers(&t, 0, &x, ERROR), -1);
    assert_says("t.csv:3: column 'x' holds a number that is not finite");
    csv_free(&t);
}

/* Random strings over the characters that matter: nothing may crash, and rows times columns must be there. */
static void no_table_crashes(void **state)
{
    static const char letters[] = "\",;\t\n\r 1.exNA-";
    uint32_t seed = 1;
    for (int k = 0; k < 4000; k++) {
        char text[40] = "";
        size_t n = (size_t)(k % 39);
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525U + 1013904223U;
            text[i] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        write_raw("t.csv", text, n);
        csv_table t;
        if (csv_read(at("t.csv"), NULL, &t, ERROR)) continue;
        for (int c = 0; c < t.columns; c++)
            for (int64_t r = 0; r < t.rows; r++)
                if (t.column[c].text)
                    assert_true(strlen(t.column[c].text[r]) < 40);
                else
                    assert_true(isnan(t.column[c].number[r]) || fabs(t.column[c].number[r]) >= 0.0);
        csv_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_numbers_and_labels),
        cmocka_unit_test(a_header_is_optional),
        cmocka_unit_test(bad_tables_are_refused_with_their_line),
        cmocka_unit_test(tables_of_other_programs),
        cmocka_unit_test(numbers_with_commas_are_told),
        cmocka_unit_test(missing_values_are_known_and_dropped),
        cmocka_unit_test(no_table_crashes),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
