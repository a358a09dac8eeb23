// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests of the debugger interface (DBG_TRAP) with waves: suspended queues, waves that start halted,
 * with a trap or in single-step mode, watchpoints. The process debugs itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugger.h"
#include "waves.h"

static volatile uint32_t *start_endless(struct fixture *f)
{
	volatile uint32_t *words = f->data->va;

	start_waves(f);
	ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves started", words[0]);
	return words;
}

TEST(suspended_waves_go_on)
{
	struct kfd_context_save_area_header *header;
	volatile uint32_t *words;
	uint32_t ids[2], waves;
	struct session s;
	struct fixture f;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	words = start_endless(&f);
	header = f.q.cwsr->va;
	memset(&header->wave_state, 0, sizeof(header->wave_state));
	ids[0] = f.q.id;
	ids[1] = NO_SUCH_QUEUE;
	EXPECT_RET(suspend_queues(&s, ids, 2, 0), 1);
	EXPECT_EQ(ids[0], f.q.id);
	EXPECT_EQ(ids[1], NO_SUCH_QUEUE | (uint32_t)KFD_DBG_QUEUE_INVALID_MASK);
	EXPECT(header->wave_state.control_stack_size && header->wave_state.wave_state_size);
	/* A second suspend has no effect. */
	EXPECT_RET(suspend_queues(&s, ids, 1, 0), 1);
	EXPECT_EQ(ids[0], f.q.id);
	/* The waves do not run. */
	words[64] = 1;
	usleep(300000);
	EXPECT_EQ(f.signal.s->value, 1);
	waves = words[0];
	EXPECT_EQ(waves, 11);
	ids[0] = f.q.id;
	ids[1] = NO_SUCH_QUEUE;
	EXPECT_RET(resume_queues(&s, ids, 2), 1);
	EXPECT_EQ(ids[0], f.q.id);
	EXPECT_EQ(ids[1], NO_SUCH_QUEUE | (uint32_t)KFD_DBG_QUEUE_INVALID_MASK);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST(suspend_arguments)
{
	static uint32_t many[1025];
	struct session s;
	struct fixture f;
	uint32_t id;

	debug_queue(&s, &f);
	/* A new queue, until the debugger clears the exception. */
	id = f.q.id;
	EXPECT_RET(suspend_queues(&s, &id, 1, 0), 0);
	EXPECT_EQ(id, f.q.id | (uint32_t)KFD_DBG_QUEUE_INVALID_MASK);
	EXPECT_RET(suspend_queues(&s, NULL, 1, 0), -EINVAL);
	EXPECT_RET(suspend_queues(&s, many, 1025, 0), -EINVAL);
	EXPECT_RET(suspend_queues(&s, (uint32_t *)8, 1, 0), -EFAULT);
	EXPECT_RET(resume_queues(&s, many, 1025), -EINVAL);
	EXPECT_RET(resume_queues(&s, (uint32_t *)8, 1), -EFAULT);
	EXPECT_RET(suspend_queues(&s, &id, 0, 0), 0);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	id = f.q.id;
	EXPECT_RET(suspend_queues(&s, &id, 1, 0), 1);
	/* All queues. */
	EXPECT_RET(resume_queues(&s, NULL, 0), 1);
	EXPECT(fixture_works(&f));
}

/* The session's end resumes the queues. */
TEST(queues_are_resumed_at_the_end)
{
	volatile uint32_t *words;
	struct session s;
	struct fixture f;
	uint32_t id;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	words = start_endless(&f);
	id = f.q.id;
	ASSERT_RET(suspend_queues(&s, &id, 1, 0), 1);
	words[64] = 1;
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT(fixture_works(&f));
}

/* A save area that cannot be written has no effect on those of other queues. */
TEST(save_area_of_another_is_gone)
{
	struct kfd_context_save_area_header *header;
	struct kfd_queue other;
	struct session s;
	struct fixture f;
	uint32_t ids[2];

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, other.id);
	ids[0] = f.q.id;
	ids[1] = other.id;
	ASSERT(!mprotect(f.q.cwsr->va, kfd_cwsr_bytes(&f.k.node), PROT_READ));
	header = other.cwsr->va;
	memset(&header->wave_state, 0xee, sizeof(header->wave_state));
	EXPECT_RET(suspend_queues(&s, ids, 2, 0), 2);
	EXPECT(header->wave_state.control_stack_size != 0xeeeeeeee);
	EXPECT_RET(resume_queues(&s, ids, 2), 2);
	ASSERT(!mprotect(f.q.cwsr->va, kfd_cwsr_bytes(&f.k.node), PROT_READ | PROT_WRITE));
	EXPECT_OK(kfd_queue_destroy(&other));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

/* Returns a file; until it is closed, stores to the save area of a queue wait. */
static int hold_save_area(struct fixture *f)
{
	size_t size = kfd_cwsr_bytes(&f->k.node);

	ASSERT(mmap(f->q.cwsr->va, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == f->q.cwsr->va);
	return fixture_hold(f->q.cwsr->va, size, UFFDIO_REGISTER_MODE_MISSING);
}

/* Debugs a queue, and suspends it when the parent goes on. */
static void suspend_queue(struct child *c, struct session *s, struct fixture *f)
{
	uint32_t id;

	debug_queue(s, f);
	expect_event(s, EC(QUEUE_NEW), f->k.node.gpu_id, f->q.id);
	wait_for_parent(c);
	id = f->q.id;
	if (suspend_queues(s, &id, 1, 0) != 1)
		_exit(1);
}

static void suspend_own_queue(struct child *c)
{
	struct session s;
	struct fixture f;

	suspend_queue(c, &s, &f);
}

static void nothing(int signal)
{
	(void)signal;
}

/* Interrupted calls on a queue whose save area cannot be written do not block another debugger. */
TEST_TIMEOUT(interrupted_calls_leave_others_alone, 120)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };
	struct sigaction action = { .sa_handler = nothing };
	struct session s;
	struct fixture f;
	struct child c;
	uint32_t id;
	int file;

	start_child(&c, suspend_own_queue);
	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	file = hold_save_area(&f);
	ASSERT(!sigaction(SIGALRM, &action, NULL));
	ASSERT(!setitimer(ITIMER_REAL, &often, NULL));
	/* A work queue has 1,024 active items. */
	for (unsigned int i = 0; i < 1100; i++) {
		id = f.q.id;
		ASSERT_RET(suspend_queues(&s, &id, 1, 0), -EINTR);
	}
	ASSERT(!setitimer(ITIMER_REAL, &never, NULL));
	wait_for_child(&c);
	child_goes_on(&c);
	expect_exit(&c, 0);
	close(file);
	EXPECT_RET(suspend_queues(&s, &id, 1, 0), 1);
}

