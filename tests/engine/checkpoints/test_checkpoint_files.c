/* test_checkpoint_files.c: checkpoint files rotate, fall back to the one before when they are damaged, and survive full
 * disks, broken directories and kill -9. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "assertions.h"
#include "checkpoint_files.h"
#include "expect_engine.h"

static void files_rotate(void **state)
{
    checkpoint_folder p = checkpoint_folder_new();
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    sosmc *s = engine_case_open(w), *fresh = engine_case_open(w);
    for (int k = 0; k <= K; k++) {
        checkpoint_folder_save(s, &p);
        assert_file_is(p.path, &r->at[k]);
        if (k)
            assert_file_is(p.previous, &r->at[k - 1]);
        else
            assert_false(file_exists(p.previous));
        assert_int_equal(sosmc_load_file(fresh, p.path), SOSMC_OK);
        assert_true(sosmc_hash(fresh) == r->hash[k]);
        if (k < K) expect_steps(s, 1);
    }
    assert_int_equal(sosmc_load_file(fresh, p.path), SOSMC_OK);
    record_follow(fresh, &w, r, K, 1);
    sosmc_free(s);
    sosmc_free(fresh);
    record_free(r);
    checkpoint_folder_free(&p);
}

/* A path without a directory is one in the working directory. */
static void a_bare_name(void **state)
{
    checkpoint_folder p = checkpoint_folder_new();
    char here[1024];
    engine_case w = engine_case_of(ULA_PAPER);
    sosmc *s = engine_case_open(w);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(p.dir), 0);
    sosmc_status saved = sosmc_save_file(s, "run.checkpoint"), loaded = sosmc_load_file(s, "run.checkpoint");
    assert_int_equal(chdir(here), 0);
    assert_int_equal(saved, SOSMC_OK);
    assert_int_equal(loaded, SOSMC_OK);
    assert_true(file_exists(p.path));
    sosmc_free(s);
    checkpoint_folder_free(&p);
}

static void assert_falls_back(saved_run *d, const char *what, long where)
{
    if (sosmc_load_file(d->s, d->p.path) != SOSMC_OK) fail_msg("%s %ld: %s", what, where, sosmc_message(d->s));
    if (sosmc_iteration(d->s) != 3) fail_msg("%s %ld: loaded iteration %ld", what, where, (long)sosmc_iteration(d->s));
    assert_true(sosmc_hash(d->s) == d->r->hash[3]);
}

static void a_damaged_file_falls_back(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    memory *m = &d.r->at[4];
    size_t whole = m->used;
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_OK);
    assert_int_equal(sosmc_iteration(d.s), 4);
    for (size_t cut = 0; cut < whole; cut += 997) {
        file_write(d.p.path, m->bytes, cut);
        assert_falls_back(&d, "truncated at", (long)cut);
    }
    for (size_t at = 320; at < whole; at += 501) { /* behind the header */
        m->bytes[at] ^= 0x10;
        file_write(d.p.path, m->bytes, whole);
        assert_falls_back(&d, "flipped byte", (long)at);
        m->bytes[at] ^= 0x10;
    }
    assert_int_equal(unlink(d.p.path), 0);
    assert_falls_back(&d, "missing", 0);
    file_write(d.p.path, m->bytes, whole);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_OK);
    assert_int_equal(sosmc_iteration(d.s), 4);
    saved_run_free(&d);
}

/* Damage in the header makes the seed or a name look like another problem's; it is damage all the same. */
static void a_damaged_header_falls_back(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    memory *m = &d.r->at[4];
    for (size_t at = 0; at < 320; at++) {
        m->bytes[at] ^= 0x10;
        file_write(d.p.path, m->bytes, m->used);
        assert_falls_back(&d, "flipped byte", (long)at);
        m->bytes[at] ^= 0x10;
    }
    saved_run_free(&d);
}

