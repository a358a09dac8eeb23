// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The workload of `make compare`: uses every feature once and prints what is visible in the guest.
 * The rest of the report comes from the GPU's log, which marks of this program divide into
 * sections.
 *
 * Times are CLOCK_MONOTONIC (elapsed) and thread CPU time (own): guest instructions under an
 * instruction-counting clock.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compare.h"
#include "samples.h"

#define MAX_ROUNDS 16u
#define MAX_COSTS 128u
/* High dword of a fence that is a mark. */
#define MARK 0xc0de0000u
#define MARK_PATIENCE_US 10000000u

static struct cost {
	const char *name;
	int ret;
	unsigned int rounds;
	uint64_t own[MAX_ROUNDS], elapsed[MAX_ROUNDS];
} costs[MAX_COSTS];
static unsigned int used;
static uint64_t own_start, elapsed_start, own_nothing, elapsed_nothing;

int compare_failed(const char *what, int err)
{
	printf("cmp failed %s: %s\n", what, strerror(-err));
	fprintf(stderr, "compare: %s: %s\n", what, strerror(-err));
	return 1;
}

static uint64_t clock_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

void cost_begin(void)
{
	own_start = clock_now(CLOCK_THREAD_CPUTIME_ID);
	elapsed_start = clock_now(CLOCK_MONOTONIC);
}

void cost_end(const char *name, int ret)
{
	uint64_t elapsed = clock_now(CLOCK_MONOTONIC) - elapsed_start;
	uint64_t own = clock_now(CLOCK_THREAD_CPUTIME_ID) - own_start;
	unsigned int i = 0;

	while (i < used && strcmp(costs[i].name, name))
		i++;
	if (i == MAX_COSTS || (i < used && costs[i].rounds == MAX_ROUNDS))
		return;
	if (i == used)
		costs[used++] = (struct cost) { .name = name };
	costs[i].own[costs[i].rounds] = own > own_nothing ? own - own_nothing : 0;
	costs[i].elapsed[costs[i].rounds++] =
		elapsed > elapsed_nothing ? elapsed - elapsed_nothing : 0;
	/* A failed child is part of the report. */
	if (ret)
		costs[i].ret = ret;
}

/* Cost of reading the clocks, to be subtracted. */
static void weigh_nothing(void)
{
	for (unsigned int i = 0; i < MAX_ROUNDS; i++) {
		cost_begin();
		cost_end("nothing", 0);
	}
	own_nothing = costs[0].own[0];
	elapsed_nothing = costs[0].elapsed[0];
	for (unsigned int i = 1; i < MAX_ROUNDS; i++) {
		own_nothing = costs[0].own[i] < own_nothing ? costs[0].own[i] : own_nothing;
		elapsed_nothing = costs[0].elapsed[i] < elapsed_nothing ? costs[0].elapsed[i] :
									  elapsed_nothing;
	}
	used = 0;
}

void cost_report(void)
{
	for (unsigned int i = 0; i < used; i++) {
		struct cost *c = &costs[i];

		samples_sort(c->own, c->rounds);
		samples_sort(c->elapsed, c->rounds);
		printf("cmp call %s ret=%d rounds=%u own=%llu own_min=%llu elapsed=%llu elapsed_min=%llu\n",
		       c->name, c->ret, c->rounds, (unsigned long long)c->own[c->rounds / 2],
		       (unsigned long long)c->own[0], (unsigned long long)c->elapsed[c->rounds / 2],
		       (unsigned long long)c->elapsed[0]);
	}
}

int compare_run(struct compare *c, const uint32_t *packets, const uint32_t *end)
{
	volatile uint32_t *fence = c->memory->va;
	uint32_t tail[8], *p = tail, value = MARK | ++c->marked;
	int ret = sdma_queue_put(&c->marks, packets, end);

	sdma_fence(&p, kfd_va(c->memory->va), value);
	if (!ret)
		ret = sdma_queue_put(&c->marks, tail, p);
	if (ret)
		return ret;
	sdma_queue_ring(&c->marks);
	for (unsigned int us = 0; *fence != value; us += 100) {
		if (us >= MARK_PATIENCE_US)
			return -ETIME;
		usleep(100);
	}
	return 0;
}

int compare_mark(struct compare *c, const char *name)
{
	int ret;

	ret = compare_run(c, NULL, NULL);
	printf("cmp mark %u %s\n", c->marked, name);
	return ret ? compare_failed(name, ret) : 0;
}

int compare_open(struct compare *c)
{
	int ret = kfd_open(&c->k);

	if (!ret)
		ret = kfd_bo_create(&c->k, KFD_PAGE, KFD_FLAGS_GTT, &c->memory);
	if (!ret)
		ret = sdma_queue_create(&c->k, &c->marks, KFD_IOC_QUEUE_TYPE_SDMA, 0, KFD_PAGE);
	return ret ? compare_failed("the device and a queue for marks", ret) : 0;
}

