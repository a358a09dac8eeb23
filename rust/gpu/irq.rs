// SPDX-License-Identifier: GPL-2.0

//! The interrupt ring: memory, draining it, and who gets what.
//!
//! The hardware writes entries of 32 bytes and its write pointer to memory and raises one MSI-X
//! per batch; the driver gives entries back by a doorbell. All runs in the interrupt thread.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        barrier,
        Arc,
        Mutex,
        SetOnce, //
    },
    time::{Delta, Instant, Monotonic},
};

use super::Gpu;
use crate::{
    hw::{IhEntry, IhEvent, IhSetup, SqSender, VmFault, IH_ENTRY_DWORDS},
    kapi::dma::Coherent,
    trace,
};

/// Bytes of the ring.
const RING_SIZE: u32 = 256 * 1024;
const ENTRY_BYTES: u32 = IH_ENTRY_DWORDS as u32 * 4;
/// Where the write pointer's copy is: behind the ring.
const WPTR_OFFSET: usize = RING_SIZE as usize;
/// The dummy read target of the bus interface, in the page behind.
const DUMMY_OFFSET: usize = WPTR_OFFSET + 4096;

/// What is above the GPU and wants to hear of events. Called in the interrupt thread, may sleep.
pub(crate) trait Sink: Sync {
    /// A compute queue of the process with this PASID ended a packet that asked for an interrupt;
    /// `ctx0` is the packet's data, for KFD an event id.
    fn cp_eop(&self, gpu: &Gpu, pasid: u32, ctx0: u32);

    /// The process's memory access failed.
    fn vm_fault(&self, gpu: &Gpu, pasid: u32, fault: &VmFault);

    /// A compute queue of the process, the one with the process's doorbell `doorbell`, met a packet
    /// that it does not know or cannot execute.
    fn bad_opcode(&self, gpu: &Gpu, pasid: u32, doorbell: u32, code: u32);

    /// A shader of the process sent a message.
    fn sq_msg(&self, gpu: &Gpu, pasid: u32, data: u32, from: SqSender);

    /// An SDMA queue of the process trapped.
    fn sdma_trap(&self, gpu: &Gpu, pasid: u32, ctx0: u32);

    /// The process has lost a queue. Locks as below.
    fn queue_reset(&self, gpu: &Gpu, pasid: u32);

    /// The GPU hangs and all its queues are lost. Called with scheduler locks held: only note it
    /// and tell waiters.
    fn gpu_reset(&self, gpu: &Gpu);

    /// The GPU was reset and works again.
    fn gpu_back(&self, gpu: &Gpu);
}

static SINK: SetOnce<&'static dyn Sink> = SetOnce::new();

/// Registers the receiver of events; the first one stays.
pub(crate) fn set_sink(sink: &'static dyn Sink) {
    SINK.populate(sink);
}

/// At most so many lines in so many seconds.
struct LogLimit {
    since: Instant<Monotonic>,
    lines: u32,
}

impl LogLimit {
    const LINES: u32 = 10;
    const WINDOW: Delta = Delta::from_secs(5);

    fn new() -> Self {
        Self {
            since: Instant::now(),
            lines: 0,
        }
    }

    fn allows(&mut self) -> bool {
        if self.since.elapsed() > Self::WINDOW {
            *self = Self::new();
        }
        self.lines += 1;
        self.lines <= Self::LINES
    }
}

/// The receiver of events.
pub(super) fn sink() -> Option<&'static dyn Sink> {
    SINK.as_ref().copied()
}

/// The ring of a GPU.
#[pin_data]
pub(crate) struct Ih {
    mem: Coherent,
    /// Byte offset of the next entry to read.
    #[pin]
    rptr: Mutex<u32>,
    /// Keeps a storm of messages out of the log.
    #[pin]
    log: Mutex<LogLimit>,
}

