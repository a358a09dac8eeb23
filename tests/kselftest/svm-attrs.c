// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests the attributes of shared virtual memory: values, errors, splits, and the XNACK mode. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "svm.h"

enum {
	PREFERRED = KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
	PREFETCH = KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
	ACCESS = KFD_IOCTL_SVM_ATTR_ACCESS,
	IN_PLACE = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
	NO_ACCESS = KFD_IOCTL_SVM_ATTR_NO_ACCESS,
	SET_FLAGS = KFD_IOCTL_SVM_ATTR_SET_FLAGS,
	CLR_FLAGS = KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
	GRANULARITY = KFD_IOCTL_SVM_ATTR_GRANULARITY,
	SET = KFD_IOCTL_SVM_OP_SET_ATTR,
	GET = KFD_IOCTL_SVM_OP_GET_ATTR
};

static void open_svm(struct kfd *k)
{
	fixture_open(k);
	svm_needed(k);
}

static bool expect_defaults(struct kfd *k, const void *start, size_t size, uint32_t access)
{
	return svm_expect(k, start, size, NOWHERE_SET, NOWHERE_SET, access, SVM_DEFAULT_FLAGS,
			  SVM_DEFAULT_GRANULARITY);
}

/* With XNACK the GPU may access memory that no attribute was set for. */
TEST(defaults)
{
	struct kfd k;
	char *p;

	fixture_open_only(&k);
	svm_needed(&k);
	p = anonymous(4 * KFD_PAGE);
	/* GET_ATTR needs no VM, SET_ATTR does. */
	expect_defaults(&k, p, 4 * KFD_PAGE, NO_ACCESS);
	EXPECT_RET(svm_access(&k, p, KFD_PAGE), -EINVAL);
	ASSERT_OK(kfd_acquire_vm(&k));
	expect_defaults(&k, p, 4 * KFD_PAGE, NO_ACCESS);
	/* SET_ATTR without attributes creates a range, too. */
	EXPECT_OK(svm_call(&k, SET, kfd_va(p), KFD_PAGE, 0, 0, NULL));
	expect_defaults(&k, p, 4 * KFD_PAGE, NO_ACCESS);
	if (is_gfx12(&k.node))
		return;
	/* Registered without XNACK: no access, whatever the mode is later. */
	ASSERT_OK(svm_xnack(&k, 1));
	expect_defaults(&k, p, KFD_PAGE, NO_ACCESS);
	expect_defaults(&k, p + KFD_PAGE, KFD_PAGE, ACCESS);
	EXPECT_OK(svm_call(&k, SET, kfd_va(p) + KFD_PAGE, KFD_PAGE, 0, 0, NULL));
	ASSERT_OK(svm_xnack(&k, 0));
	expect_defaults(&k, p + KFD_PAGE, KFD_PAGE, ACCESS);
	expect_defaults(&k, p + 2 * KFD_PAGE, KFD_PAGE, NO_ACCESS);
}

TEST(each_attribute)
{
	struct kfd k;
	uint32_t gpu, all = SVM_DEFAULT_FLAGS;
	char *p;

	open_svm(&k);
	gpu = k.node.gpu_id;
	p = anonymous(8 * KFD_PAGE);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { PREFERRED, gpu }));
	svm_expect(&k, p, 8 * KFD_PAGE, gpu, NOWHERE_SET, NO_ACCESS, all, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { PREFERRED, 0 }, { PREFETCH, 0 }));
	svm_expect(&k, p, 8 * KFD_PAGE, 0, 0, NO_ACCESS, all, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { PREFERRED, NOWHERE_SET }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, all, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { ACCESS, gpu }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, ACCESS, all, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { IN_PLACE, gpu }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, IN_PLACE, all, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { NO_ACCESS, gpu }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, all, 9);
	/* Any bit is stored. */
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { SET_FLAGS, 0xabcd00f0 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, all | 0xabcd00f0, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { CLR_FLAGS, 0xffff0003 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, 0xf0, 9);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { CLR_FLAGS, ~0u }, { SET_FLAGS, 0x51 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, 0x51, 9);
	/* Attributes apply in their order. */
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { SET_FLAGS, 0x20 }, { CLR_FLAGS, ~0u },
			  { ACCESS, gpu }, { NO_ACCESS, gpu }, { GRANULARITY, 4 },
			  { GRANULARITY, 7 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, 0, 7);
	/* The granularity is limited, not refused. */
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { GRANULARITY, 0 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, 0, 0);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { GRANULARITY, 200 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, 0, 63);
	ASSERT_OK(svm_set(&k, p, 8 * KFD_PAGE, { GRANULARITY, 63 }));
	svm_expect(&k, p, 8 * KFD_PAGE, NOWHERE_SET, 0, NO_ACCESS, 0, 63);
}

