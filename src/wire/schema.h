/*
 * The only description of all frames on control and data connections. The struct of each message, the field table for
 * encoding, decoding, printing and documentation, and the seeds of the fuzzers are all made from it.
 *
 * After a release ids are not reused and fields keep their order. Each landing that changes a message raises
 * PCCL_PROTOCOL_VERSION. Builds of one version with different tables refuse each other by their digest (wire/digest.h).
 * Frozen for all versions are the frame header, the ids of HELLO, HELLO_OK, REFUSED and LINK_HELLO, the beginning of
 * the greetings (the magic of HELLO and LINK_HELLO, and the struct build), and all of REFUSED: so any two builds can
 * exchange the reason why they do not connect (unit/greeting has their bytes).
 *
 * F(kind, name, type, cap): kind is U8 U16 U32 U64 ID SECRET ADDRESS BYTES TEXT STRUCT LIST; type is the struct's name
 * for STRUCT and LIST; cap limits the bytes of BYTES and TEXT and the items of LIST. Integers have the least and the
 * greatest valid value instead; without them any value is valid. For an ID 1 means that it must not be zero.
 */
#ifndef PCCL_WIRE_SCHEMA_H
#define PCCL_WIRE_SCHEMA_H

#include "core/limits.h"

#define PCCL_PROTOCOL_VERSION 14u
#define PCCL_FOUNDING UINT64_MAX                         /* in place of a subgroup's name: the operation founds one */
#define PCCL_PROTOCOL_MAGIC UINT64_C(0x31306c636370ab89) /* in every hello */

/* ---- structs inside messages ---- */

#define PCCL_FIELDS_build(F) /* the sender of a greeting; frozen */                                                    \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, digest, , )       /* of this schema: wire/digest.h */                                                       \
    F(U64, capabilities, , ) /* reserved: 0, and ignored */                                                            \
    F(U32, release, , )      /* major * 10000 + minor * 100 + patch */                                                 \
    F(U64, commit, , )       /* the first 16 hexadecimal digits of its name; 0: unknown */                             \
    F(U64, committed, , )    /* when, UTC, in decimal digits: YYYYMMDDhhmmss; 0: unknown */

#define PCCL_FIELDS_epoch(F) /* (inc, number), compared in that order */                                               \
    F(U32, inc, , )                                                                                                    \
    F(U64, number, , )

#define PCCL_FIELDS_member(F)                                                                                          \
    F(ID, peer, 1, )                                                                                                   \
    F(U32, group, , )                                                                                                  \
    F(U64, admitted, 1, UINT64_MAX) /* number of its admission in the run: the order of members and ranks */           \
    F(ID, token_digest, , )         /* of the token in its hello, so that no other peer can use its id */

#define PCCL_FIELDS_named(F) /* the display name of a peer */                                                          \
    F(ID, peer, 1, )                                                                                                   \
    F(TEXT, name, , PCCL_NAME_MAX)

#define PCCL_FIELDS_attributes(F) /* attributes for pcclGetAttribute, as of an epoch */                                \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(U32, world, , )                                                                                                  \
    F(U32, group_world, , )                                                                                            \
    F(U32, groups, , )                                                                                                 \
    F(U32, largest_group, , )

#define PCCL_FIELDS_instance(F) /* name of an operation: PROTOCOL 1.5; (joint, sync) is the era */                     \
    F(U64, subgroup, , )        /* 0: the whole group; PCCL_FOUNDING: founds one; else its name */                     \
    F(U64, pair, , )            /* source and destination: PROTOCOL 16.1; 0: all members take part */                  \
    F(U64, joint, , )                                                                                                  \
    F(U64, sync, , )                                                                                                   \
    F(U64, tag, , )                                                                                                    \
    F(U32, use, , )

#define PCCL_FIELDS_label(F) /* the caller's label: up to 32 bytes of UTF-8, padded with 0; all 0: none */             \
    F(ID, head, , )                                                                                                    \
    F(ID, tail, , )

#define PCCL_FIELDS_descriptor(F) /* the caller's request; must be equal on all peers, or the operation fails */       \
    F(U8, collective, PCCL_ALL_REDUCE, PCCL_COLLECTIVES - 1) /* enum pccl_collective */                                \
    F(U8, datatype, 0, 14)                                   /* pcclDataType_t */                                      \
    F(U8, operation, 0, 8)                   /* pcclRedOp_t that fits it; 0 where nothing is reduced */                \
    F(U8, codec, 0, 7)                       /* pcclQuantizationAlgorithm_t */                                         \
    F(U8, codec_datatype, 0, 11)             /* codec of PCCL 1.0; 0 otherwise */                                      \
    F(U8, codec_scale, 0, 2)                 /* pcclCodecScale_t, scaled codec; 0 otherwise, like the next two */      \
    F(U8, codec_rounding, 0, 1)              /* pcclCodecRounding_t */                                                 \
    F(U16, codec_block, 0, 256)              /* elements of a block */                                                 \
    F(U32, budget_ms, 0, PCCL_BUDGET_MS_MAX) /* automatic codec; the fields above have its choice; else 0 */           \
    F(U8, budget_percent, 0, PCCL_BUDGET_PERCENT_MAX) /* or this, of the time between two uses of the tag; else 0 */   \
    F(U64, count, , ) /* elements: of the tensor, or a part; with counts, of all parts. COALESCED: bytes */            \
    F(ID, root, , )   /* only sender (broadcast, scatters, send) or receiver (reduce, gathers); else 0 */              \
    F(ID, counts, , ) /* digest of the elements of each member's part, or of the tensors; 0: equal parts, or none */   \
    F(STRUCT, label, label, )

