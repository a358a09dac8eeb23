// SPDX-License-Identifier: GPL-2.0

//! User queues: made from what user space asked for, on the hardware as long as they may run.
//!
//! A queue keeps the buffers that the hardware touches from being unmapped: ring, read and write
//! pointer, end-of-pipe buffer and context save area. It lives in the [`Table`] of its process.

use kernel::{prelude::*, sync::Arc};

use crate::{
    doorbell::{Doorbell, Slice},
    dqm::{GpuDqm, HwQueue, ProcessSlot, SdmaSlot, SdmaWanted},
    gpu::Gpu,
    hw::QueueSpec,
    mmu::vm::Vm,
    trace::Steps,
};

mod buffers;
mod cu_mask;
mod table;

pub(crate) use self::table::Table;

use self::buffers::Buffers;

/// Queues that a process may have on one GPU.
const MAX_PER_DEVICE: usize = 255;

/// Steps that happen before a queue has an id are recorded under this one.
pub(crate) const NO_ID: u32 = u32::MAX;

/// Who reads the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Compute,
    Sdma(SdmaWanted),
}

/// What kind of queue came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Compute,
    /// On an SDMA engine of the PCIe kind.
    Sdma,
    /// On an SDMA engine of the xGMI kind.
    SdmaXgmi,
}

/// What user space asked for.
#[derive(Clone)]
pub(crate) struct Properties {
    pub(crate) engine: Engine,
    /// Its doorbell and place on an SDMA engine are filled in when there are.
    pub(crate) spec: QueueSpec,
    /// Bytes of metadata behind the ring.
    pub(crate) metadata_size: u32,
}

/// What an update changes.
pub(crate) struct Change {
    pub(crate) ring_va: u64,
    pub(crate) ring_size: u32,
    pub(crate) percent: u8,
    pub(crate) priority: u8,
    pub(crate) pm4_target_xcc: u8,
}

/// Where a queue is made: a process on a GPU.
pub(crate) struct Place {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) vm: Arc<Vm>,
    pub(crate) doorbells: Arc<Slice>,
    pub(crate) slot: Arc<ProcessSlot>,
}

/// A queue.
pub(crate) struct Queue {
    // Field order: off the hardware first, then its place and doorbell, then what it used.
    hw: Arc<HwQueue>,
    sdma: Option<SdmaSlot>,
    doorbell: Doorbell,
    buffers: Buffers,
    place: Place,
    properties: Properties,
}

/// What the creator of a queue gets to know.
pub(crate) struct Created {
    pub(crate) id: u32,
    pub(crate) kind: Kind,
    /// Byte offset of its doorbell in the process's doorbells.
    pub(crate) doorbell: usize,
}

/// Makes a queue and, if it has all it takes, puts it on the hardware. An error undoes all steps.
pub(crate) fn create(
    table: &mut Table,
    place: Place,
    mut properties: Properties,
    steps: &mut Steps,
) -> Result<Created> {
    let mut buffers = Buffers::acquire(&place.gpu, &place.vm, &properties)?;
    steps.mark(NO_ID, c"buffers");

    let siblings = table.count_on(&place.gpu);
    if siblings >= MAX_PER_DEVICE {
        return Err(ENOSPC);
    }
    let is_first = siblings == 0;
    let vacancy = table.reserve()?;
    let id = vacancy.id();
    steps.mark(id, c"id");

    let dqm = place.gpu.dqm()?;
    if dqm.reads_wptr() {
        properties.spec.wptr_kernel = buffers.show_wptr(properties.spec.wptr_va)?;
        steps.mark(id, c"wptr");
    }
    let sdma = match properties.engine {
        Engine::Compute => None,
        Engine::Sdma(wanted) => Some(dqm.take_sdma(wanted)?),
    };
    if let Some(slot) = &sdma {
        properties.spec.sdma = Some(slot.place());
        steps.mark(id, c"engine");
    }
    let doorbell = match properties.spec.sdma {
        None => place.doorbells.alloc_cp()?,
        Some(engine) => place.doorbells.of_sdma(engine),
    };
    properties.spec.doorbell = doorbell.index();
    steps.mark(id, c"doorbell");

    let hw = HwQueue::new(&place.slot, id, properties.spec.clone())?;
    steps.mark(id, c"mqd");

    if is_first {
        dqm.register_process(&place.slot)?;
    }
    if let Err(e) = dqm.add(&hw) {
        if is_first {
            // The process had nothing on the hardware before.
            let _ = dqm.unregister(&place.slot);
        }
        return Err(e);
    }
    steps.mark(id, c"map");

    let offset = doorbell.offset_in_slice();
    let queue = Queue {
        hw,
        sdma,
        doorbell,
        buffers,
        place,
        properties,
    };
    let created = Created {
        id,
        kind: queue.kind(),
        doorbell: offset,
    };
    vacancy.fill(queue);
    Ok(created)
}

