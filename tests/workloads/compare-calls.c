// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Cost and result of each ioctl; queues of each type between marks; dispatches. See compare.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "compare.h"

#define ROUNDS 7u
#define ROOM (2ul << 20)
#define SETTLE_US 20000u

/* Calls `request` once and records it under `name`. */
static int call(const char *name, int fd, unsigned long request, void *args)
{
	int ret;

	cost_begin();
	ret = kfd_ioctl(fd, request, args);
	cost_end(name, ret);
	return ret;
}

/* The result goes to the report and does not affect control flow. */
#define CALL(fd, request, args) call(#request, fd, AMDKFD_IOC_##request, args)

static void value(const char *name, uint64_t number)
{
	printf("cmp value %s %#llx\n", name, (unsigned long long)number);
}

static void questions(struct compare *c)
{
	struct kfd *k = &c->k;
	uint32_t tile[32], macro[16];
	struct kfd_ioctl_get_version_args version = { 0 };
	struct kfd_ioctl_get_available_memory_args available = { .gpu_id = k->node.gpu_id };
	struct kfd_ioctl_get_tile_config_args config = {
		.tile_config_ptr = kfd_va(tile),
		.macro_tile_config_ptr = kfd_va(macro),
		.gpu_id = k->node.gpu_id,
		.num_tile_configs = 32,
		.num_macro_tile_configs = 16,
	};
	struct kfd_ioctl_set_memory_policy_args policy = { .gpu_id = k->node.gpu_id };

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct kfd_process_device_apertures found[1];
		struct kfd_ioctl_get_process_apertures_new_args apertures = {
			.kfd_process_device_apertures_ptr = kfd_va(found), .num_of_nodes = 1,
		};
		struct kfd_ioctl_get_clock_counters_args clocks = { .gpu_id = k->node.gpu_id };
		struct kfd_ioctl_set_xnack_mode_args xnack = { .xnack_enabled = -1 };

		CALL(k->fd, GET_VERSION, &version);
		CALL(k->fd, GET_CLOCK_COUNTERS, &clocks);
		CALL(k->fd, GET_PROCESS_APERTURES_NEW, &apertures);
		CALL(k->fd, AVAILABLE_MEMORY, &available);
		CALL(k->fd, GET_TILE_CONFIG, &config);
		CALL(k->fd, SET_MEMORY_POLICY, &policy);
		CALL(k->fd, SET_XNACK_MODE, &xnack);
		if (i)
			continue;
		value("version", version.major_version << 16 | version.minor_version);
		value("system_clock_freq", clocks.system_clock_freq);
		value("available", available.available);
		value("nodes", apertures.num_of_nodes);
		value("lds_base", found[0].lds_base);
		value("lds_limit", found[0].lds_limit);
		value("scratch_base", found[0].scratch_base);
		value("scratch_limit", found[0].scratch_limit);
		value("gpuvm_base", found[0].gpuvm_base);
		value("gpuvm_limit", found[0].gpuvm_limit);
		value("gb_addr_config", config.gb_addr_config);
		value("num_banks", config.num_banks);
		value("num_ranks", config.num_ranks);
		value("num_tile_configs", config.num_tile_configs);
		value("num_macro_tile_configs", config.num_macro_tile_configs);
		value("xnack_enabled", (uint32_t)xnack.xnack_enabled);
	}
}

static void events(struct compare *c)
{
	struct kfd *k = &c->k;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct kfd_ioctl_create_event_args create = { .event_type = KFD_IOC_EVENT_SIGNAL,
							      .auto_reset = 1 };
		struct kfd_event_data data = { 0 };
		struct kfd_ioctl_wait_events_args wait = { .events_ptr = kfd_va(&data),
							   .num_events = 1,
							   .timeout = 1000 };
		struct kfd_ioctl_set_event_args set = { 0 };
		struct kfd_ioctl_reset_event_args reset = { 0 };
		struct kfd_ioctl_destroy_event_args destroy = { 0 };

		CALL(k->fd, CREATE_EVENT, &create);
		set.event_id = reset.event_id = destroy.event_id = data.event_id = create.event_id;
		CALL(k->fd, SET_EVENT, &set);
		CALL(k->fd, WAIT_EVENTS, &wait);
		CALL(k->fd, RESET_EVENT, &reset);
		CALL(k->fd, DESTROY_EVENT, &destroy);
	}
}

/* A new process per round: cost of the first open, of ACQUIRE_VM, and of the exit. */
static void beginnings(const struct compare *c)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct kfd k = { .node = c->k.node };
		struct kfd_ioctl_acquire_vm_args args = { .gpu_id = c->k.node.gpu_id };

		/* All state of this process exists already; a second file shares it. */
		cost_begin();
		k.fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		cost_end("open_kfd_again", k.fd < 0 ? -1 : 0);
		cost_begin();
		cost_end("open_render", kfd_open_render(&k));
		args.drm_fd = (uint32_t)k.drm;
		CALL(k.fd, ACQUIRE_VM, &args);
		cost_begin();
		close(k.drm);
		cost_end("close_render", 0);
		cost_begin();
		close(k.fd);
		cost_end("close_kfd_again", 0);
	}
}

