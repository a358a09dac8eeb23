// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests memory partitions (NPS modes): the modes in sysfs, the switch by a bind of the driver, and
 * where the memory and the page tables of each node are. Runs on a model with several GiB of VRAM;
 * the last test leaves the GPU in modes NPS1 and SPX.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cs.h"
#include "device.h"
#include "modes.h"
#include "svm.h"

#define PARTITIONS 4
#define SIZE (32 * MIB)
/*
 * Size of BOs beside which page tables are allocated, and of these: more than the BOs leave free,
 * as drivers keep 8 MiB for page tables.
 */
#define SMALL (4 * MIB)
#define TABLES (13 * MIB)
/* Addresses that one PDB0 maps, and where the tests map BOs of the render node. */
#define TABLE_SPAN (1024 * MIB)
#define TABLES_VA 0x100000000000ull
/* Attempts to fill a partition before a child needs memory of it. */
#define FILLS 5

static struct kfd_node nodes[MODE_MAX_NODES + 1];
/* Nodes in CPX, one for each XCC, and of each memory partition. */
static int count, nodes_each;

/* Sets modes NPS4 and CPX. */
static void begin(void)
{
	mode_begin_nps("NPS4", "CPX");
	count = mode_nodes(nodes);
	ASSERT(count > 0 && count % PARTITIONS == 0, "%d nodes", count);
	nodes_each = count / PARTITIONS;
}

/* A card has QPX if a memory partition has several XCCs. */
static bool has_qpx(void)
{
	return nodes_each > 1;
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
	begin();
	EXPECT(!strcmp(mode_file("available_memory_partition"), "NPS1, NPS4\n"));
	EXPECT(!strcmp(mode_file("available_compute_partition"), has_qpx() ? "QPX, CPX\n" : "CPX\n"),
	       "%s", mode_file("available_compute_partition"));
	EXPECT_RET(mode_try("SPX"), -EINVAL);
	EXPECT_RET(mode_try("DPX"), -EINVAL);
	EXPECT_RET(mode_try("TPX"), -EINVAL);
	EXPECT(!strcmp(mode_file(MODE_FILE), "CPX\n"));
	if (has_qpx()) {
		EXPECT_OK(mode_set("QPX"));
		EXPECT(!strcmp(mode_file(MODE_FILE), "QPX\n"));
		EXPECT_OK(mode_set("CPX"));
	} else {
		EXPECT_RET(mode_try("QPX"), -EINVAL);
	}
}

/* Returns the size of the node's L3 in KiB, 0 without one. */
static uint64_t l3_kib(const struct kfd_node *node)
{
	for (int i = 0;; i++) {
		uint64_t level, size = 0;
		char path[200];

		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/caches/%d/properties",
			 node->index, i);
		if (kfd_sysfs_value(path, "level", &level))
			return 0;
		if (level != 3)
			continue;
		EXPECT_OK(kfd_sysfs_value(path, "size", &size));
		return size;
	}
}

/*
 * In QPX a node has a memory partition, in CPX several nodes share one. If the GPU does not list
 * its partitions ($NPS_NO_TABLE), the last one has 16 MiB less than an equal part of a larger VRAM.
 * Each node has the L3 of one partition.
 */
TEST_TIMEOUT(memory_of_the_nodes, 120)
{
	uint64_t partition[PARTITIONS] = { 0 }, all, missing, l3;
	struct kfd_node whole;

	mode_begin_nps("NPS1", "SPX");
	ASSERT_OK(kfd_topology_find_gpu(&whole));
	missing = getenv("NPS_NO_TABLE") ? 16 * MIB : 0;
	all = whole.vram_bytes + missing;
	l3 = l3_kib(&whole);
	EXPECT_EQ(l3, 256 * 1024);
	begin();
	for (int i = 0; i < count; i++) {
		EXPECT_EQ(nodes[i].vram_bytes, nodes[i / nodes_each * nodes_each].vram_bytes);
		partition[i / nodes_each] += nodes[i].vram_bytes;
		EXPECT_EQ(l3_kib(&nodes[i]), l3 / PARTITIONS);
	}
	for (int i = 0; i < PARTITIONS; i++)
		EXPECT_EQ(partition[i], all / PARTITIONS - (i == PARTITIONS - 1 ? missing : 0));
	if (!has_qpx())
		return;
	ASSERT_OK(mode_set("QPX"));
	ASSERT_EQ(mode_nodes(nodes), PARTITIONS);
	for (int i = 0; i < PARTITIONS; i++)
		EXPECT_EQ(nodes[i].vram_bytes, partition[i]);
}

TEST_TIMEOUT(queues_on_all_nodes, 180)
{
	begin();
	for (int i = 0; i < count; i++) {
		fixture_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(mode_node_works, NULL), "node %d", nodes[i].index);
	}
}

