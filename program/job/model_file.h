/* model_file.h: a network with its weights, stored as the tensors of a safetensors or NPZ file: a multi-layer perceptron
 * with one output, or the layer list of a picture network (network_text.h).
 *
 * Written names are layer1.weight, layer1.bias, layer2.weight, ... (layer1_weight, ... in NPZ, whose names become
 * Python variables): a PyTorch module with layers layer1, layer2, ... loads the former with load_state_dict. A layer
 * list has its description beside them in the metadata, as sosmc.network; without it a file is a perceptron.
 * Read are both forms and every other PyTorch naming that numbers its layers, such as net.0.weight, net.0.bias,
 * net.2.weight, or conv1_weight, ..., fc1_weight: convolutions (4 dimensions) come before linear layers (2), each in the
 * order of their numbers. A file with anything that is not such a layer is refused: a part of a network is never taken
 * for the whole. */
#ifndef SOSMC_JOB_MODEL_FILE_H
#define SOSMC_JOB_MODEL_FILE_H

#include <stddef.h>

#include <sosmc/models.h>

#include "scaling.h"

enum { MODEL_ACTIVATION = 16, MODEL_LAYERS = 64 /* hidden layers at most */ };

typedef struct {
    int inputs;                        /* numbers in a point or in a picture */
    sosmc_network network;             /* a layer list, which the file owns; count 0: a perceptron */
    int hidden_layers;                 /* of a perceptron, as the next two */
    int *width;                        /* hidden_layers numbers */
    char activation[MODEL_ACTIVATION]; /* after every hidden layer: silu, softplus or tanh */
    double base_sd;         /* standard deviation of a Gaussian base law; 0: none. A layer list has its own */
    points_scaling scaling; /* of the points that it was fitted to; empty: they were not scaled, or it is not known */
    int parameters;
    /* Layer by layer, the hidden ones and then the linear one: weight (outputs x inputs x kernel rows x columns,
     * row-major), bias (outputs). */
    double *theta;
} model_file;

/* Numbers in theta that inputs and widths ask for; -1: sizes below 1, or more numbers than a file may hold. */
int model_parameters(int inputs, const int *width, int hidden_layers);

/* The keys sosmc.network, or else sosmc.activation, and sosmc.base_sd come from the metadata; so do sosmc.centre and sosmc.factor, the
 * scaling, each `inputs` numbers with blanks between. A perceptron with hidden layers
 * that does not say what follows them is refused. On failure `out` is empty. */
int model_read(const char *path, model_file *out, char *error, size_t room);
/* The same with a description of pictures or the activation of a perceptron for a file that says nothing (NULL: none is given),
 * such as another program's weights. */
int model_read_as(const char *path, const char *description, const char *activation, model_file *out, char *error,
                  size_t room);
/* theta is rounded to float32; a number that has no finite float32 is an error. */
int model_write(const char *path, const model_file *m, char *error, size_t room);
void model_free(model_file *m);
int model_is_network(const model_file *m);
/* The library's view of a perceptron, which borrows the widths; of a layer list all zero, which the library refuses. */
sosmc_mlp model_network(const model_file *m);
/* The library's model of either kind (dim_x 0: the library does not take it). It borrows *m and points to *mlp, where the
 * view of a perceptron is kept. */
sosmc_model model_energy(const model_file *m, sosmc_mlp *mlp);

#endif
