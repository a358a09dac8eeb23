// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the files of the GPU in sysfs that tools for administrators read, against the ioctls and
 * the topology that have the same facts.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "fixture.h"

#define MIB (1ul << 20)
#define IP_GC 11

/* Stores the path of a file of the PCI device. */
static void file_path(const struct kfd *k, const char *name, char *path, size_t size)
{
	snprintf(path, size, "/sys/bus/pci/devices/%04x:%02x:%02x.0/%s", k->node.domain,
		 k->node.location_id >> 8, k->node.location_id >> 3 & 31, name);
}

/* Returns the text of such a file, empty without it; valid until the next call. */
static const char *text_of(const struct kfd *k, const char *name)
{
	static char text[4096];
	char path[256];
	ssize_t n = 0;
	int fd;

	file_path(k, name, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	return text;
}

/* Returns the number in a file, which is a line; fails the test without one. */
static uint64_t number_in(const struct kfd *k, const char *name, int base)
{
	const char *text = text_of(k, name);
	char *end;
	uint64_t value = strtoull(text, &end, base);

	EXPECT(end > text && !strcmp(end, "\n"), "%s: '%s'", name, text);
	return value;
}

/* Returns the number of entries of a directory that are directories named by a number. */
static unsigned int count_numbered(const struct kfd *k, const char *name)
{
	unsigned int count = 0;
	struct dirent *entry;
	char path[256];
	DIR *dir;

	file_path(k, name, path, sizeof(path));
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += entry->d_type == DT_DIR && entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

TEST(memory_is_that_of_the_render_node)
{
	struct drm_amdgpu_memory_info info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_MEMORY };
	struct kfd_bo *vram, *gtt;
	uint64_t before[2];
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_INFO, &request));
	EXPECT_EQ(number_in(&k, "mem_info_vram_total", 10), info.vram.total_heap_size);
	EXPECT_EQ(number_in(&k, "mem_info_vis_vram_total", 10),
		  info.cpu_accessible_vram.total_heap_size);
	EXPECT_EQ(number_in(&k, "mem_info_gtt_total", 10), info.gtt.total_heap_size);
	before[0] = number_in(&k, "mem_info_vram_used", 10);
	before[1] = number_in(&k, "mem_info_gtt_used", 10);
	EXPECT_EQ(before[0], amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE));
	EXPECT(number_in(&k, "mem_info_vis_vram_used", 10) <= before[0]);
	ASSERT_OK(kfd_bo_alloc(&k, 4 * MIB, KFD_FLAGS_VRAM, &vram));
	ASSERT_OK(kfd_bo_alloc(&k, 8 * MIB, KFD_FLAGS_GTT, &gtt));
	/* Page tables are in VRAM as well. */
	EXPECT(number_in(&k, "mem_info_vram_used", 10) >= before[0] + 4 * MIB);
	EXPECT_EQ(number_in(&k, "mem_info_gtt_used", 10), before[1] + 8 * MIB);
	EXPECT_EQ(number_in(&k, "mem_info_gtt_used", 10), amdgpu_info(&k, AMDGPU_INFO_GTT_USAGE));
}

/* Returns the version of a firmware from the render node. */
static uint32_t firmware(struct kfd *k, uint32_t type, uint32_t index)
{
	struct drm_amdgpu_info_firmware info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_FW_VERSION,
					   .query_fw = { .fw_type = type, .index = index } };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return info.ver;
}

