// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the debugger interface (DBG_TRAP): sessions, events of queues and of the runtime,
 * snapshots, permissions. In most tests the process debugs itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/kfd_sysfs.h>

#include "debugger.h"
#include "device.h"
#include "svm.h"

TEST(session)
{
	struct kfd_ioctl_dbg_trap_query_debug_event_args event;
	struct kfd_runtime_info info;
	uint32_t size = sizeof(info);
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, getpid());
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EINVAL);
	EXPECT_RET(query_event(&s, 0, &event), -EINVAL);
	memset(&info, 0xee, sizeof(info));
	ASSERT_OK(session_enable_with(&s, s.fd[1], ALL_EVENTS, &info, &size));
	EXPECT_EQ(size, sizeof(info));
	EXPECT_EQ(info.runtime_state, DEBUG_RUNTIME_STATE_DISABLED);
	EXPECT_EQ(info.r_debug, 0);
	EXPECT_EQ(info.ttmp_setup, 0);
	EXPECT_RET(session_enable(&s, 0), -EALREADY);
	expect_no_event(&s);
	EXPECT_RET(dbg_trap_plain(&s, 15), -EINVAL);
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EINVAL);
	/* Part of the information. */
	size = 4;
	memset(&info, 0xee, sizeof(info));
	ASSERT_OK(session_enable_with(&s, s.fd[1], 0, &info, &size));
	EXPECT_EQ(size, sizeof(info));
	EXPECT_EQ(info.r_debug, 0xeeeeeeee00000000);
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_EQ(notified_now(&s), 0);
}

TEST(session_arguments)
{
	struct kfd_runtime_info info;
	uint32_t size = sizeof(info);
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, getpid());
	EXPECT_RET(session_enable_with(&s, 999, 0, &info, &size), -EBADF);
	EXPECT_RET(session_enable_with(&s, s.fd[1], 0, (void *)8, &size), -EFAULT);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EINVAL);
	s.pid = 0x7ffffff0;
	EXPECT_RET(session_enable(&s, 0), -ESRCH);
	s.pid = -1;
	EXPECT_RET(session_enable(&s, 0), -ESRCH);
	s.pid = 1;
	EXPECT_RET(session_enable(&s, 0), -ESRCH);
}

/* These need a runtime. */
TEST(hardware_operations_need_a_runtime)
{
	static const uint32_t ops[] = {
		KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE, KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE,
		KFD_IOC_DBG_TRAP_SUSPEND_QUEUES,	   KFD_IOC_DBG_TRAP_RESUME_QUEUES,
		KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH,   KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH,
		KFD_IOC_DBG_TRAP_SET_FLAGS,
	};
	struct session s;
	struct kfd k;

	debug_self(&s, &k);
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		EXPECT_RET(dbg_trap_plain(&s, ops[i]), -EPERM);
}

