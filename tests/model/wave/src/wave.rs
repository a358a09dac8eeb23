// SPDX-License-Identifier: GPL-2.0 OR MIT

//! State of a wave, and register access.

use crate::decode::code;
use crate::exec::BARRIERS;
use crate::flight::Flight;
use crate::inst::{Src, Valu};
use crate::lanes;
use crate::{Apertures, Dispatch, Fault, Isa, Message, SavedWave, Trap, WaveSlots, Where};

/// Maximum number of lanes. A wave32 has the same registers; its EXEC never covers the upper half.
pub(crate) const LANES: usize = 64;
/// One 32-bit value per lane.
pub(crate) type Lanes = [u32; LANES];
/// One 64-bit value per lane.
pub(crate) type Lanes64 = [u64; LANES];

/// Offset of the restore routine in the trap handler.
const RESTORE_ENTRY: u64 = 4;
/// Contents of registers that silicon leaves undefined.
const UNDEFINED: u32 = 0xbaad_f00d;

/// Lanes of source `$n` of a vector instruction before `abs` and `neg`: a reference if they are an
/// unmodified register, else computed in `$room`.
macro_rules! lanes_of {
    ($wave:expr, $inst:expr, $n:expr, $room:ident) => {
        match $inst.src[$n] {
            crate::inst::Src::Vgpr(reg) if $inst.shape == crate::inst::Shape::Plain => {
                &$wave.v[usize::from(reg)]
            }
            _ => {
                $room = $wave.raw($inst, $n);
                &$room
            }
        }
    };
}
pub(crate) use lanes_of;

/// IB_STS: the next vector memory instruction is executed by the lanes of XNACK_MASK (gfx942).
pub(crate) const FIRST_REPLAY: u32 = 1 << 15;

/// Reason why an instruction did not complete.
#[derive(Debug)]
pub(crate) enum Halt {
    Fault {
        fault: Fault,
        write: bool,
    },
    Illegal(String),
    /// Invalid operand or register access.
    Violation(String),
    /// Address out of range or misaligned.
    Address(String),
    Trap(u8),
    Message(Message),
}

pub(crate) type Step = Result<(), Halt>;

pub(crate) fn violation<T>(text: impl Into<String>) -> Result<T, Halt> {
    Err(Halt::Violation(text.into()))
}

pub(crate) fn bad_address<T>(text: impl Into<String>) -> Result<T, Halt> {
    Err(Halt::Address(text.into()))
}

/// Scheduling state of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Waiting at `s_barrier`.
    Barrier,
    /// Gave up the rest of its slice (`s_sleep`).
    Yield,
    /// Waiting for signals of the barrier with this number (gfx1201).
    Signals(usize),
    /// Waiting for the reply to `MSG_RTN_SAVE_WAVE` (gfx1201).
    Reply,
    /// Waiting for GWS.
    Gws(u64),
    /// Waiting to execute a memory access again.
    Nack,
    /// STATUS.HALT is set outside of a trap handler.
    Halted,
    Ended,
    /// Ended by `s_endpgm_saved`.
    Saved,
}

impl State {
    /// Returns whether the wave executes no more instructions.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, State::Ended | State::Saved)
    }
}

/// Bit of the reply to MSG_SAVEWAVE, and of EXEC in a wave that is restored: the wave has the LDS
/// of its workgroup in its record.
pub(crate) const FIRST_WAVE: u64 = 1 << 58;

