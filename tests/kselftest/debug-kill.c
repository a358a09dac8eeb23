// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests debuggers and debugged processes that are killed in any state of a session, waves that stay
 * halted, and debuggers that are refused. Nothing is left over.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugger.h"
#include "growth.h"
#include "waves.h"

#define NOBODY 65534
/* A word of the data that no kernel uses. */
#define UNUSED_WORD 100

static void continue_wave(uint32_t *hwregs, void *data)
{
	const struct wave_bits *halted = data;

	EXPECT_EQ(hwregs[STATUS] & halted->status, halted->status);
	hwregs[STATUS] &= ~halted->status;
}

/* The states of a session in which one of its processes is killed. */
enum step { TRACED, SESSION, EVENTS, WATCHPOINT, LAUNCH_MODE, OVERRIDE, SUSPENDED, RESUMED, STEPS };
static const char *const step_names[STEPS] = { "traced",      "session",  "events",    "watchpoint",
					       "launch mode", "override", "suspended", "resumed" };

/* State of a debugged process, in memory that it shares with its parent. */
struct told {
	/* Addresses of its data and its save area. */
	uint64_t words, cwsr;
	uint32_t queue;
	/* Set by the parent: the waves start halted. */
	bool halted;
};

struct target {
	struct child child;
	struct told *told;
};

