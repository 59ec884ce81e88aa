/* config/params: the table, the order of values, bad values and their reasons, address lists, unknown variables. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/logger.h"
#include "config/options.h"
#include "config/params.h"

extern char **environ;

static int forget_environment(void **state)
{
    for (int i = 0; i < PCCL_PARAM_COUNT; i++) {
        pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
        assert_int_equal(pccl_params_describe((size_t)i, &info), PCCL_OK);
        unsetenv(info.env);
    }
    return 0;
}

static void assert_words(const struct pccl_text *reason, const char *part)
{
    if (strstr(reason->bytes, part) == NULL)
        fail_msg("'%s' does not contain '%s'", reason->bytes, part);
}

/* ---- the table ---- */

TEST_IN(every_parameter_is_described, forget_environment, NULL)
{
    for (size_t i = 0; i < PCCL_PARAM_COUNT; i++) {
        pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
        assert_int_equal(pccl_params_describe(i, &info), PCCL_OK);
        assert_int_equal(pccl_params_find(info.name), i);
        assert_int_equal(pccl_params_scope((enum pccl_param)i), info.scope);
        assert_true(strlen(info.help) > 10);
        /* The variable is the name in capitals. */
        char env[128] = "PCCL_";
        for (size_t k = 0; info.name[k] != '\0'; k++) {
            char letter = info.name[k];
            env[5 + k] = letter >= 'a' && letter <= 'z' ? (char)(letter - 32) : letter;
        }
        assert_string_equal(info.env, env);
        struct pccl_text reason;
        assert_int_equal(pccl_params_check((enum pccl_param)i, info.default_value, &reason), PCCL_OK);
        if (info.min_value[0] != '\0') {
            assert_int_equal(pccl_params_check((enum pccl_param)i, info.min_value, &reason), PCCL_OK);
            assert_int_equal(pccl_params_check((enum pccl_param)i, info.max_value, &reason), PCCL_OK);
        }
    }
    assert_int_equal(pccl_params_find("no_such_parameter"), PCCL_PARAM_COUNT);
}

TEST_IN(describing_respects_the_callers_struct, forget_environment, NULL)
{
    struct {
        pcclParameterInfo_t info;
        uint64_t later, beyond;
    } larger = {PCCL_PARAMETER_INFO_INIT, 7, 7};
    larger.info.size = sizeof larger.info + sizeof larger.later;
    assert_int_equal(pccl_params_describe(0, &larger.info), PCCL_OK);
    assert_int_equal(larger.info.size, sizeof larger.info + sizeof larger.later);
    assert_int_equal(larger.later, 0);
    assert_int_equal(larger.beyond, 7);
    const size_t bad_sizes[] = {0, sizeof(pcclParameterInfo_t) - 1, SIZE_MAX};
    for (size_t i = 0; i < PCCL_COUNT_OF(bad_sizes); i++) {
        larger.info.size = bad_sizes[i];
        assert_int_equal(pccl_params_describe(0, &larger.info), PCCL_ARGUMENT);
    }
    larger.info.size = sizeof larger.info;
    assert_int_equal(pccl_params_describe(PCCL_PARAM_COUNT, &larger.info), PCCL_ARGUMENT);
}

TEST_IN(defaults_load, forget_environment, NULL)
{
    static struct pccl_params params;
    struct pccl_text reason;
    const pcclParameterScope_t scopes[] = {pcclParameterCommunicator, pcclParameterMaster, pcclParameterProcess};
    for (size_t i = 0; i < PCCL_COUNT_OF(scopes); i++) {
        memset(&params, 0xa5, sizeof params);
        assert_int_equal(pccl_params_load(NULL, scopes[i], &params, &reason), PCCL_OK);
        assert_int_equal(params.silence_ms, 10000);
        assert_int_equal(params.heartbeat_ms, 2500);
        assert_int_equal(params.tiny_bytes_max, 8192);
        assert_int_equal(params.master_lost_ms, 120000);
        assert_int_equal(params.port, 48149);
        assert_false(params.extended_results);
        assert_string_equal(params.bind_address, "");
        assert_string_equal(params.advertise_addresses, "");
        assert_string_equal(params.name, "");
        assert_int_equal(params.log_level, PCCL_LOG_WARN);
        assert_int_equal(params.max_concurrent_collective_ops, 16);
        assert_int_equal(params.multiplex_chunk_size, 64 << 20);
        assert_int_equal(params.num_benchmark_connections, 16);
    }
}

/* ---- sources of values ---- */

