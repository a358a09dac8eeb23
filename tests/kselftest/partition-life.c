// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the nodes of compute partitions at work: SDMA queues, all XCCs at the same time, suspend,
 * reset and unbind of the card, many switches. All tests leave the GPU in mode SPX.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "device.h"
#include "growth.h"
#include "modes.h"

#define CGROUP "/tmp/kselftest-cgroup"

static struct kfd_node nodes[MODE_MAX_NODES + 1];

/* Returns memory that child processes share. */
static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(p != MAP_FAILED);
	return p;
}

static void copy_by_sdma(void *data)
{
	const struct kfd_node *node = data;
	uint32_t n = node->num_sdma_engines + node->num_sdma_xgmi_engines;
	volatile uint32_t *words;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	ASSERT(n > 0);
	ASSERT_OK(kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &bo));
	words = bo->va;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t packets[16], *end = packets;
		struct sdma_queue q;

		words[0] = k.node.gpu_id + i;
		words[1] = words[2] = 0;
		ASSERT_OK(sdma_queue_create(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, i, 4096));
		sdma_copy(&end, kfd_va((void *)&words[1]), kfd_va((void *)words), 4);
		sdma_fence(&end, kfd_va((void *)&words[2]), 1);
		ASSERT_OK(sdma_queue_put(&q, packets, end));
		sdma_queue_ring(&q);
		EXPECT(becomes(&words[2], 1, WAIT_MS), "engine %u", i);
		EXPECT_EQ(words[1], words[0]);
		EXPECT_OK(sdma_queue_destroy(&q));
	}
	{
		struct kfd_ioctl_create_queue_args args;
		struct sdma_queue q;

		ASSERT_OK(sdma_queue_prepare(&k, &q, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, n, 4096,
					     &args));
		EXPECT_RET(sdma_queue_start(&q, &args), -EINVAL);
	}
}

TEST_TIMEOUT(sdma_engines_of_all_nodes, 120)
{
	mode_begin("CPX");
	mode_on_nodes(nodes, mode_nodes(nodes), copy_by_sdma);
	mode_end();
}

/* By node: the XCCs of its waves. `running` counts the nodes with running waves. */
static struct {
	volatile uint32_t running, all, xccs[MODE_MAX_NODES];
} *waves;

static void run_beside_the_others(void *data)
{
	const struct kfd_node *node = data;
	const uint32_t groups = 4 * node->num_xcc, grid[3] = { groups * 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct aql_dispatch packet;
	volatile uint32_t *words;
	struct kfd_kernel kernel;
	uint64_t arguments[2];
	struct fixture f;

	fixture_launch(&f);
	words = f.data->va;
	arguments[0] = kfd_va((void *)words);
	arguments[1] = arguments[0] + 4;
	memcpy(f.kernarg->va, arguments, sizeof(arguments));
	ASSERT_OK(fixture_kernel(&f, "endless", &kernel));
	f.signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f.kernarg->va, &f.signal);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	EXPECT(becomes(&words[0], groups, WAIT_MS), "%u workgroups", words[0]);
	__atomic_fetch_add(&waves->running, 1, __ATOMIC_SEQ_CST);
	EXPECT(becomes(&waves->running, waves->all, WAIT_MS), "%u nodes", waves->running);
	EXPECT_EQ(f.signal.s->value, 1);
	words[1] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	ASSERT_OK(fixture_kernel(&f, "xcc_id", &kernel));
	f.signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, f.kernarg->va, &f.signal);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	for (uint32_t i = 0; i < groups; i++)
		waves->xccs[node - nodes] |= 1u << words[i];
}

/* Waves of all nodes run at the same time, each on XCCs of its own. */
static void check_xccs(const char *mode)
{
	uint32_t seen = 0;
	int count;

	mode_begin(mode);
	waves = shared(sizeof(*waves));
	count = mode_nodes(nodes);
	waves->all = (uint32_t)count;
	mode_on_nodes(nodes, count, run_beside_the_others);
	for (int i = 0; i < count; i++) {
		EXPECT_EQ(__builtin_popcount(waves->xccs[i]), nodes[i].num_xcc);
		EXPECT_EQ(waves->xccs[i] & seen, 0);
		seen |= waves->xccs[i];
	}
	mode_end();
}