/* Debugs itself with an event, of which the driver notifies the pipe `to`. Does not return. */
static void raise_event(int to, atomic_uint *raised)
{
	struct kfd k;
	struct session s = { .k = &k, .pid = getpid(), .fd = { -1, to } };

	if (kfd_open_device(&k) || session_enable(&s, ALL_EVENTS))
		_exit(1);
	atomic_fetch_add(raised, 1);
	/* Nobody replies. */
	runtime_enable(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK);
	_exit(2);
}

/* Reads a byte of a pipe. */
struct reader {
	int from;
	char *page;
};

static void *read_byte(void *data)
{
	struct reader *r = data;

	return read(r->from, r->page, 1) == 1 ? NULL : data;
}

/* Its queue is suspended, and it is notified of a new one. */
static void use_debugger(struct child *c)
{
	struct kfd_queue other;
	struct session s;
	struct fixture f;

	suspend_queue(c, &s, &f);
	if (kfd_queue_create(&f.k, &other, 64) || notified(&s) != 1)
		_exit(2);
}

/*
 * The byte that notifies a debugger is written to its pipe. A reader whose memory is not there
 * holds the pipe's lock, for which the writers of many processes wait.
 */
TEST_TIMEOUT(blocked_notifications_leave_others_alone, 120)
{
	static pid_t blocked[1100];
	const unsigned int count = memory_fails() ? 2 : sizeof(blocked) / sizeof(*blocked);
	int status = 0, ends[2], userfaults, done = 0;
	pthread_t thread;
	struct reader r;
	atomic_uint *raised;
	struct child c;
	void *failed;

	raised = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(raised != MAP_FAILED && !pipe2(ends, O_CLOEXEC));
	start_child(&c, use_debugger);
	wait_for_child(&c);
	r.from = ends[0];
	r.page = held_page(&userfaults);
	ASSERT(write(ends[1], "", 1) == 1 && !pthread_create(&thread, NULL, read_byte, &r));
	wait_for_access(userfaults);
	/* A work queue has 1,024 active items. */
	for (unsigned int i = 0; i < count; i++) {
		blocked[i] = fork_child();
		if (!blocked[i])
			raise_event(ends[1], raised);
	}
	for (int ms = 0; ms < 60000 && *raised < count; ms += 10)
		usleep(10000 * ktap_time_factor());
	EXPECT_EQ(*raised, count);
	usleep(500000 * ktap_time_factor());
	child_goes_on(&c);
	for (int ms = 0; ms < 10000 && !done; ms += 10) {
		done = waitpid(c.pid, &status, WNOHANG);
		usleep(10000 * ktap_time_factor());
	}
	EXPECT(done == c.pid && status == 0, "status %#x", status);
	/* All end. */
	end_hold(userfaults, r.page);
	EXPECT(!pthread_join(thread, &failed) && !failed);
	if (!done)
		kill(c.pid, SIGKILL);
	for (unsigned int i = 0; i < count; i++)
		kill(blocked[i], SIGKILL);
	for (unsigned int i = 0; i < count; i++)
		waitpid(blocked[i], NULL, 0);
}