struct kind {
	const char *alloc, *map, *unmap, *free;
	size_t size;
	uint32_t flags;
};

#define KIND(name, size, flags) \
	{ "ALLOC_MEMORY." name, \
	  "MAP_MEMORY." name,   \
	  "UNMAP_MEMORY." name, \
	  "FREE_MEMORY." name,  \
	  size,                 \
	  flags }

static int buffers(struct compare *c)
{
	static const struct kind kinds[] = {
		KIND("gtt_4K", KFD_PAGE, KFD_FLAGS_GTT),
		KIND("gtt_2M", ROOM, KFD_FLAGS_GTT),
		KIND("vram_4K", KFD_PAGE, KFD_FLAGS_VRAM),
		KIND("vram_2M", ROOM, KFD_FLAGS_VRAM),
		KIND("vram_64M", 64ul << 20, KFD_FLAGS_VRAM),
	};
	struct kfd *k = &c->k;
	size_t reserved;
	void *start, *va = kfd_reserve(64ul << 20, &reserved, &start);
	int ret = va ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < ROUNDS * sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *kind = &kinds[i / ROUNDS];
		struct kfd_ioctl_alloc_memory_of_gpu_args args = {
			.va_addr = kfd_va(va),
			.size = kind->size,
			.gpu_id = k->node.gpu_id,
			.flags = kind->flags,
		};
		struct kfd_ioctl_map_memory_to_gpu_args map = {
			.device_ids_array_ptr = kfd_va(&k->node.gpu_id), .n_devices = 1
		};
		struct kfd_ioctl_unmap_memory_from_gpu_args unmap = {
			.device_ids_array_ptr = map.device_ids_array_ptr, .n_devices = 1
		};
		struct kfd_ioctl_free_memory_of_gpu_args gone;

		/* Workers of the last FREE_MEMORY. */
		usleep(SETTLE_US);
		ret = call(kind->alloc, k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
		if (ret)
			break;
		map.handle = unmap.handle = gone.handle = args.handle;
		call(kind->map, k->fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map);
		call(kind->unmap, k->fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &unmap);
		call(kind->free, k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &gone);
	}
	if (va)
		munmap(start, reserved);
	return ret ? compare_failed("ALLOC_MEMORY", ret) : 0;
}

/* cost_begin() precedes the call in cost_end()'s argument: arguments are evaluated in between. */
static void sharing(struct compare *c)
{
	struct kfd *k = &c->k;
	struct kfd_bo *bo;

	if (kfd_bo_create(k, ROOM, KFD_FLAGS_GTT, &bo))
		return;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct kfd_ioctl_export_dmabuf_args export = { .handle = bo->handle,
							       .flags = O_CLOEXEC };
		struct kfd_ioctl_get_dmabuf_info_args info = { 0 };

		CALL(k->fd, EXPORT_DMABUF, &export);
		info.dmabuf_fd = export.dmabuf_fd;
		CALL(k->fd, GET_DMABUF_INFO, &info);
		close((int)export.dmabuf_fd);
	}
	kfd_bo_free(k, bo);
}

static void render(const struct compare *c)
{
	int fd = c->k.drm;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct drm_amdgpu_info_device device;
		struct drm_amdgpu_info info = {
			.return_pointer = kfd_va(&device),
			.return_size = sizeof(device),
			.query = AMDGPU_INFO_DEV_INFO,
		};
		union drm_amdgpu_gem_create create = { .in = { .bo_size = ROOM,
							       .alignment = KFD_PAGE,
							       .domains =
								       AMDGPU_GEM_DOMAIN_VRAM } };
		struct drm_amdgpu_gem_va va = {
			.operation = AMDGPU_VA_OP_MAP,
			.va_address = 0x7000000000ull,
			.map_size = ROOM,
			.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
		};
		union drm_amdgpu_ctx ctx = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
		struct drm_gem_close gone = { 0 };

		cost_begin();
		cost_end("drm.INFO_DEV_INFO", kfd_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &info));
		cost_begin();
		cost_end("drm.GEM_CREATE.vram_2M",
			 kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &create));
		va.handle = gone.handle = create.out.handle;
		cost_begin();
		cost_end("drm.GEM_VA.map", kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va));
		va.operation = AMDGPU_VA_OP_UNMAP;
		cost_begin();
		cost_end("drm.GEM_VA.unmap", kfd_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_VA, &va));
		cost_begin();
		cost_end("drm.GEM_CLOSE", kfd_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &gone));
		cost_begin();
		cost_end("drm.CTX_ALLOC", kfd_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &ctx));
		ctx.in.ctx_id = ctx.out.alloc.ctx_id;
		ctx.in.op = AMDGPU_CTX_OP_FREE_CTX;
		ctx.in.flags = 0;
		cost_begin();
		cost_end("drm.CTX_FREE", kfd_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &ctx));
	}
}

int compare_calls(struct compare *c)
{
	int ret = compare_mark(c, "kind all") || compare_mark(c, "calls");

	if (ret)
		return ret;
	questions(c);
	events(c);
	beginnings(c);
	ret = buffers(c);
	if (ret)
		return ret;
	sharing(c);
	render(c);
	return 0;
}

