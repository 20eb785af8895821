/* fuzz_model.c: files of weights, safetensors and NPZ. Tensors that are accepted are written in both formats and read back
 * the same; the network that a file may stand for is built from it. */
#include "fuzz.h"

#include <string.h>

#include "job/model_file.h"
#include "files/tensors.h"

static void compare(const tensor_file *a, const tensor_file *b)
{
    fuzz_must(a->count == b->count && a->pairs == b->pairs, "as many tensors and keys are read as were written");
    for (int i = 0; i < a->count; i++) {
        const tensor *t = tensors_find(b, a->tensor[i].name);
        fuzz_must(t != NULL, "every tensor is there");
        fuzz_must(t && tensor_count(t) == tensor_count(&a->tensor[i]), "with its size");
        fuzz_must(t && !memcmp(t->data, a->tensor[i].data, (size_t)tensor_count(t) * sizeof(float)),
                  "with its numbers");
    }
}

static void write_and_read(const tensor_file *f, const char *name)
{
    char error[FUZZ_SENTENCE] = "";
    tensor_file again;
    /* NPZ has no place for names that end in .npy; both refuse a header that is too long. */
    if (tensors_write(fuzz_path(name), f, error, sizeof error)) {
        fuzz_judge(-1, error);
        return;
    }
    fuzz_must(tensors_read(fuzz_path(name), &again, error, sizeof error) == 0, "what was written can be read");
    compare(f, &again);
    tensors_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[FUZZ_SENTENCE] = "";
    const char *path = fuzz_file("model", data, size);
    tensor_file f;
    model_file m;
    int status = tensors_read(path, &f, error, sizeof error);
    fuzz_judge(status, error);
    if (status == 0 && f.count < 64) {
        write_and_read(&f, "again.safetensors");
        write_and_read(&f, "again.npz");
    }
    tensors_free(&f);
    if (status) return 0;
    status = model_read_as(path, NULL, "silu", &m, error, sizeof error);
    fuzz_judge(status, error);
    if (status == 0) {
        sosmc_mlp mlp;
        fuzz_must(m.parameters > 0 && m.inputs > 0, "a network has inputs and parameters");
        (void)model_energy(&m, &mlp);
    }
    model_free(&m);
    return 0;
}
