// SPDX-License-Identifier: GPL-2.0

//! The interrupt rings, IH ring 0 and ring 1 of retry faults: memory, start, overflow, and reading
//! their entries.
//!
//! The hardware writes entries of 32 bytes and a copy of its write pointer to memory and raises one
//! MSI-X per batch. The driver returns entries by a doorbell. Entries are read in the interrupt
//! thread. Entries of ring 1 are announced by one in ring 0.
//!
//! A retry fault occupies a slot in the retry CAM until the driver acknowledges it: meanwhile its
//! access is repeated without further entries.
//!
//! From [`Ih::close`] to [`Ih::start`], across a reset, no doorbell is rung: those of entries read
//! before the reset would meet a disabled aperture, or a ring that has started again.

use kernel::{
    device, new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        barrier,
        Arc,
        Mutex,
        SetOnce, //
    },
};

use super::{
    aperture::Aperture,
    gart::{Gart, GartMapping},
    hub::Hub,
};
use crate::{
    hw::{IhEntry, IhSetup, IH_ENTRY_BYTES, IH_ENTRY_DWORDS},
    kapi::{
        dma::{self, Coherent},
        log_limit::LogLimit,
    },
};

/// Bytes of the ring (`amdgpu_ih_ring_init()` of `vega20_ih.c`).
const RING_SIZE: u32 = 256 * 1024;
/// Byte offset of the write pointer's copy, behind the ring.
const WPTR_OFFSET: usize = RING_SIZE as usize;
/// Byte offset of the page that NBIO reads for dummy reads.
const DUMMY_OFFSET: usize = WPTR_OFFSET + 4096;

/// Bytes of ring 1.
const RETRY_RING_SIZE: u32 = 4096;

/// Distance of the doorbells of ring 1 and of the retry CAM to that of ring 0, in qwords.
const RETRY_RING_DOORBELL: u32 = 1;
const CAM_DOORBELL: u32 = 3;

/// Messages that the hardware triggers. Each kind has a rate limit of its own, so that one does not
/// hide the others.
#[derive(Clone, Copy)]
pub(crate) enum LogKind {
    /// VM faults.
    Fault,
    /// Bad packets.
    Packet,
    /// Privileged accesses.
    Privileged,
    /// An overflow of the ring.
    Overflow,
    /// Lost interrupts of SDMA engines.
    Lost,
    /// VM faults of processes that do not handle them.
    Unhandled,
}

impl LogKind {
    fn name(self) -> &'static str {
        match self {
            Self::Fault => "VM faults",
            Self::Packet => "bad packets",
            Self::Privileged => "privileged accesses",
            Self::Overflow => "overflows of the IH ring",
            Self::Lost => "lost interrupts of SDMA engines",
            Self::Unhandled => "VM faults without a handler",
        }
    }
}

/// Number of [`LogKind`]s.
const LOG_KINDS: usize = LogKind::Unhandled as usize + 1;

/// The interrupt ring of a card.
#[pin_data]
pub(crate) struct Ih {
    dev: ARef<device::Device>,
    hub: Arc<Hub>,
    /// The ring in the GART, if its address is there. Before `mem`, which it maps.
    mapping: SetOnce<GartMapping>,
    mem: Coherent,
    /// Memory of ring 1.
    retry: Coherent,
    /// Byte offset of the next entry to read.
    #[pin]
    rptr: Mutex<u32>,
    /// The same of ring 1; inside `rptr`.
    #[pin]
    retry_rptr: Mutex<u32>,
    /// Whether doorbells are rung. Leaf lock.
    #[pin]
    open: Mutex<bool>,
    #[pin]
    log: Mutex<[LogLimit; LOG_KINDS]>,
}

