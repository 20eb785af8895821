/* test_free_memory.c: how much memory is free, read from made-up trees of /proc and /sys: control groups of both versions, nested, in
 * other name spaces, without limits; limits of the process; SOSMC_MEMORY; and the words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assertions.h"
#include "files/files.h"
#include "files/memory.h"
#include "scratch.h"

/* Files of a tree: "PATH=TEXT", with ~ for the end of a line. */
static void plant(const char *tree, const char *const *file)
{
    char path[FILES_PATH], text[512];
    for (; *file; file++) {
        const char *equals = strchr(*file, '=');
        assert_non_null(equals);
        (void)snprintf(path, sizeof path, "%s/%.*s", at(tree), (int)(equals - *file), *file);
        (void)snprintf(text, sizeof text, "%s", equals + 1);
        for (char *c = text; *c; c++)
            if (*c == '~') *c = '\n';
        char *slash = strrchr(path, '/');
        *slash = 0;
        assert_fine(files_directory(path, ERROR));
        *slash = '/';
        assert_fine(files_write(path, text, strlen(text), ERROR));
    }
}

#define MEMINFO "proc/meminfo=MemTotal:  16000000 kB~MemFree:   100 kB~MemAvailable:    8000000 kB~"
#define BASE "sys/fs/cgroup/"
static const struct {
    const char *name;
    const char *file[16];
    double bytes;
    const char *why;
} tree[] = {
    {"no groups", {MEMINFO, NULL}, 8.192e9, ""},
    {"nothing known", {"proc/none=x~", NULL}, INFINITY, ""},
    {"version 2",
     {MEMINFO, "proc/self/cgroup=0::/a/b~", BASE "a/b/memory.max=1500000000~", BASE "a/b/memory.current=500000000~",
      NULL},
     1e9,
     "/a/b"},
    {"version 2, cache of files counts as free",
     {MEMINFO, "proc/self/cgroup=0::/a~", BASE "a/memory.max=1500000000~", BASE "a/memory.current=1400000000~",
      BASE "a/memory.stat=anon 5~inactive_file 300000000~active_file 100000000~", NULL},
     5e8,
     "/a"},
    {"version 2, the group above is narrower",
     {MEMINFO, "proc/self/cgroup=0::/a/b/c~", BASE "a/b/c/memory.max=max~", BASE "a/b/c/memory.current=7~",
      BASE "a/b/memory.max=3000000000~", BASE "a/b/memory.current=0~", BASE "a/memory.max=2000000000~",
      BASE "a/memory.current=1900000000~", NULL},
     1e8,
     "/a"},
    {"version 2, only the root is mounted",
     {MEMINFO, "proc/self/cgroup=0::/docker/1234~", BASE "memory.max=1000000000~", BASE "memory.current=250000000~",
      NULL},
     7.5e8,
     "cgroup"},
    {"version 2, no limit",
     {MEMINFO, "proc/self/cgroup=0::/~", BASE "memory.max=max~", BASE "memory.current=5~", NULL},
     8.192e9,
     ""},
    {"version 2 beside others",
     {MEMINFO, "proc/self/cgroup=3:cpu:/~0::/x~", BASE "unified/x/memory.max=40~", BASE "unified/x/memory.current=15~",
      NULL},
     25,
     "unified/x"},
    {"more used than allowed",
     {MEMINFO, "proc/self/cgroup=0::/x~", BASE "x/memory.max=40~", BASE "x/memory.current=50~", NULL},
     0,
     "/x"},
    {"a limit above what the machine has",
     {MEMINFO, "proc/self/cgroup=0::/x~", BASE "x/memory.max=99000000000~", BASE "x/memory.current=5~", NULL},
     8.192e9,
     ""},
    {"version 1",
     {MEMINFO, "proc/self/cgroup=7:cpuset:/~4:hugetlb,memory:/job/5~",
      BASE "memory/job/5/memory.limit_in_bytes=2000000000~", BASE "memory/job/5/memory.usage_in_bytes=600000000~",
      BASE "memory/job/5/memory.stat=cache 1~total_inactive_file 100000000~total_active_file 0~",
      BASE "memory/memory.limit_in_bytes=9223372036854771712~", BASE "memory/memory.usage_in_bytes=1~", NULL},
     1.5e9,
     "memory/job/5"},
    {"version 1, no limit",
     {MEMINFO, "proc/self/cgroup=4:memory:/~", BASE "memory/memory.limit_in_bytes=9223372036854771712~",
      BASE "memory/memory.usage_in_bytes=1~", NULL},
     8.192e9,
     ""},
    {"rubbish",
     {MEMINFO, "proc/self/cgroup=~:~::~4:memory~0::x~1:memory:/y~", BASE "memory/y/memory.limit_in_bytes=many~",
      BASE "memory/y/memory.usage_in_bytes=few~", NULL},
     8.192e9,
     ""},
};

