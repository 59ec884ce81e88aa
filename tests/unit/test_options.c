/* config/options: the handle behind pcclOptions_t. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "config/options.h"

static int setup(void **state)
{
    unsetenv("PCCL_SILENCE_MS");
    *state = pccl_options_create();
    return *state == NULL;
}

static int teardown(void **state)
{
    pccl_options_destroy(*state);
    return 0;
}

TEST_IN(what_was_set_is_found, setup, teardown)
{
    struct pccl_text reason;
    char buffer[16];
    assert_null(pccl_params_option(*unit_state, PCCL_PARAM_silence_ms));
    assert_int_equal(pccl_options_set(*unit_state, "silence_ms", "5000", &reason), PCCL_OK);
    assert_string_equal(pccl_params_option(*unit_state, PCCL_PARAM_silence_ms), "5000");
    assert_int_equal(pccl_options_get(*unit_state, "silence_ms", buffer, sizeof buffer, &reason), PCCL_OK);
    assert_string_equal(buffer, "5000");
    assert_int_equal(pccl_options_set(*unit_state, "silence_ms", "6000", &reason), PCCL_OK);
    assert_string_equal(pccl_params_option(*unit_state, PCCL_PARAM_silence_ms), "6000");
    assert_int_equal(pccl_options_set(*unit_state, "silence_ms", NULL, &reason), PCCL_OK);
    assert_null(pccl_params_option(*unit_state, PCCL_PARAM_silence_ms));
    assert_int_equal(pccl_options_get(*unit_state, "silence_ms", buffer, sizeof buffer, &reason), PCCL_OK);
    assert_string_equal(buffer, "10000");
}

TEST_IN(the_text_is_copied, setup, teardown)
{
    struct pccl_text reason;
    char value[] = "5000";
    assert_int_equal(pccl_options_set(*unit_state, "silence_ms", value, &reason), PCCL_OK);
    value[0] = '9';
    assert_string_equal(pccl_params_option(*unit_state, PCCL_PARAM_silence_ms), "5000");
}

TEST_IN(bad_values_change_nothing, setup, teardown)
{
    struct pccl_text reason;
    assert_int_equal(pccl_options_set(*unit_state, "silence_ms", "5000", &reason), PCCL_OK);
    assert_int_equal(pccl_options_set(*unit_state, "silence_ms", "soon", &reason), PCCL_ARGUMENT);
    assert_non_null(strstr(reason.bytes, "silence_ms"));
    assert_non_null(strstr(reason.bytes, "soon"));
    assert_string_equal(pccl_params_option(*unit_state, PCCL_PARAM_silence_ms), "5000");
}

TEST_IN(unknown_names_are_refused, setup, teardown)
{
    struct pccl_text reason;
    char buffer[16] = "kept";
    assert_int_equal(pccl_options_set(*unit_state, "silense_ms", "5000", &reason), PCCL_ARGUMENT);
    assert_non_null(strstr(reason.bytes, "'silense_ms'"));
    assert_int_equal(pccl_options_get(*unit_state, "PCCL_SILENCE_MS", buffer, sizeof buffer, &reason), PCCL_ARGUMENT);
    assert_non_null(strstr(reason.bytes, "'PCCL_SILENCE_MS'"));
    assert_string_equal(buffer, "kept");
}

TEST_IN(parameters_of_the_process_are_no_options, setup, teardown)
{
    struct pccl_text reason;
    char buffer[16];
    unsetenv("PCCL_LOG_LEVEL");
    assert_int_equal(pccl_options_set(*unit_state, "log_level", "INFO", &reason), PCCL_ARGUMENT);
    assert_non_null(strstr(reason.bytes, "log_level"));
    assert_int_equal(pccl_options_get(*unit_state, "log_level", buffer, sizeof buffer, &reason), PCCL_OK);
    assert_string_equal(buffer, "WARN");
}

TEST_IN(buffers_are_not_overrun, setup, teardown)
{
    struct pccl_text reason;
    char buffer[6] = "#####";
    assert_int_equal(pccl_options_get(*unit_state, "silence_ms", buffer, 5, &reason), PCCL_ARGUMENT);
    assert_non_null(strstr(reason.bytes, "6 bytes needed"));
    assert_string_equal(buffer, "#####");
    assert_int_equal(pccl_options_get(*unit_state, "silence_ms", buffer, 6, &reason), PCCL_OK);
    assert_string_equal(buffer, "10000");
    assert_int_equal(pccl_options_get(*unit_state, "name", buffer, 0, &reason), PCCL_ARGUMENT);
    assert_int_equal(pccl_options_get(*unit_state, "name", buffer, 1, &reason), PCCL_OK);
    assert_string_equal(buffer, "");
}

TEST_IN(no_handle_means_environment_and_defaults, setup, teardown)
{
    struct pccl_text reason;
    char buffer[16];
    setenv("PCCL_SILENCE_MS", "7000", 1);
    assert_null(pccl_params_option(NULL, PCCL_PARAM_silence_ms));
    assert_int_equal(pccl_options_get(NULL, "silence_ms", buffer, sizeof buffer, &reason), PCCL_OK);
    assert_string_equal(buffer, "7000");
    pccl_options_destroy(NULL);
}
