// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests a queue that reads poison (data with an uncorrectable error): the GPU is the model with the
 * knob cp.poison=1, or sdma.poison=1 and SDMA=1 in the environment.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "fixture.h"

static volatile sig_atomic_t signals;

static void on_sigbus(int number)
{
	(void)number;
	signals++;
}

/* Events of a process and their data. */
struct events {
	struct kfd_event_data hw, memory;
};

static void create_events(struct kfd *k, struct events *e)
{
	memset(e, 0, sizeof(*e));
	ASSERT_OK(kfd_event_create(k, KFD_IOC_EVENT_HW_EXCEPTION, false, &e->hw.event_id));
	ASSERT_OK(kfd_event_create(k, KFD_IOC_EVENT_MEMORY, false, &e->memory.event_id));
}

static void expect_reset(struct kfd *k, struct events *e, uint32_t cause)
{
	struct kfd_hsa_hw_exception_data *hw = &e->hw.hw_exception_data;
	uint32_t result;

	ASSERT_OK(kfd_event_wait(k, &e->hw, 1, false, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(hw->reset_type, KFD_HW_EXCEPTION_WHOLE_GPU_RESET);
	EXPECT_EQ(hw->reset_cause, cause);
	EXPECT_EQ(hw->memory_lost, 1);
	EXPECT_EQ(hw->gpu_id, k->node.gpu_id);
}

static void expect_poison(struct kfd *k, struct events *e)
{
	struct kfd_hsa_memory_exception_data *memory = &e->memory.memory_exception_data;
	uint32_t result;

	ASSERT_OK(kfd_event_wait(k, &e->memory, 1, false, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(memory->ErrorType, KFD_MEM_ERR_POISON_CONSUMED);
	EXPECT_EQ(memory->gpu_id, k->node.gpu_id);
	EXPECT_EQ(memory->va, 0);
	EXPECT_EQ(memory->failure.imprecise, 1);
	EXPECT_EQ(memory->failure.NotPresent, 0);
}

/*
 * A process that uses the GPU: to it the reset is one after a hang, as sram_ecc_flag is not set on
 * gfx942. Writes a byte when its events exist.
 */
static void neighbour(int ready)
{
	struct events events;
	uint32_t result;
	struct kfd k;

	fixture_open(&k);
	create_events(&k, &events);
	signal(SIGBUS, on_sigbus);
	ASSERT(write(ready, "x", 1) == 1);
	expect_reset(&k, &events, KFD_HW_EXCEPTION_GPU_HANG);
	ASSERT_OK(kfd_event_wait(&k, &events.memory, 1, false, 200, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_EQ(signals, 0);
}

static void consume(struct fixture *f)
{
	uint32_t packets[8] = { 0 }, *p = packets, *words = f->data->va;
	static struct sdma_queue q;

	if (!getenv("SDMA")) {
		fixture_fill_start(f, &f->q, &f->signal, 0, words, 64, 1);
		return;
	}
	ASSERT_OK(sdma_queue_create(&f->k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 4096));
	sdma_copy(&p, kfd_va(words + 1024), kfd_va(words), 4096);
	ASSERT_OK(sdma_queue_put(&q, packets, p));
	sdma_queue_ring(&q);
}

TEST_TIMEOUT(processes_are_told_and_the_gpu_is_reset, 120)
{
	struct events events;
	struct fixture f;
	int pipes[2];
	pid_t child;
	char byte;
	int status;

	ASSERT(pipe(pipes) == 0);
	child = fork_child();
	if (child == 0) {
		neighbour(pipes[1]);
		ktap_end();
	}
	ASSERT(read(pipes[0], &byte, 1) == 1);
	signal(SIGBUS, on_sigbus);
	fixture_launch(&f);
	create_events(&f.k, &events);
	consume(&f);
	expect_reset(&f.k, &events, KFD_HW_EXCEPTION_ECC);
	expect_poison(&f.k, &events);
	/* It is sent after the events. */
	for (int ms = 0; ms < 1000 && !signals; ms += 10)
		usleep(10000);
	EXPECT_EQ(signals, 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x", status);
	EXPECT_OK(ktap_in_child(fixture_wait_for_reset, NULL));
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
	EXPECT_EQ(signals, 1);
}
