// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests two processes at once: doorbells, memory and events are isolated. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../workloads/sdma-queue.h"
#include "device.h"
#include "fixture.h"

#define INSTANCE "/sys/kernel/tracing/instances/isolation"
#define PROT_NO_CACHE (1u << 4) /* PCD of a PTE of x86 */
/* The same address in both, far from everything that the system maps. */
#define COMMON_VA ((char *)0x700000000000ul)

/* Message from one process to the other. */
struct facts {
	uint64_t doorbell_offset, slice, handle, mmap_offset;
	uint32_t event;
	uint64_t read_index;
};

struct pair {
	int mine;
	pid_t child;
};

/* Forks; returns true in the child. Each process has one end of the socket. */
static bool split(struct pair *p)
{
	int ends[2];

	ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	p->child = fork_child();
	p->mine = ends[p->child ? 0 : 1];
	close(ends[p->child ? 1 : 0]);
	return !p->child;
}

static void send_facts(struct pair *p, const struct facts *facts)
{
	ASSERT(send(p->mine, facts, sizeof(*facts), 0) == sizeof(*facts));
}

static void receive_facts(struct pair *p, struct facts *facts)
{
	ASSERT(recv(p->mine, facts, sizeof(*facts), 0) == sizeof(*facts), "other process exited");
}

/* Barrier between the two processes. */
static void sync_peers(struct pair *p)
{
	struct facts none = { 0 };

	send_facts(p, &none);
	receive_facts(p, &none);
}

static void join(struct pair *p)
{
	int status;

	ASSERT(waitpid(p->child, &status, 0) == p->child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "other process failed");
}

static void remove_probes(void)
{
	write_file(INSTANCE "/events/isolation/enable", "0");
	rmdir(INSTANCE);
	write_file("/sys/kernel/tracing/kprobe_events", "-:isolation/insert\n-:isolation/remap\n");
}

/* Probes of the kernel's functions that map pages of a device, by either driver. */
static void probe_mappings(void)
{
	/* Those of a test that ended early. */
	remove_probes();
	mkdir(INSTANCE, 0700);
	if (write_file("/sys/kernel/tracing/kprobe_events",
		       "p:isolation/insert vmf_insert_pfn_prot page=%dx:x64 prot=%cx:x64\n"
		       "p:isolation/remap remap_pfn_range page=%dx:x64 prot=%r8:x64\n") ||
	    write_file(INSTANCE "/events/isolation/enable", "1"))
		SKIP("no kprobes");
}

/* Returns the address of the doorbell page that this process has mapped, and its protection. */
static uint64_t probed_doorbell(uint64_t *protection)
{
	unsigned long long bar, bar_end, page, prot;
	char line[512], task[32], *at;
	uint64_t address = 0;
	FILE *trace;

	device_find();
	device_get("resource", line, sizeof(line));
	/* BAR 0 has two lines, BAR 2 is that of doorbells. */
	ASSERT(sscanf(line, "%*x %*x %*x %*x %*x %*x %llx %llx", &bar, &bar_end) == 2, "%s", line);
	snprintf(task, sizeof(task), "-%d ", getpid());
	trace = fopen(INSTANCE "/trace", "re");
	ASSERT(trace != NULL);
	while (fgets(line, sizeof(line), trace))
		if (strstr(line, task) && (at = strstr(line, "page=")) &&
		    sscanf(at, "page=%llx prot=%llx", &page, &prot) == 2 &&
		    page >= bar >> 12 && page <= bar_end >> 12) {
			address = page << 12;
			*protection = prot;
		}
	fclose(trace);
	return address;
}

static void collect(struct fixture *f, struct facts *facts)
{
	facts->doorbell_offset = f->q.doorbell_offset;
	facts->handle = f->data->handle;
	facts->mmap_offset = f->data->mmap_offset;
	facts->event = f->signal.event_id;
}

