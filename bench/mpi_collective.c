/*
 * A collective with MPI, for comparison: one process of it. compare.py compiles and runs it.
 *   mpi_collective NAME WARM_UP BYTES:ITERATIONS ...
 * NAME is all_reduce, broadcast, all_gather, reduce_scatter or barrier; BYTES are those of the
 * larger buffer. Prints, for each size: bytes, iterations, seconds of all, CPU seconds of all,
 * wrong elements.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct call {
    const char *name;
    int rank, ranks;
    size_t part, inputs, outputs; /* elements */
    float *input, *output;
};

static double cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static float value(size_t i, int rank) { return (float)((i * 5 + (size_t)rank * 3) % 8); }

static float sum_of_values(size_t i, int ranks)
{
    float sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += value(i, rank);
    return sum;
}

static int is(const struct call *call, const char *name) { return strcmp(call->name, name) == 0; }

static void shape(struct call *call, size_t count)
{
    call->part = count / (size_t)call->ranks;
    size_t whole = call->part * (size_t)call->ranks;
    call->inputs = is(call, "reduce_scatter") ? whole : is(call, "all_gather") ? call->part : count;
    call->outputs = is(call, "reduce_scatter") ? call->part : is(call, "all_gather") ? whole : count;
    if (is(call, "barrier"))
        call->inputs = call->outputs = 0;
}

static void run(const struct call *call)
{
    int count = (int)call->outputs, part = (int)call->part;
    if (is(call, "all_reduce"))
        (void)MPI_Allreduce(call->input, call->output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (is(call, "broadcast"))
        (void)MPI_Bcast(call->rank == 0 ? call->input : call->output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (is(call, "all_gather"))
        (void)MPI_Allgather(call->input, part, MPI_FLOAT, call->output, part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (is(call, "reduce_scatter"))
        (void)MPI_Reduce_scatter_block(call->input, call->output, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        (void)MPI_Barrier(MPI_COMM_WORLD);
}

static float expected(const struct call *call, size_t i)
{
    if (is(call, "all_reduce"))
        return sum_of_values(i, call->ranks);
    if (is(call, "broadcast"))
        return value(i, 0);
    if (is(call, "all_gather"))
        return value(i % call->part, (int)(i / call->part));
    return sum_of_values((size_t)call->rank * call->part + i, call->ranks);
}

static size_t count_wrong(const struct call *call)
{
    size_t wrong = 0;
    const float *output = is(call, "broadcast") && call->rank == 0 ? call->input : call->output;
    for (size_t i = 0; i < call->outputs; i++)
        wrong += output[i] < expected(call, i) || output[i] > expected(call, i);
    return wrong;
}

static int measure(struct call *call, size_t bytes, long warm_up, long iterations)
{
    shape(call, bytes / sizeof(float));
    call->input = malloc(call->inputs * sizeof(float) + 1);
    call->output = calloc(call->outputs + 1, sizeof(float));
    if (!call->input || !call->output) {
        (void)fprintf(stderr, "mpi_collective: out of memory\n");
        free(call->output);
        free(call->input);
        return 1;
    }
    for (size_t i = 0; i < call->inputs; i++)
        call->input[i] = value(i, call->rank);
    run(call);
    size_t wrong = count_wrong(call);
    for (long i = 0; i < warm_up; i++)
        run(call);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    double cpu = cpu_s(), start = MPI_Wtime();
    for (long i = 0; i < iterations; i++)
        run(call);
    double end = MPI_Wtime();
    (void)printf("%zu %ld %.9f %.9f %zu\n", bytes, iterations, end - start, cpu_s() - cpu, wrong);
    (void)fflush(stdout);
    free(call->output);
    free(call->input);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

int main(int count, char **arguments)
{
    (void)MPI_Init(&count, &arguments);
    struct call call = {.name = count > 1 ? arguments[1] : "barrier"};
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &call.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &call.ranks);
    int code = 0;
    long warm_up = count > 2 ? strtol(arguments[2], NULL, 10) : 0;
    for (int i = 3; i < count && code == 0; i++) {
        char *colon;
        size_t bytes = strtoull(arguments[i], &colon, 10);
        code = measure(&call, bytes, warm_up, *colon == ':' ? strtol(colon + 1, NULL, 10) : 1);
    }
    (void)MPI_Finalize();
    return code;
}
