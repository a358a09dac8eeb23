// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Reads and writes files of the GPU in sysfs, see cardfiles.h. */
#define _GNU_SOURCE
#include "cardfiles.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "fixture.h"

void card_path(const struct kfd *k, const char *name, char *path, size_t size)
{
	snprintf(path, size, "/sys/bus/pci/devices/%04x:%02x:%02x.0/%s", k->node.domain,
		 k->node.location_id >> 8, k->node.location_id >> 3 & 31, name);
}

const char *card_text(const struct kfd *k, const char *name)
{
	static char text[4096];
	char path[256];
	ssize_t n = 0;
	int fd;

	card_path(k, name, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	return text;
}

uint64_t card_number(const struct kfd *k, const char *name, int base)
{
	const char *text = card_text(k, name);
	char *end;
	uint64_t value = strtoull(text, &end, base);

	EXPECT(end > text && !strcmp(end, "\n"), "%s: '%s'", name, text);
	return value;
}

uint64_t card_fact(const struct kfd *k, const char *folder, const char *file, int base)
{
	char name[160];

	snprintf(name, sizeof(name), "%s/%s", folder, file);
	return card_number(k, name, base);
}

uint32_t card_sensor(struct kfd *k, uint32_t type)
{
	uint32_t value = 0;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&value),
					   .return_size = sizeof(value),
					   .query = AMDGPU_INFO_SENSOR,
					   .sensor_info = { .type = type } };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return value;
}

void card_hwmon(const struct kfd *k, char *folder, size_t size)
{
	struct dirent *entry;
	char path[256];
	DIR *dir;

	*folder = 0;
	card_path(k, "hwmon", path, sizeof(path));
	dir = opendir(path);
	ASSERT(dir, "%s: %s", path, strerror(errno));
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "hwmon", 5))
			snprintf(folder, size, "hwmon/%.32s", entry->d_name);
	closedir(dir);
	ASSERT(*folder);
}

int card_set(const struct kfd *k, const char *name, const char *text)
{
	char path[256];

	card_path(k, name, path, sizeof(path));
	return write_file(path, text);
}

void card_open_unlimited(struct kfd *k)
{
	fixture_open(k);
	if (is_gfx12(&k->node))
		SKIP("the SMU of gfx12 is not used, or has other clocks");
	EXPECT_OK(card_set(k, CARD_LEVEL, "auto\n"));
}
