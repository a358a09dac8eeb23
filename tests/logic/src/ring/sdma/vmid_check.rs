// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks VMIDs of jobs against hubs that run them: each job finds the page tables of its address
//! space in its VMID until it ends, in every order in which rings take and run jobs.

use std::{collections::VecDeque, ptr};

use kernel::{
    alloc::{failing, Fail},
    model,
    sync::{aref::ARef, Arc, Mutex},
};

use super::{
    ring::JOBS,
    vmid::{Grab, Vmids},
};
use crate::{kapi::fence::Fence, random::Random};

/// PASID and page table base.
type Owner = (u32, u64);

const NOBODY: Owner = (0, 0);

fn owner(n: u32) -> Owner {
    (n + 1, 0x1000 * u64::from(n + 1))
}

#[derive(Clone)]
struct Job {
    owner: Owner,
    vmid: u32,
    switch: bool,
    /// The fence of the scheduler, and that of the ring.
    finished: ARef<Fence>,
    done: ARef<Fence>,
}

#[derive(Default)]
struct Ring {
    /// A job that has its VMID and is not in the ring yet.
    taken: Option<Job>,
    jobs: VecDeque<Job>,
    /// The first job is running.
    running: bool,
    /// A job that waits for a VMID.
    waiting: Option<(Owner, ARef<Fence>)>,
}

/// A memory hub with its rings.
struct Hub {
    vmids: Arc<Vmids>,
    end: u32,
    rings: Vec<Ring>,
    /// Page tables of each VMID in hardware.
    tables: Vec<Owner>,
    /// The address space that each VMID belongs to, and when it was used last.
    owners: Vec<(Owner, u64)>,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A job of an address space takes a VMID.
    Take(usize, u32),
    /// It is written to the ring.
    Emit(usize),
    /// It is given up instead.
    GiveUp(usize),
    /// The first job of a ring starts.
    Begin(usize),
    /// It ends.
    End(usize),
    /// An address space without jobs is closed.
    Close(u32),
}

