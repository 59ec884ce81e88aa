#include "doctor/checks.h"

#include "perf/topology_report.h"
#include "system/machine.h"
#include "system/process.h"

#include "pccl_collectives.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    OPERATION_MS = 30000,
    POLL_MS = 100,
    BULK_BYTES = 4 << 20,
    FACT_BYTES = 256,
    VERSION_BYTES = 40,
    FIX_BYTES = 200,
};

static const char group[] = "6581091"; /* of doctors only */
static const double clocks_apart_s = 1;
static const double slow_share = 3; /* a path is slow if it has less than the median rate divided by this */

/* Fixes of checks that failed on other machines, which send only the names of the checks. */
static const struct {
    const char *check, *fix;
} fixes[] = {
    {"files", "there: ulimit -n 65536"},
    {"buffers", "there: raise net.ipv4.tcp_rmem and net.ipv4.tcp_wmem to 4 MiB or more"},
    {"name", "there: make the master's name resolve to an address"},
    {"port", "there: make the master's port reachable"},
    {"mtu", "there: raise the MTU of the interface"},
};

struct meeting {
    struct findings *findings;
    pcclComm_t *comm;
    char own_id[PCCL_PEER_ID_SIZE];
    struct doctor_peers *peers;
};

/* ---- fixes and failures ---- */

static const char *open_port_fix(const char *where, char text[FIX_BYTES])
{
    char port[16] = "48149";
    (void)pcclGetOption(NULL, "port", port, sizeof port);
    (void)snprintf(text, FIX_BYTES,
                   "%s: nft add rule inet filter input tcp dport %s accept; or see NAT in the guide's deployment page",
                   where, port);
    return text;
}

static void explain_refusal(struct findings *findings, const char *reason)
{
    char fix[FIX_BYTES];
    if (strstr(reason, "the port of neither") != NULL) {
        findings_bad(findings, "reach", open_port_fix("on this machine or that one", fix), "%s", reason);
        return;
    }
    bool other = strstr(reason, "it could not open a link to") != NULL;
    findings_bad(findings, "ports", open_port_fix(other ? "on the other machine" : "on this machine", fix), "%s",
                 reason);
}

/* Explains why this peer could not join the run. */
static void explain_connect(struct findings *findings, const pcclComm_t *comm, pcclResult_t result)
{
    const char *reason = pcclGetLastError(comm);
    if (strstr(reason, "token") != NULL) {
        findings_bad(findings, "token",
                     "set PCCL_TOKEN_FILE to a file with a token of this master; on its machine: pccl token create "
                     "--state DIR",
                     "%s", reason);
        return;
    }
    switch (result) {
    case pcclVersionMismatch:
        findings_bad(findings, "version", "install the same version of PCCL everywhere, or correct the address", "%s",
                     reason);
        break;
    case pcclRefused: explain_refusal(findings, reason); break;
    case pcclTimeout:
        findings_bad(findings, "peers", "wait for the end of the current run at that master", "%s", reason);
        break;
    default: findings_bad(findings, "master", "check that a master listens at that address", "%s", reason); break;
    }
}

/* Returns true for a success; otherwise adds a finding. */
static bool is_good(const struct meeting *meeting, pcclResult_t result)
{
    if (result != pcclSuccess)
        findings_bad(meeting->findings, "peers", "see the guide's page on failures", "%s",
                     pcclGetLastError(meeting->comm));
    return result == pcclSuccess;
}

/* ---- exchanges ---- */

/* Sends a text to all doctors and gets theirs, repeatedly if one is lost. The caller frees the blobs after success. */
static bool exchange(const struct meeting *meeting, const char *text, pcclBlobs_t *blobs)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclResult_t result;
    options.alone_ok = true;
    do {
        *blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
        result = pcclAllGatherV(text, strlen(text), &options, meeting->comm, blobs, NULL);
    } while (result == pcclRankConnectionLost);
    return is_good(meeting, result);
}

/* Copies the beginning of a blob as a string. */
static void copy_text(const pcclBlob_t *blob, char text[FACT_BYTES])
{
    size_t length = blob->length < FACT_BYTES ? blob->length : FACT_BYTES - 1;
    memcpy(text, blob->data, length);
    text[length] = '\0';
}

static const char *name_of(const struct meeting *meeting, const char *id, char name[PCCL_PEER_NAME_SIZE])
{
    if (pcclGetPeerName(meeting->comm, id, name, PCCL_PEER_NAME_SIZE) != pcclSuccess || name[0] == '\0')
        (void)snprintf(name, PCCL_PEER_NAME_SIZE, "%.8s", id);
    return name;
}

