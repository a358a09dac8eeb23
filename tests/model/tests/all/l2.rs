// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L2s of a card in adversarial mode: how PTEs, TLB flushes, SDMA, the host and the command
//! processor act on them.

use std::sync::Arc;

use crate::common::{addr, adverse, enable_context, hub_read, hub_write, init_hdp, open_apertures};
use crate::common::{until, FB};
use gpu_model::chips::mi300x::{CHIP, ONE_XCC};
use gpu_model::chips::Chip;
use gpu_model::engines::gmc::cu::{Cache, CuNumber, Via};
use gpu_model::engines::gmc::{Access, Hub, Rmw, HEAVYWEIGHT};
use gpu_model::gpu::{Gpu, Reset};
use gpu_model::regs::Ip;
use gpu_regs::{gc_9_4_3 as gc, mmhub_1_8_0 as mm};
use gpu_wave::{Isa, Scope, WaveSlots};
use rkfd_abi::pte;

const VMID: u8 = 5;
/// Two pages: source and destination of copies.
const VA: u64 = 0x7000_1000;
const PAGE: u64 = 0x20_0000;
/// Root, middle and last directory, page table.
const TABLES: [u64; 4] = [0x10_0000, 0x10_1000, 0x10_2000, 0x10_3000];
const OLD: u64 = 0x11;
const NEW: u64 = 0x22;

struct Card(Arc<Gpu>);

impl Card {
    /// Returns a card whose page at `VA` is mapped with `flags`.
    fn new(chip: &'static Chip, flags: u64) -> Self {
        let card = Self(adverse(chip, 3)).mapped(flags);
        card.0.vram.write(PAGE, &OLD.to_le_bytes()).unwrap();
        card
    }

    /// Maps the page.
    fn mapped(self, flags: u64) -> Self {
        let (chip, card) = (self.0.chip, self);
        let base = pte::VALID;
        for (n, shift) in [39, 30, 21].into_iter().enumerate() {
            card.table(TABLES[n], shift, TABLES[n + 1] | base);
        }
        let flags = base | pte::READABLE | pte::WRITEABLE | flags;
        card.table(TABLES[3], 12, PAGE | flags);
        for hub in [Hub::Gfx(0), Hub::Gfx(chip.span(Ip::Gc) - 1), Hub::Mm(0)] {
            open_apertures(&card.0, [hub]);
            enable_context(&card.0, hub, VMID.into(), 3, 0, TABLES[0] | base);
        }
        init_hdp(&card.0);
        card
    }

    fn table(&self, table: u64, shift: u32, entry: u64) {
        let at = table + (VA >> shift & 0x1ff) * 8;
        self.0.vram.write(at, &entry.to_le_bytes()).unwrap();
    }

    /// A load of a shader.
    fn load(&self, xcc: u8) -> u64 {
        self.load_by(xcc, None)
    }

    /// A load of a shader through a cache of the CUs.
    fn load_by(&self, xcc: u8, via: Option<Via>) -> u64 {
        let mut data = [0; 8];
        let (gmc, how) = (&self.0.gmc, (Scope::Wave, via));
        gmc.shader_load((xcc, VMID), VA, &mut data, Access::Read, how)
            .unwrap();
        u64::from_le_bytes(data)
    }

    /// Writes memory and probes the L2s.
    fn replace(&self) {
        self.0.hdp.write(PAGE, &NEW.to_le_bytes()).unwrap();
        self.0.hdp.flush();
    }

    /// Flushes the TLB of the VMID.
    fn flush_tlb(&self, kind: u32) {
        let request = gc::VM_INVALIDATE_ENG0_REQ__PER_VMID_INVALIDATE_REQ.put(1 << VMID)
            | gc::VM_INVALIDATE_ENG0_REQ__FLUSH_TYPE.put(kind);
        let hub = Hub::Gfx(0);
        hub_write(&self.0, hub, gc::regVM_INVALIDATE_ENG0_REQ.at(17), request);
        let ack = gc::regVM_INVALIDATE_ENG0_ACK.at(17);
        until(&self.0, "no ACK", || hub_read(&self.0, hub, ack) != 0);
    }

    /// A store of a shader.
    fn store(&self, xcc: u8, value: u64) {
        let data = value.to_le_bytes();
        let gmc = &self.0.gmc;
        gmc.shader_store((xcc, VMID), VA, &data, (Scope::Wave, None))
            .unwrap();
    }

    /// A load of SDMA.
    fn sdma(&self) -> u64 {
        self.0.gmc.read64(Hub::Mm(0), VMID, VA).unwrap()
    }

