/*
 * Closes descriptors that another process has passed and that nothing here wants. The last close() of a descriptor may
 * wait: for the data of a TCP socket with SO_LINGER, for the server of a file. So a thread does it that serves nothing
 * else; it exists only while there are such descriptors.
 */
#ifndef PCCL_NET_UNWANTED_H
#define PCCL_NET_UNWANTED_H

#include "core/base.h"

/* Any thread. Owns the descriptors. When memory or threads are short they stay open until the next call. */
void pccl_unwanted_close(const int *descriptors, size_t count);

#endif
