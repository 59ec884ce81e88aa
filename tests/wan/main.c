/*
 * wanem: an emulator of long links that does not need netem. It joins interfaces, the host ends of
 * veth pairs, like a switch with rates, delays, loss, duplicates, reordering, queues and cuts; wan.py
 * sets it all up. It reads commands from standard input and ends with it.
 */
#include "command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SOCKET_BYTES = 64 << 20, BATCH = 64, LINE_BYTES_MAX = 256 };

static struct network network = {.queue_bytes = 4096 * 1024.0, .random = 88172645463325252};
static struct pollfd descriptors[1 + FRAME_PORTS_MAX]; /* standard input, then the ports */

static int64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* ---- ports ---- */

static int open_port(const char *interface)
{
    int descriptor = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(interface)};
    struct packet_mreq everything = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
    int on = 1, bytes = SOCKET_BYTES;
    if (descriptor < 0 || address.sll_ifindex == 0 ||
        setsockopt(descriptor, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(descriptor, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
        setsockopt(descriptor, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &everything, sizeof everything) != 0 ||
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0 ||
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0 ||
        bind(descriptor, (const struct sockaddr *)&address, sizeof address) != 0) {
        (void)fprintf(stderr, "wanem: %s: %s\n", interface, strerror(errno));
        return -1;
    }
    return descriptor;
}

static bool deliver(int port, const struct packet *packet)
{
    return send(descriptors[1 + port].fd, packet->bytes, packet->length, 0) >= 0;
}

static void read_port(int port)
{
    static uint8_t frame[FRAME_BYTES_MAX];
    for (int i = 0; i < BATCH; i++) {
        ssize_t length = recv(descriptors[1 + port].fd, frame, sizeof frame, MSG_TRUNC);
        if (length < 0)
            return;
        if ((size_t)length <= sizeof frame)
            network_enter(&network, port, frame, (size_t)length, now());
    }
}

/* ---- commands ---- */

static void answer_line(char *line)
{
    static char answer[COMMAND_ANSWER_BYTES];
    command_do(&network, line, now(), answer);
    (void)puts(answer);
    (void)fflush(stdout);
}

/* Reads and answers commands. Returns false at the end of standard input, or on an error. */
static bool read_commands(void)
{
    static char line[LINE_BYTES_MAX];
    static size_t used;
    ssize_t got = read(STDIN_FILENO, line + used, sizeof line - used);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got == 0)
        return false;
    used += (size_t)got;
    char *end;
    while ((end = memchr(line, '\n', used)) != NULL) {
        *end = 0;
        answer_line(line);
        used -= (size_t)(end + 1 - line);
        memmove(line, end + 1, used);
    }
    if (used == sizeof line) {
        (void)puts("error: the line is too long");
        (void)fflush(stdout);
        used = 0;
    }
    return true;
}

static void run(void)
{
    for (;;) {
        int64_t next_ns = network_run(&network, now(), deliver), now_ns = now();
        struct timespec wait = {.tv_nsec = next_ns > now_ns ? (long)(next_ns - now_ns) : 0};
        if (ppoll(descriptors, 1 + (nfds_t)network.ports, &wait, NULL) <= 0)
            continue;
        for (int i = 0; i < network.ports; i++)
            if (descriptors[1 + i].revents & (POLLIN | POLLERR))
                read_port(i);
        if (descriptors[0].revents && !read_commands())
            return;
    }
}

int main(int count, char **arguments)
{
    if (count < 3 || count > 1 + FRAME_PORTS_MAX) {
        (void)printf("Usage: wanem INTERFACE INTERFACE ... (2 to %d); commands on standard input:\n%s", FRAME_PORTS_MAX,
                     command_help);
        return count == 2 && strcmp(arguments[1], "--help") == 0 ? 0 : 2;
    }
    (void)prctl(PR_SET_TIMERSLACK, 1);
    descriptors[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (network.ports = 0; network.ports < count - 1; network.ports++) {
        int descriptor = open_port(arguments[1 + network.ports]);
        if (descriptor < 0)
            return 1;
        descriptors[1 + network.ports] = (struct pollfd){.fd = descriptor, .events = POLLIN};
    }
    (void)puts("ready");
    (void)fflush(stdout);
    run();
    return 0;
}
