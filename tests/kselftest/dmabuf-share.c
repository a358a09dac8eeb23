// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests BOs shared between processes as DMA buffers, as the runtime's IPC does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "dmabuf.h"

/* Larger than the granularity of AVAILABLE_MEMORY. */
#define MUCH (4u << 20)
#define MIB (1ull << 20)
#define STEP (8 * MIB)

static void notify_peer(int socket)
{
	ASSERT(write(socket, "", 1) == 1);
}

static bool wait_peer(int socket)
{
	char c;

	return read(socket, &c, 1) == 1;
}

/* A child process with a socket to this one. */
struct other {
	pid_t pid;
	int socket;
};

static void start(struct other *o, void (*run)(int socket))
{
	int ends[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	o->pid = fork_child();
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

static void importer(int socket)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	struct kfd_bo *bo;
	struct fixture f;
	int fd;

	fixture_launch(&f);
	fd = receive_fd(socket);
	ASSERT_OK(dmabuf_info(&f.k, fd, &args));
	EXPECT_EQ(args.size, SIZE);
	bo = dmabuf_import(&f.k, fd, SIZE);
	close(fd);
	holds(bo->va, 0xaaaa);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xbbbb));
	notify_peer(socket);
	/* The exporter has released the BO. */
	wait_peer(socket);
	holds(bo->va, 0xcccc);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xdddd));
	holds(bo->va, 0xdddd);
	/* Re-export works. */
	fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
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
	fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xaaaa));
	send_fd(socket, fd);
	ASSERT(wait_peer(socket));
	holds(bo->va, 0xbbbb);
	ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xcccc));
}

TEST(import_in_another_process)
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
		fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0);
		send_fd(o.socket, fd);
		close(fd);
		ASSERT(wait_peer(o.socket));
		holds(bo->va, 0xbbbb);
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xcccc));
		EXPECT_OK(kfd_bo_free(&f.k, bo));
		notify_peer(o.socket);
		finish(&o);
	}
	EXPECT(fixture_works(&f));
}

/* The exporter exits or is killed; the importer keeps the memory. */
TEST(exporter_exits_first)
{
	struct fixture f;
	uint64_t before, available, now;

	fixture_launch(&f);
	if (!f.k.node.large_bar)
		SKIP("VRAM is not mapped by the BAR");
	before = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
	ASSERT_OK(kfd_available(&f.k, &available));
	for (int i = 0; i < 2; i++) {
		struct kfd_bo *bo;
		struct other o;
		int fd;

		start(&o, exporter);
		fd = receive_fd(o.socket);
		bo = dmabuf_import(&f.k, fd, MUCH);
		if (i)
			close(fd);
		holds(bo->va, 0xaaaa);
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xbbbb));
		if (i)
			kill(o.pid, SIGKILL);
		else
			notify_peer(o.socket);
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
		/* The memory still counts as used. */
		EXPECT_OK(kfd_available(&f.k, &now));
		EXPECT(now < available, "%#llx", (unsigned long long)now);
		EXPECT_OK(kfd_bo_free(&f.k, bo));
	}
	/* Page tables may stay allocated. */
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 65536);
	EXPECT_OK(kfd_available(&f.k, &now));
	EXPECT_EQ(now, available);
}

static void dying(int socket)
{
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	bo = dmabuf_import(&f.k, receive_fd(socket), SIZE);
	notify_peer(socket);
	for (uint32_t n = 0;; n++)
		ASSERT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, n));
}

TEST_TIMEOUT(kill_importer, 120)
{
	struct fixture f;
	uint64_t before;
	int fd;

	fixture_launch(&f);
	before = amdgpu_info(&f.k, AMDGPU_INFO_VRAM_USAGE);
	for (unsigned int i = 0; i < 4; i++) {
		struct kfd_bo *bo;
		struct other o;

		start(&o, dying);
		ASSERT_OK(kfd_bo_create(&f.k, SIZE, kinds[i & f.k.node.large_bar], &bo));
		fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
		ASSERT(fd >= 0, "%d", fd);
		send_fd(o.socket, fd);
		close(fd);
		ASSERT(wait_peer(o.socket));
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
	/* Page tables may stay allocated. */
	expect_usage(&f.k, AMDGPU_INFO_VRAM_USAGE, before + 65536);
	EXPECT(fixture_works(&f));
}

/* As the runtime's IPC does: metadata attached to the BO identifies stale handles. */
static void ipc_importer(int socket)
{
	struct drm_amdgpu_gem_create_in made;
	struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
					.value = kfd_va(&made) };
	struct drm_amdgpu_gem_metadata get = { 0 };
	struct kfd_ioctl_get_dmabuf_info_args args = { 0 };
	uint32_t key[4] = { 0 }, handle;
	struct kfd_bo *bo;
	struct fixture f;
	void *va;
	int fd;

	fixture_launch(&f);
	fd = receive_fd(socket);
	/* Metadata buffer too small: the ioctl returns the required size. */
	args.metadata_ptr = kfd_va(key);
	args.metadata_size = 8;
	EXPECT_RET(dmabuf_info(&f.k, fd, &args), -EINVAL);
	EXPECT_EQ(args.metadata_size, sizeof(key));
	EXPECT_OK(dmabuf_info(&f.k, fd, &args));
	EXPECT_EQ(args.metadata_size, sizeof(key));
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(key[i], 0x1000 + i);
	args.metadata_ptr = KERNEL_ADDRESS;
	EXPECT_RET(dmabuf_info(&f.k, fd, &args), -EFAULT);
	args.metadata_ptr = 0;
	EXPECT_OK(dmabuf_info(&f.k, fd, &args));
	bo = dmabuf_import(&f.k, fd, SIZE);
	handle = handle_of_fd(&f.k, fd);
	EXPECT_EQ(handle_of_fd(&f.k, fd), handle);
	metadata(&f.k, handle, AMDGPU_GEM_METADATA_OP_GET_METADATA, &get);
	EXPECT_EQ(get.data.data_size_bytes, sizeof(key));
	EXPECT(memcmp(get.data.data, key, sizeof(key)) == 0);
	EXPECT_EQ(get.data.flags, 7);
	op.handle = handle;
	EXPECT_OK(kfd_ioctl(f.k.drm, DRM_IOCTL_AMDGPU_GEM_OP, &op));
	EXPECT_EQ(made.bo_size, SIZE);
	EXPECT_EQ(made.domains, args.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? AMDGPU_GEM_DOMAIN_VRAM :
									    AMDGPU_GEM_DOMAIN_GTT);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0xbbbb));
	/* System memory takes the other path: the render node alone. */
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

