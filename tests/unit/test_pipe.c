/*
 * net/pipe: both ends in one process, over a socket pair: the agreement, bytes through many wraps, the wake-up bytes of
 * each end, the end, and another side that sends invalid positions. The test does not know the layout of the memory: it
 * maps it too, and finds the positions by the values that they must have.
 */
#include "unit.h"
#include "core/prng.h"
#include "loopback.h"
#include "os/fork.h"
#include "net/pipe.h"
#include "support.h"

#ifdef __linux__
#include "buffered.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    OFFERED_MAX = 32,        /* most offers of one process at a time */
    PIECE_MAX = 700001,      /* bytes of one call */
    PATTERN_PERIOD = 65521,  /* no power of two, so that bytes from the wrong round differ */
    PAGE_BYTES = 4096,       /* at the beginning of the memory, with the positions */
    RACE_BYTES = 16 << 20,   /* between two threads */
    FORTH_BYTES = 2 << 20,   /* capacity of the dialer's direction, which follows behind the positions */
    FIRST_BYTES = 256 << 10, /* the part of it that is used first */
    ROUNDS = 20000,
    DELAY_MAX = 20000, /* turns of an empty loop, longer than it takes to wake up */
};

static const uint8_t hello[] = "hello";

struct end {
    struct pccl_pipe *pipe;
    uv_os_sock_t socket;
    uint64_t written, read; /* bytes of the model */
    uint64_t capacity;      /* capacity of the direction it writes */
};

static struct fixture {
    struct test_memory memory;
    struct end dialed, taking;
} f;

/* First one end writes and the other one reads, then the other way round. */
#define EACH_WAY(writes, reads)                                                                                        \
    for (struct end *writes = &f.dialed, *reads = &f.taking; writes != NULL;                                           \
         writes = writes == &f.dialed ? &f.taking : NULL, reads = &f.dialed)

/* ---- ends ---- */

static void connect_ends(void)
{
    int pair[2];
    memset(&f, 0, sizeof f);
    test_memory_init(&f.memory);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    f.dialed.socket = pair[0];
    f.taking.socket = pair[1];
}

static void offer(void)
{
    f.dialed.pipe = pccl_pipe_offer(&f.memory.memory);
    assert_non_null(f.dialed.pipe);
    assert_false(pccl_pipe_is_agreed(f.dialed.pipe));
}

static void send_offer(void)
{
    ptrdiff_t moved = pccl_pipe_send_offer(f.dialed.pipe, f.dialed.socket, hello, sizeof hello);
    assert_int_equal(moved, sizeof hello);
}

/* Checks that the bytes arrive in any case. Returns true if a pipe was accepted. */
static bool read_offer(void)
{
    uint8_t bytes[sizeof hello + 1];
    f.taking.pipe = (void *)&f; /* is overwritten in any case */
    ptrdiff_t moved = pccl_pipe_read_offer(&f.memory.memory, f.taking.socket, bytes, sizeof bytes, &f.taking.pipe);
    assert_int_equal(moved, sizeof hello);
    assert_memory_equal(bytes, hello, sizeof hello);
    return f.taking.pipe != NULL;
}

static void begin(void)
{
    connect_ends();
    offer();
    send_offer();
    assert_true(read_offer());
    assert_true(pccl_pipe_is_agreed(f.dialed.pipe));
}

static void hang_up(struct end *end)
{
    if (end->socket >= 0)
        close(end->socket);
    end->socket = -1;
}

static void end(void)
{
    pccl_pipe_destroy(f.dialed.pipe);
    pccl_pipe_destroy(f.taking.pipe);
    hang_up(&f.dialed);
    hang_up(&f.taking);
    assert_int_equal(f.memory.live_blocks, 0);
}

static struct held held_before;
static bool is_closed_later; /* by another thread, like refused descriptors */

static int set_up(void **state)
{
    held_before = held_now();
    is_closed_later = false;
    connect_ends();
    return 0;
}

static int set_up_agreed(void **state)
{
    held_before = held_now();
    is_closed_later = false;
    begin();
    return 0;
}

static int tear_down(void **state)
{
    end();
    if (is_closed_later)
        assert_held_soon(held_before);
    assert_held(held_before);
    return 0;
}

#define ENDS_TEST(name) TEST_IN(name, set_up, tear_down)        /* two sockets */
#define PIPE_TEST(name) TEST_IN(name, set_up_agreed, tear_down) /* with a pipe */

/* ---- bytes ---- */

static uint8_t pattern[PATTERN_PERIOD + PIECE_MAX];

static void make_pattern(void)
{
    struct pccl_prng prng = unit_prng(1);
    for (size_t i = 0; i < PATTERN_PERIOD; i++)
        pattern[i] = (uint8_t)pccl_prng_u64(&prng);
    for (size_t i = PATTERN_PERIOD; i < sizeof pattern; i++)
        pattern[i] = pattern[i - PATTERN_PERIOD];
}