impl Ih {
    /// Allocates the ring.
    pub(crate) fn new(dev: &kernel::device::Device) -> impl PinInit<Self, Error> + '_ {
        try_pin_init!(Self {
            mem: Coherent::new(dev, DUMMY_OFFSET + 4096)?,
            rptr <- new_mutex!(0),
            log <- new_mutex!(LogLimit::new()),
        })
    }

    /// Programs the hardware and lets it raise interrupts.
    pub(crate) fn start(&self, gpu: &Gpu) -> Result {
        {
            let mut rptr = self.rptr.lock();
            *rptr = 0;
            // What the hardware left there before it was reset is no news.
            self.mem.write32(WPTR_OFFSET, 0)?;
        }
        let ring = self.mem.dma_address();
        gpu.generation().ih.start(
            gpu.mmio()?,
            &IhSetup {
                ring,
                size: RING_SIZE,
                wptr: ring + WPTR_OFFSET as u64,
                doorbell: gpu.generation().caps.ih_doorbell * 2,
                dummy_dma: ring + DUMMY_OFFSET as u64,
            },
        )
    }

    /// Stops the hardware.
    pub(crate) fn stop(&self, gpu: &Gpu) -> Result {
        gpu.generation().ih.stop(gpu.mmio()?)
    }

    /// May something that hardware can make happen often be said now?
    pub(crate) fn may_log(&self) -> bool {
        self.log.lock().allows()
    }

    /// The bus address of a page that stray hardware accesses may hit.
    pub(crate) fn dummy_dma(&self) -> u64 {
        self.mem.dma_address() + DUMMY_OFFSET as u64
    }

    /// The write pointer; deals with an overflow, which loses entries.
    fn wptr(&self, gpu: &Gpu, rptr: &mut u32) -> Result<u32> {
        let ih = gpu.generation().ih;
        let (wptr, overflow) = ih.wptr(self.mem.read32(WPTR_OFFSET)?);
        if !overflow {
            return Ok(wptr & (RING_SIZE - 1));
        }
        // The copy in memory may be older than the last acknowledgement.
        let (wptr, overflow) = ih.wptr(ih.read_wptr(gpu.mmio()?)?);
        let wptr = wptr & (RING_SIZE - 1);
        if overflow {
            // The oldest entry that was not overwritten is the one behind the write pointer.
            let oldest = (wptr + ENTRY_BYTES) & (RING_SIZE - 1);
            if self.log.lock().allows() {
                dev_warn!(
                    gpu.dev(),
                    "interrupt ring overflow (write pointer {wptr:#x}, read pointer {rptr:#x}), go on at {oldest:#x}\n"
                );
            }
            *rptr = oldest;
            ih.clear_overflow(gpu.mmio()?)?;
        }
        Ok(wptr)
    }

    /// Handles all entries that are there.
    pub(crate) fn drain(&self, gpu: &Gpu) -> Result {
        let mut rptr = self.rptr.lock();
        loop {
            let wptr = self.wptr(gpu, &mut rptr)?;
            if wptr == *rptr {
                return Ok(());
            }
            barrier::dma_mb(barrier::Read);
            while *rptr != wptr {
                let mut raw = [0u32; IH_ENTRY_DWORDS];
                for (i, word) in raw.iter_mut().enumerate() {
                    *word = self.mem.read32(*rptr as usize + i * 4)?;
                }
                *rptr = (*rptr + ENTRY_BYTES) & (RING_SIZE - 1);
                dispatch(gpu, &gpu.generation().ih.decode(gpu.mmio()?, &raw));
            }
            gpu.doorbells()
                .ring32(gpu.generation().caps.ih_doorbell * 2, *rptr)?;
        }
    }
}