/* RUNTIME_ENABLE and its opposite wait for the debugger. */
TEST(runtime_waits_for_the_debugger)
{
	struct kfd_runtime_info info;
	struct session s;
	struct caller c;
	struct kfd k;
	uint32_t size = sizeof(info);

	debug_self(&s, &k);
	EXPECT_RET(exception_info(&s, EC_PROCESS_RUNTIME, 0, false, &info, &size), -ENODATA);
	start_call(&c, &k,
		   KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK | KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK);
	ASSERT_EQ(notified(&s), 1);
	EXPECT_EQ(c.ret, RUNNING);
	size = 99;
	ASSERT_OK(exception_info(&s, EC_PROCESS_RUNTIME, 0, false, &info, &size));
	EXPECT_EQ(size, sizeof(info));
	EXPECT_EQ(info.r_debug, R_DEBUG);
	EXPECT_EQ(info.runtime_state, DEBUG_RUNTIME_STATE_ENABLED);
	EXPECT_EQ(info.ttmp_setup, 1);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	expect_no_event(&s);
	EXPECT_RET(exception_info(&s, EC_PROCESS_RUNTIME, 0, false, &info, &size), -ENODATA);
	usleep(100000);
	EXPECT_EQ(c.ret, RUNNING);
	ASSERT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	EXPECT_OK(end_call(&c));

	start_call(&c, &k, 0);
	ASSERT_EQ(notified(&s), 1);
	EXPECT_EQ(c.ret, RUNNING);
	size = sizeof(info);
	ASSERT_OK(exception_info(&s, EC_PROCESS_RUNTIME, 0, true, &info, &size));
	EXPECT_EQ(info.r_debug, 0);
	EXPECT_EQ(info.runtime_state, DEBUG_RUNTIME_STATE_DISABLED);
	expect_no_event(&s);
	ASSERT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	EXPECT_OK(end_call(&c));
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	/* Without a debugger. */
	EXPECT_OK(runtime_enable(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	EXPECT_OK(runtime_enable(&k, 0));
}

/* The end of the session ends the wait, also if another session begins before the call runs. */
TEST(session_is_replaced_during_the_wait)
{
	const struct sched_param first = { .sched_priority = 1 }, normal = { 0 };
	struct session s;
	struct caller c;
	struct kfd k;
	cpu_set_t cpu;

	if (geteuid())
		SKIP("not privileged");
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	ASSERT(!sched_setaffinity(0, sizeof(cpu), &cpu));
	debug_self(&s, &k);
	start_call(&c, &k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	ASSERT_EQ(notified(&s), 1);
	usleep(100000);
	EXPECT_EQ(c.ret, RUNNING);
	/* The other thread does not run before the new session has begun. */
	ASSERT(!sched_setscheduler(0, SCHED_FIFO, &first));
	ASSERT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	ASSERT(!sched_setscheduler(0, SCHED_OTHER, &normal));
	for (int ms = 0; ms < 5000 && c.ret == RUNNING; ms += 10)
		usleep(10000);
	ASSERT_EQ(c.ret, 0);
	end_call(&c);
}

/* Other calls do not take the reply to a call that waits. */
TEST(one_call_of_the_runtime_waits)
{
	struct caller c, other;
	struct session s;
	struct kfd k;

	debug_self(&s, &k);
	start_call(&c, &k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	ASSERT_EQ(notified(&s), 1);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	usleep(100000);
	start_call(&other, &k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	EXPECT_RET(end_call(&other), -EBUSY);
	EXPECT_EQ(c.ret, RUNNING);
	start_call(&other, &k, 0);
	ASSERT_EQ(notified(&s), 1);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	EXPECT_OK(end_call(&c));
	EXPECT_OK(end_call(&other));
}

static void nothing(int signal)
{
	(void)signal;
}

/* A signal ends the wait; the next call continues it and has no other effect. */
TEST(wait_of_the_runtime_is_interrupted)
{
	struct sigaction action = { .sa_handler = nothing };
	struct session s;
	struct caller c;
	struct kfd k;

	sigaction(SIGUSR1, &action, NULL);
	debug_self(&s, &k);
	start_call(&c, &k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	ASSERT_EQ(notified(&s), 1);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	usleep(100000);
	pthread_kill(c.thread, SIGUSR1);
	EXPECT_RET(end_call(&c), -EINTR);
	start_call(&c, &k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	EXPECT_EQ(notified_now(&s), 0);
	EXPECT_EQ(c.ret, RUNNING);
	ASSERT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	EXPECT_OK(end_call(&c));
	EXPECT_EQ(notified_now(&s), 0);
	expect_no_event(&s);
}

/* A session that ends after a signal has ended the wait of the runtime. */
static void end_session_after_a_signal(struct session *s, struct kfd *k)
{
	struct sigaction action = { .sa_handler = nothing };
	struct caller c;

	sigaction(SIGUSR1, &action, NULL);
	debug_self(s, k);
	start_call(&c, k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	ASSERT_EQ(notified(s), 1);
	usleep(100000);
	pthread_kill(c.thread, SIGUSR1);
	EXPECT_RET(end_call(&c), -EINTR);
	ASSERT_OK(dbg_trap_plain(s, KFD_IOC_DBG_TRAP_DISABLE));
}

/* The runtime is enabled: there is nothing to wait for. */
TEST(session_ends_after_an_interrupted_wait)
{
	struct session s;
	struct kfd k;

	end_session_after_a_signal(&s, &k);
	EXPECT_OK(runtime_enable(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
}

/* The next debugger gets an event for changes of the runtime. */
TEST(session_after_an_interrupted_wait)
{
	struct session s;
	struct caller c;
	struct kfd k;

	end_session_after_a_signal(&s, &k);
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	start_call(&c, &k, 0);
	ASSERT_EQ(notified(&s), 1);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	ASSERT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	EXPECT_OK(end_call(&c));
}

/* A debugger that attaches later gets the state of the runtime from the call, without an event. */
TEST(attach_to_a_running_runtime)
{
	struct kfd_runtime_info info;
	uint32_t size = sizeof(info);
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, getpid());
	EXPECT_OK(runtime_enable(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_OK(session_enable_with(&s, s.fd[1], ALL_EVENTS, &info, &size));
	EXPECT_EQ(info.runtime_state, DEBUG_RUNTIME_STATE_ENABLED);
	EXPECT_EQ(info.r_debug, R_DEBUG);
	EXPECT_EQ(notified_now(&s), 0);
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	size = sizeof(info);
	ASSERT_OK(session_enable_with(&s, s.fd[1], ALL_EVENTS, &info, &size));
	EXPECT_EQ(info.runtime_state, DEBUG_RUNTIME_STATE_ENABLED);
}

TEST(new_and_deleted_queues)
{
	struct kfd_ioctl_dbg_trap_query_debug_event_args event;
	struct kfd_runtime_info info;
	uint32_t size = sizeof(info);
	struct kfd_queue q[2];
	struct session s;
	struct kfd k;
	int first;

	debug_self(&s, &k);
	ASSERT_OK(kfd_queue_create(&k, &q[0], 64));
	EXPECT_EQ(notified(&s), 1);
	ASSERT_OK(kfd_queue_create(&k, &q[1], 64));
	EXPECT_EQ(notified(&s), 1);
	EXPECT_RET(exception_info(&s, EC_QUEUE_NEW, NO_SUCH_QUEUE, false, &info, &size), -EINVAL);
	EXPECT_RET(exception_info(&s, 10, q[0].id, false, &info, &size), -EINVAL);
	EXPECT_RET(exception_info(&s, EC_QUEUE_WAVE_TRAP, q[0].id, false, &info, &size), -ENODATA);
	EXPECT_RET(exception_info(&s, EC_DEVICE_QUEUE_DELETE, NO_SUCH_GPU, false, &info, &size),
		   -EINVAL);
	size = sizeof(info);
	EXPECT_OK(exception_info(&s, EC_QUEUE_NEW, q[1].id, false, &info, &size));
	EXPECT_EQ(size, 0);
	/* In any order. */
	ASSERT_OK(query_event(&s, EC(QUEUE_NEW), &event));
	first = event.queue_id == q[0].id ? 0 : 1;
	EXPECT_EQ(event.exception_mask, EC(QUEUE_NEW));
	EXPECT_EQ(event.queue_id, q[first].id);
	expect_event(&s, EC(QUEUE_NEW), k.node.gpu_id, q[!first].id);
	expect_no_event(&s);
	EXPECT_OK(kfd_queue_destroy(&q[0]));
	EXPECT_EQ(notified(&s), 1);
	expect_event(&s, EC(DEVICE_QUEUE_DELETE), k.node.gpu_id, 0);
	expect_no_event(&s);
	EXPECT_OK(kfd_queue_destroy(&q[1]));
}

/* Events that are not enabled are recorded, and reported as soon as they are. */
TEST(enabled_events)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	struct kfd_queue q;
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, getpid());
	/* Before the session. */
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	ASSERT_OK(session_enable(&s, EC(PROCESS_RUNTIME)));
	EXPECT_EQ(notified_now(&s), 0);
	expect_no_event(&s);
	args.set_exceptions_enabled.exception_mask = EC(QUEUE_WAVE_TRAP);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED, &args));
	EXPECT_EQ(notified_now(&s), 0);
	args.set_exceptions_enabled.exception_mask = EC(QUEUE_NEW) | EC(DEVICE_QUEUE_DELETE);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED, &args));
	EXPECT_EQ(notified(&s), 1);
	expect_event(&s, EC(QUEUE_NEW), k.node.gpu_id, q.id);
	EXPECT_OK(kfd_queue_destroy(&q));
	EXPECT_EQ(notified(&s), 1);
	/* They end with the session. */
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	expect_no_event(&s);
}

static void expect_snapshot(const struct kfd_queue_snapshot_entry *entry, struct kfd_queue *q)
{
	EXPECT_EQ(entry->ring_base_address, kfd_va(q->ring->va));
	EXPECT_EQ(entry->write_pointer_address, kfd_va((void *)&q->q->write_dispatch_id));
	EXPECT_EQ(entry->read_pointer_address, kfd_va((void *)&q->q->read_dispatch_id));
	EXPECT_EQ(entry->ctx_save_restore_address, kfd_va(q->cwsr->va));
	EXPECT_EQ(entry->queue_id, q->id);
	EXPECT_EQ(entry->gpu_id, q->k->node.gpu_id);
	EXPECT_EQ(entry->ring_size, q->packets * 64);
	EXPECT_EQ(entry->queue_type, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
	EXPECT_EQ(entry->ctx_save_restore_area_size, q->k->node.cwsr_size);
	EXPECT_EQ(entry->reserved, 0);
}

TEST(queue_snapshot)
{
	struct {
		struct kfd_queue_snapshot_entry entry;
		uint64_t more;
	} entries[3];
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	struct kfd_queue q[2];
	struct session s;
	struct kfd k;
	int first;

	debug_self(&s, &k);
	ASSERT_OK(kfd_queue_create(&k, &q[0], 64));
	ASSERT_OK(kfd_queue_create(&k, &q[1], 128));
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args), -EINVAL);
	args.queue_snapshot.entry_size = sizeof(entries[0]);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args));
	EXPECT_EQ(args.queue_snapshot.num_queues, 2);
	EXPECT_EQ(args.queue_snapshot.entry_size, sizeof(entries[0].entry));
	/* No buffer. */
	args.queue_snapshot.entry_size = sizeof(entries[0]);
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args), -EFAULT);

	memset(entries, 0xee, sizeof(entries));
	args.queue_snapshot.snapshot_buf_ptr = kfd_va(entries);
	args.queue_snapshot.num_queues = 1;
	args.queue_snapshot.entry_size = sizeof(entries[0]);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args));
	EXPECT_EQ(args.queue_snapshot.num_queues, 2);
	/* In any order. */
	first = entries[0].entry.queue_id == q[0].id ? 0 : 1;
	expect_snapshot(&entries[0].entry, &q[first]);
	EXPECT_EQ(entries[0].entry.exception_status, EC(QUEUE_NEW));
	EXPECT_EQ(entries[1].entry.queue_id, 0xeeeeeeee);

	args.queue_snapshot.num_queues = 3;
	args.queue_snapshot.entry_size = sizeof(entries[0]);
	args.queue_snapshot.exception_mask = EC(QUEUE_NEW);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args));
	EXPECT_EQ(args.queue_snapshot.num_queues, 2);
	expect_snapshot(&entries[0].entry, &q[first]);
	expect_snapshot(&entries[1].entry, &q[!first]);
	EXPECT_EQ(entries[1].entry.exception_status, EC(QUEUE_NEW));
	EXPECT_EQ(entries[1].more, 0xeeeeeeeeeeeeeeee);
	EXPECT_EQ(entries[2].entry.queue_id, 0xeeeeeeee);
	expect_no_event(&s);

	args.queue_snapshot.num_queues = 1;
	args.queue_snapshot.entry_size = 8;
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args));
	EXPECT_EQ(args.queue_snapshot.entry_size, 8);
	EXPECT_EQ(entries[0].entry.exception_status, 0);
	EXPECT_OK(kfd_queue_destroy(&q[0]));
	EXPECT_OK(kfd_queue_destroy(&q[1]));
}

