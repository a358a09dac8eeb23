// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Buffers that go from process to process as DMA buffers, as IPC and virtual memory of the runtime do it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <linux/udmabuf.h>

#include "fixture.h"

#define SIZE (256u << 10)
#define WORDS (SIZE / 4)
/* More than the unit in which memory is said to be available. */
#define MUCH (4u << 20)

static int export_fd(struct kfd *k, uint64_t handle, uint32_t flags)
{
	struct kfd_ioctl_export_dmabuf_args args = { .handle = handle, .flags = flags };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_EXPORT_DMABUF, &args);

	return ret ? ret : (int)args.dmabuf_fd;
}

static int info(struct kfd *k, int fd, struct kfd_ioctl_get_dmabuf_info_args *args)
{
	args->dmabuf_fd = (uint32_t)fd;
	return kfd_ioctl(k->fd, AMDKFD_IOC_GET_DMABUF_INFO, args);
}

static int import_at(struct kfd *k, int fd, void *va, uint64_t *handle)
{
	struct kfd_ioctl_import_dmabuf_args args = { .va_addr = kfd_va(va), .gpu_id = k->node.gpu_id, .dmabuf_fd = (uint32_t)fd };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_IMPORT_DMABUF, &args);

	*handle = args.handle;
	return ret;
}

/* Imports a buffer, with the CPU's view of it at the GPU's address. */
static struct kfd_bo *import(struct kfd *k, int fd, size_t size)
{
	struct kfd_bo *bo = calloc(1, sizeof(*bo));

	ASSERT(bo != NULL);
	bo->size = size;
	bo->va = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(bo->va != MAP_FAILED, "%s", strerror(errno));
	ASSERT_OK(import_at(k, fd, bo->va, &bo->handle));
	ASSERT_OK(kfd_bo_map_gpu(k, bo));
	return bo;
}

static void send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec vec = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	ASSERT(sendmsg(socket, &message, 0) == 1);
}

static int receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec vec = { &byte, 1 };
	struct msghdr message = { .msg_iov = &vec, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	ASSERT(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
	c = CMSG_FIRSTHDR(&message);
	ASSERT(c && c->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void tell(int socket)
{
	ASSERT(write(socket, "", 1) == 1);
}

static bool hear(int socket)
{
	char c;

	return read(socket, &c, 1) == 1;
}

/* Another process, with a socket to this one. */
struct other {
	pid_t pid;
	int socket;
};

static void start(struct other *o, void (*run)(int socket))
{
	int ends[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	fflush(stdout);
	o->pid = fork();
	ASSERT(o->pid >= 0);
	if (!o->pid) {
		close(ends[0]);
		run(ends[1]);
		ktap_end();
	}
	close(ends[1]);
	o->socket = ends[0];
}

static void finish(struct other *o)
{
	int status;

	ASSERT(waitpid(o->pid, &status, 0) == o->pid);
	EXPECT(status == 0, "status %#x", status);
	close(o->socket);
}

static uint64_t number(struct kfd *k, uint32_t query)
{
	uint64_t value = 0;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&value), .return_size = sizeof(value), .query = query };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_INFO, &request));
	return value;
}

static void expect_usage(struct kfd *k, uint32_t query, uint64_t most)
{
	for (int i = 0; i < 50 && number(k, query) > most; i++)
		usleep(100000);
	EXPECT(number(k, query) <= most, "%llu bytes, %llu before", (unsigned long long)number(k, query), (unsigned long long)most);
}

static bool holds(const uint32_t *words, uint32_t value)
{
	return EXPECT_EQ(words[0], value) && EXPECT_EQ(words[WORDS / 2], value) && EXPECT_EQ(words[WORDS - 1], value);
}

static uint32_t handle_of_fd(struct kfd *k, int fd)
{
	struct drm_prime_handle args = { .fd = fd };

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args));
	return args.handle;
}

static int close_handle(struct kfd *k, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	return kfd_ioctl(k->drm, DRM_IOCTL_GEM_CLOSE, &args);
}

