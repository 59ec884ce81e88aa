/*
 * The metrics of a master, for Prometheus. One table gives the exposition and docs/METRICS.md. No metric has a peer,
 * a group or a tag as a label, so there are fewer than 200 series, whatever the run is.
 */
#ifndef PCCL_OPS_METRICS_H
#define PCCL_OPS_METRICS_H

#include "core/print.h"
#include "master/figures.h"

/* X(name, without "pccl_"; type; labels, as people read them; help) */
#define PCCL_METRICS(X)                                                                                                \
    X(build_info, gauge, "version, protocol", "Always 1; the labels say what runs.")                                   \
    X(uptime_seconds, gauge, "", "Time since this master began.")                                                      \
    X(run_open, gauge, "", "1: there is a run, which has members.")                                                    \
    X(recovering, gauge, "", "1: the master was restarted and waits for the members of a run.")                        \
    X(members, gauge, "", "Members of the run.")                                                                       \
    X(newcomers, gauge, "", "Peers that wait for admission.")                                                          \
    X(groups, gauge, "", "Peer groups of the run.")                                                                    \
    X(update_votes, gauge, "", "Members that wait in the open topology update for the others.")                        \
    X(newcomers_total, counter, "", "Peers that have asked for admission.")                                            \
    X(peers_joined_total, counter, "", "Newcomers that have become members.")                                          \
    X(peers_gone_total, counter, "role, reason", "Peers that left or were removed, by what they were and why.")        \
    X(connections, gauge, "", "Open connections of peers and strangers.")                                              \
    X(connections_total, counter, "", "Connections of peers and strangers that were accepted.")                        \
    X(connections_refused_total, counter, "reason", "Connections that were refused before they were a peer's.")        \
    X(connections_turned_away_total, counter, "",                                                                      \
      "Newcomers turned away for want of a descriptor or of time for a handshake.")                                    \
    X(operations_begun_total, counter, "kind", "Operations of which a first part was known.")                          \
    X(operations_committed_total, counter, "kind", "Operations that were committed.")                                  \
    X(operations_aborted_total, counter, "kind", "Operations that were aborted.")                                      \
    X(operation_bytes_total, counter, "kind",                                                                          \
      "Bytes of the tensors of committed operations, each counted once, however many members there are.")              \
    X(operation_seconds, histogram, "le",                                                                              \
      "Time from when the master first heard of an operation until its outcome; of a bulk operation it hears when "    \
      "the first member has finished.")                                                                                \
    X(verdicts, gauge, "class", "Verdicts that hold: who or what makes a group slow or its operations stand still.")   \
    X(verdicts_total, counter, "class", "Verdicts that were found.")                                                   \
    X(views_total, counter, "", "Views that were made: changes of the members or the ring of a group.")                \
    X(rounds_total, counter, "kind, outcome",                                                                          \
      "Joint calls that were decided; a synchronization counts for its group.")                                        \
    X(sync_fetches_total, counter, "outcome", "Members that lacked shared state and fetched it, or failed to.")        \
    X(http_requests_total, counter, "", "HTTP requests that were answered with a page.")                               \
    X(http_refused_total, counter, "", "HTTP requests that were answered with an error.")                              \
    X(http_dropped_total, counter, "", "HTTP connections that were ended to make room or because they took too long.") \
    X(loop_busy_seconds_total, counter, "", "Time for which the master's loop did not wait; needs libuv 1.39.")        \
    X(loop_lag_seconds, gauge, "",                                                                                     \
      "The longest time, in the last 10 to 20 seconds, for which the loop did not look for input; likewise.")

enum { PCCL_METRICS_BYTES_MAX = 1 << 20 };

/* Appends the exposition: text format 0.0.4. Of the figures the peers, groups and waits need not be there. */
void pccl_metrics_write(const struct pccl_figures *figures, struct pccl_print *print);

#endif
