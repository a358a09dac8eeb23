// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests CREATE_PROCESS: secondary processes of an address space, one for each file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "leaks.h"

#define CONTEXTS 4u
#define AT 0x7e0000000000ull
#define PROCESSES "/sys/devices/virtual/kfd/kfd/proc"
#define DEBUGFS "/sys/kernel/debug/kfd/process"

TEST(one_per_file)
{
	struct kfd_ioctl_get_version_args version;
	struct kfd first, second, primary;

	fixture_open_only(&first);
	EXPECT_OK(kfd_create_process(&first));
	EXPECT_RET(kfd_create_process(&first), -EINVAL);
	EXPECT_OK(kfd_ioctl(first.fd, AMDKFD_IOC_GET_VERSION, &version));
	EXPECT_OK(kfd_acquire_vm(&first));
	/* Other files of the address space are those of the primary process. */
	fixture_open(&primary);
	fixture_open_only(&second);
	EXPECT_RET(kfd_acquire_vm(&second), -EBUSY);
	EXPECT_OK(kfd_create_process(&second));
	EXPECT_OK(kfd_acquire_vm(&second));
	/* An address space of the GPU belongs to one process. */
	close(second.fd);
	second.fd = kfd_open_file("/dev/kfd");
	ASSERT(second.fd >= 0);
	ASSERT_OK(kfd_create_process(&second));
	EXPECT_RET(kfd_acquire_vm(&second), -EINVAL);
}

static void use_inherited(void *data)
{
	EXPECT_RET(kfd_create_process(data), -EBADF);
}

TEST(of_the_opener_only)
{
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_OK(ktap_in_child(use_inherited, &k));
	EXPECT_OK(kfd_create_process(&k));
	EXPECT_OK(ktap_in_child(use_inherited, &k));
}

/* Allocates a page of system memory at a fixed GPU address. */
static void *page_at(struct kfd *k, uint64_t va)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = va,
							   .size = KFD_PAGE,
							   .gpu_id = k->node.gpu_id,
							   .flags = KFD_FLAGS_GTT };
	struct kfd_bo bo = { 0 };
	void *p = NULL;

	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	bo.handle = args.handle;
	ASSERT_OK(kfd_bo_map_gpu(k, &bo));
	p = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, k->drm,
		 (off_t)args.mmap_offset);
	ASSERT(p != MAP_FAILED);
	return p;
}

TEST(address_spaces_and_queues_are_separate)
{
	static struct fixture all[CONTEXTS];
	uint32_t *pages[CONTEXTS];

	fixture_launch(&all[0]);
	for (uint32_t i = 1; i < CONTEXTS; i++)
		fixture_launch_context(&all[i]);
	for (uint32_t i = 0; i < CONTEXTS; i++) {
		EXPECT_EQ(all[i].q.id, 0);
		pages[i] = page_at(&all[i].k, AT);
	}
	for (uint32_t i = 0; i < CONTEXTS; i++)
		EXPECT_OK(fixture_fill(&all[i], &all[i].q, (uint32_t *)AT, 64, 100 + i));
	for (uint32_t i = 0; i < CONTEXTS; i++)
		EXPECT(pages[i][0] == 100 + i && pages[i][63] == 100 + i, "%u: %#x", i, pages[i][0]);
	/* Closing one of them does not affect the others. */
	kfd_close(&all[1].k);
	for (uint32_t i = 0; i < CONTEXTS; i++)
		if (i != 1)
			EXPECT(fixture_works(&all[i]));
}

TEST(events_are_separate)
{
	struct kfd_ioctl_create_event_args args = { .event_type = KFD_IOC_EVENT_MEMORY };
	struct kfd_ioctl_destroy_event_args destroy;
	struct kfd primary, secondary;

	fixture_open_only(&primary);
	fixture_open_only(&secondary);
	EXPECT_OK(kfd_create_process(&secondary));
	ASSERT_OK(kfd_ioctl(secondary.fd, AMDKFD_IOC_CREATE_EVENT, &args));
	destroy = (struct kfd_ioctl_destroy_event_args){ .event_id = args.event_id };
	EXPECT_RET(kfd_ioctl(primary.fd, AMDKFD_IOC_DESTROY_EVENT, &destroy), -EINVAL);
	EXPECT_OK(kfd_ioctl(secondary.fd, AMDKFD_IOC_DESTROY_EVENT, &destroy));
}

/* Calls that use the memory or the debugger of the address space need the primary process. */
TEST(only_primary_processes)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = { .va_addr = AT,
							    .mmap_offset = AT,
							    .size = KFD_PAGE,
							    .flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR };
	struct kfd_ioctl_dbg_trap_args trap = { .op = KFD_IOC_DBG_TRAP_DISABLE };
	struct kfd_ioctl_svm_args svm = { .op = KFD_IOCTL_SVM_OP_GET_ATTR };
	struct kfd k;

	fixture_open_context(&k);
	alloc.gpu_id = k.node.gpu_id;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &alloc), -EOPNOTSUPP);
	alloc.size = 0;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &alloc), -EINVAL);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SVM, &svm), -EOPNOTSUPP);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_TRAP, &trap), -EOPNOTSUPP);
	trap.pid = (uint32_t)getpid();
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DBG_TRAP, &trap), -EOPNOTSUPP);
	EXPECT_OK(enable_runtime(&k, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
}

/* Whether the folder of a secondary process is in sysfs, with a queue or without. */
static bool has_folder(uint32_t id, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), PROCESSES "/%d/context_%u/%s", getpid(), id, file);
	return !access(path, F_OK);
}

