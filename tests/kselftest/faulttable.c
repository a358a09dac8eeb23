// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Runs the tables of faults in messages to the scheduler, see faulttable.h. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "faulttable.h"
#include "knobs.h"
#include "listen.h"
#include "userptr.h"

/* Seconds until a new process works. */
#define NEXT_S 60.0

static const struct injection *how;
static unsigned int xccs;

void table_open(const struct injection *injection)
{
	struct kfd_node node;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	xccs = node.num_xcc ?: 1;
	how = injection;
	knobs_open();
}

/* Result of a fault. */
struct outcome {
	unsigned int hit;
	int ret;
	double seconds;
	/* The process got an HW_EXCEPTION event. */
	bool event;
};

static void arm(const struct row *row, const char *fault)
{
	if (row->knob)
		knob_set(row->knob, 1);
	knob_set(how->op, row->op);
	/* The N-th message of the first XCC, as all of them get each. */
	knob_set(fault, (row->nth - 1) * xccs + 1);
}

static void disarm(const struct row *row)
{
	for (size_t i = 0; how->faults[i]; i++)
		knob_set(how->faults[i], 0);
	knob_set(how->op, 0);
	if (row->knob)
		knob_set(row->knob, 0);
}

/* Fills with a time limit of its own, as the queue may be lost. */
static int try_fill(struct fixture *f, struct kfd_queue *q)
{
	volatile uint32_t *words = f->data->va;
	int ret;

	words[256] = 0;
	fixture_fill_start(f, q, &f->signal, 1, (uint32_t *)words + 256, 64, 0x600d);
	ret = kfd_signal_wait(&f->k, &f->signal, 3000);
	return ret ? ret : words[256 + 63] == 0x600d ? 0 : -EIO;
}

