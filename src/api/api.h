/* What the public functions share. */
#ifndef PCCL_API_API_H
#define PCCL_API_API_H

#include "drive/communicator.h"
#include "config/errors.h"
#include "pccl.h"

bool pccl_api_initialized(void);
/*
 * A call begins: may this communicator be used here? pcclSuccess, and it stays until pccl_api_end, which hands the
 * call's result through; or the failure, with words.
 */
pcclResult_t pccl_api_begin(pcclComm_t *comm, enum pccl_family family);
pcclResult_t pccl_api_end(pcclComm_t *comm, pcclResult_t result);
/* The words and the code of a failed call on a communicator. */
pcclResult_t pccl_api_fail(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                           const struct pccl_text *words);
pcclResult_t pccl_api_fail_why(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                               const struct pccl_why *why);
pcclResult_t pccl_api_fail_in_words(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                                    const char *words);

/* A list of addresses as hosts. ARGUMENT with words: none, too many, or one that cannot be read. */
PCCL_MUST_CHECK enum pccl_status pccl_api_hosts(const char *list, uint16_t default_port, struct pccl_host *hosts,
                                                uint32_t max, uint32_t *count, struct pccl_text *words);
/* An address as PCCL 1.0 passes it. ARGUMENT with words: unknown protocol, or port 0. */
PCCL_MUST_CHECK enum pccl_status pccl_api_host(const ccoip_socket_address_t *address, struct pccl_host *host,
                                               struct pccl_text *words);
/* Connected, and nothing un-awaited? Else USAGE or PENDING_OPS with words. world: the snapshot of the run's size. */
PCCL_MUST_CHECK enum pccl_status pccl_api_check_quiet(pcclComm_t *comm, uint32_t *world, struct pccl_text *words);

/*
 * Takes the lock itself. Carries out the list, repeating what a lost peer broke (PROTOCOL 8); returns when nothing of
 * it runs any more. info is filled on success and TOO_FEW_PEERS, `why`, which was zeroed, on failure.
 */
PCCL_MUST_CHECK enum pccl_status pccl_api_reduce_list(pcclComm_t *comm, const pcclReduceOpDescriptor_t *descriptors,
                                                      size_t count, uint32_t max_in_flight, pcclReduceInfo_t *info,
                                                      struct pccl_why *why);

#endif
