/* checkpoint_files.c: see checkpoint_files.h. A checkpoint is PATH and the one before it is PATH.previous; no temporary
 * is left after a save. PATH.tmp (`tmp`) is a name of somebody else. */
#include "checkpoint_files.h"
#include "expect_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

checkpoint_folder checkpoint_folder_new(void)
{
    checkpoint_folder p;
    const char *base = getenv("TMPDIR");
    (void)snprintf(p.dir, sizeof p.dir, "%s/sosmc_XXXXXX", base && strlen(base) < 100 ? base : "/tmp");
    assert_non_null(mkdtemp(p.dir));
    (void)snprintf(p.path, sizeof p.path, "%s/run.checkpoint", p.dir);
    (void)snprintf(p.previous, sizeof p.previous, "%s.previous", p.path);
    (void)snprintf(p.tmp, sizeof p.tmp, "%s.tmp", p.path);
    return p;
}

void checkpoint_folder_free(const checkpoint_folder *p)
{
    (void)unlink(p->path);
    (void)rmdir(p->path);
    (void)unlink(p->previous);
    (void)rmdir(p->previous);
    (void)unlink(p->tmp);
    assert_int_equal(rmdir(p->dir), 0); /* nothing else was left there */
}

int checkpoint_folder_leftovers(const checkpoint_folder *p)
{
    DIR *d = opendir(p->dir);
    int found = 0;
    assert_non_null(d);
    // cppcheck-suppress readdirCalled ; nobody else reads this stream
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) found += strstr(e->d_name, ".tmp") != NULL;
    (void)closedir(d);
    return found;
}

int file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static memory read_all(const char *path)
{
    memory m = {.used = 0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    m.room = 1 << 23;
    m.bytes = malloc(m.room);
    assert_non_null(m.bytes);
    m.used = fread(m.bytes, 1, m.room, f);
    (void)fclose(f);
    return m;
}

void file_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void checkpoint_folder_save(sosmc *s, const checkpoint_folder *p)
{
    if (sosmc_save_file(s, p->path) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    assert_int_equal(checkpoint_folder_leftovers(p), 0);
}

void assert_file_is(const char *path, const memory *expected)
{
    memory m = read_all(path);
    if (!memory_same(&m, expected)) fail_msg("%s does not hold what it should", path);
    free(m.bytes);
}

saved_run saved_run_new(int which)
{
    saved_run d = {.p = checkpoint_folder_new(), .w = engine_case_of(which)};
    d.r = record_run(&d.w);
    d.s = engine_case_open(d.w);
    file_write(d.p.previous, d.r->at[3].bytes, d.r->at[3].used);
    file_write(d.p.path, d.r->at[4].bytes, d.r->at[4].used);
    expect_steps(d.s, 1);
    return d;
}

void saved_run_free(saved_run *d)
{
    sosmc_free(d->s);
    record_free(d->r);
    checkpoint_folder_free(&d->p);
}

void assert_not_saved(saved_run *d, sosmc_status expected)
{
    uint64_t before = sosmc_hash(d->s);
    sosmc_status status = sosmc_save_file(d->s, d->p.path);
    if (status != expected) fail_msg("status %d: %s", status, sosmc_message(d->s));
    assert_true(sosmc_hash(d->s) == before);
    assert_int_equal(checkpoint_folder_leftovers(&d->p), 0);
    assert_file_is(d->p.path, &d->r->at[4]);
    assert_file_is(d->p.previous, &d->r->at[3]);
}