#define PCCL_FIELDS_choice(F)                         /* automatic codec: PROTOCOL 7.12 */                             \
    F(U8, why, PCCL_CHOICE_FIRST, PCCL_CHOICE_RAISED) /* enum pccl_choice_why */                                       \
    F(U8, level, PCCL_LEVEL_EXACT, PCCL_LEVEL_4)      /* enum pccl_level */                                            \
    F(U8, fits, , )         /* uses in a row that would have met the budget at a higher level */                       \
    F(U8, patience, , )     /* number of these that raises the level */                                                \
    F(U8, steady, , )       /* uses since the last rise; 255: as many or more, or no rise yet */                       \
    F(U32, took_us, , )     /* previous use, from the last launch to the commit; 0: unknown */                         \
    F(U32, expected_us, , ) /* forecast for this use; 0: unknown */                                                    \
    F(U32, rtt_us, , )      /* from the cost data of the launch */                                                     \
    F(U32, since_us, , )    /* in done: since the launch; else 0 */                                                    \
    F(U32, gap_us, , )      /* launch: time since the outcome of the previous use; otherwise or unknown: 0 */          \
    F(U32, gap_1_us, , )    /* latest known gaps, the newest first; unknown: 0 */                                      \
    F(U32, gap_2_us, , )                                                                                               \
    F(U32, gap_3_us, , )

#define PCCL_FIELDS_cost(F) /* figures of a group's links, sent to all its members with the view */                    \
    F(U8, mesh, 0, 1)       /* 1: all links for direct exchange are up: of all pairs, or the hubs' */                  \
    F(U32, rtt_us, , )      /* longest round trip of the ring's links; 0: unknown */                                   \
    F(U64, rate, , )        /* bytes per second of its slowest link; 0: unknown */                                     \
    F(U32, mesh_rtt_us, , ) /* longest round trip of these links; 0: not all are known */                              \
    F(U64, mesh_rate, , )   /* bytes per second of the slowest of them; 0: likewise */                                 \
    F(U64, mesh_share, , )  /* bytes per second of the slowest one while all pairs send; 0: unknown */                 \
    F(U64, to_hubs, , )     /* group too large for a mesh: members to which all keep links, by canonical order */      \
    F(U64, from_hubs, , )   /* members that keep links to all */

#define PCCL_FIELDS_place(F) /* location of a peer */                                                                  \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, state, PCCL_PLACE_HERE, PCCL_PLACE_DISCONNECTED)   /* enum pccl_place_state */                               \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_OPTIMIZE)          /* enum pccl_call that it waits in; NONE: unknown */      \
    F(U8, collective, PCCL_ALL_REDUCE, PCCL_COLLECTIVES - 1) /* of an operation */                                     \
    F(U64, detail, , )                                       /* the call's tag or round */                             \
    F(U64, since_us, , )

#define PCCL_FIELDS_digest(F) /* XXH3, 128 bits */                                                                     \
    F(U64, low, , )                                                                                                    \
    F(U64, high, , )

#define PCCL_FIELDS_proof(F) /* pccl_bulk_hash of bytes, or SHA-256 of proofs: state/state.h */                        \
    F(ID, low, , )                                                                                                     \
    F(ID, high, , )

#define PCCL_FIELDS_shape(F) F(U32, hash, , ) /* hash of one tensor's name, type, count and flags */

#define PCCL_FIELDS_tensor_line(F) /* a tensor, for messages to people */                                              \
    F(TEXT, name, , PCCL_TENSOR_NAME_MAX)                                                                              \
    F(U8, datatype, 0, 14) /* pcclDataType_t */                                                                        \
    F(U8, unequal, 0, 1)   /* 1: it need not be equal everywhere */                                                    \
    F(U64, count, , )      /* elements */

#define PCCL_FIELDS_seen_link(F) /* figures of the connections to another peer in a report's window */                 \
    F(ID, peer, 1, )                                                                                                   \
    F(U64, bytes, , )     /* delivered */                                                                              \
    F(U64, resent, , )    /* sent again */                                                                             \
    F(U32, busy_us, , )   /* time with data under way and room at the receiver */                                      \
    F(U32, rtt_us, , )    /* smallest round trip; 0: unknown */                                                        \
    F(U32, lately_us, , ) /* present one, with its queues; 0: unknown */

