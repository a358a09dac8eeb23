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
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <linux/kfd_sysfs.h>

#include "cardfiles.h"
#include "device.h"
#include "fixture.h"

#define MIB (1ul << 20)
#define IP_GC 11

/* Returns the number of entries of a directory that are directories named by a number. */
static unsigned int count_numbered(const struct kfd *k, const char *name)
{
	unsigned int count = 0;
	struct dirent *entry;
	char path[256];
	DIR *dir;

	card_path(k, name, path, sizeof(path));
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
	EXPECT_EQ(card_number(&k, "mem_info_vram_total", 10), info.vram.total_heap_size);
	EXPECT_EQ(card_number(&k, "mem_info_vis_vram_total", 10),
		  info.cpu_accessible_vram.total_heap_size);
	EXPECT_EQ(card_number(&k, "mem_info_gtt_total", 10), info.gtt.total_heap_size);
	before[0] = card_number(&k, "mem_info_vram_used", 10);
	before[1] = card_number(&k, "mem_info_gtt_used", 10);
	EXPECT_EQ(before[0], amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE));
	EXPECT(card_number(&k, "mem_info_vis_vram_used", 10) <= before[0]);
	ASSERT_OK(kfd_bo_alloc(&k, 4 * MIB, KFD_FLAGS_VRAM, &vram));
	ASSERT_OK(kfd_bo_alloc(&k, 8 * MIB, KFD_FLAGS_GTT, &gtt));
	/* Page tables are in VRAM as well. */
	EXPECT(card_number(&k, "mem_info_vram_used", 10) >= before[0] + 4 * MIB);
	EXPECT_EQ(card_number(&k, "mem_info_gtt_used", 10), before[1] + 8 * MIB);
	EXPECT_EQ(card_number(&k, "mem_info_gtt_used", 10), amdgpu_info(&k, AMDGPU_INFO_GTT_USAGE));
}

/* Trusted applications (enum ta_fw_type). */
enum { TA_XGMI = 2, TA_RAS };

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
		{ "fw_version/pfp_fw_version", AMDGPU_INFO_FW_GFX_PFP, 0 },
		{ "fw_version/me_fw_version", AMDGPU_INFO_FW_GFX_ME, 0 },
		{ "fw_version/ce_fw_version", AMDGPU_INFO_FW_GFX_CE, 0 },
		{ "fw_version/imu_fw_version", AMDGPU_INFO_FW_IMU, 0 },
		{ "fw_version/mes_fw_version", AMDGPU_INFO_FW_MES, 0 },
		{ "fw_version/mes_kiq_fw_version", AMDGPU_INFO_FW_MES_KIQ, 0 },
		{ "fw_version/ta_xgmi_fw_version", AMDGPU_INFO_FW_TA, TA_XGMI },
		{ "fw_version/ta_ras_fw_version", AMDGPU_INFO_FW_TA, TA_RAS },
		{ "fw_version/vcn_fw_version", AMDGPU_INFO_FW_VCN, 0 },
	};
	struct kfd k;

	fixture_open(&k);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		uint32_t version = firmware(&k, list[i].type, list[i].index);
		char line[16];

		snprintf(line, sizeof(line), "0x%08x\n", version);
		EXPECT(!strcmp(card_text(&k, list[i].file), version ? line : ""), "%s: %s",
		       list[i].file, card_text(&k, list[i].file));
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
	EXPECT_EQ(card_number(&k, "unique_id", 16), serial);
	EXPECT(card_number(&k, "gpu_busy_percent", 10) <= 100);
	EXPECT(card_number(&k, "mem_busy_percent", 10) <= 100);
}

/* Expects the text of a file below the hardware monitoring device. */
static void expect_label(const struct kfd *k, const char *folder, const char *file, const char *label)
{
	char name[160], line[32];

	snprintf(name, sizeof(name), "%s/%s", folder, file);
	snprintf(line, sizeof(line), "%s\n", label);
	EXPECT(!strcmp(card_text(k, name), line), "%s: %s", name, card_text(k, name));
}