/// State of a wave.
pub(crate) struct Wave {
    pub(crate) isa: Isa,
    /// 32 lanes and 32-bit lane masks.
    pub(crate) wave32: bool,
    pub(crate) pc: u64,
    pub(crate) state: State,
    pub(crate) scc: bool,
    /// Scalar registers by [`code`]: SGPRs, FLAT_SCRATCH, XNACK_MASK, VCC, M0, EXEC.
    pub(crate) s: [u32; code::COUNT],
    /// Index of FLAT_SCRATCH in `s`.
    pub(crate) alias: u8,
    /// Architectural VGPRs, then accumulators.
    pub(crate) v: Vec<Lanes>,
    /// Number of architectural registers in `v`.
    pub(crate) arch: u16,
    pub(crate) mode: u32,
    /// TRAPSTS; EXCP_FLAG_PRIV on gfx1201.
    pub(crate) trapsts: u32,
    /// EXCP_FLAG_USER and TRAP_CTRL (gfx1201).
    pub(crate) excp_user: u32,
    pub(crate) trap_ctrl: u32,
    /// Per barrier: its completion count at the wave's last wait (gfx1201).
    pub(crate) rounds: [u32; BARRIERS],
    pub(crate) priority: u8,
    /// STATUS.PRIV: in the trap handler.
    pub(crate) privileged: bool,
    /// STATUS.HALT.
    pub(crate) halt: bool,
    /// An exception is raised that traps before the next instruction.
    pub(crate) raised: bool,
    /// Sent MSG_SAVEWAVE and waits for the address of its record in these two scalar registers.
    pub(crate) asks: Option<u8>,
    /// STATUS.NO_VGPRS: released its VGPRs (gfx1201).
    pub(crate) no_vgprs: bool,
    /// Other bits of STATUS and IB_STS (STATE_PRIV and SCHED_MODE on gfx1201), as written by a trap
    /// handler.
    pub(crate) status: u32,
    pub(crate) ib_sts: u32,
    /// Lanes written by the current vector instruction.
    pub(crate) mask: u64,
    /// Lanes whose part of the current memory instruction is complete.
    pub(crate) complete: u64,
    pub(crate) scratch: u64,
    pub(crate) apertures: Apertures,
    pub(crate) workgroup: [u32; 3],
    pub(crate) index: u32,
    /// Where it runs.
    pub(crate) slots: WaveSlots,
    /// Number of instructions executed.
    pub(crate) executed: u64,
    /// Instructions in flight, if results come late.
    pub(crate) flight: Option<Box<Flight>>,
}

/// Returns the initial MODE. gfx1201 has no DX10_CLAMP and IEEE bits: it behaves as if both were
/// set.
fn mode(d: &Dispatch) -> u32 {
    let float = d.rsrc1 >> 12 & 0xff | (d.rsrc1 >> 26 & 1) << 23;
    match d.isa {
        Isa::Gfx942 => {
            float
                | (d.rsrc1 >> 21 & 1) << 8
                | (d.rsrc1 >> 23 & 1) << 9
                | (d.rsrc2 >> 24 & 0x7f) << 12
                | (d.rsrc2 >> 13 & 3) << 19
        }
        Isa::Gfx1201 => float | 3 << 8,
    }
}

impl Wave {
    /// Returns wave `index` of a workgroup in its initial state.
    pub(crate) fn new(d: &Dispatch, workgroup: [u32; 3], extent: [u32; 3], index: u32) -> Self {
        let mut s = [UNDEFINED; code::COUNT];
        s[usize::from(code::ZERO)..usize::from(code::SINK)].fill(0);
        let lanes = d.lanes();
        let in_sgprs = d.isa == Isa::Gfx942;
        let mut at = 0;
        let mut put = |value: u32| {
            s[at] = value;
            at += 1;
        };
        d.user_sgprs.iter().for_each(|&value| put(value));
        for (axis, &id) in workgroup.iter().enumerate() {
            if in_sgprs && d.rsrc2 >> (7 + axis) & 1 != 0 {
                put(id);
            }
        }
        let items: u32 = extent.iter().product();
        if in_sgprs && d.rsrc2 >> 10 & 1 != 0 {
            put(u32::from(index == 0) << 31 | items.div_ceil(lanes));
        }
        let mut wave = Wave::blank(d, workgroup, index, s);
        wave.scratch = d
            .scratch
            .wave_base(d.wave_number(d.linear(workgroup), index));
        match d.isa {
            Isa::Gfx942 => wave.set_s64(wave.alias, wave.scratch),
            Isa::Gfx1201 => wave.describe_workgroup(d.rsrc2 >> 9 & 1 != 0),
        }
        let first = index * lanes;
        let active = (items - first).min(lanes);
        wave.set_exec(u64::MAX >> (LANES as u32 - active));
        if d.trap.is_some() && d.isa == Isa::Gfx942 {
            wave.describe_to_handler();
        }
        let components = d.rsrc2 >> 11 & 3;
        for lane in 0..active {
            let item = first + lane;
            let x = item % extent[0];
            let y = if components >= 1 {
                item / extent[0] % extent[1]
            } else {
                0
            };
            let z = if components >= 2 {
                item / extent[0] / extent[1]
            } else {
                0
            };
            wave.v[0][lane as usize] = x | y << 10 | z << 20;
        }
        wave
    }

