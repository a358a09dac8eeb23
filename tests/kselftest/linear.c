// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests that the cost of calls is linear in the number of objects, in guest instructions: needs a
 * guest whose clock counts them (scripts/vm --count).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cs.h"
#include "listen.h"
#include "svm.h"

#define THREADS 400
#define EVENTS 500
#define ENTRIES (32u * 1024)
#define JOBS 20
#define BUFFERS 4000
#define PIECES 16000
#define HANDLES 12000
#define MAPPINGS 16384
#define CONTEXTS 5000
#define RANGES 2000
#define CLIENTS 8000
#define OTHER_CLIENTS 8000
#define EVICTIONS 20
#define CREATIONS 64
#define PROCESSES 4000
#define FILES (1u << 17)
#define PAGE 4096ul
#define NOBODY 65534
/* Of a loop of two instructions. */
#define TURNS 1000000u

/*
 * Returns the time of the processor in this process in ns. Waiting does not count: how long the GPU
 * model takes depends on the load of the host.
 */
static uint64_t used_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Expects that `count` costs less than `tenths` tenths of the cost of `part`. `cost` returns the
 * time in ns. The first time includes first uses, any may include waits for the GPU model.
 */
static void expect_less(uint64_t (*cost)(uint32_t count), uint32_t part, uint32_t count,
			uint64_t tenths)
{
	uint64_t some, all;

	cost(part);
	some = cost(part);
	all = cost(count);
	for (int i = 0; i < 2 && 10 * all >= tenths * some; i++) {
		uint64_t again = cost(part);

		some = again < some ? again : some;
		again = cost(count);
		all = again < all ? again : all;
	}
	ktap_note("%u: %lu us, %u: %lu us", part, (unsigned long)some / 1000, count,
		  (unsigned long)all / 1000);
	EXPECT(10 * all < tenths * some);
}

/*
 * Expects a linear cost: 8 times that of an eighth, of which one in 13 parts may be quadratic,
 * which is 64 times.
 */
static void expect_linear(uint64_t (*cost)(uint32_t count), uint32_t count)
{
	expect_less(cost, count / 8, count, 120);
}

/* As expect_linear(), of calls that poll for the GPU model, longer on a busy host. */
static void expect_linear_beside_waits(uint64_t (*cost)(uint32_t count), uint32_t count)
{
	expect_less(cost, count / 8, count, 200);
}

/* Expects that the cost beside objects does not depend on their number. */
static void expect_constant(uint64_t (*cost)(uint32_t count), uint32_t count)
{
	expect_less(cost, count / 8, count, 15);
}

static uint64_t least(uint64_t cost, uint64_t start)
{
	uint64_t other = cs_now() - start;

	return other < cost ? other : cost;
}

/* Without --count all costs below depend on the host. */
TEST(clock_counts_instructions)
{
	uint64_t cost = UINT64_MAX;

	for (int i = 0; i < 8; i++) {
		uint64_t start = cs_now();
		unsigned int turns = TURNS;

		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(turns));
		cost = least(cost, start);
	}
	ktap_note("%u instructions: %lu ns", 2 * TURNS, (unsigned long)cost);
	EXPECT(cost >= 2 * TURNS);
	EXPECT(cost < 2 * TURNS + TURNS / 50);
}

