// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests PROFILER: the profiler lock of a GPU, and counting of the waves of all its queues. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "watch.h"

#define MQDS "/sys/kernel/debug/kfd/mqds"
/* COMPUTE_PERFCOUNT_ENABLE in the MQD, and the line of the dump that begins before it. */
#define PERFCOUNT_DWORD 12u
#define PERFCOUNT_LINE "    00000020:"

static int profiler(struct kfd *k, struct kfd_ioctl_profiler_args args)
{
	return kfd_ioctl(k->fd, AMDKFD_IOC_PROFILER, &args);
}

static int pmc(struct kfd *k, uint32_t gpu_id, uint32_t lock, uint32_t count)
{
	return profiler(k, (struct kfd_ioctl_profiler_args){
				   .op = KFD_IOC_PROFILER_PMC,
				   .pmc = { .gpu_id = gpu_id,
					    .lock = lock,
					    .perfcount_enable = count } });
}

TEST(version_and_unknown_operations)
{
	struct kfd_ioctl_profiler_args args = { .op = KFD_IOC_PROFILER_VERSION };
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_PROFILER, &args));
	EXPECT_EQ(args.version, KFD_IOC_PROFILER_VERSION_NUM);
	for (uint32_t op = 0; op < 8; op++)
		if (op != KFD_IOC_PROFILER_PMC && op != KFD_IOC_PROFILER_VERSION &&
		    op != KFD_IOC_PROFILER_PTL_CONTROL)
			EXPECT_RET(profiler(&k, (struct kfd_ioctl_profiler_args){ .op = op }), -EINVAL);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_PROFILER, (void *)KERNEL_ADDRESS), -EFAULT);
}

/* The peak tops limiter: no GPU of the tests has it. */
TEST(ptl_control)
{
	struct kfd_ioctl_profiler_args args = { .op = KFD_IOC_PROFILER_PTL_CONTROL,
						.ptl = { .gpu_id = NO_SUCH_GPU } };
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_RET(profiler(&k, args), -EINVAL);
	args.ptl.gpu_id = k.node.gpu_id;
	EXPECT_RET(profiler(&k, args), -EOPNOTSUPP);
	args.ptl.enable = 1;
	EXPECT_RET(profiler(&k, args), -EOPNOTSUPP);
}

static void try_as_nobody(void *data)
{
	struct kfd k;

	(void)data;
	fixture_open_only(&k);
	ASSERT(!setresuid(65534, 65534, 65534));
	EXPECT_RET(pmc(&k, k.node.gpu_id, 1, 1), -EPERM);
	EXPECT_RET(pmc(&k, NO_SUCH_GPU, 1, 1), -EPERM);
}

static void try_while_held(void *data)
{
	struct kfd k;

	(void)data;
	fixture_open_only(&k);
	EXPECT_RET(pmc(&k, k.node.gpu_id, 1, 1), -EBUSY);
	EXPECT_RET(pmc(&k, k.node.gpu_id, 0, 0), -EINVAL);
}

static void hold_and_exit(void *data)
{
	struct kfd k;

	(void)data;
	fixture_open_only(&k);
	EXPECT_OK(pmc(&k, k.node.gpu_id, 1, 1));
}

/* Takes the lock and releases it, as soon as the process that held it has ended. */
static void expect_released(struct kfd *k)
{
	int ret = 0;

	for (unsigned int ms = 0; ms < WAIT_MS; ms += 10) {
		ret = pmc(k, k->node.gpu_id, 1, 0);
		if (ret != -EBUSY)
			break;
		usleep(10000);
	}
	EXPECT_OK(ret);
	EXPECT_OK(pmc(k, k->node.gpu_id, 0, 0));
}

TEST(lock)
{
	struct kfd k;

	EXPECT_OK(ktap_in_child(try_as_nobody, NULL));
	fixture_open_only(&k);
	EXPECT_RET(pmc(&k, NO_SUCH_GPU, 1, 1), -EINVAL);
	EXPECT_RET(pmc(&k, k.node.gpu_id, 0, 0), -EINVAL);
	EXPECT_RET(pmc(&k, k.node.gpu_id, 2, 0), -EINVAL);
	EXPECT_OK(pmc(&k, k.node.gpu_id, 1, 1));
	EXPECT_RET(pmc(&k, k.node.gpu_id, 1, 1), -EALREADY);
	EXPECT_OK(ktap_in_child(try_while_held, NULL));
	EXPECT_OK(pmc(&k, k.node.gpu_id, 0, 0));
	EXPECT_RET(pmc(&k, k.node.gpu_id, 0, 0), -EINVAL);
	/* It is released with the process, after its exit. */
	EXPECT_OK(ktap_in_child(hold_and_exit, NULL));
	expect_released(&k);
}

