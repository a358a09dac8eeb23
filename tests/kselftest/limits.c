// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests memory limits and the accounting of allocations. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "svm.h"

#define BLOCK (2ul << 20)
#define GTT (KFD_FLAGS_GTT)
#define USERPTR                                                               \
	(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)

static int alloc(struct kfd *k, uint64_t size, uint32_t flags, void *user, uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = 0x10000000000, .size = size, .gpu_id = k->node.gpu_id, .flags = flags,
		.mmap_offset = kfd_va(user),
	};
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);

	*handle = args.handle;
	return ret;
}

static int release(struct kfd *k, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = { .handle = handle };

	return kfd_ioctl(k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
}

static uint64_t available(struct kfd *k)
{
	uint64_t bytes = 0;

	EXPECT_OK(kfd_available(k, &bytes));
	return bytes;
}

/* System memory in MiB from debugfs: all and GTT, each used and limit. */
struct limits {
	unsigned long used, limit, gtt_used, gtt_limit;
};

static struct limits system_limits(void)
{
	struct limits l = { 0 };
	FILE *f;

	need_debugfs("mem_limit");
	f = fopen("/sys/kernel/debug/kfd/mem_limit", "r");
	ASSERT(f != NULL);
	ASSERT_EQ(fscanf(f, "System mem used %luM out of %luM\nTTM mem used %luM out of %luM\n",
			 &l.used, &l.limit, &l.gtt_used, &l.gtt_limit),
		  4);
	fclose(f);
	return l;
}

TEST(vram_accounting_granularity)
{
	uint64_t before, handles[3], sizes[3] = { 4096, BLOCK, BLOCK + 4096 },
				     blocks[3] = { 1, 1, 2 };
	struct kfd k;

	fixture_open(&k);
	before = available(&k);
	EXPECT_EQ(before % BLOCK, 0);
	for (int i = 0; i < 3; i++) {
		uint64_t now = available(&k);

		ASSERT_OK(alloc(&k, sizes[i], KFD_FLAGS_VRAM, NULL, &handles[i]));
		EXPECT_EQ(available(&k), now - blocks[i] * BLOCK);
	}
	/* System memory does not count as VRAM. */
	uint64_t now = available(&k), gtt;

	ASSERT_OK(alloc(&k, 64 << 20, GTT, NULL, &gtt));
	EXPECT_EQ(available(&k), now);
	EXPECT_OK(release(&k, gtt));
	for (int i = 0; i < 3; i++)
		EXPECT_OK(release(&k, handles[i]));
	EXPECT_EQ(available(&k), before);
}

TEST(map_does_not_change_available)
{
	struct kfd_bo *bo;
	uint64_t before;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_alloc(&k, 64 << 20, KFD_FLAGS_GTT, &bo));
	before = available(&k);
	/* 32 page tables of the last level. */
	ASSERT_OK(kfd_bo_map_gpu(&k, bo));
	EXPECT_EQ(available(&k), before);
	ASSERT_OK(kfd_bo_unmap_gpu(&k, bo));
	EXPECT_EQ(available(&k), before);
}

TEST_TIMEOUT(all_available_vram_can_be_allocated, 120)
{
	uint64_t all, handle, rest[8], more = 0;
	struct kfd k;

	fixture_open(&k);
	all = available(&k);
	ASSERT_OK(alloc(&k, all, KFD_FLAGS_VRAM, NULL, &handle));
	EXPECT_EQ(available(&k), 0);
	/* The limit counts bytes: BOs smaller than a block leave some available. */
	while (more < 8 && !alloc(&k, BLOCK, KFD_FLAGS_VRAM, NULL, &rest[more]))
		more++;
	EXPECT(more < 8, "no limit reached");
	while (more)
		EXPECT_OK(release(&k, rest[--more]));
	EXPECT_OK(release(&k, handle));
	EXPECT_EQ(available(&k), all);
	EXPECT_RET(alloc(&k, all + 8 * BLOCK, KFD_FLAGS_VRAM, NULL, &handle), -ENOMEM);
	EXPECT_RET(alloc(&k, 1ull << 62, KFD_FLAGS_VRAM, NULL, &handle), -ENOMEM);
	/* So large that its page count overflows. */
	EXPECT_RET(alloc(&k, ~0ull, KFD_FLAGS_VRAM, NULL, &handle), -EINVAL);
	EXPECT_EQ(available(&k), all);
}

static void take_and_die(void *data)
{
	uint64_t handle;
	struct kfd k;

	(void)data;
	fixture_open(&k);
	ASSERT_OK(alloc(&k, 32 * BLOCK, KFD_FLAGS_VRAM, NULL, &handle));
	ASSERT_OK(alloc(&k, 32 * BLOCK, GTT, NULL, &handle));
}

/* Wait until nothing changes: memory of the previous test's process may be released late. */
static struct limits settled(struct kfd *k)
{
	struct limits l, last = { 0 };
	uint64_t all = 0;

	for (int i = 0; i < 30; i++, last = l) {
		l = system_limits();
		if (!memcmp(&l, &last, sizeof(l)) && available(k) == all)
			break;
		all = available(k);
		usleep(300000);
	}
	return l;
}