/* One queue of a type: what each call on it sends to the GPU, between marks; first round only. */
static int one_queue(struct compare *c, struct kfd_queue *q,
		     struct kfd_ioctl_create_queue_args *args, unsigned int round)
{
	struct kfd *k = &c->k;
	uint32_t mask[32];
	struct kfd_ioctl_update_queue_args update = {
		.ring_base_address = args->ring_base_address,
		.ring_size = args->ring_size,
		.queue_percentage = 100,
		.queue_priority = 15,
	};
	struct kfd_ioctl_set_cu_mask_args cus = { .num_cu_mask = 32 * 32,
						  .cu_mask_ptr = kfd_va(mask) };
	struct kfd_ioctl_destroy_queue_args destroy = { 0 };

	memset(mask, 0xff, sizeof(mask));
	if (!round && compare_mark(c, "CREATE_QUEUE"))
		return 1;
	CALL(k->fd, CREATE_QUEUE, args);
	q->id = destroy.queue_id = update.queue_id = cus.queue_id = args->queue_id;
	if (!round && compare_mark(c, "UPDATE_QUEUE"))
		return 1;
	CALL(k->fd, UPDATE_QUEUE, &update);
	if (!round && compare_mark(c, "SET_CU_MASK"))
		return 1;
	if (args->queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL)
		CALL(k->fd, SET_CU_MASK, &cus);
	update.queue_percentage = 0;
	if (!round && compare_mark(c, "UPDATE_QUEUE.inactive"))
		return 1;
	cost_begin();
	cost_end("UPDATE_QUEUE.inactive", kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &update));
	update.queue_percentage = 100;
	cost_begin();
	cost_end("UPDATE_QUEUE.active", kfd_ioctl(k->fd, AMDKFD_IOC_UPDATE_QUEUE, &update));
	if (!round && compare_mark(c, "DESTROY_QUEUE"))
		return 1;
	CALL(k->fd, DESTROY_QUEUE, &destroy);
	return !round && compare_mark(c, "between");
}

int compare_queues(struct compare *c)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue q;
	struct sdma_queue dma;
	int ret = kfd_queue_prepare(&c->k, &q, 64, &args);

	if (ret)
		return compare_failed("queue memory", ret);
	if (compare_mark(c, "kind aql"))
		return 1;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (one_queue(c, &q, &args, i))
			return 1;
	}
	if (compare_mark(c, "kind pm4"))
		return 1;
	args.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE;
	if (one_queue(c, &q, &args, 0))
		return 1;
	kfd_queue_free_memory(&q);
	ret = sdma_queue_prepare(&c->k, &dma, KFD_IOC_QUEUE_TYPE_SDMA, 0, KFD_PAGE, &args);
	if (ret)
		return compare_failed("queue memory", ret);
	if (compare_mark(c, "kind sdma") || one_queue(c, &q, &args, 0))
		return 1;
	sdma_queue_free_memory(&dma);
	return 0;
}

int compare_launches(struct compare *c)
{
	const uint32_t grid[3] = { 64, 1, 1 };
	const uint16_t group[3] = { 64, 1, 1 };
	struct kfd_bo *memory, *kernarg;
	struct aql_dispatch packet;
	struct kfd_signal signal;
	struct kfd_kernel kernel;
	struct kfd_code code;
	struct kfd_queue q;
	int ret = kfd_bo_create(&c->k, KFD_PAGE, KFD_FLAGS_GTT, &memory);

	if (compare_mark(c, "launches"))
		return 1;
	if (!ret)
		ret = kfd_bo_create(&c->k, KFD_PAGE, KFD_FLAGS_GTT, &kernarg);
	if (!ret)
		ret = kfd_kernels(&c->k, &code);
	if (!ret)
		ret = kfd_code_kernel(&code, "vecadd", &kernel);
	if (!ret)
		ret = kfd_signal_create(&c->k, 1, &signal);
	if (!ret)
		ret = kfd_queue_create(&c->k, &q, 64);
	if (ret)
		return compare_failed("preparing a launch", ret);
	for (unsigned int i = 0; i < 3; i++)
		((uint64_t *)kernarg->va)[i] = kfd_va(memory->va) + i * 1024;
	kfd_fill_dispatch(&packet, &kernel, grid, group, kernarg->va, &signal);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		signal.s->value = 1;
		cost_begin();
		kfd_queue_ring(&q, kfd_queue_write(&q, &packet));
		cost_end("launch.doorbell", 0);
		ret = kfd_signal_wait(&c->k, &signal, 60000);
		if (ret)
			break;
		signal.s->value = 1;
		cost_begin();
		kfd_queue_ring(&q, kfd_queue_write(&q, &packet));
		ret = kfd_signal_wait(&c->k, &signal, 60000);
		cost_end("launch.to_wake_up", ret);
		if (ret)
			break;
	}
	if (ret)
		return compare_failed("waiting for a launch", ret);
	ret = kfd_queue_destroy(&q);
	return ret ? compare_failed("the end of the launches", ret) : 0;
}
