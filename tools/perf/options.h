/* The options of pccl-perf. */
#ifndef PCCL_TOOLS_PERF_OPTIONS_H
#define PCCL_TOOLS_PERF_OPTIONS_H

#include "pccl.h"
#include "wire/collectives.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum perf_mode {
    PERF_LOCAL,  /* spawns a master and peers on this machine */
    PERF_PEER,   /* runs as one peer of a real cluster */
    PERF_LIMIT,  /* measures only plain sockets */
    PERF_WORKER, /* internal: runs as one of the spawned peers */
    PERF_MASTER, /* internal: runs as the spawned master */
};

enum { PERF_SIZES_MAX = 64, PERF_SETTINGS_MAX = 16, PERF_TENSORS_MAX = 1024 };
#define PERF_FACTOR 0.5 /* factor of each peer in a premultiplied sum */

enum perf_chaos { PERF_NO_CHAOS, PERF_CHAOS_KILL, PERF_CHAOS_STOP };

struct perf_options {
    enum perf_mode mode;
    uint32_t peers;
    size_t min_bytes, max_bytes, step_bytes;
    uint32_t step_factor;         /* overrides step_bytes when > 1 */
    size_t sizes[PERF_SIZES_MAX]; /* in ascending order; replaces the steps if given */
    uint32_t size_count;
    uint32_t iterations, warm_up;
    pcclDataType_t datatype;
    enum pccl_collective collective; /* for SEND, the first of each pair of ranks sends to the second */
    pcclRedOp_t operation;
    pcclQuantizationOptions_t codec;
    pcclCodecParams_t codec_params;     /* parameters of a scaled codec */
    uint32_t budget_ms, budget_percent; /* budget of an automatic codec; 0: not specified */
    const char *codec_text;             /* the codec as specified, for example "minmax:u8"; "-" without a codec */
    uint32_t concurrent;                /* number of operations that share the bytes of one measurement */
    uint32_t tensors;                   /* number of tensors that share the bytes of each operation */
    bool out_of_place, in_place;
    bool check;
    bool alike;        /* true if all peers have the same values, because the peers of a real cluster have no numbers */
    bool limit;        /* also measure the limit */
    bool limit_cache;  /* measure the limit with data in the cache instead of memory */
    double limit_cpu;  /* CPU seconds per GB above which the limit is not usable */
    bool exact;        /* with a codec: also measure without it */
    bool state;        /* measure synchronizations of shared state instead of reductions */
    bool sized;        /* sizes were specified */
    bool topology;     /* measure topology optimization and its effect on reductions */
    const char *solve; /* file with a topology for which to find a ring; "-" for standard input; or NULL */
    /* output file for the topology; "-" for standard output, with the table on standard error; or NULL */
    const char *dump;
    bool seeded;          /* a seed was specified */
    uint64_t seed, steps; /* seed and steps of the search; steps is 0 if not specified */
    const char *pool;
    const char *settings[PERF_SETTINGS_MAX]; /* parameters of the library, as "name=value" */
    uint32_t setting_count;
    const char *master; /* address of the master, for PERF_PEER and PERF_WORKER */
    const char *json;   /* output file; "-" for standard output, with the table on standard error; or NULL */
    const char *gate;
    enum perf_chaos chaos;
    uint32_t rounds; /* number of chaos rounds */
    /* for PERF_WORKER: */
    uint32_t index;
    int result_descriptor, go_descriptor;
    long master_process;
};

/*
 * Parses the arguments. Returns false after a message; the program then exits with 2. Sets *answered if --help or
 * --version was printed.
 */
bool perf_options_read(int count, char **arguments, struct perf_options *options, bool *answered);
/* Prints the text of --help to standard output. */
void perf_print_help(void);

size_t perf_datatype_bytes(pcclDataType_t datatype);
const char *perf_codec_name(pcclQuantizationAlgorithm_t algorithm);
const char *perf_datatype_name(pcclDataType_t datatype);
const char *perf_operation_name(pcclRedOp_t operation);
const char *perf_collective_name(enum pccl_collective collective); /* for example "all_reduce" */
static inline const struct pccl_collective_row *perf_row(const struct perf_options *options)
{
    return pccl_collective((uint8_t)options->collective);
}
static inline bool perf_reduces(const struct perf_options *options) { return perf_row(options)->reduces; }
/* Returns true if the result is in the library's memory. */
static inline bool perf_gives_blobs(const struct perf_options *options)
{
    return perf_row(options)->of == PCCL_OF_BLOBS;
}
/* Returns the number of parts into which the elements are divided: one per peer, or a single one. */
uint32_t perf_parts(const struct perf_options *options);
/* Returns the minimum traffic of the busiest peer in one direction, as a share of the size. */
double perf_traffic(const struct perf_options *options, uint32_t peers);
/* Returns the number of times that this share is sent, summed over all peers. */
uint32_t perf_senders(const struct perf_options *options);
/* Returns the size that follows this one, or 0 after the last one. The first size is min_bytes. */
size_t perf_next_size(const struct perf_options *options, size_t bytes);
/*
 * Creates options from the settings, in order. The caller destroys the handle. Returns NULL after a message on standard
 * error.
 */
pcclOptions_t *perf_library_options(const struct perf_options *options);
/* Returns the value of the parameter `local`: "auto" if peers on one host use Unix sockets, or "tcp". */
const char *perf_local(const struct perf_options *options);

#endif
