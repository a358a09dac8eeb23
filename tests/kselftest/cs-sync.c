// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests command submission: fences, dependencies, syncobjs and implicit synchronization. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cs.h"

#define MS 1000000ull
/* Dword of the data buffer that a held ring polls. */
#define GATE 1023u

/*
 * Submits a job that does not end before open_gate(), with a further chunk if `bytes` is not 0.
 * Returns its sequence number.
 */
static uint64_t hold_with(struct cs *cs, uint32_t ring, uint32_t chunk, const void *data,
			  uint32_t bytes)
{
	struct drm_amdgpu_bo_list_entry bos[] = { { cs->code.handle, 0 }, { cs->data.handle, 0 } };
	uint64_t handle = 0;
	struct cs_job job;
	struct cs_ib ib = cs_poll(cs, cs->data.va + GATE * 4, 1);

	cs->data.words[GATE] = 0;
	cs_job(&job, cs, ring);
	cs_add_bos(&job, bos, 2);
	cs_add_ib(&job, ib);
	if (bytes)
		cs_add(&job, chunk, data, bytes);
	ASSERT_OK(cs_submit(&job, &handle));
	return handle;
}

static uint64_t hold(struct cs *cs, uint32_t ring)
{
	return hold_with(cs, ring, 0, NULL, 0);
}

static void open_gate(struct cs *cs)
{
	cs->data.words[GATE] = 1;
}

static int wait_fences(struct cs *cs, const struct drm_amdgpu_fence *fences, uint32_t count,
		       bool all, uint64_t timeout, uint32_t *status, uint32_t *first)
{
	union drm_amdgpu_wait_fences args = { 0 };
	int ret;

	args.in.fences = kfd_va(fences);
	args.in.fence_count = count;
	args.in.wait_all = all;
	args.in.timeout_ns = timeout;
	ret = kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_WAIT_FENCES, &args);
	*status = args.out.status;
	*first = args.out.first_signaled;
	return ret;
}

static int idle(struct cs *cs, uint32_t handle, uint64_t timeout, uint32_t *busy)
{
	union drm_amdgpu_gem_wait_idle args = { 0 };
	int ret;

	args.in.handle = handle;
	args.in.timeout = timeout;
	ret = kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &args);
	*busy = args.out.status;
	return ret;
}

/* Time of all processors outside of user space and idling, in ticks. */
static unsigned long long system_ticks(void)
{
	unsigned long long user, nice, system = 0;
	FILE *f = fopen("/proc/stat", "r");

	ASSERT(f != NULL);
	EXPECT_EQ(fscanf(f, "cpu %llu %llu %llu", &user, &nice, &system), 3);
	fclose(f);
	return system;
}

/*
 * All VMIDs of kernel rings are in use by jobs of as many files, and another job of the first one
 * waits on the same ring. The worker of the scheduler sleeps meanwhile.
 */
TEST_TIMEOUT(job_waits_for_a_vmid, 60)
{
	const int files = gpu_is_gfx12() ? 7 : 2;
	unsigned long long before;
	uint64_t handles[7], next;
	struct cs cs[7];

	for (int i = 0; i < files; i++) {
		cs_open(&cs[i]);
		handles[i] = hold(&cs[i], 0);
	}
	usleep(200000);
	next = hold(&cs[0], 0);
	before = system_ticks();
	sleep(2);
	EXPECT(system_ticks() - before < 100, "%llu ticks in 2 s", system_ticks() - before);
	for (int i = 0; i < files; i++)
		open_gate(&cs[i]);
	for (int i = 0; i < files; i++)
		cs_done(&cs[i], 0, handles[i]);
	cs_done(&cs[0], 0, next);
}

