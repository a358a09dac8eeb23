// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests CREATE_QUEUE, UPDATE_QUEUE and DESTROY_QUEUE of SDMA queues: effects, and every argument
 * check.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "fixture.h"
#include "queue-calls.h"

#define RING 4096u
#define MAX_PLACES 512

static const uint32_t types[] = { KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
				  KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID };

/* Buffers of a queue, and valid arguments to create it. */
struct plan {
	struct kfd k;
	struct sdma_queue q;
	struct kfd_ioctl_create_queue_args args;
	uint32_t per_engine;
};

static uint32_t queues_per_engine(const struct kfd_node *node)
{
	uint64_t value;
	char path[256];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", node->index);
	ASSERT_OK(kfd_sysfs_value(path, "num_sdma_queues_per_engine", &value));
	return (uint32_t)value;
}

static void plan(struct plan *p, uint32_t type)
{
	fixture_open(&p->k);
	p->per_engine = queues_per_engine(&p->k.node);
	ASSERT_OK(sdma_queue_prepare(&p->k, &p->q, type, 0, RING, &p->args));
}

static uint32_t engines(const struct plan *p)
{
	return p->k.node.num_sdma_engines + p->k.node.num_sdma_xgmi_engines;
}

/* Returns whether the GPU has engines for this queue type. */
static bool has(const struct plan *p, uint32_t type)
{
	return type != KFD_IOC_QUEUE_TYPE_SDMA_XGMI || p->k.node.num_sdma_xgmi_engines;
}

static void put(struct sdma_queue *q, const uint32_t *packets, const uint32_t *end)
{
	for (int i = 0; sdma_queue_put(q, packets, end); i++) {
		ASSERT(i < 20000, "ring stays full");
		usleep(1000);
	}
	sdma_queue_ring(q);
}

/* Expects that the queue executes packets. */
static bool works(struct sdma_queue *q)
{
	static uint32_t value = 0x5d3a;
	uint32_t packets[16] = { 0 }, *p = packets;
	struct kfd_bo *bo;
	bool done;

	ASSERT_OK(kfd_bo_create(q->k, 4096, KFD_FLAGS_GTT, &bo));
	sdma_fence(&p, kfd_va(bo->va), ++value);
	put(q, packets, p);
	done = becomes(bo->va, value, WAIT_MS);
	ASSERT_OK(kfd_bo_free(q->k, bo));
	return done;
}

/* Each case changes one member and expects an errno. */
#define REFUSED(member, value, wanted)                                                   \
	do {                                                                             \
		struct kfd_ioctl_create_queue_args args_ = p.args;                       \
		args_.member = (value);                                                  \
		EXPECT_RET(create(&p.k, args_), wanted);                                 \
	} while (0)

