// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Accesses that have to be retried (XNACK): the wave waits, and each lane completes once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use crate::common::llvm;
use crate::common::place::{CODE, DATA};
use crate::common::{one_wave, Ram};
use gpu_wave::{Fault, FaultKind, Host, Memory, Message, Stop, Workgroup};

const PAGE: u64 = 4096;

/// Memory and host: pages that are absent until the second attempt to access them.
struct Process {
    ram: Ram,
    absent: Mutex<BTreeSet<u64>>,
    asked: Mutex<BTreeSet<u64>>,
    nacks: AtomicU64,
    polls: AtomicU64,
}

impl Process {
    /// Returns a process whose pages from `first` on are absent.
    fn new(code: &[u32], first: u64, pages: u64) -> Self {
        let process = Process {
            ram: Ram::new(CODE, 0x400_0000),
            absent: Mutex::new((0..pages).map(|n| first / PAGE + n).collect()),
            asked: Mutex::default(),
            nacks: AtomicU64::new(0),
            polls: AtomicU64::new(0),
        };
        process.ram.put_u32(CODE, code);
        process
    }

    fn check(&self, va: u64, len: usize) -> Result<(), Fault> {
        let absent = self.absent.lock().unwrap();
        let mut pages = va / PAGE..=(va + len as u64 - 1) / PAGE;
        match pages.find(|page| absent.contains(page)) {
            None => Ok(()),
            Some(page) => Err(Fault {
                va: va.max(page * PAGE),
                kind: FaultKind::NotPresent,
                retry: true,
            }),
        }
    }
}

impl Memory for Process {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.check(va, buf.len())?;
        self.ram.read(va, buf)
    }

    /// As the card does: the bytes before the absent page are written.
    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        let result = self.check(va, data.len());
        let bytes = result.map_or_else(|fault| (fault.va - va) as usize, |()| data.len());
        self.ram.write(va, &data[..bytes])?;
        result
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.read(va, buf)
    }

    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        self.check(va, size.into())?;
        self.ram.atomic(va, size, f)
    }
}

impl Host for Process {
    fn message(&self, _: &Message) -> bool {
        false
    }

    fn nack(&self, fault: &Fault, _: bool) {
        self.nacks.fetch_add(1, Ordering::Relaxed);
        let page = fault.va / PAGE;
        if !self.asked.lock().unwrap().insert(page) {
            self.absent.lock().unwrap().remove(&page);
        }
    }

    fn realtime(&self) -> u64 {
        0
    }

    fn shader_clock(&self) -> u64 {
        0
    }

    fn poll(&self) -> bool {
        self.polls.fetch_add(1, Ordering::Relaxed) % 3 == 2
    }
}

/// Four pages of 16 lanes each; each lane's cell is at v2.
const OWN: &str = "v_lshlrev_b32 v2, 8, v0\n v_mov_b32 v3, 1\n";

fn runs_through(process: &Process) {
    let d = one_wave();
    let mut group = Workgroup::new(&d, [0, 0, 0]).unwrap();
    for _ in 0..100 {
        match group.run(process, process) {
            Err(Stop::Interrupted) => {}
            result => return result.unwrap(),
        }
    }
    panic!("does not end");
}

#[test]
fn atomics_of_a_lane_take_effect_once() {
    let code = llvm::assemble(&format!(
        "{OWN} global_atomic_add v4, v2, v3, s[0:1] sc0\n s_waitcnt vmcnt(0)\n\
         global_atomic_add v5, v2, v3, s[0:1] sc0\n s_waitcnt vmcnt(0)\n\
         v_lshl_or_b32 v4, v5, 16, v4\n global_store_dword v2, v4, s[0:1] offset:4\n s_endpgm\n"
    ));
    let process = Process::new(&code, DATA, 4);
    runs_through(&process);
    assert_eq!(
        process.nacks.load(Ordering::Relaxed),
        8,
        "two for each page"
    );
    for lane in 0..64 {
        let cell = process.ram.get_u32(DATA + lane * 256, 2);
        assert_eq!(cell, [2, 1 << 16], "lane {lane}");
    }
}

/// A store that crosses pages, and a load into the register of its address.
#[test]
fn loads_and_stores_complete_in_each_lane() {
    let code = llvm::assemble(
        "v_lshlrev_b32 v2, 2, v0\n v_add_u32 v3, 0x100, v0\n v_mov_b32 v5, v2\n\
         global_store_dword v2, v3, s[0:1] offset:-128\n s_waitcnt vmcnt(0)\n\
         global_load_dword v2, v2, s[0:1] offset:-128\n s_waitcnt vmcnt(0)\n\
         global_store_dword v5, v2, s[0:1] offset:2048\n s_endpgm\n",
    );
    let process = Process::new(&code, DATA - PAGE, 2);
    runs_through(&process);
    let want: Vec<u32> = (0x100..0x140).collect();
    assert_eq!(process.ram.get_u32(DATA - 128, 64), want);
    assert_eq!(process.ram.get_u32(DATA + 2048, 64), want);
}

/// The part of a flat access that is in LDS is not repeated.
#[test]
fn lds_lanes_of_a_flat_atomic_are_not_repeated() {
    let code = llvm::assemble(
        "v_lshlrev_b32 v2, 2, v0\n v_mov_b32 v4, 0\n ds_write_b32 v2, v4\n v_mov_b32 v5, 1\n\
         v_mov_b32 v7, s1\n v_add_co_u32 v6, vcc, s0, v2\n s_mov_b32 s4, 0x10000\n\
         v_mov_b32 v8, s4\n v_cmp_gt_u32 vcc, 32, v0\n v_cndmask_b32 v6, v6, v2, vcc\n\
         v_cndmask_b32 v7, v7, v8, vcc\n s_waitcnt 0\n flat_atomic_add v[6:7], v5\n s_waitcnt 0\n\
         ds_read_b32 v9, v2\n s_waitcnt 0\n global_store_dword v2, v9, s[0:1] offset:1024\n\
         s_endpgm\n",
    );
    let process = Process::new(&code, DATA, 1);
    runs_through(&process);
    for lane in 0..64usize {
        let at = DATA + 4 * lane as u64;
        let (lds, memory) = if lane < 32 { (1, 0) } else { (0, 1) };
        assert_eq!(process.ram.get_u32(at + 1024, 1), [lds], "lane {lane}");
        assert_eq!(process.ram.get_u32(at, 1), [memory], "lane {lane}");
    }
}

#[test]
fn scalar_loads_and_fetches_are_retried() {
    let code = llvm::assemble(
        "s_load_dwordx2 s[4:5], s[0:1], 0xffc\n s_waitcnt 0\n v_mov_b32 v2, 0\n v_mov_b32 v3, s5\n\
         global_store_dword v2, v3, s[0:1] offset:16\n s_endpgm\n",
    );
    let process = Process::new(&code, DATA, 2);
    process.ram.put_u32(DATA + 0x1000, &[0x77]);
    process.absent.lock().unwrap().insert(CODE / PAGE);
    runs_through(&process);
    assert_eq!(process.ram.get_u32(DATA + 16, 1), [0x77]);
}