/* Runs 11 endless waves, and ends them when the parent signals; then its queue must work again. */
static void run_waves(struct child *c)
{
	struct told *told = ((struct target *)c)->told;
	volatile uint32_t *words;
	struct fixture f;

	fixture_load(&f);
	ASSERT_OK(runtime_enable(&f.k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	words = f.data->va;
	told->words = kfd_va(f.data->va);
	told->cwsr = kfd_va(f.q.cwsr->va);
	told->queue = f.q.id;
	wait_for_parent(c);
	start_waves(&f);
	if (told->halted)
		usleep(300000);
	else
		ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves", words[0]);
	wait_for_parent(c);
	ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves", words[0]);
	words[64] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_queue_destroy(&f.q));
	ktap_end();
}

/* Starts a process with a queue; its waves start at child_goes_on(). */
static void start_target(struct target *t)
{
	t->told = mmap(NULL, sizeof(*t->told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	ASSERT(t->told != MAP_FAILED);
	start_child(&t->child, run_waves);
	wait_for_child(&t->child);
}

static void trace(pid_t pid)
{
	ASSERT(!ptrace(PTRACE_SEIZE, pid, NULL, NULL), "%s", strerror(errno));
}

static void untrace(pid_t pid)
{
	int status;

	ASSERT(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	ASSERT(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	ASSERT(!ptrace(PTRACE_DETACH, pid, NULL, NULL));
}

/* Brings a session into a state. */
static void debug_until(struct session *s, struct target *t, enum step last)
{
	uint32_t id = t->told->queue, enable = KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_START, request = enable;

	for (enum step step = TRACED; step <= last; step++) {
		switch (step) {
		case TRACED:
			trace(t->child.pid);
			break;
		case SESSION:
			ASSERT_OK(session_enable(s, ALL_EVENTS));
			break;
		case EVENTS:
			expect_event(s, EC(QUEUE_NEW), s->k->node.gpu_id, t->told->queue);
			break;
		case WATCHPOINT: {
			volatile uint32_t *words = (void *)(uintptr_t)t->told->words;

			ASSERT_OK(set_watch(s, s->k->node.gpu_id, &words[UNUSED_WORD],
					    KFD_DBG_TRAP_ADDRESS_WATCH_MODE_NONREAD, &id));
			id = t->told->queue;
			break;
		}
		case LAUNCH_MODE:
			ASSERT_OK(launch_mode(s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT));
			break;
		case OVERRIDE:
			ASSERT_OK(launch_override(s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
			break;
		case SUSPENDED:
			ASSERT_RET(suspend_queues(s, &id, 1, 0), 1);
			break;
		case RESUMED:
			ASSERT_RET(resume_queues(s, &id, 1), 1);
			break;
		case STEPS:
			break;
		}
	}
}

/* The next session of a tracer, which detaches, finds nothing of one before. */
static void expect_fresh_session(struct kfd *k, struct target *t)
{
	uint32_t enable = 0, request = 0, id;
	struct session s;

	session_of(&s, k, t->child.pid);
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	expect_no_event(&s);
	EXPECT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	EXPECT_EQ(enable, 0);
	for (unsigned int i = 0; i < 4; i++)
		EXPECT_OK(set_watch(&s, k->node.gpu_id, &s, 0, &id));
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	untrace(t->child.pid);
	close(s.fd[0]);
	close(s.fd[1]);
}

static void close_child(struct child *c)
{
	for (int i = 0; i < 2; i++) {
		close(c->ready[i]);
		close(c->go[i]);
	}
}

static void free_target(struct target *t)
{
	close_child(&t->child);
	ASSERT(!munmap(t->told, sizeof(*t->told)));
}

static void end_target(struct target *t)
{
	child_goes_on(&t->child);
	expect_exit(&t->child, 0);
	free_target(t);
}

/* A debugger, and how far it gets. */
struct debugger {
	struct child child;
	struct target *target;
	enum step last;
};

static void run_debugger(struct child *c)
{
	struct debugger *d = (struct debugger *)c;
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, d->target->child.pid);
	debug_until(&s, d->target, d->last);
	wait_for_parent(c);
}

static void kill_child(struct child *c)
{
	int status;

	ASSERT(!kill(c->pid, SIGKILL));
	do
		ASSERT(waitpid(c->pid, &status, 0) == c->pid);
	while (WIFSTOPPED(status));
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %#x", status);
}

/* The program continues undisturbed, and can be debugged again. */
static void kill_debugger(struct kfd *k, enum step step)
{
	struct target t;
	struct debugger d = { .target = &t, .last = step };

	start_target(&t);
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	start_child(&d.child, run_debugger);
	wait_for_child(&d.child);
	kill_child(&d.child);
	close_child(&d.child);
	if (step >= SESSION) {
		trace(t.child.pid);
		expect_fresh_session(k, &t);
	}
	end_target(&t);
}

/* The debugger's calls fail with ESRCH. */
static void kill_program(struct kfd *k, enum step step)
{
	struct target t;
	struct session s;
	uint32_t id;

	start_target(&t);
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	session_of(&s, k, t.child.pid);
	debug_until(&s, &t, step);
	id = t.told->queue;
	kill_child(&t.child);
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -ESRCH);
	EXPECT_RET(suspend_queues(&s, &id, 1, 0), -ESRCH);
	EXPECT_RET(resume_queues(&s, &id, 1), -ESRCH);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -ESRCH);
	close(s.fd[0]);
	close(s.fd[1]);
	free_target(&t);
}

TEST_TIMEOUT(kill_the_debugger_at_each_step, 240)
{
	struct kfd k;

	fixture_open(&k);
	for (enum step step = TRACED; step < STEPS; step++) {
		ktap_note("the debugger is killed: %s", step_names[step]);
		kill_debugger(&k, step);
	}
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

TEST_TIMEOUT(kill_the_program_at_each_step, 240)
{
	struct kfd k;

	fixture_open(&k);
	for (enum step step = TRACED; step < STEPS; step++) {
		ktap_note("the program is killed: %s", step_names[step]);
		kill_program(&k, step);
	}
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

/*
 * Clears the HALT bits of the saved waves of a suspended queue in the memory of its process.
 * Returns the number of waves.
 */
static unsigned int continue_saved_waves(struct kfd *k, struct target *t)
{
	const size_t size = kfd_cwsr_bytes(&k->node);
	struct wave_bits halted = bits_halt(&k->node);
	struct kfd_bo area = { .size = size };
	struct kfd_queue q = { .k = k, .cwsr = &area };
	unsigned int waves;
	char path[64];
	int memory;

	snprintf(path, sizeof(path), "/proc/%d/mem", t->child.pid);
	memory = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(memory >= 0);
	area.va = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT(area.va != MAP_FAILED);
	for (int write = 0; write < 2; write++) {
		for (uint32_t xcc = 0; xcc < k->node.num_xcc; xcc++) {
			uint64_t offset = (uint64_t)xcc * k->node.cwsr_size;
			struct wave_header *header = (void *)((char *)area.va + offset);
			ssize_t bytes;
			char *from;

			if (!write)
				ASSERT(pread(memory, header, sizeof(*header),
					     (off_t)(t->told->cwsr + offset)) == sizeof(*header));
			/* The control stack ends where the state begins, which grows downwards. */
			from = (char *)header + header->stack_offset;
			bytes = (ssize_t)header->state_offset - (ssize_t)header->stack_offset;
			offset += header->stack_offset;
			if (write)
				ASSERT(pwrite(memory, from, (size_t)bytes,
					      (off_t)(t->told->cwsr + offset)) == bytes);
			else
				ASSERT(pread(memory, from, (size_t)bytes,
					     (off_t)(t->told->cwsr + offset)) == bytes);
		}
		if (!write)
			waves = for_each_wave(&q, continue_wave, &halted);
	}
	close(memory);
	ASSERT(!munmap(area.va, size));
	return waves;
}

/* Halted waves stay halted without a debugger; the next one resumes them. */
static void expect_halted_waves(struct kfd *k, struct target *t)
{
	uint32_t id = t->told->queue;
	struct session s;

	session_of(&s, k, t->child.pid);
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	ASSERT_RET(suspend_queues(&s, &id, 1, 0), 1);
	/* 11 workgroups of 64 work-items. */
	EXPECT_EQ(continue_saved_waves(k, t), is_gfx12(&k->node) ? 22 : 11);
	ASSERT_RET(resume_queues(&s, &id, 1), 1);
	ASSERT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
}

TEST(detach_with_halted_waves)
{
	struct session s;
	struct target t;
	struct kfd k;

	fixture_open(&k);
	start_target(&t);
	session_of(&s, &k, t.child.pid);
	debug_until(&s, &t, LAUNCH_MODE);
	t.told->halted = true;
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	ASSERT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	expect_halted_waves(&k, &t);
	untrace(t.child.pid);
	end_target(&t);
}

TEST(kill_the_debugger_with_halted_waves)
{
	struct target t;
	struct debugger d = { .target = &t, .last = LAUNCH_MODE };
	struct kfd k;

	fixture_open(&k);
	start_target(&t);
	start_child(&d.child, run_debugger);
	wait_for_child(&d.child);
	t.told->halted = true;
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	kill_child(&d.child);
	trace(t.child.pid);
	expect_halted_waves(&k, &t);
	untrace(t.child.pid);
	end_target(&t);
}

TEST(kill_the_program_with_halted_waves)
{
	struct session s;
	struct target t;
	struct kfd k;

	fixture_open(&k);
	start_target(&t);
	session_of(&s, &k, t.child.pid);
	debug_until(&s, &t, LAUNCH_MODE);
	t.told->halted = true;
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	kill_child(&t.child);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -ESRCH);
	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
}

/* Has a session without being the tracer. */
static void run_detached_debugger(struct child *c)
{
	struct debugger *d = (struct debugger *)c;
	struct session s;
	struct kfd k;

	fixture_open(&k);
	session_of(&s, &k, d->target->child.pid);
	debug_until(&s, d->target, EVENTS);
	wait_for_parent(c);
	untrace(d->target->child.pid);
	expect_no_event(&s);
	wait_for_parent(c);
	/* The other has ended its session. */
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EPERM);
	ktap_end();
}

/* Only a tracer can end the session of another debugger. */
TEST(two_debuggers)
{
	struct debugger d = { 0 };
	struct session s;
	struct target t;
	struct kfd k;
	uint32_t id;

	fixture_open(&k);
	d.target = &t;
	start_target(&t);
	start_child(&d.child, run_detached_debugger);
	wait_for_child(&d.child);
	session_of(&s, &k, t.child.pid);
	EXPECT(ptrace(PTRACE_SEIZE, t.child.pid, NULL, NULL) < 0 && errno == EPERM);
	id = t.told->queue;
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -EPERM);
	EXPECT_RET(suspend_queues(&s, &id, 1, 0), -EPERM);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EPERM);
	child_goes_on(&d.child);
	wait_for_child(&d.child);
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -EPERM);
	trace(t.child.pid);
	EXPECT_RET(session_enable(&s, ALL_EVENTS), -EALREADY);
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	child_goes_on(&d.child);
	expect_exit(&d.child, 0);
	expect_fresh_session(&k, &t);
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	end_target(&t);
}

static void run_as_nobody(struct child *c)
{
	struct debugger *d = (struct debugger *)c;
	pid_t pid = d->target->child.pid;
	uint32_t id = d->target->told->queue;
	struct session s;
	struct kfd k;

	/* It could not open the render node after setuid(). */
	fixture_open(&k);
	ASSERT(!setuid(NOBODY));
	session_of(&s, &k, pid);
	for (int i = 0; i < 2; i++) {
		EXPECT(ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 && errno == EPERM);
		EXPECT_RET(session_enable(&s, ALL_EVENTS), -EPERM);
		EXPECT_RET(suspend_queues(&s, &id, 1, 0), -EPERM);
		EXPECT_RET(resume_queues(&s, NULL, 0), -EPERM);
		EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -EPERM);
		/* Now there is a session. */
		wait_for_parent(c);
	}
	ktap_end();
}

