/* files.c: whole files, and JSON.
 *
 * Invariant: whenever the machine stops, a file under its final name is whole: the old one or the new one. */
#include "files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "words.h"

/* ------------------------------------------------------------------------------------------------ words */

void files_say(char *error, size_t room, const char *format, ...)
{
    enum { SENTENCE = 8192 };
    char sentence[SENTENCE];
    if (!error || room == 0) return;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    /* Control characters that come from a file must not reach the terminal or begin a new line. */
    (void)words_line(sentence, error, room);
}

const char *files_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int files_cannot(const char *verb, const char *path, int number, char *error, size_t room)
{
    return files_fail(error, room, "cannot %s %s: %s", verb, path, number ? strerror(number) : "unknown error");
}

int files_join(char out[FILES_PATH], const char *dir, const char *name, char *error, size_t room)
{
    size_t n = strlen(dir);
    int length = snprintf(out, FILES_PATH, "%s%s%s", dir, n > 0 && dir[n - 1] == '/' ? "" : "/", name);
    if (length > 0 && length < FILES_PATH) return 0;
    return files_fail(error, room, "the path %.60s.../%.60s is longer than %d bytes", dir, name, FILES_PATH - 1);
}

int files_utf8(const char *s)
{
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80) return b[0] != 0;
    int n = b[0] >= 0xC2 && b[0] < 0xE0 ? 2 : b[0] >= 0xE0 && b[0] < 0xF0 ? 3 : b[0] >= 0xF0 && b[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((b[i] & 0xC0) != 0x80) return 0;
    /* Longer forms of short characters, surrogates, and what lies beyond the last plane. */
    if (b[0] == 0xE0 && b[1] < 0xA0) return 0;
    if (b[0] == 0xED && b[1] >= 0xA0) return 0;
    if (b[0] == 0xF0 && b[1] < 0x90) return 0;
    if (b[0] == 0xF4 && b[1] >= 0x90) return 0;
    return n;
}

int files_is_utf8(const char *text)
{
    for (int n; (n = files_utf8(text)) > 0;) text += n;
    return *text == 0;
}

const char *files_number(double value, char out[32])
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    return out;
}

uint64_t files_little_endian(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

/* ------------------------------------------------------------------------------------------------ whole files */

/* Removes the directories of which the path is longer than `kept`, from the last on. */
static void remove_made(char *path, size_t kept)
{
    for (size_t n = strlen(path); n > kept; n = strlen(path)) {
        (void)rmdir(path);
        char *slash = strrchr(path, '/');
        if (!slash) return;
        *slash = 0;
    }
}

/* Makes all of them; -1: `path` ends with the one that could not be made, and those that were are removed. */
static int make_directories(char *path)
{
    size_t n = strlen(path), made = SIZE_MAX, last = 0; /* made: what was there before the first that was made */
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        path[i] = 0;
        if (mkdir(path, 0777) == 0) {
            if (made == SIZE_MAX) made = last;
        } else if (errno != EEXIST) {
            int number = errno;
            if (made != SIZE_MAX) {
                char again[FILES_PATH];
                memcpy(again, path, i + 1);
                remove_made(again, made);
            }
            errno = number;
            return -1;
        }
        last = i;
        path[i] = i < n ? '/' : 0;
    }
    return 0;
}

int files_directory(const char *path, char *error, size_t room)
{
    enum { NAMES = 256 }; /* of the files below it */
    char part[FILES_PATH];
    size_t n = strlen(path);
    if (n == 0) return files_fail(error, room, "the directory's path is empty");
    if (n + NAMES > sizeof part)
        return files_fail(error, room, "the directory's path %.40s... has %zu bytes; expected at most %d", path, n,
                          (int)(FILES_PATH - NAMES));
    memcpy(part, path, n + 1);
    if (make_directories(part)) return files_cannot("create", part, errno, error, room);
    struct stat st;
    if (stat(path, &st)) return files_cannot("open", path, errno, error, room);
    return S_ISDIR(st.st_mode) ? 0 : files_fail(error, room, "%s exists and is not a directory", path);
}