/* Returns the bytes of a stream from this position on. */
static const uint8_t *bytes_from(uint64_t position) { return pattern + position % PATTERN_PERIOD; }

static ptrdiff_t write_two(struct end *end, size_t first, size_t second)
{
    const uint8_t *bytes = bytes_from(end->written);
    ptrdiff_t moved = pccl_pipe_write(end->pipe, end->socket, bytes, first, bytes + first, second);
    end->written += moved > 0 ? (uint64_t)moved : 0;
    return moved;
}

static ptrdiff_t write_some(struct end *end, size_t length) { return write_two(end, length, 0); }

/* Checks that the bytes read are right, and that no byte after them was changed. */
static ptrdiff_t read_two(struct end *end, size_t first, size_t second)
{
    static _Thread_local uint8_t bytes[PIECE_MAX + 2];
    uint8_t *rest = bytes + first + 1;
    bytes[first] = rest[second] = 0x5a;
    ptrdiff_t moved = pccl_pipe_read(end->pipe, end->socket, bytes, first, rest, second);
    assert_int_equal(bytes[first], 0x5a);
    assert_int_equal(rest[second], 0x5a);
    if (moved <= 0)
        return moved;
    size_t of_first = (size_t)pccl_min_u64((uint64_t)moved, first);
    assert_memory_equal(bytes, bytes_from(end->read), of_first);
    assert_memory_equal(rest, bytes_from(end->read) + of_first, (size_t)moved - of_first);
    end->read += (uint64_t)moved;
    return moved;
}

static ptrdiff_t read_some(struct end *end, size_t length) { return read_two(end, length, 0); }

static void fill(struct end *end)
{
    while (write_some(end, PIECE_MAX) > 0) {
    }
}

static void drain(struct end *end)
{
    while (read_some(end, PIECE_MAX) > 0) {
    }
}

static void find_capacity(struct end *end, struct end *other)
{
    uint64_t before = end->written;
    fill(end);
    end->capacity = end->written - before;
    assert_true(end->capacity > 0);
    drain(other);
    assert_int_equal(other->read, end->written);
}

/* ---- wake-up bytes ---- */