TEST_IN(option_beats_environment_beats_default, forget_environment, NULL)
{
    static struct pccl_params params;
    struct pccl_text reason;
    pcclOptions_t *options = pccl_options_create();
    assert_non_null(options);
    assert_string_equal(pccl_params_text(options, PCCL_PARAM_dial_ms), "10");
    setenv("PCCL_DIAL_MS", "20", 1);
    assert_string_equal(pccl_params_text(options, PCCL_PARAM_dial_ms), "20");
    assert_int_equal(pccl_options_set(options, "dial_ms", "30", &reason), PCCL_OK);
    assert_string_equal(pccl_params_text(options, PCCL_PARAM_dial_ms), "30");
    assert_int_equal(pccl_params_load(options, pcclParameterCommunicator, &params, &reason), PCCL_OK);
    assert_int_equal(params.dial_ms, 30);
    assert_int_equal(pccl_params_load(NULL, pcclParameterCommunicator, &params, &reason), PCCL_OK);
    assert_int_equal(params.dial_ms, 20);
    setenv("PCCL_DIAL_MS", "", 1); /* the same as unset */
    assert_int_equal(pccl_params_load(NULL, pcclParameterCommunicator, &params, &reason), PCCL_OK);
    assert_int_equal(params.dial_ms, 10);
    pccl_options_destroy(options);
}

TEST_IN(each_kind_is_loaded, forget_environment, NULL)
{
    static struct pccl_params params;
    struct pccl_text reason;
    pcclOptions_t *options = pccl_options_create();
    assert_int_equal(pccl_options_set(options, "extended_results", "yes", &reason), PCCL_OK);
    assert_int_equal(pccl_options_set(options, "peer_group", "4294967295", &reason), PCCL_OK);
    assert_int_equal(pccl_options_set(options, "name", "node 7", &reason), PCCL_OK);
    assert_int_equal(pccl_options_set(options, "bind_address", "10.0.0.7", &reason), PCCL_OK);
    assert_int_equal(pccl_options_set(options, "advertise_addresses", "a.example:1, [fe80::1]", &reason), PCCL_OK);
    assert_int_equal(pccl_params_load(options, pcclParameterCommunicator, &params, &reason), PCCL_OK);
    assert_true(params.extended_results);
    assert_int_equal(params.peer_group, UINT32_MAX);
    assert_string_equal(params.name, "node 7");
    assert_string_equal(params.bind_address, "10.0.0.7");
    assert_string_equal(params.advertise_addresses, "a.example:1, [fe80::1]");
    assert_int_equal(params.window_bytes, 8 << 20);
    assert_int_equal(pccl_options_set(options, "window_bytes", "64K", &reason), PCCL_OK);
    assert_int_equal(pccl_options_set(options, "scratch_bytes", "3g", &reason), PCCL_OK);
    assert_int_equal(pccl_params_load(options, pcclParameterCommunicator, &params, &reason), PCCL_OK);
    assert_int_equal(params.window_bytes, 64 << 10);
    assert_int_equal(params.scratch_bytes, UINT32_C(3) << 30);
    assert_int_equal(pccl_options_set(options, "tiny_bytes_max", "4K", &reason), PCCL_OK);
    assert_int_equal(pccl_params_load(options, pcclParameterMaster, &params, &reason), PCCL_OK);
    assert_int_equal(params.tiny_bytes_max, 4096);
    pccl_options_destroy(options);
    setenv("PCCL_LOG_LEVEL", "DEBUG", 1);
    assert_int_equal(pccl_params_load(NULL, pcclParameterProcess, &params, &reason), PCCL_OK);
    assert_int_equal(params.log_level, PCCL_LOG_DEBUG);
}

TEST_IN(log_levels_of_the_reference, forget_environment, NULL)
{
    static struct pccl_params params;
    struct pccl_text reason;
    const struct {
        const char *name;
        enum pccl_log_level level;
    } known[] = {{"TRACE", PCCL_LOG_TRACE}, {"DEBUG", PCCL_LOG_DEBUG}, {"INFO", PCCL_LOG_INFO},
                 {"WARN", PCCL_LOG_WARN},   {"ERR", PCCL_LOG_ERROR},   {"FATAL", PCCL_LOG_NONE},
                 {"NONE", PCCL_LOG_NONE},   {"error", PCCL_LOG_ERROR}, {"info", PCCL_LOG_INFO}};
    for (size_t i = 0; i < PCCL_COUNT_OF(known); i++) {
        setenv("PCCL_LOG_LEVEL", known[i].name, 1);
        assert_int_equal(pccl_params_load(NULL, pcclParameterProcess, &params, &reason), PCCL_OK);
        assert_int_equal(params.log_level, known[i].level);
    }
    setenv("PCCL_LOG_LEVEL", "LOUD", 1);
    assert_int_equal(pccl_params_load(NULL, pcclParameterProcess, &params, &reason), PCCL_ARGUMENT);
    assert_words(&reason, "log_level");
    assert_words(&reason, "LOUD");
}

