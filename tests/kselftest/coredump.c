// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the coredump of a queue that is reset and of a GPU that hangs. Needs a GPU that does not
 * preempt queues (model knobs hws.no_preempt, mes.error).
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "corelib.h"
#include "fixture.h"
#include "hanglib.h"
#include "listen.h"
#include "nomem.h"

/* The dump of a reset queue names it, and has its MQD and its registers from before the reset. */
TEST_TIMEOUT(reset_queue, 120)
{
	struct kfd_queue second;
	uint64_t ring;
	size_t size;
	uint32_t id;
	char line[128], *text, *registers;
	struct fixture f;

	coredump_free_all();
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ring = kfd_va(f.q.ring->va);
	size = f.q.ring->size;
	id = f.q.id;
	/* Preempts or removes both, which fails for the first one. */
	kfd_queue_destroy(&f.q);
	text = coredump_wait(&f.k);
	coredump_expect(text, is_gfx12(&f.k.node) ? "reason: a queue was not removed from MES\n" :
						"reason: a compute queue was not preempted\n");
	snprintf(line, sizeof(line), "\ngpu_id: %#x\n", f.k.node.gpu_id);
	coredump_expect(text, line);
	snprintf(line, sizeof(line), "\nFailed queue\n  process %d, PASID ", getpid());
	coredump_expect(text, line);
	snprintf(line, sizeof(line), ", queue %u, doorbell ", id);
	coredump_expect(text, line);
	snprintf(line, sizeof(line), ", ring %#llx of %zu bytes, compute",
		 (unsigned long long)ring, size);
	coredump_expect(text, line);
	coredump_expect(text, "\n  MQD of inst 0\n    00000000: ");
	if (!is_gfx12(&f.k.node))
		coredump_expect(text, "\nRunlist\n    00000000: c0");
	coredump_expect(text, is_gfx12(&f.k.node) ? "type MES, running" : "type HIQ");
	registers = strstr(text, "\nCompute HQDs\n");
	ASSERT(registers);
	/* The address of the ring, in units of 256 bytes. */
	snprintf(line, sizeof(line), "CP_HQD_PQ_BASE %08x\n", (uint32_t)(ring >> 8));
	coredump_expect(registers, line);
	coredump_expect(registers, "CP_HQD_ACTIVE 00000001\n");
	coredump_expect(registers, "\nUser queues of the SDMA engines\n");
	/* Behind them, as it is cut off if there are many. */
	coredump_expect(registers, "\nQueues\n");
	free(text);
	coredump_expect_freed();
}

/* A queue is reset. */
static void lose_queue(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	ASSERT(fixture_works(&f));
	kfd_queue_destroy(&f.q);
	_exit(0);
}

/* A dump for which there was no memory is not the last one. */
TEST_TIMEOUT(dump_after_failed_allocations, 120)
{
	struct kfd k;
	char *text;

	coredump_free_all();
	fixture_open(&k);
	nomem_begin();
	ktap_in_child(lose_queue, NULL);
	/* Until the worker has run. */
	sleep(1);
	nomem_end();
	/* It tries to get memory for the next one after half a second. */
	sleep(1);
	coredump_free_all();
	ktap_in_child(lose_queue, NULL);
	text = coredump_wait(&k);
	coredump_expect(text, "reason: ");
	free(text);
	coredump_expect_freed();
}

/*
 * The dump of a GPU that hangs has the registers of the queues that run. If MES does not respond it
 * has no more, as the lock of the queues may be held.
 */
TEST_TIMEOUT(hung_gpu, 180)
{
	struct fixture f;
	char *text;
	int resets;

	hangs_needed();
	coredump_free_all();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	resets = listen_for_resets();
	ktap_in_child(hang_gpu, NULL);
	text = coredump_wait(&f.k);
	if (is_gfx12(&f.k.node)) {
		coredump_expect(text, "reason: MES does not respond\n");
	} else {
		coredump_expect(text, "reason: preemption timed out\n");
		coredump_expect(text, "\nQueues\n  process ");
		coredump_expect(text, "\nRunlist\n    00000000: c0");
	}
	coredump_expect(text, "CP_HQD_ACTIVE 00000001\n");
	free(text);
	coredump_expect_freed();
	expect_reset(resets);
}
