// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Replies that do not depend on history: render node info, accepted flags, and errnos of invalid
 * requests. See compare.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>

#include "compare.h"

#define LAST_INFO AMDGPU_INFO_UQ_FW_AREAS
#define LAST_FIRMWARE AMDGPU_INFO_FW_VPE
#define CREATE_FLAG_BITS 20u

static void value(const char *group, const char *name, uint64_t number)
{
	printf("cmp value %s.%s %#llx\n", group, name, (unsigned long long)number);
}

static void answer(const char *group, const char *name, int ret)
{
	const char *errname = ret ? strerrorname_np(-ret) : "0";

	/* Kernel-internal errnos without a name. */
	if (errname)
		printf("cmp value %s.%s %s\n", group, name, errname);
	else
		printf("cmp value %s.%s %d\n", group, name, ret);
}

static int ask(const struct compare *c, struct drm_amdgpu_info *info, uint32_t query, void *out,
	       uint32_t size)
{
	info->query = query;
	info->return_pointer = kfd_va(out);
	info->return_size = size;
	return kfd_ioctl(c->k.drm, DRM_IOCTL_AMDGPU_INFO, info);
}

#define FIELD(name) value("dev_info", #name, d.name)

static void device(const struct compare *c)
{
	struct drm_amdgpu_info info = { 0 };
	struct drm_amdgpu_info_device d = { 0 };
	char name[32];

	answer("info", "DEV_INFO", ask(c, &info, AMDGPU_INFO_DEV_INFO, &d, sizeof(d)));
	FIELD(device_id);
	FIELD(chip_rev);
	FIELD(external_rev);
	FIELD(pci_rev);
	FIELD(family);
	FIELD(num_shader_engines);
	FIELD(num_shader_arrays_per_engine);
	FIELD(gpu_counter_freq);
	FIELD(max_engine_clock);
	FIELD(max_memory_clock);
	FIELD(min_engine_clock);
	FIELD(min_memory_clock);
	FIELD(cu_active_number);
	FIELD(cu_ao_mask);
	FIELD(enabled_rb_pipes_mask);
	FIELD(enabled_rb_pipes_mask_hi);
	FIELD(num_rb_pipes);
	FIELD(num_hw_gfx_contexts);
	FIELD(pcie_gen);
	FIELD(pcie_num_lanes);
	FIELD(ids_flags);
	FIELD(virtual_address_offset);
	FIELD(virtual_address_max);
	FIELD(virtual_address_alignment);
	FIELD(high_va_offset);
	FIELD(high_va_max);
	FIELD(pte_fragment_size);
	FIELD(gart_page_size);
	FIELD(ce_ram_size);
	FIELD(vram_type);
	FIELD(vram_bit_width);
	FIELD(vce_harvest_config);
	FIELD(gc_double_offchip_lds_buf);
	FIELD(wave_front_size);
	FIELD(num_shader_visible_vgprs);
	FIELD(num_cu_per_sh);
	FIELD(num_tcc_blocks);
	FIELD(gs_vgt_table_depth);
	FIELD(gs_prim_buffer_depth);
	FIELD(max_gs_waves_per_vgt);
	FIELD(pa_sc_tile_steering_override);
	FIELD(tcc_disabled_mask);
	FIELD(tcp_cache_size);
	FIELD(num_sqc_per_wgp);
	FIELD(sqc_data_cache_size);
	FIELD(sqc_inst_cache_size);
	FIELD(gl1c_cache_size);
	FIELD(gl2c_cache_size);
	FIELD(mall_size);
	FIELD(shadow_size);
	FIELD(shadow_alignment);
	FIELD(csa_size);
	FIELD(csa_alignment);
	FIELD(userq_ip_mask);
	for (unsigned int se = 0; se < 4; se++) {
		for (unsigned int sh = 0; sh < 4; sh++) {
			snprintf(name, sizeof(name), "cu_bitmap.%u.%u", se, sh);
			value("dev_info", name, d.cu_bitmap[se][sh]);
			snprintf(name, sizeof(name), "cu_ao_bitmap.%u.%u", se, sh);
			value("dev_info", name, d.cu_ao_bitmap[se][sh]);
		}
	}
}

