// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests concurrent ioctls, mmap() and exit in threads of one process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#define SECONDS 6
/* Minimum rounds of a thread, and the additional time for them. */
#define MIN_ROUNDS 10
#define MORE_SECONDS 80
#define MAX_THREADS 16

static struct fixture f;
static volatile bool stop;
static unsigned long done[MAX_THREADS];

struct worker {
	void (*work)(unsigned int n, unsigned int round);
	unsigned int n;
	pthread_t thread;
};

static void *loop(void *data)
{
	struct worker *w = data;

	for (unsigned int round = 0; !stop; round++) {
		w->work(w->n, round);
		done[w->n]++;
	}
	return NULL;
}

/* Runs all threads for a while, and until each has done MIN_ROUNDS. */
static void run(void (*const *work)(unsigned int, unsigned int), unsigned int count)
{
	static struct worker workers[MAX_THREADS];
	unsigned long least = ~0ul, most = 0;
	double end;

	stop = false;
	memset(done, 0, sizeof(done));
	for (unsigned int i = 0; i < count; i++) {
		workers[i] = (struct worker){ .work = work[i], .n = i };
		ASSERT(pthread_create(&workers[i].thread, NULL, loop, &workers[i]) == 0);
	}
	sleep(SECONDS);
	end = seconds_now() + MORE_SECONDS * ktap_time_factor();
	for (unsigned int i = 0; i < count && seconds_now() < end;)
		if (__atomic_load_n(&done[i], __ATOMIC_RELAXED) < MIN_ROUNDS)
			usleep(50000);
		else
			i++;
	stop = true;
	for (unsigned int i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT(done[i] >= MIN_ROUNDS, "thread %u: %lu rounds", i, done[i]);
		least = done[i] < least ? done[i] : least;
		most = done[i] > most ? done[i] : most;
	}
	ktap_note("%lu to %lu rounds of %u threads", least, most, count);
}

/* The library is not thread-safe: these use the ioctls directly. */
static int create_queue(struct kfd_ioctl_create_queue_args args, uint32_t *id)
{
	int ret = kfd_ioctl(f.k.fd, AMDKFD_IOC_CREATE_QUEUE, &args);

	*id = args.queue_id;
	return ret;
}

static struct kfd_ioctl_create_queue_args queue_args[4];
static struct kfd_queue queues[4];
/* The BO before those of the threads. */
static struct kfd_bo *last_bo;
/* Whether threads change queues and memory of others, and how often they have done so. */
static bool meddled;
static unsigned long queue_hits, map_hits, unmap_hits;

/* Expects success; with meddling also an error of an object that another thread has changed. */
static void expect_or(const char *call, int ret, int error, int other)
{
	EXPECT(!ret || (meddled && (ret == error || ret == other)), "%s: %s", call,
	       ktap_errno_name(ret));
}

static void queue_life(unsigned int n, unsigned int round)
{
	struct kfd_ioctl_destroy_queue_args destroy;
	uint32_t id;

	if (EXPECT_OK(create_queue(queue_args[n & 3], &id))) {
		struct kfd_ioctl_update_queue_args update = {
			.ring_base_address = queue_args[n & 3].ring_base_address,
			.queue_id = id,
			.ring_size = queue_args[n & 3].ring_size,
			.queue_percentage = round & 1 ? 0 : 100,
			.queue_priority = round & 15,
		};

		expect_or("UPDATE_QUEUE", kfd_ioctl(f.k.fd, AMDKFD_IOC_UPDATE_QUEUE, &update),
			  -EFAULT, -EBUSY);
		destroy.queue_id = id;
		expect_or("DESTROY_QUEUE", kfd_ioctl(f.k.fd, AMDKFD_IOC_DESTROY_QUEUE, &destroy),
			  -EINVAL, -EBUSY);
	}
}

