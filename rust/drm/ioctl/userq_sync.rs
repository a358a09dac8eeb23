// SPDX-License-Identifier: GPL-2.0

//! `USERQ_SIGNAL` and `USERQ_WAIT`: the fences of user queues.

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::{gem::lookup, userq::supported};
use crate::{
    drm::{
        file::{FileData, Render},
        user,
        userq::Signals,
        userq_fence::UserFences,
    },
    kapi::{
        drm::{Device, File, Handler},
        fence::{Fence, Timeout},
        resv::{LockSet, Usage},
        syncobj::{self, Syncobj},
        uaccess::user_slice,
    },
    mmu::gem::Object,
    process::Evictor,
    uapi,
};

/// Buffers of one kind that an ioctl may name (`AMDGPU_USERQ_MAX_HANDLES`).
const MAX_HANDLES: u32 = 1 << 16;

/// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT`.
const WAIT_FOR_SUBMIT: u64 = 1 << 1;

/// Buffers that a queue reads and writes.
struct Buffers {
    reads: KVVec<ARef<Object>>,
    writes: KVVec<ARef<Object>>,
}

impl Buffers {
    /// Looks up the buffers. `EFAULT` if the handles are not readable, `ENOENT` for an unknown one.
    fn new(file: &File<Render>, reads: (u64, u32), writes: (u64, u32)) -> Result<Self> {
        let all = |(at, count): (u64, u32)| -> Result<KVVec<ARef<Object>>> {
            let handles: KVVec<u32> = user::read_array(at, count)?;
            let mut objects = KVVec::new();
            for handle in handles {
                objects.push(lookup(file, handle)?, GFP_KERNEL)?;
            }
            Ok(objects)
        };
        Ok(Self {
            reads: all(reads)?,
            writes: all(writes)?,
        })
    }

    fn each(&self) -> impl Iterator<Item = (&ARef<Object>, Usage)> {
        let reads = self.reads.iter().map(|object| (object, Usage::Read));
        let writes = self.writes.iter().map(|object| (object, Usage::Write));
        Iterator::chain(reads, writes)
    }

    /// Calls `f` with all buffers locked, and with a function that adds a fence to all of them.
    /// `EINTR` on a signal, `ENOMEM` without memory.
    fn locked<R>(&self, f: impl FnOnce(&dyn Fn(&Fence)) -> R) -> Result<R> {
        let mut resvs = KVVec::new();
        let mut usages = KVVec::new();
        for (object, usage) in self.each() {
            let resv = object.bo().resv();
            resvs.push(resv.clone(), GFP_KERNEL)?;
            usages.push((Arc::as_ptr(resv).addr(), usage), GFP_KERNEL)?;
        }
        usages.sort_unstable_by_key(|(key, _)| *key);
        let locks = LockSet::new(&resvs, true)?;
        for guard in locks.iter() {
            guard.reserve(1)?;
        }
        let publish = |fence: &Fence| {
            for guard in locks.iter() {
                let key = Arc::as_ptr(guard.resv()).addr();
                let first = usages.partition_point(|(other, _)| *other < key);
                let same = usages
                    .iter()
                    .skip(first)
                    .take_while(|(other, _)| *other == key);
                // A write includes a read.
                if let Some(usage) = same.map(|(_, usage)| *usage).min() {
                    guard.add_fence(fence, usage);
                }
            }
        };
        Ok(f(&publish))
    }
}

/// `USERQ_SIGNAL`.
pub(super) struct Signal;

impl Handler<Render> for Signal {
    type Arg = uapi::drm_amdgpu_userq_signal;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_USERQ_SIGNAL;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let data = file.data();
        supported(data)?;
        if arg.num_bo_read_handles.max(arg.num_bo_write_handles) > MAX_HANDLES {
            return Err(EINVAL);
        }
        let handles: KVec<u32> =
            user::read_array(arg.syncobj_handles, arg.num_syncobj_handles.into())?;
        let mut syncobjs = KVec::new();
        for handle in handles {
            let syncobj = Syncobj::lookup(file, handle).ok_or(ENOENT)?;
            syncobjs.push(syncobj, GFP_KERNEL)?;
        }
        let buffers = Buffers::new(
            file,
            (arg.bo_read_handles, arg.num_bo_read_handles),
            (arg.bo_write_handles, arg.num_bo_write_handles),
        )?;
        let signals = data.queues.lock().signals(arg.queue_id);
        let Signals {
            fences,
            wptr,
            evictor,
        } = signals.ok_or(ENOENT)?;
        let wptr = data.vm()?.peek64(wptr)?;
        // Not while the queue is evicted: BOs wait for the fence before they are restored. With the
        // buffers locked, as an eviction of one of them waits for the fence: the program may write
        // the doorbell after this call.
        let emit = |publish: &dyn Fn(&Fence)| {
            Evictor::if_running(&evictor, || {
                UserFences::emit(&fences, wptr).inspect(|fence| publish(fence))
            })
        };
        let fence = loop {
            if let Some(fence) = buffers.locked(emit)? {
                break fence?;
            }
            Evictor::await_running(&evictor)?;
        };
        for syncobj in &syncobjs {
            syncobj.replace(Some(&fence));
        }
        Ok(())
    }
}

