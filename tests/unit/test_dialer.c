/* Dialling one other side at several addresses: the order, the judgement, what failures say together. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/resource.h>

#include "loopback.h"
#include "net/dialer.h"

static bool tells_want; /* of the dials that begin */

struct fixture {
    uv_loop_t loop;
    struct pccl_dialer *dialer;
    bool done;
    struct pccl_connection *connection;
    enum pccl_link_end how;
    struct pccl_text words;
    const char *right_answer;
    uint8_t hello[128];
    uint32_t judged;
    int depth;
};

static void on_received(struct pccl_connection *connection, const struct pccl_frame *frame)
{
    (void)connection;
    (void)frame;
}

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *words)
{
    (void)connection;
    (void)how;
    (void)words;
}

static const struct pccl_connection_events events = {.received = on_received, .ended = on_ended};

static void on_enter(void *owner)
{
    struct fixture *f = owner;
    assert_int_equal(f->depth++, 0);
}

static void on_leave(void *owner)
{
    struct fixture *f = owner;
    assert_int_equal(--f->depth, 0);
}

static enum pccl_link_end on_judge(void *context, const struct pccl_frame *frame, struct pccl_text *words)
{
    struct fixture *f = context;
    struct pccl_text got;
    assert_int_equal(f->depth, 1);
    f->judged++;
    loopback_words(frame, &got);
    pccl_text_format(words, "it said %s", got.bytes);
    return strcmp(got.bytes, f->right_answer) == 0 ? 0 : PCCL_LINK_OTHER;
}

static void on_done(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                    const struct pccl_text *words)
{
    struct fixture *f = context;
    assert_false(f->done);
    assert_int_equal(f->depth, 1);
    f->done = true;
    f->connection = connection;
    f->how = how;
    f->words = *words;
    if (connection) {
        connection->events = &events;
        connection->owner = f;
    }
}

static void begin(struct fixture *f, const struct pccl_address *addresses, uint32_t count, const char *hello,
                  const char *right_answer, uint32_t timeout_ms)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    f->right_answer = right_answer;
    struct pccl_dial dial = {.addresses = addresses,
                             .count = count,
                             .stagger_ms = 5,
                             .timeout_ms = timeout_ms,
                             .hello = hello ? f->hello : NULL,
                             .hello_length = hello ? loopback_frame(hello, f->hello, sizeof f->hello) : 0,
                             .judge = on_judge,
                             .tells_want = tells_want,
                             .done = on_done,
                             .context = f,
                             .enter = on_enter,
                             .leave = on_leave,
                             .owner = f};
    f->dialer = pccl_dialer_start(&f->loop, pccl_heap(), &dial);
    assert_non_null(f->dialer);
    assert_false(f->done); /* never from inside start */
}

static void end(struct fixture *f)
{
    if (f->connection)
        pccl_connection_close(f->connection, 0);
    loopback_end(&f->loop);
}

/* An address where nobody listens: its port is bound, so nobody else gets it, but not listened on. */
static struct pccl_address dead_address(int *holder)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*holder >= 0);
    assert_int_equal(bind(*holder, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(*holder, (struct sockaddr *)&address, &length), 0);
    return pccl_address_v4(127, 0, 0, 1, ntohs(address.sin_port));
}

static struct pccl_address live_address(int *listening)
{
    uint16_t port;
    *listening = loopback_listen(&port);
    return pccl_address_v4(127, 0, 0, 1, port);
}

/* Runs the loop until somebody has connected there. */
static int accept_one(struct fixture *f, int listening)
{
    loopback_until_readable(&f->loop, listening);
    int accepted = accept(listening, NULL, NULL);
    assert_true(accepted >= 0);
    return accepted;
}

