/*
 * The single description of all frames on control and data connections. It generates the struct of each message; the
 * field table for encoding, decoding, printing and documentation; and the seeds of the fuzzers.
 *
 * After a release, ids are never reused and fields keep their order. Each commit that changes a message increases
 * PCCL_PROTOCOL_VERSION. Builds with the same version but different tables refuse each other because of their digests
 * (wire/digest.h). So that any two builds can exchange the reason, the following is frozen for all versions: the frame
 * header, the ids of HELLO, HELLO_OK, REFUSED and LINK_HELLO, the beginning of the greetings (the magic of HELLO and
 * LINK_HELLO, and the struct build), and all of REFUSED. unit/greeting tests these bytes.
 *
 * F(kind, name, type, cap): kind is U8 U16 U32 U64 ID SECRET ADDRESS BYTES TEXT STRUCT LIST. type is the struct's name
 * for STRUCT and LIST. cap is the maximum number of bytes of BYTES and TEXT, and of items of LIST. For integers, the
 * last two arguments are the minimum and the maximum instead; without them, any value is valid. 1 for an ID: not zero.
 */
#ifndef PCCL_WIRE_SCHEMA_H
#define PCCL_WIRE_SCHEMA_H

#include "core/limits.h"

#define PCCL_PROTOCOL_VERSION 16u
#define PCCL_FOUNDING UINT64_MAX                         /* in place of a subgroup's name: the operation creates one */
#define PCCL_PROTOCOL_MAGIC UINT64_C(0x31306c636370ab89) /* in every hello */

/* ---- structs inside messages ---- */

#define PCCL_FIELDS_build(F) /* the sender of a greeting; frozen */                                                    \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, digest, , )       /* digest of this schema (wire/digest.h) */                                               \
    F(U64, capabilities, , ) /* reserved: sent as 0, and ignored */                                                    \
    F(U32, release, , )      /* major * 10000 + minor * 100 + patch */                                                 \
    F(U64, commit, , )       /* first 16 hexadecimal digits of the commit; 0: unknown */                               \
    F(U64, committed, , )    /* time of the commit, UTC, in decimal digits: YYYYMMDDhhmmss; 0: unknown */

#define PCCL_FIELDS_epoch(F) /* (inc, number), compared in that order */                                               \
    F(U32, inc, , )                                                                                                    \
    F(U64, number, , )

#define PCCL_FIELDS_member(F)                                                                                          \
    F(ID, peer, 1, )                                                                                                   \
    F(U32, group, , )                                                                                                  \
    F(U64, admitted, 1, UINT64_MAX) /* number of its admission, which determines ranks */                              \
    F(ID, token_digest, , )         /* digest of the token in its hello; no other peer can use its id */

#define PCCL_FIELDS_named(F) /* the display name of a peer */                                                          \
    F(ID, peer, 1, )                                                                                                   \
    F(TEXT, name, , PCCL_NAME_MAX)

#define PCCL_FIELDS_attributes(F) /* attributes for pcclGetAttribute, valid for an epoch */                            \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(U32, world, , )                                                                                                  \
    F(U32, group_world, , )                                                                                            \
    F(U32, groups, , )                                                                                                 \
    F(U32, largest_group, , )

#define PCCL_FIELDS_instance(F) /* name of an operation (PROTOCOL 1.5); (joint, sync) is the era */                    \
    F(U64, subgroup, , )        /* 0: the whole group; PCCL_FOUNDING: creates a subgroup */                            \
    F(U64, pair, , )            /* source and destination (PROTOCOL 16.1); 0: all members take part */                 \
    F(U64, joint, , )                                                                                                  \
    F(U64, sync, , )                                                                                                   \
    F(U64, tag, , )                                                                                                    \
    F(U32, use, , )

#define PCCL_FIELDS_label(F) /* the caller's label: up to 32 bytes of UTF-8, zero-padded; 0: none */                   \
    F(ID, head, , )                                                                                                    \
    F(ID, tail, , )

#define PCCL_FIELDS_descriptor(F) /* the caller's request, which must be equal on all peers */                         \
    F(U8, collective, PCCL_ALL_REDUCE, PCCL_COLLECTIVES - 1) /* enum pccl_collective */                                \
    F(U8, datatype, 0, 14)                                   /* pcclDataType_t */                                      \
    F(U8, operation, 0, 8)                                   /* suitable pcclRedOp_t; 0 if nothing is reduced */       \
    F(U8, codec, 0, 7)                                       /* pcclQuantizationAlgorithm_t */                         \
    F(U8, codec_datatype, 0, 11)                             /* for a codec of PCCL 1.0, otherwise 0 */                \
    F(U8, codec_scale, 0, 2)                          /* pcclCodecScale_t; this and the next two: 0 unless scaled */   \
    F(U8, codec_rounding, 0, 1)                       /* pcclCodecRounding_t */                                        \
    F(U16, codec_block, 0, 256)                       /* number of elements in a block */                              \
    F(U32, budget_ms, 0, PCCL_BUDGET_MS_MAX)          /* automatic codec: budget; its choice is in the fields above */ \
    F(U8, budget_percent, 0, PCCL_BUDGET_PERCENT_MAX) /* alternative: share of the time between uses of the tag */     \
    F(U64, count, , ) /* number of elements of the tensor or of each part; with `counts`, of all parts */              \
    F(ID, root, , )   /* only sender or only receiver; 0: none */                                                      \
    F(ID, counts, , ) /* digest of the part lengths, or of the tensors; 0: none */                                     \
    F(STRUCT, label, label, )

#define PCCL_FIELDS_choice(F)                         /* automatic codec: PROTOCOL 7.12 */                             \
    F(U8, why, PCCL_CHOICE_FIRST, PCCL_CHOICE_RAISED) /* enum pccl_choice_why */                                       \
    F(U8, level, PCCL_LEVEL_EXACT, PCCL_LEVEL_4)      /* enum pccl_level */                                            \
    F(U8, fits, , )         /* number of consecutive uses that a higher level would have fitted */                     \
    F(U8, patience, , )     /* number of these after which the level rises */                                          \
    F(U8, steady, , )       /* number of uses since the last rise; 255: more, or no rise yet */                        \
    F(U32, took_us, , )     /* duration of the previous use, last launch to commit; 0: unknown */                      \
    F(U32, expected_us, , ) /* forecast for this use; 0: unknown */                                                    \
    F(U32, rtt_us, , )      /* round trip in the cost data of the launch */                                            \
    F(U32, since_us, , )    /* in done: time since the launch; otherwise 0 */                                          \
    F(U32, gap_us, , )      /* launch: time since the previous use's outcome; else 0 */                                \
    F(U32, gap_1_us, , )    /* latest known gaps, newest first; 0: unknown */                                          \
    F(U32, gap_2_us, , )                                                                                               \
    F(U32, gap_3_us, , )

