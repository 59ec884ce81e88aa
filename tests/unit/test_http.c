/* ops/http: which heads are requests, and the answers to the others. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "ops/http.h"

struct expected {
    const char *bytes;
    enum pccl_http_reading reading;
    uint16_t code;
    const char *path; /* NULL: not a request */
    bool head;
};

#define A10 "aaaaaaaaaa"
#define A50 A10 A10 A10 A10 A10
#define A250 A50 A50 A50 A50 A50

static const struct expected table[] = {
    {"GET / HTTP/1.0\r\n\r\n", PCCL_HTTP_REQUEST, 200, "/", false},
    {"GET /metrics HTTP/1.1\r\nHost: a:1\r\nX: \r\n\r\nrest", PCCL_HTTP_REQUEST, 200, "/metrics", false},
    {"HEAD /status.json?a=b HTTP/1.1\nHost:a\n\n", PCCL_HTTP_REQUEST, 200, "/status.json", true},
    {"GET http://a.b:8/c?d HTTP/1.1\r\n\r\n", PCCL_HTTP_REQUEST, 200, "/c", false},
    {"GET /%2e%2e/ HTTP/1.1\r\n\r\n", PCCL_HTTP_REQUEST, 200, "/%2e%2e/", false},
    {"GET /12345" A250 " HTTP/1.1\r\n\r\n", PCCL_HTTP_BAD, 414, NULL, false},
    {"", PCCL_HTTP_MORE, 0, NULL, false},
    {"GET / HTTP/1.1", PCCL_HTTP_MORE, 0, NULL, false},
    {"GET / HTTP/1.1\r\nHost: a\r\n", PCCL_HTTP_MORE, 0, NULL, false},
    {"GET / HTTP/1.1\r\nHost: a\r\n\r", PCCL_HTTP_MORE, 0, NULL, false},
    {"PUT / HTTP/1.1\r\n", PCCL_HTTP_MORE, 0, NULL, false},
    {"PUT / HTTP/1.1\r\n\r\n", PCCL_HTTP_BAD, 405, NULL, false},
    {"POST /x HTTP/1.1\r\n\r\n", PCCL_HTTP_REQUEST, 200, "/x", false},
    {"get / HTTP/1.1\r\n\r\n", PCCL_HTTP_BAD, 405, NULL, false},
    {"POST nowhere HTTP/1.1\r\n\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET / HTTP/2.0\r\n\r\n", PCCL_HTTP_BAD, 505, NULL, false},
    {"GET /\r\n\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET /a b HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {" / HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"G(T / HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET  / HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET * HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET http://a HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET /\x7f HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET /\xc3\xa4 HTTP/1.1\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET / HTTP/1.1\r\nno colon\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET / HTTP/1.1\r\n: empty\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET / HTTP/1.1\r\nA: b\x01\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"GET / HTTP/1.1\r\nA: b\r\n folded\r\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"garbage\n", PCCL_HTTP_BAD, 400, NULL, false},
    {"\n", PCCL_HTTP_BAD, 400, NULL, false},
};

TEST(heads)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(table); i++) {
        struct pccl_http_request request;
        uint16_t code = 0;
        const struct expected *row = &table[i];
        enum pccl_http_reading reading = pccl_http_read(row->bytes, strlen(row->bytes), &request, &code);
        if (reading != row->reading || (reading != PCCL_HTTP_MORE && code != row->code))
            fail_msg("%s: %d %u", row->bytes, (int)reading, code);
        if (row->path != NULL) {
            assert_string_equal(request.path, row->path);
            assert_int_equal(request.head, row->head);
        }
    }
}

