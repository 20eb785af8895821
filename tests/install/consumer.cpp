// consumer.cpp: the headers are usable from C++: they compile, link, and a lambda makes a model's callback.
#include <sosmc/models.h>
#include <sosmc/sosmc.h>

#include <cmath>
#include <cstdio>
#include <cstring>

// U = (x - theta)^2 / 2: the smallest model with every callback the engine needs.
static sosmc_model quadratic()
{
    sosmc_model model = sosmc_model();
    model.dim_x = 1;
    model.dim_theta = 1;
    model.energy = [](const void *, const double *theta, const sosmc_batch *b, double *U, double *gx) -> int {
        for (int i = 0; i < b->n; i++) {
            double d = b->x[i] - theta[0];
            U[i] = 0.5 * d * d;
            if (gx) gx[i] = d;
        }
        return 0;
    };
    model.grad_theta = [](const void *, const double *theta, const sosmc_batch *b, const double *c, double *g) -> int {
        for (int i = 0; i < b->n; i++) g[0] += c[i] * (theta[0] - b->x[i]);
        return 0;
    };
    return model;
}

int main()
{
    sosmc_problem problem = sosmc_problem();
    problem.model = quadratic();
    problem.objective = sosmc_mmle();
    problem.init = sosmc_standard_normal();
    sosmc_settings settings = sosmc_defaults();
    settings.scheme = sosmc_scheme_sosmc(100);

    sosmc *run = nullptr;
    sosmc_status status = sosmc_create(&run, &problem, &settings);
    if (status == SOSMC_OK) status = sosmc_run(run, 10, nullptr, nullptr);
    bool good = status == SOSMC_OK && std::isfinite(sosmc_theta(run)[0]) &&
                std::strcmp(SOSMC_VERSION, sosmc_version()) == 0;
    std::printf("%s: %s\n", sosmc_status_name(status), good ? "a C++ program runs the engine" : sosmc_message(run));
    sosmc_free(run);
    return good ? 0 : 1;
}
