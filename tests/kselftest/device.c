// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Binds, unbinds, resets and suspends the PCI device, see device.h. */
#define _GNU_SOURCE
#include "device.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

static char address[32], driver[256];

void device_find(void)
{
	struct kfd_node node;
	char path[128], target[256];
	ssize_t n;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	/* Later nodes of a card have the numbers of functions that do not exist. */
	for (uint32_t function = node.location_id & 7;; function = 0) {
		snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", node.domain,
			 node.location_id >> 8, node.location_id >> 3 & 31, function);
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", address);
		n = readlink(path, target, sizeof(target) - 1);
		if (n >= 0 || !function)
			break;
	}
	ASSERT(n > 0, "%s: %s", path, strerror(errno));
	target[n] = 0;
	snprintf(driver, sizeof(driver), "/sys/bus/pci/drivers/%s", strrchr(target, '/') + 1);
}

const char *device_name(void)
{
	return address;
}

/* Opens the file that a pattern names. */
static int open_file(const char *pattern, int flags)
{
	char path[256];
	glob_t found;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, pattern);
	ASSERT(!glob(path, 0, NULL, &found) && found.gl_pathc == 1, "%s", path);
	fd = open(found.gl_pathv[0], flags | O_CLOEXEC);
	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	globfree(&found);
	return fd;
}

bool device_has(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, name);
	return !access(path, F_OK);
}

int device_try_set(const char *pattern, const char *text)
{
	int fd = open_file(pattern, O_WRONLY), ret = 0;

	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ret = -errno;
	close(fd);
	return ret;
}

void device_set(const char *pattern, const char *text)
{
	int ret = device_try_set(pattern, text);

	EXPECT(!ret, "%s: %s", pattern, strerror(-ret));
}

int device_try_get(const char *pattern, char *text, size_t size)
{
	int fd = open_file(pattern, O_RDONLY), ret = 0;
	ssize_t n = read(fd, text, size - 1);

	if (n < 0)
		ret = -errno;
	text[n > 0 ? n : 0] = 0;
	close(fd);
	return ret;
}

void device_get(const char *pattern, char *text, size_t size)
{
	int ret = device_try_get(pattern, text, size);

	EXPECT(!ret && text[0], "%s: %s", pattern, strerror(-ret));
}

static int tell_driver(const char *what)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", driver, what);
	return write_file(path, address);
}

int device_unbind(void)
{
	return tell_driver("unbind");
}

int device_bind(void)
{
	return tell_driver("bind");
}

int device_remove(void)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", address);
	return write_file(path, "1");
}

int device_rescan(void)
{
	int ret = write_file("/sys/bus/pci/rescan", "1");
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", address);
	if (!ret && access(path, F_OK) != 0)
		return -errno;
	return ret;
}

static const char *reset_file(void)
{
	static char path[96];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/reset", address);
	return path;
}

void device_need_reset(void)
{
	device_find();
	if (access(reset_file(), W_OK) != 0)
		SKIP("no reset method for this PCI device");
}

void device_reset(void)
{
	double start = seconds_now(), took;

	EXPECT_OK(write_file(reset_file(), "1"));
	took = seconds_now() - start;
	EXPECT(took < RESET_SECONDS, "the reset took %.1f s", took);
}

void need_sleep(void)
{
	if (access("/sys/power/pm_test", F_OK))
		SKIP("no /sys/power/pm_test");
}

int try_to_sleep(const char *depth)
{
	int ret;

	need_sleep();
	write_file("/sys/module/suspend/parameters/pm_test_delay", "1");
	ASSERT_OK(write_file("/sys/power/pm_test", depth));
	ret = write_file("/sys/power/state", "freeze");
	write_file("/sys/power/pm_test", "none");
	return ret;
}

int uevents_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	ASSERT(fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)), "uevents: %s",
	       strerror(errno));
	return fd;
}

bool uevents_have(int fd, const char *variable, unsigned int ms)
{
	double end = seconds_now() + ms / 1000.0;
	char text[8192];

	while (seconds_now() < end) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n = poll(&p, 1, 100) == 1 ? recv(fd, text, sizeof(text) - 1, 0) : 0;

		if (n <= 0)
			continue;
		text[n] = 0;
		/* Variables after the name of the event, each with a zero at its end. */
		for (char *at = text; at < text + n; at += strlen(at) + 1) {
			if (!strcmp(at, variable))
				return true;
		}
	}
	return false;
}

int kmsg_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	ASSERT(fd >= 0 && lseek(fd, 0, SEEK_END) >= 0, "/dev/kmsg: %s", strerror(errno));
	return fd;
}

bool kmsg_next(int fd, char *line, size_t size)
{
	ssize_t n;

	/* EPIPE: records were overwritten before they were read. */
	do
		n = read(fd, line, size - 1);
	while (n < 0 && errno == EPIPE);
	line[n > 0 ? n : 0] = 0;
	return n > 0;
}

int kmsg_lines_with(int fd, const char *text)
{
	char line[2048];
	int found = 0;

	while (kmsg_next(fd, line, sizeof(line)))
		found += strstr(line, text) != NULL;
	return found;
}

bool kmsg_wait_for(int fd, const char *text, int seconds)
{
	double end = seconds_now() + seconds * ktap_time_factor();

	while (seconds_now() < end) {
		if (kmsg_lines_with(fd, text))
			return true;
		usleep(20000);
	}
	return false;
}