TEST(parameters)
{
    static const struct {
        const char *query, *value; /* of "since"; NULL: none */
    } cases[] = {{"", NULL},          {"?", NULL},           {"?since", NULL},         {"?since=", ""},
                 {"?since=1", "1"},   {"?a=b&since=2", "2"}, {"?since=3&c", "3"},      {"?nosince=4", NULL},
                 {"?sinces=5", NULL}, {"?&&since=6&", "6"},  {"?since=7&since=8", "7"}};
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        struct pccl_http_request request;
        struct pccl_http_value value = {0};
        char head[100];
        uint16_t code;
        (void)snprintf(head, sizeof head, "GET /x%s HTTP/1.1\r\n\r\n", cases[i].query);
        assert_int_equal(pccl_http_read(head, strlen(head), &request, &code), PCCL_HTTP_REQUEST);
        assert_int_equal(pccl_http_parameter(&request, "since", &value), cases[i].value != NULL);
        if (cases[i].value != NULL) {
            assert_int_equal(value.length, strlen(cases[i].value));
            assert_memory_equal(value.bytes, cases[i].value, value.length);
        }
    }
}

TEST(the_longest_path_and_head)
{
    struct pccl_http_request request;
    uint16_t code;
    static const char path[] = "GET /1234" A250 " HTTP/1.1\r\n\r\n";
    assert_int_equal(pccl_http_read(path, sizeof path - 1, &request, &code), PCCL_HTTP_REQUEST);
    assert_int_equal(strlen(request.path), PCCL_HTTP_PATH_MAX);
    char head[PCCL_HTTP_HEAD_MAX + 1];
    memset(head, 'a', sizeof head);
    memcpy(head, "GET / HTTP/1.1\r\nA: ", 19);
    assert_int_equal(pccl_http_read(head, PCCL_HTTP_HEAD_MAX - 1, &request, &code), PCCL_HTTP_MORE);
    assert_int_equal(pccl_http_read(head, PCCL_HTTP_HEAD_MAX, &request, &code), PCCL_HTTP_BAD);
    assert_int_equal(code, 431);
    memcpy(head + PCCL_HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(pccl_http_read(head, PCCL_HTTP_HEAD_MAX, &request, &code), PCCL_HTTP_REQUEST);
    assert_int_equal(pccl_http_read(head, PCCL_HTTP_HEAD_MAX + 1, &request, &code), PCCL_HTTP_BAD);
    assert_int_equal(code, 431);
}

TEST(answers)
{
    char head[PCCL_HTTP_ANSWER_MAX + 1];
    head[pccl_http_write_head(405, "text/plain", 7, head)] = '\0';
    assert_string_equal(head, "HTTP/1.1 405 Method Not Allowed\r\nServer: pccl-master\r\nContent-Type: text/plain\r\n"
                              "Content-Length: 7\r\nAllow: GET, HEAD, POST\r\nCache-Control: no-store\r\n"
                              "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: close\r\n\r\n");
    static const uint16_t codes[] = {200, 400, 401, 403, 404, 405, 408, 409, 414, 431, 503, 505};
    for (size_t i = 0; i < PCCL_COUNT_OF(codes); i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(pccl_http_words(codes[i]), pccl_http_words(codes[k]));
}

/* ---- commands ---- */

static struct pccl_http_request request_of(const char *head)
{
    struct pccl_http_request request;
    uint16_t code;
    assert_int_equal(pccl_http_read(head, strlen(head), &request, &code), PCCL_HTTP_REQUEST);
    return request;
}

TEST(who_commands)
{
    static const char *const names[] = {"master.example"};
    static const struct {
        const char *headers;
        bool ours;
    } cases[] = {
        {"Host: 127.0.0.1:48180\r\n", true},
        {"hOST:localhost\r\n", true},
        {"Host: LocalHost.:48180\r\n", true},
        {"Host: Master.Example.\r\n", true},
        {"Host: master.example..\r\n", false},
        {"Host: master.exampl\r\n", false},
        {"Host: .\r\n", false},
        {"Host: [::1]:48180\r\nOrigin: http://[::1]:48180\r\n", true},
        {"Host: master.example:1\r\nOrigin: http://master.example:1\r\n", true},
        {"", false},
        {"Host:\r\n", false},
        {"Host: evil.example:48180\r\n", false}, /* this address is the master's */
        {"Host: evil.example:48180\r\nOrigin: http://evil.example:48180\r\n", false},
        {"Host: 127.0.0.1:48180\r\nOrigin: http://evil.example\r\n", false},
        {"Host: 127.0.0.1:48180\r\nOrigin: https://127.0.0.1:48180\r\n", false},
        {"Host: 127.0.0.1:48180\r\nOrigin: http://127.0.0.1:48181\r\n", false},
        {"Host: 127.0.0.1:48180\r\nOrigin: null\r\n", false},
        {"Host: 127.0.0.1:48180\r\nOrigin:\r\n", false},
        {"Host: 127.0.0.1.evil.example\r\n", false},
        {"Host: [::1\r\n", true},
        {"Host: any.example:1\r\nOrigin: https://any.example:1\r\n", true},
        {"Host: any.example:1\r\nOrigin: http://any.example:1\r\n", false},
        {"Host: any.example:1\r\nOrigin: https://evil.example\r\n", false},
        {"Host: any.example:1\r\n", true},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        char head[256];
        (void)snprintf(head, sizeof head, "POST /optimize HTTP/1.1\r\n%s\r\n", cases[i].headers);
        struct pccl_http_request request = request_of(head);
        assert_true(request.post && !request.head);
        bool is_https = strstr(cases[i].headers, "any.example") != NULL;
        if (pccl_http_is_ours(&request, is_https, names, 1) != cases[i].ours)
            fail_msg("%s is %s", cases[i].headers, cases[i].ours ? "refused" : "taken");
    }
    static const struct {
        const char *headers;
        bool for_us, for_us_beyond; /* at a loopback address, and at one that other machines reach */
    } pages[] = {
        {"", true, true},
        {"Host: master.example:1\r\n", true, true},
        {"Host: 10.0.0.1:1\r\n", true, true},
        {"Host: evil.example\r\n", false, false},
        {"Host: local.evil.example\r\n", false, false},
        {"Host: evillocal.example:1\r\n", false, false},
        {"Host: evil.notlocal\r\n", false, false},
        {"Host:\r\n", false, false},
        {"Host: .\r\n", false, false},
        {"Host: .local\r\n", false, false},
        {"Host: a..\r\n", false, false},
        {"Host: trainer-1:9100\r\n", false, true},
        {"Host: trainer-1.\r\n", false, true},
        {"Host: pccl.default.svc.cluster.LOCAL:1\r\n", false, true},
        {"Host: a.zone.internal.:1\r\n", false, true},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(pages); i++) {
        char head[256];
        (void)snprintf(head, sizeof head, "GET / HTTP/1.1\r\n%s\r\n", pages[i].headers);
        struct pccl_http_request page = request_of(head);
        if (pccl_http_is_for_us(&page, names, 1, false) != pages[i].for_us ||
            pccl_http_is_for_us(&page, names, 1, true) != pages[i].for_us_beyond)
            fail_msg("%s is judged wrongly", pages[i].headers);
    }
    struct pccl_http_request request;
    uint16_t code;
    const char *twice = "POST / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n";
    assert_int_equal(pccl_http_read(twice, strlen(twice), &request, &code), PCCL_HTTP_BAD);
    assert_int_equal(code, 400);
}

TEST(who_has_the_token)
{
    static const char token[] = "0123456789abcdef";
    static const struct {
        const char *header;
        bool has;
    } cases[] = {
        {"Authorization: Bearer 0123456789abcdef\r\n", true},
        {"authorization:Bearer 0123456789abcdef \r\n", true},
        {"", false},
        {"Authorization:\r\n", false},
        {"Authorization: Bearer \r\n", false},
        {"Authorization: Bearer 0123456789abcde\r\n", false},
        {"Authorization: Bearer 0123456789abcdeg\r\n", false},
        {"Authorization: Bearer 0123456789abcdef0\r\n", false},
        {"Authorization: Basic 0123456789abcdef\r\n", false},
        {"X-Authorization: Bearer 0123456789abcdef\r\n", false},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        char head[256];
        (void)snprintf(head, sizeof head, "POST /optimize HTTP/1.1\r\n%s\r\n", cases[i].header);
        struct pccl_http_request request = request_of(head);
        if (pccl_http_has_token(&request, token) != cases[i].has)
            fail_msg("'%s' is judged wrongly", cases[i].header);
    }
}