/* Prints every file below `path`; lines start with `mode` and the file name from `cut` on. */
static void print_tree(const char *path, size_t cut, const char *mode)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		char sub[1024], line[512];
		struct stat s;
		FILE *f;

		snprintf(sub, sizeof(sub), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] == '.' || lstat(sub, &s))
			;
		else if (S_ISDIR(s.st_mode))
			print_tree(sub, cut, mode);
		else if (S_ISREG(s.st_mode) && strcmp(entries[i]->d_name, "uevent") &&
			 (f = fopen(sub, "re"))) {
			printf("cmp topology %s%s mode %o\n", mode, sub + cut,
			       s.st_mode & 0777);
			while (fgets(line, sizeof(line), f)) {
				line[strcspn(line, "\n")] = 0;
				printf("cmp topology %s%s: %s\n", mode, sub + cut, line);
			}
			fclose(f);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

int compare_device(char *path, size_t size)
{
	struct kfd_node node;
	int ret = kfd_topology_find_gpu(&node);

	if (!ret)
		snprintf(path, size, "/sys/bus/pci/devices/%04x:%02x:%02x.0", node.domain,
			 node.location_id >> 8 & 255, node.location_id >> 3 & 31);
	return ret;
}

int compare_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	int ret = f ? 0 : -errno;

	if (f && fputs(text, f) < 0)
		ret = -errno;
	if (f && fclose(f) && !ret)
		ret = -errno;
	return ret;
}

/* Prints the topology of each compute partition mode of the GPU; the last one is SPX again. */
static int compare_modes(void)
{
	static const char *const modes[] = { "DPX", "QPX", "CPX", "SPX" };
	char device[64], available[160], current[160], text[64] = "", prefix[8];
	FILE *f;
	int ret = compare_device(device, sizeof(device));

	if (ret)
		return compare_failed("GPU", ret);
	snprintf(available, sizeof(available), "%s/available_compute_partition", device);
	snprintf(current, sizeof(current), "%s/current_compute_partition", device);
	f = fopen(available, "re");
	if (!f || !fgets(text, sizeof(text), f))
		text[0] = 0;
	if (f)
		fclose(f);
	for (unsigned int i = 0; strstr(text, "CPX") && i < 4; i++) {
		if (!strstr(text, modes[i]))
			continue;
		ret = compare_write(current, modes[i]);
		if (ret)
			return compare_failed(modes[i], ret);
		snprintf(prefix, sizeof(prefix), "%s/", modes[i]);
		print_tree(KFD_TOPOLOGY, strlen(KFD_TOPOLOGY) + 1, prefix);
	}
	return 0;
}

static int compare_files(void)
{
	static struct compare c;
	int ret = compare_open(&c);

	return ret ? ret : compare_sysfs(&c);
}

static int compare_all(bool quick)
{
	static struct compare c;
	int ret = 0;

	weigh_nothing();
	print_tree(KFD_TOPOLOGY, strlen(KFD_TOPOLOGY) + 1, "");
	if (!quick && compare_modes())
		return 1;
	/* Memory first: it forks, and leftovers of the others would count. */
	if (!quick)
		ret = compare_memory();
	if (!ret)
		ret = compare_open(&c);
	if (!ret)
		ret = compare_queues(&c);
	/* Not before the first mark, which ends the bring-up. */
	if (!ret)
		ret = compare_sysfs(&c);
	if (!ret)
		ret = compare_mappings(&c);
	if (!ret && !quick)
		ret = compare_calls(&c);
	if (!ret)
		ret = compare_answers(&c);
	if (!ret)
		ret = compare_launches(&c);
	if (!ret)
		ret = compare_life(&c, quick);
	if (!ret)
		ret = compare_mark(&c, "unbind");
	cost_report();
	return ret;
}

int main(int argc, char **argv)
{
	const bool quick = argc == 2 && !strcmp(argv[1], "-q");
	const bool files = argc == 2 && !strcmp(argv[1], "-s");
	int ret, status = 0;
	pid_t pid;

	if (argc > 1 && !quick && !files) {
		puts("usage: compare [-q | -s]\n\n  -q  without the topology of other partition modes, memory and cost;\n      with a queue that cannot be preempted: for clocks in real time\n  -s  files in sysfs only");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (files) {
		ret = compare_files();
		if (!ret)
			puts("cmp done");
		return ret;
	}
	/* In a process that has ended at the unbind. */
	pid = fork();
	if (!pid)
		return compare_all(quick);
	ret = pid > 0 && waitpid(pid, &status, 0) == pid && !status ? compare_unbind() : 1;
	if (!ret)
		puts("cmp done");
	return ret;
}
