// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests fork, exec, threads and passed files: driver state is keyed by address space. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "dmabuf.h"

/* Every ioctl and mmap() through a file of another process fails with EBADF. */
static void use_foreign(void *data)
{
	struct fixture *f = data;
	struct kfd_ioctl_get_version_args version;
	char args[256] = { 0 };
	void *p;

	EXPECT_RET(kfd_ioctl(f->k.fd, AMDKFD_IOC_GET_VERSION, &version), -EBADF);
	for (unsigned int nr = 1; nr <= 0x28; nr++) {
		int ret = kfd_ioctl(
			f->k.fd, _IOC(_IOC_READ | _IOC_WRITE, AMDKFD_IOCTL_BASE, nr, sizeof(args)),
			args);

		EXPECT(ret == -EBADF, "nr %#x returns %s", nr, ktap_errno_name(ret));
	}
	/* Unknown numbers are ENOTTY in any process. */
	EXPECT_RET(kfd_ioctl(f->k.fd, _IOC(_IOC_READ, AMDKFD_IOCTL_BASE, 0x70, 8), args), -ENOTTY);
	p = mmap(NULL, KFD_DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED, f->k.fd,
		 (off_t)(f->q.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1)));
	EXPECT(p == MAP_FAILED && errno == EBADF, "%s",
	       p == MAP_FAILED ? strerrorname_np(errno) : "mapped");
}

TEST(fork_inherited_fd_is_ebadf)
{
	struct fixture f;

	fixture_launch(&f);
	EXPECT_OK(ktap_in_child(use_foreign, &f));
	/* The parent is unaffected. */
	EXPECT(fixture_works(&f));
}

static void touch_doorbell(void *data)
{
	struct fixture *f = data;

	signal(SIGSEGV, SIG_DFL);
	*(volatile uint64_t *)f->q.doorbell;
}

TEST(fork_does_not_inherit_doorbells)
{
	struct fixture f;
	int status;
	pid_t child;

	fixture_launch(&f);
	child = fork_child();
	if (!child) {
		touch_doorbell(&f);
		_exit(0);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x", status);
	EXPECT(fixture_works(&f));
}

static void open_own(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

TEST(forked_child_opens_its_own)
{
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(ktap_in_child(open_own, NULL));
		EXPECT(fixture_works(&f));
	}
}

/* The parent may exit first: no state of the child depends on it. */
TEST(child_outlives_parent)
{
	int ready[2], status;
	pid_t child;
	struct fixture f;

	fixture_launch(&f);
	ASSERT(!pipe(ready));
	child = fork_child();
	if (!child) {
		pid_t parent = getpid(), next = fork();

		if (next)
			_exit(next < 0);
		while (getppid() == parent)
			usleep(1000);
		open_own(NULL);
		ASSERT(ktap_failures() == 0 && write(ready[1], "", 1) == 1);
		ktap_end();
	}
	close(ready[1]);
	ASSERT(waitpid(child, &status, 0) == child && !status);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	/* Its end of the pipe is closed if it ends early. */
	wait_for_byte(ready[0]);
}

static void *use_from_thread(void *data)
{
	struct fixture *f = data;

	EXPECT(fixture_works(f));
	return NULL;
}

TEST(threads_share_state)
{
	pthread_t thread;
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 5; i++) {
		ASSERT(pthread_create(&thread, NULL, use_from_thread, &f) == 0);
		pthread_join(thread, NULL);
		EXPECT(fixture_works(&f));
	}
}

/* A file received over a socket is rejected like an inherited one. */
TEST(passed_fd_is_ebadf)
{
	struct fixture f = { 0 };
	int pair[2], status;
	pid_t child;

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	child = fork_child();
	if (!child) {
		f.k.fd = receive_fd(pair[1]);
		ASSERT(f.k.fd >= 0);
		ASSERT(read(pair[1], &f.q.doorbell_offset, 8) == 8);
		use_foreign(&f);
		open_own(NULL);
		ktap_end();
	}
	fixture_launch(&f);
	send_fd(pair[0], f.k.fd);
	ASSERT(write(pair[0], &f.q.doorbell_offset, 8) == 8);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	EXPECT(fixture_works(&f));
}

/*
 * The last reference to a file releases it, possibly long after the exit of the process that opened
 * it.
 */
TEST(passed_fd_outlives_process)
{
	int pair[2], status, fd;
	struct kfd_ioctl_get_version_args version;
	pid_t child;

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	child = fork_child();
	if (!child) {
		struct fixture f;

		fixture_launch(&f);
		EXPECT(fixture_works(&f));
		send_fd(pair[0], f.k.fd);
		ktap_end();
	}
	fd = receive_fd(pair[1]);
	ASSERT(fd >= 0);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_RET(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, &version), -EBADF);
	close(fd);
	open_own(NULL);
}

