// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests ALLOC, FREE, MAP, UNMAP_MEMORY and AVAILABLE_MEMORY. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define VRAM (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
#define GTT (KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE)
#define DOORBELL                                                               \
	(KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)
#define REMAP                                                                    \
	(KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)

static int alloc(struct kfd *k, uint64_t va, uint64_t size, uint32_t flags, uint64_t *handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = va, .size = size, .gpu_id = k->node.gpu_id, .flags = flags
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

static int map(struct kfd *k, uint64_t handle)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = handle, .device_ids_array_ptr = kfd_va(&k->node.gpu_id), .n_devices = 1
	};

	return kfd_ioctl(k->fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
}

static int unmap(struct kfd *k, uint64_t handle)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args args = {
		.handle = handle, .device_ids_array_ptr = kfd_va(&k->node.gpu_id), .n_devices = 1
	};

	return kfd_ioctl(k->fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
}

static uint64_t reserve(size_t size)
{
	size_t reserved;
	void *start, *p = kfd_reserve(size, &reserved, &start);

	ASSERT(p != NULL);
	return kfd_va(p);
}

TEST(handle_contains_gpu_id)
{
	uint64_t handle;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(alloc(&k, reserve(4096), 4096, GTT, &handle));
	EXPECT_EQ(handle >> 32, k.node.gpu_id);
	EXPECT_OK(release(&k, handle));
}

/* CPU writes through the mapping persist, for each domain, size and set of caching flags. */
TEST(domains_and_flags)
{
	static const uint32_t flags[] = {
		GTT,
		GTT | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
		GTT | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED,
		GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE,
		GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT,
		KFD_IOC_ALLOC_MEM_FLAGS_GTT,
		VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC,
		VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
		VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE,
		VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS,
		VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT,
	};
	static const size_t sizes[] = { 4096, 5000, 65536, 2 << 20, (2 << 20) + 4096 };
	struct kfd k;

	fixture_open(&k);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if ((flags[i] & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) && !k.node.large_bar)
			continue;
		for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
			struct kfd_bo *bo;
			volatile uint32_t *words;

			ASSERT(kfd_bo_create(&k, sizes[n], flags[i], &bo) == 0,
			       "flags %#x size %zu", flags[i], sizes[n]);
			words = bo->va;
			EXPECT(words[0] == 0 && words[bo->size / 4 - 1] == 0,
			       "flags %#x size %zu: not zeroed", flags[i], sizes[n]);
			words[0] = 0xdeadbeef;
			words[bo->size / 4 - 1] = 0x12345678;
			EXPECT(words[0] == 0xdeadbeef && words[bo->size / 4 - 1] == 0x12345678,
			       "flags %#x size %zu", flags[i], sizes[n]);
			EXPECT(kfd_bo_free(&k, bo) == 0, "flags %#x size %zu", flags[i], sizes[n]);
		}
	}
}

TEST(vram_without_va)
{
	uint64_t handle;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(alloc(&k, 0, 1 << 20, VRAM, &handle));
	EXPECT_OK(release(&k, handle));
}

TEST(new_bo_is_zeroed)
{
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	if (!k.node.large_bar)
		SKIP("VRAM is not mapped by the BAR");
	for (unsigned int i = 0; i < ktap_repeats(4, 2); i++) {
		uint32_t *words;

		ASSERT_OK(kfd_bo_create(&k, 4 << 20, KFD_FLAGS_VRAM, &bo));
		words = bo->va;
		for (size_t n = 0; n < bo->size / 4; n += 251)
			ASSERT(words[n] == 0, "round %u, word %zu: %#x", i, n, words[n]);
		memset(words, 0xa5, bo->size);
		ASSERT_OK(kfd_bo_free(&k, bo));
	}
}

TEST(alloc_errors)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args;
	uint64_t va = reserve(1 << 20), handle;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(alloc(&k, va, 0, GTT, &handle), -EINVAL);
	/* No domain at all. */
	EXPECT_RET(alloc(&k, va, 4096, KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &handle), -EINVAL);
	EXPECT_RET(alloc(&k, va, 4096, 0, &handle), -EINVAL);
	/* USERPTR without an address. */
	EXPECT_RET(alloc(&k, va, 4096,
			 KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
			 &handle),
		   -EINVAL);
	/* AQL queue memory of one byte: the BO has half the size. */
	EXPECT_RET(alloc(&k, va, 1, GTT | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, &handle), -EINVAL);
	memset(&args, 0, sizeof(args));
	args.va_addr = va;
	args.size = 4096;
	args.flags = GTT;
	args.gpu_id = NO_SUCH_GPU;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), -EINVAL);
	args.gpu_id = 0;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args), -EINVAL);
	if (!k.node.large_bar)
		EXPECT_RET(alloc(&k, va, 4096, VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC, &handle),
			   -EINVAL);
}

