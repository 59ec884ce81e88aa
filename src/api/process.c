/* Public functions that need neither a communicator nor a master: version, logs, parameters and options. */
#include "device/device.h"
#include "api/api.h"
#include "log/logger.h"
#include "config/options.h"

static enum pccl_status initialize(void)
{
    pccl_api_initialize();
    return pccl_api_initialized() ? PCCL_OK : PCCL_INTERNAL;
}

pcclResult_t pcclInit(void) { PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, initialize()); }

static enum pccl_status get_build_info(struct pccl_api_call *call, pcclBuildInfo_t *info)
{
    if (!info)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetBuildInfo: info is NULL");
    struct pccl_device *device;
    struct pccl_text why_not;
    info->has_cuda_support = pccl_device_cuda(&device, &why_not) == PCCL_OK;
    return PCCL_OK;
}

pcclResult_t pcclGetBuildInfo(pcclBuildInfo_t *info)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, get_build_info(call, info));
}

uint32_t pcclGetVersion(void) { return PCCL_VERSION_MAJOR * 10000 + PCCL_VERSION_MINOR * 100 + PCCL_VERSION_PATCH; }

const char *pcclGetErrorString(pcclResult_t result) { return pccl_errors_text(result); }

const char *pcclGetLastError(const pcclComm_t *comm) { return pccl_errors_last(comm ? comm->key : 0); }

static enum pccl_status get_last_failure(struct pccl_api_call *call, const pcclComm_t *comm, pcclFailure_t *failure_out)
{
    if (!failure_out)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetLastFailure: failure_out is NULL");
    /* Callers of a later version pass a larger struct. */
    if (failure_out->size < sizeof *failure_out || failure_out->size > PCCL_API_STRUCT_MAX)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                         "pcclGetLastFailure: failure_out->size is not set: initialize it with PCCL_FAILURE_INIT");
    pccl_errors_describe(comm ? comm->key : 0, failure_out);
    return PCCL_OK;
}

pcclResult_t pcclGetLastFailure(const pcclComm_t *comm, pcclFailure_t *failure_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, get_last_failure(call, comm, failure_out));
}

static enum pccl_status set_operation_label(struct pccl_api_call *call, const char *text)
{
    struct pccl_label label;
    if (!pccl_label_of(text ? text : "", &label))
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                         "pcclSetOperationLabel: invalid label: expected at most 32 bytes of printable UTF-8");
    pccl_api_set_label(&label);
    return PCCL_OK;
}

pcclResult_t pcclSetOperationLabel(const char *text)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, set_operation_label(call, text));
}

/* ---- logs ---- */

static enum pccl_status set_log_callback(pcclLogCallback_t callback, void *user)
{
    pccl_logger_set_callback(callback, user);
    return PCCL_OK;
}

pcclResult_t pcclSetLogCallback(pcclLogCallback_t callback, void *user)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, set_log_callback(callback, user));
}

static enum pccl_status set_log_level(struct pccl_api_call *call, pcclLogLevel_t level)
{
    if ((unsigned)level > pcclLogNone)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclSetLogLevel: unknown log level");
    pccl_logger_set_level((enum pccl_log_level)level);
    return PCCL_OK;
}

pcclResult_t pcclSetLogLevel(pcclLogLevel_t level)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, set_log_level(call, level));
}

/* ---- parameters and options ---- */

size_t pcclGetParameterCount(void) { return PCCL_PARAM_COUNT; }

static enum pccl_status get_parameter_info(struct pccl_api_call *call, size_t index, pcclParameterInfo_t *info)
{
    if (!info)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetParameterInfo: info is NULL");
    if (index >= PCCL_PARAM_COUNT)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetParameterInfo: index out of range");
    if (pccl_params_describe(index, info) != PCCL_OK)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                         "pcclGetParameterInfo: info->size is not set: initialize it with PCCL_PARAMETER_INFO_INIT");
    return PCCL_OK;
}

pcclResult_t pcclGetParameterInfo(size_t index, pcclParameterInfo_t *info)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, get_parameter_info(call, index, info));
}

static enum pccl_status create_options(struct pccl_api_call *call, pcclOptions_t **options_out)
{
    if (!options_out)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclCreateOptions: options_out is NULL");
    call->extended = true;
    pcclOptions_t *options = pccl_options_create();
    if (!options)
        return pccl_fail(&call->why.reason, PCCL_MEMORY, "pcclCreateOptions: out of memory");
    *options_out = options;
    return PCCL_OK;
}

pcclResult_t pcclCreateOptions(pcclOptions_t **options_out)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, create_options(call, options_out));
}

static enum pccl_status set_option(struct pccl_api_call *call, pcclOptions_t *options, const char *name,
                                   const char *value)
{
    if (!options || !name)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclSetOption: options or name is NULL");
    call->extended = true;
    return pccl_options_set(options, name, value, &call->why.reason);
}

pcclResult_t pcclSetOption(pcclOptions_t *options, const char *name, const char *value)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, set_option(call, options, name, value));
}

static enum pccl_status get_option(struct pccl_api_call *call, const pcclOptions_t *options, const char *name,
                                   char *buffer, size_t size)
{
    if (!name || !buffer)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetOption: name or buffer is NULL");
    return pccl_options_get(options, name, buffer, size, &call->why.reason);
}

pcclResult_t pcclGetOption(const pcclOptions_t *options, const char *name, char *buffer, size_t size)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, get_option(call, options, name, buffer, size));
}

static enum pccl_status destroy_options(struct pccl_api_call *call, pcclOptions_t *options)
{
    if (!options)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclDestroyOptions: options is NULL");
    pccl_options_destroy(options);
    return PCCL_OK;
}

pcclResult_t pcclDestroyOptions(pcclOptions_t *options)
{
    PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, destroy_options(call, options));
}