    fn blank(d: &Dispatch, workgroup: [u32; 3], index: u32, s: [u32; code::COUNT]) -> Self {
        Wave {
            isa: d.isa,
            wave32: d.wave32,
            pc: d.entry,
            state: State::Ready,
            scc: false,
            s,
            alias: d.alias(),
            v: vec![[UNDEFINED; LANES]; d.vgprs()],
            mode: mode(d),
            arch: d.arch_vgprs() as u16,
            trapsts: 0,
            excp_user: 0,
            trap_ctrl: d.rsrc2 >> 24 & 0x7f | (d.rsrc2 >> 13 & 1) << 7,
            rounds: [0; BARRIERS],
            priority: (d.rsrc1 >> 10 & 3) as u8,
            privileged: false,
            halt: false,
            raised: false,
            asks: None,
            no_vgprs: false,
            status: 0,
            ib_sts: 0,
            mask: 0,
            complete: 0,
            scratch: 0,
            apertures: d.apertures,
            workgroup,
            index,
            slots: WaveSlots::default(),
            executed: 0,
            flight: None,
        }
    }

    /// Returns a wave that starts in the restore routine of the trap handler, with the address of
    /// its record in EXEC. All other registers are undefined.
    pub(crate) fn restored(
        d: &Dispatch,
        trap: Trap,
        workgroup: [u32; 3],
        saved: &SavedWave,
    ) -> Self {
        let mut s = [UNDEFINED; code::COUNT];
        s[usize::from(code::ZERO)..usize::from(code::SINK)].fill(0);
        let mut wave = Wave::blank(d, workgroup, saved.index, s);
        wave.scratch = match d.isa {
            Isa::Gfx942 => d.scratch.slot_base(saved.scratch_slot),
            // SCRATCH_BASE is written by the handler.
            Isa::Gfx1201 => UNDEFINED.into(),
        };
        wave.pc = trap.tba + RESTORE_ENTRY;
        wave.privileged = true;
        wave.set_s64(code::EXEC, saved.record);
        wave
    }

    /// Returns the position of the wave.
    pub(crate) fn place(&self) -> Where {
        Where {
            pc: self.pc,
            workgroup: self.workgroup,
            wave: self.index,
        }
    }