/* Takes the wake-up bytes that have arrived. Returns their number. */
static int wake_bytes(const struct end *end)
{
    uint8_t bytes[64];
    ssize_t got = recv(end->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    return got > 0 ? (int)got : 0;
}

/* ---- the memory, mapped a third time ---- */

struct view {
    uint8_t *bytes;
    size_t length;
};

static struct view map(int descriptor)
{
    struct stat status;
    struct view view;
    assert_int_equal(fstat(descriptor, &status), 0);
    view.length = (size_t)status.st_size;
    view.bytes = mmap(NULL, view.length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    assert_true(view.bytes != MAP_FAILED);
    return view;
}

/* Maps the pipe that is offered and not sent yet. */
static struct view view_offered(void)
{
    int memory = held_now().memory;
    assert_true(memory >= 0);
    return map(memory);
}

static void unmap(struct view *view) { assert_int_equal(munmap(view->bytes, view->length), 0); }

/* Returns the only word with this value. */
static uint32_t *word_saying(const struct view *view, uint32_t value)
{
    uint32_t *words = (uint32_t *)(void *)view->bytes, *found = NULL;
    for (size_t i = 0; i < PAGE_BYTES / sizeof *words; i++) {
        if (words[i] != value)
            continue;
        assert_null(found);
        found = &words[i];
    }
    assert_non_null(found);
    return found;
}

static size_t offered_bytes(void)
{
    struct test_memory memory;
    test_memory_init(&memory);
    struct pccl_pipe *pipe = pccl_pipe_offer(&memory.memory);
    assert_non_null(pipe);
    struct view view = view_offered();
    size_t bytes = view.length;
    unmap(&view);
    pccl_pipe_destroy(pipe);
    return bytes;
}

static int make_memory(size_t bytes, int seals)
{
    int made = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(made >= 0);
    assert_int_equal(ftruncate(made, (off_t)bytes), 0);
    if (seals)
        assert_int_equal(fcntl(made, F_ADD_SEALS, seals), 0);
    return made;
}

/* ---- the agreement ---- */

PIPE_TEST(an_offer_is_taken)
{
    struct held with = held_now();
    assert_int_equal(with.descriptors,
                     held_before.descriptors + 2); /* the sockets: the memory needs no descriptor from now on */
    assert_int_equal(with.mappings, held_before.mappings + 2);
    assert_int_equal(wake_bytes(&f.dialed) + wake_bytes(&f.taking), 0);
}

/* Returns the number of pages in use, out of those with the given bytes. */
static size_t pages_in_use(const struct view *view, size_t from, size_t bytes)
{
    static unsigned char resident[(4 << 20) / PAGE_BYTES];
    size_t used = 0;
    assert_int_equal(mincore(view->bytes + from, bytes, resident), 0);
    for (size_t i = 0; i < bytes / PAGE_BYTES; i++)
        used += resident[i] & 1;
    return used;
}

ENDS_TEST(memory_that_is_used_first_is_there_when_it_is_agreed)
{
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which musl does not name */
    offer();
    struct view view = view_offered();
    if (madvise(view.bytes, PAGE_BYTES, POPULATE_WRITE) != 0)
        skip(); /* the system cannot do this in advance */
    assert_int_equal(pages_in_use(&view, PAGE_BYTES, FIRST_BYTES), 0);
    send_offer();
    assert_true(read_offer());
    assert_int_equal(pages_in_use(&view, PAGE_BYTES, FIRST_BYTES), FIRST_BYTES / PAGE_BYTES);
    unmap(&view);
}

/* Small messages that are read before the next one is written use the same memory again. */
ENDS_TEST(an_empty_pipe_begins_again_with_its_first_memory)
{
    enum { MESSAGE_BYTES = 60000, MESSAGES = 100, REST = PAGE_BYTES + FIRST_BYTES };
    offer();
    struct view view = view_offered();
    send_offer();
    assert_true(read_offer());
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(write_some(&f.dialed, MESSAGE_BYTES), MESSAGE_BYTES);
        assert_int_equal(read_two(&f.taking, MESSAGE_BYTES / 3, PIECE_MAX - MESSAGE_BYTES), MESSAGE_BYTES);
    }
    assert_int_equal(pages_in_use(&view, REST, FORTH_BYTES - FIRST_BYTES), 0);
    fill(&f.dialed);
    assert_int_equal(pages_in_use(&view, REST, FORTH_BYTES - FIRST_BYTES), (FORTH_BYTES - FIRST_BYTES) / PAGE_BYTES);
    drain(&f.taking);
    unmap(&view);
}

ENDS_TEST(an_offer_that_is_not_taken_is_not_agreed)
{
    uint8_t bytes[sizeof hello];
    offer();
    send_offer();
    assert_int_equal(pccl_socket_read(f.taking.socket, bytes, sizeof bytes), UV_EPROTO); /* expects none */
    assert_false(pccl_pipe_is_agreed(f.dialed.pipe));
    is_closed_later = true;
}

ENDS_TEST(without_an_offer_bytes_are_bytes)
{
    uint8_t byte;
    f.taking.pipe = (void *)&f;
    assert_int_equal(pccl_pipe_read_offer(&f.memory.memory, f.taking.socket, &byte, 1, &f.taking.pipe), UV_EAGAIN);
    assert_null(f.taking.pipe);
    assert_int_equal(pccl_socket_write(f.dialed.socket, hello, sizeof hello), sizeof hello);
    assert_false(read_offer());
    hang_up(&f.dialed);
    assert_int_equal(pccl_pipe_read_offer(&f.memory.memory, f.taking.socket, &byte, 1, &f.taking.pipe), UV_EOF);
    assert_null(f.taking.pipe);
}

/* The first call moves nothing, the second one a part. */
ENDS_TEST(the_offer_goes_with_the_first_byte_that_is_sent)
{
    static uint8_t many[4 << 20], got[sizeof many];
    offer();
    while (pccl_socket_write(f.dialed.socket, many, sizeof many) > 0) {
    }
    assert_int_equal(pccl_pipe_send_offer(f.dialed.pipe, f.dialed.socket, many, sizeof many), UV_EAGAIN);
    while (pccl_socket_read(f.taking.socket, got, sizeof got) > 0) {
    }
    ptrdiff_t moved = pccl_pipe_send_offer(f.dialed.pipe, f.dialed.socket, many, sizeof many);
    assert_in_range(moved, 1, (ptrdiff_t)sizeof many - 1);
    assert_true(pccl_pipe_read_offer(&f.memory.memory, f.taking.socket, got, sizeof got, &f.taking.pipe) > 0);
    assert_non_null(f.taking.pipe);
    while (pccl_socket_read(f.taking.socket, got, sizeof got) > 0) {
    }
    struct pccl_pipe *taken = f.taking.pipe;
    send_offer();
    assert_false(read_offer()); /* an offer arrives once */
    f.taking.pipe = taken;
    assert_true(pccl_pipe_is_agreed(f.dialed.pipe));
}

/* ---- offers that are rejected ---- */

static int sealed(size_t bytes) { return make_memory(bytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL); }
static int open_ended(size_t bytes) { return make_memory(bytes, 0); }
static int shrinking(size_t bytes) { return make_memory(bytes, F_SEAL_GROW); }
static int growing(size_t bytes) { return make_memory(bytes, F_SEAL_SHRINK); }
static int smaller(size_t bytes) { return sealed(bytes - 1); }
static int larger(size_t bytes) { return sealed(bytes + 1); }
static int empty(size_t bytes) { return sealed(0 * bytes); }
static int frozen(size_t bytes) { return make_memory(bytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE); }

static int read_only(size_t bytes)
{
    char path[64];
    int writable = sealed(bytes);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", writable);
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(opened >= 0);
    close(writable);
    return opened;
}

static int of_a_file(size_t bytes)
{
    char path[] = "/tmp/test_pipe_XXXXXX";
    int made = mkstemp(path);
    assert_true(made >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ftruncate(made, (off_t)bytes), 0);
    return made;
}

static int of_a_socket(size_t bytes)
{
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    return made;
}

static void send_descriptor(int descriptor)
{
    assert_int_equal(pccl_socket_write_with(f.dialed.socket, hello, sizeof hello, descriptor), sizeof hello);
    close(descriptor);
}

TEST(only_memory_of_the_right_kind_is_taken)
{
    static int (*const makers[])(size_t bytes) = {sealed, open_ended, shrinking, growing,   smaller,    larger,
                                                  empty,  frozen,     read_only, of_a_file, of_a_socket};
    size_t bytes = offered_bytes();
    for (size_t i = 0; i < PCCL_COUNT_OF(makers); i++) {
        (void)set_up(NULL);
        send_descriptor(makers[i](bytes));
        assert_int_equal(read_offer(), makers[i] == sealed); /* for any sender */
        is_closed_later = makers[i] != sealed;
        (void)tear_down(NULL);
    }
}

/* A valid descriptor, and one more of any kind. */
ENDS_TEST(of_two_descriptors_none_is_left)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } passed = {.align = {.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec piece = {(void *)(uintptr_t)hello, sizeof hello};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = sizeof passed.bytes};
    int two[2] = {sealed(offered_bytes()), of_a_socket(0)};
    memcpy(CMSG_DATA(&passed.align), two, sizeof two);
    assert_int_equal(sendmsg(f.dialed.socket, &message, MSG_NOSIGNAL), sizeof hello);
    close(two[0]);
    close(two[1]);
    (void)read_offer();
    is_closed_later = true;
}