static int va_op(struct kfd *k, uint32_t handle, uint32_t op, void *va, uint64_t size)
{
	struct drm_syncobj_create done = { 0 };
	uint64_t point = 1;

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_CREATE, &done));
	struct drm_amdgpu_gem_va args = {
		.handle = handle,
		.operation = op,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE,
		.va_address = kfd_va(va),
		.map_size = size,
		.vm_timeline_syncobj_out = done.handle,
		.vm_timeline_point = point,
	};
	struct drm_syncobj_timeline_wait wait = { .handles = kfd_va(&done.handle), .points = kfd_va(&point), .count_handles = 1,
						  .timeout_nsec = INT64_MAX };
	struct drm_syncobj_destroy gone = { .handle = done.handle };
	int ret = kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_VA, &args);

	/* The C driver's ioctl may return before the GPU sees the change. */
	if (!ret)
		EXPECT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &wait));
	EXPECT_OK(kfd_ioctl(k->drm, DRM_IOCTL_SYNCOBJ_DESTROY, &gone));
	return ret;
}

static void *map_handle(struct kfd *k, uint32_t handle, void *at, size_t size)
{
	union drm_amdgpu_gem_mmap args = { .in.handle = handle };
	void *p;

	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_MMAP, &args));
	p = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), k->drm, (off_t)args.out.addr_ptr);
	ASSERT(p != MAP_FAILED, "%s", strerror(errno));
	return p;
}

static void *reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ASSERT(p != MAP_FAILED);
	return p;
}

static void metadata(struct kfd *k, uint32_t handle, uint32_t op, struct drm_amdgpu_gem_metadata *args)
{
	args->handle = handle;
	args->op = op;
	ASSERT_OK(kfd_ioctl(k->drm, DRM_IOCTL_AMDGPU_GEM_METADATA, args));
}

static const uint32_t kinds[] = { KFD_FLAGS_GTT, KFD_FLAGS_VRAM };

TEST(an_exported_buffer_is_a_file)
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
		a = export_fd(&k, bo->handle, O_CLOEXEC);
		b = export_fd(&k, bo->handle, 0);
		ASSERT(a >= 0 && b >= 0, "%s, %s", ktap_errno_name(a), ktap_errno_name(b));
		EXPECT_EQ(fcntl(a, F_GETFD), FD_CLOEXEC);
		EXPECT_EQ(fcntl(b, F_GETFD), 0);
		/* One buffer, however often it is exported. */
		EXPECT(fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_ino == second.st_ino);
		EXPECT_EQ(lseek(a, 0, SEEK_END), SIZE);
		EXPECT_OK(info(&k, a, &args));
		EXPECT_EQ(args.size, SIZE);
		EXPECT_EQ(args.gpu_id, k.node.gpu_id);
		EXPECT_EQ(args.metadata_size, 0);
		/* PUBLIC is a hint to the C driver, which forgets it. */
		EXPECT_EQ(args.flags | (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC),
			  i ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM | (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) :
			      KFD_IOC_ALLOC_MEM_FLAGS_GTT);
		if (!i || k.node.large_bar) {
			own = bo->va;
			words = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a, 0);
			ASSERT(words != MAP_FAILED, "%s", strerror(errno));
			for (uint32_t w = 0; w < WORDS; w += 1023)
				words[w] = w + 1;
			for (uint32_t w = 0; w < WORDS; w += 1023)
				EXPECT_EQ(own[w], w + 1);
			EXPECT(mmap(NULL, SIZE + 4096, PROT_READ, MAP_SHARED, a, 0) == MAP_FAILED && errno == EINVAL);
			munmap(words, SIZE);
		}
		close(a);
		EXPECT_OK(kfd_bo_free(&k, bo));
		/* The descriptor keeps it. */
		EXPECT_OK(info(&k, b, &args));
		close(b);
	}
}

