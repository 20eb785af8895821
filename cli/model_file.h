/* model_file.h: a multi-layer perceptron with one output, stored as the tensors of a safetensors or NPZ file.
 *
 * Written names are layer1.weight, layer1.bias, layer2.weight, ... (layer1_weight, ... in NPZ, whose names become
 * Python variables): a PyTorch module with linear layers layer1, layer2, ... loads the former with load_state_dict.
 * Read are both forms and every other PyTorch naming that numbers its layers, such as net.0.weight, net.0.bias,
 * net.2.weight. A file with anything that is not such a layer is refused: half a network is never passed off as a
 * whole one. */
#ifndef SOSMC_CLI_MODEL_FILE_H
#define SOSMC_CLI_MODEL_FILE_H

#include <stddef.h>

#include <sosmc/models.h>

enum { MODEL_ACTIVATION = 16, MODEL_LAYERS = 64 /* hidden layers at most */ };

typedef struct {
    int inputs, hidden_layers;
    int *width;                        /* hidden_layers numbers */
    char activation[MODEL_ACTIVATION]; /* after every hidden layer: silu, softplus or tanh */
    double base_sd;                    /* standard deviation of a Gaussian base law; 0: none */
    int parameters;
    /* Layer by layer, the hidden ones and then the linear one: weight (outputs x inputs, row-major), bias (outputs). */
    double *theta;
} model_file;

/* Numbers in theta that inputs and widths ask for; -1: sizes below 1, or more numbers than a file may hold. */
int model_parameters(int inputs, const int *width, int hidden_layers);

/* The keys sosmc.activation (silu when absent) and sosmc.base_sd come from the metadata. On failure `out` is empty. */
int model_read(const char *path, model_file *out, char *error, size_t room);
/* theta is rounded to float32; a number that has no finite float32 is an error. */
int model_write(const char *path, const model_file *m, char *error, size_t room);
void model_free(model_file *m);
/* The library's view of it, which borrows the widths. */
sosmc_mlp model_network(const model_file *m);

#endif
