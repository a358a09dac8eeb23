// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests the use of VRAM by user in debugfs: sums, growth, and that SIGKILL frees all of it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "hanglib.h"
#include "killpoint.h"
#include "listen.h"
#include "svm.h"
#include "watch.h"

#define LEDGER "/sys/kernel/debug/kfd/vram"
#define MIB (1ul << 20)

/* Users of VRAM, in the order of the file, then other figures. */
enum {
	RESERVED, DRIVER, MQDS, PAGE_TABLES, KFD_BOS, RENDER_BOS, SVM, RETIRED,
	FIRMWARE, USERS, USED = USERS, UNCLEARED, SIZE, FIGURES
};

static const char *const names[FIGURES] = { "reserved", "driver",     "mqds",    "page_tables",
					    "kfd_bos",  "render_bos", "svm",     "retired",
					    "firmware", "used",       "uncleared", "size" };

struct ledger {
	uint64_t bytes[FIGURES];
};

static bool has_ledger(void)
{
	return access(LEDGER, R_OK) == 0;
}

/* Reads the section of a GPU; without the file only the VRAM in use by AMDGPU_INFO_VRAM_USAGE. */
static struct ledger ledger(struct kfd *k)
{
	char heading[64], *text, *at, *rest;
	struct ledger l = { 0 };

	if (!has_ledger()) {
		l.bytes[USED] = amdgpu_info(k, AMDGPU_INFO_VRAM_USAGE);
		return l;
	}
	text = watch_read(LEDGER);
	snprintf(heading, sizeof(heading), "gpu_id %x:\n", k->node.gpu_id);
	at = strstr(text, heading);
	ASSERT(at, "no '%s' in '%s'", heading, text);
	strtok_r(at, "\n", &rest);
	for (int i = 0; i < FIGURES; i++) {
		char *line = strtok_r(NULL, "\n", &rest), name[32] = "";
		unsigned long long bytes = 0;

		ASSERT(line && sscanf(line, " %31s %llu", name, &bytes) == 2 && !strcmp(name, names[i]),
		       "'%s' is not %s", line ? line : "", names[i]);
		l.bytes[i] = bytes;
	}
	free(text);
	return l;
}

/* Waits until nothing is left to be cleared and nothing changes. */
static struct ledger settled(struct kfd *k)
{
	struct ledger l = ledger(k), last;

	for (int i = 0; i < 100; i++) {
		last = l;
		usleep(100000);
		l = ledger(k);
		if (!l.bytes[UNCLEARED] && !memcmp(&l, &last, sizeof(l)))
			break;
	}
	return l;
}

/* The users have all VRAM that the render node reports as used. */
static void expect_sum(struct kfd *k, const struct ledger *l)
{
	uint64_t sum = 0;

	for (int i = 0; i < USERS; i++)
		sum += l->bytes[i];
	EXPECT_EQ(sum, l->bytes[USED]);
	EXPECT_EQ(sum, amdgpu_info(k, AMDGPU_INFO_VRAM_USAGE));
	EXPECT_EQ(l->bytes[SIZE], all_vram_bytes(k));
}

/* A user has `bytes` more than before. */
static void expect_growth(struct kfd *k, struct ledger *before, int user, uint64_t bytes)
{
	struct ledger now = settled(k);

	EXPECT(now.bytes[user] == before->bytes[user] + bytes, "%s: %llu bytes, %llu before",
	       names[user], (unsigned long long)now.bytes[user],
	       (unsigned long long)before->bytes[user]);
	expect_sum(k, &now);
	*before = now;
}

/* Expects that `event` has not changed the bytes of any user. */
static void expect_same(const struct ledger *now, const struct ledger *before, const char *event)
{
	for (int i = 0; i <= USED; i++)
		EXPECT(now->bytes[i] == before->bytes[i], "%s: %s: %llu bytes, %llu before", event,
		       names[i], (unsigned long long)now->bytes[i],
		       (unsigned long long)before->bytes[i]);
}

static void create_render_bo(struct kfd *k, uint64_t size)
{
	union drm_amdgpu_gem_create args = { .in = { .bo_size = size,
						     .domains = AMDGPU_GEM_DOMAIN_VRAM } };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
}