#define PCCL_FIELDS_cost(F) /* figures of a group's links, sent to all its members with the view */                    \
    F(U8, mesh, 0, 1)       /* 1: all links for direct exchange (between all pairs, or of the hubs) are up */          \
    F(U32, rtt_us, , )      /* longest round trip in the ring; 0: unknown */                                           \
    F(U64, rate, , )        /* bytes per second of the ring's slowest link; 0: unknown */                              \
    F(U32, mesh_rtt_us, , ) /* longest round trip of these links; 0: not all known */                                  \
    F(U64, mesh_rate, , )   /* bytes per second of the slowest of these; 0: not all known */                           \
    F(U64, mesh_share, , )  /* the same while all pairs send; 0: unknown */                                            \
    F(U64, to_hubs, , )     /* with hubs: members to which all keep links, by position */                              \
    F(U64, from_hubs, , )   /* with hubs: members that keep links to all others */

#define PCCL_FIELDS_place(F) /* the call in which a peer currently is */                                               \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, state, PCCL_PLACE_HERE, PCCL_PLACE_DISCONNECTED)   /* enum pccl_place_state */                               \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_OPTIMIZE)          /* enum pccl_call in which it waits; NONE: unknown */     \
    F(U8, collective, PCCL_ALL_REDUCE, PCCL_COLLECTIVES - 1) /* collective of an operation */                          \
    F(U64, detail, , )                                       /* tag or round of the call */                            \
    F(U64, since_us, , )

#define PCCL_FIELDS_digest(F) /* XXH3, 128 bits */                                                                     \
    F(U64, low, , )                                                                                                    \
    F(U64, high, , )

#define PCCL_FIELDS_proof(F) /* pccl_bulk_hash of bytes, or SHA-256 of proofs (state/state.h) */                       \
    F(ID, low, , )                                                                                                     \
    F(ID, high, , )

#define PCCL_FIELDS_shape(F) F(U32, hash, , ) /* hash of a tensor's name, type, count and flags */

#define PCCL_FIELDS_tensor_line(F) /* a tensor, for error messages */                                                  \
    F(TEXT, name, , PCCL_TENSOR_NAME_MAX)                                                                              \
    F(U8, datatype, 0, 14) /* pcclDataType_t */                                                                        \
    F(U8, unequal, 0, 1)   /* 1: it may differ between peers */                                                        \
    F(U64, count, , )      /* number of elements */

#define PCCL_FIELDS_seen_link(F) /* figures of the links to a peer during a report's window */                         \
    F(ID, peer, 1, )                                                                                                   \
    F(U64, bytes, , )     /* number of bytes delivered */                                                              \
    F(U64, resent, , )    /* number of bytes sent again */                                                             \
    F(U32, busy_us, , )   /* time with data in flight and room at the receiver */                                      \
    F(U32, rtt_us, , )    /* minimum round trip; 0: unknown */                                                         \
    F(U32, lately_us, , ) /* current round trip, including queues; 0: unknown */

#define PCCL_FIELDS_seen_wait(F)                    /* a peer or an outcome for which an operation waits */            \
    F(ID, peer, , )                                 /* 0: the outcome, that is other members' contributions */         \
    F(U8, what, PCCL_WAIT_READY, PCCL_WAIT_OUTCOME) /* enum pccl_wait_kind */                                          \
    F(U8, begun, 0, 1)                              /* 1: data has moved between the two in this direction */          \
    F(U32, for_ms, , )

#define PCCL_FIELDS_seen_round(F) /* an operation that began when the previous ones had ended */                       \
    F(U64, key, , )               /* digest of its name, which is the same at all members */                           \
    F(U32, took_us, , )           /* from launch to outcome */                                                         \
    F(U32, blocked_us, , )        /* part of it in which the program waited for it */

#define PCCL_FIELDS_times(F) /* sums since the admission, without waits that have not ended */                         \
    F(U64, lived_us, , )                                                                                               \
    F(U64, operating_us, , ) /* part of it in which the program waited for operations that committed */                \
    F(U64, rounds_us, , )    /* part of that for operations like those in `rounds` */                                  \
    F(U64, lost_us, , )      /* part of lived_us in which it waited for operations that did not commit */              \
    F(U64, joint_us, , )     /* part of lived_us in joint calls */

#define PCCL_FIELDS_verdict(F) /* a problem of the run, concluded by the master from reports */                        \
    F(U64, number, , )         /* number since the master's start */                                                   \
    F(U8, class, PCCL_VERDICT_NOT_ENTERED, PCCL_VERDICT_CLASSES - 1) /* enum pccl_verdict_class */                     \
    F(ID, peer, 1, )                                                                                                   \
    F(ID, other, , ) /* the receiving end of a link whose sender is `peer`; else 0 */                                  \
    F(U32, for_ms, , )                                                                                                 \
    F(TEXT, evidence, , PCCL_VERDICT_TEXT_MAX)                                                                         \
    F(TEXT, action, , PCCL_VERDICT_TEXT_MAX) /* past or future action of the master */

#define PCCL_WIRE_STRUCTS(X)                                                                                           \
    X(build)                                                                                                           \
    X(epoch)                                                                                                           \
    X(member)                                                                                                          \
    X(named)                                                                                                           \
    X(attributes)                                                                                                      \
    X(instance)                                                                                                        \
    X(label)                                                                                                           \
    X(descriptor)                                                                                                      \
    X(choice)                                                                                                          \
    X(cost)                                                                                                            \
    X(place) X(digest) X(proof) X(shape) X(tensor_line) X(seen_link) X(seen_wait) X(seen_round) X(times) X(verdict)

/* ---- messages ---- */

#define PCCL_FIELDS_hello(F)                                                                                           \
    F(U64, magic, PCCL_PROTOCOL_MAGIC, PCCL_PROTOCOL_MAGIC)                                                            \
    F(STRUCT, build, build, )                                                                                          \
    F(SECRET, run_key, , ) /* key of the run if the peer is a member; zero: a newcomer */                              \
    F(U64, boot, , )       /* the last master that it was connected to; 0: none */                                     \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, token, 1, )    /* secret that proves the id when the peer reconnects */                                  \
    F(SECRET, link_key, 1, ) /* secret from which tickets for this peer are made (core/ticket.h) */                    \
    F(U32, group, , )                                                                                                  \
    F(U64, received, , )                              /* last sequence number received from that boot */               \
    F(U16, port, , )                                  /* the only port on which it listens */                          \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX) /* addresses at which it can be dialed */                        \
    F(TEXT, name, , PCCL_NAME_MAX)                                                                                     \
    F(BYTES, authentication, , PCCL_AUTH_MAX) /* reserved for join tokens */                                           \
    F(U8, named, 0, 1)                        /* 1: the name was given by the user and survives a restart */

