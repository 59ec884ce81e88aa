/*
 * The metrics of a master, for Prometheus. A single table generates the exposition and docs/METRICS.md. No metric has a
 * peer, a group or a tag as a label, so the number of series is always below 200.
 */
#ifndef PCCL_OPS_METRICS_H
#define PCCL_OPS_METRICS_H

#include "core/print.h"
#include "master/figures.h"

/* X(name without "pccl_", type, labels as shown in the documentation, help) */
#define PCCL_METRICS(X)                                                                                                \
    X(build_info, gauge, "version, protocol", "Always 1; the labels contain the version.")                             \
    X(uptime_seconds, gauge, "", "Time since this master started.")                                                    \
    X(run_open, gauge, "", "1: a run with members exists.")                                                            \
    X(recovering, gauge, "", "1: the master has restarted and waits for the members of a run.")                        \
    X(members, gauge, "", "Members of the run.")                                                                       \
    X(newcomers, gauge, "", "Peers that wait for admission.")                                                          \
    X(groups, gauge, "", "Peer groups of the run.")                                                                    \
    X(update_votes, gauge, "", "Members that wait in the current topology update for the others.")                     \
    X(newcomers_total, counter, "", "Peers that have requested admission.")                                            \
    X(peers_joined_total, counter, "", "Newcomers that have become members.")                                          \
    X(peers_gone_total, counter, "role, reason", "Peers that left or were removed, by role and reason.")               \
    X(connections, gauge, "", "Open connections of peers and strangers.")                                              \
    X(connections_total, counter, "", "Accepted connections of peers and strangers.")                                  \
    X(connections_refused_total, counter, "reason", "Connections refused before they belonged to a peer.")             \
    X(connections_turned_away_total, counter, "",                                                                      \
      "Connections turned away because no file descriptor was free, or because the handshake took too long or too "    \
      "many were in progress.")                                                                                        \
    X(operations_begun_total, counter, "kind", "Operations that at least one member has started.")                     \
    X(operations_committed_total, counter, "kind", "Committed operations.")                                            \
    X(operations_aborted_total, counter, "kind", "Aborted operations.")                                                \
    X(operation_bytes_total, counter, "kind",                                                                          \
      "Bytes of the tensors of committed operations; each tensor counts once regardless of the number of members.")    \
    X(operation_seconds, histogram, "le",                                                                              \
      "Time from the first message about an operation to its outcome; for a bulk operation the first message is sent " \
      "when "                                                                                                          \
      "the first member has finished.")                                                                                \
    X(verdicts, gauge, "class", "Current verdicts: causes of slow groups and stuck operations.")                       \
    X(verdicts_total, counter, "class", "Verdicts reached.")                                                           \
    X(member_seconds_total, counter, "use",                                                                            \
      "Time of all members together, by its use: computing, waiting, moving, lost or joint.")                          \
    X(views_total, counter, "", "New views: changes of a group's members or ring.")                                    \
    X(rounds_total, counter, "kind, outcome", "Completed joint calls; a synchronization counts for its group.")        \
    X(sync_fetches_total, counter, "outcome", "Members that lacked shared state and fetched it, or failed to.")        \
    X(http_requests_total, counter, "", "HTTP requests answered with a page.")                                         \
    X(http_refused_total, counter, "", "HTTP requests answered with an error.")                                        \
    X(http_dropped_total, counter, "", "HTTP connections closed to make room or because they took too long.")          \
    X(loop_busy_seconds_total, counter, "",                                                                            \
      "Time the master's loop spent working instead of waiting; requires libuv 1.39.")                                 \
    X(loop_lag_seconds, gauge, "",                                                                                     \
      "Longest time in the last 10 to 20 seconds between two checks for input; requires libuv 1.39.")

enum { PCCL_METRICS_BYTES_MAX = 1 << 20 };

/* Appends the exposition in text format 0.0.4. Does not use the peers, groups and waits in the figures. */
void pccl_metrics_write(const struct pccl_figures *figures, struct pccl_print *print);

#endif
