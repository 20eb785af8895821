/* inputs.c: see inputs.h. */
#include "inputs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pictures/images.h"
#include "runfile/schema.h"

enum { CHUNK = 65536 };
static const char RECORD[] = "inputs.json", CHANGES[] = "accepted_changes";

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---------------------------------------------------------------------------- which they are */

static void add(inputs *in, const char *key, const char *path)
{
    struct stat st = {0};
    if (!path || in->n == INPUTS_MOST) return;
    for (int i = 0; i < in->n; i++)
        if (strcmp(in->file[i].key, key) == 0) return; /* a key may have several rows in the table */
    (void)stat(path, &st);                             /* one that is not there is nobody's */
    in->file[in->n++] = (input_file){.key = key, .path = path, .device = st.st_dev, .number = st.st_ino};
}

void inputs_find(inputs *in, const config *c, const char *also_key, const char *also)
{
    *in = (inputs){.n = 0};
    for (const schema_key *row = schema_keys; row->path; row++)
        if (row->type == TYPE_PATH && config_has(c, row->path)) add(in, row->path, config_text(c, row->path));
    if (also) add(in, also_key, also);
}

static int is_same(const struct stat *a, const input_file *b)
{
    return a->st_dev == b->device && a->st_ino == b->number;
}

static void drop(inputs *in, int at)
{
    in->n--;
    memmove(&in->file[at], &in->file[at + 1], (size_t)(in->n - at) * sizeof *in->file);
}

void inputs_drop(inputs *in, const char *dir, const char *name)
{
    char path[FILES_PATH];
    struct stat st;
    if (files_join(path, dir, name, NULL, 0) || stat(path, &st)) return;
    for (int i = in->n - 1; i >= 0; i--)
        if (schema_find(in->file[i].key) && is_same(&st, &in->file[i])) drop(in, i);
}

void inputs_drop_missing(inputs *in)
{
    for (int i = in->n - 1; i >= 0; i--)
        if (!in->file[i].number) drop(in, i);
}

/* ---------------------------------------------------------------------------- sizes and sums */

static int add_file(sha256 *s, const char *path, uint64_t *bytes, char *error, size_t room)
{
    uint64_t size = 0;
    FILE *f = files_open(path, &size, error, room);
    char *chunk = f ? malloc(CHUNK) : NULL;
    int status = chunk ? 0 : -1;
    if (f && !chunk) (void)files_fail(error, room, "no memory to read %s", path);
    for (size_t n = 1; status == 0 && n > 0; *bytes += n) {
        n = fread(chunk, 1, CHUNK, f);
        sha256_add(s, chunk, n);
    }
    if (status == 0 && ferror(f)) status = files_cannot("read", path, errno, error, room);
    free(chunk);
    if (f) (void)fclose(f);
    return status;
}

/* The pictures of a folder: name, a zero byte and content of each. */
static int add_folder(sha256 *s, const char *path, uint64_t *bytes, char *error, size_t room)
{
    struct dirent **entry = NULL;
    char file[FILES_PATH];
    int count = images_in_folder(path, &entry), status = 0;
    if (count < 0) return files_cannot("read", path, errno, error, room);
    for (int i = 0; i < count; i++) {
        if (status == 0) status = files_join(file, path, entry[i]->d_name, error, room);
        if (status == 0) sha256_add(s, entry[i]->d_name, strlen(entry[i]->d_name) + 1);
        if (status == 0) status = add_file(s, file, bytes, error, room);
        free(entry[i]);
    }
    free((void *)entry);
    return status;
}

int inputs_measure(inputs *in, char *error, size_t room)
{
    for (int i = 0; i < in->n; i++) {
        input_file *f = &in->file[i];
        struct stat st;
        sha256 s;
        sha256_begin(&s);
        f->size = 0;
        if (stat(f->path, &st)) return files_cannot("open", f->path, errno, error, room);
        if (S_ISDIR(st.st_mode) ? add_folder(&s, f->path, &f->size, error, room)
                                : add_file(&s, f->path, &f->size, error, room))
            return -1;
        sha256_end(&s, f->sum);
    }
    return 0;
}

/* ---------------------------------------------------------------------------- the record */

static void note_change(inputs *in, const char *key, const char *name, int64_t iteration)
{
    if (in->changes == INPUTS_CHANGES) return;
    int i = in->changes++;
    (void)snprintf(in->change[i].key, INPUTS_NAME, "%.190s", key);
    (void)snprintf(in->change[i].name, INPUTS_NAME, "%.190s", name);
    in->change[i].iteration = iteration;
}

static void recall_changes(inputs *in, const json_t *record)
{
    size_t at;
    json_t *item;
    json_array_foreach(json_object_get(record, CHANGES), at, item)
    {
        const char *key = json_string_value(json_object_get(item, "key"));
        const char *name = json_string_value(json_object_get(item, "name"));
        if (key && name) note_change(in, key, name, json_integer_value(json_object_get(item, "iteration")));
    }
}

