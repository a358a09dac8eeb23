// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests enforce_isolation in sysfs: the values of each partition, and that the queues of one
 * process only are on the hardware at a time.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "fixture.h"

#define FILE_NAME "enforce_isolation"
#define SAMPLES 40

/* A process with an endless kernel. */
struct child {
	pid_t pid;
	/* Our end of the socket to it. */
	int here;
};

static void expect_value(const char *value)
{
	char text[64], line[64];

	snprintf(line, sizeof(line), "%s\n", value);
	device_get(FILE_NAME, text, sizeof(text));
	EXPECT(!strcmp(text, line), "'%s', not '%s'", text, line);
}

/* Until a partition mode is set there is one partition. */
TEST(values)
{
	static const char *const values[] = { "1", "2", "3", "0" };
	static const char *const refused[] = { "4\n", "-1\n", "x\n", "\n" };

	device_find();
	expect_value("0");
	for (int i = 0; i < 4; i++) {
		EXPECT_OK(device_try_set(FILE_NAME, values[i]));
		expect_value(values[i]);
	}
	for (int i = 0; i < 4; i++)
		EXPECT_RET(device_try_set(FILE_NAME, refused[i]), -EINVAL);
	expect_value("0");
	/* More than the partitions are ignored. */
	EXPECT_OK(device_try_set(FILE_NAME, "1 2 3\n"));
	expect_value("1");
	EXPECT_OK(device_try_set(FILE_NAME, "0\n"));
}

/* In the child: the kernel runs until the parent replies. */
static void run_kernel(int socket)
{
	struct fixture f;
	char byte = 0;

	fixture_launch(&f);
	fixture_endless(&f, 1);
	ASSERT(write(socket, &byte, 1) == 1);
	ASSERT(read(socket, &byte, 1) == 1);
	((volatile uint32_t *)f.data->va)[1] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	ktap_end();
}

/* Returns whether waves of a process are on the GPU. */
static bool is_there(uint32_t gpu_id, pid_t pid)
{
	char path[128], text[16];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/stats_%u/cu_occupancy", pid, gpu_id);
	file = fopen(path, "re");
	ASSERT(file && fgets(text, sizeof(text), file), "%s", path);
	fclose(file);
	return atoi(text) != 0;
}

/*
 * Runs the kernels of two processes, and returns in how many of SAMPLES waves of both were found on
 * the GPU, the one right after the other: if only one of them is there at a time, in half at most.
 */
static unsigned int together(void)
{
	unsigned int both = 0, seen[2] = { 0 };
	struct child children[2];
	struct kfd_node node;
	int ends[2], status;
	char byte = 0;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	for (int i = 0; i < 2; i++) {
		ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
		children[i] = (struct child) { .here = ends[0] };
		children[i].pid = fork_child();
		if (!children[i].pid)
			run_kernel(ends[1]);
		close(ends[1]);
		ASSERT(read(ends[0], &byte, 1) == 1, "kernel %d does not run", i);
	}
	for (int n = 0; n < SAMPLES; n++) {
		bool there[2];

		for (int i = 0; i < 2; i++) {
			there[i] = is_there(node.gpu_id, children[i].pid);
			seen[i] += there[i];
		}
		both += there[0] && there[1];
		/* No divisor of the quantum. */
		usleep(7000);
	}
	EXPECT(seen[0] && seen[1], "%u and %u of %u", seen[0], seen[1], SAMPLES);
	for (int i = 0; i < 2; i++) {
		ASSERT(write(children[i].here, &byte, 1) == 1);
		ASSERT(waitpid(children[i].pid, &status, 0) == children[i].pid);
		EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "process %d failed", i);
		close(children[i].here);
	}
	return both;
}

TEST_TIMEOUT(processes_run_at_the_same_time, 120)
{
	device_find();
	/* A test before may have ended with isolation. */
	ASSERT_OK(device_try_set(FILE_NAME, "0\n"));
	EXPECT_EQ(together(), SAMPLES);
}

static void expect_one_at_a_time(void)
{
	unsigned int both;

	device_find();
	ASSERT_OK(device_try_set(FILE_NAME, "1\n"));
	both = together();
	EXPECT_OK(device_try_set(FILE_NAME, "0\n"));
	EXPECT(both < SAMPLES * 3 / 4, "both in %u of %u samples", both, SAMPLES);
	EXPECT_EQ(together(), SAMPLES);
}

TEST_TIMEOUT(runlist_runs_one_process_at_a_time, 120)
{
	if (gpu_is_gfx12())
		SKIP("queues of this GPU are scheduled by MES");
	expect_one_at_a_time();
}

TEST_TIMEOUT(mes_runs_one_process_at_a_time, 120)
{
	need_mes();
	expect_one_at_a_time();
}

TEST_TIMEOUT(one_process_at_a_time_after_a_reset, 120)
{
	unsigned int both;

	device_need_reset();
	ASSERT_OK(device_try_set(FILE_NAME, "1\n"));
	device_reset();
	expect_value("1");
	both = together();
	EXPECT_OK(device_try_set(FILE_NAME, "0\n"));
	EXPECT(both < SAMPLES * 3 / 4, "both in %u of %u samples", both, SAMPLES);
}

/* With $ISOLATE_HANGS MES hangs at the change, which is in force after the reset. */
TEST_TIMEOUT(change_that_hangs, 120)
{
	unsigned int both;

	if (!getenv("ISOLATE_HANGS"))
		SKIP("no fault");
	device_need_reset();
	EXPECT_RET(device_try_set(FILE_NAME, "1\n"), -ETIMEDOUT);
	device_reset();
	expect_value("1");
	both = together();
	EXPECT_OK(device_try_set(FILE_NAME, "0\n"));
	EXPECT(both < SAMPLES * 3 / 4, "both in %u of %u samples", both, SAMPLES);
}

static void end_isolation(void *data)
{
	(void)data;
	device_find();
	device_try_set(FILE_NAME, "0\n");
}

int main(int argc, char **argv)
{
	int ret = ktap_main(argc, argv);

	/* A test that failed may have left it. */
	if (ret)
		ktap_in_child(end_isolation, NULL);
	return ret;
}