/* Returns memory that the process shares with the GPU, in VRAM. */
static void *shared_in_vram(struct kfd *k, size_t size)
{
	char *start = mmap(NULL, size + 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	ASSERT(start != MAP_FAILED);
	start = (char *)(((uintptr_t)start + 2 * MIB - 1) & ~(2 * MIB - 1));
	memset(start, 1, size);
	ASSERT_OK(svm_to_vram(k, start, size));
	return start;
}

/* $BAD_PAGES is the number of pages that the EEPROM of the board lists as bad. */
TEST(bad_pages_are_retired)
{
	const char *pages = getenv("BAD_PAGES");
	struct kfd k;

	need_debugfs("vram");
	fixture_open(&k);
	EXPECT_EQ(ledger(&k).bytes[RETIRED], (pages ? strtoul(pages, NULL, 0) : 0) * 4096);
}

/* $FIRMWARE_MEMORY is the number of MiB that firmware uses besides the end of VRAM. */
TEST(firmware_memory_is_reserved)
{
	const char *mib = getenv("FIRMWARE_MEMORY");
	struct kfd k;

	need_debugfs("vram");
	fixture_open(&k);
	EXPECT_EQ(ledger(&k).bytes[FIRMWARE], (mib ? strtoul(mib, NULL, 0) : 0) * MIB);
}

TEST(each_user_has_its_line)
{
	/* Far from all other memory. */
	struct kfd_bo *bo, far = { .va = (void *)0x10000000000, .size = 4096 };
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = kfd_va(far.va), .size = far.size, .flags = KFD_FLAGS_GTT,
	};
	struct ledger before, after;
	struct fixture f;

	need_debugfs("vram");
	fixture_load(&f);
	args.gpu_id = f.k.node.gpu_id;
	before = settled(&f.k);
	expect_sum(&f.k, &before);
	EXPECT(before.bytes[RESERVED] > 0 && before.bytes[DRIVER] > 0 && before.bytes[PAGE_TABLES] > 0);
	ASSERT_OK(kfd_bo_alloc(&f.k, 3 * MIB, KFD_FLAGS_VRAM, &bo));
	expect_growth(&f.k, &before, KFD_BOS, 3 * MIB);
	ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	far.handle = args.handle;
	ASSERT_OK(kfd_bo_map_gpu(&f.k, &far));
	after = settled(&f.k);
	EXPECT(after.bytes[PAGE_TABLES] > before.bytes[PAGE_TABLES]);
	expect_sum(&f.k, &after);
	before = after;
	create_render_bo(&f.k, 5 * MIB);
	expect_growth(&f.k, &before, RENDER_BOS, 5 * MIB);
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	after = settled(&f.k);
	/* MQDs of gfx942 contain the control stack, and are in VRAM. */
	EXPECT_EQ(after.bytes[MQDS] > before.bytes[MQDS], !is_gfx12(&f.k.node));
	expect_sum(&f.k, &after);
	before = after;
	if (f.k.node.capability & SVM_CAPABLE) {
		shared_in_vram(&f.k, 4 * MIB);
		expect_growth(&f.k, &before, SVM, 4 * MIB);
	}
}

/* Takes VRAM of every kind, and waits for its end with a running kernel. */
static void take_all(int ready)
{
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 24 * MIB, KFD_FLAGS_VRAM, &bo));
	create_render_bo(&f.k, 8 * MIB);
	if (f.k.node.capability & SVM_CAPABLE)
		shared_in_vram(&f.k, 8 * MIB);
	fixture_endless(&f, 4);
	ASSERT(write(ready, "", 1) == 1);
	for (;;)
		pause();
}

/*
 * Kills a process with VRAM of every kind, during a reset if `hang` is set; all of the VRAM is back
 * within `seconds` of the signal, but not before `least`.
 */
