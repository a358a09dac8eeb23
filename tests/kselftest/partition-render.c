// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tests the render nodes of compute partitions: which of them open in which mode, the nodes of KFD
 * that name them, and memory, queries and jobs of their files. All tests leave the GPU in mode SPX.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/sync_file.h>

#include "cs.h"
#include "device.h"
#include "listen.h"
#include "modes.h"
#include "svm.h"

/* The nodes of the mode that is set. */
static struct kfd_node nodes[MODE_MAX_NODES + 1];
static int count;

static void find_nodes(void)
{
	count = mode_nodes(nodes);
	ASSERT(count > 0);
}

static int set_mode(const char *mode)
{
	int ret = mode_set(mode);

	if (!ret)
		find_nodes();
	return ret;
}

/* Skips the test on a GPU without the modes CPX and DPX, or sets `mode`. */
static void begin(const char *mode)
{
	mode_need("DPX");
	ASSERT_OK(set_mode(mode));
}

static int open_minor(uint32_t minor)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Opens the render node that a node names; ends the test on failure. */
static int open_node(int index)
{
	int fd = open_minor(nodes[index].drm_render_minor);

	ASSERT(fd >= 0, "renderD%u: %s", nodes[index].drm_render_minor, strerror(-fd));
	return fd;
}

TEST(render_node_of_each_node)
{
	uint32_t spx;
	struct stat s;
	char path[96];
	int fd;

	begin("SPX");
	spx = nodes[0].drm_render_minor;
	ASSERT_OK(set_mode("CPX"));
	EXPECT_EQ(nodes[0].drm_render_minor, spx);
	for (int i = 0; i < count; i++) {
		uint32_t minor = nodes[i].drm_render_minor;

		for (int other = 0; other < i; other++)
			EXPECT(minor != nodes[other].drm_render_minor, "%u and %u", i, other);
		snprintf(path, sizeof(path), "/sys/dev/char/226:%u/device/drm/renderD%u", minor, minor);
		EXPECT(!access(path, F_OK), "%s", path);
		fd = open_node(i);
		EXPECT(!fstat(fd, &s) && S_ISCHR(s.st_mode));
		close(fd);
	}
	/* The first node is that of the PCI device, the others are those of platform devices. */
	for (int i = 0; i < count; i++) {
		char target[256];
		ssize_t n;

		snprintf(path, sizeof(path), "/sys/dev/char/226:%u/device/subsystem",
			 nodes[i].drm_render_minor);
		n = readlink(path, target, sizeof(target) - 1);
		ASSERT(n > 0, "%s", path);
		target[n] = 0;
		EXPECT(!strcmp(basename(target), i ? "platform" : "pci"), "%s", target);
	}
	mode_end();
}

TEST(partition_beyond_the_mode_is_enoent)
{
	uint32_t minors[MODE_MAX_NODES];
	int all, fd;

	begin("CPX");
	all = count;
	for (int i = 0; i < all; i++)
		minors[i] = nodes[i].drm_render_minor;
	for (int in_use = 2; in_use; in_use--) {
		ASSERT_OK(set_mode(in_use == 2 ? "DPX" : "SPX"));
		ASSERT_EQ(count, in_use);
		for (int i = 0; i < all; i++) {
			fd = open_minor(minors[i]);
			if (i < in_use)
				EXPECT(fd >= 0, "renderD%u: %s", minors[i], strerror(-fd));
			else
				EXPECT_RET(fd, -ENOENT);
			if (fd >= 0)
				close(fd);
		}
	}
	mode_end();
}

static int acquire(struct kfd *k, int node, int fd)
{
	struct kfd_ioctl_acquire_vm_args args = { .drm_fd = (uint32_t)fd,
						  .gpu_id = nodes[node].gpu_id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_ACQUIRE_VM, &args);
}

static uint64_t alloc_vram(struct kfd *k, int node, uint64_t size)
{
	static uint64_t next = 0x200000000ull;
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { .va_addr = next,
							   .size = size,
							   .gpu_id = nodes[node].gpu_id,
							   .flags = KFD_FLAGS_VRAM };

	next += size;
	ASSERT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args));
	return args.handle;
}