static void limit_descriptors(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Descriptors or memory are short: the connection works without a pipe. */
TEST(shortage_is_no_failure)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int of_memory = 0; of_memory < 2; of_memory++) {
        const rlim_t most = of_memory ? limit.rlim_cur : 0;
        (void)set_up(NULL);
        f.memory.fail_at = of_memory ? f.memory.requests + 1 : 0;
        limit_descriptors(most);
        assert_null(pccl_pipe_offer(&f.memory.memory));
        limit_descriptors(limit.rlim_cur);
        offer();
        send_offer();
        f.memory.fail_at = of_memory ? f.memory.requests + 1 : 0;
        limit_descriptors(most);
        bool taken = read_offer();
        limit_descriptors(limit.rlim_cur);
        assert_false(taken);
        assert_false(pccl_pipe_is_agreed(f.dialed.pipe));
        (void)tear_down(NULL);
    }
}

ENDS_TEST(a_process_offers_so_many_at_a_time)
{
    struct pccl_pipe *pipes[OFFERED_MAX];
    for (size_t i = 0; i < OFFERED_MAX; i++) {
        pipes[i] = pccl_pipe_offer(&f.memory.memory);
        assert_non_null(pipes[i]);
    }
    for (int again = 0; again < 3; again++) {
        assert_null(pccl_pipe_offer(&f.memory.memory));
        pccl_pipe_destroy(pipes[again]);
        pipes[again] = pccl_pipe_offer(&f.memory.memory);
        assert_non_null(pipes[again]);
    }
    f.dialed.pipe = pipes[0];
    send_offer();
    assert_true(read_offer()); /* the limit of offers does not limit this */
    assert_null(pccl_pipe_offer(&f.memory.memory));
    for (size_t i = 1; i < OFFERED_MAX; i++)
        pccl_pipe_destroy(pipes[i]);
}