/* A process with a queue from before the fault. Fills again for each byte that it reads. */
static pid_t bystander(int *to, int *from)
{
	int command[2], reply[2];
	struct fixture f;
	char byte;
	pid_t pid;

	ASSERT(!pipe(command) && !pipe(reply));
	pid = fork_child();
	if (!pid) {
		close(command[1]);
		close(reply[0]);
		fixture_launch(&f);
		while (try_fill(&f, &f.q) ? (byte = 1, true) : (byte = 0, true)) {
			if (write(reply[1], &byte, 1) != 1 || read(command[0], &byte, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(command[0]);
	close(reply[1]);
	*to = command[1];
	*from = reply[0];
	ASSERT(read(*from, &byte, 1) == 1 && !byte, "bystander does not work");
	return pid;
}

static const char *ask_bystander(int to, int from)
{
	struct pollfd p = { .fd = from, .events = POLLIN };
	char byte = 0;

	if (write(to, &byte, 1) != 1 || poll(&p, 1, 8000) != 1 || read(from, &byte, 1) != 1)
		return "hangs";
	return byte ? "lost its queue" : "works";
}

int act_create_queue(struct fixture *f)
{
	static struct kfd_queue q;

	return kfd_queue_create(&f->k, &q, 64);
}

int act_destroy_queue(struct fixture *f)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = f->q.id };

	return kfd_ioctl(f->k.fd, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

int act_enable_runtime(struct fixture *f)
{
	return enable_runtime(&f->k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
}

static struct pages pages;

int act_evict(struct fixture *f)
{
	(void)f;
	return munmap(pages.cpu, MIB) ? -errno : 0;
}

static struct kfd_bo *bo;

int act_unmap(struct fixture *f)
{
	return kfd_bo_unmap_gpu(&f->k, bo);
}

void prepare_no_queue(struct fixture *f)
{
	fixture_load(f);
}

static void prepare_queue(struct fixture *f)
{
	fixture_launch(f);
	ASSERT_OK(try_fill(f, &f->q));
}

void prepare_userptr(struct fixture *f)
{
	prepare_queue(f);
	register_new(&f->k, MIB, &pages);
}

void prepare_bo(struct fixture *f)
{
	prepare_queue(f);
	ASSERT_OK(kfd_bo_create(&f->k, MIB, KFD_FLAGS_GTT, &bo));
	ASSERT_OK(fixture_fill(f, &f->q, bo->va, 64, 1));
}

/* The process that meets the fault. */
static void meet(const struct row *row, const char *fault, struct outcome *out)
{
	struct kfd_event_data event = { 0 };
	uint32_t result = KFD_IOC_WAIT_RESULT_TIMEOUT;
	unsigned int before;
	struct fixture f;
	double start;

	(row->prepare ?: prepare_queue)(&f);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event.event_id));
	/* Only queues with waves are not preempted. */
	if (row->knob)
		fixture_endless(&f, 1);
	before = knob_hits(fault);
	arm(row, fault);
	/* The parent waits for the release of the process. */
	if (!row->act)
		ktap_end();
	start = seconds_now();
	out->ret = row->act(&f);
	out->seconds = seconds_now() - start;
	if (!kfd_event_wait(&f.k, &event, 1, true, 3000, &result) &&
	    result == KFD_IOC_WAIT_RESULT_COMPLETE)
		out->event = true;
	out->hit = knob_hits(fault) - before;
	disarm(row);
	/* Its memory is released by its exit. */
}

/* Returns the number of resets that have ended since the last call. */
static int resets_ended(int smi)
{
	const char *line = listen_lines(smi, 0);
	char back[16];
	int count = 0;

	snprintf(back, sizeof(back), "%x ", KFD_SMI_EVENT_GPU_POST_RESET);
	for (; *line; line = strchrnul(line, '\n'), line += !!*line)
		count += !strncmp(line, back, strlen(back));
	return count;
}

/* Prints the first messages of the driver. */
static void print_log(int log)
{
	char line[1024], *text;
	int lines = 0;

	while (kmsg_next(log, line, sizeof(line))) {
		text = strstr(line, "0000:");
		/* Priority 3 and above of the kernel. */
		if (!text || atoi(line) > 3 || lines++ >= 4)
			continue;
		text[strcspn(text, "\n")] = 0;
		text = strstr(text, ": ");
		ktap_note("  log: %s", text ? text + 2 : "");
	}
}

/* Returns after how long a new process can create and destroy a queue. */
static double next_process(void)
{
	double start = seconds_now();

	for (;;) {
		pid_t child = fork_child();
		struct kfd_queue q;
		int status;
		struct kfd k;

		if (!child)
			_exit(kfd_open(&k) || kfd_queue_create(&k, &q, 64) ||
			      kfd_queue_destroy(&q));
		ASSERT(waitpid(child, &status, 0) == child);
		if (!status)
			return seconds_now() - start;
		ASSERT(seconds_now() - start < NEXT_S * ktap_time_factor(),
		       "no queue after %.0f s", seconds_now() - start);
		usleep(200000);
	}
}

static bool is_hang(const char *fault)
{
	return !strcmp(fault, how->hang);
}

static void compare(const struct row *row, const char *fault, const struct outcome *out, int resets,
		    const char *other)
{
	enum end end = row->end != UNSENT && is_hang(fault) ? CARD_RESET : row->end;

	EXPECT_EQ(!out->hit, end == UNSENT);
	if (!out->hit)
		return;
	EXPECT_EQ(resets, end == CARD_RESET);
	EXPECT(!strcmp(other, end == CARD_RESET ? "lost its queue" : "works"), "%s", other);
	/* An exit has no result. */
	if (!row->act)
		return;
	EXPECT_RET(out->ret, is_hang(fault) ? row->ret_hang : row->ret);
	EXPECT_EQ(out->event, end >= LOST);
}

static void run(const struct row *row, const char *fault)
{
	struct outcome *out = mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int smi = listen_for_resets(), log = kmsg_open(), to, from, status, resets;
	unsigned int before = knob_hits(fault);
	const char *other;
	double next, start;
	pid_t other_pid, child;

	ASSERT(out != MAP_FAILED);
	other_pid = bystander(&to, &from);
	child = fork_child();
	if (!child) {
		meet(row, fault, out);
		ktap_end();
	}
	start = seconds_now();
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	if (!row->act) {
		out->seconds = seconds_now() - start;
		for (int i = 0; i < 50 && knob_hits(fault) == before; i++)
			usleep(100000);
		out->hit = knob_hits(fault) - before;
		/* The timeout of the driver. */
		usleep(out->hit ? (useconds_t)(how->timeout * 1e6) : 0);
		disarm(row);
	}
	other = ask_bystander(to, from);
	next = next_process();
	resets = resets_ended(smi);
	close(to);
	EXPECT(waitpid(other_pid, &status, 0) == other_pid);
	close(from);
	close(smi);
	if (out->hit)
		ktap_note("%s, %s: %s: %s after %.1f s, %s, other process %s, %s, next process after %.1f s",
			  row->message, fault, row->call, ktap_errno_name(out->ret), out->seconds,
			  out->event ? "event" : "no event", other,
			  resets ? "card reset" : "no reset", next);
	else
		ktap_note("%s, %s: not sent", row->message, fault);
	print_log(log);
	close(log);
	if (ktap_is_rkfd())
		compare(row, fault, out, resets, other);
	EXPECT(out->seconds < how->longest * ktap_time_factor(), "%s took %.1f s", row->call,
	       out->seconds);
	munmap(out, sizeof(*out));
}

/* Unbinds or binds the driver with a fault, then binds it without one. */
static void rebind(const struct row *row, const char *fault, bool binds)
{
	unsigned int before = knob_hits(fault);
	int log, ret, again = 0;
	double start, took;

	if (binds)
		ASSERT_OK(device_unbind());
	log = kmsg_open();
	arm(row, fault);
	start = seconds_now();
	ret = binds ? device_bind() : device_unbind();
	took = seconds_now() - start;
	disarm(row);
	if (ret || !binds)
		again = device_bind();
	if (knob_hits(fault) != before)
		ktap_note("%s, %s: %s: %s after %.1f s, then bind: %s", row->message, fault,
			  binds ? "bind" : "unbind", ktap_errno_name(ret), took,
			  ktap_errno_name(again));
	else
		ktap_note("%s, %s: not sent", row->message, fault);
	print_log(log);
	close(log);
	if (ktap_is_rkfd()) {
		EXPECT_EQ(knob_hits(fault) == before, row->end == UNSENT);
		EXPECT_RET(ret, is_hang(fault) ? row->ret_hang : row->ret);
	}
	ASSERT_OK(again);
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Returns whether a row is to be run: $ROW, if it is set, is its number. */
static bool is_chosen(const struct row *rows, size_t i)
{
	const char *row = getenv("ROW");

	return (xccs == 1 || !rows[i].one_xcc) && (!row || strtoul(row, NULL, 0) == i);
}

void table_run(const struct row *rows, size_t count, const char *fault)
{
	for (size_t i = 0; i < count; i++)
		if (is_chosen(rows, i))
			run(&rows[i], fault);
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

void table_rebind(const struct row *rows, size_t count, const char *fault, bool binds)
{
	device_find();
	for (size_t i = 0; i < count; i++)
		if (is_chosen(rows, i))
			rebind(&rows[i], fault, binds);
}
