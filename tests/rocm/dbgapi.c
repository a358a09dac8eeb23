// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A client of AMD's debugger library: starts a HIP program (debuggee.hip) or attaches to it, lists
 * its queues, dispatches and waves, reads and writes registers and memory, steps, sets
 * breakpoints and watchpoints, and detaches. The program must end as if it had never been debugged.
 */
#define _GNU_SOURCE
#include <amd-dbgapi/amd-dbgapi.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktap.h"

#define WAVES 6u
/* Maximum number of lanes of a wave. */
#define LANES 64u

/* A debugged program. */
struct target {
	pid_t pid;
	int mem, in;
	FILE *out;
	/* The word that ends its kernel, and the counts of its lanes. */
	uint64_t end, counts;
	/* Lanes of a wave. */
	unsigned int lanes;
	amd_dbgapi_process_id_t process;
	int notifier;
	/* The library's breakpoint in the runtime, on the CPU, and the byte that it replaces. */
	uint64_t breakpoint;
	amd_dbgapi_breakpoint_id_t breakpoint_id;
	unsigned char replaced;
};

#define MUST(call)                                                                             \
	do {                                                                                   \
		amd_dbgapi_status_t status_ = (call);                                          \
		ASSERT(status_ == AMD_DBGAPI_STATUS_SUCCESS, "%s: %s", #call, text_of(status_)); \
	} while (0)

static const char *text_of(amd_dbgapi_status_t status)
{
	const char *text = "?";

	amd_dbgapi_get_status_string(status, &text);
	return text;
}

static amd_dbgapi_status_t get_info(amd_dbgapi_client_process_id_t client,
				    amd_dbgapi_client_process_info_t query, size_t size, void *value)
{
	const struct target *t = (const struct target *)client;

	if (query != AMD_DBGAPI_CLIENT_PROCESS_INFO_OS_PID)
		return AMD_DBGAPI_STATUS_ERROR_NOT_AVAILABLE;
	if (size != sizeof(t->pid))
		return AMD_DBGAPI_STATUS_ERROR_INVALID_ARGUMENT_COMPATIBILITY;
	memcpy(value, &t->pid, size);
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static bool poke(const struct target *t, uint64_t at, unsigned char byte)
{
	return pwrite(t->mem, &byte, 1, (off_t)at) == 1;
}

/* The library has one, which the runtime reaches when it loads or unloads code. */
static amd_dbgapi_status_t insert_breakpoint(amd_dbgapi_client_process_id_t client,
					     amd_dbgapi_global_address_t address,
					     amd_dbgapi_breakpoint_id_t id)
{
	struct target *t = (struct target *)client;

	if (t->breakpoint || pread(t->mem, &t->replaced, 1, (off_t)address) != 1 ||
	    !poke(t, address, 0xcc))
		return AMD_DBGAPI_STATUS_ERROR;
	t->breakpoint = address;
	t->breakpoint_id = id;
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t remove_breakpoint(amd_dbgapi_client_process_id_t client,
					     amd_dbgapi_breakpoint_id_t id)
{
	struct target *t = (struct target *)client;

	if (id.handle != t->breakpoint_id.handle || !poke(t, t->breakpoint, t->replaced))
		return AMD_DBGAPI_STATUS_ERROR;
	t->breakpoint = 0;
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t transfer(amd_dbgapi_client_process_id_t client,
				    amd_dbgapi_global_address_t at, amd_dbgapi_size_t *size,
				    void *to, const void *from)
{
	const struct target *t = (const struct target *)client;
	ssize_t done = to ? pread(t->mem, to, *size, (off_t)at)
			  : pwrite(t->mem, from, *size, (off_t)at);

	if (done <= 0)
		return AMD_DBGAPI_STATUS_ERROR_MEMORY_ACCESS;
	*size = (amd_dbgapi_size_t)done;
	return AMD_DBGAPI_STATUS_SUCCESS;
}

static void log_message(amd_dbgapi_log_level_t level, const char *message)
{
	(void)level;
	ktap_note("dbgapi: %s", message);
}

static amd_dbgapi_callbacks_t callbacks = {
	.allocate_memory = malloc,
	.deallocate_memory = free,
	.client_process_get_info = get_info,
	.insert_breakpoint = insert_breakpoint,
	.remove_breakpoint = remove_breakpoint,
	.xfer_global_memory = transfer,
	.log_message = log_message,
};

/* Starts the program, traced or not. */
static void run(struct target *t, bool traced)
{
	int in[2], out[2];
	char path[256];
	ssize_t length;

	/* It is beside this one. */
	length = readlink("/proc/self/exe", path, sizeof(path) - sizeof("debuggee"));
	ASSERT(length > 0);
	path[length] = 0;
	strcpy(strrchr(path, '/') + 1, "debuggee");
	ASSERT(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	t->pid = fork();
	ASSERT(t->pid >= 0);
	if (!t->pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (traced)
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = fdopen(out[0], "r");
	ASSERT(t->out);
	t->breakpoint = 0;
	if (traced) {
		int status;

		/* It has executed execve(). */
		ASSERT(waitpid(t->pid, &status, 0) == t->pid && WIFSTOPPED(status));
	}
}

/* Waits until all waves of the program run. */
static void read_addresses(struct target *t)
{
	void *end, *counts;

	ASSERT(fscanf(t->out, "%p %p %u", &end, &counts, &t->lanes) == 3);
	ASSERT(t->lanes <= LANES);
	t->end = (uintptr_t)end;
	t->counts = (uintptr_t)counts;
}

static void attach_library(struct target *t)
{
	const char *level = getenv("DBGAPI_LOG");
	char path[64];

	/* The memory of the program, which has executed execve(). */
	snprintf(path, sizeof(path), "/proc/%d/mem", t->pid);
	t->mem = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(t->mem >= 0);
	MUST(amd_dbgapi_initialize(&callbacks));
	amd_dbgapi_set_log_level(level ? atoi(level) : AMD_DBGAPI_LOG_LEVEL_WARNING);
	MUST(amd_dbgapi_process_attach((amd_dbgapi_client_process_id_t)t, &t->process));
	MUST(amd_dbgapi_process_get_info(t->process, AMD_DBGAPI_PROCESS_INFO_NOTIFIER,
					 sizeof(t->notifier), &t->notifier));
}

/* Attaches to a running program. */
static void attach(struct target *t)
{
	run(t, false);
	read_addresses(t);
	ASSERT(!ptrace(PTRACE_SEIZE, t->pid, NULL, NULL));
	attach_library(t);
}

/* Detaches, and expects that the program ends well. */
static void detach(struct target *t)
{
	char line[16] = "";
	int status;

	MUST(amd_dbgapi_process_detach(t->process));
	MUST(amd_dbgapi_finalize());
	ASSERT(write(t->in, "\n", 1) == 1);
	EXPECT(fscanf(t->out, "%15s", line) == 1 && !strcmp(line, "done"), "'%s'", line);
	ASSERT(waitpid(t->pid, &status, 0) == t->pid);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
}

/* Returns the next event and its wave, after at most 20 s; it is processed. */
static amd_dbgapi_event_kind_t next_event(struct target *t, amd_dbgapi_wave_id_t *wave)
{
	for (int i = 0; i < 200; i++) {
		amd_dbgapi_event_kind_t kind;
		amd_dbgapi_event_id_t event;
		struct pollfd fd = { .fd = t->notifier, .events = POLLIN };
		char bytes[64];

		MUST(amd_dbgapi_process_next_pending_event(t->process, &event, &kind));
		if (kind != AMD_DBGAPI_EVENT_KIND_NONE) {
			if (kind == AMD_DBGAPI_EVENT_KIND_WAVE_STOP ||
			    kind == AMD_DBGAPI_EVENT_KIND_WAVE_COMMAND_TERMINATED)
				MUST(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_WAVE,
							       sizeof(*wave), wave));
			MUST(amd_dbgapi_event_processed(event));
			return kind;
		}
		if (poll(&fd, 1, 100) > 0)
			while (read(t->notifier, bytes, sizeof(bytes)) > 0)
				;
	}
	return AMD_DBGAPI_EVENT_KIND_NONE;
}

static amd_dbgapi_wave_id_t *waves_of(struct target *t, size_t *count)
{
	amd_dbgapi_wave_id_t *waves = NULL;

	MUST(amd_dbgapi_process_wave_list(t->process, count, &waves, NULL));
	return waves;
}

static uint64_t pc_of(amd_dbgapi_wave_id_t wave)
{
	uint64_t pc;

	MUST(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_PC, sizeof(pc), &pc));
	return pc;
}

static uint32_t reason_of(amd_dbgapi_wave_id_t wave)
{
	uint32_t reason;

	MUST(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_STOP_REASON, sizeof(reason),
				      &reason));
	return reason;
}

static void expect_stop(struct target *t, amd_dbgapi_wave_id_t wave, uint32_t reason)
{
	amd_dbgapi_wave_id_t stopped = { 0 };

	ASSERT_EQ(next_event(t, &stopped), AMD_DBGAPI_EVENT_KIND_WAVE_STOP);
	EXPECT_EQ(stopped.handle, wave.handle);
	EXPECT_EQ(reason_of(wave), reason);
}

/* Stops the first wave. */
static amd_dbgapi_wave_id_t stop_first(struct target *t)
{
	amd_dbgapi_wave_id_t *waves, wave;
	size_t count;

	waves = waves_of(t, &count);
	ASSERT_EQ(count, WAVES);
	wave = waves[0];
	free(waves);
	MUST(amd_dbgapi_wave_stop(wave));
	expect_stop(t, wave, AMD_DBGAPI_WAVE_STOP_REASON_NONE);
	return wave;
}

static void resume(amd_dbgapi_wave_id_t wave, amd_dbgapi_resume_mode_t mode)
{
	MUST(amd_dbgapi_wave_resume(wave, mode, AMD_DBGAPI_EXCEPTION_NONE));
}

static amd_dbgapi_register_id_t find_register(amd_dbgapi_wave_id_t wave, const char *name)
{
	amd_dbgapi_register_id_t *registers, found = AMD_DBGAPI_REGISTER_NONE;
	size_t count;

	MUST(amd_dbgapi_wave_register_list(wave, &count, &registers));
	for (size_t i = 0; i < count; i++) {
		char *text;

		MUST(amd_dbgapi_register_get_info(registers[i], AMD_DBGAPI_REGISTER_INFO_NAME,
						  sizeof(text), &text));
		if (!strcmp(text, name))
			found = registers[i];
		free(text);
	}
	free(registers);
	ASSERT(found.handle, "no register %s", name);
	return found;
}

TEST_TIMEOUT(lists, 120)
{
	amd_dbgapi_dispatch_id_t *dispatches;
	amd_dbgapi_agent_id_t *agents;
	amd_dbgapi_queue_id_t *queues;
	amd_dbgapi_wave_id_t *waves, none;
	size_t count, active = 0;
	struct target t;

	attach(&t);
	EXPECT_EQ(next_event(&t, &none), AMD_DBGAPI_EVENT_KIND_RUNTIME);
	MUST(amd_dbgapi_process_agent_list(t.process, &count, &agents, NULL));
	EXPECT(count >= 1);
	for (size_t i = 0; i < count; i++) {
		uint32_t state;

		MUST(amd_dbgapi_agent_get_info(agents[i], AMD_DBGAPI_AGENT_INFO_STATE, sizeof(state),
					       &state));
		active += state == AMD_DBGAPI_AGENT_STATE_SUPPORTED;
	}
	EXPECT_EQ(active, count);
	MUST(amd_dbgapi_process_queue_list(t.process, &count, &queues, NULL));
	EXPECT(count >= 1);
	MUST(amd_dbgapi_process_dispatch_list(t.process, &count, &dispatches, NULL));
	EXPECT_EQ(count, 1);
	waves = waves_of(&t, &count);
	EXPECT_EQ(count, WAVES);
	for (size_t i = 0; i < count; i++) {
		uint32_t state;

		MUST(amd_dbgapi_wave_get_info(waves[i], AMD_DBGAPI_WAVE_INFO_STATE, sizeof(state),
					      &state));
		EXPECT_EQ(state, AMD_DBGAPI_WAVE_STATE_RUN);
	}
	free(agents);
	free(queues);
	free(dispatches);
	free(waves);
	detach(&t);
}

TEST_TIMEOUT(registers, 120)
{
	amd_dbgapi_register_id_t v;
	amd_dbgapi_wave_id_t wave, none;
	uint32_t old[LANES], new[LANES], read[LANES];
	amd_dbgapi_size_t bytes;
	uint64_t exec, pc;
	struct target t;

	attach(&t);
	next_event(&t, &none);
	wave = stop_first(&t);
	MUST(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_EXEC_MASK, sizeof(exec), &exec));
	EXPECT_EQ(exec, ~0ull >> (64 - t.lanes));
	MUST(amd_dbgapi_read_register(wave, find_register(wave, "pc"), 0, sizeof(pc), &pc));
	EXPECT_EQ(pc, pc_of(wave));
	v = find_register(wave, "v5");
	bytes = t.lanes * sizeof(*old);
	MUST(amd_dbgapi_read_register(wave, v, 0, bytes, old));
	for (unsigned int i = 0; i < t.lanes; i++)
		new[i] = old[i] + i * 3 + 1;
	MUST(amd_dbgapi_write_register(wave, v, 0, bytes, new));
	MUST(amd_dbgapi_read_register(wave, v, 0, bytes, read));
	EXPECT(!memcmp(read, new, bytes));
	MUST(amd_dbgapi_write_register(wave, v, 0, bytes, old));
	resume(wave, AMD_DBGAPI_RESUME_MODE_NORMAL);
	detach(&t);
}

TEST_TIMEOUT(single_steps, 120)
{
	amd_dbgapi_wave_id_t wave, none;
	struct target t;
	uint64_t pc;

	attach(&t);
	next_event(&t, &none);
	wave = stop_first(&t);
	pc = pc_of(wave);
	for (int i = 0; i < 10; i++) {
		resume(wave, AMD_DBGAPI_RESUME_MODE_SINGLE_STEP);
		expect_stop(&t, wave, AMD_DBGAPI_WAVE_STOP_REASON_SINGLE_STEP);
		EXPECT(pc_of(wave) != pc, "%#llx", (unsigned long long)pc);
		pc = pc_of(wave);
	}
	resume(wave, AMD_DBGAPI_RESUME_MODE_NORMAL);
	detach(&t);
}

/* Writes an instruction. Running waves would not see it: all queues are suspended meanwhile. */
static void write_code(struct target *t, uint64_t at, const void *from, amd_dbgapi_size_t size)
{
	amd_dbgapi_size_t moved = size;
	size_t count;

	MUST(amd_dbgapi_process_set_progress(t->process, AMD_DBGAPI_PROGRESS_NO_FORWARD));
	/* Suspends the queues. */
	free(waves_of(t, &count));
	MUST(amd_dbgapi_write_memory(t->process, AMD_DBGAPI_WAVE_NONE, AMD_DBGAPI_LANE_NONE,
				     AMD_DBGAPI_ADDRESS_SPACE_GLOBAL, at, &moved, from));
	EXPECT_EQ(moved, size);
	MUST(amd_dbgapi_process_set_progress(t->process, AMD_DBGAPI_PROGRESS_NORMAL));
}

/* A breakpoint in the loop stops each wave there. */
TEST_TIMEOUT(breakpoint, 120)
{
	amd_dbgapi_architecture_id_t architecture;
	amd_dbgapi_size_t size, adjust, moved;
	amd_dbgapi_wave_id_t wave, *waves, none;
	unsigned char old[8];
	uint8_t *instruction;
	struct target t;
	size_t count;
	uint64_t at;

	attach(&t);
	next_event(&t, &none);
	wave = stop_first(&t);
	/* An instruction of the loop that this wave executes next. */
	resume(wave, AMD_DBGAPI_RESUME_MODE_SINGLE_STEP);
	expect_stop(&t, wave, AMD_DBGAPI_WAVE_STOP_REASON_SINGLE_STEP);
	at = pc_of(wave);
	MUST(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_ARCHITECTURE, sizeof(architecture),
				      &architecture));
	MUST(amd_dbgapi_architecture_get_info(architecture,
					      AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION_SIZE,
					      sizeof(size), &size));
	MUST(amd_dbgapi_architecture_get_info(architecture,
					      AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION,
					      sizeof(instruction), &instruction));
	MUST(amd_dbgapi_architecture_get_info(
		architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION_PC_ADJUST,
		sizeof(adjust), &adjust));
	ASSERT(size <= sizeof(old));
	moved = size;
	MUST(amd_dbgapi_read_memory(t.process, AMD_DBGAPI_WAVE_NONE, AMD_DBGAPI_LANE_NONE,
				    AMD_DBGAPI_ADDRESS_SPACE_GLOBAL, at, &moved, old));
	write_code(&t, at, instruction, size);
	free(instruction);
	for (unsigned int i = 0; i < WAVES - 1; i++) {
		amd_dbgapi_wave_id_t stopped = { 0 };

		ASSERT_EQ(next_event(&t, &stopped), AMD_DBGAPI_EVENT_KIND_WAVE_STOP);
		EXPECT(stopped.handle != wave.handle);
		EXPECT_EQ(reason_of(stopped), AMD_DBGAPI_WAVE_STOP_REASON_BREAKPOINT);
		EXPECT_EQ(pc_of(stopped), at + adjust);
		/* Back to the instruction that it replaced. */
		MUST(amd_dbgapi_write_register(stopped, find_register(stopped, "pc"), 0, sizeof(at),
					       &at));
	}
	write_code(&t, at, old, size);
	waves = waves_of(&t, &count);
	ASSERT_EQ(count, WAVES);
	for (size_t i = 0; i < count; i++) {
		EXPECT_EQ(pc_of(waves[i]), at);
		resume(waves[i], AMD_DBGAPI_RESUME_MODE_NORMAL);
	}
	free(waves);
	detach(&t);
}

/* All waves count in the watched memory of their own. */
TEST_TIMEOUT(watchpoint, 120)
{
	amd_dbgapi_watchpoint_id_t watchpoint;
	amd_dbgapi_wave_id_t stopped, none;
	struct target t;

	attach(&t);
	next_event(&t, &none);
	MUST(amd_dbgapi_set_watchpoint(t.process, t.counts, 4,
				       AMD_DBGAPI_WATCHPOINT_KIND_STORE_AND_RMW, &watchpoint));
	ASSERT_EQ(next_event(&t, &stopped), AMD_DBGAPI_EVENT_KIND_WAVE_STOP);
	EXPECT_EQ(reason_of(stopped), AMD_DBGAPI_WAVE_STOP_REASON_WATCHPOINT);
	MUST(amd_dbgapi_remove_watchpoint(watchpoint));
	resume(stopped, AMD_DBGAPI_RESUME_MODE_NORMAL);
	detach(&t);
}

/* Steps a thread over the breakpoint. The other threads do not load code meanwhile. */
static void step_over_breakpoint(struct target *t, pid_t thread)
{
	int status;

	ASSERT(poke(t, t->breakpoint, t->replaced));
	ASSERT(!ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL));
	ASSERT(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status) &&
	       WSTOPSIG(status) == SIGTRAP);
	ASSERT(poke(t, t->breakpoint, 0xcc));
	ASSERT(!ptrace(PTRACE_CONT, thread, NULL, NULL));
}

