/* Loads the CUDA driver's library, finds its functions, and converts its results to statuses. */
#include "device/cuda_driver.h"

#include "os/library.h"

#include <string.h>

static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {
#define PCCL_CUDA_PLACE(name, symbol, parameters) {symbol, offsetof(struct pccl_cuda_driver, name)},
    PCCL_CUDA_FUNCTIONS(PCCL_CUDA_PLACE)
#undef PCCL_CUDA_PLACE
};

const char *pccl_cuda_symbol(enum pccl_cuda_function function) { return functions[function].symbol; }

static bool find_all(uv_lib_t *library, struct pccl_cuda_driver *driver)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(functions); i++) {
        void *found = NULL;
        if (uv_dlsym(library, functions[i].symbol, &found) != 0)
            return false;
        /* C cannot convert an object pointer to a function pointer, so the bits are copied, as usual with dlsym. */
        memcpy((char *)driver + functions[i].offset, &found, sizeof found);
    }
    return true;
}

enum pccl_status pccl_cuda_load(uv_lib_t *library, struct pccl_cuda_driver *driver, struct pccl_text *reason)
{
    if (uv_dlopen(pccl_library_cuda, library) != 0) {
        pccl_text_format(reason, "cannot load the CUDA driver: %s", uv_dlerror(library));
    } else if (!find_all(library, driver)) {
        pccl_text_format(reason, "the CUDA driver is too old: %s", uv_dlerror(library));
    } else {
        return PCCL_OK;
    }
    uv_dlclose(library); /* also frees the error message */
    return PCCL_UNSUPPORTED;
}

enum pccl_status pccl_cuda_outcome(const struct pccl_cuda_driver *driver, enum pccl_cuda_function function, int result,
                                   struct pccl_text *reason)
{
    const char *name = NULL, *text = NULL;
    if (result == PCCL_CUDA_SUCCESS)
        return PCCL_OK;
    /* The driver has no name for some of the errors that it returns. */
    if (driver->get_error_name(result, &name) != PCCL_CUDA_SUCCESS)
        name = NULL;
    if (driver->get_error_string(result, &text) != PCCL_CUDA_SUCCESS)
        text = NULL;
    pccl_text_format(reason, "%s failed: ", pccl_cuda_symbol(function));
    if (name != NULL)
        pccl_text_add(reason, name);
    else
        pccl_text_append(reason, "CUDA error %u", result);
    if (text != NULL)
        pccl_text_append(reason, " (%s)", text);
    return result == PCCL_CUDA_OUT_OF_MEMORY ? PCCL_MEMORY : PCCL_SYSTEM;
}
