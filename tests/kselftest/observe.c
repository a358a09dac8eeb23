// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Tests trace events and debugfs, and that dispatches appear in neither. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cs.h"
#include "fixture.h"
#include "watch.h"

#define DEBUGFS "/sys/kernel/debug/kfd"

TEST(trace_events_exist)
{
	static const char *const names[] = { "rkfd_process",   "rkfd_ioctl",   "rkfd_queue_step",
					     "rkfd_queue_map", "rkfd_runlist", "rkfd_mes_submit",
					     "rkfd_mes_done",  "rkfd_ih",      "rkfd_event" };

	watch_need_events();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[128];

		snprintf(path, sizeof(path), WATCH_EVENTS "/%s/format", names[i]);
		EXPECT(access(path, R_OK) == 0, "%s", path);
	}
}

/* Trace event of a queue reaching the GPU's scheduler. */
static const char *schedules(const struct kfd *k)
{
	return is_gfx12(&k->node) ? "rkfd_mes_submit: " : "rkfd_runlist: ";
}

/* Expects these steps of the recorded queue operations, each with a blank behind it. */
static void expect_steps(const char *text, const char *wanted)
{
	char steps[512] = "", step[32];

	while ((text = strstr(text, "rkfd_queue_step: "))) {
		text = strstr(text, " step=");
		ASSERT(text && sscanf(text, " step=%31s", step) == 1);
		ASSERT(strlen(steps) + strlen(step) + 2 < sizeof(steps), "%s", steps);
		strcat(strcat(steps, step), " ");
	}
	EXPECT(!strcmp(steps, wanted), "%s, not %s", steps, wanted);
}

TEST(queue_creation_steps_are_traced)
{
	struct fixture f;
	char *text;

	watch_start();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	EXPECT_OK(kfd_queue_destroy(&f.q));
	text = watch_stop();
	EXPECT(watch_count(text, "rkfd_ioctl: ") >= 10);
	EXPECT(watch_count(text, "rkfd_process: ") >= 1);
	expect_steps(text, is_gfx12(&f.k.node)
				   ? "validate bind buffers id wptr doorbell mqd map destroy "
				   : "validate bind buffers id doorbell mqd map destroy ");
	EXPECT(watch_count(text, schedules(&f.k)) >= 1);
	EXPECT(watch_count(text, "rkfd_ih: ") >= 1);
	EXPECT(watch_count(text, "rkfd_event: ") >= 1);
	free(text);
}

/* Dispatches bypass the kernel: the trace holds nothing but waits, interrupts and events. */
TEST(dispatch_does_not_enter_the_kernel)
{
	unsigned int waits;
	struct fixture f;
	struct cs cs;
	uint64_t job;
	char *text;

	watch_need_events();
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	watch_start();
	for (int i = 0; i < 20; i++)
		EXPECT(fixture_works(&f));
	text = watch_stop();
	waits = watch_count(text, "nr=0x0c");
	EXPECT_EQ(watch_count(text, "rkfd_ioctl: "), waits);
	EXPECT_EQ(watch_count(text, "rkfd_queue_step: "), 0);
	EXPECT_EQ(watch_count(text, "rkfd_runlist: "), 0);
	EXPECT_EQ(watch_count(text, "rkfd_mes_submit: "), 0);
	EXPECT_EQ(watch_count(text, "rkfd_queue_map: "), 0);
	EXPECT_EQ(watch_count_jobs(text), 0);
	free(text);
	/* A submission does enter it. */
	cs_open(&cs);
	watch_start();
	ASSERT_OK(cs_run(&cs, 0, cs_write(&cs, cs.data.va, 1), &job));
	cs_done(&cs, 0, job);
	text = watch_stop();
	EXPECT_EQ(watch_count_jobs(text), 1);
	free(text);
}

/* ioctls are traced in order, successful or not. */
TEST(failed_ioctls_are_traced_with_errno)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = 99 };
	struct kfd k;
	char *text;

	watch_need_events();
	fixture_open(&k);
	watch_start();
	EXPECT_RET(kfd_ioctl(k.fd, AMDKFD_IOC_DESTROY_QUEUE, &args), -EINVAL);
	text = watch_stop();
	EXPECT(strstr(text, "nr=0x03 ret=-22") != NULL, "%s", text);
	free(text);
}

TEST(debugfs_hqds_and_runlists)
{
	static const char *const names[] = { "mqds", "hqds", "rings", "rls" };
	struct fixture f;

	need_debugfs("hqds");
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	/* With MES there are no runlists. */
	for (int i = 0; i < (is_gfx12(&f.k.node) ? 3 : 4); i++) {
		char path[128], *text;

		snprintf(path, sizeof(path), DEBUGFS "/%s", names[i]);
		/* Some drivers leave out their own rings. */
		if (!strcmp(names[i], "rings") && access(path, F_OK))
			continue;
		text = watch_read(path);
		EXPECT(strlen(text) > 64, "%s: %s", path, text);
		free(text);
	}
	EXPECT(fixture_works(&f));
}

