// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests PID namespaces: SMI events have the ids that processes have in their own one, clients get
 * the events of their process and not of another with the same id, and debuggers name processes by
 * the ids of theirs.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debugger.h"
#include "listen.h"
#include "svm.h"

#define NOBODY 65534
#define PROCESSES "/sys/devices/virtual/kfd/kfd/proc"
#define MASK(event) KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_##event)

/* The first process of a namespace; shared with it. */
struct first {
	void (*run)(struct first *);
	/* Its id in the initial namespace. */
	pid_t pid;
	/* Pipes from and to its parent; a byte continues the reader. */
	int down[2], up[2];
};

/* Returns the id of this process in the namespace of the mounted procfs. */
static pid_t global_pid(void)
{
	char text[16] = { 0 };

	ASSERT(readlink("/proc/self", text, sizeof(text) - 1) > 0, "%s", strerror(errno));
	return atoi(text);
}

static void run_first(void *data)
{
	struct first *first = data;

	ASSERT_EQ(getpid(), 1);
	first->pid = global_pid();
	ASSERT(first->pid != 1);
	first->run(first);
}

static void enter_namespace(void *data)
{
	ASSERT(unshare(CLONE_NEWPID) == 0, "%s", strerror(errno));
	EXPECT_OK(ktap_in_child(run_first, data));
}

static struct first *new_first(void (*run)(struct first *))
{
	struct first *first = mmap(NULL, sizeof(*first), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(first != MAP_FAILED);
	first->run = run;
	ASSERT(pipe(first->down) == 0 && pipe(first->up) == 0);
	return first;
}

/* Runs a function as the first process of a namespace, to its end. */
static pid_t in_namespace(void (*run)(struct first *))
{
	struct first *first = new_first(run);

	EXPECT_OK(ktap_in_child(enter_namespace, first));
	return first->pid;
}

/* Starts one beside this process; returns the child that has to be awaited. */
static pid_t start_first(struct first *first)
{
	pid_t child = fork_child();

	if (!child) {
		enter_namespace(first);
		ktap_end();
	}
	return child;
}

static void end_first(pid_t child)
{
	int status;

	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
}

static void tell(const int *pipe)
{
	ASSERT(write(pipe[1], "", 1) == 1);
}

static void await(const int *pipe)
{
	char byte;

	ASSERT(read(pipe[0], &byte, 1) == 1);
}

/* Expects lines of these events only, each at least once and all with the id 1. */
static void expect_first_pid(const char *text, uint64_t events)
{
	uint64_t seen = 0;

	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		unsigned long long ns;
		unsigned int event;
		int pid;

		ASSERT(sscanf(line, "%x %llu -%d ", &event, &ns, &pid) == 3, "%s", line);
		EXPECT(pid == 1, "%.80s", line);
		seen |= KFD_SMI_EVENT_MASK_FROM_INDEX(event);
	}
	EXPECT(seen == events, "%#llx, not %#llx: %s", (unsigned long long)seen,
	       (unsigned long long)events, text);
}

/* Changes pages of a userptr BO, which evicts and restores the queues of the process. */
static void change_user_memory(struct kfd *k)
{
	char *memory = anonymous(KFD_PAGE);
	struct pages p;

	register_at(k, memory, kfd_va(memory), KFD_PAGE, &p);
	ASSERT(madvise(memory, KFD_PAGE, MADV_DONTNEED) == 0);
}

static void is_evicted(struct first *first)
{
	const char *text;
	struct fixture f;
	int fd;

	(void)first;
	fixture_launch(&f);
	fd = listen_to(&f.k, MASK(QUEUE_EVICTION) | MASK(QUEUE_RESTORE));
	change_user_memory(&f.k);
	listen_for_line(fd, " 0\n", &text);
	expect_first_pid(text, MASK(QUEUE_EVICTION) | MASK(QUEUE_RESTORE));
	EXPECT(fixture_works(&f));
}

/* A client in the initial namespace gets the same lines. */
TEST(evictions_have_the_id_of_the_namespace)
{
	struct kfd k;
	int fd;

	fixture_open_only(&k);
	fd = listen_to(&k, MASK(QUEUE_EVICTION) | MASK(QUEUE_RESTORE));
	in_namespace(is_evicted);
	expect_first_pid(listen_lines(fd, 0), MASK(QUEUE_EVICTION) | MASK(QUEUE_RESTORE));
}

static void moves_memory(struct first *first)
{
	const uint64_t events = MASK(MIGRATE_START) | MASK(MIGRATE_END);
	struct fixture f;
	uint32_t *words;
	int fd;

	(void)first;
	svm_launch(&f);
	words = anonymous_huge();
	memset(words, 1, 2 * MIB);
	fd = listen_to(&f.k, events);
	ASSERT_OK(svm_to_vram(&f.k, words, 2 * MIB));
	expect_first_pid(listen_lines(fd, 1000), events);
	EXPECT_EQ(words[0], 0x01010101);
	expect_first_pid(listen_lines(fd, 1000), events);
}

TEST(migrations_have_the_id_of_the_namespace)
{
	struct kfd k;

	fixture_open_only(&k);
	svm_needed(&k);
	in_namespace(moves_memory);
}