/* Waits until DESTROY_QUEUE has succeeded. */
static void expect_destroyed(struct caller *c)
{
	for (int ms = 0; ms < 5000 && c->ret == RUNNING; ms += 10)
		usleep(10000);
	ASSERT_EQ(c->ret, 0);
	end_call(c);
}

/* A suspended queue is not destroyed, for the debugger reads its memory. */
TEST(destroying_a_suspended_queue_waits)
{
	struct caller c;
	struct session s;
	struct fixture f;
	uint32_t id;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	id = f.q.id;
	destroy_suspended(&s, &c, &f.q);
	expect_no_event(&s);
	EXPECT_RET(resume_queues(&s, &id, 1), 1);
	EXPECT_OK(end_call(&c));
	EXPECT(notified(&s) > 0);
	expect_event(&s, EC(DEVICE_QUEUE_DELETE), f.k.node.gpu_id, 0);
}

/*
 * A queue that is being destroyed is not suspended again once it is resumed. DESTROY_QUEUE waits
 * for the delivery of an exception to another queue, whose payload comes by a userfaultfd.
 */
TEST(destroyed_queue_is_not_suspended_again)
{
	struct kfd_context_save_area_header *header;
	const uint64_t wave_trap = EC(QUEUE_WAVE_TRAP);
	uint32_t gpu, id, event;
	struct kfd_queue other;
	struct session s;
	struct fixture f;
	struct caller c;
	int userfaults;
	char *payload;

	payload = held_page(&userfaults);
	debug_queue(&s, &f);
	gpu = f.k.node.gpu_id;
	expect_event(&s, EC(QUEUE_NEW), gpu, f.q.id);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_SIGNAL, true, &event));
	ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
	expect_event(&s, EC(QUEUE_NEW), gpu, other.id);
	header = other.cwsr->va;
	header->err_payload_addr = kfd_va(payload);
	header->err_event_id = event;
	id = f.q.id;
	destroy_suspended(&s, &c, &f.q);
	ASSERT_OK(send_event(&s, wave_trap, gpu, other.id));
	wait_for_access(userfaults);
	EXPECT_RET(resume_queues(&s, &id, 1), 1);
	usleep(300000);
	EXPECT_RET(suspend_queues(&s, &id, 1, 0), 0);
	EXPECT_EQ(id, f.q.id | (uint32_t)KFD_DBG_QUEUE_INVALID_MASK);
	end_hold(userfaults, payload);
	expect_destroyed(&c);
	EXPECT_EQ(event_result(&f.k, event, WAIT_MS), KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_EQ(*(volatile uint64_t *)payload, wave_trap);
	close(userfaults);
}