static void blocks(const struct compare *c)
{
	for (uint32_t type = 0; type <= AMDGPU_HW_IP_NUM; type++) {
		struct drm_amdgpu_info info = { .query_hw_ip = { .type = type } };
		struct drm_amdgpu_info_hw_ip ip = { 0 };
		uint32_t count = 0;
		char name[32];

		snprintf(name, sizeof(name), "HW_IP_COUNT.%u", type);
		answer("info", name, ask(c, &info, AMDGPU_INFO_HW_IP_COUNT, &count, sizeof(count)));
		value("count", name, count);
		snprintf(name, sizeof(name), "HW_IP_INFO.%u", type);
		answer("info", name, ask(c, &info, AMDGPU_INFO_HW_IP_INFO, &ip, sizeof(ip)));
		snprintf(name, sizeof(name), "hw_ip_info.%u", type);
		value(name, "major", ip.hw_ip_version_major);
		value(name, "minor", ip.hw_ip_version_minor);
		value(name, "capabilities_flags", ip.capabilities_flags);
		value(name, "ib_start_alignment", ip.ib_start_alignment);
		value(name, "ib_size_alignment", ip.ib_size_alignment);
		value(name, "available_rings", ip.available_rings);
		value(name, "ip_discovery_version", ip.ip_discovery_version);
		value(name, "userq_num_slots", ip.userq_num_slots);
	}
}

static void firmware(const struct compare *c)
{
	for (uint32_t type = 1; type <= LAST_FIRMWARE; type++) {
		struct drm_amdgpu_info info = { .query_fw = { .fw_type = type } };
		struct drm_amdgpu_info_firmware fw = { 0 };
		char name[32];

		snprintf(name, sizeof(name), "FW_VERSION.%#x", type);
		answer("info", name, ask(c, &info, AMDGPU_INFO_FW_VERSION, &fw, sizeof(fw)));
		snprintf(name, sizeof(name), "firmware.%#x", type);
		value(name, "version", fw.ver);
		value(name, "feature", fw.feature);
	}
}

/* The other queries: whether they are supported, and those that are a property of the device. */
static void questions(const struct compare *c)
{
	struct drm_amdgpu_info info = { 0 };
	struct drm_amdgpu_memory_info memory = { 0 };
	struct drm_amdgpu_info_gds gds = { 0 };
	uint32_t ibs[AMDGPU_HW_IP_NUM] = { 0 }, word = 0;
	char name[32], room[4096];

	for (uint32_t query = 0; query <= LAST_INFO + 1; query++) {
		/*
		 * Queries power management, which the C driver was told to leave out
		 * (amdgpu_dpm_get_vce_clock_state).
		 */
		if (query == AMDGPU_INFO_VCE_CLOCK_TABLE)
			continue;
		memset(&info, 0, sizeof(info));
		snprintf(name, sizeof(name), "query.%#x", query);
		answer("info", name, ask(c, &info, query, room, sizeof(room)));
	}
	memset(&info, 0, sizeof(info));
	ask(c, &info, AMDGPU_INFO_ACCEL_WORKING, &word, sizeof(word));
	value("info", "accel_working", word);
	ask(c, &info, AMDGPU_INFO_MEMORY, &memory, sizeof(memory));
	value("memory", "vram", memory.vram.total_heap_size);
	value("memory", "vram_usable", memory.vram.usable_heap_size);
	value("memory", "cpu_accessible", memory.cpu_accessible_vram.total_heap_size);
	value("memory", "gtt", memory.gtt.total_heap_size);
	ask(c, &info, AMDGPU_INFO_GDS_CONFIG, &gds, sizeof(gds));
	value("gds", "total", gds.gds_total_size);
	value("gds", "gws_per_compute_partition", gds.gws_per_compute_partition);
	value("gds", "oa_per_compute_partition", gds.oa_per_compute_partition);
	ask(c, &info, AMDGPU_INFO_MAX_IBS, ibs, sizeof(ibs));
	for (uint32_t type = 0; type < AMDGPU_HW_IP_NUM; type++) {
		snprintf(name, sizeof(name), "%u", type);
		value("max_ibs", name, ibs[type]);
	}
}

