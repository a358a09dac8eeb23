// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests GPU access to userptr memory that was unmapped: a memory fault. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "userptr.h"

static void expect_fault(struct fixture *f, uint32_t id, uint64_t va)
{
	struct kfd_event_data data = { .event_id = id };
	uint32_t result = 99;

	ASSERT_OK(kfd_event_wait(&f->k, &data, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(data.memory_exception_data.gpu_id, f->k.node.gpu_id);
	EXPECT_EQ(data.memory_exception_data.va, va);
	EXPECT_EQ(data.memory_exception_data.failure.NotPresent, 1);
}

/* Its pages belong to another process by now. */
static void memory_goes(void *how)
{
	struct fixture f;
	struct pages p;
	uint32_t id;

	fixture_launch(&f);
	id = fixture_memory_event(&f);
	register_new(&f.k, 16 * KFD_PAGE, &p);
	ASSERT(gpu_writes(&f, &p, 3 * KFD_PAGE, 64, 1));
	if (*(int *)how == 0)
		ASSERT(munmap(p.cpu, p.size) == 0);
	else if (*(int *)how == 1)
		ASSERT(mprotect(p.cpu, p.size, PROT_NONE) == 0);
	else
		ASSERT(mremap(p.cpu, p.size, p.size, MREMAP_MAYMOVE | MREMAP_FIXED,
			      anonymous(p.size)) != MAP_FAILED);
	/* The page tables are rewritten meanwhile. */
	usleep(100000);
	fixture_fill_start(&f, &f.q, &f.signal, 0, (uint32_t *)(p.gpu + 3 * KFD_PAGE), 64, 2);
	expect_fault(&f, id, p.gpu + 3 * KFD_PAGE);
	EXPECT(f.signal.s->value == 1);
}

TEST_TIMEOUT(unmapped_userptr_raises_memory_event, 120)
{
	for (int how = 0; how < 3; how++)
		ASSERT_OK(ktap_in_child(memory_goes, &how));
}

/* Only this process is affected. */
TEST_TIMEOUT(other_processes_survive_fault, 120)
{
	struct fixture f;
	struct pages p;
	int how = 0;

	fixture_launch(&f);
	register_new(&f.k, 4 * KFD_PAGE, &p);
	for (int i = 0; i < 3; i++) {
		ASSERT(gpu_writes(&f, &p, 0, 64, (uint32_t)i));
		ASSERT_OK(ktap_in_child(memory_goes, &how));
		ASSERT(gpu_writes(&f, &p, KFD_PAGE, 64, (uint32_t)i));
	}
}