static bool is_own(const struct meeting *meeting, const pcclBlob_t *blob)
{
    return strcmp(blob->peer.digits, meeting->own_id) == 0;
}

/* ---- meeting the others ---- */

/*
 * Waits until this number of doctors has joined, or until one of them has waited for the time limit. Sets the number.
 */
static bool assemble(const struct meeting *meeting, uint32_t wanted, uint32_t wait_s, size_t *joined)
{
    uint64_t until = uv_hrtime() + wait_s * UINT64_C(1000000000);
    for (;;) {
        pcclBlobs_t blobs;
        bool late = false;
        if (!exchange(meeting, uv_hrtime() > until ? "late" : "early", &blobs))
            return false;
        for (size_t i = 0; i < blobs.count; i++)
            late = late || (blobs.blobs[i].length == 4 && memcmp(blobs.blobs[i].data, "late", 4) == 0);
        *joined = blobs.count;
        (void)pcclFreeBlobs(&blobs);
        if (*joined >= wanted || late)
            return true;
        process_sleep_s(1e-3 * (int)POLL_MS);
        if (!is_good(meeting, pcclUpdateTopology(meeting->comm)))
            return false;
    }
}

static bool list_names(const struct meeting *meeting)
{
    struct doctor_peers *peers = meeting->peers;
    size_t count = 0;
    if (!is_good(meeting, pcclGetMembers(meeting->comm, NULL, 0, &count, NULL)))
        return false;
    pcclPeerId_t *ids = calloc(count + 1, sizeof *ids);
    peers->names = calloc(count + 1, sizeof *peers->names);
    bool good =
        ids != NULL && peers->names != NULL && pcclGetMembers(meeting->comm, ids, count, &count, NULL) == pcclSuccess;
    for (size_t i = 0; good && i < count; i++)
        (void)name_of(meeting, ids[i].digits, peers->names[i]);
    peers->count = good ? count : 0;
    free(ids);
    return good || is_good(meeting, pcclOutOfMemory);
}

/* ---- comparisons ---- */

static void write_facts(const struct findings *findings, char text[FACT_BYTES])
{
    int length = snprintf(text, FACT_BYTES, "%d.%d.%d", PCCL_VERSION_MAJOR, PCCL_VERSION_MINOR, PCCL_VERSION_PATCH);
    for (size_t i = 0; i < PCCL_COUNT_OF(fixes); i++)
        if (findings_have_bad(findings, fixes[i].check))
            length += snprintf(text + length, FACT_BYTES - (size_t)length, " %s", fixes[i].check);
}

/* Returns the length of the version at the beginning of a peer's facts; 0 for any other text. */
static size_t version_length(const char *facts)
{
    size_t length = strspn(facts, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-");
    return length <= VERSION_BYTES && (facts[length] == ' ' || facts[length] == '\0') ? length : 0;
}

static bool has_word(const char *facts, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strchr(facts, ' '); at != NULL; at = strchr(at + 1, ' '))
        if (strncmp(at + 1, word, length) == 0 && (at[1 + length] == ' ' || at[1 + length] == '\0'))
            return true;
    return false;
}

static void compare_versions(const struct meeting *meeting, const pcclBlobs_t *blobs)
{
    char list[PCCL_REASON_MAX] = "", first[FACT_BYTES];
    bool differ = false;
    size_t used = 0;
    for (size_t i = 0; i < blobs->count; i++) {
        char facts[FACT_BYTES], name[PCCL_PEER_NAME_SIZE];
        copy_text(&blobs->blobs[i], facts);
        facts[version_length(facts)] = '\0';
        if (i == 0)
            memcpy(first, facts, sizeof first);
        differ = differ || strcmp(facts, first) != 0;
        int added = snprintf(list + used, sizeof list - used, "%s%s has %s", i > 0 ? ", " : "",
                             name_of(meeting, blobs->blobs[i].peer.digits, name),
                             facts[0] != '\0' ? facts : "an unknown version");
        used = used + (size_t)added < sizeof list ? used + (size_t)added : sizeof list - 1;
    }
    if (differ)
        findings_note(meeting->findings, "version", "install the same version of PCCL everywhere", "%s", list);
}