static void allow_files(void)
{
	const struct rlimit limit = { FILES, FILES };

	ASSERT(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* A child that has objects until end_holder(). */
static struct {
	pid_t child;
	int ready[2], end[2];
} holder;

/* Starts a child that calls `fn` with a number of objects to create, and waits for its return. */
static void start_holder(void (*fn)(uint32_t count), uint32_t count)
{
	char byte = 0;

	ASSERT(!pipe(holder.ready) && !pipe(holder.end));
	holder.child = fork_child();
	if (!holder.child) {
		close(holder.end[1]);
		fn(count);
		ASSERT(write(holder.ready[1], &byte, 1) == 1);
		EXPECT(read(holder.end[0], &byte, 1) == 0);
		ktap_end();
	}
	close(holder.end[0]);
	close(holder.ready[1]);
	ASSERT(read(holder.ready[0], &byte, 1) == 1);
	close(holder.ready[0]);
}

static void end_holder(void)
{
	int status;

	close(holder.end[1]);
	ASSERT(waitpid(holder.child, &status, 0) == holder.child);
	EXPECT_EQ(status, 0);
}

/* Threads that wait for the same events. */
static struct {
	struct kfd k;
	uint32_t ids[EVENTS];
	atomic_uint waiting;
} crowd;

static void *wait_for_all_events(void *data)
{
	struct kfd_event_data *events = calloc(EVENTS, sizeof(*events));
	uint32_t result;

	(void)data;
	ASSERT(events);
	for (uint32_t i = 0; i < EVENTS; i++)
		events[i].event_id = crowd.ids[i];
	crowd.waiting++;
	EXPECT_OK(kfd_event_wait(&crowd.k, events, EVENTS, false, ~0u, &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_COMPLETE);
	free(events);
	return NULL;
}

/* Of the end of `count` threads that wait for the same events. */
static uint64_t cost_to_wake(uint32_t count)
{
	pthread_t *threads = calloc(count, sizeof(*threads));
	pthread_attr_t attributes;
	uint64_t start, end;

	ASSERT(threads);
	crowd.waiting = 0;
	ASSERT_OK(kfd_event_reset(&crowd.k, crowd.ids[EVENTS / 2]));
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	for (uint32_t i = 0; i < count; i++)
		ASSERT(!pthread_create(&threads[i], &attributes, wait_for_all_events, NULL));
	while (crowd.waiting < count)
		usleep(1000);
	/* All of them sleep then. */
	sleep(1 + count / 100);
	start = used_now();
	ASSERT_OK(kfd_event_set(&crowd.k, crowd.ids[EVENTS / 2]));
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	end = used_now();
	free(threads);
	return end - start;
}

TEST(waiting_threads)
{
	fixture_open(&crowd.k);
	for (uint32_t i = 0; i < EVENTS; i++)
		ASSERT_OK(kfd_event_create(&crowd.k, KFD_IOC_EVENT_SIGNAL, false, &crowd.ids[i]));
	expect_linear(cost_to_wake, THREADS);
}

/* Of a BO list that names two BOs `count` times, and of jobs with it. */
static uint64_t cost_of_list(uint32_t count)
{
	struct drm_amdgpu_bo_list_entry *entries = calloc(count, sizeof(*entries));
	union drm_amdgpu_bo_list args = { 0 };
	uint64_t handle = 0, start, cost;
	struct cs_job job;
	struct cs cs;

	ASSERT(entries);
	cs_open(&cs);
	for (uint32_t i = 0; i < count; i++) {
		entries[i].bo_handle = i % 2 ? cs.data.handle : cs.code.handle;
		entries[i].bo_priority = i % 40;
	}
	cs_job(&job, &cs, 0);
	cs_add_ib(&job, cs_write(&cs, cs.data.va, 0x600d));
	args.in.operation = AMDGPU_BO_LIST_OP_CREATE;
	args.in.bo_number = count;
	args.in.bo_info_size = sizeof(*entries);
	args.in.bo_info_ptr = kfd_va(entries);
	start = used_now();
	ASSERT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_AMDGPU_BO_LIST, &args));
	job.bo_list = args.out.list_handle;
	for (uint32_t i = 0; i < JOBS; i++)
		ASSERT_OK(cs_submit(&job, &handle));
	cost = used_now() - start;
	cs_done(&cs, 0, handle);
	EXPECT_EQ(cs.data.words[0], 0x600d);
	close(cs.fd);
	free(entries);
	return cost;
}

TEST(entries_of_a_list)
{
	expect_linear(cost_of_list, ENTRIES);
}

static uint64_t cost_of_buffers(uint32_t count)
{
	int fd = cs_open_file();
	uint64_t start = used_now();
	uint32_t handle;

	while (count--)
		ASSERT_OK(cs_bo_create(fd, PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	close(fd);
	return used_now() - start;
}

TEST(vram_buffers_of_a_file)
{
	expect_linear(cost_of_buffers, BUFFERS);
}

/* The list of mappings is in many pieces. */
static uint64_t cost_of_mappings(uint32_t count)
{
	int fd = cs_open_file();
	uint32_t handle;
	uint64_t start;

	ASSERT_OK(cs_bo_create(fd, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	start = used_now();
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(cs_va(fd, handle, AMDGPU_VA_OP_MAP, ACCESS, (1ull << 32) + i * PAGE, 0,
				PAGE));
	EXPECT_OK(cs_bo_close(fd, handle));
	close(fd);
	return used_now() - start;
}

TEST_TIMEOUT(mappings_of_a_buffer, 120)
{
	expect_linear(cost_of_mappings, MAPPINGS);
}

/* Of the removal of the mappings of two buffers by address. */
static uint64_t cost_to_clear(uint32_t count)
{
	int fd = cs_open_file();
	uint32_t handles[2];
	uint64_t start;

	for (int i = 0; i < 2; i++)
		ASSERT_OK(cs_bo_create(fd, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &handles[i]));
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(cs_va(fd, handles[i % 2], AMDGPU_VA_OP_MAP, ACCESS,
				(1ull << 32) + i * PAGE, 0, PAGE));
	start = used_now();
	ASSERT_OK(cs_va(fd, 0, AMDGPU_VA_OP_CLEAR, 0, 1ull << 32, 0, count * PAGE));
	close(fd);
	return used_now() - start;
}

TEST_TIMEOUT(cleared_mappings, 120)
{
	expect_linear_beside_waits(cost_to_clear, MAPPINGS / 2);
}

static uint64_t cost_of_contexts(uint32_t count)
{
	int fd = cs_open_file();
	uint64_t start = used_now();
	uint32_t id;

	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(cs_ctx_alloc(fd, &id));
	close(fd);
	return used_now() - start;
}

TEST(contexts_of_a_file)
{
	expect_linear(cost_of_contexts, CONTEXTS);
}

static struct kfd gpu;

static uint64_t cost_of_bos(uint32_t count, uint32_t flags)
{
	struct kfd_bo **bos = calloc(count, sizeof(*bos));
	uint64_t start = used_now();

	ASSERT(bos);
	for (uint32_t i = 0; i < count; i++) {
		ASSERT_OK(kfd_bo_alloc(&gpu, PAGE, flags, &bos[i]));
		ASSERT_OK(kfd_bo_map_gpu(&gpu, bos[i]));
	}
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(kfd_bo_free(&gpu, bos[i]));
	free(bos);
	return used_now() - start;
}

static uint64_t cost_of_vram_bos(uint32_t count)
{
	return cost_of_bos(count, KFD_FLAGS_VRAM);
}

static uint64_t cost_of_gtt_bos(uint32_t count)
{
	return cost_of_bos(count, KFD_FLAGS_GTT);
}

TEST_TIMEOUT(vram_bos, 120)
{
	fixture_open(&gpu);
	expect_linear_beside_waits(cost_of_vram_bos, BUFFERS / 2);
}

TEST_TIMEOUT(gtt_bos, 120)
{
	fixture_open(&gpu);
	expect_linear_beside_waits(cost_of_gtt_bos, BUFFERS / 2);
}

/* Allocates BOs of one page. */
static struct kfd_bo **alloc_bos(uint32_t count, uint32_t flags)
{
	struct kfd_bo **bos = calloc(count, sizeof(*bos));

	ASSERT(bos);
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(kfd_bo_alloc(&gpu, PAGE, flags, &bos[i]));
	return bos;
}

/* Frees the BOs that are left (not NULL). */
static void free_bos(struct kfd_bo **bos, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (bos[i])
			ASSERT_OK(kfd_bo_free(&gpu, bos[i]));
	free(bos);
}

/* Of the mapping of a BO of `count` pages in as many pieces of VRAM. */
static uint64_t cost_of_pieces(uint32_t count)
{
	struct kfd_bo **bos, *rest, *bo;
	uint64_t available, start, cost;

	ASSERT_OK(kfd_available(&gpu, &available));
	ASSERT_OK(kfd_bo_alloc(&gpu, available - 2 * count * PAGE, KFD_FLAGS_VRAM, &rest));
	bos = alloc_bos(2 * count, KFD_FLAGS_VRAM);
	for (uint32_t i = 0; i < 2 * count; i += 2) {
		ASSERT_OK(kfd_bo_free(&gpu, bos[i]));
		bos[i] = NULL;
	}
	ASSERT_OK(kfd_bo_alloc(&gpu, count * PAGE, KFD_FLAGS_VRAM, &bo));
	start = used_now();
	ASSERT_OK(kfd_bo_map_gpu(&gpu, bo));
	cost = used_now() - start;
	ASSERT_OK(kfd_bo_free(&gpu, bo));
	free_bos(bos, 2 * count);
	ASSERT_OK(kfd_bo_free(&gpu, rest));
	return cost;
}

TEST_TIMEOUT(pieces_of_a_bo, 120)
{
	fixture_open(&gpu);
	/*
	 * The VRAM that is kept for page tables, 2,000 pages, is in one piece: 16,000 pages have
	 * 2.3 times the pieces of 8,000, and 5.4 times their square.
	 */
	expect_less(cost_of_pieces, PIECES / 2, PIECES, 35);
}

/* Of the reuse of the lowest handle, with `count` BOs. */
static uint64_t cost_of_handles(uint32_t count)
{
	struct kfd_bo **bos = alloc_bos(count, KFD_FLAGS_GTT), *more;
	uint64_t start, cost;

	start = used_now();
	for (int i = 0; i < 100; i++) {
		ASSERT_OK(kfd_bo_free(&gpu, bos[0]));
		ASSERT_OK(kfd_bo_alloc(&gpu, PAGE, KFD_FLAGS_GTT, &bos[0]));
		ASSERT_OK(kfd_bo_alloc(&gpu, PAGE, KFD_FLAGS_GTT, &more));
		ASSERT_OK(kfd_bo_free(&gpu, more));
	}
	cost = used_now() - start;
	free_bos(bos, count);
	return cost;
}

TEST_TIMEOUT(handles_of_a_process, 120)
{
	fixture_open(&gpu);
	expect_constant(cost_of_handles, HANDLES);
}

/* Of userptr BOs of one page each, of their unmapping by the CPU, and of their restore. */
static uint64_t cost_of_userptr(uint32_t count)
{
	struct pages *pages = calloc(count, sizeof(*pages));
	char *memory = anonymous(2 * count * PAGE);
	uint64_t start = used_now();

	ASSERT(pages);
	for (uint32_t i = 0; i < count; i++) {
		char *page = memory + 2 * i * PAGE;

		ASSERT_OK(try_register(&gpu, page, kfd_va(page), PAGE, FLAGS, &pages[i]));
		ASSERT_OK(kfd_bo_map_gpu(&gpu, &pages[i].bo));
	}
	munmap(memory, 2 * count * PAGE);
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(unregister(&gpu, &pages[i]));
	free(pages);
	return used_now() - start;
}

TEST_TIMEOUT(userptr_bos, 120)
{
	fixture_open(&gpu);
	expect_linear_beside_waits(cost_of_userptr, BUFFERS / 2);
}

/*
 * Of ranges with attributes of their own, of reading and changing the attributes of all, and of an
 * unmapping.
 */
static uint64_t cost_of_ranges(uint32_t count)
{
	char *memory = anonymous(count * PAGE);
	struct svm_state state;
	uint64_t start = used_now();

	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(svm_set(&gpu, memory + i * PAGE, PAGE,
				  { KFD_IOCTL_SVM_ATTR_GRANULARITY, i % 8 },
				  { KFD_IOCTL_SVM_ATTR_ACCESS, gpu.node.gpu_id }));
	EXPECT_OK(svm_get(&gpu, memory, count * PAGE, &state));
	EXPECT_OK(svm_set(&gpu, memory, count * PAGE,
			  { KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO }));
	munmap(memory, count * PAGE);
	return used_now() - start;
}

TEST_TIMEOUT(svm_ranges, 120)
{
	fixture_open(&gpu);
	svm_needed(&gpu);
	expect_linear_beside_waits(cost_of_ranges, RANGES);
}

static uint64_t cost_of_events(uint32_t count)
{
	uint64_t start = used_now();
	uint32_t ids[4096];

	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(kfd_event_create(&gpu, KFD_IOC_EVENT_SIGNAL, true, &ids[i]));
	for (uint32_t i = 0; i < count; i++)
		ASSERT_OK(kfd_event_destroy(&gpu, ids[i]));
	return used_now() - start;
}

TEST(events_of_a_process)
{
	fixture_open(&gpu);
	expect_linear(cost_of_events, 4000);
}

/*
 * The worker of shared virtual memory looks again and again for pages that a thread has to provide
 * (userfaultfd). Calls for the same process do not wait for it most of the time.
 */
TEST_TIMEOUT(awaited_pages, 120)
{
	const size_t size = 16 * MIB;
	const uint64_t all = 1000000000;
	uint64_t start, before, waited = 0;
	struct svm_state state;
	char *memory;
	int file;

	fixture_open(&gpu);
	svm_needed(&gpu);
	memory = anonymous(size);
	memset(memory, 1, size);
	ASSERT_OK(svm_access(&gpu, memory, size));
	file = fixture_hold(memory, size, UFFDIO_REGISTER_MODE_MISSING);
	ASSERT(!madvise(memory, size, MADV_DONTNEED));
	start = cs_now();
	while (cs_now() - start < all) {
		before = cs_now();
		EXPECT_OK(svm_get(&gpu, memory, PAGE, &state));
		waited += cs_now() - before;
		usleep(1000);
	}
	ktap_note("%lu of %lu us", (unsigned long)waited / 1000, (unsigned long)all / 1000);
	EXPECT(waited < all * 3 / 4);
	close(file);
}

/* Of closing clients, the last one first. */
static uint64_t cost_of_clients(uint32_t count)
{
	static int files[CLIENTS];
	uint64_t start;

	for (uint32_t i = 0; i < count; i++)
		files[i] = listen_to(&gpu, 0);
	start = used_now();
	while (count--)
		close(files[count]);
	return used_now() - start;
}

TEST_TIMEOUT(smi_clients, 120)
{
	allow_files();
	fixture_open(&gpu);
	expect_linear(cost_of_clients, CLIENTS);
}

/* Clients of a process without privileges, for events of that process. */
static void listen_as_nobody(uint32_t count)
{
	struct kfd k;

	fixture_open_only(&k);
	ASSERT(!setuid(NOBODY));
	while (count--)
		listen_to(&k, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION));
}

/* Waits for an eviction and its restore, whose line ends with 0. */
static void await_restore(int file)
{
	char lines[4096] = "";
	size_t n = 0;

	while (!strstr(lines, " 0\n")) {
		struct pollfd p = { .fd = file, .events = POLLIN };
		ssize_t got;

		ASSERT(poll(&p, 1, 10000) == 1);
		got = read(file, lines + n, sizeof(lines) - 1 - n);
		ASSERT(got > 0);
		n += (size_t)got;
		lines[n] = 0;
	}
}

/* Of an eviction of a process while another one has clients. */
static uint64_t cost_of_evictions(uint32_t count)
{
	int file = listen_to(&gpu, KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
					   KFD_SMI_EVENT_MASK_FROM_INDEX(
						   KFD_SMI_EVENT_QUEUE_RESTORE));
	uint64_t cost = UINT64_MAX;
	struct pages pages;

	start_holder(listen_as_nobody, count);
	register_new(&gpu, PAGE, &pages);
	for (uint32_t i = 0; i < EVICTIONS; i++) {
		uint64_t start;

		*pages.cpu = 1;
		start = cs_now();
		ASSERT(!madvise(pages.cpu, PAGE, MADV_DONTNEED));
		cost = least(cost, start);
		await_restore(file);
	}
	ASSERT_OK(unregister(&gpu, &pages));
	end_holder();
	close(file);
	return cost;
}

TEST_TIMEOUT(smi_clients_of_others, 60)
{
	allow_files();
	fixture_open(&gpu);
	expect_constant(cost_of_evictions, OTHER_CLIENTS);
}

static void create_processes(uint32_t count)
{
	struct kfd k;

	fixture_open_only(&k);
	while (count--) {
		k.fd = kfd_open_file("/dev/kfd");
		ASSERT(k.fd >= 0);
		ASSERT_OK(kfd_create_process(&k));
	}
}

/*
 * Of a process that opens the device and ends while another one has secondary processes, without
 * its waits.
 */
static uint64_t cost_of_process(uint32_t count)
{
	uint64_t cost = UINT64_MAX;
	int status;

	start_holder(create_processes, count);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork_child();
		struct rusage use;
		uint64_t ns;

		if (!child)
			_exit(kfd_open_file("/dev/kfd") < 0);
		ASSERT(wait4(child, &status, 0, &use) == child);
		EXPECT_EQ(status, 0);
		ns = 1000000000ull * (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
		     1000ull * (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
		cost = ns < cost ? ns : cost;
	}
	end_holder();
	return cost;
}

TEST_TIMEOUT(processes_of_others, 120)
{
	allow_files();
	expect_constant(cost_of_process, PROCESSES);
}

/* BOs that are freed, by their handles and as DMA buffers. */
static struct {
	uint32_t handle;
	int file;
} freed[BUFFERS / 2];

/* Of short-lived VRAM BOs while freed ones wait for a job. */
static uint64_t cost_behind_a_job(uint32_t count)
{
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC | DRM_RDWR };
	struct dma_buf_import_sync_file import = { .flags = DMA_BUF_SYNC_WRITE };
	uint64_t job = 0, busy = 0, cost = UINT64_MAX;
	uint32_t handle;
	struct cs cs;

	cs_open(&cs);
	for (uint32_t i = 0; i < count; i++) {
		ASSERT_OK(cs_bo_create(cs.fd, PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &prime.handle));
		ASSERT_OK(kfd_ioctl(cs.fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
		freed[i].handle = prime.handle;
		freed[i].file = prime.fd;
	}
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &job));
	ASSERT_OK(cs_to_handle(&cs, job, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &handle));
	import.fd = (int)handle;
	for (uint32_t i = 0; i < count; i++) {
		ASSERT_OK(kfd_ioctl(freed[i].file, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import));
		close(freed[i].file);
		ASSERT_OK(cs_bo_close(cs.fd, freed[i].handle));
	}
	for (int i = 0; i < 8; i++) {
		uint64_t start = cs_now();

		for (int j = 0; j < CREATIONS; j++) {
			ASSERT_OK(cs_bo_create(cs.fd, 32 * PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0,
					       &handle));
			ASSERT_OK(cs_bo_close(cs.fd, handle));
		}
		cost = least(cost, start);
	}
	EXPECT_OK(cs_wait(&cs, 0, job, 0, &busy));
	EXPECT(busy);
	cs.data.words[0] = 1;
	cs_done(&cs, 0, job);
	close(import.fd);
	close(cs.fd);
	return cost;
}

TEST_TIMEOUT(vram_behind_a_job, 120)
{
	allow_files();
	expect_constant(cost_behind_a_job, BUFFERS / 2);
}

/* Of access to memory that the GPU maps already, beside the first one. */
TEST_TIMEOUT(svm_access_again, 120)
{
	const size_t size = 64 * MIB;
	uint64_t first, again = UINT64_MAX, start;
	char *memory;

	fixture_open(&gpu);
	svm_needed(&gpu);
	memory = anonymous(size);
	memset(memory, 1, size);
	start = cs_now();
	ASSERT_OK(svm_access(&gpu, memory, size));
	first = cs_now() - start;
	for (int i = 0; i < 4; i++) {
		start = cs_now();
		ASSERT_OK(svm_access(&gpu, memory, size));
		again = least(again, start);
	}
	ktap_note("%lu ns, then %lu ns", (unsigned long)first, (unsigned long)again);
	EXPECT(again < first / 10);
}