TEST(what_may_not_be_written_may_not_be_written_as_a_file)
{
	struct kfd_bo *bo;
	struct kfd k;
	int fd;

	fixture_open(&k);
	ASSERT_OK(kfd_bo_alloc(&k, SIZE, KFD_FLAGS_GTT & ~KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &bo));
	fd = export_fd(&k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	EXPECT(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EACCES);
	EXPECT(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	close(fd);
	EXPECT_OK(kfd_bo_free(&k, bo));
}

/* Pages of the device may be refused; they are no memory to share, though a driver can make a file of them. */
static void export_registers(struct kfd *k, struct kfd_bo *bo)
{
	int fd = export_fd(k, bo->handle, O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	else
		EXPECT_RET(fd, -EINVAL);
}

TEST(what_cannot_be_exported)
{
	void *page = mmap(NULL, KFD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kfd_bo *bo;
	struct kfd k, none;
	uint64_t handle;

	fixture_open(&k);
	struct kfd_ioctl_alloc_memory_of_gpu_args user = { .va_addr = kfd_va(page), .mmap_offset = kfd_va(page), .size = KFD_PAGE,
		.gpu_id = k.node.gpu_id, .flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE };

	ASSERT(page != MAP_FAILED);
	EXPECT_RET(export_fd(&k, (uint64_t)NO_SUCH_GPU << 32, 0), -EINVAL);
	EXPECT_RET(export_fd(&k, (uint64_t)k.node.gpu_id << 32 | 12345, 0), -EINVAL);
	ASSERT_OK(kfd_bo_alloc(&k, KFD_DOORBELL_SLICE, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &bo));
	export_registers(&k, bo);
	EXPECT_OK(kfd_bo_free(&k, bo));
	ASSERT_OK(kfd_bo_alloc(&k, KFD_PAGE, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, &bo));
	export_registers(&k, bo);
	EXPECT_OK(kfd_bo_free(&k, bo));
	ASSERT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &user));
	EXPECT_RET(export_fd(&k, user.handle, 0), -EPERM);
	EXPECT(mmap(NULL, KFD_PAGE, PROT_READ, MAP_SHARED, k.drm, (off_t)user.mmap_offset) == MAP_FAILED && errno == EPERM, "%s",
	       strerrorname_np(errno));
	ASSERT_OK(kfd_bo_alloc(&k, SIZE, KFD_FLAGS_GTT, &bo));
	EXPECT_OK(kfd_open_device(&none));
	/* Handles are the process's, whichever of its files is used. */
	close(export_fd(&none, bo->handle, 0));
	handle = bo->handle;
	EXPECT_OK(kfd_bo_free(&k, bo));
	EXPECT_RET(export_fd(&k, handle, 0), -EINVAL);
}

static void before_acquire(void *data)
{
	uint64_t handle;
	struct kfd k;
	int fd = *(int *)data;

	fixture_open_only(&k);
	EXPECT_RET(import_at(&k, fd, (void *)0x100000000ul, &handle), -ENODEV);
}

TEST(what_cannot_be_imported)
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
	fd = export_fd(&k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	bad.dmabuf_fd = (uint32_t)fd;
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_IMPORT_DMABUF, &bad), -EINVAL);
	EXPECT_OK(ktap_in_child(before_acquire, &fd));
	closed = dup(fd);
	close(closed);
	EXPECT_RET(import_at(&k, closed, va, &handle), -EBADF);
	EXPECT_RET(info(&k, closed, &args), -EBADF);
	EXPECT_RET(import_at(&k, -1, va, &handle), -EBADF);
	/* Files of other kinds. */
	memory = memfd_create("memory", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	ASSERT(memory >= 0 && ftruncate(memory, SIZE) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	for (int i = 0; i < 3; i++) {
		int other = i == 0 ? k.fd : i == 1 ? k.drm : memory;
		struct drm_prime_handle prime = { .fd = other };

		EXPECT_RET(import_at(&k, other, va, &handle), -EINVAL);
		EXPECT_RET(info(&k, other, &args), -EINVAL);
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
		EXPECT_RET(info(&k, other, &args), -EINVAL);
		prime.fd = other;
		/* A driver that takes it, takes it both ways. */
		if (kfd_ioctl(k.drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime)) {
			EXPECT_RET(kfd_ioctl(k.drm, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime), -EINVAL);
			EXPECT_RET(import_at(&k, other, va, &handle), -EINVAL);
		} else {
			struct kfd_ioctl_free_memory_of_gpu_args taken = { 0 };

			EXPECT_OK(import_at(&k, other, va, &handle));
			taken.handle = handle;
			EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &taken));
		}
		close(other);
		close(udmabuf);
	} else {
		ktap_note("no udmabuf here");
	}
	/* Where it is mapped is looked at when it is mapped. */
	ASSERT_OK(import_at(&k, fd, bo->va, &handle));
	struct kfd_bo twice = { .handle = handle, .va = bo->va, .size = SIZE };

	EXPECT_RET(kfd_bo_map_gpu(&k, &twice), -EINVAL);
	struct kfd_ioctl_free_memory_of_gpu_args freed = { .handle = handle };

	EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed));
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed), -EINVAL);
	close(fd);
	EXPECT_OK(kfd_bo_free(&k, bo));
}