/* GET_ATTR of some attributes leaves the others alone, and may have one twice. */
TEST(get_some)
{
	svm_attr attrs[4] = { { GRANULARITY, 77 }, { PREFERRED, 77 }, { GRANULARITY, 77 } };
	struct kfd k;
	char *p;

	open_svm(&k);
	p = anonymous(KFD_PAGE);
	ASSERT_OK(svm_set(&k, p, KFD_PAGE, { GRANULARITY, 5 }, { PREFERRED, 0 }));
	attrs[3] = (svm_attr){ 99, 99 };
	/* More room than attributes. */
	ASSERT_OK(svm_call(&k, GET, kfd_va(p), KFD_PAGE, 3, 4, attrs));
	EXPECT_EQ(attrs[0].value, 5);
	EXPECT_EQ(attrs[1].value, 0);
	EXPECT_EQ(attrs[2].value, 5);
	EXPECT_EQ(attrs[3].type, 99);
	EXPECT_EQ(attrs[3].value, 99);
	EXPECT_OK(svm_call(&k, GET, kfd_va(p), KFD_PAGE, 0, 0, NULL));
}

static int one(struct kfd *k, uint32_t op, const void *start, size_t size, uint32_t type,
	       uint32_t value)
{
	svm_attr attr = { type, value };

	return svm_call(k, op, kfd_va(start), size, 1, 1, &attr);
}

