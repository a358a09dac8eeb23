// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MQD load and save, CWSR: keeps the work of unmapped queues.
//!
//! The trap handler saves the waves, and they are restored from memory (see
//! [`cwsr`](super::cwsr)); the model keeps the packets in flight and the workgroups that have not
//! started, by a number in the control stack.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gpu_regs::gc_9_4_3 as gc;
use gpu_wave::Scope;
use rkfd_abi::bits::join;
use rkfd_abi::mqd::v12;
use rkfd_abi::mqd::v9::{self, dw};

use super::cwsr::{self, control_stack, SavedGroup, StackError};
use super::dispatch::{GwsShare, Job};
use super::engine::Engine;
use super::env::client;
use super::exec::COMPUTE;
use super::fault::raise_of_driver;
use super::graphics::is_graphics;
use super::queue::{Class, Halt, Left, Queue, SaveArea, SavedState, Unmap, Work};
use super::shared::{Site, Waves};
use super::slot::Slot;
use crate::chips::{Cu, Generation};
use crate::engines::gmc::VmFault;
use crate::trace::Detail;
use crate::{event, strict};

/// First dword of every compute MQD.
const MQD_HEADER: u32 = 0xc031_0800;
/// Poll interval for workers to stop; the message usually comes first.
const POLL: Duration = Duration::from_micros(500);

/// MQD layout that differs between generations. The dwords that are loaded into the
/// registers are at the same offsets in all.
struct Layout {
    restore_addr_lo: usize,
    restore_addr_hi: usize,
    restore_control: usize,
}

fn layout(generation: Generation) -> Layout {
    match generation {
        Generation::Gfx9 => Layout {
            restore_addr_lo: dw::compute_wave_restore_addr_lo,
            restore_addr_hi: dw::compute_wave_restore_addr_hi,
            restore_control: dw::compute_wave_restore_control,
        },
        Generation::Gfx12 => Layout {
            restore_addr_lo: v12::dw::compute_wave_restore_addr_lo,
            restore_addr_hi: v12::dw::compute_wave_restore_addr_hi,
            restore_control: v12::dw::compute_wave_restore_control,
        },
    }
}

/// Work of an unmapped queue.
struct Saved {
    mqd: u64,
    rptr: u64,
    halt: Halt,
    work: Work,
}

/// Saved work of all unmapped queues.
#[derive(Default)]
pub struct Saves {
    by_token: HashMap<u64, Saved>,
    last: u64,
}

impl Saves {
    /// Returns the number of saved queues.
    pub fn len(&self) -> usize {
        self.by_token.len()
    }

    /// Returns whether nothing is saved.
    pub fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }
}

/// Parameters of MAP_QUEUES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map {
    /// HQD slot.
    pub slot: Slot,
    /// MQD, an address of VMID 0.
    pub mqd: u64,
    /// Write pointer address, in the address space `vmid`; on gfx12 in VMID 0.
    pub wptr: u64,
    /// Dword index on the doorbell BAR.
    pub doorbell: u32,
    /// Address space.
    pub vmid: u8,
    /// PASID.
    pub pasid: u16,
    /// Privilege class.
    pub class: Class,
    /// Static queue: not affected by "all non static".
    pub is_static: bool,
    /// Number of GWS resources.
    pub gws: u32,
    /// Mapped by a runlist: all XCCs of the partition map it, each from its own MQD.
    pub scheduled: bool,
}

crate::errors! {
    /// A queue that cannot be mapped.
    pub enum LoadError {
        /// An access to the MQD, or to what it points to, faults.
        Fault { fault: VmFault } => "{fault}",
        /// The MQD is invalid; the strict log has the reason.
        Invalid => "invalid MQD",
    }
}

impl From<VmFault> for LoadError {
    fn from(fault: VmFault) -> Self {
        Self::Fault { fault }
    }
}

crate::errors! {
    /// An MQD that does not match the packet that maps it.
    enum MqdError {
        /// Wrong header.
        Header { header: u32 } => "header {header:#x}",
        /// The MQD of another address.
        Address { own: u64 } => "it contains address {own:#x}",
        /// Another doorbell.
        Doorbell { doorbell: u32 } => "it contains doorbell {doorbell:#x}",
        /// Another address of the write pointer.
        Wptr { wptr: u64, packet: u64 } => "write pointer at {wptr:#x}, {packet:#x} in the packet",
        /// The MQD is not in VMID 0.
        Control { control: u32 } => "CP_MQD_CONTROL {control:#x}",
        /// Another VMID.
        Vmid { vmid: u32, mapped: u8 } => "it contains VMID {vmid}, mapped with {mapped}",
        /// The CU masks select no CU.
        NoCu => "no CU is enabled for its waves",
    }
}