TEST(waits_end_with_the_job)
{
	uint32_t status, first, busy32;
	struct drm_amdgpu_fence f[2] = { { 0 } };
	uint64_t handle, busy, start;
	struct cs cs;

	cs_open(&cs);
	handle = hold(&cs, 0);
	EXPECT_OK(cs_wait(&cs, 0, handle, 0, &busy));
	EXPECT_EQ(busy, 1);
	start = cs_now();
	EXPECT_OK(cs_wait(&cs, 0, ~0ull, start + 200 * MS, &busy));
	EXPECT_EQ(busy, 1);
	/* Loose, since timeouts are in jiffies, which catch up after a stall of the CPU. */
	EXPECT(cs_now() - start >= 20 * MS, "%llu ns", (unsigned long long)(cs_now() - start));

	f[0] = (struct drm_amdgpu_fence){ .ctx_id = cs.ctx,
					  .ip_type = AMDGPU_HW_IP_DMA,
					  .seq_no = handle };
	EXPECT_OK(wait_fences(&cs, f, 1, true, 0, &status, &first));
	EXPECT_EQ(status, 0);
	EXPECT_OK(wait_fences(&cs, f, 1, false, cs_now() + 20 * MS, &status, &first));
	EXPECT_EQ(status, 0);
	EXPECT_EQ(first, ~0u);
	/* Sequence number 0 counts as signalled. */
	f[1] = f[0];
	f[1].seq_no = 0;
	EXPECT_OK(wait_fences(&cs, f, 2, false, 0, &status, &first));
	EXPECT_EQ(status, 1);
	EXPECT_EQ(first, 1);
	EXPECT_OK(wait_fences(&cs, f, 2, true, 0, &status, &first));
	EXPECT_EQ(status, 0);

	EXPECT_OK(idle(&cs, cs.data.handle, 0, &busy32));
	EXPECT_EQ(busy32, 1);
	EXPECT_RET(idle(&cs, 0x1234, 0, &busy32), -ENOENT);

	open_gate(&cs);
	EXPECT_OK(wait_fences(&cs, f, 1, false, FOREVER, &status, &first));
	EXPECT_EQ(status, 1);
	EXPECT_EQ(first, 0);
	EXPECT_OK(wait_fences(&cs, f, 2, true, FOREVER, &status, &first));
	EXPECT_EQ(status, 1);
	cs_done(&cs, 0, handle);
	EXPECT_OK(idle(&cs, cs.data.handle, FOREVER, &busy32));
	EXPECT_EQ(busy32, 0);
}

TEST(wait_argument_checks)
{
	struct drm_amdgpu_fence f = { .ctx_id = 1, .ip_type = AMDGPU_HW_IP_DMA };
	union drm_amdgpu_wait_cs wait = { 0 };
	uint32_t status, first;
	struct cs cs;

	cs_open(&cs);
	EXPECT_RET(wait_fences(&cs, &f, 0, true, 0, &status, &first), -EINVAL);
	EXPECT_RET(wait_fences(&cs, (void *)KERNEL_ADDRESS, 1, true, 0, &status, &first), -EFAULT);
	EXPECT_OK(wait_fences(&cs, &f, 1, true, 0, &status, &first));
	EXPECT_EQ(status, 1);
	f.seq_no = 1;
	EXPECT_RET(wait_fences(&cs, &f, 1, true, 0, &status, &first), -EINVAL);
	EXPECT_RET(wait_fences(&cs, &f, 1, false, 0, &status, &first), -EINVAL);
	f.ctx_id = 2;
	EXPECT_RET(wait_fences(&cs, &f, 1, true, 0, &status, &first), -EINVAL);

	wait.in.ctx_id = 1;
	wait.in.ip_type = AMDGPU_HW_IP_COMPUTE;
	if (!cs_rings(cs.fd, AMDGPU_HW_IP_COMPUTE))
		EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_WAIT_CS, &wait),
			   gpu_is_gfx12() ? -EINVAL : -ENOENT);
	memset(&wait, 0, sizeof(wait));
	wait.in.ctx_id = 1;
	wait.in.ip_type = AMDGPU_HW_IP_DMA;
	wait.in.ring = 2;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_WAIT_CS, &wait), -EINVAL);
}

/* Prepares a job in ring 1 that copies the gate, which the held job in ring 0 polls. */
static void start_follower(struct cs *cs, struct cs_job *job)
{
	struct cs_ib ib = cs_copy(cs, cs->data.va + GATE * 4, cs->data.va, 4);

	cs->data.words[0] = 0x55;
	cs_job(job, cs, 1);
	cs_add_ib(job, ib);
}

