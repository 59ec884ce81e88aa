/* The doctor's checks. Each adds findings. */
#ifndef PCCL_TOOLS_DOCTOR_CHECKS_H
#define PCCL_TOOLS_DOCTOR_CHECKS_H

#include "doctor/findings.h"

#include "config/params.h"
#include "core/address.h"

#include "pccl.h"

/* Checks this machine alone. */
void doctor_check_machine(struct findings *findings);

/*
 * Checks the path to the master: its name, its port and the packet size. Returns true and this machine's address on
 * that path if the master was reached.
 */
bool doctor_check_master(struct findings *findings, const struct pccl_endpoint *master, struct pccl_address *own);

/* A path between two peers. */
struct doctor_path {
    char sender[PCCL_PEER_NAME_SIZE], receiver[PCCL_PEER_NAME_SIZE];
    uint64_t rate;   /* bytes per second; 0: unreachable */
    uint32_t rtt_us; /* 0: unknown, because traffic in shared memory has only a rate */
    bool reversed;   /* the receiver has dialed the link, because others cannot reach its port */
};

struct doctor_peers {
    char (*names)[PCCL_PEER_NAME_SIZE]; /* owned */
    size_t count;
    struct doctor_path *paths; /* owned */
    size_t path_count;
};

/*
 * Meets the other machines that run the doctor as peers of the master's run, in a separate group, and checks the paths
 * between them. `own`: this machine's address on the path to the master. The caller frees the result.
 */
void doctor_check_peers(struct findings *findings, const char *master, const struct pccl_address *own, uint32_t count,
                        uint32_t wait_s, struct doctor_peers *peers);
void doctor_peers_free(struct doctor_peers *peers);

/* Writes an address without its port. */
const char *doctor_host_text(const struct pccl_address *address, struct pccl_text *text);
#define doctor_host_str(address) doctor_host_text(address, &(struct pccl_text){.length = 0})

#endif