PIPE_TEST(a_child_has_neither_memory_nor_descriptor)
{
    int status = 0;
    struct pccl_pipe *offered = pccl_pipe_offer(&f.memory.memory);
    assert_non_null(offered);
    struct held here = held_now();
    assert_int_equal(here.mappings, 3);
    assert_true(here.memory >= 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct held there = held_now();
        _exit((there.memory >= 0) + 2 * (there.mappings > 0));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(write_some(&f.dialed, 5), 5); /* and this process still has them */
    assert_int_equal(read_some(&f.taking, 5), 5);
    pccl_pipe_destroy(offered);
}

/* ---- bytes ---- */

/* Draws small sizes as often as large ones. */
static size_t random_length(struct pccl_prng *prng)
{
    return (size_t)pccl_prng_below(prng, (UINT64_C(1) << pccl_prng_below(prng, 20)) + 1);
}

static void write_as_the_model(struct end *end, const struct end *other, struct pccl_prng *prng)
{
    size_t first = random_length(prng), second = pccl_prng_chance(prng, 500000) ? random_length(prng) : 0;
    first = (size_t)pccl_min_u64(first, PIECE_MAX / 2) + 1;
    second = (size_t)pccl_min_u64(second, PIECE_MAX / 2);
    uint64_t room = end->capacity - (end->written - other->read);
    assert_int_equal(write_two(end, first, second), room ? (int64_t)pccl_min_u64(first + second, room) : UV_EAGAIN);
}

static void read_as_the_model(struct end *end, const struct end *other, struct pccl_prng *prng)
{
    size_t first = random_length(prng), second = pccl_prng_chance(prng, 500000) ? random_length(prng) : 0;
    first = (size_t)pccl_min_u64(first, PIECE_MAX / 2) + 1;
    second = (size_t)pccl_min_u64(second, PIECE_MAX / 2);
    uint64_t there = other->written - end->read;
    assert_int_equal(read_two(end, first, second), there ? (int64_t)pccl_min_u64(first + second, there) : UV_EAGAIN);
    assert_int_equal(pccl_pipe_has_input(end->pipe), other->written > end->read);
}

static void move_as_the_model(struct end *end, struct end *other, struct pccl_prng *prng, bool filling)
{
    if (pccl_prng_chance(prng, filling ? 600000 : 400000))
        write_as_the_model(end, other, prng);
    else
        read_as_the_model(other, end, prng);
}

/* All sizes exceed the range of positions. */
PIPE_TEST(bytes_arrive_in_order)
{
    const uint64_t total = (UINT64_C(4200) << 20) / test_one_of();
    struct pccl_prng prng;
    find_capacity(&f.dialed, &f.taking);
    find_capacity(&f.taking, &f.dialed);
    pccl_prng_seed(&prng, 20261128);
    for (uint64_t step = 0; f.dialed.written < total; step++) {
        bool filling = step / 512 % 2 == 0; /* full and empty pipes in turn */
        move_as_the_model(&f.dialed, &f.taking, &prng, filling);
        move_as_the_model(&f.taking, &f.dialed, &prng, filling);
    }
    assert_true(f.dialed.written > 10 * f.dialed.capacity);
    assert_true(f.taking.written > 10 * f.taking.capacity);
    assert_int_equal(wake_bytes(&f.dialed) + wake_bytes(&f.taking), 0); /* no end has requested a wake-up byte */
}

PIPE_TEST(nothing_moves_where_there_is_nothing_or_no_room)
{
    EACH_WAY(writes, reads)
    {
        assert_false(pccl_pipe_has_input(writes->pipe));
        assert_int_equal(read_some(writes, 1), UV_EAGAIN);
        assert_true(pccl_pipe_has_room(writes->pipe));
        fill(writes);
        assert_int_equal(write_some(writes, 1), UV_EAGAIN);
        assert_false(pccl_pipe_has_room(writes->pipe));
        assert_true(pccl_pipe_has_input(reads->pipe));
        assert_int_equal(read_some(reads, 1), 1);
        assert_int_equal(write_some(writes, 2), 1);
        drain(reads);
    }
}

/* ---- waiting ---- */

PIPE_TEST(who_waits_for_input_is_rung_once)
{
    EACH_WAY(writes, reads)
    {
        assert_int_equal(write_some(writes, 3), 3);
        assert_int_equal(wake_bytes(reads), 0);
        assert_true(pccl_pipe_await_input(reads->pipe)); /* there is some: no wake-up byte is requested */
        assert_int_equal(write_some(writes, 3), 3);
        assert_int_equal(wake_bytes(reads), 0);
        assert_int_equal(read_some(reads, 6), 6);
        assert_false(pccl_pipe_await_input(reads->pipe));
        assert_false(pccl_pipe_await_input(reads->pipe)); /* still one wake-up byte */
        assert_int_equal(wake_bytes(reads), 0);
        assert_int_equal(write_some(writes, 3), 3);
        assert_int_equal(wake_bytes(reads), 1);
        assert_int_equal(write_some(writes, 3), 3);
        assert_int_equal(wake_bytes(reads), 0);
        assert_int_equal(read_some(reads, 6), 6);
        assert_int_equal(wake_bytes(writes), 0); /* an end that does not wait for room gets no wake-up byte */
    }
}

PIPE_TEST(a_side_that_polls_for_input_gets_no_wake_up_byte)
{
    EACH_WAY(writes, reads)
    {
        assert_false(pccl_pipe_await_input(reads->pipe));
        pccl_pipe_poll_input(reads->pipe);
        assert_int_equal(write_some(writes, 3), 3);
        assert_int_equal(wake_bytes(reads), 0);
        assert_true(pccl_pipe_await_input(reads->pipe));
        assert_int_equal(read_some(reads, 3), 3);
    }
}

PIPE_TEST(who_waits_for_room_is_rung_when_it_is_worthwhile)
{
    EACH_WAY(writes, reads)
    {
        assert_true(pccl_pipe_await_room(writes->pipe));
        fill(writes);
        assert_int_equal(wake_bytes(reads), 0);
        assert_int_equal(read_some(reads, 1), 1);
        assert_int_equal(wake_bytes(writes), 0); /* no end has requested a wake-up byte */
        assert_int_equal(write_some(writes, 1), 1);
        assert_false(pccl_pipe_await_room(writes->pipe));
        int sent = 0;
        for (bool worthwhile = false; !worthwhile; worthwhile = pccl_pipe_has_room(writes->pipe)) {
            assert_int_equal(sent, 0);
            assert_true(read_some(reads, 1021) > 0);
            sent += wake_bytes(writes);
        }
        assert_int_equal(sent, 1);
        assert_true(writes->written > reads->read); /* before the pipe is empty */
        assert_true(pccl_pipe_await_room(writes->pipe));
        assert_true(read_some(reads, 1021) > 0);
        assert_int_equal(wake_bytes(writes), 0);
    }
}

PIPE_TEST(wake_bytes_arrive_once)
{
    for (int i = 0; i < 200; i++) { /* more than are taken at once */
        assert_false(pccl_pipe_await_input(f.taking.pipe));
        assert_int_equal(write_some(&f.dialed, 1), 1);
        assert_int_equal(read_some(&f.taking, 1), 1);
    }
    pccl_pipe_read_wake_bytes(f.taking.pipe, f.taking.socket);
    assert_int_equal(wake_bytes(&f.taking), 0);
    assert_false(pccl_pipe_has_ended(f.taking.pipe));
}

/* A side that reads no wake-up byte delays no other side. */
PIPE_TEST(unread_wake_bytes_are_no_failure)
{
    static const uint8_t many[64 << 10];
    while (pccl_socket_write(f.dialed.socket, many, sizeof many) > 0) {
    }
    assert_false(pccl_pipe_await_input(f.taking.pipe));
    assert_int_equal(write_some(&f.dialed, 1), 1);
    assert_int_equal(read_some(&f.taking, 1), 1);
    pccl_pipe_read_wake_bytes(f.taking.pipe, f.taking.socket);
    assert_false(pccl_pipe_has_ended(f.taking.pipe));
}

/* ---- deferred wake-up bytes ---- */

PIPE_TEST(small_pieces_wake_the_other_side_once_and_late)
{
    static struct pccl_pipe_deferred both[2]; /* one for each way */
    EACH_WAY(writes, reads)
    {
        struct pccl_pipe_deferred *due = &both[writes == &f.taking];
        pccl_pipe_defer(writes->pipe, due);
        assert_false(pccl_pipe_await_input(reads->pipe));
        for (int i = 0; i < 3; i++)
            assert_int_equal(write_some(writes, 100), 100);
        assert_int_equal(wake_bytes(reads), 0);
        assert_true(pccl_pipe_send_deferred(due));
        assert_int_equal(wake_bytes(reads), 1);
        assert_true(pccl_pipe_send_deferred(due)); /* nothing is left */
        assert_int_equal(wake_bytes(reads), 0);
        drain(reads);
        assert_false(pccl_pipe_await_input(reads->pipe));
        assert_int_equal(write_some(writes, 1), 1);
        pccl_pipe_send_now(writes->pipe); /* as before the socket closes */
        assert_int_equal(wake_bytes(reads), 1);
        assert_null(due->first);
        drain(reads);
    }
}

PIPE_TEST(a_large_piece_wakes_the_other_side_at_once)
{
    static struct pccl_pipe_deferred due;
    pccl_pipe_defer(f.dialed.pipe, &due);
    assert_false(pccl_pipe_await_input(f.taking.pipe));
    assert_int_equal(write_some(&f.dialed, 128 << 10), 128 << 10);
    assert_int_equal(wake_bytes(&f.taking), 1);
    due.is_off = true;
    drain(&f.taking);
    assert_false(pccl_pipe_await_input(f.taking.pipe));
    assert_int_equal(write_some(&f.dialed, 1), 1);
    assert_int_equal(wake_bytes(&f.taking), 1);
}

PIPE_TEST(room_is_deferred_too)
{
    static struct pccl_pipe_deferred due;
    fill(&f.dialed);
    assert_false(pccl_pipe_await_room(f.dialed.pipe));
    pccl_pipe_defer(f.taking.pipe, &due);
    for (bool worthwhile = false; !worthwhile; worthwhile = pccl_pipe_has_room(f.dialed.pipe)) {
        assert_true(pccl_pipe_send_deferred(&due)); /* the bytes read so far are not worth a wake-up byte */
        assert_true(read_some(&f.taking, 1021) > 0);
    }
    assert_int_equal(wake_bytes(&f.dialed), 0);
    assert_true(pccl_pipe_send_deferred(&due));
    assert_int_equal(wake_bytes(&f.dialed), 1);
}

PIPE_TEST(a_deferred_byte_that_does_not_fit_is_tried_again)
{
    static uint8_t many[64 << 10];
    static struct pccl_pipe_deferred due;
    pccl_pipe_defer(f.dialed.pipe, &due);
    while (pccl_socket_write(f.dialed.socket, many, sizeof many) > 0) {
    }
    assert_false(pccl_pipe_await_input(f.taking.pipe));
    assert_int_equal(write_some(&f.dialed, 1), 1);
    assert_false(pccl_pipe_send_deferred(&due));
    assert_false(pccl_pipe_send_deferred(&due));
    while (pccl_socket_read(f.taking.socket, many, sizeof many) > 0) {
    }
    assert_true(pccl_pipe_send_deferred(&due));
    assert_int_equal(wake_bytes(&f.taking), 1);
}

/* Waits for the other side's turn: sleeps until it rings. */
static void sleep_until_rung(struct end *end)
{
    struct pollfd sent = {.fd = end->socket, .events = POLLIN};
    assert_int_equal(poll(&sent, 1, LOOPBACK_HANG_MS), 1);
    pccl_pipe_read_wake_bytes(end->pipe, end->socket);
}

static void write_all(void *argument)
{
    struct end *end = argument;
    while (end->written < RACE_BYTES) {
        ptrdiff_t moved = write_some(end, (size_t)pccl_min_u64(RACE_BYTES - end->written, 1 + end->written % 9973));
        if (moved == UV_EAGAIN && !pccl_pipe_await_room(end->pipe))
            sleep_until_rung(end);
        else
            assert_true(moved > 0 || moved == UV_EAGAIN);
    }
}

/* Begins to wait at a random moment, so sooner or later at the one at which the other side answers. */
static void hear_one(struct end *end, struct pccl_prng *prng)
{
    ptrdiff_t moved;
    for (volatile uint64_t delay = pccl_prng_below(prng, DELAY_MAX); delay > 0; delay--) {
    }
    while ((moved = read_some(end, 1)) == UV_EAGAIN) {
        if (!pccl_pipe_await_input(end->pipe))
            sleep_until_rung(end);
    }
    assert_int_equal(moved, 1);
}

static void answer_all(void *argument)
{
    struct end *end = argument;
    struct pccl_prng prng = unit_prng(2);
    for (int i = 0; i < ROUNDS; i++) {
        hear_one(end, &prng);
        assert_int_equal(write_some(end, 1), 1);
    }
}

/* Each end waits for the other: if one call is lost, both sleep forever. */
PIPE_TEST(two_threads_answer_each_other)
{
    uv_thread_t thread;
    struct pccl_prng prng = unit_prng(3);
    assert_int_equal(uv_thread_create(&thread, answer_all, &f.taking), 0);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(write_some(&f.dialed, 1), 1);
        hear_one(&f.dialed, &prng);
    }
    assert_int_equal(uv_thread_join(&thread), 0);
}

