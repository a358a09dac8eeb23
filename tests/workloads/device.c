// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Files, topology and memory: everything before the first queue. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kfd.h"

#define HUGE_ALIGN (2ul << 20)

/*
 * Returns the number after `key` in a file of "key number" lines; without a key, the only number.
 */
int kfd_sysfs_value(const char *path, const char *key, uint64_t *value)
{
	char line[256], name[128];
	unsigned long long number;
	int ret = -ENOENT;
	FILE *f = fopen(path, "re");

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (key) {
			if (sscanf(line, "%127s %llu", name, &number) != 2 || strcmp(name, key))
				continue;
		} else if (sscanf(line, "%llu", &number) != 1) {
			continue;
		}
		*value = number;
		ret = 0;
		break;
	}
	if (ferror(f))
		ret = -errno;
	fclose(f);
	return ret;
}

static int property(int node, const char *key, uint32_t *value)
{
	char path[256];
	uint64_t number;
	int ret;

	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/properties", node);
	ret = kfd_sysfs_value(path, key, &number);
	if (!ret)
		*value = (uint32_t)number;
	return ret;
}

static void read_name(int node, char *name, size_t size)
{
	char path[256];
	FILE *f;

	name[0] = 0;
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/name", node);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(name, (int)size, f))
		name[strcspn(name, "\n")] = 0;
	fclose(f);
}

int kfd_topology_node(int index, struct kfd_node *node)
{
	char path[256];
	uint64_t value;
	uint32_t banks = 0;
	int ret;
	const struct {
		const char *key;
		uint32_t *to;
	} keys[] = {
		{ "simd_count", &node->simd_count },
		{ "simd_per_cu", &node->simd_per_cu },
		{ "array_count", &node->array_count },
		{ "simd_arrays_per_engine", &node->simd_arrays_per_engine },
		{ "gfx_target_version", &node->gfx_target_version },
		{ "lds_size_in_kb", &node->lds_size_in_kb },
		{ "wave_front_size", &node->wave_front_size },
		{ "max_slots_scratch_cu", &node->max_slots_scratch_cu },
		{ "cwsr_size", &node->cwsr_size },
		{ "ctl_stack_size", &node->ctl_stack_size },
		{ "num_cp_queues", &node->num_cp_queues },
		{ "num_sdma_engines", &node->num_sdma_engines },
		{ "num_sdma_xgmi_engines", &node->num_sdma_xgmi_engines },
		{ "drm_render_minor", &node->drm_render_minor },
		{ "vendor_id", &node->vendor_id },
		{ "device_id", &node->device_id },
		{ "location_id", &node->location_id },
		{ "domain", &node->domain },
		{ "mem_banks_count", &banks },
	};

	memset(node, 0, sizeof(*node));
	node->index = index;
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/gpu_id", index);
	ret = kfd_sysfs_value(path, NULL, &value);
	if (ret)
		return ret;
	node->gpu_id = (uint32_t)value;
	read_name(index, node->name, sizeof(node->name));
	if (!node->gpu_id)
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		ret = property(index, keys[i].key, keys[i].to);
		if (ret)
			return ret;
	}
	ret = property(index, "capability", &node->capability);
	if (!ret)
		ret = property(index, "num_xcc", &node->num_xcc);
	if (ret || !banks)
		return ret ? ret : -ENODEV;
	snprintf(path, sizeof(path), KFD_TOPOLOGY "/nodes/%d/mem_banks/0/properties", index);
	ret = kfd_sysfs_value(path, "size_in_bytes", &node->vram_bytes);
	if (!ret)
		ret = kfd_sysfs_value(path, "heap_type", &value);
	node->large_bar = value == 1;
	return ret;
}

int kfd_topology_find_gpu(struct kfd_node *node)
{
	const char *number = getenv("KFD_NODE");

	for (int i = 0;; i++) {
		int ret = kfd_topology_node(i, node);

		/* The device cgroup denies it. */
		if (ret == -EPERM)
			continue;
		if (ret)
			return ret == -ENOENT ? -ENODEV : ret;
		if (node->gpu_id && (!number || atoi(number) == i))
			return 0;
	}
}

