// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Prints what rocminfo leaves out: links between agents, access to other agents' pools, GPU caches.
 */
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <stdlib.h>

static hsa_agent_t agents[16];
static unsigned int count;

static void must(hsa_status_t status, const char *call)
{
	if (status == HSA_STATUS_SUCCESS || status == HSA_STATUS_INFO_BREAK)
		return;
	printf("failed: %s: %#x\n", call, status);
	exit(1);
}
#define MUST(call) must((call), #call)

static hsa_status_t add_agent(hsa_agent_t agent, void *data)
{
	(void)data;
	if (count < sizeof(agents) / sizeof(agents[0]))
		agents[count++] = agent;
	return HSA_STATUS_SUCCESS;
}

static unsigned int node_of(hsa_agent_t agent)
{
	uint32_t node = 0;

	MUST(hsa_agent_get_info(agent, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &node));
	return node;
}

static hsa_status_t show_cache(hsa_cache_t cache, void *data)
{
	uint32_t size = 0;
	uint8_t level = 0;

	MUST(hsa_cache_get_info(cache, HSA_CACHE_INFO_LEVEL, &level));
	MUST(hsa_cache_get_info(cache, HSA_CACHE_INFO_SIZE, &size));
	printf("cache node=%u level=%u size=%u\n", *(unsigned int *)data, level, size);
	return HSA_STATUS_SUCCESS;
}

/* Link from agent `data` to one pool of another agent. */
static hsa_status_t show_link(hsa_amd_memory_pool_t pool, void *data)
{
	const hsa_agent_t *pair = data;
	hsa_amd_memory_pool_link_info_t links[4] = { 0 };
	hsa_amd_memory_pool_access_t access = 0;
	hsa_amd_segment_t segment;
	uint32_t hops = 0;

	MUST(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
	if (segment != HSA_AMD_SEGMENT_GLOBAL)
		return HSA_STATUS_SUCCESS;
	MUST(hsa_amd_agent_memory_pool_get_info(pair[0], pool,
						HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
	MUST(hsa_amd_agent_memory_pool_get_info(
		pair[0], pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops));
	if (hops && hops <= 4)
		MUST(hsa_amd_agent_memory_pool_get_info(
			pair[0], pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, links));
	printf("link from=%u to=%u access=%u hops=%u type=%u distance=%u atomic32=%d atomic64=%d\n",
	       node_of(pair[0]), node_of(pair[1]), access, hops, links[0].link_type,
	       links[0].numa_distance, links[0].atomic_support_32bit,
	       links[0].atomic_support_64bit);
	return HSA_STATUS_SUCCESS;
}

int main(void)
{
	MUST(hsa_init());
	MUST(hsa_iterate_agents(add_agent, NULL));
	for (unsigned int i = 0; i < count; i++) {
		unsigned int node = node_of(agents[i]);

		MUST(hsa_agent_iterate_caches(agents[i], show_cache, &node));
		for (unsigned int j = 0; j < count; j++) {
			hsa_agent_t pair[2] = { agents[i], agents[j] };

			if (i != j)
				MUST(hsa_amd_agent_iterate_memory_pools(agents[j], show_link,
									pair));
		}
	}
	MUST(hsa_shut_down());
	return 0;
}