FILE *files_open(const char *path, uint64_t *size, char *error, size_t room)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!f || fstat(fd, &st)) {
        (void)files_cannot("open", path, errno, error, room);
    } else if (!S_ISREG(st.st_mode)) {
        (void)files_fail(error, room, "cannot open %s: it is not a regular file", path);
    } else {
        *size = (uint64_t)st.st_size;
        return f;
    }
    if (f)
        (void)fclose(f);
    else if (fd >= 0)
        (void)close(fd);
    return NULL;
}

int files_read(const char *path, size_t limit, char **bytes, size_t *size, char *error, size_t room)
{
    uint64_t length = 0;
    char *buffer = NULL;
    int status = -1;
    FILE *f = files_open(path, &length, error, room);
    if (!f) return -1;
    if (length > limit || length >= SIZE_MAX) {
        (void)files_fail(error, room, "%s has %" PRIu64 " bytes; at most %zu are read", path, length, limit);
        goto done;
    }
    buffer = malloc((size_t)length + 1);
    if (!buffer) {
        (void)files_fail(error, room, "no memory for the %" PRIu64 " bytes of %s", length, path);
        goto done;
    }
    errno = 0;
    if (fread(buffer, 1, (size_t)length, f) != length) {
        (void)files_cannot("read", path, ferror(f) ? errno : EIO, error, room);
        goto done;
    }
    buffer[length] = 0;
    *bytes = buffer;
    *size = (size_t)length;
    buffer = NULL;
    status = 0;
done:
    free(buffer);
    (void)fclose(f);
    return status;
}

void files_sync_directory(const char *path)
{
    char directory[FILES_PATH];
    if (strlen(path) >= sizeof directory) return;
    (void)snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == directory) slash++;
    if (slash) *slash = 0;
    int fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

/* ------------------------------------------------------------------------------------------------ atomic writing */

/* Takes over the descriptor of the folder. */
static int open_in(atomic_file *f, int folder, const char *name, const char *path, char *error, size_t room)
{
    *f = (atomic_file){.folder = folder};
    if (strlen(path) >= sizeof f->path || strlen(name) + DIRECTORY_SUFFIX > sizeof f->temporary || !*name) {
        (void)close(folder);
        return files_fail(error, room, "the path of a file is empty or too long");
    }
    memcpy(f->path, path, strlen(path) + 1);
    memcpy(f->temporary, name, strlen(name) + 1);
    f->base = strlen(path) - strlen(name);
    int fd = directory_temporary(folder, f->temporary);
    f->stream = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (f->stream) return 0;
    (void)files_cannot("create", path, errno, error, room);
    if (fd >= 0) (void)close(fd);
    if (fd >= 0) (void)unlinkat(folder, f->temporary, 0);
    (void)close(folder);
    return -1;
}

int atomic_open(atomic_file *f, const char *path, char *error, size_t room)
{
    const char *name;
    f->stream = NULL;
    int folder = directory_of(path, &name);
    if (folder < 0) return files_cannot("create", path, errno, error, room);
    return open_in(f, folder, name, path, error, room);
}

int atomic_open_in(atomic_file *f, int folder, const char *path, char *error, size_t room)
{
    f->stream = NULL;
    int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return files_cannot("create", path, errno, error, room);
    return open_in(f, own, files_last_part(path), path, error, room);
}

static void note_error(atomic_file *f)
{
    if (!f->error) f->error = errno ? errno : EIO;
}

void atomic_put(atomic_file *f, const void *bytes, size_t n)
{
    errno = 0;
    if (n > 0 && fwrite(bytes, 1, n, f->stream) != n) note_error(f);
}

void atomic_print(atomic_file *f, const char *format, ...)
{
    va_list list;
    errno = 0;
    va_start(list, format);
    if (vfprintf(f->stream, format, list) < 0) note_error(f);
    va_end(list);
}

static int rename_kept(const atomic_file *f, const char *previous)
{
    const char *name = f->path + f->base;
    if (previous && renameat(f->folder, name, f->folder, previous) && errno != ENOENT) return -1;
    return renameat(f->folder, f->temporary, f->folder, name);
}

