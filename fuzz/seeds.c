/* seeds.c: what the fuzzers start from, made by the project's own writers: `fuzz_seeds FOLDER` leaves FOLDER/<fuzzer>/NAME,
 * and FOLDER/<fuzzer>.dict where words help. Everything is a few kB; nothing comes from elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <jpeglib.h>

#include "checkpoint_plan.h"
#include "files/files.h"
#include "pictures/images.h"
#include "runfile/schema.h"
#include "files/tensors.h"

static const char *root;
static char error[FUZZ_SENTENCE];

static void stop_unless(int fine, const char *what)
{
    if (fine) return;
    (void)fprintf(stderr, "fuzz_seeds: %s: %s\n", what, error);
    exit(1);
}

/* FOLDER/FUZZER/NAME, whose folder exists; the last two answers stay valid. */
static const char *place(const char *fuzzer, const char *name)
{
    static char path[2][FILES_PATH], folder[FILES_PATH];
    static int turn;
    char *out = path[turn++ % 2];
    stop_unless(files_join(folder, root, fuzzer, error, sizeof error) == 0 &&
                    files_directory(folder, error, sizeof error) == 0 &&
                    files_join(out, folder, name, error, sizeof error) == 0,
                fuzzer);
    return out;
}

static void put(const char *fuzzer, const char *name, const void *bytes, size_t n)
{
    stop_unless(files_write(place(fuzzer, name), bytes, n, error, sizeof error) == 0, name);
}

static void put_text(const char *fuzzer, const char *name, const char *text) { put(fuzzer, name, text, strlen(text)); }

/* ------------------------------------------------------------------------------------------------ text */