/* Handles a thread of a traced program that has stopped or ended. */
static void handle_stop(struct target *t, pid_t thread, int status)
{
	amd_dbgapi_client_thread_id_t id = (amd_dbgapi_client_thread_id_t)(intptr_t)thread;
	amd_dbgapi_breakpoint_action_t action;
	struct user_regs_struct regs;
	int signal = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		if (thread == t->pid) {
			EXPECT_EQ(status, 0);
			t->pid = 0;
		}
		return;
	}
	/* A new thread, or the one that has created it. */
	if (status >> 16 || signal == SIGSTOP)
		signal = 0;
	if (signal != SIGTRAP) {
		ASSERT(!ptrace(PTRACE_CONT, thread, NULL, signal));
		return;
	}
	ASSERT(!ptrace(PTRACE_GETREGS, thread, NULL, &regs));
	ASSERT(t->breakpoint && regs.rip == t->breakpoint + 1, "rip %#llx", regs.rip);
	regs.rip = t->breakpoint;
	ASSERT(!ptrace(PTRACE_SETREGS, thread, NULL, &regs));
	MUST(amd_dbgapi_report_breakpoint_hit(t->breakpoint_id, id, &action));
	/* Otherwise an event resumes it. */
	if (action == AMD_DBGAPI_BREAKPOINT_ACTION_RESUME)
		step_over_breakpoint(t, thread);
}

