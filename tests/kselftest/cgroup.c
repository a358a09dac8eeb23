// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests the device cgroup: a GPU whose render node it denies is hidden from /dev/kfd. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

#define ROOT "/tmp/kselftest-cgroup"
#define GROUP ROOT "/denied"
#define DRM_MAJOR 226

/* Creates a group that denies the render node of the GPU; skips without the controller. */
static void create_group(const struct kfd_node *node)
{
	char rule[64];

	mkdir(ROOT, 0755);
	if (access(ROOT "/cgroup.procs", F_OK) && mount("none", ROOT, "cgroup", 0, "devices"))
		SKIP("no device cgroup: %s", strerror(errno));
	ASSERT(mkdir(GROUP, 0755) == 0 || errno == EEXIST, "%s", strerror(errno));
	snprintf(rule, sizeof(rule), "c %u:%u rw", DRM_MAJOR, node->drm_render_minor);
	ASSERT_OK(write_file(GROUP "/devices.deny", rule));
}

/* Opens a file of the topology of a node; returns 0 or the negative errno of reading it. */
static int read_node(int node, const char *file)
{
	char path[256], byte;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/%s", node, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0, "%s: %s", path, strerror(errno));
	got = read(fd, &byte, 1);
	got = got < 0 ? -errno : 0;
	close(fd);
	return (int)got;
}

static void expect_node(int node, int ret)
{
	static const char *const files[] = { "gpu_id", "name", "properties", "mem_banks/0/properties",
					     "caches/0/properties", "io_links/0/properties" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		/* The C driver does not record the GPU of a cache (kfd_cache_properties.gpu). */
		bool hidden = ktap_is_rkfd() || strncmp(files[i], "caches", 6);
		int got = read_node(node, files[i]);

		EXPECT(got == (hidden ? ret : 0), "%s: %d", files[i], got);
	}
}

/* Returns the number of GPUs of the process. */
static uint32_t gpus(int kfd)
{
	struct kfd_ioctl_get_process_apertures_new_args args = { 0 };

	EXPECT_OK(kfd_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args));
	return args.num_of_nodes;
}

/* The node to be denied, and the number of GPUs before. */
struct subject {
	struct kfd_node node;
	uint32_t all;
};

static void denied(void *data)
{
	const struct subject *subject = data;
	const struct kfd_node *node = &subject->node;
	struct kfd_ioctl_get_available_memory_args available = { .gpu_id = node->gpu_id };
	char path[64];
	int kfd;

	ASSERT_OK(write_file(GROUP "/cgroup.procs", "0"));
	snprintf(path, sizeof(path), "/dev/dri/renderD%u", node->drm_render_minor);
	EXPECT(open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EPERM, "%s", strerror(errno));
	expect_node(node->index, -EPERM);
	EXPECT_OK(read_node(0, "properties"));
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (subject->all == 1) {
		EXPECT(kfd < 0 && errno == EINVAL, "%s", strerror(errno));
		return;
	}
	ASSERT(kfd >= 0, "%s", strerror(errno));
	EXPECT_EQ(gpus(kfd), subject->all - 1);
	EXPECT_RET(kfd_ioctl(kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &available), -EINVAL);
	close(kfd);
}

static void permitted(void *data)
{
	struct subject *subject = data;
	struct kfd k;

	fixture_open(&k);
	subject->node = k.node;
	subject->all = gpus(k.fd);
	EXPECT(subject->all > 0);
	expect_node(k.node.index, 0);
}

TEST(gpu_is_hidden)
{
	struct subject *subject = mmap(NULL, sizeof(*subject), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(subject != MAP_FAILED);
	ASSERT_OK(ktap_in_child(permitted, subject));
	create_group(&subject->node);
	EXPECT_OK(ktap_in_child(denied, subject));
	EXPECT_OK(ktap_in_child(permitted, subject));
}

/* A process that has the GPU keeps it, but cannot open the device again without another one. */
TEST(open_gpu_stays)
{
	struct fixture f;
	int again;

	fixture_launch(&f);
	create_group(&f.k.node);
	ASSERT_OK(write_file(GROUP "/cgroup.procs", "0"));
	EXPECT_RET(read_node(f.k.node.index, "properties"), -EPERM);
	EXPECT(fixture_works(&f));
	EXPECT(gpus(f.k.fd) > 0);
	again = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	if (gpus(f.k.fd) == 1)
		EXPECT(again < 0 && errno == EINVAL, "%s", strerror(errno));
	close(again);
	ASSERT_OK(write_file(ROOT "/cgroup.procs", "0"));
}
