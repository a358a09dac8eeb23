// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Scopes of loads, stores and cache control: what reaches the memory interface.

use std::sync::Mutex;

use crate::common::llvm::Target;
use crate::common::place::{CODE, DATA};
use crate::common::{llvm, one_wave, Ram, Recorder};
use gpu_wave::{run_workgroup, Dispatch, Fault, Memory, Scope};

/// A call that has a scope.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Load(Scope),
    Store(Scope),
    WriteBack(Scope),
    Invalidate(Scope),
    LoadScalar(Scope),
    StoreScalar(Scope),
    WriteBackScalar,
    InvalidateScalar,
    InvalidateCode,
}

struct Recording<'a> {
    ram: &'a Ram,
    calls: Mutex<Vec<Call>>,
}

impl Recording<'_> {
    fn note(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Memory for Recording<'_> {
    fn read(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.ram.read(va, buf)
    }

    fn write(&self, va: u64, data: &[u8]) -> Result<(), Fault> {
        self.ram.write(va, data)
    }

    fn fetch(&self, va: u64, buf: &mut [u8]) -> Result<(), Fault> {
        self.ram.fetch(va, buf)
    }

    fn atomic(&self, va: u64, size: u8, f: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        self.ram.atomic(va, size, f)
    }

    fn load(&self, va: u64, buf: &mut [u8], scope: Scope) -> Result<(), Fault> {
        self.note(Call::Load(scope));
        self.ram.read(va, buf)
    }

    fn store(&self, va: u64, data: &[u8], scope: Scope) -> Result<(), Fault> {
        self.note(Call::Store(scope));
        self.ram.write(va, data)
    }

    fn write_back(&self, scope: Scope) {
        self.note(Call::WriteBack(scope));
    }

    fn invalidate(&self, scope: Scope) {
        self.note(Call::Invalidate(scope));
    }

    fn load_scalar(&self, va: u64, buf: &mut [u8], scope: Scope) -> Result<(), Fault> {
        self.note(Call::LoadScalar(scope));
        self.ram.read(va, buf)
    }

    fn store_scalar(&self, va: u64, data: &[u8], scope: Scope) -> Result<(), Fault> {
        self.note(Call::StoreScalar(scope));
        self.ram.write(va, data)
    }

    fn write_back_scalar(&self) {
        self.note(Call::WriteBackScalar);
    }

    fn invalidate_scalar(&self) {
        self.note(Call::InvalidateScalar);
    }

    fn invalidate_code(&self) {
        self.note(Call::InvalidateCode);
    }
}

/// Runs `asm` with a data address in s[0:1] and v[2:3], and returns the calls.
fn calls(asm: &str) -> Vec<Call> {
    let code = format!(
        "v_mov_b32 v2, s0\n v_mov_b32 v3, s1\n v_mov_b32 v4, 0\n s_mov_b64 exec, 1\n\
         s_mov_b32 s4, s0\n s_mov_b32 s5, s1\n s_movk_i32 s6, 0x100\n s_mov_b32 s7, 0x24fac\n\
         {asm}\n s_waitcnt 0\n s_endpgm\n"
    );
    calls_on(Target::Gfx942, &code)
}

/// Runs `code` and returns the calls.
fn calls_on(target: Target, code: &str) -> Vec<Call> {
    let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1000);
    ram.put_u32(CODE, &llvm::assemble_for(target, code));
    let dispatch = match target {
        Target::Gfx942 => one_wave(),
        _ => Dispatch {
            isa: target.isa(),
            wave32: target == Target::Wave32,
            grid: [target.lanes() as u32, 1, 1],
            workgroup: [target.lanes() as u16, 1, 1],
            rsrc1: 1,
            rsrc3: 0,
            ..one_wave()
        },
    };
    let memory = Recording {
        ram: &ram,
        calls: Mutex::default(),
    };
    run_workgroup(&memory, &Recorder::default(), &dispatch, [0, 0, 0]).unwrap();
    memory.calls.into_inner().unwrap()
}

#[test]
fn accesses_have_the_scope_of_sc0_and_sc1() {
    for (bits, scope) in [
        ("", Scope::Wave),
        ("sc0", Scope::Workgroup),
        ("sc1", Scope::Agent),
        ("sc0 sc1", Scope::System),
        ("nt", Scope::Workgroup),
        ("sc1 nt", Scope::Agent),
    ] {
        for (asm, call) in [
            ("global_load_dword v5, v4, s[0:1]", Call::Load(scope)),
            ("flat_load_dword v5, v[2:3]", Call::Load(scope)),
            ("buffer_load_dword v5, off, s[4:7], 0", Call::Load(scope)),
            (
                "tbuffer_load_format_x v5, off, s[4:7], 0 format:[BUF_DATA_FORMAT_32,BUF_NUM_FORMAT_UINT]",
                Call::Load(scope),
            ),
            ("global_store_dword v4, v5, s[0:1]", Call::Store(scope)),
            ("flat_store_dword v[2:3], v5", Call::Store(scope)),
            ("buffer_store_dword v5, off, s[4:7], 0", Call::Store(scope)),
            ("buffer_wbl2", Call::WriteBack(scope)),
            ("buffer_inv", Call::Invalidate(scope)),
        ] {
            if bits.ends_with("nt") && matches!(call, Call::WriteBack(_) | Call::Invalidate(_)) {
                continue;
            }
            assert_eq!(calls(&format!("{asm} {bits}")), [call], "{asm} {bits}");
        }
    }
}