/// Tells whom it concerns.
fn dispatch(gpu: &Gpu, entry: &IhEntry) {
    let pasid = u32::from(entry.pasid);
    trace::ih(
        gpu.id(),
        u32::from(entry.client),
        u32::from(entry.source),
        u32::from(entry.ring),
        u32::from(entry.vmid),
        pasid,
        entry.ctx0,
    );
    let user = u32::from(entry.vmid) >= gpu.generation().caps.first_user_vmid && pasid != 0;
    match entry.event {
        IhEvent::SdmaTrap {
            ctx0,
            engine,
            kernel: true,
        } => {
            if let Ok(sdma) = gpu.sdma() {
                sdma.trap(engine, ctx0);
            }
            return;
        }
        IhEvent::VmFault(fault) => return vm_fault(gpu, entry, &fault, user),
        _ => {}
    }
    let Some(sink) = sink() else {
        return;
    };
    match entry.event {
        // Data 0 is the firmware's way to say that nothing was asked for.
        IhEvent::CpEop { ctx0 } if user && ctx0 != 0 => sink.cp_eop(gpu, pasid, ctx0),
        IhEvent::SdmaTrap { ctx0, .. } if user => sink.sdma_trap(gpu, pasid, ctx0),
        IhEvent::SqMessage { data, from } if user => sink.sq_msg(gpu, pasid, data, from),
        IhEvent::CpBadOpcode { doorbell, code } if user => {
            if gpu.ih().may_log() {
                dev_err!(
                    gpu.dev(),
                    "bad packet in the queue of PASID {pasid} with doorbell {doorbell:#x}, error {code}\n"
                );
            }
            sink.bad_opcode(gpu, pasid, doorbell, code);
        }
        IhEvent::CpBadOpcode { doorbell, code } => {
            dev_err!(
                gpu.dev(),
                "bad packet in a kernel queue, doorbell {doorbell:#x}, error {code}\n"
            );
        }
        IhEvent::CpPrivileged => {
            dev_err!(
                gpu.dev(),
                "privileged access by a queue (PASID {pasid}, VMID {})\n",
                entry.vmid
            );
        }
        _ => {}
    }
}

fn vm_fault(gpu: &Gpu, entry: &IhEntry, fault: &VmFault, user: bool) {
    let status = gpu
        .mmio()
        .and_then(|m| {
            gpu.generation()
                .gmc
                .fault_status(m, fault.gfx, u32::from(entry.node))
        })
        .unwrap_or(0);
    if gpu.ih().may_log() {
        report_fault(
            gpu,
            fault,
            u32::from(entry.vmid),
            u32::from(entry.pasid),
            status,
        );
    }
    if user {
        if let Some(sink) = sink() {
            sink.vm_fault(gpu, u32::from(entry.pasid), fault);
        }
    } else if let Ok(sdma) = gpu.sdma() {
        // A job of a kernel ring: it ends with an error, and that is all.
        let hal = gpu.generation().sdma;
        let mmio = gpu.mmio().ok();
        let engine = mmio.and_then(|m| hal.fault_engine(m, status, u32::from(entry.node)));
        sdma.fault(engine, u32::from(entry.vmid));
    }
}

fn report_fault(gpu: &Gpu, fault: &VmFault, vmid: u32, pasid: u32, status: u32) {
    let hub = if fault.gfx { "graphics" } else { "memory" };
    let access = if fault.write { "write" } else { "read" };
    let retry = if fault.retry { ", retry" } else { "" };
    let why = match (fault.not_present, fault.no_read, fault.no_write) {
        (true, _, _) => "nothing is mapped",
        (_, true, _) => "may not be read",
        (_, _, true) => "may not be written",
        _ => "not allowed",
    };
    let addr = fault.addr;
    dev_err!(
        gpu.dev(),
        "VM fault: {hub} hub, VMID {vmid}, PASID {pasid}, address {addr:#014x}, {access}{retry}: {why}, status {status:#010x}\n"
    );
}

/// The interrupt handler of a GPU.
pub(crate) struct Handler(Arc<Gpu>);

impl Handler {
    /// Makes the handler.
    pub(crate) fn new(gpu: Arc<Gpu>) -> Self {
        Self(gpu)
    }
}

impl crate::kapi::irq::Handler for Handler {
    fn handle(&self) {
        if let Err(e) = self.0.ih().drain(&self.0) {
            if e != ENODEV {
                dev_err!(self.0.dev(), "interrupt ring: {e:?}\n");
            }
        }
    }
}
