// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests userptr BOs: registration, use by the GPU, and changes of the mapping. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userptr.h"

TEST(gpu_reads_and_writes)
{
	struct fixture f;
	struct pages p;

	fixture_launch(&f);
	register_new(&f.k, 64 * KFD_PAGE, &p);
	for (uint32_t i = 0; i < 64; i++) {
		ASSERT(gpu_writes(&f, &p, i * KFD_PAGE, 1024, 0x1000 + i));
		ASSERT(gpu_reads(&f, &p, i * KFD_PAGE + 256, 0x2000 + i));
	}
	EXPECT_OK(unregister(&f.k, &p));
	EXPECT(((uint32_t *)p.cpu)[0] == 0x1000);
	EXPECT(fixture_works(&f));
}

/* At an address of the process with untouched pages, and at another address. */
TEST(gpu_va_differs_from_cpu_va)
{
	struct fixture f;
	struct pages p;
	char *cpu, *gpu;

	fixture_launch(&f);
	cpu = anonymous(16 * KFD_PAGE);
	gpu = anonymous(16 * KFD_PAGE);
	register_at(&f.k, cpu, kfd_va(gpu), 16 * KFD_PAGE, &p);
	for (uint32_t i = 0; i < 16; i++)
		ASSERT(gpu_writes(&f, &p, i * KFD_PAGE + 64, 64, 0x3000 + i));
	EXPECT(*gpu == 0);
	/* An unaligned address selects its page. */
	EXPECT_OK(unregister(&f.k, &p));
	ASSERT_OK(
		try_register(&f.k, cpu + 5 * KFD_PAGE + 24, kfd_va(gpu), 2 * KFD_PAGE, FLAGS, &p));
	ASSERT_OK(kfd_bo_map_gpu(&f.k, &p.bo));
	p.cpu = cpu + 5 * KFD_PAGE;
	EXPECT(gpu_reads(&f, &p, 0, 0x77));
	EXPECT(gpu_writes(&f, &p, KFD_PAGE, 64, 0x78));
	EXPECT_OK(unregister(&f.k, &p));
}