/* No call for input and no call for room is lost, at any moment of the other side. */
PIPE_TEST(two_threads_wake_each_other)
{
    EACH_WAY(writes, reads)
    {
        uv_thread_t thread;
        assert_int_equal(uv_thread_create(&thread, write_all, writes), 0);
        while (reads->read < RACE_BYTES) {
            ptrdiff_t moved = read_some(reads, 1 + reads->read % 9967);
            if (moved == UV_EAGAIN && !pccl_pipe_await_input(reads->pipe))
                sleep_until_rung(reads);
            else
                assert_true(moved > 0 || moved == UV_EAGAIN);
        }
        assert_int_equal(uv_thread_join(&thread), 0);
    }
}

/* ---- the end ---- */

TEST(what_was_written_before_the_end_is_read)
{
    EACH_WAY(goes, stays)
    {
        begin();
        assert_int_equal(write_some(goes, 9), 9);
        pccl_pipe_destroy(goes->pipe);
        goes->pipe = NULL;
        hang_up(goes);
        assert_false(pccl_pipe_has_ended(stays->pipe)); /* no end has looked */
        pccl_pipe_read_wake_bytes(stays->pipe, stays->socket);
        assert_true(pccl_pipe_has_ended(stays->pipe));
        assert_int_equal(write_some(stays, 1), UV_EPIPE);
        assert_int_equal(read_some(stays, 5), 5);
        pccl_pipe_read_wake_bytes(stays->pipe, stays->socket);
        assert_int_equal(read_some(stays, 5), 4);
        assert_int_equal(read_some(stays, 5), UV_EOF);
        assert_int_equal(write_some(stays, 1), UV_EPIPE);
        end();
    }
}