/* Runs `test` in a child, so that the mode can be set afterwards. */
static void in_child(void (*test)(void *unused))
{
	EXPECT_OK(ktap_in_child(test, NULL));
}

static void acquires_all(void *unused)
{
	int fds[MODE_MAX_NODES];
	struct kfd k;

	(void)unused;
	ASSERT_OK(kfd_open_device(&k));
	for (int i = 0; i < count; i++)
		fds[i] = open_node(i);
	for (int i = 0; i < count; i++)
		EXPECT_OK(acquire(&k, i, fds[i]));
	for (int i = 0; i < count; i++) {
		EXPECT_OK(acquire(&k, i, fds[i]));
		EXPECT_RET(acquire(&k, i, fds[(i + 1) % count]), -EBUSY);
	}
}

/* As the runtime does: a file for each node. */
TEST(acquire_vm_on_all_nodes)
{
	begin("CPX");
	in_child(acquires_all);
	mode_end();
}

/* A file has one address space, which one node acquires, not necessarily that of its partition. */
static void acquires_other(void *unused)
{
	int first = open_node(0), second = open_node(1);
	uint64_t before[2];
	struct kfd k;

	(void)unused;
	ASSERT_OK(kfd_open_device(&k));
	EXPECT_OK(acquire(&k, 0, second));
	EXPECT_RET(acquire(&k, 1, second), -EINVAL);
	EXPECT_OK(acquire(&k, 1, first));
	/* The partition of the file is charged. */
	for (int i = 0; i < 2; i++)
		before[i] = mode_available(&k, &nodes[i]);
	alloc_vram(&k, 0, 64 << 20);
	EXPECT_EQ(mode_available(&k, &nodes[0]), before[0]);
	EXPECT_EQ(mode_available(&k, &nodes[1]), before[1] - (64 << 20));
	alloc_vram(&k, 1, 32 << 20);
	EXPECT_EQ(mode_available(&k, &nodes[0]), before[0] - (32 << 20));
	EXPECT_EQ(mode_available(&k, &nodes[1]), before[1] - (64 << 20));
}

TEST(acquire_vm_with_file_of_another_partition)
{
	begin("CPX");
	in_child(acquires_other);
	mode_end();
}

static void prime(int fd, uint32_t *handle, int *buf)
{
	struct drm_prime_handle args = { .handle = *handle, .fd = *buf, .flags = DRM_RDWR };

	if (*buf < 0) {
		ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args));
		*buf = args.fd;
	} else {
		ASSERT_OK(kfd_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args));
		*handle = args.handle;
	}
}

/* Acquires the address spaces of the first two nodes, with one file of `/dev/kfd`. */
static void acquire_two(struct kfd k[2])
{
	ASSERT_OK(kfd_open_device(&k[0]));
	k[1] = k[0];
	for (int i = 0; i < 2; i++) {
		k[i].node = nodes[i];
		ASSERT_OK(acquire(&k[i], i, open_node(i)));
	}
}

/* Memory in the VRAM of the second node comes back. */
static void moves_back(void *unused)
{
	const size_t pages = 64, size = pages * KFD_PAGE;
	char wanted[64];
	const char *text;
	struct kfd k[2];
	int events[2];
	char *p;

	(void)unused;
	acquire_two(k);
	for (int i = 0; i < 2; i++)
		events[i] = listen_to_svm(&k[i]);
	p = anonymous(size);
	memset(p, 1, size);
	ASSERT_OK(svm_set(&k[1], p, size, { KFD_IOCTL_SVM_ATTR_ACCESS, nodes[1].gpu_id },
			  { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, nodes[1].gpu_id }));
	ASSERT_OK(svm_set(&k[1], p, size, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0 }));
	for (size_t i = 0; i < 2; i++) {
		EXPECT_EQ(process_number(&k[i], "counters", "page_in"), i * pages);
		EXPECT_EQ(process_number(&k[i], "counters", "page_out"), i * pages);
	}
	EXPECT_EQ(listen_count(listen_lines(events[0], 300), KFD_SMI_EVENT_MIGRATE_START), 0);
	text = listen_lines(events[1], 300);
	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_MIGRATE_START), 2);
	snprintf(wanted, sizeof(wanted), " %x->0 %d 0\n", nodes[1].gpu_id,
		 KFD_MIGRATE_TRIGGER_PREFETCH);
	EXPECT(strstr(text, wanted) != NULL, "no%s in %s", wanted, text);
}

