/* checkpoint_file.c: checkpoints as files that survive a crash at any moment (base/kept_file.h). */
#include <stdio.h>

#include "base/kept_file.h"
#include "engine_inside.h"

static sosmc_status cannot(const sosmc *s, const kept_file *f)
{
    char words[MESSAGE];
    sosmc_i_kept_words(f, words, sizeof words);
    return sosmc_i_fail(s, SOSMC_EIO, "%s", words);
}

static sosmc_status save_file(sosmc *s, const char *path)
{
    double unused = 0;
    int64_t none = 0;
    kept_file f = {.fd = -1};
    int writes = ranks(s) == 1 || s->cfg.comm.rank == 0;
    if (!s->ready) return s->failed;
    if (sosmc_i_kept_names(&f, path))
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint's path is empty or too long");
    /* Rank 0 alone has a file; the others must hear of its failures before and after they have sent their tiles. */
    sosmc_status status = writes && sosmc_i_kept_create(&f) ? cannot(s, &f) : SOSMC_OK;
    status = sosmc_i_agree(s, status, &unused, &none);
    if (status == SOSMC_OK) {
        status = sosmc_i_save(s, writes ? sosmc_i_kept_put : NULL, &f);
        if (f.error) status = cannot(s, &f);
        if (status == SOSMC_OK && writes && sosmc_i_kept_place(&f)) status = cannot(s, &f);
        status = sosmc_i_agree(s, status, &unused, &none);
    }
    sosmc_i_kept_close(&f, status != SOSMC_OK);
    return status;
}

sosmc_status sosmc_save_file(sosmc *s, const char *path)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    return sosmc_i_leave(s, save_file(s, path));
}

/* All ranks take the same file, or none does. */
static sosmc_status read_file(sosmc *s, kept_file *f, int which)
{
    double unused = 0;
    int64_t none = 0;
    sosmc_status status = sosmc_i_kept_open(f, which) ? cannot(s, f) : SOSMC_OK;
    status = sosmc_i_agree(s, status, &unused, &none);
    if (status == SOSMC_OK) status = sosmc_i_load(s, sosmc_i_kept_get, f);
    sosmc_i_kept_close(f, 0);
    return status;
}

static sosmc_status load_file(sosmc *s, const char *path)
{
    char first[MESSAGE];
    kept_file f = {.fd = -1};
    if (!s->ready) return s->failed;
    if (sosmc_i_kept_names(&f, path))
        return sosmc_i_fail(s, SOSMC_EINVAL, "the checkpoint's path is empty or too long");
    sosmc_status status = read_file(s, &f, 0);
    if (status != SOSMC_EIO) return status;
    (void)snprintf(first, sizeof first, "%s", s->message);
    if (read_file(s, &f, 1) == SOSMC_OK) return SOSMC_OK;
    return sosmc_i_fail(s, status, "%.*s", MESSAGE - 1, first); /* what is wrong with the newest matters most */
}

sosmc_status sosmc_load_file(sosmc *s, const char *path)
{
    STANDARD_ARITHMETIC;
    TRY(sosmc_i_enter(s));
    return sosmc_i_leave(s, load_file(s, path));
}
