// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests memory partitions (NPS modes): the modes in sysfs, the switch by a bind of the driver, and
 * where the memory of each node is. Runs on a model with several GiB of VRAM; the last test leaves
 * the GPU in modes NPS1 and SPX.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include <drm/amdgpu_drm.h>

#include "device.h"
#include "modes.h"

#define MIB (1ull << 20)
#define NODES 8
#define PARTITIONS 4
#define SIZE (32 * MIB)

static struct kfd_node nodes[MODE_MAX_NODES + 1];

static void begin(const char *mode, int count)
{
	mode_begin_nps("NPS4", mode);
	ASSERT_EQ(mode_nodes(nodes), count);
}

TEST_TIMEOUT(modes_in_sysfs, 120)
{
	mode_begin_nps("NPS1", "SPX");
	EXPECT(!strcmp(mode_file("available_memory_partition"), "NPS1, NPS4\n"));
	EXPECT(!strcmp(mode_file(NPS_FILE), "NPS1\n"));
	EXPECT_RET(mode_try_nps("NPS2"), -EINVAL);
	EXPECT_RET(mode_try_nps("NPS8"), -EINVAL);
	EXPECT_RET(mode_try_nps("NPS"), -EINVAL);
	EXPECT_RET(mode_try_nps("SPX"), -EINVAL);
	EXPECT_OK(mode_try_nps("nps1, as the start of other text"));
	EXPECT(!strcmp(mode_file(NPS_FILE), "NPS1\n"));
}

TEST_TIMEOUT(compute_modes_of_nps4, 120)
{
	mode_begin_nps("NPS1", "SPX");
	begin("CPX", NODES);
	EXPECT(!strcmp(mode_file("available_memory_partition"), "NPS1, NPS4\n"));
	EXPECT(!strcmp(mode_file("available_compute_partition"), "QPX, CPX\n"), "%s",
	       mode_file("available_compute_partition"));
	EXPECT_RET(mode_try("SPX"), -EINVAL);
	EXPECT_RET(mode_try("DPX"), -EINVAL);
	EXPECT_RET(mode_try("TPX"), -EINVAL);
	EXPECT(!strcmp(mode_file(MODE_FILE), "CPX\n"));
	EXPECT_OK(mode_set("QPX"));
	EXPECT(!strcmp(mode_file(MODE_FILE), "QPX\n"));
	EXPECT_OK(mode_set("CPX"));
}

/* In QPX a node has a memory partition, in CPX two nodes share one. */
TEST_TIMEOUT(memory_of_the_nodes, 120)
{
	uint64_t all = 0;

	begin("CPX", NODES);
	for (int i = 0; i < NODES; i++) {
		EXPECT_EQ(nodes[i].vram_bytes, nodes[0].vram_bytes);
		all += nodes[i].vram_bytes;
	}
	begin("QPX", PARTITIONS);
	for (int i = 0; i < PARTITIONS; i++)
		EXPECT_EQ(nodes[i].vram_bytes, all / PARTITIONS);
}

static void fills(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	for (int i = 0; i < 4; i++)
		EXPECT(fixture_works(&f));
}

TEST_TIMEOUT(queues_on_all_nodes, 180)
{
	begin("CPX", NODES);
	for (int i = 0; i < NODES; i++) {
		mode_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(fills, NULL), "node %d", nodes[i].index);
	}
}

static uint64_t available(struct kfd *k, const struct kfd_node *node)
{
	struct kfd_ioctl_get_available_memory_args args = { .gpu_id = node->gpu_id };

	EXPECT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_AVAILABLE_MEMORY, &args));
	return args.available;
}

/* Allocates all memory of the node; `data` is a node of another memory partition. */
static void exhaust(void *data)
{
	const struct kfd_node *other = data;
	uint64_t before, others;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	others = available(&k, other);
	before = available(&k, &k.node);
	EXPECT(before > 0 && before < k.node.vram_bytes, "%llu", (unsigned long long)before);
	while (before >= SIZE) {
		ASSERT_OK(kfd_bo_alloc(&k, SIZE, KFD_FLAGS_VRAM, &bo));
		before -= SIZE;
		EXPECT_EQ(available(&k, &k.node), before);
	}
	EXPECT_RET(kfd_bo_alloc(&k, SIZE + 2 * MIB, KFD_FLAGS_VRAM, &bo), -ENOMEM);
	EXPECT_EQ(available(&k, other), others);
}

TEST_TIMEOUT(nodes_are_exhausted_separately, 180)
{
	begin("CPX", NODES);
	for (int i = 0; i < NODES; i++) {
		mode_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(exhaust, &nodes[(i + 2) % NODES]), "node %d",
		       nodes[i].index);
	}
}