static void expect_order(struct cs *cs, uint64_t leader, uint64_t follower)
{
	uint64_t busy;

	usleep(20000);
	EXPECT_OK(cs_wait(cs, 1, follower, 0, &busy));
	EXPECT_EQ(busy, 1);
	EXPECT_EQ(cs->data.words[0], 0x55);
	open_gate(cs);
	cs_done(cs, 0, leader);
	cs_done(cs, 1, follower);
	EXPECT_EQ(cs->data.words[0], 1);
}

/* The scheduler picks the engine of a ring: with at most two engines, two rings may share one. */
static bool has_few_engines(const struct cs *cs)
{
	struct drm_amdgpu_info query = { .query = AMDGPU_INFO_HW_IP_COUNT };
	uint32_t count = 0;

	query.return_pointer = kfd_va(&count);
	query.return_size = sizeof(count);
	query.query_hw_ip.type = AMDGPU_HW_IP_DMA;
	EXPECT_OK(kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_INFO, &query));
	return count <= 2;
}

TEST(dependencies)
{
	struct drm_amdgpu_cs_chunk_dep dep = { .ip_type = AMDGPU_HW_IP_DMA };
	uint64_t leader, follower, busy;
	struct cs_job job;
	struct cs cs;

	cs_open(&cs);
	dep.ctx_id = cs.ctx;
	leader = hold(&cs, 0);
	dep.handle = leader;
	start_follower(&cs, &job);
	cs_add(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	ASSERT_OK(cs_submit(&job, &follower));
	expect_order(&cs, leader, follower);

	/* SCHEDULED_DEPENDENCIES waits only until the other job is scheduled. */
	leader = hold(&cs, 0);
	dep.handle = leader;
	start_follower(&cs, &job);
	cs_add(&job, AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES, &dep, sizeof(dep));
	ASSERT_OK(cs_submit(&job, &follower));
	if (has_few_engines(&cs)) {
		open_gate(&cs);
		cs_done(&cs, 1, follower);
	} else {
		EXPECT_OK(cs_wait(&cs, 1, follower, cs_now() + 5000 * MS, &busy));
		EXPECT_EQ(busy, 0);
		EXPECT_EQ(cs.data.words[0], 0);
		open_gate(&cs);
	}
	cs_done(&cs, 0, leader);

	start_follower(&cs, &job);
	dep.handle = leader + 1;
	cs_add(&job, AMDGPU_CHUNK_ID_DEPENDENCIES, &dep, sizeof(dep));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].dep.handle = 0;
	EXPECT_OK(cs_submit(&job, &follower));
	job.data[1].dep.ctx_id = 77;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].dep.ctx_id = cs.ctx;
	job.data[1].dep.ring = 5;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	cs_done(&cs, 1, follower);
}

TEST(syncobj_in_and_out)
{
	struct drm_amdgpu_cs_chunk_sem sem = { 0 };
	uint64_t leader, follower;
	struct cs_job job;
	struct cs cs;

	cs_open(&cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &sem.handle));
	leader = hold_with(&cs, 0, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	EXPECT_RET(syncobj_wait(cs.fd, sem.handle, (int64_t)(cs_now() + 20 * MS)), -ETIME);

	start_follower(&cs, &job);
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));
	ASSERT_OK(cs_submit(&job, &follower));
	expect_order(&cs, leader, follower);
	EXPECT_OK(syncobj_wait(cs.fd, sem.handle, INT64_MAX));

	/* Unknown handle, syncobj without a fence, duplicate signal. */
	start_follower(&cs, &job);
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem, sizeof(sem));
	job.data[1].sem.handle = 77;
	EXPECT_RET(cs_submit(&job, NULL), -ENOENT);
	ASSERT_OK(syncobj_create(cs.fd, 0, &job.data[1].sem.handle));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	start_follower(&cs, &job);
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	job.data[1].sem.handle = 77;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].sem.handle = sem.handle;
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem, sizeof(sem));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
}