/* A file is there if the version is not 0. */
TEST(firmware_versions_are_those_of_the_render_node)
{
	static const struct {
		const char *file;
		uint32_t type, index;
	} list[] = {
		{ "fw_version/rlc_fw_version", AMDGPU_INFO_FW_GFX_RLC, 0 },
		{ "fw_version/rlc_srlc_fw_version", AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_CNTL, 0 },
		{ "fw_version/rlc_srlg_fw_version", AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_GPM_MEM, 0 },
		{ "fw_version/rlc_srls_fw_version", AMDGPU_INFO_FW_GFX_RLC_RESTORE_LIST_SRM_MEM, 0 },
		{ "fw_version/mec_fw_version", AMDGPU_INFO_FW_GFX_MEC, 0 },
		{ "fw_version/mec2_fw_version", AMDGPU_INFO_FW_GFX_MEC, 1 },
		{ "fw_version/sos_fw_version", AMDGPU_INFO_FW_SOS, 0 },
		{ "fw_version/asd_fw_version", AMDGPU_INFO_FW_ASD, 0 },
		{ "fw_version/smc_fw_version", AMDGPU_INFO_FW_SMC, 0 },
		{ "fw_version/sdma_fw_version", AMDGPU_INFO_FW_SDMA, 0 },
	};
	struct kfd k;

	fixture_open(&k);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		uint32_t version = firmware(&k, list[i].type, list[i].index);
		char line[16];

		snprintf(line, sizeof(line), "0x%08x\n", version);
		EXPECT(!strcmp(text_of(&k, list[i].file), version ? line : ""), "%s: %s",
		       list[i].file, text_of(&k, list[i].file));
	}
}

TEST(sensors)
{
	uint64_t serial = 0;
	char path[300];
	struct kfd k;

	fixture_open(&k);
	if (is_gfx12(&k.node) && ktap_is_rkfd())
		SKIP("the SMU of gfx12 is not used");
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", k.node.index);
	ASSERT_OK(kfd_sysfs_value(path, "unique_id", &serial));
	EXPECT_EQ(number_in(&k, "unique_id", 16), serial);
	EXPECT(number_in(&k, "gpu_busy_percent", 10) <= 100);
	EXPECT(number_in(&k, "mem_busy_percent", 10) <= 100);
}

/* Returns the number in a file of a folder of the PCI device. */
static uint64_t fact(const struct kfd *k, const char *folder, const char *file, int base)
{
	char name[160];

	snprintf(name, sizeof(name), "%s/%s", folder, file);
	return number_in(k, name, base);
}

/* Returns the value of a sensor (AMDGPU_INFO_SENSOR_*). */
static uint32_t info_sensor(struct kfd *k, uint32_t type)
{
	uint32_t value = 0;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&value),
					   .return_size = sizeof(value),
					   .query = AMDGPU_INFO_SENSOR,
					   .sensor_info = { .type = type } };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return value;
}

/* Expects the text of a file below the hardware monitoring device. */
static void expect_label(const struct kfd *k, const char *folder, const char *file, const char *label)
{
	char name[160], line[32];

	snprintf(name, sizeof(name), "%s/%s", folder, file);
	snprintf(line, sizeof(line), "%s\n", label);
	EXPECT(!strcmp(text_of(k, name), line), "%s: %s", name, text_of(k, name));
}

TEST(hwmon)
{
	struct dirent *entry;
	char path[256], folder[96] = "";
	uint64_t mc;
	struct kfd k;
	DIR *dir;

	fixture_open(&k);
	if (is_gfx12(&k.node) && ktap_is_rkfd())
		SKIP("the SMU of gfx12 is not used");
	file_path(&k, "hwmon", path, sizeof(path));
	dir = opendir(path);
	ASSERT(dir, "%s: %s", path, strerror(errno));
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "hwmon", 5))
			snprintf(folder, sizeof(folder), "hwmon/%.32s", entry->d_name);
	closedir(dir);
	ASSERT(*folder);
	expect_label(&k, folder, "name", "amdgpu");
	expect_label(&k, folder, "freq1_label", "sclk");
	expect_label(&k, folder, "freq2_label", "mclk");
	expect_label(&k, folder, "power1_label", "PPT");
	expect_label(&k, folder, "temp2_label", "junction");
	expect_label(&k, folder, "temp3_label", "mem");
	/* The GPU is idle: the clocks do not change. */
	EXPECT_EQ(fact(&k, folder, "freq1_input", 10),
		  info_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK) * 1000000ull);
	EXPECT_EQ(fact(&k, folder, "freq2_input", 10),
		  info_sensor(&k, AMDGPU_INFO_SENSOR_GFX_MCLK) * 1000000ull);
	EXPECT_EQ(fact(&k, folder, is_gfx12(&k.node) ? "power1_average" : "power1_input", 10) / 1000000,
		  info_sensor(&k, AMDGPU_INFO_SENSOR_GPU_AVG_POWER));
	mc = fact(&k, folder, "temp2_input", 10);
	EXPECT(mc > 10000 && mc < 120000, "%llu mC", (unsigned long long)mc);
	mc = fact(&k, folder, "temp3_input", 10);
	EXPECT(mc > 10000 && mc < 120000, "%llu mC", (unsigned long long)mc);
}

