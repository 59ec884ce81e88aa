/* The options of pccl-perf. */
#ifndef PCCL_TOOLS_PERF_OPTIONS_H
#define PCCL_TOOLS_PERF_OPTIONS_H

#include "pccl.h"
#include "wire/collectives.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum perf_mode {
    PERF_LOCAL,  /* master and peers are spawned here */
    PERF_PEER,   /* one peer of a real cluster */
    PERF_LIMIT,  /* plain sockets only */
    PERF_WORKER, /* internal: one of the spawned peers */
    PERF_MASTER, /* internal: the spawned master */
};

enum { PERF_SIZES_MAX = 64, PERF_SETTINGS_MAX = 16, PERF_TENSORS_MAX = 1024 };
#define PERF_FACTOR 0.5 /* factor of each peer's elements in a premultiplied sum */

enum perf_chaos { PERF_NO_CHAOS, PERF_CHAOS_KILL, PERF_CHAOS_STOP };

struct perf_options {
    enum perf_mode mode;
    uint32_t peers;
    size_t min_bytes, max_bytes, step_bytes;
    uint32_t step_factor;         /* overrides step_bytes when > 1 */
    size_t sizes[PERF_SIZES_MAX]; /* rising; replaces steps if given */
    uint32_t size_count;
    uint32_t iterations, warm_up;
    pcclDataType_t datatype;
    enum pccl_collective collective; /* SEND: the first of each two ranks sends to the second */
    pcclRedOp_t operation;
    pcclQuantizationOptions_t codec;
    pcclCodecParams_t codec_params;     /* parameters of a codec with scales */
    uint32_t budget_ms, budget_percent; /* budget of an automatic codec; 0: not given */
    const char *codec_text;             /* codec as given, "minmax:u8"; "-" without one */
    uint32_t concurrent;                /* operations that share the bytes of one measurement */
    uint32_t tensors;                   /* number of tensors that share the bytes of each operation */
    bool out_of_place, in_place;
    bool check;
    bool alike;        /* all peers have the same values, because the peers of a real cluster have no numbers */
    bool limit;        /* measure the limit in the same run */
    bool limit_cache;  /* measure the limit from and to the cache, not memory */
    double limit_cpu;  /* CPU seconds per GB above which a limit is not used */
    bool exact;        /* with a codec: measure the same without it, too */
    bool state;        /* measure synchronizations of shared state instead of reductions */
    bool sized;        /* sizes were given */
    bool topology;     /* measure the optimization of the topology, besides reductions */
    const char *solve; /* file with a topology, for the search of a ring; "-" = standard input, NULL */
    const char *dump;  /* output file for the topology; "-" = standard output and the table to standard error, NULL */
    bool seeded;       /* the seed was given */
    uint64_t seed, steps; /* seed and steps of the search; steps 0: not given */
    const char *pool;
    const char *settings[PERF_SETTINGS_MAX]; /* "name=value": parameters of the library */
    uint32_t setting_count;
    const char *master; /* PERF_PEER, PERF_WORKER */
    const char *json;   /* file, "-" = standard output and the table to standard error, NULL */
    const char *gate;
    enum perf_chaos chaos;
    uint32_t rounds; /* rounds of chaos */
    /* PERF_WORKER: */
    uint32_t index;
    int result_descriptor, go_descriptor;
    long master_process;
};

/*
 * Reads the options. Returns false after a message; the program then ends with 2. answered: --help or --version was
 * printed.
 */
bool perf_options_read(int count, char **arguments, struct perf_options *options, bool *answered);

size_t perf_datatype_bytes(pcclDataType_t datatype);
const char *perf_codec_name(pcclQuantizationAlgorithm_t algorithm);
const char *perf_datatype_name(pcclDataType_t datatype);
const char *perf_operation_name(pcclRedOp_t operation);
const char *perf_collective_name(enum pccl_collective collective); /* "all_reduce" */
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
/* Returns the number of parts into which the elements are divided: one for each peer, or a single one. */
uint32_t perf_parts(const struct perf_options *options);
/* Returns the least traffic of the busiest peer in one direction, as a share of the size. */
double perf_traffic(const struct perf_options *options, uint32_t peers);
/* Returns how many times that share travels, over all peers. */
uint32_t perf_senders(const struct perf_options *options);
/* Returns the size after this one; 0 after the last. The first one is min_bytes. */
size_t perf_next_size(const struct perf_options *options, size_t bytes);
/* Sets each "name=value" in order. The caller destroys the handle. Returns NULL after a message on standard error. */
pcclOptions_t *perf_library_options(const struct perf_options *options);
/* Returns the parameter `local`: peers on one host use Unix sockets ("auto") or TCP ("tcp"). */
const char *perf_local(const struct perf_options *options);

#endif