crate::errors! {
    /// Waves or packets in flight that cannot be restored.
    pub(super) enum RestoreError {
        /// The offsets in the MQD are outside of the save area.
        Offsets { saved: SavedState } => "{saved:x?} in the MQD",
        /// The control stack cannot be read.
        Fault { fault: VmFault } => "{fault}",
        /// The control stack was overwritten.
        Stack { error: StackError } => "the control stack was overwritten: {error}",
        /// No such dispatch.
        Job { job: u64 } => "the control stack has waves of dispatch {job}",
        /// No such queue.
        Queue { token: u64 } => "the control stack is that of save {token}",
    }
}

/// Dwords of the MQD with the `COMPUTE_*` registers, in the order of the registers.
const COMPUTE_DWORDS: std::ops::RangeInclusive<usize> =
    dw::compute_dispatch_initiator..=dw::compute_user_data_15;

/// Returns the `COMPUTE_*` registers of a PM4 queue in its MQD.
fn compute_registers(mqd: &[u32]) -> Vec<u32> {
    let mut registers = mqd[COMPUTE_DWORDS].to_vec();
    registers.resize(COMPUTE.len(), 0);
    registers
}

impl Engine<'_> {
    /// Loads a queue from its MQD and activates it.
    pub(super) fn map(&mut self, map: &Map) -> Result<(), LoadError> {
        if map.class == Class::Hiq {
            self.read_partition();
        }
        let first = map.mqd;
        let map = &Map {
            mqd: self.own_mqd(map)?,
            ..*map
        };
        let mqd = self.env.read_dwords(0, map.mqd, v9::Mqd::DWORDS)?;
        if self.env.trace().detail_enabled(Detail::Mqds) {
            event!(
                self.env.trace(),
                "cp",
                "mqd",
                "xcc={} class={:?} pasid={} mqd={:#x} words={mqd:x?}",
                self.env.xcc(),
                map.class,
                map.pasid,
                map.mqd
            );
        }
        self.check_mqd(map, &mqd)?;
        let generation = self.generation();
        if generation == Generation::Gfx12 {
            // The scheduler polls the write pointers of unmapped queues at this address.
            self.env.read64(0, map.wptr)?;
        }
        {
            let mut banks = self.banks();
            let bank = banks.slot_mut(map.slot);
            let image = &mqd[v9::HQD_FIRST..=v9::HQD_LAST];
            for (n, &word) in image.iter().enumerate() {
                bank.set(gc::regCP_MQD_BASE_ADDR.at(n as u32), word);
            }
            let control = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.mask
                | gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.put(map.doorbell)
                | mqd[dw::cp_hqd_pq_doorbell_control]
                    & gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_BIF_DROP.mask;
            bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, control);
            if generation == Generation::Gfx9 {
                bank.set64(gc::regCP_HQD_PQ_WPTR_POLL_ADDR, map.wptr);
            }
            bank.set(gc::regCP_HQD_VMID, map.vmid.into());
            bank.set(gc::regCP_HQD_DEQUEUE_REQUEST, 0);
            bank.set(gc::regCP_HQD_ACTIVE, 1);
        }
        if !self.activate(map.slot, map.class, map.pasid, map.is_static) {
            self.banks().slot_mut(map.slot).set(gc::regCP_HQD_ACTIVE, 0);
            return Err(LoadError::Invalid);
        }
        self.env
            .write32(0, map.mqd.wrapping_add(dw::cp_hqd_active as u64 * 4), 1)?;
        if let Some(mut queue) = self.queues[usize::from(map.slot.0)].take() {
            let rsrc2 = mqd[dw::compute_pgm_rsrc2];
            queue.gws = self.attach_gws(map);
            queue.cus = self.masked_cus(&mqd).into();
            if let Work::Pm4(pm4) = &mut queue.work {
                pm4.compute = compute_registers(&mqd);
            }
            queue.traps = gc::COMPUTE_PGM_RSRC2__TRAP_PRESENT.is_set(rsrc2);
            queue.saved = self.saved_state(&queue, &mqd);
            if map.class == Class::Hiq {
                self.env.shared().set_scheduler(self.env.xcc(), 0);
                self.map_hiq(&queue, &mqd);
            }
            self.map_shared(&mut queue, map, first, &mqd);
            self.restore(&mut queue, &mqd);
            if !queue.is_secondary() {
                self.read_wptr(&mut queue);
                self.connect(&queue);
            }
            self.queues[usize::from(map.slot.0)] = Some(queue);
        }
        Ok(())
    }

    /// Returns the GWS of a queue that has some. It is kept across mappings, since kernels rely on
    /// resources that an earlier kernel has initialised.
    fn attach_gws(&mut self, map: &Map) -> Option<GwsShare> {
        if map.gws == 0 {
            self.gws.remove(&map.mqd);
            return None;
        }
        let resources = self.gws.entry(map.mqd).or_default().clone();
        Some(GwsShare {
            size: map.gws,
            resources,
        })
    }

    /// Compares an MQD with the packet that maps it. Fails only if it cannot be loaded.
    fn check_mqd(&self, map: &Map, mqd: &[u32]) -> Result<(), LoadError> {
        let wrong = |error: MqdError| {
            strict!(
                self.env.strict(),
                "cp",
                "MQD {:#x} of doorbell {:#x}: {error}",
                map.mqd,
                map.doorbell
            );
        };
        if mqd[dw::header] != MQD_HEADER {
            wrong(MqdError::Header {
                header: mqd[dw::header],
            });
            return Err(LoadError::Invalid);
        }
        let own = join(mqd[dw::cp_mqd_base_addr_lo], mqd[dw::cp_mqd_base_addr_hi]);
        if own != map.mqd {
            wrong(MqdError::Address { own });
        }
        let control = mqd[dw::cp_hqd_pq_doorbell_control];
        let doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.get(control);
        if doorbell != map.doorbell {
            wrong(MqdError::Doorbell { doorbell });
        }
        let wptr = join(
            mqd[dw::cp_hqd_pq_wptr_poll_addr_lo],
            mqd[dw::cp_hqd_pq_wptr_poll_addr_hi],
        );
        let same = match self.generation() {
            Generation::Gfx9 => wptr == map.wptr,
            // Two mappings of the same page.
            Generation::Gfx12 => (wptr ^ map.wptr) & 0xfff == 0,
        };
        if !same {
            wrong(MqdError::Wptr {
                wptr,
                packet: map.wptr,
            });
        }
        if mqd[dw::cp_mqd_control] & gc::CP_MQD_CONTROL__VMID.mask != 0 {
            wrong(MqdError::Control {
                control: mqd[dw::cp_mqd_control],
            });
        }
        let vmid = mqd[dw::cp_hqd_vmid] & 15;
        if vmid != 0 && vmid != u32::from(map.vmid) {
            wrong(MqdError::Vmid {
                vmid,
                mapped: map.vmid,
            });
        }
        if map.class == Class::Normal && self.masked_cus(mqd).is_empty() {
            wrong(MqdError::NoCu);
        }
        Ok(())
    }

    /// Returns the CUs that the CU masks of an MQD select. A mask has a bit per active CU: 15:0 for
    /// the first shader array, 31:16 for the second.
    fn masked_cus(&self, mqd: &[u32]) -> Vec<Cu> {
        let masks = [
            dw::compute_static_thread_mgmt_se0,
            dw::compute_static_thread_mgmt_se1,
            dw::compute_static_thread_mgmt_se2,
            dw::compute_static_thread_mgmt_se3,
        ];
        let mut cus = self.env.compute_units();
        cus.retain(|cu| {
            let mask = masks.get(cu.se as usize).map_or(0, |&n| mqd[n]);
            mask >> (16 * cu.sh + cu.bit) & 1 != 0
        });
        cus
    }

    /// Completes pending dequeue requests. Returns when to call it again.
    pub(super) fn finish_unmaps(&mut self) -> Option<Duration> {
        let mut again = None;
        for slot in (0..self.queues.len() as u8).map(Slot) {
            let Some(mut queue) = self.queues[usize::from(slot.0)].take() else {
                continue;
            };
            let Some(leaving) = queue.leaving else {
                self.queues[usize::from(slot.0)] = Some(queue);
                continue;
            };
            let stuck = self.no_preemption().is_some() && !leaving.forced && queue.pasid != 0;
            self.reap(&mut queue);
            let reset = self.stop_if_reset(&queue);
            let ready = !stuck
                && match leaving.how {
                    Unmap::Drain if reset => queue.is_stopped(),
                    Unmap::Drain => queue.work.jobs().is_empty() || queue.halt != Halt::No,
                    Unmap::Preempt | Unmap::Reset => queue.is_stopped(),
                };
            let ready = ready && self.may_unmap(&queue, leaving.forced);
            if !ready || !leaving.forced && self.has_stuck_waves(&queue) {
                self.queues[usize::from(slot.0)] = Some(queue);
                again = Some(POLL);
                continue;
            }
            if leaving.keep {
                queue.leaving = None;
                self.resume(&mut queue);
                self.queues[usize::from(slot.0)] = Some(queue);
                continue;
            }
            self.shader_messages(&queue);
            self.leave(queue, leaving.how);
        }
        again
    }

    /// Processes completed dispatches of a queue.
    fn reap(&mut self, queue: &mut Queue) {
        match queue.work {
            Work::Pm4(_) => self.reap_pm4(queue),
            Work::Aql(_) => self.reap_aql(queue),
        }
    }

    /// Completes the unmap of a queue: writes its MQD and frees its slot.
    fn leave(&mut self, mut queue: Queue, how: Unmap) {
        let slot = queue.slot;
        self.env.settle_doorbells();
        if self.env.has_l2() {
            self.env.write_back(Scope::System);
        }
        let left = self.waves_to_save(&mut queue, how);
        event!(
            self.env.trace(),
            "cp",
            "queue_end",
            "xcc={} queue={slot} pasid={} how={how:?} rptr={:#x} wptr={:#x} in_flight={}",
            self.env.xcc(),
            queue.pasid,
            queue.rptr,
            queue.wptr,
            u8::from(queue.work.in_flight())
        );
        self.drop_scheduler(&queue);
        let lost = queue.leaving.is_some_and(|leaving| leaving.lost);
        if queue.config.mqd != 0 && !lost {
            if let Err(fault) = self.write_mqd(queue, left) {
                raise_of_driver(
                    self.env,
                    "cp",
                    &fault,
                    client::CPC,
                    format_args!("queue {slot}: cannot write MQD or save area"),
                );
            }
        }
        if lost && self.generation() == Generation::Gfx12 {
            // A reset of the pipe leaves the registers to the driver.
            return;
        }
        let mut banks = self.banks();
        let bank = banks.slot_mut(slot);
        bank.set(gc::regCP_HQD_ACTIVE, 0);
        bank.set(gc::regCP_HQD_DEQUEUE_REQUEST, 0);
        let control = bank.get(gc::regCP_HQD_PQ_DOORBELL_CONTROL);
        let enable = gc::CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_EN.mask;
        bank.set(gc::regCP_HQD_PQ_DOORBELL_CONTROL, control & !enable);
    }

    /// Writes the MQD, and the save area if there are waves to save.
    fn write_mqd(&mut self, queue: Queue, left: Left) -> Result<(), VmFault> {
        if is_graphics(queue.slot) {
            return self.save_graphics(&queue);
        }
        let mqd = queue.config.mqd;
        let put = |n: usize, value: u32| self.env.write32(0, mqd.wrapping_add(n as u64 * 4), value);
        let scale = if matches!(queue.work, Work::Aql(_)) {
            16
        } else {
            1
        };
        let wptr = queue.wptr.wrapping_mul(scale);
        if let Work::Pm4(pm4) = &queue.work {
            for (n, &value) in COMPUTE_DWORDS.zip(&pm4.compute) {
                put(n, value)?;
            }
        }
        put(dw::cp_hqd_pq_rptr, queue.config.narrow_rptr(queue.rptr))?;
        put(dw::cp_hqd_pq_wptr_lo, wptr as u32)?;
        put(dw::cp_hqd_pq_wptr_hi, (wptr >> 32) as u32)?;
        put(dw::cp_hqd_active, 0)?;
        let layout = layout(self.generation());
        let Some(area) = queue.config.save_area else {
            return Ok(());
        };
        let (number, stack, state) = match (left, queue.saved) {
            (Left::Waves(waves), _) => {
                let (stack, state) = self.write_control_stack(&queue, area, &waves)?;
                (self.saves.last, area.stack - stack, area.stack + state)
            }
            (Left::Unchanged(number), Some(saved)) => (number, saved.stack, saved.state),
            _ => {
                put(dw::cp_hqd_cntl_stack_offset, area.stack)?;
                put(dw::cp_hqd_wg_state_offset, area.stack)?;
                return put(layout.restore_control, 0);
            }
        };
        let to = area.base.wrapping_add(area.stack.into());
        put(dw::cp_hqd_cntl_stack_offset, stack)?;
        put(dw::cp_hqd_wg_state_offset, state)?;
        put(layout.restore_addr_lo, to as u32)?;
        put(layout.restore_addr_hi, (to >> 32) as u32)?;
        put(layout.restore_control, 1)?;
        self.saves.by_token.retain(|_, saved| saved.mqd != mqd);
        self.saves.by_token.insert(
            number,
            Saved {
                mqd,
                rptr: queue.rptr,
                halt: queue.halt,
                work: queue.work,
            },
        );
        Ok(())
    }

    /// Returns address space and address from which on a control stack has its offset. On gfx9 it
    /// is not in the save area, but in the pages behind the MQD (`kfd_mqd_manager_v9.c`,
    /// `allocate_mqd`).
    fn stack_base(&self, queue: &Queue, area: SaveArea) -> (u8, u64) {
        match self.generation() {
            Generation::Gfx9 => (0, queue.config.mqd.wrapping_add(0x1000)),
            Generation::Gfx12 => (queue.config.vmid, area.base),
        }
    }

    /// Writes the control stack of waves that the trap handler has saved. Returns the bytes of
    /// control stack and wave area.
    fn write_control_stack(
        &mut self,
        queue: &Queue,
        area: SaveArea,
        waves: &Waves,
    ) -> Result<(u32, u32), VmFault> {
        self.saves.last += 1;
        let dwords = control_stack(self.isa(), self.saves.last, &waves.stack);
        let bytes: Vec<u8> = dwords.iter().flat_map(|w| w.to_le_bytes()).collect();
        let used = bytes.len() as u32;
        let (vmid, base) = self.stack_base(queue, area);
        let at = base + u64::from(area.stack.saturating_sub(used));
        self.env.write(vmid, at, &bytes)?;
        event!(
            self.env.trace(),
            "cp",
            "waves_saved",
            "xcc={} queue={} pasid={} token={} waves={} bytes={:#x} to={:#x}",
            self.env.xcc(),
            queue.slot,
            queue.pasid,
            self.saves.last,
            waves.count,
            waves.bytes,
            area.base + u64::from(area.stack)
        );
        Ok((used, waves.bytes as u32))
    }

    /// Returns where the saved waves are that an MQD refers to.
    fn saved_state(&self, queue: &Queue, mqd: &[u32]) -> Option<SavedState> {
        let layout = layout(self.generation());
        let (vmid, base) = self.stack_base(queue, queue.config.save_area?);
        (mqd[layout.restore_control] != 0).then(|| SavedState {
            vmid,
            base,
            stack: mqd[dw::cp_hqd_cntl_stack_offset],
            state: mqd[dw::cp_hqd_wg_state_offset],
        })
    }

    /// Reads the control stack of an XCC. Returns the state of the queue and the workgroups.
    fn read_control_stack(&self, site: &Site) -> Result<(u64, Vec<SavedGroup>), RestoreError> {
        let (Some(area), Some(saved)) = (site.area, site.saved) else {
            return Ok((0, Vec::new()));
        };
        let size = area.stack.saturating_sub(saved.stack) as usize;
        if size > area.stack as usize || saved.state < area.stack || saved.state > area.size {
            return Err(RestoreError::Offsets { saved });
        }
        let mut bytes = vec![0; size / 4 * 4];
        let at = saved.base + u64::from(saved.stack);
        let other = match site.space.xcc == self.env.xcc() {
            true => None,
            false => self.env.peer(site.space.xcc),
        };
        let env = other.as_deref().unwrap_or(self.env);
        env.read(saved.vmid, at, &mut bytes)
            .map_err(|fault| RestoreError::Fault { fault })?;
        let dwords = bytes.chunks_exact(4);
        let dwords = dwords.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let dwords: Vec<u32> = dwords.collect();
        let from = |offset: u32| area.base + u64::from(offset);
        cwsr::parse(self.isa(), &dwords, from(area.stack), from(saved.state))
            .map_err(|error| RestoreError::Stack { error })
    }

    /// Queues the saved workgroups of an XCC in their dispatches.
    pub(super) fn restore_waves(&self, queue: &Queue, site: &Site, jobs: &[Arc<Job>]) {
        let groups = match self.read_control_stack(site) {
            Ok((_, groups)) => groups,
            Err(error) => {
                self.not_restored(queue, &error);
                return;
            }
        };
        event!(
            self.env.trace(),
            "cp",
            "waves_restored",
            "xcc={} queue={} pasid={} workgroups={}",
            site.space.xcc,
            queue.slot,
            queue.pasid,
            groups.len()
        );
        self.queue_groups(queue, groups, jobs);
    }

    /// Queues the workgroups of an XCC that were saved when the unmapping of the queue failed.
    pub(super) fn restore_unmapped(
        &self,
        queue: &Queue,
        site: &Site,
        waves: &Waves,
        jobs: &[Arc<Job>],
    ) {
        let Some(area) = site.area else {
            return;
        };
        let bottom = area.base + u64::from(area.stack);
        let stack = control_stack(self.isa(), 0, &waves.stack);
        match cwsr::parse(self.isa(), &stack, bottom, bottom + waves.bytes) {
            Ok((_, groups)) => self.queue_groups(queue, groups, jobs),
            Err(error) => self.not_restored(queue, &RestoreError::Stack { error }),
        }
    }

    fn queue_groups(&self, queue: &Queue, groups: Vec<SavedGroup>, jobs: &[Arc<Job>]) {
        for group in groups {
            let mut jobs = jobs.iter();
            match jobs.find(|job| cwsr::job_number(job.id) == group.job) {
                Some(job) => job.restore(group),
                None => self.not_restored(queue, &RestoreError::Job { job: group.job }),
            }
        }
    }

    fn not_restored(&self, queue: &Queue, error: &RestoreError) {
        strict!(
            self.env.strict(),
            "cp",
            "queue {} pasid {}: waves are not restored: {error}",
            queue.slot,
            queue.pasid
        );
    }

    /// Restores the work of a queue, if its MQD refers to saved work.
    fn restore(&mut self, queue: &mut Queue, mqd: &[u32]) {
        let layout = layout(self.generation());
        if mqd[layout.restore_control] == 0 {
            self.saves
                .by_token
                .retain(|_, saved| saved.mqd != queue.config.mqd);
            return;
        }
        match self.read_control_stack(&self.site(queue)) {
            Ok((token, _)) => self.restore_queue(queue, token),
            Err(error) => self.not_restored(queue, &error),
        }
    }

    /// Restores the packets in flight.
    fn restore_queue(&mut self, queue: &mut Queue, token: u64) {
        let layout = layout(self.generation());
        let own = queue.config.mqd;
        let saved = self.saves.by_token.remove(&token);
        let Some(saved) = saved.filter(|saved| saved.mqd == own) else {
            self.not_restored(queue, &RestoreError::Queue { token });
            return;
        };
        let control = layout.restore_control as u64 * 4;
        let to = queue.config.mqd.wrapping_add(control);
        if let Err(fault) = self.env.write32(0, to, 0) {
            self.fault(queue, &fault, client::CPC);
        }
        if saved.rptr != queue.rptr {
            strict!(
                self.env.strict(),
                "cp",
                "queue {}: saved at read pointer {:#x}, its MQD contains {:#x}",
                queue.slot,
                saved.rptr,
                queue.rptr
            );
        }
        queue.work = saved.work;
        queue.rptr = saved.rptr;
        queue.halt = saved.halt;
        queue.restores = Some(token);
        event!(
            self.env.trace(),
            "cp",
            "queue_restored",
            "xcc={} queue={} pasid={} token={token}",
            self.env.xcc(),
            queue.slot,
            queue.pasid
        );
        self.resume(queue);
    }
}