static void kill_and_expect(bool hang, double least, double seconds)
{
	struct ledger before, during, after;
	double start, took = 0;
	int ready[2], resets = -1;
	pid_t child, hanging = -1;
	struct kfd k;
	char byte;

	fixture_open(&k);
	if (hang)
		resets = listen_for_resets();
	before = settled(&k);
	ASSERT(pipe(ready) == 0);
	child = fork_child();
	if (!child)
		take_all(ready[1]);
	ASSERT(read(ready[0], &byte, 1) == 1);
	during = settled(&k);
	EXPECT(during.bytes[USED] >= before.bytes[USED] + 32 * MIB);
	if (has_ledger())
		expect_sum(&k, &during);
	if (hang) {
		hanging = begin_reset(&k);
		expect_no_reset_yet(resets);
	}
	start = seconds_now();
	ASSERT(kill(child, SIGKILL) == 0);
	do {
		after = ledger(&k);
		took = seconds_now() - start;
		usleep(20000);
	} while (took < 2 * seconds * ktap_time_factor() &&
		 (after.bytes[USED] != before.bytes[USED] || after.bytes[UNCLEARED]));
	expect_same(&after, &before, "SIGKILL");
	EXPECT_EQ(after.bytes[UNCLEARED], 0);
	ktap_note("all VRAM is free %.1f s after SIGKILL", took);
	EXPECT(took > least && took < seconds * ktap_time_factor(), "after %.1f s", took);
	ASSERT(waitpid(child, NULL, 0) == child);
	if (hang) {
		ASSERT(waitpid(hanging, NULL, 0) == hanging);
		expect_reset(resets);
	}
}

TEST_TIMEOUT(killed_process_leaves_nothing, 120)
{
	kill_and_expect(false, 0, 5);
}

/*
 * The scheduler fails to preempt the queue, which is reset after the timeout of the firmware, 4 s:
 * it writes to the VRAM until then.
 */
TEST_TIMEOUT(killed_with_a_stuck_queue, 120)
{
	kill_and_expect(false, 0.4 * unmap_timeout(), 15);
}

/* The card is reset while the process ends. */
TEST_TIMEOUT(killed_during_a_reset, 120)
{
	hangs_needed();
	kill_and_expect(true, 0, 15);
}

/* Uses VRAM of every kind and a queue, and ends, after a byte from `go`. */
static void live(int go)
{
	struct kfd_bo *bo;
	struct fixture f;
	char byte;

	if (read(go, &byte, 1) != 1)
		_exit(1);
	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, 8 * MIB, KFD_FLAGS_VRAM, &bo));
	create_render_bo(&f.k, 4 * MIB);
	if (f.k.node.capability & SVM_CAPABLE)
		shared_in_vram(&f.k, 4 * MIB);
	ASSERT(fixture_works(&f));
	ASSERT_OK(kfd_bo_free(&f.k, bo));
	ASSERT_OK(kfd_queue_destroy(&f.q));
	_exit(0);
}

/*
 * Kills a process at the n-th occurrence of a trace event. Returns false if it ends before. All of
 * its VRAM is back afterwards.
 */
static bool kill_at(struct kfd *k, const struct ledger *before, const char *event, unsigned int n)
{
	struct killpoint point;
	struct ledger after;
	int go[2], status;
	double start;
	char at[80];
	pid_t child;

	ASSERT(pipe(go) == 0);
	child = fork_child();
	if (!child)
		live(go[0]);
	killpoint_set(&point, child, event, n);
	ASSERT(write(go[1], "", 1) == 1);
	ASSERT(waitpid(child, &status, 0) == child);
	killpoint_remove(&point);
	close(go[0]);
	close(go[1]);
	start = seconds_now();
	do
		after = settled(k);
	while (after.bytes[USED] != before->bytes[USED] &&
	       seconds_now() - start < 5 * ktap_time_factor());
	snprintf(at, sizeof(at), "%s, number %u", event, n);
	expect_same(&after, before, at);
	if (WIFEXITED(status)) {
		EXPECT_EQ(WEXITSTATUS(status), 0);
		return false;
	}
	EXPECT(WTERMSIG(status) == SIGKILL, "%s: signal %d", at, WTERMSIG(status));
	return true;
}

/* In the middle of system calls: at each occurrence of each trace event. */
TEST_TIMEOUT(killed_at_trace_events, 900)
{
	unsigned int events = 0, kills = 0;
	struct ledger before;
	struct dirent *entry;
	struct kfd k;
	DIR *dir;

	watch_need_events();
	fixture_open(&k);
	/* The first process of the driver causes lasting allocations, which are not leaks. */
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
	before = settled(&k);
	dir = opendir(WATCH_EVENTS);
	ASSERT(dir);
	while ((entry = readdir(dir))) {
		unsigned int n = 1, some = kills;

		if (strncmp(entry->d_name, "rkfd_", 5))
			continue;
		for (; kill_at(&k, &before, entry->d_name, n); n++)
			kills++;
		events += kills > some;
	}
	closedir(dir);
	ktap_note("%u kills at %u events", kills, events);
	EXPECT(events >= 8, "%u", events);
	ASSERT_OK(ktap_in_child(fixture_lives, NULL));
}