TEST(alloc_beyond_vram_is_enomem)
{
	uint64_t va = reserve(1 << 20), handle;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(alloc(&k, va, k.node.vram_bytes + (1 << 20), VRAM, &handle), -ENOMEM);
	EXPECT_RET(alloc(&k, va, 1ull << 46, VRAM, &handle), -ENOMEM);
	EXPECT_RET(alloc(&k, va, 1ull << 46, GTT, &handle), -ENOMEM);
	/* Smaller allocations still succeed. */
	ASSERT_OK(alloc(&k, va, 1 << 20, VRAM, &handle));
	EXPECT_OK(release(&k, handle));
}

TEST(alloc_without_vm_is_enodev)
{
	uint64_t handle;
	struct kfd k;

	fixture_open_only(&k);
	EXPECT_RET(alloc(&k, reserve(4096), 4096, GTT, &handle), -ENODEV);
	EXPECT_RET(alloc(&k, 0, 4096, VRAM, &handle), -ENODEV);
	/* The size is checked first. */
	EXPECT_RET(alloc(&k, 0, 0, VRAM, &handle), -EINVAL);
}

TEST(doorbell_alloc_size)
{
	uint64_t handle;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(alloc(&k, reserve(8192), 4096, DOORBELL, &handle), -EINVAL);
	EXPECT_RET(alloc(&k, reserve(16384), 16384, DOORBELL, &handle), -EINVAL);
	ASSERT_OK(kfd_bo_alloc(&k, KFD_DOORBELL_SLICE, DOORBELL, &bo));
	EXPECT_OK(kfd_bo_map_gpu(&k, bo));
	EXPECT_OK(kfd_bo_free(&k, bo));
}

TEST(mmio_alloc_size)
{
	uint64_t handle;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(alloc(&k, reserve(8192), 8192, REMAP, &handle), -EINVAL);
	ASSERT_OK(kfd_bo_alloc(&k, KFD_PAGE, REMAP, &bo));
	/* mmap offset for /dev/kfd: type 0 and the gpu_id. */
	EXPECT_EQ(bo->mmap_offset >> 62, 0);
	EXPECT_EQ(bo->mmap_offset >> 46 & 0xffff, k.node.gpu_id & 0xffff);
	EXPECT_OK(kfd_bo_map_cpu(&k, bo));
	EXPECT_OK(kfd_bo_map_gpu(&k, bo));
	/* HDP flush: a store to its first dword. */
	*(volatile uint32_t *)bo->va = 0;
	EXPECT_OK(kfd_bo_free(&k, bo));
}

TEST(free_errors)
{
	uint64_t handle;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(release(&k, 0), -EINVAL);
	EXPECT_RET(release(&k, (uint64_t)k.node.gpu_id << 32 | 0x123), -EINVAL);
	EXPECT_RET(release(&k, (uint64_t)NO_SUCH_GPU << 32), -EINVAL);
	EXPECT_RET(release(&k, ~0ull), -EINVAL);
	ASSERT_OK(alloc(&k, reserve(4096), 4096, GTT, &handle));
	ASSERT_OK(map(&k, handle));
	EXPECT_RET(release(&k, handle), -EBUSY);
	ASSERT_OK(unmap(&k, handle));
	EXPECT_OK(release(&k, handle));
	EXPECT_RET(release(&k, handle), -EINVAL);
}

TEST(free_event_page_is_ebusy)
{
	uint32_t id;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_event_create(&k, KFD_IOC_EVENT_SIGNAL, true, &id));
	EXPECT_RET(release(&k, k.event_page->handle), -EPERM);
	EXPECT_OK(kfd_event_destroy(&k, id));
	EXPECT_RET(release(&k, k.event_page->handle), -EPERM);
}

