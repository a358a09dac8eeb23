// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests shared virtual memory under load: GPU and CPU on the same pages, faults on scattered pages
 * ($SVM_FAULTS of them), and memory that other threads change in every way. The queues' evictions
 * are counted.
 */
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "svm.h"
#include "watch.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define KSM "/sys/kernel/mm/ksm/"

/* A queue that writes to words of its own in each page. */
struct writer {
	struct fixture *f;
	struct kfd_queue q;
	struct kfd_signal signal;
	uint32_t *words;
	unsigned int slot, pages, failures;
	int ret;
};

static void *write_pages(void *data)
{
	struct writer *w = data;

	for (unsigned int page = 0; page < w->pages && !w->ret; page++) {
		fixture_fill_start(w->f, &w->q, &w->signal, w->slot, w->words + page * 1024, 64,
				   page * 3 + w->slot);
		w->ret = kfd_signal_wait(&w->f->k, &w->signal, WAIT_MS);
	}
	return NULL;
}

/* Pages that two queues and the CPU use at the same time move between them: no word is lost. */
TEST_TIMEOUT(queues_and_cpu_share_pages, 240)
{
	const unsigned int pages = 128;
	struct writer w[2] = { { 0 }, { 0 } };
	pthread_t threads[2];
	struct fixture f;
	uint32_t *words;

	svm_launch_mode(&f, true);
	words = (uint32_t *)anonymous(pages * KFD_PAGE);
	for (unsigned int i = 0; i < 2; i++) {
		w[i] = (struct writer){
			.f = &f, .words = words + i * 64, .slot = i + 1, .pages = pages
		};
		ASSERT_OK(kfd_queue_create(&f.k, &w[i].q, 64));
		ASSERT_OK(kfd_signal_create(&f.k, 1, &w[i].signal));
	}
	for (unsigned int i = 0; i < 2; i++)
		ASSERT(pthread_create(&threads[i], NULL, write_pages, &w[i]) == 0);
	for (uint32_t round = 1; round <= 20; round++)
		for (unsigned int page = 0; page < pages; page++)
			words[page * 1024 + 512] += round;
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT(pthread_join(threads[i], NULL) == 0);
		EXPECT_OK(w[i].ret);
	}
	for (unsigned int page = 0; page < pages; page++) {
		ASSERT_EQ(words[page * 1024 + 512], 20 * 21 / 2);
		for (unsigned int i = 0; i < 64; i++) {
			ASSERT_EQ(words[page * 1024 + i], page * 3 + 1);
			ASSERT_EQ(words[page * 1024 + 64 + i], page * 3 + 2);
		}
	}
}

/* Dispatches a kernel that writes i + 1 to word at[i] of some memory. */
static void scatter(struct fixture *f, uint32_t *words, const uint32_t *at, uint32_t count)
{
	const uint32_t grid[3] = { count, 1, 1 };
	const uint16_t group[3] = { 256, 1, 1 };
	uint64_t *args = f->kernarg->va;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;

	ASSERT_OK(fixture_kernel(f, "scatter", &kernel));
	args[0] = kfd_va(words);
	args[1] = kfd_va(at);
	f->signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, args, &f->signal);
	kfd_queue_ring(&f->q, kfd_queue_write(&f->q, &packet));
}

/*
 * Memory is unmapped as soon as the GPU has used it. All of its pages have faulted and were mapped
 * together; the driver may handle most of the faults only after that, and must not report them.
 */
