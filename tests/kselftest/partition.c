// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests compute partitions: the modes in sysfs, the nodes of each mode, queues on all of them, and
 * the errnos of a switch. All tests leave the GPU in mode SPX.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "modes.h"

static uint64_t property(const struct kfd_node *node, const char *name)
{
	uint64_t value = ~0ull;
	char path[128];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", node->index);
	EXPECT_OK(kfd_sysfs_value(path, name, &value));
	return value;
}

TEST(modes_in_sysfs)
{
	mode_begin("SPX");
	EXPECT(!strcmp(mode_file(MODE_FILE), "SPX\n"), "%s", mode_file(MODE_FILE));
	EXPECT(!strncmp(mode_file("available_compute_partition"), "SPX", 3));
	EXPECT(!strcmp(mode_file("current_memory_partition"), "NPS1\n"));
	EXPECT_OK(mode_try("spx, as the start of other text"));
	EXPECT_RET(mode_try("NPS4"), -EINVAL);
	EXPECT_RET(mode_try("SP"), -EINVAL);
	EXPECT_RET(mode_try("TPX"), -EINVAL);
	EXPECT_RET(mode_try("\n"), -EINVAL);
}

static uint32_t config_number(const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "compute_partition_config/%s", name);
	EXPECT_EQ(mode_permissions(path), 0400);
	return (uint32_t)strtoul(mode_file(path), NULL, 10);
}

/* The mode that is selected there is not set: the GPU stays in mode SPX. */
TEST(config_of_each_mode)
{
	static const struct {
		const char *mode, *nps;
		unsigned int partitions;
	} modes[] = { { "SPX", "NPS1\n", 1 }, { "DPX", "NPS1\n", 2 }, { "QPX", "NPS1, NPS4\n", 4 },
		      { "CPX", "NPS1, NPS4\n", 0 } };
	static const char file[] = "compute_partition_config/xcp_config";
	struct kfd_node node;
	char supported[64];

	mode_begin("SPX");
	ASSERT_OK(kfd_topology_find_gpu(&node));
	snprintf(supported, sizeof(supported), "%s",
		 mode_file("compute_partition_config/supported_xcp_configs"));
	/* All modes are available in NPS1. */
	EXPECT(!strcmp(supported, mode_file("available_compute_partition")), "%s", supported);
	EXPECT_EQ(mode_permissions(file), 0644);
	for (int i = 0; i < 4; i++) {
		uint32_t partitions = modes[i].partitions ?: node.num_xcc, sdma;
		char line[16];

		if (!strstr(supported, modes[i].mode))
			continue;
		ASSERT_OK(mode_write(file, modes[i].mode));
		snprintf(line, sizeof(line), "%s\n", modes[i].mode);
		EXPECT(!strcmp(mode_file(file), line));
		EXPECT(!strcmp(mode_file("compute_partition_config/supported_nps_configs"),
			       modes[i].nps), "%s", modes[i].mode);
		sdma = node.num_sdma_engines + node.num_sdma_xgmi_engines;
		EXPECT_EQ(config_number("xcc/num_inst"), node.num_xcc / partitions);
		EXPECT_EQ(config_number("xcc/num_shared"), 1);
		EXPECT_EQ(config_number("dma/num_inst"), sdma / partitions);
		EXPECT_EQ(config_number("dma/num_shared"), 1);
		EXPECT_EQ(config_number("jpeg/num_inst"), 0);
		EXPECT_EQ(config_number("dec/num_shared"), config_number("jpeg/num_shared"));
	}
	EXPECT_RET(mode_write(file, "TPX"), -EINVAL);
	EXPECT_RET(mode_write(file, "NPS1"), -EINVAL);
	EXPECT(!strcmp(mode_file(file), "CPX\n"));
	EXPECT_OK(mode_write(file, "spx, as the start of other text"));
	EXPECT(!strcmp(mode_file(MODE_FILE), "SPX\n"));
}

