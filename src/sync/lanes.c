#include "sync/lanes.h"

#include "net/heap.h"

enum pccl_status pccl_sync_lanes_find(struct pccl_sync_lanes *lanes, const struct pccl_sync_tensor *tensor,
                                      struct pccl_device_lane **lane, struct pccl_text *reason)
{
    for (struct pccl_sync_lane *known = lanes->first; known; known = known->next)
        if (known->device == tensor->device && pccl_device_lane_fits(known->lane, tensor->data)) {
            *lane = known->lane;
            return PCCL_OK;
        }
    struct pccl_sync_lane *opened = pccl_allocate(pccl_heap(), sizeof *opened);
    if (!opened) {
        pccl_text_format(reason, "%s", pccl_status_text(PCCL_MEMORY));
        return PCCL_MEMORY;
    }
    enum pccl_status status = pccl_device_lane_open(tensor->device, tensor->data, pccl_heap(), &opened->lane, reason);
    if (status != PCCL_OK) {
        pccl_release(pccl_heap(), opened, sizeof *opened);
        return status;
    }
    opened->device = tensor->device;
    opened->next = lanes->first;
    lanes->first = opened;
    *lane = opened->lane;
    return PCCL_OK;
}

void pccl_sync_lanes_close(struct pccl_sync_lanes *lanes)
{
    while (lanes->first) {
        struct pccl_sync_lane *lane = lanes->first;
        lanes->first = lane->next;
        pccl_device_lane_close(lane->lane);
        pccl_release(pccl_heap(), lane, sizeof *lane);
    }
}
