// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A queue on the hardware: what its HQD says, how far it is, what it has in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc};

use super::aql::Aql;
use super::dispatch::{GwsShare, Job};
use super::pm4::Stream;
use super::regs::{Bank, Slot};
use crate::chips::Generation;

/// Who may send what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Kernel interface queue: maps single queues, by slot.
    Kiq,
    /// HSA interface queue: runs runlists.
    Hiq,
    /// A ring of the MES.
    Mes,
    /// Any other.
    Normal,
}

/// How packets are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Dword packets.
    Pm4,
    /// 64-byte packets.
    Aql,
}

/// What an HQD says about its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Packet format.
    pub format: Format,
    /// Address space of the ring.
    pub vmid: u8,
    /// Byte address of the ring.
    pub base: u64,
    /// Dwords of the ring.
    pub size: u64,
    /// Where the read pointer is reported.
    pub rptr_report: u64,
    /// Where the write pointer is in memory.
    pub wptr_poll: u64,
    /// Dword index of its doorbell on the BAR, if it has one.
    pub doorbell: Option<u32>,
    /// May touch registers.
    pub privileged: bool,
    /// Memory queue descriptor, an address of VMID 0.
    pub mqd: u64,
    /// Wave state can be saved, and the area for it.
    pub save_area: Option<SaveArea>,
}

/// The area for context save and restore, an address of the queue's VMID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveArea {
    /// First byte.
    pub base: u64,
    /// Bytes of the control stack; the wave state follows.
    pub stack: u32,
    /// Bytes of all.
    pub size: u32,
}

impl Config {
    /// Reads a bank. The error says what makes no sense.
    pub fn from_bank(generation: Generation, bank: &Bank) -> Result<Self, String> {
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
            return Err("the ring has no address".into());
        }
        if !(5..=29).contains(&size_log) {
            return Err(format!("ring size 2^{} dwords", size_log + 1));
        }
        if aql != slot_based {
            return Err(format!(
                "CP_HQD_AQL_CONTROL says AQL {aql}, CP_HQD_PQ_CONTROL {control:#x} {slot_based}"
            ));
        }
        // The registers have no bits below these.
        let rptr_report = bank.get64(gc::regCP_HQD_PQ_RPTR_REPORT_ADDR) & !3;
        let wptr_poll = bank.get64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR) & !7;
        let area = bank.get64(gc::regCP_HQD_CTX_SAVE_BASE_ADDR_LO);
        let switch = bank.get(gc::regCP_HQD_PERSISTENT_STATE);
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
            mqd: bank.get64(gc::regCP_MQD_BASE_ADDR),
            save_area: saves.then(|| SaveArea {
                base: area,
                stack: bank.get(gc::regCP_HQD_CNTL_STACK_SIZE),
                size: bank.get(gc::regCP_HQD_CTX_SAVE_SIZE),
            }),
        })
    }

    /// Units of the pointers in the ring: dwords, or AQL packets.
    pub fn capacity(&self) -> u64 {
        match self.format {
            Format::Pm4 => self.size,
            Format::Aql => self.size / 16,
        }
    }

    /// Doorbell as interrupts name it: 8-byte index inside the process's slice.
    pub fn doorbell_id(&self) -> u32 {
        self.doorbell.unwrap_or(0) / rkfd_abi::doorbell::DWORDS
            % rkfd_abi::doorbell::PER_PROCESS as u32
    }

    /// The 64-bit pointer behind a 32-bit `rptr` register, given the write pointer.
    pub fn widen_rptr(&self, rptr: u32, wptr: u64) -> u64 {
        match self.format {
            // The register wraps with the ring; a full PM4 ring does not exist.
            Format::Pm4 => wptr.wrapping_sub(wptr.wrapping_sub(rptr.into()) & (self.size - 1)),
            // Dwords, not wrapped; 2^28 packets fit.
            Format::Aql => {
                let packets = u64::from(rptr) / 16;
                wptr.wrapping_sub(wptr.wrapping_sub(packets) & ((1 << 28) - 1))
            }
        }
    }

    /// The 32-bit register for a pointer.
    pub fn narrow_rptr(&self, rptr: u64) -> u32 {
        match self.format {
            Format::Pm4 => (rptr & (self.size - 1)) as u32,
            Format::Aql => rptr.wrapping_mul(16) as u32,
        }
    }
}