    /// A load of the host.
    fn host(&self) -> u64 {
        let mut data = [0; 8];
        self.0.hdp.read(PAGE, &mut data).unwrap();
        u64::from_le_bytes(data)
    }
}

fn mtype(mtype: u64) -> u64 {
    pte::SNOOPED | pte::MTYPE.put(mtype)
}

#[test]
fn memory_types_of_ptes() {
    for (field, cached) in [
        (pte::MTYPE_NC, true),
        (pte::MTYPE_RW, true),
        (pte::MTYPE_CC, false),
        (pte::MTYPE_UC, false),
    ] {
        let card = Card::new(&ONE_XCC, mtype(field));
        assert_eq!(card.load(0), OLD);
        card.store(0, NEW);
        let seen = if cached { OLD } else { NEW };
        assert_eq!((card.sdma(), card.host()), (seen, seen), "{field}");
        card.0.gmc.l2().unwrap().write_back(0);
        assert_eq!((card.sdma(), card.host()), (NEW, NEW), "{field}");
    }
}

#[test]
fn the_command_processor_reads_and_writes_past_its_lines() {
    let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_NC));
    let (gmc, hub) = (&card.0.gmc, Hub::Gfx(0));
    card.store(0, NEW);
    assert_eq!(gmc.read64(hub, VMID, VA), Ok(NEW));
    gmc.write64(hub, VMID, VA, 0x33).unwrap();
    assert_eq!((card.load(0), card.host()), (0x33, 0x33));
    card.store(0, 0x44);
    let add = &mut |old| old + 1;
    assert_eq!(gmc.vm_atomic(hub, VMID, VA, 8, Rmw::Request, add), Ok(0x44));
    assert_eq!((card.load(0), card.host()), (0x45, 0x45));
}

#[test]
fn stores_of_the_host_probe_rw_lines() {
    for (field, seen) in [(pte::MTYPE_NC, OLD), (pte::MTYPE_RW, NEW)] {
        let card = Card::new(&ONE_XCC, mtype(field));
        assert_eq!(card.load(0), OLD);
        card.0.hdp.write(PAGE, &NEW.to_le_bytes()).unwrap();
        assert_eq!(card.load(0), OLD);
        card.0.hdp.flush();
        assert_eq!(card.load(0), seen);
    }
}

/// Fills the page by SDMA and returns what a shader sees that had loaded it before.
fn filled(card: &Card, vmid: u8, va: u64) -> u64 {
    assert_eq!(card.load(0), OLD);
    let gmc = &card.0.gmc;
    gmc.vm_fill_some(Hub::Mm(0), vmid, va, 4, (NEW as u32).to_le_bytes())
        .unwrap();
    card.load(0)
}

#[test]
fn writes_of_sdma_probe_with_snooped() {
    let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_RW));
    assert_eq!(filled(&card, VMID, VA), NEW);
    let card = Card::new(&ONE_XCC, pte::MTYPE.put(pte::MTYPE_RW));
    assert_eq!(filled(&card, VMID, VA), OLD);
}

#[test]
fn writes_of_sdma_to_the_aperture_probe_with_the_override() {
    let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_RW));
    assert_eq!(filled(&card, 0, FB + PAGE), OLD);
    let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_RW));
    for reg in [
        mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE,
        mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE,
    ] {
        card.0.reg_write(addr(Ip::Mmhub, reg), 1 << 15);
    }
    assert_eq!(filled(&card, 0, FB + PAGE), NEW);
}

#[test]
fn xccs_see_each_others_stores_after_a_write_back() {
    let last = CHIP.span(Ip::Gc) - 1;
    for (flags, seen) in [
        (mtype(pte::MTYPE_RW), NEW),
        (pte::MTYPE.put(pte::MTYPE_RW), OLD),
        (mtype(pte::MTYPE_NC), OLD),
    ] {
        let card = Card::new(&CHIP, flags);
        assert_eq!(card.load(last), OLD);
        card.store(0, NEW);
        assert_eq!(card.load(last), OLD);
        card.0.gmc.l2().unwrap().write_back(0);
        assert_eq!(card.load(last), seen, "{flags:#x}");
    }
}

#[test]
fn heavyweight_tlb_flushes_flush_the_l2() {
    for (kind, seen) in [(0, OLD), (HEAVYWEIGHT, NEW)] {
        let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_NC));
        assert_eq!(card.load(0), OLD);
        card.0.vram.write(PAGE, &NEW.to_le_bytes()).unwrap();
        card.flush_tlb(kind);
        assert_eq!(card.load(0), seen);
    }
}

