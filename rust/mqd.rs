// SPDX-License-Identifier: GPL-2.0

//! The MQD of a user queue: placement and updates.
//!
//! A compute queue has one MQD per XCC of the node, at a fixed stride; on some generations the
//! control stack must directly follow the page of each, with all of it in VRAM. An SDMA queue has
//! one MQD in system memory. Context save may write up to the end of the MQD's page.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use crate::{
    asic::xcc::XccList,
    card::{
        gart::{Buffer, BufferAccess},
        vram::VramUser,
    },
    gpu::Gpu,
    hw::{MqdContext, MqdKind, QueueSpec, SaveState, SdmaQueueId, Words},
};

/// The XCCs of a compute queue.
#[derive(Clone, Copy)]
pub(crate) struct QueuePlace<'a> {
    /// The XCCs.
    pub(crate) xccs: &'a XccList,
    /// Share of an AQL dispatch that the first of them takes, see [`MqdContext::first_share`].
    pub(crate) first_share: u32,
}

/// Saved waves of a queue on one XCC.
pub(crate) struct SavedWaves {
    /// Use of the save area.
    pub(crate) state: SaveState,
    /// Control stack from `state.stack_offset` on; empty if it is in the save area.
    pub(crate) stack: KVec<u32>,
}

/// The MQD of a user queue.
pub(crate) struct Mqd {
    gpu: Arc<Gpu>,
    buffer: Buffer,
    stride: usize,
    /// Number of MQDs: one per XCC; one for an SDMA queue.
    count: u32,
    /// See [`QueuePlace`].
    first_share: u32,
    /// Slot of an SDMA queue.
    sdma: Option<SdmaQueueId>,
}

impl Mqd {
    /// Allocates and initializes the MQD of a queue; `place` is that of a compute queue. `ENOMEM`
    /// without memory, `ENODEV` when the device is unplugged.
    pub(crate) fn new(gpu: &Arc<Gpu>, place: QueuePlace<'_>, spec: &QueueSpec) -> Result<Self> {
        gpu.mmio()?;
        match spec.sdma {
            Some(slot) => Self::new_sdma(gpu, slot, spec),
            None => Self::new_compute(gpu, place, spec),
        }
    }

    fn new_sdma(gpu: &Arc<Gpu>, place: SdmaQueueId, spec: &QueueSpec) -> Result<Self> {
        let hal = gpu.generation().sdma_queue;
        let mut image = KVec::<u32>::zeroed(hal.dwords(), GFP_KERNEL)?;
        hal.update(place, spec, &mut image)?;
        let buffer = gpu.system_buffer(PAGE_SIZE)?;
        buffer.write_dwords(0, &image)?;
        Ok(Self {
            gpu: gpu.clone(),
            buffer,
            stride: 0,
            count: 1,
            first_share: 0,
            sdma: Some(place),
        })
    }

    fn new_compute(gpu: &Arc<Gpu>, place: QueuePlace<'_>, spec: &QueueSpec) -> Result<Self> {
        let num_xcc = place.xccs.len();
        let (stride, buffer) = if gpu.generation().caps.control_stack_in_mqd {
            let ctl_stack = (spec.ctl_stack_size as usize).next_multiple_of(PAGE_SIZE);
            let stride = PAGE_SIZE + ctl_stack;
            (stride, gpu.vram_buffer(stride * num_xcc, VramUser::Mqd)?)
        } else {
            (PAGE_SIZE, gpu.system_buffer(PAGE_SIZE * num_xcc)?)
        };
        let mqd = Self {
            gpu: gpu.clone(),
            buffer,
            stride,
            count: place.xccs.count(),
            first_share: place.first_share,
            sdma: None,
        };
        let hal = gpu.generation().mqd;
        let mut image = KVec::<u32>::zeroed(hal.dwords(), GFP_KERNEL)?;
        for xcc in 0..mqd.count {
            let mut context = mqd.context(xcc);
            if spec.render.is_some() {
                context.kind = MqdKind::Render;
            }
            hal.init(&context, spec, &mut image)?;
            mqd.buffer.write_dwords(mqd.offset(xcc), &image)?;
            image.fill(0);
        }
        Ok(mqd)
    }

    fn offset(&self, xcc: u32) -> usize {
        xcc as usize * self.stride
    }

    fn context(&self, xcc: u32) -> MqdContext {
        MqdContext {
            kind: MqdKind::User,
            addr: self.buffer.gpu_addr() + self.offset(xcc) as u64,
            xcc,
            num_xcc: self.count,
            first_share: self.first_share,
            stride: self.stride as u32,
            pci_atomics: self.gpu.config().pci_atomics,
        }
    }

    /// Returns the GPU address of the first MQD.
    pub(crate) fn gpu_addr(&self) -> u64 {
        self.buffer.gpu_addr()
    }