TEST(device_snapshot)
{
	struct {
		struct kfd_dbg_device_info_entry entry;
		uint64_t more;
	} entries[64];
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	struct kfd_dbg_device_info_entry *e = NULL;
	char path[96];
	uint64_t value;
	struct session s;
	struct kfd k;

	debug_self(&s, &k);
	args.device_snapshot.entry_size = sizeof(entries[0]);
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args), -EINVAL);
	memset(entries, 0xee, sizeof(entries));
	args.device_snapshot.snapshot_buf_ptr = kfd_va(entries);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args));
	EXPECT(args.device_snapshot.num_devices > 0);
	EXPECT_EQ(args.device_snapshot.entry_size, sizeof(*e));
	EXPECT_EQ(entries[0].entry.gpu_id, 0xeeeeeeee);
	args.device_snapshot.num_devices = 64;
	args.device_snapshot.entry_size = sizeof(entries[0]);
	EXPECT_OK(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args));
	for (unsigned int i = 0; i < args.device_snapshot.num_devices && i < 64; i++)
		if (entries[i].entry.gpu_id == k.node.gpu_id)
			e = &entries[i].entry;
	ASSERT(e);
	EXPECT_EQ(entries[0].more, 0xeeeeeeeeeeeeeeee);
	EXPECT_EQ(e->exception_status, 0);
	EXPECT_EQ(e->lds_base, k.apertures.lds_base);
	EXPECT_EQ(e->lds_limit, k.apertures.lds_limit);
	EXPECT_EQ(e->scratch_base, k.apertures.scratch_base);
	EXPECT_EQ(e->scratch_limit, k.apertures.scratch_limit);
	EXPECT_EQ(e->gpuvm_base, k.apertures.gpuvm_base);
	EXPECT_EQ(e->gpuvm_limit, k.apertures.gpuvm_limit);
	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/topology/nodes/%d/properties",
		 k.node.index);