/* Waits until it is not: the C driver releases processes in the background. */
static bool loses_folder(uint32_t id)
{
	for (unsigned int ms = 0; ms < WAIT_MS && has_folder(id, ""); ms += 10)
		usleep(10000);
	return !has_folder(id, "");
}

TEST(numbers_in_sysfs)
{
	struct fixture f;
	struct kfd k[3];

	if (memory_fails())
		SKIP("without memory there are no folders");
	for (int i = 0; i < 3; i++)
		fixture_open_context(&k[i]);
	for (uint32_t id = 0; id < 4; id++)
		EXPECT_EQ(has_folder(id, "pasid"), id < 3);
	kfd_close(&k[1]);
	EXPECT(loses_folder(1));
	EXPECT(has_folder(0, "") && has_folder(2, ""));
	/* The lowest free number. */
	fixture_launch_context(&f);
	EXPECT(has_folder(1, "queues/0/size"));
	EXPECT_OK(kfd_queue_destroy(&f.q));
	EXPECT(!has_folder(1, "queues/0"));
}

static pthread_barrier_t start;

static void *create_at_once(void *data)
{
	struct kfd *k = data;

	pthread_barrier_wait(&start);
	return (void *)(long)kfd_create_process(k);
}

TEST(threads_create_one)
{
	pthread_t threads[8];

	ASSERT(!pthread_barrier_init(&start, NULL, 8));
	for (int round = 0; round < 20; round++) {
		unsigned int created = 0;
		struct kfd k;

		fixture_open_only(&k);
		for (int i = 0; i < 8; i++)
			ASSERT(!pthread_create(&threads[i], NULL, create_at_once, &k));
		for (int i = 0; i < 8; i++) {
			void *ret;

			ASSERT(!pthread_join(threads[i], &ret));
			created += !ret;
			EXPECT(!ret || (long)ret == -EINVAL, "%ld", (long)ret);
		}
		EXPECT_EQ(created, 1);
		/* The others have left nothing. */
		EXPECT_OK(kfd_acquire_vm(&k));
		for (uint32_t id = 0, folders = 0; id < 9; id++) {
			folders += has_folder(id, "");
			EXPECT(id < 8 || folders == 1 || memory_fails(), "%u folders", folders);
		}
		kfd_close(&k);
		for (uint32_t id = 0; id < 8; id++)
			EXPECT(loses_folder(id));
	}
}

/* Ends a process with secondary ones in some way. */
enum way { EXIT, CLOSE, KILL, EXECUTE };

static void end_with_contexts(enum way way, int socket)
{
	struct fixture f[CONTEXTS];

	ktap_detach();
	for (uint32_t i = 0; i < CONTEXTS; i++) {
		fixture_launch_context(&f[i]);
		EXPECT(fixture_works(&f[i]));
	}
	send_fd(socket, f[0].k.fd);
	switch (way) {
	case CLOSE:
		for (uint32_t i = 0; i < CONTEXTS; i++)
			kfd_close(&f[i].k);
		break;
	case KILL:
		kill(getpid(), SIGKILL);
		break;
	case EXECUTE:
		/* The address space ends, and some files do not. */
		for (uint32_t i = 1; i < CONTEXTS; i++)
			ASSERT(!fcntl(f[i].k.fd, F_SETFD, 0) && !fcntl(f[i].k.drm, F_SETFD, 0));
		execl("/proc/self/exe", "contexts", "-l", (char *)NULL);
		ASSERT(false, "execl: %s", strerror(errno));
		break;
	default:
		break;
	}
	ktap_end();
}

/* A file that another process has got does not keep the process; in the C driver it does. */
TEST(nothing_is_left)
{
	struct kfd_ioctl_get_version_args version;
	int sockets[2], status;
	char folder[64];

	EXPECT_OK(ktap_in_child(fixture_lives, NULL));
	leaks_start();
	for (enum way way = EXIT; way <= EXECUTE; way++) {
		pid_t child;
		int fd;

		ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
		child = fork_child();
		if (!child) {
			close(sockets[0]);
			if (way == EXECUTE)
				ASSERT(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO) >= 0);
			end_with_contexts(way, sockets[1]);
		}
		close(sockets[1]);
		fd = receive_fd(sockets[0]);
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(way == KILL ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status),
		       "status %#x", status);
		EXPECT_RET(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, &version), -EBADF);
		snprintf(folder, sizeof(folder), PROCESSES "/%d", child);
		if (ktap_is_rkfd())
			EXPECT(access(folder, F_OK), "%s", folder);
		close(fd);
		close(sockets[0]);
		leaks_expect_counters("after the process");
	}
}

