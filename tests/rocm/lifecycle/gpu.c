// SPDX-License-Identifier: GPL-2.0 OR MIT
/* See gpu.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

/* Timeout beyond any valid duration. */
#define WAIT_SECONDS 60

void gpu_check(hsa_status_t status, const char *call)
{
	const char *text = NULL;

	if (status == HSA_STATUS_SUCCESS || status == HSA_STATUS_INFO_BREAK)
		return;
	hsa_status_string(status, &text);
	printf("# failed: %s: %s\n", call, text ? text : "?");
	fflush(stdout);
	_exit(1);
}

static hsa_status_t find_agent(hsa_agent_t agent, void *data)
{
	struct gpu *g = data;
	hsa_device_type_t type;

	HSA(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
	if (type == HSA_DEVICE_TYPE_CPU && !g->cpu.handle)
		g->cpu = agent;
	if (type == HSA_DEVICE_TYPE_GPU && !g->gpu.handle)
		g->gpu = agent;
	return HSA_STATUS_SUCCESS;
}

/* Returns the flags of a global pool, 0 for other segments. */
static uint32_t pool_flags(hsa_amd_memory_pool_t pool)
{
	hsa_amd_segment_t segment;
	uint32_t flags = 0;

	HSA(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
	if (segment == HSA_AMD_SEGMENT_GLOBAL)
		HSA(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS,
						 &flags));
	return flags;
}

/* Host pools: fine-grained and kernarg. */
static hsa_status_t find_pool(hsa_amd_memory_pool_t pool, void *data)
{
	uint32_t flags = pool_flags(pool);
	struct gpu *g = data;

	if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
		g->kernargs = pool;
	else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED)
		g->host = pool;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t find_vram(hsa_amd_memory_pool_t pool, void *data)
{
	struct gpu *g = data;

	if (pool_flags(pool) & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)
		g->vram = pool;
	return HSA_STATUS_SUCCESS;
}

void gpu_open(struct gpu *g)
{
	memset(g, 0, sizeof(*g));
	HSA(hsa_init());
	HSA(hsa_iterate_agents(find_agent, g));
	if (!g->cpu.handle || !g->gpu.handle)
		HSA(HSA_STATUS_ERROR_INVALID_AGENT);
	HSA(hsa_amd_agent_iterate_memory_pools(g->cpu, find_pool, g));
	HSA(hsa_amd_agent_iterate_memory_pools(g->gpu, find_vram, g));
}

void gpu_make_queue(struct gpu *g)
{
	HSA(hsa_queue_create(g->gpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX,
			     &g->queue));
}

static void find_kernel(struct gpu *g, const char *name, struct gpu_kernel *k)
{
	hsa_executable_symbol_t symbol;

	HSA(hsa_executable_get_symbol_by_name(g->executable, name, &g->gpu, &symbol));
	HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
					   &k->object));
	HSA(hsa_executable_symbol_get_info(
		symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &k->kernarg));
	HSA(hsa_executable_symbol_get_info(
		symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &k->group));
	HSA(hsa_executable_symbol_get_info(
		symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &k->private));
}

void gpu_load(struct gpu *g)
{
	hsa_code_object_reader_t reader;
	char path[512], name[64];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(name) - 5);
	int fd;

	if (n < 0)
		n = 0;
	HSA(hsa_agent_get_info(g->gpu, HSA_AGENT_INFO_NAME, name));
	sprintf(path + n, ".%.60s.co", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		printf("# failed: no %s\n", path);
		fflush(stdout);
		_exit(1);
	}
	HSA(hsa_code_object_reader_create_from_file(fd, &reader));
	HSA(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT,
				      NULL, &g->executable));
	HSA(hsa_executable_load_agent_code_object(g->executable, g->gpu, reader, NULL, NULL));
	HSA(hsa_executable_freeze(g->executable, NULL));
	HSA(hsa_code_object_reader_destroy(reader));
	close(fd);
	find_kernel(g, "fill.kd", &g->fill);
	find_kernel(g, "spin.kd", &g->spin);
	g->kernarg = gpu_alloc(g, g->kernargs, 4096);
}