/// The fences that `USERQ_WAIT` returns or waits for.
struct Fences {
    list: KVVec<ARef<Fence>>,
    /// Number that user space has room for.
    room: usize,
    count: usize,
}

impl Fences {
    /// Counts a fence, and adds it or waits for it if there is no room. `ERESTARTSYS` after a
    /// signal.
    fn add(&mut self, fence: ARef<Fence>) -> Result {
        self.count += 1;
        if self.room == 0 {
            return Ok(());
        }
        if self.list.len() >= self.room {
            fence.wait_interruptible(Timeout::FOREVER)?;
            return Ok(());
        }
        Ok(self.list.push(fence, GFP_KERNEL)?)
    }

    /// Returns the latest fence of each context.
    fn latest(&mut self) -> impl Iterator<Item = &ARef<Fence>> {
        let key = |fence: &ARef<Fence>| (fence.context(), fence.seqno());
        self.list.sort_unstable_by_key(key);
        let list = &self.list[..];
        list.iter().enumerate().filter_map(|(n, fence)| {
            let next = list.get(n + 1);
            let is_last = next.is_none_or(|next| next.context() != fence.context());
            is_last.then_some(fence)
        })
    }
}

/// Collects the fences of syncobjs, points and buffers. `ENOENT` for an unknown syncobj, `EINVAL`
/// for one without a fence, unless another task sets it.
fn collect(file: &File<Render>, arg: &uapi::drm_amdgpu_userq_wait) -> Result<Fences> {
    let handles: KVec<u32> = user::read_array(arg.syncobj_handles, arg.num_syncobj_handles.into())?;
    let count = arg.num_syncobj_timeline_handles.into();
    let timelines: KVec<u32> = user::read_array(arg.syncobj_timeline_handles, count)?;
    let points: KVec<u64> = user::read_array(arg.syncobj_timeline_points, count)?;
    let buffers = Buffers::new(
        file,
        (arg.bo_read_handles, arg.num_bo_read_handles),
        (arg.bo_write_handles, arg.num_bo_write_handles),
    )?;
    let mut fences = Fences {
        list: KVVec::new(),
        room: arg.num_fences.into(),
        count: 0,
    };
    for (handle, point) in timelines.into_iter().zip(points) {
        fences.add(syncobj::find_fence(file, handle, point, WAIT_FOR_SUBMIT)?)?;
    }
    for handle in handles {
        fences.add(syncobj::find_fence(file, handle, 0, WAIT_FOR_SUBMIT)?)?;
    }
    for (object, usage) in buffers.each() {
        for fence in object.bo().resv().fences(usage)? {
            fences.add(fence)?;
        }
    }
    Ok(fences)
}

/// Returns address and value of the latest fence of each user queue, for a queue to wait for; waits
/// for other fences.
fn infos(
    data: &Arc<FileData>,
    waiter: &Signals,
    fences: &mut Fences,
) -> Result<KVec<uapi::drm_amdgpu_userq_fence_info>> {
    let mut infos = KVec::new();
    let pool = data.partition.fences();
    for fence in fences.latest().filter(|fence| !fence.is_signaled()) {
        let Some(source) = pool.find(fence.context()) else {
            fence.wait_interruptible(Timeout::FOREVER)?;
            continue;
        };
        let info = uapi::drm_amdgpu_userq_fence_info {
            va: source.va(),
            value: fence.seqno(),
        };
        UserFences::use_slot(&waiter.fences, &source)?;
        infos.push(info, GFP_KERNEL)?;
    }
    if !infos.is_empty() {
        let vm = data.vm()?;
        data.queues.lock().map_fences(pool, &vm)?;
    }
    Ok(infos)
}

/// `USERQ_WAIT`.
pub(super) struct Wait;

impl Handler<Render> for Wait {
    type Arg = uapi::drm_amdgpu_userq_wait;
    const CMD: u32 = uapi::DRM_IOCTL_AMDGPU_USERQ_WAIT;

    fn run(_dev: &Device, file: &File<Render>, arg: &mut Self::Arg) -> Result {
        let data = file.data();
        supported(data)?;
        if arg.num_bo_read_handles.max(arg.num_bo_write_handles) > MAX_HANDLES {
            return Err(EINVAL);
        }
        let mut fences = collect(file, arg)?;
        if arg.num_fences == 0 {
            arg.num_fences = u16::try_from(fences.count).unwrap_or(u16::MAX);
            return Ok(());
        }
        let waiter = data.queues.lock().signals(arg.waitq_id).ok_or(EINVAL)?;
        let infos = infos(data, &waiter, &mut fences)?;
        arg.num_fences = u16::try_from(infos.len())?;
        let bytes = infos.len() * size_of::<uapi::drm_amdgpu_userq_fence_info>();
        let mut writer = user_slice(arg.out_fences, bytes).writer();
        for info in &infos {
            writer.write(info)?;
        }
        Ok(())
    }
}
