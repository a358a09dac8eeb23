// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Faults of the GPU model as calls of a program, through the model's control socket. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "../workloads/control.h"
#include "describe.h"

/* Higher than the files of programs. */
#define LOWEST_FILE 900

/* See rkfd-gpu --help. New ones at the end: programs have their numbers. */
static const char *const knobs[] = {
	"sdma.lose_trap", "sdma.late_fence", "sdma.copy_fault", "sdma.hang",
	"cp.stall",	  "cp.poison",	     "ih.drop_msi",	"smu.throttle",
	"hws.no_preempt", "mes.error",	     "mes.late",	"mes.no_status",
};

static int control = -1;

void inject_init(void)
{
	int low = control_open();

	if (low < 0)
		return;
	control = fcntl(low, F_DUPFD_CLOEXEC, LOWEST_FILE);
	close(low);
}

static void set(char *command, size_t size, uint64_t knob, uint64_t value)
{
	snprintf(command, size, "set %s %u", knobs[knob % COUNT_OF(knobs)],
		 (unsigned int)value);
}

/* Does not read the reply: the task may be killed. */
long run_inject(struct task *task, const uint64_t *args)
{
	char command[64];

	(void)task;
	if (control < 0)
		return -1;
	set(command, sizeof(command), args[0], args[1]);
	return control_send(control, command);
}

void inject_end(const struct program *p)
{
	char command[64];
	bool has_injected = false;

	for (unsigned int i = 0; i < p->count; i++)
		has_injected |= calls[p->steps[i].call]->run == run_inject;
	if (control < 0 || !has_injected)
		return;
	for (unsigned int i = 0; i < COUNT_OF(knobs); i++) {
		set(command, sizeof(command), i, 0);
		if (control_send(control, command))
			break;
	}
	/* All of them have taken effect when the last reply is there. */
	control_barrier(control);
}
