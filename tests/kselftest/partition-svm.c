// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests memory of processes in the VRAM of nodes of a GPU in modes NPS4 and CPX, whose memory
 * partitions have at most 1 GiB each: it is in the partition of its node, as it leaves VRAM when
 * that one is full. The last test leaves the GPU in modes NPS1 and SPX.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "modes.h"

#define PARTITIONS 4

static struct kfd_node nodes[MODE_MAX_NODES + 1];

/* Runs tests on the first node of a memory partition. */
static void on_partition(int partition)
{
	char mib[16];
	int count;

	mode_begin_nps("NPS4", "CPX");
	count = mode_nodes(nodes);
	ASSERT(count > 0 && count % PARTITIONS == 0, "%d nodes", count);
	fixture_use_node(nodes[count / PARTITIONS * partition].index);
	EXPECT(mode_run("svm-migrate in_turns forks pages_are_counted", 3));
	/* Nodes share a partition: half as much again as its VRAM. */
	snprintf(mib, sizeof(mib), "%llu",
		 (unsigned long long)nodes[count / PARTITIONS * partition].vram_bytes * 3 / 2 *
				 (unsigned int)(count / PARTITIONS) >> 20);
	ASSERT(!setenv("SVM_VRAM_MIB", mib, 1));
	EXPECT(mode_run("svm-vram twice_the_vram twice_the_vram_with_retry_faults", 2));
}

TEST_TIMEOUT(second_partition, 600)
{
	on_partition(1);
}

TEST_TIMEOUT(last_partition, 600)
{
	on_partition(PARTITIONS - 1);
}

TEST_TIMEOUT(back_to_nps1, 180)
{
	mode_begin_nps("NPS1", "SPX");
	EXPECT(mode_run("svm-migrate in_turns", 1));
}