/* Numbers of values of gpu_metrics (amdgpu_metrics_attr_id, kgd_pp_interface.h). */
enum {
	TEMPERATURE_HOTSPOT = 0,
	TEMPERATURE_MEM = 1,
	SYSTEM_CLOCK_COUNTER = 8,
	ACCUMULATION_COUNTER = 9,
	FIRMWARE_TIMESTAMP = 32,
	CURRENT_GFXCLK = 33,
	CURRENT_SOCCLK = 34,
	CURRENT_UCLK = 37,
	METRICS = 52,
};
#define MOST_VALUES 40

struct metrics {
	unsigned int counts[METRICS], fields;
	uint64_t values[METRICS][MOST_VALUES];
};

/* Reads gpu_metrics: a header, and values that are preceded by unit, type, number and count. */
static void read_metrics(const struct kfd *k, struct metrics *m)
{
	static uint8_t text[4096];
	uint16_t size = 0;
	char path[256];
	size_t at = 8;
	ssize_t n;
	int fd;

	memset(m, 0, sizeof(*m));
	file_path(k, "gpu_metrics", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	n = read(fd, text, sizeof(text));
	close(fd);
	ASSERT(n >= 8, "%zd bytes", n);
	memcpy(&size, text, sizeof(size));
	EXPECT_EQ(size, n);
	EXPECT(text[2] == 1 && text[3] == 9, "revision %u.%u", text[2], text[3]);
	memcpy(&m->fields, text + 4, 4);
	for (unsigned int field = 0; field < m->fields; field++) {
		uint64_t kind;
		uint32_t id, count;
		size_t bytes;

		ASSERT(at + 8 <= size, "%zu", at);
		memcpy(&kind, text + at, 8);
		at += 8;
		id = kind >> 10 & 0x3ff;
		count = kind & 0x3ff;
		bytes = (size_t)1 << (kind >> 20 & 0xf) / 2;
		ASSERT(id < METRICS && count <= MOST_VALUES && at + count * bytes <= size, "%#llx",
		       (unsigned long long)kind);
		EXPECT(!m->counts[id], "%u twice", id);
		m->counts[id] = count;
		for (uint32_t i = 0; i < count; i++, at += bytes)
			memcpy(&m->values[id][i], text + at, bytes);
	}
	EXPECT_EQ(at, size);
}

TEST(gpu_metrics)
{
	static struct metrics m, later;
	struct kfd k;

	fixture_open(&k);
	if (is_gfx12(&k.node))
		SKIP("another format");
	read_metrics(&k, &m);
	EXPECT_EQ(m.fields, 50);
	EXPECT_EQ(m.counts[CURRENT_GFXCLK], 8);
	/* The GPU is idle: the clocks do not change. */
	EXPECT_EQ(m.values[CURRENT_GFXCLK][0], info_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK));
	EXPECT_EQ(m.values[CURRENT_UCLK][0], info_sensor(&k, AMDGPU_INFO_SENSOR_GFX_MCLK));
	for (uint32_t i = 0; i < 8; i++)
		EXPECT_EQ(m.values[CURRENT_GFXCLK][i] != UINT16_MAX, i < k.node.num_xcc);
	EXPECT_EQ(m.counts[CURRENT_SOCCLK], 4);
	EXPECT(m.values[CURRENT_SOCCLK][0] && m.values[CURRENT_SOCCLK][0] < 10000);
	EXPECT(m.values[TEMPERATURE_HOTSPOT][0] > 10 && m.values[TEMPERATURE_HOTSPOT][0] < 120);
	EXPECT(m.values[TEMPERATURE_MEM][0] > 10 && m.values[TEMPERATURE_MEM][0] < 120);
	/* The C driver reads metrics again after some milliseconds only. */
	usleep(50000);
	read_metrics(&k, &later);
	EXPECT(later.values[ACCUMULATION_COUNTER][0] > m.values[ACCUMULATION_COUNTER][0]);
	EXPECT(later.values[FIRMWARE_TIMESTAMP][0] > m.values[FIRMWARE_TIMESTAMP][0]);
	EXPECT(later.values[SYSTEM_CLOCK_COUNTER][0] > m.values[SYSTEM_CLOCK_COUNTER][0]);
}

