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
    assert_says("t.csv:4: column 'weight' is empty");
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
        {"a;b\n1;2\n", "t.csv:1: the columns are separated by ';'; expected ',' between columns"},
        {"\n1,5;2,5\n", "t.csv:2: the columns are separated by ';'"},
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

/* Random strings over the characters that matter: nothing may crash, and rows times columns must be there. */
static void no_table_crashes(void **state)
{
    static const char letters[] = "\",\n\r 1.ex-";
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
        cmocka_unit_test(no_table_crashes),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
