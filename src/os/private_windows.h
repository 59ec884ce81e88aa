/* Access to files and directories for this user only. */
#ifndef PCCL_OS_PRIVATE_WINDOWS_H
#define PCCL_OS_PRIVATE_WINDOWS_H

#include "core/base.h"

#include <uv.h>

/*
 * Describes a new file or directory that only this user can access. Files created in the directory have the same
 * access. The caller passes attributes->lpSecurityDescriptor to LocalFree. Returns false with the system's last error
 * on failure.
 */
PCCL_MUST_CHECK bool pccl_private_describe(SECURITY_ATTRIBUTES *attributes);
/*
 * Returns NULL if only this user, the system and its administrators can access the open file or directory. Otherwise
 * returns the reason.
 */
const char *pccl_private_fault(HANDLE file);

#endif