static bool is_sdma(unsigned int id)
{
	return id == 42 || id == 43 || id == 68 || id == 69;
}

/* Instances of a block. */
struct found {
	unsigned int working, harvested;
};

/* Checks the instances of block `id` on a die; returns their number. */
static unsigned int check_block(const struct kfd *k, const char *die, unsigned int id,
				struct found *found)
{
	unsigned int count = 0;
	char folder[96], name[128];

	for (unsigned int inst = 0; inst < 64; inst++) {
		uint64_t bases, lines = 0;

		snprintf(folder, sizeof(folder), "%s/%u/%u", die, id, inst);
		snprintf(name, sizeof(name), "%s/hw_id", folder);
		if (!*text_of(k, name))
			continue;
		count++;
		EXPECT_EQ(number_in(k, name, 10), id);
		EXPECT_EQ(fact(k, folder, "num_instance", 10), inst);
		EXPECT(fact(k, folder, "major", 10) + fact(k, folder, "minor", 10) +
			       fact(k, folder, "revision", 10) > 0, "%s", folder);
		if (fact(k, folder, "harvest", 16))
			found->harvested++;
		else
			found->working++;
		bases = fact(k, folder, "num_base_addresses", 10);
		snprintf(name, sizeof(name), "%s/base_addr", folder);
		for (const char *at = text_of(k, name); *at; at++)
			lines += *at == '\n';
		EXPECT(bases > 0 && lines == bases, "%s: %" PRIu64 " of %" PRIu64, name, lines, bases);
	}
	return count;
}

TEST(ip_discovery)
{
	struct found gc = { 0 }, sdma = { 0 }, other = { 0 };
	struct drm_amdgpu_info_hw_ip ip = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&ip),
					   .return_size = sizeof(ip),
					   .query = AMDGPU_INFO_HW_IP_INFO,
					   .query_hw_ip = { .type = AMDGPU_HW_IP_COMPUTE } };
	unsigned int dies;
	bool harvested;
	char die[64], gc0[96];
	struct kfd k;

	fixture_open(&k);
	dies = count_numbered(&k, "ip_discovery/die");
	EXPECT(dies >= 1 && dies <= 16, "%u", dies);
	for (unsigned int d = 0; d < dies; d++) {
		unsigned int instances = 0;

		snprintf(die, sizeof(die), "ip_discovery/die/%u", d);
		for (unsigned int id = 0; id < 300; id++) {
			struct found *found = id == IP_GC ? &gc : is_sdma(id) ? &sdma : &other;
			char block[96];

			snprintf(block, sizeof(block), "%s/%u", die, id);
			if (count_numbered(&k, block))
				instances += check_block(&k, die, id, found);
		}
		EXPECT_EQ(fact(&k, die, "num_ips", 10), instances);
	}
	/*
	 * MI308X: half of the instances. The C driver creates the files before it reads the harvest
	 * table (amdgpu_discovery.c: amdgpu_discovery_reg_base_init).
	 */
	harvested = k.node.device_id == 0x74a2;
	EXPECT_EQ(gc.working + gc.harvested, k.node.num_xcc * (harvested ? 2 : 1));
	EXPECT_EQ(sdma.working + sdma.harvested,
		  (k.node.num_sdma_engines + k.node.num_sdma_xgmi_engines) * (harvested ? 2 : 1));
	if (ktap_is_rkfd()) {
		EXPECT_EQ(gc.harvested, harvested ? gc.working : 0);
		EXPECT_EQ(sdma.harvested, harvested ? sdma.working : 0);
	}

	/* By name, in the first die. */
	ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_INFO, &request));
	snprintf(gc0, sizeof(gc0), "ip_discovery/die/0/GC/0");
	EXPECT_EQ(fact(&k, gc0, "major", 10) << 16 | fact(&k, gc0, "minor", 10) << 8 |
			  fact(&k, gc0, "revision", 10),
		  ip.ip_discovery_version);
}
