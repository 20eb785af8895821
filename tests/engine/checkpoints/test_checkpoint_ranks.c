/* test_checkpoint_ranks.c: several ranks write the bytes that one writes, take up what any number has written, and
 * refuse together: what one cannot save or load, none goes on with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "checkpoint_files.h"
#include "fake_comm.h"
#include "engine/engine_inside.h"

enum { MOST_RANKS = 5, HALF = 4 };

/* One job for all ranks; every rank notes what it sees in its own row. */
typedef struct {
    const engine_case *w;
    const record *r;
    const char *path; /* files instead of memory */
    int unlike;       /* rank 1 loads another iteration than the others */
    int saves;        /* run from the start and save at every iteration; else load iteration HALF and run */
    memory at[K + 1]; /* rank 0's streams */
    sosmc_status status[MOST_RANKS];
    int wrong[MOST_RANKS]; /* iterations whose hash differs */
    int64_t loaded[MOST_RANKS];
    char message[MOST_RANKS][MESSAGE];
} job;

static sosmc_status job_save(job *j, sosmc *s, int k)
{
    memory *m = &j->at[k];
    if (j->path) return sosmc_save_file(s, j->path);
    return sosmc_save(s, s->cfg.comm.rank == 0 ? memory_put : NULL, m);
}

static sosmc_status job_load(job *j, sosmc *s)
{
    int other = j->unlike && s->cfg.comm.rank == 1;
    memory m = j->r->at[HALF + other]; /* every rank reads the whole stream, with its own position */
    m.at = 0;
    m.calls = m.fail_at = 0;
    return j->path ? sosmc_load_file(s, j->path) : sosmc_load(s, memory_get, &m);
}

static void rank_runs(void *ctx, const sosmc_comm *comm)
{
    job *j = ctx;
    int rank = comm->rank;
    engine_case w = *j->w;
    sosmc *s = NULL;
    w.cfg.comm = *comm;
    sosmc_status status = sosmc_create(&s, &w.p, &w.cfg);
    if (status == SOSMC_OK && !j->saves) {
        status = job_load(j, s);
        j->loaded[rank] = sosmc_iteration(s);
    }
    for (int k = status == SOSMC_OK ? (int)sosmc_iteration(s) : K + 1; k <= K; k++) {
        if (sosmc_hash(s) != j->r->hash[k]) j->wrong[rank]++;
        if (j->saves && status == SOSMC_OK) status = job_save(j, s, k);
        if (k < K && status == SOSMC_OK) status = sosmc_step(s);
        if (status != SOSMC_OK) break;
    }
    j->status[rank] = status;
    (void)snprintf(j->message[rank], MESSAGE, "%s", sosmc_message(s));
    sosmc_free(s);
}

static void check_job(const job *j, int size)
{
    for (int rank = 0; rank < size; rank++) {
        if (j->status[rank] != SOSMC_OK) fail_msg("%s: rank %d of %d: %s", j->w->name, rank, size, j->message[rank]);
        if (j->wrong[rank]) fail_msg("%s: rank %d of %d: another state", j->w->name, rank, size);
        if (!j->saves) assert_int_equal(j->loaded[rank], HALF);
    }
}

static void ranks_write_the_same_bytes(void **state)
{
    const int which[] = {ULA_PAPER, HMC_AUTHORS, PCD, SOUL, RWM_AUTHORS, HUGE_DIMENSION};
    for (size_t q = 0; q < sizeof which / sizeof *which; q++) {
        engine_case w = engine_case_of(which[q]);
        w.cfg.judge = 0; /* runs on several ranks are not watched, so their streams lack that section */
        record *r = record_run(&w);
        for (int size = 1; size <= 4; size++) {
            job j = {.w = &w, .r = r, .saves = 1};
            assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
            check_job(&j, size);
            for (int k = 0; k <= K; k++) {
                if (!memory_same(&j.at[k], &r->at[k])) fail_msg("%s: %d ranks, other bytes", w.name, size);
                free(j.at[k].bytes);
            }
        }
        for (int size = 1; size <= 4; size++) { /* from one rank into any number */
            job j = {.w = &w, .r = r};
            assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
            check_job(&j, size);
        }
        record_free(r);
    }
}

static void ranks_with_different_checkpoints_are_refused(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    job j = {.w = &w, .r = r, .unlike = 1};
    assert_int_equal(fake_run(3, rank_runs, &j, NULL, NULL), 0);
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(j.status[rank], SOSMC_EINVAL);
        assert_non_null(strstr(j.message[rank], "rank 1 was given another checkpoint"));
        assert_int_equal(j.loaded[rank], 0); /* nothing was taken */
    }
    record_free(r);
}