/* A process with a secondary one, whose file is sent to `socket`; exits at a byte from there. */
static void live_with_context(int socket)
{
	struct kfd primary, secondary;
	char byte;

	ktap_detach();
	fixture_open_only(&primary);
	fixture_open_only(&secondary);
	ASSERT_OK(kfd_create_process(&secondary));
	send_fd(socket, secondary.fd);
	close(secondary.fd);
	ASSERT(read(socket, &byte, 1) == 1);
	ktap_end();
}

struct reader {
	int file;
	char *page;
};

static void *read_file(void *data)
{
	struct reader *r = data;
	ssize_t n = read(r->file, r->page, KFD_PAGE);

	return (void *)(n < 0 ? -errno : n);
}

static void *close_file(void *data)
{
	close(*(int *)data);
	return NULL;
}

/*
 * The exit of a process waits for another one that ends its secondary process, which waits for a
 * reader of a file.
 */
TEST(no_folder_in_debugfs_after_the_exit)
{
	char folder[64], context[96], name[128], byte = 0;
	int sockets[2], userfaults, fd, status, ended = 0;
	pthread_t reading, closing;
	struct reader r;
	pid_t child;
	void *n;

	need_debugfs("process");
	if (memory_fails())
		SKIP("without memory there are no folders");
	r.page = held_page(&userfaults);
	ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	child = fork_child();
	if (!child) {
		close(sockets[0]);
		live_with_context(sockets[1]);
	}
	close(sockets[1]);
	fd = receive_fd(sockets[0]);
	snprintf(folder, sizeof(folder), DEBUGFS "/%d", child);
	snprintf(name, sizeof(name), "%s/context_0/pasid", folder);
	snprintf(context, sizeof(context), PROCESSES "/%d/context_0", child);
	r.file = open(name, O_RDONLY | O_CLOEXEC);
	ASSERT(r.file >= 0, "%s: %s", name, strerror(errno));
	ASSERT(!pthread_create(&reading, NULL, read_file, &r));
	wait_for_access(userfaults);
	ASSERT(!pthread_create(&closing, NULL, close_file, &fd));
	/* The folder in sysfs is removed right before. */
	for (unsigned int ms = 0; ms < WAIT_MS && !access(context, F_OK); ms += 10)
		usleep(10000);
	EXPECT(access(context, F_OK));
	usleep(100000);
	ASSERT(write(sockets[0], &byte, 1) == 1);
	for (int ms = 0; ms < 1000 && !ended; ms += 10) {
		usleep(10000);
		ended = waitpid(child, &status, WNOHANG) == child;
	}
	if (ended)
		EXPECT(access(folder, F_OK), "%s is there", folder);
	end_hold(userfaults, r.page);
	ASSERT(!pthread_join(reading, &n) && !pthread_join(closing, NULL));
	EXPECT((long)n > 0, "%ld", (long)n);
	if (!ended)
		ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "status %#x", status);
	EXPECT(access(folder, F_OK), "%s is there", folder);
	close(r.file);
	close(sockets[0]);
	close(userfaults);
	munmap(r.page, KFD_PAGE);
}

/* Closes the file after `ms` while the GPU faults on memory that the driver maps then. */
static void close_with_faults(void *data)
{
	struct kfd_ioctl_set_xnack_mode_args xnack = { .xnack_enabled = 1 };
	const size_t bytes = 256 << 20;
	const unsigned int *ms = data;
	struct fixture f = { 0 };
	uint32_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			       /* Not migrated to VRAM, whose struct pages the driver keeps. */
			       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ASSERT(words != MAP_FAILED);
	fixture_open_context(&f.k);
	ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_SET_XNACK_MODE, &xnack));
	fixture_load_opened(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	fixture_fill_start(&f, &f.q, &f.signal, 0, words, (uint32_t)(bytes / 4), 7);
	usleep(*ms * 1000);
	kfd_close(&f.k);
	usleep(10000);
}

TEST(closed_with_faults)
{
	struct kfd_ioctl_set_xnack_mode_args xnack = { .xnack_enabled = 1 };
	unsigned int ms = 200;
	struct kfd k;
	int ret;

	fixture_open_context(&k);
	ret = kfd_ioctl(k.fd, AMDKFD_IOC_SET_XNACK_MODE, &xnack);
	kfd_close(&k);
	if (ret)
		SKIP("no retry faults");
	EXPECT_OK(ktap_in_child(close_with_faults, &ms));
	leaks_start();
	/* Few: the rest of the kernel keeps an object or so of some caches for each process. */
	for (unsigned int i = 0; i < 10; i++) {
		ms = i * 10;
		EXPECT_OK(ktap_in_child(close_with_faults, &ms));
	}
	/* The C driver keeps fences of its page table updates, 28 for each process. */
	if (ktap_is_rkfd())
		leaks_expect_none("after the processes", 10);
	else
		leaks_expect_counters("after the processes");
}
