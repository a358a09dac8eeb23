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
#include <linux/kfd_sysfs.h>

#include "device.h"
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

/* Stores the folder of the hardware monitoring device. */
static void find_hwmon(const struct kfd *k, char *folder, size_t size)
{
	struct dirent *entry;
	char path[256];
	DIR *dir;

	*folder = 0;
	file_path(k, "hwmon", path, sizeof(path));
	dir = opendir(path);
	ASSERT(dir, "%s: %s", path, strerror(errno));
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "hwmon", 5))
			snprintf(folder, size, "hwmon/%.32s", entry->d_name);
	closedir(dir);
	ASSERT(*folder);
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
	char folder[96];
	uint64_t mc;
	struct kfd k;

	fixture_open(&k);
	if (is_gfx12(&k.node) && ktap_is_rkfd())
		SKIP("the SMU of gfx12 is not used");
	find_hwmon(&k, folder, sizeof(folder));
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

/* Writes a text to a file of the PCI device. Returns 0 or a negative errno. */
static int set(const struct kfd *k, const char *name, const char *text)
{
	char path[256];

	file_path(k, name, path, sizeof(path));
	return write_file(path, text);
}

#define LEVEL "power_dpm_force_performance_level"
#define LIMITS "pp_od_clk_voltage"

/* Opens the first GPU, whose SMU is in use and whose clocks nothing limits. */
static void open_unlimited(struct kfd *k)
{
	fixture_open(k);
	if (is_gfx12(&k->node))
		SKIP("the SMU of gfx12 is not used, or has other clocks");
	EXPECT_OK(set(k, LEVEL, "auto\n"));
}

TEST(performance_level)
{
	static const char *const levels[] = { "manual", "perf_determinism", "auto" };
	static const char *const refused[] = { "low", "high", "profile_peak", "fast", "manual x", "" };
	struct kfd k;

	open_unlimited(&k);
	for (int i = 0; i < 3; i++) {
		char line[32];

		snprintf(line, sizeof(line), "%s\n", levels[i]);
		EXPECT_OK(set(&k, LEVEL, levels[i]));
		EXPECT(!strcmp(text_of(&k, LEVEL), line), "%s: %s", levels[i], text_of(&k, LEVEL));
	}
	/* A write of no bytes does not reach the driver. */
	for (int i = 0; *refused[i]; i++)
		EXPECT_RET(set(&k, LEVEL, refused[i]), -EINVAL);
	EXPECT_RET(set(&k, LEVEL, "\n"), -EINVAL);
	EXPECT(!strcmp(text_of(&k, LEVEL), "auto\n"));
}

/* Levels of a clock. */
struct levels {
	unsigned int count, current, mhz[8];
};

/* Reads the levels of a clock: lines "INDEX: MHZMhz *", the current one marked. */
static void read_levels(const struct kfd *k, const char *name, struct levels *l)
{
	unsigned int index, mhz;
	const char *at;
	int n = 0;

	memset(l, 0, sizeof(*l));
	l->current = 8;
	for (at = text_of(k, name); sscanf(at, "%u: %uMhz %n", &index, &mhz, &n) == 2; at += n) {
		ASSERT(index == l->count && index < 8, "%s: %s", name, at);
		l->mhz[l->count++] = mhz;
		if (at[n] == '*') {
			l->current = index;
			n += 2;
		}
	}
	EXPECT(l->count > 0 && !*at, "%s: %s", name, text_of(k, name));
	for (unsigned int i = 1; i < l->count; i++)
		EXPECT(l->mhz[i] > l->mhz[i - 1], "%s: %u, %u", name, l->mhz[i - 1], l->mhz[i]);
}