TEST_TIMEOUT(unmapped_after_use, 240)
{
	const uint32_t pages = 256;
	struct kfd_event_data event = { 0 };
	uint32_t *words, *at;
	struct fixture f;
	double end;

	svm_launch_mode(&f, true);
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_MEMORY, true, &event.event_id));
	at = f.data->va;
	for (uint32_t i = 0; i < pages; i++)
		at[i] = i * 1024;
	for (uint32_t round = 1; round <= 60; round++) {
		words = (uint32_t *)anonymous(pages * KFD_PAGE);
		ASSERT_OK(svm_set(&f.k, words, pages * KFD_PAGE,
				  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
		scatter(&f, words, at, pages);
		/* Without the interrupt, which would be handled after the faults. */
		end = seconds_now() + WAIT_MS / 1000;
		while (f.signal.s->value > 0 && seconds_now() < end)
			;
		ASSERT(munmap(words, pages * KFD_PAGE) == 0);
		ASSERT_EQ(f.signal.s->value, 0);
	}
	EXPECT_EQ(event_result(&f.k, event.event_id, 200), KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT(fixture_works(&f));
}

/* Each lane of a wave writes to a page of its own, in random order; each page faults separately. */
TEST_TIMEOUT(faults_on_scattered_pages, 5400)
{
	const char *wanted = getenv("SVM_FAULTS");
	const uint32_t pages = 8192, faults = wanted ? (uint32_t)atoi(wanted) : pages;
	unsigned int seed = 1;
	struct fixture f;
	uint32_t *words, *order;
	double start;

	svm_launch_mode(&f, true);
	words = (uint32_t *)anonymous(pages * KFD_PAGE);
	order = f.data->va;
	ASSERT_OK(svm_set(&f.k, words, pages * KFD_PAGE, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 0 },
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 }));
	start = seconds_now();
	for (uint32_t done = 0; done < faults; done += pages) {
		for (uint32_t i = 0; i < pages; i++)
			order[i] = i * 1024 + (uint32_t)rand_r(&seed) % 1024;
		for (uint32_t i = pages - 1; i > 0; i--) {
			uint32_t other = (uint32_t)rand_r(&seed) % (i + 1), at = order[i];

			order[i] = order[other];
			order[other] = at;
		}
		ASSERT(madvise(words, pages * KFD_PAGE, MADV_DONTNEED) == 0);
		scatter(&f, words, order, pages);
		ASSERT_OK(kfd_signal_wait(&f.k, &f.signal, 600000));
		for (uint32_t i = 0; i < pages; i++)
			ASSERT(words[order[i]] == i + 1, "page %u: %u, not %u", order[i] / 1024,
			       words[order[i]], i + 1);
	}
	ktap_note("%u faults in %.1f s", (faults + pages - 1) / pages * pages,
		  seconds_now() - start);
}

static int numa_nodes(void)
{
	return access("/sys/devices/system/node/node1", F_OK) ? 1 : 2;
}

/* Returns how often NUMA balancing has scanned the memory of the process. */
static long numa_scans(void)
{
	FILE *f = fopen("/proc/self/sched", "r");
	char line[256];
	long scans = -1;

	ASSERT(f != NULL);
	while (scans < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "mm->numa_scan_seq : %ld", &scans) != 1)
			scans = -1;
	fclose(f);
	return scans;
}

/* Memory in VRAM stays there while NUMA balancing scans it. */
TEST_TIMEOUT(scanned_in_vram, 240)
{
	const size_t size = 2 * MIB;
	struct fixture f;
	uint32_t *words;
	long before;
	double end;

	if (numa_nodes() < 2)
		SKIP("one NUMA node");
	svm_launch(&f);
	if (numa_scans() < 0)
		SKIP("no NUMA balancing");
	words = anonymous_huge();
	memset(words, 0x11, size);
	ASSERT_OK(svm_to_vram(&f.k, words, size));
	before = numa_scans();
	/* Processes that run are scanned, after a second. */
	end = seconds_now() + 100;
	while (numa_scans() < before + 2 && seconds_now() < end)
		;
	ktap_note("%ld scans", numa_scans() - before);
	ASSERT(numa_scans() >= before + 2);
	ASSERT_OK(fixture_fill(&f, &f.q, words + 2048, 1024, 0xe4));
	EXPECT_EQ(process_number(&f.k, "counters", "page_out"), 0);
	EXPECT_EQ(words[2048], 0xe4);
	EXPECT_EQ(words[0], 0x11111111);
}

enum change { DROP, PROTECT, REPLACE, MOVE, MERGE, COLLAPSE, CHANGES };
static const char *const change_names[] = { "madvise(MADV_DONTNEED)",
					    "mprotect()",
					    "munmap() and mmap()",
					    "migration to another NUMA node",
					    "KSM",
					    "collapse to a huge page" };

