// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the files of the board in sysfs: those from the VBIOS, against the copy of the render node,
 * or without a VBIOS; vendor of the VRAM; product data of the FRU EEPROM; power_dpm_state.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include <drm/amdgpu_drm.h>

#include "device.h"
#include "fixture.h"

#define IMAGE_SIZE (1u << 20)
#define MAGIC " 761295520"
/* Offsets in the image (include/atomfirmware.h). */
#define MAGIC_AT 0x30
#define HEADER_AT 0x48
#define DATE_AT 0x50
#define STRINGS_AT 0x6e
#define CONFIG_IN_HEADER 0xc

/* Sends a request about the VBIOS. Returns 0 or a negative errno. */
static int request(const struct kfd *k, uint32_t type, uint32_t offset, void *out, uint32_t size)
{
	struct drm_amdgpu_info info = { .return_pointer = kfd_va(out),
					.return_size = size,
					.query = AMDGPU_INFO_VBIOS,
					.vbios_info = { .type = type, .offset = offset } };

	return kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &info);
}

/* Returns the size of the VBIOS, 0 without one. */
static uint32_t vbios_size(const struct kfd *k)
{
	uint32_t size = ~0u;

	ASSERT_OK(request(k, AMDGPU_INFO_VBIOS_SIZE, 0, &size, sizeof(size)));
	return size;
}

static unsigned int u16(const uint8_t *image, unsigned int at)
{
	return image[at] | image[at + 1] << 8;
}

/* Expects a file of the device to be a line, or not to be there if `text` is empty. */
static void expect_line(const char *name, const char *text)
{
	char line[128] = "", wanted[128];

	snprintf(wanted, sizeof(wanted), *text ? "%s\n" : "%s", text);
	if (device_has(name))
		device_get(name, line, sizeof(line));
	EXPECT(!strcmp(line, wanted), "%s: '%s', not '%s'", name, line, wanted);
}