/* In the order of the checks: a call has the errno of the first that fails. */
TEST(errors)
{
	svm_attr attrs[2] = { { GRANULARITY, 1 }, { 77, 0 } };
	struct kfd_bo *bo;
	struct kfd k;
	char *p;

	open_svm(&k);
	p = anonymous(8 * KFD_PAGE);
	/* The attributes have to fit into the size of the ioctl, before all else. */
	EXPECT_RET(svm_call(&k, SET, 0, 0, 2, 1, attrs), -EINVAL);
	EXPECT_RET(svm_call(&k, SET, kfd_va(p), KFD_PAGE, 2, 1, attrs), -EINVAL);
	EXPECT_RET(svm_call(&k, SET, kfd_va(p), KFD_PAGE, UINT_MAX, 2, attrs), -EINVAL);
	/* Addresses are pages, and neither may be 0. */
	for (uint32_t op = SET; op <= GET; op++) {
		EXPECT_RET(one(&k, op, p + 8, KFD_PAGE, GRANULARITY, 9), -EINVAL);
		EXPECT_RET(one(&k, op, p, KFD_PAGE + 512, GRANULARITY, 9), -EINVAL);
		EXPECT_RET(one(&k, op, NULL, KFD_PAGE, GRANULARITY, 9), -EINVAL);
		EXPECT_RET(one(&k, op, p, 0, GRANULARITY, 9), -EINVAL);
	}
	EXPECT_RET(one(&k, 2, p, KFD_PAGE, GRANULARITY, 9), -EINVAL);
	EXPECT_RET(one(&k, 2, (void *)0x1000, KFD_PAGE, GRANULARITY, 9), -EINVAL);
	ASSERT(munmap(p + 4 * KFD_PAGE, KFD_PAGE) == 0);
	/* SET_ATTR checks the attributes first, GET_ATTR the range. */
	EXPECT_RET(one(&k, SET, p, KFD_PAGE, 8, 0), -EINVAL);
	EXPECT_RET(one(&k, GET, p, KFD_PAGE, 8, 0), -EINVAL);
	EXPECT_RET(one(&k, SET, p, 8 * KFD_PAGE, 8, 0), -EINVAL);
	EXPECT_RET(one(&k, GET, p, 8 * KFD_PAGE, 8, 0), -EFAULT);
	EXPECT_RET(one(&k, GET, p, KFD_PAGE, IN_PLACE, k.node.gpu_id), -EINVAL);
	EXPECT_RET(one(&k, GET, p, KFD_PAGE, NO_ACCESS, k.node.gpu_id), -EINVAL);
	EXPECT_RET(svm_set(&k, p, KFD_PAGE, { GRANULARITY, 1 }, { 77, 0 }), -EINVAL);
	/* GPUs; a preferred location may be unset, a prefetch has to have a location. */
	for (uint32_t type = PREFERRED; type <= NO_ACCESS; type++)
		EXPECT_RET(one(&k, SET, p, KFD_PAGE, type, NO_SUCH_GPU), -EINVAL);
	EXPECT_RET(one(&k, SET, p, KFD_PAGE, PREFETCH, NOWHERE_SET), -EINVAL);
	for (uint32_t type = ACCESS; type <= NO_ACCESS; type++)
		EXPECT_RET(one(&k, SET, p, KFD_PAGE, type, 0), -EINVAL);
	EXPECT_RET(one(&k, GET, p, KFD_PAGE, ACCESS, NO_SUCH_GPU), -EINVAL);
	/* Not the process's memory as a whole: a hole in the middle, nothing at all. */
	for (uint32_t op = SET; op <= GET; op++) {
		EXPECT_RET(one(&k, op, p, 8 * KFD_PAGE, GRANULARITY, 9), -EFAULT);
		EXPECT_RET(one(&k, op, p + 4 * KFD_PAGE, KFD_PAGE, GRANULARITY, 9), -EFAULT);
		EXPECT_RET(one(&k, op, (void *)0x1000, KFD_PAGE, GRANULARITY, 9), -EFAULT);
		EXPECT_RET(one(&k, op, (void *)KERNEL_ADDRESS, KFD_PAGE, GRANULARITY, 9), -EFAULT);
		EXPECT_RET(one(&k, op, p, ~0ull << 12, GRANULARITY, 9), -EOVERFLOW);
		EXPECT_RET(one(&k, op, (void *)(~0ull << 12), 2 * KFD_PAGE, GRANULARITY, 9),
			   -EOVERFLOW);
	}
	/* Memory of a device, which is also what a BO is for the CPU. */
	ASSERT_OK(kfd_bo_create(&k, KFD_PAGE, KFD_FLAGS_GTT, &bo));
	EXPECT_RET(one(&k, SET, bo->va, KFD_PAGE, GRANULARITY, 9), -EFAULT);
	EXPECT_RET(one(&k, GET, bo->va, KFD_PAGE, GRANULARITY, 9), -EFAULT);
	/* None of these calls created a range. */
	expect_defaults(&k, p, KFD_PAGE, NO_ACCESS);
}