struct changes {
	enum change what;
	char *start;
	size_t pages;
	bool stop;
	unsigned int count, failures;
	/* Changes that have had their effect, where the call does not guarantee it. */
	unsigned int effects;
};

static unsigned int merged_pages(void)
{
	uint64_t pages = 0;

	EXPECT_OK(kfd_sysfs_value(KSM "pages_shared", NULL, &pages));
	return (unsigned int)pages;
}

static bool change(struct changes *c, unsigned int *seed)
{
	char *p = c->start + (size_t)rand_r(seed) % (c->pages - 4) * KFD_PAGE;
	const int rw = PROT_READ | PROT_WRITE;
	void *list[4];
	int nodes[4], status[4];

	switch (c->what) {
	case DROP:
		return !madvise(p, 4 * KFD_PAGE, MADV_DONTNEED);
	case PROTECT:
		return !mprotect(p, 4 * KFD_PAGE, rw | (*seed & 1 ? PROT_EXEC : 0));
	case REPLACE:
		return mmap(p, 4 * KFD_PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p;
	case MOVE:
		for (int i = 0; i < 4; i++) {
			list[i] = p + (size_t)i * KFD_PAGE;
			nodes[i] = (int)(c->count % (unsigned int)numa_nodes());
		}
		/* Pages that are not present, or busy, have a status each. */
		if (syscall(SYS_move_pages, 0, 4ul, list, nodes, status, MPOL_MF_MOVE) < 0)
			return false;
		for (int i = 0; i < 4; i++)
			c->effects += status[i] == nodes[i];
		return true;
	case MERGE:
		/* ksmd merges pages of equal contents; a write of the CPU separates them. */
		*(volatile char *)p = *(volatile char *)p;
		if (!c->effects)
			c->effects = merged_pages();
		return true;
	case COLLAPSE:
		if (c->count % 2)
			return !madvise(p, KFD_PAGE, MADV_DONTNEED);
		/* Not always possible. */
		c->effects += !madvise(c->start, 2 * MIB, MADV_COLLAPSE);
		return true;
	case CHANGES:
		break;
	}
	return false;
}

static void *change_pages(void *data)
{
	struct changes *c = data;
	unsigned int seed = (unsigned int)c->what + 1;

	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		c->failures += !change(c, &seed);
		c->count++;
		usleep(100);
	}
	return NULL;
}

/* As fixture_fill(), while the memory changes all the time: it may take minutes. */
static int fill(struct fixture *f, uint32_t *words, uint32_t value)
{
	fixture_fill_start(f, &f->q, &f->signal, 0, words, 2 * MIB / 4, value);
	return kfd_signal_wait(&f->k, &f->signal, 600000);
}

/* Queues that an invalidation has evicted are restored later. */
static void restores_end(void)
{
	usleep(300000 * ktap_time_factor());
}

/*
 * Expects as many restores or frames as batches. One batch may be in progress when the recording
 * begins or ends: the kernel invalidates memory at other times, too.
 */
static void expect_one_each(const char *what, unsigned int count, unsigned int batches)
{
	EXPECT(count <= batches + 1 && batches <= count + 1, "%u %s of %u batches", count, what,
	       batches);
}

/* Records the packets or frames that evictions and restores of queues submit to the scheduler. */
static void watch_evictions(bool mes)
{
	if (!mes) {
		watch_start_only("rkfd_runlist", "rkfd_process", NULL);
		return;
	}
	watch_start_only("rkfd_mes_submit", "rkfd_process", NULL);
	/* Without the frames that invalidate TLBs, which would not fit. */
	watch_filter("rkfd_mes_submit", "op == \"ADD_QUEUE\" || op == \"REMOVE_QUEUE\"");
}

/*
 * The GPU writes while another thread changes the memory. With retry faults no queue is evicted and
 * no runlist submitted; without, one for the eviction of a batch and one for its restore, or, with
 * MES, a frame each for the only queue.
 */