/* Compares versions and failed checks. Peers send only names of checks, so no other machine's text is printed. */
static bool compare_facts(const struct meeting *meeting)
{
    char own[FACT_BYTES];
    pcclBlobs_t blobs;
    write_facts(meeting->findings, own);
    if (!exchange(meeting, own, &blobs))
        return false;
    compare_versions(meeting, &blobs);
    for (size_t i = 0; i < blobs.count; i++) {
        char facts[FACT_BYTES], name[PCCL_PEER_NAME_SIZE];
        copy_text(&blobs.blobs[i], facts);
        for (size_t k = 0; k < PCCL_COUNT_OF(fixes) && !is_own(meeting, &blobs.blobs[i]); k++)
            if (has_word(facts, fixes[k].check))
                findings_bad(meeting->findings, fixes[k].check, fixes[k].fix,
                             "%s: this check failed there; see the output of its doctor",
                             name_of(meeting, blobs.blobs[i].peer.digits, name));
    }
    (void)pcclFreeBlobs(&blobs);
    return true;
}

static bool compare_clocks(const struct meeting *meeting)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclBlobs_t blobs;
    char text[FACT_BYTES];
    options.alone_ok = true;
    if (!is_good(meeting, pcclBarrier(&options, meeting->comm, NULL)))
        return false;
    double own_s = machine_time_s();
    (void)snprintf(text, sizeof text, "%.3f", own_s);
    if (!exchange(meeting, text, &blobs))
        return false;
    for (size_t i = 0; i < blobs.count; i++) {
        char name[PCCL_PEER_NAME_SIZE], *end;
        copy_text(&blobs.blobs[i], text);
        double apart_s = strtod(text, &end) - own_s;
        if (end == text || *end != '\0' || !(fabs(apart_s) <= DBL_MAX) || fabs(apart_s) <= clocks_apart_s)
            continue;
        findings_note(meeting->findings, "clock", "timedatectl set-ntp true",
                      "the clock of %s is %.1f s %s this machine's", name_of(meeting, blobs.blobs[i].peer.digits, name),
                      fabs(apart_s), apart_s > 0 ? "ahead of" : "behind");
    }
    (void)pcclFreeBlobs(&blobs);
    return true;
}

/* Checks that large packets are received, not only small ones. */
static bool check_bulk(const struct meeting *meeting)
{
    pcclReduceDescriptor_t descriptor = {.count = BULK_BYTES, .op = pcclMax, .src_descriptor = {.datatype = pcclUint8}};
    void *bytes = calloc(1, BULK_BYTES);
    pcclResult_t result = pcclOutOfMemory;
    if (bytes != NULL)
        result = pcclAllReduce(bytes, bytes, &descriptor, meeting->comm, NULL);
    free(bytes);
    if (result == pcclSuccess)
        findings_ok(meeting->findings, "bulk", "%d MiB were reduced", BULK_BYTES >> 20);
    else
        findings_bad(meeting->findings, "bulk",
                     "on all machines: sysctl -w net.ipv4.tcp_mtu_probing=1, or a smaller MTU of the interface",
                     "small messages pass, but %d MiB do not: %s", BULK_BYTES >> 20,
                     bytes != NULL ? pcclGetLastError(meeting->comm) : "out of memory");
    return true;
}

/* ---- paths ---- */

/* Judges the address at which the other peers see this machine. */
static void judge_address(const struct meeting *meeting, const struct pccl_topology_report *report,
                          const struct pccl_address *own)
{
    struct pccl_id id;
    if (!pccl_id_read(meeting->own_id, 2 * sizeof id.bytes, &id))
        return;
    for (uint32_t i = 0; i < report->count; i++) {
        const struct pccl_topology_peer *peer = &report->peers[i];
        if (!pccl_id_equal(&peer->id, &id))
            continue;
        if (memcmp(peer->address.ip, own->ip, sizeof own->ip) == 0 || pccl_address_is_loopback(own))
            findings_ok(meeting->findings, "address", "others reach this machine at %s",
                        doctor_host_str(&peer->address));
        else
            findings_note(meeting->findings, "address", "",
                          "others reach this machine at %s; its own address on the connection to the master is %s",
                          doctor_host_str(&peer->address), doctor_host_str(own));
    }
}

static int compare_rates(const void *a, const void *b)
{
    uint64_t rate = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (rate > other) - (rate < other);
}