static void *signal_late(void *data)
{
	struct cs_job *job = data;

	usleep(100000);
	EXPECT_OK(cs_submit(job, NULL));
	return NULL;
}

TEST(timeline_syncobjs)
{
	struct drm_amdgpu_cs_chunk_syncobj point = { 0 };
	uint64_t leader, follower;
	struct cs_job job, late;
	pthread_t thread;
	struct cs cs;

	cs_open(&cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &point.handle));
	point.point = 10;
	leader = hold_with(&cs, 0, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point, sizeof(point));
	EXPECT_RET(syncobj_timeline_wait(cs.fd, point.handle, 10, 0), -ETIME);

	start_follower(&cs, &job);
	point.point = 7;
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &point, sizeof(point));
	ASSERT_OK(cs_submit(&job, &follower));
	expect_order(&cs, leader, follower);
	EXPECT_OK(syncobj_timeline_wait(cs.fd, point.handle, 10, INT64_MAX));

	/* A point without a fence yet: refused, or waited for with WAIT_FOR_SUBMIT. */
	start_follower(&cs, &job);
	point.point = 20;
	cs_add(&job, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &point, sizeof(point));
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].syncobj.flags = 0x80;
	EXPECT_RET(cs_submit(&job, NULL), -EINVAL);
	job.data[1].syncobj.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
	cs_job(&late, &cs, 0);
	cs_add_ib(&late, cs_write(&cs, cs.data.va + 8, 2));
	cs_add(&late, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point, sizeof(point));
	ASSERT(pthread_create(&thread, NULL, signal_late, &late) == 0);
	EXPECT_OK(cs_submit(&job, &follower));
	pthread_join(thread, NULL);
	cs_done(&cs, 1, follower);
	EXPECT_EQ(cs.data.words[2], 2);
}

TEST(fence_to_handle)
{
	struct drm_syncobj_handle import = { 0 };
	uint32_t syncobj, syncobj_fd, sync_file, over;
	struct pollfd p = { .events = POLLIN };
	uint64_t leader;
	struct cs cs;

	cs_open(&cs);
	leader = hold(&cs, 0);
	ASSERT_OK(cs_to_handle(&cs, leader, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &syncobj));
	ASSERT_OK(cs_to_handle(&cs, leader, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD, &syncobj_fd));
	ASSERT_OK(cs_to_handle(&cs, leader, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &sync_file));
	ASSERT_OK(cs_to_handle(&cs, 0, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &over));
	EXPECT_RET(cs_to_handle(&cs, leader, 9, &over), -EINVAL);
	EXPECT_RET(cs_to_handle(&cs, leader + 1, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &over), -EINVAL);
	ASSERT_OK(cs_to_handle(&cs, 0, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &over));
	import.fd = (int)syncobj_fd;
	ASSERT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &import));
	p.fd = (int)sync_file;

	EXPECT_OK(syncobj_wait(cs.fd, over, 0));
	EXPECT_RET(syncobj_wait(cs.fd, syncobj, 0), -ETIME);
	EXPECT_RET(syncobj_wait(cs.fd, import.handle, 0), -ETIME);
	EXPECT(poll(&p, 1, 20) == 0);
	open_gate(&cs);
	EXPECT(poll(&p, 1, 20000) == 1 && p.revents & POLLIN);
	EXPECT_OK(syncobj_wait(cs.fd, syncobj, INT64_MAX));
	EXPECT_OK(syncobj_wait(cs.fd, import.handle, INT64_MAX));
	/* Fences outlive the DRM file. */
	close(cs.fd);
	EXPECT(poll(&p, 1, 0) == 1);
	close((int)sync_file);
	close((int)syncobj_fd);
}

