// SPDX-License-Identifier: GPL-2.0

//! User queues of an open file: queues in its address space that user space fills itself, and
//! starts by doorbells, as those of `/dev/kfd`.
//!
//! The file is a process for the device queue manager, which also evicts, suspends and resets the
//! queues.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{aref::ARef, Arc},
};

use super::userq_fence::{FencePool, FileFences, UserFences};
use crate::{
    dqm::{DqmProcess, DqmQueue},
    gpu::user_doorbells::DoorbellUse,
    gpu::Gpu,
    hw::{QueueSpec, RenderQueue},
    kapi::{handle_table::HandleTable, task::Pids, workqueue::Delayed},
    mmu::{
        addresses,
        gem::Object,
        vm::{KernelPage, Pin},
        QueueOwner, Vm,
    },
    node::Node,
    process::{Evictor, Quiesce, VmEvictor},
    queue::RING_ALIGN,
    uapi,
};

/// Queues that a file may have (`AMDGPU_MAX_USERQ_COUNT`).
const MAX_QUEUES: u32 = 512;
/// Bytes of the EOP buffer of a queue (`GFX12_MEC_HPD_SIZE`).
pub(super) const EOP_BYTES: u32 = 2048;
/// Its alignment in bytes.
pub(super) const EOP_ALIGN: u32 = RING_ALIGN as u32;
/// Bytes of a pointer.
const POINTER: u64 = 8;

/// Returns the bits of the IP types (`AMDGPU_HW_IP_*`) of which the GPU has user queues.
pub(super) fn ip_mask(gpu: &Gpu) -> u32 {
    let Some(oldest) = &gpu.generation().caps.user_queues else {
        return 0;
    };
    let versions = gpu.firmware_versions();
    let has = crate::module_parameters::user_queue.value() == 1
        && versions.me.version >= oldest.me
        && versions.pfp.version >= oldest.pfp
        && versions.mec.version >= oldest.mec
        && gpu.mes_version().scheduler >= oldest.mes;
    u32::from(has) << uapi::AMDGPU_HW_IP_COMPUTE
}

/// Arguments of a new compute queue. Addresses are those of the file's address space.
pub(super) struct Request {
    /// The ring, and its bytes: a power of two.
    pub(super) ring: u64,
    pub(super) ring_bytes: u32,
    /// Read and write pointer.
    pub(super) rptr: u64,
    pub(super) wptr: u64,
    /// EOP buffer.
    pub(super) eop: u64,
    /// Buffer of doorbells, and the number of the doorbell there.
    pub(super) doorbells: ARef<Object>,
    pub(super) doorbell: u32,
    /// Priority among all queues, one of `rkfd_abi::mes::priority`.
    pub(super) level: u8,
}

/// Arguments of USERQ_SIGNAL that a queue has.
pub(super) struct Signals {
    /// Its fences.
    pub(super) fences: Arc<Delayed<UserFences>>,
    /// Address of its write pointer.
    pub(super) wptr: u64,
    /// The evictor of the file.
    pub(super) evictor: Arc<Delayed<Evictor>>,
}

/// The memory of a queue, which cannot be unmapped.
struct Memory {
    // Field order: the GART mapping is removed before its page is unpinned.
    wptr_kernel: KernelPage,
    pins: [Pin; 4],
}

impl Memory {
    /// Pins the memory of a queue. `EINVAL` if a part is not mapped, or not as a whole, or the
    /// write pointer is in a buffer of more than a page or not in system memory; `ENOMEM` when the
    /// GART is full.
    fn pin(vm: &Arc<Vm>, request: &Request) -> Result<Self> {
        let pin = |va: u64, bytes: u64| vm.pin_covering(addresses::translated(va), bytes);
        let ring = pin(request.ring, request.ring_bytes.into())?;
        let rptr = pin(request.rptr, POINTER)?;
        let wptr = pin(request.wptr, POINTER)?;
        let eop = pin(request.eop, EOP_BYTES.into())?;
        if wptr.bo_size()? > PAGE_SIZE as u64 {
            return Err(EINVAL);
        }
        Ok(Self {
            wptr_kernel: wptr.map_to_kernel()?,
            pins: [ring, rptr, wptr, eop],
        })
    }