/* The HQDs of each XCC of the node are shown, as many of each. */
TEST(debugfs_hqds_of_each_xcc)
{
	unsigned int first = 0;
	struct fixture f;
	char *text;

	need_debugfs("hqds");
	fixture_launch(&f);
	EXPECT(fixture_works(&f));
	text = watch_read(DEBUGFS "/hqds");
	for (uint32_t xcc = 0; xcc <= f.k.node.num_xcc; xcc++) {
		unsigned int hqds;
		char inst[16];

		snprintf(inst, sizeof(inst), "Inst %u,", xcc);
		hqds = watch_count(text, inst);
		if (!xcc)
			first = hqds;
		EXPECT_EQ(hqds, xcc < f.k.node.num_xcc ? first : 0);
	}
	EXPECT(first > 0, "%.2000s", text);
	free(text);
}

TEST(debugfs_mqds)
{
	char *text, wanted[32];
	struct fixture f;

	need_debugfs("mqds");
	fixture_launch(&f);
	text = watch_read(DEBUGFS "/mqds");
	/* cp_hqd_pq_base holds bits 39 to 8 of the ring address. */
	snprintf(wanted, sizeof(wanted), "%08x", (unsigned int)(kfd_va(f.q.ring->va) >> 8));
	EXPECT(strstr(text, wanted) != NULL, "no %s in\n%.2000s", wanted, text);
	free(text);
	EXPECT_OK(kfd_queue_destroy(&f.q));
	text = watch_read(DEBUGFS "/mqds");
	EXPECT(strstr(text, wanted) == NULL, "%s is still in mqds", wanted);
	free(text);
}

TEST(debugfs_processes)
{
	char path[128], queue[160], *text, *pasid;
	struct fixture f;
	int wanted;

	need_debugfs("process");
	fixture_launch(&f);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", f.k.drm);
	text = watch_read(path);
	pasid = strstr(text, "pasid:\t");
	ASSERT(pasid != NULL, "%s", text);
	wanted = atoi(pasid + strlen("pasid:\t"));
	free(text);
	EXPECT(wanted > 0);
	snprintf(path, sizeof(path), DEBUGFS "/process/%d/pasid", getpid());
	text = watch_read(path);
	EXPECT_EQ(atoi(text), wanted);
	free(text);
	snprintf(path, sizeof(path), DEBUGFS "/process/%d/queues", getpid());
	text = watch_read(path);
	snprintf(queue, sizeof(queue), "queue %u: gpu_id %x, Aql, ring %p+%#llx, doorbell ", f.q.id,
		 f.k.node.gpu_id, f.q.ring->va, (unsigned long long)f.q.ring->size);
	EXPECT(!strncmp(text, queue, strlen(queue)), "%s, not %s", text, queue);
	EXPECT_EQ(watch_count(text, "\n"), 1);
	free(text);
}

/* Rings of the kernel are shown with their types: SDMA, and those of the scheduler in use. */
TEST(debugfs_rings_have_types)
{
	struct fixture f;
	bool mes;
	char *text;

	need_debugfs("rings");
	fixture_launch(&f);
	mes = is_gfx12(&f.k.node);
	text = watch_read(DEBUGFS "/rings");
	EXPECT(watch_count(text, ": type SDMA, ") >= 2, "%s", text);
	EXPECT_EQ(watch_count(text, ": type MES, "), mes ? 2 : 0);
	EXPECT_EQ(watch_count(text, ": type HIQ, "), mes ? 0 : 1);
	EXPECT_EQ(watch_count(text, ": type KIQ, "), mes ? 0 : f.k.node.num_xcc);
	free(text);
}

/* Freed VRAM is cleared by jobs of the scheduler on a kernel SDMA ring, in VMID 0. */
TEST(kernel_clears_are_scheduler_jobs)
{
	unsigned int vmid = ~0u;
	struct kfd_bo *bo;
	char *text, *job;
	struct kfd k;

	watch_need_events();
	fixture_open(&k);
	ASSERT_OK(kfd_bo_create(&k, 16 << 20, KFD_FLAGS_VRAM, &bo));
	watch_start();
	ASSERT_OK(kfd_bo_free(&k, bo));
	sleep(1);
	text = watch_stop();
	EXPECT(watch_count(text, "drm_sched_job_queue: ") >= 1, "%.4000s", text);
	job = strstr(text, "rkfd_sdma_job: ");
	ASSERT(job != NULL, "%.4000s", text);
	EXPECT(sscanf(job, "rkfd_sdma_job: gpu_id=%*u engine=%*u vmid=%u", &vmid) == 1);
	EXPECT_EQ(vmid, 0);
	free(text);
}

