// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Leaves a process with a running wave behind when the machine is powered off: the driver has to
 * stop the GPU (scripts/vm compares the state of the model).
 */
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"
#include "knobs.h"

static void run_wave(int started)
{
	struct fixture f;

	setsid();
	fixture_launch(&f);
	fixture_endless(&f, 1);
	/* The caller may wait until the output is closed. */
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	ASSERT(write(started, "", 1) == 1);
	for (;;)
		pause();
}

static void leave_wave(void)
{
	int sockets[2];
	char byte;

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	if (fork_child() == 0)
		run_wave(sockets[1]);
	close(sockets[1]);
	EXPECT_EQ(read(sockets[0], &byte, 1), 1);
}

TEST_TIMEOUT(wave_runs_on, 60)
{
	leave_wave();
}

/*
 * The GPU does not preempt the queue either, so that it is reset, and its firmware takes minutes
 * until it is ready again, for which nothing has to wait.
 */
TEST_TIMEOUT(stuck_wave_and_slow_firmware, 60)
{
	knobs_open();
	knob_set("psp.boot_ms", 250000);
	leave_wave();
}
