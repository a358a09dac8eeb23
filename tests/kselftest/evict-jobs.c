// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests eviction beside jobs that use the BOs, or hold up their moves. Little VRAM. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <linux/dma-buf.h>

#include "cs.h"
#include "device.h"

#define MIB (1ull << 20)
#define SIZE (8 * MIB)
#define MAX 512

/* Makes a BO wait for a job. Returns it as a DMA buffer. */
static int hold_behind(struct cs *cs, uint32_t handle, uint64_t job)
{
	struct dma_buf_import_sync_file import = { .flags = DMA_BUF_SYNC_WRITE };
	struct drm_prime_handle prime = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR };
	uint32_t fence;

	ASSERT_OK(cs_to_handle(cs, job, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &fence));
	ASSERT_OK(kfd_ioctl(cs->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	import.fd = (int)fence;
	ASSERT_OK(kfd_ioctl(prime.fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import));
	close((int)fence);
	return prime.fd;
}

/* Frees a BO that waits for a job. */
static void free_behind(struct cs *cs, uint64_t job)
{
	uint32_t handle;

	ASSERT_OK(cs_bo_create(cs->fd, 4096, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	close(hold_behind(cs, handle, job));
	ASSERT_OK(cs_bo_close(cs->fd, handle));
}

/* Ends the file and all that it has: CPU mappings would keep it. */
static void close_all(struct cs *cs)
{
	munmap((void *)cs->code.words, cs->code.size);
	munmap((void *)cs->data.words, cs->data.size);
	close(cs->fd);
}

/* Returns whether memory is allocated by evictions while freed memory waits for a job. */
static bool evicted_before_the_end_of_a_job(uint64_t vram)
{
	uint64_t job = 0, busy = 0;
	unsigned int count = (unsigned int)(vram / SIZE);
	uint32_t handle;
	struct cs cs;
	int error = 0;

	cs_open(&cs);
	for (unsigned int i = 0; i < count; i++)
		ASSERT_OK(cs_bo_create(cs.fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &job));
	free_behind(&cs, job);
	for (unsigned int i = 0; i < 4; i++)
		ASSERT_OK(cs_bo_create(cs.fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	if (cs_wait(&cs, 0, job, 0, &busy))
		busy = 0;
	cs.data.words[0] = 1;
	if (busy || error)
		cs_done(&cs, 0, job);
	close_all(&cs);
	return busy;
}

/*
 * Memory that was freed while a job uses it: VRAM of others is evicted before that job ends. Jobs
 * of the driver may follow the job on its engine, but not each time.
 */
TEST_TIMEOUT(evictions_do_not_wait_for_jobs, 120)
{
	bool evicted = false;
	uint64_t vram;
	struct kfd k;

	fixture_open(&k);
	vram = small_vram_bytes(&k);
	for (int i = 0; i < 6 && !evicted; i++)
		evicted = evicted_before_the_end_of_a_job(vram);
	EXPECT(evicted);
}

/* Whether a job is pending. */
static bool pending(struct cs *cs, uint64_t job)
{
	uint64_t busy;

	return !cs_wait(cs, 0, job, 0, &busy) && busy;
}

/* Allocates BOs until one leaves VRAM; returns their number. */
static unsigned int fill_until_eviction(struct kfd *k, int fd, uint32_t *handles)
{
	uint64_t evictions = amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS);
	unsigned int count = 0;

	while (amdgpu_info(k, AMDGPU_INFO_NUM_EVICTIONS) == evictions) {
		ASSERT(count < MAX);
		ASSERT_OK(cs_bo_create(fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handles[count++]));
	}
	return count;
}

/* A job of another file uses a BO that has left VRAM: it is used where it is, without a wait. */
TEST_TIMEOUT(jobs_do_not_wait_for_a_move, 120)
{
	static uint32_t handles[MAX];
	struct drm_amdgpu_bo_list_entry bos[3];
	struct drm_prime_handle prime = { 0 };
	unsigned int count;
	uint64_t first, second;
	struct cs cs, other;
	struct cs_job job;
	struct kfd k;
	uint32_t bo;

	fixture_open(&k);
	small_vram_bytes(&k);
	cs_open(&cs);
	cs_open(&other);
	ASSERT_OK(cs_bo_create(cs.fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &bo));
	count = fill_until_eviction(&k, other.fd, handles);
	while (count)
		ASSERT_OK(cs_bo_close(other.fd, handles[--count]));
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &first));
	prime.fd = hold_behind(&cs, bo, first);
	ASSERT_OK(kfd_ioctl(other.fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	bos[0] = (struct drm_amdgpu_bo_list_entry){ other.code.handle, 0 };
	bos[1] = (struct drm_amdgpu_bo_list_entry){ other.data.handle, 0 };
	bos[2] = (struct drm_amdgpu_bo_list_entry){ prime.handle, 0 };
	cs_job(&job, &other, 0);
	cs_add_bos(&job, bos, 3);
	cs_add_ib(&job, cs_write(&other, other.data.va, 7));
	ASSERT_OK(cs_submit(&job, &second));
	EXPECT(pending(&cs, first), "the submission has waited for a job");
	cs.data.words[0] = 1;
	cs_done(&cs, 0, first);
	cs_done(&other, 0, second);
	EXPECT_EQ(other.data.words[0], 7);
}

/* Allocates some BOs. */
static void fill_some(void)
{
	int fd = cs_open_file();
	uint32_t handle;

	for (int i = 0; i < 4; i++)
		ASSERT_OK(cs_bo_create(fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
}

/* Maps a BO that it imports, and tells when it is mapped. */
static void map_imported(int buf, int mapped)
{
	struct drm_prime_handle prime = { .fd = buf };
	int fd = cs_open_file();

	ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	EXPECT_OK(cs_va(fd, prime.handle, AMDGPU_VA_OP_MAP, ACCESS, 0x100000000ull, 0, SIZE));
	ASSERT(write(mapped, "", 1) == 1);
}

/*
 * Kills a process that maps a BO whose eviction, which has `us` to begin, waits for a job. Returns
 * false if it was mapped before: the end of its file waits for the job then.
 */
static bool killed_while_it_waits(struct kfd *k, unsigned int us)
{
	static uint32_t handles[MAX];
	struct pollfd mapped = { .events = POLLIN };
	int pipes[2], buf, status;
	pid_t filler, mapper;
	uint32_t first, bo;
	uint64_t job;
	struct cs cs;
	bool waited;

	ASSERT(!pipe(pipes));
	mapped.fd = pipes[0];
	cs_open(&cs);
	/* The least recently used ones. The first one leaves VRAM. */
	ASSERT_OK(cs_bo_create(cs.fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &first));
	ASSERT_OK(cs_bo_create(cs.fd, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &bo));
	fill_until_eviction(k, cs.fd, handles);
	ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &job));
	buf = hold_behind(&cs, bo, job);
	filler = fork_child();
	if (!filler) {
		fill_some();
		ktap_end();
	}
	usleep(us);
	mapper = fork_child();
	if (!mapper) {
		map_imported(buf, pipes[1]);
		ktap_end();
	}
	waited = poll(&mapped, 1, 300) == 0;
	ASSERT(!kill(mapper, SIGKILL));
	while (waited && waitpid(mapper, &status, WNOHANG) == 0 && pending(&cs, job)) {
		usleep(10000);
		waited = poll(&mapped, 1, 0) == 0;
	}
	if (waited)
		EXPECT(pending(&cs, job), "it survives SIGKILL until the end of the job");
	cs.data.words[0] = 1;
	cs_done(&cs, 0, job);
	if (!waited)
		ASSERT(waitpid(mapper, &status, 0) == mapper);
	ASSERT(waitpid(filler, &status, 0) == filler);
	EXPECT(status == 0, "status %#x", status);
	close(buf);
	close(pipes[0]);
	close(pipes[1]);
	close_all(&cs);
	return waited;
}

/* An eviction waits for a job, and a process for the eviction: it can be killed. */
TEST_TIMEOUT(killed_behind_an_eviction, 120)
{
	bool waited = false;
	struct kfd k;

	fixture_open(&k);
	small_vram_bytes(&k);
	for (unsigned int i = 1; i <= 6 && !waited; i++)
		waited = killed_while_it_waits(&k, i * 300000);
	EXPECT(waited, "no process waits");
}
