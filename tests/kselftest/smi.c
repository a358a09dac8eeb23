// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests SMI events. */
#define _GNU_SOURCE
#include <poll.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/drm.h>
#include <drm/amdgpu_drm.h>

#include "device.h"
#include "fixture.h"
#include "listen.h"
#include "modes.h"

#define NOBODY 65534

TEST(event_fd)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = NO_SUCH_GPU };
	struct pollfd p = { .events = POLLIN };
	uint64_t mask = ~0ull;
	char bytes[64], link[64], name[64] = { 0 };
	struct rlimit limit = { .rlim_max = 1024 };
	struct kfd k;
	int fd;

	void *nowhere = mmap(NULL, KFD_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fixture_open_only(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SMI_EVENTS, &args), -EINVAL);
	/* It needs no VM. */
	fd = listen_to(&k, 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	EXPECT(readlink(link, name, sizeof(name) - 1) > 0 && !strcmp(name, "anon_inode:kfd_smi_ev"),
	       "%s", name);
	EXPECT(read(fd, bytes, sizeof(bytes)) < 0 && errno == EAGAIN);
	EXPECT(read(fd, bytes, 0) < 0 && errno == EAGAIN);
	EXPECT(write(fd, &mask, 7) < 0 && errno == EFAULT);
	EXPECT(write(fd, nowhere, 8) < 0 && errno == EFAULT);
	EXPECT(write(fd, &mask, 8) == 8);
	EXPECT(write(fd, bytes, 64) == 8);
	EXPECT(lseek(fd, 0, SEEK_SET) < 0 || read(fd, bytes, 1) < 0);
	p.fd = fd;
	EXPECT(poll(&p, 1, 0) == 0);
	for (int i = 0; i < 200; i++)
		listen_to(&k, mask);
	/* No free fd. */
	limit.rlim_cur = (rlim_t)listen_to(&k, 0) + 1;
	ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	args.gpuid = k.node.gpu_id;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_SMI_EVENTS, &args), -EMFILE);
	close(fd);
}

static void acquire_and_exit(void *data)
{
	struct kfd k;

	(void)data;
	fixture_open(&k);
}

/* A name is bytes, which need not be ASCII. */
static void acquire_with_name(void *data)
{
	char wanted[64];
	struct kfd k;
	int fd;

	(void)data;
	ASSERT(!prctl(PR_SET_NAME, "n\303\251\377"));
	fixture_open_only(&k);
	fd = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_PROCESS_START));
	ASSERT_OK(kfd_acquire_vm(&k));
	snprintf(wanted, sizeof(wanted), "c %x n\303\251\377\n", getpid());
	listen_for_line(fd, wanted, NULL);
}

TEST(process_start_and_end)
{
	char wanted[64];
	const char *text;
	int status, fd, none, half;
	struct kfd k;
	pid_t child;

	fixture_open_only(&k);
	fd = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_PROCESS_START) |
				   KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_PROCESS_END));
	half = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_PROCESS_END));
	none = listen_to(&k, 0);
	child = fork_child();
	if (!child) {
		acquire_and_exit(NULL);
		ktap_end();
	}
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
	snprintf(wanted, sizeof(wanted), "d %x smi\n", child);
	if (listen_for_line(fd, wanted, &text)) {
		char start[64];

		snprintf(start, sizeof(start), "c %x smi\n", child);
		EXPECT(strstr(text, start) != NULL && strstr(text, start) < strstr(text, wanted),
		       "%s", text);
	}
	text = listen_lines(half, 0);
	EXPECT(!strcmp(text, wanted), "%s", text);
	EXPECT(read(none, wanted, 1) < 0 && errno == EAGAIN);
	/* Lines can be read in parts. */
	ASSERT_OK(ktap_in_child(acquire_and_exit, NULL));
	ASSERT_OK(kfd_acquire_vm(&k));
	snprintf(wanted, sizeof(wanted), "c %x smi\n", getpid());
	listen_for_line(fd, wanted, NULL);
	/* Acquired again: no second start event. */
	ASSERT_OK(kfd_acquire_vm(&k));
	EXPECT(read(fd, wanted, 1) < 0 && errno == EAGAIN);
	EXPECT(read(half, wanted, 1) == 1 && wanted[0] == 'd');
	EXPECT(read(half, wanted, 63) > 3 && wanted[0] == ' ');
	EXPECT_OK(ktap_in_child(acquire_with_name, NULL));
}