#define PCCL_FIELDS_seen_wait(F)                    /* an operation's wait */                                          \
    F(ID, peer, , )                                 /* 0: waits for the outcome, that is for members' contributions */ \
    F(U8, what, PCCL_WAIT_READY, PCCL_WAIT_OUTCOME) /* enum pccl_wait_kind */                                          \
    F(U8, begun, 0, 1)                              /* data of it has moved between the two, in this direction */      \
    F(U32, for_ms, , )

#define PCCL_FIELDS_verdict(F) /* a problem of the run, concluded by the master from reports */                        \
    F(U64, number, , )         /* of this boot */                                                                      \
    F(U8, class, PCCL_VERDICT_NOT_ENTERED, PCCL_VERDICT_CLASSES - 1) /* enum pccl_verdict_class */                     \
    F(ID, peer, 1, )                                                                                                   \
    F(ID, other, , ) /* the other end of a link, whose sender is `peer`; else 0 */                                     \
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
    X(choice) X(cost) X(place) X(digest) X(proof) X(shape) X(tensor_line) X(seen_link) X(seen_wait) X(verdict)

/* ---- messages ---- */

#define PCCL_FIELDS_hello(F)                                                                                           \
    F(U64, magic, PCCL_PROTOCOL_MAGIC, PCCL_PROTOCOL_MAGIC)                                                            \
    F(STRUCT, build, build, )                                                                                          \
    F(SECRET, run_key, , ) /* key of the run of which it is a member; zero: a newcomer */                              \
    F(U64, boot, , )       /* last master that it spoke with; 0: none */                                               \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, token, 1, )    /* a secret that proves the id on reconnect */                                            \
    F(SECRET, link_key, 1, ) /* another secret, from which tickets to it are made (core/ticket.h) */                   \
    F(U32, group, , )                                                                                                  \
    F(U64, received, , )                              /* last sequence number received from that boot */               \
    F(U16, port, , )                                  /* its only listening port */                                    \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX) /* addresses at which it can be dialed */                        \
    F(TEXT, name, , PCCL_NAME_MAX)                                                                                     \
    F(BYTES, authentication, , PCCL_AUTH_MAX) /* room for join tokens */                                               \
    F(U8, named, 0, 1)                        /* 1: the name was chosen, and survives a restart */

#define PCCL_FIELDS_hello_ok(F)                                                                                        \
    F(STRUCT, build, build, )                                                                                          \
    F(ID, lineage, , )                                                                                                 \
    F(U64, boot, , )                                                                                                   \
    F(U8, mode, PCCL_HELLO_NEW, PCCL_HELLO_RESUME) /* enum pccl_hello_mode */                                          \
    F(U64, received, , )                           /* last sequence number received from this peer (CONTINUE) */       \
    F(U32, silence_ms, , )                                                                                             \
    F(U32, heartbeat_ms, , )                                                                                           \
    F(U32, tiny_bytes_max, , )                                                                                         \
    F(U8, open_links, 0, 1)  /* with a token: links are unencrypted after their handshake */                           \
    F(ADDRESS, observed, , ) /* the address from which the master sees the peer connect */                             \
    F(U32, hold_ms, , )      /* time without a founding, since a run may exist; 0: it has one or may found one */

#define PCCL_FIELDS_refused(F)                                                                                         \
    F(U32, version, , ) /* of the refusing side */                                                                     \
    F(U16, code, , )    /* enum pccl_refusal */                                                                        \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_heartbeat(F)                                                                                       \
    F(U8, answer, 0, 1) /* 1: answer with a heartbeat at once */                                                       \
    F(U64, stable, , )  /* from the master: all of the group know the outcomes up to this decision */

#define PCCL_FIELDS_leave(F) F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_vote(F)                                                                                            \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE) /* enum pccl_round_kind; SYNC: sync_vote */                    \
    F(U64, round, , )                                                                                                  \
    F(U8, drain, 0, 1)                 /* PENDING, UPDATE: 1: the sender leaves with the next update; else 0 */        \
    F(TEXT, unable, , PCCL_REASON_MAX) /* OPTIMIZE: why the sender cannot take part; else empty */

#define PCCL_FIELDS_withdraw(F)                                                                                        \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE)                                                                \
    F(U64, round, , )