/* Returns the number behind `name` in a file `resources`. */
static int resources(const char *path, const char *name)
{
	char *text = watch_read(path), *line = strstr(text, name);
	int number = line ? atoi(line + strlen(name)) : -1;

	EXPECT(line != NULL, "%s is not in %s", name, path);
	free(text);
	return number;
}

TEST(debugfs_resources)
{
	const char *all = DEBUGFS "/resources";
	char own[128], device[32];
	struct kfd_bo *bo;
	struct fixture f;
	uint32_t event;
	int before;

	need_debugfs("resources");
	fixture_launch(&f);
	snprintf(own, sizeof(own), DEBUGFS "/process/%d/resources", getpid());
	snprintf(device, sizeof(device), "gpu_id %x: ", f.k.node.gpu_id);
	/* Those of earlier processes may end meanwhile. */
	EXPECT(resources(all, "pasids ") >= 1);
	EXPECT(resources(all, "processes ") >= 1);
	EXPECT(resources(all, "doorbell_slices ") >= 1);
	EXPECT_EQ(resources(own, "queues "), 1);
	before = resources(own, "events ");
	ASSERT_OK(kfd_event_create(&f.k, KFD_IOC_EVENT_SIGNAL, false, &event));
	EXPECT_EQ(resources(own, "events "), before + 1);
	before = resources(own, device);
	ASSERT_OK(kfd_bo_create(&f.k, KFD_PAGE, KFD_FLAGS_GTT, &bo));
	EXPECT_EQ(resources(own, device), before + 1);
	ASSERT_OK(kfd_bo_free(&f.k, bo));
	EXPECT_EQ(resources(own, device), before);
}

/* Returns the number of runlists that the scheduler of the GPU has sent. */
static int runlists(void)
{
	char *text = watch_read(DEBUGFS "/rls"), *count = strstr(text, " runlists");
	int number = -1;

	if (count) {
		while (count > text && count[-1] >= '0' && count[-1] <= '9')
			count--;
		number = atoi(count);
	}
	EXPECT(number >= 0, "%.400s", text);
	free(text);
	return number;
}

static void destroy_queues(void *data)
{
	struct kfd_queue last, other;
	struct kfd k;
	int before;

	(void)data;
	fixture_open(&k);
	ASSERT_OK(kfd_queue_create(&k, &last, 64));
	ASSERT_OK(kfd_queue_create(&k, &other, 64));
	before = runlists();
	EXPECT_OK(kfd_queue_destroy(&other));
	EXPECT_EQ(runlists() - before, 1);
	before = runlists();
	EXPECT_OK(kfd_queue_destroy(&last));
	EXPECT_EQ(runlists() - before, 1);
}

/* Each runlist preempts all processes: the last queue of a process costs them as much as others. */
TEST(destroying_a_queue_sends_one_runlist)
{
	struct fixture f;

	need_debugfs("resources");
	fixture_launch(&f);
	if (is_gfx12(&f.k.node))
		SKIP("queues of this GPU are scheduled by MES");
	EXPECT_OK(ktap_in_child(destroy_queues, NULL));
	EXPECT(fixture_works(&f));
}

TEST(debugfs_topology)
{
	char path[128], other[128], *a, *b;
	struct kfd_node node;

	need_debugfs("topology");
	ASSERT_OK(kfd_topology_find_gpu(&node));
	snprintf(path, sizeof(path), DEBUGFS "/topology/nodes/%d/properties", node.index);
	snprintf(other, sizeof(other), KFD_TOPOLOGY "/nodes/%d/properties", node.index);
	a = watch_read(path);
	b = watch_read(other);
	EXPECT(!strcmp(a, b), "debugfs and sysfs differ");
	free(a);
	free(b);
}

static void read_all_of(const char *path, int depth)
{
	struct dirent *e;
	DIR *d = opendir(path);

	if (!d || depth > 6)
		return;
	while ((e = readdir(d))) {
		char sub[512], bytes[4096];
		struct stat s;
		int fd;

		if (e->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		if (lstat(sub, &s))
			continue;
		if (S_ISDIR(s.st_mode)) {
			read_all_of(sub, depth + 1);
			continue;
		}
		if (!S_ISREG(s.st_mode) || !(s.st_mode & 0444))
			continue;
		fd = open(sub, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		while (read(fd, bytes, sizeof(bytes)) > 0)
			;
		close(fd);
	}
	closedir(d);
}

/* Reading every file, with and without a queue, is harmless. */
TEST(read_every_debugfs_file)
{
	struct fixture f;

	read_all_of(DEBUGFS, 0);
	read_all_of(KFD_TOPOLOGY, 0);
	fixture_launch(&f);
	for (int i = 0; i < 3; i++) {
		read_all_of(DEBUGFS, 0);
		read_all_of(KFD_TOPOLOGY, 0);
		EXPECT(fixture_works(&f));
	}
}