/* Compares the nodes of a mode, which divides the GPU by `by`, with that of SPX, which is set. */
static void check_nodes(const char *mode, unsigned int by)
{
	static struct kfd_node nodes[MODE_MAX_NODES + 1];
	struct kfd_node whole;
	char line[16];
	int count;

	ASSERT_EQ(mode_nodes(nodes), 1);
	whole = nodes[0];
	EXPECT_EQ(property(&whole, "hive_id"), 0);
	ASSERT_OK(mode_set(mode));
	snprintf(line, sizeof(line), "%s\n", mode);
	EXPECT(!strcmp(mode_file(MODE_FILE), line));
	count = mode_nodes(nodes);
	ASSERT_EQ(count, by);
	for (int i = 0; i < count; i++) {
		const struct kfd_node *node = &nodes[i];

		EXPECT_EQ(node->num_xcc, whole.num_xcc / by);
		EXPECT_EQ(node->simd_count, whole.simd_count / by);
		EXPECT_EQ(node->vram_bytes, whole.vram_bytes / by);
		EXPECT_EQ(node->cwsr_size, whole.cwsr_size);
		EXPECT_EQ(node->num_sdma_engines + node->num_sdma_xgmi_engines,
			  (whole.num_sdma_engines + whole.num_sdma_xgmi_engines) / by);
		EXPECT_EQ(node->location_id, whole.location_id + i);
		EXPECT_EQ(property(node, "hive_id"), whole.location_id);
		EXPECT_EQ(property(node, "io_links_count"), by);
		for (int other = 0; other < i; other++)
			EXPECT(node->gpu_id != nodes[other].gpu_id, "node %d", node->index);
	}
	ASSERT_OK(mode_set("SPX"));
	ASSERT_EQ(mode_nodes(nodes), 1);
	EXPECT_EQ(nodes[0].gpu_id, whole.gpu_id);
	EXPECT_EQ(nodes[0].simd_count, whole.simd_count);
	EXPECT_EQ(nodes[0].vram_bytes, whole.vram_bytes);
}

TEST(nodes_of_cpx)
{
	struct kfd_node node;

	mode_need("CPX");
	ASSERT_OK(kfd_topology_find_gpu(&node));
	check_nodes("CPX", node.num_xcc);
}

static uint64_t topology_generation(void)
{
	uint64_t generation = 0;

	EXPECT_OK(kfd_sysfs_value(KFD_TOPOLOGY "/generation_id", NULL, &generation));
	return generation;
}

/* The nodes of the old mode are removed as a whole, then those of the new one are added. */
TEST(switch_changes_the_topology_twice)
{
	uint64_t before;

	mode_begin("CPX");
	before = topology_generation();
	ASSERT_OK(mode_set("SPX"));
	EXPECT_EQ(topology_generation(), before + 2);
	ASSERT_OK(mode_set("CPX"));
	EXPECT_EQ(topology_generation(), before + 4);
	mode_end();
}

/*
 * Returns the number of GPU nodes whose ids can be read. Unlike mode_nodes() it does not read their
 * properties, which takes longer than a change of the topology.
 */
static int count_gpu_nodes(void)
{
	int count = 0;

	for (int i = 0; i < MODE_MAX_NODES; i++) {
		uint64_t id = 0;
		char path[96];

		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/gpu_id", i);
		if (access(path, F_OK))
			break;
		count += !kfd_sysfs_value(path, NULL, &id) && id;
	}
	return count;
}

/* Reads topologies until `stop` is closed: between two equal generations, all of one or none. */
static void read_topologies(int stop, int xccs)
{
	struct pollfd closed = { .fd = stop };
	unsigned int whole = 0, retries = 0;

	while (!poll(&closed, 1, 0)) {
		uint64_t generation = topology_generation();
		int count = count_gpu_nodes();

		if (topology_generation() != generation) {
			retries++;
			continue;
		}
		whole++;
		ASSERT(count == 0 || count == 1 || count == xccs, "%d nodes", count);
	}
	ktap_note("%u topologies, %u changed while they were read", whole, retries);
	EXPECT(whole > 0);
}

TEST_TIMEOUT(topology_is_read_as_a_whole, 120)
{
	struct kfd_node node;
	int status, ends[2];
	pid_t child;

	mode_begin("CPX");
	ASSERT_OK(mode_set("SPX"));
	ASSERT_OK(kfd_topology_find_gpu(&node));
	ASSERT(pipe(ends) == 0);
	child = fork_child();
	if (!child) {
		close(ends[1]);
		read_topologies(ends[0], (int)node.num_xcc);
		ktap_end();
	}
	for (int i = 0; i < 8; i++)
		EXPECT_OK(mode_set(i % 2 ? "SPX" : "CPX"));
	close(ends[1]);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	mode_end();
}