#define SAME(field, key)                                                                           \
	do {                                                                                       \
		ASSERT_OK(kfd_sysfs_value(path, key, &value));                                     \
		EXPECT_EQ(e->field, value);                                                        \
	} while (0)
	SAME(location_id, "location_id");
	SAME(vendor_id, "vendor_id");
	SAME(device_id, "device_id");
	SAME(fw_version, "fw_version");
	SAME(gfx_target_version, "gfx_target_version");
	SAME(simd_count, "simd_count");
	SAME(max_waves_per_simd, "max_waves_per_simd");
	/* Of one XCC. */
	ASSERT_OK(kfd_sysfs_value(path, "array_count", &value));
	EXPECT_EQ(e->array_count * e->num_xcc, value);
	SAME(simd_arrays_per_engine, "simd_arrays_per_engine");
	SAME(num_xcc, "num_xcc");
	SAME(capability, "capability");
	SAME(capability2, "capability2");
	SAME(debug_prop, "debug_prop");
#undef SAME
	EXPECT(e->capability & HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED);
	EXPECT(e->debug_prop & HSA_DBG_DISPATCH_INFO_ALWAYS_VALID);
	EXPECT(e->capability & HSA_CAP_TRAP_DEBUG_SUPPORT);
	EXPECT(e->capability & HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED);
	EXPECT(e->capability & HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED);
	EXPECT_EQ((e->capability & HSA_CAP_WATCH_POINTS_TOTALBITS_MASK) >>
			  HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT,
		  2);
	EXPECT(e->subsystem_vendor_id && e->subsystem_device_id);
	args.device_snapshot.num_devices = 1;
	args.device_snapshot.snapshot_buf_ptr = 8;
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args), -EFAULT);
}