static int refuse(const input_file *f, int64_t size, const char *sum, char *error, size_t room)
{
    return files_fail(error, room,
                      "%s (%s) has changed since this run began: it had %" PRId64 " bytes and the SHA-256 %.12s..., it "
                      "has %" PRIu64
                      " bytes and %.12s...; begin another run, bring the file back, or go on all the same "
                      "with --accept-changed-inputs",
                      f->path, f->key, size, sum, f->size, f->sum);
}

int inputs_compare(inputs *in, const char *dir, int accept, int *before, char *error, size_t room)
{
    char path[FILES_PATH];
    json_t *record = NULL, *item;
    size_t at;
    *before = 0;
    if (files_join(path, dir, RECORD, error, room)) return -1;
    if (access(path, F_OK) != 0 && errno == ENOENT) return 0;
    if (json_read(path, &record, error, room)) return -1;
    int status = 0;
    in->known = 1;
    recall_changes(in, record);
    *before = in->changes;
    json_array_foreach(json_object_get(record, "files"), at, item)
    {
        const char *key = json_string_value(json_object_get(item, "key"));
        const char *sum = json_string_value(json_object_get(item, "sha256"));
        int64_t size = json_integer_value(json_object_get(item, "size"));
        for (int i = 0; key && sum && i < in->n && status == 0; i++) {
            const input_file *f = &in->file[i];
            if (strcmp(f->key, key) != 0 || (f->size == (uint64_t)size && strcmp(f->sum, sum) == 0)) continue;
            if (accept)
                note_change(in, f->key, last_part(f->path), 0);
            else
                status = refuse(f, size, sum, error, room);
        }
    }
    json_decref(record);
    return status;
}

void inputs_changed_at(inputs *in, int first, int64_t iteration)
{
    for (int i = first; i < in->changes; i++) in->change[i].iteration = iteration;
}

void inputs_tell(const inputs *in, json_writer *w)
{
    json_open_list(w, CHANGES);
    for (int i = 0; i < in->changes; i++) {
        json_open_object(w, NULL);
        json_put_text(w, "key", in->change[i].key);
        json_put_text(w, "name", in->change[i].name);
        json_put_whole(w, "iteration", in->change[i].iteration);
        json_close(w);
    }
    json_close(w);
}

int inputs_write(const inputs *in, const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    atomic_file f;
    if (in->n == 0) return 0;
    if (files_join(path, dir, RECORD, error, room) || atomic_open(&f, path, error, room)) return -1;
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_open_list(&w, "files");
    for (int i = 0; i < in->n; i++) {
        json_open_object(&w, NULL);
        json_put_text(&w, "key", in->file[i].key);
        json_put_text(&w, "name", last_part(in->file[i].path));
        json_put_whole(&w, "size", (int64_t)in->file[i].size);
        json_put_text(&w, "sha256", in->file[i].sum);
        json_close(&w);
    }
    json_close(&w);
    if (in->changes) inputs_tell(in, &w);
    json_close(&w);
    return atomic_close(&f, error, room);
}

/* ---------------------------------------------------------------------------- never written to */

/* Whether PATH is one of the files, under whatever name. */
static int clash_at(const inputs *in, const char *path, char *error, size_t room)
{
    struct stat st;
    if (stat(path, &st)) return 0;
    for (int i = 0; i < in->n; i++)
        if (in->file[i].number && is_same(&st, &in->file[i]))
            return files_fail(error, room,
                              "%s is what this command reads (%s), and it would be written to; choose another --out",
                              path, in->file[i].key);
    return 0;
}

static int clash_in_figures(const inputs *in, const char *dir, char *error, size_t room)
{
    char folder[FILES_PATH], path[FILES_PATH];
    int status = 0;
    if (files_join(folder, dir, "figures", error, room) || clash_at(in, folder, error, room)) return -1;
    DIR *d = opendir(folder);
    // cppcheck-suppress readdirCalled ; nobody else reads this stream
    for (const struct dirent *e = d ? readdir(d) : NULL; e && status == 0; e = readdir(d))
        if (e->d_name[0] != '.')
            status = files_join(path, folder, e->d_name, error, room) || clash_at(in, path, error, room) ? -1 : 0;
    if (d) (void)closedir(d);
    return status;
}

static int clash_with_run_file(const config *c, const char *path, char *error, size_t room)
{
    struct stat a, b;
    const char *file = config_file(c);
    if (!file || stat(file, &a) || stat(path, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino) return 0;
    return files_fail(error, room, "%s is the run file itself, and it would be written to; choose another --out", path);
}

int inputs_clash(const inputs *in, const config *c, const char *dir, const char *const *name, int names,
                 int own_run_file, char *error, size_t room)
{
    char path[FILES_PATH];
    for (int i = 0; i < names; i++) {
        if (files_join(path, dir, name[i], error, room) || clash_at(in, path, error, room)) return -1;
        if (own_run_file && strcmp(name[i], "run.yaml") == 0) continue;
        if (clash_with_run_file(c, path, error, room)) return -1;
    }
    return clash_in_figures(in, dir, error, room);
}