static void faults(struct first *first)
{
	const uint64_t events = MASK(PAGE_FAULT_START) | MASK(PAGE_FAULT_END);
	struct fixture f;
	uint32_t *words;
	int fd;

	(void)first;
	svm_launch_mode(&f, true);
	words = (uint32_t *)anonymous(4 * KFD_PAGE);
	ASSERT_OK(svm_set(&f.k, words, 4 * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	fd = listen_to(&f.k, events | MASK(UNMAP_FROM_GPU));
	ASSERT_OK(fixture_fill(&f, &f.q, words, 64, 2));
	expect_first_pid(listen_lines(fd, 1000), events);
	ASSERT(madvise(words, KFD_PAGE, MADV_DONTNEED) == 0);
	expect_first_pid(listen_lines(fd, 1000), MASK(UNMAP_FROM_GPU));
}

TEST(retry_faults_have_the_id_of_the_namespace)
{
	struct kfd k;

	fixture_open_only(&k);
	svm_mode_needed(&k, true);
	in_namespace(faults);
}

static void opens(struct first *first)
{
	char path[64];
	struct kfd k;

	fixture_open(&k);
	snprintf(path, sizeof(path), PROCESSES "/%d/pasid", first->pid);
	EXPECT(access(path, R_OK) == 0, "%s: %s", path, strerror(errno));
	EXPECT(access(PROCESSES "/1", F_OK) < 0);
}

/* As amdgpu_vm_set_task_info() and kfd_procfs_add_sysfs_files() have it. */
TEST(start_end_and_folder_have_the_id_of_the_initial_namespace)
{
	const char *text;
	struct kfd k;
	char line[32];
	pid_t pid;
	int fd;

	fixture_open_only(&k);
	fd = listen_to(&k, MASK(PROCESS_START) | MASK(PROCESS_END));
	pid = in_namespace(opens);
	snprintf(line, sizeof(line), "d %x namespaces\n", pid);
	listen_for_line(fd, line, &text);
	snprintf(line, sizeof(line), "c %x namespaces\n", pid);
	EXPECT(!strncmp(text, line, strlen(line)), "%s", text);
}

static void listens(struct first *first)
{
	struct kfd k;
	int fd;

	/* It could not open the render node after setuid(). */
	fixture_open(&k);
	ASSERT(setuid(NOBODY) == 0);
	fd = listen_to(&k, MASK(QUEUE_EVICTION) | MASK(QUEUE_RESTORE));
	tell(first->up);
	await(first->down);
	EXPECT(!strcmp(listen_lines(fd, 0), ""), "%s", listen_lines(fd, 0));
	/* Its own. */
	change_user_memory(&k);
	expect_first_pid(listen_lines(fd, 1000), MASK(QUEUE_EVICTION) | MASK(QUEUE_RESTORE));
}

/* Both processes are the first one of their namespace. */
TEST(clients_get_no_events_of_another_namespace)
{
	struct first *first = new_first(listens);
	pid_t child = start_first(first);

	await(first->up);
	in_namespace(is_evicted);
	tell(first->down);
	end_first(child);
}

/* The id of the process that is debugged in the namespace of the debugger. */
static pid_t outside;

static void debugs(struct first *first)
{
	struct session s;
	struct kfd k;

	(void)first;
	fixture_open(&k);
	session_of(&s, &k, outside);
	EXPECT_RET(session_enable(&s, 0), -ESRCH);
	EXPECT_RET(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE), -ESRCH);
	session_of(&s, &k, first->pid);
	EXPECT_RET(session_enable(&s, 0), -ESRCH);
	session_of(&s, &k, getpid());
	EXPECT_OK(session_enable(&s, 0));
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
}

/* A process outside is none, although it uses the GPU and would permit to be traced. */
TEST(debuggers_name_processes_of_their_namespace)
{
	struct fixture f;

	fixture_launch(&f);
	outside = getpid();
	in_namespace(debugs);
	EXPECT(fixture_works(&f));
}

static void is_debugged(struct first *first)
{
	struct kfd k;

	fixture_open(&k);
	tell(first->up);
	await(first->down);
}

/* The reverse: the namespace is below that of the debugger. */
TEST(debuggers_reach_namespaces_below)
{
	struct first *first = new_first(is_debugged);
	pid_t child = start_first(first);
	struct session s;
	struct kfd k;
	int status;

	fixture_open(&k);
	await(first->up);
	session_of(&s, &k, first->pid);
	EXPECT_RET(session_enable(&s, 0), -EPERM);
	ASSERT(ptrace(PTRACE_SEIZE, first->pid, NULL, NULL) == 0, "%s", strerror(errno));
	EXPECT_OK(session_enable(&s, 0));
	EXPECT_OK(dbg_trap_plain(&s, KFD_IOC_DBG_TRAP_DISABLE));
	ASSERT(ptrace(PTRACE_INTERRUPT, first->pid, NULL, NULL) == 0, "%s", strerror(errno));
	ASSERT(waitpid(first->pid, &status, __WALL) == first->pid);
	ASSERT(ptrace(PTRACE_DETACH, first->pid, NULL, NULL) == 0, "%s", strerror(errno));
	tell(first->down);
	end_first(child);
}