/* GET_ATTR on several ranges returns the values that they have in common. */
TEST(split_and_merge)
{
	struct svm_state s;
	uint32_t gpu;
	struct kfd k;
	char *p;

	open_svm(&k);
	gpu = k.node.gpu_id;
	p = anonymous(16 * KFD_PAGE);
	ASSERT_OK(svm_set(&k, p, 16 * KFD_PAGE, { PREFERRED, gpu }, { GRANULARITY, 6 },
			  { ACCESS, gpu }));
	ASSERT_OK(svm_set(&k, p + 4 * KFD_PAGE, 4 * KFD_PAGE, { PREFERRED, 0 }, { GRANULARITY, 3 },
			  { NO_ACCESS, gpu }, { SET_FLAGS, 0x20 }, { CLR_FLAGS, 2 }));
	svm_expect(&k, p, 4 * KFD_PAGE, gpu, NOWHERE_SET, ACCESS, 3, 6);
	svm_expect(&k, p + 4 * KFD_PAGE, 4 * KFD_PAGE, 0, NOWHERE_SET, NO_ACCESS, 0x21, 3);
	svm_expect(&k, p + 5 * KFD_PAGE, KFD_PAGE, 0, NOWHERE_SET, NO_ACCESS, 0x21, 3);
	svm_expect(&k, p + 8 * KFD_PAGE, 8 * KFD_PAGE, gpu, NOWHERE_SET, ACCESS, 3, 6);
	ASSERT_OK(svm_get(&k, p, 16 * KFD_PAGE, &s));
	EXPECT_EQ(s.preferred, NOWHERE_SET);
	EXPECT_EQ(s.access, NO_ACCESS);
	EXPECT_EQ(s.all_flags, 1);
	EXPECT_EQ(s.no_flags, ~0x23u);
	EXPECT_EQ(s.granularity, 3);
	/* Equal again: the values are those of one range. */
	ASSERT_OK(svm_set(&k, p + 2 * KFD_PAGE, 8 * KFD_PAGE, { PREFERRED, gpu },
			  { GRANULARITY, 6 }, { ACCESS, gpu }, { SET_FLAGS, 2 },
			  { CLR_FLAGS, 0x20 }));
	svm_expect(&k, p, 16 * KFD_PAGE, gpu, NOWHERE_SET, ACCESS, 3, 6);
	/* ACCESS and ACCESS_IN_PLACE have nothing in common. */
	ASSERT_OK(svm_set(&k, p, KFD_PAGE, { IN_PLACE, gpu }));
	svm_expect(&k, p, 2 * KFD_PAGE, gpu, NOWHERE_SET, NO_ACCESS, 3, 6);
	svm_expect(&k, p, KFD_PAGE, gpu, NOWHERE_SET, IN_PLACE, 3, 6);
}

/* Unregistered memory beside ranges does not count. */
TEST(holes_between_ranges)
{
	struct kfd k;
	uint32_t gpu;
	char *p;

	open_svm(&k);
	gpu = k.node.gpu_id;
	p = anonymous(16 * KFD_PAGE);
	ASSERT_OK(svm_set(&k, p + 3 * KFD_PAGE, KFD_PAGE, { PREFERRED, gpu }, { ACCESS, gpu }));
	svm_expect(&k, p, 16 * KFD_PAGE, gpu, NOWHERE_SET, ACCESS, 3, 9);
	expect_defaults(&k, p, 3 * KFD_PAGE, NO_ACCESS);
	ASSERT_OK(svm_set(&k, p + 9 * KFD_PAGE, KFD_PAGE, { PREFERRED, gpu }, { ACCESS, gpu }));
	svm_expect(&k, p, 16 * KFD_PAGE, gpu, NOWHERE_SET, ACCESS, 3, 9);
	/* Sets the attribute of the ranges and makes new ones in the holes. */
	ASSERT_OK(svm_set(&k, p, 16 * KFD_PAGE, { GRANULARITY, 2 }));
	svm_expect(&k, p, 16 * KFD_PAGE, NOWHERE_SET, NOWHERE_SET, NO_ACCESS, 3, 2);
	svm_expect(&k, p + 3 * KFD_PAGE, KFD_PAGE, gpu, NOWHERE_SET, ACCESS, 3, 2);
	svm_expect(&k, p + 4 * KFD_PAGE, 5 * KFD_PAGE, NOWHERE_SET, NOWHERE_SET, NO_ACCESS, 3, 2);
}

