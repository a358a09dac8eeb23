// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests eviction from small VRAM: BOs move to GTT and back, user queues are stopped meanwhile. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "cs.h"
#include "device.h"

#define MIB (1ull << 20)
#define SIZE (8 * MIB)
#define MAX 512

/* A BO of the render node. */
struct buffer {
	uint32_t handle;
	uint64_t *words;
};

static struct buffer buffers[MAX];

static void create_large(struct kfd *k, struct buffer *b, size_t size)
{
	union drm_amdgpu_gem_create args = {
		.in = { .bo_size = size, .alignment = 4096, .domains = AMDGPU_GEM_DOMAIN_VRAM }
	};

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
	b->handle = args.out.handle;
	b->words = cs_bo_map(k->drm, b->handle, size);
}

static void create(struct kfd *k, struct buffer *b)
{
	create_large(k, b, SIZE);
}

static void destroy(struct kfd *k, struct buffer *b)
{
	struct drm_gem_close args = { .handle = b->handle };

	EXPECT(munmap(b->words, SIZE) == 0);
	EXPECT_OK(kfd_ioctl(k->drm, DRM_IOCTL_GEM_CLOSE, &args));
}

/* Two dwords in each page identify BO and page. */
static void mark(uint64_t *words, size_t size, uint64_t id)
{
	for (size_t i = 0; i < size / 8; i += 512)
		words[i] = words[i + 511] = id << 32 | i;
}

static bool is_marked(const uint64_t *words, size_t size, uint64_t id)
{
	for (size_t i = 0; i < size / 8; i += 512)
		if (!EXPECT(words[i] == (id << 32 | i) && words[i + 511] == words[i],
			    "BO %llu, word %zu: %#llx, %#llx", (unsigned long long)id, i,
			    (unsigned long long)words[i], (unsigned long long)words[i + 511]))
			return false;
	return true;
}

TEST_TIMEOUT(render_bos_evict_render_bos, 120)
{
	uint64_t vram, all, used, gtt, evictions;
	unsigned int count;
	struct kfd k;

	fixture_open(&k);
	vram = small_vram_bytes(&k);
	all = all_vram_bytes(&k);
	used = amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE);
	gtt = amdgpu_info(&k, AMDGPU_INFO_GTT_USAGE);
	evictions = amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS);
	count = (unsigned int)(2 * vram / SIZE);
	ASSERT(count <= MAX);
	for (unsigned int i = 0; i < count; i++) {
		create(&k, &buffers[i]);
		for (size_t w = 0; w < SIZE / 8; w += 512)
			ASSERT(buffers[i].words[w] == 0 && buffers[i].words[w + 511] == 0,
			       "BO %u is not zeroed", i);
		mark(buffers[i].words, SIZE, i);
		EXPECT(amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE) <= all);
	}
	EXPECT(amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS) - evictions >= count / 3,
	       "%llu evictions",
	       (unsigned long long)(amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS) - evictions));
	EXPECT(amdgpu_info(&k, AMDGPU_INFO_NUM_BYTES_MOVED) >= count / 3 * SIZE);
	for (unsigned int i = 0; i < count; i++)
		ASSERT(is_marked(buffers[i].words, SIZE, i));
	for (unsigned int i = 0; i < count; i++)
		destroy(&k, &buffers[i]);
	expect_usage(&k, AMDGPU_INFO_VRAM_USAGE, used);
	expect_usage(&k, AMDGPU_INFO_GTT_USAGE, gtt);
}