TEST_TIMEOUT(xccs_of_cpx_differ, 120)
{
	check_xccs("CPX");
}

TEST_TIMEOUT(xccs_of_dpx_differ, 120)
{
	check_xccs("DPX");
}

/* Expects that the GPU is in a mode, with working nodes as in `nodes`. */
static void expect_nodes(const char *mode, int count)
{
	static struct kfd_node now[MODE_MAX_NODES + 1];
	char line[16];

	snprintf(line, sizeof(line), "%s\n", mode);
	EXPECT(!strcmp(mode_file(MODE_FILE), line), "%s", mode_file(MODE_FILE));
	ASSERT_EQ(mode_nodes(now), count);
	for (int i = 0; i < count; i++)
		EXPECT_EQ(now[i].gpu_id, nodes[i].gpu_id);
	mode_on_nodes(nodes, count, fixture_lives);
}

/* Opens of /dev/kfd that failed or were slow, and whether the test ends. */
static struct {
	volatile uint32_t failed, slow, end;
} *opens;

static void opens_once(void *unused)
{
	double start = seconds_now();
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	(void)unused;
	EXPECT(fd >= 0 || errno == EINVAL, "%s", strerror(errno));
	opens->failed += fd < 0;
	opens->slow += seconds_now() - start > 0.02 * ktap_time_factor();
}

static void switches(void *unused)
{
	int ret;

	(void)unused;
	for (int i = 0; !opens->end; i++) {
		ret = mode_try(i % 2 ? "SPX" : "CPX");
		EXPECT(!ret || ret == -EBUSY, "%s", strerror(-ret));
	}
}

/* An open during a switch fails and does not wait for its end, which takes several 100 ms. */
TEST_TIMEOUT(open_during_a_switch_is_einval, 180)
{
	pid_t child;
	int status;

	mode_begin("SPX");
	opens = shared(sizeof(*opens));
	child = fork_child();
	if (!child)
		_exit(ktap_in_child(switches, NULL) != 0);
	for (int i = 0; i < 500 && opens->failed < 10; i++) {
		EXPECT_OK(ktap_in_child(opens_once, NULL));
		/* A process that has the GPU open delays the switch. */
		usleep(200000);
	}
	opens->end = 1;
	ASSERT(waitpid(child, &status, 0) == child && !status);
	EXPECT(opens->failed >= 10, "%u", opens->failed);
	ktap_note("%u opens failed, %u took more than 20 ms", opens->failed, opens->slow);
	EXPECT(opens->slow < opens->failed / 2, "%u of %u", opens->slow, opens->failed);
	mode_end();
}

/* Opens /dev/kfd in a device cgroup that permits one render node, while the other card switches. */
static void opens_without(void *data)
{
	const struct kfd_node *permitted = data;
	char rule[64];

	/* Render nodes. */
	for (unsigned int minor = 128; minor < 192; minor++) {
		snprintf(rule, sizeof(rule), "c 226:%u rw", minor);
		if (minor != permitted->drm_render_minor)
			ASSERT_OK(write_file(CGROUP "/one/devices.deny", rule));
	}
	ASSERT_OK(write_file(CGROUP "/one/cgroup.procs", "0"));
	for (int i = 0; i < 60; i++) {
		EXPECT_OK(ktap_in_child(opens_once, NULL));
		usleep(50000);
	}
}

