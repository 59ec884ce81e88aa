#include "config/options.h"

#include <stdlib.h>
#include <string.h>

pcclOptions_t *pccl_options_create(void) { return calloc(1, sizeof(pcclOptions_t)); }

void pccl_options_destroy(pcclOptions_t *options)
{
    if (options == NULL) {
        return;
    }
    for (int i = 0; i < PCCL_PARAM_COUNT; i++) {
        free(options->values[i]);
    }
    free(options);
}

static enum pccl_status find(const char *name, enum pccl_param *param, struct pccl_text *reason)
{
    *param = pccl_params_find(name);
    if (*param == PCCL_PARAM_COUNT) {
        pccl_text_clear(reason);
        pccl_text_add(reason, "unknown parameter '");
        pccl_text_add_bytes(reason, name, strnlen(name, 64));
        pccl_text_add(reason, "'");
        return PCCL_ARGUMENT;
    }
    return PCCL_OK;
}

enum pccl_status pccl_options_set(pcclOptions_t *options, const char *name, const char *value, struct pccl_text *reason)
{
    enum pccl_param param;
    enum pccl_status status = find(name, &param, reason);
    if (status != PCCL_OK) {
        return status;
    }
    if (pccl_params_scope(param) == pcclParameterProcess)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "%s applies to the whole process: set it in the environment, not as an option", name);
    char *copy = NULL;
    if (value != NULL) {
        status = pccl_params_check(param, value, reason);
        if (status != PCCL_OK) {
            return status;
        }
        copy = strdup(value);
        if (copy == NULL)
            return pccl_fail(reason, PCCL_MEMORY, "out of memory for the option %s", name);
    }
    free(options->values[param]);
    options->values[param] = copy;
    return PCCL_OK;
}

enum pccl_status pccl_options_get(const pcclOptions_t *options, const char *name, char *buffer, size_t size,
                                  struct pccl_text *reason)
{
    enum pccl_param param;
    enum pccl_status status = find(name, &param, reason);
    if (status != PCCL_OK) {
        return status;
    }
    const char *value = pccl_params_text(options, param);
    size_t needed = strlen(value) + 1;
    if (needed > size)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "the buffer is too small for the value of %s: %zu bytes needed, size is %zu", name, needed,
                         size);
    memcpy(buffer, value, needed);
    return PCCL_OK;
}
