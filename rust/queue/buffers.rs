// SPDX-License-Identifier: GPL-2.0

//! The memory that a queue's hardware touches: checked to be mapped, kept mapped.

use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

use super::{Engine, Properties};
use crate::{
    gpu::Gpu,
    hw::QueueSpec,
    mmu::vm::{KernelPage, Pin, Vm},
};

/// The smallest end-of-pipe buffer.
const EOP_MIN: u32 = 4096;

/// What the hardware does not look at of the addresses: bits that have to be zero.
const RING_ALIGN: u64 = 256;
const RPTR_ALIGN: u64 = 4;
const WPTR_ALIGN: u64 = 8;

/// The hardware's registers have no place for the low bits of these addresses. The C driver writes
/// them nevertheless.
fn check_alignment(spec: &QueueSpec) -> Result {
    let page = PAGE_SIZE as u64;
    let aligned = spec.wptr_va % WPTR_ALIGN == 0
        && spec.rptr_va % RPTR_ALIGN == 0
        && spec.ring_va % RING_ALIGN == 0
        && spec.eop_va % RING_ALIGN == 0
        && spec.cwsr_va % page == 0;
    if aligned {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// What a queue keeps mapped.
pub(super) struct Buffers {
    // Field order: what is shown goes before what keeps it.
    wptr_shown: Option<KernelPage>,
    wptr: Pin,
    _rptr: Pin,
    ring: Pin,
    _eop: Option<Pin>,
    _cwsr: Option<Pin>,
}

/// Pins the mapping that covers exactly the pages of `size` bytes at `va`: it starts in the page
/// of `va` and is as long. `EINVAL` if there is none.
fn pin_exact(vm: &Arc<Vm>, va: u64, size: u64) -> Result<Pin> {
    let page = PAGE_SIZE as u64;
    let size = size.checked_next_multiple_of(page).ok_or(EINVAL)?;
    vm.pin(va / page * page, size)
}

/// Bytes of the context save area of a queue with the given area per XCC: `EINVAL` if that does
/// not fit what the GPU saves.
fn cwsr_size(gpu: &Gpu, properties: &Properties) -> Result<u64> {
    let node = gpu.config().cwsr(gpu.generation().caps)?;
    let spec = &properties.spec;
    if spec.ctl_stack_size != node.ctl_stack || spec.cwsr_size < node.total {
        return Err(EINVAL);
    }
    (u64::from(spec.cwsr_size) + u64::from(node.debug))
        .checked_mul(gpu.config().num_xcc.into())
        .ok_or(EINVAL)
}

impl Buffers {
    /// Finds and pins all buffers, in the order of the C driver's checks.
    pub(super) fn acquire(gpu: &Gpu, vm: &Arc<Vm>, properties: &Properties) -> Result<Self> {
        let spec = &properties.spec;
        check_alignment(spec)?;
        let ring_size = u64::from(spec.ring_size) + u64::from(properties.metadata_size);
        let wptr = pin_exact(vm, spec.wptr_va, PAGE_SIZE as u64)?;
        let rptr = pin_exact(vm, spec.rptr_va, PAGE_SIZE as u64)?;
        let ring = pin_exact(vm, spec.ring_va, ring_size)?;
        let mut buffers = Self {
            wptr_shown: None,
            wptr,
            _rptr: rptr,
            ring,
            _eop: None,
            _cwsr: None,
        };
        if properties.engine != Engine::Compute {
            return Ok(buffers);
        }
        if spec.eop_va != 0 {
            if spec.eop_size < EOP_MIN {
                return Err(EINVAL);
            }
            buffers._eop = Some(pin_exact(vm, spec.eop_va, spec.eop_size.into())?);
        }
        let size = cwsr_size(gpu, properties)?;
        buffers._cwsr = Some(pin_exact(vm, spec.cwsr_va, size)?);
        Ok(buffers)
    }

    /// Shows the write pointer at `va` to kernel queues: where it is there.
    pub(super) fn show_wptr(&mut self, va: u64) -> Result<u64> {
        let shown = self.wptr.show_to_kernel()?;
        let addr = shown.addr() + va % PAGE_SIZE as u64;
        self.wptr_shown = Some(shown);
        Ok(addr)
    }

    /// Pins another ring; `EFAULT` if it is not mapped exactly. Of a ring that is smaller than a
    /// page only the start is checked, as in the C driver.
    pub(super) fn pin_ring(vm: &Arc<Vm>, va: u64, size: u64) -> Result<Pin> {
        if va % RING_ALIGN != 0 {
            return Err(EFAULT);
        }
        let page = PAGE_SIZE as u64;
        let size = size / page * page;
        vm.pin(va / page * page, size).map_err(|_| EFAULT)
    }

    /// Keeps another ring in place of the old one.
    pub(super) fn set_ring(&mut self, ring: Pin) {
        self.ring = ring;
    }
}