/* The system reports a reset when wake-up bytes were not read; but no byte of the stream is lost. */
PIPE_TEST(an_unread_wake_byte_is_no_reset)
{
    assert_false(pccl_pipe_await_input(f.taking.pipe));
    assert_int_equal(write_some(&f.dialed, 3), 3);
    assert_int_equal(write_some(&f.taking, 3), 3);
    hang_up(&f.taking);
    pccl_pipe_read_wake_bytes(f.dialed.pipe, f.dialed.socket);
    assert_int_equal(read_some(&f.dialed, 5), 3);
    assert_int_equal(read_some(&f.dialed, 5), UV_EOF);
}

/* ---- lies ---- */

/* The other side's positions of one direction, in the fixture's memory. */
struct positions {
    uint32_t *written, *read;
};

static struct positions begin_viewed(struct view *view, struct end *writes, struct end *reads)
{
    connect_ends();
    offer();
    *view = view_offered();
    send_offer();
    assert_true(read_offer());
    find_capacity(writes, reads);
    assert_int_equal(write_some(writes, 4711), 4711);
    assert_int_equal(read_some(reads, 1234), 1234);
    return (struct positions){word_saying(view, (uint32_t)writes->written), word_saying(view, (uint32_t)reads->read)};
}

/*
 * The reader is told that more bytes are there than possible; 0x80000000 is the farthest position, -1 is before the
 * bytes it has read.
 */