    /// Returns the number of MQDs: one per XCC of the node.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    fn dwords(&self) -> usize {
        match self.sdma {
            Some(_) => self.gpu.generation().sdma_queue.dwords(),
            None => self.gpu.generation().mqd.dwords(),
        }
    }

    /// Updates the MQD. The queue must be unmapped; state saved by the CP is kept. `ENODEV` when
    /// the device is unplugged.
    pub(crate) fn update(&self, spec: &QueueSpec) -> Result {
        let g = self.gpu.generation();
        if let Some(place) = self.sdma {
            let mut image = KVec::<u32>::zeroed(self.dwords(), GFP_KERNEL)?;
            self.buffer.read_dwords(0, &mut image)?;
            g.sdma_queue.update(place, spec, &mut image)?;
            return self.buffer.write_dwords(0, &image);
        }
        self.change(|xcc, image| {
            g.mqd.update(&self.context(xcc), spec, image);
            Ok(())
        })
    }

    /// Sets the CU mask of each XCC, one dword per shader engine. The queue must be unmapped. No
    /// effect on an SDMA queue. `EINVAL` with masks for too few XCCs.
    pub(crate) fn set_cu_mask(&self, masks: &[KVec<u32>]) -> Result {
        if self.sdma.is_some() {
            return Ok(());
        }
        self.change(|xcc, image| {
            let mask = masks.get(xcc as usize).ok_or(EINVAL)?;
            self.gpu.generation().mqd.set_cu_mask(mask, image);
            Ok(())
        })
    }

    /// Returns the CU mask of each XCC as [`Self::set_cu_mask`] takes it; none for an SDMA queue.
    /// `ENOMEM` without memory, `ENODEV` when the device is unplugged.
    pub(crate) fn cu_masks(&self) -> Result<KVec<KVec<u32>>> {
        let mut all = KVec::new();
        if self.sdma.is_some() {
            return Ok(all);
        }
        self.gpu.mmio()?;
        let mqd = self.gpu.generation().mqd;
        for xcc in 0..self.count {
            let mut mask = KVec::from_elem(0, mqd.cu_mask_dwords(), GFP_KERNEL)?;
            self.in_place(xcc, |image| {
                mqd.cu_mask(image, &mut mask);
                Ok(())
            })?;
            all.push(mask, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Sets whether performance counters count the waves of the queue, which must be unmapped. No
    /// effect on an SDMA queue.
    pub(crate) fn set_perfcount(&self, enable: bool) -> Result {
        if self.sdma.is_some() {
            return Ok(());
        }
        self.change(|_, image| {
            self.gpu.generation().mqd.set_perfcount(enable, image);
            Ok(())
        })
    }

    fn change(&self, f: impl Fn(u32, &mut dyn Words) -> Result) -> Result {
        for xcc in 0..self.count {
            self.in_place(xcc, |image| f(xcc, image))?;
        }
        self.buffer.publish()
    }

    /// Calls `f` with the MQD of an XCC, in an RCU read-side section: `f` must not sleep. Returns
    /// its error, otherwise that of an access.
    fn in_place<T>(&self, xcc: u32, f: impl FnOnce(&mut dyn Words) -> Result<T>) -> Result<T> {
        let mut image = InPlace {
            buffer: self.buffer.access()?,
            at: self.offset(xcc),
            result: Ok(()),
        };
        let value = f(&mut image)?;
        image.result?;
        Ok(value)
    }

    /// Returns the saved waves of the queue by XCC, which must be unmapped. `ENOMEM` without
    /// memory, `ENODEV` when the device is unplugged.
    pub(crate) fn saved_waves(&self) -> Result<KVec<SavedWaves>> {
        let generation = self.gpu.generation();
        let mut all = KVec::with_capacity(self.count as usize, GFP_KERNEL)?;
        for xcc in 0..self.count {
            let state = self.in_place(xcc, |image| Ok(generation.mqd.save_state(image)))?;
            let mut stack = KVec::new();
            if generation.caps.control_stack_in_mqd {
                // The offsets that the CP wrote are not trusted: limit them to the buffer.
                let room = self.stride - PAGE_SIZE;
                let end = (state.stack_size as usize).min(room);
                let words = ((state.stack_offset as usize).min(end)..end).step_by(4);
                stack.reserve(words.len(), GFP_KERNEL)?;
                // Nothing sleeps during the access.
                let buffer = self.buffer.access()?;
                for at in words {
                    let word = buffer.read32(self.offset(xcc) + PAGE_SIZE + at)?;
                    stack.push_within_capacity(word).map_err(|_| ENOMEM)?;
                }
            }
            all.push(SavedWaves { state, stack }, GFP_KERNEL)?;
        }
        Ok(all)
    }

    /// Returns a copy of the MQD of one XCC. `ENOMEM` without memory.
    pub(crate) fn words(&self, xcc: u32) -> Result<KVec<u32>> {
        let mut image = KVec::<u32>::zeroed(self.dwords(), GFP_KERNEL)?;
        self.gpu.mmio()?;
        self.buffer.read_dwords(self.offset(xcc), &mut image)?;
        Ok(image)
    }
}

/// An MQD accessed in place. Reads of VRAM are slow: only the dwords needed are accessed.
struct InPlace<'a> {
    buffer: BufferAccess<'a>,
    at: usize,
    /// First error.
    result: Result,
}

impl Words for InPlace<'_> {
    fn get(&mut self, dword: usize) -> u32 {
        let read = self.buffer.read32(self.at + dword * 4);
        read.unwrap_or_else(|e| {
            self.result = self.result.and(Err(e));
            0
        })
    }

    fn set(&mut self, dword: usize, value: u32) {
        // Skipped after an error: the value may depend on a failed read.
        self.result = self
            .result
            .and_then(|()| self.buffer.write32(self.at + dword * 4, value));
    }
}