TEST(gem_va_signals_timeline)
{
	struct drm_amdgpu_gem_va args = { .operation = AMDGPU_VA_OP_MAP,
					  .flags = ACCESS,
					  .map_size = 4096 };
	struct cs cs;
	uint32_t handle;

	cs_open(&cs);
	ASSERT_OK(syncobj_create(cs.fd, 0, &handle));
	args.handle = cs.data.handle;
	args.va_address = 0x7000000000ull;
	args.vm_timeline_point = 3;
	args.vm_timeline_syncobj_out = 77;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_VA, &args), -ENOENT);
	args.vm_timeline_syncobj_out = handle;
	args.flags = ACCESS | AMDGPU_VM_DELAY_UPDATE;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_VA, &args), -EINVAL);
	args.flags = ACCESS;
	EXPECT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_VA, &args));
	EXPECT_OK(syncobj_timeline_wait(cs.fd, handle, 3, INT64_MAX));
	EXPECT(syncobj_timeline_wait(cs.fd, handle, 4, 0) != 0);

	/* Input fences. */
	args.operation = AMDGPU_VA_OP_UNMAP;
	args.num_syncobj_handles = 1;
	args.input_fence_syncobj_handles = kfd_va(&handle);
	args.vm_timeline_point = 4;
	EXPECT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_VA, &args));
	EXPECT_OK(syncobj_timeline_wait(cs.fd, handle, 4, INT64_MAX));
	args.input_fence_syncobj_handles = kfd_va(&(uint32_t){ 0 });
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_VA, &args), -EINVAL);
	args.input_fence_syncobj_handles = KERNEL_ADDRESS;
	EXPECT_RET(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_GEM_VA, &args), -EFAULT);
}

/* A call of GEM_VA by another thread. */
struct va_call {
	int fd, ret;
	struct drm_amdgpu_gem_va args;
};

static void *call_va(void *data)
{
	struct va_call *call = data;

	call->ret = kfd_ioctl(call->fd, DRM_IOCTL_AMDGPU_GEM_VA, &call->args);
	return NULL;
}

/* A handle that is closed while the call waits for its input fence. */
TEST(closed_while_the_map_waits)
{
	struct va_call call = { .args = { .operation = AMDGPU_VA_OP_MAP,
					  .flags = ACCESS,
					  .va_address = 0x7100000000ull,
					  .map_size = 4096,
					  .num_syncobj_handles = 1 } };
	uint32_t fence;
	pthread_t thread;
	uint64_t leader;
	struct cs cs;

	cs_open(&cs);
	call.fd = cs.fd;
	call.args.input_fence_syncobj_handles = kfd_va(&fence);
	leader = hold(&cs, 0);
	ASSERT_OK(cs_to_handle(&cs, leader, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, &fence));
	ASSERT_OK(cs_bo_create(cs.fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &call.args.handle));
	ASSERT(!pthread_create(&thread, NULL, call_va, &call));
	usleep(200000);
	ASSERT_OK(cs_bo_close(cs.fd, call.args.handle));
	open_gate(&cs);
	pthread_join(thread, NULL);
	EXPECT_RET(call.ret, -ENOENT);
	/* Nothing is mapped there. */
	EXPECT_OK(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_MAP, ACCESS, call.args.va_address, 0,
			4096));
}

/* A mapping stays until the last handle of its buffer is closed. */
TEST(one_of_two_handles_is_closed)
{
	int fd = open("/dev/dri/card0", O_RDWR | O_CLOEXEC);
	struct drm_gem_flink flink = { 0 };
	struct drm_gem_open again = { 0 };
	const uint64_t va = 0x7100000000ull;

	if (fd < 0)
		SKIP("no /dev/dri/card0");
	ASSERT_OK(cs_bo_create(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &flink.handle));
	ASSERT_OK(cs_va(fd, flink.handle, AMDGPU_VA_OP_MAP, ACCESS, va, 0, 4096));
	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_GEM_FLINK, &flink));
	again.name = flink.name;
	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_GEM_OPEN, &again));
	ASSERT(again.handle != flink.handle);
	ASSERT_OK(cs_bo_close(fd, again.handle));
	EXPECT_OK(cs_va(fd, flink.handle, AMDGPU_VA_OP_UNMAP, 0, va, 0, 4096));
	ASSERT_OK(cs_bo_close(fd, flink.handle));
	close(fd);
}

