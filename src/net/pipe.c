#include "net/pipe.h"

#include "os/fork.h"
#include "os/memory.h"

#include <stdatomic.h>
#include <string.h>

/*
 * Sizes. The dialing side sends much, and the other side answers in small frames. Memory is allocated when it is first
 * used, and the number of pipes is limited; further connections use their sockets.
 */
enum {
    FORTH_BYTES = 2048 << 10, /* forward and backward capacity must be powers of two */
    BACK_BYTES = 32 << 10,
    CONTROL_BYTES = 4096,
    SHARED_BYTES = CONTROL_BYTES + FORTH_BYTES + BACK_BYTES,
    OFFERED_MAX = 32,          /* limit for concurrent pipes offered by this process */
    STEP_BYTES = 256 << 10,    /* memory is allocated in steps of this size */
    STREAMED_BYTES = 16 << 10, /* minimum size of copies that may bypass the caches */
    TRIED_EVERY = 16,
    WAKE_BYTES = 64,
    DEFERRED_BYTES = 128 << 10, /* the other side is woken at the latest when this many bytes have moved */
    LINE_BYTES = 64,            /* size of a cache line */
};

/*
 * One direction. Positions are byte counts modulo 2^32. The byte at the position `start` is the first one of the
 * memory: a writer that finds the pipe empty begins there again, so that small messages only use memory that the caches
 * contain.
 */
struct track {
    _Alignas(LINE_BYTES) _Atomic uint32_t written;
    _Atomic uint32_t start; /* changed only while the pipe is empty, before the next `written` */
    _Alignas(LINE_BYTES) _Atomic uint32_t read;
    _Alignas(LINE_BYTES) _Atomic uint32_t reader_waits; /* both flags: a wake-up byte is requested */
    _Alignas(LINE_BYTES) _Atomic uint32_t writer_waits;
};

struct control {
    _Atomic uint32_t taken;
    struct track forth, back;
};

_Static_assert(sizeof(struct control) <= CONTROL_BYTES, "the bytes follow behind it");

/* One side's view of a direction. `position` is private, because the other side could change the shared one. */
struct side {
    struct track *track;
    uint8_t *bytes;
    uint32_t capacity, position;
    uint32_t start;    /* of the writer */
    uint32_t taken_up; /* number of bytes, from the start, whose memory is allocated */
};

struct pccl_pipe {
    const struct pccl_memory *memory;
    struct pccl_pipe_copier copier; /* zeroed if not set */
    struct control *control;
    struct side in, out;
    uint64_t cost[2]; /* cost of copies through the caches and bypassing them, in 2^-10 ns per byte */
    uint32_t copies;
    uv_os_fd_t descriptor; /* PCCL_NO_FD if it was already sent, or if this side does not send it */
    bool offered;          /* offered by this process */
    bool has_unsent_wake_byte;
    struct pccl_pipe_deferred *deferred; /* NULL: wake-up bytes are sent at once */
    struct pccl_pipe *next_due;
    bool is_due;                /* in the list `deferred` */
    bool has_read, has_written; /* since the other side's flags were last checked */
    uint32_t due_bytes;         /* number of bytes in both directions since then */
    uv_os_sock_t due_socket;
    int ended; /* error that ended the input, or 0 */
};

static uint32_t offered_count, offered_generation; /* protected by pccl_fork_lock */
static _Atomic bool is_short; /* a shortage of memory has ended a connection, so no more pipes are offered */

/* ---- memory ---- */

/* Allocates memory for `bytes` more. Returns false if memory is short. */
static bool prepare(struct side *out, uint32_t bytes)
{
    while (out->taken_up < out->capacity && out->position - out->start + bytes > out->taken_up) {
        uint32_t step = (uint32_t)pccl_min_u64(STEP_BYTES, out->capacity);
        if (!pccl_shared_allocate(out->bytes + out->taken_up, step)) {
            atomic_store(&is_short, true);
            return false;
        }
        out->taken_up += step;
    }
    return true;
}

