// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A mapped queue: HQD configuration, pointers, work in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc};
use rkfd_abi::mqd::v12::HQ_STATUS0_PCIE_ATOMICS;

use super::aql::Aql;
use super::cwsr::Saving;
use super::dispatch::{GwsShare, Job};
use super::pm4::Stream;
use super::regs::Bank;
use super::shared::{Mapping, Waves};
use super::slot::Slot;
use crate::chips::{Cu, Generation};

/// Privilege class: which packets are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Kernel interface queue: maps single queues, by slot.
    Kiq,
    /// HSA interface queue: runs runlists.
    Hiq,
    /// A ring of the MES.
    Mes,
    /// Any other queue.
    Normal,
}

/// Packet format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// PM4.
    Pm4,
    /// AQL.
    Aql,
}

/// Configuration of a queue in its HQD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Packet format.
    pub format: Format,
    /// VMID of the ring.
    pub vmid: u8,
    /// Byte address of the ring.
    pub base: u64,
    /// Size of the ring in dwords.
    pub size: u64,
    /// Address for read pointer reports.
    pub rptr_report: u64,
    /// Address of the write pointer in memory.
    pub wptr_poll: u64,
    /// Dword index of its doorbell on the BAR, if enabled.
    pub doorbell: Option<u32>,
    /// Whether its packets may access registers.
    pub privileged: bool,
    /// Pipe priority: 0 is low, 2 is high.
    pub priority: u8,
    /// Memory queue descriptor, an address of VMID 0.
    pub mqd: u64,
    /// EOP buffer, if it has an address.
    pub eop: Option<Eop>,
    /// Context save area, if wave state can be saved.
    pub save_area: Option<SaveArea>,
    /// Firmware decrements completion signals by AtomicOp requests. On gfx9 it needs none
    /// (`kfd_device_info_init`, `needs_pci_atomics`); on gfx12 it is bit 29 of `cp_hqd_hq_status0`.
    pub bus_atomics: bool,
}

/// The EOP buffer: a ring with the end-of-pipe events of a queue, an address of its VMID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eop {
    /// First byte.
    pub base: u64,
    /// Field EOP_SIZE: it has 2^(`size` + 1) dwords.
    pub size: u32,
}

impl Eop {
    /// Maximum of the field (`update_mqd`).
    pub const MAX_SIZE: u32 = 0xa;

    /// Returns its size.
    pub fn bytes(self) -> u64 {
        8 << self.size.min(Self::MAX_SIZE)
    }
}

/// The CWSR area, an address of the queue's VMID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveArea {
    /// First byte.
    pub base: u64,
    /// Bytes of the control stack; the wave state follows.
    pub stack: u32,
    /// Bytes in total.
    pub size: u32,
}

/// Saved waves: the control stack ends at the offset [`SaveArea::stack`], and the wave state begins
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedState {
    /// Address space and address from which on the control stack has its offset.
    pub vmid: u8,
    /// See `vmid`.
    pub base: u64,
    /// Offset of its start.
    pub stack: u32,
    /// End of the wave state in the save area.
    pub state: u32,
}

crate::errors! {
    /// An invalid queue configuration.
    pub enum ConfigError {
        /// The ring has no address.
        NoRing => "ring address is 0",
        /// Unsupported size of the ring.
        RingSize { log: u32 } => "ring size 2^{log} dwords",
        /// The registers are inconsistent about the packet format.
        Format { aql: bool, control: u32, slot_based: bool } =>
            "CP_HQD_AQL_CONTROL has AQL {aql}, CP_HQD_PQ_CONTROL {control:#x} {slot_based}",
    }
}