/* BOs of the render node do not reduce the VRAM limit of KFD processes. */
TEST_TIMEOUT(kfd_bos_evict_render_bos, 120)
{
	uint64_t vram, before, after;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	vram = small_vram_bytes(&k);
	ASSERT_OK(kfd_available(&k, &before));
	for (unsigned int i = 0; i < vram / SIZE; i++) {
		create(&k, &buffers[i]);
		mark(buffers[i].words, SIZE, i);
	}
	ASSERT_OK(kfd_available(&k, &after));
	EXPECT_EQ(before, after);
	ASSERT_OK(kfd_bo_create(&k, after, KFD_FLAGS_VRAM, &bo));
	mark(bo->va, bo->size, 1000);
	for (unsigned int i = 0; i < vram / SIZE; i++)
		ASSERT(is_marked(buffers[i].words, SIZE, i));
	EXPECT(is_marked(bo->va, bo->size, 1000));
	EXPECT_OK(kfd_bo_free(&k, bo));
}

/* The BOs of a file in the address space of a process exceed VRAM: its queues run. */
TEST_TIMEOUT(render_bos_do_not_stop_own_queues, 120)
{
	struct fixture f;
	uint64_t vram;
	struct cs cs;

	fixture_launch(&f);
	vram = small_vram_bytes(&f.k);
	cs_open_on(&cs, f.k.drm);
	for (uint64_t i = 0; i < vram / SIZE + 2; i++) {
		struct cs_bo bo;

		cs_bo_new(&cs, &bo, SIZE, AMDGPU_GEM_DOMAIN_VRAM);
	}
	EXPECT(fixture_works(&f));
}

static int render_bos_ready[2], render_bos_end[2];

static void fill_vram_by_file(void *data)
{
	struct kfd k;
	struct cs cs;
	uint64_t vram;
	char c = 0;

	(void)data;
	fixture_open(&k);
	vram = small_vram_bytes(&k);
	cs_open_on(&cs, k.drm);
	for (uint64_t i = 0; i < vram / SIZE + 2; i++) {
		struct cs_bo bo;

		cs_bo_new(&cs, &bo, SIZE, AMDGPU_GEM_DOMAIN_VRAM);
	}
	ASSERT(write(render_bos_ready[1], &c, 1) == 1);
	ASSERT(read(render_bos_end[0], &c, 1) == 1);
}

