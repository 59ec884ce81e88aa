#include "sync/copiers.h"

#include "net/heap.h"

enum pccl_status pccl_sync_copiers_find(struct pccl_sync_copiers *copiers, const struct pccl_sync_tensor *tensor,
                                        struct pccl_device_copier **copier, struct pccl_text *reason)
{
    for (struct pccl_sync_copier *known = copiers->first; known; known = known->next)
        if (known->device == tensor->device && pccl_device_copier_fits(known->copier, tensor->data)) {
            *copier = known->copier;
            return PCCL_OK;
        }
    struct pccl_sync_copier *opened = pccl_allocate(pccl_heap(), sizeof *opened);
    if (!opened)
        return pccl_fail(reason, PCCL_MEMORY, "%s", pccl_status_text(PCCL_MEMORY));
    enum pccl_status status =
        pccl_device_copier_open(tensor->device, tensor->data, pccl_heap(), &opened->copier, reason);
    if (status != PCCL_OK) {
        pccl_release(pccl_heap(), opened, sizeof *opened);
        return status;
    }
    opened->device = tensor->device;
    opened->next = copiers->first;
    copiers->first = opened;
    *copier = opened->copier;
    return PCCL_OK;
}

void pccl_sync_copiers_close(struct pccl_sync_copiers *copiers)
{
    while (copiers->first) {
        struct pccl_sync_copier *copier = copiers->first;
        copiers->first = copier->next;
        pccl_device_copier_close(copier->copier);
        pccl_release(pccl_heap(), copier, sizeof *copier);
    }
}
