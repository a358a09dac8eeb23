// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests the topology in sysfs: every file that user space reads, and consistency of the values. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/kfd_sysfs.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

static uint64_t value(int node, const char *file, const char *key)
{
	char path[300];
	uint64_t number = 0;
	int ret;

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/%s", node, file);
	ret = kfd_sysfs_value(path, key, &number);
	EXPECT(ret == 0, "%s: %s: %s", path, key ? key : "the number", ktap_errno_name(ret));
	return number;
}

static int nodes(void)
{
	char path[300];
	int n = 0;

	for (;; n++) {
		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d", n);
		if (access(path, F_OK))
			return n;
	}
}

static struct kfd_node gpu(void)
{
	struct kfd_node node;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	return node;
}

static int entries(const char *path)
{
	struct dirent *e;
	int n = 0;
	DIR *d = opendir(path);

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

TEST(system_files)
{
	static const char *const keys[] = { "platform_oem", "platform_id", "platform_rev" };
	uint64_t number;

	EXPECT_OK(kfd_sysfs_value(KFD_TOPOLOGY "/generation_id", NULL, &number));
	EXPECT(number > 0);
	for (int i = 0; i < 3; i++)
		EXPECT_OK(kfd_sysfs_value(KFD_TOPOLOGY "/system_properties", keys[i], &number));
}

/* User space counts the entries of nodes/ and assumes the names 0 to n - 1. */
TEST(nodes_are_numbered_without_gaps)
{
	EXPECT(nodes() >= 2, "%d nodes", nodes());
	EXPECT_EQ(entries(KFD_TOPOLOGY "/nodes"), nodes());
	EXPECT_EQ(value(0, "gpu_id", NULL), 0);
}

TEST(gpu_id_fits_mmap_offset)
{
	struct kfd_node node = gpu();

	EXPECT(node.gpu_id > 0 && node.gpu_id <= 0xffff, "%#x", node.gpu_id);
	for (int i = 0; i < nodes(); i++)
		if (i != node.index)
			EXPECT(value(i, "gpu_id", NULL) != node.gpu_id);
}

/*
 * Lines of "key number" in decimal, newline at the end of each; user space parsers stop at the
 * first other line.
 */
static void check_lines(const char *path)
{
	char line[4096], name[128];
	int lines = 0;
	FILE *f = fopen(path, "re");

	if (!EXPECT(f != NULL, "%s: %s", path, strerror(errno)))
		return;
	while (fgets(line, sizeof(line), f)) {
		unsigned long long number;
		int used = 0;

		lines++;
		EXPECT(line[strlen(line) - 1] == '\n', "%s: %s", path, line);
		if (!strncmp(line, "sibling_map ", 12))
			continue;
		EXPECT(sscanf(line, "%127s %llu%n", name, &number, &used) == 2 &&
			       line[used] == '\n',
		       "%s: %s", path, line);
	}
	EXPECT(lines > 0, "%s is empty", path);
	fclose(f);
}

static void check_folder(int node, const char *folder, const char *count_key,
			 const char *const *keys)
{
	uint64_t count = value(node, "properties", count_key);
	char path[300];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/%s", node, folder);
	EXPECT(entries(path) == (int)count, "%s has %d entries, %s is %llu", path, entries(path),
	       count_key, (unsigned long long)count);
	for (uint64_t i = 0; i < count; i++) {
		char file[100];

		snprintf(file, sizeof(file), "%s/%llu/properties", folder, (unsigned long long)i);
		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/%s", node, file);
		check_lines(path);
		for (int n = 0; keys[n]; n++)
			value(node, file, keys[n]);
	}
}

TEST(every_node_has_its_files)
{
	static const char *const bank[] = { "heap_type", "size_in_bytes", "flags",
					    "width",	 "mem_clk_max",	  NULL };
	static const char *const cache[] = { "processor_id_low",
					     "level",
					     "size",
					     "cache_line_size",
					     "cache_lines_per_tag",
					     "association",
					     "latency",
					     "type",
					     NULL };
	static const char *const link[] = { "type",
					    "version_major",
					    "version_minor",
					    "node_from",
					    "node_to",
					    "weight",
					    "min_latency",
					    "max_latency",
					    "min_bandwidth",
					    "max_bandwidth",
					    "recommended_transfer_size",
					    "recommended_sdma_engine_id_mask",
					    "flags",
					    NULL };

	for (int i = 0; i < nodes(); i++) {
		char path[300];

		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", i);
		check_lines(path);
		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/name", i);
		EXPECT(access(path, R_OK) == 0, "%s", path);
		check_folder(i, "mem_banks", "mem_banks_count", bank);
		check_folder(i, "caches", "caches_count", cache);
		check_folder(i, "io_links", "io_links_count", link);
		check_folder(i, "p2p_links", "p2p_links_count", link);
	}
}

/* Returns how many links of a node in one folder are to NUMA nodes. */
static int links_to_cpus(int node, const char *folder, const char *count_key)
{
	uint64_t count = value(node, "properties", count_key);
	int found = 0;

	for (uint64_t i = 0; i < count; i++) {
		char file[100];

		snprintf(file, sizeof(file), "%s/%llu/properties", folder, (unsigned long long)i);
		found += !value((int)value(node, file, "node_to"), "gpu_id", NULL);
	}
	return found;
}

/* The link to the NUMA node of the GPU is direct, and the others go by way of that node. */
TEST(gpu_is_linked_with_every_numa_node)
{
	int node = gpu().index, cpus = 0;

	for (int i = 0; i < nodes(); i++)
		cpus += !value(i, "gpu_id", NULL);
	EXPECT_EQ(links_to_cpus(node, "io_links", "io_links_count"), 1);
	EXPECT_EQ(links_to_cpus(node, "p2p_links", "p2p_links_count"), cpus - 1);
}

TEST(properties_have_every_key_in_order)
{
	static const char *const keys[] = {
		"cpu_cores_count",
		"simd_count",
		"mem_banks_count",
		"caches_count",
		"io_links_count",
		"p2p_links_count",
		"cpu_core_id_base",
		"simd_id_base",
		"max_waves_per_simd",
		"lds_size_in_kb",
		"gds_size_in_kb",
		"num_gws",
		"wave_front_size",
		"array_count",
		"simd_arrays_per_engine",
		"cu_per_simd_array",
		"simd_per_cu",
		"max_slots_scratch_cu",
		"gfx_target_version",
		"vendor_id",
		"device_id",
		"location_id",
		"domain",
		"drm_render_minor",
		"hive_id",
		"num_sdma_engines",
		"num_sdma_xgmi_engines",
		"num_sdma_queues_per_engine",
		"num_cp_queues",
		"cwsr_size",
		"ctl_stack_size",
		"max_engine_clk_fcompute",
		"local_mem_size",
		"fw_version",
		"capability",
		"capability2",
		"debug_prop",
		"sdma_fw_version",
		"unique_id",
		"num_xcc",
		"max_engine_clk_ccompute",
	};
	char path[300], line[256], name[128];
	struct kfd_node node = gpu();
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", node.index);
	f = fopen(path, "re");
	ASSERT(f != NULL);
	while (fgets(line, sizeof(line), f) && sscanf(line, "%127s", name) == 1) {
		ASSERT(n < sizeof(keys) / sizeof(keys[0]), "more keys than the C driver has: %s",
		       name);
		EXPECT(!strcmp(name, keys[n]), "expected %s, got %s", keys[n], name);
		n++;
	}
	EXPECT_EQ(n, sizeof(keys) / sizeof(keys[0]));
	fclose(f);
}

#define SMBIOS_TABLE "/sys/firmware/dmi/tables/DMI"
/* Record of a memory device: its type, its least length, and the offsets of two fields. */
enum { MEMORY_DEVICE = 17, MEMORY_DEVICE_BYTES = 23, TOTAL_WIDTH = 8, SPEED = 21 };

/* Returns the field of the last memory device in SMBIOS that is neither 0 nor `unknown`, or 0. */
static unsigned int memory_device(size_t field, unsigned int unknown)
{
	unsigned int found = 0, value;
	static uint8_t table[65536];
	FILE *file = fopen(SMBIOS_TABLE, "r");
	size_t size, at = 0;

	if (!file)
		return 0;
	size = fread(table, 1, sizeof(table), file);
	fclose(file);
	while (at + 4 <= size) {
		const uint8_t *record = table + at;

		at += record[1];
		/* The strings after it end with an empty one. */
		while (at + 1 < size && (table[at] || table[at + 1]))
			at++;
		at += 2;
		if (at > size || record[0] != MEMORY_DEVICE || record[1] < MEMORY_DEVICE_BYTES)
			continue;
		value = record[field] | record[field + 1] << 8;
		if (value && value != unknown)
			found = value;
	}
	return found;
}

TEST(cpu_node)
{
	EXPECT(value(0, "properties", "cpu_cores_count") >= 1);
	EXPECT((int)value(0, "properties", "cpu_cores_count") <=
	       (int)sysconf(_SC_NPROCESSORS_CONF));
	EXPECT_EQ(value(0, "properties", "simd_count"), 0);
	EXPECT(value(0, "properties", "mem_banks_count") >= 1);
	EXPECT_EQ(value(0, "mem_banks/0/properties", "heap_type"), 0);
	EXPECT(value(0, "mem_banks/0/properties", "size_in_bytes") > 64 << 20);
	EXPECT_EQ(value(0, "mem_banks/0/properties", "width"), memory_device(TOTAL_WIDTH, 0xffff));
	EXPECT_EQ(value(0, "mem_banks/0/properties", "mem_clk_max"), memory_device(SPEED, 0));
}

TEST(gpu_node)
{
	struct kfd_node node = gpu();
	int i = node.index;
	uint32_t cus = node.simd_count / node.simd_per_cu;

	EXPECT_EQ(value(i, "properties", "cpu_cores_count"), 0);
	EXPECT_EQ(node.vendor_id, 0x1002);
	EXPECT(node.gfx_target_version == 90402 || node.gfx_target_version == 120001, "%u",
	       node.gfx_target_version);
	EXPECT_EQ(node.wave_front_size, is_gfx12(&node) ? 32 : 64);
	EXPECT_EQ(node.simd_per_cu, is_gfx12(&node) ? 2 : 4);
	EXPECT_EQ(node.simd_count % node.simd_per_cu, 0);
	EXPECT_EQ(node.lds_size_in_kb, 64);
	/* GFX12 has two pipes with four queues each; two queues of each are the kernel's. */
	EXPECT_EQ(node.num_cp_queues, is_gfx12(&node) ? 4 : 24);
	EXPECT_EQ(value(i, "properties", "max_waves_per_simd"), is_gfx12(&node) ? 16 : 8);
	EXPECT_EQ(node.max_slots_scratch_cu, 32);
	EXPECT(node.num_xcc >= 1 && node.num_xcc <= 8);
	EXPECT(cus > 0 && cus <= (is_gfx12(&node) ? 64 : 40 * node.num_xcc), "%u CUs", cus);
	EXPECT(node.drm_render_minor >= 128 && node.drm_render_minor <= 255);
	EXPECT_EQ(value(i, "properties", "simd_id_base") != 0, 1);
	EXPECT_EQ(value(i, "properties", "local_mem_size"), 0);
	/* Doorbell type 2.0, without which the runtime rejects the GPU. */
	EXPECT_EQ(node.capability >> 12 & 3, 2);
	EXPECT(value(i, "caches/0/properties", "level") >= 1);
	EXPECT(value(i, "mem_banks/0/properties", "mem_clk_max") > 0);
	EXPECT(value(i, "io_links/0/properties", "max_bandwidth") > 0);
	/* With GDDR the width is in the VBIOS only. */
	if (!is_gfx12(&node))
		EXPECT_EQ(value(i, "mem_banks/0/properties", "width"), 8192);
}

/* The SMU reports serial number and clocks; on gfx12 rkfd sends it no message. */
TEST(power_firmware_values)
{
	struct kfd_node node = gpu();
	int i = node.index;

	if (is_gfx12(&node) && ktap_is_rkfd())
		SKIP("the SMU of gfx12 is not used");
	EXPECT(value(i, "properties", "unique_id") != 0);
	/* 100 is the value of a driver without power management. */
	EXPECT(value(i, "properties", "max_engine_clk_fcompute") > 100);
	EXPECT(value(i, "mem_banks/0/properties", "mem_clk_max") > 100);
}

/* $HIVE_ID is the id of the board; a card in no xGMI hive that is one node has none. */
TEST(hive_id_is_that_of_the_board)
{
	const char *expected = getenv("HIVE_ID");

	EXPECT_EQ(value(gpu().index, "properties", "hive_id"),
		  expected ? strtoull(expected, NULL, 0) : 0);
}

/* $ECC is set if the memory has RAS: errors are detected, and reported as events. */
TEST(memory_errors_are_reported)
{
	uint64_t capability = value(gpu().index, "properties", "capability");
	uint64_t memory = HSA_CAP_MEM_EDCSUPPORTED | HSA_CAP_RASEVENTNOTIFY;

	EXPECT_EQ(capability & (memory | HSA_CAP_SRAM_EDCSUPPORTED), getenv("ECC") ? memory : 0);
}

/* The context save size follows from the number of CUs; ROCm 7.2 reads it from here. */
TEST(context_save_size_matches_cus)
{
	struct kfd_node node = gpu();
	uint32_t cus = node.simd_count / node.simd_per_cu / node.num_xcc;
	uint32_t engines = node.array_count / node.num_xcc / node.simd_arrays_per_engine;
	bool new = is_gfx12(&node);
	uint32_t waves = new ? cus * 32 : cus * 40 < engines * 512 ? cus * 40 : engines * 512;
	uint32_t control = (40 + waves * (new ? 12 : 8) + 8 + 4095) & ~4095u;
	/* VGPRs, SGPRs, LDS and hardware registers of each CU. */
	uint32_t groups = (cus * ((new ? 0x60000 : 0x80000) + 0x4000 + 0x10000 + 0x1000) + 4095) &
			  ~4095u;

	EXPECT_EQ(node.ctl_stack_size, control);
	EXPECT_EQ(node.cwsr_size, control + groups);
}

/* Returns the path of a file of the PCI device, of which partitions have function numbers. */
static const char *pci_file(const struct kfd_node *node, const char *name)
{
	static char path[300];

	for (uint32_t function = node->location_id & 7;; function = 0) {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/%s",
			 node->domain, node->location_id >> 8, node->location_id >> 3 & 31,
			 function, name);
		if (!function || !access(path, F_OK))
			return path;
	}
}

