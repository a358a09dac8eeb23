// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests faulting kernels: the GPU stops them, the process gets an event, other processes are
 * unaffected.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"

#define NOWHERE 0x7000deadb000ull

static struct kfd_hsa_memory_exception_data expect_fault(struct fixture *f, uint32_t id)
{
	struct kfd_event_data data = { .event_id = id };
	uint32_t result = 99;

	ASSERT_OK(kfd_event_wait(&f->k, &data, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(data.memory_exception_data.gpu_id, f->k.node.gpu_id);
	return data.memory_exception_data;
}

TEST_TIMEOUT(store_to_unmapped_raises_memory_event, 90)
{
	struct kfd_hsa_memory_exception_data data;
	struct fixture f;
	uint32_t id;

	fixture_launch(&f);
	id = fixture_memory_event(&f);
	fixture_start(&f, "poke", NOWHERE, 1);
	data = expect_fault(&f, id);
	EXPECT_EQ(data.va, NOWHERE);
	EXPECT_EQ(f.signal.s->value, 1);
}

TEST_TIMEOUT(store_to_read_only_raises_memory_event, 90)
{
	struct kfd_hsa_memory_exception_data data;
	struct kfd_bo *bo;
	struct fixture f;
	uint32_t id;

	fixture_launch(&f);
	id = fixture_memory_event(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 4096, KFD_IOC_ALLOC_MEM_FLAGS_GTT, &bo));
	fixture_start(&f, "poke", kfd_va(bo->va), 77);
	data = expect_fault(&f, id);
	EXPECT_EQ(data.va, kfd_va(bo->va));
	EXPECT_EQ(*(uint32_t *)bo->va, 0);
}

TEST_TIMEOUT(unmap_takes_effect_at_once, 90)
{
	struct kfd_hsa_memory_exception_data data;
	struct kfd_bo *bo;
	struct fixture f;
	uint32_t id;

	fixture_launch(&f);
	id = fixture_memory_event(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 4096, KFD_FLAGS_GTT, &bo));
	fixture_start(&f, "poke", kfd_va(bo->va), 5);
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(*(uint32_t *)bo->va, 5);
	ASSERT_OK(kfd_bo_unmap_gpu(&f.k, bo));
	fixture_start(&f, "poke", kfd_va(bo->va), 6);
	data = expect_fault(&f, id);
	EXPECT_EQ(data.va, kfd_va(bo->va));
	EXPECT_EQ(*(uint32_t *)bo->va, 5);
}

/* Returns the status that the driver has logged last, with its name in rkfd or the C driver. */
static uint32_t logged_status(int log)
{
	uint32_t status = 0;
	char line[2048];

	while (kmsg_next(log, line, sizeof(line))) {
		const char *name = strstr(line, ", status 0x");

		if (!name)
			name = strstr(line, "PROTECTION_FAULT_STATUS");
		name = name ? strstr(name, "0x") : NULL;
		if (name)
			status = (uint32_t)strtoul(name, NULL, 16);
	}
	return status;
}

static void store_to_read_only(void *data)
{
	struct kfd_bo *bo;
	struct fixture f;
	uint32_t id;

	(void)data;
	fixture_launch(&f);
	id = fixture_memory_event(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 4096, KFD_IOC_ALLOC_MEM_FLAGS_GTT, &bo));
	fixture_start(&f, "poke", kfd_va(bo->va), 77);
	expect_fault(&f, id);
}

static void fault_and_leave(void *data)
{
	struct fixture f;
	uint32_t id;

	(void)data;
	fixture_launch(&f);
	id = fixture_memory_event(&f);
	fixture_start(&f, "poke", NOWHERE, 1);
	expect_fault(&f, id);
}

/* The status is latched until the driver clears it. PERMISSION_FAULTS has VALID and WRITE. */
TEST_TIMEOUT(each_fault_has_its_status, 180)
{
	int log = kmsg_open();
	uint32_t unmapped, read_only;

	ASSERT_OK(ktap_in_child(fault_and_leave, NULL));
	unmapped = logged_status(log);
	ASSERT_OK(ktap_in_child(store_to_read_only, NULL));
	read_only = logged_status(log);
	EXPECT_EQ(unmapped >> 4 & 15, 5);
	EXPECT_EQ(read_only >> 4 & 15, 4);
	close(log);
}