static void unprivileged_listener(void *data)
{
	int *ready = data;
	char wanted[64];
	struct kfd k;
	int fd;

	/* It could not open the render node after setuid(). */
	fixture_open_only(&k);
	ASSERT(setuid(NOBODY) == 0);
	fd = listen_to(&k, ~0ull);
	ASSERT(write(ready[3], "", 1) == 1);
	ASSERT(read(ready[0], wanted, 1) == 1);
	EXPECT(read(fd, wanted, 1) < 0 && errno == EAGAIN);
	/* A process gets its own events. */
	ASSERT_OK(kfd_acquire_vm(&k));
	snprintf(wanted, sizeof(wanted), "c %x smi\n", getpid());
	listen_for_line(fd, wanted, NULL);
}

/* The model knob smu.throttle=6: with each dispatch the SMU reports PPT and HBM. */
TEST(throttling)
{
	unsigned int count;
	struct fixture f;
	const char *text;
	char line[40];
	int fd;

	fixture_launch(&f);
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_THERMAL_THROTTLE));
	for (int i = 0; i < 3; i++)
		ASSERT(fixture_works(&f));
	/* SMU_THROTTLER_PPT0_BIT and TEMP_MEM_BIT; at most one event in 59 s. */
	listen_for_line(fd, "2 400000001:1\n", &text);
	text = listen_lines(fd, 500);
	EXPECT(!*text, "%s", text);

	/* Each is reported, the first at once. Those before were counted, if not lost. */
	device_find();
	device_set("thermal_throttling_logging", "1");
	ASSERT(fixture_works(&f));
	listen_for_line(fd, "2 400000001:", &text);
	ASSERT(sscanf(text, "2 400000001:%u\n", &count) == 1 && count > 1, "%s", text);
	ASSERT(fixture_works(&f));
	snprintf(line, sizeof(line), "2 400000001:%u\n", count + 1);
	listen_for_line(fd, line, &text);
	/* None is. */
	device_set("thermal_throttling_logging", "0");
	ASSERT(fixture_works(&f));
	text = listen_lines(fd, 500);
	EXPECT(!*text, "%s", text);
	device_set("thermal_throttling_logging", "60");
}

/* Dispatches on the first node, of which `data` is the second. */
static void throttle_first_node(void *data)
{
	uint64_t mask = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_THERMAL_THROTTLE);
	int first, second;
	struct fixture f;
	const char *text;
	struct kfd other;

	fixture_launch(&f);
	other = f.k;
	other.node = *(const struct kfd_node *)data;
	first = listen_to(&f.k, mask);
	second = listen_to(&other, mask);
	/* At once, whatever was reported before. */
	device_find();
	device_set("thermal_throttling_logging", "1");
	ASSERT(fixture_works(&f));
	listen_for_line(first, "2 400000001:", NULL);
	text = listen_lines(second, 100);
	EXPECT(!*text, "%s", text);
	device_set("thermal_throttling_logging", "60");
}

TEST(throttling_in_cpx)
{
	static struct kfd_node nodes[MODE_MAX_NODES + 1];

	mode_begin("CPX");
	ASSERT(mode_nodes(nodes) > 1);
	EXPECT_OK(ktap_in_child(throttle_first_node, &nodes[1]));
	mode_end();
}