/* The same of another process without queues. */
TEST_TIMEOUT(render_bos_do_not_stop_queues_of_others, 120)
{
	struct fixture f;
	struct kfd_bo *bo;
	pid_t child;
	int status;
	char c = 0;

	ASSERT(pipe(render_bos_ready) == 0 && pipe(render_bos_end) == 0);
	fixture_launch(&f);
	small_vram_bytes(&f.k);
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_VRAM, &bo));
	child = fork_child();
	if (!child) {
		fill_vram_by_file(NULL);
		_exit(0);
	}
	ASSERT(read(render_bos_ready[0], &c, 1) == 1);
	EXPECT(fixture_works(&f));
	ASSERT(write(render_bos_end[1], &c, 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
}

static struct cs_bo moving;

/* Waits for a job with BOs. */
static void use_bos(struct cs *cs, const struct drm_amdgpu_bo_list_entry *bos, uint32_t count)
{
	struct cs_job job;
	uint64_t handle;

	cs_job(&job, cs, 0);
	cs_add_ib(&job, cs_write(cs, cs->data.va, 1));
	cs_add_bos(&job, bos, count);
	ASSERT_OK(cs_submit(&job, &handle));
	cs_done(cs, 0, handle);
}

/* Jobs with more BOs than VRAM, in turn, use most of them in system memory. */
TEST_TIMEOUT(jobs_move_few_bos, 120)
{
	struct drm_amdgpu_bo_list_entry bos[2][MAX];
	uint64_t vram, moved;
	uint32_t count;
	struct kfd k;
	struct cs cs;

	fixture_open(&k);
	vram = small_vram_bytes(&k);
	count = (uint32_t)(vram * 3 / 4 / SIZE);
	cs_open_on(&cs, k.drm);
	for (int half = 0; half < 2; half++) {
		for (uint32_t i = 0; i < count; i++) {
			uint32_t handle;

			ASSERT_OK(cs_bo_create(k.drm, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
			bos[half][i] = (struct drm_amdgpu_bo_list_entry){ handle, 0 };
		}
		bos[half][count] = (struct drm_amdgpu_bo_list_entry){ cs.code.handle, 0 };
		bos[half][count + 1] = (struct drm_amdgpu_bo_list_entry){ cs.data.handle, 0 };
	}
	moved = amdgpu_info(&k, AMDGPU_INFO_NUM_BYTES_MOVED);
	for (int i = 0; i < 10; i++)
		use_bos(&cs, bos[i % 2], count + 2);
	moved = amdgpu_info(&k, AMDGPU_INFO_NUM_BYTES_MOVED) - moved;
	EXPECT(moved < vram, "%lu MiB", (unsigned long)(moved / MIB));
	for (uint32_t i = 0; i < 2 * count; i++)
		EXPECT_OK(cs_bo_close(k.drm, bos[i % 2][i / 2].bo_handle));
}

static atomic_bool moving_ends;

/* Locks the reservation again and again. */
static void *submit_jobs(void *data)
{
	struct cs *cs = data;
	struct drm_amdgpu_bo_list_entry bos[] = { { cs->code.handle, 0 },
						  { cs->data.handle, 0 },
						  { moving.handle, 0 } };
	uint64_t handle = 0;

	while (!moving_ends) {
		struct cs_job job;

		cs_job(&job, cs, 0);
		cs_add_ib(&job, cs_write(cs, cs->data.va, 1));
		cs_add_bos(&job, bos, 3);
		ASSERT_OK(cs_submit(&job, &handle));
	}
	cs_done(cs, 0, handle);
	return NULL;
}

/* Page faults release the mmap lock while they wait for a reservation, and are repeated. */
TEST_TIMEOUT(page_faults_during_submissions, 120)
{
	pthread_t submitter;
	struct cs cs;

	cs_open(&cs);
	cs_bo_new(&cs, &moving, SIZE, AMDGPU_GEM_DOMAIN_VRAM);
	ASSERT(!pthread_create(&submitter, NULL, submit_jobs, &cs));
	for (uint32_t i = 0; i < SIZE / 4; i += 1024)
		moving.words[i] = i + 1;
	moving_ends = true;
	pthread_join(submitter, NULL);
	for (uint32_t i = 0; i < SIZE / 4; i += 1024)
		EXPECT_EQ(moving.words[i], i + 1);
}

/* BOs of another process that fill VRAM, and then GTT up to its limit, leave VRAM nevertheless. */
TEST_TIMEOUT(full_gtt_does_not_prevent_evictions, 120)
{
	uint64_t vram, available;
	uint32_t handles[MAX], gtt = 0;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	vram = small_vram_bytes(&k);
	for (unsigned int i = 0; i < vram / SIZE; i++) {
		create(&k, &buffers[i]);
		mark(buffers[i].words, SIZE, i);
	}
	while (gtt < MAX && !cs_bo_create(k.drm, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handles[gtt]))
		gtt++;
	ASSERT(gtt < MAX, "no limit of GTT");
	ASSERT_OK(kfd_available(&k, &available));
	EXPECT_OK(kfd_bo_create(&k, available, KFD_FLAGS_VRAM, &bo));
	for (unsigned int i = 0; i < vram / SIZE; i++)
		ASSERT(is_marked(buffers[i].words, SIZE, i));
	while (gtt--)
		EXPECT_OK(cs_bo_close(k.drm, handles[gtt]));
}

/* Processes that allocate at once, and the size of each BO. */
#define EVICTORS 24
#define GART_PAGES 131072
#define LARGE (32 * MIB)

/* Evicts a BO of another process when `start` is closed, and keeps the VRAM until `end` is. */
static void evict_at(int start, int done, int end)
{
	int fd = cs_open_file();
	uint32_t handle;
	char c;

	ASSERT(read(start, &c, 1) == 0);
	EXPECT_OK(cs_bo_create(fd, LARGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT(write(done, "", 1) == 1);
	ASSERT(read(end, &c, 1) == 0);
	close(fd);
}

/* With late fences the windows of all copies would fill the GART, and other users would fail. */
TEST_TIMEOUT(evictions_leave_half_of_the_gart, 200)
{
	uint64_t evictions;
	unsigned int count;
	int start[2], done[2], end[2], status;
	long idle, most;
	struct pollfd p;
	struct kfd k;
	char c;

	fixture_open(&k);
	count = (unsigned int)(vram_bytes(&k) / LARGE);
	if (count > 2 * EVICTORS || count < EVICTORS)
		SKIP("needs 768 to 1536 MiB of VRAM");
	for (unsigned int i = 0; i < count; i++) {
		create_large(&k, &buffers[i], LARGE);
		mark(buffers[i].words, LARGE, i);
	}
	evictions = amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS);
	idle = most = gart_pages();
	ASSERT(!pipe(start) && !pipe(done) && !pipe(end));
	for (int i = 0; i < EVICTORS; i++) {
		pid_t child = fork_child();

		ASSERT(child >= 0);
		if (!child) {
			close(start[1]);
			close(end[1]);
			evict_at(start[0], done[1], end[0]);
			ktap_end();
		}
	}
	close(start[1]);
	p = (struct pollfd){ .fd = done[0], .events = POLLIN };
	for (int i = 0; i < EVICTORS; i += poll(&p, 1, 5) && read(done[0], &c, 1) == 1) {
		long used = gart_pages();

		most = used > most ? used : most;
	}
	ktap_note("%ld pages of the GART, at most %ld", idle, most);
	/* Without a sample of a copy the limit says nothing. */
	EXPECT(most > idle);
	EXPECT(most - idle <= GART_PAGES / 2 + 100);
	close(end[1]);
	for (int i = 0; i < EVICTORS; i++)
		EXPECT(wait(&status) > 0 && status == 0, "status %#x", status);
	EXPECT(amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS) - evictions >= EVICTORS);
	for (unsigned int i = 0; i < count; i++)
		ASSERT(is_marked(buffers[i].words, LARGE, i));
}

/* Allocates so much VRAM from the render node that everything else is evicted, repeatedly. */
static void press(struct kfd *k, uint64_t vram, unsigned int rounds)
{
	unsigned int count = (unsigned int)(5 * vram / 4 / SIZE);

	for (unsigned int round = 0; round < rounds; round++) {
		for (unsigned int i = 0; i < count; i++) {
			create(k, &buffers[i]);
			mark(buffers[i].words, SIZE, i + round);
		}
		for (unsigned int i = 0; i < count; i++)
			ASSERT(is_marked(buffers[i].words, SIZE, i + round));
		for (unsigned int i = 0; i < count; i++)
			destroy(k, &buffers[i]);
	}
}

/* Allocates VRAM from the render node until a BO is evicted. Returns the number of BOs. */
static unsigned int create_until_eviction(struct kfd *k)
{
	uint64_t before = amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS);
	unsigned int count = 0;

	while (amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS) == before) {
		ASSERT(count < MAX);
		create(k, &buffers[count++]);
	}
	return count;
}

/* A process computes on half of VRAM while another allocates all of it. */
TEST_TIMEOUT(queues_stop_while_evicted, 200)
{
	static struct kfd other;
	struct kfd_bo *bos[8];
	struct fixture f;
	uint64_t vram, size, others;
	int status = -1;
	pid_t child;

	fixture_launch(&f);
	vram = small_vram_bytes(&f.k);
	size = vram / 2 / 8 / SIZE * SIZE;
	others = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (uint32_t i = 0; i < 8; i++) {
		ASSERT_OK(kfd_bo_create(&f.k, size, KFD_FLAGS_VRAM, &bos[i]));
		mark(bos[i]->va, size, i);
	}
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		fixture_open_only(&other);
		press(&other, vram, ktap_repeats(3, 1));
		ktap_end();
	}
	/* Each dispatch writes one location in each BO and finds the previous value. */
	for (uint32_t n = 1; waitpid(child, &status, WNOHANG) == 0; n++) {
		for (uint32_t i = 0; i < 8; i++) {
			uint32_t *words = (uint32_t *)bos[i]->va + 2;

			ASSERT_OK(fixture_fill(&f, &f.q, words, 64, n + i));
			/* Leave processors to the child. */
			usleep(PAUSE_US);
			ASSERT(words[0] == n + i && words[63] == n + i, "round %u, BO %u: %u, %u",
			       n, i, words[0], words[63]);
		}
	}
	EXPECT(status == 0, "status %#x", status);
	EXPECT(evicted_ms(&f.k) > 0);
	ktap_note("evicted for %llu ms", (unsigned long long)evicted_ms(&f.k));
	for (uint32_t i = 0; i < 8; i++)
		EXPECT(is_marked(bos[i]->va, size, i));
	EXPECT(fixture_works(&f));
	/* Everything is restored once the other process has exited. */
	for (int i = 0; i < 50 && amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE) < others + 8 * size;
	     i++)
		usleep(100000);
	EXPECT(amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE) >= others + 8 * size);
}