/* A whole file of another problem is not damaged: the user has to know. */
static void a_file_of_another_problem_is_refused(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    engine_case other = d.w;
    other.cfg.seed = 98;
    sosmc *s = engine_case_open(other);
    memory m = {.used = 0};
    memory_must_save(s, &m);
    file_write(d.p.path, m.bytes, m.used);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_EINVAL);
    assert_contains(sosmc_message(d.s), "seed");
    assert_true(sosmc_hash(d.s) == d.r->hash[1]);
    sosmc_free(s);
    free(m.bytes);
    saved_run_free(&d);
}

static void no_file_is_whole(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    file_write(d.p.path, d.r->at[4].bytes, 1000);
    file_write(d.p.previous, d.r->at[3].bytes, 2000);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_EIO);
    assert_true(sosmc_hash(d.s) == d.r->hash[1]);
    assert_int_equal(unlink(d.p.path), 0);
    assert_int_equal(unlink(d.p.previous), 0);
    assert_int_equal(sosmc_load_file(d.s, d.p.path), SOSMC_EIO);
    assert_contains(sosmc_message(d.s), d.p.path);
    assert_true(sosmc_hash(d.s) == d.r->hash[1]);
    record_follow(d.s, &d.w, d.r, 1, 0);
    saved_run_free(&d);
}

static void paths_that_are_none(void **state)
{
    static char endless[5000];
    engine_case w = engine_case_of(ULA_PAPER);
    sosmc *s = engine_case_open(w);
    memset(endless, 'x', sizeof endless - 1);
    const char *const paths[] = {NULL, "", endless};
    for (int q = 0; q < 3; q++) {
        assert_int_equal(sosmc_save_file(s, paths[q]), SOSMC_EINVAL);
        assert_contains(sosmc_message(s), "path");
        assert_int_equal(sosmc_load_file(s, paths[q]), SOSMC_EINVAL);
        assert_contains(sosmc_message(s), "path");
    }
    sosmc_free(s);
}

/* ---------------------------------------------------------------------------- disks and directories */

static void directories_that_cannot_be_written(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    char path[2 * NAME_ROOM];
    const char *const formats[] = {"%s/run", "%s/no/such/directory/run"};
    for (int q = 0; q < 2; q++) { /* below a regular file; below nothing */
        (void)snprintf(path, sizeof path, formats[q], q ? d.p.dir : d.p.path);
        assert_int_equal(sosmc_save_file(d.s, path), SOSMC_EIO);
        assert_contains(sosmc_message(d.s), path);
        assert_int_equal(sosmc_load_file(d.s, path), SOSMC_EIO);
        assert_contains(sosmc_message(d.s), path);
    }
    assert_int_equal(sosmc_save_file(d.s, "/proc/sosmc_checkpoint"), SOSMC_EIO);
    record_follow(d.s, &d.w, d.r, 1, 0);
    saved_run_free(&d);
}

/* PATH.previous cannot be replaced: PATH must stay. */
static void a_rename_that_fails(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    assert_int_equal(unlink(d.p.previous), 0);
    assert_int_equal(mkdir(d.p.previous, 0777), 0);
    assert_int_equal(sosmc_save_file(d.s, d.p.path), SOSMC_EIO);
    assert_contains(sosmc_message(d.s), d.p.path);
    assert_int_equal(checkpoint_folder_leftovers(&d.p), 0);
    assert_file_is(d.p.path, &d.r->at[4]);
    saved_run_free(&d);
}

/* Somebody's directory is not ours to rename. */
static void a_directory_is_not_a_checkpoint(void **state)
{
    for (int with_previous = 0; with_previous < 2; with_previous++) {
        saved_run d = saved_run_new(ULA_PAPER);
        struct stat st;
        assert_int_equal(unlink(d.p.path), 0);
        if (!with_previous) assert_int_equal(unlink(d.p.previous), 0);
        assert_int_equal(mkdir(d.p.path, 0777), 0);
        sosmc_status status = sosmc_save_file(d.s, d.p.path);
        int still_there = stat(d.p.path, &st) == 0 && S_ISDIR(st.st_mode);
        if (with_previous) assert_file_is(d.p.previous, &d.r->at[3]);
        saved_run_free(&d);
        assert_int_equal(status, SOSMC_EIO);
        assert_true(still_there);
    }
}