#define PCCL_FIELDS_sync_vote(F) /* a peer's vote in a synchronization of shared state: PROTOCOL 10.5 */               \
    F(U64, round, , )                                                                                                  \
    F(U64, revision, 0, UINT64_MAX - 1)                                                                                \
    F(U8, strategy, 0, 2)          /* pcclSharedStateSyncStrategy_t */                                                 \
    F(U8, fresh, 0, 1)             /* 1: new in this run: it lacks the tensors that need not be equal */               \
    F(U8, torn, 0, 1)              /* 1: an unfinished transfer has written into it, so it must not be fetched */      \
    F(U8, unequal, 0, 1)           /* 1: it has tensors that need not be equal everywhere */                           \
    F(STRUCT, structure, digest, ) /* digest of all shapes */                                                          \
    F(STRUCT, content, digest, )   /* digest of all tensors that must be equal everywhere */                           \
    F(LIST, shapes, shape, PCCL_TENSORS_MAX)                                                                           \
    F(LIST, lines, tensor_line, PCCL_TENSORS_DESCRIBED_MAX) /* of the first tensors */                                 \
    F(TEXT, unable, , PCCL_REASON_MAX) /* why the sender cannot take part, and nothing else counts; empty: it can */

#define PCCL_FIELDS_sync_done(F) /* end of this peer's part in the plan, or its failure */                             \
    F(U64, round, , )                                                                                                  \
    F(U8, failed, 0, 1)                                                                                                \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_sync_proof(F) /* proof from a holder of the elected content, for peers that fetch it */            \
    F(U64, round, , )                                                                                                  \
    F(STRUCT, proof, proof, ) /* of all tensors that must be equal everywhere; 0: not computed */

#define PCCL_FIELDS_measured(F) /* result of a test of the link to the peer that `measure` named */                    \
    F(U64, test, , )                                                                                                   \
    F(U8, failed, 0, 1)                                                                                                \
    F(U8, how, 0, PCCL_LINK_SILENT) /* failed: enum pccl_link_end; 0: the link is not the cause */                     \
    F(U32, rtt_us, , )                                                                                                 \
    F(U64, rate, , ) /* bytes per second */

#define PCCL_FIELDS_describe(F) F(U64, ticket, , ) /* asks for the topology report of the sender's group */

#define PCCL_FIELDS_done(F) /* the sender's result is complete; tiny: with its contribution */                         \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, ) /* start view */                                                                          \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(U8, tiny, 0, 1)                                                                                                  \
    F(LIST, choice, choice, 1)                  /* with a budget, not tiny: as launched, with since_us and gap_us */   \
    F(BYTES, payload, , PCCL_FOUNDED_BYTES_MAX) /* only a founding's is longer than PCCL_TINY_BYTES_MAX */

#define PCCL_FIELDS_failed(F)                                                                                          \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, class, PCCL_CLASS_PEER_LOST, PCCL_CLASS_COUNT - 1) /* enum pccl_class */                                     \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_abort_request(F)                                                                                   \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, class, PCCL_CLASS_PEER_LOST, PCCL_CLASS_COUNT - 1)                                                           \
    F(TEXT, reason, , PCCL_REASON_MAX) /* empty: the class is sufficient */

#define PCCL_FIELDS_view_ack(F) /* operations that a view change ended at this peer */                                 \
    F(STRUCT, view, epoch, )                                                                                           \
    F(LIST, instances, instance, PCCL_OPS_HELD_MAX)

#define PCCL_FIELDS_subgroup_end(F) F(U64, subgroup, 1, PCCL_FOUNDING / 2) /* the sender closes it: it ends for all */

#define PCCL_FIELDS_listen(F) /* offers that the sender accepts for tiny sends of this tag: `offer` */                 \
    F(U64, subgroup, , )      /* 0: the whole group */                                                                 \
    F(U64, tag, , )                                                                                                    \
    F(U32, count, 0, PCCL_OFFERS_MAX) /* replaces the previous number */

#define PCCL_FIELDS_link_lost(F)                                                                                       \
    F(ID, peer, 1, )                                                                                                   \
    F(U8, incoming, 0, 1)           /* 1: the other side had opened it */                                              \
    F(U8, how, 0, PCCL_LINK_SILENT) /* enum pccl_link_end; 0: the sender cannot dial, see `shortage` */

#define PCCL_FIELDS_shortage(F) F(TEXT, reason, , PCCL_REASON_MAX) /* why the sender cannot open or accept links */

#define PCCL_FIELDS_want_link(F) F(ID, peer, 1, ) /* the sender has data for this member: `warm_up` */

#define PCCL_FIELDS_link_gone(F) /* the end at the dialed peer of a connection that carries data */                    \
    F(ID, peer, 1, )             /* to the master: that dialed it; from the master: that was dialed */                 \
    F(U64, number, 1, )          /* of its link_hello */

#define PCCL_FIELDS_link_up(F)                                                                                         \
    F(ID, peer, 1, )                                                                                                   \
    F(U32, rtt_us, , )  /* round trip measured by the system; 0: unknown */                                            \
    F(U64, rate, , )    /* bytes per second, measured while data flowed; 0: unknown, as on opening */                  \
    F(U8, shared, 0, 1) /* 1: other links used the same line, so the link carries at least `rate` */