/* A restore that is tried during a GPU reset is repeated after it. */
TEST_TIMEOUT(restore_after_reset, 200)
{
	unsigned int count;
	struct kfd_bo *bo;
	struct fixture f;

	device_need_reset();
	fixture_load(&f);
	small_vram_bytes(&f.k);
	/* Without a queue: a process with queues could create no more of them after the reset. */
	ASSERT_OK(kfd_bo_create(&f.k, 4 * SIZE, KFD_FLAGS_VRAM, &bo));
	count = create_until_eviction(&f.k);
	device_reset();
	while (count > 0)
		destroy(&f.k, &buffers[--count]);
	/* The code was lost with the contents of VRAM if it had been restored before the reset. */
	ASSERT_OK(kfd_kernels(&f.k, &f.code));
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	EXPECT(fixture_works(&f));
	ASSERT_OK(fixture_fill(&f, &f.q, bo->va, 64, 77));
	EXPECT_EQ(((volatile uint32_t *)bo->va)[63], 77);
	EXPECT(evicted_ms(&f.k) > 0, "the BO was not evicted");
}

/*
 * Another process allocates VRAM until a BO is evicted, and frees it: the C driver evicts no BO of
 * KFD for an allocation of its own process (amdgpu_ttm_bo_eviction_valuable).
 */
