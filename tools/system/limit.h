/*
 * Measures the speed of plain sockets on this machine. n processes send each other the bytes of a collective and do
 * nothing else: in a ring; in a chain, which is a ring without its last link; all to the last one, as for shared state;
 * the first one to all others; all to all; or, in pairs, the first to the second. In the out-of-place case, a process
 * that keeps part of its data also copies it while its sockets are idle. The processes use as much memory as the
 * collective has to read and write, because sockets are twice as fast with data in the cache. Processes and connections
 * are reused, so that they are as warm in every measurement as the library's are.
 */
#ifndef PCCL_TOOLS_SYSTEM_LIMIT_H
#define PCCL_TOOLS_SYSTEM_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum perf_limit_shape { PERF_RING, PERF_CHAIN, PERF_FAN_IN, PERF_FAN_OUT, PERF_MESH, PERF_PAIRS };

struct perf_limit_traffic {
    enum perf_limit_shape shape;
    double share; /* share of the bytes that the busiest process sends or receives */
    /*
     * share of the bytes that a process keeps; depending on the shape, the last process, the first one or each one
     * keeps it
     */
    double stays;
};

struct perf_limit_setting {
    size_t call_bytes;      /* bytes passed to one read or write */
    size_t buffer_bytes;    /* size of a socket's buffer; 0: system default */
    const char *congestion; /* NULL: system default */
    size_t memory_bytes;    /* size of the largest operation; 0: use buffers that stay in the cache */
    struct perf_limit_traffic traffic;
};

enum { PERF_LIMIT_SAMPLES_MAX = 64 };

struct perf_limit_samples {
    double seconds[PERF_LIMIT_SAMPLES_MAX]; /* time from the first start to the last end */
    uint32_t count;
    double cpu_s; /* total over all samples and processes */
};

/* Minimum size for a limit. Below it, the time is dominated by latency. */
enum { PERF_LIMIT_BYTES_MIN = 64 << 10 };

struct perf_ring; /* the running processes */

/*
 * Starts the processes with the fastest setting for an operation of `bytes` bytes. `cached`: use buffers that stay in
 * the cache. Returns NULL after a message on standard error.
 */
struct perf_ring *perf_ring_best(uint32_t peers, size_t bytes, bool cached, struct perf_limit_traffic traffic);
/* Starts the processes. Returns NULL on failure, for example if the setting is not available on this system. */
struct perf_ring *perf_ring_start(uint32_t peers, const struct perf_limit_setting *setting);
/* Ends the processes. `ring` may be NULL. */
void perf_ring_stop(struct perf_ring *ring);
/*
 * Generates the traffic of an operation of `bytes` bytes several times, and adds the samples. `copies`: also copy the
 * bytes that a process keeps, as in the out-of-place case. Returns false if a process has died.
 */
bool perf_ring_measure(struct perf_ring *ring, size_t bytes, bool copies, struct perf_limit_samples *samples);

/* Sorts the samples. Returns the median, or 0 if there are no samples. */
double perf_limit_median(struct perf_limit_samples *samples);
/* Returns the CPU time of all processes per 1e9 bytes moved, in seconds. */
double perf_limit_cpu_per_gb(const struct perf_ring *ring, size_t bytes, const struct perf_limit_samples *samples);
void perf_limit_text(const struct perf_ring *ring, char *text, size_t size);

#endif