TEST(hwmon)
{
	char folder[96];
	uint64_t mc;
	struct kfd k;

	fixture_open(&k);
	if (is_gfx12(&k.node) && ktap_is_rkfd())
		SKIP("the SMU of gfx12 is not used");
	card_hwmon(&k, folder, sizeof(folder));
	expect_label(&k, folder, "name", "amdgpu");
	expect_label(&k, folder, "freq1_label", "sclk");
	expect_label(&k, folder, "freq2_label", "mclk");
	expect_label(&k, folder, "power1_label", "PPT");
	expect_label(&k, folder, "temp2_label", "junction");
	expect_label(&k, folder, "temp3_label", "mem");
	/* The GPU is idle: the clocks do not change. */
	EXPECT_EQ(card_fact(&k, folder, "freq1_input", 10),
		  card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK) * 1000000ull);
	EXPECT_EQ(card_fact(&k, folder, "freq2_input", 10),
		  card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_MCLK) * 1000000ull);
	EXPECT_EQ(card_fact(&k, folder, is_gfx12(&k.node) ? "power1_average" : "power1_input", 10) / 1000000,
		  card_sensor(&k, AMDGPU_INFO_SENSOR_GPU_AVG_POWER));
	mc = card_fact(&k, folder, "temp2_input", 10);
	EXPECT(mc > 10000 && mc < 120000, "%llu mC", (unsigned long long)mc);
	mc = card_fact(&k, folder, "temp3_input", 10);
	EXPECT(mc > 10000 && mc < 120000, "%llu mC", (unsigned long long)mc);
}

/* A header, and the metrics table of the firmware, which has the serial number. */
TEST(table_of_the_firmware)
{
	/* PublicSerialNumber_AID in version 0x11 (MetricsTableV0_t). */
	enum { HEADER = 16, SIZE = 2268, SERIAL = 0x57c };
	struct {
		uint16_t bytes, pad;
		uint32_t block, firmware, version;
		uint8_t table[4096];
	} file = { 0 };
	uint64_t serial, version;
	char path[256];
	struct kfd k;
	ssize_t n;
	int fd;

	card_open_unlimited(&k);
	card_path(&k, "pm_metrics", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	n = read(fd, &file, sizeof(file));
	close(fd);
	EXPECT_EQ(n, HEADER + SIZE);
	EXPECT_EQ(file.bytes, n);
	EXPECT_EQ(file.pad, 0);
	version = card_fact(&k, "ip_discovery/die/0/MP1/0", "major", 10) << 24 |
		  card_fact(&k, "ip_discovery/die/0/MP1/0", "minor", 10) << 16 |
		  card_fact(&k, "ip_discovery/die/0/MP1/0", "revision", 10) << 8;
	EXPECT_EQ(file.block, version);
	EXPECT_EQ(file.firmware, card_fact(&k, "fw_version", "smc_fw_version", 16));
	EXPECT_EQ(file.version, 0x11);
	memcpy(&serial, file.table + SERIAL, sizeof(serial));
	EXPECT_EQ(serial, card_number(&k, "unique_id", 16));
}

/*
 * The kinds of reset after a hang, in the order of amdgpu_show_reset_mask(). On gfx942 the C driver
 * has rings on compute queues, whose waves it can kill.
 */
TEST(reset_masks)
{
	char path[300], line[64];
	uint64_t value = 0;
	bool queue, gfx12;
	struct kfd k;

	fixture_open(&k);
	gfx12 = is_gfx12(&k.node);
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", k.node.index);
	ASSERT_OK(kfd_sysfs_value(path, "capability", &value));
	EXPECT(value & HSA_CAP_PER_QUEUE_RESET_SUPPORTED);
	snprintf(line, sizeof(line), "%squeue %sfull \n",
		 gfx12 || ktap_is_rkfd() ? "" : "soft_recovery ", gfx12 ? "" : "pipe ");
	EXPECT(!strcmp(card_text(&k, "compute_reset_mask"), line), "'%s', not '%s'",
	       card_text(&k, "compute_reset_mask"), line);

	/* The topology of gfx12 does not report it. */
	ASSERT_OK(kfd_sysfs_value(path, "capability2", &value));
	queue = gfx12 || value & HSA_CAP2_PER_SDMA_QUEUE_RESET_SUPPORTED;
	snprintf(line, sizeof(line), "%sfull \n", queue ? "queue " : "");
	EXPECT(!strcmp(card_text(&k, "sdma_reset_mask"), line), "'%s', not '%s'",
	       card_text(&k, "sdma_reset_mask"), line);
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
	card_path(k, "gpu_metrics", path, sizeof(path));
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
	EXPECT_EQ(m.values[CURRENT_GFXCLK][0], card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK));
	EXPECT_EQ(m.values[CURRENT_UCLK][0], card_sensor(&k, AMDGPU_INFO_SENSOR_GFX_MCLK));
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
		if (!*card_text(k, name))
			continue;
		count++;
		EXPECT_EQ(card_number(k, name, 10), id);
		EXPECT_EQ(card_fact(k, folder, "num_instance", 10), inst);
		EXPECT(card_fact(k, folder, "major", 10) + card_fact(k, folder, "minor", 10) +
			       card_fact(k, folder, "revision", 10) > 0, "%s", folder);
		if (card_fact(k, folder, "harvest", 16))
			found->harvested++;
		else
			found->working++;
		bases = card_fact(k, folder, "num_base_addresses", 10);
		snprintf(name, sizeof(name), "%s/base_addr", folder);
		for (const char *at = card_text(k, name); *at; at++)
			lines += *at == '\n';
		EXPECT(bases > 0 && lines == bases, "%s: %" PRIu64 " of %" PRIu64, name, lines, bases);
	}
	return count;
}