/* Returns the permissions of a file of the PCI devices that have one of this name. */
static unsigned int mode_of(const char *name)
{
	char pattern[128];
	unsigned int mode = 0;
	struct stat stat_of;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/sys/bus/pci/devices/*/%s", name);
	ASSERT(!glob(pattern, 0, NULL, &found));
	for (size_t i = 0; i < found.gl_pathc; i++) {
		ASSERT(!stat(found.gl_pathv[i], &stat_of));
		mode |= stat_of.st_mode & 0777;
	}
	globfree(&found);
	return mode;
}

/* The vendor is one of the list, and $VRAM_VENDOR if that is set. */
TEST(vendor_of_the_memory)
{
	static const char *const vendors[] = { "samsung", "infineon", "elpida", "etron", "nanya",
					       "hynix", "mosel", "winbond", "esmt", "micron" };
	const char *wanted = getenv("VRAM_VENDOR");
	bool known = false;
	char line[32];

	device_find();
	if (!device_has("mem_info_vram_vendor") && !wanted)
		SKIP("the VBIOS has left no vendor");
	device_get("mem_info_vram_vendor", line, sizeof(line));
	line[strcspn(line, "\n")] = 0;
	for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
		known |= !strcmp(line, vendors[i]);
	EXPECT(known, "%s", line);
	EXPECT(!wanted || !strcmp(line, wanted), "%s, not %s", line, wanted);
}

TEST(form_of_the_board)
{
	struct kfd k;

	fixture_open(&k);
	device_find();
	expect_line("board_info", is_gfx12(&k.node) ? "type : cem" : "type : oam");
}

TEST(vbios)
{
	uint8_t *image = calloc(1, IMAGE_SIZE), part[64];
	const char *strings, *build;
	struct drm_amdgpu_info_vbios info = { 0 };
	char date[20];
	uint32_t size;
	struct kfd k;

	fixture_open(&k);
	device_find();
	ASSERT(image);
	size = vbios_size(&k);
	if (!size)
		SKIP("no VBIOS");
	ASSERT(size < IMAGE_SIZE);
	ASSERT_OK(request(&k, AMDGPU_INFO_VBIOS_IMAGE, 0, image, size));
	EXPECT_EQ(u16(image, 0), 0xaa55);
	EXPECT(!memcmp(image + MAGIC_AT, MAGIC, strlen(MAGIC)));
	/* A part of it; none beyond its end. */
	ASSERT_OK(request(&k, AMDGPU_INFO_VBIOS_IMAGE, size - sizeof(part) / 2, part, sizeof(part)));
	EXPECT(!memcmp(part, image + size - sizeof(part) / 2, sizeof(part) / 2));
	EXPECT_RET(request(&k, AMDGPU_INFO_VBIOS_IMAGE, size, part, sizeof(part)), -EINVAL);
	EXPECT_RET(request(&k, AMDGPU_INFO_VBIOS_INFO + 1, 0, part, sizeof(part)), -EINVAL);

	ASSERT_OK(request(&k, AMDGPU_INFO_VBIOS_INFO, 0, &info, sizeof(info)));
	strings = (char *)image + u16(image, STRINGS_AT);
	EXPECT(*strings && !strcmp((char *)info.vbios_pn, strings), "%s", info.vbios_pn);
	expect_line("vbios_version", strings);
	snprintf(date, sizeof(date), "20%.2s/%.2s/%.2s %.5s", image + DATE_AT + 6, image + DATE_AT,
		 image + DATE_AT + 3, image + DATE_AT + 9);
	EXPECT(!strcmp((char *)info.date, date), "%s, not %s", info.date, date);
	EXPECT(*info.vbios_ver_str &&
	       memmem(image, size, info.vbios_ver_str, strnlen((char *)info.vbios_ver_str, 32)));
	EXPECT(*info.name && memmem(image, size, info.name, strlen((char *)info.name)));
	/* Configuration, list of changes, build number. */
	build = (char *)image + u16(image, u16(image, HEADER_AT) + CONFIG_IN_HEADER);
	build += strlen(build) + 1;
	build += strlen(build) + 1;
	expect_line("vbios_build", build);
	free(image);
}

TEST(no_vbios)
{
	struct drm_amdgpu_info_vbios info, none = { 0 };
	struct kfd k;

	fixture_open(&k);
	device_find();
	if (vbios_size(&k))
		SKIP("there is a VBIOS");
	expect_line("vbios_version", "");
	expect_line("vbios_build", "");
	memset(&info, 0xff, sizeof(info));
	ASSERT_OK(request(&k, AMDGPU_INFO_VBIOS_INFO, 0, &info, sizeof(info)));
	EXPECT(!memcmp(&info, &none, sizeof(info)));
	EXPECT_RET(request(&k, AMDGPU_INFO_VBIOS_IMAGE, 0, &info, sizeof(info)), -EINVAL);
}

/*
 * $PRODUCT: manufacturer, name, part number, serial number and id in the FRU EEPROM, with commas
 * between them, or `unknown` if it cannot be read. Without it each has a text.
 */
TEST(product)
{
	static const char *const files[] = { "manufacturer", "product_name", "product_number",
					     "serial_number", "fru_id" };
	const char *given = getenv("PRODUCT");
	char *texts = strdup(given ? given : ""), *rest = texts, line[128];
	bool unknown = given && !strcmp(given, "unknown");
	struct kfd k;

	fixture_open(&k);
	device_find();
	for (int i = 0; i < 5; i++) {
		if (is_gfx12(&k.node)) {
			EXPECT(!device_has(files[i]));
			continue;
		}
		device_get(files[i], line, sizeof(line));
		EXPECT_EQ(mode_of(files[i]), 0444);
		if (given && !unknown)
			expect_line(files[i], strsep(&rest, ","));
		else if (unknown && strcmp(files[i], "serial_number"))
			EXPECT(!strcmp(line, "\n"), "%s: '%s'", files[i], line);
		else
			EXPECT(strlen(line) > 1 && strchr(line, '\n'), "%s", files[i]);
	}
	free(texts);
}

TEST(serial_number_of_the_package)
{
	const char *given = getenv("PRODUCT");
	char line[64];

	if (!given || strcmp(given, "unknown"))
		SKIP("the FRU EEPROM can be read");
	device_find();
	device_get("unique_id", line, sizeof(line));
	snprintf(line, sizeof(line), "%llx", strtoull(line, NULL, 16));
	expect_line("serial_number", line);
}

/* These GPUs have one state, which a write does not change. */
TEST(power_state)
{
	static const char *const states[] = { "battery", "balanced", "performance\n" };
	struct kfd k;

	fixture_open(&k);
	device_find();
	if (is_gfx12(&k.node) && ktap_is_rkfd())
		SKIP("the SMU of gfx12 is not used");
	expect_line("power_dpm_state", "performance");
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(device_try_set("power_dpm_state", states[i]));
		expect_line("power_dpm_state", "performance");
	}
	EXPECT_RET(device_try_set("power_dpm_state", "fast"), -EINVAL);
	EXPECT_RET(device_try_set("power_dpm_state", "\n"), -EINVAL);
}
