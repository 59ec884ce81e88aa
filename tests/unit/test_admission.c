/* A master with tokens in this process, attacked by a peer with a modified library over the connection of its token. */
#include "unit.h"

#include "drive/master_server.h"
#include "net/build.h"
#include "net/dialer.h"

#include "loopback.h"

#include <stdio.h>

static struct pccl_connection *reached;
static bool dialed, ended;

static void on_ended(struct pccl_connection *connection, enum pccl_connection_end how, const struct pccl_text *reason)
{
    pccl_connection_close(connection, 0);
    ended = true;
}

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    static const struct pccl_connection_events events = {.received = loopback_ignore, .ended = on_ended};
    assert_non_null(connection);
    connection->events = &events;
    reached = connection;
    dialed = true;
}

static void say_hello(uint8_t number)
{
    struct pccl_msg msg = {.type = PCCL_MSG_hello,
                           .as.hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                        .build = *pccl_build_own(),
                                        .peer = {{number}},
                                        .token = {{number}},
                                        .link_key = {{number}},
                                        .port = 1}};
    pccl_connection_send_message(reached, &msg);
}

/* The token of this connection was judged already, and the connection is of the peer of the first hello. */
TEST(test_second_hello_is_no_use)
{
    char folder[] = "/tmp/pccl-admission-XXXXXX", path[100];
    struct pccl_host host = {.name = "127.0.0.1"};
    struct pccl_params params;
    struct pccl_credentials credentials;
    struct pccl_token token;
    struct pccl_text reason;
    struct pccl_print answer;
    uint32_t revoked;
    uv_loop_t loop;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(pccl_params_load(NULL, pcclParameterMaster, &params, &reason), PCCL_OK);
    (void)snprintf(params.master_state, sizeof params.master_state, "%s", folder);
    assert_int_equal(pccl_credentials_of_master(&params, &credentials, &reason), PCCL_OK);
    assert_int_equal(pccl_tokens_begin(credentials.tokens, &reason), PCCL_OK);
    pccl_print_init(&answer, pccl_heap(), PCCL_TOKENS_ANSWER_MAX);
    pccl_tokens_command(credentials.tokens, "create join 0 2 twice", &answer, &revoked);
    pccl_print_add_bytes(&answer, "", 1);
    assert_null(pccl_token_read(answer.bytes + 3, &token));
    pccl_print_fini(&answer);

    struct pccl_master_config config = pccl_master_server_config(&params);
    struct pccl_master_server *server = pccl_master_server_create(&config, &host, 1);
    pccl_master_server_secure(server, &credentials, false);
    assert_int_equal(pccl_master_server_run(server, &reason), PCCL_OK);
    struct pccl_keys *keys = pccl_keys_of_peer(pccl_heap(), &token, &reason);
    struct pccl_address address = {.ip = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1},
                                   .port = pccl_master_server_port(server, 0)};
    assert_int_equal(uv_loop_init(&loop), 0);
    struct pccl_dial dial = {.addresses = &address,
                             .count = 1,
                             .stagger_ms = LOOPBACK_HANG_MS,
                             .timeout_ms = LOOPBACK_HANG_MS,
                             .keys = keys,
                             .done = on_dialed};
    assert_non_null(pccl_dialer_start(&loop, pccl_heap(), &dial));
    loopback_until(&loop, &dialed);
    say_hello(1);
    say_hello(2);
    if (!pccl_connection_flush(reached))
        pccl_connection_arm(reached);
    loopback_until(&loop, &ended);
    loopback_end(&loop);
    pccl_keys_destroy(keys);
    pccl_master_server_interrupt(server);
    assert_int_equal(pccl_master_server_join(server), PCCL_OK);
    pccl_master_server_destroy(server);

    assert_int_equal(pccl_credentials_of_master(&params, &credentials, &reason), PCCL_OK);
    assert_int_equal(pccl_tokens_begin(credentials.tokens, &reason), PCCL_OK);
    pccl_print_init(&answer, pccl_heap(), PCCL_TOKENS_ANSWER_MAX);
    pccl_tokens_command(credentials.tokens, "list", &answer, &revoked);
    pccl_print_add_bytes(&answer, "", 1);
    assert_non_null(strstr(answer.bytes, "1 of 2 uses  twice"));
    pccl_print_fini(&answer);
    pccl_credentials_end(&credentials);
    static const char *const names[] = {"events.jsonl", "lock", "master.key", "run.token", "tokens", "tokens.reserve"};
    for (size_t i = 0; i < PCCL_COUNT_OF(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}
