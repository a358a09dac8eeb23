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

#define KIB (64ul << 10)

enum { MPOL_DEFAULT = 0, MPOL_BIND = 2 };

/* Returns the memory of GPUs on a node in KiB. */
static unsigned long gpu_kib(int node)
{
	unsigned long kib = ~0ul;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	file = fopen(path, "r");
	ASSERT(file != NULL);
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, "GPUActive:");

		if (at)
			kib = strtoul(at + strlen("GPUActive:"), NULL, 10);
	}
	fclose(file);
	ASSERT(kib != ~0ul);
	return kib;
}

/* Memory is that of the GPU's node, whatever the policy of the task, and counted there. */
TEST(gtt_is_on_the_node_of_the_gpu)
{
	unsigned long before[2], first = 1;
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
	before[0] = gpu_kib(0);
	before[1] = gpu_kib(1);
	ASSERT_OK(cs_bo_create(fd, KIB << 10, AMDGPU_GEM_DOMAIN_GTT, 0, &bo));
	ktap_note("%lu KiB on node 0, %lu on node 1", gpu_kib(0) - before[0],
		  gpu_kib(1) - before[1]);
	EXPECT_EQ(gpu_kib(0), before[0]);
	EXPECT(gpu_kib(1) >= before[1] + KIB);
	ASSERT_OK(cs_bo_close(fd, bo));
	/* The C driver keeps freed pages in a pool. */
	if (ktap_is_rkfd())
		EXPECT(gpu_kib(1) < before[1] + KIB);
	close(fd);
	ASSERT(!syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0));
	ASSERT_OK(device_unbind());
	device_set("numa_node", "0");
	ASSERT_OK(device_bind());
}