/* The disk is full after some kilobytes (a limit on the size of files). */
static void full_disks(void **state)
{
    const rlim_t limits[] = {100, 4096, 40000};
    for (int large = 0; large < 2; large++) { /* within one buffer of the writer, and in many */
        saved_run d = saved_run_new(large ? HUGE_DIMENSION : ULA_PAPER);
        struct rlimit old, low;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        for (int q = 0; q < 2 + large; q++) {
            low = old;
            low.rlim_cur = limits[q];
            uint64_t before = sosmc_hash(d.s);
            int set = setrlimit(RLIMIT_FSIZE, &low);
            sosmc_status status = sosmc_save_file(d.s, d.p.path);
            int restored = setrlimit(RLIMIT_FSIZE, &old);
            assert_int_equal(set, 0);
            assert_int_equal(restored, 0);
            assert_int_equal(status, SOSMC_EIO);
            assert_contains(sosmc_message(d.s), "cannot write ");
            assert_contains(sosmc_message(d.s), d.p.path);
            assert_true(sosmc_hash(d.s) == before);
            assert_int_equal(checkpoint_folder_leftovers(&d.p), 0);
            assert_file_is(d.p.path, &d.r->at[4]);
            assert_file_is(d.p.previous, &d.r->at[3]);
        }
        (void)signal(SIGXFSZ, handler);
        record_follow(d.s, &d.w, d.r, 1, 0);
        checkpoint_folder_save(d.s, &d.p); /* room again */
        assert_file_is(d.p.path, &d.r->at[K]);
        assert_file_is(d.p.previous, &d.r->at[4]);
        saved_run_free(&d);
    }
}

/* Nobody can lead the bytes elsewhere: what lies under a name that might be a temporary's is left alone. */
static void no_link_is_followed(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    char victim[NAME_ROOM], text[8] = "";
    (void)snprintf(victim, sizeof victim, "%s/victim", d.p.dir);
    file_write(victim, "mine", 4);
    assert_int_equal(symlink(victim, d.p.tmp), 0);
    if (sosmc_save_file(d.s, d.p.path) != SOSMC_OK) fail_msg("%s", sosmc_message(d.s));
    assert_file_is(d.p.path, &d.r->at[1]);
    assert_file_is(d.p.previous, &d.r->at[4]);
    FILE *f = fopen(victim, "r");
    assert_true(f && fgets(text, sizeof text, f));
    (void)fclose(f);
    assert_string_equal(text, "mine");
    assert_true(file_exists(d.p.tmp)); /* it is not ours */
    assert_int_equal(unlink(victim), 0);
    saved_run_free(&d);
}

