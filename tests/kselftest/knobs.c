// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Sets knobs of the GPU model through its control socket, see knobs.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "../workloads/control.h"
#include "knobs.h"
#include "ktap.h"

static int control = -1;

void knobs_open(void)
{
	if (control >= 0)
		return;
	control = control_open();
	if (control == -ENODEV)
		SKIP("no control socket of a GPU model");
	ASSERT(control >= 0, "%s: %s", getenv("MODEL_CONTROL"), strerror(-control));
}

/* Sends a command to the GPU model and returns its reply. */
static const char *tell(const char *command)
{
	const char *reply = control_ask(control, command);

	ASSERT(reply && strncmp(reply, "error", 5) != 0, "%s: %s", command, reply ?: "no reply");
	return reply;
}

void knob_set(const char *name, unsigned int value)
{
	char command[128];

	snprintf(command, sizeof(command), "set %s %u", name, value);
	ASSERT(!strcmp(tell(command), "ok"), "%s", command);
}

unsigned int knob_hits(const char *name)
{
	char command[128];

	snprintf(command, sizeof(command), "hits %s", name);
	return (unsigned int)atoi(tell(command));
}