/* Creates a BO in VRAM by the render node; it may be evicted. */
static void create(struct kfd *k, uint64_t size)
{
	union drm_amdgpu_gem_create args = {
		.in = { .bo_size = size,
			.alignment = 4096,
			.domains = AMDGPU_GEM_DOMAIN_VRAM,
			.domain_flags = AMDGPU_GEM_CREATE_NO_CPU_ACCESS }
	};

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
}

static uint64_t evictions_of_others;

/* Allocates VRAM by KFD, and by the render node; stores how many evictions that needs. */
static void allocate(struct kfd *k)
{
	uint64_t before = amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS);
	struct kfd_bo *bo;

	ASSERT_OK(kfd_bo_alloc(k, SIZE, KFD_FLAGS_VRAM, &bo));
	create(k, SIZE);
	evictions_of_others = amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS) - before;
	EXPECT_OK(kfd_bo_free(k, bo));
}

static void expect_no_evictions(void *unused)
{
	struct kfd k;

	(void)unused;
	fixture_open(&k);
	allocate(&k);
	EXPECT_EQ(evictions_of_others, 0);
}

static void expect_evictions(void *unused)
{
	struct kfd k;

	(void)unused;
	fixture_open(&k);
	allocate(&k);
	EXPECT(evictions_of_others > 0);
}

/* Creates BOs until one does not fit. Returns their size. */
static uint64_t fill_partition(struct kfd *k)
{
	uint64_t before = amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS), filled = 0;

	while (filled <= 2 * k->node.vram_bytes &&
	       amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS) == before) {
		create(k, SIZE);
		filled += SIZE;
	}
	return filled;
}

/* Fills the memory partition of node `data` by its render node, and allocates on all nodes. */
static void fill(void *data)
{
	int first = (int)(intptr_t)data;
	uint64_t filled;
	struct kfd k;

	fixture_open(&k);
	filled = fill_partition(&k);
	/* Two nodes share the partition; the last BO did not fit. */
	EXPECT(filled > k.node.vram_bytes && filled <= 2 * k.node.vram_bytes + SIZE, "%llu of %llu",
	       (unsigned long long)filled, (unsigned long long)k.node.vram_bytes);
	for (int i = 0; i < NODES; i++) {
		bool here = i / 2 == first / 2;

		mode_use_node(nodes[i].index);
		/* The child before has left room. */
		if (here)
			fill_partition(&k);
		EXPECT(!ktap_in_child(here ? expect_evictions : expect_no_evictions, NULL),
		       "node %d beside node %d", i, first);
	}
}

/*
 * Not in the last partition, of which both drivers reserve a part: it is full with less than its
 * size.
 */
TEST_TIMEOUT(bos_stay_in_the_partition_of_their_node, 300)
{
	begin("CPX", NODES);
	for (int first = 0; first < NODES - 2; first += 3) {
		mode_use_node(nodes[first].index);
		EXPECT(!ktap_in_child(fill, (void *)(intptr_t)first), "node %d", first);
	}
}

static void expect_nps4(void)
{
	EXPECT(!strcmp(mode_file(NPS_FILE), "NPS4\n"));
	EXPECT(!strcmp(mode_file(MODE_FILE), "CPX\n"));
	EXPECT_EQ(mode_nodes(nodes), NODES);
	for (int i = 0; i < NODES; i += NODES - 1) {
		mode_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(fills, NULL), "node %d", nodes[i].index);
	}
}

/* VRAM of the first and of the last but one memory partition survives a suspend. */
TEST_TIMEOUT(suspend_in_nps4, 180)
{
	struct kfd_bo *bos[2];
	struct kfd k[2];

	need_sleep();
	begin("CPX", NODES);
	for (int i = 0; i < 2; i++) {
		mode_use_node(nodes[4 * i].index);
		fixture_open(&k[i]);
		ASSERT_OK(kfd_bo_create(&k[i], MIB, KFD_FLAGS_VRAM, &bos[i]));
		*(volatile uint32_t *)bos[i]->va = 0x1234567 + (uint32_t)i;
	}
	EXPECT_OK(try_to_sleep("devices"));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(*(volatile uint32_t *)bos[i]->va, 0x1234567 + (uint32_t)i);
	expect_nps4();
}

TEST_TIMEOUT(pci_reset_in_nps4, 180)
{
	device_need_reset();
	begin("CPX", NODES);
	device_reset();
	expect_nps4();
}

TEST_TIMEOUT(back_to_nps1, 120)
{
	begin("CPX", NODES);
	mode_begin_nps("NPS1", "SPX");
	EXPECT_EQ(mode_nodes(nodes), 1);
	EXPECT(!strcmp(mode_file("available_compute_partition"), "SPX, DPX, QPX, CPX\n"));
	EXPECT(!ktap_in_child(fills, NULL));
}
