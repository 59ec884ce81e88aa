/* Names, interfaces, forks and sockets: the small parts of net/. */
#include "unit.h"
#include "loopback.h"
#include "net/reactor.h"
#include "os/fork.h"
#include "os/interfaces.h"
#include "os/resolve.h"
#include "os/socket_wait.h"
#include "os/thread.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* ---- names ---- */

struct resolved {
    bool done;
    struct pccl_address addresses[32];
    uint32_t count;
    struct pccl_text reason;
};

static void on_resolved(void *context, const struct pccl_address *addresses, uint32_t count,
                        const struct pccl_text *reason)
{
    struct resolved *resolved = context;
    assert_false(resolved->done);
    resolved->done = true;
    resolved->count = count;
    memcpy(resolved->addresses, addresses, count * sizeof *addresses);
    resolved->reason = *reason;
}

static struct pccl_host host(const char *name, uint16_t port)
{
    struct pccl_host result = {.port = port};
    (void)snprintf(result.name, sizeof result.name, "%s", name);
    return result;
}

static void resolve_all(const struct pccl_host *hosts, uint32_t count, struct resolved *resolved)
{
    uv_loop_t loop;
    struct pccl_resolve resolve = {.hosts = hosts, .count = count, .done = on_resolved, .context = resolved};
    memset(resolved, 0, sizeof *resolved);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_non_null(pccl_resolver_start(&loop, pccl_heap(), &resolve));
    assert_false(resolved->done);
    loopback_until(&loop, &resolved->done);
    loopback_end(&loop);
}

TEST(numbers_and_names_are_resolved_in_their_order)
{
    struct pccl_host hosts[] = {host("192.0.2.7", 1), host("localhost", 2), host("2001:db8::1", 3)};
    struct resolved resolved;
    struct pccl_text reason;
    resolve_all(hosts, 3, &resolved);
    assert_true(resolved.count >= 3);
    struct pccl_address first = pccl_address_v4(192, 0, 2, 7, 1);
    assert_true(pccl_address_equal(&resolved.addresses[0], &first));
    for (uint32_t i = 1; i + 1 < resolved.count; i++) {
        assert_true(pccl_address_is_loopback(&resolved.addresses[i]));
        assert_int_equal(resolved.addresses[i].port, 2);
    }
    assert_int_equal(resolved.addresses[resolved.count - 1].port, 3);
    struct pccl_address now[32];
    assert_int_equal(pccl_resolve_now(hosts, 3, now, 32, &reason), resolved.count);
    assert_int_equal(pccl_resolve_now(hosts, 3, now, 1, &reason), 1);
}

TEST(a_zone_is_resolved_to_its_interface)
{
    struct pccl_host hosts[] = {host("fe80::1%lo", 7)};
    struct resolved resolved;
    struct pccl_address now;
    struct pccl_text reason;
    resolve_all(hosts, 1, &resolved);
    assert_int_equal(resolved.count, 1);
    assert_int_equal(resolved.addresses[0].zone, if_nametoindex("lo"));
    assert_int_equal(pccl_resolve_now(hosts, 1, &now, 1, &reason), 1);
    assert_int_equal(now.zone, resolved.addresses[0].zone);
    assert_true(now.zone != 0 && now.port == 7);
}

TEST(a_bad_name_is_explained)
{
    struct pccl_host hosts[] = {host("not..a..name", 1)};
    struct resolved resolved;
    struct pccl_address address;
    struct pccl_text reason;
    resolve_all(hosts, 1, &resolved);
    assert_int_equal(resolved.count, 0);
    assert_non_null(strstr(resolved.reason.bytes, "not..a..name"));
    assert_int_equal(pccl_resolve_now(hosts, 1, &address, 1, &reason), 0);
    assert_non_null(strstr(reason.bytes, "not..a..name"));
}

TEST(a_canceled_resolver_says_nothing)
{
    uv_loop_t loop;
    struct pccl_host hosts[] = {host("localhost", 1)};
    struct resolved resolved = {0};
    struct pccl_resolve resolve = {.hosts = hosts, .count = 1, .done = on_resolved, .context = &resolved};
    assert_int_equal(uv_loop_init(&loop), 0);
    struct pccl_resolver *resolver = pccl_resolver_start(&loop, pccl_heap(), &resolve);
    assert_false(pccl_resolver_cancel(resolver)); /* not begun */
    resolver = pccl_resolver_start(&loop, pccl_heap(), &resolve);
    uv_run(&loop, UV_RUN_NOWAIT);
    (void)pccl_resolver_cancel(resolver); /* at work, or done by now in another thread */
    loopback_end(&loop);
    assert_false(resolved.done);
}

/* ---- interfaces ---- */

TEST(candidates_are_ours_distinct_and_end_with_loopback)
{
    struct pccl_address toward = pccl_address_v4(192, 0, 2, 9, 0), candidates[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_interfaces_candidates(&toward, 4711, candidates, PCCL_CANDIDATES_MAX);
    assert_true(count >= 2);
    toward.port = 4711;
    assert_true(pccl_address_equal(&candidates[0], &toward));
    assert_true(pccl_address_is_loopback(&candidates[count - 1]));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(candidates[i].port, 4711);
        for (uint32_t k = 0; k < i; k++)
            assert_false(pccl_address_equal(&candidates[i], &candidates[k]));
    }
    assert_int_equal(pccl_interfaces_candidates(&toward, 4711, candidates, 2), 2);
    assert_true(pccl_address_is_loopback(&candidates[1]));
}

