/* deblur_report.c: the page of `sosmc deblur` again: the outcome is put together from deblur.json, which says where the
 * photograph is, and handed to deblur_results, which does the rest as it did at first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deblur_page.h"
#include "files/files.h"

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* DIR/seen.npy: channels planes of rows lines. */
static int read_stored(const char *dir, image *out, char *error, size_t room)
{
    char path[FILES_PATH];
    npy_array a = {0};
    if (files_join(path, dir, "seen.npy", error, room) || npy_read(path, &a, error, room)) return -1;
    int sound = a.dims == 3 && (a.shape[0] == 1 || a.shape[0] == 3) && npy_count(&a) > 0 &&
                npy_count(&a) / a.shape[0] <= IMAGE_PIXELS;
    *out = (image){0};
    if (sound) {
        *out = (image){.channels = (int)a.shape[0], .rows = (int)a.shape[1], .columns = (int)a.shape[2]};
        out->pixel = malloc((size_t)npy_count(&a) * sizeof *out->pixel);
        if (out->pixel) npy_doubles(&a, out->pixel);
    }
    npy_free(&a);
    if (out->pixel) return 0;
    return files_fail(error, room, "%s cannot be used; expected 1 or 3 channels x rows x columns, and memory for them",
                      path);
}

/* A relative name is one of the directory. */
static int read_photo(const char *dir, const char *path, image *out, char *error, size_t room)
{
    char why[1024], whole[FILES_PATH];
    if (path[0] != '/' && files_join(whole, dir, path, error, room)) return -1;
    if (image_read(path[0] == '/' ? path : whole, out, why, sizeof why) == 0) return 0;
    return files_fail(error, room, "the page of %s shows the photograph, which is not where it was: %s", dir, why);
}

/* The photograph is what was seen, or, where blur and noise were simulated, what the result is compared with; where pixels
 * were missing it is neither. */
static int write_again(const deblur_outcome *left, int simulated, char *error, size_t room)
{
    deblur_outcome what = *left, *o = &what;
    image seen = {0}, clean = {0};
    int rc = o->seen_stored ? read_stored(o->dir, &seen, error, room)
                            : read_photo(o->dir, o->photo_path, &seen, error, room);
    if (rc == 0 && simulated) rc = read_photo(o->dir, o->photo_path, &clean, error, room);
    if (rc == 0 && simulated &&
        (clean.rows != seen.rows || clean.columns != seen.columns || clean.channels != seen.channels))
        rc = files_fail(error, room, "%s has another size than when %s was made", o->photo_path, o->dir);
    o->seen = &seen;
    o->clean = simulated ? &clean : NULL;
    if (rc == 0) rc = deblur_results(o, error, room);
    image_free(&seen);
    image_free(&clean);
    return rc;
}

int deblur_report(const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    json_t *j = NULL;
    if (files_join(path, dir, "deblur.json", error, room) || json_read(path, &j, error, room)) return -1;
    deblur_outcome o = {.dir = dir,
                        .photo = text_of(j, "photo"),
                        .photo_path = text_of(j, "photo_path"),
                        .seen_stored = json_is_true(json_object_get(j, "seen_stored")),
                        .blur = text_of(j, "blur"),
                        .sigma = json_value_of(j, "noise"),
                        .estimated = json_value_of(j, "noise_estimated"),
                        .theta0 = json_value_of(j, "theta_start"),
                        .frame = (int)fmax(json_value_of(j, "frame"), 0),
                        .bits = json_value_of(j, "bits") > 8 ? 16 : 8,
                        .quiet = 1,
                        .warning = json_string_value(json_array_get(json_object_get(j, "warnings"), 0))};
    int rc = o.photo && o.photo_path && o.blur
                 ? write_again(&o, json_is_true(json_object_get(j, "simulated")), error, room)
                 : files_fail(error, room,
                              "%s does not say where the photograph is; expected photo, photo_path and blur, which "
                              "'sosmc deblur' with --resume writes",
                              path);
    json_decref(j);
    return rc;
}