/* Migrations to system memory are counted and reported on the node of the VRAM. */
TEST(memory_comes_back_from_its_node)
{
	begin("CPX");
	in_child(moves_back);
	mode_end();
}

/* Expects that a migration of an event was the only one of a node. */
static void expect_move(int events, uint32_t from, uint32_t to)
{
	const char *text = listen_lines(events, 300);
	char wanted[64];

	EXPECT_EQ(listen_count(text, KFD_SMI_EVENT_MIGRATE_START), 1);
	snprintf(wanted, sizeof(wanted), " %x->%x %d 0\n", from, to, KFD_MIGRATE_TRIGGER_PREFETCH);
	EXPECT(strstr(text, wanted) != NULL, "no%s in %s", wanted, text);
}

/* Memory in the VRAM of the second node, half of which is prefetched to the first. */
static void moves_across(void *unused)
{
	const size_t pages = 64, size = pages * KFD_PAGE;
	struct kfd k[2];
	int events[2];
	uint32_t *p;

	(void)unused;
	acquire_two(k);
	p = (uint32_t *)anonymous(size);
	for (size_t i = 0; i < size / 4; i++)
		p[i] = (uint32_t)i * 3 + 1;
	ASSERT_OK(svm_set(&k[1], p, size, { KFD_IOCTL_SVM_ATTR_ACCESS, nodes[0].gpu_id },
			  { KFD_IOCTL_SVM_ATTR_ACCESS, nodes[1].gpu_id },
			  { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, nodes[1].gpu_id }));
	EXPECT_EQ(process_number(&k[1], "counters", "page_in"), pages);
	for (int i = 0; i < 2; i++)
		events[i] = listen_to_svm(&k[i]);
	ASSERT_OK(svm_set(&k[0], p, size / 2, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, nodes[0].gpu_id }));
	EXPECT_EQ(process_number(&k[1], "counters", "page_out"), pages / 2);
	EXPECT_EQ(process_number(&k[0], "counters", "page_in"), pages / 2);
	expect_move(events[1], nodes[1].gpu_id, 0);
	expect_move(events[0], 0, nodes[0].gpu_id);
	/* What is there stays there. */
	ASSERT_OK(svm_set(&k[0], p, size / 2, { KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, nodes[0].gpu_id }));
	EXPECT_EQ(process_number(&k[0], "counters", "page_out"), 0);
	EXPECT_EQ(process_number(&k[0], "counters", "page_in"), pages / 2);
	for (size_t i = 0; i < size / 4; i++)
		ASSERT(p[i] == i * 3 + 1, "word %zu: %#x", i, p[i]);
	EXPECT_EQ(process_number(&k[0], "counters", "page_out") +
			  process_number(&k[1], "counters", "page_out"),
		  pages + pages / 2);
}

/* A prefetch moves memory between nodes of a card, by way of system memory. */
TEST(prefetch_moves_memory_of_another_node)
{
	begin("CPX");
	in_child(moves_across);
	mode_end();
}

static uint32_t gpu_id_of(struct kfd *k, int buf)
{
	struct kfd_ioctl_get_dmabuf_info_args args = { .dmabuf_fd = (uint32_t)buf };

	EXPECT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_GET_DMABUF_INFO, &args));
	EXPECT_EQ(args.size, BO_BYTES);
	return args.gpu_id;
}

