#include "os/library.h"

#ifdef __APPLE__
const char pccl_library_ssl[] = "libssl.3.dylib", pccl_library_crypto[] = "libcrypto.3.dylib";
#else
const char pccl_library_ssl[] = "libssl.so.3", pccl_library_crypto[] = "libcrypto.so.3";
#endif
const char pccl_library_cuda[] = "libcuda.so.1";