/* munmap() removes the range: later mappings at its addresses have the default attributes. */
TEST(munmap_ends_ranges)
{
	uint32_t gpu;
	struct kfd k;
	char *p;

	open_svm(&k);
	gpu = k.node.gpu_id;
	p = anonymous(16 * KFD_PAGE);
	ASSERT_OK(svm_set(&k, p, 16 * KFD_PAGE, { PREFERRED, gpu }));
	ASSERT(munmap(p + 4 * KFD_PAGE, 4 * KFD_PAGE) == 0);
	ASSERT(mmap(p + 4 * KFD_PAGE, 4 * KFD_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + 4 * KFD_PAGE);
	expect_defaults(&k, p + 4 * KFD_PAGE, 4 * KFD_PAGE, NO_ACCESS);
	svm_expect(&k, p, 4 * KFD_PAGE, gpu, NOWHERE_SET, NO_ACCESS, 3, 9);
	svm_expect(&k, p + 8 * KFD_PAGE, 8 * KFD_PAGE, gpu, NOWHERE_SET, NO_ACCESS, 3, 9);
	/* Head and tail; and the memory that mremap() moves away. */
	ASSERT(mmap(p, KFD_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	ASSERT(mmap(p + 15 * KFD_PAGE, KFD_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		    -1, 0) == p + 15 * KFD_PAGE);
	expect_defaults(&k, p, KFD_PAGE, NO_ACCESS);
	expect_defaults(&k, p + 15 * KFD_PAGE, KFD_PAGE, NO_ACCESS);
	svm_expect(&k, p + KFD_PAGE, KFD_PAGE, gpu, NOWHERE_SET, NO_ACCESS, 3, 9);
	svm_expect(&k, p + 14 * KFD_PAGE, KFD_PAGE, gpu, NOWHERE_SET, NO_ACCESS, 3, 9);
	{
		char *to = anonymous(4 * KFD_PAGE);

		ASSERT(mremap(p + 8 * KFD_PAGE, 4 * KFD_PAGE, 4 * KFD_PAGE,
			      MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
		expect_defaults(&k, to, 4 * KFD_PAGE, NO_ACCESS);
		ASSERT(mmap(p + 8 * KFD_PAGE, 4 * KFD_PAGE, PROT_READ,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + 8 * KFD_PAGE);
		expect_defaults(&k, p + 8 * KFD_PAGE, 4 * KFD_PAGE, NO_ACCESS);
	}
}

#define SMALL_RANGES 8000

static struct kfd *shared_kfd;
static char *others;
static atomic_bool over;

/* Unmaps registered memory in the block behind that of `others`. */
static void *unmap_behind(void *data)
{
	char *p = others + 4 * MIB;

	(void)data;
	while (!over) {
		ASSERT(mmap(p, KFD_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
		ASSERT_OK(svm_access(shared_kfd, p, KFD_PAGE));
		ASSERT(!munmap(p, KFD_PAGE));
	}
	return NULL;
}

static void *get_attributes(void *data)
{
	struct svm_state s;

	(void)data;
	while (!over)
		ASSERT_OK(svm_get(shared_kfd, others, KFD_PAGE, &s));
	return NULL;
}

/* A concurrent call that removes ranges of unmapped memory does not miss the latest munmap(). */
TEST_TIMEOUT(munmap_during_get_attr, 120)
{
	pthread_t unmapping, getting;
	struct svm_state s;
	char *start, *first;
	struct kfd k;

	open_svm(&k);
	shared_kfd = &k;
	/* In a window of 64 MiB: the page that is checked is in the first block. */
	start = anonymous(256 * MIB);
	first = (char *)((kfd_va(start) + 64 * MIB - 1) & ~(64 * MIB - 1));
	others = first + 2 * MIB;
	/* Many ranges, which take time to change. */
	for (uint32_t i = 0; i < SMALL_RANGES; i++)
		ASSERT_OK(svm_set(&k, first + 64 * MIB + 2 * i * KFD_PAGE, KFD_PAGE,
				  { GRANULARITY, 1 + i % 2 }));
	ASSERT(!pthread_create(&unmapping, NULL, unmap_behind, NULL));
	ASSERT(!pthread_create(&getting, NULL, get_attributes, NULL));
	for (int i = 0; i < 1000; i++) {
		ASSERT(mmap(first, KFD_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == first);
		ASSERT_OK(svm_get(&k, first, KFD_PAGE, &s));
		ASSERT_EQ(s.access, NO_ACCESS);
		ASSERT_OK(svm_access(&k, first, KFD_PAGE));
		ASSERT(!munmap(first, KFD_PAGE));
	}
	over = true;
	pthread_join(unmapping, NULL);
	pthread_join(getting, NULL);
}

/* Returns the slabs of the machine that are not caches, in KiB. */
static long slab_kib(void)
{
	uint64_t kib;

	ASSERT_OK(kfd_sysfs_value("/proc/meminfo", "SUnreclaim:", &kib));
	return (long)kib;
}

/* More memory than there is, of which none is present, costs the kernel none. */
TEST_TIMEOUT(more_than_the_machine_has, 120)
{
	size_t size = 4ul << 40;
	struct kfd k;
	long before, after;
	char *p;

	open_svm(&k);
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT(p != MAP_FAILED);
	before = slab_kib();
	EXPECT_RET(svm_access(&k, p, size), -ENOMEM);
	after = slab_kib();
	EXPECT(after < before + 65536, "%ld KiB before, %ld after", before, after);
}

/* Nor with retry faults, where no memory has to be present. */
TEST_TIMEOUT(more_than_the_machine_has_with_retry_faults, 120)
{
	size_t size = 100ul << 40;
	struct kfd k;
	long before, after;
	char *p;
	int ret;

	fixture_open(&k);
	svm_mode_needed(&k, true);
	ASSERT_OK(svm_xnack(&k, 1));
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT(p != MAP_FAILED);
	before = slab_kib();
	ret = svm_access(&k, p, size);
	after = slab_kib();
	ktap_note("%d: %ld KiB before, %ld after", ret, before, after);
	/* The C driver has an object for each GiB, 4 KiB. */
	EXPECT(ret == -ENOMEM || (ret == 0 && !ktap_is_rkfd()), "%d", ret);
	EXPECT(after < before + (ktap_is_rkfd() ? 65536 : 1024 * 1024));
	EXPECT_OK(svm_access(&k, anonymous(KFD_PAGE), KFD_PAGE));
}

/* Maps new memory at an address. */
static void map_again(char *p, size_t size)
{
	ASSERT(mmap(p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		    0) == p);
}

/* An address is either a BO's or that of a range. */
TEST(ranges_and_bos_exclude_each_other)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args;
	struct pages u;
	struct kfd k;
	char *p, *q;

	open_svm(&k);
	p = anonymous(16 * KFD_PAGE);
	q = anonymous(16 * KFD_PAGE);
	ASSERT_OK(svm_access(&k, p + 4 * KFD_PAGE, 4 * KFD_PAGE));
	args = (struct kfd_ioctl_alloc_memory_of_gpu_args){ .va_addr = kfd_va(p),
							    .size = 5 * KFD_PAGE,
							    .gpu_id = NO_SUCH_GPU,
							    .flags = KFD_FLAGS_GTT };
	/* Looked at before the GPU, after the size. */
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), -EADDRINUSE);
	args.size = 0;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), -EINVAL);
	args.size = 4 * KFD_PAGE;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), -EINVAL);
	args.gpu_id = k.node.gpu_id;
	args.va_addr = kfd_va(p) + 7 * KFD_PAGE;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), -EADDRINUSE);
	/* By the address of a userptr BO, too. */
	EXPECT_RET(try_register(&k, p + 4 * KFD_PAGE, kfd_va(q), KFD_PAGE, FLAGS, &u), -EADDRINUSE);
	EXPECT_RET(try_register(&k, p + 7 * KFD_PAGE, kfd_va(q), 4 * KFD_PAGE, FLAGS, &u),
		   -EADDRINUSE);
	EXPECT_RET(try_register(&k, q, kfd_va(p), 5 * KFD_PAGE, FLAGS, &u), -EADDRINUSE);
	/* The other way round: a BO counts once it is mapped. */
	ASSERT_OK(try_register(&k, q, kfd_va(q), 4 * KFD_PAGE, FLAGS, &u));
	EXPECT_OK(one(&k, GET, q, 8 * KFD_PAGE, GRANULARITY, 9));
	ASSERT_OK(kfd_bo_map_gpu(&k, &u.bo));
	EXPECT_RET(one(&k, GET, q, 8 * KFD_PAGE, GRANULARITY, 9), -EADDRINUSE);
	EXPECT_RET(svm_access(&k, q, 8 * KFD_PAGE), -EADDRINUSE);
	EXPECT_RET(svm_access(&k, q + 3 * KFD_PAGE, KFD_PAGE), -EADDRINUSE);
	EXPECT_OK(svm_access(&k, q + 4 * KFD_PAGE, KFD_PAGE));
	EXPECT_OK(unregister(&k, &u));
	EXPECT_OK(svm_access(&k, q, 4 * KFD_PAGE));
	/* Pages of a userptr BO at another address may be a range as well. */
	ASSERT(munmap(q, 16 * KFD_PAGE) == 0);
	q = anonymous(16 * KFD_PAGE);
	register_at(&k, p, kfd_va(q), 4 * KFD_PAGE, &u);
	EXPECT_OK(svm_access(&k, p, 4 * KFD_PAGE));
	EXPECT_OK(unregister(&k, &u));
	/* After munmap() the address is free. */
	ASSERT(munmap(p, 16 * KFD_PAGE) == 0);
	map_again(p, 16 * KFD_PAGE);
	register_at(&k, p, kfd_va(p), 16 * KFD_PAGE, &u);
	EXPECT_OK(unregister(&k, &u));
}