static void shares(void *unused)
{
	int fd[2] = { open_node(0), open_node(1) };
	struct kfd k;

	(void)unused;
	ASSERT_OK(kfd_open_device(&k));
	EXPECT_OK(acquire(&k, 0, open_node(0)));
	EXPECT_OK(acquire(&k, 1, open_node(1)));
	for (int i = 0; i < 2; i++) {
		struct kfd_ioctl_export_dmabuf_args args = { .flags = O_CLOEXEC };
		uint32_t handle, other;
		volatile uint32_t *words, *others;
		int buf = -1;

		/* The files of all partitions are files of one device. */
		ASSERT_OK(cs_bo_create(fd[i], BO_BYTES, AMDGPU_GEM_DOMAIN_VRAM,
				       AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, &handle));
		prime(fd[i], &handle, &buf);
		prime(fd[!i], &other, &buf);
		words = cs_bo_map(fd[i], handle, BO_BYTES);
		words[5] = 0x12345678;
		others = cs_bo_map(fd[!i], other, BO_BYTES);
		EXPECT_EQ(others[5], 0x12345678);
		EXPECT_EQ(gpu_id_of(&k, buf), nodes[i].gpu_id);
		close(buf);
		/* VRAM of KFD has the partition of its file, too. */
		args.handle = alloc_vram(&k, i, BO_BYTES);
		EXPECT_OK(kfd_ioctl(k.fd, AMDKFD_IOC_EXPORT_DMABUF, &args));
		EXPECT_EQ(gpu_id_of(&k, (int)args.dmabuf_fd), nodes[i].gpu_id);
		close((int)args.dmabuf_fd);
	}
}

TEST(buffers_of_partitions)
{
	begin("CPX");
	in_child(shares);
	mode_end();
}

static uint32_t ip_count(int fd, uint32_t type)
{
	uint32_t n = ~0u;
	struct drm_amdgpu_info request = { .return_pointer = kfd_va(&n),
					   .return_size = sizeof(n),
					   .query = AMDGPU_INFO_HW_IP_COUNT };

	request.query_hw_ip.type = type;
	EXPECT_OK(kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &request));
	return n;
}

static uint32_t engines(const struct kfd_node *node)
{
	return node->num_sdma_engines + node->num_sdma_xgmi_engines;
}