TEST_TIMEOUT(large_areas, 120)
{
	static const size_t sizes[] = { 4 * MIB, 22 * MIB, 256 * MIB };
	struct fixture f;
	struct pages p;

	fixture_launch(&f);
	for (unsigned int huge = 0; huge < 2; huge++) {
		for (unsigned int i = 0; i < 3; i++) {
			size_t size = sizes[i] + 3 * KFD_PAGE;
			char *cpu = anonymous(size);

			ASSERT(madvise(cpu, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0);
			register_at(&f.k, cpu, kfd_va(cpu), size, &p);
			for (size_t at = 0; at < size; at += size / 37 / KFD_PAGE * KFD_PAGE)
				ASSERT(gpu_writes(&f, &p, at, 64, (uint32_t)(at >> 12) + huge));
			ASSERT(gpu_reads(&f, &p, size - 256, 0x1234));
			ASSERT_OK(unregister(&f.k, &p));
			ASSERT(munmap(cpu, size) == 0);
		}
	}
}

/* As the runtime does: all buffers of a queue are userptr BOs. */
TEST(queue_in_userptr_memory)
{
	struct kfd_ioctl_create_queue_args args;
	struct pages ring, descriptor, cwsr;
	struct fixture f;
	struct kfd_queue q;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_prepare(&f.k, &q, 64, &args));
	register_new(&f.k, KFD_PAGE, &ring);
	register_new(&f.k, KFD_PAGE, &descriptor);
	register_new(&f.k, kfd_cwsr_bytes(&f.k.node), &cwsr);
	memcpy(ring.cpu, q.ring->va, KFD_PAGE);
	memcpy(descriptor.cpu, q.descriptor->va, KFD_PAGE);
	q.q = (struct amd_queue *)descriptor.cpu;
	q.q->base_address = ring.gpu;
	args.ring_base_address = ring.gpu;
	args.write_pointer_address = kfd_va((void *)&q.q->write_dispatch_id);
	args.read_pointer_address = kfd_va((void *)&q.q->read_dispatch_id);
	args.ctx_save_restore_address = cwsr.gpu;
	if (is_gfx12(&f.k.node)) {
		/*
		 * MES reads the write pointer at an address that must not move: userptr memory is
		 * refused, as by the C driver.
		 */
		EXPECT_RET(kfd_queue_start(&q, &args), -EPERM);
		q.q = q.descriptor->va;
		q.q->base_address = ring.gpu;
		args.write_pointer_address = kfd_va((void *)&q.q->write_dispatch_id);
		args.read_pointer_address = kfd_va((void *)&q.q->read_dispatch_id);
	}
	ASSERT_OK(kfd_queue_start(&q, &args));
	ASSERT_OK(kfd_queue_map_doorbell(&q));
	ASSERT_OK(kfd_bo_free(&f.k, q.ring));
	q.ring = calloc(1, sizeof(*q.ring));
	ASSERT(q.ring != NULL);
	q.ring->va = ring.cpu;
	for (uint32_t i = 0; i < 200; i++) {
		ASSERT_OK(fixture_fill(&f, &q, f.data->va, 64, i));
		ASSERT_EQ(((uint32_t *)f.data->va)[63], i);
		if (i % 50 == 49) {
			/* Invalidates the ring's pages while the queue is in use. */
			ASSERT(madvise(ring.cpu, KFD_PAGE, MADV_NOHUGEPAGE) == 0);
			ASSERT(mprotect(descriptor.cpu, KFD_PAGE, PROT_READ) == 0);
			ASSERT(mprotect(descriptor.cpu, KFD_PAGE, PROT_READ | PROT_WRITE) == 0);
		}
	}
	/* Buffers of a queue cannot be unmapped from the GPU. */
	EXPECT_RET(kfd_bo_unmap_gpu(&f.k, &ring.bo), -EBUSY);
	EXPECT_RET(kfd_bo_unmap_gpu(&f.k, &cwsr.bo), -EBUSY);
	ASSERT_OK(kfd_queue_stop(&q));
	EXPECT_OK(unregister(&f.k, &ring));
	EXPECT_OK(unregister(&f.k, &descriptor));
	EXPECT_OK(unregister(&f.k, &cwsr));
}

/* Pages of a userfaultfd. */
struct held {
	struct pages p;
	int file;
	/* When the protection was about to end. */
	double end;
};

static void write_protect(struct held *h, uint64_t mode)
{
	struct uffdio_writeprotect args = { .range = { kfd_va(h->p.cpu), h->p.size },
					    .mode = mode };

	ASSERT(!ioctl(h->file, UFFDIO_WRITEPROTECT, &args), "%s", strerror(errno));
}

static void *unprotect_later(void *held)
{
	struct held *h = held;

	usleep(500000);
	h->end = seconds_now();
	write_protect(h, 0);
	return NULL;
}

/* The pages are present all the time: queues wait until the protection ends. */
TEST(write_protected_by_a_userfaultfd)
{
	struct fixture f;
	pthread_t thread;
	struct held h;
	double done;

	fixture_launch(&f);
	register_new(&f.k, MIB, &h.p);
	ASSERT(gpu_writes(&f, &h.p, 0, MIB / 4, 1));
	h.file = fixture_hold(h.p.cpu, MIB, UFFDIO_REGISTER_MODE_WP);
	write_protect(&h, UFFDIO_WRITEPROTECT_MODE_WP);
	usleep(100000);
	ASSERT(!pthread_create(&thread, NULL, unprotect_later, &h));
	EXPECT(gpu_writes(&f, &h.p, 0, MIB / 4, 2));
	done = seconds_now();
	pthread_join(thread, NULL);
	EXPECT(done > h.end, "the GPU writes %.3f s before", h.end - done);
	close(h.file);
	EXPECT_OK(unregister(&f.k, &h.p));
}