TEST(unprivileged_gets_own_events_only)
{
	int status, pipes[4];
	struct kfd k;
	pid_t child;
	char c;

	if (geteuid())
		SKIP("not privileged");
	ASSERT(pipe(pipes) == 0 && pipe(pipes + 2) == 0);
	child = fork_child();
	if (!child) {
		unprivileged_listener(pipes);
		ktap_end();
	}
	close(pipes[3]);
	ASSERT(read(pipes[2], &c, 1) == 1);
	fixture_open(&k);
	ASSERT_OK(ktap_in_child(acquire_and_exit, NULL));
	ASSERT(write(pipes[1], "", 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
}

static char *show_pages(struct kfd *k, size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = kfd_va(p),
		.mmap_offset = kfd_va(p),
		.size = size,
		.gpu_id = k->node.gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
	};
	struct kfd_bo bo = { 0 };

	ASSERT(p != MAP_FAILED);
	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	bo.handle = args.handle;
	ASSERT_OK(kfd_bo_map_gpu(k, &bo));
	return p;
}

/* fork() with flags of clone3(), of a child with the id `*id` if that is not 0. */
static pid_t clone_child(uint64_t flags, pid_t *id)
{
	struct clone_args args = { .flags = flags,
				   .exit_signal = SIGCHLD,
				   .set_tid = *id ? kfd_va(id) : 0,
				   .set_tid_size = *id ? 1 : 0 };
	pid_t child;

	fflush(stdout);
	child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	ASSERT(child >= 0, "clone3: %s", strerror(errno));
	return child;
}

static void expect_success(pid_t child)
{
	int status;

	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT_EQ(status, 0);
}

/* A client gets no events of a later process with the id of the one that opened it. */
TEST(client_outlives_its_process)
{
	const char *text;
	char wanted[64];
	pid_t child, id = 0;
	struct kfd k;
	int *fd;

	if (geteuid())
		SKIP("not privileged");
	fd = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(fd != MAP_FAILED);
	/* The file stays open here. */
	child = clone_child(CLONE_FILES, &id);
	if (!child) {
		fixture_open_only(&k);
		ASSERT(setuid(NOBODY) == 0);
		*fd = listen_to(&k, ~0ull);
		ASSERT_OK(kfd_acquire_vm(&k));
		ktap_end();
	}
	expect_success(child);
	snprintf(wanted, sizeof(wanted), "c %x smi\n", child);
	text = listen_lines(*fd, 0);
	ASSERT(strstr(text, wanted), "%s", text);
	id = child;
	child = clone_child(0, &id);
	if (!child) {
		ASSERT_EQ(getpid(), id);
		fixture_open(&k);
		ASSERT(madvise(show_pages(&k, KFD_PAGE), KFD_PAGE, MADV_DONTNEED) == 0);
		ktap_end();
	}
	expect_success(child);
	text = listen_lines(*fd, 0);
	EXPECT(!*text, "%s", text);
}

TEST(eviction_by_mmu_notifier)
{
	unsigned long long ns, ns2;
	unsigned int gpu, trigger;
	char again;
	const char *text, *restored;
	struct fixture f;
	char *p;
	int fd, pid;

	fixture_launch(&f);
	fd = listen_to(&f.k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
				     KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE));
	p = show_pages(&f.k, 16 * KFD_PAGE);
	ASSERT(madvise(p, KFD_PAGE, MADV_DONTNEED) == 0);
	listen_for_line(fd, " 0\n", &text);
	ASSERT(sscanf(text, "9 %llu -%d %x %u\n", &ns, &pid, &gpu, &trigger) == 4, "%s", text);
	EXPECT_EQ(pid, getpid());
	EXPECT_EQ(gpu, f.k.node.gpu_id);
	EXPECT_EQ(trigger, KFD_QUEUE_EVICTION_TRIGGER_USERPTR);
	restored = strstr(text, "\na ");
	ASSERT(restored != NULL, "%s", text);
	ASSERT(sscanf(restored, "\na %llu -%d %x %c\n", &ns2, &pid, &gpu, &again) == 4, "%s",
	       restored);
	EXPECT_EQ(pid, getpid());
	EXPECT_EQ(gpu, f.k.node.gpu_id);
	EXPECT(again == '0' || again == 'R');
	EXPECT(ns2 >= ns);
	EXPECT(fixture_works(&f));
	close(fd);
}