int kfd_open_device(struct kfd *k)
{
	struct kfd_ioctl_get_version_args version = { 0 };
	int ret;

	memset(k, 0, sizeof(*k));
	k->drm = -1;
	k->fd = kfd_open_file("/dev/kfd");
	if (k->fd < 0)
		return k->fd;
	ret = kfd_ioctl(k->fd, AMDKFD_IOC_GET_VERSION, &version);
	k->major = version.major_version;
	k->minor = version.minor_version;
	return ret;
}

int kfd_open_render(struct kfd *k)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", k->node.drm_render_minor);
	k->drm = kfd_open_file(path);
	return k->drm < 0 ? k->drm : 0;
}

int kfd_acquire_vm(struct kfd *k)
{
	struct kfd_ioctl_acquire_vm_args args = { .drm_fd = (uint32_t)k->drm,
						  .gpu_id = k->node.gpu_id };

	return kfd_ioctl(k->fd, AMDKFD_IOC_ACQUIRE_VM, &args);
}

int kfd_get_apertures(struct kfd *k)
{
	struct kfd_process_device_apertures found[16];
	struct kfd_ioctl_get_process_apertures_new_args args = { 0 };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);

	if (ret)
		return ret;
	if (args.num_of_nodes > 16)
		args.num_of_nodes = 16;
	args.kfd_process_device_apertures_ptr = kfd_va(found);
	ret = kfd_ioctl(k->fd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < args.num_of_nodes; i++) {
		if (found[i].gpu_id == k->node.gpu_id) {
			k->apertures = found[i];
			return 0;
		}
	}
	return -ENODEV;
}

int kfd_create_process(struct kfd *k)
{
	return kfd_ioctl(k->fd, AMDKFD_IOC_CREATE_PROCESS, NULL);
}

int kfd_open(struct kfd *k)
{
	int ret = kfd_open_device(k);

	if (!ret)
		ret = kfd_topology_find_gpu(&k->node);
	if (!ret)
		ret = kfd_open_render(k);
	if (!ret)
		ret = kfd_get_apertures(k);
	if (!ret)
		ret = kfd_acquire_vm(k);
	return ret;
}

void kfd_close(struct kfd *k)
{
	if (k->doorbells)
		munmap((void *)k->doorbells, KFD_DOORBELL_SLICE);
	if (k->fd >= 0)
		close(k->fd);
	if (k->drm >= 0)
		close(k->drm);
	if (k->hdp) {
		munmap(k->hdp->va, k->hdp->size);
		free(k->hdp);
	}
	k->fd = k->drm = -1;
	k->doorbells = NULL;
	k->hdp = NULL;
}

/*
 * Reserves `size` bytes of address space for GPU and CPU, 2 MiB aligned for large sizes. munmap()
 * needs `start` and `reserved`.
 */
void *kfd_reserve(size_t size, size_t *reserved, void **start)
{
	size_t align = size >= HUGE_ALIGN ? HUGE_ALIGN : KFD_PAGE;
	char *p;

	*reserved = size + align - KFD_PAGE;
	p = mmap(NULL, *reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	*start = p;
	return (void *)((kfd_va(p) + align - 1) & ~(uint64_t)(align - 1));
}

int kfd_bo_alloc(struct kfd *k, size_t size, uint32_t flags, struct kfd_bo **out)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = { 0 };
	struct kfd_bo *bo = calloc(1, sizeof(*bo));
	size_t reserved;
	void *start;
	int ret;

	if (!bo)
		return -ENOMEM;
	size = (size + KFD_PAGE - 1) & ~(KFD_PAGE - 1);
	bo->va = kfd_reserve(size, &reserved, &start);
	if (!bo->va) {
		free(bo);
		return -ENOMEM;
	}
	/* Unmap the alignment padding. */
	if ((char *)start < (char *)bo->va)
		munmap(start, (size_t)((char *)bo->va - (char *)start));
	if ((char *)bo->va + size < (char *)start + reserved)
		munmap((char *)bo->va + size,
		       (size_t)((char *)start + reserved - ((char *)bo->va + size)));
	bo->size = size;
	/* VRAM beyond a small BAR has no CPU mapping. */
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) && !k->node.large_bar)
		flags &= ~KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
	bo->flags = flags;
	args.va_addr = kfd_va(bo->va);
	args.size = size;
	args.gpu_id = k->node.gpu_id;
	args.flags = flags;
	ret = kfd_ioctl(k->fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	if (ret) {
		munmap(bo->va, size);
		free(bo);
		return ret;
	}
	bo->handle = args.handle;
	bo->mmap_offset = args.mmap_offset;
	*out = bo;
	return 0;
}