/* The mapping of a closed buffer, the ring of a queue of /dev/kfd, ends with the queue. */
TEST(closed_while_a_queue_uses_it)
{
	const uint32_t packets = 16384;
	const uint64_t size = packets * 64, va = 0x7100000000ull;
	struct kfd_ioctl_create_queue_args args;
	uint32_t ring, other;
	struct kfd_queue q;
	uint64_t used;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_queue_prepare(&k, &q, packets, &args));
	ASSERT_OK(cs_bo_create(k.drm, size, AMDGPU_GEM_DOMAIN_GTT, 0, &other));
	used = amdgpu_info(&k, AMDGPU_INFO_GTT_USAGE);
	ASSERT_OK(cs_bo_create(k.drm, size, AMDGPU_GEM_DOMAIN_GTT, 0, &ring));
	ASSERT_OK(cs_va(k.drm, ring, AMDGPU_VA_OP_MAP, ACCESS, va, 0, size));
	args.ring_base_address = va;
	ASSERT_OK(kfd_queue_start(&q, &args));
	ASSERT_OK(cs_bo_close(k.drm, ring));
	ASSERT_OK(kfd_queue_stop(&q));
	expect_usage(&k, AMDGPU_INFO_GTT_USAGE, used);
	EXPECT_OK(cs_va(k.drm, other, AMDGPU_VA_OP_MAP, ACCESS, va, 0, size));
	EXPECT_OK(cs_va(k.drm, other, AMDGPU_VA_OP_UNMAP, 0, va, 0, size));
}

/* Whether the kernel has printed a warning with a stack trace. */
static bool kernel_warned(void)
{
	FILE *f = fopen("/proc/sys/kernel/tainted", "re");
	unsigned long taint = 0;

	ASSERT(f && fscanf(f, "%lu", &taint) == 1);
	fclose(f);
	return taint & 1 << 9;
}

/* The kernel has no memory in one piece to wait for so many. */
TEST(any_of_many_fences)
{
	const uint32_t count = 128 * 1024 + 1;
	struct drm_amdgpu_fence *fences = calloc(count, sizeof(*fences));
	bool warned = kernel_warned();
	uint32_t status, first;
	uint64_t job = 0;
	struct cs cs;

	ASSERT(fences);
	cs_open(&cs);
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 1), &job));
	cs_done(&cs, 0, job);
	for (uint32_t i = 0; i < count; i++)
		fences[i] = (struct drm_amdgpu_fence){ .ctx_id = cs.ctx,
						       .ip_type = AMDGPU_HW_IP_DMA,
						       .seq_no = job };
	EXPECT_OK(wait_fences(&cs, fences, count, false, FOREVER, &status, &first));
	EXPECT_EQ(status, 1);
	EXPECT_EQ(first, 0);
	EXPECT_EQ(kernel_warned(), warned);
	free(fences);
}

/* Expects a word at `va`, which `bos` have; the last two are code and data. */
static void expect_word(struct cs *cs, uint64_t va, uint32_t wanted, const struct cs_bo *bos,
			uint32_t count)
{
	struct drm_amdgpu_bo_list_entry list[4] = { 0 };
	struct cs_job job;
	uint64_t handle;

	for (uint32_t i = 0; i < count; i++)
		list[i].bo_handle = bos[i].handle;
	list[count].bo_handle = cs->code.handle;
	list[count + 1].bo_handle = cs->data.handle;
	cs->data.words[0] = ~wanted;
	cs_job(&job, cs, 0);
	cs_add_bos(&job, list, count + 2);
	cs_add_ib(&job, cs_copy(cs, va, cs->data.va, 4));
	ASSERT_OK(cs_submit(&job, &handle));
	cs_done(cs, 0, handle);
	EXPECT(cs->data.words[0] == wanted, "%#llx: %#x, not %#x", (unsigned long long)va,
	       cs->data.words[0], wanted);
}