/* ---- bad values ---- */

TEST_IN(bad_values_are_named, forget_environment, NULL)
{
    struct pccl_text beyond, range;
    pccl_text_format(&beyond, "%u", PCCL_POOL_MAX + 1);
    pccl_text_format(&range, "from 0 to %u", PCCL_POOL_MAX);
    const struct {
        enum pccl_param param;
        const char *value, *reason;
    } bad[] = {
        {PCCL_PARAM_silence_ms, "99", "from 100 to 3600000"},
        {PCCL_PARAM_silence_ms, "3600001", "from 100 to 3600000"},
        {PCCL_PARAM_silence_ms, "", "from 100 to 3600000"},
        {PCCL_PARAM_silence_ms, "-1", "from 100"},
        {PCCL_PARAM_silence_ms, "+200", "from 100"},
        {PCCL_PARAM_silence_ms, "200 ", "from 100"},
        {PCCL_PARAM_silence_ms, "1e3", "from 100"},
        {PCCL_PARAM_silence_ms, "0x100", "from 100"},
        {PCCL_PARAM_peer_group, "4294967296", "from 0 to 4294967295"},
        {PCCL_PARAM_peer_group, "18446744073709551616", "from 0 to 4294967295"},
        {PCCL_PARAM_tiny_bytes_max, "8193", "from 0 to 8192"},
        {PCCL_PARAM_connection_pool_size, beyond.bytes, range.bytes},
        {PCCL_PARAM_window_bytes, "65535", "from 65536 to 1073741824"},
        {PCCL_PARAM_scratch_bytes, "0", "from 1048576 to 4294967295, or in units of K, M or G, such as 64K"},
        {PCCL_PARAM_scratch_bytes, "4G", "from 1048576"},
        {PCCL_PARAM_scratch_bytes, "18446744073709551616M", "from 1048576"},
        {PCCL_PARAM_scratch_bytes, "M", "from 1048576"},
        {PCCL_PARAM_scratch_bytes, "8 M", "from 1048576"},
        {PCCL_PARAM_scratch_bytes, "8MM", "from 1048576"},
        {PCCL_PARAM_silence_ms, "1K", "from 100 to 3600000"},
        {PCCL_PARAM_extended_results, "2", "expected 0 or 1"},
        {PCCL_PARAM_name, "12345678901234567890123456789012345678901234567890123456789012345", "at most 64"},
        {PCCL_PARAM_name, "two\nlines", "printable"},
        {PCCL_PARAM_encryption, "sometimes", "at most 7"},
        {PCCL_PARAM_bind_address, "10.0.0.1:80", "has a port"},
        {PCCL_PARAM_bind_address, "10.0.0.1,10.0.0.2", "expected at most 1"},
        {PCCL_PARAM_bind_address, "300.1.1.1", "is not an address"},
        {PCCL_PARAM_advertise_addresses, "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "expected at most 16"},
        {PCCL_PARAM_advertise_addresses, "a,", "must be followed by an address"},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(bad); i++) {
        struct pccl_text reason;
        pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
        assert_int_equal(pccl_params_describe(bad[i].param, &info), PCCL_OK);
        assert_int_equal(pccl_params_check(bad[i].param, bad[i].value, &reason), PCCL_ARGUMENT);
        assert_words(&reason, info.name);
        assert_words(&reason, bad[i].reason);
    }
}

TEST_IN(a_token_is_not_shown, forget_environment, NULL)
{
    static const char good[] = "pccl1.AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    struct pccl_text reason;
    assert_int_equal(pccl_params_check(PCCL_PARAM_token, good, &reason), PCCL_OK);
    assert_int_equal(pccl_params_check(PCCL_PARAM_token, "", &reason), PCCL_OK);
    assert_int_equal(pccl_params_check(PCCL_PARAM_token, "pccl1.hidden", &reason), PCCL_ARGUMENT);
    assert_words(&reason, "token");
    assert_null(strstr(reason.bytes, "hidden"));
}

TEST_IN(a_shared_secret_must_be_one, forget_environment, NULL)
{
    static const char *const bad[] = {"short",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                      "twenty-two letters, but words",
                                      "0123456789abcdef0123\t9abcdef",
                                      "summer2026summer2026-run",
                                      "Summer2026Summer2026-run",
                                      "0123456789abcdef0123456789abcdef"};
    struct pccl_text reason;
    assert_true(pccl_params_is_secret(PCCL_PARAM_secret) && !pccl_params_is_secret(PCCL_PARAM_secret_file));
    assert_int_equal(pccl_params_check(PCCL_PARAM_secret, "00f1e2d3c4b5a69788796a5b4c3d2e1f", &reason), PCCL_OK);
    assert_int_equal(pccl_params_check(PCCL_PARAM_secret, "kC3+0aVJmZ1yq/P8hHnF4Q==\n", &reason), PCCL_OK);
    for (size_t i = 0; i < PCCL_COUNT_OF(bad); i++) {
        assert_int_equal(pccl_params_check(PCCL_PARAM_secret, bad[i], &reason), PCCL_ARGUMENT);
        assert_null(strstr(reason.bytes, bad[i]));
    }
}

TEST_IN(overlong_values_are_refused, forget_environment, NULL)
{
    static char value[PCCL_PARAM_BYTES_MAX + 2];
    struct pccl_text reason;
    memset(value, 'a', sizeof value - 1);
    for (int i = 0; i < PCCL_PARAM_COUNT; i++)
        assert_int_equal(pccl_params_check((enum pccl_param)i, value, &reason), PCCL_ARGUMENT);
}

TEST_IN(bad_variables_name_the_variable, forget_environment, NULL)
{
    static struct pccl_params params;
    struct pccl_text reason;
    setenv("PCCL_PORT", "many", 1);
    assert_int_equal(pccl_params_load(NULL, pcclParameterCommunicator, &params, &reason), PCCL_ARGUMENT);
    assert_words(&reason, "PCCL_PORT");
    assert_words(&reason, "'many'");
    assert_words(&reason, "from 0 to 65535");
    /* A master does not read this setting, and a communicator that has its own value does not read the environment. */
    assert_int_equal(pccl_params_load(NULL, pcclParameterMaster, &params, &reason), PCCL_OK);
    pcclOptions_t *options = pccl_options_create();
    assert_int_equal(pccl_options_set(options, "port", "1", &reason), PCCL_OK);
    assert_int_equal(pccl_params_load(options, pcclParameterCommunicator, &params, &reason), PCCL_OK);
    pccl_options_destroy(options);
}

TEST_IN(misfits, forget_environment, NULL)
{
    const struct {
        pcclParameterScope_t scope;
        const char *name, *value, *other_name, *other_value;
        bool fits;
    } cases[] = {
        {pcclParameterMaster, "heartbeat_ms", "5000", "silence_ms", "10000", false},
        {pcclParameterMaster, "heartbeat_ms", "4999", "silence_ms", "10000", true},
        {pcclParameterMaster, "heartbeat_ms", "100", "silence_ms", "201", true},
        {pcclParameterMaster, "recover_ms", "60001", "alone_ms", "60000", false},
        {pcclParameterMaster, "recover_ms", "60000", "alone_ms", "60000", true},
        {pcclParameterCommunicator, "dial_ms", "1001", "dial_max_ms", "1000", false},
        {pcclParameterCommunicator, "dial_ms", "1000", "dial_max_ms", "1000", true},
        {pcclParameterCommunicator, "master_lost_ms", "500", "alone_ms", "500", false},
        {pcclParameterCommunicator, "master_lost_ms", "501", "alone_ms", "500", true},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++) {
        static struct pccl_params params;
        struct pccl_text reason;
        pcclOptions_t *options = pccl_options_create();
        assert_int_equal(pccl_options_set(options, cases[i].name, cases[i].value, &reason), PCCL_OK);
        assert_int_equal(pccl_options_set(options, cases[i].other_name, cases[i].other_value, &reason), PCCL_OK);
        enum pccl_status status = pccl_params_load(options, cases[i].scope, &params, &reason);
        assert_int_equal(status, cases[i].fits ? PCCL_OK : PCCL_ARGUMENT);
        if (!cases[i].fits) {
            assert_words(&reason, cases[i].name);
            assert_words(&reason, cases[i].other_name);
            assert_words(&reason, cases[i].value);
            assert_words(&reason, cases[i].other_value);
        }
        pccl_options_destroy(options);
    }
}

/* ---- address lists ---- */

TEST_IN(addresses_are_split, forget_environment, NULL)
{
    const char *cursor = "host-1.example:80 ,10.0.0.1,\t[::1]:0,fe80::1%eth0, [2001:db8::2]";
    const struct pccl_endpoint expected[] = {
        {"host-1.example", 80, true},   {"10.0.0.1", 48148, false},    {"::1", 0, true},
        {"fe80::1%eth0", 48148, false}, {"2001:db8::2", 48148, false},
    };
    struct pccl_endpoint endpoint;
    struct pccl_text reason;
    bool more = false;
    for (size_t i = 0; i < PCCL_COUNT_OF(expected); i++) {
        assert_int_equal(pccl_endpoint_next(&cursor, 48148, &endpoint, &more, &reason), PCCL_OK);
        assert_true(more);
        assert_string_equal(endpoint.host, expected[i].host);
        assert_int_equal(endpoint.port, expected[i].port);
        assert_int_equal(endpoint.has_port, expected[i].has_port);
    }
    assert_int_equal(pccl_endpoint_next(&cursor, 48148, &endpoint, &more, &reason), PCCL_OK);
    assert_false(more);
    cursor = "  ";
    assert_int_equal(pccl_endpoint_next(&cursor, 48148, &endpoint, &more, &reason), PCCL_OK);
    assert_false(more);
}

TEST_IN(bad_addresses_are_refused, forget_environment, NULL)
{
    static char long_name[400];
    memset(long_name, 'a', sizeof long_name - 1);
    const char *const bad[] = {
        ",",       ",a",     "a,,b",  "a, ",          "a:",    "a:65536",   "a:1:",      "a:x",    ":80",      "[::1",
        "[::1]80", "[::1]:", "[]:80", "[1.2.3.4]:80", "1.2.3", "1.2.3.4.5", "256.0.0.1", "::1::2", "fe80::1%", "a b",
        "a/b",     "-a",     "[a]",   "a:-1",         "a\n",   "1::g",      "%",         long_name};
    for (size_t i = 0; i < PCCL_COUNT_OF(bad); i++) {
        const char *cursor = bad[i];
        struct pccl_endpoint endpoint;
        struct pccl_text reason;
        bool more = true;
        enum pccl_status status = PCCL_OK;
        for (int items = 0; status == PCCL_OK && more && items < 4; items++)
            status = pccl_endpoint_next(&cursor, 1, &endpoint, &more, &reason);
        if (status != PCCL_ARGUMENT)
            fail_msg("'%s' was accepted", bad[i]);
        assert_true(reason.length > 10);
    }
}

/* ---- the process ---- */

struct reported {
    char names[512];
};

static void note(void *context, const char *name)
{
    struct reported *reported = context;
    size_t length = strlen(reported->names);
    snprintf(reported->names + length, sizeof reported->names - length, "%s ", name);
}

TEST_IN(unknown_variables_are_reported, forget_environment, NULL)
{
    char known[] = "PCCL_DIAL_MS=5", typo[] = "PCCL_DAIL_MS=5", other[] = "PATH=/bin",
         build[] = "PCCL_SANITIZE_TESTS=1";
    char prefix[] = "PCCL_DIAL=", no_value[] = "PCCL_", longer[] = "PCCL_DIAL_MS_=1";
    char *environment[] = {known, typo, other, build, prefix, no_value, longer, NULL};
    struct reported reported = {""};
    pccl_params_unknown(environment, note, &reported);
    assert_string_equal(reported.names, "PCCL_DAIL_MS PCCL_DIAL PCCL_ PCCL_DIAL_MS_ ");
    pccl_params_unknown(NULL, note, &reported);
}

static void log_to(pcclLogLevel_t level, const char *subsystem, const char *message, void *user)
{
    note(user, message);
}

TEST_IN(the_process_is_initialized_once_with_warnings, forget_environment, NULL)
{
    static struct reported reported;
    setenv("PCCL_NUM_BENCHMARK_CONNECTIONS", "none", 1);
    setenv("PCCL_UNHEARD_OF", "1", 1);
    setenv("PCCL_LOG_LEVEL", "INFO", 1);
    pccl_logger_set_callback(log_to, &reported);
    pccl_params_init_process();
    pccl_logger_wait(20000);
    assert_non_null(strstr(reported.names, "PCCL_NUM_BENCHMARK_CONNECTIONS"));
    assert_non_null(strstr(reported.names, "using 16"));
    assert_non_null(strstr(reported.names, "PCCL_UNHEARD_OF"));
    assert_true(pccl_logger_wants(PCCL_LOG_INFO) && !pccl_logger_wants(PCCL_LOG_DEBUG));
    reported.names[0] = '\0';
    pccl_params_init_process();
    pccl_logger_wait(20000);
    assert_string_equal(reported.names, "");
    pccl_logger_set_callback(NULL, NULL);
    unsetenv("PCCL_UNHEARD_OF");
}