static void evict_others(void *unused)
{
	static struct kfd other;
	unsigned int count;

	(void)unused;
	fixture_open_only(&other);
	count = create_until_eviction(&other);
	while (count > 0)
		destroy(&other, &buffers[--count]);
}

/*
 * A queue that MES rejects at a restore is lost: its process gets a HW_EXCEPTION event, and its
 * other queues are evicted and restored again. With $MES_REJECTS MES rejects the ADD_QUEUE after
 * two creations and one eviction of two queues: the model with the knob mes.error=6.
 */
TEST_TIMEOUT(evicted_again_after_failed_restore, 200)
{
	const bool rejects = getenv("MES_REJECTS");
	struct kfd_queue second;
	struct kfd_bo *bo;
	struct fixture f;
	uint32_t event;

	fixture_launch(&f);
	small_vram_bytes(&f.k);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_HW_EXCEPTION, false, &event));
	ASSERT_OK(kfd_queue_create(&f.k, &second, 64));
	ASSERT_OK(kfd_bo_create(&f.k, 4 * SIZE, KFD_FLAGS_VRAM, &bo));
	for (int round = 0; round < 3; round++) {
		uint64_t before = evicted_ms(&f.k);

		ASSERT_OK(ktap_in_child(evict_others, NULL));
		for (int i = 0; i < 100 && evicted_ms(&f.k) == before; i++)
			usleep(100000);
		ASSERT(evicted_ms(&f.k) > before, "round %d: not evicted", round);
	}
	EXPECT(fixture_works(&f));
	if (rejects) {
		expect_hang_event(&f.k, event, WAIT_MS);
		EXPECT_OK(fixture_fill(&f, &f.q, bo->va, 64, 78));
	} else {
		EXPECT_EQ(event_result(&f.k, event, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
		EXPECT_OK(fixture_fill(&f, &second, bo->va, 64, 78));
	}
	EXPECT_EQ(((volatile uint32_t *)bo->va)[63], 78);
	EXPECT_OK(kfd_queue_destroy(&second));
}

/* Allocates all VRAM that a process may have, in BOs of `size` bytes. Returns their number. */
static unsigned int fill_vram(struct kfd *k, uint64_t size, struct kfd_bo **bos)
{
	unsigned int count = 0;
	int ret;

	while (!(ret = kfd_bo_create(k, size, KFD_FLAGS_VRAM, &bos[count])))
		ASSERT(++count < MAX);
	EXPECT_RET(ret, -ENOMEM);
	return count;
}

/* MQDs are allocated after the BOs that take all VRAM: the BOs return to it nevertheless. */
TEST_TIMEOUT(restored_beside_later_queues, 200)
{
	static struct kfd_bo *bos[MAX], *rest[MAX], *pages[MAX];
	struct kfd_ioctl_create_queue_args args[2];
	struct kfd_queue queues[2];
	struct fixture f;

	fixture_launch(&f);
	small_vram_bytes(&f.k);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(kfd_queue_prepare(&f.k, &queues[i], 64, &args[i]));
	fill_vram(&f.k, SIZE, bos);
	fill_vram(&f.k, MIB / 4, rest);
	fill_vram(&f.k, KFD_PAGE, pages);
	for (int i = 0; i < 2; i++)
		ASSERT_OK(kfd_queue_start(&queues[i], &args[i]));
	ASSERT_OK(ktap_in_child(evict_others, NULL));
	EXPECT(fixture_works(&f));
	EXPECT(evicted_ms(&f.k) > 0);
}

static void evict_until_closed(void *data)
{
	static struct kfd other;
	int *pipes = data;
	unsigned int count;
	char byte;

	close(pipes[3]);
	ASSERT(read(pipes[2], &byte, 1) == 1);
	fixture_open_only(&other);
	count = create_until_eviction(&other);
	/* Code and save area of the queue have left: now a BO of the test. */
	for (int i = 0; i < 4; i++)
		create(&other, &buffers[count++]);
	ASSERT(write(pipes[1], "", 1) == 1);
	EXPECT(read(pipes[2], &byte, 1) == 0);
}

/* A BO that is freed while it is out of VRAM does not count any more. */
TEST_TIMEOUT(freed_while_evicted, 200)
{
	static struct kfd_bo *bos[MAX];
	uint64_t before, after;
	struct fixture f;
	int pipes[4];
	pid_t child;
	char byte;

	ASSERT(!pipe(pipes) && !pipe(pipes + 2));
	/* Before there are BOs, of which it would inherit CPU mappings. */
	child = fork_child();
	if (!child) {
		evict_until_closed(pipes);
		ktap_end();
	}
	fixture_launch(&f);
	small_vram_bytes(&f.k);
	fill_vram(&f.k, 4 * SIZE, bos);
	ASSERT(write(pipes[3], "", 1) == 1);
	ASSERT_OK(kfd_available(&f.k, &before));
	ASSERT(read(pipes[0], &byte, 1) == 1);
	/* The least recently used one; it returns 100 ms after its eviction. */
	ASSERT_OK(kfd_bo_free(&f.k, bos[0]));
	/* If it returned meanwhile, the worker may still use it. */
	for (int i = 0; i < 20; i++) {
		ASSERT_OK(kfd_available(&f.k, &after));
		if (after == before + 4 * SIZE)
			break;
		usleep(100 * 1000);
	}
	EXPECT_EQ(after, before + 4 * SIZE);
	close(pipes[3]);
	ASSERT(waitpid(child, NULL, 0) == child);
}

/* VRAM in one piece is a preference: no BO is evicted for it. */
TEST_TIMEOUT(contiguous_in_pieces, 200)
{
	static struct kfd_bo *bos[MAX];
	uint64_t evictions;
	struct kfd_bo *bo;
	unsigned int count;
	struct kfd k;

	fixture_open(&k);
	small_vram_bytes(&k);
	count = fill_vram(&k, 2 * MIB, bos);
	for (unsigned int i = 0; i < count; i += 2)
		ASSERT_OK(kfd_bo_free(&k, bos[i]));
	evictions = amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS);
	ASSERT_OK(kfd_bo_create(&k, count / 3 * 2 * MIB,
				KFD_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS, &bo));
	EXPECT_EQ(amdgpu_info(&k, AMDGPU_INFO_NUM_EVICTIONS), evictions);
	mark(bo->va, bo->size, 9);
	EXPECT(is_marked(bo->va, bo->size, 9));
	EXPECT_OK(kfd_bo_free(&k, bo));
}