TEST(map_and_unmap_errors)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = { 0 };
	uint32_t ids[2];
	uint64_t handle;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(alloc(&k, reserve(4096), 4096, GTT, &handle));
	ids[0] = k.node.gpu_id;
	ids[1] = NO_SUCH_GPU;
	/* Both ioctls have the same argument layout. */
	for (int i = 0; i < 2; i++) {
		unsigned long request = i ? AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU :
					    AMDKFD_IOC_MAP_MEMORY_TO_GPU;

		args = (struct kfd_ioctl_map_memory_to_gpu_args){
			.handle = handle, .device_ids_array_ptr = kfd_va(ids)
		};
		EXPECT_RET(kfd_ioctl(k.fd, request, &args), -EINVAL);
		args.n_devices = 1;
		args.n_success = 2;
		EXPECT_RET(kfd_ioctl(k.fd, request, &args), -EINVAL);
		args.n_success = 0;
		args.device_ids_array_ptr = KERNEL_ADDRESS;
		EXPECT_RET(kfd_ioctl(k.fd, request, &args), -EFAULT);
		args.device_ids_array_ptr = kfd_va(&ids[1]);
		EXPECT_RET(kfd_ioctl(k.fd, request, &args), -EINVAL);
		EXPECT_EQ(args.n_success, 0);
		args.device_ids_array_ptr = kfd_va(ids);
		args.handle = (uint64_t)k.node.gpu_id << 32 | 0x4444;
		EXPECT_RET(kfd_ioctl(k.fd, request, &args), -ENOMEM);
		args.handle = (uint64_t)NO_SUCH_GPU << 32;
		EXPECT_RET(kfd_ioctl(k.fd, request, &args), -EINVAL);
	}
	/* Unmapping what is not mapped fails; mapping twice succeeds. */
	EXPECT_RET(unmap(&k, handle), -EINVAL);
	EXPECT_OK(map(&k, handle));
	EXPECT_OK(map(&k, handle));
	EXPECT_OK(unmap(&k, handle));
	EXPECT_RET(unmap(&k, handle), -EINVAL);
	/* The devices before the unknown one were handled and counted in n_success. */
	args = (struct kfd_ioctl_map_memory_to_gpu_args){
		.handle = handle, .device_ids_array_ptr = kfd_va(ids), .n_devices = 2
	};
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args), -EINVAL);
	EXPECT_EQ(args.n_success, 1);
	EXPECT_OK(unmap(&k, handle));
	/* n_success equals n_devices: nothing to do. */
	args = (struct kfd_ioctl_map_memory_to_gpu_args){ .handle = handle,
							  .device_ids_array_ptr = kfd_va(ids),
							  .n_devices = 1,
							  .n_success = 1 };
	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args));
	EXPECT_OK(release(&k, handle));
}

TEST(bad_addresses)
{
	uint64_t va = reserve(1 << 20), first, second;
	struct kfd k;

	fixture_open(&k);
	/* Two BOs at one address. */
	ASSERT_OK(alloc(&k, va, 65536, GTT, &first));
	ASSERT_OK(map(&k, first));
	ASSERT_OK(alloc(&k, va + 61440, 8192, GTT, &second));
	EXPECT_RET(map(&k, second), -EINVAL);
	ASSERT_OK(unmap(&k, first));
	EXPECT_OK(map(&k, second));
	EXPECT_OK(unmap(&k, second));
	EXPECT_OK(release(&k, second));
	EXPECT_OK(release(&k, first));
	/* Above the range of the GPU's page tables. */
	if (!alloc(&k, 0x4000000000000000ull, 4096, GTT, &first)) {
		EXPECT_RET(map(&k, first), -EINVAL);
		EXPECT_OK(release(&k, first));
	}
	/* No address (kfd_mem_attach). */
	ASSERT_OK(alloc(&k, 0, 4096, GTT, &first));
	EXPECT_RET(map(&k, first), -EINVAL);
	EXPECT_OK(release(&k, first));
	/* Not page aligned. */
	if (!alloc(&k, va + 0x123, 4096, GTT, &first)) {
		EXPECT_RET(map(&k, first), -EINVAL);
		EXPECT_OK(release(&k, first));
	}
}

TEST(unmap_queue_buffer_is_ebusy)
{
	struct kfd_queue q;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_queue_create(&k, &q, 64));
	EXPECT_RET(unmap(&k, q.ring->handle), -EBUSY);
	EXPECT_RET(unmap(&k, q.descriptor->handle), -EBUSY);
	EXPECT_RET(unmap(&k, q.cwsr->handle), -EBUSY);
	EXPECT_RET(release(&k, q.ring->handle), -EBUSY);
	/* Destroying the queue releases its buffers. */
	EXPECT_OK(kfd_queue_destroy(&q));
}