/* A process imports what it has exported, twice: three addresses, one memory. */
TEST(own_buffers_can_be_imported)
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
		used = number(&f.k, AMDGPU_INFO_VRAM_USAGE);
		ASSERT_OK(kfd_available(&f.k, &available));
		fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0);
		again[0] = import(&f.k, fd, SIZE);
		again[1] = import(&f.k, fd, SIZE);
		EXPECT(again[0]->handle != again[1]->handle && again[0]->handle != bo->handle);
		for (int n = 0; n < 2; n++) {
			uint64_t now;

			EXPECT_OK(fixture_fill(&f, &f.q, again[n]->va, WORDS, 0x1000u + (uint32_t)n));
			holds(bo->va, 0x1000u + (uint32_t)n);
			holds(again[!n]->va, 0x1000u + (uint32_t)n);
			/* Page tables aside it takes nothing. */
			EXPECT(number(&f.k, AMDGPU_INFO_VRAM_USAGE) <= used + 65536);
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

static void importer(int socket)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	struct kfd_bo *bo;
	struct fixture f;
	int fd;

	fixture_launch(&f);
	fd = receive_fd(socket);
	ASSERT_OK(info(&f.k, fd, &args));
	EXPECT_EQ(args.size, SIZE);
	bo = import(&f.k, fd, SIZE);
	close(fd);
	holds(bo->va, 0xaaaa);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xbbbb));
	tell(socket);
	/* The exporter has let go of it, in whatever way. */
	hear(socket);
	holds(bo->va, 0xcccc);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xdddd));
	holds(bo->va, 0xdddd);
	/* It can be passed on. */
	fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
	EXPECT(fd >= 0);
	close(fd);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
	EXPECT(fixture_works(&f));
}

static void exporter(int socket)
{
	struct kfd_bo *bo;
	struct fixture f;
	int fd;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, MUCH, KFD_FLAGS_VRAM, &bo));
	fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xaaaa));
	send_fd(socket, fd);
	ASSERT(hear(socket));
	holds(bo->va, 0xbbbb);
	ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xcccc));
}

TEST(two_processes_share_memory)
{
	struct fixture f;
	struct other o;

	fixture_launch(&f);
	for (int i = 0; i < 2; i++) {
		struct kfd_bo *bo;
		int fd;

		if (i && !f.k.node.large_bar)
			break;
		start(&o, importer);
		ASSERT_OK(kfd_bo_create(&f.k, SIZE, kinds[i], &bo));
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xaaaa));
		fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0);
		send_fd(o.socket, fd);
		close(fd);
		ASSERT(hear(o.socket));
		holds(bo->va, 0xbbbb);
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xcccc));
		EXPECT_OK(kfd_bo_free(&f.k, bo));
		tell(o.socket);
		finish(&o);
	}
	EXPECT(fixture_works(&f));
}

/* The process that made the memory ends, by itself or not; who has imported it keeps it. */
TEST(exporters_may_end_first)
{
	struct fixture f;
	uint64_t before, available, now;

	fixture_launch(&f);
	if (!f.k.node.large_bar)
		SKIP("video memory has no place in the CPU's addresses");
	before = number(&f.k, AMDGPU_INFO_VRAM_USAGE);
	ASSERT_OK(kfd_available(&f.k, &available));
	for (int i = 0; i < 2; i++) {
		struct kfd_bo *bo;
		struct other o;
		int fd;

		start(&o, exporter);
		fd = receive_fd(o.socket);
		bo = import(&f.k, fd, MUCH);
		if (i)
			close(fd);
		holds(bo->va, 0xaaaa);
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xbbbb));
		if (i)
			kill(o.pid, SIGKILL);
		else
			tell(o.socket);
		if (i) {
			ASSERT(waitpid(o.pid, NULL, 0) == o.pid);
			close(o.socket);
		} else {
			finish(&o);
			holds(bo->va, 0xcccc);
			close(fd);
		}
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xeeee));
		holds(bo->va, 0xeeee);
		/* What was set aside for it still is. */
		EXPECT_OK(kfd_available(&f.k, &now));
		EXPECT(now < available, "%#llx", (unsigned long long)now);
		EXPECT_OK(kfd_bo_free(&f.k, bo));
	}
	/* Page tables may stay. */
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 65536);
	EXPECT_OK(kfd_available(&f.k, &now));
	EXPECT_EQ(now, available);
}

static void dying(int socket)
{
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	bo = import(&f.k, receive_fd(socket), SIZE);
	tell(socket);
	for (uint32_t n = 0;; n++)
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, n));
}