#define PCCL_FIELDS_where(F)                                 /* the sender waits in this call */                       \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_OPTIMIZE)          /* enum pccl_call; NONE: no longer */                     \
    F(U8, collective, PCCL_ALL_REDUCE, PCCL_COLLECTIVES - 1) /* operation */                                           \
    F(STRUCT, instance, instance, )                          /* operation */                                           \
    F(U64, round, , )                                        /* joint call */                                          \
    F(U64, since_us, , )                                                                                               \
    F(U8, several, 0, 1) /* 1: other threads of the peer make calls, or one waits for several operations */

#define PCCL_FIELDS_training(F) /* a peer's report about its training: PROTOCOL 9.9 */                                 \
    F(U64, step, , )                                                                                                   \
    F(U64, loss, , ) /* bits of any double, as no decision depends on it */

#define PCCL_FIELDS_resume(F) /* to a master of another boot: this peer's knowledge, in several messages */            \
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
    F(STRUCT, cost, cost, ) /* of the view */

#define PCCL_FIELDS_resume_operation(F)                                                                                \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U8, state, PCCL_RESUME_RUNNING, PCCL_RESUME_ABORTED) /* enum pccl_resume_state */                                \
    F(U8, class, PCCL_CLASS_NONE, PCCL_CLASS_COUNT - 1)                                                                \
    F(U8, tiny, 0, 1)                                                                                                  \
    F(U32, world, , )                                                                                                  \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(LIST, choice, choice, 1)                  /* COMMITTED: as in its outcome; DONE: as launched */                  \
    F(BYTES, payload, , PCCL_FOUNDED_BYTES_MAX) /* DONE: the contribution; COMMITTED: the result */                    \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_resume_round(F) /* last outcome of a kind of round */                                              \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE)                                                                \
    F(U64, round, , )                                                                                                  \
    F(U8, outcome, PCCL_ROUND_DONE, PCCL_ROUND_FAILED)                                                                 \
    F(STRUCT, attributes, attributes, )                                                                                \
    F(U64, revision, , )                                                                                               \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_resume_subgroup(F)          /* a subgroup that has not ended, as far as this peer knows */         \
    F(STRUCT, founding, instance, )             /* the operation that founded it */                                    \
    F(BYTES, founded, , PCCL_FOUNDED_BYTES_MAX) /* its result: wire/subgroup.h */

#define PCCL_FIELDS_sight(F) /* operations of the whole group since the previous report: PROTOCOL 9.8 */               \
    F(U32, window_ms, 1, 3600000)                                                                                      \
    F(U32, stalled_ms, , )                              /* time in which the process was ready and not running */      \
    F(U32, operations, , )                              /* number of operations that ended */                          \
    F(U64, took_us, , )                                 /* sum of their times from launch to outcome */                \
    F(U64, took_squares, , )                            /* sum of the squares, in units of 100 us */                   \
    F(LIST, links, seen_link, PCCL_TELEMETRY_LINKS_MAX) /* one for each peer, in ascending order of the ids */         \
    F(STRUCT, instance, instance, )                     /* longest waiting operation, with `waits` */                  \
    F(LIST, waits, seen_wait, PCCL_TELEMETRY_WAITS_MAX)                                                                \
    F(U64, ring_bytes, , ) /* approximate size of operations under way with one receiver */                            \
    F(U64, ring_left, , )  /* ... and the unsent part of it */

#define PCCL_FIELDS_resume_end(F) F(LIST, dead, id, PCCL_PEERS_MAX) /* peers whose listener refuses: evidence */

#define PCCL_FIELDS_welcome(F) /* admission */                                                                         \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, update, , )                                                                                                 \
    F(U64, sync, , )                                                                                                   \
    F(U64, query, , )                                                                                                  \
    F(U64, optimize, , )                                                                                               \
    F(U64, revision, , )                                                                                               \
    F(SECRET, run_key, 1, ) /* known to members only: proves membership to a restarted master */                       \
    F(LIST, members, member, PCCL_PEERS_MAX)                                                                           \
    F(LIST, ring, id, PCCL_PEERS_MAX)                                                                                  \
    F(STRUCT, cost, cost, )

#define PCCL_FIELDS_expelled(F)                                                                                        \
    F(U16, code, PCCL_REFUSAL_VERSION, PCCL_REFUSAL_DRAINED) /* enum pccl_refusal */                                   \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_epoch_change(F)                                                                                    \
    F(STRUCT, epoch, epoch, )                                                                                          \
    F(U8, full, 0, 1) /* 1: `added` is the whole list */                                                               \
    F(LIST, added, member, PCCL_PEERS_MAX)                                                                             \
    F(LIST, removed, id, PCCL_PEERS_MAX)                                                                               \
    F(U8, view_changed, 0, 1) /* 1: new view of the receiver's group, with this ring */                                \
    F(LIST, ring, id, PCCL_PEERS_MAX)                                                                                  \
    F(STRUCT, cost, cost, )            /* with view_changed */                                                         \
    F(TEXT, reason, , PCCL_REASON_MAX) /* reason of the change */                                                      \
    F(U8, replans, 0, 1)               /* 1: same members, and operations under way restart: PROTOCOL 5.4 */