/* A ring is mapped twice in a row: UNMAP_MEMORY while a queue has it unmaps neither, at no time. */
TEST(busy_ring_stays_mapped)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue owner, other;
	volatile uint32_t *started;
	struct aql_dispatch packet;
	struct kfd_kernel kernel;
	uint64_t handle, ring;
	uint64_t *kernarg;
	struct fixture f;
	uint32_t size;

	fixture_launch(&f);
	ASSERT_OK(kfd_queue_create(&f.k, &other, 64));
	ASSERT_OK(kfd_queue_prepare(&f.k, &owner, 64, &args));
	size = args.ring_size;
	ring = reserve(2 * size);
	ASSERT_OK(alloc(&f.k, ring, 2 * size, GTT | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM, &handle));
	ASSERT_OK(map(&f.k, handle));
	args.ring_base_address = ring;
	ASSERT_OK(kfd_queue_start(&owner, &args));
	/* A wave reads the second half in a loop, until that is not 0. */
	ASSERT_OK(fixture_kernel(&f, "endless", &kernel));
	started = f.data->va;
	kernarg = f.kernarg->va;
	kernarg[0] = kfd_va(f.data->va);
	kernarg[1] = ring + size;
	f.signal.s->value = 1;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg, &f.signal);
	kfd_queue_ring(&f.q, kfd_queue_write(&f.q, &packet));
	ASSERT(becomes(started, 1, WAIT_MS));
	for (unsigned int i = 0; i < 1000; i++)
		ASSERT_RET(unmap(&f.k, handle), -EBUSY);
	fixture_fill_start(&f, &other, NULL, 1, (uint32_t *)(ring + size), 64, 1);
	EXPECT_OK(kfd_signal_wait(&f.k, &f.signal, WAIT_MS));
	EXPECT_OK(kfd_queue_destroy(&owner));
	EXPECT_OK(unmap(&f.k, handle));
	EXPECT_OK(release(&f.k, handle));
	EXPECT_OK(kfd_queue_destroy(&other));
	EXPECT_OK(kfd_queue_destroy(&f.q));
}

TEST(available_memory_follows_allocations)
{
	struct kfd_ioctl_get_available_memory_args args = { .gpu_id = NO_SUCH_GPU };
	uint64_t before, during, after, handle;
	struct kfd k;

	fixture_open(&k);
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_AVAILABLE_MEMORY, &args), -EINVAL);
	ASSERT_OK(kfd_available(&k, &before));
	EXPECT(before > 0 && before <= k.node.vram_bytes, "%llu", (unsigned long long)before);
	EXPECT_EQ(before % (2 << 20), 0);
	ASSERT_OK(alloc(&k, 0, 64 << 20, VRAM, &handle));
	ASSERT_OK(kfd_available(&k, &during));
	EXPECT(during <= before - (64 << 20), "%llu after %llu", (unsigned long long)during,
	       (unsigned long long)before);
	EXPECT_OK(release(&k, handle));
	ASSERT_OK(kfd_available(&k, &after));
	EXPECT_EQ(after, before);
}

/* The CPU mapping outlives the handle, as any file mapping does. */
TEST(cpu_mapping_outlives_the_handle)
{
	uint32_t *words;
	struct kfd_bo *bo;
	struct kfd k;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_alloc(&k, 8192, KFD_FLAGS_GTT, &bo));
	ASSERT_OK(kfd_bo_map_cpu(&k, bo));
	words = bo->va;
	words[5] = 99;
	ASSERT_OK(release(&k, bo->handle));
	EXPECT_EQ(words[5], 99);
	words[5] = 100;
	EXPECT_EQ(words[5], 100);
}

