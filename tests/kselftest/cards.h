/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Two GPUs in one process: the same addresses, events and signals for both. */
#ifndef CARDS_H
#define CARDS_H

#include "fixture.h"

/* Returns the number of GPU nodes and stores the first `most`. */
int cards_find(struct kfd_node *nodes, int most);
/* As fixture_launch() on two GPUs; skips the test if there is only one. */
void cards_launch(struct fixture f[2]);
/* The same on the GPUs of these nodes. The first one has the event page and the signals. */
void cards_launch_on(struct fixture f[2], const struct kfd_node nodes[2]);
/* Maps a buffer of any GPU on this one. Returns 0 or a negative errno. */
int cards_map(struct kfd *k, const struct kfd_bo *bo);
int cards_unmap(struct kfd *k, const struct kfd_bo *bo);
/* Copies by an SDMA queue of this GPU. Returns 0 or a negative errno. */
int cards_copy(struct fixture *f, void *to, const void *from, size_t bytes);
/* Returns the type of the IOMMU domain of a GPU: "DMA", "identity", ..., or "" without IOMMU. */
const char *cards_domain(const struct kfd_node *node);

#endif
