// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an instruction reads and writes, for checks of code that is not executed.

use std::ops::Range;

use super::{gfx1201, instruction, limits, Probe};
use crate::decode::{self, code};
use crate::inst::{
    Access, Body, Components, Lds, LdsOp, Salu, Segment, Shape, Src, Valu, VectorOp, Vmem,
};
use crate::op::Op;
use crate::Isa;

/// Unit that executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Scalar ALU and control.
    Scalar,
    /// Loads, stores and caches of scalar memory.
    ScalarMemory,
    /// Vector ALU.
    Vector,
    /// Global, scratch, flat and buffer memory.
    VectorMemory,
    /// LDS.
    Lds,
}

/// What an instruction reads and writes.
#[derive(Clone, Debug)]
pub struct Effects {
    /// Length, in words.
    pub words: usize,
    /// Mnemonic of an ALU instruction, else what it is.
    pub name: String,
    /// Unit.
    pub unit: Unit,
    /// Scalar registers by operand code: VCC is 106, `ttmp0` 108, M0 124, EXEC 126. All of the
    /// program's, if M0 selects one.
    pub reads: Vec<Range<u8>>,
    /// Scalar registers written.
    pub writes: Vec<Range<u8>>,
    /// Vector registers that a vector ALU instruction reads, without the index of an index mode.
    pub vector_reads: Vec<Range<u16>>,
    /// Vector registers that a vector ALU instruction writes.
    pub vector_writes: Vec<Range<u16>>,
    /// SIMM16, sign-extended; on gfx1201 the operand code of an instruction with one scalar source.
    pub imm: i32,
    /// Literal of `s_setreg_imm32_b32`.
    pub literal: u32,
    /// Writes memory.
    pub store: bool,
    /// Writes LDS from memory.
    pub loads_lds: bool,
    /// Has DPP, SDWA or a selected half.
    pub modified: bool,
}

/// The program's scalar registers, without VCC.
const PROGRAM: Range<u8> = 0..code::FLAT_SCRATCH;

/// Returns the effects of the instruction that starts with `words`. `None`: there is none.
pub fn effects(isa: Isa, words: [u32; 3]) -> Option<Effects> {
    let inst = decode::decode(words, &limits(isa, false)).ok()?;
    let found = match isa {
        Isa::Gfx942 => instruction(words[0], words[1]),
        Isa::Gfx1201 => gfx1201(words, false),
    };
    let name = match found {
        Probe::Instruction { name, .. } => name.unwrap_or_default(),
        Probe::Violation(_) | Probe::Illegal(_) => return None,
    };
    let mut e = Effects {
        words: usize::from(inst.bytes) / 4,
        name,
        unit: Unit::Scalar,
        reads: Vec::new(),
        writes: Vec::new(),
        vector_reads: Vec::new(),
        vector_writes: Vec::new(),
        imm: 0,
        literal: 0,
        store: false,
        loads_lds: false,
        modified: false,
    };
    match &inst.body {
        Body::Salu(i) => e.scalar(isa, words[0], i),
        Body::Smem(i) => {
            e.unit = Unit::ScalarMemory;
            e.store = e.name.contains("store");
            let data = span(i.data, i.dwords.into());
            if e.store || e.name.contains("load") {
                let regs = if e.name.starts_with("s_buffer") { 4 } else { 2 };
                e.reads.push(span(i.base, regs));
            }
            e.reads.extend(i.soffset.map(|n| span(n, 1)));
            match e.store {
                true => e.reads.push(data),
                false => e.writes.push(data),
            }
        }
        Body::ScalarLoad(i) => {
            (e.unit, e.name) = (Unit::ScalarMemory, "scalar load".into());
            e.reads = vec![span(i.base, if i.buffer { 4 } else { 2 })];
            e.reads.extend(i.soffset.map(|n| span(n, 1)));
            e.writes = vec![span(i.data, u16::from(i.bytes).div_ceil(4))];
        }
        Body::ScalarAtomic(i) => {
            (e.unit, e.name, e.store) = (Unit::ScalarMemory, "scalar atomic".into(), true);
            let data = span(i.data, u16::from(i.size) / 2);
            e.reads = vec![span(i.base, 4), data.clone()];
            e.writes = vec![data];
        }
        Body::Valu(i) => e.vector(i),
        Body::Dual(pair) => pair.iter().for_each(|i| e.vector(i)),
        Body::Vmem(i) => e.vector_memory(i),
        Body::Lds(i) => e.lds(i),
        Body::L2 { .. } => (e.unit, e.name) = (Unit::VectorMemory, "cache control".into()),
        Body::ScalarInvalidate | Body::CacheControl => {
            (e.unit, e.name) = (Unit::ScalarMemory, "scalar cache control".into());
        }
    }
    Some(e)
}