/* Allocates all memory of the node; `data` is a node of another memory partition. */
static void exhaust(void *data)
{
	const struct kfd_node *other = data;
	uint64_t before, others;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	others = mode_available(&k, other);
	before = mode_available(&k, &k.node);
	EXPECT(before > 0 && before < k.node.vram_bytes, "%llu", (unsigned long long)before);
	while (before >= SIZE) {
		ASSERT_OK(kfd_bo_alloc(&k, SIZE, KFD_FLAGS_VRAM, &bo));
		before -= SIZE;
		EXPECT_EQ(mode_available(&k, &k.node), before);
	}
	EXPECT_RET(kfd_bo_alloc(&k, SIZE + 2 * MIB, KFD_FLAGS_VRAM, &bo), -ENOMEM);
	EXPECT_EQ(mode_available(&k, other), others);
}

TEST_TIMEOUT(nodes_are_exhausted_separately, 180)
{
	begin();
	for (int i = 0; i < count; i++) {
		fixture_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(exhaust, &nodes[(i + nodes_each) % count]), "node %d",
		       nodes[i].index);
	}
}

/* Number of nodes on which no BO fits any more. */
static volatile uint32_t *full;

/*
 * Exhausts a node while the others do the same, and runs a kernel there when all are full. Nodes of
 * one memory partition share its memory.
 */
static void exhaust_beside_the_others(void *unused)
{
	struct kfd_bo *bo;
	struct fixture f;
	int status;

	(void)unused;
	fixture_launch(&f);
	do
		status = kfd_bo_alloc(&f.k, SIZE, KFD_FLAGS_VRAM, &bo);
	while (!status);
	EXPECT_EQ(status, -ENOMEM);
	__atomic_fetch_add(full, 1, __ATOMIC_SEQ_CST);
	EXPECT(becomes(full, (uint32_t)count, WAIT_MS), "%u nodes are full", *full);
	EXPECT(mode_available(&f.k, &f.k.node) < SIZE);
	EXPECT(fixture_works(&f));
}

TEST_TIMEOUT(all_nodes_are_exhausted_at_once, 180)
{
	begin();
	full = mmap(NULL, sizeof(*full), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(full != MAP_FAILED);
	mode_on_nodes(nodes, count, exhaust_beside_the_others);
}

/* Creates a BO in VRAM by the render node; it may be evicted. */
static void create(struct kfd *k, uint64_t size)
{
	uint32_t handle;

	ASSERT_OK(cs_bo_create(k->drm, size, AMDGPU_GEM_DOMAIN_VRAM,
			       AMDGPU_GEM_CREATE_NO_CPU_ACCESS, &handle));
}

/* Allocates VRAM by KFD, and by the render node. */
static void allocate(struct kfd *k)
{
	struct kfd_bo *bo;

	ASSERT_OK(kfd_bo_alloc(k, SIZE, KFD_FLAGS_VRAM, &bo));
	create(k, SIZE);
	EXPECT_OK(kfd_bo_free(k, bo));
}

/*
 * Maps a page of system memory at so many addresses that their page tables need TABLES: a PDB0 and
 * a PTB each.
 */
static void map_at_many_addresses(struct kfd *k)
{
	uint32_t handle;

	ASSERT_OK(cs_bo_create(k->drm, KFD_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	for (uint64_t i = 0; i <= TABLES / (2 * KFD_PAGE); i++)
		ASSERT_OK(cs_va(k->drm, handle, AMDGPU_VA_OP_MAP, ACCESS,
				TABLES_VA + i * TABLE_SPAN, 0, KFD_PAGE));
}

/*
 * A user of VRAM of its node with the render node of that or of another one, and whether it evicted
 * BOs: in shared memory.
 */
struct use {
	void (*fn)(struct kfd *k);
	const struct kfd_node *file;
	bool *evicted;
};

static void use_vram(void *data)
{
	const struct use *use = data;
	struct kfd_node own;
	uint64_t before;
	struct kfd k;

	fixture_open_only(&k);
	close(k.drm);
	own = k.node;
	k.node = *use->file;
	ASSERT_OK(kfd_open_render(&k));
	k.node = own;
	ASSERT_OK(kfd_acquire_vm(&k));
	before = amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS);
	use->fn(&k);
	*use->evicted = amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS) > before;
}

/* Creates BOs of `size` until one does not fit. Returns the size of all. */
static uint64_t fill_partition(struct kfd *k, uint64_t size)
{
	uint64_t before = amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS), filled = 0;

	while (filled <= (uint64_t)nodes_each * k->node.vram_bytes &&
	       amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS) == before) {
		create(k, size);
		filled += size;
	}
	return filled;
}

/*
 * Fills the memory partition of node `first` by its render node with BOs of `size`, and calls `fn`,
 * which needs more than is left, on some nodes, with the file of the node that is `skip` nodes
 * further.
 */
