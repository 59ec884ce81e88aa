/*
 * The connection to the master. Caller holds the lock. Effects of the state machine only set flags; the loop then does
 * the work.
 */
#ifndef PCCL_DRIVE_COMM_MASTER_H
#define PCCL_DRIVE_COMM_MASTER_H

#include "net/dialer.h"
#include "os/resolve.h"

enum { PCCL_MASTER_ADDRESSES_MAX = 16 };

struct pccl_communicator;

struct pccl_comm_master {
    struct pccl_host hosts[PCCL_MASTER_ADDRESSES_MAX]; /* constant */
    uint32_t host_count;
    struct pccl_connection *connection;
    struct pccl_connection *closing; /* connections for the loop to close, linked by next_dirty */
    struct pccl_dialer *dialer;
    struct pccl_resolver *resolver;
    bool dial, cancel; /* actions requested by effects, which the loop still has to perform */
    bool is_rejected;  /* since the last dial the master has rejected the token: another attempt fails, too */
};

/* Sends queued data, starts watching the connection, and reads data that a leader left unread. Runs on the loop. */
void pccl_comm_master_arm(struct pccl_comm_master *master);
/*
 * Sends queued data on the connections that wait to be closed, and shuts them down. Called when the loop is broken and
 * cannot close them.
 */
void pccl_comm_master_say_last(struct pccl_comm_master *master);
static inline bool pccl_comm_master_has_notes(const struct pccl_comm_master *master)
{
    return master->dial || master->cancel || master->closing;
}
/* Does the work that effects have requested, until there is no more. Runs on the loop. */
void pccl_comm_master_apply(struct pccl_communicator *comm);
/* ---- effects of the state machine ---- */
void pccl_comm_effect_dial_master(void *context);
void pccl_comm_effect_close_master(void *context);
void pccl_comm_effect_send_master(void *context, const uint8_t *bytes, size_t length);
void pccl_comm_effect_accept_master(void *context);

#endif