/* A switch of a card concerns only processes that may use it. */
TEST_TIMEOUT(open_without_the_card_during_a_switch, 180)
{
	struct kfd_node switched;
	pid_t child;
	int status;

	mode_begin("SPX");
	ASSERT_OK(kfd_topology_find_gpu(&switched));
	if (mode_nodes(nodes) != 2)
		SKIP("no second card");
	mkdir(CGROUP, 0755);
	if (access(CGROUP "/cgroup.procs", F_OK) && mount("none", CGROUP, "cgroup", 0, "devices"))
		SKIP("no device cgroup: %s", strerror(errno));
	ASSERT(mkdir(CGROUP "/one", 0755) == 0 || errno == EEXIST, "%s", strerror(errno));
	opens = shared(sizeof(*opens));
	child = fork_child();
	if (!child)
		_exit(ktap_in_child(switches, NULL) != 0);
	EXPECT_OK(ktap_in_child(opens_without, &nodes[nodes[0].gpu_id == switched.gpu_id]));
	EXPECT_EQ(opens->failed, 0);
	/* The others may not open it meanwhile. */
	for (int i = 0; i < 500 && !opens->failed; i++) {
		EXPECT_OK(ktap_in_child(opens_once, NULL));
		usleep(200000);
	}
	opens->end = 1;
	ASSERT(waitpid(child, &status, 0) == child && !status);
	EXPECT(opens->failed > 0);
	mode_end();
}

/* A process with a queue on the last node works after the system was suspended. */
TEST_TIMEOUT(suspend_in_cpx, 180)
{
	int count, status, ready[2], go[2];
	char byte = 0;
	pid_t child;

	need_sleep();
	mode_begin("CPX");
	count = mode_nodes(nodes);
	ASSERT(!pipe(ready) && !pipe(go));
	child = fork_child();
	if (!child) {
		struct fixture f;

		fixture_use_node(nodes[count - 1].index);
		fixture_launch(&f);
		ASSERT(fixture_works(&f));
		ASSERT(write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1);
		EXPECT(fixture_works(&f));
		ktap_end();
	}
	ASSERT(read(ready[0], &byte, 1) == 1);
	EXPECT_OK(try_to_sleep("devices"));
	ASSERT(write(go[1], &byte, 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(!status, "the queue did not survive");
	expect_nodes("CPX", count);
	mode_end();
}

/* The nodes are the same after a reset of the PCI function. */
TEST_TIMEOUT(pci_reset_in_cpx, 180)
{
	int count;

	device_need_reset();
	mode_begin("CPX");
	count = mode_nodes(nodes);
	device_reset();
	expect_nodes("CPX", count);
	mode_end();
}

/* The driver begins with SPX, whatever the mode was. */
TEST_TIMEOUT(unbind_in_cpx, 180)
{
	device_find();
	mode_begin("CPX");
	ASSERT_OK(device_unbind());
	ASSERT_OK(device_bind());
	ASSERT_EQ(mode_nodes(nodes), 1);
	expect_nodes("SPX", 1);
	ASSERT_OK(mode_set("CPX"));
	expect_nodes("CPX", mode_nodes(nodes));
	mode_end();
}

/* Programs that check numbers of the node that KFD_NODE selects. */
TEST_TIMEOUT(programs_on_the_last_node, 120)
{
	static const struct {
		const char *command;
		unsigned int tests;
	} programs[] = {
		{ "sdma engine_and_doorbell_assignment", 1 },
		{ "topology pci_ids_match_device vram_is_one_bank", 2 },
	};

	mode_begin("CPX");
	fixture_use_node(nodes[mode_nodes(nodes) - 1].index);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		EXPECT(mode_run(programs[i].command, programs[i].tests));
	mode_end();
}

/* Neither switches nor the nodes of a mode leave memory behind. */
TEST_TIMEOUT(repeated_switches, 300)
{
	static const char *const modes[] = { "CPX", "DPX", "QPX", "SPX" };
	char available[128];
	/* The first 20 fill caches. */
	int done = -20, all = (int)ktap_repeats(100, 40);

	mode_begin("CPX");
	snprintf(available, sizeof(available), "%s", mode_file("available_compute_partition"));
	for (int i = 0; done < all; i++) {
		if (!strstr(available, modes[i % 4]))
			continue;
		if (!done) {
			ASSERT_OK(mode_set("SPX"));
			growth_start();
		}
		ASSERT_OK(mode_set(modes[i % 4]));
		done++;
	}
	mode_end();
	growth_expect_none("switches", all);
	expect_nodes("SPX", mode_nodes(nodes));
}
