// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests module parameters, whose values are in the environment: MAX_QUEUES, MAX_PROCESSES (0 or 1),
 * NO_LIMIT, SCHED_POLICY (1), NORETRY (0), LOCKUP_TIMEOUT (0 or below).
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "svm.h"

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

/* Starts when the process at the other end of a socket has a queue, too. */
static void work_with(int peer)
{
	struct fixture f;
	char byte = 0;

	fixture_launch(&f);
	ASSERT(write(peer, &byte, 1) == 1 && read(peer, &byte, 1) == 1);
	for (int i = 0; i < ROUNDS; i++)
		ASSERT(fixture_works(&f));
}

/* hws_max_conc_proc: two processes take turns, as with more processes than VMIDs. */
TEST_TIMEOUT(processes_take_turns, 120)
{
	int most = parameter("MAX_PROCESSES"), log, status, ends[2];
	pid_t child;

	if (most != 1)
		SKIP("the parameter is not 1");
	log = kmsg_open();
	ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	child = fork_child();
	if (!child) {
		close(ends[0]);
		work_with(ends[1]);
		ktap_end();
	}
	close(ends[1]);
	work_with(ends[0]);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	EXPECT(kmsg_lines_with(log, "oversubscribed") > 0);
	close(log);
}

/* The same value 0: a single process does not take turns with itself (`pm_calc_rlib_size`). */
TEST(one_process_is_not_oversubscribed)
{
	struct fixture f;
	int log;

	if (parameter("MAX_PROCESSES"))
		SKIP("the parameter is not 0");
	log = kmsg_open();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	EXPECT_EQ(kmsg_lines_with(log, "oversubscribed"), 0);
	close(log);
}

/*
 * no_system_mem_limit: the same pages are registered at 7 addresses. More than 7 mappings of a page
 * are an error of DMA-API debugging.
 */
TEST_TIMEOUT(system_memory, 120)
{
	uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * KFD_PAGE, registered = 0;
	const uint64_t size = total / 5 / MIB * MIB + MIB;
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

/* Returns the number of compute queues of the first GPU that are mapped at a time. */
static unsigned int mapped_queues(void)
{
	struct kfd_node node;
	uint64_t most = 0;
	char path[300];

	ASSERT_OK(kfd_topology_find_gpu(&node));
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", node.index);
	ASSERT_OK(kfd_sysfs_value(path, "num_cp_queues", &most));
	ASSERT(most > 0 && most < 64);
	return (unsigned int)most;
}

/* sched_policy: without oversubscription, as many compute queues are active as the node maps. */
TEST_TIMEOUT(queues_are_not_oversubscribed, 120)
{
	unsigned int count = 0, most = mapped_queues();
	struct kfd_queue queues[65];
	struct kfd k;
	int ret;

	ASSERT_EQ(parameter("SCHED_POLICY"), 1);
	fixture_open(&k);
	while (!(ret = kfd_queue_create(&k, &queues[count], 64)) && count < 64)
		count++;
	EXPECT_RET(ret, -EPERM);
	EXPECT_EQ(count, most);
	EXPECT_OK(kfd_queue_destroy(&queues[0]));
	EXPECT_OK(kfd_queue_create(&k, &queues[0], 64));
}

/*
 * The same: all but one of the VMIDs of processes, 3 to 15 or 8 to 15 (`first_kfd_vmid`), have one
 * with queues (`processes_count >= vmid_num_kfd`).
 */
TEST_TIMEOUT(processes_are_not_oversubscribed, 120)
{
	int ready[2], release[2], refused = 0, created = 0, most, status;
	struct kfd_node node;
	pid_t children[16];

	ASSERT_EQ(parameter("SCHED_POLICY"), 1);
	ASSERT_OK(kfd_topology_find_gpu(&node));
	most = is_gfx12(&node) ? 7 : 12;
	if ((int)mapped_queues() <= most)
		SKIP("fewer queues than processes");
	ASSERT(!pipe(release));
	for (int i = 0; i <= most; i++) {
		int ret;

		ASSERT(!pipe(ready));
		children[i] = fork_child();
		if (!children[i]) {
			struct kfd_queue queue;
			struct kfd k;
			char byte;

			fixture_open(&k);
			ret = kfd_queue_create(&k, &queue, 64);
			close(release[1]);
			ASSERT(write(ready[1], &ret, sizeof(ret)) == sizeof(ret));
			/* Ends when the parent closes its end. */
			ASSERT(read(release[0], &byte, 1) == 0);
			ktap_end();
		}
		/* The read ends with a child that fails. */
		close(ready[1]);
		ASSERT(read(ready[0], &ret, sizeof(ret)) == sizeof(ret));
		close(ready[0]);
		created += !ret;
		refused += ret == -EPERM;
	}
	close(release[1]);
	for (int i = 0; i <= most; i++)
		ASSERT(waitpid(children[i], &status, 0) == children[i] && !status);
	EXPECT_EQ(created, most);
	EXPECT_EQ(refused, 1);
}

/* noretry: processes begin with retry faults. */
TEST_TIMEOUT(processes_begin_with_retry_faults, 120)
{
	struct fixture f;

	ASSERT_EQ(parameter("NORETRY"), 0);
	fixture_launch(&f);
	svm_mode_needed(&f.k, true);
	EXPECT_EQ(svm_xnack(&f.k, -1), 1);
	EXPECT(fixture_works(&f));
}

/*
 * lockup_timeout: 0 is the default, which is 10 s, and a negative one no limit. The default of the
 * C driver is 2 s, which the model may exceed.
 */
TEST(jobs_have_time)
{
	bool limited = parameter("LOCKUP_TIMEOUT") == 0;
	uint64_t handle, busy;
	double start, took;
	struct cs cs;

	ASSERT(parameter("LOCKUP_TIMEOUT") <= 0);
	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &handle));
	usleep(!limited ? 13000000 : ktap_is_rkfd() ? 5000000 : 500000);
	cs.data.words[0] = 1;
	cs_done(&cs, 0, handle);
	if (!limited || !ktap_is_rkfd())
		return;
	start = seconds_now();
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 2), &handle));
	EXPECT_RET(cs_wait(&cs, 0, handle, FOREVER, &busy), -ETIME);
	took = seconds_now() - start;
	ktap_note("the job ended after %.1f s", took);
	EXPECT(took > 9 && took < 15 * ktap_time_factor(), "%.1f s", took);
}
