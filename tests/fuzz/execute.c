// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Runs a program in processes of its own, with a time limit. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../workloads/fail-one.h"
#include "../workloads/random.h"
#include "fuzz.h"

/*
 * A program that takes longer is killed; one that cannot be killed for so long is a finding. The
 * first is multiplied by ktap's factor for the debug kernel; that of programs with a test is not.
 */
#define LIMIT_MS 1000
#define TEST_LIMIT_MS 30000
#define KILL_MS 120000
#define MEMORY_SIZE (64u << 10)
/* Descriptors from here on belong to the fuzzer. */
#define OWN_FILES 900

/* Written by the tasks. */
struct progress {
	unsigned int done, succeeded;
	/* Per task: the step that runs, plus 1. */
	unsigned int step[TASKS];
};

static struct progress *progress;
static struct kfd_node node;
static const struct program *program;
static __thread struct task *current;

void execute_init(void)
{
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (progress == MAP_FAILED || kfd_topology_find_gpu(&node))
		abort();
	/* The child of a program's process becomes ours if that ends first. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t symbol(const struct task *task, uint64_t which)
{
	switch (which) {
	case GPU:
		return node.gpu_id;
	case PID:
		return (uint64_t)getpid();
	case OTHER_PID:
		return (uint64_t)(task->other ? task->other : getpid());
	case CWSR_SIZE:
		return node.cwsr_size;
	case CWSR_AREA:
		return kfd_cwsr_bytes(&node);
	case CTL_STACK:
		return node.ctl_stack_size;
	case DOORBELLS:
		return 3ull << 62 | (uint64_t)node.gpu_id << 46;
	default:
		return now_ns() + 5000000;
	}
}

/* Restricts numbers that would make the program take all memory or run for ever. */
static uint64_t tame(const struct call *call, const struct field *field, uint64_t number)
{
	switch (field->type) {
	case SIZE:
		return random_tame_size(number);
	case MS:
		return number & 31;
	case TIME:
		return number < now_ns() + 20000000 ? number : now_ns() + 20000000;
	case COUNT:
		/* The DRM core allocates as much as is requested, and warns if it cannot. */
		return call->file == DRM_FILE && !call->run ? number & 0xffff : number;
	default:
		return number;
	}
}

static uint64_t block_address(const struct task *task, const struct call *call, uint64_t number)
{
	unsigned int index = number & (MAX_BLOCKS - 1);
	unsigned char *p = task->memory;

	for (unsigned int b = 0; b < index; b++)
		p += (call->blocks[b].size * call->blocks[b].count + 15) & ~15;
	return kfd_va(p) + (number >> 8 & 15) * call->blocks[index].size;
}

static uint64_t resolve(const struct task *task, const struct call *call, const struct field *field,
			struct value v)
{
	switch (v.tag) {
	case MEM:
		return ARENA + v.number % ARENA_SIZE;
	case REG:
		return task->registers[field->of][v.number % REGISTERS];
	case BLOCK:
		return block_address(task, call, v.number);
	case SYM:
		return symbol(task, v.number);
	default:
		return tame(call, field, v.number);
	}
}

static void store_result(const struct task *task, const struct field *field, struct value v,
			 uint64_t result)
{
	task->registers[field->of][v.number % REGISTERS] = result;
}

static long run_ioctl(struct task *task, const struct step *s)
{
	const struct call *call = calls[s->call];
	uint64_t file = resolve(task, call, place(s->call, 0)->field, s->values[0]);
	unsigned int count = places_count(s->call);
	long ret;

	memset(task->memory, 0, 8192);
	for (unsigned int i = 1; i < count; i++) {
		const struct place *p = place(s->call, i);
		uint64_t number;

		if (p->field->type == OUT)
			continue;
		number = resolve(task, call, p->field, s->values[i]);
		memcpy((unsigned char *)block_address(task, call,
						      p->block_index | (uint64_t)p->element << 8) +
			       p->field->offset,
		       &number, p->field->size);
	}
	ret = ioctl((int)file, call->request, task->memory);
	for (unsigned int i = 1; i < count && ret >= 0; i++) {
		const struct field *field = place(s->call, i)->field;
		uint64_t result = 0;

		if (field->type != OUT)
			continue;
		memcpy(&result, task->memory + field->offset, field->size);
		store_result(task, field, s->values[i], result);
	}
	return ret;
}

static long run_other(struct task *task, const struct step *s)
{
	const struct call *call = calls[s->call];
	unsigned int count = places_count(s->call);
	uint64_t args[16] = { 0 };
	long ret;

	for (unsigned int i = 0; i < count; i++)
		args[i] = resolve(task, call, place(s->call, i)->field, s->values[i]);
	ret = call->run(task, args);
	for (unsigned int i = 0; i < count && ret >= 0; i++)
		if (place(s->call, i)->field->type == OUT)
			store_result(task, place(s->call, i)->field, s->values[i], (uint64_t)ret);
	return ret;
}

static void on_fault(int signal)
{
	if (!current || !current->may_fault)
		_exit(128 + signal);
	current->may_fault = 0;
	siglongjmp(current->fault, 1);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Without SA_RESTART: the signal interrupts a call. */
static void catch_signals(void)
{
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct sigaction alarm = { .sa_handler = on_alarm };

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGALRM, &alarm, NULL);
}

static void run_task(struct task *task, unsigned int from);

static void *run_thread(void *data)
{
	struct task *task = data;

	run_task(task, 0);
	return NULL;
}

/* A process: its main task and its second one, tasks `index` and `index` + 1. */
static void run_process(unsigned int index, pid_t other, uint64_t (*registers)[REGISTERS],
			unsigned int from)
{
	static struct task tasks[2];
	unsigned char *memory = mmap(NULL, 2 * MEMORY_SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned int i = 0; i < 2; i++)
		tasks[i] = (struct task){ .index = index + i,
					  .registers = registers,
					  .other = other,
					  .memory = memory + i * MEMORY_SIZE };
	run_task(&tasks[0], from);
}

/* Starts the other process of the program, which goes on with its calls from `from` on. */
static void start_other(struct task *task, unsigned int from)
{
	pid_t parent = getpid();
	pid_t child = fork();

	if (child < 0)
		return;
	if (!child) {
		run_process(2, parent, task->registers, from);
		_exit(0);
	}
	task[0].other = child;
	if (task->index == 0)
		task[1].other = child;
}

static void run_step(struct task *task, unsigned int index)
{
	const struct step *s = &program->steps[index];
	unsigned int failing = task->failing;
	int injection = -1;
	long ret;

	progress->step[task->index] = index + 1;
	task->step = index;
	task->failing = 0;
	if (failing)
		injection = fail_one(failing);
	ret = calls[s->call]->run ? run_other(task, s) : run_ioctl(task, s);
	if (failing)
		end_failing_one(injection);
	__atomic_fetch_add(&progress->done, 1, __ATOMIC_RELAXED);
	if (ret >= 0)
		__atomic_fetch_add(&progress->succeeded, 1, __ATOMIC_RELAXED);
	cover_collect(task->trace, index);
}

/* Ends the use of the driver in the traced task. */
static void clean_up(struct task *task)
{
	munmap((void *)ARENA, ARENA_SIZE);
	cover_collect(task->trace, program->count);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	cover_collect(task->trace, program->count);
}

/* Waits for the other process; one that this process traces and that has stopped goes on. */
static void wait_other(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, 0)) > 0)
		if (WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, pid, 0, 0);
}

