#include "limit.h"

#include "perf/worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP_BYTES_MAX = 4 << 20, SEARCH_BYTES_MAX = 64 << 20 };

struct report {
    double start_s, end_s, cpu_s;
};

/* A request to a process. */
struct request {
    uint64_t each;  /* bytes for each connection */
    uint64_t stays; /* number of bytes to copy */
    uint64_t span;  /* size of the memory to use */
};

struct process {
    pid_t id;
    int channel; /* transfers requests to the process and reports from it */
};

struct perf_ring {
    uint32_t peers;
    struct perf_limit_setting setting;
    struct process processes[];
};

static bool sends_to(const struct perf_ring *ring, uint32_t from, uint32_t to)
{
    switch (ring->setting.traffic.shape) {
    case PERF_RING: return to == (from + 1) % ring->peers;
    case PERF_CHAIN: return to == from + 1;
    case PERF_FAN_IN: return from != to && to == ring->peers - 1;
    case PERF_FAN_OUT: return from != to && from == 0;
    case PERF_PAIRS: return from % 2 == 0 && to == from + 1;
    case PERF_MESH: break;
    }
    return from != to;
}

/* ---- one process of the ring ---- */

static int open_socket(void)
{
    int opened = socket(AF_INET, SOCK_STREAM, 0);
    if (opened >= 0)
        (void)fcntl(opened, F_SETFD, FD_CLOEXEC);
    return opened;
}