/* Entries that cannot be written keep their exceptions. */
TEST(unwritten_snapshots)
{
	struct kfd_ioctl_dbg_trap_args args = { 0 };
	struct kfd_queue_snapshot_entry *last;
	struct kfd_queue q[2];
	struct session s;
	struct kfd k;
	char *pages;

	debug_self(&s, &k);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(kfd_queue_create(&k, &q[i], 64));
	args.queue_snapshot.exception_mask = EC(QUEUE_NEW);
	args.queue_snapshot.snapshot_buf_ptr = 8;
	args.queue_snapshot.num_queues = 2;
	args.queue_snapshot.entry_size = sizeof(*last);
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args), -EFAULT);
	EXPECT_EQ(args.queue_snapshot.num_queues, 0);
	/* Room for one entry before the end of the memory. */
	pages = mmap(NULL, 2 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(pages != MAP_FAILED && !munmap(pages + KFD_PAGE, KFD_PAGE));
	last = (struct kfd_queue_snapshot_entry *)(pages + KFD_PAGE) - 1;
	args.queue_snapshot.snapshot_buf_ptr = kfd_va(last);
	args.queue_snapshot.num_queues = 2;
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT, &args), -EFAULT);
	EXPECT_EQ(args.queue_snapshot.num_queues, 1);
	EXPECT_EQ(last->exception_status, EC(QUEUE_NEW));
	expect_event(&s, EC(QUEUE_NEW), k.node.gpu_id, q[last->queue_id == q[0].id].id);
	expect_no_event(&s);
	EXPECT_OK(kfd_queue_destroy(&q[0]));
	memset(&args, 0, sizeof(args));
	args.device_snapshot.exception_mask = EC(DEVICE_QUEUE_DELETE);
	args.device_snapshot.snapshot_buf_ptr = 8;
	args.device_snapshot.num_devices = 64;
	args.device_snapshot.entry_size = 8;
	EXPECT_RET(dbg_trap(&s, KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT, &args), -EFAULT);
	expect_event(&s, EC(DEVICE_QUEUE_DELETE), k.node.gpu_id, 0);
	EXPECT_OK(kfd_queue_destroy(&q[1]));
}

