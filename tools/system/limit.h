/*
 * Measures the speed of plain sockets on this machine: n processes send each other the bytes of a collective, without
 * further work: in a ring; in a chain, which is the same without the last link; all to the last one, as with shared
 * state; the first one to all; all to all; or the first one of each two to the second. Out of place, a process that
 * keeps a part of its data copies that as well, while its sockets have nothing for it. They walk through as much memory
 * as the collective has to read and write, because sockets are twice as fast from and to the cache. The processes and
 * their connections remain, so that every measurement finds them as warm as the library's.
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
    double stays; /* share of the bytes that a process keeps: the last one, the first one or all, by the shape */
};

struct perf_limit_setting {
    size_t call_bytes;      /* bytes of one read or write */
    size_t buffer_bytes;    /* buffer of a socket; 0: the system's default */
    const char *congestion; /* NULL: the system's default */
    size_t memory_bytes;    /* largest operation; 0: buffers that stay in the cache */
    struct perf_limit_traffic traffic;
};

enum { PERF_LIMIT_SAMPLES_MAX = 64 };

struct perf_limit_samples {
    double seconds[PERF_LIMIT_SAMPLES_MAX]; /* from the first start to the last end */
    uint32_t count;
    double cpu_s; /* total of all samples and processes */
};

/* Least size for a limit; below that the time is latency, not bandwidth. */
enum { PERF_LIMIT_BYTES_MIN = 64 << 10 };

struct perf_ring; /* running processes */

/*
 * Starts the processes with the fastest setting for an operation of `bytes` bytes; `cached`: with buffers that stay in
 * the cache. Returns NULL after a message on standard error.
 */
struct perf_ring *perf_ring_best(uint32_t peers, size_t bytes, bool cached, struct perf_limit_traffic traffic);
/* Starts the processes. Returns NULL if that fails, for example because the setting is not available here. */
struct perf_ring *perf_ring_start(uint32_t peers, const struct perf_limit_setting *setting);
/* Ends the processes. NULL is allowed. */
void perf_ring_stop(struct perf_ring *ring);
/*
 * Runs the traffic of an operation of `bytes` bytes a few times, and adds the samples. `copies`: copies the bytes that
 * stay, as out of place. Returns false if a process is gone.
 */
bool perf_ring_measure(struct perf_ring *ring, size_t bytes, bool copies, struct perf_limit_samples *samples);

/* Returns the median, and sorts the samples. Returns 0 without samples. */
double perf_limit_median(struct perf_limit_samples *samples);
/* Returns the CPU seconds of all processes per 1e9 bytes moved. */
double perf_limit_cpu_per_gb(const struct perf_ring *ring, size_t bytes, const struct perf_limit_samples *samples);
void perf_limit_text(const struct perf_ring *ring, char *text, size_t size);

#endif