static bool set_up(int socket, const struct perf_limit_setting *setting)
{
    int on = 1, bytes = (int)setting->buffer_bytes;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bytes > 0) {
        (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        (void)setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    const char *name = setting->congestion;
#ifdef TCP_CONGESTION
    return !name || setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
#else
    return !name;
#endif
}

static int dial(uint16_t port, const struct perf_limit_setting *setting)
{
    int socket_out = open_socket();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (socket_out < 0 || !set_up(socket_out, setting) ||
        connect(socket_out, (const struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    return socket_out;
}

static bool blocked(ssize_t moved) { return moved < 0 && (errno == EAGAIN || errno == EINTR); }

/* Memory from which a process sends, and into which it receives. */
struct buffers {
    char *from, *to;
    size_t bytes; /* size of each; longer messages wrap around */
};

/* The connections of a process. */
struct ends {
    uint32_t out_count, in_count;
    size_t *to_send;       /* number of bytes left for each outgoing connection */
    struct pollfd *polled; /* outgoing connections, followed by incoming ones */
};

static size_t call_at(const struct buffers *buffers, size_t done, size_t left, size_t call_bytes, size_t *offset)
{
    *offset = done % buffers->bytes;
    size_t length = left < call_bytes ? left : call_bytes;
    return length < buffers->bytes - *offset ? length : buffers->bytes - *offset;
}

/* Calls read once on each incoming connection. Returns false if a connection has ended. */
static bool receive_some(const struct ends *ends, size_t all, size_t *left, size_t call_bytes,
                         const struct buffers *buffers)
{
    for (uint32_t i = 0; i<ends->in_count && * left> 0; i++) {
        size_t offset, length = call_at(buffers, all - *left, *left, call_bytes, &offset);
        ssize_t got = read(ends->polled[ends->out_count + i].fd, buffers->to + offset, length);
        if (got == 0 || (got < 0 && !blocked(got)))
            return false;
        *left -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Calls write once on each outgoing connection that has bytes left. */
static bool send_some(const struct ends *ends, size_t each, size_t *left, size_t call_bytes,
                      const struct buffers *buffers)
{
    for (uint32_t i = 0; i < ends->out_count; i++) {
        size_t own = ends->to_send[i];
        size_t offset, length = call_at(buffers, i * each + each - own, own, call_bytes, &offset);
        ssize_t sent = own > 0 ? write(ends->polled[i].fd, buffers->from + offset, length) : 0;
        if (sent < 0 && !blocked(sent))
            return false;
        ends->to_send[i] -= sent > 0 ? (size_t)sent : 0;
        *left -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static void wait_for_some(const struct ends *ends, bool receives)
{
    for (uint32_t i = 0; i < ends->out_count; i++)
        ends->polled[i].events = ends->to_send[i] > 0 ? POLLOUT : 0;
    for (uint32_t i = 0; i < ends->in_count; i++)
        ends->polled[ends->out_count + i].events = receives ? POLLIN : 0;
    (void)poll(ends->polled, ends->out_count + ends->in_count, -1);
}

/*
 * Copies some of the bytes that the process keeps. In memory, they follow the bytes to be sent, and their destination
 * follows the received bytes.
 */
static void copy_some(const struct ends *ends, const struct request *request, size_t *left, size_t call_bytes,
                      const struct buffers *buffers)
{
    size_t done = (size_t)request->stays - *left, from, to;
    size_t length = call_at(buffers, ends->out_count * (size_t)request->each + done, *left, call_bytes, &from);
    length = call_at(buffers, ends->in_count * (size_t)request->each + done, length, call_bytes, &to);
    memcpy(buffers->to + to, buffers->from + from, length);
    *left -= length;
}

/* Sends and receives as requested, both as fast as possible, and copies while the sockets are idle. */
static bool move(const struct ends *ends, const struct request *request, size_t call_bytes,
                 const struct buffers *buffers)
{
    const size_t each = (size_t)request->each;
    size_t all = ends->in_count * each, to_send = ends->out_count * each, to_receive = all;
    size_t to_copy = (size_t)request->stays;
    for (uint32_t i = 0; i < ends->out_count; i++)
        ends->to_send[i] = each;
    while (to_send || to_receive || to_copy) {
        size_t before = to_send + to_receive;
        if (to_receive && !receive_some(ends, all, &to_receive, call_bytes, buffers))
            return false;
        if (to_send && !send_some(ends, each, &to_send, call_bytes, buffers))
            return false;
        if (before == to_send + to_receive && to_copy)
            copy_some(ends, request, &to_copy, call_bytes, buffers);
        else if (before == to_send + to_receive)
            wait_for_some(ends, to_receive > 0);
    }
    return true;
}

static void serve(const struct ends *ends, int channel, size_t call_bytes, const struct buffers *buffers)
{
    struct request request;
    while (process_read_all(channel, &request, sizeof request)) {
        struct buffers own = *buffers;
        own.bytes = request.span < own.bytes ? (size_t)request.span : own.bytes;
        double cpu_s = process_cpu_s();
        struct report report = {.start_s = perf_now_s()};
        if (!move(ends, &request, call_bytes, &own))
            return;
        report.end_s = perf_now_s();
        report.cpu_s = process_cpu_s() - cpu_s;
        if (!process_write_all(channel, &report, sizeof report))
            return;
    }
}

static bool add_end(struct pollfd *end, int descriptor)
{
    end->fd = descriptor;
    return descriptor >= 0 && fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0;
}

static bool connect_ends(struct ends *ends, const struct perf_ring *ring, uint32_t index, int listening,
                         const uint16_t *ports)
{
    ends->polled = calloc(2 * ring->peers, sizeof *ends->polled);
    ends->to_send = calloc(ring->peers, sizeof *ends->to_send);
    if (!ends->polled || !ends->to_send)
        return false;
    for (uint32_t to = 0; to < ring->peers; to++)
        if (sends_to(ring, index, to) && !add_end(&ends->polled[ends->out_count++], dial(ports[to], &ring->setting)))
            return false;
    for (uint32_t from = 0; from < ring->peers; from++) {
        if (!sends_to(ring, from, index))
            continue;
        int in = accept(listening, NULL, NULL);
        if (!add_end(&ends->polled[ends->out_count + ends->in_count++], in) || !set_up(in, &ring->setting))
            return false;
    }
    return true;
}

_Noreturn static void run_process(const struct perf_ring *ring, uint32_t index, int listening, const uint16_t *ports,
                                  int channel)
{
    process_end_with_parent();
    const struct perf_limit_setting *setting = &ring->setting;
    struct buffers buffers = {.bytes = setting->memory_bytes ? setting->memory_bytes : setting->call_bytes};
    struct ends ends = {0};
    buffers.from = malloc(buffers.bytes);
    buffers.to = malloc(buffers.bytes);
    char ready = buffers.from && buffers.to && connect_ends(&ends, ring, index, listening, ports);
    if (ready) {
        memset(buffers.from, 1, buffers.bytes);
        memset(buffers.to, 1, buffers.bytes);
    }
    if (process_write_all(channel, &ready, 1) && ready)
        serve(&ends, channel, setting->call_bytes, &buffers);
    _exit(0);
}

/* ---- the ring ---- */

static bool listen_on(int *listening, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *listening = open_socket();
    if (*listening < 0 || bind(*listening, (const struct sockaddr *)&address, length) != 0 ||
        listen(*listening, 1024) != 0 || getsockname(*listening, (struct sockaddr *)&address, &length) != 0)
        return false;
    *port = address.sin_port;
    return true;
}

static bool start_process(const struct perf_ring *ring, uint32_t index, int listening, const uint16_t *ports,
                          struct process *process)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return false;
    (void)fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(pair[1], F_SETFD, FD_CLOEXEC);
    process->id = fork();
    if (process->id == 0) {
        (void)close(pair[0]);
        run_process(ring, index, listening, ports, pair[1]);
    }
    (void)close(pair[1]);
    process->channel = pair[0];
    return process->id > 0;
}

static bool start_processes(struct perf_ring *ring, const int *listening, const uint16_t *ports)
{
    char ready = 1;
    for (uint32_t i = 0; i < ring->peers; i++)
        if (!start_process(ring, i, listening[i], ports, &ring->processes[i]))
            return false;
    for (uint32_t i = 0; i < ring->peers && ready; i++)
        if (!process_read_all(ring->processes[i].channel, &ready, 1))
            return false;
    return ready != 0;
}

struct perf_ring *perf_ring_start(uint32_t peers, const struct perf_limit_setting *setting)
{
    struct perf_ring *ring = calloc(1, sizeof *ring + peers * sizeof *ring->processes);
    int *listening = malloc(peers * sizeof *listening);
    uint16_t *ports = malloc(peers * sizeof *ports);
    bool good = ring && listening && ports;
    uint32_t listeners = 0;
    if (ring) {
        *ring = (struct perf_ring){.peers = peers, .setting = *setting};
        for (uint32_t i = 0; i < peers; i++)
            ring->processes[i].channel = -1;
    }
    for (; good && listeners < peers; listeners++)
        good = listen_on(&listening[listeners], &ports[listeners]);
    good = good && start_processes(ring, listening, ports);
    for (uint32_t i = 0; i < listeners; i++)
        if (listening[i] >= 0)
            (void)close(listening[i]);
    free(ports);
    free(listening);
    if (good)
        return ring;
    perf_ring_stop(ring);
    return NULL;
}

void perf_ring_stop(struct perf_ring *ring)
{
    for (uint32_t i = 0; ring && i < ring->peers; i++) {
        if (ring->processes[i].channel >= 0)
            (void)close(ring->processes[i].channel);
        if (ring->processes[i].id > 0) {
            (void)kill(ring->processes[i].id, SIGKILL);
            (void)waitpid(ring->processes[i].id, NULL, 0);
        }
    }
    free(ring);
}

/* ---- measuring ---- */

/* Returns the number of bytes for each connection. */
static uint64_t each_of(const struct perf_ring *ring, size_t bytes)
{
    const struct perf_limit_traffic *traffic = &ring->setting.traffic;
    bool spreads = traffic->shape == PERF_FAN_IN || traffic->shape == PERF_FAN_OUT || traffic->shape == PERF_MESH;
    double each = (double)bytes * traffic->share / (spreads ? ring->peers - 1 : 1);
    return each < 1 ? 1 : (uint64_t)each;
}

static bool keeps(const struct perf_ring *ring, uint32_t index)
{
    switch (ring->setting.traffic.shape) {
    case PERF_FAN_IN: return index + 1 == ring->peers;
    case PERF_FAN_OUT: return index == 0;
    default: return true;
    }
}

static bool run_once(struct perf_ring *ring, size_t bytes, bool copies, struct report *total)
{
    struct request request = {.each = each_of(ring, bytes), .span = bytes};
    const uint64_t stays = copies ? (uint64_t)((double)bytes * ring->setting.traffic.stays) : 0;
    *total = (struct report){0};
    for (uint32_t i = 0; i < ring->peers; i++) {
        request.stays = keeps(ring, i) ? stays : 0;
        if (!process_write_all(ring->processes[i].channel, &request, sizeof request))
            return false;
    }
    for (uint32_t i = 0; i < ring->peers; i++) {
        struct report one;
        if (!process_read_all(ring->processes[i].channel, &one, sizeof one))
            return false;
        total->start_s = i == 0 || one.start_s < total->start_s ? one.start_s : total->start_s;
        total->end_s = one.end_s > total->end_s ? one.end_s : total->end_s;
        total->cpu_s += one.cpu_s;
    }
    return true;
}

static uint32_t repeats_for(size_t bytes) { return bytes < (1 << 20) ? 15 : bytes < (16 << 20) ? 7 : 3; }

bool perf_ring_measure(struct perf_ring *ring, size_t bytes, bool copies, struct perf_limit_samples *samples)
{
    struct report total;
    if (!run_once(ring, bytes < WARM_UP_BYTES_MAX ? bytes : WARM_UP_BYTES_MAX, copies, &total))
        return false;
    for (uint32_t i = 0; i < repeats_for(bytes) && samples->count < PERF_LIMIT_SAMPLES_MAX; i++) {
        if (!run_once(ring, bytes, copies, &total))
            return false;
        samples->seconds[samples->count++] = total.end_s - total.start_s;
        samples->cpu_s += total.cpu_s;
    }
    return true;
}

double perf_limit_median(struct perf_limit_samples *samples) { return perf_median_s(samples->seconds, samples->count); }

double perf_limit_cpu_per_gb(const struct perf_ring *ring, size_t bytes, const struct perf_limit_samples *samples)
{
    uint32_t connections = 0;
    for (uint32_t i = 0; i < ring->peers * ring->peers; i++)
        connections += sends_to(ring, i / ring->peers, i % ring->peers);
    double moved = (double)each_of(ring, bytes) * connections * samples->count;
    return moved > 0 ? samples->cpu_s / (moved * 1e-9) : 0;
}

struct perf_ring *perf_ring_best(uint32_t peers, size_t bytes, bool cached, struct perf_limit_traffic traffic)
{
    static const size_t calls[] = {64 << 10, 256 << 10, 1 << 20}, buffers[] = {0, 512 << 10};
#ifdef TCP_CONGESTION
    static const char *const congestions[] = {"reno", "bbr"};
#else
    static const char *const congestions[] = {NULL};
#endif
    struct perf_ring *best = NULL;
    double best_s = 0;
    size_t memory_bytes = cached ? 0 : bytes;
    bytes = bytes < SEARCH_BYTES_MAX ? bytes : SEARCH_BYTES_MAX;
    for (size_t i = 0; i < 6 * sizeof congestions / sizeof *congestions; i++) {
        struct perf_limit_setting setting = {calls[i % 3], buffers[i / 3 % 2], congestions[i / 6], memory_bytes,
                                             traffic};
        struct perf_limit_samples samples = {0};
        struct perf_ring *ring = perf_ring_start(peers, &setting);
        if (!ring)
            continue; /* the system does not support this congestion control */
        bool good = perf_ring_measure(ring, bytes, false, &samples);
        double seconds = perf_limit_median(&samples);
        bool better = good && (!best || seconds < best_s);
        perf_ring_stop(better ? best : ring);
        best = better ? ring : best;
        best_s = better ? seconds : best_s;
    }
    if (!best)
        (void)fprintf(stderr, "pccl-perf: the limit could not be measured: %s\n", strerror(errno));
    return best;
}

void perf_limit_text(const struct perf_ring *ring, char *text, size_t size)
{
    static const char *const shapes[] = {"in a ring", "in a chain", "to one", "from one", "between all", "in pairs"};
    const struct perf_limit_setting *setting = &ring->setting;
    (void)snprintf(text, size, "%s, %zu KiB calls, %s, %s buffers%s", shapes[setting->traffic.shape],
                   setting->call_bytes >> 10, setting->congestion ? setting->congestion : "default",
                   setting->buffer_bytes ? "512 KiB" : "default", setting->memory_bytes ? "" : ", within the cache");
}
