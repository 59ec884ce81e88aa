/* Which process of this machine listens on a port: for the words of an error. */
#ifndef PCCL_TOOLS_SYSTEM_HOLDER_H
#define PCCL_TOOLS_SYSTEM_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "pccl-master (process 123)". false: nobody is found, or it may not be looked at. */
bool holder_of_port(uint16_t port, char *out, size_t size);

#endif
