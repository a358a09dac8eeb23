// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Fuzzes every ioctl with random arguments: nothing may break or hang, and everything works
 * afterwards. The seed is printed; FUZZ_SEED repeats it. FUZZ_ROUNDS repeats the ioctls with other
 * numbers; KTAP_TIME_FACTOR has to grow with it, for the limits of the tests.
 */
#define _GNU_SOURCE
#include <drm/amdgpu_drm.h>
#include <drm/drm.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/random.h"
#include "fixture.h"
#include "leaks.h"

static uint64_t seed;
static unsigned int rounds = 1;

/* The last call of a child, in memory shared with its parent. */
struct call {
	unsigned int done, cmd;
	uint64_t args[16];
};

static struct call *last;

static uint64_t random64(void)
{
	return random_from(&seed);
}

/* Values that tend to break drivers. */
static uint64_t nasty(struct kfd *k, const void *page)
{
	switch (random64() % 16) {
	case 0:
		return 0;
	case 1:
		return ~0ull;
	case 2:
		return 1ull << (random64() % 64);
	case 3:
		return (1ull << (random64() % 64)) - 1;
	case 4:
		return KERNEL_ADDRESS + (random64() & 0xffff);
	case 5:
	case 6:
		return kfd_va(page) + (random64() & 0xfff);
	case 7:
		return k->node.gpu_id;
	case 8:
		return (uint64_t)k->node.gpu_id << 32 | (random64() & 15);
	case 9:
		return 0x7fffffffffffffffull;
	case 10:
		return 0xfffffffffffff000ull;
	case 11:
		return 0xffffffffull;
	case 12:
		return random64() & 0xff;
	case 13:
		return 4096ull << (random64() % 8);
	default:
		return random64();
	}
}

static void call(int fd, unsigned int cmd, void *args, const uint64_t *words)
{
	last->cmd = cmd;
	memcpy(last->args, words, sizeof(last->args));
	kfd_ioctl(fd, cmd, args);
	last->done++;
}

static bool skipped(unsigned int nr, const uint64_t *args)
{
	/* WAIT_EVENTS could wait for ever. */
	if (nr == 0x0c)
		return true;
	/*
	 * DBG_TRAP: a process may debug itself, and RUNTIME_ENABLE then waits for an answer that
	 * only it could give.
	 */
	if (nr == 0x26 && (uint32_t)args[0] == (uint32_t)getpid())
		return true;
	/* CREATE_PROCESS: one process is enough. */
	if (nr == 0x27)
		return true;
	/*
	 * ALLOC_MEMORY may take all system memory as requested; only refused sizes are of interest.
	 */
	if (nr == 0x16 && args[1] > (16 << 20) && args[1] < (1ull << 40))
		return true;
	return false;
}

static void nonsense(unsigned int rounds, bool with_vm)
{
	static uint64_t args[64];
	void *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kfd k;

	if (with_vm)
		fixture_open(&k);
	else
		fixture_open_only(&k);
	for (unsigned int i = 0; i < rounds; i++) {
		/* Numbers in use, and now and then one that is not. */
		unsigned int nr = random64() % 16 ? random64() % 0x2a : random64() & 0xff;
		unsigned int size = random64() % 4 ? 128 : random64() % 512;

		for (int n = 0; n < 64; n++) {
			args[n] = nasty(&k, page);
			/* Half of the time, two random 32-bit halves. */
			if (random64() & 1)
				args[n] = (args[n] & 0xffffffff) | nasty(&k, page) << 32;
		}
		if (skipped(nr, args))
			continue;
		call(k.fd, _IOC(random64() & 3, AMDKFD_IOCTL_BASE, nr, size),
		     random64() % 32 ? args : (void *)nasty(&k, page), args);
	}
}

static void launch(void *data)
{
	struct fixture f;

	(void)data;
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
}

/* Other processes find the GPU usable. */
static void after(void)
{
	EXPECT_OK(ktap_in_child(launch, NULL));
}