TEST(clock_levels)
{
	static const char *const others[] = { "pp_dpm_socclk", "pp_dpm_fclk", "pp_dpm_vclk",
					      "pp_dpm_dclk" };
	struct drm_amdgpu_info_device info = { 0 };
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&info),
					   .return_size = sizeof(info),
					   .query = AMDGPU_INFO_DEV_INFO };
	struct levels l;
	struct kfd k;

	open_unlimited(&k);
	ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_INFO, &request));
	read_levels(&k, "pp_dpm_sclk", &l);
	EXPECT_EQ(l.mhz[0], info.min_engine_clock / 1000);
	EXPECT_EQ(l.mhz[l.count - 1], info.max_engine_clock / 1000);
	/* The GPU is idle: the clocks do not change. */
	ASSERT(l.current < l.count);
	EXPECT_EQ(l.mhz[l.current], info_sensor(&k, AMDGPU_INFO_SENSOR_GFX_SCLK));
	read_levels(&k, "pp_dpm_mclk", &l);
	EXPECT_EQ(l.mhz[0], info.min_memory_clock / 1000);
	EXPECT_EQ(l.mhz[l.count - 1], info.max_memory_clock / 1000);
	ASSERT(l.current < l.count);
	EXPECT_EQ(l.mhz[l.current], info_sensor(&k, AMDGPU_INFO_SENSOR_GFX_MCLK));
	for (int i = 0; i < 4; i++)
		read_levels(&k, others[i], &l);
}

/* Reads the limits of the shader clock. */
static void read_limits(const struct kfd *k, unsigned int *lowest, unsigned int *highest)
{
	int n = sscanf(text_of(k, LIMITS), "OD_SCLK:\n0: %uMhz\n1: %uMhz\n", lowest, highest);

	ASSERT(n == 2, "%s", text_of(k, LIMITS));
}

/* Executes a command of the limits with a number, unless that is 0. */
static int command(const struct kfd *k, const char *what, unsigned int mhz)
{
	char text[32];

	snprintf(text, sizeof(text), mhz ? "%s %u\n" : "%s\n", what, mhz);
	return set(k, LIMITS, text);
}

TEST(clock_limits)
{
	unsigned int lowest, highest, low, high, middle;
	char folder[96];
	struct levels l;
	struct kfd k;

	open_unlimited(&k);
	find_hwmon(&k, folder, sizeof(folder));
	read_limits(&k, &lowest, &highest);
	middle = (lowest + highest) / 2;
	EXPECT_RET(command(&k, "s 0", middle), -EINVAL);
	EXPECT_RET(set(&k, "pp_dpm_sclk", "0\n"), -EINVAL);
	EXPECT_OK(set(&k, LEVEL, "manual"));
	/* The card has other limits; words are missing, or too many. */
	EXPECT_RET(command(&k, "s 0", lowest - 1), -EINVAL);
	EXPECT_RET(command(&k, "s 1", highest + 1), -EINVAL);
	EXPECT_RET(command(&k, "s 2", middle), -EINVAL);
	EXPECT_RET(command(&k, "s 1", 0), -EINVAL);
	EXPECT_RET(command(&k, "s", 0), -EINVAL);
	EXPECT_RET(command(&k, "s 0 x", 0), -EINVAL);
	EXPECT_RET(command(&k, "c 1", 0), -EINVAL);
	EXPECT_RET(command(&k, "z", 0), -EINVAL);
	EXPECT_RET(command(&k, "m 0", middle), -EINVAL);
	EXPECT_RET(command(&k, "f 1", 100000), -EINVAL);
	EXPECT_RET(set(&k, "pp_dpm_sclk", "2\n"), -EINVAL);
	EXPECT_RET(set(&k, "pp_dpm_sclk", "x\n"), -EINVAL);
	EXPECT_RET(set(&k, "pp_dpm_mclk", "0\n"), -EINVAL);

	/* An edit is not in force before its commit. */
	EXPECT_OK(command(&k, "s 0", middle));
	EXPECT_OK(command(&k, "s 1", middle + 100));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);
	EXPECT_OK(command(&k, "c", 0));
	read_limits(&k, &low, &high);
	EXPECT(low == middle && high == middle + 100, "%u, %u", low, high);
	/* The C driver reads metrics again after some milliseconds only. */
	usleep(50000);
	EXPECT(fact(&k, folder, "freq1_input", 10) >= middle * 1000000ull);
	read_levels(&k, "pp_dpm_sclk", &l);
	EXPECT_EQ(l.count, 3);
	EXPECT_EQ(l.current, 1);
	EXPECT(l.mhz[1] >= middle, "%u", l.mhz[1]);
	EXPECT_OK(command(&k, "r", 0));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);

	/* A lowest clock above the highest. */
	EXPECT_OK(command(&k, "s 0", middle));
	EXPECT_OK(command(&k, "s 1", middle - 1));
	EXPECT_RET(command(&k, "c", 0), -EINVAL);
	EXPECT_OK(command(&k, "r", 0));

	EXPECT_OK(set(&k, "pp_dpm_sclk", "1\n"));
	usleep(50000);
	EXPECT(fact(&k, folder, "freq1_input", 10) >= highest * 1000000ull);
	EXPECT_OK(set(&k, "pp_dpm_sclk", "0 1\n"));

	EXPECT_OK(command(&k, "s 0", middle));
	EXPECT_OK(command(&k, "c", 0));
	EXPECT_OK(set(&k, LEVEL, "auto"));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);
}