impl Config {
    /// Reads the configuration from a bank. Fails if it is invalid.
    pub fn from_bank(generation: Generation, bank: &Bank) -> Result<Self, ConfigError> {
        let control = bank.get(gc::regCP_HQD_PQ_CONTROL);
        let size_log = gc::CP_HQD_PQ_CONTROL__QUEUE_SIZE.get(control);
        let base = bank.get64(gc::regCP_HQD_PQ_BASE) << 8;
        let slot_based = match generation {
            Generation::Gfx9 => gc::CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR,
            Generation::Gfx12 => gc12::CP_HQD_PQ_CONTROL__SLOT_BASED_WPTR,
        };
        let slot_based = slot_based.get(control) == 2;
        let aql = bank.get(gc::regCP_HQD_AQL_CONTROL) & 1 != 0;
        if base == 0 {
            return Err(ConfigError::NoRing);
        }
        if !(5..=29).contains(&size_log) {
            return Err(ConfigError::RingSize { log: size_log + 1 });
        }
        if aql != slot_based {
            return Err(ConfigError::Format {
                aql,
                control,
                slot_based,
            });
        }
        // The registers have no bits below these.
        let rptr_report = bank.get64(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR) & !3;
        let wptr_poll = bank.get64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR) & !7;
        let area = bank.get64(gc::regCP_HQD_CTX_SAVE_BASE_ADDR_LO);
        let switch = bank.get(gc::regCP_HQD_PERSISTENT_STATE);
        let eop = bank.get64(gc::regCP_HQD_EOP_BASE_ADDR) << 8;
        let eop_control = bank.get(gc::regCP_HQD_EOP_CONTROL);
        let saves = gc::CP_HQD_PERSISTENT_STATE__QSWITCH_MODE.is_set(switch) && area != 0;
        Ok(Self {
            format: if aql { Format::Aql } else { Format::Pm4 },
            vmid: gc::CP_HQD_VMID__VMID.get(bank.get(gc::regCP_HQD_VMID)) as u8,
            base,
            size: 2 << size_log,
            rptr_report,
            wptr_poll,
            doorbell: bank.doorbell(),
            privileged: gc::CP_HQD_PQ_CONTROL__PRIV_STATE.is_set(control),
            priority: bank.get(gc::regCP_HQD_PIPE_PRIORITY) as u8 & 3,
            mqd: bank.get64(gc::regCP_MQD_BASE_ADDR),
            eop: (eop != 0).then(|| Eop {
                base: eop,
                size: gc::CP_HQD_EOP_CONTROL__EOP_SIZE.get(eop_control),
            }),
            save_area: saves.then(|| SaveArea {
                base: area,
                stack: bank.get(gc::regCP_HQD_CNTL_STACK_SIZE),
                size: bank.get(gc::regCP_HQD_CTX_SAVE_SIZE),
            }),
            bus_atomics: generation == Generation::Gfx12
                && bank.get(gc::regCP_HQD_HQ_STATUS0) & HQ_STATUS0_PCIE_ATOMICS != 0,
        })
    }

    /// Returns the size of the ring in units of its pointers: dwords, or AQL packets.
    pub fn capacity(&self) -> u64 {
        match self.format {
            Format::Pm4 => self.size,
            Format::Aql => self.size / 16,
        }
    }

    /// Returns the doorbell id of interrupts: 8-byte index in the process's doorbell slice.
    pub fn doorbell_id(&self) -> u32 {
        self.doorbell.unwrap_or(0) / rkfd_abi::doorbell::DWORDS
            % rkfd_abi::doorbell::PER_PROCESS as u32
    }

    /// Extends a 32-bit `rptr` register to 64 bits, given the write pointer.
    pub fn widen_rptr(&self, rptr: u32, wptr: u64) -> u64 {
        match self.format {
            // The register wraps with the ring; a PM4 ring is never completely full.
            Format::Pm4 => wptr.wrapping_sub(wptr.wrapping_sub(rptr.into()) & (self.size - 1)),
            // In dwords, not wrapped; 2^28 packets fit.
            Format::Aql => {
                let packets = u64::from(rptr) / 16;
                wptr.wrapping_sub(wptr.wrapping_sub(packets) & ((1 << 28) - 1))
            }
        }
    }

    /// Truncates a pointer to the 32-bit register.
    pub fn narrow_rptr(&self, rptr: u64) -> u32 {
        match self.format {
            Format::Pm4 => (rptr & (self.size - 1)) as u32,
            Format::Aql => rptr.wrapping_mul(16) as u32,
        }
    }
}