/*
 * Runs `fn` in a child for 40 s at most, with a random seed of its own. Termination by a signal is
 * a failure, by SIGALRM a call that hangs.
 */
static void in_child(void (*fn)(void))
{
	int status;
	pid_t child;

	last->done = 0;
	/* One step of xorshift would only shift the numbers of the next child. */
	seed = seed * 0xd1342543de82ef95ull + 1;
	child = fork_child();
	if (!child) {
		alarm(40 + 40 * ktap_time_factor() / rounds);
		fn();
		ktap_end();
	}
	ASSERT(waitpid(child, &status, 0) == child);
	if (!EXPECT(WIFEXITED(status), "%s after %u calls, in %#x", strsignal(WTERMSIG(status)),
		    last->done, last->cmd))
		for (int i = 0; i < 16; i += 4)
			ktap_note("%#llx %#llx %#llx %#llx", (unsigned long long)last->args[i],
				  (unsigned long long)last->args[i + 1],
				  (unsigned long long)last->args[i + 2],
				  (unsigned long long)last->args[i + 3]);
	EXPECT(last->done > 100, "only %u calls", last->done);
}

/*
 * Runs `fn` in `times` children per round, and prints how many calls all of them made. After the
 * last child the counters of resources in use must be those after the first.
 */
static void in_children(void (*fn)(void), unsigned int times)
{
	unsigned long calls = 0;

	last = mmap(NULL, sizeof(*last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(last != MAP_FAILED);
	for (unsigned int i = 0; i < times * rounds; i++) {
		in_child(fn);
		calls += last->done;
		if (i == 0) {
			after();
			leaks_start();
		}
	}
	ktap_note("%lu calls", calls);
	leaks_expect_none("random calls", times * rounds - 1);
}

static void without_vm(void)
{
	nonsense(4000, false);
}

static void with_vm(void)
{
	nonsense(4000, true);
}

TEST_TIMEOUT(fuzz_without_vm, 130)
{
	in_children(without_vm, 3);
	after();
}

TEST_TIMEOUT(fuzz_with_vm, 180)
{
	in_children(with_vm, 4);
	after();
}

/* A valid CREATE_QUEUE with one random member at a time. */
TEST_TIMEOUT(fuzz_create_queue, 240)
{
	struct kfd_ioctl_create_queue_args good, args;
	struct kfd_queue q;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_queue_prepare(&k, &q, 64, &good));
	for (int i = 0; i < 1500; i++) {
		uint32_t *words = (uint32_t *)&args;
		size_t n = random64() % (sizeof(args) / 4);

		args = good;
		words[n] = (uint32_t)nasty(&k, q.ring->va);
		if (kfd_ioctl(k.fd, AMDKFD_IOC_CREATE_QUEUE, &args) == 0) {
			struct kfd_ioctl_destroy_queue_args destroy = { .queue_id = args.queue_id };

			ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_DESTROY_QUEUE, &destroy));
		}
	}
	ASSERT_OK(kfd_queue_start(&q, &good));
}

/* Random waits with a timeout. */
TEST_TIMEOUT(fuzz_wait_events, 120)
{
	struct kfd_event_data *data = calloc(5000, sizeof(*data));
	struct kfd k;
	uint32_t id;

	fixture_open(&k);
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &id));
	for (int i = 0; i < 3000; i++) {
		struct kfd_ioctl_wait_events_args args = {
			.events_ptr = random64() % 8 ? kfd_va(data) : nasty(&k, data),
			.num_events = random64() % 4 ? random64() % 5 : (uint32_t)nasty(&k, data),
			.wait_for_all = (uint32_t)nasty(&k, data),
			.timeout = random64() % 3,
		};

		/* For the array itself, no more than it holds. */
		if (args.num_events > 4999 && args.num_events <= 8192)
			args.num_events = 4999;
		for (int n = 0; n < 5; n++)
			data[n].event_id = random64() & 1 ? id : (uint32_t)nasty(&k, data);
		kfd_ioctl(k.fd, AMDKFD_IOC_WAIT_EVENTS, &args);
	}
	after();
}