/* Returns the median rate of the paths; 0 without paths, or if memory is short. */
static double median_rate(const struct doctor_peers *peers)
{
    uint64_t *rates = calloc(peers->path_count + 1, sizeof *rates);
    double median = 0;
    for (size_t i = 0; rates != NULL && i < peers->path_count; i++)
        rates[i] = peers->paths[i].rate;
    if (rates != NULL && peers->path_count > 0) {
        qsort(rates, peers->path_count, sizeof *rates, compare_rates);
        size_t middle = peers->path_count / 2, other = (peers->path_count - 1) / 2;
        median = ((double)rates[middle] + (double)rates[other]) / 2;
    }
    free(rates);
    return median;
}

/* Returns the first of `count` paths to this peer that it dials itself, because others cannot reach its port. */
static const struct doctor_path *find_closed(const struct doctor_peers *peers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (peers->paths[i].reversed && strcmp(peers->paths[i].receiver, name) == 0)
            return &peers->paths[i];
    return NULL;
}

static void judge_paths(const struct meeting *meeting)
{
    const struct doctor_peers *peers = meeting->peers;
    double median = median_rate(peers);
    for (size_t i = 0; i < peers->path_count; i++) {
        const struct doctor_path *path = &peers->paths[i];
        char where[PCCL_PEER_NAME_SIZE + 8], fix[FIX_BYTES];
        (void)snprintf(where, sizeof where, "on %s", path->receiver);
        if (path->reversed && find_closed(peers, i, path->receiver) == NULL)
            findings_note(meeting->findings, "reach", open_port_fix(where, fix),
                          "the port of %s cannot be reached: it dials its links itself, which works if at most half of "
                          "the machines are like this (one of two or three)",
                          path->receiver);
        if (path->rate == 0 && find_closed(peers, peers->path_count, path->sender) != NULL &&
            find_closed(peers, peers->path_count, path->receiver) != NULL)
            findings_note(meeting->findings, "reach", open_port_fix(where, fix),
                          "%s and %s cannot be linked: the port of neither can be reached. Rings avoid this",
                          path->sender, path->receiver);
        else if (path->rate == 0)
            findings_bad(meeting->findings, "path", open_port_fix(where, fix), "%s cannot be reached from %s",
                         path->receiver, path->sender);
        else if ((double)path->rate < median / slow_share)
            findings_note(meeting->findings, "path", "check for other traffic on this path; rings avoid it if possible",
                          "%s -> %s carries %.1f MB/s (median path: %.1f MB/s)", path->sender, path->receiver,
                          (double)path->rate / 1e6, median / 1e6);
    }
}

static const char *name_in(const struct pccl_topology_report *report, uint32_t number, char name[PCCL_PEER_NAME_SIZE])
{
    const struct pccl_topology_peer *peer = &report->peers[number];
    (void)snprintf(name, PCCL_PEER_NAME_SIZE, "%s", peer->name[0] != '\0' ? peer->name : pccl_id_str(&peer->id));
    return name;
}

static void judge_unmeasured(const struct meeting *meeting, const struct pccl_topology_report *report)
{
    char sender[PCCL_PEER_NAME_SIZE] = "", receiver[PCCL_PEER_NAME_SIZE] = "";
    size_t unknown = 0;
    for (uint32_t from = 0; from < report->count; from++)
        for (uint32_t to = 0; to < report->count; to++)
            if (from != to && perf_report_link(report, from, to) == NULL && unknown++ == 0) {
                (void)name_in(report, from, sender);
                (void)name_in(report, to, receiver);
            }
    if (unknown > 0)
        findings_note(meeting->findings, "unmeasured", "give the master more time: --set optimize_ms=10000",
                      "paths not measured for lack of time: %zu, for example %s -> %s", unknown, sender, receiver);
}

static bool list_paths(const struct meeting *meeting, const struct pccl_topology_report *report)
{
    struct doctor_peers *peers = meeting->peers;
    peers->paths = calloc(report->link_count + 1u, sizeof *peers->paths);
    if (peers->paths == NULL)
        return is_good(meeting, pcclOutOfMemory);
    for (uint32_t i = 0; i < report->link_count; i++) {
        const struct pccl_topology_link *link = &report->links[i];
        struct doctor_path *path = &peers->paths[peers->path_count++];
        (void)name_in(report, link->from, path->sender);
        (void)name_in(report, link->to, path->receiver);
        path->rate = link->rate;
        path->rtt_us = link->rtt_us;
        path->reversed = link->reversed;
    }
    return true;
}