static void a_lie_about_what_was_written_is_no_input(const struct end *reads, struct positions at, uint32_t capacity)
{
    const uint32_t lies[] = {capacity + 1, UINT32_C(0x80000000), UINT32_MAX};
    uint8_t bytes[16], before[16];
    uint32_t truth = *at.written;
    memset(bytes, 0x5a, sizeof bytes);
    memcpy(before, bytes, sizeof bytes);
    for (size_t i = 0; i < PCCL_COUNT_OF(lies); i++) {
        *at.written = *at.read + lies[i];
        assert_true(pccl_pipe_await_input(reads->pipe)); /* for the reader to find out */
        assert_int_equal(pccl_pipe_read(reads->pipe, reads->socket, bytes, 8, bytes + 8, 8), UV_EPROTO);
        assert_memory_equal(bytes, before, sizeof bytes);
    }
    *at.written = truth;
}

static void a_lie_about_what_was_read_is_no_room(const struct view *view, const struct end *writes, struct positions at,
                                                 uint32_t capacity)
{
    const uint32_t lies[] = {1, UINT32_C(0x80000000), UINT32_MAX - capacity};
    uint8_t *before = malloc(view->length);
    uint32_t truth = *at.read;
    assert_non_null(before);
    for (size_t i = 0; i < PCCL_COUNT_OF(lies); i++) {
        *at.read = *at.written + lies[i];
        memcpy(before, view->bytes, view->length);
        assert_true(pccl_pipe_await_room(writes->pipe));
        assert_int_equal(pccl_pipe_write(writes->pipe, writes->socket, pattern, 8, pattern, 8), UV_EPROTO);
        assert_memory_equal(view->bytes, before, view->length);
    }
    *at.read = truth;
    free(before);
}

TEST(lies_about_positions_are_found)
{
    EACH_WAY(writes, reads)
    {
        struct view view;
        struct positions at = begin_viewed(&view, writes, reads);
        a_lie_about_what_was_written_is_no_input(reads, at, (uint32_t)writes->capacity);
        a_lie_about_what_was_read_is_no_room(&view, writes, at, (uint32_t)writes->capacity);
        assert_int_equal(read_some(reads, 1000), 1000); /* each side has its own position */
        assert_int_equal(write_some(writes, 1000), 1000);
        unmap(&view);
        end();
    }
}

/* A side uses its own copy of its position: a write to the shared one moves nothing. */
TEST(nobody_moves_the_position_of_another)
{
    EACH_WAY(writes, reads)
    {
        struct view view;
        struct positions at = begin_viewed(&view, writes, reads);
        *at.read = 17;
        assert_int_equal(read_some(reads, 100), 100);
        assert_int_equal(*at.read, reads->read);
        *at.written = 17;
        assert_int_equal(write_some(writes, 100), 100);
        assert_int_equal(*at.written, writes->written);
        unmap(&view);
        end();
    }
}

static int make_all(void **state)
{
    make_pattern();
    pccl_fork_lock(); /* from now on children close the descriptors that are remembered */
    pccl_fork_unlock();
    return 0;
}

int main(void) { return unit_run(make_all, NULL); }
#else
TEST(there_are_none)
{
    struct test_memory memory;
    test_memory_init(&memory);
    assert_null(pccl_pipe_offer(&memory.memory));
}
#endif