#define EACH_TYPE(t, p)                                                                  \
	for (size_t t##_ = 0; t##_ < sizeof(types) / sizeof(types[0]); t##_++)           \
		for (uint32_t t = types[t##_], once_ = has(&(p), t); once_; once_ = 0)

TEST(create_checks_arguments)
{
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	EACH_TYPE(type, p) {
		p.args.queue_type = type;
		REFUSED(queue_percentage, 101, -EINVAL);
		REFUSED(queue_priority, 16, -EINVAL);
		REFUSED(ring_size, 4096 + 64, -EINVAL);
		REFUSED(metadata_ring_size, 3, -EINVAL);
		REFUSED(gpu_id, NO_SUCH_GPU, -EINVAL);
		REFUSED(gpu_id, 0, -EINVAL);
		REFUSED(ring_base_address, KERNEL_ADDRESS, -EFAULT);
		REFUSED(read_pointer_address, KERNEL_ADDRESS, -EFAULT);
		REFUSED(write_pointer_address, KERNEL_ADDRESS, -EFAULT);
		REFUSED(eop_buffer_address, KERNEL_ADDRESS, -EFAULT);
		REFUSED(ctx_save_restore_address, KERNEL_ADDRESS, -EFAULT);
	}
	REFUSED(queue_type, 5, -ENOTSUPP);
}

TEST(create_refuses_unmapped_buffers)
{
	static char plain[8192] __attribute__((aligned(4096)));
	struct kfd_bo *big;
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT_OK(kfd_bo_create(&p.k, 16384, KFD_FLAGS_GTT, &big));
	EACH_TYPE(type, p) {
		p.args.queue_type = type;
		REFUSED(ring_base_address, kfd_va(plain), -EINVAL);
		REFUSED(ring_base_address, 0, -EINVAL);
		REFUSED(ring_base_address, kfd_va(big->va), -EINVAL);
		REFUSED(ring_size, RING * 2, -EINVAL);
		REFUSED(read_pointer_address, kfd_va(plain), -EINVAL);
		REFUSED(read_pointer_address, kfd_va(big->va), -EINVAL);
		REFUSED(write_pointer_address, kfd_va(plain), -EINVAL);
		REFUSED(write_pointer_address, 0, -EINVAL);
	}
}

/* Neither EOP buffer nor context save area is checked. */
TEST(create_ignores_compute_buffers)
{
	static char plain[8192] __attribute__((aligned(4096)));
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	p.args.eop_buffer_address = kfd_va(plain);
	p.args.eop_buffer_size = 1;
	p.args.ctx_save_restore_address = kfd_va(plain);
	p.args.ctx_save_restore_size = 1;
	p.args.ctl_stack_size = 12345;
	EACH_TYPE(type, p) {
		p.args.queue_type = type;
		ASSERT_OK(sdma_queue_start(&p.q, &p.args));
		EXPECT_EQ(p.q.id, 0);
		EXPECT_OK(destroy(&p.k, p.q.id));
		EXPECT_RET(destroy(&p.k, p.q.id), -EINVAL);
	}
}

TEST(create_without_vm_is_esrch)
{
	struct kfd_ioctl_create_queue_args args = { 0 };
	struct kfd k;

	fixture_open_only(&k);
	args.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
	args.sdma_engine_id = ~0u;
	args.ring_size = 4096;
	args.queue_percentage = 100;
	args.gpu_id = k.node.gpu_id;
	EXPECT_RET(create(&k, args), -ESRCH);
}

/* The engine id matters to SDMA_BY_ENG_ID only, and is checked before the buffers. */
TEST(create_by_engine_id)
{
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID);
	REFUSED(sdma_engine_id, engines(&p), -EINVAL);
	REFUSED(sdma_engine_id, 0x80000000u, -EINVAL);
	REFUSED(sdma_engine_id, ~0u, -EINVAL);
	for (uint32_t i = 0; i < engines(&p); i++) {
		p.args.sdma_engine_id = i;
		ASSERT_OK(sdma_queue_start(&p.q, &p.args));
		EXPECT_OK(destroy(&p.k, p.q.id));
	}
	p.args.sdma_engine_id = ~0u;
	p.args.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
}

/*
 * Offset of a queue's doorbell in the process's 8 KiB. gfx942: engines start at multiples of four
 * queues, and those of a partition are numbered as in the card; GFX12: the first two queues of each
 * engine are the kernel's.
 */
static uint64_t doorbell_of(const struct plan *p, uint32_t engine, uint32_t queue)
{
	uint32_t partition = p->k.node.location_id & 7;
	uint64_t first = 0x100 + 10 * (partition * engines(p) + engine);

	if (is_gfx12(&p->k.node))
		queue += 2;
	else
		first = (first + 3) & ~3ul;
	return 8 * (first + (queue & 1) * 512 + queue / 2);
}

#define SLICE_OFFSET(q) ((q)->doorbell_offset & (KFD_DOORBELL_SLICE - 1))

/* Queues are spread round robin over the engines of their type; the doorbell offset shows which. */
TEST(engine_and_doorbell_assignment)
{
	struct sdma_queue q[6];
	struct plan p;
	uint32_t n;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	n = p.k.node.num_sdma_engines;
	for (uint32_t i = 0; i < 6; i++) {
		ASSERT_OK(sdma_queue_create(&p.k, &q[i], KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
		EXPECT_EQ(q[i].id, i);
		EXPECT_EQ(SLICE_OFFSET(&q[i]), doorbell_of(&p, i % n, i / n));
		EXPECT_EQ(q[i].doorbell_offset >> 62, 3);
		EXPECT_EQ(q[i].doorbell_offset >> 46 & 0xffff, p.k.node.gpu_id & 0xffff);
	}
	/* The lowest free queue is next. */
	ASSERT_OK(sdma_queue_destroy(&q[1]));
	ASSERT_OK(sdma_queue_destroy(&q[4]));
	ASSERT_OK(sdma_queue_create(&p.k, &q[4], KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
	EXPECT_EQ(SLICE_OFFSET(&q[4]), doorbell_of(&p, 1 % n, 1 / n));
	/* By engine id: the lowest free queue of that engine, shared with automatic assignment. */
	ASSERT_OK(sdma_queue_create(&p.k, &q[1], KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, RING));
	EXPECT_EQ(SLICE_OFFSET(&q[1]), doorbell_of(&p, 0, n == 1 ? 4 : 4 / n));
	for (uint32_t i = 0; i < 6; i++)
		EXPECT_OK(sdma_queue_destroy(&q[i]));
}

TEST(xgmi_engine_assignment)
{
	struct sdma_queue q[5];
	struct plan p;
	uint32_t first, n;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA_XGMI);
	first = p.k.node.num_sdma_engines;
	n = p.k.node.num_sdma_xgmi_engines;
	if (!n)
		SKIP("no xGMI engines");
	for (uint32_t i = 0; i < 5; i++) {
		ASSERT_OK(sdma_queue_create(&p.k, &q[i], KFD_IOC_QUEUE_TYPE_SDMA_XGMI, 0, RING));
		EXPECT_EQ(SLICE_OFFSET(&q[i]), doorbell_of(&p, first + i % n, i / n));
	}
	ASSERT_OK(sdma_queue_destroy(&q[0]));
	ASSERT_OK(sdma_queue_create(&p.k, &q[0], KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, first, RING));
	EXPECT_EQ(SLICE_OFFSET(&q[0]), doorbell_of(&p, first, 0));
	for (uint32_t i = 0; i < 5; i++)
		EXPECT_OK(sdma_queue_destroy(&q[i]));
}

/* Creates inactive queues until that fails, all with the plan's buffers. Returns their number. */
static uint32_t exhaust(struct plan *p, uint32_t type, uint32_t engine, uint32_t *ids)
{
	uint32_t count = 0;
	int ret;

	for (;;) {
		struct kfd_ioctl_create_queue_args args = p->args;

		args.queue_type = type;
		args.sdma_engine_id = engine;
		args.queue_percentage = 0;
		ret = kfd_ioctl(p->k.fd, AMDKFD_IOC_CREATE_QUEUE, &args);
		if (ret)
			break;
		ASSERT(count < MAX_PLACES);
		ids[count++] = args.queue_id;
	}
	EXPECT_RET(ret, -ENOMEM);
	return count;
}

TEST(queue_type_exhausted_is_enomem)
{
	const uint32_t kinds[] = { KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_XGMI };
	uint32_t ids[2][MAX_PLACES], count[2], more[MAX_PLACES];
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2; i++) {
			uint32_t have = i ? p.k.node.num_sdma_xgmi_engines :
					    p.k.node.num_sdma_engines;

			count[i] = exhaust(&p, kinds[i], 0, ids[i]);
			EXPECT_EQ(count[i], have * p.per_engine);
			if (have)
				EXPECT_EQ(exhaust(&p, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID,
						  i ? p.k.node.num_sdma_engines : 0, more),
					  0);
		}
		/* The argument checks come first. */
		REFUSED(ring_size, RING * 2, -EINVAL);
		REFUSED(queue_priority, 16, -EINVAL);
		/* Destroying a queue makes room for one. */
		ASSERT_OK(destroy(&p.k, ids[0][count[0] / 2]));
		EXPECT_EQ(exhaust(&p, kinds[0], 0, &ids[0][count[0] / 2]), 1);
		for (int i = 0; i < 2; i++)
			for (uint32_t n = 0; n < count[i]; n++)
				ASSERT_OK(destroy(&p.k, ids[i][n]));
	}
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
}

TEST(engine_exhausted_is_enomem)
{
	uint32_t ids[MAX_PLACES], rest[MAX_PLACES], count, left;
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	for (uint32_t engine = 0; engine < engines(&p); engine++) {
		bool xgmi = engine >= p.k.node.num_sdma_engines;
		uint32_t of_kind = xgmi ? p.k.node.num_sdma_xgmi_engines :
					  p.k.node.num_sdma_engines;

		count = exhaust(&p, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine, ids);
		EXPECT_EQ(count, p.per_engine);
		/* Other engines of the type still have free queues. */
		left = exhaust(&p, xgmi ? KFD_IOC_QUEUE_TYPE_SDMA_XGMI : KFD_IOC_QUEUE_TYPE_SDMA, 0,
			       rest);
		EXPECT_EQ(left, (of_kind - 1) * p.per_engine);
		for (uint32_t i = 0; i < count; i++)
			ASSERT_OK(destroy(&p.k, ids[i]));
		for (uint32_t i = 0; i < left; i++)
			ASSERT_OK(destroy(&p.k, rest[i]));
	}
}

static void take_all(void *data)
{
	uint32_t ids[MAX_PLACES];
	struct plan p;

	(void)data;
	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	EXPECT_EQ(exhaust(&p, KFD_IOC_QUEUE_TYPE_SDMA, 0, ids),
		  p.k.node.num_sdma_engines * p.per_engine);
	EXPECT_EQ(exhaust(&p, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, 0, ids),
		  p.k.node.num_sdma_xgmi_engines * p.per_engine);
}

/* SDMA queues are a resource of the GPU, freed when a process exits. */
TEST(exit_frees_engine_queues)
{
	for (int i = 0; i < 3; i++)
		ASSERT_OK(ktap_in_child(take_all, NULL));
}

TEST(queue_ids_are_shared_with_compute_queues)
{
	struct sdma_queue a, b;
	struct kfd_queue q;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(sdma_queue_create(&k, &a, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	ASSERT_OK(sdma_queue_create(&k, &b, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
	EXPECT_EQ(a.id, 0);
	EXPECT_EQ(q.id, 1);
	EXPECT_EQ(b.id, 2);
	EXPECT(SLICE_OFFSET(&a) != (q.doorbell_offset & (KFD_DOORBELL_SLICE - 1)));
	EXPECT(works(&a) && works(&b));
	EXPECT_OK(kfd_queue_destroy(&q));
	EXPECT(works(&a) && works(&b));
}

TEST(unmap_queue_buffer_is_ebusy)
{
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
	EXPECT_RET(kfd_bo_unmap_gpu(&p.k, p.q.ring), -EBUSY);
	EXPECT_RET(kfd_bo_unmap_gpu(&p.k, p.q.pointers), -EBUSY);
	ASSERT_OK(destroy(&p.k, p.q.id));
	EXPECT_OK(kfd_bo_unmap_gpu(&p.k, p.q.ring));
	EXPECT_OK(kfd_bo_unmap_gpu(&p.k, p.q.pointers));
}

TEST(update_errors)
{
	static char plain[8192] __attribute__((aligned(4096)));
	struct sdma_queue unknown;
	struct plan p;
	uint64_t ring;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
	ring = kfd_va(p.q.ring->va);
	unknown = p.q;
	unknown.id = 77;
	EXPECT_RET(update(p.q.k, p.q.id, ring, RING, 101, 7), -EINVAL);
	EXPECT_RET(update(p.q.k, p.q.id, ring, RING, 100, 16), -EINVAL);
	EXPECT_RET(update(p.q.k, p.q.id, KERNEL_ADDRESS, RING, 100, 7), -EFAULT);
	EXPECT_RET(update(p.q.k, p.q.id, ring, 4095, 100, 7), -EINVAL);
	EXPECT_RET(update(unknown.k, unknown.id, ring, RING, 100, 7), -EFAULT);
	EXPECT_RET(update(p.q.k, p.q.id, kfd_va(plain), RING, 100, 7), -EFAULT);
	EXPECT_RET(update(p.q.k, p.q.id, ring, RING * 2, 100, 7), -EFAULT);
	/* No rejected update changed the queue. */
	EXPECT(works(&p.q));
	EXPECT_RET(kfd_bo_unmap_gpu(&p.k, p.q.ring), -EBUSY);
	EXPECT_OK(update(p.q.k, p.q.id, ring, RING, 100, 15));
	EXPECT(works(&p.q));
}

/* The ring may move while it is empty: the pointers stay. */
TEST(update_to_another_ring)
{
	struct kfd_bo *other, *old;
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
	ASSERT_OK(kfd_bo_create(&p.k, RING, KFD_FLAGS_GTT, &other));
	EXPECT(works(&p.q));
	for (int ms = 0; ms < 5000 && !sdma_queue_is_empty(&p.q); ms++)
		usleep(1000);
	old = p.q.ring;
	ASSERT_OK(update(p.q.k, p.q.id, kfd_va(other->va), RING, 100, 7));
	p.q.ring = other;
	EXPECT_RET(kfd_bo_unmap_gpu(&p.k, other), -EBUSY);
	EXPECT_OK(kfd_bo_free(&p.k, old));
	for (int i = 0; i < 400; i++)
		ASSERT(works(&p.q), "round %d", i);
}

/* At 0 % a queue is inactive; its packets run once it is active again. */
TEST(paused_queue_waits)
{
	uint32_t packets[16] = { 0 }, *p = packets;
	volatile uint32_t *word;
	struct kfd_bo *data;
	struct sdma_queue q;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, RING));
	ASSERT_OK(kfd_bo_create(&k, 4096, KFD_FLAGS_GTT, &data));
	word = data->va;
	ASSERT(works(&q));
	for (uint32_t i = 0; i < 3; i++) {
		bool by_ring = i == 1;

		ASSERT_OK(by_ring ? update(q.k, q.id, 0, 0, 100, 7) :
				    update(q.k, q.id, kfd_va(q.ring->va), RING, 0, 7));
		p = packets;
		sdma_fence(&p, kfd_va((void *)word), i + 1);
		put(&q, packets, p);
		EXPECT(!becomes(word, i + 1, 200));
		ASSERT_OK(update(q.k, q.id, kfd_va(q.ring->va), RING, 100, 7));
		ASSERT(becomes(word, i + 1, WAIT_MS));
	}
	EXPECT_OK(sdma_queue_destroy(&q));
}

/* Destroys it while it polls for ever, while it copies, and with a full ring. */
TEST(destroy_busy_queue)
{
	struct sdma_queue q, other;
	struct kfd_bo *data;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, 16 << 20, KFD_FLAGS_GTT, &data));
	ASSERT_OK(sdma_queue_create(&k, &other, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, RING));
	for (int i = 0; i < 6; i++) {
		uint32_t packets[1024] = { 0 }, *p = packets, *word = data->va;

		word[0] = 0;
		ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 0, RING));
		if (i & 1) {
			sdma_poll(&p, kfd_va(word), SDMA_EQUAL, 1, ~0u);
			sdma_fill(&p, kfd_va(word + 1), 0xdead, 4);
		} else {
			for (int n = 0; n < 20; n++)
				sdma_copy(&p, kfd_va(data->va) + (8 << 20), kfd_va(data->va),
					  8 << 20);
		}
		put(&q, packets, p);
		usleep(i * 3000u);
		ASSERT_OK(sdma_queue_destroy(&q));
		if (i & 1) {
			word[1] = 5;
			word[0] = 1;
			usleep(20000);
			EXPECT_EQ(word[1], 5);
		}
		EXPECT(works(&other));
	}
}

/* CU masks have no effect, and there is no wave state. */
TEST(compute_ioctls_on_an_sdma_queue)
{
	struct kfd_ioctl_get_queue_wave_state_args state = { 0 };
	struct kfd_ioctl_set_cu_mask_args mask = { 0 };
	/* On GFX12 CU masks are in pairs (WGPs). */
	uint32_t words[2] = { 3, 0 };
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
	mask.queue_id = state.queue_id = p.q.id;
	mask.num_cu_mask = 64;
	mask.cu_mask_ptr = kfd_va(words);
	EXPECT_OK(kfd_ioctl(p.k.fd, AMDKFD_IOC_SET_CU_MASK, &mask));
	EXPECT_RET(kfd_ioctl(p.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &state), -EINVAL);
	ASSERT_OK(update(p.q.k, p.q.id, kfd_va(p.q.ring->va), RING, 0, 7));
	EXPECT_RET(kfd_ioctl(p.k.fd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &state), -EINVAL);
	ASSERT_OK(update(p.q.k, p.q.id, kfd_va(p.q.ring->va), RING, 100, 7));
	EXPECT(works(&p.q));
}

TEST(small_rings_are_rounded_up)
{
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	p.args.ring_size = 64;
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
	EXPECT_EQ(p.args.ring_size, KFD_MIN_QUEUE_RING_SIZE);
	p.q.bytes = KFD_MIN_QUEUE_RING_SIZE;
	for (int i = 0; i < 100; i++)
		ASSERT(works(&p.q), "round %d", i);
}

static void expect_number(const char *path, uint64_t wanted)
{
	uint64_t value = ~0ull;

	EXPECT_OK(kfd_sysfs_value(path, NULL, &value));
	EXPECT_EQ(value, wanted);
}

/* proc/<pid>/queues/<id> in sysfs: type is the driver's enum kfd_queue_type. */
TEST(sysfs_queue_attributes)
{
	struct kfd_ioctl_update_queue_args update = { .ring_size = 2 * RING,
						      .queue_percentage = 100,
						      .queue_priority = 7 };
	struct kfd_bo *larger;
	char path[256];
	struct plan p;

	if (memory_fails())
		SKIP("without memory there are no folders");
	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID);
	ASSERT_OK(kfd_bo_create(&p.k, 2 * RING, KFD_FLAGS_GTT, &larger));
	update.ring_base_address = kfd_va(larger->va);
	for (uint32_t engine = 0; engine < engines(&p); engine++) {
		p.args.sdma_engine_id = engine;
		ASSERT_OK(sdma_queue_start(&p.q, &p.args));
		snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d/queues/%u/type",
			 getpid(), p.q.id);
		expect_number(path, engine < p.k.node.num_sdma_engines ? 1 : 3);
		snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d/queues/%u/size",
			 getpid(), p.q.id);
		expect_number(path, RING);
		update.queue_id = p.q.id;
		ASSERT_OK(kfd_ioctl(p.k.fd, AMDKFD_IOC_UPDATE_QUEUE, &update));
		expect_number(path, 2 * RING);
		ASSERT_OK(destroy(&p.k, p.q.id));
		EXPECT(access(path, F_OK) != 0);
	}
	snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d/sdma_%u", getpid(),
		 p.k.node.gpu_id);
	EXPECT(access(path, R_OK) == 0, "%s", path);
}

