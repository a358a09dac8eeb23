// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests a card that is plugged in when the driver is already there (scripts/vm --plug). QEMU's
 * monitor, which plugs it in, is the serial port $QEMU_MONITOR of the guest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "../workloads/control.h"
#include "device.h"
#include "fixture.h"

/* The command that plugs the GPU in, from scripts/vm. */
#define PLUG_COMMAND "/tests/plug"
#define SECONDS 60

static int monitor = -1;

/* Reads a line of the monitor. Returns false after the time limit. */
static bool read_line(char *line, size_t size, double end)
{
	size_t n = 0;

	while (seconds_now() < end) {
		struct pollfd p = { .fd = monitor, .events = POLLIN };
		char c;

		if (poll(&p, 1, 100) != 1 || read(monitor, &c, 1) != 1)
			continue;
		if (c == '\n' && n)
			break;
		if (c != '\n' && c != '\r' && n < size - 1)
			line[n++] = c;
	}
	line[n] = 0;
	return n > 0;
}

/* Waits for the reply to a command. Returns 0, -EIO for an error unless it is `ignored`, -ETIME. */
static int wait_reply(bool ignored)
{
	double end = seconds_now() + SECONDS * ktap_time_factor();
	char line[1024];

	while (read_line(line, sizeof(line), end)) {
		if (strstr(line, "\"return\""))
			return 0;
		if (strstr(line, "\"error\"") && !ignored) {
			ktap_note("%s", line);
			return -EIO;
		}
	}
	return -ETIME;
}

static int command(const char *text)
{
	size_t length = strlen(text);

	if (write(monitor, text, length) != (ssize_t)length)
		return -errno;
	return 0;
}

static void open_monitor(void)
{
	monitor = port_open("QEMU_MONITOR");
	ASSERT(monitor >= 0, "QEMU_MONITOR: %s", strerror(-monitor));
	/* The port has echoed a part of the greeting: 0xff resets the monitor's parser. */
	ASSERT_OK(command("\xff{\"execute\":\"qmp_capabilities\"}\n"));
	ASSERT_OK(wait_reply(true));
}

static void plug_in(void)
{
	int file = open(PLUG_COMMAND, O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t n = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

	ASSERT(n > 0, PLUG_COMMAND ": %s", strerror(errno));
	close(file);
	text[n] = 0;
	ASSERT_OK(command(text));
	ASSERT_OK(wait_reply(false));
}

static bool has_render_node(void)
{
	glob_t nodes;
	bool found = !glob("/dev/dri/renderD*", 0, NULL, &nodes);

	if (found)
		globfree(&nodes);
	return found;
}

/* Returns whether the topology has a GPU and its render node exists. */
static bool is_there(void)
{
	struct kfd_node node;

	return !kfd_topology_find_gpu(&node) && has_render_node();
}

/* Returns whether there is neither. */
static bool is_gone(void)
{
	struct kfd_node node;

	return kfd_topology_find_gpu(&node) && !has_render_node();
}

TEST_TIMEOUT(card_is_found, 200)
{
	double end;

	ASSERT(is_gone());
	EXPECT(access("/dev/kfd", F_OK) == 0);
	open_monitor();
	plug_in();
	end = seconds_now() + SECONDS * ktap_time_factor();
	while (!is_there()) {
		ASSERT(seconds_now() < end);
		usleep(50000);
	}
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	device_find();
	ASSERT_OK(device_remove());
	EXPECT(is_gone());
	ASSERT_OK(device_rescan());
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
