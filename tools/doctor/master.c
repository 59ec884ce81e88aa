#include "doctor/checks.h"

#include "os/resolve.h"
#include "os/socket.h"
#include "system/machine.h"
#include "system/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    CONNECT_S = 5,
    REFUSED_MS = 2000,
    POLL_MS = 100,
    MTU_MIN = 1280,
    PACKET_MAX = 65535, /* the loopback interface has an MTU that is larger */
    ADDRESSES_MAX = 16,
    FIX_BYTES = 480,
};

const char *doctor_host_text(const struct pccl_address *address, struct pccl_text *text)
{
    char host[PCCL_REASON_MAX + 1];
    (void)snprintf(host, sizeof host, "%s", pccl_address_str(address));
    char *colon = strrchr(host, ':');
    if (colon != NULL)
        *colon = '\0';
    size_t length = strlen(host);
    bool brackets = host[0] == '[' && host[length - 1] == ']';
    pccl_text_clear(text);
    pccl_text_add_bytes(text, host + brackets, length - 2 * brackets);
    return text->bytes;
}

/* ---- the name ---- */

static void judge_name(struct findings *findings, const struct pccl_endpoint *master,
                       const struct pccl_address *addresses, uint32_t count)
{
    struct pccl_text list;
    struct pccl_host host = {.port = master->port};
    struct pccl_address numeric;
    bool local = true;
    memcpy(host.name, master->host, sizeof host.name);
    if (strcmp(host.name, "localhost") == 0 || pccl_resolve_numeric(&host, &numeric))
        return;
    pccl_text_clear(&list);
    for (uint32_t i = 0; i < count; i++) {
        pccl_text_append(&list, "%s%s", i > 0 ? ", " : "", doctor_host_str(&addresses[i]));
        local = local && pccl_address_is_loopback(&addresses[i]);
    }
    if (!local) {
        findings_ok(findings, "name", "%s is %s", host.name, list.bytes);
        return;
    }
    char fix[FIX_BYTES];
    (void)snprintf(fix, sizeof fix, "on all machines but the master's: correct the line for %s in /etc/hosts",
                   host.name);
    findings_note(findings, "name", fix, "%s is %s, this machine itself", host.name, list.bytes);
}

static uint32_t resolve(struct findings *findings, const struct pccl_endpoint *master, struct pccl_address *addresses)
{
    struct pccl_host host = {.port = master->port};
    struct pccl_text reason;
    memcpy(host.name, master->host, sizeof host.name);
    uint32_t count = pccl_resolve_now(&host, 1, addresses, ADDRESSES_MAX, &reason);
    if (count > 0) {
        judge_name(findings, master, addresses, count);
        return count;
    }
    char fix[FIX_BYTES];
    (void)snprintf(fix, sizeof fix, "use the master's address, or add the line 'ADDRESS %s' to /etc/hosts", host.name);
    size_t length = strlen(host.name);
    const char *why = strncmp(reason.bytes, host.name, length) == 0 ? reason.bytes + length : ": unknown name";
    findings_bad(findings, "name", fix, "%s has no address%s", host.name, why);
    return 0;
}

/* ---- the port ---- */

static void explain(struct findings *findings, const struct pccl_address *address, int error)
{
    char fix[FIX_BYTES];
    const char *host = doctor_host_str(address);
    if (error == UV_ETIMEDOUT) {
        (void)snprintf(fix, sizeof fix, "on the master's machine: nft add rule inet filter input tcp dport %u accept",
                       address->port);
        findings_bad(findings, "port", fix,
                     "no answer from %s within %d s: a firewall drops packets, or the machine is down", host,
                     CONNECT_S);
    } else if (error == UV_ECONNREFUSED) {
        (void)snprintf(fix, sizeof fix, "on the master's machine: pccl master --listen '[::]:%u'", address->port);
        findings_bad(findings, "port", fix, "%s answers, but no program listens on port %u", host, address->port);
    } else {
        findings_bad(findings, "port", "check both machines' routes: ip route", "%s cannot be reached: %s", host,
                     uv_strerror(error));
    }
}

