/*
 * A collective with MPI, for comparison: one process of it. compare.py compiles and runs it.
 *   mpi_collective NAME WARM_UP BYTES:ITERATIONS ...
 * NAME is one of compare.py's; BYTES are those of the larger buffer. Prints, for each size: bytes,
 * iterations, seconds of all, CPU seconds of all, wrong elements.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* In order of the names. */
enum collective {
    ALL_REDUCE,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    REDUCE,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    SEND,
    BARRIER
};
static const char *const names[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce",
                                    "gather",     "scatter",   "all_to_all", "send",           "barrier"};

struct call {
    enum collective collective;
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

/* Of each two the first one sends to the second. */
static int sends(const struct call *call) { return call->rank % 2 == 0; }

static void shape(struct call *call, size_t count)
{
    call->part = count / (size_t)call->ranks;
    size_t whole = call->part * (size_t)call->ranks;
    int is_root = call->rank == 0;
    call->inputs = call->outputs = 0;
    switch (call->collective) {
    case ALL_REDUCE:
    case BROADCAST: call->inputs = call->outputs = count; break;
    case REDUCE: call->inputs = count, call->outputs = is_root ? count : 0; break;
    case ALL_GATHER: call->inputs = call->part, call->outputs = whole; break;
    case GATHER: call->inputs = call->part, call->outputs = is_root ? whole : 0; break;
    case REDUCE_SCATTER: call->inputs = whole, call->outputs = call->part; break;
    case SCATTER: call->inputs = is_root ? whole : 0, call->outputs = call->part; break;
    case ALL_TO_ALL: call->inputs = call->outputs = whole; break;
    case SEND: *(sends(call) ? &call->inputs : &call->outputs) = count; break;
    case BARRIER: break;
    }
}

static void run(const struct call *call)
{
    float *input = call->input, *output = call->output;
    int inputs = (int)call->inputs, part = (int)call->part;
    MPI_Comm all = MPI_COMM_WORLD;
    switch (call->collective) {
    case ALL_REDUCE: (void)MPI_Allreduce(input, output, inputs, MPI_FLOAT, MPI_SUM, all); break;
    case BROADCAST: (void)MPI_Bcast(call->rank == 0 ? input : output, inputs, MPI_FLOAT, 0, all); break;
    case ALL_GATHER: (void)MPI_Allgather(input, part, MPI_FLOAT, output, part, MPI_FLOAT, all); break;
    case REDUCE_SCATTER: (void)MPI_Reduce_scatter_block(input, output, part, MPI_FLOAT, MPI_SUM, all); break;
    case REDUCE: (void)MPI_Reduce(input, output, inputs, MPI_FLOAT, MPI_SUM, 0, all); break;
    case GATHER: (void)MPI_Gather(input, part, MPI_FLOAT, output, part, MPI_FLOAT, 0, all); break;
    case SCATTER: (void)MPI_Scatter(input, part, MPI_FLOAT, output, part, MPI_FLOAT, 0, all); break;
    case ALL_TO_ALL: (void)MPI_Alltoall(input, part, MPI_FLOAT, output, part, MPI_FLOAT, all); break;
    case SEND:
        if (sends(call))
            (void)MPI_Send(input, inputs, MPI_FLOAT, call->rank + 1, 0, all);
        else
            (void)MPI_Recv(output, (int)call->outputs, MPI_FLOAT, call->rank - 1, 0, all, MPI_STATUS_IGNORE);
        break;
    case BARRIER: (void)MPI_Barrier(all); break;
    }
}

static float expected(const struct call *call, size_t i)
{
    size_t own = (size_t)call->rank * call->part;
    switch (call->collective) {
    case BROADCAST: return value(i, 0);
    case ALL_GATHER:
    case GATHER: return value(i % call->part, (int)(i / call->part));
    case REDUCE_SCATTER: return sum_of_values(own + i, call->ranks);
    case SCATTER: return value(own + i, 0);
    case ALL_TO_ALL: return value(own + i % call->part, (int)(i / call->part));
    case SEND: return value(i, call->rank - 1);
    default: return sum_of_values(i, call->ranks);
    }
}

static size_t count_wrong(const struct call *call)
{
    size_t wrong = 0;
    const float *output = call->collective == BROADCAST && call->rank == 0 ? call->input : call->output;
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
    struct call call = {.collective = ALL_REDUCE};
    while (count > 1 && call.collective < BARRIER && strcmp(names[call.collective], arguments[1]) != 0)
        call.collective++;
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