TEST(determinism)
{
	unsigned int lowest, highest, low, high;
	struct kfd k;

	open_unlimited(&k);
	read_limits(&k, &lowest, &highest);
	EXPECT_OK(set(&k, LEVEL, "perf_determinism"));
	EXPECT_OK(command(&k, "s 1", highest - 200));
	EXPECT_OK(command(&k, "c", 0));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest - 200, "%u, %u", low, high);
	EXPECT_OK(set(&k, LEVEL, "manual"));
	read_limits(&k, &low, &high);
	EXPECT(low == lowest && high == highest, "%u, %u", low, high);
	EXPECT_OK(set(&k, LEVEL, "auto"));
}

TEST(power_limit)
{
	char folder[96], cap[128], text[32];
	uint64_t most;
	struct kfd k;

	open_unlimited(&k);
	find_hwmon(&k, folder, sizeof(folder));
	snprintf(cap, sizeof(cap), "%s/power1_cap", folder);
	most = fact(&k, folder, "power1_cap_max", 10);
	EXPECT(most > 100000000 && most < 2000000000, "%" PRIu64, most);
	EXPECT_EQ(fact(&k, folder, "power1_cap_default", 10), most);
	EXPECT_EQ(fact(&k, folder, "power1_cap_min", 10), 0);
	EXPECT_EQ(number_in(&k, cap, 10), most);
	/* In whole W; below the power of the idle socket. */
	EXPECT_OK(set(&k, cap, "100999999\n"));
	EXPECT_EQ(number_in(&k, cap, 10), 100000000);
	usleep(50000);
	EXPECT(fact(&k, folder, "power1_input", 10) <= 100000000);
	EXPECT_OK(set(&k, cap, "0\n"));
	EXPECT_EQ(number_in(&k, cap, 10), 100000000);
	EXPECT_RET(set(&k, cap, "2000000000\n"), -EINVAL);
	EXPECT_RET(set(&k, cap, "5000000000\n"), -ERANGE);
	EXPECT_RET(set(&k, cap, "100 W\n"), -EINVAL);
	EXPECT_EQ(number_in(&k, cap, 10), 100000000);
	snprintf(text, sizeof(text), "%" PRIu64 "\n", most);
	EXPECT_OK(set(&k, cap, text));
	EXPECT_EQ(number_in(&k, cap, 10), most);
}

TEST(temperature_limits)
{
	char folder[96];
	struct kfd k;

	open_unlimited(&k);
	find_hwmon(&k, folder, sizeof(folder));
	for (int i = 2; i <= 3; i++) {
		uint64_t throttled, critical, now;
		char name[32];

		snprintf(name, sizeof(name), "temp%d_input", i);
		now = fact(&k, folder, name, 10);
		snprintf(name, sizeof(name), "temp%d_crit", i);
		throttled = fact(&k, folder, name, 10);
		snprintf(name, sizeof(name), "temp%d_emergency", i);
		critical = fact(&k, folder, name, 10);
		EXPECT(now < throttled && throttled < critical && critical < 150000,
		       "%" PRIu64 ", %" PRIu64 ", %" PRIu64, now, throttled, critical);
	}
}

