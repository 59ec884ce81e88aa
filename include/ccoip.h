/*
 * Well-known TCP ports. The library uses only the first two: a peer listens on a single port
 * (CCOIP_PROTOCOL_PORT_SHARED_STATE, or the next free port above it). The last two exist for source compatibility.
 */
#ifndef CCOIP_H
#define CCOIP_H

#define CCOIP_PROTOCOL_PORT_MASTER 48148
#define CCOIP_PROTOCOL_PORT_SHARED_STATE 48149
#define CCOIP_PROTOCOL_PORT_P2P 48150
#define CCOIP_PROTOCOL_PORT_BANDWIDTH_BENCHMARK 48151

#endif