/* Connects once. Returns 0 or a libuv error. */
static int dial_once(const struct pccl_address *address, uv_os_sock_t *socket)
{
    int error = pccl_socket_dial(address, socket);
    if (error != 0)
        return error;
    error = pccl_socket_await(*socket, true, 1000 * CONNECT_S) ? pccl_socket_outcome(*socket) : UV_ETIMEDOUT;
    if (error != 0)
        pccl_socket_close(*socket);
    return error;
}

/* Connects. Dials again for a while if no program listens, because the master may have just been started. */
static int dial(const struct pccl_address *address, uv_os_sock_t *socket)
{
    int error = dial_once(address, socket);
    for (int waited_ms = 0; error == UV_ECONNREFUSED && waited_ms < REFUSED_MS; waited_ms += POLL_MS) {
        process_sleep_s(1e-3 * (int)POLL_MS);
        error = dial_once(address, socket);
    }
    return error;
}

/* ---- the packets ---- */

static uint32_t read_mtu(const char *card)
{
    char path[128], text[32];
    (void)snprintf(path, sizeof path, "/sys/class/net/%s/mtu", card);
    FILE *file = fopen(path, "r");
    bool good = file != NULL && fgets(text, sizeof text, file) != NULL;
    if (file != NULL)
        (void)fclose(file);
    return good ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* Returns the MTU of the interface that has the address; 0: unknown. */
static uint32_t interface_mtu(const char *own)
{
    uv_interface_address_t *interfaces;
    int count;
    uint32_t mtu = 0;
    if (uv_interface_addresses(&interfaces, &count) != 0)
        return 0;
    for (int i = 0; i < count && mtu == 0; i++) {
        char text[64] = "";
        if (interfaces[i].address.address4.sin_family == AF_INET)
            (void)uv_ip4_name(&interfaces[i].address.address4, text, sizeof text);
        else
            (void)uv_ip6_name(&interfaces[i].address.address6, text, sizeof text);
        if (strcmp(text, own) == 0)
            mtu = read_mtu(interfaces[i].name);
    }
    uv_free_interface_addresses(interfaces, count);
    return mtu;
}

static void judge_packets(struct findings *findings, uv_os_sock_t socket, const struct pccl_address *own)
{
    uint32_t path = machine_path_mtu(socket, !pccl_address_is_v4(own));
    uint32_t leaving = interface_mtu(doctor_host_str(own));
    if (path == 0)
        return;
    if (path < MTU_MIN)
        findings_bad(findings, "mtu", "raise the MTU of the interface: ip link set dev NAME mtu 1500",
                     "only packets of %u bytes reach the master", path);
    else if (path < leaving && path < PACKET_MAX)
        findings_note(
            findings, "mtu", "",
            "packets of %u bytes reach the master, but packets of %u bytes leave this machine: the path has a "
            "smaller MTU",
            path, leaving);
    else
        findings_ok(findings, "mtu", "packets of %u bytes reach the master", path);
}

bool doctor_check_master(struct findings *findings, const struct pccl_endpoint *master, struct pccl_address *own)
{
    struct pccl_address addresses[ADDRESSES_MAX];
    int errors[ADDRESSES_MAX];
    uint32_t count = resolve(findings, master, addresses);
    for (uint32_t i = 0; i < count; i++) {
        uv_os_sock_t socket;
        errors[i] = dial(&addresses[i], &socket);
        if (errors[i] != 0)
            continue;
        findings_ok(findings, "port", "%s, port %u answers", doctor_host_str(&addresses[i]), addresses[i].port);
        bool known = pccl_socket_local(socket, own);
        if (known)
            judge_packets(findings, socket, own);
        pccl_socket_close(socket);
        return known;
    }
    for (uint32_t i = 0; i < count; i++)
        explain(findings, &addresses[i], errors[i]);
    return false;
}