/* The mask of features and their list agree, with the clocks whose levels are more than one. */
TEST(features)
{
	unsigned int high, low, n, bit, count = 0, last = 0;
	char *lines, name[24], state[12], head[40];
	uint64_t mask, clocks = 0;
	struct kfd k;

	open_unlimited(&k);
	lines = strdup(text_of(&k, "pp_features"));
	ASSERT(lines && sscanf(lines, "features high: 0x%8x low: 0x%8x\n", &high, &low) == 2, "%s",
	       lines);
	mask = (uint64_t)high << 32 | low;
	snprintf(head, sizeof(head), "No. %-20s  Bit : State\n", "Feature");
	lines = strchr(lines, '\n') + 1;
	EXPECT(!strncmp(lines, head, strlen(head)), "%s", lines);
	for (lines = strchr(lines, '\n') + 1; *lines; lines = strchr(lines, '\n') + 1) {
		char line[64];

		ASSERT(sscanf(lines, "%2u. %23s (%2u) : %11s\n", &n, name, &bit, state) == 4, "%s",
		       lines);
		snprintf(line, sizeof(line), "%02u. %-20s (%2u) : %s\n", count, name, bit,
			 mask >> bit & 1 ? "enabled" : "disabled");
		EXPECT(!strncmp(lines, line, strlen(line)), "'%s' is not at '%s'", line, lines);
		EXPECT(bit < 64 && (!count || bit > last), "%u after %u", bit, last);
		clocks |= (uint64_t)(!strcmp(name, "DPM_GFXCLK") || !strcmp(name, "DPM_UCLK") ||
				     !strcmp(name, "DPM_FCLK")) << bit;
		last = bit;
		count++;
	}
	EXPECT_EQ(count, 25);
	/* These clocks have levels, see clock_limits. */
	EXPECT_EQ(__builtin_popcountll(clocks & mask), 3);
}

#define THROTTLING "thermal_throttling_logging"

/* Expects whether throttling is reported, and the interval. */
static void expect_reports(const struct kfd *k, const char *state, unsigned int seconds)
{
	char line[128];

	snprintf(line, sizeof(line),
		 "%04x:%02x:%02x.0: thermal throttling logging %s, with interval %u seconds\n",
		 k->node.domain, k->node.location_id >> 8, k->node.location_id >> 3 & 31, state,
		 seconds);
	EXPECT(!strcmp(text_of(k, THROTTLING), line), "'%s', not '%s'", text_of(k, THROTTLING), line);
}

TEST(reports_of_throttling)
{
	static const char *const refused[] = { "-1", "3601", "x", "1 2", "\n" };
	struct kfd k;

	open_unlimited(&k);
	expect_reports(&k, "enabled", 60);
	EXPECT_OK(set(&k, THROTTLING, "1"));
	expect_reports(&k, "enabled", 1);
	EXPECT_OK(set(&k, THROTTLING, "0xe10\n"));
	expect_reports(&k, "enabled", 3600);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		EXPECT_RET(set(&k, THROTTLING, refused[i]), -EINVAL);
	EXPECT_OK(set(&k, THROTTLING, "0\n"));
	/* As it was. */
	expect_reports(&k, "disabled", 3600);
	EXPECT_OK(set(&k, THROTTLING, "60\n"));
	expect_reports(&k, "enabled", 60);
}

/* Levels of a policy of the power firmware, and the one that it starts with. */
struct policy {
	const char *name;
	int first, count;
	const char *const levels[4];
};

static const struct policy policies[] = {
	{ "pm_policy/soc_pstate", 0, 4,
	  { "soc_pstate_default", "soc_pstate_0", "soc_pstate_1", "soc_pstate_2" } },
	{ "pm_policy/xgmi_plpd", 1, 3, { "plpd_disallow", "plpd_default", "plpd_optimized" } },
};

static void expect_policy(const struct kfd *k, const struct policy *policy, int selected)
{
	char text[160] = "";
	size_t at = 0;

	for (int i = 0; i < policy->count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%d : %s%s\n", i,
				       policy->levels[i], i == selected ? "*" : "");
	EXPECT(!strcmp(text_of(k, policy->name), text), "'%s', not '%s'", text_of(k, policy->name),
	       text);
}