impl Ih {
    /// Allocates the ring. `ENOMEM` without memory.
    pub(crate) fn new(
        dev: &device::Device,
        dma: Arc<dma::Device>,
        hub: Arc<Hub>,
    ) -> impl PinInit<Self, Error> + '_ {
        try_pin_init!(Self {
            dev: dev.into(),
            hub,
            mapping: SetOnce::new(),
            mem: Coherent::new(&dma, DUMMY_OFFSET + 4096)?,
            retry: Coherent::new(&dma, RETRY_RING_SIZE as usize)?,
            rptr <- new_mutex!(0),
            retry_rptr <- new_mutex!(0, "rkfd_ih_retry"),
            open <- new_mutex!(false, "rkfd_ih_open"),
            log <- new_mutex!(core::array::from_fn(|_| LogLimit::new())),
        })
    }

    /// Returns the address of the ring. Maps it in the GART if it has to be there.
    fn address(&self, gart: &Arc<Gart>) -> Result<u64> {
        if !self.hub.generation().ih.in_gart() {
            return Ok(self.mem.dma_address());
        }
        if let Some(mapping) = self.mapping.as_ref() {
            return Ok(mapping.addr());
        }
        let mapping = gart.map_coherent(&self.mem)?;
        let address = mapping.addr();
        self.mapping.populate(mapping);
        Ok(address)
    }

    /// Programs the hardware and enables interrupts. The memory hubs are up. `ENODEV` when the
    /// device is unplugged, `ENOMEM` without room in the GART.
    pub(crate) fn start(&self, gart: &Arc<Gart>) -> Result {
        {
            let mut rptr = self.rptr.lock();
            *rptr = 0;
            // Drop entries from before a reset.
            self.mem.write32(WPTR_OFFSET, 0)?;
            *self.retry_rptr.lock() = 0;
        }
        *self.open.lock() = true;
        let ring = self.address(gart)?;
        let g = self.hub.generation();
        g.ih.start(
            self.hub.mmio()?,
            &IhSetup {
                ring,
                size: RING_SIZE,
                wptr: ring + WPTR_OFFSET as u64,
                doorbell: self.doorbell(0),
                dummy_dma: self.dummy_dma(),
                retry_ring: self.retry.dma_address(),
                retry_size: RETRY_RING_SIZE,
                retry_doorbell: self.doorbell(RETRY_RING_DOORBELL),
                cam_doorbell: self.doorbell(CAM_DOORBELL),
            },
        )
    }

    /// Rings no more doorbells until [`Ih::start`]. Waits for those being rung.
    pub(super) fn close(&self) {
        *self.open.lock() = false;
    }

    /// Disables interrupts. `ENODEV` when the device is unplugged.
    pub(crate) fn stop(&self) -> Result {
        self.close();
        self.hub.generation().ih.stop(self.hub.mmio()?)
    }

    /// Returns whether a message passes the rate limit of its kind. Logs the number of those before
    /// it that did not.
    pub(crate) fn may_log(&self, kind: LogKind) -> bool {
        let suppressed = self
            .log
            .lock()
            .get_mut(kind as usize)
            .and_then(LogLimit::allows);
        if let Some(suppressed @ 1..) = suppressed {
            dev_warn!(
                &*self.dev,
                "{suppressed} messages about {} were suppressed\n",
                kind.name()
            );
        }
        suppressed.is_some()
    }

    /// Returns the bus address of a page for stray hardware accesses.
    pub(crate) fn dummy_dma(&self) -> u64 {
        self.mem.dma_address() + DUMMY_OFFSET as u64
    }

    /// Returns the write pointer as a byte offset. After an overflow, which loses entries, `rptr`
    /// is moved to the oldest entry left.
    fn wptr(&self, rptr: &mut u32) -> Result<u32> {
        let ih = self.hub.generation().ih;
        let (wptr, overflow) = ih.wptr(self.mem.read32(WPTR_OFFSET)?, RING_SIZE);
        if !overflow {
            return Ok(wptr);
        }
        // The copy in memory may be older than the last acknowledgement.
        let (wptr, overflow) = ih.wptr(ih.read_wptr(self.hub.mmio()?)?, RING_SIZE);
        if overflow {
            // The oldest entry that was not overwritten follows the write pointer.
            let oldest = (wptr + IH_ENTRY_BYTES) & (RING_SIZE - 1);
            if self.may_log(LogKind::Overflow) {
                dev_warn!(
                    &*self.dev,
                    "IH ring overflow (wptr {wptr:#x}, rptr {rptr:#x}), continuing at {oldest:#x}\n"
                );
            }
            *rptr = oldest;
            ih.clear_overflow(self.hub.mmio()?)?;
        }
        Ok(wptr)
    }

    /// Calls `dispatch` with the entries of a ring of `size` bytes from `rptr`, which it advances,
    /// to `wptr`.
    fn read(
        &self,
        ring: &Coherent,
        size: u32,
        rptr: &mut u32,
        wptr: u32,
        dispatch: &mut impl FnMut(&IhEntry),
    ) -> Result {
        barrier::dma_mb(barrier::Read);
        while *rptr != wptr {
            let mut raw = [0u32; IH_ENTRY_DWORDS];
            ring.read32s(*rptr as usize, &mut raw)?;
            *rptr = (*rptr + IH_ENTRY_BYTES) & (size - 1);
            dispatch(&self.hub.generation().ih.decode(self.hub.mmio()?, &raw));
        }
        Ok(())
    }

    /// Reads all entries, calls `dispatch` with each, and returns them to the hardware by a
    /// doorbell. `ENODEV` when the device is unplugged.
    pub(crate) fn drain(&self, doorbells: &Aperture, mut dispatch: impl FnMut(&IhEntry)) -> Result {
        let mut rptr = self.rptr.lock();
        let mut wptr = self.wptr(&mut rptr)?;
        loop {
            self.read(&self.mem, RING_SIZE, &mut rptr, wptr, &mut dispatch)?;
            // Also of an empty ring: the interrupt may be late, and there is none before this.
            self.ring(doorbells, 0, *rptr)?;
            wptr = self.wptr(&mut rptr)?;
            if wptr == *rptr {
                return Ok(());
            }
        }
    }

    /// Reads all entries of ring 1 as [`Self::drain`].
    pub(crate) fn drain_retry(
        &self,
        doorbells: &Aperture,
        mut dispatch: impl FnMut(&IhEntry),
    ) -> Result {
        let g = self.hub.generation();
        let mut rptr = self.retry_rptr.lock();
        loop {
            // Only ring 0 has a copy of its write pointer in memory.
            let (wptr, overflow) =
                g.ih.wptr(g.ih.read_retry_wptr(self.hub.mmio()?)?, RETRY_RING_SIZE);
            if overflow {
                *rptr = (wptr + IH_ENTRY_BYTES) & (RETRY_RING_SIZE - 1);
                if self.may_log(LogKind::Overflow) {
                    dev_warn!(&*self.dev, "IH ring 1 overflow (wptr {wptr:#x})\n");
                }
                g.ih.clear_retry_overflow(self.hub.mmio()?)?;
            }
            if wptr == *rptr {
                return Ok(());
            }
            self.read(&self.retry, RETRY_RING_SIZE, &mut rptr, wptr, &mut dispatch)?;
            self.ring(doorbells, RETRY_RING_DOORBELL, *rptr)?;
        }
    }

    /// Acknowledges a retry fault: the access is repeated, and may fault again.
    pub(crate) fn acknowledge(&self, doorbells: &Aperture, cam: u32) -> Result {
        self.ring(doorbells, CAM_DOORBELL, cam)
    }

    /// Writes the doorbell `distance` qwords behind that of ring 0, unless the rings are closed.
    fn ring(&self, doorbells: &Aperture, distance: u32, value: u32) -> Result {
        let open = self.open.lock();
        if !*open {
            return Ok(());
        }
        doorbells.ring32(self.doorbell(distance), value)
    }

    /// Returns the dword index of the doorbell `distance` qwords behind that of ring 0.
    fn doorbell(&self, distance: u32) -> u32 {
        (self.hub.generation().caps.ih_doorbell + distance) * 2
    }
}