static int finish(atomic_file *f, const char *previous, int durable, char *error, size_t room)
{
    errno = 0;
    if (fflush(f->stream) || (durable && fsync(fileno(f->stream))) || ferror(f->stream)) note_error(f);
    if (fclose(f->stream)) note_error(f);
    f->stream = NULL;
    int status = f->error ? files_cannot("write", f->path, f->error, error, room) : 0;
    if (!status && rename_kept(f, previous)) status = files_cannot("rename", f->path, errno, error, room);
    if (status)
        (void)unlinkat(f->folder, f->temporary, 0);
    else if (durable)
        (void)fsync(f->folder);
    (void)close(f->folder);
    return status;
}

int atomic_close(atomic_file *f, char *error, size_t room) { return finish(f, NULL, 1, error, room); }

int atomic_close_keeping(atomic_file *f, const char *previous, char *error, size_t room)
{
    return finish(f, previous, 1, error, room);
}

int atomic_close_loosely(atomic_file *f, char *error, size_t room) { return finish(f, NULL, 0, error, room); }

void atomic_abandon(atomic_file *f)
{
    if (!f->stream) return;
    (void)fclose(f->stream);
    f->stream = NULL;
    (void)unlinkat(f->folder, f->temporary, 0);
    (void)close(f->folder);
}

int files_write(const char *path, const void *bytes, size_t n, char *error, size_t room)
{
    atomic_file f;
    if (atomic_open(&f, path, error, room)) return -1;
    atomic_put(&f, bytes, n);
    return atomic_close(&f, error, room);
}

/* ------------------------------------------------------------------------------------------------ JSON */

json_writer json_to(atomic_file *file) { return (json_writer){.file = file}; }

static void put_escaped(atomic_file *f, const char *s)
{
    atomic_put(f, "\"", 1);
    while (*s) {
        unsigned code;
        int n = words_next(s, &code);
        if (code == WORDS_BAD)
            atomic_put(f, "\xEF\xBF\xBD", 3);
        else if (*s == '"' || *s == '\\')
            atomic_print(f, "\\%c", *s);
        else if (*s == '\n')
            atomic_put(f, "\\n", 2);
        else if (*s == '\t')
            atomic_put(f, "\\t", 2);
        else if (words_control(code))
            atomic_print(f, "\\u%04x", code);
        else
            atomic_put(f, s, (size_t)n);
        s += n;
    }
    atomic_put(f, "\"", 1);
}

static void new_line(const json_writer *w) { atomic_print(w->file, "\n%*s", 2 * w->depth, ""); }

static void begin_value(json_writer *w, const char *key)
{
    if (w->depth > 0) {
        if (w->items[w->depth - 1]++) atomic_put(w->file, ",", 1);
        new_line(w);
    }
    if (!key) return;
    put_escaped(w->file, key);
    atomic_put(w->file, ": ", 2);
}

static void open_with(json_writer *w, const char *key, char opening, char closing)
{
    begin_value(w, key);
    atomic_put(w->file, &opening, 1);
    assert(w->depth < JSON_DEPTH);
    w->closing[w->depth] = closing;
    w->items[w->depth++] = 0;
}

void json_open_object(json_writer *w, const char *key) { open_with(w, key, '{', '}'); }

void json_open_list(json_writer *w, const char *key) { open_with(w, key, '[', ']'); }

void json_close(json_writer *w)
{
    assert(w->depth > 0);
    w->depth--;
    if (w->items[w->depth]) new_line(w);
    atomic_put(w->file, &w->closing[w->depth], 1);
    if (w->depth == 0) atomic_put(w->file, "\n", 1);
}

void json_put_text(json_writer *w, const char *key, const char *value)
{
    begin_value(w, key);
    if (value)
        put_escaped(w->file, value);
    else
        atomic_put(w->file, "null", 4);
}

static void put_number(atomic_file *f, double value)
{
    char text[32];
    atomic_print(f, "%s", isfinite(value) ? files_number(value, text) : "null");
}

void json_put_number(json_writer *w, const char *key, double value)
{
    begin_value(w, key);
    put_number(w->file, value);
}