/* RUNTIME_ENABLE with mode 0 resumes suspended queues and clears flags, before the session ends. */
TEST_TIMEOUT(disabled_runtime_resumes_queues, 60)
{
	struct caller c = { .ret = RUNNING };
	uint32_t id, flags;
	struct session s;
	struct fixture f;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	flags = is_gfx12(&f.k.node) ? KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP
				    : KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP;
	ASSERT_OK(set_flags(&s, &flags));
	id = f.q.id;
	ASSERT_RET(suspend_queues(&s, &id, 1, 0), 1);
	start_call(&c, &f.k, 0);
	ASSERT(notified(&s) > 0);
	expect_event(&s, EC(PROCESS_RUNTIME), 0, 0);
	ASSERT_OK(send_event(&s, EC(PROCESS_RUNTIME), 0, 0));
	EXPECT_OK(end_call(&c));
	EXPECT_RET(resume_queues(&s, &id, 1), -EPERM);
	fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 7);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, 3000));
	start_destroy(&c, &f.q);
	expect_destroyed(&c);
	ASSERT(notified(&s) > 0);
	expect_event(&s, EC(DEVICE_QUEUE_DELETE), f.k.node.gpu_id, 0);
	enable_own_runtime(&s);
	flags = 0;
	EXPECT_OK(set_flags(&s, &flags));
	EXPECT_EQ(flags, 0);
}

/* Updates of a suspended queue do not resume it. */
TEST(updated_while_suspended)
{
	struct kfd_ioctl_update_queue_args update = { .queue_percentage = 100,
						      .queue_priority = 7 };
	volatile uint32_t *words;
	struct session s;
	struct fixture f;
	uint32_t id;

	debug_queue(&s, &f);
	expect_event(&s, EC(QUEUE_NEW), f.k.node.gpu_id, f.q.id);
	words = start_endless(&f);
	id = f.q.id;
	ASSERT_RET(suspend_queues(&s, &id, 1, 0), 1);
	update.ring_base_address = kfd_va(f.q.ring->va);
	update.queue_id = f.q.id;
	update.ring_size = f.q.packets * 64;
	EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_UPDATE_QUEUE, &update));
	words[64] = 1;
	usleep(300000);
	EXPECT_EQ(f.signal.s->value, 1);
	EXPECT_RET(resume_queues(&s, &id, 1), 1);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
}

#define ALL_TRAPS (0x1ffu | KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_START | KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_END)

TEST(wave_launch_arguments)
{
	uint32_t enable, request, flags, supported;
	struct session s;
	struct kfd k;

	debug_self(&s, &k);
	enable_own_runtime(&s);
	EXPECT_RET(launch_mode(&s, 2), -EINVAL);
	EXPECT_RET(launch_mode(&s, 4), -EINVAL);
	EXPECT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT));
	EXPECT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG));
	EXPECT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL));

	enable = request = 0;
	EXPECT_RET(launch_override(&s, 2, &enable, &request), -EPERM);
	enable = 0;
	request = 1u << 9;
	EXPECT_RET(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request), -EACCES);
	EXPECT_EQ(request, ALL_TRAPS);
	enable = request = KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH | KFD_DBG_TRAP_MASK_FP_INVALID;
	EXPECT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	EXPECT_EQ(enable, 0);
	EXPECT_EQ(request, ALL_TRAPS);
	/* Only what is requested changes. */
	enable = 0;
	request = KFD_DBG_TRAP_MASK_FP_INVALID;
	EXPECT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_REPLACE, &enable, &request));
	EXPECT_EQ(enable, KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH | KFD_DBG_TRAP_MASK_FP_INVALID);
	enable = request = 0;
	EXPECT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	EXPECT_EQ(enable, KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH);

	supported = is_gfx12(&k.node) ? KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP
				      : KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP;
	flags = supported;
	EXPECT_OK(set_flags(&s, &flags));
	EXPECT_EQ(flags, 0);
	flags = KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP | KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP;
	EXPECT_RET(set_flags(&s, &flags), -EACCES);
	EXPECT_EQ(flags, supported);
	flags = KFD_DBG_TRAP_FLAG_LDS_OUT_OF_ADDR_RANGE;
	EXPECT_RET(set_flags(&s, &flags), -EACCES);
	flags = 0;
	EXPECT_OK(set_flags(&s, &flags));
	EXPECT_EQ(flags, supported);
	/* The end of the session resets all. */
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	enable = request = 0;
	EXPECT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	EXPECT_EQ(enable, 0);
}

