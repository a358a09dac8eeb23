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
	static struct kfd k;
	static struct kfd_queue q;
	struct kfd_signal signal;
	volatile uint32_t *stop;
	int ret = kfd_start_endless(&k, &q, &signal, &stop);

	if (ret)
		return failed("starting the kernel", ret);
	printf("endless: running\n");
	fflush(stdout);
	if (!stop_after)
		for (;;)
			pause();
	usleep(stop_after * 1000);
	*stop = 1;
	ret = kfd_signal_wait(&k, &signal, 20000);
	if (ret)
		return failed("the end of the kernel", ret);
	ret = kfd_queue_destroy(&q);
	return ret ? failed("destroying the queue", ret) : 0;
}