    /// Returns the number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        if self.wave32 {
            LANES / 2
        } else {
            LANES
        }
    }

    /// Reads a mask with one bit per lane.
    pub(crate) fn lane_mask(&self, code: u8) -> u64 {
        if self.wave32 {
            u64::from(self.s[usize::from(code)])
        } else {
            self.s64(code)
        }
    }

    pub(crate) fn set_lane_mask(&mut self, code: u8, value: u64) {
        if self.wave32 {
            self.s[usize::from(code)] = value as u32;
        } else {
            self.set_s64(code, value);
        }
    }

    pub(crate) fn exec(&self) -> u64 {
        self.lane_mask(code::EXEC)
    }

    pub(crate) fn set_exec(&mut self, value: u64) {
        self.set_lane_mask(code::EXEC, value);
    }

    pub(crate) fn vcc(&self) -> u64 {
        self.lane_mask(self.alias + (code::VCC - code::FLAT_SCRATCH))
    }

    /// Returns the lanes that execute a vector memory instruction: in a replay those that have not
    /// completed it (gfx942).
    pub(crate) fn replayed(&self) -> u64 {
        match self.ib_sts & FIRST_REPLAY {
            0 => self.exec(),
            _ => self.exec() & self.s64(self.xnack_mask()),
        }
    }

    /// Notes the lanes that execute the vector memory instruction again.
    pub(crate) fn replay_later(&mut self) {
        let left = self.replayed() & !self.complete;
        self.ib_sts |= FIRST_REPLAY;
        self.set_s64(self.xnack_mask(), left);
    }

    fn xnack_mask(&self) -> u8 {
        self.alias + (code::XNACK_MASK - code::FLAT_SCRATCH)
    }

    pub(crate) fn m0(&self) -> u32 {
        self.s[usize::from(code::M0)]
    }

    pub(crate) fn s64(&self, code: u8) -> u64 {
        let at = usize::from(code);
        u64::from(self.s[at]) | u64::from(self.s[at + 1]) << 32
    }

    pub(crate) fn set_s64(&mut self, code: u8, value: u64) {
        let at = usize::from(code);
        self.s[at] = value as u32;
        self.s[at + 1] = (value >> 32) as u32;
    }

    fn special(&self, code: u8) -> u64 {
        let window = u64::from(u32::MAX);
        match code {
            code::SHARED_BASE => self.apertures.shared,
            code::SHARED_LIMIT => self.apertures.shared | window,
            code::PRIVATE_BASE => self.apertures.private,
            code::PRIVATE_LIMIT => self.apertures.private | window,
            code::VCCZ => u64::from(self.vcc() == 0),
            code::EXECZ => u64::from(self.exec() == 0),
            _ => u64::from(self.scc),
        }
    }

    /// Reads a 32-bit scalar source. The low half of an aperture is 0, as on silicon.
    pub(crate) fn scalar(&self, src: Src) -> u32 {
        match src {
            Src::Sgpr(code) => self.s[usize::from(code)],
            Src::Imm(value) => value as u32,
            Src::Special(code @ (code::SHARED_LIMIT | code::PRIVATE_LIMIT)) => {
                let _ = code;
                0
            }
            Src::Special(code) => self.special(code) as u32,
            Src::Vgpr(_) | Src::None => 0,
        }
    }

    /// Reads a 64-bit scalar source.
    pub(crate) fn scalar64(&self, src: Src) -> u64 {
        match src {
            Src::Sgpr(code) => self.s64(code),
            Src::Imm(value) => value,
            Src::Special(code) => self.special(code),
            Src::Vgpr(_) | Src::None => 0,
        }
    }

    /// Reads source `n` of a vector instruction, before `abs` and `neg`.
    pub(crate) fn raw(&self, i: &Valu, n: usize) -> Lanes {
        let lanes = match i.src[n] {
            Src::Vgpr(reg) => self.v[usize::from(reg)],
            other => [self.scalar(other); LANES],
        };
        match i.shape {
            crate::inst::Shape::Plain => lanes,
            _ => self.shaped(i, n, lanes),
        }
    }

    /// Reads 64-bit source `n`, before `abs` and `neg`.
    pub(crate) fn raw64(&self, i: &Valu, n: usize) -> Lanes64 {
        match i.src[n] {
            Src::Vgpr(reg) => {
                let at = usize::from(reg);
                let (low, high) = (&self.v[at], &self.v[at + 1]);
                let pair = |low: &Lanes, high: &Lanes| {
                    std::array::from_fn(|l| u64::from(low[l]) | u64::from(high[l]) << 32)
                };
                match i.shape {
                    crate::inst::Shape::Plain => pair(low, high),
                    _ => pair(&self.shaped(i, n, *low), &self.shaped(i, n, *high)),
                }
            }
            other => [self.scalar64(other); LANES],
        }
    }

    /// Writes the lanes of a register that are set in `mask`.
    pub(crate) fn write(&mut self, reg: usize, mask: u64, lanes: &Lanes) {
        let to = &mut self.v[reg];
        if mask == u64::MAX {
            *to = *lanes;
            return;
        }
        if mask == u64::from(u32::MAX) {
            to[..32].copy_from_slice(&lanes[..32]);
            return;
        }
        for (l, (to, from)) in to.iter_mut().zip(lanes).enumerate() {
            if mask >> l & 1 != 0 {
                *to = *from;
            }
        }
    }

    /// Writes a 32-bit result.
    pub(crate) fn put(&mut self, i: &Valu, lanes: Lanes) {
        let (reg, mask) = (usize::from(i.dst), self.mask);
        match i.shape {
            crate::inst::Shape::Sdwa(sdwa) => {
                let old = self.v[reg];
                let lanes = std::array::from_fn(|l| lanes::sdwa_merge(sdwa, old[l], lanes[l]));
                self.write(reg, mask, &lanes);
            }
            _ => self.write(reg, mask, &lanes),
        }
    }

    /// Writes a 64-bit result.
    pub(crate) fn put64(&mut self, i: &Valu, lanes: &Lanes64) {
        let (reg, mask) = (usize::from(i.dst), self.mask);
        self.write(reg, mask, &lanes.map(|v| v as u32));
        self.write(reg + 1, mask, &lanes.map(|v| (v >> 32) as u32));
    }
}