fn span(first: u8, count: u16) -> Range<u8> {
    first..first + count as u8
}

impl Effects {
    fn read(&mut self, src: Src, count: u16) {
        match src {
            Src::Sgpr(first) => self.reads.push(span(first, count)),
            Src::Vgpr(first) => self.vector_reads.push(first..first + count),
            Src::None | Src::Imm(_) | Src::Special(_) => {}
        }
    }

    fn scalar(&mut self, isa: Isa, word: u32, i: &Salu) {
        use Op::*;
        (self.imm, self.literal) = (i.imm, i.literal);
        let info = decode::scalar(isa, word);
        let (to, from) = info.map_or((0, &[][..]), |info| (info.dst.regs(), info.src));
        for (&src, ty) in i.src.iter().zip(from) {
            self.read(src, ty.regs());
        }
        let dst = span(i.dst, to);
        let compares = self.name.starts_with("s_cmpk");
        if compares || matches!(i.op, s_setreg_b32) {
            self.reads.push(dst);
            return;
        }
        if matches!(i.op, s_setreg_imm32_b32) {
            return;
        }
        if matches!(
            i.op,
            s_addk_i32
                | s_mulk_i32
                | s_cmovk_i32
                | s_cmov_b32
                | s_cmov_b64
                | s_bitset0_b32
                | s_bitset0_b64
                | s_bitset1_b32
                | s_bitset1_b64
        ) {
            self.reads.push(dst.clone());
        }
        if self.name.contains("exec_b") {
            self.writes.push(span(code::EXEC, 2));
        }
        match i.op {
            s_movrels_b32 | s_movrels_b64 => self.reads.push(PROGRAM),
            s_cbranch_vccz | s_cbranch_vccnz => self.reads.push(span(code::VCC, 2)),
            _ => {}
        }
        self.writes.push(match i.op {
            s_movreld_b32 | s_movreld_b64 => PROGRAM,
            s_set_gpr_idx_on | s_set_gpr_idx_idx => span(code::M0, 1),
            _ => dst,
        });
    }

    fn vector(&mut self, i: &Valu) {
        self.unit = Unit::Vector;
        self.modified |= i.shape != Shape::Plain || i.vop3 && i.op_sel != 0;
        for (&src, &regs) in i.src.iter().zip(&i.src_regs) {
            self.read(src, regs.into());
        }
        let op = match i.op {
            VectorOp::Op(op) => format!("{op:?}"),
            VectorOp::Cmp { write_exec, .. } => {
                self.name = "v_cmp".into();
                self.writes.push(span(i.sdst, 2));
                if write_exec {
                    self.writes.push(span(code::EXEC, 2));
                }
                return;
            }
        };
        let to_scalar = op.starts_with("v_s_") || op.starts_with("v_read");
        if to_scalar {
            self.writes.push(span(i.dst as u8, 1));
        } else {
            let dst = i.dst..i.dst + u16::from(i.dst_regs);
            self.vector_writes.push(dst);
        }
        let flag = ["_co_", "v_div_scale", "v_mad_u64_u32", "v_mad_i64_i32"];
        if flag.iter().any(|part| op.contains(part)) {
            self.writes.push(span(i.sdst, 2));
        }
    }

    fn vector_memory(&mut self, i: &Vmem) {
        (self.unit, self.name) = (Unit::VectorMemory, "vector memory".into());
        let buffer = matches!(i.segment, Segment::Buffer { .. });
        let base = i.saddr.map(|n| span(n, if buffer { 4 } else { 2 }));
        self.reads.extend(base);
        self.read(i.soffset, 1);
        self.store = match i.access {
            Access::Store { .. } | Access::Atomic { .. } => true,
            Access::Typed(typed) => typed.store,
            Access::Block { store } => store,
            Access::Load { .. } | Access::LoadLds { .. } | Access::LoadTranspose { .. } => false,
        };
        self.loads_lds = match i.access {
            Access::LoadLds { .. } => true,
            Access::Typed(typed) => typed.registers == Components::Lds,
            _ => false,
        };
    }

    fn lds(&mut self, i: &Lds) {
        self.unit = Unit::Lds;
        self.name = match i.op {
            LdsOp::Nop => "ds_nop".into(),
            LdsOp::Gws(_) => "ds_gws".into(),
            _ => "LDS access".into(),
        };
    }
}
