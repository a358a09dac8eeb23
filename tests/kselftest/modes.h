/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Compute partition modes of a GPU, and its nodes. */
#ifndef MODES_H
#define MODES_H

#include "fixture.h"

#define MODE_MAX_NODES 64
#define MODE_FILE "current_compute_partition"
#define NPS_FILE "current_memory_partition"

/*
 * Stores the GPU nodes and returns their number. `nodes` has room for one more than MODE_MAX_NODES.
 */
int mode_nodes(struct kfd_node *nodes);
/* Returns the text of a file of the PCI device; valid until the next call. */
const char *mode_file(const char *name);
/* Writes such a file. Returns 0 or a negative errno. */
int mode_write(const char *name, const char *text);
/* Returns the permissions of such a file. */
uint32_t mode_permissions(const char *name);
/* Writes the mode once. Returns 0 or a negative errno. */
int mode_try(const char *mode);
/* Same, repeated while the GPU is in use: processes that have ended may use it for a moment. */
int mode_set(const char *mode);
/* Finds the GPU and sets mode SPX; skips the test if the GPU does not have `mode`. */
void mode_need(const char *mode);
/* Same, and sets `mode`. */
void mode_begin(const char *mode);
/* Writes the memory partition mode once, which the next bind of the driver sets. */
int mode_try_nps(const char *nps);
/*
 * Finds the GPU, binds its driver again if memory partition mode `nps` needs that, and sets compute
 * mode `mode`; skips the test if the GPU does not have `nps`.
 */
void mode_begin_nps(const char *nps, const char *mode);
/* Sets mode SPX; a failure fails the test. */
void mode_end(void);
/*
 * Runs tests of another program on the node that fixtures use. Returns whether all `tests` passed;
 * a skipped one did not.
 */
bool mode_run(const char *command, unsigned int tests);
/* Calls `fn` with each of `count` nodes, in a process that uses it; all at the same time. */
void mode_on_nodes(struct kfd_node *nodes, int count, void (*fn)(void *));
/* Runs four kernels on the node that fixtures use; for ktap_in_child() and mode_on_nodes(). */
void mode_node_works(void *unused);
/* Returns AVAILABLE_MEMORY of a node. */
uint64_t mode_available(struct kfd *k, const struct kfd_node *node);

#endif
