/*
 * Argument checks shared by all public calls: versioned structs, texts, addresses, and the info struct of operations.
 */
#include "api/api.h"

#include <string.h>

enum pccl_status pccl_api_struct_check(const void *given, size_t size, const char *init, struct pccl_text *reason)
{
    size_t given_size;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < size || given_size > PCCL_API_STRUCT_MAX)
        return pccl_fail(reason, PCCL_ARGUMENT, "the size of the struct is not set: initialize it with %s", init);
    for (size_t i = size; i < given_size; i++) {
        if (((const unsigned char *)given)[i] != 0)
            return pccl_fail(reason, PCCL_ARGUMENT,
                             "the struct has members that this version of the library does not know: the caller was "
                             "built for a later version");
    }
    return PCCL_OK;
}

enum pccl_status pccl_api_struct_read(const void *given, void *known, size_t size, const char *init,
                                      struct pccl_text *reason)
{
    enum pccl_status status = pccl_api_struct_check(given, size, init, reason);
    if (status == PCCL_OK)
        memcpy(known, given, size);
    return status;
}

enum pccl_status pccl_api_hand_out(const char *made, size_t length, char *text, size_t size, size_t *needed,
                                   struct pccl_text *reason)
{
    if (needed)
        *needed = length + 1;
    if (!text)
        return PCCL_OK;
    if (size <= length)
        return pccl_fail(reason, PCCL_ARGUMENT, "the buffer is too small: %zu bytes needed, size is %zu", length + 1,
                         size);
    memcpy(text, made, length);
    text[length] = '\0';
    return PCCL_OK;
}

/* ---- operation info ---- */

enum pccl_status pccl_api_info_begin(const pcclOperationInfo_t *given, pcclOperationInfo_t *info,
                                     struct pccl_text *reason)
{
    *info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    if (!given)
        return PCCL_OK;
    if (given->size < sizeof *info || given->size > PCCL_API_STRUCT_MAX)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         "the size of the info is not set: initialize it with PCCL_OPERATION_INFO_INIT");
    info->participants = given->participants;
    info->participants_max = given->participants_max;
    return PCCL_OK;
}

void pccl_api_info_end(const pcclOperationInfo_t *info, pcclOperationInfo_t *given)
{
    if (!given)
        return;
    size_t size = given->size;
    memset(given, 0, size); /* includes the fields of later versions */
    *given = *info;
    given->size = size;
}

/* ---- addresses ---- */

enum pccl_status pccl_api_hosts(const char *list, uint16_t default_port, struct pccl_host *hosts, uint32_t max,
                                uint32_t *count, struct pccl_text *reason)
{
    *count = 0;
    for (;;) {
        struct pccl_endpoint endpoint;
        bool more;
        enum pccl_status status = pccl_endpoint_next(&list, default_port, &endpoint, &more, reason);
        if (status != PCCL_OK)
            return status;
        if (!more)
            break;
        if (*count == max)
            return pccl_fail(reason, PCCL_ARGUMENT, "too many addresses: expected at most %u", max);
        memcpy(hosts[*count].name, endpoint.host, sizeof hosts[*count].name);
        hosts[(*count)++].port = endpoint.port;
    }
    if (*count > 0)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_ARGUMENT, "the address list is empty");
}

enum pccl_status pccl_api_host(const ccoip_socket_address_t *address, struct pccl_host *host, struct pccl_text *reason)
{
    bool v6 = address->inet.protocol == inetIPv6;
    if (!v6 && address->inet.protocol != inetIPv4)
        return pccl_fail(reason, PCCL_ARGUMENT, "the address is neither IPv4 nor IPv6");
    if (address->port == 0)
        return pccl_fail(reason, PCCL_ARGUMENT, "the port is 0");
    const void *octets = v6 ? (const void *)address->inet.ipv6.data : (const void *)address->inet.ipv4.data;
    (void)uv_inet_ntop(v6 ? AF_INET6 : AF_INET, octets, host->name, sizeof host->name); /* 256 bytes suffice */
    host->port = address->port;
    return PCCL_OK;
}