#define PCCL_FIELDS_hello_ok(F)                                                                                        \
    F(STRUCT, build, build, )                                                                                          \
    F(ID, lineage, , )                                                                                                 \
    F(U64, boot, , )                                                                                                   \
    F(U8, mode, PCCL_HELLO_NEW, PCCL_HELLO_RESUME) /* enum pccl_hello_mode */                                          \
    F(U64, received, , )                           /* last sequence number received from this peer (CONTINUE) */       \
    F(U32, silence_ms, , )                                                                                             \
    F(U32, heartbeat_ms, , )                                                                                           \
    F(U32, tiny_bytes_max, , )                                                                                         \
    F(U8, open_links, 0, 1)  /* with a token: links are not encrypted after their handshake */                         \
    F(ADDRESS, observed, , ) /* address of the peer as seen by the master */                                           \
    F(U32, hold_ms, , )      /* time for which no run is founded, as one may exist; 0: none */

#define PCCL_FIELDS_refused(F)                                                                                         \
    F(U32, version, , ) /* version of the refusing side */                                                             \
    F(U16, code, , )    /* enum pccl_refusal */                                                                        \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_heartbeat(F)                                                                                       \
    F(U8, answer, 0, 1) /* 1: answer immediately with a heartbeat */                                                   \
    F(U64, stable, , )  /* by the master: all of the group know outcomes up to this one */

#define PCCL_FIELDS_leave(F) F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_vote(F)                                                                                            \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE) /* enum pccl_round_kind; SYNC: sync_vote */                    \
    F(U64, round, , )                                                                                                  \
    F(U8, drain, 0, 1)                 /* PENDING, UPDATE: 1: the sender leaves with the next update */                \
    F(TEXT, unable, , PCCL_REASON_MAX) /* OPTIMIZE: reason why the sender cannot take part, or empty */

#define PCCL_FIELDS_withdraw(F)                                                                                        \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE)                                                                \
    F(U64, round, , )
#define PCCL_FIELDS_sync_vote(F) /* a peer's vote in a synchronization of shared state: PROTOCOL 10.5 */               \
    F(U64, round, , )                                                                                                  \
    F(U64, revision, 0, UINT64_MAX - 1)                                                                                \
    F(U8, strategy, 0, 2)          /* pcclSharedStateSyncStrategy_t */                                                 \
    F(U8, fresh, 0, 1)             /* 1: new in the run, and lacks the tensors that may differ */                      \
    F(U8, torn, 0, 1)              /* 1: partly overwritten by a transfer; must not be fetched */                      \
    F(U8, unequal, 0, 1)           /* 1: it has tensors that may differ between peers */                               \
    F(STRUCT, structure, digest, ) /* digest of all shapes */                                                          \
    F(STRUCT, content, digest, )   /* digest of all tensors that must be equal */                                      \
    F(LIST, shapes, shape, PCCL_TENSORS_MAX)                                                                           \
    F(LIST, lines, tensor_line, PCCL_TENSORS_DESCRIBED_MAX) /* descriptions of the first tensors */                    \
    F(TEXT, unable, , PCCL_REASON_MAX)                      /* reason why the sender cannot take part, or empty */

#define PCCL_FIELDS_sync_done(F) /* the peer has done its part of the plan, or failed */                               \
    F(U64, round, , )                                                                                                  \
    F(U8, failed, 0, 1)                                                                                                \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_sync_proof(F) /* proof by a holder of the elected content, for peers that fetch it */              \
    F(U64, round, , )                                                                                                  \
    F(STRUCT, proof, proof, ) /* proof of all tensors that must be equal; 0: not computed */

#define PCCL_FIELDS_measured(F) /* result of a test of the link to the peer named by `measure` */                      \
    F(U64, test, , )                                                                                                   \
    F(U8, failed, 0, 1)                                                                                                \
    F(U8, how, 0, PCCL_LINK_SILENT) /* failed: enum pccl_link_end; 0: not because of the link */                       \
    F(U32, rtt_us, , )                                                                                                 \
    F(U64, rate, , ) /* bytes per second */

#define PCCL_FIELDS_describe(F) F(U64, ticket, , ) /* requests the topology report of the sender's group */

#define PCCL_FIELDS_done(F) /* the sender's result is complete; if tiny: its contribution */                           \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, ) /* view in which the operation started */                                                 \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(U8, tiny, 0, 1)                                                                                                  \
    F(LIST, choice, choice, 1)                  /* bulk with a budget: as launched, with since_us and gap_us */        \
    F(BYTES, payload, , PCCL_FOUNDED_BYTES_MAX) /* only a founding may exceed PCCL_TINY_BYTES_MAX */

#define PCCL_FIELDS_failed(F)                                                                                          \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, class, PCCL_CLASS_PEER_LOST, PCCL_CLASS_COUNT - 1) /* enum pccl_class */                                     \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_abort_request(F)                                                                                   \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, class, PCCL_CLASS_PEER_LOST, PCCL_CLASS_COUNT - 1)                                                           \
    F(TEXT, reason, , PCCL_REASON_MAX) /* empty: the class says enough */

#define PCCL_FIELDS_view_ack(F) /* operations that a view change ended at this peer */                                 \
    F(STRUCT, view, epoch, )                                                                                           \
    F(LIST, instances, instance, PCCL_OPS_HELD_MAX)

#define PCCL_FIELDS_subgroup_end(F) F(U64, subgroup, 1, PCCL_FOUNDING / 2) /* ends the subgroup for all members */

#define PCCL_FIELDS_listen(F) /* number of offers of tiny sends that the sender accepts for a tag */                   \
    F(U64, subgroup, , )      /* 0: the whole group */                                                                 \
    F(U64, tag, , )                                                                                                    \
    F(U32, count, 0, PCCL_OFFERS_MAX) /* replaces the previous number */

#define PCCL_FIELDS_link_lost(F)                                                                                       \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, incoming, 0, 1)           /* 1: a link from that peer, for its data */                                       \
    F(U8, reversed, 0, 1)           /* 1: the end that receives the data dialed it */                                  \
    F(U8, how, 0, PCCL_LINK_SILENT) /* enum pccl_link_end; 0: the sender cannot dial, see `shortage` */