TEST_TIMEOUT(importers_can_be_killed, 120)
{
	struct fixture f;
	uint64_t before;
	int fd;

	fixture_launch(&f);
	before = number(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (unsigned int i = 0; i < 4; i++) {
		struct kfd_bo *bo;
		struct other o;

		start(&o, dying);
		ASSERT_OK(kfd_bo_create(&f.k, SIZE, kinds[i & f.k.node.large_bar], &bo));
		fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0);
		send_fd(o.socket, fd);
		close(fd);
		ASSERT(hear(o.socket));
		if (i & 2)
			EXPECT_OK(kfd_bo_free(&f.k, bo));
		usleep(20000 * (i + 1));
		kill(o.pid, SIGKILL);
		ASSERT(waitpid(o.pid, NULL, 0) == o.pid);
		close(o.socket);
		if (!(i & 2)) {
			ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xf00d));
			holds(bo->va, 0xf00d);
			EXPECT_OK(kfd_bo_free(&f.k, bo));
		}
	}
	/* Page tables may stay. */
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 65536);
	EXPECT(fixture_works(&f));
}

/* As the runtime's IPC does it: the key that tells a handle from an old one is attached to the object. */
static void ipc_importer(int socket)
{
	struct drm_amdgpu_gem_create_in made;
	struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, .value = kfd_va(&made) };
	struct drm_amdgpu_gem_metadata get = { 0 };
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	uint32_t key[4] = { 0 }, handle;
	struct kfd_bo *bo;
	struct fixture f;
	void *va;
	int fd;

	fixture_launch(&f);
	fd = receive_fd(socket);
	/* Too little room for what is attached: the answer says how much there is. */
	args.metadata_ptr = kfd_va(key);
	args.metadata_size = 8;
	EXPECT_RET(info(&f.k, fd, &args), -EINVAL);
	EXPECT_EQ(args.metadata_size, sizeof(key));
	EXPECT_OK(info(&f.k, fd, &args));
	EXPECT_EQ(args.metadata_size, sizeof(key));
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(key[i], 0x1000 + i);
	args.metadata_ptr = KERNEL_ADDRESS;
	EXPECT_RET(info(&f.k, fd, &args), -EFAULT);
	args.metadata_ptr = 0;
	EXPECT_OK(info(&f.k, fd, &args));
	bo = import(&f.k, fd, SIZE);
	handle = handle_of_fd(&f.k, fd);
	EXPECT_EQ(handle_of_fd(&f.k, fd), handle);
	metadata(&f.k, handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &get);
	EXPECT_EQ(get.data.data_size_bytes, sizeof(key));
	EXPECT(memcmp(get.data.data, key, sizeof(key)) == 0);
	EXPECT_EQ(get.data.flags, 7);
	op.handle = handle;
	EXPECT_OK(kfd_ioctl(f.k.drm, DRM_IOCTL_AMDGPU_GEM_OP, &op));
	EXPECT_EQ(made.bo_size, SIZE);
	EXPECT_EQ(made.domains, args.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xbbbb));
	/* System memory goes the other way: through the render node alone. */
	va = map_handle(&f.k, handle, NULL, SIZE);
	holds(va, 0xbbbb);
	EXPECT_OK(va_op(&f.k, handle, AMDGPU_VA_OP_MAP, va, SIZE));
	EXPECT_RET(va_op(&f.k, handle, AMDGPU_VA_OP_MAP, va, SIZE), -EINVAL);
	EXPECT_OK(fixture_fill(&f, &f.q, va, WORDS, 0xcccc));
	holds(bo->va, 0xcccc);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
	holds(va, 0xcccc);
	EXPECT_OK(va_op(&f.k, handle, AMDGPU_VA_OP_UNMAP, va, SIZE));
	EXPECT_OK(close_handle(&f.k, handle));
	holds(va, 0xcccc);
	munmap(va, SIZE);
	close(fd);
}

