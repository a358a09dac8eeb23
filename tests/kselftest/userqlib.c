// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Creates user queues and submits to them, see userq.h. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "userq.h"

void uq_need(int fd, uint32_t ip)
{
	struct drm_amdgpu_info_device info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_DEV_INFO };

	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
	if (!(info.userq_ip_mask & 1u << ip))
		SKIP("no user queues of IP type %u", ip);
}

void uq_bo_new(struct cs *cs, struct cs_bo *bo, uint64_t size, uint64_t domain)
{
	struct drm_amdgpu_gem_va args = {
		.operation = AMDGPU_VA_OP_MAP,
		.flags = ACCESS,
		.map_size = size,
	};

	*bo = (struct cs_bo){ .size = size, .va = cs->next_va };
	cs->next_va += size + 65536;
	ASSERT_OK(cs_bo_create(cs->fd, size, domain, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED,
			       &bo->handle));
	args.handle = bo->handle;
	args.va_address = bo->va;
	ASSERT_OK(syncobj_create(cs->fd, 0, &args.vm_timeline_syncobj_out));
	ASSERT_OK(kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_GEM_VA, &args));
	ASSERT_OK(syncobj_wait(cs->fd, args.vm_timeline_syncobj_out, INT64_MAX));
	bo->words = cs_bo_map(cs->fd, bo->handle, size);
}

void uq_prepare(struct uq *q, struct cs *cs)
{
	*q = (struct uq){ .cs = cs };
	uq_bo_new(cs, &q->ring, UQ_RING_BYTES, AMDGPU_GEM_DOMAIN_GTT);
	uq_bo_new(cs, &q->rptr, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT);
	uq_bo_new(cs, &q->wptr, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT);
	uq_bo_new(cs, &q->eop, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT);
	ASSERT_OK(cs_bo_create(cs->fd, KFD_PAGE, AMDGPU_GEM_DOMAIN_DOORBELL, 0, &q->doorbells));
	q->doorbell = (uint64_t *)cs_bo_map(cs->fd, q->doorbells, KFD_PAGE) + UQ_DOORBELL;
	q->compute.eop_va = q->eop.va;
	q->args = (struct drm_amdgpu_userq_in){
		.op = AMDGPU_USERQ_OP_CREATE,
		.ip_type = AMDGPU_HW_IP_COMPUTE,
		.doorbell_handle = q->doorbells,
		.doorbell_offset = UQ_DOORBELL,
		.queue_va = q->ring.va,
		.queue_size = q->ring.size,
		.rptr_va = q->rptr.va,
		.wptr_va = q->wptr.va,
		.mqd = kfd_va(&q->compute),
		.mqd_size = sizeof(q->compute),
	};
}

int uq_start(struct uq *q)
{
	union drm_amdgpu_userq args = { .in = q->args };
	int ret = kfd_ioctl(q->cs->fd, DRM_IOCTL_AMDGPU_USERQ, &args);

	if (!ret)
		q->id = args.out.queue_id;
	return ret;
}

int uq_free(struct cs *cs, uint32_t id)
{
	union drm_amdgpu_userq args = { .in = { .op = AMDGPU_USERQ_OP_FREE, .queue_id = id } };

	return kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_USERQ, &args);
}

void uq_unmap(struct uq *q)
{
	struct cs_bo *all[] = { &q->ring, &q->rptr, &q->wptr, &q->eop };

	for (int i = 0; i < 4; i++)
		munmap((void *)all[i]->words, all[i]->size);
	munmap((void *)(q->doorbell - UQ_DOORBELL), KFD_PAGE);
}

void uq_release(struct uq *q)
{
	uint32_t all[] = { q->ring.handle, q->rptr.handle, q->wptr.handle, q->eop.handle,
			   q->doorbells };

	uq_unmap(q);
	for (int i = 0; i < 5; i++)
		EXPECT_OK(cs_bo_close(q->cs->fd, all[i]));
}

void uq_open(struct uq *q, struct cs *cs)
{
	cs_open(cs);
	uq_need(cs->fd, AMDGPU_HW_IP_COMPUTE);
	uq_prepare(q, cs);
	ASSERT_OK(uq_start(q));
}

void uq_open_two(struct uq *a, struct uq *b, struct cs *cs)
{
	uq_open(a, cs);
	uq_prepare(b, cs);
	ASSERT_OK(uq_start(b));
}

void uq_put(struct uq *q, const uint32_t *words, uint32_t count)
{
	uint64_t dwords = q->ring.size / 4;

	for (uint32_t i = 0; i < count; i++)
		q->ring.words[(q->next + i) % dwords] = words[i];
	q->next += count;
}

void uq_ring(struct uq *q)
{
	__atomic_store_n((volatile uint64_t *)q->wptr.words, q->next, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*q->doorbell = q->next;
}

bool uq_works(struct uq *q)
{
	static uint32_t value = 0x1000;
	uint32_t words[16], count;

	value++;
	count = pm4_write_data(words, q->cs->data.va, value);
	count += pm4_release_mem(words + count, PM4_DATA, q->cs->data.va + 8, value, 0);
	uq_put(q, words, count);
	uq_ring(q);
	return EXPECT(becomes(&q->cs->data.words[2], value, WAIT_MS)) &&
	       EXPECT_EQ(q->cs->data.words[0], value);
}

uint64_t uq_word(struct cs *cs, uint32_t n)
{
	return cs->data.va + n * 4;
}

void uq_put_job(struct uq *q, uint32_t value)
{
	uint32_t words[32], n;

	n = pm4_wait(words, uq_word(q->cs, UQ_GATE), value);
	n += pm4_write_data(words + n, uq_word(q->cs, UQ_DONE), value);
	n += pm4_release_mem(words + n, 0, 0, 0, 0);
	n += pm4_signal(words + n);
	uq_put(q, words, n);
}

void uq_submit(struct uq *q, uint32_t value)
{
	uq_put_job(q, value);
	uq_ring(q);
}

void uq_open_gate(struct cs *cs, uint32_t value)
{
	cs->data.words[UQ_GATE] = value;
}

int uq_signal(struct uq *q, uint32_t *syncobjs, uint32_t count, uint32_t *reads, uint32_t *writes)
{
	struct drm_amdgpu_userq_signal args = {
		.queue_id = q->id,
		.syncobj_handles = kfd_va(syncobjs),
		.num_syncobj_handles = (uint16_t)count,
		.bo_read_handles = kfd_va(reads),
		.num_bo_read_handles = !!reads,
		.bo_write_handles = kfd_va(writes),
		.num_bo_write_handles = !!writes,
	};

	return kfd_ioctl(q->cs->fd, DRM_IOCTL_AMDGPU_USERQ_SIGNAL, &args);
}

int uq_wait_ms(struct cs *cs, uint32_t syncobj, unsigned int ms)
{
	return syncobj_wait(cs->fd, syncobj, (int64_t)(cs_now() + ms * UQ_MS));
}

void uq_lives(void *unused)
{
	struct cs cs;
	struct uq q;

	(void)unused;
	uq_open(&q, &cs);
	EXPECT(uq_works(&q));
}