    /// Returns the address of the write pointer at `va` in VMID 0.
    fn wptr_kernel(&self, va: u64) -> u64 {
        self.wptr_kernel.addr() + va % PAGE_SIZE as u64
    }

    /// Returns how often it pins a mapping that starts at `va`.
    fn pins(&self, va: u64) -> u32 {
        self.pins.iter().map(|pin| u32::from(pin.va() == va)).sum()
    }
}

/// A user queue.
struct UserQueue {
    // Field order: the MQD first, then doorbell and fence, then the memory.
    hw: Arc<DqmQueue>,
    _doorbell: DoorbellUse,
    fences: Arc<Delayed<UserFences>>,
    _doorbells: ARef<Object>,
    wptr: u64,
    /// `None` after a part of it was unmapped: the queue does not run any more.
    memory: Option<Memory>,
}

/// The file as a process of the device queue manager.
struct Owner {
    node: Arc<Node>,
    process: Arc<DqmProcess>,
    evictor: Arc<Delayed<Evictor>>,
    fences: Arc<FileFences>,
}

impl Owner {
    /// Registers the file as owner of queues in its address space. `ENOMEM` without memory,
    /// `EINVAL` if it was before, `EINTR` after a signal.
    fn new(node: Arc<Node>, vm: &Arc<Vm>) -> Result<Self> {
        // No process of `/dev/kfd`: SMI events are not sent.
        let pids = Pids::of(kernel::current!().group_leader(), 0);
        let process = node.dqm().new_file(pids, vm)?;
        let fences = FileFences::new()?;
        let evictor = Evictor::new(&node, &process, Some(fences.clone()))?;
        let handler = VmEvictor::new(&evictor)?;
        // Last: it cannot be undone.
        vm.claim(QueueOwner::File, handler)?;
        Ok(Self {
            node,
            process,
            evictor,
            fences,
        })
    }
}

/// The user queues of a file.
pub(super) struct UserQueues {
    owner: Option<Owner>,
    queues: HandleTable<KBox<UserQueue>>,
    /// Pages of fences that are mapped.
    fence_pages: usize,
}

impl UserQueues {
    /// Returns an empty list.
    pub(super) fn new() -> Self {
        Self {
            owner: None,
            queues: HandleTable::new(1),
            fence_pages: 0,
        }
    }

    /// Creates a queue in an address space of the file and returns its id. `EINVAL` for memory
    /// that is not mapped and a doorbell that does not exist, `EBUSY` for one that is in use or
    /// beyond the limit of queues, `ETIMEDOUT` if MES rejects the queue, `ENOMEM` without memory.
    pub(super) fn create(
        &mut self,
        node: Arc<Node>,
        vm: &Arc<Vm>,
        request: &Request,
        fences: &Arc<Delayed<UserFences>>,
    ) -> Result<u32> {
        let created = self.try_create(node, vm, request, fences);
        if created.is_err() {
            if let Some(owner) = &self.owner {
                owner.fences.remove(fences);
            }
            UserFences::free(fences);
        }
        created
    }