/* Temporaries of processes that died are removed by the next writer; one that is being written, and what is no file, is not. */
static void leftovers_are_removed(void **state)
{
    saved_run d = saved_run_new(ULA_PAPER);
    char dead[2 * NAME_ROOM], alive[2 * NAME_ROOM], link[2 * NAME_ROOM], other[2 * NAME_ROOM];
    (void)snprintf(dead, sizeof dead, "%s.0123456789abcdef.tmp", d.p.path);
    (void)snprintf(alive, sizeof alive, "%s.fedcba9876543210.tmp", d.p.path);
    (void)snprintf(link, sizeof link, "%s.00000000000000ff.tmp", d.p.path);
    (void)snprintf(other, sizeof other, "%s.user.0123456789abcdef.tmp", d.p.path);
    file_write(dead, d.r->at[8].bytes, 3000);
    file_write(alive, d.r->at[8].bytes, 3000);
    file_write(other, "mine", 4);
    assert_int_equal(symlink(other, link), 0);
    int fd = open(alive, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    if (sosmc_save_file(d.s, d.p.path) != SOSMC_OK) fail_msg("%s", sosmc_message(d.s));
    assert_false(file_exists(dead));
    assert_true(file_exists(alive) && file_exists(link) && file_exists(other));
    (void)close(fd);
    if (sosmc_save_file(d.s, d.p.path) != SOSMC_OK) fail_msg("%s", sosmc_message(d.s));
    assert_false(file_exists(alive));
    assert_int_equal(unlink(link) | unlink(other), 0);
    saved_run_free(&d);
}

/* ---------------------------------------------------------------------------- kill -9 */

enum { KILLS = 20, CROWD = 1500 };
typedef struct {
    atomic_llong begun, done; /* iterations whose saving has begun, has ended */
} progress;

static engine_case killed_case(void)
{
    engine_case w = engine_case_of(ULA_PAPER);
    w.cfg.scheme = sosmc_scheme_sosmc(CROWD);
    return w;
}

/* The child: takes up what there is, and saves after every step until it is killed. */
static void save_for_ever(const char *path, progress *seen)
{
    engine_case w = killed_case();
    sosmc *s = NULL;
    if (sosmc_create(&s, &w.p, &w.cfg) != SOSMC_OK) _exit(1);
    if (atomic_load(&seen->done) > 0 && sosmc_load_file(s, path) != SOSMC_OK) _exit(2);
    for (;;) {
        if (sosmc_step(s) != SOSMC_OK) _exit(3);
        atomic_store(&seen->begun, sosmc_iteration(s));
        if (sosmc_save_file(s, path) != SOSMC_OK) _exit(4);
        atomic_store(&seen->done, sosmc_iteration(s));
    }
}

static void sleep_for(long microseconds)
{
    struct timespec t = {.tv_nsec = microseconds * 1000};
    (void)nanosleep(&t, NULL);
}

static void killed_while_saving(void **state)
{
    checkpoint_folder p = checkpoint_folder_new();
    /* cppcheck-suppress invalidFunctionArg */
    progress *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    engine_case w = killed_case();
    sosmc *s = engine_case_open(w), *whole = engine_case_open(w); /* the second is never interrupted */
    assert_true(seen != MAP_FAILED);
    uint64_t chance = 12345;
    for (int round = 0; round < KILLS; round++) {
        long long before = atomic_load(&seen->done);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(p.path, seen);
        for (int q = 0; q < 5000 && atomic_load(&seen->done) == before && waitpid(child, NULL, WNOHANG) == 0; q++)
            sleep_for(1000); /* at least one whole save, so that every round gets on */
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        sleep_for((long)(chance >> 33) % 6000);
        int status = 0;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        long long begun = atomic_load(&seen->begun), done = atomic_load(&seen->done);
        assert_true(done > before && begun >= done && begun <= done + 1);
        if (sosmc_load_file(s, p.path) != SOSMC_OK) fail_msg("round %d: %s", round, sosmc_message(s));
        if (sosmc_iteration(s) < done || sosmc_iteration(s) > begun)
            fail_msg("round %d: loaded %ld, saved %lld", round, (long)sosmc_iteration(s), done);
        if (sosmc_iteration(whole) > sosmc_iteration(s)) fail_msg("round %d went back", round);
        while (sosmc_iteration(whole) < sosmc_iteration(s)) expect_steps(whole, 1);
        assert_true(sosmc_hash(s) == sosmc_hash(whole));
        atomic_store(&seen->done, sosmc_iteration(s));
    }
    checkpoint_folder_save(s, &p); /* which removes what the last of them left */
    sosmc_free(s);
    sosmc_free(whole);
    (void)munmap(seen, sizeof *seen);
    checkpoint_folder_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_rotate),
        cmocka_unit_test(a_bare_name),
        cmocka_unit_test(a_damaged_file_falls_back),
        cmocka_unit_test(a_damaged_header_falls_back),
        cmocka_unit_test(a_file_of_another_problem_is_refused),
        cmocka_unit_test(no_file_is_whole),
        cmocka_unit_test(paths_that_are_none),
        cmocka_unit_test(directories_that_cannot_be_written),
        cmocka_unit_test(a_rename_that_fails),
        cmocka_unit_test(a_directory_is_not_a_checkpoint),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(no_link_is_followed),
        cmocka_unit_test(leftovers_are_removed),
        cmocka_unit_test(killed_while_saving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
