/* files.h: what the program reads and writes: whole files, NPY and NPZ arrays, CSV tables, JSON, traces.
 *
 * Rules that hold everywhere:
 *   - functions that can fail return 0 or -1, and on failure leave one sentence in `error` (`room` bytes) that names
 *     the file and the reason;
 *   - a file is written under a temporary name in its folder (directory.h), flushed to the disk and renamed: whoever looks
 *     sees the old file or the new one, and a link in its place is replaced, never followed;
 *   - a reader checks every length against the size of the file before it allocates;
 *   - numbers are printed and read in the C locale: the program never calls setlocale for LC_NUMERIC or LC_ALL. */
#ifndef SOSMC_FILES_FILES_H
#define SOSMC_FILES_FILES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sosmc/sosmc.h>

enum { FILES_PATH = 4096 }; /* room for a path */

/* Puts the sentence into `error`, unless that is NULL. */
void files_say(char *error, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with the value -1, so that `return files_fail(...)` reads well. */
#define files_fail(...) (files_say(__VA_ARGS__), -1)

/* "cannot VERB PATH: what errno `number` means". */
int files_cannot(const char *verb, const char *path, int number, char *error, size_t room);

/* DIR/NAME into `out`; fails when it does not fit. */
int files_join(char out[FILES_PATH], const char *dir, const char *name, char *error, size_t room);
const char *files_last_part(const char *path); /* behind the last slash */
/* Makes the directory and, like mkdir -p, those above it; one that exists is fine. A path that leaves no room for the names of
 * files is refused, and what was made before a failure is removed again. */
int files_directory(const char *path, char *error, size_t room);
/* A regular file for reading, with its size: a pipe would block for ever and has no size to check lengths against. */
FILE *files_open(const char *path, uint64_t *size, char *error, size_t room);
/* Puts the directory that holds PATH on the disk: only then is a new name safe. Best effort. */
void files_sync_directory(const char *path);
/* The whole of a regular file of at most `limit` bytes, with a NUL behind it; the caller frees. */
int files_read(const char *path, size_t limit, char **bytes, size_t *size, char *error, size_t room);

/* Bytes of the UTF-8 character at s; 0 at the end of the string or where the bytes are not UTF-8. */
int files_utf8(const char *s);
int files_is_utf8(const char *text); /* all of it: what YAML, JSON and pages can hold */
/* The shortest of %.15g, %.16g, %.17g that reads back as the same number. */
const char *files_number(double value, char out[32]);
uint64_t files_little_endian(const unsigned char *p, int bytes); /* at most 8 of them */

/* ------------------------------------------------------------------------------------------------ atomic writing */

/* The first error is kept: a caller may write without checking, and atomic_close returns the error. Always end with
 * atomic_close or atomic_abandon. */
typedef struct {
    FILE *stream;                                 /* for code that needs a FILE; prefer atomic_put and atomic_print */
    int error;                                    /* errno of the first failure */
    int folder;                                   /* descriptor of the directory that holds the file */
    size_t base;                                  /* where the last part of `path` begins */
    char path[FILES_PATH], temporary[FILES_PATH]; /* temporary: a name in the folder */
} atomic_file;

int atomic_open(atomic_file *f, const char *path, char *error, size_t room);
/* The same in a folder that is open: the file gets the last part of `path`, which is otherwise for messages. */
int atomic_open_in(atomic_file *f, int folder, const char *path, char *error, size_t room);
void atomic_put(atomic_file *f, const void *bytes, size_t n);
void atomic_print(atomic_file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts the file on the disk and renames it; on failure nothing is left. */
int atomic_close(atomic_file *f, char *error, size_t room);
/* The same; a file that is there gets the name `previous` before the new one takes its place. */
int atomic_close_keeping(atomic_file *f, const char *previous, char *error, size_t room);
/* Renames without waiting for the disk, for files such as figures that can be made again at any time. */
int atomic_close_loosely(atomic_file *f, char *error, size_t room);
void atomic_abandon(atomic_file *f);
/* All of it in one call. */
int files_write(const char *path, const void *bytes, size_t n, char *error, size_t room);

/* ------------------------------------------------------------------------------------------------ arrays */

typedef enum { NPY_F64 = 0, NPY_F32, NPY_I64, NPY_U8 } npy_type;
enum { NPY_DIMS = 4 };
typedef struct {
    npy_type type;
    int dims; /* 0 to 4; 0 is a single number */
    int64_t shape[NPY_DIMS];
    const void *data; /* C order; 8-byte aligned when it comes from a reader */
    void *owned;      /* what npy_free frees */
} npy_array;

npy_array npy_vector(const double *data, int64_t n); /* views: borrow the data */
npy_array npy_matrix(const double *data, int64_t rows, int64_t columns);
int64_t npy_count(const npy_array *a);             /* elements; -1: the shape is impossible */
void npy_doubles(const npy_array *a, double *out); /* npy_count of them, whatever the type */
void npy_free(npy_array *a);

/* Version 1.0, little-endian, C order. The reader refuses everything else with a sentence. */
int npy_write(const char *path, const npy_array *a, char *error, size_t room);
int npy_read(const char *path, npy_array *out, char *error, size_t room);

/* A ZIP archive with one NAME.npy per array. All dates are 1980-01-01: equal arrays give equal files (level 0 with any
 * zlib, others with the same zlib). */
typedef struct {
    const char *name;
    npy_array array;
} npz_member;
/* `level` is 0 (stored) or 1 to 9 (deflated); NPZ_WIDE added to it asks for the ZIP64 form that archives of 4 GiB and
 * more take in any case. */
enum { NPZ_WIDE = 16 };
int npz_write(const char *path, const npz_member *member, int members, int level, char *error, size_t room);
int npz_read(const char *path, const char *name, npy_array *out, char *error, size_t room);
/* Unless `whole` is set: type and shape alone, from the header of the member, and no data. A small archive may hold a large array. */
int npz_read_part(const char *path, const char *name, int whole, npy_array *out, char *error, size_t room);
/* Calls `visit` with every name in the archive (not ended by a NUL; arrays end in .npy) until that returns something else
 * than 0, which is then the result; -1 comes with a sentence. */
typedef int npz_visit(void *context, const char *name, size_t length, char *error, size_t room);
int npz_list(const char *path, npz_visit *visit, void *context, char *error, size_t room);

/* ------------------------------------------------------------------------------------------------ tables */

/* Fields are separated by commas, semicolons or tabs, which the first records tell; where two readings are possible the table is
 * refused. Fields may stand in "double quotes" (a quote inside is written twice). A column whose fields are all numbers or
 * missing (empty, NA, NaN, null, None, ?, .) is numeric; any other is text. Blank lines, lines of separators alone and a
 * separator at the end of every line are skipped. */
typedef struct {
    char *name;     /* from the header line, else c1, c2, ... */
    int unnamed;    /* there is a header, which has no name for it */
    double *number; /* rows of them, NaN where the value is missing; NULL for text */
    char **text;    /* rows of them; NULL for numbers */
    int filled;     /* some field is not empty */
    /* Lines of the first field that is no number, of the first that is missing, of the first infinite number; 0: none. */
    int64_t odd, gap, infinite;
    char odd_text[28], gap_text[12]; /* the beginning of the first two */
} csv_column;
typedef struct {
    int64_t rows;
    int columns;
    csv_column *column;
    char *bytes, *path; /* what names, text and messages stand in */
} csv_table;
typedef enum {
    CSV_HEADER_GUESS = 0 /* a first line that holds text in a field */,
    CSV_HEADER_YES,
    CSV_HEADER_NO
} csv_header;
typedef struct {
    csv_header header;
    size_t max_bytes; /* 0: 1 GiB */
    int64_t max_rows; /* 0: no limit but the file's size */
    int max_columns;  /* 0: 65536 */
} csv_options;

int csv_read(const char *path, const csv_options *options /* may be NULL */, csv_table *out, char *error, size_t room);
void csv_free(csv_table *t);
const csv_column *csv_find(const csv_table *t, const char *name); /* NULL: no such column */
/* Fails with a sentence where the table has a header and no rows. */
int csv_needs_rows(const csv_table *t, char *error, size_t room);
/* The column as finite numbers without gaps; otherwise a sentence with file and line of the first field that is none. */
int csv_numbers(const csv_table *t, int column, const double **out, char *error, size_t room);
int csv_has_comma(const csv_column *c); /* the first field that is no number would be one with a point for its comma */
/* Missing values: whether a field of n bytes is one; whether the table has one there; a sentence about the first of a column
 * that has some; the rows that miss a value in one of these columns taken out, and how many they were. */
int csv_is_missing(const char *text, size_t n);
int csv_misses(const csv_table *t, int column, int64_t row);
int csv_gap(const csv_table *t, int column, char *error, size_t room);
int64_t csv_drop_rows(csv_table *t, const int *column, int columns);

/* ------------------------------------------------------------------------------------------------ JSON */

/* Writes into an atomic file, which keeps the first error; {.stream = f} serves for any other stream. `key` is NULL inside a
 * list and for the outermost value. */
enum { JSON_DEPTH = 32 };
typedef struct {
    atomic_file *file;
    int depth;
    char closing[JSON_DEPTH];
    int items[JSON_DEPTH];
} json_writer;

json_writer json_to(atomic_file *file);
void json_open_object(json_writer *w, const char *key);
void json_open_list(json_writer *w, const char *key);
void json_close(json_writer *w); /* the innermost; the outermost ends the line */
void json_put_text(json_writer *w, const char *key,
                   const char *value);                               /* NULL: null; bytes that are not UTF-8: U+FFFD */
void json_put_number(json_writer *w, const char *key, double value); /* NaN and infinities: null */
void json_put_whole(json_writer *w, const char *key, int64_t value);
void json_put_unsigned(json_writer *w, const char *key, uint64_t value);
void json_put_truth(json_writer *w, const char *key, int value);
void json_put_numbers(json_writer *w, const char *key, const double *value, int64_t n);

/* Jansson takes a failed allocation for a mistake of its own and aborts the process. After this call json_parse returns
 * instead (what the parser held is lost). It replaces Jansson's allocator for the whole process, so it is for a program's
 * main function alone, never for a library. */
void json_survive_lack_of_memory(void);
/* The value that n bytes hold; duplicate keys are an error. NULL: memory ran out and errno is ENOMEM; or the text is wrong,
 * errno is 0 and *why says what is wrong. */
json_t *json_parse(const char *bytes, size_t n, json_error_t *why);
/* A JSON file of at most 64 MiB; duplicate keys are an error, and whole numbers beyond 63 bits become text. The caller calls
 * json_decref. */
int json_read(const char *path, json_t **out, char *error, size_t room);
/* A number, and that of an object under a key; NaN: there is none. The pointers may be NULL. */
double json_value(const json_t *v);
double json_value_of(const json_t *object, const char *key);

/* ------------------------------------------------------------------------------------------------ traces */

/* A CSV file that grows by a row at a time and survives kill -9. Rows are buffered; trace_flush puts them on the disk
 * and must return before a checkpoint is renamed into place. Then every row before the checkpoint's iteration is in the
 * file, and what stands behind them (rows the resumed run will write again, half a line) is cut off on opening: the
 * interrupted and resumed run ends with the bytes of an uninterrupted one.
 *
 * Other damage is not what a crash leaves: a header or a line among the kept rows that is not one of this file. Then the file
 * is kept as PATH.damaged (or PATH.damaged-2, ...), a new one takes over all rows that are whole, and trace_note says so. */
typedef struct trace trace;

/* `from` is the first iteration that will be written: 0 starts anew, otherwise rows below it are kept, and a file that is
 * missing is begun. `columns` is the header line without its end; the first column is the iteration. A link, a FIFO or anything
 * else than a file is refused. */
int trace_open(trace **out, const char *path, const char *columns, int64_t from, char *error, size_t room);
/* Numbers are written as %.17g, NaN as an empty field. The first error is kept and returned by trace_flush, which also fails
 * where the file was removed, replaced or changed by somebody else. */
void trace_append(trace *t, int64_t iteration, const double *value, int values);
int trace_flush(trace *t, char *error, size_t room);
int trace_close(trace *t, char *error, size_t room); /* flushes; t may be NULL */
/* Notes rows that are missing: multiples of the stride before `from`. */
void trace_note_missing(trace *t, int64_t from, int64_t stride);
const char *trace_note(const trace *t); /* what was wrong with the file on opening, in a sentence; empty: nothing */
/* A bound on the rows: of iterations 0, ..., n - 1 those stay that are multiples of `every` times the smallest power of two
 * that leaves at most `most` of them (0: no bound). It depends on n alone, so a resumed run has the rows of another. */
int64_t trace_stride(int64_t n, int64_t every, int64_t most);
/* Removes the rows of all other iterations from a flushed trace. A reader sees either the old file or the new one. */
int trace_thin(trace *t, int64_t stride, char *error, size_t room);
/* The last row that was kept on opening: returns its iteration and sets *value to its second field; -1 and 0 when there was
 * none. */
int64_t trace_kept(const trace *t, double *value);

/* trace.csv: the fields of sosmc_info in a fixed order, then theta_1, ..., theta_p; theta_norm when p > 64. */
enum { TRACE_THETAS = 64, TRACE_COLUMNS = 2048 /* room for the header line */ };
void trace_columns(int dim_theta, char out[TRACE_COLUMNS]);
/* The columns of theta for any trace: one for each number, or its norm alone where there are more than TRACE_THETAS. They are
 * appended to the header line, and their values put; how many those are is returned. */
void trace_name_theta(int dim_theta, char columns[TRACE_COLUMNS]);
int trace_put_theta(const double *theta, int dim_theta, double value[TRACE_THETAS]);
/* trace_open with these columns; a file of an earlier version, which has no column mobility, goes on without it. */
int trace_open_info(trace **out, const char *path, int dim_theta, int64_t from, char *error, size_t room);
void trace_info(trace *t, const sosmc_info *info, const double *theta, int dim_theta);
/* timing.csv: iteration, cumulative wall-clock seconds. */
#define TRACE_TIMING "iteration,seconds"
void trace_time(trace *t, int64_t iteration, double seconds);

#endif