/* Cuts pages out of 2 MiB pages, within one and across several. */
static void cut_large_pages(struct cs *cs)
{
	const uint64_t va = 0x7040000000ull, page = 4096, first = 700, from = 800, to = 1500;
	struct cs_bo bos[2];

	cs_bo_new(cs, &bos[0], 8 << 20, AMDGPU_GEM_DOMAIN_VRAM);
	cs_bo_new(cs, &bos[1], page, AMDGPU_GEM_DOMAIN_GTT);
	for (uint32_t i = 0; i < 2048; i++)
		bos[0].words[i * 1024] = i;
	bos[1].words[0] = 0xb0;
	ASSERT_OK(cs_va(cs->fd, bos[0].handle, AMDGPU_VA_OP_MAP, ACCESS, va, 0, 8 << 20));
	ASSERT_OK(cs_va(cs->fd, bos[1].handle, AMDGPU_VA_OP_REPLACE, ACCESS, va + first * page, 0,
			page));
	for (uint64_t i = 0; i < 2048; i += i % 512 < 2 || (i > 695 && i < 705) ? 1 : 85)
		expect_word(cs, va + i * page, i == first ? 0xb0 : (uint32_t)i, bos, 2);
	ASSERT_OK(cs_va(cs->fd, 0, AMDGPU_VA_OP_CLEAR, 0, va + from * page, 0, (to - from) * page));
	ASSERT_OK(cs_va(cs->fd, bos[0].handle, AMDGPU_VA_OP_MAP, ACCESS, va + from * page, 0,
			(to - from) * page));
	for (uint64_t i = from - 2; i < to + 2; i += i % 512 < 2 || i < from + 2 || i > to - 3 ? 1 : 35) {
		bool within = i >= from && i < to;

		expect_word(cs, va + i * page, (uint32_t)(within ? i - from : i), bos, 2);
	}
}

TEST(va_replace_and_clear)
{
	const uint64_t va = 0x7000000000ull, page = 4096;
	struct cs_bo a, b;
	struct cs cs;
	uint64_t handle;

	cs_open(&cs);
	cs_bo_new(&cs, &a, 4 * page, AMDGPU_GEM_DOMAIN_GTT);
	cs_bo_new(&cs, &b, 4 * page, AMDGPU_GEM_DOMAIN_VRAM);
	for (uint32_t i = 0; i < 4; i++) {
		a.words[i * 1024] = 0xa0 + i;
		b.words[i * 1024] = 0xb0 + i;
	}
	ASSERT_OK(
		cs_va(cs.fd, a.handle, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE, va, 0, 4 * page));
	EXPECT_RET(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_MAP, ACCESS, va + page, 0, page), -EINVAL);
	EXPECT_RET(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_REPLACE, ACCESS, va + page, 4 * page, page),
		   -EINVAL);
	EXPECT_RET(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_REPLACE, ACCESS, va + page, 0, 0), -EINVAL);
	EXPECT_RET(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_REPLACE, 1 << 30, va + page, 0, page),
		   -EINVAL);
	/* Page 1 becomes page 3 of the other BO; page 2 stays. */
	ASSERT_OK(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_REPLACE, AMDGPU_VM_PAGE_READABLE, va + page,
			3 * page, page));
	/* A job waits for the PTEs of the BOs in its list (`amdgpu_cs_vm_handling()`). */
	for (uint32_t i = 0; i < 4; i++) {
		struct drm_amdgpu_bo_list_entry bos[] = {
			{ cs.code.handle, 0 }, { cs.data.handle, 0 }, { a.handle, 0 }, { b.handle, 0 }
		};
		struct cs_job job;

		cs_job(&job, &cs, 0);
		cs_add_bos(&job, bos, 4);
		cs_add_ib(&job, cs_copy(&cs, va + i * page, cs.data.va + 4 * i, 4));
		ASSERT_OK(cs_submit(&job, &handle));
		cs_done(&cs, 0, handle);
		EXPECT_EQ(cs.data.words[i], i == 1 ? 0xb3 : 0xa0 + i);
	}
	/* Clear the middle of the remaining mapping. */
	EXPECT_OK(cs_va(cs.fd, 0, AMDGPU_VA_OP_CLEAR, 0, va + page, 0, 2 * page));
	EXPECT_OK(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_MAP, ACCESS, va + page, 0, 2 * page));
	EXPECT_OK(cs_va(cs.fd, a.handle, AMDGPU_VA_OP_UNMAP, 0, va, 0, page));
	/* The address of its page is that of a mapping. */
	EXPECT_OK(cs_va(cs.fd, a.handle, AMDGPU_VA_OP_UNMAP, 0, va + 3 * page + 8, 0, page));
	EXPECT_RET(cs_va(cs.fd, a.handle, AMDGPU_VA_OP_UNMAP, 0, va + 2 * page, 0, page), -ENOENT);
	EXPECT_OK(cs_va(cs.fd, b.handle, AMDGPU_VA_OP_UNMAP, 0, va + page, 0, 2 * page));
	cut_large_pages(&cs);
}

