// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the metrics of compute partitions in sysfs: clocks and activity of the XCCs of each. All
 * tests leave the GPU in mode SPX.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "modes.h"

/* Numbers of values (amdgpu_metrics_attr_id, kgd_pp_interface.h). */
enum {
	ACCUMULATION_COUNTER = 9,
	FIRMWARE_TIMESTAMP = 32,
	GFXCLK = 33,
	UCLK = 37,
	GFX_BUSY = 40,
	GFX_BUSY_ACC = 43,
	NUMBERS = 48,
};
#define MOST 40u
/* Values of a partition (SMU_13_0_6_PARTITION_METRICS_FIELDS, smu_v13_0_6_ppt.h). */
#define VALUES 15u
#define MOST_XCCS 8u

struct metrics {
	unsigned int counts[NUMBERS];
	/* A value that is not known has all bits set. */
	uint64_t values[NUMBERS][MOST];
	bool known[NUMBERS][MOST];
};

static struct kfd_node nodes[MODE_MAX_NODES + 1];

/* Opens the file of the partition that has this render node. Returns a negative errno. */
static int open_metrics(uint32_t minor)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device/xcp/xcp_metrics", minor);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static uint64_t number(const uint8_t *bytes, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, bytes, size);
	return value;
}

/* Reads all values: each is preceded by unit, type, number and count. */
static void read_metrics(const struct kfd_node *node, struct metrics *m)
{
	static uint8_t text[4096];
	int fd = open_metrics(node->drm_render_minor);
	size_t size, at = 8;
	ssize_t n;

	ASSERT(fd >= 0, "%s", strerror(-fd));
	n = read(fd, text, sizeof(text));
	close(fd);
	ASSERT(n >= 8, "%zd bytes", n);
	size = (size_t)n;
	memset(m, 0, sizeof(*m));
	EXPECT_EQ(number(text, 2), size);
	EXPECT(text[2] == 1 && text[3] == 1, "revision %u.%u", text[2], text[3]);
	EXPECT_EQ(number(text + 4, 4), VALUES);
	while (at + 8 <= size) {
		const uint64_t kind = number(text + at, 8);
		const uint32_t id = kind >> 10 & 0x3ff, count = kind & 0x3ff;
		const size_t bytes = (size_t)1 << (kind >> 20 & 0xf) / 2;

		at += 8;
		ASSERT(id < NUMBERS && count <= MOST && at + count * bytes <= size, "%#llx",
		       (unsigned long long)kind);
		EXPECT(!m->counts[id], "%u twice", id);
		m->counts[id] = count;
		for (uint32_t i = 0; i < count; i++, at += bytes) {
			m->values[id][i] = number(text + at, bytes);
			m->known[id][i] = m->values[id][i] != UINT64_MAX >> (64 - 8 * bytes);
		}
	}
	EXPECT_EQ(at, size);
}

/* Clocks and activity of each XCC of the node, and of no other. */
static void check_metrics(const struct kfd_node *node)
{
	static struct metrics m, later;

	read_metrics(node, &m);
	EXPECT_EQ(m.counts[GFXCLK], MOST_XCCS);
	EXPECT_EQ(m.counts[GFX_BUSY], MOST_XCCS);
	for (uint32_t i = 0; i < MOST_XCCS; i++) {
		const bool has = i < node->num_xcc;

		EXPECT_EQ(m.known[GFXCLK][i], has);
		EXPECT_EQ(m.known[GFX_BUSY][i], has);
		EXPECT_EQ(m.known[GFX_BUSY_ACC][i], has);
		if (has)
			EXPECT(m.values[GFXCLK][i] > 0 && m.values[GFX_BUSY][i] <= 100);
	}
	EXPECT(m.counts[UCLK] == 1 && m.values[UCLK][0] > 0 && m.known[UCLK][0]);
	/* The C driver reads metrics again after some milliseconds only. */
	usleep(50000);
	read_metrics(node, &later);
	EXPECT(later.values[ACCUMULATION_COUNTER][0] > m.values[ACCUMULATION_COUNTER][0]);
	EXPECT(later.values[FIRMWARE_TIMESTAMP][0] > m.values[FIRMWARE_TIMESTAMP][0]);
}

static void check_mode(const char *mode)
{
	int count;

	mode_begin(mode);
	count = mode_nodes(nodes);
	for (int i = 0; i < count; i++)
		check_metrics(&nodes[i]);
	mode_end();
}

TEST(metrics_of_spx)
{
	check_mode("SPX");
}

TEST(metrics_of_cpx)
{
	check_mode("CPX");
}

/* Partitions that the mode does not have are without metrics. */
TEST(partition_beyond_the_mode_has_none)
{
	int count;

	mode_begin("CPX");
	count = mode_nodes(nodes);
	mode_end();
	for (int i = 1; i < count; i++)
		EXPECT_RET(open_metrics(nodes[i].drm_render_minor), -ENOENT);
}

/* Returns the number of XCCs of the node that are busy. */
static uint32_t busy(const struct kfd_node *node)
{
	static struct metrics m;
	uint32_t count = 0;

	read_metrics(node, &m);
	for (uint32_t i = 0; i < node->num_xcc; i++)
		count += m.values[GFX_BUSY][i] > 0;
	return count;
}

/* Runs waves on the last node: its XCC is busy, and no other. */
static void run_on_the_last(void *data)
{
	const int last = *(int *)data;
	struct fixture f;

	fixture_launch(&f);
	fixture_endless(&f, 8);
	for (int i = 0; i < 200 && busy(&nodes[last]) < nodes[last].num_xcc; i++)
		usleep(10000);
	EXPECT_EQ(busy(&nodes[last]), nodes[last].num_xcc);
	for (int n = 0; n < last; n++)
		EXPECT_EQ(busy(&nodes[n]), 0);
	((volatile uint32_t *)f.data->va)[1] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
}

TEST_TIMEOUT(activity_of_one_node, 120)
{
	int last;

	mode_begin("CPX");
	last = mode_nodes(nodes) - 1;
	ASSERT(last > 0);
	fixture_use_node(nodes[last].index);
	EXPECT_OK(ktap_in_child(run_on_the_last, &last));
	mode_end();
}
