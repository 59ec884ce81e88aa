/* Names of shared libraries that are loaded at run time. */
#ifndef PCCL_OS_LIBRARY_H
#define PCCL_OS_LIBRARY_H

extern const char pccl_library_ssl[], pccl_library_crypto[], pccl_library_cuda[];

#endif
