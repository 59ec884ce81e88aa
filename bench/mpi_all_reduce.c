/*
 * All-reduce with MPI, for comparison: one process of it. compare.py compiles and runs it.
 *   mpi_all_reduce WARM_UP BYTES:ITERATIONS ...
 * Prints, for each size: bytes, iterations, seconds of all, CPU seconds of all, wrong elements.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static float value(size_t i, int rank) { return (float)((i * 5 + (size_t)rank * 3) % 8); }

static size_t count_wrong(const float *output, size_t count, int ranks)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        float expected = 0;
        for (int rank = 0; rank < ranks; rank++)
            expected += value(i, rank);
        wrong += output[i] < expected || output[i] > expected;
    }
    return wrong;
}

static void reduce(const float *input, float *output, size_t count)
{
    (void)MPI_Allreduce(input, output, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int measure(size_t bytes, long warm_up, long iterations)
{
    size_t count = bytes / sizeof(float);
    float *input = malloc(bytes), *output = malloc(bytes);
    int rank, ranks;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!input || !output) {
        (void)fprintf(stderr, "mpi_all_reduce: out of memory\n");
        free(output);
        free(input);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        input[i] = value(i, rank);
    memset(output, 0, bytes);
    reduce(input, output, count);
    size_t wrong = count_wrong(output, count, ranks);
    for (long i = 0; i < warm_up; i++)
        reduce(input, output, count);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    double cpu = cpu_s(), start = MPI_Wtime();
    for (long i = 0; i < iterations; i++)
        reduce(input, output, count);
    double end = MPI_Wtime();
    (void)printf("%zu %ld %.9f %.9f %zu\n", bytes, iterations, end - start, cpu_s() - cpu, wrong);
    (void)fflush(stdout);
    free(output);
    free(input);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

int main(int count, char **arguments)
{
    (void)MPI_Init(&count, &arguments);
    int code = 0;
    long warm_up = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
    for (int i = 2; i < count && code == 0; i++) {
        char *colon;
        size_t bytes = strtoull(arguments[i], &colon, 10);
        code = measure(bytes, warm_up, *colon == ':' ? strtol(colon + 1, NULL, 10) : 1);
    }
    (void)MPI_Finalize();
    return code;
}