#define PCCL_FIELDS_shortage(F) F(TEXT, reason, , PCCL_REASON_MAX) /* why the sender cannot open or accept links */

#define PCCL_FIELDS_want_link(F) F(ID, peer, 1, ) /* requests a link to this member by `warm_up` */

#define PCCL_FIELDS_link_gone(F) /* a data connection has ended at the receiver of the data, or is not possible */     \
    F(ID, peer, 1, )             /* to the master: the sender of the data; by the master: its receiver */              \
    F(U64, number, 1, )          /* number from its link_hello */

#define PCCL_FIELDS_want_back(F) /* requests a connection that this peer dials in place of the sender */               \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, kind, PCCL_LINK_RING, PCCL_LINK_MEASURE)                                                                     \
    F(U8, slot, 0, PCCL_POOL_LAST)                                                                                     \
    F(U64, number, 1, ) /* as in link_hello */

#define PCCL_FIELDS_dial_back(F) /* that request, to the peer that dials */                                            \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , ) /* ticket for the link_hello */                                                              \
    F(U8, kind, PCCL_LINK_RING, PCCL_LINK_MEASURE)                                                                     \
    F(U8, slot, 0, PCCL_POOL_LAST)                                                                                     \
    F(U64, number, 1, )                                                                                                \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_link_up(F)                                                                                         \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, reversed, 0, 1) /* 1: the other end dialed */                                                                \
    F(U32, rtt_us, , )    /* round trip measured by the system; 0: unknown */                                          \
    F(U64, rate, , )      /* bytes per second while data flowed; 0: unknown */                                         \
    F(U8, shared, 0, 1)   /* 1: other links shared the line; the rate is a lower bound */

#define PCCL_FIELDS_where(F)                                 /* the call in which the sender waits */                  \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_OPTIMIZE)          /* enum pccl_call; NONE: it no longer waits */            \
    F(U8, collective, PCCL_ALL_REDUCE, PCCL_COLLECTIVES - 1) /* only for an operation */                               \
    F(STRUCT, instance, instance, )                          /* only for an operation */                               \
    F(U64, round, , )                                        /* only for a joint call */                               \
    F(U64, since_us, , )                                                                                               \
    F(U8, several, 0, 1) /* 1: other threads also wait, or for several operations */

#define PCCL_FIELDS_training(F) /* a peer's report about its training: PROTOCOL 9.9 */                                 \
    F(U64, step, , )                                                                                                   \
    F(U64, loss, , ) /* bit pattern of a double, which may have any value */

#define PCCL_FIELDS_resume(F) /* to a restarted master: this peer's knowledge, in several messages */                  \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, update, , )                                                                                                 \
    F(U64, sync, , )                                                                                                   \
    F(U64, query, , )                                                                                                  \
    F(U64, optimize, , )                                                                                               \
    F(U64, revision, , )                                                                                               \
    F(U64, decisions, , ) /* highest decision number seen */                                                           \
    F(LIST, members, member, PCCL_PEERS_MAX)                                                                           \
    F(LIST, ring, id, PCCL_PEERS_MAX)                                                                                  \
    F(STRUCT, cost, cost, ) /* cost data of the view */

#define PCCL_FIELDS_resume_operation(F)                                                                                \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, state, PCCL_RESUME_RUNNING, PCCL_RESUME_ABORTED) /* enum pccl_resume_state */                                \
    F(U8, class, PCCL_CLASS_NONE, PCCL_CLASS_COUNT - 1)                                                                \
    F(U8, tiny, 0, 1)                                                                                                  \
    F(U32, world, , )                                                                                                  \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(LIST, choice, choice, 1)                  /* COMMITTED: as in its outcome; DONE: as launched */                  \
    F(BYTES, payload, , PCCL_FOUNDED_BYTES_MAX) /* DONE: contribution; COMMITTED: result */                            \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_resume_round(F) /* outcome of the last round of a kind */                                          \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE)                                                                \
    F(U64, round, , )                                                                                                  \
    F(U8, outcome, PCCL_ROUND_DONE, PCCL_ROUND_FAILED)                                                                 \
    F(STRUCT, attributes, attributes, )                                                                                \
    F(U64, revision, , )                                                                                               \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_resume_subgroup(F)          /* a subgroup that, to this peer's knowledge, has not ended */         \
    F(STRUCT, founding, instance, )             /* the operation that created it */                                    \
    F(BYTES, founded, , PCCL_FOUNDED_BYTES_MAX) /* result of that operation (wire/subgroup.h) */

#define PCCL_FIELDS_sight(F) /* the whole group's operations since the last report: PROTOCOL 9.8 */                    \
    F(U32, window_ms, 1, 3600000)                                                                                      \
    F(U32, stalled_ms, , ) /* time for which the process was runnable but not running */                               \
    F(U32, operations, , ) /* number of operations that ended */                                                       \
    F(U64, took_us, , )    /* sum of their durations from launch to outcome */                                         \
    F(STRUCT, times, times, )                                                                                          \
    F(LIST, rounds, seen_round, PCCL_TELEMETRY_ROUNDS_MAX) /* some of them, sorted by key */                           \
    F(LIST, links, seen_link, PCCL_TELEMETRY_LINKS_MAX)    /* one entry per peer, sorted by id */                      \
    F(STRUCT, instance, instance, )                        /* the operation that has waited longest, with `waits` */   \
    F(LIST, waits, seen_wait, PCCL_TELEMETRY_WAITS_MAX)                                                                \
    F(U64, ring_bytes, , ) /* approximate size of running operations with one receiver */                              \
    F(U64, ring_left, , )  /* approximate size of their unsent part */

/* `dead`: peers whose ports refuse connections, which is evidence of their death. */
#define PCCL_FIELDS_resume_end(F) F(LIST, dead, id, PCCL_PEERS_MAX)

#define PCCL_FIELDS_welcome(F) /* admission */                                                                         \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, update, , )                                                                                                 \
    F(U64, sync, , )                                                                                                   \
    F(U64, query, , )                                                                                                  \
    F(U64, optimize, , )                                                                                               \
    F(U64, revision, , )                                                                                               \
    F(SECRET, run_key, 1, ) /* known only to members; proves membership to a restarted master */                       \
    F(LIST, members, member, PCCL_PEERS_MAX)                                                                           \
    F(LIST, ring, id, PCCL_PEERS_MAX)                                                                                  \
    F(STRUCT, cost, cost, )