TEST(runtime_ipc)
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
		fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
		again = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
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

static void child_imports(void *data)
{
	struct kfd_bo *bo;
	struct fixture f;

	fixture_launch(&f);
	bo = dmabuf_import(&f.k, *(int *)data, SIZE);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0x5555));
	/* The child exits with all its state. */
}

TEST(import_in_forked_child)
{
	struct fixture f;
	struct kfd_bo *bo;
	int fd;

	fixture_launch(&f);
	ASSERT_OK(kfd_bo_create(&f.k, SIZE, KFD_FLAGS_GTT, &bo));
	fd = dmabuf_export(&f.k, bo->handle, 0);
	ASSERT(fd >= 0);
	EXPECT_OK(ktap_in_child(child_imports, &fd));
	holds(bo->va, 0x5555);
	EXPECT_OK(fixture_fill(&f, &f.q, bo->va, WORDS, 0x6666));
	holds(bo->va, 0x6666);
}

/* Writes one location per step of a buffer and checks the value written last. */
static void compute(struct fixture *f, struct kfd_bo *bo, uint32_t place, uint32_t n)
{
	for (uint32_t i = 0; i < bo->size / STEP; i++) {
		uint32_t *words = (uint32_t *)((char *)bo->va + i * STEP) + place;

		uint32_t last = n == 1 ? 0 : n - 1 + i;

		ASSERT(words[0] == last && words[63] == last, "round %u, step %u: %u, %u", n, i,
		       words[0], words[63]);
		ASSERT_OK(fixture_fill(f, &f->q, words, 64, n + i));
		/* Leave processors to the process that allocates. */
		usleep(PAUSE_US);
		ASSERT(words[0] == n + i && words[63] == n + i, "round %u, step %u: %u, %u", n, i,
		       words[0], words[63]);
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
	ASSERT_OK(dmabuf_info(&f.k, fd, &args));
	bo = dmabuf_import(&f.k, fd, args.size);
	close(fd);
	notify_peer(socket);
	for (uint32_t n = 1; recv(socket, &c, 1, MSG_DONTWAIT) < 0; n++)
		compute(&f, bo, 4096, n);
	EXPECT(evicted_ms(&f.k) > 0);
	EXPECT_OK(kfd_bo_free(&f.k, bo));
	EXPECT(fixture_works(&f));
}

/* Allocates more VRAM than there is, from the render node, repeatedly. */
static void presses(int socket)
{
	static uint32_t handles[512];
	struct kfd k;
	uint32_t count;

	fixture_open_only(&k);
	ASSERT(wait_peer(socket));
	count = (uint32_t)(5 * vram_bytes(&k) / 4 / STEP);
	ASSERT(count <= 512);
	for (unsigned int round = 0; round < ktap_repeats(4, 2); round++) {
		for (uint32_t i = 0; i < count; i++) {
			union drm_amdgpu_gem_create args = {
				.in = { .bo_size = STEP,
					.alignment = 4096,
					.domains = AMDGPU_GEM_DOMAIN_VRAM }
			};

			ASSERT_OK(kfd_ioctl(k.drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &args));
			handles[i] = args.out.handle;
		}
		usleep(300000);
		for (uint32_t i = 0; i < count; i++)
			EXPECT_OK(close_handle(&k, handles[i]));
	}
}

/* A shared BO is evicted from VRAM: the queues of both processes stop, no write is lost. */
TEST_TIMEOUT(evict_shared_bo, 240)
{
	struct other second, third;
	struct fixture f;
	struct kfd_bo *bo;
	uint64_t rest;
	int fd, status = -1;

	fixture_launch(&f);
	/* Each of the two queues has a save area. */
	rest = small_vram_bytes(&f.k) - 2 * kfd_cwsr_bytes(&f.k.node);
	start(&second, computes_too);
	start(&third, presses);
	ASSERT_OK(kfd_bo_create(&f.k, rest / 2 / STEP * STEP, KFD_FLAGS_VRAM, &bo));
	fd = dmabuf_export(&f.k, bo->handle, O_CLOEXEC);
	ASSERT(fd >= 0);
	send_fd(second.socket, fd);
	close(fd);
	ASSERT(wait_peer(second.socket));
	notify_peer(third.socket);
	for (uint32_t n = 1; waitpid(third.pid, &status, WNOHANG) == 0; n++)
		compute(&f, bo, 0, n);
	EXPECT(status == 0, "status %#x", status);
	notify_peer(second.socket);
	finish(&second);
	EXPECT(evicted_ms(&f.k) > 0);
	ktap_note("evicted for %llu ms", (unsigned long long)evicted_ms(&f.k));
	EXPECT_OK(kfd_bo_free(&f.k, bo));
	EXPECT(fixture_works(&f));
}
