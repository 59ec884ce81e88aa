/* data/share: against simulated connections of a link. */
#include "unit.h"
#include "data/share.h"

enum { CONNECTIONS = 6, SEGMENT = 65536, STEP_US = 1000, RTT_US = 50000, MB = 1000000, NEVER = 60000000 };

/* Each connection holds one segment at a time, and sends it at its own rate. */
struct link {
    struct pccl_share share;
    uint64_t now_us;
    uint64_t rates[CONNECTIONS];     /* that it seems to have */
    uint64_t stalls_us[CONNECTIONS]; /* from then on it sends nothing, whatever rate it seems to have */
    uint64_t left[CONNECTIONS];
    uint64_t sent[CONNECTIONS];
    bool is_new[CONNECTIONS]; /* its window has opened as far as it has sent */
    uint32_t waiting;
    uint32_t taken[CONNECTIONS];
};

static struct link link_of(uint64_t rate)
{
    struct link link = {.now_us = 1000000};
    for (int i = 0; i < CONNECTIONS; i++) {
        link.rates[i] = rate;
        link.stalls_us[i] = NEVER;
    }
    return link;
}

static uint64_t rate_of(const struct link *link, int i)
{
    const uint64_t window = 14480 + link->sent[i];
    return link->is_new[i] ? pccl_min_u64(link->rates[i], window * 1000000 / RTT_US) : link->rates[i];
}

static void pump(struct link *link)
{
    uint64_t fastest = 0, rates[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        const bool known = !link->is_new[i] || pccl_share_knows(&link->share, link->sent[i], RTT_US);
        rates[i] = known ? rate_of(link, i) : 0;
        fastest = pccl_max_u64(fastest, rates[i]);
    }
    link->share.fastest = fastest;
    pccl_share_begin(&link->share, link->now_us);
    for (int i = 0; i < CONNECTIONS && link->waiting > 0; i++) {
        if (link->left[i] > 0 || !pccl_share_takes(&link->share, rates[i], link->now_us))
            continue;
        pccl_share_took(&link->share, rates[i], link->now_us);
        link->left[i] = SEGMENT;
        link->taken[i]++;
        link->waiting--;
    }
    link->share.waiting = link->waiting > 0;
}

static bool is_busy(const struct link *link)
{
    bool busy = link->waiting > 0;
    for (int i = 0; i < CONNECTIONS; i++)
        busy = busy || (link->left[i] > 0 && link->now_us < link->stalls_us[i]);
    return busy;
}

/* Sends `segments` segments over all connections that do not stall. Returns the duration. */
static uint64_t send(struct link *link, uint32_t segments)
{
    uint64_t began_us = link->now_us;
    link->waiting += segments;
    for (pump(link); is_busy(link) && link->now_us < NEVER; pump(link)) {
        link->now_us += STEP_US;
        for (int i = 0; i < CONNECTIONS; i++) {
            const uint64_t moved = pccl_min_u64(link->left[i], rate_of(link, i) * STEP_US / 1000000);
            if (link->now_us >= link->stalls_us[i])
                continue;
            link->left[i] -= moved;
            link->sent[i] += moved;
        }
    }
    return (link->now_us - began_us) / 1000;
}

TEST(like_connections_share_alike)
{
    struct link link = link_of(20 * MB);
    link.rates[1] = 8 * MB; /* a fraction of the rate of the others is not slow */
    assert_in_range(send(&link, 120), 60, 90);
    for (int i = 0; i < CONNECTIONS; i++)
        assert_in_range(link.taken[i], i == 1 ? 5 : 20, 25);
}

TEST(unknown_rates_are_alike)
{
    struct pccl_share share = {.since_us = 0};
    assert_true(pccl_share_takes(&share, 0, 1000000));
}

TEST(an_unknown_rate_is_not_slow)
{
    struct pccl_share share = {.fastest = 20 * MB, .since_us = 1000000};
    assert_true(pccl_share_takes(&share, 0, 1000000));
    assert_false(pccl_share_takes(&share, 1, 1000000));
}

/* It replaces a connection that has ended, and begins with a window of ten packets: 290 KB/s beside 20 MB/s. */
TEST(a_new_one_comes_to_send_like_the_others)
{
    struct link link = link_of(20 * MB);
    (void)send(&link, 100);
    link.is_new[3] = true;
    link.sent[3] = 0;
    (void)send(&link, 600);
    uint32_t before = link.taken[3];
    (void)send(&link, 120);
    assert_in_range(link.taken[3] - before, 18, 22);
}

/* If it stays slow, it delays no more than that. */
TEST(a_new_one_that_is_slow_gets_little)
{
    struct link link = link_of(20 * MB);
    link.is_new[3] = true;
    link.rates[3] = 100000;
    for (int i = 0; i < 20; i++)
        (void)send(&link, 100);
    assert_in_range(link.taken[3], 1, 4);
}

/* At 25 KB/s a segment takes 2.6 s. */
TEST(a_slow_connection_gets_nothing)
{
    struct link link = link_of(20 * MB);
    link.rates[3] = 25000;
    for (int i = 0; i < 5; i++) {
        assert_in_range(send(&link, 100), 60, 80);
        link.now_us += 300000; /* an operation ends */
    }
    assert_int_equal(link.taken[3], 0);
}

TEST(it_gets_slow_in_the_middle)
{
    struct link link = link_of(20 * MB);
    (void)send(&link, 100);
    uint32_t before = link.taken[3];
    link.rates[3] = 25000;
    assert_in_range(send(&link, 100), 60, 80);
    assert_int_equal(link.taken[3], before);
}

TEST(all_are_slow)
{
    struct link link = link_of(25000);
    (void)send(&link, CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        assert_int_equal(link.taken[i], 1);
}

/* The rate that the system shows for a connection that has stalled stays unchanged. */
TEST(fast_ones_stall)
{
    struct link link = link_of(20 * MB);
    link.rates[0] = link.rates[1] = 4 * MB;
    for (int i = 2; i < CONNECTIONS; i++)
        link.stalls_us[i] = link.now_us + 50000;
    /* After a tenth of a second the slow ones take all segments that are left, one after the other. */
    assert_in_range(send(&link, 100), 100, 1200);
    assert_true(link.taken[0] + link.taken[1] > 30);
}

TEST(patience_begins_with_the_work)
{
    struct link link = link_of(20 * MB);
    link.rates[0] = 25000;
    (void)send(&link, 20);
    link.now_us += 5000000;
    link.waiting = 1;
    pump(&link);
    assert_int_equal(link.taken[0], 0);
}