TEST(exit_releases_memory)
{
	struct limits before, after;
	uint64_t all;
	struct kfd k;

	fixture_open(&k);
	before = settled(&k);
	all = available(&k);
	EXPECT_OK(ktap_in_child(take_and_die, NULL));
	after = settled(&k);
	EXPECT_EQ(available(&k), all);
	EXPECT_EQ(after.used, before.used);
	EXPECT_EQ(after.gtt_used, before.gtt_used);
}

TEST(system_memory_limit)
{
	uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * KFD_PAGE, limit = total - total / 64;
	struct limits l = system_limits();

	limit = limit < 3ull << 30 ? limit / 2 : limit - (3ull << 29);
	EXPECT_EQ(l.limit, limit >> 20);
	EXPECT_EQ(l.gtt_limit, total / 2 >> 20);
}

TEST(gtt_and_userptr_accounting)
{
	const size_t size = 32ul << 20;
	struct limits before, now;
	uint64_t gtt, user;
	void *memory;
	struct kfd k;

	fixture_open(&k);
	before = system_limits();
	ASSERT_OK(alloc(&k, size, GTT, NULL, &gtt));
	now = system_limits();
	EXPECT_EQ(now.used, before.used + 32);
	EXPECT_EQ(now.gtt_used, before.gtt_used + 32);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(memory != MAP_FAILED);
	ASSERT_OK(alloc(&k, size, USERPTR, memory, &user));
	now = system_limits();
	EXPECT_EQ(now.used, before.used + 64);
	EXPECT_EQ(now.gtt_used, before.gtt_used + 32);
	EXPECT_OK(release(&k, gtt));
	EXPECT_OK(release(&k, user));
	now = system_limits();
	EXPECT_EQ(now.used, before.used);
	EXPECT_EQ(now.gtt_used, before.gtt_used);
}

/* Returns how many lines since the last call name a limit that this process would exceed. */
static int lines_about(int log, const char *limit)
{
	char text[64], line[2048];
	int found = 0;

	snprintf(text, sizeof(text), "process %d: ", getpid());
	while (kmsg_next(log, line, sizeof(line)))
		found += strstr(line, text) && strstr(line, limit);
	return found;
}

TEST(system_memory_beyond_limit_is_enomem)
{
	const uint64_t mib = 1ull << 20;
	struct limits before = system_limits(), after;
	const bool is_system = before.limit < before.gtt_limit;
	int log = kmsg_open(), lines;
	uint64_t handle, size;
	double start;
	struct kfd k;
	void *memory;

	fixture_open(&k);
	size = (is_system ? before.limit : before.gtt_limit) + 1;
	EXPECT_RET(alloc(&k, size * mib, GTT, NULL, &handle), -ENOMEM);
	if (ktap_is_rkfd())
		EXPECT(lines_about(log, is_system ? "the limit of system memory: " :
						    "the limit of GTT: ") > 0);
	EXPECT_RET(alloc(&k, 1ull << 62, GTT, NULL, &handle), -ENOMEM);
	/* The limit is checked before the user address. */
	size = (before.limit + 1) * mib;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT(memory != MAP_FAILED);
	EXPECT_RET(alloc(&k, size, USERPTR, memory, &handle), -ENOMEM);
	if (ktap_is_rkfd()) {
		EXPECT(lines_about(log, "the limit of system memory: ") > 0);
		/* Ten in 5 s, from the first line after those 5 s on. */
		sleep(6);
		start = seconds_now();
		for (int i = 0; i < 100; i++)
			EXPECT_RET(alloc(&k, size, USERPTR, memory, &handle), -ENOMEM);
		lines = lines_about(log, "the limit of system memory: ");
		EXPECT(lines > 0 && lines <= 10 * (1 + (int)((seconds_now() - start) / 5)),
		       "%d lines in %.1f s", lines, seconds_now() - start);
	}
	/* Below the limit an unmapped user address is another error. */
	EXPECT_RET(alloc(&k, KFD_PAGE, USERPTR, (void *)0x7000deadb000ull, &handle), -EFAULT);
	after = system_limits();
	EXPECT_EQ(after.used, before.used);
	EXPECT_EQ(after.gtt_used, before.gtt_used);
	close(log);
}

/* Registers memory that has no pages; returns 0 or a negative errno. */
static int register_empty(struct kfd *k, size_t size, void **start)
{
	*start = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT(*start != MAP_FAILED);
	return svm_set(k, *start, size, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 9 });
}

/* The memory that another process has unmapped is free after some time. */
static void register_soon(void *data)
{
	size_t size = *(size_t *)data;
	int ret = -ENOMEM;
	struct kfd k;
	void *start;

	fixture_open(&k);
	ASSERT_OK(svm_xnack(&k, 0));
	for (int i = 0; i < 100 && ret == -ENOMEM; i++) {
		ret = register_empty(&k, size, &start);
		ASSERT(munmap(start, size) == 0);
		usleep(20000);
	}
	EXPECT_OK(ret);
}

TEST(unmapped_memory_is_not_registered)
{
	struct limits before;
	struct kfd k;
	void *start;
	size_t size;

	fixture_open(&k);
	svm_needed(&k);
	ASSERT_OK(svm_xnack(&k, 0));
	before = system_limits();
	/* Not twice. */
	size = (before.limit - before.used) / 3 * 2 << 20;
	ASSERT_OK(register_empty(&k, size, &start));
	ASSERT(munmap(start, size) == 0);
	EXPECT_OK(ktap_in_child(register_soon, &size));
}