/* Each process of an address space is one. */
TEST(lock_of_a_secondary_process)
{
	struct kfd primary, secondary;

	fixture_open_only(&primary);
	fixture_open_only(&secondary);
	ASSERT_OK(kfd_create_process(&secondary));
	EXPECT_OK(pmc(&secondary, secondary.node.gpu_id, 1, 1));
	EXPECT_RET(pmc(&secondary, secondary.node.gpu_id, 1, 1), -EALREADY);
	EXPECT_RET(pmc(&primary, primary.node.gpu_id, 1, 1), -EBUSY);
	kfd_close(&secondary);
	expect_released(&primary);
}

/*
 * Counts the MQDs of the processes' compute queues in which counting is enabled, and those in which
 * it is not.
 */
static void count_mqds(unsigned int counts[2])
{
	char *text = watch_read(MQDS), *next = text, *line;
	bool of_queue = false;

	counts[0] = counts[1] = 0;
	while ((line = strsep(&next, "\n"))) {
		unsigned long value;

		if (strstr(line, " on device "))
			of_queue = !strncmp(line, "  Queue ", 8);
		if (!of_queue || strncmp(line, PERFCOUNT_LINE, strlen(PERFCOUNT_LINE)))
			continue;
		line += strlen(PERFCOUNT_LINE) + 9 * (PERFCOUNT_DWORD % 8);
		value = strtoul(line, NULL, 16);
		ASSERT(value < 2, "%#lx", value);
		counts[value]++;
	}
	free(text);
}

static void expect_counting(unsigned int queues, bool counting, const struct kfd *k)
{
	unsigned int counts[2];

	count_mqds(counts);
	EXPECT_EQ(counts[counting], queues * k->node.num_xcc);
	EXPECT_EQ(counts[!counting], 0);
}

static void hold_with_a_queue(void *data)
{
	struct fixture f;

	fixture_launch(&f);
	EXPECT_OK(pmc(&f.k, f.k.node.gpu_id, 1, 1));
	EXPECT(fixture_works(&f));
	expect_counting(2, true, &f.k);
	if (data)
		kill(getpid(), SIGKILL);
}

/* Waits until the process of a child has ended. */
static void expect_stopped(const struct kfd *k)
{
	unsigned int counts[2];

	for (unsigned int ms = 0; ms < WAIT_MS; ms += 10) {
		count_mqds(counts);
		if (!counts[1] && counts[0] == k->node.num_xcc)
			return;
		usleep(10000);
	}
	EXPECT(false, "%u MQDs are counted, %u are not", counts[1], counts[0]);
}

static int set_percentage(struct kfd *k, const struct kfd_queue *q, uint32_t percentage)
{
	struct kfd_ioctl_update_queue_args args = { .ring_base_address = kfd_va(q->ring->va),
						    .queue_id = q->id,
						    .ring_size = (uint32_t)q->ring->size,
						    .queue_percentage = percentage };

	return kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

TEST(queues_are_counted)
{
	struct kfd_queue second;
	unsigned int counts[2];
	struct fixture f;
	int status;
	pid_t child;

	fixture_launch(&f);
	expect_counting(1, false, &f.k);
	EXPECT_OK(pmc(&f.k, f.k.node.gpu_id, 1, 1));
	expect_counting(1, true, &f.k);
	EXPECT(fixture_works(&f));
	/* New queues, too; updates do not change it. */
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	expect_counting(2, true, &f.k);
	EXPECT_OK(set_percentage(&f.k, &second, 50));
	expect_counting(2, true, &f.k);
	EXPECT_OK(pmc(&f.k, f.k.node.gpu_id, 0, 0));
	expect_counting(2, false, &f.k);
	EXPECT_OK(kfd_queue_destroy(&second));
	/* New queues are counted also if the others are not. */
	EXPECT_OK(pmc(&f.k, f.k.node.gpu_id, 1, 0));
	expect_counting(1, false, &f.k);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	count_mqds(counts);
	EXPECT(counts[0] == f.k.node.num_xcc && counts[1] == counts[0], "%u, %u", counts[0], counts[1]);
	EXPECT_OK(kfd_queue_destroy(&second));
	EXPECT_OK(pmc(&f.k, f.k.node.gpu_id, 0, 0));
	EXPECT(fixture_works(&f));
	/* Those of all processes, until the process that counts has ended. */
	EXPECT_OK(ktap_in_child(hold_with_a_queue, NULL));
	expect_stopped(&f.k);
	child = fork_child();
	if (!child) {
		hold_with_a_queue(&f);
		_exit(0);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status), "status %#x", status);
	expect_stopped(&f.k);
	EXPECT(fixture_works(&f));
}