/* Events are dropped when the reader is too slow, as whole lines. */
TEST(full_fifo_drops_whole_lines)
{
	static char text[16384];
	struct kfd k;
	const char *line;
	ssize_t n;
	char *p;
	int fd, one;

	fixture_open(&k);
	fd = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
				   KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE));
	p = show_pages(&k, KFD_PAGE);
	for (int i = 0; i < 400; i++) {
		ASSERT(madvise(p, KFD_PAGE, MADV_DONTNEED) == 0);
		usleep(5000 * ktap_time_factor());
	}
	n = read(fd, text, sizeof(text));
	ASSERT(n > 8192 - 96 && n <= 8192, "%zd", n);
	EXPECT(text[n - 1] == '\n');
	one = 0;
	for (line = text; line && *line; line = strchr(line, '\n') + 1) {
		unsigned long long ns;
		unsigned int event;
		int pid;

		one++;
		if (!EXPECT(sscanf(line, "%x %llu -%d ", &event, &ns, &pid) == 3 &&
				    (event == 9 || event == 10) && pid == getpid(),
			    "%.60s", line))
			break;
	}
	EXPECT(one > 100, "%d", one);
	listen_lines(fd, 0);
	/* There is room again. Repeated: a page that is not back yet causes no eviction. */
	line = NULL;
	for (int i = 0; i < 100 && !line; i++) {
		ASSERT(madvise(p, KFD_PAGE, MADV_DONTNEED) == 0);
		line = strstr(listen_lines(fd, 300), "9 ");
	}
	EXPECT(line != NULL);
}

static void stores_to_nowhere(void *data)
{
	struct kfd_event_data event = { 0 };
	uint32_t result, id;
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	signal(SIGSEGV, SIG_IGN);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, false, &id));
	fixture_start(&f, "poke", 0x7000deadb000ull, 1);
	event.event_id = id;
	ASSERT_OK(kfd_event_wait(&f.k, &event, 1, true, WAIT_MS, &result));
	ASSERT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
}

/* Runs in the group `faults`: the GPU model complains. */
TEST(vm_faults)
{
	const char *text;
	struct kfd k;
	int fd;

	fixture_open_only(&k);
	fd = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_VMFAULT));
	ASSERT_OK(ktap_in_child(stores_to_nowhere, NULL));
	listen_for_line(fd, ":smi\n", &text);
	EXPECT(!strncmp(text, "1 ", 2), "%s", text);
}

/* Allocates all of a small VRAM from the render node. */
static void take_all_vram(void *data)
{
	const uint64_t *vram = data;
	struct kfd k;

	fixture_open_only(&k);
	for (uint64_t got = 0; got < *vram; got += 8 << 20) {
		union drm_amdgpu_gem_create args = { .in = { .bo_size = 8 << 20, .alignment = 4096,
							     .domains = AMDGPU_GEM_DOMAIN_VRAM } };

		ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
	}
}

/*
 * Another process allocates: a driver may exempt BOs of the allocating process from eviction (C
 * driver: amdgpu_ttm_bo_eviction_valuable).
 */
TEST_TIMEOUT(eviction_by_ttm, 120)
{
	const char *text;
	struct kfd_bo *bo;
	struct kfd k;
	uint64_t vram;
	char wanted[64];
	int fd;

	fixture_open(&k);
	vram = vram_bytes(&k);
	if (vram > 1ull << 30)
		SKIP("%llu MiB of VRAM", (unsigned long long)vram >> 20);
	fd = listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
				   KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE));
	ASSERT_OK(kfd_bo_create(&k, vram / 4, KFD_FLAGS_VRAM, &bo));
	ASSERT_OK(ktap_in_child(take_all_vram, &vram));
	listen_for_line(fd, " 0\n", &text);
	snprintf(wanted, sizeof(wanted), " -%d %x %d\n", getpid(), k.node.gpu_id,
		 KFD_QUEUE_EVICTION_TRIGGER_TTM);
	EXPECT(strstr(text, wanted) != NULL && !strncmp(text, "9 ", 2), "%s", text);
	EXPECT(strstr(text, "\na ") != NULL, "%s", text);
}