#define PCCL_FIELDS_outcome(F)                                                                                         \
    F(STRUCT, instance, instance, )                                                                                    \
    F(U64, decision, , ) /* number of the outcome in its group */                                                      \
    F(U64, stable, , )                                                                                                 \
    F(U8, class, PCCL_CLASS_NONE, PCCL_CLASS_COUNT - 1) /* enum pccl_class; NONE: committed */                         \
    F(U32, world, , )                                   /* committed: members of the view */                           \
    F(U8, tiny, 0, 1) /* committed: 1 if it passed through the master; `result` is its result */                       \
    F(BYTES, result, , PCCL_FOUNDED_BYTES_MAX)                                                                         \
    F(LIST, choice, choice, 1) /* committed, with a budget, not tiny: for the next use of the tag */                   \
    F(TEXT, reason, , PCCL_REASON_MAX)

#define PCCL_FIELDS_subgroup_ended(F) /* undecided operations of it are aborted, as PEER_LOST */                       \
    F(U64, subgroup, 1, PCCL_FOUNDING / 2)                                                                             \
    F(TEXT, reason, , PCCL_REASON_MAX)

/* a tiny send whose other end is the receiver of this message */
#define PCCL_FIELDS_offer(F) F(STRUCT, instance, instance, )

#define PCCL_FIELDS_round(F)                                                                                           \
    F(U8, kind, PCCL_ROUND_UPDATE, PCCL_ROUND_OPTIMIZE)                                                                \
    F(U64, round, , )                                                                                                  \
    F(U8, outcome, PCCL_ROUND_DONE, PCCL_ROUND_FAILED) /* enum pccl_round_outcome */                                   \
    F(STRUCT, attributes, attributes, ) /* same for all of a group, also if a restarted master repeats the answer */   \
    F(U64, revision, , )                /* SYNC, DONE: of the state that all have now */                               \
    F(TEXT, reason, , PCCL_REASON_MAX)  /* FAILED: the reason */
#define PCCL_FIELDS_sync_plan(F) /* the elected state; may be repeated, and differ, after a restart of the master */   \
    F(U64, round, , )                                                                                                  \
    F(U64, revision, , )                                                                                               \
    F(U8, requests, 0, 1)      /* 1: fetches missing content from the peers of sync_donor; 0: serves */                \
    F(U8, takes_unequal, 0, 1) /* 1: also the tensors that need not be equal, from a donor that has them */            \
    F(STRUCT, content, digest, )

#define PCCL_FIELDS_sync_donor(F) /* one more peer with the elected content */                                         \
    F(U64, round, , )                                                                                                  \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , ) /* for the link_hello */                                                                     \
    F(U8, holds_unequal, 0, 1)                                                                                         \
    F(STRUCT, proof, proof, ) /* of the elected content */                                                             \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_measure(F) /* measure the link to this peer */                                                     \
    F(U64, test, , )                                                                                                   \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , )                    /* for the link_hello */                                                  \
    F(U32, limit_ms, 1, PCCL_MEASURE_MS_MAX) /* from the first byte of data */                                         \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_topology_report(F) /* the answer to describe: text, topology/report.h */                           \
    F(U64, ticket, , )                                                                                                 \
    F(BYTES, text, , PCCL_TOPOLOGY_REPORT_BYTES_MAX)

#define PCCL_FIELDS_warm_up(F) /* asks the receiver to open and keep a link to this peer */                            \
    F(ID, lineage, , )         /* of the run, for a newcomer that does not know it yet */                              \
    F(ID, peer, 1, )                                                                                                   \
    F(SECRET, ticket, , ) /* for the link_hello */                                                                     \
    F(U8, answers, 0, 1)  /* 1: answers `want_link`; the link is kept only while the receiver sends */                 \
    F(LIST, candidates, address, PCCL_CANDIDATES_MAX)

#define PCCL_FIELDS_forget(F) F(ID, peer, 1, ) /* a newcomer with links has left */

#define PCCL_FIELDS_names(F) /* sent before the epoch, welcome or warm_up that mentions these peers */                 \
    F(LIST, names, named, PCCL_NAMES_SENT_MAX)

#define PCCL_FIELDS_who_is_where(F) /* answer to `where` */                                                            \
    F(U8, call, PCCL_CALL_NONE, PCCL_CALL_OPTIMIZE)                                                                    \
    F(STRUCT, instance, instance, )                                                                                    \
    F(U64, round, , )                                                                                                  \
    F(U8, stuck, PCCL_STUCK_NOT, PCCL_STUCK_CERTAIN) /* enum pccl_stuck */                                             \
    F(U32, missing, , )                              /* number of missing members; the first few are listed */         \
    F(LIST, places, place, PCCL_PLACES_MAX)

