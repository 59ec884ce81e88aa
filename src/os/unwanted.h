/*
 * Closes unwanted descriptors that another process has passed. The last close() of a descriptor may block, for data on
 * a TCP socket with SO_LINGER or for a file server. Such descriptors are therefore closed on a separate thread, which
 * exists only while there are any. The memory of a pipe is closed directly, because that never blocks.
 */
#ifndef PCCL_OS_UNWANTED_H
#define PCCL_OS_UNWANTED_H

#include "core/base.h"

/*
 * Closes the descriptors, which the caller no longer owns. Any thread. If no thread can be started, they stay open
 * until the next call; if out of memory, until the process ends.
 */
void pccl_unwanted_close(const int *descriptors, size_t count);

#endif