/* Accepted flags of a render node BO, and the resulting flags. */
static void create_flags(const struct compare *c)
{
	for (unsigned int bit = 0; bit < CREATE_FLAG_BITS; bit++) {
		union drm_amdgpu_gem_create create = { .in = { .bo_size = KFD_PAGE,
							       .alignment = KFD_PAGE,
							       .domains = AMDGPU_GEM_DOMAIN_VRAM,
							       .domain_flags = 1u << bit } };
		struct drm_amdgpu_gem_create_in made = { 0 };
		struct drm_amdgpu_gem_op op = { .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
						.value = kfd_va(&made) };
		struct drm_gem_close gone = { 0 };
		char name[32];
		int ret = kfd_ioctl(c->k.drm, DRM_IOCTL_AMDGPU_GEM_CREATE, &create);

		snprintf(name, sizeof(name), "flag_%#x", 1u << bit);
		answer("gem_create", name, ret);
		if (ret)
			continue;
		op.handle = gone.handle = create.out.handle;
		answer("gem_op", name, kfd_ioctl(c->k.drm, DRM_IOCTL_AMDGPU_GEM_OP, &op));
		value("gem_flags", name, made.domain_flags);
		kfd_ioctl(c->k.drm, DRM_IOCTL_GEM_CLOSE, &gone);
	}
}