/// Why a queue does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// It runs.
    No,
    /// A VM fault without retry.
    Fault,
    /// A packet that does not exist or may not be sent.
    BadPacket,
    /// An error was reported through the inactive signal.
    Error,
    /// The inactive signal asks for scratch memory; the queue goes on when its value is 0.
    Scratch(u64),
}

/// How a queue is to leave the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmap {
    /// Save what runs.
    Preempt,
    /// Throw away what runs.
    Reset,
    /// Let what runs end first.
    Drain,
}

/// A queue that is leaving.
#[derive(Debug, Clone, Copy)]
pub struct Leaving {
    /// How.
    pub how: Unmap,
    /// Since when.
    pub since: Instant,
    /// It stays mapped afterwards.
    pub keep: bool,
    /// By registers: the scheduler firmware, which may hang, has no say.
    pub forced: bool,
}

/// State of a PM4 queue beyond its pointers.
#[derive(Default)]
pub struct Pm4 {
    /// Indirect buffers being executed, the innermost last.
    pub ibs: Vec<Stream>,
    /// The `COMPUTE_*` registers from `COMPUTE_DISPATCH_INITIATOR` on.
    pub compute: Vec<u32>,
    /// Dispatches under way.
    pub jobs: VecDeque<Arc<Job>>,
    /// What the last returning atomic gave.
    pub atomic_return: u64,
    /// A WRITE_WAIT has written its register and waits.
    pub wrote: bool,
}

/// What a queue has in flight.
pub enum Work {
    /// Dword packets.
    Pm4(Pm4),
    /// 64-byte packets.
    Aql(Aql),
}

impl Work {
    /// Nothing in flight.
    pub fn new(config: &Config, rptr: u64) -> Self {
        match config.format {
            Format::Pm4 => Work::Pm4(Pm4::default()),
            Format::Aql => Work::Aql(Aql::new(config, rptr)),
        }
    }

    /// The dispatches under way.
    pub fn jobs(&self) -> Vec<Arc<Job>> {
        match self {
            Work::Pm4(pm4) => pm4.jobs.iter().cloned().collect(),
            Work::Aql(aql) => aql.jobs(),
        }
    }

    /// Would be lost if only the pointers were saved.
    pub fn in_flight(&self) -> bool {
        match self {
            Work::Pm4(pm4) => !pm4.jobs.is_empty() || !pm4.ibs.is_empty(),
            Work::Aql(aql) => aql.in_flight(),
        }
    }
}

/// A queue on the hardware.
pub struct Queue {
    /// Its HQD.
    pub slot: Slot,
    /// Its privileges.
    pub class: Class,
    /// What the HQD says.
    pub config: Config,
    /// First packet that is not done: dwords (PM4) or packets (AQL), never wrapped.
    pub rptr: u64,
    /// First packet that is not there yet.
    pub wptr: u64,
    /// Whether it goes on.
    pub halt: Halt,
    /// It is being taken off.
    pub leaving: Option<Leaving>,
    /// Process, for interrupts and unmapping by PASID.
    pub pasid: u16,
    /// What its waves have of the global wave sync.
    pub gws: Option<GwsShare>,
    /// Its waves may go to the trap handler.
    pub traps: bool,
    /// Is it one that "all non static" spares?
    pub is_static: bool,
    /// In flight.
    pub work: Work,
}

impl Queue {
    /// No worker holds any of its workgroups.
    pub fn is_quiet(&self) -> bool {
        self.work.jobs().iter().all(|job| job.is_quiet())
    }
}

/// What a look at a queue found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It did something: look again.
    Busy,
    /// Only a message can change that.
    Idle,
    /// Something in memory must change; look again after this time.
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
    fn reads_sizes_and_formats() {
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
    fn pointers_survive_their_registers() {
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
