// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests processes that die with work in flight: nothing is left over. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

/* Forks a child with a dispatch that never ends. Returns its pid once the kernel runs. */
static pid_t endless_child(void)
{
	int ready[2];
	pid_t child;
	char c;

	ASSERT(pipe(ready) == 0);
	child = fork_child();
	if (!child) {
		struct fixture f;

		fixture_launch(&f);
		fixture_endless(&f, 1);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ASSERT(read(ready[0], &c, 1) == 1, "child failed before its kernel ran");
	close(ready[0]);
	return child;
}

TEST_TIMEOUT(endless_kernel_ends_on_request, 90)
{
	struct fixture f;

	fixture_launch(&f);
	fixture_endless(&f, 4);
	EXPECT_RET(kfd_signal_wait(&f.k, &f.signal, 200), -ETIME);
	((volatile uint32_t *)f.data->va)[1] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT(fixture_works(&f));
}

static void launch(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

TEST_TIMEOUT(kill_during_dispatch, 180)
{
	uint64_t before = 0, after = 0;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &before));
	for (int i = 0; i < 3; i++) {
		pid_t child = endless_child();
		int status;

		ASSERT(kill(child, SIGKILL) == 0);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	/* A process is torn down asynchronously, not before waitpid() returns. */
	for (int i = 0; i < 100; i++) {
		ASSERT_OK(kfd_available(&k, &after));
		if (after >= before)
			break;
		usleep(50000);
	}
	/* More is possible: the previous test's memory may have been released late. */
	EXPECT(after >= before, "%llu of %llu bytes", (unsigned long long)after,
	       (unsigned long long)before);
	EXPECT_OK(ktap_in_child(launch, NULL));
}

/* Other processes run while a kernel hangs and after its process is killed. */
TEST_TIMEOUT(other_processes_are_unaffected, 180)
{
	struct fixture f;
	pid_t child = endless_child();

	fixture_launch(&f);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
	kill(child, SIGKILL);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
	waitpid(child, NULL, 0);
	for (int i = 0; i < 10; i++)
		EXPECT(fixture_works(&f));
}

/* Destroying a queue does not wait for its waves: CWSR saves them. */
TEST_TIMEOUT(destroy_busy_queue, 120)
{
	struct fixture f;
	struct kfd_queue other;

	fixture_launch(&f);
	fixture_endless(&f, 2);
	ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
	ASSERT_OK(kfd_queue_destroy(&f.q));
	f.q = other;
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

static void launch_and_leave(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	fixture_endless(&f, 1);
}

TEST_TIMEOUT(exit_without_cleanup, 180)
{
	struct fixture f;

	for (int i = 0; i < 3; i++)
		EXPECT_OK(ktap_in_child(launch_and_leave, NULL));
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

/* A process in WAIT_EVENTS without a timeout can be killed. */
TEST(kill_in_wait_events)
{
	int status, ready[2];
	pid_t child;

	ASSERT(pipe(ready) == 0);
	child = fork_child();
	if (!child) {
		uint32_t id, result;
		struct kfd k;

		fixture_open(&k);
		ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &id));
		ASSERT(write(ready[1], "", 1) == 1);
		kfd_event_wait(&k, &(struct kfd_event_data){ .event_id = id }, 1, true, ~0u,
			       &result);
		_exit(3);
	}
	wait_for_sleep(ready[0], child);
	ASSERT(kill(child, SIGKILL) == 0);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#define CORE_FILE "/tmp/core"
#define CORE_PATTERN "/proc/sys/kernel/core_pattern"
#define MARK 0x7265646465666f63ull
/* All kinds of mappings that can be chosen. */
#define ALL_MAPPINGS "0x1ff"

/* Addresses in a process that dumps core. */
struct dumped {
	uint64_t gtt, vram, doorbells, user;
};

/* Dumps core while waves run, with each kind of memory mapped. */
static void dump_core(struct dumped *dumped)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	uint64_t *user = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	struct kfd_bo *vram;
	struct fixture f;

	ASSERT(user != MAP_FAILED);
	*user = MARK;
	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, KFD_FLAGS_VRAM, &vram));
	*dumped = (struct dumped){
		.gtt = kfd_va(f.data->va),
		.vram = kfd_va(vram->va),
		.doorbells = kfd_va((void *)f.k.doorbells),
		.user = kfd_va(user),
	};
	fixture_endless(&f, 4);
	ASSERT(!setrlimit(RLIMIT_CORE, &unlimited));
	ASSERT_OK(write_file("/proc/self/coredump_filter", ALL_MAPPINGS));
	abort();
}

/* Returns the segment of a core file with an address, or NULL. */
static const Elf64_Phdr *segment_at(const char *core, uint64_t address)
{
	const Elf64_Ehdr *head = (const void *)core;
	const Elf64_Phdr *segment = (const void *)(core + head->e_phoff);

	for (unsigned int i = 0; i < head->e_phnum; i++)
		if (segment[i].p_type == PT_LOAD && address >= segment[i].p_vaddr &&
		    address < segment[i].p_vaddr + segment[i].p_memsz)
			return &segment[i];
	return NULL;
}

static void expect_not_dumped(const char *core, const char *what, uint64_t address)
{
	const Elf64_Phdr *segment = segment_at(core, address);

	if (EXPECT(segment, "no segment of %s", what))
		EXPECT(!segment->p_filesz, "%llu bytes of %s", (unsigned long long)segment->p_filesz,
		       what);
}

/*
 * The kernel writes a core file of a process whose waves run. It contains the memory of the
 * process, and the mappings of GPU memory without their content, for any coredump_filter.
 */
TEST_TIMEOUT(core_dump_without_gpu_memory, 120)
{
	struct dumped *dumped = mmap(NULL, sizeof(*dumped), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char pattern[256] = "";
	const Elf64_Phdr *segment;
	const char *core;
	ssize_t length;
	int status, fd;
	pid_t child;

	if (geteuid())
		SKIP("not privileged");
	ASSERT(dumped != MAP_FAILED);
	fd = open(CORE_PATTERN, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	length = read(fd, pattern, sizeof(pattern) - 1);
	ASSERT(length >= 0);
	close(fd);
	ASSERT_OK(write_file(CORE_PATTERN, CORE_FILE));
	unlink(CORE_FILE);
	child = fork_child();
	if (!child) {
		dump_core(dumped);
		_exit(1);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_OK(write_file(CORE_PATTERN, pattern));
	ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && WCOREDUMP(status), "%#x", status);
	fd = open(CORE_FILE, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	length = lseek(fd, 0, SEEK_END);
	core = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT(core != MAP_FAILED);
	ktap_note("%zd bytes", length);
	expect_not_dumped(core, "GTT", dumped->gtt);
	expect_not_dumped(core, "VRAM", dumped->vram);
	expect_not_dumped(core, "doorbells", dumped->doorbells);
	segment = segment_at(core, dumped->user);
	ASSERT(segment && segment->p_filesz >= KFD_PAGE);
	EXPECT_EQ(*(const uint64_t *)(core + segment->p_offset + (dumped->user - segment->p_vaddr)),
		  MARK);
	close(fd);
	unlink(CORE_FILE);
	EXPECT_OK(ktap_in_child(launch, NULL));
}