/* Resumes the thread of a BREAKPOINT_RESUME event. */
static void resume_from_breakpoint(struct target *t, amd_dbgapi_event_id_t event)
{
	amd_dbgapi_client_thread_id_t thread;

	MUST(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_CLIENT_THREAD, sizeof(thread),
				       &thread));
	step_over_breakpoint(t, (pid_t)(intptr_t)thread);
}

/* Runs the program until the next event of the library, for 100 ms at most. */
static amd_dbgapi_event_kind_t run_until_event(struct target *t)
{
	amd_dbgapi_event_kind_t kind = AMD_DBGAPI_EVENT_KIND_NONE;

	for (unsigned int i = 0; i < 100 && t->pid; i++) {
		amd_dbgapi_event_id_t event;
		int status;
		pid_t thread;

		while ((thread = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
			handle_stop(t, thread, status);
		MUST(amd_dbgapi_process_next_pending_event(t->process, &event, &kind));
		if (kind != AMD_DBGAPI_EVENT_KIND_NONE) {
			if (kind == AMD_DBGAPI_EVENT_KIND_BREAKPOINT_RESUME)
				resume_from_breakpoint(t, event);
			MUST(amd_dbgapi_event_processed(event));
			break;
		}
		usleep(1000);
	}
	return kind;
}

/* The program is debugged from its first instruction to its end. */
TEST_TIMEOUT(started_program, 180)
{
	unsigned int runtimes = 0, code_objects = 0;
	size_t count = 0;
	struct target t;

	run(&t, true);
	ASSERT(!ptrace(PTRACE_SETOPTIONS, t.pid, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
	attach_library(&t);
	ASSERT(!ptrace(PTRACE_CONT, t.pid, NULL, NULL));
	for (int i = 0; i < 600 && count < WAVES; i++) {
		amd_dbgapi_event_kind_t kind = run_until_event(&t);

		ASSERT(t.pid, "the program has ended");
		runtimes += kind == AMD_DBGAPI_EVENT_KIND_RUNTIME;
		code_objects += kind == AMD_DBGAPI_EVENT_KIND_CODE_OBJECT_LIST_UPDATED;
		free(waves_of(&t, &count));
	}
	ASSERT_EQ(count, WAVES);
	EXPECT_EQ(runtimes, 1);
	EXPECT(code_objects > 0);
	ASSERT(write(t.in, "\n", 1) == 1);
	for (int i = 0; i < 600 && t.pid; i++)
		run_until_event(&t);
	ASSERT(!t.pid, "the program has not ended");
	MUST(amd_dbgapi_process_detach(t.process));
	MUST(amd_dbgapi_finalize());
}
