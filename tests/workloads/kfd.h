/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A small user-space library over /dev/kfd, the KFD topology in sysfs and the render node:
 * everything a compute program needs from open() to a finished kernel, one function per step.
 *
 * Functions return 0 or a negative errno. Nothing here depends on the driver.
 */
#ifndef KFD_H
#define KFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/kfd_ioctl.h>

#define KFD_TOPOLOGY "/sys/devices/virtual/kfd/kfd/topology"
#define KFD_PAGE 4096ul
#define KFD_DOORBELL_SLICE 8192ul
#define KFD_EVENT_PAGE_SIZE 32768ul
#define KFD_EVENT_UNSIGNALED (~0ull)

#define KFD_FLAGS_GTT                                                                 \
	(KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |             \
	 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED)
#define KFD_FLAGS_VRAM                                                                \
	(KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |            \
	 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)

/* One GPU node in sysfs. */
struct kfd_node {
	int index;
	uint32_t gpu_id;
	char name[64];
	uint32_t gfx_target_version, simd_count, simd_per_cu, array_count, simd_arrays_per_engine;
	uint32_t num_xcc, cwsr_size, ctl_stack_size, lds_size_in_kb, wave_front_size,
		max_slots_scratch_cu;
	uint32_t num_cp_queues, num_sdma_engines, num_sdma_xgmi_engines;
	uint32_t drm_render_minor, capability, vendor_id, device_id, location_id, domain;
	uint64_t vram_bytes;
	bool large_bar;
};

/* Capability bit of a node (HSA_CAP_SVMAPI_SUPPORTED). */
#define SVM_CAPABLE (1u << 27)

/* GFX12: wave32, MES instead of a HIQ, two queues of each SDMA engine reserved for the kernel. */
static inline bool is_gfx12(const struct kfd_node *node)
{
	return node->gfx_target_version / 10000 == 12;
}

/* One GPU as used by one process. */
struct kfd {
	int fd, drm;
	uint32_t major, minor;
	struct kfd_node node;
	struct kfd_process_device_apertures apertures;
	struct kfd_bo *event_page;
	struct kfd_bo *hdp;
	volatile char *doorbells;
	struct kfd_bo *signals;
	uint64_t signals_used;
};

/* Memory at the same address for the GPU and, unless excluded by flags, the CPU. */
struct kfd_bo {
	uint64_t handle, mmap_offset;
	void *va;
	size_t size;
	uint32_t flags;
	bool mapped;
};

/* User signal completed by the CP: 64 bytes, layout fixed by the HSA runtime ABI. */
struct amd_signal {
	int64_t kind;
	volatile int64_t value;
	uint64_t event_mailbox_ptr;
	uint32_t event_id, reserved1;
	volatile uint64_t start_ts, end_ts;
	uint64_t queue_ptr;
	uint32_t reserved3[2];
};

/* Queue descriptor shared with the CP, 256 bytes, layout fixed by the HSA runtime ABI. */
struct amd_queue {
	uint32_t type, features;
	uint64_t base_address, doorbell_signal;
	uint32_t size, reserved0;
	uint64_t id;
	uint32_t caps, reserved1[3];
	volatile uint64_t write_dispatch_id;
	uint32_t group_segment_aperture_base_hi, private_segment_aperture_base_hi;
	uint32_t max_cu_id, max_wave_id;
	uint64_t max_legacy_doorbell_dispatch_id_plus_1;
	uint32_t legacy_doorbell_lock, reserved2[9];
	volatile uint64_t read_dispatch_id;
	uint32_t read_dispatch_id_field_base_byte_offset, compute_tmpring_size;
	uint32_t scratch_resource_descriptor[4];
	uint64_t scratch_backing_memory_location, scratch_backing_memory_byte_size;
	uint32_t scratch_wave64_lane_byte_size, queue_properties;
	uint64_t scratch_last_used_index, queue_inactive_signal;
	uint32_t reserved4[14];
};

struct aql_dispatch {
	uint16_t header, setup, workgroup_size[3], reserved0;
	uint32_t grid_size[3], private_segment_size, group_segment_size;
	uint64_t kernel_object, kernarg_address, reserved2, completion_signal;
};

struct aql_barrier {
	uint16_t header, reserved0;
	uint32_t reserved1;
	uint64_t dep_signal[5], reserved2, completion_signal;
};

_Static_assert(sizeof(struct amd_signal) == 64, "amd_signal_t");
_Static_assert(sizeof(struct amd_queue) == 256, "amd_queue_t");
_Static_assert(offsetof(struct amd_queue, write_dispatch_id) == 0x38, "amd_queue_t");
_Static_assert(offsetof(struct amd_queue, read_dispatch_id) == 0x80, "amd_queue_t");
_Static_assert(offsetof(struct amd_queue, queue_inactive_signal) == 0xc0, "amd_queue_t");
_Static_assert(sizeof(struct aql_dispatch) == 64 && sizeof(struct aql_barrier) == 64, "AQL packet");

enum {
	AQL_VENDOR = 0,
	AQL_INVALID = 1,
	AQL_KERNEL_DISPATCH = 2,
	AQL_BARRIER_AND = 3,
	AQL_BARRIER_OR = 5
};
/* System scope for acquire and release. */
#define AQL_HEADER(type, barrier) ((uint16_t)((type) | ((barrier) ? 1 << 8 : 0) | 2 << 9 | 2 << 11))