/// Returns a CU.
fn cu(n: u32) -> CuNumber {
    let slots = WaveSlots {
        cu: n,
        ..WaveSlots::default()
    };
    CuNumber::of(&slots, Isa::Gfx942)
}

/// Returns a cache of each kind.
fn vias() -> [Via; 3] {
    [Via::Scalar, Via::Code, Via::Vector(cu(1))]
}

/// Returns what is loaded through a cache of the CUs that had the old value, after `act`, in some
/// trials: the adversary may fetch a line again.
fn after(flags: u64, via: Via, act: impl Fn(&Card)) -> Vec<u64> {
    let trial = |_| {
        let card = Card::new(&ONE_XCC, flags);
        assert_eq!(card.load_by(0, Some(via)), OLD);
        card.replace();
        act(&card);
        card.load_by(0, Some(via))
    };
    (0..4).map(trial).collect()
}

#[test]
fn lines_of_cus_are_not_probed() {
    for via in vias() {
        for field in [pte::MTYPE_RW, pte::MTYPE_UC, pte::MTYPE_CC] {
            let is_cached = field == pte::MTYPE_RW || matches!(via, Via::Scalar | Via::Code);
            let seen = after(mtype(field), via, |card| assert_eq!(card.load(0), NEW));
            assert_eq!(seen.contains(&OLD), is_cached, "{via:?} {field}");
        }
    }
}

#[test]
fn tlb_flushes_do_not_invalidate_the_caches_of_cus() {
    for via in vias() {
        let seen = after(mtype(pte::MTYPE_RW), via, |card| {
            card.flush_tlb(HEAVYWEIGHT)
        });
        assert!(seen.contains(&OLD), "{via:?}");
    }
}

#[test]
fn new_owners_of_a_vmid_find_no_lines_of_cus() {
    for via in vias() {
        let act = |card: &Card| {
            let gmc = &card.0.gmc;
            gmc.map_vmid(Hub::Gfx(0), VMID, gmc.root(Hub::Gfx(0), VMID));
        };
        let seen = after(mtype(pte::MTYPE_RW), via, act);
        assert_eq!(seen, [NEW; 4], "{via:?}");
    }
}

#[test]
fn accesses_are_translated_before_they_hit_in_lines_of_cus() {
    for via in vias() {
        let moved = |card: &Card| {
            let flags = mtype(pte::MTYPE_RW) | pte::VALID | pte::READABLE;
            card.0.vram.write(2 * PAGE, &NEW.to_le_bytes()).unwrap();
            card.table(TABLES[3], 12, 2 * PAGE | flags);
            card.0.gmc.invalidate(Hub::Gfx(0), 1 << VMID);
        };
        assert_eq!(after(mtype(pte::MTYPE_RW), via, moved), [NEW; 4]);
    }
}

#[test]
fn resets_drop_stored_bytes() {
    let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_RW));
    card.store(0, NEW);
    card.0.reset(Reset::Mode1);
    card.0.gmc.l2().unwrap().write_back(0);
    assert_ne!(card.host(), NEW);
}

#[test]
fn resets_drop_lines_of_cus() {
    for via in vias() {
        let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_RW));
        assert_eq!(card.load_by(0, Some(via)), OLD);
        card.replace();
        card.0.gmc.reset();
        let card = card.mapped(mtype(pte::MTYPE_RW));
        assert_eq!(card.load_by(0, Some(via)), NEW);
    }
}

#[test]
fn stores_and_atomics_of_a_cu_drop_its_lines() {
    let by = |n| Via::Vector(cu(n));
    for (writer, own) in [(1, true), (2, false)] {
        let store = |card: &Card| {
            let (gmc, data) = (&card.0.gmc, NEW.to_le_bytes());
            gmc.shader_store((0, VMID), VA, &data, (Scope::Wave, Some(cu(writer))))
                .unwrap();
        };
        let add = |card: &Card| {
            let (gmc, hub) = (&card.0.gmc, Hub::Gfx(0));
            gmc.vm_atomic(hub, VMID, VA, 8, Rmw::Request, &mut |_| NEW)
                .unwrap();
            gmc.after_atomic((0, VMID), VA, 8, cu(writer));
        };
        let acts: [&dyn Fn(&Card); 2] = [&store, &add];
        for act in acts {
            let seen = after(mtype(pte::MTYPE_RW), by(1), act);
            match own {
                true => assert_eq!(seen, [NEW; 4]),
                false => assert!(seen.contains(&OLD)),
            }
        }
    }
}