TEST(pci_ids_match_device)
{
	struct kfd_node node = gpu();
	const char *path = pci_file(&node, "device");
	char text[64], name[64];
	FILE *f;

	f = fopen(path, "re");
	ASSERT(f != NULL, "%s", path);
	ASSERT(fgets(text, sizeof(text), f) != NULL);
	fclose(f);
	EXPECT_EQ(strtoul(text, NULL, 16), node.device_id);
	/* The render node belongs to that device; other partitions may have one of their own. */
	if (node.location_id & 7)
		return;
	snprintf(name, sizeof(name), "drm/renderD%u", node.drm_render_minor);
	path = pci_file(&node, name);
	EXPECT(access(path, F_OK) == 0, "%s", path);
}

TEST(vram_is_one_bank)
{
	struct kfd_node node = gpu();
	uint64_t start = 0, end = 0;
	char line[128];
	FILE *f;

	EXPECT_EQ(value(node.index, "properties", "mem_banks_count"), 1);
	EXPECT(value(node.index, "mem_banks/0/properties", "heap_type") == 1 ||
	       value(node.index, "mem_banks/0/properties", "heap_type") == 2);
	EXPECT(node.vram_bytes > 0);
	if (!node.large_bar)
		return;
	/* The first BAR covers all of it. */
	f = fopen(pci_file(&node, "resource"), "re");
	ASSERT(f != NULL);
	ASSERT(fgets(line, sizeof(line), f) != NULL);
	ASSERT(sscanf(line, "%lx %lx", &start, &end) == 2);
	fclose(f);
	EXPECT(node.vram_bytes <= end - start + 1, "%llu bytes, a BAR of %llu",
	       (unsigned long long)node.vram_bytes, (unsigned long long)(end - start + 1));
}