TEST(doorbell_pages_differ)
{
	struct facts mine = { 0 }, theirs;
	uint64_t prot = 0;
	struct fixture f;
	struct pair p;

	probe_mappings();
	split(&p);
	fixture_launch(&f);
	collect(&f, &mine);
	/* The first write of a doorbell maps its page. */
	EXPECT(fixture_works(&f));
	mine.slice = probed_doorbell(&prot) & ~(KFD_DOORBELL_SLICE - 1);
	EXPECT(prot & PROT_NO_CACHE, "protection %#llx", (unsigned long long)prot);
	send_facts(&p, &mine);
	receive_facts(&p, &theirs);
	/* The same mmap offset selects a different doorbell page in each process. */
	EXPECT_EQ(mine.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1),
		  theirs.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1));
	sync_peers(&p);
	if (!p.child)
		ktap_end();
	join(&p);
	remove_probes();
	EXPECT(mine.slice && theirs.slice);
	EXPECT(mine.slice + KFD_DOORBELL_SLICE <= theirs.slice ||
		       theirs.slice + KFD_DOORBELL_SLICE <= mine.slice,
	       "%#llx and %#llx", (unsigned long long)mine.slice, (unsigned long long)theirs.slice);
}

/* Time in which the CP reads the write pointer for an earlier doorbell or mapping, in ms. */
#define SETTLE_MS 100

/*
 * Writes a packet whose doorbell is not rung. The CP executes it if it has yet to read the write
 * pointer for the doorbell of an earlier packet: DOORBELL_BIF_DROP drops the value of a doorbell.
 * Returns false if it does so each time.
 */
static bool write_unrung(struct fixture *f)
{
	for (int i = 0; i < 10; i++) {
		volatile uint64_t *real = f->q.doorbell, elsewhere = 0;

		((uint32_t *)f->data->va)[0] = 7;
		f->q.doorbell = &elsewhere;
		fixture_fill_start(f, &f->q, &f->signal, 0, f->data->va, 64, 8);
		f->q.doorbell = real;
		if (kfd_signal_wait(&f->k, &f->signal, SETTLE_MS))
			return true;
	}
	return false;
}

/*
 * A packet whose doorbell was not rung is not executed when the other process rings its own. No
 * queue may be mapped meanwhile, which makes the CP read its write pointer, doorbell or not:
 * CREATE_QUEUE does not wait for the runlist, which maps the queues of all processes anew. A
 * dispatch after both queues exist completes when its queue is mapped on all XCCs.
 */
TEST(doorbell_reaches_own_queue_only)
{
	struct fixture f;
	struct pair p;

	if (split(&p)) {
		fixture_launch(&f);
		EXPECT(fixture_works(&f));
		sync_peers(&p);
		sync_peers(&p);
		for (int i = 0; i < 20; i++)
			EXPECT(fixture_works(&f));
		sync_peers(&p);
		sync_peers(&p);
		ktap_end();
	}
	fixture_launch(&f);
	sync_peers(&p);
	EXPECT(fixture_works(&f));
	EXPECT(write_unrung(&f));
	sync_peers(&p);
	sync_peers(&p);
	EXPECT_EQ(f.signal.s->value, 1);
	EXPECT_EQ(((uint32_t *)f.data->va)[0], 7);
	kfd_queue_ring(&f.q, f.q.q->write_dispatch_id - 1);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_EQ(((uint32_t *)f.data->va)[0], 8);
	sync_peers(&p);
	join(&p);
}

TEST(foreign_handle_is_unknown)
{
	struct facts facts = { 0 };
	struct fixture f;
	struct pair p;

	if (split(&p)) {
		struct kfd_ioctl_free_memory_of_gpu_args free_args = { 0 };
		struct kfd_ioctl_map_memory_to_gpu_args map_args = { .n_devices = 1 };
		struct kfd k;
		void *m;

		fixture_open(&k);
		receive_facts(&p, &facts);
		free_args.handle = map_args.handle = facts.handle;
		map_args.device_ids_array_ptr = kfd_va(&k.node.gpu_id);
		EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &free_args), -EINVAL);
		EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map_args), -ENOMEM);
		EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &map_args), -ENOMEM);
		m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, k.drm, (off_t)facts.mmap_offset);
		EXPECT(m == MAP_FAILED && errno == EACCES, "%s",
		       m == MAP_FAILED ? strerrorname_np(errno) : "mapped");
		sync_peers(&p);
		ktap_end();
	}
	fixture_launch(&f);
	collect(&f, &facts);
	send_facts(&p, &facts);
	sync_peers(&p);
	EXPECT(fixture_works(&f));
	join(&p);
}