#define PCCL_FIELDS_expelled(F)                                                                                        \
    F(U16, code, PCCL_REFUSAL_VERSION, PCCL_REFUSAL_DRAINED) /* enum pccl_refusal */                                   \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_epoch_change(F)                                                                                    \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(U8, full, 0, 1) /* 1: `added` is the complete list */                                                            \
    F(LIST, added, member, PCCL_PEERS_MAX)                                                                             \
    F(LIST, removed, id, PCCL_PEERS_MAX)                                                                               \
    F(U8, view_changed, 0, 1) /* 1: the receiver's group has a new view, with this ring */                             \
    F(LIST, ring, id, PCCL_PEERS_MAX)                                                                                  \
    F(STRUCT, cost, cost, )            /* cost data, if view_changed */                                                \
    F(TEXT, reason, , PCCL_REASON_MAX) /* reason of the change */                                                      \
    F(U8, replans, 0, 1)               /* 1: same members; running operations restart (PROTOCOL 5.4) */

#define PCCL_FIELDS_outcome(F)                                                                                         \
    F(STRUCT, instance, instance, )                                                                                    \
    F(U64, decision, , ) /* number of the outcome in its group */                                                      \
    F(U64, stable, , )                                                                                                 \
    F(U8, class, PCCL_CLASS_NONE, PCCL_CLASS_COUNT - 1) /* enum pccl_class; NONE: committed */                         \
    F(U32, world, , )                                   /* committed: number of members in the view */                 \
    F(U8, tiny, 0, 1)                                   /* committed: 1 if tiny; `result` is then its result */        \
    F(BYTES, result, , PCCL_FOUNDED_BYTES_MAX)                                                                         \
    F(LIST, choice, choice, 1) /* committed bulk operation with a budget: for the next use */                          \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_subgroup_ended(F) /* its undecided operations are aborted as PEER_LOST */                          \
    F(U64, subgroup, 1, PCCL_FOUNDING / 2)                                                                             \
    F(TEXT, reason, , PCCL_REASON_MAX)

/* Offers a tiny send to its receiver. */
#define PCCL_FIELDS_offer(F) F(STRUCT, instance, instance, )

#define PCCL_FIELDS_round(F)                                                                                           \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE)                                                                \
    F(U64, round, , )                                                                                                  \
    F(U8, outcome, PCCL_ROUND_DONE, PCCL_ROUND_FAILED) /* enum pccl_round_outcome */                                   \
    F(STRUCT, attributes, attributes, ) /* equal for all of a group, even if a restarted master repeats them */        \
    F(U64, revision, , )                /* SYNC, DONE: revision of the state that all now have */                      \
    F(TEXT, reason, , PCCL_REASON_MAX)  /* FAILED: the reason */
#define PCCL_FIELDS_sync_plan(F)        /* the elected state; a restarted master may send another one */               \
    F(U64, round, , )                                                                                                  \
    F(U64, revision, , )                                                                                               \
    F(U8, requests, 0, 1)      /* 1: fetch missing content from the peers in sync_donor; 0: serve */                   \
    F(U8, takes_unequal, 0, 1) /* 1: also fetch tensors that may differ, from a peer that has them */                  \
    F(STRUCT, content, digest, )

#define PCCL_FIELDS_sync_donor(F) /* one more peer that has the elected content */                                     \
    F(U64, round, , )                                                                                                  \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , ) /* ticket for the link_hello */                                                              \
    F(U8, holds_unequal, 0, 1)                                                                                         \
    F(U8, reversed, 0, 1)     /* 1: as in warm_up */                                                                   \
    F(STRUCT, proof, proof, ) /* proof of the elected content */                                                       \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_measure(F) /* request to measure the link to this peer */                                          \
    F(U64, test, , )                                                                                                   \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , )                    /* ticket for the link_hello */                                           \
    F(U32, limit_ms, 1, PCCL_MEASURE_MS_MAX) /* time limit, counted from the first byte of data */                     \
    F(U8, reversed, 0, 1)                    /* 1: as in warm_up */                                                    \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_topology_report(F) /* answer to describe: the report as text (topology/report.h) */                \
    F(U64, ticket, , )                                                                                                 \
    F(BYTES, text, , PCCL_TOPOLOGY_REPORT_BYTES_MAX)

#define PCCL_FIELDS_warm_up(F) /* request to open and keep a link to this peer */                                      \
    F(ID, lineage, , )         /* lineage of the run, for newcomers that do not know it */                             \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , ) /* ticket for the link_hello */                                                              \
    F(U8, answers, 0, 1)  /* 1: answer to `want_link`; kept only while the receiver sends */                           \
    F(U8, reversed, 0, 1) /* 1: do not dial, but request each connection by `want_back` */                             \
    F(U8, apart, 0, 1)    /* 1: the master reaches the port of neither, and knows no link that has worked */           \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_forget(F) F(ID, peer, 1, ) /* a newcomer that had links has left */

#define PCCL_FIELDS_names(F) /* sent before the epoch, welcome or warm_up that mentions the peers */                   \
    F(LIST, names, named, PCCL_NAMES_SENT_MAX)

#define PCCL_FIELDS_who_is_where(F) /* answer to `where` */                                                            \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_OPTIMIZE)                                                                    \
    F(STRUCT, instance, instance, )                                                                                    \
    F(U64, round, , )                                                                                                  \
    F(U8, stuck, PCCL_STUCK_NOT, PCCL_STUCK_CERTAIN) /* enum pccl_stuck */                                             \
    F(U32, missing, , )                              /* total number of missing members; only some are in the list */  \
    F(LIST, places, place, PCCL_PLACES_MAX)

#define PCCL_FIELDS_verdicts(F) /* all current verdicts for the receiver's group */                                    \
    F(LIST, verdicts, verdict, PCCL_VERDICTS_MAX)

#define PCCL_FIELDS_recovered(F) /* a restarted master has recovered: resend outstanding messages */                   \
    F(U64, decisions, , )

#define PCCL_FIELDS_link_hello(F) /* first frame on a connection to a peer's port */                                   \
    F(U64, magic, PCCL_PROTOCOL_MAGIC, PCCL_PROTOCOL_MAGIC)                                                            \
    F(STRUCT, build, build, )                                                                                          \
    F(ID, lineage, , )                                                                                                 \
    F(ID, from, , )                                                                                                    \
    F(ID, to, 1, )                                 /* the peer that the sender intends to reach */                     \
    F(U8, kind, PCCL_LINK_RING, PCCL_LINK_MEASURE) /* enum pccl_link_kind */                                           \
    F(U8, slot, 0, PCCL_POOL_LAST)                 /* index of the connection in the pool */                           \
    F(U8, reversed, 0, 1)                          /* 1: dialed because of `dial_back` */                              \
    F(U64, number, , )                             /* RING, or reversed: number of the connection; otherwise 0 */      \
    F(BYTES, authentication, , PCCL_AUTH_MAX)      /* ticket; empty for a probe */