TEST(interprocess_communication_of_the_runtime)
{
	struct drm_amdgpu_gem_metadata set = { .data = { .flags = 7, .data_size_bytes = 16 } };
	struct fixture f;

	fixture_launch(&f);
	for (uint32_t i = 0; i < 4; i++)
		set.data.data[i] = 0x1000 + i;
	for (int i = 0; i < 2; i++) {
		struct kfd_bo *bo;
		struct other o;
		uint32_t handle;
		int fd, again;

		if (i && !f.k.node.large_bar)
			break;
		start(&o, ipc_importer);
		ASSERT_OK(kfd_bo_create(&f.k, SIZE, kinds[i], &bo));
		fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
		again = export_fd(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0 && again >= 0);
		handle = handle_of_fd(&f.k, fd);
		metadata(&f.k, handle, AMDGPU_GEM_METADATA_OP_SET_METADATA, &set);
		EXPECT_OK(close_handle(&f.k, handle));
		close(fd);
		send_fd(o.socket, again);
		close(again);
		finish(&o);
		holds(bo->va, 0xcccc);
		EXPECT_OK(kfd_bo_free(&f.k, bo));
	}
	EXPECT(fixture_works(&f));
}

/* As the runtime's virtual memory does it: memory without an address, addresses without memory, and one in the other. */
TEST(virtual_memory_of_the_runtime)
{
	uint64_t before;
	struct fixture f;

	fixture_launch(&f);
	if (!f.k.node.large_bar)
		SKIP("video memory has no place in the CPU's addresses");
	before = number(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (int round = 0; round < 3; round++) {
		struct kfd_ioctl_alloc_memory_of_gpu_args args = { .size = SIZE, .gpu_id = f.k.node.gpu_id,
			.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC };
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
			fd = export_fd(&f.k, args.handle, O_CLOEXEC);
			ASSERT(fd >= 0);
			gems[i] = handle_of_fd(&f.k, fd);
			close(fd);
			fd = export_fd(&f.k, args.handle, O_CLOEXEC);
			EXPECT_EQ(handle_of_fd(&f.k, fd), gems[i]);
			close(fd);
			EXPECT_OK(va_op(&f.k, gems[i], AMDGPU_VA_OP_MAP, va + i * SIZE, SIZE));
			map_handle(&f.k, gems[i], va + i * SIZE, SIZE);
		}
		/* Two buffers, one piece. */
		EXPECT_OK(fixture_fill(&f, &f.q, (uint32_t *)va, 2 * WORDS, 0x600d));
		holds((uint32_t *)va, 0x600d);
		holds((uint32_t *)(va + SIZE), 0x600d);
		/* The memory of the second one at a second address. */
		EXPECT_OK(va_op(&f.k, gems[1], AMDGPU_VA_OP_MAP, va + 2 * SIZE, SIZE));
		EXPECT_OK(fixture_fill(&f, &f.q, (uint32_t *)(va + 2 * SIZE), WORDS, 0x900d));
		holds((uint32_t *)(va + SIZE), 0x900d);
		/* The memory may go before the mapping: what is mapped stays. */
		freed.handle = handles[1];
		EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed));
		EXPECT_OK(fixture_fill(&f, &f.q, (uint32_t *)va, 2 * WORDS, 0xa00d));
		holds((uint32_t *)(va + SIZE), 0xa00d);
		for (int i = 0; i < 2; i++) {
			EXPECT_OK(va_op(&f.k, gems[i], AMDGPU_VA_OP_UNMAP, va + i * SIZE, SIZE));
			/* The other mapping goes with the handle. */
			EXPECT_OK(close_handle(&f.k, gems[i]));
		}
		/* The addresses are not used again: nobody says when the GPU has forgotten the mapping that went with the handle. */
		ASSERT(mmap(va, 4 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == va);
		freed.handle = handles[0];
		EXPECT_OK(kfd_ioctl(f.k.fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &freed));
	}
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 65536);
	EXPECT(fixture_works(&f));
}

static void child_imports(void *data)
{
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	bo = import(&f.k, *(int *)data, SIZE);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0x5555));
	/* The child ends with all that it has. */
}

TEST(a_forked_child_may_import)
{
	struct fixture f;
	struct kfd_bo *bo;
	int fd;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_GTT, &bo));
	fd = export_fd(&f.k, bo->handle, 0);
	ASSERT(fd >= 0);
	EXPECT_OK(ktap_in_child(child_imports, &fd));
	holds(bo->va, 0x5555);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0x6666));
	holds(bo->va, 0x6666);
}