/* At once: no worker has to run first. */
TEST(munmap_frees_addresses)
{
	struct pages u;
	struct kfd k;
	char *p, *q;
	int i;

	open_svm(&k);
	p = anonymous(16 * KFD_PAGE);
	q = anonymous(16 * KFD_PAGE);
	for (i = 0; i < 100; i++) {
		ASSERT_OK(svm_access(&k, p, 16 * KFD_PAGE));
		ASSERT(munmap(p, 16 * KFD_PAGE) == 0);
		register_at(&k, q, kfd_va(p), 16 * KFD_PAGE, &u);
		ASSERT_OK(unregister(&k, &u));
		map_again(p, 16 * KFD_PAGE);
	}
	/* Of a BO that was allocated before. */
	for (i = 0; i < 20; i++) {
		ASSERT_OK(try_register(&k, q, kfd_va(p), 16 * KFD_PAGE, FLAGS, &u));
		ASSERT_OK(svm_access(&k, p, 16 * KFD_PAGE));
		ASSERT(munmap(p, 16 * KFD_PAGE) == 0);
		ASSERT_OK(kfd_bo_map_gpu(&k, &u.bo));
		ASSERT_OK(unregister(&k, &u));
		map_again(p, 16 * KFD_PAGE);
	}
}

TEST(xnack_mode)
{
	size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * KFD_PAGE;
	struct fixture f;
	char *p;

	fixture_open(&f.k);
	svm_needed(&f.k);
	EXPECT_EQ(svm_xnack(&f.k, -1), 0);
	EXPECT_OK(svm_xnack(&f.k, 0));
	if (is_gfx12(&f.k.node)) {
		/* Waves of this generation cannot be preempted at a fault. */
		EXPECT_RET(svm_xnack(&f.k, 1), -EPERM);
		return;
	}
	EXPECT_OK(svm_xnack(&f.k, 1));
	EXPECT_EQ(svm_xnack(&f.k, -1), 1);
	EXPECT_OK(svm_xnack(&f.k, 1));
	EXPECT_OK(svm_xnack(&f.k, 0));
	EXPECT_EQ(svm_xnack(&f.k, INT_MIN), 0);
	/* Any positive number is on. */
	EXPECT_OK(svm_xnack(&f.k, 77));
	EXPECT_EQ(svm_xnack(&f.k, -5), 1);
	/* Unmapped memory does not count for the limit; with retry faults there is none. */
	p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	ASSERT(p != MAP_FAILED);
	ASSERT_OK(svm_set(&f.k, p, all, { KFD_IOCTL_SVM_ATTR_GRANULARITY, 9 }));
	EXPECT_RET(svm_xnack(&f.k, 0), -ENOMEM);
	ASSERT(munmap(p, all) == 0);
	/* The C driver removes ranges in a work item. */
	if (!ktap_is_rkfd())
		usleep(100000);
	EXPECT_OK(svm_xnack(&f.k, 0));
	EXPECT_OK(svm_xnack(&f.k, 1));
	ASSERT_OK(kfd_queue_create(&f.k, &f.q, 64));
	EXPECT_EQ(svm_xnack(&f.k, -1), 1);
	EXPECT_RET(svm_xnack(&f.k, 1), -EBUSY);
	EXPECT_RET(svm_xnack(&f.k, 0), -EBUSY);
	ASSERT_OK(kfd_queue_destroy(&f.q));
	EXPECT_OK(svm_xnack(&f.k, 0));
}