static void attach(struct child *c)
{
	int status;

	ASSERT(!ptrace(PTRACE_ATTACH, c->pid, NULL, NULL));
	ASSERT(waitpid(c->pid, &status, 0) == c->pid && WIFSTOPPED(status));
}

static void open_and_wait(struct child *c)
{
	struct kfd k;

	wait_for_parent(c);
	if (kfd_open(&k))
		_exit(1);
	wait_for_parent(c);
	if (runtime_enable(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK))
		_exit(2);
	wait_for_parent(c);
	if (runtime_enable(&k, 0))
		_exit(3);
}

TEST(only_a_tracer_may_debug)
{
	struct session s;
	struct child c;
	struct kfd k;

	start_child(&c, open_and_wait);
	fixture_open(&k);
	session_of(&s, &k, c.pid);
	wait_for_child(&c);
	/* It does not use the GPU. */
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -ESRCH);
	child_goes_on(&c);
	wait_for_child(&c);
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -EPERM);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EPERM);
	attach(&c);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EINVAL);
	EXPECT_OK(session_enable(&s, ALL_EVENTS));
	EXPECT(!ptrace(PTRACE_CONT, c.pid, NULL, NULL));
	child_goes_on(&c);
	EXPECT_EQ(notified(&s), 1);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	EXPECT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	wait_for_child(&c);
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	child_goes_on(&c);
	expect_exit(&c, 0);
}

