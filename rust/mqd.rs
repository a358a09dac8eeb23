// SPDX-License-Identifier: GPL-2.0

//! A user queue's image in memory: where it is, and the ways to change it.
//!
//! On this class of hardware the control stack of a queue must lie directly behind the page of
//! its MQD; both repeat for every XCC of the node, at a fixed distance.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use crate::{
    gpu::{gart::Buffer, Gpu},
    hw::{MqdContext, MqdKind, QueueSpec},
};

/// The image of a user queue.
pub(crate) struct Mqd {
    gpu: Arc<Gpu>,
    buffer: Buffer,
    stride: usize,
}

impl Mqd {
    /// Allocates and fills the image.
    pub(crate) fn new(gpu: &Arc<Gpu>, spec: &QueueSpec) -> Result<Self> {
        gpu.mmio()?;
        let ctl_stack = (spec.ctl_stack_size as usize).next_multiple_of(PAGE_SIZE);
        let stride = PAGE_SIZE + ctl_stack;
        let num_xcc = gpu.config().num_xcc as usize;
        let buffer = gpu.vram_buffer(stride * num_xcc)?;
        let mqd = Self {
            gpu: gpu.clone(),
            buffer,
            stride,
        };
        let hal = gpu.generation().mqd;
        let mut image = KVec::from_elem(0u32, hal.dwords(), GFP_KERNEL)?;
        for xcc in 0..gpu.config().num_xcc {
            image.fill(0);
            hal.init(&mqd.context(xcc), spec, &mut image)?;
            mqd.buffer.write_dwords(mqd.offset(xcc), &image)?;
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
            num_xcc: self.gpu.config().num_xcc,
            stride: self.stride as u32,
        }
    }

    /// Address of the first XCC's image for the CP.
    pub(crate) fn gpu_addr(&self) -> u64 {
        self.buffer.gpu_addr()
    }

    /// Changes the image. The queue must be off the hardware: what the CP saved stays.
    pub(crate) fn update(&self, spec: &QueueSpec) -> Result {
        self.change(|cx, image| self.gpu.generation().mqd.update(cx, spec, image))
    }

    /// Sets the compute units that the queue may use, one word per shader engine, for each XCC.
    /// The queue must be off the hardware.
    pub(crate) fn set_cu_mask(&self, masks: &[KVec<u32>]) -> Result {
        self.change(|cx, image| {
            let mask = masks.get(cx.xcc as usize).ok_or(EINVAL)?;
            self.gpu.generation().mqd.set_cu_mask(mask, image)
        })
    }

    fn change(&self, f: impl Fn(&MqdContext, &mut [u32]) -> Result) -> Result {
        let words = self.gpu.generation().mqd.dwords();
        let mut image = KVec::from_elem(0u32, words, GFP_KERNEL)?;
        for xcc in 0..self.gpu.config().num_xcc {
            let at = self.offset(xcc);
            self.buffer.read_dwords(at, &mut image)?;
            f(&self.context(xcc), &mut image)?;
            self.buffer.write_dwords(at, &image)?;
        }
        Ok(())
    }

    /// A copy of the image of one XCC.
    pub(crate) fn words(&self, xcc: u32) -> Result<KVec<u32>> {
        let words = self.gpu.generation().mqd.dwords();
        let mut image = KVec::from_elem(0u32, words, GFP_KERNEL)?;
        self.gpu.mmio()?;
        self.buffer.read_dwords(self.offset(xcc), &mut image)?;
        Ok(image)
    }
}
