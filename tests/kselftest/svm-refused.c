// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests retry faults (XNACK) that cannot be served: without memory or permission, an access ends in
 * a memory exception of its process, once.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "svm.h"

#define NOWHERE 0x7000deadb000ull

/* Faults of some pages that cannot be served, at a stride of 4 MiB, which are handled in turns. */
static void faults_in_turns(void *data)
{
	const uint32_t grid[3] = { 64, 1, 1 }, count = *(uint32_t *)data;
	const uint16_t group[3] = { 64, 1, 1 };
	struct kfd_event_data event = { 0 };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	uint64_t at = 0, before;
	uint32_t result = 99;
	struct fixture f;

	svm_launch_mode(&f, true);
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, false, &event.event_id));
	ASSERT_OK(fixture_kernel(&f, "fill", &kernel));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t *kernarg = (uint64_t *)((char *)f.kernarg->va + i * 256);

		kernarg[0] = NOWHERE + i * 4 * MIB;
		kernarg[1] = i;
		kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, NULL);
		/* At the same time. */
		packet.header = AQL_HEADER(AQL_KERNEL_DISPATCH, false);
		at = kfd_queue_write(&f.q, &packet);
	}
	before = svm_settled_faults(&f.k);
	kfd_queue_ring(&f.q, at);
	ASSERT_OK(kfd_event_wait(&f.k, &event, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	at = event.memory_exception_data.va - NOWHERE;
	EXPECT(at < count * 4 * MIB && at % (4 * MIB) == 0, "at %#llx",
	       (unsigned long long)event.memory_exception_data.va);
	/* The first one that is repeated is reported. The C driver counts those that it serves. */
	before = svm_settled_faults(&f.k) - before;
	EXPECT(before <= count + 1, "%llu faults of %u pages", (unsigned long long)before, count);
}

TEST_TIMEOUT(faults_that_cannot_be_served_in_turns, 240)
{
	struct fixture f;

	svm_launch_mode(&f, true);
	for (uint32_t count = 2; count < 6; count++)
		EXPECT_OK(ktap_in_child(faults_in_turns, &count));
}

/* A fault that cannot be served: an event of the process, with the address. */
static void fault_case(void *data)
{
	struct kfd_event_data event = { 0 };
	struct pages user;
	struct fixture f;
	uint64_t va = NOWHERE;
	uint32_t result = 99;
	char *p;

	svm_launch_mode(&f, true);
	p = anonymous(8 * KFD_PAGE);
	switch (*(int *)data) {
	case 0: /* Nothing is there. */
		break;
	case 1: /* Without access. */
		memset(p, 0, KFD_PAGE);
		ASSERT_OK(svm_set(&f.k, p, 8 * KFD_PAGE,
				  { KFD_IOCTL_SVM_ATTR_NO_ACCESS, f.k.node.gpu_id }));
		va = kfd_va(p);
		break;
	case 2: /* Read-only for the process. */
		ASSERT(mprotect(p, 8 * KFD_PAGE, PROT_READ) == 0);
		va = kfd_va(p);
		break;
	case 3: /* Unmapped after its use. */
		ASSERT(svm_works(&f, p, KFD_PAGE, 0x100));
		ASSERT(munmap(p, 8 * KFD_PAGE) == 0);
		va = kfd_va(p);
		break;
	case 4: /* Of a userptr BO, which is mapped elsewhere. */
		p = anonymous_huge();
		register_at(&f.k, p, kfd_va(anonymous(8 * KFD_PAGE)), 8 * KFD_PAGE, &user);
		va = kfd_va(p);
		break;
	case 5: /* Read-only for the GPU. */
		ASSERT_OK(svm_access(&f.k, p, 8 * KFD_PAGE));
		ASSERT_OK(svm_set(&f.k, p, 8 * KFD_PAGE,
				  { KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO }));
		va = kfd_va(p);
		break;
	}
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, true, &event.event_id));
	fixture_fill_start(&f, &f.q, &f.signal, 0, (uint32_t *)va, 64, 1);
	ASSERT_OK(kfd_event_wait(&f.k, &event, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(event.memory_exception_data.gpu_id, f.k.node.gpu_id);
	EXPECT_EQ(event.memory_exception_data.va, va);
	EXPECT_EQ(event.memory_exception_data.failure.NotPresent, 1);
	EXPECT_EQ(event.memory_exception_data.failure.ReadOnly, 1);
	EXPECT_EQ(event.memory_exception_data.failure.NoExecute, 0);
	EXPECT_EQ(f.signal.s->value, 1);
	/*
	 * Once. The C driver reports the access that is retried and, if the waves are not preempted
	 * in time, their next attempt, which is not (kgd2kfd_vmfault_fast_path filters the entries
	 * of the software ring only).
	 */
	if (ktap_is_rkfd())
		EXPECT_EQ(event_result(&f.k, event.event_id, 1000), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

/*
 * Starts a kernel whose code is in memory of the process, which has GPU_EXEC or not. Returns its
 * address.
 */
static uint64_t start_plain_code(struct fixture *f, bool executable)
{
	const size_t size = (f->code.bo->size + KFD_PAGE - 1) & ~(KFD_PAGE - 1);
	const uint32_t grid[3] = { 64, 1, 1 }, value = 0x77;
	const uint16_t group[3] = { 64, 1, 1 };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	uint64_t to = kfd_va(f->data->va), offset;
	char *code = anonymous(size);

	memcpy(code, f->code.bo->va, f->code.bo->size);
	if (executable)
		ASSERT_OK(svm_set(&f->k, code, size,
				  { KFD_IOCTL_SVM_ATTR_SET_FLAGS,
				    KFD_IOCTL_SVM_FLAG_GPU_EXEC }));
	ASSERT_OK(fixture_kernel(f, "fill", &kernel));
	kernel.descriptor = kfd_va(code) + (kernel.descriptor - kfd_va(f->code.bo->va));
	/* kernel_code_entry_byte_offset */
	memcpy(&offset, (void *)(kernel.descriptor + 16), sizeof(offset));
	memcpy(f->kernarg->va, &to, sizeof(to));
	memcpy((char *)f->kernarg->va + 8, &value, sizeof(value));
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
	return kernel.descriptor + offset;
}

/* Code in memory of the process, for which it has set GPU_EXEC. */
TEST_TIMEOUT(code_in_plain_memory, 120)
{
	struct fixture f;

	svm_launch_mode(&f, true);
	start_plain_code(&f, true);
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(((uint32_t *)f.data->va)[63], 0x77);
}

/* Without GPU_EXEC a fetch cannot be served: one memory exception. */
TEST_TIMEOUT(fetch_without_permission, 120)
{
	struct kfd_event_data event = { 0 };
	uint32_t result = 99;
	struct fixture f;
	uint64_t entry;

	svm_launch_mode(&f, true);
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, true, &event.event_id));
	entry = start_plain_code(&f, false);
	ASSERT_OK(kfd_event_wait(&f.k, &event, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(event.memory_exception_data.gpu_id, f.k.node.gpu_id);
	EXPECT_EQ(event.memory_exception_data.va, entry & ~(KFD_PAGE - 1));
	EXPECT_EQ(f.signal.s->value, 1);
	EXPECT_EQ(event_result(&f.k, event.event_id, 1000), KFD_IOC_WAIT_RESULT_TIMEOUT);
}

TEST_TIMEOUT(faults_that_cannot_be_served, 240)
{
	struct fixture f;

	svm_launch_mode(&f, true);
	for (int i = 0; i < 6; i++) {
		/* The C driver repeats a write without the right of the GPU without end. */
		if (i == 5 && !ktap_is_rkfd())
			break;
		EXPECT(ktap_in_child(fault_case, &i) == 0, "case %d", i);
		EXPECT(svm_works(&f, anonymous(KFD_PAGE), KFD_PAGE, 0x100 + (uint32_t)i));
	}
}