    fn try_create(
        &mut self,
        node: Arc<Node>,
        vm: &Arc<Vm>,
        request: &Request,
        fences: &Arc<Delayed<UserFences>>,
    ) -> Result<u32> {
        if request.ring % RING_ALIGN != 0 || request.eop % RING_ALIGN != 0 {
            return Err(EINVAL);
        }
        let gpu = node.gpu().clone();
        let memory = Memory::pin(vm, request)?;
        let pages = request.doorbells.bo().doorbells().ok_or(EINVAL)?;
        let index = pages.index(request.doorbell)?;
        let doorbell = DoorbellUse::new(gpu.user_doorbells(), index, vm.pasid(), fences.clone())?;
        let owner = match &mut self.owner {
            Some(owner) => owner,
            owner => owner.insert(Owner::new(node, vm)?),
        };
        let spec = QueueSpec {
            ring_va: request.ring,
            ring_size: request.ring_bytes,
            rptr_va: request.rptr,
            wptr_va: request.wptr,
            wptr_kernel: memory.wptr_kernel(request.wptr),
            eop_va: request.eop,
            eop_size: EOP_BYTES,
            priority: rkfd_abi::mes::priority::NORMAL,
            doorbell: doorbell.index(),
            render: Some(RenderQueue {
                level: request.level,
                fence: fences.addr(),
            }),
            ..QueueSpec::PM4
        };
        let dqm = owner.node.dqm();
        let id = self.queues.next_handle();
        let hw = dqm.new_queue(&owner.process, vm, id, spec, Some(fences.clone()))?;
        owner.fences.add(fences)?;
        let queue = KBox::new(
            UserQueue {
                hw: hw.clone(),
                _doorbell: doorbell,
                fences: fences.clone(),
                _doorbells: request.doorbells.clone(),
                wptr: addresses::translated(request.wptr),
                memory: Some(memory),
            },
            GFP_KERNEL,
        )?;
        self.queues.insert(queue)?;
        let added = match id {
            ..=MAX_QUEUES => dqm.add(&hw),
            _ => Err(EBUSY),
        };
        if let Err(e) = added {
            self.queues.remove(id);
            return Err(e);
        }
        fences.set_queue(owner.node.clone(), hw);
        Ok(id)
    }

    /// Frees a queue; `ENOENT` if there is none with this id. It is freed despite an error of the
    /// hardware, which the queue manager reports.
    pub(super) fn free(&mut self, id: u32) -> Result {
        let queue = self.queues.remove(id).ok_or(ENOENT)?;
        if let Some(owner) = &self.owner {
            queue.fences.wait();
            let _ = owner.node.dqm().remove(&queue.hw);
            owner.fences.remove(&queue.fences);
            UserFences::free(&queue.fences);
        }
        Ok(())
    }

    /// Returns the arguments of USERQ_SIGNAL of a queue; `None` if there is none with this id.
    pub(super) fn signals(&self, id: u32) -> Option<Signals> {
        let queue = self.queues.get(id)?;
        Some(Signals {
            fences: queue.fences.clone(),
            wptr: queue.wptr,
            evictor: self.owner.as_ref()?.evictor.clone(),
        })
    }

    /// Maps the memory of fences, for queues that wait for others. Errors as [`Vm::map`].
    pub(super) fn map_fences(&mut self, pool: &FencePool, vm: &Vm) -> Result {
        pool.map(vm, &mut self.fence_pages)
    }

    /// Returns how often queues have pinned a mapping that starts at `va`.
    pub(super) fn pins(&self, va: u64) -> u32 {
        let memory = self
            .queues
            .values()
            .filter_map(|queue| queue.memory.as_ref());
        memory.map(|memory| memory.pins(va)).sum()
    }

    /// Stops the queues that use a mapping that starts at `va`, as it is about to be unmapped. They
    /// do not run again.
    pub(super) fn stop_users(&mut self, va: u64) {
        let Some(owner) = &self.owner else { return };
        for queue in self.queues.values_mut() {
            let memory = queue.memory.as_ref();
            if memory.is_some_and(|memory| memory.pins(va) != 0) {
                queue.fences.wait();
                // An error is reported: the queue is not mapped, or the card is wedged.
                let _ = owner.node.dqm().stop_queue(&queue.hw);
                queue.fences.end();
                queue.memory = None;
            }
        }
    }

    /// Frees all queues. There are no others afterwards.
    pub(super) fn close(&mut self) {
        let Some(owner) = self.owner.take() else {
            return;
        };
        owner.fences.wait();
        owner.evictor.end();
        let dqm = owner.node.dqm();
        // Unmaps all queues. Errors are reported.
        let _ = dqm.unregister(&owner.process);
        let _ = dqm.release_process(&owner.process);
        for queue in self.queues.values() {
            UserFences::free(&queue.fences);
        }
        owner.fences.clear();
        self.queues = HandleTable::new(1);
    }
}
