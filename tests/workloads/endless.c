// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Starts an endless kernel, prints a line, then waits to be killed. With -s ends the kernel after
 * that many milliseconds and exits cleanly. For tests of abnormal exits.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kfd.h"

static int failed(const char *what, int err)
{
	fprintf(stderr, "endless: %s: %s\n", what, strerror(-err));
	return 1;
}

int main(int argc, char **argv)
{
	unsigned int stop_after =
		argc > 2 && !strcmp(argv[1], "-s") ? (unsigned int)strtoul(argv[2], NULL, 0) : 0;
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	static struct kfd k;
	static struct kfd_queue q;
	struct kfd_code code;
	struct kfd_kernel kernel;
	struct kfd_signal signal;
	struct aql_dispatch packet;
	struct kfd_bo *words;
	volatile uint32_t *flags;
	uint64_t *kernarg;
	int ret = kfd_open(&k);

	if (!ret)
		ret = kfd_queue_create(&k, &q, 64);
	if (!ret)
		ret = kfd_kernels(&k, &code);
	if (!ret)
		ret = kfd_code_kernel(&code, "endless", &kernel);
	if (!ret)
		ret = kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &words);
	if (!ret)
		ret = kfd_signal_create(&k, 1, &signal);
	if (ret)
		return failed("set-up", ret);
	flags = words->va;
	kernarg = (uint64_t *)words->va + 64;
	kernarg[0] = kfd_va((void *)&flags[0]);
	kernarg[1] = kfd_va((void *)&flags[1]);
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &signal);
	kfd_queue_ring(&q, kfd_queue_write(&q, &packet));
	for (int i = 0; i < 10000 && !flags[0]; i++)
		usleep(1000);
	if (!flags[0])
		return failed("kernel did not start", -110);
	printf("endless: running\n");
	fflush(stdout);
	if (!stop_after)
		for (;;)
			pause();
	usleep(stop_after * 1000);
	flags[1] = 1;
	ret = kfd_signal_wait(&k, &signal, 20000);
	if (ret)
		return failed("the end of the kernel", ret);
	ret = kfd_queue_destroy(&q);
	return ret ? failed("destroying the queue", ret) : 0;
}