TEST(policies_of_the_firmware)
{
	static const char *const refused[] = { "-1\n", "5\n", "4\n", "x\n", "1 2\n" };
	struct kfd k;

	open_unlimited(&k);
	for (size_t n = 0; n < sizeof(policies) / sizeof(policies[0]); n++) {
		const struct policy *policy = &policies[n];
		char line[16];

		expect_policy(&k, policy, policy->first);
		for (int i = 0; i < policy->count; i++) {
			snprintf(line, sizeof(line), "%#x\n", i);
			EXPECT_OK(set(&k, policy->name, line));
			expect_policy(&k, policy, i);
			EXPECT_OK(set(&k, policy->name, line));
		}
		for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
			EXPECT_RET(set(&k, policy->name, refused[i]), -EINVAL);
		/* The C driver dereferences a null pointer (amdgpu_set_pm_policy_attr). */
		if (ktap_is_rkfd())
			EXPECT_RET(set(&k, policy->name, "\n"), -EINVAL);
		expect_policy(&k, policy, policy->count - 1);
		/* Other clocks and limits stay. */
		EXPECT(!strcmp(text_of(&k, LEVEL), "auto\n"));
		snprintf(line, sizeof(line), "%d\n", policy->first);
		EXPECT_OK(set(&k, policy->name, line));
		expect_policy(&k, policy, policy->first);
	}
}

/* $POLICIES_FAIL: how many messages fail that select a policy; two. */
TEST(policies_that_fail)
{
	struct kfd k;

	if (!getenv("POLICIES_FAIL"))
		SKIP("the firmware selects policies");
	open_unlimited(&k);
	for (int n = 0; n < 2; n++) {
		const struct policy *policy = &policies[n];

		EXPECT_RET(set(&k, policy->name, "2\n"), -EIO);
		expect_policy(&k, policy, policy->first);
		/* The one that is selected needs no message. */
		EXPECT_OK(set(&k, policy->name, policy->first ? "1\n" : "0\n"));
	}
	for (int n = 0; n < 2; n++) {
		EXPECT_OK(set(&k, policies[n].name, "2\n"));
		expect_policy(&k, &policies[n], 2);
		EXPECT_OK(set(&k, policies[n].name, policies[n].first ? "1\n" : "0\n"));
	}
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

	open_unlimited(&k);
	file_path(&k, "pm_metrics", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	n = read(fd, &file, sizeof(file));
	close(fd);
	EXPECT_EQ(n, HEADER + SIZE);
	EXPECT_EQ(file.bytes, n);
	EXPECT_EQ(file.pad, 0);
	version = fact(&k, "ip_discovery/die/0/MP1/0", "major", 10) << 24 |
		  fact(&k, "ip_discovery/die/0/MP1/0", "minor", 10) << 16 |
		  fact(&k, "ip_discovery/die/0/MP1/0", "revision", 10) << 8;
	EXPECT_EQ(file.block, version);
	EXPECT_EQ(file.firmware, fact(&k, "fw_version", "smc_fw_version", 16));
	EXPECT_EQ(file.version, 0x11);
	memcpy(&serial, file.table + SERIAL, sizeof(serial));
	EXPECT_EQ(serial, number_in(&k, "unique_id", 16));
}

/*
 * What is reset after a hang, in the order of the words. The C driver has rings on compute queues,
 * whose waves it can kill, on gfx942.
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
	EXPECT(!strcmp(text_of(&k, "compute_reset_mask"), line), "'%s', not '%s'",
	       text_of(&k, "compute_reset_mask"), line);

	/* The topology of gfx12 does not tell. */
	ASSERT_OK(kfd_sysfs_value(path, "capability2", &value));
	queue = gfx12 || value & HSA_CAP2_PER_SDMA_QUEUE_RESET_SUPPORTED;
	snprintf(line, sizeof(line), "%sfull \n", queue ? "queue " : "");
	EXPECT(!strcmp(text_of(&k, "sdma_reset_mask"), line), "'%s', not '%s'",
	       text_of(&k, "sdma_reset_mask"), line);
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
		EXPECT_EQ(fact(&k, die, "num_ips", 10), instances + (d ? 0 : repeated));
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
	EXPECT_EQ(fact(&k, gc0, "major", 10) << 16 | fact(&k, gc0, "minor", 10) << 8 |
			  fact(&k, gc0, "revision", 10),
		  ip.ip_discovery_version);
}