/* Queue ids of other threads, or unused ones: the ioctl fails or succeeds. */
static void queue_meddling(unsigned int n, unsigned int round)
{
	struct kfd_ioctl_update_queue_args update = {
		.ring_base_address = queue_args[0].ring_base_address,
		.queue_id = f.q.id + 1 + round % 6,
		.ring_size = queue_args[0].ring_size,
		.queue_percentage = round % 101,
	};
	struct kfd_ioctl_destroy_queue_args destroy = { .queue_id = f.q.id + 1 + round / 2 % 2 };

	(void)n;
	kfd_ioctl(f.k.fd, AMDKFD_IOC_UPDATE_QUEUE, &update);
	queue_hits += !kfd_ioctl(f.k.fd, AMDKFD_IOC_DESTROY_QUEUE, &destroy);
}

/* With meddling the BO may be unmapped already, or be mapped again before it is freed. */
static void free_meddled(struct kfd_bo *bo)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = { .handle = bo->handle };
	int ret;

	do {
		expect_or("UNMAP_MEMORY", kfd_bo_unmap_gpu(&f.k, bo), -EINVAL, 0);
		ret = kfd_ioctl(f.k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
	} while (ret == -EBUSY);
	EXPECT_OK(ret);
	munmap(bo->va, bo->size);
	free(bo);
}

static void memory_life(unsigned int n, unsigned int round)
{
	struct kfd_bo *bo;

	if (EXPECT_OK(kfd_bo_create(&f.k, 4096u << (round % 8),
				    (n ^ round) & 1 ? KFD_FLAGS_GTT : KFD_FLAGS_VRAM, &bo))) {
		if (!(bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) || f.k.node.large_bar)
			*(volatile uint32_t *)bo->va = round;
		if (meddled)
			free_meddled(bo);
		else
			EXPECT_OK(kfd_bo_free(&f.k, bo));
	}
}

/* Maps and unmaps BOs of other threads. */
static void memory_meddling(unsigned int n, unsigned int round)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = last_bo->handle + 1 + round / 2 % 4,
		.device_ids_array_ptr = kfd_va(&f.k.node.gpu_id),
		.n_devices = 1,
	};

	(void)n;
	if (round & 1)
		map_hits += !kfd_ioctl(f.k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
	else
		unmap_hits += !kfd_ioctl(f.k.fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
}

static void event_life(unsigned int n, unsigned int round)
{
	struct kfd_event_data data = { 0 };
	uint32_t id, result;

	(void)n;
	if (EXPECT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_SIGNAL, round & 1, &id))) {
		/* Another thread may have destroyed it already. */
		kfd_event_set(&f.k, id);
		data.event_id = id;
		kfd_event_wait(&f.k, &data, 1, false, 5, &result);
		kfd_event_destroy(&f.k, id);
	}
}

/* Waits for and destroys events of other threads. */
static void event_meddling(unsigned int n, unsigned int round)
{
	struct kfd_event_data data[8] = { 0 };
	uint32_t result;

	for (int i = 0; i < 8; i++)
		data[i].event_id = f.signal.event_id + 2 + (round + i) % 8;
	kfd_event_wait(&f.k, data, 1 + round % 8, round & 1, round % 3, &result);
	kfd_event_set(&f.k, data[0].event_id);
	if (n & 1)
		kfd_event_destroy(&f.k, data[7].event_id);
}

static void launching(unsigned int n, unsigned int round)
{
	(void)n;
	(void)round;
	EXPECT(fixture_works(&f));
}

static void reading(unsigned int n, unsigned int round)
{
	static const char *const files[] = { KFD_TOPOLOGY "/nodes/1/properties",
					     "/sys/kernel/debug/kfd/mqds",
					     "/sys/kernel/debug/kfd/hqds",
					     "/sys/kernel/debug/kfd/rls",
					     KFD_TOPOLOGY "/generation_id" };
	char bytes[4096];
	int fd = open(files[round % 5], O_RDONLY | O_CLOEXEC);

	(void)n;
	if (fd < 0)
		return;
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
	close(fd);
}

static void mapping(unsigned int n, unsigned int round)
{
	void *p = mmap(NULL, KFD_DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED, f.k.fd,
		       (off_t)(f.q.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1)));

	(void)n;
	(void)round;
	if (EXPECT(p != MAP_FAILED, "%s", strerror(errno)))
		munmap(p, KFD_DOORBELL_SLICE);
}

