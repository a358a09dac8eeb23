// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests module parameters, whose values are in the environment: MAX_QUEUES, MAX_PROCESSES (1),
 * NO_LIMIT.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"

#define MIB (1ul << 20)
#define ROUNDS 20

/* Returns the value of a parameter; skips the test if the driver has its default. */
static int parameter(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		SKIP("the parameter has its default");
	return atoi(value);
}

/* max_num_of_queues_per_device */
TEST(queues_per_gpu)
{
	int most = parameter("MAX_QUEUES"), count = 0, ret;
	struct kfd_queue queues[64];
	struct kfd k;

	fixture_open(&k);
	ASSERT(most < 63);
	while (!(ret = kfd_queue_create(&k, &queues[count], 64)) && count < 63)
		count++;
	EXPECT_RET(ret, -EPERM);
	EXPECT_EQ(count, most);
	EXPECT_OK(kfd_queue_destroy(&queues[0]));
	EXPECT_OK(kfd_queue_create(&k, &queues[0], 64));
}

static void work(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	for (int i = 0; i < ROUNDS; i++)
		ASSERT(fixture_works(&f));
}

/* hws_max_conc_proc: two processes take turns, as with more processes than VMIDs. */
TEST_TIMEOUT(processes_take_turns, 120)
{
	int log = kmsg_open(), most = parameter("MAX_PROCESSES"), status;
	pid_t child;

	ASSERT_EQ(most, 1);
	child = fork_child();
	if (!child) {
		work(NULL);
		ktap_end();
	}
	work(NULL);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	EXPECT(kmsg_lines_with(log, "oversubscribed") > 0);
	close(log);
}

/* no_system_mem_limit: the same pages are registered at many addresses. */
TEST_TIMEOUT(system_memory, 120)
{
	const uint64_t size = 64 * MIB;
	uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * KFD_PAGE, registered = 0;
	int fd = memfd_create("pages", MFD_CLOEXEC);
	struct kfd k;

	parameter("NO_LIMIT");
	fixture_open(&k);
	ASSERT(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	for (; registered < total + total / 4; registered += size) {
		struct kfd_ioctl_alloc_memory_of_gpu_args args = {
			.va_addr = 0x10000000000, .size = size, .gpu_id = k.node.gpu_id,
			.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
				 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE,
		};
		void *va = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		ASSERT(va != MAP_FAILED);
		args.mmap_offset = kfd_va(va);
		if (!EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args)))
			break;
	}
	ktap_note("%lu of %lu MiB", (unsigned long)(registered / MIB), (unsigned long)(total / MIB));
}