struct kfd_signal {
	struct amd_signal *s;
	uint32_t event_id;
};

struct kfd_queue {
	struct kfd *k;
	struct kfd_bo *ring, *descriptor, *eop, *cwsr, *scratch;
	struct amd_queue *q;
	struct kfd_signal inactive;
	uint32_t id, packets;
	uint64_t doorbell_offset;
	volatile uint64_t *doorbell;
};

/* A loaded code object, and one of its kernels. */
struct kfd_code {
	struct kfd_bo *bo;
	const unsigned char *image;
	size_t image_size;
	uint64_t lowest;
};

struct kfd_kernel {
	uint64_t descriptor;
	uint32_t group_size, private_size, kernarg_size;
};

/* calls.c: ioctl(), open(), and mmap() of shared memory at `*at` (NULL: anywhere) */
int kfd_ioctl(int fd, unsigned long request, void *args);
int kfd_open_file(const char *path);
int kfd_mmap(void **at, size_t size, int fd, uint64_t offset);

/* device.c: the files, sysfs, memory */
int kfd_sysfs_value(const char *path, const char *key, uint64_t *value);
int kfd_topology_node(int index, struct kfd_node *node);
/* Finds the first GPU, or the GPU that is node $KFD_NODE. -ENODEV: there is none. */
int kfd_topology_find_gpu(struct kfd_node *node);
int kfd_open_device(struct kfd *k);
int kfd_open_render(struct kfd *k);
/* Makes a secondary process of this address space that of the file. */
int kfd_create_process(struct kfd *k);
int kfd_acquire_vm(struct kfd *k);
int kfd_get_apertures(struct kfd *k);
int kfd_open(struct kfd *k);
void kfd_close(struct kfd *k);
void *kfd_reserve(size_t size, size_t *reserved, void **start);
int kfd_bo_alloc(struct kfd *k, size_t size, uint32_t flags, struct kfd_bo **out);
int kfd_bo_map_cpu(struct kfd *k, struct kfd_bo *bo);
/*
 * Flushes the HDP: the GPU sees what the CPU has stored to VRAM before. Needs no ioctl but the
 * first time, which allocates the page of the flush registers.
 */
int kfd_hdp_flush(struct kfd *k);
int kfd_bo_map_gpu(struct kfd *k, struct kfd_bo *bo);
int kfd_bo_unmap_gpu(struct kfd *k, struct kfd_bo *bo);
int kfd_bo_create(struct kfd *k, size_t size, uint32_t flags, struct kfd_bo **out);
int kfd_bo_free(struct kfd *k, struct kfd_bo *bo);
int kfd_available(struct kfd *k, uint64_t *bytes);

/* events.c */
int kfd_event_page(struct kfd *k);
int kfd_event_create(struct kfd *k, uint32_t type, bool auto_reset, uint32_t *id);
int kfd_event_destroy(struct kfd *k, uint32_t id);
int kfd_event_set(struct kfd *k, uint32_t id);
int kfd_event_reset(struct kfd *k, uint32_t id);
int kfd_event_wait(struct kfd *k, struct kfd_event_data *events, uint32_t count, bool all,
		   uint32_t ms, uint32_t *result);
int kfd_signal_create(struct kfd *k, int64_t value, struct kfd_signal *signal);
int kfd_signal_wait(struct kfd *k, struct kfd_signal *signal, uint32_t ms);

/* queue.c */
uint32_t kfd_waves(const struct kfd_node *node);
size_t kfd_cwsr_bytes(const struct kfd_node *node);
int kfd_queue_prepare(struct kfd *k, struct kfd_queue *q, uint32_t packets,
		      struct kfd_ioctl_create_queue_args *args);
int kfd_queue_start(struct kfd_queue *q, struct kfd_ioctl_create_queue_args *args);
int kfd_map_doorbell(struct kfd *k, uint64_t offset, volatile uint64_t **doorbell);
int kfd_queue_map_doorbell(struct kfd_queue *q);
int kfd_queue_create(struct kfd *k, struct kfd_queue *q, uint32_t packets);
int kfd_queue_stop(struct kfd_queue *q);
int kfd_queue_free_memory(struct kfd_queue *q);
int kfd_queue_destroy(struct kfd_queue *q);
int kfd_queue_set_scratch(struct kfd_queue *q, uint32_t lane_bytes);
uint64_t kfd_queue_write(struct kfd_queue *q, const void *packet);
void kfd_queue_ring(struct kfd_queue *q, uint64_t index);

/* code.c */
int kfd_kernels(struct kfd *k, struct kfd_code *code);
int kfd_code_load(struct kfd *k, const void *image, size_t size, struct kfd_code *code);
int kfd_code_kernel(const struct kfd_code *code, const char *name, struct kfd_kernel *kernel);
/*
 * Opens the GPU, creates a queue, and starts a kernel that ends, and completes `signal`, when *stop
 * is set. Returns when it runs, or -ETIME.
 */
int kfd_start_endless(struct kfd *k, struct kfd_queue *q, struct kfd_signal *signal,
		      volatile uint32_t **stop);
void kfd_code_unload(struct kfd *k, struct kfd_code *code);
void kfd_fill_dispatch(struct aql_dispatch *packet, const struct kfd_kernel *kernel,
		       const uint32_t grid[3], const uint16_t group[3], const void *kernarg,
		       const struct kfd_signal *signal);

static inline uint64_t kfd_va(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

#endif
