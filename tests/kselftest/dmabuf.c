// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests DMA buffers within one process: which BOs can be exported and imported. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <linux/udmabuf.h>

#include "dmabuf.h"

/* Returns the gpu_id that GTT of any node is reported with: GTT has no partition. */
static uint32_t first_gpu_id(void)
{
	struct kfd_node node;

	for (int i = 0; !kfd_topology_node(i, &node); i++)
		if (node.gpu_id)
			return node.gpu_id;
	return 0;
}

TEST(export_fdinfo)
{
	struct stat first, second;
	struct kfd k;

	fixture_open(&k);
	for (int i = 0; i < 2; i++) {
		struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
		uint32_t *words, *own;
		struct kfd_bo *bo;
		int a, b;

		ASSERT_OK(kfd_bo_create(&k, SIZE, kinds[i], &bo));
		a = dmabuf_export(&k, bo->handle, O_CLOEXEC);
		b = dmabuf_export(&k, bo->handle, 0);
		ASSERT(a >= 0 && b >= 0, "%s, %s", ktap_errno_name(a), ktap_errno_name(b));
		EXPECT_EQ(fcntl(a, F_GETFD), FD_CLOEXEC);
		EXPECT_EQ(fcntl(b, F_GETFD), 0);
		/* One DMA buffer per BO, however often it is exported. */
		EXPECT(fstat(a, &first) == 0 && fstat(b, &second) == 0 &&
		       first.st_ino == second.st_ino);
		EXPECT_EQ(lseek(a, 0, SEEK_END), SIZE);
		EXPECT_OK(dmabuf_info(&k, a, &args));
		EXPECT_EQ(args.size, SIZE);
		EXPECT_EQ(args.gpu_id, i ? k.node.gpu_id : first_gpu_id());
		EXPECT_EQ(args.metadata_size, 0);
		/* PUBLIC is a hint that the C driver does not report. */
		EXPECT_EQ(args.flags | (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC),
			  i ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM |
					  (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) :
			      KFD_IOC_ALLOC_MEM_FLAGS_GTT);
		if (!i || k.node.large_bar) {
			own = bo->va;
			words = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a, 0);
			ASSERT(words != MAP_FAILED, "%s", strerror(errno));
			for (uint32_t w = 0; w < WORDS; w += 1023)
				words[w] = w + 1;
			for (uint32_t w = 0; w < WORDS; w += 1023)
				EXPECT_EQ(own[w], w + 1);
			EXPECT(mmap(NULL, SIZE + 4096, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED &&
			       errno == EINVAL);
			munmap(words, SIZE);
		}
		close(a);
		EXPECT_OK(kfd_bo_free(&k, bo));
		/* The fd keeps the BO alive. */
		EXPECT_OK(dmabuf_info(&k, b, &args));
		close(b);
	}
}

TEST(export_keeps_read_only)
{
	struct kfd_bo *bo;
	struct kfd k;
	int fd;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_alloc(&k, SIZE, KFD_FLAGS_GTT & ~KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &bo));
	fd = dmabuf_export(&k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	EXPECT(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED &&
	       errno == EACCES);
	EXPECT(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	close(fd);
	EXPECT_OK(kfd_bo_free(&k, bo));
}

/* Doorbell and MMIO pages are not memory; the C driver exports them nevertheless. */
static void export_registers(struct kfd *k, struct kfd_bo *bo)
{
	int fd = dmabuf_export(k, bo->handle, O_CLOEXEC);

	if (ktap_is_rkfd())
		EXPECT_RET(fd, -EINVAL);
	else
		EXPECT(fd >= 0, "%s", ktap_errno_name(fd));
	if (fd >= 0)
		close(fd);
}

TEST(export_errors)
{
	void *page =
		mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kfd_bo *bo;
	struct kfd k, none;
	uint64_t handle;

	fixture_open(&k);
	struct kfd_ioctl_alloc_memory_of_gpu_args user = {
		.va_addr = kfd_va(page),
		.mmap_offset = kfd_va(page),
		.size = KFD_PAGE,
		.gpu_id = k.node.gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE
	};

	ASSERT(page != MAP_FAILED);
	EXPECT_RET(dmabuf_export(&k, (uint64_t)NO_SUCH_GPU << 32, 0), -EINVAL);
	EXPECT_RET(dmabuf_export(&k, (uint64_t)k.node.gpu_id << 32 | 12345, 0), -EINVAL);
	ASSERT_OK(kfd_bo_alloc(&k, KFD_DOORBELL_SLICE,
			       KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
			       &bo));
	export_registers(&k, bo);
	EXPECT_OK(kfd_bo_free(&k, bo));
	ASSERT_OK(kfd_bo_alloc(
		&k, KFD_PAGE, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
		&bo));
	export_registers(&k, bo);
	EXPECT_OK(kfd_bo_free(&k, bo));
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &user));
	EXPECT_RET(dmabuf_export(&k, user.handle, 0), -EPERM);
	EXPECT(mmap(NULL, KFD_PAGE, PROT_READ, MAP_SHARED, k.drm, (off_t)user.mmap_offset) ==
			       MAP_FAILED &&
		       errno == EPERM,
	       "%s", strerrorname_np(errno));
	ASSERT_OK(kfd_bo_alloc(&k, SIZE, KFD_FLAGS_GTT, &bo));
	EXPECT_OK(kfd_open_device(&none));
	/* Handles belong to the process, whichever of its files is used. */
	close(dmabuf_export(&none, bo->handle, 0));
	handle = bo->handle;
	EXPECT_OK(kfd_bo_free(&k, bo));
	EXPECT_RET(dmabuf_export(&k, handle, 0), -EINVAL);
}

