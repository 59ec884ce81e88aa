/* core/address: texts there and back, texts that are refused, kinds of addresses, and sites. */
#include "unit.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <stdio.h>
#include <string.h>

#include "core/address.h"
#include "core/prng.h"

static bool parse(const char *text, struct pccl_address *address)
{
    return pccl_address_parse_ip(text, strlen(text), address);
}

TEST(test_text)
{
    static const struct {
        const char *ip, *text;
    } rows[] = {
        {"1.2.3.4", "1.2.3.4:5"},
        {"255.255.255.255", "255.255.255.255:5"},
        {"::", "[::]:5"},
        {"::1", "[::1]:5"},
        {"1::", "[1::]:5"},
        {"0:0:0:0:0:0:0:1", "[::1]:5"},
        {"2001:DB8::00a1", "[2001:db8::a1]:5"},
        {"1:0:2:3:4:5:6:7", "[1:0:2:3:4:5:6:7]:5"},
        {"1:0:0:2:0:0:0:3", "[1:0:0:2::3]:5"},
        {"1:0:0:2:3:0:0:4", "[1::2:3:0:0:4]:5"},
        {"::1.2.3.4", "[::102:304]:5"},
        {"64:ff9b::10.0.0.1", "[64:ff9b::a00:1]:5"},
        {"1:2:3:4:5:6:1.2.3.4", "[1:2:3:4:5:6:102:304]:5"},
        {"::ffff:9.8.7.6", "9.8.7.6:5"},
        {"::2:3:4:5:6:7:8", "[0:2:3:4:5:6:7:8]:5"},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(rows); i++) {
        struct pccl_address address;
        struct pccl_text text;
        assert_true(parse(rows[i].ip, &address));
        assert_int_equal(address.port, 0);
        address.port = 5;
        pccl_address_text(&address, &text);
        assert_string_equal(text.bytes, rows[i].text);
    }
}

TEST(test_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "1",
        "1.2.3",
        "1.2.3.",
        "1.2.3.4.",
        "1.2.3.4.5",
        ".1.2.3",
        "1..2.3",
        "256.1.1.1",
        "01.2.3.4",
        "1.2.3.04",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.-4",
        "0x1.2.3.4",
        "1.2.3.1000",
        ":",
        ":::",
        "1:::2",
        "1::2::3",
        ":1",
        "1:",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "1:2:3:4::5:6:7:8",
        "12345::",
        "g::",
        "fe80::1%eth0",
        "::1.2.3",
        "::1.2.3.4.5",
        "1.2.3.4::",
        "::1.2.3.4:5",
        "1:2:3:4:5:6:7:1.2.3.4",
        "[::1]",
        "localhost",
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(texts); i++) {
        struct pccl_address address = pccl_address_v4(1, 1, 1, 1, 1), before = address;
        if (parse(texts[i], &address))
            fail_msg("accepted \"%s\"", texts[i]);
        assert_true(pccl_address_equal(&address, &before));
    }
}

TEST(test_kinds)
{
    struct pccl_address a;
    assert_true(parse("127.9.9.9", &a) && pccl_address_is_loopback(&a) && pccl_address_is_v4(&a));
    assert_true(parse("::1", &a) && pccl_address_is_loopback(&a) && !pccl_address_is_v4(&a));
    assert_true(parse("128.0.0.1", &a) && !pccl_address_is_loopback(&a) && !pccl_address_is_unspecified(&a));
    assert_true(parse("0.0.0.0", &a) && pccl_address_is_unspecified(&a) && pccl_address_is_v4(&a));
    assert_true(parse("::", &a) && pccl_address_is_unspecified(&a) && !pccl_address_is_v4(&a));
    assert_true(parse("::127.0.0.1", &a) && !pccl_address_is_loopback(&a));
    struct pccl_address b = a;
    b.port++;
    assert_false(pccl_address_equal(&a, &b));
    assert_true(pccl_address_equal(&a, &a));
}

TEST(test_private)
{
    static const char *const private[] = {
        "10.0.0.1",    "127.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
        "169.254.1.1", "::1",       "fc00::1",    "fdff::1",        "fe80::1",     "febf::1"};
    static const char *const others[] = {
        "9.255.255.255", "11.0.0.1",    "172.15.255.255", "172.32.0.1", "192.167.1.1", "192.169.1.1", "100.63.255.255",
        "100.128.0.1",   "169.253.1.1", "2001:db8::1",    "fbff::1",    "fe00::1",     "fec0::1",     "203.0.113.7"};
    struct pccl_address a;
    for (size_t i = 0; i < PCCL_COUNT_OF(private); i++)
        assert_true(parse(private[i], &a) && pccl_address_is_private(&a));
    for (size_t i = 0; i < PCCL_COUNT_OF(others); i++)
        assert_true(parse(others[i], &a) && !pccl_address_is_private(&a));
}

/* Texts that are almost addresses: we and the system's parser agree. */
TEST(test_agrees_with_the_system)
{
    static const char alphabet[] = "0123456789abcdefF::::....";
    struct pccl_prng prng = unit_prng(5);
    uint32_t accepted = 0;
    for (int round = 0; round < 300000; round++) {
        static const char *const seeds[] = {"10.20.30.40", "1:2:3:4:5:6:7:8", "fe80::12:3", "::ffff:1.2.3.4"};
        char text[40];
        snprintf(text, sizeof text, "%s", seeds[pccl_prng_below(&prng, PCCL_COUNT_OF(seeds))]);
        for (uint64_t edits = pccl_prng_below(&prng, 4); edits > 0; edits--)
            text[pccl_prng_below(&prng, strlen(text))] = alphabet[pccl_prng_below(&prng, sizeof alphabet - 1)];
        text[1 + pccl_prng_below(&prng, strlen(text))] = '\0';
        struct pccl_address address;
        uint8_t v4[4], v6[16];
        bool system_v4 = inet_pton(AF_INET, text, v4) == 1, system_v6 = inet_pton(AF_INET6, text, v6) == 1;
        bool ours = parse(text, &address);
        if (ours != (system_v4 || system_v6))
            fail_msg("\"%s\": we say %d", text, ours);
        if (ours)
            assert_memory_equal(system_v4 ? address.ip + 12 : address.ip, system_v4 ? v4 : v6, system_v4 ? 4 : 16);
        accepted += ours;
    }
    assert_in_range(accepted, 30000, 270000);
}

static bool is_same_site(const char *a, const char *b)
{
    struct pccl_address first, second;
    assert_true(pccl_address_parse_ip(a, strlen(a), &first) && pccl_address_parse_ip(b, strlen(b), &second));
    first.port = 1;
    bool same = pccl_address_same_site(&first, &second);
    assert_int_equal(same, pccl_address_same_site(&second, &first));
    struct pccl_hash_key key;
    pccl_hash_key_init(&key, 7);
    assert_int_equal(same, pccl_address_site(&key, &first) == pccl_address_site(&key, &second));
    return same;
}

TEST(test_sites)
{
    assert_true(is_same_site("10.0.0.1", "10.0.0.1"));
    assert_false(is_same_site("10.0.0.1", "10.0.0.2"));
    assert_true(is_same_site("2001:db8::1", "2001:db8::ffff:1"));
    assert_false(is_same_site("2001:db8::1", "2001:db8:0:1::1"));
    assert_false(is_same_site("::1", "10.0.0.1"));
}