/*
 * $IP_REPEATED is the number of entries of the table that repeat another one: they have no folder,
 * and a message names the first.
 */
TEST(ip_discovery)
{
	const char *given = getenv("IP_REPEATED");
	const unsigned int repeated = given ? (unsigned int)atoi(given) : 0;
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
		EXPECT_EQ(card_fact(&k, die, "num_ips", 10), instances + (d ? 0 : repeated));
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

	if (ktap_is_rkfd()) {
		int log = kmsg_open();
		char text[64] = "entries of the IP discovery table repeat";

		/* The message is from the probe. */
		ASSERT(lseek(log, 0, SEEK_SET) == 0);
		if (repeated)
			snprintf(text, sizeof(text), "%u entries of the IP discovery table repeat", repeated);
		EXPECT_EQ(kmsg_lines_with(log, text), repeated ? 1 : 0);
		close(log);
	}

	/* By name, in the first die. */
	ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_INFO, &request));
	snprintf(gc0, sizeof(gc0), "ip_discovery/die/0/GC/0");
	EXPECT_EQ(card_fact(&k, gc0, "major", 10) << 16 | card_fact(&k, gc0, "minor", 10) << 8 |
			  card_fact(&k, gc0, "revision", 10),
		  ip.ip_discovery_version);
}

/* AMD's device plugin for Kubernetes looks for devices here. */
TEST(device_below_the_module)
{
	char path[128], real[PATH_MAX], device[PATH_MAX];

	device_find();
	snprintf(path, sizeof(path), "/sys/module/amdgpu/drivers/pci:amdgpu/%s", device_name());
	ASSERT(realpath(path, real), "%s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", device_name());
	ASSERT(realpath(path, device), "%s: %s", path, strerror(errno));
	EXPECT(!strcmp(real, device), "%s", real);
}