#define DEBUGFS "/sys/kernel/debug/kfd"

/* Returns whether a line of the file contains both words. */
static bool file_says(const char *path, const char *a, const char *b)
{
	char line[1024];
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		found = found || (strstr(line, a) && strstr(line, b));
	if (f)
		fclose(f);
	return found;
}

TEST(debugfs_hqds_and_mqds)
{
	char base[32];
	struct plan p;

	need_debugfs("mqds");
	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT_OK(sdma_queue_start(&p.q, &p.args));
	EXPECT(works(&p.q));
	EXPECT(file_says(DEBUGFS "/mqds", "SDMA queue", "on device"));
	/* The HQD dump names the engine; with MES the firmware assigns the queue. */
	EXPECT(file_says(DEBUGFS "/hqds", "SDMA Engine 0", is_gfx12(&p.k.node) ? "RLC" : "RLC 0"));
	/* sdmax_rlcx_rb_base holds bits 39 to 8 of the ring address. */
	snprintf(base, sizeof(base), "%08x", (unsigned int)(kfd_va(p.q.ring->va) >> 8));
	EXPECT(file_says(DEBUGFS "/mqds", base, ""));
	EXPECT(file_says(DEBUGFS "/hqds", base, ""));
	ASSERT_OK(destroy(&p.k, p.q.id));
	EXPECT(!file_says(DEBUGFS "/mqds", base, ""));
	EXPECT(!file_says(DEBUGFS "/mqds", "SDMA queue", ""));
}

TEST(topology_engine_counts)
{
	uint64_t mask;
	char path[256];
	struct plan p;

	plan(&p, KFD_IOC_QUEUE_TYPE_SDMA);
	ASSERT(p.k.node.num_sdma_engines > 0);
	EXPECT_EQ(p.per_engine, is_gfx12(&p.k.node) ? 6 : 8);
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/io_links/0/properties",
		 p.k.node.index);
	ASSERT_OK(kfd_sysfs_value(path, "recommended_sdma_engine_id_mask", &mask));
	EXPECT(mask < 1ull << engines(&p), "%#llx", (unsigned long long)mask);
	if (p.k.node.large_bar)
		EXPECT_EQ(mask, (1u << p.k.node.num_sdma_engines) - 1);
}