static void victim(void *data)
{
	struct fixture f;
	struct kfd_bo *bo;
	int ready = *(int *)data;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, vram_bytes(&f.k) / 2 / SIZE * SIZE, KFD_FLAGS_VRAM, &bo));
	mark(bo->va, bo->size, 7);
	ASSERT(write(ready, "", 1) == 1);
	for (uint32_t n = 1;; n++) {
		ASSERT_OK(fixture_fill(&f, &f.q, (uint32_t *)bo->va + 2, 64, n));
		usleep(PAUSE_US);
	}
}

/* Processes killed in any state of an eviction leave nothing over. */
TEST_TIMEOUT(kill_evicted_process, 200)
{
	const unsigned int rounds = ktap_repeats(6, 3);
	uint64_t vram, used, gtt;
	struct kfd k;

	fixture_open(&k);
	vram = small_vram_bytes(&k);
	used = amdgpu_info(&k, AMDGPU_INFO_VRAM_USAGE);
	gtt = amdgpu_info(&k, AMDGPU_INFO_GTT_USAGE);
	for (unsigned int round = 0; round < rounds; round++) {
		int status, pipes[2];
		pid_t child;
		char c;

		ASSERT(pipe(pipes) == 0);
		child = fork();
		ASSERT(child >= 0);
		if (!child) {
			victim(&pipes[1]);
			ktap_end();
		}
		ASSERT(read(pipes[0], &c, 1) == 1);
		for (unsigned int i = 0; i < vram / SIZE; i++) {
			create(&k, &buffers[i]);
			mark(buffers[i].words, SIZE, i);
			/*
			 * The eviction has started; kill during eviction, while evicted, or during
			 * restore.
			 */
			if (i == vram / SIZE * 3 / 4) {
				usleep(round * 210000 / rounds);
				EXPECT(kill(child, SIGKILL) == 0);
			}
		}
		ASSERT(waitpid(child, &status, 0) == child);
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %#x", status);
		for (unsigned int i = 0; i < vram / SIZE; i++)
			ASSERT(is_marked(buffers[i].words, SIZE, i));
		for (unsigned int i = 0; i < vram / SIZE; i++)
			destroy(&k, &buffers[i]);
		close(pipes[0]);
		close(pipes[1]);
	}
	expect_usage(&k, AMDGPU_INFO_VRAM_USAGE, used);
	expect_usage(&k, AMDGPU_INFO_GTT_USAGE, gtt);
}
