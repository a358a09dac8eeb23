// SPDX-License-Identifier: GPL-2.0 OR MIT
/* AQL queues: buffers, doorbell, packets. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "kfd.h"

/* From this generation on queues need an EOP buffer, and scratch has other units. */
static bool is_gfx10_up(const struct kfd_node *node)
{
	return node->gfx_target_version >= 100100;
}

/* Waves of one XCC for the size of the context save area (kfd_queue_ctx_save_restore_size). */
uint32_t kfd_waves(const struct kfd_node *node)
{
	uint32_t cus = node->simd_count / node->simd_per_cu / node->num_xcc;
	/* array_count is of all XCCs, the limit of waves is per XCC. */
	uint32_t engines = node->array_count / node->num_xcc / node->simd_arrays_per_engine;

	if (is_gfx10_up(node))
		return cus * 32;
	return cus * 40 < engines * 512 ? cus * 40 : engines * 512;
}

static uint32_t debug_bytes(const struct kfd_node *node)
{
	return (kfd_waves(node) * 32 + 63) & ~63u;
}

/* Size of the context save area of one queue, for all XCCs. */
size_t kfd_cwsr_bytes(const struct kfd_node *node)
{
	size_t total = ((size_t)node->cwsr_size + debug_bytes(node)) * node->num_xcc;

	return (total + KFD_PAGE - 1) & ~(KFD_PAGE - 1);
}

static void fill_cwsr(struct kfd_queue *q)
{
	const struct kfd_node *node = &q->k->node;
	uint32_t debug = debug_bytes(node);

	/* One header at the start of each XCC's part. */
	for (uint32_t i = 0; i < node->num_xcc; i++) {
		void *part = (char *)q->cwsr->va + (size_t)i * node->cwsr_size;
		struct kfd_context_save_area_header *h = part;

		h->debug_offset = (node->num_xcc - i) * node->cwsr_size + i * debug;
		h->debug_size = debug * node->num_xcc;
		h->err_event_id = q->inactive.event_id;
		h->err_payload_addr = kfd_va((void *)&q->inactive.s->value);
	}
}

static void fill_descriptor(struct kfd_queue *q)
{
	struct amd_queue *d = q->descriptor->va;
	volatile struct aql_dispatch *ring = q->ring->va;
	const struct kfd_node *node = &q->k->node;

	q->q = d;
	memset(d, 0, sizeof(*d));
	d->features = 1;
	d->base_address = kfd_va(q->ring->va);
	d->size = q->packets;
	d->read_dispatch_id_field_base_byte_offset = offsetof(struct amd_queue, read_dispatch_id);
	d->group_segment_aperture_base_hi = (uint32_t)(q->k->apertures.lds_base >> 32);
	d->private_segment_aperture_base_hi = (uint32_t)(q->k->apertures.scratch_base >> 32);
	d->max_cu_id = node->simd_count / node->simd_per_cu - 1;
	d->max_wave_id = node->max_slots_scratch_cu - 1;
	d->queue_properties = 1u << 1; /* 64-bit pointers */
	d->queue_inactive_signal = kfd_va(q->inactive.s);
	for (uint32_t i = 0; i < q->packets; i++)
		ring[i].header = AQL_INVALID;
}

/* Prepares all buffers of CREATE_QUEUE: ring, descriptor with the indices, context save area. */
int kfd_queue_prepare(struct kfd *k, struct kfd_queue *q, uint32_t packets,
		      struct kfd_ioctl_create_queue_args *args)
{
	int ret;

	memset(q, 0, sizeof(*q));
	memset(args, 0, sizeof(*args));
	q->k = k;
	q->packets = packets;
	ret = kfd_signal_create(k, 0, &q->inactive);
	if (!ret)
		ret = kfd_bo_create(k, packets * sizeof(struct aql_dispatch), KFD_FLAGS_GTT,
				    &q->ring);
	if (!ret)
		ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_GTT, &q->descriptor);
	if (!ret)
		ret = kfd_bo_create(k, kfd_cwsr_bytes(&k->node), KFD_FLAGS_VRAM, &q->cwsr);
	if (!ret && is_gfx10_up(&k->node))
		ret = kfd_bo_create(k, KFD_PAGE, KFD_FLAGS_VRAM, &q->eop);
	if (ret) {
		kfd_queue_free_memory(q);
		return ret;
	}
	fill_descriptor(q);
	if (q->cwsr->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)
		fill_cwsr(q);
	args->ring_base_address = kfd_va(q->ring->va);
	args->ring_size = packets * (uint32_t)sizeof(struct aql_dispatch);
	args->write_pointer_address = kfd_va((void *)&q->q->write_dispatch_id);
	args->read_pointer_address = kfd_va((void *)&q->q->read_dispatch_id);
	args->gpu_id = k->node.gpu_id;
	args->queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	args->queue_percentage = 100;
	args->queue_priority = 7;
	args->ctx_save_restore_address = kfd_va(q->cwsr->va);
	args->ctx_save_restore_size = k->node.cwsr_size;
	args->ctl_stack_size = k->node.ctl_stack_size;
	if (q->eop) {
		args->eop_buffer_address = kfd_va(q->eop->va);
		args->eop_buffer_size = KFD_PAGE;
	}
	return 0;
}