/// Reason why a queue is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// It runs.
    No,
    /// A VM fault without retry.
    Fault,
    /// A bad packet, or one that is not allowed.
    BadPacket,
    /// The knob `hws.hang_op` stops it.
    Hung,
    /// An error was reported through the inactive signal.
    Error,
    /// The inactive signal requests scratch memory; the queue resumes when its value is 0.
    Scratch(u64),
}

/// Kinds of dequeue requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmap {
    /// Saves running waves.
    Preempt,
    /// Kills running waves.
    Reset,
    /// Waits for running waves to end.
    Drain,
}

/// A pending dequeue request.
#[derive(Debug, Clone, Copy)]
pub struct Leaving {
    /// Kind.
    pub how: Unmap,
    /// When it was requested.
    pub since: Instant,
    /// Whether the queue stays mapped afterwards.
    pub keep: bool,
    /// Requested by registers: ignores the knobs that make the scheduler hang.
    pub forced: bool,
    /// Its pipe was reset: no MQD is written.
    pub lost: bool,
}

/// State of a PM4 queue besides its pointers.
#[derive(Default)]
pub struct Pm4 {
    /// IBs being executed, the innermost last.
    pub ibs: Vec<Stream>,
    /// The `COMPUTE_*` registers from `COMPUTE_DISPATCH_INITIATOR` on.
    pub compute: Vec<u32>,
    /// Dispatches in flight.
    pub jobs: VecDeque<Arc<Job>>,
    /// Result of the last returning atomic.
    pub atomic_return: u64,
    /// A WRITE_WAIT has written its register and polls.
    pub wrote: bool,
}

/// Work in flight.
pub enum Work {
    /// PM4 queue.
    Pm4(Pm4),
    /// AQL queue.
    Aql(Aql),
}

impl Work {
    /// Returns the state with nothing in flight.
    pub fn new(config: &Config, rptr: u64) -> Self {
        match config.format {
            Format::Pm4 => Work::Pm4(Pm4::default()),
            Format::Aql => Work::Aql(Aql::new(config, rptr)),
        }
    }

    /// Returns the dispatches in flight.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        match self {
            Work::Pm4(pm4) => pm4.jobs.iter().cloned().collect(),
            Work::Aql(aql) => aql.jobs(),
        }
    }

    /// Returns whether there is state that the pointers do not cover.
    pub fn in_flight(&self) -> bool {
        match self {
            Work::Pm4(pm4) => !pm4.jobs.is_empty() || !pm4.ibs.is_empty(),
            Work::Aql(aql) => aql.in_flight(),
        }
    }
}

/// Contents of the save area of a queue after its unmap.
pub enum Left {
    /// Nothing.
    Nothing,
    /// Waves.
    Waves(Waves),
    /// Save with this number, which was not restored.
    Unchanged(u64),
}

/// A mapped queue.
pub struct Queue {
    /// Its HQD.
    pub slot: Slot,
    /// Privilege class.
    pub class: Class,
    /// Configuration in its HQD.
    pub config: Config,
    /// Read pointer: first packet that is not done, in dwords (PM4) or packets (AQL), never
    /// wrapped.
    pub rptr: u64,
    /// Write pointer, in the same units.
    pub wptr: u64,
    /// Bytes that were written to its EOP buffer.
    pub eop: u64,
    /// Whether it is stopped.
    pub halt: Halt,
    /// Whether it takes no packet until the next doorbell (knob `cp.stall`).
    pub stalled: bool,
    /// Dispatches in flight that are counted in the registers.
    pub noted: usize,
    /// Pending dequeue request.
    pub leaving: Option<Leaving>,
    /// PASID, for interrupts and unmapping by PASID.
    pub pasid: u16,
    /// CUs on which its waves may run.
    pub cus: Arc<[Cu]>,
    /// GWS allocation of its waves.
    pub gws: Option<GwsShare>,
    /// Whether its waves may enter the trap handler.
    pub traps: bool,
    /// Static queue: not affected by UNMAP_QUEUES "all non static".
    pub is_static: bool,
    /// Membership of a queue that all XCCs of the partition have mapped.
    pub shared: Option<Mapping>,
    /// The work in flight waits until the other XCCs have mapped the queue.
    pub held: bool,
    /// Waves to restore on this XCC.
    pub saved: Option<SavedState>,
    /// Number of the save that is to be restored: the work in flight lacks the saved waves of all
    /// XCCs. On an XCC that does not execute the packets it stays.
    pub restores: Option<u64>,
    /// Save in progress.
    pub saving: Option<Arc<Saving>>,
    /// Work in flight.
    pub work: Work,
}

