// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The control socket of the GPU model. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "control.h"

#define REPLY_MS 5000

int port_open(const char *variable)
{
	const char *path = getenv(variable);
	struct termios mode;
	int port;

	if (!path)
		return -ENODEV;
	port = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (port < 0)
		return -errno;
	if (tcgetattr(port, &mode)) {
		int error = errno;

		close(port);
		return -error;
	}
	cfmakeraw(&mode);
	tcsetattr(port, TCSANOW, &mode);
	tcflush(port, TCIOFLUSH);
	return port;
}

int control_open(void)
{
	return port_open("MODEL_CONTROL");
}

int control_send(int control, const char *command)
{
	char line[128];
	int length = snprintf(line, sizeof(line), "%s\n", command);

	if (length >= (int)sizeof(line))
		return -EINVAL;
	return write(control, line, (size_t)length) == length ? 0 : -EIO;
}

static const char *read_reply(int control)
{
	static char reply[256];
	size_t n = 0;

	for (;;) {
		struct pollfd p = { .fd = control, .events = POLLIN };

		if (n == sizeof(reply) - 1 || poll(&p, 1, REPLY_MS) != 1 ||
		    read(control, reply + n, 1) != 1)
			return NULL;
		if (reply[n] == '\n')
			break;
		if (reply[n] != '\r')
			n++;
	}
	reply[n] = 0;
	return reply;
}

const char *control_ask(int control, const char *command)
{
	return control_send(control, command) ? NULL : read_reply(control);
}

int control_barrier(int control)
{
	static unsigned int number;
	char command[64], name[32];
	const char *reply;

	/* The reply to an unknown knob names it. */
	snprintf(name, sizeof(name), "barrier-%u", ++number);
	snprintf(command, sizeof(command), "get %s", name);
	reply = control_ask(control, command);
	while (reply && !strstr(reply, name))
		reply = read_reply(control);
	return reply ? 0 : -EIO;
}