/* One PCIe link in each direction between CPU node and GPU node. */
TEST(io_links_in_both_directions)
{
	struct kfd_node node = gpu();
	bool there = false, back = false;

	for (uint64_t i = 0; i < value(node.index, "properties", "io_links_count"); i++) {
		char file[64];

		snprintf(file, sizeof(file), "io_links/%llu/properties", (unsigned long long)i);
		EXPECT_EQ(value(node.index, file, "node_from"), (uint64_t)node.index);
		if (value(node.index, file, "node_to") == 0) {
			there = true;
			EXPECT_EQ(value(node.index, file, "type"), 2);
			EXPECT(value(node.index, file, "weight") <= 20);
		}
	}
	for (uint64_t i = 0; i < value(0, "properties", "io_links_count"); i++) {
		char file[64];

		snprintf(file, sizeof(file), "io_links/%llu/properties", (unsigned long long)i);
		EXPECT_EQ(value(0, file, "node_from"), 0);
		back |= value(0, file, "node_to") == (uint64_t)node.index;
	}
	EXPECT(there);
	/* CPU to GPU: only with a BAR that covers all of VRAM. */
	if (node.large_bar)
		EXPECT(back);
}

/* Reads a register of the PCI Express capability, 0 without one; `path` is that of the device. */
static uint32_t express(const char *path, int offset)
{
	unsigned char config[256];
	char name[300];
	uint32_t word;
	int fd, at;

	snprintf(name, sizeof(name), "%s/config", path);
	fd = open(name, O_RDONLY);
	ASSERT(fd >= 0, "%s: %s", name, strerror(errno));
	ASSERT_EQ(pread(fd, config, sizeof(config), 0), sizeof(config));
	close(fd);
	for (at = config[0x34]; at && config[at] != 0x10; at = config[at + 1])
		;
	if (!at)
		return 0;
	memcpy(&word, config + at + offset, sizeof(word));
	return word;
}