static void fill_beside(int first, uint64_t size, const int *others, int n, int skip,
			void (*fn)(struct kfd *k))
{
	bool *evicted = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			     0);
	struct use use = { fn, NULL, evicted };
	uint64_t filled, all;
	struct kfd k;

	ASSERT(evicted != MAP_FAILED);
	fixture_open(&k);
	filled = fill_partition(&k, size);
	/* The last BO did not fit. */
	all = (uint64_t)nodes_each * k.node.vram_bytes;
	EXPECT(filled > all / 2 && filled <= all + size, "%llu of %llu", (unsigned long long)filled,
	       (unsigned long long)all);
	for (int o = 0; o < n; o++) {
		bool evicts = others[o] / nodes_each == first / nodes_each;

		fixture_use_node(nodes[others[o]].index);
		use.file = &nodes[(others[o] + skip) % count];
		*evicted = false;
		/* The memory of the child before may be freed after the partition was filled. */
		for (int i = 0; i < (evicts ? FILLS : 1) && !*evicted; i++) {
			if (evicts)
				fill_partition(&k, size);
			ASSERT_OK(ktap_in_child(use_vram, &use));
		}
		EXPECT(*evicted == evicts, "node %d beside node %d", others[o], first);
	}
}

static void fill(void *data)
{
	int all[MODE_MAX_NODES];

	for (int i = 0; i < count; i++)
		all[i] = i;
	fill_beside((int)(intptr_t)data, SIZE, all, count, 0, allocate);
}

/* Fills the second memory partition: the driver has none of its own there. */
static void fill_for_tables(void *unused)
{
	const int others[] = { 0, 2 * nodes_each - 1, 2 * nodes_each };

	(void)unused;
	fill_beside(nodes_each, SMALL, others, 3, 0, map_at_many_addresses);
}

static void prefetch(struct kfd *k)
{
	char *p = anonymous(SIZE);

	memset(p, 1, SIZE);
	EXPECT_OK(svm_to_vram(k, p, SIZE));
	EXPECT_EQ(process_number(k, "counters", "page_in"), SIZE / KFD_PAGE);
}

/*
 * Fills the second memory partition: first for a node there, then for the file of another one. With
 * small BOs: the C driver evicts memory of the same process before BOs of others.
 */
static void fill_for_shared_memory(void *unused)
{
	const int others[] = { 2 * nodes_each - 1, 0 };

	(void)unused;
	fill_beside(nodes_each, SMALL, others, 2, nodes_each, prefetch);
}

/*
 * Not in the last partition, of which both drivers reserve a part: it is full with less than its
 * size.
 */
TEST_TIMEOUT(bos_stay_in_the_partition_of_their_node, 300)
{
	begin();
	for (int first = 0; first < count - nodes_each; first += 3) {
		fixture_use_node(nodes[first].index);
		EXPECT(!ktap_in_child(fill, (void *)(intptr_t)first), "node %d", first);
	}
}

/* Whatever the partition of the file of the address space is. */
TEST_TIMEOUT(shared_memory_is_near_its_node, 300)
{
	struct kfd_node node;

	begin();
	fixture_use_node(nodes[nodes_each].index);
	ASSERT_OK(kfd_topology_find_gpu(&node));
	if (!(node.capability & SVM_CAPABLE))
		SKIP("the node has no SVM");
	EXPECT(!ktap_in_child(fill_for_shared_memory, NULL));
}

TEST_TIMEOUT(page_tables_are_in_the_partition_of_their_node, 600)
{
	struct kfd k = { 0 };
	uint64_t before;

	begin();
	fixture_use_node(nodes[nodes_each].index);
	ASSERT_OK(kfd_topology_find_gpu(&k.node));
	ASSERT_OK(kfd_open_render(&k));
	before = amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE);
	EXPECT(!ktap_in_child(fill_for_tables, NULL));
	/* The next test may unbind the driver: the files of the child are closed late. */
	expect_usage(&k, AMDGPU_INFO_VRAM_USAGE, before + MIB);
}

static void expect_nps4(void)
{
	EXPECT(!strcmp(mode_file(NPS_FILE), "NPS4\n"));
	EXPECT(!strcmp(mode_file(MODE_FILE), "CPX\n"));
	EXPECT_EQ(mode_nodes(nodes), count);
	for (int i = 0; i < count; i += count - 1) {
		fixture_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(mode_node_works, NULL), "node %d", nodes[i].index);
	}
}

/* VRAM of the first and of the third memory partition survives a suspend. */
TEST_TIMEOUT(suspend_in_nps4, 180)
{
	struct kfd_bo *bos[2];
	struct kfd k[2];

	need_sleep();
	begin();
	for (int i = 0; i < 2; i++) {
		fixture_use_node(nodes[2 * nodes_each * i].index);
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
	begin();
	device_reset();
	expect_nps4();
}

TEST_TIMEOUT(back_to_nps1, 120)
{
	begin();
	mode_begin_nps("NPS1", "SPX");
	EXPECT_EQ(mode_nodes(nodes), 1);
	EXPECT(!strcmp(mode_file("available_compute_partition"),
		       has_qpx() ? "SPX, DPX, QPX, CPX\n" : "SPX, DPX, CPX\n"));
	EXPECT(!ktap_in_child(mode_node_works, NULL));
}