void json_put_whole(json_writer *w, const char *key, int64_t value)
{
    begin_value(w, key);
    atomic_print(w->file, "%" PRId64, value);
}

void json_put_unsigned(json_writer *w, const char *key, uint64_t value)
{
    begin_value(w, key);
    atomic_print(w->file, "%" PRIu64, value);
}

void json_put_truth(json_writer *w, const char *key, int value)
{
    begin_value(w, key);
    atomic_print(w->file, "%s", value ? "true" : "false");
}

void json_put_numbers(json_writer *w, const char *key, const double *value, int64_t n)
{
    begin_value(w, key);
    atomic_put(w->file, "[", 1);
    for (int64_t i = 0; i < n; i++) {
        if (i) atomic_put(w->file, ", ", 2);
        put_number(w->file, value[i]);
    }
    atomic_put(w->file, "]", 1);
}

/* Where this thread's json_parse jumps to when an allocation fails; NULL: the thread is not in the parser. */
static _Thread_local jmp_buf *json_jump;

static void *json_allocate(size_t bytes)
{
    void *got = malloc(bytes);
    if (!got && json_jump) longjmp(*json_jump, 1);
    return got;
}

void json_survive_lack_of_memory(void) { json_set_alloc_funcs(json_allocate, free); }

json_t *json_parse(const char *bytes, size_t n, json_error_t *why)
{
    jmp_buf here;
    json_t *volatile out = NULL;
    *why = (json_error_t){.line = -1};
    if (setjmp(here) == 0) {
        json_jump = &here;
        out = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, why);
        errno = 0;
    } else {
        errno = ENOMEM;
    }
    json_jump = NULL;
    return out;
}

/* A copy of the text, in which whole numbers beyond 63 bits stand in quotes; NULL: there is no memory. */
static char *quote_large(const char *text, size_t n, size_t *size)
{
    static const char most[] = "9223372036854775807";
    char *copy = malloc(n + n / 8 + 3), *to = copy;
    int quoted = 0;
    for (size_t i = 0; copy && i < n;) {
        size_t digits = quoted ? 0 : strspn(text + i, "0123456789"), length = digits ? digits : 1;
        int large = digits > 19 || (digits == 19 && memcmp(text + i, most, 19) > 0);
        int whole = large && !strchr(".eE", text[i + digits]) && (i == 0 || !strchr(".eE+-", text[i - 1]));
        if (quoted && text[i] == '\\' && i + 1 < n) length = 2;
        if (text[i] == '"') quoted = !quoted;
        if (whole) *to++ = '"';
        memcpy(to, text + i, length);
        to += length;
        if (whole) *to++ = '"';
        i += length;
    }
    *size = copy ? (size_t)(to - copy) : 0;
    return copy;
}

/* Jansson has no numbers beyond 63 bits; a seed may be one. */
static json_t *parse_with_large(const char *bytes, size_t n, json_error_t *why)
{
    json_t *out = json_parse(bytes, n, why);
    if (out || errno == ENOMEM || json_error_code(why) != json_error_numeric_overflow) return out;
    size_t size = 0;
    char *copy = quote_large(bytes, n, &size);
    if (copy) out = json_parse(copy, size, why);
    if (!copy) errno = ENOMEM;
    int number = errno;
    free(copy);
    errno = number;
    return out;
}

int json_read(const char *path, json_t **out, char *error, size_t room)
{
    char *bytes = NULL;
    size_t size = 0;
    json_error_t why;
    *out = NULL;
    if (files_read(path, (size_t)64 << 20, &bytes, &size, error, room)) return -1;
    *out = parse_with_large(bytes, size, &why);
    int no_memory = !*out && errno == ENOMEM;
    free(bytes);
    if (no_memory) return files_fail(error, room, "no memory to read %s", path);
    return *out ? 0 : files_fail(error, room, "%s:%d: %s", path, why.line, why.text);
}

double json_value(const json_t *v) { return json_is_number(v) ? json_number_value(v) : NAN; }

double json_value_of(const json_t *object, const char *key) { return json_value(json_object_get(object, key)); }