/*
 * Runs the calls of a task. The main task of the first process starts the others, each at its first
 * call.
 */
static void run_task(struct task *task, unsigned int from)
{
	bool has_thread = false, has_other = task->index >= 2;
	pthread_t thread;

	current = task;
	task->trace = cover_start(task->index);
	for (unsigned int i = from; i < program->count && !task->leaves; i++) {
		unsigned int owner = program->steps[i].task;

		if (owner == task->index) {
			run_step(task, i);
		} else if (!(task->index & 1) && owner == task->index + 1 && !has_thread) {
			has_thread = !pthread_create(&thread, NULL, run_thread, task + 1);
		} else if (task->index == 0 && owner >= 2 && !has_other) {
			has_other = true;
			start_other(task, i);
		}
	}
	if (task->index & 1) {
		cover_stop(task->trace);
		return;
	}
	if (has_thread && !task->leaves)
		pthread_join(thread, NULL);
	if (task->index == 0 && has_other && !task->leaves)
		wait_other();
	if (!task->leaves)
		clean_up(task);
	progress->step[task->index] = 0;
	/* That of the first process goes on until exec(). */
	if (task->index)
		cover_stop(task->trace);
}

static void run_program(void)
{
	static uint64_t registers[KINDS][REGISTERS];
	struct rlimit core = { 0 };

	setpgid(0, 0);
	setrlimit(RLIMIT_CORE, &core);
	catch_signals();
	memset(registers, 0xff, sizeof(registers));
	if (mmap((void *)ARENA, ARENA_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		_exit(1);
	run_process(0, 0, registers, 0);
	/* The end of the address space is traced in exec(), not in exit(). */
	execl("/proc/self/exe", "fuzz-cover", "--nothing", (char *)NULL);
	_exit(0);
}

static void print_file(const char *path)
{
	char line[256];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		printf("#   %s", line);
	if (f)
		fclose(f);
}

/* Returns the parent of a process, 0 if there is none. */
static pid_t parent_of(pid_t pid)
{
	char path[64], line[512];
	const char *after_name;
	pid_t parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f)) {
		after_name = strrchr(line, ')');
		if (after_name)
			sscanf(after_name, ") %*c %d", &parent);
	}
	if (f)
		fclose(f);
	return parent;
}

