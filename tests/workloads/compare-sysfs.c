// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Part of `compare` that prints the files in sysfs of the GPU, of itself as a process, and of
 * the driver's module: type, permissions, and content.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compare.h"

#define MAX_CONTENT (1u << 20)

/*
 * Files that are not read: their content depends on time, or is that of the module's file.
 * reg_state has registers of links that the GPU model does not have.
 */
static const char *const unread[] = {
	"coresize", "initsize", "refcnt", "reg_state", "runtime_active_time",
	"runtime_suspended_time", "srcversion", "taint",
};
/* Folders of the module's file, and of modules that use it. */
static const char *const unlisted[] = { "holders", "notes", "sections" };
static const char *driver;

static bool is_among(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Prints a text, with DRIVER for the name of the driver if `names` it. */
static void print_text(const char *text, bool names)
{
	size_t length = strlen(driver);
	const char *at;

	while (names && (at = strstr(text, driver))) {
		printf("%.*sDRIVER", (int)(at - text), text);
		text = at + length;
	}
	puts(text);
}

/* Prints the content of a file: lines, or the number of bytes, or the errno. */
static void print_content(const char *path, const char *shown, const char *name)
{
	static char content[MAX_CONTENT + 1];
	size_t size = 0;
	ssize_t n;
	char *line, *rest = content;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		printf("cmp sysfs %s: errno %d\n", shown, errno);
		return;
	}
	while ((n = read(fd, content + size, MAX_CONTENT - size)) > 0)
		size += (size_t)n;
	if (n < 0)
		printf("cmp sysfs %s: errno %d\n", shown, errno);
	close(fd);
	content[size] = 0;
	for (size_t i = 0; i < size; i++) {
		if (!isprint((unsigned char)content[i]) && !isspace((unsigned char)content[i])) {
			printf("cmp sysfs %s: %zu bytes\n", shown, size);
			return;
		}
	}
	if (size && content[size - 1] == '\n')
		content[size - 1] = 0;
	while (size && (line = strsep(&rest, "\n"))) {
		printf("cmp sysfs %s: ", shown);
		print_text(line, !strcmp(name, "uevent"));
	}
}

/* Returns how an entry of a directory is shown: numbers that a boot assigns are left out. */
static const char *shown_name(const char *folder, const char *name, char *buf, size_t size)
{
	const char *at = strstr(name, driver);

	folder = strrchr(folder, '/') + 1;
	if (!strcmp(folder, "msi_irqs"))
		return "N";
	if (!strcmp(folder, "proc") && atoi(name) == getpid())
		return "PID";
	if (!at || strcmp(folder, "drivers"))
		return name;
	snprintf(buf, size, "%.*sDRIVER", (int)(at - name), name);
	return buf;
}

/*
 * Prints the files below `path` as files of `shown`; links are not followed. Returns 0 or a
 * negative errno.
 */
static int print_folder(const char *path, const char *shown)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;
		char sub[1024], sub_shown[1024], target[1024], buf[256];
		struct stat s;
		ssize_t n;

		snprintf(sub, sizeof(sub), "%s/%s", path, name);
		snprintf(sub_shown, sizeof(sub_shown), "%s/%s", shown,
			 shown_name(path, name, buf, sizeof(buf)));
		if (!strcmp(name, ".") || !strcmp(name, "..") || lstat(sub, &s) ||
		    is_among(name, unlisted, sizeof(unlisted) / sizeof(unlisted[0]))) {
			free(entries[i]);
			continue;
		}
		if (S_ISDIR(s.st_mode)) {
			printf("cmp sysfs %s folder %o\n", sub_shown, s.st_mode & 0777);
			print_folder(sub, sub_shown);
		} else if (S_ISLNK(s.st_mode)) {
			n = readlink(sub, target, sizeof(target) - 1);
			target[n > 0 ? n : 0] = 0;
			printf("cmp sysfs %s link ", sub_shown);
			print_text(strrchr(target, '/') ? strrchr(target, '/') + 1 : target, true);
		} else {
			printf("cmp sysfs %s file %o\n", sub_shown, s.st_mode & 0777);
			if (s.st_mode & 0444 &&
			    !is_among(name, unread, sizeof(unread) / sizeof(unread[0])))
				print_content(sub, sub_shown, name);
		}
		free(entries[i]);
	}
	if (count < 0)
		return -errno;
	free(entries);
	return 0;
}

/*
 * Prints all of them; the topology is another part. The accesses to the GPU are a section of their
 * own.
 */
int compare_sysfs(struct compare *c)
{
	char device[64], path[128];
	int ret = compare_mark(c, "sysfs");

	if (ret)
		return ret;
	driver = getenv("DRIVER");
	if (!driver)
		return compare_failed("$DRIVER", -EINVAL);
	ret = compare_device(device, sizeof(device));
	if (ret)
		return compare_failed("GPU", ret);
	ret = print_folder(device, "device");
	ret = ret ? ret : print_folder("/sys/class/kfd/kfd/proc", "proc");
	snprintf(path, sizeof(path), "/sys/module/%s", driver);
	ret = ret ? ret : print_folder(path, "module");
	snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s", driver);
	ret = ret ? ret : print_folder(path, "driver");
	return ret ? compare_failed("a folder in sysfs", ret) : 0;
}