static void put_texts(void)
{
    static const char *const texts[][3] = {
        {"formula", "gate", "(x1 >= 0) * exp(-((x1-4)^2 + (x2-3.8)^2)/20)"},
        {"formula", "words", "if(x1 > 0 && !(x2 < 1), clamp(x3, -1, 1), min(max(x4, 2), 3)) + mod(x5, 2)"},
        {"formula", "functions", "sin(x1)+cos(x2)*tan(x3)-tanh(x4)/sigmoid(x5)^2^-1+softplus(x6)+sqrt(abs(x7))"},
        {"formula", "picture", "mean(1, rows/2, 1, columns) - 0.2*tv + sd - mask + norm2 - sum() || log(pi)"},
        {"network", "name", "mnist"},
        {"network", "residual",
         "1x8x8; conv 4 3 stride 2 pad 1 silu\nconv 4 3 pad 1 add 1 gelu; dense 3 tanh; dense 2; energy -1; output 1; base "
         "1.5; temperature 0.25"},
        {"csv", "header", "x,y,label\n1,2,a\n-3e5,.5,\"b \"\"q\"\"\"\n,nan,c\n"},
        {"csv", "plain",
         "\xEF\xBB\xBF"
         "1,2\r\n\r\n3,4\r\n"},
        {"pnm", "p2", "P2\n# grey\n3 2 15\n0 1 2 3 4 15\n"},
        {"pnm", "p3", "P3 1 2 1023 0 1 1023 5 6 7"},
        {"pnm", "p5", "P5 2 2 255 abcd"},
        {"pnm", "p6", "P6 1 1 65535 abcdef"},
        {"folder", "trace", "\x05iteration,seconds\n0,0.25\n1,0.5\n7,1\nhalf"},
        {"folder", "json", "\x02{\"a\": [1, -2.5e3, null, true, \"t\\u00e9xt\"], \"b\": {\"c\": {}}}"},
        {"run_file", "assigned",
         "#set kernel.step=0.2 #set adapt.1.factor=2 #set objective.beta=null\nmodel: {type: gaussian_mixture, means: [[-1, 0], "
         "&a [1, 0]], theta: *a}\nobjective: {type: reward_reverse, reward: \"x1 > 0\", beta: 0.1}\nadapt: {signal: ess}\n"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) put_text(texts[i][0], texts[i][1], texts[i][2]);
}

/* libFuzzer's dictionaries: a word in quotes per line. */
static void put_dictionary(const char *fuzzer, const char *words)
{
    char name[64], text[4096] = "", word[96];
    size_t used = 0;
    while (schema_word(&words, word, sizeof word))
        used += (size_t)snprintf(text + used, sizeof text - used, "\"%s\"\n", word);
    (void)snprintf(name, sizeof name, "%s.dict", fuzzer);
    put(".", name, text, used);
}

/* Names of keys and the words they allow. */
static void put_schema(void)
{
    char *text = NULL, word[96];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    stop_unless(f != NULL, "memory");
    for (const schema_key *k = schema_keys; k->path; k++) {
        (void)fprintf(f, "\"%s: \"\n", schema_leaf(k->path));
        const char *words = k->type == TYPE_CHOICE || k->type == TYPE_LEVEL ? schema_words(k) : NULL;
        while (words && schema_word(&words, word, sizeof word)) (void)fprintf(f, "\"%s\"\n", word);
    }
    stop_unless(fclose(f) == 0, "memory");
    put(".", "run_file.dict", text, size);
    free(text);
}

/* ------------------------------------------------------------------------------------------------ arrays */

static void put_arrays(void)
{
    static const double x[] = {0.5, -1, 0.25, 1, 0, -0.125}, logw[] = {-1, -1, -1};
    static const unsigned char bytes[] = {0, 1, 2, 127, 128, 255, 3, 4};
    npz_member members[] = {{"x", npy_matrix(x, 3, 2)}, {"logw", npy_vector(logw, 3)}};
    npy_array cube = {.type = NPY_U8, .dims = 3, .shape = {2, 2, 2}, .data = bytes};
    stop_unless(npy_write(place("arrays", "points"), &members[0].array, error, sizeof error) == 0, "npy");
    stop_unless(npy_write(place("arrays", "bytes"), &cube, error, sizeof error) == 0, "npy");
    stop_unless(npz_write(place("arrays", "stored"), members, 2, 0, error, sizeof error) == 0, "npz");
    stop_unless(npz_write(place("arrays", "packed"), members, 2, 9, error, sizeof error) == 0, "npz");
    stop_unless(npz_write(place("arrays", "wide"), members, 2, NPZ_WIDE, error, sizeof error) == 0, "npz");
}

static void put_models(void)
{
    static const char *const names[] = {"perceptron.safetensors", "perceptron.npz"};
    const int64_t weight[] = {2, 2}, last[] = {1, 2}, bias[] = {2}, one[] = {1};
    tensor_file f = {0};
    const char separators[] = "._";
    for (int i = 0; i < 2; i++) {
        const struct {
            const char *name;
            int dims;
            const int64_t *shape;
        } parts[] = {{"layer1%cweight", 2, weight},
                     {"layer1%cbias", 1, bias},
                     {"layer2%cweight", 2, last},
                     {"layer2%cbias", 1, one}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            char name[TENSOR_NAME];
            (void)snprintf(name, sizeof name, "layer%zu%c%s", k / 2 + 1, separators[i], k % 2 ? "bias" : "weight");
            float *data = tensors_add(&f, name, parts[k].dims, parts[k].shape);
            stop_unless(data != NULL, "memory");
            data[0] = 0.5F;
        }
        stop_unless(tensors_describe(&f, "sosmc.activation", "tanh") == 0 &&
                        tensors_write(place("model", names[i]), &f, error, sizeof error) == 0,
                    names[i]);
        tensors_free(&f);
    }
    const int64_t kernel[] = {1, 1, 2, 2};
    stop_unless(tensors_add(&f, "conv1.weight", 4, kernel) && tensors_add(&f, "conv1.bias", 1, one) &&
                    tensors_add(&f, "fc1.weight", 2, (const int64_t[]){1, 4}) && tensors_add(&f, "fc1.bias", 1, one) &&
                    tensors_describe(&f, "sosmc.network", "1x3x3; conv 1 2 silu; dense 1; energy -1") == 0 &&
                    tensors_write(place("model", "network.safetensors"), &f, error, sizeof error) == 0,
                "network");
    tensors_free(&f);
}

/* ------------------------------------------------------------------------------------------------ pictures */

static void put_png(void)
{
    double pixel[3 * 4 * 5];
    for (int i = 0; i < 60; i++) pixel[i] = i * 37 % 256;
    image grey = {.channels = 1, .rows = 4, .columns = 5, .pixel = pixel}, colour = grey;
    colour.channels = 3;
    stop_unless(image_write(place("png", "grey"), &grey, 8, 0, 255, error, sizeof error) == 0, "png");
    stop_unless(image_write(place("png", "grey16"), &grey, 16, 0, 255, error, sizeof error) == 0, "png");
    stop_unless(image_write(place("png", "colour"), &colour, 8, 0, 255, error, sizeof error) == 0, "png");
}

static void put_jpeg(const char *name, int channels, int progressive, int oriented)
{
    static const JOCTET exif[] = {'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
                                  1,   0x12, 0,   3,   0, 0, 0,   1,   0, 6,  0, 0, 0, 0, 0, 0};
    enum { SIDE = 20 };
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char line[3 * SIDE], *lines[] = {line}, *bytes = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = SIDE;
    c.image_height = SIDE;
    c.input_components = channels;
    c.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    if (progressive) jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    if (oriented) jpeg_write_marker(&c, JPEG_APP0 + 1, exif, sizeof exif);
    for (int row = 0; row < SIDE; row++) {
        for (int i = 0; i < SIDE * channels; i++) line[i] = (unsigned char)(row * i);
        (void)jpeg_write_scanlines(&c, lines, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    put("jpeg", name, bytes, size);
    free(bytes);
}

/* ------------------------------------------------------------------------------------------------ packed bytes */

/* The same bytes in gzip's wrapping. */
static void put_packed(const char *fuzzer, const char *name, const unsigned char *bytes, size_t n)
{
    unsigned char out[4096];
    z_stream z = {.next_in = (z_const Bytef *)bytes, .avail_in = (uInt)n, .next_out = out, .avail_out = sizeof out};
    stop_unless(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
                    deflate(&z, Z_FINISH) == Z_STREAM_END && deflateEnd(&z) == Z_OK,
                name);
    put(fuzzer, name, out, sizeof out - z.avail_out);
}

static void put_idx(void)
{
    static const unsigned char pictures[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1};
    put("idx", "pictures", pictures, sizeof pictures);
    put("idx", "labels", labels, sizeof labels);
    put_packed("idx", "pictures.gz", pictures, sizeof pictures);
    put_packed("idx", "labels.gz", labels, sizeof labels);
}

static int append(void *ctx, const void *bytes, size_t n) { return fwrite(bytes, 1, n, ctx) == n ? 0 : -1; }

static void put_checkpoints(void)
{
    for (int plan = 0; plan < CHECKPOINT_PLANS; plan++) {
        char *bytes = NULL, name[16];
        size_t size = 0;
        FILE *f = open_memstream(&bytes, &size);
        sosmc *engine = checkpoint_engine(plan);
        stop_unless(f && engine && putc(plan, f) == plan && sosmc_run(engine, 3, NULL, NULL) == SOSMC_OK &&
                        sosmc_save(engine, append, f) == SOSMC_OK && fclose(f) == 0,
                    "checkpoint");
        sosmc_free(engine);
        (void)snprintf(name, sizeof name, "plan%d", plan);
        put("checkpoint", name, bytes, size);
        free(bytes);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
        return 2;
    }
    root = argv[1];
    put_texts();
    put_schema();
    put_dictionary("formula",
                   "exp(|log(|sqrt(|abs(|sin(|cos(|tan(|tanh(|sigmoid(|softplus(|floor(|ceil(|round(|sign(|min(|max(|"
                   "pow(|mod(|clamp(|if(|sum|mean(|norm2|norm|sd|tv|mask|rows|columns|pi|x1|x12|<=|>=|==|!=|&&");
    put_dictionary("network",
                   "1x8x8|; conv |; dense | stride | pad | add | silu| gelu| leaky_relu| swish|; energy -1|; output |"
                   "; base |; temperature |mnist");
    put_dictionary(
        "model",
        "\\\"dtype\\\":\\\"F32\\\"|\\\"F64\\\"|\\\"BF16\\\"|\\\"F16\\\"|\\\"shape\\\":[|\\\"data_offsets\\\":[0,4]|"
        "\\\"__metadata__\\\":{|sosmc.network|sosmc.base_sd|.weight|.bias|PK\\x01\\x02|PK\\x03\\x04");
    put_dictionary("arrays",
                   "'descr':|'fortran_order': False|'shape': (|<f4|<f8|<i8|u1|PK\\x01\\x02|PK\\x03\\x04|PK\\x05\\x06|"
                   "PK\\x06\\x06|PK\\x06\\x07|x.npy|logw.npy");
    put_dictionary("png", "IHDR|PLTE|tRNS|IDAT|IEND|gAMA|iCCP|zTXt|iTXt|bKGD|sBIT|eXIf");
    put_arrays();
    put_models();
    put_png();
    put_jpeg("grey", 1, 0, 0);
    put_jpeg("colour", 3, 0, 1);
    put_jpeg("progressive", 3, 1, 0);
    put_idx();
    put_checkpoints();
    return 0;
}