static bool is_of_program(pid_t pid)
{
	do
		pid = parent_of(pid);
	while (pid > 0 && pid != getpid());
	return pid > 0;
}

/* Calls `use` for all processes of programs: the fuzzer's descendants. */
static void for_each_process(void (*use)(pid_t pid))
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && is_of_program(pid))
			use(pid);
	}
	if (proc)
		closedir(proc);
}

static void print_process(pid_t pid)
{
	char path[64];

	printf("# process %d\n", pid);
	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	print_file(path);
}

static void kill_process(pid_t pid)
{
	kill(pid, SIGKILL);
}

/* Prints where the tasks of the program are that do not end. */
static void print_hung(const struct program *p)
{
	for (unsigned int i = 0; i < TASKS; i++)
		if (progress->step[i])
			printf("# task %u is in call %u, %s\n", i, progress->step[i] - 1,
			       progress->step[i] - 1 < p->count ?
				       calls[p->steps[progress->step[i] - 1].call]->name :
				       "close");
	for_each_process(print_process);
}

/* Waits until all processes have ended, and kills them on request; returns whether they did. */
static bool wait_all(int limit_ms, bool with_kill)
{
	uint64_t end = now_ns() + (uint64_t)limit_ms * 1000000, next = 0;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return true;
		if (pid > 0)
			continue;
		if (now_ns() > end)
			return false;
		if (with_kill && now_ns() > next) {
			for_each_process(kill_process);
			next = now_ns() + 200000000;
		}
		usleep(500);
	}
}

void execute(const struct program *p, struct result *result)
{
	int limit = has_test(p) ? TEST_LIMIT_MS : LIMIT_MS * atoi(getenv("KTAP_TIME_FACTOR") ?: "1");
	pid_t pid;

	memset(progress, 0, sizeof(*progress));
	memset(result, 0, sizeof(*result));
	program = p;
	fflush(stdout);
	pid = fork();
	if (!pid)
		run_program();
	setpgid(pid, pid);
	if (!wait_all(limit, false)) {
		result->late = true;
		result->hung = !wait_all(KILL_MS, true);
		if (result->hung)
			print_hung(p);
	}
	cover_collect_rest(p->count);
	result->done = progress->done;
	result->succeeded = progress->succeeded;
}