static void before_acquire(void *data)
{
	uint64_t handle;
	struct kfd k;
	int fd = *(int *)data;

	fixture_open_only(&k);
	EXPECT_RET(dmabuf_import_at(&k, fd, (void *)0x100000000ul, &handle), -ENODEV);
}

TEST(import_errors)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	struct kfd_ioctl_import_dmabuf_args bad = { .gpu_id = NO_SUCH_GPU };
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = SIZE };
	void *va = (void *)0x100000000ul;
	struct kfd_bo *bo;
	uint64_t handle;
	struct kfd k;
	int fd, udmabuf, memory, closed;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, SIZE, KFD_FLAGS_GTT, &bo));
	fd = dmabuf_export(&k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	bad.dmabuf_fd = (uint32_t)fd;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_IMPORT_DMABUF, &bad), -EINVAL);
	EXPECT_OK(ktap_in_child(before_acquire, &fd));
	closed = dup(fd);
	close(closed);
	EXPECT_RET(dmabuf_import_at(&k, closed, va, &handle), -EBADF);
	EXPECT_RET(dmabuf_info(&k, closed, &args), -EBADF);
	EXPECT_RET(dmabuf_import_at(&k, -1, va, &handle), -EBADF);
	/* Not DMA buffers. */
	memory = memfd_create("memory", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	ASSERT(memory >= 0 && ftruncate(memory, SIZE) == 0 &&
	       fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	for (int i = 0; i < 3; i++) {
		int other = i == 0 ? k.fd : i == 1 ? k.drm : memory;
		struct drm_prime_handle prime = { .fd = other };

		EXPECT_RET(dmabuf_import_at(&k, other, va, &handle), -EINVAL);
		EXPECT_RET(dmabuf_info(&k, other, &args), -EINVAL);
		EXPECT_RET(kfd_ioctl(k.drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), -EINVAL);
	}
	/* A DMA buffer of another driver. */
	udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (udmabuf >= 0) {
		struct drm_prime_handle prime = { 0 };
		int other;

		create.memfd = (uint32_t)memory;
		other = ioctl(udmabuf, UDMABUF_CREATE, &create);
		ASSERT(other >= 0, "%s", strerror(errno));
		EXPECT_RET(dmabuf_info(&k, other, &args), -EINVAL);
		prime.fd = other;
		/* A driver that imports it does so for either node. */
		if (kfd_ioctl(k.drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime)) {
			EXPECT_RET(kfd_ioctl(k.drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), -EINVAL);
			EXPECT_RET(dmabuf_import_at(&k, other, va, &handle), -EINVAL);
		} else {
			struct kfd_ioctl_free_memory_of_gpu_args taken = { 0 };

			EXPECT_OK(dmabuf_import_at(&k, other, va, &handle));
			taken.handle = handle;
			EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &taken));
		}
		close(other);
		close(udmabuf);
	} else {
		/* Kernels for tests, which are slower, do not have it. */
		EXPECT(ktap_time_factor() > 1, "/dev/udmabuf: %s", strerror(errno));
	}
	/* Import does not check for a conflicting address, mapping does. */
	ASSERT_OK(dmabuf_import_at(&k, fd, bo->va, &handle));
	struct kfd_bo twice = { .handle = handle, .va = bo->va, .size = SIZE };

	EXPECT_RET(kfd_bo_map_gpu(&k, &twice), -EINVAL);
	struct kfd_ioctl_free_memory_of_gpu_args freed = { .handle = handle };

	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed));
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed), -EINVAL);
	close(fd);
	EXPECT_OK(kfd_bo_free(&k, bo));
}

/* Importing an own exported BO twice: three addresses, one BO. */
TEST(import_own_bo)
{
	struct kfd_bo *bo, *again[2];
	struct fixture f;

	fixture_launch(&f);
	for (int i = 0; i < 2; i++) {
		uint64_t used, available;
		int fd;

		if (i && !f.k.node.large_bar)
			break;
		ASSERT_OK(kfd_bo_create(&f.k, SIZE, kinds[i], &bo));
		used = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
		ASSERT_OK(kfd_available(&f.k, &available));
		fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0);
		again[0] = dmabuf_import(&f.k, fd, SIZE);
		again[1] = dmabuf_import(&f.k, fd, SIZE);
		EXPECT(again[0]->handle != again[1]->handle && again[0]->handle != bo->handle);
		for (int n = 0; n < 2; n++) {
			uint64_t now;

			EXPECT_OK(
				fixture_fill(&f, &f.q, again[n]->va, WORDS, 0x1000u + (uint32_t)n));
			holds(bo->va, 0x1000u + (uint32_t)n);
			holds(again[!n]->va, 0x1000u + (uint32_t)n);
			/* No memory is used, page tables aside. */
			EXPECT(amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE) <= used + 65536);
			EXPECT_OK(kfd_available(&f.k, &now));
			EXPECT_EQ(now, available);
		}
		if (i)
			EXPECT_OK(kfd_bo_free(&f.k, bo));
		EXPECT_OK(kfd_bo_free(&f.k, again[i]));
		close(fd);
		EXPECT_OK(fixture_fill(&f, &f.q, again[!i]->va, WORDS, 0x77));
		holds(again[!i]->va, 0x77);
		if (!i)
			EXPECT_OK(kfd_bo_free(&f.k, bo));
		EXPECT_OK(kfd_bo_free(&f.k, again[!i]));
	}
	EXPECT(fixture_works(&f));
}

