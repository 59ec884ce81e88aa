/* The system's own form of an address. For files of os alone, as its type comes from the system's headers. */
#ifndef PCCL_OS_NATIVE_H
#define PCCL_OS_NATIVE_H

#include "core/address.h"

struct sockaddr;
/* Returns false unless it is an address of IPv4 or IPv6. */
bool pccl_native_address(const struct sockaddr *native, struct pccl_address *address);

#endif