static void ranks_share_a_file(void **state)
{
    engine_case w = engine_case_of(PCD);
    record *r = record_run(&w);
    for (int size = 1; size <= 4; size++) {
        checkpoint_folder p = checkpoint_folder_new();
        job j = {.w = &w, .r = r, .saves = 1, .path = p.path};
        assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
        check_job(&j, size);
        assert_file_is(p.path, &r->at[K]);
        assert_file_is(p.previous, &r->at[K - 1]);
        assert_int_equal(checkpoint_folder_leftovers(&p), 0);

        file_write(p.path, r->at[5].bytes, 3000); /* damaged: all of them take the one before */
        file_write(p.previous, r->at[HALF].bytes, r->at[HALF].used);
        j = (job){.w = &w, .r = r, .path = p.path};
        assert_int_equal(fake_run(size, rank_runs, &j, NULL, NULL), 0);
        check_job(&j, size);
        checkpoint_folder_free(&p);
    }
    record_free(r);
}

/* A stream that is refused is refused by all ranks, with one status, and they can go on together. */
typedef struct {
    const engine_case *w;
    const record *r;
    const memory *m;
    const char *path, *path1; /* instead of the memory: save to this path, or load from it; rank 1's own, or NULL */
    int saves;
    sosmc_status status[MOST_RANKS], after[MOST_RANKS];
    uint64_t hash[MOST_RANKS];
} refusal;

static void rank_is_refused(void *ctx, const sosmc_comm *comm)
{
    refusal *j = ctx;
    engine_case w = *j->w;
    sosmc *s = NULL;
    w.cfg.comm = *comm;
    sosmc_status status = sosmc_create(&s, &w.p, &w.cfg);
    for (int k = 0; k < 2 && status == SOSMC_OK; k++) status = sosmc_step(s);
    j->after[comm->rank] = status;
    if (status == SOSMC_OK) {
        memory m = {.used = 0};
        if (j->m) m = *j->m;
        m.calls = 0;
        const char *path = j->path1 && comm->rank == 1 ? j->path1 : j->path;
        j->status[comm->rank] = path && j->saves ? sosmc_save_file(s, path)
                                : path           ? sosmc_load_file(s, path)
                                                 : sosmc_load(s, memory_get, &m);
        j->after[comm->rank] = sosmc_step(s);
        j->hash[comm->rank] = sosmc_hash(s);
    }
    sosmc_free(s);
}

static void all_are_refused(refusal *j, int size, sosmc_status expected, const char *what)
{
    assert_int_equal(fake_run(size, rank_is_refused, j, NULL, NULL), 0);
    for (int rank = 0; rank < size; rank++) {
        if (j->status[rank] != expected)
            fail_msg("%s: rank %d of %d: status %d, not %d", what, rank, size, j->status[rank], expected);
        if (j->after[rank] != SOSMC_OK)
            fail_msg("%s: rank %d of %d cannot go on: status %d", what, rank, size, j->after[rank]);
        assert_true(j->hash[rank] == j->r->hash[3]);
    }
}

static void ranks_refuse_together(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    memory damaged = r->at[5], shorter = r->at[5];
    damaged.bytes = malloc(damaged.used);
    assert_non_null(damaged.bytes);
    memcpy(damaged.bytes, r->at[5].bytes, damaged.used);
    damaged.bytes[1000] ^= 1;
    shorter.used = 5000;
    for (int size = 1; size <= 4; size++) {
        refusal j = {.w = &w, .r = r, .m = &damaged};
        all_are_refused(&j, size, SOSMC_EIO, "damaged stream");
        j.m = &shorter;
        all_are_refused(&j, size, SOSMC_EIO, "short stream");
        j.path = "/no/such/directory/checkpoint";
        all_are_refused(&j, size, SOSMC_EIO, "no file");
    }
    free(damaged.bytes);
    record_free(r);
}

/* Only rank 0 touches the disk; when that fails, the others must hear of it, and nobody may wait for who has left. */
static void ranks_learn_that_saving_failed(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    for (int size = 1; size <= 3; size++) {
        checkpoint_folder p = checkpoint_folder_new();
        refusal j = {.w = &w, .r = r, .path = "/no/such/directory/checkpoint", .saves = 1};
        all_are_refused(&j, size, SOSMC_EIO, "no directory");
        struct rlimit old, low;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        low = old;
        low.rlim_cur = 100;
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        j.path = p.path;
        all_are_refused(&j, size, SOSMC_EIO, "full disk");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        (void)signal(SIGXFSZ, handler);
        checkpoint_folder_free(&p);
    }
    record_free(r);
}

/* Every rank reads the file itself; where one cannot, none may go ahead. */
static void ranks_learn_that_loading_failed(void **state)
{
    engine_case w = engine_case_of(ULA_PAPER);
    record *r = record_run(&w);
    checkpoint_folder p = checkpoint_folder_new();
    file_write(p.path, r->at[5].bytes, r->at[5].used);
    for (int size = 2; size <= 3; size++) {
        refusal j = {.w = &w, .r = r, .path = p.path, .path1 = "/no/such/directory/checkpoint"};
        all_are_refused(&j, size, SOSMC_EIO, "no file on rank 1");
    }
    checkpoint_folder_free(&p);
    record_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_write_the_same_bytes),
        cmocka_unit_test(ranks_share_a_file),
        cmocka_unit_test(ranks_refuse_together),
        cmocka_unit_test(ranks_learn_that_saving_failed),
        cmocka_unit_test(ranks_learn_that_loading_failed),
        cmocka_unit_test(ranks_with_different_checkpoints_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
