/* checkpoint.c: see checkpoint.h. The file is written like all files of a run directory, without following links. */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"

enum { SENTENCE = 1024 };

static int put_bytes(void *file, const void *bytes, size_t n)
{
    atomic_file *f = file;
    atomic_put(f, bytes, n);
    return f->error ? -1 : 0;
}

sosmc_status checkpoint_save(stepper *s, const char *path, char *error, size_t room)
{
    atomic_file f;
    char previous[FILES_PATH];
    const char *slash = strrchr(path, '/');
    (void)snprintf(previous, sizeof previous, "%s.previous", slash ? slash + 1 : path);
    if (atomic_open(&f, path, error, room)) return SOSMC_EIO;
    sosmc_status status = stepper_save(s, put_bytes, &f);
    if (status == SOSMC_OK || f.error) return atomic_close_keeping(&f, previous, error, room) ? SOSMC_EIO : SOSMC_OK;
    files_say(error, room, "%s", stepper_message(s));
    atomic_abandon(&f);
    return status;
}

static int get_bytes(void *stream, void *bytes, size_t n) { return fread(bytes, 1, n, stream) == n ? 0 : -1; }

/* *there: the file could be opened. */
static sosmc_status load_file(stepper *s, const char *path, int *there, char *error, size_t room)
{
    uint64_t size;
    FILE *f = files_open(path, &size, error, room);
    sosmc_status status = f ? stepper_load(s, get_bytes, f) : SOSMC_EIO;
    *there = f != NULL;
    if (f && status != SOSMC_OK) files_say(error, room, "%s: %s", path, stepper_message(s));
    if (f) (void)fclose(f);
    return status;
}

sosmc_status checkpoint_load(stepper *s, const char *path, char *note, size_t note_room, char *error, size_t room)
{
    static const char *const endings[] = {".previous", ".tmp"};
    char other[FILES_PATH + 16], ignored[SENTENCE];
    int there, is_there;
    note[0] = 0;
    sosmc_status status = load_file(s, path, &there, error, room);
    if (status != SOSMC_EIO) return status;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        (void)snprintf(other, sizeof other, "%s%s", path, endings[i]);
        if (load_file(s, other, &is_there, ignored, sizeof ignored) != SOSMC_OK) continue;
        if (!there) return SOSMC_OK;
        (void)snprintf(note, note_room, "%s; the run goes on from %s %lld, of the checkpoint before it", error,
                       stepper_unit(s), (long long)stepper_done(s));
        (void)unlink(path);
        return SOSMC_OK;
    }
    return status; /* what is wrong with the newest matters most */
}