/* A debugger reads and writes mapped memory of the GPU: ptrace() and /proc/PID/mem. */
static void debug_bo(struct kfd *k, uint32_t flags)
{
	/* Across two pages. */
	const unsigned int at = 4096 - 4;
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), status;
	unsigned char *bytes, got[8];
	struct kfd_bo *bo;
	uint64_t word;
	pid_t child;

	ASSERT(mem >= 0);
	ASSERT_OK(kfd_bo_alloc(k, 8192, flags, &bo));
	ASSERT_OK(kfd_bo_map_cpu(k, bo));
	bytes = bo->va;
	for (unsigned int i = 0; i < 8192; i++)
		bytes[i] = (unsigned char)(i * 7);
	ASSERT(pread(mem, got, sizeof(got), (off_t)(uintptr_t)(bytes + at)) == sizeof(got));
	EXPECT(!memcmp(got, bytes + at, sizeof(got)));
	ASSERT(pread(mem, got, 5, (off_t)(uintptr_t)(bytes + 3)) == 5);
	EXPECT(!memcmp(got, bytes + 3, 5));
	ASSERT(pwrite(mem, "debugger", 8, (off_t)(uintptr_t)(bytes + at)) == 8);
	EXPECT(!memcmp(bytes + at, "debugger", 8));
	EXPECT_EQ(bytes[at - 1], (unsigned char)((at - 1) * 7));
	EXPECT_EQ(bytes[at + 8], (unsigned char)((at + 8) * 7));
	/* Registers cannot be accessed. */
	EXPECT(pread(mem, got, 4, (off_t)(uintptr_t)k->doorbells) == -1 && errno == EIO);
	close(mem);

	child = fork_child();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(bytes[17] == 0xbe ? 0 : 1);
	}
	ASSERT(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
	errno = 0;
	word = (uint64_t)ptrace(PTRACE_PEEKDATA, child, bytes + 16, NULL);
	EXPECT(!errno && !memcmp(&word, bytes + 16, sizeof(word)), "%#llx",
	       (unsigned long long)word);
	memset(&word, 0xbe, sizeof(word));
	EXPECT(!ptrace(PTRACE_POKEDATA, child, bytes + 16, word));
	EXPECT_EQ(bytes[16], 0xbe);
	EXPECT(!ptrace(PTRACE_DETACH, child, NULL, NULL));
	ASSERT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(debugger_reads_and_writes_gtt)
{
	struct fixture f;

	fixture_launch(&f);
	debug_bo(&f.k, KFD_FLAGS_GTT);
}

TEST(debugger_reads_and_writes_vram)
{
	struct fixture f;

	fixture_launch(&f);
	debug_bo(&f.k, KFD_FLAGS_VRAM);
}

TEST(mmap_offset_is_per_file)
{
	char path[64];
	struct kfd_bo *bo;
	struct kfd k;
	void *p;
	int other;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_alloc(&k, 8192, KFD_FLAGS_GTT, &bo));
	snprintf(path, sizeof(path), "/dev/dri/renderD%u", k.node.drm_render_minor);
	other = open(path, O_RDWR | O_CLOEXEC);
	ASSERT(other >= 0);
	p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, other, (off_t)bo->mmap_offset);
	EXPECT(p == MAP_FAILED && errno == EACCES, "%s",
	       p == MAP_FAILED ? strerrorname_np(errno) : "mapped");
	/* Larger than the BO. */
	p = mmap(NULL, 16384, PROT_READ, MAP_SHARED, k.drm, (off_t)bo->mmap_offset);
	EXPECT(p == MAP_FAILED && errno == EINVAL, "%s",
	       p == MAP_FAILED ? strerrorname_np(errno) : "mapped");
	/* No BO at this offset. */
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, k.drm, (off_t)1 << 50);
	EXPECT(p == MAP_FAILED && errno == EINVAL, "%s",
	       p == MAP_FAILED ? strerrorname_np(errno) : "mapped");
}

TEST(many_bos)
{
	static uint64_t handles[2000];
	struct kfd k;
	const int count = (int)ktap_repeats(2000, 20);
	uint64_t va, before, after;

	fixture_open(&k);
	ASSERT_OK(kfd_available(&k, &before));
	va = reserve(2000ul * 8192);
	for (int i = 0; i < count; i++) {
		ASSERT_OK(
			alloc(&k, va + (uint64_t)i * 8192, 4096, i & 1 ? GTT : VRAM, &handles[i]));
		ASSERT_OK(map(&k, handles[i]));
	}
	for (int i = 0; i < count; i++) {
		int n = i * 7 % count;

		ASSERT_OK(unmap(&k, handles[n]));
		ASSERT_OK(release(&k, handles[n]));
	}
	ASSERT_OK(kfd_available(&k, &after));
	EXPECT_EQ(after, before);
}