TEST(foreign_event_is_unknown)
{
	struct facts facts = { 0 };
	struct pair p;
	uint32_t id = 0, result;
	struct kfd k;

	if (split(&p)) {
		fixture_open(&k);
		receive_facts(&p, &facts);
		EXPECT_RET(kfd_event_set(&k, facts.event), -EINVAL);
		EXPECT_RET(kfd_event_destroy(&k, facts.event), -EINVAL);
		/* Setting an own event with the same id does not signal it either. */
		do
			ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &id));
		while (id < facts.event);
		ASSERT_EQ(id, facts.event);
		EXPECT_OK(kfd_event_set(&k, id));
		sync_peers(&p);
		ktap_end();
	}
	fixture_open(&k);
	for (int i = 0; i < 10; i++)
		ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &id));
	facts.event = id;
	send_facts(&p, &facts);
	sync_peers(&p);
	EXPECT_OK(kfd_event_wait(&k, &(struct kfd_event_data){ .event_id = id }, 1, true, 100,
				 &result));
	EXPECT_EQ(result, KFD_IOC_WAIT_RESULT_TIMEOUT);
	join(&p);
}

/* Allocates a BO at the address that both processes use. */
static void alloc_common(struct kfd *k, struct kfd_bo *bo, size_t size)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = kfd_va(COMMON_VA),
							   .size = size,
							   .gpu_id = k->node.gpu_id,
							   .flags = KFD_FLAGS_GTT };

	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	*bo = (struct kfd_bo){ .va = COMMON_VA,
			       .size = size,
			       .flags = KFD_FLAGS_GTT,
			       .handle = args.handle,
			       .mmap_offset = args.mmap_offset };
}

/*
 * One address, two processes, two BOs: page table walks are per VMID, through all TLBs and caches.
 */
TEST_TIMEOUT(same_address_in_two_vms, 120)
{
	uint32_t *words = (uint32_t *)COMMON_VA, who;
	struct kfd_bo common;
	struct fixture f;
	struct pair p;

	who = split(&p) ? 0xc0000000 : 0xa0000000;
	fixture_launch(&f);
	alloc_common(&f.k, &common, 65536);
	ASSERT_OK(kfd_bo_map_cpu(&f.k, &common));
	ASSERT_OK(kfd_bo_map_gpu(&f.k, &common));
	for (uint32_t round = 0; round < 30; round++) {
		sync_peers(&p);
		ASSERT_OK(fixture_fill(&f, &f.q, words, 4096, who + round));
		sync_peers(&p);
		for (int i = 0; i < 4096; i++)
			ASSERT_EQ(words[i], who + round);
	}
	sync_peers(&p);
	if (p.child)
		join(&p);
}

/* Two BOs at the same GPU address, of which one is mapped; each begins with a word of its own. */
struct twins {
	struct kfd_bo bo[2];
	uint32_t words[2];
};

static void make_twins(struct kfd *k, struct twins *t, uint32_t who)
{
	for (uint32_t n = 0; n < 2; n++) {
		uint32_t *word;

		alloc_common(k, &t->bo[n], KFD_PAGE);
		word = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, k->drm,
			    (off_t)t->bo[n].mmap_offset);
		ASSERT(word != MAP_FAILED);
		*word = t->words[n] = who + n;
	}
}

/* Unmaps one BO and maps the other; returns its word. */
static uint32_t map_twin(struct kfd *k, struct twins *t, uint32_t n)
{
	if (t->bo[!n].mapped)
		ASSERT_OK(kfd_bo_unmap_gpu(k, &t->bo[!n]));
	ASSERT_OK(kfd_bo_map_gpu(k, &t->bo[n]));
	return t->words[n];
}

/*
 * The workgroups of a dispatch read the same word on each XCC, so that all of their TLBs have its
 * page. Each TLB is flushed when another BO is mapped at the address.
 */