TEST_TIMEOUT(other_processes_survive_fault, 180)
{
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 3; i++) {
		EXPECT(fixture_works(&f));
		EXPECT_OK(ktap_in_child(fault_and_leave, NULL));
		EXPECT(fixture_works(&f));
	}
}

/* Memory of another process is unreachable even at a known address. */
TEST_TIMEOUT(foreign_memory_faults, 120)
{
	struct fixture f;
	int status;
	pid_t child;
	uint64_t va = 0x7000aaaa0000ull;
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = va,
							   .size = 4096,
							   .flags = KFD_FLAGS_GTT };
	struct kfd_bo bo = { .va = (void *)va, .size = 4096, .flags = KFD_FLAGS_GTT };

	fixture_launch(&f);
	args.gpu_id = f.k.node.gpu_id;
	ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	bo.handle = args.handle;
	bo.mmap_offset = args.mmap_offset;
	ASSERT_OK(kfd_bo_map_cpu(&f.k, &bo));
	ASSERT_OK(kfd_bo_map_gpu(&f.k, &bo));
	*(uint32_t *)bo.va = 0x5ec4e7;
	child = fork_child();
	if (!child) {
		struct fixture mine;
		uint32_t id;

		fixture_launch(&mine);
		id = fixture_memory_event(&mine);
		fixture_start(&mine, "poke", va, 0xbad);
		EXPECT_EQ(expect_fault(&mine, id).va, va);
		ktap_end();
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	EXPECT_EQ(*(uint32_t *)bo.va, 0x5ec4e7);
	EXPECT(fixture_works(&f));
}

/* After an illegal instruction the process can still be torn down. */
static void run_illegal(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	fixture_start(&f, "illegal", kfd_va(f.data->va), 0);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 1000), -ETIME);
	EXPECT_EQ(((uint32_t *)f.data->va)[0], 1);
	EXPECT_EQ(((uint32_t *)f.data->va)[1], 0);
}

TEST_TIMEOUT(illegal_instruction, 120)
{
	struct fixture f;

	EXPECT_OK(ktap_in_child(run_illegal, NULL));
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

/* Vendor packet of format 1 with an IB that writes a register of the graphics context. */
static void run_privileged(void *unused)
{
	struct {
		uint16_t header, format;
		uint32_t pm4[4], dw_cnt_remain, reserved[8];
		uint64_t completion_signal;
	} packet = { .header = AQL_HEADER(AQL_VENDOR, true), .format = 1, .dw_cnt_remain = 10 };
	struct fixture f;
	uint32_t *ib;

	(void)unused;
	fixture_launch(&f);
	f.signal.s->value = 1;
	ib = f.data->va;
	ib[0] = 0xc0016800;
	ib[1] = ib[2] = 0;
	packet.pm4[0] = 0xc0023f00;
	packet.pm4[1] = (uint32_t)kfd_va(ib);
	packet.pm4[2] = (uint32_t)(kfd_va(ib) >> 32);
	packet.pm4[3] = 3 | 1 << 23;
	packet.completion_signal = kfd_va(f.signal.s);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 1000), -ETIME);
}

/* The interrupt of a privileged register is enabled: the driver logs the access. */
TEST_TIMEOUT(privileged_register_is_logged, 120)
{
	int rkfd = kmsg_open(), amdgpu = kmsg_open();
	struct fixture f;

	EXPECT_OK(ktap_in_child(run_privileged, NULL));
	EXPECT_EQ(kmsg_lines_with(rkfd, "privileged access by a queue") +
			  kmsg_lines_with(amdgpu, "Illegal register access in command stream"),
		  1);
	close(rkfd);
	close(amdgpu);
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

/*
 * Processes are cheap, so that one message for each would fill the log. The last test: for some
 * seconds afterwards further faults are not logged.
 */
TEST_TIMEOUT(messages_are_limited, 120)
{
	static struct fixture all[15];
	int lines = 0, log;

	for (int i = 0; i < 15; i++)
		fixture_launch_context(&all[i]);
	log = kmsg_open();
	for (int i = 0; i < 15; i++)
		fixture_start(&all[i], "poke", NOWHERE, 1);
	for (int i = 0; i < 100 && !lines; i++) {
		usleep(100000);
		lines += kmsg_lines_with(log, "no handler registered for the VM fault");
	}
	sleep(2);
	lines += kmsg_lines_with(log, "no handler registered for the VM fault");
	EXPECT(lines > 0 && lines <= 10, "%d lines", lines);
	for (int i = 0; i < 15; i++)
		kfd_close(&all[i].k);
	close(log);
}
