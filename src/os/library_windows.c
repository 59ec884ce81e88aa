#include "os/library.h"

#ifdef __aarch64__
const char pccl_library_ssl[] = "libssl-3-arm64.dll", pccl_library_crypto[] = "libcrypto-3-arm64.dll";
#else
const char pccl_library_ssl[] = "libssl-3-x64.dll", pccl_library_crypto[] = "libcrypto-3-x64.dll";
#endif
const char pccl_library_cuda[] = "nvcuda.dll";