TEST_TIMEOUT(same_address_on_all_xccs, 120)
{
	struct kfd_kernel kernel;
	struct twins twins;
	struct fixture f;
	struct pair p;
	uint32_t who;

	who = split(&p) ? 0xc0000000 : 0xa0000000;
	fixture_launch(&f);
	make_twins(&f.k, &twins, who);
	ASSERT_OK(fixture_kernel(&f, "read_on_xcc", &kernel));
	for (uint32_t round = 0; round < 6; round++) {
		const uint32_t groups = 4 * f.k.node.num_xcc, grid[3] = { groups * 64, 1, 1 };
		const uint64_t arguments[2] = { kfd_va(COMMON_VA), kfd_va(f.data->va) };
		uint32_t wanted = map_twin(&f.k, &twins, round & 1), seen = 0;
		const struct {
			uint32_t word, xcc;
		} *found = f.data->va;
		struct aql_dispatch packet;

		memset(f.data->va, 0, KFD_PAGE);
		memcpy(f.kernarg->va, arguments, sizeof(arguments));
		f.signal.s->value = 1;
		kfd_fill_dispatch(&packet, &kernel, grid, (const uint16_t[3]){ 64, 1, 1 },
				  f.kernarg->va, &f.signal);
		sync_peers(&p);
		kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
		for (uint32_t i = 0; i < groups; i++) {
			EXPECT(found[i].word == wanted, "round %u, XCC %u: %#x", round,
			       found[i].xcc, found[i].word);
			seen |= 1u << found[i].xcc;
		}
		EXPECT_EQ(__builtin_popcount(seen), f.k.node.num_xcc);
	}
	sync_peers(&p);
	if (p.child)
		join(&p);
}

/* The same for the SDMA engines, of which those of an AID share a memory hub. */
TEST_TIMEOUT(same_address_on_all_sdma_engines, 120)
{
	enum { MAX_ENGINES = 64 };
	struct sdma_queue queues[MAX_ENGINES];
	volatile uint32_t *found;
	struct twins twins;
	struct kfd_bo *bo;
	uint32_t who, n;
	struct pair p;
	struct kfd k;

	who = split(&p) ? 0xc0000000 : 0xa0000000;
	fixture_open(&k);
	make_twins(&k, &twins, who);
	n = k.node.num_sdma_engines + k.node.num_sdma_xgmi_engines;
	ASSERT(n <= MAX_ENGINES);
	ASSERT_OK(kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &bo));
	found = bo->va;
	for (uint32_t i = 0; i < n; i++)
		ASSERT_OK(sdma_queue_create(&k, &queues[i], KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, i,
					    4096));
	for (uint32_t round = 0; round < 6; round++) {
		uint32_t wanted = map_twin(&k, &twins, round & 1);

		sync_peers(&p);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t packets[16], *end = packets;

			found[2 * i] = 0;
			sdma_copy(&end, kfd_va((void *)&found[2 * i]), kfd_va(COMMON_VA), 4);
			sdma_fence(&end, kfd_va((void *)&found[2 * i + 1]), round + 1);
			ASSERT_OK(sdma_queue_put(&queues[i], packets, end));
			sdma_queue_ring(&queues[i]);
		}
		for (uint32_t i = 0; i < n; i++) {
			ASSERT(becomes(&found[2 * i + 1], round + 1, WAIT_MS),
			       "round %u, engine %u", round, i);
			EXPECT(found[2 * i] == wanted, "round %u, engine %u: %#x", round, i,
			       found[2 * i]);
		}
	}
	sync_peers(&p);
	if (p.child)
		join(&p);
}

/*
 * Both dispatch until both have dispatched 20 times. If one waited for the end of the other,
 * neither would end.
 */
TEST_TIMEOUT(concurrent_dispatches, 120)
{
	volatile int *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				    -1, 0);
	struct fixture f;
	struct pair p;
	double end;
	int me;

	ASSERT(rounds != MAP_FAILED);
	me = split(&p);
	fixture_launch(&f);
	sync_peers(&p);
	end = seconds_now() + 60;
	while (rounds[0] < 20 || rounds[1] < 20) {
		ASSERT(seconds_now() < end, "%d and %d rounds", rounds[0], rounds[1]);
		ASSERT(fixture_works(&f), "round %d", rounds[me]);
		rounds[me]++;
	}
	if (p.child)
		join(&p);
}