TEST(nodes_of_dpx)
{
	mode_need("DPX");
	check_nodes("DPX", 2);
}

TEST(nodes_of_qpx)
{
	mode_need("QPX");
	check_nodes("QPX", 4);
}

/* Runs a kernel on each node, alone and at the same time. */
static void check_queues(const char *mode)
{
	static struct kfd_node nodes[MODE_MAX_NODES + 1];
	int count;

	mode_begin(mode);
	count = mode_nodes(nodes);
	for (int i = 0; i < count; i++) {
		fixture_use_node(nodes[i].index);
		EXPECT(!ktap_in_child(mode_node_works, NULL), "node %d", nodes[i].index);
	}
	mode_on_nodes(nodes, count, mode_node_works);
	mode_end();
}

TEST_TIMEOUT(queues_on_all_nodes_of_cpx, 180)
{
	check_queues("CPX");
}

TEST_TIMEOUT(queues_on_all_nodes_of_dpx, 120)
{
	check_queues("DPX");
}

TEST_TIMEOUT(queues_on_all_nodes_of_qpx, 120)
{
	mode_need("QPX");
	check_queues("QPX");
}

static void fill_share(void *data)
{
	const struct kfd_node *other = data;
	uint64_t before, others, used;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	before = mode_available(&k, &k.node);
	others = mode_available(&k, other);
	EXPECT(before > 0 && before < k.node.vram_bytes, "%llu", (unsigned long long)before);
	/* Each node deducts the memory of driver and firmware, which no process uses now. */
	used = amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE);
	ktap_note("%llu of %llu MiB, %llu MiB are used", (unsigned long long)before >> 20,
		  (unsigned long long)k.node.vram_bytes >> 20, (unsigned long long)used >> 20);
	EXPECT(before <= k.node.vram_bytes - used && others <= other->vram_bytes - used);
	EXPECT_RET(kfd_bo_alloc(&k, k.node.vram_bytes, KFD_FLAGS_VRAM, &bo), -ENOMEM);
	ASSERT_OK(kfd_bo_alloc(&k, 64 << 20, KFD_FLAGS_VRAM, &bo));
	EXPECT_EQ(mode_available(&k, &k.node), before - (64 << 20));
	/* That of the other node is unchanged. */
	EXPECT_EQ(mode_available(&k, other), others);
}

/* In NPS1 each node may use an equal part of VRAM. */
TEST(memory_is_divided)
{
	static struct kfd_node nodes[MODE_MAX_NODES + 1];

	mode_begin("CPX");
	ASSERT(mode_nodes(nodes) > 1);
	fixture_use_node(nodes[1].index);
	EXPECT_OK(ktap_in_child(fill_share, &nodes[0]));
	mode_end();
}

#define ALLOC_FILE "compute_partition_mem_alloc_mode"

/* Allocates more than the share of a node. */
static void exceed_share(void *unused)
{
	uint64_t capped;
	struct kfd_bo *bo;
	struct kfd k;

	(void)unused;
	fixture_open(&k);
	capped = mode_available(&k, &k.node);
	EXPECT(capped < k.node.vram_bytes);
	ASSERT_OK(mode_write(ALLOC_FILE, "ALL"));
	EXPECT(mode_available(&k, &k.node) > 2 * k.node.vram_bytes);
	ASSERT_OK(kfd_bo_alloc(&k, k.node.vram_bytes + (64 << 20), KFD_FLAGS_VRAM, &bo));
	ASSERT_OK(mode_write(ALLOC_FILE, "CAPPING"));
	EXPECT_EQ(mode_available(&k, &k.node), 0);
	EXPECT_OK(kfd_bo_free(&k, bo));
	EXPECT_EQ(mode_available(&k, &k.node), capped);
	EXPECT_RET(kfd_bo_alloc(&k, k.node.vram_bytes, KFD_FLAGS_VRAM, &bo), -ENOMEM);
}