static void opening(unsigned int n, unsigned int round)
{
	struct kfd_ioctl_get_version_args version;
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	(void)n;
	(void)round;
	if (EXPECT(fd >= 0, "%s", strerror(errno))) {
		EXPECT_OK(kfd_ioctl(fd, AMDKFD_IOC_GET_VERSION, &version));
		close(fd);
	}
}

static void prepare(void)
{
	fixture_launch(&f);
	for (int i = 0; i < 4; i++)
		ASSERT_OK(kfd_queue_prepare(&f.k, &queues[i], 64, &queue_args[i]));
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, KFD_FLAGS_GTT, &last_bo));
}

TEST_TIMEOUT(queues_in_many_threads, 150)
{
	void (*const work[])(unsigned int, unsigned int) = { queue_life, queue_life, queue_life,
							     queue_life, launching };

	prepare();
	run(work, 5);
	EXPECT(fixture_works(&f));
}

TEST_TIMEOUT(everything_at_once, 150)
{
	void (*const work[])(unsigned int,
			     unsigned int) = { queue_life,  queue_meddling,  memory_life,
					       memory_life, memory_meddling, event_life,
					       event_life,  event_meddling,  event_meddling,
					       reading,	    mapping,	     opening };

	prepare();
	meddled = true;
	run(work, 12);
	ktap_note("%lu queues destroyed, %lu BOs mapped, %lu unmapped by other threads", queue_hits,
		  map_hits, unmap_hits);
	EXPECT(queue_hits > 0 && map_hits > 0 && unmap_hits > 0);
	EXPECT(fixture_works(&f));
}

/* The process is killed while its threads are in the middle of that. */
TEST_TIMEOUT(kill_during_ioctls, 120)
{
	void (*const work[])(unsigned int,
			     unsigned int) = { queue_life, memory_life, event_life,
					       launching,  opening,	event_meddling };

	for (unsigned int i = 0; i < ktap_repeats(4, 1); i++) {
		int status;
		pid_t child;

		child = fork_child();
		if (!child) {
			prepare();
			run(work, 6);
			_exit(0);
		}
		usleep(2500000 + i * 333333);
		kill(child, SIGKILL);
		ASSERT(waitpid(child, &status, 0) == child);
	}
	prepare();
	EXPECT(fixture_works(&f));
}

/* Two threads submit to one queue: indices from an atomic counter, doorbells in any order. */
static struct kfd_signal counted;
static unsigned long sent[2];

static void producing(unsigned int n, unsigned int round)
{
	static struct kfd_kernel kernel;
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	char *kernarg = (char *)f.kernarg->va + 4096 + n * 256;
	struct aql_dispatch packet;
	uint64_t to = kfd_va((uint32_t *)f.data->va + n * 64);
	uint32_t value = 1000 + n;

	if (round >= 300) {
		usleep(1000);
		return;
	}
	ASSERT_OK(fixture_kernel(&f, "fill", &kernel));
	memcpy(kernarg, &to, 8);
	memcpy(kernarg + 8, &value, 4);
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &counted);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	sent[n]++;
}

TEST_TIMEOUT(two_threads_submit_to_one_queue, 150)
{
	void (*const work[])(unsigned int, unsigned int) = { producing, producing };
	uint32_t *words;

	fixture_launch(&f);
	words = f.data->va;
	ASSERT_OK(kfd_signal_create(&f.k, 1000000, &counted));
	run(work, 2);
	for (int i = 0; i < 200 && f.q.q->read_dispatch_id != f.q.q->write_dispatch_id; i++)
		usleep(50000);
	EXPECT_EQ(f.q.q->read_dispatch_id, sent[0] + sent[1]);
	for (int i = 0; i < 100 && counted.s->value != (int64_t)(1000000 - sent[0] - sent[1]); i++)
		usleep(50000);
	EXPECT_EQ(counted.s->value, 1000000 - sent[0] - sent[1]);
	EXPECT_EQ(words[0], 1000);
	EXPECT_EQ(words[64], 1001);
}
