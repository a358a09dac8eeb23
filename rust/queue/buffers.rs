// SPDX-License-Identifier: GPL-2.0

//! Buffers that the hardware of a queue accesses: checked to be mapped and pinned.

use kernel::{prelude::*, sync::Arc};
use rkfd_abi::pte::PAGE_SIZE;

use super::request::{QueueEngine, QueueRequest};
use crate::{
    kapi::workqueue::Delayed,
    mmu::vm::{KernelPage, Pin, Vm},
    node::Node,
    svm::{Svm, SvmPin},
};

/// Minimum size of the end-of-pipe buffer in bytes.
const EOP_MIN: u32 = 4096;

/// Alignment in bytes that the registers and packets require of an address.
pub(crate) const RING_ALIGN: u64 = 256;
const RPTR_ALIGN: u64 = 4;
const WPTR_ALIGN: u64 = 8;

/// Returns `EINVAL` for an address whose low bits the hardware would ignore. The C driver writes
/// such addresses to the MQD.
fn check_alignment(request: &QueueRequest) -> Result {
    let aligned = request.wptr_va % WPTR_ALIGN == 0
        && request.rptr_va % RPTR_ALIGN == 0
        && request.ring_va % RING_ALIGN == 0
        && request.eop_va % RING_ALIGN == 0
        && request.cwsr_va % PAGE_SIZE == 0;
    if aligned {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Shared virtual memory of the process of a queue.
#[derive(Clone)]
pub(crate) struct SharedMemory {
    /// The memory.
    pub(crate) svm: Arc<Delayed<Svm>>,
    /// Index of the GPU there.
    pub(crate) gpu: usize,
}

/// The memory of a context save area.
enum SaveArea {
    /// A buffer.
    Buffer { _pin: Pin },
    /// Shared virtual memory.
    Shared { _pin: SvmPin },
}

/// The pinned mappings of a queue's buffers.
pub(super) struct QueueBuffers {
    // Field order: the GART mapping is removed before its page is unpinned.
    wptr_kernel: Option<KernelPage>,
    wptr: Pin,
    _rptr: Pin,
    ring: Pin,
    _eop: Option<Pin>,
    _cwsr: Option<SaveArea>,
}

/// Pins the mapping that covers exactly the pages of `size` bytes at `va`: it starts at the page
/// of `va` and has the same length. `EINVAL` if there is none.
fn pin_exact(vm: &Arc<Vm>, va: u64, size: u64) -> Result<Pin> {
    let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(EINVAL)?;
    vm.pin(va / PAGE_SIZE * PAGE_SIZE, size)
}

/// Returns the bytes of the whole context save area of a queue. `EINVAL` if the size per XCC or
/// the size of the control stack does not match that of the GPU, or the areas of XCCs other than
/// the first do not start at a page: the register ignores the low bits of the address.
fn cwsr_size(node: &Node, request: &QueueRequest) -> Result<u64> {
    let sizes = node.cwsr()?;
    if node.xccs().count() > 1 && u64::from(request.cwsr_size) % PAGE_SIZE != 0 {
        return Err(EINVAL);
    }
    if request.ctl_stack_size != sizes.ctl_stack || request.cwsr_size < sizes.total {
        return Err(EINVAL);
    }
    (u64::from(request.cwsr_size) + u64::from(sizes.debug))
        .checked_mul(node.xccs().count().into())
        .ok_or(EINVAL)
}

impl QueueBuffers {
    /// Finds and pins all buffers, in the order of `kfd_queue_acquire_buffers()`.
    ///
    /// `EINVAL` if an address is not aligned, a size does not fit the GPU, or a buffer is not
    /// mapped exactly.
    pub(super) fn acquire(
        node: &Node,
        vm: &Arc<Vm>,
        shared: &SharedMemory,
        request: &QueueRequest,
    ) -> Result<Self> {
        check_alignment(request)?;
        let wptr = pin_exact(vm, request.wptr_va, PAGE_SIZE)?;
        let rptr = pin_exact(vm, request.rptr_va, PAGE_SIZE)?;
        let ring = pin_exact(vm, request.ring_va, request.ring_and_metadata())?;
        let mut buffers = Self {
            wptr_kernel: None,
            wptr,
            _rptr: rptr,
            ring,
            _eop: None,
            _cwsr: None,
        };
        if request.engine != QueueEngine::Compute {
            return Ok(buffers);
        }
        if request.eop_va != 0 {
            if request.eop_size < EOP_MIN {
                return Err(EINVAL);
            }
            buffers._eop = Some(pin_exact(vm, request.eop_va, request.eop_size.into())?);
        }
        let size = cwsr_size(node, request)?;
        buffers._cwsr = Some(match pin_exact(vm, request.cwsr_va, size) {
            Ok(_pin) => SaveArea::Buffer { _pin },
            Err(_) => {
                let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(EINVAL)?;
                let _pin = Svm::pin(&shared.svm, shared.gpu, request.cwsr_va, size)?;
                SaveArea::Shared { _pin }
            }
        });
        Ok(buffers)
    }

    /// Maps the page of the write pointer at `va` in the GART. Returns the address of the write
    /// pointer in VMID 0.
    pub(super) fn map_wptr_to_kernel(&mut self, va: u64) -> Result<u64> {
        let page = self.wptr.map_to_kernel()?;
        let addr = page.addr() + va % PAGE_SIZE;
        self.wptr_kernel = Some(page);
        Ok(addr)
    }

    /// Pins a new ring of `size` bytes; `EFAULT` if it is not mapped exactly. For a ring smaller
    /// than a page only the start is checked, as in the C driver.
    pub(super) fn pin_ring(vm: &Arc<Vm>, va: u64, size: u64) -> Result<Pin> {
        if va % RING_ALIGN != 0 {
            return Err(EFAULT);
        }
        let size = size / PAGE_SIZE * PAGE_SIZE;
        vm.pin(va / PAGE_SIZE * PAGE_SIZE, size).map_err(|_| EFAULT)
    }

    /// Replaces the pinned ring and unpins the old one.
    pub(super) fn set_ring(&mut self, ring: Pin) {
        self.ring = ring;
    }
}