static void answer(struct fixture *f, int bare, const char *words)
{
    uint8_t bytes[256], got[128];
    loopback_until_readable(&f->loop, bare);
    loopback_read(bare, got, PCCL_FRAME_HEADER_BYTES);
    uint32_t body = got[0];
    loopback_read(bare, got + PCCL_FRAME_HEADER_BYTES, body);
    assert_memory_equal(got, f->hello, PCCL_FRAME_HEADER_BYTES + body);
    size_t length = loopback_frame(words, bytes, sizeof bytes);
    assert_int_equal(send(bare, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

static void being_connected_is_enough_without_a_hello(void **state)
{
    struct fixture f;
    int listening;
    struct pccl_address address = live_address(&listening);
    (void)state;
    begin(&f, &address, 1, NULL, NULL, 60000);
    loopback_until(&f.loop, &f.done);
    assert_non_null(f.connection);
    assert_true(pccl_address_equal(&f.connection->address, &address));
    close(listening);
    end(&f);
}

static void nobody_there_is_refused(void **state)
{
    struct fixture f;
    int holder;
    struct pccl_address address = dead_address(&holder);
    (void)state;
    begin(&f, &address, 1, NULL, NULL, 60000);
    loopback_until(&f.loop, &f.done);
    assert_null(f.connection);
    assert_int_equal(f.how, PCCL_LINK_REFUSED);
    assert_non_null(strstr(f.words.bytes, "127.0.0.1:"));
    close(holder);
    end(&f);
}

static void no_address_is_unreachable(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, NULL, 0, NULL, NULL, 60000);
    loopback_until(&f.loop, &f.done);
    assert_null(f.connection);
    assert_int_equal(f.how, PCCL_LINK_UNREACHABLE);
    end(&f);
}

/* Who asks for it hears that nobody was asked; to others it is a way that could not be gone. */
static void want_of_descriptors_says_nothing_of_the_other_side(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct fixture f;
        int listening;
        struct pccl_address address = live_address(&listening);
        struct rlimit before;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        tells_want = told;
        begin(&f, &address, 1, NULL, NULL, 60000);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
        loopback_until(&f.loop, &f.done);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_null(f.connection);
        assert_int_equal(f.how, told ? 0 : PCCL_LINK_UNREACHABLE);
        close(listening);
        end(&f);
    }
    tells_want = false;
}

static void the_next_address_is_tried(void **state)
{
    struct fixture f;
    int holder, listening;
    struct pccl_address addresses[2] = {dead_address(&holder), live_address(&listening)};
    (void)state;
    begin(&f, addresses, 2, NULL, NULL, 60000);
    loopback_until(&f.loop, &f.done);
    assert_non_null(f.connection);
    assert_true(pccl_address_equal(&f.connection->address, &addresses[1]));
    close(holder);
    close(listening);
    end(&f);
}

static void the_right_answer_makes_the_link(void **state)
{
    struct fixture f;
    int listening;
    struct pccl_address address = live_address(&listening);
    (void)state;
    begin(&f, &address, 1, "are you seven?", "yes", 60000);
    int bare = accept_one(&f, listening);
    answer(&f, bare, "yes");
    loopback_until(&f.loop, &f.done);
    assert_non_null(f.connection);
    assert_int_equal(f.judged, 1);
    close(bare);
    close(listening);
    end(&f);
}

static void another_process_behind_an_address_is_passed_over(void **state)
{
    struct fixture f;
    int wrong, right;
    struct pccl_address addresses[2] = {live_address(&wrong), live_address(&right)};
    (void)state;
    begin(&f, addresses, 2, "are you seven?", "yes", 60000);
    int first = accept_one(&f, wrong);
    int second = accept_one(&f, right); /* connected in the meantime, but only one is asked at a time */
    uint8_t byte;
    assert_int_equal(recv(second, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
    answer(&f, first, "no, nine");
    answer(&f, second, "yes");
    loopback_until(&f.loop, &f.done);
    assert_non_null(f.connection);
    assert_true(pccl_address_equal(&f.connection->address, &addresses[1]));
    assert_int_equal(f.judged, 2);
    close(first);
    close(second);
    close(wrong);
    close(right);
    end(&f);
}

static void only_another_process_is_other(void **state)
{
    struct fixture f;
    int listening, holder;
    struct pccl_address addresses[2] = {live_address(&listening), dead_address(&holder)};
    (void)state;
    begin(&f, addresses, 2, "are you seven?", "yes", 60000);
    int bare = accept_one(&f, listening);
    answer(&f, bare, "no, nine");
    loopback_until(&f.loop, &f.done);
    assert_null(f.connection);
    assert_int_equal(f.how, PCCL_LINK_OTHER);
    assert_non_null(strstr(f.words.bytes, "no, nine"));
    close(bare);
    close(listening);
    close(holder);
    end(&f);
}

static void garbage_is_another_process(void **state)
{
    static const char junk[] = "220 mail.example.org ESMTP, and a greeting that is long enough for a header\r\n";
    struct fixture f;
    int listening;
    struct pccl_address address = live_address(&listening);
    (void)state;
    begin(&f, &address, 1, "are you seven?", "yes", 60000);
    int bare = accept_one(&f, listening);
    assert_int_equal(send(bare, junk, sizeof junk, MSG_NOSIGNAL), (ssize_t)sizeof junk);
    loopback_until(&f.loop, &f.done);
    assert_null(f.connection);
    assert_int_equal(f.how, PCCL_LINK_OTHER);
    close(bare);
    close(listening);
    end(&f);
}

static void an_address_that_says_nothing_forbids_a_verdict_of_death(void **state)
{
    struct fixture f;
    int listening, holder;
    struct pccl_address addresses[2] = {dead_address(&holder), live_address(&listening)};
    (void)state;
    begin(&f, addresses, 2, "are you seven?", "yes", 20); /* the kernel accepts; nobody answers */
    loopback_until(&f.loop, &f.done);
    assert_null(f.connection);
    assert_int_equal(f.how, PCCL_LINK_TIMEOUT);
    close(holder);
    close(listening);
    end(&f);
}

static void closing_without_an_answer_is_closed(void **state)
{
    struct fixture f;
    int listening;
    struct pccl_address address = live_address(&listening);
    (void)state;
    begin(&f, &address, 1, "are you seven?", "yes", 60000);
    close(accept_one(&f, listening));
    loopback_until(&f.loop, &f.done);
    assert_null(f.connection);
    assert_int_equal(f.how, PCCL_LINK_CLOSED);
    close(listening);
    end(&f);
}

static void a_cancelled_dialer_says_nothing(void **state)
{
    struct fixture f;
    int listening;
    struct pccl_address address = live_address(&listening);
    (void)state;
    begin(&f, &address, 1, "are you seven?", "yes", 60000);
    pccl_dialer_cancel(f.dialer); /* before its first attempt */
    end(&f);
    assert_false(f.done);
    begin(&f, &address, 1, "are you seven?", "yes", 60000);
    int bare = accept_one(&f, listening);
    pccl_dialer_cancel(f.dialer); /* while it waits for the answer */
    end(&f);
    assert_false(f.done);
    close(bare);
    close(listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(being_connected_is_enough_without_a_hello),
        cmocka_unit_test(nobody_there_is_refused),
        cmocka_unit_test(no_address_is_unreachable),
        cmocka_unit_test(want_of_descriptors_says_nothing_of_the_other_side),
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(the_right_answer_makes_the_link),
        cmocka_unit_test(another_process_behind_an_address_is_passed_over),
        cmocka_unit_test(only_another_process_is_other),
        cmocka_unit_test(garbage_is_another_process),
        cmocka_unit_test(an_address_that_says_nothing_forbids_a_verdict_of_death),
        cmocka_unit_test(closing_without_an_answer_is_closed),
        cmocka_unit_test(a_cancelled_dialer_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