/* With ALL a node may use the VRAM of all nodes, until the next switch. */
TEST_TIMEOUT(memory_is_not_divided_on_request, 120)
{
	static struct kfd_node nodes[MODE_MAX_NODES + 1], after[MODE_MAX_NODES + 1];

	mode_begin("CPX");
	EXPECT_EQ(mode_permissions(ALLOC_FILE), 0644);
	EXPECT(!strcmp(mode_file(ALLOC_FILE), "CAPPING\n"));
	EXPECT_RET(mode_write(ALLOC_FILE, "CAP"), -EINVAL);
	EXPECT_RET(mode_write(ALLOC_FILE, "\n"), -EINVAL);
	ASSERT(mode_nodes(nodes) > 2);
	fixture_use_node(nodes[1].index);
	EXPECT_OK(ktap_in_child(exceed_share, NULL));
	EXPECT_OK(mode_write(ALLOC_FILE, "all, as the start of other text"));
	EXPECT(!strcmp(mode_file(ALLOC_FILE), "ALL\n"));
	/* The nodes are the same. */
	mode_nodes(after);
	EXPECT_EQ(after[1].gpu_id, nodes[1].gpu_id);
	EXPECT_EQ(after[1].vram_bytes, nodes[1].vram_bytes);
	ASSERT_OK(mode_set("DPX"));
	EXPECT(!strcmp(mode_file(ALLOC_FILE), "CAPPING\n"));
	mode_end();
}

static void expect_isolation(const char *line)
{
	const char *text = mode_file("enforce_isolation");

	EXPECT(!strcmp(text, line), "'%s', not '%s'", text, line);
}

/* The numbers are those of the partitions, whatever the mode. */
TEST(isolation_of_each_partition)
{
	mode_begin("DPX");
	expect_isolation("0 0\n");
	EXPECT_RET(mode_write("enforce_isolation", "1\n"), -EINVAL);
	EXPECT_RET(mode_write("enforce_isolation", "1 4\n"), -EINVAL);
	expect_isolation("0 0\n");
	EXPECT_OK(mode_write("enforce_isolation", "1 2\n"));
	expect_isolation("1 2\n");
	mode_end();
	expect_isolation("1\n");
	ASSERT_OK(mode_set("DPX"));
	expect_isolation("1 2\n");
	EXPECT_OK(mode_write("enforce_isolation", "0 0\n"));
	mode_end();
	expect_isolation("0\n");
}

/* A switch is refused while a process has the GPU open, whether or not it has queues. */
TEST(switch_with_a_process_is_ebusy)
{
	int ready[2], go[2], status;
	pid_t child;
	char byte = 0;

	mode_need("CPX");
	ASSERT(!pipe(ready) && !pipe(go));
	child = fork_child();
	if (!child) {
		int fd = open("/dev/kfd", O_RDWR);

		_exit(fd < 0 || write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1);
	}
	ASSERT(read(ready[0], &byte, 1) == 1);
	EXPECT_RET(mode_try("CPX"), -EBUSY);
	EXPECT(!strcmp(mode_file(MODE_FILE), "SPX\n"), "%s", mode_file(MODE_FILE));
	/* Nothing to do. */
	EXPECT_OK(mode_try("SPX"));
	EXPECT_RET(mode_try("TPX"), -EINVAL);
	ASSERT(write(go[1], &byte, 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child && !status);
	EXPECT_OK(mode_set("CPX"));
	mode_end();
}

/* The queue of a process works before and after a switch that is refused, and so does its VRAM. */
TEST(refused_switch_keeps_queues)
{
	int ready[2], go[2], status;
	pid_t child;
	char byte = 0;

	mode_begin("CPX");
	ASSERT(!pipe(ready) && !pipe(go));
	child = fork_child();
	if (!child) {
		struct kfd_bo *bo;
		struct fixture f;

		fixture_launch(&f);
		ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, KFD_FLAGS_VRAM, &bo));
		*(volatile uint32_t *)bo->va = 0x5eed;
		ASSERT(fixture_works(&f));
		ASSERT(write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1);
		EXPECT(fixture_works(&f));
		EXPECT_EQ(*(volatile uint32_t *)bo->va, 0x5eed);
		ktap_end();
	}
	ASSERT(read(ready[0], &byte, 1) == 1);
	EXPECT_RET(mode_try("SPX"), -EBUSY);
	EXPECT_RET(mode_try("DPX"), -EBUSY);
	EXPECT(!strcmp(mode_file(MODE_FILE), "CPX\n"), "%s", mode_file(MODE_FILE));
	ASSERT(write(go[1], &byte, 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(!status, "the queue did not survive");
	mode_end();
}
