// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests of the L2s.

use super::*;
use crate::mem::sparse_file;

/// Address in VRAM, of the first byte of a line.
const AT: u64 = 0x4000;

struct Bench {
    l2: Caches,
    vram: Arc<Vram>,
    dma: Arc<GuestMemory>,
}

impl Bench {
    /// Returns two XCCs, a memory hub, and guest memory at address 0.
    fn new() -> Self {
        let vram = Arc::new(Vram::new(16 << 20).unwrap());
        let dma = Arc::new(GuestMemory::default());
        let ram = sparse_file("ram", 1 << 20).unwrap();
        dma.map(0, 1 << 20, Some((ram, 0)), true, true).unwrap();
        let strict = Arc::new(Strict::quiet());
        let adversary = Arc::new(Adversary::new(1));
        let l2 = Caches::new(strict, vram.clone(), dma.clone(), adversary, [2, 1]);
        Self { l2, vram, dma }
    }

    fn store(&self, xcc: u8, at: u64, mtype: Mtype, data: &[u8], scope: Scope) {
        self.l2.write(xcc, vram(at, mtype), data, scope).unwrap();
    }

    fn load(&self, xcc: u8, at: u64, mtype: Mtype, scope: Scope) -> u8 {
        let mut byte = [0];
        self.l2
            .read(xcc, vram(at, mtype), &mut byte, scope)
            .unwrap();
        byte[0]
    }

    /// Reads memory as SDMA and the host do.
    fn memory(&self, at: u64) -> u8 {
        let mut byte = [0];
        self.vram.read(at, &mut byte).unwrap();
        byte[0]
    }

    /// Writes memory as SDMA does.
    fn copy(&self, at: u64, data: &[u8], probes: bool) {
        self.vram.write(at, data).unwrap();
        if probes {
            self.l2.probe(Target::Vram(at), data.len() as u64, None);
        }
    }
}

fn vram(at: u64, mtype: Mtype) -> Pa {
    Pa {
        target: Target::Vram(at),
        mtype,
        snooped: true,
        left: 0x1000,
    }
}

#[test]
fn stores_stay_until_a_write_back() {
    for mtype in [Mtype::Nc, Mtype::Rw] {
        let bench = Bench::new();
        bench.store(0, AT + 5, mtype, &[7; 200], Scope::Workgroup);
        assert_eq!(bench.memory(AT + 5), 0);
        assert_eq!(bench.load(0, AT + 204, mtype, Scope::Wave), 7);
        assert_eq!(bench.load(0, AT + 4, mtype, Scope::Wave), 0);
        bench.l2.write_back(1);
        assert_eq!(bench.memory(AT + 5), 0);
        bench.l2.write_back(0);
        assert_eq!([4, 5, 204, 205].map(|n| bench.memory(AT + n)), [0, 7, 7, 0]);
    }
}

#[test]
fn stores_of_a_wider_scope_are_written_through() {
    for scope in [Scope::Agent, Scope::System] {
        let bench = Bench::new();
        bench.store(0, AT, Mtype::Rw, &[3], scope);
        assert_eq!(bench.memory(AT), 3);
    }
}

#[test]
fn bytes_beside_those_of_a_line_survive_its_write_back() {
    let bench = Bench::new();
    bench.store(0, AT + 1, Mtype::Rw, &[1], Scope::Wave);
    bench.store(1, AT + 2, Mtype::Rw, &[2], Scope::Wave);
    bench.copy(AT + 3, &[3], true);
    bench.l2.write_back(0);
    bench.l2.write_back(1);
    assert_eq!([0, 1, 2, 3].map(|n| bench.memory(AT + n)), [0, 1, 2, 3]);
    // The line of XCC 0 was probed.
    assert_eq!(bench.load(0, AT + 2, Mtype::Rw, Scope::Wave), 2);
}

#[test]
fn lines_are_stale_until_a_probe_or_an_invalidation() {
    for (mtype, probes, expected) in [
        (Mtype::Rw, true, 9),
        (Mtype::Rw, false, 0),
        (Mtype::Nc, true, 0),
    ] {
        let bench = Bench::new();
        assert_eq!(bench.load(0, AT, mtype, Scope::Wave), 0);
        bench.copy(AT, &[9; 300], probes);
        assert_eq!(bench.load(0, AT, mtype, Scope::Wave), expected, "{mtype:?}");
        bench.l2.invalidate(0);
        let after = if mtype == Mtype::Nc { 9 } else { expected };
        assert_eq!(bench.load(0, AT, mtype, Scope::Wave), after, "{mtype:?}");
        bench.l2.flush(0);
        assert_eq!(bench.load(0, AT, mtype, Scope::Wave), 9);
    }
}