#define PCCL_FIELDS_verdicts(F) /* all active ones of the receiver's group; sent when one begins or ends */            \
    F(LIST, verdicts, verdict, PCCL_VERDICTS_MAX)

#define PCCL_FIELDS_recovered(F) /* a restarted master has rebuilt its state: resend outstanding messages */           \
    F(U64, decisions, , )

#define PCCL_FIELDS_link_hello(F) /* first frame on a peer's port */                                                   \
    F(U64, magic, PCCL_PROTOCOL_MAGIC, PCCL_PROTOCOL_MAGIC)                                                            \
    F(STRUCT, build, build, )                                                                                          \
    F(ID, lineage, , )                                                                                                 \
    F(ID, from, , )                                                                                                    \
    F(ID, to, 1, )                                 /* the peer that the sender wants to reach */                       \
    F(U8, kind, PCCL_LINK_RING, PCCL_LINK_MEASURE) /* enum pccl_link_kind */                                           \
    F(U8, slot, 0, PCCL_POOL_LAST)                 /* index of the connection in the pool */                           \
    F(U64, number, , ) /* RING: number of the connection, for `link_gone` (PROTOCOL 7.4); else 0 */                    \
    F(BYTES, authentication, , PCCL_AUTH_MAX) /* ticket; empty for a probe */

#define PCCL_FIELDS_link_ok(F)                                                                                         \
    F(U32, version, PCCL_PROTOCOL_VERSION, PCCL_PROTOCOL_VERSION)                                                      \
    F(U64, capabilities, , )                                                                                           \
    F(ID, peer, 1, )

#define PCCL_FIELDS_ready(F) /* the sender takes part and accepts stripes below `granted`; repeated as credit grows */ \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(STRUCT, descriptor, descriptor, )                                                                                \
    F(U8, algorithm, , )                    /* enum pccl_algorithm */                                                  \
    F(U32, segment_elements, 1, UINT32_MAX) /* like `algorithm`, determined by view and descriptor; must be equal */   \
    F(U64, granted, , )

#define PCCL_FIELDS_data(F) /* one segment; `length` bytes follow the frame, outside of it */                          \
    F(STRUCT, instance, instance, )                                                                                    \
    F(STRUCT, view, epoch, )                                                                                           \
    F(U64, stripe, , )                                                                                                 \
    F(U32, step, , )                                                                                                   \
    F(U32, length, 1, PCCL_SEGMENT_BYTES_MAX)

#define PCCL_FIELDS_state_want(F) /* on a link of kind STATE; answered in order */                                     \
    F(U64, round, , )                                                                                                  \
    F(U8, what, PCCL_WANT_ROOTS, PCCL_WANT_DATA) /* enum pccl_want_kind */                                             \
    F(U32, tensor, , )                           /* ROOTS: the first one */                                            \
    F(U64, first, , )                            /* CHUNKS: the first chunk; DATA: the chunk; ROOTS: 0 */              \
    F(U32, count, 1, PCCL_STATE_DIGESTS_MAX)     /* number of proofs; DATA: 1 */

#define PCCL_FIELDS_state_proofs(F) /* answer to ROOTS and CHUNKS: as many as wanted, or fewer at the end */           \
    F(U64, round, , )                                                                                                  \
    F(U8, what, PCCL_WANT_ROOTS, PCCL_WANT_CHUNKS)                                                                     \
    F(U32, tensor, , )                                                                                                 \
    F(U64, first, , )                                                                                                  \
    F(LIST, proofs, proof, PCCL_STATE_DIGESTS_MAX)

#define PCCL_FIELDS_state_data(F) /* answer to DATA; `length` bytes follow the frame, outside of it */                 \
    F(U64, round, , )                                                                                                  \
    F(U32, tensor, , )                                                                                                 \
    F(U64, chunk, , )                                                                                                  \
    F(U32, length, 1, PCCL_STATE_CHUNK_BYTES)

#define PCCL_FIELDS_echo(F) /* on a link of kind MEASURE; answered at once by the same with answer 1 */                \
    F(U8, answer, 0, 1)                                                                                                \
    F(U64, stamp, , ) /* any value of the sender */

#define PCCL_FIELDS_flood(F) F(BYTES, filler, , PCCL_FLOOD_BYTES_MAX) /* on a link of kind MEASURE: load */

#define PCCL_FIELDS_flood_seen(F)                                                                                      \
    F(U64, bytes, , ) /* bytes of filler received over this connection; sent repeatedly                                \
                       */

#define PCCL_FIELDS_link_bye(F) F(TEXT, reason, , PCCL_REASON_MAX) /* closed on purpose, so this is no evidence */