TEST(watchpoints_are_counted)
{
	uint32_t ids[5], seen = 0;
	struct session s;
	struct kfd k;

	debug_self(&s, &k);
	enable_own_runtime(&s);
	EXPECT_RET(set_watch(&s, NO_SUCH_GPU, &s, 0, ids), -ENODEV);
	EXPECT_RET(clear_watch(&s, NO_SUCH_GPU, 0), -ENODEV);
	EXPECT_RET(clear_watch(&s, k.node.gpu_id, 0), -EINVAL);
	EXPECT_RET(clear_watch(&s, k.node.gpu_id, 4), -EINVAL);
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_OK(set_watch(&s, k.node.gpu_id, &s, 0, &ids[i]));
		seen |= 1u << ids[i];
	}
	EXPECT_EQ(seen, 15);
	EXPECT_RET(set_watch(&s, k.node.gpu_id, &s, 0, &ids[4]), -ENOMEM);
	EXPECT_OK(clear_watch(&s, k.node.gpu_id, 2));
	EXPECT_RET(clear_watch(&s, k.node.gpu_id, 2), -EINVAL);
	EXPECT_OK(set_watch(&s, k.node.gpu_id, &s, 0, &ids[4]));
	EXPECT_EQ(ids[4], 2);
	/* They are those of the GPU, and free after the session. */
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	ASSERT_OK(session_enable(&s, ALL_EVENTS));
	for (unsigned int i = 0; i < 4; i++)
		ASSERT_OK(set_watch(&s, k.node.gpu_id, &s, 0, &ids[i]));
}

/* All of these bits are set. */
static void expect_bits(uint32_t *hwregs, void *data)
{
	const struct wave_bits *bits = data;

	EXPECT_EQ(hwregs[STATUS] & bits->status, bits->status);
	EXPECT_EQ(hwregs[TRAPSTS] & bits->trapsts, bits->trapsts);
}

static void continue_wave(uint32_t *hwregs, void *data)
{
	const struct wave_bits *halted = data;

	hwregs[STATUS] &= ~halted->status;
}

/* Suspends the queue and expects that all its waves are halted and have these exceptions. */
static void expect_saved(struct session *s, struct fixture *f, uint32_t trapsts)
{
	struct wave_bits bits = { bits_halt(&f->k.node).status, trapsts };
	uint32_t id = f->q.id;

	ASSERT_RET(suspend_queues(s, &id, 1, 0), 1);
	/* The 11 workgroups have 64 work-items. */
	ASSERT_EQ(for_each_wave(&f->q, expect_bits, &bits), is_gfx12(&f->k.node) ? 22 : 11);
}

static void debug_new_queue(struct session *s, struct fixture *f)
{
	debug_queue(s, f);
	expect_event(s, EC(QUEUE_NEW), f->k.node.gpu_id, f->q.id);
}

/* Starts 11 waves of the endless kernel, which do not get far. */
static volatile uint32_t *start_stopped(struct fixture *f)
{
	volatile uint32_t *words = f->data->va;

	start_waves(f);
	usleep(300000);
	EXPECT_EQ(words[0], 0);
	return words;
}

