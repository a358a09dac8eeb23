// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of inline functions of DRM, its scheduler, fences and reservations, for Rust.
 */

#include <linux/device_cgroup.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/idr.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include <drm/drm_auth.h>
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_syncobj.h>
#include <drm/drm_vma_manager.h>
#include <drm/gpu_scheduler.h>
#include <drm/spsc_queue.h>

#include "helpers.h"

void rkfd_helper_drm_gem_object_get(struct drm_gem_object *obj)
{
	drm_gem_object_get(obj);
}

void rkfd_helper_drm_gem_object_put(struct drm_gem_object *obj)
{
	drm_gem_object_put(obj);
}

bool rkfd_helper_drm_is_current_master(struct drm_file *file)
{
	return drm_is_current_master(file);
}

/* drm_gem_object_is_shared_for_memory_stats(), without a lock. */
bool rkfd_helper_drm_gem_is_shared(struct drm_gem_object *obj)
{
	return drm_gem_object_is_shared_for_memory_stats(obj);
}

/*
 * Returns a reference to the object with the first handle from *handle on, and the handle. NULL if
 * there is none.
 */
struct drm_gem_object *rkfd_helper_drm_gem_next(struct drm_file *file, int *handle)
{
	struct drm_gem_object *obj;

	spin_lock(&file->table_lock);
	/* Skips handles that are being created or closed. */
	obj = idr_get_next(&file->object_idr, handle);
	if (obj)
		drm_gem_object_get(obj);
	spin_unlock(&file->table_lock);
	return obj;
}

/*
 * Adds a handle that belongs to no file: drm_gem_object_handle_get() is not exported. While it has
 * handles, an object keeps its reference to its DMA buffer. @buf: NULL, or a DMA buffer of the
 * object.
 */
void rkfd_helper_drm_gem_hold(struct drm_gem_object *obj, struct dma_buf *buf)
{
	mutex_lock(&obj->dev->object_name_lock);
	if (!obj->handle_count++)
		drm_gem_object_get(obj);
	if (buf && !obj->dma_buf) {
		get_dma_buf(buf);
		obj->dma_buf = buf;
	}
	mutex_unlock(&obj->dev->object_name_lock);
}

/* Reverts rkfd_helper_drm_gem_hold(), as drm_gem_object_handle_put_unlocked(). */
void rkfd_helper_drm_gem_let_go(struct drm_gem_object *obj)
{
	struct drm_device *dev = obj->dev;
	bool last;

	mutex_lock(&dev->object_name_lock);
	last = !--obj->handle_count;
	if (last) {
		if (obj->name)
			idr_remove(&dev->object_name_idr, obj->name);
		obj->name = 0;
		if (obj->dma_buf)
			dma_buf_put(obj->dma_buf);
		obj->dma_buf = NULL;
	}
	mutex_unlock(&dev->object_name_lock);
	if (last)
		drm_gem_object_put(obj);
}

/* Returns a reference to the DMA buffer, new or not, of an object that has a handle. */
struct dma_buf *rkfd_helper_drm_gem_export(struct drm_gem_object *obj, int flags)
{
	struct dma_buf *buf;

	mutex_lock(&obj->dev->object_name_lock);
	buf = obj->dma_buf ?: obj->funcs->export(obj, flags);
	if (!IS_ERR(buf)) {
		obj->dma_buf = buf;
		get_dma_buf(buf);
	}
	mutex_unlock(&obj->dev->object_name_lock);
	return buf;
}

u64 rkfd_helper_drm_vma_node_offset_addr(struct drm_vma_offset_node *node)
{
	return drm_vma_node_offset_addr(node);
}

void rkfd_helper_dma_fence_get(struct dma_fence *fence)
{
	dma_fence_get(fence);
}

void rkfd_helper_dma_fence_put(struct dma_fence *fence)
{
	dma_fence_put(fence);
}

bool rkfd_helper_dma_fence_begin_signalling(void)
{
	return dma_fence_begin_signalling();
}

void rkfd_helper_dma_fence_end_signalling(bool cookie)
{
	dma_fence_end_signalling(cookie);
}

/* Returns whether the fence was signaled, and stores the time, see dma_fence_timestamp(). */
bool rkfd_helper_dma_fence_signaled_at(struct dma_fence *fence, ktime_t *time)
{
	if (!test_bit(DMA_FENCE_FLAG_TIMESTAMP_BIT, &fence->flags))
		return false;
	*time = fence->timestamp;
	return true;
}