/*    id  name  from -> to */
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
    X(50, link_gone, "peer to master, and from there to the peer that dialed")                                         \
    X(64, link_hello, "peer to peer (or master to peer, to probe), first on a data connection")                        \
    X(65, link_ok, "answer to link_hello")                                                                             \
    X(66, link_bye, "peer to peer")                                                                                    \
    X(67, ready, "peer to peer, against the direction of the data: over a connection that the other side dialed")      \
    X(68, data, "peer to peer, over a connection that the sender dialed")                                              \
    X(69, state_want, "peer to peer, to one that was named as a donor")                                                \
    X(70, state_proofs, "answer to state_want")                                                                        \
    X(71, state_data, "answer to state_want")                                                                          \
    X(72, echo, "peer to peer, either direction")                                                                      \
    X(73, flood, "peer to peer, over a connection that the sender dialed")                                             \
    X(74, flood_seen, "answer to flood")

/* ---- enumerations on the wire: V(name, value, words) ---- */

#define PCCL_ENUM_VALUE(name, value, reason) PCCL_##name = value,

#define PCCL_ENUM_hello_mode(V)                                                                                        \
    V(HELLO_NEW, 1, "a newcomer: wait for welcome")                                                                    \
    V(HELLO_CONTINUE, 2, "the session continues: both resend messages that the other side has not received")           \
    V(HELLO_RESUME, 3, "the master knows nothing: new session, send resume")
enum pccl_hello_mode { PCCL_ENUM_hello_mode(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_refusal(V)                                                                                           \
    V(REFUSAL_VERSION, 1, "another protocol version, or another schema")                                               \
    V(REFUSAL_MALFORMED, 2, "malformed, or not allowed here")                                                          \
    V(REFUSAL_FULL, 3, "a limit is reached")                                                                           \
    V(REFUSAL_LINEAGE, 4, "another run, or a run that is over")                                                        \
    V(REFUSAL_IDENTITY, 5, "wrong token, or another peer than the one meant")                                          \
    V(REFUSAL_NOT_WARM, 6, "links to the future neighbors could not be opened")                                        \
    V(REFUSAL_SILENT, 7, "silent for too long")                                                                        \
    V(REFUSAL_GONE, 8, "it was removed, or found dead, before")                                                        \
    V(REFUSAL_UNREACHABLE, 9, "no ring can be built with it")                                                          \
    V(REFUSAL_PROTOCOL, 10, "it violated the protocol")                                                                \
    V(REFUSAL_SHUTDOWN, 11, "the master ends")                                                                         \
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
    V(CLASS_PEER_LOST, 1, "aborted; a retry may succeed, with the other classes it will not")                          \
    V(CLASS_MISMATCH, 2, "peers called it with different arguments")                                                   \
    V(CLASS_ABORTED, 3, "a caller aborted it")                                                                         \
    V(CLASS_DEADLINE, 4, "its deadline passed")                                                                        \
    V(CLASS_INTERNAL, 5, "an internal error")                                                                          \
    V(CLASS_MEMBERS_CHANGED, 6, "a caller expected other members than the view has")
enum pccl_class { PCCL_ENUM_class(PCCL_ENUM_VALUE) PCCL_CLASS_COUNT };

#define PCCL_ENUM_level(V)                                                                                             \
    V(LEVEL_EXACT, 0, "elements travel unquantized")                                                                   \
    V(LEVEL_16, 1, "zero_point_scale to u16")                                                                          \
    V(LEVEL_8, 2, "e4m3")                                                                                              \
    V(LEVEL_4, 3, "e2m1")
enum pccl_level { PCCL_ENUM_level(PCCL_ENUM_VALUE) PCCL_LEVELS };

#define PCCL_ENUM_choice_why(V)                                                                                        \
    V(CHOICE_NONE, 0, "nothing is chosen: in memory only")                                                             \
    V(CHOICE_FIRST, 1, "no earlier use counts, so the cost data of the view decide")                                   \
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
    V(ROUND_DONE, 0, "update, optimize: decided; pending: no peer waits; sync: all hold the same")                     \
    V(ROUND_TRUE, 1, "pending: a peer waits")                                                                          \
    V(ROUND_WITHDRAWN, 2, "only this peer's vote was taken back")                                                      \
    V(ROUND_FAILED, 3, "sync, optimize: it failed for all of the group")
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
    V(PLACE_SILENT, 2, "it is silent, or computes")                                                                    \
    V(PLACE_DISCONNECTED, 3, "its connection is lost, it may reconnect")
enum pccl_place_state { PCCL_ENUM_place_state(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_stuck(V)                                                                                             \
    V(STUCK_NOT, 0, "the calls may meet")                                                                              \
    V(STUCK_LIKELY, 1, "a cycle of calls that wait for each other, unless a thread that has made no call yet helps")   \
    V(STUCK_CERTAIN, 2, "a cycle that no thread can break; it contains an update, an optimization or a synchronization")
enum pccl_stuck { PCCL_ENUM_stuck(PCCL_ENUM_VALUE) };

#define PCCL_ENUM_wait_kind(V)                                                                                         \
    V(WAIT_READY, 1, "its ready message: it has not entered, as far as known")                                         \
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

/* X(name, the fields that use it) */
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