#[test]
fn scalar_accesses_pass_the_cache_with_glc() {
    for (asm, expected) in [
        (
            "s_load_dword s8, s[0:1], 0x0",
            &[Call::LoadScalar(Scope::Wave)][..],
        ),
        (
            "s_load_dwordx2 s[8:9], s[0:1], 0x0 glc",
            &[Call::LoadScalar(Scope::Workgroup)],
        ),
        (
            "s_buffer_load_dword s8, s[4:7], 0x0 glc",
            &[Call::LoadScalar(Scope::Workgroup)],
        ),
        ("s_dcache_inv", &[Call::InvalidateScalar]),
        (
            "s_store_dword s4, s[0:1], 0x0",
            &[Call::StoreScalar(Scope::Wave), Call::InvalidateScalar],
        ),
        (
            "s_buffer_store_dwordx2 s[4:5], s[4:7], 0x0 glc",
            &[Call::StoreScalar(Scope::Workgroup), Call::InvalidateScalar],
        ),
        (
            "s_atomic_add s4, s[0:1], 0x0",
            &[Call::WriteBackScalar, Call::InvalidateScalar],
        ),
        ("s_dcache_wb", &[Call::WriteBackScalar]),
        ("s_icache_inv", &[Call::InvalidateCode]),
    ] {
        assert_eq!(calls(asm), expected, "{asm}");
    }
}

/// A wave that replaces its next instruction sees the new one after `s_icache_inv` only.
#[test]
fn code_is_fetched_again_after_an_invalidation() {
    for (inv, expected) in [("", 1), ("s_icache_inv", 2)] {
        let code = format!(
            "s_mov_b32 s8, 0\n v_mov_b32 v5, 0xbe890082\n\
             loop:\n s_add_u32 s8, s8, 1\n s_getpc_b64 s[2:3]\n\
             base:\n s_add_u32 s2, s2, patch-base\n s_addc_u32 s3, s3, 0\n\
             v_mov_b32 v2, s2\n v_mov_b32 v3, s3\n {inv}\n\
             patch:\n s_mov_b32 s9, 1\n\
             flat_store_dword v[2:3], v5\n s_waitcnt 0\n\
             s_cmp_eq_u32 s8, 2\n s_cbranch_scc0 loop\n\
             v_mov_b32 v2, s0\n v_mov_b32 v3, s1\n v_mov_b32 v5, s9\n\
             flat_store_dword v[2:3], v5\n s_waitcnt 0\n s_endpgm\n"
        );
        let ram = Ram::new(CODE, (DATA - CODE) as usize + 0x1000);
        ram.put_u32(CODE, &llvm::assemble_for(Target::Gfx942, &code));
        run_workgroup(&ram, &Recorder::default(), &one_wave(), [0, 0, 0]).unwrap();
        assert_eq!(ram.get_u32(DATA, 1), [expected], "{inv}");
    }
}

#[test]
fn accesses_of_gfx1201_have_their_scope() {
    let code = "s_mov_b32 exec_lo, 1\n v_mov_b32 v4, 0\n\
                global_load_b32 v5, v4, s[0:1] th:TH_LOAD_NT\n s_endpgm\n";
    assert_eq!(
        calls_on(Target::Wave32, code),
        [Call::Load(Scope::Workgroup)]
    );
    for (asm, call) in [
        ("s_dcache_inv", Call::InvalidateScalar),
        ("s_icache_inv", Call::InvalidateCode),
    ] {
        let code = format!("{asm}\n s_endpgm\n");
        assert_eq!(calls_on(Target::Wave32, &code), [call], "{asm}");
    }
    for (name, scope) in [
        ("", Scope::Wave),
        ("scope:SCOPE_SE", Scope::Workgroup),
        ("scope:SCOPE_DEV", Scope::Agent),
        ("scope:SCOPE_SYS", Scope::System),
    ] {
        let both = [Call::WriteBack(scope), Call::Invalidate(scope)];
        for (asm, expected) in [
            ("global_load_b32 v5, v4, s[0:1]", &[Call::Load(scope)][..]),
            ("flat_load_b32 v5, v[2:3]", &[Call::Load(scope)]),
            (
                "buffer_load_b32 v5, off, s[4:7], null",
                &[Call::Load(scope)],
            ),
            ("global_store_b32 v4, v5, s[0:1]", &[Call::Store(scope)]),
            ("flat_store_b32 v[2:3], v5", &[Call::Store(scope)]),
            (
                "buffer_store_b32 v5, off, s[4:7], null",
                &[Call::Store(scope)],
            ),
            ("global_wb", &both[..1]),
            ("global_inv", &both[1..]),
            ("global_wbinv", &both),
            ("s_load_b32 s8, s[0:1], 0x0", &[Call::LoadScalar(scope)]),
            (
                "s_buffer_load_b64 s[8:9], s[4:7], 0x0",
                &[Call::LoadScalar(scope)],
            ),
        ] {
            let code = format!(
                "v_mov_b32 v2, s0\n v_mov_b32 v3, s1\n v_mov_b32 v4, 0\n s_mov_b32 exec_lo, 1\n\
                 s_mov_b32 s4, s0\n s_mov_b32 s5, s1\n s_movk_i32 s6, 0x100\n\
                 s_mov_b32 s7, 0x30014000\n {asm} {name}\n s_endpgm\n"
            );
            assert_eq!(calls_on(Target::Wave32, &code), expected, "{asm} {name}");
        }
    }
}