#define PCCL_FIELDS_link_ok(F)                                                                                         \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, capabilities, , )                                                                                           \
    F(ID, peer, 1, )

#define PCCL_FIELDS_ready(F) /* permits stripes below `granted`; repeated as credit grows */                           \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(U8, algorithm, , )                    /* enum pccl_algorithm */                                                  \
    F(U32, segment_elements, 1, UINT32_MAX) /* depends on view and descriptor, like `algorithm`; must be equal */      \
    F(U64, granted, , )

#define PCCL_FIELDS_data(F) /* one segment; its `length` bytes follow the frame */                                     \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, stripe, , )                                                                                                 \
    F(U32, step, , )                                                                                                   \
    F(U32, length, 1, PCCL_SEGMENT_BYTES_MAX)

#define PCCL_FIELDS_state_want(F) /* on a link of kind STATE; answered in order */                                     \
    F(U64, round, , )                                                                                                  \
    F(U8, what, PCCL_WANT_ROOTS, PCCL_WANT_DATA) /* enum pccl_want_kind */                                             \
    F(U32, tensor, , )                           /* ROOTS: first tensor */                                             \
    F(U64, first, , )                            /* CHUNKS: first chunk; DATA: chunk; ROOTS: 0 */                      \
    F(U32, count, 1, PCCL_STATE_DIGESTS_MAX)     /* number of proofs; 1 for DATA */

#define PCCL_FIELDS_state_proofs(F) /* answer to ROOTS and CHUNKS; fewer than requested at the end */                  \
    F(U64, round, , )                                                                                                  \
    F(U8, what, PCCL_WANT_ROOTS, PCCL_WANT_CHUNKS)                                                                     \
    F(U32, tensor, , )                                                                                                 \
    F(U64, first, , )                                                                                                  \
    F(LIST, proofs, proof, PCCL_STATE_DIGESTS_MAX)

#define PCCL_FIELDS_state_data(F) /* answer to DATA; its `length` bytes follow the frame */                            \
    F(U64, round, , )                                                                                                  \
    F(U32, tensor, , )                                                                                                 \
    F(U64, chunk, , )                                                                                                  \
    F(U32, length, 1, PCCL_STATE_CHUNK_BYTES)

#define PCCL_FIELDS_echo(F) /* on a link of kind MEASURE; echoed immediately with answer 1 */                          \
    F(U8, answer, 0, 1)                                                                                                \
    F(U64, stamp, , ) /* any value */

#define PCCL_FIELDS_flood(F) F(BYTES, filler, , PCCL_FLOOD_BYTES_MAX) /* on a link of kind MEASURE: load */

#define PCCL_FIELDS_flood_seen(F)                                                                                      \
    F(U64, bytes, , ) /* number of bytes of filler received over this connection; sent repeatedly */

#define PCCL_FIELDS_link_bye(F) F(TEXT, reason, , PCCL_REASON_MAX) /* an intended end is no evidence of failure */

/* X(id, name, direction) */
#define PCCL_WIRE_MESSAGES(X)                                                                                          \
    X(1, hello, "peer to master, first on the connection, not numbered")                                               \
    X(2, hello_ok, "master to peer, not numbered")                                                                     \
    X(3, refused, "either side, not numbered; the connection closes after it")                                         \
    X(4, heartbeat, "either direction, not numbered, carries an acknowledgment")                                       \
    X(5, leave, "peer to master")                                                                                      \
    X(6, vote, "peer to master")                                                                                       \
    X(7, withdraw, "peer to master")                                                                                   \
    X(8, done, "peer to master")                                                                                       \
    X(9, failed, "peer to master")                                                                                     \
    X(10, abort_request, "peer to master")                                                                             \
    X(11, view_ack, "peer to master")                                                                                  \
    X(12, link_lost, "peer to master")                                                                                 \
    X(13, link_up, "peer to master")                                                                                   \
    X(14, where, "peer to master")                                                                                     \
    X(15, resume, "peer to master")                                                                                    \
    X(16, resume_operation, "peer to master")                                                                          \
    X(17, resume_round, "peer to master")                                                                              \
    X(18, resume_end, "peer to master")                                                                                \
    X(19, sync_vote, "peer to master")                                                                                 \
    X(20, sync_done, "peer to master")                                                                                 \
    X(21, measured, "peer to master")                                                                                  \
    X(22, describe, "peer to master")                                                                                  \
    X(23, sync_proof, "peer to master")                                                                                \
    X(24, subgroup_end, "peer to master")                                                                              \
    X(25, resume_subgroup, "peer to master")                                                                           \
    X(26, sight, "peer to master")                                                                                     \
    X(27, want_back, "peer to master")                                                                                 \
    X(28, training, "peer to master")                                                                                  \
    X(29, listen, "peer to master")                                                                                    \
    X(30, shortage, "peer to master")                                                                                  \
    X(31, want_link, "peer to master")                                                                                 \
    X(32, welcome, "master to peer")                                                                                   \
    X(33, expelled, "master to peer")                                                                                  \
    X(34, epoch_change, "master to peer")                                                                              \
    X(35, outcome, "master to peer")                                                                                   \
    X(36, round, "master to peer")                                                                                     \
    X(37, warm_up, "master to peer")                                                                                   \
    X(38, forget, "master to peer")                                                                                    \
    X(39, who_is_where, "master to peer")                                                                              \
    X(40, recovered, "master to peer")                                                                                 \
    X(41, sync_plan, "master to peer")                                                                                 \
    X(42, sync_donor, "master to peer")                                                                                \
    X(43, measure, "master to peer")                                                                                   \
    X(44, topology_report, "master to peer")                                                                           \
    X(46, names, "master to peer")                                                                                     \
    X(47, subgroup_ended, "master to peer")                                                                            \
    X(48, verdicts, "master to peer")                                                                                  \
    X(49, offer, "master to peer")                                                                                     \
    X(50, link_gone, "peer to master, and from there to the peer that sends over it")                                  \
    X(51, dial_back, "master to peer")                                                                                 \
    X(64, link_hello, "peer to peer (or master to peer, to probe), first on a data connection")                        \
    X(65, link_ok, "answer to link_hello")                                                                             \
    X(66, link_bye, "peer to peer")                                                                                    \
    X(67, ready, "peer to peer, against the direction of the data: over a connection for the other side's data")       \
    X(68, data, "peer to peer, over a connection for the sender's data")                                               \
    X(69, state_want, "peer to peer, to a donor that the master has named")                                            \
    X(70, state_proofs, "answer to state_want")                                                                        \
    X(71, state_data, "answer to state_want")                                                                          \
    X(72, echo, "peer to peer, either direction")                                                                      \
    X(73, flood, "peer to peer, over a connection that the sender dialed")                                             \
    X(74, flood_seen, "answer to flood")