TEST(debugger_of_another_user)
{
	struct debugger d = { 0 };
	struct session s;
	struct target t;
	struct kfd k;

	if (geteuid())
		SKIP("not privileged");
	fixture_open(&k);
	d.target = &t;
	start_target(&t);
	start_child(&d.child, run_as_nobody);
	wait_for_child(&d.child);
	session_of(&s, &k, t.child.pid);
	debug_until(&s, &t, EVENTS);
	child_goes_on(&d.child);
	wait_for_child(&d.child);
	child_goes_on(&d.child);
	expect_exit(&d.child, 0);
	expect_no_event(&s);
	ASSERT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	untrace(t.child.pid);
	child_goes_on(&t.child);
	wait_for_child(&t.child);
	end_target(&t);
}

TEST_TIMEOUT(killed_sessions_leave_nothing_over, 600)
{
	uint64_t before, after;
	struct kfd k;

	fixture_open(&k);
	for (int round = 0; round < 4; round++) {
		/* The first fills caches. */
		if (round == 1) {
			ASSERT_OK(kfd_available(&k, &before));
			growth_start();
		}
		for (enum step step = TRACED; step < STEPS; step++) {
			kill_debugger(&k, step);
			kill_program(&k, step);
		}
	}
	growth_expect_none("killed sessions", 3 * 2 * STEPS);
	/* A process is torn down asynchronously. */
	for (int i = 0; i < 100; i++) {
		ASSERT_OK(kfd_available(&k, &after));
		if (after >= before)
			break;
		usleep(50000);
	}
	EXPECT(after >= before, "%llu of %llu bytes", (unsigned long long)after,
	       (unsigned long long)before);
}