TEST(loopback_of_another_host_is_not_dialed)
{
    struct pccl_address given[] = {pccl_address_v4(203, 0, 113, 5, 1), pccl_address_v4(127, 0, 0, 1, 1)};
    struct pccl_address kept[2];
    assert_int_equal(pccl_interfaces_plausible(given, 2, kept), 1);
    assert_true(pccl_address_equal(&kept[0], &given[0]));
    assert_int_equal(pccl_interfaces_plausible(given + 1, 1, kept), 1); /* nothing but loopback */
    struct pccl_address ours[PCCL_CANDIDATES_MAX], all[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_interfaces_candidates(NULL, 1, ours, PCCL_CANDIDATES_MAX);
    assert_int_equal(pccl_interfaces_plausible(ours, count, all), count); /* this host */
}

/* ---- sockets ---- */

TEST(the_route_to_loopback_is_loopback)
{
    struct pccl_address local, loopback = pccl_address_v4(127, 0, 0, 1, 9);
    assert_true(pccl_socket_route(&loopback, &local));
    assert_true(pccl_address_is_loopback(&local));
}

TEST(a_closed_other_side_raises_no_signal)
{
    uv_os_sock_t ours;
    int bare;
    uint8_t byte = 1;
    struct linger at_once = {.l_onoff = 1};
    loopback_pair(&ours, &bare);
    assert_int_equal(setsockopt(bare, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(bare);
    assert_int_equal(pccl_socket_read(ours, &byte, 1), UV_ECONNRESET);
    assert_int_equal(pccl_socket_write(ours, &byte, 1), UV_EPIPE); /* SIGPIPE would have ended the test */
    pccl_socket_close(ours);
}

/*
 * Returns true if a port that a dialing socket uses can be listened on. A restarted master needs this: the system may
 * have given its port to such a socket.
 */
static bool can_listen_where_one_dials(void)
{
    uv_os_sock_t ours, listening;
    int bare;
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    loopback_pair(&ours, &bare);
    assert_int_equal(getsockname(ours, (struct sockaddr *)&name, &length), 0);
    struct pccl_address everywhere = pccl_address_v4(0, 0, 0, 0, ntohs(name.sin_port));
    bool while_open = pccl_socket_listen(&everywhere, &listening) == 0;
    if (while_open)
        pccl_socket_close(listening);
    pccl_socket_close(ours); /* first, so that it stays, in TIME-WAIT */
    close(bare);
    bool afterward = pccl_socket_listen(&everywhere, &listening) == 0;
    if (afterward)
        pccl_socket_close(listening);
    return while_open && afterward;
}

/* The socket of another program may use the port, so that it cannot be listened on; not all of a few ports. */
TEST(a_port_that_a_dialing_socket_has_can_be_listened_on)
{
    int tries = 20;
    while (!can_listen_where_one_dials())
        assert_true(--tries > 0);
}

#ifdef __linux__
static void congestion_control_of(int socket, char *name, socklen_t size)
{
    memset(name, 0, size);
    size--;
    assert_int_equal(getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
}

/* The kernel would pace it permanently. */
TEST(no_socket_begins_with_bbr)
{
    char name[16];
    uv_os_sock_t dialed, listening, accepted;
    struct pccl_address address = pccl_address_v4(127, 0, 0, 1, 0), from;
    struct sockaddr_in native;
    socklen_t length = sizeof native;
    assert_int_equal(pccl_socket_listen(&address, &listening), 0);
    congestion_control_of(listening, name, sizeof name);
    assert_string_not_equal(name, "bbr");
    assert_int_equal(getsockname(listening, (struct sockaddr *)&native, &length), 0);
    address.port = ntohs(native.sin_port);
    assert_int_equal(pccl_socket_dial(&address, &dialed), 0);
    congestion_control_of(dialed, name, sizeof name);
    assert_string_not_equal(name, "bbr");
    struct pollfd readable = {.fd = listening, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, LOOPBACK_HANG_MS), 1);
    assert_int_equal(pccl_socket_accept(listening, &accepted, &from), 0);
    assert_int_equal(pccl_socket_outcome(dialed), 0);
    const int both[] = {dialed, accepted};
    for (size_t i = 0; i < 2; i++) {
        congestion_control_of(both[i], name, sizeof name);
        assert_string_not_equal(name, "bbr"); /* as the path is short */
        pccl_socket_close(both[i]);
    }
    pccl_socket_close(listening);
}
#endif

TEST(sockets_are_non_blocking_and_end_at_exec)
{
    uv_os_sock_t ours;
    int bare;
    uint8_t byte;
    loopback_pair(&ours, &bare);
    assert_true(fcntl(ours, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(pccl_socket_read(ours, &byte, 1), UV_EAGAIN);
    pccl_socket_limit_silence(ours, 5000); /* tunes only: works on as before */
    assert_int_equal(pccl_socket_read(ours, &byte, 1), UV_EAGAIN);
    close(bare);
    pccl_socket_close(ours);
}

TEST(a_forked_child_does_not_keep_sockets_open)
{
    uv_os_sock_t ours;
    int bare, status;
    int parent_lives[2];
    uint8_t byte;
    loopback_pair(&ours, &bare);
    uint32_t generation = pccl_fork_generation();
    assert_int_equal(pipe(parent_lives), 0);
    pid_t child = fork();
    if (child == 0) {
        bool closed = fcntl(ours, F_GETFD) == -1 && errno == EBADF;
        bool told = pccl_fork_generation() != generation;
        close(bare);
        close(parent_lives[1]);
        (void)!read(parent_lives[0], &byte, 1); /* until the parent has seen the end of its connection */
        _exit(closed && told ? 0 : 1);
    }
    assert_int_equal(pccl_fork_generation(), generation);
    pccl_socket_close(ours);
    assert_int_equal(recv(bare, &byte, 1, 0), 0); /* although the child lives */
    close(parent_lives[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(parent_lives[0]);
    close(bare);
}

TEST(a_wake_ends_a_wait_once)
{
    uv_os_sock_t ours;
    struct pccl_socket_wait wait;
    int bare;
    if (pccl_socket_wait_open(&wait) == UV_ENOSYS)
        return; /* a system without them */
    loopback_pair(&ours, &bare);
    assert_true(pccl_socket_share_input(&wait, ours, -1, true));
    struct pollfd ready = {.fd = wait.set, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 0);
    pccl_socket_wake(&wait);
    pccl_socket_wake(&wait);
    assert_int_equal(poll(&ready, 1, 0), 1);
    pccl_socket_wait_for(&wait, -1);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_int_equal(send(bare, "x", 1, 0), 1);
    pccl_socket_wait_for(&wait, -1); /* input ends it too */
    pccl_socket_wait_for(&wait, -1); /* until it is read */
    uint8_t byte;
    assert_int_equal(pccl_socket_read(ours, &byte, 1), 1);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_int_equal(send(bare, "x", 1, 0), 1);
    (void)pccl_socket_share_input(&wait, ours, -1, false);
    assert_int_equal(poll(&ready, 1, 0), 0);
    pccl_socket_wait_close(&wait);
    pccl_socket_close(ours);
    close(bare);
}

TEST(one_wait_is_for_sockets_and_a_loop)
{
    struct pccl_socket_wait wait;
    struct pccl_reactor reactor;
    static const struct pccl_reactor_events events = {0};
    if (pccl_socket_wait_open(&wait) == UV_ENOSYS)
        return;
    memset(&reactor, 0, sizeof reactor);
    assert_int_equal(pccl_reactor_open(&reactor, &events), 0);
    uv_run(&reactor.loop, UV_RUN_NOWAIT);
    assert_true(pccl_socket_wait_for_loop(&wait, uv_backend_fd(&reactor.loop), true));
    assert_int_equal(pccl_socket_wait_for_all(&wait, 0), 0);
    pccl_reactor_wake(&reactor);
    assert_int_equal(pccl_socket_wait_for_all(&wait, -1), PCCL_SOCKET_LOOP);
    pccl_socket_wake(&wait);
    assert_int_equal(pccl_socket_wait_for_all(&wait, -1), PCCL_SOCKET_LOOP | PCCL_SOCKET_WOKEN);
    uv_run(&reactor.loop, UV_RUN_NOWAIT);
    assert_int_equal(pccl_socket_wait_for_all(&wait, 0), 0);
    assert_true(pccl_socket_wait_for_loop(&wait, uv_backend_fd(&reactor.loop), false));
    pccl_reactor_wake(&reactor);
    assert_int_equal(pccl_socket_wait_for_all(&wait, 0), 0);
    pccl_reactor_close(&reactor);
    pccl_socket_wait_close(&wait);
}

/* ---- threads ---- */

static void look_at_policy(void *argument)
{
    bool *is = argument;
    struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    is[0] = pccl_thread_is_realtime();
    is[1] = pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) != 0 || pccl_thread_is_realtime();
    pccl_thread_yield();
}

TEST(a_real_time_thread_is_known)
{
    uv_thread_t thread;
    bool is[2];
    assert_int_equal(uv_thread_create(&thread, look_at_policy, is), 0);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_false(is[0]);
    assert_true(is[1]);
}

static void look_at_mask(void *argument)
{
    sigset_t *mask = argument;
    pthread_sigmask(SIG_SETMASK, NULL, mask);
}

TEST(our_threads_take_no_signals)
{
    uv_thread_t thread;
    sigset_t inside, before, after;
    sigemptyset(&inside);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(pccl_thread_start(&thread, look_at_mask, &inside), 0);
    assert_int_equal(uv_thread_join(&thread), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&inside, SIGINT) && sigismember(&inside, SIGTERM) && sigismember(&inside, SIGCHLD));
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}