/// Gives queue `id` the global wave sync of its GPU, or takes it away. One queue of a process may have it
/// at a time (`EBUSY`; `EINVAL` if it is not this one that has it). `ENODEV` if the GPU has none.
pub(crate) fn set_gws(table: &mut Table, id: u32, has: bool) -> Result {
    let gpu = table.get(id).ok_or(EINVAL)?.gpu();
    if gpu.config().num_gws == 0 {
        return Err(ENODEV);
    }
    let owner = table
        .iter()
        .find(|(_, q)| q.gpu().id() == gpu.id() && q.spec().gws)
        .map(|(owner, _)| owner);
    match owner {
        Some(_) if has => return Err(EBUSY),
        owner if !has && owner != Some(id) => return Err(EINVAL),
        _ => {}
    }
    table.get_mut(id).ok_or(EINVAL)?.set_gws(has)
}

impl Queue {
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.place.gpu
    }

    /// What the hardware was told last.
    pub(crate) fn spec(&self) -> &QueueSpec {
        &self.properties.spec
    }

    /// Which of the process's doorbells it has, as interrupts name it.
    pub(crate) fn doorbell_id(&self) -> u32 {
        self.doorbell.id()
    }

    pub(crate) fn kind(&self) -> Kind {
        match &self.sdma {
            None => Kind::Compute,
            Some(slot) if slot.is_xgmi() => Kind::SdmaXgmi,
            Some(_) => Kind::Sdma,
        }
    }

    /// The queue as the scheduler knows it.
    pub(crate) fn hw(&self) -> &Arc<HwQueue> {
        &self.hw
    }

    /// Changes ring, share or priority. A share or ring of nothing takes the queue off the
    /// hardware until the next change. `EFAULT` if the new ring is not mapped. After an error the
    /// queue has what it had.
    pub(crate) fn update(&mut self, change: &Change) -> Result {
        let new_ring = if change.ring_va != 0 && change.ring_size != 0 {
            let size = u64::from(change.ring_size) + u64::from(self.properties.metadata_size);
            Some(Buffers::pin_ring(&self.place.vm, change.ring_va, size)?)
        } else {
            None
        };
        let mut spec = self.properties.spec.clone();
        spec.ring_va = change.ring_va;
        spec.ring_size = change.ring_size;
        spec.percent = change.percent;
        spec.priority = change.priority;
        spec.pm4_target_xcc = change.pm4_target_xcc;
        self.place.gpu.dqm()?.update(&self.hw, spec.clone())?;
        self.properties.spec = spec;
        if let Some(ring) = new_ring {
            // Only now: the hardware has left the old one.
            self.buffers.set_ring(ring);
        }
        Ok(())
    }

    /// `EINVAL` for queues of no waves.
    fn set_gws(&mut self, has: bool) -> Result {
        if self.kind() != Kind::Compute {
            return Err(EINVAL);
        }
        let mut spec = self.properties.spec.clone();
        spec.gws = has;
        self.place.gpu.dqm()?.update(&self.hw, spec.clone())?;
        self.properties.spec = spec;
        Ok(())
    }

    /// Restricts the queue to compute units.
    pub(crate) fn set_cu_mask(&self, mask: &[u32]) -> Result {
        let gpu = &self.place.gpu;
        // An SDMA queue uses none of them: as in the C driver it is changed to what it is.
        let masks = cu_mask::spread(gpu, mask)?;
        gpu.dqm()?.set_cu_mask(&self.hw, &masks)
    }

    /// Takes the queue off the hardware; with `is_last`, also the process.
    ///
    /// Afterwards it is off all lists, also if an error says that the hardware did not confirm it.
    fn stop(&self, is_last: bool) -> Result {
        let dqm = self.place.gpu.dqm()?;
        let removed = dqm.remove(&self.hw);
        if is_last {
            return removed.and(dqm.unregister(&self.place.slot));
        }
        removed
    }
}