void gpu_close(struct gpu *g)
{
	if (g->kernarg)
		HSA(hsa_amd_memory_pool_free(g->kernarg));
	if (g->executable.handle)
		HSA(hsa_executable_destroy(g->executable));
	if (g->queue)
		HSA(hsa_queue_destroy(g->queue));
	HSA(hsa_shut_down());
}

void *gpu_alloc(struct gpu *g, hsa_amd_memory_pool_t pool, size_t bytes)
{
	const hsa_agent_t both[2] = { g->cpu, g->gpu };
	void *p = NULL;

	HSA(hsa_amd_memory_pool_allocate(pool, bytes, 0, &p));
	/* VRAM is accessible to the GPU only, the other pools to both agents. */
	if (pool.handle == g->vram.handle)
		HSA(hsa_amd_agents_allow_access(1, &g->gpu, NULL, p));
	else
		HSA(hsa_amd_agents_allow_access(2, both, NULL, p));
	return p;
}

void gpu_launch(struct gpu *g, const struct gpu_kernel *k, uint32_t items, const void *a,
		uint64_t b, hsa_signal_t done)
{
	uint64_t index = hsa_queue_add_write_index_screlease(g->queue, 1);
	hsa_kernel_dispatch_packet_t *packet =
		(hsa_kernel_dispatch_packet_t *)g->queue->base_address + index % g->queue->size;
	/* One slot per pending packet. */
	uint64_t *kernarg = (uint64_t *)((char *)g->kernarg + index % 64 * 64);
	uint16_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
			  1 << HSA_PACKET_HEADER_BARRIER |
			  HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
			  HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;

	while (index - hsa_queue_load_read_index_scacquire(g->queue) >= g->queue->size)
		;
	kernarg[0] = (uint64_t)(uintptr_t)a;
	kernarg[1] = b;
	memset((char *)packet + 4, 0, sizeof(*packet) - 4);
	packet->workgroup_size_x = (uint16_t)(items < 64 ? items : 64);
	packet->workgroup_size_y = packet->workgroup_size_z = 1;
	packet->grid_size_x = items;
	packet->grid_size_y = packet->grid_size_z = 1;
	packet->private_segment_size = k->private;
	packet->group_segment_size = k->group;
	packet->kernel_object = k->object;
	packet->kernarg_address = kernarg;
	packet->completion_signal = done;
	__atomic_store_n((uint32_t *)packet, header | 1u << 16, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(g->queue->doorbell_signal, (hsa_signal_value_t)index);
}

hsa_signal_t gpu_signal(int64_t value)
{
	hsa_signal_t signal;

	HSA(hsa_signal_create(value, 0, NULL, &signal));
	return signal;
}

bool gpu_wait(hsa_signal_t signal, unsigned int seconds)
{
	uint64_t frequency = 0;

	HSA(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency));
	return hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_EQ, 0, seconds * frequency,
					 HSA_WAIT_STATE_BLOCKED) == 0;
}

static void wait_or_die(hsa_signal_t signal, const char *what)
{
	if (!gpu_wait(signal, WAIT_SECONDS)) {
		printf("# failed: %s is not done after %u s\n", what, WAIT_SECONDS);
		fflush(stdout);
		_exit(1);
	}
	HSA(hsa_signal_destroy(signal));
}

void gpu_fill(struct gpu *g, uint32_t *gpu_address, uint32_t words, uint32_t value)
{
	hsa_signal_t done = gpu_signal(1);

	gpu_launch(g, &g->fill, words, gpu_address, value, done);
	wait_or_die(done, "a kernel");
}

void gpu_copy(struct gpu *g, void *to, hsa_agent_t to_agent, const void *from,
	      hsa_agent_t from_agent, size_t bytes)
{
	hsa_signal_t done = gpu_signal(1);

	(void)g;
	HSA(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, NULL, done));
	wait_or_die(done, "a copy");
}