/* Buffers of the render node go to /dev/kfd too, and back. */
TEST(render_buffers_can_be_imported)
{
	union drm_amdgpu_gem_create create = { .in = { .bo_size = SIZE, .alignment = 4096, .domains = AMDGPU_GEM_DOMAIN_GTT } };
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC | DRM_RDWR };
	struct kfd_bo *bo;
	struct fixture f;
	int fd;

	fixture_launch(&f);
	ASSERT_OK(kfd_ioctl(f.k.drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &create));
	prime.handle = create.out.handle;
	ASSERT_OK(kfd_ioctl(f.k.drm, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	bo = import(&f.k, prime.fd, SIZE);
	EXPECT_OK(close_handle(&f.k, create.out.handle));
	close(prime.fd);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0x4444));
	holds(bo->va, 0x4444);
	/* No handle of the render node and no descriptor is left: it is exported anew. */
	fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	EXPECT_OK(close_handle(&f.k, handle_of_fd(&f.k, fd)));
	close(fd);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
}

#define MIB (1ull << 20)
#define STEP (8 * MIB)

/* Writes to one place in each step of a buffer, and finds there what was written last. */
static void compute(struct fixture *f, struct kfd_bo *bo, uint32_t place, uint32_t n)
{
	for (uint32_t i = 0; i < bo->size / STEP; i++) {
		uint32_t *words = (uint32_t *)((char *)bo->va + i * STEP) + place;

		uint32_t last = n == 1 ? 0 : n - 1 + i;

		ASSERT(words[0] == last && words[63] == last, "round %u, step %u: %u, %u", n, i, words[0], words[63]);
		ASSERT_OK(fixture_fill(f, &f->q, words, 64, n + i));
		ASSERT(words[0] == n + i && words[63] == n + i, "round %u, step %u: %u, %u", n, i, words[0], words[63]);
	}
}

static void computes_too(int socket)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	struct kfd_bo *bo;
	struct fixture f;
	char c;
	int fd;

	fixture_launch(&f);
	fd = receive_fd(socket);
	ASSERT_OK(info(&f.k, fd, &args));
	bo = import(&f.k, fd, args.size);
	close(fd);
	tell(socket);
	for (uint32_t n = 1; recv(socket, &c, 1, MSG_DONTWAIT) < 0; n++)
		compute(&f, bo, 4096, n);
	EXPECT(evicted_ms(&f.k) > 0);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
	EXPECT(fixture_works(&f));
}

/* Takes more video memory than there is, by the render node, again and again. */
static void presses(int socket)
{
	static uint32_t handles[512];
	struct kfd k;
	uint32_t count;

	fixture_open_only(&k);
	ASSERT(hear(socket));
	count = (uint32_t)(5 * vram_bytes(&k) / 4 / STEP);
	ASSERT(count <= 512);
	for (int round = 0; round < 4; round++) {
		for (uint32_t i = 0; i < count; i++) {
			union drm_amdgpu_gem_create args = { .in = { .bo_size = STEP, .alignment = 4096,
								     .domains = AMDGPU_GEM_DOMAIN_VRAM } };

			ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
			handles[i] = args.out.handle;
		}
		usleep(300000);
		for (uint32_t i = 0; i < count; i++)
			EXPECT_OK(close_handle(&k, handles[i]));
	}
}

/* A shared buffer has to leave video memory: the queues of both processes stop, and no write is lost. */
TEST_TIMEOUT(shared_buffers_move, 240)
{
	struct other second, third;
	struct fixture f;
	struct kfd_bo *bo;
	uint64_t vram;
	int fd, status = -1;

	fixture_launch(&f);
	vram = vram_bytes(&f.k);
	if (vram > 1024 * MIB || !f.k.node.large_bar)
		SKIP("%llu MiB of video memory", (unsigned long long)(vram / MIB));
	start(&second, computes_too);
	start(&third, presses);
	ASSERT_OK(kfd_bo_create(&f.k, vram / 2 / STEP * STEP, KFD_FLAGS_VRAM, &bo));
	fd = export_fd(&f.k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	send_fd(second.socket, fd);
	close(fd);
	ASSERT(hear(second.socket));
	tell(third.socket);
	for (uint32_t n = 1; waitpid(third.pid, &status, WNOHANG) == 0; n++)
		compute(&f, bo, 0, n);
	EXPECT(status == 0, "status %#x", status);
	tell(second.socket);
	finish(&second);
	EXPECT(evicted_ms(&f.k) > 0);
	ktap_note("evicted for %llu ms", (unsigned long long)evicted_ms(&f.k));
	EXPECT_OK(kfd_bo_free(&f.k, bo));
	EXPECT(fixture_works(&f));
}