/* A debugger that started the program attaches before that opens the GPU. */
TEST(debug_before_the_first_open)
{
	struct session s;
	struct child c;
	struct kfd k;

	start_child(&c, open_and_wait);
	fixture_open(&k);
	session_of(&s, &k, c.pid);
	wait_for_child(&c);
	attach(&c);
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	EXPECT(!ptrace(PTRACE_CONT, c.pid, NULL, NULL));
	child_goes_on(&c);
	wait_for_child(&c);
	EXPECT_EQ(notified_now(&s), 0);
	child_goes_on(&c);
	EXPECT_EQ(notified(&s), 1);
	EXPECT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	wait_for_child(&c);
	child_goes_on(&c);
	EXPECT_EQ(notified(&s), 1);
	EXPECT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	expect_exit(&c, 0);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -ESRCH);
}

/*
 * Executes this program again, until the parent goes on; then reports that and waits. Each second
 * program opens the device: a debugger creates the process of the one before, while that executes
 * the second one.
 */
static int execute_again(bool opens, char *ready, char *go)
{
	struct pollfd p = { .fd = atoi(go), .events = POLLIN };
	char byte = 0;
	struct kfd k;

	if (opens && kfd_open(&k))
		return 1;
	if (!opens || !poll(&p, 1, 0)) {
		execl("/proc/self/exe", "debug", opens ? "--executes" : "--opens", ready, go, NULL);
		return 2;
	}
	if (read(p.fd, &byte, 1) != 1 || write(atoi(ready), &byte, 1) != 1)
		return 3;
	return read(p.fd, &byte, 1) == 1 ? 0 : 4;
}

static void execute_first(struct child *c)
{
	char ready[16], go[16];

	wait_for_parent(c);
	snprintf(ready, sizeof(ready), "%d", dup(c->ready[1]));
	snprintf(go, sizeof(go), "%d", dup(c->go[0]));
	_exit(execute_again(false, ready, go));
}

/* Creates processes; the creation takes long, because the address space has many mappings. */
static void create_processes(struct child *c)
{
	size_t count = 20000;
	char *p = mmap(NULL, count * KFD_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < count; i += 2)
		if (mprotect(p + i * KFD_PAGE, KFD_PAGE, PROT_READ))
			_exit(1);
	wait_for_parent(c);
	for (;;) {
		pid_t child = fork_child();

		if (!child)
			_exit(open("/dev/kfd", O_RDWR) < 0);
		waitpid(child, NULL, 0);
	}
}

/* The debugged program executes another one and opens the device while the session begins. */
TEST(debug_during_execve)
{
	double end = 4.0 * ktap_time_factor();
	struct child c, others;
	struct session s;
	unsigned int sessions = 0;
	char path[64];
	struct kfd k;
	int log;

	log = kmsg_open();
	start_child(&c, execute_first);
	start_child(&others, create_processes);
	fixture_open(&k);
	session_of(&s, &k, c.pid);
	wait_for_child(&c);
	ASSERT(!ptrace(PTRACE_SEIZE, c.pid, NULL, NULL));
	wait_for_child(&others);
	child_goes_on(&others);
	child_goes_on(&c);
	for (end += seconds_now(); seconds_now() < end;)
		sessions += session_enable(&s, 0) == 0;
	child_goes_on(&c);
	wait_for_child(&c);
	kill(others.pid, SIGKILL);
	waitpid(others.pid, NULL, 0);
	ktap_note("%u sessions", sessions);
	EXPECT(sessions > 0);
	snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d", c.pid);
	EXPECT(memory_fails() || !access(path, F_OK), "%s", path);
	EXPECT_EQ(kmsg_lines_with(log, "duplicate"), 0);
	close(log);
	child_goes_on(&c);
	expect_exit(&c, 0);
}

