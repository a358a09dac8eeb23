// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Creates 30 queues on hardware with 24 HQDs, dispatches on all of them at once, and prints when
 * each one was served. Exits with 0 only if all were, with the right result.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kfd.h"

#define MAX_QUEUES 200
#define WORDS 1024u

static int failed(const char *what, int err)
{
	fprintf(stderr, "many-queues: %s: %s\n", what, strerror(-err));
	return 1;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	static struct kfd_queue q[MAX_QUEUES];
	static struct kfd_signal signals[MAX_QUEUES];
	unsigned int count = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 0) : 30, wrong = 0;
	const uint32_t grid[3] = { WORDS, 1, 1 };
	const uint16_t group[3] = { 256, 1, 1 };
	static struct kfd k;
	struct kfd_code code;
	struct kfd_kernel kernel;
	struct kfd_bo *data, *kernarg;
	double start;
	int ret = kfd_open(&k);

	if (count < 1 || count > MAX_QUEUES) {
		fprintf(stderr, "usage: many-queues [1 to %d (30)]\n", MAX_QUEUES);
		return 2;
	}
	if (!ret)
		ret = kfd_kernels(&k, &code);
	if (!ret)
		ret = kfd_code_kernel(&code, "fill", &kernel);
	if (!ret)
		ret = kfd_bo_create(&k, count * WORDS * 4, KFD_FLAGS_GTT, &data);
	if (!ret)
		ret = kfd_bo_create(&k, count * 64, KFD_FLAGS_GTT, &kernarg);
	if (ret)
		return failed("set-up", ret);
	start = now_ms();
	for (unsigned int i = 0; i < count; i++) {
		ret = kfd_queue_create(&k, &q[i], 64);
		if (!ret)
			ret = kfd_signal_create(&k, 1, &signals[i]);
		if (ret)
			return failed("creating a queue", ret);
	}
	printf("%u queues on %u HQDs, created in %.1f ms\n", count, k.node.num_cp_queues,
	       now_ms() - start);
	start = now_ms();
	for (unsigned int i = 0; i < count; i++) {
		char *args = (char *)kernarg->va + i * 64;
		uint64_t to = kfd_va((uint32_t *)data->va + i * WORDS);
		uint32_t value = 0xabc000 + i;
		struct aql_dispatch packet;

		memcpy(args, &to, 8);
		memcpy(args + 8, &value, 4);
		kfd_fill_dispatch(&packet, &kernel, grid, group, args, &signals[i]);
		kfd_queue_ring(&q[i], kfd_queue_write(&q[i], &packet));
	}
	for (unsigned int i = 0; i < count; i++) {
		ret = kfd_signal_wait(&k, &signals[i], 30000);
		if (ret) {
			fprintf(stderr, "many-queues: queue %u was not served: %s\n", i,
				strerror(-ret));
			return 1;
		}
		printf("queue %3u done by %8.1f ms\n", i, now_ms() - start);
	}
	for (uint32_t i = 0; i < count * WORDS; i++)
		wrong += ((uint32_t *)data->va)[i] != 0xabc000 + i / WORDS;
	for (unsigned int i = 0; i < count; i++) {
		ret = kfd_queue_destroy(&q[i]);
		if (ret)
			return failed("destroying a queue", ret);
	}
	printf("many-queues: %u queues, %u wrong words, %s\n", count, wrong,
	       wrong ? "FAIL" : "PASS");
	return wrong ? 1 : 0;
}