static bool check_paths(const struct meeting *meeting, const struct pccl_address *own)
{
    struct pccl_topology_report report;
    struct pccl_text reason;
    char *text = NULL;
    if (!is_good(meeting, pcclOptimizeTopology(meeting->comm)) ||
        !is_good(meeting, perf_report_fetch(meeting->comm, &text)))
        return false;
    bool good = perf_report_read(text, strlen(text), &report, &reason) == PCCL_OK;
    free(text);
    if (!good) {
        findings_bad(meeting->findings, "peers", "install the same version of PCCL everywhere",
                     "invalid topology of the master: %s", reason.bytes);
        return false;
    }
    good = list_paths(meeting, &report);
    if (good) {
        judge_address(meeting, &report, own);
        judge_paths(meeting);
        judge_unmeasured(meeting, &report);
    }
    pccl_topology_report_fini(&report);
    return good;
}

/* ---- all ---- */

static void examine(const struct meeting *meeting, const struct pccl_address *own, uint32_t wanted, uint32_t wait_s)
{
    int in_all, in_group;
    size_t joined;
    pcclBlobs_t blobs;
    char fix[FIX_BYTES], start[2 * FIX_BYTES];
    if (!is_good(meeting, pcclGetAttribute(meeting->comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &in_all)) ||
        !is_good(meeting, pcclGetAttribute(meeting->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &in_group)))
        return;
    if (in_all > in_group) {
        findings_bad(meeting->findings, "peers", "run the doctor before the run, or at a separate master",
                     "a run of %d peers is active at this master, and the doctor delays it", in_all - in_group);
        return;
    }
    if (!assemble(meeting, wanted, wait_s, &joined) || !list_names(meeting))
        return;
    if (joined < wanted) {
        (void)snprintf(start, sizeof start, "start it on the other machines too; if one was refused, %s",
                       open_port_fix("on this machine", fix));
        findings_bad(meeting->findings, "peers", start, "only %zu of %u machines joined within %u s", joined, wanted,
                     wait_s);
    }
    if (joined < 2 || !compare_facts(meeting) || !compare_clocks(meeting) || !check_bulk(meeting) ||
        !check_paths(meeting, own))
        return;
    if (exchange(meeting, "done", &blobs)) /* keeps all peers in the run until the last one has its answers */
        (void)pcclFreeBlobs(&blobs);
}

static pcclResult_t create(const char *master, uint32_t wait_s, pcclComm_t **comm)
{
    char call_ms[32], operation_ms[32];
    pcclOptions_t *options = NULL;
    (void)snprintf(operation_ms, sizeof operation_ms, "%d", OPERATION_MS);
    (void)snprintf(call_ms, sizeof call_ms, "%" PRIu64, (uint64_t)wait_s * 1000 + OPERATION_MS);
    const char *const settings[][2] = {{"peer_group", group},
                                       {"op_timeout_ms", operation_ms},
                                       {"call_timeout_ms", call_ms},
                                       {"extended_results", "1"}};
    pcclResult_t result = pcclInit();
    if (result == pcclSuccess)
        result = pcclCreateOptions(&options);
    for (size_t i = 0; i < PCCL_COUNT_OF(settings) && result == pcclSuccess; i++)
        result = pcclSetOption(options, settings[i][0], settings[i][1]);
    if (result == pcclSuccess)
        result = pcclCreateCommunicatorWithOptions(master, options, comm);
    if (options != NULL)
        (void)pcclDestroyOptions(options);
    return result;
}

void doctor_check_peers(struct findings *findings, const char *master, const struct pccl_address *own, uint32_t count,
                        uint32_t wait_s, struct doctor_peers *peers)
{
    struct meeting meeting = {.findings = findings, .peers = peers};
    pcclResult_t result = create(master, wait_s, &meeting.comm);
    if (result != pcclSuccess) {
        findings_bad(findings, "settings", "correct the variables PCCL_... of the environment", "%s",
                     pcclGetLastError(NULL));
        return;
    }
    result = pcclConnect(meeting.comm);
    if (result == pcclSuccess)
        result = pcclGetPeerId(meeting.comm, meeting.own_id, sizeof meeting.own_id);
    if (result == pcclSuccess)
        examine(&meeting, own, count, wait_s);
    else
        explain_connect(findings, meeting.comm, result);
    (void)pcclDestroyCommunicator(meeting.comm);
}

void doctor_peers_free(struct doctor_peers *peers)
{
    free(peers->names);
    free(peers->paths);
}
