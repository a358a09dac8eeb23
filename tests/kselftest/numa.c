// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests system memory of buffers on a machine with two NUMA nodes (numa=fake=2). The GPU is bound
 * again as a device of the second one.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"

#define PAGES (64ul << 8)

enum { MPOL_DEFAULT = 0, MPOL_BIND = 2 };

/* Returns the number of pages of GPUs on a node. */
static uint64_t gpu_pages(int node)
{
	uint64_t pages = 0;
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/vmstat", node);
	ASSERT_OK(kfd_sysfs_value(path, "nr_gpu_active", &pages));
	return pages;
}

/* Memory is that of the GPU's node, whatever the policy of the task, and counted there. */
TEST(gtt_is_on_the_node_of_the_gpu)
{
	unsigned long first = 1;
	uint64_t before[2];
	uint32_t bo;
	int fd;

	if (access("/sys/devices/system/node/node1", F_OK))
		SKIP("one NUMA node");
	device_find();
	ASSERT_OK(device_unbind());
	device_set("numa_node", "1");
	ASSERT_OK(device_bind());
	ASSERT(!syscall(SYS_set_mempolicy, MPOL_BIND, &first, sizeof(first) * 8));
	fd = cs_open_file();
	before[0] = gpu_pages(0);
	before[1] = gpu_pages(1);
	ASSERT_OK(cs_bo_create(fd, PAGES * KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &bo));
	ktap_note("%lld pages on node 0, %lld on node 1", (long long)(gpu_pages(0) - before[0]),
		  (long long)(gpu_pages(1) - before[1]));
	EXPECT_EQ(gpu_pages(0), before[0]);
	EXPECT(gpu_pages(1) >= before[1] + PAGES);
	ASSERT_OK(cs_bo_close(fd, bo));
	/* The C driver keeps freed pages in a pool. */
	if (ktap_is_rkfd())
		EXPECT(gpu_pages(1) < before[1] + PAGES);
	close(fd);
	ASSERT(!syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0));
	ASSERT_OK(device_unbind());
	device_set("numa_node", "0");
	ASSERT_OK(device_bind());
}