/*
 * exec() creates a new address space and so new driver state: this program executes itself with the
 * old file still open, which must be harmless, and opens its own.
 */
TEST(exec_gets_new_state)
{
	struct fixture f;
	char number[16];
	int status;
	pid_t child;

	child = fork_child();
	if (!child) {
		fixture_launch(&f);
		EXPECT(fixture_works(&f));
		fcntl(f.k.fd, F_SETFD, 0);
		snprintf(number, sizeof(number), "%d", f.k.fd);
		execl("/proc/self/exe", "processes", "--after-exec", number, NULL);
		_exit(9);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static int after_exec(int old)
{
	struct kfd_ioctl_get_version_args version;
	struct kfd k;
	struct kfd_queue q;
	int ret = kfd_ioctl(old, AMDKFD_IOC_GET_VERSION, &version);

	/* The C driver accepts the old file, because the group leader is the same. */
	if (ret != -EBADF) {
		printf("# failed: the old file returns %s\n", ktap_errno_name(ret));
		return 1;
	}
	ret = kfd_open(&k);
	if (!ret)
		ret = kfd_queue_create(&k, &q, 64);
	if (!ret)
		ret = kfd_queue_destroy(&q);
	if (ret)
		printf("# failed: after exec: %s\n", ktap_errno_name(ret));
	close(old);
	return ret ? 1 : 0;
}

/* vfork shares the address space, but is another process. */
TEST(vfork_inherited_fd_is_ebadf)
{
	static struct kfd_ioctl_get_version_args version;
	static struct fixture f;
	volatile int ret = 0;
	pid_t child;

	fixture_launch(&f);
	child = vfork();
	if (!child) {
		ret = kfd_ioctl(f.k.fd, AMDKFD_IOC_GET_VERSION, &version);
		_exit(0);
	}
	ASSERT(child > 0);
	waitpid(child, NULL, 0);
	EXPECT_RET(ret, -EBADF);
	EXPECT(fixture_works(&f));
}

__attribute__((noreturn)) static int pausing(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

/* Expects a folder in sysfs, though another process has this PID. Returns the exit status. */
static int after_kept(pid_t keeper)
{
	char path[160];
	struct kfd k;
	int ret = kfd_open(&k);

	if (!ret) {
		snprintf(path, sizeof(path), "/sys/devices/virtual/kfd/kfd/proc/%d/vram_%u",
			 getpid(), k.node.gpu_id);
		if (access(path, F_OK) && !memory_fails()) {
			printf("# failed: %s: %s\n", path, strerror(errno));
			ret = -errno;
		}
	}
	kill(keeper, SIGKILL);
	waitpid(keeper, NULL, 0);
	/* The end of the old one removes nothing of the new one. */
	usleep(500000);
	if (!ret && access(path, F_OK) && !memory_fails()) {
		printf("# failed: later: %s: %s\n", path, strerror(errno));
		ret = -errno;
	}
	return ret ? 1 : 0;
}

/* exec() while a child shares the old address space, and its process with it. */
TEST(exec_while_the_old_memory_lives)
{
	static char stack[65536] __attribute__((aligned(16)));
	char number[16];
	struct fixture f;
	int status, log, messages;
	pid_t child;

	log = kmsg_open();
	messages = kmsg_open();
	child = fork_child();
	if (!child) {
		fixture_launch(&f);
		snprintf(number, sizeof(number), "%d",
			 clone(pausing, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL));
		execl("/proc/self/exe", "processes", "--after-kept", number, NULL);
		_exit(9);
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	EXPECT_EQ(kmsg_lines_with(log, "duplicate"), 0);
	EXPECT(memory_fails() || !kmsg_lines_with(messages, "is not in"));
	close(log);
	close(messages);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--after-kept"))
		return after_kept(atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "--after-exec"))
		return after_exec(atoi(argv[2]));
	return ktap_main(argc, argv);
}

static void expect_occupancy(struct kfd *k, uint64_t wanted)
{
	uint64_t now = ~0ull;

	for (int i = 0; i < 100 && now != wanted; i++) {
		now = process_number(k, "stats", "cu_occupancy");
		usleep(now == wanted ? 0 : 100000);
	}
	EXPECT_EQ(now, wanted);
}

static void occupies_nothing(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	expect_occupancy(&f.k, 0);
}

/* Waves in flight, in compute units that these would fill; without those of other processes. */
TEST(cu_occupancy)
{
	/* Of all chips: simd_per_cu by max_waves_per_simd. */
	enum { GROUPS = 80, WAVES_PER_CU = 32 };
	struct fixture f;
	uint32_t waves;

	fixture_load(&f);
	expect_occupancy(&f.k, 0);
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	expect_occupancy(&f.k, 0);
	fixture_endless(&f, GROUPS);
	waves = GROUPS * 64 / f.k.node.wave_front_size;
	expect_occupancy(&f.k, (waves + WAVES_PER_CU - 1) / WAVES_PER_CU);
	EXPECT_OK(ktap_in_child(occupies_nothing, NULL));
	((volatile uint32_t *)f.data->va)[1] = 1;
	ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	expect_occupancy(&f.k, 0);
}

/* More than the runlist of one page has room for. */
#define IDLE_PROCESSES 80

/*
 * A process with a queue that is not mapped, until the other end of the pipe is closed. All of them
 * share one save area: VRAM has no room for 80 areas of eight XCCs, and nothing is saved.
 */
static void idle(int area, int ready, int end)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_bo *own;
	struct kfd_queue q;
	struct kfd k;
	char c = 0;

	fixture_open(&k);
	ASSERT_OK(kfd_queue_prepare(&k, &q, 64, &args));
	own = q.cwsr;
	ASSERT(q.cwsr = calloc(1, sizeof(*q.cwsr)));
	q.cwsr->size = own->size;
	q.cwsr->va = reserve(own->size);
	ASSERT_OK(dmabuf_import_at(&k, area, q.cwsr->va, &q.cwsr->handle));
	ASSERT_OK(kfd_bo_map_gpu(&k, q.cwsr));
	EXPECT_OK(kfd_bo_free(&k, own));
	args.ctx_save_restore_address = kfd_va(q.cwsr->va);
	args.queue_percentage = 0;
	ASSERT_OK(kfd_queue_start(&q, &args));
	if (write(ready, &c, 1) != 1)
		return;
	if (read(end, &c, 1))
		return;
	kfd_close(&k);
}

TEST(idle_processes_take_no_room_from_queues)
{
	/* With failing allocations each of them takes long. */
	const int processes = memory_fails() ? 2 : IDLE_PROCESSES;
	struct kfd_queue other;
	struct fixture f;
	int ready[2], end[2], area;
	struct kfd_bo *bo;
	char c;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
	ASSERT_OK(kfd_bo_create(&f.k, kfd_cwsr_bytes(&f.k.node), KFD_FLAGS_VRAM, &bo));
	area = dmabuf_export(&f.k, bo->handle, O_RDWR | O_CLOEXEC);
	ASSERT(area >= 0);
	ASSERT(!pipe(end));
	for (int i = 0; i < processes; i++) {
		pid_t child;

		ASSERT(!pipe(ready));
		child = fork_child();
		ASSERT(child >= 0);
		if (!child) {
			close(end[1]);
			idle(area, ready[1], end[0]);
			ktap_end();
		}
		close(ready[1]);
		ASSERT(read(ready[0], &c, 1) == 1, "process %d has failed", i);
		close(ready[0]);
	}
	/* A change for which no memory is allocated. */
	EXPECT_OK(kfd_queue_destroy(&other));
	EXPECT(fixture_works(&f));
	close(end[1]);
	for (int i = 0; i < processes; i++)
		ASSERT(wait(NULL) > 0);
}

/* The same with one process of many such queues, which share their buffers. */
#define DISABLED_QUEUES (memory_fails() ? 2 : gpu_is_gfx12() ? 100 : 160)

static void disable_many(int ready, int end)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue q, other;
	struct kfd k;
	char c = 0;

	fixture_open(&k);
	ASSERT_OK(kfd_queue_create(&k, &other, 64));
	ASSERT_OK(kfd_queue_prepare(&k, &q, 64, &args));
	args.queue_percentage = 0;
	for (int i = 0; i < DISABLED_QUEUES; i++) {
		struct kfd_ioctl_create_queue_args again = args;

		ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_CREATE_QUEUE, &again));
	}
	EXPECT_OK(kfd_queue_destroy(&other));
	ASSERT(write(ready, &c, 1) == 1 && read(end, &c, 1) == 0);
}

TEST_TIMEOUT(disabled_queues_take_no_room_from_others, 120)
{
	int ready[2], end[2], status;
	struct fixture f;
	pid_t child;

	fixture_launch(&f);
	ASSERT(!pipe(ready) && !pipe(end));
	child = fork_child();
	if (!child) {
		close(end[1]);
		disable_many(ready[1], end[0]);
		ktap_end();
	}
	close(ready[1]);
	wait_for_byte(ready[0]);
	EXPECT(fixture_works(&f));
	close(end[1]);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}