/* Metadata of a shared BO, before CPU access. */
static void shared(struct compare *c)
{
	static const struct {
		const char *name;
		uint32_t flags;
	} kinds[] = {
		{ "gtt", KFD_FLAGS_GTT },
		{ "vram_public", KFD_FLAGS_VRAM },
		{ "vram_private", KFD_FLAGS_VRAM & ~KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct kfd_ioctl_export_dmabuf_args export = { .flags = O_CLOEXEC };
		struct kfd_ioctl_get_dmabuf_info_args info = { 0 };
		struct kfd_bo *bo;

		if (kfd_bo_alloc(&c->k, KFD_PAGE, kinds[i].flags, &bo))
			continue;
		export.handle = bo->handle;
		answer("export", kinds[i].name,
		       kfd_ioctl(c->k.fd, AMDKFD_IOC_EXPORT_DMABUF, &export));
		info.dmabuf_fd = export.dmabuf_fd;
		answer("dmabuf_info", kinds[i].name,
		       kfd_ioctl(c->k.fd, AMDKFD_IOC_GET_DMABUF_INFO, &info));
		value("dmabuf_flags", kinds[i].name, info.flags);
		value("dmabuf_size", kinds[i].name, info.size);
		close((int)export.dmabuf_fd);
		kfd_bo_free(&c->k, bo);
	}
}

#define WRONG(name, request, ...) \
	do { \
		__VA_ARGS__; \
		answer("errno", name, kfd_ioctl(k->fd, AMDKFD_IOC_##request, &a)); \
	} while (0)

/* Creates a queue with one argument changed; destroys it if that succeeds. */
#define WRONG_QUEUE(name, change) \
	do { \
		struct kfd_ioctl_create_queue_args a = args; \
		struct kfd_ioctl_destroy_queue_args gone = { 0 }; \
		int ret_; \
\
		change; \
		ret_ = kfd_ioctl(k->fd, AMDKFD_IOC_CREATE_QUEUE, &a); \
		answer("errno", "CREATE_QUEUE." name, ret_); \
		gone.queue_id = a.queue_id; \
		if (!ret_) \
			kfd_ioctl(k->fd, AMDKFD_IOC_DESTROY_QUEUE, &gone); \
	} while (0)

static void wrong_queues(struct kfd *k)
{
	struct kfd_ioctl_create_queue_args args;
	struct kfd_queue q;

	if (kfd_queue_prepare(k, &q, 64, &args))
		return;
	WRONG_QUEUE("percentage", a.queue_percentage = 101);
	WRONG_QUEUE("priority", a.queue_priority = 16);
	WRONG_QUEUE("type", a.queue_type = 77);
	WRONG_QUEUE("ring_size", a.ring_size = 4095);
	WRONG_QUEUE("no_ring", a.ring_base_address = 0);
	WRONG_QUEUE("ring_not_mapped", a.ring_base_address += 1ull << 40);
	WRONG_QUEUE("no_read_pointer", a.read_pointer_address = 0);
	WRONG_QUEUE("no_write_pointer", a.write_pointer_address = 0);
	WRONG_QUEUE("eop_size", a.eop_buffer_size += 4096);
	WRONG_QUEUE("ctx_size", a.ctx_save_restore_size = 4096);
	WRONG_QUEUE("ctl_stack_size", a.ctl_stack_size += 4096);
	WRONG_QUEUE("gpu", a.gpu_id ^= 1);
	WRONG_QUEUE("engine", a.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
		    a.sdma_engine_id = 99);
	kfd_queue_free_memory(&q);
}

static void wrong(struct kfd *k)
{
	uint32_t gpu = k->node.gpu_id;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	wrong_queues(k);
	WRONG("DESTROY_QUEUE.unknown", DESTROY_QUEUE,
	      struct kfd_ioctl_destroy_queue_args a = { .queue_id = 999 });
	WRONG("UPDATE_QUEUE.unknown", UPDATE_QUEUE,
	      struct kfd_ioctl_update_queue_args a = { .queue_id = 999 });
	WRONG("SET_CU_MASK.empty", SET_CU_MASK, struct kfd_ioctl_set_cu_mask_args a = { 0 });
	WRONG("SET_CU_MASK.odd", SET_CU_MASK,
	      struct kfd_ioctl_set_cu_mask_args a = { .num_cu_mask = 33 });
	WRONG("GET_QUEUE_WAVE_STATE.unknown", GET_QUEUE_WAVE_STATE,
	      struct kfd_ioctl_get_queue_wave_state_args a = { .queue_id = 999 });
	WRONG("ALLOC_QUEUE_GWS.unknown", ALLOC_QUEUE_GWS,
	      struct kfd_ioctl_alloc_queue_gws_args a = { .queue_id = 999, .num_gws = 1 });
	WRONG("ALLOC_MEMORY.empty", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = { .gpu_id = gpu,
							      .flags = KFD_FLAGS_GTT });
	WRONG("ALLOC_MEMORY.no_kind", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = { .gpu_id = gpu, .size = KFD_PAGE });
	WRONG("ALLOC_MEMORY.gpu", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		      .gpu_id = gpu ^ 1, .size = KFD_PAGE, .flags = KFD_FLAGS_GTT });
	WRONG("ALLOC_MEMORY.doorbells", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		      .gpu_id = gpu, .size = KFD_PAGE, .flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL });
	WRONG("ALLOC_MEMORY.mmio", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		      .gpu_id = gpu,
		      .size = 2 * KFD_PAGE,
		      .flags = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP });
	WRONG("ALLOC_MEMORY.userptr_nowhere", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		      .gpu_id = gpu, .size = KFD_PAGE, .flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR });
	WRONG("ALLOC_MEMORY.too_much", ALLOC_MEMORY_OF_GPU,
	      struct kfd_ioctl_alloc_memory_of_gpu_args a = { .gpu_id = gpu,
							      .size = 1ull << 40,
							      .flags = KFD_FLAGS_VRAM,
							      .va_addr = 1ull << 41 });
	WRONG("FREE_MEMORY.unknown", FREE_MEMORY_OF_GPU,
	      struct kfd_ioctl_free_memory_of_gpu_args a = { .handle = (uint64_t)gpu << 32 |
								       9999 });
	WRONG("MAP_MEMORY.none", MAP_MEMORY_TO_GPU,
	      struct kfd_ioctl_map_memory_to_gpu_args a = { .handle = (uint64_t)gpu << 32 });
	WRONG("MAP_MEMORY.unknown", MAP_MEMORY_TO_GPU,
	      struct kfd_ioctl_map_memory_to_gpu_args a = { .handle = (uint64_t)gpu << 32 | 9999,
							    .device_ids_array_ptr = kfd_va(&gpu),
							    .n_devices = 1 });
	WRONG("IMPORT_DMABUF.no_file", IMPORT_DMABUF,
	      struct kfd_ioctl_import_dmabuf_args a = { .gpu_id = gpu, .dmabuf_fd = 999 });
	WRONG("IMPORT_DMABUF.no_buffer", IMPORT_DMABUF,
	      struct kfd_ioctl_import_dmabuf_args a = { .gpu_id = gpu,
							.dmabuf_fd = (uint32_t)null });
	WRONG("GET_DMABUF_INFO.no_file", GET_DMABUF_INFO,
	      struct kfd_ioctl_get_dmabuf_info_args a = { .dmabuf_fd = 999 });
	WRONG("GET_DMABUF_INFO.no_buffer", GET_DMABUF_INFO,
	      struct kfd_ioctl_get_dmabuf_info_args a = { .dmabuf_fd = (uint32_t)null });
	WRONG("CREATE_EVENT.type", CREATE_EVENT,
	      struct kfd_ioctl_create_event_args a = { .event_type = 77 });
	WRONG("DESTROY_EVENT.unknown", DESTROY_EVENT,
	      struct kfd_ioctl_destroy_event_args a = { .event_id = 4000 });
	WRONG("SET_EVENT.unknown", SET_EVENT,
	      struct kfd_ioctl_set_event_args a = { .event_id = 4000 });
	WRONG("RESET_EVENT.unknown", RESET_EVENT,
	      struct kfd_ioctl_reset_event_args a = { .event_id = 4000 });
	WRONG("ACQUIRE_VM.no_file", ACQUIRE_VM,
	      struct kfd_ioctl_acquire_vm_args a = { .gpu_id = gpu, .drm_fd = 999 });
	WRONG("ACQUIRE_VM.other_file", ACQUIRE_VM,
	      struct kfd_ioctl_acquire_vm_args a = { .gpu_id = gpu, .drm_fd = (uint32_t)null });
	WRONG("GET_TILE_CONFIG.gpu", GET_TILE_CONFIG,
	      struct kfd_ioctl_get_tile_config_args a = { .gpu_id = gpu ^ 1 });
	WRONG("SET_MEMORY_POLICY.policy", SET_MEMORY_POLICY,
	      struct kfd_ioctl_set_memory_policy_args a = { .gpu_id = gpu, .default_policy = 77 });
	WRONG("SET_TRAP_HANDLER.gpu", SET_TRAP_HANDLER,
	      struct kfd_ioctl_set_trap_handler_args a = { .gpu_id = gpu ^ 1 });
	WRONG("SMI_EVENTS.gpu", SMI_EVENTS,
	      struct kfd_ioctl_smi_events_args a = { .gpuid = gpu ^ 1 });
	WRONG("RUNTIME_ENABLE.twice_off", RUNTIME_ENABLE,
	      struct kfd_ioctl_runtime_enable_args a = { 0 });
	answer("errno", "unknown_number", kfd_ioctl(k->fd, _IO('K', 0x7f), NULL));
	close(null);
}

int compare_answers(struct compare *c)
{
	device(c);
	blocks(c);
	firmware(c);
	questions(c);
	create_flags(c);
	shared(c);
	wrong(&c->k);
	return compare_mark(c, "between");
}