static char in_both[4 * KFD_PAGE] __attribute__((aligned(4096)));

/* The GPU writes to pages that the debugger has, too, and to some that it does not have. */
static void use_own_memory(struct child *c)
{
	struct fixture f;
	char *p;

	wait_for_parent(c);
	fixture_launch(&f);
	p = mmap((void *)0x200000000000, sizeof(in_both), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		_exit(1);
	if (svm_access(&f.k, p, sizeof(in_both)) || !svm_works(&f, p, sizeof(in_both), 0x100))
		_exit(2);
	if (svm_access(&f.k, in_both, sizeof(in_both)) ||
	    !svm_works(&f, in_both, sizeof(in_both), 0x200))
		_exit(3);
}

/* A session from before the first open: shared virtual memory is that of the debugged process. */
TEST(memory_is_that_of_the_debugged_process)
{
	struct session s;
	struct child c;
	struct kfd k;

	start_child(&c, use_own_memory);
	fixture_open(&k);
	if (!(k.node.capability & SVM_CAPABLE)) {
		kill(c.pid, SIGKILL);
		SKIP("the node has no SVM");
	}
	session_of(&s, &k, c.pid);
	wait_for_child(&c);
	attach(&c);
	ASSERT_OK(session_enable(&s, 0));
	EXPECT(!ptrace(PTRACE_CONT, c.pid, NULL, NULL));
	child_goes_on(&c);
	expect_exit(&c, 0);
	for (size_t i = 0; i < sizeof(in_both); i++)
		ASSERT(!in_both[i]);
}

/* The session ends with the debugged process. */
TEST(kill_the_debugged_process)
{
	struct session s;
	struct child c;
	struct kfd k;
	int status;

	start_child(&c, open_and_wait);
	fixture_open(&k);
	session_of(&s, &k, c.pid);
	wait_for_child(&c);
	attach(&c);
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	EXPECT(!ptrace(PTRACE_CONT, c.pid, NULL, NULL));
	child_goes_on(&c);
	wait_for_child(&c);
	child_goes_on(&c);
	EXPECT_EQ(notified(&s), 1);
	/* It waits in RUNTIME_ENABLE. */
	kill(c.pid, SIGKILL);
	ASSERT(waitpid(c.pid, &status, 0) == c.pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -ESRCH);
	/* The driver has closed its end. */
	close(s.fd[1]);
	for (int i = 0; i < 500 && read(s.fd[0], &status, 1) < 0; i++)
		usleep(10000);
	EXPECT_EQ(read(s.fd[0], &status, 1), 0);
}

static void run_debugger(struct child *c)
{
	struct child *target = c + 1;
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, target->pid);
	attach(target);
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	ASSERT(!ptrace(PTRACE_DETACH, target->pid, NULL, NULL));
	/* The session is that of the process, not of its thread or of the descriptor. */
	expect_no_event(&s);
	wait_for_parent(c);
}

/* The session ends with the debugger. */
TEST(kill_the_debugger)
{
	struct child c[2];
	int status;

	start_child(&c[1], open_and_wait);
	wait_for_child(&c[1]);
	child_goes_on(&c[1]);
	wait_for_child(&c[1]);
	start_child(&c[0], run_debugger);
	wait_for_child(&c[0]);
	kill(c[0].pid, SIGKILL);
	ASSERT(waitpid(c[0].pid, &status, 0) == c[0].pid);
	/* RUNTIME_ENABLE does not wait. */
	child_goes_on(&c[1]);
	wait_for_child(&c[1]);
	child_goes_on(&c[1]);
	expect_exit(&c[1], 0);
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return execute_again(!strcmp(argv[1], "--opens"), argv[2], argv[3]);
	return ktap_main(argc, argv);
}