/* Allocates the memory that both directions use first. */
static bool prepare_first(struct pccl_pipe *pipe)
{
    struct side in = pipe->in; /* the first read of a page would also interrupt an operation */
    return prepare(&pipe->out, 1) && prepare(&in, 1);
}

/* ---- agreement ---- */

/* Creates a pipe with this shared memory, and owns the descriptor, which it closes on failure. */
static struct pccl_pipe *create(const struct pccl_memory *memory, uv_os_fd_t descriptor, bool offers)
{
    struct pccl_pipe *pipe = pccl_allocate(memory, sizeof *pipe);
    uint8_t *mapped = pipe ? pccl_shared_map(descriptor, SHARED_BYTES) : NULL;
    if (mapped && !pccl_shared_allocate(mapped, CONTROL_BYTES)) {
        pccl_shared_unmap(mapped, SHARED_BYTES);
        mapped = NULL;
    }
    if (!mapped) {
        pccl_shared_close(descriptor);
        pccl_release(memory, pipe, sizeof *pipe);
        return NULL;
    }
    struct control *control = (struct control *)(void *)mapped;
    struct side forth = {.track = &control->forth, .bytes = mapped + CONTROL_BYTES, .capacity = FORTH_BYTES};
    struct side back = {.track = &control->back, .bytes = forth.bytes + FORTH_BYTES, .capacity = BACK_BYTES};
    *pipe = (struct pccl_pipe){.memory = memory,
                               .control = control,
                               .in = offers ? back : forth,
                               .out = offers ? forth : back,
                               .descriptor = descriptor,
                               .offered = offers};
    return pipe;
}

static void close_descriptor(struct pccl_pipe *pipe)
{
    if (pipe->descriptor != PCCL_NO_FD)
        pccl_shared_close(pipe->descriptor);
    pipe->descriptor = PCCL_NO_FD;
}

/* Returns true if one more pipe may be offered. The pipes of a forked child's parent do not count. */
static bool begin_offer(void)
{
    uint32_t generation = pccl_fork_generation();
    pccl_fork_lock();
    if (offered_generation != generation)
        offered_count = 0;
    offered_generation = generation;
    bool may = offered_count < OFFERED_MAX;
    offered_count += may;
    pccl_fork_unlock();
    return may;
}

static void end_offer(void)
{
    pccl_fork_lock();
    offered_count--;
    pccl_fork_unlock();
}

struct pccl_pipe *pccl_pipe_offer(const struct pccl_memory *memory)
{
    struct pccl_pipe *pipe = NULL;
    if (atomic_load(&is_short) || !begin_offer())
        return NULL;
    uv_os_fd_t descriptor = pccl_shared_create(SHARED_BYTES);
    if (descriptor != PCCL_NO_FD)
        pipe = create(memory, descriptor, true);
    if (!pipe)
        end_offer();
    return pipe;
}

ptrdiff_t pccl_pipe_send_offer(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *bytes, size_t length)
{
    if (pipe->descriptor == PCCL_NO_FD)
        return pccl_socket_write(socket, bytes, length);
    ptrdiff_t moved = pccl_socket_write_with(socket, bytes, length, pipe->descriptor);
    if (moved > 0)
        close_descriptor(pipe);
    return moved;
}

ptrdiff_t pccl_pipe_read_offer(const struct pccl_memory *memory, uv_os_sock_t socket, uint8_t *bytes, size_t length,
                               struct pccl_pipe **out)
{
    uv_os_fd_t descriptor;
    ptrdiff_t moved = pccl_socket_read_with(socket, bytes, length, &descriptor);
    *out = NULL;
    if (descriptor == PCCL_NO_FD)
        return moved;
    if (!pccl_shared_is_valid(descriptor, SHARED_BYTES)) {
        pccl_socket_refuse_descriptor(descriptor);
        return moved;
    }
    *out = create(memory, descriptor, false);
    if (!*out)
        return moved;
    close_descriptor(*out);
    if (prepare_first(*out)) {
        atomic_store(&(*out)->control->taken, 1);
    } else {
        pccl_pipe_destroy(*out);
        *out = NULL;
    }
    return moved;
}