static int open_primary(void)
{
	char path[300];
	struct dirent *e;
	int fd = -1;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/dev/char/226:%u/device/drm", nodes[0].drm_render_minor);
	d = opendir(path);
	ASSERT(d != NULL, "%s", path);
	while (fd < 0 && (e = readdir(d))) {
		if (strncmp(e->d_name, "card", 4))
			continue;
		snprintf(path, sizeof(path), "/dev/dri/%s", e->d_name);
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	closedir(d);
	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

/* Counts of instances are those of the partition. */
TEST(instances_of_a_partition)
{
	static const char *const modes[] = { "SPX", "DPX", "CPX" };
	uint32_t all;
	int fd;

	begin("SPX");
	all = engines(&nodes[0]);
	for (int m = 0; m < 3; m++) {
		ASSERT_OK(set_mode(modes[m]));
		for (int i = 0; i < count; i++) {
			fd = open_node(i);
			EXPECT_EQ(ip_count(fd, AMDGPU_HW_IP_COMPUTE), nodes[i].num_xcc);
			EXPECT_EQ(ip_count(fd, AMDGPU_HW_IP_GFX), nodes[i].num_xcc);
			EXPECT_EQ(ip_count(fd, AMDGPU_HW_IP_DMA), all / (uint32_t)count);
			close(fd);
		}
		/* A file of the primary node has no partition. */
		fd = open_primary();
		EXPECT_EQ(ip_count(fd, AMDGPU_HW_IP_COMPUTE), 1);
		EXPECT_EQ(ip_count(fd, AMDGPU_HW_IP_DMA), all);
		close(fd);
	}
	mode_end();
}

static void run_jobs(struct cs *cs, int n)
{
	uint64_t job;

	for (int i = 0; i < n; i++) {
		cs->data.words[0] = 0;
		ASSERT_OK(cs_run(cs, 0, cs_write(cs, cs->data.va, 0x1000u + (uint32_t)i), &job));
		cs_done(cs, 0, job);
		EXPECT_EQ(cs->data.words[0], 0x1000u + (uint32_t)i);
	}
}

/* Returns the SDMA engine of a pending job, from the name of its fence's timeline. */
static uint32_t engine_of(struct cs *cs, uint64_t job)
{
	union drm_amdgpu_fence_to_handle args = { 0 };
	struct sync_fence_info fence = { 0 };
	struct sync_file_info info = { .num_fences = 1, .sync_fence_info = kfd_va(&fence) };
	unsigned int aid, instance;

	args.in.fence.ctx_id = cs->ctx;
	args.in.fence.ip_type = AMDGPU_HW_IP_DMA;
	args.in.fence.seq_no = job;
	args.in.what = AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD;
	ASSERT_OK(kfd_ioctl(cs->fd, DRM_IOCTL_AMDGPU_FENCE_TO_HANDLE, &args));
	ASSERT_OK(kfd_ioctl((int)args.out.handle, SYNC_IOC_FILE_INFO, &info));
	close((int)args.out.handle);
	ASSERT(sscanf(fence.obj_name, "sdma%u.%u", &aid, &instance) == 2, "%s", fence.obj_name);
	return aid * 4 + instance;
}

/* Jobs run on the SDMA engines of the partition of the file, and on all of them. */
TEST(jobs_run_on_engines_of_the_partition)
{
	begin("CPX");
	for (int i = 0; i < count; i++) {
		uint32_t each = engines(&nodes[i]), mask = ((1u << each) - 1) << (each * (uint32_t)i);
		uint32_t used = 0, ctx[8];
		uint64_t job[8];
		struct cs cs;

		cs_open_on(&cs, open_node(i));
		for (int n = 0; n < 8; n++) {
			ASSERT_OK(cs_ctx_alloc(cs.fd, &cs.ctx));
			ctx[n] = cs.ctx;
			ASSERT_OK(cs_run(&cs, 0, cs_poll(&cs, cs.data.va, 1), &job[n]));
			used |= 1u << engine_of(&cs, job[n]);
		}
		EXPECT(used == mask, "node %d: engines %#x, not %#x", i, used, mask);
		cs.data.words[0] = 1;
		for (int n = 0; n < 8; n++) {
			cs.ctx = ctx[n];
			cs_done(&cs, 0, job[n]);
		}
		close(cs.fd);
	}
	mode_end();
}

/* A render node that is open does not prevent a switch. The file keeps its partition. */
TEST(file_of_a_partition_that_ended)
{
	struct cs cs;
	uint32_t all;
	uint64_t job;

	begin("SPX");
	all = engines(&nodes[0]);
	ASSERT_OK(set_mode("CPX"));
	cs_open_on(&cs, open_node(count - 1));
	ASSERT_OK(set_mode("SPX"));
	EXPECT_EQ(ip_count(cs.fd, AMDGPU_HW_IP_COMPUTE), 1);
	EXPECT_EQ(ip_count(cs.fd, AMDGPU_HW_IP_DMA), all);
	EXPECT_RET(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 1), &job), -ENODEV);
	cs.data.words[0] = 7;
	EXPECT_EQ(cs.data.words[0], 7);
	ASSERT_OK(set_mode("CPX"));
	run_jobs(&cs, 2);
	close(cs.fd);
	mode_end();
}

/* Runs a job and returns its SDMA engine. */
static uint32_t run_and_find(struct cs *cs)
{
	uint32_t engine;
	uint64_t job;

	cs->data.words[0] = 0;
	ASSERT_OK(cs_run(cs, 0, cs_poll(cs, cs->data.va, 1), &job));
	engine = engine_of(cs, job);
	cs->data.words[0] = 1;
	cs_done(cs, 0, job);
	return engine;
}

/* A ring that was used before the switch keeps its engines. */
TEST(ring_of_a_partition_that_ended)
{
	uint32_t each, last;
	struct cs cs;

	begin("CPX");
	each = engines(&nodes[0]);
	last = (uint32_t)count - 1;
	cs_open_on(&cs, open_node(count - 1));
	EXPECT_EQ(run_and_find(&cs) / each, last);
	ASSERT_OK(set_mode("SPX"));
	EXPECT_EQ(run_and_find(&cs) / each, last);
	run_jobs(&cs, 1);
	close(cs.fd);
	mode_end();
}