/* AtomicOp requests are enabled and reported if the root port completes 32 and 64 bits. */
TEST(atomics_if_root_port_completes_them)
{
	const uint32_t completer = 3 << 7, requester = 1 << 6, none = 3 << 2;
	struct kfd_node node = gpu();
	char path[128], port[140];
	bool atomics;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x", node.domain,
		 node.location_id >> 8, node.location_id >> 3 & 31, node.location_id & 7);
	snprintf(port, sizeof(port), "%s/../vendor", path);
	if (access(port, F_OK))
		SKIP("the GPU is on a root bus");
	snprintf(port, sizeof(port), "%s/..", path);
	atomics = (express(port, 0x24) & completer) == completer;
	EXPECT_EQ(!!(express(path, 0x28) & requester), atomics);
	EXPECT_EQ(value(node.index, "io_links/0/properties", "flags") & none, atomics ? 0 : none);
	if (node.large_bar)
		EXPECT_EQ(value(0, "io_links/0/properties", "flags") & none,
			  express(path, 0x24) & completer ? 0 : none);
}

TEST(caches)
{
	struct kfd_node node = gpu();
	bool level[4] = { false };

	EXPECT(value(node.index, "properties", "caches_count") >= 1);
	for (uint64_t i = 0; i < value(node.index, "properties", "caches_count"); i++) {
		char file[64], path[300], line[8192];
		uint64_t l;
		FILE *f;
		int siblings = 0;

		snprintf(file, sizeof(file), "caches/%llu/properties", (unsigned long long)i);
		l = value(node.index, file, "level");
		EXPECT(l >= 1 && l <= 3, "cache %llu: level %llu", (unsigned long long)i,
		       (unsigned long long)l);
		level[l & 3] = true;
		EXPECT(value(node.index, file, "size") > 0);
		EXPECT((value(node.index, file, "type") & 8) != 0, "not a cache of CUs");
		snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/%s", node.index, file);
		f = fopen(path, "re");
		ASSERT(f != NULL);
		while (fgets(line, sizeof(line), f))
			if (!strncmp(line, "sibling_map ", 12))
				for (char *c = line + 12; *c; c++)
					siblings += *c == '1';
		fclose(f);
		EXPECT(siblings > 0, "cache %llu: empty sibling_map", (unsigned long long)i);
	}
	EXPECT(level[1]);
	EXPECT(level[2]);
	EXPECT(level[3], "no L3: the memory attached cache of the discovery table");
}

TEST(files_are_read_only)
{
	struct kfd_node node = gpu();
	struct stat s;
	char path[300];

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", node.index);
	ASSERT(stat(path, &s) == 0);
	EXPECT_EQ(s.st_mode & 0222, 0);
	ASSERT(stat(KFD_TOPOLOGY "/generation_id", &s) == 0);
	EXPECT_EQ(s.st_mode & 0222, 0);
}