impl Queue {
    /// Returns whether another XCC executes its packets.
    pub fn is_secondary(&self) -> bool {
        self.shared.is_some_and(|mapping| !mapping.is_master)
    }

    /// Returns whether there is state that the pointers in its MQD do not cover.
    pub fn has_state(&self) -> bool {
        self.config.save_area.is_some() && (self.work.in_flight() || self.halt != Halt::No)
    }

    /// Returns the membership of a queue whose workgroups run on all XCCs of the partition.
    pub fn spread(&self) -> Option<Mapping> {
        self.shared.filter(|mapping| mapping.spread)
    }

    /// Returns the number of its save area on this XCC among those of its dispatches.
    pub fn area_index(&self) -> usize {
        self.spread().map_or(0, |mapping| mapping.place)
    }

    /// Returns its number among the XCCs that execute its workgroups.
    pub fn place(&self) -> usize {
        self.shared.map_or(0, |mapping| mapping.place)
    }

    /// Returns whether no worker runs one of its workgroups, and none is left to save.
    pub fn is_stopped(&self) -> bool {
        self.work.jobs().iter().all(|job| job.is_stopped())
    }
}

/// Result of stepping a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Progress was made: step it again.
    Busy,
    /// Nothing to do until a message comes.
    Idle,
    /// Waits for a change in memory; poll after this time.
    Poll(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(control: u32, aql: u32) -> Bank {
        let mut banks = super::super::regs::Banks::new(Generation::Gfx9, crate::gpu::Boot::Warm);
        let bank = banks.slot_mut(Slot(0));
        bank.set64(gc::regCP_HQD_PQ_BASE, 0x1_0000);
        bank.set(gc::regCP_HQD_PQ_CONTROL, control);
        bank.set(gc::regCP_HQD_AQL_CONTROL, aql);
        bank.clone()
    }

    #[test]
    fn mqd_sizes_and_formats() {
        let pm4 = Config::from_bank(Generation::Gfx9, &bank(8 | 1 << 30, 0)).unwrap();
        assert_eq!((pm4.size, pm4.base), (512, 0x100_0000));
        assert!(pm4.privileged);
        let aql = Config::from_bank(Generation::Gfx9, &bank(9 | 2 << 25, 1)).unwrap();
        assert_eq!((aql.format, aql.capacity()), (Format::Aql, 64));
        assert!(Config::from_bank(Generation::Gfx9, &bank(9 | 2 << 25, 0)).is_err());
        assert!(Config::from_bank(Generation::Gfx9, &bank(0, 0)).is_err());
        let aql = Config::from_bank(Generation::Gfx12, &bank(9 | 2 << 18, 1)).unwrap();
        assert_eq!((aql.format, aql.capacity()), (Format::Aql, 64));
        assert!(Config::from_bank(Generation::Gfx12, &bank(9 | 2 << 25, 1)).is_err());
    }

    #[test]
    fn pointers_round_trip_through_registers() {
        let pm4 = Config::from_bank(Generation::Gfx9, &bank(8, 0)).unwrap();
        let aql = Config::from_bank(Generation::Gfx9, &bank(9 | 2 << 25, 1)).unwrap();
        let mut seed = 1u64;
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let wptr = (seed >> 8) + 4096;
            let rptr = wptr - seed % 512;
            assert_eq!(pm4.widen_rptr(pm4.narrow_rptr(rptr), wptr), rptr);
            let wptr = (seed >> 20) + 64;
            let rptr = wptr - seed % 65;
            assert_eq!(aql.widen_rptr(aql.narrow_rptr(rptr), wptr), rptr);
        }
    }
}