TEST(fuzz_mmap)
{
	struct kfd k;

	fixture_open(&k);
	for (int i = 0; i < 4000; i++) {
		uint64_t offset = (random64() & 1 ?
					   (random64() & 3) << 62 | (uint64_t)k.node.gpu_id << 46 |
						   (random64() & 0x3fff) :
					   nasty(&k, &k)) &
				  ~0xfffull;
		size_t size = 4096ul << (random64() % 4);
		void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       random64() & 1 ? MAP_SHARED : MAP_PRIVATE,
			       random64() & 1 ? k.fd : k.drm, (off_t)offset);

		if (p != MAP_FAILED)
			munmap(p, size);
	}
	after();
}

/* Handles that exist, 1 to 3 of each kind: BOs, contexts, syncobjs, lists. */
static void render_objects(struct kfd *k)
{
	for (int i = 0; i < 3; i++) {
		union drm_amdgpu_gem_create bo = { .in = { .bo_size = 65536,
							   .domains = AMDGPU_GEM_DOMAIN_GTT } };
		union drm_amdgpu_ctx ctx = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
		struct drm_syncobj_create syncobj = { 0 };
		union drm_amdgpu_bo_list list = { .in = { .operation = AMDGPU_BO_LIST_OP_CREATE } };

		ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &bo));
		ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_CTX, &ctx));
		ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_CREATE, &syncobj));
		list.in.bo_info_size = sizeof(struct drm_amdgpu_bo_list_entry);
		ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_BO_LIST, &list));
	}
}

static void render_nonsense(void)
{
	static uint64_t args[64];
	void *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kfd k;

	fixture_open(&k);
	render_objects(&k);
	for (int i = 0; i < 6000; i++) {
		unsigned int nr = random64() % 2 ? random64() % 0xff :
						   DRM_COMMAND_BASE + random64() % 0x20;

		for (int n = 0; n < 64; n++)
			args[n] = random64() % 4 ? nasty(&k, page) :
						   (random64() % 4) << 32 | random64() % 4;
		/* GEM_CREATE: do not allocate gigabytes. */
		if (nr == 0x40 && args[0] < (1ull << 40))
			args[0] &= 0xffffff;
		/*
		 * The DRM core allocates as many handles as requested and warns about too many
		 * (0xc3 to 0xcd: syncobj array ioctls; the count is in the second to fourth dword).
		 */
		for (int n = 1; n < 4 && nr >= 0xc3 && nr <= 0xcd; n++)
			args[n] &= ~0xffff0000ull;
		/*
		 * SYNCOBJ_WAIT, TIMELINE_WAIT: a time in the past, as nothing signals the syncobjs.
		 */
		if (nr == 0xc3)
			args[1] = random64() % 1000;
		if (nr == 0xca)
			args[2] = random64() % 1000;
		call(k.drm, _IOC(random64() & 3, 'd', nr, random64() % 200),
		     random64() % 16 ? args : (void *)nasty(&k, page), args);
	}
}

TEST_TIMEOUT(fuzz_render_node, 120)
{
	in_children(render_nonsense, 2);
	after();
}

int main(int argc, char **argv)
{
	const char *given = getenv("FUZZ_SEED"), *repeats = getenv("FUZZ_ROUNDS");

	if (repeats)
		rounds = (unsigned int)strtoul(repeats, NULL, 0);
	if (!rounds)
		return 1;
	if (given)
		seed = strtoull(given, NULL, 0);
	else if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return 1;
	/* xorshift maps 0 to itself. */
	seed |= !seed;
	printf("# seed: FUZZ_SEED=%#llx\n", (unsigned long long)seed);
	return ktap_main(argc, argv);
}