/// Returns what the stages see after a scalar store and `act`, over several trials: the scalar
/// cache, vector loads, the host.
fn after_scalar_store(field: u64, act: impl Fn(&Card)) -> [Vec<u64>; 3] {
    let trial = |_| {
        let card = Card::new(&ONE_XCC, mtype(field));
        let (gmc, data) = (&card.0.gmc, NEW.to_le_bytes());
        gmc.scalar_store((0, VMID), VA, &data).unwrap();
        act(&card);
        [
            card.load_by(0, Some(Via::Scalar)),
            card.load(0),
            card.host(),
        ]
    };
    let trials: Vec<_> = (0..4).map(trial).collect();
    [0, 1, 2].map(|n| trials.iter().map(|seen| seen[n]).collect())
}

#[test]
fn scalar_stores_stay_in_the_scalar_cache() {
    for field in [pte::MTYPE_RW, pte::MTYPE_UC] {
        let [scalar, vector, host] = after_scalar_store(field, |_| {});
        assert_eq!(
            (scalar, vector, host),
            (vec![NEW; 4], vec![OLD; 4], vec![OLD; 4])
        );
        // Neither does an invalidation write it back, nor a release.
        let act = |card: &Card| {
            let gmc = &card.0.gmc;
            gmc.cus().unwrap().invalidate(0, &[Cache::Scalar]);
            gmc.l2().unwrap().write_back(0);
        };
        let [scalar, vector, host] = after_scalar_store(field, act);
        assert_eq!(
            (scalar, vector, host),
            (vec![NEW; 4], vec![OLD; 4], vec![OLD; 4])
        );
    }
}

#[test]
fn write_backs_of_the_scalar_cache_reach_the_l2() {
    let write_back = |card: &Card| card.0.gmc.write_back_scalar(0);
    let [_, vector, host] = after_scalar_store(pte::MTYPE_RW, write_back);
    assert_eq!((vector, host), (vec![NEW; 4], vec![OLD; 4]));
    let [_, vector, host] = after_scalar_store(pte::MTYPE_UC, write_back);
    assert_eq!((vector, host), (vec![NEW; 4], vec![NEW; 4]));
    let load = |card: &Card| {
        let (gmc, how) = (&card.0.gmc, (Scope::Workgroup, Some(Via::Scalar)));
        let mut data = [0; 8];
        gmc.shader_load((0, VMID), VA, &mut data, Access::Read, how)
            .unwrap();
        assert_eq!(data, NEW.to_le_bytes());
    };
    let [_, vector, _] = after_scalar_store(pte::MTYPE_RW, load);
    assert_eq!(vector, [NEW; 4]);
}

#[test]
fn new_owners_of_a_vmid_find_no_scalar_stores() {
    let map = |card: &Card| {
        let gmc = &card.0.gmc;
        gmc.map_vmid(Hub::Gfx(0), VMID, gmc.root(Hub::Gfx(0), VMID));
        gmc.write_back_scalar(0);
    };
    let [scalar, vector, _] = after_scalar_store(pte::MTYPE_RW, map);
    assert_eq!((scalar, vector), (vec![OLD; 4], vec![OLD; 4]));
}

#[test]
fn full_scalar_caches_write_lines_back() {
    let card = Card::new(&ONE_XCC, mtype(pte::MTYPE_UC));
    let gmc = &card.0.gmc;
    let line = |n: u64| 0x40 * n;
    // VMID 0, whose addresses are those of VRAM: 1 MiB.
    for n in 0..0x4000 {
        gmc.scalar_store((0, 0), FB + PAGE + line(n), &[1]).unwrap();
    }
    gmc.l2().unwrap().write_back(0);
    let written = (0..0x4000).filter(|&n| {
        let mut byte = [0];
        card.0.vram.read(PAGE + line(n), &mut byte).unwrap();
        byte == [1]
    });
    assert!((0x3f00..0x4000).contains(&written.count()));
}

#[test]
fn loads_of_a_wider_scope_drop_lines_of_their_cu() {
    for via in vias() {
        let act = |card: &Card| {
            let mut data = [0; 8];
            let (gmc, how) = (&card.0.gmc, (Scope::Workgroup, Some(via)));
            gmc.shader_load((0, VMID), VA, &mut data, Access::Read, how)
                .unwrap();
            assert_eq!(data, NEW.to_le_bytes());
        };
        assert_eq!(after(mtype(pte::MTYPE_RW), via, act), [NEW; 4], "{via:?}");
    }
}
