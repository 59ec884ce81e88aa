#include "limit.h"

#include "worker.h"

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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP_BYTES_MAX = 4 << 20, SEARCH_BYTES_MAX = 64 << 20 };

struct report {
    double start_s, end_s, cpu_s;
};

/* A request to a process. */
struct request {
    uint64_t to_send, to_receive;
    uint64_t span; /* of memory to walk through */
};

struct process {
    pid_t id;
    int channel; /* requests go there, reports come back */
};

struct perf_ring {
    uint32_t peers;
    struct perf_limit_setting setting;
    struct process processes[];
};

/* ---- one process of the ring ---- */

static bool set_up(int socket, const struct perf_limit_setting *setting)
{
    int on = 1, bytes = (int)setting->buffer_bytes;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bytes > 0) {
        (void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        (void)setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    const char *name = setting->congestion;
    return !name || setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

static int dial(uint16_t port, const struct perf_limit_setting *setting)
{
    int socket_out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (socket_out < 0 || !set_up(socket_out, setting) ||
        connect(socket_out, (const struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    return socket_out;
}

static bool blocked(ssize_t moved) { return moved < 0 && (errno == EAGAIN || errno == EINTR); }

/* What a process sends from and receives into. */
struct buffers {
    char *from, *to;
    size_t bytes; /* of each; longer messages wrap around */
};

/* The connections of a process: in a ring or chain one of each, in a fan either one out or all in. */
struct ends {
    int out; /* -1: none */
    uint32_t in_count;
    struct pollfd *polled; /* the incoming ones, then `out` */
};

static size_t call_at(const struct buffers *buffers, size_t done, size_t left, size_t call_bytes, size_t *offset)
{
    *offset = done % buffers->bytes;
    size_t length = left < call_bytes ? left : call_bytes;
    return length < buffers->bytes - *offset ? length : buffers->bytes - *offset;
}

/* One call on each incoming connection. false: one of them is gone. */
static bool receive_some(const struct ends *ends, const struct request *request, size_t *left, size_t call_bytes,
                         const struct buffers *buffers)
{
    for (uint32_t i = 0; i<ends->in_count && * left> 0; i++) {
        size_t offset, length = call_at(buffers, (size_t)request->to_receive - *left, *left, call_bytes, &offset);
        ssize_t got = read(ends->polled[i].fd, buffers->to + offset, length);
        if (got == 0 || (got < 0 && !blocked(got)))
            return false;
        *left -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool send_some(const struct ends *ends, const struct request *request, size_t *left, size_t call_bytes,
                      const struct buffers *buffers)
{
    size_t offset, length = call_at(buffers, (size_t)request->to_send - *left, *left, call_bytes, &offset);
    ssize_t sent = write(ends->out, buffers->from + offset, length);
    if (sent < 0 && !blocked(sent))
        return false;
    *left -= sent > 0 ? (size_t)sent : 0;
    return true;
}

/* Sends and receives what is requested, both as fast as possible. */
static bool move(const struct ends *ends, const struct request *request, size_t call_bytes,
                 const struct buffers *buffers)
{
    size_t to_send = (size_t)request->to_send, to_receive = (size_t)request->to_receive;
    while (to_send || to_receive) {
        size_t before = to_send + to_receive;
        if (to_receive && !receive_some(ends, request, &to_receive, call_bytes, buffers))
            return false;
        if (to_send && !send_some(ends, request, &to_send, call_bytes, buffers))
            return false;
        if (before == to_send + to_receive) {
            for (uint32_t i = 0; i < ends->in_count; i++)
                ends->polled[i].events = to_receive ? POLLIN : 0;
            ends->polled[ends->in_count] = (struct pollfd){.fd = to_send ? ends->out : -1, .events = POLLOUT};
            (void)poll(ends->polled, ends->in_count + 1, -1);
        }
    }
    return true;
}

static void serve(const struct ends *ends, int channel, size_t call_bytes, const struct buffers *buffers)
{
    struct request request;
    while (perf_read_all(channel, &request, sizeof request)) {
        struct buffers own = *buffers;
        own.bytes = request.span < own.bytes ? (size_t)request.span : own.bytes;
        double cpu_s = perf_cpu_s();
        struct report report = {.start_s = perf_now_s()};
        if (!move(ends, &request, call_bytes, &own))
            return;
        report.end_s = perf_now_s();
        report.cpu_s = perf_cpu_s() - cpu_s;
        if (!perf_write_all(channel, &report, sizeof report))
            return;
    }
}

/* Port 0: nobody to dial. */
static bool connect_ends(struct ends *ends, int listening, uint16_t next_port, const struct perf_limit_setting *setting)
{
    ends->polled = calloc(ends->in_count + 1, sizeof *ends->polled);
    ends->out = next_port ? dial(next_port, setting) : -1;
    if (!ends->polled || (next_port && ends->out < 0))
        return false;
    for (uint32_t i = 0; i < ends->in_count; i++) {
        int in = ends->polled[i].fd = accept(listening, NULL, NULL);
        if (in < 0 || !set_up(in, setting))
            return false;
        (void)fcntl(in, F_SETFL, O_NONBLOCK);
    }
    if (ends->out >= 0)
        (void)fcntl(ends->out, F_SETFL, O_NONBLOCK);
    return true;
}

_Noreturn static void run_process(int listening, uint16_t next_port, uint32_t in_count,
                                  const struct perf_limit_setting *setting, int channel)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct buffers buffers = {.bytes = setting->memory_bytes ? setting->memory_bytes : setting->call_bytes};
    struct ends ends = {.in_count = in_count};
    buffers.from = malloc(buffers.bytes);
    buffers.to = malloc(buffers.bytes);
    char ready = buffers.from && buffers.to && connect_ends(&ends, listening, next_port, setting);
    if (ready) {
        memset(buffers.from, 1, buffers.bytes);
        memset(buffers.to, 1, buffers.bytes);
    }
    if (perf_write_all(channel, &ready, 1) && ready)
        serve(&ends, channel, setting->call_bytes, &buffers);
    _exit(0);
}

/* ---- the ring ---- */

static bool listen_on(int *listening, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listening < 0 || bind(*listening, (const struct sockaddr *)&address, length) != 0 ||
        listen(*listening, 1024) != 0 || getsockname(*listening, (struct sockaddr *)&address, &length) != 0)
        return false;
    *port = address.sin_port;
    return true;
}

static bool start_process(int listening, uint16_t next_port, uint32_t in_count,
                          const struct perf_limit_setting *setting, struct process *process)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    process->id = fork();
    if (process->id == 0) {
        (void)close(pair[0]);
        run_process(listening, next_port, in_count, setting, pair[1]);
    }
    (void)close(pair[1]);
    process->channel = pair[0];
    return process->id > 0;
}

static bool start_processes(struct perf_ring *ring, const int *listening, const uint16_t *ports)
{
    char ready = 1;
    uint32_t last = ring->peers - 1;
    for (uint32_t i = 0; i < ring->peers; i++) {
        bool fan = ring->setting.traffic.shape == PERF_FAN;
        uint16_t next_port = !fan ? ports[(i + 1) % ring->peers] : i < last ? ports[last] : 0;
        uint32_t in_count = !fan ? 1 : i < last ? 0 : last;
        if (!start_process(listening[i], next_port, in_count, &ring->setting, &ring->processes[i]))
            return false;
    }
    for (uint32_t i = 0; i < ring->peers && ready; i++)
        if (!perf_read_all(ring->processes[i].channel, &ready, 1))
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

/* What process `index` sends and receives. */
static struct request request_for(const struct perf_ring *ring, uint32_t index, size_t bytes)
{
    uint32_t senders = ring->peers - 1;
    struct request request = {.span = bytes};
    const struct perf_limit_traffic *traffic = &ring->setting.traffic;
    if (traffic->shape == PERF_FAN) {
        request.to_send = index < senders ? bytes / senders + (index < bytes % senders) : 0;
        request.to_receive = index < senders ? 0 : bytes;
    } else {
        uint64_t each = (uint64_t)((double)bytes * traffic->share);
        request.to_send = request.to_receive = each ? each : 1;
        if (traffic->shape == PERF_CHAIN && index == senders)
            request.to_send = 0;
        if (traffic->shape == PERF_CHAIN && index == 0)
            request.to_receive = 0;
    }
    return request;
}

static bool run_once(struct perf_ring *ring, size_t bytes, struct report *total)
{
    *total = (struct report){0};
    for (uint32_t i = 0; i < ring->peers; i++) {
        struct request request = request_for(ring, i, bytes);
        if (!perf_write_all(ring->processes[i].channel, &request, sizeof request))
            return false;
    }
    for (uint32_t i = 0; i < ring->peers; i++) {
        struct report one;
        if (!perf_read_all(ring->processes[i].channel, &one, sizeof one))
            return false;
        total->start_s = i == 0 || one.start_s < total->start_s ? one.start_s : total->start_s;
        total->end_s = one.end_s > total->end_s ? one.end_s : total->end_s;
        total->cpu_s += one.cpu_s;
    }
    return true;
}

static uint32_t repeats_for(size_t bytes) { return bytes < (1 << 20) ? 15 : bytes < (16 << 20) ? 7 : 3; }

bool perf_ring_measure(struct perf_ring *ring, size_t bytes, struct perf_limit_samples *samples)
{
    struct report total;
    if (!run_once(ring, bytes < WARM_UP_BYTES_MAX ? bytes : WARM_UP_BYTES_MAX, &total))
        return false;
    for (uint32_t i = 0; i < repeats_for(bytes) && samples->count < PERF_LIMIT_SAMPLES_MAX; i++) {
        if (!run_once(ring, bytes, &total))
            return false;
        samples->seconds[samples->count++] = total.end_s - total.start_s;
        samples->cpu_s += total.cpu_s;
    }
    return true;
}

double perf_limit_median(struct perf_limit_samples *samples) { return perf_median_s(samples->seconds, samples->count); }

double perf_limit_cpu_per_gb(const struct perf_ring *ring, size_t bytes, const struct perf_limit_samples *samples)
{
    double moved = 0;
    for (uint32_t i = 0; i < ring->peers; i++)
        moved += (double)request_for(ring, i, bytes).to_send * samples->count;
    return moved > 0 ? samples->cpu_s / (moved * 1e-9) : 0;
}

struct perf_ring *perf_ring_best(uint32_t peers, size_t bytes, bool cached, struct perf_limit_traffic traffic)
{
    static const size_t calls[] = {64 << 10, 256 << 10, 1 << 20}, buffers[] = {0, 512 << 10};
    static const char *const congestions[] = {"reno", "bbr"};
    struct perf_ring *best = NULL;
    double best_s = 0;
    size_t memory_bytes = cached ? 0 : bytes;
    bytes = bytes < SEARCH_BYTES_MAX ? bytes : SEARCH_BYTES_MAX;
    for (size_t i = 0; i < 12; i++) {
        struct perf_limit_setting setting = {calls[i % 3], buffers[i / 3 % 2], congestions[i / 6], memory_bytes,
                                             traffic};
        struct perf_limit_samples samples = {0};
        struct perf_ring *ring = perf_ring_start(peers, &setting);
        if (!ring)
            continue; /* this system has no such congestion control */
        bool good = perf_ring_measure(ring, bytes, &samples);
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
    const struct perf_limit_setting *setting = &ring->setting;
    (void)snprintf(text, size, "%zu KiB calls, %s, %s buffers%s", setting->call_bytes >> 10,
                   setting->congestion ? setting->congestion : "default", setting->buffer_bytes ? "512 KiB" : "default",
                   setting->memory_bytes ? "" : ", within the cache");
}