/* A buffer is freed while the worker maps the pages of another one: the queues are restored. */
TEST_TIMEOUT(freed_during_a_restore, 120)
{
	struct pages large, small;
	struct fixture f;

	fixture_launch(&f);
	register_new(&f.k, 4 * MIB, &large);
	for (int i = 0; i < 200; i++) {
		register_new(&f.k, KFD_PAGE, &small);
		/* The worker begins after 1 ms. */
		ASSERT(madvise(large.cpu, large.size, MADV_DONTNEED) == 0);
		ASSERT(madvise(small.cpu, small.size, MADV_DONTNEED) == 0);
		usleep(1000 + i * 20);
		ASSERT_OK(unregister(&f.k, &small));
		ASSERT(gpu_writes(&f, &large, 0, 64, (uint32_t)i));
	}
}

TEST(registration_errors)
{
	static const char text[] = "a read-only page of the program";
	int fd = memfd_create("userptr", 0);
	struct fixture f;
	struct pages p;
	char *cpu, *file;
	int ret;

	fixture_launch(&f);
	cpu = anonymous(16 * KFD_PAGE);
	/* No address; nothing mapped; a hole at the end or in the middle. */
	EXPECT_RET(try_register(&f.k, NULL, kfd_va(cpu), KFD_PAGE, FLAGS, &p), -EINVAL);
	EXPECT_RET(try_register(&f.k, (void *)0x1000, kfd_va(cpu), KFD_PAGE, FLAGS, &p), -EFAULT);
	ASSERT(munmap(cpu + 8 * KFD_PAGE, KFD_PAGE) == 0);
	EXPECT_RET(try_register(&f.k, cpu + 8 * KFD_PAGE, kfd_va(cpu), KFD_PAGE, FLAGS, &p),
		   -EFAULT);
	EXPECT_RET(try_register(&f.k, cpu + 7 * KFD_PAGE, kfd_va(cpu), 2 * KFD_PAGE, FLAGS, &p),
		   -EFAULT);
	EXPECT_RET(try_register(&f.k, cpu, kfd_va(cpu), 16 * KFD_PAGE, FLAGS, &p), -EFAULT);
	/* Kernel address; NULL; sizes. */
	EXPECT_RET(try_register(&f.k, (void *)KERNEL_ADDRESS, kfd_va(cpu), KFD_PAGE, FLAGS, &p),
		   -EFAULT);
	EXPECT_RET(try_register(&f.k, (void *)(~0ul - KFD_PAGE + 1), kfd_va(cpu), 2 * KFD_PAGE,
				FLAGS, &p),
		   -EOVERFLOW);
	EXPECT_RET(try_register(&f.k, (void *)(~0ul - KFD_PAGE + 1), kfd_va(cpu), KFD_PAGE, FLAGS,
				&p),
		   -EFAULT);
	EXPECT_RET(try_register(&f.k, cpu, kfd_va(cpu), 0, FLAGS, &p), -EINVAL);
	EXPECT_RET(try_register(&f.k, cpu, kfd_va(cpu), 1ul << 46, FLAGS, &p), -ENOMEM);
	ret = try_register(&f.k, cpu, kfd_va(cpu), ~0ul - KFD_PAGE, FLAGS, &p);
	EXPECT(ret == -ENOMEM || ret == -ENOSPC, "%s", ktap_errno_name(ret));
	/* Read-only for the CPU, whatever the access flags of the GPU. */
	EXPECT_RET(try_register(&f.k, (void *)(kfd_va(text) & ~(KFD_PAGE - 1)), kfd_va(cpu),
				KFD_PAGE, FLAGS & ~KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &p),
		   -EPERM);
	ASSERT(mprotect(cpu, KFD_PAGE, PROT_READ) == 0);
	EXPECT_RET(try_register(&f.k, cpu, kfd_va(cpu), KFD_PAGE, FLAGS, &p), -EPERM);
	ASSERT(mprotect(cpu, KFD_PAGE, PROT_NONE) == 0);
	EXPECT_RET(try_register(&f.k, cpu, kfd_va(cpu), KFD_PAGE, FLAGS, &p), -EFAULT);
	/* Device memory: doorbells, BOs. */
	EXPECT_RET(try_register(&f.k, (void *)f.k.doorbells, kfd_va(cpu), KFD_PAGE, FLAGS, &p),
		   -EFAULT);
	EXPECT_RET(try_register(&f.k, f.data->va, kfd_va(cpu), KFD_PAGE, FLAGS, &p), -EFAULT);
	/* Beyond the end of a file. */
	ASSERT(fd >= 0 && ftruncate(fd, KFD_PAGE) == 0);
	file = mmap(NULL, 4 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(file != MAP_FAILED);
	EXPECT_RET(try_register(&f.k, file, kfd_va(cpu), 2 * KFD_PAGE, FLAGS, &p), -EFAULT);
	EXPECT_OK(try_register(&f.k, file, kfd_va(cpu), KFD_PAGE, FLAGS, &p));
	EXPECT_OK(unregister(&f.k, &p));
	EXPECT(fixture_works(&f));
}

TEST(file_mappings)
{
	int fd = memfd_create("userptr", 0);
	uint32_t word = 0;
	struct fixture f;
	struct pages p;
	char *shared, *private;

	fixture_launch(&f);
	ASSERT(fd >= 0 && ftruncate(fd, 8 * KFD_PAGE) == 0);
	shared = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, 8 * KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ASSERT(shared != MAP_FAILED && private != MAP_FAILED);
	register_at(&f.k, shared, kfd_va(shared), 8 * KFD_PAGE, &p);
	EXPECT(gpu_writes(&f, &p, 3 * KFD_PAGE, 64, 0xabc));
	EXPECT(pread(fd, &word, 4, 3 * KFD_PAGE) == 4 && word == 0xabc, "%#x", word);
	word = 0xdef;
	EXPECT(pwrite(fd, &word, 4, 5 * KFD_PAGE) == 4);
	EXPECT(gpu_reads(&f, &p, 5 * KFD_PAGE + 256, 9));
	/* The file is truncated and extended again. */
	ASSERT(ftruncate(fd, 2 * KFD_PAGE) == 0);
	ASSERT(ftruncate(fd, 8 * KFD_PAGE) == 0);
	EXPECT(fixture_works(&f));
	EXPECT_OK(unregister(&f.k, &p));
	register_at(&f.k, private, kfd_va(private), 8 * KFD_PAGE, &p);
	EXPECT(gpu_writes(&f, &p, 0, 64, 0x111));
	EXPECT(pread(fd, &word, 4, 0) == 4 && word == 0, "%#x", word);
	EXPECT_OK(unregister(&f.k, &p));
}

TEST(same_pages_twice)
{
	struct pages a, b;
	struct fixture f;
	char *gpu;

	fixture_launch(&f);
	register_new(&f.k, 4 * KFD_PAGE, &a);
	gpu = anonymous(4 * KFD_PAGE);
	register_at(&f.k, a.cpu, kfd_va(gpu), 4 * KFD_PAGE, &b);
	EXPECT(gpu_writes(&f, &a, 0, 64, 1));
	EXPECT(gpu_writes(&f, &b, 0, 64, 2));
	ASSERT(madvise(a.cpu, 4 * KFD_PAGE, MADV_DONTNEED) == 0);
	EXPECT(*(uint32_t *)a.cpu == 0);
	EXPECT(gpu_writes(&f, &b, 0, 64, 3));
	EXPECT(gpu_reads(&f, &a, KFD_PAGE, 4));
	EXPECT_OK(unregister(&f.k, &a));
	EXPECT(gpu_writes(&f, &b, 0, 64, 5));
	EXPECT_OK(unregister(&f.k, &b));
}

/* The kernel drops clean pages. Those that the GPU writes to are dirty, without the CPU. */
static void expect_kept_memory(char *(*clean_memory)(size_t size))
{
	struct pages p;
	struct fixture f;
	char *cpu;

	fixture_launch(&f);
	cpu = clean_memory(16 * KFD_PAGE);
	register_at(&f.k, cpu, kfd_va(cpu), 16 * KFD_PAGE, &p);
	expect_kept(&f, &p);
	EXPECT_OK(unregister(&f.k, &p));
}

TEST(lazily_freed_memory)
{
	expect_kept_memory(lazily_freed);
}

TEST(file_that_is_read_before)
{
	expect_kept_memory(read_before);
}