static void trees_are_read(void **state)
{
    (void)unsetenv("SOSMC_MEMORY");
    for (size_t i = 0; i < sizeof tree / sizeof *tree; i++) {
        memory_left left;
        char name[32];
        (void)snprintf(name, sizeof name, "tree%zu", i);
        plant(name, tree[i].file);
        assert_fine(memory_find(at(name), &left, ERROR));
        if (!(left.bytes == tree[i].bytes)) fail_msg("%s: %.17g bytes", tree[i].name, left.bytes);
        size_t n = strlen(left.why), m = strlen(tree[i].why);
        if (n < m || (m == 0 && n > 0) || strcmp(left.why + n - m, tree[i].why) != 0)
            fail_msg("%s: '%s'", tree[i].name, left.why);
    }
}

static void this_machine_is_read(void **state)
{
    memory_left left;
    assert_fine(memory_find("", &left, ERROR));
    assert_true(left.bytes > 1e6);
    double before = memory_resident("");
    size_t bytes = (size_t)32 << 20;
    char *block = malloc(bytes);
    assert_non_null(block);
    memset(block, 1, bytes);
    double grown = memory_resident("") - before;
    free(block);
    assert_near(grown, (double)bytes, 4e6);
}

/* In a child, since a limit cannot be raised again. */
static void limits_of_the_process(void **state)
{
    const struct {
        int which;
        const char *words;
    } limit[] = {{RLIMIT_AS, "(ulimit -v)"}, {RLIMIT_DATA, "(ulimit -d)"}};
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            memory_left left;
            (void)setrlimit(limit[i].which, &(struct rlimit){(rlim_t)60 << 40, (rlim_t)60 << 40});
            int far = memory_find("", &left, NULL, 0) == 0 && !strstr(left.why, "ulimit");
            (void)setrlimit(limit[i].which, &(struct rlimit){(rlim_t)1 << 20, (rlim_t)1 << 20});
            int near = memory_find("", &left, NULL, 0) == 0 && strstr(left.why, limit[i].words) && left.bytes < 1 << 20;
            _exit(far && near ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have address spaces of their own making */
        assert_int_equal(status, 0);
#endif
    }
}

static void the_environment_comes_first(void **state)
{
    const struct {
        const char *text;
        double bytes;
    } good[] = {{"0", 0}, {"12345", 12345}, {"1.5G", 1.5e9}, {"3K", 3e3}, {"20M", 2e7}, {"2T", 2e12}, {"1e30", 1e30}};
    const char *bad[] = {"much", "-1", "5X", "5GB", "nan", "inf", "1 G", "G"};
    memory_left left;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)setenv("SOSMC_MEMORY", good[i].text, 1);
        assert_fine(memory_find("", &left, ERROR));
        assert_close(left.bytes, good[i].bytes, 1e-15);
        assert_contains(left.why, "SOSMC_MEMORY");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)setenv("SOSMC_MEMORY", bad[i], 1);
        assert_int_equal(memory_find("", &left, ERROR), -1);
        assert_says("SOSMC_MEMORY is '");
        assert_says(bad[i]);
    }
    (void)setenv("SOSMC_MEMORY", "1.5G", 1);
    assert_fine(memory_check("the job", 1.5e9, "", ERROR));
    assert_int_equal(memory_check("the job", 1.6e9, "take less", ERROR), -1);
    assert_string_equal(sentence, "the job needs 1.60 GB of memory, and 1.50 GB are free by SOSMC_MEMORY; take less");
    assert_int_equal(memory_check("the job", INFINITY, "", ERROR), -1);
    (void)unsetenv("SOSMC_MEMORY");
}

static void numbers_have_units(void **state)
{
    const struct {
        double bytes;
        const char *words;
    } row[] = {{0, "0.00 kB"},       {1500, "1.50 kB"},    {12345678, "12.3 MB"}, {123456789, "123 MB"},
               {999.6e6, "1.00 GB"}, {9.996e9, "10.0 GB"}, {4.5e18, "4.50 EB"},   {1e22, "10000 EB"}};
    char text[MEMORY_NUMBER];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal(memory_number(row[i].bytes, text), row[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(trees_are_read), cmocka_unit_test(this_machine_is_read),
                                       cmocka_unit_test(limits_of_the_process),
                                       cmocka_unit_test(the_environment_comes_first),
                                       cmocka_unit_test(numbers_have_units)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