int kfd_bo_map_cpu(struct kfd *k, struct kfd_bo *bo)
{
	bool by_kfd = bo->flags &
		      (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
	void *at = bo->va;

	return kfd_mmap(&at, bo->size, by_kfd ? k->fd : k->drm, bo->mmap_offset);
}

int kfd_bo_map_gpu(struct kfd *k, struct kfd_bo *bo)
{
	struct kfd_ioctl_map_memory_to_gpu_args args = {
		.handle = bo->handle,
		.device_ids_array_ptr = kfd_va(&k->node.gpu_id),
		.n_devices = 1,
	};
	int ret;

	do
		ret = kfd_ioctl(k->fd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args);
	while (ret == -EINTR || ret == -EAGAIN);
	if (!ret && args.n_success != 1)
		ret = -EIO;
	bo->mapped = !ret;
	return ret;
}

int kfd_bo_unmap_gpu(struct kfd *k, struct kfd_bo *bo)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args args = {
		.handle = bo->handle,
		.device_ids_array_ptr = kfd_va(&k->node.gpu_id),
		.n_devices = 1,
	};
	int ret;

	do
		ret = kfd_ioctl(k->fd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &args);
	while (ret == -EINTR || ret == -EAGAIN);
	if (!ret)
		bo->mapped = false;
	return ret;
}

int kfd_hdp_flush(struct kfd *k)
{
	volatile uint32_t *flush;
	int ret;

	if (!k->hdp) {
		ret = kfd_bo_create(k, KFD_PAGE,
				    KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP |
					    KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
					    KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
				    &k->hdp);
		if (ret)
			return ret;
	}
	flush = k->hdp->va;
	/* Stores to the BAR may be write-combined. */
	__sync_synchronize();
	*flush = 1;
	/* The read returns after the flush. */
	(void)*flush;
	return 0;
}

int kfd_bo_create(struct kfd *k, size_t size, uint32_t flags, struct kfd_bo **out)
{
	struct kfd_bo *bo;
	int ret = kfd_bo_alloc(k, size, flags, &bo);

	if (ret)
		return ret;
	if (!(flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) || (bo->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC))
		ret = kfd_bo_map_cpu(k, bo);
	if (!ret)
		ret = kfd_bo_map_gpu(k, bo);
	if (ret) {
		kfd_bo_free(k, bo);
		return ret;
	}
	*out = bo;
	return 0;
}

int kfd_bo_free(struct kfd *k, struct kfd_bo *bo)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = { 0 };
	int ret = 0;

	if (!bo)
		return 0;
	if (bo->mapped)
		ret = kfd_bo_unmap_gpu(k, bo);
	args.handle = bo->handle;
	if (!ret)
		ret = kfd_ioctl(k->fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args);
	munmap(bo->va, bo->size);
	free(bo);
	return ret;
}

int kfd_available(struct kfd *k, uint64_t *bytes)
{
	struct kfd_ioctl_get_available_memory_args args = { .gpu_id = k->node.gpu_id };
	int ret = kfd_ioctl(k->fd, AMDKFD_IOC_AVAILABLE_MEMORY, &args);

	*bytes = args.available;
	return ret;
}