/* A REPLACE that fails, as a buffer of KFD is mapped in the range, leaves the mappings. */
TEST(va_replace_beside_kfd)
{
	const uint64_t bytes = 65536;
	struct kfd_bo *bo;
	uint64_t va;
	struct cs cs;
	struct kfd k;
	int ret;

	fixture_open(&k);
	cs_open_on(&cs, k.drm);
	ASSERT_OK(kfd_bo_create(&k, bytes, KFD_FLAGS_GTT, &bo));
	va = kfd_va(bo->va) - bytes;
	ASSERT_OK(cs_va(cs.fd, cs.code.handle, AMDGPU_VA_OP_MAP, ACCESS, va, 0, bytes));
	ret = cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_REPLACE, ACCESS, va + bytes / 2, 0, bytes);
	if (!ktap_is_rkfd()) {
		/* The C driver removes the mapping of KFD. */
		EXPECT_OK(ret);
		return;
	}
	EXPECT_RET(ret, -EINVAL);
	EXPECT_RET(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_MAP, ACCESS, va + bytes / 2, 0,
			 bytes / 2),
		   -EINVAL);
	/* Without one in the range. */
	EXPECT_OK(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_REPLACE, ACCESS, va, 0, bytes / 2));
	EXPECT_OK(cs_va(cs.fd, cs.data.handle, AMDGPU_VA_OP_UNMAP, 0, va, 0, bytes / 2));
	EXPECT_OK(cs_va(cs.fd, cs.code.handle, AMDGPU_VA_OP_UNMAP, 0, va + bytes / 2, 0, bytes));
}

TEST(implicit_sync_across_files)
{
	struct drm_prime_handle out = { .flags = DRM_CLOEXEC | DRM_RDWR }, in = { 0 };
	struct drm_amdgpu_bo_list_entry bos[2];
	struct cs_ib ib;
	uint64_t leader, follower, busy;
	const uint64_t there = 0x7000000000ull;
	struct cs a, b;
	struct cs_job job;

	cs_open(&a);
	cs_open(&b);
	out.handle = a.data.handle;
	ASSERT_OK(kfd_ioctl(a.fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out));
	in.fd = out.fd;
	ASSERT_OK(kfd_ioctl(b.fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in));
	ASSERT_OK(cs_va(b.fd, in.handle, AMDGPU_VA_OP_MAP, ACCESS, there, 0, BO_BYTES));
	a.data.words[GATE] = 0;
	a.data.words[1] = 0x77;
	leader = hold(&a, 0);

	/* Another address space: the job waits for the fences in the BO's reservation. */
	bos[0].bo_handle = b.code.handle;
	bos[1].bo_handle = in.handle;
	ib = cs_copy(&b, there + GATE * 4, there + 4, 4);
	cs_job(&job, &b, 0);
	cs_add_bos(&job, bos, 2);
	cs_add_ib(&job, ib);
	ASSERT_OK(cs_submit(&job, &follower));
	usleep(20000);
	EXPECT_OK(cs_wait(&b, 0, follower, 0, &busy));
	EXPECT_EQ(busy, 1);
	EXPECT_EQ(a.data.words[1], 0x77);
	open_gate(&a);
	cs_done(&b, 0, follower);
	cs_done(&a, 0, leader);
	EXPECT_EQ(a.data.words[1], 1);
}
