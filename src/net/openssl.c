#include "net/openssl.h"

#include "os/library.h"

#include <string.h>
#include <uv.h>

enum { SECURE_HEAP_BYTES = 1 << 20, SECURE_BLOCK_BYTES = 64 };

static struct pccl_openssl functions;
static struct pccl_text failure;
static bool loaded;
static uv_once_t once = UV_ONCE_INIT;

#ifdef PCCL_OPENSSL_LINKED /* statically linked programs cannot load libraries */
#define DECLARE(result, name, parameters) result name parameters;
PCCL_OPENSSL_SSL(DECLARE)
PCCL_OPENSSL_CRYPTO(DECLARE)
#undef DECLARE

static bool find_functions(void)
{
#define FIND(result, name, parameters) functions.name = name;
    PCCL_OPENSSL_SSL(FIND)
    PCCL_OPENSSL_CRYPTO(FIND)
#undef FIND
    return true;
}
#else
struct place {
    const char *symbol;
    size_t offset;
};

#define PLACE(result, name, parameters) {#name, offsetof(struct pccl_openssl, name)},
static const struct place of_ssl[] = {PCCL_OPENSSL_SSL(PLACE)};
static const struct place of_crypto[] = {PCCL_OPENSSL_CRYPTO(PLACE)};
#undef PLACE

/*
 * Finds all functions of a library. The library stays loaded even on failure, because other code of the process may use
 * it.
 */
static bool find_all(const char *name, const struct place *places, size_t count)
{
    static uv_lib_t libraries[2];
    uv_lib_t *library = &libraries[places == of_ssl];
    if (uv_dlopen(name, library) != 0) {
        pccl_text_format(&failure, "cannot load OpenSSL 3, which encryption requires: %s", uv_dlerror(library));
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *found = NULL;
        if (uv_dlsym(library, places[i].symbol, &found) != 0) {
            pccl_text_format(&failure, "OpenSSL on this host lacks %s, which encryption requires", places[i].symbol);
            return false;
        }
        /* The bits are copied, because C cannot convert an object pointer to a function pointer. */
        memcpy((char *)&functions + places[i].offset, &found, sizeof found);
    }
    return true;
}

static bool find_functions(void)
{
    return find_all(pccl_library_crypto, of_crypto, PCCL_COUNT_OF(of_crypto)) &&
           find_all(pccl_library_ssl, of_ssl, PCCL_COUNT_OF(of_ssl));
}
#endif

static void load(void)
{
    loaded = find_functions();
    if (loaded && (!functions.OPENSSL_init_crypto(PCCL_OPENSSL_INIT_NO_ATEXIT, NULL) ||
                   !functions.OPENSSL_init_ssl(PCCL_OPENSSL_INIT_NO_ATEXIT, NULL))) {
        loaded = false;
        pccl_text_format(&failure, "cannot use OpenSSL on this host: invalid configuration");
    }
    /*
     * Core dumps omit OpenSSL's secure heap, which contains all private keys of the process. It must suffice for all
     * concurrent handshakes, at 64 bytes per key. Without a secure heap, keys are in the ordinary heap. Not used with
     * ASan, which would not find pointers there and would report leaks.
     */
#ifndef __SANITIZE_ADDRESS__
    if (loaded && !functions.CRYPTO_secure_malloc_initialized())
        (void)functions.CRYPTO_secure_malloc_init(SECURE_HEAP_BYTES, SECURE_BLOCK_BYTES);
#endif
}

const struct pccl_openssl *pccl_openssl(struct pccl_text *reason)
{
    uv_once(&once, load);
    if (loaded)
        return &functions;
    *reason = failure;
    return NULL;
}

const char *pccl_openssl_error(const struct pccl_openssl *openssl)
{
    const char *words = openssl->ERR_reason_error_string(openssl->ERR_peek_error());
    return words ? words : "unknown OpenSSL error";
}
