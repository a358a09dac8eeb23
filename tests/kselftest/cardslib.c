// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Opens two GPUs in one process, see cards.h. */
#define _GNU_SOURCE
#include "cards.h"

#include "../workloads/sdma-queue.h"

int cards_find(struct kfd_node *nodes, int most)
{
	struct kfd_node node;
	int count = 0;

	for (int i = 0; !kfd_topology_node(i, &node); i++) {
		if (!node.gpu_id)
			continue;
		if (count < most)
			nodes[count] = node;
		count++;
	}
	return count;
}

int cards_map(struct kfd *k, const struct kfd_bo *bo)
{
	struct kfd_bo copy = *bo;

	return kfd_bo_map_gpu(k, &copy);
}

int cards_unmap(struct kfd *k, const struct kfd_bo *bo)
{
	struct kfd_bo copy = *bo;

	return kfd_bo_unmap_gpu(k, &copy);
}

void cards_launch(struct fixture f[2])
{
	struct kfd_node nodes[2];

	if (cards_find(nodes, 2) < 2)
		SKIP("one GPU");
	cards_launch_on(f, nodes);
}

void cards_launch_on(struct fixture f[2], const struct kfd_node nodes[2])
{
	fixture_use_node(nodes[0].index);
	fixture_launch(&f[0]);
	fixture_use_node(nodes[1].index);
	memset(&f[1], 0, sizeof(f[1]));
	fixture_open(&f[1].k);
	/* Both pages belong to the process. Signals of the second GPU are in the second half. */
	ASSERT_OK(cards_map(&f[1].k, f[0].k.event_page));
	ASSERT_OK(cards_map(&f[1].k, f[0].k.signals));
	f[1].k.event_page = f[0].k.event_page;
	f[1].k.signals = f[0].k.signals;
	f[1].k.signals_used = f[0].k.signals->size / sizeof(struct amd_signal) / 2;
	fixture_load_opened(&f[1]);
	ASSERT_OK(kfd_queue_create(&f[1].k, &f[1].q, 64));
}

int cards_copy(struct fixture *f, void *to, const void *from, size_t bytes)
{
	uint32_t packets[64], *p = packets;
	struct sdma_queue q;
	int ret;

	ret = sdma_queue_create(&f->k, &q, KFD_IOC_QUEUE_TYPE_SDMA, 0, 4096);
	if (ret)
		return ret;
	f->signal.s->value = 1;
	sdma_copy(&p, kfd_va(to), kfd_va(from), (uint32_t)bytes);
	sdma_signal(&p, &f->signal);
	ret = sdma_queue_put(&q, packets, p);
	if (!ret) {
		sdma_queue_ring(&q);
		ret = kfd_signal_wait(&f->k, &f->signal, WAIT_MS);
	}
	sdma_queue_destroy(&q);
	return ret;
}

const char *cards_domain(const struct kfd_node *node)
{
	static char type[32];
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/iommu_group/type",
		 node->domain, node->location_id >> 8, node->location_id >> 3 & 31,
		 node->location_id & 7);
	type[0] = 0;
	f = fopen(path, "re");
	if (!f)
		return type;
	if (fgets(type, sizeof(type), f))
		type[strcspn(type, "\n")] = 0;
	fclose(f);
	return type;
}