int kfd_queue_start(struct kfd_queue *q, struct kfd_ioctl_create_queue_args *args)
{
	int ret = kfd_ioctl(q->k->fd, AMDKFD_IOC_CREATE_QUEUE, args);

	if (ret)
		return ret;
	q->id = args->queue_id;
	q->q->id = args->queue_id;
	q->doorbell_offset = args->doorbell_offset;
	return 0;
}

/* Each process has one doorbell page per GPU; the queue's doorbell is within it. */
int kfd_map_doorbell(struct kfd *k, uint64_t offset, volatile uint64_t **doorbell)
{
	void *p = NULL;
	int ret;

	if (!k->doorbells) {
		ret = kfd_mmap(&p, KFD_DOORBELL_SLICE, k->fd, offset & ~(KFD_DOORBELL_SLICE - 1));
		if (ret)
			return ret;
		k->doorbells = p;
	}
	*doorbell = (volatile uint64_t *)(k->doorbells + (offset & (KFD_DOORBELL_SLICE - 1)));
	return 0;
}

int kfd_queue_map_doorbell(struct kfd_queue *q)
{
	return kfd_map_doorbell(q->k, q->doorbell_offset, &q->doorbell);
}

int kfd_queue_create(struct kfd *k, struct kfd_queue *q, uint32_t packets)
{
	struct kfd_ioctl_create_queue_args args;
	int ret = kfd_queue_prepare(k, q, packets, &args);

	if (ret)
		return ret;
	ret = kfd_queue_start(q, &args);
	if (ret) {
		kfd_queue_free_memory(q);
		return ret;
	}
	ret = kfd_queue_map_doorbell(q);
	if (ret)
		kfd_queue_destroy(q);
	return ret;
}

int kfd_queue_stop(struct kfd_queue *q)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = q->id };

	return kfd_ioctl(q->k->fd, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

int kfd_queue_free_memory(struct kfd_queue *q)
{
	struct kfd_bo *bos[] = { q->scratch, q->cwsr, q->eop, q->descriptor, q->ring };
	int ret = 0;

	for (size_t i = 0; i < sizeof(bos) / sizeof(bos[0]); i++) {
		int err = bos[i] ? kfd_bo_free(q->k, bos[i]) : 0;

		ret = ret ? ret : err;
	}
	if (q->inactive.event_id)
		kfd_event_destroy(q->k, q->inactive.event_id);
	memset(q, 0, sizeof(*q));
	return ret;
}

int kfd_queue_destroy(struct kfd_queue *q)
{
	int ret = kfd_queue_stop(q);
	int err = kfd_queue_free_memory(q);

	return ret ? ret : err;
}

/*
 * Sets up scratch for the queue, `lane_bytes` for each work-item of every wave that the GPU can
 * hold. The queue must be idle.
 */
int kfd_queue_set_scratch(struct kfd_queue *q, uint32_t lane_bytes)
{
	const struct kfd_node *node = &q->k->node;
	uint32_t waves = node->simd_count / node->simd_per_cu * node->max_slots_scratch_cu;
	uint32_t wave_bytes = (lane_bytes * node->wave_front_size + 1023) & ~1023u;
	size_t total = (size_t)waves * wave_bytes;
	uint64_t base;
	int ret;

	ret = kfd_bo_create(q->k, total, KFD_FLAGS_VRAM, &q->scratch);
	if (ret)
		return ret;
	base = kfd_va(q->scratch->va);
	/*
	 * COMPUTE_TMPRING_SIZE: waves (from gfx11 on per shader array), and size per wave in KiB
	 * (from gfx11 on in 256 bytes).
	 */
	if (is_gfx10_up(node))
		q->q->compute_tmpring_size = (waves / node->array_count & 0xfff) |
					     (wave_bytes / 256) << 12;
	else
		q->q->compute_tmpring_size = (waves / node->num_xcc & 0xfff) | (wave_bytes / 1024)
										       << 12;
	q->q->scratch_backing_memory_location = base;
	q->q->scratch_backing_memory_byte_size = total;
	q->q->scratch_wave64_lane_byte_size = wave_bytes / node->wave_front_size;
	q->q->scratch_resource_descriptor[0] = (uint32_t)base;
	q->q->scratch_resource_descriptor[1] = (uint32_t)(base >> 32 & 0xffff) | 1u << 31;
	q->q->scratch_resource_descriptor[2] = (uint32_t)total;
	q->q->scratch_resource_descriptor[3] = 4 | 5 << 3 | 6 << 6 | 7 << 9 | 4 << 12 | 4 << 15 |
					       3 << 21 | 1 << 23;
	return 0;
}

/* Writes one packet to the ring: body first, header last with release order. Returns its index. */
uint64_t kfd_queue_write(struct kfd_queue *q, const void *packet)
{
	uint64_t index = __atomic_fetch_add(&q->q->write_dispatch_id, 1, __ATOMIC_RELAXED);
	char *slot = (char *)q->ring->va + (index & (q->packets - 1)) * sizeof(struct aql_dispatch);
	uint32_t first;

	while (index - __atomic_load_n(&q->q->read_dispatch_id, __ATOMIC_ACQUIRE) >= q->packets)
		;
	memcpy(&first, packet, sizeof(first));
	memcpy(slot + 4, (const char *)packet + 4, sizeof(struct aql_dispatch) - 4);
	__atomic_store_n((uint32_t *)(void *)slot, first, __ATOMIC_RELEASE);
	return index;
}

/* Rings the doorbell: an 8-byte store. */
void kfd_queue_ring(struct kfd_queue *q, uint64_t index)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	*q->doorbell = index;
}