bool pccl_pipe_is_agreed(const struct pccl_pipe *pipe) { return atomic_load(&pipe->control->taken) != 0; }

void pccl_pipe_prepare(struct pccl_pipe *pipe) { (void)prepare_first(pipe); }

static void forget_due(struct pccl_pipe *pipe)
{
    if (!pipe->is_due)
        return;
    struct pccl_pipe **at = &pipe->deferred->first;
    while (*at != pipe)
        at = &(*at)->next_due;
    *at = pipe->next_due;
    pipe->is_due = false;
}

void pccl_pipe_destroy(struct pccl_pipe *pipe)
{
    if (!pipe)
        return;
    forget_due(pipe);
    close_descriptor(pipe);
    pccl_shared_unmap(pipe->control, SHARED_BYTES);
    if (pipe->offered)
        end_offer();
    pccl_release(pipe->memory, pipe, sizeof *pipe);
}

void pccl_pipe_copy_with(struct pccl_pipe *pipe, const struct pccl_pipe_copier *copier) { pipe->copier = *copier; }

void pccl_pipe_defer(struct pccl_pipe *pipe, struct pccl_pipe_deferred *deferred) { pipe->deferred = deferred; }

/* ---- wake-up bytes ---- */

/* Sends a wake-up byte. If the socket has ended, that end wakes this side instead. */
static void send_wake_byte(struct pccl_pipe *pipe, uv_os_sock_t socket)
{
    static const uint8_t byte = 0;
    int sent = (int)pccl_socket_write(socket, &byte, sizeof byte);
    pipe->has_unsent_wake_byte = sent == UV_EAGAIN || pccl_socket_is_shortage(sent);
}

bool pccl_pipe_has_unsent_wake_byte(const struct pccl_pipe *pipe) { return pipe->has_unsent_wake_byte; }

void pccl_pipe_send_again(struct pccl_pipe *pipe, uv_os_sock_t socket)
{
    if (pipe->has_unsent_wake_byte)
        send_wake_byte(pipe, socket);
}

/* Returns true if a flag of the other side was set, and clears it. */
static bool is_wanted(_Atomic uint32_t *waits)
{
    return atomic_load_explicit(waits, memory_order_relaxed) && atomic_exchange(waits, 0);
}

void pccl_pipe_read_wake_bytes(struct pccl_pipe *pipe, uv_os_sock_t socket)
{
    uint8_t bytes[WAKE_BYTES];
    ptrdiff_t got;
    do {
        got = pccl_socket_read(socket, bytes, sizeof bytes);
    } while (got == sizeof bytes);
    if (got < 0 && got != UV_EAGAIN && !pipe->ended)
        pipe->ended = got == UV_ECONNRESET ? UV_EOF : (int)got; /* a reset loses only wake-up bytes */
}

bool pccl_pipe_has_ended(const struct pccl_pipe *pipe) { return pipe->ended != 0; }

/* ---- positions ---- */

/* Returns the number of readable bytes. It exceeds the capacity if the other side's position is invalid. */
static uint32_t filled(const struct side *in)
{
    return atomic_load_explicit(&in->track->written, memory_order_acquire) - in->position;
}

static uint32_t room(const struct side *out)
{
    uint32_t used = out->position - atomic_load_explicit(&out->track->read, memory_order_acquire);
    return out->capacity - used;
}

bool pccl_pipe_has_input(const struct pccl_pipe *pipe) { return filled(&pipe->in) > 0; }

/*
 * Returns the minimum room for a write. Each write wakes the other side, for which a small part of a segment is
 * useless.
 */
static uint32_t worthwhile(const struct side *out) { return out->capacity / 4; }

bool pccl_pipe_has_room(const struct pccl_pipe *pipe) { return room(&pipe->out) >= worthwhile(&pipe->out); }

