// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests two processes at once: doorbells, memory and events are isolated. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

/* The same address in both, far from everything that the system maps. */
#define INSTANCE "/sys/kernel/tracing/instances/isolation"
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

/* Doorbell address of this process, from the driver's trace; 0 if not traced. */
static uint64_t traced_slice(void)
{
	char line[512], pid[32], *at;
	unsigned long long address = 0;
	FILE *trace = fopen(INSTANCE "/trace", "re");

	if (!trace)
		return 0;
	snprintf(pid, sizeof(pid), "pid=%d ", getpid());
	while (fgets(line, sizeof(line), trace))
		if (strstr(line, "rkfd_doorbell_map:") && strstr(line, pid) &&
		    (at = strstr(line, "phys=")))
			sscanf(at, "phys=%llx", &address);
	fclose(trace);
	return address;
}

static void trace_doorbells(void)
{
	FILE *f;

	mkdir(INSTANCE, 0700);
	f = fopen(INSTANCE "/events/rkfd/rkfd_doorbell_map/enable", "we");
	if (f) {
		fputs("1", f);
		fclose(f);
	}
}

static void collect(struct fixture *f, struct facts *facts)
{
	facts->doorbell_offset = f->q.doorbell_offset;
	facts->slice = traced_slice();
	facts->handle = f->data->handle;
	facts->mmap_offset = f->data->mmap_offset;
	facts->event = f->signal.event_id;
}

TEST(doorbell_pages_differ)
{
	struct facts mine = { 0 }, theirs;
	struct fixture f;
	struct pair p;

	trace_doorbells();
	split(&p);
	fixture_launch(&f);
	collect(&f, &mine);
	send_facts(&p, &mine);
	receive_facts(&p, &theirs);
	/* The same mmap offset selects a different doorbell page in each process. */
	EXPECT_EQ(mine.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1),
		  theirs.doorbell_offset & ~(KFD_DOORBELL_SLICE - 1));
	EXPECT(fixture_works(&f));
	sync_peers(&p);
	if (!p.child)
		ktap_end();
	join(&p);
	rmdir(INSTANCE);
	if (!mine.slice)
		SKIP("no trace event with the doorbell address");
	EXPECT(mine.slice + KFD_DOORBELL_SLICE <= theirs.slice ||
		       theirs.slice + KFD_DOORBELL_SLICE <= mine.slice,
	       "%#llx and %#llx", (unsigned long long)mine.slice, (unsigned long long)theirs.slice);
}

/*
 * A packet whose doorbell was not rung is not executed when the other process rings its own. No
 * queue may be mapped meanwhile, which makes the CP read its write pointer, doorbell or not:
 * CREATE_QUEUE does not wait for the runlist, a dispatch on the new queue does.
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
	EXPECT(fixture_works(&f));
	sync_peers(&p);
	((uint32_t *)f.data->va)[0] = 7;
	{
		volatile uint64_t *real = f.q.doorbell, elsewhere = 0;

		f.q.doorbell = &elsewhere;
		fixture_fill_start(&f, &f.q, &f.signal, 0, f.data->va, 64, 8);
		f.q.doorbell = real;
	}
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

/*
 * One address, two processes, two BOs: page table walks are per VMID, through all TLBs and caches.
 */
TEST_TIMEOUT(same_address_in_two_vms, 120)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = kfd_va(COMMON_VA),
							   .size = 65536,
							   .flags = KFD_FLAGS_GTT };
	struct kfd_bo common = { .va = COMMON_VA, .size = 65536, .flags = KFD_FLAGS_GTT };
	uint32_t *words = (uint32_t *)COMMON_VA, who;
	struct fixture f;
	struct pair p;

	who = split(&p) ? 0xc0000000 : 0xa0000000;
	fixture_launch(&f);
	args.gpu_id = f.k.node.gpu_id;
	ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	common.handle = args.handle;
	common.mmap_offset = args.mmap_offset;
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

/*
 * Both dispatch continuously; neither waits for the other: when the first is done, the other one
 * has a fifth of its rounds behind it.
 */
TEST_TIMEOUT(concurrent_dispatches, 120)
{
	volatile int *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				    -1, 0);
	struct fixture f;
	struct pair p;
	int theirs, me;

	ASSERT(rounds != MAP_FAILED);
	me = split(&p);
	fixture_launch(&f);
	sync_peers(&p);
	for (int i = 0; i < 100; i++) {
		ASSERT(fixture_works(&f), "round %d", i);
		rounds[me] = i + 1;
	}
	theirs = rounds[!me];
	EXPECT(theirs >= 20, "%d rounds of the other process", theirs);
	if (p.child)
		join(&p);
}