/*
 * As the runtime's virtual memory management does: memory without an address, addresses without
 * memory, and mappings between them.
 */
TEST(runtime_virtual_memory)
{
	uint64_t before;
	struct fixture f;

	fixture_launch(&f);
	if (!f.k.node.large_bar)
		SKIP("VRAM is not mapped by the BAR");
	before = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (int round = 0; round < 3; round++) {
		struct kfd_ioctl_alloc_memory_of_gpu_args args = {
			.size = SIZE,
			.gpu_id = f.k.node.gpu_id,
			.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
				 KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC
		};
		struct kfd_ioctl_free_memory_of_gpu_args freed;
		char *va = reserve(4 * SIZE);
		uint64_t handles[2];
		uint32_t gems[2];

		for (int i = 0; i < 2; i++) {
			int fd;

			args.va_addr = 0;
			args.size = SIZE;
			args.mmap_offset = 0;
			ASSERT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
			handles[i] = args.handle;
			fd = dmabuf_export(&f.k, args.handle, O_CLOEXEC);
			ASSERT(fd >= 0);
			gems[i] = handle_of_fd(&f.k, fd);
			close(fd);
			fd = dmabuf_export(&f.k, args.handle, O_CLOEXEC);
			EXPECT_EQ(handle_of_fd(&f.k, fd), gems[i]);
			close(fd);
			EXPECT_OK(va_op(&f.k, gems[i], AMDGPU_VA_OP_MAP, va + i * SIZE, SIZE));
			map_handle(&f.k, gems[i], va + i * SIZE, SIZE);
		}
		/* Two BOs back to back. */
		EXPECT_OK(fixture_fill(&f, &f.q, (uint32_t *)va, 2 * WORDS, 0x600d));
		holds((uint32_t *)va, 0x600d);
		holds((uint32_t *)(va + SIZE), 0x600d);
		/* The second BO at a second address as well. */
		EXPECT_OK(va_op(&f.k, gems[1], AMDGPU_VA_OP_MAP, va + 2 * SIZE, SIZE));
		EXPECT_OK(fixture_fill(&f, &f.q, (uint32_t *)(va + 2 * SIZE), WORDS, 0x900d));
		holds((uint32_t *)(va + SIZE), 0x900d);
		/* The handle may be freed before the mapping: the mapping keeps the BO. */
		freed.handle = handles[1];
		EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed));
		EXPECT_OK(fixture_fill(&f, &f.q, (uint32_t *)va, 2 * WORDS, 0xa00d));
		holds((uint32_t *)(va + SIZE), 0xa00d);
		for (int i = 0; i < 2; i++) {
			EXPECT_OK(va_op(&f.k, gems[i], AMDGPU_VA_OP_UNMAP, va + i * SIZE, SIZE));
			/* Freeing the handle removes the other mapping. */
			EXPECT_OK(close_handle(&f.k, gems[i]));
		}
		/*
		 * Do not reuse these addresses: nothing signals when the GPU has dropped the
		 * mapping that went with the handle.
		 */
		ASSERT(mmap(va, 4 * SIZE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == va);
		freed.handle = handles[0];
		EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed));
	}
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 65536);
	EXPECT(fixture_works(&f));
}

/* Imports BOs of the render node into /dev/kfd, and back. */
TEST(import_render_node_bo)
{
	union drm_amdgpu_gem_create create = {
		.in = { .bo_size = SIZE, .alignment = 4096, .domains = AMDGPU_GEM_DOMAIN_GTT }
	};
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC | DRM_RDWR };
	struct kfd_bo *bo;
	struct fixture f;
	int fd;

	fixture_launch(&f);
	ASSERT_OK(kfd_ioctl(f.k.drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &create));
	prime.handle = create.out.handle;
	ASSERT_OK(kfd_ioctl(f.k.drm, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	bo = dmabuf_import(&f.k, prime.fd, SIZE);
	EXPECT_OK(close_handle(&f.k, create.out.handle));
	close(prime.fd);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0x4444));
	holds(bo->va, 0x4444);
	/* No GEM handle and no fd is left: a new export is made. */
	fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	EXPECT_OK(close_handle(&f.k, handle_of_fd(&f.k, fd)));
	close(fd);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
}
