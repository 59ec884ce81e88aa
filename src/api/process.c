/* Public functions that need neither a communicator nor a master: process, logs, parameters, options. */
#include "device/device.h"
#include "api/api.h"
#include "log/logger.h"
#include "config/options.h"

static pcclResult_t fail(enum pccl_status status, const char *reason)
{
    return pccl_errors_fail(0, PCCL_FAMILY_GENERAL, true, status, "%s", reason);
}

pcclResult_t pcclInit(void)
{
    pccl_api_initialize();
    return pccl_api_initialized() ? pcclSuccess : fail(PCCL_INTERNAL, pccl_status_text(PCCL_INTERNAL));
}

static pcclResult_t get_build_info(pcclBuildInfo_t *info)
{
    if (!info)
        return fail(PCCL_ARGUMENT, "pcclGetBuildInfo: info is NULL");
    struct pccl_device *device;
    struct pccl_text why_not;
    info->has_cuda_support = pccl_device_cuda(&device, &why_not) == PCCL_OK;
    return pcclSuccess;
}

pcclResult_t pcclGetBuildInfo(pcclBuildInfo_t *info) { PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, get_build_info(info)); }

uint32_t pcclGetVersion(void) { return PCCL_VERSION_MAJOR * 10000 + PCCL_VERSION_MINOR * 100 + PCCL_VERSION_PATCH; }

const char *pcclGetErrorString(pcclResult_t result) { return pccl_errors_text(result); }

const char *pcclGetLastError(const pcclComm_t *comm) { return pccl_errors_last(comm ? comm->key : 0); }

static pcclResult_t get_last_failure(const pcclComm_t *comm, pcclFailure_t *failure_out)
{
    if (!failure_out)
        return fail(PCCL_ARGUMENT, "pcclGetLastFailure: failure_out is NULL");
    /* A caller of a later version has members that we do not know. */
    if (failure_out->size < sizeof *failure_out || failure_out->size > PCCL_API_STRUCT_MAX)
        return fail(PCCL_ARGUMENT, "pcclGetLastFailure: failure_out->size is not set; use PCCL_FAILURE_INIT");
    pccl_errors_describe(comm ? comm->key : 0, failure_out);
    return pcclSuccess;
}

pcclResult_t pcclGetLastFailure(const pcclComm_t *comm, pcclFailure_t *failure_out)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, get_last_failure(comm, failure_out));
}

static pcclResult_t set_operation_label(const char *text)
{
    struct pccl_label label;
    if (!pccl_label_of(text ? text : "", &label))
        return fail(PCCL_ARGUMENT, "pcclSetOperationLabel: a label has at most 32 bytes of printable UTF-8");
    pccl_api_set_label(&label);
    return pcclSuccess;
}

pcclResult_t pcclSetOperationLabel(const char *text)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, set_operation_label(text));
}

/* ---- logs ---- */

static pcclResult_t set_log_callback(pcclLogCallback_t callback, void *user)
{
    pccl_logger_set_callback(callback, user);
    return pcclSuccess;
}

pcclResult_t pcclSetLogCallback(pcclLogCallback_t callback, void *user)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, set_log_callback(callback, user));
}

static pcclResult_t set_log_level(pcclLogLevel_t level)
{
    if ((unsigned)level > pcclLogNone)
        return fail(PCCL_ARGUMENT, "pcclSetLogLevel: not a log level");
    pccl_logger_set_level((enum pccl_log_level)level);
    return pcclSuccess;
}

pcclResult_t pcclSetLogLevel(pcclLogLevel_t level) { PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, set_log_level(level)); }

/* ---- parameters and options ---- */

size_t pcclGetParameterCount(void) { return PCCL_PARAM_COUNT; }

static pcclResult_t get_parameter_info(size_t index, pcclParameterInfo_t *info)
{
    if (!info)
        return fail(PCCL_ARGUMENT, "pcclGetParameterInfo: info is NULL");
    if (index >= PCCL_PARAM_COUNT)
        return fail(PCCL_ARGUMENT, "pcclGetParameterInfo: there is no parameter of this index");
    if (pccl_params_describe(index, info) != PCCL_OK)
        return fail(PCCL_ARGUMENT, "pcclGetParameterInfo: info->size is not set; use PCCL_PARAMETER_INFO_INIT");
    return pcclSuccess;
}

pcclResult_t pcclGetParameterInfo(size_t index, pcclParameterInfo_t *info)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, get_parameter_info(index, info));
}

static pcclResult_t create_options(pcclOptions_t **options_out)
{
    if (!options_out)
        return fail(PCCL_ARGUMENT, "pcclCreateOptions: options_out is NULL");
    pcclOptions_t *options = pccl_options_create();
    if (!options)
        return fail(PCCL_MEMORY, "pcclCreateOptions: out of memory");
    *options_out = options;
    return pcclSuccess;
}

pcclResult_t pcclCreateOptions(pcclOptions_t **options_out)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, create_options(options_out));
}

static pcclResult_t set_option(pcclOptions_t *options, const char *name, const char *value)
{
    struct pccl_text reason;
    if (!options || !name)
        return fail(PCCL_ARGUMENT, "pcclSetOption: options or name is NULL");
    pccl_text_clear(&reason);
    enum pccl_status status = pccl_options_set(options, name, value, &reason);
    return status == PCCL_OK ? pcclSuccess : fail(status, reason.bytes);
}

pcclResult_t pcclSetOption(pcclOptions_t *options, const char *name, const char *value)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, set_option(options, name, value));
}

static pcclResult_t get_option(const pcclOptions_t *options, const char *name, char *buffer, size_t size)
{
    struct pccl_text reason;
    if (!name || !buffer)
        return fail(PCCL_ARGUMENT, "pcclGetOption: name or buffer is NULL");
    pccl_text_clear(&reason);
    enum pccl_status status = pccl_options_get(options, name, buffer, size, &reason);
    return status == PCCL_OK ? pcclSuccess : fail(status, reason.bytes);
}

pcclResult_t pcclGetOption(const pcclOptions_t *options, const char *name, char *buffer, size_t size)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, get_option(options, name, buffer, size));
}

static pcclResult_t destroy_options(pcclOptions_t *options)
{
    if (!options)
        return fail(PCCL_ARGUMENT, "pcclDestroyOptions: options is NULL");
    pccl_options_destroy(options);
    return pcclSuccess;
}

pcclResult_t pcclDestroyOptions(pcclOptions_t *options)
{
    PCCL_API_GUARDED(PCCL_FAMILY_GENERAL, destroy_options(options));
}