/* Files of the primary node get the partitions with the fewest rings in use. */
TEST(primary_node_gets_the_least_used_partition)
{
	struct cs cs[MODE_MAX_NODES + 1];
	uint32_t each;

	begin("CPX");
	each = engines(&nodes[0]);
	/* The last file finds all partitions in equal use. */
	for (int i = 0; i <= count; i++) {
		cs_open_on(&cs[i], open_primary());
		EXPECT_EQ(run_and_find(&cs[i]) / each, i % count);
	}
	for (int i = 0; i <= count; i++)
		close(cs[i].fd);
	mode_end();
}

/* A file without a partition gets one with its first job. */
TEST(primary_node_gets_a_partition)
{
	uint32_t all;
	struct cs cs;

	begin("SPX");
	all = engines(&nodes[0]);
	ASSERT_OK(set_mode("CPX"));
	cs_open_on(&cs, open_primary());
	EXPECT_EQ(ip_count(cs.fd, AMDGPU_HW_IP_DMA), all);
	run_jobs(&cs, 1);
	EXPECT_EQ(ip_count(cs.fd, AMDGPU_HW_IP_DMA), engines(&nodes[0]));
	EXPECT_EQ(ip_count(cs.fd, AMDGPU_HW_IP_COMPUTE), 1);
	close(cs.fd);
	mode_end();
}

/* Files outlive the driver's binding, and their minors. A probe starts with SPX. */
TEST(unbind_with_files_open)
{
	uint32_t minors[MODE_MAX_NODES];
	struct cs_ib ib[2];
	struct cs cs[2];
	char path[64];
	uint64_t job;
	int all, fd;

	begin("CPX");
	device_find();
	all = count;
	for (int i = 0; i < all; i++)
		minors[i] = nodes[i].drm_render_minor;
	for (int i = 0; i < 2; i++) {
		cs_open_on(&cs[i], open_node(i * (count - 1)));
		run_jobs(&cs[i], 1);
		/* An unbind zaps the mapping. */
		ib[i] = cs_write(&cs[i], cs[i].data.va, 1);
	}
	ASSERT_OK(device_unbind());
	for (int i = 0; i < 2; i++)
		EXPECT_RET(cs_run(&cs[i], 0, ib[i], &job), -ENODEV);
	for (int i = 0; i < all; i++) {
		snprintf(path, sizeof(path), "/sys/dev/char/226:%u", minors[i]);
		EXPECT(access(path, F_OK), "%s", path);
		EXPECT_RET(open_minor(minors[i]), -ENOENT);
	}
	EXPECT(access("/sys/bus/platform/devices/amdgpu_xcp_0", F_OK));
	ASSERT_OK(device_bind());
	find_nodes();
	EXPECT_EQ(count, 1);
	/* The minors are in use until the files are closed. */
	EXPECT(nodes[0].drm_render_minor != minors[0], "renderD%u", minors[0]);
	for (int i = 0; i < 2; i++) {
		/* A mapping refers to the file, too. */
		munmap((void *)cs[i].code.words, BO_BYTES);
		munmap((void *)cs[i].data.words, BO_BYTES);
		close(cs[i].fd);
	}
	ASSERT_OK(device_unbind());
	ASSERT_OK(device_bind());
	find_nodes();
	EXPECT_EQ(nodes[0].drm_render_minor, minors[0]);
	ASSERT_OK(set_mode("CPX"));
	ASSERT_EQ(count, all);
	for (int i = 0; i < count; i++)
		EXPECT_EQ(nodes[i].drm_render_minor, minors[i]);
	for (int i = 0; i < count; i++) {
		fd = open_node(i);
		EXPECT_EQ(ip_count(fd, AMDGPU_HW_IP_COMPUTE), 1);
		close(fd);
	}
	mode_end();
}