static void storm(enum change what, bool retry)
{
	struct changes c = { .what = what, .start = anonymous_huge(), .pages = 512 };
	unsigned int launches = 0, batches, restores, runlists, removed, added;
	pthread_t thread;
	struct fixture f;
	uint32_t *words = (uint32_t *)c.start;
	char *text;
	double end;

	svm_launch_mode(&f, retry);
	memset(c.start, 0, 2 * MIB);
	ASSERT_OK(svm_set(&f.k, c.start, 2 * MIB, { KFD_IOCTL_SVM_ATTR_ACCESS, f.k.node.gpu_id },
			  { KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0 },
			  { KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 }));
	if (what == MERGE) {
		ASSERT(madvise(c.start, 2 * MIB, MADV_MERGEABLE) == 0);
		ASSERT_OK(write_file(KSM "sleep_millisecs", "1"));
		ASSERT_OK(write_file(KSM "pages_to_scan", "1000"));
		ASSERT_OK(write_file(KSM "run", "1"));
	}
	ASSERT_OK(fixture_fill(&f, &f.q, words, 64, 1));
	restores_end();
	watch_evictions(is_gfx12(&f.k.node));
	ASSERT(pthread_create(&thread, NULL, change_pages, &c) == 0);
	end = seconds_now() + 3;
	do {
		launches++;
		ASSERT_OK(fill(&f, words, what == MERGE ? 7 : launches));
	} while (seconds_now() < end);
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	ASSERT(pthread_join(thread, NULL) == 0);
	restores_end();
	text = watch_stop();
	batches = watch_count(text, "what=SVM invalidated");
	restores = watch_count(text, "what=SVM restored");
	runlists = watch_count(text, "rkfd_runlist: ");
	removed = watch_count(text, "op=REMOVE_QUEUE ");
	added = watch_count(text, "op=ADD_QUEUE ");
	ktap_note("%s, retry faults %s: %u launches, %u changes, %u effects, %u batches, %u runlists, %u queues removed, %u added",
		  change_names[what], retry ? "on" : "off", launches, c.count, c.effects, batches,
		  runlists, removed, added);
	EXPECT(c.count > 0);
	EXPECT(what < MOVE || c.effects > 0, "no change had its effect");
	EXPECT_EQ(c.failures, 0);
	if (retry) {
		EXPECT_EQ(batches, 0);
		EXPECT_EQ(runlists, 0);
	} else {
		expect_one_each("restores", restores, batches);
		if (is_gfx12(&f.k.node)) {
			expect_one_each("queues removed", removed, batches);
			expect_one_each("queues added", added, batches);
		}
		EXPECT(runlists <= 2 * batches, "%u runlists of %u batches", runlists, batches);
		EXPECT(batches > 0);
	}
	free(text);
	if (what == MERGE)
		ASSERT_OK(write_file(KSM "run", "2"));
	ASSERT_OK(fill(&f, words, 0x600d));
	for (size_t i = 0; i < 2 * MIB / 4; i++)
		ASSERT(words[i] == 0x600d, "word %zu: %#x", i, words[i]);
}

static void storm_case(void *data)
{
	unsigned int n = *(unsigned int *)data;

	storm((enum change)(n / 2), n % 2);
	ktap_end();
}

static void storms(bool retry)
{
	struct fixture f;

	fixture_load(&f);
	svm_mode_needed(&f.k, retry);
	watch_need_events();
	for (unsigned int what = 0; what < CHANGES; what++) {
		unsigned int n = what * 2 + retry;

		/* Memory that is unmapped loses its attributes: without retry faults it faults. */
		if (what == REPLACE && !retry)
			continue;
		if (what == MOVE && numa_nodes() < 2) {
			ktap_note("one NUMA node: pages do not move to another one");
			continue;
		}
		EXPECT(ktap_in_child(storm_case, &n) == 0, "%s", change_names[what]);
	}
}

TEST_TIMEOUT(changes_with_retry_faults, 1200)
{
	storms(true);
}

TEST_TIMEOUT(changes_without_retry_faults, 1200)
{
	storms(false);
}
