/*
 * Packs spanning trees for an all-reduce: weighted trees that together use the lines of a group up to their capacity.
 * Each part of a tensor is summed up one tree to its root, and the result is sent down again, so it passes each edge of
 * the tree once in each direction. A member with a slow line is a leaf of all trees, a site has one edge to others, and
 * a slow link is in no tree. Pure: integers only, so the same lines give the same trees on every machine.
 */
#ifndef PCCL_TOPOLOGY_TREES_H
#define PCCL_TOPOLOGY_TREES_H

#include "core/base.h"
#include "core/limits.h"
#include "core/memory.h"
#include "core/status.h"
#include "topology/lines.h"

enum { PCCL_TREES_WEIGHT = 256 }; /* sum of the weights of a table */

struct pccl_trees {
    uint64_t rate;  /* of an all-reduce: bytes of the tensor per second; 0: no trees */
    uint32_t count; /* number of trees; 0: a line is unknown, or useful links do not connect all members */
    uint16_t weights[PCCL_TREES_MAX];                      /* share of the tensor, in parts of PCCL_TREES_WEIGHT; > 0 */
    uint8_t parents[PCCL_TREES_MAX][PCCL_TREES_PEERS_MAX]; /* the root is its own parent */
};

/* Packs trees. Returns MEMORY, with *trees unchanged, if memory runs out. */
PCCL_MUST_CHECK enum pccl_status pccl_trees_pack(const struct pccl_lines *lines, const struct pccl_memory *memory,
                                                 struct pccl_trees *trees);

#endif
