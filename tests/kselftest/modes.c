// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Reads and sets partition modes of the GPU, see modes.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device.h"
#include "modes.h"

static char folder[96];

int mode_nodes(struct kfd_node *nodes)
{
	int count = 0;

	for (int i = 0; i < MODE_MAX_NODES; i++) {
		if (kfd_topology_node(i, &nodes[count]))
			break;
		count += nodes[count].gpu_id != 0;
	}
	return count;
}

const char *mode_file(const char *name)
{
	static char text[128];
	char path[160];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, text, sizeof(text) - 1);
	EXPECT(fd >= 0 && n >= 0, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return text;
}

int mode_write(const char *name, const char *text)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return write_file(path, text);
}

uint32_t mode_permissions(const char *name)
{
	struct stat s = { 0 };
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	EXPECT(!stat(path, &s), "%s: %s", path, strerror(errno));
	return s.st_mode & 0777;
}

int mode_try(const char *mode)
{
	return mode_write(MODE_FILE, mode);
}

int mode_set(const char *mode)
{
	int ret = mode_try(mode);

	for (unsigned int ms = 0; ret == -EBUSY && ms < WAIT_MS; ms += 10) {
		usleep(10000);
		ret = mode_try(mode);
	}
	return ret;
}

static void find_folder(void)
{
	struct kfd_node node;

	ASSERT_OK(kfd_topology_find_gpu(&node));
	snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%04x:%02x:%02x.0", node.domain,
		 node.location_id >> 8, node.location_id >> 3 & 31);
}

static bool is_nps(const char *nps)
{
	return !strncmp(mode_file(NPS_FILE), nps, strlen(nps));
}

int mode_try_nps(const char *nps)
{
	return mode_write(NPS_FILE, nps);
}

void mode_begin_nps(const char *nps, const char *mode)
{
	char path[160];

	find_folder();
	snprintf(path, sizeof(path), "%s/available_memory_partition", folder);
	if (access(path, F_OK) || !strstr(mode_file("available_memory_partition"), nps))
		SKIP("the GPU does not have the memory partition mode");
	if (!is_nps(nps)) {
		device_find();
		ASSERT_OK(mode_try_nps(nps));
		/* Nothing changes before the driver is bound again. */
		ASSERT(!is_nps(nps));
		ASSERT_OK(device_unbind());
		ASSERT_OK(device_bind());
		ASSERT(is_nps(nps), "%s", mode_file(NPS_FILE));
	}
	ASSERT_OK(mode_set(mode));
}

void mode_need(const char *mode)
{
	find_folder();
	if (access(folder, F_OK) || !strstr(mode_file("available_compute_partition"), mode))
		SKIP("the GPU does not have the mode");
	ASSERT_OK(mode_set("SPX"));
}

void mode_begin(const char *mode)
{
	mode_need(mode);
	ASSERT_OK(mode_set(mode));
}

void mode_end(void)
{
	EXPECT_OK(mode_set("SPX"));
}

void mode_on_nodes(struct kfd_node *nodes, int count, void (*fn)(void *))
{
	pid_t children[MODE_MAX_NODES];
	int status;

	for (int i = 0; i < count; i++) {
		children[i] = fork_child();
		if (!children[i]) {
			fixture_use_node(nodes[i].index);
			_exit(ktap_in_child(fn, &nodes[i]) != 0);
		}
	}
	for (int i = 0; i < count; i++) {
		ASSERT(waitpid(children[i], &status, 0) == children[i]);
		EXPECT(!status, "node %d", nodes[i].index);
	}
}

bool mode_run(const char *command, unsigned int tests)
{
	char line[400];

	/* Their results are not those of this program. */
	snprintf(line, sizeof(line),
		 "%s >/tmp/mode-run.out 2>&1 && ! grep -q SKIP /tmp/mode-run.out && "
		 "[ $(grep -c '^ok ' /tmp/mode-run.out) = %u ]",
		 command, tests);
	if (!system(line))
		return true;
	EXPECT(!system("sed 's/^/# /' /tmp/mode-run.out"));
	return false;
}

void mode_node_works(void *unused)
{
	struct fixture f;

	(void)unused;
	fixture_launch(&f);
	for (int i = 0; i < 4; i++)
		EXPECT(fixture_works(&f));
}

uint64_t mode_available(struct kfd *k, const struct kfd_node *node)
{
	struct kfd_ioctl_get_available_memory_args args = { .gpu_id = node->gpu_id };

	EXPECT_OK(kfd_ioctl(k->fd, AMDKFD_IOC_AVAILABLE_MEMORY, &args));
	return args.available;
}