/* ---- enumerations on the wire: V(name, value, description) ---- */

#define PCCL_ENUM_VALUE(name, value, reason) PCCL_##name = value,

#define PCCL_ENUM_hello_mode(V)                                                                                        \
    V(HELLO_NEW, 1, "a newcomer: wait for welcome")                                                                    \
    V(HELLO_CONTINUE, 2, "the session continues: both sides resend messages that the other has not received")          \
    V(HELLO_RESUME, 3, "the master has no record of the session: start a new one and send resume")
enum pccl_hello_mode { PCCL_ENUM_hello_mode(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_refusal(V)                                                                                           \
    V(REFUSAL_VERSION, 1, "another protocol version, or another schema")                                               \
    V(REFUSAL_MALFORMED, 2, "malformed, or not allowed here")                                                          \
    V(REFUSAL_FULL, 3, "a limit is reached")                                                                           \
    V(REFUSAL_LINEAGE, 4, "another run, or a run that has ended")                                                      \
    V(REFUSAL_IDENTITY, 5, "wrong token, or not the intended peer")                                                    \
    V(REFUSAL_NOT_WARM, 6, "links to the future neighbors could not be opened")                                        \
    V(REFUSAL_SILENT, 7, "silent for too long")                                                                        \
    V(REFUSAL_GONE, 8, "it was removed or found dead earlier")                                                         \
    V(REFUSAL_UNREACHABLE, 9, "no ring can be built with it")                                                          \
    V(REFUSAL_PROTOCOL, 10, "it violated the protocol")                                                                \
    V(REFUSAL_SHUTDOWN, 11, "the master is shutting down")                                                             \
    V(REFUSAL_LEFT, 12, "it left")                                                                                     \
    V(REFUSAL_STATE, 13, "its shared state does not match its group's")                                                \
    V(REFUSAL_OPERATOR, 14, "an operator removed it")                                                                  \
    V(REFUSAL_SLOW, 15, "it was slow for too long, and the master expels slow peers")                                  \
    V(REFUSAL_DRAINED, 16, "an operator or its own program drained it")
enum pccl_refusal { PCCL_ENUM_refusal(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_collective(V)                                                                                        \
    V(ALL_REDUCE, 0, "all get the reduction of all tensors")                                                           \
    V(BROADCAST, 1, "all get the root's tensor")                                                                       \
    V(ALL_GATHER, 2, "all get the parts of all, in the order of members")                                              \
    V(REDUCE_SCATTER, 3, "each gets its part of the reduction of all tensors")                                         \
    V(BARRIER, 4, "no member continues before all have entered")                                                       \
    V(ALL_GATHER_V, 5, "all get the blobs of all; the lengths are exchanged first in a tiny operation")                \
    V(FOUND, 6, "the listed members create a subgroup")                                                                \
    V(REDUCE, 7, "the root gets the reduced elements of all")                                                          \
    V(GATHER, 8, "the root gets the parts of all")                                                                     \
    V(SCATTER, 9, "each gets its part of the root's tensor")                                                           \
    V(ALL_TO_ALL, 10, "each gets a part from each")                                                                    \
    V(SEND, 11, "one peer of a pair gets the other one's tensor")                                                      \
    V(GATHER_V, 12, "the root gets the blobs of all; the lengths are exchanged first, here and below")                 \
    V(SCATTER_V, 13, "each gets one of the root's blobs")                                                              \
    V(ALL_TO_ALL_V, 14, "each gets a blob from each")                                                                  \
    V(COALESCED, 15, "all get the reductions of several tensors: coalesced.h")                                         \
    V(EXCLUSIVE_SCAN, 16, "each gets the reduction of the tensors of all before it")                                   \
    V(INCLUSIVE_SCAN, 17, "the same including its own tensor")
enum pccl_collective { PCCL_ENUM_collective(PCCL_ENUM_VALUE) PCCL_COLLECTIVES };

#define PCCL_ENUM_class(V)                                                                                             \
    V(CLASS_NONE, 0, "committed")                                                                                      \
    V(CLASS_PEER_LOST, 1, "aborted; a retry may succeed, unlike with the other classes")                               \
    V(CLASS_MISMATCH, 2, "peers called it with different arguments")                                                   \
    V(CLASS_ABORTED, 3, "a caller aborted it")                                                                         \
    V(CLASS_DEADLINE, 4, "its deadline passed")                                                                        \
    V(CLASS_INTERNAL, 5, "an internal error")                                                                          \
    V(CLASS_MEMBERS_CHANGED, 6, "the members of the view differ from the members that a caller expected")
enum pccl_class { PCCL_ENUM_class(PCCL_ENUM_VALUE) PCCL_CLASS_COUNT };

#define PCCL_ENUM_level(V)                                                                                             \
    V(LEVEL_EXACT, 0, "elements are sent unquantized")                                                                 \
    V(LEVEL_16, 1, "zero_point_scale to u16")                                                                          \
    V(LEVEL_8, 2, "e4m3")                                                                                              \
    V(LEVEL_4, 3, "e2m1")
enum pccl_level { PCCL_ENUM_level(PCCL_ENUM_VALUE) PCCL_LEVELS };

#define PCCL_ENUM_choice_why(V)                                                                                        \
    V(CHOICE_NONE, 0, "nothing is chosen: in memory only")                                                             \
    V(CHOICE_FIRST, 1, "no earlier use counts, so the view's cost data decide")                                        \
    V(CHOICE_KEPT, 2, "the same as in the previous use")                                                               \
    V(CHOICE_LOWERED, 3, "the previous use took too long")                                                             \
    V(CHOICE_RAISED, 4, "the previous uses left time for more bits")
enum pccl_choice_why { PCCL_ENUM_choice_why(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_link_end(V)                                                                                          \
    V(LINK_CLOSED, 1, "FIN or RST")                                                                                    \
    V(LINK_REFUSED, 2, "dialing: no process listens there")                                                            \
    V(LINK_OTHER, 3, "dialing: another peer answers there")                                                            \
    V(LINK_TIMEOUT, 4, "dialing: no answer")                                                                           \
    V(LINK_UNREACHABLE, 5, "dialing: no route, or no candidate address can be dialed")                                 \
    V(LINK_SILENT, 6, "an open link was silent for too long")
enum pccl_link_end { PCCL_ENUM_link_end(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_link_kind(V)                                                                                         \
    V(LINK_RING, 1, "a link that carries data")                                                                        \
    V(LINK_PROBE, 2, "only identifies the peer that answers")                                                          \
    V(LINK_STATE, 3, "fetches shared state during a synchronization")                                                  \
    V(LINK_MEASURE, 4, "measures the link, during an optimization")
enum pccl_link_kind { PCCL_ENUM_link_kind(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_round_kind(V)                                                                                        \
    V(ROUND_UPDATE, 0, "topology update")                                                                              \
    V(ROUND_PENDING, 1, "query for pending peers")                                                                     \
    V(ROUND_SYNC, 2, "synchronization of shared state; its rounds are counted for each group")                         \
    V(ROUND_OPTIMIZE, 3, "optimization of the topology")
enum pccl_round_kind { PCCL_ENUM_round_kind(PCCL_ENUM_VALUE) PCCL_ROUND_KINDS };

#define PCCL_ENUM_round_outcome(V)                                                                                     \
    V(ROUND_DONE, 0, "update, optimize: decided; pending: no peer waits; sync: all hold the same state")               \
    V(ROUND_TRUE, 1, "pending: a peer waits")                                                                          \
    V(ROUND_WITHDRAWN, 2, "only this peer's vote was taken back")                                                      \
    V(ROUND_FAILED, 3, "sync, optimize: it failed for the whole group")
enum pccl_round_outcome { PCCL_ENUM_round_outcome(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_call(V)                                                                                              \
    V(CALL_NONE, 0, "none, or unknown")                                                                                \
    V(CALL_UPDATE, 1, "topology update")                                                                               \
    V(CALL_PENDING, 2, "query for pending peers")                                                                      \
    V(CALL_OPERATION, 3, "an operation")                                                                               \
    V(CALL_CONNECT, 4, "its admission")                                                                                \
    V(CALL_SYNC, 5, "synchronization of shared state")                                                                 \
    V(CALL_OPTIMIZE, 6, "optimization of the topology")
enum pccl_call { PCCL_ENUM_call(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_want_kind(V)                                                                                         \
    V(WANT_ROOTS, 1, "one proof per tensor")                                                                           \
    V(WANT_CHUNKS, 2, "the proofs of a tensor's chunks")                                                               \
    V(WANT_DATA, 3, "a chunk")
enum pccl_want_kind { PCCL_ENUM_want_kind(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_place_state(V)                                                                                       \
    V(PLACE_HERE, 0, "it has made this call")                                                                          \
    V(PLACE_ELSEWHERE, 1, "it waits in another call")                                                                  \
    V(PLACE_SILENT, 2, "it is silent, or is computing")                                                                \
    V(PLACE_DISCONNECTED, 3, "its connection is lost, but it may reconnect")
enum pccl_place_state { PCCL_ENUM_place_state(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_stuck(V)                                                                                             \
    V(STUCK_NOT, 0, "the calls may meet")                                                                              \
    V(STUCK_LIKELY, 1, "a cycle of calls that wait for each other, unless a thread that has made no call yet helps")   \
    V(STUCK_CERTAIN, 2, "a cycle that no thread can break; it contains an update, an optimization or a synchronization")
enum pccl_stuck { PCCL_ENUM_stuck(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_wait_kind(V)                                                                                         \
    V(WAIT_READY, 1, "its ready message: as far as known, it has not entered")                                         \
    V(WAIT_CREDIT, 2, "its credit for more data")                                                                      \
    V(WAIT_ROOM, 3, "its receiving of sent data")                                                                      \
    V(WAIT_DATA, 4, "its data")                                                                                        \
    V(WAIT_OUTCOME, 5, "the outcome")
enum pccl_wait_kind { PCCL_ENUM_wait_kind(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_verdict_class(V)                                                                                     \
    V(VERDICT_NOT_ENTERED, 1, "others wait in an operation that this peer has not entered")                            \
    V(VERDICT_HANG, 2, "all have entered an operation, but it is stuck because of this peer or link")                  \
    V(VERDICT_SLOW_LINK, 3, "this link carries less than others, or loses more")                                       \
    V(VERDICT_SLOW_SENDER, 4, "all data that this peer sends is slow")                                                 \
    V(VERDICT_SLOW_RECEIVER, 5, "all data that is sent to this peer is slow")                                          \
    V(VERDICT_SLOW_PEER, 6, "this peer's process is runnable but does not run")                                        \
    V(VERDICT_SLOW_COMPUTATION, 7, "this peer enters operations later than others")
enum pccl_verdict_class { PCCL_ENUM_verdict_class(PCCL_ENUM_VALUE) PCCL_VERDICT_CLASSES };

#define PCCL_ENUM_resume_state(V)                                                                                      \
    V(RESUME_RUNNING, 0, "launched")                                                                                   \
    V(RESUME_DONE, 1, "its own part is complete")                                                                      \
    V(RESUME_COMMITTED, 2, "the outcome is known: a commit")                                                           \
    V(RESUME_ABORTED, 3, "the outcome is known: an abort, or a tombstone")
enum pccl_resume_state { PCCL_ENUM_resume_state(PCCL_ENUM_VALUE) };

/* X(name, fields that use it) */
#define PCCL_WIRE_ENUMS(X)                                                                                             \
    X(hello_mode, "field `mode` of hello_ok")                                                                          \
    X(refusal, "field `code` of refused and expelled")                                                                 \
    X(collective, "field `collective`: kind of operation")                                                             \
    X(class, "field `class`: end of an operation")                                                                     \
    X(level, "field `level` of choice")                                                                                \
    X(choice_why, "field `why` of choice: reason for this level")                                                      \
    X(link_end, "field `how` of link_lost")                                                                            \
    X(link_kind, "field `kind` of link_hello")                                                                         \
    X(round_kind, "field `kind` of vote, withdraw, round and resume_round")                                            \
    X(round_outcome, "field `outcome` of round and resume_round")                                                      \
    X(call, "field `call`: call in which a peer waits")                                                                \
    X(stuck, "field `stuck` of who_is_where")                                                                          \
    X(place_state, "field `state` of place")                                                                           \
    X(resume_state, "field `state` of resume_operation")                                                               \
    X(wait_kind, "field `what` of seen_wait")                                                                          \
    X(verdict_class, "field `class` of verdict")                                                                       \
    X(want_kind, "field `what` of state_want and state_proofs")

#endif