/* Waves start halted, and continue when the debugger clears the bit. */
TEST(waves_start_halted)
{
	volatile uint32_t *words;
	struct wave_bits halted;
	struct session s;
	struct fixture f;
	uint32_t id;

	debug_new_queue(&s, &f);
	ASSERT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT));
	words = start_stopped(&f);
	expect_saved(&s, &f, 0);
	ASSERT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL));
	halted = bits_halt(&f.k.node);
	for_each_wave(&f.q, continue_wave, &halted);
	ASSERT_OK(kfd_hdp_flush(&f.k));
	id = f.q.id;
	ASSERT_RET(resume_queues(&s, &id, 1), 1);
	ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves", words[0]);
	words[64] = 1;
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
}

/* A suspend may come while halted waves are being restored. */
TEST(halted_waves_are_suspended_again)
{
	struct session s;
	struct fixture f;
	uint32_t id;

	debug_new_queue(&s, &f);
	ASSERT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT));
	start_stopped(&f);
	for (int i = 0; i < 200; i++) {
		expect_saved(&s, &f, 0);
		id = f.q.id;
		ASSERT_RET(resume_queues(&s, &id, 1), 1);
	}
}

/* A trap before the first instruction halts a wave without a second-level handler. */
TEST(trap_on_wave_start)
{
	uint32_t enable = KFD_DBG_TRAP_MASK_TRAP_ON_WAVE_START, request = enable;
	struct session s;
	struct fixture f;

	debug_new_queue(&s, &f);
	ASSERT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	start_stopped(&f);
	expect_saved(&s, &f, is_gfx12(&f.k.node) ? 1u << 8 : 1u << 23);
}

/* A wave in single-step mode traps after its first instruction. */
TEST(single_step)
{
	struct session s;
	struct fixture f;

	debug_new_queue(&s, &f);
	ASSERT_OK(launch_mode(&s, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG));
	start_stopped(&f);
	expect_saved(&s, &f, is_gfx12(&f.k.node) ? 1u << 11 : 1u << 25);
}

/* Waves that read a watched word trap. */
/* A load matches watchpoints of `mode`, and not those of mode `other`. */
static void watch_loads(uint32_t mode, uint32_t other)
{
	uint32_t enable = KFD_DBG_TRAP_MASK_DBG_ADDRESS_WATCH, request = enable, id;
	volatile uint32_t *words;
	struct session s;
	struct fixture f;

	debug_new_queue(&s, &f);
	ASSERT_OK(launch_override(&s, KFD_DBG_TRAP_OVERRIDE_OR, &enable, &request));
	words = f.data->va;
	ASSERT_OK(set_watch(&s, f.k.node.gpu_id, &words[64], other, &id));
	EXPECT_EQ(id, 0);
	start_endless(&f);
	words[64] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_OK(clear_watch(&s, f.k.node.gpu_id, id));
	words[0] = words[64] = 0;
	ASSERT_OK(set_watch(&s, f.k.node.gpu_id, &words[64], mode, &id));
	EXPECT_EQ(id, 0);
	start_waves(&f);
	ASSERT(becomes(&words[0], 11, WAIT_MS), "%u of 11 waves", words[0]);
	usleep(300000);
	/* It has no effect on waves that are halted. */
	words[64] = 1;
	usleep(300000);
	EXPECT_EQ(f.signal.s->value, 1);
	expect_saved(&s, &f, is_gfx12(&f.k.node) ? 1u << 0 : 1u << 7);
}

TEST(watchpoint)
{
	watch_loads(KFD_DBG_TRAP_ADDRESS_WATCH_MODE_READ, KFD_DBG_TRAP_ADDRESS_WATCH_MODE_NONREAD);
}

TEST(watchpoint_of_all_accesses)
{
	watch_loads(KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ALL, KFD_DBG_TRAP_ADDRESS_WATCH_MODE_ATOMIC);
}