#[test]
fn write_backs_probe_other_xccs_if_the_page_is_snooped() {
    for snooped in [true, false] {
        let bench = Bench::new();
        let pa = Pa {
            snooped,
            ..vram(AT, Mtype::Rw)
        };
        assert_eq!(bench.load(1, AT, Mtype::Rw, Scope::Wave), 0);
        bench.l2.write(0, pa, &[4], Scope::Wave).unwrap();
        assert_eq!(bench.load(1, AT, Mtype::Rw, Scope::System), 0);
        bench.l2.write_back(0);
        let seen = bench.load(1, AT, Mtype::Rw, Scope::System);
        assert_eq!(seen, if snooped { 4 } else { 0 });
    }
}

#[test]
fn loads_of_a_wider_scope_miss_nc_lines() {
    for (scope, expected) in [(Scope::Workgroup, 0), (Scope::Agent, 6), (Scope::System, 6)] {
        let bench = Bench::new();
        assert_eq!(bench.load(0, AT, Mtype::Nc, Scope::Wave), 0);
        bench.copy(AT, &[6], true);
        assert_eq!(bench.load(0, AT, Mtype::Nc, scope), expected);
    }
}

#[test]
fn stored_bytes_survive_invalidations() {
    let bench = Bench::new();
    bench.store(0, AT, Mtype::Nc, &[1], Scope::Wave);
    bench.copy(AT, &[2, 2], true);
    bench.l2.invalidate(0);
    assert_eq!(bench.load(0, AT, Mtype::Nc, Scope::System), 1);
    assert_eq!(bench.load(0, AT + 1, Mtype::Nc, Scope::Wave), 2);
    bench.l2.sync(0, Target::Vram(AT), 1);
    assert_eq!(bench.memory(AT), 1);
}

#[test]
fn lines_of_guest_memory() {
    let bench = Bench::new();
    let pa = Pa {
        target: Target::System(AT),
        ..vram(0, Mtype::Nc)
    };
    bench.l2.write(0, pa, &[8; 8], Scope::Wave).unwrap();
    assert_eq!(bench.dma.load64(AT), Ok(0));
    assert_eq!(bench.load(0, AT, Mtype::Nc, Scope::Wave), 0, "VRAM");
    bench.l2.write_back(0);
    assert_eq!(bench.dma.load64(AT), Ok(0x0808_0808_0808_0808));
    let nowhere = Pa {
        target: Target::System(2 << 20),
        ..pa
    };
    assert_eq!(bench.l2.write(0, nowhere, &[1], Scope::Wave), Err(NoMemory));
    for _ in 0..2 {
        let result = bench.l2.read(0, nowhere, &mut [1], Scope::Wave);
        assert_eq!(result, Err(NoMemory));
    }
}

#[test]
fn the_adversary_writes_lines_back() {
    let bench = Bench::new();
    let count = 2 * (CHANNELS * LINES) as u64;
    let written = |below: u64| {
        let lines = 0..below;
        lines.filter(|n| bench.memory(n * LINE as u64) == 1).count() as u64
    };
    for n in 0..1000 {
        bench.store(0, n * LINE as u64, Mtype::Rw, &[1], Scope::Wave);
    }
    // Early, while there is room.
    assert!((1..500).contains(&written(1000)));
    for n in 1000..count {
        bench.store(0, n * LINE as u64, Mtype::Rw, &[1], Scope::Wave);
    }
    assert!(written(count) >= count / 2);
    bench.l2.discard();
    bench.l2.write_back(0);
    assert!(written(count) < count);
}

#[test]
fn overrides_of_a_memory_hub() {
    let bench = Bench::new();
    let reg = |reg: gpu_regs::Reg, dagb: u32| RegId::from(reg.at(0x80 * dagb));
    assert!(!bench.l2.is_overridden(0));
    for dagb in 0..DAGBS {
        let at = reg(mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE, dagb);
        bench.l2.hub_register(0, at, SDMA_CLIENT);
    }
    assert!(!bench.l2.is_overridden(0));
    let value = reg(mm::regDAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE, 3);
    bench.l2.hub_register(0, value, !SDMA_CLIENT);
    assert!(!bench.l2.is_overridden(0));
    bench.l2.hub_register(0, value, SDMA_CLIENT | 1);
    assert!(bench.l2.is_overridden(0));
    bench.l2.discard();
    assert!(!bench.l2.is_overridden(0));
}