bool pccl_pipe_await_input(struct pccl_pipe *pipe)
{
    if (pccl_pipe_has_input(pipe))
        return true;
    atomic_store(&pipe->in.track->reader_waits, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return pccl_pipe_has_input(pipe);
}

void pccl_pipe_poll_input(struct pccl_pipe *pipe)
{
    if (atomic_load_explicit(&pipe->in.track->reader_waits, memory_order_relaxed))
        atomic_store_explicit(&pipe->in.track->reader_waits, 0, memory_order_relaxed);
}

bool pccl_pipe_await_room(struct pccl_pipe *pipe)
{
    if (pccl_pipe_has_room(pipe))
        return true;
    atomic_store(&pipe->out.track->writer_waits, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return pccl_pipe_has_room(pipe);
}

/* ---- deferred wake-up bytes ---- */

/*
 * Sends a wake-up byte if the other side waits for bytes or room that it has now. Call after moving a position. The
 * other side sets its flag before it checks the position (see pccl_pipe_await_input), so one of the two always notices
 * the other. Returns false if the byte could not be sent.
 */
static bool send_if_wanted(struct pccl_pipe *pipe)
{
    bool wanted = pipe->has_unsent_wake_byte;
    atomic_thread_fence(memory_order_seq_cst);
    if (pipe->has_written)
        wanted = is_wanted(&pipe->out.track->reader_waits) || wanted;
    if (pipe->has_read && pipe->in.capacity - filled(&pipe->in) >= worthwhile(&pipe->in))
        wanted = is_wanted(&pipe->in.track->writer_waits) || wanted;
    pipe->has_read = pipe->has_written = false;
    pipe->due_bytes = 0;
    if (wanted)
        send_wake_byte(pipe, pipe->due_socket);
    return !pipe->has_unsent_wake_byte;
}

/* Wakes the other side after a position was moved: now, or later if the piece is small. */
static void send_later(struct pccl_pipe *pipe, uv_os_sock_t socket, uint32_t moved)
{
    pipe->due_socket = socket;
    pipe->due_bytes += moved;
    if (!pipe->deferred || pipe->deferred->is_off || pipe->due_bytes >= DEFERRED_BYTES) {
        (void)send_if_wanted(pipe); /* the loop checks pccl_pipe_has_unsent_wake_byte */
    } else if (!pipe->is_due) {
        pipe->is_due = true;
        pipe->next_due = pipe->deferred->first;
        pipe->deferred->first = pipe;
    }
}

bool pccl_pipe_send_deferred(struct pccl_pipe_deferred *deferred)
{
    for (struct pccl_pipe **at = &deferred->first; *at;) {
        struct pccl_pipe *pipe = *at;
        if (send_if_wanted(pipe)) {
            pipe->is_due = false;
            *at = pipe->next_due;
        } else {
            at = &pipe->next_due;
        }
    }
    return !deferred->first;
}

void pccl_pipe_send_now(struct pccl_pipe *pipe)
{
    if (!pipe || !pipe->is_due)
        return;
    (void)send_if_wanted(pipe); /* if this fails, the end of the socket wakes the other side */
    forget_due(pipe);
}

/* ---- bytes ---- */

/*
 * Copies bytes. Does not use memcpy, which may be a single instruction (`rep movs`): if one address is shortly after
 * the other within its page, some processors take fifteen times as long for that.
 */
static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    struct block {
        uint8_t bytes[LINE_BYTES];
    } block;
    size_t at = 0;
    for (; at + sizeof block <= bytes; at += sizeof block) {
        memcpy(&block, from + at, sizeof block);
        memcpy(to + at, &block, sizeof block);
    }
    for (; at < bytes; at++)
        to[at] = from[at];
}

static uint32_t copy_out(struct side *in, uint8_t *bytes, size_t length, uint32_t available)
{
    uint32_t start = atomic_load_explicit(&in->track->start, memory_order_relaxed);
    uint32_t count = (uint32_t)pccl_min_u64(length, available), at = (in->position - start) & (in->capacity - 1);
    uint32_t whole = (uint32_t)pccl_min_u64(count, in->capacity - at);
    if (count) {
        copy(bytes, in->bytes + at, whole);
        copy(bytes + whole, in->bytes, count - whole);
    }
    in->position += count;
    return count;
}

/*
 * Decides whether the next copy bypasses the caches. The reader has just read the old bytes at this place, so its
 * processor's caches may still contain them. If these caches are not ours, bypassing them is much faster than fetching
 * the lines; otherwise it is slower. This changes with the system and the scheduling of threads, so both ways are tried
 * from time to time.
 */
static bool goes_past_caches(struct pccl_pipe *pipe)
{
    bool faster = pipe->cost[true] < pipe->cost[false];
    return ++pipe->copies % TRIED_EVERY == 0 ? !faster : faster;
}

/* Updates a cost, using the minimum because copies may be interrupted. The minimum slowly decays. */
static void note_cost(uint64_t *cost, uint64_t took_ns, size_t bytes)
{
    uint64_t now = (took_ns << 10) / bytes;
    *cost = *cost ? pccl_min_u64(now, *cost + *cost / 16 + 1) : now;
}

static void copy_away(struct pccl_pipe *pipe, uint8_t *to, const uint8_t *from, size_t bytes)
{
    if (!pipe->copier.copy || bytes < STREAMED_BYTES) {
        copy(to, from, bytes);
        return;
    }
    bool past = goes_past_caches(pipe);
    uint64_t begin = uv_hrtime();
    if (past)
        pipe->copier.copy(pipe->copier.context, to, from, bytes);
    else
        copy(to, from, bytes);
    note_cost(&pipe->cost[past], uv_hrtime() - begin, bytes);
}

/* Moves the start of an empty direction to the position. */
static void begin_again(struct side *out)
{
    out->start = out->position;
    atomic_store_explicit(&out->track->start, out->start, memory_order_relaxed);
}

static uint32_t copy_in(struct pccl_pipe *pipe, const uint8_t *bytes, size_t length, uint32_t available)
{
    struct side *out = &pipe->out;
    uint32_t count = (uint32_t)pccl_min_u64(length, available), at = (out->position - out->start) & (out->capacity - 1);
    uint32_t whole = (uint32_t)pccl_min_u64(count, out->capacity - at);
    if (count) {
        copy_away(pipe, out->bytes + at, bytes, whole);
        copy_away(pipe, out->bytes, bytes + whole, count - whole);
    }
    out->position += count;
    return count;
}

ptrdiff_t pccl_pipe_read(struct pccl_pipe *pipe, uv_os_sock_t socket, uint8_t *first, size_t first_length,
                         uint8_t *second, size_t second_length)
{
    struct side *in = &pipe->in;
    uint32_t available = filled(in);
    if (available > in->capacity)
        return UV_EPROTO;
    if (available == 0)
        return pipe->ended ? pipe->ended : UV_EAGAIN;
    uint32_t moved = copy_out(in, first, first_length, available);
    moved += copy_out(in, second, second_length, available - moved);
    atomic_store_explicit(&in->track->read, in->position, memory_order_release);
    pipe->has_read = true;
    send_later(pipe, socket, moved);
    return moved;
}

ptrdiff_t pccl_pipe_write(struct pccl_pipe *pipe, uv_os_sock_t socket, const uint8_t *first, size_t first_length,
                          const uint8_t *second, size_t second_length)
{
    struct side *out = &pipe->out;
    uint32_t available = room(out);
    if (pipe->ended)
        return UV_EPIPE;
    if (available > out->capacity)
        return UV_EPROTO;
    if (available == 0)
        return UV_EAGAIN;
    if (available == out->capacity)
        begin_again(out);
    if (!prepare(out, (uint32_t)pccl_min_u64(available, first_length + second_length)))
        return UV_ENOMEM;
    uint32_t moved = copy_in(pipe, first, first_length, available);
    moved += copy_in(pipe, second, second_length, available - moved);
    if (pipe->copier.copied)
        pipe->copier.copied(pipe->copier.context);
    atomic_store_explicit(&out->track->written, out->position, memory_order_release);
    pipe->has_written = true;
    send_later(pipe, socket, moved);
    return moved;
}
