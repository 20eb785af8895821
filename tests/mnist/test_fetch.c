/* test_fetch.c: experiments/mnist/fetch.sh with packages of the test's own: a wrong one leaves nothing, files of others stay, and what is
 * missing is named. The real package is not here: it needs the network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/files.h"
#include "scratch.h"

/* Runs a line of bash with FETCH, the script, in the scratch folder; its exit code. `said` is what it wrote. */
static char said[4096];
static int bash(const char *line)
{
    char command[8192];
    const char *source = getenv("SOSMC_TEST_SOURCE");
    (void)snprintf(command, sizeof command,
                   "bash -c 'FETCH=$(realpath \"%s/../experiments/mnist/fetch.sh\"); cd \"%s\"; %s' >'%s' 2>&1",
                   source ? source : "tests", at("."), line, at("said"));
    int status = system(command); // NOLINT(cert-env33-c): a line of our own
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(files_read(at("said"), sizeof said - 1, &text, &size, NULL, 0), 0);
    memcpy(said, text, size);
    said[size] = 0;
    free(text);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_refused(const char *line, const char *words)
{
    int code = bash(line);
    if (code != 4 || !strstr(said, words)) fail_msg("%s: exit code %d: %s", line, code, said);
}

static void wrong_packages_leave_nothing(void **state)
{
    assert_int_equal(bash("mkdir -p p/package/data; head -c 10008 /dev/zero >p/package/data/t10k-labels-idx1-ubyte; "
                          "tar -C p -czf some.tgz package; cd p/package/data; for f in train-images-idx3 "
                          "train-labels-idx1 t10k-images-idx3; do echo zeros >$f-ubyte; done; cd ../../..; "
                          "tar -C p -czf false.tgz package; echo words >words.tgz"),
                     0);
    assert_refused("$FETCH out some.tgz", "some.tgz has no train-images-idx3-ubyte");
    assert_refused("$FETCH out false.tgz", "are not those of MNIST");
    assert_refused("$FETCH out words.tgz", "words.tgz is no gzipped tar archive");
    assert_int_not_equal(access(at("out"), F_OK), 0);
}

static void files_of_others_stay(void **state)
{
    assert_refused("mkdir mine; echo mine >mine/t10k-labels-idx1-ubyte; $FETCH mine false.tgz",
                   "mine/t10k-labels-idx1-ubyte is there and is not that of MNIST");
    assert_int_equal(bash("grep -qx mine mine/t10k-labels-idx1-ubyte"), 0);
}

static void what_is_missing_is_named(void **state)
{
    assert_refused(
        "mkdir bin; for p in bash sha256sum awk mktemp rm grep; do ln -s $(command -v $p) bin; done; PATH=bin $FETCH out",
        "npm is not there: install Node.js with npm");
    assert_refused("printf \"#!/bin/sh\\necho npm error no such host >&2\\nexit 1\\n\" >bin/npm; chmod +x bin/npm; "
                   "PATH=$PWD/bin:$PATH $FETCH out",
                   "failed: npm error no such host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_packages_leave_nothing),
                                       cmocka_unit_test(files_of_others_stay),
                                       cmocka_unit_test(what_is_missing_is_named)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