bool rkfd_helper_dma_fence_is_signaled(struct dma_fence *fence)
{
	return dma_fence_is_signaled(fence);
}

/* Sets the error and signals in one critical section. False if the fence was signaled before. */
bool rkfd_helper_dma_fence_end(struct dma_fence *fence, int error)
{
	unsigned long flags;
	bool first;

	dma_fence_lock_irqsave(fence, flags);
	first = !dma_fence_test_signaled_flag(fence);
	if (first && error)
		dma_fence_set_error(fence, error);
	dma_fence_signal_locked(fence);
	dma_fence_unlock_irqrestore(fence, flags);
	return first;
}

void rkfd_helper_dma_fence_set_error(struct dma_fence *fence, int error)
{
	unsigned long flags;

	dma_fence_lock_irqsave(fence, flags);
	if (!dma_fence_test_signaled_flag(fence))
		dma_fence_set_error(fence, error);
	dma_fence_unlock_irqrestore(fence, flags);
}

static bool sched_entity_is_idle(struct drm_sched_entity *entity)
{
	/* As in drm_sched_entity_is_idle(): the list is read without its lock. */
	rmb();
	return list_empty(&entity->list) || !spsc_queue_count(&entity->job_queue) ||
	       READ_ONCE(entity->stopped);
}

/*
 * As drm_sched_entity_flush(), but returns whether the entity is to be killed, which the caller
 * does under a lock of its own. Waits in slices: the entity may move to another scheduler
 * meanwhile.
 */
bool rkfd_helper_sched_entity_flush(struct drm_sched_entity *entity, long timeout)
{
	const bool exiting = current->flags & PF_EXITING;
	const long slice = HZ / 10;
	struct task_struct *last_user;

	while (!sched_entity_is_idle(entity)) {
		wait_queue_head_t *wq = &READ_ONCE(entity->rq)->sched->job_scheduled;

		if (exiting) {
			if (timeout <= 0)
				break;
			wait_event_timeout(*wq, sched_entity_is_idle(entity), slice);
			timeout -= slice;
		} else if (wait_event_killable_timeout(*wq, sched_entity_is_idle(entity),
						       slice) < 0) {
			break;
		}
	}
	last_user = cmpxchg(&entity->last_user, current->group_leader, NULL);
	return last_user == current->group_leader && exiting && current->exit_code == SIGKILL;
}

bool rkfd_helper_sched_entity_stopped(struct drm_sched_entity *entity)
{
	return READ_ONCE(entity->stopped);
}

/* Returns a reference to the dependency, whose callback may be dropping that of the entity. */
struct dma_fence *rkfd_helper_sched_entity_dependency(struct drm_sched_entity *entity)
{
	struct dma_fence *fence;

	rcu_read_lock();
	fence = READ_ONCE(entity->dependency);
	if (fence)
		fence = dma_fence_get_rcu(fence);
	rcu_read_unlock();
	return fence;
}

void rkfd_helper_ww_acquire_init(struct ww_acquire_ctx *ctx)
{
	ww_acquire_init(ctx, &reservation_ww_class);
}

void rkfd_helper_ww_acquire_fini(struct ww_acquire_ctx *ctx)
{
	ww_acquire_fini(ctx);
}

int rkfd_helper_dma_resv_lock(struct dma_resv *resv, struct ww_acquire_ctx *ctx, bool interruptible)
{
	return interruptible ? dma_resv_lock_interruptible(resv, ctx) : dma_resv_lock(resv, ctx);
}

int rkfd_helper_dma_resv_lock_slow(struct dma_resv *resv, struct ww_acquire_ctx *ctx,
				   bool interruptible)
{
	if (interruptible)
		return dma_resv_lock_slow_interruptible(resv, ctx);
	dma_resv_lock_slow(resv, ctx);
	return 0;
}

bool rkfd_helper_dma_resv_trylock(struct dma_resv *resv)
{
	return dma_resv_trylock(resv);
}

void rkfd_helper_dma_resv_unlock(struct dma_resv *resv)
{
	dma_resv_unlock(resv);
}

void rkfd_helper_drm_syncobj_get(struct drm_syncobj *syncobj)
{
	drm_syncobj_get(syncobj);
}

void rkfd_helper_drm_syncobj_put(struct drm_syncobj *syncobj)
{
	drm_syncobj_put(syncobj);
}

int rkfd_helper_check_render_node(u32 minor)
{
	return devcgroup_check_permission(DEVCG_DEV_CHAR, DRM_MAJOR, minor,
					  DEVCG_ACC_READ | DEVCG_ACC_WRITE);
}
