// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests of exceptions of a process that is debugged: invalid packets, VM faults. */
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debugger.h"

#define NOWHERE 0x7000deadb000ull

/* An exception of a queue goes to the debugger, and through it to the runtime. */
TEST(packet_exceptions)
{
	const uint64_t bad = EC(QUEUE_PACKET_DISPATCH_DIM_INVALID);
	struct kfd_context_save_area_header *header;
	struct aql_dispatch packet = { .header = AQL_KERNEL_DISPATCH };
	volatile uint64_t *payload;
	struct session s;
	struct fixture f;
	uint32_t event;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	payload = (uint64_t *)f.data->va;
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_SIGNAL, true, &event));
	header = f.q.cwsr->va;
	header->err_payload_addr = kfd_va((void *)payload);
	header->err_event_id = event;
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT(notified(&s) > 0);
	EXPECT_EQ(*payload, 0);
	expect_event(&s, bad, f.k.node.gpu_id, f.q.id);
	ASSERT_OK(send_event(&s, bad, f.k.node.gpu_id, f.q.id));
	EXPECT_EQ(event_result(&f.k, event, WAIT_MS), KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(*payload, bad);
}

/* Exceptions that the debugger has not enabled are delivered to the runtime, and are recorded. */
TEST(packet_exceptions_of_no_interest)
{
	const uint64_t bad = EC(QUEUE_PACKET_DISPATCH_DIM_INVALID);
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	struct kfd_context_save_area_header *header;
	struct aql_dispatch packet = { .header = AQL_KERNEL_DISPATCH };
	volatile uint64_t *payload;
	struct session s;
	struct fixture f;
	uint32_t event;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED, &args));
	payload = (uint64_t *)f.data->va;
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_SIGNAL, true, &event));
	header = f.q.cwsr->va;
	header->err_payload_addr = kfd_va((void *)payload);
	header->err_event_id = event;
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	EXPECT_EQ(event_result(&f.k, event, WAIT_MS), KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(*payload, bad);
	EXPECT_EQ(notified_now(&s), 0);
	args.set_exceptions_enabled.exception_mask = ALL_EVENTS;
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED, &args));
	EXPECT_EQ(notified(&s), 1);
	expect_event(&s, bad, f.k.node.gpu_id, f.q.id);
}

/* Writes to an address where nothing is mapped. */
static void write_to(struct fixture *f, struct kfd_queue *q, uint64_t nowhere)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "fill", &kernel));
	memcpy(f->kernarg->va, &nowhere, 8);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f->kernarg->va, &f->signal);
	kfd_queue_ring(q, kfd_queue_write(q, &packet));
}

/* A VM fault is reported to the debugger; the process gets it when the debugger sends it. */
TEST(memory_violation)
{
	const uint64_t violation = EC(DEVICE_MEMORY_VIOLATION);
	struct kfd_hsa_memory_exception_data data;
	struct kfd_event_data waited = { 0 };
	uint32_t result = 99, size = sizeof(data);
	struct session s;
	struct fixture f;

	signal(SIGSEGV, SIG_IGN);
	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, false, &waited.event_id));
	EXPECT_RET(exception_info(&s, EC_DEVICE_MEMORY_VIOLATION, f.k.node.gpu_id, false, &data,
				  &size),
		   -ENODATA);
	write_to(&f, &f.q, NOWHERE);
	ASSERT(notified(&s) > 0);
	/* The process has no event yet. */
	EXPECT_OK(kfd_event_wait(&f.k, &waited, 1, true, 200, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_RET(send_event(&s, violation, NO_SUCH_GPU, 0), -ENODEV);
	/* The data stay until they are read. amdgpu does not record their size, and has none. */
	if (ktap_is_rkfd()) {
		size = sizeof(data);
		EXPECT_RET(exception_info(&s, EC_DEVICE_MEMORY_VIOLATION, f.k.node.gpu_id, true,
					  (void *)8, &size),
			   -EFAULT);
		size = sizeof(data);
		ASSERT_OK(exception_info(&s, EC_DEVICE_MEMORY_VIOLATION, f.k.node.gpu_id, false,
					 &data, &size));
		EXPECT_EQ(data.va, NOWHERE);
	}
	expect_event(&s, violation, f.k.node.gpu_id, 0);
	ASSERT_OK(send_event(&s, violation, f.k.node.gpu_id, 0));
	ASSERT_OK(kfd_event_wait(&f.k, &waited, 1, true, WAIT_MS, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(waited.memory_exception_data.gpu_id, f.k.node.gpu_id);
	EXPECT_EQ(waited.memory_exception_data.va, NOWHERE);
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* A thread that reads the data of a fault and clears it. */
struct reader {
	struct session *s;
	void *data;
	int ret;
};

static void *read_fault(void *data)
{
	uint32_t size = sizeof(struct kfd_hsa_memory_exception_data);
	struct reader *r = data;

	r->ret = exception_info(r->s, EC_DEVICE_MEMORY_VIOLATION, r->s->k->node.gpu_id, true,
				r->data, &size);
	return NULL;
}

/*
 * A fault while the data of another one are written to the debugger, which clears that one. The
 * debugger's memory comes by a userfaultfd: `end` ends the write.
 */
static void fault_while_read(struct reader *r, void (*end)(int userfaults, char *page))
{
	const uint64_t violation = EC(DEVICE_MEMORY_VIOLATION);
	struct kfd_hsa_memory_exception_data data;
	uint32_t size = sizeof(data);
	struct kfd_queue second;
	struct session s;
	struct fixture f;
	pthread_t thread;
	int userfaults;

	signal(SIGSEGV, SIG_IGN);
	r->data = held_page(&userfaults);
	r->s = &s;
	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT_EQ(notified(&s), 1);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, second.id);
	write_to(&f, &f.q, NOWHERE);
	ASSERT(notified(&s) > 0);
	ASSERT(!pthread_create(&thread, NULL, read_fault, r));
	wait_for_access(userfaults);
	write_to(&f, &second, NOWHERE + KFD_PAGE);
	ASSERT(notified(&s) > 0);
	end(userfaults, r->data);
	ASSERT(!pthread_join(thread, NULL));
	EXPECT_OK(exception_info(&s, EC_DEVICE_MEMORY_VIOLATION, f.k.node.gpu_id, false, &data,
				 &size));
	EXPECT_EQ(data.va, r->ret ? NOWHERE : NOWHERE + KFD_PAGE);
	expect_event(&s, violation, f.k.node.gpu_id, 0);
	expect_no_event(&s);
	EXPECT_OK(kfd_queue_destroy(&second));
	EXPECT_OK(kfd_queue_destroy(&f.q));
	close(userfaults);
}

TEST(fault_while_another_is_read)
{
	struct reader r;

	fault_while_read(&r, end_hold);
	EXPECT_OK(r.ret);
	EXPECT_EQ(((struct kfd_hsa_memory_exception_data *)r.data)->va, NOWHERE);
}

static void fail_hold(int userfaults, char *page)
{
	struct uffdio_range range = { .start = kfd_va(page), .len = KFD_PAGE };

	ASSERT(!munmap(page, KFD_PAGE));
	ASSERT(!ioctl(userfaults, UFFDIO_WAKE, &range));
}

/* The first one stays, as without a second one. */
TEST(fault_while_another_is_not_read)
{
	struct reader r;

	fault_while_read(&r, fail_hold);
	EXPECT_RET(r.ret, -EFAULT);
}