impl Hub {
    fn new(end: u32, rings: usize) -> Self {
        Self {
            vmids: Vmids::new(end, rings).expect("memory"),
            end,
            rings: (0..rings).map(|_| Ring::default()).collect(),
            tables: vec![NOBODY; end as usize],
            owners: vec![(NOBODY, 0); end as usize],
            clock: 0,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Job> {
        self.rings
            .iter()
            .flat_map(|ring| ring.jobs.iter().chain(&ring.taken))
    }

    fn busy(&self, vmid: u32) -> bool {
        self.all().any(|job| job.vmid == vmid)
    }

    fn accepts(&self, op: Op) -> bool {
        match op {
            Op::Take(ring, _) => {
                let ring = &self.rings[ring];
                ring.taken.is_none() && ring.jobs.len() < JOBS as usize
            }
            Op::Emit(ring) | Op::GiveUp(ring) => self.rings[ring].taken.is_some(),
            Op::Begin(ring) => !self.rings[ring].running && !self.rings[ring].jobs.is_empty(),
            Op::End(ring) => self.rings[ring].running,
            Op::Close(n) => self.all().all(|job| job.owner != owner(n)),
        }
    }

    fn take(&mut self, ring: usize, owner: Owner) {
        let finished = Fence::new();
        // Jobs signal fences: nothing may depend on memory.
        let grab = || self.vmids.grab(owner, ring as u32, finished.clone());
        let (grab, _) = failing(Fail::From(0), grab);
        let idle: Vec<u32> = (1..self.end).filter(|vmid| !self.busy(*vmid)).collect();
        match grab.expect("a VMID or a fence") {
            Grab::Wait(fence) => {
                assert!(!fence.is_signaled(), "a fence that has signaled");
                let jobs = &self.rings[ring].jobs;
                assert!(
                    jobs.iter().all(|job| !ptr::eq(&*job.finished, &*fence)),
                    "a fence for which the scheduler of the ring does not wait"
                );
                let known = self.rings[ring].waiting.take();
                assert!(
                    idle.is_empty() || known.is_some_and(|(_, f)| !f.is_signaled()),
                    "a wait"
                );
                self.rings[ring].waiting = Some((owner, fence));
            }
            Grab::Vmid { vmid, switch } => {
                assert!(!idle.is_empty(), "VMID {vmid} without an idle one");
                let own = (1..self.end).find(|vmid| self.owners[*vmid as usize].0 == owner);
                let oldest = idle
                    .iter()
                    .min_by_key(|vmid| self.owners[**vmid as usize].1);
                assert_eq!(
                    Some(vmid),
                    own.or(oldest.copied()),
                    "own or least recently used"
                );
                self.clock += 1;
                self.owners[vmid as usize] = (owner, self.clock);
                self.rings[ring].waiting = None;
                self.rings[ring].taken = Some(Job {
                    owner,
                    vmid,
                    switch,
                    finished,
                    done: Fence::new(),
                });
            }
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Take(ring, n) => self.take(ring, owner(n)),
            Op::Emit(ring) => {
                let job = self.rings[ring].taken.take().expect("a job");
                let fences = (&*job.finished, &job.done);
                self.vmids
                    .emitted(job.vmid, fences, ring as u32, job.switch);
                self.rings[ring].jobs.push_back(job);
            }
            Op::GiveUp(ring) => {
                let job = self.rings[ring].taken.take().expect("a job");
                job.finished.signal();
            }
            Op::Begin(ring) => {
                let job = self.rings[ring].jobs[0].clone();
                if job.switch {
                    self.tables[job.vmid as usize] = job.owner;
                }
                self.rings[ring].running = true;
                self.check();
            }
            Op::End(ring) => {
                self.check();
                self.rings[ring].running = false;
                let job = self.rings[ring].jobs.pop_front().expect("a job");
                job.done.signal();
                job.finished.signal();
            }
            Op::Close(n) => {
                let pasid = owner(n).0;
                self.vmids.drop_owner(pasid);
                for (owner, _) in &mut self.owners {
                    if owner.0 == pasid {
                        *owner = NOBODY;
                    }
                }
                // Its page tables are freed.
                for tables in &mut self.tables {
                    if tables.0 == pasid {
                        *tables = NOBODY;
                    }
                }
            }
        }
        for (owner, _) in &self.owners[1..] {
            let owned = (1..self.end).filter(|vmid| self.owners[*vmid as usize].0 .0 == owner.0);
            let mask = owned.fold(0, |mask, vmid| mask | 1 << vmid);
            assert_eq!(self.vmids.of(owner.0), mask, "VMIDs of PASID {}", owner.0);
        }
    }

    /// Checks that each running job has its page tables.
    fn check(&self) {
        for ring in self.rings.iter().filter(|ring| ring.running) {
            let job = &ring.jobs[0];
            let tables = self.tables[job.vmid as usize];
            assert_eq!(tables, job.owner, "page tables of VMID {}", job.vmid);
        }
    }
}

/// All orders of seven operations on two rings with two VMIDs and three address spaces.
#[test]
fn short_sequences() {
    let mut ops = vec![Op::Close(0)];
    for ring in 0..2 {
        ops.extend([
            Op::Emit(ring),
            Op::GiveUp(ring),
            Op::Begin(ring),
            Op::End(ring),
        ]);
        ops.extend((0..3).map(|n| Op::Take(ring, n)));
    }
    fn extend(ops: &[Op], list: &mut Vec<Op>, count: &mut u64) {
        let mut hub = Hub::new(3, 2);
        list.iter().for_each(|op| hub.apply(*op));
        *count += 1;
        if list.len() == 7 {
            return;
        }
        for op in ops.iter().filter(|op| hub.accepts(**op)) {
            list.push(*op);
            extend(ops, list, count);
            list.pop();
        }
    }
    let mut count = 0;
    extend(&ops, &mut Vec::new(), &mut count);
    println!("{count} sequences");
    assert!(count > 10_000);
}

/// Rings that are always full, on as many VMIDs as the driver has.
#[test]
fn random_operations() {
    let mut random = Random::new();
    for (end, rings, spaces) in [(3, 4, 3), (8, 3, 12), (8, 16, 20)] {
        let mut hub = Hub::new(end, rings);
        for _ in 0..20_000 {
            let ring = random.below(rings as u64) as usize;
            let space = random.below(spaces) as u32;
            let op = match random.below(16) {
                0..7 => Op::Take(ring, space),
                7..10 => Op::Emit(ring),
                10 => Op::GiveUp(ring),
                11..13 => Op::Begin(ring),
                13..15 => Op::End(ring),
                _ => Op::Close(space),
            };
            if hub.accepts(op) {
                hub.apply(op);
            }
        }
    }
}

/// The end of an address space drops the fences of finished jobs, also of other address spaces, and
/// those that a ring waited for.
#[test]
fn fences_do_not_stay() {
    let vmids = Vmids::new(3, 2).expect("memory");
    let fences = [Fence::new(), Fence::new()];
    for (n, fence) in fences.iter().enumerate() {
        let grab = vmids.grab(owner(n as u32), 0, fence.clone()).expect("one");
        assert!(matches!(grab, Grab::Vmid { .. }));
    }
    let grab = vmids.grab(owner(2), 1, Fence::new()).expect("a fence");
    assert!(matches!(grab, Grab::Wait(_)));
    drop(grab);
    let references = || fences.each_ref().map(|fence| fence.references());
    vmids.drop_owner(owner(0).0);
    assert_eq!(references(), [3, 2]);
    fences.iter().for_each(|fence| fence.signal());
    vmids.drop_owner(owner(2).0);
    assert_eq!(references(), [1, 1]);
}

/// Two rings take VMIDs for jobs of two address spaces at the same time.
#[test]
fn rings_take_vmids_concurrently() {
    model::explore(|| {
        let vmids = Vmids::new(3, 2).expect("memory");
        let tables = Arc::new(Mutex::of([NOBODY; 3]));
        let run = |ring: u32, spaces: &'static [u32]| {
            let (vmids, tables) = (vmids.clone(), tables.clone());
            move || {
                for n in spaces.iter().copied() {
                    let (finished, done) = (Fence::new(), Fence::new());
                    let grab = vmids
                        .grab(owner(n), ring, finished.clone())
                        .expect("a VMID");
                    let Grab::Vmid { vmid, switch } = grab else {
                        // Both are in use: another ring has one of them.
                        continue;
                    };
                    vmids.emitted(vmid, (&finished, &done), ring, switch);
                    if switch {
                        tables.lock()[vmid as usize] = owner(n);
                    }
                    assert_eq!(tables.lock()[vmid as usize], owner(n), "page tables");
                    done.signal();
                    assert_eq!(tables.lock()[vmid as usize], owner(n), "page tables");
                    finished.signal();
                }
            }
        };
        let other = model::thread::spawn(run(1, &[0]));
        run(0, &[0, 2])();
        other.join().expect("the other ring");
    });
}
