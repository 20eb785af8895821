/* test_odd_values.c: values at the edges of what the program takes: seeds of 64 bits, words that are too long, names that are not
 * UTF-8, paths that are too long, networks that no file holds. Each once ended with a wrong number, a sentence about something
 * else, or folders that stayed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "folder.h"
#include "program.h"
#include "runtext.h"

static char folder[FOLDER_ROOM], error[512];
#define ERROR error, sizeof error
#define says(code, ...) program_says(folder, code, __VA_ARGS__)

/* A name in Latin-1. */
#define FOREIGN "caf\xE9"

static void seeds_of_64_bits(void **state)
{
    static const char *const seeds[] = {"9223372036854775807", "9223372036854775808", "18446744073709551615"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char line[64];
        (void)says(0, "run toy.yaml --seed %s --out s --overwrite --quiet", seeds[i]);
        char *text = runtext_read(folder_path(folder, "s/summary.json"));
        (void)snprintf(line, sizeof line, "\"seed\": %s,", seeds[i]);
        assert_contains(text, line);
        free(text);
        assert_contains(says(0, "run toy.yaml --seed %s --out s --resume", seeds[i]), "s is finished");
        (void)says(0, "report s");
        text = runtext_read(folder_path(folder, "s/report.html"));
        (void)snprintf(line, sizeof line, "seed %s", seeds[i]);
        assert_contains(text, line);
        free(text);
    }
}

static void long_words_are_not_cut(void **state)
{
    char zeros[200];
    memset(zeros, '0', sizeof zeros);
    zeros[90] = 0;
    assert_contains(says(2, "run toy.yaml --seed %s17 --out never", zeros),
                    "--seed is '00000000000000000000000000000000...', 92 characters; expected a number of at most 58");
    assert_contains(
        says(2, "sample small.npz --seed 99999999999999999999999999999999999999999999999999999999999999999"),
        "--seed is '9999999999999999999999999999999999");
    static const char *const commands[] = {"run toy.yaml", "reproduce theory", "demo", "check toy.yaml", "judge toy"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_contains(says(2, "%s --threads 1e300", commands[i]), "--threads is '1e300'; expected a whole number");
        assert_contains(says(2, "%s --threads -1", commands[i]), "--threads is '-1'; expected a whole number");
    }
    assert_int_not_equal(access(folder_path(folder, "never"), F_OK), 0);
}

/* All JSON, YAML and HTML below the folder is UTF-8. */
static void assert_utf8(const char *name)
{
    char *text = runtext_read(folder_path(folder, name));
    assert_non_null(text);
    if (!files_is_utf8(text)) fail_msg("%s is not UTF-8", name);
    free(text);
}

static void names_that_are_not_utf8(void **state)
{
    static const char *const sentence = "' is not valid UTF-8, and a run file can hold nothing else; rename it";
    (void)says(0, "run " FOREIGN ".yaml");
    assert_utf8(FOREIGN "/summary.json");
    assert_utf8(FOREIGN "/run.yaml");
    (void)says(0, "report " FOREIGN);
    assert_utf8(FOREIGN "/report.html");
    assert_contains(says(0, "run " FOREIGN ".yaml --resume"), "is finished");
    assert_contains(says(2, "run toy.yaml --out t --set model.data=" FOREIGN ".csv --set model.y=null"),
                    "not valid UTF-8");
    assert_contains(says(2, "train " FOREIGN ".csv --out t"), sentence);
    assert_contains(says(4, "demo --out " FOREIGN "-demo"),
                    "is not valid UTF-8, and run files could not name what is in it");
    assert_contains(says(4, "reproduce theory --quick --out " FOREIGN "-paper"), "is not valid UTF-8");
    assert_int_not_equal(access(folder_path(folder, FOREIGN "-demo"), F_OK), 0);
    assert_int_not_equal(access(folder_path(folder, "t"), F_OK), 0);
}

/* Folders of 240 letters, and a name that no file system takes: nothing is left. */
static void long_paths_leave_nothing(void **state)
{
    char path[4200] = "", name[241];
    memset(name, 'd', 240);
    name[240] = 0;
    for (int i = 0; i < 16; i++)
        (void)snprintf(path + strlen(path), sizeof path - strlen(path), "%s%s", i ? "/" : "", name);
    assert_contains(says(4, "run toy.yaml --out %s", path), "has 3855 bytes; expected at most 3840");
    assert_int_not_equal(access(folder_path(folder, name), F_OK), 0);
    memset(path, 'e', 300);
    path[300] = 0;
    assert_contains(says(4, "run toy.yaml --out there/%s", path), "cannot create there/eee");
    assert_int_not_equal(access(folder_path(folder, "there"), F_OK), 0);
    assert_int_equal(files_directory(folder_path(folder, "mine"), ERROR), 0);
    assert_contains(says(4, "demo --out mine/a/b/%s", path), "cannot create mine/a/b/eee");
    assert_int_not_equal(access(folder_path(folder, "mine/a"), F_OK), 0);
    assert_int_equal(access(folder_path(folder, "mine"), F_OK), 0); /* it was there before */
}

static void networks_that_no_file_holds(void **state)
{
    static const char *const sentence =
        "makes a network of too many parameters; expected at most 2^28, which a file holds";
    assert_contains(says(2, "run net.yaml --out never --set model.hidden=[16384,16384]"), sentence);
    assert_contains(says(2, "run pictures.yaml --out never"), sentence);
}

static int set_up(void **state)
{
    if (folder_make(folder, "odd") || program_furnish(folder)) return -1;
    const char *toy =
        "model: {type: hierarchical_gaussian, y: [1, 2, 3, 2.5]}\nobjective: mmle\nkernel: mala\nparticles: 64\n"
        "iterations: 5\njudge: none\noutput: {report: false}\n";
    runtext_save(folder_path(folder, "toy.yaml"), toy);
    runtext_save(folder_path(folder, FOREIGN ".yaml"), toy);
    runtext_save(folder_path(folder, FOREIGN ".csv"), "x,y\n1,2\n3,5\n2,0\n");
    runtext_save(folder_path(folder, "net.yaml"),
                 "model: {type: mlp, hidden: [4]}\nobjective: {type: none}\niterations: 1\n");
    runtext_save(folder_path(folder, "pictures.yaml"),
                 "model: {type: network, layers: \"1x12x12; dense 16384; dense 16384; dense 1; base 1\"}\n"
                 "objective: {type: none}\niterations: 1\n");
    return 0;
}
static int tear_down(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_of_64_bits),
        cmocka_unit_test(long_words_are_not_cut),
        cmocka_unit_test(names_that_are_not_utf8),
        cmocka_unit_test(long_paths_leave_nothing),
        cmocka_unit_test(networks_that_no_file_holds),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
