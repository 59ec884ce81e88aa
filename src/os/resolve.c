#include "os/resolve.h"

#include "os/native.h"

#include <string.h>

enum { RESOLVED_MAX = 32 };

struct pccl_resolver {
    uv_getaddrinfo_t request;
    uv_timer_t timer; /* for starting the next host from the loop instead of inside the caller */
    uv_loop_t *loop;
    const struct pccl_memory *memory;
    struct pccl_resolve resolve;
    struct pccl_address found[RESOLVED_MAX];
    uint32_t found_count, next;
    bool asking, canceled;
    struct pccl_text reason;
    struct pccl_host hosts[];
};

static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

bool pccl_resolve_numeric(const struct pccl_host *host, struct pccl_address *address)
{
    if (!pccl_address_parse_ip(host->name, strlen(host->name), address))
        return false;
    address->port = host->port;
    return true;
}

static uint32_t take(const struct addrinfo *list, uint16_t port, struct pccl_address *found, uint32_t count,
                     uint32_t max)
{
    for (; list && count < max; list = list->ai_next) {
        if (!pccl_native_address(list->ai_addr, &found[count]))
            continue;
        found[count++].port = port;
    }
    return count;
}

static void explain(struct pccl_text *reason, const char *name, const char *why)
{
    pccl_text_append(reason, "%s%s: %s", reason->length ? "; " : "", name, why);
}

uint32_t pccl_resolve_now(const struct pccl_host *hosts, uint32_t count, struct pccl_address *addresses, uint32_t max,
                          struct pccl_text *reason)
{
    uint32_t found = 0;
    pccl_text_clear(reason);
    for (uint32_t i = 0; i < count && found < max; i++) {
        if (pccl_resolve_numeric(&hosts[i], &addresses[found])) {
            found++;
            continue;
        }
        struct addrinfo *list = NULL;
        int error = getaddrinfo(hosts[i].name, NULL, &hints, &list);
        if (error) {
            explain(reason, hosts[i].name, gai_strerror(error));
            continue;
        }
        found = take(list, hosts[i].port, addresses, found, max);
        freeaddrinfo(list);
    }
    return found;
}

/* ---- on the loop ---- */

static void on_timer(uv_timer_t *timer);

static void on_closed(uv_handle_t *handle)
{
    struct pccl_resolver *resolver = handle->data;
    pccl_release(resolver->memory, resolver, sizeof *resolver + resolver->resolve.count * sizeof resolver->hosts[0]);
}

static void let_go(struct pccl_resolver *resolver) { uv_close((uv_handle_t *)&resolver->timer, on_closed); }

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct pccl_resolver *resolver = PCCL_CONTAINER_OF(request, struct pccl_resolver, request);
    resolver->asking = false;
    if (resolver->canceled) {
        uv_freeaddrinfo(list);
        let_go(resolver);
        return;
    }
    const struct pccl_host *host = &resolver->hosts[resolver->next++];
    if (status == 0)
        resolver->found_count = take(list, host->port, resolver->found, resolver->found_count, RESOLVED_MAX);
    else
        explain(&resolver->reason, host->name, uv_strerror(status));
    uv_freeaddrinfo(list);
    (void)uv_timer_start(&resolver->timer, on_timer, 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_resolver *resolver = timer->data;
    while (resolver->next < resolver->resolve.count && resolver->found_count < RESOLVED_MAX) {
        const struct pccl_host *host = &resolver->hosts[resolver->next];
        if (pccl_resolve_numeric(host, &resolver->found[resolver->found_count])) {
            resolver->found_count++;
            resolver->next++;
            continue;
        }
        int error = uv_getaddrinfo(resolver->loop, &resolver->request, on_resolved, host->name, NULL, &hints);
        if (error == 0) {
            resolver->asking = true;
            return;
        }
        explain(&resolver->reason, host->name, uv_strerror(error));
        resolver->next++;
    }
    if (resolver->resolve.enter)
        resolver->resolve.enter(resolver->resolve.owner);
    if (!resolver->canceled) { /* entering may have canceled the resolver */
        resolver->resolve.done(resolver->resolve.context, resolver->found, resolver->found_count, &resolver->reason);
        let_go(resolver);
    }
    if (resolver->resolve.leave)
        resolver->resolve.leave(resolver->resolve.owner);
}

struct pccl_resolver *pccl_resolver_start(uv_loop_t *loop, const struct pccl_memory *memory,
                                          const struct pccl_resolve *resolve)
{
    struct pccl_resolver *resolver =
        pccl_allocate(memory, sizeof *resolver + resolve->count * sizeof resolver->hosts[0]);
    if (!resolver)
        return NULL;
    (void)uv_timer_init(loop, &resolver->timer);
    resolver->timer.data = resolver;
    resolver->loop = loop;
    resolver->memory = memory;
    resolver->resolve = *resolve;
    pccl_text_clear(&resolver->reason);
    memcpy(resolver->hosts, resolve->hosts, resolve->count * sizeof resolver->hosts[0]);
    (void)uv_timer_start(&resolver->timer, on_timer, 0, 0);
    return resolver;
}

bool pccl_resolver_cancel(struct pccl_resolver *resolver)
{
    resolver->canceled = true;
    if (!resolver->asking) {
        let_go(resolver);
        return false;
    }
    /* If 0, the request had not begun, and on_resolved follows immediately. */
    return uv_cancel((uv_req_t *)&resolver->request) != 0;
}
